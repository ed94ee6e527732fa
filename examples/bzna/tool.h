/* tool.h - what the files of the command-line tool share. Each command has a file of its own, pack has several. */
#ifndef BZNA_TOOL_H
#define BZNA_TOOL_H

#include "os.h"               /* first, as it decides what system headers declare */
#include "../formats/formats.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__) || defined(__clang__)
#define PRINTF_LIKE(text, first) __attribute__((format(OS_PRINTF, text, first)))
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

/* A list of texts. */
typedef struct tool_names {
    char **names;
    size_t count, capacity;
} tool_names;

/* Takes over name. */
void tool_names_add(tool_names *n, char *name);

/* The place of a name; count if it is not there. */
size_t tool_names_find(const tool_names *n, const char *name);

/* Adds the lines of a file that are not empty. Prints an error and returns EXIT_INPUT when it fails. */
int tool_names_read(tool_names *n, const char *path);
void tool_names_free(tool_names *n);

int64_t tool_now_ns(void);
void tool_sleep_ns(int64_t duration_ns);
int tool_path_exists(const char *path);
int tool_is_folder(const char *path);

/* EXIT_USAGE after printing an error, if there is something under this name that may not be replaced. */
int tool_refuse_existing(const char *path, int64_t overwrite);

/* Writes everything. Returns 0, or errno. */
int tool_write_all(int file, const void *data, size_t size);

/* The progress of a long job: a line that is written over on a terminal, a line every ten seconds elsewhere. */
typedef struct tool_progress {
    const char *items;                /* "pictures" */
    uint64_t    total, first;         /* first: what an earlier run had done */
    uint64_t    failed, bytes;        /* so far; 0 is not shown */
    int64_t     start_ns, shown_ns;
    int         is_terminal, is_json, is_shown;
} tool_progress;

tool_progress tool_progress_start(const char *items, uint64_t total);
void tool_progress_show(tool_progress *p, uint64_t done);
void tool_progress_end(const tool_progress *p);


/* ---- options.c: command lines and help ---- */

