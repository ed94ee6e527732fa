/* Rules for fields (examples/formats/rules.c): which field they take, the tensors that they make of it, and the
 * geometry of what was drawn. The oracles: the bytes that the test wrote, the transforms that the transform callback
 * sees, and a bright box in the pictures, which must lie in the output where bzna_geometry_box says. */
#include "library.h"
#include "with_formats.h"
#include "test.h"

#if defined(BENZINA_NO_AVCODEC) || defined(BENZINA_NO_SHARDS)
TEST(a_field_goes_to_the_first_rule_that_it_matches) { SKIP("built without libavcodec or tar [libavcodec-dev]"); }
TEST_MAIN(RUN(a_field_goes_to_the_first_rule_that_it_matches))
#else

#include "archives.h"
#include "tars.h"

enum { SAMPLES = 9, WIDTH = 120, HEIGHT = 80, BATCH = 4, ROWS = 3 };

static bzna_context *context;
static tar first, second;             /* files of 0 to 5 and 6 to 8; the second one has other fields */

/* ---- Samples ---- */

/* The bright box of picture i: left, top, right, bottom edge. */
static void box_of(uint64_t i, double box[4])
{
    box[0] = (double)(20 + 5 * i);
    box[1] = (double)(15 + 3 * i);
    box[2] = box[0] + 30;
    box[3] = box[1] + 20;
}

static void add_picture(tar *t, const char *name, uint64_t i)
{
    static uint8_t bytes[64 + WIDTH * HEIGHT];
    size_t size = (size_t)sprintf((char *)bytes, "P5\n%d %d\n255\n", WIDTH, HEIGHT);
    double box[4];
    box_of(i, box);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            bytes[size++] = x >= box[0] && x < box[2] && y >= box[1] && y < box[3] ? 250 : 60;
    tar_file(t, name, bytes, size);
}

/* i % 4 rows: the box, and its number in the sample. */
static void text_of(uint64_t i, char *text)
{
    double box[4];
    box_of(i, box);
    *text = 0;
    for (uint64_t k = 0; k < i % 4; k++)
        text += sprintf(text, "%g %g %g %g %d\n", box[0], box[1], box[2], box[3], (int)k);
}

static void samples_make(void)
{
    char name[64], text[512];
    for (uint64_t i = 0; i < SAMPLES; i++) {
        tar *t = i < 6 ? &first : &second;
        snprintf(name, sizeof name, "%d.pgm", (int)i);
        add_picture(t, name, i);
        text_of(i, text);
        snprintf(name, sizeof name, "%d.%s", (int)i, i < 6 ? "boxes.json" : "boxes.xml");
        if (i != 2)
            tar_text(t, name, text);
        snprintf(name, sizeof name, "%d.other.json", (int)i);
        snprintf(text, sizeof text, "other %d", (int)i);
        tar_text(t, name, text);
        snprintf(name, sizeof name, "%d.caption.txt", (int)i);
        snprintf(text, sizeof text, "caption %d", (int)i);
        if (i % 2)
            tar_text(t, name, text);
        snprintf(name, sizeof name, "%d.cls", (int)i);
        snprintf(text, sizeof text, "%d", 100 + (int)i);
        tar_text(t, name, text);
    }
    tar_end(&first);
    tar_end(&second);
}

static bzna_dataset *open_both(void)
{
    bzna_dataset *parts[2] = { NULL, NULL }, *all = NULL;
    require(bzna_dataset_open_memory(context, first.bytes, first.size, NULL, &parts[0], NULL), "tar");
    require(bzna_dataset_open_memory(context, second.bytes, second.size, NULL, &parts[1], NULL), "tar");
    require(bzna_dataset_concat(context, parts, 2, &all, NULL), "concat");
    bzna_dataset_close(parts[0]);
    bzna_dataset_close(parts[1]);
    return all;
}

/* ---- Rules ---- */

/* Boxes of the picture and, mapped, of each view: 4 numbers of the file, its number, then 4 of the output. */
enum { ROW = 9 };

static bzna_status read_boxes(void *user, const bzna_rule_input *input, void *out, uint64_t out_bytes, uint64_t *count)
{
    const char *at = input->data;
    float *row = out;
    const uint64_t index = input->sample->index;
    int *fails = user;
    int used;
    double box[4], mapped[4];
    int number;
    if (input->struct_size != sizeof *input || out_bytes != ROWS * ROW * sizeof *row || *count != 0 ||
        strlen(at) != input->size || input->kind != BZNA_FIELD_BYTES || row[ROWS * ROW - 1] != 0)
        return -99;
    if (fails && index == 5)
        return *fails;
    for (; sscanf(at, "%lf %lf %lf %lf %d\n%n", &box[0], &box[1], &box[2], &box[3], &number, &used) == 5; at += used) {
        for (int k = 0; k < 4; k++)
            row[k] = (float)box[k];
        row[4] = (float)number;
        if (input->view_count && bzna_geometry_box(input->geometry, box, mapped))
            for (int k = 0; k < 4; k++)
                row[5 + k] = (float)mapped[k];
        row += ROW;
        ++*count;
    }
    return BZNA_OK;
}

