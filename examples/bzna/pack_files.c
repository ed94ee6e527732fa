/* pack_files.c - which files are packed, and the numbers of their classes */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- lists ---- */

static pack_file *files_next(pack_files *f)
{
    if (f->count == f->capacity) {
        f->capacity = f->capacity ? 2 * f->capacity : 64;
        f->list = tool_checked(realloc(f->list, f->capacity * sizeof *f->list));
    }
    return &f->list[f->count++];
}

/* What has a path. */
typedef struct path_info {
    int     is_folder;
    int64_t size, time_ns;            /* as in pack_file */
} path_info;

static path_info path_look(const char *path)
{
    struct stat status;
    if (stat(path, &status)) return (path_info){ 0, -1, -1 };
    return (path_info){ S_ISDIR(status.st_mode), (int64_t)status.st_size, os_modified_ns(&status) };
}

/* Takes over path, whose first root_size bytes are the folder's, and reason. */
static void files_add(pack_files *f, char *path, path_info info, int64_t target, char *reason)
{
    *files_next(f) = (pack_file){
        .path = path, .relative = path + f->root_size, .reason = reason, .target = target,
        .size = info.size, .time_ns = info.time_ns,
    };
}

void pack_files_free(pack_files *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free(f->list[i].path);
        free(f->list[i].reason);
    }
    free(f->list);
    for (size_t i = 0; i < f->archive_count; i++) {
        archive_close(f->archives[i]);
        free(f->archives[i]);
    }
    free(f->archives);
    tool_names_free(&f->classes);
}


/* ---- orders of names ---- */

/* As the library orders names: by their bytes. */
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


/* ---- folders ---- */

static void folder_name(void *names, const char *name)
{
    if (name[0] != '.') tool_names_add(names, tool_format("%s", name));
}

/* The names in a folder, sorted, without those that begin with a dot. Returns 0, or errno. */
static int folder_names(const char *path, tool_names *names)
{
    int error = os_folder(path, folder_name, names);
    if (error) return error;
    if (names->count) qsort(names->names, names->count, sizeof *names->names, name_order);
    return 0;
}

enum { FOLDER_DEPTH_MAX = 16 };       /* symbolic links may form a cycle */

/* Adds the files of a class folder and of folders in it. Takes over path. */
static void folder_collect(pack_files *f, char *path, int64_t target, int depth)
{
    tool_names names = { NULL, 0, 0 };
    int error = depth > FOLDER_DEPTH_MAX ? ELOOP : folder_names(path, &names);
    if (error) {
        files_add(f, path, path_look(path), target, tool_format("cannot be opened: %s", strerror(error)));
        tool_names_free(&names);
        return;
    }
    for (size_t i = 0; i < names.count; i++) {
        char *inner = tool_format("%s/%s", path, names.names[i]);
        path_info info = path_look(inner);
        if (info.is_folder) folder_collect(f, inner, target, depth + 1);
        else                files_add(f, inner, info, target, NULL);
    }
    tool_names_free(&names);
    free(path);
}


/* ---- classes ---- */

/* Whether a folder has the name of a split: train, val2017. */
static int is_split(const char *name)
{
    static const char *const splits[] = { "train", "training", "val", "valid", "validation", "dev", "test", "testing" };
    for (size_t i = 0; i < LENGTH(splits); i++) {
        size_t length = strlen(splits[i]);
        if (!strncasecmp(name, splits[i], length) && !name[length + strspn(name + length, "0123456789")]) return 1;
    }
    return 0;
}

static int has_folders(const char *path)
{
    tool_names names = { NULL, 0, 0 };
    int found = 0;
    folder_names(path, &names);
    for (size_t i = 0; i < names.count && !found; i++) {
        char *inner = tool_format("%s/%s", path, names.names[i]);
        found = tool_is_folder(inner);
        free(inner);
    }
    tool_names_free(&names);
    return found;
}

enum { CLASSES_LOOKED_INTO = 16 };    /* more folders are classes */

