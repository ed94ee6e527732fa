/* test_limits.c - what a file may cost: memory and reads are bounded by its size, whatever numbers stand in it. And the
 * limits of benzina.c: what is at one is taken, what is one beyond it is refused by name. A list has each limit of
 * benzina.c, and where it is tested. */
#include "library.h"
#include "with_formats.h"
#include "test.h"
#include "tars.h"
#if !defined(BENZINA_NO_CUDA) && !defined(BENZINA_NO_AVCODEC)
#  include "../fake/fake.h"
#endif

#pragma GCC diagnostic ignored "-Wunused-function"          /* fuzz.h has more */
#include "../fuzz/fuzz.h"

static const char *const paths[] = {
    "tests/data/seeds/h264.mp4", "tests/data/seeds/h265.mp4", "tests/data/seeds/av1.mp4",
    "tests/data/slices_h264.bzna" };

typedef struct cost {
    int64_t peak, read;               /* the most that opening took and read, beyond what its size allows */
    size_t  at, opened;               /* which byte that was; how many files opened */
} cost;

/* What opening costs, less what the size allows. All comes back. */
static void open_counted(const uint8_t *data, size_t size, size_t at, cost *worst)
{
    const int64_t bound = FUZZ_OPEN_BYTES + FUZZ_OPEN_RATIO * (int64_t)size, before = fuzz_ledger.held;
    source s = { .b = { data, size } };
    bzna_source callbacks = source_of(&s);
    bzna_dataset *dataset = NULL;
    fuzz_ledger.peak = before;
    if (bzna_dataset_open_source(fuzz_context(), &callbacks, NULL, &dataset, NULL) == BZNA_OK) {
        bzna_dataset_close(dataset);
        worst->opened++;
    }
    CHECK_EQ(fuzz_ledger.held, before);
    if (fuzz_ledger.peak - before - bound > worst->peak) {
        worst->peak = fuzz_ledger.peak - before - bound;
        worst->at = at;
    }
    worst->read = s.read - bound > worst->read ? s.read - bound : worst->read;
}

/* Each number of a file in turn asks for so many. */
static void every_number(uint32_t value)
{
    fuzz_context();
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        static uint8_t data[16384];
        FILE *file = fopen(paths[i], "rb");
        size_t size = file ? fread(data, 1, sizeof data, file) : 0;
        cost worst = { INT64_MIN, INT64_MIN, 0, 0 };
        REQUIRE(file && size > 64 && size < sizeof data);
        fclose(file);
        for (size_t at = 0; at + 4 <= size; at++) {
            uint8_t was[4];
            memcpy(was, data + at, 4);
            for (int k = 0; k < 4; k++)
                data[at + (size_t)k] = (uint8_t)(value >> (24 - 8 * k));
            open_counted(data, size, at, &worst);
            memcpy(data + at, was, 4);
        }
        CHECK(worst.opened > size / 10 && worst.opened < size);
        CHECK(worst.peak <= 0);
        CHECK(worst.read <= 0);
        if (worst.peak > 0 || worst.read > 0)
            printf("  %s: %lld bytes too many, by byte %zu; %lld read\n", paths[i], (long long)worst.peak, worst.at,
                   (long long)worst.read);
    }
}

TEST(a_file_that_asks_for_a_thousand_million_entries_costs_what_its_size_allows) { every_number(1000000000); }
TEST(a_file_that_asks_for_a_million_entries_costs_what_its_size_allows) { every_number(1000000); }
TEST(a_file_that_asks_for_all_that_32_bits_hold_costs_what_its_size_allows) { every_number(UINT32_MAX); }

/* Where numbers are text, or have a check sum: each of them in turn asks for 1000 million bytes or entries. */
static void costs_what_its_size_allows(const char *what, const void *data, size_t size)
{
    cost worst = { INT64_MIN, INT64_MIN, 0, 0 };
    fuzz_context();
    open_counted(data, size, 0, &worst);
    CHECK(size < 8192);
    CHECK(worst.peak <= 0 && worst.read <= 0);
    if (worst.peak > 0 || worst.read > 0)
        printf("  %s: %lld bytes too many, %lld read\n", what, (long long)worst.peak, (long long)worst.read);
}

TEST(small_tars_that_ask_for_a_thousand_million_bytes_cost_what_their_size_allows)
{
    static const char *const keys[] = { "size", "path", "GNU.sparse.size", "GNU.sparse.numblocks" };
    static const char types[] = { '0', 'L', 'K', 'x', 'g', 'S', 'V', '5' };
    static const uint8_t binary[12] = { 0x80, 0, 0, 0, 0, 0, 0, 0, 0x3b, 0x9a, 0xca, 0 };
    for (size_t i = 0; i < COUNT(types); i++)
        for (int is_binary = 0; is_binary < 2; is_binary++) {
            tar t = { NULL, 0, 0, 0 };
            tar_file(&t, "0.jpg", "x", 1);
            tar_member(&t, types[i], "1.jpg", "x", 1);
            if (is_binary)
                tar_patch(&t, 124, binary, 12);
            else
                tar_patch(&t, 124, "07346545000", 12);
            tar_file(&t, "2.jpg", "x", 1);
            tar_end(&t);
            costs_what_its_size_allows("a tar", t.bytes, t.size);
            tar_free(&t);
        }
    for (size_t i = 0; i < COUNT(keys); i++) {
        tar t = { NULL, 0, 0, 0 };
        tar_pax(&t, i % 2 ? 'g' : 'x', keys[i], "1000000000");
        tar_file(&t, "0.jpg", "x", 1);
        tar_end(&t);
        costs_what_its_size_allows(keys[i], t.bytes, t.size);
        tar_free(&t);
    }
}

