/* RecordIO files: records joined from their parts, labels, the index beside the file, and what is damaged. The files
 * are written by recordio.h; test_recordio.sh compares with another writer. */
#include "library.h"
#include "with_formats.h"
#include "test.h"
#include "known.h"
#include "open_formats.h"
#include "recordio.h"

#define PATH TEST_BUILD "/tests/records.rec"
#define IDX  TEST_BUILD "/tests/records.idx"

/* ---- What tests open ---- */

enum { BY_PATH, BY_MEMORY, BY_SOURCE, WAYS };

typedef struct opened {
    bzna_context *context;
    bzna_dataset *dataset;
    memory_source source;
    bzna_error    err;
    bzna_status   status;
} opened;

static bzna_context *context;

static void open_path(opened *o, const char *path, const bzna_dataset_config *config)
{
    memset(o, 0, sizeof *o);
    o->err = fresh_error();
    o->status = bzna_dataset_open(context, path, config, &o->dataset, &o->err);
}

static void open_file(opened *o, const rec_file *f, int way, const bzna_dataset_config *config)
{
    bzna_source source;
    memset(o, 0, sizeof *o);
    o->err = fresh_error();
    if (way == BY_PATH) {
        rec_save(f, PATH, 0);
        open_path(o, PATH, config);
    } else if (way == BY_MEMORY) {
        o->status = bzna_dataset_open_memory(context, f->bytes, f->size, config, &o->dataset, &o->err);
    } else {
        source = source_of(&o->source, f->bytes, f->size);
        o->status = bzna_dataset_open_source(context, &source, config, &o->dataset, &o->err);
    }
}

static void close_all(opened *o, rec_file *f)
{
    bzna_dataset_close(o->dataset);
    free(f);
}

/* A field's bytes; -1: it has failed, as o->err says. */
static int64_t get(opened *o, uint64_t i, const char *field, void *buffer, size_t capacity)
{
    size_t needed = 0;
    o->err = fresh_error();
    o->status = bzna_dataset_field(o->dataset, i, field, buffer, capacity, &needed, &o->err);
    return o->status == BZNA_OK ? (int64_t)needed : -1;
}

static int field_is(opened *o, uint64_t i, const char *field, const void *bytes, size_t size)
{
    uint8_t buffer[4096];
    return get(o, i, field, buffer, sizeof buffer) == (int64_t)size && !memcmp(buffer, bytes, size);
}

static int integer_is(opened *o, uint64_t i, const char *field, int64_t value)
{
    return field_is(o, i, field, &value, sizeof value);
}

static int target_is(opened *o, uint64_t i, int64_t value)
{
    bzna_sample_ref sample = { .struct_size = sizeof sample };
    int64_t target = 0;
    return bzna_dataset_target(o->dataset, i, &target, NULL) == BZNA_OK && target == value &&
           bzna_dataset_sample(o->dataset, i, &sample, sizeof sample, NULL) == BZNA_OK && sample.target == value;
}

/* The field fails with that status, at that byte of the file, and with words in its message. */
static void check_fails(opened *o, uint64_t i, const char *field, bzna_status status, uint64_t at, const char *words)
{
    uint8_t buffer[4096];
    CHECK_EQ(get(o, i, field, buffer, sizeof buffer), -1);
    CHECK_EQ(o->status, status);
    CHECK_EQ(o->err.byte_offset, at);
    CHECK_CONTAINS(o->err.message, words);
}

static const float one = 7, three[3] = { 1.5f, -2, 1e30f };

/* Three records: one label; three labels; no picture. */
static rec_file *three_records(void)
{
    const float half = 0.5f;
    rec_file *f = rec_new();
    rec_add_picture(f, 40, &one, 1, "\xde\xad\xbe\xef\x01", 5);
    rec_add_picture(f, 41, three, 3, "picture", 7);
    rec_add_picture(f, 1ull << 40, &half, 1, "", 0);
    return f;
}

/* ---- Fields ---- */

