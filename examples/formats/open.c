/* open.c - bzna_formats_open: finds out what paths name, and has the library or a file of this folder open it
 *
 * It needs data.c, paths.c, pairs.c, lists.c, records.c, recordio.c and formats.c. */
#include "data.h"

#include <stdlib.h>
#include <string.h>

#define HOLD_BYTES (256u << 20)       /* CIFAR's files are 180 MB; a file in memory takes no call a sample */

void bzna_formats_config_init(bzna_formats_config *config, size_t struct_size)
{
    bzna_formats_data_init(config, struct_size);
}

/* Completes the caller's config. */
static bzna_status config_in(bzna_formats_config *c, const bzna_formats_config *config, bzna_error *err)
{
    if (bzna_formats_data_copy(c, sizeof *c, config, "formats_config", err) != BZNA_OK)
        return err->status;
    if (c->reserved0)
        return DATA_FAIL(err, BZNA_E_STRUCT_SIZE, "formats_config.reserved0: a reserved word must be 0");
    if (c->list && c->pairs)
        return DATA_FAIL(err, BZNA_E_ARGUMENT, "formats_config.list: not together with pairs");
    if (c->records && c->pairs)
        return DATA_FAIL(err, BZNA_E_ARGUMENT, "formats_config.records: it has no effect on pairs");
    if (!c->records && c->dataset && c->dataset->format && !strcmp(c->dataset->format, "records"))
        return DATA_FAIL(err, BZNA_E_ARGUMENT, "formats_config.records: is needed to describe the records");
    return BZNA_OK;
}

/* The first bytes of a file, and how many it has. */
typedef struct file_head {
    uint8_t  bytes[512];
    size_t   size;
    uint64_t file_bytes;
} file_head;

static void read_head(file_head *head, const char *path)
{
    data_file file;
    bzna_error ignored;

    head->size = 0;
    head->file_bytes = 0;
    if (bzna_formats_file_open(&file, path, &ignored) != BZNA_OK)
        return;
    head->file_bytes = file.size;
    head->size = file.size < sizeof head->bytes ? (size_t)file.size : sizeof head->bytes;
    if (bzna_formats_file_read(&file, 0, head->bytes, head->size, &ignored) != BZNA_OK)
        head->size = 0;
    bzna_formats_file_leave(&file);
}

/* Opens what is records of one size if the config describes such, and else RecordIO. */
static bzna_status open_either(bzna_context *context, data_file *file, const char *name, const bzna_formats_config *c,
                               bzna_dataset **out, bzna_error *err)
{
    (void)file;
    return c->records ? bzna_formats_open_records(context, file, name, c, out, err) :
                        bzna_formats_open_recordio(context, file, name, c, out, err);
}

/* Opens a file of records, or a RecordIO file. is_held: a file of records is read into memory first. */
static bzna_status open_file(bzna_context *context, const char *path, int is_held, const bzna_formats_config *c,
                             bzna_dataset **out, bzna_error *err)
{
    data_file file;

    if (bzna_formats_file_open(&file, path, err) != BZNA_OK)
        return bzna_formats_data_prefix(err, path);
    if (is_held)
        bzna_formats_file_hold(&file);
    if (open_either(context, &file, path, c, out, err) != BZNA_OK)
        free(file.held);
    bzna_formats_file_leave(&file);
    return err->status;
}

/* Returns 1 if what begins so is to be opened as a RecordIO file, else 0. */
static int is_recordio(const bzna_formats_config *c, const void *head, uint64_t bytes)
{
    const char *const format = c->dataset ? c->dataset->format : NULL;

    return format ? !strcmp(format, "RecordIO") : bzna_formats_is_recordio(head, bytes);
}

/* Likewise of a path. */
static int is_recordio_file(const bzna_formats_config *c, const char *path)
{
    file_head head;

    if (bzna_formats_data_kind(path) != DATA_FILE)
        return 0;
    read_head(&head, path);
    return is_recordio(c, head.bytes, head.size);
}

/* Returns 1 if all files together have at most so many bytes, else 0. */
static int are_small(const char *const *paths, uint32_t count, uint64_t most)
{
    bzna_error ignored;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < count && bytes <= most; i++) {
        data_file file;
        if (bzna_formats_file_open(&file, paths[i], &ignored) != BZNA_OK)
            return 0;
        bytes = file.size > most ? UINT64_MAX : bytes + file.size;
        bzna_formats_file_leave(&file);
    }
    return bytes <= most;
}

