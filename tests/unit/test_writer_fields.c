/* Archives written by programs: fields and class names beside pictures, samples by index from several threads, what is
 * kept of a sample until the index is written. */
#include "library.h"
#include "test.h"
#include "known.h"
#include "sink.h"
#include <pthread.h>
#include <sched.h>


/* ---- Samples of few bytes ---- */

/* A 16x16 picture of H.264, and its size. */
static const uint8_t tiny[] = { 0, 0, 0, 1, 0x67, 0x42, 0x00, 0x0a, 0xf8, 0x41, 0xa2, 0, 0, 0, 1, 0x68, 0xce, 0x38,
                                0x80, 0, 0, 0, 1, 0x65, 0x88, 0x84, 0x21 };

static bzna_image tiny_image(void)
{
    bzna_image image = { .struct_size = sizeof image, .codec = BZNA_CODEC_H264, .data = tiny,
                         .data_size = sizeof tiny };
    bzi_format format = { .width = 0 };
    bzna_error e;
    if (bzi_image_sps(&image, &format, &e) != BZNA_OK)
        exit(1);
    image.width = format.width;
    image.height = format.height;
    return image;
}

static bzna_status open_writer(bzna_context *context, memory_sink *s, const bzna_writer_config *config,
                               bzna_writer **writer, bzna_error *err)
{
    bzna_sink sink = sink_of(s);
    return bzna_writer_open_sink(context, &sink, config, writer, err);
}

/* A sample with fields of every kind, of its number. */
typedef struct sample {
    bzna_image       image;
    bzna_field_value fields[4];
    int64_t          id;
    float            box[4];
    char             caption[64], name[64];
    uint8_t          bytes[8];
    bzna_writer_sample desc;
} sample;

static void sample_make(sample *s, uint64_t i)
{
    memset(s, 0, sizeof *s);
    s->image = tiny_image();
    s->id = (int64_t)i * -1000000007;
    for (int k = 0; k < 4; k++)
        s->box[k] = (float)i + (float)k / 4;
    snprintf(s->caption, sizeof s->caption, "caption number %d, na\303\257ve", (int)i);
    snprintf(s->name, sizeof s->name, "train/class%d/picture_%06d.JPEG", (int)(i % 3), (int)i);
    memset(s->bytes, (int)i, sizeof s->bytes);
    s->fields[0] = (bzna_field_value){ sizeof s->fields[0], BZNA_FIELD_INTEGER, "id", &s->id, 8 };
    s->fields[1] = (bzna_field_value){ sizeof s->fields[0], BZNA_FIELD_VECTOR, "box", s->box, sizeof s->box };
    s->fields[2] = (bzna_field_value){ sizeof s->fields[0], BZNA_FIELD_TEXT, "caption", s->caption,
                                       strlen(s->caption) };
    s->fields[3] = (bzna_field_value){ sizeof s->fields[0], BZNA_FIELD_BYTES, "raw", s->bytes, i % 8 };
    s->desc = (bzna_writer_sample){ .struct_size = sizeof s->desc, .split = (uint32_t)i % 4, .image = &s->image,
                                  .has_target = 1, .target = (int64_t)i % 3, .name = s->name,
                                  .fields = s->fields, .field_count = 4 };
}

static const char *const classes[3] = { "tabby", "", "Samoy\303\250de" };

/* count samples by bzna_writer_add, with class names. */
static void write_all(memory_sink *s, uint64_t count)
{
    bzna_context *context = NULL;
    bzna_writer *writer = NULL;
    bzna_writer_config config = { .struct_size = sizeof config, .class_count = 3, .classes = classes };
    bzna_error err = fresh_error();
    REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
    REQUIRE(open_writer(context, s, &config, &writer, &err) == BZNA_OK);
    for (uint64_t i = 0; i < count; i++) {
        sample one;
        sample_make(&one, i);
        CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &one.desc, 0, &err), BZNA_OK);
    }
    CHECK_EQ(bzna_writer_finish(writer, &err), BZNA_OK);
    CHECK_EQ(s->wrong, 0);
    bzna_writer_close(writer);
    bzna_context_close(context);
}

static int same(const memory_sink *a, const memory_sink *b)
{
    return a->size == b->size && !memcmp(a->data, b->data, a->size);
}


/* ---- What comes back ---- */

