/* formats.h - pictures and data sets of kinds that benzina.c does not know
 *
 * DATA SETS. bzna_formats_open opens all kinds below, and those that bzna_dataset_open opens:
 *
 *     bzna_formats_open(context, "shard-{000..146}.tar", NULL, &dataset, &err);
 *
 * PATTERNS. A path that exists is used as it is. Otherwise it is a pattern of several paths, which are joined one after
 * the other:
 *
 *     a::b             both
 *     {0000..0146}     each number in turn, padded with zeros if either of the two is
 *     {1..9..2}        every second number: 1, 3, 5, 7, 9
 *     {a..e}           each letter in turn
 *     {train,val}      each word in turn. With several braces, the leftmost varies slowest
 *     * ? [abc]        the files whose names match, sorted by bytes
 *     \                the next character is literal; on Windows it separates folders
 *
 * PAIRS. With formats_config.pairs = "images,masks", files of several folders make one sample if their paths below
 * these folders are the same but for the extension: images/a/1.jpg and masks/a/1.png. Each folder is an image field,
 * which is named after the folder, or by the text before an equals sign: "image=leftImg8bit/train,mask=gtFine/train".
 * The first one is also found as "image"; "name" is the path below the first folder. Samples have the order of these
 * paths without extensions, and no targets. A file without a partner is an error that names it, and so is the second
 * of two files in a folder that differ only in their extensions. All files of a sample are read with it.
 *
 * LISTS. With formats_config.list, samples are the files that a text names, in its order, below the folder that is
 * opened; a path in it may also be absolute. Its labels become targets if no line has more than one, and all are whole
 * numbers. These are exact in 64 bits, however they are written (7, 007, 7.0, 7e0). A sample of -1 or without a label
 * has no target. Otherwise labels are vectors of float32. The first line that is not empty decides how all lines are
 * read:
 *
 *     if it                            lines are
 *     has a tab                        index TAB label TAB ... TAB path      MXNet's .lst
 *     ends in a number after a blank   path label label ...                  Caffe, DALI
 *     otherwise                        path,label,label,...                  .csv
 *
 *     - Blanks and commas are part of a path after a tab. Between blanks, a path ends before the numbers at the line's
 *       end. Between commas, "a path with commas" is in quotes, and contains no quote. Labels may be quoted there, too.
 *       A number after a comma and a blank belongs to the comma.
 *     - Only a list with commas can have a header. It is a first line of words without dots and slashes, such as
 *       path,label. Some words may be numbers, and the first one may be empty. nan, inf, infinity, none, null and na
 *       are not such words.
 *     - A list is refused with E_FORMAT, by file and line, if a label is not a decimal number (nan and inf are not),
 *       does not fit a float32, or is an integer of more than 64 bits; and if a vector holds a whole number that a
 *       float32 cannot, such as 16777217.
 *
 * Lists are trusted, as paths are: they may name any file. For RecordIO files, a list labels the records by their ids.
 *
 * RECORDIO files (MXNet's .rec) have one sample a record. A folder that holds *.rec files means all of those, and the
 * tars and archives in it, in the order of their names; if it holds folders, too, it is refused. The fields of a record
 * are:
 *
 *     "image"     the picture
 *     "label"     the record's numbers, float32
 *     "target"    the number, if there is one and it is whole. MXNet writes float32, so whole numbers above 2^24 were
 *                 rounded when the record was written
 *     "id"        the id in the record's header
 *     "name"      the id in digits
 *     "record"    all bytes of the record; a record that is read only by this field may hold anything
 *
 * A list gives labels and names by id. A record whose id has no line in the list fails with E_MISMATCH. Targets that
 * come from the list are exact. If a float32 cannot hold one, the field "label" of that record fails with E_FORMAT.
 *
 * NAME.idx next to NAME.rec (MXNet's, or one that `bzna index` wrote) says where records begin, and
 * dataset_config.index does for a file that is not opened by its path. Without it, or if it is older than the file,
 * opening scans the headers once. An index of another file is refused with E_FORMAT, when the file is opened or when a
 * sample is used. Offsets need 8 bytes a record.
 *
 * WEIGHTS. A loader with BZNA_ORDER_GIVEN delivers lists of samples. bzna_formats_weighted_give draws such a list by
 * weights, for unbalanced classes and for mixtures of data sets, and gives it to the loader:
 *
 *     config.order.kind = BZNA_ORDER_GIVEN;
 *     bzna_loader_open(context, dataset, &config, &loader, &err);
 *     bzna_formats_weights drawn = { .struct_size = sizeof drawn, .weights = weights, .weight_count = n, .seed = 7 };
 *     bzna_formats_weighted_give(loader, dataset, &drawn, 0, &err);
 *
 * Give each epoch its list before the loader begins that epoch: the next epoch's list when a batch says last_of_epoch,
 * or better one epoch earlier, so that its samples are read while the last batches are still in use. A list depends on
 * seed and epoch alone. After bzna_loader_restore, give the list of state.epoch again: the run continues with the same
 * samples.
 *
 * RULES turn fields into tensors, such as boxes of JSON that are mapped to the pixels of the output, or deliver their
 * bytes. A rule selects fields by name, suffix or pattern, and the first rule that matches a field is used:
 *
 *     bzna_rule given[] = {
 *         { .struct_size = sizeof *given, .field = ".json", .name = "boxes", .call = read_boxes,
 *           .kind = BZNA_RULE_ROWS, .dimensions = 2, .shape = { 100, 5 } },
 *         { .struct_size = sizeof *given, .field = "*caption*", .name = "text" },
 *     };
 *     bzna_formats_rules_open(dataset, given, 2, &config, &rules, &err);
 *     bzna_loader_open(context, dataset, &config, &loader, &err);
 *
 * Each batch then has the tensors "boxes" [N, 100, 5] and "boxes_count" [N], and bzna_batch_bytes of "text". Close the
 * rules after the loader.
 *
 * RECORD FILES (CIFAR, MNIST, raw tensors) have records of one size. Since they do not describe themselves,
 * bzna_records does: formats_config.records. Their fields are "image", or "data", and "target" or "label", as
 * bzna_records says. The first record files, of at most 256 MiB together, are held in memory as a whole
 * (formats_config.hold_bytes): they are not read again, and a change has no effect until the data set is opened again.
 * A file that cannot be read as a whole is not held, so that only samples that cannot be read fail.
 *
 * CODECS for bzna_context_config.own_codecs:
 *
 *     bzna_context_config config = { .struct_size = sizeof config };
 *     config.own_codecs.ptr = bzna_formats_codecs(&config.own_codecs.count);
 *
 * From then on, everything that is opened with this context may have pictures of these kinds: folders, tars, archives,
 * providers, and single pictures. make builds libbenzina_formats, whose codecs the program bzna and the bindings
 * register themselves. It is linked with $(pkg-config --libs benzina_formats).
 *
 * The file of a codec may also be copied alone, with this header, next to benzina.h and benzina.c. Its own comment says
 * how it is compiled, and its function fills in one codec.
 *
 *     bzna_codec codec;
 *     bzna_formats_jxl(&codec);
 *     config.own_codecs.ptr = &codec;
 *     config.own_codecs.count = 1;
 *
 * FILES. These need others of this folder, and data.h. They are compiled with the same switches.
 *
 *     file                                needs                  and, unless their switches are set
 *     open.c                              data.c formats.c       paths.c pairs.c lists.c records.c recordio.c
 *     pairs.c                             data.c formats.c
 *     recordio.c                          data.c                 lists.c
 *     paths.c lists.c records.c           data.c
 *     rules.c weighted.c policies.c       data.c
 *     formats.c                           -                      heif.c stills.c tiff.c jpeg2000.c jxl.c
 *
 * SWITCHES. A file whose switch is set needs no library, and may be left out. If there is formats.c or the file, its
 * codecs still recognize their pictures, and refuse them with a message that names the library.
 *
 *     BENZINA_FORMATS_NO_HEIF      heif.c without all of it
 *     BENZINA_FORMATS_NO_STILLS    stills.c without libavcodec
 *     BENZINA_FORMATS_NO_TIFF      tiff.c without libtiff
 *     BENZINA_FORMATS_NO_JPEG2000  jpeg2000.c without OpenJPEG
 *     BENZINA_FORMATS_NO_JXL       jxl.c without libjxl
 *     BENZINA_FORMATS_NO_RECORDS   records.c without all of it: such files are refused by a message
 *     BENZINA_FORMATS_NO_RECORDIO  the same for recordio.c
 *     BENZINA_FORMATS_NO_PAIRS     the same for pairs.c
 *     BENZINA_FORMATS_NO_LISTS     the same for lists.c
 *     BENZINA_FORMATS_NO_PATHS     the same for paths.c: a path is used as it is, and there is no bzna_formats_braces
 */
