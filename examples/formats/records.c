/* records.c - record files, which do not describe themselves: CIFAR, MNIST, and tensors written as they
 * lie in memory
 *
 * formats_config.records says how they lie. The library reads a record from the file, or finds it in memory if the file
 * is held there, and a function unpacks it. Pictures are RAW, at the same place of each record.
 *
 * It needs data.c. */
#include "data.h"

void bzna_formats_records_init(bzna_records *r, size_t struct_size)
{
    bzna_formats_data_init(r, struct_size);
}

#ifndef BENZINA_FORMATS_NO_RECORDS

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RECORDS_DATA, RECORDS_LABEL };

/* What the data set owns. */
typedef struct records {
    data_records records;
    bzna_records r;                   /* the caller's, checked; stride and scale are not 0 */
    uint64_t     numbers;             /* of a picture or vector */
    int          is_picture;          /* 1: the data are a picture; 0: a vector */
} records;

/* ---- Settings ------------------------------------------------------------------------------- */

/* Returns the bytes of a number of type BZNA_RECORD_...; 0 if there is no such type. */
static uint32_t type_bytes(uint32_t type)
{
    static const uint8_t bytes[] = { 0, 1, 4, 8, 4 };
    return type < sizeof bytes ? bytes[type] : 0;
}

/* Checks the settings, and fills in defaults. Sets is_picture and numbers. */
static bzna_status records_check(records *own, bzna_error *err)
{
    bzna_records *r = &own->r;
    const uint64_t pixels = (uint64_t)r->width * r->height, numbers = pixels * r->channels;
    const uint64_t data_bytes = numbers * type_bytes(r->data_type), label_bytes = type_bytes(r->label_type);
    const uint64_t data_end = r->data_offset + data_bytes, label_end = label_bytes ? r->label_offset + label_bytes : 0;
    const uint64_t bytes = data_end > label_end ? data_end : label_end;
    const int is_picture = r->data_type == BZNA_RECORD_UINT8 && (r->channels == 1 || r->channels == 3);
    const struct {
        const char *member;
        uint64_t    value, least, most;
    } ranges[] = {                    /* those below depend on those above */
        { "data_type", r->data_type, 1, BZNA_RECORD_FLOAT32 },
        { "label_type", r->label_type, 0, BZNA_RECORD_FLOAT32 },
        { "layout", r->layout, 0, is_picture ? BZNA_LAYOUT_NHWC : 0 },
        { "width", r->width, 1, UINT32_MAX },
        { "height", r->height, 1, UINT32_MAX },
        { "channels", r->channels, 1, UINT64_MAX / 16 / (pixels ? pixels : 1) },
        { "data_offset", r->data_offset, 0, INT64_MAX - data_bytes },
        { "label_offset", r->label_offset, 0, label_bytes ? INT64_MAX - label_bytes : 0 },
        { "stride", r->stride ? r->stride : bytes, bytes, UINT64_MAX },
    };

    if (r->reserved0)
        return DATA_FAIL(err, BZNA_E_STRUCT_SIZE, "formats_config.records.reserved0: a reserved word must be 0");
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (ranges[i].value < ranges[i].least || ranges[i].value > ranges[i].most)
            return DATA_MISUSE(err, "formats_config.records.%s: %llu is not in %llu..%llu, given the other settings",
                               ranges[i].member, (data_llu)ranges[i].value, (data_llu)ranges[i].least,
                               (data_llu)ranges[i].most);
    if (!isfinite(r->scale) || !isfinite(r->bias) || (is_picture && (r->scale != 0 || r->bias != 0)))
        return DATA_MISUSE(err, "formats_config.records.scale, bias: %g, %g; both must be finite, and 0 for pictures, "
                           "which the loader normalizes", (double)r->scale, (double)r->bias);
    r->stride = r->stride ? r->stride : bytes;
    r->scale = r->scale != 0 ? r->scale : 1;
    own->is_picture = is_picture;
    own->numbers = numbers;
    return BZNA_OK;
}

/* Counts the records. A file that does not consist of whole records most likely has records of another size. */
static bzna_status records_count(const records *own, uint64_t *count, bzna_error *err)
{
    const uint64_t header = own->r.header_bytes, size = own->records.file.size, stride = own->r.stride;
    const uint64_t tail = size > header ? (size - header) % stride : 0;

    if (size <= header)
        return DATA_FAIL_AT(err, size < header ? BZNA_E_TRUNCATED : BZNA_E_NO_SAMPLES, size, "the file has %llu bytes, "
                            "and no record after a header of %llu (formats_config.records.header_bytes)",
                            (data_llu)size, (data_llu)header);
    if (tail)
        return DATA_FAIL_AT(err, BZNA_E_TRUNCATED, size - tail, "at byte %llu: %llu bytes are not a whole record of "
                            "%llu (formats_config.records: header_bytes, stride, sizes)", (data_llu)(size - tail),
                            (data_llu)tail, (data_llu)stride);
    *count = (size - header) / stride;
    return BZNA_OK;
}

