/* bzna - make, look into, check and time .bzna archives: the command-line tool of benzina                       MIT license
 *
 *     bzna pack DIR -o OUT.bzna        a folder of class folders, or of pictures, into an archive
 *     bzna info FILE                   brands, samples and tracks
 *     bzna list FILE                   one line a sample
 *     bzna extract FILE INDEX          one picture, as PPM, planes or H.265/H.264
 *     bzna verify FILE                 every sample, and with --decode every picture
 *     bzna batch FILE -o DIR           one batch as a loader delivers it, as PPM files
 *     bzna bench FILE                  pictures per second
 *     bzna devices                     what GPUs there are, and what their video decoders take
 *
 * The library is used through benzina.h alone. Pictures are read and coded by libavformat, libavcodec and libswscale:
 *
 *     cc -std=c11 -O2 bzna.c benzina.o $(pkg-config --cflags --libs libavformat libavcodec libswscale libavutil) -lm -lpthread -ldl
 *
 * Sections, each using only those above it:
 *
 *     1 small helpers          5 extract        9 devices
 *     2 options                6 verify        10 pack: reading pictures
 *     3 output                 7 batch         11 pack: coding them
 *     4 archives, info, list   8 bench         12 pack: folders, threads
 *                                              13 commands
 *
 * Exit status: 0 all is well, 1 the input is at fault, 2 the command line is. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#ifdef __APPLE__
#define _DARWIN_C_SOURCE
#endif
#include "../benzina.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/md5.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>

#if defined(__GNUC__) || defined(__clang__)
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#else
#define PRINTF_LIKE(text, first)
#endif

enum { EXIT_OK = 0, EXIT_INPUT = 1, EXIT_USAGE = 2 };

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))


/* ---- 1. Small helpers --------------------------------------------------------------------------------------------------- */

/* Says what is wrong with the input, and returns the exit status for that. */
PRINTF_LIKE(1, 2) static int complain(const char *format, ...)
{
    va_list arguments;
    fflush(stdout);
    fputs("bzna: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return EXIT_INPUT;
}

/* A tool of one run may give up here: nothing is half done that another run would trip over. */
static void *checked(void *pointer)
{
    if (!pointer) exit(complain("out of memory"));
    return pointer;
}

PRINTF_LIKE(1, 2) static char *text_make(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = checked(malloc(length < 0 ? 1 : (size_t)length + 1));
    text[0] = 0;
    va_start(arguments, format);
    if (length > 0) vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

static int64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void sleep_ns(int64_t duration_ns)
{
    struct timespec time = { .tv_sec = (time_t)(duration_ns / 1000000000), .tv_nsec = (long)(duration_ns % 1000000000) };
    nanosleep(&time, NULL);
}

/* Whether anything has that name. */
static int is_there(const char *path)
{
    struct stat status;
    return !lstat(path, &status);
}

static int is_folder(const char *path)
{
    struct stat status;
    return !stat(path, &status) && S_ISDIR(status.st_mode);
}

static int processors(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > 1024 ? 1024 : (int)count;
}

/* A buffer that grows. */
typedef struct bytes {
    uint8_t *data;
    size_t   size;
} bytes;

static void bytes_reserve(bytes *buffer, uint64_t size)
{
    if (size <= buffer->size) return;
    if (size > SIZE_MAX / 2) exit(complain("out of memory"));
    buffer->data = checked(realloc(buffer->data, (size_t)size));
    buffer->size = (size_t)size;
}

/* How far a long job has come, on a terminal only. */
typedef struct progress {
    const char *what;
    uint64_t    total;
    int64_t     start_ns, shown_ns;
    int         terminal, shown;
} progress;

static progress progress_start(const char *what, uint64_t total)
{
    return (progress){ .what = what, .total = total, .start_ns = now_ns(), .terminal = isatty(STDERR_FILENO) };
}

static void progress_show(progress *p, uint64_t done)
{
    int64_t now = now_ns();
    if (!p->terminal || now - p->shown_ns < 200000000) return;
    double seconds = (double)(now - p->start_ns) * 1e-9;
    double rate = seconds > 0 ? (double)done / seconds : 0;
    uint64_t left = rate > 0 ? (uint64_t)((double)(p->total - done) / rate + 0.5) : 0;
    fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " %s, %.1f a second, %" PRIu64 ":%02" PRIu64 ":%02" PRIu64 " left   ",
            done, p->total, p->what, rate, left / 3600, left / 60 % 60, left % 60);
    p->shown_ns = now;
    p->shown = 1;
}

static void progress_end(const progress *p)
{
    if (p->shown) fprintf(stderr, "\r%78s\r", "");
}


/* ---- 2. Options --------------------------------------------------------------------------------------------------------- */

/* Everything that any command can be told. */
typedef struct options {
    const char *out, *track, *codec, *preset, *warp, *decoder, *output, *dtype, *class_order;
    double      crf, flip, seconds;
    int64_t     jobs, batch, size, threads, seed, device, sessions;
    int64_t     json, md5, decode, shuffle, overwrite;        /* flags */
    const char *operand[2];
    int         operands;
} options;

typedef enum option_kind { KIND_FLAG, KIND_INTEGER, KIND_REAL, KIND_TEXT, KIND_CHOICE, KIND_DEVICE } option_kind;

typedef struct option {
    const char *name;
    char        letter;               /* 0: there is no short form */
    option_kind kind;
    size_t      offset;               /* of the field in options */
    double      lo, hi;               /* numbers only */
    const char *argument;             /* as help shows it; "a|b|c" for a choice */
    const char *fallback;             /* when it is not given; NULL: 0 */
    const char *help;
} option;

#define FIELD(name) offsetof(options, name)
#define OPTION_JSON { "json", 0, KIND_FLAG, FIELD(json), 0, 0, NULL, NULL, "write JSON, for machines" }
#define OPTION_DEVICE { "device", 0, KIND_DEVICE, FIELD(device), 0, 0, "auto|cpu|N", "auto", "where to work: a GPU if there is one, none, or CUDA device N" }
#define OPTION_SESSIONS { "sessions", 0, KIND_INTEGER, FIELD(sessions), 1, 256, "N", NULL, "NVDEC sessions (default: two for each of the device's engines)" }
#define OPTION_DECODER { "decoder", 0, KIND_CHOICE, FIELD(decoder), 0, 0, "auto|software|nvdec", "auto", "who decodes for the loader" }
#define OPTION_END  { NULL, 0, KIND_FLAG, 0, 0, 0, NULL, NULL, NULL }

typedef struct command {
    const char   *name, *operands, *summary, *help;
    int           operand_count;
    const option *options;
    int         (*run)(const options *o);
} command;

static void print_usage(FILE *file, const command *c)
{
    fprintf(file, "usage: bzna %s%s%s [options]\n", c->name, c->operand_count ? " " : "", c->operands);
}

static void print_help(const command *c)
{
    print_usage(stdout, c);
    printf("\n%s\n\noptions:\n", c->help);
    for (const option *p = c->options; p->name; p++) {
        char left[96];
        char letter[8] = "";
        if (p->letter) snprintf(letter, sizeof letter, "-%c, ", p->letter);
        snprintf(left, sizeof left, "%s--%s%s%s", letter, p->name, p->argument ? " " : "", p->argument ? p->argument : "");
        printf("  %-34s%s %s", left, strlen(left) > 33 ? "\n                                    " : "", p->help);
        if (p->fallback) printf(" (default %s)", p->fallback);
        putchar('\n');
    }
    printf("  %-34s %s\n", "-h, --help", "show this");
}

PRINTF_LIKE(2, 3) static int usage_error(const command *c, const char *format, ...)
{
    va_list arguments;
    fputs("bzna: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    print_usage(stderr, c);
    fprintf(stderr, "`bzna %s --help` says more\n", c->name);
    return EXIT_USAGE;
}

/* Whether word is one of "a|b|c". */
static int is_choice(const char *choices, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = choices; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (!strncmp(at, word, length) && (at[length] == 0 || at[length] == '|')) return length > 0;
    }
    return 0;
}

/* Sets one option. Returns what was expected instead, or NULL. */
static const char *option_set(const option *p, options *o, const char *value)
{
    char *field = (char *)o + p->offset, *end = NULL;
    errno = 0;
    switch (p->kind) {
    case KIND_FLAG:
        memcpy(field, &(int64_t){ 1 }, sizeof(int64_t));
        return NULL;
    case KIND_INTEGER: {
        int64_t number = strtoll(value, &end, 10);
        if (end == value || *end || errno || (double)number < p->lo || (double)number > p->hi) return "an integer";
        memcpy(field, &number, sizeof number);
        return NULL;
    }
    case KIND_REAL: {
        double number = strtod(value, &end);
        if (end == value || *end || !(number >= p->lo && number <= p->hi)) return "a number";
        memcpy(field, &number, sizeof number);
        return NULL;
    }
    case KIND_DEVICE: {                                       /* as bzna_context_config has it: n + 1 for device n */
        int64_t number = strtoll(value, &end, 10);
        if (!strcmp(value, "auto"))     number = BZNA_DEVICE_AUTO;
        else if (!strcmp(value, "cpu")) number = BZNA_DEVICE_CPU;
        else if (end == value || *end || errno || number < 0 || number > 65535) return p->argument;
        else                            number++;
        memcpy(field, &number, sizeof number);
        return NULL;
    }
    case KIND_CHOICE:
        if (!is_choice(p->argument, value)) return p->argument;
        break;
    case KIND_TEXT:
        if (!*value) return "a text";
        break;
    }
    memcpy(field, &value, sizeof value);
    return NULL;
}

/* The option that an argument names; *value is set when it carries its value along ("--crf=20"). */
static const option *option_find(const command *c, const char *argument, const char **value)
{
    *value = NULL;
    for (const option *p = c->options; p->name; p++) {
        size_t length = strlen(p->name);
        if (argument[1] != '-') {
            if (p->letter && argument[1] == p->letter && !argument[2]) return p;
        } else if (!strncmp(argument + 2, p->name, length) && (argument[2 + length] == 0 || argument[2 + length] == '=')) {
            if (argument[2 + length] == '=') *value = argument + 2 + length + 1;
            return p;
        }
    }
    return NULL;
}

/* Reads a command's arguments into *o. Returns 0 to go on, 1 after showing help, or -1 after complaining. */
static int options_parse(const command *c, int count, char **arguments, options *o)
{
    int only_operands = 0;
    memset(o, 0, sizeof *o);
    for (const option *p = c->options; p->name; p++)
        if (p->fallback && p->kind != KIND_FLAG) option_set(p, o, p->fallback);
    for (int i = 0; i < count; i++) {
        const char *argument = arguments[i], *value;
        if (only_operands || argument[0] != '-' || !argument[1]) {
            if (o->operands == c->operand_count) return usage_error(c, "one argument too many: \"%s\"", argument), -1;
            o->operand[o->operands++] = argument;
            continue;
        }
        if (!strcmp(argument, "--")) { only_operands = 1; continue; }
        if (!strcmp(argument, "--help") || !strcmp(argument, "-h")) { print_help(c); return 1; }
        const option *p = option_find(c, argument, &value);
        if (!p) return usage_error(c, "unknown option \"%s\"", argument), -1;
        if (p->kind == KIND_FLAG && value) return usage_error(c, "--%s takes no value", p->name), -1;
        if (p->kind != KIND_FLAG && !value) {
            if (++i == count) return usage_error(c, "--%s wants a value: %s", p->name, p->argument), -1;
            value = arguments[i];
        }
        const char *expected = option_set(p, o, value);
        if (expected && p->hi > p->lo)
            return usage_error(c, "--%s wants %s from %.15g to %.15g, not \"%s\"", p->name, expected, p->lo, p->hi, value), -1;
        if (expected) return usage_error(c, "--%s wants %s, not \"%s\"", p->name, expected, value), -1;
    }
    if (o->operands < c->operand_count) return usage_error(c, "too few arguments"), -1;
    return 0;
}


/* ---- 3. Output ---------------------------------------------------------------------------------------------------------- */

/* Length of the UTF-8 sequence at text, or 0 if it is not one. */
static int utf8_length(const unsigned char *text)
{
    int length = text[0] < 0x80 ? 1 : text[0] >= 0xC2 && text[0] < 0xE0 ? 2 : (text[0] & 0xF0) == 0xE0 ? 3 :
                 text[0] >= 0xF0 && text[0] < 0xF5 ? 4 : 0;
    for (int i = 1; i < length; i++)
        if ((text[i] & 0xC0) != 0x80) return 0;
    if (length == 3 && ((text[0] == 0xE0 && text[1] < 0xA0) || (text[0] == 0xED && text[1] > 0x9F))) return 0;
    if (length == 4 && ((text[0] == 0xF0 && text[1] < 0x90) || (text[0] == 0xF4 && text[1] > 0x8F))) return 0;
    return length;
}

/* A JSON string, or null for NULL. What is not UTF-8 becomes U+FFFD. */
static void json_string(const char *text)
{
    if (!text) { fputs("null", stdout); return; }
    putchar('"');
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        int length = utf8_length(at);
        if (!length)                        fputs("\\ufffd", stdout);
        else if (*at == '"' || *at == '\\') printf("\\%c", *at);
        else if (*at < 0x20 || *at == 0x7F) printf("\\u%04x", *at);
        else                                fwrite(at, 1, (size_t)length, stdout);
        at += length ? length : 1;
    }
    putchar('"');
}

/* Text from a file for a person to read: control characters must not reach the terminal. */
static void print_plain(FILE *file, const char *text)
{
    for (; *text; text++) fputc((unsigned char)*text < 0x20 || *text == 0x7F ? '?' : *text, file);
}

typedef struct fourcc_text { char text[5]; } fourcc_text;

static fourcc_text fourcc(uint32_t code)
{
    fourcc_text result = { { 0 } };
    for (int i = 0; i < 4; i++) {
        uint32_t c = code >> (24 - 8 * i) & 0xFF;
        result.text[i] = (char)(c >= 0x20 && c < 0x7F ? c : '?');
    }
    return result;
}

/* Opens, writes and closes a file of several pieces; complains once. */
typedef struct output {
    const char *path;
    FILE       *file;
} output;

static int output_open(output *out, const char *path)
{
    out->path = path;
    out->file = fopen(path, "wb");
    return out->file ? EXIT_OK : complain("%s: cannot be written: %s", path, strerror(errno));
}

static int output_close(output *out)
{
    int failed = ferror(out->file);
    errno = 0;
    if (fclose(out->file) || failed) return complain("%s: cannot be written: %s", out->path, errno ? strerror(errno) : "write error");
    return EXIT_OK;
}

/* Three planes of floats, 0..255, into 8-bit RGB. */
static void rgb_from_planes(const float *planes, uint32_t width, uint32_t height, uint8_t *rgb, size_t pitch)
{
    size_t area = (size_t)width * height;
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < 3; c++) {
                float value = planes[c * area + (size_t)y * width + x];
                rgb[y * pitch + 3 * x + c] = (uint8_t)(value >= 255.f ? 255 : value > 0.f ? (int)(value + 0.5f) : 0);
            }
}

static int ppm_write(const char *path, const uint8_t *rgb, uint32_t width, uint32_t height)
{
    output out;
    if (output_open(&out, path)) return EXIT_INPUT;
    fprintf(out.file, "P6\n%" PRIu32 " %" PRIu32 "\n255\n", width, height);
    fwrite(rgb, 3, (size_t)width * height, out.file);
    return output_close(&out);
}


/* ---- 4. Archives, info, list -------------------------------------------------------------------------------------------- */

typedef struct archive {
    bzna_context *context;
    bzna_dataset *dataset;
    uint64_t      count;
} archive;

static bzna_error error_empty(void)
{
    return (bzna_error){ .struct_size = sizeof(bzna_error), .byte_offset = BZNA_NO_OFFSET };
}