TEST(fields_are_those_of_the_records)
{
    static const struct { const char *name; uint32_t kind; } fields[] = {
        { "image", BZNA_FIELD_IMAGE },  { "label", BZNA_FIELD_VECTOR }, { "id", BZNA_FIELD_INTEGER },
        { "target", BZNA_FIELD_INTEGER }, { "name", BZNA_FIELD_TEXT },    { "record", BZNA_FIELD_BYTES } };
    for (int way = 0; way < WAYS; way++) {
        rec_file *f = three_records();
        opened o;
        bzna_dataset_info info;
        bzna_field_info field;
        const float half = 0.5f;
        open_file(&o, f, way, NULL);
        REQUIRE(o.status == BZNA_OK);
        CHECK_EQ(bzna_dataset_count(o.dataset), 3);
        CHECK(bzna_dataset_get_info(o.dataset, &info, sizeof info, NULL) == BZNA_OK && info.field_count == 6 &&
              info.target_count == 3 && info.size_bytes == f->size && !strcmp(info.container, "RecordIO"));
        for (uint32_t i = 0; i < 6; i++)
            CHECK(bzna_dataset_field_info(o.dataset, i, &field, sizeof field, NULL) == BZNA_OK &&
                  field.kind == fields[i].kind && !strcmp(field.name, fields[i].name));
        CHECK(field_is(&o, 0, "label", &one, 4) && field_is(&o, 1, "label", three, 12) &&
              field_is(&o, 2, "label", &half, 4));
        CHECK(integer_is(&o, 0, "id", 40) && integer_is(&o, 1, "id", 41) && integer_is(&o, 2, "id", 1ll << 40));
        CHECK(field_is(&o, 0, "name", "40", 3) && field_is(&o, 2, "name", "1099511627776", 14));
        CHECK(target_is(&o, 0, 7) && target_is(&o, 1, BZNA_TARGET_NONE) && target_is(&o, 2, BZNA_TARGET_NONE));
        CHECK(integer_is(&o, 0, "target", 7));
        check_fails(&o, 1, "target", BZNA_E_NOT_FOUND, BZNA_NO_OFFSET, "sample 1: it has no target");
        CHECK(field_is(&o, 0, "record", f->bytes + 8, 29));
        close_all(&o, f);
    }
}

/* What is no picture is found where it lies: the message and its byte offset say so. */
TEST(the_picture_begins_behind_the_labels)
{
    for (int way = 0; way < WAYS; way++) {
        rec_file *f = three_records();
        opened o;
        bzna_sample_ref sample = { .struct_size = sizeof sample };
        open_file(&o, f, way, NULL);
        REQUIRE(o.status == BZNA_OK);
        check_fails(&o, 0, "image", BZNA_E_CODEC, 8 + 24, "begins with de ad be ef");
        check_fails(&o, 1, "image", BZNA_E_CODEC, f->offsets[1] + 8 + 24 + 12, "begins with 70 69 63 74");
        check_fails(&o, 2, "image", BZNA_E_FORMAT, f->offsets[2] + 8 + 24, "has no bytes");
        check_fails(&o, 0, "thumb", BZNA_E_NOT_FOUND, BZNA_NO_OFFSET, "there is no field \"thumb\"");
        CHECK(bzna_dataset_sample(o.dataset, 1, &sample, sizeof sample, NULL) == BZNA_OK &&
              sample.image_count == 1 && !strcmp(sample.image_names[0], "image") && sample.offset == f->offsets[1] &&
              sample.size == f->offsets[2] - f->offsets[1]);
        close_all(&o, f);
    }
}

/* The magic number at the first byte, twice in a row, at odd places, and last. */
TEST(records_in_parts_are_joined)
{
    static const struct { size_t size; int at[4]; } cases[] = {
        { 4, { 0, -1 } }, { 12, { 4, -1 } }, { 40, { 8, 12, 16, -1 } }, { 40, { 9, 18, 35, -1 } },
        { 8, { 0, 4, -1 } }, { 43, { 0, 36, -1 } }, { 43, { 39, -1 } }, { 400, { 24, 28, 396, -1 } }, { 0, { -1 } } };
    for (int way = 0; way < WAYS; way++) {
        rec_file *f = rec_new();
        uint8_t payloads[COUNT(cases)][512];
        opened o;
        for (size_t i = 0; i < COUNT(cases); i++) {
            for (size_t k = 0; k < cases[i].size; k++)
                payloads[i][k] = (uint8_t)(k * 7 + i);
            for (int k = 0; cases[i].at[k] >= 0; k++)
                memcpy(payloads[i] + cases[i].at[k], rec_magic, 4);
            rec_add(f, payloads[i], cases[i].size);
        }
        open_file(&o, f, way, NULL);
        REQUIRE(o.status == BZNA_OK);
        CHECK_EQ(bzna_dataset_count(o.dataset), COUNT(cases));
        for (size_t i = 0; i < COUNT(cases); i++)
            CHECK(field_is(&o, i, "record", payloads[i], cases[i].size));
        close_all(&o, f);
    }
}

