/* Archives written. The archives of tests/data are packed again, by path and by sink, and must hold what their
 * .json says. */
#define fdatasync test_fdatasync
#include "library.h"
#undef fdatasync
#include "test.h"
#include "known.h"
#include "sink.h"

/* The library's calls come here. */
int test_fdatasync(int fd);
static const char *synced_path;               /* of the file; NULL: calls are not counted */
static int syncs, sync_errors[4], had_length[4];  /* errno of each call, 0: it succeeds; whether mdat had its length */
int test_fdatasync(int fd)
{
    FILE *file = synced_path ? fopen(synced_path, "rb") : NULL;
    uint8_t head[40] = { 0 };
    if (!file)
        return fsync(fd);
    had_length[syncs] = fread(head, 1, sizeof head, file) == sizeof head && bzi_be64(head + 32) != 0;
    fclose(file);
    errno = sync_errors[syncs++];
    return errno ? -1 : 0;
}

/* ---- Samples to write ---- */

enum { AS_READ, AS_ANNEXB, AS_LENGTH_2 };

/* A sample of an archive, read and made ready for the writer. */
typedef struct prepared {
    bzna_writer_sample desc;
    bzna_image       input, thumb;
    uint8_t         *buffers[4];
    char             name[64];
} prepared;

static void prepare_as(bzna_image *image, uint8_t **buffer, int form)
{
    size_t size = 0;
    if (form == AS_ANNEXB) {
        bzna_image_annexb(image, NULL, 0, &size, NULL);
        *buffer = malloc(size);
        if (bzna_image_annexb(image, *buffer, size, &size, NULL) != BZNA_OK)
            exit(1);
        image->config = NULL;
        image->config_size = 0;
        image->data = *buffer;
        image->data_size = size;
        image->length_size = 0;
    } else if (form == AS_LENGTH_2) {
        const uint8_t *p = image->data, *end = p + image->data_size;
        *buffer = malloc((size_t)image->data_size);
        while (p < end) {
            size_t n = be_get(p, 4);
            if (n > 65535)
                exit(1);
            memcpy(*buffer + size, p + 2, n + 2);
            p += n + 4;
            size += n + 2;
        }
        image->data = *buffer;
        image->data_size = size;
        image->length_size = 2;
    }
}

static void prepare(prepared *p, const bzna_dataset *dataset, const fact_sample *s, int form)
{
    memset(p, 0, sizeof *p);
    p->desc.struct_size = sizeof p->desc;
    p->input.struct_size = p->thumb.struct_size = sizeof p->input;
    p->buffers[0] = malloc((size_t)s->size);
    p->buffers[1] = malloc((size_t)s->size);
    if (bzna_dataset_read_image(dataset, (uint64_t)s->index, "bzna_input", p->buffers[0], (size_t)s->size, &p->input,
                                NULL) != BZNA_OK ||
        bzna_dataset_read_image(dataset, (uint64_t)s->index, "bzna_thumb", p->buffers[1], (size_t)s->size, &p->thumb,
                                NULL) != BZNA_OK ||
        bzna_dataset_field(dataset, (uint64_t)s->index, "name", p->name, sizeof p->name, NULL, NULL) != BZNA_OK)
        exit(1);
    p->desc.has_target = s->target != BZNA_TARGET_NONE;
    p->desc.target = s->target;
    p->desc.name = p->name;
    p->desc.image = &p->input;
    p->desc.thumb = s->images[0].at == s->images[1].at ? NULL : &p->thumb;
    prepare_as(&p->input, &p->buffers[2], form);
    prepare_as(&p->thumb, &p->buffers[3], form);
}

static void prepared_free(prepared *p)
{
    for (int i = 0; i < 4; i++)
        free(p->buffers[i]);
}

static bzna_status add_all(bzna_writer *writer, bzna_context *context, int a, int form, unsigned which)
{
    bzna_dataset *dataset = NULL;
    bzna_status status = bzna_dataset_open(context, archives[a], NULL, &dataset, NULL);
    for (int i = 0; i < 8 && status == BZNA_OK; i++) {
        prepared p;
        bzna_error err = fresh_error();
        if (!(which >> i & 1))
            continue;
        prepare(&p, dataset, &known[a].samples[i], form);
        status = bzna_writer_add(writer, BZNA_INDEX_NEXT, &p.desc, 0, &err);
        if (status != BZNA_OK)
            printf("  %s: %s\n", bzna_status_name(status), err.message);
        prepared_free(&p);
    }
    bzna_dataset_close(dataset);
    return status;
}

#define ALL    0xffu
/* without number 3: its thumbnail has another pixel aspect ratio, so another configuration, and no outer track is
 * written */
#define SHARED 0xf7u

/* The whole archive into memory; the caller frees s->data. */
static void pack(memory_sink *s, int a, int form, unsigned which)
{
    counter c;
    bzna_context *context = context_of(&c);
    bzna_sink sink = sink_of(s);
    bzna_writer *writer = NULL;
    bzna_error err = fresh_error();
    CHECK_EQ(bzna_writer_open_sink(context, &sink, NULL, &writer, &err), BZNA_OK);
    REQUIRE(writer);
    CHECK_EQ(add_all(writer, context, a, form, which), BZNA_OK);
    CHECK_EQ(bzna_writer_finish(writer, &err), BZNA_OK);
    CHECK_EQ(s->closes, 0);
    CHECK_EQ(bzna_writer_close(writer), BZNA_OK);
    CHECK_EQ(s->closes, 1);
    CHECK_EQ(s->patched, 1);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
}

static bzna_status open_bytes(bzna_context *context, memory_source *m, const uint8_t *data, size_t size,
                              bzna_dataset **dataset, bzna_error *err)
{
    bzna_source source = source_of(m, data, size);
    return bzna_dataset_open_source(context, &source, NULL, dataset, err);
}

static void check_written(bzna_context *context, const bzna_dataset *dataset, const facts *f)
{
    static uint8_t buffer[1 << 18];
    bzna_decoder *decoder = NULL;
    bzna_dataset_info info;
    uint64_t next = 40;
#ifndef BENZINA_NO_AVCODEC
    CHECK_EQ(bzna_decoder_open(context, &decoder, NULL), BZNA_OK);
#else
    (void)context;
#endif
    CHECK_EQ(bzna_dataset_get_info(dataset, &info, sizeof info, NULL), BZNA_OK);
    CHECK_EQ(info.sample_count, 8);
    CHECK_EQ(info.target_count, 8);                         /* entries of the index; two say that there is none */
    CHECK_EQ(info.track_count, 3);                          /* see SHARED */
    for (int i = 0; i < 8; i++) {
        const fact_sample *s = &f->samples[i];
        bzna_sample_ref sample = { .struct_size = sizeof sample };
        char name[64] = "";
        CHECK_EQ(bzna_dataset_sample(dataset, (uint64_t)i, &sample, sizeof sample, NULL), BZNA_OK);
        CHECK_EQ(sample.target, s->target);
        CHECK_EQ(sample.offset, next);
        CHECK_EQ(sample.image_count, 2);
        CHECK_STR(sample.image_names[0], "bzna_input");
        CHECK_STR(sample.image_names[1], "bzna_thumb");
        next += sample.size;
        CHECK_EQ(bzna_dataset_field(dataset, (uint64_t)i, "name", name, sizeof name, NULL, NULL), BZNA_OK);
        CHECK_STR(name, s->filename);
        for (int k = 0; k < 2; k++) {
            const fact_image *m = &s->images[k];
            bzna_image image = { .struct_size = sizeof image };
            bzna_image_info told;
            CHECK_EQ(bzna_dataset_read_image(dataset, (uint64_t)i, m->name, buffer, sizeof buffer, &image, NULL),
                     BZNA_OK);
            CHECK_EQ(bzna_dataset_image_info(dataset, (uint64_t)i, m->name, &told, sizeof told, NULL), BZNA_OK);
            CHECK(image.width == m->width && image.height == m->height && image.frame_width == m->frame_width &&
                  image.frame_height == m->frame_height);
            CHECK(image.crop_x == 0 && image.crop_y == 0 && image.length_size == 4);
            for (int n = 0; n < m->clap_count; n++)
                CHECK_EQ(told.clap[n], m->clap[n]);
            CHECK_EQ(told.fourcc, be_get((const uint8_t *)m->codec, 4));
            CHECK(image.color.present && image.color.full_range == 1 && image.color.matrix == 5);
#ifndef BENZINA_NO_AVCODEC
            {
                bzna_picture picture = { .struct_size = sizeof picture };
                bzna_error err = fresh_error();
                char md5[33] = "";
                CHECK_EQ(bzna_decoder_decode(decoder, &image, &picture, &err), BZNA_OK);
                REQUIRE(picture.plane[0] && picture.plane[1] && picture.plane[2]);
                picture_md5(&picture, md5);
                CHECK_STR(md5, m->md5);
            }
#endif
        }
    }
    bzna_decoder_close(decoder);
}

TEST(archives_packed_again_hold_the_same_by_sink_and_by_path)
{
    for (int a = 0; a < 2; a++) {
        counter c;
        memory_sink s;
        memory_source m;
        bzna_context *context = context_of(&c);
        bzna_dataset *dataset = NULL;
        bzna_writer *writer = NULL;
        bzna_error err = fresh_error();
        uint8_t *file;
        size_t size;
        char path[256];
        pack(&s, a, AS_READ, ALL);
        CHECK_EQ(open_bytes(context, &m, s.data, s.size, &dataset, &err), BZNA_OK);
        REQUIRE(dataset);
        check_written(context, dataset, &known[a]);
        bzna_dataset_close(dataset);
        snprintf(path, sizeof path, "%s/tests/10_packed_%d.bzna", TEST_BUILD, a);
        CHECK_EQ(bzna_writer_open(context, path, NULL, &writer, &err), BZNA_OK);
        REQUIRE(writer);
        CHECK_EQ(add_all(writer, context, a, AS_READ, ALL), BZNA_OK);
        CHECK_EQ(bzna_writer_finish(writer, &err), BZNA_OK);
        CHECK_EQ(bzna_writer_close(writer), BZNA_OK);
        file = slurp(path, &size);
        CHECK(file && size == s.size && !memcmp(file, s.data, size));       /* which also is: twice the same */
        CHECK_EQ(bzna_dataset_open(context, path, NULL, &dataset, &err), BZNA_OK);
        check_written(context, dataset, &known[a]);
        bzna_dataset_close(dataset);
        bzna_context_close(context);
        CHECK_ALL_FREED(c);
        free(file);
        free(s.data);
        remove(path);
    }
}

TEST(annex_b_input_gives_the_same_bytes)
{
    for (int a = 0; a < 2; a++) {
        memory_sink s, t;
        pack(&s, a, AS_READ, ALL);
        pack(&t, a, AS_ANNEXB, ALL);
        CHECK(s.size == t.size && !memcmp(s.data, t.data, s.size));
        free(s.data);
        free(t.data);
    }
}

TEST(lengths_of_two_bytes_give_the_same_bytes)
{
    for (int a = 0; a < 2; a++) {
        memory_sink s, t;
        pack(&s, a, AS_READ, SHARED);             /* number 3 has a unit of more than 65535 bytes */
        pack(&t, a, AS_LENGTH_2, SHARED);
        CHECK(s.size == t.size && !memcmp(s.data, t.data, s.size));
        free(s.data);
        free(t.data);
    }
}

TEST(an_archive_packed_from_a_packed_one_is_the_same)
{
    for (int a = 0; a < 2; a++) {
        counter c;
        memory_sink s, t;
        memory_source m;
        bzna_context *context = context_of(&c);
        bzna_dataset *dataset = NULL;
        bzna_writer *writer = NULL;
        bzna_sink sink;
        pack(&s, a, AS_READ, ALL);
        REQUIRE(open_bytes(context, &m, s.data, s.size, &dataset, NULL) == BZNA_OK);
        sink = sink_of(&t);
        REQUIRE(bzna_writer_open_sink(context, &sink, NULL, &writer, NULL) == BZNA_OK);
        for (int i = 0; i < 8; i++) {
            prepared p;
            prepare(&p, dataset, &known[a].samples[i], AS_READ);
            CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &p.desc, 0, NULL), BZNA_OK);
            prepared_free(&p);
        }
        CHECK_EQ(bzna_writer_finish(writer, NULL), BZNA_OK);
        bzna_writer_close(writer);
        CHECK(s.size == t.size && !memcmp(s.data, t.data, s.size));
        bzna_dataset_close(dataset);
        bzna_context_close(context);
        free(s.data);
        free(t.data);
    }
}

/* ---- What was written, box by box (FORMAT.md) ---- */

