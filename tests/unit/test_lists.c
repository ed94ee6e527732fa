/* Text that lists samples, with tabs or commas. */
#include "library.h"
#include "test.h"

static const bzi_memory memory = { { NULL, bzi_os_alloc, bzi_os_release } };

static bzi_owned kept = { .memory = &memory };

/* A list of these bytes. */
static bzna_status list_of(bzi_list *list, const void *text, uint64_t size, bzna_error *err)
{
    bzna_status status;
    memset(list, 0, sizeof *list);
    bzi_error_init(err);
    list->text = (bzi_span){ bzi_keep_copy(&kept, text, size, 1), size };
    status = bzi_list_parse(list, &kept, err);
    if (status != BZNA_OK)
        bzi_owned_free(&kept);
    return status;
}

static int row_is(const bzi_list *list, uint64_t i, uint64_t index, const char *path, uint32_t labels, float first)
{
    const bzi_list_row *row = &list->rows[i];
    bzi_span p = { list->text.data + row->path_at, row->path_size };
    return i < list->count && row->index == index && p.size == strlen(path) && !memcmp(p.data, path, p.size) &&
           row->label_count == labels && (!labels || list->labels[row->label_at] == first);
}

static void check_refused(const char *text, uint64_t size, bzna_status status, const char *message)
{
    bzi_list list;
    bzna_error err;
    CHECK_EQ(list_of(&list, text, size, &err), status);
    CHECK_CONTAINS(err.message, message);
}
#define REFUSED(text, message) check_refused(text, sizeof text - 1, BZNA_E_FORMAT, message)

TEST(lines_with_tabs_are_index_labels_path)
{
    static const char text[] = "\xef\xbb\xbf" "7\t1\t0.5\t-2e1\ta b/c,1.jpg\r\n\n3\t4.000000\td.jpg\n12\te.jpg";
    bzi_list list;
    bzna_error err;
    REQUIRE(list_of(&list, text, sizeof text - 1, &err) == BZNA_OK);
    CHECK_EQ(list.count, 3);
    CHECK(row_is(&list, 0, 7, "a b/c,1.jpg", 3, 1.0f));
    CHECK(list.labels[list.rows[0].label_at + 1] == 0.5f && list.labels[list.rows[0].label_at + 2] == -20);
    CHECK(row_is(&list, 1, 3, "d.jpg", 1, 4.0f));
    CHECK(row_is(&list, 2, 12, "e.jpg", 0, 0));
    CHECK_EQ(list.label_room, 4);                           /* not a label more than there are */
    REQUIRE(bzi_list_sort(&list, "l", &err) == BZNA_OK);
    CHECK(row_is(&list, 0, 3, "d.jpg", 1, 4.0f) && row_is(&list, 2, 12, "e.jpg", 0, 0));
    CHECK(bzi_list_find(&list, 7) == &list.rows[1] && !bzi_list_find(&list, 8) && !bzi_list_find(&list, 13));
    bzi_owned_free(&kept);
}

TEST(lines_with_commas_are_path_and_labels)
{
    static const char text[] = "image,class\nx/1.jpg,3\n\"a,b.jpg\",1,2\ny.jpg,\n";
    bzi_list list;
    bzna_error err;
    REQUIRE(list_of(&list, text, sizeof text - 1, &err) == BZNA_OK);
    CHECK_EQ(list.count, 3);
    CHECK(row_is(&list, 0, 0, "x/1.jpg", 1, 3));
    CHECK(row_is(&list, 1, 1, "a,b.jpg", 2, 1));
    CHECK(row_is(&list, 2, 2, "y.jpg", 0, 0));
    bzi_owned_free(&kept);
}

/* Labels are the numbers at the end; the rest is the path. */
TEST(lines_with_blanks_are_path_and_labels)
{
    static const char text[] = "val/1.jpg 65\r\n  a b 2.jpg\t 3  -4.5 \n\n7 8\nx,y.jpg 9";
    bzi_list list;
    bzna_error err;
    REQUIRE(list_of(&list, text, sizeof text - 1, &err) == BZNA_OK);
    CHECK_EQ(list.count, 4);
    CHECK(row_is(&list, 0, 0, "val/1.jpg", 1, 65));
    CHECK(row_is(&list, 1, 1, "a b 2.jpg", 2, 3) && list.labels[list.rows[1].label_at + 1] == -4.5f);
    CHECK(row_is(&list, 2, 2, "7", 1, 8));
    CHECK(row_is(&list, 3, 3, "x,y.jpg", 1, 9));
    CHECK_EQ(list.label_room, 5);
    bzi_owned_free(&kept);
}

/* Its numbers are read before it is known that it is a header. */
TEST(a_header_may_hold_numbers)
{
    static const char text[] = "path,1,2,3,4,5,6,7,8,label\na.jpg,9\n";
    bzi_list list;
    bzna_error err;
    REQUIRE(list_of(&list, text, sizeof text - 1, &err) == BZNA_OK);
    CHECK(list.count == 1 && list.label_room == 1 && row_is(&list, 0, 0, "a.jpg", 1, 9));
    bzi_owned_free(&kept);
}