/* A picture in parts, into the caller's memory of just the sample's size. */
TEST(a_picture_in_parts_is_read_whole)
{
    uint8_t picture[100];
    for (int way = 0; way < WAYS; way++) {
        rec_file *f = rec_new();
        opened o;
        bzna_sample_ref sample = { .struct_size = sizeof sample };
        bzna_image image;
        uint8_t *memory;
        memset(picture, 0x55, sizeof picture);
        memcpy(picture + 20, rec_magic, 4);
        memcpy(picture + 60, rec_magic, 4);
        rec_add_picture(f, 3, &one, 1, picture, sizeof picture);
        rec_add_picture(f, 4, &one, 1, "next", 4);
        open_file(&o, f, way, NULL);
        REQUIRE(o.status == BZNA_OK);
        REQUIRE(bzna_dataset_sample(o.dataset, 0, &sample, sizeof sample, NULL) == BZNA_OK);
        memory = malloc((size_t)sample.size);
        bzna_image_init(&image, sizeof image);
        CHECK_EQ(bzna_dataset_read_image(o.dataset, 0, "image", memory, (size_t)sample.size, &image, NULL),
                 BZNA_E_CODEC);
        CHECK(bzi_le32(memory + 4) == 124 && !memcmp(memory + 8 + 24, picture, sizeof picture));
        check_fails(&o, 0, "image", BZNA_E_CODEC, 8 + 24, "begins with 55 55 55 55");
        CHECK(!memcmp(f->bytes, rec_magic, 4) && bzi_le32(f->bytes + 4) >> 29 == 1); /* memory is borrowed: unchanged */
        free(memory);
        close_all(&o, f);
    }
}

#define FOLDER TEST_BUILD "/tests/records"

/* As of tars: two folders of files and folders would be taken for one of files. */
TEST(a_folder_of_records_is_refused_if_it_holds_folders)
{
    rec_file *f = three_records();
    bzna_dataset_config config;
    opened o;
    mkdir(FOLDER, 0777);
    rmdir(FOLDER "/sub");
    rec_save(f, FOLDER "/a.rec", 0);
    rec_save(f, FOLDER "/b.rec", 0);
    mkdir(FOLDER "/.hidden", 0777);
    open_path(&o, FOLDER, NULL);
    CHECK_EQ(o.status, BZNA_OK);
    CHECK_EQ(bzna_dataset_count(o.dataset), 6);
    bzna_dataset_close(o.dataset);
    mkdir(FOLDER "/sub", 0777);
    open_path(&o, FOLDER, NULL);
    CHECK_EQ(o.status, BZNA_E_FORMAT);
    CHECK_CONTAINS(o.err.message, FOLDER ": it holds folders as well as RecordIO files (\"sub\")");
    bzna_dataset_config_init(&config, sizeof config);
    config.format = "folder";                               /* then it is one of pictures, and has none */
    open_path(&o, FOLDER, &config);
    CHECK_EQ(o.status, BZNA_E_NO_SAMPLES);
    open_path(&o, FOLDER "/*.rec", NULL);
    CHECK_EQ(o.status, BZNA_OK);
    CHECK_EQ(bzna_dataset_count(o.dataset), 6);
    close_all(&o, f);
}

/* ---- The list ---- */

TEST(a_list_gives_labels_and_names_by_id)
{
    static const char path[] = TEST_BUILD "/tests/records.lst";
    static const char text[] = "41\t5\tcats/b.jpg\n40\t1\t2\tcats/a.jpg\n";
    static const char whole[] = "40\t9007199254740993\ta\n41\t-1\tb\n";
    const float both[2] = { 1, 2 }, five = 5, none = -1;
    bzna_dataset_config config;
    rec_file *f = three_records();
    opened o;
    spill(path, text, strlen(text));
    bzna_dataset_config_init(&config, sizeof config);
    rec_list = path;
    open_file(&o, f, BY_MEMORY, &config);
    REQUIRE(o.status == BZNA_OK);
    CHECK(field_is(&o, 0, "label", both, 8) && field_is(&o, 1, "label", &five, 4));
    CHECK(target_is(&o, 0, BZNA_TARGET_NONE) && target_is(&o, 1, 5));
    CHECK(field_is(&o, 0, "name", "cats/a.jpg", 11) && integer_is(&o, 0, "id", 40));
    check_fails(&o, 1, "image", BZNA_E_CODEC, f->offsets[1] + 8 + 24 + 12, "begins with 70 69 63 74");
    check_fails(&o, 2, "label", BZNA_E_MISMATCH, f->offsets[2] + 16, "formats_config.list has no line with its id");
    bzna_dataset_close(o.dataset);
    spill(path, whole, strlen(whole));
    open_file(&o, f, BY_MEMORY, &config);
    REQUIRE(o.status == BZNA_OK);
    CHECK(target_is(&o, 0, 9007199254740993) && target_is(&o, 1, BZNA_TARGET_NONE));
    CHECK(field_is(&o, 1, "label", &none, 4));
    check_fails(&o, 0, "label", BZNA_E_FORMAT, 0, "line 1 at byte 0: formats_config.list: a vector of float32 cannot");
    bzna_dataset_close(o.dataset);
    spill(path, "40\t1\ta\n40\t2\tb\n", 14);
    open_file(&o, f, BY_MEMORY, &config);
    CHECK_EQ(o.status, BZNA_E_FORMAT);
    CHECK_CONTAINS(o.err.message, "its index is in a line before, too");
    rec_list = NULL;
    close_all(&o, f);
}

/* ---- The index beside the file ---- */

