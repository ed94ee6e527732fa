/* open.c - bzna_formats_open: finds out what paths name, and has the library or a file of this folder open it
 *
 * formats.h says which files it needs. */
#include "data.h"

#include <stdlib.h>
#include <string.h>

#define HOLD_BYTES (256u << 20)       /* CIFAR's files are 180 MB; a file in memory takes no call a sample */

void bzna_formats_config_init(bzna_formats_config *config, size_t struct_size)
{
    bzna_formats_data_init(config, struct_size);
}

/* The caller's settings, completed. */
typedef struct settings {
    bzna_formats_config c;            /* hold_bytes: how many may still be held */
    bzna_dataset_config dataset;      /* c.dataset points here */
} settings;

/* Prepares for opening, and completes the settings. */
static bzna_status take_config(settings *own, const bzna_formats_config *config, bzna_dataset **out, bzna_error *err)
{
    bzna_formats_config *c = &own->c;

    bzna_error_init(err, sizeof *err);
    if (out)
        *out = NULL;
    if (bzna_formats_data_copy(c, sizeof *c, config, "formats_config", err) != BZNA_OK ||
        bzna_formats_data_copy(&own->dataset, sizeof own->dataset, c->dataset, "dataset_config", err) != BZNA_OK)
        return err->status;
    c->dataset = &own->dataset;
    c->hold_bytes = c->hold_bytes ? c->hold_bytes : HOLD_BYTES;
    if (c->reserved0)
        return DATA_FAIL(err, BZNA_E_STRUCT_SIZE, "formats_config.reserved0: a reserved word must be 0");
    if ((c->pairs != NULL) + (c->list != NULL) + (c->records != NULL) > 1)
        return DATA_MISUSE(err, "formats_config.pairs, list, records: only one of them");
    return BZNA_OK;
}

/* ---- One file ------------------------------------------------------------------------------- */

/* Opens a picture of this folder's codecs as a data set of one sample. */
static bzna_status open_picture(bzna_context *context, data_file *file, const char *name,
                                const bzna_formats_config *c, bzna_dataset **out, bzna_error *err)
{
    const bzna_provider_field field = { .name = "image", .kind = BZNA_FIELD_IMAGE, .located = (uint32_t)file->is_file };
    data_records *r = calloc(1, sizeof *r);
    bzna_provider provider = { .struct_size = sizeof provider, .user = r, .count = 1, .fields = &field,
                               .field_count = 1, .close = bzna_formats_records_close, .kind = "picture" };

    if (!r)
        return bzna_formats_data_no_memory(err);
    r->stride = file->size;
    return bzna_formats_records_open(context, &provider, file, name, c->dataset, out, err);
}

/* Opens a file as the records that the config describes, as RecordIO, by the library, or as a picture.
 *     file     without bytes if it is a path that cannot be read, such as a folder's */
static bzna_status open_file(bzna_context *context, data_file *file, const char *name, const bzna_formats_config *c,
                             bzna_dataset **out, bzna_error *err)
{
    const char *const format = c->dataset->format;
    uint8_t head[512];
    uint64_t bytes = file->size < sizeof head ? file->size : sizeof head;
    bzna_error ignored;
    char *advice;

    if (c->records)
        return bzna_formats_open_records(context, file, name, c, out, err);
    if (bzna_formats_file_read(file, 0, head, bytes, &ignored) != BZNA_OK)
        bytes = 0;
    if (bytes && !c->pairs && (format ? !strcmp(format, "RecordIO") : bzna_formats_is_recordio(head, bytes)))
        return bzna_formats_open_recordio(context, file, name, c, out, err);
    if (c->list || c->pairs)
        return DATA_MISUSE(err, "%s: formats_config.%s", name, c->pairs ? "pairs: it has an effect on folders only" :
                           "list: it has an effect on folders and RecordIO files only");
    if (file->is_file)
        bzna_dataset_open(context, name, c->dataset, out, err);
    else if (file->source.size)
        bzna_dataset_open_source(context, &file->source, c->dataset, out, err);
    else
        bzna_dataset_open_memory(context, file->memory, (size_t)file->size, c->dataset, out, err);
    if ((advice = strstr(err->message, "; examples/formats")) != NULL)
        *advice = 0;                                        /* it is to call what was called */

    if ((err->status == BZNA_E_UNSUPPORTED || err->status == BZNA_E_FORMAT) &&
        bzna_formats_recognize(head, bytes) != BZNA_CODEC_UNKNOWN) {
        bzna_error_init(err, sizeof *err);
        return open_picture(context, file, name, c, out, err);
    }
    if (err->status == BZNA_E_FORMAT && bytes >= 4 && !memcmp(head, "\0\0\x08", 3) && head[3] >= 1 && head[3] <= 3) {
        DATA_FAIL_AT(err, BZNA_E_FORMAT, 0, "it begins like an IDX file (MNIST's): it is cut, or to be opened with "
                     "formats_config.records (header_bytes %d)", 4 + 4 * head[3]);
        bzna_formats_data_prefix(err, name);
    }
    return err->status;
}

