/* Folders of pictures: which files, in which order, with which classes. The oracle of the order is ImageFolder's, as
 * tests/peers/folder_order.py has it. */
#include "library.h"
#include "with_formats.h"
#include "test.h"
#include "archives.h"
#include "../../examples/formats/data.h"
#include <sys/socket.h>
#include <sys/un.h>

#define TOP TEST_BUILD "/tests/folders"

/* ---- Folders made by a test ---- */

static void run(const char *format, const char *argument)
{
    char command[8192];
    snprintf(command, sizeof command, format, argument);
    if (system(command))
        printf("  cannot prepare: %s\n", command);
}

static void clear(void) { run("rm -rf '%s'", TOP); run("mkdir -p '%s'", TOP); }

static const char *under(const char *path)
{
    static char full[4][4096];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(full[turn], sizeof *full, "%s/%s", TOP, path);
    return full[turn];
}

static void spill(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    if (!f || fputs(text, f) < 0 || fclose(f))
        printf("  cannot write %s\n", path);
}

static void make_folders(char *path)
{
    for (char *p = strchr(path + strlen(TOP) + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        mkdir(path, 0777);
        *p = '/';
    }
}

/* A file with that path below TOP; its folders are made. A path that ends in '/' is a folder. */
static void make(const char *path)
{
    char full[4096];
    snprintf(full, sizeof full, "%s/%s", TOP, path);
    make_folders(full);
    if (full[strlen(full) - 1] != '/')
        spill(full, "not a picture");
}

/* A list that the next data sets are opened with, until files are made anew; NULL: none. */
static const char *listed;

static void make_all(const char *const *paths, size_t count)
{
    clear();
    listed = NULL;
    for (size_t i = 0; i < count; i++)
        make(paths[i]);
}
#define MAKE(...) do { const char *const make_paths[] = { __VA_ARGS__ }; make_all(make_paths, COUNT(make_paths)); \
    } while (0)

static void make_link(const char *to, const char *path)
{
    char full[4096];
    snprintf(full, sizeof full, "%s/%s", TOP, path);
    make_folders(full);
    CHECK(!symlink(to, full));
}

/* ---- Opening ---- */

static ledger memory_used;
static bzna_context *context;
static bzna_error why;

static bzna_status open_with(const char *path, const bzna_dataset_config *config, bzna_dataset **dataset)
{
    const bzna_formats_config formats = { .struct_size = sizeof formats, .dataset = config, .list = listed };
    bzna_context_config all;
    bzna_error_init(&why, sizeof why);
    if (!context) {
        bzna_context_config_init(&all, sizeof all);
        all.allocator = ledger_allocator(&memory_used);
        require(bzna_context_open(&all, &context, NULL), "context");
    }
    return listed ? bzna_formats_open(context, under(path), &formats, dataset, &why) :
                    bzna_dataset_open(context, under(path), config, dataset, &why);
}

static bzna_dataset *open_folder(const char *path)
{
    bzna_dataset *dataset = NULL;
    if (open_with(path, NULL, &dataset) != BZNA_OK)
        printf("  %s: %s\n", path, why.message);
    return dataset;
}

static void check_refused(const char *path, const bzna_dataset_config *config, bzna_status status, const char *part)
{
    bzna_dataset *dataset = NULL;
    CHECK_EQ(open_with(path, config, &dataset), status);
    CHECK(!dataset);
    CHECK_CONTAINS(why.message, part);
    bzna_dataset_close(dataset);
}

static const char *name_of(const bzna_dataset *dataset, uint64_t i)
{
    static char name[4][4096];
    static int turn;
    turn = (turn + 1) % 4;
    name[turn][0] = 0;
    bzna_dataset_field(dataset, i, "name", name[turn], sizeof *name, NULL, NULL);
    return name[turn];
}

static const char *class_of(const bzna_dataset *dataset, int64_t target)
{
    static char name[256];
    name[0] = 0;
    bzna_dataset_class(dataset, target, name, sizeof name, NULL, NULL);
    return name;
}

static int64_t target_at(const bzna_dataset *dataset, uint64_t i)
{
    int64_t target = -7;
    bzna_dataset_target(dataset, i, &target, NULL);
    return target;
}

/* Names and targets, each "target name", against those expected. */
static void check_samples(const bzna_dataset *dataset, const char *const *expected, size_t count)
{
    CHECK_EQ(bzna_dataset_count(dataset), count);
    for (size_t i = 0; i < count && i < bzna_dataset_count(dataset); i++) {
        char line[4200];
        snprintf(line, sizeof line, "%lld %s", (long long)target_at(dataset, i), name_of(dataset, i));
        CHECK_STR(line, expected[i]);
    }
}
#define CHECK_SAMPLES(dataset, ...) do { const char *const expected_[] = { __VA_ARGS__ }; \
    check_samples(dataset, expected_, COUNT(expected_)); } while (0)

static bzna_status look_at(const bzna_dataset *dataset, uint64_t i)
{
    bzna_sample_ref sample;
    bzna_error_init(&why, sizeof why);
    return bzna_dataset_sample(dataset, i, &sample, sizeof sample, &why);
}

/* ---- The order ---- */

#define ORACLE "python3 tests/peers/folder_order.py '%s'"
/* Debian's torchvision is for Debian's Python. */
#define TORCHVISION "for p in python3 /usr/bin/python3; do $p tests/peers/folder_order.py '%s' --torchvision; s=$?; " \
                    "[ $s = 3 ] || exit $s; done; exit 3"

/* Against what the shell's command prints; how many samples it has. */
static uint64_t check_against(const char *oracle, const char *path)
{
    char command[4096], line[4200];
    bzna_dataset *dataset = open_folder(path);
    uint64_t n = 0;
    size_t length = 0;
    FILE *made;
    int c;
    const char *top = under(path), *hole = strstr(oracle, "%s");
    snprintf(command, sizeof command, "%.*s%s%s", (int)(hole - oracle), oracle, top, hole + 2);
    made = popen(command, "r");
    if (!made || !dataset) {
        CHECK(0);
        return 0;
    }
    while ((c = fgetc(made)) != EOF) {
        char ours[4200];
        line[length] = (char)c;
        length = c ? length + 1 : 0;
        if (c)
            continue;
        snprintf(ours, sizeof ours, "%d %s", (int)target_at(dataset, n), name_of(dataset, n));
        CHECK_STR(ours, line);
        n++;
    }
    c = pclose(made);
    if (WIFEXITED(c) && WEXITSTATUS(c) == 3)
        test_skip_reason = "torchvision is not installed [python3-torchvision]";
    else
        CHECK_EQ(c, 0);
    CHECK(test_skip_reason || bzna_dataset_count(dataset) == n);
    bzna_dataset_close(dataset);
    return n;
}

static uint64_t check_against_oracle(const char *path) { return check_against(ORACLE, path); }

