/* tool.h - what the files of the command-line tool share. Each command has a file of its own, pack has five. */
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
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__) || defined(__clang__)
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#else
#define PRINTF_LIKE(text, first)
#endif

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* The tool's exit status. Functions that print an error return it, too: EXIT_OK or EXIT_INPUT. */
enum { EXIT_OK = 0, EXIT_INPUT = 1, EXIT_USAGE = 2 };


/* ---- common.c: errors, memory, clock, files, progress ---- */

/* Prints "bzna: ..." to stderr. Returns EXIT_INPUT. */
PRINTF_LIKE(1, 2) int tool_error(const char *format, ...);

/* An empty error for the library to fill in. */
bzna_error tool_empty_error(void);

/* Returns the pointer, or ends the program with a message when it is NULL: for allocations. */
void *tool_checked(void *pointer);

/* A formatted text, to be freed. */
PRINTF_LIKE(1, 2) char *tool_format(const char *format, ...);

/* A buffer that is kept between uses, and only grows. */
typedef struct tool_buffer {
    uint8_t *data;
    size_t   size;
} tool_buffer;

void tool_buffer_reserve(tool_buffer *buffer, uint64_t size);

int64_t tool_now_ns(void);
void tool_sleep_ns(int64_t duration_ns);
int tool_processor_count(void);
int tool_path_exists(const char *path);
int tool_is_folder(const char *path);

/* The progress line of a long job, shown on a terminal only. */
typedef struct tool_progress {
    const char *items;                /* "samples" */
    uint64_t    total;
    int64_t     start_ns, shown_ns;
    int         is_terminal, is_shown;
} tool_progress;

tool_progress tool_progress_start(const char *items, uint64_t total);
void tool_progress_show(tool_progress *p, uint64_t done);
void tool_progress_end(const tool_progress *p);


/* ---- options.c: command lines and help ---- */

/* The options of all commands. Those that a command does not have are 0 or NULL. */
typedef struct tool_options {
    const char *out, *track, *field, *codec, *preset, *decoder, *output, *dtype, *layout, *channels;
    const char *warp, *law, *filter;
    const char *format, *split, *list, *classes, *class_order, *orientation, *palette;      /* of the data set */
    double      crf, flip, seconds;
    int64_t     jobs, quality, batch, size, views, threads, seed, sessions;
    bzna_device device;
    /* flags: 0, 1; -1: --no-... */
    int64_t     json, md5, decode, shuffle, overwrite, tune_decode, antialias, jpeg_shrink;
    char      **operand;
    int         operand_count;
} tool_options;

typedef enum tool_option_kind {
    KIND_FLAG, KIND_INTEGER, KIND_REAL, KIND_TEXT, KIND_CHOICE, KIND_DEVICE
} tool_option_kind;

typedef struct tool_option {
    const char      *name;
    char             letter;          /* 0: there is no short form */
    tool_option_kind kind;
    size_t           offset;          /* of the field in tool_options */
    double           lowest, highest; /* of numbers; a flag with lowest -1 sets its field to that */
    const char      *argument;        /* as help shows it; "a|b|c" for a choice */
    const char      *default_value;   /* NULL: 0, or what the help text says */
    const char      *help;
} tool_option;

typedef struct tool_command {
    const char        *name, *operands, *summary, *help;
    int                operand_count; /* -1: one or more */
    const tool_option *options;       /* ends with an option without a name */
    int              (*run)(const tool_options *o);
} tool_command;

/* Reads a command's arguments. Returns 0 to go on, 1 after printing help, or -1 after printing an error. */
int tool_options_parse(const tool_command *c, int count, char **arguments, tool_options *o);

/* Prints an error and the command's usage. Returns EXIT_USAGE. */
PRINTF_LIKE(2, 3) int tool_usage_error(const tool_command *c, const char *format, ...);

void tool_print_help(const tool_command *c);