static bzna_status note_name(void *user, const bzna_rule_input *input, void *out, uint64_t out_bytes, uint64_t *count)
{
    int32_t numbers[2];
    (void)user, (void)count;
    numbers[0] = (int32_t)input->size;
    numbers[1] = (int32_t)input->sample->slot;
    if (out_bytes != sizeof numbers || strncmp(input->data, "other", 5) || strcmp(input->field, "other.json"))
        return -98;
    memcpy(out, numbers, sizeof numbers);
    return BZNA_OK;
}

static int failing;

static void rules_make(bzna_rule rules[5])
{
    for (int i = 0; i < 5; i++)
        bzna_formats_rule_init(&rules[i], sizeof *rules);
    rules[0].field = "boxes.json";
    rules[1].field = "*.xm?";
    for (int i = 0; i < 2; i++) {
        rules[i].kind = BZNA_RULE_ROWS;
        rules[i].name = "boxes";
        rules[i].call = read_boxes;
        rules[i].user = failing ? &failing : NULL;
        rules[i].dimensions = 2;
        rules[i].shape[0] = ROWS;
        rules[i].shape[1] = ROW;
    }
    rules[2].field = ".json";         /* and not boxes.json, which is the first one's */
    rules[2].kind = BZNA_RULE_TENSOR;
    rules[2].name = "other";
    rules[2].call = note_name;
    rules[2].dtype = BZNA_DTYPE_INT32;
    rules[2].dimensions = 1;
    rules[2].shape[0] = 2;
    rules[3].field = "capt*";
    rules[3].name = "text";
    rules[4].field = "cls";
}

static bzna_loader_config config_of(void)
{
    bzna_loader_config c;
    bzna_loader_config_init(&c, sizeof c);
    c.output.batch_size = BATCH;
    c.output.width = 60;
    c.output.height = 50;
    c.output.channels = BZNA_CHANNELS_GRAY;
    c.output.dtype = BZNA_DTYPE_UINT8;
    c.output.device.kind = BZNA_DEVICE_CPU;
    c.order.kind = BZNA_ORDER_SHUFFLE;
    c.order.seed = 11;
    c.warp = (bzna_warp){ .kind = BZNA_WARP_RANDOM_RESIZED_CROP, .scale = { 0.3, 1 }, .flip_h = 0.5, .flip_v = 0.5 };
    c.filter.kind = BZNA_FILTER_NEAREST;
    c.decode.threads = 3;
    return c;
}

static bzna_rules *opened[256];       /* of all loaders, until the end */
static size_t opened_count;

/* Opens a loader with rules. c is not changed. */
static bzna_status open_with(bzna_dataset *dataset, const bzna_loader_config *c, const bzna_rule *rules, uint32_t count,
                             bzna_loader **loader, bzna_error *e)
{
    bzna_loader_config with = *c;
    bzna_status status = bzna_formats_rules_open(dataset, rules, count, &with, &opened[opened_count], e);
    *loader = NULL;
    if (status == BZNA_OK && ++opened_count < COUNT(opened))
        status = bzna_loader_open(context, dataset, &with, loader, e);
    return status;
}

static bzna_loader *loader_of(bzna_dataset *dataset, const bzna_loader_config *c, const bzna_rule *rules,
                              uint32_t count)
{
    bzna_loader *loader = NULL;
    bzna_error e = { .struct_size = sizeof e };
    if (open_with(dataset, c, rules, count, &loader, &e) != BZNA_OK) {
        printf("  %s\n", e.message);
        exit(1);
    }
    return loader;
}

static const void *tensor_of(const bzna_batch *batch, const char *name, uint32_t dtype, int64_t a, int64_t b)
{
    bzna_tensor t = { .struct_size = 0 };
    CHECK_EQ(bzna_batch_tensor(batch, name, &t, sizeof t, NULL), BZNA_OK);
    CHECK_EQ(t.dtype, dtype);
    CHECK(t.shape[0] == BATCH || t.shape[0] == SAMPLES % BATCH);
    CHECK_EQ(t.shape[1], a);
    CHECK_EQ(t.shape[2], b);
    CHECK_EQ(t.dimensions, 1 + (a != 0) + (b != 0));
    CHECK_EQ(t.device.kind, BZNA_DEVICE_CPU);
    return t.data;
}

static int text_is(const bzna_batch *batch, const char *name, uint32_t slot, const char *text)
{
    const void *data = NULL;
    uint64_t size = 0;
    if (bzna_batch_bytes(batch, name, slot, &data, &size, NULL) != BZNA_OK)
        return 0;
    return text ? data && size == strlen(text) && !strcmp(data, text) : !data;
}

