/* pack_journal.c - the log of a pack: which files are done, so that an interrupted run can continue
 *
 * OUT.partial holds the samples that are written, one after the other, and OUT.partial.log a line for each file that is
 * done, in the order of the files: how many bytes its sample has and their checksum, or why the file is left out. What
 * failed by no fault of the file's (memory, a disk) has a line of another kind, so that the next run tries it again; if
 * that fails, too, the file is left out for good. A sample is written before its line. Each line begins with its own
 * checksum: the first one that is not whole, and everything behind it, is as if it had never been written.
 *
 * The first lines say with which settings, library versions and files the run began; another run may only continue with
 * the same. A file counts as unchanged as long as its name, size, time of modification and class are.
 *
 * Nothing is flushed to the disk while samples are written, so that a machine that loses power may lose the last of
 * them; their checksums tell. */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/crc.h>
#include <libavutil/md5.h>
#include <libavutil/mem.h>

static uint32_t line_checksum(const void *data, size_t size)
{
    return ~av_crc(av_crc_get_table(AV_CRC_32_IEEE_LE), UINT32_MAX, data, size);
}

/* A sample is hundreds of times as long as a line. So its checksum is one that takes a tenth of the time of a CRC: four
 * sums, which a processor adds to at the same time. A changed word always changes the sum that it is added to. */
typedef struct sums { uint64_t a, b, c, d; } sums;

static uint64_t mix(uint64_t word)
{
    word *= UINT64_C(0x9E3779B97F4A7C15);
    return word << 32 | word >> 32;
}

static sums sums_add(sums s, sums words)
{
    return (sums){ mix(s.a + words.a), mix(s.b + words.b), mix(s.c + words.c), mix(s.d + words.d) };
}

uint32_t pack_sample_checksum(const void *data, size_t size)
{
    const uint8_t *at = data;
    sums s = { size, 0, 0, 0 }, words, last = { 0, 0, 0, 0 };
    for (; size >= sizeof words; at += sizeof words, size -= sizeof words) {
        memcpy(&words, at, sizeof words);
        s = sums_add(s, words);
    }
    memcpy(&last, at, size);
    s = sums_add(s, last);
    return (uint32_t)mix(mix(mix(s.a + s.b) + s.c) + s.d);
}

/* A line: its checksum, then what it says. */
static char *line_of(const char *body)
{
    return tool_format("%08" PRIx32 " %s\n", line_checksum(body, strlen(body)), body);
}

/* Writes a line. Returns 0, or errno. */
static int line_write(int file, const char *body)
{
    char *line = line_of(body);
    int error = tool_write_all(file, line, strlen(line));
    free(line);
    return error;
}

/* Takes the next whole line, without its checksum, and ends it with NUL; NULL when there is none. */
static char *line_take(char **at)
{
    char *end = strchr(*at, '\n'), *body = *at + 9, *rest;
    if (!end || end < body) return NULL;
    *end = 0;
    if (strtoul(*at, &rest, 16) != line_checksum(body, strlen(body)) || rest != body - 1) return NULL;
    *at = end + 1;
    return body;
}


/* ---- what a run may continue with ---- */

/* The version of x265, where libavcodec brought it along. */
static const char *x265_version(void)
{
    const char *const *version = os_symbol("x265_version_str");
    return version && *version ? *version : "none";
}

/* All options that change the archive's bytes, and the versions of the libraries. */
static char *settings_text(const tool_options *o)
{
    static const char neutral[] = "out|jobs|overwrite|resume|json|report|targets|list|shard";
    uint32_t version = bzna_version();
    unsigned codec = avcodec_version();
    char *text = tool_format("benzina %" PRIu32 ", libavcodec %u.%u.%u (%s), x265 %s", version, codec >> 16,
                             codec >> 8 & 255, codec & 255, av_version_info(), x265_version());
    for (const tool_option *p = o->command->options; p->name; p++) {
        if (tool_is_choice(neutral, p->name)) continue;
        char *value = tool_option_text(p, o), *longer = tool_format("%s, --%s %s", text, p->name, value);
        free(value);
        free(text);
        text = longer;
    }
    for (char *at = text; *at; at++) if (*at == '\n') *at = ' ';
    return text;
}

/* What makes a file the same as in an earlier run. */
static char *file_text(const pack_file *f)
{
    return tool_format("%s %" PRId64 " %" PRId64 " %" PRId64 " %" PRIu32, f->relative, f->size, f->time_ns, f->target,
                       f->split);
}

static uint32_t file_checksum(const pack_file *f)
{
    char *text = file_text(f);
    uint32_t checksum = line_checksum(text, strlen(text));
    free(text);
    return checksum;
}

