/* test_fields.c - fields of samples that batches carry: numbers as tensors, everything else as bytes. */
#include "library.h"
#include "../../examples/formats/formats.h"
#include "test.h"

#ifdef BENZINA_NO_AVCODEC
TEST(fields_are_delivered) { SKIP("built without libavcodec [libavcodec-dev]"); }
TEST_MAIN(RUN(fields_are_delivered))
#else

#include "archives.h"
#include "open_formats.h"
#include "recordio.h"
#include "tars.h"

enum { SAMPLES = 23, BATCH = 5 };

static bzna_context *context;
static coded pictures[2];

static bzna_loader_config config_of(const char *tensors, const char *bytes)
{
    bzna_loader_config c;
    bzna_loader_config_init(&c, sizeof c);
    c.output.batch_size = BATCH;
    c.output.width = c.output.height = 16;
    c.order.kind = BZNA_ORDER_SHUFFLE;
    c.order.seed = 3;
    c.order.epochs = 2;
    c.decode.threads = c.read.threads = 2;
    c.fields.image = "image";
    c.fields.tensors = tensors;
    c.fields.bytes = bytes;
    return c;
}

static archive make_archive(char letter)
{
    static const int pattern[] = { 0, 1, 1 };
    const recipe r = { SAMPLES, pictures, pattern, COUNT(pattern), 100, 3, 0, letter, NULL, NULL };
    return archive_build(context, &r);
}

static bzna_loader *open_loader(bzna_dataset *dataset, const bzna_loader_config *c)
{
    bzna_error e = { .struct_size = sizeof e };
    bzna_loader *loader = NULL;
    CHECK_EQ(bzna_loader_open(context, dataset, c, &loader, &e), BZNA_OK);
    if (!loader)
        printf("  %s\n", e.message);
    return loader;
}

/* The bytes of a field in a slot, as bzna_dataset_field gives them. */
static int slot_has(const bzna_dataset *dataset, const bzna_batch *batch, uint32_t slot, const char *field, int is_text)
{
    static uint8_t expected[1 << 18];
    bzna_batch_info info;
    const void *data = NULL;
    uint64_t size = 0;
    size_t needed = 0;
    bzna_batch_get_info(batch, &info, sizeof info, NULL);
    if (bzna_dataset_field(dataset, info.indices[slot], field, expected, sizeof expected, &needed, NULL) != BZNA_OK ||
        bzna_batch_bytes(batch, field, slot, &data, &size, NULL) != BZNA_OK || !data)
        return 0;
    return size == needed - (size_t)is_text && !memcmp(data, expected, needed) && !((const char *)data)[size];
}

TEST(every_slot_has_the_bytes_of_its_own_sample)
{
    archive a = make_archive('s');
    memory m;
    bzna_dataset *dataset = open_split(context, &m, &a, NULL);
    bzna_loader_config c = config_of(NULL, "name,image,target");
    bzna_loader *loader = open_loader(dataset, &c);
    bzna_batch *batch = NULL;
    uint32_t right = 0;
    while (loader && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_batch_info info;
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        for (uint32_t slot = 0; slot < info.count; slot++) {
            const void *data = NULL;
            uint64_t size = 0;
            right += slot_has(dataset, batch, slot, "name", 1) && slot_has(dataset, batch, slot, "image", 0);
            CHECK_EQ(bzna_batch_bytes(batch, "target", slot, &data, &size, NULL), BZNA_OK);
            CHECK(size == 8 && !memcmp(data, &info.targets[slot], 8));
        }
        bzna_batch_release(batch);
    }
    CHECK_EQ(right, 2 * SAMPLES);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    archive_clear(&a);
}

