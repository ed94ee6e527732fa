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

#define PATHS_DEPTH  16u              /* of braces in braces */
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

/* Checks that a pattern is not too long, and its braces are balanced and not nested too deep. */
static bzna_status brace_check(const char *pattern, bzna_error *err)
{
    uint64_t open[PATHS_DEPTH], at;
    uint32_t depth = 0;

    if (strlen(pattern) >= DATA_PATH_BYTES)
        return DATA_FAIL(err, BZNA_E_LIMIT, "a pattern has at most %d bytes", DATA_PATH_BYTES - 1);

    for (at = 0; pattern[at]; at++) {
        if (pattern[at] == DATA_ESCAPE && pattern[at + 1]) {
            at++;
        } else if (pattern[at] == '{') {
            if (depth == PATHS_DEPTH)
                return DATA_FAIL_AT(err, BZNA_E_LIMIT, at, "braces nest deeper than %u at byte %llu of the pattern",
                                    PATHS_DEPTH, (data_llu)at);
            open[depth++] = at;
        } else if (pattern[at] == '}' && depth-- == 0) {
            return DATA_FAIL_AT(err, BZNA_E_ARGUMENT, at,
                                "the pattern's braces are unbalanced: the } at byte %llu closes no {", (data_llu)at);
        }
    }

    if (!depth)
        return BZNA_OK;
    return DATA_FAIL_AT(err, BZNA_E_ARGUMENT, open[depth - 1],
                        "the pattern's braces are unbalanced: the { at byte %llu is not closed",
                        (data_llu)open[depth - 1]);
}

/* The numbers or letters that {first..last..step} gives. */
typedef struct brace_range {
    int64_t  first;                   /* value of the first one */
    int64_t  step;                    /* negative if the range descends */
    uint64_t count;                   /* of numbers or letters */
    int      width;                   /* digits, padded with zeros; 0: no padding */
    int      letters;                 /* 1: values are places in A to Z, a to z */
} brace_range;

/* Reads a letter, as its place in A to Z, a to z, or a whole number of at most 18 digits, which may have a minus.
 * Returns where it ends, or NULL. *is_padded: becomes 1 if the number begins with a zero before other digits. */