/* A picture is a file of one sample, and its size is what is asked for: nothing is made of it when it is opened, and
 * its header refuses it when it is used. */
TEST(small_pictures_of_absurd_sizes_cost_what_their_size_allows)
{
    static const struct { const char *path; size_t at; int bytes; } sizes[] = {
        { "tests/data/pictures/gif_87.gif", 6, 4 }, { "tests/data/pictures/bmp_1.bmp", 18, 8 },
        { "tests/data/pictures/jpeg2000_gray.j2k", 8, 8 }, { "tests/data/pictures/jpeg_440.jpg", 0, 0 } };
    bzna_decoder *decoder = NULL;
    CHECK_EQ(bzna_decoder_open(fuzz_context(), &decoder, NULL), BZNA_OK);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        static uint8_t data[65536];
        FILE *file = fopen(sizes[i].path, "rb");
        size_t size = file ? fread(data, 1, sizeof data, file) : 0, at = sizes[i].at;
        bzna_image image = { .struct_size = sizeof image, .data = data, .data_size = size,
                             .codec = sizes[i].bytes ? BZNA_CODEC_STILL : BZNA_CODEC_JPEG };
        bzna_picture picture = { .struct_size = sizeof picture };
        bzna_error err = { 0 };
        const int64_t before = fuzz_ledger.held;
        REQUIRE(size > 64);
        fclose(file);
        while (!sizes[i].bytes && (data[at] != 0xff || data[at + 1] < 0xc0 || data[at + 1] > 0xc2))
            at++;                                           /* the frame's header */
        for (int k = 0; k < sizes[i].bytes; k++)
            data[at + (size_t)k] = k % 4 ? 0xff : 0x0f;
        if (!sizes[i].bytes)
            memset(data + at + 5, 0xff, 4);
        fuzz_ledger.peak = before;
        CHECK(bzna_decoder_decode(decoder, &image, &picture, &err) < 0);
        CHECK(fuzz_ledger.peak - before <= FUZZ_OPEN_BYTES + FUZZ_OPEN_RATIO * (int64_t)size);
    }
    bzna_decoder_close(decoder);
}

/* ---- Every limit has a test ---- */