#ifndef BENZINA_FORMATS_H
#define BENZINA_FORMATS_H

#include "benzina.h"

#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As BZNA_API, of the library of formats. */
#define BZNA_FORMATS_API BZNA_API

/* All codecs of this folder, in the order in which they are asked. The array is made once and never changes. Any
 * thread.
 *     count    set to their number */
BZNA_FORMATS_API const bzna_codec *bzna_formats_codecs(uint64_t *count);

/* Returns the number of the codec that takes a file, for bzna_image.codec of a decoder whose context has all codecs; or
 * BZNA_CODEC_UNKNOWN. Any thread.
 *     data     the file's bytes, of which the first 512 are looked at
 *     bytes    how many there are */
BZNA_FORMATS_API uint32_t bzna_formats_recognize(const void *data, uint64_t bytes);

/* Fills in the codec of HEIF and AVIF (heif.c), which needs no library. It has nothing to be freed. Any thread. */
BZNA_FORMATS_API void bzna_formats_heif(bzna_codec *codec);

/* The things that a HEIF file may hold besides its picture, as bits. No data set delivers any of it. */
enum {
    BZNA_HEIF_THUMB     = 1,          /* thumbnails */
    BZNA_HEIF_AUXILIARY = 2,          /* alpha, depth and the like */
    BZNA_HEIF_IMAGES    = 4,          /* further images */
    BZNA_HEIF_SEQUENCE  = 8           /* an image sequence */
};