/* Opens one path, which is no pattern any more. is_held: of a file of records, see above. */
static bzna_status open_one(bzna_context *context, const char *path, int is_held, const bzna_formats_config *c,
                            bzna_dataset **out, bzna_error *err)
{
    if (c->records)
        return open_file(context, path, is_held, c, out, err);
    if (c->pairs)
        return bzna_formats_open_pairs(context, path, c, out, err);
    if (c->list && bzna_formats_data_kind(path) == DATA_FOLDER)
        return bzna_formats_open_listed(context, path, c, out, err);
    if (is_recordio_file(c, path))
        return open_file(context, path, 0, c, out, err);
    if (c->list)
        return DATA_FAIL(err, BZNA_E_ARGUMENT, "%s: formats_config.list: it has an effect on folders and RecordIO "
                         "files only", path);
    return bzna_dataset_open(context, path, c->dataset, out, err);
}

/* Opens paths one by one, and lays them end to end. */
static bzna_status open_each(bzna_context *context, const char *const *paths, uint32_t count,
                             const bzna_formats_config *c, bzna_dataset **out, bzna_error *err)
{
    const int is_held = c->records && are_small(paths, count, c->hold_bytes ? c->hold_bytes : HOLD_BYTES);
    bzna_dataset **parts = calloc(count ? count : 1, sizeof *parts);
    uint32_t opened = 0;

    if (!parts)
        return bzna_formats_data_no_memory(err);
    if (count > 1 && c->dataset && c->dataset->name)
        DATA_FAIL(err, BZNA_E_ARGUMENT, "dataset_config.name: each of several files (%u) is named by its path", count);
    if (count > 1 && c->dataset && c->dataset->index)
        DATA_FAIL(err, BZNA_E_ARGUMENT, "dataset_config.index: it is of one file, and these are %u", count);
    while (err->status == BZNA_OK && opened < count &&
           open_one(context, paths[opened], is_held, c, &parts[opened], err) == BZNA_OK)
        opened++;
    if (err->status == BZNA_OK)
        bzna_dataset_concat(context, parts, count, out, err);
    while (opened)
        bzna_dataset_close(parts[--opened]);
    free(parts);
    return err->status;
}

/* Returns 1 if a name ends so, else 0. */
static int ends_in(const char *name, const char *extension)
{
    const size_t size = strlen(name), end = strlen(extension);

    return size > end && !strcmp(name + size - end, extension);
}

/* Adds a path, or the files in it if it is a folder that holds RecordIO files, in the order of their names. */
static bzna_status add_files(data_names *paths, const char *path, bzna_error *err)
{
    const uint32_t first = paths->count;
    data_names names = { .count = 0 };
    char file[DATA_PATH_BYTES];
    int any = 0, error = 0;

    if (bzna_formats_data_kind(path) == DATA_FOLDER && (error = bzna_formats_data_list(path, &names, err)) != 0)
        bzna_formats_data_fail_system(err, path, error);
    for (uint32_t i = 0; i < names.count; i++)
        any |= ends_in(bzna_formats_data_get(&names, i), ".rec");
    for (uint32_t i = 0; any && i < names.count && err->status == BZNA_OK; i++) {
        const char *name = bzna_formats_data_get(&names, i);
        if ((ends_in(name, ".rec") || ends_in(name, ".tar") || ends_in(name, ".bzna")) && name[0] != '.' &&
            bzna_formats_data_join(file, path, name, err) == BZNA_OK)
            bzna_formats_data_add(paths, file, err);
    }
    if (err->status == BZNA_OK && paths->count == first)
        bzna_formats_data_add(paths, path, err);
    if (err->status == BZNA_OK)
        bzna_formats_data_sort(paths, first, err);
    bzna_formats_data_free(&names);
    if (err->status == BZNA_OK && paths->count > DATA_FILES)
        return DATA_FAIL(err, BZNA_E_LIMIT, "more than %u files", DATA_FILES);
    return err->status;
}

/* Finds the files that paths stand for, and opens them one by one. Without is_each, that is done only if one of them is
 * a RecordIO file: else err stays as it is. */
static bzna_status open_files(bzna_context *context, const data_names *given, const bzna_formats_config *c, int is_each,
                              bzna_dataset **out, bzna_error *err)
{
    data_names paths = { .count = 0 };
    bzna_error e;
    const char **list = NULL;

    bzna_error_init(&e, sizeof e);
    for (uint32_t i = 0; i < given->count && e.status == BZNA_OK; i++) {
        const char *path = bzna_formats_data_get(given, i);
        if (c->pairs || c->records || (c->list && bzna_formats_data_kind(path) == DATA_FOLDER))
            bzna_formats_data_add(&paths, path, &e);
        else
            add_files(&paths, path, &e);
    }
    if (e.status == BZNA_OK)
        list = bzna_formats_data_all(&paths, &e);
    for (uint32_t i = 0; list && !is_each && i < paths.count; i++)
        is_each = is_recordio_file(c, list[i]);
    if (list && is_each)
        open_each(context, list, paths.count, c, out, &e);
    if (!list || is_each)
        *err = e;
    free(list);
    bzna_formats_data_free(&paths);
    return err->status;
}

