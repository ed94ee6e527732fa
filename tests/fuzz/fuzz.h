/* fuzz.h - what the fuzz targets share: targets, numbers taken from an input, memory that is counted, sources, and all
 * that can be asked of a data set. Include behind benzina.c. */
#ifndef BENZINA_FUZZ_H
#define BENZINA_FUZZ_H

#include "program.h"

/* ---- Bytes and numbers ---- */

typedef struct bytes {
    const uint8_t *data;
    uint64_t       size;
} bytes;

/* Numbers from an input; zeros where it has ended. */
static uint32_t take(bytes *b, uint32_t count)
{
    uint32_t value = 0;
    for (uint32_t n = count - 1; n && b->size; n >>= 8, b->data++, b->size--)
        value = value << 8 | *b->data;
    return count ? value % count : 0;
}

/* So many of the next bytes, or as many as there are. */
static bytes take_bytes(bytes *b, uint64_t size)
{
    const bytes taken = { b->data, bzi_min(size, b->size) };
    b->data += taken.size;
    b->size -= taken.size;
    return taken;
}

/* A copy of exactly its size, so that a sanitizer sees every step outside; to be freed. */
static uint8_t *copied(bytes b)
{
    uint8_t *copy = malloc((size_t)b.size + !b.size);
    FUZZ_CHECK(copy);
    if (b.size)
        memcpy(copy, b.data, (size_t)b.size);
    return copy;
}

/* ---- Memory ---- */

typedef struct ledger {
    _Atomic int64_t held, peak;       /* bytes */
    _Atomic int64_t fail_at;          /* the call that fails, counted from now; 0: none */
} ledger;

static ledger fuzz_ledger;

static void *ledger_alloc(void *user, size_t size, size_t align)
{
    ledger *l = user;
    void *p = l->fail_at && --l->fail_at == 0 ? NULL : bzi_os_alloc(NULL, size, align);
    const int64_t more = p ? (int64_t)size : 0, now = atomic_fetch_add(&l->held, more) + more;
    if (now > l->peak)                                      /* threads may lose one of two peaks */
        l->peak = now;
    return p;
}

static void ledger_release(void *user, void *ptr, size_t size)
{
    ((ledger *)user)->held -= (int64_t)size;
    free(ptr);
}

#ifdef BENZINA_TEST_HEIF_H
/* The codecs of examples/formats that the program has: that of HEIF is the first. */
enum { FUZZ_CODECS = 7 };

static uint32_t fuzz_codecs(bzna_codec codecs[FUZZ_CODECS])
{
    bzna_formats_heif(&codecs[0]);
#ifdef FUZZ_FORMATS
    bzna_formats_gif(&codecs[1]);
    bzna_formats_bmp(&codecs[2]);
    bzna_formats_pnm(&codecs[3]);
    bzna_formats_tiff(&codecs[4]);
    bzna_formats_jpeg2000(&codecs[5]);
    bzna_formats_jxl(&codecs[6]);
    return 7;
#else
    return 1;
#endif
}
#endif

static bzna_context *fuzz_context_open(int32_t device, uint32_t no_threads)
{
    bzna_context_config config;
    bzna_context_config_init(&config, sizeof config);
    config.allocator.user = &fuzz_ledger;
    config.allocator.alloc = ledger_alloc;
    config.allocator.release = ledger_release;
    config.device.kind = device;
    config.max_edge_px = 4096;
    config.max_sample_bytes = 1 << 20;
    config.sessions = 2;
    config.no_threads = no_threads;
    bzna_context *context = NULL;
#ifdef BENZINA_TEST_HEIF_H
    bzna_codec codecs[FUZZ_CODECS];
    config.own_codecs.count = fuzz_codecs(codecs);
    config.own_codecs.ptr = codecs;
#endif
    bzna_context_open(&config, &context, NULL);
    return context;
}

/* One that lasts as long as the program; it starts no threads. */
static bzna_context *fuzz_context(void)
{
    static bzna_context *context;
    if (!context)
        context = fuzz_context_open(BZNA_DEVICE_CPU, 1);
    FUZZ_CHECK(context);
    return context;
}

/* ---- Sources ---- */