static void check_sample(const bzna_dataset *d, uint64_t index, uint64_t number)
{
    sample s;
    char text[128] = "";
    int64_t id = 0, target = 0;
    float box[4];
    uint8_t bytes[8];
    size_t needed = 0;
    sample_make(&s, number);
    CHECK(bzna_dataset_target(d, index, &target, NULL) == BZNA_OK && target == s.desc.target);
    CHECK(bzna_dataset_field(d, index, "name", text, sizeof text, NULL, NULL) == BZNA_OK && !strcmp(text, s.name));
    CHECK(bzna_dataset_field(d, index, "id", &id, sizeof id, &needed, NULL) == BZNA_OK && id == s.id && needed == 8);
    CHECK(bzna_dataset_field(d, index, "box", box, sizeof box, &needed, NULL) == BZNA_OK && needed == sizeof box &&
          !memcmp(box, s.box, sizeof box));
    CHECK(bzna_dataset_field(d, index, "caption", text, sizeof text, &needed, NULL) == BZNA_OK &&
          needed == strlen(s.caption) + 1 && !strcmp(text, s.caption));
    CHECK(bzna_dataset_field(d, index, "raw", bytes, sizeof bytes, &needed, NULL) == BZNA_OK && needed == number % 8 &&
          !memcmp(bytes, s.bytes, needed));
}

TEST(fields_and_class_names_come_back_from_memory_source_and_split)
{
    static const struct { const char *name; uint32_t kind; } fields[] = {
        { "image", BZNA_FIELD_IMAGE }, { "thumb", BZNA_FIELD_IMAGE }, { "target", BZNA_FIELD_INTEGER },
        { "name", BZNA_FIELD_TEXT }, { "box", BZNA_FIELD_VECTOR }, { "caption", BZNA_FIELD_TEXT },
        { "id", BZNA_FIELD_INTEGER }, { "raw", BZNA_FIELD_BYTES } };
    memory_sink s;
    write_all(&s, 9);
    for (int how = 0; how < 3; how++) {
        counter c;
        memory_source m;
        bzna_context *context = context_of(&c);
        bzna_dataset *d = NULL;
        bzna_dataset_config config = { .struct_size = sizeof config, .split = how == 2 ? "validation" : NULL };
        bzna_dataset_info info;
        bzna_source source;
        bzna_error err = fresh_error();
        char name[64];
        size_t needed = 0;
        source = source_of(&m, s.data, s.size);
        REQUIRE((how == 0 ? bzna_dataset_open_source(context, &source, NULL, &d, &err)
                          : bzna_dataset_open_memory(context, s.data, s.size, &config, &d, &err)) == BZNA_OK);
        CHECK_EQ(bzna_dataset_get_info(d, &info, sizeof info, NULL), BZNA_OK);
        CHECK_EQ(info.field_count, COUNT(fields));
        for (uint32_t i = 0; i < info.field_count; i++) {
            bzna_field_info field;
            CHECK_EQ(bzna_dataset_field_info(d, i, &field, sizeof field, NULL), BZNA_OK);
            CHECK_STR(field.name, fields[i].name);
            CHECK_EQ(field.kind, fields[i].kind);
        }
        for (uint64_t i = 0; i < bzna_dataset_count(d); i++)
            check_sample(d, i, how == 2 ? 4 * i + 2 : i);
        CHECK_EQ(bzna_dataset_count(d), how == 2 ? 2 : 9);
        for (int64_t k = 0; k < 3; k++) {
            CHECK_EQ(bzna_dataset_class(d, k, name, sizeof name, &needed, &err), BZNA_OK);
            CHECK_STR(name, classes[k]);
            CHECK_EQ(needed, strlen(classes[k]) + 1);
        }
        CHECK_EQ(bzna_dataset_class(d, 2, name, 4, &needed, &err), BZNA_E_BUFFER);
        CHECK_EQ(bzna_dataset_class(d, 3, name, sizeof name, &needed, &err), BZNA_E_RANGE);
        CHECK_EQ(bzna_dataset_field(d, 0, "absent", name, sizeof name, &needed, &err), BZNA_E_NOT_FOUND);
        bzna_dataset_close(d);
        bzna_context_close(context);
        CHECK_ALL_FREED(c);
    }
    free(s.data);
}