/* Returns BZNA_HEIF_... of a file; 0 also if it is damaged or of another kind. Any thread. */
BZNA_FORMATS_API uint32_t bzna_formats_heif_beside(const void *data, uint64_t bytes);

/* Fills in the codec of GIF, of which it reads the first picture (stills.c). It has nothing to be freed. Any thread. */
BZNA_FORMATS_API void bzna_formats_gif(bzna_codec *codec);

/* Fills in the codec of BMP (stills.c). It has nothing to be freed. Any thread. */
BZNA_FORMATS_API void bzna_formats_bmp(bzna_codec *codec);

/* Fills in the codec of PBM, PGM, PPM and PAM (stills.c). It has nothing to be freed. Any thread. */
BZNA_FORMATS_API void bzna_formats_pnm(bzna_codec *codec);

/* Fills in the codec of TIFF, by libtiff (tiff.c). It has nothing to be freed. Any thread. */
BZNA_FORMATS_API void bzna_formats_tiff(bzna_codec *codec);

/* Fills in the codec of JPEG 2000, by OpenJPEG (jpeg2000.c). It has nothing to be freed. Any thread. */
BZNA_FORMATS_API void bzna_formats_jpeg2000(bzna_codec *codec);

/* Fills in the codec of JPEG XL, by libjxl (jxl.c). It has nothing to be freed. Any thread. */
BZNA_FORMATS_API void bzna_formats_jxl(bzna_codec *codec);

/* ---- Data sets ---------------------------------------------------------------------------- */

/* Types of numbers in record files. They are little-endian. */
enum {
    BZNA_RECORD_NONE    = 0,          /* there is no label */
    BZNA_RECORD_UINT8   = 1,
    BZNA_RECORD_INT32   = 2,
    BZNA_RECORD_INT64   = 3,
    BZNA_RECORD_FLOAT32 = 4
};

/* A record file, such as CIFAR, MNIST or raw tensors: all records have one size. The file is a header and then
 * whole records; bytes after the last whole record are E_TRUNCATED. Data are a picture, the field
 * "image", if data_type is UINT8 and channels is 1 or 3. Else they are the field "data", a vector
 * of channels * height * width float32. */
typedef struct bzna_records {
    uint32_t struct_size;             /* sizeof the struct; bzna_formats_records_init sets it */
    uint32_t data_type;               /* BZNA_RECORD_..., but not NONE */
    /* BZNA_LAYOUT_... of a picture's bytes: one plane for each channel, or channels interleaved.
     * Must be 0 for vectors */
    uint32_t layout;
    uint32_t width;                   /* pixels, or a factor of the vector's length; at least 1 */
    uint32_t height;                  /* rows, or another factor; at least 1 */
    uint32_t channels;                /* at least 1 */
    /* bytes before the first record; a file that has fewer is E_TRUNCATED */
    uint64_t header_bytes;
    uint64_t stride;                  /* bytes of a record; 0: what data and label need */
    uint64_t data_offset;             /* where the data begin in a record, in bytes */
    uint64_t label_offset;            /* where the label begins in a record, in bytes */
    /* BZNA_RECORD_... An integer is the field "target", a FLOAT32 the field "label", a vector of
     * one number. NONE: there is no label */
    uint32_t label_type;
    /* numbers of vectors are x * scale + bias; 0 counts as 1. If both are 0, the bits of FLOAT32
     * stay as they are */
    float    scale;
    float    bias;                    /* is added to x * scale. Both must be 0 for pictures */
    uint32_t reserved0;               /* must be 0 */
} bzna_records;

