/* Providers: samples that the caller's functions give. test_contract.c holds a provider to what every kind of data set
 * promises; here are the fields of all kinds, functions that fail and that lie, and what opening refuses. */
#include "library.h"
#include "with_formats.h"
#include "test.h"
#include "known.h"

enum { SAMPLES = 24, WIDTH = 8, HEIGHT = 6, PIXELS = WIDTH * HEIGHT, BATCH = 8 };
enum { IMAGE, MASK, TARGET, BOX, CAPTION, BLOB, FIELDS };

/* What one value is asked for, and does instead. */
enum { NOTHING, FAILS, FAILS_ONCE_IO, FAILS_IO, RETURNS_AGAIN, IS_MISSING, GROWS, CHANGES, IS_HUGE, IS_EMPTY, IS_UNSET,
       IS_SHORT, PAST_END, NO_FILE, CLOSES, EXPLAINS, EXPLAINS_OWN, MODES };

typedef struct model {
    uint64_t     bad_index;
    uint32_t     bad_field, mode;
    _Atomic long reads, locates, closes, faults;
    _Atomic long inside, most_inside;
    int          slow;                /* reads take 2 ms */
    int          as_ppm;              /* pictures are files of PPM */
    uint8_t     *memory;              /* located values lie there, SLOT bytes for each; NULL: in files */
    bzna_dataset *other;              /* is looked into by each read */
    int          as_table;            /* places stand in a table */
} model;

static bzna_context *context;

static uint8_t pixel_at(uint64_t index, uint32_t field, uint64_t i)
{
    return (uint8_t)(index * 37 + field * 91 + i * 5);
}

static int has_blob(uint64_t index) { return index % 2 == 0; }

/* Writes a value as it is to be, and returns its size. */
static uint64_t value_of(const model *m, uint64_t index, uint32_t field, uint8_t *out)
{
    const uint32_t channels = field == IMAGE ? 3 : 1;
    uint64_t size = 0;
    if (field == IMAGE || field == MASK) {
        if (m->as_ppm)
            size = (uint64_t)sprintf((char *)out, "P%d\n%d %d\n255\n", channels == 3 ? 6 : 5, WIDTH, HEIGHT);
        for (uint64_t i = 0; i < PIXELS * channels; i++)
            out[size++] = pixel_at(index, field, i);
    } else if (field == TARGET) {
        const int64_t target = (int64_t)index * 3 + 1;
        memcpy(out, &target, size = sizeof target);
    } else if (field == BOX) {
        for (uint64_t i = 0; i < 2 + index % 3; i++, size += sizeof(float))
            memcpy(out + size, &(float){ (float)(index * 10 + i) }, sizeof(float));
    } else if (field == CAPTION) {
        size = (uint64_t)sprintf((char *)out, "caption %d", (int)index);
    } else {
        size = index % 4 ? 5 : 0;
        memcpy(out, "\0blob", (size_t)size);
    }
    return size;
}

/* Misbehaves if it is this value's turn. Returns 1 if *status and *size are to be returned. */
static int misbehave(model *m, uint64_t index, uint32_t field, uint64_t capacity, uint64_t *size, bzna_status *status)
{
    if (m->mode == NOTHING || index != m->bad_index || field != m->bad_field)
        return 0;
    *status = BZNA_OK;
    switch (m->mode) {
    case FAILS:         *status = -42; break;
    case FAILS_IO:      *status = BZNA_E_IO; break;
    case FAILS_ONCE_IO: *status = m->faults ? BZNA_OK : BZNA_E_IO; break;
    case RETURNS_AGAIN: *status = BZNA_AGAIN; break;
    case IS_MISSING:    *status = BZNA_E_NOT_FOUND; break;
    case GROWS:         *size = capacity + 1; break;
    case CHANGES:       *size = 600000 + 1000 * (uint64_t)m->faults; break;
    case EXPLAINS:      *status = BZNA_E_FORMAT; break;
    case EXPLAINS_OWN:  *status = -42; break;
    case IS_HUGE:       *size = (uint64_t)1 << 40; break;
    case IS_EMPTY:      *size = 0; break;
    case IS_SHORT:      *size = 7; break;
    default:            break;        /* IS_UNSET */
    }
    return m->faults++ == 0 || m->mode != FAILS_ONCE_IO;
}

/* Says why, if it is to. */
static bzna_status explain(const model *m, bzna_status status, bzna_error *err)
{
    CHECK(err->struct_size == sizeof *err && !err->message[0] && err->byte_offset == BZNA_NO_OFFSET && !err->status);
    if (m->mode != EXPLAINS && m->mode != EXPLAINS_OWN)
        return status;
    memset(err->message, 'w', sizeof err->message);         /* without an end */
    memcpy(err->message, "the row is torn, ", 17);
    err->byte_offset = 4096;
    err->native_code = 5;
    return status;
}

static bzna_status model_read(void *user, uint64_t index, uint32_t field, void *buffer, uint64_t capacity,
                              uint64_t *size, bzna_error *err)
{
    (void)err;
    model *m = user;
    uint8_t value[512];
    bzna_status status;
    long inside = ++m->inside;
    struct timespec t = { 0, 2000000 };
    if (inside > m->most_inside)
        m->most_inside = inside;
    if (m->slow)
        nanosleep(&t, NULL);
    m->reads++;
    m->inside--;
    if (m->other) {
        char name[512];
        CHECK_EQ(bzna_dataset_field(m->other, index % 3, "name", name, sizeof name, NULL, NULL), BZNA_OK);
        CHECK_EQ(bzna_dataset_close(m->other), BZNA_E_STATE);
    }
    if (misbehave(m, index, field, capacity, size, &status))
        return explain(m, status, err);
    if (field == BLOB && !has_blob(index))
        return BZNA_E_NOT_FOUND;
    *size = value_of(m, index, field, value);
    if (*size <= capacity && *size)
        memcpy(buffer, value, (size_t)*size);
    return index % 5 == 4 && *size > capacity ? BZNA_E_BUFFER : BZNA_OK;      /* either will do */
}

/* Values lie one after the other: file f has samples f, f + 3, ..., SLOT bytes for each field of each. */
enum { FILES = 3, SLOT = 256 };

static bzna_status model_locate(void *user, uint64_t index, uint32_t field, bzna_place *place, bzna_error *err)
{
    (void)err;
    model *m = user;
    uint8_t value[512];
    bzna_status status;
    m->locates++;
    place->file = (uint32_t)(index % FILES);
    place->offset = (index / FILES * FIELDS + field) * SLOT;
    if (m->memory)
        place->data = m->memory + (index * FIELDS + field) * SLOT;
    if (m->mode == PAST_END && index == m->bad_index && field == m->bad_field)
        place->offset = 12799;
    if (m->mode == NO_FILE && index == m->bad_index && field == m->bad_field)
        place->file = FILES;
    if (misbehave(m, index, field, 0, &place->size, &status) && m->mode != PAST_END && m->mode != NO_FILE)
        return explain(m, status, err);
    if (field == BLOB && !has_blob(index))
        return BZNA_E_NOT_FOUND;
    place->size = value_of(m, index, field, value);
    return BZNA_OK;
}

static void model_close(void *user) { ((model *)user)->closes++; }

static const char *const files[FILES] = { TEST_BUILD "/tests/provider_0.bin", TEST_BUILD "/tests/provider_1.bin",
                                          TEST_BUILD "/tests/provider_2.bin" };