/* "files N MD5" of all files and classes. */
static char *files_text(const pack_files *files)
{
    uint8_t digest[16];
    char hex[33];
    struct AVMD5 *md5 = tool_checked(av_md5_alloc());
    av_md5_init(md5);
    for (size_t i = 0; i < files->count; i++) {
        char *text = file_text(&files->list[i]);
        av_md5_update(md5, (const uint8_t *)text, strlen(text) + 1);
        free(text);
    }
    for (size_t i = 0; i < files->classes.count; i++)
        av_md5_update(md5, (const uint8_t *)files->classes.names[i], strlen(files->classes.names[i]) + 1);
    av_md5_final(md5, digest);
    av_free(md5);
    for (int i = 0; i < 16; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    return tool_format("files %zu %s", files->count, hex);
}


/* ---- writing ---- */

static int journal_failed(const pack_journal *j, int error)
{
    return tool_error("%s: cannot be written: %s", j->path, strerror(error));
}

int pack_journal_open(pack_journal *j, const char *partial)
{
    *j = (pack_journal){ .path = tool_format("%s.log", partial) };
    j->file = open(j->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    return j->file < 0 ? journal_failed(j, errno) : EXIT_OK;
}

int pack_journal_begin(pack_journal *j, const tool_options *o, const pack_files *files)
{
    char *settings = settings_text(o), *list = files_text(files);
    int error = ftruncate(j->file, 0) ? errno : 0;
    if (!error) error = line_write(j->file, "bzna pack 5");
    if (!error) error = line_write(j->file, settings);
    if (!error) error = line_write(j->file, list);
    if (!error) error = tool_sync(j->file);
    if (!error) error = os_sync_names(j->path);           /* without its log, a file is lost */
    free(settings);
    free(list);
    return error ? journal_failed(j, error) : EXIT_OK;
}

char *pack_journal_line(const pack_file *file)
{
    uint32_t checksum = file_checksum(file);
    char *body = file->reason
        ? tool_format("%c %08" PRIx32 " %s", file->is_passing && !file->was_tried ? '~' : '-', checksum, file->reason)
        : tool_format("+ %08" PRIx32 " %" PRIu64 " %08" PRIx32 " %d %.6f %.8f %" PRIu32, checksum, file->sample_size,
                      file->checksum, file->is_measured, file->psnr, file->ssim, file->notes);
    for (char *at = body; *at; at++) if (*at == '\n') *at = ' ';
    char *line = line_of(body);
    free(body);
    return line;
}

int pack_journal_keep(pack_journal *j, size_t count)
{
    for (size_t i = count; i < j->count; i++) free(j->records[i].reason);
    if (count < j->count) j->end = (off_t)j->records[count].at;
    if (count < j->count) j->count = count;
    return ftruncate(j->file, j->end) ? journal_failed(j, errno) : EXIT_OK;
}

void pack_journal_close(pack_journal *j)
{
    for (size_t i = 0; i < j->count; i++) free(j->records[i].reason);
    if (j->file >= 0) close(j->file);
    free(j->records);
    free(j->path);
}


/* ---- reading ---- */

/* The whole file as a text, to be freed; NULL with errno. */
static char *journal_text(const pack_journal *j)
{
    off_t size = lseek(j->file, 0, SEEK_END);
    char *text = tool_checked(malloc(size < 0 ? 1 : (size_t)size + 1));
    ssize_t got;
    size_t filled = 0;
    while (size > 0 && filled < (size_t)size &&
           (got = pread(j->file, text + filled, (size_t)size - filled, (off_t)filled)) > 0) filled += (size_t)got;
    text[filled] = 0;
    return text;
}

/* Reads "+ FILE SIZE CHECKSUM MEASURED PSNR SSIM NOTES", "- FILE REASON" or "~ FILE REASON", which is tried again.
 * Returns the file's checksum. */
static uint32_t record_parse(const char *body, pack_record *record)
{
    char *at;
    uint32_t file = (uint32_t)strtoul(body + 2, &at, 16);
    record->is_passing = body[0] == '~';
    if (body[0] != '+') {
        record->reason = tool_format("%s", *at ? at + 1 : "");
    } else {
        record->size = strtoull(at, &at, 10);
        record->checksum = (uint32_t)strtoul(at, &at, 16);
        record->is_measured = (int)strtol(at, &at, 10);
        record->psnr = strtod(at, &at);
        record->ssim = strtod(at, &at);
        record->notes = (uint32_t)strtoul(at, NULL, 10);
    }
    return file;
}

/* Whether a line can be a record; a check sum fits an empty one, too. */
static int is_record(const char *body) { return *body && strchr("+-~", *body) && body[1] == ' '; }

static int records_read(pack_journal *j, char *at, const char *text, const pack_files *files)
{
    j->records = tool_checked(calloc(files->count, sizeof *j->records));
    for (char *body, *begin; j->count < files->count; j->count++) {
        pack_record *record = &j->records[j->count];
        record->at = (uint64_t)(at - text);
        begin = at;
        if (!(body = line_take(&at)) || !is_record(body)) {
            at = begin;
            break;
        }
        if (record_parse(body, record) == file_checksum(&files->list[j->count])) continue;
        free(record->reason);
        return tool_error("%s: is not what the interrupted run packed here (name, size, time and class must be the "
                          "same); to begin again: bzna pack --overwrite ...", files->list[j->count].path);
    }
    j->end = (off_t)(at - text);
    return EXIT_OK;
}

int pack_journal_read(pack_journal *j, const tool_options *o, const pack_files *files)
{
    char *settings = settings_text(o), *list = files_text(files), *text = journal_text(j), *at = text;
    const char *first = line_take(&at), *old_settings = first ? line_take(&at) : NULL;
    const char *old_list = old_settings ? line_take(&at) : NULL;
    int result = EXIT_OK;
    j->is_begun = old_list != NULL;
    if (!old_list) {
        /* The run was interrupted before it wrote a sample. */
    } else if (strcmp(first, "bzna pack 5")) {
        result = tool_error("%s: is of another version of bzna; to begin again: bzna pack --overwrite ...", j->path);
    } else if (strcmp(settings, old_settings)) {
        result = tool_error("%s: was begun with other settings, and only the same settings can continue it; to begin "
                            "again: bzna pack --overwrite ...\n  then: %s\n  now:  %s",
                            j->path, old_settings, settings);
    } else if ((result = records_read(j, at, text, files)) == EXIT_OK && strcmp(list, old_list)) {
        result = tool_error("%s: the files are not those of the interrupted run: there were %lu, now there are %zu, or "
                            "some have changed; to begin again: bzna pack --overwrite ...", j->path,
                            strtoul(old_list + strlen("files "), NULL, 10), files->count);
    }
    free(settings);
    free(list);
    free(text);
    return result;
}
