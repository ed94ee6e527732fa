/* recordio.c - MXNet's .rec files: records end to end, each a picture with its labels or any bytes
 *
 * NAME.idx beside NAME.rec says where they begin. Without it, one scan over the headers finds them. The offsets take 8
 * bytes a record. An index that is older than the .rec is not used, and none is trusted: the header of each record is
 * checked when it is read. A record whose own bytes hold the magic number is written in parts, which are
 * joined in place when the record is unpacked.
 *
 * A part is {u32 magic, u32 which << 29 | length}, its bytes, and zeros up to a multiple of 4. A record with a picture
 * begins with {u32 flag, f32 label, u64 id, u64 id2}. If flag is not 0, that many labels follow, and count instead of
 * the one. Then comes the picture. All is little-endian.
 *
 * It needs data.c and lists.c. */
#include "data.h"

#ifndef BENZINA_FORMATS_NO_RECORDIO

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES   ((1u << 29) - 1)  /* of a part, and of a record: its length has 29 bits */
#define HEAD_BYTES  24u               /* of a record with a picture, before labels that follow it */
#define SCAN_BYTES  4096u             /* that a scan reads at once */

/* Which of its record's parts a part is: those below MIDDLE begin a record. */
enum { WHOLE, FIRST, MIDDLE, LAST };

enum { RECORDIO_IMAGE, RECORDIO_LABEL, RECORDIO_ID, RECORDIO_TARGET, RECORDIO_NAME, RECORDIO_RECORD, RECORDIO_FIELDS };

/* What the data set owns. */
typedef struct recordio {
    data_records records;
    uint64_t     count;               /* records that were found */
    data_list    list;                /* sorted by id; without rows if the caller gave none */
} recordio;

/* A part of a record. */
typedef struct part {
    uint32_t which;
    uint64_t length;                  /* its bytes, without header and padding */
    uint64_t next;                    /* bytes from its header to that of the next part */
} part;

/* Reads the header of a part, which is at byte `at` and has `left` bytes at most. */
static bzna_status read_part(const uint8_t *bytes, uint64_t left, uint64_t at, part *p, bzna_error *err)
{
    const uint32_t word = left < 8 ? 0 : bzna_formats_data_le32(bytes + 4);

    *p = (part){ .which = word >> 29, .length = word & MAX_BYTES };
    p->next = 8 + ((p->length + 3) & ~(uint64_t)3);
    if (left >= 8 && !bzna_formats_is_recordio(bytes, left))
        return DATA_FAIL_AT(err, BZNA_E_FORMAT, at, "no magic number at byte %llu", (data_llu)at);
    if (left < 8 || p->length > left - 8)
        return DATA_FAIL_AT(err, BZNA_E_TRUNCATED, at, "the data end in the part at byte %llu", (data_llu)at);
    return BZNA_OK;
}

/* ---- The scan ------------------------------------------------------------------------------- */

static bzna_status add_offset(recordio *own, uint64_t at, bzna_error *err)
{
    uint64_t *grown = bzna_formats_data_grow(own->records.offsets, own->count, sizeof *grown, err);

    if (!grown)
        return err->status;
    own->records.offsets = grown;
    grown[own->count++] = at;
    return BZNA_OK;
}

/* Finds the beginnings of all records. Fails where the chain of parts is broken, since all that follows would be
 * lost. */
static bzna_status scan(recordio *own, bzna_error *err)
{
    const data_file *const file = &own->records.file;
    uint8_t bytes[SCAN_BYTES];
    uint64_t begin = 0, end = 0;      /* of what was read */
    part p;

    for (uint64_t at = 0, in_parts = 0, goes_on; at < file->size; at += p.next) {
        const uint64_t left = file->size - at;

        if (at + 8 > end) {
            begin = at;
            end = at + (left < sizeof bytes ? left : sizeof bytes);
            if (bzna_formats_file_read(file, begin, bytes, end - begin, err) != BZNA_OK)
                return err->status;
        }
        if (read_part(bytes + (at - begin), left, at, &p, err) != BZNA_OK)
            return bzna_formats_data_prefix(err, "without an .idx, records can't be found from there on");

        /* a part that does not continue the record before begins one, even if it is of the wrong kind for that: then
         * the record alone fails when it is read */
        goes_on = in_parts && (p.which == MIDDLE || p.which == LAST);
        in_parts = p.which == FIRST || (goes_on && p.which == MIDDLE);
        if (!goes_on && add_offset(own, at, err) != BZNA_OK)
            return err->status;
    }
    return BZNA_OK;
}

