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

#ifdef _WIN32
#  include <windows.h>
#else
#  include <dirent.h>
#  include <fcntl.h>
#  include <sys/mman.h>
#  include <sys/stat.h>
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
    const size_t size = strlen(text), rest = strlen(err->message), room = sizeof err->message - 3;
    const size_t keeps = rest + size <= room ? size : rest < room ? room - rest : 0;

    if (keeps) {
        memmove(err->message + keeps + 2, err->message, rest + 1);
        memcpy(err->message, text + (size - keeps), keeps);
        memcpy(err->message + keeps, ": ", 2);
    }
    return err->status;
}

bzna_status bzna_formats_data_return(bzna_error *err, const bzna_error *e)
{
    if (err) {
        const uint32_t size = err->struct_size && err->struct_size < sizeof *e ? err->struct_size : sizeof *e;
        memcpy(err, e, size);
        err->struct_size = size;
        if (size < sizeof *e && size > offsetof(bzna_error, message))
            ((char *)err)[size - 1] = 0;                    /* the message is cut */
    }
    return e->status;
}

/* ---- Texts ---------------------------------------------------------------------------------- */

bzna_status bzna_formats_data_add(data_names *names, const char *name, bzna_error *err)
{
    const size_t size = strlen(name) + 1;

    if ((names->count & (names->count - 1)) == 0) {         /* there is room for a power of two */
        size_t *at = realloc(names->at, (names->count ? 2 * (size_t)names->count : 1) * sizeof *at);
        if (!at)
            return bzna_formats_data_no_memory(err);
        names->at = at;
    }
    if (names->capacity - names->size < size) {
        const size_t capacity = 2 * names->capacity + size;
        char *text = realloc(names->text, capacity);
        if (!text)
            return bzna_formats_data_no_memory(err);
        names->text = text;
        names->capacity = capacity;
    }
    names->at[names->count++] = names->size;
    memcpy(names->text + names->size, name, size);
    names->size += size;
    return BZNA_OK;
}

const char *bzna_formats_data_get(const data_names *names, uint32_t i) { return names->text + names->at[i]; }

void bzna_formats_data_free(data_names *names)
{
    free(names->text);
    free(names->at);
}

const char **bzna_formats_data_all(const data_names *names, bzna_error *err)
{
    const char **all = malloc(((size_t)names->count + 1) * sizeof *all);

    if (!all)
        bzna_formats_data_no_memory(err);
    for (uint32_t i = 0; all && i < names->count; i++)
        all[i] = bzna_formats_data_get(names, i);
    return all;
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

bzna_status bzna_formats_data_sort(data_names *names, uint32_t first, bzna_error *err)
{
    const char **all = bzna_formats_data_all(names, err);

    if (!all)
        return err->status;
    qsort(all + first, names->count - first, sizeof *all, by_bytes);
    for (uint32_t i = first; i < names->count; i++)
        names->at[i] = (size_t)(all[i] - names->text);
    free(all);
    return BZNA_OK;
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
    const uint32_t all = given ? *(const uint32_t *)given : 0;

    bzna_formats_data_init(own, size);
    if (given && all < sizeof all)
        return DATA_FAIL(err, BZNA_E_STRUCT_SIZE, "%s.struct_size: not set", name);
    for (size_t i = size; i < all; i++)
        if (((const char *)given)[i])
            return DATA_FAIL(err, BZNA_E_STRUCT_SIZE, "%s: fields unknown to this version are set", name);
    if (given)
        memcpy(own, given, all < size ? all : size);
    *(uint32_t *)own = (uint32_t)size;
    return BZNA_OK;
}

bzna_status bzna_formats_data_config(bzna_dataset_config *own, const bzna_formats_config *config, const char *name,
                                     const char *kind, bzna_error *err)
{
    if (bzna_formats_data_copy(own, sizeof *own, config->dataset, "dataset_config", err) != BZNA_OK)
        return err->status;
    if (own->format && strcmp(own->format, kind))
        return DATA_FAIL(err, BZNA_E_FORMAT, "dataset_config.format: it is of the format \"%s\", not \"%s\"", kind,
                         own->format);
    own->format = NULL;
    own->name = own->name ? own->name : name;
    return BZNA_OK;
}

uint64_t bzna_formats_data_hash(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    return hash;
}

uint64_t bzna_formats_data_hash_numbers(uint64_t hash, const uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < 8 * count; i++)
        hash = (hash ^ (numbers[i / 8] >> i % 8 * 8 & 255)) * 0x100000001b3u;
    return hash;
}