TEST(samples_have_the_order_and_targets_of_ImageFolder)
{
    if (system("python3 -c '' >/dev/null 2>&1"))
        SKIP("no python3 [python3]");
    MAKE("d/10/b.jpg", "d/10/a.JPG", "d/10/a.jpg", "d/10/A.jpg", "d/2/z.png", "d/2/10.png", "d/2/9.png", "d/B/x.jpeg",
         "d/a-b/x.jpg", "d/a/z.ppm", "d/a/s/1.jpg", "d/a/s-1/1.jpg", "d/a/s/t/1.bmp", "d/a/s0/1.pgm", "d/a/notes.txt",
         "d/a/jpg", "d/a/x.jpg.txt", "d/a/x.tar.tif", "d/a.b/x.tiff", "d/a.b/dir.jpg/x.WebP", "d/\xc3\xa9/x.jpg",
         "d/a b/new\nline.jpg", "d/a b/\xff\xfe.jpg", "d/a b/tab\t.jpg", "d/\n/x.jpg", "d/root.jpg", "elsewhere/1.jpg",
         "elsewhere/in/2.jpg");
    make_link("../../elsewhere", "d/a/s00");
    make_link("../elsewhere", "d/linked");
    make_link("../../elsewhere/1.jpg", "d/a/link.jpg");
    make_link("nowhere", "d/a/broken.jpg");
    CHECK_EQ(check_against_oracle("d"), 28);
}

/* The order of code points is that of UTF-8's bytes, so names that are UTF-8 have Python's order. Others have that of
 * their bytes: of each sequence there are the beginning, others that follow, too long ones, surrogates, and what is
 * past U+10FFFF. */
TEST(names_that_are_not_utf8_have_the_order_of_their_bytes)
{
    static const char *const odd[] = {
        "\x80", "\xbf", "\xc3", "\xff", "\xfe", "\xc3\xa9", "\xc3\xa9\x80", "\xc3" "A", "\xc0\xaf", "\xed\x9f\xbf",
        "\xed\xa0\x80", "\xee\x80\x80", "\xef\xbf\xbd", "\xe4\xb8\xad", "\xe4\xb8", "\xe4\xb8" "a", "\xe4\xb8\xad\xad",
        "\xe0\x80\xaf", "\xf0\x9f\x98\x80", "\xf0\x9f\x98", "\xf0\x9f\x98\x80\x80", "\xf0\x9f\x98\x81",
        "\xf4\x90\x80\x80",
        "\xf4\x8f\xbf\xbf", "\xf5\x80\x80\x80", "\xf0\x80\x80\xaf", "\x80\x80\x80\x80\x80\xee\x80\x80", "a\xff",
        "a\xee\x80\x80",
        "a", "z", "\xff\xe4\xb8\xad", "\x80\x80\x80\x80\x80\xff", "\xe4\xff", "\xe4" "a", "\xee\x80", "\xee", "\xf0"
    };
    char path[128];
    uint32_t x = 1;
    if (ON_WINDOWS || system("python3 -c '' >/dev/null 2>&1"))
        SKIP("no python3 [python3]");
    clear();
    for (size_t i = 0; i < COUNT(odd); i++) {
        snprintf(path, sizeof path, "d/%s/1.jpg", odd[i]);
        make(path);
        snprintf(path, sizeof path, "d/a/%s.jpg", odd[i]);
        make(path);
        snprintf(path, sizeof path, "d/a/%s/1.jpg", odd[i]);
        make(path);
    }
    for (int i = 0; i < 300; i++) {
        x = x * 1664525u + 1013904223u;
        snprintf(path, sizeof path, "d/%s%s/%s.jpg", odd[(x >> 8) % COUNT(odd)], odd[(x >> 16) % COUNT(odd)],
                 odd[(x >> 24) % COUNT(odd)]);
        make(path);
    }
    CHECK(check_against(ORACLE " --bytes", "d") > 300);
}

/* The order finds classes by name, too. */
TEST(classes_that_are_not_utf8_are_chosen_by_name)
{
    static const char *const names[] = { "\xff", "z", "\xee\x80\x80" };
    bzna_dataset_config config;
    bzna_dataset *dataset = NULL;
    if (ON_WINDOWS)
        SKIP("names are UTF-16 there");
    MAKE("d/\xff/1.jpg", "d/\xee\x80\x80/1.jpg", "d/z/1.jpg", "d/\xed\x9f\xbf/1.jpg", "d/\x80/1.jpg");
    bzna_dataset_config_init(&config, sizeof config);
    config.classes = names;
    config.class_count = 3;
    REQUIRE(open_with("d", &config, &dataset) == BZNA_OK);
    CHECK_SAMPLES(dataset, "0 \xff/1.jpg", "1 z/1.jpg", "2 \xee\x80\x80/1.jpg");
    bzna_dataset_close(dataset);
}

TEST(torchvision_itself_has_that_order)
{
    if (ON_WINDOWS)
        SKIP("no python3 for Windows");
    MAKE("d/b/2.jpg", "d/b/10.PNG", "d/b/sub/1.jpg", "d/b/sub-a/1.jpg", "d/b/sub/z/1.bmp", "d/a.b/1.webp", "d/A/1.tiff",
         "d/\xc3\xa9/1.jpg", "d/a/1.jpg", "d/a/1.txt");    /* hidden ones, which it takes, are left out here */
    CHECK(!symlink("../a", under("d/b/link")));
    (void)check_against(TORCHVISION, "d");
}

TEST(many_folders_have_that_order_too)
{
    char path[128];
    uint32_t x = 1;
    if (system("python3 -c '' >/dev/null 2>&1"))
        SKIP("no python3 [python3]");
    clear();
    for (int i = 0; i < 600; i++) {
        x = x * 1664525u + 1013904223u;
        snprintf(path, sizeof path, "d/%u/%s%u%s%x.jpg", x >> 24 & 15, x & 256 ? "s" : "", x >> 20 & 7,
                 x & 1024 ? "/" : x & 2048 ? "-" : "", x >> 4);
        make(path);
    }
    CHECK(check_against_oracle("d") > 500);
}

TEST(a_folder_opens_alike_however_many_threads_list_it)
{
    bzna_dataset *one = NULL, *two = NULL;
    char path[64];
    clear();
    for (int i = 0; i < 400; i++) {
        snprintf(path, sizeof path, "d/%d/%d.jpg", i % 40, i);
        make(path);
    }
    one = open_folder("d");
    REQUIRE(one);
    for (int i = 0; i < 20; i++) {
        two = open_folder("d");
        REQUIRE(two);
        CHECK_EQ(bzi_dataset_fingerprint(two), bzi_dataset_fingerprint(one));
        CHECK_EQ(bzna_dataset_count(two), 400);
        bzna_dataset_close(two);
    }
    bzna_dataset_close(one);
}

/* ---- Classes ---- */