/* device, sessions: of bzna_context_config. */
static int archive_open_on(archive *a, const char *path, int32_t device, uint32_t sessions)
{
    bzna_error err = error_empty();
    bzna_context_config config;
    memset(a, 0, sizeof *a);
    bzna_context_config_init(&config, sizeof config);
    config.device = device;
    config.sessions = sessions;
    if (bzna_context_open(&config, &a->context, &err) < 0 || bzna_dataset_open(a->context, path, NULL, &a->dataset, &err) < 0) {
        bzna_context_close(a->context);
        return complain("%s", err.message);
    }
    a->count = bzna_dataset_count(a->dataset);
    return EXIT_OK;
}

/* For commands that a GPU has nothing to do with. */
static int archive_open(archive *a, const char *path) { return archive_open_on(a, path, BZNA_DEVICE_CPU, 0); }

static void archive_close(archive *a)
{
    bzna_dataset_close(a->dataset);
    bzna_context_close(a->context);
}

/* The file name of a sample, in a buffer that is used again; NULL when it has none. */
static bzna_status sample_filename(const archive *a, uint64_t index, bytes *buffer, const char **name, bzna_error *err)
{
    size_t needed = 0;
    *name = NULL;
    bytes_reserve(buffer, 256);
    bzna_status status = bzna_dataset_filename(a->dataset, index, (char *)buffer->data, buffer->size, &needed, err);
    if (status == BZNA_E_BUFFER) {
        bytes_reserve(buffer, needed);
        status = bzna_dataset_filename(a->dataset, index, (char *)buffer->data, buffer->size, &needed, err);
    }
    if (status == BZNA_OK) *name = (const char *)buffer->data;
    return status == BZNA_E_NOT_FOUND ? BZNA_OK : status;
}

/* Reads one picture of a sample, coded, into a buffer that is used again. */
static bzna_status sample_load(const archive *a, uint64_t index, const char *track, bytes *buffer, bzna_image *image, bzna_error *err)
{
    bzna_sample sample = { .struct_size = sizeof sample };
    bzna_status status = bzna_dataset_sample(a->dataset, index, &sample, err);
    if (status < 0) return status;
    bytes_reserve(buffer, sample.size);
    memset(image, 0, sizeof *image);
    image->struct_size = sizeof *image;
    return bzna_dataset_image(a->dataset, index, track, buffer->data, buffer->size, image, err);
}

static void info_json(const archive *a, const bzna_dataset_info *info)
{
    printf("{\"brands\":[");
    for (uint32_t i = 0; i < info->brand_count && i < LENGTH(info->brands); i++) {
        if (i) putchar(',');
        json_string(fourcc(info->brands[i]).text);
    }
    printf("],\"size\":%" PRIu64 ",\"samples\":%" PRIu64 ",\"targets\":%" PRIu64 ",\"tracks\":[",
           info->size_bytes, info->sample_count, info->target_count);
    for (uint32_t i = 0; i < info->track_count; i++) {
        bzna_track_info track = { .struct_size = sizeof track };
        bzna_dataset_track(a->dataset, i, &track, sizeof track);
        printf("%s\n {\"name\":", i ? "," : "");
        json_string(track.name);
        printf(",\"handler\":");
        json_string(fourcc(track.handler).text);
        printf(",\"format\":");
        json_string(fourcc(track.format).text);
        printf(",\"mime\":");
        json_string(track.mime[0] ? track.mime : NULL);
        printf(",\"count\":%" PRIu64 "}", track.sample_count);
    }
    puts("\n]}");
}

static void info_plain(const archive *a, const bzna_dataset_info *info)
{
    printf("brands  ");
    for (uint32_t i = 0; i < info->brand_count && i < LENGTH(info->brands); i++) printf(" %s", fourcc(info->brands[i]).text);
    printf("\nsize     %" PRIu64 " bytes\nsamples  %" PRIu64 "\ntargets  %" PRIu64 "\n\n%-24s %-8s %-7s %10s  %s\n", info->size_bytes,
           info->sample_count, info->target_count, "track", "handler", "format", "count", "mime");
    for (uint32_t i = 0; i < info->track_count; i++) {
        bzna_track_info track = { .struct_size = sizeof track };
        bzna_dataset_track(a->dataset, i, &track, sizeof track);
        printf("%-24s %-8s %-7s %10" PRIu64 "  ", track.name, fourcc(track.handler).text, fourcc(track.format).text,
               track.sample_count);
        print_plain(stdout, track.mime);
        putchar('\n');
    }
}

static int run_info(const options *o)
{
    archive a;
    if (archive_open(&a, o->operand[0])) return EXIT_INPUT;
    bzna_dataset_info info = { .struct_size = sizeof info };
    bzna_dataset_describe(a.dataset, &info, sizeof info);
    if (o->json) info_json(&a, &info);
    else         info_plain(&a, &info);
    archive_close(&a);
    return EXIT_OK;
}

/* What is known of one sample; err tells what could not be found out. */
typedef struct record {
    uint64_t    index;
    int         located;              /* sample is filled in */
    bzna_sample sample;
    const char *filename;
    uint32_t    image_count;          /* of images that could be read */
    bzna_image  images[BZNA_IMAGES_MAX];
    bzna_error  err;
} record;

static void record_read(const archive *a, uint64_t index, bytes *buffer, record *r)
{
    memset(r, 0, sizeof *r);
    r->index = index;
    r->err = error_empty();
    r->sample.struct_size = sizeof r->sample;
    if (bzna_dataset_sample(a->dataset, index, &r->sample, &r->err) < 0) return;
    r->located = 1;
    if (sample_filename(a, index, buffer, &r->filename, &r->err) < 0) return;
    if (!r->filename) r->err = error_empty();
    for (uint32_t i = 0; i < r->sample.image_count && i < BZNA_IMAGES_MAX; i++) {
        r->images[i].struct_size = sizeof r->images[i];
        if (bzna_dataset_image(a->dataset, index, r->sample.image_names[i], NULL, 0, &r->images[i], &r->err) < 0) return;
        r->image_count = i + 1;
    }
}

static void record_json(const record *r)
{
    printf("{\"index\":%" PRIu64, r->index);
    if (r->located) {
        if (r->sample.target == BZNA_TARGET_NONE) printf(",\"target\":null");
        else                                      printf(",\"target\":%" PRId64, r->sample.target);
        printf(",\"filename\":");
        json_string(r->filename);
        printf(",\"offset\":%" PRIu64 ",\"size\":%" PRIu64 ",\"images\":{", r->sample.offset, r->sample.size);
        for (uint32_t i = 0; i < r->image_count; i++) {
            const bzna_image *image = &r->images[i];
            if (i) putchar(',');
            json_string(r->sample.image_names[i]);
            printf(":{\"codec\":");
            json_string(fourcc(image->fourcc).text);
            printf(",\"width\":%" PRIu32 ",\"height\":%" PRIu32 ",\"frame_width\":%" PRIu32 ",\"frame_height\":%" PRIu32
                   ",\"payload_offset\":%" PRIu64 ",\"payload_size\":%" PRIu64 "}",
                   image->width, image->height, image->frame_width, image->frame_height, image->data_offset, image->data_size);
        }
        putchar('}');
    }
    if (r->err.status < 0) {
        printf(",\"error\":");
        json_string(r->err.message);
    }
    putchar('}');
}

static void record_plain(const record *r)
{
    char target[24] = "-", sizes[BZNA_IMAGES_MAX + 1][32] = { "-", "-" };
    if (!r->located) {
        printf("%8" PRIu64 "  ", r->index);
        print_plain(stdout, r->err.message);
        putchar('\n');
        return;
    }
    if (r->sample.target != BZNA_TARGET_NONE) snprintf(target, sizeof target, "%" PRId64, r->sample.target);
    for (uint32_t i = 0; i < r->image_count; i++)
        snprintf(sizes[i], sizeof sizes[i], "%" PRIu32 "x%" PRIu32, r->images[i].width, r->images[i].height);
    printf("%8" PRIu64 " %8s %11" PRIu64 " %-5s %-11s %-11s ", r->index, target, r->sample.size,
           r->image_count ? fourcc(r->images[0].fourcc).text : "-", sizes[0], sizes[1]);
    print_plain(stdout, r->filename ? r->filename : "-");
    if (r->err.status < 0) {
        printf("  ");
        print_plain(stdout, r->err.message);
    }
    putchar('\n');
}

static int run_list(const options *o)
{
    archive a;
    bytes buffer = { NULL, 0 };
    uint64_t bad = 0;
    if (archive_open(&a, o->operand[0])) return EXIT_INPUT;
    if (o->json) putchar('[');
    else         printf("%8s %8s %11s %-5s %-11s %-11s %s\n", "index", "target", "bytes", "codec", "picture", "thumbnail", "file name");
    for (uint64_t i = 0; i < a.count && !ferror(stdout); i++) {
        record r;
        record_read(&a, i, &buffer, &r);
        bad += r.err.status < 0;
        if (o->json) fputs(i ? ",\n " : "\n ", stdout), record_json(&r);
        else         record_plain(&r);
    }
    if (o->json) puts("\n]");
    free(buffer.data);
    archive_close(&a);
    return bad ? complain("%s: %" PRIu64 " of %" PRIu64 " samples are damaged", o->operand[0], bad, a.count) : EXIT_OK;
}


/* ---- 5. Extract --------------------------------------------------------------------------------------------------------- */

typedef struct plane_size { uint32_t width, height; } plane_size;      /* width in bytes */

/* Of plane 0, 1 or 2 of the whole frame. */
static plane_size picture_plane(const bzna_picture *p, int plane)
{
    uint32_t each = p->depth > 8 ? 2 : 1;
    if (!plane) return (plane_size){ p->frame_width * each, p->frame_height };
    if (!p->plane[plane]) return (plane_size){ 0, 0 };
    return (plane_size){ ((p->frame_width + (1u << p->chroma_shift_x) - 1) >> p->chroma_shift_x) * each,
                         (p->frame_height + (1u << p->chroma_shift_y) - 1) >> p->chroma_shift_y };
}

