/* writers.h - the round trip: samples that an input describes are written, in order or not, the archive is read, and
 * every value is what was given. What the writer refuses is left out. Include behind mutate.h. */
#ifndef BENZINA_FUZZ_WRITERS_H
#define BENZINA_FUZZ_WRITERS_H

enum { WRITE_SAMPLES = 3, WRITE_FIELDS = 3 };

typedef struct written {
    bzna_writer_sample sample;
    bzna_field_value   fields[WRITE_FIELDS];
    bzna_image         image, thumb;
    char               name[24];
    int                taken;
} written;

typedef struct memory_sink {
    uint8_t *data;
    uint64_t size, capacity;
} memory_sink;

static bzna_status sink_write_at(void *user, uint64_t offset, const void *src, uint64_t size)
{
    memory_sink *s = user;
    if (offset + size > s->capacity) {
        s->capacity = 2 * (offset + size);
        FUZZ_CHECK(s->data = realloc(s->data, (size_t)s->capacity));
    }
    if (offset > s->size)
        memset(s->data + s->size, 0, (size_t)(offset - s->size));
    memcpy(s->data + offset, src, (size_t)size);
    s->size = offset + size > s->size ? offset + size : s->size;
    return BZNA_OK;
}

/* A JPEG: its size and, behind the headers, bytes of the input. */
static size_t small_jpeg(bytes *b, uint8_t *out)
{
    static const uint8_t head[] = {
        0xff, 0xd8, 0xff, 0xdb, 0, 67, 0 /* 64 bytes of quantization */ },
        frame[] = { 0xff, 0xc0, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0, 0xff, 0xc4, 0, 20, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
                    0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xc4, 0, 20, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                    0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0 };
    size_t size = 0;
    const bytes coded = take_bytes(b, 1 + take(b, 16));
    memcpy(out, head, sizeof head);
    memset(out + sizeof head, 1 + (int)take(b, 250), 64);
    size = sizeof head + 64;
    memcpy(out + size, frame, sizeof frame);
    out[size + 6] = (uint8_t)(1 + take(b, 255));
    out[size + 8] = (uint8_t)(1 + take(b, 255));
    size += sizeof frame;
    for (uint64_t i = 0; i < coded.size; i++)
        out[size++] = coded.data[i] & 0x7f;
    out[size++] = 0;
    out[size++] = 0xff;
    out[size++] = 0xd9;
    return size;
}

/* Pictures to choose from, as archives hold them: the writer leaves out parameter sets that stand in the config, too.
 * The configs are the data sets', which stay open. */
static const bzna_image *small_videos(uint32_t *count)
{
    static const char *const paths[] = { "tests/data/seeds/h264.bzna", "tests/data/seeds/h265.bzna",
                                         "tests/data/seeds/av1.mp4", "tests/data/slices_h264.bzna" };
    static uint8_t memory[4][1 << 16];
    static bzna_dataset *open[4];
    static bzna_image images[4];
    static uint32_t found;
    static int asked;
    for (int i = 0; i < 4 && !asked; i++) {
        images[found].struct_size = sizeof images[found];
        if (bzna_dataset_open(fuzz_context(), paths[i], NULL, &open[i], NULL) == BZNA_OK &&
            bzna_dataset_read_image(open[i], 0, "image", memory[i], sizeof memory[i], &images[found], NULL) == BZNA_OK)
            found++;
    }
    asked = 1;
    *count = found;
    return images;
}

static void write_image(bytes *b, bzna_image *image, uint8_t *memory)
{
    uint32_t count;
    const bzna_image *videos = small_videos(&count);
    const uint32_t which = take(b, count + 2);
    if (which < count) {
        *image = videos[which];
        return;
    }
    *image = (bzna_image){ .struct_size = sizeof *image, .codec = BZNA_CODEC_JPEG, .data = memory };
    image->data_size = small_jpeg(b, memory);
}

static void write_field(bytes *b, bzna_field_value *value, uint32_t number, uint8_t memory[64])
{
    static const char *const names[] = { "label", "caption", "blob" };
    static const uint32_t kinds[] = { BZNA_FIELD_INTEGER, BZNA_FIELD_TEXT, BZNA_FIELD_BYTES };
    const bytes taken = take_bytes(b, take(b, 40));
    memset(memory, 'x', 64);
    if (taken.size)
        memcpy(memory, taken.data, (size_t)taken.size);
    if (number == 1)                                        /* text is UTF-8 without NUL */
        for (uint64_t i = 0; i < taken.size; i++)
            memory[i] = (uint8_t)(32 + memory[i] % 90);
    *value = (bzna_field_value){ .struct_size = sizeof *value, .kind = kinds[number], .name = names[number],
                                 .data = memory, .size = number ? taken.size : 8 };
}

static void check_bytes(const bzna_dataset *dataset, uint64_t i, const char *name, const void *data, uint64_t size)
{
    uint8_t got[1 << 10];
    size_t needed = 0;
    FUZZ_CHECK(bzna_dataset_field(dataset, i, name, got, sizeof got, &needed, NULL) == BZNA_OK);
    FUZZ_CHECK(needed == size && !memcmp(got, data, (size_t)size));
}

