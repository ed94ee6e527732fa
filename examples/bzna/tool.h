/* tool.h - what the files of the command-line tool share */
#ifndef BZNA_TOOL_H
#define BZNA_TOOL_H

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#ifdef __APPLE__
#define _DARWIN_C_SOURCE
#endif
#include "../../benzina.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include <libavcodec/avcodec.h>

#if defined(__GNUC__) || defined(__clang__)
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#else
#define PRINTF_LIKE(text, first)
#endif

enum { EXIT_OK = 0, EXIT_INPUT = 1, EXIT_USAGE = 2 };

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* A buffer that grows. */
typedef struct bytes {
    uint8_t *data;
    size_t   size;
} bytes;

/* How far a long job has come, on a terminal only. */
typedef struct progress {
    const char *what;
    uint64_t    total;
    int64_t     start_ns, shown_ns;
    int         terminal, shown;
} progress;

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

typedef struct command {
    const char   *name, *operands, *summary, *help;
    int           operand_count;
    const option *options;
    int         (*run)(const options *o);
} command;

typedef struct fourcc_text { char text[5]; } fourcc_text;

/* Opens, writes and closes a file of several pieces; complains once. */
typedef struct output {
    const char *path;
    FILE       *file;
} output;

typedef struct archive {
    bzna_context *context;
    bzna_dataset *dataset;
    uint64_t      count;
} archive;

/* One picture, coded. */
typedef struct coded {
    AVPacket *packet;                 /* NULL: there is none */
    int       width, height, frame_width, frame_height;
} coded;

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

extern _Thread_local char av_complaint[200];

PRINTF_LIKE(1, 2) int complain(const char *format, ...);
void *checked(void *pointer);
PRINTF_LIKE(1, 2) char *text_make(const char *format, ...);
int64_t now_ns(void);
void sleep_ns(int64_t duration_ns);
int is_there(const char *path);
int is_folder(const char *path);
int processors(void);
void bytes_reserve(bytes *buffer, uint64_t size);
progress progress_start(const char *what, uint64_t total);
void progress_show(progress *p, uint64_t done);
void progress_end(const progress *p);
PRINTF_LIKE(2, 3) int usage_error(const command *c, const char *format, ...);
int is_choice(const char *choices, const char *word);
int options_parse(const command *c, int count, char **arguments, options *o);
void json_string(const char *text);
void print_plain(FILE *file, const char *text);
fourcc_text fourcc(uint32_t code);
int output_open(output *out, const char *path);
int output_close(output *out);
void rgb_from_planes(const float *planes, uint32_t width, uint32_t height, uint8_t *rgb, size_t pitch);
int ppm_write(const char *path, const uint8_t *rgb, uint32_t width, uint32_t height);
bzna_error error_empty(void);
int archive_open_on(archive *a, const char *path, int32_t device, uint32_t sessions);
int archive_open(archive *a, const char *path);
void archive_close(archive *a);
bzna_status sample_filename(const archive *a, uint64_t index, bytes *buffer, const char **name, bzna_error *err);
bzna_status sample_load(const archive *a, uint64_t index, const char *track, bytes *buffer, bzna_image *image, bzna_error *err);
uint32_t decoder_code(const char *name);
uint32_t output_code(const char *name);
uint32_t warp_code(const char *name);
int run_info(const options *o);
int run_list(const options *o);
int run_extract(const options *o);
int run_verify(const options *o);
int run_batch(const options *o);
int run_bench(const options *o);
int run_devices(const options *o);
int run_pack(const options *o);
void av_log_quiet(void *object, int level, const char *format, va_list arguments);
char *av_reason(const char *what, int code);
char *file_read(const char *path, AVPacket *packet);
char *file_decode(const AVPacket *file, const char *path, AVFrame *frame);
int file_orientation(const uint8_t *data, size_t size);
char *tiff_refuse(const uint8_t *data, size_t size);
AVFrame *frame_make(enum AVPixelFormat format, int width, int height);
char *frame_put(const AVFrame *picture, AVFrame *dst, int width, int height);
char *frame_orient(AVFrame **frame, int orientation);
void frame_smear(AVFrame *frame, int width, int height);
char *file_code(const options *o, const char *path, coded *input, coded *thumb);
int entries_collect(entries *e, const char *root, const char *class_order);
void entries_free(entries *e);

#endif
