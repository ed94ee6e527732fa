/* Tars, as WebDataset writes shards. What Python's tarfile and webdataset make of the same files is
 * in test_tar.py. */
#include "library.h"
#include "with_formats.h"
#include "test.h"
#include "../../examples/formats/data.h"
#include "known.h"
#include "tars.h"

static bzna_dataset *open_tar(bzna_context *context, const tar *t, bzna_error *err)
{
    bzna_dataset *dataset = NULL;
    bzna_error ignored = fresh_error();
    bzna_dataset_open_memory(context, t->bytes, t->size, NULL, &dataset, err ? err : &ignored);
    return dataset;
}

/* Opening fails so, at that offset, and says so. */
static void check_refused(tar *t, bzna_status status, uint64_t offset, const char *part)
{
    counter c;
    bzna_context *context = context_of(&c);
    bzna_error err = fresh_error();
    memory_source m;
    bzna_source source = source_of(&m, t->bytes, t->size);
    bzna_dataset *dataset = open_tar(context, t, &err);
    CHECK(!dataset);
    CHECK_EQ(err.status, status);
    CHECK_EQ(err.byte_offset, offset);
    CHECK_CONTAINS(err.message, part);
    CHECK_EQ(bzna_dataset_open_source(context, &source, NULL, &dataset, &err), status);
    CHECK_CONTAINS(err.message, part);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
    tar_free(t);
}

/* A field as text, or the status's name. */
static const char *value_of(const bzna_dataset *dataset, uint64_t index, const char *field)
{
    static char text[8][5000];
    static int turn;
    char *value = text[turn++ % 8];
    size_t needed = 0;
    bzna_status status = bzna_dataset_field(dataset, index, field, value, 4999, &needed, NULL);
    if (status != BZNA_OK)
        return bzna_status_name(status);
    value[needed] = 0;
    return value;
}

static int64_t target_of(const bzna_dataset *dataset, uint64_t index)
{
    int64_t target = -77;
    return bzna_dataset_target(dataset, index, &target, NULL) == BZNA_OK ? target : -77;
}

/* ---- Keys and fields ---- */

TEST(adjacent_files_of_one_key_are_a_sample)
{
    static const struct { const char *name; int sample; const char *key, *field; } members[] = {
        { "a/b/000.left.jpg.bin", 0, "a/b/000", "left.jpg.bin" }, { "a/b/000.BIN", 0, "a/b/000", "bin" },
        { "a.b/c.bin", 1, "a.b/c", "bin" },      { "a.b/c.txt", 1, "a.b/c", "txt" },
        { "README", -1, NULL, NULL },            { "a.b/c.json", 1, "a.b/c", "json" },   /* nothing closed it */
        { "d/.hidden.bin", -1, NULL, NULL },     { ".bin", -1, NULL, NULL },
        { "e.", -1, NULL, NULL },                { "__meta__/x.bin", -1, NULL, NULL },
        { "q/__x__/y.bin", -1, NULL, NULL },     { "__x__", -1, NULL, NULL },
        { "__x_/y.bin", 2, "__x_/y", "bin" },    { "___/y.bin", 3, "___/y", "bin" },
        { "__x__.bin", 4, "__x__", "bin" },      { "a/b/000.bin", 5, "a/b/000", "bin" }, /* not adjacent to the first */
        { "a/b/000x.bin", 6, "a/b/000x", "bin" }, { "./f.bin", 7, "./f", "bin" }, { "f.bin", 8, "f", "bin" },
        { "g..bin", 9, "g", ".bin" },            { "/h.bin", 10, "/h", "bin" },
    };
    counter c;
    bzna_context *context = context_of(&c);
    tar t = { 0 };
    bzna_dataset *dataset;
    for (size_t i = 0; i < COUNT(members); i++)
        tar_text(&t, members[i].name, members[i].name);
    tar_end(&t);
    dataset = open_tar(context, &t, NULL);
    REQUIRE(dataset);
    CHECK_EQ(bzna_dataset_count(dataset), 11);
    for (size_t i = 0; i < COUNT(members); i++) {
        if (members[i].sample < 0)
            continue;
        CHECK_STR(value_of(dataset, (uint64_t)members[i].sample, members[i].field), members[i].name);
        CHECK_STR(value_of(dataset, (uint64_t)members[i].sample, "name"), members[i].key);
    }
    CHECK_STR(value_of(dataset, 2, "json"), "BZNA_E_NOT_FOUND");
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
    tar_free(&t);
}

TEST(fields_stand_in_the_order_first_met_with_the_kind_of_their_last_extension)
{
    static const bzna_field_info known_fields[] = {
        { 0, BZNA_FIELD_IMAGE, "jpg" },   { 0, BZNA_FIELD_INTEGER, "cls" },     { 0, BZNA_FIELD_TEXT, "caption.txt" },
        { 0, BZNA_FIELD_BYTES, "json" },    { 0, BZNA_FIELD_IMAGE, "seg.png" }, { 0, BZNA_FIELD_INTEGER, "cls2" },
        { 0, BZNA_FIELD_INTEGER, "index" }, { 0, BZNA_FIELD_INTEGER, "inx" },     { 0, BZNA_FIELD_INTEGER, "id" },
        { 0, BZNA_FIELD_TEXT, "text" },     { 0, BZNA_FIELD_TEXT, "transcript" }, { 0, BZNA_FIELD_IMAGE, "jp2" },
        { 0, BZNA_FIELD_BYTES, "jpg.gz" },  { 0, BZNA_FIELD_BYTES, "jpg cls" },   { 0, BZNA_FIELD_BYTES, "cl" },
        { 0, BZNA_FIELD_TEXT, "name" },
    };
    counter c;
    bzna_context *context = context_of(&c);
    tar t = { 0 };
    bzna_dataset *dataset;
    bzna_dataset_info info;
    bzna_field_info field;
    for (size_t i = 0; i + 1 < COUNT(known_fields); i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.%s", i < 6 ? "0" : "1", known_fields[i].name);
        tar_text(&t, name, "1");
    }
    tar_text(&t, "2.CLS", "1");
    tar_end(&t);
    dataset = open_tar(context, &t, NULL);
    REQUIRE(dataset);
    bzna_dataset_get_info(dataset, &info, sizeof info, NULL);
    CHECK_STR(info.container, "tar");
    CHECK_EQ(info.sample_count, 3);
    CHECK_EQ(info.target_count, 2);
    CHECK_EQ(info.size_bytes, t.size);
    CHECK_EQ(info.field_count, COUNT(known_fields));
    for (uint32_t i = 0; i < COUNT(known_fields); i++) {
        CHECK_EQ(bzna_dataset_field_info(dataset, i, &field, sizeof field, NULL), BZNA_OK);
        CHECK_STR(field.name, known_fields[i].name);
        CHECK_EQ(field.kind, known_fields[i].kind);
    }
    CHECK_EQ(bzna_dataset_field_info(dataset, COUNT(known_fields), &field, sizeof field, NULL), BZNA_E_RANGE);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    tar_free(&t);
}

TEST(a_member_called_name_is_the_name)
{
    counter c;
    bzna_context *context = context_of(&c);
    tar t = { 0 };
    bzna_dataset *dataset;
    bzna_dataset_info info;
    tar_text(&t, "0.NAME", "its own");
    tar_text(&t, "1.txt", "none");
    dataset = open_tar(context, &t, NULL);
    REQUIRE(dataset);
    CHECK_STR(value_of(dataset, 0, "name"), "its own");
    CHECK_STR(value_of(dataset, 1, "name"), "BZNA_E_NOT_FOUND");
    CHECK_EQ(bzna_dataset_get_info(dataset, &info, sizeof info, NULL), BZNA_OK);
    CHECK_EQ(info.field_count, 2);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    tar_free(&t);
}

TEST(targets_are_decimal_numbers_and_others_fail_alone)
{
    static const struct { const char *text; int64_t target; } cases[] = {
        { "7", 7 }, { "-1", -1 }, { " +12\n", 12 }, { "\t0009 \r\n", 9 }, { "\v\f5\t", 5 },
        { "9223372036854775807", INT64_MAX }, { "-9223372036854775808", INT64_MIN }, { "-0", 0 },
        { "\b5", -77 }, { "\0165", -77 }, { "5\b", -77 }, { "5\016", -77 }, { "/5", -77 }, { "5:", -77 },
        { "", -77 }, { "  ", -77 }, { "-", -77 }, { "1.5", -77 }, { "7x", -77 }, { "- 7", -77 }, { "1 2", -77 },
        { "9223372036854775808", -77 }, { "-9223372036854775809", -77 }, { "99999999999999999999", -77 },
    };
    counter c;
    bzna_context *context = context_of(&c);
    bzna_error err = fresh_error();
    tar t = { 0 };
    bzna_dataset *dataset;
    int64_t target;
    size_t last;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char name[16];
        snprintf(name, sizeof name, "%d.cls", (int)i);
        tar_text(&t, name, cases[i].text);
    }
    tar_text(&t, "x.txt", "no target");
    tar_text(&t, "y.cls", "two\001\xff");
    last = t.last;
    dataset = open_tar(context, &t, NULL);
    REQUIRE(dataset);
    for (size_t i = 0; i < COUNT(cases); i++)
        CHECK_EQ(target_of(dataset, i), cases[i].target);
    CHECK_EQ(target_of(dataset, COUNT(cases)), BZNA_TARGET_NONE);
    CHECK_EQ(dataset->parts[0].container->target_count, COUNT(cases) + 1);
    CHECK_EQ(bzna_dataset_target(dataset, COUNT(cases) + 1, &target, &err), BZNA_E_BOX);
    CHECK_EQ(err.byte_offset, last + 512);
    CHECK_CONTAINS(err.message, "memory: sample 25 at byte ");
    CHECK_CONTAINS(err.message, "is not an integer: \"two??\"");
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    tar_free(&t);
}

