/* paths.c - patterns: the files that a path stands for
 *
 * A path that exists stands for itself. Otherwise, in this order:
 *
 *   - "::" separates several paths.
 *   - Braces are expanded: {000..146}, {1..9..2}, {a,b}, also nested. The leftmost varies slowest.
 *   - *, ? and [] match the names of files, in the order of their bytes.
 *   - A character after a backslash stands for itself; on Windows a backslash parts folders.
 *
 * It needs data.c. */
#include "data.h"

#ifndef BENZINA_FORMATS_NO_PATHS

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PATHS_GROUPS 64u              /* in braces, of a pattern. Bounds recursion, of which a level needs 4 KiB */

/* ---- Braces --------------------------------------------------------------------------------- */

/* Returns the first such character that is outside of inner braces and not escaped, or `end`. Pre: braces are
 * balanced. */
static const char *brace_next(const char *p, const char *end, char wanted)
{
    uint32_t depth = 0;

    for (; p < end; p++) {
        if (depth == 0 && *p == wanted)
            return p;
        if (*p == DATA_ESCAPE && p + 1 < end)
            p++;
        else if (*p == '{')
            depth++;
        else if (*p == '}' && depth)
            depth--;
    }
    return end;
}

/* Checks that the braces of a pattern are balanced. */
static bzna_status brace_check(const char *pattern, bzna_error *err)
{
    const char *p = pattern, *open = pattern;               /* the outermost { that is not closed yet */
    uint64_t depth = 0;

    for (; *p; p++) {
        if (*p == DATA_ESCAPE && p[1])
            p++;
        else if (*p == '{')
            open = depth++ ? open : p;
        else if (*p == '}' && depth-- == 0)
            break;
    }
    if (!*p && !depth)
        return BZNA_OK;
    p = *p ? p : open;
    return DATA_FAIL_AT(err, BZNA_E_ARGUMENT, (uint64_t)(p - pattern), "the pattern's braces are unbalanced: the %c at "
                        "byte %llu has no partner", *p, (data_llu)(p - pattern));
}

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/* The numbers or letters that {first..last..step} gives. */
typedef struct brace_range {
    int64_t  first;                   /* value of the first one */
    int64_t  step;                    /* negative if the range descends */
    uint64_t count;                   /* of numbers or letters */
    int      width;                   /* digits, padded with zeros; 0: no padding */
    int      has_letters;             /* 1: values are places in `letters` */
} brace_range;

/* Reads what is between braces as a range: two letters or numbers of at most 18 digits, and perhaps a number for the
 * step. Returns 1 if it is one, else 0. */
static int brace_range_of(const char *p, const char *end, brace_range *range)
{
    int64_t values[] = { 0, 0, 1 };
    size_t count = 0, size, width = 0, with_letters = 0;
    int is_padded = 0;

    for (;; p += 2) {
        const size_t minus = *p == '-', digits = strspn(p + minus, "0123456789");
        const char *const letter = strchr(letters, *p);

        if (count == 3 || (!letter && (digits < 1 || digits > 18)))
            return 0;
        size = letter ? 1 : minus + digits;
        with_letters += letter ? count + 1 : 0;
        values[count] = letter ? letter - letters : strtoll(p, NULL, 10);
        if (count++ < 2) {
            is_padded |= digits > 1 && p[minus] == '0';
            width = width > size ? width : size;
        }
        p += size;
        if (p == end)
            break;
        if (strncmp(p, "..", 2))
            return 0;
    }

    range->has_letters = with_letters > 0;
    range->width = is_padded ? (int)width : 0;
    range->first = values[0];
    range->step = values[2] < 0 ? -values[2] : values[2] ? values[2] : 1;
    range->step = values[0] <= values[1] ? range->step : -range->step;
    range->count = (uint64_t)((values[1] - values[0]) / range->step) + 1;
    return count > 1 && (!with_letters || with_letters == 1 + 2);        /* both bounds, and not the step */
}

/* Writes a value of a range. */
static void brace_write(const brace_range *range, uint64_t number, char out[32])
{
    const int64_t value = range->first + range->step * (int64_t)number;

    if (range->has_letters)
        snprintf(out, 32, "%c", letters[value]);
    else
        snprintf(out, 32, "%0*lld", range->width, (long long)value);
}

/* Adds all texts that a pattern gives: for each member of its first group in turn, those that the rest gives. `from`:
 * where the search for a group begins. `groups`: how many were replaced so far. No text is longer than the pattern. */