/* The .idx has this text, and is as old as the .rec, or seconds older. */
static void open_with_idx(opened *o, const rec_file *f, const char *text, int older)
{
    struct timespec times[2] = { { 1000000000, 0 }, { 1000000000, 0 } };
    rec_save(f, PATH, 1);
    if (text)
        spill(IDX, text, strlen(text));
    if (utimensat(AT_FDCWD, PATH, times, 0))
        abort();
    times[0].tv_sec = times[1].tv_sec -= older;
    if (utimensat(AT_FDCWD, IDX, times, 0))
        abort();
    open_path(o, PATH, NULL);
}

TEST(the_idx_says_where_records_begin)
{
    rec_file *f = three_records();
    char text[200];
    opened o;
    const unsigned long long a = f->offsets[1], b = f->offsets[2];
    open_with_idx(&o, f, NULL, 0);
    CHECK(o.status == BZNA_OK && bzna_dataset_count(o.dataset) == 3 && integer_is(&o, 2, "id", 1ll << 40));
    bzna_dataset_close(o.dataset);
    snprintf(text, sizeof text, "x y\t%llu\r\n\nz\t%llu", b, a);           /* two of three, not in order */
    open_with_idx(&o, f, text, 0);
    CHECK(o.status == BZNA_OK && bzna_dataset_count(o.dataset) == 2 && integer_is(&o, 0, "id", 41) &&
          integer_is(&o, 1, "id", 1ll << 40));
    bzna_dataset_close(o.dataset);
    rec_save(f, TEST_BUILD "/tests/records.bin", 0);       /* only NAME.rec has a NAME.idx */
    spill(TEST_BUILD "/tests/records.idx", "0\t4\n", 4);
    open_path(&o, TEST_BUILD "/tests/records.bin", NULL);
    CHECK(o.status == BZNA_OK && bzna_dataset_count(o.dataset) == 3);
    close_all(&o, f);
}

TEST(an_idx_older_than_its_file_is_not_used)
{
    rec_file *f = three_records();
    char text[200];
    opened o;
    snprintf(text, sizeof text, "0\t0\n1\t%llu\n", (unsigned long long)f->offsets[1]);
    open_with_idx(&o, f, text, 10);
    CHECK(o.status == BZNA_OK && bzna_dataset_count(o.dataset) == 3);
    bzna_dataset_close(o.dataset);
    open_with_idx(&o, f, text, 0);
    CHECK(o.status == BZNA_OK && bzna_dataset_count(o.dataset) == 2);
    bzna_dataset_close(o.dataset);
    f->bytes[f->offsets[1]] = 0;                            /* no scan can go on here */
    open_with_idx(&o, f, NULL, 10);
    CHECK_EQ(o.status, BZNA_E_FORMAT);
    open_with_idx(&o, f, NULL, 0);
    CHECK_EQ(o.status, BZNA_OK);
    close_all(&o, f);
}

TEST(an_idx_of_another_file_is_refused_with_a_hint)
{
    static const struct { const char *text, *words; } cases[] = {
        { "", "it is empty" }, { "\n\n", "it is empty" },
        { "0\t0\n1 100\n", "line 2 at byte 4: no key, tab and offset" },
        { "0\t0\n1\t-4\n", "line 2 at byte 4: no key, tab and offset" },
        { "0\t0\n1\t1e2\n", "line 2 at byte 4: no key" }, { "0\t\n", "line 1 at byte 0: no key" },
        { "0\t0\n1\t4000000000\n", "line 2 at byte 4: no key, tab and offset of a record" },
        { "0\t99999999999999999999\n", "line 1 at byte 0: no key" }, { "0\t0\n1\t2\n", "line 2 at byte 4: no key" },
        { "0\t0\n1\t120\n", "line 2 at byte 4: no key" },        /* the file has 124 bytes */
        { "0\t4\n1\t40\n", "no magic number at byte 4" },
        { "0\t0\n1\t4\n", "no magic number at byte 4" },
        { "0\t0\n1\t40\n2\t0\n", "two lines have the offset 0" } };
    rec_file *f = three_records();
    opened o;
    for (size_t i = 0; i < COUNT(cases); i++) {
        open_with_idx(&o, f, cases[i].text, 0);
        CHECK_EQ(o.status, BZNA_E_FORMAT);
        CHECK_CONTAINS(o.err.message, cases[i].words);
        CHECK_CONTAINS(o.err.message, "remove it, or write it again (bzna index)");
        CHECK(!o.dataset);
    }
    free(f);
}