/* Where one part has names, and the other has none: a slot tells them apart, and an old value never shines through. */
TEST(a_sample_without_the_field_has_no_bytes)
{
    archive a = make_archive('s'), b = make_archive(0);
    memory ma, mb;
    bzna_dataset *parts[2] = { open_split(context, &mb, &b, NULL), open_split(context, &ma, &a, NULL) }, *all = NULL;
    bzna_loader_config c = config_of(NULL, "name");
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    uint32_t with = 0, without = 0;
    CHECK_EQ(bzna_dataset_concat(context, parts, 2, &all, NULL), BZNA_OK);
    loader = open_loader(all, &c);
    while (loader && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_batch_info info;
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        for (uint32_t slot = 0; slot < info.count; slot++) {
            const void *data = &info;
            uint64_t size = 1;
            char name[16];
            CHECK_EQ(bzna_batch_bytes(batch, "name", slot, &data, &size, NULL), BZNA_OK);
            snprintf(name, sizeof name, "s%05d", (int)info.indices[slot] - SAMPLES);
            with += info.indices[slot] >= SAMPLES && data && size == 6 && !strcmp(data, name);
            without += info.indices[slot] < SAMPLES && !data && !size;
        }
        bzna_batch_release(batch);
    }
    CHECK_EQ(with, 2 * SAMPLES);
    CHECK_EQ(without, 2 * SAMPLES);
    bzna_loader_close(loader);
    bzna_dataset_close(all);
    bzna_dataset_close(parts[0]);
    bzna_dataset_close(parts[1]);
    archive_clear(&a);
    archive_clear(&b);
}

TEST(a_sample_that_cannot_be_read_has_no_bytes)
{
    archive a = make_archive('s');
    memory m;
    bzna_dataset *dataset = open_split(context, &m, &a, NULL);
    bzna_loader_config c = config_of(NULL, "image,name");
    bzna_sample_ref sample;
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    uint32_t missing = 0, there = 0;
    CHECK_EQ(bzna_dataset_sample(dataset, 7, &sample, sizeof sample, NULL), BZNA_OK);
    m.faults[0] = (fault){ sample.offset, sample.offset + sample.size, -5, -1 };
    m.fault_count = 1;
    loader = open_loader(dataset, &c);
    while (loader && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_batch_info info;
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        for (uint32_t slot = 0; slot < info.count; slot++) {
            const void *data = NULL;
            uint64_t size = 0;
            CHECK_EQ(bzna_batch_bytes(batch, "image", slot, &data, &size, NULL), BZNA_OK);
            missing += info.indices[slot] == 7 && !data && !size && info.status[slot] == BZNA_E_IO;
            there += info.indices[slot] != 7 && data && size;
        }
        bzna_batch_release(batch);
    }
    CHECK_EQ(missing, 2);
    CHECK_EQ(there, 2 * (SAMPLES - 1));
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    archive_clear(&a);
}

