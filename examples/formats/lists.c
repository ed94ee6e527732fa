/* lists.c - lists of samples: text with a line for each, which names a file, or labels a record
 *
 * The first line tells which kind of list it is:
 * - if it has a tab: index, labels and path with tabs between them (MXNet's .lst)
 * - if it ends in a number after a blank: path and labels with blanks between them (Caffe's val.txt, DALI's file_list);
 *   the numbers at the end of a line are labels
 * - otherwise: path and labels with commas between them (.csv), and a path with commas stands in quotes. Here the first
 *   line may be a header, see is_header
 *
 * The text is kept, because paths and labels point into it: a label that is a whole number of 64 bits is exact. A line
 * takes 32 bytes more. A list of files becomes a provider whose values are whole files. The library opens a sample's
 * file when it reads the sample.
 *
 * It needs data.c. */
#include "data.h"

#ifndef BENZINA_FORMATS_NO_LISTS

#include <float.h>
#include <stdlib.h>
#include <string.h>

static data_span skip(data_span text, size_t size) { return (data_span){ text.data + size, text.size - size }; }

static int has_byte(data_span text, char byte) { return text.size && memchr(text.data, byte, text.size) != NULL; }

/* ---- Numbers, independent of the process's locale --------------------------------------------- */

/* Takes a sign, if there is one. Returns 1 if it is a minus. */
static int take_sign(data_span *text)
{
    const char sign = text->size ? *text->data : 0;

    if (sign == '-' || sign == '+')
        *text = skip(*text, 1);
    return sign == '-';
}

/* Returns x * 10^exponent. */
static double scale_10(double x, int64_t exponent)
{
    const uint64_t wanted = (uint64_t)(exponent < 0 ? -exponent : exponent);
    double power = 1, base = 10;
    uint64_t n = wanted < 400 ? wanted : 400;

    for (; n > 22; n -= 22)                                 /* a double holds 10^22 exactly */
        x = exponent < 0 ? x / 1e22 : x * 1e22;
    for (; n; n >>= 1) {
        power *= n & 1 ? base : 1;
        base *= base;
    }
    return exponent < 0 ? x / power : x * power;
}

/* A decimal number: digits * 10^exponent. */
typedef struct decimal {
    uint64_t digits;                  /* the first ones, as many as fit, more than a double holds */
    int64_t  exponent;
    int      is_cut;                  /* there are more digits, and they are not all 0 */
} decimal;

/* Takes the digits of a decimal number, with a point or without. Returns 0 if there are none. */
static int take_digits(data_span *text, decimal *out)
{
    int point = 0, any = 0;

    *out = (decimal){ 0, 0, 0 };
    for (; text->size; *text = skip(*text, 1)) {
        const unsigned char c = (unsigned char)*text->data, digit = (unsigned char)(c - '0');

        if (c == '.' && !point) {
            point = 1;
            continue;
        }
        if (digit > 9)
            break;

        any = 1;
        if (out->digits <= (UINT64_MAX - digit) / 10) {
            out->digits = out->digits * 10 + digit;
            out->exponent -= point;
        } else {
            out->is_cut |= digit != 0;
            out->exponent += !point;
        }
    }
    return any;
}

/* Gives a decimal number as an integer. Returns 0 if it is no whole number, or exceeds 64 bits. */
static int whole_of(decimal d, int minus, int64_t *out)
{
    for (; d.exponent < 0 && d.digits && d.digits % 10 == 0; d.exponent++)
        d.digits /= 10;
    for (; d.exponent > 0 && d.digits && d.digits <= UINT64_MAX / 10; d.exponent--)
        d.digits *= 10;
    if (d.is_cut || (d.exponent && d.digits) || d.digits > (uint64_t)INT64_MAX + (uint64_t)minus)
        return 0;
    *out = minus && d.digits ? -(int64_t)(d.digits - 1) - 1 : (int64_t)d.digits;
    return 1;
}

/* A number of a text. */
typedef struct number {
    float   real;                     /* the nearest float32 */
    int     is_whole;                 /* it is a whole number of 64 bits, however it is written: 7, 007, 7.0, 70e-1 */
    int64_t whole;                    /* this number */
} number;

static const char too_long[] = "a label has more than 64 bits";