/* Refuses one folder over splits, as the archives of competitions unpack. */
static int classes_check_over_splits(const tool_names *classes, const char *root)
{
    for (size_t i = 0; i < classes->count && classes->count <= CLASSES_LOOKED_INTO; i++) {
        tool_names names = { NULL, 0, 0 };
        char *path = tool_format("%s/%s", root, classes->names[i]), *split = NULL;
        int count = 0, result = EXIT_OK;
        folder_names(path, &names);
        for (size_t k = 0; k < names.count; k++) {
            char *inner = tool_format("%s/%s", path, names.names[k]);
            if (is_split(names.names[k]) && tool_is_folder(inner)) split = names.names[k], count++;
            free(inner);
        }
        if (count > 1)
            result = tool_error("%s: holds splits, and is no class of %s: pack them into one archive with --splits "
                                "train=DIR,validation=DIR,test=DIR, or each of them by itself, as in `bzna pack %s/%s "
                                "-o %s.bzna`", path, root, path, split, split);
        tool_names_free(&names);
        free(path);
        if (result != EXIT_OK) return result;
    }
    return EXIT_OK;
}

/* Refuses splits as classes: where there are two, or one and nothing else, or one that has classes of its own. */
static int classes_check_splits(const tool_names *classes, const char *root)
{
    const char *split = NULL;
    size_t count = 0;
    for (size_t i = 0; i < classes->count; i++)
        if (is_split(classes->names[i])) split = classes->names[i], count++;
    if (!split) return classes_check_over_splits(classes, root);
    char *path = tool_format("%s/%s", root, split);
    int result = EXIT_OK;
    if (count > 1 || classes->count == 1 || has_folders(path))
        result = tool_error("%s: holds splits, not classes: pack them into one archive with --splits "
                            "train=DIR,validation=DIR,test=DIR, or each of them by itself, as in `bzna pack %s -o "
                            "%s.bzna` (or rename %s if it is a class)", root, path, split, path);
    free(path);
    return result;
}

/* Puts the classes into the order in which they are numbered. */
static void classes_sort(tool_names *classes, const char *order)
{
    if (!classes->count) return;
    char **names = classes->names;
    if (order && !strcmp(order, "numeric")) qsort(names, classes->count, sizeof *names, numeric_order);
    for (size_t i = 1; i < classes->count && !order; i++) {
        if (numeric_order(&names[i - 1], &names[i]) < 0) continue;
        tool_error("warning: classes are numbered in the order of their names as text: \"%s\" is class %zu, \"%s\" is "
                   "class %zu; --class-order numeric puts 2 before 10, --class-order text does this without a warning",
                   names[i - 1], i - 1, names[i], i);
        return;
    }
}

/* Puts the folders in root into f->classes, and the files in it, which have no class, into f->list. */
static int root_collect(pack_files *f, const char *root)
{
    tool_names names = { NULL, 0, 0 };
    int error = folder_names(root, &names);
    for (size_t i = 0; i < names.count; i++) {
        char *path = tool_format("%s/%s", root, names.names[i]);
        path_info info = path_look(path);
        if (!info.is_folder) {
            files_add(f, path, info, BZNA_TARGET_NONE, NULL);
            continue;
        }
        tool_names_add(&f->classes, tool_format("%s", names.names[i]));
        free(path);
    }
    tool_names_free(&names);
    return error ? tool_error("%s: cannot be opened: %s", root, strerror(error)) : EXIT_OK;
}

/* Takes the classes from a file, one a line, and refuses folders that are not among them. */
static int classes_read(tool_names *classes, const char *path, const char *root)
{
    tool_names listed = { NULL, 0, 0 };
    int result = tool_names_read(&listed, path);
    for (size_t i = 0; i < classes->count && result == EXIT_OK; i++)
        if (tool_names_find(&listed, classes->names[i]) == listed.count)
            result = tool_error("%s/%s: is no class of %s", root, classes->names[i], path);
    tool_names_free(classes);
    *classes = listed;
    return result;
}

/* Adds the files of every class folder in root. Classes without a folder have no files. */
static void class_folders_collect(pack_files *f, const char *root)
{
    for (size_t i = 0; i < f->classes.count; i++) {
        char *path = tool_format("%s/%s", root, f->classes.names[i]);
        if (tool_is_folder(path)) folder_collect(f, path, (int64_t)i, 0);
        else                      free(path);
    }
}

/* Folders without any files are no classes if all files are outside of them. */
static void classes_drop_empty(pack_files *f, const char *root)
{
    pack_files inner = { .list = NULL };
    if (!f->count || !f->classes.count) return;
    inner.classes = f->classes;
    class_folders_collect(&inner, root);
    if (!inner.count) {
        tool_names_free(&f->classes);
        f->classes = (tool_names){ NULL, 0, 0 };
    }
    inner.classes = (tool_names){ NULL, 0, 0 };
    pack_files_free(&inner);
}