/* All that rules made of one slot's sample; failed: the rule for its boxes did not. */
static void check_slot(const bzna_batch *batch, uint32_t slot, uint64_t i, int failed)
{
    const float *row = (const float *)tensor_of(batch, "boxes", BZNA_DTYPE_FLOAT32, ROWS, ROW) + slot * ROWS * ROW;
    const int64_t *counts = tensor_of(batch, "boxes_count", BZNA_DTYPE_INT64, 0, 0);
    const int32_t *other = (const int32_t *)tensor_of(batch, "other", BZNA_DTYPE_INT32, 2, 0) + slot * 2;
    const int64_t count = i == 2 || failed ? 0 : (int64_t)(i % 4);
    double box[4];
    char text[32];
    int64_t cls;
    const void *data = NULL;
    uint64_t size = 0;
    box_of(i, box);
    CHECK_EQ(counts[slot], count);
    for (int k = 0; k < ROWS; k++, row += ROW)
        for (int n = 0; n < 5; n++)
            CHECK_EQ(row[n], k < count ? n < 4 ? (float)box[n] : (float)k : 0);
    if (!failed) {
        CHECK_EQ(other[0], 7);
        CHECK_EQ(other[1], (int32_t)slot);
    }
    snprintf(text, sizeof text, "caption %d", (int)i);
    CHECK(text_is(batch, "text", slot, i % 2 ? text : NULL));
    CHECK(bzna_batch_bytes(batch, "cls", slot, &data, &size, NULL) == BZNA_OK && size == 8);
    memcpy(&cls, data, sizeof cls);
    CHECK_EQ(cls, 100 + (int64_t)i);
}

/* ---- Tests ---- */

TEST(a_field_goes_to_the_first_rule_that_it_matches)
{
    for (uint32_t threads = 1; threads < 5; threads += 3)
        for (int has_pictures = 0; has_pictures < 2; has_pictures++) {
            bzna_rule rules[5];
            bzna_dataset *dataset = open_both();
            bzna_loader_config c = config_of();
            bzna_loader *loader;
            bzna_batch *batch;
            uint32_t met = 0;
            rules_make(rules);
            c.decode.threads = threads;
            c.order.epochs = 3;
            if (!has_pictures) {
                c.output.width = c.output.height = 0;
                memset(&c.warp, 0, sizeof c.warp);
            }
            loader = loader_of(dataset, &c, rules, 5);
            memset(rules, 0xee, sizeof rules);              /* they were copied */
            while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
                const bzna_batch_info info = info_of(batch);
                CHECK_EQ(info.failed, 0);
                for (uint32_t slot = 0; slot < info.count; slot++, met++)
                    check_slot(batch, slot, info.indices[slot], 0);
                bzna_batch_release(batch);
            }
            CHECK_EQ(met, 3 * SAMPLES);
            bzna_loader_close(loader);
            bzna_dataset_close(dataset);
        }
}

TEST(what_a_sample_lacks_is_nan_minus_1_or_nothing)
{
    static const uint32_t dtypes[] = { BZNA_DTYPE_FLOAT32, BZNA_DTYPE_INT32, BZNA_DTYPE_INT64, BZNA_DTYPE_UINT8 };
    for (size_t k = 0; k < COUNT(dtypes); k++) {
        bzna_rule rule;
        bzna_dataset *dataset = open_both();
        bzna_loader_config c = config_of();
        bzna_loader *loader;
        bzna_batch *batch = NULL;
        const uint8_t *data;
        const float nan = NAN;
        bzna_tensor t;
        bzna_formats_rule_init(&rule, sizeof rule);
        rule.field = "boxes.xml";     /* samples from 6 on have it */
        rule.kind = BZNA_RULE_TENSOR;
        rule.call = read_boxes;
        rule.dtype = dtypes[k];
        rule.dimensions = 4;
        rule.shape[0] = rule.shape[3] = 1;
        rule.shape[1] = 2;
        rule.shape[2] = 5;
        c.order.kind = BZNA_ORDER_SEQUENTIAL;
        loader = loader_of(dataset, &c, &rule, 1);
        REQUIRE(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK);
        CHECK_EQ(bzna_batch_tensor(batch, "boxes.xml", &t, sizeof t, NULL), BZNA_OK);
        CHECK(t.dimensions == 5 && t.shape[1] == 1 && t.shape[2] == 2 && t.shape[3] == 5 && t.shape[4] == 1);
        data = t.data;
        for (uint64_t i = 0; i < t.bytes; i++)
            CHECK_EQ(data[i], k == 0 ? ((const uint8_t *)&nan)[i % 4] : k == 3 ? 0 : 0xff);
        bzna_batch_release(batch);
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
    }
}

