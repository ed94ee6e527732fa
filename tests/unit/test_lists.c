/* Text that lists samples, with tabs, commas or blanks. */
#include "library.h"
#include "test.h"
#include "../../examples/formats/lists.c"

/* A list of these bytes, which is freed if it is none. */
static bzna_status list_of(data_list *list, const void *text, uint64_t size, bzna_error *err)
{
    char *copy = malloc((size_t)size + 1);
    bzna_status status;
    memset(list, 0, sizeof *list);
    bzna_error_init(err, sizeof *err);
    if (size)
        memcpy(copy, text, (size_t)size);
    list->text = (data_span){ copy, (size_t)size };
    status = parse(list, err);
    if (status != BZNA_OK)
        bzna_formats_list_free(list);
    return status;
}

/* The labels of a row; those that do not fit are left out. */
static uint64_t floats_of(const data_list *list, uint64_t i, float *labels, uint64_t room)
{
    const data_list_row *row = &list->rows[i];
    bzna_error err;
    if (bzna_formats_list_check(list, row, &err) != BZNA_OK)
        return 99;
    for (uint64_t k = 0; k < row->label_count && k < room; k++)
        labels[k] = list->reals[row->first_label + k];
    return row->label_count;
}

static int row_is(const data_list *list, uint64_t i, uint64_t index, const char *path, uint32_t labels, float first)
{
    const data_list_row *row = &list->rows[i];
    data_span p = { row->path, row->path_size };
    float all[3] = { 0 };
    return i < list->count && row->index == index && p.size == strlen(path) && !memcmp(p.data, path, p.size) &&
           floats_of(list, i, all, 3) == labels && (!labels || all[0] == first);
}

static void check_refused(const char *text, uint64_t size, bzna_status status, const char *message)
{
    data_list list;
    bzna_error err;
    CHECK_EQ(list_of(&list, text, size, &err), status);
    CHECK_CONTAINS(err.message, message);
}
#define REFUSED(text, message) check_refused(text, sizeof text - 1, BZNA_E_FORMAT, message)

TEST(lines_with_tabs_are_index_labels_path)
{
    static const char text[] = "\xef\xbb\xbf" "7\t1\t0.5\t-2e1\ta b/c,1.jpg\r\n\n3\t4.000000\td.jpg\n12\te.jpg";
    data_list list;
    bzna_error err;
    float all[3] = { 0 };
    REQUIRE(list_of(&list, text, sizeof text - 1, &err) == BZNA_OK);
    CHECK_EQ(list.count, 3);
    CHECK(row_is(&list, 0, 7, "a b/c,1.jpg", 3, 1.0f));
    CHECK(floats_of(&list, 0, all, 3) == 3 && all[1] == 0.5f && all[2] == -20);
    CHECK(row_is(&list, 1, 3, "d.jpg", 1, 4.0f));
    CHECK(row_is(&list, 2, 12, "e.jpg", 0, 0));
    CHECK(list.most_labels == 3 && list.has_fractions);
    REQUIRE(sort_rows(&list, &err) == BZNA_OK);
    CHECK(row_is(&list, 0, 3, "d.jpg", 1, 4.0f) && row_is(&list, 2, 12, "e.jpg", 0, 0));
    CHECK(bzna_formats_list_find(&list, 7) == &list.rows[1]);
    CHECK(!bzna_formats_list_find(&list, 8) && !bzna_formats_list_find(&list, 13));
    bzna_formats_list_free(&list);
}

TEST(lines_with_commas_are_path_and_labels)
{
    static const char text[] = "image,class\nx/1.jpg,3\n\"a,b.jpg\",1,2\ny.jpg,\n";
    data_list list;
    bzna_error err;
    REQUIRE(list_of(&list, text, sizeof text - 1, &err) == BZNA_OK);
    CHECK_EQ(list.count, 3);
    CHECK(row_is(&list, 0, 0, "x/1.jpg", 1, 3));
    CHECK(row_is(&list, 1, 1, "a,b.jpg", 2, 1));
    CHECK(row_is(&list, 2, 2, "y.jpg", 0, 0));
    bzna_formats_list_free(&list);
}

