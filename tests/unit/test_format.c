/* What examples/FORMAT.md says of an archive, held against one that the writer wrote. */
#include "library.h"
#include "test.h"

#ifdef BENZINA_NO_WRITER
TEST(an_archive_is_as_its_format_is_described) { SKIP("built without the writer"); }
TEST_MAIN(RUN(an_archive_is_as_its_format_is_described))
#else

#include "known.h"

typedef struct file {
    uint8_t bytes[1 << 20];
    uint64_t size;
} file;

static bzna_status file_write(void *user, uint64_t offset, const void *src, uint64_t size)
{
    file *f = user;
    if (offset + size > sizeof f->bytes)
        return BZNA_E_IO;
    memcpy(f->bytes + offset, src, (size_t)size);
    f->size = offset + size > f->size ? offset + size : f->size;
    return BZNA_OK;
}

enum { SAMPLES = 3 };

/* Three samples of one JPEG; the second one has no target. */
static void file_make(file *f, const uint8_t *jpeg, size_t size)
{
    static const char *const classes[] = { "ant", "bee" };
    bzna_sink sink = { sizeof sink, 0, f, file_write, NULL };
    bzna_image image = { .struct_size = sizeof image, .codec = BZNA_CODEC_JPEG, .data = jpeg, .data_size = size };
    bzna_writer_config config = { .struct_size = sizeof config, .classes = classes, .class_count = 2 };
    bzna_context *context = NULL;
    bzna_writer *writer = NULL;
    bzna_error err = fresh_error();
    CHECK_EQ(bzna_context_open(NULL, &context, NULL), BZNA_OK);
    CHECK_EQ(bzna_writer_open_sink(context, &sink, &config, &writer, &err), BZNA_OK);
    for (int i = 0; i < SAMPLES; i++) {
        char name[8];
        bzna_writer_sample sample = { .struct_size = sizeof sample, .image = &image, .name = name };
        sample.has_target = i != 1;
        sample.target = sample.has_target ? i + 5 : 0;
        snprintf(name, sizeof name, "n%d", i);
        CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &sample, 0, &err), BZNA_OK);
    }
    CHECK_EQ(bzna_writer_finish(writer, &err), BZNA_OK);
    bzna_writer_close(writer);
    bzna_context_close(context);
}

/* Finds box number n of a type between begin and end; 0: there is none. */
static uint64_t box(const uint8_t *bytes, uint64_t begin, uint64_t end, const char *type, int n)
{
    while (begin + 8 <= end) {
        uint64_t size = bzi_be32(bytes + begin);
        size = size == 1 ? bzi_be64(bytes + begin + 8) : size;
        if (size < 8 || size > end - begin)
            return 0;
        if (!memcmp(bytes + begin + 4, type, 4) && n-- == 0)
            return begin;
        begin += size;
    }
    return 0;
}

/* The same, by a path of boxes that hold only boxes: "moov/trak.1/mdia/hdlr". */
static const uint8_t *at(const uint8_t *bytes, uint64_t size, const char *path)
{
    static const uint8_t nothing[256];
    uint64_t begin = 0, end = size, found = 0;
    for (; *path; path += strcspn(path, "/"), path += *path == '/') {
        const char *dot = strchr(path, '.'), *slash = strchr(path, '/');
        const int n = dot && (!slash || dot < slash) ? atoi(dot + 1) : 0;
        if (!(found = box(bytes, begin, end, path, n)) && (begin || memcmp(path, "ftyp", 4))) {
            printf("  no %s\n", path);
            test_failures++;
            return nothing;
        }
        begin = found + 8;
        end = found + bzi_be32(bytes + found);
    }
    return bytes + found;
}

static void check_outer(const file *f)
{
    static const char *const names[] = { "bzna_input", "bzna_target", "bzna_fname", "bzna_thumb" };
    static const char *const types[] = { "video/mp4", "application/octet-stream", "text/plain" };
    char path[64];
    CHECK(!memcmp(f->bytes, "\0\0\0\x18" "ftypisom\0\0\0\0bznaisom\0\0\0\1mdat", 32));
    CHECK(at(f->bytes, f->size, "moov/uuid") < at(f->bytes, f->size, "moov/trak"));
    for (int i = 0; i < 4; i++) {
        const uint8_t *box_at;
        snprintf(path, sizeof path, "moov/trak.%d/tkhd", i);
        box_at = at(f->bytes, f->size, path);
        CHECK_EQ(bzi_be32(box_at + 8), i == 3 ? 0x01000003u : 0x01000000u);
        CHECK_EQ(bzi_be32(box_at + 28), (uint32_t)i + 1);
        snprintf(path, sizeof path, "moov/trak.%d/mdia/hdlr", i);
        box_at = at(f->bytes, f->size, path);
        CHECK(!memcmp(box_at + 16, i == 3 ? "vide" : "meta", 4));
        CHECK_STR((const char *)box_at + 32, names[i]);
        snprintf(path, sizeof path, "moov/trak.%d/mdia/minf/stbl/stsd", i);
        box_at = at(f->bytes, f->size, path);
        CHECK(!memcmp(box_at + 20, i == 3 ? "jpeg" : "mett", 4));
        CHECK(i == 3 || !memcmp(box_at + 24, "\0\0\0\0\0\0\0\1", 9));
        CHECK(i == 3 || !strcmp((const char *)box_at + 33, types[i]));
        snprintf(path, sizeof path, "moov/trak.%d/mdia/minf/stbl/stsz", i);
        CHECK_EQ(bzi_be32(at(f->bytes, f->size, path) + 16), SAMPLES);
    }
}