/* MD5 of the whole frame's planes, as hexadecimal digits. */
static void picture_md5(const bzna_picture *p, char text[33])
{
    uint8_t digest[16];
    struct AVMD5 *md5 = checked(av_md5_alloc());
    av_md5_init(md5);
    for (int plane = 0; plane < 3; plane++) {
        plane_size size = picture_plane(p, plane);
        for (uint32_t y = 0; y < size.height; y++)
            av_md5_update(md5, (const uint8_t *)p->plane[plane] + (ptrdiff_t)p->pitch[plane] * (ptrdiff_t)y, size.width);
    }
    av_md5_final(md5, digest);
    av_free(md5);
    for (int i = 0; i < 16; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

static int extract_ppm(const bzna_picture *picture, const char *path)
{
    bzna_error err = error_empty();
    bzna_transform transform;
    bzna_output render = { .struct_size = sizeof render, .width = picture->width, .height = picture->height,
                           .dtype = BZNA_DTYPE_FLOAT32, .layout = BZNA_LAYOUT_NCHW };
    size_t area = (size_t)picture->width * picture->height;
    float *planes = checked(malloc(area * 3 * sizeof(float)));
    uint8_t *rgb = checked(malloc(area * 3));
    bzna_transform_init(&transform, sizeof transform);
    int result = EXIT_OK;
    if (bzna_picture_render(picture, &transform, &render, planes, area * 3 * sizeof(float), &err) < 0) {
        result = complain("%s", err.message);
    } else {
        rgb_from_planes(planes, picture->width, picture->height, rgb, (size_t)picture->width * 3);
        result = ppm_write(path, rgb, picture->width, picture->height);
    }
    free(planes);
    free(rgb);
    return result;
}

static int extract_planes(const bzna_picture *picture, const char *path)
{
    output out;
    if (output_open(&out, path)) return EXIT_INPUT;
    for (int plane = 0; plane < 3; plane++) {
        plane_size size = picture_plane(picture, plane);
        for (uint32_t y = 0; y < size.height; y++)
            fwrite((const uint8_t *)picture->plane[plane] + (ptrdiff_t)picture->pitch[plane] * (ptrdiff_t)y, 1, size.width, out.file);
    }
    return output_close(&out);
}

/* A sample's AV1 units as a file. That begins with a temporal delimiter, which samples of an mp4 leave out, and each
 * unit tells its size, which the last of a sample need not do ("AV1 Bitstream & Decoding Process Specification", 5.2;
 * "AV1 Codec ISO Media File Format Binding", 2.4). dst has room for size + 16 bytes. Returns how many are written, 0 if
 * a unit does not fit into the sample. */
static size_t av1_stream(const uint8_t *src, size_t size, uint8_t *dst)
{
    enum { TEMPORAL_DELIMITER = 2, HAS_EXTENSION = 4, HAS_SIZE = 2 };
    size_t written = 0;
    dst[written++] = TEMPORAL_DELIMITER << 3 | HAS_SIZE;
    dst[written++] = 0;
    for (size_t at = 0; at < size;) {
        size_t header = src[at] & HAS_EXTENSION ? 2 : 1, payload = at + header;
        if (payload > size) return 0;
        uint64_t length = size - payload;
        if (src[at] & HAS_SIZE) {
            int shift = 0, more = 1;
            for (length = 0; more; shift += 7) {
                if (payload == size || shift > 49) return 0;
                length |= (uint64_t)(src[payload] & 127) << shift;
                more = src[payload++] & 128;
            }
        }
        if (length > size - payload) return 0;
        if ((src[at] >> 3 & 15) != TEMPORAL_DELIMITER) {
            memcpy(dst + written, src + at, header);
            dst[written] |= HAS_SIZE;
            written += header;
            for (uint64_t left = length, first = 1; left || first; left >>= 7, first = 0)
                dst[written++] = (uint8_t)((left & 127) | (left > 127 ? 128 : 0));
            memcpy(dst + written, src + payload, (size_t)length);
            written += (size_t)length;
        }
        at = payload + (size_t)length;
    }
    return written;
}

static int extract_stream(const bzna_image *image, const char *path)
{
    bzna_error err = error_empty();
    output out = { path, NULL };
    size_t size = 0;
    bzna_status status = bzna_image_annexb(image, NULL, 0, &size, &err);
    if (status < 0 && status != BZNA_E_BUFFER) return complain("%s", err.message);
    uint8_t *units = checked(malloc(size ? size : 1)), *stream = checked(malloc(size + 16));
    int result = bzna_image_annexb(image, units, size, &size, &err) < 0 ? complain("%s", err.message) : EXIT_OK;
    if (result == EXIT_OK && image->codec == BZNA_CODEC_AV1) {
        size = av1_stream(units, size, stream);
        if (!size) result = complain("%s: not written: an AV1 unit is longer than the sample", path);
    } else {
        memcpy(stream, units, size);
    }
    if (result == EXIT_OK) result = output_open(&out, path);
    if (result == EXIT_OK) {
        fwrite(stream, 1, size, out.file);
        result = output_close(&out);
    }
    free(units);
    free(stream);
    return result;
}

typedef enum extract_format { EXTRACT_NONE, EXTRACT_PPM, EXTRACT_YUV, EXTRACT_STREAM, EXTRACT_UNKNOWN } extract_format;

typedef struct extension {
    const char    *text;
    extract_format format;
    uint32_t       codec;
} extension;

static const extension extensions[] = {
    { ".ppm",  EXTRACT_PPM, 0 },
    { ".yuv",  EXTRACT_YUV, 0 },
    { ".h265", EXTRACT_STREAM, BZNA_CODEC_H265 },
    { ".265",  EXTRACT_STREAM, BZNA_CODEC_H265 },
    { ".hevc", EXTRACT_STREAM, BZNA_CODEC_H265 },
    { ".h264", EXTRACT_STREAM, BZNA_CODEC_H264 },
    { ".264",  EXTRACT_STREAM, BZNA_CODEC_H264 },
    { ".obu",  EXTRACT_STREAM, BZNA_CODEC_AV1 },
};

static extension extension_of(const char *path)
{
    if (!path) return (extension){ NULL, EXTRACT_NONE, 0 };
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < LENGTH(extensions); i++)
        if (!strcmp(dot, extensions[i].text)) return extensions[i];
    return (extension){ NULL, EXTRACT_UNKNOWN, 0 };
}

static void extract_report(const options *o, const char *track, uint64_t index, const bzna_picture *p)
{
    char md5[33] = "";
    if (o->md5) picture_md5(p, md5);
    if (o->json) {
        printf("{\"index\":%" PRIu64 ",\"track\":", index);
        json_string(track);
        printf(",\"width\":%" PRIu32 ",\"height\":%" PRIu32 ",\"frame_width\":%" PRIu32 ",\"frame_height\":%" PRIu32 ",\"md5\":",
               p->width, p->height, p->frame_width, p->frame_height);
        json_string(o->md5 ? md5 : NULL);
        puts("}");
    } else if (o->md5) {
        puts(md5);
    }
}

/* Without a wish, the full picture; of a plain mp4, whose video has a name of its own, that. */
static const char *extract_track(const options *o, const archive *a, uint64_t index, bzna_sample *sample)
{
    bzna_error err = error_empty();
    sample->struct_size = sizeof *sample;
    if (o->track || bzna_dataset_sample(a->dataset, index, sample, &err) < 0 || sample->image_count != 1)
        return o->track ? o->track : "bzna_input";
    return sample->image_names[0];
}

static int extract_sample(const options *o, const archive *a, uint64_t index, const extension *as)
{
    bzna_error err = error_empty();
    bytes buffer = { NULL, 0 };
    bzna_image image;
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_decoder *decoder = NULL;
    bzna_sample sample;
    const char *track = extract_track(o, a, index, &sample);
    int result = EXIT_OK;
    if (sample_load(a, index, track, &buffer, &image, &err) < 0) {
        result = complain("%s", err.message);
    } else if (as->format == EXTRACT_STREAM && as->codec != image.codec) {
        result = complain("%s: sample %" PRIu64 " is coded as %s: not what %s asks for", o->operand[0], index,
                          fourcc(image.fourcc).text, as->text);
    } else if (as->format == EXTRACT_STREAM) {
        result = extract_stream(&image, o->out);
    }
    if (result == EXIT_OK && (as->format != EXTRACT_STREAM || o->md5 || o->json)) {
        if (bzna_decoder_open(a->context, &decoder, &err) < 0 || bzna_decoder_decode(decoder, &image, &picture, &err) < 0)
            result = complain("%s: sample %" PRIu64 ": %s", o->operand[0], index, err.message);
        else if (as->format == EXTRACT_PPM) result = extract_ppm(&picture, o->out);
        else if (as->format == EXTRACT_YUV) result = extract_planes(&picture, o->out);
        if (result == EXIT_OK) extract_report(o, track, index, &picture);
    }
    bzna_decoder_close(decoder);
    free(buffer.data);
    return result;
}

static int run_extract(const options *o)
{
    archive a;
    char *end = NULL;
    errno = 0;
    uint64_t index = strtoull(o->operand[1], &end, 10);
    if (end == o->operand[1] || *end || errno || o->operand[1][0] == '-') {
        complain("INDEX must be a number from 0, not \"%s\"", o->operand[1]);
        return EXIT_USAGE;
    }
    extension as = extension_of(o->out);
    if (as.format == EXTRACT_UNKNOWN) {
        complain("%s: the name must end in .ppm, .yuv, .h265, .h264 or .obu", o->out);
        return EXIT_USAGE;
    }
    if (as.format == EXTRACT_NONE && !o->md5 && !o->json) {
        complain("nothing to do: give -o or --md5");
        return EXIT_USAGE;
    }
    if (archive_open(&a, o->operand[0])) return EXIT_INPUT;
    int result = extract_sample(o, &a, index, &as);
    archive_close(&a);
    return result;
}


/* ---- 6. Verify ---------------------------------------------------------------------------------------------------------- */

typedef struct bad_sample {
    uint64_t    index;
    bzna_status status;
    char       *message;
} bad_sample;

/* Shared by the checking threads; lock guards next and what follows it. */
typedef struct checking {
    const archive  *archive;
    int             decode;
    pthread_mutex_t lock;
    uint64_t        next, done;
    bad_sample     *bad;
    size_t          bad_count, bad_room;
    progress        progress;
} checking;

/* One sample: its index entries, boxes and ranges; with a decoder its pictures too. */
static bzna_status check_sample(const archive *a, uint64_t index, bzna_decoder *decoder, bytes *buffer, bzna_error *err)
{
    const char *filename;
    int64_t target;
    bzna_sample sample = { .struct_size = sizeof sample };
    bzna_image image = { .struct_size = sizeof image }, last = { 0 };
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_status status;
    if ((status = bzna_dataset_sample(a->dataset, index, &sample, err)) < 0 ||
        (status = bzna_dataset_target(a->dataset, index, &target, err)) < 0 ||
        (status = sample_filename(a, index, buffer, &filename, err)) < 0) return status;
    for (uint32_t i = 0; i < sample.image_count && i < BZNA_IMAGES_MAX; i++) {
        const char *track = sample.image_names[i];
        if (!decoder) {
            if ((status = bzna_dataset_image(a->dataset, index, track, NULL, 0, &image, err)) < 0) return status;
            continue;
        }
        if ((status = sample_load(a, index, track, buffer, &image, err)) < 0) return status;
        /* A small picture is its own thumbnail: the same bytes need not be decoded again. */
        if (i && image.data_offset == last.data_offset && image.data_size == last.data_size && image.frame_width == last.frame_width &&
            image.frame_height == last.frame_height) continue;
        if ((status = bzna_decoder_decode(decoder, &image, &picture, err)) < 0) return status;
        last = image;
    }
    if (sample.image_count) return BZNA_OK;
    snprintf(err->message, sizeof err->message, "the sample holds no picture");
    return err->status = BZNA_E_NOT_FOUND;
}

static void check_note(checking *c, uint64_t index, const bzna_error *err, bzna_status status)
{
    if (c->bad_count == c->bad_room) {
        c->bad_room = c->bad_room ? 2 * c->bad_room : 16;
        c->bad = checked(realloc(c->bad, c->bad_room * sizeof *c->bad));
    }
    c->bad[c->bad_count++] = (bad_sample){ index, status, text_make("%s", err->message[0] ? err->message : bzna_status_text(status)) };
}

static void *check_thread(void *argument)
{
    checking *c = argument;
    bytes buffer = { NULL, 0 };
    bzna_decoder *decoder = NULL;
    if (c->decode) bzna_decoder_open(c->archive->context, &decoder, NULL);     /* run_verify has tried whether it can be */
    for (;;) {
        pthread_mutex_lock(&c->lock);
        uint64_t index = c->next < c->archive->count ? c->next++ : UINT64_MAX;
        pthread_mutex_unlock(&c->lock);
        if (index == UINT64_MAX) break;
        bzna_error err = error_empty();
        bzna_status status = c->decode && !decoder ? BZNA_E_MEMORY : check_sample(c->archive, index, decoder, &buffer, &err);
        pthread_mutex_lock(&c->lock);
        if (status < 0) check_note(c, index, &err, status);
        progress_show(&c->progress, ++c->done);
        pthread_mutex_unlock(&c->lock);
    }
    bzna_decoder_close(decoder);
    free(buffer.data);
    return NULL;
}

static int bad_order(const void *a, const void *b)
{
    uint64_t x = ((const bad_sample *)a)->index, y = ((const bad_sample *)b)->index;
    return (x > y) - (x < y);
}

static void verify_report(const options *o, const checking *c)
{
    if (o->json) printf("{\"samples\":%" PRIu64 ",\"bad\":[", c->archive->count);
    for (size_t i = 0; i < c->bad_count; i++) {
        const bad_sample *bad = &c->bad[i];
        if (o->json) {
            printf("%s\n {\"index\":%" PRIu64 ",\"status\":", i ? "," : "", bad->index);
            json_string(bzna_status_name(bad->status));
            printf(",\"message\":");
            json_string(bad->message);
            putchar('}');
        } else {
            printf("sample %" PRIu64 ": %s: ", bad->index, bzna_status_name(bad->status));
            print_plain(stdout, bad->message);
            putchar('\n');
        }
    }
    if (o->json) puts(c->bad_count ? "\n]}" : "]}");
    else if (!c->bad_count) printf("%" PRIu64 " samples, all %s\n", c->archive->count, o->decode ? "decoded" : "in order");
}

/* Runs body(argument) on `count` threads, this one among them. */
static void threads_run(int64_t count, void *(*body)(void *), void *argument)
{
    pthread_t *threads = checked(calloc((size_t)count, sizeof *threads));
    int64_t started = 0;
    while (started < count - 1 && !pthread_create(&threads[started], NULL, body, argument)) started++;
    body(argument);
    for (int64_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    free(threads);
}

static int run_verify(const options *o)
{
    archive a;
    bzna_decoder *decoder = NULL;
    bzna_error err = error_empty();
    if (archive_open(&a, o->operand[0])) return EXIT_INPUT;
    if (o->decode && bzna_decoder_open(a.context, &decoder, &err) < 0) {
        archive_close(&a);
        return complain("%s", err.message);
    }
    bzna_decoder_close(decoder);
    checking c = { .archive = &a, .decode = o->decode != 0, .progress = progress_start("samples", a.count) };
    pthread_mutex_init(&c.lock, NULL);
    threads_run(o->jobs ? o->jobs : processors(), check_thread, &c);
    pthread_mutex_destroy(&c.lock);
    progress_end(&c.progress);
    if (c.bad_count) qsort(c.bad, c.bad_count, sizeof *c.bad, bad_order);
    verify_report(o, &c);
    int result = c.bad_count ? complain("%s: %zu of %" PRIu64 " samples are damaged", o->operand[0], c.bad_count, a.count) : EXIT_OK;
    for (size_t i = 0; i < c.bad_count; i++) free(c.bad[i].message);
    free(c.bad);
    archive_close(&a);
    return result;
}


/* ---- 7. Batch ----------------------------------------------------------------------------------------------------------- */

static uint32_t decoder_code(const char *name)
{
    return !strcmp(name, "software") ? BZNA_DECODER_SOFTWARE : !strcmp(name, "nvdec") ? BZNA_DECODER_NVDEC : BZNA_DECODER_AUTO;
}

static uint32_t output_code(const char *name)
{
    return !strcmp(name, "host") ? BZNA_OUTPUT_HOST : !strcmp(name, "device") ? BZNA_OUTPUT_DEVICE : BZNA_OUTPUT_AUTO;
}

static uint32_t warp_code(const char *name)
{
    return !strcmp(name, "random") ? BZNA_WARP_RANDOM_RESIZED_CROP :
           !strcmp(name, "center") ? BZNA_WARP_CENTER_RESIZED_CROP : BZNA_WARP_NONE;
}

static int folder_make(const char *path)
{
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && is_folder(path))) return EXIT_OK;
    return complain("%s: cannot be made: %s", path, strerror(errno));
}

enum { CONTACT_GAP_PX = 2 };

/* Writes each picture, and all of them side by side. */
static int batch_write(const bzna_batch_info *info, const char *folder)
{
    uint32_t height = (uint32_t)info->shape[2], width = (uint32_t)info->shape[3], columns = 1;
    while (columns * columns < info->count) columns++;
    uint32_t rows = (info->count + columns - 1) / columns;
    uint32_t sheet_width = columns * (width + CONTACT_GAP_PX) - CONTACT_GAP_PX;
    uint32_t sheet_height = rows * (height + CONTACT_GAP_PX) - CONTACT_GAP_PX;
    uint8_t *sheet = checked(calloc((size_t)sheet_width * sheet_height, 3)), *rgb = checked(malloc((size_t)width * height * 3));
    int result = EXIT_OK;
    for (uint32_t slot = 0; slot < info->count && result == EXIT_OK; slot++) {
        const float *planes = (const float *)info->data + (size_t)slot * 3 * width * height;
        char *path = text_make("%s/%05" PRIu32 ".ppm", folder, slot);
        uint8_t *corner = sheet + ((size_t)(slot / columns) * (height + CONTACT_GAP_PX) * sheet_width +
                                   (size_t)(slot % columns) * (width + CONTACT_GAP_PX)) * 3;
        rgb_from_planes(planes, width, height, rgb, (size_t)width * 3);
        rgb_from_planes(planes, width, height, corner, (size_t)sheet_width * 3);
        result = ppm_write(path, rgb, width, height);
        free(path);
    }
    if (result == EXIT_OK) {
        char *path = text_make("%s/contact.ppm", folder);
        result = ppm_write(path, sheet, sheet_width, sheet_height);
        free(path);
    }
    free(sheet);
    free(rgb);
    return result;
}

static void batch_row(const archive *a, const bzna_batch *batch, const bzna_batch_info *info, uint32_t slot, int json, bytes *buffer)
{
    bzna_error err = error_empty();
    const char *filename = NULL;
    char target[24] = "-";
    if (info->targets[slot] != BZNA_TARGET_NONE) snprintf(target, sizeof target, "%" PRId64, info->targets[slot]);
    sample_filename(a, info->indices[slot], buffer, &filename, NULL);
    if (info->status[slot] < 0) bzna_batch_error(batch, slot, &err);
    if (json) {
        printf("%s\n {\"slot\":%" PRIu32 ",\"index\":%" PRIu64 ",\"target\":%s,\"filename\":", slot ? "," : "", slot, info->indices[slot],
               info->targets[slot] == BZNA_TARGET_NONE ? "null" : target);
        json_string(filename);
        if (info->status[slot] < 0) printf(",\"error\":"), json_string(err.message);
        putchar('}');
        return;
    }
    printf("%5" PRIu32 " %8" PRIu64 " %8s  ", slot, info->indices[slot], target);
    print_plain(stdout, filename ? filename : "-");
    if (info->status[slot] < 0) printf("  "), print_plain(stdout, err.message);
    putchar('\n');
}

static void batch_report(const options *o, const archive *a, bzna_loader *loader, const bzna_batch *batch, const bzna_batch_info *info)
{
    bytes buffer = { NULL, 0 };
    bzna_loader_info who = { .struct_size = sizeof who };
    bzna_loader_describe(loader, &who, sizeof who);
    if (o->json) {
        printf("{\"decoder\":");
        json_string(who.decoder_name);
        printf(",\"reason\":");
        json_string(who.decoder_reason);
        printf(",\"sessions\":%" PRIu32 ",\"slots\":[", who.sessions);
    } else {
        printf("decoder  %s: %s\n\n%5s %8s %8s  %s\n", who.decoder_name, who.decoder_reason, "slot", "sample", "target", "file name");
    }
    for (uint32_t slot = 0; slot < info->count; slot++) batch_row(a, batch, info, slot, o->json != 0, &buffer);
    if (o->json) puts("\n]}");
    free(buffer.data);
}

static int run_batch(const options *o)
{
    archive a;
    bzna_error err = error_empty();
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_loader_config config;
    int result = EXIT_OK;
    if (archive_open_on(&a, o->operand[0], (int32_t)o->device, (uint32_t)o->sessions)) return EXIT_INPUT;
    bzna_loader_config_init(&config, sizeof config);
    config.batch_size = (uint32_t)o->batch;
    config.width = config.height = (uint32_t)o->size;
    config.seed = (uint64_t)o->seed;
    config.order = o->shuffle ? BZNA_ORDER_SHUFFLE : BZNA_ORDER_SEQUENTIAL;
    config.warp = warp_code(o->warp);
    config.flip_h = (float)o->flip;
    config.track = o->track;
    config.batches_in_flight = 1;
    config.decoder = decoder_code(o->decoder);
    config.output = BZNA_OUTPUT_HOST;             /* whoever decodes, the pixels are to be written */
    if (bzna_loader_open(a.context, a.dataset, &config, &loader, &err) < 0 ||
        bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err) < 0) {
        result = complain("%s", err.message);
    } else if (batch && (result = folder_make(o->out)) == EXIT_OK) {
        bzna_batch_info info = { .struct_size = sizeof info };
        bzna_batch_describe(batch, &info, sizeof info);
        result = batch_write(&info, o->out);
        if (result == EXIT_OK) batch_report(o, &a, loader, batch, &info);
        if (result == EXIT_OK && info.failed) result = complain("%" PRIu32 " of %" PRIu32 " samples failed", info.failed, info.count);
    }
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    archive_close(&a);
    return result;
}