TEST(fields_that_cannot_be_delivered_are_refused_by_name)
{
    static const struct { const char *tensors, *bytes, *message; bzna_status status; } bad[] = {
        { "cls", NULL, "loader_config.fields.tensors: the data set has no field \"cls\"", BZNA_E_NOT_FOUND },
        { NULL, "txt", "loader_config.fields.bytes: the data set has no field \"txt\"", BZNA_E_NOT_FOUND },
        { "target", NULL, "fields.tensors: another tensor has the name \"target\"", BZNA_E_ARGUMENT },
        { "name", NULL, "fields.tensors: \"name\" is not a number", BZNA_E_ARGUMENT },
        { "image", NULL, "fields.tensors: \"image\" is not a number", BZNA_E_ARGUMENT },
        { NULL, "name,name", "fields.bytes: \"name\" is named twice", BZNA_E_ARGUMENT },
        { NULL, "name,,image", "loader_config.fields.bytes: a name is empty", BZNA_E_ARGUMENT },
        { NULL, "name,", "loader_config.fields.bytes: a name is empty", BZNA_E_ARGUMENT },
        { NULL, "\xff", "loader_config.fields.bytes: a name is not UTF-8", BZNA_E_ARGUMENT },
        { "cls\xc3", NULL, "loader_config.fields.tensors: a name is not UTF-8", BZNA_E_ARGUMENT },
        { NULL, "name,image:x,thumb", "\"image:x\" is neither a field's name nor a vector's", BZNA_E_ARGUMENT },
        { NULL, ",", "loader_config.fields.bytes: a name is empty", BZNA_E_ARGUMENT },
        { "name:0", NULL, "loader_config.fields.tensors: \"name:0\" is neither a field's name", BZNA_E_ARGUMENT },
        { "name:-1", NULL, "loader_config.fields.tensors: \"name:-1\" is neither a field's name", BZNA_E_ARGUMENT },
        { "name:4x", NULL, "loader_config.fields.tensors: \"name:4x\" is neither a field's name", BZNA_E_ARGUMENT },
        { NULL, "name:4", "\"name:4\": only vectors have a length", BZNA_E_ARGUMENT },
        { NULL, "a.name.that.has.more.than.31.bytes", "\"a.name.that.has.more.than.31.bytes\" is", BZNA_E_ARGUMENT },
    };
    archive a = make_archive('s');
    memory m;
    bzna_dataset *dataset = open_split(context, &m, &a, NULL);
    for (size_t i = 0; i < COUNT(bad); i++) {
        bzna_loader_config c = config_of(bad[i].tensors, bad[i].bytes);
        bzna_loader *loader = (bzna_loader *)&m;
        bzna_error e = { .struct_size = sizeof e };
        CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), bad[i].status);
        CHECK_CONTAINS(e.message, bad[i].message);
        CHECK(loader == NULL);
    }
    bzna_dataset_close(dataset);
    archive_clear(&a);
}