static void files_write(const model *m)
{
    static uint8_t bytes[FILES][(SAMPLES / FILES * FIELDS + 2) * SLOT];
    for (uint64_t index = 0; index < SAMPLES; index++)
        for (uint32_t field = 0; field < FIELDS; field++)
            value_of(m, index, field, bytes[index % FILES] + (index / FILES * FIELDS + field) * SLOT);
    for (int f = 0; f < FILES; f++)
        spill(files[f], bytes[f], sizeof bytes[f]);
}

/* located: fields with these bits. */
typedef struct described {
    bzna_provider_field fields[FIELDS];
    bzna_provider       provider;
} described;

static void describe(described *d, model *m, uint32_t located)
{
    static const struct { const char *name; uint32_t kind; } kinds[FIELDS] = {
        { "image", BZNA_FIELD_IMAGE },  { "mask", BZNA_FIELD_IMAGE },   { "target", BZNA_FIELD_INTEGER },
        { "box", BZNA_FIELD_VECTOR },   { "caption", BZNA_FIELD_TEXT }, { "blob", BZNA_FIELD_BYTES } };
    memset(d, 0, sizeof *d);
    for (uint32_t i = 0; i < FIELDS; i++) {
        d->fields[i].name = kinds[i].name;
        d->fields[i].kind = kinds[i].kind;
        d->fields[i].located = located >> i & 1;
        if (i <= MASK && !m->as_ppm) {
            d->fields[i].codec = BZNA_CODEC_RAW;
            d->fields[i].width = WIDTH;
            d->fields[i].height = HEIGHT;
            d->fields[i].channels = i == IMAGE ? 3 : 1;
            d->fields[i].layout = BZNA_LAYOUT_NHWC;
        }
    }
    bzna_provider_init(&d->provider, sizeof d->provider);
    d->provider.user = m;
    d->provider.count = SAMPLES;
    d->provider.fields = d->fields;
    d->provider.field_count = FIELDS;
    d->provider.read = located == (1 << FIELDS) - 1 ? NULL : model_read;
    d->provider.locate = located ? model_locate : NULL;
    d->provider.files = located ? files : NULL;
    d->provider.file_count = located ? FILES : 0;
    if (located && m->as_table) {
        static bzna_place places[SAMPLES * FIELDS];
        bzna_error err;
        memset(places, 0, sizeof places);
        for (uint64_t i = 0; i < SAMPLES * FIELDS; i++)
            if (model_locate(m, i / FIELDS, (uint32_t)(i % FIELDS), &places[i], &err) != BZNA_OK)
                places[i].size = BZNA_NO_VALUE;
        m->locates = 0;
        d->provider.locate = NULL;
        d->provider.places = places;
    }
    d->provider.close = model_close;
    d->provider.fingerprint = 77;
}

static bzna_dataset *open_described(const described *d)
{
    bzna_dataset *dataset = NULL;
    bzna_error err = fresh_error();
    if (bzna_dataset_open_provider(context, &d->provider, NULL, &dataset, &err) != BZNA_OK) {
        printf("  open: %s\n", err.message);
        exit(1);
    }
    return dataset;
}

static bzna_dataset *open_model(model *m, uint32_t located)
{
    described d;
    describe(&d, m, located);
    if (located)
        files_write(m);
    return open_described(&d);
}

static bzna_loader_config config_of(void)
{
    bzna_loader_config c = { .struct_size = sizeof c };
    c.output.batch_size = BATCH;
    c.output.width = WIDTH;
    c.output.height = HEIGHT;
    c.read.threads = 3;
    c.decode.threads = 2;
    c.fields.tensors = "box:4";
    c.fields.bytes = "caption,blob";
    return c;
}

static bzna_loader *open_loader(bzna_dataset *dataset, const bzna_loader_config *c)
{
    bzna_loader *loader = NULL;
    bzna_error err = fresh_error();
    if (bzna_loader_open(context, dataset, c, &loader, &err) != BZNA_OK) {
        printf("  open: %s\n", err.message);
        exit(1);
    }
    return loader;
}

