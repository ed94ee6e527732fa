/* output.c - JSON, text from files, four-character codes, files that are written */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The length of the UTF-8 sequence at text, or 0 if there is none. */
static int utf8_length(const unsigned char *text)
{
    int length = text[0] < 0x80 ? 1 :
                 text[0] >= 0xC2 && text[0] < 0xE0 ? 2 :
                 (text[0] & 0xF0) == 0xE0 ? 3 :
                 text[0] >= 0xF0 && text[0] < 0xF5 ? 4 : 0;
    for (int i = 1; i < length; i++)
        if ((text[i] & 0xC0) != 0x80) return 0;
    if (length == 3 && ((text[0] == 0xE0 && text[1] < 0xA0) || (text[0] == 0xED && text[1] > 0x9F))) return 0;
    if (length == 4 && ((text[0] == 0xF0 && text[1] < 0x90) || (text[0] == 0xF4 && text[1] > 0x8F))) return 0;
    return length;
}

void tool_json_write(FILE *file, const char *text)
{
    if (!text) { fputs("null", file); return; }
    fputc('"', file);
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        int length = utf8_length(at);
        if (!length)                        fputs("\\ufffd", file);
        else if (*at == '"' || *at == '\\') fprintf(file, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7F) fprintf(file, "\\u%04x", *at);
        else                                fwrite(at, 1, (size_t)length, file);
        at += length ? length : 1;
    }
    fputc('"', file);
}

void tool_json_string(const char *text) { tool_json_write(stdout, text); }

void tool_print_text(FILE *file, const char *text)
{
    for (; *text; text++) fputc((unsigned char)*text < 0x20 || *text == 0x7F ? '?' : *text, file);
}

tool_fourcc_text tool_fourcc(uint32_t code)
{
    tool_fourcc_text result = { { 0 } };
    for (int i = 0; i < 4; i++) {
        uint32_t c = code >> (24 - 8 * i) & 0xFF;
        result.text[i] = (char)(c >= 0x20 && c < 0x7F ? c : '?');
    }
    return result;
}

int tool_file_open(tool_file *out, const char *path)
{
    int is_stdout = !strcmp(path, "-");
    out->path = is_stdout ? "standard output" : path;
    out->partial = NULL;
    out->error = 0;
    out->file = is_stdout ? stdout : fopen(path, "wb");
    return out->file ? EXIT_OK : tool_error("%s: cannot be written: %s", path, strerror(errno));
}

int tool_file_create(tool_file *out, const char *path)
{
    struct stat status;
    if (!strcmp(path, "-") || (!lstat(path, &status) && !S_ISREG(status.st_mode))) return tool_file_open(out, path);
    *out = (tool_file){ .path = path, .partial = tool_format("%s.partial", path) };
    out->file = fopen(out->partial, "wb");
    if (out->file) return EXIT_OK;
    free(out->partial);
    return tool_file_open(out, path);
}

void tool_file_write(tool_file *out, const void *data, size_t size)
{
    if (fwrite(data, 1, size, out->file) < size && !out->error) out->error = errno;
}

int tool_file_flush(tool_file *out)
{
    if (fflush(out->file) && !out->error) out->error = errno;
    return ferror(out->file) || out->error ? EXIT_INPUT : EXIT_OK;
}

/* Streams forget why they failed to write what they buffered. A disk that is full still is: another byte of a file that
 * is no use any more tells. */
static void error_find(tool_file *out)
{
    if (!out->error && out->file != stdout && os_write(fileno(out->file), "", 1) < 0) out->error = errno;
}

static int stdout_failed;             /* and that was said */

int tool_file_close(tool_file *out)
{
    int failed = tool_file_flush(out), error;
    if (failed) error_find(out);
    error = out->error;
    if (!failed && out->partial) failed = (error = tool_partial_name(out->partial, fileno(out->file), out->path)) != 0;
    if (out->file != stdout && fclose(out->file) && !failed) failed = 1, error = errno;
    if (failed && out->partial) remove(out->partial);
    free(out->partial);
    out->partial = NULL;
    if (!failed) return EXIT_OK;
    stdout_failed |= out->file == stdout;
    return tool_error("%s: cannot be written: %s", out->path, error ? strerror(error) : "write error");
}

void tool_file_discard(tool_file *out)
{
    if (out->file != stdout) fclose(out->file);
    if (out->partial) remove(out->partial);
    free(out->partial);
    out->partial = NULL;
}

static int stdout_error;              /* errno of its first flush that failed, or 0 */

void tool_stdout_flush(void)
{
    if (fflush(stdout) && !stdout_error) stdout_error = errno;
}

int tool_stdout_end(int result)
{
    tool_file out = { .path = "standard output", .file = stdout, .error = stdout_error };
    return !stdout_failed && tool_file_close(&out) && result == EXIT_OK ? EXIT_INPUT : result;
}
