/* Archives opened and read. The oracle is tests/data/(name).json, written by the original
 * tools. */
#include "library.h"
#include "test.h"
#include <time.h>
#include "known.h"

/* ---- Boxes by path, for patches ---- */

static size_t box_find(const uint8_t *d, size_t size, const char *path) { return box_at(d, 0, size, path); }

/* Puts bytes at the end of the box at path, which lies behind all sample data. Returns the new size; d has room. */
static size_t box_append(uint8_t *d, size_t size, const char *path, const void *bytes, size_t n)
{
    size_t parents[16], end;
    int depth = 0;
    size_t at = box_chain(d, 0, size, path, parents, &depth);
    end = at + be_get(d + at, 4);
    memmove(d + end + n, d + end, size - end);
    memcpy(d + end, bytes, n);
    for (int i = 0; i < depth; i++)
        be_put(d + parents[i], be_get(d + parents[i], 4) + n, 4);
    return size + n;
}

/* ---- The archives as they are ---- */

static void check_image(const facts *f, const fact_sample *s, const fact_image *m, const bzna_image_info *image)
{
    CHECK_EQ(image->codec, m->codec[0] == 'h' ? BZNA_CODEC_H265 : BZNA_CODEC_H264);
    CHECK_EQ(image->fourcc, be_get((const uint8_t *)m->codec, 4));
    CHECK_EQ(image->width, m->width);
    CHECK_EQ(image->height, m->height);
    CHECK_EQ(image->frame_width, m->frame_width);
    CHECK_EQ(image->frame_height, m->frame_height);
    CHECK_EQ(image->crop_x, 0);
    CHECK_EQ(image->crop_y, 0);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(image->clap[i], m->clap_count ? m->clap[i] : 0);
    CHECK_EQ(image->data_offset, m->at);
    CHECK_EQ(image->data_size, m->size);
    CHECK_EQ(image->length_size, 4);
    CHECK(image->config_offset > (uint64_t)s->offset &&
          image->config_offset + image->config_size < (uint64_t)(s->offset + s->size));
    (void)f;
}

/* What is read and what is told of a picture agree. */
static void check_same_picture(const bzna_image *image, const bzna_image_info *info)
{
    CHECK(image->codec == info->codec && image->width == info->width && image->height == info->height);
    CHECK(image->frame_width == info->frame_width && image->frame_height == info->frame_height);
    CHECK(image->crop_x == info->crop_x && image->crop_y == info->crop_y && image->length_size == info->length_size);
    CHECK(!memcmp(&image->color, &info->color, sizeof info->color));
    CHECK(image->config_size == info->config_size && image->data_size == info->data_size);
}

/* Everything that the .json says but the pixels. */
static void check_archive(const facts *f, const bzna_dataset *dataset, const uint8_t *file, uint64_t file_size)
{
    static const uint32_t brands[3] = { BZI_FOURCC('i', 's', 'o', 'm'), BZI_FOURCC('b', 'z', 'n', 'a'),
                                        BZI_FOURCC('i', 's', 'o', 'm') };
    bzna_dataset_info info;
    bzna_error err = fresh_error();
    uint8_t *buffer = malloc(200000);
    CHECK_EQ(bzna_dataset_count(dataset), f->count);
    REQUIRE(bzna_dataset_get_info(dataset, &info, sizeof info, NULL) == BZNA_OK);
    CHECK_EQ(info.size_bytes, file_size);
    CHECK_EQ(info.sample_count, f->count);
    CHECK_EQ(info.track_count, f->track_count);
    CHECK_EQ(info.target_count, 6);
    CHECK_EQ(info.brand_count, 3);
    CHECK(!memcmp(info.brands, brands, sizeof brands));
    for (uint32_t t = 0; t < 4; t++) {
        bzna_track_info track;
        REQUIRE(bzna_dataset_track_info(dataset, t, &track, sizeof track, NULL) == BZNA_OK);
        CHECK_STR(track.name, f->tracks[t]);
        CHECK_EQ(track.handler, t == 3 ? BZI_FOURCC('v', 'i', 'd', 'e') : BZI_FOURCC('m', 'e', 't', 'a'));
        CHECK_EQ(track.format,
                 t == 3 ? be_get((const uint8_t *)f->samples[0].images[0].codec, 4) : BZI_FOURCC('m', 'e', 't', 't'));
        CHECK_STR(track.mime, t == 0 ? "video/mp4" : t == 1 ? "application/octet-stream" : t == 2 ? "text/plain" : "");
        CHECK_EQ(track.flags, t == 3 ? 3 : 0);
        CHECK_EQ(track.sample_count, t == 1 ? 6 : 8);
    }
    for (int i = 0; i < f->count; i++) {
        const fact_sample *s = &f->samples[i];
        bzna_sample_ref sample;
        char name[64];
        size_t needed;
        int64_t target;
        memset(&sample, 0, sizeof sample);
        sample.struct_size = sizeof sample;
        CHECK(bzna_dataset_sample(dataset, (uint64_t)i, &sample, sizeof sample, &err) == BZNA_OK);
        CHECK_EQ(sample.index, i);
        CHECK_EQ(sample.offset, s->offset);
        CHECK_EQ(sample.size, s->size);
        CHECK_EQ(sample.target, s->target);
        CHECK_EQ(sample.image_count, s->image_count);
        CHECK(bzna_dataset_target(dataset, (uint64_t)i, &target, &err) == BZNA_OK && target == s->target);
        CHECK(bzna_dataset_field(dataset, (uint64_t)i, "name", name, sizeof name, &needed, &err) == BZNA_OK);
        CHECK_STR(name, s->filename);
        CHECK_EQ(needed, strlen(s->filename) + 1);
        for (int k = 0; k < s->image_count; k++) {
            const fact_image *m = &s->images[k];
            bzna_image image;
            bzna_image_info told;
            CHECK_STR(sample.image_names[k], m->name);
            bzna_image_init(&image, sizeof image);
            CHECK(bzna_dataset_read_image(dataset, (uint64_t)i, m->name, buffer, (size_t)s->size, &image, &err) ==
                  BZNA_OK);
            CHECK(bzna_dataset_image_info(dataset, (uint64_t)i, m->name, &told, sizeof told, &err) == BZNA_OK);
            check_image(f, s, m, &told);
            check_same_picture(&image, &told);
            CHECK(image.data == buffer + (m->at - s->offset));
            CHECK(image.data && !memcmp(image.data, file + m->at, (size_t)m->size));
            CHECK((const uint8_t *)image.config == buffer + (told.config_offset - (uint64_t)s->offset));
            CHECK(!memcmp(image.config, file + told.config_offset, (size_t)image.config_size));
            CHECK(!memcmp(buffer, file + s->offset, (size_t)s->size));
        }
    }
    free(buffer);
}

TEST(mini_archives_open_by_path_as_their_facts_say)
{
    for (int a = 0; a < 2; a++) {
        counter c;
        bzna_context *context = context_of(&c);
        bzna_dataset *dataset = NULL;
        bzna_error err = fresh_error();
        size_t size;
        uint8_t *file = slurp(archives[a], &size);
        CHECK_EQ(bzna_dataset_open(context, archives[a], NULL, &dataset, &err), BZNA_OK);
        REQUIRE(dataset);
        check_archive(&known[a], dataset, file, size);
        CHECK(bzna_dataset_close(dataset) == BZNA_OK && bzna_context_close(context) == BZNA_OK);
        CHECK_ALL_FREED(c);
        free(file);
    }
}

TEST(mini_archives_open_the_same_from_a_source_of_short_reads)
{
    static const uint64_t steps[] = { 0, 1, 7 };
    for (int a = 0; a < 2; a++)
        for (int k = 0; k < 3; k++) {
            counter c;
            memory_source m;
            bzna_context *context = context_of(&c);
            bzna_dataset *dataset = NULL;
            bzna_error err = fresh_error();
            size_t size;
            uint8_t *file = slurp(archives[a], &size);
            bzna_source source = source_of(&m, file, size);
            m.read_max = steps[k];
            CHECK_EQ(bzna_dataset_open_source(context, &source, NULL, &dataset, &err), BZNA_OK);
            REQUIRE(dataset);
            check_archive(&known[a], dataset, file, size);
            CHECK_EQ(m.closes, 0);
            bzna_dataset_close(dataset);
            CHECK_EQ(m.closes, 1);
            bzna_context_close(context);
            CHECK_ALL_FREED(c);
            free(file);
        }
}

TEST(opening_reads_no_sample)
{
    counter c;
    memory_source m;
    bzna_context *context = context_of(&c);
    bzna_dataset *dataset = NULL;
    size_t size;
    uint8_t *file = slurp(archives[0], &size);
    bzna_source source = source_of(&m, file, size);
    CHECK_EQ(bzna_dataset_open_source(context, &source, NULL, &dataset, NULL), BZNA_OK);
    CHECK(m.reads <= 7); /* ftyp, mdat and moov: headers; ftyp, moov and targets: contents */
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    free(file);
}

#ifndef BENZINA_NO_AVCODEC
static void check_frames(const facts *f, bzna_context *context, bzna_dataset *dataset)
{
    bzna_decoder *decoder = NULL;
    bzna_error err = fresh_error();
    uint8_t *buffer = malloc(200000);
    CHECK_EQ(bzna_decoder_open(context, &decoder, &err), BZNA_OK);
    for (int i = 0; i < f->count && decoder; i++)
        for (int k = 0; k < f->samples[i].image_count; k++) {
            const fact_image *m = &f->samples[i].images[k];
            bzna_image image = { .struct_size = sizeof image };
            bzna_picture picture = { .struct_size = sizeof picture };
            char md5[33] = "";
            CHECK_EQ(bzna_dataset_read_image(dataset, (uint64_t)i, m->name, buffer, 200000, &image, &err), BZNA_OK);
            CHECK_EQ(bzna_decoder_decode(decoder, &image, &picture, &err), BZNA_OK);
            REQUIRE(picture.plane[0] && picture.plane[1] && picture.plane[2]);
            CHECK(picture.depth == 8 && picture.chroma_shift_x == 1 && picture.chroma_shift_y == 1);
            CHECK(picture.width == m->width && picture.height == m->height);
            CHECK(picture.frame_width == m->frame_width && picture.frame_height == m->frame_height);
            CHECK(picture.color.present && picture.color.full_range && picture.color.matrix == 5);
            CHECK(!picture.chroma_left && !picture.chroma_top);
            picture_md5(&picture, md5);
            CHECK_STR(md5, m->md5);
        }
    CHECK_EQ(bzna_decoder_close(decoder), BZNA_OK);
    free(buffer);
}
#endif

TEST(every_frame_decodes_to_the_md5_of_its_planes)
{
#ifdef BENZINA_NO_AVCODEC
    SKIP("built without libavcodec [libavcodec-dev]");
#else
    for (int a = 0; a < 2; a++)
        for (int from_source = 0; from_source < 2; from_source++) {
            counter c;
            memory_source m;
            size_t size;
            bzna_context *context = context_of(&c);
            bzna_dataset *dataset = NULL;
            uint8_t *file = slurp(archives[a], &size);
            bzna_source source = source_of(&m, file, size);
            m.read_max = 5000;
            CHECK_EQ(from_source ? bzna_dataset_open_source(context, &source, NULL, &dataset, NULL) :
                     bzna_dataset_open(context, archives[a], NULL, &dataset, NULL), BZNA_OK);
            REQUIRE(dataset);
            check_frames(&known[a], context, dataset);
            bzna_dataset_close(dataset);
            bzna_context_close(context);
            CHECK_ALL_FREED(c);
            free(file);
        }
#endif
}

/* ---- Arguments and edges ---- */

typedef struct opened {
    counter c;
    bzna_context *context;
    bzna_dataset *dataset;
    uint8_t *file;
    size_t size;
    memory_source m;
} opened;

/* A data set over a private copy of an archive, with room for changes. */
static int open_copy(opened *o, int a)
{
    size_t size;
    uint8_t *bytes = slurp(archives[a], &size);
    memset(o, 0, sizeof *o);
    o->file = calloc(size + 65536, 1);
    memcpy(o->file, bytes, size);
    free(bytes);
    o->size = size;
    o->context = context_of(&o->c);
    return 1;
}

static bzna_status open_now(opened *o, bzna_error *err)
{
    bzna_source source = source_of(&o->m, o->file, o->size);
    return bzna_dataset_open_source(o->context, &source, NULL, &o->dataset, err);
}

static void close_all(opened *o)
{
    bzna_dataset_close(o->dataset);
    bzna_context_close(o->context);
    CHECK_ALL_FREED(o->c);
    CHECK_EQ(o->m.closes, o->dataset ? 1 : 0);
    free(o->file);
}

/* The open must fail: with that status, no data set, the source left alone, nothing kept. Then *err is checked by the
 * caller. */
static bzna_error open_fails(opened *o, bzna_status status)
{
    bzna_error err = fresh_error();
    o->dataset = (bzna_dataset *)(void *)o;
    CHECK_EQ(open_now(o, &err), status);
    CHECK(o->dataset == NULL);
    CHECK_EQ(err.status, status);
    CHECK(err.message[0] != 0);
    return err;
}

TEST(without_a_track_the_thumbnail_comes_before_the_picture)
{
    opened o;
    bzna_image_info image;
    open_copy(&o, 0);
    REQUIRE(open_now(&o, NULL) == BZNA_OK);
    CHECK_EQ(bzna_dataset_image_info(o.dataset, 2, NULL, &image, sizeof image, NULL), BZNA_OK);
    CHECK_EQ(image.width, 512);
    CHECK_EQ(image.data_offset, known[0].samples[2].images[1].at);
    close_all(&o);
}

TEST(a_track_that_is_not_there_is_named)
{
    opened o;
    bzna_image_info image;
    bzna_error err = fresh_error();
    open_copy(&o, 0);
    REQUIRE(open_now(&o, NULL) == BZNA_OK);
    CHECK_EQ(bzna_dataset_image_info(o.dataset, 2, "bzna_mask", &image, sizeof image, &err), BZNA_E_NOT_FOUND);
    CHECK_CONTAINS(err.message, "bzna_mask");
    CHECK_CONTAINS(err.message, "sample 2");
    /* no picture */
    CHECK_EQ(bzna_dataset_image_info(o.dataset, 2, "bzna_fname", &image, sizeof image, &err), BZNA_E_NOT_FOUND);
    close_all(&o);
}