static int folder_of_classes_collect(pack_files *f, const tool_options *o, const char *root)
{
    f->root_size = strlen(root) + 1;
    if (root_collect(f, root)) return EXIT_INPUT;
    classes_drop_empty(f, root);
    for (size_t i = 0; i < f->count && f->classes.count; i++)
        f->list[i].reason = tool_format(PACK_OUTSIDE);
    if (o->classes) {
        if (classes_read(&f->classes, o->classes, root)) return EXIT_INPUT;
    } else {
        if (classes_check_splits(&f->classes, root)) return EXIT_INPUT;
        classes_sort(&f->classes, o->class_order);
    }
    class_folders_collect(f, root);
    return EXIT_OK;
}


/* ---- splits ---- */

/* One split's files, with the classes of the first. */
static int split_collect(pack_files *f, const tool_options *o, const char *root, uint32_t split)
{
    pack_files own = { .list = NULL };
    tool_names classes = f->classes;
    int result = folder_of_classes_collect(&own, o, root);
    if (result == EXIT_OK && !f->count) {
        f->classes = own.classes;
        own.classes = (tool_names){ NULL, 0, 0 };
    }
    size_t *number = tool_checked(calloc(own.classes.count + 1, sizeof *number));
    for (size_t i = 0; i < own.classes.count && result == EXIT_OK; i++)
        if ((number[i] = tool_names_find(&classes, own.classes.names[i])) == classes.count)
            result = tool_error("%s/%s: is a class that the first split has not", root, own.classes.names[i]);
    for (size_t i = 0; i < own.count; i++)
        if (own.list[i].target >= 0 && (size_t)own.list[i].target < own.classes.count)
            own.list[i].target = (int64_t)number[own.list[i].target];
    pack_targets_beside(&own);
    f->has_own_targets |= own.has_own_targets;
    for (size_t i = 0; i < own.count; i++) {
        own.list[i].split = split;
        *files_next(f) = own.list[i];
    }
    free(number);
    tool_names_free(&own.classes);
    free(own.list);
    return result;
}

/* "train=DIR,validation=DIR,test=DIR", in whichever order: the archive has them in this one. */
static int splits_collect(pack_files *f, const tool_options *o)
{
    static const char *const names[] = { NULL, "train", "validation", "test" };
    char *text = tool_format("%s", o->splits), *at = text;
    const char *roots[LENGTH(names)] = { NULL };
    int result = EXIT_OK;
    while (at && result == EXIT_OK) {
        char *comma = strchr(at, ','), *equals = strchr(at, '=');
        uint32_t split = LENGTH(names);
        if (comma) *comma++ = 0;
        if (equals) *equals++ = 0;
        while (--split && strcmp(names[split], at)) continue;
        if (!split || !equals || !*equals || roots[split])
            result = tool_usage_error(o->command, "--splits must be train=DIR,validation=DIR,test=DIR, or some of "
                                      "them, not \"%s\"", o->splits);
        else
            roots[split] = equals;
        at = comma;
    }
    for (uint32_t split = 1; split < LENGTH(names) && result == EXIT_OK; split++)
        if (roots[split]) result = split_collect(f, o, roots[split], split);
    free(text);
    return result;
}


/* ---- data sets ---- */

/* Opens an operand as a data set, which f closes; NULL after filling in err, and for a picture, which is none. */
static archive *archive_add(pack_files *f, const tool_options *o, char *path, bzna_error *err)
{
    const bzna_device cpu = { BZNA_DEVICE_CPU, 0 };
    const tool_options one = { .operand = &path, .operand_count = 1, .list = o->list,
                               .records = o->records, .pairs = o->pairs };
    archive *a = tool_checked(calloc(1, sizeof *a));
    if (archive_open_context(cpu, 0, &a->context, err) < 0 || archive_try_open(a, &one, err) < 0 ||
        a->is_picture) {
        archive_close(a);
        free(a);
        return NULL;
    }
    archive_read_splits(a, path);
    f->archives = tool_checked(realloc(f->archives, (f->archive_count + 1) * sizeof *f->archives));
    f->archives[f->archive_count++] = a;
    return a;
}

/* The message without the names of its data set and sample, which the one who prints it adds. */
static const char *reason_of(const bzna_error *err, const char *path, const char *sample)
{
    const char *reason = err->message;
    if (!strncmp(reason, path, strlen(path)) && !strncmp(reason + strlen(path), ": ", 2)) reason += strlen(path) + 2;
    return strncmp(reason, sample, strlen(sample)) ? reason : reason + strlen(sample);
}