TEST(a_rule_that_fails_costs_its_sample_and_a_fault_of_the_program_the_run)
{
    static const struct { int returned; uint32_t policy, on_callback_error; bzna_status next, slot; } ways[] = {
        { -7, BZNA_ON_ERROR_FILL, BZNA_ON_CALLBACK_ERROR_STOP, BZNA_OK, BZNA_E_FORMAT },
        { -7, BZNA_ON_ERROR_STOP, BZNA_ON_CALLBACK_ERROR_STOP, BZNA_E_FORMAT, BZNA_E_FORMAT },
        { -7, BZNA_ON_ERROR_REPLACE, BZNA_ON_CALLBACK_ERROR_STOP, BZNA_OK, BZNA_OK },
        { BZNA_E_CALLBACK, BZNA_ON_ERROR_FILL, BZNA_ON_CALLBACK_ERROR_STOP, BZNA_E_CALLBACK, BZNA_E_CALLBACK },
        { BZNA_E_CALLBACK, BZNA_ON_ERROR_FILL, BZNA_ON_CALLBACK_ERROR_SAMPLE, BZNA_OK, BZNA_E_CALLBACK },
        { -(1 << 30) - 1, BZNA_ON_ERROR_FILL, BZNA_ON_CALLBACK_ERROR_STOP, BZNA_E_CALLBACK, BZNA_E_CALLBACK },
        { -(1 << 30), BZNA_ON_ERROR_FILL, BZNA_ON_CALLBACK_ERROR_STOP, BZNA_OK, BZNA_E_FORMAT },
    };
    for (size_t w = 0; w < COUNT(ways); w++) {
        bzna_rule rules[5];
        bzna_dataset *dataset = open_both();
        bzna_loader_config c = config_of();
        bzna_loader *loader;
        bzna_batch *batch = NULL;
        bzna_error e = { .struct_size = sizeof e };
        bzna_statistics stats = { .struct_size = 0 };
        failing = ways[w].returned;
        rules_make(rules);
        c.order.kind = BZNA_ORDER_SEQUENTIAL;
        c.output.batch_size = BATCH;
        c.errors.on_error = ways[w].policy;
        c.errors.on_callback_error = ways[w].on_callback_error;
        loader = loader_of(dataset, &c, rules, 5);
        REQUIRE(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK);
        bzna_batch_release(batch);
        CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &e), ways[w].next);
        if (batch) {
            const bzna_batch_info info = info_of(batch);
            CHECK_EQ(bzna_batch_error(batch, 1, &e), ways[w].slot);
            check_slot(batch, 0, 4, 0);
            check_slot(batch, 1, info.indices[1], ways[w].slot != BZNA_OK);
            CHECK_EQ(info.replaced, ways[w].policy == BZNA_ON_ERROR_REPLACE);
        }
        if (ways[w].slot) {
            CHECK_CONTAINS(e.message, "sample 5: ");
            CHECK_CONTAINS(e.message, "the rule \"boxes\" returned");
            CHECK_CONTAINS(e.message, "boxes.json");
            CHECK_EQ(e.native_code, ways[w].returned);
        }
        bzna_batch_release(batch);
        bzna_loader_statistics(loader, &stats, sizeof stats, NULL);
        CHECK_EQ(stats.failed_format + stats.failed_other, 1);
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
    }
    failing = 0;
}

static bzna_status too_many(void *user, const bzna_rule_input *input, void *out, uint64_t out_bytes, uint64_t *count)
{
    (void)user, (void)input;
    memset(out, 1, (size_t)out_bytes);
    *count = 2 + (input->sample->index == 1);
    return BZNA_OK;
}

TEST(rows_that_have_no_room_fail_their_sample)
{
    bzna_rule rule;
    bzna_dataset *dataset = open_both();
    bzna_loader_config c = config_of();
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    bzna_error e = { .struct_size = sizeof e };
    const uint8_t *rows;
    const int64_t *counts;
    bzna_formats_rule_init(&rule, sizeof rule);
    rule.field = "other.*";
    rule.name = "two";
    rule.kind = BZNA_RULE_ROWS;
    rule.call = too_many;
    rule.dtype = BZNA_DTYPE_UINT8;
    rule.dimensions = 1;
    rule.shape[0] = 2;
    c.order.kind = BZNA_ORDER_SEQUENTIAL;
    loader = loader_of(dataset, &c, &rule, 1);
    REQUIRE(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK);
    rows = tensor_of(batch, "two", BZNA_DTYPE_UINT8, 2, 0);
    counts = tensor_of(batch, "two_count", BZNA_DTYPE_INT64, 0, 0);
    CHECK_EQ(info_of(batch).failed, 1);
    CHECK_EQ(bzna_batch_error(batch, 1, &e), BZNA_E_MISMATCH);
    CHECK_CONTAINS(e.message, "the rule \"two\" makes 3 rows of its other.json, and there is room for 2");
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(counts[i], i == 1 ? 0 : 2);
        CHECK(rows[2 * i] == (i != 1) && rows[2 * i + 1] == (i != 1));
    }
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

static bzna_status count_calls(void *user, const bzna_rule_input *input, void *out, uint64_t out_bytes, uint64_t *count)
{
    ++*(int *)user;
    (void)out_bytes, (void)count;
    *(uint8_t *)out = (uint8_t)input->field[0];
    return BZNA_OK;
}

