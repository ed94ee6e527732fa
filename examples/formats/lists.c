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

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static data_span skip(data_span text, size_t size) { return (data_span){ text.data + size, text.size - size }; }

/* ---- Numbers ---------------------------------------------------------------------------------- */

/* A number of a text. */
typedef struct number {
    float   real;                     /* the nearest float32 */
    int     is_whole;                 /* it is a whole number of 64 bits, however it is written: 7, 007, 7.0, 70e-1 */
    int64_t whole;                    /* this number, else BZNA_TARGET_NONE */
} number;

static const char too_long[] = "a label has more than 64 bits";

/* Reads a decimal number that a float32 can hold, which "nan" and "inf" are not. A point stands for itself in every
 * locale. Where a long double has fewer than 64 bits, numbers with a point or an exponent are whole up to those it has.
 * Returns NULL, or why that fails. */
static const char *number_of(data_span text, number *out)
{
    static const char *const none = "a label is not a number that fits a float32";
    char copy[128] = "", *end, *point;
    long double exact;

    text = bzna_formats_data_trim(text);
    if (!text.size || text.size >= sizeof copy)
        return none;
    memcpy(copy, text.data, text.size);
    if (copy[strspn(copy, "+-.0123456789eE")])
        return none;
    if ((point = strchr(copy, '.')) != NULL)
        *point = *localeconv()->decimal_point;
    out->real = strtof(copy, &end);
    if (*end || isinf(out->real))
        return none;

    if (!point && !strpbrk(copy, "eE")) {
        errno = 0;
        out->whole = strtoll(copy, NULL, 10);
        out->is_whole = errno != ERANGE;
        return out->is_whole ? NULL : too_long;
    }
    exact = strtold(copy, NULL);
    out->is_whole = exact >= -9223372036854775808.0L && exact < 9223372036854775808.0L && truncl(exact) == exact;
    out->whole = out->is_whole ? (int64_t)exact : BZNA_TARGET_NONE;
    return NULL;
}

/* ---- Lines ------------------------------------------------------------------------------------ */

/* A line, and its parts. */
typedef struct list_line {
    data_span text;                   /* the line without its end */
    data_span index;                  /* the part that is the index; empty: there is none */
    data_span labels;                 /* the part with the labels */
    data_span path;                   /* the part that is the path */
} list_line;

/* Makes an error about a part of a line, and shows the beginning of it. */
static bzna_status fail_line(const data_list *list, const char *what, data_span part, bzna_error *err)
{
    data_span rest = { list->text.data, (size_t)(part.data - list->text.data) }, line;
    data_llu row = 1, at = 0;

    for (; bzna_formats_data_take(&rest, '\n', &line); row++)
        at = (data_llu)(rest.data - list->text.data);
    return DATA_FAIL_AT(err, BZNA_E_FORMAT, at, "line %llu at byte %llu: %s%s%.*s%s", row, at, what,
                        part.size ? ": \"" : "", (int)(part.size < 31 ? part.size : 31), part.data,
                        part.size ? "\"" : "");
}

/* Splits index TAB labels TAB path: the first field, the last, and the rest between them. Returns NULL, or why that
 * fails; so do the next two functions. */
static const char *split_tabs(list_line *line)
{
    line->labels = line->text;
    if (!bzna_formats_data_take(&line->labels, '\t', &line->index))
        return "no tab";
    bzna_formats_data_take_last(&line->labels, '\t', &line->path);
    return NULL;
}

/* Splits path,labels or "path",labels. */
static const char *split_commas(list_line *line)
{
    data_span part;

    line->labels = line->text;
    if (*line->text.data != '"')
        return bzna_formats_data_take(&line->labels, ',', &line->path) ? NULL :
               "neither a tab, a comma nor a blank before a label";

    bzna_formats_data_take(&line->labels, '"', &part);
    if (!bzna_formats_data_take(&line->labels, '"', &line->path))
        return "a quote without its end";
    return bzna_formats_data_take(&line->labels, ',', &part) && !part.size ? NULL : "no comma after the path";
}