TEST(a_sample_may_lack_a_field_and_data_sets_laid_end_to_end_have_all)
{
    memory_sink a, b;
    counter c;
    bzna_context *context = context_of(&c);
    bzna_dataset *parts[2] = { NULL, NULL }, *all = NULL;
    bzna_writer *writer = NULL;
    bzna_field_value other = { sizeof other, BZNA_FIELD_TEXT, "other", "x", 1 };
    bzna_error err = fresh_error();
    char text[64];
    sample one;
    write_all(&a, 2);
    REQUIRE(open_writer(context, &b, NULL, &writer, &err) == BZNA_OK);
    sample_make(&one, 5);
    one.desc.field_count = 1;                               /* id alone */
    CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &one.desc, 0, &err), BZNA_OK);
    one.desc.fields = &other;
    CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &one.desc, 0, &err), BZNA_OK);
    CHECK_EQ(bzna_writer_finish(writer, &err), BZNA_OK);
    bzna_writer_close(writer);
    REQUIRE(bzna_dataset_open_memory(context, b.data, b.size, NULL, &parts[0], &err) == BZNA_OK);
    REQUIRE(bzna_dataset_open_memory(context, a.data, a.size, NULL, &parts[1], &err) == BZNA_OK);
    CHECK_EQ(bzna_dataset_field(parts[0], 1, "id", text, sizeof text, NULL, &err), BZNA_E_NOT_FOUND);
    CHECK_EQ(bzna_dataset_field(parts[0], 0, "other", text, sizeof text, NULL, &err), BZNA_E_NOT_FOUND);
    CHECK_EQ(bzna_dataset_class(parts[0], 0, text, sizeof text, NULL, &err), BZNA_E_NOT_FOUND);
    REQUIRE(bzna_dataset_concat(context, parts, 2, &all, &err) == BZNA_OK);
    CHECK(bzna_dataset_field(all, 1, "other", text, sizeof text, NULL, &err) == BZNA_OK && !strcmp(text, "x"));
    check_sample(all, 3, 1);
    CHECK(bzna_dataset_class(all, 2, text, sizeof text, NULL, &err) == BZNA_OK && !strcmp(text, classes[2]));
    bzna_dataset_close(all);
    bzna_dataset_close(parts[0]);
    bzna_dataset_close(parts[1]);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
    free(a.data);
    free(b.data);
}

/* What `bzna index` builds on: a sample that lost its archive still says all but its split and the names of classes. */
TEST(a_sample_by_itself_has_its_fields)
{
    memory_sink s;
    bzna_context *context = NULL;
    bzna_dataset *d = NULL, *alone = NULL;
    bzna_sample_ref place;
    write_all(&s, 4);
    REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
    REQUIRE(bzna_dataset_open_memory(context, s.data, s.size, NULL, &d, NULL) == BZNA_OK);
    CHECK_EQ(bzna_dataset_sample(d, 3, &place, sizeof place, NULL), BZNA_OK);
    REQUIRE(bzna_dataset_open_memory(context, s.data + place.offset, (size_t)place.size, NULL, &alone, NULL) ==
            BZNA_OK);
    CHECK_EQ(bzna_dataset_count(alone), 1);
    check_sample(alone, 0, 3);
    bzna_dataset_close(alone);
    bzna_dataset_close(d);
    bzna_context_close(context);
    free(s.data);
}

TEST(batches_carry_an_archives_fields)
{
#ifdef BENZINA_NO_AVCODEC
    SKIP("built without libavcodec [libavcodec-dev]");
#else
    memory_sink s;
    bzna_context_config cpu = { .struct_size = sizeof cpu, .device = { BZNA_DEVICE_CPU, 0 } };
    bzna_context *context = NULL;
    bzna_dataset *d = NULL;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_loader_config config;
    bzna_tensor box = { .struct_size = sizeof box }, id = { .struct_size = sizeof id };
    const void *caption = NULL;
    uint64_t size = 0;
    bzna_error err = fresh_error();
    write_all(&s, 4);
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = 4;
    config.fields.tensors = "box,id";
    config.fields.bytes = "caption";
    REQUIRE(bzna_context_open(&cpu, &context, NULL) == BZNA_OK);
    REQUIRE(bzna_dataset_open_memory(context, s.data, s.size, NULL, &d, NULL) == BZNA_OK);
    CHECK_EQ(bzna_loader_open(context, d, &config, &loader, &err), BZNA_OK);
    REQUIRE(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err) == BZNA_OK);
    CHECK_EQ(bzna_batch_tensor(batch, "box", &box, sizeof box, &err), BZNA_OK);
    CHECK_EQ(bzna_batch_tensor(batch, "id", &id, sizeof id, &err), BZNA_OK);
    CHECK(box.dimensions == 2 && box.shape[1] == 4 && id.dimensions == 1);
    for (uint32_t i = 0; i < 4; i++) {
        sample one;
        sample_make(&one, i);
        CHECK(!memcmp((const float *)box.data + 4 * i, one.box, sizeof one.box));
        CHECK_EQ(((const int64_t *)id.data)[i], one.id);
        CHECK_EQ(bzna_batch_bytes(batch, "caption", i, &caption, &size, &err), BZNA_OK);
        CHECK(size == strlen(one.caption) && !memcmp(caption, one.caption, (size_t)size));
    }
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(d);
    bzna_context_close(context);
    free(s.data);
#endif
}

