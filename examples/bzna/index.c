/* index.c - bzna index: writes the index of a file next to it, so that opening the file reads only the index */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Kinds of files that have an index, by extension; write puts its text into out. */
static const struct {
    const char *extension;
    int       (*write)(const char *path, FILE *out, uint64_t *samples);
} kinds[] = {
    { ".tar", index_write_tar },
    { ".rec", index_record_file },
};

/* A new index is in its place, where the library must take it. */
static int index_check(char *path, const char *index)
{
    archive a;
    const tool_options o = { .operand = &path, .operand_count = 1 };
    int error = os_sync_names(index);
    if (error) return tool_error("%s: cannot be written: %s", index, strerror(error));
    if (archive_open(&a, &o) == EXIT_OK) return archive_close(&a), EXIT_OK;
    remove(index);
    return EXIT_INPUT;
}

static int index_write(const tool_options *o, char *path, size_t kind)
{
    char *index = tool_format("%.*s.idx", (int)(strlen(path) - strlen(kinds[kind].extension)), path);
    char *partial = tool_format("%s.partial", index);
    uint64_t samples = 0;
    tool_file out;
    int result = tool_file_open(&out, partial);
    if (result == EXIT_OK) {
        out.path = index;
        out.partial = partial;
        partial = NULL;
        result = kinds[kind].write(path, out.file, &samples);
        if (result != EXIT_OK) tool_file_discard(&out);
        else if ((result = tool_file_close(&out)) == EXIT_OK && samples) result = index_check(path, index);
    }
    if (result == EXIT_OK && o->json) {
        fputs("{\"index\":", stdout);
        tool_json_string(index);
        printf(",\"samples\":%" PRIu64 "}\n", samples);
    } else if (result == EXIT_OK) {
        tool_print_text(stdout, index);
        printf(": %" PRIu64 " samples\n", samples);
    }
    free(index);
    free(partial);
    return result;
}

int tool_run_index(const tool_options *o)
{
    int result = EXIT_OK;
    for (int i = 0; i < o->operand_count; i++) {
        char *path = o->operand[i];
        const char *dot = strrchr(path, '.');
        size_t kind = 0;
        while (kind < LENGTH(kinds) && (!dot || strcmp(dot, kinds[kind].extension))) kind++;
        if (kind == LENGTH(kinds) && o->out && o->operand_count == 1) return index_recover_archive(o, path);
        if (kind == LENGTH(kinds))
            result = tool_error("%s: only .tar and .rec files get an index next to them; an archive that lost its own: "
                                "bzna index %s -o NEW.bzna", path, path);
        else if (index_write(o, path, kind) != EXIT_OK) result = EXIT_INPUT;
    }
    return result;
}