TEST(the_outer_file_is_laid_out_as_the_format_says)
{
    static const char *const names[4] = { "bzna_input", "bzna_target", "bzna_fname", "bzna_thumb" };
    static const char *const mimes[3] = { "video/mp4", "application/octet-stream", "text/plain" };
    for (int a = 0; a < 2; a++) {
        memory_sink s;
        size_t moov, at;
        char path[96];
        pack(&s, a, AS_READ, SHARED);
        CHECK(!memcmp(s.data, "\0\0\0\x18" "ftypisom\0\0\0\0bznaisom\0\0\0\1mdat", 32));
        moov = 24 + be_get(s.data + 32, 8);
        CHECK(!memcmp(s.data + moov + 4, "moov", 4));
        CHECK_EQ(moov + be_get(s.data + moov, 4), s.size);  /* moov is the last box */
        at = box_at(s.data, 0, s.size, "moov/mvhd");
        CHECK(at && s.data[at + 8] == 1 && be_get(s.data + at + 28, 4) == 20 && be_get(s.data + at + 32, 8) == 140);
        for (int t = 0; t < 4; t++) {
            snprintf(path, sizeof path, "moov/trak.%d/tkhd", t);
            at = box_at(s.data, 0, s.size, path);
            CHECK(at && be_get(s.data + at + 8, 4) == (t == 3 ? 0x01000003u : 0x01000000u));
            CHECK_EQ(be_get(s.data + at + 8 + 4 + 16, 4), t + 1);                               /* track_ID */
            CHECK_EQ(be_get(s.data + at + 96, 8), t == 3 ? 512ull << 48 | 512u << 16 : 0);      /* width, height */
            snprintf(path, sizeof path, "moov/trak.%d/mdia/mdhd", t);
            at = box_at(s.data, 0, s.size, path);
            CHECK(at && s.data[at + 8] == 1 && be_get(s.data + at + 28, 4) == 20 &&
                  be_get(s.data + at + 40, 2) == 0x55c4);
            snprintf(path, sizeof path, "moov/trak.%d/mdia/hdlr", t);
            at = box_at(s.data, 0, s.size, path);
            CHECK(at && !memcmp(s.data + at + 16, t == 3 ? "vide" : "meta", 4));
            CHECK(at && be_get(s.data + at, 4) == 32 + strlen(names[t]) + 1 &&
                  !strcmp((char *)s.data + at + 32, names[t]));
            snprintf(path, sizeof path, "moov/trak.%d/mdia/minf/%s", t, t == 3 ? "vmhd" : "nmhd");
            CHECK(box_at(s.data, 0, s.size, path));
            snprintf(path, sizeof path, "moov/trak.%d/mdia/minf/stbl/stts", t);
            at = box_at(s.data, 0, s.size, path);
            CHECK(at && be_get(s.data + at + 12, 4) == 1 && be_get(s.data + at + 16, 4) == 7 &&
                  be_get(s.data + at + 20, 4) == 20);
            snprintf(path, sizeof path, "moov/trak.%d/mdia/minf/stbl/stsz", t);
            at = box_at(s.data, 0, s.size, path);
            /* spelled out, as the tools do */
            CHECK(at && be_get(s.data + at + 12, 4) == 0 && be_get(s.data + at + 16, 4) == 7);
            snprintf(path, sizeof path, "moov/trak.%d/mdia/minf/stbl/stsc", t);
            at = box_at(s.data, 0, s.size, path);
            CHECK(at && !memcmp(s.data + at + 12, "\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\1", 16));
            snprintf(path, sizeof path, "moov/trak.%d/mdia/minf/stbl/stco", t);
            at = box_at(s.data, 0, s.size, path);
            CHECK(at && be_get(s.data + at + 12, 4) == 7);
            snprintf(path, sizeof path, "moov/trak.%d/mdia/minf/stbl/co64", t);
            CHECK(!box_at(s.data, 0, s.size, path));        /* only when needed */
            if (t < 3) {
                snprintf(path, sizeof path, "moov/trak.%d/mdia/minf/stbl/stsd/mett", t);
                at = box_at(s.data, 0, s.size, path);
                CHECK(at && s.data[at + 16] == 0 && !strcmp((char *)s.data + at + 17, mimes[t]));
            }
        }
        /* The playable track's chunks are the thumbnails inside the samples. */
        at = box_at(s.data, 0, s.size, "moov/trak.3/mdia/minf/stbl/stco");
        for (size_t i = 0; i < 7 && at; i++) {
            counter c;
            memory_source m;
            bzna_context *context = context_of(&c);
            bzna_dataset *dataset = NULL;
            bzna_image_info image;
            REQUIRE(open_bytes(context, &m, s.data, s.size, &dataset, NULL) == BZNA_OK);
            CHECK_EQ(bzna_dataset_image_info(dataset, i, "bzna_thumb", &image, sizeof image, NULL), BZNA_OK);
            CHECK_EQ(be_get(s.data + at + 16 + 4 * i, 4), image.data_offset);
            bzna_dataset_close(dataset);
            bzna_context_close(context);
        }
        free(s.data);
    }
}

/* Every box of [begin, end), recursively: sizes must add up to the byte. Returns how many boxes there are, -1 if they
 * do not. */
static int count_boxes(const uint8_t *d, size_t begin, size_t end, int depth)
{
    static const char containers[] = "moov trak mdia minf dinf stbl stsd hvc1 avc1 dref ";
    int count = 0;
    while (begin < end) {
        uint64_t size = end - begin >= 8 ? be_get(d + begin, 4) : 0, header = 8;
        char type[6] = "     ";
        if (end - begin < 8)
            return -1;
        if (size == 1) {
            size = be_get(d + begin + 8, 8);
            header = 16;
        }
        if (size < header || size > end - begin || depth > 12)
            return -1;
        memcpy(type, d + begin + 4, 4);
        if (strstr(containers, type)) {
            size_t skip = !memcmp(type, "stsd", 4) || !memcmp(type, "dref", 4) ? 8 :
                          !memcmp(type, "hvc1", 4) || !memcmp(type, "avc1", 4) ? 78 :
                                                                                 0;
            int inside = count_boxes(d, begin + header + skip, begin + size, depth + 1);
            if (inside < 0)
                return -1;
            count += inside;
        }
        begin += size;
        count++;
    }
    return count;
}

TEST(every_box_adds_up_outside_and_inside)
{
    static const uint32_t children[3] = { BZI_FOURCC('f', 't', 'y', 'p'), BZI_FOURCC('m', 'd', 'a', 't'),
                                          BZI_FOURCC('m', 'o', 'o', 'v') };
    for (int a = 0; a < 2; a++) {
        memory_sink s;
        size_t stsz, at = 40;
        pack(&s, a, AS_READ, ALL);
        CHECK(count_boxes(s.data, 0, s.size, 0) > 50);
        stsz = box_at(s.data, 0, s.size, "moov/trak/mdia/minf/stbl/stsz");
        REQUIRE(stsz);
        for (int i = 0; i < 8; i++) {
            size_t size = be_get(s.data + stsz + 20 + 4 * i, 4), child = at;
            const uint8_t *d = s.data + at;
            int target = known[a].samples[i].target >= 0;
            CHECK(count_boxes(d, 0, size, 0) > 40);
            for (int k = 0; k < 3; k++) {
                CHECK_EQ(be_get(s.data + child + 4, 4), children[k]);
                child += be_get(s.data + child, 4);
            }
            CHECK_EQ(child, at + size);
            for (int t = 0; t < 3 + target; t++) {          /* each track's one sample lies in mdat */
                char path[64];
                size_t n, mdat = box_at(d, 0, size, "mdat");
                uint64_t offset, length;
                snprintf(path, sizeof path, "moov/trak.%d/mdia/minf/stbl/stco", t);
                n = box_at(d, 0, size, path);
                REQUIRE(n && be_get(d + n + 12, 4) == 1);
                offset = be_get(d + n + 16, 4);
                memcpy(path + strlen(path) - 4, "stsz", 4);
                n = box_at(d, 0, size, path);
                REQUIRE(n);
                length = be_get(d + n + 12, 4);
                CHECK(length > 0 && be_get(d + n + 16, 4) == 1);
                CHECK(offset >= mdat + 8 && offset + length <= mdat + be_get(d + mdat, 4));
            }
            CHECK(box_at(d, 0, size, target ? "moov/trak.3" : "moov/trak.2"));
            CHECK(!box_at(d, 0, size, target ? "moov/trak.4" : "moov/trak.3"));
            at += size;
        }
        free(s.data);
    }
}

TEST(configurations_hold_no_banner_and_colr_is_always_there)
{
    for (int a = 0; a < 2; a++) {
        memory_sink s;
        size_t at, end;
        const char *entry = a ? "moov/trak.3/mdia/minf/stbl/stsd/avc1" : "moov/trak.3/mdia/minf/stbl/stsd/hvc1";
        char path[96];
        pack(&s, a, AS_READ, SHARED);
        for (size_t i = 0; i + 9 < s.size; i++)
            CHECK(memcmp(s.data + i, "x265 (bui", 9) && memcmp(s.data + i, "x264 - co", 9)); /* the encoders' banners */
        snprintf(path, sizeof path, "%s/%s", entry, a ? "avcC" : "hvcC");
        at = box_at(s.data, 0, s.size, path);
        REQUIRE(at);
        end = at + be_get(s.data + at, 4);
        if (a) {
            CHECK_EQ(s.data[at + 8 + 5] & 31, 1);           /* one SPS */
        } else {
            static const uint8_t types[3] = { 32, 33, 34 };
            size_t p = at + 8 + 22;
            CHECK_EQ(s.data[p++], 3);
            for (int k = 0; k < 3; k++) {
                CHECK_EQ(s.data[p] & 63, types[k]);
                CHECK_EQ(be_get(s.data + p + 1, 2), 1);
                p += 5 + be_get(s.data + p + 3, 2);
            }
            CHECK_EQ(p, end);
            CHECK_EQ(s.data[at + 8 + 21] & 3, 3);           /* lengths of 4 bytes */
        }
        snprintf(path, sizeof path, "%s/colr", entry);
        at = box_at(s.data, 0, s.size, path);
        /* as the stream says: 2, 2, 5, full */
        CHECK(at && be_get(s.data + at, 4) == 19 && !memcmp(s.data + at + 8, "nclx\0\2\0\2\0\5\x80", 11));
        free(s.data);
    }
}

/* ISO/IEC 14496-15: the new records repeat what the original tool's say. */
TEST(configuration_records_say_what_the_original_ones_say)
{
    for (int a = 0; a < 2; a++) {
        memory_sink s;
        size_t size, was, is;
        uint8_t *file = slurp(archives[a], &size);
        const char *path = a ? "moov/trak.3/mdia/minf/stbl/stsd/avc1/avcC" :
                               "moov/trak.3/mdia/minf/stbl/stsd/hvc1/hvcC";
        pack(&s, a, AS_READ, SHARED);
        was = box_at(file, 0, size, path);
        is = box_at(s.data, 0, s.size, path);
        REQUIRE(was && is);
        if (a) {
            CHECK(be_get(file + was, 4) == be_get(s.data + is, 4) &&
                  !memcmp(file + was, s.data + is, be_get(file + was, 4)));
        } else {
            CHECK(!memcmp(file + was + 8, s.data + is + 8, 13));                    /* version, profile .. level */
            CHECK(!memcmp(file + was + 8 + 16, s.data + is + 8 + 16, 3));           /* chroma format, depths */
            CHECK_EQ(file[was + 8 + 21] & 0x3f, s.data[is + 8 + 21] & 0x3f); /* sub-layers, nesting, length size */
            CHECK(!memcmp(file + was + 8 + 23 + 5, s.data + is + 8 + 23 + 5, 24 + 5 + 46));      /* VPS, SPS */
        }
        free(file);
        free(s.data);
    }
}

/* ---- Choices ---- */

typedef struct bench {
    counter c;
    memory_sink s;
    memory_source m;
    bzna_context *context;
    bzna_dataset *from, *to;
    bzna_writer *writer;
    bzna_error err;
} bench;

static void bench_open(bench *b, int a)
{
    bzna_sink sink;
    memset(b, 0, sizeof *b);
    b->context = context_of(&b->c);
    b->err = fresh_error();
    sink = sink_of(&b->s);
    if (bzna_dataset_open(b->context, archives[a], NULL, &b->from, NULL) != BZNA_OK ||
        bzna_writer_open_sink(b->context, &sink, NULL, &b->writer, &b->err) != BZNA_OK)
        exit(1);
}

static void bench_finish(bench *b)
{
    CHECK_EQ(bzna_writer_finish(b->writer, &b->err), BZNA_OK);
    CHECK_EQ(open_bytes(b->context, &b->m, b->s.data, b->s.size, &b->to, &b->err), BZNA_OK);
}

static void bench_close(bench *b)
{
    bzna_writer_close(b->writer);
    CHECK_EQ(b->s.closes, b->writer ? 1 : 0);
    bzna_dataset_close(b->from);
    bzna_dataset_close(b->to);
    bzna_context_close(b->context);
    CHECK_ALL_FREED(b->c);
    free(b->s.data);
}