/* Labels are the numbers at the end; the rest is the path. */
TEST(lines_with_blanks_are_path_and_labels)
{
    static const char text[] = "val/1.jpg 65\r\n  a b 2.jpg\t 3  -4.5 \n\n7 8\nx,y.jpg 9";
    data_list list;
    bzna_error err;
    float all[3] = { 0 };
    REQUIRE(list_of(&list, text, sizeof text - 1, &err) == BZNA_OK);
    CHECK_EQ(list.count, 4);
    CHECK(row_is(&list, 0, 0, "val/1.jpg", 1, 65));
    CHECK(row_is(&list, 1, 1, "a b 2.jpg", 2, 3) && floats_of(&list, 1, all, 3) == 2 && all[1] == -4.5f);
    CHECK(row_is(&list, 2, 2, "7", 1, 8));
    CHECK(row_is(&list, 3, 3, "x,y.jpg", 1, 9));
    CHECK(list.most_labels == 2 && list.has_fractions);
    bzna_formats_list_free(&list);
}

/* What a list of these bytes has in its first two rows, or why it is refused. */
static void check_first(const char *text, const char *first, int64_t target)
{
    data_list list;
    bzna_error err;
    const data_list_row *row;
    if (list_of(&list, text, strlen(text), &err) != BZNA_OK) {
        CHECK_STR(err.message, first);
        return;
    }
    row = &list.rows[0];
    if (row->path_size != strlen(first) || memcmp(row->path, first, row->path_size))
        CHECK_STR((const char *)list.text.data, first);
    CHECK_EQ(bzna_formats_list_target(&list, row), target);
    bzna_formats_list_free(&list);
}

TEST(the_first_line_is_a_header_if_it_names_columns)
{
    check_first("path,label\na,3\n", "a", 3);
    check_first("\n\nimage path,class_id\na,3\n", "a", 3);  /* the first line that is not empty */
    check_first("\"path\",\"label\"\n\"a\",\"3\"\n", "a", 3);
    check_first(",image,label\na,3\n", "a", 3);
    check_first("path,1,2,3,4,5,6,7,8,label\na,3\n", "a", 3);
    check_first("\xe5\x9b\xbe,\xe6\xa0\x87\na,3\n", "a", 3);
    check_first("path,_label\na,3\n", "a", 3);
    check_first("path,label,\na,3\n", "a", 3);
}

/* Each was left out as a header, with its sample. */
TEST(a_first_line_of_a_path_and_a_label_that_is_none_is_refused)
{
#define NO_LABEL(label) "line 1 at byte 0: a label is not a number that fits a float32: \"" label "\""
    check_first("a.jpg,nan\nb.jpg,1\n", NO_LABEL("nan"), 0);
    check_first("a.jpg,cat\nb.jpg,1\n", NO_LABEL("cat"), 0);
    check_first("x/a,cat\nb.jpg,1\n", NO_LABEL("cat"), 0);
    check_first("x\\a,cat\nb.jpg,1\n", NO_LABEL("cat"), 0);
    check_first("a,nan\nb,1\n", NO_LABEL("nan"), 0);
    check_first("a,-inf\nb,1\n", NO_LABEL("-inf"), 0);
    check_first("a,Infinity\nb,1\n", NO_LABEL("Infinity"), 0);
    check_first("a,NA\nb,1\n", NO_LABEL("NA"), 0);
    check_first("a,None\nb,1\n", NO_LABEL("None"), 0);
    check_first("a,3x\nb,1\n", NO_LABEL("3x"), 0);
    check_first("a, \"3\"\nb,1\n", NO_LABEL(" \"3\""), 0);
    check_first("a,1,,2\nb,1\n", NO_LABEL(""), 0);
    check_first("a,1e39\nb,1\n", NO_LABEL("1e39"), 0);
    check_first("a.jpg,\nb.jpg,1\n", "a.jpg", BZNA_TARGET_NONE);
    check_first("0,a.jpg,1\n", NO_LABEL("a.jpg"), 0);
    check_first("path,label\nclass,name\n",
                "line 2 at byte 11: a label is not a number that fits a float32: \"name\"", 0);
}

/* As DALI and Caffe read them: the label follows the last blank. */
TEST(a_number_after_a_blank_tells_a_list_with_blanks)
{
    check_first("c,d.jpg 3\nb.jpg 1\n", "c,d.jpg", 3);
    check_first("c, d.jpg 3\nb.jpg 1\n", "c, d.jpg", 3);
    check_first("a.jpg,1 2\n", "a.jpg,1", 2);
    check_first("\"a\" b.jpg 2\n", "\"a\" b.jpg", 2);
    check_first("a.jpg, 3\nb.jpg, 1\n", "a.jpg", 3);        /* a comma's */
    check_first("a b.jpg,3\nb.jpg,1\n", "a b.jpg", 3);
    check_first("\"a,b c\td\".jpg 3\n", "line 1 at byte 0: the index is no whole number: \"\"a,b c\"", 0);
    check_first("\"a,\"\"b\"\".jpg\",3\n",
                "line 1 at byte 0: a quote that does not end before a comma: \"\"a,\"\"b\"\".jpg\",3\"", 0);
    check_first("a\"b.jpg,3\n", "a\"b.jpg", 3);
    check_first("\"a,b.jpg\",\"3\"\n", "a,b.jpg", 3);
}