/* ---- What is refused ---- */

TEST(fields_and_classes_without_a_meaning_are_refused_and_leave_the_archive_as_it_was)
{
    static const char *const wrong[] = { "", "target", "name", "image", "thumb", "12345678901234567890123456789012" };
    bzna_context *context = NULL;
    bzna_writer *writer = NULL;
    bzna_writer_config config = { .struct_size = sizeof config, .class_count = 1 };
    bzna_error err = fresh_error();
    memory_sink s, clean;
    sample one;
    REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
    CHECK_EQ(open_writer(context, &s, &config, &writer, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "writer_config.classes");
    config.classes = (const char *const[]){ NULL };
    CHECK_EQ(open_writer(context, &s, &config, &writer, &err), BZNA_E_ARGUMENT);
    CHECK_EQ(s.closes, 0);
    config = (bzna_writer_config){ .struct_size = sizeof config, .class_count = 3, .classes = classes };
    REQUIRE(open_writer(context, &s, &config, &writer, &err) == BZNA_OK);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        sample_make(&one, 0);
        one.fields[2].name = wrong[i];
        CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &one.desc, 0, &err), BZNA_E_ARGUMENT);
        CHECK_CONTAINS(err.message, "sample.fields[2]");
    }
    for (int i = 0; i < 10; i++) {
        sample_make(&one, 0);
        if (i == 0) one.fields[1].name = "id";              /* twice */
        if (i == 1) one.fields[0].kind = BZNA_FIELD_IMAGE;  /* no file of a picture */
        if (i == 9) one.fields[0].kind = 0;
        if (i == 2) one.fields[0].kind = 6;
        if (i == 3) one.fields[0].size = 4;
        if (i == 4) one.fields[1].size = 3;
        if (i == 5) one.fields[2].data = NULL;
        if (i == 6) one.fields[2].size++;                   /* its NUL */
        if (i == 7) one.desc.fields = NULL;
        if (i == 8) one.desc.field_count = 61;
        CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &one.desc, 0, &err), BZNA_E_ARGUMENT);
    }
    sample_make(&one, 0);
    one.fields[3].struct_size = 24;
    CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &one.desc, 0, &err), BZNA_E_STRUCT_SIZE);
    sample_make(&one, 0);
    one.desc.reserved[1] = 1;
    CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &one.desc, 0, &err), BZNA_E_STRUCT_SIZE);
    for (uint64_t i = 0; i < 3; i++) {
        sample_make(&one, i);
        CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &one.desc, 0, &err), BZNA_OK);
        one.fields[0].kind = BZNA_FIELD_VECTOR;             /* an integer before */
        CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &one.desc, 0, &err), BZNA_E_ARGUMENT);
        CHECK_CONTAINS(err.message, "kind");
    }
    CHECK_EQ(bzna_writer_finish(writer, &err), BZNA_OK);
    bzna_writer_close(writer);
    bzna_context_close(context);
    write_all(&clean, 3);
    CHECK(same(&s, &clean));
    free(s.data);
    free(clean.data);
}

/* Each byte of the boxes that name fields and classes, set to 0, 1, 127, 255. */
TEST(damaged_names_and_values_are_errors_and_nothing_else)
{
    memory_sink s;
    bzna_context *context = NULL;
    int refused = 0, failed = 0;
    write_all(&s, 3);
    REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
    for (size_t at = 8; at + sizeof bzi_box_uuid <= s.size; at++) {
        size_t end;
        if (memcmp(s.data + at, bzi_box_uuid, sizeof bzi_box_uuid))
            continue;
        end = at - 8 + bzi_be32(s.data + at - 8);
        for (size_t i = at - 8; i < end && i < s.size; i++) {
            const uint8_t old = s.data[i];
            for (int k = 0; k < 4; k++) {
                bzna_dataset *d = NULL;
                char text[256];
                s.data[i] = (uint8_t[]){ 0, 1, 127, 255 }[k];
                if (bzna_dataset_open_memory(context, s.data, s.size, NULL, &d, NULL) != BZNA_OK)
                    refused++;
                for (uint64_t n = 0; d && n < 3; n++) {
                    failed += bzna_dataset_class(d, (int64_t)n, text, sizeof text, NULL, NULL) != BZNA_OK;
                    for (int f = 0; f < 4; f++)
                        failed += bzna_dataset_field(d, n, (const char *[]){ "id", "box", "caption", "raw" }[f], text,
                                                     sizeof text, NULL, NULL) != BZNA_OK;
                }
                bzna_dataset_close(d);
            }
            s.data[i] = old;
        }
    }
    CHECK(refused > 50 && failed > 500);
    bzna_context_close(context);
    free(s.data);
}