/* Box at a path of d[0, size), which must be there and be whole. */
static size_t box_need(const uint8_t *d, size_t size, const char *path)
{
    size_t at = box_at(d, 0, size, path);
    if (!at) {
        printf("  no box %s\n", path);
        exit(1);
    }
    return at;
}

/* A table's entries, which must fill it to the byte: all boxes may add up although one entry too many was written. */
static uint64_t entries_of(const uint8_t *d, size_t size, const char *stbl, const char *type, size_t entry_bytes)
{
    char path[96];
    size_t at;
    uint64_t count;
    snprintf(path, sizeof path, "%s/%s", stbl, type);
    at = box_need(d, size, path);
    count = be_get(d + at + 12, 4);
    CHECK_EQ(be_get(d + at, 4), 16 + count * entry_bytes);
    return count;
}

/* The tracks of the movie box in d[0, size): each table is as large as it says, those of a track agree on its samples,
 * and track IDs go from 1 to next_track_ID - 1. Returns how many tracks there are. */
static uint32_t check_tracks(const uint8_t *d, size_t size)
{
    uint32_t tracks = 0;
    char path[96];
    size_t at;
    for (;; tracks++) {
        char stbl[64];
        uint64_t samples;
        snprintf(path, sizeof path, "moov/trak.%u", tracks);
        if (!box_at(d, 0, size, path))
            break;
        snprintf(path, sizeof path, "moov/trak.%u/tkhd", tracks);
        at = box_need(d, size, path);
        CHECK_EQ(be_get(d + at + (d[at + 8] ? 28 : 20), 4), tracks + 1);
        snprintf(stbl, sizeof stbl, "moov/trak.%u/mdia/minf/stbl", tracks);
        snprintf(path, sizeof path, "%s/stsz", stbl);
        at = box_need(d, size, path);
        samples = be_get(d + at + 16, 4);
        CHECK_EQ(be_get(d + at, 4), 20 + (be_get(d + at + 12, 4) ? 0 : 4 * samples));
        CHECK_EQ(entries_of(d, size, stbl, "stts", 8), 1);
        snprintf(path, sizeof path, "%s/stts", stbl);
        CHECK_EQ(be_get(d + box_need(d, size, path) + 16, 4), samples);
        CHECK_EQ(entries_of(d, size, stbl, "stsc", 12), samples > 0);
        CHECK_EQ(entries_of(d, size, stbl, "stco", 4), samples);
    }
    at = box_need(d, size, "moov/mvhd");
    CHECK_EQ(be_get(d + at + be_get(d + at, 4) - 4, 4), tracks + 1);
    return tracks;
}

/* The archive of a bench, outside and in each sample. inside: how many tracks sample i has. */
static void check_archive(const memory_sink *s, uint32_t outside, const uint32_t *inside, uint32_t count)
{
    size_t stsz = box_need(s->data, s->size, "moov/trak/mdia/minf/stbl/stsz"), at = 40;
    CHECK_EQ(check_tracks(s->data, s->size), outside);
    CHECK_EQ(be_get(s->data + stsz + 16, 4), count);
    for (uint32_t i = 0; i < count; i++) {
        size_t size = be_get(s->data + stsz + 20 + 4 * i, 4);
        CHECK_EQ(check_tracks(s->data + at, size), inside[i]);
        at += size;
    }
}

TEST(tables_have_as_many_entries_as_they_count_and_tracks_are_numbered_from_one)
{
    enum { SPLITS = 1, NO_TARGETS = 2, NO_NAMES = 4, LARGE = 8, WAYS = 16 };
    for (int way = 0; way < 2 * WAYS; way++) {
        static const uint32_t splits[6] = { 1, 3, 1, 0, 3, 3 };
        uint32_t inside[6], meta = way & NO_NAMES ? 2 : 3;
        int before = test_failures;
        bench b;
        bench_open(&b, way / WAYS);
        for (int i = 0; i < 6; i++) {
            prepared p;
            prepare(&p, b.from, &known[way / WAYS].samples[way & LARGE && i % 2 ? 2 : 0], AS_READ);
            if (way & LARGE && i % 4 == 1)
                p.desc.thumb = NULL;                        /* of a frame of 1024x512, which is none itself */
            p.desc.split = way & SPLITS ? splits[i] : 0;
            p.desc.has_target = !(way & NO_TARGETS) && i < 5;
            p.desc.target = p.desc.has_target ? p.desc.target : 0;
            p.desc.name = way & NO_NAMES || i == 4 ? NULL : p.name;
            inside[i] = 1u + p.desc.has_target + (p.desc.name != NULL) + !(way & LARGE && i % 4 == 1);
            CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &p.desc, 0, &b.err), BZNA_OK);
            prepared_free(&p);
        }
        bench_finish(&b);
        check_archive(&b.s, meta * (way & SPLITS ? 3 : 1) + !(way & LARGE), inside, 6);
        if (test_failures != before)
            printf("  %s%s%s%s%s\n", way < WAYS ? "H.265" : "H.264", way & SPLITS ? ", splits" : "",
                   way & NO_TARGETS ? ", no targets" : "", way & NO_NAMES ? ", no names" : "",
                   way & LARGE ? ", thumbnails not everywhere" : "");
        bench_close(&b);
    }
}

#define Z4  "\0\0\0\0"
#define Z8  Z4 Z4
#define Z16 Z8 Z8
#define MATRIX "\0\1\0\0" Z4 Z4 Z4 "\0\1\0\0" Z4 Z4 Z4 "\x40\0\0\0"
#define VISUAL "\0\0\0\0\0\0\0\1" Z16               /* a visual entry up to its width */
#define VISUAL_END "\0\x48\0\0\0\x48\0\0" Z4 "\0\1" Z16 Z16 "\0\x18\xff\xff"

/* The box at a path, skip bytes into it, begins with these bytes. */
static void check_bytes(const uint8_t *d, size_t size, const char *path, size_t skip, const char *bytes, size_t count)
{
    size_t at = box_need(d, size, path) + skip;
    for (size_t i = 0; i < count; i++)
        if (d[at + i] != (uint8_t)bytes[i]) {
            printf("  %s: byte %d is %02x, not %02x\n", path, (int)(skip + i), d[at + i], (uint8_t)bytes[i]);
            test_failures++;
            return;
        }
}
#define BYTES(path, literal) check_bytes(d, size, path, 0, literal, sizeof literal - 1)
#define BYTES_AT(path, skip, literal) check_bytes(d, size, path, skip, literal, sizeof literal - 1)

/* ISO/IEC 14496-12, 8.2.2, 8.3.2, 8.4.2, 8.7.2, 12.1: written out by hand. Sample 2 has a picture of 640x480 in a frame
 * of 1024x512, and a thumbnail. */
TEST(headers_and_sample_entries_are_the_bytes_that_the_standard_has)
{
    for (int a = 0; a < 2; a++) {
        memory_sink s;
        const uint8_t *d;
        size_t size, stsz;
        const char *outer = a ? "moov/trak.3/mdia/minf/stbl/stsd/avc1" : "moov/trak.3/mdia/minf/stbl/stsd/hvc1";
        const char *input = a ? "moov/trak/mdia/minf/stbl/stsd/avc1" : "moov/trak/mdia/minf/stbl/stsd/hvc1";
        pack(&s, a, AS_READ, SHARED);
        d = s.data;
        size = s.size;
        BYTES("moov/mvhd", "\0\0\0\x78mvhd\1\0\0\0" Z16 "\0\0\0\x14" Z4 "\0\0\0\x8c\0\1\0\0\1\0\0\0" Z8
              MATRIX Z16 Z8 "\0\0\0\5");
        BYTES("moov/trak.1/tkhd", "\0\0\0\x68tkhd\1\0\0\0" Z16 "\0\0\0\2" Z4 Z4 "\0\0\0\x8c" Z16 MATRIX Z8);
        BYTES("moov/trak.3/tkhd", "\0\0\0\x68tkhd\1\0\0\3" Z16 "\0\0\0\4" Z4 Z4 "\0\0\0\x8c" Z16
              MATRIX "\2\0\0\0\2\0\0\0");
        BYTES("moov/trak.1/mdia/mdhd", "\0\0\0\x2cmdhd\1\0\0\0" Z16 "\0\0\0\x14" Z4 "\0\0\0\x8c\x55\xc4\0\0");
        BYTES("moov/trak.3/mdia/mdhd", "\0\0\0\x2cmdhd\1\0\0\0" Z16 "\0\0\0\x14" Z4 "\0\0\0\x8c\x55\xc4\0\0");
        BYTES("moov/trak.1/mdia/hdlr", "\0\0\0\x2chdlr" Z8 "meta" Z8 Z4 "bzna_target");
        BYTES("moov/trak.3/mdia/hdlr", "\0\0\0\x2bhdlr" Z8 "vide" Z8 Z4 "bzna_thumb");
        BYTES("moov/trak.1/mdia/minf/nmhd", "\0\0\0\x0cnmhd" Z4);
        BYTES("moov/trak.3/mdia/minf/vmhd", "\0\0\0\x14vmhd\0\0\0\1" Z8);
        BYTES("moov/trak.1/mdia/minf/dinf", "\0\0\0\x24" "dinf\0\0\0\x1c" "dref" Z4 "\0\0\0\1\0\0\0\x0curl \0\0\0\1");
        BYTES_AT("moov/trak.1/mdia/minf/stbl/stsd", 8,
                 Z4 "\0\0\0\1\0\0\0\x2amett\0\0\0\0\0\0\0\1\0application/octet-stream");
        BYTES("moov/trak.1/mdia/minf/stbl/stts", "\0\0\0\x18stts" Z4 "\0\0\0\1\0\0\0\7\0\0\0\x14");
        BYTES("moov/trak.1/mdia/minf/stbl/stsc", "\0\0\0\x1cstsc" Z4 "\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\1");
        BYTES("moov/trak.1/mdia/minf/stbl/stsz",
              "\0\0\0\x30stsz" Z8 "\0\0\0\7\0\0\0\x8\0\0\0\x8\0\0\0\x8\0\0\0\x8\0\0\0\x8\0\0\0\x8\0\0\0\x8");
        BYTES_AT(outer, 8, VISUAL "\2\0\2\0" VISUAL_END);
        stsz = box_need(d, size, "moov/trak/mdia/minf/stbl/stsz");
        d += 40 + be_get(d + stsz + 20, 4) + be_get(d + stsz + 24, 4);
        size = be_get(s.data + stsz + 28, 4);
        BYTES("moov/mvhd", "\0\0\0\x6cmvhd" Z4 Z8 "\0\0\0\x14\0\0\0\x14\0\1\0\0\1\0\0\0" Z8 MATRIX Z16 Z8 "\0\0\0\5");
        BYTES("moov/trak/tkhd", "\0\0\0\x5ctkhd" Z4 Z8 "\0\0\0\1" Z4 "\0\0\0\x14" Z16 MATRIX "\2\x80\0\0\1\xe0\0\0");
        BYTES("moov/trak.3/tkhd", "\0\0\0\x5ctkhd\0\0\0\3" Z8 "\0\0\0\4" Z4 "\0\0\0\x14" Z16 MATRIX);
        BYTES("moov/trak/mdia/mdhd", "\0\0\0\x20mdhd" Z4 Z8 "\0\0\0\x14\0\0\0\x14\x55\xc4\0\0");
        BYTES("moov/trak.2/mdia/mdhd", "\0\0\0\x20mdhd" Z4 Z8 "\0\0\0\x14\0\0\0\x14\x55\xc4\0\0");
        BYTES("moov/trak.2/mdia/minf/stbl/stsz", "\0\0\0\x14stsz" Z4 "\0\0\0\x8\0\0\0\1");
        BYTES_AT(input, 8, VISUAL "\4\0\2\0" VISUAL_END);
        BYTES_AT(outer, 8, VISUAL "\2\0\2\0" VISUAL_END);
        free(s.data);
    }
}

static uint64_t open_split(bench *b, const char *split, bzna_dataset **out)
{
    bzna_dataset_config config;
    bzna_source source = source_of(&b->m, b->s.data, b->s.size);
    bzna_dataset_config_init(&config, sizeof config);
    config.split = split;
    *out = NULL;
    return bzna_dataset_open_source(b->context, &source, &config, out, &b->err) == BZNA_OK ? bzna_dataset_count(*out) :
                                                                                             0;
}

/* `has` has a bit for each sample that has a target, and those of even numbers are of the split "train". Each reads as
 * it was written, in the whole archive and in its split. The index has an entry for each, with -1, or none at all. */
