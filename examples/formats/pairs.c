/* pairs.c - folders side by side: a provider whose values are whole files
 *
 * Files of several folders make one sample if their paths below the folders are the same but for the extension:
 * images/a.jpg and masks/a.png. Samples have the order of these paths: by folder, then by name, each by its bytes.
 * Opening lists the folders and reads no picture. The library opens a sample's files when it reads the sample.
 *
 * It needs data.c and formats.c. */
#include "data.h"

#ifndef BENZINA_FORMATS_NO_PAIRS

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAIRED        4u              /* folders whose files make one sample */
#define PAIRS_FOLDERS 65536u          /* in a folder, with those in them */

/* One of the folders. */
typedef struct paired {
    char       field[BZNA_NAME_MAX];
    char       root[DATA_PATH_BYTES];       /* its path */
    data_names names;                       /* of its files, below it, by folder and name without extension */
} paired;

/* What the data set owns. */
typedef struct pairs {
    uint32_t folder_count;
    paired   folders[PAIRED];
} pairs;

/* ---- Names ---------------------------------------------------------------------------------- */

static int compare_bytes(const char *a, size_t a_size, const char *b, size_t b_size)
{
    const int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order ? order : (a_size > b_size) - (a_size < b_size);
}

/* Compares paths: by their folders, then by their names without extensions, of which each name has one. */
static int compare_stems(const char *a, const char *b)
{
    const char *const x = strrchr(a, '/'), *const y = strrchr(b, '/');
    const char *const x_name = x ? x : a, *const y_name = y ? y : b;
    const int order = compare_bytes(a, (size_t)(x_name - a), b, (size_t)(y_name - b));

    return order ? order : compare_bytes(x_name, (size_t)(strrchr(x_name, '.') - x_name),
                                         y_name, (size_t)(strrchr(y_name, '.') - y_name));
}

static int by_stem(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    const int order = compare_stems(x, y);
    return order ? order : strcmp(x, y);
}

/* Returns 1 if a name has an extension of the library's pictures, of this folder's codecs, or of the config; else 0. */
static int is_picture(const char *name, const bzna_formats_config *config)
{
    const char *const dot = strrchr(name, '.');
    const data_span extension = { dot ? dot + 1 : "", dot ? strlen(dot + 1) : 0 };
    uint64_t count;
    const bzna_codec *codecs = bzna_formats_codecs(&count);
    int is_known = bzna_formats_data_has_word("jpg jpeg png webp", extension) ||
                   (config->extensions && bzna_formats_data_has_word(config->extensions, extension));

    for (uint64_t i = 0; i < count; i++)
        is_known |= bzna_formats_data_has_word(codecs[i].extensions, extension);
    return is_known;
}

/* ---- Listing -------------------------------------------------------------------------------- */

/* Finds the pictures in a folder and in those below it. Links are followed, and names with a dot before them left
 * out. */
static bzna_status list(paired *folder, const bzna_formats_config *config, bzna_error *err)
{
    char path[DATA_PATH_BYTES], full[DATA_PATH_BYTES];
    data_names folders = { .count = 0 };

    bzna_formats_data_add(&folders, "", err);
    for (uint32_t i = 0; err->status == BZNA_OK && i < folders.count; i++) {
        const char *const below = folders.list[i];
        data_names entries = { .count = 0 };
        int error = 0, kind;

        if (bzna_formats_data_join(full, folder->root, below, err) == BZNA_OK)
            error = bzna_formats_data_list(full, &entries, err);
        if (error) {
            bzna_formats_data_fail_system(err, "cannot list", error);
            err->status = error == ENOMEM ? BZNA_E_MEMORY : BZNA_E_IO;
            if (*below)
                bzna_formats_data_prefix(err, below);
        }
        for (uint32_t k = 0; err->status == BZNA_OK && k < entries.count; k++) {
            const char *const name = entries.list[k];

            if (*name == '.' || bzna_formats_data_join(path, below, name, err) != BZNA_OK ||
                bzna_formats_data_join(full, folder->root, path, err) != BZNA_OK)
                continue;
            kind = bzna_formats_data_kind(full);
            if (kind == DATA_FOLDER && folders.count == PAIRS_FOLDERS)
                DATA_FAIL(err, BZNA_E_LIMIT, "%s: more than %u folders: does a link lead back to one that holds it?",
                          path, PAIRS_FOLDERS);
            else if (kind == DATA_FOLDER)
                bzna_formats_data_add(&folders, path, err);
            else if (kind != DATA_OTHER && is_picture(name, config))
                bzna_formats_data_add(&folder->names, path, err);
        }
        bzna_formats_data_free(&entries);
    }
    bzna_formats_data_free(&folders);
    return err->status;
}