/* Returns 1 if a word is a label: a number, which may be too long for one. */
static int is_label(data_span word)
{
    number n;
    const char *const fault = number_of(word, &n);

    return !fault || fault == too_long;
}

/* Takes the last word of a text, and the blanks around what is left of it. */
static data_span take_last_word(data_span *text)
{
    size_t at = text->size;
    data_span word;

    while (at && !data_is_blank(text->data[at - 1]))
        at--;
    word = skip(*text, at);
    *text = bzna_formats_data_trim((data_span){ text->data, at });
    return word;
}

/* Splits path labels: the words at the end that are numbers, after at least one word that is the path. */
static const char *split_blanks(list_line *line)
{
    const data_span text = bzna_formats_data_trim(line->text);
    data_span rest = text, word;

    line->path = text;
    while (word = take_last_word(&rest), rest.size && is_label(word))
        line->path = rest;
    line->labels = bzna_formats_data_trim(skip(text, line->path.size));
    return line->labels.size ? NULL : "no tab, no comma, and no label after a blank";
}

/* Takes the next of a line's labels. Returns 0 if there is none left. */
static int take_label(const data_list *list, data_span *rest, data_span *label)
{
    do {
        if (!rest->size)
            return 0;
        bzna_formats_data_take(rest, list->separator, label);
    } while (!label->size && list->separator == ' ');       /* there may be several blanks */

    if (list->separator == ',' && label->size > 1 && label->data[0] == '"' && label->data[label->size - 1] == '"')
        *label = (data_span){ label->data + 1, label->size - 2 };
    return 1;
}

/* Keeps a label. */
static bzna_status add_label(data_list *list, const number *n, bzna_error *err)
{
    float *reals = bzna_formats_data_grow(list->reals, list->label_count, sizeof *reals, err);
    int64_t *wholes = bzna_formats_data_grow(list->wholes, list->label_count, sizeof *wholes, err);

    list->reals = reals ? reals : list->reals;
    list->wholes = wholes ? wholes : list->wholes;
    if (!reals || !wholes)
        return err->status;
    reals[list->label_count] = n->real;
    wholes[list->label_count++] = n->whole;
    list->has_fractions |= !n->is_whole;
    return BZNA_OK;
}

/* Returns 1 if a field can be the name of a column: a word, neither a path nor what stands for a number. */
static int is_column(data_span field)
{
    char first;

    field = bzna_formats_data_trim(field);
    first = field.size ? *field.data : 0;
    if (!((first | 32) >= 'a' && (first | 32) <= 'z') && first != '_' && (unsigned char)first < 0x80)
        return 0;
    for (size_t i = 0; i < field.size; i++)
        if (field.data[i] == '.' || field.data[i] == '/' || field.data[i] == '\\')
            return 0;
    return !bzna_formats_data_has_word("nan inf infinity none null na", field);
}

/* Returns 1 if the first line of a list with commas is a header: its fields name columns, but for the first, which may
 * be empty, and others that are numbers, of which not all are. */
static int is_header(const data_list *list, const list_line *line)
{
    data_span rest = line->labels, field;
    number n;
    int columns = 0;

    if (line->path.size && !is_column(line->path))
        return 0;

    while (take_label(list, &rest, &field)) {
        if (!number_of(field, &n))
            continue;
        if (!is_column(field))
            return 0;
        columns++;
    }
    return columns > 0;
}