/* Settings for opening a data set. Everything is copied. Zero is the default of every member. */
typedef struct bzna_formats_config {
    uint32_t struct_size;             /* sizeof the struct; bzna_formats_config_init sets it */
    uint32_t reserved0;               /* must be 0 */
    /* the settings that the library itself has. NULL: all defaults */
    const bzna_dataset_config *dataset;
    /* folders of a folder whose files of the same names make one sample, 2 to 4 of them with commas between them:
     * "images,masks". Each is an image field of that name; "depth=out/depth" gives the field of a deeper folder a name.
     * Default: the folder is not made of pairs. Of pairs, list and records, only one may be set */
    const char *pairs;
    /* extensions of files that are pictures by codecs of the program's own beyond bzna_formats_codecs, in lower case
     * and with blanks between them, for pairs. Default: none */
    const char *extensions;
    /* path of a list: which files of a folder are samples, or the labels of a RecordIO file. Default: none */
    const char *list;
    const bzna_records *records;      /* what a record of a record file holds; NULL: there are none */
    /* how many bytes of files of records that are opened by their paths may be held in memory, so that they are not
     * read again; 1: none. A file is read when it is opened, if it and those that are held have at most so many bytes.
     * Default: 256 MiB */
    uint64_t    hold_bytes;
} bzna_formats_config;

/* Clears config and sets its struct_size, in bytes: pass sizeof *config. Any thread. */
BZNA_FORMATS_API void bzna_formats_config_init(bzna_formats_config *config, size_t struct_size);

/* Clears records and sets its struct_size, in bytes: pass sizeof *records. After that, set data_type, width, height and
 * channels. Any thread. */
BZNA_FORMATS_API void bzna_formats_records_init(bzna_records *records, size_t struct_size);

/* Opens the files that a path or pattern names, of all kinds that this folder and the library know. A picture of a
 * codec of this folder that is opened alone is one sample, with the field "image", and its container and format are
 * "picture". Any thread.
 *     context   may be closed before the data set
 *     path      UTF-8, a path or a pattern; copied
 *     config    copied; NULL: all defaults
 *     out       becomes the data set, to be closed with bzna_dataset_close
 * Statuses: those of bzna_dataset_open; E_ARGUMENT for braces that do not close; E_NOT_FOUND for a pattern that no file
 * matches; E_LIMIT for more than 65536 files. */
BZNA_FORMATS_API bzna_status bzna_formats_open(bzna_context *context, const char *path,
    const bzna_formats_config *config, bzna_dataset **out, bzna_error *err);

/* Opens several paths as one data set, one after the other. Any thread.
 *     context   may be closed before the data set
 *     paths     count strings, each as for bzna_formats_open; copied
 *     count     1..65536
 *     config    for each path; copied; NULL: all defaults. config->dataset->name: only of one file
 *     out       becomes the data set, to be closed with bzna_dataset_close
 * Statuses: that of bzna_formats_open for the first path that fails; E_NO_SAMPLES if count is 0. */
BZNA_FORMATS_API bzna_status bzna_formats_open_list(bzna_context *context, const char *const *paths, uint32_t count,
    const bzna_formats_config *config, bzna_dataset **out, bzna_error *err);

/* Opens a file in memory, as bzna_dataset_open_memory does, which describes the parameters; or a picture of a codec of
 * this folder, which is one sample, with the field "image". Any thread. */
BZNA_FORMATS_API bzna_status bzna_formats_open_memory(bzna_context *context, const void *bytes, size_t size,
    const bzna_formats_config *config, bzna_dataset **out, bzna_error *err);

/* Opens a file that the caller's functions read, as bzna_dataset_open_source does, which describes the parameters; or a
 * picture of a codec of this folder, which is one sample, with the field "image". Any thread. */
BZNA_FORMATS_API bzna_status bzna_formats_open_source(bzna_context *context, const bzna_source *source,
    const bzna_formats_config *config, bzna_dataset **out, bzna_error *err);

/* Gives the texts to which the braces of a pattern expand (paths.c). Files are not looked for: * ? [] and "::" stay as
 * they are. Any thread.
 *     pattern    UTF-8, of at most 4095 bytes
 *     dst        receives the texts one after the other, each with a NUL at its end; NULL asks for the size alone
 *     capacity   bytes at dst
 *     needed     set to the bytes of all texts with their NULs; may be NULL
 *     count      set to the number of texts; may be NULL
 * Statuses: E_ARGUMENT for braces that do not close; E_LIMIT for more than 65536 texts, or 64 groups in braces;
 * E_BUFFER if dst is NULL or too small, in which case the bytes at dst are undefined. */
BZNA_FORMATS_API bzna_status bzna_formats_braces(const char *pattern, char *dst, size_t capacity, size_t *needed,
    uint32_t *count, bzna_error *err);

/* ---- Weighted orders (weighted.c) ------------------------------------------------------------- */

/* How samples are drawn by weights. */
enum {
    BZNA_WEIGHTING_REPLACE = 1,       /* each position is an independent draw */
    /* draws without replacement (Efraimidis and Spirakis 2006): all samples are sorted, with 16 bytes each meanwhile */
    BZNA_WEIGHTING_ONCE    = 2
};