TEST(of_several_fields_of_a_tensor_the_first_one_that_a_sample_has_is_asked_about)
{
    int calls = 0;
    bzna_rule rule = { .struct_size = sizeof rule, .field = ".json", .name = "initial", .kind = BZNA_RULE_TENSOR,
                       .call = count_calls, .user = &calls, .dtype = BZNA_DTYPE_UINT8 };
    bzna_dataset *dataset = NULL;
    bzna_loader_config c = config_of();
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    const uint8_t *initials;
    bzna_tensor t;
    require(bzna_dataset_open_memory(context, first.bytes, first.size, NULL, &dataset, NULL), "tar");
    c.order.kind = BZNA_ORDER_SEQUENTIAL;
    c.output.batch_size = 6;
    c.decode.threads = 1;
    loader = loader_of(dataset, &c, &rule, 1);
    REQUIRE(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK);
    CHECK_EQ(bzna_batch_tensor(batch, "initial", &t, sizeof t, NULL), BZNA_OK);
    initials = t.data;
    for (int i = 0; i < 6; i++)
        CHECK_EQ(initials[i], i == 2 ? 'o' : 'b');          /* boxes.json, which sample 2 lacks; other.json */
    CHECK_EQ(calls, 6);
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* ---- Without rules: other names, and what fields.make is given ---- */

/* Looks at the values of "cls", and of "text" twice, in the order of fields.bytes. */
static bzna_status make(void *user, const bzna_make_input *input, bzna_error *err)
{
    const uint64_t i = input->sample->index;
    const bzna_bytes *v = input->values;
    if (user != &failing || input->struct_size != sizeof *input || v[0].size != 8 || !v[1].data != !(i % 2) ||
        strncmp(v[2].data, "other", 5))
        return BZNA_E_CALLBACK;
    *(uint8_t *)input->out[0] = (uint8_t)v[1].size;
    *(float *)input->out[1] = (float)i;
    if (i == 4)
        snprintf(err->message, sizeof err->message, "not this one");
    return i == 4 ? BZNA_E_MISMATCH : i == 5 ? -77 : BZNA_OK;
}

TEST(a_program_makes_tensors_of_fields_under_names_of_its_own)
{
    static const bzna_made made[2] = { { .name = "size", .dtype = BZNA_DTYPE_UINT8 }, { .name = "number" } };
    bzna_dataset *dataset = NULL;
    bzna_loader_config c = config_of();
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_error e = { .struct_size = sizeof e };
    require(bzna_dataset_open_memory(context, first.bytes, first.size, NULL, &dataset, NULL), "tar");
    c.order.kind = BZNA_ORDER_SEQUENTIAL;
    c.output.batch_size = 6;
    c.fields.tensors = "class=cls";
    c.fields.bytes = "cls,text=caption.txt,text=other.json";
    c.fields.made = made;
    c.fields.made_count = 2;
    c.fields.make = make;
    c.fields.make_user = &failing;
    require(bzna_loader_open(context, dataset, &c, &loader, &e), e.message);
    REQUIRE(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &e) == BZNA_OK);
    for (uint32_t i = 0; i < 6; i++) {
        bzna_tensor class, size, number;
        char text[32];
        require(bzna_batch_tensor(batch, "class", &class, sizeof class, NULL), "class");
        require(bzna_batch_tensor(batch, "size", &size, sizeof size, NULL), "size");
        require(bzna_batch_tensor(batch, "number", &number, sizeof number, NULL), "number");
        snprintf(text, sizeof text, i % 2 ? "caption %u" : "other %u", i % 10);
        CHECK(text_is(batch, "text", i, text));
        CHECK_EQ(((const int64_t *)class.data)[i], 100 + (int64_t)i);
        CHECK_EQ(((const uint8_t *)size.data)[i], i % 2 && i < 4 ? strlen(text) : 0);
        CHECK(i < 4 ? ((const float *)number.data)[i] == (float)i : isnan(((const float *)number.data)[i]));
        CHECK_EQ(bzna_batch_error(batch, i, &e), i < 4 ? BZNA_OK : i == 4 ? BZNA_E_MISMATCH : BZNA_E_FORMAT);
        if (i >= 4)
            CHECK_CONTAINS(e.message, i == 4 ? "sample 4: not this one" : "sample 5: fields.make returned -77");
        if (i == 5)
            CHECK_EQ(e.native_code, -77);
    }
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* ---- Geometry ---- */

enum { VIEWS = 3 };

/* What the transform callback saw, by sample and view. */
static double seen[SAMPLES][VIEWS][9];

static bzna_status see(void *user, const bzna_sample_info *sample, bzna_random *random, bzna_transform *transform)
{
    (void)user, (void)random;
    memcpy(seen[sample->index][sample->view], transform->homography, sizeof seen[0][0]);
    return BZNA_OK;
}

static const bzna_warp warps[] = {
    { .kind = BZNA_WARP_RANDOM_RESIZED_CROP, .scale = { 0.2, 1 }, .flip_h = 0.5, .flip_v = 0.5 },
    { .kind = BZNA_WARP_CENTER_RESIZED_CROP },
    { .kind = BZNA_WARP_NONE, .flip_h = 1 },
    { .kind = BZNA_WARP_SIMILARITY, .scale = { 0.5, 1.5 }, .degrees = { -180, 180 }, .translate = { 0.2, 0.2 },
      .flip_h = 0.5, .random_crop = 1 },
    { .kind = BZNA_WARP_RANDOM_RESIZED_CROP, .scale = { 0.5, 1 }, .rotate = { -30, 30 }, .shear = { -20, 20, -9, 9 },
      .perspective = 0.6, .perspective_p = 1 },
};

/* Compares the geometry of each view with what the transform callback saw, and says where the box is in the output. */
static bzna_status check_geometry(void *user, const bzna_rule_input *input, void *out, uint64_t out_bytes,
                                  uint64_t *count)
{
    float *to = out;
    (void)user, (void)count;
    if (input->view_count != VIEWS || out_bytes != VIEWS * 5 * sizeof *to || input->sample->width != WIDTH)
        return BZNA_E_CALLBACK;
    for (uint32_t v = 0; v < VIEWS; v++) {
        const bzna_geometry *g = &input->geometry[v];
        const uint64_t i = input->sample->index;
        double box[4], unit[9];
        bzi_homography_multiply(g->homography, g->inverse, unit);
        for (int k = 0; k < 9; k++)
            if (!(fabs(unit[k] / unit[8] - (k % 4 == 0)) < 1e-9) ||
                !(fabs(g->homography[k] * seen[i][v][8] - seen[i][v][k] * g->homography[8]) < 1e-9))
                return BZNA_E_CALLBACK;
        if (g->struct_size != sizeof *g || g->view != v || g->width != WIDTH || g->height != HEIGHT ||
            g->out_width != 60 || g->out_height != 50)
            return BZNA_E_CALLBACK;
        box_of(i, box);
        to[5 * v] = (float)bzna_geometry_box(g, box, box);
        for (int k = 0; k < 4; k++)
            to[5 * (int)v + 1 + k] = (float)box[k];
    }
    return BZNA_OK;
}

/* The box around the bright pixels of a view. Returns 1, or 0 if there are none. */
static int bright(const uint8_t *pixels, double box[4])
{
    box[0] = box[1] = 1e9;
    box[2] = box[3] = -1e9;
    for (int y = 0; y < 50; y++)
        for (int x = 0; x < 60; x++)
            if (pixels[60 * y + x] == 250) {
                bzi_box_add(box, (const double[]){ x - 0.5, y - 0.5 });
                bzi_box_add(box, (const double[]){ x + 0.5, y + 0.5 });
            }
    return box[2] > 0;
}

TEST(a_box_is_in_the_output_where_its_geometry_says)
{
    uint32_t shown = 0, hidden = 0, flipped = 0;
    for (size_t w = 0; w < COUNT(warps); w++) {
        bzna_rule rule;
        bzna_dataset *dataset = open_both();
        bzna_loader_config c = config_of();
        bzna_loader *loader;
        bzna_batch *batch;
        bzna_formats_rule_init(&rule, sizeof rule);
        rule.field = "other.json";
        rule.name = "places";
        rule.kind = BZNA_RULE_TENSOR;
        rule.call = check_geometry;
        rule.dimensions = 2;
        rule.shape[0] = VIEWS;
        rule.shape[1] = 5;
        c.warp = warps[w];
        c.output.views = VIEWS;
        c.fields.geometry = 1;
        c.order.epochs = 4;
        c.decode.threads = 1;         /* so that `seen` is of this epoch */
        c.pipeline.transform = see;
        loader = loader_of(dataset, &c, &rule, 1);
        while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
            const bzna_batch_info info = info_of(batch);
            const float *geometry = tensor_of(batch, "geometry", BZNA_DTYPE_FLOAT32, VIEWS, 16);
            const float *places = tensor_of(batch, "places", BZNA_DTYPE_FLOAT32, VIEWS, 5);
            const uint64_t slots = (uint64_t)info.image.shape[1];
            CHECK_EQ(info.failed, 0);
            for (uint32_t slot = 0; slot < info.count; slot++)
                for (uint32_t v = 0; v < VIEWS; v++) {
                    const float *g = geometry + (slot * VIEWS + v) * 16, *place = places + (slot * VIEWS + v) * 5;
                    const uint8_t *pixels = (const uint8_t *)info.image.data + (v * slots + slot) * 3000;
                    double box[4];
                    const int is_shown = bright(pixels, box);
                    CHECK(g[9] == WIDTH && g[10] == HEIGHT);
                    if (w == 1)
                        CHECK(g[15] == 0);
                    if (w == 2)
                        CHECK(g[15] == 1 && g[11] == 30 && g[12] == 15 && g[13] == 90 && g[14] == 65);
                    flipped += g[15] != 0;
                    shown += (uint32_t)is_shown;
                    hidden += !is_shown;
                    if (!is_shown)    /* or a sliver that no pixel's center lies in */
                        CHECK(!place[0] || place[3] - place[1] < 2 || place[4] - place[2] < 2 || w > 2);
                    for (int k = 0; is_shown && k < 4; k++) {
                        const double past = k < 2 ? place[1 + k] - box[k] : box[k] - place[1 + k];
                        CHECK(place[0] == 1 && past < 0.51);            /* all that is bright lies in it */
                        if (w < 3)
                            CHECK(past > -0.51);                        /* and it is as small as that */
                    }
                }
            bzna_batch_release(batch);
        }
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
    }
    CHECK(shown > 300 && hidden > 0 && flipped > 50);
}

