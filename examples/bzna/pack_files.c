/* pack_files.c - folders */
#include "tool.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void list_add(list *l, char *name)
{
    if (l->count == l->room) {
        l->room = l->room ? 2 * l->room : 64;
        l->names = checked(realloc(l->names, l->room * sizeof *l->names));
    }
    l->names[l->count++] = name;
}

static void list_free(list *l)
{
    for (size_t i = 0; i < l->count; i++) free(l->names[i]);
    free(l->names);
}

static void entries_add(entries *e, char *path, int64_t target, char *reason)
{
    if (e->count == e->room) {
        e->room = e->room ? 2 * e->room : 64;
        e->list = checked(realloc(e->list, e->room * sizeof *e->list));
    }
    e->list[e->count++] = (entry){ path, reason, target };
}

static int name_order(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int is_digit(char c) { return c >= '0' && c <= '9'; }

/* As name_order, but numbers within the names compare by their values: 2 before 10. */
static int numeric_order(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    while (*x && *y) {
        if (!is_digit(*x) || !is_digit(*y)) {
            if (*x != *y) break;
            x++, y++;
            continue;
        }
        while (*x == '0' && is_digit(x[1])) x++;
        while (*y == '0' && is_digit(y[1])) y++;
        size_t digits_x = 0, digits_y = 0;
        while (is_digit(x[digits_x])) digits_x++;
        while (is_digit(y[digits_y])) digits_y++;
        if (digits_x != digits_y) return digits_x < digits_y ? -1 : 1;
        int order = strncmp(x, y, digits_x);
        if (order) return order;
        x += digits_x, y += digits_y;
    }
    if (*x || *y) return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
    return name_order(a, b);                      /* "1" and "01" */
}

/* The names in a folder, sorted, without those that begin with a dot. Returns 0, or errno. */
static int folder_names(const char *path, list *names)
{
    DIR *folder = opendir(path);
    struct dirent *item;
    if (!folder) return errno;
    while ((item = readdir(folder)))
        if (item->d_name[0] != '.') list_add(names, text_make("%s", item->d_name));
    closedir(folder);
    if (names->count) qsort(names->names, names->count, sizeof *names->names, name_order);
    return 0;
}

enum { FOLDER_DEPTH_MAX = 16 };       /* a symbolic link may lead back up */

/* Adds what a class folder holds, sub-folders included. Consumes path. */
static void folder_collect(entries *e, char *path, int64_t target, int depth)
{
    list names = { NULL, 0, 0 };
    int error = depth > FOLDER_DEPTH_MAX ? ELOOP : folder_names(path, &names);
    if (error) {
        entries_add(e, path, target, text_make("cannot be opened: %s", strerror(error)));
        list_free(&names);
        return;
    }
    for (size_t i = 0; i < names.count; i++) {
        char *inner = text_make("%s/%s", path, names.names[i]);
        if (is_folder(inner)) folder_collect(e, inner, target, depth + 1);
        else                  entries_add(e, inner, target, NULL);
    }
    list_free(&names);
    free(path);
}

/* Whether a folder is called as splits of data sets are: train, val2017. */
static int is_split(const char *name)
{
    static const char *const splits[] = { "train", "training", "val", "valid", "validation", "dev", "test", "testing" };
    for (size_t i = 0; i < LENGTH(splits); i++) {
        size_t length = strlen(splits[i]);
        if (!strncasecmp(name, splits[i], length) && !name[length + strspn(name + length, "0123456789")]) return 1;
    }
    return 0;
}

static int holds_folders(const char *path)
{
    list names = { NULL, 0, 0 };
    int found = 0;
    folder_names(path, &names);
    for (size_t i = 0; i < names.count && !found; i++) {
        char *inner = text_make("%s/%s", path, names.names[i]);
        found = is_folder(inner);
        free(inner);
    }
    list_free(&names);
    return found;
}

/* Refuses splits as classes: where there are two, or one and nothing else, or one that has classes of its own. */
static int classes_check_splits(const list *classes, const char *root)
{
    const char *split = NULL;
    size_t count = 0;
    for (size_t i = 0; i < classes->count; i++)
        if (is_split(classes->names[i])) split = classes->names[i], count++;
    if (!split) return EXIT_OK;
    char *path = text_make("%s/%s", root, split);
    int result = EXIT_OK;
    if (count > 1 || classes->count == 1 || holds_folders(path))
        result = complain("%s: holds splits, not classes: pack each of them by itself, as in `bzna pack %s -o %s.bzna` "
                          "(or rename %s if it is a class)", root, path, split, path);
    free(path);
    return result;
}

/* Puts the classes into the order in which they are numbered. */
static void classes_sort(list *classes, const char *order)
{
    if (!classes->count) return;
    char **names = classes->names;
    if (order && !strcmp(order, "numeric")) qsort(names, classes->count, sizeof *names, numeric_order);
    for (size_t i = 1; i < classes->count && !order; i++) {
        if (numeric_order(&names[i - 1], &names[i]) < 0) continue;
        complain("warning: classes are numbered in the order of their names as text: \"%s\" is class %zu, \"%s\" is "
                 "class %zu; --class-order numeric puts 2 before 10, --class-order text does this without a warning",
                 names[i - 1], i - 1, names[i], i);
        return;
    }
}

/* The files of a data set: each sub-folder is a class; without sub-folders there are no classes. */
int entries_collect(entries *e, const char *root, const char *class_order)
{
    list names = { NULL, 0, 0 };
    int error = folder_names(root, &names);
    if (error) {
        list_free(&names);
        return complain("%s: cannot be opened: %s", root, strerror(error));
    }
    for (size_t i = 0; i < names.count; i++) {
        char *path = text_make("%s/%s", root, names.names[i]);
        if (!is_folder(path)) {
            entries_add(e, path, BZNA_TARGET_NONE, NULL);
            continue;
        }
        list_add(&e->classes, text_make("%s", names.names[i]));
        free(path);
    }
    list_free(&names);
    for (size_t i = 0; i < e->count && e->classes.count; i++)
        e->list[i].reason = text_make("lies outside every class folder");
    if (classes_check_splits(&e->classes, root)) return EXIT_INPUT;
    classes_sort(&e->classes, class_order);
    for (size_t i = 0; i < e->classes.count; i++)
        folder_collect(e, text_make("%s/%s", root, e->classes.names[i]), (int64_t)i, 0);
    return e->count ? EXIT_OK : complain("%s: there are no files in it", root);
}

void entries_free(entries *e)
{
    for (size_t i = 0; i < e->count; i++) {
        free(e->list[i].path);
        free(e->list[i].reason);
    }
    free(e->list);
    list_free(&e->classes);
}
