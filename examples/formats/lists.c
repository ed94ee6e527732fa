/* lists.c - lists of samples: text with a line for each, which names a file, or labels a record
 *
 * The first line tells which kind of list it is:
 * - if it has a tab: index, labels and path with tabs between them (MXNet's .lst)
 * - if it ends in a number after a blank: path and labels with blanks between them (Caffe's val.txt, DALI's file_list);
 *   the numbers at the end of a line are labels
 * - otherwise: path and labels with commas between them (.csv), and a path with commas stands in quotes. Here the first
 *   line may be a header, see is_header
 *
 * The text is kept, because paths point into it. A line takes 40 bytes more, and a label 12: a float32, and the whole
 * number of 64 bits. A list of files becomes a provider whose values are whole files. The library opens a sample's
 * file when it reads the sample.
 *
 * It needs data.c. */
#include "data.h"

#ifndef BENZINA_FORMATS_NO_LISTS

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Numbers ---------------------------------------------------------------------------------- */

/* A number of a text. */
typedef struct number {
    float   real;                     /* the nearest float32 */
    int     is_whole;                 /* it is a whole number of 64 bits, however it is written: 7, 007, 7.0, 70e-1 */
    int64_t whole;                    /* this number, else BZNA_TARGET_NONE */
} number;

static const char not_a_number[] = "a label is not a number that fits a float32";
static const char too_long[] = "a label has more than 64 bits";

/* Reads a decimal number that a float32 can hold, which "nan" and "inf" are not. A point stands for itself in every
 * locale. Whole numbers are exact. Returns NULL, or why that fails. */
static const char *number_of(data_span text, number *out)
{
    char copy[128] = "", *end, *point;
    long double exact;

    text = bzna_formats_data_trim(text);
    if (!text.size || text.size >= sizeof copy)
        return not_a_number;
    memcpy(copy, text.data, text.size);
    if (strspn(copy, "+-.0123456789eE") < text.size)
        return not_a_number;
    if ((point = strchr(copy, '.')) != NULL)
        *point = *localeconv()->decimal_point;
    out->real = strtof(copy, &end);
    if (*end || isinf(out->real))
        return not_a_number;

    errno = 0;
    out->whole = strtoll(copy, &end, 10);
    out->is_whole = !*end && !errno;
    if (*end) {                                             /* a whole number may have a point, or an exponent */
        exact = strtold(copy, NULL);
        out->is_whole = exact >= -9223372036854775808.0L && exact < 9223372036854775808.0L && truncl(exact) == exact;
        out->whole = out->is_whole ? (int64_t)exact : BZNA_TARGET_NONE;
    }
    return out->is_whole || *end ? NULL : too_long;
}

/* ---- Lines ------------------------------------------------------------------------------------ */

/* The line that is read, cut at the separators of its list. */
typedef struct list_line {
    data_span  text;                  /* without its end */
    data_span *fields;                /* to be freed, after the last line */
    uint64_t   count;                 /* of the fields */
} list_line;

static const char no_fields[] = "neither index and path with a tab between them, nor path and label by a comma or "
                                "blank";

/* Makes an error about a part of a line, and shows the beginning of it. */
static bzna_status fail_line(const data_list *list, const char *what, data_span part, bzna_error *err)
{
    data_llu row = 1, at = 0;

    for (const char *p = list->text.data; p < part.data; p++)
        if (*p == '\n') {
            row++;
            at = (data_llu)(p + 1 - list->text.data);
        }
    return DATA_FAIL_AT(err, BZNA_E_FORMAT, at, "line %llu at byte %llu: %s: \"%.*s\"", row, at, what,
                        (int)(part.size < 31 ? part.size : 31), part.data);
}

