/* test_platforms.c - what systems do differently and a data set must not: the case of names, the order of folders,
 * slashes, line ends, the locale's decimal point, files over 4 GiB, the size of pages. Nothing here is decoded. */
#include "library.h"
#include "../../examples/formats/formats.h"
#include "test.h"
#include "known.h"
#include "../../examples/formats/data.h"
#include <locale.h>
#include <sys/stat.h>

#define TOP TEST_BUILD "/tests/platforms"

#ifdef BENZINA_NO_SHARDS

TEST(what_systems_do_differently_makes_no_difference) { SKIP("built without tar"); }
TEST_MAIN(RUN(what_systems_do_differently_makes_no_difference))

#else

static bzna_context *context;
static bzna_error why;

static void clear(void)
{
    CHECK(!system("rm -rf '" TOP "' && mkdir -p '" TOP "'"));
    if (!context)
        CHECK_EQ(bzna_context_open(NULL, &context, NULL), BZNA_OK);
}

/* A file below TOP, whose name is UTF-8 on all systems; the folder that it lies in is made. */
static void make(const char *name, const char *text)
{
    char path[512];
    bzi_file file;
    snprintf(path, sizeof path, TOP "/%s", name);
    for (char *slash = strchr(path + strlen(TOP) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
    REQUIRE(!bzi_os_file_open(&file, path, 1));
    CHECK_EQ(bzi_os_file_write_at(&file, 0, text, strlen(text)), 0);
    bzi_os_file_close(&file);
}

static bzna_dataset *open_with(const char *path, const bzna_dataset_config *config)
{
    bzna_dataset *dataset = NULL;
    bzna_error_init(&why, sizeof why);
    bzna_dataset_open(context, path, config, &dataset, &why);
    return dataset;
}

static bzna_dataset *open_listed(const char *path, const char *list)
{
    const bzna_formats_config config = { .struct_size = sizeof config, .list = list };
    bzna_dataset *dataset = NULL;
    bzna_error_init(&why, sizeof why);
    bzna_formats_open(context, path, &config, &dataset, &why);
    return dataset;
}

/* Names and targets of all samples, a line each. */
static const char *listing(const bzna_dataset *dataset)
{
    static char text[4096];
    size_t at = 0;
    text[0] = 0;
    for (uint64_t i = 0; dataset && i < bzna_dataset_count(dataset); i++) {
        char name[512] = "";
        int64_t target = -1;
        bzna_dataset_field(dataset, i, "name", name, sizeof name, NULL, NULL);
        bzna_dataset_target(dataset, i, &target, NULL);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s %d\n", name, (int)target);
    }
    return text;
}

static bzna_status look_at(const bzna_dataset *dataset, uint64_t i)
{
    bzna_sample_ref sample;
    bzna_error_init(&why, sizeof why);
    return bzna_dataset_sample(dataset, i, &sample, sizeof sample, &why);
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */

/* Whether the system takes a and A for one name: then what is written to the one is read from the other. */
static int ignores_case(void)
{
    size_t size;
    uint8_t *bytes;
    clear();
    make("probe", "x");
    bytes = slurp(TOP "/PROBE", &size);
    free(bytes);
    return bytes != NULL;
}

TEST(names_that_differ_by_case_alone_are_as_many_samples_as_files)
{
    const int one = ignores_case();
    bzna_dataset *dataset;
    clear();
    make("d/a/X.jpg", "1");
    make("d/a/x.jpg", "2");
    make("d/a/x.JPG", "3");
    dataset = open_with(TOP "/d", NULL);
    REQUIRE(dataset);
    CHECK_STR(listing(dataset), one ? "a/X.jpg 0\n" : "a/X.jpg 0\na/x.JPG 0\na/x.jpg 0\n");
    bzna_dataset_close(dataset);
    printf("a and A are %s here\n", one ? "one name" : "two names");
}

/* Those of a tar are its own, on every system. */
TEST(names_in_a_tar_that_differ_by_case_alone_are_samples_of_their_own)
{
    static const char *const names[] = { "X.cls", "x.cls", "Y.cls" };
    static uint8_t bytes[3 * 1024 + 1024];
    bzna_dataset *dataset = NULL;
    clear();
    memset(bytes, 0, sizeof bytes);
    for (int i = 0; i < 3; i++) {
        uint8_t *head = bytes + 1024 * i;
        unsigned sum = 0;
        strcpy((char *)head, names[i]);
        strcpy((char *)head + 100, "0000644");
        strcpy((char *)head + 124, "00000000001");
        memcpy(head + 257, "ustar\00000", 8);
        head[156] = '0';
        memset(head + 148, ' ', 8);
        for (int k = 0; k < 512; k++)
            sum += head[k];
        snprintf((char *)head + 148, 8, "%06o", sum);
        head[512] = (uint8_t)('4' + i);
    }
    spill(TOP "/a.tar", bytes, sizeof bytes);
    dataset = open_with(TOP "/a.tar", NULL);
    if (!dataset)
        printf("  %s\n", why.message);
    REQUIRE(dataset);
    CHECK_STR(listing(dataset), "X 4\nx 5\nY 6\n");
    bzna_dataset_close(dataset);
}

TEST(a_list_finds_a_file_by_another_case_where_the_system_does)
{
    const int one = ignores_case();
    bzna_dataset *dataset;
    clear();
    make("d/a/x.jpg", "1");
    make("list.txt", "a/x.jpg 7\nA/x.jpg 8\na/X.JPG 9\n");
    dataset = open_listed(TOP "/d", TOP "/list.txt");
    REQUIRE(dataset);
    CHECK_STR(listing(dataset), "a/x.jpg 7\nA/x.jpg 8\na/X.JPG 9\n");      /* names are as the list has them */
    CHECK_EQ(look_at(dataset, 0), BZNA_OK);
    for (uint64_t i = 1; i < 3; i++) {
        CHECK_EQ(look_at(dataset, i), one ? BZNA_OK : BZNA_E_IO);
        CHECK_CONTAINS(one ? "a/X.JPG: cannot open" : why.message, ": cannot open");
    }
    bzna_dataset_close(dataset);
}

/* Windows' own order has no case and has digits by value, macOS' sorts by Unicode, and ext4 has none at all. */
TEST(classes_and_files_are_in_the_order_of_their_bytes)
{
    static const char *const names[] = { "d/b/2.jpg", "d/a/b c.jpg", "d/a/10.jpg", "d/Z/1.jpg", "d/a/9.jpg",
                                         "d/a/_.jpg", "d/a/B.jpg", "d/a/\xc3\xa9.jpg", "d/a-b/1.jpg", "d/a/a.jpg",
                                         "d/a/~.jpg" };
    bzna_dataset *dataset;
    clear();
    for (size_t i = 0; i < COUNT(names); i++)
        make(names[i], "x");
    dataset = open_with(TOP "/d", NULL);
    REQUIRE(dataset);
    CHECK_STR(listing(dataset), "Z/1.jpg 0\na/10.jpg 1\na/9.jpg 1\na/B.jpg 1\na/_.jpg 1\na/a.jpg 1\na/b c.jpg 1\n"
                                "a/~.jpg 1\na/\xc3\xa9.jpg 1\na-b/1.jpg 2\nb/2.jpg 3\n");
    CHECK_EQ(bzi_dataset_fingerprint(dataset), 0x389577503c44aad4);         /* one on all systems, for states */
    bzna_dataset_close(dataset);
}

/* The same of files that a pattern matches. */
TEST(files_that_a_pattern_matches_are_in_the_order_of_their_bytes)
{
    static const char *const names[] = { "b.txt", "10.txt", "B2.txt", "9.txt", "a.txt", "\xc3\xa9.txt", "~.txt" };
    const char *const pattern = TOP "/?*.txt", *const sorted[] = { "10", "9", "B2", "a", "b", "~", "\xc3\xa9" };
    data_names paths = { .count = 0 };
    clear();
    for (size_t i = 0; i < COUNT(names); i++)
        make(names[i], "x");
    bzi_error_init(&why);
    CHECK_EQ(bzna_formats_paths(&paths, pattern, &why), BZNA_OK);
    CHECK_EQ(paths.count, COUNT(sorted));
    for (uint32_t i = 0; i < paths.count && i < COUNT(sorted); i++) {
        char expected[512];
        snprintf(expected, sizeof expected, TOP "/%s.txt", sorted[i]);
        CHECK_STR(paths.list[i], expected);
    }
    bzna_formats_data_free(&paths);
}

TEST(a_backslash_parts_folders_on_windows_and_is_a_character_elsewhere)
{
    bzna_dataset *plain, *other;
    clear();
    make("d/a/1.jpg", "x");
    make("list.txt", "a\\1.jpg 5\n");
    plain = open_with(TOP "/d", NULL);
    other = open_with(TOP "\\d", NULL);
    REQUIRE(plain);
    CHECK(!other == !ON_WINDOWS);
    if (other) {
        CHECK_STR(listing(other), "a/1.jpg 0\n");
        CHECK_EQ(bzi_dataset_fingerprint(other), bzi_dataset_fingerprint(plain));
        CHECK_EQ(look_at(other, 0), BZNA_OK);
    }
    bzna_dataset_close(other);
    bzna_dataset_close(plain);
    other = open_listed(TOP "/d", TOP "/list.txt");
    REQUIRE(other);
    CHECK_STR(listing(other), "a\\1.jpg 5\n");              /* as the list has it, so that fingerprints are one */
    CHECK_EQ(look_at(other, 0), ON_WINDOWS ? BZNA_OK : BZNA_E_IO);
    bzna_dataset_close(other);
    if (ON_WINDOWS)
        return;
    make("d/a\\1.jpg", "x");
    other = open_listed(TOP "/d", TOP "/list.txt");
    REQUIRE(other);
    CHECK_EQ(look_at(other, 0), BZNA_OK);
    bzna_dataset_close(other);
}

/* The same of patterns: before a brace or a star, too, it parts folders on Windows, and escapes elsewhere. */
TEST(a_backslash_in_a_pattern_parts_folders_on_windows_and_escapes_elsewhere)
{
    static const struct { const char *pattern; int count, elsewhere; } ways[] = {
        { TOP "\\p\\{0..1}.rec", 2, 0 }, { TOP "\\p\\{0,1}.rec", 2, 0 }, { TOP "\\p\\*.rec", 2, 1 },
        { TOP "\\{p,q}\\0.rec", 2, 0 },   { TOP "/p/\\{0..1}.rec", 2, 0 }, { TOP "/p/{0,1}.rec", 2, 2 },
        { TOP "\\p\\{0,1", 0, 1 },
    };
    clear();
    for (const char *file = "p/0.rec\0p/1.rec\0q/0.rec\0"; *file; file += strlen(file) + 1)
        make(file, "\x0a\x23\xd7\xce\x1d");
    if (!ON_WINDOWS)
        make("p/{0..1}.rec", "x");
    for (size_t i = 0; i < COUNT(ways); i++) {
        const int wanted = ON_WINDOWS ? ways[i].count : ways[i].elsewhere;
        data_names paths = { .count = 0 };
        bzna_status status;
        bzi_error_init(&why);
        status = bzna_formats_paths(&paths, ways[i].pattern, &why);
        CHECK_EQ(status == BZNA_OK ? (int)paths.count : 0, wanted);     /* a path that is no pattern is one */
        if (!wanted)
            CHECK_CONTAINS(why.message, ON_WINDOWS ? "is not closed" : "has no partner");
        bzna_formats_data_free(&paths);
    }
}

/* What a path names that is empty, no UTF-8, or for which there is no memory, is told apart. */
TEST(an_empty_path_names_nothing_on_every_system)
{
    static const char longer[] = TOP "/none/////////////////////////////////////////////////////////////////////////";
    bzi_file file;
    bzi_os_folder folder;
    clear();
    CHECK_EQ(bzi_os_file_open(&file, "", 0), ENOENT);
    CHECK_EQ(bzi_os_file_open(&file, "", 1), ENOENT);
    CHECK_EQ(bzi_os_folder_open(&folder, ""), ENOENT);
    CHECK_EQ(bzi_os_kind(""), BZI_OS_NONE);
    CHECK_EQ(bzi_os_file_open(&file, longer, 0), ENOENT);
    CHECK_EQ(bzi_os_folder_open(&folder, longer), ENOENT);
    if (ON_WINDOWS)
        CHECK_EQ(bzi_os_file_open(&file, TOP "/\xff", 0), EILSEQ);
}

/* ---- Bytes ------------------------------------------------------------------------------------------------------- */

static bzna_records records_of(uint32_t type, uint32_t width)
{
    bzna_records r;
    bzna_formats_records_init(&r, sizeof r);
    r.data_type = type;
    r.channels = 2;                                         /* which makes a vector of it */
    r.height = 1;
    r.width = width / 2;
    return r;
}

static bzna_dataset *open_records(const char *path, const bzna_records *records)
{
    const bzna_formats_config config = { .struct_size = sizeof config, .records = records };
    bzna_dataset *dataset = NULL;
    bzna_error_init(&why, sizeof why);
    bzna_formats_open(context, path, &config, &dataset, &why);
    return dataset;
}

/* Line ends, ends of text (26) and zeros among them: nothing is translated where files have a text mode. */
TEST(bytes_are_what_they_are)
{
    uint8_t bytes[256 + 6] = "\r\n\n\x1a\r";
    float numbers[256];
    bzna_records records = records_of(BZNA_RECORD_UINT8, 256);
    bzna_dataset *dataset;
    clear();
    for (int i = 0; i < 256; i++)
        bytes[6 + i] = (uint8_t)i;
    {
        bzi_file file;
        REQUIRE(!bzi_os_file_open(&file, TOP "/bytes", 1));
        CHECK_EQ(bzi_os_file_write_at(&file, 0, bytes, sizeof bytes), 0);
        bzi_os_file_close(&file);
    }
    records.header_bytes = 6;
    dataset = open_records(TOP "/bytes", &records);
    REQUIRE(dataset);
    CHECK_EQ(bzna_dataset_count(dataset), 1);
    CHECK_EQ(bzna_dataset_field(dataset, 0, "data", numbers, sizeof numbers, NULL, &why), BZNA_OK);
    for (int i = 0; i < 256; i++)
        CHECK(numbers[i] == (float)i);
    bzna_dataset_close(dataset);
}

/* Lines may end either way. */
TEST(lists_may_have_line_ends_of_either_kind)
{
    static const char *const texts[] = { "a/1.jpg 5\nb/2.jpg 6\n", "a/1.jpg 5\r\nb/2.jpg 6\r\n",
                                         "a/1.jpg 5\r\nb/2.jpg 6" };
    clear();
    make("d/a/1.jpg", "x");
    make("d/b/2.jpg", "x");
    for (size_t i = 0; i < COUNT(texts); i++) {
        bzna_dataset *dataset;
        make("list.txt", texts[i]);
        dataset = open_listed(TOP "/d", TOP "/list.txt");
        REQUIRE(dataset);
        CHECK_STR(listing(dataset), "a/1.jpg 5\nb/2.jpg 6\n");
        bzna_dataset_close(dataset);
    }
}

/* Returns 1 if numbers are printed with a comma from now on. glibc's locale is made here, where localedef can. */
static int comma(void)
{
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8", "de_DE", "German_Germany.1252", "German",
                                         "fr_FR.UTF-8" };
    char text[16];
    for (int made = 0; made < 2; made++) {
        for (size_t i = 0; i < COUNT(names); i++)
            if (setlocale(LC_ALL, names[i]) && snprintf(text, sizeof text, "%.1f", 0.5) == 3 && text[1] == ',') {
                printf("the locale is %s\n", names[i]);
                return 1;
            }
        if (ON_WINDOWS || system("localedef -i de_DE -f UTF-8 " TOP "/de_DE.UTF-8 > /dev/null 2>&1"))
            break;
        setenv("LOCPATH", TOP, 1);
    }
    return 0;
}

TEST(the_locales_decimal_point_does_not_matter)
{
    float numbers[3] = { 0 };
    bzna_dataset *dataset;
    clear();
    make("d/1.jpg", "x");
    make("list.csv", "1.jpg,0.5,-2.25e1,1234567.5\n");
    if (!comma()) {
        setlocale(LC_ALL, "C");
        SKIP("no locale with a decimal comma here [locales]");
    }
    dataset = open_listed(TOP "/d", TOP "/list.csv");
    CHECK(dataset && bzna_dataset_field(dataset, 0, "label", numbers, sizeof numbers, NULL, NULL) == BZNA_OK);
    CHECK(numbers[0] == 0.5f && numbers[1] == -22.5f && numbers[2] == 1234567.5f);
    bzna_dataset_close(dataset);
    make("list.csv", "1.jpg,\"0,5\"\n");                    /* and a comma is none */
    dataset = open_listed(TOP "/d", TOP "/list.csv");
    CHECK(!dataset || bzna_dataset_field(dataset, 0, "label", numbers, sizeof numbers, NULL, NULL) != BZNA_OK ||
          numbers[0] != 0.5f);
    bzna_dataset_close(dataset);
    setlocale(LC_ALL, "C");
}

/* The texts are those of strerror, which this test may call as it has one thread. */
TEST(errors_of_the_system_have_its_text)
{
    static const int errors[] = { ENOENT, EACCES, EMFILE, ENOMEM, EAGAIN, ENOSPC, EIO };
    for (size_t i = 0; i < COUNT(errors); i++)
        CHECK_STR(bzi_os_error(errors[i]), strerror(errors[i]));
    CHECK(bzi_os_error(123456)[0] != 0);
    CHECK(strlen(bzi_os_error(-123456)) < 96);
}

/* ---- Sizes ------------------------------------------------------------------------------------------------------- */

/* A file with a hole, where off_t or long may have 32 bits: samples on both sides of 2 GiB and of 4 GiB. */
TEST(files_are_read_past_4_gib)
{
    enum { EACH = 1 << 20 };
    static const uint64_t samples[] = { 0, 2047, 2048, 4095, 4096, 5000 };
    static float numbers[EACH / 4];
    bzna_records records = records_of(BZNA_RECORD_INT32, EACH / 4);
    bzna_dataset *dataset;
    bzi_file file;
    int error = 0;
    clear();
    REQUIRE(!bzi_os_file_open(&file, TOP "/large", 1));
    for (size_t i = 0; i < COUNT(samples) && !error; i++) {
        const uint8_t number[4] = { (uint8_t)(i + 1), 1, 0, 0 };
        error = bzi_os_file_write_at(&file, samples[i] * EACH + 8, number, 4);
        if (!error)
            error = bzi_os_file_write_at(&file, (samples[i] + 1) * EACH - 4, number, 4);
    }
    bzi_os_file_close(&file);
    if (error) {
        clear();
        SKIP("the disk takes no file of 5 GiB with a hole");
    }
    dataset = open_records(TOP "/large", &records);
    if (!dataset)
        printf("  %s\n", why.message);
    REQUIRE(dataset);
    CHECK_EQ(bzna_dataset_count(dataset), 5001);
    for (size_t i = 0; i < COUNT(samples); i++) {
        CHECK_EQ(bzna_dataset_field(dataset, samples[i], "data", numbers, sizeof numbers, NULL, &why), BZNA_OK);
        CHECK(numbers[0] == 0 && numbers[2] == 257 + (float)i && numbers[EACH / 4 - 1] == 257 + (float)i);
    }
    bzna_dataset_close(dataset);
    clear();
}

/* Samples of a bit more than 4 KiB, 16 KiB and 64 KiB, from an odd byte: no page of any size has a place in that.
 * TEST_PAGE is the size that this run is to have. */
TEST(pages_may_have_any_size)
{
    static const uint32_t sizes[] = { 4096 + 2, 16384 + 6, 65536 + 10 };
    static uint8_t bytes[3 + 40 * (65536 + 10)];
    static float numbers[65536 + 10];
#ifdef _SC_PAGESIZE
    if (getenv("TEST_PAGE"))
        CHECK_EQ(sysconf(_SC_PAGESIZE), atol(getenv("TEST_PAGE")));
    printf("pages of %ld bytes\n", sysconf(_SC_PAGESIZE));
#endif
    clear();
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t k = 0; k < COUNT(sizes); k++) {
        const size_t size = 3 + (size_t)40 * sizes[k];
        bzna_records records = records_of(BZNA_RECORD_UINT8, sizes[k]);
        bzna_dataset *dataset;
        int wrong = 0;
        spill(TOP "/records", bytes, size);
        records.header_bytes = 3;
        dataset = open_records(TOP "/records", &records);
        REQUIRE(dataset);
        CHECK_EQ(bzna_dataset_count(dataset), 40);
        for (uint64_t i = 0; i < 40; i++) {
            wrong += bzna_dataset_field(dataset, i, "data", numbers, sizeof numbers, NULL, NULL) != BZNA_OK;
            for (uint32_t n = 0; n < sizes[k]; n++)
                wrong += numbers[n] != (float)bytes[3 + i * sizes[k] + n];
        }
        CHECK_EQ(wrong, 0);
        bzna_dataset_close(dataset);
    }
    clear();
}

TEST_MAIN(RUN(names_that_differ_by_case_alone_are_as_many_samples_as_files)
    RUN(names_in_a_tar_that_differ_by_case_alone_are_samples_of_their_own)
    RUN(a_list_finds_a_file_by_another_case_where_the_system_does)
    RUN(classes_and_files_are_in_the_order_of_their_bytes)
    RUN(files_that_a_pattern_matches_are_in_the_order_of_their_bytes)
    RUN(a_backslash_parts_folders_on_windows_and_is_a_character_elsewhere)
    RUN(a_backslash_in_a_pattern_parts_folders_on_windows_and_escapes_elsewhere)
    RUN(an_empty_path_names_nothing_on_every_system)
    RUN(bytes_are_what_they_are)
    RUN(lists_may_have_line_ends_of_either_kind)
    RUN(the_locales_decimal_point_does_not_matter)
    RUN(errors_of_the_system_have_its_text)
    RUN(files_are_read_past_4_gib)
    RUN(pages_may_have_any_size)
    if (context) bzna_context_close(context);)

#endif
