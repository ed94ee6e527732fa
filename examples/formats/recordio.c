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

enum { WHOLE, FIRST, MIDDLE, LAST };  /* which of its record's parts a part is */

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

/* Reads the header of a part. Returns 0 if there is none, else 1. */
static int part_of(const uint8_t header[8], part *out)
{
    const uint32_t word = bzna_formats_data_le32(header + 4);

    out->which = word >> 29;
    out->length = word & MAX_BYTES;
    out->next = 8 + ((out->length + 3) & ~(uint64_t)3);
    return bzna_formats_data_le32(header) == DATA_RECORDIO;
}

/* ---- The scan ------------------------------------------------------------------------------- */

static bzna_status fail_scan(uint64_t at, bzna_status status, const char *what, bzna_error *err)
{
    return DATA_FAIL_AT(err, status, at, "at byte %llu: %s: without an .idx, records can't be found from there on",
                        (data_llu)at, what);
}

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
        if (file->size - at < 8)
            return fail_scan(at, BZNA_E_TRUNCATED, "the file ends in the header", err);
        if (at + 8 > end) {
            begin = at;
            end = file->size - at < sizeof bytes ? file->size : at + sizeof bytes;
            if (bzna_formats_file_read(file, begin, bytes, end - begin, err) != BZNA_OK)
                return err->status;
        }
        if (!part_of(bytes + (at - begin), &p))
            return fail_scan(at, BZNA_E_FORMAT, "no record begins here", err);
        if (p.length > file->size - at - 8)
            return fail_scan(at, BZNA_E_TRUNCATED, "the file ends in the record", err);

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

/* Fails because of the index. at: offset in the .rec or in the index. line: of the index, or 0. */
static bzna_status fail_index(uint64_t at, const char *what, uint64_t line, bzna_error *err)
{
    char place[40] = "";

    if (line)
        snprintf(place, sizeof place, "line %llu: ", (data_llu)line);
    return DATA_FAIL_AT(err, BZNA_E_FORMAT, at, "at byte %llu: %s%s: it does not fit the .rec file; remove it, or "
                        "write it again (bzna index)", (data_llu)at, place, what);
}