/* Cuts a line into its fields. There may be several blanks between fields, and quotes around those between commas. */
static bzna_status cut(const data_list *list, list_line *line, bzna_error *err)
{
    const char separator = list->separator;
    data_span rest = line->text, field, tail = { NULL, 0 }, *fields;
    int is_closed = 1, has_more = 1;

    line->count = 0;
    while (has_more) {
        if (separator == ',' && rest.size && *rest.data == '"') {
            bzna_formats_data_take(&rest, '"', &field);    /* nothing */
            is_closed = bzna_formats_data_take(&rest, '"', &field);
            has_more = bzna_formats_data_take(&rest, ',', &tail);
        } else {
            has_more = bzna_formats_data_take(&rest, separator, &field);
        }
        if (!is_closed || tail.size)
            return fail_line(list, "a quote that does not end before a comma", line->text, err);
        if (separator == ' ' && !field.size)
            continue;
        if (!(fields = bzna_formats_data_grow(line->fields, line->count, sizeof *fields, err)))
            return err->status;
        line->fields = fields;
        fields[line->count++] = field;
    }
    return BZNA_OK;
}

/* Returns 1 if a field is a label: a number, which may be too long for one. */
static int is_label(data_span field)
{
    number n;

    return number_of(field, &n) != not_a_number;
}

/* Returns the separator of a list that begins with this line. A number after a comma and a blank is a comma's. */
static char separator_of(data_span line)
{
    data_span rest = bzna_formats_data_trim(line), word;

    if (memchr(line.data, '\t', line.size))
        return '\t';
    bzna_formats_data_take_last(&rest, ' ', &word);
    rest = bzna_formats_data_trim(rest);
    return rest.size && rest.data[rest.size - 1] != ',' && is_label(word) ? ' ' : ',';
}

/* Returns 1 if a field can be the name of a column: a word, neither a path nor what stands for a number. */
static int is_column(data_span field)
{
    char word[128];

    field = bzna_formats_data_trim(field);
    snprintf(word, sizeof word, "%.*s", (int)(field.size < sizeof word ? field.size : 0), field.data);
    return (isalpha((unsigned char)*word) || *word == '_' || *word & 0x80) && !strpbrk(word, "./\\") &&
           !bzna_formats_data_has_word("nan inf infinity none null na", field);
}

/* Returns 1 if a line with commas is a header: its fields name columns, but for the first, which may be empty, and
 * others that are numbers, of which not all are. */
static int is_header(const list_line *line)
{
    uint64_t columns = 0;

    for (uint64_t i = 0; i < line->count; i++) {
        const data_span field = line->fields[i];
        const int is_name = is_column(field);

        if (!is_name && (i ? !is_label(field) : field.size > 0))
            return 0;
        columns += i && is_name;
    }
    return columns > 0;
}

/* Keeps a label. */
static bzna_status add_label(data_list *list, data_span label, bzna_error *err)
{
    float *reals = bzna_formats_data_grow(list->reals, list->label_count, sizeof *reals, err);
    int64_t *wholes = bzna_formats_data_grow(list->wholes, list->label_count, sizeof *wholes, err);
    const char *fault;
    number n;

    list->reals = reals ? reals : list->reals;
    list->wholes = wholes ? wholes : list->wholes;
    if (!reals || !wholes)
        return err->status;
    if ((fault = number_of(label, &n)) != NULL)
        return fail_line(list, fault, label, err);
    reals[list->label_count] = n.real;
    wholes[list->label_count++] = n.whole;
    list->has_fractions |= !n.is_whole;
    return BZNA_OK;
}

/* Keeps the row of a line. Its fields are index, labels and path with tabs between them, else path and labels. Between
 * blanks, the labels are the numbers at the end, and what is before them is the path. */
