/* tool.c - the fuzz targets of the tool: arguments, lists, targets, the log that --resume goes on from, indices of tars
 * and RecordIO, text in JSON. No command runs. program_main.h says how it is called. */
#define _GNU_SOURCE
#define main tool_main
#include "../../examples/bzna/main.c"
#undef main
#include "../../examples/bzna/pack_journal.c"

#include <sys/mman.h>
#include <sys/stat.h>

#include "program.h"

/* A file in memory, and its path. */
typedef struct memory_file {
    int  file;
    char path[64];
} memory_file;

static memory_file memory_file_make(const uint8_t *data, size_t size)
{
    memory_file m = { memfd_create("fuzz", MFD_CLOEXEC), "" };
    FUZZ_CHECK(m.file >= 0 && write(m.file, data, size) == (ssize_t)size);
    snprintf(m.path, sizeof m.path, "/proc/self/fd/%d", m.file);
    return m;
}

/* ---- Arguments: the number of a command, and a line for each ---- */

static void run_arguments(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *arguments[64], *at = text;
    int count = 0;
    tool_options o;
    bzna_records records;
    FUZZ_CHECK(text);
    memcpy(text, data, size);
    text[size] = 0;
    const tool_command *c = &commands[size ? data[0] % LENGTH(commands) : 0];
    for (char *line; size && count < 64 && (line = strsep(&at, "\n"));)
        if (line != text)
            arguments[count++] = line;
    const int given = count;
    if (tool_options_parse(c, count, arguments, &o) == 0) {
        FUZZ_CHECK(o.operand_count <= given);
        for (const tool_option *p = c->options; p->name; p++)
            free(tool_option_text(p, &o));
        if (o.records)
            records_parse(o.records, &records);
    }
    free(text);
}

static void seeds_arguments(fuzz_give *give, void *user)
{
    for (size_t i = 0; i < LENGTH(commands); i++) {
        char text[512];
        int length = snprintf(text, sizeof text, "%c\nin\n-o\nout", (char)i);
        for (const tool_option *p = commands[i].options; p->name && length < 300; p++)
            length += snprintf(text + length, sizeof text - (size_t)length, "\n--%s%s%.20s", p->name,
                               p->kind == KIND_FLAG ? "" : "=", p->kind == KIND_CHOICE ? p->argument : "1");
        give(user, text, (size_t)length);
    }
    give(user, "\3\n--records\nuint8:3x32x32,label=uint8", 37);
}

/* ---- Lists of names and of numbers ---- */

static void run_lists(const uint8_t *data, size_t size)
{
    const memory_file m = memory_file_make(data, size);
    const archive a = { .count = 1000 };
    tool_names names = { NULL, 0, 0 };
    uint64_t *indices = NULL, count = 0;
    tool_names_read(&names, m.path);
    tool_names_free(&names);
    if (archive_read_indices(&a, m.path, &indices, &count) == EXIT_OK)
        for (uint64_t i = 0; i < count; i++)
            FUZZ_CHECK(indices[i] < a.count);
    free(indices);
    close(m.file);
}

static void seeds_lists(fuzz_give *give, void *user)
{
    give(user, "1\n2 3\t999\n", 10);
    give(user, "cat\r\ndog\n\na name\n", 17);
    give(user, "-1", 2);
}

/* ---- Targets of files ---- */

static pack_file some_files[3];
static pack_files files_make(void)
{
    static const char *const names[] = { "a/b.jpg", "a/c d.png", "e.tif" };
    for (int i = 0; i < 3; i++)
        some_files[i] = (pack_file){ .path = (char *)(uintptr_t)names[i], .relative = names[i], .size = i,
                                     .target = i };
    return (pack_files){ .list = some_files, .count = 3 };
}

static void run_targets(const uint8_t *data, size_t size)
{
    const memory_file m = memory_file_make(data, size);
    pack_files files = files_make();
    pack_targets_read(&files, m.path);
    close(m.file);
}

static void seeds_targets(fuzz_give *give, void *user)
{
    static const char *const texts[] = { "1\n2\n3\n", "a/b.jpg,1\na/c d.png,2\ne.tif,-3\n",
                                         "e.tif\t9223372036854775807" };
    for (int i = 0; i < 3; i++)
        give(user, texts[i], strlen(texts[i]));
}

/* ---- The log of a pack: 0 of the first byte: the lines as they are. Else they follow a true beginning, with their
 * check sums; 2: and with the check sums of the files ---- */