TEST(fields_are_image_target_and_name)
{
    bzna_dataset *dataset;
    bzna_dataset_info info;
    bzna_field_info field;
    bzna_sample_ref sample = { .struct_size = sizeof sample };
    const char *const names[] = { "image", "target", "name" };
    const uint32_t kinds[] = { BZNA_FIELD_IMAGE, BZNA_FIELD_INTEGER, BZNA_FIELD_TEXT };
    MAKE("d/cat/1.jpg", "d/cat/2.jpg", "d/dog/1.jpg");
    dataset = open_folder("d");
    REQUIRE(dataset);
    CHECK_EQ(bzna_dataset_get_info(dataset, &info, sizeof info, NULL), BZNA_OK);
    CHECK_STR(info.container, "folder");
    CHECK_EQ(info.sample_count, 3);
    CHECK_EQ(info.target_count, 3);
    CHECK_EQ(info.field_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQ(bzna_dataset_field_info(dataset, i, &field, sizeof field, NULL), BZNA_OK);
        CHECK_STR(field.name, names[i]);
        CHECK_EQ(field.kind, kinds[i]);
    }
    CHECK_EQ(bzna_dataset_field_info(dataset, 3, &field, sizeof field, NULL), BZNA_E_RANGE);
    CHECK_EQ(bzna_dataset_sample(dataset, 2, &sample, sizeof sample, NULL), BZNA_OK);
    CHECK_EQ(sample.size, 13);
    CHECK_EQ(sample.target, 1);
    CHECK_EQ(sample.image_count, 1);
    CHECK_STR(sample.image_names[0], "image");
    bzna_dataset_close(dataset);
}