/* The samples of a data set; a folder's are files, in the order of --list. */
static int archive_collect(pack_files *f, archive *a, const char *path, int is_folder)
{
    tool_buffer buffer = { NULL, 0 };
    struct stat status;
    int64_t time = stat(path, &status) ? -1 : os_modified_ns(&status);
    bzna_error err = tool_empty_error();
    for (uint64_t i = 0; i < a->count; i++) {
        bzna_sample_ref sample = { .struct_size = sizeof sample };
        const char *name = NULL;
        char *reason = NULL, *own = tool_format("sample %" PRIu64 ": ", i);
        if (bzna_dataset_sample(a->dataset, i, &sample, sizeof sample, &err) < 0 ||
            archive_copied_name(a, i, &buffer, &name, &err) < 0)
            reason = tool_format("%s", reason_of(&err, path, own));
        free(own);
        if (is_folder && name) {
            f->root_size = strlen(path) + 1;
            char *file = tool_format("%s/%s", path, name);
            files_add(f, file, path_look(file), sample.target, reason);
            f->list[f->count - 1].archive = a;
            f->list[f->count - 1].index = i;
            f->list[f->count - 1].is_file = 1;
            continue;
        }
        pack_file *file = files_next(f);
        char *head = tool_format("%s: sample %" PRIu64 "%s", path, i, name ? ": " : "");
        *file = (pack_file){ .path = tool_format("%s%s", head, name ? name : ""), .archive = a, .index = i,
                             .reason = reason, .target = reason ? BZNA_TARGET_NONE : sample.target,
                             .size = (int64_t)sample.size, .time_ns = time };
        file->relative = file->path + strlen(head);
        free(head);
    }
    free(buffer.data);
    return EXIT_OK;
}

/* A data set, or a picture; *status says whether a folder is one. */
static int operand_collect(pack_files *f, const tool_options *o, char *path)
{
    bzna_error err = tool_empty_error();
    struct stat status;
    int is_there = !stat(path, &status), is_file = is_there && S_ISREG(status.st_mode);
    if (is_there && S_ISDIR(status.st_mode) && !o->list && !o->pairs) {
        if (o->operand_count == 1) {
            int result = folder_of_classes_collect(f, o, path);
            pack_targets_beside(f);
            return result;
        }
        return tool_error("%s: is a folder, and only one can be packed at a time: classes are numbered by folder",
                          path);
    }
    archive *a = archive_add(f, o, path, &err);
    if (!a && is_file && !o->list) {
        const char *slash = strrchr(path, '/');
        f->root_size = slash ? (size_t)(slash + 1 - path) : 0;
        files_add(f, tool_format("%s", path), path_look(path), BZNA_TARGET_NONE, NULL);
        return EXIT_OK;
    }
    if (!a) return tool_error("%s", err.message);
    if (!o->classes && archive_join_classes(&f->classes, a, path)) return EXIT_INPUT;
    return archive_collect(f, a, path, is_there && S_ISDIR(status.st_mode) && !o->pairs);
}

/* Keeps one of several shares of the files that are as large as can be, one behind the other. */
static void files_keep_shard(pack_files *f, uint64_t shard, uint64_t shard_count)
{
    size_t first = (size_t)(f->count * shard / shard_count);
    size_t end = (size_t)(f->count * (shard + 1) / shard_count);
    for (size_t i = 0; i < f->count; i++)
        if (i < first || i >= end) free(f->list[i].path), free(f->list[i].reason);
    memmove(f->list, f->list + first, (end - first) * sizeof *f->list);
    f->count = end - first;
}

int pack_files_collect(pack_files *f, const pack_settings *s)
{
    const tool_options *o = s->options;
    int status = o->splits ? splits_collect(f, o) : EXIT_OK;
    if (status != EXIT_OK) return status;
    for (int i = 0; i < o->operand_count; i++)
        if (operand_collect(f, o, o->operand[i])) return EXIT_INPUT;
    if (!f->count) return tool_error("%s: there are no files in it", o->splits ? o->splits : o->operand[0]);
    if ((o->targets || f->has_own_targets) && !o->classes) tool_names_free(&f->classes);    /* they name others */
    if (o->targets && pack_targets_read(f, o->targets)) return EXIT_INPUT;
    if (o->classes && !f->classes.count && tool_names_read(&f->classes, o->classes)) return EXIT_INPUT;
    if (s->shard_count > 1) files_keep_shard(f, s->shard, s->shard_count);
    return f->count ? EXIT_OK : tool_error("--shard %s: this share of the files is empty", o->shard);
}