/* Sorts the files of one folder. Two that differ in nothing but their extensions are refused, and a folder without
 * any. */
static bzna_status sort_names(paired *folder, bzna_error *err)
{
    const uint32_t count = folder->names.count;

    if (!count)
        return DATA_FAIL(err, BZNA_E_NO_SAMPLES, "formats_config.pairs: the folder of %s holds no pictures",
                         folder->field);
    qsort(folder->names.list, count, sizeof *folder->names.list, by_stem);
    for (uint32_t i = 1; i < count; i++) {
        const char *before = folder->names.list[i - 1], *name = folder->names.list[i];
        if (!compare_stems(before, name))
            return DATA_MISUSE(err, "formats_config.pairs: \"%.64s\" and \"%.64s\" in %s have the same "
                               "name but for the extension", before, name, folder->field);
    }
    return BZNA_OK;
}

/* Fails if files of one folder lack a partner in another. The message names the first of them. */
static bzna_status check(const paired *from, const paired *to, bzna_error *err)
{
    const char *first = NULL;
    char more[40] = "has";
    uint32_t lacking = 0;

    for (uint32_t i = 0, k = 0; i < from->names.count; i++) {
        const char *name = from->names.list[i];
        while (k < to->names.count && compare_stems(to->names.list[k], name) < 0)
            k++;
        if (k == to->names.count || compare_stems(to->names.list[k], name)) {
            first = first ? first : name;
            lacking++;
        }
    }

    if (!first)
        return BZNA_OK;
    if (lacking > 1)
        snprintf(more, sizeof more, "and %u more have", lacking - 1);
    return DATA_FAIL(err, BZNA_E_NOT_FOUND, "formats_config.pairs: \"%.99s\" in %s %s no partner in %s", first,
                     from->field, more, to->field);
}

/* ---- The folders ---------------------------------------------------------------------------- */

/* Adds a folder by its text in formats_config.pairs, "path" or "name=path". */
static bzna_status add_folder(pairs *p, const char *root, data_span text, const bzna_formats_config *config,
                              bzna_error *err)
{
    paired *folder = &p->folders[p->folder_count];
    char below[DATA_PATH_BYTES];
    data_span path = text, name;

    if (!bzna_formats_data_take(&path, '=', &name))
        path = name;
    if (p->folder_count == PAIRED)
        return DATA_FAIL(err, BZNA_E_LIMIT, "formats_config.pairs: more than %u folders", PAIRED);
    if (!name.size || name.size >= sizeof folder->field || !path.size || path.size >= sizeof below)
        return DATA_MISUSE(err, "formats_config.pairs: \"%.*s\" is neither a folder nor a name of 1 to %u bytes, = and "
                           "a folder", (int)(text.size < 64 ? text.size : 64), text.data, BZNA_NAME_MAX - 1);

    snprintf(folder->field, sizeof folder->field, "%.*s", (int)name.size, name.data);
    snprintf(below, sizeof below, "%.*s", (int)path.size, path.data);
    for (uint32_t i = 0; i < p->folder_count; i++)
        if (!strcmp(p->folders[i].field, folder->field))
            return DATA_MISUSE(err, "formats_config.pairs: \"%s\" is named twice", folder->field);
    if (!strcmp(folder->field, "name") || !strcmp(folder->field, "target"))
        return DATA_MISUSE(err, "formats_config.pairs: \"%s\" is a field of another kind", folder->field);

    p->folder_count++;
    if (bzna_formats_data_join(folder->root, root, below, err) != BZNA_OK)
        return err->status;
    if (bzna_formats_data_kind(folder->root) != DATA_FOLDER)
        return DATA_FAIL(err, BZNA_E_NOT_FOUND, "formats_config.pairs: there is no folder \"%.64s\"", below);
    if (list(folder, config, err) != BZNA_OK)
        return bzna_formats_data_prefix(err, folder->field);
    return sort_names(folder, err);
}