/* Tensors of that name are the library's own. */
TEST(a_field_called_index_comes_as_bytes)
{
    counter c;
    bzna_context *context = context_of(&c);
    bzna_error err = fresh_error();
    bzna_loader_config config;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_batch_info info;
    bzna_dataset *dataset;
    const void *data = NULL;
    uint64_t size = 0;
    tar t = { 0 };
    tar_text(&t, "0.index", "4711");
    tar_end(&t);
    dataset = open_tar(context, &t, NULL);
    REQUIRE(dataset);
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = 1;
    config.fields.tensors = "index";
    CHECK_EQ(bzna_loader_open(context, dataset, &config, &loader, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "loader_config.fields.tensors: another tensor has the name \"index\"");
    config.fields.tensors = NULL;
    config.fields.bytes = "index";
    CHECK_EQ(bzna_loader_open(context, dataset, &config, &loader, &err), BZNA_OK);
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), BZNA_OK);
    CHECK_EQ(bzna_batch_bytes(batch, "index", 0, &data, &size, &err), BZNA_OK);
    CHECK(size == 8 && !memcmp(data, &(int64_t){ 4711 }, 8));
    bzna_batch_get_info(batch, &info, sizeof info, NULL);
    CHECK_EQ(info.indices[0], 0);
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
    tar_free(&t);
}

TEST(a_field_called_target_is_not_the_target)
{
    counter c;
    bzna_context *context = context_of(&c);
    tar t = { 0 };
    bzna_dataset *dataset;
    tar_text(&t, "0.cls", "3");
    tar_text(&t, "0.target", "ABCDEFG");
    tar_text(&t, "1.target", "a text of more than eight bytes");
    tar_end(&t);
    dataset = open_tar(context, &t, NULL);
    REQUIRE(dataset);
    CHECK_EQ(target_of(dataset, 0), 3);
    CHECK_EQ(target_of(dataset, 1), BZNA_TARGET_NONE);
    CHECK_STR(value_of(dataset, 0, "target"), "ABCDEFG");
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
    tar_free(&t);
}

TEST(another_field_of_integers_can_be_the_target)
{
    static const struct { const char *target; int64_t first, second; uint64_t count; } ways[] = {
        { NULL, 3, 4, 2 }, { "cls", 3, 4, 2 }, { "cls2", 30, BZNA_TARGET_NONE, 2 } };
    counter c;
    bzna_context *context = context_of(&c);
    tar t = { 0 };
    bzna_dataset_config config = { .struct_size = sizeof config };
    bzna_dataset *dataset = NULL;
    bzna_error err = fresh_error();
    tar_text(&t, "0.cls", "3");
    tar_text(&t, "0.cls2", "30");
    tar_text(&t, "1.cls", "4");
    tar_text(&t, "1.txt", "a text");
    tar_end(&t);
    for (size_t i = 0; i < COUNT(ways); i++) {
        config.target = ways[i].target;
        REQUIRE(bzna_dataset_open_memory(context, t.bytes, t.size, &config, &dataset, NULL) == BZNA_OK);
        CHECK_EQ(target_of(dataset, 0), ways[i].first);
        CHECK_EQ(target_of(dataset, 1), ways[i].second);
        bzna_dataset_close(dataset);
    }
    config.target = "txt";
    CHECK_EQ(bzna_dataset_open_memory(context, t.bytes, t.size, &config, &dataset, &err), BZNA_E_NOT_FOUND);
    CHECK_CONTAINS(err.message, "memory: dataset_config.target: there is no field of integers \"txt\"");
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
    tar_free(&t);
}

TEST(a_field_twice_fails_in_its_sample_and_no_other)
{
    counter c;
    bzna_context *context = context_of(&c);
    bzna_error err = fresh_error();
    bzna_sample_ref sample = { .struct_size = sizeof sample };
    tar t = { 0 };
    bzna_dataset *dataset;
    tar_text(&t, "0.txt", "zero");
    tar_text(&t, "1.txt", "one");
    tar_text(&t, "1.cls", "1");
    tar_text(&t, "1.TXT", "one again");
    tar_text(&t, "2.txt", "two");
    dataset = open_tar(context, &t, NULL);
    REQUIRE(dataset);
    CHECK_EQ(bzna_dataset_count(dataset), 3);
    CHECK_EQ(bzna_dataset_sample(dataset, 1, &sample, sizeof sample, &err), BZNA_OK);
    CHECK_EQ(bzna_dataset_field(dataset, 1, "txt", NULL, 0, NULL, &err), BZNA_E_BOX);
    CHECK_STR(err.message,
              "memory: sample 1 at byte 3072: it has the field \"txt\" twice, the first time at byte 1024");
    CHECK_EQ(err.byte_offset, 3072);
    CHECK_EQ(target_of(dataset, 1), 1);
    CHECK_STR(value_of(dataset, 0, "txt"), "zero");
    CHECK_STR(value_of(dataset, 2, "txt"), "two");
    CHECK_STR(value_of(dataset, 2, "name"), "2");
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    tar_free(&t);
}

/* What a picture is said to be is the codecs' matter; here: which of them is taken, and where it lies. */
TEST(the_picture_is_the_first_one_or_that_of_the_name)
{
    static const struct { const char *field; uint64_t offset; bzna_status status; } cases[] = {
        { NULL, 1536, BZNA_E_CODEC }, { "image", 1536, BZNA_E_CODEC }, { "jpg", 1536, BZNA_E_CODEC },
        { "seg.png", 3584, BZNA_E_CODEC }, { "bin", 512, BZNA_E_CODEC }, { "gif", 4608, BZNA_E_FORMAT },
        { "thumb", BZNA_NO_OFFSET, BZNA_E_NOT_FOUND },
    };
    counter c;
    bzna_context *context = context_of(&c);
    bzna_image image = { .struct_size = sizeof image };
    bzna_sample_ref sample = { .struct_size = sizeof sample };
    bzna_error err = fresh_error();
    tar t = { 0 };
    uint8_t buffer[8192];
    bzna_dataset *dataset;
    tar_text(&t, "0.bin", "abc");
    tar_text(&t, "0.jpg", "\1\2\3\4");
    tar_text(&t, "0.cls", "3");
    tar_text(&t, "0.seg.png", "\5\6\7");
    tar_text(&t, "0.gif", "");
    tar_text(&t, "1.cls", "4");
    dataset = open_tar(context, &t, NULL);
    REQUIRE(dataset);
    CHECK_EQ(bzna_dataset_sample(dataset, 0, &sample, sizeof sample, &err), BZNA_OK);
    CHECK_EQ(sample.offset, 0);
    CHECK_EQ(sample.size, 4608);
    CHECK_EQ(sample.target, 3);
    CHECK_EQ(sample.image_count, 3);
    CHECK_STR(sample.image_names[0], "jpg");
    CHECK_STR(sample.image_names[1], "seg.png");
    CHECK_STR(sample.image_names[2], "gif");
    for (size_t i = 0; i < COUNT(cases); i++) {
        CHECK_EQ(bzna_dataset_read_image(dataset, 0, cases[i].field, buffer, sizeof buffer, &image, &err),
                 cases[i].status);
        CHECK_EQ(err.byte_offset, cases[i].offset);
    }
    CHECK_EQ(bzna_dataset_read_image(dataset, 1, NULL, buffer, sizeof buffer, &image, &err), BZNA_E_NOT_FOUND);
    CHECK_CONTAINS(err.message, "it has no picture");
    CHECK_EQ(bzna_dataset_sample(dataset, 1, &sample, sizeof sample, &err), BZNA_OK);
    CHECK_EQ(sample.image_count, 0);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    tar_free(&t);
}

/* ---- Headers ---- */

/* Members of every kind of header; sample i has the key i and its text. */
static tar tar_of_all_kinds(char *longest)
{
    static const char base256[12] = { (char)0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5 };
    tar t = { 0 };
    uint8_t *h;
    unsigned sum = 8 * ' ';
    char name[160];
    tar_pax(&t, 'g', "path", "a header of all members, which gives nothing");
    tar_member(&t, '0', "0.txt", "ustar", 5);
    tar_member(&t, 0, "1.txt", "v7", 2);
    memset(t.bytes + t.last + 257, 0, 255);
    tar_seal(&t, t.last);
    tar_text(&t, "3.txt", "prefix");
    tar_patch(&t, 345, "2/some folder", 13);
    memset(name, 'n', sizeof name);
    memcpy(name, "3/", 2);
    memcpy(name + 90, ".txt", 5);
    tar_member(&t, '7', name, "contiguous, prefix without end", 30);
    memset(t.bytes + t.last + 345, 'p', 155);
    tar_seal(&t, t.last);
    memset(longest, 'l', 4092);
    memcpy(longest, "4/", 2);
    memcpy(longest + 4092, ".txt", 5);
    tar_member(&t, 'K', "././@LongLink", "a link's target", 16);
    tar_long(&t, longest);
    tar_text(&t, "cut", "GNU");
    tar_pax(&t, 'x', "path", "5.txt");
    tar_text(&t, "not/this.cls", "pax");
    tar_pax(&t, 'x', "size", "8");
    tar_text(&t, "6.txt", "pax size");
    memset(t.bytes + t.last + 124, '7', 11);
    tar_seal(&t, t.last);
    tar_text(&t, "7.txt", "b 256");
    tar_patch(&t, 124, base256, 12);
    tar_member(&t, 'X', "x", "14 path=8.txt\n", 14);
    tar_text(&t, "y", "Solaris");
    tar_text(&t, "9\xff\xfe.txt", "signed sum");
    h = t.bytes + t.last;
    for (int i = 0; i < 512; i++)
        sum += i >= 148 && i < 156 ? 0 : (unsigned)(signed char)h[i];
    snprintf((char *)h + 148, 8, "%6o", sum);               /* blanks before it, too */
    tar_pax(&t, 'x', "path", "");
    tar_text(&t, "10.txt", "an empty path is none");
    tar_text(&t, "11.txt", "a size after blanks");
    tar_patch(&t, 124, "         23 ", 12);
    tar_patch(&t, 511, "x", 1);                             /* summed, too */
    tar_end(&t);
    return t;
}