static void check_targets(unsigned has, uint32_t count)
{
    bench b;
    bzna_dataset *train = NULL;
    prepared p;
    size_t stsz, stco;
    bench_open(&b, 0);
    prepare(&p, b.from, &known[0].samples[0], AS_READ);
    for (uint32_t i = 0; i < count; i++) {
        p.desc.split = i % 2 ? BZNA_SPLIT_NONE : BZNA_SPLIT_TRAIN;
        p.desc.has_target = has >> i & 1;
        p.desc.target = !p.desc.has_target ? 0 : i == 1 ? INT64_MIN : 1000 + i;
        CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &p.desc, 0, &b.err), BZNA_OK);
    }
    prepared_free(&p);
    bench_finish(&b);
    REQUIRE(b.to);
    CHECK(open_split(&b, "train", &train) == (count + 1) / 2);
    stsz = box_need(b.s.data, b.s.size, "moov/trak.1/mdia/minf/stbl/stsz");
    stco = box_need(b.s.data, b.s.size, "moov/trak.1/mdia/minf/stbl/stco");
    CHECK_EQ(be_get(b.s.data + stsz + 16, 4), has ? count : 0);
    for (uint32_t i = 0; i < count; i++) {
        int64_t target = 5;
        const int64_t right = !(has >> i & 1) ? BZNA_TARGET_NONE : i == 1 ? INT64_MIN : 1000 + i;
        CHECK(bzna_dataset_target(b.to, i, &target, NULL) == BZNA_OK && target == right);
        CHECK(i % 2 || (bzna_dataset_target(train, i / 2, &target, NULL) == BZNA_OK && target == right));
        CHECK_EQ(bzna_dataset_field(b.to, i, "target", &target, sizeof target, NULL, NULL),
                 right == BZNA_TARGET_NONE ? BZNA_E_NOT_FOUND : BZNA_OK);
        CHECK(!has || (be_get(b.s.data + stsz + 20 + 4 * i, 4) == 8 &&
                       (int64_t)le64_get(b.s.data + be_get(b.s.data + stco + 16 + 4 * i, 4)) == right));
    }
    bzna_dataset_close(train);
    bench_close(&b);
}

TEST(a_sample_without_a_target_costs_no_other_sample_its_own)
{
    for (unsigned has = 0; has < 32; has++)
        check_targets(has, 5);
    check_targets(0, 1);
    check_targets(1, 1);
}

/* Zero is the default: a sample that only names its picture is of no class. */
TEST(a_target_counts_only_where_has_target_says_so)
{
    static const struct { int64_t target; uint32_t has_target; bzna_status status; const char *message; } cases[] = {
        { 0, 0, BZNA_OK, "" },
        { BZNA_TARGET_NONE, 0, BZNA_OK, "" },
        { 7, 0, BZNA_E_ARGUMENT, "sample.target: 7, but has_target is 0" },
        { BZNA_TARGET_NONE, 1, BZNA_E_ARGUMENT, "sample.target: -1 stands for a sample without a target" },
        { 7, 2, BZNA_E_ARGUMENT, "sample.has_target: neither 0 nor 1" },
        { 0, 1, BZNA_OK, "" },
    };
    bench b;
    prepared p;
    int64_t target = 5;
    uint64_t written = 0;
    bench_open(&b, 0);
    prepare(&p, b.from, &known[0].samples[0], AS_READ);
    for (size_t i = 0; i < COUNT(cases); i++) {
        bzna_writer_sample sample = { .struct_size = sizeof sample, .image = &p.input };
        sample.target = cases[i].target;
        sample.has_target = cases[i].has_target;
        CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &sample, 0, &b.err), cases[i].status);
        if (cases[i].status < 0)
            CHECK_CONTAINS(b.err.message, cases[i].message);
    }
    bench_finish(&b);
    REQUIRE(b.to);
    for (size_t i = 0; i < COUNT(cases); i++)
        if (cases[i].status == BZNA_OK) {
            bzna_sample_ref sample = { .struct_size = sizeof sample };
            CHECK_EQ(bzna_dataset_sample(b.to, written++, &sample, sizeof sample, NULL), BZNA_OK);
            CHECK_EQ(sample.target, cases[i].has_target ? cases[i].target : BZNA_TARGET_NONE);
        }
    CHECK_EQ(bzna_dataset_count(b.to), written);
    CHECK_EQ(bzna_dataset_target(b.to, 0, &target, NULL), BZNA_OK);
    CHECK_EQ(target, BZNA_TARGET_NONE);
    prepared_free(&p);
    bench_close(&b);
}

TEST(an_archive_without_targets_and_names_opens)
{
    bench b;
    prepared p;
    char name[64];
    int64_t target = 5;
    bench_open(&b, 1);
    prepare(&p, b.from, &known[1].samples[0], AS_READ);
    p.desc.has_target = 0;
    p.desc.target = BZNA_TARGET_NONE;
    p.desc.name = NULL;
    CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &p.desc, 0, &b.err), BZNA_OK);
    CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &p.desc, 0, &b.err), BZNA_OK);
    bench_finish(&b);
    REQUIRE(b.to);
    CHECK_EQ(bzna_dataset_count(b.to), 2);
    CHECK(bzna_dataset_target(b.to, 1, &target, NULL) == BZNA_OK && target == -1);
    CHECK_EQ(bzna_dataset_field(b.to, 1, "name", name, sizeof name, NULL, NULL), BZNA_E_NOT_FOUND);
    prepared_free(&p);
    bench_close(&b);
}

TEST(names_are_kept_byte_for_byte_up_to_65535)
{
    bench b;
    prepared p;
    char *name = malloc(65537), *back = malloc(65537);
    size_t needed = 0;
    bench_open(&b, 1);
    prepare(&p, b.from, &known[1].samples[0], AS_READ);
    p.desc.name = "\xc3\xa9t\xc3\xa9/\n\"x\".jpg";
    CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &p.desc, 0, &b.err), BZNA_OK);
    memset(name, 'n', 65536);
    name[65535] = 0;
    p.desc.name = name;
    CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &p.desc, 0, &b.err), BZNA_OK);
    p.desc.name = "";
    CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &p.desc, 0, &b.err), BZNA_OK);
    bench_finish(&b);
    REQUIRE(b.to);
    CHECK_EQ(bzna_dataset_field(b.to, 0, "name", back, 65537, NULL, NULL), BZNA_OK);
    CHECK_STR(back, "\xc3\xa9t\xc3\xa9/\n\"x\".jpg");
    CHECK_EQ(bzna_dataset_field(b.to, 1, "name", back, 65537, &needed, NULL), BZNA_OK);
    CHECK(needed == 65536 && !strcmp(back, name));
    CHECK_EQ(bzna_dataset_field(b.to, 2, "name", back, 65537, &needed, NULL), BZNA_OK);
    CHECK(needed == 1 && back[0] == 0);
    prepared_free(&p);
    free(name);
    free(back);
    bench_close(&b);
}

TEST(any_crop_comes_back_as_it_was_given)
{
    static const uint32_t crops[][4] = {
        { 0, 0, 512, 512 }, { 1, 2, 300, 200 }, { 511, 511, 1, 1 }, { 12, 137, 500, 375 }, { 3, 0, 508, 511 }
    };
    bench b;
    bench_open(&b, 0);
    for (size_t i = 0; i < 5; i++) {
        prepared p;
        prepare(&p, b.from, &known[0].samples[0], AS_READ);
        p.input.crop_x = crops[i][0];
        p.input.crop_y = crops[i][1];
        p.input.width = crops[i][2];
        p.input.height = crops[i][3];
        CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &p.desc, 0, &b.err), BZNA_OK);
        prepared_free(&p);
    }
    bench_finish(&b);
    REQUIRE(b.to);
    for (size_t i = 0; i < 5; i++) {
        bzna_image_info image;
        CHECK_EQ(bzna_dataset_image_info(b.to, i, "bzna_input", &image, sizeof image, NULL), BZNA_OK);
        CHECK(image.crop_x == crops[i][0] && image.crop_y == crops[i][1] && image.width == crops[i][2] &&
              image.height == crops[i][3]);
    }
    bench_close(&b);
}

TEST(the_callers_color_comes_before_the_streams)
{
    bench b;
    prepared p;
    bzna_image_info image;
    bench_open(&b, 0);
    prepare(&p, b.from, &known[0].samples[0], AS_READ);
    p.input.color.present = 1;
    p.input.color.primaries = 9;
    p.input.color.transfer = 16;
    p.input.color.matrix = 9;
    p.input.color.full_range = 0;
    CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &p.desc, 0, &b.err), BZNA_OK);
    bench_finish(&b);
    REQUIRE(b.to);
    CHECK_EQ(bzna_dataset_image_info(b.to, 0, NULL, &image, sizeof image, NULL), BZNA_OK);
    CHECK(image.color.present && image.color.primaries == 9 && image.color.transfer == 16 && image.color.matrix == 9 &&
          !image.color.full_range);
    prepared_free(&p);
    bench_close(&b);
}

static char warning[256];
static void remember(void *user, int32_t level, bzna_status code, const char *message)
{
    (void)user;
    (void)code;
    snprintf(warning, sizeof warning, "%d %s", level, message);
}

/* The outer thumbnail track needs a thumbnail everywhere, and one configuration for all. */
TEST(without_common_thumbnails_there_is_no_outer_track_and_a_warning)
{
    for (int why = 0; why < 2; why++) {
        bench b;
        prepared p;
        bzna_context_config config;
        bzna_context *context = NULL;
        bzna_writer *writer = NULL;
        bzna_sink sink;
        bzna_dataset_info info;
        bzna_image_info image;
        memset(&b, 0, sizeof b);
        b.context = context_of(&b.c);
        warning[0] = 0;
        bzna_context_config_init(&config, sizeof config);
        config.log = remember;
        REQUIRE(bzna_context_open(&config, &context, NULL) == BZNA_OK);
        sink = sink_of(&b.s);
        REQUIRE(bzna_dataset_open(b.context, archives[0], NULL, &b.from, NULL) == BZNA_OK);
        REQUIRE(bzna_writer_open_sink(context, &sink, NULL, &writer, NULL) == BZNA_OK);
        prepare(&p, b.from, &known[0].samples[2], AS_READ);
        CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &p.desc, 0, NULL), BZNA_OK);
        if (why) {                                          /* another color is another sample entry */
            p.thumb.color.present = 1;
            p.thumb.color.matrix = 1;
        } else {
            p.desc.thumb = NULL;                            /* and the frame is 1024x512 */
        }
        CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &p.desc, 0, NULL), BZNA_OK);
        CHECK_EQ(bzna_writer_finish(writer, NULL), BZNA_OK);
        CHECK_CONTAINS(warning, why ? "2 no outer bzna_thumb track: the thumbnails do not share" :
                                      "2 no outer bzna_thumb track: not every sample");
        bzna_writer_close(writer);
        bzna_context_close(context);
        REQUIRE(open_bytes(b.context, &b.m, b.s.data, b.s.size, &b.to, NULL) == BZNA_OK);
        bzna_dataset_get_info(b.to, &info, sizeof info, NULL);
        CHECK_EQ(info.track_count, 3);
        CHECK_EQ(bzna_dataset_image_info(b.to, 0, NULL, &image, sizeof image, NULL), BZNA_OK);
        CHECK_EQ(image.width, 512);
        CHECK_EQ(bzna_dataset_image_info(b.to, 1, NULL, &image, sizeof image, NULL), BZNA_OK);
        CHECK_EQ(image.width, why ? 512 : 640);             /* without a thumbnail, the picture */
        CHECK_EQ(bzna_dataset_image_info(b.to, 1, "bzna_thumb", &image, sizeof image, NULL),
                 why ? BZNA_OK : BZNA_E_NOT_FOUND);
        prepared_free(&p);
        b.s.closes = 0;
        bench_close(&b);
    }
}

TEST(splits_are_tracks_of_their_own_over_the_same_samples)
{
    static const uint32_t splits[8] = { 1, 2, 1, 0, 2, 1, 1, 2 };      /* no test split */
    static const char *const names[3] = { NULL, "train", "validation" };
    bench b;
    bench_open(&b, 0);
    for (int i = 0; i < 8; i++) {
        prepared p;
        prepare(&p, b.from, &known[0].samples[i], AS_READ);
        p.desc.split = splits[i];
        CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &p.desc, 0, &b.err), BZNA_OK);
        prepared_free(&p);
    }
    bench_finish(&b);
    REQUIRE(b.to);
    CHECK_EQ(bzna_dataset_count(b.to), 8);
    for (uint32_t split = 1; split < 3; split++) {
        bzna_dataset *part;
        uint64_t n = 0;
        CHECK_EQ(open_split(&b, names[split], &part), split == 1 ? 4 : 3);
        REQUIRE(part);
        for (uint64_t i = 0; i < 8; i++) {
            bzna_sample_ref whole = { .struct_size = sizeof whole }, mine = { .struct_size = sizeof mine };
            char name[64] = "";
            int64_t target = 5;
            if (splits[i] != split)
                continue;
            CHECK_EQ(bzna_dataset_sample(b.to, i, &whole, sizeof whole, NULL), BZNA_OK);
            CHECK_EQ(bzna_dataset_sample(part, n, &mine, sizeof mine, NULL), BZNA_OK);
            CHECK(mine.offset == whole.offset && mine.size == whole.size && mine.target == whole.target &&
                  mine.index == n);
            CHECK(bzna_dataset_target(part, n, &target, NULL) == BZNA_OK && target == known[0].samples[i].target);
            CHECK_EQ(bzna_dataset_field(part, n, "name", name, sizeof name, NULL, NULL), BZNA_OK);
            CHECK_STR(name, known[0].samples[i].filename);
            n++;
        }
        bzna_dataset_close(part);
    }
    {
        bzna_dataset *part;
        CHECK_EQ(open_split(&b, "test", &part), 0);
        CHECK(part == NULL && b.err.status == BZNA_E_NOT_FOUND);
        CHECK_CONTAINS(b.err.message, "split");
    }
    bench_close(&b);
}