/* Where a limit of benzina.c is tested: BZI_LIMIT_name, a suite, a test of it. Without a suite: why there is none. */
static const struct { const char *name, *suite, *test; } limits[] = {
    { "DEPTH", "test_boxes", "boxes_nested_deeper_than_the_limit_are_refused" },
    { "TRACKS", "test_boxes", "sixty_four_tracks_are_read_and_one_more_is_refused" },
    { "TOP_BOXES", "test_boxes", "more_boxes_than_the_limit_at_file_level_are_refused" },
    { "BOX_CHILDREN", "test_limits", "a_box_has_1048576_children_at_most" },
    { "PARAMETER_SETS", "test_limits", "a_picture_has_16_parameter_sets_of_65536_bytes_at_most" },
    { "CONFIG_BYTES", "test_limits", "a_picture_has_16_parameter_sets_of_65536_bytes_at_most" },
    { "SEEN", "test_limits", "repetitions_are_looked_for_in_2_to_33_samples_at_most" },
    { "SOUND", "test_limits", "sound_samples_are_remembered_for_2_to_27_of_them_at_most" },
    { "NAME_BYTES", "test_limits", "names_have_65535_bytes_at_most" },
    { "PATH_BYTES", "test_tar", "long_names_and_headers_without_end_meet_limits" },
    { "JPEG_SCANS", "test_pictures", "a_jpeg_has_500_scans_at_most" },
    { "JPEG_BYTES", "test_jpeg", "coefficients_of_several_scans_are_bounded" },
    { "STILL_BYTES", "test_pictures", "stills_of_absurd_sizes_are_refused_before_decoding" },
    { "STILL_RATIO", "test_pictures", "stills_of_absurd_sizes_are_refused_before_decoding" },
    { "TAR_EXTRA", "test_tar", "long_names_and_headers_without_end_meet_limits" },
    { "PAX_BYTES", "test_tar", "long_names_and_headers_without_end_meet_limits" },
    { "SLICES", "test_limits", "a_picture_that_is_cut_has_256_slices_at_most" },
    { "BATCH", "test_loader", "every_limit_is_accepted_and_one_more_is_refused" },
    { "EDGE", "test_loader", "every_limit_is_accepted_and_one_more_is_refused" },
    { "THREADS", "test_loader", "every_limit_is_accepted_and_one_more_is_refused" },
    { "READERS", "test_loader", "every_limit_is_accepted_and_one_more_is_refused" },
    { "IN_FLIGHT", "test_loader", "every_limit_is_accepted_and_one_more_is_refused" },
    { "READ_AHEAD", "test_loader", "every_limit_is_accepted_and_one_more_is_refused" },
    { "AHEAD", NULL, "a default: what it exceeds is read later" },
    { "SESSIONS", "test_host", "a_context_config_at_its_limits_is_accepted" },
    { "SESSION_MAPPED", "test_host", "a_context_config_at_its_limits_is_accepted" },
    { "SESSION_DEPTH", "test_host", "a_context_config_at_its_limits_is_accepted" },
    { "VECTOR", "test_limits", "vectors_have_65536_numbers_at_most" },
    { "FIELDS", "test_contract", "promises_hold_for_every_kind_of_data_set" },
    { "ARCHIVE_FIELDS", "test_limits", "an_archive_has_60_fields_of_its_own_at_most" },
    { "CLASS_BYTES", "test_limits", "names_of_classes_have_256_mib_at_most" },
    { "COLUMNS", "test_limits", "a_batch_has_16_fields_as_tensors_and_64_as_bytes_at_most" },
    { "BYTES", "test_limits", "a_batch_has_16_fields_as_tensors_and_64_as_bytes_at_most" },
    { "MADE", "test_limits", "a_program_makes_32_tensors_at_most" },
    { "MADE_BYTES", "test_limits", "tensors_that_a_program_makes_have_256_mib_at_most" },
    { "FIELD_TENSORS", NULL, "a sum of other limits" },
    { "ALL_COLUMNS", NULL, "a sum of other limits" },
    { "OUTPUTS", "test_outputs", "outputs_that_cannot_be_made_are_refused_by_name" },
    { "VIEWS", "test_limits", "a_loader_has_64_views_at_most" },
    { "OWN_CODECS", "test_codec", "codecs_that_cannot_be_are_refused_by_name" },
    { "EXTENSIONS", "test_codec", "codecs_that_cannot_be_are_refused_by_name" },
    { "POLICIES", "test_limits", "an_output_has_16_policies_of_256_operations_at_most" },
    { "OPERATIONS", "test_limits", "an_output_has_16_policies_of_256_operations_at_most" },
    { "PARTS", "test_limits", "a_data_set_has_65536_files_at_most" },
    { "OPEN_FILES", "test_files", "twenty_thousand_archives_are_one_data_set_with_256_descriptors" },
    { "BOX_BYTES", "test_limits", "a_box_that_is_read_whole_has_512_mib_at_most" },
    { "FOLDERS", "test_limits", "a_class_folder_has_1048576_folders_at_most" },
    { "OPEN_THREADS", NULL, "an array: no more threads are started" },
    { "REPLACEMENTS", "test_training", "replacing_gives_up_after_64_samples_and_says_why" },
    { "RETRIES", "test_loader", "every_limit_is_accepted_and_one_more_is_refused" },
    { "SAMPLE_BYTES", NULL, "the default of context_config.max_sample_bytes" },
    { "QUEUE_BYTES", NULL, "the default of writer_config.queue_bytes" },
    { "READ_BYTES", NULL, "the default of loader_config.read.memory_bytes" },
};

static char *text_of(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    long size;
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    if (size > 0 && (text = calloc((size_t)size + 1, 1)) && fread(text, 1, (size_t)size, file) != (size_t)size)
        text[0] = 0;
    fclose(file);
    return text;
}

TEST(every_limit_of_the_library_has_a_test)
{
    char *library = text_of("benzina.c"), wanted[256];
    size_t defined = 0;
    REQUIRE(library);
    for (const char *at = library; (at = strstr(at, "#define BZI_LIMIT_")); defined++) {
        const char *name = at += strlen("#define BZI_LIMIT_");
        const size_t size = strcspn(name, " ");
        size_t i = 0;
        while (i < COUNT(limits) && (strlen(limits[i].name) != size || memcmp(limits[i].name, name, size)))
            i++;
        if (i == COUNT(limits) && memcmp(name, "SURFACES", size))
            printf("  BZI_LIMIT_%.*s has no test\n", (int)size, name);
        CHECK(i < COUNT(limits) || !memcmp(name, "SURFACES", size));
    }
    CHECK(defined >= COUNT(limits));
    for (size_t i = 0; i < COUNT(limits); i++) {
        char *suite;
        snprintf(wanted, sizeof wanted, "#define BZI_LIMIT_%s ", limits[i].name);
        CHECK_CONTAINS(library, wanted);
        if (!limits[i].suite)
            continue;
        snprintf(wanted, sizeof wanted, "tests/unit/%s.c", limits[i].suite);
        suite = text_of(wanted);
        snprintf(wanted, sizeof wanted, "TEST(%s)", limits[i].test);
        if (!suite || !strstr(suite, wanted))
            printf("  %s.c has no %s\n", limits[i].suite, wanted);
        CHECK(suite && strstr(suite, wanted));
        free(suite);
    }
    free(library);
}

/* ---- Files ---- */