static bzna_batch_info next(bzna_loader *loader, bzna_batch **batch)
{
    bzna_batch_info info = { .struct_size = sizeof info };
    bzna_error err = fresh_error();
    memset(&info, 0, sizeof info);
    if (bzna_loader_next(loader, BZNA_WAIT_FOREVER, batch, &err) == BZNA_OK)
        bzna_batch_get_info(*batch, &info, sizeof info, NULL);
    else if (err.status < 0)
        printf("  next: %s\n", err.message);
    return info;
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

/* Planes of a slot, R, G, B, hold a picture's interleaved pixels, or gray three times. */
static int pixels_are(const float *slot, uint64_t index, uint32_t field)
{
    for (uint64_t i = 0; i < 3 * PIXELS; i++)
        if (slot[i] != (float)pixel_at(index, field, field == IMAGE ? i % PIXELS * 3 + i / PIXELS : i % PIXELS))
            return 0;
    return 1;
}

static void check_values(const bzna_batch *batch, const bzna_batch_info *info, uint32_t slot)
{
    const uint64_t index = info->indices[slot], size = index % 4 ? 5 : 0;
    bzna_tensor box = { .struct_size = sizeof box };
    const void *data = NULL;
    uint64_t bytes = 0;
    char caption[32];
    CHECK_EQ(info->targets[slot], (int64_t)index * 3 + 1);
    REQUIRE(bzna_batch_tensor(batch, "box", &box, sizeof box, NULL) == BZNA_OK);
    for (uint64_t i = 0; i < 4; i++) {
        const float number = ((const float *)box.data)[slot * 4 + i];
        CHECK(i < 2 + index % 3 ? number == (float)(index * 10 + i) : isnan(number));
    }
    snprintf(caption, sizeof caption, "caption %d", (int)index);
    CHECK_EQ(bzna_batch_bytes(batch, "caption", slot, &data, &bytes, NULL), BZNA_OK);
    CHECK(bytes == strlen(caption) && !memcmp(data, caption, (size_t)bytes + 1));
    data = "";
    CHECK_EQ(bzna_batch_bytes(batch, "blob", slot, &data, &bytes, NULL), BZNA_OK);
    CHECK((data != NULL) == has_blob(index));
    CHECK(!data || (bytes == size && !memcmp(data, "\0blob", (size_t)size)));
}

static void check_epoch(bzna_dataset *dataset)
{
    bzna_loader_output extra = { .name = "masks", .field = "mask", .width = WIDTH, .height = HEIGHT };
    bzna_loader_config c = config_of();
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    uint64_t seen = 0;
    c.order.kind = BZNA_ORDER_SHUFFLE;
    c.extra_outputs.ptr = &extra;
    c.extra_outputs.count = 1;
    loader = open_loader(dataset, &c);
    for (uint64_t b = 0; b < SAMPLES / BATCH; b++) {
        const bzna_batch_info info = next(loader, &batch);
        bzna_tensor masks = { .struct_size = sizeof masks };
        REQUIRE(info.count == BATCH);
        CHECK_EQ(info.failed, 0);
        REQUIRE(bzna_batch_tensor(batch, "masks", &masks, sizeof masks, NULL) == BZNA_OK);
        for (uint32_t slot = 0; slot < BATCH; slot++) {
            CHECK(pixels_are((const float *)info.image.data + slot * 3 * PIXELS, info.indices[slot], IMAGE));
            CHECK(pixels_are((const float *)masks.data + slot * 3 * PIXELS, info.indices[slot], MASK));
            check_values(batch, &info, slot);
            seen |= 1ull << info.indices[slot];
        }
        bzna_batch_release(batch);
    }
    CHECK_EQ(seen, (1ull << SAMPLES) - 1);
    bzna_loader_close(loader);
}

TEST(values_of_every_kind_arrive_as_they_are_read_or_located)
{
    static const uint32_t located[] = { 0, 1 << FIELDS, 1, 3, 2, (1 << FIELDS) - 1, (1 << FIELDS) - 2 };
    for (size_t i = 0; i < 4 * COUNT(located); i++) {
        model m = { .as_table = i / 2 % 2 };
        bzna_dataset *dataset;
        static uint8_t memory[SAMPLES * FIELDS * SLOT];
        for (uint64_t k = 0; i % 2 && k < SAMPLES * FIELDS; k++)
            value_of(&m, k / FIELDS, (uint32_t)(k % FIELDS), memory + k * SLOT);
        m.memory = i % 2 ? memory : NULL;
        dataset = open_model(&m, located[i / 4] & ((1 << FIELDS) - 1));
        check_epoch(dataset);
        CHECK(!m.as_table || m.locates == 0);
        CHECK_EQ(m.closes, 0);
        bzna_dataset_close(dataset);
        CHECK_EQ(m.closes, 1);
    }
}

TEST(pictures_that_are_files_are_told_apart_by_their_content)
{
#ifdef BENZINA_NO_AVCODEC
    SKIP("built without libavcodec [libavcodec-dev]");
#endif
    for (uint32_t located = 0; located < 4; located++) {
        model m = { .as_ppm = 1 };
        bzna_dataset *dataset = open_model(&m, located);
        check_epoch(dataset);
        bzna_dataset_close(dataset);
    }
}

/* What a sample has by functions of a data set: the same, on the caller's thread. */
TEST(samples_can_be_looked_at)
{
    model m = { .memory = NULL };
    bzna_dataset *dataset = open_model(&m, 0);
    bzna_dataset_info info = { .struct_size = sizeof info };
    bzna_sample_ref ref = { .struct_size = sizeof ref };
    bzna_image image = { .struct_size = sizeof image };
    bzna_error err = fresh_error();
    uint8_t bytes[1024], value[512];
    size_t needed = 0;
    int64_t target = 0;
    CHECK_EQ(bzna_dataset_get_info(dataset, &info, sizeof info, NULL), BZNA_OK);
    CHECK_STR(info.container, "provider");
    CHECK(info.sample_count == SAMPLES && info.target_count == SAMPLES && info.field_count == FIELDS);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        CHECK(bzna_dataset_target(dataset, i, &target, NULL) == BZNA_OK && target == (int64_t)i * 3 + 1);
        CHECK_EQ(bzna_dataset_sample(dataset, i, &ref, sizeof ref, NULL), BZNA_OK);
        CHECK(ref.image_count == 2 && ref.size == 4 * PIXELS + 16 && ref.target == (int64_t)i * 3 + 1);
        CHECK_STR(ref.image_names[1], "mask");
        CHECK_EQ(bzna_dataset_read_image(dataset, i, "mask", bytes, (size_t)ref.size, &image, NULL), BZNA_OK);
        CHECK(image.codec == BZNA_CODEC_RAW && image.data_size == PIXELS && image.width == WIDTH);
        CHECK(value_of(&m, i, MASK, value) == PIXELS && !memcmp(image.data, value, PIXELS));
        CHECK_EQ(bzna_dataset_read_image(dataset, i, "mask", bytes, (size_t)ref.size - 1, &image, &err), BZNA_E_BUFFER);
        CHECK_EQ(bzna_dataset_field(dataset, i, "box", bytes, sizeof bytes, &needed, NULL), BZNA_OK);
        CHECK_EQ(needed, (2 + i % 3) * sizeof(float));
        CHECK_EQ(bzna_dataset_field(dataset, i, "blob", bytes, sizeof bytes, &needed, &err),
                 has_blob(i) ? BZNA_OK : BZNA_E_NOT_FOUND);
        CHECK_EQ(bzna_dataset_field(dataset, i, "caption", NULL, 0, &needed, &err), BZNA_E_BUFFER);
        CHECK_EQ(needed, value_of(&m, i, CAPTION, value) + 1);
    }
    CHECK_EQ(bzna_dataset_read_image(dataset, 0, "depth", bytes, sizeof bytes, &image, &err), BZNA_E_NOT_FOUND);
    CHECK_CONTAINS(err.message, "provider: sample 0: it has no picture \"depth\"");
    bzna_dataset_close(dataset);
}

/* Offsets are of files. A place's offset has no meaning where it has an address. */
TEST(a_picture_that_lies_in_memory_begins_at_its_byte_0)
{
    static const uint8_t pixels[3 * PIXELS] = { 1, 2, 3 };
    const bzna_provider_field field = { .name = "image", .kind = BZNA_FIELD_IMAGE, .located = 1,
                                        .codec = BZNA_CODEC_RAW, .width = WIDTH, .height = HEIGHT, .channels = 3,
                                        .layout = BZNA_LAYOUT_NHWC };
    const bzna_place place = { .data = pixels, .size = sizeof pixels, .offset = 4711 };
    const described d = { .provider = { .struct_size = sizeof d.provider, .count = 1, .fields = &field,
                                        .field_count = 1, .places = &place } };
    bzna_dataset *dataset = open_described(&d);
    bzna_sample_ref ref = { .struct_size = sizeof ref };
    bzna_image image = { .struct_size = sizeof image };
    bzna_image_info info = { .struct_size = sizeof info };
    uint8_t bytes[sizeof pixels];
    CHECK_EQ(bzna_dataset_sample(dataset, 0, &ref, sizeof ref, NULL), BZNA_OK);
    CHECK(ref.offset == 0 && ref.size == sizeof pixels);
    CHECK_EQ(bzna_dataset_read_image(dataset, 0, NULL, bytes, sizeof bytes, &image, NULL), BZNA_OK);
    CHECK_EQ(bzna_dataset_image_info(dataset, 0, NULL, &info, sizeof info, NULL), BZNA_OK);
    CHECK_EQ(info.data_offset, 0);
    CHECK(image.data_size == sizeof pixels && !memcmp(image.data, pixels, sizeof pixels));
    bzna_dataset_close(dataset);
}

/* ---- Failures and lies ------------------------------------------------------------------------------------------- */