TEST(a_buffer_too_small_is_refused_and_left_alone)
{
    opened o;
    bzna_image image = { .struct_size = sizeof image };
    bzna_error err = fresh_error();
    uint8_t small[8246];
    char name[19];
    size_t needed = 0;
    open_copy(&o, 0);
    REQUIRE(open_now(&o, NULL) == BZNA_OK);
    memset(small, 0xa5, sizeof small);
    CHECK_EQ(bzna_dataset_read_image(o.dataset, 2, NULL, small, 8245, &image, &err), BZNA_E_BUFFER);
    for (size_t i = 0; i < sizeof small; i++)
        REQUIRE(small[i] == 0xa5);
    CHECK_EQ(bzna_dataset_read_image(o.dataset, 2, NULL, small, 8246, &image, &err), BZNA_OK);
    memset(name, 'x', sizeof name);
    CHECK_EQ(bzna_dataset_field(o.dataset, 0, "name", name, 19, &needed, &err), BZNA_E_BUFFER);
    CHECK_EQ(needed, 20);
    CHECK(name[0] == 'x' && name[18] == 'x');
    needed = 0;
    CHECK_EQ(bzna_dataset_field(o.dataset, 0, "name", NULL, 0, &needed, &err), BZNA_E_BUFFER);
    CHECK_EQ(needed, 20);
    CHECK_EQ(bzna_dataset_field(o.dataset, 2, "name", name, 19, &needed, NULL), BZNA_OK);
    CHECK_STR(name, "02_bars_vga.JPEG");
    close_all(&o);
}

TEST(an_index_out_of_range_is_an_error_everywhere)
{
    static const uint64_t beyond[] = { 8, (uint64_t)UINT32_MAX + 1, UINT64_MAX };
    opened o;
    open_copy(&o, 0);
    REQUIRE(open_now(&o, NULL) == BZNA_OK);
    for (int i = 0; i < 3; i++) {
        bzna_image_info image;
        bzna_sample_ref sample = { .struct_size = sizeof sample };
        bzna_error err = fresh_error();
        char name[64];
        int64_t target;
        CHECK_EQ(bzna_dataset_target(o.dataset, beyond[i], &target, &err), BZNA_E_RANGE);
        CHECK_CONTAINS(err.message, "8 samples");
        CHECK_EQ(bzna_dataset_field(o.dataset, beyond[i], "name", name, sizeof name, NULL, NULL), BZNA_E_RANGE);
        CHECK_EQ(bzna_dataset_sample(o.dataset, beyond[i], &sample, sizeof sample, NULL), BZNA_E_RANGE);
        CHECK_EQ(bzna_dataset_image_info(o.dataset, beyond[i], NULL, &image, sizeof image, NULL), BZNA_E_RANGE);
    }
    {
        bzna_track_info track;
        CHECK_EQ(bzna_dataset_track_info(o.dataset, 4, &track, sizeof track, NULL), BZNA_E_RANGE);
    }
    close_all(&o);
}