TEST(bytes_that_a_loader_was_not_asked_for_are_refused)
{
    archive a = make_archive('s');
    memory m;
    bzna_dataset *dataset = open_split(context, &m, &a, NULL);
    bzna_loader_config c = config_of(NULL, "name");
    bzna_loader *loader = open_loader(dataset, &c);
    bzna_batch *batch = NULL;
    const void *data = NULL;
    uint64_t size = 0;
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_OK);
    CHECK_EQ(bzna_batch_bytes(batch, "image", 0, &data, &size, NULL), BZNA_E_NOT_FOUND);
    CHECK_EQ(bzna_batch_bytes(batch, "name", BATCH, &data, &size, NULL), BZNA_E_RANGE);
    CHECK_EQ(bzna_batch_bytes(NULL, "name", 0, &data, &size, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_batch_bytes(batch, NULL, 0, &data, &size, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_batch_bytes(batch, "name", 0, NULL, &size, NULL), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_batch_bytes(batch, "name", 0, &data, NULL, NULL), BZNA_E_ARGUMENT);
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    archive_clear(&a);
}

/* Record i has id 1000 + i, and counts[i % 4] labels: i, i + 0.5, i + 1, ... Its picture is none, which no test
 * needs. */
static const uint32_t label_counts[4] = { 3, 1, 4, 2 };

static bzna_dataset *open_records(rec_file *f)
{
    bzna_dataset *dataset = NULL;
    for (int i = 0; i < SAMPLES; i++) {
        float labels[4];
        for (int k = 0; k < 4; k++)
            labels[k] = (float)i + 0.5f * (float)k;
        rec_add_picture(f, 1000 + (uint64_t)i, labels, label_counts[i % 4], "no picture", 10);
    }
    require(bzna_dataset_open_memory(context, f->bytes, f->size, NULL, &dataset, NULL), "records");
    return dataset;
}

/* One row of [N, length]: its first numbers are the labels, the rest is NaN. */
static int row_is(const float *row, uint32_t length, uint64_t i)
{
    for (uint32_t k = 0; k < length; k++)
        if (k < label_counts[i % 4] ? row[k] != (float)i + 0.5f * (float)k : !isnan(row[k]))
            return 0;
    return 1;
}

static bzna_tensor tensor_of(const bzna_batch *batch, const char *name)
{
    bzna_tensor t = { .struct_size = sizeof t };
    CHECK_EQ(bzna_batch_tensor(batch, name, &t, sizeof t, NULL), BZNA_OK);
    return t;
}

TEST(vectors_have_a_row_a_slot_and_integers_a_number)
{
    rec_file *f = rec_new();
    bzna_dataset *dataset = open_records(f);
    bzna_loader_config c = config_of("label:4,id", NULL);
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    bzna_tensor described = { .struct_size = sizeof described };
    uint32_t right = 0;
    c.fields.image = NULL;
    c.output.width = c.output.height = 0;
    c.fields.bytes = "name";
    loader = open_loader(dataset, &c);
    CHECK_EQ(bzna_loader_tensor(loader, 3, &described, sizeof described, NULL), BZNA_OK);
    CHECK_STR(described.name, "label");
    CHECK(described.dimensions == 2 && described.shape[0] == BATCH && described.shape[1] == 4);
    CHECK_EQ(bzna_loader_tensor(loader, 5, &described, sizeof described, NULL), BZNA_E_RANGE);
    while (loader && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_tensor label = tensor_of(batch, "label"), id = tensor_of(batch, "id");
        bzna_batch_info info;
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        CHECK(label.dtype == BZNA_DTYPE_FLOAT32 && label.dimensions == 2 && label.shape[0] == info.image.shape[0]);
        CHECK(id.dtype == BZNA_DTYPE_INT64 && id.dimensions == 1 && id.bytes == 8 * (uint64_t)id.shape[0]);
        CHECK(label.device.kind == BZNA_DEVICE_CPU && label.bytes == 16 * (uint64_t)label.shape[0]);
        for (uint32_t slot = 0; slot < info.count; slot++) {
            uint64_t i = info.indices[slot];
            right += row_is((const float *)label.data + 4 * slot, 4, i) &&
                     ((const int64_t *)id.data)[slot] == 1000 + (int64_t)i && slot_has(dataset, batch, slot, "name", 1);
        }
        bzna_batch_release(batch);
    }
    CHECK_EQ(right, 2 * SAMPLES);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    free(f);
}

/* Three numbers, as the first sample has. */
TEST(without_a_length_a_vector_is_as_long_as_the_first_and_longer_ones_fail)
{
    rec_file *f = rec_new();
    bzna_dataset *dataset = open_records(f);
    bzna_loader_config c = config_of("label", NULL);
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    uint32_t right = 0, failed = 0;
    c.fields.image = NULL;
    c.output.width = c.output.height = 0;
    loader = open_loader(dataset, &c);
    while (loader && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_tensor label = tensor_of(batch, "label");
        bzna_batch_info info;
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        CHECK_EQ(label.shape[1], 3);
        for (uint32_t slot = 0; slot < info.count; slot++) {
            bzna_error e = { .struct_size = sizeof e };
            uint64_t i = info.indices[slot];
            if (i % 4 != 2) {
                right += info.status[slot] == BZNA_OK && row_is((const float *)label.data + 3 * slot, 3, i);
                continue;
            }
            CHECK_EQ(bzna_batch_error(batch, slot, &e), BZNA_E_MISMATCH);
            CHECK_CONTAINS(e.message, "its label has 4 numbers, more than the 3 of fields.tensors");
            CHECK_CONTAINS(e.message, "name it as \"label:4\" there");
            failed++;
        }
        bzna_batch_release(batch);
    }
    CHECK_EQ(failed, 2 * 6);
    CHECK_EQ(right, 2 * (SAMPLES - 6));
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    free(f);
}

/* dlpack.h's struct, as far as this reads it. */
typedef struct dl_tensor {
    void    *data;
    int32_t  device[2], ndim;
    uint8_t  code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
    void    *manager;
    void   (*deleter)(void *self);
} dl_tensor;

TEST(vectors_are_dlpack_tensors_of_two_dimensions)
{
    rec_file *f = rec_new();
    bzna_dataset *dataset = open_records(f);
    bzna_loader_config c = config_of("label:4,id", NULL);
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    void *exported[2] = { NULL, NULL };
    const dl_tensor *label, *id;
    c.fields.image = NULL;
    c.output.width = c.output.height = 0;
    loader = open_loader(dataset, &c);
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_OK);
    CHECK_EQ(bzna_batch_to_dlpack(batch, "label", BZNA_DLPACK_0, &exported[0], NULL), BZNA_OK);
    CHECK_EQ(bzna_batch_to_dlpack(batch, "id", BZNA_DLPACK_0, &exported[1], NULL), BZNA_OK);
    label = exported[0];
    id = exported[1];
    CHECK(label->ndim == 2 && label->shape[0] == BATCH && label->shape[1] == 4);
    CHECK(label->strides[0] == 4 && label->strides[1] == 1 && label->code == 2 && label->bits == 32);
    CHECK(id->ndim == 1 && id->shape[0] == BATCH && id->strides[0] == 1 && id->code == 0 && id->bits == 64);
    CHECK(label->data == tensor_of(batch, "label").data && id->data == tensor_of(batch, "id").data);
    label->deleter(exported[0]);
    id->deleter(exported[1]);
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    free(f);
}

