/* pairs.c - folders side by side: a provider whose values are whole files
 *
 * Files of several folders make one sample if their paths below the folders are the same but for the extension:
 * images/a.jpg and masks/a.png. Samples have the order of these paths: by folder, then by name, each by its bytes.
 * Opening lists the folders and reads no picture. The library opens a sample's files when it reads the sample.
 *
 * It needs data.c and formats.c. */
#include "data.h"

#ifndef BENZINA_FORMATS_NO_PAIRS

#include <stdlib.h>
#include <string.h>

#define PAIRED        4u              /* folders whose files make one sample */
#define PAIRS_FOLDERS 65536u          /* in a folder, with those in them */

/* What the data set owns. */
typedef struct pairs {
    char        text[DATA_PATH_BYTES];      /* formats_config.pairs, cut into fields and folders */
    const char *fields[PAIRED];             /* their names, in text */
    data_names  folders;                    /* a path for each field */
    data_names  files[PAIRED];              /* of each folder, below it, by folder and name without extension */
} pairs;

/* ---- Names ---------------------------------------------------------------------------------- */

/* Compares paths: by their folders, then by their names without extensions, of which each name has one. A path whose
 * folder, or whose name, ends before another's continues comes first. */
static int compare_stems(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    for (const char *end = "/."; *end; end++) {             /* the last slash ends a folder, the last dot a name */
        const char *const a_end = strrchr(a, *end), *const b_end = strrchr(b, *end);

        if (!a_end != !b_end)
            return a_end ? 1 : -1;
        if (a_end)
            return (a == a_end ? 0 : (unsigned char)*a) - (b == b_end ? 0 : (unsigned char)*b);
    }
    return 0;
}

static int by_stem(const void *a, const void *b)
{
    return compare_stems(*(const char *const *)a, *(const char *const *)b);
}

/* Returns 1 if a path has an extension of the library's pictures, of this folder's codecs, or of the config; else 0. */
static int is_picture(const char *path, const bzna_formats_config *config)
{
    const char *const dot = strrchr(path, '.');
    const data_span extension = { dot ? dot + 1 : "", dot ? strlen(dot + 1) : 0 };
    uint64_t count;
    const bzna_codec *codecs = bzna_formats_codecs(&count);
    int is_known = bzna_formats_data_has_word("jpg jpeg png webp", extension) ||
                   (config->extensions && bzna_formats_data_has_word(config->extensions, extension));

    for (uint64_t i = 0; i < count; i++)
        is_known |= bzna_formats_data_has_word(codecs[i].extensions, extension);
    return is_known;
}

/* ---- Folders -------------------------------------------------------------------------------- */

/* Finds the pictures in a folder and in those below it. Links are followed, and names with a dot before them left
 * out. */
static bzna_status find(data_names *files, const char *folder, const bzna_formats_config *config, bzna_error *err)
{
    char full[DATA_PATH_BYTES];
    data_names all = { .count = 0 };                        /* what is in the folder: it grows as folders are met */
    uint32_t folders = 0;

    bzna_formats_data_add(&all, "", err);
    for (uint32_t i = 0; err->status == BZNA_OK && i < all.count &&
                         bzna_formats_data_join(full, folder, all.list[i], err) == BZNA_OK; i++) {
        const char *const path = all.list[i];
        const int kind = bzna_formats_data_kind(full);
        data_names entries = { .count = 0 };
        int error;

        if (i && kind != DATA_FOLDER) {
            if (kind != DATA_OTHER && is_picture(path, config))
                bzna_formats_data_add(files, path, err);
        } else if (folders++ == PAIRS_FOLDERS) {
            DATA_FAIL(err, BZNA_E_LIMIT, "%s: more than %u folders: does a link lead back to one that holds it?",
                      path, PAIRS_FOLDERS);
        } else if ((error = bzna_formats_data_list(full, &entries, err)) != 0) {
            bzna_formats_data_fail_system(err, "cannot list", error);
            bzna_formats_data_prefix(err, full);
        }
        for (uint32_t k = 0; k < entries.count && err->status == BZNA_OK; k++)
            if (*entries.list[k] != '.')
                bzna_formats_data_add_path(&all, path, entries.list[k], err);
        bzna_formats_data_free(&entries);
    }
    bzna_formats_data_free(&all);
    return err->status;
}

