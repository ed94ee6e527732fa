/* convert.c - bzna convert: any data set as a folder, tar shards or RecordIO files
 *
 * JPEG, PNG, TIFF and other files stay as they are; frames of video and of HEIF, and records, become JPEG. Targets,
 * names and fields are kept as far as the container can hold them; what it cannot is said of the first sample, and
 * counted:
 *
 *     folder    CLASS/NAME, where samples have targets, with the names of classes if there are any. Where that folder
 *               by itself would give other targets or another order, FOLDER.lst has them
 *     tar       NAME, which is KEY.jpg; KEY.cls, the target; KEY.FIELD for every further field. Where NAME cannot be
 *               one of a tar's, KEY.name has it, of all samples
 *     .rec      the target, or several labels, as the label, the number as the id; with an .idx, and a .lst with the
 *               names
 *
 * A file gets its name when it is complete. */
#include "tool.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>

typedef enum output_kind { TO_FOLDER, TO_TAR, TO_RECORDS } output_kind;

/* What the new data set does not have of samples, of one kind. */
typedef struct loss {
    const char *kind;                             /* a format of note */
    char       *of;                               /* the field that it is of, or "" */
    char       *first;                            /* as it is said of the first sample */
    uint64_t    count;                            /* of samples */
} loss;

typedef struct conversion {
    const tool_options *options;
    archive             archive;
    output_kind         kind;
    uint64_t           *order;                    /* of the samples */
    char              **names;                    /* under which they are written: KEY.jpg, CLASS/NAME.jpg */
    int                 number_width;             /* of class folders that have no name */
    int                 has_name_files;           /* KEY.name */
    struct loss        *losses;                   /* by kind; loss_count of them */
    size_t              loss_count;
    int                 is_altered;               /* something of the sample is left behind */
    int                 is_full;                  /* a file of a folder could not be written, nor would others be */
    int                 made_folder;              /* it was not there before */
    tool_file           out, index, list;         /* the open shard; list: of a folder, too */
    int                 lists_targets, lists_vectors;   /* lines of lists have these */
    uint64_t            in_shard, shard, position, left_out, altered;
    archive_copied      copied;
    tool_buffer         sample;
} conversion;

/* A sample's file: its bytes and its extension. */
typedef struct sample_file {
    AVPacket   *bytes;
    const char *name;                             /* under which it is written */
} sample_file;

/* What the new data set does not have of this sample: notes_print says it of the first one, and counts the others.
 * of: the field, or "". kind: a format, in which the field comes first where there is one. */
PRINTF_LIKE(3, 4) static void note(conversion *c, const char *of, const char *kind, ...)
{
    size_t i = 0;
    c->is_altered = 1;
    while (i < c->loss_count && (strcmp(c->losses[i].kind, kind) || strcmp(c->losses[i].of, of))) i++;
    if (i == c->loss_count) {
        char text[600];
        va_list arguments;
        va_start(arguments, kind);
        vsnprintf(text, sizeof text, kind, arguments);
        va_end(arguments);
        c->losses = tool_checked(realloc(c->losses, (i + 1) * sizeof *c->losses));
        c->losses[c->loss_count++] = (loss){ kind, tool_format("%s", of), tool_format("%s", text), 0 };
    }
    c->losses[i].count++;
}

static void notes_print(conversion *c)
{
    for (size_t i = 0; i < c->loss_count; i++) {
        loss *l = &c->losses[i];
        fprintf(stderr, "bzna: note: %s: ", c->options->out);
        tool_print_text(stderr, l->first);
        if (l->count > 1) fprintf(stderr, " (the same holds for %" PRIu64 " other samples)", l->count - 1);
        fputc('\n', stderr);
        free(l->of);
        free(l->first);
    }
    free(c->losses);
}


/* ---- one sample ---- */

/* Whether a picture's file is written as it is. */
static int is_copied(const bzna_image_info *info) { return archive_is_file(info->codec) && !archive_is_heif(info); }