static const char *brace_bound(const char *p, int64_t *value, int *is_letter, int *is_padded)
{
    const size_t minus = *p == '-', digits = strspn(p + minus, "0123456789");

    *is_letter = (*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z');
    if (*is_letter) {
        *value = *p >= 'a' ? *p - 'a' + 26 : *p - 'A';
        return p + 1;
    }
    if (digits < 1 || digits > 18)
        return NULL;
    *value = strtoll(p, NULL, 10);
    *is_padded |= p[minus] == '0' && digits > 1;
    return p + minus + digits;
}

/* Reads what is between braces as a range. Returns 1 if it is one, else 0. */
static int brace_range_of(const char *p, const char *end, brace_range *range)
{
    int64_t stop, step = 1;
    int letter, is_padded = 0, ignored = 0;
    const char *first_end = brace_bound(p, &range->first, &range->letters, &is_padded), *at;

    if (!first_end || strncmp(first_end, "..", 2) ||
        !(at = brace_bound(first_end + 2, &stop, &letter, &is_padded)) || letter != range->letters)
        return 0;
    range->width = !is_padded ? 0 : (int)(at - first_end - 2 > first_end - p ? at - first_end - 2 : first_end - p);
    if (at < end && (strncmp(at, "..", 2) || !(at = brace_bound(at + 2, &step, &letter, &ignored)) || letter))
        return 0;

    step = step < 0 ? -step : step ? step : 1;
    range->step = range->first <= stop ? step : -step;
    range->count = (uint64_t)((stop - range->first) / range->step) + 1;
    return at == end;
}

/* Writes a value of a range. Returns where it ends. */
static char *brace_write(const brace_range *range, uint64_t number, char *out)
{
    const int64_t value = range->first + range->step * (int64_t)number;

    if (!range->letters)
        return out + snprintf(out, 32, "%0*lld", range->width, (long long)value);
    *out = (char)(value < 26 ? 'A' + value : 'a' + (value - 26));
    return out + 1;
}

/* Adds all texts that a pattern gives: for each member of its first group in turn, those that the rest gives. `from`:
 * where the search for a group begins. `groups`: how many were replaced so far. No text is longer than the pattern. */
static bzna_status brace_expand(data_names *texts, const char *pattern, size_t from, uint32_t groups, bzna_error *err)
{
    const char *const end = pattern + strlen(pattern), *open = pattern + from, *close = end, *member;
    char text[DATA_PATH_BYTES];
    brace_range range;
    int is_range = 0;

    /* braces without a range or a list stay in the text */
    for (; (open = brace_next(open, end, '{')) < end; open++) {
        close = brace_next(open + 1, end, '}');
        is_range = brace_range_of(open + 1, close, &range);
        if (is_range || brace_next(open + 1, close, ',') < close)
            break;
    }

    if (open == end && texts->count < DATA_FILES)
        return bzna_formats_data_add(texts, pattern, err);
    if (open == end)
        return DATA_FAIL(err, BZNA_E_LIMIT, "the pattern expands to more than %u files", DATA_FILES);
    if (groups == PATHS_GROUPS)
        return DATA_FAIL(err, BZNA_E_LIMIT, "the pattern has more than %u groups in braces", PATHS_GROUPS);

    memcpy(text, pattern, (size_t)(open - pattern));
    member = open + 1;
    for (uint64_t i = 0; err->status == BZNA_OK && (is_range ? i < range.count : member <= close); i++) {
        const char *member_end = is_range ? member : brace_next(member, close, ',');
        char *out = text + (open - pattern);

        memcpy(out, member, (size_t)(member_end - member));
        out = is_range ? brace_write(&range, i, out) : out + (member_end - member);
        memcpy(out, close + 1, (size_t)(end - close));      /* with its NUL */
        brace_expand(texts, text, (size_t)(open - pattern), groups + 1, err);
        member = is_range ? member : member_end + 1;
    }
    return err->status;
}

/* Lays texts end to end, each with its NUL and without backslashes before characters. Returns their size always; writes
 * only what fits. */
static size_t join(const data_names *texts, char *dst, size_t capacity)
{
    size_t size = 0;

    for (uint32_t i = 0; i < texts->count; i++)
        for (const char *p = texts->list[i];; p++) {
            p += *p == '\\' && p[1];
            if (size++ < capacity)
                dst[size - 1] = *p;
            if (!*p)
                break;
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
    else if (brace_check(pattern, &e) == BZNA_OK && brace_expand(&texts, pattern, 0, 0, &e) == BZNA_OK &&
             (size = join(&texts, dst, capacity)) > capacity)
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

static bzna_status add(data_names *paths, const char *path, bzna_error *err)
{
    if (paths->count == DATA_FILES)
        return DATA_FAIL(err, BZNA_E_LIMIT, "more than %u files", DATA_FILES);
    return bzna_formats_data_add(paths, path, err);
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

/* Returns a byte of a name or of a pattern as it is compared. */
static int glob_byte(char c) { return (uint8_t)(!DATA_CASE && c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c); }

/* Looks for a byte in [...], after its [. Returns 1 if it is there, 0 if not, and the end of the set; -1: there is no
 * ]. */
static int glob_in_set(const char *p, const char *end, int byte, const char **after)
{
    const int is_not = p < end && (*p == '!' || *p == '^');
    const char *first = p += is_not;
    int found = 0;

    for (; p < end && (*p != ']' || p == first); p++) {
        int low;

        p += *p == DATA_ESCAPE && p + 1 < end;
        low = glob_byte(*p);
        if (p + 2 < end && p[1] == '-' && p[2] != ']') {
            p += 2;
            p += *p == DATA_ESCAPE && p + 1 < end;
        }
        found |= byte >= low && byte <= glob_byte(*p);
    }
    *after = p + 1;
    return p < end ? found != is_not : -1;
}

/* Matches one byte of a name. Returns the pattern after it, or NULL. */
static const char *glob_step(const char *pattern, const char *end, char c)
{
    const int byte = glob_byte(c);
    const char *after = NULL;
    int in_set;

    if (pattern == end)
        return NULL;
    if (*pattern == '?')
        return pattern + 1;
    if (*pattern == '[' && (in_set = glob_in_set(pattern + 1, end, byte, &after)) >= 0)
        return in_set ? after : NULL;
    pattern += *pattern == DATA_ESCAPE && pattern + 1 < end;
    return glob_byte(*pattern) == byte ? pattern + 1 : NULL;
}

/* Returns 1 if a name matches a pattern, byte by byte, else 0. */
static int glob_matches(const char *pattern, const char *end, const char *name)
{
    const char *star = NULL, *from = NULL, *next;

    while (*name) {
        if (pattern < end && *pattern == '*') {
            star = ++pattern;
            from = name;
        } else if ((next = glob_step(pattern, end, *name)) != NULL) {
            pattern = next;
            name++;
        } else if (star) {
            pattern = star;
            name = ++from;
        } else {
            return 0;
        }
    }

    while (pattern < end && *pattern == '*')
        pattern++;
    return pattern == end;
}

/* Adds the files that match, in no order. path: has the folder in which the pattern begins, `known` bytes with their
 * slash, and room for 2 * DATA_PATH_BYTES. Folders that cannot be listed have no files. */
static bzna_status glob_walk(data_names *found, char *path, size_t known, const char *pattern, bzna_error *err)
{
    const char *end = pattern + strcspn(pattern, "/");
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

        if (size + strlen(end) >= DATA_PATH_BYTES ||
            (!is_plain && ((*name == '.' && !shows_hidden) || !glob_matches(pattern, end, name))))
            continue;
        memcpy(path + known, name, strlen(name) + 1);
        if (*end) {
            path[size] = '/';
            glob_walk(found, path, size + 1, end + 1, err);
        } else if (!is_plain || bzna_formats_data_kind(path) != DATA_NONE) {
            add(found, path, err);
        }
    }
    bzna_formats_data_free(&names);
    return err->status;
}

bzna_status bzna_formats_match(data_names *paths, const char *folder, const char *pattern, bzna_error *err)
{
    char path[2 * DATA_PATH_BYTES];
    const uint32_t before = paths->count;

    if (bzna_formats_data_join(path, folder, *folder ? "." : "", err) != BZNA_OK ||
        glob_walk(paths, path, *folder ? strlen(path) - 1 : 0, pattern, err) != BZNA_OK)
        return err->status;
    bzna_formats_data_sort(paths, before);
    return BZNA_OK;
}

/* ---- Paths ---------------------------------------------------------------------------------- */

/* Adds the files of a text without braces. Without * ? [ it is a path, with backslashes before characters that would
 * have a meaning. */
static bzna_status add_expanded(data_names *paths, const char *text, bzna_error *err)
{
    char pattern[DATA_PATH_BYTES], path[DATA_PATH_BYTES];
    const uint32_t before = paths->count;
    int plain;

    memcpy(pattern, text, strlen(text) + 1);
    if (!DATA_ESCAPE)
        for (char *p = pattern; *p; p++)
            if (*p == '\\')
                *p = '/';
    plain = glob_plain(pattern, pattern + strlen(pattern), path);
    if (plain || bzna_formats_data_kind(path) != DATA_NONE)
        return add(paths, path, err);
    if (bzna_formats_match(paths, "", pattern, err) == BZNA_OK && paths->count == before)
        return DATA_FAIL(err, BZNA_E_NOT_FOUND, "no file matches \"%.160s\"", pattern);
    return err->status;
}

/* Adds the files of one path, or of one of several that "::" separates. */
static bzna_status add_pattern(data_names *paths, const char *pattern, bzna_error *err)
{
    data_names texts = { .count = 0 };

    if (bzna_formats_data_kind(pattern) != DATA_NONE || !pattern[strcspn(pattern, "{}*?[")])
        return add(paths, pattern, err);
    if (brace_check(pattern, err) == BZNA_OK)
        brace_expand(&texts, pattern, 0, 0, err);
    for (uint32_t i = 0; i < texts.count && err->status == BZNA_OK; i++)
        add_expanded(paths, texts.list[i], err);
    bzna_formats_data_free(&texts);
    return err->status;
}

bzna_status bzna_formats_paths(data_names *paths, const char *path, bzna_error *err)
{
    char item[DATA_PATH_BYTES];

    if (bzna_formats_data_kind(path) != DATA_NONE || !strstr(path, "::"))
        return add_pattern(paths, path, err);
    for (const char *p = path, *next; p && err->status == BZNA_OK; p = next ? next + 2 : NULL) {
        next = strstr(p, "::");
        if (!*p || next == p)
            return DATA_FAIL_AT(err, BZNA_E_ARGUMENT, (uint64_t)(p - path),
                                "there is no path before or after the :: at byte %llu",
                                (data_llu)(p - path - (p > path ? 2 : 0)));
        if (snprintf(item, sizeof item, "%.*s", next ? (int)(next - p) : DATA_PATH_BYTES, p) >= (int)sizeof item)
            return DATA_FAIL(err, BZNA_E_LIMIT, "a pattern has at most %d bytes", DATA_PATH_BYTES - 1);
        add_pattern(paths, item, err);
    }
    return err->status;
}

#endif