/* Reads a decimal number that a float32 can hold, which "nan" and "inf" are not. Returns NULL, or why that fails. */
static const char *number_of(data_span text, number *out)
{
    static const char *const none = "a label is not a number that fits a float32";
    uint64_t exponent = 0;
    decimal d;
    int minus, minus_exponent = 0, is_integer;
    double value;

    text = bzna_formats_data_trim(text);
    is_integer = !has_byte(text, '.');
    minus = take_sign(&text);
    if (!take_digits(&text, &d))
        return none;

    if (text.size) {
        if ((*text.data | 32) != 'e')
            return none;
        text = skip(text, 1);
        minus_exponent = take_sign(&text);
        if (!bzna_formats_data_integer(text, &exponent))
            return none;
        is_integer = 0;
    }

    exponent = exponent < INT32_MAX ? exponent : INT32_MAX; /* a text is shorter, so it is as good as more */
    d.exponent += minus_exponent ? -(int64_t)exponent : (int64_t)exponent;
    value = d.digits ? scale_10((double)d.digits, d.exponent) : 0;
    if (!(value <= (double)FLT_MAX))
        return none;
    out->real = (float)(minus ? -value : value);
    out->is_whole = whole_of(d, minus, &out->whole);
    return is_integer && !out->is_whole ? too_long : NULL;
}

/* ---- Lines ------------------------------------------------------------------------------------ */

/* A line, and its place. */
typedef struct list_line {
    data_span text;                   /* the line without its end */
    uint64_t  at;                     /* its offset in the file */
    uint64_t  number;                 /* from 1 */
    data_span index;                  /* the part that is the index; empty: there is none */
    data_span labels;                 /* the part with the labels */
    data_span path;                   /* the part that is the path */
} list_line;

/* Makes an error about a line, and shows the beginning of the part of it that is at fault. */
static bzna_status fail_line(const list_line *line, const char *what, data_span part, bzna_error *err)
{
    char shown[32];
    const int size = (int)(part.size < sizeof shown - 1 ? part.size : sizeof shown - 1);

    snprintf(shown, sizeof shown, "%.*s", size, part.size ? part.data : "");
    for (char *p = shown; *p; p++)
        if ((unsigned char)*p < 32 || (unsigned char)*p > 126)
            *p = '?';                                       /* a message is one line */
    return DATA_FAIL_AT(err, BZNA_E_FORMAT, line->at, "line %llu at byte %llu: %s%s%s%s", (data_llu)line->number,
                        (data_llu)line->at, what, part.size ? ": \"" : "", shown, part.size ? "\"" : "");
}