/* The crop of an upright warp, worked out by hand, and points beyond the horizon of a perspective. */
TEST(boxes_are_mapped_as_by_hand)
{
    bzna_geometry g = { .struct_size = sizeof g, .out_width = 10, .out_height = 10,
                        .inverse = { 0.5, 0, -0.25 - 5, 0, 0.5, -0.25, 0, 0, 1 } };    /* x from 10 on, halved */
    const double inside[4] = { 12, 4, 16, 8 }, left[4] = { 0, 0, 9, 9 }, wide[4] = { -100, 2, 500, 6 };
    const double beyond[4] = { 1, 1, 100, 2 };
    double out[4];
    CHECK_EQ(bzna_geometry_box(&g, inside, out), 1);
    CHECK(out[0] == 1 && out[1] == 2 && out[2] == 3 && out[3] == 4);
    CHECK_EQ(bzna_geometry_box(&g, left, out), 0);
    CHECK(out[0] == 0 && out[1] == 0 && out[2] == 0 && out[3] == 0);
    CHECK_EQ(bzna_geometry_box(&g, wide, out), 1);
    CHECK(out[0] == 0 && out[1] == 1 && out[2] == 10 && out[3] == 3);
    CHECK_EQ(bzna_geometry_box(NULL, wide, out), 0);
    memcpy(g.inverse, (double[9]){ 1, 0, 0, 0, 1, 0, -0.1, 0, 1 }, sizeof g.inverse);    /* the horizon is at x = 10 */
    CHECK_EQ(bzna_geometry_box(&g, beyond, out), 1);
    CHECK(out[0] > 1 && out[0] < 1.1 && out[1] > 1 && out[1] < 1.1 && out[2] == 10 && out[3] == 10);
    memcpy(g.inverse, (double[9]){ 1, 0, 0, 0, 1, 0, 0, 0, -1 }, sizeof g.inverse);
    CHECK_EQ(bzna_geometry_box(&g, beyond, out), 0);
}