TEST(an_unknown_split_is_refused)
{
    bench b;
    prepared p;
    bench_open(&b, 0);
    prepare(&p, b.from, &known[0].samples[0], AS_READ);
    p.desc.split = 4;
    CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &p.desc, 0, &b.err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(b.err.message, "split");
    prepared_free(&p);
    bench_close(&b);
}

/* ---- Refusals ---- */

enum {
    BAD_NULL,
    BAD_DESC_SIZE,
    BAD_INPUT_NULL,
    BAD_INPUT_SIZE,
    BAD_INPUT_RESERVED,
    BAD_CODEC,
    BAD_AV1,
    BAD_DATA_NULL,
    BAD_DATA_EMPTY,
    BAD_LENGTH_3,
    BAD_LENGTH_5,
    BAD_CONFIG_NULL,
    BAD_CONFIG_SHORT,
    BAD_CONFIG_COUNT,
    BAD_DATA_CUT,
    BAD_NO_SETS,
    BAD_WIDTH_0,
    BAD_WIDTH,
    BAD_CROP,
    BAD_CROP_WRAP,
    BAD_FRAME,
    BAD_THUMB,
    BAD_NAME,
    BAD_NO_PICTURE,
    BAD_NOT_INTRA,
    BAD_SPS,
    BAD_TOO_MANY_SETS,
    BAD_CASES
};

static const struct { bzna_status status; const char *says;
} bad[BAD_CASES] = { [BAD_NULL] = { BZNA_E_ARGUMENT, "sample" },
                     [BAD_DESC_SIZE] = { BZNA_E_STRUCT_SIZE, "sample.struct_size" },
                     [BAD_INPUT_NULL] = { BZNA_E_ARGUMENT, "sample.image" },
                     [BAD_INPUT_SIZE] = { BZNA_E_STRUCT_SIZE, "image.struct_size" },
                     [BAD_INPUT_RESERVED] = { BZNA_E_STRUCT_SIZE, "sample.image.reserved1: " },
                     [BAD_CODEC] = { BZNA_E_CODEC, "image.codec" },
                     [BAD_AV1] = { BZNA_E_DECODE, "image" },
                     [BAD_DATA_NULL] = { BZNA_E_ARGUMENT, "image.data" },
                     [BAD_DATA_EMPTY] = { BZNA_E_ARGUMENT, "image.data" },
                     [BAD_LENGTH_3] = { BZNA_E_ARGUMENT, "image.length_size" },
                     [BAD_LENGTH_5] = { BZNA_E_ARGUMENT, "image.length_size" },
                     [BAD_CONFIG_NULL] = { BZNA_E_DECODE, "image" },
                     [BAD_CONFIG_SHORT] = { BZNA_E_BOX, "image: H.265: a unit of the configuration" },
                     [BAD_CONFIG_COUNT] = { BZNA_E_BOX, "a unit of the configuration" },
                     [BAD_DATA_CUT] = { BZNA_E_BOX, "a unit of the picture" },
                     [BAD_NO_SETS] = { BZNA_E_DECODE, "parameter set" },
                     [BAD_WIDTH_0] = { BZNA_E_ARGUMENT, "image: the picture of 0x375" },
                     [BAD_WIDTH] = { BZNA_E_ARGUMENT, "image: the picture of 513x375" },
                     [BAD_CROP] = { BZNA_E_ARGUMENT, "image: the picture of 500x375 at 13,0" },
                     [BAD_CROP_WRAP] = { BZNA_E_ARGUMENT, "image: the picture of 500x375 at 4294967195,0" },
                     [BAD_FRAME] = { BZNA_E_MISMATCH, "image: the stream's frame is 512x512" },
                     [BAD_THUMB] = { BZNA_E_CODEC, "thumb.codec" },
                     [BAD_NAME] = { BZNA_E_ARGUMENT, "sample.name" },
                     [BAD_NO_PICTURE] = { BZNA_E_DECODE, "no picture" },
                     [BAD_NOT_INTRA] = { BZNA_E_DECODE, "needs other pictures" },
                     [BAD_SPS] = { BZNA_E_DECODE, "image" },
                     [BAD_TOO_MANY_SETS] = { BZNA_E_LIMIT, "parameter sets" } };

static void spoil(prepared *p, int what)
{
    static char long_name[65537];
    static uint8_t many[4096];
    uint8_t *config = p->buffers[0] + ((const uint8_t *)p->input.config - p->buffers[0]);
    uint8_t *data = p->buffers[0] + ((const uint8_t *)p->input.data - p->buffers[0]);
    switch (what) {
    case BAD_DESC_SIZE:    p->desc.struct_size = 2; break;
    case BAD_INPUT_NULL:   p->desc.image = NULL; break;
    case BAD_INPUT_SIZE:   p->input.struct_size = 0; break;
    case BAD_INPUT_RESERVED: p->input.reserved1 = 7; break;
    case BAD_CODEC:        p->input.codec = 0; break;
    case BAD_AV1:          p->input.codec = BZNA_CODEC_AV1; break;
    case BAD_DATA_NULL:    p->input.data = NULL; break;
    case BAD_DATA_EMPTY:   p->input.data_size = 0; break;
    case BAD_LENGTH_3:     p->input.length_size = 3; break;
    case BAD_LENGTH_5:     p->input.length_size = 5; break;
    case BAD_CONFIG_NULL:  p->input.config = NULL; break;
    case BAD_CONFIG_SHORT: p->input.config_size = 22; break;
    case BAD_CONFIG_COUNT: config[22] = 200; break;
    case BAD_DATA_CUT:     p->input.data_size--; break;
    case BAD_NO_SETS:      p->input.config = NULL; p->input.config_size = 0; break;
    case BAD_WIDTH_0:      p->input.width = 0; break;
    case BAD_WIDTH:        p->input.width = 513; break;
    case BAD_CROP:         p->input.crop_x = 13; break;
    case BAD_CROP_WRAP:    p->input.crop_x = UINT32_MAX - 100; break;
    case BAD_FRAME:        p->input.frame_width = 1024; break;
    case BAD_THUMB:        p->thumb.codec = 77; p->desc.thumb = &p->thumb; break;
    case BAD_NAME:         memset(long_name, 'x', 65536); p->desc.name = long_name; break;
    case BAD_NO_PICTURE:   data[4] = 39 << 1; break;        /* an SEI */
    case BAD_NOT_INTRA:    data[4] = 1 << 1; break;         /* a trailing picture */
    case BAD_SPS:          memset(config + 23 + 5 + 24 + 5 + 2, 0, 44); break;
    case BAD_TOO_MANY_SETS:
        memcpy(many, config, (size_t)p->input.config_size);
        many[22] += 17;
        for (int i = 0; i < 17; i++) {
            uint8_t *q = many + p->input.config_size + 10 * i;
            memcpy(q, "\x22\0\1\0\5\x44\1\xc1\0\0", 10);
            q[8] = (uint8_t)(i + 1);
        }
        p->input.config = many;
        p->input.config_size += 170;
        break;
    default: break;
    }
}

TEST(refused_samples_leave_the_archive_as_it_was)
{
    memory_sink clean;
    bench b;
    pack(&clean, 0, AS_READ, ALL);
    bench_open(&b, 0);
    for (int i = 0; i < 8; i++) {
        prepared p;
        for (int k = 0; k < BAD_CASES; k++) {
            bzna_error err = fresh_error();
            bzna_status status;
            long long writes = b.s.writes;
            if (k % 8 != i)
                continue;
            prepare(&p, b.from, &known[0].samples[0], AS_READ);
            spoil(&p, k);
            status = bzna_writer_add(b.writer, BZNA_INDEX_NEXT, k == BAD_NULL ? NULL : &p.desc, 0, &err);
            if (status != bad[k].status || err.status != status || !strstr(err.message, bad[k].says)) {
                printf("  case %d: %s: %s\n", k, bzna_status_name(status), err.message);
                test_failures++;
            }
            CHECK_EQ(b.s.writes, writes);
            prepared_free(&p);
        }
        prepare(&p, b.from, &known[0].samples[i], AS_READ);
        CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &p.desc, 0, &b.err), BZNA_OK);
        prepared_free(&p);
    }
    CHECK_EQ(bzna_writer_finish(b.writer, &b.err), BZNA_OK);
    CHECK(b.s.size == clean.size && !memcmp(b.s.data, clean.data, clean.size));
    bench_close(&b);
    free(clean.data);
}

/* H.265 has six types of pictures that a stream can start with (Table 7-1: 16 to 21, BLA, IDR, CRA), H.264 one. */
TEST(pictures_that_start_a_stream_are_taken_and_no_others)
{
    for (int a = 0; a < 2; a++) {
        bench b;
        bench_open(&b, a);
        for (uint32_t type = a ? 1 : 0; type < (a ? 6 : 32); type++) {
            int starts = a ? type == 5 : type >= 16 && type <= 21, slices = 0;
            bzna_error err = fresh_error();
            prepared p;
            prepare(&p, b.from, &known[a].samples[0], AS_READ);
            for (size_t at = 0; at < p.input.data_size;) {
                uint8_t *unit = p.buffers[0] + ((const uint8_t *)p.input.data - p.buffers[0]) + at;
                int slice = a ? (unit[4] & 31) == 5 : (unit[4] >> 1 & 63) < 32;
                if (slice)
                    unit[4] = (uint8_t)(a ? (unit[4] & 0xe0u) | type : (unit[4] & 0x81u) | type << 1);
                slices += slice;
                at += 4 + be_get(unit, 4);
            }
            CHECK(slices > 0);
            CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &p.desc, 0, &err), starts ? BZNA_OK : BZNA_E_DECODE);
            if (!starts)
                CHECK_CONTAINS(err.message, "needs other pictures");
            if (starts != (err.status == BZNA_OK))
                printf("  %s, type %u: %s\n", a ? "H.264" : "H.265", type, err.message);
            prepared_free(&p);
        }
        bench_close(&b);
    }
}

TEST(an_archive_that_was_never_finished_is_recognized)
{
    bench b;
    prepared p;
    bench_open(&b, 0);
    CHECK_EQ(open_bytes(b.context, &b.m, b.s.data, b.s.size, &b.to, &b.err), BZNA_E_UNFINISHED);     /* at once */
    CHECK_EQ(b.err.byte_offset, 24);
    CHECK_EQ(bzna_writer_finish(b.writer, &b.err), BZNA_E_NO_SAMPLES);
    prepare(&p, b.from, &known[0].samples[0], AS_READ);
    CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &p.desc, 0, &b.err),
             BZNA_OK);       /* that was no failed write */
    CHECK_EQ(open_bytes(b.context, &b.m, b.s.data, b.s.size, &b.to, &b.err), BZNA_E_UNFINISHED);
    CHECK(b.to == NULL);
    prepared_free(&p);
    bench_close(&b);
}

TEST(a_finished_archive_takes_no_more)
{
    bench b;
    prepared p;
    size_t size;
    bench_open(&b, 0);
    prepare(&p, b.from, &known[0].samples[0], AS_READ);
    CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &p.desc, 0, &b.err), BZNA_OK);
    bench_finish(&b);
    size = b.s.size;
    CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &p.desc, 0, &b.err), BZNA_E_STATE);
    CHECK_EQ(bzna_writer_finish(b.writer, &b.err), BZNA_E_STATE);
    CHECK_EQ(b.s.size, size);
    CHECK_EQ(bzna_writer_add(NULL, BZNA_INDEX_NEXT, &p.desc, 0, &b.err), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_writer_finish(NULL, &b.err), BZNA_E_ARGUMENT);
    prepared_free(&p);
    bench_close(&b);
}