/* Takes a line, and keeps its row. is_first: it may be a header. */
static bzna_status take_line(data_list *list, list_line *line, int is_first, bzna_error *err)
{
    const int tabs = list->separator == '\t';
    const char *fault = tabs ? split_tabs(line) : list->separator == ',' ? split_commas(line) : split_blanks(line);
    data_list_row row = { .index = list->count, .path = line->path.data, .path_size = line->path.size,
                          .first_label = list->label_count }, *rows;
    data_span rest = line->labels, label;
    number n;

    if (fault)
        return fail_line(list, fault, line->text, err);
    if (tabs && !bzna_formats_data_integer(bzna_formats_data_trim(line->index), &row.index))
        return fail_line(list, "the index is no whole number", line->index, err);
    if (is_first && list->separator == ',' && is_header(list, line))
        return BZNA_OK;

    while (take_label(list, &rest, &label))
        if ((fault = number_of(label, &n)) != NULL)
            return fail_line(list, fault, line->labels, err);
        else if (add_label(list, &n, err) != BZNA_OK)
            return err->status;
    if (!row.path_size || row.path_size >= DATA_PATH_BYTES)
        return fail_line(list, "the path is empty or too long", line->path, err);

    row.label_count = list->label_count - row.first_label;
    list->most_labels = list->most_labels > row.label_count ? list->most_labels : row.label_count;
    if (!(rows = bzna_formats_data_grow(list->rows, list->count, sizeof *rows, err)))
        return err->status;
    list->rows = rows;
    rows[list->count++] = row;
    return BZNA_OK;
}

/* Returns the separator of a list that begins with this line. A number after a comma and a blank is a comma's. */
static char separator_of(data_span line)
{
    data_span rest = bzna_formats_data_trim(line);
    const data_span word = take_last_word(&rest);

    if (memchr(line.data, '\t', line.size))
        return '\t';
    return rest.size && rest.data[rest.size - 1] != ',' && is_label(word) ? ' ' : ',';
}

/* ---- A list ----------------------------------------------------------------------------------- */

/* Reads the rows of the text. */
static bzna_status parse(data_list *list, bzna_error *err)
{
    const char *zero = list->text.size ? memchr(list->text.data, 0, list->text.size) : NULL;
    const size_t bom = list->text.size >= 3 && !memcmp(list->text.data, "\xef\xbb\xbf", 3) ? 3 : 0;
    data_span rest = skip(list->text, bom);
    list_line line = { .text = rest };
    int is_first = 0;

    if (zero)
        return DATA_FAIL_AT(err, BZNA_E_FORMAT, (uint64_t)(zero - list->text.data), "it is not text: byte %llu is zero",
                            (data_llu)(zero - list->text.data));
    while (rest.size) {
        line.text = bzna_formats_data_line(&rest);
        if (!line.text.size)
            continue;
        is_first = !list->separator;
        if (is_first)
            list->separator = separator_of(line.text);
        if (take_line(list, &line, is_first, err) != BZNA_OK)
            return err->status;
    }
    return list->count ? BZNA_OK : DATA_FAIL(err, BZNA_E_NO_SAMPLES, "the list has no lines");
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
        const data_list_row *row = &list->rows[i];
        const uint64_t at = (uint64_t)((row->path > row[-1].path ? row->path : row[-1].path) - list->text.data);

        if (row->index == row[-1].index)
            return DATA_FAIL_AT(err, BZNA_E_FORMAT, at, "index %llu is in two lines, the second time before byte %llu",
                                (data_llu)row->index, (data_llu)at);
    }
    return BZNA_OK;
}

bzna_status bzna_formats_list_open(data_list *list, const char *path, int is_sorted, bzna_error *err)
{
    if (!*path)
        return DATA_FAIL(err, BZNA_E_NOT_FOUND, "formats_config.list: the path is empty");
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
    const data_span path = { row->path, row->path_size };
    char what[96];

    for (uint64_t i = row->first_label; i < row->first_label + row->label_count; i++) {
        const float real = list->reals[i];
        const int64_t whole = list->wholes[i];

        if (whole == BZNA_TARGET_NONE || (real < 0x1p63f && (int64_t)real == whole))
            continue;
        snprintf(what, sizeof what, "formats_config.list: a vector of float32 cannot hold %lld", (long long)whole);
        return fail_line(list, what, path, err);
    }
    return BZNA_OK;
}

/* ---- The files of a list: a provider ---------------------------------------------------------- */

/* What the data set owns. */
typedef struct listed {
    data_list list;
    int       has_targets;            /* labels are targets; 0: vectors, or there are none */
} listed;

enum { IMAGE, LABEL, NAME };          /* fields; a list without labels has no LABEL */

static void listed_close(void *user)
{
    bzna_formats_list_free(&((listed *)user)->list);
    free(user);
}

