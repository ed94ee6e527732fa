/* What patterns stand for: examples/formats/paths.c; and bzna_formats_open with them. */
#include "library.h"
#include "test.h"
#include "known.h"
#include "patterns.h"
#include "tars.h"
#include "../../examples/formats/data.h"
#include <ftw.h>

#define TOP TEST_BUILD "/tests/paths"

static bzna_error why;

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info;
    (void)type;
    (void)walk;
    return remove(path);
}

static void clear(void)
{
    nftw(TOP, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    mkdir(TOP, 0777);
}

/* What the oracle makes of patterns, a line each, as one text; NULL: it is missing. */
static char *ask_oracle(const char *how, const char *const *patterns, size_t count)
{
    static char answer[1 << 20];
    char command[256];
    size_t size;
    FILE *f;
    mkdir(TOP, 0777);
    f = fopen(TOP "/patterns.txt", "wb");
    for (size_t i = 0; f && i < count; i++)
        fprintf(f, "%s\n", patterns[i]);
    if (!f || fclose(f))
        return NULL;
    snprintf(command, sizeof command, "${PYTHON:-python3} tests/peers/patterns.py %s < %s/patterns.txt", how, TOP);
    if (!(f = popen(command, "r")))
        return NULL;
    size = fread(answer, 1, sizeof answer - 1, f);
    answer[size] = 0;
    return pclose(f) ? NULL : answer;
}

/* The same of ours. */
static void braces_of(const char *pattern, char *out)
{
    static char texts[1 << 23];
    const char *p = texts;
    size_t needed = 0;
    uint32_t count = 0;
    if (bzna_formats_braces(pattern, texts, sizeof texts, &needed, &count, NULL) != BZNA_OK) {
        strcpy(out, "=!\n\n");
        return;
    }
    for (uint32_t i = 0; i < count && i < 2000; i++, p += strlen(p) + 1)
        out += sprintf(out, "=%s\n", p);
    CHECK(count >= 2000 || p == texts + needed);
    strcpy(out, "\n");
}

/* The answers are stored, because braceexpand is not everywhere. */
TEST(braces_expand_as_braceexpand_does)
{
    for (size_t i = 0; i < COUNT(stored_braces); i++) {
        static char ours[1 << 16];
        braces_of(stored_braces[i].pattern, ours);
        CHECK_STR(ours, stored_braces[i].texts);
    }
}

TEST(expanded_braces_need_room)
{
    char texts[64];
    size_t needed = 0;
    uint32_t count = 7;
    bzna_error err = { .struct_size = sizeof err };
    CHECK_EQ(bzna_formats_braces("s-{08..10}.tar", NULL, 0, &needed, &count, &err), BZNA_E_BUFFER);
    CHECK(needed == 3 * 9 && count == 3);
    memset(texts, 'x', sizeof texts);
    CHECK_EQ(bzna_formats_braces("s-{08..10}.tar", texts, needed - 1, NULL, NULL, &err), BZNA_E_BUFFER);
    CHECK_CONTAINS(err.message, "the texts need 27 bytes, the buffer has 26");
    CHECK(texts[26] == 'x');
    CHECK_EQ(bzna_formats_braces("s-{08..10}.tar", texts, needed, NULL, NULL, &err), BZNA_OK);
    CHECK(!memcmp(texts, "s-08.tar\0s-09.tar\0s-10.tar", 27) && texts[27] == 'x');
    CHECK_EQ(bzna_formats_braces("a\\{b,c\\}::*.tar", texts, sizeof texts, &needed, &count, &err), BZNA_OK);
    CHECK_STR(texts, "a{b,c}::*.tar");
    CHECK_EQ(bzna_formats_braces("{1..2", texts, sizeof texts, &needed, &count, &err), BZNA_E_ARGUMENT);
    CHECK(needed == 0 && count == 0);
    CHECK_EQ(bzna_formats_braces("{1..99999}", texts, sizeof texts, NULL, NULL, &err), BZNA_E_LIMIT);
    CHECK_EQ(bzna_formats_braces(NULL, texts, sizeof texts, NULL, NULL, &err), BZNA_E_ARGUMENT);
}

TEST(the_stored_answers_are_those_of_braceexpand)
{
    const char *patterns[COUNT(stored_braces)], *theirs;
    for (size_t i = 0; i < COUNT(patterns); i++)
        patterns[i] = stored_braces[i].pattern;
    theirs = ask_oracle("braces", patterns, COUNT(patterns));
    if (!theirs)
        SKIP("no python3 with braceexpand [python3-braceexpand]");
    for (size_t i = 0; i < COUNT(patterns); i++) {
        const size_t size = strlen(stored_braces[i].texts);
        REQUIRE(!strncmp(theirs, stored_braces[i].texts, size));
        theirs += size;
    }
    CHECK_STR(theirs, "");
}

TEST(braces_that_stand_for_too_much_are_refused)
{
    enum { GROUPS = 64 };
    char groups[6 * (GROUPS + 1) + 1], text[GROUPS + 1];
    size_t needed = 0;
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof groups - 1; i += 6)
        memcpy(groups + i, "{1..1}", 7);
    bzna_error_init(&why, sizeof why);
    CHECK_EQ(bzna_formats_braces(groups, NULL, 0, NULL, NULL, &why), BZNA_E_LIMIT);
    CHECK_CONTAINS(why.message, "more than 64 groups in braces");
    CHECK_EQ(bzna_formats_braces(groups + 6, text, sizeof text, &needed, &count, &why), BZNA_OK);
    CHECK(count == 1 && needed == GROUPS + 1 && strlen(text) == GROUPS);
    CHECK_EQ(bzna_formats_braces("{1..999999999999}", NULL, 0, NULL, NULL, &why), BZNA_E_LIMIT);
    CHECK_CONTAINS(why.message, "the pattern expands to more than 65536 files");
}

