/* partial.c - files that get their name when they are complete */
#include "tool.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Opens and locks the file that is written. A run that is killed leaves its file behind, but no lock. */
int tool_partial_open(const char *path, int *file)
{
    struct stat opened, named;
    for (int i = 0; i < 10; i++) {
        *file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (*file < 0) return tool_error("%s: cannot be written: %s", path, strerror(errno));
        int error = os_lock(*file);
        if (error == EAGAIN) break;
        if (error) {
            tool_error("warning: %s: cannot be locked (%s): make sure that no other bzna writes it", path,
                       strerror(error));
            return EXIT_OK;
        }
        /* Another run may have renamed this file to its final name between open and flock. */
        if (!fstat(*file, &opened) && !stat(path, &named) &&
            opened.st_dev == named.st_dev && opened.st_ino == named.st_ino) return EXIT_OK;
        close(*file);
        *file = -1;
    }
    if (*file >= 0) close(*file);
    *file = -1;
    return tool_error("%s: another bzna is writing it", path);
}

int tool_sync(int file)
{
    int error;
    do error = fsync(file) ? errno : 0; while (error == EINTR);
    return error == EINVAL || error == EROFS ? 0 : error;
}

int tool_partial_name(const char *partial, int file, const char *path)
{
    /* A name must not outlive its bytes when the machine loses power. */
    int error = tool_sync(file);
    return error ? error : rename(partial, path) ? errno : 0;
}

int tool_partial_rename(const char *partial, int file, const char *path, int64_t overwrite)
{
    if (!overwrite && tool_path_exists(path))
        return tool_error("%s: was made by another program meanwhile and is left as it is; the new archive is %s", path,
                          partial);
    int error = tool_partial_name(partial, file, path);
    if (!error) error = os_sync_names(path);
    return error ? tool_error("%s: cannot be written: %s", path, strerror(error)) : EXIT_OK;
}
