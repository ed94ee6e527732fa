/* convert.c - bzna convert: any data set as a folder, tar shards or RecordIO files
 *
 * JPEG, PNG and other files stay as they are; frames of video become JPEG. Targets, names and the fields that the
 * container can hold are kept:
 *
 *     folder    CLASS/NAME, where samples have targets, with the names of classes if there are any
 *     tar       KEY.jpg, KEY.cls, KEY.FIELD for every further field; KEY is the name without its extension, with the
 *               sample's number before it unless all names differ
 *     .rec      the target as the label, the number as the id; with an .idx beside it */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <libavcodec/avcodec.h>

typedef enum output_kind { TO_FOLDER, TO_TAR, TO_RECORDS } output_kind;

typedef struct conversion {
    const tool_options *options;
    archive             archive;
    archive_fields      fields;
    uint64_t           *order;                    /* of the samples */
    output_kind         kind;
    int                 names_differ;
    tool_file           out, index;               /* the open shard */
    uint64_t            in_shard, shard, position, left_out;
    tool_buffer         sample, value;
} conversion;

/* A sample's file: its bytes and its extension. */
typedef struct sample_file {
    AVPacket   *bytes;
    char        extension[16];
    const char *name;
    int64_t     target;
    tool_buffer name_buffer;
} sample_file;


/* ---- one sample ---- */

/* As it is, or as a JPEG of what is no file. Returns NULL or the reason. */
static char *picture_bytes(conversion *c, uint64_t index, sample_file *f)
{
    bzna_error err = tool_empty_error();
    bzna_sample sample = { .struct_size = sizeof sample };
    bzna_image image;
    bzna_image_info info = { .struct_size = 0 };
    const bzna_dataset *d = c->archive.dataset;
    if (bzna_dataset_get_sample(d, index, &sample, sizeof sample, &err) < 0) return tool_format("%s", err.message);
    const char *track = archive_default_track(&sample);
    if (archive_read_picture(&c->archive, index, track, &c->sample, &image, &err) < 0)
        return tool_format("%s", err.message);
    if (image.codec == BZNA_CODEC_JPEG || image.codec == BZNA_CODEC_STILL) {
        bzna_dataset_get_image_info(d, index, track, &info, sizeof info, NULL);
        snprintf(f->extension, sizeof f->extension, "%s",
                 image.codec == BZNA_CODEC_JPEG ? "jpg" : archive_codec(&info).text);
        if (image.data_size > INT32_MAX / 2 || av_new_packet(f->bytes, (int)image.data_size) < 0)
            return tool_format("out of memory");
        memcpy(f->bytes->data, image.data, (size_t)image.data_size);
        return NULL;
    }
    tool_options options = { .quality = c->options->quality };
    const pack_settings s = { .options = &options, .encoder = "mjpeg", .codec = BZNA_CODEC_JPEG, .smallest_px = 1,
                              .frame_step_px = 16 };
    const pack_file from = { .path = c->options->operand[0], .archive = &c->archive, .index = index };
    pack_encoded jpeg = { .packet = NULL }, none = { .packet = NULL };
    char *reason = pack_encode_file(&s, &from, &jpeg, &none);
    if (!reason) av_packet_move_ref(f->bytes, jpeg.packet);
    snprintf(f->extension, sizeof f->extension, "jpg");
    av_packet_free(&jpeg.packet);
    return reason;
}

/* The last part of a name, without its extension and without what a path or a key cannot hold; to be freed. */
static char *stem_of(const char *name)
{
    const char *slash = strrchr(name, '/');
    char *stem = tool_format("%s", slash ? slash + 1 : name), *dot = strrchr(stem, '.');
    if (dot && dot > stem) *dot = 0;
    for (char *at = stem; *at; at++) if (*at == '.' || (unsigned char)*at < 0x20) *at = '_';
    return stem;
}

/* The sample's key: its name, or its number before it, where names are the same. */
static char *key_of(const conversion *c, uint64_t index, const sample_file *f)
{
    char *stem = f->name && *f->name ? stem_of(f->name) : NULL, *key;
    if (stem && c->names_differ) return stem;
    key = stem ? tool_format("%09" PRIu64 "_%s", index, stem) : tool_format("%09" PRIu64, index);
    free(stem);
    return key;
}