/* ---- Indices ---- */

TEST(samples_by_index_in_any_order_give_the_same_bytes)
{
    enum { N = 40 };
    memory_sink clean, s;
    write_all(&clean, N);
    for (int order = 0; order < 3; order++) {
        counter c;
        bzna_context *context = context_of(&c);
        bzna_writer *writer = NULL;
        bzna_writer_config config = { .struct_size = sizeof config, .class_count = 3, .classes = classes };
        bzna_error err = fresh_error();
        REQUIRE(open_writer(context, &s, &config, &writer, &err) == BZNA_OK);
        for (uint64_t k = 0; k < N; k++) {
            const uint64_t i = order == 0 ? k : order == 1 ? N - 1 - k : k * 7 % N;
            sample one;
            sample_make(&one, i);
            CHECK_EQ(bzna_writer_add(writer, i, &one.desc, 0, &err), BZNA_OK);
            CHECK_EQ(bzna_writer_add(writer, i, &one.desc, 0, &err), BZNA_E_ARGUMENT);       /* twice */
            CHECK_CONTAINS(err.message, "was given before");
        }
        CHECK_EQ(bzna_writer_finish(writer, &err), BZNA_OK);
        CHECK(same(&s, &clean));
        CHECK_EQ(s.wrong, 0);
        bzna_writer_close(writer);
        bzna_context_close(context);
        CHECK_ALL_FREED(c);
        free(s.data);
    }
    free(clean.data);
}

TEST(indices_that_are_left_out_close_up_and_those_never_given_are_named)
{
    memory_sink clean, s;
    bzna_context *context = NULL;
    bzna_writer *writer = NULL;
    bzna_writer_config config = { .struct_size = sizeof config, .class_count = 3, .classes = classes };
    bzna_error err = fresh_error();
    sample one;
    write_all(&clean, 4);
    REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
    REQUIRE(open_writer(context, &s, &config, &writer, &err) == BZNA_OK);
    CHECK_EQ(bzna_writer_finish(writer, &err), BZNA_E_NO_SAMPLES);
    for (uint64_t i = 0; i < 4; i++) {                      /* at 2, 10, 20, 30 */
        sample_make(&one, i);
        CHECK_EQ(bzna_writer_add(writer, i ? 10 * i : 2, &one.desc, 0, &err), BZNA_OK);
    }
    CHECK_EQ(bzna_writer_finish(writer, &err), BZNA_E_NOT_FOUND);
    CHECK_CONTAINS(err.message, "never given: 0 to 1, 3 to 9, 11 to 19, 21 to 29");
    for (uint64_t i = 0; i < 30; i++)
        if (i != 2 && i % 10)
            CHECK_EQ(bzna_writer_add(writer, i, NULL, 0, &err), BZNA_OK);
    CHECK_EQ(bzna_writer_finish(writer, &err), BZNA_E_NOT_FOUND);
    CHECK_CONTAINS(err.message, "never given: 0");
    CHECK_EQ(s.size, 40);
    CHECK_EQ(bzna_writer_add(writer, 0, NULL, 0, &err), BZNA_OK);
    CHECK(s.size > 40);
    CHECK_EQ(bzna_writer_add(writer, 31, NULL, 0, &err), BZNA_OK);
    CHECK_EQ(bzna_writer_add(writer, 5, NULL, 0, &err), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_writer_add(writer, 0xffffffffu, &one.desc, 0, &err), BZNA_E_RANGE);
    CHECK_EQ(bzna_writer_add(writer, UINT64_MAX - 1, &one.desc, 0, &err), BZNA_E_RANGE);
    CHECK_EQ(bzna_writer_add(writer, 40, &one.desc, -2, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "timeout_ns: -2 is negative");
    CHECK_EQ(bzna_writer_add(writer, 5, NULL, BZNA_WAIT_FOREVER, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "5");                       /* not the timeout: the index was given */
    CHECK_EQ(bzna_writer_add(NULL, 40, &one.desc, 0, &err), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_writer_finish(writer, &err), BZNA_OK);
    CHECK(same(&s, &clean));
    CHECK_EQ(bzna_writer_add(writer, 40, &one.desc, 0, &err), BZNA_E_STATE);
    bzna_writer_close(writer);
    bzna_context_close(context);
    free(s.data);
    free(clean.data);
}

TEST(a_sample_too_far_ahead_is_not_taken_and_can_be_given_again)
{
    memory_sink clean, s;
    bzna_context *context = NULL;
    bzna_writer *writer = NULL;
    bzna_writer_config config = { .struct_size = sizeof config, .class_count = 3, .classes = classes,
                                  .queue_bytes = 40000 };
    bzna_error err = fresh_error();
    uint64_t taken = 0, start;
    sample one;
    write_all(&clean, 20);
    REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
    REQUIRE(open_writer(context, &s, &config, &writer, &err) == BZNA_OK);
    for (uint64_t i = 1; i < 20; i++) {
        sample_make(&one, i);
        if (bzna_writer_add(writer, i, &one.desc, 0, &err) != BZNA_OK)
            break;
        taken = i;
    }
    CHECK(taken >= 2 && taken < 12);
    start = bzi_os_now_ns();
    CHECK_EQ(bzna_writer_add(writer, taken + 1, &one.desc, 20000000, &err), BZNA_AGAIN);
    CHECK(bzi_os_now_ns() - start >= 20000000);
    CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &one.desc, 0, &err), BZNA_AGAIN);     /* index 0 is missing */
    sample_make(&one, 0);
    CHECK_EQ(bzna_writer_add(writer, 0, &one.desc, 0, &err), BZNA_OK);       /* whose turn it is needs no room */
    for (uint64_t i = taken + 1; i < 20; i++) {
        sample_make(&one, i);
        CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &one.desc, 0, &err), BZNA_OK);
    }
    CHECK_EQ(bzna_writer_finish(writer, &err), BZNA_OK);
    CHECK(same(&s, &clean));
    bzna_writer_close(writer);
    bzna_context_close(context);
    free(s.data);
    free(clean.data);
}