TEST(classes_have_the_names_of_their_folders)
{
    char small[4];
    size_t needed = 0;
    bzna_dataset *dataset, *mini = NULL, *both = NULL;
    bzna_dataset *parts[2];
    MAKE("d/bird/1.jpg", "d/cat/1.jpg");
    dataset = open_folder("d");
    REQUIRE(dataset);
    CHECK_STR(class_of(dataset, 0), "bird");
    CHECK_STR(class_of(dataset, 1), "cat");
    CHECK_EQ(bzna_dataset_class(dataset, 0, small, 4, &needed, NULL), BZNA_E_BUFFER);
    CHECK_EQ(needed, 5);
    CHECK_EQ(bzna_dataset_class(dataset, 1, small, 4, &needed, NULL), BZNA_OK);
    CHECK_EQ(needed, 4);
    CHECK_EQ(bzna_dataset_class(dataset, 2, small, 4, NULL, &why), BZNA_E_RANGE);
    CHECK_CONTAINS(why.message, "2 classes");
    CHECK_EQ(bzna_dataset_class(dataset, -1, small, 4, NULL, NULL), BZNA_E_RANGE);
    CHECK_EQ(bzna_dataset_class(dataset, 0, NULL, 0, &needed, NULL), BZNA_E_BUFFER);
    CHECK_EQ(bzna_dataset_class(NULL, 0, NULL, 0, &needed, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_dataset_open(context, mini_files[0], NULL, &mini, NULL), BZNA_OK);
    CHECK_EQ(bzna_dataset_class(mini, 0, small, 4, &needed, NULL), BZNA_E_NOT_FOUND);
    parts[0] = mini;
    parts[1] = dataset;
    CHECK_EQ(bzna_dataset_concat(context, parts, 2, &both, NULL), BZNA_OK);
    CHECK_STR(class_of(both, 1), "cat");
    bzna_dataset_close(both);
    bzna_dataset_close(mini);
    bzna_dataset_close(dataset);
}

TEST(classes_are_numbered_by_text_or_by_number)
{
    bzna_dataset_config config;
    bzna_dataset *dataset = NULL;
    check_refused("missing", NULL, BZNA_E_NOT_FOUND, "missing: cannot open");
    MAKE("d/10/x.jpg", "d/9/x.jpg", "d/009/y.jpg", "d/0/x.jpg", "d/18446744073709551617/x.jpg", "d/12/x.jpg",
         "d/11/x.jpg", "d/0008/x.jpg", "d/013/x.jpg", "bad/1/x.jpg", "bad/1a/x.jpg");
    dataset = open_folder("d");
    REQUIRE(dataset);
    CHECK_SAMPLES(dataset, "0 0/x.jpg", "1 0008/x.jpg", "2 009/y.jpg", "3 013/x.jpg", "4 10/x.jpg", "5 11/x.jpg",
                  "6 12/x.jpg", "7 18446744073709551617/x.jpg", "8 9/x.jpg");
    bzna_dataset_close(dataset);
    bzna_dataset_config_init(&config, sizeof config);
    config.class_order = BZNA_CLASS_ORDER_NUMERIC;
    REQUIRE(open_with("d", &config, &dataset) == BZNA_OK);
    CHECK_SAMPLES(dataset, "0 0/x.jpg", "1 0008/x.jpg", "2 009/y.jpg", "3 9/x.jpg", "4 10/x.jpg", "5 11/x.jpg",
                  "6 12/x.jpg", "7 013/x.jpg", "8 18446744073709551617/x.jpg");
    CHECK_STR(class_of(dataset, 4), "10");
    bzna_dataset_close(dataset);
    check_refused("bad", &config, BZNA_E_ARGUMENT, "\"1a\" is not a number");
}

TEST(classes_can_be_chosen)
{
    const char *const chosen[] = { "dog", "ant" }, *const unknown[] = { "dog", "cow" };
    const char *const twice[] = { "ant", "ant" };
    bzna_dataset_config config;
    bzna_dataset *dataset = NULL;
    MAKE("d/ant/x.jpg", "d/cat/x.jpg", "d/dog/x.jpg", "d/empty/", "flat/x.jpg");
    check_refused("d", NULL, BZNA_E_NO_SAMPLES, "empty: the class folder has no picture files");
    bzna_dataset_config_init(&config, sizeof config);
    config.classes = chosen;
    config.class_count = 2;
    REQUIRE(open_with("d", &config, &dataset) == BZNA_OK);
    CHECK_SAMPLES(dataset, "0 dog/x.jpg", "1 ant/x.jpg");
    CHECK_STR(class_of(dataset, 1), "ant");
    bzna_dataset_close(dataset);
    check_refused("flat", &config, BZNA_E_NOT_FOUND, "no folder \"dog\"");
    config.classes = unknown;
    check_refused("d", &config, BZNA_E_NOT_FOUND, "classes[1]: there is no folder \"cow\"");
    config.classes = twice;
    check_refused("d", &config, BZNA_E_ARGUMENT, "\"ant\" is named twice");
}

TEST(empty_classes_have_numbers_where_they_are_allowed)
{
    static const char *const order[] = { "void", "dog", "b" };
    bzna_dataset_config config;
    bzna_dataset *dataset = NULL;
    MAKE("d/a/", "d/ant/x.jpg", "d/b/note.txt", "d/b/deeper/", "d/c/", "d/dog/x.jpg", "d/dog/y.jpg", "d/void/", "e/a/",
         "e/b/note.txt", "flat/x.jpg");
    bzna_dataset_config_init(&config, sizeof config);
    config.allow_empty = 1;
    REQUIRE(open_with("d", &config, &dataset) == BZNA_OK);
    CHECK_SAMPLES(dataset, "1 ant/x.jpg", "4 dog/x.jpg", "4 dog/y.jpg");
    CHECK_STR(class_of(dataset, 0), "a");
    CHECK_STR(class_of(dataset, 2), "b");
    CHECK_STR(class_of(dataset, 5), "void");
    bzna_dataset_close(dataset);
    config.classes = order;
    config.class_count = 3;
    REQUIRE(open_with("d", &config, &dataset) == BZNA_OK);
    CHECK_SAMPLES(dataset, "1 dog/x.jpg", "1 dog/y.jpg");
    bzna_dataset_close(dataset);
    config.classes = NULL;
    config.class_count = 0;
    check_refused("e", &config, BZNA_E_NO_SAMPLES, "none of its class folders has picture files: \"b/note.txt\" has");
    check_refused("flat", &config, BZNA_E_ARGUMENT, "dataset_config.allow_empty: it has no effect on this data set");
    config.allow_empty = 2;
    check_refused("d", &config, BZNA_E_ARGUMENT, "allow_empty");
}

TEST(a_folder_without_folders_has_no_targets)
{
    bzna_dataset *dataset;
    bzna_field_info field;
    MAKE("d/b.jpg", "d/a.gif", "d/c.txt", "d/d.jp2", "d/.hidden.jpg", "d/.cache/x.jpg", "d/no. jpg", "d/no.jpg jpeg");
    dataset = open_folder("d");
    REQUIRE(dataset);
    CHECK_SAMPLES(dataset, "-1 a.gif", "-1 b.jpg", "-1 d.jp2");
    CHECK_EQ(bzna_dataset_field_info(dataset, 1, &field, sizeof field, NULL), BZNA_OK);
    CHECK_STR(field.name, "name");
    CHECK_EQ(bzna_dataset_field_info(dataset, 2, &field, sizeof field, NULL), BZNA_E_RANGE);
    CHECK_EQ(bzna_dataset_class(dataset, 0, NULL, 0, NULL, NULL), BZNA_E_NOT_FOUND);
    bzna_dataset_close(dataset);
}

TEST(roots_that_are_not_class_folders_are_refused_with_a_hint)
{
    bzna_dataset_config config;
    bzna_dataset *dataset;
    const char *const splits[] = { "train", "val" };
    MAKE("d/train/cat/1.jpg", "d/train/dog/1.jpg", "d/val/cat/1.jpg", "d/val/dog/1.jpg", "one/x/images/1.jpg",
         "one/y/images/1.jpg", "empty/", "text/a.txt");
    check_refused("d", NULL, BZNA_E_FORMAT, "open one of them (\"train\")");
    bzna_dataset_config_init(&config, sizeof config);
    config.classes = splits;
    config.class_count = 2;
    CHECK_EQ(open_with("d", &config, &dataset), BZNA_OK);
    CHECK_EQ(bzna_dataset_count(dataset), 4);
    bzna_dataset_close(dataset);
    dataset = open_folder("one");
    REQUIRE(dataset);
    CHECK_SAMPLES(dataset, "0 x/images/1.jpg", "1 y/images/1.jpg");
    bzna_dataset_close(dataset);
    check_refused("empty", NULL, BZNA_E_NO_SAMPLES, "neither pictures nor folders");
    check_refused("text", NULL, BZNA_E_NO_SAMPLES, "neither pictures nor folders");
}

TEST(what_a_folder_cannot_have_is_refused)
{
    bzna_dataset_config config;
    MAKE("d/a/1.jpg");
    bzna_dataset_config_init(&config, sizeof config);
    config.split = "train";
    check_refused("d", &config, BZNA_E_ARGUMENT, "which is of kind folder");
    config.split = NULL;
    config.format = "archive";
    check_refused("d", &config, BZNA_E_FORMAT, "it is a folder, not \"archive\"");
    config.format = "folder";
    check_refused("d/a/1.jpg", &config, BZNA_E_FORMAT, "the file is not of the format \"folder\"");
    config.class_order = 2;
    check_refused("d", &config, BZNA_E_ARGUMENT, "class_order");
    config.class_order = BZNA_CLASS_ORDER_NUMERIC;
    check_refused("d/a", &config, BZNA_E_ARGUMENT, "dataset_config.class_order: it has no effect on this data set");
    spill(under("l.lst"), "0\t4\ta/1.jpg\n");
    listed = TOP "/l.lst";
    check_refused("d", &config, BZNA_E_ARGUMENT,
                  "dataset_config.class_order: it has no effect on this data set");
    listed = NULL;
    config.classes = (const char *const[]){ "a" };
    config.class_count = 1;
    check_refused("d", &config, BZNA_E_ARGUMENT, "dataset_config.class_order: dataset_config.classes sets the order");
}

TEST(folders_that_are_called_as_splits_are_no_classes)
{
    static const char *const names[] = { "train", "val", "Test" };
    bzna_dataset_config config;
    bzna_dataset *dataset = NULL;
    MAKE("d/train/1.jpg", "d/val/2.jpg", "d/Test/3.jpg", "one/val2017/1.jpg", "more/train/1.jpg", "more/plane/1.jpg");
    check_refused("d", NULL, BZNA_E_FORMAT, 
                  "its folders are named like splits, not like classes: open one of them (\"Test\"), or");
    check_refused("one", NULL, BZNA_E_FORMAT, "named like splits");
    bzna_dataset_config_init(&config, sizeof config);
    config.classes = names;
    config.class_count = 3;
    REQUIRE(open_with("d", &config, &dataset) == BZNA_OK);
    CHECK_SAMPLES(dataset, "0 train/1.jpg", "1 val/2.jpg", "2 Test/3.jpg");
    bzna_dataset_close(dataset);
    dataset = open_folder("more");                          /* a train among other things */
    REQUIRE(dataset);
    CHECK_SAMPLES(dataset, "0 plane/1.jpg", "1 train/1.jpg");
    bzna_dataset_close(dataset);
    spill(under("l.lst"), "0\t4\ttrain/1.jpg\n");
    bzna_dataset_config_init(&config, sizeof config);
    listed = TOP "/l.lst";
    REQUIRE(open_with("d", &config, &dataset) == BZNA_OK);
    CHECK_SAMPLES(dataset, "4 train/1.jpg");
    bzna_dataset_close(dataset);
}

/* As data sets of competitions are unpacked: one folder over train and test, with files and other folders beside. Only
 * the names of all folders in the root are judged, and only together. */
TEST(folders_beside_train_and_test_are_classes)
{
    static const char *const chosen[] = { "pets" };
    bzna_dataset_config config;
    bzna_dataset *dataset = NULL;
    MAKE("d/pets/train/cat/1.jpg", "d/pets/test/2.jpg", "d/pets/submission.csv", "two/pets/train/1.jpg",
         "two/pets/val/1.jpg", "two/__MACOSX/pets/1.jpg", "beside/train/1.jpg", "beside/test/1.jpg",
         "beside/images/1.jpg", "plane/train/test/1.jpg", "plane/plane/1.jpg");
    dataset = open_folder("beside");
    REQUIRE(dataset);
    CHECK_SAMPLES(dataset, "0 images/1.jpg", "1 test/1.jpg", "2 train/1.jpg");
    bzna_dataset_close(dataset);
    bzna_dataset_config_init(&config, sizeof config);
    config.classes = chosen;
    config.class_count = 1;
    REQUIRE(open_with("d", &config, &dataset) == BZNA_OK);
    CHECK_EQ(bzna_dataset_count(dataset), 2);
    bzna_dataset_close(dataset);
    dataset = open_folder("plane");                         /* one such name says nothing */
    REQUIRE(dataset);
    CHECK_SAMPLES(dataset, "0 plane/1.jpg", "1 train/test/1.jpg");
    bzna_dataset_close(dataset);
}

TEST(a_folder_without_pictures_says_what_it_holds_instead)
{
    MAKE("p/data/train-00000-of-00001.parquet", "p/data/z.txt", "l/data.mdb", "l/lock.mdb", "t/a.txt", "t/b.txt",
         "n/x/y/notes.md");
    spill(under("p/data/train-00000-of-00001.parquet"), "PAR1....");
    FILE *f = fopen(under("l/data.mdb"), "wb");
    REQUIRE(f);
    fwrite("\0\0\0\0\0\0\0\0\0\0\x08\0\0\0\0\0\xde\xc0\xef\xbe\1\0\0\0", 1, 24, f);
    fclose(f);
    check_refused("p", NULL, BZNA_E_NO_SAMPLES,
                  "has no picture files: \"data/train-00000-of-00001.parquet\" has another extension");
    check_refused("p/data", NULL, BZNA_E_NO_SAMPLES, ": \"train-00000-of-00001.parquet\" has another extension");
    check_refused("l", NULL, BZNA_E_NO_SAMPLES, "nor folders of them: \"data.mdb\" has another extension");
    check_refused("t", NULL, BZNA_E_NO_SAMPLES, "nor folders of them: \"a.txt\" has another extension");
    check_refused("n", NULL, BZNA_E_NO_SAMPLES, "has no picture files: \"x/y/notes.md\" has another extension");
}

/* ---- Lists ---- */

/* Caffe's val.txt. */
TEST(a_list_of_names_and_labels_with_blanks_is_read)
{
    bzna_dataset *dataset = NULL;
    MAKE("d/1.jpg", "d/2 b.jpg");
    spill(under("val.txt"), "1.jpg 65\n2 b.jpg  970\n");
    listed = TOP "/val.txt";
    REQUIRE(open_with("d", NULL, &dataset) == BZNA_OK);
    CHECK_SAMPLES(dataset, "65 1.jpg", "970 2 b.jpg");
    bzna_dataset_close(dataset);
}

TEST(a_list_names_the_files_and_their_targets)
{
    bzna_dataset *dataset = NULL;
    bzna_field_info field;
    MAKE("d/b/2.jpg", "d/a/1.x", "d/3.jpg");
    spill(under("l.lst"), "7\t4\tb/2.jpg\n3\t0\ta/1.x\n9\t1000\tgone.jpg\n");
    listed = TOP "/l.lst";
    REQUIRE(open_with("d", NULL, &dataset) == BZNA_OK);
    CHECK_SAMPLES(dataset, "4 b/2.jpg", "0 a/1.x", "1000 gone.jpg");
    CHECK_EQ(look_at(dataset, 1), BZNA_OK);
    CHECK_EQ(look_at(dataset, 2), BZNA_E_IO);
    CHECK_EQ(bzna_dataset_class(dataset, 0, NULL, 0, NULL, NULL), BZNA_E_NOT_FOUND);
    CHECK_EQ(bzna_dataset_field_info(dataset, 3, &field, sizeof field, NULL), BZNA_E_RANGE);
    bzna_dataset_close(dataset);
    spill(under("l.lst"), "7\t4\tb/2.jpg\nx\t0\ta/1.x\n");
    check_refused("d", NULL, BZNA_E_FORMAT, "line 2");
    listed = TOP "/none.lst";
    check_refused("d", NULL, BZNA_E_NOT_FOUND, "none.lst: cannot open");
}

/* -1 says that a sample has none. No label goes through a float. */
TEST(a_label_of_minus_one_costs_no_other_sample_its_target)
{
    static const char *const lists[] = { "0\t9007199254740993\t1.jpg\n1\t-1\t2.jpg\n2\t-9223372036854775808\t1.jpg\n"
                                         "3\t9223372036854775807\t2.jpg\n",
                                         "path,label\n1.jpg,9007199254740993\n2.jpg,-1\n1.jpg,-9223372036854775808\n"
                                         "2.jpg,9223372036854775807\n",
                                         "1.jpg 9007199254740993\n2.jpg -1\n1.jpg -9223372036854775808\n"
                                         "2.jpg 9223372036854775807\n" };
    bzna_dataset *dataset = NULL;
    int64_t target;
    MAKE("d/1.jpg", "d/2.jpg");
    listed = TOP "/l.lst";
    for (size_t i = 0; i < COUNT(lists); i++) {
        spill(under("l.lst"), lists[i]);
        REQUIRE(open_with("d", NULL, &dataset) == BZNA_OK);
        CHECK_SAMPLES(dataset, "9007199254740993 1.jpg", "-1 2.jpg", "-9223372036854775808 1.jpg",
                      "9223372036854775807 2.jpg");
        CHECK_EQ(bzna_dataset_field(dataset, 1, "target", &target, sizeof target, NULL, NULL), BZNA_E_NOT_FOUND);
        CHECK_EQ(bzna_dataset_field(dataset, 3, "target", &target, sizeof target, NULL, NULL), BZNA_OK);
        bzna_dataset_close(dataset);
    }
    spill(under("l.lst"), "0\t1.jpg\n1\t7\t2.jpg\n");    /* a line without a label has no target, either */
    REQUIRE(open_with("d", NULL, &dataset) == BZNA_OK);
    CHECK_SAMPLES(dataset, "-1 1.jpg", "7 2.jpg");
    bzna_dataset_close(dataset);
    spill(under("l.lst"), "0\t-1\t1.jpg\n1\t-1\t2.jpg\n");
    REQUIRE(open_with("d", NULL, &dataset) == BZNA_OK);
    CHECK_SAMPLES(dataset, "-1 1.jpg", "-1 2.jpg");
    bzna_dataset_close(dataset);
}

TEST(a_list_whose_labels_become_other_numbers_is_refused_by_file_and_line)
{
    MAKE("d/1.jpg", "d/2.jpg");
    listed = TOP "/l.csv";
    spill(under("l.csv"), "1.jpg,0.5\n2.jpg,25130987\n");
    check_refused("d", NULL, BZNA_E_FORMAT, "l.csv: line 2 at byte 10: formats_config.list: a vector of");
    spill(under("l.csv"), "1.jpg,1\n2.jpg,3,25130987\n");
    check_refused("d", NULL, BZNA_E_FORMAT, "l.csv: line 2 at byte 8: formats_config.list: a vector of");
    spill(under("l.csv"), "1.jpg,1\n2.jpg,9223372036854775808\n");
    check_refused("d", NULL, BZNA_E_FORMAT, "l.csv: line 2 at byte 8: a label has more than 64 bits");
    spill(under("l.csv"), "1.jpg,nan\n2.jpg,1\n");
    check_refused("d", NULL, BZNA_E_FORMAT, "l.csv: line 1 at byte 0: a label is not a number");
}

TEST(a_list_of_other_labels_gives_vectors)
{
    bzna_dataset *dataset = NULL;
    bzna_field_info field;
    float labels[3] = { 0 };
    size_t needed = 0;
    MAKE("d/1.jpg", "d/2.jpg");
    spill(under("l.csv"), "1.jpg,0.5,2\n2.jpg,\n");
    listed = TOP "/l.csv";
    REQUIRE(open_with("d", NULL, &dataset) == BZNA_OK);
    CHECK_SAMPLES(dataset, "-1 1.jpg", "-1 2.jpg");
    CHECK_EQ(bzna_dataset_field_info(dataset, 1, &field, sizeof field, NULL), BZNA_OK);
    CHECK(field.kind == BZNA_FIELD_VECTOR && !strcmp(field.name, "label"));
    CHECK_EQ(bzna_dataset_field(dataset, 0, "label", labels, sizeof labels, &needed, NULL), BZNA_OK);
    CHECK(needed == 8 && labels[0] == 0.5f && labels[1] == 2);
    CHECK_EQ(bzna_dataset_field(dataset, 1, "label", labels, sizeof labels, &needed, NULL), BZNA_E_NOT_FOUND);
    bzna_dataset_close(dataset);
}

/* ---- Hostile folders ---- */

TEST(links_that_lead_back_are_refused_by_their_path)
{
    if (ON_WINDOWS)
        SKIP("links need a right that few have here");
    MAKE("d/a/1.jpg", "d/b/in/1.jpg", "c/a/1.jpg");
    make_link("..", "d/b/in/back");
    check_refused("d", NULL, BZNA_E_ARGUMENT, "b/in/back: this link leads back");
    make_link("..", "c/a/root");
    check_refused("c", NULL, BZNA_E_ARGUMENT, "a/root: this link leads back");
}

TEST(folders_that_links_multiply_are_met_in_each_place)
{
    if (ON_WINDOWS)
        SKIP("links need a right that few have here");
    bzna_dataset *dataset;
    MAKE("d/a/1.jpg", "x/1.jpg");
    make_link("../../x", "d/a/one");
    make_link("../../x", "d/a/two");
    dataset = open_folder("d");
    REQUIRE(dataset);
    CHECK_SAMPLES(dataset, "0 a/1.jpg", "0 a/one/1.jpg", "0 a/two/1.jpg");
    bzna_dataset_close(dataset);
}

TEST(pipes_and_sockets_are_no_pictures)
{
    if (ON_WINDOWS)
        SKIP("pipes and sockets have no paths here");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    bzna_dataset *dataset;
    MAKE("d/a/1.jpg");
    CHECK(!mkfifo(under("d/a/2.jpg"), 0666));
    snprintf(address.sun_path, sizeof address.sun_path, "%s", under("d/a/3.jpg"));
    CHECK(!bind(fd, (struct sockaddr *)&address, sizeof address));
    dataset = open_folder("d");
    REQUIRE(dataset);
    CHECK_SAMPLES(dataset, "0 a/1.jpg");
    CHECK(!unlink(under("d/a/1.jpg")) && !mkfifo(under("d/a/1.jpg"), 0666));        /* it is not waited for */
    CHECK(bzna_dataset_image_info(dataset, 0, NULL, &(bzna_image_info){ 0 }, sizeof(bzna_image_info), &why) < 0);
    bzna_dataset_close(dataset);
    close(fd);
}

TEST(paths_that_are_too_long_are_refused)
{
    char path[4600] = TOP "/d/a", name[201];
    memset(name, 'x', 200);
    name[200] = 0;
    MAKE("d/a/1.jpg");
    /* deeper than a path can say: by relative steps */
    snprintf(path, sizeof path,
             "cd '%s/d/a' && i=0 && while [ $i -lt 25 ]; do mkdir %s && cd -P %s 2>/dev/null || cd %s || exit 1; "
             "i=$((i + 1)); done", TOP, name, name, name);
    if (system(path))
        SKIP("the shell cannot make paths of 5000 bytes");
    check_refused("d", NULL, BZNA_E_LIMIT, "a path has at most 4095 bytes");
    clear();
}

#define OBEY "setpriv --bounding-set=-dac_override,-dac_read_search --inh-caps=-dac_override,-dac_read_search "

TEST(a_folder_that_cannot_be_read_is_named)
{
    if (ON_WINDOWS)
        SKIP("no folder can be made unreadable here");
#ifdef TEST_EMULATED
    if (geteuid() == 0)
        SKIP("root reads all folders, and an emulated program does not run itself again");
#endif
    if (geteuid() == 0 && !getenv("BENZINA_TEST_OBEYS")) {
        /* root reads all folders: this test again, by a root who must obey */
        char program[512], command[1024];
        const ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
        program[size > 0 ? size : 0] = 0;
        if (system("command -v setpriv > /dev/null"))
            SKIP("root reads all folders, and there is no setpriv [util-linux]");
        if (system(OBEY "true 2> /dev/null"))
            SKIP("root reads all folders, and may not give that up here");
        snprintf(command, sizeof command, OBEY "env BENZINA_TEST_OBEYS=1 '%s' =a_folder_that_cannot_be_read_is_named "
                 "> " TOP ".log", program);
        CHECK_EQ(system(command), 0);
        CHECK_EQ(system("grep -q '1 passed' " TOP ".log"), 0);
        return;
    }
    MAKE("d/a/1.jpg", "d/b/1.jpg", "d/b/in/1.jpg");
    CHECK(!chmod(under("d/b/in"), 0));
    check_refused("d", NULL, BZNA_E_IO, "b/in: cannot list");
    CHECK(!chmod(under("d/b/in"), 0777));
}

TEST(a_file_that_is_gone_fails_its_own_sample_by_name)
{
    bzna_dataset *dataset;
    const char *const odd = ON_WINDOWS ? "d/a/2+.jpg" : "d/a/2\n.jpg";      /* names have no \n there */
    MAKE("d/a/1.jpg", odd, "d/a/3.jpg");
    if (ON_WINDOWS)
        make("d/a/4.jpg");
    else
        make_link("nowhere", "d/a/4.jpg");
    dataset = open_folder("d");
    REQUIRE(dataset);
    CHECK_EQ(bzna_dataset_count(dataset), 4);
    CHECK(!unlink(under(odd)) && (!ON_WINDOWS || !unlink(under("d/a/4.jpg"))));
    CHECK(!unlink(under("d/a/3.jpg")) && !mkdir(under("d/a/3.jpg"), 0777));
    CHECK_EQ(look_at(dataset, 0), BZNA_OK);
    CHECK_EQ(look_at(dataset, 1), BZNA_E_IO);
    CHECK_CONTAINS(why.message, ON_WINDOWS ? "d/a/2+.jpg: cannot open" : "d/a/2?.jpg: cannot open");
    CHECK_CONTAINS(why.message, "sample 1: ");
    CHECK_EQ(look_at(dataset, 2), BZNA_E_IO);
    CHECK_EQ(look_at(dataset, 3), BZNA_E_IO);
    CHECK_STR(name_of(dataset, 1), odd + 2);
    bzna_dataset_close(dataset);
}

/* Which of the samples are no pictures, and which are gone, each sample's own error says. */
TEST(a_loader_goes_on_past_files_that_are_gone)
{
    bzna_loader_config config;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_dataset *dataset;
#ifdef BENZINA_NO_AVCODEC
    SKIP("built without libavcodec [libavcodec-dev]");
#endif
    MAKE("d/a/1.jpg", "d/a/2.jpg", "d/b/1.jpg", "d/b/2.jpg");
    dataset = open_folder("d");
    REQUIRE(dataset);
    CHECK(!unlink(under("d/a/1.jpg")) && !unlink(under("d/b/1.jpg")));
    CHECK(!(ON_WINDOWS ? mkdir(under("d/b/1.jpg"), 0777) : mkfifo(under("d/b/1.jpg"), 0666)));
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = 4;
    config.output.width = config.output.height = 8;
    config.fields.image = "image";
    CHECK_EQ(bzna_loader_open(context, dataset, &config, &loader, &why), BZNA_OK);
    REQUIRE(loader);
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &why), BZNA_OK);
    if (batch) {
        const bzna_status expected[4] = { BZNA_E_IO, BZNA_E_CODEC, ON_WINDOWS ? BZNA_E_IO : BZNA_E_UNSUPPORTED,
                                           BZNA_E_CODEC };
        CHECK_EQ(info_of(batch).failed, 4);
        for (uint32_t i = 0; i < 4; i++) {
            bzna_error_init(&why, sizeof why);
            bzna_batch_error(batch, i, &why);
            CHECK_EQ(why.status, expected[i]);
            CHECK_CONTAINS(why.message, i < 2 ? "/d/a/" : "/d/b/");
        }
        bzna_batch_release(batch);
    }
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(a_folder_is_found_again_when_the_working_folder_changes)
{
    char here[4096];
    bzna_dataset *dataset;
    MAKE("d/a/1.jpg");
    dataset = open_folder("d");
    REQUIRE(dataset && getcwd(here, sizeof here));
    CHECK(!chdir("/"));
    CHECK_EQ(look_at(dataset, 0), BZNA_OK);
    CHECK(!chdir(here));
    bzna_dataset_close(dataset);
}