static void check_all_kinds(const bzna_dataset *dataset, const char *longest)
{
    static const char *const texts[] = { "ustar", "v7", "prefix", "contiguous, prefix without end", "GNU", "pax",
                                         "pax size", "b 256", "Solaris", "signed sum", "an empty path is none",
                                         "a size after blanks" };
    REQUIRE(dataset && bzna_dataset_count(dataset) == COUNT(texts));
    for (uint64_t i = 0; i < COUNT(texts); i++) {
        const char *key = value_of(dataset, i, "name");
        CHECK_STR(value_of(dataset, i, "txt"), texts[i]);
        CHECK_EQ(i == 3 ? *key == 'p' : (uint64_t)atoi(key) == i, 1);
    }
    CHECK_STR(value_of(dataset, 2, "name"), "2/some folder/3");
    CHECK_EQ(strlen(value_of(dataset, 3, "name")), 155 + 1 + 90);
    CHECK_EQ(strlen(value_of(dataset, 4, "name")), 4092);
    CHECK(!strncmp(value_of(dataset, 4, "name"), longest, 4092));
    CHECK_STR(value_of(dataset, 9, "name"), "9\xff\xfe");
}

TEST(headers_of_all_kinds_are_read_from_memory_a_source_and_a_path)
{
    const char *path = TEST_BUILD "/tests/kinds.tar";
    char longest[4100];
    counter c;
    bzna_context *context = context_of(&c);
    tar t = tar_of_all_kinds(longest);
    memory_source m;
    bzna_source source = source_of(&m, t.bytes, t.size);
    bzna_dataset *dataset = open_tar(context, &t, NULL);
    m.read_max = 700;
    check_all_kinds(dataset, longest);
    bzna_dataset_close(dataset);
    CHECK_EQ(bzna_dataset_open_source(context, &source, NULL, &dataset, NULL), BZNA_OK);
    check_all_kinds(dataset, longest);
    bzna_dataset_close(dataset);
    spill(path, t.bytes, t.size);
    CHECK_EQ(bzna_dataset_open(context, path, NULL, &dataset, NULL), BZNA_OK);
    check_all_kinds(dataset, longest);
    bzna_dataset_close(dataset);
    remove(path);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
    tar_free(&t);
}

/* The header's field has 100 bytes: with a NUL behind the name, or full; ustar's prefix has 155. */
TEST(names_of_all_lengths_are_read_to_their_end)
{
    for (size_t length = 96; length <= 100; length++)
        for (size_t before = 0; before <= 155; before += before < 153 ? 153 : 1) {
            char name[101], prefix[156], expected[257];
            bzna_context *context = NULL;
            bzna_dataset *dataset;
            tar t = { 0 };
            REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
            memset(name, 'n', sizeof name);
            memset(prefix, 'p', sizeof prefix);
            memcpy(name + length - 4, ".txt", 5);
            prefix[before] = 0;
            tar_text(&t, name, "text");
            tar_patch(&t, 345, prefix, before);
            tar_text(&t, "z.txt", "another");
            tar_end(&t);
            dataset = open_tar(context, &t, NULL);
            REQUIRE(dataset && bzna_dataset_count(dataset) == 2);
            snprintf(expected, sizeof expected, "%s%s%.*s", prefix, before ? "/" : "", (int)length - 4, name);
            CHECK_STR(value_of(dataset, 0, "name"), expected);
            CHECK_STR(value_of(dataset, 0, "txt"), "text");
            CHECK_STR(value_of(dataset, 1, "name"), "z");
            bzna_dataset_close(dataset);
            bzna_context_close(context);
            tar_free(&t);
        }
}

TEST(folders_links_and_devices_are_passed_over)
{
    counter c;
    bzna_context *context = context_of(&c);
    tar t = { 0 };
    bzna_dataset *dataset;
    tar_text(&t, "0.txt", "zero");
    for (char type = '1'; type <= '6'; type++) {            /* their sizes mean nothing */
        tar_member(&t, type, "1.txt", NULL, 0);
        tar_patch(&t, 124, "00000001000", 12);
    }
    tar_member(&t, 0, "old/", NULL, 0);
    tar_member(&t, 'V', "label.txt", "not a file", 10);
    tar_member(&t, 'D', "dump.txt", "not a file", 10);
    tar_text(&t, "0.cls", "5");                             /* still of sample 0 */
    dataset = open_tar(context, &t, NULL);
    REQUIRE(dataset);
    CHECK_EQ(bzna_dataset_count(dataset), 1);
    CHECK_STR(value_of(dataset, 0, "txt"), "zero");
    CHECK_EQ(target_of(dataset, 0), 5);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    tar_free(&t);
}

TEST(an_archive_ends_at_zeros_or_with_the_file)
{
    counter c;
    bzna_context *context = context_of(&c);
    tar t = { 0 };
    tar_text(&t, "0.txt", "zero");
    tar_text(&t, "1.txt", "one");
    for (int i = 0; i < 3; i++) {
        bzna_dataset *dataset;
        if (i == 1)
            tar_raw(&t, NULL, 512);                         /* one block of them is enough, as for other readers */
        if (i == 2)
            tar_raw(&t, "what comes after the end does not matter", 40);
        dataset = open_tar(context, &t, NULL);
        REQUIRE(dataset);
        CHECK_EQ(bzna_dataset_count(dataset), 2);
        CHECK_STR(value_of(dataset, 1, "txt"), "one");
        bzna_dataset_close(dataset);
    }
    bzna_context_close(context);
    tar_free(&t);
}

/* "BZh" begins bzip2's files, too. */
TEST(a_tar_may_begin_with_any_name)
{
    static const char *const names[] = {
        "BZhang/0.txt", "BZh9.txt", "PK.txt", "ftyp.txt", "xxxxftypisom.txt", "xxxxmoov.txt", "PAR1_0001.txt",
        "ARROW1.txt",
        "%PDF-17.txt", "\x1f\x8b\x08.txt", "(\xb5/\xfd.txt", "\xfd" "7zXZ.txt", "\x04\"M\x18.txt", "PK\x03\x04.txt",
        "7z\xbc\xaf\x27\x1c.txt", "Rar!\x1a\x07.txt", "\x89HDF\r\n\x1a\n.txt", "\x93NUMPY.txt", "8BPS.txt",
        "v/1\x01.txt",
        "\xff\x0a.txt", "\x1a\x45\xdf\xa3.txt", "RIFFxxxxAVI .txt", "RIFFxxxxWEBP.txt", "GIF89a.txt", "BM.txt",
        "P6 .txt", "\x89PNG\r\n\x1a\n.txt", "II*.txt", "MM.txt", "\xff\xd8\xff\xe0.txt", "SQLite format 3.txt",
        "<!DOCTYPE html.txt", "<svg.txt", "\n#\xd7\xce.txt", "xxxxftypheic.txt", "xxxxftypavif.txt", "{\"a\".txt",
        "v1 3.txt", "\xff\x4f\xff\x51.txt" };
    counter c;
    bzna_context *context = context_of(&c);
    for (size_t i = 0; i < COUNT(names); i++) {
        tar t = { 0 };
        bzna_dataset *dataset;
        tar_text(&t, names[i], "first");
        dataset = open_tar(context, &t, NULL);
        REQUIRE(dataset);
        CHECK_STR(value_of(dataset, 0, "txt"), "first");
        bzna_dataset_close(dataset);
        tar_free(&t);
    }
    bzna_context_close(context);
}

/* ---- What is refused ---- */

static tar tar_begun(void)
{
    tar t = { 0 };
    tar_text(&t, "0.txt", "zero");
    return t;
}