TEST(writers_that_cannot_be_opened_say_why)
{
    counter c;
    memory_sink s;
    bzna_context *context = context_of(&c);
    bzna_writer *writer = (bzna_writer *)(void *)&c;
    bzna_error err = fresh_error();
    bzna_sink sink = sink_of(&s), broken = sink;
    struct { bzna_writer_config config; uint64_t more; } newer;
    char path[256];
    CHECK_EQ(bzna_writer_open(NULL, "x", NULL, &writer, &err), BZNA_E_ARGUMENT);
    CHECK(writer == NULL);
    CHECK_EQ(bzna_writer_open(context, NULL, NULL, &writer, &err), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_writer_open(context, "x", NULL, NULL, &err), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_writer_open_sink(context, NULL, NULL, &writer, &err), BZNA_E_ARGUMENT);
    broken.write_at = NULL;
    CHECK_EQ(bzna_writer_open_sink(context, &broken, NULL, &writer, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "write_at");
    writer = (bzna_writer *)(void *)&c;
    CHECK_EQ(bzna_writer_open(context, TEST_BUILD "/tests/10_nowhere/x.bzna", NULL, &writer, &err), BZNA_E_NOT_FOUND);
    CHECK(writer == NULL);
    CHECK_EQ(err.native_code, ENOENT);
    CHECK_CONTAINS(err.message, "10_nowhere/x.bzna");
    CHECK_EQ(bzna_writer_open(context, "tests", NULL, &writer, &err), BZNA_E_IO);
    CHECK_EQ(err.native_code, EISDIR);
    if (access("/dev/full", W_OK) == 0) {
        CHECK_EQ(bzna_writer_open(context, "/dev/full", NULL, &writer, &err), BZNA_E_IO);
        CHECK_EQ(err.native_code, ENOSPC);
        CHECK(writer == NULL);
    }
    memset(&newer, 0, sizeof newer);
    newer.config.struct_size = sizeof newer;
    snprintf(path, sizeof path, "%s/tests/10_version.bzna", TEST_BUILD);
    CHECK_EQ(bzna_writer_open(context, path, &newer.config, &writer, &err), BZNA_OK);
    bzna_writer_close(writer);
    remove(path);
    newer.more = 1;
    CHECK_EQ(bzna_writer_open(context, path, &newer.config, &writer, &err), BZNA_E_STRUCT_SIZE);
    CHECK(writer == NULL && access(path, F_OK) != 0);
    CHECK_EQ(bzna_writer_open_sink(context, &sink, &newer.config, &writer, &err), BZNA_E_STRUCT_SIZE);
    CHECK_EQ(s.closes, 0);
    CHECK_EQ(s.writes, 0);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
}

TEST(descriptions_of_other_versions_are_taken_or_refused)
{
    struct { bzna_writer_sample desc; uint64_t more; } newer;
    struct { bzna_image image; uint64_t more; } newer_image;
    bench b;
    prepared p;
    int64_t target = 5;
    bench_open(&b, 0);
    prepare(&p, b.from, &known[0].samples[2], AS_READ);
    memset(&newer, 0, sizeof newer);
    newer.desc = p.desc;
    newer.desc.struct_size = sizeof newer;
    CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &newer.desc, 0, &b.err), BZNA_OK);
    newer.more = 1;
    CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &newer.desc, 0, &b.err), BZNA_E_STRUCT_SIZE);
    newer.desc.struct_size = offsetof(bzna_writer_sample, thumb);     /* an older one, before there were thumbnails */
    newer.desc.thumb = (const bzna_image *)(uintptr_t)16;
    CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &newer.desc, 0, &b.err), BZNA_OK);
    memset(&newer_image, 0, sizeof newer_image);
    newer_image.image = p.input;
    newer_image.image.struct_size = sizeof newer_image;
    p.desc.image = &newer_image.image;
    CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &p.desc, 0, &b.err), BZNA_OK);
    newer_image.more = 1;
    CHECK_EQ(bzna_writer_add(b.writer, BZNA_INDEX_NEXT, &p.desc, 0, &b.err), BZNA_E_STRUCT_SIZE);
    bench_finish(&b);
    CHECK_EQ(bzna_dataset_count(b.to), 3);
    CHECK_EQ(bzna_dataset_target(b.to, 0, &target, NULL), BZNA_OK);
    CHECK_EQ(target, p.desc.target);
    CHECK_EQ(bzna_dataset_target(b.to, 1, &target, NULL), BZNA_OK);
    CHECK_EQ(target, BZNA_TARGET_NONE);                     /* what it lacks has its default */
    prepared_free(&p);
    bench_close(&b);
}

/* ---- Failures ---- */

/* The n-th write and all after it fail, for every n. */
TEST(a_failed_write_poisons_the_writer_and_leaves_the_archive_unfinished)
{
    int done = 0;
    long long n;
    for (n = 1; !done && n < 30; n++) {
        counter c;
        memory_sink s;
        memory_source m;
        bzna_context *context = context_of(&c);
        bzna_sink sink = sink_of(&s);
        bzna_writer *writer = NULL;
        bzna_dataset *from = NULL, *to = NULL;
        bzna_error err = fresh_error();
        bzna_status status;
        s.fail_at = n;
        s.fail_with = -77;
        REQUIRE(bzna_dataset_open(context, archives[1], NULL, &from, NULL) == BZNA_OK);
        status = bzna_writer_open_sink(context, &sink, NULL, &writer, &err);
        CHECK((status == BZNA_OK) == (writer != NULL));
        for (int i = 0; i < 2 && status == BZNA_OK; i++) {
            prepared p;
            prepare(&p, from, &known[1].samples[i], AS_READ);
            status = bzna_writer_add(writer, BZNA_INDEX_NEXT, &p.desc, 0, &err);
            if (status != BZNA_OK) {
                bzna_error again = fresh_error();
                CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &p.desc, 0, &again), BZNA_E_IO);
                CHECK_EQ(again.status, BZNA_E_IO);
            }
            prepared_free(&p);
        }
        if (status == BZNA_OK)
            status = bzna_writer_finish(writer, &err);
        done = status == BZNA_OK;
        if (!done) {
            CHECK_EQ(status, BZNA_E_IO);
            CHECK_EQ(err.status, BZNA_E_IO);
            CHECK_EQ(err.native_code, -77);
            CHECK_EQ(err.byte_offset, n == 1 ? 0 : n == 5 ? 32 : s.size);       /* 5: the patch */
            CHECK_EQ(bzna_writer_finish(writer, NULL), writer ? BZNA_E_IO : BZNA_E_ARGUMENT);
            CHECK_EQ(s.writes, n);                          /* nobody tried again */
            if (n > 1)
                CHECK_EQ(open_bytes(context, &m, s.data, s.size, &to, NULL), BZNA_E_UNFINISHED);
        }
        CHECK_EQ(bzna_writer_close(writer), BZNA_OK);
        CHECK_EQ(s.closes, writer ? 1 : 0);                 /* a failed open has not taken the sink */
        bzna_dataset_close(from);
        bzna_context_close(context);
        CHECK_ALL_FREED(c);
        free(s.data);
    }
    CHECK(done && n == 7); /* head, two samples, the index, patch: 5 writes, and one round without failure */
}

/* The n-th allocation and all after it fail. Afterwards there is memory again: either the writer is poisoned, or going
 * on gives the same bytes. */
TEST(a_failed_allocation_never_gives_a_wrong_archive)
{
    memory_sink clean;
    int done = 0, failures = 0;
    pack(&clean, 1, AS_READ, 7);
    for (long long n = 1; !done && n < 100; n++) {
        counter c;
        memory_sink s;
        bzna_context *context = context_of(&c), *other = NULL;
        bzna_sink sink = sink_of(&s);
        bzna_writer *writer = NULL;
        bzna_dataset *from = NULL;
        bzna_error err = fresh_error();
        bzna_status status;
        int poisoned = 0, failed = 0;
        REQUIRE(bzna_context_open(NULL, &other, NULL) == BZNA_OK);
        REQUIRE(bzna_dataset_open(other, archives[1], NULL, &from, NULL) == BZNA_OK);
        c.fail_at = c.calls + n;
        status = bzna_writer_open_sink(context, &sink, NULL, &writer, &err);
        if (status != BZNA_OK) {
            CHECK(status == BZNA_E_MEMORY && !writer && s.closes == 0);
            failed = 1;
            c.fail_at = 0;
            CHECK_EQ(bzna_writer_open_sink(context, &sink, NULL, &writer, &err), BZNA_OK);
        }
        for (int i = 0; i < 3 && !poisoned; i++) {
            prepared p;
            prepare(&p, from, &known[1].samples[i], AS_READ);
            status = bzna_writer_add(writer, BZNA_INDEX_NEXT, &p.desc, 0, &err);
            if (status != BZNA_OK) {
                CHECK_EQ(status, BZNA_E_MEMORY);
                CHECK_EQ(err.status, BZNA_E_MEMORY);
                failed = 1;
                c.fail_at = 0;
                poisoned = bzna_writer_add(writer, BZNA_INDEX_NEXT, &p.desc, 0, &err) != BZNA_OK;
            }
            prepared_free(&p);
        }
        status = bzna_writer_finish(writer, &err);
        if (status != BZNA_OK && !poisoned) {
            CHECK_EQ(status, BZNA_E_MEMORY);
            failed = 1;
            c.fail_at = 0;
            status = bzna_writer_finish(writer, &err);
            poisoned = status != BZNA_OK;
        }
        if (poisoned) {
            CHECK_EQ(status, BZNA_E_MEMORY);
            CHECK(s.size < 40 || be_get(s.data + 32, 8) == 0);
        } else {
            CHECK(s.size == clean.size && !memcmp(s.data, clean.data, clean.size));
        }
        done = !failed;
        failures += failed;
        bzna_writer_close(writer);
        bzna_dataset_close(from);
        bzna_context_close(other);
        bzna_context_close(context);
        CHECK_ALL_FREED(c);
        free(s.data);
    }
    CHECK(done && failures >= 8);
    free(clean.data);
}

/* ---- Large archives ---- */

/* Keeps only what is written behind the samples. */
typedef struct tail_sink {
    uint8_t bytes[8192];
    size_t size;
} tail_sink;

static bzna_status tail_write(void *user, uint64_t offset, const void *src, uint64_t size)
{
    tail_sink *t = user;
    if (offset <= 32)
        return BZNA_OK;
    if (size > sizeof t->bytes - t->size)
        return BZNA_E_IO;
    memcpy(t->bytes + t->size, src, (size_t)size);
    t->size += (size_t)size;
    return BZNA_OK;
}

TEST(offsets_are_64_bits_wide_only_when_the_archives_end_needs_it)
{
    enum { FIRST = 40 };                          /* where samples begin, after ftyp and the header of mdat */
    for (uint64_t over = 0; over < 2; over++) {
        counter c;
        tail_sink t = { .size = 0 };
        bzna_context *context = context_of(&c);
        bzna_sink sink = { sizeof(bzna_sink), 0, &t, tail_write, NULL };
        bzna_writer *writer = NULL;
        const bzi_index_entry r = { .size = (uint32_t)(UINT32_MAX + over - FIRST - 8), .target = 7 };
        size_t begin = 8, at;
        REQUIRE(bzna_writer_open_sink(context, &sink, NULL, &writer, NULL) == BZNA_OK);
        REQUIRE(bzi_writer_note(writer, r));
        CHECK_EQ(bzna_writer_finish(writer, NULL), BZNA_OK);
        CHECK_EQ(le64_get(t.bytes), 7);
        at = box_at(t.bytes, begin, t.size, "moov/trak/mdia/minf/stbl/co64");
        CHECK_EQ(at != 0, over);
        CHECK_EQ(box_at(t.bytes, begin, t.size, "moov/trak/mdia/minf/stbl/stco") != 0, !over);
        at = box_at(t.bytes, begin, t.size,
                    over ? "moov/trak.1/mdia/minf/stbl/co64" : "moov/trak.1/mdia/minf/stbl/stco");
        CHECK(at && be_get(t.bytes + at + 16, over ? 8 : 4) == (uint64_t)r.size + FIRST);
        bzna_writer_close(writer);
        bzna_context_close(context);
        CHECK_ALL_FREED(c);
    }
}

/* More than 4 GiB without storing them: all samples are alike, so one is kept. Reading it back computes the rest. */
typedef struct huge {
    uint8_t head[40], *sample, *tail;
    uint64_t sample_size, end, tail_at, tail_size;
    int wrong;
} huge;

static bzna_status huge_write(void *user, uint64_t offset, const void *src, uint64_t size)
{
    huge *h = user;
    if (offset == 32 && size == 8) {
        memcpy(h->head + 32, src, 8);
        return BZNA_OK;
    }
    h->wrong += offset != h->end;
    h->end += size;
    if (offset == 0) {
        h->wrong += size != 40;
        memcpy(h->head, src, 40);
    } else if (size > 1 << 20) {
        if (!h->sample) {
            h->sample = malloc((size_t)size);
            memcpy(h->sample, src, (size_t)size);
            h->sample_size = size;
        }
        h->wrong += size != h->sample_size || h->tail || memcmp(h->sample, src, 4096) ||
                    memcmp(h->sample + size - 4096, (const uint8_t *)src + size - 4096, 4096);
    } else {
        if (!h->tail) {
            h->tail_at = offset;
            h->tail = malloc(1 << 20);
        }
        h->wrong += h->tail_size + size > 1 << 20;
        if (!h->wrong)
            memcpy(h->tail + h->tail_size, src, (size_t)size);
        h->tail_size += size;
    }
    return BZNA_OK;
}