TEST(an_idx_that_the_caller_gives_says_where_records_begin)
{
    rec_file *f = three_records();
    char text[200];
    bzna_dataset_config config;
    opened o;
    bzna_dataset_config_init(&config, sizeof config);
    snprintf(text, sizeof text, "0\t%llu\n1\t%llu\n", (unsigned long long)f->offsets[1],
             (unsigned long long)f->offsets[2]);
    config.index = text;
    config.index_bytes = strlen(text);
    open_file(&o, f, BY_SOURCE, &config);
    CHECK(o.status == BZNA_OK && bzna_dataset_count(o.dataset) == 2 && integer_is(&o, 0, "id", 41) &&
          integer_is(&o, 1, "id", 1ll << 40));
    bzna_dataset_close(o.dataset);
    config.index = "0\t4\n1\t40\n";
    config.index_bytes = 9;
    open_file(&o, f, BY_SOURCE, &config);
    CHECK_EQ(o.status, BZNA_E_FORMAT);
    CHECK_CONTAINS(o.err.message, "dataset_config.index: it does not fit the .rec file");
    close_all(&o, f);
}

/* As when so many files are open that it is opened for each read. */
TEST(a_file_that_is_gone_while_its_idx_is_read_is_an_error)
{
    if (ON_WINDOWS)
        SKIP("a name may go on after its file is removed on Windows");
    const bzna_dataset_config config = { .struct_size = sizeof config };
    rec_file *f = three_records();
    counter counted;
    bzna_context *own = context_of(&counted);
    bzi_container *c = NULL;
    bzi_source source = { .size = 0 };
    bzna_error err = fresh_error();
    opened o;
    open_with_idx(&o, f, NULL, 0);
    own->host->file_limit = 0;
    CHECK_EQ(bzi_source_open_path(&source, own->host, PATH, &err), BZNA_OK);
    bzi_source_close_surplus(&source);
    CHECK(!unlink(PATH));
    CHECK_EQ(bzi_container_open(own->host, &(bzi_input){ .source = &source, .kind = PATH }, &config, &c, &err),
             BZNA_E_IO);
    bzi_source_close(&source);
    bzna_context_close(own);
    CHECK_ALL_FREED(counted);
    close_all(&o, f);
}

TEST(an_offset_without_a_record_fails_its_own_sample)
{
    rec_file *f = three_records();
    char text[200];
    opened o;
    const unsigned long long last = f->offsets[2];
    snprintf(text, sizeof text, "0\t0\n1\t16\n2\t%llu\n", last);
    open_with_idx(&o, f, text, 0);
    REQUIRE(o.status == BZNA_OK);
    check_fails(&o, 1, "id", BZNA_E_FORMAT, 16, "sample 1: the record at byte 16: no magic number at byte 0");
    check_fails(&o, 0, "id", BZNA_E_TRUNCATED, 0,
                "sample 0: the record at byte 0: the data end in the part at byte 0");
    CHECK(integer_is(&o, 2, "id", 1ll << 40));
    close_all(&o, f);
}

TEST(a_million_records_open_within_a_second_by_their_idx)
{
    enum { N = 1000000 };
    uint8_t *bytes = calloc(N, 8);
    FILE *file = fopen(IDX, "wb");
    clock_t start;
    opened o;
    REQUIRE(bytes && file);
    for (int i = 0; i < N; i++) {
        memcpy(bytes + 8 * i, rec_magic, 4);
        fprintf(file, "%d\t%d\n", i, 8 * i);
    }
    spill(PATH, bytes, (size_t)N * 8);
    fclose(file);
    start = clock();                  /* the processor's: other programs do not count */
    open_path(&o, PATH, NULL);
    start = clock() - start;
    CHECK(o.status == BZNA_OK && bzna_dataset_count(o.dataset) == N);
#ifndef TEST_EMULATED
    CHECK(start < SLOWED(1, 10) * CLOCKS_PER_SEC);
#endif
    bzna_dataset_close(o.dataset);
    remove(PATH);
    remove(IDX);
    free(bytes);
}

/* ---- Damage ---- */

TEST(records_that_contradict_themselves_fail_alone)
{
    rec_file *f = rec_new();
    opened o;
    uint8_t payload[28] = { 0 };
    payload[0] = 2;                                         /* two labels in 4 bytes */
    rec_add(f, payload, 28);
    payload[0] = payload[1] = payload[2] = payload[3] = 0xff;
    rec_add(f, payload, 28);
    rec_add(f, payload, 23);
    rec_add(f, "", 0);
    rec_add_picture(f, 5, &one, 1, "x", 1);
    for (int way = 0; way < WAYS; way++) {
        open_file(&o, f, way, NULL);
        REQUIRE(o.status == BZNA_OK && bzna_dataset_count(o.dataset) == 5);
        check_fails(&o, 0, "label", BZNA_E_FORMAT, 8, "28 bytes are too few for a picture and its labels (2)");
        check_fails(&o, 1, "image", BZNA_E_FORMAT, f->offsets[1] + 8, "for a picture and its labels (4294967295)");
        check_fails(&o, 2, "id", BZNA_E_FORMAT, f->offsets[2] + 8, "23 bytes are too few for a picture");
        check_fails(&o, 3, "name", BZNA_E_FORMAT, f->offsets[3] + 8, "0 bytes are too few for a picture");
        CHECK(integer_is(&o, 4, "id", 5) && field_is(&o, 3, "record", "", 0));
        bzna_dataset_close(o.dataset);
    }
    free(f);
}

