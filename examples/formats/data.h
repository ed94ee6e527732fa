/* data.h - what the files of this folder that open data sets have in common: errors, files, folders, texts. It is
 * implemented in data.c, and nothing of it is exported. */
#ifndef BENZINA_FORMATS_DATA_H
#define BENZINA_FORMATS_DATA_H

#include "formats.h"

#include <stdint.h>
#include <stdio.h>

#define DATA_PATH_BYTES 4096          /* of a path, with its NUL */
#define DATA_FILES      65536u        /* of a data set, at most */

typedef unsigned long long data_llu;

/* ---- Errors: err is never NULL in here ------------------------------------------------------- */

#if defined(__GNUC__)
#  define DATA_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#  define DATA_PRINTF(text, first)
#endif

/* Fills in an error, and returns its status. offset: a byte of the file, or BZNA_NO_OFFSET. */
DATA_PRINTF(4, 5)
bzna_status bzna_formats_data_fail(bzna_error *err, bzna_status status, uint64_t offset, const char *format, ...);
#define DATA_FAIL_AT bzna_formats_data_fail
#define DATA_FAIL(err, status, ...) DATA_FAIL_AT(err, status, BZNA_NO_OFFSET, __VA_ARGS__)

/* Fails because memory is short, or the system failed with an errno. */
bzna_status bzna_formats_data_no_memory(bzna_error *err);
bzna_status bzna_formats_data_fail_system(bzna_error *err, const char *what, int error);

/* Puts text and a colon before the message, and returns the status. Of a message that becomes too long, the beginning
 * is left out. */
bzna_status bzna_formats_data_prefix(bzna_error *err, const char *text);

/* Gives the caller of a public function its error, as much of it as its struct has. err: the caller's, or NULL. */
bzna_status bzna_formats_data_return(bzna_error *err, const bzna_error *e);

/* ---- Texts: one after the other ------------------------------------------------------------- */

/* Begins as all zeros. */
typedef struct data_names {
    char    *text;                    /* each with its NUL */
    size_t   size, capacity;          /* of text */
    size_t  *at;                      /* where each begins */
    uint32_t count;
} data_names;

bzna_status bzna_formats_data_add(data_names *names, const char *name, bzna_error *err);
const char *bzna_formats_data_get(const data_names *names, uint32_t i);
/* Sorts the texts from number `first` on by their bytes. */
void bzna_formats_data_sort(data_names *names, uint32_t first);
void bzna_formats_data_free(data_names *names);

/* ---- Providers ------------------------------------------------------------------------------ */

/* Sets the library's config for a provider: that of config, with a name, by default `name`. Fails if another kind is
 * asked for. */
bzna_status bzna_formats_data_config(bzna_dataset_config *own, const bzna_formats_config *config, const char *name,
                                     const char *kind, bzna_error *err);

/* Adds bytes to a hash (FNV-1a) that tells data sets apart. */
#define BZNA_FORMATS_HASH 0xcbf29ce484222325u
uint64_t bzna_formats_data_hash(uint64_t hash, const void *bytes, size_t size);

/* ---- Folders -------------------------------------------------------------------------------- */

enum { DATA_NONE, DATA_FILE, DATA_FOLDER, DATA_OTHER };

/* What is at a path, links followed: one of the above. */
int bzna_formats_data_kind(const char *path);

/* Adds the names in a folder, in no order, but "." and "..". Returns 0, or an errno. */
int bzna_formats_data_list(const char *folder, data_names *names, bzna_error *err);

#ifdef _WIN32
#  define DATA_ESCAPE 0               /* in patterns: a backslash parts folders */
#  define DATA_CASE   0               /* A to Z are a to z */
#else
#  define DATA_ESCAPE '\\'
#  define DATA_CASE   1
#endif

/* ---- The containers ------------------------------------------------------------------------- */

/* Adds the paths that a path or pattern stands for (paths.c). */
bzna_status bzna_formats_paths(data_names *paths, const char *path, bzna_error *err);

/* Opens the folders in a folder that config->pairs names (pairs.c). */
bzna_status bzna_formats_open_pairs(bzna_context *context, const char *root, const bzna_formats_config *config,
                                    bzna_dataset **out, bzna_error *err);

#endif
