/* data.h - what the files of this folder that open data sets have in common: errors, files, folders, texts. It is
 * implemented in data.c, and nothing of it is exported. */
#ifndef BENZINA_FORMATS_DATA_H
#define BENZINA_FORMATS_DATA_H

#include "formats.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define DATA_PATH_BYTES 4096          /* of a path, with its NUL */
#define DATA_FILES      65536u        /* of a data set, at most */

typedef unsigned long long data_llu;

/* ---- Errors: err is never NULL in here ------------------------------------------------------- */

/* Fills in an error, and returns its status. offset: a byte of the file, or BZNA_NO_OFFSET. */
__attribute__((format(printf, 4, 5)))
bzna_status bzna_formats_data_fail(bzna_error *err, bzna_status status, uint64_t offset, const char *format, ...);
#define DATA_FAIL_AT bzna_formats_data_fail
#define DATA_FAIL(err, status, ...) DATA_FAIL_AT(err, status, BZNA_NO_OFFSET, __VA_ARGS__)
#define DATA_MISUSE(err, ...)       DATA_FAIL(err, BZNA_E_ARGUMENT, __VA_ARGS__)

/* Fails because memory is short, or the system failed with an errno. */
bzna_status bzna_formats_data_no_memory(bzna_error *err);
bzna_status bzna_formats_data_fail_system(bzna_error *err, const char *what, int error);

/* Puts text and a colon before the message, and returns the status. Of a message that becomes too long, the beginning
 * is left out. */
bzna_status bzna_formats_data_prefix(bzna_error *err, const char *text);

/* Gives the caller of a public function its error, as much of it as its struct has. err: the caller's, or NULL. */
bzna_status bzna_formats_data_return(bzna_error *err, const bzna_error *e);

/* ---- Texts ---------------------------------------------------------------------------------- */

/* A list of texts. Begins as all zeros. */
typedef struct data_names {
    char   **list;
    uint32_t count;
} data_names;

/* Adds a copy of a text. */
bzna_status bzna_formats_data_add(data_names *names, const char *name, bzna_error *err);
void bzna_formats_data_free(data_names *names);

/* Sorts the texts from number `first` on by their bytes. */
void bzna_formats_data_sort(data_names *names, uint32_t first);

/* Returns an array that has room for one element more than `count`, which is to be kept instead of the old one; or NULL
 * without memory, and the old one stays. Pre: all elements were added so. */
void *bzna_formats_data_grow(void *array, uint64_t count, size_t size, bzna_error *err);

/* A part of a text, which need not end with a NUL. */
typedef struct data_span {
    const char *data;
    size_t      size;
} data_span;

static inline int data_is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Takes the text up to a character, which is taken, too. Returns 1, or 0 if the character is not there: then all of the
 * text is taken. */
int bzna_formats_data_take(data_span *rest, char stop, data_span *part);

/* Takes the text that follows the last such character, likewise. */
int bzna_formats_data_take_last(data_span *rest, char stop, data_span *part);

/* Takes the next line, and returns it without its end. */
data_span bzna_formats_data_line(data_span *rest);

/* Returns the text without blanks at both ends. */
data_span bzna_formats_data_trim(data_span text);

/* Returns 1 if a list of words in lower case, with blanks between them, has a word, in any case; else 0. */
int bzna_formats_data_has_word(const char *list, data_span word);

/* Reads a number of digits only. Returns 0 if it is no such number, or exceeds 64 bits. */
int bzna_formats_data_integer(data_span text, uint64_t *out);

/* ---- Providers ------------------------------------------------------------------------------ */

/* Clears a struct of the caller's, which begins with its struct_size; NULL: does nothing. */
void bzna_formats_data_init(void *given, size_t size);

/* Completes the caller's struct, which may be of an older header, or of a newer one that sets nothing which this one
 * does not know. own: `size` bytes. given: NULL for all defaults. */
bzna_status bzna_formats_data_copy(void *own, size_t size, const void *given, const char *name, bzna_error *err);

/* Opens a provider, which has a close that is called without success, too. If err has failed, it only gets the name.
 * paths: become the provider's files, and are freed; NULL: it has its files. name: of the data set, unless dataset has
 * one. */
bzna_status bzna_formats_data_open(bzna_context *context, bzna_provider *provider, data_names *paths, const char *name,
                                   const bzna_dataset_config *dataset, bzna_dataset **out, bzna_error *err);

/* Adds bytes to a hash (FNV-1a) that tells data sets apart. */
#define BZNA_FORMATS_HASH 0xcbf29ce484222325u
uint64_t bzna_formats_data_hash(uint64_t hash, const void *bytes, size_t size);

/* ---- Files and folders ---------------------------------------------------------------------- */

enum { DATA_NONE, DATA_FILE, DATA_FOLDER, DATA_OTHER };

/* What is at a path, links followed. */
typedef struct data_look {
    int      kind;                    /* one of the above */
    int64_t  modified;                /* when it was changed last, in seconds */
    uint64_t size;                    /* bytes of a file */
} data_look;