/* Opens paths, which are no patterns any more: by the library all at once, if it reads them. */
static bzna_status open_paths(bzna_context *context, const data_names *paths, const bzna_formats_config *c,
                              bzna_dataset **out, bzna_error *err)
{
    const char *const format = c->dataset ? c->dataset->format : NULL;
    const char **list;

    if (c->pairs || c->records || c->list || (format && !strcmp(format, "RecordIO")))
        return open_files(context, paths, c, 1, out, err);
    if (!(list = bzna_formats_data_all(paths, err)))
        return err->status;
    bzna_dataset_open_list(context, list, paths->count, c->dataset, out, err);
    free(list);
    return err->status == BZNA_E_UNSUPPORTED ? open_files(context, paths, c, 0, out, err) : err->status;
}

bzna_status bzna_formats_open_list(bzna_context *context, const char *const *paths, uint32_t count,
                                   const bzna_formats_config *config, bzna_dataset **out, bzna_error *err)
{
    data_names found = { .count = 0 };
    bzna_formats_config own;
    bzna_error e;
    int is_whole = context && paths && out && count <= DATA_FILES;

    bzna_error_init(&e, sizeof e);
    if (out)
        *out = NULL;
    for (uint32_t i = 0; is_whole && i < count; i++)
        is_whole = paths[i] && *paths[i];
    if (config_in(&own, config, &e) == BZNA_OK && !(is_whole && count))   /* the library says what is missing */
        bzna_dataset_open_list(context, paths, count, own.dataset, out, &e);
    for (uint32_t i = 0; is_whole && i < count && e.status == BZNA_OK; i++)
        if (bzna_formats_paths(&found, paths[i], &e) != BZNA_OK)
            bzna_formats_data_prefix(&e, paths[i]);
    if (e.status == BZNA_OK)
        open_paths(context, &found, &own, out, &e);
    bzna_formats_data_free(&found);
    return bzna_formats_data_return(err, &e);
}

/* If the library has not recognized a file, says what it may be. */
static void guess(const file_head *head, const char *name, bzna_error *err)
{
    char text[200] = "";

    if (err->status != BZNA_E_FORMAT ||
        !bzna_formats_guess_records(head->bytes, head->size, head->file_bytes, text, sizeof text))
        return;
    DATA_FAIL_AT(err, BZNA_E_FORMAT, 0, "%s", text);
    bzna_formats_data_prefix(err, name);
}

/* Opens a picture that is a file as a data set of one sample. */
static bzna_status open_picture(bzna_context *context, const char *path, const bzna_formats_config *c,
                                bzna_dataset **out, bzna_error *err)
{
    static const bzna_provider_field field = { .name = "image", .kind = BZNA_FIELD_IMAGE, .located = 1 };
    static const bzna_place place = { .size = BZNA_SIZE_UNKNOWN };
    const bzna_provider provider = { .struct_size = sizeof provider, .count = 1, .fields = &field, .field_count = 1,
                                     .places = &place, .files = &path, .file_count = 1 };

    return bzna_dataset_open_provider(context, &provider, c->dataset, out, err);
}

bzna_status bzna_formats_open(bzna_context *context, const char *path, const bzna_formats_config *config,
                              bzna_dataset **out, bzna_error *err)
{
    bzna_formats_config own;
    bzna_error e;
    file_head head;

    if (!path || !*path)
        return bzna_dataset_open(context, path, NULL, out, err);        /* which says what is missing */
    bzna_error_init(&e, sizeof e);
    bzna_formats_open_list(context, &path, 1, config, out, &e);
    if (e.status == BZNA_E_UNSUPPORTED || e.status == BZNA_E_FORMAT) {
        read_head(&head, path);
        guess(&head, path, &e);
    }
    if (e.status == BZNA_E_UNSUPPORTED && bzna_formats_recognize(head.bytes, head.size) != BZNA_CODEC_UNKNOWN &&
        config_in(&own, config, &e) == BZNA_OK) {
        bzna_error_init(&e, sizeof e);
        open_picture(context, path, &own, out, &e);
    }
    return bzna_formats_data_return(err, &e);
}