/* ---- 8. Bench -----------------------------------------------------------------------------------------------------------
 *
 * Two rates of one machine in one run: the whole loader (read, parse, decode, warp, batch), and a bare decoder on each of as many
 * threads, fed from memory. Their ratio says what the library costs on top of decoding. They take turns in short slices, so that
 * whatever else the machine does hits both.
 *
 * How the loader is paused and counted: nobody takes batches during the decoders' slice, so it fills its bounded number of batches
 * and stops by itself; the slice begins only when its sample counter stands still. When its turn comes again, the batches that lay
 * ready, and the first one made after them, are taken without being counted, and the clock starts when that one arrives: from then
 * to the last batch counted, as much work is under way at the beginning as at the end, and none of it was done during the pause.
 * Each decoder thread counts the pictures and the time that it was busy itself, whole pictures only.
 *
 * Where NVDEC decodes there is nothing to take turns with, and one slice lasts all the time. Batches on the device are given back at once: each was
 * waited for as far as decoding goes, but its warp may still lie in a stream. So the time that closing the loader takes, which waits
 * for all streams, is counted, too. */

enum { BENCH_UNITS_MAX = 4096, BENCH_SLICES_MIN = 4, BENCH_SLICES_MAX = 20 };
static const uint64_t bench_memory_bytes = UINT64_C(256) << 20;

/* One coded picture in memory. */
typedef struct unit {
    bytes      buffer;
    bzna_image image;
} unit;

typedef struct bench {
    const archive  *archive;
    unit           *units;
    uint32_t        unit_count;
    uint32_t        threads;
    pthread_mutex_t lock;             /* guards what follows */
    pthread_cond_t  changed;
    uint64_t        slice;            /* number of the slice under way, from 1 */
    int64_t         deadline_ns;
    uint32_t        running;          /* threads that have not finished it */
    int             quit;
    uint64_t        loader_pictures, loader_failed;
    int64_t         loader_ns;
    bzna_loader_info  who;
    bzna_loader_stats stats;          /* when all slices were over */
} bench;

typedef struct bench_thread {
    bench        *bench;
    pthread_t     thread;
    bzna_decoder *decoder;
    uint32_t      next;               /* unit */
    uint64_t      pictures, failed;
    int64_t       busy_ns;
} bench_thread;

/* Fills memory with samples of a shuffled order, so that they are as mixed as what the loader meets. */
static int bench_preload(bench *b, const char *track)
{
    bzna_error err = error_empty();
    uint64_t wanted = b->archive->count < BENCH_UNITS_MAX ? b->archive->count : BENCH_UNITS_MAX, total = 0;
    b->units = checked(calloc((size_t)wanted, sizeof *b->units));
    for (uint64_t i = 0; i < wanted && total < bench_memory_bytes; i++) {
        unit *u = &b->units[b->unit_count];
        if (sample_load(b->archive, bzna_permute(0, 0, b->archive->count, i), track, &u->buffer, &u->image, &err) < 0) continue;
        total += u->buffer.size;
        b->unit_count++;
    }
    return b->unit_count ? EXIT_OK : complain("%s", err.message);
}

static void bench_decode_one(bench_thread *t, int counted)
{
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_status status = bzna_decoder_decode(t->decoder, &t->bench->units[t->next].image, &picture, NULL);
    t->next = (t->next + t->bench->threads) % t->bench->unit_count;
    if (counted && status < 0)  t->failed++;
    if (counted && status >= 0) t->pictures++;
}

static void *bench_thread_body(void *argument)
{
    bench_thread *t = argument;
    bench *b = t->bench;
    bench_decode_one(t, 0);                       /* the decoder sets itself up with its first picture */
    for (uint64_t seen = 0;; seen++) {
        pthread_mutex_lock(&b->lock);
        while (b->slice == seen && !b->quit) pthread_cond_wait(&b->changed, &b->lock);
        int quit = b->quit;
        int64_t deadline = b->deadline_ns;
        pthread_mutex_unlock(&b->lock);
        if (quit) return NULL;
        int64_t start = now_ns(), now;
        do {
            bench_decode_one(t, 1);
            now = now_ns();
        } while (now < deadline);
        t->busy_ns += now - start;
        pthread_mutex_lock(&b->lock);
        b->running--;
        pthread_cond_broadcast(&b->changed);
        pthread_mutex_unlock(&b->lock);
    }
}

static void bench_decoder_slice(bench *b, int64_t slice_ns)
{
    pthread_mutex_lock(&b->lock);
    b->running = b->threads;
    b->deadline_ns = now_ns() + slice_ns;
    b->slice++;
    pthread_cond_broadcast(&b->changed);
    while (b->running) pthread_cond_wait(&b->changed, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

/* Takes one batch. Returns its number of pictures, or 0 after complaining. */
static uint32_t bench_take(bench *b, bzna_loader *loader, int counted)
{
    bzna_error err = error_empty();
    bzna_batch *batch = NULL;
    if (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err) != BZNA_OK) return complain("%s", err.message), 0;
    bzna_batch_info info = { .struct_size = sizeof info };
    bzna_batch_describe(batch, &info, sizeof info);
    bzna_batch_release(batch);
    if (counted) b->loader_pictures += info.count, b->loader_failed += info.failed;
    return info.count;
}

static int bench_loader_slice(bench *b, bzna_loader *loader, uint32_t batches_in_flight, int64_t slice_ns)
{
    for (uint32_t i = 0; i <= batches_in_flight; i++)
        if (!bench_take(b, loader, 0)) return EXIT_INPUT;
    int64_t start = now_ns(), now;
    do {
        if (!bench_take(b, loader, 1)) return EXIT_INPUT;
        now = now_ns();
    } while (now - start < slice_ns);
    b->loader_ns += now - start;
    return EXIT_OK;
}

/* Waits until the loader has filled all its batches: a fifth of a second without a sample finished, ten seconds at most. */
static void bench_wait_idle(bzna_loader *loader)
{
    bzna_loader_stats stats = { .struct_size = sizeof stats };
    uint64_t last = UINT64_MAX;
    for (int still = 0, polls = 0; still < 10 && polls < 500; polls++) {
        bzna_loader_statistics(loader, &stats, sizeof stats);
        still = stats.samples == last ? still + 1 : 0;
        last = stats.samples;
        sleep_ns(20000000);
    }
}

/* The pipeline, a line a stage: what limits is busy while its neighbors wait for it. */
static void bench_stages(const bzna_loader_stats *s)
{
    static const char *const names[4] = { "read", "decode", "warp", "deliver" };
    printf("\n%-8s %10s %9s %9s %12s %12s  %s\n", "stage", "count", "MB", "busy s", "waits before", "waits behind", "queue");
    for (int i = 0; i < 4; i++) {
        const bzna_stage_stats *t = &s->stage[i];
        printf("%-8s %10" PRIu64 " %9.1f %9.2f %12.2f %12.2f  %" PRIu64 "/%" PRIu64 "\n", names[i], t->count, (double)t->bytes * 1e-6,
               (double)t->busy_ns * 1e-9, (double)t->wait_before_ns * 1e-9, (double)t->wait_after_ns * 1e-9, t->depth, t->capacity);
    }
    printf("since the loader was opened; readers and decoders rest while decoding alone is timed. %" PRIu64 " samples failed (read %" PRIu64
           ", format %" PRIu64 ", decode %" PRIu64 ", other %" PRIu64 "), %" PRIu64 " reads were tried again\n",
           s->samples_failed, s->failed_read, s->failed_format, s->failed_decode, s->failed_other, s->retries);
}

static void bench_report_json(const options *o, const bench *b, const char *device, double rate, double decode_rate)
{
    static const char *const stages[4] = { "read", "decode", "warp", "deliver" };
    const bzna_loader_stats *s = &b->stats;
    int nvdec = b->who.decoder == BZNA_DECODER_NVDEC;
    printf("{\"images_per_second\":%.2f,\"decode_only_images_per_second\":", rate);
    if (nvdec) fputs("null", stdout);
    else       printf("%.2f", decode_rate);
    printf(",\"decoder\":\"%s\",\"decoder_name\":", nvdec ? "nvdec" : "software");
    json_string(b->who.decoder_name);
    printf(",\"reason\":");
    json_string(b->who.decoder_reason);
    printf(",\"device\":");
    json_string(device[0] ? device : NULL);
    printf(",\"output\":\"%s\",\"dtype\":\"%s\",\"threads\":%" PRIu32 ",\"sessions\":%" PRIu32 ",\"nvdec\":%" PRIu64 ",\"software\":%" PRIu64
           ",\"fallbacks\":%" PRIu64 ",\"decoders_made\":%" PRIu64 ",\"decoders_reconfigured\":%" PRIu64 ",\"sessions_lost\":%" PRIu64
           ",\"limits\":\"%s\",\"samples\":%" PRIu64 ",\"seconds\":%.3f}\n", b->who.device >= 0 ? "device" : "host", o->dtype, b->who.threads,
           b->who.sessions, s->samples_nvdec, s->samples_software, s->fallbacks, s->decoders_made, s->decoders_reconfigured, s->sessions_lost,
           stages[s->limiting_stage & 3], b->archive->count, (double)b->loader_ns * 1e-9);
}

static void bench_report(const options *o, const bench *b, double decode_rate)
{
    const bzna_loader_info *who = &b->who;
    const bzna_loader_stats *s = &b->stats;
    bzna_device_info device = { .struct_size = sizeof device };
    double seconds = (double)b->loader_ns * 1e-9, rate = seconds > 0 ? (double)(b->loader_pictures - b->loader_failed) / seconds : 0;
    if (who->decoder == BZNA_DECODER_NVDEC || who->device >= 0) bzna_context_device(b->archive->context, &device, sizeof device, NULL);
    if (o->json) {
        bench_report_json(o, b, device.name, rate, decode_rate);
        return;
    }
    printf("decoder      %s: %s\n", who->decoder_name, who->decoder_reason);
    printf("loader       %10.1f pictures/s  %" PRIu32 " decoder threads, %" PRIu32 " reader threads, %" PRIu32 " batches in flight, %s in %s, %.1f s\n",
           rate, who->threads, who->reader_threads, who->batches_in_flight, o->dtype, who->device >= 0 ? "device memory" : "host memory", seconds);
    if (who->decoder == BZNA_DECODER_SOFTWARE)
        printf("decode only  %10.1f pictures/s  the loader reaches %.1f %%\n", decode_rate, decode_rate > 0 ? 100 * rate / decode_rate : 0);
    else
        printf("decode only           -             single pictures are decoded in software only\n");
    if (device.name[0]) printf("device       CUDA %" PRId32 ", %s\n", device.device, device.name);
    if (who->sessions)
        printf("NVDEC        %" PRIu32 " sessions, %" PRIu64 " lost; %" PRIu64 " pictures, %" PRIu64 " by libavcodec (%" PRIu64
               " fallbacks); %" PRIu64 " decoders made, %" PRIu64 " reconfigured\n", who->sessions, s->sessions_lost, s->samples_nvdec,
               s->samples_software, s->fallbacks, s->decoders_made, s->decoders_reconfigured);
    bench_stages(s);
}

/* What the loader has counted; and, with batches on the device, what is still under way there is waited for, and the time counted. */
static void bench_end_loader(bench *b, bzna_loader **loader)
{
    b->stats.struct_size = sizeof b->stats;
    bzna_loader_statistics(*loader, &b->stats, sizeof b->stats);
    if (b->who.device < 0) return;
    int64_t start = now_ns();
    bzna_loader_close(*loader);
    *loader = NULL;
    b->loader_ns += now_ns() - start;
}

/* The slices, one of each kind in turn. */
static int bench_measure(const options *o, bench *b, bzna_loader **loader)
{
    const bzna_loader_info *who = &b->who;
    double wanted = 2 * o->seconds;               /* half a second each, mostly */
    int slices = who->decoder != BZNA_DECODER_SOFTWARE ? 1 : wanted < BENCH_SLICES_MIN ? BENCH_SLICES_MIN :
                 wanted > BENCH_SLICES_MAX ? BENCH_SLICES_MAX : (int)wanted;
    int64_t slice_ns = (int64_t)(o->seconds * 1e9) / slices;
    bench_thread *threads = checked(calloc(b->threads, sizeof *threads));
    bzna_error err = error_empty();
    int result = EXIT_OK;
    uint32_t started = 0;
    double decode_rate = 0;
    for (; who->decoder == BZNA_DECODER_SOFTWARE && started < b->threads && result == EXIT_OK; started++) {
        threads[started].bench = b;
        threads[started].next = started % b->unit_count;
        if (bzna_decoder_open(b->archive->context, &threads[started].decoder, &err) < 0) {
            result = complain("%s", err.message);
            break;
        }
        if (pthread_create(&threads[started].thread, NULL, bench_thread_body, &threads[started])) {
            bzna_decoder_close(threads[started].decoder);
            result = complain("a thread could not be started");
            break;
        }
    }
    for (int i = 0; i < slices && result == EXIT_OK; i++) {
        result = bench_loader_slice(b, *loader, who->batches_in_flight, slice_ns);
        if (!started) continue;
        bench_wait_idle(*loader);
        if (result == EXIT_OK) bench_decoder_slice(b, slice_ns);
    }
    bench_end_loader(b, loader);
    pthread_mutex_lock(&b->lock);
    b->quit = 1;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(threads[i].thread, NULL);
        bzna_decoder_close(threads[i].decoder);
        if (threads[i].busy_ns > 0) decode_rate += (double)threads[i].pictures / ((double)threads[i].busy_ns * 1e-9);
    }
    free(threads);
    if (result == EXIT_OK) bench_report(o, b, decode_rate);
    return result;
}

static int run_bench(const options *o)
{
    archive a;
    bzna_error err = error_empty();
    bzna_loader *loader = NULL;
    bzna_loader_config config;
    bench b = { .archive = &a, .who.struct_size = sizeof b.who };
    int result;
    if (archive_open_on(&a, o->operand[0], (int32_t)o->device, (uint32_t)o->sessions)) return EXIT_INPUT;
    pthread_mutex_init(&b.lock, NULL);
    pthread_cond_init(&b.changed, NULL);
    bzna_loader_config_init(&config, sizeof config);
    config.batch_size = (uint32_t)o->batch;
    config.width = config.height = (uint32_t)o->size;
    config.order = BZNA_ORDER_SHUFFLE;
    config.warp = BZNA_WARP_RANDOM_RESIZED_CROP;
    config.flip_h = 0.5f;
    config.epochs = BZNA_EPOCHS_ENDLESS;
    config.threads = (uint32_t)o->threads;
    config.decoder = decoder_code(o->decoder);
    config.output = output_code(o->output);
    if (config.output == BZNA_OUTPUT_AUTO && config.decoder == BZNA_DECODER_SOFTWARE) config.output = BZNA_OUTPUT_HOST;
    config.dtype = !strcmp(o->dtype, "f16") ? BZNA_DTYPE_FLOAT16 : BZNA_DTYPE_FLOAT32;
    config.track = o->track;
    if ((result = bench_preload(&b, o->track)) == EXIT_OK) {
        if (bzna_loader_open(a.context, a.dataset, &config, &loader, &err) < 0) result = complain("%s", err.message);
    }
    if (result == EXIT_OK) {
        bzna_loader_describe(loader, &b.who, sizeof b.who);
        b.threads = b.who.threads;
        bench_wait_idle(loader);
        result = bench_measure(o, &b, &loader);
    }
    if (result == EXIT_OK && b.loader_failed)
        result = complain("%" PRIu64 " of %" PRIu64 " pictures failed: see bzna verify --decode", b.loader_failed, b.loader_pictures);
    bzna_loader_close(loader);
    for (uint32_t i = 0; i < b.unit_count; i++) free(b.units[i].buffer.data);
    free(b.units);
    pthread_cond_destroy(&b.changed);
    pthread_mutex_destroy(&b.lock);
    archive_close(&a);
    return result;
}