/* An epoch in which one sample fails: its slot says so, and the others are as they are. */
static void check_failure(model *m, uint32_t located, bzna_status status, const char *words)
{
    bzna_dataset *dataset = open_model(m, located);
    bzna_loader_config c = config_of();
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    c.extra_outputs.count = 0;
    loader = open_loader(dataset, &c);
    for (uint64_t b = 0; b < SAMPLES / BATCH; b++) {
        const bzna_batch_info info = next(loader, &batch);
        REQUIRE(info.count == BATCH);
        CHECK_EQ(info.failed, b == m->bad_index / BATCH);
        for (uint32_t slot = 0; slot < BATCH; slot++) {
            bzna_error err = fresh_error();
            const int bad = info.indices[slot] == m->bad_index;
            CHECK_EQ(bzna_batch_error(batch, slot, &err), bad ? status : BZNA_OK);
            if (!bad) {
                CHECK(pixels_are((const float *)info.image.data + slot * 3 * PIXELS, info.indices[slot], IMAGE));
                check_values(batch, &info, slot);
                continue;
            }
            CHECK_CONTAINS(err.message, "provider: sample 13: ");
            CHECK_CONTAINS(err.message, words);
            CHECK((m->mode != FAILS && m->mode != EXPLAINS_OWN) || err.native_code == -42);
            CHECK(m->mode != EXPLAINS || (err.native_code == 5 && err.byte_offset == 4096));
        }
        bzna_batch_release(batch);
    }
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(a_provider_that_fails_or_lies_costs_its_slot)
{
    static const struct { uint32_t mode, field, located, as_ppm; bzna_status status; const char *words; } lies[] = {
        { FAILS, IMAGE, 0, 0, BZNA_E_CALLBACK, "read returned -42" },
        { FAILS, IMAGE, 0, 0, BZNA_E_CALLBACK, "\"image\"" },
        { FAILS, IMAGE, 3, 0, BZNA_E_CALLBACK, "locate returned -42" },
        { FAILS, TARGET, 0, 0, BZNA_E_CALLBACK, "\"target\"" },
        { FAILS, CAPTION, 1, 0, BZNA_E_CALLBACK, "\"caption\"" },
        { FAILS_IO, IMAGE, 0, 0, BZNA_E_IO, "\"image\"" },
        { RETURNS_AGAIN, BOX, 0, 0, BZNA_E_CALLBACK, "read returned 2" },
        { IS_MISSING, IMAGE, 0, 0, BZNA_E_NOT_FOUND, "no picture \"image\"" },
        { GROWS, IMAGE, 0, 1, BZNA_E_CALLBACK, "changes between calls" },
        { CHANGES, IMAGE, 0, 1, BZNA_E_CALLBACK, "changes between calls: 6" },
        { GROWS, CAPTION, 0, 0, BZNA_E_CALLBACK, "caption changes between calls" },
        { IS_HUGE, IMAGE, 0, 1, BZNA_E_LIMIT, "at most, context_config.max_sample_bytes" },
        { IS_HUGE, CAPTION, 0, 0, BZNA_E_LIMIT, "at most, context_config.max_sample_bytes" },
        { IS_HUGE, IMAGE, 3, 1, BZNA_E_LIMIT, "at most, context_config.max_sample_bytes" },
        { IS_EMPTY, IMAGE, 0, 1, BZNA_E_CALLBACK, "\"image\" has 0 bytes instead of" },
        { IS_EMPTY, IMAGE, 3, 1, BZNA_E_CALLBACK, "\"image\" has 0 bytes instead of" },
        { IS_EMPTY, TARGET, 0, 0, BZNA_E_CALLBACK, "\"target\" has 0 bytes instead of 8" },
        { IS_UNSET, IMAGE, 0, 0, BZNA_E_CALLBACK, "did not say how many bytes \"image\" has" },
        { IS_UNSET, CAPTION, 0, 0, BZNA_E_CALLBACK, "did not say how many bytes" },
        { IS_UNSET, IMAGE, 3, 0, BZNA_E_CALLBACK, "did not say how many bytes" },
        { IS_SHORT, IMAGE, 0, 0, BZNA_E_CALLBACK, "\"image\" has 7 bytes instead of 144" },
        { IS_SHORT, TARGET, 0, 0, BZNA_E_CALLBACK, "7 bytes instead of 8" },
        { IS_SHORT, BOX, 0, 0, BZNA_E_CALLBACK, "in whole numbers of float32" },
        { EXPLAINS, IMAGE, 0, 0, BZNA_E_FORMAT, "sample 13: the row is torn, www" },
        { EXPLAINS, IMAGE, 3, 0, BZNA_E_FORMAT, "sample 13: the row is torn, www" },
        { EXPLAINS, TARGET, 0, 0, BZNA_E_FORMAT, "sample 13: the row is torn, www" },
        { EXPLAINS, CAPTION, 16, 0, BZNA_E_FORMAT, "sample 13: the row is torn, www" },
        { EXPLAINS_OWN, IMAGE, 0, 0, BZNA_E_CALLBACK, "sample 13: the row is torn, www" },
        { PAST_END, IMAGE, 3, 0, BZNA_E_TRUNCATED, "provider_1.bin: image at byte 12800: the file ends before " },
        { PAST_END, CAPTION, 16, 0, BZNA_E_TRUNCATED, "provider_1.bin: caption at byte 12800: the file ends before " },
        { NO_FILE, IMAGE, 3, 0, BZNA_E_CALLBACK, "of file 3 of 3" },
    };
    for (size_t i = 0; i < COUNT(lies); i++) {
        model m = { .bad_index = 13, .bad_field = lies[i].field, .mode = lies[i].mode, .as_ppm = (int)lies[i].as_ppm };
        const int failures = test_failures;
#ifdef BENZINA_NO_AVCODEC
        if (lies[i].as_ppm)
            continue;
#endif
        check_failure(&m, lies[i].located, lies[i].status, lies[i].words);
        CHECK(m.faults > 0);
        if (test_failures != failures)
            printf("  with lie %d\n", (int)i);
    }
}

TEST(a_provider_may_say_what_it_is_and_how_large_its_files_are)
{
    model m = { .bad_index = 0 };
    bzna_dataset_info info;
    bzna_error err = fresh_error();
    bzna_dataset *dataset;
    described d;
    describe(&d, &m, 0);
    d.provider.kind = "a table of rows----";
    d.provider.size_bytes = 4321;
    dataset = open_described(&d);
    CHECK_EQ(bzna_dataset_get_info(dataset, &info, sizeof info, NULL), BZNA_OK);
    CHECK(!strcmp(info.container, "a table of rows----") && info.size_bytes == 4321);
    bzna_dataset_close(dataset);
    for (int i = 0; i < 2; i++) {
        d.provider.kind = i ? "\xff" : "a table of rows-----";
        CHECK_EQ(bzna_dataset_open_provider(context, &d.provider, NULL, &dataset, &err), BZNA_E_ARGUMENT);
        CHECK_CONTAINS(err.message, "provider.kind: it must be UTF-8 of fewer than 20 bytes");
    }
}

TEST(more_than_max_bytes_is_a_lie)
{
    model m = { .bad_index = 13, .bad_field = CAPTION, .mode = IS_HUGE };
    bzna_error err = fresh_error();
    bzna_dataset *dataset = NULL;
    described d;
    char caption[40];
    describe(&d, &m, 0);
    d.provider.max_bytes = 4096;
    dataset = open_described(&d);
    CHECK_EQ(bzna_dataset_field(dataset, 13, "caption", caption, sizeof caption, NULL, &err), BZNA_E_CALLBACK);
    CHECK_CONTAINS(err.message, "\"caption\" has 1099511627776 bytes instead of 4096 at most, provider.max_bytes");
    CHECK_EQ(bzna_dataset_field(dataset, 12, "caption", caption, sizeof caption, NULL, &err), BZNA_OK);
    bzna_dataset_close(dataset);
}

TEST(a_read_that_fails_with_e_io_is_tried_again)
{
    model m = { .bad_index = 13, .bad_field = IMAGE, .mode = FAILS_ONCE_IO };
    bzna_dataset *dataset = open_model(&m, 0);
    bzna_statistics stats = { .struct_size = sizeof stats };
    bzna_loader_config c = config_of();
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    c.read.retries = 1;
    c.read.backoff_ns = 1000;
    loader = open_loader(dataset, &c);
    for (uint64_t b = 0; b < SAMPLES / BATCH; b++) {
        CHECK_EQ(next(loader, &batch).failed, 0);
        bzna_batch_release(batch);
    }
    bzna_loader_statistics(loader, &stats, sizeof stats, NULL);
    CHECK(stats.retries == 1 && stats.samples_failed == 0);
    CHECK_EQ(m.faults, 2);                                  /* the second one did not fail */
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* A value without its file is not one that a sample does not have. */
TEST(a_file_that_is_gone_is_no_missing_value)
{
    model m = { 0 };
    const uint32_t limit = context->host->file_limit;
    bzna_dataset *dataset;
    bzna_error err = fresh_error();
    int64_t target = 0;

    context->host->file_limit = 0;                          /* each read opens its file */
    dataset = open_model(&m, 1 << TARGET);
    CHECK_EQ(bzna_dataset_target(dataset, 1, &target, &err), BZNA_OK);
    CHECK_EQ(target, 4);
    CHECK(!remove(files[1]));
    CHECK_EQ(bzna_dataset_target(dataset, 1, &target, &err), BZNA_E_IO);
    CHECK_CONTAINS(err.message, "cannot open");
    CHECK_EQ(bzna_dataset_target(dataset, 2, &target, &err), BZNA_OK);
    bzna_dataset_close(dataset);
    context->host->file_limit = limit;
}

/* Small pictures one behind the other in a file, which the library reads many at once. One of them is said to be longer
 * each time but the first that somebody asks. */
enum { PPM_COUNT = 400, PPM_BYTES = 11 + 48, PPM_LIAR = 350, PPM_MORE = 100000 };
typedef struct ppm_liar { atomic_int asked; } ppm_liar;

static bzna_status ppm_locate(void *user, uint64_t index, uint32_t field, bzna_place *place, bzna_error *err)
{
    (void)err;
    ppm_liar *liar = user;
    (void)field;
    place->offset = index * PPM_BYTES;
    place->size = PPM_BYTES + (index == PPM_LIAR && liar->asked++ ? PPM_MORE : 0);
    return BZNA_OK;
}

TEST(a_place_that_changes_between_calls_is_read_as_it_was_said)
{
    static uint8_t bytes[PPM_COUNT * PPM_BYTES + PPM_MORE];
    static const char *const path = TEST_BUILD "/tests/provider_liar.ppms";
    ppm_liar liar = { 0 };
    const bzna_provider_field field = { .name = "image", .kind = BZNA_FIELD_IMAGE, .located = 1 };
    const bzna_provider provider = { .struct_size = sizeof provider, .count = PPM_COUNT, .fields = &field,
                                     .field_count = 1, .user = &liar, .locate = ppm_locate, .files = &path,
                                     .file_count = 1 };
    bzna_loader_config c = { .struct_size = sizeof c, .output = { .batch_size = 50, .width = 4, .height = 4 },
                             .decode = { .threads = 1 }, .order = { .epochs = 3 } };
    bzna_dataset *dataset = NULL;
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    uint32_t failed = 0;
    for (int i = 0; i < PPM_COUNT; i++)
        memcpy(bytes + i * PPM_BYTES, "P6\n4 4\n255\n", 11);
    spill(path, bytes, sizeof bytes);
    REQUIRE(bzna_dataset_open_provider(context, &provider, NULL, &dataset, NULL) == BZNA_OK);
    loader = open_loader(dataset, &c);
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_batch_info info = { .struct_size = sizeof info };
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        failed += info.failed;                              /* old bytes with a new size would be damaged */
        bzna_batch_release(batch);
    }
    CHECK_EQ(failed, 0);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    remove(path);
}

/* A transform's failure ends the run as ever, also of samples that a provider gives. */
static bzna_status transform_fails(void *user, const bzna_sample_info *info, bzna_random *random, bzna_transform *t)
{
    (void)user, (void)random, (void)t;
    return info->index == 13 ? -7 : BZNA_OK;
}

TEST(a_transform_that_fails_ends_the_run_over_a_provider)
{
    model m = { .bad_index = 3, .bad_field = IMAGE, .mode = FAILS };
    bzna_dataset *dataset = open_model(&m, 0);
    bzna_loader_config c = config_of();
    bzna_error err = fresh_error();
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    c.pipeline.transform = transform_fails;
    loader = open_loader(dataset, &c);
    CHECK_EQ(next(loader, &batch).failed, 1);
    bzna_batch_release(batch);
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), BZNA_E_CALLBACK);
    CHECK_CONTAINS(err.message, "sample 13: the transform callback returned -7");
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