TEST(fingerprints_tell_names_and_orders_apart)
{
    const char *const order[] = { "b", "a" };
    bzna_dataset_config config;
    bzna_dataset *dataset = NULL;
    uint64_t first, second;
    MAKE("d/a/1.jpg", "d/b/2.jpg");
    dataset = open_folder("d");
    REQUIRE(dataset);
    first = bzi_dataset_fingerprint(dataset);
    bzna_dataset_close(dataset);
    bzna_dataset_config_init(&config, sizeof config);
    config.classes = order;
    config.class_count = 2;
    REQUIRE(open_with("d", &config, &dataset) == BZNA_OK);
    CHECK(bzi_dataset_fingerprint(dataset) != first);
    bzna_dataset_close(dataset);
    CHECK(!rename(under("d/b/2.jpg"), under("d/b/3.jpg")));
    dataset = open_folder("d");
    REQUIRE(dataset);
    second = bzi_dataset_fingerprint(dataset);
    CHECK(second != first);
    bzna_dataset_close(dataset);
    CHECK(!rename(under("d/b/3.jpg"), under("d/b/2.jpg")));
    spill(under("d/b/2.jpg"), "other");                  /* what is in them is not looked at */
    dataset = open_folder("d");
    REQUIRE(dataset);
    CHECK_EQ(bzi_dataset_fingerprint(dataset), first);
    bzna_dataset_close(dataset);
}