/* ---- 9. Devices --------------------------------------------------------------------------------------------------------- */

/* A CUDA device, and why it or its video decoders cannot be used. */
typedef struct gpu {
    bzna_context    *context;         /* NULL: it cannot be used at all */
    bzna_device_info info;
    char             reason[sizeof ((bzna_error *)0)->message];      /* empty: both can */
} gpu;

static gpu gpu_open(uint32_t ordinal)
{
    gpu g = { .info = { .struct_size = sizeof g.info, .device = (int32_t)ordinal } };
    bzna_error err = error_empty();
    bzna_context_config config;
    bzna_context_config_init(&config, sizeof config);
    config.device = (int32_t)ordinal + 1;
    if (bzna_context_open(&config, &g.context, &err) < 0 || bzna_context_device(g.context, &g.info, sizeof g.info, &err) < 0)
        snprintf(g.reason, sizeof g.reason, "%s", err.message);
    else if (g.info.video < 0)
        snprintf(g.reason, sizeof g.reason, "%s", g.info.message);
    return g;
}

static const char *const gpu_codecs[] = { "H.264", "H.265", "AV1" }, *const gpu_chroma[] = { "gray", "4:2:0", "4:2:2", "4:4:4" };

/* What the device takes of one of the kinds 0, 1, ...: each codec, chroma format and depth. Returns 0 behind the last. */
static int gpu_codec(const gpu *g, uint32_t kind, bzna_codec_info *codec)
{
    static const uint32_t depths[] = { 8, 10, 12 };
    uint32_t count = (uint32_t)(LENGTH(gpu_codecs) * LENGTH(gpu_chroma) * LENGTH(depths));
    uint32_t chroma = kind / (uint32_t)LENGTH(depths) % (uint32_t)LENGTH(gpu_chroma), depth = depths[kind % LENGTH(depths)];
    memset(codec, 0, sizeof *codec);
    codec->struct_size = sizeof *codec;
    if (kind >= count) return 0;
    codec->codec = BZNA_CODEC_H264 + kind / (uint32_t)(LENGTH(depths) * LENGTH(gpu_chroma));
    codec->chroma_format = chroma;
    codec->depth = depth;
    if (g->context) bzna_context_codec(g->context, codec->codec, chroma, depth, codec, sizeof *codec, NULL);
    return 1;
}

static void gpu_json(const gpu *g)
{
    const bzna_device_info *d = &g->info;
    bzna_codec_info c;
    printf(" {\"device\":%" PRId32 ",\"name\":", d->device);
    json_string(d->name[0] ? d->name : NULL);
    printf(",\"memory\":%" PRIu64 ",\"compute\":\"%" PRIu32 ".%" PRIu32 "\",\"driver\":\"%" PRIu32 ".%" PRIu32 "\",\"engines\":%" PRIu32 ",\"reason\":",
           d->memory_bytes, d->compute_major, d->compute_minor, d->driver / 1000, d->driver % 1000 / 10, d->engines);
    json_string(g->reason[0] ? g->reason : NULL);
    printf(",\"codecs\":[");
    for (uint32_t i = 0; !g->reason[0] && gpu_codec(g, i, &c); i++)
        printf("%s\n  {\"codec\":\"%s\",\"chroma\":\"%s\",\"depth\":%" PRIu32 ",\"supported\":%s,\"engines\":%" PRIu32 ",\"min_width\":%" PRIu32
               ",\"min_height\":%" PRIu32 ",\"max_width\":%" PRIu32 ",\"max_height\":%" PRIu32 ",\"max_macroblocks\":%" PRIu32 "}", i ? "," : "",
               gpu_codecs[c.codec - BZNA_CODEC_H264], gpu_chroma[c.chroma_format], c.depth, c.supported ? "true" : "false", c.engines, c.min_width,
               c.min_height, c.max_width, c.max_height, c.max_macroblocks);
    printf("]}");
}

static void gpu_plain(const gpu *g)
{
    const bzna_device_info *d = &g->info;
    bzna_codec_info c;
    if (!d->name[0]) {
        printf("CUDA device %" PRId32 " cannot be used: %s\n", d->device, g->reason);
        return;
    }
    printf("CUDA device %" PRId32 ": %s, %.1f GiB, compute capability %" PRIu32 ".%" PRIu32 ", driver for CUDA %" PRIu32 ".%" PRIu32 "\n", d->device,
           d->name, (double)d->memory_bytes / (1 << 30), d->compute_major, d->compute_minor, d->driver / 1000, d->driver % 1000 / 10);
    if (g->reason[0]) {
        printf("no NVDEC: %s\n", g->reason);
        return;
    }
    printf("NVDEC: %" PRIu32 " engines\n\n%-6s %-6s %5s %8s  %-12s %-12s %s\n", d->engines, "codec", "chroma", "depth", "engines", "frames from",
           "to", "macroblocks");
    for (uint32_t i = 0; gpu_codec(g, i, &c); i++) {
        char from[32], to[32];
        if (!c.supported) continue;
        snprintf(from, sizeof from, "%" PRIu32 "x%" PRIu32, c.min_width, c.min_height);
        snprintf(to, sizeof to, "%" PRIu32 "x%" PRIu32, c.max_width, c.max_height);
        printf("%-6s %-6s %5" PRIu32 " %8" PRIu32 "  %-12s %-12s %" PRIu32 "\n", gpu_codecs[c.codec - BZNA_CODEC_H264], gpu_chroma[c.chroma_format],
               c.depth, c.engines, from, to, c.max_macroblocks);
    }
}

/* That there is no GPU, or no driver, is an answer, not a failure. */
static int run_devices(const options *o)
{
    bzna_error err = error_empty();
    uint32_t count = 0;
    bzna_status status = bzna_device_count(&count, &err);
    if (o->json) printf("{\"devices\":[");
    else if (status < 0) printf("no CUDA device: %s\n", err.message);
    for (uint32_t i = 0; status == BZNA_OK && i < count; i++) {
        gpu g = gpu_open(i);
        if (i || o->json) puts(i && o->json ? "," : "");
        if (o->json) gpu_json(&g);
        else         gpu_plain(&g);
        bzna_context_close(g.context);
    }
    if (o->json) {
        printf("],\"reason\":");
        json_string(status < 0 ? err.message : NULL);
        puts("}");
    }
    return EXIT_OK;
}


/* ---- 10. Pack: reading pictures -----------------------------------------------------------------------------------------
 *
 * A file is read whole, libavformat recognizes it by its content (by its name only where content cannot tell, TGA for one), and
 * libavcodec decodes its first picture, strictly: a picture that is cut off or damaged is unreadable, not half gray. Names are
 * never given to libavformat as such: "100%d.jpg" is a file, not a sequence.
 *
 * Turning: the EXIF orientation of JPEG, PNG, WebP and TIFF files is applied, all eight values. It is read here, since what
 * libavcodec tells of it depends on format and version.
 * Color: everything becomes 8-bit 4:2:0, full range, BT.601, chroma centerd, as in JPEG. An alpha channel is dropped, as ffmpeg
 * and PIL's convert("RGB") do: transparent pixels show the color stored in them. Color profiles are not applied. */

enum { EDGE_MAX_PX = 16384 };
static const int64_t file_max_bytes = INT64_C(1) << 30;

/* What libavcodec first complained about on this thread since this was emptied. */
static _Thread_local char av_complaint[200];

static void av_log_quiet(void *object, int level, const char *format, va_list arguments)
{
    (void)object;
    if (level > AV_LOG_ERROR || av_complaint[0]) return;
    if (!strncmp(format, "Unknown or unsupported tag", 26)) return;        /* TIFF's private tags do no harm */
    vsnprintf(av_complaint, sizeof av_complaint, format, arguments);
    av_complaint[strcspn(av_complaint, "\r\n")] = 0;
}

/* A reason as text, from an AVERROR and the complaint that went with it. */
static char *av_reason(const char *what, int code)
{
    char text[AV_ERROR_MAX_STRING_SIZE] = "";
    av_strerror(code, text, sizeof text);
    if (av_complaint[0]) return text_make("%s: %s (%s)", what, av_complaint, text);
    return text_make("%s: %s", what, text);
}

/* Reads a file into a packet. Returns NULL or the reason. */
static char *file_read(const char *path, AVPacket *packet)
{
    struct stat status;
    if (stat(path, &status)) return text_make("cannot be opened: %s", strerror(errno));
    if (!S_ISREG(status.st_mode)) return text_make("not a regular file");
    if (status.st_size == 0) return text_make("the file is empty");
    if (status.st_size > file_max_bytes) return text_make("the file is larger than 1 GiB");
    FILE *file = fopen(path, "rb");
    if (!file) return text_make("cannot be opened: %s", strerror(errno));
    if (av_new_packet(packet, (int)status.st_size) < 0) { fclose(file); return text_make("out of memory"); }
    size_t size = fread(packet->data, 1, (size_t)packet->size, file);
    fclose(file);
    return size == (size_t)packet->size ? NULL : text_make("cannot be read");
}

/* A packet's bytes as libavformat's input. */
typedef struct memory_input {
    const AVPacket *packet;
    int64_t         position;
} memory_input;

static int memory_read(void *user, uint8_t *dst, int size)
{
    memory_input *input = user;
    int64_t left = input->packet->size - input->position;
    if (left <= 0) return AVERROR_EOF;
    if (size > left) size = (int)left;
    memcpy(dst, input->packet->data + input->position, (size_t)size);
    input->position += size;
    return size;
}

static int64_t memory_seek(void *user, int64_t offset, int whence)
{
    memory_input *input = user;
    if (whence == AVSEEK_SIZE) return input->packet->size;
    int64_t position = whence == SEEK_SET ? offset : whence == SEEK_CUR ? input->position + offset : input->packet->size + offset;
    if (position < 0 || position > input->packet->size) return AVERROR(EINVAL);
    return input->position = position;
}

/* A decoder must not allocate a picture that could not be packed. */
static int limited_get_buffer(AVCodecContext *decoder, AVFrame *frame, int flags)
{
    if (frame->width > EDGE_MAX_PX || frame->height > EDGE_MAX_PX) {
        av_log(decoder, AV_LOG_ERROR, "%d x %d pixels: an edge may have %d\n", frame->width, frame->height, (int)EDGE_MAX_PX);
        return AVERROR(EINVAL);
    }
    return avcodec_default_get_buffer2(decoder, frame, flags);
}

/* Decodes the first picture of a packet. Returns NULL or the reason. */
static char *packet_decode(const AVCodecParameters *parameters, const AVPacket *packet, AVFrame *frame)
{
    const AVCodec *codec = avcodec_find_decoder(parameters->codec_id);
    if (!codec) return text_make("no decoder for %s", avcodec_get_name(parameters->codec_id));
    AVCodecContext *decoder = checked(avcodec_alloc_context3(codec));
    int result = avcodec_parameters_to_context(decoder, parameters);
    decoder->thread_count = 1;
    /* Strictly, but for TIFF, where strictness is to refuse unknown tags: there, any complaint counts instead. */
    int is_tiff = parameters->codec_id == AV_CODEC_ID_TIFF;
    decoder->err_recognition = is_tiff ? 0 : AV_EF_CRCCHECK | AV_EF_BITSTREAM | AV_EF_BUFFER | AV_EF_EXPLODE;
    decoder->get_buffer2 = limited_get_buffer;
    if (result >= 0) result = avcodec_open2(decoder, codec, NULL);
    if (result >= 0) result = avcodec_send_packet(decoder, packet);
    if (result >= 0) result = avcodec_send_packet(decoder, NULL);
    if (result >= 0) result = avcodec_receive_frame(decoder, frame);
    avcodec_free_context(&decoder);
    if (result < 0) return av_reason("cannot be decoded", result);
    if (is_tiff && av_complaint[0]) return text_make("the picture is damaged: %s", av_complaint);
    if (frame->width > EDGE_MAX_PX || frame->height > EDGE_MAX_PX)             /* decoders with buffers of their own */
        return text_make("%d x %d pixels: an edge may have %d", frame->width, frame->height, (int)EDGE_MAX_PX);
    if (frame->decode_error_flags || (frame->flags & AV_FRAME_FLAG_CORRUPT)) return text_make("the picture is damaged");
    return NULL;
}

/* Whether a container is one of pictures: a film or a song's cover is not what a folder of pictures is meant to hold. */
static int is_picture_format(const AVFormatContext *format)
{
    const char *name = format->iformat->name;
    size_t length = strlen(name);
    const AVDictionaryEntry *brand = av_dict_get(format->metadata, "major_brand", NULL, 0);
    return (length > 5 && !strcmp(name + length - 5, "_pipe")) || !strcmp(name, "image2pipe") || !strcmp(name, "gif") ||
           !strcmp(name, "apng") || !strcmp(name, "ico") || (brand && !strcmp(brand->value, "avif"));
}

/* Formats that libavformat does not always know by their content. */
static enum AVCodecID codec_by_name(const char *path)
{
    static const struct { const char *extensions; enum AVCodecID codec; } table[] = {
        { "tga", AV_CODEC_ID_TARGA }, { "pcx", AV_CODEC_ID_PCX }, { "ppm|pnm", AV_CODEC_ID_PPM }, { "pgm", AV_CODEC_ID_PGM },
        { "pbm", AV_CODEC_ID_PBM }, { "pam", AV_CODEC_ID_PAM }, { "ras|sun", AV_CODEC_ID_SUNRAST },
    };
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < LENGTH(table); i++)
        if (is_choice(table[i].extensions, dot + 1)) return table[i].codec;
    return AV_CODEC_ID_NONE;
}

/* Opens a file in memory: by content, else by name. */
static int format_open(AVFormatContext **format, const char *path)
{
    AVIOContext *pb = (*format)->pb;
    enum AVCodecID guess = codec_by_name(path);
    int result = avformat_open_input(format, NULL, NULL, NULL);
    if (result >= 0 || guess == AV_CODEC_ID_NONE) return result;
    *format = checked(avformat_alloc_context());         /* a failed opening has freed the first one */
    avio_seek(pb, 0, SEEK_SET);
    (*format)->pb = pb;
    (*format)->video_codec_id = guess;
    return avformat_open_input(format, NULL, av_find_input_format("image2pipe"), NULL);
}

/* A number of `size` bytes at an offset, 0 beyond the end. */
static uint32_t number_at(const uint8_t *data, size_t data_size, size_t offset, size_t size, int little)
{
    uint32_t number = 0;
    if (offset > data_size || size > data_size - offset) return 0;
    for (size_t i = 0; i < size; i++) number = number << 8 | data[offset + (little ? size - 1 - i : i)];
    return number;
}

/* Reads the packet of the first picture; of an icon's the largest, and of several of that size the one with the most
 * bytes, since it has the most colors. */
static int packet_read(AVFormatContext *format, AVPacket *packet)
{
    if (strcmp(format->iformat->name, "ico")) {
        int stream = av_find_best_stream(format, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0);
        return stream < 0 ? stream : av_read_frame(format, packet);
    }
    AVPacket *next = checked(av_packet_alloc());
    uint64_t largest = 0;
    int result;
    while ((result = av_read_frame(format, next)) >= 0) {
        const AVCodecParameters *p = format->streams[next->stream_index]->codecpar;
        size_t size = (size_t)next->size;
        int is_png = p->codec_id == AV_CODEC_ID_PNG;              /* tells its size itself */
        uint64_t width = is_png ? number_at(next->data, size, 16, 4, 0) : (uint64_t)p->width;
        uint64_t area = width * (is_png ? number_at(next->data, size, 20, 4, 0) : (uint64_t)p->height);
        if (!packet->data || area > largest || (area == largest && next->size > packet->size)) {
            av_packet_unref(packet);
            av_packet_move_ref(packet, next);
            largest = area;
        }
        av_packet_unref(next);
    }
    av_packet_free(&next);
    return result == AVERROR_EOF && packet->data ? 0 : result;
}