/* Parts as numbers of cflag, how many records a scan finds in them, and which of them fails; the last does not. */
TEST(parts_out_of_order_fail_their_record_alone)
{
    static const struct { const char *parts; uint64_t count, bad, at; const char *words; } cases[] = {
        { "130", 2, 2, 0, NULL },                            { "12230", 2, 2, 0, NULL },
        { "100", 3, 0, 16, "the data end in the part" },     { "11113", 4, 0, 16, "the data end in the part" },
        { "1220", 2, 0, 48, "the data end in the part" },    { "1", 1, 0, 16, "the data end in the part" },
        { "20", 2, 0, 0, "cflag (2)" },                      { "30", 2, 0, 0, "cflag (3)" },
        { "230", 3, 1, 16, "cflag (3)" },                    { "0230", 4, 1, 16, "cflag (2)" } };
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int way = 0; way < WAYS; way++) {
            const bzna_status status = cases[i].words && strchr(cases[i].words, '(') ? BZNA_E_FORMAT : BZNA_E_TRUNCATED;
            uint8_t record[64];
            rec_file *f = rec_new();
            opened o;
            for (const char *p = cases[i].parts; *p; p++)
                rec_put_part(f, (uint32_t)(*p - '0'), "12345678", 8);
            open_file(&o, f, way, NULL);
            REQUIRE(o.status == BZNA_OK);
            CHECK_EQ(bzna_dataset_count(o.dataset), cases[i].count);
            if (cases[i].words)
                check_fails(&o, cases[i].bad, "record", status, cases[i].at, cases[i].words);
            if (cases[i].count > 1)
                CHECK(get(&o, cases[i].count - 1, "record", record, sizeof record) >= 8);
            close_all(&o, f);
        }
}

/* What an .idx gives a record may hold any parts. */
TEST(parts_of_a_record_of_the_idx_are_checked_in_their_order)
{
    static const char *const parts[] = { "1130", "1030", "1230", "12130", "15230" };
    for (size_t i = 0; i < COUNT(parts); i++) {
        const uint64_t bad = i == 3 ? 32 : 16, last = 16 * (strlen(parts[i]) - 1);
        rec_file *f = rec_new();
        char text[64];
        opened o;
        for (const char *p = parts[i]; *p; p++)
            rec_put_part(f, (uint32_t)(*p - '0'), "12345678", 8);
        snprintf(text, sizeof text, "0\t0\n1\t%llu\n", (unsigned long long)last);
        open_with_idx(&o, f, text, 0);
        REQUIRE(o.status == BZNA_OK);
        if (i == 2)
            CHECK(field_is(&o, 0, "record", "12345678\x0a\x23\xd7\xce" "12345678\x0a\x23\xd7\xce" "12345678", 32));
        else
            check_fails(&o, 0, "record", BZNA_E_FORMAT, bad, "a part out of order, cflag");
        CHECK(field_is(&o, 1, "record", "12345678", 8));
        close_all(&o, f);
    }
}

TEST(parts_of_unknown_kinds_fail_their_record_alone)
{
    rec_file *f = rec_new();
    opened o;
    rec_add(f, "abcd", 4);
    f->offsets[1] = f->size;
    rec_put_part(f, 5, "abcd", 4);
    rec_add(f, "abcd", 4);
    open_file(&o, f, BY_SOURCE, NULL);
    REQUIRE(o.status == BZNA_OK && bzna_dataset_count(o.dataset) == 3);
    check_fails(&o, 1, "record", BZNA_E_FORMAT, 12, "a part out of order, cflag (5)");
    CHECK(field_is(&o, 0, "record", "abcd", 4) && field_is(&o, 2, "record", "abcd", 4));
    close_all(&o, f);
}

/* Each length that the file may be cut to, and a length that goes past the end. */
TEST(a_scan_that_cannot_go_on_is_refused_at_its_byte)
{
    rec_file *f = three_records(), *cut = rec_new();
    opened o;
    for (size_t size = 1; size < f->size; size++) {
        const int at_end = size == f->offsets[1] || size == f->offsets[2];
        uint64_t begin = size > f->offsets[2] ? f->offsets[2] : size > f->offsets[1] ? f->offsets[1] : 0;
        const int padding = (size >= 37 && size < 40) || size == 91;        /* at the end of a record: not needed */
        cut->size = 0;
        rec_put(cut, f->bytes, size);
        open_file(&o, cut, size % WAYS ? BY_MEMORY : BY_SOURCE, NULL);
        CHECK_EQ(o.status, at_end || padding ? BZNA_OK : size < 4 ? BZNA_E_FORMAT : BZNA_E_TRUNCATED);
        if (o.status == BZNA_E_TRUNCATED) {
            CHECK_EQ(o.err.byte_offset, begin);
            CHECK_CONTAINS(o.err.message, "without an .idx, records can't be found from there on");
        }
        bzna_dataset_close(o.dataset);
    }
    f->bytes[f->offsets[1] + 1] ^= 1;
    open_file(&o, f, BY_SOURCE, NULL);
    CHECK_EQ(o.status, BZNA_E_FORMAT);
    CHECK_EQ(o.err.byte_offset, f->offsets[1]);
    CHECK_CONTAINS(o.err.message, "no magic number at byte 40");
    free(f);
    free(cut);
}