TEST(a_box_has_1048576_children_at_most)
{
    const size_t most = BZI_LIMIT_BOX_CHILDREN;
    bzi_movie *movie = calloc(1, sizeof *movie);
    uint8_t *boxes = malloc(8 * (most + 1));
    bzna_error err;
    bzi_window window = { .held = boxes, .at = 100 };
    REQUIRE(movie && boxes);
    for (size_t i = 0; i <= most; i++)
        memcpy(boxes + 8 * i, "\0\0\0\x08" "free", 8);
    bzi_movie_begin(movie, &err);
    movie->window = &window;
    CHECK_EQ(bzi_box_list(movie, 100, 100 + 8 * most, BZI_FILE), BZNA_OK);
    CHECK_EQ(bzi_box_list(movie, 100, 100 + 8 * (most + 1), BZI_FILE), BZNA_E_LIMIT);
    CHECK_CONTAINS(err.message, "more than 1048576 boxes in one");
    CHECK_EQ(err.byte_offset, 100 + 8 * most);
    free(boxes);
    free(movie);
}

/* As much memory as tests of bounds need. */
static void *little_alloc(void *user, size_t size, size_t align)
{
    return size > (16u << 20) ? NULL : bzi_os_alloc(user, size, align);
}

static bzna_context *little_context(void)
{
    const bzna_context_config c = { .struct_size = sizeof c, .device.kind = BZNA_DEVICE_CPU,
                                    .allocator = { NULL, little_alloc, bzi_os_release } };
    bzna_context *context = NULL;
    if (bzna_context_open(&c, &context, NULL) != BZNA_OK)
        exit(1);
    return context;
}

TEST(a_box_that_is_read_whole_has_512_mib_at_most)
{
    static const char path[] = TEST_BUILD "/tests/vast.mp4";
    bzna_context *context = little_context();
    for (int past = 0; past < 2; past++) {
        const uint64_t payload = BZI_LIMIT_BOX_BYTES + (past ? 1u : 0u);
        uint8_t head[] = "\0\0\0\x10" "ftypisom\0\0\0\0" "\0\0\0\0" "moov\0\0\0\0" "mvhd";
        FILE *file = fopen(path, "wb");
        bzna_dataset *dataset = NULL;
        bzna_error err = { 0 };
        REQUIRE(file);
        bzi_put_be32(head + 16, (uint32_t)(payload + 16));
        bzi_put_be32(head + 24, (uint32_t)(payload + 8));
        fwrite(head, 1, sizeof head - 1, file);
        fclose(file);
        REQUIRE(truncate(path, (off_t)payload + 32) == 0);   /* the rest is a hole */
        CHECK_EQ(bzna_dataset_open(context, path, NULL, &dataset, &err), past ? BZNA_E_LIMIT : BZNA_E_MEMORY);
        if (past) {
            CHECK_CONTAINS(err.message, "vast.mp4: moov/mvhd at byte 24: 536870913 bytes, more than 536870912");
            CHECK_EQ(err.byte_offset, 24);
        }
    }
    remove(path);
    bzna_context_close(context);
}

TEST(a_class_folder_has_1048576_folders_at_most)
{
    const bzi_memory memory = { NULL, bzi_os_alloc, bzi_os_release };
    bzi_arena arena = { .memory = &memory };
    bzi_walk walk = { .root = "", .files.arena = &arena };
    bzna_error err = { 0 };
    walk.folder_count = BZI_LIMIT_FOLDERS - 1;
    CHECK_EQ(bzi_walk_add(&walk, "folder/last", 0, &err), BZNA_OK);
    CHECK_EQ(walk.folder_count, BZI_LIMIT_FOLDERS);
    CHECK_EQ(bzi_walk_add(&walk, "folder/more", 0, &err), BZNA_E_LIMIT);
    CHECK_CONTAINS(err.message, "more than 1048576 folders");
    bzi_walk_free(&walk);
    bzi_arena_free(&arena);
}

/* ---- Pictures ---- */

TEST(a_picture_has_16_parameter_sets_of_65536_bytes_at_most)
{
    static uint8_t sets[65537];
    bzi_coded coded = { .set_count = 0 };
    bzna_error err = { 0 };
    for (uint32_t i = 0; i <= BZI_LIMIT_PARAMETER_SETS; i++) {
        sets[i] = (uint8_t)i;
        const bzna_status status = bzi_coded_add_set(&coded, (bzi_span){ sets + i, 1 }, &err);
        CHECK_EQ(status, i < BZI_LIMIT_PARAMETER_SETS ? BZNA_OK : BZNA_E_LIMIT);
    }
    CHECK_CONTAINS(err.message, "more than 16 parameter sets, or 65536 bytes of them");
    for (uint32_t past = 0; past < 2; past++) {
        coded.set_count = 0;
        CHECK_EQ(bzi_coded_add_set(&coded, (bzi_span){ sets, 65535 + past }, &err), BZNA_OK);
        CHECK_EQ(bzi_coded_add_set(&coded, (bzi_span){ sets + 5, 1 }, &err), past ? BZNA_E_LIMIT : BZNA_OK);
    }
    coded.set_count = 0;
    CHECK_EQ(bzi_coded_add_set(&coded, (bzi_span){ sets, 65537 }, &err), BZNA_E_LIMIT);
}