data_look bzna_formats_data_look(const char *path);
static inline int bzna_formats_data_kind(const char *path) { return bzna_formats_data_look(path).kind; }

/* Reads a whole file into memory, to be freed. Errors name the file. */
bzna_status bzna_formats_data_read(const char *path, data_span *text, bzna_error *err);

/* Joins folder and name with a slash, in DATA_PATH_BYTES. Either may be empty. A name that is an absolute path stays
 * alone. */
bzna_status bzna_formats_data_join(char *path, const char *folder, const char *name, bzna_error *err);

/* Adds the path of a name in a folder. */
bzna_status bzna_formats_data_add_path(data_names *paths, const char *folder, const char *name, bzna_error *err);

/* Adds the names in a folder, in no order, but "." and "..". Returns 0, or an errno. */
int bzna_formats_data_list(const char *folder, data_names *names, bzna_error *err);

#ifdef _WIN32
#  define DATA_ESCAPE 0               /* in patterns: a backslash parts folders */
#  define DATA_CASE   0               /* A to Z are a to z */
#else
#  define DATA_ESCAPE '\\'
#  define DATA_CASE   1
#endif

/* ---- Lists of samples (lists.c) -------------------------------------------------------------- */

/* A line of a list. */
typedef struct data_list_row {
    uint64_t    index;                /* as the line states it; if it states none, its row, from 0 */
    const char *path;                 /* in the text */
    size_t      path_size;            /* bytes of the path */
    uint64_t    first_label;          /* number of its first label in the list */
    uint64_t    label_count;
} data_list_row;

/* A list of samples. Begins as all zeros. */
typedef struct data_list {
    data_span      text;              /* the whole file */
    data_list_row *rows;              /* in the order of lines, or sorted by index */
    uint64_t       count;             /* lines that name a sample */
    float         *reals;             /* all labels, line by line: the nearest float32 */
    int64_t       *wholes;            /* the same labels, exactly; BZNA_TARGET_NONE for one that is not whole */
    uint64_t       label_count;       /* of all lines */
    uint64_t       most_labels;       /* of a line */
    uint32_t       has_fractions;     /* a label is not a whole number */
    char           separator;         /* of fields: a tab, a comma, a blank; 0: no line was read yet */
} data_list;

/* Reads a list. is_sorted: by index, for bzna_formats_list_find; two lines with the same index are an error then.
 * Errors name the list. */
bzna_status bzna_formats_list_open(data_list *list, const char *path, int is_sorted, bzna_error *err);
void bzna_formats_list_free(data_list *list);

/* Returns the row with an index, or NULL. Pre: the list is sorted. */
const data_list_row *bzna_formats_list_find(const data_list *list, uint64_t index);

/* Returns a row's target: its only label, if that is a whole number, else BZNA_TARGET_NONE. */
static inline int64_t bzna_formats_list_target(const data_list *list, const data_list_row *row)
{
    return row->label_count == 1 ? list->wholes[row->first_label] : BZNA_TARGET_NONE;
}

/* Fails if a row has a whole number that a float32 does not hold, since ids would become those of others. */
bzna_status bzna_formats_list_check(const data_list *list, const data_list_row *row, bzna_error *err);

/* ---- Files that are read at any offset -------------------------------------------------------- */

/* A file, bytes in memory, or a source of the caller's. Begins as all zeros. Any thread may read it. */
typedef struct data_file {
    uint64_t       size;              /* bytes */
    const uint8_t *memory;            /* all of them; NULL: they are read */
    bzna_source    source;            /* the caller's, or that of a path until it is left; all zeros: only memory */
    int            is_file;           /* 1: of a path. The library reads it once the data set is open */
    void          *held;              /* memory, if it is ours; whoever takes it sets it to NULL */
} data_file;

/* Opens a file, to be left before the data set is used: a process has few descriptors. Leaving frees what is held. */
bzna_status bzna_formats_file_open(data_file *file, const char *path, bzna_error *err);
void bzna_formats_file_leave(const data_file *file);

/* Takes a source, which stays the caller's until the data set is open. */
bzna_status bzna_formats_file_take(data_file *file, const bzna_source *source, bzna_error *err);

/* Reads `size` bytes. Fails with E_TRUNCATED if the file ends before the last of them, and with E_IO. */
bzna_status bzna_formats_file_read(const data_file *file, uint64_t offset, void *dst, uint64_t size, bzna_error *err);

/* Reads the whole file into memory. Without success, it stays as it was. */
bzna_status bzna_formats_file_hold(data_file *file, bzna_error *err);

/* ---- Records one after the other in a file ----------------------------------------------------- */

/* Where records lie. The struct is the first member of what a provider has as its user. */
typedef struct data_records {
    data_file file;
    /* of RecordIO: where the records begin, ascending, then where the last one ends; to be freed */
    uint64_t *offsets;
    uint64_t  begin, stride;          /* otherwise: where the first one begins, and how far the next is from one */
} data_records;