/* ---- The index beside the file -------------------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Parses lines of key, tab and offset. */
static bzna_status parse_index(recordio *own, data_span text, bzna_error *err)
{
    const uint64_t file_bytes = own->records.file.size;
    uint64_t *offsets, number = 1, offset;
    data_span rest = text, line, last;

    for (; rest.size; number++) {
        const uint64_t at = (uint64_t)(rest.data - text.data);

        line = bzna_formats_data_line(&rest);
        if (!bzna_formats_data_trim(line).size)
            continue;
        if (!bzna_formats_data_take_last(&line, '\t', &last) ||
            !bzna_formats_data_integer(bzna_formats_data_trim(last), &offset) ||
            offset % 4 || offset >= file_bytes || file_bytes - offset < 8)
            return DATA_FAIL_AT(err, BZNA_E_FORMAT, at, "line %llu at byte %llu: no key, tab and offset of a record",
                                (data_llu)number, (data_llu)at);
        if (add_offset(own, offset, err) != BZNA_OK)
            return err->status;
    }

    if (!own->count)
        return DATA_FAIL_AT(err, BZNA_E_FORMAT, 0, "it is empty");
    offsets = own->records.offsets;
    qsort(offsets, (size_t)own->count, sizeof *offsets, by_offset);
    for (uint64_t i = 1; i < own->count; i++)
        if (offsets[i] == offsets[i - 1])
            return DATA_FAIL_AT(err, BZNA_E_FORMAT, offsets[i], "two lines have the offset %llu", (data_llu)offsets[i]);
    return BZNA_OK;
}

/* Checks that a record begins there: an index of another file hardly fits the first and the last one. */
static bzna_status check_record(const recordio *own, uint64_t offset, bzna_error *err)
{
    uint8_t header[8];
    part p;

    if (bzna_formats_file_read(&own->records.file, offset, header, sizeof header, err) != BZNA_OK)
        return err->status;
    return read_part(header, UINT64_MAX, offset, &p, err);
}

/* Takes the index of the config, or NAME.idx beside NAME.rec, unless that is older than the file. */
static bzna_status open_index(recordio *own, const char *name, const bzna_dataset_config *config, bzna_error *err)
{
    const char *const end = strrchr(name, '.');
    data_span text = { config->index, (size_t)config->index_bytes };
    char path[DATA_PATH_BYTES] = "dataset_config.index";
    data_look idx;

    if (!text.data) {
        if (!own->records.file.is_file || !end || strcmp(end, ".rec"))
            return BZNA_OK;
        snprintf(path, sizeof path, "%.*s.idx", (int)(end - name), name);
        idx = bzna_formats_data_look(path);
        if (idx.kind == DATA_NONE || idx.modified < bzna_formats_data_look(name).modified)
            return BZNA_OK;
        if (bzna_formats_data_read(path, &text, err) != BZNA_OK)
            return err->status;
    }

    if (parse_index(own, text, err) != BZNA_OK || check_record(own, own->records.offsets[0], err) != BZNA_OK ||
        check_record(own, own->records.offsets[own->count - 1], err) != BZNA_OK) {
        bzna_formats_data_prefix(err, "it does not fit the .rec file; remove it, or write it again (bzna index)");
        bzna_formats_data_prefix(err, path);
    }
    if (!config->index)
        free((char *)(uintptr_t)text.data);
    return err->status;
}

/* Finds the records, by the index or by a scan. */
static bzna_status find_records(recordio *own, const char *name, const bzna_dataset_config *config, bzna_error *err)
{
    if (open_index(own, name, config, err) != BZNA_OK || (!own->count && scan(own, err) != BZNA_OK))
        return err->status;
    if (!own->count)
        return DATA_FAIL(err, BZNA_E_NO_SAMPLES, "no record begins in the file");
    add_offset(own, own->records.file.size, err);           /* where the last one ends */
    own->count--;
    return err->status;
}

/* ---- Records -------------------------------------------------------------------------------- */