static int by_offset(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Parses lines of key, tab and offset. */
static bzna_status parse_index(recordio *own, data_span text, bzna_error *err)
{
    const uint64_t file_bytes = own->records.file.size;
    uint64_t *offsets, number = 0, offset;
    data_span rest = text, last;

    while (rest.size) {
        const uint64_t at = (uint64_t)(rest.data - text.data);
        data_span line = bzna_formats_data_line(&rest);

        number++;
        if (!bzna_formats_data_trim(line).size)
            continue;
        if (!bzna_formats_data_take_last(&line, '\t', &last) ||
            !bzna_formats_data_integer(bzna_formats_data_trim(last), &offset))
            return fail_index(at, "no key, tab and offset", number, err);
        if (offset % 4 || offset >= file_bytes || file_bytes - offset < 8)
            return fail_index(offset, "no record can begin at its offset", number, err);
        if (add_offset(own, offset, err) != BZNA_OK)
            return err->status;
    }

    if (!own->count)
        return fail_index(0, "it is empty", 0, err);
    offsets = own->records.offsets;
    qsort(offsets, (size_t)own->count, sizeof *offsets, by_offset);
    for (uint64_t i = 1; i < own->count; i++)
        if (offsets[i] == offsets[i - 1])
            return fail_index(offsets[i], "two lines have the same offset", 0, err);
    return BZNA_OK;
}

/* Checks that a record begins there: an index of another file hardly fits the first and the last one. */
static bzna_status check_record(const recordio *own, uint64_t offset, bzna_error *err)
{
    uint8_t header[8];
    part p;

    if (bzna_formats_file_read(&own->records.file, offset, header, sizeof header, err) != BZNA_OK)
        return err->status;
    return part_of(header, &p) ? BZNA_OK : fail_index(offset, "no record begins at this offset", 0, err);
}

/* Reads NAME.idx beside NAME.rec, or takes the index of the config. Finds nothing if there is none, or only one that is
 * older than the file. */
static bzna_status open_index(recordio *own, const char *name, const bzna_dataset_config *config, bzna_error *err)
{
    const size_t length = own->records.file.is_file ? strlen(name) : 0;
    char path[DATA_PATH_BYTES] = "dataset_config.index";
    data_span text = { config->index, (size_t)config->index_bytes };
    data_look idx;

    if (!config->index) {
        if (length < 5 || length >= sizeof path || strcmp(name + length - 4, ".rec"))
            return BZNA_OK;
        snprintf(path, sizeof path, "%.*s.idx", (int)length - 4, name);
        idx = bzna_formats_data_look(path);
        if (idx.kind == DATA_NONE || idx.modified < bzna_formats_data_look(name).modified)
            return BZNA_OK;
        if (bzna_formats_data_read(path, &text, err) != BZNA_OK)
            return err->status;
    }

    if (parse_index(own, text, err) != BZNA_OK || check_record(own, own->records.offsets[0], err) != BZNA_OK ||
        check_record(own, own->records.offsets[own->count - 1], err) != BZNA_OK)
        bzna_formats_data_prefix(err, path);
    if (!config->index)
        free((char *)(uintptr_t)text.data);
    return err->status;
}

/* Finds the records, by the index or by a scan. */
static bzna_status find_records(recordio *own, const char *name, const bzna_dataset_config *config, bzna_error *err)
{
    if (open_index(own, name, config, err) == BZNA_OK && !own->count && scan(own, err) == BZNA_OK && !own->count)
        DATA_FAIL(err, BZNA_E_NO_SAMPLES, "no record begins in the file");
    if (err->status == BZNA_OK && add_offset(own, own->records.file.size, err) == BZNA_OK)
        own->count--;                                       /* it is where the last one ends */
    return err->status;
}

/* ---- Records -------------------------------------------------------------------------------- */

/* A record that is looked at. */
typedef struct look {
    const recordio *own;
    uint64_t        at;               /* offset of the record in the file */
    uint8_t        *bytes;
    uint64_t        size;             /* of bytes */
    bzna_error     *err;
} look;

/* Fails because of a record. at: offset in it. number: a value that belongs to `what`. */
static bzna_status fail_record(const look *l, uint64_t at, bzna_status status, const char *what, uint64_t number)
{
    const uint64_t place = l->at + at;

    return DATA_FAIL_AT(l->err, status, place, "at byte %llu: the record at byte %llu: %s (%llu)", (data_llu)place,
                        (data_llu)l->at, what, (data_llu)number);
}

/* Reads and checks the header of the part at `at` in a record. */
static bzna_status part_at(const look *l, uint64_t at, part *p)
{
    if (at > l->size || l->size - at < 8)
        return fail_record(l, at < l->size ? at : l->size, BZNA_E_TRUNCATED, "its last part is missing", l->size);
    if (!part_of(l->bytes + at, p))
        return fail_record(l, at, BZNA_E_FORMAT, "no magic number", bzna_formats_data_le32(l->bytes + at));
    if (p->length > l->size - at - 8)
        return fail_record(l, at, BZNA_E_TRUNCATED, "a part of more bytes than are left", p->length);
    if (at ? p->which != MIDDLE && p->which != LAST : p->which > FIRST)
        return fail_record(l, at, BZNA_E_FORMAT, "a part out of order, cflag", p->which);
    return BZNA_OK;
}

static void put_le32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> 8 * i);
}

/* Joins a record in parts into one part, in place. The joined record is shorter, since the header of each part but the
 * first is replaced by the magic number that the writer took out there. */
static bzna_status join_parts(const look *l)
{
    uint64_t at = 0, end = 8;
    part p = { 0, 0, 0 };

    do {
        bzna_status status = part_at(l, at, &p);
        if (status != BZNA_OK || p.which == WHOLE)
            return status;
        if (at) {
            put_le32(l->bytes + end, DATA_RECORDIO);
            end += 4;
        }
        memmove(l->bytes + end, l->bytes + at + 8, (size_t)p.length);
        end += p.length;
        at += p.next;
    } while (p.which != LAST);

    if (end - 8 > MAX_BYTES)
        return fail_record(l, 0, BZNA_E_LIMIT, "too long for a record", end - 8);
    put_le32(l->bytes + 4, (uint32_t)(end - 8));
    return BZNA_OK;
}

/* The parts of a record with a picture. */
typedef struct entry {
    uint64_t       id;                /* of the record, by which the list is searched */
    uint64_t       label_count;
    const uint8_t *labels;            /* in the record, unless the list has them */
    const data_list_row *row;         /* of the list; NULL if there is no list */
    uint64_t       picture_at;        /* offset in the record */
    uint64_t       picture_size;
} entry;