static bzna_status brace_expand(data_names *texts, const char *pattern, size_t from, uint32_t groups, bzna_error *err)
{
    const char *const end = pattern + strlen(pattern), *open = pattern + from, *close = end, *member;
    char text[DATA_PATH_BYTES], number[32];
    brace_range range;
    int is_range = 0;

    /* braces without a range or a list stay in the text */
    for (; (open = brace_next(open, end, '{')) < end; open++) {
        close = brace_next(open + 1, end, '}');
        is_range = brace_range_of(open + 1, close, &range);
        if (is_range || brace_next(open + 1, close, ',') < close)
            break;
    }

    if (texts->count == DATA_FILES || groups > PATHS_GROUPS)
        return DATA_FAIL(err, BZNA_E_LIMIT, "the pattern expands to more than %u files, or has more than %u groups in "
                         "braces", DATA_FILES, PATHS_GROUPS);
    if (open == end)
        return bzna_formats_data_add(texts, pattern, err);

    from = (size_t)(open - pattern);
    member = open + 1;
    for (uint64_t i = 0; err->status == BZNA_OK && (is_range ? i < range.count : member <= close); i++) {
        const char *const member_end = is_range ? member : brace_next(member, close, ',');

        if (is_range)
            brace_write(&range, i, number);
        snprintf(text, sizeof text, "%.*s%s%.*s%s", (int)from, pattern, is_range ? number : "",
                 (int)(member_end - member), member, close + 1);
        brace_expand(texts, text, from, groups + 1, err);
        member = is_range ? member : member_end + 1;
    }
    return err->status;
}

/* Writes a pattern, or a part of one, as a path: without its escapes. Returns 1 if it has none of * ? [, else 0. */
static int glob_plain(const char *pattern, const char *end, char *path)
{
    int plain = 1;

    for (; pattern < end; pattern++) {
        if (*pattern == DATA_ESCAPE && pattern + 1 < end)
            pattern++;
        else
            plain &= *pattern != '*' && *pattern != '?' && *pattern != '[';
        *path++ = *pattern;
    }
    *path = 0;
    return plain;
}

/* Lays texts end to end, each with its NUL and without escapes. Returns their size always; writes only those that
 * fit. */
static size_t lay_out(const data_names *texts, char *dst, size_t capacity)
{
    char text[DATA_PATH_BYTES];
    size_t size = 0;

    for (uint32_t i = 0; i < texts->count; i++) {
        glob_plain(texts->list[i], texts->list[i] + strlen(texts->list[i]), text);
        if (size + strlen(text) < capacity)
            memcpy(dst + size, text, strlen(text) + 1);
        size += strlen(text) + 1;
    }
    return size;
}

bzna_status bzna_formats_braces(const char *pattern, char *dst, size_t capacity, size_t *needed, uint32_t *count,
                                bzna_error *err)
{
    data_names texts = { .count = 0 };
    bzna_error e;
    size_t size = 0;

    bzna_error_init(&e, sizeof e);
    capacity = dst ? capacity : 0;
    if (!pattern)
        DATA_MISUSE(&e, "bzna_formats_braces: pattern is NULL");
    else if (strlen(pattern) >= DATA_PATH_BYTES)
        DATA_FAIL(&e, BZNA_E_LIMIT, "a pattern has at most %d bytes", DATA_PATH_BYTES - 1);
    else if (brace_check(pattern, &e) == BZNA_OK && brace_expand(&texts, pattern, 0, 0, &e) == BZNA_OK &&
             (size = lay_out(&texts, dst, capacity)) > capacity)
        DATA_FAIL(&e, BZNA_E_BUFFER, "the texts need %" PRIu64 " bytes, the buffer has %" PRIu64, (uint64_t)size,
                  (uint64_t)capacity);

    if (needed)
        *needed = size;
    if (count)
        *count = size ? texts.count : 0;
    bzna_formats_data_free(&texts);
    return bzna_formats_data_return(err, &e);
}

/* ---- Names of files ------------------------------------------------------------------------- */

/* Returns a byte of a name or of a pattern as it is compared. */
static int glob_byte(char c) { return (uint8_t)(!DATA_CASE && c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c); }

/* Matches one byte of a name. Returns the pattern after it, or NULL. */
static const char *glob_step(const char *pattern, const char *end, char c)
{
    const int byte = glob_byte(c), is_not = pattern[0] == '[' && (pattern[1] == '!' || pattern[1] == '^');
    const char *p = pattern + 1 + is_not, *close = p + 1;   /* a ] at the beginning of a set belongs to it */
    int is_in = 0;

    if (*pattern == '?')
        return pattern + 1;
    while (*pattern == '[' && close < end && *close != ']')
        close++;
    if (*pattern != '[' || close >= end) {
        pattern += *pattern == DATA_ESCAPE && pattern + 1 < end;
        return glob_byte(*pattern) == byte ? pattern + 1 : NULL;
    }
    for (; p < close; p++) {
        const int low = glob_byte(*p);

        p += p + 2 < close && p[1] == '-' ? 2 : 0;
        is_in |= byte >= low && byte <= glob_byte(*p);
    }
    return is_in != is_not ? close + 1 : NULL;
}

/* Returns 1 if a name matches a pattern, byte by byte; 0 if it does not; -1 if no end of the name does, either: then a
 * star before it need not be tried with other ends. */