static int64_t huge_read(void *user, uint64_t offset, void *dst, uint64_t size)
{
    const huge *h = user;
    const uint8_t *from;
    uint64_t n;
    if (offset >= h->end)
        return 0;
    if (offset < 40) {
        from = h->head + offset;
        n = 40 - offset;
    } else if (offset >= h->tail_at) {
        from = h->tail + (offset - h->tail_at);
        n = h->end - offset;
    } else {
        from = h->sample + (offset - 40) % h->sample_size;
        n = h->sample_size - (offset - 40) % h->sample_size;
    }
    n = n < size ? n : size;
    memcpy(dst, from, (size_t)n);
    return (int64_t)n;
}

static int64_t huge_size(void *user) { return (int64_t)((huge *)user)->end; }

TEST(archives_larger_than_4_gib_are_written_and_read)
{
    enum { SAMPLES = 700 };
    const size_t bulk = (size_t)6 << 20;                /* the writer takes 8 MiB, which malloc keeps */
    huge h;
    counter c;
    bzna_context *context = context_of(&c);
    bzna_dataset *from = NULL, *to = NULL;
    bzna_writer *writer = NULL;
    bzna_sink sink = { sizeof(bzna_sink), 0, &h, huge_write, NULL };
    bzna_source source = { sizeof(bzna_source), 0, &h, huge_read, huge_size, NULL, NULL };
    bzna_error err = fresh_error();
    prepared p;
    uint8_t *data;
    memset(&h, 0, sizeof h);
    REQUIRE(bzna_dataset_open(context, archives[0], NULL, &from, NULL) == BZNA_OK);
    REQUIRE(bzna_writer_open_sink(context, &sink, NULL, &writer, &err) == BZNA_OK);
    prepare(&p, from, &known[0].samples[4], AS_READ);
    data = calloc(1, (size_t)p.input.data_size + bulk);
    memcpy(data, p.input.data, (size_t)p.input.data_size);
    /* behind the picture, a unit of a type that nobody has a use for yet */
    be_put(data + p.input.data_size, bulk - 4, 4);
    data[p.input.data_size + 4] = 48 << 1;
    data[p.input.data_size + 5] = 1;
    p.input.data = data;
    p.input.data_size += bulk;
    for (int i = 0; i < SAMPLES; i++)
        CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &p.desc, 0, &err), BZNA_OK);
    CHECK_EQ(bzna_writer_finish(writer, &err), BZNA_OK);
    bzna_writer_close(writer);
    CHECK_EQ(h.wrong, 0);
    CHECK(h.tail_at > (uint64_t)UINT32_MAX && h.tail_at == 40 + SAMPLES * h.sample_size);
    CHECK_EQ(bzna_dataset_open_source(context, &source, NULL, &to, &err), BZNA_OK);
    REQUIRE(to);
    CHECK_EQ(bzna_dataset_count(to), SAMPLES);
    {
        size_t moov = (size_t)(24 + be_get(h.head + 32, 8) - h.tail_at);
        static const char *const tracks[4] = { "trak", "trak.1", "trak.2", "trak.3" };
        CHECK(!memcmp(h.tail + moov + 4, "moov", 4));
        for (int t = 0; t < 4; t++) {
            char path[64];
            size_t at;
            snprintf(path, sizeof path, "%s/mdia/minf/stbl/co64", tracks[t]);
            at = box_at(h.tail, moov + 8, (size_t)h.tail_size, path);
            CHECK(at != 0);
            CHECK_EQ(be_get(h.tail + at + 12, 4), SAMPLES);
        }
    }
    for (uint64_t i = 0; i < SAMPLES; i += SAMPLES - 1) {
        bzna_image_info image;
        char name[64] = "";
        int64_t target = 0;
        CHECK_EQ(bzna_dataset_image_info(to, i, "bzna_input", &image, sizeof image, &err), BZNA_OK);
        CHECK_EQ(image.data_offset, 40 + i * h.sample_size + 28);       /* behind ftyp and mdat's header */
        CHECK_EQ(image.data_size, p.input.data_size);
        CHECK(bzna_dataset_target(to, i, &target, &err) == BZNA_OK && target == 148);
        CHECK_EQ(bzna_dataset_field(to, i, "name", name, sizeof name, NULL, &err), BZNA_OK);
        CHECK_STR(name, "04_bars_small.JPEG");
    }
    bzna_dataset_close(to);
    bzna_dataset_close(from);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
    prepared_free(&p);
    free(data);
    free(h.sample);
    free(h.tail);
}

/* ---- Other readers ---- */

static int ffprobe_frames(const char *path, const char *stream)
{
    char command[512], answer[64] = "";
    FILE *pipe;
    snprintf(
        command, sizeof command,
        "ffprobe -v error -count_frames -select_streams %s -show_entries stream=nb_read_frames -of csv=p=0 '%s' 2>&1",
        stream, path);
    pipe = popen(command, "r");
    if (!pipe)
        return -1;
    if (!fgets(answer, sizeof answer, pipe))
        answer[0] = 0;
    pclose(pipe);
    return answer[0] >= '0' && answer[0] <= '9' ? atoi(answer) : -1;
}

TEST(ffprobe_counts_a_frame_a_sample)
{
    if (system("command -v ffprobe >/dev/null 2>&1") != 0)
        SKIP("no ffprobe [ffmpeg]");
    for (int a = 0; a < 2; a++) {
        memory_sink s;
        char path[256];
        size_t stsz;
        pack(&s, a, AS_READ, SHARED);
        snprintf(path, sizeof path, "%s/tests/10_ffprobe_%d.mp4", TEST_BUILD, a);
        spill(path, s.data, s.size);
        CHECK_EQ(ffprobe_frames(path, "v"), 7);
        stsz = box_at(s.data, 0, s.size, "moov/trak/mdia/minf/stbl/stsz");
        spill(path, s.data + 40, be_get(s.data + stsz + 20, 4));        /* a sample on its own is a playable file */
        CHECK_EQ(ffprobe_frames(path, "v:0"), 1);
        CHECK_EQ(ffprobe_frames(path, "v:1"), 1);
        remove(path);
        free(s.data);
    }
}

/* Two samples without targets, of which the second is the first. */
static void write_without_targets(bench *b, int a)
{
    prepared p;
    bench_open(b, a);
    prepare(&p, b->from, &known[a].samples[0], AS_READ);
    p.desc.has_target = 0;
    p.desc.target = BZNA_TARGET_NONE;
    CHECK_EQ(bzna_writer_add(b->writer, BZNA_INDEX_NEXT, &p.desc, 0, &b->err), BZNA_OK);
    CHECK_EQ(bzna_writer_add(b->writer, BZNA_INDEX_NEXT, &p.desc, 0, &b->err), BZNA_OK);
    bench_finish(b);
    prepared_free(&p);
}

/* ISO/IEC 14496-12 8.7.4: stsc says which chunks have how many samples. Without chunks it has nothing to say. */
TEST(a_track_without_samples_has_no_run_of_chunks)
{
    static const char *const names[4] = { "bzna_input", "bzna_target", "bzna_fname", "bzna_thumb" };
    bench b;
    write_without_targets(&b, 0);
    for (int t = 0; t < 4; t++) {
        char path[64];
        size_t hdlr, stsc, stsz, stco;
        uint32_t samples = t == 1 ? 0 : 2;
        snprintf(path, sizeof path, "moov/trak.%d/mdia/hdlr", t);
        hdlr = box_at(b.s.data, 0, b.s.size, path);
        snprintf(path, sizeof path, "moov/trak.%d/mdia/minf/stbl/stsc", t);
        stsc = box_at(b.s.data, 0, b.s.size, path);
        snprintf(path, sizeof path, "moov/trak.%d/mdia/minf/stbl/stsz", t);
        stsz = box_at(b.s.data, 0, b.s.size, path);
        snprintf(path, sizeof path, "moov/trak.%d/mdia/minf/stbl/stco", t);
        stco = box_at(b.s.data, 0, b.s.size, path);
        REQUIRE(hdlr && stsc && stsz && stco);
        CHECK_STR((const char *)b.s.data + hdlr + 32, names[t]);
        CHECK_EQ(be_get(b.s.data + stsz + 16, 4), samples);
        CHECK_EQ(be_get(b.s.data + stco + 12, 4), samples);
        CHECK_EQ(be_get(b.s.data + stsc + 12, 4), samples > 0);
        CHECK_EQ(be_get(b.s.data + stsc, 4), samples ? 28 : 16);
    }
    bench_close(&b);
}

TEST(ffprobe_reads_an_archive_without_targets)
{
    if (system("command -v ffprobe >/dev/null 2>&1") != 0)
        SKIP("no ffprobe [ffmpeg]");
    for (int a = 0; a < 2; a++) {
        bench b;
        char path[256];
        write_without_targets(&b, a);
        snprintf(path, sizeof path, "%s/tests/10_no_targets_%d.mp4", TEST_BUILD, a);
        spill(path, b.s.data, b.s.size);
        CHECK_EQ(ffprobe_frames(path, "v"), 2);
        remove(path);
        bench_close(&b);
    }
}

/* ---- Colors that nobody says ---- */

/* H.264: parameter sets of a 128x96 picture without VUI, and what passes for its slice. */
static const uint8_t silent[] = { 0, 0, 0, 1, 0x67, 0x42, 0x00, 0x0a, 0xf8, 0x41, 0xa2, 0, 0, 0, 1, 0x68, 0xce, 0x38,
                                  0x80, 0, 0, 0, 1, 0x65, 0x88, 0x84, 0x21 };

/* Puts to over each from of the same length. */
static void rename_all(uint8_t *d, size_t size, const char *from, const char *to)
{
    size_t n = strlen(from);
    for (size_t i = 0; i + n <= size; i++)
        if (!memcmp(d + i, from, n))
            memcpy(d + i, to, n);
}

static void check_color(const bzna_color *c, int primaries, int transfer, int matrix, int full)
{
    CHECK_EQ(c->present, 1);
    CHECK(c->primaries == primaries && c->transfer == transfer && c->matrix == matrix && c->full_range == full);
}

/* The only picture of an archive or video in memory. Its data goes to buffer, which has 4096 bytes. */
static bzna_image picture_of(bench *b, uint8_t *buffer)
{
    bzna_image image = { .struct_size = sizeof image };
    bzna_dataset_close(b->to);
    b->to = NULL;
    CHECK_EQ(open_bytes(b->context, &b->m, b->s.data, b->s.size, &b->to, &b->err), BZNA_OK);
    CHECK_EQ(bzna_dataset_read_image(b->to, 0, NULL, buffer, 4096, &image, &b->err), BZNA_OK);
    return image;
}

static void write_one(bench *b, const bzna_image *image)
{
    bzna_writer_sample desc = { .struct_size = sizeof desc, .image = image };
    bench_open(b, 0);
    CHECK_EQ(bzna_writer_add(b->writer, BZNA_INDEX_NEXT, &desc, 0, &b->err), BZNA_OK);
    bench_finish(b);
}

TEST(a_color_that_nobody_says_is_full_range_in_archives_and_limited_in_plain_videos)
{
    bench b, again;
    bzna_image image = { .struct_size = sizeof image, .codec = BZNA_CODEC_H264, .width = 128, .height = 96,
                         .data = silent, .data_size = sizeof silent };
    uint8_t buffer[4096], copy[4096];
    write_one(&b, &image);
    image = picture_of(&b, buffer);
    check_color(&image.color, 1, 13, 5, 1);               /* the writer said so */
    rename_all(b.s.data, b.s.size, "colr", "free");
    image = picture_of(&b, buffer);
    check_color(&image.color, 1, 13, 5, 1);               /* an archive's track */
    memcpy(b.s.data + box_at(b.s.data, 0, b.s.size, "moov/trak.0") + 4, "free", 4);
    memcpy(b.s.data + box_at(b.s.data, 0, b.s.size, "moov/trak.0") + 4, "free", 4);
    image = picture_of(&b, buffer);
    CHECK_STR(b.to->parts[0].container->ops->name, "mp4 video");
    check_color(&image.color, 1, 13, 5, 1);               /* whose track is still called bzna_thumb */
    rename_all(b.s.data, b.s.size, "bzna_thumb", "VideoTrack");
    image = picture_of(&b, buffer);
    check_color(&image.color, 2, 2, 2, 0);                /* a plain video */
    write_one(&again, &image);
    image = picture_of(&again, copy);
    check_color(&image.color, 2, 2, 2, 0);                /* and so it stays in an archive */
    bench_close(&again);
    bench_close(&b);
}