TEST(errors_can_replace_a_provider_s_sample_or_end_the_run)
{
    for (uint32_t policy = BZNA_ON_ERROR_REPLACE; policy <= BZNA_ON_ERROR_STOP; policy++) {
        model m = { .bad_index = 3, .bad_field = IMAGE, .mode = FAILS };
        bzna_dataset *dataset = open_model(&m, 0);
        bzna_loader_config c = config_of();
        bzna_error err = fresh_error();
        bzna_loader *loader;
        bzna_batch *batch = NULL;
        c.errors.on_error = policy;
        loader = open_loader(dataset, &c);
        if (policy == BZNA_ON_ERROR_REPLACE) {
            const bzna_batch_info info = next(loader, &batch);
            CHECK(info.failed == 0 && info.replaced == 1 && info.indices[3] == 4);
            CHECK(pixels_are((const float *)info.image.data + 3 * 3 * PIXELS, 4, IMAGE));
            bzna_batch_release(batch);
        } else {
            CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), BZNA_E_CALLBACK);
            CHECK_EQ(err.native_code, -42);
        }
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
    }
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* Pictures of very different sizes: a large one follows small ones, so that the first call finds too little room. */
static bzna_status uneven_read(void *user, uint64_t index, uint32_t field, void *buffer, uint64_t capacity,
                               uint64_t *size, bzna_error *err)
{
    (void)err;
    const int edge = index % 6 == 5 ? 500 : 2 + (int)index;
    char head[40];
    const int length = snprintf(head, sizeof head, "P5\n%d %d\n255\n", edge, edge);
    (void)field;
    ((model *)user)->reads++;
    *size = (uint64_t)(length + edge * edge);
    if (*size > capacity)
        return BZNA_OK;
    memcpy(buffer, head, (size_t)length);
    memset((uint8_t *)buffer + length, (int)(10 + index), (size_t)(edge * edge));
    return BZNA_OK;
}

TEST(samples_of_any_size_fit_under_the_ceiling_of_memory)
{
#ifdef BENZINA_NO_AVCODEC
    SKIP("built without libavcodec [libavcodec-dev]");
#endif
    static const uint64_t ceilings[] = { 0, 300000, 600000 };
    for (size_t k = 0; k < COUNT(ceilings); k++) {
        const bzna_provider_field field = { .name = "image", .kind = BZNA_FIELD_IMAGE };
        model m = { .mode = NOTHING };
        described d = { .provider = { .struct_size = sizeof d.provider, .user = &m, .count = SAMPLES, .fields = &field,
                                      .field_count = 1, .read = uneven_read } };
        bzna_dataset *dataset = open_described(&d);
        bzna_loader_config c = config_of();
        bzna_loader *loader;
        bzna_batch *batch = NULL;
        c.fields.tensors = c.fields.bytes = NULL;
        c.order.epochs = 3;
        c.read.memory_bytes = ceilings[k];
        c.warp.kind = BZNA_WARP_NONE;
        loader = open_loader(dataset, &c);
        for (uint64_t b = 0; b < 3 * SAMPLES / BATCH; b++) {
            const bzna_batch_info info = next(loader, &batch);
            CHECK(info.count == BATCH && info.failed == 0);
            for (uint32_t slot = 0; slot < info.count; slot++)
                CHECK_EQ((int)((const float *)info.image.data)[slot * 3 * PIXELS + 20], (int)(10 + info.indices[slot]));
            bzna_batch_release(batch);
        }
        CHECK(m.reads >= 3 * SAMPLES && m.reads <= 6 * SAMPLES);
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
    }
}

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