TEST(damaged_tars_are_refused_at_the_byte_where_they_are_damaged)
{
    tar t = tar_begun();
    tar_text(&t, "1.txt", "one");
    t.bytes[t.last + 3] ^= 1;
    check_refused(&t, BZNA_E_BOX, 1024, "at byte 1024: no tar header: its check sum is wrong");
    t = tar_begun();
    tar_end(&t);
    t.bytes[1024 + 511] = 1;                                /* not quite zeros */
    check_refused(&t, BZNA_E_BOX, 1024, "at byte 1024: no tar header: its check sum is wrong");
    t = tar_begun();
    tar_text(&t, "1.txt", "one");
    t.size -= 700;
    check_refused(&t, BZNA_E_TRUNCATED, 1024, "at byte 1024: the tar ends inside the header");
    t = tar_begun();
    tar_text(&t, "1.txt", "one");
    t.size -= 510;
    check_refused(&t, BZNA_E_TRUNCATED, 1024, "at byte 1024: the member has 3 bytes, which end beyond the tar's end");
    t = tar_begun();
    tar_text(&t, "1.txt", "one");
    tar_patch(&t, 124, "00000000x00", 11);
    check_refused(&t, BZNA_E_BOX, 1024, "size is not a number");
    t = tar_begun();
    tar_text(&t, "1.txt", "one");
    tar_patch(&t, 124, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12);
    check_refused(&t, BZNA_E_BOX, 1024, "size is not a number");
    t = tar_begun();
    tar_text(&t, "1.txt", "one");
    tar_patch(&t, 124, "\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", 12);
    check_refused(&t, BZNA_E_TRUNCATED, 1024, "18446744073709551615 bytes");
    t = tar_begun();
    tar_long(&t, "1.txt");
    check_refused(&t, BZNA_E_TRUNCATED, 2048, "after the description of a member");
}