/* ---- shards ---- */

/* OUT.tar, or OUT-000000.tar and so on with --shard-size. */
static char *shard_path(const conversion *c, const char *extension)
{
    const char *out = c->options->out, *dot = strrchr(out, '.');
    if (!c->options->shard_size) return tool_format("%.*s%s", (int)(dot - out), out, extension);
    return tool_format("%.*s-%06" PRIu64 "%s", (int)(dot - out), out, c->shard, extension);
}

static int file_open_new(const conversion *c, tool_file *out, char *path)
{
    if (!c->options->overwrite && tool_path_exists(path))
        return tool_error("%s: already exists; to replace it: --overwrite", path);
    return tool_file_open(out, path);
}

static int shard_open(conversion *c)
{
    c->in_shard = c->position = 0;
    if (file_open_new(c, &c->out, shard_path(c, c->kind == TO_TAR ? ".tar" : ".rec"))) return EXIT_INPUT;
    if (c->kind == TO_TAR) return EXIT_OK;
    return file_open_new(c, &c->index, shard_path(c, ".idx"));
}

static int shard_close(conversion *c)
{
    static const uint8_t end[1024];
    int result = EXIT_OK;
    if (!c->out.file) return EXIT_OK;
    if (c->kind == TO_TAR) fwrite(end, 1, sizeof end, c->out.file);
    result = tool_file_close(&c->out);
    if (c->index.file && tool_file_close(&c->index)) result = EXIT_INPUT;
    free((char *)(uintptr_t)c->out.path);
    free((char *)(uintptr_t)c->index.path);
    c->out = c->index = (tool_file){ NULL, NULL };
    c->shard++;
    return result;
}


/* ---- tar ---- */

/* One member with a POSIX header, of no time and no user, so that the same samples give the same bytes. */
static char *tar_member(conversion *c, const char *key, const char *extension, const void *data, size_t size)
{
    uint8_t header[512] = { 0 };
    static const uint8_t zeros[512];
    unsigned sum = 0;
    char *name = tool_format("%s.%s", key, extension);
    if (strlen(name) > 100) {
        free(name);
        return tool_format("a tar's names have at most 100 bytes");
    }
    memcpy(header, name, strlen(name));
    free(name);
    memcpy(header + 100, "0000644\0" "0000000\0" "0000000", 24);
    snprintf((char *)header + 124, 12, "%011" PRIo64, (uint64_t)size);
    memcpy(header + 136, "00000000000", 12);
    memset(header + 148, ' ', 8);
    header[156] = '0';
    memcpy(header + 257, "ustar\0" "00", 8);
    for (size_t i = 0; i < sizeof header; i++) sum += header[i];
    snprintf((char *)header + 148, 7, "%06o", sum);
    fwrite(header, 1, sizeof header, c->out.file);
    fwrite(data, 1, size, c->out.file);
    fwrite(zeros, 1, (512 - size % 512) % 512, c->out.file);
    return NULL;
}

/* Further fields: numbers as text, everything else as it is. */
static char *tar_fields(conversion *c, uint64_t index, const char *key)
{
    char *reason = NULL;
    for (uint32_t i = 0; i < c->fields.count && !reason; i++) {
        const bzna_field_info *field = &c->fields.list[i];
        archive_value value;
        bzna_error err = tool_empty_error();
        if (!archive_field_is_further(field) || !strcmp(field->name, "cls")) continue;
        if (archive_value_read(&c->archive, index, field, &c->value, &value, &err) < 0) continue;
        if (value.kind == BZNA_FIELD_TEXT || value.kind == BZNA_FIELD_BYTES) {
            reason = tar_member(c, key, field->name, value.data, value.size);
            continue;
        }
        char *text = NULL;
        size_t size = 0;
        FILE *out = tool_checked(open_memstream(&text, &size));
        archive_value_print(out, &value);
        fclose(out);
        reason = tar_member(c, key, field->name, text, size);
        free(text);
    }
    return reason;
}