/* Nothing is decoded, and nothing of a decoder is needed. */
TEST(batches_without_pictures_carry_fields_alone)
{
    archive a = make_archive('s');
    memory m;
    bzna_dataset *dataset = open_split(context, &m, &a, NULL);
    bzna_loader_config c = config_of(NULL, "name");
    bzna_statistics stats;
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    bzna_error e = { .struct_size = sizeof e };
    uint32_t right = 0;
    c.output.width = c.output.height = 0;
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_ARGUMENT);     /* an image is named */
    CHECK_CONTAINS(e.message, "loader_config.output.width: 0");
    c.fields.image = NULL;
    loader = open_loader(dataset, &c);
    while (loader && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_batch_info info;
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        CHECK(info.failed == 0 && info.image.bytes == 0 && info.image.shape[2] == 0);
        for (uint32_t slot = 0; slot < info.count; slot++)
            right += slot_has(dataset, batch, slot, "name", 1) &&
                     info.targets[slot] == target_of(&a, info.indices[slot]);
        bzna_batch_release(batch);
    }
    CHECK_EQ(right, 2 * SAMPLES);
    CHECK_EQ(bzna_loader_statistics(loader, &stats, sizeof stats, NULL), BZNA_OK);
    CHECK(stats.samples == 2 * SAMPLES && stats.samples_software == 0 && stats.stage[BZNA_STAGE_DECODE].count == 0);
    bzna_loader_close(loader);
    c.fields.bytes = NULL;                                  /* nothing is asked for: a size was forgotten */
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, NULL), BZNA_E_ARGUMENT);
    bzna_dataset_close(dataset);
    archive_clear(&a);
}

/* What is listed, found by name and exported: three tensors and the fields'. */
TEST(a_loader_without_pictures_lists_no_image)
{
    static const char *const names[] = { "target", "index", "status", "label" };
    rec_file *f = rec_new();
    bzna_dataset *dataset = open_records(f);
    bzna_loader_config c = config_of("label:4", NULL);
    bzna_loader_info about = { .struct_size = sizeof about };
    bzna_batch_info info = { .struct_size = sizeof info };
    bzna_tensor t = { .struct_size = sizeof t };
    bzna_batch *batch = NULL;
    void *exported = NULL;
    c.fields.image = NULL;
    c.output.width = c.output.height = 0;
    bzna_loader *loader = open_loader(dataset, &c);
    REQUIRE(loader != NULL);
    for (uint32_t i = 0; i < COUNT(names); i++) {
        CHECK_EQ(bzna_loader_tensor(loader, i, &t, sizeof t, NULL), BZNA_OK);
        CHECK_STR(t.name, names[i]);
        CHECK_EQ(t.shape[0], BATCH);
    }
    CHECK_EQ(bzna_loader_tensor(loader, COUNT(names), &t, sizeof t, NULL), BZNA_E_RANGE);
    CHECK_EQ(bzna_loader_get_info(loader, &about, sizeof about, NULL), BZNA_OK);
    CHECK_STR(about.image.name, "");
    CHECK(about.image.bytes == 0 && about.image.shape[0] == BATCH);
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_OK);
    CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
    CHECK(!info.image.name[0] && info.image.bytes == 0 && info.image.shape[0] == BATCH);
    CHECK_EQ(bzna_batch_tensor(batch, "image", &t, sizeof t, NULL), BZNA_E_NOT_FOUND);
    CHECK_EQ(bzna_batch_tensor(batch, "", &t, sizeof t, NULL), BZNA_E_NOT_FOUND);
    CHECK_EQ(bzna_batch_to_dlpack(batch, "image", BZNA_DLPACK_0, &exported, NULL), BZNA_E_NOT_FOUND);
    for (uint32_t i = 0; i < COUNT(names); i++) {
        CHECK_EQ(bzna_batch_tensor(batch, names[i], &t, sizeof t, NULL), BZNA_OK);
        CHECK_STR(t.name, names[i]);
    }
    CHECK(tensor_of(batch, "target").data == (const void *)info.targets);
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    free(f);
}