TEST(braces_at_random_expand_as_braceexpand_does)
{
    enum { COUNT_ = 3000 };
    static char made[COUNT_][24];
    static const char *patterns[COUNT_];
    const char *theirs;
    uint32_t x = 7;
    for (int i = 0; i < COUNT_; i++) {
        for (int k = 0; k < 20; k++) {
            x = x * 1664525u + 1013904223u;
            made[i][k] = "{{{}}},,..01a\\"[x >> 20 & 15 ? (x >> 20 & 15) - 1 : 0];
        }
        x = x * 1664525u + 1013904223u;
        made[i][x >> 20 & 15] = 0;
        for (char *p = made[i]; *p; p++)
            if (*p == '\\' && (!p[1] || p[1] == '\\'))
                *p = 'x';                                   /* braceexpand has no rule, or takes it away twice */
        patterns[i] = made[i];
    }
    theirs = ask_oracle("braces", patterns, COUNT_);
    if (!theirs)
        SKIP("no python3 with braceexpand [python3-braceexpand]");
    for (int i = 0; i < COUNT_; i++) {
        static char ours[1 << 16];
        braces_of(made[i], ours);
        CHECK(!strncmp(theirs, ours, strlen(ours)));
        if (strncmp(theirs, ours, strlen(ours))) {
            printf("  \"%s\" gives\n%s", made[i], ours);
            return;
        }
        theirs += strlen(ours);
    }
}

static void expand(data_names *paths, const char *pattern, bzna_status expected)
{
    *paths = (data_names){ .count = 0 };
    bzna_error_init(&why, sizeof why);
    CHECK_EQ(bzna_formats_paths(paths, pattern, &why), expected);
}

static void check_paths(const char *pattern, const char *const *expected, size_t count)
{
    data_names paths;
    expand(&paths, pattern, BZNA_OK);
    CHECK_EQ(paths.count, count);
    for (uint32_t i = 0; i < count && i < paths.count; i++)
        CHECK_STR(paths.list[i], expected[i]);
    bzna_formats_data_free(&paths);
}
#define CHECK_PATHS(pattern, ...) do { const char *const expected_[] = { __VA_ARGS__ }; \
    check_paths(pattern, expected_, COUNT(expected_)); } while (0)