/* ---- Cost ---- */

TEST(opening_costs_at_most_100_bytes_a_file)
{
    int64_t before;
    bzna_dataset *dataset;
    char path[128];
    clear();
    for (int i = 0; i < 5000; i++) {
        snprintf(path, sizeof path, "d/n%08d/n%08d_%d.JPEG", i / 100, i / 100, i);
        make(path);
    }
    bzna_dataset_close(open_folder("d"));
    before = memory_used.bytes;
    dataset = open_folder("d");
    REQUIRE(dataset);
    CHECK_EQ(bzna_dataset_count(dataset), 5000);
    CHECK(memory_used.bytes - before < 5000 * 50);
    bzna_dataset_close(dataset);
    CHECK_EQ(memory_used.bytes, before);
    clear();
}

TEST(memory_that_runs_out_fails_the_opening_and_nothing_is_lost)
{
    MAKE("d/a/1.jpg", "d/a/in/1.jpg", "d/b/1.jpg", "d/b/in/1.png");
    for (int paired = 0; paired < 2; paired++) {
        const bzna_formats_config formats = { .struct_size = sizeof formats, .pairs = "a,b" };
        bzna_dataset *dataset = NULL;
        bzna_dataset_config config;
        bzna_status status = BZNA_E_MEMORY;
        int64_t before;
        int n = 0;
        bzna_dataset_config_init(&config, sizeof config);
        bzna_dataset_close(open_folder("d"));
        before = memory_used.bytes;
        while (status != BZNA_OK && n++ < 500) {
            memory_used.fail_at = n;
            status = paired ? bzna_formats_open(context, under("d"), &formats, &dataset, &why) :
                              open_with("d", &config, &dataset);
            memory_used.fail_at = 0;
            CHECK(status == BZNA_OK || status == BZNA_E_MEMORY);
            CHECK(status == BZNA_OK || memory_used.bytes == before);
        }
        CHECK(n > (paired ? 3 : 10));
        CHECK_EQ(status, BZNA_OK);
        bzna_dataset_close(dataset);
    }
}