/* Frees the struct, as a provider's close. */
void bzna_formats_records_close(void *user);

/* Opens a provider whose user begins with a data_records, as bzna_formats_data_open does. It gets the file, and what
 * the provider has by that. With success, the source of the file belongs to the data set. */
bzna_status bzna_formats_records_open(bzna_context *context, bzna_provider *provider, data_file *file,
                                      const char *name, const bzna_dataset_config *dataset, bzna_dataset **out,
                                      bzna_error *err);

/* Numbers of a file that is little-endian. */
static inline uint32_t bzna_formats_data_le32(const uint8_t *p)
{
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static inline uint64_t bzna_formats_data_le64(const uint8_t *p)
{
    return (uint64_t)bzna_formats_data_le32(p + 4) << 32 | bzna_formats_data_le32(p);
}

/* Writes numbers of a file as float32. They are copied at once, since loops of what has not been read wait for memory
 * longer; machines whose most significant byte comes first turn them then. */
static inline void bzna_formats_data_floats(const uint8_t *from, uint64_t count, void *to)
{
    const uint32_t one = 1;

    memcpy(to, from, count * sizeof(float));
    for (uint64_t i = 0; i < count * sizeof(float) && !memcmp(&one, "\0", 1); i += sizeof(float)) {
        const uint32_t bits = bzna_formats_data_le32(from + i);
        memcpy((uint8_t *)to + i, &bits, sizeof bits);
    }
}

/* Returns 1 if bytes begin as a part of a record of RecordIO does. */
static inline int bzna_formats_is_recordio(const void *head, uint64_t bytes)
{
    return bytes >= 4 && bzna_formats_data_le32(head) == 0xced7230a;
}

/* ---- The containers ------------------------------------------------------------------------- */

/* Adds the paths that a path or pattern stands for (paths.c). */
bzna_status bzna_formats_paths(data_names *paths, const char *path, bzna_error *err);

/* Opens a file as the records that config->records describes (records.c). On failure, the source in file is still the
 * caller's. */
bzna_status bzna_formats_open_records(bzna_context *context, data_file *file, const char *name,
                                      const bzna_formats_config *config, bzna_dataset **out, bzna_error *err);

/* Opens a RecordIO file, with the labels of config->list if there is one (recordio.c). The parameters are those of
 * bzna_formats_open_records. */
bzna_status bzna_formats_open_recordio(bzna_context *context, data_file *file, const char *name,
                                       const bzna_formats_config *config, bzna_dataset **out, bzna_error *err);

/* Opens the folders in a folder that config->pairs names (pairs.c). */
bzna_status bzna_formats_open_pairs(bzna_context *context, const char *root, const bzna_formats_config *config,
                                    bzna_dataset **out, bzna_error *err);

/* Opens the files in a folder that config->list names (lists.c). */
bzna_status bzna_formats_open_listed(bzna_context *context, const char *root, const bzna_formats_config *config,
                                     bzna_dataset **out, bzna_error *err);

/* ---- Switches ---------------------------------------------------------------------------------- */

/* Fails because the file that opens such a data set is left out. */
#define DATA_LACKS(what, context, name, config, out, err) \
    ((void)(context), (void)(config), (void)(out), \
     DATA_FAIL(err, BZNA_E_UNSUPPORTED, "%s: this build does not read " what, name))

#ifdef BENZINA_FORMATS_NO_RECORDS
#  define bzna_formats_open_records(context, file, ...) \
    DATA_LACKS("records of one size (BENZINA_FORMATS_NO_RECORDS)", context, __VA_ARGS__)
#endif
#ifdef BENZINA_FORMATS_NO_RECORDIO
#  define bzna_formats_open_recordio(context, file, ...) \
    DATA_LACKS("RecordIO (BENZINA_FORMATS_NO_RECORDIO)", context, __VA_ARGS__)
#endif
#ifdef BENZINA_FORMATS_NO_PAIRS
#  define bzna_formats_open_pairs(...) DATA_LACKS("pairs of folders (BENZINA_FORMATS_NO_PAIRS)", __VA_ARGS__)
#endif
#ifdef BENZINA_FORMATS_NO_LISTS
#  define bzna_formats_open_listed(...) DATA_LACKS("lists (BENZINA_FORMATS_NO_LISTS)", __VA_ARGS__)
#  define bzna_formats_list_open(list, path, is_sorted, err) \
    DATA_LACKS("lists (BENZINA_FORMATS_NO_LISTS)", list, path, list, list, err)
#  define bzna_formats_list_free(list)    ((void)(list))
#  define bzna_formats_list_find(...)     NULL
#  define bzna_formats_list_check(list, row, err) ((void)(err), BZNA_OK)
#endif
#ifdef BENZINA_FORMATS_NO_PATHS
#  define bzna_formats_paths bzna_formats_data_add
#endif

#endif