/* Records far apart and close together, past the end of what is read at once. */
TEST(a_source_is_scanned_as_a_map_is)
{
    static uint8_t payload[9000];
    rec_file *f = rec_new();
    opened o;
    for (int i = 0; i < 200; i++)
        rec_add(f, payload, (size_t)(i * i * 37 % (i % 3 ? 300 : 9000)));
    open_file(&o, f, BY_SOURCE, NULL);
    REQUIRE(o.status == BZNA_OK);
    CHECK_EQ(bzna_dataset_count(o.dataset), 200);
    CHECK(o.source.reads < 200);
    for (int i = 0; i < 200; i++) {
        size_t needed = 1;
        bzna_dataset_field(o.dataset, (uint64_t)i, "record", NULL, 0, &needed, NULL);
        CHECK_EQ(needed, i * i * 37 % (i % 3 ? 300 : 9000));
    }
    close_all(&o, f);
}

static int opens_with(counter *c, const rec_file *f, int64_t fail_at)
{
    bzna_context *small = context_of(c);
    bzna_dataset *dataset = NULL;
    bzna_status status;
    rec_list = TEST_BUILD "/tests/records.lst";
    rec_save(f, PATH, fail_at & 1);
    c->calls = 0;
    c->fail_at = fail_at / 2;
    status = bzna_dataset_open(small, PATH, NULL, &dataset, NULL);
    rec_list = NULL;
    CHECK(status == BZNA_OK || status == BZNA_E_MEMORY);
    c->fail_at = 0;
    bzna_dataset_close(dataset);
    bzna_context_close(small);
    CHECK(c->blocks == 0 && c->bytes == 0 && c->wrong_sizes == 0);
    return status == BZNA_OK;
}

TEST(memory_that_is_out_fails_the_open_and_leaks_nothing)
{
    rec_file *f = three_records();
    int fine = 0, failed = 0;
    spill(TEST_BUILD "/tests/records.lst", "40\t1\ta\n", 7);
    for (int64_t n = 0; n < 40; n++) {
        counter c = { 0 };
        int ok = opens_with(&c, f, n);
        fine += ok;
        failed += !ok;
    }
    CHECK(fine >= 4 && failed >= 14);
    free(f);
}

/* PPM files of 16x8, one of them in parts: a magic number is among its pixels. The loader delivers their very numbers,
 * and a record that is damaged costs its own slot. */
TEST(stills_in_records_are_delivered_as_they_are)
{
    enum { WIDTH = 16, HEIGHT = 8, PIXELS = WIDTH * HEIGHT, COUNT_OF = 5, BAD = 3 };
    static const char head[] = "P6 16 8 255\n";
    uint8_t files[COUNT_OF][sizeof head - 1 + 3 * PIXELS];
    bzna_loader_config config;
    rec_file *f;
#ifdef BENZINA_NO_AVCODEC
    SKIP("built without libavcodec [libavcodec-dev]");
#endif
    f = rec_new();
    for (int i = 0; i < COUNT_OF; i++) {
        const float label = (float)(i + 10);
        for (size_t k = 0; k < sizeof files[i]; k++)
            files[i][k] = k < sizeof head - 1 ? (uint8_t)head[k] : (uint8_t)(k * 31 + (size_t)i * 77);
        if (i == 2)
            memcpy(files[i] + sizeof head - 1 + 48, rec_magic, 4);
        rec_add_picture(f, (uint64_t)i, &label, 1, files[i], i == BAD ? 4 : sizeof files[i]);
    }
    bzna_loader_config_init(&config, sizeof config);
    config.output.width = WIDTH;
    config.output.height = HEIGHT;
    config.output.batch_size = COUNT_OF;
    for (int way = 0; way < WAYS; way++) {
        bzna_loader *loader = NULL;
        bzna_batch *batch = NULL;
        bzna_tensor image, target;
        opened o;
        int wrong = 0;
        open_file(&o, f, way, NULL);
        REQUIRE(bzna_loader_open(context, o.dataset, &config, &loader, NULL) == BZNA_OK &&
                bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK &&
                bzna_batch_tensor(batch, "image", &image, sizeof image, NULL) == BZNA_OK &&
                bzna_batch_tensor(batch, "target", &target, sizeof target, NULL) == BZNA_OK);
        for (int i = 0; i < COUNT_OF; i++) {
            CHECK((bzna_batch_error(batch, (uint32_t)i, NULL) == BZNA_OK) == (i != BAD));
            CHECK_EQ(((const int64_t *)target.data)[i], i + 10);
            const uint8_t *pixels = files[i] + sizeof head - 1;
            for (int k = 0; k < 3 * PIXELS && i != BAD; k++)
                wrong += ((const float *)image.data)[(i * 3 + k % 3) * PIXELS + k / 3] != pixels[k];
        }
        CHECK_EQ(wrong, 0);
        bzna_batch_release(batch);
        bzna_loader_close(loader);
        bzna_dataset_close(o.dataset);
    }
    free(f);
}