/* How the samples of an epoch are drawn. Zero is the default of every member but weights. Arrays are read during the
 * call, and not kept. */
typedef struct bzna_formats_weights {
    uint32_t        struct_size;      /* sizeof the struct; bzna_formats_weights_init sets it */
    uint32_t        weighting;        /* BZNA_WEIGHTING_...; default REPLACE */
    /* how likely a sample is drawn. One weight for each sample of the data set (of indices, if they are given), or for
     * each part, finite, at least 0, and one of them above 0 */
    const double   *weights;
    uint64_t        weight_count;     /* weights at weights */
    const uint64_t *indices;          /* the samples that are drawn from. NULL: all samples of the data set */
    uint64_t        index_count;      /* indices at indices */
    /* draws in an epoch. Default: as many as samples, or with ONCE as samples that have a weight */
    uint64_t        epoch_samples;
    uint64_t        seed;             /* of the draws: the loader's, or another */
    /* 1: weights are one for each part of a concatenation, shared evenly by its samples; not together with indices */
    uint32_t        by_part;
    uint32_t        reserved0;        /* must be 0 */
} bzna_formats_weights;

/* Clears weights and sets its struct_size, in bytes: pass sizeof *weights. Any thread. */
BZNA_FORMATS_API void bzna_formats_weights_init(bzna_formats_weights *weights, size_t struct_size);

/* Draws the samples of an epoch, for bzna_loader_set_batches. A million take about 0.1 seconds, or half a second
 * without replacement. Any thread.
 *     dataset    the data set of the loader
 *     weights    borrowed during the call
 *     epoch      its number
 *     list       receives the indices; NULL asks for their number alone
 *     capacity   numbers at list
 *     count      set to the number of draws in an epoch; may be NULL
 * Statuses: E_ARGUMENT for invalid weights, whose message names the member; E_BUFFER if list is NULL or too small. */
BZNA_FORMATS_API bzna_status bzna_formats_weighted_list(const bzna_dataset *dataset,
    const bzna_formats_weights *weights, uint64_t epoch, uint64_t *list, uint64_t capacity, uint64_t *count,
    bzna_error *err);

/* Draws the samples of an epoch, and gives them to a loader. Any thread.
 *     loader     with BZNA_ORDER_GIVEN
 * The other parameters are those of bzna_formats_weighted_list. Statuses: those of bzna_formats_weighted_list and of
 * bzna_loader_set_batches. */
BZNA_FORMATS_API bzna_status bzna_formats_weighted_give(bzna_loader *loader, const bzna_dataset *dataset,
    const bzna_formats_weights *weights, uint64_t epoch, bzna_error *err);

/* ---- Policies (policies.c) --------------------------------------------------------------------- */

/* Policies that are well known, as torchvision 0.29 has them. */
enum {
    /* RandAugment (Cubuk et al. 2019): `draws` of 14 operations, of magnitude 0..30 */
    BZNA_PRESET_RAND_AUGMENT   = 0,
    /* TrivialAugmentWide (Mueller and Hutter 2021): one of 14 operations, of any magnitude */
    BZNA_PRESET_TRIVIAL_WIDE   = 1,
    /* AutoAugment's policy for ImageNet (Cubuk et al. 2018): one of 25 pairs of operations */
    BZNA_PRESET_AUTO_IMAGENET  = 2
};

/* Sets policy to one that is well known. Its operations are constants. Change its members after that, if it
 * should differ. Any thread.
 *     preset      BZNA_PRESET_...
 *     draws       RAND_AUGMENT: 1..8; 0 counts as 2. Must be 0 for the others
 *     magnitude   RAND_AUGMENT: 0..30; torchvision's default is 9. Must be 0 for the others
 *     policy      filled in
 * Statuses: E_ARGUMENT. */
BZNA_FORMATS_API bzna_status bzna_formats_policy_preset(uint32_t preset, uint32_t draws, uint32_t magnitude,
    bzna_policy *policy, bzna_error *err);

/* ---- Rules for fields (rules.c) ---------------------------------------------------------------- */

/* The value of a field that a rule is asked about. */
typedef struct bzna_rule_input {
    uint32_t                struct_size;     /* bytes that were filled in */
    uint32_t                kind;            /* BZNA_FIELD_... of the field */
    const char             *field;           /* the field's name */
    /* the value as bzna_batch_bytes has it, with a NUL behind it. The library's, as are the members below: not to be
     * used after the callback has returned */
    const void             *data;
    uint64_t                size;            /* bytes at data, without that NUL */
    /* about the sample and its first view; width and height are 0 in batches without pictures */
    const bzna_sample_info *sample;
    const bzna_geometry    *geometry;        /* one for each view of the first output; or NULL */
    uint32_t                view_count;      /* at geometry; 0 in batches without pictures */
    uint32_t                reserved0;       /* 0 */
} bzna_rule_input;

