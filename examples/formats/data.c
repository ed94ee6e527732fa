/* data.c - errors, files, folders and texts, for the files of this folder that open data sets */
#if !defined(_WIN32) && !defined(_GNU_SOURCE)
#  define _GNU_SOURCE                 /* POSIX.1-2008 */
#endif
#ifndef _FILE_OFFSET_BITS
#  define _FILE_OFFSET_BITS 64
#endif
#include "data.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>
#include <sys/stat.h>
#ifdef _WIN32
#  include <windows.h>
#else
#  include <sys/mman.h>
#  include <unistd.h>
#endif

/* ---- Errors --------------------------------------------------------------------------------- */

bzna_status bzna_formats_data_fail(bzna_error *err, bzna_status status, uint64_t offset, const char *format, ...)
{
    va_list arguments;

    bzna_error_init(err, sizeof *err);
    err->status = status;
    err->byte_offset = offset;
    va_start(arguments, format);
    vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    for (char *p = err->message; *p; p++)
        if ((unsigned char)*p < 32 || *p == 127)
            *p = '?';                                       /* a message is one line */
    return status;
}

bzna_status bzna_formats_data_no_memory(bzna_error *err) { return DATA_FAIL(err, BZNA_E_MEMORY, "out of memory"); }

bzna_status bzna_formats_data_fail_system(bzna_error *err, const char *what, int error)
{
    const bzna_status status = error == ENOENT || error == ENOTDIR ? BZNA_E_NOT_FOUND : BZNA_E_IO;

    DATA_FAIL(err, error == ENOMEM ? BZNA_E_MEMORY : status, "%s: %s", what, strerror(error));
    err->native_code = error;
    return err->status;
}

bzna_status bzna_formats_data_prefix(bzna_error *err, const char *text)
{
    char whole[DATA_PATH_BYTES + sizeof err->message];
    const int most = sizeof err->message - 1;
    const int size = snprintf(whole, sizeof whole, "%.*s: %s", DATA_PATH_BYTES - 2, text, err->message);
    const int skip = size > most ? size - most : 0;

    memcpy(err->message, whole + skip, (size_t)(size - skip) + 1);
    return err->status;
}

bzna_status bzna_formats_data_return(bzna_error *err, const bzna_error *e)
{
    if (err && e->status != BZNA_OK) {
        const uint32_t size = err->struct_size && err->struct_size < sizeof *e ? err->struct_size : sizeof *e;
        memcpy(err, e, size);
        err->struct_size = size;
        if (size > offsetof(bzna_error, message))
            ((char *)err)[size - 1] = 0;                    /* the message may be cut */
    }
    return e->status;
}

/* ---- Texts ---------------------------------------------------------------------------------- */

void *bzna_formats_data_grow(void *array, uint64_t count, size_t size, bzna_error *err)
{
    if ((count & (count - 1)) == 0)                         /* there is room for a power of two */
        array = count <= SIZE_MAX / 2 / size ? realloc(array, (count ? 2 * (size_t)count : 1) * size) : NULL;
    if (!array)
        bzna_formats_data_no_memory(err);
    return array;
}

bzna_status bzna_formats_data_add(data_names *names, const char *name, bzna_error *err)
{
    char **list = bzna_formats_data_grow(names->list, names->count, sizeof *list, err);

    if (!list)
        return err->status;
    names->list = list;
    if (names->count == UINT32_MAX || !(list[names->count] = strdup(name)))
        return bzna_formats_data_no_memory(err);
    names->count++;
    return BZNA_OK;
}

