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

/* What the data set owns. A file is the number of its folder, a slash, and its path below that folder: "0/a/b.jpg". */
typedef struct pairs {
    char                text[DATA_PATH_BYTES];      /* formats_config.pairs, cut into names and folders */
    bzna_provider_field fields[PAIRED + 1];         /* a picture of each folder, and the name */
    data_names          folders;                    /* their paths */
    data_names          files;                      /* of all folders; once they are sorted, sample by sample */
} pairs;

/* Where a file's path below its folder begins. */
#define BELOW 2

/* ---- Names ---------------------------------------------------------------------------------- */

/* Compares files: by their folders below the root, then by their names without extensions, of which each name has one.
 * A folder or name that another one continues comes first. */
static int compare_stems(const char *a, const char *b)
{
    for (a += BELOW, b += BELOW; *a && *a == *b; a++)
        b++;
    for (const char *end = "/."; *end; end++) {             /* the last slash ends a folder, the last dot a name */
        const char *const a_end = strrchr(a, *end), *const b_end = strrchr(b, *end);

        if (!a_end != !b_end)
            return a_end ? 1 : -1;
        if (a_end)
            return (a == a_end ? 0 : (unsigned char)*a) - (b == b_end ? 0 : (unsigned char)*b);
    }
    return 0;
}

static int by_stem(const void *left, const void *right)
{
    const char *const a = *(const char *const *)left, *const b = *(const char *const *)right;
    const int order = compare_stems(a, b);

    return order ? order : *a - *b;
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

/* Finds the pictures in the last of the folders, and in those below it. Links are followed, and names with a dot before
 * them left out. */
static bzna_status find(pairs *p, const bzna_formats_config *config, bzna_error *err)
{
    const char root[] = { (char)('0' + p->folders.count - 1), '/', 0 };
    char full[DATA_PATH_BYTES];
    data_names all = { .count = 0 };                        /* what is in the folder: it grows as folders are met */
    uint32_t folders = 0;

    bzna_formats_data_add(&all, root, err);
    for (uint32_t i = 0; err->status == BZNA_OK && i < all.count; i++) {
        const char *const path = all.list[i];
        data_names entries = { .count = 0 };
        int kind, error;

        if (bzna_formats_data_join(full, p->folders.list[p->folders.count - 1], path + BELOW, err) != BZNA_OK)
            break;
        kind = bzna_formats_data_kind(full);
        if (i && kind != DATA_FOLDER) {
            if (kind != DATA_OTHER && is_picture(path, config))
                bzna_formats_data_add(&p->files, path, err);
        } else if (folders++ == PAIRS_FOLDERS) {
            DATA_FAIL(err, BZNA_E_LIMIT, "%s: more than %u folders: does a link lead back to one that holds it?",
                      full, PAIRS_FOLDERS);
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
        if ((next = strchr(field, ',')) != NULL)
            *next++ = 0;
        if ((path = strchr(field, '=')) != NULL)
            *path++ = 0;
        path = path ? path : field;
        if (!*path)
            break;
        p->fields[p->folders.count] = (bzna_provider_field){ .name = field, .kind = BZNA_FIELD_IMAGE, .located = 1 };
        if (bzna_formats_data_add_path(&p->folders, root, path, err) != BZNA_OK || find(p, config, err) != BZNA_OK)
            return err->status;
    }
    if (field || p->folders.count < 2)
        return DATA_MISUSE(err, "formats_config.pairs: \"%.99s\" does not name 2 to %u folders", config->pairs, PAIRED);
    p->fields[p->folders.count] = (bzna_provider_field){ .name = "name", .kind = BZNA_FIELD_TEXT, .located = 1 };
    return BZNA_OK;
}

/* Sorts the files. Fails unless each sample then has one of each folder. */
static bzna_status sort(pairs *p, bzna_error *err)
{
    char **const files = p->files.list;
    const uint32_t count = p->files.count, folders = p->folders.count;

    if (count)
        qsort(files, count, sizeof *files, by_stem);
    for (uint32_t i = 0; i < count || i % folders; i++) {
        const uint32_t folder = i % folders;
        const char *const first = files[i - folder];

        if (i == count || files[i][0] != (char)('0' + folder) || compare_stems(files[i], first))
            return DATA_FAIL(err, BZNA_E_NOT_FOUND, "formats_config.pairs: \"%.99s\" in %s has no partner in %s, or is "
                             "not the only file of that name", first + BELOW, p->fields[*first - '0'].name,
                             p->fields[folder].name);
    }
    return BZNA_OK;
}

/* ---- The provider --------------------------------------------------------------------------- */

/* The pictures are whole files, those of a sample side by side in provider.files. The name is the first file's path
 * below its folder. */
static bzna_status pairs_locate(void *user, uint64_t index, uint32_t field, bzna_place *place, bzna_error *err)
{
    const pairs *const p = user;
    const char *const name = p->files.list[index * p->folders.count] + BELOW;
    (void)err;

    *place = (bzna_place){ .file = index * p->folders.count + field, .size = BZNA_SIZE_UNKNOWN };
    if (field == p->folders.count)
        *place = (bzna_place){ .data = name, .size = strlen(name) };
    return BZNA_OK;
}

static void pairs_close(void *user)
{
    pairs *p = user;

    bzna_formats_data_free(&p->files);
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
    pairs *p = calloc(1, sizeof *p);
    bzna_provider provider = { .struct_size = sizeof provider, .user = p, .locate = pairs_locate,
                               .close = pairs_close, .kind = "folder pairs", .fingerprint = BZNA_FORMATS_HASH };
    data_names paths = { .count = 0 };

    if (!p)
        return bzna_formats_data_no_memory(err);
    if (find_all(p, root, config, err) == BZNA_OK && sort(p, err) == BZNA_OK) {
        provider.fields = p->fields;
        provider.field_count = p->folders.count + 1;
        provider.count = p->files.count / p->folders.count;
    }
    for (uint32_t k = 0; k + 1 < provider.field_count; k++) {
        provider.fingerprint = hash_text(provider.fingerprint, p->fields[k].name);
        for (uint32_t i = k; i < p->files.count; i += p->folders.count)
            provider.fingerprint = hash_text(provider.fingerprint, p->files.list[i] + BELOW);
    }
    for (uint32_t i = 0; i < p->files.count && err->status == BZNA_OK; i++)
        bzna_formats_data_add_path(&paths, p->folders.list[i % p->folders.count], p->files.list[i] + BELOW, err);
    return bzna_formats_data_open(context, &provider, &paths, root, config->dataset, out, err);
}

#endif