TEST(lines_that_make_no_sense_are_refused_by_number_and_byte)
{
    bzi_list list;
    bzna_error err;
    REFUSED("0 1 a.jpg\n", "line 1 at byte 0: no tab, no comma, and no label after a blank: \"0 1 a.jpg\"");
    REFUSED("a.jpg\n", "line 1 at byte 0: neither a tab, a comma nor a blank before a label: \"a.jpg\"");
    REFUSED("a.jpg 1\nb.jpg\n", "line 2 at byte 8: no tab, no comma, and no label after a blank: \"b.jpg\"");
    REFUSED("1 2\n3\n", "line 2 at byte 4: no tab, no comma, and no label");
    REFUSED("a.jpg 1\n\t\n", "line 2 at byte 8: no tab, no comma");
    REFUSED("0\t1\ta.jpg\nb.jpg\n", "line 2 at byte 10: no tab: \"b.jpg\"");
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
    REFUSED("a,1\n\"b\"c,1\n", "no comma after the path");
    REFUSED("0\t1\ta\0b\n", "byte 5 is zero");
    check_refused("\n\r\n", 3, BZNA_E_NO_SAMPLES, "no lines");
    check_refused("image,class\n", 12, BZNA_E_NO_SAMPLES, "no lines");
    check_refused("", 0, BZNA_E_NO_SAMPLES, "no lines");
    REQUIRE(list_of(&list, "3\t1\ta\n4\t1\tb\n3\t2\tc\n", 18, &err) == BZNA_OK);
    CHECK_EQ(bzi_list_sort(&list, "x.lst", &err), BZNA_E_FORMAT);
    CHECK_CONTAINS(err.message, "x.lst: index 3 is in two lines, the second time before byte 16");
    bzi_owned_free(&kept);
}

static float number_of(const char *text)
{
    bzi_span s = { (const uint8_t *)text, strlen(text) };
    float value;
    return bzi_span_number(s, &value) ? value : -12345;
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
                                         "123456789012345678901234567890",
                                         "0.000000000000000000012345",
                                         "12345678901234567890123e-10",
                                         "1E5",
                                         "999999.999999",
                                         " 2 " };
    char text[64];
    uint64_t state = 1;
    for (size_t i = 0; i < COUNT(given); i++) {
        float expected = strtof(given[i], NULL), value = number_of(given[i]);
        CHECK(!memcmp(&expected, &value, sizeof value));
    }
    for (int i = 0; i < 20000; i++) {
        uint32_t bits = (uint32_t)((state = state * 6364136223846793005u + 1442695040888963407u) >> 33);
        float value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        snprintf(text, sizeof text, i & 1 ? "%.9g" : "%.17g", (double)value);
        CHECK(number_of(text) == value);
    }
}

static int is_less(const void *a, const void *b) { return *(const uint64_t *)a < *(const uint64_t *)b; }

TEST(sorting_sorts_whatever_the_order_was)
{
    uint64_t a[100], state = 5;
    for (uint64_t n = 0; n <= COUNT(a); n++)
        for (int kind = 0; kind < 4; kind++) {
            uint64_t sum = 0;
            for (uint64_t i = 0; i < n; i++) {
                state = state * 25214903917u + 11;
                sum += a[i] = kind == 0 ? i : kind == 1 ? n - i : kind == 2 ? i % 3 : state >> 20;
            }
            bzi_sort(a, n, sizeof *a, is_less);
            for (uint64_t i = 0; i < n; i++) {
                CHECK(!i || a[i - 1] <= a[i]);
                sum -= a[i];
            }
            CHECK_EQ(sum, 0);
        }
}

TEST(a_label_is_a_target_where_it_is_one_integer)
{
    const float labels[] = { 3, 4 }, half = 0.5f, huge = 1e20f, none = -1, less = -2;
    int64_t target = 0;
    CHECK(bzi_label_target(labels, 1, &target) && target == 3);
    CHECK(bzi_label_target(&less, 1, &target) && target == -2);
    CHECK(!bzi_label_target(labels, 2, &target) && !bzi_label_target(labels, 0, &target));
    CHECK(!bzi_label_target(&half, 1, &target) && !bzi_label_target(&huge, 1, &target) &&
          !bzi_label_target(&none, 1, &target));
}

static void *alloc_nth(void *user, size_t size, size_t align)
{
    return (*(int *)user)-- > 0 ? bzi_os_alloc(NULL, size, align) : NULL;
}

TEST(a_list_is_read_from_a_file_or_fails_by_its_name)
{
    static const char path[] = TEST_BUILD "/tests/list.lst";
    FILE *file = fopen(path, "wb");
    bzi_list list = { .count = 0 };
    bzna_error err;
    REQUIRE(file != NULL);
    fputs("1\t2\ta.jpg\n", file);
    fclose(file);
    REQUIRE(bzi_list_open(&list, &kept, path, &err) == BZNA_OK);
    CHECK(row_is(&list, 0, 1, "a.jpg", 1, 2));
    bzi_owned_free(&kept);
    for (int n = 0; n < 3; n++) {
        int left = n;
        const bzi_memory small = { { &left, alloc_nth, bzi_os_release } };
        bzi_owned some = { .memory = &small };
        memset(&list, 0, sizeof list);
        CHECK_EQ(bzi_list_open(&list, &some, path, &err), BZNA_E_MEMORY);
        bzi_owned_free(&some);
        CHECK_CONTAINS(err.message, "list.lst: out of memory");
    }
    CHECK_EQ(bzi_list_open(&list, &kept, "build/none.lst", &err), BZNA_E_NOT_FOUND);
    CHECK_CONTAINS(err.message, "build/none.lst: cannot open");
}

TEST_MAIN(RUN(lines_with_tabs_are_index_labels_path) RUN(lines_with_commas_are_path_and_labels)
          RUN(lines_with_blanks_are_path_and_labels)
          RUN(a_header_may_hold_numbers)
          RUN(lines_that_make_no_sense_are_refused_by_number_and_byte) RUN(numbers_are_those_of_strtof)
          RUN(sorting_sorts_whatever_the_order_was) RUN(a_label_is_a_target_where_it_is_one_integer)
          RUN(a_list_is_read_from_a_file_or_fails_by_its_name))