/* Two images are the same stream. */
static void check_image(const bzna_dataset *dataset, uint64_t i, const char *field, const bzna_image *given)
{
    static uint8_t buffer[1 << 17], was[1 << 16], is[1 << 16];
    bzna_image image = { .struct_size = sizeof image };
    size_t a = 0, b = 0;
    FUZZ_CHECK(bzna_dataset_read_image(dataset, i, field, buffer, sizeof buffer, &image, NULL) == BZNA_OK);
    FUZZ_CHECK(bzna_image_annexb(given, was, sizeof was, &a, NULL) == BZNA_OK);
    FUZZ_CHECK(bzna_image_annexb(&image, is, sizeof is, &b, NULL) == BZNA_OK);
    FUZZ_CHECK(image.codec == given->codec && a == b && !memcmp(was, is, a));
}

static void check_archive(const memory_sink *sink, const written *samples, uint32_t count)
{
    bzna_dataset *dataset = NULL;
    uint64_t at = 0;
    int64_t target;
    int has_target;
    FUZZ_CHECK(bzna_dataset_open_memory(fuzz_context(), sink->data, (size_t)sink->size, NULL, &dataset, NULL) ==
               BZNA_OK);
    for (uint32_t i = 0; i < count; i++) {
        const bzna_writer_sample *s = &samples[i].sample;
        if (!samples[i].taken)
            continue;
        check_image(dataset, at, "image", s->image);
        if (s->thumb)
            check_image(dataset, at, "thumb", s->thumb);
        has_target = bzna_dataset_target(dataset, at, &target, NULL) == BZNA_OK && target != BZNA_TARGET_NONE;
        FUZZ_CHECK(has_target == (s->has_target != 0));
        FUZZ_CHECK(!has_target || target == s->target);
        if (s->name)
            check_bytes(dataset, at, "name", s->name, strlen(s->name) + 1);
        for (uint32_t f = 0; f < s->field_count; f++)
            if (s->fields[f].kind != BZNA_FIELD_TEXT)
                check_bytes(dataset, at, s->fields[f].name, s->fields[f].data, s->fields[f].size);
        at++;
    }
    FUZZ_CHECK(bzna_dataset_count(dataset) == at);
    bzna_dataset_close(dataset);
}

static void run_writer(const uint8_t *data, size_t size)
{
    static written samples[WRITE_SAMPLES];
    static uint8_t pictures[WRITE_SAMPLES][2][1 << 10], values[WRITE_SAMPLES][WRITE_FIELDS][64];
    static const char *const classes[] = { "cat", "dog", "" };
    bytes b = { data, size };
    const uint32_t count = 1 + take(&b, WRITE_SAMPLES), shuffled = take(&b, 2);
    memory_sink memory = { NULL, 0, 0 };
    const bzna_sink sink = { sizeof sink, 0, &memory, sink_write_at, NULL };
    bzna_error err = { .struct_size = sizeof err };
    bzna_writer_config config;
    bzna_writer *writer = NULL;
    bzna_status status;
    uint32_t kept = 0;
    bzna_writer_config_init(&config, sizeof config);
    config.classes = classes;
    config.class_count = take(&b, 4);
    if (config.class_count > 2 || bzna_writer_open_sink(fuzz_context(), &sink, &config, &writer, &err) != BZNA_OK)
        config.class_count = 0;
    if (!writer)
        FUZZ_CHECK(bzna_writer_open_sink(fuzz_context(), &sink, NULL, &writer, &err) == BZNA_OK);
    for (uint32_t n = 0; n < count; n++) {
        const uint32_t i = shuffled ? count - 1 - n : n;
        written *w = &samples[i];
        memset(w, 0, sizeof *w);
        w->sample = (bzna_writer_sample){ .struct_size = sizeof w->sample, .image = &w->image, .fields = w->fields };
        write_image(&b, &w->image, pictures[i][0]);
        if (take(&b, 4) == 0) {
            write_image(&b, &w->thumb, pictures[i][1]);
            w->sample.thumb = &w->thumb;
        }
        w->sample.split = take(&b, 4);
        w->sample.has_target = take(&b, 8) != 0;
        w->sample.target = w->sample.has_target ? (int64_t)take(&b, 1 << 20) - (1 << 18) : 0;
        snprintf(w->name, sizeof w->name, "%.*s%u", (int)take(&b, 10), "folder/a.b", i);
        w->sample.name = take(&b, 4) ? w->name : NULL;
        w->sample.field_count = take(&b, WRITE_FIELDS + 1);
        for (uint32_t f = 0; f < w->sample.field_count; f++)
            write_field(&b, &w->fields[f], f, values[i][f]);
        status = shuffled ? bzna_writer_add(writer, i, &w->sample, 0, &err) :
                            bzna_writer_add(writer, BZNA_INDEX_NEXT, &w->sample, 0, &err);
        w->taken = status == BZNA_OK;
        if (!w->taken && shuffled)
            FUZZ_CHECK(bzna_writer_add(writer, i, NULL, 0, &err) == BZNA_OK);
        kept += (uint32_t)w->taken;
    }
    status = bzna_writer_finish(writer, &err);
    bzna_writer_close(writer);
    FUZZ_CHECK(status == (kept ? BZNA_OK : BZNA_E_NO_SAMPLES));
    if (kept)
        check_archive(&memory, samples, count);
    free(memory.data);
}

static void seeds_writer(fuzz_give *give, void *user)
{
    uint8_t input[300];
    for (uint32_t n = 0; n < 8; n++) {
        for (uint32_t i = 0; i < sizeof input; i++)
            input[i] = (uint8_t)((i + 1) * (n + 3) * 2654435761u >> 20);
        give(user, input, sizeof input);
    }
}

#endif