TEST(fingerprints_tell_files_apart)
{
    static const char list[] = TEST_BUILD "/tests/fingerprints.lst";
    bzna_dataset_config config;
    rec_file *f = three_records(), *g = rec_new();
    uint64_t listed[2];
    opened a, b;
    bzna_dataset_config_init(&config, sizeof config);
    rec_put(g, f->bytes, f->size);
    rec_add(g, "", 0);
    open_file(&a, f, BY_MEMORY, NULL);
    open_file(&b, f, BY_SOURCE, NULL);
    REQUIRE(a.status == BZNA_OK && b.status == BZNA_OK);
    CHECK(bzi_dataset_fingerprint(a.dataset) == bzi_dataset_fingerprint(b.dataset));
    bzna_dataset_close(b.dataset);
    open_file(&b, g, BY_MEMORY, NULL);
    REQUIRE(b.status == BZNA_OK);
    CHECK(bzi_dataset_fingerprint(a.dataset) != bzi_dataset_fingerprint(b.dataset));
    bzna_dataset_close(b.dataset);
    for (int i = 0; i < 2; i++) {                           /* other labels are other samples */
        static const char *const lists[] = { "40\t1\ta\n41\t2\tb\n", "40\t1\ta\n41\t3\tb\n" };
        spill(list, lists[i], strlen(lists[i]));
        rec_list = list;
        open_file(&b, f, BY_MEMORY, &config);
        rec_list = NULL;
        REQUIRE(b.status == BZNA_OK);
        listed[i] = bzi_dataset_fingerprint(b.dataset);
        bzna_dataset_close(b.dataset);
        CHECK(listed[i] != bzi_dataset_fingerprint(a.dataset));
    }
    CHECK(listed[0] != listed[1]);
    close_all(&a, f);
    free(g);
}

/* Sanitizers see that nothing is copied from NULL. */
TEST(a_file_of_no_bytes_has_no_records)
{
    bzna_dataset_config config;
    bzna_dataset *dataset = NULL;
    bzna_error err = fresh_error();
    rec_file *f = rec_new();
    bzna_dataset_config_init(&config, sizeof config);
    config.format = "RecordIO";
    CHECK(bzna_dataset_open_memory(context, f->bytes, f->size, &config, &dataset, &err) != BZNA_OK && !dataset);
    CHECK(err.message[0]);
    free(f);
}

int main(int argc, char **argv)
{
    (void)argc;
    test_start(argv);
    if (bzna_context_open(NULL, &context, NULL) != BZNA_OK)
        return 1;
    RUN(a_file_of_no_bytes_has_no_records) RUN(a_folder_of_records_is_refused_if_it_holds_folders)
    RUN(fields_are_those_of_the_records) RUN(the_picture_begins_behind_the_labels) RUN(records_in_parts_are_joined)
    RUN(a_picture_in_parts_is_read_whole) RUN(a_list_gives_labels_and_names_by_id) RUN(the_idx_says_where_records_begin)
    RUN(an_idx_older_than_its_file_is_not_used) RUN(an_idx_of_another_file_is_refused_with_a_hint)
    RUN(an_idx_that_the_caller_gives_says_where_records_begin)
    RUN(a_file_that_is_gone_while_its_idx_is_read_is_an_error)
    RUN(an_offset_without_a_record_fails_its_own_sample) RUN(a_million_records_open_within_a_second_by_their_idx)
    RUN(records_that_contradict_themselves_fail_alone) RUN(parts_out_of_order_fail_their_record_alone)
    RUN(parts_of_a_record_of_the_idx_are_checked_in_their_order)
    RUN(parts_of_unknown_kinds_fail_their_record_alone) RUN(a_scan_that_cannot_go_on_is_refused_at_its_byte)
    RUN(a_source_is_scanned_as_a_map_is) RUN(memory_that_is_out_fails_the_open_and_leaks_nothing)
    RUN(fingerprints_tell_files_apart) RUN(stills_in_records_are_delivered_as_they_are)
    bzna_context_close(context);
    printf("%s: %d passed, %d failed, %d skipped\n", __FILE__, test_passed, test_failed, test_skipped);
    return test_failed != 0;
}