/* Joins the parts of a record in place, and gives its bytes, which begin after the header. The joined record is
 * shorter: of the header of each part but the first, only the magic number stays, which the writer took out there. */
static bzna_status join_parts(uint8_t *bytes, uint64_t size, uint64_t *joined, bzna_error *err)
{
    uint64_t at = 0, end = 8;
    part p;

    do {
        const uint64_t left = at < size ? size - at : 0;

        if (read_part(bytes + (size - left), left, at, &p, err) != BZNA_OK)
            return err->status;
        if (at ? p.which != MIDDLE && p.which != LAST : p.which > FIRST)
            return DATA_FAIL_AT(err, BZNA_E_FORMAT, at, "a part out of order, cflag (%u)", p.which);
        if (at) {
            memmove(bytes + end, bytes + at, 4);
            end += 4;
        }
        memmove(bytes + end, bytes + at + 8, (size_t)p.length);
        end += p.length;
        at += p.next;
    } while (p.which == FIRST || p.which == MIDDLE);

    *joined = end - 8;
    if (*joined > MAX_BYTES)
        return DATA_FAIL_AT(err, BZNA_E_LIMIT, 0, "too long for a record (%llu)", (data_llu)*joined);
    for (int i = 0; i < 4; i++)                             /* it is one whole part, if it is unpacked again */
        bytes[4 + i] = (uint8_t)(*joined >> 8 * i);
    return BZNA_OK;
}

/* The header of a record with a picture. */
typedef struct entry {
    uint64_t       id;                /* of the record, by which the list is searched */
    uint64_t       label_count;
    const uint8_t *labels;            /* in the record, unless the list has them */
    const data_list_row *row;         /* of the list; NULL if there is no list */
    uint64_t       bytes;             /* from the record's first byte to the picture */
} entry;

/* Reads the header of a joined record. If there is a list, it must have a line for the record's id, and has the
 * labels. */
static bzna_status read_head(const recordio *own, const uint8_t *head, uint64_t size, entry *e, bzna_error *err)
{
    const uint64_t flag = size < HEAD_BYTES ? 0 : bzna_formats_data_le32(head);

    e->bytes = HEAD_BYTES + flag * 4;
    if (size < e->bytes)
        return DATA_FAIL_AT(err, BZNA_E_FORMAT, 8, "%llu bytes are too few for a picture and its labels (%llu)",
                            (data_llu)size, (data_llu)flag);
    e->id = bzna_formats_data_le64(head + 8);
    e->label_count = flag ? flag : 1;
    e->labels = head + (flag ? HEAD_BYTES : 4);
    if (own->list.count && !(e->row = bzna_formats_list_find(&own->list, e->id)))
        return DATA_FAIL_AT(err, BZNA_E_MISMATCH, 16, "formats_config.list has no line with its id (%llu)",
                            (data_llu)e->id);
    return BZNA_OK;
}

/* Gives a record's target: its only label, if that is a whole number, else BZNA_TARGET_NONE. */
static int64_t target_of(const recordio *own, const entry *e)
{
    float label;

    if (e->row)
        return bzna_formats_list_target(&own->list, e->row);
    bzna_formats_data_floats(e->labels, 1, &label);
    if (e->label_count != 1 || !(label >= -9223372036854775808.0f && label < 9223372036854775808.0f) ||
        truncf(label) != label)
        return BZNA_TARGET_NONE;
    return (int64_t)label;
}

/* Gives the labels: those in memory as they are, those in the record if they fit. */
static bzna_status put_labels(const recordio *own, const entry *e, void *buffer, uint64_t capacity, bzna_place *place,
                              bzna_error *err)
{
    if (e->row) {
        place->data = &own->list.reals[e->row->first_label];
        place->size = e->row->label_count * sizeof(float);
        return bzna_formats_list_check(&own->list, e->row, err);
    }
    place->size = e->label_count * sizeof(float);
    if (place->size <= capacity)
        bzna_formats_data_floats(e->labels, e->label_count, buffer);
    return BZNA_OK;
}