static void check_pattern_refused(const char *pattern, bzna_status status, uint64_t at, const char *part)
{
    data_names paths;
    expand(&paths, pattern, status);
    CHECK_EQ(why.byte_offset, at);
    CHECK_CONTAINS(why.message, part);
    bzna_formats_data_free(&paths);
}

static void touch(const char *const *paths, size_t count)
{
    clear();
    for (size_t i = 0; i < count; i++) {
        char full[4096];
        FILE *f;
        snprintf(full, sizeof full, "%s/%s", TOP, paths[i]);
        for (char *p = full + strlen(TOP) + 1; (p = strchr(p, '/')) != NULL; p++) {
            *p = 0;
            mkdir(full, 0777);
            *p = '/';
        }
        if ((f = fopen(full, "wb")) != NULL)
            fclose(f);
    }
}
#define TOUCH(...) do { const char *const touched[] = { __VA_ARGS__ }; touch(touched, COUNT(touched)); } while (0)

TEST(wildcards_match_as_glob_does)
{
    static const char *const patterns[] = { TOP "/*", TOP "/*.tar", TOP "/?.tar", TOP "/[ab].tar", TOP "/[!ab].tar",
                                            TOP "/*/*.tar", TOP "/s*/x?[0-9]*", TOP "/.h*", TOP "/[0-9]*.tar",
                                            TOP "/*\xff*" };
    const char *theirs;
    char ours[1 << 14];
    TOUCH("a.tar", "b.tar", "B.tar", "10.tar", "9.tar", ".hidden.tar", "sub/x_1.tar", "sub/x_22.tar", "sub2/x_3",
          "\xc3\xa9.tar", "n\xff.tar", "patterns.txt");
    theirs = ask_oracle("glob", patterns, COUNT(patterns));
    if (!theirs)
        SKIP("no python3 [python3]");
    for (size_t i = 0; i < COUNT(patterns); i++) {
        data_names paths;
        char *out = ours;
        expand(&paths, patterns[i], BZNA_OK);
        for (uint32_t k = 0; k < paths.count; k++)
            out += sprintf(out, "=%s\n", paths.list[k]);
        strcpy(out, "\n");
        CHECK(!strncmp(theirs, ours, strlen(ours)));
        theirs += strlen(ours);
        bzna_formats_data_free(&paths);
    }
    CHECK_STR(theirs, "");
    clear();
}

TEST(a_path_that_exists_is_never_a_pattern)
{
    if (ON_WINDOWS) {                                       /* whose names have no *, : or \ */
        TOUCH("a{b,c}.x", "[1].x", "1.x");
        CHECK_PATHS(TOP "/a{b,c}.x", TOP "/a{b,c}.x");
        CHECK_PATHS(TOP "/[1].x", TOP "/[1].x");
        CHECK_PATHS(TOP "/{[1],1}.x", TOP "/[1].x", TOP "/1.x");
        CHECK_PATHS(TOP "/[12].x", TOP "/1.x");
        clear();
        return;
    }
    TOUCH("a{b,c}.x", "[1].x", "1.x", "*.x", "a::b", "b\\*.x", ".hidden");
    CHECK_PATHS(TOP "/a{b,c}.x", TOP "/a{b,c}.x");
    CHECK_PATHS(TOP "/[1].x", TOP "/[1].x");
    CHECK_PATHS(TOP "/*.x", TOP "/*.x");
    CHECK_PATHS(TOP "/a::b", TOP "/a::b");
    CHECK_PATHS(TOP "/b\\*.x", TOP "/b\\*.x");
    CHECK_PATHS(TOP "/{[1],1}.x", TOP "/[1].x", TOP "/1.x");
    CHECK_PATHS(TOP "/[12].x", TOP "/1.x");
    CHECK_PATHS(TOP "/[0-\\9].x", TOP "/1.x");              /* as fnmatch has it */
    CHECK_PATHS(TOP "/\\.h*", TOP "/.hidden");
    CHECK_PATHS(TOP "/\\[1].{x,y}", TOP "/[1].x", TOP "/[1].y");
    CHECK_PATHS(TOP "/?.{x,[x]}::" TOP "/none", TOP "/*.x", TOP "/1.x", TOP "/*.x", TOP "/1.x", TOP "/none");
    clear();
}