/* ---- Threads ---- */

typedef struct crew {
    bzna_writer *writer;
    atomic_ullong next;
    uint64_t count;
    atomic_int failed, again;
} crew;

static void *work(void *user)
{
    crew *w = user;
    uint64_t i;
    while ((i = atomic_fetch_add(&w->next, 1)) < w->count) {
        sample one;
        bzna_status status;
        sample_make(&one, i);
        for (uint64_t k = 0; k < i * 2654435761u % 7; k++)
            sched_yield();
        while ((status = bzna_writer_add(w->writer, i, &one.desc, 1000000, NULL)) == BZNA_AGAIN)
            atomic_fetch_add(&w->again, 1);
        atomic_fetch_add(&w->failed, status != BZNA_OK);
    }
    return NULL;
}

TEST(several_threads_give_the_bytes_of_one)
{
    enum { N = 3000, THREADS = 4 };
    memory_sink clean, s;
    write_all(&clean, N);
    for (int round = 0; round < 3; round++) {
        bzna_context *context = NULL;
        crew w = { .count = N };
        pthread_t threads[THREADS];
        bzna_writer_config config = { .struct_size = sizeof config, .class_count = 3, .classes = classes,
                                      .queue_bytes = round ? 20000 : 0 };
        bzna_error err = fresh_error();
        REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
        REQUIRE(open_writer(context, &s, &config, &w.writer, &err) == BZNA_OK);
        for (int i = 0; i < THREADS; i++)
            REQUIRE(!pthread_create(&threads[i], NULL, work, &w));
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        CHECK_EQ(bzna_writer_finish(w.writer, &err), BZNA_OK);
        CHECK_EQ(w.failed, 0);
        CHECK_EQ(s.concurrent, 0);
        CHECK(same(&s, &clean));
        bzna_writer_close(w.writer);
        bzna_context_close(context);
        free(s.data);
    }
    free(clean.data);
}

static void *add_blindly(void *user)
{
    crew *w = user;
    sample one;
    sample_make(&one, 1);
    while (atomic_fetch_add(&w->next, 1) < w->count)
        atomic_fetch_add(&w->failed, bzna_writer_add(w->writer, BZNA_INDEX_NEXT, &one.desc, 0, NULL) != BZNA_OK);
    return NULL;
}

/* Without indices: all are there, in the order of the calls; a tiny queue never refuses one. */
TEST(several_threads_may_add_without_indices)
{
    memory_sink s;
    bzna_context *context = NULL;
    crew w = { .count = 500 };
    pthread_t threads[3];
    bzna_writer_config config = { .struct_size = sizeof config, .queue_bytes = 1 };
    REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
    REQUIRE(open_writer(context, &s, &config, &w.writer, NULL) == BZNA_OK);
    for (int i = 0; i < 3; i++)
        REQUIRE(!pthread_create(&threads[i], NULL, add_blindly, &w));
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(w.failed, 0);
    CHECK_EQ(bzna_writer_finish(w.writer, NULL), BZNA_OK);
    CHECK_EQ(w.writer->index.counts[0], 500);
    CHECK(s.concurrent == 0 && s.wrong == 0);
    bzna_writer_close(w.writer);
    bzna_context_close(context);
    free(s.data);
}