void bzna_formats_data_free(data_names *names)
{
    for (uint32_t i = 0; i < names->count; i++)
        free(names->list[i]);
    free(names->list);
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

void bzna_formats_data_sort(data_names *names, uint32_t first)
{
    if (names->count)
        qsort(names->list + first, names->count - first, sizeof *names->list, by_bytes);
}

int bzna_formats_data_take(data_span *rest, char stop, data_span *part)
{
    const char *end = rest->size ? memchr(rest->data, stop, rest->size) : NULL;

    *part = (data_span){ rest->data, end ? (size_t)(end - rest->data) : rest->size };
    rest->data += part->size + (end != NULL);
    rest->size -= part->size + (end != NULL);
    return end != NULL;
}

int bzna_formats_data_take_last(data_span *rest, char stop, data_span *part)
{
    size_t at = rest->size;

    while (at && rest->data[at - 1] != stop)
        at--;
    *part = (data_span){ rest->data + at, rest->size - at };
    rest->size = at - (at > 0);
    return at > 0;
}

data_span bzna_formats_data_line(data_span *rest)
{
    data_span line;

    bzna_formats_data_take(rest, '\n', &line);
    line.size -= line.size && line.data[line.size - 1] == '\r';
    return line;
}

data_span bzna_formats_data_trim(data_span text)
{
    while (text.size && data_is_blank(text.data[0]))
        text = (data_span){ text.data + 1, text.size - 1 };
    while (text.size && data_is_blank(text.data[text.size - 1]))
        text.size--;
    return text;
}

int bzna_formats_data_has_word(const char *list, data_span word)
{
    for (size_t same, size; *list; list += size + (list[size] == ' ')) {
        size = strcspn(list, " ");
        for (same = 0; same < size && same < word.size && list[same] == (word.data[same] | ('A' ^ 'a'));)
            same++;
        if (same && same == size && same == word.size)
            return 1;
    }
    return 0;
}

int bzna_formats_data_integer(data_span text, uint64_t *out)
{
    uint64_t value = 0;

    for (size_t i = 0; i < text.size; i++) {
        const uint32_t digit = (uint32_t)(unsigned char)text.data[i] - '0';
        if (digit > 9 || value > UINT64_MAX / 10 || (value = value * 10 + digit) < digit)
            return 0;
    }
    *out = value;
    return text.size > 0;
}

/* ---- Providers ------------------------------------------------------------------------------ */

void bzna_formats_data_init(void *given, size_t size)
{
    if (!given)
        return;
    memset(given, 0, size);
    *(uint32_t *)given = (uint32_t)size;
}

bzna_status bzna_formats_data_copy(void *own, size_t size, const void *given, const char *name, bzna_error *err)
{
    const uint32_t all = given ? *(const uint32_t *)given : (uint32_t)size;

    bzna_formats_data_init(own, size);
    if (all < sizeof all)
        return DATA_FAIL(err, BZNA_E_STRUCT_SIZE, "%s.struct_size: not set", name);
    for (size_t i = size; i < all; i++)
        if (((const char *)given)[i])
            return DATA_FAIL(err, BZNA_E_STRUCT_SIZE, "%s: fields unknown to this version are set", name);
    if (given)
        memcpy(own, given, all < size ? all : size);
    *(uint32_t *)own = (uint32_t)size;
    return BZNA_OK;
}

bzna_status bzna_formats_data_open(bzna_context *context, bzna_provider *provider, data_names *paths, const char *name,
                                   const bzna_dataset_config *dataset, bzna_dataset **out, bzna_error *err)
{
    bzna_dataset_config own = *dataset;

    own.name = own.name ? own.name : name;
    if (err->status == BZNA_OK && own.format && strcmp(own.format, provider->kind))
        DATA_FAIL(err, BZNA_E_FORMAT, "dataset_config.format: it is of the format \"%s\", not \"%s\"", provider->kind,
                  own.format);
    own.format = NULL;
    if (paths) {
        provider->files = (const char *const *)paths->list;
        provider->file_count = paths->count;
    }
    if (err->status != BZNA_OK)
        bzna_formats_data_prefix(err, own.name);
    else
        bzna_dataset_open_provider(context, provider, &own, out, err);
    if (err->status != BZNA_OK)
        provider->close(provider->user);
    if (paths)
        bzna_formats_data_free(paths);
    return err->status;
}

uint64_t bzna_formats_data_hash(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    return hash;
}

/* ---- Files and folders ---------------------------------------------------------------------- */

#ifdef _WIN32

/* Gives a path as Windows has it, without a slash at its end. One that is not UTF-8, or too long, becomes an empty one,
 * which names nothing. */
static const wchar_t *wide_of(const char *path, wchar_t *wide)
{
    const int size = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, DATA_PATH_BYTES);
    const int slash = size > 2 && wcschr(L"/\\", wide[size - 2]);

    wide[size ? size - 1 - slash : 0] = 0;
    return wide;
}

#  define WIDE(path) wide_of(path, (wchar_t[DATA_PATH_BYTES]){ 0 })

typedef struct _stat64  system_info;
typedef _WDIR           system_folder;
typedef struct _wdirent system_entry;

#  define system_stat(path, info)  _wstat64(WIDE(path), info)
#  define system_open(path)        _wfopen(WIDE(path), L"rbN")
#  define system_opendir(path)     _wopendir(WIDE(path))
#  define system_readdir           _wreaddir
#  define system_closedir          _wclosedir

/* Gives the name of an entry, in UTF-8. */
static const char *system_name(const system_entry *entry, char *name)
{
    if (!WideCharToMultiByte(CP_UTF8, 0, entry->d_name, -1, name, DATA_PATH_BYTES, NULL, NULL))
        strcpy(name, ".");
    return name;
}

#else

typedef struct stat   system_info;
typedef DIR           system_folder;
typedef struct dirent system_entry;

#  define system_stat              stat
#  define system_open(path)        fopen(path, "rbe")
#  define system_opendir           opendir
#  define system_readdir           readdir
#  define system_closedir          closedir
#  define system_name(entry, room) ((void)(room), (entry)->d_name)