static bzna_status recordio_unpack(void *user, uint64_t index, uint32_t field, void *record, uint64_t bytes,
                                   void *buffer, uint64_t capacity, bzna_place *place, bzna_error *err)
{
    const recordio *const own = user;
    const uint8_t *const head = (const uint8_t *)record + 8;
    char digits[24], where[48];
    entry e = { .bytes = 0 };
    int64_t integer;

    if (join_parts(record, bytes, &place->size, err) != BZNA_OK ||
        (field != RECORDIO_RECORD && read_head(own, head, place->size, &e, err) != BZNA_OK)) {
        snprintf(where, sizeof where, "the record at byte %llu", (data_llu)own->records.offsets[index]);
        err->byte_offset += own->records.offsets[index];
        return bzna_formats_data_prefix(err, where);
    }
    if (field == RECORDIO_LABEL)
        return put_labels(own, &e, buffer, capacity, place, err);

    if (field == RECORDIO_IMAGE || field == RECORDIO_RECORD) {
        place->offset = 8 + e.bytes;                        /* of a picture */
        place->data = field == RECORDIO_IMAGE ? NULL : head;
        place->size -= e.bytes;
    } else if (field == RECORDIO_NAME && e.row) {           /* the path of the list, or else the id */
        place->data = e.row->path;
        place->size = e.row->path_size;
    } else {
        integer = field == RECORDIO_TARGET ? target_of(own, &e) : (int64_t)e.id;
        snprintf(digits, sizeof digits, "%llu", (data_llu)e.id);
        place->size = field == RECORDIO_NAME ? strlen(digits) : sizeof integer;
        if (place->size <= capacity)
            memcpy(buffer, field == RECORDIO_NAME ? (const void *)digits : &integer, (size_t)place->size);
        return field == RECORDIO_TARGET && integer == BZNA_TARGET_NONE ? BZNA_E_NOT_FOUND : BZNA_OK;
    }
    return BZNA_OK;
}

/* ---- The provider --------------------------------------------------------------------------- */

static void recordio_close(void *user)
{
    bzna_formats_list_free(&((recordio *)user)->list);
    bzna_formats_records_close(user);
}

/* Tells files apart by where their records lie, and by the list. */
static uint64_t fingerprint_of(const recordio *own)
{
    const uint64_t words[] = { own->records.file.size, own->count }, end = own->count < 64 ? own->count : 64;
    const uint64_t *offsets = own->records.offsets;
    uint64_t hash = bzna_formats_data_hash(BZNA_FORMATS_HASH, own->list.text.data, own->list.text.size);

    hash = bzna_formats_data_hash(hash, words, sizeof words);
    hash = bzna_formats_data_hash(hash, offsets, (size_t)end * sizeof *offsets);
    return bzna_formats_data_hash(hash, offsets + (own->count - end), (size_t)end * sizeof *offsets);
}

bzna_status bzna_formats_open_recordio(bzna_context *context, data_file *file, const char *name,
                                       const bzna_formats_config *config, bzna_dataset **out, bzna_error *err)
{
    static const bzna_provider_field fields[RECORDIO_FIELDS] = {
        { .name = "image", .kind = BZNA_FIELD_IMAGE }, { .name = "label", .kind = BZNA_FIELD_VECTOR },
        { .name = "id", .kind = BZNA_FIELD_INTEGER },  { .name = "target", .kind = BZNA_FIELD_INTEGER },
        { .name = "name", .kind = BZNA_FIELD_TEXT },   { .name = "record", .kind = BZNA_FIELD_BYTES },
    };
    recordio *own = calloc(1, sizeof *own);
    bzna_provider provider = { .struct_size = sizeof provider, .user = own, .fields = fields,
                               .field_count = RECORDIO_FIELDS, .unpack = recordio_unpack, .close = recordio_close,
                               .kind = "RecordIO" };
    bzna_dataset_config dataset = *config->dataset;

    if (!own)
        return bzna_formats_data_no_memory(err);
    own->records.file = *file;
    if ((!config->list || bzna_formats_list_open(&own->list, config->list, 1, err) == BZNA_OK) &&
        find_records(own, name, &dataset, err) == BZNA_OK) {
        provider.count = own->count;
        provider.fingerprint = fingerprint_of(own);
    }
    dataset.index = NULL;
    dataset.index_bytes = 0;
    return bzna_formats_records_open(context, &provider, file, name, &dataset, out, err);
}

#endif