static char *tar_write(conversion *c, uint64_t index, const sample_file *f)
{
    char *key = key_of(c, index, f);
    char *reason = tar_member(c, key, f->extension, f->bytes->data, (size_t)f->bytes->size);
    if (!reason && f->target != BZNA_TARGET_NONE) {
        char *text = tool_format("%" PRId64, f->target);
        reason = tar_member(c, key, "cls", text, strlen(text));
        free(text);
    }
    if (!reason) reason = tar_fields(c, index, key);
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
    fwrite(head, 1, sizeof head, c->out.file);
    fwrite(data, 1, size, c->out.file);
    fwrite(zeros, 1, (4 - size % 4) % 4, c->out.file);
    c->position += 8 + size + (4 - size % 4) % 4;
}

/* A record is divided where its bytes are those that begin one, which are left out, so that readers find beginnings. */
static char *record_write(conversion *c, uint64_t index, const sample_file *f)
{
    size_t size = 24 + (size_t)f->bytes->size, begin = 0;
    float label = f->target == BZNA_TARGET_NONE ? -1.f : (float)f->target;
    uint32_t bits, kind = 0;
    if (size >> 29) return tool_format("a record has less than 512 MiB");
    if (f->target > 16777216 || f->target < -16777216)
        return tool_format("the target %" PRId64 " is no whole number of 32-bit floating point", f->target);
    uint8_t *data = tool_checked(calloc(1, size));
    memcpy(&bits, &label, 4);
    put_le(data + 4, bits, 4);
    put_le(data + 8, index, 8);
    memcpy(data + 24, f->bytes->data, (size_t)f->bytes->size);
    fprintf(c->index.file, "%" PRIu64 "\t%" PRIu64 "\n", index, c->position);
    for (size_t at = 0; at + 4 <= size; at += 4)
        if (!memcmp(data + at, "\x0a\x23\xd7\xce", 4)) {
            record_part(c, kind ? 2 : 1, data + begin, at - begin);
            begin = at + 4;
            kind = 3;
        }
    record_part(c, kind, data + begin, size - begin);
    free(data);
    return NULL;
}


/* ---- folder ---- */

static char *class_folder(const conversion *c, int64_t target)
{
    char name[256];
    if (target == BZNA_TARGET_NONE) return tool_format("%s", c->options->out);
    if (bzna_dataset_class(c->archive.dataset, target, name, sizeof name, NULL, NULL) == BZNA_OK && !strchr(name, '/'))
        return tool_format("%s/%s", c->options->out, name);
    return tool_format("%s/%" PRId64, c->options->out, target);
}

static char *folder_write(conversion *c, uint64_t index, const sample_file *f)
{
    char *folder = class_folder(c, f->target), *key = key_of(c, index, f), *reason = NULL;
    char *path = tool_format("%s/%s.%s", folder, key, f->extension);
    tool_file out;
    if (mkdir(folder, 0777) && errno != EEXIST) reason = tool_format("%s: %s", folder, strerror(errno));
    else if (!c->options->overwrite && tool_path_exists(path)) reason = tool_format("%s: already exists", path);
    else if (tool_file_open(&out, path)) reason = tool_format("%s: cannot be written", path);
    else {
        fwrite(f->bytes->data, 1, (size_t)f->bytes->size, out.file);
        if (tool_file_close(&out)) reason = tool_format("%s: cannot be written", path);
    }
    free(folder);
    free(key);
    free(path);
    return reason;
}


/* ---- the command ---- */

static char *sample_write(conversion *c, uint64_t index, sample_file *f)
{
    bzna_error err = tool_empty_error();
    if (bzna_dataset_target(c->archive.dataset, index, &f->target, &err) < 0 ||
        archive_filename(&c->archive, index, &f->name_buffer, &f->name, &err) < 0)
        return tool_format("%s", err.message);
    char *reason = picture_bytes(c, index, f);
    if (reason) return reason;
    return c->kind == TO_FOLDER ? folder_write(c, index, f) : c->kind == TO_TAR ? tar_write(c, index, f)
                                                            : record_write(c, index, f);
}