/* ---- Files and folders ---------------------------------------------------------------------- */

#define HUGE_PAGE ((size_t)2 << 20)   /* bytes */

#ifdef _WIN32

/* A path as Windows has it, to be freed; NULL: it is not UTF-8, or there is no memory. */
static wchar_t *wide_of(const char *path)
{
    const int count = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    wchar_t *wide = count > 0 ? malloc((size_t)count * sizeof *wide) : NULL;

    if (wide)
        MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, count);
    return wide;
}

int bzna_formats_data_kind(const char *path)
{
    wchar_t *wide = wide_of(path);
    const DWORD attributes = wide ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;

    free(wide);
    return attributes == INVALID_FILE_ATTRIBUTES    ? DATA_NONE :
           attributes & FILE_ATTRIBUTE_DIRECTORY    ? DATA_FOLDER :
           attributes & FILE_ATTRIBUTE_DEVICE       ? DATA_OTHER :
                                                      DATA_FILE;
}

int64_t bzna_formats_data_modified(const char *path)
{
    wchar_t *wide = wide_of(path);
    WIN32_FILE_ATTRIBUTE_DATA info;
    const int is_known = wide && GetFileAttributesExW(wide, GetFileExInfoStandard, &info);

    free(wide);
    return is_known ? ((int64_t)info.ftLastWriteTime.dwHighDateTime << 32 | info.ftLastWriteTime.dwLowDateTime) * 100 :
                      0;
}

int bzna_formats_data_list(const char *folder, data_names *names, bzna_error *err)
{
    char pattern[DATA_PATH_BYTES + 2], name[4 * MAX_PATH];
    WIN32_FIND_DATAW entry;
    wchar_t *wide;
    HANDLE find;
    int error = 0;

    if (snprintf(pattern, sizeof pattern, "%s/*", folder) >= (int)sizeof pattern || !(wide = wide_of(pattern)))
        return ENOENT;
    find = FindFirstFileW(wide, &entry);
    free(wide);
    if (find == INVALID_HANDLE_VALUE)
        return ENOENT;
    do {
        if (WideCharToMultiByte(CP_UTF8, 0, entry.cFileName, -1, name, sizeof name, NULL, NULL) > 0 &&
            strcmp(name, ".") && strcmp(name, "..") && bzna_formats_data_add(names, name, err) != BZNA_OK)
            error = ENOMEM;
    } while (!error && FindNextFileW(find, &entry));
    FindClose(find);
    return error;
}

/* Opens a file, and finds its size. Returns -1 and sets errno if that fails. */
static intptr_t system_open(const char *path, uint64_t *size)
{
    wchar_t *wide = wide_of(path);
    HANDLE file = wide ? CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                     OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL) : INVALID_HANDLE_VALUE;
    LARGE_INTEGER bytes;
    const int is_gone = file == INVALID_HANDLE_VALUE && GetLastError() == ERROR_FILE_NOT_FOUND;

    free(wide);
    errno = is_gone ? ENOENT : EIO;
    if (file == INVALID_HANDLE_VALUE)
        return -1;
    if (GetFileSizeEx(file, &bytes)) {
        *size = (uint64_t)bytes.QuadPart;
        return (intptr_t)file;
    }
    CloseHandle(file);
    return -1;
}

static void system_close(intptr_t handle) { CloseHandle((HANDLE)handle); }

/* Reads some bytes. Returns how many, 0 at the end, or -1, and sets errno. */
static int64_t system_read(intptr_t handle, uint64_t offset, void *dst, uint64_t size)
{
    OVERLAPPED at = { .Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32) };
    DWORD got = 0;

    if (ReadFile((HANDLE)handle, dst, (DWORD)(size < 1u << 30 ? size : 1u << 30), &got, &at))
        return got;
    errno = EIO;
    return GetLastError() == ERROR_HANDLE_EOF ? 0 : -1;
}