#endif

data_look bzna_formats_data_look(const char *path)
{
    system_info info;

    if (system_stat(path, &info))
        return (data_look){ .kind = DATA_NONE };
    return (data_look){ S_ISREG(info.st_mode) ? DATA_FILE : S_ISDIR(info.st_mode) ? DATA_FOLDER : DATA_OTHER,
                        (int64_t)info.st_mtime, (uint64_t)info.st_size };
}

int bzna_formats_data_list(const char *folder, data_names *names, bzna_error *err)
{
    system_folder *entries = system_opendir(folder);
    const system_entry *entry;
    char room[DATA_PATH_BYTES];
    int error = 0;

    if (!entries)
        return errno;
    while (!error && (errno = 0, entry = system_readdir(entries)) != NULL) {
        const char *const name = system_name(entry, room);
        if (strcmp(name, ".") && strcmp(name, "..") && bzna_formats_data_add(names, name, err) != BZNA_OK)
            error = ENOMEM;
    }
    error = error ? error : errno;
    system_closedir(entries);
    return error;
}

/* Returns 1 if a path does not depend on the working folder, else 0. */
static int is_absolute(const char *path)
{
    return path[0] == '/' || (!DATA_ESCAPE && (path[0] == '\\' ||
                                              ((path[0] | 32) >= 'a' && (path[0] | 32) <= 'z' && path[1] == ':')));
}

bzna_status bzna_formats_data_join(char *path, const char *folder, const char *name, bzna_error *err)
{
    const size_t size = is_absolute(name) ? 0 : strlen(folder);
    const int slash = size && *name && folder[size - 1] != '/';

    if (snprintf(path, DATA_PATH_BYTES, "%.*s%s%s", (int)size, folder, slash ? "/" : "", name) < DATA_PATH_BYTES)
        return BZNA_OK;
    return DATA_FAIL(err, BZNA_E_LIMIT, "%.64s...: a path has at most %d bytes", *name ? name : folder,
                     DATA_PATH_BYTES - 1);
}

bzna_status bzna_formats_data_add_path(data_names *paths, const char *folder, const char *name, bzna_error *err)
{
    char path[DATA_PATH_BYTES];

    return bzna_formats_data_join(path, folder, name, err) != BZNA_OK ? err->status :
           bzna_formats_data_add(paths, path, err);
}

/* ---- Files that are read at any offset -------------------------------------------------------- */

/* Reads from a stream, as a source's read_at. */
static int64_t stream_read(void *user, uint64_t offset, void *dst, uint64_t size)
{
#ifdef _WIN32
    size_t got;

    if (fseeko(user, (off_t)offset, SEEK_SET))
        return -errno;
    got = fread(dst, 1, (size_t)size, user);
    return got || !ferror(user) ? (int64_t)got : -EIO;
#else
    const ssize_t got = pread(fileno(user), dst, (size_t)size, (off_t)offset);

    return got < 0 ? -errno : (int64_t)got;
#endif
}

bzna_status bzna_formats_file_open(data_file *file, const char *path, bzna_error *err)
{
    const data_look look = bzna_formats_data_look(path);
    FILE *stream;

    if (look.kind == DATA_FOLDER || look.kind == DATA_OTHER)
        return DATA_FAIL(err, BZNA_E_UNSUPPORTED, "it is a folder, a pipe, a socket or a device");
    if (!(stream = system_open(path)))
        return bzna_formats_data_fail_system(err, "cannot open", errno);
    setvbuf(stream, NULL, _IONBF, 0);                       /* each read is from another place */
    *file = (data_file){ .is_file = 1, .size = look.size, .source = { .user = stream, .read_at = stream_read } };
    return BZNA_OK;
}

void bzna_formats_file_leave(const data_file *file)
{
    fclose(file->source.user);
    free(file->held);
}

/* Fails because a function of the source returned a number that is no size. */
static bzna_status fail_source(bzna_error *err, const char *function, int64_t got)
{
    DATA_FAIL(err, got < 0 ? BZNA_E_IO : BZNA_E_CALLBACK, "the source's %s returned %lld", function, (long long)got);
    err->native_code = got == (int32_t)got ? (int32_t)got : -1;
    return err->status;
}

bzna_status bzna_formats_file_take(data_file *file, const bzna_source *source, bzna_error *err)
{
    int64_t size;

    *file = (data_file){ .size = 0 };
    if (bzna_formats_data_copy(&file->source, sizeof file->source, source, "source", err) != BZNA_OK)
        return err->status;
    if (!file->source.size || (!file->source.read_at && !file->source.memory))
        return DATA_MISUSE(err, "source.%s: required", file->source.size ? "read_at" : "size");
    if ((size = file->source.size(file->source.user)) < 0)
        return fail_source(err, "size", size);
    file->memory = file->source.memory;
    file->size = (uint64_t)size;
    return BZNA_OK;
}