TEST(pax_records_that_make_no_sense_are_refused)
{
    static const struct { const char *record; bzna_status status; const char *part; } cases[] = {
        { "29 size=18446744073709551616\n", BZNA_E_BOX, "size is not a number of 64 bits" },
        { "28 size=9223372036854775808\n", BZNA_E_TRUNCATED, "9223372036854775808 bytes" },
        { "11 size=-1\n", BZNA_E_BOX, "is not a number of 64 bits" },
        { "11 size=0x\n", BZNA_E_BOX, "is not a number of 64 bits" },
        { "12 path=a.b\n", BZNA_E_TRUNCATED, "ends" },      /* sound: there is no member after it */
        { "99 path=a.b\n", BZNA_E_BOX, "at byte 1536: no pax record" },
        { "11 path=a.b\n", BZNA_E_BOX, "no pax record" },
        { "3 a\n", BZNA_E_BOX, "no pax record" },
        { "7 abcd\n", BZNA_E_BOX, "no pax record" },
        { "7 abcde", BZNA_E_BOX, "no pax record" },
        { "path=a.b\n", BZNA_E_BOX, "no pax record" },
        { "999999999999999999999999 path=a.b\n", BZNA_E_BOX, "no pax record" },
        { "0 \n", BZNA_E_BOX, "no pax record" },
        { "5\n", BZNA_E_BOX, "no pax record" },
        { "12 path=a.b\n4 x", BZNA_E_BOX, "at byte 1548: no pax record" },
        { "22 GNU.sparse.major=1\n", BZNA_E_UNSUPPORTED, "sparse" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        tar t = tar_begun();
        uint64_t at;
        tar_pax(&t, 'x', cases[i].record, NULL);
        if (cases[i].status != BZNA_E_TRUNCATED || i == 1)
            tar_text(&t, "1.txt", "one");
        at = cases[i].status == BZNA_E_TRUNCATED ? 2048 : i == 14 ? 1548 : i == 15 ? 1024 : 1536;
        check_refused(&t, cases[i].status, at, cases[i].part);
    }
}

TEST(what_is_not_read_is_refused_clearly)
{
    tar t = tar_begun();
    tar_member(&t, 'S', "1.txt", "one", 3);
    check_refused(&t, BZNA_E_UNSUPPORTED, 1024, "at byte 1024: the member is a sparse file");
}

static void check_setting(const tar *t, const bzna_dataset_config *config, const char *setting)
{
    counter c;
    bzna_context *context = context_of(&c);
    bzna_dataset *dataset = NULL;
    bzna_error err = fresh_error();
    CHECK_EQ(bzna_dataset_open_memory(context, t->bytes, t->size, config, &dataset, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, setting);
    CHECK_CONTAINS(err.message, "which is of kind tar");
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
}

TEST(settings_without_an_effect_on_a_tar_are_refused_by_name)
{
    static const char *const classes[] = { "a" };
    bzna_dataset_config config;
    tar t = { 0 };
    tar_text(&t, "0.txt", "a");
    bzna_dataset_config_init(&config, sizeof config);
    config.classes = classes;
    config.class_count = 1;
    check_setting(&t, &config, "dataset_config.classes: it has no effect on this data set, which is of kind tar");
    config.classes = NULL;
    config.class_count = 0;
    config.class_order = BZNA_CLASS_ORDER_NUMERIC;
    check_setting(&t, &config, "dataset_config.class_order: it has no effect on this data set");
    config.class_order = BZNA_CLASS_ORDER_TEXT;
    config.split = "train";
    check_setting(&t, &config, "dataset_config.split: it has no effect on this data set");
    tar_free(&t);
}

TEST(compressed_tars_are_refused_with_a_hint)
{
    static const struct { const char *head, *part; } cases[] = {
        { "\x1f\x8b\x08", "it is compressed by gzip: decompress it (gunzip)" },
        { "(\xb5/\xfd", "it is compressed by zstd: decompress it (unzstd)" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        tar t = { 0 };
        tar_raw(&t, cases[i].head, strlen(cases[i].head));
        tar_raw(&t, NULL, 1000);
        check_refused(&t, BZNA_E_UNSUPPORTED, BZNA_NO_OFFSET, cases[i].part);
    }
}

TEST(long_names_and_headers_without_end_meet_limits)
{
    char name[4100];
    tar t = tar_begun();
    memset(name, 'x', sizeof name);
    memcpy(name + 4093, ".txt", 5);
    tar_long(&t, name);
    tar_text(&t, "1.txt", "one");
    check_refused(&t, BZNA_E_LIMIT, 1536, "at byte 1536: the name has more than 4096 bytes");
    t = tar_begun();
    for (int i = 0; i < 17; i++)
        tar_member(&t, i % 2 ? 'L' : 'K', "././@LongLink", "deeper", 7);
    tar_text(&t, "1.txt", "one");
    check_refused(&t, BZNA_E_LIMIT, 1024 + 17 * 1024, "more than 16 headers in a row");
    t = tar_begun();
    tar_member(&t, 'x', "x", NULL, (1 << 20) + 1);
    check_refused(&t, BZNA_E_LIMIT, 1024, "1048577 bytes of names and records, more than 1048576");
}

TEST(fields_have_limits)
{
    counter c;
    bzna_context *context = context_of(&c);
    tar t = { 0 };
    for (int i = 0; i < 65; i++) {
        char name[32];
        snprintf(name, sizeof name, "0.f%d", i);
        if (i == 64) {
            bzna_dataset *dataset = open_tar(context, &t, NULL);
            bzna_dataset_info info = { .field_count = 0 };
            bzna_field_info field = { .kind = 0 };
            bzna_dataset_get_info(dataset, &info, sizeof info, NULL);
            bzna_dataset_field_info(dataset, 64, &field, sizeof field, NULL);
            CHECK_EQ(info.field_count, 65);                 /* and the key */
            CHECK_STR(field.name, "name");
            bzna_dataset_close(dataset);
        }
        tar_text(&t, name, "");
    }
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
    check_refused(&t, BZNA_E_LIMIT, 64 * 512, "at byte 32768: the member has the field \"f64\"");
}

/* ---- Limits and costs ---- */

static char logged[4096];

static void keep_log(void *user, int32_t level, bzna_status code, const char *message)
{
    size_t length = strlen(logged);
    (void)user;
    (void)code;
    snprintf(logged + length, sizeof logged - length, "%d %s\n", (int)level, message);
}

static bzna_context *context_that_logs(uint64_t max_sample_bytes)
{
    bzna_context_config config;
    bzna_context *context = NULL;
    bzna_context_config_init(&config, sizeof config);
    config.log = keep_log;
    config.log_level = BZNA_LOG_INFO;
    config.max_sample_bytes = max_sample_bytes;
    bzna_context_open(&config, &context, NULL);
    logged[0] = 0;
    return context;
}

TEST(members_with_too_long_a_field_are_left_out)
{
    bzna_context *context = context_that_logs(0);
    tar t = { 0 };
    bzna_dataset *dataset;
    tar_text(&t, "0.txt", "zero");
    tar_text(&t, "0.a234567890123456789012345678901", "31");
    tar_text(&t, "0.b2345678901234567890123456789012", "32");
    tar_text(&t, "1.b2345678901234567890123456789012", "32");
    tar_text(&t, "0.cls", "0");
    dataset = open_tar(context, &t, NULL);
    REQUIRE(dataset);
    CHECK_EQ(bzna_dataset_count(dataset), 1);
    CHECK_STR(value_of(dataset, 0, "a234567890123456789012345678901"), "31");
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    tar_free(&t);
}

TEST(a_sample_whose_members_lie_far_apart_fails_alone)
{
    bzna_context *context = context_that_logs(4096);
    bzna_error err = fresh_error();
    bzna_sample_ref sample = { .struct_size = sizeof sample };
    tar t = { 0 };
    bzna_dataset *dataset;
    tar_text(&t, "0.txt", "zero");
    tar_file(&t, "README", NULL, 10000);
    tar_text(&t, "0.bin", "0");
    tar_text(&t, "1.bin", "one");
    dataset = open_tar(context, &t, NULL);
    REQUIRE(dataset);
    CHECK_EQ(bzna_dataset_sample(dataset, 0, &sample, sizeof sample, &err), BZNA_E_LIMIT);
    CHECK_CONTAINS(err.message,
                   "memory: sample 0 at byte 0: its 12289 bytes are more than context_config.max_sample_bytes, 4096");
    CHECK_STR(value_of(dataset, 1, "bin"), "one");
    CHECK_STR(value_of(dataset, 0, "name"), "0");
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    tar_free(&t);
}

TEST(a_tar_without_samples_says_so)
{
    tar t = { 0 };
    for (int i = 0; i < 10000; i++)
        tar_text(&t, i % 2 ? "no_field" : ".hidden", "");
    check_refused(&t, BZNA_E_NO_SAMPLES, BZNA_NO_OFFSET, "no files that are named KEY.FIELD");
}

/* Writers of shards leave such ones: tar, Python's tarfile and webdataset's ShardWriter write 10,240 zeros. */
TEST(an_empty_tar_has_no_samples)
{
    static const size_t sizes[] = { 512, 513, 700, 1024, 1025, 10240, 1 << 20 };
    tar t = { 0 };
    for (size_t i = 0; i < COUNT(sizes); i++) {
        t = (tar){ 0 };
        tar_raw(&t, NULL, sizes[i]);
        check_refused(&t, BZNA_E_NO_SAMPLES, BZNA_NO_OFFSET, "the tar is empty");
    }
    tar_member(&t, '5', "folder/", NULL, 0);
    tar_end(&t);
    check_refused(&t, BZNA_E_NO_SAMPLES, BZNA_NO_OFFSET, "the tar is empty");
    tar_pax(&t, 'g', "comment", "of all members");
    tar_end(&t);
    check_refused(&t, BZNA_E_NO_SAMPLES, BZNA_NO_OFFSET, "the tar is empty");

    for (size_t size = 1; size < 512; size += 510) {        /* too short for a block, as for other readers */
        tar_raw(&t, NULL, size);
        check_refused(&t, BZNA_E_FORMAT, BZNA_NO_OFFSET, "of no known kind");
    }
    tar_raw(&t, NULL, 512);                                 /* the first block decides, as for other readers */
    tar_raw(&t, "x", 1);
    check_refused(&t, BZNA_E_NO_SAMPLES, BZNA_NO_OFFSET, "the tar is empty");
    tar_raw(&t, NULL, (1 << 20) + 512);                     /* what a disk leaves of a file that was not written */
    check_refused(&t, BZNA_E_FORMAT, BZNA_NO_OFFSET, "of no known kind");
}

TEST(an_empty_tar_adds_nothing_to_other_shards)
{
    static const char *const orders[] = { "%s/e.tar::%s/a.tar::%s/b.tar", "%s/a.tar::%s/e.tar::%s/b.tar",
                                          "%s/a.tar::%s/b.tar::%s/e.tar", "%s/e.tar::%s/{a,b}.tar::%s/e.tar" };
    static const char *const members[][2] = { { "0.txt", "zero" }, { "0.id", "7" }, { "1.txt", "one" },
                                              { "2.txt", "two" }, { "3.txt", "three" }, { "3.id", "8" } };
    static const char *const texts[] = { "zero", "one", "two", "three" };
    static const char folder[] = TEST_BUILD "/tests/empty_shards";
    char path[512];
    counter c;
    bzna_context *context = context_of(&c);
    bzna_dataset *dataset = NULL, *plain = NULL;
    bzna_dataset_config config = { .struct_size = sizeof config, .target = "id" };
    const bzna_formats_config formats = { .struct_size = sizeof formats, .dataset = &config };
    bzna_dataset_info info = { .struct_size = sizeof info };
    bzna_error err = fresh_error();
    tar shards[3] = { { 0 } };
    mkdir(folder, 0755);
    for (int i = 0; i < 3; i++) {
        tar_text(&shards[0], members[i][0], members[i][1]);
        tar_text(&shards[1], members[3 + i][0], members[3 + i][1]);
    }
    tar_raw(&shards[2], NULL, 10240);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%c.tar", folder, "abe"[i]);
        spill(path, shards[i].bytes, shards[i].size);
    }
    snprintf(path, sizeof path, "%s/a.tar::%s/b.tar", folder, folder);
    REQUIRE(bzna_formats_open(context, path, &formats, &plain, &err) == BZNA_OK);
    for (size_t i = 0; i <= COUNT(orders); i++) {
        snprintf(path, sizeof path, i < COUNT(orders) ? orders[i] : "%s/*.tar", folder, folder, folder);
        CHECK_EQ(bzna_formats_open(context, path, &formats, &dataset, &err), BZNA_OK);
        REQUIRE(dataset && bzna_dataset_count(dataset) == 4);
        for (uint64_t k = 0; k < 4; k++)
            CHECK_STR(value_of(dataset, k, "txt"), texts[k]);
        CHECK(target_of(dataset, 0) == 7 && target_of(dataset, 1) == -1 && target_of(dataset, 3) == 8);
        CHECK_EQ(bzna_dataset_get_info(dataset, &info, sizeof info, &err), BZNA_OK);
        CHECK(info.part_count == 2 && info.field_count == 3 && !strcmp(info.container, "tar"));
        CHECK_EQ(bzi_dataset_fingerprint(dataset), bzi_dataset_fingerprint(plain));
        bzna_dataset_close(dataset);
    }
    snprintf(path, sizeof path, "%s/e.tar::%s/e.tar", folder, folder);
    CHECK_EQ(bzna_formats_open(context, path, NULL, &dataset, &err), BZNA_E_NO_SAMPLES);
    CHECK_CONTAINS(err.message, "all of the 2 files are empty");
    snprintf(path, sizeof path, "%s/e.tar", folder);
    CHECK_EQ(bzna_dataset_open(context, path, &config, &dataset, &err), BZNA_E_NO_SAMPLES);
    CHECK_CONTAINS(err.message, "/e.tar: the tar is empty");
    bzna_dataset_close(plain);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
    for (int i = 0; i < 3; i++)
        tar_free(&shards[i]);
}

/* ImageNet's ILSVRC2012_img_train.tar: a tar a class. Tars beside other fields are bytes like any. */
TEST(a_tar_of_tars_says_so)
{
    tar t = { 0 };
    tar_text(&t, "n01440764.tar", "x");
    tar_text(&t, "n01443537.tar", "x");
    check_refused(&t, BZNA_E_FORMAT, BZNA_NO_OFFSET, "its 2 files are archives themselves (KEY.tar): ");
    t = (tar){ 0 };
    tar_text(&t, "n01440764.tar.gz", "x");
    check_refused(&t, BZNA_E_FORMAT, BZNA_NO_OFFSET, "its 1 files are archives themselves (KEY.tar.gz)");
    counter c;
    bzna_context *context = context_of(&c);
    bzna_dataset *dataset = NULL;
    t = (tar){ 0 };
    tar_text(&t, "1.tar", "x");
    tar_text(&t, "1.cls", "3");
    CHECK_EQ(bzna_dataset_open_memory(context, t.bytes, t.size, NULL, &dataset, NULL), BZNA_OK);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    tar_free(&t);
    CHECK_ALL_FREED(c);
}

/* count samples of a .bin with size bytes and a .cls. */
static tar tar_of(int count, size_t size)
{
    tar t = { 0 };
    for (int i = 0; i < count; i++) {
        char name[32], text[16];
        snprintf(name, sizeof name, "d/%06d.bin", i);
        tar_file(&t, name, NULL, size);
        snprintf(name, sizeof name, "d/%06d.cls", i);
        snprintf(text, sizeof text, "%d", i);
        tar_text(&t, name, text);
    }
    tar_end(&t);
    return t;
}

typedef struct reads { tar t; uint64_t count, bytes; } reads;

static int64_t reads_read_at(void *user, uint64_t offset, void *dst, uint64_t size)
{
    reads *r = user;
    size = offset < r->t.size ? bzi_min(size, r->t.size - offset) : 0;
    memcpy(dst, r->t.bytes + offset, (size_t)size);
    r->count++;
    r->bytes += size;
    return (int64_t)size;
}

static int64_t reads_size(void *user) { return (int64_t)((const reads *)user)->t.size; }

TEST(opening_reads_headers_and_not_what_lies_between)
{
    static const struct { int count; size_t size; double bytes, reads; } cases[] = {
        { 1000, 100000, 0.05, 1.01 },     /* a read a sample, of a page */
        { 5000, 600, 1.0001, 0.1 },       /* close together: all of it, in blocks */
    };
    counter c;
    bzna_context *context = context_of(&c);
    for (size_t i = 0; i < COUNT(cases); i++) {
        reads r = { tar_of(cases[i].count, cases[i].size), 0, 0 };
        bzna_source source = { sizeof source, 0, &r, reads_read_at, reads_size, NULL, NULL };
        bzna_dataset *dataset = NULL;
        CHECK_EQ(bzna_dataset_open_source(context, &source, NULL, &dataset, NULL), BZNA_OK);
        CHECK_EQ(bzna_dataset_count(dataset), cases[i].count);
        CHECK((double)r.bytes <= cases[i].bytes * (double)r.t.size + 2048);
        CHECK((double)r.count <= cases[i].reads * cases[i].count + 16);
        CHECK_EQ(target_of(dataset, 17), 17);
        r.count = 0;
        CHECK_EQ(atoi(value_of(dataset, 700, "name") + 2), 700);
        CHECK_EQ(r.count, 1);                               /* of a key, its header alone */
        r.t.size = 100;
        CHECK_STR(value_of(dataset, 700, "name"), "BZNA_E_TRUNCATED");
        bzna_dataset_close(dataset);
        tar_free(&r.t);
    }
    bzna_context_close(context);
}

TEST(an_open_tar_keeps_36_bytes_for_a_sample_of_two_members)
{
    counter c;
    bzna_context *context = context_of(&c);
    long long before = c.bytes, one, many;
    tar t = tar_of(1, 1), u = tar_of(20001, 1);
    bzna_dataset *dataset = open_tar(context, &t, NULL);
    one = c.bytes - before;
    bzna_dataset_close(dataset);
    dataset = open_tar(context, &u, NULL);
    many = c.bytes - before;
    CHECK(one < 1000); /* fields that it does not have take no memory */
    CHECK_EQ(many - one, 20000 * 36);
    CHECK_STR(value_of(dataset, 20000, "name"), "d/020000");
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    tar_free(&t);
    tar_free(&u);
}

/* With a pax header, as webdataset's writer and Python's tarfile have it for the time; and with too long a one. */
TEST(the_key_of_a_sample_that_was_read_costs_neither_reads_nor_allocations)
{
    enum { SHORT = 2, LONG = 4000 };
    char text[LONG + 1];
    counter c;
    bzna_context *context = context_of(&c);
    memory_source m;
    tar t = { 0 };
    memset(text, '1', LONG);
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "d/%d.txt", i);
        text[i < 2 ? SHORT : LONG] = 0;
        tar_pax(&t, 'x', "mtime", text);
        text[SHORT] = '1';
        tar_text(&t, name, "hello");
    }
    bzna_source source = source_of(&m, t.bytes, t.size);
    bzna_dataset *dataset = NULL;
    REQUIRE(bzna_dataset_open_source(context, &source, NULL, &dataset, NULL) == BZNA_OK);
    for (uint32_t i = 0; i < 3; i++) {
        const bzi_container *tars = dataset->parts[0].container;
        uint8_t bytes[8192], key[16] = { 0 };
        bzi_value value = { key, sizeof key, 0, 0 };
        bzi_reading reading;
        bzna_error err;
        CHECK_EQ(bzi_reading_begin(&reading, tars, i, &err), BZNA_OK);
        REQUIRE(reading.sample.extent.size <= sizeof bytes);
        CHECK_EQ(bzi_reading_get(&reading, bytes, sizeof bytes, &err), BZNA_OK);
        long long calls = c.calls;
        CHECK_EQ(tars->ops->field(tars, &reading.sample, 1, &value, &err), BZNA_OK);
        CHECK(value.size == 3 && key[2] == '0' + i);
        CHECK_EQ(c.calls == calls, i < 2);
        bzi_reading_end(&reading);
    }
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
    tar_free(&t);
}