/* AV1 Codec ISO Media File Format Binding 2.3.3: monochrome, chroma_subsampling_x, _y in the third byte. */
TEST(the_configuration_of_av1_says_how_chroma_is_subsampled)
{
    static const struct { uint32_t chroma_format, bits; } cases[] = { { 0, 7 }, { 1, 3 }, { 2, 2 }, { 3, 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint32_t depth = 8; depth <= 12; depth += 2) {
            counter c;
            bzna_context *context = context_of(&c);
            bzi_coded coded;
            bzi_out out;
            memset(&coded, 0, sizeof coded);
            memset(&out, 0, sizeof out);
            out.memory = &context->host->memory;
            coded.sps.chroma_format = cases[i].chroma_format;
            coded.sps.depth_luma = depth;
            bzi_out_av1c(&out, &coded);
            REQUIRE(!out.failed && out.size > 4);
            CHECK_EQ(out.buffer.data[2], (depth > 8 ? 64 : 0) | (depth > 10 ? 32 : 0) | cases[i].bits << 2);
            bzi_buffer_free(out.memory, &out.buffer);
            bzna_context_close(context);
            CHECK_ALL_FREED(c);
        }
}

/* Its payload behind its size, which takes a byte for 7 bits (4.10.5). */
TEST(a_sequence_header_of_av1_is_written_behind_its_size)
{
    static const uint32_t sizes[] = { 0, 1, 11, 126, 127, 128, 129, 255, 256, 1000, 16383, 16384, 16385, 40000 };
    static uint8_t payload[40000];
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (uint8_t)(i * 7 + i / 251);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        counter c;
        bzna_context *context = context_of(&c);
        bzi_out out = { .memory = &context->host->memory };
        bzi_cursor rest;
        bzi_span unit;
        uint32_t type = 0;
        bzi_out_sequence_header(&out, (bzi_span){ payload, sizes[i] });
        REQUIRE(!out.failed && out.size == 1 + (sizes[i] > 16383 ? 3u : sizes[i] > 127 ? 2u : 1u) + sizes[i]);
        rest = bzi_cursor_make(out.buffer.data, out.size, 0);
        CHECK_EQ(out.buffer.data[0], 0x0a);
        CHECK_EQ(bzi_obu_next(&rest, &type, &unit), 1);
        CHECK(type == BZI_OBU_SEQUENCE_HEADER && unit.size == sizes[i] && !memcmp(unit.data, payload, sizes[i]));
        CHECK_EQ(bzi_cursor_left(&rest), 0);
        bzi_buffer_free(out.memory, &out.buffer);
        bzna_context_close(context);
        CHECK_ALL_FREED(c);
    }
}

/* A picture whose sequence header lies beside it, has no size, or comes twice: each sample has one before its frame. */
TEST(each_picture_of_av1_is_written_with_its_sequence_header)
{
    /* that of test_boxes' av1_sequence_headers_written_by_hand_are_understood, without a size and with one */
#define HEADER "\x19\x59\x60\xe4\x01\x01\x0d\x06\xc4"
    static const struct { const char *config; size_t config_size; const char *data; size_t size; const char *written;
                          size_t written_size; } cases[] = {
        { "\x81\0\0\0\x0a\x09" HEADER, 15, "\x32\2xy", 4, "\x0a\x09" HEADER "\x32\2xy", 15 },
        { "\x81\0\0\0\x08" HEADER, 14, "\x32\2xy", 4, "\x0a\x09" HEADER "\x32\2xy", 15 },
        { NULL, 0, "\x12\0\x0a\x09" HEADER "\x32\2xy", 17, "\x0a\x09" HEADER "\x32\2xy", 15 },
        { NULL, 0, "\x0a\x09" HEADER "\x7a\1p\x1a\1f\x22\1t", 20, "\x0a\x09" HEADER "\x1a\1f\x22\1t", 17 },
        { "\x81\0\0\0\x0a\x09" HEADER, 15, "\x2a\1m\x1a\1f\x22\1t", 9,
          "\x2a\1m\x0a\x09" HEADER "\x1a\1f\x22\1t", 20 },
        { NULL, 0, "\x0a\x09" HEADER "\x30xy", 14, "\x0a\x09" HEADER "\x30xy", 14 },
    };
#undef HEADER
    for (size_t i = 0; i < COUNT(cases); i++) {
        counter c;
        bzna_context *context = context_of(&c);
        bzi_out out = { .memory = &context->host->memory };
        bzi_coded coded;
        bzna_error err = fresh_error();
        memset(&coded, 0, sizeof coded);
        bzna_image_init(&coded.image, sizeof coded.image);
        coded.image.codec = BZNA_CODEC_AV1;
        coded.image.config = cases[i].config;
        coded.image.config_size = cases[i].config_size;
        coded.image.data = cases[i].data;
        coded.image.data_size = cases[i].size;
        coded.codec = bzi_codec_find(BZNA_CODEC_AV1);
        CHECK_EQ(bzi_coded_gather(&coded, &err), BZNA_OK);
        CHECK(coded.sps.width == 66 && coded.sps.height == 51 && coded.set_count == 1 && coded.sets[0].size == 9);
        bzi_out_unit(&out, &coded);
        REQUIRE(!out.failed);
        CHECK_EQ(out.size, cases[i].written_size);
        CHECK(out.size == cases[i].written_size && !memcmp(out.buffer.data, cases[i].written, cases[i].written_size));
        out.size = out.depth = out.failed = out.too_large = 0;
        bzi_out_av1c(&out, &coded);
        CHECK(out.size == 15 && !memcmp(out.buffer.data + 4, "\x0a\x09\x19\x59\x60\xe4\x01\x01\x0d\x06\xc4", 11));
        CHECK(out.buffer.data[0] == 0x81 && out.buffer.data[1] == 5 && out.buffer.data[2] == (3 << 2 | 2));
        bzi_buffer_free(out.memory, &out.buffer);
        bzna_context_close(context);
        CHECK_ALL_FREED(c);
    }
}

/* Two of each, as streams have them that change their settings on the way. */
TEST(the_configuration_of_h264_counts_its_parameter_sets)
{
    static const uint8_t stream[] = { 0, 0, 0, 1, 0x67, 0x42, 0x00, 0x0b, 0xf8, 0x41, 0xa2,
                                      0, 0, 0, 1, 0x67, 0x42, 0x00, 0x0a, 0xf8, 0x41, 0xa2,
                                      0, 0, 0, 1, 0x68, 0xce, 0x38, 0x80, 0, 0, 0, 1, 0x68, 0x53, 0x8e, 0x20,
                                      0, 0, 0, 1, 0x65, 0x88, 0x84, 0x21 };
    counter c;
    bzna_context *context = context_of(&c);
    bzna_image image = { .struct_size = sizeof image, .codec = BZNA_CODEC_H264, .width = 16, .height = 16,
                         .data = stream, .data_size = sizeof stream };
    bzna_error err = fresh_error();
    bzi_coded coded;
    bzi_out out = { .memory = &context->host->memory };
    REQUIRE(bzi_coded_make(&coded, &image, "image", &err) == BZNA_OK);
    bzi_out_avcc(&out, &coded);
    REQUIRE(!out.failed && out.size == 6 + 2 * 9 + 1 + 2 * 6);
    CHECK_EQ(out.buffer.data[5], 0xe2);
    CHECK_EQ(out.buffer.data[6 + 2 * 9], 2);
    CHECK(!memcmp(out.buffer.data + 8, stream + 4, 7) && !memcmp(out.buffer.data + 17, stream + 15, 7));
    bzi_buffer_free(out.memory, &out.buffer);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
}

/* It cannot be synchronized, which is no error. */
TEST(a_device_takes_an_archive)
{
    if (ON_WINDOWS)
        SKIP("no /dev/null on Windows");
    bench b;
    prepared p;
    bzna_writer *writer = NULL;
    bench_open(&b, 0);
    REQUIRE(bzna_writer_open(b.context, "/dev/null", NULL, &writer, &b.err) == BZNA_OK);
    prepare(&p, b.from, &known[0].samples[0], AS_READ);
    CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &p.desc, 0, &b.err), BZNA_OK);
    CHECK_EQ(bzna_writer_finish(writer, &b.err), BZNA_OK);
    bzna_writer_close(writer);
    prepared_free(&p);
    bench_close(&b);
}

/* The length that marks an archive as whole is written between two calls, and not if the first one fails. */
TEST(an_archive_is_on_the_disk_before_it_is_marked_as_whole)
{
    if (ON_WINDOWS)
        SKIP("the test takes the place of fdatasync, which Windows has not");
    static const char path[] = TEST_BUILD "/tests/10_synced.bzna";
    static const struct { int errors[4], calls; bzna_status status; } ways[] = {
        { { 0, 0 }, 2, BZNA_OK },          { { EINTR, 0, EINTR, 0 }, 4, BZNA_OK }, { { EINVAL, EROFS }, 2, BZNA_OK },
        { { EIO, 0 }, 1, BZNA_E_IO },      { { 0, ENOSPC }, 2, BZNA_E_IO },
    };
    for (size_t i = 0; i < COUNT(ways); i++) {
        const int calls = ways[i].calls;
        bench b;
        prepared p;
        bzna_writer *writer = NULL;
        bench_open(&b, 0);
        REQUIRE(bzna_writer_open(b.context, path, NULL, &writer, &b.err) == BZNA_OK);
        prepare(&p, b.from, &known[0].samples[0], AS_READ);
        CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &p.desc, 0, &b.err), BZNA_OK);
        synced_path = path;
        syncs = 0;
        memcpy(sync_errors, ways[i].errors, sizeof sync_errors);
        CHECK_EQ(bzna_writer_finish(writer, &b.err), ways[i].status);
        synced_path = NULL;
        CHECK_EQ(syncs, calls);
        for (int k = 0; k < calls; k++)
            CHECK_EQ(had_length[k], k >= calls / 2 && calls > 1);
        if (ways[i].status == BZNA_E_IO) {
            CHECK_CONTAINS(b.err.message, path);
            CHECK_CONTAINS(b.err.message, strerror(ways[i].errors[calls - 1]));
        }
        bzna_writer_close(writer);
        CHECK_EQ(bzna_dataset_open(b.context, path, NULL, &b.to, NULL), calls == 1 ? BZNA_E_UNFINISHED : BZNA_OK);
        prepared_free(&p);
        bench_close(&b);
        remove(path);
    }
}

TEST_MAIN(
    facts_load();
    RUN(the_configuration_of_av1_says_how_chroma_is_subsampled)
    RUN(a_sequence_header_of_av1_is_written_behind_its_size)
    RUN(each_picture_of_av1_is_written_with_its_sequence_header)
    RUN(archives_packed_again_hold_the_same_by_sink_and_by_path)
    RUN(annex_b_input_gives_the_same_bytes)
    RUN(lengths_of_two_bytes_give_the_same_bytes)
    RUN(an_archive_packed_from_a_packed_one_is_the_same)
    RUN(the_outer_file_is_laid_out_as_the_format_says)
    RUN(every_box_adds_up_outside_and_inside)
    RUN(configurations_hold_no_banner_and_colr_is_always_there)
    RUN(configuration_records_say_what_the_original_ones_say)
    RUN(tables_have_as_many_entries_as_they_count_and_tracks_are_numbered_from_one)
    RUN(headers_and_sample_entries_are_the_bytes_that_the_standard_has)
    RUN(a_sample_without_a_target_costs_no_other_sample_its_own)
    RUN(a_target_counts_only_where_has_target_says_so)
    RUN(an_archive_without_targets_and_names_opens)
    RUN(names_are_kept_byte_for_byte_up_to_65535)
    RUN(any_crop_comes_back_as_it_was_given)
    RUN(the_callers_color_comes_before_the_streams)
    RUN(without_common_thumbnails_there_is_no_outer_track_and_a_warning)
    RUN(splits_are_tracks_of_their_own_over_the_same_samples)
    RUN(an_unknown_split_is_refused)
    RUN(refused_samples_leave_the_archive_as_it_was)
    RUN(pictures_that_start_a_stream_are_taken_and_no_others)
    RUN(an_archive_that_was_never_finished_is_recognized)
    RUN(a_finished_archive_takes_no_more)
    RUN(writers_that_cannot_be_opened_say_why)
    RUN(descriptions_of_other_versions_are_taken_or_refused)
    RUN(a_failed_write_poisons_the_writer_and_leaves_the_archive_unfinished)
    RUN(a_failed_allocation_never_gives_a_wrong_archive)
    RUN(offsets_are_64_bits_wide_only_when_the_archives_end_needs_it)
    RUN(archives_larger_than_4_gib_are_written_and_read)
    RUN(ffprobe_counts_a_frame_a_sample)
    RUN(a_track_without_samples_has_no_run_of_chunks)
    RUN(ffprobe_reads_an_archive_without_targets)
    RUN(the_configuration_of_h264_counts_its_parameter_sets)
    RUN(a_device_takes_an_archive)
    RUN(an_archive_is_on_the_disk_before_it_is_marked_as_whole)
    RUN(a_color_that_nobody_says_is_full_range_in_archives_and_limited_in_plain_videos)
)