/* Decodes the first picture of a file in memory, or the largest of an icon. Returns NULL or the reason. */
static char *file_decode(const AVPacket *file, const char *path, AVFrame *frame)
{
    enum { IO_BYTES = 32768 };
    memory_input input = { file, 0 };
    char *reason = NULL;
    AVFormatContext *format = checked(avformat_alloc_context());
    AVIOContext *pb = checked(avio_alloc_context(checked(av_malloc(IO_BYTES)), IO_BYTES, 0, &input, memory_read, NULL, memory_seek));
    format->pb = pb;
    int result = format_open(&format, path);
    av_complaint[0] = 0;
    if (result < 0) {
        reason = text_make("not a picture that libavformat knows");
    } else if (!is_picture_format(format)) {
        reason = text_make("not a picture: %s", format->iformat->long_name);
    } else if (strstr(format->iformat->name, "pipe") && format->nb_streams == 1) {
        reason = packet_decode(format->streams[0]->codecpar, file, frame);        /* the file is one packet */
    } else {
        AVPacket *packet = checked(av_packet_alloc());
        result = packet_read(format, packet);
        reason = result < 0 ? av_reason("cannot be read", result) :
                 packet_decode(format->streams[packet->stream_index]->codecpar, packet, frame);
        av_packet_free(&packet);
    }
    avformat_close_input(&format);
    av_freep(&pb->buffer);
    avio_context_free(&pb);
    return reason;
}

/* The first value of a tag in the first directory of a TIFF structure, which EXIF data is, too; 0 if there is none. */
static uint32_t tiff_value(const uint8_t *data, size_t size, uint32_t tag)
{
    enum { TYPE_BYTE = 1, TYPE_LONG = 4 };
    if (size >= 6 && !memcmp(data, "Exif\0\0", 6)) data += 6, size -= 6;
    if (size < 8 || (memcmp(data, "II*\0", 4) && memcmp(data, "MM\0*", 4))) return 0;
    int little = data[0] == 'I';
    size_t directory = number_at(data, size, 4, 4, little), count = number_at(data, size, directory, 2, little);
    for (size_t i = 0; i < count; i++) {
        size_t entry = directory + 2 + 12 * i;
        if (number_at(data, size, entry, 2, little) != tag) continue;
        uint32_t type = number_at(data, size, entry + 2, 2, little);
        return number_at(data, size, entry + 8, type == TYPE_LONG ? 4 : type == TYPE_BYTE ? 1 : 2, little);
    }
    return 0;
}

static int tiff_orientation(const uint8_t *data, size_t size)
{
    uint32_t value = tiff_value(data, size, 0x0112);
    return value >= 1 && value <= 8 ? (int)value : 1;
}

/* Why a TIFF file must not be given to libavcodec, which makes black pictures of some without a word; or NULL. */
static char *tiff_refuse(const uint8_t *data, size_t size)
{
    enum { COMPRESSION = 259, PHOTOMETRIC = 262, TILE_WIDTH = 322, OLD_JPEG = 6, JPEG = 7, SENSOR = 32803 };
    uint32_t compression = tiff_value(data, size, COMPRESSION);
    if (tiff_value(data, size, PHOTOMETRIC) == SENSOR) return NULL;     /* of these it knows both, or says that it does not */
    if (compression == JPEG || compression == OLD_JPEG)
        return text_make("a TIFF compressed as JPEG, which libavcodec cannot decode");
    if (tiff_value(data, size, TILE_WIDTH)) return text_make("a TIFF in tiles, which libavcodec cannot decode");
    return NULL;
}

/* The orientation in a file: in JPEG's APP1, PNG's eXIf, WebP's EXIF, or TIFF itself; 1 when it has none. */
static int file_orientation(const uint8_t *data, size_t size)
{
    if (size > 4 && data[0] == 0xFF && data[1] == 0xD8) {
        for (size_t at = 2; at + 4 <= size && data[at] == 0xFF && data[at + 1] != 0xDA;) {
            size_t length = number_at(data, size, at + 2, 2, 0);
            if (data[at + 1] == 0xFF) { at++; continue; }                              /* fill bytes */
            if (length < 2 || length > size - at - 2) break;
            if (data[at + 1] == 0xE1 && length >= 8 && !memcmp(data + at + 4, "Exif\0\0", 6))
                return tiff_orientation(data + at + 4, length - 2);
            at += 2 + length;
        }
        return 1;
    }
    int png = size > 8 && !memcmp(data, "\x89PNG\r\n\x1a\n", 8);
    int webp = size > 12 && !memcmp(data, "RIFF", 4) && !memcmp(data + 8, "WEBP", 4);
    if (!png && !webp) return tiff_orientation(data, size);
    for (size_t at = png ? 8 : 12; at + 8 <= size;) {
        size_t length = number_at(data, size, at + (png ? 0 : 4), 4, webp);
        if (length > size - at - 8) break;
        if (!memcmp(data + at + (png ? 4 : 0), png ? "eXIf" : "EXIF", 4)) return tiff_orientation(data + at + 8, length);
        at += 8 + length + (png ? 4 : length & 1);
    }
    return 1;
}


/* ---- 11. Pack: coding pictures -------------------------------------------------------------------------------------------
 *
 * The full picture stands in the top left corner of a frame whose edges are multiples of 512, a picture that does not fit 512x512
 * gets a thumbnail, longest edge 512, in a frame of 512x512; the rest of a frame repeats the picture's last column and row. Each
 * frame is coded alone, by an encoder of its own with one thread: so the bytes depend neither on the pictures before it nor on how
 * many run side by side. (x265 3.5 never gives back 1.2 kB of each encoder: a million pictures cost a good gigabyte.) */

enum { FRAME_STEP_PX = 512 };

static int half_up(int size) { return (size + 1) / 2; }

static AVFrame *frame_make(enum AVPixelFormat format, int width, int height)
{
    AVFrame *frame = checked(av_frame_alloc());
    frame->format = format;
    frame->width = width;
    frame->height = height;
    if (av_frame_get_buffer(frame, 0) < 0) exit(complain("out of memory"));
    return frame;
}

/* A "yuvj" format is its "yuv" format in full range. */
static enum AVPixelFormat plain_format(enum AVPixelFormat format, int *full_range)
{
    static const struct { enum AVPixelFormat old, plain; } table[] = {
        { AV_PIX_FMT_YUVJ420P, AV_PIX_FMT_YUV420P }, { AV_PIX_FMT_YUVJ422P, AV_PIX_FMT_YUV422P },
        { AV_PIX_FMT_YUVJ444P, AV_PIX_FMT_YUV444P }, { AV_PIX_FMT_YUVJ440P, AV_PIX_FMT_YUV440P },
        { AV_PIX_FMT_YUVJ411P, AV_PIX_FMT_YUV411P },
    };
    for (size_t i = 0; i < LENGTH(table); i++)
        if (table[i].old == format) return *full_range = 1, table[i].plain;
    return format;
}

/* Scales src into the top left width x height pixels of dst, full-range BT.601. Returns NULL or the reason. Chroma
 * stays where it is if both edges of both are multiples of what a chroma sample stands for, or if neither size nor
 * subsampling changes: see frame_put. */
static char *frame_scale(const AVFrame *src, AVFrame *dst, int width, int height, int filter)
{
    int full_range = src->color_range == AVCOL_RANGE_JPEG;
    enum AVPixelFormat format = plain_format((enum AVPixelFormat)src->format, &full_range);
    if (!sws_isSupportedInput(format)) return text_make("pixel format %s cannot be converted", av_get_pix_fmt_name(format));
    int matrix = src->colorspace == AVCOL_SPC_RGB || src->colorspace == AVCOL_SPC_UNSPECIFIED ? SWS_CS_ITU601 : (int)src->colorspace;
    struct SwsContext *scaler = checked(sws_alloc_context());
    av_opt_set_int(scaler, "srcw", src->width, 0);
    av_opt_set_int(scaler, "srch", src->height, 0);
    av_opt_set_int(scaler, "src_format", format, 0);
    av_opt_set_int(scaler, "src_range", full_range, 0);
    av_opt_set_int(scaler, "dstw", width, 0);
    av_opt_set_int(scaler, "dsth", height, 0);
    av_opt_set_int(scaler, "dst_format", dst->format, 0);
    av_opt_set_int(scaler, "dst_range", 1, 0);
    av_opt_set_int(scaler, "sws_flags", filter | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INP | SWS_BITEXACT, 0);
    int result = sws_init_context(scaler, NULL, NULL);
    if (result >= 0) {
        sws_setColorspaceDetails(scaler, sws_getCoefficients(matrix), full_range, sws_getCoefficients(SWS_CS_ITU601), 1,
                                 0, 1 << 16, 1 << 16);
        result = sws_scale(scaler, (const uint8_t *const *)src->data, src->linesize, 0, src->height, dst->data, dst->linesize);
    }
    sws_freeContext(scaler);
    return result < 0 ? av_reason("cannot be converted", result) : NULL;
}

/* Whether chroma has planes of its own with fewer samples than luma. Of decoders of pictures, only DDS's packs it. */
static int is_subsampled(const AVFrame *frame)
{
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get((enum AVPixelFormat)frame->format);
    return (format->flags & AV_PIX_FMT_FLAG_PLANAR) && (format->log2_chroma_w || format->log2_chroma_h);
}

typedef struct block { int width, height; } block;

/* The pixels that a whole number of chroma samples stands for, both in the frame's own format and in 4:2:0. */
static block chroma_block(const AVFrame *frame)
{
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get((enum AVPixelFormat)frame->format);
    return (block){ 1 << FFMAX(format->log2_chroma_w, 1), 1 << FFMAX(format->log2_chroma_h, 1) };
}

static int is_whole(const AVFrame *frame)
{
    block b = chroma_block(frame);
    return frame->width % b.width == 0 && frame->height % b.height == 0;
}

/* Makes a planar frame's edges multiples of its chroma block: the last column and row are repeated. */
static void frame_pad(AVFrame **frame)
{
    const AVFrame *src = *frame;
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get((enum AVPixelFormat)src->format);
    block b = chroma_block(src);
    if (is_whole(src)) return;
    AVFrame *dst = frame_make((enum AVPixelFormat)src->format, (src->width + b.width - 1) / b.width * b.width,
                              (src->height + b.height - 1) / b.height * b.height);
    dst->color_range = src->color_range;
    dst->colorspace = src->colorspace;
    for (int i = 0; i < format->nb_components; i++) {
        int plane = format->comp[i].plane, shift_w = i == 1 || i == 2 ? format->log2_chroma_w : 0;
        int shift_h = i == 1 || i == 2 ? format->log2_chroma_h : 0, last = AV_CEIL_RSHIFT(src->height, shift_h) - 1;
        size_t step = (size_t)format->comp[i].step, width = step * (size_t)AV_CEIL_RSHIFT(src->width, shift_w);
        for (int y = 0; y < dst->height >> shift_h; y++) {
            uint8_t *row = dst->data[plane] + (ptrdiff_t)y * dst->linesize[plane];
            memcpy(row, src->data[plane] + (ptrdiff_t)(y < last ? y : last) * src->linesize[plane], width);
            for (size_t x = width; x < step * (size_t)(dst->width >> shift_w); x++) row[x] = row[x - step];
        }
    }
    av_frame_free(frame);
    *frame = dst;
}

/* Replaces *frame by width x height pixels of 4:4:4. */
static char *frame_resize(AVFrame **frame, int width, int height)
{
    AVFrame *full = frame_make(AV_PIX_FMT_YUV444P, width, height);
    int same_size = width == (*frame)->width && height == (*frame)->height;
    char *reason = frame_scale(*frame, full, width, height, same_size ? SWS_AREA : SWS_LANCZOS);
    full->color_range = AVCOL_RANGE_JPEG;
    full->colorspace = AVCOL_SPC_BT470BG;
    av_frame_free(frame);
    *frame = full;
    return reason;
}

/* The same, and chroma stays where it is, whatever the edges. */
static char *frame_full(AVFrame **frame, int width, int height)
{
    int w = (*frame)->width, h = (*frame)->height;
    if (is_subsampled(*frame) && !is_whole(*frame)) {
        frame_pad(frame);
        char *reason = frame_resize(frame, (*frame)->width, (*frame)->height);
        (*frame)->width = w;
        (*frame)->height = h;
        if (reason || (w == width && h == height)) return reason;
    }
    return frame_resize(frame, width, height);
}

/* Puts a picture into the top left corner of a 4:2:0 frame as width x height pixels; beyond them, anything may stand.
 * Returns NULL or the reason. Where an edge is odd, n chroma samples would be scaled to (n + 1) / 2, which stretches
 * them by up to a pixel: then the picture is made even before its chroma is halved, and another size is made in 4:4:4
 * first. */
static char *frame_put(const AVFrame *picture, AVFrame *dst, int width, int height)
{
    int same_size = width == picture->width && height == picture->height, even = width % 2 == 0 && height % 2 == 0;
    int direct = same_size ? even || is_subsampled(picture) : even && (!is_subsampled(picture) || is_whole(picture));
    AVFrame *ready = checked(av_frame_clone(picture));
    char *reason = direct ? NULL : frame_full(&ready, width, height);
    if (!reason && (same_size || !direct)) {
        frame_pad(&ready);
        width = ready->width;
        height = ready->height;
    }
    if (!reason) reason = frame_scale(ready, dst, width, height, same_size ? SWS_AREA : SWS_LANCZOS);
    av_frame_free(&ready);
    return reason;
}

/* Turns a 4:4:4 frame as an EXIF orientation asks. */
static AVFrame *frame_turn(const AVFrame *src, int orientation)
{
    int swap = orientation >= 5, w = src->width, h = src->height;
    int flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;      /* of the source */
    int flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    AVFrame *dst = frame_make((enum AVPixelFormat)src->format, swap ? h : w, swap ? w : h);
    dst->color_range = src->color_range;
    dst->colorspace = src->colorspace;
    for (int plane = 0; plane < 3; plane++)
        for (int y = 0; y < dst->height; y++)
            for (int x = 0; x < dst->width; x++) {
                int from_x = swap ? y : x, from_y = swap ? x : y;
                if (flip_x) from_x = w - 1 - from_x;
                if (flip_y) from_y = h - 1 - from_y;
                dst->data[plane][y * dst->linesize[plane] + x] = src->data[plane][from_y * src->linesize[plane] + from_x];
            }
    return dst;
}

/* Replaces *frame by the turned picture, in 4:4:4 so that no chroma sample has to be split. */
static char *frame_orient(AVFrame **frame, int orientation)
{
    if (orientation == 1) return NULL;
    char *reason = frame_full(frame, (*frame)->width, (*frame)->height);
    if (reason) return reason;
    AVFrame *turned = frame_turn(*frame, orientation);
    av_frame_free(frame);
    *frame = turned;
    return NULL;
}

/* Repeats the last column and row of the top left width x height pixels over the rest of a 4:2:0 frame. */
static void frame_smear(AVFrame *frame, int width, int height)
{
    for (int plane = 0; plane < 3; plane++) {
        int w = plane ? half_up(width) : width, h = plane ? half_up(height) : height;
        int frame_w = plane ? half_up(frame->width) : frame->width, frame_h = plane ? half_up(frame->height) : frame->height;
        ptrdiff_t pitch = frame->linesize[plane];
        uint8_t *top = frame->data[plane], *last = top + (h - 1) * pitch;
        for (uint8_t *row = top; row <= last; row += pitch) memset(row + w, row[w - 1], (size_t)(frame_w - w));
        for (int y = h; y < frame_h; y++) memcpy(top + y * pitch, last, (size_t)frame_w);
    }
}