TEST(no_lock_is_held_while_a_provider_runs)
{
    model inner = { .mode = NOTHING }, m = { .slow = 1 };
    const bzna_provider_field field = { .name = "name", .kind = BZNA_FIELD_TEXT };
    described d, in = { .provider = { .struct_size = sizeof in.provider, .user = &inner, .count = 3, .fields = &field,
                                      .field_count = 1, .read = model_read } };
    bzna_dataset *dataset;
    inner.mode = NOTHING;
    m.other = open_described(&in);
    describe(&d, &m, 0);
    dataset = open_described(&d);
    check_epoch(dataset);
    CHECK(m.most_inside > 1);
    bzna_dataset_close(dataset);
    CHECK_EQ(bzna_dataset_close(m.other), BZNA_OK);
}

/* ---- Records ----------------------------------------------------------------------------------------------------- */

enum { RECORD_COUNT = 3, RECORD_AT = 5, RECORD_BYTES = RECORD_AT + PIXELS };

/* How a record is given, and what is wrong with it. */
typedef struct recorded {
    uint8_t bytes[RECORD_COUNT][RECORD_BYTES];
    int     in_memory, lie;           /* lie: 1: it is too short; 2: a picture lies outside of it; 3: as in parts;
                                       * 4: the picture of sample 1 is refused */
    int     reads, unpacks;
} recorded;

static bzna_status record_locate(void *user, uint64_t index, uint32_t field, bzna_place *place, bzna_error *err)
{
    const recorded *r = user;
    (void)err;
    CHECK_EQ(field, 3);
    place->data = r->bytes[index];
    place->size = RECORD_BYTES - (r->lie == 1);
    return BZNA_OK;
}

static bzna_status record_read(void *user, uint64_t index, uint32_t field, void *buffer, uint64_t capacity,
                               uint64_t *size, bzna_error *err)
{
    recorded *r = user;
    (void)err;
    CHECK_EQ(field, 3);
    *size = RECORD_BYTES - (r->lie == 1);
    r->reads += *size <= capacity;
    if (*size <= capacity)
        memcpy(buffer, r->bytes[index], (size_t)*size);
    return BZNA_OK;
}

static bzna_status record_unpack(void *user, uint64_t index, uint32_t field, void *record, uint64_t bytes, void *buffer,
                                 uint64_t capacity, bzna_place *place, bzna_error *err)
{
    recorded *r = user;
    uint8_t *at = record;
    const int64_t target = at[0];
    r->unpacks++;
    CHECK_EQ(bytes, RECORD_BYTES);
    CHECK_EQ(at[0], index + 7);
    if (field == 1) {
        place->size = sizeof target;
        if (sizeof target <= capacity)
            memcpy(buffer, &target, sizeof target);
    } else if (field == 2) {
        place->data = at + 1;
        place->size = 4;
        if (r->lie == 3 && index == 1) {
            snprintf(err->message, sizeof err->message, "it has no name");
            err->byte_offset = 77;
            return BZNA_E_FORMAT;
        }
    } else {
        place->offset = r->lie == 2 ? RECORD_BYTES - PIXELS + 1 : RECORD_AT;
        place->size = PIXELS;
        return r->lie == 4 && index == 1 ? -77 : BZNA_OK;
    }
    return BZNA_OK;
}

/* Opens records with a picture, which is RAW or not, a target, and a name. */
static bzna_dataset *open_recorded(recorded *r, int is_raw)
{
    const bzna_provider_field raw = { .name = "image", .kind = BZNA_FIELD_IMAGE, .codec = BZNA_CODEC_RAW,
                                      .width = WIDTH, .height = HEIGHT, .channels = 1, .offset = RECORD_AT };
    const bzna_provider_field fields[] = { is_raw ? raw : (bzna_provider_field){ .name = "image",
                                               .kind = BZNA_FIELD_IMAGE },
                                           { .name = "target", .kind = BZNA_FIELD_INTEGER },
                                           { .name = "name", .kind = BZNA_FIELD_TEXT } };
    const described d = { .provider = { .struct_size = sizeof d.provider, .user = r, .count = RECORD_COUNT,
                                        .fields = fields, .field_count = 3, .read = r->in_memory ? NULL : record_read,
                                        .locate = r->in_memory ? record_locate : NULL, .unpack = record_unpack } };
    for (int i = 0; i < RECORD_COUNT; i++) {
        snprintf((char *)r->bytes[i], RECORD_BYTES, "%cabc%c", 7 + i, '0' + i);
        for (uint64_t k = 0; k < PIXELS; k++)
            r->bytes[i][RECORD_AT + k] = pixel_at((uint64_t)i, 0, k);
    }
    return open_described(&d);
}

TEST(a_record_is_read_once_and_holds_all_fields)
{
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        recorded r = { .in_memory = in_memory };
        bzna_dataset *dataset = open_recorded(&r, 1);
        bzna_loader_config c = { .struct_size = sizeof c };
        bzna_loader *loader;
        bzna_batch *batch = NULL;
        bzna_batch_info info;
        char name[8] = "";
        size_t size = 0;
        c.output.batch_size = RECORD_COUNT;
        c.output.dtype = BZNA_DTYPE_UINT8;
        c.output.channels = BZNA_CHANNELS_GRAY;
        c.warp.kind = BZNA_WARP_NONE;
        c.output.width = WIDTH;
        c.output.height = HEIGHT;
        loader = open_loader(dataset, &c);
        info = next(loader, &batch);
        CHECK(info.count == RECORD_COUNT && !info.failed);
        for (uint64_t i = 0; i < RECORD_COUNT; i++) {
            CHECK_EQ(info.targets[i], (int64_t)i + 7);
            CHECK(!memcmp((const uint8_t *)info.image.data + i * PIXELS, r.bytes[i] + RECORD_AT, PIXELS));
        }
        CHECK(in_memory ? !r.reads : r.reads == RECORD_COUNT);
        bzna_batch_release(batch);
        bzna_loader_close(loader);
        CHECK_EQ(bzna_dataset_field(dataset, 2, "name", name, sizeof name, &size, NULL), BZNA_OK);
        CHECK_STR(name, "abc2");
        CHECK_EQ(size, 5);
        bzna_dataset_close(dataset);
    }
}

TEST(records_that_cannot_be_cost_their_samples)
{
    static const struct { int lie, is_raw; const char *field; bzna_status status; const char *words; } ways[] = {
        { 1, 1, "name", BZNA_E_CALLBACK, "\"record\" has 52 bytes instead of 53 at least" },
        { 2, 0, "image", BZNA_E_CALLBACK, "\"image\" is not inside the record of 53 bytes" },
        { 3, 1, "name", BZNA_E_FORMAT, "it has no name" },
    };
    for (size_t i = 0; i < COUNT(ways); i++)
        for (int in_memory = 0; in_memory < 2; in_memory++) {
            recorded r = { .lie = ways[i].lie, .in_memory = in_memory };
            bzna_dataset *dataset = open_recorded(&r, ways[i].is_raw);
            bzna_error err = fresh_error();
            char value[200];
            size_t size;
            CHECK_EQ(bzna_dataset_field(dataset, 1, ways[i].field, value, sizeof value, &size, &err), ways[i].status);
            CHECK_CONTAINS(err.message, ways[i].words);
            CHECK_CONTAINS(err.message, "sample 1");
            bzna_dataset_close(dataset);
        }
}