/* ---- Pairs ---- */

static bzna_status open_pairs_with(const char *pairs, const bzna_dataset_config *config, bzna_dataset **dataset)
{
    const bzna_formats_config formats = { .struct_size = sizeof formats, .dataset = config, .pairs = pairs };
    bzna_error_init(&why, sizeof why);
    return bzna_formats_open(context, under("set"), &formats, dataset, &why);
}

static void check_pairs_with(const char *pairs, const bzna_dataset_config *config, bzna_status status,
                             const char *part)
{
    bzna_dataset *dataset = NULL;
    CHECK_EQ(open_pairs_with(pairs, config, &dataset), status);
    CHECK_CONTAINS(why.message, part);
    CHECK_CONTAINS(why.message, under("set"));
    CHECK(!dataset);
}

static void check_pairs(const char *pairs, bzna_status status, const char *part)
{
    check_pairs_with(pairs, NULL, status, part);
}

static bzna_dataset *open_pairs(const char *pairs)
{
    bzna_dataset *dataset = NULL;
    CHECK_EQ(open_pairs_with(pairs, NULL, &dataset), BZNA_OK);
    if (!dataset)
        printf("  %s: %s\n", pairs, why.message);
    return dataset;
}

TEST(files_of_the_same_name_in_two_folders_make_a_sample)
{
    static const char *const names[] = { "a.jpg", "a.b.jpg", "b.jpg", "b-c.jpg", "deep/a.png", "deep/er/a.jpg" };
    bzna_dataset *dataset;
    bzna_field_info field = { .struct_size = sizeof field };
    MAKE("set/images/a.jpg", "set/images/a.b.jpg", "set/images/b-c.jpg", "set/images/b.jpg", "set/images/deep/a.png",
         "set/images/deep/er/a.jpg", "set/images/notes.txt", "set/images/.hidden.jpg",
         "set/out/masks/a.PNG", "set/out/masks/a.b.png", "set/out/masks/b.gif", "set/out/masks/b-c.png",
         "set/out/masks/deep/a.png", "set/out/masks/deep/er/a.png", "set/out/masks/colors.csv");
    dataset = open_pairs("images,mask=out/masks");
    CHECK_EQ(bzna_dataset_count(dataset), COUNT(names));
    for (uint64_t i = 0; i < COUNT(names); i++)
        CHECK_STR(name_of(dataset, i), names[i]);
    for (uint32_t i = 0; i < 3; i++) {
        static const char *const fields[] = { "images", "mask", "name" };
        CHECK_EQ(bzna_dataset_field_info(dataset, i, &field, sizeof field, NULL), BZNA_OK);
        CHECK_STR(field.name, fields[i]);
        CHECK_EQ(field.kind, i < 2 ? BZNA_FIELD_IMAGE : BZNA_FIELD_TEXT);
    }
    for (uint64_t i = 0; i < COUNT(names); i++) {
        bzna_sample_ref sample = { .struct_size = sizeof sample };
        CHECK_EQ(bzna_dataset_sample(dataset, i, &sample, sizeof sample, NULL), BZNA_OK);
        CHECK_EQ(sample.size, 2 * strlen("not a picture") + 16);
        CHECK(sample.image_count == 2 && sample.target == BZNA_TARGET_NONE);
    }
    bzna_dataset_close(dataset);
}