static bzna_dataset *open_vectors_of_a_provider(void)
{
    static const float numbers[2][3] = { { 1, 2, 3 }, { 4, 5, 6 } };
    static const bzna_place places[2] = { { .data = numbers[0], .size = sizeof numbers[0] },
                                          { .data = numbers[1], .size = sizeof numbers[1] } };
    const bzna_provider_field field = { .name = "data", .kind = BZNA_FIELD_VECTOR, .located = 1 };
    const bzna_provider provider = { .struct_size = sizeof provider, .field_count = 1, .count = 2, .fields = &field,
                                     .places = places };
    bzna_dataset *dataset = NULL;
    CHECK_EQ(bzna_dataset_open_provider(context, &provider, NULL, &dataset, NULL), BZNA_OK);
    return dataset;
}

static bzna_dataset *open_vectors_of_records(void)
{
    static const float numbers[2][3] = { { 1, 2, 3 }, { 4, 5, 6 } };
    const bzna_records records = { .struct_size = sizeof records, .data_type = BZNA_RECORD_FLOAT32, .width = 3,
                                   .height = 1, .channels = 1 };
    const bzna_formats_config config = { .struct_size = sizeof config, .records = &records };
    bzna_dataset *dataset = NULL;
    CHECK_EQ(bzna_formats_open_memory(context, numbers, sizeof numbers, &config, &dataset, NULL), BZNA_OK);
    return dataset;
}

static bzna_dataset *open_texts_of_a_tar(tar *t)
{
    bzna_dataset *dataset = NULL;
    tar_text(t, "0.txt", "first");
    tar_text(t, "1.txt", "second");
    tar_end(t);
    CHECK_EQ(bzna_dataset_open_memory(context, t->bytes, t->size, NULL, &dataset, NULL), BZNA_OK);
    return dataset;
}

/* As when a field is named that is not there. Beside a part that has pictures, only samples fail. */
TEST(outputs_of_a_data_set_without_pictures_are_refused)
{
    tar t = { 0 };
    rec_file *f = rec_new();
    bzna_dataset *datasets[3] = { open_vectors_of_a_provider(), open_vectors_of_records(), open_texts_of_a_tar(&t) };
    static const char *const names[3] = { "data", "data", "txt" };
    bzna_dataset *mixed[2] = { datasets[0], open_records(f) }, *both = NULL;
    bzna_error e = { .struct_size = sizeof e };
    bzna_loader *loader = NULL;
    for (int i = 0; i < 3; i++) {
        bzna_loader_config c = config_of(NULL, NULL);
        CHECK_EQ(bzna_loader_open(context, datasets[i], &c, &loader, &e), BZNA_E_NOT_FOUND);    /* "image" is named */
        c.fields.image = NULL;
        CHECK_EQ(bzna_loader_open(context, datasets[i], &c, &loader, &e), BZNA_E_NOT_FOUND);
        CHECK_CONTAINS(e.message, "loader_config.output: the data set has no picture field");
        CHECK(loader == NULL);
        c.fields.bytes = names[i];
        CHECK_EQ(bzna_loader_open(context, datasets[i], &c, &loader, &e), BZNA_E_NOT_FOUND);
        c.output.width = c.output.height = 0;
        bzna_loader_close(open_loader(datasets[i], &c));
    }
    CHECK_EQ(bzna_dataset_concat(context, mixed, 2, &both, &e), BZNA_OK);
    bzna_loader_config c = config_of(NULL, NULL);
    c.fields.image = NULL;
    bzna_loader_close(open_loader(both, &c));
    bzna_dataset_close(both);
    bzna_dataset_close(mixed[1]);
    for (int i = 0; i < 3; i++)
        bzna_dataset_close(datasets[i]);
    free(f);
    tar_free(&t);
}