/* Pictures are unpacked on a decoder thread. The others are no pictures, so each sample fails for its own reason. */
TEST(a_picture_that_unpack_refuses_costs_its_own_slot_and_counts_as_not_read)
{
    recorded r = { .lie = 4 };
    bzna_dataset *dataset = open_recorded(&r, 0);
    bzna_loader_config c = { .struct_size = sizeof c };
    bzna_statistics stats = { .struct_size = sizeof stats };
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    bzna_batch_info info;
    c.output.batch_size = RECORD_COUNT;
    c.output.width = c.output.height = 8;
    loader = open_loader(dataset, &c);
    info = next(loader, &batch);
    CHECK_EQ(info.failed, RECORD_COUNT);
    for (int i = 0; i < RECORD_COUNT; i++)
        CHECK_EQ(info.status[i], i == 1 ? BZNA_E_CALLBACK : BZNA_E_CODEC);
    CHECK_EQ(bzna_loader_statistics(loader, &stats, sizeof stats, NULL), BZNA_OK);
    CHECK(stats.failed_read == 1 && stats.failed_other == 0);
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

static void refuse(const described *d, bzna_status status, const char *words)
{
    bzna_error err = fresh_error();
    bzna_dataset *dataset = (bzna_dataset *)(uintptr_t)1;
    CHECK_EQ(bzna_dataset_open_provider(context, &d->provider, NULL, &dataset, &err), status);
    CHECK_CONTAINS(err.message, words);
    CHECK(!dataset);
}

#define REFUSE(change, status, words) do { describe(&d, &m, 1); change; refuse(&d, status, words); } while (0)

TEST(a_provider_that_cannot_be_is_refused_by_the_name_of_its_member)
{
    static const char *const none[] = { NULL }, *const lost[] = { TEST_BUILD "/tests/no_such_file" };
    static const bzna_place place;
    model m = { .mode = NOTHING };
    described d;
    files_write(&m);
    REFUSE(d.provider.struct_size = 0, BZNA_E_STRUCT_SIZE, "provider");
    REFUSE(d.provider.count = 0, BZNA_E_NO_SAMPLES, "provider.count");
    REFUSE(d.provider.count = UINT64_MAX, BZNA_E_LIMIT, "provider.count");
    REFUSE(d.provider.fields = NULL, BZNA_E_ARGUMENT, "provider.fields");
    REFUSE(d.provider.field_count = 0, BZNA_E_ARGUMENT, "provider.fields");
    REFUSE(d.provider.field_count = 65, BZNA_E_ARGUMENT, "provider.fields");
    REFUSE(d.provider.read = NULL, BZNA_E_ARGUMENT, "provider.fields[1].located: it is 0, and provider.read is NULL");
    REFUSE(d.provider.locate = NULL, BZNA_E_ARGUMENT, "[0].located: provider.locate and provider.places are NULL");
    REFUSE(d.provider.places = &place, BZNA_E_ARGUMENT, "provider.places: has no effect together with locate");
    REFUSE(d.provider.files = NULL, BZNA_E_ARGUMENT, "provider.files");
    REFUSE(d.provider.files = none; d.provider.file_count = 1, BZNA_E_ARGUMENT, "provider.files[0]: is NULL");
    REFUSE(d.provider.files = lost; d.provider.file_count = 1, BZNA_E_NOT_FOUND, "no_such_file");
    REFUSE(d.provider.file_count = UINT64_MAX, BZNA_E_LIMIT, "provider.files: no array has");
    REFUSE(d.provider.class_count = 1, BZNA_E_ARGUMENT, "classes");
    REFUSE(d.provider.classes = none; d.provider.class_count = 1, BZNA_E_ARGUMENT, "provider.classes[0]");
    REFUSE(d.provider.reserved[1] = 1, BZNA_E_STRUCT_SIZE, "provider.reserved[1]: ");
    REFUSE(d.fields[2].reserved0 = 1, BZNA_E_STRUCT_SIZE, "provider.fields[2].reserved0: ");
    REFUSE(d.fields[2].reserved[1] = 1, BZNA_E_STRUCT_SIZE, "provider.fields[2].reserved[1]: ");
    REFUSE(d.fields[1].name = "\xed\xa0\x80", BZNA_E_ARGUMENT, "[1].name: it must have 1 to 31 bytes of UTF-8");
    REFUSE(d.fields[2].kind = 0, BZNA_E_ARGUMENT, "provider.fields[2].kind: 0");
    REFUSE(d.fields[2].kind = 6, BZNA_E_ARGUMENT, "provider.fields[2].kind: 6");
    REFUSE(d.fields[2].located = 2, BZNA_E_ARGUMENT, "provider.fields[2].located: neither 0 nor 1");
    REFUSE(d.fields[2].codec = BZNA_CODEC_RAW, BZNA_E_ARGUMENT, "provider.fields[2].codec: it describes pictures only");
    REFUSE(d.fields[2].name = NULL, BZNA_E_ARGUMENT, "provider.fields[2].name");
    REFUSE(d.fields[2].name = "", BZNA_E_ARGUMENT, "provider.fields[2].name");
    REFUSE(d.fields[2].name = "a,b", BZNA_E_ARGUMENT, "provider.fields[2].name");
    REFUSE(d.fields[2].name = "a name that is longer than 31 by", BZNA_E_ARGUMENT, "provider.fields[2].name");
    REFUSE(d.fields[2].name = "mask", BZNA_E_ARGUMENT, "provider.fields[2].name: \"mask\" is the name of another");
    REFUSE(d.fields[0].channels = 2, BZNA_E_ARGUMENT, "provider.fields[0].channels: RAW pixels have 1 or 3");
    REFUSE(d.fields[0].layout = 2, BZNA_E_ARGUMENT, "provider.fields[0].layout: 2");
    REFUSE(d.fields[0].width = 0, BZNA_E_ARGUMENT, "provider.fields[0].width: of RAW pixels, it must be 1 to max_");
    REFUSE(d.fields[0].height = 16385, BZNA_E_ARGUMENT, "provider.fields[0].height: of RAW pixels, it must be 1");
    REFUSE(d.fields[0].codec = BZNA_CODEC_RAW + 1, BZNA_E_ARGUMENT, "provider.fields[0].codec: it must be UNKNOWN");
    REFUSE(d.fields[0].codec = BZNA_CODEC_H264, BZNA_E_ARGUMENT, "describe RAW pixels only");
    REFUSE(d.provider.max_bytes = 100, BZNA_E_ARGUMENT, "more bytes than max_bytes");
    REFUSE(d.fields[0].offset = 1, BZNA_E_ARGUMENT, "provider.fields[0].offset: it has an effect with");
    REFUSE(d.fields[2].offset = 1, BZNA_E_ARGUMENT, "offset: they describe RAW pixels only");
    REFUSE(d.provider.unpack = record_unpack, BZNA_E_ARGUMENT, "provider.fields[0].located: provider.unpack gives");
    REFUSE(d.provider.unpack = record_unpack; d.provider.field_count = 1; d.fields[0].located = 0;
           d.fields[0].offset = UINT64_MAX, BZNA_E_ARGUMENT, "no record of max_bytes has the pixels there");
    REFUSE(d.provider.unpack = record_unpack; d.provider.field_count = 1; d.fields[0].located = 0;
           d.provider.read = NULL; d.provider.locate = NULL, BZNA_E_ARGUMENT, "provider.unpack: is set, but neither");
    CHECK_EQ(m.closes, 0);
    CHECK(m.reads == 0 && m.locates == 0);
}

TEST(another_field_of_integers_can_be_the_target)
{
    static const struct { const char *target; bzna_status status; } ways[] = {
        { "other", BZNA_OK }, { "target", BZNA_OK }, { "box", BZNA_E_NOT_FOUND }, { "none", BZNA_E_NOT_FOUND } };
    for (size_t i = 0; i < COUNT(ways); i++) {
        model m = { .mode = NOTHING };
        bzna_dataset_config config = { .struct_size = sizeof config, .target = ways[i].target };
        bzna_error err = fresh_error();
        bzna_dataset *dataset = NULL;
        int64_t target = 0;
        described d;
        describe(&d, &m, 0);
        d.fields[TARGET].name = i == 1 ? "target" : "other";
        CHECK_EQ(bzna_dataset_open_provider(context, &d.provider, &config, &dataset, &err), ways[i].status);
        CHECK(!dataset == !!ways[i].status);
        if (dataset)
            CHECK(bzna_dataset_target(dataset, 5, &target, NULL) == BZNA_OK && target == 16);
        else
            CHECK_CONTAINS(err.message, "dataset_config.target: there is no field of integers");
        bzna_dataset_close(dataset);
        CHECK_EQ(m.closes, ways[i].status == BZNA_OK);
    }
}

TEST(classes_have_the_names_that_a_provider_gives)
{
    const char *const names[] = { "ant", "bee" };
    model m = { .mode = NOTHING };
    bzna_dataset *dataset;
    char name[8];
    described d;
    describe(&d, &m, 0);
    d.provider.classes = names;
    d.provider.class_count = 2;
    dataset = open_described(&d);
    CHECK_EQ(bzna_dataset_class(dataset, 1, name, sizeof name, NULL, NULL), BZNA_OK);
    CHECK_STR(name, "bee");
    CHECK_EQ(bzna_dataset_class(dataset, 2, name, sizeof name, NULL, NULL), BZNA_E_RANGE);
    bzna_dataset_close(dataset);
}

TEST(a_state_is_restored_only_with_the_same_fingerprint_and_fields)
{
    for (int change = 0; change < 5; change++) {
        model m = { .mode = NOTHING };
        bzna_loader_config c = config_of();
        bzna_loader_state state = { .struct_size = sizeof state };
        bzna_error err = fresh_error();
        for (int again = 0; again < 2; again++) {
            bzna_dataset *dataset;
            bzna_loader *loader;
            described d;
            describe(&d, &m, change == 1 && again ? 3 : 0); /* how values are got does not matter */
            d.provider.fingerprint += again && change == 2;
            d.provider.count -= again && change == 3;
            d.fields[BLOB].kind = again && change == 4 ? BZNA_FIELD_TEXT : BZNA_FIELD_BYTES;
            files_write(&m);
            dataset = open_described(&d);
            loader = open_loader(dataset, &c);
            if (!again)
                CHECK_EQ(bzna_loader_save(loader, &state, sizeof state, NULL), BZNA_OK);
            else
                CHECK_EQ(bzna_loader_restore(loader, &state, &err), change < 2 ? BZNA_OK : BZNA_E_ARGUMENT);
            bzna_loader_close(loader);
            bzna_dataset_close(dataset);
        }
    }
}

/* ---- Frames ------------------------------------------------------------------------------------------------------ */

static bzna_status frame_read(void *user, uint64_t index, uint32_t field, void *buffer, uint64_t capacity,
                              uint64_t *size, bzna_error *err)
{
    (void)err;
    size_t needed = 0;
    bzna_status status = bzna_dataset_field(user, index, "image", buffer, (size_t)capacity, &needed, NULL);
    (void)field;
    *size = needed;
    return status;
}

/* Streams of H.264 and H.265, as bzna_dataset_field gives them, decode as they do in their archive. */
TEST(streams_of_frames_decode_as_in_their_archive)
{
#ifdef BENZINA_NO_AVCODEC
    SKIP("built without libavcodec [libavcodec-dev]");
#endif
    enum { EDGE = 64 };
    static const char *const paths[] = { "tests/data/mini_h264.bzna", "tests/data/mini_h265.bzna" };
    for (uint32_t k = 0; k < 2; k++) {
        const bzna_provider_field field = { .name = "image", .kind = BZNA_FIELD_IMAGE, .codec = BZNA_CODEC_H264 + k };
        bzna_dataset *archive = NULL, *dataset;
        bzna_loader *loaders[2];
        bzna_loader_config c = config_of();
        bzna_batch *batches[2];
        int compared = 0;
        described d = { .provider = { .struct_size = sizeof d.provider, .fields = &field, .field_count = 1,
                                      .read = frame_read } };
        REQUIRE(bzna_dataset_open(context, paths[k], NULL, &archive, NULL) == BZNA_OK);
        d.provider.user = archive;
        d.provider.count = bzna_dataset_count(archive);
        dataset = open_described(&d);
        c.fields.tensors = c.fields.bytes = NULL;
        c.fields.image = "image";
        c.output.width = c.output.height = EDGE;
        c.output.batch_size = 2;
        loaders[0] = open_loader(archive, &c);
        loaders[1] = open_loader(dataset, &c);
        while (bzna_loader_next(loaders[0], BZNA_WAIT_FOREVER, &batches[0], NULL) == BZNA_OK) {
            const bzna_batch_info a = next(loaders[1], &batches[1]);
            bzna_batch_info b = { .struct_size = sizeof b };
            bzna_batch_get_info(batches[0], &b, sizeof b, NULL);
            REQUIRE(a.count == b.count);
            CHECK_EQ(a.failed, 0);
            for (uint32_t i = 0; i < a.count; i++) {
                bzna_image_info in = { .struct_size = sizeof in };
                bzna_dataset_image_info(archive, a.indices[i], "image", &in, sizeof in, NULL);
                if (in.width == in.frame_width && in.height == in.frame_height) {   /* else the archive crops it */
                    compared++;
                    CHECK(!memcmp((const float *)a.image.data + i * EDGE * EDGE * 3,
                                  (const float *)b.image.data + i * EDGE * EDGE * 3, EDGE * EDGE * 3 * sizeof(float)));
                }
            }
            bzna_batch_release(batches[0]);
            bzna_batch_release(batches[1]);
        }
        CHECK(compared > 0);
        for (int i = 0; i < 2; i++)
            bzna_loader_close(loaders[i]);
        bzna_dataset_close(dataset);
        bzna_dataset_close(archive);
    }
}

TEST_MAIN(
    if (bzna_context_open(NULL, &context, NULL) != BZNA_OK)
        return 1;
    RUN(values_of_every_kind_arrive_as_they_are_read_or_located)
    RUN(pictures_that_are_files_are_told_apart_by_their_content)
    RUN(samples_can_be_looked_at) RUN(a_picture_that_lies_in_memory_begins_at_its_byte_0)
    RUN(a_provider_that_fails_or_lies_costs_its_slot)
    RUN(a_provider_may_say_what_it_is_and_how_large_its_files_are)
    RUN(more_than_max_bytes_is_a_lie)
    RUN(a_read_that_fails_with_e_io_is_tried_again)
    RUN(a_file_that_is_gone_is_no_missing_value)
    RUN(a_place_that_changes_between_calls_is_read_as_it_was_said)
    RUN(a_transform_that_fails_ends_the_run_over_a_provider)
    RUN(errors_can_replace_a_provider_s_sample_or_end_the_run)
    RUN(samples_of_any_size_fit_under_the_ceiling_of_memory)
    RUN(no_lock_is_held_while_a_provider_runs)
    RUN(a_record_is_read_once_and_holds_all_fields) RUN(records_that_cannot_be_cost_their_samples)
    RUN(a_picture_that_unpack_refuses_costs_its_own_slot_and_counts_as_not_read)
    RUN(a_provider_that_cannot_be_is_refused_by_the_name_of_its_member)
    RUN(another_field_of_integers_can_be_the_target)
    RUN(classes_have_the_names_that_a_provider_gives)
    RUN(a_state_is_restored_only_with_the_same_fingerprint_and_fields)
    RUN(streams_of_frames_decode_as_in_their_archive)
    bzna_context_close(context);
)