/* Beside its index: 20,000 shards are one data set. */
TEST(an_open_tar_keeps_less_than_2_kB)
{
    counter c;
    bzna_context *context = context_of(&c);
    long long before = c.bytes;
    tar t = tar_of(1, 1);
    bzna_dataset *dataset = open_tar(context, &t, NULL);
    CHECK(dataset && c.bytes - before < 1200);              /* and the path, and what knows the open file */
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
    tar_free(&t);
}

TEST(every_allocation_may_fail)
{
    char longest[4100];
    tar t = tar_of_all_kinds(longest);
    bzna_status status = BZNA_E_MEMORY;
    for (long long n = 1; n < 100 && status == BZNA_E_MEMORY; n++) {
        counter c;
        bzna_context *context = context_of(&c);
        memory_source m;
        bzna_source source = source_of(&m, t.bytes, t.size);
        bzna_dataset *dataset = NULL;
        c.fail_at = c.calls + n;
        status = bzna_dataset_open_source(context, &source, NULL, &dataset, NULL);
        CHECK(status == (c.calls < c.fail_at ? BZNA_OK : BZNA_E_MEMORY));
        bzna_dataset_close(dataset);
        bzna_context_close(context);
        CHECK_ALL_FREED(c);
    }
    CHECK_EQ(status, BZNA_OK);
    tar_free(&t);
}

TEST(tars_are_told_apart)
{
    counter c;
    bzna_context *context = context_of(&c);
    tar t = tar_of(300, 10);
    const size_t sizes[] = { 0, 1024 * 20 + 124 + 10, 1024 * 599 + 124 + 10 };   /* of a first and a last member */
    uint64_t prints[3];
    for (size_t i = 0; i < 3; i++) {
        bzna_dataset *dataset;
        if (i) {
            t.bytes[sizes[i]]++;                            /* as many blocks as before */
            tar_seal(&t, sizes[i] / 512 * 512);
        }
        dataset = open_tar(context, &t, NULL);
        REQUIRE(dataset);
        prints[i] = bzi_dataset_fingerprint(dataset);
        bzna_dataset_close(dataset);
        dataset = open_tar(context, &t, NULL);
        CHECK_EQ(bzi_dataset_fingerprint(dataset), prints[i]);
        bzna_dataset_close(dataset);
    }
    CHECK(prints[1] == prints[0]);                          /* within a sample, which is where it was */
    CHECK(prints[2] != prints[1]);
    bzna_context_close(context);
    tar_free(&t);
}

/* ---- An index beside the tar ---- */

#define SHARD TEST_BUILD "/tests/shard"

/* Writes both files; the index is so much younger than the tar. */
static void write_shard(const tar *t, const char *index, int seconds)
{
    struct timespec times[2] = { { 1000000000, 0 }, { 1000000000, 0 } };
    spill(SHARD ".tar", t->bytes, t->size);
    utimensat(AT_FDCWD, SHARD ".tar", times, 0);
    remove(SHARD ".idx");
    if (!index)
        return;
    spill(SHARD ".idx", index, strlen(index));
    times[1].tv_sec += seconds;
    utimensat(AT_FDCWD, SHARD ".idx", times, 0);
}

static const bzi_tar *tar_in(const bzna_dataset *dataset) { return dataset->parts[0].container->own; }

TEST(an_index_gives_what_the_headers_give)
{
    counter c;
    bzna_context *context = context_of(&c);
    tar t = { 0 };
    bzna_dataset *d[2] = { NULL };
    tar_text(&t, "README", "a file of no sample");
    tar_text(&t, "d/0.JPG", "123");
    tar_text(&t, "d/0.cls", "7");
    tar_member(&t, '5', "e/", NULL, 0);
    tar_pax(&t, 'x', "path", "e/1.seg.png");
    tar_text(&t, "cut", "4567");
    tar_text(&t, "e/1.txt", "one");
    tar_text(&t, "e/1.none", "");
    tar_end(&t);
    write_shard(&t, NULL, 0);
    CHECK_EQ(bzna_dataset_open(context, SHARD ".tar", NULL, &d[0], NULL), BZNA_OK);
    write_shard(&t,
                "v1.2 2\nJPG 1536 3 d/0.JPG cls 2560 1 d/0.cls\nseg.png 5120 4 e/1.seg.png txt 6144 3 e/1.txt "
                "none 7168 0 e/1.none",                     /* the last line may lack its end */
                0);
    CHECK_EQ(bzna_dataset_open(context, SHARD ".tar", NULL, &d[1], NULL), BZNA_OK);
    REQUIRE(d[0] && d[1]);
    CHECK(!tar_in(d[0])->from_index && tar_in(d[1])->from_index);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(bzna_dataset_count(d[i]), 2);
        CHECK_EQ(target_of(d[i], 0), 7);
        CHECK_EQ(target_of(d[i], 1), BZNA_TARGET_NONE);
        CHECK_STR(value_of(d[i], 1, "txt"), "one");
        CHECK_STR(value_of(d[i], 0, "name"), "d/0");
        CHECK_STR(value_of(d[i], 1, "name"), "e/1");
    }
    CHECK_EQ(bzi_dataset_fingerprint(d[0]), bzi_dataset_fingerprint(d[1]));
    CHECK_EQ(tar_in(d[0])->begins[2], tar_in(d[1])->begins[2]);
    CHECK(!memcmp(tar_in(d[0])->members, tar_in(d[1])->members, 5 * sizeof(bzi_tar_member)));
    CHECK_EQ(d[0]->parts[0].container->field_count, d[1]->parts[0].container->field_count);
    CHECK(!memcmp(d[0]->parts[0].container->fields, d[1]->parts[0].container->fields,
                  d[0]->parts[0].container->field_count * sizeof(bzi_field)));
    bzna_dataset_close(d[0]);
    bzna_dataset_close(d[1]);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
    tar_free(&t);
}

#define NO_MEMBER ": not the field, offset, size and name of a member that can be there)"