/* As it is, or as a JPEG of what is no file. Returns NULL or the reason. */
static char *picture_bytes(conversion *c, uint64_t index, AVPacket *bytes)
{
    bzna_error err = tool_empty_error();
    bzna_sample_ref sample = { .struct_size = sizeof sample };
    bzna_image image;
    bzna_image_info info;
    const bzna_dataset *d = c->archive.dataset;
    const char *track;
    if (bzna_dataset_sample(d, index, &sample, sizeof sample, &err) < 0 ||
        bzna_dataset_image_info(d, index, track = archive_default_track(&sample), &info, sizeof info, &err) < 0 ||
        archive_read_picture(&c->archive, index, track, &c->sample, &image, &err) < 0)
        return tool_format("%s", err.message);
    if (is_copied(&info)) {
        if (image.data_size > INT32_MAX / 2 || av_new_packet(bytes, (int)image.data_size) < 0)
            return tool_format("out of memory");
        memcpy(bytes->data, image.data, (size_t)image.data_size);
        return NULL;
    }
    const pack_settings s = pack_settings_jpeg((int)c->options->quality);
    const pack_file from = { .path = c->options->operand[0], .archive = &c->archive, .index = index };
    pack_encoded jpeg = { .packet = NULL }, none = { .packet = NULL };
    char *reason = pack_encode_file(&s, &from, &jpeg, &none);
    if (!reason) av_packet_move_ref(bytes, jpeg.packet);
    av_packet_free(&jpeg.packet);
    return reason;
}


/* ---- the names under which samples are written ---- */

/* The extensions of a picture's kind, "jpg|jpeg", of which the first is its own; those of PNG and WebP are their names.
 */
static void extensions_find(const bzna_image_info *info, char *extensions, size_t size)
{
    uint64_t count;
    const bzna_codec *codecs = bzna_formats_codecs(&count);
    uint32_t own = info->codec - BZNA_CODEC_OWN;
    snprintf(extensions, size, "%s", !is_copied(info) || info->codec == BZNA_CODEC_JPEG ? "jpg jpeg" :
                                     own < count ? codecs[own].extensions : archive_codec(info).text);
    for (char *at = extensions; (at = strchr(at, ' ')) != NULL;) *at = '|';
}

/* The extension that a name ends with, where it is one of the picture's kind; else the kind's own. A tar's are lower
 * case. */
static const char *extension_of(const conversion *c, uint64_t index, const char *name)
{
    bzna_sample_ref sample = { .struct_size = sizeof sample };
    bzna_image_info info = { .codec = BZNA_CODEC_JPEG };
    const char *dot = name ? strrchr(name, '.') : NULL;
    char extensions[64];
    static char lower[16];
    bzna_dataset_sample(c->archive.dataset, index, &sample, sizeof sample, NULL);
    bzna_dataset_image_info(c->archive.dataset, index, archive_default_track(&sample), &info, sizeof info, NULL);
    extensions_find(&info, extensions, sizeof extensions);
    snprintf(lower, sizeof lower, "%s", dot && !strchr(dot, '/') ? dot + 1 : "");
    for (char *at = lower; *at; at++) *at = (char)tolower((unsigned char)*at);
    if (tool_is_choice(extensions, lower)) return c->kind == TO_TAR ? lower : dot + 1;
    snprintf(lower, sizeof lower, "%.*s", (int)strcspn(extensions, "|"), extensions);
    return lower;
}

/* A name without its extension, as a path that leads nowhere else, and has no hidden parts; to be freed. In a key, the
 * last part has no dots. */
static char *stem_of(const conversion *c, const char *name)
{
    char *stem = tool_format("%s", name), *slash = strrchr(stem, '/'), *dot = strrchr(slash ? slash : stem, '.');
    if (dot && dot > stem && dot[-1] != '/') *dot = 0;
    for (char *at = stem; *at; at++) {
        int is_first = at == stem || at[-1] == '/', in_key = c->kind == TO_TAR && !strchr(at, '/');
        if ((unsigned char)*at < 0x20 || (*at == '.' && (is_first || in_key)) || (*at == '/' && is_first)) *at = '_';
    }
    return stem;
}

/* The folder of a class: its name, or its number with as many digits as the largest has. */
static char *class_folder(const conversion *c, int64_t target)
{
    const tool_names *classes = &c->archive.classes;
    if (target >= 0 && (uint64_t)target < classes->count) {
        const char *name = classes->names[target];
        if (*name && *name != '.' && !strchr(name, '/')) return tool_format("%s", name);
    }
    return tool_format("%0*" PRId64, c->number_width, target);
}