/* Follows the tables to the samples, the targets and the names. */
static void check_tables(const file *f)
{
    uint64_t end = 40;
    for (int i = 0; i < SAMPLES; i++) {
        const uint8_t *sizes = at(f->bytes, f->size, "moov/trak/mdia/minf/stbl/stsz") + 20;
        const uint8_t *offsets = at(f->bytes, f->size, "moov/trak/mdia/minf/stbl/stco") + 16;
        CHECK_EQ(bzi_be32(offsets + 4 * i), end);
        end += bzi_be32(sizes + 4 * i);
    }
    for (int i = 0; i < SAMPLES; i++, end += 8) {
        CHECK_EQ(bzi_be32(at(f->bytes, f->size, "moov/trak.1/mdia/minf/stbl/stco") + 16 + 4 * i), end);
        CHECK_EQ((int64_t)le64_get(f->bytes + end), i == 1 ? -1 : i + 5);
    }
    for (int i = 0; i < SAMPLES; i++, end += 3) {
        CHECK_EQ(bzi_be32(at(f->bytes, f->size, "moov/trak.2/mdia/minf/stbl/stco") + 16 + 4 * i), end);
        CHECK(f->bytes[end] == 'n' && f->bytes[end + 1] == '0' + i && !f->bytes[end + 2]);
    }
    CHECK(!memcmp(f->bytes + end + 4, "moov", 4));
    CHECK_EQ(end + bzi_be32(f->bytes + end), f->size);
    CHECK_EQ(bzi_be64(f->bytes + 32), end - 24);
}

static void check_names(const file *f)
{
    static const uint8_t names[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 6,
                                     'a', 'n', 't', 'b', 'e', 'e' };
    static const uint8_t id[] = { 0x6f, 0x2b, 0x7f, 0x0e, 0x5c, 0x1d, 0x4a, 0x8e, 0x9d, 0x3a, 0x62, 0x7a, 0x6e, 0x61,
                                  0, 1 };
    const uint8_t *found = at(f->bytes, f->size, "moov/uuid");
    CHECK_EQ(bzi_be32(found), 8 + sizeof id + sizeof names);
    CHECK(!memcmp(found + 8, id, sizeof id) && !memcmp(found + 24, names, sizeof names));
}

static void check_sample(const file *f, const uint8_t *jpeg, size_t jpeg_size, int number)
{
    static const char *const names[] = { "bzna_input", "bzna_fname", "bzna_target", "bzna_thumb" };
    const uint8_t *offsets = at(f->bytes, f->size, "moov/trak/mdia/minf/stbl/stco") + 16;
    const uint8_t *sample = f->bytes + bzi_be32(offsets + 4 * number);
    const uint64_t size = bzi_be32(at(f->bytes, f->size, "moov/trak/mdia/minf/stbl/stsz") + 20 + 4 * number);
    const int has_target = number != 1;
    char path[64];
    CHECK(!memcmp(sample, "\0\0\0\x14" "ftypisom\0\0\0\0isom", 20));
    CHECK(!memcmp(sample + 24, "mdat", 4) && !memcmp(sample + 28, jpeg, jpeg_size));
    for (int i = 0, track = 0; i < 4; i++) {
        const uint8_t *found;
        if (i == 2 && !has_target)
            continue;
        snprintf(path, sizeof path, "moov/trak.%d/tkhd", track);
        CHECK_EQ(bzi_be32(at(sample, size, path) + 8), i == 1 || i == 3 ? 3u : 0u);
        snprintf(path, sizeof path, "moov/trak.%d/mdia/hdlr", track);
        found = at(sample, size, path);
        CHECK(!memcmp(found + 16, i % 3 ? "meta" : "vide", 4));
        CHECK_STR((const char *)found + 32, names[i]);
        snprintf(path, sizeof path, "moov/trak.%d/mdia/minf/stbl/stco", track);
        found = sample + bzi_be32(at(sample, size, path) + 16);
        CHECK(i % 3 || found == sample + 28);
        CHECK(i != 1 || (found[0] == 'n' && found[1] == '0' + number && !found[2]));
        CHECK(i != 2 || le64_get(found) == (uint64_t)number + 5);
        track++;
    }
}

TEST(an_archive_is_as_its_format_is_described)
{
    static file f;
    size_t size;
    uint8_t *jpeg = slurp("tests/data/pictures/jpeg_422_restarts.jpg", &size);
    file_make(&f, jpeg, size);
    check_outer(&f);
    check_tables(&f);
    check_names(&f);
    for (int i = 0; i < SAMPLES; i++)
        check_sample(&f, jpeg, size, i);
    free(jpeg);
}

TEST_MAIN(RUN(an_archive_is_as_its_format_is_described))
#endif