/* Finds the files of the folders in formats_config.pairs, each of which is "path" or "name=path". */
static bzna_status find_all(pairs *p, const char *root, const bzna_formats_config *config, bzna_error *err)
{
    char *field = p->text, *path, *next;

    if (bzna_formats_data_join(p->text, "", config->pairs, err) != BZNA_OK)
        return err->status;
    for (; field && p->folders.count < PAIRED; field = next) {
        const uint32_t k = p->folders.count;

        if ((next = strchr(field, ',')) != NULL)
            *next++ = 0;
        if ((path = strchr(field, '=')) != NULL)
            *path++ = 0;
        path = path ? path : field;
        if (!*path)
            break;
        p->fields[k] = field;
        if (bzna_formats_data_add_path(&p->folders, root, path, err) != BZNA_OK ||
            find(&p->files[k], p->folders.list[k], config, err) != BZNA_OK)
            return err->status;
        if (p->files[k].count)
            qsort(p->files[k].list, p->files[k].count, sizeof *p->files[k].list, by_stem);
    }
    return !field && p->folders.count > 1 ? BZNA_OK :
           DATA_MISUSE(err, "formats_config.pairs: \"%.99s\" does not name 2 to %u folders", config->pairs, PAIRED);
}

/* Fails if the folders differ in their files, and names the first that lacks a partner: in the order of their names,
 * this is where lists differ first, or where the first one has a name twice. */
static bzna_status check(const pairs *p, bzna_error *err)
{
    const data_names *const a = &p->files[0];

    for (uint32_t k = 1; k < p->folders.count; k++) {
        const data_names *const b = &p->files[k];

        for (uint32_t i = 0; i < a->count || i < b->count; i++) {
            const int is_twice = i && i < a->count && !compare_stems(a->list[i - 1], a->list[i]);
            const int order = i == a->count ? 1 : i == b->count || is_twice ? -1 :
                              compare_stems(a->list[i], b->list[i]);

            if (order)
                return DATA_FAIL(err, BZNA_E_NOT_FOUND, "formats_config.pairs: \"%.99s\" in %s has no partner in %s",
                                 (order < 0 ? a : b)->list[i], p->fields[order < 0 ? 0 : k],
                                 p->fields[order < 0 ? k : 0]);
        }
    }
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
    place->file = index * p->folders.count + field;
    if (field == p->folders.count) {
        place->data = p->files[0].list[index];
        place->size = strlen(place->data);
    }
    return BZNA_OK;
}

static void pairs_close(void *user)
{
    pairs *p = user;

    for (uint32_t k = 0; k < PAIRED; k++)
        bzna_formats_data_free(&p->files[k]);
    bzna_formats_data_free(&p->folders);
    free(p);
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    return bzna_formats_data_hash(hash, text, strlen(text) + 1);
}

bzna_status bzna_formats_open_pairs(bzna_context *context, const char *root, const bzna_formats_config *config,
                                    bzna_dataset **out, bzna_error *err)
{
    bzna_provider_field fields[PAIRED + 1] = { { .name = NULL } };
    pairs *p = calloc(1, sizeof *p);
    bzna_provider provider = { .struct_size = sizeof provider, .user = p, .fields = fields, .locate = pairs_locate,
                               .close = pairs_close, .kind = "folder pairs", .fingerprint = BZNA_FORMATS_HASH };
    data_names paths = { .count = 0 };

    if (!p)
        return bzna_formats_data_no_memory(err);
    if (find_all(p, root, config, err) == BZNA_OK && check(p, err) == BZNA_OK) {
        provider.count = p->files[0].count;
        provider.field_count = p->folders.count + 1;
        fields[p->folders.count] = (bzna_provider_field){ .name = "name", .kind = BZNA_FIELD_TEXT, .located = 1 };
        for (uint32_t k = 0; k < p->folders.count; k++) {
            fields[k] = (bzna_provider_field){ .name = p->fields[k], .kind = BZNA_FIELD_IMAGE, .located = 1 };
            provider.fingerprint = hash_text(provider.fingerprint, p->fields[k]);
            for (uint64_t i = 0; i < provider.count; i++)
                provider.fingerprint = hash_text(provider.fingerprint, p->files[k].list[i]);
        }
    }
    for (uint64_t i = 0; i < provider.count; i++)
        for (uint32_t k = 0; k < p->folders.count && err->status == BZNA_OK; k++)
            bzna_formats_data_add_path(&paths, p->folders.list[k], p->files[k].list[i], err);
    return bzna_formats_data_open(context, &provider, &paths, root, config->dataset, out, err);
}

#endif