TEST(lines_that_make_no_sense_are_refused_by_number_and_byte)
{
    data_list list;
    bzna_error err;
    REFUSED("0 1 a.jpg\n",
            "line 1 at byte 0: neither index and path with a tab between them, nor path and label by a comma or "
            "blank: \"0 1 a.jpg\"");
    REFUSED("a.jpg\n",
            "line 1 at byte 0: neither index and path with a tab between them, nor path and label by a comma or "
            "blank: \"a.jpg\"");
    REFUSED("a.jpg 1\nb.jpg\n",
            "line 2 at byte 8: neither index and path with a tab between them, nor path and label by a comma or "
            "blank: \"b.jpg\"");
    REFUSED("1 2\n3\n", "line 2 at byte 4: neither index and path with a tab between them, nor path and label");
    REFUSED("a.jpg 1\n\t\n", "line 2 at byte 8: neither index and path with a tab between them, nor path and label");
    REFUSED("0\t1\ta.jpg\nb.jpg\n",
            "line 2 at byte 10: neither index and path with a tab between them, nor path and label");
    REFUSED("0\tnan\ta.jpg\n", "a label is not a number");
    REFUSED("0\tinf\ta.jpg\n", "a label is not a number");
    REFUSED("0\t1e308\ta.jpg\n", "a label is not a number");
    REFUSED("0\t-1e39\ta.jpg\n", "a label is not a number");
    REFUSED("0\t0x10\ta.jpg\n", "a label is not a number");
    REFUSED("0\t1.2.3\ta.jpg\n", "a label is not a number");
    REFUSED("0\t.\ta.jpg\n", "a label is not a number");
    REFUSED("0\t1e\ta.jpg\n", "a label is not a number");
    REFUSED("0\t\t\ta.jpg\n", "a label is not a number");
    REFUSED("-1\t1\ta.jpg\n", "the index is no whole number: \"-1\"");
    REFUSED("1.0\t1\ta.jpg\n", "the index");
    REFUSED("18446744073709551616\t1\ta.jpg\n", "the index");
    REFUSED("\t1\ta.jpg\n", "the index");
    REFUSED("0\t1\t\n", "the path is empty");
    REFUSED("a.jpg,1\nb.jpg,cat\n", "line 2 at byte 8: a label is not a number");
    REFUSED("\"a.jpg,1\n", "a quote");
    REFUSED("a,1\n\"b\"c,1\n", "line 2 at byte 4: a quote");
    REFUSED("0\t1\ta\0b\n", "or has a byte that is zero: \"a\"");
    check_refused("\n\r\n", 3, BZNA_E_NO_SAMPLES, "no lines");
    check_refused("image,class\n", 12, BZNA_E_NO_SAMPLES, "no lines");
    check_refused("", 0, BZNA_E_NO_SAMPLES, "no lines");
    REQUIRE(list_of(&list, "3\t1\ta\n4\t1\tb\n3\t2\tc\n", 18, &err) == BZNA_OK);
    CHECK_EQ(sort_rows(&list, &err), BZNA_E_FORMAT);
    CHECK_CONTAINS(err.message, "line 3 at byte 12: its index is in a line before, too: \"c\"");
    bzna_formats_list_free(&list);
}

static float float_of(const char *text)
{
    const data_span s = { text, strlen(text) };
    number n;
    return number_of(s, &n) ? -12345 : n.real;
}

/* Against the C library's strtof, which rounds once. */
TEST(numbers_are_those_of_strtof)
{
    static const char *const given[] = { "0",
                                         "-0",
                                         "1",
                                         "+1",
                                         "1.",
                                         ".5",
                                         "0.1",
                                         "3.402823e38",
                                         "1e-45",
                                         "1e-400",
                                         "7e-46",
                                         "16777217",
                                         "123456789012345678901234567890.",
                                         "0.000000000000000000012345",
                                         "12345678901234567890123e-10",
                                         "1E5",
                                         "999999.999999",
                                         " 2 " };
    char text[64];
    uint64_t state = 1;
    for (size_t i = 0; i < COUNT(given); i++) {
        float expected = strtof(given[i], NULL), value = float_of(given[i]);
        CHECK(!memcmp(&expected, &value, sizeof value));
    }
    for (int i = 0; i < 20000; i++) {
        uint32_t bits = (uint32_t)((state = state * 6364136223846793005u + 1442695040888963407u) >> 33);
        float value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        snprintf(text, sizeof text, i & 1 ? "%.9g" : "%.17g", (double)value);
        CHECK(float_of(text) == value);
    }
}