/* ---- Faults ---- */

/* The n-th allocation and all after it fail until a call has said so: either the writer has ended, or going on gives
 * the same bytes. Samples come in their order, or in reverse, so that all wait. */
TEST(a_failed_allocation_never_gives_a_wrong_archive)
{
    enum { N = 5 };
    memory_sink clean, s;
    int done = 0, failures = 0, ended = 0;
    write_all(&clean, N);
    for (long long n = 1; !done && n < 100; n++) {
        counter c;
        bzna_context *context = context_of(&c);
        bzna_writer *writer = NULL;
        bzna_writer_config config = { .struct_size = sizeof config, .class_count = 3, .classes = classes };
        bzna_error err = fresh_error();
        int failed = 0, poisoned = 0;
        c.fail_at = c.calls + n;
        if (open_writer(context, &s, &config, &writer, &err) != BZNA_OK) {
            failed = 1;
            CHECK_EQ(err.status, BZNA_E_MEMORY);
            c.fail_at = 0;
            free(s.data);
            CHECK_EQ(open_writer(context, &s, &config, &writer, &err), BZNA_OK);
        }
        for (uint64_t k = 0; k <= N && !poisoned; k++) {    /* the last call is finish */
            const uint64_t i = n % 2 ? N - 1 - k : k;
            for (int again = 0; again < 2; again++) {
                sample one;
                bzna_status status;
                sample_make(&one, i);
                status = k == N ? bzna_writer_finish(writer, &err) : bzna_writer_add(writer, i, &one.desc, 0, &err);
                if (status == BZNA_OK)
                    break;
                CHECK_EQ(status, BZNA_E_MEMORY);
                failed = 1;
                c.fail_at = 0;
                poisoned = again;
            }
        }
        CHECK(poisoned ? s.size < 40 || bzi_be64(s.data + 32) == 0 : same(&s, &clean));
        done = !failed;
        failures += failed;
        ended += poisoned;
        bzna_writer_close(writer);
        bzna_context_close(context);
        CHECK_ALL_FREED(c);
        free(s.data);
    }
    CHECK(done && failures >= 8 && ended < failures / 2);
    free(clean.data);
}

/* Each write fails in turn, while samples wait: all later calls say so, and nothing is written behind it. */
TEST(a_failed_write_ends_the_writer_while_samples_wait)
{
    int done = 0;
    for (int n = 1; !done && n < 40; n++) {
        counter c;
        memory_sink s;
        bzna_context *context = context_of(&c);
        bzna_sink sink = sink_of(&s);
        bzna_writer *writer = NULL;
        bzna_error err = fresh_error();
        bzna_status status;
        s.fail_at = n;
        status = bzna_writer_open_sink(context, &sink, NULL, &writer, &err);
        for (uint64_t k = 0; k < 6 && status == BZNA_OK; k++) {
            sample one;
            sample_make(&one, k == 3 ? 0 : k < 3 ? 3 - k : k);
            status = bzna_writer_add(writer, k == 3 ? 0 : k < 3 ? 3 - k : k, &one.desc, 0, &err);
        }
        if (status == BZNA_OK)
            status = bzna_writer_finish(writer, &err);
        done = status == BZNA_OK;
        if (!done) {
            CHECK_EQ(status, BZNA_E_IO);
            CHECK_EQ(err.status, BZNA_E_IO);
            CHECK_EQ(s.writes, n);
            if (writer)
                CHECK_EQ(bzna_writer_finish(writer, NULL), BZNA_E_IO);
            CHECK_EQ(s.writes, n);
        }
        bzna_writer_close(writer);
        CHECK_EQ(s.closes, writer ? 1 : 0);
        bzna_context_close(context);
        CHECK_ALL_FREED(c);
        free(s.data);
    }
    CHECK(done);
}

/* ---- Many ---- */