static void *alloc_pages(size_t size) { return malloc(size); }

#else

/* Allocates memory in which samples will be found in any order: in pages of 2 MiB, where the system has such, since a
 * small sample takes less time than finding its small page. */
static void *alloc_pages(size_t size)
{
    void *pages = NULL;

#  ifdef MADV_HUGEPAGE
    if (size >= HUGE_PAGE && !posix_memalign(&pages, HUGE_PAGE, size)) {
        madvise(pages, size, MADV_HUGEPAGE);                /* if that fails, they are small */
        return pages;
    }
#  endif
    return malloc(size);
}

int bzna_formats_data_kind(const char *path)
{
    struct stat info;

    if (stat(path, &info))
        return DATA_NONE;
    return S_ISREG(info.st_mode) ? DATA_FILE : S_ISDIR(info.st_mode) ? DATA_FOLDER : DATA_OTHER;
}

int64_t bzna_formats_data_modified(const char *path)
{
    struct stat info;

    if (stat(path, &info))
        return 0;
#  ifdef __APPLE__
    return (int64_t)info.st_mtimespec.tv_sec * 1000000000 + info.st_mtimespec.tv_nsec;
#  else
    return (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
#  endif
}

int bzna_formats_data_list(const char *folder, data_names *names, bzna_error *err)
{
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    int error = 0;

    if (!entries)
        return errno;
    while (!error && (errno = 0, entry = readdir(entries)) != NULL)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") &&
            bzna_formats_data_add(names, entry->d_name, err) != BZNA_OK)
            error = ENOMEM;
    error = error ? error : errno;
    closedir(entries);
    return error;
}

static intptr_t system_open(const char *path, uint64_t *size)
{
    struct stat info;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int error;

    if (file < 0)
        return -1;
    if (!fstat(file, &info)) {
        *size = (uint64_t)info.st_size;
        return file;
    }
    error = errno;
    close(file);
    errno = error;
    return -1;
}

static void system_close(intptr_t handle) { close((int)handle); }

static int64_t system_read(intptr_t handle, uint64_t offset, void *dst, uint64_t size)
{
    ssize_t got;

    do
        got = pread((int)handle, dst, size < 1u << 30 ? (size_t)size : 1u << 30, (off_t)offset);
    while (got < 0 && errno == EINTR);
    return got;
}

#endif

int bzna_formats_data_is_absolute(const char *path)
{
    return path[0] == '/' || (!DATA_ESCAPE && (path[0] == '\\' ||
                                              ((path[0] | 32) >= 'a' && (path[0] | 32) <= 'z' && path[1] == ':')));
}

bzna_status bzna_formats_data_join(char *path, const char *folder, const char *name, bzna_error *err)
{
    const size_t size = strlen(folder);
    const int slash = *folder && *name && folder[size - 1] != '/';

    if (snprintf(path, DATA_PATH_BYTES, "%s%s%s", folder, slash ? "/" : "", name) < DATA_PATH_BYTES)
        return BZNA_OK;
    return DATA_FAIL(err, BZNA_E_LIMIT, "%.64s...: a path has at most %d bytes", *name ? name : folder,
                     DATA_PATH_BYTES - 1);
}

/* ---- Files that are read at any offset -------------------------------------------------------- */

bzna_status bzna_formats_file_open(data_file *file, const char *path, bzna_error *err)
{
    const int kind = bzna_formats_data_kind(path);

    *file = (data_file){ .is_file = 1 };
    if (kind == DATA_FOLDER || kind == DATA_OTHER)
        return DATA_FAIL(err, BZNA_E_UNSUPPORTED, "%s", kind == DATA_FOLDER ? "it is a folder" :
                         "it is a pipe, a socket or a device: write its contents to a file first");
    file->handle = system_open(path, &file->size);
    return file->handle == -1 ? bzna_formats_data_fail_system(err, "cannot open", errno) : BZNA_OK;
}

void bzna_formats_file_leave(const data_file *file) { system_close(file->handle); }