bzna_status bzna_formats_file_read(const data_file *file, uint64_t offset, void *dst, uint64_t size, bzna_error *err)
{
    formats_file memory = { file->memory, file->size, offset };

    for (uint64_t done = 0; done < size;) {
        uint8_t *const to = (uint8_t *)dst + done;
        const int64_t got = file->memory ? (int64_t)formats_read(&memory, to, size - done) :
                            file->source.read_at(file->source.user, offset + done, to, size - done);

        if (got < 0 && file->is_file)
            return bzna_formats_data_fail_system(err, "cannot read", (int)-got);
        if (got < 0 || (uint64_t)got > size - done)
            return fail_source(err, "read_at", got);
        if (!got)
            return DATA_FAIL_AT(err, BZNA_E_TRUNCATED, offset + done, "the data end at byte %llu, before the last of "
                                "%llu bytes at byte %llu", (data_llu)offset + done, (data_llu)size, (data_llu)offset);
        done += (uint64_t)got;
    }
    return BZNA_OK;
}

#define HUGE_PAGE ((size_t)2 << 20)   /* bytes */

/* Allocates memory in which samples will be found in any order: in pages of 2 MiB, where the system has such, since a
 * small sample takes less time than finding its small page. */
static void *alloc_pages(size_t size)
{
#ifdef MADV_HUGEPAGE
    void *pages = NULL;

    if (size >= HUGE_PAGE && !posix_memalign(&pages, HUGE_PAGE, size)) {
        madvise(pages, size, MADV_HUGEPAGE);                /* if that fails, they are small */
        return pages;
    }
#endif
    return malloc(size);
}

bzna_status bzna_formats_file_hold(data_file *file, bzna_error *err)
{
    void *const held = file->size < SIZE_MAX ? alloc_pages((size_t)file->size + 1) : NULL;

    if (!held)
        return bzna_formats_data_no_memory(err);
    if (bzna_formats_file_read(file, 0, held, file->size, err) == BZNA_OK)
        file->memory = file->held = held;
    else
        free(held);
    return err->status;
}

bzna_status bzna_formats_data_read(const char *path, data_span *text, bzna_error *err)
{
    data_file file = { .size = 0 };

    if (bzna_formats_file_open(&file, path, err) == BZNA_OK) {
        if (bzna_formats_file_hold(&file, err) == BZNA_OK)
            *text = (data_span){ file.held, (size_t)file.size };
        file.held = NULL;                                   /* it is the caller's */
        bzna_formats_file_leave(&file);
    }
    return err->status != BZNA_OK ? bzna_formats_data_prefix(err, path) : BZNA_OK;
}

/* ---- Records one after the other in a file ----------------------------------------------------- */

/* Says where a record lies, as a provider's locate. */
static bzna_status records_locate(void *user, uint64_t index, uint32_t field, bzna_place *place, bzna_error *err)
{
    const data_records *const r = user;
    (void)field, (void)err;

    place->file = r->file.is_file ? 0 : BZNA_BY_READ;
    if (r->offsets) {
        place->offset = r->offsets[index];
        place->size = r->offsets[index + 1] - place->offset;
    } else {
        place->offset = r->begin + index * r->stride;
        place->size = r->stride;
        place->data = r->file.memory ? r->file.memory + place->offset : NULL;
    }
    return BZNA_OK;
}

/* Reads a record, as a provider's read. */
static bzna_status records_read(void *user, uint64_t index, uint32_t field, void *buffer, uint64_t capacity,
                                uint64_t *size, bzna_error *err)
{
    const data_records *const r = user;
    bzna_place place = { .size = 0 };

    records_locate(user, index, field, &place, err);
    *size = place.size;
    return *size > capacity ? BZNA_OK : bzna_formats_file_read(&r->file, place.offset, buffer, *size, err);
}

void bzna_formats_records_close(void *user)
{
    data_records *r = user;

    if (r->file.source.close)
        r->file.source.close(r->file.source.user);
    free(r->file.held);
    free(r->offsets);
    free(r);
}

bzna_status bzna_formats_records_open(bzna_context *context, bzna_provider *provider, data_file *file,
                                      const char *name, const bzna_dataset_config *dataset, bzna_dataset **out,
                                      bzna_error *err)
{
    data_records *const r = provider->user;

    r->file = *file;
    r->file.source.close = NULL;
    file->held = NULL;
    provider->locate = records_locate;
    provider->read = records_read;
    provider->file_count = file->is_file && !file->memory;
    provider->files = provider->file_count ? &name : NULL;
    provider->size_bytes = file->size;
    if (bzna_formats_data_open(context, provider, NULL, name, dataset, out, err) == BZNA_OK)
        r->file.source.close = file->source.close;
    return err->status;
}