TEST(a_stale_index_is_refused_with_a_hint)
{
    static const struct { const char *text; int seconds; const char *part; } cases[] = {
        { "v1.2 2\nbin 512 9 d/000000.bin cls 1536 1 d/000000.cls\nbin 2560 9 d/000001.bin cls 3584 2 d/000001.cls\n",
          1, "sample 2: the tar has something else there)" },
        { "v1.2 2\nbin 512 9 d/000000.bin cls 1536 1 d/000000.cls\nbin 3072 9 d/000001.bin\n",
          1, "(sample 2: the tar has something else there)" },
        { "v1.2 2\nbin 512 9 d/000000.bin cls 1536 1 d/000000.cls\nbin 2561 9 d/000001.bin\n",
          1, "(sample 1: not the field, offset, size and name of a member that can be there)" },
        { "v1.2 1\nbin 512 9 d/000000.bin cls 512 9 d/000000.cls\n", 1, NO_MEMBER },
        { "v1.2 1\nbin 0 9 d/000000.bin\n", 1, NO_MEMBER },
        { "v1.2 1\nbin 51200 9 d/000000.bin\n", 1, NO_MEMBER },
        { "v1.2 1\nbin 3584 1600 d/000000.bin\n", 1, NO_MEMBER },
        { "v1.2 1\nbin 512 999999999999999999 d/000000.bin\n", 1, NO_MEMBER },
        { "v1.2 1\nbin 512 -9 d/000000.bin\n", 1, NO_MEMBER },
        { "v1.2 1\nbin 512 9 d/000000.bin cls\n", 1, NO_MEMBER },
        { "v1.2 2\nbin 512 9 d/000000.bin\n", 1, ": it is not text, or has more or fewer samples than it says)" },
        { "v1.2 99999999999\nbin 512 9 d/000000.bin\n", 1, ", or has more or fewer samples than it says)" },
        { "v1.2 1\nbin 512 9 d/000000.bin \1\n", 1, "(sample 1: it is not text, or" },
    };
    counter c;
    bzna_context *context = context_of(&c);
    tar t = tar_of(2, 9);
    for (size_t i = 0; i < COUNT(cases); i++) {
        bzna_error err = fresh_error();
        bzna_dataset *dataset = NULL;
        write_shard(&t, cases[i].text, cases[i].seconds);
        CHECK_EQ(bzna_dataset_open(context, SHARD ".tar", NULL, &dataset, &err), BZNA_E_BOX);
        CHECK_CONTAINS(err.message, "/shard.tar: the .idx file next to it does not fit it (sample ");
        CHECK_CONTAINS(err.message, cases[i].part);
        CHECK_CONTAINS(err.message, "): leave that out, or write it again (bzna index)");
        bzna_dataset_close(dataset);
    }
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
    tar_free(&t);
}

/* As those of copied files often are; or the tar grew since. */
TEST(an_index_older_than_its_tar_is_not_used)
{
    counter c;
    bzna_context *context = context_of(&c);
    bzna_dataset *dataset = NULL;
    tar t = tar_of(2, 9);
    write_shard(&t, "v1.2 1\nbin 512 9 d/000000.bin cls 1536 1 d/000000.cls\n", -1);
    CHECK_EQ(bzna_dataset_open(context, SHARD ".tar", NULL, &dataset, NULL), BZNA_OK);
    REQUIRE(dataset);
    CHECK_EQ(bzna_dataset_count(dataset), 2);
    CHECK_STR(value_of(dataset, 1, "name"), "d/000001");
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
    tar_free(&t);
}

TEST(an_index_of_another_version_is_ignored_and_logged)
{
    static const char *const texts[] = { "v1.1 1\nbin 512 9\n", "0\t0\n1\t512\n", "", "v1.2\n", "v1.2 x\n",
                                         "v1.2 -1\n", "v1.20 1\n", "v1.3 1\n" };
    bzna_context *context = context_that_logs(0);
    tar t = tar_of(2, 9);
    for (size_t i = 0; i < COUNT(texts); i++) {
        bzna_dataset *dataset = NULL;
        logged[0] = 0;
        write_shard(&t, texts[i], 1);
        CHECK_EQ(bzna_dataset_open(context, SHARD ".tar", NULL, &dataset, NULL), BZNA_OK);
        REQUIRE(dataset);
        CHECK(!tar_in(dataset)->from_index);
        if (texts[i][0])
            CHECK_CONTAINS(logged, "2 " SHARD ".tar: the .idx file beside it is ignored");      /* a warning */
        bzna_dataset_close(dataset);
    }
    bzna_context_close(context);
    tar_free(&t);
}

/* What no sample that was compared shows, shows when it is used. */
TEST(what_an_index_says_of_a_member_is_checked_when_it_is_used)
{
    counter c;
    bzna_context *context = context_of(&c);
    bzna_error err = fresh_error();
    tar t = tar_of(20, 9);
    char *text = calloc(1, 4096);
    size_t length = (size_t)sprintf(text, "v1.2 20\n");
    bzna_dataset *dataset = NULL;
    int64_t target;
    for (int i = 0; i < 20; i++)                            /* of sample 4, the size is wrong */
        length += (size_t)sprintf(text + length, "bin %d 9 d/%06d.bin cls %d %d d/%06d.cls\n", 512 + 2048 * i, i,
                                  1536 + 2048 * i, i == 4 ? 3 : i < 10 ? 1 : 2, i);
    write_shard(&t, text, 1);
    CHECK_EQ(bzna_dataset_open(context, SHARD ".tar", NULL, &dataset, &err), BZNA_OK);
    REQUIRE(dataset);
    CHECK_EQ(bzna_dataset_target(dataset, 4, &target, &err), BZNA_E_BOX);
    CHECK_CONTAINS(err.message, "sample 4 at byte 9216: the header does not match the .idx file: remove that");
    CHECK_EQ(target_of(dataset, 3), 3);
    CHECK_EQ(target_of(dataset, 19), 19);
    bzna_dataset_close(dataset);
    text[length - 15] = '3';                                /* of the size of the last one */
    write_shard(&t, text, 1);
    CHECK_EQ(bzna_dataset_open(context, SHARD ".tar", NULL, &dataset, &err), BZNA_E_BOX);
    CHECK_CONTAINS(err.message, "(sample 20: the tar has something else there)");
    bzna_context_close(context);
    tar_free(&t);
    free(text);
}

/* Of the same size in the same place: the header's type tells. */
TEST(a_member_that_became_something_else_since_its_index_fails_its_sample)
{
    static const struct { char type; bzna_status status; } cases[] = {
        { '0', BZNA_OK }, { 0, BZNA_OK }, { '7', BZNA_OK }, { '1', BZNA_E_BOX }, { '2', BZNA_E_BOX },
        { '5', BZNA_E_BOX }, { 'L', BZNA_E_BOX }, { 'x', BZNA_E_BOX }, { 'S', BZNA_E_BOX } };
    char text[4096];
    size_t length = (size_t)sprintf(text, "v1.2 20\n");
    for (int i = 0; i < 20; i++)
        length += (size_t)sprintf(text + length, "bin %d 9 d/%06d.bin cls %d %d d/%06d.cls\n", 512 + 2048 * i, i,
                                  1536 + 2048 * i, i < 10 ? 1 : 2, i);
    for (size_t i = 0; i < COUNT(cases); i++) {
        counter c;
        bzna_context *context = context_of(&c);
        bzna_error err = fresh_error();
        bzna_dataset *dataset = NULL;
        tar t = tar_of(20, 9);
        int64_t target = -1;
        t.bytes[4 * 2048 + 1024 + 156] = (uint8_t)cases[i].type;        /* of sample 4's cls */
        tar_seal(&t, 4 * 2048 + 1024);
        write_shard(&t, text, 1);
        CHECK_EQ(bzna_dataset_open(context, SHARD ".tar", NULL, &dataset, &err), BZNA_OK);
        REQUIRE(dataset && tar_in(dataset)->from_index);
        CHECK_EQ(bzna_dataset_target(dataset, 4, &target, &err), cases[i].status);
        if (cases[i].status == BZNA_OK)
            CHECK_EQ(target, 4);
        else
            CHECK_CONTAINS(err.message, "sample 4 at byte 9216: the header does not match the .idx file");
        CHECK_EQ(target_of(dataset, 5), 5);
        bzna_dataset_close(dataset);
        bzna_context_close(context);
        CHECK_ALL_FREED(c);
        tar_free(&t);
    }
}

/* Reading all that it gives must be safe; what is wrong is found at open or later. */
TEST(no_index_does_harm)
{
    static const char text[] = "v1.2 2\nbin 512 9 d/000000.bin cls 1536 1 d/000000.cls\n"
                               "bin 2560 9 d/000001.bin cls 3584 1 d/000001.cls\n";
    static const char others[] = " \n0123456789-d/.\xff\1v";
    counter c;
    bzna_context *context = context_of(&c);
    tar t = tar_of(2, 9);
    int taken = 0;
    for (uint64_t n = 0; n < 3000; n++) {
        char changed[sizeof text];
        bzna_dataset *dataset = NULL;
        bzna_random random;
        bzna_random_init(&random, n, 0, 0, 0);
        memcpy(changed, text, sizeof text);
        for (uint64_t k = n % 3 + 1; k-- > 0;)
            changed[bzna_random_u32(&random) % (sizeof text - 1)] =
                others[bzna_random_u32(&random) % (sizeof others - 1)];
        write_shard(&t, changed, 1);
        if (bzna_dataset_open(context, SHARD ".tar", NULL, &dataset, NULL) != BZNA_OK)
            continue;
        taken++;
        for (uint64_t i = 0; i < bzna_dataset_count(dataset); i++) {
            CHECK(strlen(value_of(dataset, i, "name")) < 20);
            CHECK(strlen(value_of(dataset, i, "bin")) < 20);
            target_of(dataset, i);
        }
        bzna_dataset_close(dataset);
    }
    CHECK(taken > 100);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
    tar_free(&t);
}

