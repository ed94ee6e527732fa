/* pack_targets.c - targets that come from files: --targets, and the .target files of the original tools */
#include "tool.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- files by their names ---- */

static int relative_order(const void *a, const void *b)
{
    const pack_file *x = *(pack_file *const *)a, *y = *(pack_file *const *)b;
    return strcmp(x->relative, y->relative);
}

/* All files, sorted by name; to be freed. */
static pack_file **files_sorted(const pack_files *f)
{
    pack_file **sorted = tool_checked(malloc((f->count + 1) * sizeof *sorted));
    for (size_t i = 0; i < f->count; i++) sorted[i] = &f->list[i];
    qsort(sorted, f->count, sizeof *sorted, relative_order);
    return sorted;
}

/* The first file whose name is not before `name`; count if there is none. */
static size_t find_from(pack_file **sorted, size_t count, const char *name)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(sorted[middle]->relative, name) < 0) low = middle + 1;
        else                                            high = middle;
    }
    return low;
}


/* ---- .target files ---- */

/* A target as a text, or as 8 little-endian bytes, as the original tools write it. Returns 0, or -1. */
static int target_parse(const uint8_t *data, size_t size, int64_t *target)
{
    char text[32] = "", *end;
    int is_text = size > 0 && size < sizeof text;
    uint64_t value = 0;
    for (size_t i = 0; i < size && is_text; i++) is_text = isprint(data[i]) || isspace(data[i]);
    if (is_text) {
        memcpy(text, data, size);
        errno = 0;
        *target = strtoll(text, &end, 10);
        return end == text || end[strspn(end, " \r\n\t")] || errno ? -1 : 0;
    }
    for (size_t i = 0; i < 8 && size == 8; i++) value |= (uint64_t)data[i] << 8 * i;
    *target = (int64_t)value;
    return size == 8 ? 0 : -1;
}

/* The picture that NAME.target belongs to: NAME, or NAME with an extension; NULL: there is none. */
static pack_file *target_picture(pack_file **sorted, size_t count, const pack_file *target)
{
    char *stem = tool_format("%s", target->relative), *dotted;
    pack_file *found = NULL;
    stem[strlen(stem) - strlen(".target")] = 0;
    size_t at = find_from(sorted, count, stem);
    if (at < count && !strcmp(sorted[at]->relative, stem)) found = sorted[at];
    dotted = tool_format("%s.", stem);
    for (at = find_from(sorted, count, dotted); at < count && !found; at++) {
        if (strncmp(sorted[at]->relative, dotted, strlen(dotted))) break;
        if (!strchr(sorted[at]->relative + strlen(dotted), '/') && sorted[at] != target) found = sorted[at];
    }
    free(stem);
    free(dotted);
    return found;
}

static int is_target_file(const pack_file *file)
{
    size_t length = strlen(file->relative), end = strlen(".target");
    return !file->archive && length > end && !strcmp(file->relative + length - end, ".target");
}

/* Gives the picture its target. A file that is none is left out, by name. */
static int target_file_apply(pack_file *file, pack_file *picture)
{
    uint8_t data[64];
    FILE *in = fopen(file->path, "rb");
    size_t size = in ? fread(data, 1, sizeof data, in) : 0;
    if (in) fclose(in);
    if (in && !target_parse(data, size, &picture->target)) return 1;
    file->reason = tool_format("holds no target: neither a number nor its 8 bytes");
    return 0;
}

void pack_targets_beside(pack_files *f)
{
    size_t kept = 0, any = 0;
    for (size_t i = 0; i < f->count && !any; i++) any = (size_t)is_target_file(&f->list[i]);
    if (!any) return;
    pack_file **sorted = files_sorted(f);
    char *is_applied = tool_checked(calloc(f->count, 1));
    for (size_t i = 0; i < f->count; i++) {
        pack_file *picture = is_target_file(&f->list[i]) ? target_picture(sorted, f->count, &f->list[i]) : NULL;
        if (picture) is_applied[i] = (char)target_file_apply(&f->list[i], picture);
    }
    for (size_t i = 0; i < f->count; i++) {
        f->has_own_targets |= is_applied[i];
        if (is_applied[i]) free(f->list[i].path), free(f->list[i].reason);
        else               f->list[kept++] = f->list[i];
    }
    f->count = kept;
    free(is_applied);
    free(sorted);
}


/* ---- --targets ---- */

/* Splits "name,7" behind its last comma, tab or blank. A line that is a number alone has the name NULL. */
static int line_parse(char *line, char **name, int64_t *target)
{
    size_t length = strlen(line);
    while (length && isspace((unsigned char)line[length - 1])) line[--length] = 0;
    char *number = line + length, *end;
    while (number > line && !strchr(",\t ", number[-1])) number--;
    errno = 0;
    *target = strtoll(number, &end, 10);
    if (end == number || *end || errno) return -1;
    *name = number == line ? NULL : line;
    if (*name) number[-1] = 0;
    return 0;
}

typedef struct target_list {
    const char *path;
    pack_files *files;
    pack_file **sorted;
    char       *is_named;             /* of each file of `sorted`: a line has its name */
    size_t      line, positional, named;
} target_list;

static int list_line(target_list *l, char *line)
{
    char *name;
    int64_t target;
    l->line++;
    if (!line[strspn(line, " \t\r\n")]) return EXIT_OK;
    if (line_parse(line, &name, &target))
        return tool_error("%s: line %zu: must be NAME,TARGET, or TARGET alone, a whole number", l->path, l->line);
    if (!name) {
        if (l->positional >= l->files->count)
            return tool_error("%s: line %zu: there are only %zu files", l->path, l->line, l->files->count);
        l->files->list[l->positional++].target = target;
        return EXIT_OK;
    }
    size_t at = find_from(l->sorted, l->files->count, name);
    if (at == l->files->count || strcmp(l->sorted[at]->relative, name))
        return tool_error("%s: line %zu: there is no file \"%s\" (paths are relative to the folder)", l->path, l->line,
                          name);
    l->named += !l->is_named[at];
    l->is_named[at] = 1;
    l->sorted[at]->target = target;
    return EXIT_OK;
}

/* Every file must have its line, so that none is forgotten: -1 says that a sample has no target. */
static int list_check(const target_list *l)
{
    const size_t given = l->positional ? l->positional : l->named, count = l->files->count;
    size_t i = 0;
    if (l->positional && l->named) return tool_error("%s: some lines have names, and some have not", l->path);
    if (given == count) return EXIT_OK;
    while (!l->positional && l->is_named[i]) i++;
    return tool_error("%s: has targets of %zu of %zu files; %s has none (-1 says so)", l->path, given, count,
                      l->positional ? l->files->list[given].path : l->sorted[i]->path);
}

int pack_targets_read(pack_files *f, const char *path)
{
    FILE *in = fopen(path, "r");
    if (!in) return tool_error("%s: cannot be opened: %s", path, strerror(errno));
    target_list list = { .path = path, .files = f, .sorted = files_sorted(f),
                         .is_named = tool_checked(calloc(f->count + 1, 1)) };
    char *line = NULL;
    size_t capacity = 0;
    int result = EXIT_OK;
    for (size_t i = 0; i < f->count; i++) f->list[i].target = BZNA_TARGET_NONE;
    while (result == EXIT_OK && getline(&line, &capacity, in) >= 0) result = list_line(&list, line);
    if (result == EXIT_OK && ferror(in)) result = tool_error("%s: cannot be read", path);
    if (result == EXIT_OK) result = list_check(&list);
    fclose(in);
    free(line);
    free(list.sorted);
    free(list.is_named);
    return result;
}