static int sample_convert(conversion *c, uint64_t index)
{
    sample_file f = { .bytes = tool_checked(av_packet_alloc()) };
    uint64_t shard_size = (uint64_t)c->options->shard_size;
    int result = EXIT_OK;
    if (shard_size && c->in_shard == shard_size) result = shard_close(c);
    if (result == EXIT_OK && c->kind != TO_FOLDER && !c->out.file) result = shard_open(c);
    char *reason = result == EXIT_OK ? sample_write(c, index, &f) : NULL;
    if (reason) {
        tool_error("%s: sample %" PRIu64 " is left out: %s", c->options->operand[0], index, reason);
        c->left_out++;
    }
    c->in_shard++;
    if (c->out.file && ferror(c->out.file)) result = tool_error("%s: cannot be written", c->out.path);
    free(reason);
    free(f.name_buffer.data);
    av_packet_free(&f.bytes);
    return result;
}

static int text_order(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Whether no two samples have the same name, and all have one. */
static int names_differ(const conversion *c)
{
    tool_buffer buffer = { NULL, 0 };
    char **stems = tool_checked(calloc(c->archive.count + 1, sizeof *stems));
    uint64_t count = 0;
    int result = 1;
    for (; count < c->archive.count && result; count++) {
        const char *name = NULL;
        if (archive_filename(&c->archive, count, &buffer, &name, NULL) < 0 || !name) result = 0;
        stems[count] = stem_of(name ? name : "");
    }
    if (result && count) qsort(stems, count, sizeof *stems, text_order);
    for (uint64_t i = 1; i < count && result; i++) result = strcmp(stems[i - 1], stems[i]) != 0;
    for (uint64_t i = 0; i < count; i++) free(stems[i]);
    free(stems);
    free(buffer.data);
    return result;
}

/* The order of the samples: their own, or shuffled by --seed. */
static uint64_t *samples_order(const tool_options *o, uint64_t count)
{
    uint64_t *order = tool_checked(calloc(count + 1, sizeof *order));
    bzna_random random;
    bzna_random_init(&random, (uint64_t)o->seed, 0, 0, BZNA_OPERATION_ORDER);
    for (uint64_t i = 0; i < count; i++) order[i] = i;
    for (uint64_t i = count; o->shuffle && i > 1; i--) {
        uint64_t bits = (uint64_t)bzna_random_u32(&random) << 32;
        uint64_t other = (bits | bzna_random_u32(&random)) % i, moved = order[i - 1];
        order[i - 1] = order[other];
        order[other] = moved;
    }
    return order;
}

static int convert(conversion *c)
{
    const tool_options *o = c->options;
    tool_progress progress = tool_progress_start("samples", c->archive.count);
    int result = EXIT_OK;
    if (c->kind == TO_FOLDER && mkdir(o->out, 0777) && errno != EEXIST)
        return tool_error("%s: cannot be made: %s", o->out, strerror(errno));
    c->fields = archive_fields_read(&c->archive);
    c->order = samples_order(o, c->archive.count);
    c->names_differ = names_differ(c);
    for (uint64_t i = 0; i < c->archive.count && result == EXIT_OK; i++) {
        result = sample_convert(c, c->order[i]);
        tool_progress_show(&progress, i + 1);
    }
    tool_progress_end(&progress);
    if (shard_close(c)) result = EXIT_INPUT;
    free(c->order);
    free(c->sample.data);
    free(c->value.data);
    archive_fields_free(&c->fields);
    if (result != EXIT_OK) return result;
    if (o->json) {
        fputs("{\"output\":", stdout);
        tool_json_string(o->out);
        printf(",\"samples\":%" PRIu64 ",\"left_out\":%" PRIu64 "}\n", c->archive.count - c->left_out, c->left_out);
    } else {
        printf("%s: %" PRIu64 " samples\n", o->out, c->archive.count - c->left_out);
    }
    return c->left_out ? tool_error("%" PRIu64 " of %" PRIu64 " samples are left out", c->left_out, c->archive.count)
                       : EXIT_OK;
}

int tool_run_convert(const tool_options *o)
{
    conversion c = { .options = o };
    if (!o->out) return tool_usage_error(o->command, "-o must be given");
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
    int result = convert(&c);
    archive_close(&c.archive);
    return result;
}