static bzna_status add_all(pairs *p, const char *root, const bzna_formats_config *config, bzna_error *err)
{
    data_span rest = { config->pairs, strlen(config->pairs) }, text;

    if (bzna_formats_data_kind(root) != DATA_FOLDER)
        return DATA_MISUSE(err, "formats_config.pairs: it has an effect on folders only");
    for (int more = 1; more;) {
        more = bzna_formats_data_take(&rest, ',', &text);
        if (add_folder(p, root, text, config, err) != BZNA_OK)
            return err->status;
    }
    if (p->folder_count < 2)
        return DATA_MISUSE(err, "formats_config.pairs: only one folder, \"%.64s\"", config->pairs);
    for (uint32_t i = 1; i < p->folder_count; i++)
        if (check(&p->folders[0], &p->folders[i], err) != BZNA_OK ||
            check(&p->folders[i], &p->folders[0], err) != BZNA_OK)
            return err->status;
    return BZNA_OK;
}

/* ---- The provider --------------------------------------------------------------------------- */

/* The pictures are whole files, those of a sample side by side in provider.files. The name is the first file's path
 * below its folder. */
static bzna_status pairs_locate(void *user, uint64_t index, uint32_t field, bzna_place *place, bzna_error *err)
{
    const pairs *const p = user;
    (void)err;

    place->size = BZNA_SIZE_UNKNOWN;
    place->file = index * p->folder_count + field;
    if (field == p->folder_count) {
        place->data = p->folders[0].names.list[index];
        place->size = strlen(place->data);
    }
    return BZNA_OK;
}

static void pairs_close(void *user)
{
    pairs *p = user;

    for (uint32_t k = 0; k < p->folder_count; k++)
        bzna_formats_data_free(&p->folders[k].names);
    free(p);
}

/* Hashes all fields and names. */
static uint64_t fingerprint(const pairs *p)
{
    uint64_t hash = BZNA_FORMATS_HASH;

    for (uint32_t k = 0; k < p->folder_count; k++) {
        hash = bzna_formats_data_hash(hash, p->folders[k].field, strlen(p->folders[k].field) + 1);
        for (uint32_t i = 0; i < p->folders[k].names.count; i++)
            hash = bzna_formats_data_hash(hash, p->folders[k].names.list[i], strlen(p->folders[k].names.list[i]) + 1);
    }
    return hash;
}

bzna_status bzna_formats_open_pairs(bzna_context *context, const char *root, const bzna_formats_config *config,
                                    bzna_dataset **out, bzna_error *err)
{
    bzna_provider_field fields[PAIRED + 1] = { { .name = NULL } };
    pairs *p = calloc(1, sizeof *p);
    bzna_provider provider = { .struct_size = sizeof provider, .user = p, .fields = fields, .locate = pairs_locate,
                               .close = pairs_close, .kind = "folder pairs" };
    data_names paths = { .count = 0 };

    if (!p)
        return bzna_formats_data_no_memory(err);
    if (add_all(p, root, config, err) == BZNA_OK) {
        provider.field_count = p->folder_count + 1;
        provider.count = p->folders[0].names.count;
        provider.fingerprint = fingerprint(p);
        for (uint32_t k = 0; k < p->folder_count; k++)
            fields[k] = (bzna_provider_field){ .name = p->folders[k].field, .kind = BZNA_FIELD_IMAGE, .located = 1 };
        fields[p->folder_count] = (bzna_provider_field){ .name = "name", .kind = BZNA_FIELD_TEXT, .located = 1 };
    }
    for (uint64_t i = 0; i < provider.count; i++)
        for (uint32_t k = 0; k < p->folder_count && err->status == BZNA_OK; k++)
            bzna_formats_data_add_path(&paths, p->folders[k].root, p->folders[k].names.list[i], err);
    return bzna_formats_data_open(context, &provider, &paths, root, config->dataset, out, err);
}

#endif