/* Makes a sample's part of a tensor from a field. Called on decoder threads, concurrently, once for each sample that
 * has the field, before its pictures are decoded, or twice if NVDEC hands the sample on to software.
 *     user        rule.user
 *     input       the field's value, and what was drawn for the sample
 *     out         the sample's part of the tensor, all zeros: to be filled in
 *     out_bytes   bytes at out
 *     count       for ROWS: to be set to the number of rows that were filled in; 0 before
 * Returns BZNA_OK, or a negative number, which becomes native_code:
 *     BZNA_E_CALLBACK, below -2^30   the program is at fault: E_CALLBACK (errors.on_callback_error). Bindings number
 *                                    their exceptions so
 *     any other                      the data are damaged: the sample fails with E_FORMAT
 * More rows than there is room for fail the sample with E_MISMATCH. The callback must not call functions that take a
 * context, data set or loader. */
typedef bzna_status (*bzna_rule_fn)(void *user, const bzna_rule_input *input, void *out,
    uint64_t out_bytes, uint64_t *count);

/* The result of a rule for a field. */
enum {
    BZNA_RULE_BYTES  = 0,             /* its bytes, for bzna_batch_bytes, under the rule's name */
    BZNA_RULE_TENSOR = 1,             /* a tensor [N, shape...]: call fills it in */
    /* a tensor [N, shape...] of which call fills in up to shape[0] rows, and with it NAME_count [N] int64, with the
     * number of rows of each sample */
    BZNA_RULE_ROWS   = 2
};

/* A rule for fields: how batches deliver them. Zero is the default of every member but field. A field belongs to the
 * first rule that it matches. Rules of one name share a tensor, and must have the same kind, dtype and shape: for each
 * sample, the first of these rules whose field the sample has makes the sample's part. If a sample has no such field,
 * or fails before the rule is called, floats are NaN, integers are -1, uint8 is 0, and ROWS has only zeros, and 0 rows.
 * A field matches no rule if there is a comma, a colon or an equals sign in its name. */
typedef struct bzna_rule {
    uint32_t     struct_size;         /* sizeof the struct; bzna_formats_rule_init sets it */
    uint32_t     kind;                /* BZNA_RULE_... */
    /* the field's name; or ".json" for "json" and all names that end so; or a pattern, in which * matches any text and
     * ? one byte. At most 63 bytes; copied */
    const char  *field;
    /* its name in the batch, at most 31 bytes (ROWS: 25); copied. NULL: as field, which is a name then */
    const char  *name;
    bzna_rule_fn call;                /* must be NULL for BYTES; required for the others */
    void        *user;                /* passed to call; the caller's */
    uint32_t     dtype;               /* BZNA_DTYPE_FLOAT32, _UINT8, _INT32 or _INT64 */
    uint32_t     dimensions;          /* numbers at shape, at most 4; ROWS: at least 1 */
    int64_t      shape[4];            /* of a sample, the outermost one first; each at least 1 */
    uint64_t     reserved[4];         /* must be 0 */
} bzna_rule;

typedef struct bzna_rules bzna_rules; /* the rules of one loader, which know the fields of its data set */

/* Clears rule, and sets its struct_size, in bytes: pass sizeof *rule. After that, set field, and for tensors kind,
 * call, dtype and shape. Any thread. */
BZNA_FORMATS_API void bzna_formats_rule_init(bzna_rule *rule, size_t struct_size);

/* Prepares the config of a loader for rules. Any thread.
 *     dataset   the data set of the loader
 *     given     the rules, in order: count of them; copied, with their texts
 *     count     1..16
 *     config    of the loader: fields.bytes gets more names, before those that it has; made, made_count, make and
 *               make_user are set for tensors, and must not be set before. It points to memory of the rules from
 *               then on
 *     out       becomes the rules, to be closed with bzna_formats_rules_close after all loaders of this config
 * Statuses, whose messages name the rule: E_ARGUMENT; E_NOT_FOUND if a rule matches no field of the data set.
 * bzna_loader_open refuses invalid shapes and names, as it does in fields.made. */
BZNA_FORMATS_API bzna_status bzna_formats_rules_open(const bzna_dataset *dataset, const bzna_rule *given,
    uint32_t count, bzna_loader_config *config, bzna_rules **out, bzna_error *err);

/* Frees rules; NULL does nothing. Loaders that have them must be closed. Any thread. */
BZNA_FORMATS_API void bzna_formats_rules_close(bzna_rules *rules);

/* ---- For the files of this folder ------------------------------------------------------------- */

/* Fails with a message, for the files of this folder, unless there is one, such as that of a library that decodes. The
 * library puts the codec's name, the sample and the file before it. */