TEST(a_file_without_a_partner_is_named)
{
    MAKE("set/images/a.jpg", "set/images/b.jpg", "set/images/sub/c.jpg", "set/masks/a.png", "set/masks/b.png",
         "set/masks/sub/c.png", "set/more/a.png", "set/twice/a.png", "set/twice/a.jpg", "set/nothing/a.txt",
         "set/twins/a.png", "set/twins/a.jpg");
    bzna_dataset_close(open_pairs("images,masks"));
    check_pairs("images,more", BZNA_E_NOT_FOUND, "\"b.jpg\" in images has no partner in more");
    check_pairs("more,images", BZNA_E_NOT_FOUND, "\"b.jpg\" in images has no partner in more");
    check_pairs("images,masks,more", BZNA_E_NOT_FOUND, "\"b.jpg\" in images has no partner in more");
    make("set/masks/sub/d.png");
    check_pairs("images,masks", BZNA_E_NOT_FOUND, "\"sub/d.png\" in masks has no partner in images");
    check_pairs("more,twice", BZNA_E_NOT_FOUND, " in twice has no partner in more");
    check_pairs("twice,twins", BZNA_E_NOT_FOUND, " in twice has no partner in twins");
    check_pairs("images,nothing", BZNA_E_NOT_FOUND, "\"a.jpg\" in images has no partner in nothing");
    check_pairs("images,absent", BZNA_E_NOT_FOUND, "absent: cannot list: No such file");
}

TEST(pairs_that_are_written_wrong_are_refused)
{
    bzna_dataset_config config;
    bzna_dataset *dataset = NULL;
    MAKE("set/images/a.jpg", "set/masks/a.png", "set/c/a.png", "set/d/a.png", "set/e/a.png");
    bzna_dataset_close(open_pairs("images,masks,c,d"));
    check_pairs("images", BZNA_E_ARGUMENT, "\"images\" does not name 2 to 4 folders");
    check_pairs("images,masks,c,d,e", BZNA_E_ARGUMENT, "does not name 2 to 4 folders");
    check_pairs("", BZNA_E_ARGUMENT, "\"\" does not name 2 to 4 folders");
    check_pairs("images,", BZNA_E_ARGUMENT, "\"images,\" does not name 2 to 4 folders");
    check_pairs("images,=masks", BZNA_E_ARGUMENT, "it must have 1 to 31 bytes");
    check_pairs("images,m=", BZNA_E_ARGUMENT, "does not name 2 to 4 folders");
    check_pairs("images,a-name-that-is-far-too-long-for-it=masks", BZNA_E_ARGUMENT, "it must have 1 to 31 bytes");
    check_pairs("images,images=masks", BZNA_E_ARGUMENT, "\"images\" is the name of another field");
    check_pairs("images,name=masks", BZNA_E_ARGUMENT, "\"name\" is the name of another field");
    bzna_dataset_config_init(&config, sizeof config);
    config.class_order = BZNA_CLASS_ORDER_NUMERIC;
    check_pairs_with("images,masks", &config, BZNA_E_ARGUMENT, "dataset_config.class_order");
    config.class_order = 0;
    config.format = "folder";
    check_pairs_with("images,masks", &config, BZNA_E_FORMAT, "dataset_config.format");
    config.format = "folder pairs";
    CHECK_EQ(open_pairs_with("images,masks", &config, &dataset), BZNA_OK);
    bzna_dataset_close(dataset);
    CHECK(!symlink("..", under("set/images/back")));
    check_pairs("images,masks", BZNA_E_NOT_FOUND, "back/");
}

int main(int argc, char **argv)
{
    (void)argc;
    test_start(argv);
    RUN(names_that_are_not_utf8_have_the_order_of_their_bytes)
    RUN(classes_that_are_not_utf8_are_chosen_by_name)
    RUN(samples_have_the_order_and_targets_of_ImageFolder)
    RUN(files_of_the_same_name_in_two_folders_make_a_sample)
    RUN(a_file_without_a_partner_is_named)
    RUN(pairs_that_are_written_wrong_are_refused)
    RUN(torchvision_itself_has_that_order)
    RUN(many_folders_have_that_order_too)
    RUN(a_folder_opens_alike_however_many_threads_list_it)
    RUN(fields_are_image_target_and_name)
    RUN(classes_have_the_names_of_their_folders)
    RUN(classes_are_numbered_by_text_or_by_number)
    RUN(classes_can_be_chosen)
    RUN(empty_classes_have_numbers_where_they_are_allowed)
    RUN(a_folder_without_folders_has_no_targets)
    RUN(roots_that_are_not_class_folders_are_refused_with_a_hint)
    RUN(what_a_folder_cannot_have_is_refused)
    RUN(folders_that_are_called_as_splits_are_no_classes)
    RUN(folders_beside_train_and_test_are_classes)
          RUN(a_folder_without_pictures_says_what_it_holds_instead)
          RUN(a_list_of_names_and_labels_with_blanks_is_read)
          RUN(a_list_names_the_files_and_their_targets)
    RUN(a_label_of_minus_one_costs_no_other_sample_its_target)
    RUN(a_list_whose_labels_become_other_numbers_is_refused_by_file_and_line)
    RUN(a_list_of_other_labels_gives_vectors)
    RUN(links_that_lead_back_are_refused_by_their_path)
    RUN(folders_that_links_multiply_are_met_in_each_place)
    RUN(pipes_and_sockets_are_no_pictures)
    RUN(paths_that_are_too_long_are_refused)
    RUN(a_folder_that_cannot_be_read_is_named)
    RUN(a_file_that_is_gone_fails_its_own_sample_by_name)
    RUN(a_loader_goes_on_past_files_that_are_gone)
    RUN(a_folder_is_found_again_when_the_working_folder_changes)
    RUN(fingerprints_tell_names_and_orders_apart)
    RUN(opening_costs_at_most_100_bytes_a_file)
    RUN(memory_that_runs_out_fails_the_opening_and_nothing_is_lost)
    bzna_context_close(context);
    if (memory_used.bytes || memory_used.blocks || memory_used.mistakes) {
        printf("FAIL memory_is_given_back: %d bytes are left, %d releases were wrong\n", (int)memory_used.bytes,
               (int)memory_used.mistakes);
        test_failed++;
    }
    printf("%s: %d passed, %d failed, %d skipped\n", __FILE__, test_passed, test_failed, test_skipped);
    return test_failed != 0;
}