TEST(patterns_that_mean_nothing_are_refused)
{
    data_names paths;
    clear();
    check_pattern_refused("x/a{b,c", BZNA_E_ARGUMENT, 3, "the { at byte 3 has no partner");
    check_pattern_refused("a}b", BZNA_E_ARGUMENT, 1, "the } at byte 1 has no partner");
    check_pattern_refused("a::", BZNA_E_ARGUMENT, 3, "::");
    check_pattern_refused("::a", BZNA_E_ARGUMENT, 0, "::");
    check_pattern_refused(TOP "/no*", BZNA_E_NOT_FOUND, BZNA_NO_OFFSET, "no file matches");
    check_pattern_refused("{1..65537}", BZNA_E_LIMIT, BZNA_NO_OFFSET, "more than 65536 files");
    check_pattern_refused("{1..999999999999999999}{1..999999999999999999}", BZNA_E_LIMIT, BZNA_NO_OFFSET, "65536");
    check_pattern_refused("{1..60000}::{1..60000}", BZNA_E_LIMIT, BZNA_NO_OFFSET, "65536");
    expand(&paths, "{1..65536}", BZNA_OK);
    CHECK_STR(paths.list[65535], "65536");
    bzna_formats_data_free(&paths);
}

/* A tar of one sample with that class. */
static void write_tar(const char *name, int number)
{
    char text[16];
    tar t = { .size = 0 };
    snprintf(text, sizeof text, "%d", number);
    tar_text(&t, "0.cls", text);
    tar_end(&t);
    spill(name, t.bytes, t.size);
    tar_free(&t);
}

/* Files 00000.tar, 00001.tar, ... with classes 0, 1, .... */
static void make_tars(int count)
{
    char name[64];
    clear();
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, TOP "/%05d.tar", i);
        write_tar(name, i);
    }
}