static inline bzna_status bzna_formats_fail(bzna_error *err, bzna_status status, const char *why)
{
    if (!*err->message)
        snprintf(err->message, sizeof err->message, "%s", why);
    return status;
}

/* A codec's unwrap in a build without its library, whose name is the codec's user. */
static inline bzna_status bzna_formats_lacks(void *library, const void *data, uint64_t bytes, bzna_image *image,
                                             bzna_error *err)
{
    (void)data, (void)bytes, (void)image;
    snprintf(err->message, sizeof err->message, "it is decoded by %s, which this build does not have",
             (const char *)library);
    return BZNA_E_UNSUPPORTED;
}

/* Fills in a codec that lacks its library: it recognizes its pictures, and refuses them. */
static inline void formats_lacks(bzna_codec *codec, const char *name, const char *extensions,
                                 bzna_codec_recognize_fn recognize, const char *library)
{
    memset(codec, 0, sizeof *codec);
    codec->struct_size = sizeof *codec;
    codec->name = name;
    codec->extensions = extensions;
    codec->recognize = recognize;
    codec->user = (void *)(uintptr_t)library;
    codec->unwrap = bzna_formats_lacks;
}

/* Makes it one that has its library. */
static inline void formats_decodes(bzna_codec *codec, bzna_codec_inspect_fn inspect, bzna_codec_decode_fn decode)
{
    codec->user = NULL;
    codec->unwrap = NULL;
    codec->inspect = inspect;
    codec->decode = decode;
}

/* The codecs that a build may lack. Their files complete them by formats_decodes. If their files are left
 * out, formats.c has them as they are here. Several threads ask a recognize at once, and it looks at nothing but the
 * bytes. */
static inline int32_t formats_is_heif(void *user, const void *head, uint64_t bytes)
{
    const char *brand = "mif1mif2msf1heicheixheimheishevchevxhevmhevsavcijpegavifavismiaf";
    (void)user;
    if (bytes < 12 || memcmp((const char *)head + 4, "ftyp", 4))
        return 0;
    while (*brand && memcmp((const char *)head + 8, brand, 4))
        brand += 4;                                         /* of stills or sequences */
    return *brand != 0;
}

static inline void formats_lacks_heif(bzna_codec *codec)
{
    formats_lacks(codec, "HEIF", "heic heif hif avif", formats_is_heif, "heif.c");
}

static inline int32_t formats_is_gif(void *user, const void *head, uint64_t bytes)
{
    (void)user;
    return bytes >= 6 && (!memcmp(head, "GIF87a", 6) || !memcmp(head, "GIF89a", 6));
}

static inline void formats_lacks_gif(bzna_codec *codec)
{
    formats_lacks(codec, "GIF", "gif", formats_is_gif, "libavcodec");
}

/* "BM", and the upper bytes of the size of the second header, which has at most 124 bytes. */
static inline int32_t formats_is_bmp(void *user, const void *head, uint64_t bytes)
{
    (void)user;
    return bytes >= 18 && !memcmp(head, "BM", 2) && !memcmp((const uint8_t *)head + 15, "\0\0\0", 3);
}

static inline void formats_lacks_bmp(bzna_codec *codec)
{
    formats_lacks(codec, "BMP", "bmp", formats_is_bmp, "libavcodec");
}

static inline int32_t formats_is_pnm(void *user, const void *head, uint64_t bytes)
{
    const uint8_t *p = (const uint8_t *)head;
    (void)user;
    return bytes >= 3 && p[0] == 'P' && p[1] >= '1' && p[1] <= '7' &&
           (p[2] == ' ' || (p[2] >= '\t' && p[2] <= '\r'));
}

static inline void formats_lacks_pnm(bzna_codec *codec)
{
    formats_lacks(codec, "PNM", "ppm pgm pbm pnm pam", formats_is_pnm, "libavcodec");
}

/* II or MM; then 42, or 43 of BigTIFF, in that order of bytes. */
static inline int32_t formats_is_tiff(void *user, const void *head, uint64_t bytes)
{
    (void)user;
    for (int i = 0; bytes >= 4 && i < 16; i += 4)
        if (!memcmp(head, &"II*\0" "MM\0*" "II+\0" "MM\0+"[i], 4))
            return 1;
    return 0;
}

static inline void formats_lacks_tiff(bzna_codec *codec)
{
    formats_lacks(codec, "TIFF", "tif tiff", formats_is_tiff, "libtiff");
}

/* A file of JP2, or a codestream. */
static inline int32_t formats_is_jpeg2000(void *user, const void *head, uint64_t bytes)
{
    (void)user;
    return (bytes >= 12 && !memcmp(head, "\0\0\0\x0cjP  \r\n\x87\n", 12)) ||
           (bytes >= 4 && !memcmp(head, "\xff\x4f\xff\x51", 4));
}