/* ---- Settings ---- */

static void refused(const bzna_loader_config *c, const bzna_rule *rules, uint32_t count, bzna_status status,
                    const char *part)
{
    bzna_dataset *dataset = open_both();
    bzna_loader *loader = NULL;
    bzna_error e = { .struct_size = sizeof e };
    CHECK_EQ(open_with(dataset, c, rules, count, &loader, &e), status);
    CHECK_CONTAINS(e.message, part);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(rules_that_cannot_be_are_refused_by_name)
{
    static const char *const parts[] = {
        "rules[1]: field: must have 1 to 63 bytes", "rules[1]: field: must have 1 to 63 bytes",
        "made[3]: name: must have 1 to 31 bytes",
        "rules[2]: name: required unless field is a name",
        "rules[3]: kind: 3 is not known", "rules[3]: call, dtype, dimensions, shape: only of tensors",
        "rules[2]: call, dtype, dimensions, shape: only of tensors", "made[2]: dtype: 1; only",
        "rules[2]: dimensions: 5; at most 4", "rules[0]: dimensions: 0; at most 4, and with ROWS at least 1",
        "made[2]: shape[0]: 0; each must be at least 1", "made[2]: shape[0]: -1; each must be at least 1",
        "made[2]: shape[0]: 99999999999; each must",
        "rules[1]: kind, dtype, shape: differ", "rules[1]: kind, dtype, shape: differ",
        "rules[3].field: the data set has no field that \"capy*\" matches",
        "made[2]: another tensor has the name \"index\"",
        "made[2]: another tensor has the name \"boxes_count\"",
        "rules[3]: call, dtype, dimensions, shape: only of tensors",
        "rules[1]: struct_size: not set, or of another version", "rules[4]: reserved: a reserved word must be 0",
        "loader_config.fields.bytes: \"cls\" is named twice",
        "there are 17 rules, and not 1 to 16", "bzna_formats_rules_open: an argument is NULL",
        "fields.geometry: neither 0 nor 1", "rules[4]: name: required unless field is a name",
        "rules: loader_config.fields.made and make are set already", "there are 0 rules, and not 1 to 16",
    };
    char longer[80];
    memset(longer, 'x', sizeof longer);
    longer[70] = 0;
    for (size_t i = 0; i < COUNT(parts); i++) {
        bzna_rule rules[5];
        bzna_loader_config c = config_of();
        rules_make(rules);
        if (i == 0) rules[1].field = NULL;
        if (i == 1) rules[1].field = longer;
        if (i == 2) rules[1].name = "twenty-six-bytes-are-too-m";
        if (i == 3) rules[2].name = NULL;
        if (i == 4) rules[3].kind = 3;
        if (i == 5) rules[3].call = read_boxes;
        if (i == 6) rules[2].call = NULL;
        if (i == 7) rules[2].dtype = BZNA_DTYPE_FLOAT16;
        if (i == 8) rules[2].dimensions = 5;
        if (i == 9) rules[0].dimensions = 0;
        if (i == 10) rules[2].shape[0] = 0;
        if (i == 11) rules[2].shape[0] = -1;
        if (i == 12) rules[2].shape[0] = 99999999999;
        if (i == 13) rules[1].shape[0] = 4;
        if (i == 14) rules[1].kind = BZNA_RULE_TENSOR;
        if (i == 15) rules[3].field = "capy*";
        if (i == 16) rules[2].name = "index";
        if (i == 17) rules[2].name = "boxes_count";
        if (i == 18) rules[3].shape[0] = 4;
        if (i == 19) rules[1].struct_size = 24;
        if (i == 20) rules[4].reserved[3] = 1;
        if (i == 21) c.fields.bytes = "boxes.xml,cls=cls";
        if (i == 24) c.fields.geometry = 2;
        if (i == 25) rules[4].name = "a=b";
        if (i == 26) c.fields.made = &(bzna_made){ .name = "mine" };
        refused(&c, i == 23 ? NULL : rules, i == 22 ? 17 : i == 27 ? 0 : 5,
                i == 7 ? BZNA_E_UNSUPPORTED : i == 15 ? BZNA_E_NOT_FOUND : i == 19 || i == 20 ? BZNA_E_STRUCT_SIZE :
                BZNA_E_ARGUMENT, parts[i]);
    }
}

/* ---- The run ---- */

/* Continues a hash with all tensors of a batch that rules made. */
static uint64_t batch_hash(const bzna_batch *batch, uint64_t hash)
{
    static const char *const names[] = { "boxes", "boxes_count", "geometry", "index" };
    for (size_t i = 0; i < COUNT(names); i++) {
        bzna_tensor t = { .struct_size = 0 };
        CHECK_EQ(bzna_batch_tensor(batch, names[i], &t, sizeof t, NULL), BZNA_OK);
        hash = bzi_hash(hash, t.data, (size_t)t.bytes);
    }
    return hash;
}

/* The hashes of the batches from one on, with a world of ranks. Returns how many they are. */
static uint32_t run_hashes(uint32_t threads, uint32_t world, uint32_t from, uint64_t hashes[64])
{
    bzna_rule rules[5];
    bzna_dataset *dataset = open_both();
    bzna_loader_config c = config_of();
    bzna_loader_state state;
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    uint32_t count = 0;
    rules_make(rules);
    c.fields.geometry = 1;
    c.order.epochs = 4;
    c.order.last_batch = BZNA_LAST_PAD;
    c.decode.threads = c.read.threads = threads;
    c.shard.world_size = world;
    loader = loader_of(dataset, &c, rules, 5);
    for (uint32_t i = 0; i < from; i++) {
        require(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), "next");
        bzna_batch_release(batch);
    }
    if (from) {
        bzna_loader *other = loader_of(dataset, &c, rules, 5);
        require(bzna_loader_save(loader, &state, sizeof state, NULL), "save");
        require(bzna_loader_restore(other, &state, NULL), "restore");
        bzna_loader_close(loader);
        loader = other;
    }
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK && count < 64) {
        hashes[count++] = batch_hash(batch, 1);
        bzna_batch_release(batch);
    }
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    return count;
}