static bzna_status take_line(data_list *list, list_line *line, bzna_error *err)
{
    const int is_first = !list->separator;
    data_list_row row = { .index = list->count, .first_label = list->label_count }, *rows;
    uint64_t label = 1;
    data_span path;

    if (is_first)
        list->separator = separator_of(line->text);
    if (cut(list, line, err) != BZNA_OK)
        return err->status;
    if (list->separator == ' ')
        for (label = line->count; label > 1 && is_label(line->fields[label - 1]); label--) {}
    if (line->count < 2 || label == line->count)
        return fail_line(list, no_fields, line->text, err);

    path = line->fields[0];
    if (list->separator == ' ')                             /* up to the last field before the labels */
        path = bzna_formats_data_trim((data_span){ path.data, (size_t)(line->fields[label].data - path.data) });
    if (list->separator == '\t') {
        path = line->fields[--line->count];
        if (!bzna_formats_data_integer(bzna_formats_data_trim(line->fields[0]), &row.index))
            return fail_line(list, "the index is no whole number", line->fields[0], err);
    }
    line->count -= line->count > label && !line->fields[line->count - 1].size;   /* at the end, that is no label */
    if (is_first && list->separator == ',' && is_header(line))
        return BZNA_OK;
    if (!path.size || path.size >= DATA_PATH_BYTES || memchr(path.data, 0, path.size))
        return fail_line(list, "the path is empty, too long, or has a byte that is zero", path, err);
    for (; label < line->count; label++)
        if (add_label(list, line->fields[label], err) != BZNA_OK)
            return err->status;

    row.path = path.data;
    row.path_size = path.size;
    row.label_count = list->label_count - row.first_label;
    list->most_labels = list->most_labels > row.label_count ? list->most_labels : row.label_count;
    if (!(rows = bzna_formats_data_grow(list->rows, list->count, sizeof *rows, err)))
        return err->status;
    list->rows = rows;
    rows[list->count++] = row;
    return BZNA_OK;
}

/* ---- A list ----------------------------------------------------------------------------------- */

/* Reads the rows of the text. */
static bzna_status parse(data_list *list, bzna_error *err)
{
    const size_t bom = list->text.size >= 3 && !memcmp(list->text.data, "\xef\xbb\xbf", 3) ? 3 : 0;
    data_span rest = { list->text.data + bom, list->text.size - bom };
    list_line line = { .fields = NULL };

    while (rest.size && err->status == BZNA_OK) {
        line.text = bzna_formats_data_line(&rest);
        if (line.text.size)
            take_line(list, &line, err);
    }
    free(line.fields);
    return list->count || err->status != BZNA_OK ? err->status :
           DATA_FAIL(err, BZNA_E_NO_SAMPLES, "the list has no lines");
}

static int by_index(const void *a, const void *b)
{
    const data_list_row *x = a, *y = b;

    return (x->index > y->index) - (x->index < y->index);
}

static bzna_status sort_rows(data_list *list, bzna_error *err)
{
    qsort(list->rows, (size_t)list->count, sizeof *list->rows, by_index);

    for (uint64_t i = 1; i < list->count; i++) {
        const data_list_row *a = &list->rows[i - 1], *b = &list->rows[i], *later = a->path > b->path ? a : b;

        if (a->index == b->index)
            return fail_line(list, "its index is in a line before, too", (data_span){ later->path, later->path_size },
                             err);
    }
    return BZNA_OK;
}

bzna_status bzna_formats_list_open(data_list *list, const char *path, int is_sorted, bzna_error *err)
{
    if (bzna_formats_data_read(path, &list->text, err) == BZNA_OK &&
        (parse(list, err) != BZNA_OK || (is_sorted && sort_rows(list, err) != BZNA_OK)))
        bzna_formats_data_prefix(err, path);
    return err->status;
}

void bzna_formats_list_free(data_list *list)
{
    free((char *)(uintptr_t)list->text.data);
    free(list->rows);
    free(list->reals);
    free(list->wholes);
}

const data_list_row *bzna_formats_list_find(const data_list *list, uint64_t index)
{
    const data_list_row wanted = { .index = index };

    return bsearch(&wanted, list->rows, (size_t)list->count, sizeof wanted, by_index);
}