TEST(a_picture_that_is_cut_has_256_slices_at_most)
{
    static bzi_slices s;
    static const uint32_t rows[2] = { 16, 32 };
    /* a slice of first_mb_in_slice 5, slice_type 7 (I), and what bzi_slice_head reads after it */
    static const uint8_t unit[] = { 0x65, 0x2c, 0x44, 0x21, 0xff, 0xff, 0xff, 0xff, 0x80 };
    const bzi_span nal = { unit, sizeof unit };
    int taken[2];
    for (int past = 0; past < 2; past++) {
        memset(&s, 0, sizeof s);
        s.sets = 2;
        s.sps.width = s.sps.height = 1024;
        s.sps.frame_num_bits = 4;
        s.count = BZI_LIMIT_SLICES - 1 + (uint32_t)past;
        s.first[s.count - 1] = 1;
        bzi_slices_add(&s, nal, rows);
        taken[past] = s.count == BZI_LIMIT_SLICES;
    }
    CHECK(taken[0] && taken[1]);                            /* the 256th is taken, the 257th is not */
}

/* ---- Archives ---- */

static bzna_status nothing_written(void *user, uint64_t offset, const void *src, uint64_t size)
{
    (void)user, (void)offset, (void)src, (void)size;
    return BZNA_OK;
}

TEST(names_of_classes_have_256_mib_at_most)
{
    enum { NAMES = 4096 };
    static char name[65536];
    static const char *names[NAMES + 1];
    bzna_context *context = little_context();
    bzna_sink sink = { sizeof sink, 0, NULL, nothing_written, NULL };
    memset(name, 'c', sizeof name - 1);
    for (int i = 0; i <= NAMES; i++)
        names[i] = i < NAMES ? name : "";
    for (uint32_t past = 0; past < 2; past++) {             /* at the limit, memory is short */
        const bzna_writer_config config = { .struct_size = sizeof config, .classes = names,
                                            .class_count = NAMES + past };
        bzna_writer *writer = NULL;
        bzna_error err = { 0 };
        CHECK_EQ(bzna_writer_open_sink(context, &sink, &config, &writer, &err), past ? BZNA_E_LIMIT : BZNA_E_MEMORY);
        CHECK_CONTAINS(err.message, past ? "writer_config.classes: more than 268435456 bytes" : "names of classes");
    }
    bzna_context_close(context);
}

#if !defined(BENZINA_NO_WRITER) && !defined(BENZINA_NO_JPEG)

typedef struct written {
    uint8_t  bytes[1 << 20];
    uint64_t size;
} written;

static bzna_status keep(void *user, uint64_t offset, const void *src, uint64_t size)
{
    written *w = user;
    if (offset + size > sizeof w->bytes)
        return BZNA_E_LIMIT;
    memcpy(w->bytes + offset, src, (size_t)size);
    w->size = offset + size > w->size ? offset + size : w->size;
    return BZNA_OK;
}

/* An archive of a JPEG with so many integers beside it, and a name. */
static bzna_status write_one(written *w, uint32_t fields, uint32_t name_bytes, bzna_error *err)
{
    static bzna_field_value values[BZI_LIMIT_ARCHIVE_FIELDS + 1];
    static char names[BZI_LIMIT_ARCHIVE_FIELDS + 1][8], name[65537];
    static int64_t number = 7;
    const bzna_sink sink = { sizeof sink, 0, w, keep, NULL };
    char *jpeg = text_of("tests/data/pictures/jpeg_420_progressive.jpg");
    FILE *file = fopen("tests/data/pictures/jpeg_420_progressive.jpg", "rb");
    bzna_writer_sample sample;
    bzna_image image;
    bzna_writer *writer = NULL;
    bzna_status status = bzna_writer_open_sink(fuzz_context(), &sink, NULL, &writer, err);
    w->size = 0;
    bzna_writer_sample_init(&sample, sizeof sample);
    bzna_image_init(&image, sizeof image);
    fseek(file, 0, SEEK_END);
    image.codec = BZNA_CODEC_JPEG;
    image.data = jpeg;
    image.data_size = (size_t)ftell(file);
    fclose(file);
    for (uint32_t i = 0; i < fields; i++) {
        snprintf(names[i], sizeof names[i], "f%02u", i % 100);
        bzna_field_value_init(&values[i], sizeof values[i]);
        values[i].name = names[i];
        values[i].kind = BZNA_FIELD_INTEGER;
        values[i].data = &number;
        values[i].size = sizeof number;
    }
    memset(name, 'n', name_bytes);
    name[name_bytes] = 0;
    sample.image = &image;
    sample.name = name;
    sample.fields = values;
    sample.field_count = fields;
    if (status == BZNA_OK && (status = bzna_writer_add(writer, BZNA_INDEX_NEXT, &sample, 0, err)) == BZNA_OK)
        status = bzna_writer_finish(writer, err);
    bzna_writer_close(writer);
    free(jpeg);
    return status;
}

static written one;