/* ---- Paths ---------------------------------------------------------------------------------- */

/* Opens one path, which is no pattern any more. */
static bzna_status open_one(bzna_context *context, const char *path, bzna_formats_config *c, bzna_dataset **out,
                            bzna_error *err)
{
    bzna_error ignored;
    data_file file = { .size = 0 };

    if (c->pairs && bzna_formats_data_kind(path) != DATA_FILE)
        return bzna_formats_open_pairs(context, path, c, out, err);
    if (c->list && bzna_formats_data_kind(path) == DATA_FOLDER)
        return bzna_formats_open_listed(context, path, c, out, err);
    if (bzna_formats_file_open(&file, path, err) != BZNA_OK) {
        if (c->records || c->list)
            return bzna_formats_data_prefix(err, path);
        bzna_error_init(err, sizeof *err);                  /* the library says it, or opens the folder */
        return open_file(context, &(data_file){ .is_file = 1 }, path, c, out, err);
    }
    bzna_error_init(&ignored, sizeof ignored);
    if (c->records && file.size <= c->hold_bytes && bzna_formats_file_hold(&file, &ignored) == BZNA_OK)
        c->hold_bytes -= file.size;
    open_file(context, &file, path, c, out, err);
    bzna_formats_file_leave(&file);
    return err->status;
}

/* Opens paths one by one, and lays them end to end. */
static bzna_status open_each(bzna_context *context, const data_names *paths, bzna_formats_config *c, bzna_dataset **out,
                             bzna_error *err)
{
    bzna_dataset **parts = calloc(paths->count + (size_t)1, sizeof *parts);
    uint32_t opened = 0;

    if (!parts)
        return bzna_formats_data_no_memory(err);
    if (paths->count > 1 && (c->dataset->name || c->dataset->index))
        DATA_MISUSE(err, "dataset_config.name, index: they are of one file, and these are %u", paths->count);
    while (err->status == BZNA_OK && opened < paths->count &&
           open_one(context, paths->list[opened], c, &parts[opened], err) == BZNA_OK)
        opened++;
    if (err->status == BZNA_OK)
        bzna_dataset_concat(context, parts, opened, out, err);
    while (opened)
        bzna_dataset_close(parts[--opened]);
    free(parts);
    return err->status;
}

static int has_extension(const char *name, const char *extensions)
{
    const char *const dot = *name == '.' ? NULL : strrchr(name, '.');
    return dot && bzna_formats_data_has_word(extensions, (data_span){ dot + 1, strlen(dot + 1) });
}

/* Adds a path, or the files in it if it is a folder that holds RecordIO files, in the order of their names. If there
 * are folders, too, it is refused, as the library refuses a folder of tars. */