/* The config of what is no folder. */
static bzna_status config_of_one(bzna_formats_config *own, const bzna_formats_config *config, bzna_error *err)
{
    if (config_in(own, config, err) == BZNA_OK && own->pairs)
        return DATA_FAIL(err, BZNA_E_ARGUMENT, "formats_config.pairs: it has an effect on folders only");
    return err->status;
}

static void picture_close(void *user)
{
    bzna_formats_file_close(user);
    free(user);
}

static bzna_status picture_read(void *user, uint64_t index, uint32_t field, void *buffer, uint64_t capacity,
                                uint64_t *size, bzna_error *err)
{
    const data_file *file = user;

    (void)index, (void)field;
    *size = file->size;
    return *size > capacity ? BZNA_OK : bzna_formats_file_read(file, 0, buffer, *size, err);
}

/* Opens a picture of the codecs in this folder that is no file, after the library has refused it. Keeps that error if
 * it is none. */
static bzna_status open_held_picture(bzna_context *context, const data_file *file, const bzna_formats_config *c,
                                     bzna_dataset **out, bzna_error *err)
{
    static const bzna_provider_field field = { .name = "image", .kind = BZNA_FIELD_IMAGE };
    uint8_t head[512];
    const uint64_t bytes = file->size < sizeof head ? file->size : sizeof head;
    bzna_error ignored;
    data_file *own = malloc(sizeof *own);
    const bzna_provider provider = { .struct_size = sizeof provider, .count = 1, .fields = &field, .field_count = 1,
                                     .user = own, .read = picture_read, .close = picture_close };

    if (!own)
        return bzna_formats_data_no_memory(err);
    *own = *file;
    if (bzna_formats_file_read(file, 0, head, bytes, &ignored) == BZNA_OK &&
        bzna_formats_recognize(head, bytes) != BZNA_CODEC_UNKNOWN) {
        bzna_error_init(err, sizeof *err);
        if (bzna_dataset_open_provider(context, &provider, c->dataset, out, err) == BZNA_OK)
            return BZNA_OK;
    }
    free(own);
    return err->status;
}

bzna_status bzna_formats_open_memory(bzna_context *context, const void *bytes, size_t size,
                                     const bzna_formats_config *config, bzna_dataset **out, bzna_error *err)
{
    bzna_formats_config own;
    data_file file = { .size = size, .memory = bytes };
    bzna_error e;

    if (out)
        *out = NULL;
    bzna_error_init(&e, sizeof e);
    if (config_of_one(&own, config, &e) == BZNA_OK && context && bytes && out &&
        (own.records || is_recordio(&own, bytes, size)))
        open_either(context, &file, "memory", &own, out, &e);
    else if (e.status == BZNA_OK)
        bzna_dataset_open_memory(context, bytes, size, own.dataset, out, &e);
    if (!own.records && e.status == BZNA_E_UNSUPPORTED && bytes)
        open_held_picture(context, &file, &own, out, &e);
    if (e.status == BZNA_E_FORMAT && bytes) {
        file_head head = { .size = size < sizeof head.bytes ? size : sizeof head.bytes, .file_bytes = size };
        memcpy(head.bytes, bytes, head.size);
        guess(&head, "memory", &e);
    }
    return bzna_formats_data_return(err, &e);
}

bzna_status bzna_formats_open_source(bzna_context *context, const bzna_source *source,
                                     const bzna_formats_config *config, bzna_dataset **out, bzna_error *err)
{
    bzna_formats_config own;
    data_file file;
    uint8_t head[4];
    bzna_error e, other;

    if (out)
        *out = NULL;
    bzna_error_init(&e, sizeof e);
    bzna_error_init(&other, sizeof other);
    if (config_of_one(&own, config, &e) == BZNA_OK && own.records && context && source && out) {
        if (bzna_formats_file_take(&file, source, &e) != BZNA_OK)
            bzna_formats_data_prefix(&e, own.dataset && own.dataset->name ? own.dataset->name : "source");
        else
            open_either(context, &file, "source", &own, out, &e);
        return bzna_formats_data_return(err, &e);
    }
    if (e.status == BZNA_OK)
        bzna_dataset_open_source(context, source, own.dataset, out, &e);
    if (e.status == BZNA_E_UNSUPPORTED && bzna_formats_file_take(&file, source, &other) == BZNA_OK && file.size) {
        if (file.size >= sizeof head && bzna_formats_file_read(&file, 0, head, sizeof head, &other) == BZNA_OK &&
            is_recordio(&own, head, sizeof head)) {
            bzna_error_init(&e, sizeof e);
            open_either(context, &file, "source", &own, out, &e);
        } else {
            open_held_picture(context, &file, &own, out, &e);
        }
    }
    return bzna_formats_data_return(err, &e);
}