/* Whether word is one of "a|b|c". */
int tool_is_choice(const char *choices, const char *word);


/* ---- output.c: JSON, text, files ---- */

/* Prints a JSON string, or null for NULL. Bytes that are not UTF-8 become U+FFFD. */
void tool_json_string(const char *text);

/* Prints text that comes from a file: control characters, which could change the terminal's state, become "?". */
void tool_print_text(FILE *file, const char *text);

typedef struct tool_fourcc_text { char text[5]; } tool_fourcc_text;

tool_fourcc_text tool_fourcc(uint32_t code);

/* A file that is written. Opening and closing print an error and return EXIT_INPUT when they fail; between them,
 * failed writes are seen by closing. */
typedef struct tool_file {
    const char *path;
    FILE       *file;
} tool_file;

int tool_file_open(tool_file *out, const char *path);
int tool_file_close(tool_file *out);


/* ---- picture_file.c: pictures in 8-bit RGB, as PPM and PNG ---- */

typedef struct tool_rgb {
    uint8_t *pixels;                  /* rows without padding */
    uint32_t width, height;
} tool_rgb;

/* A black picture; free(pixels) frees it. */
tool_rgb tool_rgb_alloc(uint32_t width, uint32_t height);

/* Copies three planes of floats, 0..255, of width x height pixels into dst, with their top left corner at x, y. */
void tool_rgb_put_planes(tool_rgb *dst, uint32_t x, uint32_t y, const float *planes, uint32_t width, uint32_t height);

int tool_write_ppm(const char *path, const tool_rgb *picture);
int tool_write_png(const char *path, const tool_rgb *picture);


/* ---- archive.c: contexts, data sets, loaders, samples ---- */

typedef struct archive {
    bzna_context *context;
    bzna_dataset *dataset;
    uint64_t      count;              /* of samples */
} archive;

/* device, sessions: of bzna_context_config. */
bzna_status archive_open_context(bzna_device device, int64_t sessions, bzna_context **context, bzna_error *err);

/* Opens the first operand as --format, --list and so on say. For commands that need no GPU. */
int archive_open(archive *a, const tool_options *o);

/* The same, on the device that --device and --sessions name. */
int archive_open_with(archive *a, const tool_options *o);

void archive_close(archive *a);

/* What a loader is opened with beside the options. */
typedef struct archive_loading {
    uint64_t epochs;
    uint32_t batches_in_flight;       /* 0: the library's default */
} archive_loading;

/* Opens a loader as the options of batch and bench say. */
int archive_open_loader(const archive *a, const tool_options *o, const archive_loading *loading, bzna_loader **loader);

/* The file name of a sample, in buffer; *name is NULL when the sample has none. */
bzna_status archive_filename(const archive *a, uint64_t index, tool_buffer *buffer, const char **name,
                             bzna_error *err);

/* Reads one picture of a sample, not decoded, into buffer, and describes it in *image. */
bzna_status archive_read_picture(const archive *a, uint64_t index, const char *track, tool_buffer *buffer,
                                 bzna_image *image, bzna_error *err);

/* What a picture is coded as: the sample entry of an mp4 ("hvc1"), else "jpeg", "png", ... */
typedef struct archive_codec_text { char text[8]; } archive_codec_text;

archive_codec_text archive_codec(const bzna_image_info *info);


/* ---- fields.c: fields of samples beside their pictures ---- */

typedef struct archive_fields {
    bzna_field_info *list;
    uint32_t         count;
} archive_fields;

/* The fields of a data set's samples; archive_fields_free frees them. */
archive_fields archive_fields_read(const archive *a);
void archive_fields_free(archive_fields *fields);

/* "picture", "integer", ... */
const char *archive_field_kind(uint32_t kind);

/* Neither a picture, nor the target, nor the name. */
int archive_field_is_further(const bzna_field_info *field);