TEST(patterns_open_data_sets)
{
    const char *const list[] = { TOP "/0000{3..2}.tar", TOP "/0000[01].tar" };
    bzna_dataset_config dataset_config;
    bzna_formats_config config;
    bzna_dataset *dataset = NULL;
    bzna_context *context = NULL;
    make_tars(12);
    bzna_error_init(&why, sizeof why);
    REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
    CHECK_EQ(bzna_formats_open(context, TOP "/{00004..00011..3}.tar::" TOP "/0000?.tar", NULL, &dataset, &why),
             BZNA_OK);
    CHECK_EQ(bzna_dataset_count(dataset), 13);
    for (uint64_t i = 0; i < 13; i++) {
        int64_t target = -1;
        bzna_dataset_target(dataset, i, &target, NULL);
        CHECK_EQ(target, i < 3 ? 4 + 3 * (int64_t)i : (int64_t)i - 3);
    }
    bzna_dataset_close(dataset);
    CHECK_EQ(bzna_formats_open_list(context, list, 2, NULL, &dataset, &why), BZNA_OK);
    CHECK_EQ(bzna_dataset_count(dataset), 4);
    bzna_dataset_close(dataset);
    bzna_dataset_config_init(&dataset_config, sizeof dataset_config);
    bzna_formats_config_init(&config, sizeof config);
    config.dataset = &dataset_config;
    dataset_config.name = "mine";
    CHECK_EQ(bzna_formats_open(context, TOP "/*.tar", &config, &dataset, &why), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(why.message, "it is of one file, and these are 12");
    CHECK_EQ(bzna_formats_open(context, TOP "/*1.ta[r]", &config, &dataset, &why), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_formats_open(context, TOP "/*10.ta[r]", &config, &dataset, &why), BZNA_OK);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    clear();
}

/* What is wrong is said as the library says it, and as the caller's struct has room for it. */
TEST(what_cannot_be_opened_is_refused_as_the_library_does)
{
    const char *const paths[] = { TOP "/00000.tar", NULL };
    bzna_formats_config config;
    bzna_dataset *dataset = NULL;
    bzna_context *context = NULL;
    bzna_error shorter = { .struct_size = offsetof(bzna_error, message) + 8 };
    struct { bzna_formats_config known; uint64_t added; } future = { .added = 0 };
    make_tars(2);
    bzna_error_init(&why, sizeof why);
    REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
    CHECK_EQ(bzna_formats_open(context, NULL, NULL, &dataset, &why), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_formats_open(context, "", NULL, &dataset, &why), BZNA_E_NOT_FOUND);
    CHECK_CONTAINS(why.message, "the path is empty");
    CHECK_EQ(bzna_formats_open(NULL, paths[0], NULL, &dataset, &why), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_formats_open(context, paths[0], NULL, NULL, &why), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_formats_open_list(context, paths, 0, NULL, &dataset, &why), BZNA_E_NO_SAMPLES);
    CHECK_EQ(bzna_formats_open_list(context, paths, 2, NULL, &dataset, &why), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(why.message, "paths[1] is NULL");
    CHECK_EQ(bzna_formats_open_list(context, NULL, 2, NULL, &dataset, &why), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_formats_open(context, TOP "/no*", NULL, &dataset, NULL), BZNA_E_NOT_FOUND);
    CHECK_EQ(bzna_formats_open(context, TOP "/no*", NULL, &dataset, &shorter), BZNA_E_NOT_FOUND);
    CHECK(strlen(shorter.message) == 7 && shorter.status == BZNA_E_NOT_FOUND);
    bzna_formats_config_init(&config, sizeof config);
    config.reserved0 = 1;
    CHECK_EQ(bzna_formats_open(context, paths[0], &config, &dataset, &why), BZNA_E_STRUCT_SIZE);
    CHECK_CONTAINS(why.message, "formats_config.reserved0");
    config = (bzna_formats_config){ .struct_size = 0 };
    CHECK_EQ(bzna_formats_open_memory(context, "x", 1, &config, &dataset, &why), BZNA_E_STRUCT_SIZE);
    bzna_formats_config_init(&future.known, sizeof future);
    CHECK_EQ(bzna_formats_open(context, paths[0], &future.known, &dataset, &why), BZNA_OK);
    bzna_dataset_close(dataset);
    future.added = 1;
    CHECK_EQ(bzna_formats_open(context, paths[0], &future.known, &dataset, &why), BZNA_E_STRUCT_SIZE);
    CHECK_CONTAINS(why.message, "fields unknown to this version are set");
    CHECK(!dataset);
    bzna_context_close(context);
    clear();
}

int main(int argc, char **argv)
{
    (void)argc;
    test_start(argv);
    RUN(braces_expand_as_braceexpand_does)
    RUN(expanded_braces_need_room)
    RUN(the_stored_answers_are_those_of_braceexpand)
    RUN(braces_at_random_expand_as_braceexpand_does)
    RUN(braces_that_stand_for_too_much_are_refused)
    RUN(wildcards_match_as_glob_does)
    RUN(a_path_that_exists_is_never_a_pattern)
    RUN(patterns_that_mean_nothing_are_refused)
    RUN(patterns_open_data_sets)
    RUN(what_cannot_be_opened_is_refused_as_the_library_does)
    printf("%s: %d passed, %d failed, %d skipped\n", __FILE__, test_passed, test_failed, test_skipped);
    return test_failed != 0;
}