typedef struct source {
    bytes           b;
    _Atomic int64_t read;             /* bytes so far */
    _Atomic int64_t fail_at;          /* the read that fails, or is short, counted from now; 0: none */
    int64_t         result;           /* what it returns then, if below 0 */
    _Atomic int     closes;
} source;

static int64_t source_read_at(void *user, uint64_t offset, void *dst, uint64_t size)
{
    source *s = user;
    if (s->fail_at && --s->fail_at == 0) {
        if (s->result < 0)
            return s->result;
        size -= size / 2;
    }
    if (offset >= s->b.size)
        return 0;
    size = bzi_min(size, s->b.size - offset);
    memcpy(dst, s->b.data + offset, (size_t)size);
    s->read += (int64_t)size;
    return (int64_t)size;
}

static int64_t source_size(void *user) { return (int64_t)((source *)user)->b.size; }
static void source_close(void *user) { ((source *)user)->closes++; }

static bzna_source source_of(source *s)
{
    return (bzna_source){ sizeof(bzna_source), 0, s, source_read_at, source_size, source_close, NULL };
}

/* ---- All that can be asked of a data set ---- */

/* The most that opening a file takes and reads: so much, and so much for each byte of the file. */
#define FUZZ_OPEN_BYTES 524288
#define FUZZ_OPEN_RATIO 512

static bzna_decoder *fuzz_decoder;    /* NULL: nothing is decoded */

/* What the decoder keeps between pictures. */
static int64_t fuzz_decoder_bytes(void)
{
    uint64_t kept = 0;
#if !defined(BENZINA_NO_AVCODEC) || !defined(BENZINA_NO_JPEG)
    if (!fuzz_decoder)
        return 0;
    const bzi_software *s = &fuzz_decoder->software;
    kept = s->stream.capacity + s->keys.key.capacity + s->pixels.capacity;
    kept += s->own.pixels.capacity + s->own.again.capacity;
    for (uint32_t i = 0; i < BZI_LENGTH(s->own.copies); i++)
        kept += s->own.copies[i].capacity;
#  ifndef BENZINA_NO_JPEG
    kept += s->turbo.pixels.capacity;
#  endif
    for (uint32_t i = 0; i < BZI_LRU_SLOTS; i++)
        kept += s->keys.slots[i].key.capacity;
#endif
    return (int64_t)kept;
}

/* One field of a sample, into a buffer of exactly the size that is asked for. */
static void look_at_field(const bzna_dataset *dataset, uint64_t i, const char *name)
{
    bzna_error err = { .struct_size = sizeof err };
    size_t needed = 0;
    uint8_t *value;
    bzna_dataset_field(dataset, i, name, NULL, 0, &needed, &err);
    FUZZ_CHECK(needed < UINT64_C(1) << 40);
    if ((value = malloc(needed + !needed)))
        if (bzna_dataset_field(dataset, i, name, value, needed, NULL, &err) == BZNA_OK && !strcmp(name, "name"))
            FUZZ_CHECK(memchr(value, 0, needed));
    free(value);
}

static void look_at_fields(const bzna_dataset *dataset, uint64_t i)
{
    bzna_error err = { .struct_size = sizeof err };
    bzna_field_info field = { .struct_size = sizeof field };
    int64_t target;
    bzna_dataset_target(dataset, i, &target, &err);
    for (uint32_t k = 0; bzna_dataset_field_info(dataset, k, &field, sizeof field, NULL) == BZNA_OK; k++)
        look_at_field(dataset, i, field.name);
    look_at_field(dataset, i, "image");
    look_at_field(dataset, i, "name");
}

/* What is done with a picture before it is decoded: its headers, a decoder's key, and a stream of exactly its size. */
static void look_at_headers(const bzna_image *image)
{
    bzna_error err = { .struct_size = sizeof err };
    bzna_picture picture = { .struct_size = sizeof picture };
    const bzi_codec *codec = bzi_codec_find(image->codec);
    const bzi_image alone = bzi_image_alone(image);
    bzi_format format;
    size_t needed = 0;
    uint8_t *stream;
    bzi_picture_describe(&alone, 4096, &format, &picture, &err);
    bzna_image_annexb(image, NULL, 0, &needed, &err);
    FUZZ_CHECK(needed <= 4 * (image->data_size + image->config_size) + 4096);
    stream = malloc(needed + !needed);
    if (stream && bzna_image_annexb(image, stream, needed, NULL, &err) == BZNA_OK && codec && codec->cut) {
        const uint32_t rows[2] = { 16, 32 };                /* as a loader decodes a part of it */
        FUZZ_CHECK(codec->cut(stream, needed, rows) <= needed);
    }
    free(stream);
}