/* What a sample has in a field, in a buffer; a text's size does not count the NUL at its end. */
typedef struct archive_value {
    uint32_t       kind;              /* BZNA_FIELD_... */
    const uint8_t *data;
    size_t         size;
} archive_value;

/* BZNA_E_NOT_FOUND: the sample has none. */
bzna_status archive_value_read(const archive *a, uint64_t index, const bzna_field_info *field, tool_buffer *buffer,
                               archive_value *value, bzna_error *err);

/* A number, an array of numbers, a string; of bytes and pictures {"size":n}. */
void archive_value_json(const archive_value *value);

/* Numbers as a line of text, everything else as it is; on stdout, text ends its line, too. */
void archive_value_print(FILE *file, const archive_value *value);


/* ---- pack_files.c: which files are packed, and their classes ---- */

typedef struct pack_file {
    char   *path;
    char   *reason;                   /* why it cannot be packed; NULL: it can, as far as is known */
    int64_t target;
} pack_file;

typedef struct pack_names {
    char **names;
    size_t count, capacity;
} pack_names;

typedef struct pack_files {
    pack_file *list;
    size_t     count, capacity;
    pack_names classes;               /* in the order of their numbers */
} pack_files;

/* The files below a folder: each folder in it is a class; without folders there are no classes. */
int pack_files_collect(pack_files *f, const char *root, const char *class_order);
void pack_files_free(pack_files *f);


/* ---- pack_picture.c, pack_frame.c, pack_encode.c: reading, converting and encoding one picture ----
 *
 * They return NULL, or why a picture cannot be packed, which is to be freed. */

struct AVFrame;
struct AVPacket;

/* Keeps libav's messages from being printed; pack_av_reason quotes them. Called once. */
void pack_av_capture_messages(void);

/* A reason made of `what`, an AVERROR, and what libav logged on this thread since pack_picture_read began. */
char *pack_av_reason(const char *what, int code);

/* Reads a file's bytes into a packet, and decodes its first picture into a new frame, upright. */
char *pack_picture_read(const char *path, struct AVPacket *file, struct AVFrame **picture);

/* Replaces *frame by the upright picture: EXIF orientations 1 to 8. */
char *pack_frame_orient(struct AVFrame **frame, int orientation);

/* Scales a picture to width x height pixels in the top left corner of dst, a 4:2:0 frame at least as large, and repeats
 * the last column and row over the rest. */
char *pack_frame_fill(const struct AVFrame *picture, int width, int height, struct AVFrame *dst);

/* A picture as one access unit. A size of 0 is that of a JPEG, which says it itself. */
typedef struct pack_encoded {
    struct AVPacket *packet;          /* NULL: there is none */
    uint32_t         codec;           /* BZNA_CODEC_... */
    int              width, height, frame_width, frame_height;
} pack_encoded;

/* Encodes a file's picture and, if the picture does not fit into 512x512 pixels, a thumbnail. */
char *pack_encode_file(const tool_options *o, const char *path, pack_encoded *input, pack_encoded *thumb);


/* ---- index_tar.c: an index beside a tar ---- */

/* Writes the text of the index to out. Prints an error and returns EXIT_INPUT when it fails. */
int index_write_tar(const char *path, FILE *out, uint64_t *samples);
/* ---- index_rec.c: an index beside a RecordIO file ---- */

/* Writes the text of the index to out. Prints an error and returns EXIT_INPUT when it fails. */
int index_record_file(const char *path, FILE *out, uint64_t *samples);


/* ---- the commands ---- */

int tool_run_info(const tool_options *o);
int tool_run_list(const tool_options *o);
int tool_run_extract(const tool_options *o);
int tool_run_verify(const tool_options *o);
int tool_run_batch(const tool_options *o);
int tool_run_bench(const tool_options *o);
int tool_run_devices(const tool_options *o);
int tool_run_pack(const tool_options *o);
int tool_run_index(const tool_options *o);

#endif