TEST(what_rules_make_depends_on_nothing_but_the_sample_and_the_epoch)
{
    uint64_t one[64], many[64], later[64];
    const uint32_t count = run_hashes(1, 1, 0, one);
    CHECK_EQ(count, 12);
    CHECK_EQ(run_hashes(4, 1, 0, many), count);
    CHECK(!memcmp(one, many, count * sizeof *one));
    CHECK_EQ(run_hashes(2, 1, 5, later), count - 5);
    CHECK(!memcmp(one + 5, later, (count - 5) * sizeof *one));
    CHECK_EQ(run_hashes(2, 3, 0, later), 4);
}

/* Allocations of a loader in its last epochs. */
TEST(rules_allocate_nothing_in_steady_state)
{
    ledger used = { .fail_at = 0 };
    bzna_context_config config;
    bzna_context *own = NULL;
    bzna_rule rules[5] = { { .struct_size = 0 } };
    bzna_dataset *dataset = NULL;
    bzna_loader_config c = config_of();
    bzna_loader *loader = NULL;
    bzna_batch *batch;
    int64_t before = 0;
    bzna_context_config_init(&config, sizeof config);
    config.allocator = ledger_allocator(&used);
    require(bzna_context_open(&config, &own, NULL), "context");
    require(bzna_dataset_open_memory(own, first.bytes, first.size, NULL, &dataset, NULL), "tar");
    rules_make(rules);
    rules[1].field = "boxes.j*";
    memmove(rules, rules + 1, 4 * sizeof *rules);
    require(bzna_formats_rules_open(dataset, rules, 4, &c, &opened[opened_count++], NULL), "rules");
    c.fields.geometry = 1;
    c.order.epochs = 60;
    c.decode.threads = 1;
    require(bzna_loader_open(own, dataset, &c, &loader, NULL), "loader");
    for (int i = 0; bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK; i++) {
        if (i == 90)
            before = used.calls;
        bzna_batch_release(batch);
    }
    CHECK(before > 0);
    CHECK_EQ(used.calls, before);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(own);
    CHECK_EQ(used.bytes, 0);
}

int main(int argc, char **argv)
{
    (void)argc;
    test_start(argv);
    require(bzna_context_open(NULL, &context, NULL), "context");
    samples_make();
    RUN(a_field_goes_to_the_first_rule_that_it_matches)
    RUN(what_a_sample_lacks_is_nan_minus_1_or_nothing)
    RUN(a_rule_that_fails_costs_its_sample_and_a_fault_of_the_program_the_run)
    RUN(rows_that_have_no_room_fail_their_sample)
    RUN(of_several_fields_of_a_tensor_the_first_one_that_a_sample_has_is_asked_about)
    RUN(a_program_makes_tensors_of_fields_under_names_of_its_own)
    RUN(a_box_is_in_the_output_where_its_geometry_says)
    RUN(boxes_are_mapped_as_by_hand)
    RUN(rules_that_cannot_be_are_refused_by_name)
    RUN(what_rules_make_depends_on_nothing_but_the_sample_and_the_epoch)
    RUN(rules_allocate_nothing_in_steady_state)
    while (opened_count)
        bzna_formats_rules_close(opened[--opened_count]);
    tar_free(&first);
    tar_free(&second);
    bzna_context_close(context);
    printf("%s: %d passed, %d failed, %d skipped\n", __FILE__, test_passed, test_failed, test_skipped);
    return test_failed != 0;
}
#endif