bzna_status bzna_formats_list_check(const data_list *list, const data_list_row *row, bzna_error *err)
{
    for (uint64_t i = row->first_label; i < row->first_label + row->label_count; i++) {
        const float real = list->reals[i];
        const int64_t whole = list->wholes[i];

        if (whole != BZNA_TARGET_NONE && (real >= 0x1p63f || (int64_t)real != whole))
            return fail_line(list, "formats_config.list: a vector of float32 cannot hold a label",
                             (data_span){ row->path, row->path_size }, err);
    }
    return BZNA_OK;
}

/* ---- The files of a list: a provider ---------------------------------------------------------- */

enum { IMAGE, LABEL, NAME };          /* fields; a list without labels has no LABEL */

static void listed_close(void *user)
{
    bzna_formats_list_free(user);
    free(user);
}

/* Returns 1 if labels are targets: no line has more than one, and all are whole numbers; 0: they are vectors. */
static int has_targets(const data_list *list) { return list->most_labels == 1 && !list->has_fractions; }

/* Pictures are whole files. Names and labels are in memory. */
static bzna_status listed_locate(void *user, uint64_t index, uint32_t field, bzna_place *place, bzna_error *err)
{
    const data_list *const list = user;
    const data_list_row *row = &list->rows[index];

    const uint64_t first = row->first_label;
    const int is_target = has_targets(list);
    (void)err;

    *place = (bzna_place){ .file = index, .size = BZNA_SIZE_UNKNOWN };
    if (field == NAME || (field == LABEL && !list->most_labels)) {
        place->data = row->path;
        place->size = row->path_size;
    } else if (field == LABEL) {
        place->data = is_target ? (const void *)&list->wholes[first] : &list->reals[first];
        place->size = row->label_count * (is_target ? sizeof *list->wholes : sizeof *list->reals);
        if (!place->size || (is_target && list->wholes[first] == BZNA_TARGET_NONE))
            return BZNA_E_NOT_FOUND;
    }
    return BZNA_OK;
}

/* Reads a list, and adds the paths of its files, which may be absolute. */
static bzna_status read_list(data_list *list, const char *path, const char *root, data_names *paths, bzna_error *err)
{
    char name[DATA_PATH_BYTES];

    bzna_formats_list_open(list, path, 0, err);
    for (uint64_t i = 0; i < list->count && err->status == BZNA_OK; i++) {
        const data_list_row *row = &list->rows[i];

        if (!has_targets(list) && bzna_formats_list_check(list, row, err) != BZNA_OK)
            return bzna_formats_data_prefix(err, path);
        snprintf(name, sizeof name, "%.*s", (int)row->path_size, row->path);
        bzna_formats_data_add_path(paths, root, name, err);
    }
    return err->status;
}

bzna_status bzna_formats_open_listed(bzna_context *context, const char *root, const bzna_formats_config *config,
                                     bzna_dataset **out, bzna_error *err)
{
    bzna_provider_field fields[] = {
        { .name = "image", .kind = BZNA_FIELD_IMAGE, .located = 1 },
        { .name = "label", .kind = BZNA_FIELD_VECTOR, .located = 1 },
        { .name = "name", .kind = BZNA_FIELD_TEXT, .located = 1 },
    };
    data_list *list = calloc(1, sizeof *list);
    bzna_provider provider = { .struct_size = sizeof provider, .user = list, .fields = fields, .field_count = 3,
                               .locate = listed_locate, .close = listed_close, .kind = "folder" };
    data_names paths = { .count = 0 };

    if (!list)
        return bzna_formats_data_no_memory(err);
    if (read_list(list, config->list, root, &paths, err) == BZNA_OK) {
        if (!list->most_labels)
            fields[LABEL] = fields[--provider.field_count];
        else if (has_targets(list))
            fields[LABEL] = (bzna_provider_field){ .name = "target", .kind = BZNA_FIELD_INTEGER, .located = 1 };
        provider.count = list->count;
        provider.fingerprint = bzna_formats_data_hash(BZNA_FORMATS_HASH, list->text.data, list->text.size);
    }
    return bzna_formats_data_open(context, &provider, &paths, root, config->dataset, out, err);
}

#endif
