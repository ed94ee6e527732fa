/* os_windows.c - the system: Windows, by MinGW-w64. Files are opened by absolute UTF-16 paths with the prefix \\?\, so
 * that they may be longer than 260 characters. Others may rename or remove them meanwhile, as elsewhere. */
#include "os.h"

#ifdef _WIN32

#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <process.h>
#include <psapi.h>
#include <shellapi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* ---- errors and paths ---- */

/* Returns -1 with errno. */
static int failed(void)
{
    static const struct { DWORD code; int error; } known[] = {
        { ERROR_FILE_NOT_FOUND, ENOENT },    { ERROR_PATH_NOT_FOUND, ENOENT },    { ERROR_INVALID_NAME, ENOENT },
        { ERROR_ACCESS_DENIED, EACCES },     { ERROR_SHARING_VIOLATION, EACCES }, { ERROR_LOCK_VIOLATION, EAGAIN },
        { ERROR_IO_PENDING, EAGAIN },        { ERROR_ALREADY_EXISTS, EEXIST },    { ERROR_FILE_EXISTS, EEXIST },
        { ERROR_DIR_NOT_EMPTY, ENOTEMPTY },  { ERROR_DIRECTORY, ENOTDIR },        { ERROR_NOT_ENOUGH_MEMORY, ENOMEM },
        { ERROR_DISK_FULL, ENOSPC },         { ERROR_HANDLE_DISK_FULL, ENOSPC },  { ERROR_WRITE_PROTECT, EROFS },
        { ERROR_INVALID_HANDLE, EBADF },
        { ERROR_TOO_MANY_OPEN_FILES, EMFILE }, { ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG },
    };
    DWORD code = GetLastError();
    errno = EIO;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) if (known[i].code == code) errno = known[i].error;
    return -1;
}

static wchar_t *wide_text(const char *text)
{
    int count = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    wchar_t *wide = count > 0 ? malloc((size_t)count * sizeof *wide) : NULL;
    if (wide) MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, count);
    else      errno = count > 0 ? ENOMEM : EILSEQ;
    return wide;
}

static char *utf8_text(const wchar_t *wide)
{
    int count = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
    char *text = count > 0 ? malloc((size_t)count) : NULL;
    if (text) WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, count, NULL, NULL);
    return text;
}

/* The absolute path, behind room for 8 characters, to be freed; NULL with errno. */
static wchar_t *full_path(const wchar_t *wide)
{
    wchar_t *full = NULL, *larger;
    DWORD room = 0, size;
    do {                              /* again, where the working folder has become a longer one meanwhile */
        size = GetFullPathNameW(wide, room, full ? full + 8 : NULL, NULL);
        if (size && size < room) return full;
        if (!size) failed();
        room = size + 1;
        larger = size ? realloc(full, ((size_t)room + 8) * sizeof *full) : NULL;
        if (larger)    full = larger;
        else if (size) errno = ENOMEM;
    } while (larger);
    free(full);
    return NULL;
}

/* The path in the form that has no limit of 260 characters, to be freed; NULL with errno. */
static wchar_t *wide_path(const char *path)
{
    wchar_t *wide = wide_text(path), *full = NULL;
    if (wide && !*wide) errno = ENOENT;
    else if (wide)      full = full_path(wide);
    if (full) {
        const wchar_t *prefix = L"\\\\?\\";
        wchar_t *at = full + 8;
        if (!wcsncmp(at, L"\\\\.\\", 4) || !wcsncmp(at, prefix, 4)) prefix = L"";
        else if (at[0] == L'\\' && at[1] == L'\\')                 prefix = L"\\\\?\\UNC\\", at += 2;
        size_t length = wcslen(prefix);
        memmove(full + length, at, (wcslen(at) + 1) * sizeof *full);
        memcpy(full, prefix, length * sizeof *full);
    }
    free(wide);
    return full;
}


/* ---- files ---- */

static HANDLE handle_open(const char *path, DWORD access, DWORD how)
{
    wchar_t *wide = wide_path(path);
    HANDLE handle = wide ? CreateFileW(wide, access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, how,
                                       FILE_ATTRIBUTE_NORMAL | FILE_FLAG_BACKUP_SEMANTICS, NULL) : INVALID_HANDLE_VALUE;
    if (wide && handle == INVALID_HANDLE_VALUE) failed();
    free(wide);
    return handle;
}