static inline void formats_lacks_jpeg2000(bzna_codec *codec)
{
    formats_lacks(codec, "JP2 (JPEG 2000)", "jp2 j2k jpx jpf jpc j2c", formats_is_jpeg2000, "OpenJPEG");
}

/* A bare codestream, or a container that begins with a box of its own. */
static inline int32_t formats_is_jxl(void *user, const void *head, uint64_t bytes)
{
    (void)user;
    return (bytes >= 2 && !memcmp(head, "\xff\x0a", 2)) ||
           (bytes >= 12 && !memcmp(head, "\0\0\0\x0cJXL \r\n\x87\n", 12));
}

static inline void formats_lacks_jxl(bzna_codec *codec)
{
    formats_lacks(codec, "JXL (JPEG XL)", "jxl", formats_is_jxl, "libjxl");
}

/* Returns where a row of a plane begins. */
static inline uint8_t *formats_row(const bzna_codec_planes *planes, uint32_t plane, uint32_t y)
{
    return (uint8_t *)planes->plane[plane] + (int64_t)y * planes->pitch[plane];
}

/* Writes a sample of 16 bits, or of 8. */
static inline void formats_put(uint8_t *to, int is_deep, uint32_t value)
{
    if (is_deep)
        *(uint16_t *)(void *)to = (uint16_t)value;
    else
        *to = (uint8_t)value;
}

/* Returns a sample of `bits` bits as one of `depth` bits, 8 to 16: fewer are stretched, so that the largest stays the
 * largest, and of more the upper ones are taken. */
static inline uint32_t formats_scale(uint32_t value, uint32_t bits, uint32_t depth)
{
    return bits > depth ? value >> (bits - depth) :
           bits < depth ? value * ((1u << depth) - 1) / ((1u << bits) - 1) : value;
}

/* A file in memory, as a library reads it that has its own way of reading. */
typedef struct formats_file {
    const uint8_t *data;
    uint64_t       size;              /* bytes */
    uint64_t       at;                /* the place of the next byte, which may be past the end */
} formats_file;

/* Reads at most so many bytes. Returns how many. */
static inline uint64_t formats_read(formats_file *f, void *to, uint64_t bytes)
{
    const uint64_t left = f->at < f->size ? f->size - f->at : 0, count = bytes < left ? bytes : left;

    if (count)
        memcpy(to, f->data + f->at, (size_t)count);
    f->at += count;
    return count;
}

/* A range of bytes, of which the first ones are taken. */
typedef struct formats_bytes {
    const uint8_t *at;                /* the next byte; NULL: there are none, and no box either */
    uint64_t       left;              /* bytes from there on */
    int            overrun;           /* more was asked for than there was, and zeros were given */
} formats_bytes;

static inline const uint8_t *formats_take(formats_bytes *b, uint64_t bytes)
{
    const uint8_t *const at = b->at;

    if (!bytes || b->overrun || bytes > b->left) {
        b->overrun |= bytes > b->left;
        return NULL;
    }
    b->at += bytes;
    b->left -= bytes;
    return at;
}

/* Takes a number of at most 8 bytes, the most significant first. */
static inline uint64_t formats_number(formats_bytes *b, uint32_t bytes)
{
    const uint8_t *at = formats_take(b, bytes);
    uint64_t value = 0;

    for (uint32_t i = 0; at && i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

static inline uint32_t formats_u32(formats_bytes *b) { return (uint32_t)formats_number(b, 4); }
static inline uint32_t formats_u16(formats_bytes *b) { return (uint32_t)formats_number(b, 2); }
static inline uint32_t formats_u8(formats_bytes *b)  { return (uint32_t)formats_number(b, 1); }

/* Four characters as a number. */
static inline uint32_t formats_type(const char *type)
{
    formats_bytes b = { (const uint8_t *)type, 4, 0 };
    return formats_u32(&b);
}

/* Takes the next box of ISO/IEC 14496-12, or of JPEG 2000. Returns 1, 0 at the end, or -1 if it does not fit. */
static inline int formats_box(formats_bytes *b, uint32_t *type, formats_bytes *payload)
{
    const uint64_t left = b->left;
    uint64_t size, header = 8;

    if (left < 8)
        return 0;
    size = formats_u32(b);
    *type = formats_u32(b);
    if (size == 1) {
        header = 16;
        size = formats_number(b, 8);
    }
    size = size ? size : left;
    if (b->overrun || size < header || size > left)
        return -1;
    payload->at = b->at;
    payload->left = size - header;
    payload->overrun = 0;
    formats_take(b, payload->left);
    return 1;
}

#ifdef __cplusplus
}
#endif
#endif