static AVCodecContext *encoder_make(const options *o, const AVFrame *frame)
{
    int h265 = !strcmp(o->codec, "h265");
    const AVCodec *codec = avcodec_find_encoder_by_name(h265 ? "libx265" : "libx264");
    if (!codec) return NULL;
    AVCodecContext *encoder = checked(avcodec_alloc_context3(codec));
    encoder->width = frame->width;
    encoder->height = frame->height;
    encoder->pix_fmt = AV_PIX_FMT_YUV420P;
    encoder->time_base = (AVRational){ 1, 20 };
    encoder->framerate = (AVRational){ 20, 1 };
    encoder->thread_count = 1;
    encoder->color_range = AVCOL_RANGE_JPEG;
    encoder->color_primaries = AVCOL_PRI_BT709;
    encoder->color_trc = AVCOL_TRC_IEC61966_2_1;
    encoder->colorspace = AVCOL_SPC_BT470BG;
    encoder->chroma_sample_location = AVCHROMA_LOC_CENTER;
    av_opt_set(encoder->priv_data, "preset", o->preset, 0);
    av_opt_set_double(encoder->priv_data, "crf", o->crf, 0);
    /* Each encoder gets one picture. keyint=2, since x265 marks streams of keyint=1 with the profile Main Intra, which hardware
     * decoders need not know; and ref=1, so that a decoder keeps no more surfaces than it must. */
    if (h265) av_opt_set(encoder->priv_data, "x265-params",
                         "log-level=none:pools=none:frame-threads=1:keyint=2:bframes=0:ref=1:rc-lookahead=0:cutree=0:info=0", 0);
    else      av_opt_set(encoder->priv_data, "x264-params", "keyint=1:bframes=0:ref=1:rc-lookahead=0:mbtree=0:threads=1", 0);
    av_opt_set(encoder->priv_data, "profile", h265 ? "main" : "high", 0);
    return encoder;
}

/* The next start code (00) 00 00 01 at or after data + from, or size. */
static size_t start_code(const uint8_t *data, size_t size, size_t from)
{
    for (size_t at = from; at + 3 <= size; at++)
        if (!data[at] && !data[at + 1] && data[at + 2] == 1) return at > from && !data[at - 1] ? at - 1 : at;
    return size;
}

/* Drops SEI from an Annex B access unit: the encoder's banner would be stored with every picture. */
static void drop_sei(AVPacket *packet, int h265)
{
    uint8_t *data = packet->data;
    size_t size = (size_t)packet->size, kept = 0;
    for (size_t at = start_code(data, size, 0); at < size;) {
        size_t next = start_code(data, size, at + 4), header_at = at + (data[at + 2] == 1 ? 3 : 4);
        uint8_t header = header_at < size ? data[header_at] : 0;
        int type = h265 ? header >> 1 & 63 : header & 31;
        if (h265 ? type != 39 && type != 40 : type != 6) {
            memmove(data + kept, data + at, next - at);
            kept += next - at;
        }
        at = next;
    }
    av_shrink_packet(packet, (int)kept);
}

/* Codes one frame as one access unit, parameter sets included. Returns NULL or the reason. */
static char *frame_encode(const options *o, AVFrame *frame, AVPacket *packet)
{
    AVCodecContext *encoder = encoder_make(o, frame);
    if (!encoder) return text_make("this libavcodec has no %s", !strcmp(o->codec, "h265") ? "libx265" : "libx264");
    frame->pts = 0;
    frame->color_range = AVCOL_RANGE_JPEG;
    frame->pict_type = AV_PICTURE_TYPE_I;
    int result = avcodec_open2(encoder, encoder->codec, NULL);
    if (result >= 0) result = avcodec_send_frame(encoder, frame);
    if (result >= 0) result = avcodec_send_frame(encoder, NULL);
    if (result >= 0) result = avcodec_receive_packet(encoder, packet);
    avcodec_free_context(&encoder);
    if (result >= 0 && av_packet_make_writable(packet) < 0) result = AVERROR(ENOMEM);
    if (result < 0) return av_reason("cannot be encoded", result);
    drop_sei(packet, !strcmp(o->codec, "h265"));
    return NULL;
}

/* One picture, coded. */
typedef struct coded {
    AVPacket *packet;                 /* NULL: there is none */
    int       width, height, frame_width, frame_height;
} coded;

/* A picture of any size as width x height pixels in a padded frame. Returns NULL or the reason. */
static char *picture_code(const options *o, const AVFrame *picture, int width, int height, coded *result)
{
    result->width = width;
    result->height = height;
    result->frame_width = (width + FRAME_STEP_PX - 1) / FRAME_STEP_PX * FRAME_STEP_PX;
    result->frame_height = (height + FRAME_STEP_PX - 1) / FRAME_STEP_PX * FRAME_STEP_PX;
    AVFrame *frame = frame_make(AV_PIX_FMT_YUV420P, result->frame_width, result->frame_height);
    char *reason = frame_put(picture, frame, width, height);
    if (!reason) {
        frame_smear(frame, width, height);
        result->packet = checked(av_packet_alloc());
        reason = frame_encode(o, frame, result->packet);
    }
    av_frame_free(&frame);
    return reason;
}

static char *picture_code_both(const options *o, const AVFrame *picture, coded *input, coded *thumb)
{
    int w = picture->width, h = picture->height, longest = w > h ? w : h;
    char *reason = picture_code(o, picture, w, h, input);
    if (reason || longest <= FRAME_STEP_PX) return reason;
    int thumb_w = w * FRAME_STEP_PX / longest, thumb_h = h * FRAME_STEP_PX / longest;
    return picture_code(o, picture, thumb_w ? thumb_w : 1, thumb_h ? thumb_h : 1, thumb);
}

/* A file as a coded picture and, when it does not fit, a thumbnail. Returns NULL or the reason. */
static char *file_code(const options *o, const char *path, coded *input, coded *thumb)
{
    AVPacket *file = checked(av_packet_alloc());
    AVFrame *picture = checked(av_frame_alloc());
    av_complaint[0] = 0;
    char *reason = file_read(path, file);
    if (!reason) reason = tiff_refuse(file->data, (size_t)file->size);
    if (!reason) reason = file_decode(file, path, picture);
    if (!reason) reason = frame_orient(&picture, file_orientation(file->data, (size_t)file->size));
    if (!reason) reason = picture_code_both(o, picture, input, thumb);
    av_frame_free(&picture);
    av_packet_free(&file);
    return reason;
}


/* ---- 12. Pack: folders and threads -------------------------------------------------------------------------------------- */

/* A file to pack. */
typedef struct entry {
    char   *path;
    char   *reason;                   /* why it cannot be packed; NULL: nothing is known against it */
    int64_t target;
} entry;

typedef struct list {
    char **names;
    size_t count, room;
} list;

typedef struct entries {
    entry *list;
    size_t count, room;
    list   classes;
} entries;

static void list_add(list *l, char *name)
{
    if (l->count == l->room) {
        l->room = l->room ? 2 * l->room : 64;
        l->names = checked(realloc(l->names, l->room * sizeof *l->names));
    }
    l->names[l->count++] = name;
}

static void list_free(list *l)
{
    for (size_t i = 0; i < l->count; i++) free(l->names[i]);
    free(l->names);
}

static void entries_add(entries *e, char *path, int64_t target, char *reason)
{
    if (e->count == e->room) {
        e->room = e->room ? 2 * e->room : 64;
        e->list = checked(realloc(e->list, e->room * sizeof *e->list));
    }
    e->list[e->count++] = (entry){ path, reason, target };
}