/* The options of all commands. Those that a command does not have are 0 or NULL. */
typedef struct tool_options {
    const char *out, *track, *field, *codec, *quality_name, *preset, *decoder, *jpeg_decoder, *output, *dtype;
    const char *layout, *channels;
    const char *augment;
    const char *warp, *crops, *filter;
    const char *encoder, *chroma, *frame, *thumb, *targets, *splits, *shard, *background, *report;      /* of pack */
    const char *icc, *check;          /* of pack, too */
    const char *as, *indices, *class_name;    /* of extract; batch, sheet, bench, subset; subset */
    /* of the data set */
    const char *format, *split, *list, *records, *classes, *class_order, *orientation, *palette, *pairs;
    double      crf, flip, rotate, shear, perspective, seconds, erase;
    double      brightness, contrast, saturation, hue, grayscale, hls[3], max_contrast, max_illumination;
    double      jpeg_shrink_margin;
    int64_t     jobs, quality, batch, size, views, threads, seed, sessions, index, count, max_edge, max_short_edge;
    int64_t     parts, shard_size;
    bzna_device device;
    /* flags: 0, 1; -1: --no-... */
    int64_t     json, md5, decode, shuffle, overwrite, resume, lossless, tune_decode, antialias, jpeg_shrink, hybrid;
    int64_t     no_threads, allow_empty;
    char      **operand;
    int         operand_count;
    const struct tool_command *command;
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

enum { OPERANDS_SOME = -1, OPERANDS_ANY = -2 };

typedef struct tool_command {
    const char        *name, *operands, *summary, *help;
    int                operand_count; /* or OPERANDS_SOME: one or more; OPERANDS_ANY: none or more */
    const tool_option *options;       /* ends with an option without a name */
    int              (*run)(const tool_options *o);
} tool_command;

/* Reads a command's arguments. Returns 0 to continue, 1 after printing help, or -1 after printing an error. */
int tool_options_parse(const tool_command *c, int count, char **arguments, tool_options *o);

/* Prints an error and the command's usage. Returns EXIT_USAGE. */
PRINTF_LIKE(2, 3) int tool_usage_error(const tool_command *c, const char *format, ...);

void tool_print_help(const tool_command *c);

/* An option's value as text, to be freed. */
char *tool_option_text(const tool_option *p, const tool_options *o);

/* Whether word is one of "a|b|c". */
int tool_is_choice(const char *choices, const char *word);


/* ---- output.c: JSON, text, files ---- */

/* Prints a JSON string, or null for NULL. Bytes that are not UTF-8 become U+FFFD. */
void tool_json_string(const char *text);
void tool_json_write(FILE *file, const char *text);

/* Prints text that comes from a file: control characters, which could change the terminal's state, become "?". */
void tool_print_text(FILE *file, const char *text);

typedef struct tool_fourcc_text { char text[5]; } tool_fourcc_text;

tool_fourcc_text tool_fourcc(uint32_t code);

/* A file that is written; "-" is standard output. Opening and closing print an error and return EXIT_INPUT when they
 * fail; between them, failed writes are seen by closing. */
typedef struct tool_file {
    const char *path;
    FILE       *file;
    char       *partial;              /* under which it is written; NULL: under its own name */
    int         error;                /* errno of the first tool_file_write that failed, or 0 */
} tool_file;

int tool_file_open(tool_file *out, const char *path);

/* Likewise; but the file gets its name, and replaces what had it, when it is closed and complete. Where another one
 * cannot be made beside it, and of what is no plain file, it is opened as it is. */
int tool_file_create(tool_file *out, const char *path);
int tool_file_close(tool_file *out);

/* Writes what may be longer than a stream's buffer: closing could not tell why such a write failed. */
void tool_file_write(tool_file *out, const void *data, size_t size);

/* Writes what is buffered. EXIT_INPUT if that or an earlier write failed: closing says why. */
int tool_file_flush(tool_file *out);

/* Closes a file that is not complete: what had its name stays. */
void tool_file_discard(tool_file *out);

/* Writes what is buffered for standard output, and notes why that fails. */
void tool_stdout_flush(void);

/* Ends standard output. Prints an error and returns EXIT_INPUT if that or an earlier write failed;
 * else result. */
int tool_stdout_end(int result);


/* ---- partial.c: files that get their name when they are complete ---- */

/* Opens and locks the file that is written. EXIT_INPUT after printing an error, also where another run has locked
 * it. */
int tool_partial_open(const char *path, int *file);

/* Waits until all bytes of a file are on the disk; devices and pipes cannot do that. Returns 0, or errno. */
int tool_sync(int file);

/* Gives a complete file its name when its bytes are on the disk. Returns 0, or errno. */
int tool_partial_name(const char *partial, int file, const char *path);

/* Likewise, and waits until its name is on the disk, too. */
int tool_partial_rename(const char *partial, int file, const char *path, int64_t overwrite);


/* ---- picture_file.c: pictures in 8-bit RGB, as PPM, PNG and JPEG ---- */

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


/* ---- jpeg.c: JPEG by libjpeg-turbo ---- */

typedef struct tool_jpeg_source {
    uint32_t       width, height;
    const uint8_t *planes[3];         /* Y'CbCr of full range; the first alone: RGB, which becomes 4:2:0 */
    ptrdiff_t      pitches[3];        /* bytes from one row to the next */
    int            is_444;            /* else 4:2:0 */
    int            quality;           /* 1 to 100, with libjpeg's tables */
} tool_jpeg_source;

/* Whether this program was built with libjpeg-turbo, without which nothing is encoded as JPEG. */
int tool_jpeg_can_encode(void);

/* Returns NULL, or why the picture cannot be encoded, which is to be freed: pack_is_passing says more of it. */
char *tool_jpeg_encode(const tool_jpeg_source *source, tool_buffer *jpeg, size_t *size);


/* ---- font.c: text in pictures ---- */

typedef struct tool_color { uint8_t rgb[3]; } tool_color;

enum { TOOL_GLYPH_WIDTH = 6 };        /* pixels from one character to the next, at scale 1 */

/* Pixels outside the picture are not drawn. Characters that are not ASCII become "?". */
void tool_rgb_rectangle(tool_rgb *dst, uint32_t x, uint32_t y, uint32_t width, uint32_t height, tool_color color);
void tool_rgb_text(tool_rgb *dst, uint32_t x, uint32_t y, uint32_t scale, tool_color color, const char *text);


/* ---- archive.c: contexts, data sets, loaders, samples ---- */

/* The fields of a data set's samples. */
typedef struct archive_fields {
    bzna_field_info *list;
    uint32_t         count;
} archive_fields;

typedef struct archive {
    bzna_context  *context;
    bzna_dataset  *dataset;
    uint64_t       count;             /* of samples */
    char           container[20];     /* "archive", "tar", ... */
    archive_fields fields;
    tool_names     classes;           /* in the order of their numbers; none where they have no names */
    uint64_t      *split_offsets[4];  /* places of the samples of each split, sorted: archive_read_splits */
    size_t         split_counts[4];
    tool_names     memory;            /* memory of data sets that cannot seek */
    int            has_loader;        /* which may read samples more than once; else each is read once */
    int            is_picture;        /* it is one file of a codec in examples/formats */
} archive;

/* device, sessions: of bzna_context_config. */
bzna_status archive_open_context(bzna_device device, int64_t sessions, bzna_context **context, bzna_error *err);

/* Opens the first operand as --format, --list and so on say, in a->context; of NAME.rec, NAME.lst next to it is the
 * list. Fills in *err when it fails. */
bzna_status archive_try_open(archive *a, const tool_options *o, bzna_error *err);

/* Fills in the members of *a other than context and data set. */
void archive_describe(archive *a);

/* The same, in a context of its own. For commands that need no GPU. */
int archive_open(archive *a, const tool_options *o);

/* The same, on the device that --device and --sessions name. */
int archive_open_with(archive *a, const tool_options *o);

void archive_close(archive *a);

/* unindexed.c: opens the samples of an archive whose index is missing, one behind the other from byte `first` on, as a
 * data set of a->context. The file stays the caller's, and open. */
int archive_open_unindexed(archive *a, int file, uint64_t first, const uint64_t *sizes, size_t count);

/* records.c: what --records says. NULL, or what is wrong with it. */
const char *records_parse(const char *text, bzna_records *records);

/* A file of MNIST's format. */
typedef struct records_idx {
    bzna_records records;
    bzna_source  source;              /* with labels; without read_at: the file is to be opened */
} records_idx;

/* Whether a file is one of pictures, and whole. Its labels are those of the file next to it with the matching name. */
int records_idx_find(const char *path, records_idx *idx);

enum { TOOL_ARCHIVE_FIRST = 40 };     /* where an archive's samples begin */

/* Settings of a loader other than the options. */
typedef struct archive_loading {
    uint64_t epochs;
    uint32_t batches_in_flight;       /* 0: the library's default */
    const uint64_t   *indices;        /* the samples of an epoch; NULL: all */
    uint64_t          index_count;
    bzna_transform_fn transform;      /* NULL: none */
    void             *user;           /* of transform */
} archive_loading;

/* Reads numbers of samples, with blanks or ends of lines between them, and checks that there are such samples. The
 * caller frees *indices. path: "-" is standard input. */
int archive_read_indices(const archive *a, const char *path, uint64_t **indices, uint64_t *count);

/* How a loader is to be as the options of batch, bench and sheet say. */
void archive_loader_config(const tool_options *o, const archive_loading *loading, bzna_loader_config *config);
/* Without --output, batches are on the device if there is one, unless software decodes. */
void archive_choose_device(bzna_context *context, bzna_loader_config *config);

/* Opens it. Its samples are those of --indices, if that is given. */
int archive_open_loader(const archive *a, const tool_options *o, const archive_loading *loading, bzna_loader **loader);

/* The name of a sample, in buffer; *name is NULL when the sample has none. */
bzna_status archive_filename(const archive *a, uint64_t index, tool_buffer *buffer, const char **name,
                             bzna_error *err);

/* The picture to take of a sample when none is named: an archive's full one; else the first, mostly the only one. */
const char *archive_default_track(const bzna_sample_ref *sample);

/* The sample that an argument names: by its index, its name, or the last part of that. Prints an error and returns
 * EXIT_INPUT. */
int archive_find_sample(const archive *a, const char *argument, uint64_t *index);

/* Reads one picture of a sample, not decoded, into buffer, and describes it in *image. */
bzna_status archive_read_picture(const archive *a, uint64_t index, const char *track, tool_buffer *buffer,
                                 bzna_image *image, bzna_error *err);

/* The same; but of a HEIF or AVIF file, *image is all of the file, which a decoder takes, too. */
bzna_status archive_read_file(const archive *a, uint64_t index, const char *track, tool_buffer *buffer,
                              bzna_image *image, bzna_error *err);

/* What a picture is coded as: the sample entry of an mp4 ("hvc1"), else "jpeg", "png", ... */
typedef struct archive_codec_text { char text[8]; } archive_codec_text;

archive_codec_text archive_codec(const bzna_image_info *info);

/* Whether a picture is one of a HEIF or AVIF file, which may hold more than it: alpha, a color profile. */
int archive_is_heif(const bzna_image_info *info);

/* Whether pictures of a codec are files: JPEG, PNG, WebP, and those of examples/formats. Others are frames of archives,
 * videos and HEIF files, and records. */
int archive_is_file(uint32_t codec);

/* Drops SEI, which is no part of a picture, from an Annex B stream of H.265 or H.264. Returns the size that is left. */
size_t archive_drop_sei(uint8_t *data, size_t size, uint32_t codec);


/* ---- streamed.c: data sets that cannot seek ---- */

/* Whether a path, or a pattern of several, is a pipe, standard input, a command (pipe:COMMAND), or packed by gzip or
 * zstd. */
int streamed_is(const char *pattern);

/* Reads all of them into memory, up to a ceiling, and opens them as a->dataset. */
bzna_status streamed_open(archive *a, const char *pattern, const bzna_formats_config *config, bzna_error *err);

/* bzna bench of them, by a stream. */
int streamed_bench(const tool_options *o);


/* ---- fields.c: fields of samples other than their pictures ---- */

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


/* ---- copied.c: the parts of a sample, other than its picture, that a new data set copies ---- */

enum { ARCHIVE_COPIED_MAX = 64 };

typedef struct archive_copied {
    const char      *name;            /* NULL: none */
    int64_t          target;
    uint32_t         split;           /* BZNA_SPLIT_... */
    uint32_t         count;           /* of fields */
    bzna_field_value fields[ARCHIVE_COPIED_MAX];
    char             field_names[ARCHIVE_COPIED_MAX][BZNA_NAME_MAX];  /* what was copied outlives its data set */
    tool_buffer      values[ARCHIVE_COPIED_MAX], name_buffer;
} archive_copied;

/* Reads in which split each sample of an archive is. options, path: with which it was opened. */
void archive_read_splits(archive *a, const char *path);

/* The name that a copy of the sample has: of a tar's, the name of its picture's file. */
bzna_status archive_copied_name(const archive *a, uint64_t index, tool_buffer *buffer, const char **name,
                                bzna_error *err);

/* Reads name, target, split and fields. Other pictures than the one that is copied are fields of bytes. */
bzna_status archive_copied_read(const archive *a, uint64_t index, archive_copied *c, bzna_error *err);

/* The sample is of this split, and says so in a field, too: a file that lost its index tells it all the same. */
void archive_copied_set_split(archive_copied *c, uint32_t split);
void archive_copied_free(archive_copied *c);

/* Adds the names of a data set's classes to those of others; refuses those that contradict them. */
int archive_join_classes(tool_names *classes, const archive *a, const char *path);

/* If classes have no names, but the names of each target's samples are in a folder of their own: these folders.
 * */
typedef struct archive_class_folders {
    tool_names folders;               /* by target; "": not known yet */
    int        is_ambiguous;
} archive_class_folders;

void archive_class_folders_add(archive_class_folders *c, const char *name, int64_t target);

/* Moves them into classes, and frees what is left. */
void archive_class_folders_take(archive_class_folders *c, tool_names *classes);


/* ---- pack_settings.c: what the options of pack mean ---- */

typedef struct pack_settings {
    const tool_options *options;
    const struct AVCodec *encoder;                /* NULL: libjpeg-turbo */
    const char         *preset;                   /* NULL: the encoder's own */
    uint32_t            codec;                    /* BZNA_CODEC_... */
    double              crf;                      /* of all codecs but JPEG */
    int                 jpeg_quality;             /* 1..100 */
    int                 is_copy, is_444, is_lossless, has_background;
    int                 converts_profiles;        /* --icc convert */
    int                 checks_headers;           /* --check headers */
    int                 smallest_px;              /* edge of a frame */
    int                 frame_step_px;            /* edges of frames are multiples of it */
    int                 thumb_px;                 /* longest edge of a thumbnail; 0: none */
    int                 max_edge_px, max_short_edge_px;   /* 0: any */
    uint8_t             background[3];
    uint64_t            shard, shard_count;
} pack_settings;

/* Prints an error and returns EXIT_USAGE or EXIT_INPUT if there cannot be such an archive. */
int pack_settings_read(const tool_options *o, pack_settings *s);

/* Those of a JPEG of a quality of 1 to 100, for pack_encode_file. */
pack_settings pack_settings_jpeg(int quality);


/* ---- pack_files.c: which files are packed, and their classes ---- */

/* A file, or a sample of a data set. */
typedef struct pack_file {
    char       *path;                 /* of a sample: how it is called in messages */
    const char *relative;             /* its end: the path in the folder, or a sample's name */
    const archive *archive;           /* NULL: a file */
    uint64_t    index;                /* in archive */
    int         is_file;              /* archive has its fields alone */
    const char *track;                /* its picture; NULL: archive_default_track */
    char       *reason;               /* why it cannot be packed; NULL: it can, as far as is known */
    int         is_passing;           /* that is no fault of the file's: pack_is_passing */
    int         was_tried;            /* an earlier run met such a fault */
    int64_t     target;
    int64_t     size, time_ns;        /* in bytes, and of the last modification; -1: not known */
    uint32_t    split;                /* BZNA_SPLIT_... */
    int         is_measured;          /* psnr and ssim are known */
    double      psnr, ssim;
    uint32_t    notes;                /* PACK_NOTE_..., what of it is not in the archive */
    int         is_small;             /* it fills less than a quarter of its frame */
    int         is_done;              /* its sample is written, or it is left out */
    uint64_t    sample_size;          /* once it is written: its bytes in the archive, and their checksum */
    uint32_t    checksum;
} pack_file;

typedef struct pack_files {
    pack_file *list;
    size_t     count, capacity;
    size_t     root_size;             /* bytes of the folder's name and a slash, with which paths begin */
    tool_names classes;               /* in the order of their numbers */
    int        has_own_targets;       /* some are not the numbers of class folders */
    archive  **archives;              /* opened data sets */
    size_t     archive_count;
} pack_files;

/* What the operands hold. A folder: the files below it; each folder in it is a class, without folders there are no
 * classes. Anything else: a data set's samples, or a picture. */
int pack_files_collect(pack_files *f, const pack_settings *s);

/* The reason of files that are no class's, which may well be readable. */
#define PACK_OUTSIDE "is outside every class folder"
void pack_files_free(pack_files *f);

/* ---- pack_targets.c ---- */

/* Reads NAME.target files as the targets of the pictures next to them. */
void pack_targets_beside(pack_files *f);

/* Gives all files the targets that a list has: lines of NAME,TARGET, or of TARGET in the order of the files. */
int pack_targets_read(pack_files *f, const char *path);


/* ---- pack_picture.c, pack_frame.c, pack_encode.c: reading, converting and encoding one picture ----
 *
 * They return NULL, or why a picture cannot be packed, which is to be freed. */

struct AVFrame;
struct AVPacket;

/* profile.c: ICC profiles, and what of a picture is not packed. PROFILE: one of other colors than sRGB was ignored. */
enum { PACK_NOTE_PROFILE = 1, PACK_NOTE_CONVERTED = 2, PACK_NOTE_ANIMATION = 4, PACK_NOTE_PAGES = 8,
       PACK_NOTE_DEPTH = 16, PACK_NOTE_ALPHA = 32, PACK_NOTES = 6 };

/* Each of them: its name in JSON, and what pictures have, for people. */
typedef struct pack_note {
    uint32_t    bit;
    const char *name, *text;
} pack_note;
extern const pack_note pack_notes[PACK_NOTES];

/* The profile of a JPEG, PNG, WebP, TIFF, HEIF or AVIF file, in a buffer. Returns its size, 0 where there is none. */
size_t profile_read(const uint8_t *data, size_t bytes, tool_buffer *to);

/* Whether a profile's colors are those of sRGB, as far as can be seen, or its gray's. */
int profile_is_srgb(const uint8_t *data, size_t size);

/* Whether this program was built with Little CMS, without which nothing is converted. */
int profile_can_convert(void);

/* Replaces a picture by the same in sRGB. *is_done 0: the profile is not one of such pictures (CMYK), or damaged. */
char *profile_convert(struct AVFrame **frame, const uint8_t *profile, size_t size, int *is_done);

/* What of a file is not in its picture (frame; NULL: the file is copied): PACK_NOTE_..., but for profiles. */
uint32_t profile_notes(const uint8_t *data, size_t bytes, const struct AVFrame *frame, int keeps_alpha);

/* Keeps libav's messages from being printed; pack_av_reason quotes them. Called once. */
void pack_av_capture_messages(void);

/* Reasons. Each notes whether it is no fault of the file's: memory, descriptors or a disk failed, which may pass. That
 * of libav is made of `what`, an AVERROR, and what libav logged on this thread since pack_picture_read began. */
char *pack_av_reason(const char *what, int code);
char *pack_errno_reason(const char *what, int error);
char *pack_library_reason(const bzna_error *err);

/* Whether the last of them on this thread since pack_picture_read began is of that kind. */
int pack_is_passing(void);

/* Reads a file's bytes into a packet; of a data set's samples those of a JPEG alone. */
char *pack_bytes_read(const pack_file *from, struct AVPacket *file);

/* Reads a file's bytes into a packet, and decodes its first picture into a new frame, upright. The packet stays empty
 * where a data set's sample is no file of its own; *picture is NULL where the bytes are a JPEG that is to be copied.
 * *notes: PACK_NOTE_... */
char *pack_picture_read(const pack_settings *s, const pack_file *from, struct AVPacket *file, struct AVFrame **picture,
                        uint32_t *notes);

/* Reads a JPEG that is to be copied, if its headers and end marker are all that is to be looked at (--check headers),
 * and nothing needs to be decoded. Returns whether that was so. */
int pack_picture_keep(const pack_settings *s, const pack_file *from, struct AVPacket *file, uint32_t *notes);

/* The bytes of a data set's sample that is a JPEG; file stays empty where it is not. */
char *pack_sample_bytes(const pack_file *from, struct AVPacket *file);

/* Reads a data set's sample: either its file's bytes into a packet, or its picture, decoded, into a frame. */
char *pack_sample_read(const pack_file *from, struct AVPacket *file, struct AVFrame *frame, int *orientation);

/* Decodes a JPEG file as loaders do; frame NULL: only to see whether they would. *status says why not. */
char *pack_file_read(const struct AVPacket *file, uint32_t codec, struct AVFrame *frame, int *orientation,
                     bzna_status *status);

/* Whether a file may be a HEIF or AVIF; and its picture: the primary item, grids put together. */
int pack_is_heif(const uint8_t *data, size_t size);
char *pack_heif_read(const struct AVPacket *file, struct AVFrame *frame, int *orientation, uint32_t *notes);

/* Cuts off pixels before crop_left and crop_top, which are within the first chroma samples. */
char *pack_frame_crop(struct AVFrame **frame);

/* Replaces *frame by the upright picture: EXIF orientations 1 to 8. */
char *pack_frame_orient(struct AVFrame **frame, int orientation);

/* Replaces a picture by the same in 8-bit RGB with alpha. */
char *pack_frame_to_rgba(struct AVFrame **frame);

/* Replaces a picture that has alpha by what it is over a background. */
char *pack_frame_blend(struct AVFrame **frame, const uint8_t background[3]);

/* Scales a picture to width x height pixels in the top left corner of dst, a 4:2:0 or 4:4:4 frame at least as large,
 * and repeats the last column and row over the rest. */
char *pack_frame_fill(const struct AVFrame *picture, int width, int height, struct AVFrame *dst);

/* A picture as one access unit. A size of 0 is that of a JPEG, which says it itself. */
typedef struct pack_encoded {
    struct AVPacket *packet;          /* NULL: there is none */
    uint32_t         codec;           /* BZNA_CODEC_... */
    int              width, height, frame_width, frame_height;
    int              is_measured;     /* with --report */
    double           psnr, ssim;
    uint32_t         notes;           /* PACK_NOTE_... */
} pack_encoded;

/* pack_quality.c: compares a coded picture with what the encoder was given, and notes the result in e. */
char *pack_quality_measure(const struct AVFrame *source, const struct AVPacket *packet, uint32_t codec,
                           pack_encoded *e);

enum { PACK_PSNR_MAX = 100 };         /* dB; also that of pictures without loss */

/* Whether the encoder works here with these settings, which hardware's may not. */
int pack_encoder_check(const pack_settings *s);

/* Takes a file as it is, where neither decoding nor encoding is asked for; returns whether it did. */
int pack_encode_keep(const pack_settings *s, const pack_file *file, pack_encoded *input);

/* Encodes a file's picture and, if the picture is larger than one, a thumbnail. */
char *pack_encode_file(const pack_settings *s, const pack_file *file, pack_encoded *input, pack_encoded *thumb);


/* ---- pack_workers.c: processes that encode ---- */

typedef struct pack_job {
    const pack_settings *settings;
    const pack_files    *files;
    size_t               jobs;
} pack_job;

typedef struct pack_result {
    size_t       file;                /* its number */
    char        *reason;              /* NULL: it was encoded */
    int          is_passing;          /* that is no fault of the file's */
    pack_encoded input, thumb;
} pack_result;

typedef struct pack_workers pack_workers;

enum { PACK_AGAIN = -1 };

/* Processes that encode the files from `first` on. They are started when a file needs one. */
pack_workers *pack_workers_new(const pack_job *job, size_t first);

/* The result of a file, in any order; to be freed. done: how many files, the first ones, need no more memory.
 * PACK_AGAIN: there is none yet, after at most 0.2 s or after a signal. EXIT_INPUT after printing an error. */
int pack_workers_next(pack_workers *w, size_t done, pack_result *result);
void pack_workers_end(pack_workers *w);
void pack_result_free(pack_result *r);


/* ---- pack_journal.c: which files are done ---- */

typedef struct pack_record {
    char    *reason;                  /* why the file is left out, or NULL */
    int      is_passing;              /* that is no fault of the file's: another run tries it again */
    uint64_t size;                    /* of its sample in the archive */
    uint64_t at;                      /* the record's place in the log */
    uint32_t checksum;                /* of the sample */
    int      is_measured;
    double   psnr, ssim;
    uint32_t notes;
} pack_record;

typedef struct pack_journal {
    char        *path;
    int          file;
    int          is_begun;            /* there is a log of a run */
    pack_record *records;             /* of the first files, as far as they were read */
    size_t       count;
    int64_t      end;                 /* of what was read */
} pack_journal;

uint32_t pack_sample_checksum(const void *data, size_t size);

/* Opens the log next to the partial file, or makes an empty one. */
int pack_journal_open(pack_journal *j, const char *partial);

/* Reads the log of an interrupted run, and refuses one that had other settings or files. */
int pack_journal_read(pack_journal *j, const tool_options *o, const pack_files *files);

/* Makes the log a new one, or forgets all but the first records. */
int pack_journal_begin(pack_journal *j, const tool_options *o, const pack_files *files);
int pack_journal_keep(pack_journal *j, size_t count);

/* The line of a file that is done, to be freed. */
char *pack_journal_line(const pack_file *file);
void pack_journal_close(pack_journal *j);


/* ---- pack_blocks.c: samples and their lines of the log, on their way to the disk ---- */

/* What could not be written. */
typedef struct pack_failure {
    int error;                        /* errno; 0: nothing has failed */
    int is_log;                       /* it was the log, not the archive */
} pack_failure;

typedef struct pack_block {
    tool_buffer samples, lines;
    uint64_t    offset, size;         /* of the samples; in the archive */
    const pack_file *files;           /* that are done with them, in order */
    size_t      file_count;
} pack_block;

enum { PACK_BLOCKS = 3 };             /* one is gathered, one is written, and one waits */

typedef struct pack_blocks {
    int          file, log;           /* the archive and its log */
    int          gathers;             /* 0: a block is written when a file is done */
    int          has_thread;
    os_thread    thread;
    pack_block   list[PACK_BLOCKS];   /* used in turns */
    os_monitor   monitor;             /* guards what follows; but only the caller changes `gathered` */
    uint64_t     gathered, written;   /* blocks that the thread was given, and has written */
    int          is_ending;
    pack_failure failure;             /* nothing is written after it */
} pack_blocks;

/* gathers: samples come faster than they are written. */
void pack_blocks_open(pack_blocks *b, int file, int log, int gathers);

/* The functions below may return a failure of an earlier write, which the thread made meanwhile. */

/* Adds a sample, which belongs at an offset of the archive. */
pack_failure pack_blocks_sample(pack_blocks *b, uint64_t offset, const void *src, uint64_t size);

/* The next file of the list is done: the sample that was added last is its, or it is left out. */
pack_failure pack_blocks_done(pack_blocks *b, const pack_file *file);

/* Waits until all that was added is written. */
pack_failure pack_blocks_flush(pack_blocks *b);

/* Writes what is no sample, once all that was added is written. */
pack_failure pack_blocks_write(const pack_blocks *b, uint64_t offset, const void *src, uint64_t size);

void pack_blocks_close(pack_blocks *b);


/* ---- pack_output.c: the archive that is written ---- */

typedef struct pack_output {
    const tool_options *options;
    pack_files         *files;
    char               *partial;
    int                 file;         /* the partial file, locked */
    pack_journal        journal;
    pack_blocks         blocks;
    int                 has_blocks;   /* they are open */
    bzna_context       *context;
    bzna_writer        *writer;
    size_t              done;         /* files, the first ones: packed or left out */
    int                 is_logged;    /* finished files are in the log already */
    size_t              resumed;      /* of these, by an earlier run */
    size_t              left_out;
    size_t              written, small;           /* samples; small: fill less than a quarter of their frames */
    uint64_t            position;     /* bytes written */
    const uint8_t      *expected;     /* what a sample that is there must be; NULL: samples are written */
    uint64_t            expected_size;
    pack_failure        failure;      /* of writing */
    archive_copied      copied;       /* of the sample that is written */
} pack_output;

/* Whether -o is an archive that is complete, and nothing is left to continue. Counts its samples. */
int pack_output_is_finished(const tool_options *o, uint64_t *samples);

/* Opens and locks OUT.partial. EXIT_USAGE: there is an archive or an interrupted run, and no option says what to do. */
int pack_output_open(pack_output *out, const tool_options *o);

/* Begins an archive, or continues an interrupted one. gathers: as of pack_blocks_open. */
int pack_output_begin(pack_output *out, pack_files *files, int gathers);

/* Gives a file's sample to the writer, which writes it when its turn comes, or notes why it is left out; takes over the
 * reason. */
int pack_output_add(pack_output *out, pack_result *result);

/* Writes the index, and gives the archive its name. */
int pack_output_finish(pack_output *out);

/* Without finish, what was written stays for --resume, unless it is nothing. */
void pack_output_close(pack_output *out);


/* ---- index_tar.c: an index next to a tar ---- */

/* Writes the text of the index to out. Prints an error and returns EXIT_INPUT when it fails. */
int index_write_tar(const char *path, FILE *out, uint64_t *samples);

/* ---- assemble.c: the index of an archive that lost it ---- */

/* Writes an archive of the samples that are whole to -o. */
int index_recover_archive(const tool_options *o, const char *path);

/* ---- index_rec.c: an index next to a RecordIO file ---- */

/* Writes the text of the index to out. Prints an error and returns EXIT_INPUT when it fails. */
int index_record_file(const char *path, FILE *out, uint64_t *samples);


/* ---- pack_stream.c: encodes for another program ---- */

/* EXIT_USAGE: only one of input and output is "-", or an option means nothing then. */
int pack_stream_check(const tool_options *o);

/* Encodes the files that standard input names, onto standard output. */
int pack_stream(const pack_settings *s);


/* ---- pack_report.c ---- */

/* Of how many files that are packed this is noted. */
size_t pack_notes_count(const pack_files *files, uint32_t note);

/* EXIT_USAGE: the report's name says no format. EXIT_INPUT: it cannot be written. */
int pack_report_check(const tool_options *o);

/* Writes --report's file, once the archive is complete. */
int pack_report_write(const tool_options *o, const pack_files *files);


/* ---- the commands ---- */

int tool_run_info(const tool_options *o);
int tool_run_list(const tool_options *o);
int tool_run_extract(const tool_options *o);
int tool_run_verify(const tool_options *o);
int tool_run_batch(const tool_options *o);
int tool_run_bench(const tool_options *o);
int tool_run_sheet(const tool_options *o);
int tool_run_view(const tool_options *o);
int tool_run_devices(const tool_options *o);
/* Where a message is of a GPU that cannot be used: what can be done about it, else an empty text. */
void tool_gpu_advice(const char *message, char *text, size_t size);
/* tool_error, and that advice. */
int  tool_gpu_error(const char *message);
int tool_run_pack(const tool_options *o);
int tool_run_index(const tool_options *o);
int tool_run_merge(const tool_options *o);
int tool_run_append(const tool_options *o);
int tool_run_subset(const tool_options *o);
int tool_run_split(const tool_options *o);
int tool_run_diff(const tool_options *o);
int tool_run_convert(const tool_options *o);

#endif