/* numbered: with the sample's number, since others have the same name. */
static char *name_of(const conversion *c, uint64_t index, int64_t target, const char *own, int numbered)
{
    char *stem = own ? stem_of(c, own) : NULL, *base = stem, *name;
    char *folder = c->kind == TO_FOLDER && target != BZNA_TARGET_NONE ? class_folder(c, target) : tool_format("%s", "");
    const char *slash = *folder ? "/" : "", *extension = extension_of(c, index, own);
    size_t length = strlen(folder);
    if (stem && length && !strncmp(stem, folder, length) && stem[length] == '/') base = stem + length + 1;
    if (numbered && base && strrchr(base, '/')) base = strrchr(base, '/') + 1;
    if (!base)         name = tool_format("%s%s%09" PRIu64 ".%s", folder, slash, index, extension);
    else if (numbered) name = tool_format("%s%s%09" PRIu64 "_%s.%s", folder, slash, index, base, extension);
    else               name = tool_format("%s%s%s.%s", folder, slash, base, extension);
    free(folder);
    free(stem);
    return name;
}

static int text_order(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Without extensions in a tar, whose samples are told apart by their keys. */
static int are_unique(const conversion *c)
{
    uint64_t count = c->archive.count, i = 1;
    char **sorted = tool_checked(calloc(count + 1, sizeof *sorted));
    for (uint64_t k = 0; k < count; k++) {
        sorted[k] = tool_format("%s", c->names[k]);
        if (c->kind == TO_TAR) *strrchr(sorted[k], '.') = 0;
    }
    if (count) qsort(sorted, count, sizeof *sorted, text_order);
    while (i < count && strcmp(sorted[i - 1], sorted[i])) i++;
    for (uint64_t k = 0; k < count; k++) free(sorted[k]);
    free(sorted);
    return i >= count;
}

/* Finds the names of all samples; a second time with numbers, where some are the same. */
static void names_find(conversion *c, int numbered)
{
    tool_buffer buffer = { NULL, 0 };
    c->has_name_files = 0;
    for (uint64_t i = 0; i < c->archive.count; i++) {
        const char *own = NULL;
        int64_t target = BZNA_TARGET_NONE;
        bzna_dataset_target(c->archive.dataset, i, &target, NULL);
        archive_copied_name(&c->archive, i, &buffer, &own, NULL);
        free(c->names[i]);
        c->names[i] = name_of(c, i, target, own, numbered);
        c->has_name_files |= c->kind == TO_TAR && own && strcmp(own, c->names[i]);
    }
    free(buffer.data);
    if (!numbered && c->kind != TO_RECORDS && !are_unique(c)) names_find(c, 1);
}

/* The names of classes as folders; where they have none, the digits of the largest target. */
static void classes_find(conversion *c)
{
    archive_class_folders folders = { .is_ambiguous = 0 };
    tool_buffer buffer = { NULL, 0 };
    int64_t largest = 0;
    for (uint64_t i = 0; i < c->archive.count; i++) {
        const char *name = NULL;
        int64_t target = BZNA_TARGET_NONE;
        bzna_dataset_target(c->archive.dataset, i, &target, NULL);
        archive_copied_name(&c->archive, i, &buffer, &name, NULL);
        archive_class_folders_add(&folders, name, target);
        if (target > largest) largest = target;
    }
    archive_class_folders_take(&folders, &c->archive.classes);
    for (c->number_width = 1; largest > 9; largest /= 10) c->number_width++;
    free(buffer.data);
}


/* ---- files ---- */

/* OUT.tar, or OUT-000000.tar and so on with --shard-size. */
static char *shard_path(const conversion *c, const char *extension)
{
    const char *out = c->options->out, *dot = strrchr(out, '.');
    if (!c->options->shard_size) return tool_format("%.*s%s", (int)(dot - out), out, extension);
    return tool_format("%.*s-%06" PRIu64 "%s", (int)(dot - out), out, c->shard, extension);
}

/* Opens PATH.partial; takes over path. */
static int file_open_new(const conversion *c, tool_file *out, char *path)
{
    char *partial = tool_format("%s.partial", path);
    int result = tool_refuse_existing(path, c->options->overwrite);
    if (result == EXIT_OK) result = tool_file_open(out, partial);
    if (result == EXIT_OK) return out->path = path, out->partial = partial, EXIT_OK;
    free(path);
    free(partial);
    *out = (tool_file){ .path = NULL };
    return result;
}

/* Gives the file its name; or removes it, where it or another one failed, or where it has no samples. */
static int file_finish(tool_file *out, int result, int has_samples)
{
    if (!out->file) return result;
    char *path = (char *)(uintptr_t)out->path;
    int is_complete = result == EXIT_OK && has_samples;
    if (!is_complete && !ferror(out->file) && !out->error) tool_file_discard(out);
    else if (tool_file_close(out)) result = EXIT_INPUT;                     /* and has said why */
    free(path);
    *out = (tool_file){ .path = NULL };
    return result;
}

static int shard_open(conversion *c)
{
    c->in_shard = c->position = 0;
    int result = file_open_new(c, &c->out, shard_path(c, c->kind == TO_TAR ? ".tar" : ".rec"));
    if (c->kind == TO_TAR) return result;
    if (result == EXIT_OK) result = file_open_new(c, &c->index, shard_path(c, ".idx"));
    return result == EXIT_OK ? file_open_new(c, &c->list, shard_path(c, ".lst")) : result;
}

/* None of its files gets a name if one of them cannot be written. */
static int shard_close(conversion *c, int result)
{
    static const uint8_t end[1024];
    tool_file *files[] = { &c->list, &c->index, &c->out };
    if (c->kind == TO_TAR && c->out.file) tool_file_write(&c->out, end, sizeof end);
    for (size_t i = 0; i < LENGTH(files); i++)
        if (files[i]->file && tool_file_flush(files[i])) result = EXIT_INPUT;
    for (size_t i = 0; i < LENGTH(files); i++) result = file_finish(files[i], result, c->in_shard != 0);
    c->shard++;
    return result;
}

/* The field "label", which is the label of a list or record where there is no target; NULL: there is none. */
static const bzna_field_value *labels_of(const archive_copied *s)
{
    for (uint32_t i = 0; i < s->count && s->target == BZNA_TARGET_NONE; i++)
        if (!strcmp(s->fields[i].name, "label") && s->fields[i].kind == BZNA_FIELD_VECTOR) return &s->fields[i];
    return NULL;
}

/* Whether samples have vectors of numbers in place of targets: in a list of these, -1 is a number like others. */
static int has_vectors(const archive *a)
{
    for (uint32_t i = 0; i < a->fields.count; i++)
        if (!strcmp(a->fields.list[i].name, "label") && a->fields.list[i].kind == BZNA_FIELD_VECTOR) return 1;
    return 0;
}

/* "index, labels, name", with tabs between them, as MXNet's im2rec and the library read it. */
static void list_line(conversion *c, uint64_t index, const char *name)
{
    const bzna_field_value *labels = labels_of(&c->copied);
    int has_target = c->copied.target != BZNA_TARGET_NONE;
    c->lists_targets |= has_target;
    c->lists_vectors |= labels != NULL;
    fprintf(c->list.file, "%" PRIu64 "\t", index);
    for (uint64_t i = 0; labels && i < labels->size / sizeof(float); i++) {
        float label;
        memcpy(&label, (const uint8_t *)labels->data + i * sizeof label, sizeof label);
        fprintf(c->list.file, "%.9g\t", (double)label);
    }
    if (has_target || (!labels && !has_vectors(&c->archive)))
        fprintf(c->list.file, "%" PRId64 "\t", c->copied.target);
    for (; *name; name++) fputc((unsigned char)*name < 0x20 ? '_' : *name, c->list.file);
    fputc('\n', c->list.file);
}


/* ---- tar ---- */

/* Divides a name at a slash into at most 155 and 100 bytes, as POSIX has it. Returns 0, or -1. */
static int tar_name(uint8_t header[512], const char *name)
{
    size_t length = strlen(name), begin = 0;
    if (length > 100) {
        begin = length - 101;
        while (begin < length && name[begin] != '/') begin++;
        if (begin == length || begin > 155 || !begin) return -1;
        memcpy(header + 345, name, begin++);
    }
    memcpy(header, name + begin, length - begin);
    return 0;
}

/* One member with a POSIX header, of no time and no user, so that the same samples give the same bytes. */
static char *tar_member(conversion *c, const char *key, const char *extension, const void *data, size_t size)
{
    uint8_t header[512] = { 0 };
    static const uint8_t zeros[512];
    unsigned sum = 0;
    char *name = tool_format("%s.%s", key, extension);
    int failed = tar_name(header, name);
    free(name);
    if (failed) return tool_format("a tar's names have at most 100 bytes, behind folders of at most 155");
    memcpy(header + 100, "0000644\0" "0000000\0" "0000000", 24);
    snprintf((char *)header + 124, 12, "%011" PRIo64, (uint64_t)size);
    memcpy(header + 136, "00000000000", 12);
    memset(header + 148, ' ', 8);
    header[156] = '0';
    memcpy(header + 257, "ustar\0" "00", 8);
    for (size_t i = 0; i < sizeof header; i++) sum += header[i];
    snprintf((char *)header + 148, 7, "%06o", sum);
    tool_file_write(&c->out, header, sizeof header);
    tool_file_write(&c->out, data, size);
    tool_file_write(&c->out, zeros, (512 - size % 512) % 512);
    return NULL;
}

/* What a tar takes a file with this extension for. */
static uint32_t tar_kind(const char *name)
{
    static const char integers[] = "cls|cls2|index|inx|id", texts[] = "txt|text|transcript";
    const char *dot = strrchr(name, '.'), *extension = dot ? dot + 1 : name;
    if (tool_is_choice(integers, extension)) return BZNA_FIELD_INTEGER;
    return tool_is_choice(texts, extension) || !strcmp(name, "split") ? BZNA_FIELD_TEXT : BZNA_FIELD_BYTES;
}

/* Numbers as text, everything else as it is. */
static char *tar_field(conversion *c, const char *key, const bzna_field_value *field)
{
    const archive_value value = { field->kind, field->data, (size_t)field->size };
    if (tar_kind(field->name) != field->kind && field->kind != BZNA_FIELD_IMAGE)     /* which any name may have there */
        note(c, field->name, "the field %s, %s, is of another kind in a tar", field->name,
             archive_field_kind(field->kind));
    if (field->kind == BZNA_FIELD_TEXT || field->kind == BZNA_FIELD_BYTES || field->kind == BZNA_FIELD_IMAGE)
        return tar_member(c, key, field->name, value.data, value.size);
    os_text text;
    int error = os_text_begin(&text);
    if (!error) archive_value_print(text.file, &value);
    if (!error) error = os_text_end(&text);
    char *reason = error ? tool_format("the field %s cannot be written: %s", field->name, strerror(error))
                         : tar_member(c, key, field->name, text.data, text.size);
    free(text.data);
    return reason;
}

static char *tar_write(conversion *c, const sample_file *f)
{
    const archive_copied *s = &c->copied;
    const char *dot = strrchr(f->name, '.');
    char *key = tool_format("%.*s", (int)(dot - f->name), f->name);
    char *reason = tar_member(c, key, dot + 1, f->bytes->data, (size_t)f->bytes->size);
    if (!reason && s->target != BZNA_TARGET_NONE) {
        char *text = tool_format("%" PRId64, s->target);
        reason = tar_member(c, key, "cls", text, strlen(text));
        free(text);
    }
    if (!reason && c->has_name_files && s->name) reason = tar_member(c, key, "name", s->name, strlen(s->name));
    for (uint32_t i = 0; i < s->count && !reason; i++) reason = tar_field(c, key, &s->fields[i]);
    free(key);
    return reason;
}


/* ---- RecordIO ---- */

static void put_le(uint8_t *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(value >> 8 * i);
}

/* One part of a record: kind 0 is a whole one, 1 the first of several, 2 one between, 3 the last. */
static void record_part(conversion *c, uint32_t kind, const uint8_t *data, size_t size)
{
    static const uint8_t zeros[4];
    uint8_t head[8];
    put_le(head, 0xced7230a, 4);
    put_le(head + 4, kind << 29 | (uint32_t)size, 4);
    tool_file_write(&c->out, head, sizeof head);
    tool_file_write(&c->out, data, size);
    tool_file_write(&c->out, zeros, (4 - size % 4) % 4);
    c->position += 8 + size + (4 - size % 4) % 4;
}

/* Divides a record where its bytes are those that begin one, which are left out, so that readers find beginnings. */
static void record_parts(conversion *c, const uint8_t *data, size_t size)
{
    size_t begin = 0;
    uint32_t kind = 0;
    for (size_t at = 0; at + 4 <= size; at += 4)
        if (!memcmp(data + at, "\x0a\x23\xd7\xce", 4)) {
            record_part(c, kind ? 2 : 1, data + begin, at - begin);
            begin = at + 4;
            kind = 3;
        }
    record_part(c, kind, data + begin, size - begin);
}

static void other_fields_note(conversion *c)
{
    for (uint32_t i = 0; i < c->copied.count; i++)
        if (&c->copied.fields[i] != labels_of(&c->copied))
            note(c, c->copied.fields[i].name, "the field %s is left out", c->copied.fields[i].name);
}

static char *record_write(conversion *c, uint64_t index, const sample_file *f)
{
    const archive_copied *s = &c->copied;
    const bzna_field_value *labels = labels_of(s);
    size_t labels_size = labels ? (size_t)labels->size : 0, size = 24 + labels_size + (size_t)f->bytes->size;
    float label = (float)s->target;
    uint32_t bits;
    char number[24];
    if (size >> 29) return tool_format("a record has less than 512 MiB");
    if (s->target > 16777216 || s->target < -16777216)
        return tool_format("the target %" PRId64 " is no whole number of 32-bit floating point", s->target);
    uint8_t *data = tool_checked(calloc(1, size));
    memcpy(&bits, &label, 4);
    put_le(data, labels_size / 4, 4);
    put_le(data + 4, labels ? 0 : bits, 4);
    put_le(data + 8, index, 8);
    for (size_t i = 0; i < labels_size; i += 4) {
        memcpy(&bits, (const uint8_t *)labels->data + i, 4);
        put_le(data + 24 + i, bits, 4);
    }
    memcpy(data + 24 + labels_size, f->bytes->data, (size_t)f->bytes->size);
    fprintf(c->index.file, "%" PRIu64 "\t%" PRIu64 "\n", index, c->position);
    snprintf(number, sizeof number, "%" PRIu64, index);
    list_line(c, index, s->name && *s->name ? s->name : number);
    record_parts(c, data, size);
    other_fields_note(c);
    free(data);
    return NULL;
}


/* ---- folder ---- */

/* Makes the folders above a file. */
static char *folders_make(const conversion *c, const char *path)
{
    char *folder = tool_format("%s", path), *reason = NULL;
    for (char *at = folder + strlen(c->options->out) + 1; (at = strchr(at, '/')) && !reason; at++) {
        *at = 0;
        if (mkdir(folder, 0777) && errno != EEXIST) reason = tool_format("%s: %s", folder, strerror(errno));
        *at = '/';
    }
    free(folder);
    return reason;
}

static char *folder_write(conversion *c, uint64_t index, const sample_file *f)
{
    char *path = tool_format("%s/%s", c->options->out, f->name), *reason = folders_make(c, path);
    tool_file out = { .path = path };
    if (!reason && !c->options->overwrite && tool_path_exists(path)) reason = tool_format("%s: already exists", path);
    if (!reason && !(out.file = fopen(path, "wb")))
        reason = tool_format("%s: cannot be written: %s", path, strerror(errno));
    if (!reason) {
        tool_file_write(&out, f->bytes->data, (size_t)f->bytes->size);
        c->is_full = tool_file_close(&out) != EXIT_OK;
        if (c->is_full) remove(path);
    }
    free(path);
    if (reason || c->is_full) return reason;
    list_line(c, index, f->name);
    other_fields_note(c);
    if (c->copied.name && strcmp(c->copied.name, f->name))
        note(c, "", "names are paths in the folder, with the extension of what a file is: %s is %s", c->copied.name,
             f->name);
    return NULL;
}

/* Whether the folder by itself is the data set that was written. */
static int folder_is_exact(const conversion *c)
{
    archive written = { .context = c->archive.context };
    bzna_dataset *d = NULL;
    uint64_t next = 0;
    int same = bzna_dataset_open(c->archive.context, c->options->out, NULL, &d, NULL) == BZNA_OK;
    tool_buffer buffer = { NULL, 0 };
    written.dataset = d;
    for (uint64_t i = 0; i < c->archive.count && same; i++) {
        const char *name = NULL;
        int64_t target = 0, wanted = 0;
        if (!c->names[c->order[i]]) continue;                  /* left out */
        bzna_dataset_target(c->archive.dataset, c->order[i], &wanted, NULL);
        same = bzna_dataset_target(d, next, &target, NULL) == BZNA_OK && target == wanted &&
               archive_filename(&written, next++, &buffer, &name, NULL) == BZNA_OK && name &&
               !strcmp(name, c->names[c->order[i]]);
    }
    same = same && next == bzna_dataset_count(d);
    free(buffer.data);
    bzna_dataset_close(d);
    return same;
}

/* Keeps FOLDER.lst where it says more than the folder. */
static int folder_finish(conversion *c, int result)
{
    char *path = (char *)(uintptr_t)c->list.path;
    if (!c->list.file || result != EXIT_OK || c->lists_vectors || !folder_is_exact(c)) {
        if (c->list.file && result == EXIT_OK)
            fprintf(stderr, "bzna: note: %s by itself has other targets or another order: give --list %s with it\n",
                    c->options->out, path);
        if (c->lists_targets && c->lists_vectors && result == EXIT_OK)
            fprintf(stderr, "bzna: note: %s has targets and labels of fractions or several numbers: all are read as "
                    "labels\n", path);
        return file_finish(&c->list, result, 1);
    }
    tool_file_discard(&c->list);
    free(path);
    c->list = (tool_file){ .path = NULL };
    return EXIT_OK;
}


/* ---- the command ---- */

static char *sample_write(conversion *c, uint64_t index, sample_file *f)
{
    bzna_error err = tool_empty_error();
    if (archive_copied_read(&c->archive, index, &c->copied, &err) < 0) return tool_format("%s", err.message);
    char *reason = picture_bytes(c, index, f->bytes);
    if (reason) return reason;
    return c->kind == TO_FOLDER ? folder_write(c, index, f) : c->kind == TO_TAR ? tar_write(c, f)
                                                            : record_write(c, index, f);
}

static int sample_convert(conversion *c, uint64_t index)
{
    sample_file f = { .bytes = tool_checked(av_packet_alloc()), .name = c->names[index] };
    uint64_t shard_size = (uint64_t)c->options->shard_size;
    int result = EXIT_OK;
    if (shard_size && c->in_shard == shard_size) result = shard_close(c, result);
    if (result == EXIT_OK && c->kind != TO_FOLDER && !c->out.file) result = shard_open(c);
    c->is_altered = 0;
    char *reason = result == EXIT_OK ? sample_write(c, index, &f) : NULL;
    if (reason) {
        tool_error("%s: sample %" PRIu64 " is left out: %s", c->options->operand[0], index, reason);
        c->left_out++;
        free(c->names[index]);
        c->names[index] = NULL;
    }
    c->altered += !reason && c->is_altered;
    c->in_shard += !reason;
    if (c->is_full || (c->out.file && ferror(c->out.file))) result = EXIT_INPUT;      /* closing it says why */
    free(reason);
    av_packet_free(&f.bytes);
    return result;
}

/* The order of the samples: their own, or shuffled by --seed. */
static uint64_t *samples_order(const tool_options *o, uint64_t count)
{
    uint64_t *order = tool_checked(calloc(count + 1, sizeof *order));
    bzna_random random;
    bzna_random_init(&random, (uint64_t)o->seed, 0, 0, BZNA_RANDOM_ORDER);
    for (uint64_t i = 0; i < count; i++) order[i] = i;
    for (uint64_t i = count; o->shuffle && i > 1; i--) {
        uint64_t bits = (uint64_t)bzna_random_u32(&random) << 32;
        uint64_t other = (bits | bzna_random_u32(&random)) % i, moved = order[i - 1];
        order[i - 1] = order[other];
        order[other] = moved;
    }
    return order;
}

static void report(const conversion *c)
{
    uint64_t samples = c->archive.count - c->left_out;
    if (c->options->json) {
        fputs("{\"output\":", stdout);
        tool_json_string(c->options->out);
        printf(",\"samples\":%" PRIu64 ",\"altered\":%" PRIu64 ",\"left_out\":%" PRIu64 "}\n", samples, c->altered,
               c->left_out);
        return;
    }
    printf("%s: %" PRIu64 " samples", c->options->out, samples);
    if (c->altered) printf(", %" PRIu64 " of them without all that they had", c->altered);
    putchar('\n');
}

static int prepare(conversion *c)
{
    const tool_options *o = c->options;
    size_t length = strlen(o->out);
    while (length > 1 && o->out[length - 1] == '/') length--;
    c->made_folder = c->kind == TO_FOLDER && !mkdir(o->out, 0777);
    if (c->kind == TO_FOLDER && !c->made_folder && errno != EEXIST)
        return tool_error("%s: cannot be made: %s", o->out, strerror(errno));
    int result = c->kind == TO_FOLDER ? file_open_new(c, &c->list, tool_format("%.*s.lst", (int)length, o->out))
                                      : EXIT_OK;
    if (result != EXIT_OK) return result;
    c->order = samples_order(o, c->archive.count);
    c->names = tool_checked(calloc(c->archive.count + 1, sizeof *c->names));
    if (c->kind == TO_FOLDER) classes_find(c);
    names_find(c, 0);
    if (c->kind != TO_FOLDER && c->archive.classes.count) note(c, "", "the names of the classes are left out");
    return EXIT_OK;
}

/* Waits for the names of files, which were waited for one by one. The many files of a folder are the system's. */
static int names_finish(const conversion *c)
{
    int error = c->kind == TO_FOLDER ? 0 : os_sync_names(c->options->out);
    return error ? tool_error("%s: cannot be written: %s", c->options->out, strerror(error)) : EXIT_OK;
}

static int convert(conversion *c)
{
    tool_progress progress = tool_progress_start("samples", c->archive.count);
    int result = prepare(c);
    for (uint64_t i = 0; i < c->archive.count && result == EXIT_OK; i++) {
        result = sample_convert(c, c->order[i]);
        progress.failed = c->left_out;
        tool_progress_show(&progress, i + 1);
    }
    tool_progress_end(&progress);
    if (result == EXIT_OK && c->left_out == c->archive.count)
        result = tool_error("%s: none of its %" PRIu64 " samples could be converted, and nothing is written",
                            c->options->operand[0], c->archive.count);
    result = c->kind == TO_FOLDER ? folder_finish(c, result) : shard_close(c, result);
    if (result == EXIT_OK) result = names_finish(c);
    else if (c->made_folder) remove(c->options->out);
    for (uint64_t i = 0; i < c->archive.count && c->names; i++) free(c->names[i]);
    free(c->names);
    free(c->order);
    free(c->sample.data);
    archive_copied_free(&c->copied);
    notes_print(c);
    if (result != EXIT_OK) return result;
    report(c);
    return c->left_out ? tool_error("%" PRIu64 " of %" PRIu64 " samples are left out", c->left_out, c->archive.count)
                       : EXIT_OK;
}

int tool_run_convert(const tool_options *o)
{
    conversion c = { .options = o };
    if (!o->out) return tool_usage_error(o->command, "-o is required");
    const char *slash = strrchr(o->out, '/'), *dot = strrchr(slash ? slash : o->out, '.');
    int is_folder = (slash && !slash[1]) || tool_is_folder(o->out);
    if (!is_folder && dot && !strcmp(dot, ".bzna")) {
        if (!o->shard_size && !o->shuffle) return tool_run_merge(o);
        return tool_usage_error(o->command, "--shard-size and --shuffle are of .tar and .rec");
    }
    if (!is_folder && (!dot || (strcmp(dot, ".tar") && strcmp(dot, ".rec"))))
        return tool_usage_error(o->command, "-o must be a name in .tar, .rec or .bzna, or a folder: \"%s/\"", o->out);
    if (is_folder && (o->shard_size || o->shuffle))
        return tool_usage_error(o->command, "--shard-size and --shuffle are of .tar and .rec");
    c.kind = is_folder ? TO_FOLDER : strcmp(dot, ".tar") ? TO_RECORDS : TO_TAR;
    if (archive_open(&c.archive, o)) return EXIT_INPUT;
    archive_read_splits(&c.archive, o->operand[0]);
    int result = convert(&c);
    archive_close(&c.archive);
    return result;
}