/* A row without a label has no target, as one of -1. */
TEST(a_label_that_is_a_whole_number_is_exact_and_its_neighbours_keep_theirs)
{
    static const struct {
        const char *text;
        int64_t     target;
    } given[] = { { "25130987", 25130987 },
                  { "16777217", 16777217 },
                  { "4294967297", 4294967297 },
                  { "9007199254740993", 9007199254740993 },
                  { "9223372036854775807", INT64_MAX },
                  { "-9223372036854775808", INT64_MIN },
                  { "9223372036854775807.000000", INT64_MAX },
                  { "-9007199254740993.0", -9007199254740993 },
                  { "0000000000000000000000000000000000000007", 7 },
                  { "+5", 5 },
                  { "007", 7 },
                  { "3.0", 3 },
                  { "3.", 3 },
                  { "1e3", 1000 },
                  { "9007199254740993e0", 9007199254740993 },
                  { "2500e-2", 25 },
                  { "922337203685477580700e-2", INT64_MAX },
                  { ".5e1", 5 },
                  { "0.000000000000000000000000000007e30", 7 },
                  { "0e999999999999999", 0 },
                  { "-0", 0 },
                  { "-2", -2 },
                  { "-1", BZNA_TARGET_NONE },
                  { "-1.0", BZNA_TARGET_NONE } };
    static const char *const shapes[] = { "0\t8\ta.jpg\n1\t%s\tb.jpg\n2\t9\tc.jpg\n3\td.jpg\n",
                                          "a.jpg,8\nb.jpg,%s\nc.jpg,9\nd.jpg,\n", "a.jpg 8\nb.jpg %s\nc.jpg 9\n" };
    char text[256];
    data_list list;
    bzna_error err;
    for (size_t i = 0; i < COUNT(given); i++)
        for (size_t k = 0; k < COUNT(shapes); k++) {
            snprintf(text, sizeof text, shapes[k], given[i].text);
            REQUIRE(list_of(&list, text, strlen(text), &err) == BZNA_OK);
            CHECK(list.most_labels == 1 && !list.has_fractions);
            CHECK_EQ(bzna_formats_list_target(&list, &list.rows[0]), 8);
            CHECK_EQ(bzna_formats_list_target(&list, &list.rows[1]), given[i].target);
            CHECK_EQ(bzna_formats_list_target(&list, &list.rows[2]), 9);
            CHECK(k == 2 || bzna_formats_list_target(&list, &list.rows[3]) == BZNA_TARGET_NONE);
            bzna_formats_list_free(&list);
        }
}

TEST(a_label_of_more_than_64_bits_is_refused)
{
    static const char *const given[] = { "9223372036854775808", "-9223372036854775809", "18446744073709551616",
                                         "123456789012345678901234567890" };
    char text[256];
    for (size_t i = 0; i < COUNT(given); i++) {
        snprintf(text, sizeof text, "a.jpg,1\nb.jpg,%s\n", given[i]);
        check_refused(text, strlen(text), BZNA_E_FORMAT, "line 2 at byte 8: a label has more than 64 bits: \"");
    }
    check_refused("0\t1\t9223372036854775808\ta.jpg\n", 30, BZNA_E_FORMAT, "a label has more than 64 bits");
    REFUSED("a.jpg 9223372036854775808\n", "line 1 at byte 0: a label has more than 64 bits");
    REFUSED("a.jpg 1\nb.jpg 9223372036854775808 3\n", "line 2 at byte 8: a label has more than 64 bits");
}

TEST(a_label_is_a_fraction_or_a_whole_number)
{
    static const char *const fractions[] = { "0.5", "1e-3", "9223372036854775807.5", "1e30", "7e-46",
                                             "100000000000000000000000000000000000001e-3" };
    char text[256];
    data_list list;
    bzna_error err;
    for (size_t i = 0; i < COUNT(fractions); i++) {
        snprintf(text, sizeof text, "a.jpg,%s\n", fractions[i]);
        REQUIRE(list_of(&list, text, strlen(text), &err) == BZNA_OK);
        CHECK(list.has_fractions && bzna_formats_list_target(&list, &list.rows[0]) == BZNA_TARGET_NONE);
        CHECK(row_is(&list, 0, 0, "a.jpg", 1, strtof(fractions[i], NULL)));
        bzna_formats_list_free(&list);
    }
}