/* Some samples have no name. The samples lie end to end. */
TEST(names_of_many_samples_come_after_all_samples)
{
    enum { N = 6000 };
    memory_sink s;
    counter c;
    bzna_context *context = context_of(&c);
    bzna_dataset *d = NULL;
    bzna_writer *writer = NULL;
    bzna_error err = fresh_error();
    long long before;
    size_t samples = 40;
    REQUIRE(open_writer(context, &s, NULL, &writer, &err) == BZNA_OK);
    before = c.bytes;
    for (uint64_t i = 0; i < N; i++) {
        sample one;
        sample_make(&one, i);
        one.desc.field_count = 0;
        one.desc.name = i % 5 ? one.name : NULL;
        CHECK_EQ(bzna_writer_add(writer, BZNA_INDEX_NEXT, &one.desc, 0, &err), BZNA_OK);
    }
    CHECK(c.bytes - before < 800 << 10);          /* 40 bytes a sample and names, twice as much while they grow */
    CHECK_EQ(bzna_writer_finish(writer, &err), BZNA_OK);
    CHECK(c.bytes - before < 1200 << 10);                   /* and the index, whose tables are in memory at last */
    bzna_writer_close(writer);
    REQUIRE(bzna_dataset_open_memory(context, s.data, s.size, NULL, &d, &err) == BZNA_OK);
    CHECK_EQ(bzna_dataset_count(d), N);
    for (uint64_t i = 0; i < N; i++) {
        char text[64] = "?";
        bzna_sample_ref place;
        sample one;
        sample_make(&one, i);
        CHECK_EQ(bzna_dataset_field(d, i, "name", text, sizeof text, NULL, &err), BZNA_OK);
        CHECK_STR(text, i % 5 ? one.name : "");
        CHECK_EQ(bzna_dataset_sample(d, i, &place, sizeof place, NULL), BZNA_OK);
        CHECK_EQ(place.offset, samples);
        samples += (size_t)place.size;
    }
    bzna_dataset_close(d);
    bzna_context_close(context);
    CHECK_ALL_FREED(c);
    free(s.data);
}

/* The rules of the original tools' parser and reader: boxes follow one another by their sizes, to the last byte; of
 * those that hold boxes, it knows these; a box 'uuid' has 16 bytes more of header, and is skipped like any that it does
 * not know. The reader looks for tracks until it has read one at the end of moov, so that the last box must be one. */
static int original_parses(const uint8_t *d, size_t size, int is_moov)
{
    static const char *const holders[] = { "moov", "trak", "mdia", "minf", "dinf", "stbl" };
    int boxes = 0;
    const uint8_t *last = d;
    for (size_t at = 0; at < size; boxes++) {
        uint64_t bytes, header = 8;
        if (size - at < 8)
            return -1;
        bytes = bzi_be32(d + at);
        if (bytes == 1 && size - at >= 16) {
            bytes = bzi_be64(d + at + 8);
            header = 16;
        }
        if (!memcmp(d + at + 4, "uuid", 4))
            header += 16;
        if (bytes < header || bytes > size - at)
            return -1;
        for (size_t i = 0; i < COUNT(holders); i++)
            if (!memcmp(d + at + 4, holders[i], 4)) {
                int inside = original_parses(d + at + header, (size_t)(bytes - header), i == 0);
                if (inside < 0)
                    return -1;
                boxes += inside;
            }
        last = d + at;
        at += (size_t)bytes;
    }
    return is_moov && memcmp(last + 4, "trak", 4) ? -1 : boxes;
}

TEST(the_original_parser_can_read_archives_with_fields_and_their_samples)
{
    memory_sink s;
    bzna_context *context = NULL;
    bzna_dataset *d = NULL;
    write_all(&s, 5);
    REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
    REQUIRE(bzna_dataset_open_memory(context, s.data, s.size, NULL, &d, NULL) == BZNA_OK);
    CHECK(original_parses(s.data, s.size, 0) > 50);
    for (uint64_t i = 0; i < 5; i++) {
        bzna_sample_ref place;
        CHECK_EQ(bzna_dataset_sample(d, i, &place, sizeof place, NULL), BZNA_OK);
        CHECK(original_parses(s.data + place.offset, (size_t)place.size, 0) > 20);
    }
    bzna_dataset_close(d);
    bzna_context_close(context);
    free(s.data);
}

TEST_MAIN(RUN(fields_and_class_names_come_back_from_memory_source_and_split)
          RUN(a_sample_may_lack_a_field_and_data_sets_laid_end_to_end_have_all)
          RUN(a_sample_by_itself_has_its_fields)
          RUN(batches_carry_an_archives_fields)
          RUN(fields_and_classes_without_a_meaning_are_refused_and_leave_the_archive_as_it_was)
          RUN(damaged_names_and_values_are_errors_and_nothing_else)
          RUN(samples_by_index_in_any_order_give_the_same_bytes)
          RUN(indices_that_are_left_out_close_up_and_those_never_given_are_named)
          RUN(a_sample_too_far_ahead_is_not_taken_and_can_be_given_again)
          RUN(several_threads_give_the_bytes_of_one)
          RUN(several_threads_may_add_without_indices)
          RUN(a_failed_allocation_never_gives_a_wrong_archive)
          RUN(a_failed_write_ends_the_writer_while_samples_wait)
          RUN(names_of_many_samples_come_after_all_samples)
          RUN(the_original_parser_can_read_archives_with_fields_and_their_samples))