static int name_order(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int is_digit(char c) { return c >= '0' && c <= '9'; }

/* As name_order, but numbers within the names compare by their values: 2 before 10. */
static int numeric_order(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    while (*x && *y) {
        if (!is_digit(*x) || !is_digit(*y)) {
            if (*x != *y) break;
            x++, y++;
            continue;
        }
        while (*x == '0' && is_digit(x[1])) x++;
        while (*y == '0' && is_digit(y[1])) y++;
        size_t digits_x = 0, digits_y = 0;
        while (is_digit(x[digits_x])) digits_x++;
        while (is_digit(y[digits_y])) digits_y++;
        if (digits_x != digits_y) return digits_x < digits_y ? -1 : 1;
        int order = strncmp(x, y, digits_x);
        if (order) return order;
        x += digits_x, y += digits_y;
    }
    if (*x || *y) return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
    return name_order(a, b);                      /* "1" and "01" */
}

/* The names in a folder, sorted, without those that begin with a dot. Returns 0, or errno. */
static int folder_names(const char *path, list *names)
{
    DIR *folder = opendir(path);
    struct dirent *item;
    if (!folder) return errno;
    while ((item = readdir(folder)))
        if (item->d_name[0] != '.') list_add(names, text_make("%s", item->d_name));
    closedir(folder);
    if (names->count) qsort(names->names, names->count, sizeof *names->names, name_order);
    return 0;
}

enum { FOLDER_DEPTH_MAX = 16 };       /* a symbolic link may lead back up */

/* Adds what a class folder holds, sub-folders included. Consumes path. */
static void folder_collect(entries *e, char *path, int64_t target, int depth)
{
    list names = { NULL, 0, 0 };
    int error = depth > FOLDER_DEPTH_MAX ? ELOOP : folder_names(path, &names);
    if (error) {
        entries_add(e, path, target, text_make("cannot be opened: %s", strerror(error)));
        list_free(&names);
        return;
    }
    for (size_t i = 0; i < names.count; i++) {
        char *inner = text_make("%s/%s", path, names.names[i]);
        if (is_folder(inner)) folder_collect(e, inner, target, depth + 1);
        else                  entries_add(e, inner, target, NULL);
    }
    list_free(&names);
    free(path);
}

/* Whether a folder is called as splits of data sets are: train, val2017. */
static int is_split(const char *name)
{
    static const char *const splits[] = { "train", "training", "val", "valid", "validation", "dev", "test", "testing" };
    for (size_t i = 0; i < LENGTH(splits); i++) {
        size_t length = strlen(splits[i]);
        if (!strncasecmp(name, splits[i], length) && !name[length + strspn(name + length, "0123456789")]) return 1;
    }
    return 0;
}

static int holds_folders(const char *path)
{
    list names = { NULL, 0, 0 };
    int found = 0;
    folder_names(path, &names);
    for (size_t i = 0; i < names.count && !found; i++) {
        char *inner = text_make("%s/%s", path, names.names[i]);
        found = is_folder(inner);
        free(inner);
    }
    list_free(&names);
    return found;
}

/* Refuses splits as classes: where there are two, or one and nothing else, or one that has classes of its own. */
static int classes_check_splits(const list *classes, const char *root)
{
    const char *split = NULL;
    size_t count = 0;
    for (size_t i = 0; i < classes->count; i++)
        if (is_split(classes->names[i])) split = classes->names[i], count++;
    if (!split) return EXIT_OK;
    char *path = text_make("%s/%s", root, split);
    int result = EXIT_OK;
    if (count > 1 || classes->count == 1 || holds_folders(path))
        result = complain("%s: holds splits, not classes: pack each of them by itself, as in `bzna pack %s -o %s.bzna` "
                          "(or rename %s if it is a class)", root, path, split, path);
    free(path);
    return result;
}

/* Puts the classes into the order in which they are numbered. */
static void classes_sort(list *classes, const char *order)
{
    if (!classes->count) return;
    char **names = classes->names;
    if (order && !strcmp(order, "numeric")) qsort(names, classes->count, sizeof *names, numeric_order);
    for (size_t i = 1; i < classes->count && !order; i++) {
        if (numeric_order(&names[i - 1], &names[i]) < 0) continue;
        complain("warning: classes are numbered in the order of their names as text: \"%s\" is class %zu, \"%s\" is "
                 "class %zu; --class-order numeric puts 2 before 10, --class-order text does this without a warning",
                 names[i - 1], i - 1, names[i], i);
        return;
    }
}

/* The files of a data set: each sub-folder is a class; without sub-folders there are no classes. */
static int entries_collect(entries *e, const char *root, const char *class_order)
{
    list names = { NULL, 0, 0 };
    int error = folder_names(root, &names);
    if (error) {
        list_free(&names);
        return complain("%s: cannot be opened: %s", root, strerror(error));
    }
    for (size_t i = 0; i < names.count; i++) {
        char *path = text_make("%s/%s", root, names.names[i]);
        if (!is_folder(path)) {
            entries_add(e, path, BZNA_TARGET_NONE, NULL);
            continue;
        }
        list_add(&e->classes, text_make("%s", names.names[i]));
        free(path);
    }
    list_free(&names);
    for (size_t i = 0; i < e->count && e->classes.count; i++)
        e->list[i].reason = text_make("lies outside every class folder");
    if (classes_check_splits(&e->classes, root)) return EXIT_INPUT;
    classes_sort(&e->classes, class_order);
    for (size_t i = 0; i < e->classes.count; i++)
        folder_collect(e, text_make("%s/%s", root, e->classes.names[i]), (int64_t)i, 0);
    return e->count ? EXIT_OK : complain("%s: there are no files in it", root);
}

static void entries_free(entries *e)
{
    for (size_t i = 0; i < e->count; i++) {
        free(e->list[i].path);
        free(e->list[i].reason);
    }
    free(e->list);
    list_free(&e->classes);
}

/* One place of the window in which pictures are coded ahead of what has been written. */
typedef struct place {
    coded input, thumb;
    int   ready;
} place;

/* Shared by the coding threads and the writing one; lock guards next, written, stop and each place's ready. */
typedef struct packing {
    const options  *options;
    entries        *entries;
    place          *places;
    size_t          window, next, written;
    int             stop;
    pthread_mutex_t lock;
    pthread_cond_t  changed;
} packing;

static void *pack_thread(void *argument)
{
    packing *p = argument;
    for (;;) {
        pthread_mutex_lock(&p->lock);
        while (!p->stop && p->next < p->entries->count && p->next >= p->written + p->window) pthread_cond_wait(&p->changed, &p->lock);
        size_t index = p->stop || p->next >= p->entries->count ? SIZE_MAX : p->next++;
        pthread_mutex_unlock(&p->lock);
        if (index == SIZE_MAX) return NULL;
        entry *e = &p->entries->list[index];
        place *at = &p->places[index % p->window];
        if (!e->reason) e->reason = file_code(p->options, e->path, &at->input, &at->thumb);
        pthread_mutex_lock(&p->lock);
        at->ready = 1;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
    }
}

static bzna_image coded_image(const coded *c, uint32_t codec)
{
    return (bzna_image){
        .struct_size = sizeof(bzna_image), .codec = codec, .width = (uint32_t)c->width, .height = (uint32_t)c->height,
        .frame_width = (uint32_t)c->frame_width, .frame_height = (uint32_t)c->frame_height,
        .color = { .primaries = 1, .transfer = 13, .matrix = 5, .full_range = 1, .present = 1 },
        .data = c->packet->data, .data_size = (uint64_t)c->packet->size,
    };
}

/* Writes one finished picture. A picture that the writer refuses is listed; only a failed write ends it all. */
static int pack_write(const packing *p, entry *e, const place *at, bzna_writer *writer)
{
    bzna_error err = error_empty();
    uint32_t codec = !strcmp(p->options->codec, "h265") ? BZNA_CODEC_H265 : BZNA_CODEC_H264;
    if (e->reason) return EXIT_OK;
    bzna_image input = coded_image(&at->input, codec), thumb = { 0 };
    if (at->thumb.packet) thumb = coded_image(&at->thumb, codec);
    const char *slash = strrchr(e->path, '/');
    bzna_sample_desc sample = { .struct_size = sizeof sample, .has_target = e->target != BZNA_TARGET_NONE, .target = e->target,
                                .filename = slash ? slash + 1 : e->path, .input = &input, .thumb = at->thumb.packet ? &thumb : NULL };
    bzna_status status = bzna_writer_add(writer, &sample, &err);
    if (status == BZNA_E_IO || status == BZNA_E_MEMORY || status == BZNA_E_CALLBACK || status == BZNA_E_STATE)
        return complain("%s", err.message);
    if (status < 0) e->reason = text_make("%s", err.message);
    return EXIT_OK;
}

/* Takes the pictures in order as they become ready. */
static int pack_drain(packing *p, bzna_writer *writer)
{
    progress shown = progress_start("pictures", p->entries->count);
    int result = EXIT_OK;
    for (size_t i = 0; i < p->entries->count && result == EXIT_OK; i++) {
        place *at = &p->places[i % p->window];
        pthread_mutex_lock(&p->lock);
        while (!at->ready) pthread_cond_wait(&p->changed, &p->lock);
        pthread_mutex_unlock(&p->lock);
        result = pack_write(p, &p->entries->list[i], at, writer);
        av_packet_free(&at->input.packet);
        av_packet_free(&at->thumb.packet);
        pthread_mutex_lock(&p->lock);
        memset(at, 0, sizeof *at);
        p->written = i + 1;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
        progress_show(&shown, i + 1);
    }
    progress_end(&shown);
    return result;
}

/* Codes and writes everything. */
static int pack_all(const options *o, entries *e, bzna_writer *writer)
{
    size_t jobs = o->jobs ? (size_t)o->jobs : (size_t)processors(), started = 0;
    packing p = { .options = o, .entries = e, .window = 8 * jobs };
    pthread_t *threads = checked(calloc(jobs, sizeof *threads));
    p.places = checked(calloc(p.window, sizeof *p.places));
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.changed, NULL);
    while (started < jobs && !pthread_create(&threads[started], NULL, pack_thread, &p)) started++;
    int result = started ? pack_drain(&p, writer) : complain("no thread could be started");
    pthread_mutex_lock(&p.lock);
    p.stop = 1;
    pthread_cond_broadcast(&p.changed);
    pthread_mutex_unlock(&p.lock);
    for (size_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    for (size_t i = 0; i < p.window; i++) {
        av_packet_free(&p.places[i].input.packet);
        av_packet_free(&p.places[i].thumb.packet);
    }
    pthread_cond_destroy(&p.changed);
    pthread_mutex_destroy(&p.lock);
    free(p.places);
    free(threads);
    return result;
}

static void pack_report(const options *o, const entries *e, size_t unreadable, double seconds)
{
    struct stat status;
    long long size = stat(o->out, &status) ? 0 : (long long)status.st_size;
    const char *comma = "";
    if (!o->json) {
        printf("%s: %zu pictures, %zu classes, %lld bytes, %.1f s\n", o->out, e->count - unreadable, e->classes.count, size, seconds);
        return;
    }
    printf("{\"samples\":%zu,\"bytes\":%lld,\"seconds\":%.3f,\"classes\":[", e->count - unreadable, size, seconds);
    for (size_t i = 0; i < e->classes.count; i++) {
        if (i) putchar(',');
        json_string(e->classes.names[i]);
    }
    printf("],\"unreadable\":[");
    for (size_t i = 0; i < e->count; i++) {
        if (!e->list[i].reason) continue;
        printf("%s\n {\"file\":", comma);
        json_string(e->list[i].path);
        printf(",\"reason\":");
        json_string(e->list[i].reason);
        putchar('}');
        comma = ",";
    }
    puts("]}");
}

static size_t pack_list_unreadable(const entries *e)
{
    size_t count = 0;
    for (size_t i = 0; i < e->count; i++) {
        if (!e->list[i].reason) continue;
        print_plain(stderr, e->list[i].path);
        fputs(": ", stderr);
        print_plain(stderr, e->list[i].reason);
        fputc('\n', stderr);
        count++;
    }
    return count;
}

/* Opens and locks the file that is written to. A run that is killed leaves its file behind, but no lock, and the next
 * run takes it over. */
static int partial_open(const char *path, int *file)
{
    struct stat opened, named;
    for (int i = 0; i < 10; i++) {
        *file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (*file < 0) return complain("%s: cannot be written: %s", path, strerror(errno));
        if (flock(*file, LOCK_EX | LOCK_NB)) {
            if (errno != EWOULDBLOCK) {
                complain("warning: %s: cannot be locked (%s): no other bzna pack may write it", path, strerror(errno));
                return EXIT_OK;
            }
            break;
        }
        /* Its last owner may have given it its final name between the two calls. */
        if (!fstat(*file, &opened) && !stat(path, &named) &&
            opened.st_dev == named.st_dev && opened.st_ino == named.st_ino) return EXIT_OK;
        close(*file);
        *file = -1;
    }
    if (*file >= 0) close(*file);
    *file = -1;
    return complain("%s: another bzna pack is writing it", path);
}

/* Gives the whole archive its name. */
static int partial_finish(const options *o, const char *partial)
{
    if (!o->overwrite && is_there(o->out))
        return complain("%s: was made by another program meanwhile and is left as it is; the new archive is %s",
                        o->out, partial);
    if (!rename(partial, o->out)) return EXIT_OK;
    int result = complain("%s: cannot be written: %s", o->out, strerror(errno));
    unlink(partial);
    return result;
}

/* Makes a whole archive. */
static int pack_archive(const options *o, entries *e, const char *path, size_t *unreadable)
{
    bzna_context *context = NULL;
    bzna_writer *writer = NULL;
    bzna_error err = error_empty();
    bzna_context_config config;
    int result = EXIT_OK;
    bzna_context_config_init(&config, sizeof config);
    config.device = BZNA_DEVICE_CPU;
    if (bzna_context_open(&config, &context, &err) < 0 || bzna_writer_open(context, path, NULL, &writer, &err) < 0) {
        result = complain("%s", err.message);
    } else {
        av_log_set_callback(av_log_quiet);
        result = pack_all(o, e, writer);
        *unreadable = pack_list_unreadable(e);
        if (result == EXIT_OK && *unreadable == e->count)
            result = complain("%s: none of its %zu files is a readable picture", o->operand[0], e->count);
        if (result == EXIT_OK && bzna_writer_finish(writer, &err) < 0) result = complain("%s", err.message);
    }
    bzna_writer_close(writer);
    bzna_context_close(context);
    return result;
}

/* Writes OUT.partial and gives it its name at the end: a run that breaks off leaves no half archive under that name. */
static int run_pack(const options *o)
{
    entries e = { 0 };
    int64_t start = now_ns();
    size_t unreadable = 0;
    int file = -1;
    char *partial = text_make("%s.partial", o->out);
    int result = is_folder(o->out) ? complain("%s: is a folder", o->out) : partial_open(partial, &file);
    if (result == EXIT_OK && !o->overwrite && is_there(o->out)) {
        complain("%s: is there already; to replace it: bzna pack --overwrite ...", o->out);
        result = EXIT_USAGE;
    }
    if (result == EXIT_OK) result = entries_collect(&e, o->operand[0], o->class_order);
    if (result == EXIT_OK) result = pack_archive(o, &e, partial, &unreadable);
    if (result == EXIT_OK) {
        result = partial_finish(o, partial);
        if (result == EXIT_OK) pack_report(o, &e, unreadable, (double)(now_ns() - start) * 1e-9);
        if (result == EXIT_OK && unreadable) result = complain("%zu of %zu files could not be read and are left out", unreadable, e.count);
    } else if (file >= 0) {
        unlink(partial);
    }
    if (file >= 0) close(file);                   /* and with it the lock */
    entries_free(&e);
    free(partial);
    return result;
}


/* ---- 13. Commands ------------------------------------------------------------------------------------------------------- */

#define PRESETS "ultrafast|superfast|veryfast|faster|fast|medium|slow|slower|veryslow|placebo"

static const option pack_options[] = {
    { "out", 'o', KIND_TEXT, FIELD(out), 0, 0, "OUT.bzna", NULL, "the archive to write; must be given" },
    { "codec", 0, KIND_CHOICE, FIELD(codec), 0, 0, "h265|h264", "h265", "how pictures are coded" },
    { "crf", 0, KIND_REAL, FIELD(crf), 0, 51, "N", "20", "quality, 0..51: less is better and larger" },
    { "preset", 0, KIND_CHOICE, FIELD(preset), 0, 0, PRESETS, "medium", "the encoder's effort" },
    { "jobs", 'j', KIND_INTEGER, FIELD(jobs), 1, 1024, "N", NULL, "coding threads (default: one a processor); does not change the result" },
    { "class-order", 0, KIND_CHOICE, FIELD(class_order), 0, 0, "numeric|text", NULL,
      "folders 0, 1, 2, 10 are numbered in this order, or 0, 1, 10, 2 (default: text, and a warning if they differ)" },
    { "overwrite", 0, KIND_FLAG, FIELD(overwrite), 0, 0, NULL, NULL, "replace OUT.bzna if it is there" },
    OPTION_JSON, OPTION_END
};
static const option json_options[] = { OPTION_JSON, OPTION_END };
static const option extract_options[] = {
    { "out", 'o', KIND_TEXT, FIELD(out), 0, 0, "FILE", NULL, "what to write; its ending says how" },
    { "track", 0, KIND_TEXT, FIELD(track), 0, 0, "NAME", NULL, "which of the sample's pictures, bzna_input or bzna_thumb (default bzna_input)" },
    { "md5", 0, KIND_FLAG, FIELD(md5), 0, 0, NULL, NULL, "print the MD5 of the decoded frame: planes Y, Cb, Cr, padding included" },
    OPTION_JSON, OPTION_END
};
static const option verify_options[] = {
    { "decode", 0, KIND_FLAG, FIELD(decode), 0, 0, NULL, NULL, "also decode every picture" },
    { "jobs", 'j', KIND_INTEGER, FIELD(jobs), 1, 1024, "N", NULL, "threads (default: one a processor)" },
    OPTION_JSON, OPTION_END
};
static const option batch_options[] = {
    { "out", 'o', KIND_TEXT, FIELD(out), 0, 0, "DIR", NULL, "the folder to write to, made if need be; must be given" },
    { "batch", 0, KIND_INTEGER, FIELD(batch), 1, 65536, "N", "16", "pictures in the batch" },
    { "size", 0, KIND_INTEGER, FIELD(size), 1, 16384, "PX", "224", "edge of the square output, pixels" },
    { "seed", 0, KIND_INTEGER, FIELD(seed), 0, 9.2e18, "N", "1", "of order and warps" },
    { "shuffle", 0, KIND_FLAG, FIELD(shuffle), 0, 0, NULL, NULL, "in shuffled order instead of the archive's" },
    { "warp", 0, KIND_CHOICE, FIELD(warp), 0, 0, "random|center|none", "random", "random or central crop, resized; or 1:1" },
    { "flip", 0, KIND_REAL, FIELD(flip), 0, 1, "P", "0", "probability of mirroring left and right" },
    { "track", 0, KIND_TEXT, FIELD(track), 0, 0, "NAME", NULL, "bzna_input or bzna_thumb (default: the thumbnail where there is one)" },
    OPTION_DECODER, OPTION_DEVICE, OPTION_SESSIONS, OPTION_JSON, OPTION_END
};
static const option bench_options[] = {
    { "batch", 0, KIND_INTEGER, FIELD(batch), 1, 65536, "N", "64", "pictures in a batch" },
    { "size", 0, KIND_INTEGER, FIELD(size), 1, 16384, "PX", "224", "edge of the square output, pixels" },
    { "threads", 0, KIND_INTEGER, FIELD(threads), 1, 1024, "N", NULL, "decoder threads (default: one a processor)" },
    { "seconds", 0, KIND_REAL, FIELD(seconds), 0.1, 86400, "S", "5", "how long each of the two is measured" },
    { "dtype", 0, KIND_CHOICE, FIELD(dtype), 0, 0, "f32|f16", "f32", "of the batches: float32 or float16" },
    { "output", 0, KIND_CHOICE, FIELD(output), 0, 0, "auto|host|device", "auto", "where batches lie; auto: on the device, unless the decoder is software" },
    { "track", 0, KIND_TEXT, FIELD(track), 0, 0, "NAME", NULL, "bzna_input or bzna_thumb (default: the thumbnail where there is one)" },
    OPTION_DECODER, OPTION_DEVICE, OPTION_SESSIONS, OPTION_JSON, OPTION_END
};

static const command commands[] = {
    { "pack", "DIR -o OUT.bzna", "make an archive from a folder of pictures",
      "Codes every picture below DIR as one H.265 (or H.264) frame and writes them into an archive. Each folder in\n"
      "DIR is a class, numbered from 0 in the order of their names; without folders the pictures have no class.\n"
      "Folders called train, val, test and the like are splits, not classes: each is to be packed by itself.\n"
      "Any picture format that libavcodec knows is read. EXIF orientations are applied, alpha channels dropped.\n"
      "Files that are no readable pictures are listed at the end; the archive is whole without them. Names that\n"
      "begin with a dot are passed over. The same pictures and options give the same bytes.\n"
      "Until it is whole, the archive is OUT.bzna.partial, which one run alone may write; the next run replaces what\n"
      "is left of one that was killed.\n"
      "Exit status: 0 all packed, 1 something was left out or went wrong, 2 wrong usage, or OUT.bzna is there already\n"
      "and --overwrite was not given.", 1, pack_options, run_pack },
    { "info", "FILE", "brands, samples and tracks of an archive",
      "Shows what an archive holds as a whole: brands, size, number of samples and of targets, tracks.", 1, json_options, run_info },
    { "list", "FILE", "every sample of an archive",
      "Shows each sample's index, target, size, coding, picture sizes and file name. JSON also tells where in the\n"
      "file they lie. Damaged samples are shown with the reason, and make the exit status 1.", 1, json_options, run_list },
    { "extract", "FILE INDEX", "one picture of an archive",
      "Takes sample INDEX (from 0) out of an archive. The ending of -o's name says as what:\n"
      "  .ppm                 the picture without padding, in color\n"
      "  .yuv                 the decoded frame's planes Y, Cb, Cr, padding included, one after the other\n"
      "  .h265 .h264 .obu     the coded picture as a stream, not decoded", 2, extract_options, run_extract },
    { "verify", "FILE", "look for damage",
      "Checks every sample's index entries, boxes and ranges; with --decode also that its pictures decode.\n"
      "Exit status 1 if any sample is damaged.", 1, verify_options, run_verify },
    { "batch", "FILE -o DIR", "one batch, as a loader delivers it, as pictures",
      "Loads the first batch of an epoch and writes DIR/00000.ppm, ... by slot, and all of them as DIR/contact.ppm.",
      1, batch_options, run_batch },
    { "bench", "FILE", "pictures per second",
      "Times a loader (shuffled, random resized crops, endless epochs) against bare decoders with as many threads\n"
      "and the pictures in memory. The two take turns, so that other work on the machine hits both alike. Where NVDEC\n"
      "decodes, the loader alone is timed, up to the end of all work on the device.", 1, bench_options, run_bench },
    { "devices", "", "GPUs, and what their video decoders take",
      "Shows every CUDA device: memory, compute capability, NVDEC engines, and the codecs, chroma formats, depths and\n"
      "frame sizes that they decode. Where there is none, or its driver lacks something, it says why, and the exit\n"
      "status is 0 all the same.", 0, json_options, run_devices },
};

static void print_summary(FILE *file)
{
    fputs("usage: bzna COMMAND ...\n\n", file);
    for (size_t i = 0; i < LENGTH(commands); i++)
        fprintf(file, "  bzna %-8s %-18s %s\n", commands[i].name, commands[i].operands, commands[i].summary);
    fputs("\n`bzna COMMAND --help` shows a command's options. `bzna --version` shows the version.\n", file);
}

static int run_command(const command *c, int count, char **arguments)
{
    options o;
    int parsed = options_parse(c, count, arguments, &o);
    if (parsed < 0) return EXIT_USAGE;
    if (parsed > 0) return EXIT_OK;
    if (!o.out && (c->run == run_pack || c->run == run_batch)) return usage_error(c, "-o must be given");
    int result = c->run(&o);
    if ((fflush(stdout) || ferror(stdout)) && result == EXIT_OK) result = complain("standard output cannot be written");
    return result;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    av_log_set_level(AV_LOG_QUIET);
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        print_summary(stdout);
        return EXIT_OK;
    }
    if (!strcmp(name, "--version")) {
        uint32_t version = bzna_version();
        printf("bzna %" PRIu32 ".%" PRIu32 ".%" PRIu32 "\n", version / 10000, version / 100 % 100, version % 100);
        return EXIT_OK;
    }
    for (size_t i = 0; i < LENGTH(commands); i++)
        if (!strcmp(name, commands[i].name)) return run_command(&commands[i], argc - 2, argv + 2);
    if (*name) fprintf(stderr, "bzna: unknown command \"%s\"\n", name);
    print_summary(stderr);
    return EXIT_USAGE;
}