static int glob_matches(const char *pattern, const char *end, const char *name)
{
    int found;

    for (; pattern < end && *pattern != '*'; name++)
        if (!*name)
            return -1;
        else if (!(pattern = glob_step(pattern, end, *name)))
            return 0;
    if (pattern == end)
        return !*name;
    do
        found = glob_matches(pattern + 1, end, name);
    while (!found && *name++);
    return found;
}

/* Adds the files that match, in no order. path: has the folder in which the pattern begins, `known` bytes with their
 * slash, and room for 2 * DATA_PATH_BYTES. Folders that cannot be listed have no files. */
static bzna_status glob_walk(data_names *found, char *path, size_t known, const char *pattern, bzna_error *err)
{
    const char *end = pattern + strcspn(pattern, DATA_ESCAPE == 0 ? "/\\" : "/");
    const int is_plain = glob_plain(pattern, end, path + known), shows_hidden = pattern[*pattern == DATA_ESCAPE] == '.';
    data_names names = { .count = 0 };

    if (is_plain)                                           /* its folder need not be listed */
        bzna_formats_data_add(&names, path + known, err);
    path[known] = 0;
    if (!is_plain && bzna_formats_data_list(known ? path : ".", &names, err) == ENOMEM)
        bzna_formats_data_no_memory(err);
    for (uint32_t i = 0; err->status == BZNA_OK && i < names.count; i++) {
        const char *const name = names.list[i];
        const size_t size = known + strlen(name);

        if (size >= DATA_PATH_BYTES ||
            (!is_plain && ((*name == '.' && !shows_hidden) || glob_matches(pattern, end, name) <= 0)))
            continue;
        memcpy(path + known, name, strlen(name) + 1);
        if (*end) {
            path[size] = '/';
            glob_walk(found, path, size + 1, end + 1, err);
        } else if (!is_plain || bzna_formats_data_kind(path) != DATA_NONE) {
            bzna_formats_data_add(found, path, err);
        }
    }
    bzna_formats_data_free(&names);
    return err->status;
}

/* Adds the files that match a pattern, sorted by the bytes of their paths. */
static bzna_status add_matches(data_names *paths, const char *pattern, bzna_error *err)
{
    char path[2 * DATA_PATH_BYTES];
    const uint32_t before = paths->count;

    if (glob_walk(paths, path, 0, pattern, err) == BZNA_OK)
        bzna_formats_data_sort(paths, before);
    return err->status;
}

/* ---- Paths ---------------------------------------------------------------------------------- */

/* Adds the files of one path, or of one of several that "::" separates. A text without braces and * ? [ is a path, with
 * backslashes before characters that would have a meaning. */
static bzna_status add_pattern(data_names *paths, const char *pattern, bzna_error *err)
{
    char path[DATA_PATH_BYTES];
    data_names texts = { .count = 0 };

    if (bzna_formats_data_kind(pattern) != DATA_NONE || !pattern[strcspn(pattern, "{}*?[")])
        return bzna_formats_data_add(paths, pattern, err);
    if (brace_check(pattern, err) == BZNA_OK)
        brace_expand(&texts, pattern, 0, 0, err);
    for (uint32_t i = 0; i < texts.count && err->status == BZNA_OK; i++) {
        const char *const text = texts.list[i];
        const uint32_t before = paths->count;

        if (glob_plain(text, text + strlen(text), path) || bzna_formats_data_kind(path) != DATA_NONE)
            bzna_formats_data_add(paths, path, err);
        else if (add_matches(paths, text, err) == BZNA_OK && paths->count == before)
            DATA_FAIL(err, BZNA_E_NOT_FOUND, "no file matches \"%.160s\"", text);
    }
    bzna_formats_data_free(&texts);
    return err->status;
}

bzna_status bzna_formats_paths(data_names *paths, const char *path, bzna_error *err)
{
    char part[DATA_PATH_BYTES];

    if (bzna_formats_data_kind(path) != DATA_NONE)
        return bzna_formats_data_add(paths, path, err);
    for (const char *p = path, *next; p; p = next ? next + 2 : NULL) {
        const size_t size = (next = strstr(p, "::")) != NULL ? (size_t)(next - p) : strlen(p);

        if (!size || size >= sizeof part)
            return DATA_FAIL_AT(err, size ? BZNA_E_LIMIT : BZNA_E_ARGUMENT, (uint64_t)(p - path),
                                "the path at byte %llu, between ::, has not 1 to %d bytes", (data_llu)(p - path),
                                DATA_PATH_BYTES - 1);
        snprintf(part, sizeof part, "%.*s", (int)size, p);
        if (add_pattern(paths, part, err) != BZNA_OK)
            return err->status;
        if (paths->count > DATA_FILES)
            return DATA_FAIL(err, BZNA_E_LIMIT, "more than %u files", DATA_FILES);
    }
    return err->status;
}

#endif