TEST(null_arguments_are_refused_and_closing_null_does_nothing)
{
    opened o;
    bzna_dataset *dataset = (bzna_dataset *)(void *)&o;
    bzna_error err = fresh_error();
    bzna_source source;
    int64_t target;
    open_copy(&o, 0);
    CHECK_EQ(bzna_dataset_open(NULL, archives[0], NULL, &dataset, &err), BZNA_E_ARGUMENT);
    CHECK(dataset == NULL);
    CHECK_CONTAINS(err.message, "context");
    CHECK_EQ(bzna_dataset_open(o.context, NULL, NULL, &dataset, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "path");
    CHECK_EQ(bzna_dataset_open(o.context, archives[0], NULL, NULL, &err), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_dataset_open_source(o.context, NULL, NULL, &dataset, &err), BZNA_E_ARGUMENT);
    source = source_of(&o.m, o.file, o.size);
    source.read_at = NULL;
    CHECK_EQ(bzna_dataset_open_source(o.context, &source, NULL, &dataset, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "read_at");
    source = source_of(&o.m, o.file, o.size);
    source.size = NULL;
    CHECK_EQ(bzna_dataset_open_source(o.context, &source, NULL, &dataset, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "size");
    CHECK_EQ(bzna_dataset_target(NULL, 0, &target, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_dataset_count(NULL), 0);
    CHECK_EQ(bzna_dataset_close(NULL), BZNA_OK);
    CHECK_EQ(bzna_context_close(NULL), BZNA_OK);
    CHECK_EQ(bzna_decoder_close(NULL), BZNA_OK);
    CHECK_EQ(bzna_writer_close(NULL), BZNA_OK);
    REQUIRE(open_now(&o, NULL) == BZNA_OK);
    CHECK_EQ(bzna_dataset_target(o.dataset, 0, NULL, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_dataset_field(o.dataset, 0, NULL, NULL, 0, NULL, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_dataset_field(o.dataset, 0, "name", NULL, 10, NULL, NULL), BZNA_E_BUFFER);
    CHECK_EQ(bzna_dataset_image_info(o.dataset, 0, NULL, NULL, 0, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_dataset_sample(o.dataset, 0, NULL, 0, NULL), BZNA_E_ARGUMENT);
    close_all(&o);
}

TEST(a_close_callback_is_optional)
{
    opened o;
    bzna_source source;
    open_copy(&o, 0);
    source = source_of(&o.m, o.file, o.size);
    source.close = NULL;
    CHECK_EQ(bzna_dataset_open_source(o.context, &source, NULL, &o.dataset, NULL), BZNA_OK);
    CHECK_EQ(bzna_dataset_close(o.dataset), BZNA_OK);
    o.dataset = NULL;
    close_all(&o);
}

TEST(a_dataset_outlives_its_context)
{
    opened o;
    int64_t target;
    open_copy(&o, 0);
    REQUIRE(open_now(&o, NULL) == BZNA_OK);
    CHECK_EQ(bzna_context_close(o.context), BZNA_OK);
    CHECK(bzna_dataset_target(o.dataset, 3, &target, NULL) == BZNA_OK && target == 111);
    o.context = NULL;
    close_all(&o);
}

TEST(messages_call_a_dataset_what_its_config_says)
{
    opened o;
    bzna_dataset_config config;
    bzna_error err = fresh_error();
    bzna_source source;
    int64_t target;
    char name[16] = "shard-7";
    open_copy(&o, 0);
    bzna_dataset_config_init(&config, sizeof config);
    config.name = name;
    source = source_of(&o.m, o.file, o.size);
    REQUIRE(bzna_dataset_open_source(o.context, &source, &config, &o.dataset, &err) == BZNA_OK);
    memset(name, 'x', 8);                                   /* it was copied */
    CHECK_EQ(bzna_dataset_target(o.dataset, 8, &target, &err), BZNA_E_RANGE);
    CHECK(!strncmp(err.message, "shard-7: ", 9));
    close_all(&o);
}

/* ---- Other shapes of archive ---- */

static void hide_track(opened *o, int track)
{
    char path[32];
    size_t at;
    snprintf(path, sizeof path, "moov/trak.%d", track);
    at = box_find(o->file, o->size, path);
    if (!at)
        exit(1);
    memcpy(o->file + at + 4, "free", 4);
}

TEST(a_missing_target_track_means_no_targets)
{
    opened o;
    open_copy(&o, 0);
    hide_track(&o, 1);
    REQUIRE(open_now(&o, NULL) == BZNA_OK);
    for (uint64_t i = 0; i < 8; i++) {
        bzna_sample_ref sample = { .struct_size = sizeof sample };
        int64_t target = 5;
        char name[64];
        CHECK(bzna_dataset_target(o.dataset, i, &target, NULL) == BZNA_OK && target == BZNA_TARGET_NONE);
        CHECK(bzna_dataset_sample(o.dataset, i, &sample, sizeof sample, NULL) == BZNA_OK &&
              sample.target == BZNA_TARGET_NONE);
        CHECK(bzna_dataset_field(o.dataset, i, "name", name, sizeof name, NULL, NULL) == BZNA_OK);
        CHECK_STR(name, known[0].samples[i].filename);
    }
    close_all(&o);
}

/* The track of targets is called otherwise: without its name there are none. */
TEST(another_track_can_have_the_targets)
{
    static const char *const names[] = { NULL, "bzna_labels", "bzna_nothing" };
    for (size_t way = 0; way < COUNT(names); way++) {
        bzna_dataset_config config = { .struct_size = sizeof config, .target = names[way] };
        bzna_error err = fresh_error();
        bzna_source source;
        bzna_status status;
        opened o;
        size_t at;
        open_copy(&o, 0);
        at = box_find(o.file, o.size, "moov/trak.1/mdia/hdlr");
        while (at && memcmp(o.file + at, "bzna_target", 11))
            at++;
        memcpy(o.file + at, "bzna_labels", 11);
        source = source_of(&o.m, o.file, o.size);
        status = bzna_dataset_open_source(o.context, &source, &config, &o.dataset, &err);
        CHECK_EQ(status, way == 2 ? BZNA_E_NOT_FOUND : BZNA_OK);
        for (uint64_t i = 0; i < 8 && o.dataset; i++) {
            int64_t target = 5;
            CHECK_EQ(bzna_dataset_target(o.dataset, i, &target, NULL), BZNA_OK);
            CHECK_EQ(target, way == 1 ? known[0].samples[i].target : BZNA_TARGET_NONE);
        }
        if (way == 2)
            CHECK_CONTAINS(err.message, "dataset_config.target: there is no field of integers \"bzna_nothing\"");
        close_all(&o);
    }
}

TEST(a_missing_file_name_track_is_not_found)
{
    opened o;
    bzna_error err = fresh_error();
    char name[64];
    int64_t target;
    open_copy(&o, 1);
    hide_track(&o, 2);
    REQUIRE(open_now(&o, NULL) == BZNA_OK);
    CHECK_EQ(bzna_dataset_field(o.dataset, 3, "name", name, sizeof name, NULL, &err), BZNA_E_NOT_FOUND);
    CHECK_CONTAINS(err.message, "3");
    CHECK(bzna_dataset_target(o.dataset, 3, &target, NULL) == BZNA_OK && target == 111);
    close_all(&o);
}

/* What is left is a plain mp4: one video track of pictures that stand alone, each frame a sample. */
TEST(a_plain_mp4_of_sync_samples_has_a_frame_a_sample)
{
    for (int a = 0; a < 2; a++) {
        opened o;
        open_copy(&o, a);
        for (int t = 2; t >= 0; t--)
            hide_track(&o, t);
        REQUIRE(open_now(&o, NULL) == BZNA_OK);
        CHECK_EQ(bzna_dataset_count(o.dataset), 8);
        for (uint64_t i = 0; i < 8; i++) {
            const fact_image *m = &known[a].samples[i].images[1];
            bzna_image image = { .struct_size = sizeof image };
            bzna_image_info info;
            bzna_sample_ref sample = { .struct_size = sizeof sample };
            uint8_t *buffer = malloc((size_t)m->size);
            CHECK_EQ(bzna_dataset_sample(o.dataset, i, &sample, sizeof sample, NULL), BZNA_OK);
            CHECK(sample.image_count == 1 && sample.offset == (uint64_t)m->at && sample.size == (uint64_t)m->size &&
                  sample.target == -1);
            CHECK_EQ(bzna_dataset_read_image(o.dataset, i, NULL, buffer, (size_t)m->size, &image, NULL), BZNA_OK);
            CHECK_EQ(bzna_dataset_image_info(o.dataset, i, NULL, &info, sizeof info, NULL), BZNA_OK);
            CHECK(info.data_offset == (uint64_t)m->at && image.data_size == (uint64_t)m->size && image.data == buffer);
            CHECK(image.width == 512 && image.height == 512 && image.frame_width == 512 && image.frame_height == 512);
            CHECK(image.config && !memcmp(image.config, o.file + info.config_offset, (size_t)image.config_size));
            CHECK(!memcmp(buffer, o.file + m->at, (size_t)m->size));
#ifndef BENZINA_NO_AVCODEC
            if (i % 3 == 0) {
                bzna_decoder *decoder = NULL;
                bzna_picture picture = { .struct_size = sizeof picture };
                char md5[33] = "";
                CHECK_EQ(bzna_decoder_open(o.context, &decoder, NULL), BZNA_OK);
                CHECK_EQ(bzna_decoder_decode(decoder, &image, &picture, NULL), BZNA_OK);
                picture_md5(&picture, md5);
                CHECK_STR(md5, m->md5);
                bzna_decoder_close(decoder);
            }
#endif
            free(buffer);
        }
        close_all(&o);
    }
}

TEST(a_video_with_frames_that_need_others_is_refused)
{
    static const uint8_t stss[20] = { 0, 0, 0, 20, 's', 't', 's', 's', 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1 };
    opened o;
    bzna_error err;
    open_copy(&o, 0);
    for (int t = 2; t >= 0; t--)
        hide_track(&o, t);
    o.size = box_append(o.file, o.size, "moov/trak/mdia/minf/stbl", stss, sizeof stss);
    err = open_fails(&o, BZNA_E_UNSUPPORTED);
    CHECK_CONTAINS(err.message, "stss");
    close_all(&o);
}

/* ISO/IEC 14496-12 8.6.2: without stss every sample is a sync sample; with one, those that it lists. All listed is the
 * same thing. */
TEST(a_sync_table_that_lists_every_sample_is_no_obstacle)
{
    uint8_t stss[48] = { 0, 0, 0, 48, 's', 't', 's', 's', 0, 0, 0, 0, 0, 0, 0, 8 };
    opened o;
    bzna_error err = fresh_error();
    for (int i = 0; i < 8; i++)
        stss[16 + 4 * i + 3] = (uint8_t)(i + 1);
    open_copy(&o, 0);
    for (int t = 2; t >= 0; t--)
        hide_track(&o, t);
    o.size = box_append(o.file, o.size, "moov/trak/mdia/minf/stbl", stss, sizeof stss);
    CHECK_EQ(open_now(&o, &err), BZNA_OK);
    CHECK_EQ(bzna_dataset_count(o.dataset), 8);
    close_all(&o);
}

/* One sample of an archive, on its own, is a plain mp4 whose video track happens to be called bzna_input. */
TEST(a_sample_cut_out_of_an_archive_opens_as_a_plain_mp4)
{
    for (int a = 0; a < 2; a++) {
        const fact_sample *s = &known[a].samples[2];
        opened o;
        bzna_error err = fresh_error();
        bzna_image_info image;
        open_copy(&o, a);
        memmove(o.file, o.file + s->offset, (size_t)s->size);
        o.size = (size_t)s->size;
        CHECK_EQ(open_now(&o, &err), BZNA_OK);
        CHECK_EQ(bzna_dataset_count(o.dataset), 1);
        CHECK_EQ(bzna_dataset_image_info(o.dataset, 0, "bzna_input", &image, sizeof image, &err), BZNA_OK);
        CHECK_EQ(image.data_offset, s->images[0].at - s->offset);
        CHECK_EQ(image.data_size, s->images[0].size);
        CHECK_EQ(image.width, s->images[0].width);
        close_all(&o);
    }
}

/* ---- Several archives, and parts of them ---- */

/* Sample k of a view is sample i of archive a. */
static void check_at(const bzna_dataset *view, uint64_t k, int a, int i)
{
    const fact_sample *s = &known[a].samples[i];
    bzna_sample_ref sample = { .struct_size = sizeof sample };
    bzna_image_info image;
    char name[64] = "";
    int64_t target = 99;
    CHECK_EQ(bzna_dataset_sample(view, k, &sample, sizeof sample, NULL), BZNA_OK);
    CHECK(sample.index == k && sample.offset == (uint64_t)s->offset && sample.size == (uint64_t)s->size &&
          sample.target == s->target);
    CHECK(bzna_dataset_target(view, k, &target, NULL) == BZNA_OK && target == s->target);
    CHECK_EQ(bzna_dataset_field(view, k, "name", name, sizeof name, NULL, NULL), BZNA_OK);
    CHECK_STR(name, s->filename);
    CHECK_EQ(bzna_dataset_image_info(view, k, "bzna_input", &image, sizeof image, NULL), BZNA_OK);
    CHECK(image.data_offset == (uint64_t)s->images[0].at && image.codec == (a ? BZNA_CODEC_H264 : BZNA_CODEC_H265));
}

TEST(archives_laid_end_to_end_count_on_and_live_as_long_as_the_whole)
{
    opened o[2];
    bzna_dataset *parts[3], *whole = NULL, *middle = NULL, *again = NULL;
    bzna_dataset_info info;
    bzna_error err = fresh_error();
    int64_t target;
    for (int a = 0; a < 2; a++) {
        open_copy(&o[a], a);
        REQUIRE(open_now(&o[a], NULL) == BZNA_OK);
    }
    parts[0] = parts[2] = o[0].dataset;
    parts[1] = o[1].dataset;
    CHECK_EQ(bzna_dataset_concat(o[0].context, parts, 3, &whole, &err), BZNA_OK);
    REQUIRE(whole);
    /* 2 of the first, all of the second, 2 of the third */
    CHECK_EQ(bzna_dataset_range(whole, 6, 12, &middle, &err), BZNA_OK);
    REQUIRE(middle);
    parts[0] = middle;
    parts[1] = whole;
    CHECK_EQ(bzna_dataset_concat(o[0].context, parts, 2, &again, &err), BZNA_OK);      /* views of views */
    REQUIRE(again);
    for (int a = 0; a < 2; a++)
        CHECK_EQ(bzna_dataset_close(o[a].dataset), BZNA_OK);
    CHECK(o[0].m.closes == 0 && o[1].m.closes == 0);
    CHECK_EQ(bzna_dataset_count(whole), 24);
    CHECK_EQ(bzna_dataset_count(middle), 12);
    CHECK_EQ(bzna_dataset_count(again), 36);
    for (int k = 0; k < 24; k++)
        check_at(whole, (uint64_t)k, k / 8 == 1, k % 8);
    for (int k = 0; k < 12; k++)
        check_at(middle, (uint64_t)k, (k + 6) / 8 == 1, (k + 6) % 8);
    for (int k = 0; k < 36; k++)
        check_at(again, (uint64_t)k, (k < 12 ? k + 6 : k - 12) / 8 == 1, (k < 12 ? k + 6 : k - 12) % 8);
    CHECK_EQ(bzna_dataset_get_info(whole, &info, sizeof info, NULL), BZNA_OK);
    CHECK(info.sample_count == 24 && info.part_count == 3 && info.size_bytes == 2 * o[0].size + o[1].size);
    CHECK_EQ(bzna_dataset_get_info(middle, &info, sizeof info, NULL), BZNA_OK);
    CHECK(info.sample_count == 12 && info.part_count == 3);
    CHECK_EQ(bzna_dataset_target(whole, 24, &target, &err), BZNA_E_RANGE);
    CHECK_EQ(target, BZNA_TARGET_NONE);
    CHECK_CONTAINS(err.message, "24 samples");
    bzna_dataset_close(whole);
    bzna_dataset_close(again);
    check_at(middle, 11, 0, 1);
    CHECK(o[0].m.closes == 0 && o[1].m.closes == 0);
    bzna_dataset_close(middle);
    CHECK(o[0].m.closes == 1 && o[1].m.closes == 1);
    for (int a = 0; a < 2; a++) {
        bzna_context_close(o[a].context);
        CHECK_ALL_FREED(o[a].c);
        free(o[a].file);
    }
}

TEST(an_archive_in_memory_is_read_where_it_lies)
{
    for (int a = 0; a < 2; a++) {
        counter c;
        bzna_context *context = context_of(&c);
        bzna_dataset *file = NULL, *dataset = NULL, *cut = NULL;
        bzna_error e = { .struct_size = sizeof e };
        long long before;
        size_t size;
        uint8_t *bytes = slurp(archives[a], &size), *buffers[2] = { malloc(1 << 20), malloc(1 << 20) };
        REQUIRE(bzna_dataset_open(context, archives[a], NULL, &file, &e) == BZNA_OK);
        before = c.blocks;
        REQUIRE(bzna_dataset_open_memory(context, bytes, size, NULL, &dataset, &e) == BZNA_OK);
        CHECK(c.blocks - before <= 12);                     /* nothing a sample but its index, no copy */
        CHECK_EQ(bzna_dataset_count(dataset), bzna_dataset_count(file));
        for (uint64_t i = 0; i < bzna_dataset_count(file); i++) {
            bzna_image images[2] = { { .struct_size = sizeof(bzna_image) }, { .struct_size = sizeof(bzna_image) } };
            int64_t targets[2];
            CHECK_EQ(bzna_dataset_read_image(file, i, NULL, buffers[0], 1 << 20, &images[0], &e), BZNA_OK);
            CHECK_EQ(bzna_dataset_read_image(dataset, i, NULL, buffers[1], 1 << 20, &images[1], &e), BZNA_OK);
            CHECK(images[0].data_size == images[1].data_size &&
                  !memcmp(images[0].data, images[1].data, (size_t)images[0].data_size));
            CHECK_EQ(bzna_dataset_target(file, i, &targets[0], &e), BZNA_OK);
            CHECK_EQ(bzna_dataset_target(dataset, i, &targets[1], &e), BZNA_OK);
            CHECK_EQ(targets[0], targets[1]);
        }
        CHECK_EQ(bzna_dataset_open_memory(context, bytes, size - 1, NULL, &cut, &e), BZNA_E_TRUNCATED);
        CHECK_CONTAINS(e.message, "memory: ");
        CHECK_EQ(bzna_dataset_open_memory(context, bytes, 0, NULL, &cut, &e), BZNA_E_FORMAT);
        CHECK_EQ(bzna_dataset_open_memory(context, NULL, 1, NULL, &cut, &e), BZNA_E_ARGUMENT);
        bzna_dataset_close(file);
        bzna_dataset_close(dataset);
        bzna_context_close(context);
        CHECK_EQ(c.blocks, 0);
        free(buffers[0]);
        free(buffers[1]);
        free(bytes);
    }
}

TEST(a_list_of_files_is_one_data_set_in_its_order)
{
    counter c;
    bzna_context *context = context_of(&c);
    const char *paths[3] = { archives[1], archives[0], archives[1] },
               *missing[2] = { archives[0], "tests/data/none.bzna" };
    bzna_dataset *parts[3] = { NULL, NULL, NULL }, *list = NULL, *whole = NULL;
    bzna_dataset_config named;
    bzna_error e = { .struct_size = sizeof e };
    REQUIRE(bzna_dataset_open_list(context, paths, 3, NULL, &list, &e) == BZNA_OK);
    for (int i = 0; i < 3; i++)
        REQUIRE(bzna_dataset_open(context, paths[i], NULL, &parts[i], &e) == BZNA_OK);
    REQUIRE(bzna_dataset_concat(context, parts, 3, &whole, &e) == BZNA_OK);
    CHECK_EQ(bzna_dataset_count(list), bzna_dataset_count(whole));
    for (uint64_t i = 0; i < bzna_dataset_count(whole); i++) {
        bzna_sample_ref a = { .struct_size = sizeof a }, b = { .struct_size = sizeof b };
        CHECK_EQ(bzna_dataset_sample(list, i, &a, sizeof a, &e), BZNA_OK);
        CHECK_EQ(bzna_dataset_sample(whole, i, &b, sizeof b, &e), BZNA_OK);
        CHECK(!memcmp(&a, &b, sizeof a));
    }
    for (int i = 0; i < 3; i++)
        bzna_dataset_close(parts[i]);
    bzna_dataset_close(list);
    bzna_dataset_close(whole);
    CHECK_EQ(bzna_dataset_open_list(context, missing, 2, NULL, &list, &e), BZNA_E_NOT_FOUND);
    CHECK(list == NULL);
    CHECK_CONTAINS(e.message, "tests/data/none.bzna: cannot open");
    CHECK_EQ(bzna_dataset_open_list(context, paths, 0, NULL, &list, &e), BZNA_E_NO_SAMPLES);
    CHECK_EQ(bzna_dataset_open_list(context, paths, 65537, NULL, &list, &e), BZNA_E_LIMIT);
    missing[1] = NULL;
    CHECK_EQ(bzna_dataset_open_list(context, missing, 2, NULL, &list, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "paths[1]");
    bzna_dataset_config_init(&named, sizeof named);
    named.name = "mine";
    CHECK_EQ(bzna_dataset_open_list(context, paths, 3, &named, &list, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "dataset_config.name");
    bzna_context_close(context);
    CHECK_EQ(c.blocks, 0);
}

TEST(ranges_outside_a_data_set_and_empty_ones_are_refused)
{
    static const struct { uint64_t first, count; bzna_status status; } cases[] = {
        { 0, 9, BZNA_E_RANGE }, { 8, 1, BZNA_E_RANGE }, { 9, 1, BZNA_E_RANGE }, { 1, UINT64_MAX, BZNA_E_RANGE },
        { UINT64_MAX, 2, BZNA_E_RANGE },
        { 3, 0, BZNA_E_NO_SAMPLES }, { 0, 8, BZNA_OK }, { 7, 1, BZNA_OK } };
    opened o;
    bzna_dataset *part, *none[1] = { NULL };
    open_copy(&o, 0);
    REQUIRE(open_now(&o, NULL) == BZNA_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bzna_error err = fresh_error();
        part = (bzna_dataset *)(void *)&o;
        CHECK_EQ(bzna_dataset_range(o.dataset, cases[i].first, cases[i].count, &part, &err), cases[i].status);
        CHECK((part != NULL) == (cases[i].status == BZNA_OK));
        CHECK_EQ(err.status, cases[i].status);
        bzna_dataset_close(part);
    }
    CHECK_EQ(bzna_dataset_range(NULL, 0, 1, &part, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_dataset_range(o.dataset, 0, 1, NULL, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_dataset_concat(o.context, NULL, 1, &part, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_dataset_concat(o.context, none, 1, &part, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_dataset_concat(o.context, &o.dataset, 0, &part, NULL), BZNA_E_ARGUMENT);
    CHECK(part == NULL);
    o.c.fail_at = o.c.calls + 1;                            /* one allocation: the view with its parts */
    CHECK_EQ(bzna_dataset_concat(o.context, &o.dataset, 1, &part, NULL), BZNA_E_MEMORY);
    CHECK(part == NULL);
    o.c.fail_at = 0;
    close_all(&o);
}

/* ---- Bad files ---- */

TEST(files_that_cannot_be_opened_say_why)
{
    static const struct { const char *name, *bytes; size_t size; bzna_status status; const char *says; } files[] = {
        { "empty", "", 0, BZNA_E_FORMAT, "empty" },
        { "text", "Lorem ipsum dolor sit amet, consectetur", 39, BZNA_E_FORMAT, "of no known kind" },
        { "png", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16, BZNA_E_FORMAT, "it is one picture" },
        { "short", "\0\0\0\x18" "ft", 6, BZNA_E_FORMAT, "of no known kind" },
        { "only_ftyp", "\0\0\0\x10" "ftypisom\0\0\0\0", 16, BZNA_E_TRUNCATED, "moov" },
        { "unfinished", "\0\0\0\x10" "ftypisom\0\0\0\0\0\0\0\1mdat\0\0\0\0\0\0\0\0abcdefgh", 40, BZNA_E_UNFINISHED,
            "not finished" },
        { "unfinished_at_once", "\0\0\0\x10" "ftypisom\0\0\0\0\0\0\0\1mdat\0\0\0\0\0\0\0\0", 32, BZNA_E_UNFINISHED,
            "mdat" },
        { "no_tracks", "\0\0\0\x10" "ftypisom\0\0\0\0\0\0\0\x08moov", 24, BZNA_E_NO_SAMPLES, "bzna_input" } };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[256];
        counter c;
        bzna_context *context = context_of(&c);
        bzna_dataset *dataset = (bzna_dataset *)(void *)&c;
        bzna_error err = fresh_error();
        snprintf(path, sizeof path, "%s/tests/08_%s.bin", TEST_BUILD, files[i].name);
        spill(path, files[i].bytes, files[i].size);
        CHECK_EQ(bzna_dataset_open(context, path, NULL, &dataset, &err), files[i].status);
        CHECK(dataset == NULL);
        CHECK_EQ(err.status, files[i].status);
        CHECK_CONTAINS(err.message, files[i].says);
        CHECK_CONTAINS(err.message, files[i].name);         /* the path stands in the message */
        bzna_context_close(context);
        CHECK_ALL_FREED(c);
        remove(path);
    }
}

/* The lowest free file descriptor tells whether one was left open. */
TEST(files_are_closed_when_open_fails_and_when_the_data_set_ends)
{
    int before = dup(0), after;
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    close(before);
    REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
    CHECK_EQ(bzna_dataset_open(context, "tests/data/affine.txt", NULL, &dataset, NULL), BZNA_E_FORMAT);
    CHECK_EQ(bzna_dataset_open(context, "tests/make", NULL, &dataset, NULL), BZNA_E_NO_SAMPLES);
    CHECK_EQ(bzna_dataset_open(context, archives[0], NULL, &dataset, NULL), BZNA_OK);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    after = dup(0);
    close(after);
    CHECK_EQ(after, before);
}

TEST(missing_files_and_folders_without_pictures_are_refused)
{
    counter c;
    bzna_context *context = context_of(&c);
    bzna_dataset *dataset = (bzna_dataset *)(void *)&c;
    bzna_error err = fresh_error();
    CHECK_EQ(bzna_dataset_open(context, "tests/data/nowhere.bzna", NULL, &dataset, &err), BZNA_E_NOT_FOUND);
    CHECK(dataset == NULL);
    CHECK_EQ(err.native_code, ENOENT);
    CHECK_EQ(err.byte_offset, BZNA_NO_OFFSET);
    CHECK_CONTAINS(err.message, "tests/data/nowhere.bzna");
    CHECK_EQ(bzna_dataset_open(context, "tests/data/affine.txt/x", NULL, &dataset, &err), BZNA_E_NOT_FOUND);
    CHECK_EQ(bzna_dataset_open(context, "tests/make", NULL, &dataset, &err), BZNA_E_NO_SAMPLES);
    CHECK_EQ(bzna_dataset_open(context, "/dev/null", NULL, &dataset, &err), BZNA_E_UNSUPPORTED);  /* it cannot seek */
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
}

/* Looks at everything, and expects nothing but an end. Returns how many samples could be read. */
static int walk_all(const bzna_dataset *dataset)
{
    static uint8_t buffer[1 << 20];
    int good = 0;
    uint64_t count = bzna_dataset_count(dataset) < 64 ? bzna_dataset_count(dataset) : 64;
    for (uint64_t i = 0; i < count; i++) {
        bzna_error err = fresh_error();
        bzna_sample_ref sample = { .struct_size = sizeof sample };
        bzna_image image = { .struct_size = sizeof image };
        char name[256];
        int64_t target;
        bzna_status status = bzna_dataset_sample(dataset, i, &sample, sizeof sample, &err);
        if (status < 0)
            CHECK(err.status == status && strstr(err.message, "sample"));
        bzna_dataset_target(dataset, i, &target, &err);
        bzna_dataset_field(dataset, i, "name", name, sizeof name, NULL, &err);
        status = bzna_dataset_read_image(dataset, i, "bzna_input", buffer, sizeof buffer, &image, &err);
        if (status == BZNA_OK) {
            bzi_format sps;
            size_t needed;
            CHECK(image.data && (const uint8_t *)image.data >= buffer &&
                  (const uint8_t *)image.data + image.data_size <= buffer + sizeof buffer);
            bzna_image_annexb(&image, NULL, 0, &needed, &err);
            bzi_image_sps(&image, &sps, &err);
            good++;
        }
    }
    return good;
}

/* Every length near the boxes, every 31st within mdat, where nothing is looked at. */
TEST(an_archive_cut_off_at_any_byte_is_refused)
{
    opened o;
    size_t whole;
    open_copy(&o, 0);
    whole = o.size;
    for (size_t size = 0; size < whole; size += size > 100 && size < whole - 5000 ? 31 : 1) {
        bzna_error err = fresh_error();
        bzna_status status;
        o.dataset = (bzna_dataset *)(void *)&o;
        o.size = size;
        status = open_now(&o, &err);
        if (status >= 0 || o.dataset || err.status != status ||
            (status != BZNA_E_TRUNCATED && status != (size < 8 ? BZNA_E_FORMAT : BZNA_E_TRUNCATED))) {
            printf("  cut at %zu: %s: %s\n", size, bzna_status_name(status), err.message);
            test_failures++;
            break;
        }
    }
    o.dataset = NULL;
    close_all(&o);
}

TEST(an_archive_file_cut_off_is_refused_when_mapped_too)
{
    static const size_t from_end[] = { 1, 7, 100, 4540, 4541, 4542, 150000, 210310, 210349 };
    opened o;
    char path[256];
    open_copy(&o, 0);
    snprintf(path, sizeof path, "%s/tests/08_cut.bzna", TEST_BUILD);
    for (size_t i = 0; i < sizeof from_end / sizeof *from_end; i++) {
        bzna_error err = fresh_error();
        bzna_status status;
        spill(path, o.file, o.size - from_end[i]);
        o.dataset = (bzna_dataset *)(void *)&o;
        status = bzna_dataset_open(o.context, path, NULL, &o.dataset, &err);
        CHECK(status == BZNA_E_TRUNCATED || (from_end[i] == 210349 && status == BZNA_E_FORMAT));
        CHECK(o.dataset == NULL);
    }
    remove(path);
    close_all(&o);
}

/* The index says fewer bytes than the sample has: every such sample fails, or reads as far as it goes, and never
 * beyond. */
TEST(a_sample_cut_off_at_any_byte_fails_alone)
{
    const fact_sample *s = &known[1].samples[5];
    opened o;
    size_t entry;
    int readable = 0;
    open_copy(&o, 1);
    entry = box_find(o.file, o.size, "moov/trak/mdia/minf/stbl/stsz") + 20 + 4 * 5;
    for (uint64_t size = 0; size <= (uint64_t)s->size; size++) {
        bzna_image image = { .struct_size = sizeof image };
        bzna_image_info numbers;
        bzna_error err = fresh_error();
        uint8_t *buffer = malloc(size ? size : 1);
        bzna_status status;
        be_put(o.file + entry, size, 4);
        if (size % 100 == 0 || size == (uint64_t)s->size) { /* the index is read at open */
            bzna_dataset_close(o.dataset);
            o.dataset = NULL;
            REQUIRE(open_now(&o, NULL) == BZNA_OK);
        } else { /* the copy that the data set holds: as if the file had said so */
            const bzi_container *c = o.dataset->parts[0].container;
            c->tracks[0].table.sizes[5] = (uint32_t)size;
        }
        status = bzna_dataset_read_image(o.dataset, 5, "bzna_input", buffer, size, &image, &err);
        if (status == BZNA_OK)
            readable++;
        else if (err.status != status || !strstr(err.message, "sample 5") ||
                 (status != BZNA_E_BOX && status != BZNA_E_TRUNCATED)) {
            printf("  cut at %llu: %s: %s\n", (unsigned long long)size, bzna_status_name(status), err.message);
            test_failures++;
        }
        CHECK_EQ(bzna_dataset_image_info(o.dataset, 4, "bzna_input", &numbers, sizeof numbers, NULL), BZNA_OK);
        free(buffer);
    }
    CHECK_EQ(readable, 1); /* the whole one: moov comes last, and every box must end in it */
    close_all(&o);
}

TEST(an_index_entry_outside_the_file_fails_its_own_sample)
{
    static const struct { const char *box; size_t entry; uint64_t value; } patches[] = {
        { "stco", 16 + 4 * 3, 0xfffffff0u }, { "stsz", 20 + 4 * 3, 0xffffffffu }, { "stco", 16 + 4 * 3, 210350 - 10 },
        { "stco", 16 + 4 * 3, 210351 },
        { "stco", 16 + 4 * 3, 210350 - 114130 + 1 } };      /* ends one byte behind the file's end */
    for (size_t k = 0; k < 5; k++) {
        opened o;
        char path[64];
        size_t at;
        open_copy(&o, 0);
        snprintf(path, sizeof path, "moov/trak/mdia/minf/stbl/%s", patches[k].box);
        at = box_find(o.file, o.size, path);
        be_put(o.file + at + patches[k].entry, patches[k].value, 4);
        REQUIRE(open_now(&o, NULL) == BZNA_OK);
        for (uint64_t i = 0; i < 8; i++) {
            bzna_image_info image;
            bzna_sample_ref sample = { .struct_size = sizeof sample };
            bzna_error err = fresh_error();
            int64_t target;
            CHECK_EQ(bzna_dataset_image_info(o.dataset, i, NULL, &image, sizeof image, &err),
                     i == 3 ? BZNA_E_BOX : BZNA_OK);
            if (i == 3) {
                CHECK_CONTAINS(err.message, "there are only 210350");
                CHECK_CONTAINS(err.message, "sample 3");
                CHECK_CONTAINS(err.message, "stco");
                CHECK_EQ(err.byte_offset, box_find(o.file, o.size, "moov/trak/mdia/minf/stbl/stco") + 16 + 4 * 3);
            }
            CHECK_EQ(bzna_dataset_sample(o.dataset, i, &sample, sizeof sample, &err),
                     i == 3 ? BZNA_E_BOX : BZNA_OK);
            CHECK(bzna_dataset_target(o.dataset, i, &target, NULL) == BZNA_OK && target == known[0].samples[i].target);
        }
        close_all(&o);
    }
}

TEST(targets_outside_the_file_or_of_a_wrong_size_fail_alone)
{
    static const char *const boxes[2] = { "moov/trak.1/mdia/minf/stbl/stco", "moov/trak.1/mdia/minf/stbl/stsz" };
    for (int k = 0; k < 2; k++) {
        opened o;
        size_t at;
        open_copy(&o, 0);
        at = box_find(o.file, o.size, boxes[k]);
        be_put(o.file + at + (k ? 20 : 16) + 4 * 2, k ? 4 : 0xfffffff0u, 4);
        REQUIRE(open_now(&o, NULL) == BZNA_OK);
        for (uint64_t i = 0; i < 8; i++) {
            bzna_error err = fresh_error();
            int64_t target = 99;
            CHECK_EQ(bzna_dataset_target(o.dataset, i, &target, &err), i == 2 ? BZNA_E_BOX : BZNA_OK);
            CHECK_EQ(target, i == 2 ? -1 : known[0].samples[i].target);
            if (i == 2)
                CHECK_CONTAINS(err.message, "sample 2");
        }
        close_all(&o);
    }
}

TEST(a_damaged_sample_names_box_and_offset_and_its_neighbors_stand)
{
    opened o;
    const fact_sample *s = &known[0].samples[1];
    bzna_image_info image;
    bzna_error err = fresh_error();
    size_t stsz, offset = (size_t)s->offset;
    open_copy(&o, 0);
    stsz = box_at(o.file, offset, offset + (size_t)s->size, "moov/trak/mdia/minf/stbl/stsz");
    REQUIRE(stsz > offset);
    be_put(o.file + stsz + 12, 0, 4);                       /* no common size, and no room for 2 entries */
    be_put(o.file + stsz + 16, 2, 4);
    REQUIRE(open_now(&o, NULL) == BZNA_OK);
    CHECK_EQ(bzna_dataset_image_info(o.dataset, 1, NULL, &image, sizeof image, &err), BZNA_E_BOX);
    CHECK_CONTAINS(err.message, "sample 1: moov/trak[0]/mdia/minf/stbl/stsz at byte ");
    CHECK_EQ(err.fourcc, BZI_FOURCC('s', 't', 's', 'z'));
    CHECK_EQ(err.byte_offset, stsz + 20);
    CHECK_EQ(bzna_dataset_image_info(o.dataset, 0, NULL, &image, sizeof image, NULL), BZNA_OK);
    CHECK_EQ(bzna_dataset_image_info(o.dataset, 2, NULL, &image, sizeof image, NULL), BZNA_OK);
    close_all(&o);
}

TEST(samples_give_their_fields_by_name)
{
    static const struct { const char *name, *track; uint32_t kind; } fields[] = {
        { "image", "bzna_input", BZNA_FIELD_IMAGE }, { "thumb", "bzna_thumb", BZNA_FIELD_IMAGE },
        { "target", NULL, BZNA_FIELD_INTEGER }, { "name", NULL, BZNA_FIELD_TEXT } };
    static uint8_t buffer[200000], stream[200000];
    bzna_dataset_info whole;
    opened o;
    open_copy(&o, 0);
    REQUIRE(open_now(&o, NULL) == BZNA_OK);
    CHECK_EQ(bzna_dataset_get_info(o.dataset, &whole, sizeof whole, NULL), BZNA_OK);
    CHECK_EQ(whole.field_count, COUNT(fields));
    CHECK_STR(whole.container, "archive");
    for (uint32_t f = 0; f < COUNT(fields); f++) {
        bzna_field_info info;
        CHECK_EQ(bzna_dataset_field_info(o.dataset, f, &info, sizeof info, NULL), BZNA_OK);
        CHECK_STR(info.name, fields[f].name);
        CHECK_EQ(info.kind, fields[f].kind);
    }
    CHECK_EQ(bzna_dataset_field_info(o.dataset, COUNT(fields), (bzna_field_info *)(void *)buffer, 64, NULL),
             BZNA_E_RANGE);
    for (int f = 0; f < 2; f++)
        for (uint64_t i = 0; i < 8; i++) {
            const fact_image *m = &known[0].samples[i].images[f];
            bzna_image image;
            bzna_image_info by_field, by_track;
            size_t size = 0, needed = 0;
            bzna_image_init(&image, sizeof image);
            CHECK_EQ(bzna_dataset_image_info(o.dataset, i, fields[f].name, &by_field, sizeof by_field, NULL),
                     BZNA_OK);
            CHECK_EQ(bzna_dataset_image_info(o.dataset, i, fields[f].track, &by_track, sizeof by_track, NULL),
                     BZNA_OK);
            CHECK(by_field.data_offset == (uint64_t)m->at && !memcmp(&by_field, &by_track, sizeof by_field));
            CHECK_EQ(bzna_dataset_read_image(o.dataset, i, fields[f].name, buffer, sizeof buffer, &image, NULL),
                     BZNA_OK);
            CHECK_EQ(bzna_image_annexb(&image, stream, sizeof stream, &size, NULL), BZNA_OK);
            CHECK_EQ(bzna_dataset_field(o.dataset, i, fields[f].name, NULL, 0, &needed, NULL), BZNA_E_BUFFER);
            CHECK_EQ(needed, size);
            CHECK_EQ(bzna_dataset_field(o.dataset, i, fields[f].name, buffer, needed, NULL, NULL), BZNA_OK);
            CHECK(!memcmp(buffer, stream, size));
        }
    for (uint64_t i = 0; i < 8; i++) {
        int64_t target = 0;
        size_t needed = 0;
        if (known[0].samples[i].target == BZNA_TARGET_NONE) {
            CHECK_EQ(bzna_dataset_field(o.dataset, i, "target", &target, sizeof target, NULL, NULL), BZNA_E_NOT_FOUND);
            continue;
        }
        CHECK_EQ(bzna_dataset_field(o.dataset, i, "target", &target, sizeof target, &needed, NULL), BZNA_OK);
        CHECK(target == known[0].samples[i].target && needed == sizeof target);
        CHECK_EQ(bzna_dataset_field(o.dataset, i, "target", &target, sizeof target - 1, NULL, NULL), BZNA_E_BUFFER);
    }
    CHECK_EQ(bzna_dataset_field(o.dataset, 0, "caption", buffer, sizeof buffer, NULL, NULL), BZNA_E_NOT_FOUND);
    close_all(&o);
}

/* The pictures of a sample that has more than are listed. */
TEST(no_more_pictures_are_named_than_there_is_room_for)
{
    const fact_sample *s = &known[0].samples[2];
    struct { bzna_sample_ref sample; uint8_t guard[2 * BZNA_NAME_MAX]; } out;
    uint8_t *bytes = calloc((size_t)s->size + 65536, 1), *trak;
    size_t size = (size_t)s->size, at, length;
    opened o;
    open_copy(&o, 0);
    REQUIRE(open_now(&o, NULL) == BZNA_OK);
    memcpy(bytes, o.file + s->offset, size);
    at = box_find(bytes, size, "moov/trak");
    length = be_get(bytes + at, 4);
    trak = malloc(length);
    memcpy(trak, bytes + at, length);
    for (uint32_t pictures = 2; pictures <= 6; pictures++) {
        const bzi_sample sample = { 2, { .offset = 0, .size = size }, bytes };
        bzna_error err = fresh_error();
        memset(&out, 0, sizeof out);
        CHECK_EQ(o.dataset->parts[0].container->ops->images(o.dataset->parts[0].container, &sample, &out.sample,
                                                            &err), BZNA_OK);
        CHECK_EQ(out.sample.image_count, pictures < BZNA_IMAGES_MAX ? pictures : BZNA_IMAGES_MAX);
        CHECK_STR(out.sample.image_names[0], "bzna_input");
        for (size_t i = 0; i < sizeof out.guard; i++)
            CHECK_EQ(out.guard[i], 0);
        size = box_append(bytes, size, "moov", trak, length);
    }
    free(trak);
    free(bytes);
    close_all(&o);
}

/* One sample is a JPEG by itself, with zeros after it up to the size that the index states. */
TEST(a_sample_of_an_archive_may_be_a_picture_by_itself)
{
#ifdef BENZINA_NO_JPEG
    SKIP("built without libjpeg-turbo [libjpeg-dev]");
#endif
    const fact_sample *s = &known[0].samples[2];
    bzna_sample_ref ref = { .struct_size = sizeof ref };
    bzna_image image = { .struct_size = sizeof image }, alone = { .struct_size = sizeof alone };
    bzna_picture mine = { .struct_size = sizeof mine }, theirs = { .struct_size = sizeof theirs };
    bzna_decoder *decoders[2] = { NULL, NULL };
    bzna_error err = fresh_error();
    size_t size;
    uint8_t *jpeg = slurp("tests/data/pictures/jpeg_422_restarts.jpg", &size), *buffer;
    int64_t target;
    char name[64];
    opened o;
    open_copy(&o, 0);
    REQUIRE((uint64_t)s->size > size);
    memset(o.file + s->offset, 0, (size_t)s->size);
    memcpy(o.file + s->offset, jpeg, size);
    REQUIRE(open_now(&o, NULL) == BZNA_OK);
    CHECK_EQ(bzna_dataset_sample(o.dataset, 2, &ref, sizeof ref, NULL), BZNA_OK);
    CHECK_EQ(ref.image_count, 1);
    CHECK_STR(ref.image_names[0], "bzna_input");
    CHECK(bzna_dataset_target(o.dataset, 2, &target, NULL) == BZNA_OK && target == s->target);
    CHECK(bzna_dataset_field(o.dataset, 2, "name", name, sizeof name, NULL, NULL) == BZNA_OK);
    CHECK_STR(name, s->filename);
    buffer = malloc((size_t)ref.size);
    CHECK_EQ(bzna_dataset_read_image(o.dataset, 2, "thumb", buffer, (size_t)ref.size, &image, &err), BZNA_E_NOT_FOUND);
    REQUIRE(bzna_dataset_read_image(o.dataset, 2, NULL, buffer, (size_t)ref.size, &image, NULL) == BZNA_OK);
    CHECK_EQ(image.codec, BZNA_CODEC_JPEG);
    alone.codec = BZNA_CODEC_JPEG;
    alone.data = jpeg;
    alone.data_size = size;
    REQUIRE(bzna_decoder_open(o.context, &decoders[0], NULL) == BZNA_OK);
    REQUIRE(bzna_decoder_open(o.context, &decoders[1], NULL) == BZNA_OK);
    CHECK_EQ(bzna_decoder_decode(decoders[0], &image, &mine, NULL), BZNA_OK);
    CHECK_EQ(bzna_decoder_decode(decoders[1], &alone, &theirs, NULL), BZNA_OK);
    CHECK(mine.width == theirs.width && mine.height == theirs.height);
    for (uint32_t y = 0; y < mine.height; y++)
        CHECK(!memcmp((const uint8_t *)mine.plane[0] + (int64_t)y * mine.pitch[0],
                      (const uint8_t *)theirs.plane[0] + (int64_t)y * theirs.pitch[0], mine.width));
    CHECK_EQ(bzna_dataset_sample(o.dataset, 3, &ref, sizeof ref, NULL), BZNA_OK);
    CHECK_EQ(ref.image_count, 2);
    for (int i = 0; i < 2; i++)
        bzna_decoder_close(decoders[i]);
    free(buffer);
    free(jpeg);
    close_all(&o);
}

/* A path that exists is opened as it stands, whatever is in it. */
TEST(a_path_with_the_characters_of_patterns_is_opened_literally)
{
    if (ON_WINDOWS)
        SKIP("no name has * or ? on Windows");
    static const char *const path = TEST_BUILD "/tests/{0..2} *?[a]::.bzna";
    size_t size;
    uint8_t *bytes = slurp(archives[0], &size);
    FILE *file = fopen(path, "wb");
    counter c;
    bzna_context *context = context_of(&c);
    bzna_dataset *dataset = NULL;
    bzna_error err = fresh_error();
    REQUIRE(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
    free(bytes);
    CHECK_EQ(bzna_dataset_open(context, path, NULL, &dataset, &err), BZNA_OK);
    CHECK_EQ(bzna_dataset_count(dataset), 8);
    bzna_dataset_close(dataset);
    remove(path);
    CHECK_EQ(bzna_dataset_open(context, path, NULL, &dataset, &err), BZNA_E_NOT_FOUND);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
}

TEST(bytes_past_the_last_box_are_ignored_when_they_are_too_few_for_one)
{
    for (size_t more = 0; more < 9; more++) {
        opened o;
        bzna_dataset_info info = { .trailing_bytes = 99 };
        bzna_error err = fresh_error();
        open_copy(&o, 0);
        memset(o.file + o.size, 0xff, 8);
        o.size += more;
        CHECK_EQ(open_now(&o, &err), more == 8 ? BZNA_E_TRUNCATED : BZNA_OK);
        if (more == 8)
            CHECK_EQ(err.byte_offset, o.size - more);
        else
            CHECK_EQ(bzna_dataset_get_info(o.dataset, &info, sizeof info, NULL), BZNA_OK);
        CHECK_EQ(info.trailing_bytes, more == 8 ? 99 : more);
        close_all(&o);
    }
}

/* A sample of an archive is a video of one frame. */
TEST(videos_of_codecs_that_are_not_decoded_are_refused_by_name)
{
    static const char *const codecs[] = { "mp4v", "vp09", "apcn", "encv", "zzzz" };
    for (size_t i = 0; i < COUNT(codecs); i++) {
        const fact_sample *s = &known[0].samples[1];
        opened o;
        bzna_error err = fresh_error();
        open_copy(&o, 0);
        memmove(o.file, o.file + s->offset, (size_t)s->size);
        o.size = (size_t)s->size;
        for (size_t at = 0; at + 4 < o.size; at++)
            if (!memcmp(o.file + at, "hvc1", 4))
                memcpy(o.file + at, codecs[i], 4);
        CHECK_EQ(open_now(&o, &err), BZNA_E_CODEC);
        CHECK_CONTAINS(err.message, codecs[i]);
        CHECK_EQ(err.fourcc, be_get((const uint8_t *)codecs[i], 4));
        close_all(&o);
    }
}

TEST(files_of_HEIF_and_AVIF_are_refused_and_the_message_says_what_reads_them)
{
    static const char *const files[] = { "ftypheic\0\0\0\0mif1heic", "ftypheix\0\0\0\0mif1heix",
                                         "ftypmif1\0\0\0\0heicmiaf", "ftypmsf1\0\0\0\0msf1hevc",
                                         "ftyphevc\0\0\0\0msf1hevc", "ftypavif\0\0\0\0avifmif1",
                                         "ftypavis\0\0\0\0avismsf1" };
    for (size_t i = 0; i < COUNT(files); i++) {
        opened o;
        bzna_error err = fresh_error();
        open_copy(&o, 0);
        memcpy(o.file, "\0\0\0\x18", 4);
        memcpy(o.file + 4, files[i], 20);
        CHECK_EQ(open_now(&o, &err), BZNA_E_UNSUPPORTED);
        CHECK_CONTAINS(err.message, "which is read by a codec of the program's own, examples/formats/heif.c");
        close_all(&o);
    }
}

/* The original tools' archive as it is before it was indexed: an empty mdat, then samples. */
TEST(an_archive_that_was_never_indexed_is_named)
{
    static const uint8_t ftyp[] = "\0\0\0\x18" "ftypisom\0\0\0\0bznaisom", mdat[] = "\0\0\0\1mdat\0\0\0\0\0\0\0\x10";
    for (int count = 1; count <= 2; count++) {
        const fact_sample *s = &known[0].samples[1];
        opened o;
        uint8_t sample[1 << 16];
        size_t size = (size_t)s->size, at = 0;
        bzna_error err = fresh_error();
        open_copy(&o, 0);
        REQUIRE(size <= sizeof sample && 40 + 2 * size <= o.size);
        memcpy(sample, o.file + s->offset, size);
        memcpy(o.file, ftyp, 24);
        memcpy(o.file + 24, mdat, 16);
        for (at = 40; at < 40 + (size_t)count * size; at += size)
            memcpy(o.file + at, sample, size);
        o.size = at;
        CHECK_EQ(open_now(&o, &err), BZNA_E_UNFINISHED);
        CHECK_CONTAINS(err.message, "mdat at byte 24: the archive was not indexed");
        CHECK_EQ(err.byte_offset, 24);
        close_all(&o);
    }
}

TEST(a_sample_without_moov_or_chunk_fails_alone)
{
    opened o;
    const fact_sample *s = &known[0].samples[1];
    bzna_image_info image;
    bzna_error err = fresh_error();
    size_t moov, offset = (size_t)s->offset, stco;
    open_copy(&o, 0);
    moov = box_at(o.file, offset, offset + (size_t)s->size, "moov");
    memcpy(o.file + moov + 4, "free", 4);
    REQUIRE(open_now(&o, NULL) == BZNA_OK);
    CHECK_EQ(bzna_dataset_image_info(o.dataset, 1, NULL, &image, sizeof image, &err), BZNA_E_BOX);
    CHECK_CONTAINS(err.message, "moov");
    CHECK_EQ(err.byte_offset, offset);
    memcpy(o.file + moov + 4, "moov", 4);
    stco = box_at(o.file, offset, offset + (size_t)s->size, "moov/trak/mdia/minf/stbl/stco");
    be_put(o.file + stco + 16, (uint64_t)s->size - 10, 4);  /* the access unit would end behind the sample */
    CHECK_EQ(bzna_dataset_image_info(o.dataset, 1, "bzna_input", &image, sizeof image, &err), BZNA_E_BOX);
    CHECK_CONTAINS(err.message, "sample 1");
    memcpy(o.file + stco + 4, "free", 4);
    CHECK_EQ(bzna_dataset_image_info(o.dataset, 1, "bzna_input", &image, sizeof image, &err), BZNA_E_BOX);
    CHECK_CONTAINS(err.message, "stco");
    close_all(&o);
}

TEST(a_sample_larger_than_the_limit_is_refused)
{
    counter c;
    bzna_context_config config;
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_image_info image;
    bzna_error err = fresh_error();
    memset(&c, 0, sizeof c);
    bzna_context_config_init(&config, sizeof config);
    config.max_sample_bytes = 100000;
    REQUIRE(bzna_context_open(&config, &context, NULL) == BZNA_OK);
    REQUIRE(bzna_dataset_open(context, archives[0], NULL, &dataset, NULL) == BZNA_OK);
    CHECK_EQ(bzna_dataset_image_info(dataset, 3, NULL, &image, sizeof image, &err), BZNA_E_LIMIT);
    CHECK_CONTAINS(err.message, "max_sample_bytes");
    CHECK_EQ(err.byte_offset, known[0].samples[3].offset);
    CHECK_EQ(bzna_dataset_image_info(dataset, 0, NULL, &image, sizeof image, &err), BZNA_OK);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
}

/* Hundreds of random changes in and around the indices: whatever comes out, it comes out in order, and everything is
 * given back. */
TEST(changed_bytes_never_crash_the_reader)
{
    uint64_t state = 88172645463325252ull;
    for (int a = 0; a < 2; a++) {
        opened o;
        uint8_t *original;
        size_t moov;
        open_copy(&o, a);
        original = malloc(o.size);
        memcpy(original, o.file, o.size);
        moov = box_find(o.file, o.size, "moov");
        for (int round = 0; round < 600; round++) {
            int changes = 1 + round % 4;
            bzna_status status;
            for (int k = 0; k < changes; k++) {
                const fact_sample *s = &known[a].samples[(unsigned)round % 8];
                size_t at;
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                at = round % 3 ? moov + state / 256 % (o.size - moov) :
                     (size_t)(s->offset + s->size) - 1 - state / 256 % (a ? 2100 : 6900);
                be_put(o.file + at, state & 1 ? state >> 56 : (uint64_t)o.file[at] ^ (uint64_t)1 << (state >> 56 & 7),
                       1);
            }
            o.dataset = (bzna_dataset *)(void *)&o;
            status = open_now(&o, NULL);
            CHECK((status == BZNA_OK) == (o.dataset != NULL));
            if (status == BZNA_OK)
                walk_all(o.dataset);
            bzna_dataset_close(o.dataset);
            CHECK_EQ(o.c.blocks, 2);                        /* the context and its host */
            o.dataset = NULL;
            memcpy(o.file, original, o.size);
        }
        o.m.closes = 0;
        free(original);
        close_all(&o);
    }
}

/* ---- Sources that fail ---- */

TEST(a_failing_size_callback_is_an_io_error)
{
    opened o;
    bzna_source source;
    bzna_error err = fresh_error();
    open_copy(&o, 0);
    source = source_of(&o.m, o.file, 0);
    o.m.size = (uint64_t)-5;
    CHECK_EQ(bzna_dataset_open_source(o.context, &source, NULL, &o.dataset, &err), BZNA_E_IO);
    CHECK_EQ(err.native_code, -5);
    CHECK_CONTAINS(err.message, "size");
    close_all(&o);
}

TEST(a_source_larger_than_it_says_or_smaller_is_noticed)
{
    opened o;
    bzna_error err;
    bzna_source source;
    open_copy(&o, 0);
    source = source_of(&o.m, o.file, o.size);
    o.size -= 100;                                          /* size() says less than there is: cut off */
    open_fails(&o, BZNA_E_TRUNCATED);
    o.size += 100;
    be_put(o.file + box_find(o.file, o.size, "moov"), 1u << 20, 4);
    err = open_fails(&o, BZNA_E_TRUNCATED);
    CHECK_EQ(err.byte_offset, 205809);
    CHECK_EQ(err.fourcc, bzi_type("moov"));
    (void)source;
    close_all(&o);
}

/* Every single read of open, sample, image, target and name, failing in each way. */
TEST(every_read_that_fails_is_reported_and_nothing_leaks)
{
    static const struct {
        int64_t result;
        bzna_status status;
    } ways[] = { { -5, BZNA_E_IO }, { 0, BZNA_E_TRUNCATED }, { INT64_MAX, BZNA_E_CALLBACK }, { INT64_MIN, BZNA_E_IO } };
    for (int way = 0; way < 4; way++) {
        int opens_failed = 0, later_failed = 0, done = 0;
        for (long long n = 1; !done && n < 200; n++) {
            opened o;
            bzna_error err = fresh_error();
            bzna_source source;
            bzna_status status;
            open_copy(&o, 1);
            source = source_of(&o.m, o.file, o.size);
            o.m.bad_at = n;
            o.m.bad_result = ways[way].result;
            o.m.read_max = 3000;
            o.dataset = (bzna_dataset *)(void *)&o;
            status = bzna_dataset_open_source(o.context, &source, NULL, &o.dataset, &err);
            if (status != BZNA_OK) {
                opens_failed++;
                CHECK(o.dataset == NULL);
                CHECK_EQ(o.m.closes, 0);
            } else {
                bzna_image image = { .struct_size = sizeof image };
                bzna_image_info numbers;
                uint8_t *buffer = malloc(200000);
                char name[64];
                status = bzna_dataset_read_image(o.dataset, 2, NULL, buffer, 200000, &image, &err);
                if (status == BZNA_OK)
                    status = bzna_dataset_image_info(o.dataset, 2, NULL, &numbers, sizeof numbers, &err);
                if (status == BZNA_OK)
                    status = bzna_dataset_field(o.dataset, 2, "name", name, sizeof name, NULL, &err);
                if (status != BZNA_OK) {
                    later_failed++;
                    CHECK_CONTAINS(err.message, "sample 2");
                }
                done = status == BZNA_OK;
                free(buffer);
            }
            if (!done) {
                CHECK_EQ(status, ways[way].status);
                CHECK_EQ(err.status, status);
                CHECK_EQ(err.native_code, way == 0 ? -5 : way == 3 ? -1 : 0);
                CHECK(err.byte_offset < o.size);
            }
            bzna_dataset_close(o.dataset);
            CHECK_EQ(o.m.closes, o.dataset ? 1 : 0);
            bzna_context_close(o.context);
            CHECK_ALL_FREED(o.c);
            free(o.file);
        }
        CHECK(done && opens_failed >= 4 && later_failed >= 5);
    }
}

TEST(targets_of_a_source_are_read_once)
{
    opened o;
    int64_t target;
    long long reads;
    open_copy(&o, 0);
    REQUIRE(open_now(&o, NULL) == BZNA_OK);
    reads = o.m.reads;
    for (uint64_t i = 0; i < 8; i++)
        CHECK(bzna_dataset_target(o.dataset, i, &target, NULL) == BZNA_OK && target == known[0].samples[i].target);
    CHECK_EQ(o.m.reads, reads);
    close_all(&o);
}

TEST(targets_far_apart_are_read_too_when_the_file_is_opened)
{
    opened o;
    int64_t target;
    long long reads;
    size_t stco;
    open_copy(&o, 0);
    stco = box_find(o.file, o.size, "moov/trak.1/mdia/minf/stbl/stco");
    be_put(o.file + stco + 16, 100, 4);                     /* target 0 now lies in the first picture */
    REQUIRE(open_now(&o, NULL) == BZNA_OK);
    reads = o.m.reads;
    CHECK(bzna_dataset_target(o.dataset, 0, &target, NULL) == BZNA_OK && (uint64_t)target == le64_get(o.file + 100));
    CHECK(bzna_dataset_target(o.dataset, 5, &target, NULL) == BZNA_OK && target == 185);
    CHECK_EQ(o.m.reads, reads);
    close_all(&o);
}

/* ---- Memory ---- */

/* But for bzna_dataset_image_info and bzna_dataset_sample, which read all of a sample. */
TEST(an_archive_that_is_a_file_allocates_nothing_per_sample)
{
    counter c;
    bzna_context *context = context_of(&c);
    bzna_dataset *dataset = NULL;
    uint8_t *buffer = malloc(200000);
    long long calls;
    CHECK_EQ(bzna_dataset_open(context, archives[0], NULL, &dataset, NULL), BZNA_OK);
    calls = c.calls;
    for (uint64_t i = 0; i < 8; i++) {
        bzna_image image = { .struct_size = sizeof image };
        char name[64];
        int64_t target;
        CHECK_EQ(bzna_dataset_read_image(dataset, i, NULL, buffer, 200000, &image, NULL), BZNA_OK);
        CHECK_EQ(bzna_dataset_target(dataset, i, &target, NULL), BZNA_OK);
        CHECK_EQ(bzna_dataset_field(dataset, i, "name", name, sizeof name, NULL, NULL), BZNA_OK);
    }
    CHECK_EQ(c.calls, calls);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
    free(buffer);
}

/* The n-th allocation and all after it fail, for n = 1, 2, ... until everything succeeds. */
TEST(every_allocation_that_fails_gives_e_memory_and_no_leak)
{
    size_t size;
    uint8_t *file = slurp(archives[1], &size), *buffer = malloc(200000);
    for (int from_source = 0; from_source < 2; from_source++) {
        int done = 0, failures = 0;
        for (long long n = 1; !done && n < 100; n++) {
            counter c;
            memory_source m;
            bzna_context_config config;
            bzna_context *context = NULL;
            bzna_dataset *dataset = NULL;
            bzna_decoder *decoder = NULL;
            bzna_source source = source_of(&m, file, size);
            bzna_error err = fresh_error();
            bzna_image image = { .struct_size = sizeof image };
            bzna_image_info numbers;
            bzna_sample_ref sample = { .struct_size = sizeof sample };
            bzna_picture picture = { .struct_size = sizeof picture };
            bzna_status status;
            char name[64];
            memset(&c, 0, sizeof c);
            bzna_context_config_init(&config, sizeof config);
            config.allocator.user = &c;
            config.allocator.alloc = counter_alloc;
            config.allocator.release = counter_release;
            c.fail_at = n;
            status = bzna_context_open(&config, &context, &err);
            CHECK((status == BZNA_OK) == (context != NULL));
            if (status == BZNA_OK) {
                status = from_source ? bzna_dataset_open_source(context, &source, NULL, &dataset, &err) :
                         bzna_dataset_open(context, archives[1], NULL, &dataset, &err);
                CHECK((status == BZNA_OK) == (dataset != NULL));
            }
            if (status == BZNA_OK) status = bzna_dataset_sample(dataset, 2, &sample, sizeof sample, &err);
            if (status == BZNA_OK) status = bzna_dataset_field(dataset, 2, "name", name, sizeof name, NULL, &err);
            if (status == BZNA_OK)
                status = bzna_dataset_image_info(dataset, 2, NULL, &numbers, sizeof numbers, &err);
            if (status == BZNA_OK) status = bzna_dataset_read_image(dataset, 2, NULL, buffer, 200000, &image, &err);
#ifndef BENZINA_NO_AVCODEC
            if (status == BZNA_OK) {
                status = bzna_decoder_open(context, &decoder, &err);
                CHECK((status == BZNA_OK) == (decoder != NULL));
            }
            if (status == BZNA_OK) status = bzna_decoder_decode(decoder, &image, &picture, &err);
#else
            (void)picture;
#endif
            done = status == BZNA_OK;
            if (!done) {
                failures++;
                CHECK_EQ(status, BZNA_E_MEMORY);
                CHECK_EQ(err.status, BZNA_E_MEMORY);
            }
            bzna_decoder_close(decoder);
            bzna_dataset_close(dataset);
            bzna_context_close(context);
            CHECK_ALL_FREED(c);
            CHECK_EQ(m.closes, from_source && dataset ? 1 : 0);
        }
        CHECK(done && failures >= (from_source ? 6 : 3));
    }
    free(buffer);
    free(file);
}

/* ---- Versioned structs of this room ---- */

#define PATTERN 0xa5

static void fill(void *p, size_t size, uint32_t struct_size)
{
    memset(p, PATTERN, size);
    memcpy(p, &struct_size, sizeof struct_size);
}

static void check_behind(const uint8_t *p, size_t from, size_t to, const char *what, size_t given)
{
    for (size_t i = from; i < to; i++)
        if (p[i] != PATTERN) {
            printf("  %s with struct_size %zu: byte %zu was written\n", what, given, i);
            test_failures++;
            return;
        }
}

TEST(answers_are_never_longer_than_the_callers_struct)
{
    opened o;
    static _Alignas(16) uint8_t bytes[1024], whole[1024];
    open_copy(&o, 0);
    REQUIRE(open_now(&o, NULL) == BZNA_OK);
    for (size_t given = 4; given < 512; given++) {
        fill(bytes, sizeof bytes, 0);
        memset(bytes, PATTERN, 4);
        CHECK_EQ(bzna_dataset_get_info(o.dataset, (bzna_dataset_info *)(void *)bytes, given, NULL), BZNA_OK);
        check_behind(bytes, given, sizeof bytes, "bzna_dataset_info", given);
        CHECK_EQ(bzna_dataset_track_info(o.dataset, 3, (bzna_track_info *)(void *)bytes, given, NULL), BZNA_OK);
        check_behind(bytes, given, sizeof bytes, "bzna_track_info", given);
        fill(bytes, sizeof bytes, (uint32_t)given);
        CHECK_EQ(bzna_dataset_sample(o.dataset, 3, (bzna_sample_ref *)(void *)bytes, given, NULL), BZNA_OK);
        check_behind(bytes, given, sizeof bytes, "bzna_sample_ref", given);
        fill(bytes, sizeof bytes, (uint32_t)given);
        CHECK_EQ(bzna_dataset_image_info(o.dataset, 3, NULL, (bzna_image_info *)(void *)bytes, given, NULL),
                 BZNA_OK);
        check_behind(bytes, given, sizeof bytes, "bzna_image_info", given);
        CHECK_EQ(bzna_dataset_image_info(o.dataset, 3, NULL, (bzna_image_info *)(void *)whole,
                                             sizeof(bzna_image_info), NULL),
                 BZNA_OK);
        CHECK(!memcmp(bytes + 4, whole + 4, (given < sizeof(bzna_image_info) ? given : sizeof(bzna_image_info)) - 4));
        check_behind(bytes, sizeof(bzna_image_info), sizeof bytes, "the library's bzna_image_info", given);
    }
    for (uint32_t given = 0; given < 4; given++) {
        fill(bytes, sizeof bytes, given);
        CHECK_EQ(bzna_dataset_get_info(o.dataset, (bzna_dataset_info *)(void *)bytes, given, NULL), BZNA_E_STRUCT_SIZE);
        CHECK_EQ(bzna_dataset_track_info(o.dataset, 3, (bzna_track_info *)(void *)bytes, given, NULL),
                 BZNA_E_STRUCT_SIZE);
        CHECK_EQ(bzna_dataset_field_info(o.dataset, 0, (bzna_field_info *)(void *)bytes, given, NULL),
                 BZNA_E_STRUCT_SIZE);
        CHECK_EQ(bzna_dataset_sample(o.dataset, 3, (bzna_sample_ref *)(void *)bytes, given, NULL), BZNA_E_STRUCT_SIZE);
        CHECK_EQ(bzna_dataset_image_info(o.dataset, 3, NULL, (bzna_image_info *)(void *)bytes, given, NULL),
                 BZNA_E_STRUCT_SIZE);
        check_behind(bytes, 4, sizeof bytes, "struct_size below 4", given);
    }
    close_all(&o);
}

TEST(configs_of_other_versions_are_taken_or_refused)
{
    struct { bzna_dataset_config config; uint64_t more; } newer;
    opened o;
    bzna_error err = fresh_error();
    bzna_source source;
    open_copy(&o, 0);
    memset(&newer, 0, sizeof newer);
    newer.config.struct_size = sizeof newer;
    source = source_of(&o.m, o.file, o.size);
    CHECK_EQ(bzna_dataset_open_source(o.context, &source, &newer.config, &o.dataset, &err), BZNA_OK);
    CHECK_EQ(bzna_dataset_close(o.dataset), BZNA_OK);
    newer.more = 1;
    CHECK_EQ(bzna_dataset_open_source(o.context, &source, &newer.config, &o.dataset, &err), BZNA_E_STRUCT_SIZE);
    CHECK(o.dataset == NULL);
    CHECK_CONTAINS(err.message, "struct_size");
    CHECK_EQ(bzna_dataset_open(o.context, archives[0], &newer.config, &o.dataset, &err), BZNA_E_STRUCT_SIZE);
    newer.config.struct_size = 0;
    CHECK_EQ(bzna_dataset_open(o.context, archives[0], &newer.config, &o.dataset, &err), BZNA_E_STRUCT_SIZE);
    newer.config.struct_size = 8; /* an older one: name is not there yet, whatever lies there */
    newer.config.name = (const char *)(uintptr_t)1;
    CHECK_EQ(bzna_dataset_open(o.context, archives[0], &newer.config, &o.dataset, &err), BZNA_OK);
    CHECK_EQ(o.m.closes, 1);
    bzna_dataset_close(o.dataset);
    o.dataset = NULL;
    o.m.closes = 0;
    close_all(&o);
}

/* ---- Plain videos, as other programs make them ---- */

/* An archive's sample on its own: a plain mp4, for changes. */
static void open_cut_out(opened *o, int a)
{
    const fact_sample *s = &known[a].samples[2];
    open_copy(o, a);
    memmove(o->file, o->file + s->offset, (size_t)s->size);
    o->size = (size_t)s->size;
}

TEST(a_box_moof_is_refused_wherever_it_stands_and_mvex_changes_nothing)
{
    static const uint8_t mvex[16] = { 0, 0, 0, 16, 'm', 'v', 'e', 'x', 0, 0, 0, 8, 'f', 'r', 'e', 'e' };
    static const uint8_t moof[8] = { 0, 0, 0, 8, 'm', 'o', 'o', 'f' };
    for (int where = 0; where < 3; where++) {
        opened o;
        bzna_error err = fresh_error();
        open_cut_out(&o, where == 2);
        if (where == 2) {
            o.size = box_append(o.file, o.size, "moov", mvex, sizeof mvex);
            CHECK_EQ(open_now(&o, &err), BZNA_OK);
            CHECK_EQ(bzna_dataset_count(o.dataset), 1);
        } else {
            char place[32];
            snprintf(place, sizeof place, "moof at byte %u", where ? (unsigned)o.size + 8 : 8);
            memmove(o.file + (where ? 0 : sizeof moof), o.file, o.size);
            memcpy(where ? o.file + o.size : o.file, moof, sizeof moof);
            o.size += sizeof moof;
            err = open_fails(&o, BZNA_E_UNSUPPORTED);
            CHECK_CONTAINS(err.message, place);
        }
        close_all(&o);
    }
}

/* The second entry would be read as if it were the first; unused, it is of no matter. */
TEST(a_track_whose_samples_are_of_several_entries_is_refused)
{
    static const uint8_t entry[8] = { 0, 0, 0, 8, 'h', 'v', 'c', '1' };
    for (int how = 0; how < 2; how++) {                     /* unused; of all samples */
        opened o;
        bzna_error err = fresh_error();
        open_cut_out(&o, 0);
        o.size = box_append(o.file, o.size, "moov/trak/mdia/minf/stbl/stsd", entry, sizeof entry);
        if (how == 0) {
            CHECK_EQ(open_now(&o, &err), BZNA_OK);
        } else {
            o.file[box_at(o.file, 0, o.size, "moov/trak.0/mdia/minf/stbl/stsc") + 27] = 2;
            err = open_fails(&o, BZNA_E_UNSUPPORTED);
            CHECK_CONTAINS(err.message, "moov/trak[0]/mdia/minf/stbl/stsc at byte ");
            CHECK_CONTAINS(err.message, "its samples use other entries than the first of 2, which is not supported");
        }
        close_all(&o);
    }
}

/* Where a matrix lies: tkhd (its box has version 0 or 1) or mvhd. */
static uint8_t *matrix_of(opened *o, size_t from, size_t to, const char *path)
{
    int header = strstr(path, "mvhd") ? 36 : 40;
    size_t at = box_at(o->file, from, to, path);
    if (!at)
        exit(1);
    return o->file + at + 8 + header + (o->file[at + 8] ? 12 : 0);
}

static void put_matrix(uint8_t *m, int32_t a, int32_t b, int32_t c, int32_t d)
{
    be_put(m, (uint32_t)a, 4);
    be_put(m + 4, (uint32_t)b, 4);
    be_put(m + 12, (uint32_t)c, 4);
    be_put(m + 16, (uint32_t)d, 4);
}

/* turned: EXIF's number, 0: as it says itself. */
TEST(a_video_is_turned_as_its_matrices_say_and_one_that_is_to_be_scaled_is_refused)
{
    static const struct { const char *path; int32_t m[4]; int fine; uint32_t turned; } cases[] = {
        { "moov/trak.0/tkhd", { 0, 0x10000, -0x10000, 0 }, 1, 6 },
        { "moov/trak.0/tkhd", { -0x10000, 0, 0, -0x10000 }, 1, 3 },
        { "moov/trak.0/tkhd", { -0x10000, 0, 0, 0x10000 }, 1, 2 },
        { "moov/trak.0/tkhd", { 0x10000, 0, 0, 0x8000 }, 0, 0 },
        { "moov/trak.0/tkhd", { 0x10000, 1, 0, 0x10000 }, 0, 0 },
        { "moov/trak.0/tkhd", { 0x10000, 0, 1, 0x10000 }, 0, 0 },
        { "moov/trak.0/tkhd", { 0x10000, 0, 0, -0x10000 }, 1, 4 },
        { "moov/trak.0/tkhd", { 0, 0x10000, 0x10000, 0 }, 1, 5 },
        { "moov/trak.0/tkhd", { 0, -0x10000, -0x10000, 0 }, 1, 7 },
        { "moov/trak.0/tkhd", { 0, 0x10000, 0, 0 }, 0, 0 },
        { "moov/mvhd", { 0, -0x10000, 0x10000, 0 }, 1, 8 },
        { "moov/mvhd", { 0, 0, 0, 0 }, 1, 0 },
        { "moov/mvhd", { 0x20000, 0, 0, 0x20000 }, 0, 0 },
        { "moov/trak.0/tkhd", { 0, 0, 0, 0 }, 1, 0 },
        { "moov/trak.1/tkhd", { 0, 0x10000, -0x10000, 0 }, 1, 0 } };                /* not the pictures' */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        opened o;
        bzna_error err = fresh_error();
        bzna_image_info image;
        uint8_t *m;
        const char *box = strstr(cases[i].path, "mvhd") ? "moov/mvhd" : "moov/trak[0]/tkhd";
        char says[64];
        open_cut_out(&o, (int)i % 2);
        m = matrix_of(&o, 0, o.size, cases[i].path);
        CHECK_EQ(be_get(m, 4), 0x10000);
        CHECK_EQ(be_get(m + 32, 4), 0x40000000);
        put_matrix(m, cases[i].m[0], cases[i].m[1], cases[i].m[2], cases[i].m[3]);
        be_put(m + 24, 0x50000, 4);                         /* what only moves the picture changes nothing in it */
        if (cases[i].fine) {
            CHECK_EQ(open_now(&o, &err), BZNA_OK);
            CHECK_EQ(bzna_dataset_image_info(o.dataset, 0, NULL, &image, sizeof image, &err), BZNA_OK);
            CHECK_EQ(image.orientation, cases[i].turned);
        } else {
            err = open_fails(&o, BZNA_E_UNSUPPORTED);
            CHECK_EQ(err.byte_offset, m - o.file);
            snprintf(says, sizeof says, "%s at byte %d:", box, (int)(m - o.file));
            CHECK_CONTAINS(err.message, says);
            CHECK_CONTAINS(err.message, "bzna_input");
        }
        close_all(&o);
    }
}

TEST(matrices_of_track_and_movie_are_applied_one_after_the_other)
{
    opened o;
    bzna_error err = fresh_error();
    bzna_image_info image;
    open_cut_out(&o, 0);
    put_matrix(matrix_of(&o, 0, o.size, "moov/trak.0/tkhd"), 0, 0x10000, -0x10000, 0);      /* a quarter clockwise, */
    put_matrix(matrix_of(&o, 0, o.size, "moov/mvhd"), -0x10000, 0, 0, 0x10000);             /* then mirrored: 5 */
    REQUIRE(open_now(&o, &err) == BZNA_OK);
    CHECK_EQ(bzna_dataset_image_info(o.dataset, 0, NULL, &image, sizeof image, &err), BZNA_OK);
    CHECK_EQ(image.orientation, 5);
    close_all(&o);
}

TEST(a_sample_is_turned_or_refused_alone)
{
    for (int in_movie = 0; in_movie < 2; in_movie++)
        for (int scaled = 0; scaled < 2; scaled++) {
            const fact_sample *s = &known[in_movie].samples[3];
            const char *path = in_movie ? "moov/mvhd" : "moov/trak.0/tkhd";
            const bzna_status status = scaled ? BZNA_E_UNSUPPORTED : BZNA_OK;
            bzna_image_info image;
            bzna_error err = fresh_error();
            size_t begin = (size_t)s->offset, end = begin + (size_t)s->size;
            opened o;
            uint8_t *m;
            open_copy(&o, in_movie);
            m = matrix_of(&o, begin, end, path);
            put_matrix(m, 0, 0x10000, scaled ? -0x8000 : -0x10000, 0);
            put_matrix(matrix_of(&o, 0, o.size, path), 0, 0x10000, -0x10000, 0);       /* is not the samples' */
            REQUIRE(open_now(&o, &err) == BZNA_OK);
            for (uint64_t i = 0; i < 8; i++) {
                CHECK_EQ(bzna_dataset_image_info(o.dataset, i, "bzna_input", &image, sizeof image, &err),
                         i == 3 ? status : BZNA_OK);
                CHECK(i == 3 || image.orientation == 0);
                CHECK(i != 3 || scaled || image.orientation == 6);
            }
            CHECK_EQ(bzna_dataset_image_info(o.dataset, 3, "bzna_thumb", &image, sizeof image, NULL),
                     in_movie ? status : BZNA_OK);
            if (scaled) {
                CHECK_EQ(err.byte_offset, m - o.file);
                CHECK_CONTAINS(err.message, "sample 3: moov/");
                CHECK_CONTAINS(err.message, "bzna_input");
            }
            close_all(&o);
        }
}

TEST(nothing_of_a_turned_sample_is_left_for_the_next_one)
{
    opened o;
    open_copy(&o, 0);
    put_matrix(matrix_of(&o, (size_t)known[0].samples[3].offset, o.size, "moov/mvhd"), 0, 0x10000, -0x10000, 0);
    memcpy(o.file + box_at(o.file, (size_t)known[0].samples[4].offset, o.size, "moov/mvhd") + 4, "free", 4);
    REQUIRE(open_now(&o, NULL) == BZNA_OK);
    for (int i = 2; i < 5; i++) {
        const fact_sample *s = &known[0].samples[i];
        bzi_sample sample = { (uint64_t)i, { .offset = (uint64_t)s->offset, .size = (uint64_t)s->size },
                              o.file + s->offset };
        const bzi_container *c = o.dataset->parts[0].container;
        bzi_pick pick = { .name = NULL };
        bzi_image image;
        bzna_error err;
        CHECK_EQ(c->ops->image(c, &sample, &pick, &image, &err), BZNA_OK);
        CHECK_EQ(image.coded.orientation, i == 3 ? 6 : 0);
    }
    close_all(&o);
}

static int has_ffmpeg(void) { return system("command -v ffmpeg >/dev/null 2>&1") == 0; }

static int ffmpeg(const char *arguments)
{
    char command[2048];
    snprintf(command, sizeof command, "ffmpeg -nostdin -v error -y %s >/dev/null 2>&1", arguments);
    return system(command) == 0;
}

#define VIDEO TEST_BUILD "/tests/08_video"

/* The bytes of a video's frame, at most 64 kB. */
static size_t frame_of(const bzna_dataset *dataset, uint64_t i, uint8_t *bytes)
{
    bzna_image image = { .struct_size = sizeof image };
    bzna_status status = bzna_dataset_read_image(dataset, i, NULL, bytes, 65536, &image, NULL);
    return status == BZNA_OK ? (size_t)image.data_size : 0;
}

TEST(a_fragmented_file_is_refused_and_remuxed_as_the_message_says_it_has_the_frames)
{
    static const char *const flags[] = {
        "frag_keyframe+empty_moov", "frag_keyframe", "dash+global_sidx", "empty_moov+omit_tfhd_offset -frag_size 3000",
    };
    static uint8_t one[65536], other[65536];
    bzna_context *context = NULL;
    bzna_dataset *plain = NULL, *dataset = NULL;
    bzna_error err = fresh_error();
    if (!has_ffmpeg() || !ffmpeg("-f lavfi -i sine -f lavfi -i testsrc=size=64x64:rate=10 -t 0.7 -c:v libx264 -preset "
                                 "ultrafast -g 1 -map 0 -map 1 " VIDEO ".mp4"))
        SKIP("no ffmpeg with libx264 [ffmpeg]");
    REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
    REQUIRE(bzna_dataset_open(context, VIDEO ".mp4", NULL, &plain, &err) == BZNA_OK);
    for (size_t i = 0; i < COUNT(flags); i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "-i " VIDEO ".mp4 -map 0 -c copy -movflags %s " VIDEO "_fragmented.mp4",
                 flags[i]);
        REQUIRE(ffmpeg(arguments));
        CHECK_EQ(bzna_dataset_open(context, VIDEO "_fragmented.mp4", NULL, &dataset, &err), BZNA_E_UNSUPPORTED);
        CHECK_CONTAINS(err.message, "ffmpeg -i in.mp4 -c copy -movflags +faststart out.mp4");
    }
    REQUIRE(ffmpeg("-i " VIDEO "_fragmented.mp4 -c copy -movflags +faststart " VIDEO "_remuxed.mp4"));
    REQUIRE(bzna_dataset_open(context, VIDEO "_remuxed.mp4", NULL, &dataset, &err) == BZNA_OK);
    REQUIRE(bzna_dataset_count(dataset) == 7);
    for (uint64_t k = 0; k < 7; k++) {
        size_t size = frame_of(plain, k, one);
        CHECK(size && frame_of(dataset, k, other) == size && !memcmp(one, other, size));
    }
    bzna_dataset_close(dataset);
    bzna_dataset_close(plain);
    bzna_context_close(context);
    remove(VIDEO ".mp4");
    remove(VIDEO "_fragmented.mp4");
    remove(VIDEO "_remuxed.mp4");
}

/* Where these bytes are; NULL: nowhere. */
static uint8_t *found(uint8_t *in, size_t size, const char *what, size_t what_size)
{
    for (size_t at = 0; at + what_size <= size; at++)
        if (!memcmp(in + at, what, what_size))
            return in + at;
    return NULL;
}

/* What ffmpeg writes of JPEG frames is mp4v, whose esds says so (object type 0x6c). */
TEST(an_mp4v_video_is_what_its_esds_says)
{
    static const uint8_t others[] = { 0, 0x20, 0x21, 0x23, 0x60, 0x61, 0x65, 0x6a, 0x6d, 0x6e, 0xa3, 0xb1, 0x6b, 0xff };
    static const char *const told[] = {                     /* with lengths of one byte; what may stand between them */
        "\0\0\0\0\3\x13\0\1\0\4\x0d\x6c", "\0\0\0\0\3\x13\0\1\xe0\0\7\2ab\0\5\4\x0d\x6c",
        "\0\0\0\0\0\0\0\0\4\x0d\x6c" };
    static const uint8_t told_bytes[] = { 12, 19, 11 };
    static uint8_t one[65536], other[65536];
    uint8_t kept[32];
    bzna_context *context = NULL;
    bzna_dataset *plain = NULL, *dataset = NULL;
    bzna_error err = fresh_error();
    if (!has_ffmpeg() || !ffmpeg("-f lavfi -t 0.3 -i testsrc=size=64x48:rate=10 -c:v mjpeg " VIDEO ".mov -c:v mjpeg "
                                 VIDEO ".mp4"))
        SKIP("no ffmpeg [ffmpeg]");
    size_t file_size;
    uint8_t *file = slurp(VIDEO ".mp4", &file_size), *const esds = found(file, file_size, "esds", 4);
    REQUIRE(esds);
    uint8_t *const type = found(esds, 32, "\x6c\x11", 2);
    REQUIRE(type);
    REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
    REQUIRE(bzna_dataset_open(context, VIDEO ".mov", NULL, &plain, &err) == BZNA_OK);     /* its entry is jpeg */
    memcpy(kept, esds, sizeof kept);
    for (size_t i = 0; i <= COUNT(told); i++) {
        bzna_track_info track = { .struct_size = sizeof track };
        if (i)
            memcpy(esds + 4, told[i - 1], told_bytes[i - 1]);
        CHECK_EQ(bzna_dataset_open_memory(context, file, file_size, NULL, &dataset, &err), BZNA_OK);
        REQUIRE(dataset && bzna_dataset_count(dataset) == 3);
        for (uint64_t k = 0; k < 3; k++) {
            size_t size = frame_of(plain, k, one);
            CHECK(size && frame_of(dataset, k, other) == size && !memcmp(one, other, size));
        }
        CHECK_EQ(bzna_dataset_track_info(dataset, 0, &track, sizeof track, &err), BZNA_OK);
        CHECK_EQ(track.format, be_get((const uint8_t *)"jpeg", 4));
        bzna_dataset_close(dataset);
    }
    memcpy(esds, kept, sizeof kept);
    for (size_t i = 0; i < COUNT(others); i++) {
        *type = others[i];
        CHECK_EQ(bzna_dataset_open_memory(context, file, file_size, NULL, &dataset, &err), BZNA_E_CODEC);
        CHECK_CONTAINS(err.message, "'mp4v'");
    }
    for (uint8_t *end = type; end > esds + 4; end--) {      /* an esds that ends too early says nothing */
        end[-1] = 0;
        CHECK_EQ(bzna_dataset_open_memory(context, file, file_size, NULL, &dataset, &err), BZNA_E_CODEC);
    }
    bzna_dataset_close(plain);
    bzna_context_close(context);
    free(file);
    remove(VIDEO ".mp4");
    remove(VIDEO ".mov");
}

#ifndef BENZINA_NO_AVCODEC
/* 8 by 6 blocks of one color each, 4:2:0: all that can be told apart without knowing how chroma is resampled. */
static void draw_blocks(uint8_t *yuv, int width, int height)
{
    static const uint8_t luma[6] = { 16, 235, 60, 100, 150, 190 };
    static const uint8_t chroma[8][2] = { { 128, 128 }, { 90, 128 }, { 166, 128 }, { 128, 90 },
                                          { 128, 166 }, { 100, 160 }, { 160, 100 }, { 100, 100 } };
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            *yuv++ = luma[y * 6 / height];
    for (int p = 0; p < 2; p++)
        for (int y = 0; y < height / 2; y++)
            for (int x = 0; x < width / 2; x++)
                *yuv++ = chroma[x * 16 / width][p];
}

/* The largest difference between what is rendered of the video's only frame and ffmpeg's picture, amid the blocks. */
static double difference(bzna_context *context, const char *path, const uint8_t *rgb, int width, int height)
{
    bzna_output output = { .struct_size = sizeof output, .width = (uint32_t)width, .height = (uint32_t)height,
                           .layout = BZNA_LAYOUT_NHWC };
    size_t pixels = (size_t)width * (size_t)height, buffer_size = pixels * 4;
    bzna_dataset *dataset = NULL;
    bzna_decoder *decoder = NULL;
    bzna_image image = { .struct_size = sizeof image };
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_transform transform;
    bzna_error err = fresh_error();
    float *ours = calloc(pixels * 3, sizeof *ours);
    uint8_t *buffer = malloc(buffer_size);
    double worst = 999;
    bzna_transform_init(&transform, sizeof transform);
    if (bzna_dataset_open(context, path, NULL, &dataset, &err) == BZNA_OK &&
        bzna_decoder_open(context, &decoder, &err) == BZNA_OK &&
        bzna_dataset_read_image(dataset, 0, NULL, buffer, buffer_size, &image, &err) == BZNA_OK &&
        bzna_decoder_decode(decoder, &image, &picture, &err) == BZNA_OK &&
        bzna_picture_render(&picture, &transform, &output, ours, pixels * 3 * sizeof *ours, &err) == BZNA_OK) {
        worst = 0;
        for (int block = 0; block < 48; block++) {
            int x = width * (2 * (block % 8) + 1) / 16, y = height * (2 * (block / 8) + 1) / 12;
            for (size_t at = (size_t)(y * width + x) * 3, c = 0; c < 3; c++)
                worst = fmax(worst, fabs(fmin(fmax((double)ours[at + c], 0), 255) - rgb[at + c]));
        }
    } else {
        printf("  %s\n", err.message);
    }
    bzna_decoder_close(decoder);
    bzna_dataset_close(dataset);
    free(ours);
    free(buffer);
    return worst;
}

typedef struct video_kind { const char *encoder, *options; int width, height; } video_kind;

/* Videos of a group of kinds, of one encoder and size, and what ffmpeg decodes of each. Returns 0 if ffmpeg has no such
 * encoder, or no decoder for what it makes. */
static int make_videos(const video_kind *kinds, int count)
{
    const size_t size = (size_t)kinds->width * (size_t)kinds->height * 3 / 2;
    uint8_t *yuv = malloc(size);
    char encode[1024], decode[1024];
    int e = snprintf(encode, sizeof encode, "-f rawvideo -pix_fmt yuv420p -s %dx%d -i " VIDEO ".yuv", kinds->width,
                     kinds->height), d = 0;
    draw_blocks(yuv, kinds->width, kinds->height);
    spill(VIDEO ".yuv", yuv, size);
    free(yuv);
    for (int i = 0; i < count; i++) {
        e += snprintf(encode + e, sizeof encode - (size_t)e, " -c:v %s %s " VIDEO "%d.mp4", kinds->encoder,
                      kinds[i].options, i);
        d += snprintf(decode + d, sizeof decode - (size_t)d, "-i " VIDEO "%d.mp4 ", i);
    }
    for (int i = 0; i < count; i++)
        d += snprintf(decode + d, sizeof decode - (size_t)d, "-map %d -sws_flags accurate_rnd+full_chroma_int -pix_fmt "
                      "rgb24 -f rawvideo " VIDEO "%d.rgb ", i, i);
    return ffmpeg(encode) && ffmpeg(decode);
}

static void compare_video(bzna_context *context, const video_kind *kind, int number)
{
    char video[sizeof VIDEO + 16], decoded[sizeof VIDEO + 16];
    uint8_t *rgb;
    size_t size;
    double worst;
    snprintf(video, sizeof video, VIDEO "%d.mp4", number);
    snprintf(decoded, sizeof decoded, VIDEO "%d.rgb", number);
    rgb = slurp(decoded, &size);
    REQUIRE(rgb && size == (size_t)kind->width * (size_t)kind->height * 3);
    worst = difference(context, video, rgb, kind->width, kind->height);
    CHECK(worst <= 2);
    if (!(worst <= 2))
        printf("  %s %s %dx%d: %.1f off\n", kind->encoder, kind->options, kind->width, kind->height, worst);
    free(rgb);
    remove(video);
    remove(decoded);
}
#endif

TEST(plain_videos_have_the_colors_that_ffmpeg_gives_them)
{
#ifdef BENZINA_NO_AVCODEC
    SKIP("built without libavcodec [libavcodec-dev]");
#else
    static const char x264[] = "libx264 -preset ultrafast -crf 4", aom[] = "libaom-av1 -cpu-used 8 -crf 4";
    static const char x265[] = "libx265 -preset ultrafast -crf 4 -x265-params log-level=none";
#define BT709 "-color_primaries bt709 -color_trc bt709 -colorspace bt709 -f mov"
    static const video_kind kinds[] = {
        { x264, "", 1280, 720 }, { x264, "", 128, 96 }, { x264, "-color_range tv", 128, 96 },
        { x264, "-color_range pc", 128, 96 }, { x264, BT709, 128, 96 },
        { x264, "-color_range pc " BT709, 128, 96 },        /* colr of type nclc, which has no range */
        { x265, "", 128, 96 }, { x265, "-color_range pc", 128, 96 },
        { aom, "", 128, 96 }, { aom, "-color_range tv", 128, 96 }, { aom, "-color_range pc", 128, 96 } };
    bzna_context *context = NULL;
    int compared = 0, count;
    if (!has_ffmpeg())
        SKIP("no ffmpeg [ffmpeg]");
    REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
    for (int i = 0; i < (int)COUNT(kinds); i += count) {
        for (count = 1; i + count < (int)COUNT(kinds) && kinds[i + count].encoder == kinds[i].encoder &&
                        kinds[i + count].width == kinds[i].width; count++)
            continue;
        if (!make_videos(kinds + i, count))
            continue;
        for (int k = 0; k < count; k++)
            compare_video(context, &kinds[i + k], k);
        compared += count;
    }
    bzna_context_close(context);
    remove(VIDEO ".yuv");
    if (!compared)
        SKIP("ffmpeg has none of the encoders");
    printf("plain videos: %d of %d kinds compared with ffmpeg\n", compared, (int)COUNT(kinds));
#endif
}

TEST_MAIN(
    facts_load();
    RUN(mini_archives_open_by_path_as_their_facts_say)
    RUN(mini_archives_open_the_same_from_a_source_of_short_reads)
    RUN(opening_reads_no_sample)
    RUN(every_frame_decodes_to_the_md5_of_its_planes)
    RUN(without_a_track_the_thumbnail_comes_before_the_picture)
    RUN(a_track_that_is_not_there_is_named)
    RUN(a_buffer_too_small_is_refused_and_left_alone)
    RUN(an_index_out_of_range_is_an_error_everywhere)
    RUN(null_arguments_are_refused_and_closing_null_does_nothing)
    RUN(a_close_callback_is_optional)
    RUN(a_dataset_outlives_its_context)
    RUN(messages_call_a_dataset_what_its_config_says)
    RUN(a_missing_target_track_means_no_targets)
    RUN(another_track_can_have_the_targets)
    RUN(a_missing_file_name_track_is_not_found)
    RUN(a_plain_mp4_of_sync_samples_has_a_frame_a_sample)
    RUN(a_video_with_frames_that_need_others_is_refused)
    RUN(a_sync_table_that_lists_every_sample_is_no_obstacle)
    RUN(a_sample_cut_out_of_an_archive_opens_as_a_plain_mp4)
    RUN(archives_laid_end_to_end_count_on_and_live_as_long_as_the_whole)
    RUN(an_archive_in_memory_is_read_where_it_lies)
    RUN(a_list_of_files_is_one_data_set_in_its_order)
    RUN(ranges_outside_a_data_set_and_empty_ones_are_refused)
    RUN(files_that_cannot_be_opened_say_why)
    RUN(files_are_closed_when_open_fails_and_when_the_data_set_ends)
    RUN(missing_files_and_folders_without_pictures_are_refused)
    RUN(an_archive_cut_off_at_any_byte_is_refused)
    RUN(an_archive_file_cut_off_is_refused_when_mapped_too)
    RUN(a_sample_cut_off_at_any_byte_fails_alone)
    RUN(an_index_entry_outside_the_file_fails_its_own_sample)
    RUN(targets_outside_the_file_or_of_a_wrong_size_fail_alone)
    RUN(a_damaged_sample_names_box_and_offset_and_its_neighbors_stand)
    RUN(samples_give_their_fields_by_name)
    RUN(a_sample_of_an_archive_may_be_a_picture_by_itself)
    RUN(no_more_pictures_are_named_than_there_is_room_for)
    RUN(a_path_with_the_characters_of_patterns_is_opened_literally)
    RUN(bytes_past_the_last_box_are_ignored_when_they_are_too_few_for_one)
    RUN(videos_of_codecs_that_are_not_decoded_are_refused_by_name)
    RUN(files_of_HEIF_and_AVIF_are_refused_and_the_message_says_what_reads_them)
    RUN(an_archive_that_was_never_indexed_is_named)
    RUN(a_sample_without_moov_or_chunk_fails_alone)
    RUN(a_sample_larger_than_the_limit_is_refused)
    RUN(changed_bytes_never_crash_the_reader)
    RUN(a_failing_size_callback_is_an_io_error)
    RUN(a_source_larger_than_it_says_or_smaller_is_noticed)
    RUN(every_read_that_fails_is_reported_and_nothing_leaks)
    RUN(targets_of_a_source_are_read_once)
    RUN(targets_far_apart_are_read_too_when_the_file_is_opened)
    RUN(an_archive_that_is_a_file_allocates_nothing_per_sample)
    RUN(every_allocation_that_fails_gives_e_memory_and_no_leak)
    RUN(answers_are_never_longer_than_the_callers_struct)
    RUN(configs_of_other_versions_are_taken_or_refused)
    RUN(a_box_moof_is_refused_wherever_it_stands_and_mvex_changes_nothing)
    RUN(a_track_whose_samples_are_of_several_entries_is_refused)
    RUN(a_video_is_turned_as_its_matrices_say_and_one_that_is_to_be_scaled_is_refused)
    RUN(matrices_of_track_and_movie_are_applied_one_after_the_other)
    RUN(a_sample_is_turned_or_refused_alone)
    RUN(nothing_of_a_turned_sample_is_left_for_the_next_one)
    RUN(an_mp4v_video_is_what_its_esds_says)
    RUN(a_fragmented_file_is_refused_and_remuxed_as_the_message_says_it_has_the_frames)
    RUN(plain_videos_have_the_colors_that_ffmpeg_gives_them)
)