/* Pictures are whole files. Names and labels are in memory. */
static bzna_status listed_locate(void *user, uint64_t index, uint32_t field, bzna_place *place, bzna_error *err)
{
    const listed *const l = user;
    const data_list_row *row = &l->list.rows[index];
    const int is_label = field == LABEL && l->list.most_labels;

    (void)err;
    if (field == IMAGE)
        *place = (bzna_place){ .file = index, .size = BZNA_SIZE_UNKNOWN };
    else if (!is_label)
        *place = (bzna_place){ .data = row->path, .size = row->path_size };
    else if (!row->label_count || (l->has_targets && l->list.wholes[row->first_label] == BZNA_TARGET_NONE))
        return BZNA_E_NOT_FOUND;
    else if (l->has_targets)
        *place = (bzna_place){ .data = &l->list.wholes[row->first_label], .size = sizeof *l->list.wholes };
    else
        *place = (bzna_place){ .data = &l->list.reals[row->first_label], .size = row->label_count * sizeof(float) };
    return BZNA_OK;
}

/* If no line has more than one label, and all are whole numbers, they are targets. Otherwise they are vectors, each of
 * which is checked. Adds the paths of all files, which may be absolute. */
static bzna_status take_rows(listed *l, const char *root, const char *list_path, data_names *paths, bzna_error *err)
{
    char name[DATA_PATH_BYTES];

    l->has_targets = l->list.most_labels == 1 && !l->list.has_fractions;
    for (uint64_t i = 0; i < l->list.count; i++) {
        const data_list_row *row = &l->list.rows[i];

        if (!l->has_targets && bzna_formats_list_check(&l->list, row, err) != BZNA_OK)
            return bzna_formats_data_prefix(err, list_path);
        snprintf(name, sizeof name, "%.*s", (int)row->path_size, row->path);
        if (bzna_formats_data_add_path(paths, root, name, err) != BZNA_OK)
            return err->status;
    }
    return BZNA_OK;
}

/* Fails for settings of folders whose classes are folders. */
static bzna_status check_config(const bzna_dataset_config *c, bzna_error *err)
{
    const char *name = c->classes ? "classes" : c->class_order ? "class_order" : c->allow_empty ? "allow_empty" : NULL;

    if (!name)
        return BZNA_OK;
    return DATA_MISUSE(err, "dataset_config.%s: the labels of formats_config.list are the classes",
                       name);
}

bzna_status bzna_formats_open_listed(bzna_context *context, const char *root, const bzna_formats_config *config,
                                     bzna_dataset **out, bzna_error *err)
{
    static const bzna_provider_field vector = { .name = "label", .kind = BZNA_FIELD_VECTOR, .located = 1 };
    bzna_provider_field fields[] = {
        { .name = "image", .kind = BZNA_FIELD_IMAGE, .located = 1 },
        { .name = "target", .kind = BZNA_FIELD_INTEGER, .located = 1 },
        { .name = "name", .kind = BZNA_FIELD_TEXT, .located = 1 },
    };
    listed *l = calloc(1, sizeof *l);
    bzna_provider provider = { .struct_size = sizeof provider, .user = l, .fields = fields, .locate = listed_locate,
                               .close = listed_close, .kind = "folder" };
    data_names paths = { .count = 0 };

    if (!l)
        return bzna_formats_data_no_memory(err);
    if (check_config(config->dataset, err) == BZNA_OK &&
        bzna_formats_list_open(&l->list, config->list, 0, err) == BZNA_OK &&
        take_rows(l, root, config->list, &paths, err) == BZNA_OK) {
        if (!l->has_targets)
            fields[LABEL] = l->list.most_labels ? vector : fields[NAME];
        provider.count = l->list.count;
        provider.field_count = l->list.most_labels ? NAME + 1 : NAME;
        provider.fingerprint = bzna_formats_data_hash(BZNA_FORMATS_HASH, l->list.text.data, l->list.text.size);
    }
    return bzna_formats_data_open(context, &provider, &paths, root, config->dataset, out, err);
}

#endif