bzna_status bzna_formats_file_take(data_file *file, const bzna_source *source, bzna_error *err)
{
    int64_t size;

    *file = (data_file){ .size = 0 };
    if (source->struct_size < offsetof(bzna_source, memory))
        return DATA_FAIL(err, BZNA_E_STRUCT_SIZE, "source.struct_size: not set");
    memcpy(&file->source, source, source->struct_size < sizeof *source ? source->struct_size : sizeof *source);
    if (!source->size || (!source->read_at && !file->source.memory))
        return DATA_FAIL(err, BZNA_E_ARGUMENT, "source.%s: required", source->size ? "read_at" : "size");

    size = source->size(source->user);
    file->memory = file->source.memory;
    file->size = size < 0 ? 0 : (uint64_t)size;
    if (size >= 0)
        return BZNA_OK;
    DATA_FAIL(err, BZNA_E_IO, "the source's size callback failed with %lld", (long long)size);
    err->native_code = size < INT32_MIN ? -1 : (int32_t)size;
    return err->status;
}

/* Fails because some bytes could not be read. got: a negative number, or how many of the `size` were read. */
static bzna_status fail_read(const data_file *file, uint64_t offset, uint64_t size, int64_t got, bzna_error *err)
{
    const uint64_t end = offset + (uint64_t)got;

    if (got >= 0)
        return DATA_FAIL_AT(err, BZNA_E_TRUNCATED, end, "the file ends at byte %llu, before the last of %llu bytes at "
                            "byte %llu", (data_llu)end, (data_llu)size, (data_llu)offset);
    if (file->is_file) {
        bzna_formats_data_fail_system(err, "cannot read", errno);
    } else {
        DATA_FAIL(err, BZNA_E_IO, "the source's read_at failed with %lld", (long long)got);
        err->native_code = got < INT32_MIN ? -1 : (int32_t)got;
    }
    err->byte_offset = offset;
    return err->status = BZNA_E_IO;
}

bzna_status bzna_formats_file_read(const data_file *file, uint64_t offset, void *dst, uint64_t size, bzna_error *err)
{
    const bzna_source *source = &file->source;
    uint64_t done = 0;
    int64_t got = 0;

    if (file->memory) {
        const uint64_t left = offset < file->size ? file->size - offset : 0;
        if (size > left)
            return fail_read(file, offset, size, (int64_t)left, err);
        if (size)
            memcpy(dst, file->memory + offset, (size_t)size);
        return BZNA_OK;
    }
    for (; done < size; done += (uint64_t)got) {
        uint8_t *to = (uint8_t *)dst + done;
        got = file->is_file ? system_read(file->handle, offset + done, to, size - done) :
                              source->read_at(source->user, offset + done, to, size - done);
        if (got <= 0 || (uint64_t)got > size - done)
            break;
    }
    if (done < size && got <= 0)
        fail_read(file, offset, size, got < 0 ? got : (int64_t)done, err);
    else if (done < size)
        DATA_FAIL(err, BZNA_E_CALLBACK, "the source's read_at returned %lld of %llu bytes", (long long)got,
                  (data_llu)(size - done));
    return done < size ? err->status : BZNA_OK;
}

bzna_status bzna_formats_data_read(const char *path, data_span *text, bzna_error *err)
{
    data_file file;
    char *bytes;

    if (bzna_formats_file_open(&file, path, err) == BZNA_OK) {
        if (file.size >= SIZE_MAX || !(bytes = malloc((size_t)file.size + 1)))
            bzna_formats_data_no_memory(err);
        else if (bzna_formats_file_read(&file, 0, bytes, file.size, err) != BZNA_OK)
            free(bytes);
        else
            *text = (data_span){ bytes, (size_t)file.size };
        bzna_formats_file_leave(&file);
    }
    return err->status != BZNA_OK ? bzna_formats_data_prefix(err, path) : BZNA_OK;
}

void bzna_formats_file_hold(data_file *file)
{
    bzna_error ignored;

    if (!file->size || file->size > SIZE_MAX || !(file->held = alloc_pages((size_t)file->size)))
        return;
    if (bzna_formats_file_read(file, 0, file->held, file->size, &ignored) == BZNA_OK) {
        file->memory = file->held;
        return;
    }
    free(file->held);
    file->held = NULL;
}

void bzna_formats_file_close(data_file *file)
{
    free(file->held);
    if (file->source.close)
        file->source.close(file->source.user);
}