TEST(an_archive_has_60_fields_of_its_own_at_most)
{
    bzna_error err = { 0 };
    bzna_dataset *dataset = NULL;
    bzna_dataset_info info;
    size_t at = 0;
    CHECK_EQ(write_one(&one, 61, 1, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "sample.field_count: 61 is not in 0..60");
    CHECK_EQ(write_one(&one, 60, 1, &err), BZNA_OK);
    CHECK_EQ(bzna_dataset_open_memory(fuzz_context(), one.bytes, (size_t)one.size, NULL, &dataset, &err), BZNA_OK);
    CHECK_EQ(bzna_dataset_get_info(dataset, &info, sizeof info, NULL), BZNA_OK);
    CHECK(info.field_count >= 60);
    bzna_dataset_close(dataset);
    while (at + 12 < one.size && memcmp(one.bytes + at, "\0\0\0\0\0\0\0\x3c", 8))    /* how many names follow */
        at++;
    for (size_t next = at + 1; next + 12 < one.size; next++)                  /* the last such is in moov */
        at = memcmp(one.bytes + next, "\0\0\0\0\0\0\0\x3c", 8) ? at : next;
    REQUIRE(at + 12 < one.size);
    one.bytes[at + 7] = 61;
    CHECK_EQ(bzna_dataset_open_memory(fuzz_context(), one.bytes, (size_t)one.size, NULL, &dataset, &err),
             BZNA_E_LIMIT);
    CHECK_CONTAINS(err.message, "more than 60 fields");
    CHECK(err.byte_offset > at && err.byte_offset < one.size);
}

TEST(names_have_65535_bytes_at_most)
{
    static char name[65537], text[70000];
    const char *const names = name;
    const bzna_sink sink = { sizeof sink, 0, NULL, nothing_written, NULL };
    bzna_writer_config config = { .struct_size = sizeof config, .classes = &names, .class_count = 1 };
    bzna_error err = { 0 };
    bzna_dataset *dataset = NULL;
    bzna_writer *writer = NULL;
    size_t size = 0;
    CHECK_EQ(write_one(&one, 0, 65536, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "sample.name: longer than 65535 bytes");
    CHECK_EQ(write_one(&one, 0, 65535, &err), BZNA_OK);
    CHECK_EQ(bzna_dataset_open_memory(fuzz_context(), one.bytes, (size_t)one.size, NULL, &dataset, &err), BZNA_OK);
    CHECK_EQ(bzna_dataset_field(dataset, 0, "name", text, sizeof text, &size, &err), BZNA_OK);
    CHECK_EQ(strlen(text), 65535);
    bzna_dataset_close(dataset);
    memset(name, 'c', 65536);
    CHECK_EQ(bzna_writer_open_sink(fuzz_context(), &sink, &config, &writer, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "writer_config.classes[0]: longer than 65535 bytes");
    name[65535] = 0;
    CHECK_EQ(bzna_writer_open_sink(fuzz_context(), &sink, &config, &writer, &err), BZNA_OK);
    bzna_writer_close(writer);
}

/* ---- Loaders ---- */

/* Opens a loader over an archive with 60 fields, which may be wrong. Starts no thread. */
static bzna_status open_with(void (*change)(bzna_loader_config *c, uint32_t number), uint32_t number, bzna_error *err)
{
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_loader_config c;
    bzna_status status;
    write_one(&one, 60, 1, err);
    bzna_loader_config_init(&c, sizeof c);
    c.output.batch_size = c.output.width = c.output.height = 1;
    c.pipeline.no_threads = 1;
    c.output.device.kind = BZNA_DEVICE_CPU;
    change(&c, number);
    bzna_dataset_open_memory(fuzz_context(), one.bytes, (size_t)one.size, NULL, &dataset, err);
    status = bzna_loader_open(fuzz_context(), dataset, &c, &loader, err);
    bzna_dataset_close(dataset);
    bzna_loader_close(loader);
    return status;
}

static void use_views(bzna_loader_config *c, uint32_t number) { c->output.views = number; }

TEST(a_loader_has_64_views_at_most)
{
    bzna_error err = { 0 };
    CHECK_EQ(open_with(use_views, 64, &err), BZNA_OK);
    CHECK(open_with(use_views, 65, &err) < 0);
    CHECK_CONTAINS(err.message, "views");
    CHECK_CONTAINS(err.message, "64");
}

static char list[1024];

/* Names with commas between them; of tensors, fields as they are, else some of them several times. */
static const char *list_of(uint32_t number, int are_bytes)
{
    list[0] = 0;
    for (uint32_t i = 0; i < number; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), are_bytes ? "%sn%02u=f%02u" : "%sf%02u",
                 i ? "," : "", i, i % 50);
    return list;
}

static void use_tensors(bzna_loader_config *c, uint32_t number) { c->fields.tensors = list_of(number, 0); }
static void use_bytes(bzna_loader_config *c, uint32_t number) { c->fields.bytes = list_of(number, 1); }

TEST(a_batch_has_16_fields_as_tensors_and_64_as_bytes_at_most)
{
    bzna_error err = { 0 };
    CHECK_EQ(open_with(use_tensors, 16, &err), BZNA_OK);
    CHECK_EQ(open_with(use_tensors, 17, &err), BZNA_E_LIMIT);
    CHECK_CONTAINS(err.message, "loader_config.fields.tensors: more than 16 names");
    CHECK_EQ(open_with(use_bytes, 64, &err), BZNA_OK);
    CHECK_EQ(open_with(use_bytes, 65, &err), BZNA_E_LIMIT);
    CHECK_CONTAINS(err.message, "loader_config.fields.bytes: more than 64 names");
}

static bzna_status no_make(void *user, const bzna_make_input *input, bzna_error *err)
{
    (void)user, (void)input, (void)err;
    return BZNA_OK;
}

static void use_made(bzna_loader_config *c, uint32_t number)
{
    static bzna_made made[33];
    static char names[33][8];
    for (uint32_t i = 0; i < number; i++) {
        snprintf(names[i], sizeof names[i], "m%02u", i % 100);
        made[i].name = names[i];
    }
    c->fields.made = made;
    c->fields.made_count = number;
    c->fields.make = no_make;
}

TEST(a_program_makes_32_tensors_at_most)
{
    bzna_error err = { 0 };
    CHECK_EQ(open_with(use_made, 32, &err), BZNA_OK);
    CHECK_EQ(open_with(use_made, 33, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "made_count: 33 is not in 0..32");
}

#ifdef BENZINA_NO_AUGMENT
TEST(an_output_has_16_policies_of_256_operations_at_most) { SKIP("built with BENZINA_NO_AUGMENT"); }
#else
static void use_policies(bzna_loader_config *c, uint32_t number)
{
    static bzna_policy policies[17];
    for (uint32_t i = 0; i < 17; i++)
        bzna_formats_policy_preset(BZNA_PRESET_AUTO_IMAGENET, 0, 0, &policies[i], NULL);
    c->augment.policies = policies;
    c->augment.policy_count = number;
}

static void use_operations(bzna_loader_config *c, uint32_t number)
{
    static bzna_operation operations[257];
    static bzna_policy policy;
    bzna_formats_policy_preset(BZNA_PRESET_RAND_AUGMENT, 1, 0, &policy, NULL);
    for (uint32_t i = 0; i < 257; i++)
        operations[i] = policy.operations[0];
    policy.operations = operations;
    policy.operation_count = number;
    c->augment.policies = &policy;
    c->augment.policy_count = 1;
}

TEST(an_output_has_16_policies_of_256_operations_at_most)
{
    bzna_error err = { 0 };
    CHECK_EQ(open_with(use_operations, 256, &err), BZNA_OK);
    CHECK_EQ(open_with(use_operations, 257, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "operation_count");
    CHECK(open_with(use_policies, 16, &err) == BZNA_OK || !strstr(err.message, "policy_count"));
    CHECK_EQ(open_with(use_policies, 17, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "policy_count: 17 is not in 0..16");
}
#endif

#else

TEST(an_archive_has_60_fields_of_its_own_at_most) { SKIP("no writer or libjpeg-turbo [libjpeg-dev]"); }
TEST(names_have_65535_bytes_at_most) { SKIP("no writer or libjpeg-turbo [libjpeg-dev]"); }
TEST(a_loader_has_64_views_at_most) { SKIP("no writer or libjpeg-turbo [libjpeg-dev]"); }
TEST(a_batch_has_16_fields_as_tensors_and_64_as_bytes_at_most) { SKIP("no writer or libjpeg-turbo [libjpeg-dev]"); }
TEST(a_program_makes_32_tensors_at_most) { SKIP("no writer or libjpeg-turbo [libjpeg-dev]"); }
TEST(an_output_has_16_policies_of_256_operations_at_most) { SKIP("no writer or libjpeg-turbo [libjpeg-dev]"); }

#endif

TEST(a_data_set_has_65536_files_at_most)
{
    static const char *files[BZI_LIMIT_PARTS + 1];
    bzna_context *context = little_context();
    bzna_dataset *dataset = NULL;
    bzna_error err;
    bzna_error_init(&err, sizeof err);
    for (uint32_t i = 0; i <= BZI_LIMIT_PARTS; i++)
        files[i] = TEST_BUILD "/tests/none";
    CHECK_EQ(bzna_dataset_open_list(context, files, BZI_LIMIT_PARTS + 1, NULL, &dataset, &err), BZNA_E_LIMIT);
    CHECK_CONTAINS(err.message, "65537 paths are more than 65536");
    CHECK_EQ(bzna_dataset_open_list(context, files, BZI_LIMIT_PARTS, NULL, &dataset, &err), BZNA_E_NOT_FOUND);
    bzna_context_close(context);
}

TEST(tensors_that_a_program_makes_have_256_mib_at_most)
{
    bzna_error err = { 0 };
    bzna_made made = { .name = "n", .dtype = BZNA_DTYPE_UINT8, .dimensions = 1, .shape = { BZI_LIMIT_MADE_BYTES / 8 } };
    CHECK_EQ(bzi_made_check(&made, &err), BZNA_OK);
    made.shape[0]++;
    CHECK_EQ(bzi_made_check(&made, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "shape[0]: 33554433;");
    CHECK_CONTAINS(err.message, "at most 268435456 bytes");
}

TEST(vectors_have_65536_numbers_at_most)
{
    bzi_column column;
    CHECK(bzi_column_parse((bzi_span){ (const uint8_t *)"label:65536", 11 }, &column));
    CHECK_EQ(column.length, 65536);
    CHECK(!bzi_column_parse((bzi_span){ (const uint8_t *)"label:65537", 11 }, &column));
}

/* A provider of as many samples as it says. */
static bzna_status give_number(void *user, uint64_t index, uint32_t field, void *buffer, uint64_t capacity,
                               uint64_t *size, bzna_error *err)
{
    (void)err;
    (void)user, (void)field;
    *size = 8;
    if (capacity >= 8)
        memcpy(buffer, &index, 8);
    return BZNA_OK;
}

static bzna_dataset *many_samples(bzna_context *context, uint64_t count, int are_pictures)
{
    static const bzna_provider_field number = { .name = "number", .kind = BZNA_FIELD_INTEGER };
    static const bzna_provider_field image = { .name = "image", .kind = BZNA_FIELD_IMAGE, .codec = BZNA_CODEC_H264 };
    bzna_provider provider = { .struct_size = sizeof provider, .field_count = 1, .count = count,
                               .fields = are_pictures ? &image : &number,
                               .read = give_number };
    bzna_dataset *dataset = NULL;
    bzna_error err = { 0 };
    if (bzna_dataset_open_provider(context, &provider, NULL, &dataset, &err) != BZNA_OK)
        printf("  %s\n", err.message);
    return dataset;
}

TEST(repetitions_are_looked_for_in_2_to_33_samples_at_most)
{
    static const uint64_t indices[] = { 1, 2, 3, 4 };
    bzna_context *context = little_context();
    for (uint64_t past = 0; past < 2; past++) {             /* at the limit, a bit for each: memory is short */
        bzna_dataset *dataset = many_samples(context, BZI_LIMIT_SEEN + past, 0);
        bzna_loader *loader = NULL;
        bzna_loader_config c;
        bzna_error err = { 0 };
        bzna_loader_config_init(&c, sizeof c);
        c.output.batch_size = 2;
        c.output.device.kind = BZNA_DEVICE_CPU;
        c.order.kind = BZNA_ORDER_GIVEN;
        c.fields.tensors = "number";
        CHECK(dataset != NULL);
        const bzna_status status = bzna_loader_open(context, dataset, &c, &loader, &err);
        if (status == BZNA_OK)
            CHECK_EQ(bzna_loader_set_batches(loader, 0, indices, 4, NULL, 0, &err), past ? BZNA_OK : BZNA_E_MEMORY);
        else
            printf("  %s\n", err.message);
        CHECK_EQ(status, BZNA_OK);
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
    }
    bzna_context_close(context);
}

#if !defined(BENZINA_NO_CUDA) && !defined(BENZINA_NO_AVCODEC)

TEST(sound_samples_are_remembered_for_2_to_27_of_them_at_most)
{
    const bzna_context_config config = { .struct_size = sizeof config, .device.kind = BZNA_DEVICE_CUDA };
    bzna_context *context = NULL;
    fake_load();
    CHECK_EQ(bzna_context_open(&config, &context, NULL), BZNA_OK);
    for (uint64_t past = 0; past < 2; past++) {
        bzna_dataset *dataset = many_samples(context, BZI_LIMIT_SOUND + past, 1);
        bzna_loader *loader = NULL;
        bzna_loader_config c;
        bzna_error err = { 0 };
        bzna_loader_config_init(&c, sizeof c);
        c.output.batch_size = c.output.width = c.output.height = 1;
        c.decode.decoder = BZNA_DECODER_NVDEC;
        c.output.device.kind = BZNA_DEVICE_CPU;
        CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &err), BZNA_OK);
        if (loader)
            CHECK_EQ(loader->queues.sound != NULL, !past);
        else
            printf("  %s\n", err.message);
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
    }
    bzna_context_close(context);
}

#else

TEST(sound_samples_are_remembered_for_2_to_27_of_them_at_most) {
    SKIP("built without NVIDIA's headers or libavcodec [libffmpeg-nvenc-dev libavcodec-dev]");
}

#endif

TEST_MAIN(RUN(a_file_that_asks_for_a_thousand_million_entries_costs_what_its_size_allows)
    RUN(a_file_that_asks_for_a_million_entries_costs_what_its_size_allows)
    RUN(a_file_that_asks_for_all_that_32_bits_hold_costs_what_its_size_allows)
    RUN(small_tars_that_ask_for_a_thousand_million_bytes_cost_what_their_size_allows)
    RUN(small_pictures_of_absurd_sizes_cost_what_their_size_allows)
    RUN(every_limit_of_the_library_has_a_test)
    RUN(a_box_has_1048576_children_at_most)
    RUN(a_box_that_is_read_whole_has_512_mib_at_most)
    RUN(a_class_folder_has_1048576_folders_at_most)
    RUN(a_picture_has_16_parameter_sets_of_65536_bytes_at_most)
    RUN(a_picture_that_is_cut_has_256_slices_at_most)
    RUN(names_of_classes_have_256_mib_at_most)
    RUN(an_archive_has_60_fields_of_its_own_at_most)
    RUN(names_have_65535_bytes_at_most)
    RUN(a_loader_has_64_views_at_most)
    RUN(a_batch_has_16_fields_as_tensors_and_64_as_bytes_at_most)
    RUN(a_program_makes_32_tensors_at_most)
    RUN(an_output_has_16_policies_of_256_operations_at_most)
    RUN(a_data_set_has_65536_files_at_most)
    RUN(tensors_that_a_program_makes_have_256_mib_at_most)
    RUN(vectors_have_65536_numbers_at_most)
    RUN(repetitions_are_looked_for_in_2_to_33_samples_at_most)
    RUN(sound_samples_are_remembered_for_2_to_27_of_them_at_most))