/* ---- The provider --------------------------------------------------------------------------- */

static int64_t integer_of(const uint8_t *p, uint32_t type)
{
    if (type == BZNA_RECORD_UINT8)
        return *p;
    return type == BZNA_RECORD_INT32 ? (int32_t)bzna_formats_data_le32(p) : (int64_t)bzna_formats_data_le64(p);
}

/* Writes the numbers of a vector as float32. Those that are float32 and are not scaled stay as they are, bit by bit. */
static void put_vector(const records *own, const uint8_t *from, uint8_t *to)
{
    const uint32_t type = own->r.data_type;
    const int is_real = type == BZNA_RECORD_FLOAT32;
    float number = 0;

    if (is_real && own->r.scale == 1 && own->r.bias == 0)
        bzna_formats_data_floats(from, own->numbers, to);
    else
        for (uint64_t i = 0; i < own->numbers; i++, from += type_bytes(type), to += sizeof number) {
            if (is_real)
                bzna_formats_data_floats(from, 1, &number);
            number = (float)((is_real ? (double)number : (double)integer_of(from, type)) * (double)own->r.scale +
                             (double)own->r.bias);
            memcpy(to, &number, sizeof number);
        }
}

/* Gives all but pictures, which lie at the same place of each record. */
static bzna_status records_unpack(void *user, uint64_t index, uint32_t field, void *record, uint64_t bytes,
                                  void *buffer, uint64_t capacity, bzna_place *place, bzna_error *err)
{
    const records *const own = user;
    const uint8_t *const data = (const uint8_t *)record + own->r.data_offset;
    const uint8_t *const label = (const uint8_t *)record + own->r.label_offset;
    const int is_target = field == RECORDS_LABEL && own->r.label_type != BZNA_RECORD_FLOAT32;
    const int64_t target = is_target ? integer_of(label, own->r.label_type) : 0;
    (void)index, (void)bytes, (void)err;

    place->size = is_target ? sizeof target : (field == RECORDS_LABEL ? 1 : own->numbers) * sizeof(float);
    if (place->size > capacity)
        return BZNA_OK;
    if (is_target)
        memcpy(buffer, &target, sizeof target);
    else if (field == RECORDS_LABEL)
        bzna_formats_data_floats(label, 1, buffer);
    else
        put_vector(own, data, buffer);
    return is_target && target == BZNA_TARGET_NONE ? BZNA_E_NOT_FOUND : BZNA_OK;
}

/* Tells files apart by their size and by how the caller describes their records. */
static uint64_t records_fingerprint(const records *own)
{
    const bzna_records *const r = &own->r;
    uint64_t words[] = { own->records.file.size, r->data_type, r->layout, r->width, r->height, r->channels,
                         r->header_bytes, r->stride, r->data_offset, r->label_offset, r->label_type, 0, 0 };

    memcpy(&words[11], &r->scale, sizeof r->scale);
    memcpy(&words[12], &r->bias, sizeof r->bias);
    return bzna_formats_data_hash(BZNA_FORMATS_HASH, words, sizeof words);
}

bzna_status bzna_formats_open_records(bzna_context *context, data_file *file, const char *name,
                                      const bzna_formats_config *config, bzna_dataset **out, bzna_error *err)
{
    bzna_provider_field fields[] = { { .name = "data", .kind = BZNA_FIELD_VECTOR },
                                     { .name = "target", .kind = BZNA_FIELD_INTEGER } };
    records *own = calloc(1, sizeof *own);
    bzna_provider provider = { .struct_size = sizeof provider, .user = own, .fields = fields, .unpack = records_unpack,
                               .close = bzna_formats_records_close, .kind = "records" };
    const bzna_records *r;

    if (!own)
        return bzna_formats_data_no_memory(err);
    r = &own->r;
    own->records.file = *file;
    if (bzna_formats_data_copy(&own->r, sizeof own->r, config->records, "formats_config.records", err) == BZNA_OK &&
        records_check(own, err) == BZNA_OK && records_count(own, &provider.count, err) == BZNA_OK) {
        own->records.begin = r->header_bytes;
        own->records.stride = r->stride;
        provider.field_count = r->label_type ? 2 : 1;
        provider.fingerprint = records_fingerprint(own);
        if (own->is_picture)
            fields[RECORDS_DATA] = (bzna_provider_field){ .name = "image", .kind = BZNA_FIELD_IMAGE,
                .codec = BZNA_CODEC_RAW, .width = r->width, .height = r->height, .channels = r->channels,
                .layout = r->layout, .offset = r->data_offset };
        if (r->label_type == BZNA_RECORD_FLOAT32)
            fields[RECORDS_LABEL] = (bzna_provider_field){ .name = "label", .kind = BZNA_FIELD_VECTOR };
    }
    return bzna_formats_records_open(context, &provider, file, name, config->dataset, out, err);
}

#endif