static bzna_status add_files(data_names *paths, const char *path, bzna_error *err)
{
    const uint32_t first = paths->count;
    data_names names = { .count = 0 };
    char full[DATA_PATH_BYTES];
    int has_records = 0;

    if (!bzna_formats_data_list(path, &names, err))         /* else the library says why, or it is a file */
        for (uint32_t i = 0; i < names.count; i++)
            has_records |= has_extension(names.list[i], "rec");
    if (!has_records && err->status == BZNA_OK)
        bzna_formats_data_add(paths, path, err);
    for (uint32_t i = 0; has_records && i < names.count && err->status == BZNA_OK; i++) {
        const char *const name = names.list[i];

        if (*name == '.' || bzna_formats_data_join(full, path, name, err) != BZNA_OK)
            continue;
        if (bzna_formats_data_kind(full) == DATA_FOLDER)
            DATA_FAIL(err, BZNA_E_FORMAT, "%.999s: it holds folders as well as RecordIO files (\"%.64s\"): open those "
                      "by a pattern (*.rec), or set dataset_config.format to \"folder\"", path, name);
        else if (has_extension(name, "rec tar bzna"))
            bzna_formats_data_add(paths, full, err);
    }
    bzna_formats_data_free(&names);
    bzna_formats_data_sort(paths, first);
    return err->status;
}

/* Opens paths, which are no patterns any more: by the library all at once, unless the config has settings that it does
 * not have; and if it refuses them, one by one. */
static bzna_status open_paths(bzna_context *context, const data_names *given, bzna_formats_config *c,
                              bzna_dataset **out, bzna_error *err)
{
    data_names paths = { .count = 0 };

    if (c->pairs || c->records || c->list)
        return open_each(context, given, c, out, err);
    bzna_dataset_open_list(context, (const char *const *)given->list, given->count, c->dataset, out, err);
    if (err->status != BZNA_E_UNSUPPORTED && err->status != BZNA_E_FORMAT)
        return err->status;

    bzna_error_init(err, sizeof *err);
    for (uint32_t i = 0; i < given->count && err->status == BZNA_OK; i++)
        add_files(&paths, given->list[i], err);
    if (err->status == BZNA_OK)
        open_each(context, &paths, c, out, err);
    bzna_formats_data_free(&paths);
    return err->status;
}

bzna_status bzna_formats_open_list(bzna_context *context, const char *const *paths, uint32_t count,
                                   const bzna_formats_config *config, bzna_dataset **out, bzna_error *err)
{
    int is_whole = paths && count && count <= DATA_FILES;
    data_names found = { .count = 0 };
    settings own;
    bzna_error e;

    take_config(&own, config, out, &e);
    for (uint32_t i = 0; is_whole && i < count && e.status == BZNA_OK; i++) {
        is_whole = paths[i] && *paths[i];
        if (is_whole && bzna_formats_paths(&found, paths[i], &e) != BZNA_OK)
            bzna_formats_data_prefix(&e, paths[i]);
    }
    if (e.status == BZNA_OK && is_whole)
        open_paths(context, &found, &own.c, out, &e);
    else if (e.status == BZNA_OK)                           /* the library says what is missing */
        bzna_dataset_open_list(context, paths, count, &own.dataset, out, &e);
    bzna_formats_data_free(&found);
    return bzna_formats_data_return(err, &e);
}

bzna_status bzna_formats_open(bzna_context *context, const char *path, const bzna_formats_config *config,
                              bzna_dataset **out, bzna_error *err)
{
    return bzna_formats_open_list(context, &path, 1, config, out, err);
}

/* ---- Memory and sources --------------------------------------------------------------------- */

bzna_status bzna_formats_open_memory(bzna_context *context, const void *bytes, size_t size,
                                     const bzna_formats_config *config, bzna_dataset **out, bzna_error *err)
{
    data_file file = { .size = bytes ? size : 0, .memory = bytes };
    settings own;
    bzna_error e;

    if (take_config(&own, config, out, &e) == BZNA_OK)
        open_file(context, &file, "memory", &own.c, out, &e);
    return bzna_formats_data_return(err, &e);
}

bzna_status bzna_formats_open_source(bzna_context *context, const bzna_source *source,
                                     const bzna_formats_config *config, bzna_dataset **out, bzna_error *err)
{
    data_file file;
    settings own;
    bzna_error e;

    if (take_config(&own, config, out, &e) == BZNA_OK && bzna_formats_file_take(&file, source, &e) == BZNA_OK)
        open_file(context, &file, "source", &own.c, out, &e);
    return bzna_formats_data_return(err, &e);
}