static data_span between(const char *from, const char *to)
{
    return (data_span){ from, from < to ? (size_t)(to - from) : 0 };
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

/* Splits path labels: the words at the end that are numbers, after at least one word that is the path. */
static const char *split_blanks(list_line *line)
{
    const data_span text = bzna_formats_data_trim(line->text);
    const char *const end = text.data + text.size, *labels = end, *word;

    for (const char *p = end; p > text.data; p = word) {
        while (p > text.data && data_is_blank(p[-1]))
            p--;

        for (word = p; word > text.data && !data_is_blank(word[-1]); word--)
            continue;

        if (word == text.data || !is_label(between(word, p)))
            break;
        labels = word;
    }

    if (labels == end)
        return "no tab, no comma, and no label after a blank";
    line->path = bzna_formats_data_trim(between(text.data, labels));
    line->labels = between(labels, end);
    return NULL;
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

/* Checks a line's labels. Returns NULL, or why they are refused. */
static const char *check_labels(data_list *list, data_span rest)
{
    const char *fault = NULL;
    number n;
    data_span label;
    uint64_t count = 0;

    while (!fault && take_label(list, &rest, &label))
        if (!(fault = number_of(label, &n))) {
            list->has_fractions |= !n.is_whole;
            count++;
        }
    list->most_labels = list->most_labels > count ? list->most_labels : count;
    return fault;
}

/* Returns 1 if a field can be the name of a column: a word, neither a path nor what stands for a number. */
static int is_column(data_span field)
{
    static const char *const no_columns[] = { "nan", "inf", "infinity", "none", "null", "na" };
    char word[16] = "";
    size_t size;

    field = bzna_formats_data_trim(field);
    size = field.size < sizeof word - 1 ? field.size : sizeof word - 1;
    for (size_t i = 0; i < size; i++)
        word[i] = (char)(field.data[i] >= 'A' && field.data[i] <= 'Z' ? field.data[i] | 32 : field.data[i]);
    if (!(word[0] >= 'a' && word[0] <= 'z') && word[0] != '_' && (unsigned char)word[0] < 0x80)
        return 0;

    for (size_t i = 0; i < field.size; i++)
        if (field.data[i] == '.' || field.data[i] == '/' || field.data[i] == '\\')
            return 0;
    for (size_t i = 0; i < sizeof no_columns / sizeof no_columns[0]; i++)
        if (!strcmp(word, no_columns[i]))
            return 0;
    return 1;
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

/* Takes a line: counts it, and keeps its row if there is room. is_first: it may be a header. */
static bzna_status take_line(data_list *list, list_line *line, int is_first, bzna_error *err)
{
    const int tabs = list->separator == '\t';
    uint64_t index = list->count;
    const char *fault = tabs ? split_tabs(line) : list->separator == ',' ? split_commas(line) : split_blanks(line);

    if (fault)
        return fail_line(line, fault, line->text, err);
    if (tabs && !bzna_formats_data_integer(bzna_formats_data_trim(line->index), &index))
        return fail_line(line, "the index is no whole number", line->index, err);
    if (is_first && list->separator == ',' && is_header(list, line))
        return BZNA_OK;

    if ((fault = check_labels(list, line->labels)) != NULL)
        return fail_line(line, fault, line->labels, err);
    if (line->path.size == 0 || line->path.size >= DATA_PATH_BYTES)
        return fail_line(line, "the path is empty or too long", line->path, err);
    if (line->labels.size > UINT32_MAX)
        return fail_line(line, "the labels are too long", line->path, err);

    if (list->rows)
        list->rows[list->count] = (data_list_row){
            index, (uint64_t)(line->path.data - list->text.data), (uint64_t)(line->labels.data - list->text.data),
            (uint32_t)line->path.size, (uint32_t)line->labels.size
        };
    list->count++;
    return BZNA_OK;
}

/* Returns the separator of a list that begins with this line. A number after a comma and a blank is a comma's. */
static char separator_of(data_span line)
{
    const data_span text = bzna_formats_data_trim(line);
    size_t word = text.size, end;

    while (word && !data_is_blank(text.data[word - 1]))
        word--;
    for (end = word; end && data_is_blank(text.data[end - 1]); end--)
        continue;

    if (has_byte(line, '\t'))
        return '\t';
    return end && text.data[end - 1] != ',' && is_label(skip(text, word)) ? ' ' : ',';
}

/* Reads all lines, to count them (rows NULL), or to keep them. */
static bzna_status walk(data_list *list, bzna_error *err)
{
    const size_t bom = list->text.size >= 3 && !memcmp(list->text.data, "\xef\xbb\xbf", 3) ? 3 : 0;
    data_span rest = skip(list->text, bom);
    list_line line = { .number = 0 };
    bzna_status status = BZNA_OK;
    int is_first = 1;

    list->count = list->most_labels = 0;
    while (rest.size && status == BZNA_OK) {
        line.at = (uint64_t)(rest.data - list->text.data);
        line.number++;
        line.text = bzna_formats_data_line(&rest);
        if (!line.text.size)
            continue;
        if (!list->separator)
            list->separator = separator_of(line.text);
        status = take_line(list, &line, is_first, err);
        is_first = 0;
    }
    return status;
}

/* ---- A list ----------------------------------------------------------------------------------- */

/* Reads the rows of the text. */
static bzna_status parse(data_list *list, bzna_error *err)
{
    const char *zero = list->text.size ? memchr(list->text.data, 0, list->text.size) : NULL;

    if (zero)
        return DATA_FAIL_AT(err, BZNA_E_FORMAT, (uint64_t)(zero - list->text.data), "it is not text: byte %llu is zero",
                            (data_llu)(zero - list->text.data));

    if (walk(list, err) != BZNA_OK)
        return err->status;
    if (list->count == 0)
        return DATA_FAIL(err, BZNA_E_NO_SAMPLES, "the list has no lines");

    if (list->count > SIZE_MAX / sizeof *list->rows ||
        !(list->rows = malloc((size_t)list->count * sizeof *list->rows)))
        return bzna_formats_data_no_memory(err);
    return walk(list, err);
}

bzna_status bzna_formats_list_open(data_list *list, const char *path, bzna_error *err)
{
    if (!*path)
        return DATA_FAIL(err, BZNA_E_NOT_FOUND, "formats_config.list: the path is empty");
    if (bzna_formats_data_read(path, &list->text, err) == BZNA_OK && parse(list, err) != BZNA_OK)
        bzna_formats_data_prefix(err, path);
    return err->status;
}

void bzna_formats_list_free(data_list *list)
{
    free((char *)(uintptr_t)list->text.data);
    free(list->rows);
}

/* Orders rows by index, and those with equal indices by their lines. */
static int by_index(const void *a, const void *b)
{
    const data_list_row *x = a, *y = b;

    return x->index != y->index ? x->index < y->index ? -1 : 1 : x->path_at < y->path_at ? -1 : x->path_at > y->path_at;
}

bzna_status bzna_formats_list_sort(data_list *list, const char *name, bzna_error *err)
{
    qsort(list->rows, (size_t)list->count, sizeof *list->rows, by_index);

    for (uint64_t i = 1; i < list->count; i++) {
        const data_list_row *row = &list->rows[i];

        if (row->index != row[-1].index)
            continue;

        DATA_FAIL_AT(err, BZNA_E_FORMAT, row->path_at, "index %llu is in two lines, the second time before byte %llu",
                     (data_llu)row->index, (data_llu)row->path_at);
        return bzna_formats_data_prefix(err, name);
    }
    return BZNA_OK;
}

const data_list_row *bzna_formats_list_find(const data_list *list, uint64_t index)
{
    uint64_t low = 0, high = list->count;

    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (list->rows[middle].index < index)
            low = middle + 1;
        else
            high = middle;
    }
    return low < list->count && list->rows[low].index == index ? &list->rows[low] : NULL;
}

static data_span labels_of(const data_list *list, const data_list_row *row)
{
    return (data_span){ list->text.data + row->labels_at, row->labels_size };
}

int64_t bzna_formats_list_target(const data_list *list, const data_list_row *row)
{
    data_span rest = labels_of(list, row), label;
    number n;
    const int is_one = take_label(list, &rest, &label) && !rest.size && !number_of(label, &n);

    return is_one && n.is_whole ? n.whole : BZNA_TARGET_NONE;
}

/* Fails because of a row's label. */
static bzna_status fail_label(const data_list *list, const data_list_row *row, const char *what, data_span label,
                              bzna_error *err)
{
    data_span rest = { list->text.data, (size_t)row->path_at }, skipped;
    list_line line = { .number = 1 };

    while (bzna_formats_data_take(&rest, '\n', &skipped)) {
        line.at = (uint64_t)(rest.data - list->text.data);
        line.number++;
    }
    return fail_line(&line, what, label, err);
}

bzna_status bzna_formats_list_labels(const data_list *list, const data_list_row *row, void *labels, uint64_t capacity,
                                     uint64_t *count, bzna_error *err)
{
    data_span rest = labels_of(list, row), label;
    number n;

    for (*count = 0; take_label(list, &rest, &label) && !number_of(label, &n); ++*count) {
        const float real = n.real;

        if (n.is_whole &&
            !(real >= -9223372036854775808.0f && real < 9223372036854775808.0f && (int64_t)real == n.whole))
            return fail_label(list, row, "formats_config.list: a vector of float32 cannot hold this whole number",
                              label, err);
        if (*count < capacity)
            memcpy((char *)labels + *count * sizeof real, &real, sizeof real);
    }
    return BZNA_OK;
}

/* ---- The files of a list: a provider ---------------------------------------------------------- */

/* What the data set owns. */
typedef struct listed {
    data_list list;
    int64_t  *targets;                /* of the rows; NULL: labels are vectors, or there are none */
    float    *labels;                 /* of all rows, one after the other; NULL: likewise */
    uint64_t *label_ends;             /* where those of each row end in labels */
    uint32_t  name_field;             /* 2, or 1 without labels */
} listed;

enum { IMAGE, LABEL, NAME };          /* fields; a list without labels has no LABEL */

static void listed_close(void *user)
{
    listed *l = user;

    bzna_formats_list_free(&l->list);
    free(l->targets);
    free(l->labels);
    free(l->label_ends);
    free(l);
}

/* Pictures are whole files. The others lie in memory. */
static bzna_status locate(void *user, uint64_t index, uint32_t field, bzna_place *place, bzna_error *err)
{
    const listed *const l = user;
    const data_list_row *row = &l->list.rows[index];
    (void)err;

    if (field == IMAGE) {
        place->file = index;
        place->size = BZNA_SIZE_UNKNOWN;
    } else if (field == l->name_field) {
        place->data = l->list.text.data + row->path_at;
        place->size = row->path_size;
    } else if (l->targets) {
        place->data = &l->targets[index];
        place->size = sizeof *l->targets;
        return l->targets[index] == BZNA_TARGET_NONE ? BZNA_E_NOT_FOUND : BZNA_OK;
    } else {
        const uint64_t begin = index ? l->label_ends[index - 1] : 0;
        place->data = l->labels + begin;
        place->size = (l->label_ends[index] - begin) * sizeof *l->labels;
        return place->size ? BZNA_OK : BZNA_E_NOT_FOUND;
    }
    return BZNA_OK;
}

/* Reads the labels. If no line has more than one, and all are whole numbers, they are targets. Otherwise they are
 * vectors. */
static bzna_status read_labels(listed *l, const char *path, bzna_error *err)
{
    const data_list *list = &l->list;
    const size_t count = (size_t)list->count;
    uint64_t end = 0, more;

    l->name_field = list->most_labels ? NAME : LABEL;
    if (list->most_labels == 1 && !list->has_fractions) {
        if (!(l->targets = malloc((count + 1) * sizeof *l->targets)))
            return bzna_formats_data_no_memory(err);
        for (size_t i = 0; i < count; i++)
            l->targets[i] = bzna_formats_list_target(list, &list->rows[i]);
        return BZNA_OK;
    }

    if (!list->most_labels)
        return BZNA_OK;
    /* a label and what follows it have two bytes of the text, but for the last */
    l->labels = malloc((list->text.size / 2 + 1) * sizeof *l->labels);
    l->label_ends = malloc((count + 1) * sizeof *l->label_ends);
    if (!l->labels || !l->label_ends)
        return bzna_formats_data_no_memory(err);
    for (size_t i = 0; i < count; i++, end += more) {
        if (bzna_formats_list_labels(list, &list->rows[i], l->labels + end, UINT64_MAX, &more, err) != BZNA_OK)
            return bzna_formats_data_prefix(err, path);
        l->label_ends[i] = end + more;
    }
    return BZNA_OK;
}

/* Adds the paths of all files, which may be absolute. */
static bzna_status add_files(const data_list *list, const char *root, data_names *paths, bzna_error *err)
{
    char name[DATA_PATH_BYTES], path[DATA_PATH_BYTES];

    if (list->count >= UINT32_MAX)
        return bzna_formats_data_no_memory(err);
    for (uint64_t i = 0; err->status == BZNA_OK && i < list->count; i++) {
        const data_list_row *row = &list->rows[i];
        memcpy(name, list->text.data + row->path_at, row->path_size);
        name[row->path_size] = 0;
        if (bzna_formats_data_join(path, bzna_formats_data_is_absolute(name) ? "" : root, name, err) == BZNA_OK)
            bzna_formats_data_add(paths, path, err);
    }
    return err->status;
}

/* Fails for settings of folders whose classes are folders. */
static bzna_status check_config(const bzna_dataset_config *c, bzna_error *err)
{
    const char *name = c->classes ? "classes" : c->class_order ? "class_order" : c->allow_empty ? "allow_empty" : NULL;

    if (!name)
        return BZNA_OK;
    return DATA_FAIL(err, BZNA_E_ARGUMENT, "dataset_config.%s: the labels of formats_config.list are the classes",
                     name);
}

bzna_status bzna_formats_open_listed(bzna_context *context, const char *root, const bzna_formats_config *config,
                                     bzna_dataset **out, bzna_error *err)
{
    bzna_provider_field fields[] = {
        { .name = "image", .kind = BZNA_FIELD_IMAGE, .located = 1 },
        { .name = "target", .kind = BZNA_FIELD_INTEGER, .located = 1 },
        { .name = "name", .kind = BZNA_FIELD_TEXT, .located = 1 },
    };
    bzna_provider provider = { .struct_size = sizeof provider, .fields = fields, .locate = locate,
                               .close = listed_close, .kind = "folder" };
    bzna_dataset_config own;
    data_names paths = { .count = 0 };
    const char **files = NULL;
    listed *l = calloc(1, sizeof *l);

    if (!l)
        return bzna_formats_data_no_memory(err);
    if (bzna_formats_data_config(&own, config, root, provider.kind, err) == BZNA_OK &&
        check_config(&own, err) == BZNA_OK &&
        bzna_formats_list_open(&l->list, config->list, err) == BZNA_OK &&
        read_labels(l, config->list, err) == BZNA_OK && add_files(&l->list, root, &paths, err) == BZNA_OK &&
        (files = bzna_formats_data_all(&paths, err))) {
        if (!l->targets) {
            fields[LABEL].name = "label";
            fields[LABEL].kind = BZNA_FIELD_VECTOR;
        }
        fields[l->name_field] = fields[NAME];
        provider.user = l;
        provider.count = provider.file_count = l->list.count;
        provider.field_count = l->name_field + 1;
        provider.files = files;
        provider.fingerprint = bzna_formats_data_hash(BZNA_FORMATS_HASH, l->list.text.data, l->list.text.size);
        bzna_dataset_open_provider(context, &provider, &own, out, err);
    } else {
        bzna_formats_data_prefix(err, own.name ? own.name : root);
    }
    if (err->status != BZNA_OK)
        listed_close(l);
    free(files);
    bzna_formats_data_free(&paths);
    return err->status;
}

#endif