/* Slots grow to the largest value that they met: after that they ask for nothing. */
TEST(bytes_allocate_nothing_in_steady_state)
{
    archive a = make_archive('s');
    memory m;
    ledger l;
    bzna_context_config host;
    bzna_context *own = NULL;
    bzna_source source = memory_source(&m, &a);
    bzna_dataset *dataset = NULL;
    bzna_loader_config c = config_of(NULL, "name,image");
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    int64_t calls = 0, epochs = 0;
    bzna_context_config_init(&host, sizeof host);
    host.device.kind = BZNA_DEVICE_CPU;
    host.allocator = ledger_allocator(&l);
    c.order.epochs = 60;                                    /* a busy machine lets a thread begin late */
    CHECK_EQ(bzna_context_open(&host, &own, NULL), BZNA_OK);
    CHECK_EQ(bzna_dataset_open_source(own, &source, NULL, &dataset, NULL), BZNA_OK);
    CHECK_EQ(bzna_loader_open(own, dataset, &c, &loader, NULL), BZNA_OK);
    while (loader && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_batch_info info;
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        epochs += info.last_of_epoch;
        if (epochs == 56 && !calls)
            calls = l.calls;
        bzna_batch_release(batch);
    }
    CHECK_EQ(epochs, 60);
    CHECK_EQ(l.calls, calls);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(own);
    CHECK_EQ(l.blocks, 0);
    CHECK_EQ(l.mistakes, 0);
    archive_clear(&a);
}

/* What the tests share is made by the first that runs. */
static void set_up(void)
{
    bzna_context_config config;
    bzna_context_config_init(&config, sizeof config);
    config.device.kind = BZNA_DEVICE_CPU;
    require(bzna_context_open(&config, &context, NULL), "context");
    pictures[0] = coded_load(context, BZNA_CODEC_H264, 0, "image");
    pictures[1] = coded_load(context, BZNA_CODEC_H265, 1, "image");
}

static void tear_down(void)
{
    coded_clear(&pictures[0]);
    coded_clear(&pictures[1]);
    bzna_context_close(context);
}

TEST_MAIN(set_up(); RUN(every_slot_has_the_bytes_of_its_own_sample)
          RUN(a_sample_without_the_field_has_no_bytes)
          RUN(a_sample_that_cannot_be_read_has_no_bytes)
          RUN(fields_that_cannot_be_delivered_are_refused_by_name)
          RUN(bytes_that_a_loader_was_not_asked_for_are_refused)
          RUN(vectors_have_a_row_a_slot_and_integers_a_number)
          RUN(without_a_length_a_vector_is_as_long_as_the_first_and_longer_ones_fail)
          RUN(vectors_are_dlpack_tensors_of_two_dimensions)
          RUN(batches_without_pictures_carry_fields_alone)
          RUN(a_loader_without_pictures_lists_no_image)
          RUN(outputs_of_a_data_set_without_pictures_are_refused)
          RUN(bytes_allocate_nothing_in_steady_state) tear_down();)
#endif