/* The index of tar_of(count, size). */
static char *index_of(int count, size_t size)
{
    char *text = malloc((size_t)count * 80 + 32), *to = text;
    if (!text)
        abort();
    to += sprintf(to, "v1.2 %d\n", count);
    for (int i = 0; i < count; i++) {
        const size_t each = 512 + (size + 511) / 512 * 512 + 1024, at = (size_t)i * each;
        to += sprintf(to, "bin %zu %zu d/%06d.bin cls %zu %d d/%06d.cls\n", at + 512, size, i, at + each - 512,
                      snprintf(NULL, 0, "%d", i), i);
    }
    return text;
}

/* GNU tar, tarfile and webdataset complain, too: the file was cut, and what followed may be missing. */
TEST(a_tar_that_ends_in_padding_is_truncated)
{
    static const size_t cuts[] = { 1, 100, 510, 511 };      /* 511: the last byte is the member's */
    for (size_t i = 0; i < COUNT(cuts); i++) {
        char *text = index_of(2, 4);
        bzna_dataset_config config = { .struct_size = sizeof config, .index = text, .index_bytes = strlen(text) };
        tar t = tar_of(2, 4);
        counter c;
        bzna_context *context = context_of(&c);
        bzna_dataset *dataset = NULL;
        bzna_error err = fresh_error();
        t.size = 4 * 1024 - cuts[i];
        CHECK_EQ(bzna_dataset_open_memory(context, t.bytes, t.size, &config, &dataset, &err), BZNA_E_TRUNCATED);
        CHECK_CONTAINS(err.message, "inside the padding of its last member");
        bzna_context_close(context);
        CHECK_ALL_FREED(c);
        free(text);
        check_refused(&t, BZNA_E_TRUNCATED, 4 * 1024 - cuts[i], "inside the padding of its last member");
    }
}

/* A source has no file beside it. */
TEST(an_index_that_the_caller_gives_spares_the_walk)
{
    counter c;
    bzna_context *context = context_of(&c);
    tar t = tar_of(500, 20000);
    char *text = index_of(500, 20000);
    bzna_dataset_config config = { .struct_size = sizeof config, .index = text, .index_bytes = strlen(text) };
    long long taken[2];
    bzna_dataset *d[2] = { NULL };
    memory_source m[2];
    for (int i = 0; i < 2; i++) {
        bzna_source source = source_of(&m[i], t.bytes, t.size);
        CHECK_EQ(bzna_dataset_open_source(context, &source, i ? &config : NULL, &d[i], NULL), BZNA_OK);
        taken[i] = m[i].reads;
    }
    memset(text, 'x', strlen(text));                        /* it was the caller's until then */
    REQUIRE(d[0] && d[1]);
    CHECK(taken[0] > 490);
    CHECK(taken[1] < 40);
    CHECK(!tar_in(d[0])->from_index && tar_in(d[1])->from_index);
    CHECK_EQ(bzi_dataset_fingerprint(d[0]), bzi_dataset_fingerprint(d[1]));
    CHECK_EQ(target_of(d[1], 333), 333);
    CHECK_STR(value_of(d[1], 499, "name"), "d/000499");
    bzna_dataset_close(d[0]);
    bzna_dataset_close(d[1]);
    free(text);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
    tar_free(&t);
}

TEST(an_index_that_the_caller_gives_is_preferred_to_the_file_beside_it_and_checked)
{
    static const char stale[] = "v1.2 2\nbin 512 9 d/000000.bin cls 1536 1 d/000000.cls\nbin 3072 9 d/000001.bin\n";
    static const char *const no_index[] = { "v1.1 1\nbin 512 9\n", "0\t0\n1\t512\n", "v1.2\n", "v1.2 x\n",
                                            "v1.3 1\n", "\n", "{}" };
    static const char *const twice[] = { SHARD ".tar", SHARD ".tar" };
    counter c;
    bzna_context *context = context_of(&c);
    tar t = tar_of(2, 9);
    char *text = index_of(2, 9);
    bzna_dataset_config config = { .struct_size = sizeof config, .index = text, .index_bytes = strlen(text) };
    bzna_error err = fresh_error();
    bzna_dataset *dataset = NULL;
    write_shard(&t, stale, 1);
    CHECK_EQ(bzna_dataset_open(context, SHARD ".tar", NULL, &dataset, NULL), BZNA_E_BOX);
    CHECK_EQ(bzna_dataset_open(context, SHARD ".tar", &config, &dataset, NULL), BZNA_OK);
    bzna_dataset_close(dataset);
    config.index = stale;
    config.index_bytes = sizeof stale - 1;
    CHECK_EQ(bzna_dataset_open_memory(context, t.bytes, t.size, &config, &dataset, &err), BZNA_E_BOX);
    CHECK_CONTAINS(err.message, "memory: dataset_config.index does not fit it (sample 2: ");
    CHECK_CONTAINS(err.message, "leave that out, or write it again (bzna index)");
    CHECK_EQ(bzna_dataset_open(context, SHARD ".tar", &config, &dataset, &err), BZNA_E_BOX);
    CHECK_CONTAINS(err.message, "/shard.tar: dataset_config.index does not fit it");
    for (size_t i = 0; i < COUNT(no_index); i++) {          /* what the caller names counts, or is refused */
        config.index = no_index[i];
        config.index_bytes = strlen(no_index[i]);
        CHECK_EQ(bzna_dataset_open_memory(context, t.bytes, t.size, &config, &dataset, &err), BZNA_E_BOX);
        CHECK_CONTAINS(err.message, "index does not fit it (sample 0: it does not begin with \"v1.2\"");
    }
    config.index = "v1.2 0\n";                              /* without members it says nothing */
    config.index_bytes = 7;
    CHECK_EQ(bzna_dataset_open_memory(context, t.bytes, t.size, &config, &dataset, &err), BZNA_OK);
    CHECK(dataset && bzna_dataset_count(dataset) == 2 && !tar_in(dataset)->from_index);
    bzna_dataset_close(dataset);
    config.index = text;
    config.index_bytes = 0;
    CHECK_EQ(bzna_dataset_open(context, SHARD ".tar", &config, &dataset, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "dataset_config.index, index_bytes: one is given without the other");
    config.index = NULL;
    config.index_bytes = 5;
    CHECK_EQ(bzna_dataset_open(context, SHARD ".tar", &config, &dataset, &err), BZNA_E_ARGUMENT);
    config.index = text;
    CHECK_EQ(bzna_dataset_open_list(context, twice, 2, &config, &dataset, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "dataset_config.index: it is of one file, and these are 2");
    CHECK_EQ(bzna_dataset_open(context, "tests/data/mini_h265.bzna", &config, &dataset, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "dataset_config.index: it has no effect on this data set, which is of kind archive");
    free(text);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
    tar_free(&t);
}

TEST_MAIN(
    RUN(adjacent_files_of_one_key_are_a_sample)
    RUN(fields_stand_in_the_order_first_met_with_the_kind_of_their_last_extension)
    RUN(a_member_called_name_is_the_name)
    RUN(targets_are_decimal_numbers_and_others_fail_alone)
    RUN(a_field_called_index_comes_as_bytes)
    RUN(a_field_called_target_is_not_the_target)
    RUN(another_field_of_integers_can_be_the_target)
    RUN(a_field_twice_fails_in_its_sample_and_no_other)
    RUN(the_picture_is_the_first_one_or_that_of_the_name)
    RUN(headers_of_all_kinds_are_read_from_memory_a_source_and_a_path)
    RUN(names_of_all_lengths_are_read_to_their_end)
    RUN(folders_links_and_devices_are_passed_over)
    RUN(an_archive_ends_at_zeros_or_with_the_file)
    RUN(a_tar_may_begin_with_any_name)
    RUN(damaged_tars_are_refused_at_the_byte_where_they_are_damaged)
    RUN(pax_records_that_make_no_sense_are_refused)
    RUN(what_is_not_read_is_refused_clearly)
    RUN(settings_without_an_effect_on_a_tar_are_refused_by_name)
    RUN(compressed_tars_are_refused_with_a_hint)
    RUN(long_names_and_headers_without_end_meet_limits)
    RUN(fields_have_limits)
    RUN(members_with_too_long_a_field_are_left_out)
    RUN(a_sample_whose_members_lie_far_apart_fails_alone)
    RUN(a_tar_without_samples_says_so)
    RUN(an_empty_tar_has_no_samples)
    RUN(an_empty_tar_adds_nothing_to_other_shards)
    RUN(a_tar_that_ends_in_padding_is_truncated)
          RUN(a_tar_of_tars_says_so)
    RUN(opening_reads_headers_and_not_what_lies_between)
    RUN(an_open_tar_keeps_36_bytes_for_a_sample_of_two_members)
    RUN(the_key_of_a_sample_that_was_read_costs_neither_reads_nor_allocations)
    RUN(an_open_tar_keeps_less_than_2_kB)
    RUN(every_allocation_may_fail)
    RUN(tars_are_told_apart)
    RUN(an_index_gives_what_the_headers_give)
    RUN(a_stale_index_is_refused_with_a_hint)
    RUN(an_index_older_than_its_tar_is_not_used)
    RUN(an_index_of_another_version_is_ignored_and_logged)
    RUN(what_an_index_says_of_a_member_is_checked_when_it_is_used)
    RUN(a_member_that_became_something_else_since_its_index_fails_its_sample)
    RUN(no_index_does_harm)
    RUN(an_index_that_the_caller_gives_spares_the_walk)
    RUN(an_index_that_the_caller_gives_is_preferred_to_the_file_beside_it_and_checked))