TEST(a_whole_label_that_a_float_does_not_hold_is_refused_where_labels_are_floats)
{
    static const char text[] = "a.jpg,16777216,3\nb.jpg,16777217,3\nc.jpg,9223372036854775807,2\n"
                               "d.jpg,-9223372036854775808,1e30\n";
    data_list list;
    bzna_error err;
    REQUIRE(list_of(&list, text, sizeof text - 1, &err) == BZNA_OK);
    CHECK(row_is(&list, 0, 0, "a.jpg", 2, 16777216) && row_is(&list, 3, 3, "d.jpg", 2, -0x1p63f));
    CHECK_EQ(bzna_formats_list_check(&list, &list.rows[1], &err), BZNA_E_FORMAT);
    CHECK_CONTAINS(err.message, "line 2 at byte 17: formats_config.list: a vector of float32 cannot hold a label: ");
    CHECK_EQ(bzna_formats_list_check(&list, &list.rows[2], &err), BZNA_E_FORMAT);
    CHECK_CONTAINS(err.message, "line 3 at byte 34");
    bzna_formats_list_free(&list);
}

TEST(a_list_is_read_from_a_file_or_fails_by_its_name)
{
    static const char path[] = TEST_BUILD "/tests/list.lst";
    FILE *file = fopen(path, "wb");
    data_list list = { .count = 0 };
    bzna_error err;
    REQUIRE(file != NULL);
    fputs("1\t2\ta.jpg\n", file);
    fclose(file);
    bzna_error_init(&err, sizeof err);
    REQUIRE(bzna_formats_list_open(&list, path, 0, &err) == BZNA_OK);
    CHECK(row_is(&list, 0, 1, "a.jpg", 1, 2));
    bzna_formats_list_free(&list);
    REQUIRE((file = fopen(path, "wb")) != NULL);
    fputs("1\t2\ta.jpg\n1\t3\tb.jpg\n", file);
    fclose(file);
    list = (data_list){ .count = 0 };
    CHECK_EQ(bzna_formats_list_open(&list, path, 1, &err), BZNA_E_FORMAT);
    CHECK_CONTAINS(err.message, "list.lst: line 2 at byte 10: its index is in a line before");
    bzna_formats_list_free(&list);
    bzna_error_init(&err, sizeof err);
    CHECK_EQ(bzna_formats_list_open(&list, "build/none.lst", 0, &err), BZNA_E_NOT_FOUND);
    CHECK_CONTAINS(err.message, "build/none.lst: cannot open");
    CHECK_EQ(bzna_formats_list_open(&list, "", 0, &err), BZNA_E_NOT_FOUND);
    CHECK_CONTAINS(err.message, "cannot open");
}

/* The text is read in pieces that grow, of which the first has 65535 bytes. */
TEST(a_long_list_is_read_whole)
{
    static const char path[] = TEST_BUILD "/tests/long.lst";
    for (uint64_t count = 5957; count < 5960; count++) {    /* 65527 bytes to 65549 */
        FILE *file = fopen(path, "wb");
        data_list list = { .count = 0 };
        bzna_error err;
        REQUIRE(file != NULL);
        for (uint64_t i = 0; i < count; i++)
            fprintf(file, "%05llu.j 7%s\n", (unsigned long long)i, i ? "" : "0");
        fclose(file);
        bzna_error_init(&err, sizeof err);
        REQUIRE(bzna_formats_list_open(&list, path, 0, &err) == BZNA_OK);
        CHECK_EQ(list.count, count);
        CHECK_EQ(bzna_formats_list_target(&list, &list.rows[count - 1]), 7);
        bzna_formats_list_free(&list);
    }
}

TEST_MAIN(RUN(lines_with_tabs_are_index_labels_path) RUN(lines_with_commas_are_path_and_labels)
          RUN(lines_with_blanks_are_path_and_labels)
          RUN(the_first_line_is_a_header_if_it_names_columns)
          RUN(a_first_line_of_a_path_and_a_label_that_is_none_is_refused)
          RUN(a_number_after_a_blank_tells_a_list_with_blanks)
          RUN(lines_that_make_no_sense_are_refused_by_number_and_byte) RUN(numbers_are_those_of_strtof)
          RUN(a_label_that_is_a_whole_number_is_exact_and_its_neighbours_keep_theirs)
          RUN(a_label_of_more_than_64_bits_is_refused) RUN(a_label_is_a_fraction_or_a_whole_number)
          RUN(a_whole_label_that_a_float_does_not_hold_is_refused_where_labels_are_floats)
          RUN(a_list_is_read_from_a_file_or_fails_by_its_name) RUN(a_long_list_is_read_whole))