static void run_journal(const uint8_t *data, size_t size)
{
    static char partial[64];
    static tool_options o;
    pack_files files = files_make();
    pack_journal j;
    char *text = malloc(size + 1), *at = text;
    size_t number = 0;
    FUZZ_CHECK(text);
    memcpy(text, data, size);
    text[size] = 0;
    if (!partial[0]) {
        char *in[] = { (char[]){ "in" }, (char[]){ "-oout" } };
        snprintf(partial, sizeof partial, "/tmp/fuzz-journal-%d", (int)getpid());
        FUZZ_CHECK(tool_options_parse(command_find("pack"), 1, in, &o) == 0);
    }
    FUZZ_CHECK(pack_journal_open(&j, partial) == EXIT_OK);
    FUZZ_CHECK(ftruncate(j.file, 0) == 0);
    if (size && data[0] % 3 == 0)
        FUZZ_CHECK(write(j.file, data + 1, size - 1) == (ssize_t)size - 1);
    else
        FUZZ_CHECK(pack_journal_begin(&j, &o, &files) == EXIT_OK);
    for (char *line; size && data[0] % 3 && (line = strsep(&at, "\n"));) {
        char sum[9];
        if (line == text)
            continue;
        if (data[0] % 3 == 2 && strlen(line) >= 10) {
            snprintf(sum, sizeof sum, "%08" PRIx32, file_checksum(&some_files[number++ % 3]));
            memcpy(line + 2, sum, 8);
        }
        FUZZ_CHECK(line_write(j.file, line) == 0);
    }
    if (pack_journal_read(&j, &o, &files) == EXIT_OK) {
        FUZZ_CHECK(j.count <= files.count);
        for (size_t i = 0; i < j.count; i++)
            FUZZ_CHECK(j.records[i].at <= (uint64_t)j.end);
        FUZZ_CHECK(pack_journal_keep(&j, j.count / 2) == EXIT_OK);
    }
    unlink(j.path);
    pack_journal_close(&j);
    free(text);
}

static void seeds_journal(fuzz_give *give, void *user)
{
    static const char *const texts[] = {
        "\2\n+ 00000000 1234 89abcdef 1 40.5 0.99 3\n- 00000000 no picture\n+ 00000000 1 2 0 0 0 0",
        "\1\n+ 00000000 18446744073709551615 ffffffff", "\3deadbeef bzna pack 5\n", "\2\n-\n+ 12345678", "\1\n\n",
    };
    for (int i = 0; i < 5; i++)
        give(user, texts[i], strlen(texts[i]));
}

/* ---- Indices that the tool writes ---- */

static void run_index(const uint8_t *data, size_t size)
{
    const memory_file m = memory_file_make(data, size);
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    uint64_t samples = 0;
    FUZZ_CHECK(out);
    index_write_tar(m.path, out, &samples);
    index_record_file(m.path, out, &samples);
    fclose(out);
    FUZZ_CHECK(length <= 64 * size + 256);
    free(text);
    close(m.file);
}

/* ---- Text in JSON: a string without control characters, in UTF-8, whose quotes are escaped ---- */

static void run_json(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *json = NULL;
    size_t length = 0, at = 1;
    FILE *out = open_memstream(&json, &length);
    FUZZ_CHECK(text && out);
    memcpy(text, data, size);
    text[size] = 0;
    tool_json_write(out, text);
    fclose(out);
    FUZZ_CHECK(length >= 2 && json[0] == '"' && json[length - 1] == '"' && length <= 6 * size + 2);
    for (; at < length - 1; at++) {
        const unsigned char c = (unsigned char)json[at];
        FUZZ_CHECK(c >= 0x20 && c != '"' && c != 0x7f && c != 0xc0 && c != 0xc1 && c < 0xf5);
        if (c == '\\') {
            at++;
            FUZZ_CHECK(strchr("\"\\u", json[at]));
            for (int i = 0; json[at] == 'u' && i < 4; i++)
                FUZZ_CHECK(strchr("0123456789abcdef", json[at + 1 + (size_t)i]));
        }
    }
    FUZZ_CHECK(at == length - 1);
    free(json);
    free(text);
}

static void seeds_json(fuzz_give *give, void *user)
{
    give(user, "a \"b\" \\ \n\x7f", 10);
    give(user, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82\xed\xa0\x80\xff", 13);
}

static void seeds_index(fuzz_give *give, void *user)
{
    give(user, "\x0a\x23\xd7\xce\4\0\0\0abcd\x0a\x23\xd7\xce\2\0\0\0ab\0\0", 24);
}

static const fuzz_target targets[] = {
    { "tool_arguments", run_arguments, NULL, seeds_arguments, NULL },
    { "tool_lists", run_lists, NULL, seeds_lists, NULL },
    { "tool_targets", run_targets, NULL, seeds_targets, NULL },
    { "tool_journal", run_journal, NULL, seeds_journal, NULL },
    { "tool_index", run_index, NULL, seeds_index, NULL },
    { "tool_json", run_json, NULL, seeds_json, NULL },
};
enum { TARGETS = sizeof targets / sizeof *targets };

static void target_begin(const fuzz_target *t)
{
    (void)t;
    av_log_set_level(AV_LOG_QUIET);
}

static void target_run(const fuzz_target *t, const uint8_t *data, size_t size) { t->run(data, size); }

#include "program_main.h"