static int status_of(HANDLE handle, struct os_stat *status)
{
    BY_HANDLE_FILE_INFORMATION info;
    *status = (struct os_stat){ .st_mode = S_IFCHR };
    DWORD type = GetFileType(handle);
    if (type == FILE_TYPE_PIPE) return status->st_mode = S_IFIFO, 0;
    if (type != FILE_TYPE_DISK) return 0;
    if (!GetFileInformationByHandle(handle, &info)) return failed();
    uint64_t time = (uint64_t)info.ftLastWriteTime.dwHighDateTime << 32 | info.ftLastWriteTime.dwLowDateTime;
    time -= UINT64_C(116444736000000000);         /* from 1601 to 1970, in units of 100 ns */
    *status = (struct os_stat){
        .st_mode = info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY ? S_IFDIR : S_IFREG,
        .st_size = (int64_t)((uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow),
        .st_dev = info.dwVolumeSerialNumber,
        .st_ino = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow,
        .st_mtim = { .tv_sec = (time_t)(time / 10000000), .tv_nsec = (long)(time % 10000000) * 100 },
    };
    return 0;
}

int os_stat(const char *path, struct os_stat *status)
{
    HANDLE handle = handle_open(path, 0, OPEN_EXISTING);
    if (handle == INVALID_HANDLE_VALUE) return -1;
    int result = status_of(handle, status);
    CloseHandle(handle);
    return result;
}

int os_fstat(int file, struct os_stat *status) { return status_of((HANDLE)_get_osfhandle(file), status); }

int os_open(const char *path, int flags, ...)
{
    DWORD access = flags & _O_RDWR ? GENERIC_READ | GENERIC_WRITE : flags & _O_WRONLY ? GENERIC_WRITE : GENERIC_READ;
    DWORD how = !(flags & _O_CREAT) ? flags & _O_TRUNC ? TRUNCATE_EXISTING : OPEN_EXISTING
              : flags & _O_EXCL     ? CREATE_NEW
              : flags & _O_TRUNC    ? CREATE_ALWAYS : OPEN_ALWAYS;
    HANDLE handle = handle_open(path, access, how);
    struct os_stat status;
    if (handle == INVALID_HANDLE_VALUE) return -1;
    if (!status_of(handle, &status) && S_ISDIR(status.st_mode) && flags & (_O_RDWR | _O_WRONLY)) {
        CloseHandle(handle);
        errno = EISDIR;
        return -1;
    }
    int file = _open_osfhandle((intptr_t)handle, (flags & (_O_APPEND | _O_RDWR | _O_WRONLY)) | _O_BINARY);
    if (file < 0) CloseHandle(handle);
    return file;
}

FILE *os_fopen(const char *path, const char *mode)
{
    int flags = mode[0] == 'r' ? _O_RDONLY : (mode[0] == 'w' ? _O_TRUNC : _O_APPEND) | _O_WRONLY | _O_CREAT;
    char binary[8] = { mode[0], 'b', strchr(mode, '+') ? '+' : 0 };
    if (binary[2]) flags = (flags & ~_O_WRONLY) | _O_RDWR;
    int file = os_open(path, flags, 0666);
    FILE *opened = file < 0 ? NULL : _fdopen(file, binary);
    if (file >= 0 && !opened) _close(file);
    return opened;
}

/* Does something with a path: 0, or -1 with errno. */
static int with_path(const char *path, int (*act)(const wchar_t *wide))
{
    wchar_t *wide = wide_path(path);
    int result = !wide ? -1 : act(wide) ? 0 : failed();
    free(wide);
    return result;
}

static int create_folder(const wchar_t *wide) { return CreateDirectoryW(wide, NULL); }
static int delete_file(const wchar_t *wide) { return DeleteFileW(wide); }

int os_mkdir(const char *path, int mode)
{
    (void)mode;
    return with_path(path, create_folder);
}

int os_unlink(const char *path) { return with_path(path, delete_file); }

int os_rename(const char *from, const char *to)
{
    wchar_t *source = wide_path(from), *target = wide_path(to);
    int result = -1;
    if (source && target)
        result = MoveFileExW(source, target, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) ? 0 : failed();
    free(source);
    free(target);
    return result;
}

int os_access(const char *path, int mode)
{
    struct os_stat status;
    if (os_stat(path, &status)) return -1;
    if (!(mode & W_OK) || S_ISDIR(status.st_mode)) return 0;
    HANDLE handle = handle_open(path, GENERIC_WRITE, OPEN_EXISTING);
    if (handle == INVALID_HANDLE_VALUE) return -1;
    CloseHandle(handle);
    return 0;
}

ssize_t os_read(int file, void *dst, size_t size)
{
    return _read(file, dst, (unsigned)(size < 1u << 30 ? size : 1u << 30));
}

ssize_t os_write(int file, const void *src, size_t size)
{
    return _write(file, src, (unsigned)(size < 1u << 30 ? size : 1u << 30));
}

ssize_t os_pread(int file, void *dst, size_t size, off_t offset)
{
    OVERLAPPED at = { .Offset = (DWORD)offset, .OffsetHigh = (DWORD)((uint64_t)offset >> 32) };
    DWORD got = 0;
    if (ReadFile((HANDLE)_get_osfhandle(file), dst, (DWORD)(size < 1u << 30 ? size : 1u << 30), &got, &at)) return got;
    return GetLastError() == ERROR_HANDLE_EOF ? 0 : failed();
}

ssize_t os_pwrite(int file, const void *src, size_t size, off_t offset)
{
    OVERLAPPED at = { .Offset = (DWORD)offset, .OffsetHigh = (DWORD)((uint64_t)offset >> 32) };
    DWORD put = 0;
    if (WriteFile((HANDLE)_get_osfhandle(file), src, (DWORD)(size < 1u << 30 ? size : 1u << 30), &put, &at)) return put;
    return failed();
}

ssize_t os_getdelim(char **line, size_t *capacity, int end, FILE *file)
{
    size_t size = 0;
    int c = 0;
    while (c != end && (c = getc(file)) != EOF) {
        if (size + 2 > *capacity) {
            size_t larger = *capacity ? 2 * *capacity : 128;
            char *grown = realloc(*line, larger);
            if (!grown) return -1;
            *line = grown;
            *capacity = larger;
        }
        (*line)[size++] = (char)c;
    }
    if (!size) return -1;
    (*line)[size] = 0;
    return (ssize_t)size;
}

ssize_t os_getline(char **line, size_t *capacity, FILE *file) { return os_getdelim(line, capacity, '\n', file); }

int64_t os_modified_ns(const struct os_stat *status)
{
    return (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
}

/* MoveFileExW has waited. */
int os_sync_names(const char *path)
{
    (void)path;
    return 0;
}

/* Nobody else may read or write what is locked: that is a byte far behind the end. */
int os_lock(int file)
{
    OVERLAPPED at = { .OffsetHigh = 1u << 30 };
    if (LockFileEx((HANDLE)_get_osfhandle(file), LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at))
        return 0;
    failed();
    return errno;
}

void os_write_back(int file, off_t offset, off_t size) { (void)file, (void)offset, (void)size; }

int os_folder(const char *path, void (*name)(void *user, const char *name), void *user)
{
    WIN32_FIND_DATAW entry;
    wchar_t *folder = wide_path(path), *pattern = folder ? malloc((wcslen(folder) + 3) * sizeof *pattern) : NULL;
    HANDLE find = INVALID_HANDLE_VALUE;
    int error = folder ? ENOMEM : errno;
    if (pattern) {
        wcscpy(pattern, folder);
        wcscat(pattern, L"\\*");
        find = FindFirstFileW(pattern, &entry);
        error = find == INVALID_HANDLE_VALUE ? failed(), errno : 0;
    }
    free(folder);
    free(pattern);
    if (error) return error;
    do {
        char *text = utf8_text(entry.cFileName);
        if (text) name(user, text);
        else      error = ENOMEM;
        free(text);
    } while (!error && FindNextFileW(find, &entry));
    FindClose(find);
    return error;
}

int os_text_begin(os_text *text)
{
    wchar_t folder[MAX_PATH + 1], path[MAX_PATH + 1];
    *text = (os_text){ .data = NULL };
    if (!GetTempPathW(MAX_PATH + 1, folder) || !GetTempFileNameW(folder, L"bzn", 0, path)) return failed(), errno;
    text->file = _wfopen(path, L"w+bTD");         /* which is deleted when it is closed */
    return text->file ? 0 : errno;
}

int os_text_end(os_text *text)
{
    long size = fseek(text->file, 0, SEEK_END) ? -1 : ftell(text->file);
    if (size >= 0) text->data = malloc((size_t)size + 1);
    rewind(text->file);
    if (text->data) text->size = fread(text->data, 1, (size_t)size, text->file);
    int is_whole = text->data && text->size == (size_t)size;
    if (is_whole) text->data[text->size] = 0;
    fclose(text->file);
    return is_whole ? 0 : EIO;
}


/* ---- the program ---- */

/* A path that is given with \ is understood with / as well, which the tool looks for. */
static void plain_path(char *path)
{
    if (!strncmp(path, "\\\\?\\", 4)) return;
    for (; *path; path++) if (*path == '\\') *path = '/';
}

/* Whether an argument is a path: what begins with a drive or \, or names something with a \ in it. */
static int is_path(const char *text)
{
    struct os_stat status;
    const char *at = strchr(text, '\\');
    if (!at) return 0;
    if (at == text || text[1] == ':') return 1;
    char *folder = malloc((size_t)(at - text) + 2);
    if (!folder) return 0;
    memcpy(folder, text, (size_t)(at - text) + 1);
    folder[at - text + 1] = 0;
    int is_there = !os_stat(folder, &status);
    free(folder);
    return is_there;
}

static void console_start(DWORD which)
{
    HANDLE console = GetStdHandle(which);
    DWORD mode;
    if (GetConsoleMode(console, &mode)) SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}

void os_start(int *argc, char ***argv)
{
    int count = 0;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &count);
    char **texts = wide ? calloc((size_t)count + 1, sizeof *texts) : NULL;
    for (int i = 0; texts && i < count; i++) {
        texts[i] = utf8_text(wide[i]);
        if (!texts[i]) exit(1);
        if (i && is_path(texts[i])) plain_path(texts[i]);
    }
    if (texts) *argc = count, *argv = texts;
    LocalFree(wide);
    for (int i = 0; i < 3; i++) _setmode(i, _O_BINARY);
    SetConsoleOutputCP(CP_UTF8);
    console_start(STD_OUTPUT_HANDLE);
    console_start(STD_ERROR_HANDLE);
}

int os_processor_count(void)
{
    DWORD count = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return count < 1 ? 1 : count > 1024 ? 1024 : (int)count;
}

size_t os_columns(void)
{
    CONSOLE_SCREEN_BUFFER_INFO info;
    if (!GetConsoleScreenBufferInfo(GetStdHandle(STD_ERROR_HANDLE), &info)) return 0;
    return (size_t)(info.srWindow.Right - info.srWindow.Left + 1);
}

int os_is_terminal(FILE *file)
{
    DWORD mode;
    return GetConsoleMode((HANDLE)_get_osfhandle(_fileno(file)), &mode) && mode & ENABLE_VIRTUAL_TERMINAL_PROCESSING;
}

void *os_symbol(const char *name)
{
    HMODULE modules[256];
    DWORD bytes = 0;
    void *found = NULL;
    if (!K32EnumProcessModules(GetCurrentProcess(), modules, sizeof modules, &bytes)) return NULL;
    if (bytes > sizeof modules) bytes = sizeof modules;
    for (size_t i = 0; i < bytes / sizeof modules[0] && !found; i++)
        found = (void *)(intptr_t)GetProcAddress(modules[i], name);
    return found;
}

void os_keep_memory(void) { }

double os_workers_seconds(void) { return -1; }

void os_survive_broken_pipes(void) { }

static volatile LONG interrupted;

/* Runs on a thread of its own. When a console is closed, the program is ended some seconds later. */
static BOOL WINAPI note_interrupt(DWORD kind)
{
    (void)kind;
    InterlockedExchange(&interrupted, 1);
    return TRUE;
}

void os_interrupts_catch(void) { SetConsoleCtrlHandler(note_interrupt, TRUE); }
int os_interrupted(void) { return interrupted != 0; }

void os_interrupts_end(void)
{
    if (!interrupted) return;
    fflush(NULL);
    ExitProcess((UINT)STATUS_CONTROL_C_EXIT);
}


/* ---- threads ---- */

static unsigned __stdcall thread_main(void *given)
{
    os_thread *thread = given;
    thread->run(thread->job);
    return 0;
}

int os_thread_start(os_thread *thread, void (*run)(void *job), void *job)
{
    *thread = (os_thread){ run, job, 0 };
    thread->id = (intptr_t)_beginthreadex(NULL, 0, thread_main, thread, 0, NULL);
    return thread->id ? 0 : errno;
}

void os_thread_join(os_thread *thread)
{
    WaitForSingleObject((HANDLE)thread->id, INFINITE);
    CloseHandle((HANDLE)thread->id);
}

/* Both are one pointer each, and none of them needs to be freed. */
static SRWLOCK *lock_of(os_monitor *monitor) { return (SRWLOCK *)&monitor->lock; }
static CONDITION_VARIABLE *changed_of(os_monitor *monitor) { return (CONDITION_VARIABLE *)&monitor->changed; }

void os_monitor_init(os_monitor *monitor)
{
    InitializeSRWLock(lock_of(monitor));
    InitializeConditionVariable(changed_of(monitor));
}

void os_monitor_free(os_monitor *monitor) { (void)monitor; }
void os_monitor_enter(os_monitor *monitor) { AcquireSRWLockExclusive(lock_of(monitor)); }
void os_monitor_leave(os_monitor *monitor) { ReleaseSRWLockExclusive(lock_of(monitor)); }
void os_monitor_wake(os_monitor *monitor) { WakeAllConditionVariable(changed_of(monitor)); }

void os_monitor_wait(os_monitor *monitor)
{
    SleepConditionVariableSRW(changed_of(monitor), lock_of(monitor), INFINITE, 0);
}


/* ---- workers: threads ---- */

typedef struct worker_start {
    void      (*run)(const void *job, int in, int out);
    const void *job;
    int         in, out;
} worker_start;

/* Set by every answer, and by every worker that ends. */
static HANDLE answered;

static unsigned __stdcall worker_main(void *given)
{
    worker_start start = *(worker_start *)given;
    free(given);
    start.run(start.job, start.in, start.out);
    _close(start.in);
    _close(start.out);
    SetEvent(answered);
    return 0;
}

int os_worker_start(os_worker *one, void (*run)(const void *job, int in, int out), const void *job,
                    const os_worker *others, size_t count)
{
    enum { PIPE_BYTES = 1 << 16 };
    int question[2] = { -1, -1 }, answer[2] = { -1, -1 };
    worker_start *start = malloc(sizeof *start);
    (void)others, (void)count;
    *one = (os_worker){ .in = -1, .out = -1 };
    if (!answered) answered = CreateEventW(NULL, FALSE, FALSE, NULL);
    if (start && answered && !_pipe(question, PIPE_BYTES, _O_BINARY | _O_NOINHERIT) &&
        !_pipe(answer, PIPE_BYTES, _O_BINARY | _O_NOINHERIT)) {
        *start = (worker_start){ run, job, question[0], answer[1] };
        one->id = (intptr_t)_beginthreadex(NULL, 0, worker_main, start, 0, NULL);
        if (one->id) return one->in = answer[0], one->out = question[1], 0;
    }
    for (int i = 0; i < 2; i++) {
        if (question[i] >= 0) _close(question[i]);
        if (answer[i] >= 0) _close(answer[i]);
    }
    free(start);
    return EAGAIN;
}

/* It ends after the picture that it is at. */
os_worker_end os_worker_wait(os_worker *one)
{
    if (one->in >= 0) _close(one->in);
    if (one->out >= 0) _close(one->out);
    one->in = one->out = -1;
    WaitForSingleObject((HANDLE)one->id, INFINITE);
    CloseHandle((HANDLE)one->id);
    return (os_worker_end){ .crash = 0 };
}

/* It reads the end, and ends itself. */
void os_worker_hang_up(os_worker *one)
{
    if (one->out >= 0) _close(one->out);
    one->out = -1;
}

void os_worker_kill(os_worker *one) { os_worker_wait(one); }

static int has_answer(const os_worker *one)
{
    DWORD bytes = 0;
    if (one->in < 0) return 0;
    return !PeekNamedPipe((HANDLE)_get_osfhandle(one->in), NULL, 0, NULL, &bytes, NULL) || bytes > 0;
}

void os_workers_wait(const os_worker *list, size_t count, int *ready, int timeout_ms)
{
    int any = 0;
    for (int round = 0; round < 2 && !any; round++) {
        if (round) WaitForSingleObject(answered, (DWORD)timeout_ms);
        for (size_t i = 0; i < count; i++) any |= ready[i] = has_answer(&list[i]);
    }
}

int os_write_parts(int file, const os_part *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t done = 0; done < parts[i].size;) {
            size_t left = parts[i].size - done;
            int put = _write(file, (const char *)parts[i].data + done, (unsigned)(left < 1 << 20 ? left : 1 << 20));
            if (put <= 0) return put < 0 ? errno : ENOSPC;
            done += (size_t)put;
            SetEvent(answered);       /* before all is written, as the pipe may be full */
        }
    return 0;
}

#endif