/* Reads the header of a joined record, of which `size` bytes follow that of its part. If there is a list, it must have
 * a line for the record's id, and has the labels. */
static bzna_status read_head(const look *l, uint64_t size, entry *e)
{
    const uint8_t *const head = l->bytes + 8;
    uint64_t flag;

    if (size < HEAD_BYTES)
        return fail_record(l, 8, BZNA_E_FORMAT, "too short for a picture and its label", size);
    flag = bzna_formats_data_le32(head);
    if (flag * 4 > size - HEAD_BYTES)
        return fail_record(l, 8, BZNA_E_FORMAT, "more labels than it has room for", flag);

    e->id = bzna_formats_data_le64(head + 8);
    e->label_count = flag ? flag : 1;
    e->labels = head + (flag ? HEAD_BYTES : 4);
    e->picture_at = 8 + HEAD_BYTES + flag * 4;
    e->picture_size = size - HEAD_BYTES - flag * 4;
    if (!l->own->list.count)
        return BZNA_OK;
    if (!(e->row = bzna_formats_list_find(&l->own->list, e->id)))
        return fail_record(l, 16, BZNA_E_MISMATCH, "formats_config.list has no line with its id", e->id);
    e->label_count = e->row->label_count;
    return BZNA_OK;
}

/* Writes the labels, if they fit. */
static bzna_status put_labels(const look *l, const entry *e, void *buffer, uint64_t capacity, bzna_place *place)
{
    if (e->row && bzna_formats_list_check(&l->own->list, e->row, l->err) != BZNA_OK)
        return l->err->status;
    place->size = e->label_count * sizeof(float);
    for (uint64_t i = 0; i < e->label_count && place->size <= capacity; i++) {
        const float label = e->row ? l->own->list.reals[e->row->first_label + i] :
                            bzna_formats_data_le_float(e->labels + 4 * i);
        memcpy((uint8_t *)buffer + i * sizeof label, &label, sizeof label);
    }
    return BZNA_OK;
}

/* Gives a record's target: its only label, if that is a whole number, else BZNA_TARGET_NONE. */
static int64_t target_of(const look *l, const entry *e)
{
    float label;

    if (e->row)
        return bzna_formats_list_target(&l->own->list, e->row);
    if (e->label_count != 1)
        return BZNA_TARGET_NONE;
    label = bzna_formats_data_le_float(e->labels);
    if (!(label >= -9223372036854775808.0f && label < 9223372036854775808.0f) || truncf(label) != label)
        return BZNA_TARGET_NONE;
    return (int64_t)label;
}

static bzna_status recordio_unpack(void *user, uint64_t index, uint32_t field, void *record, uint64_t bytes,
                                   void *buffer, uint64_t capacity, bzna_place *place, bzna_error *err)
{
    const recordio *const own = user;
    const look l = { own, own->records.offsets[index], record, bytes, err };
    entry e = { .id = 0 };
    int64_t integer;
    uint64_t size;
    char digits[24];

    if (join_parts(&l) != BZNA_OK)
        return err->status;
    size = bzna_formats_data_le32(l.bytes + 4) & MAX_BYTES;
    place->data = l.bytes + 8;
    place->size = size;
    if (field == RECORDIO_RECORD)
        return BZNA_OK;

    place->data = NULL;
    if (read_head(&l, size, &e) != BZNA_OK)
        return err->status;
    if (field == RECORDIO_LABEL)
        return put_labels(&l, &e, buffer, capacity, place);
    if (field == RECORDIO_IMAGE) {
        place->offset = e.picture_at;
        place->size = e.picture_size;
        return BZNA_OK;
    }
    if (field == RECORDIO_NAME && e.row) {                           /* the path of the list, or else the id */
        place->data = e.row->path;
        place->size = e.row->path_size;
        return BZNA_OK;
    }

    integer = field == RECORDIO_TARGET ? target_of(&l, &e) : (int64_t)e.id;
    snprintf(digits, sizeof digits, "%llu", (data_llu)e.id);
    place->size = field == RECORDIO_NAME ? strlen(digits) : sizeof integer;
    if (place->size <= capacity)
        memcpy(buffer, field == RECORDIO_NAME ? (const void *)digits : &integer, (size_t)place->size);
    return field == RECORDIO_TARGET && integer == BZNA_TARGET_NONE ? BZNA_E_NOT_FOUND : BZNA_OK;
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