static void look_at_image(const bzna_dataset *dataset, uint64_t i, const char *field, bytes room)
{
    bzna_error err = { .struct_size = sizeof err };
    bzna_image image = { .struct_size = sizeof image };
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_image_info numbers;
    bzna_dataset_image_info(dataset, i, field, &numbers, sizeof numbers, &err);
    if (bzna_dataset_read_image(dataset, i, field, (void *)(uintptr_t)room.data, (size_t)room.size, &image, &err) !=
        BZNA_OK)
        return;
    look_at_headers(&image);
    if (fuzz_decoder)
        bzna_decoder_decode(fuzz_decoder, &image, &picture, &err);
}

/* The pictures by the names that all kinds of data sets know, and those of fields. */
static void look_at_images(const bzna_dataset *dataset, const bzna_sample_ref *sample)
{
    bzna_field_info field = { .struct_size = sizeof field };
    const size_t size = (size_t)sample->size;
    uint8_t *buffer = malloc(size + !size);
    const bytes room = { buffer, size };
    if (!buffer)
        return;
    look_at_image(dataset, sample->index, "image", room);
    look_at_image(dataset, sample->index, "thumb", room);
    for (uint32_t k = 0; bzna_dataset_field_info(dataset, k, &field, sizeof field, NULL) == BZNA_OK; k++)
        if (field.kind == BZNA_FIELD_BYTES || field.kind == BZNA_FIELD_IMAGE)
            look_at_image(dataset, sample->index, field.name, room);
    free(buffer);
}

static void look_at_dataset(bzna_dataset *dataset, uint64_t size)
{
    const uint64_t count = bzi_min(bzna_dataset_count(dataset), 64);
    bzna_error err = { .struct_size = sizeof err };
    bzna_dataset_info info;
    bzna_track_info track;
    char text[64];
    FUZZ_CHECK(bzna_dataset_get_info(dataset, &info, sizeof info, &err) == BZNA_OK);
    for (uint32_t k = 0; bzna_dataset_track_info(dataset, k, &track, sizeof track, NULL) == BZNA_OK; k++)
        FUZZ_CHECK(memchr(track.name, 0, sizeof track.name));
    bzi_dataset_fingerprint(dataset);
    for (int64_t k = -1; k < 3; k++)
        bzna_dataset_class(dataset, k, text, sizeof text, NULL, &err);
    for (uint64_t i = 0; i < count; i++) {
        bzna_sample_ref sample = { .struct_size = sizeof sample };
        look_at_fields(dataset, i);
        if (bzna_dataset_sample(dataset, i, &sample, sizeof sample, NULL) != BZNA_OK)
            continue;
        FUZZ_CHECK(sample.size <= size);
        look_at_images(dataset, &sample);
    }
    bzna_dataset_close(dataset);
}

/* Opens the bytes, read by a source and then as memory, which take other ways. Memory and reads are bounded. */
static void look_at_file(bytes b, const bzna_dataset_config *config)
{
    const int64_t bound = FUZZ_OPEN_BYTES + FUZZ_OPEN_RATIO * (int64_t)b.size, before = fuzz_ledger.held;
    bzna_error err = { .struct_size = sizeof err };
    source s = { .b = b };
    bzna_source callbacks = source_of(&s);
    bzna_dataset *dataset = NULL;
    bzna_status status;
    fuzz_ledger.peak = before;
    status = bzna_dataset_open_source(fuzz_context(), &callbacks, config, &dataset, &err);
    FUZZ_CHECK(fuzz_ledger.peak - before <= bound && s.read <= bound);
    FUZZ_CHECK((status == BZNA_OK) == (dataset != NULL) && (status == BZNA_OK || err.message[0]));
    if (dataset)
        look_at_dataset(dataset, b.size);
    FUZZ_CHECK(s.closes == (status == BZNA_OK));
    if (bzna_dataset_open_memory(fuzz_context(), b.data, (size_t)b.size, config, &dataset, &err) == BZNA_OK)
        look_at_dataset(dataset, b.size);
}

#endif
