/* fuzz_archive.c - hostile archives and pictures: open, list and decode whatever bytes come. Nothing may crash, hang,
 * leak or read where it should not.
 *
 * With clang -fsanitize=fuzzer (-DBENZINA_LIBFUZZER) this is a libFuzzer target; with -DBENZINA_NO_AVCODEC, too, one
 * that does all but decoding, which makes it about twice as fast. Otherwise a plain driver:
 *     fuzz_archive corrupt FILE FIRST COUNT STEP    a byte changed: corruptions FIRST, FIRST + STEP, ... below COUNT
 *     fuzz_archive parse FILE FIRST COUNT STEP      the same without decoding
 *     fuzz_archive replay FILE...                   files as they are
 * Corruption n of a file is the same on every machine: place and value are Philox numbers of seed n. */
#include "../benzina.c"
#include <time.h>

typedef struct bytes { const uint8_t *data; uint64_t size; } bytes;
typedef struct ledger { uint64_t count, held; } ledger;

static int64_t bytes_read_at(void *user, uint64_t offset, void *dst, uint64_t size)
{
    const bytes *b = user;
    if (offset >= b->size)
        return 0;
    size = size < b->size - offset ? size : b->size - offset;
    memcpy(dst, b->data + offset, (size_t)size);
    return (int64_t)size;
}

static int64_t bytes_size(void *user) { return (int64_t)((const bytes *)user)->size; }

static void *ledger_alloc(void *user, size_t size, size_t align)
{
    ledger *l = user;
    void *p = bzi_os_alloc(NULL, size, align);
    l->count += p != NULL;
    l->held += p ? size : 0;
    return p;
}

static void ledger_release(void *user, void *ptr, size_t size)
{
    ((ledger *)user)->held -= size;
    free(ptr);
}

/* The samples that overlap [at, at + 1) are decoded, or all when at is UINT64_MAX. */
typedef struct explorer { bzna_context *context; bzna_decoder *decoder; uint64_t at; int pictures; } explorer;

/* One field of sample i, into a buffer of exactly the size that is asked for. */
static void look_up_field(const bzna_dataset *dataset, uint64_t i, const char *name)
{
    bzna_error err = { .struct_size = sizeof err };
    size_t needed = 0;
    uint8_t *value;
    bzna_dataset_field(dataset, i, name, NULL, 0, &needed, &err);
    if ((value = malloc(needed + !needed)))
        bzna_dataset_field(dataset, i, name, value, needed, NULL, &err);
    free(value);
}

/* All that is known of sample i beside its pictures, into buffers of exactly the size that is asked for. */
static void look_up(const bzna_dataset *dataset, uint64_t i)
{
    bzna_error err = { .struct_size = sizeof err };
    bzna_field_info field = { .struct_size = sizeof field };
    size_t needed = 0;
    int64_t target;
    char *name;
    bzna_dataset_target(dataset, i, &target, &err);
    for (uint32_t k = 0; bzna_dataset_field_info(dataset, k, &field, sizeof field, NULL) == BZNA_OK; k++)
        look_up_field(dataset, i, field.name);
    look_up_field(dataset, i, "image");
    bzna_dataset_field(dataset, i, "name", NULL, 0, &needed, &err);
    name = needed ? malloc(needed) : NULL;
    if (name && bzna_dataset_field(dataset, i, "name", name, needed, NULL, &err) == BZNA_OK && strlen(name) >= needed)
        abort();
    free(name);
}

/* What is done with a picture before it is decoded: its headers, and Annex B of exactly the size that is asked for. */
static void prepare(const bzna_image *image)
{
    bzna_error err = { .struct_size = sizeof err };
    bzna_picture picture = { .struct_size = sizeof picture };
    const bzi_image alone = bzi_image_alone(image);
    bzi_format format;
    size_t needed = 0;
    uint8_t *stream;
    bzi_picture_describe(&alone, 4096, &format, &picture, &err);
    bzna_image_annexb(image, NULL, 0, &needed, &err);
    if ((stream = malloc(needed + !needed)) && bzna_image_annexb(image, stream, needed, NULL, &err) == BZNA_OK &&
        image->codec == BZNA_CODEC_H264) {                  /* as a loader decodes a part of it */
        uint32_t rows[2] = { 16, 32 };
        uint64_t left = needed;
        bzi_h264_cut(stream, &left, rows, &err);
    }
    free(stream);
}

static void look_at_pictures(explorer *e, const bzna_dataset *dataset, const bzna_sample_ref *sample)
{
    static const char *const fields[] = { "image", "thumb" };
    bzna_error err = { .struct_size = sizeof err };
    uint64_t i = sample->index;
    uint8_t *buffer = malloc((size_t)sample->size + !sample->size);
    for (int t = 0; t < 2 && buffer; t++) {
        bzna_image image = { .struct_size = sizeof image };
        bzna_image_info numbers;
        bzna_picture picture = { .struct_size = sizeof picture };
        bzna_dataset_image_info(dataset, i, fields[t], &numbers, sizeof numbers, &err);
        if (bzna_dataset_read_image(dataset, i, fields[t], buffer, (size_t)sample->size, &image, &err) != BZNA_OK)
            continue;
        prepare(&image);
        if (e->decoder && (e->at == UINT64_MAX || (e->at >= sample->offset && e->at - sample->offset < sample->size)))
            e->pictures += bzna_decoder_decode(e->decoder, &image, &picture, &err) == BZNA_OK;
    }
    free(buffer);
}

static void explore(explorer *e, bzna_dataset *dataset, uint64_t size)
{
    uint64_t count = bzi_min(bzna_dataset_count(dataset), 1000);
    for (uint64_t i = 0; i < count; i++) {
        bzna_sample_ref sample = { .struct_size = sizeof sample };
        look_up(dataset, i);
        if (bzna_dataset_sample(dataset, i, &sample, sizeof sample, NULL) != BZNA_OK)
            continue;
        if (sample.size > size)
            abort();
        look_at_pictures(e, dataset, &sample);
    }
    bzna_dataset_close(dataset);
}

/* An index of a RecordIO file of so many bytes. */
static void explore_idx(explorer *e, uint64_t size, const uint8_t *text, uint64_t text_size)
{
    const bzi_span span = { text, text_size };
    uint64_t lines = 1;
    bzi_container c;
    bzna_error err;
    memset(&c, 0, sizeof c);
    c.host = e->context->host;
    c.source.size = size;
    c.own = bzi_alloc_zero(&c.host->memory, 1, sizeof(bzi_recordio));
    for (uint64_t i = 0; i < text_size; i++)
        lines += text[i] == '\n';
    if (!c.own)
        return;
    if (bzi_recordio_make(&c, lines, &err) == BZNA_OK && bzi_recordio_parse_idx(&c, span, &err) == BZNA_OK)
        for (uint64_t i = 0; i < c.count; i++) {
            bzi_extent extent = { 0 };
            bzi_recordio_locate(&c, i, &extent, &err);
            if (extent.size == 0 || extent.offset + extent.size > size)
                abort();
        }
    bzi_recordio_close(&c);
    bzi_release(&c.host->memory, c.own, 1, sizeof(bzi_recordio));
}

static void explore_list(explorer *e, const uint8_t *text, uint64_t size)
{
    const bzi_memory *memory = &e->context->host->memory;
    bzi_list list = { .text = bzi_alloc_copy(memory, text, size, 1), .size = size };
    bzna_error err;
    if (list.text && bzi_list_parse(&list, memory, &err) == BZNA_OK && bzi_list_sort(&list, "list", &err) == BZNA_OK)
        for (uint64_t i = 0; i < list.count; i++) {
            const bzi_list_row *row = &list.rows[i];
            if (bzi_list_find(&list, row->index) != row || row->path_at > size ||
                row->path_size > size - row->path_at || row->label_at > list.label_count ||
                row->label_count > list.label_count - row->label_at)
                abort();
        }
    bzi_list_close(&list, memory);
}

/* A tar, and an index that may be of it. */
static void explore_tar_index(explorer *e, const uint8_t *text, uint64_t text_size, bytes tar)
{
    static char name[] = "fuzz.tar";
    const bzi_memory *memory = &e->context->host->memory;
    bzi_container c;
    bzi_tar_build b;
    bzi_tar_index x;
    bzna_error err;
    memset(&c, 0, sizeof c);
    memset(&b, 0, sizeof b);
    c.host = e->context->host;
    c.name = name;
    c.source.path = name;
    c.source.size = tar.size;
    c.source.callbacks = (bzna_source){ sizeof(bzna_source), 0, &tar, bytes_read_at, bytes_size, NULL };
    b.c = &c;
    b.tar = c.own = bzi_alloc_zero(memory, 1, sizeof *b.tar);
    if (!b.tar)
        return;
    memset(&x, 0, offsetof(bzi_tar_index, walk));
    bzi_tar_walk_begin(&x.walk, &c.source, memory, NULL, 0);
    x.p = text;
    x.end = text + text_size;
    if (bzi_tar_parse_index(&b, &x, &err) == BZNA_OK && bzi_tar_finish(&b, &err) == BZNA_OK)
        for (uint64_t i = 0; i < c.count; i++) {
            bzi_extent extent = { 0 };
            if (bzi_tar_locate(&c, i, &extent, &err) == BZNA_OK &&
                (extent.offset > tar.size || extent.size > tar.size - extent.offset))
                abort();
        }
    bzi_tar_walk_end(&x.walk);
    bzi_buffer_free(memory, &b.members);
    bzi_buffer_free(memory, &b.begins);
    bzi_tar_close(&c);
    bzi_release(memory, c.own, 1, sizeof *b.tar);
}

/* The paths that a pattern stands for. No folder is searched: what has wildcards is expanded, not matched. */
static void explore_pattern(explorer *e, const uint8_t *data, uint64_t size)
{
    enum { MOST = 200 };
    char *pattern = malloc((size_t)size + 1);
    bzi_names paths = { .memory = &e->context->host->memory }, texts = paths;
    bzna_error err;
    if (!pattern)
        abort();
    memcpy(pattern, data, (size_t)size);
    pattern[size] = 0;
    size = strlen(pattern);
    if (size < BZI_LIMIT_PATH_BYTES && bzi_brace_check(pattern, &err) == BZNA_OK &&
        bzi_brace_expand(&texts, pattern, 0, 0, &err) == BZNA_OK) {
        for (uint64_t i = 0; i < texts.count; i++)
            if (strlen(bzi_names_get(&texts, i)) > size)
                abort();
        if (texts.count <= MOST && !strpbrk(pattern, "*?["))
            bzi_paths_expand(&paths, pattern, &err);
        bzi_names_free(&paths);
    }
    bzi_names_free(&texts);
    free(pattern);
}

/* What says nothing of itself stands behind a word: "RAW!" and a bzna_records, records; "LST!", a list of samples;
 * "IDX!" and 4 bytes of a file's size, its index; "TIX!" and 4 bytes of an index's size, the index of a tar and the
 * tar; "PAT!", a pattern of paths. Returns 0 where there is none of these words. */
static int explore_tagged(explorer *e, const bytes *b)
{
    const uint64_t head = 4 + sizeof(bzna_records);
    bzna_dataset *dataset = NULL;
    bzna_dataset_config config;
    bzna_records records;
    bzna_source source;
    bytes rest = { b->data + head, b->size - head };
    if (b->size >= 8 && !memcmp(b->data, "IDX!", 4))
        return explore_idx(e, bzi_le32(b->data + 4), b->data + 8, b->size - 8), 1;
    if (b->size >= 4 && !memcmp(b->data, "LST!", 4))
        return explore_list(e, b->data + 4, b->size - 4), 1;
    if (b->size >= 4 && !memcmp(b->data, "PAT!", 4))
        return explore_pattern(e, b->data + 4, b->size - 4), 1;
    if (b->size >= 8 && !memcmp(b->data, "TIX!", 4)) {
        uint64_t text = bzi_min(bzi_le32(b->data + 4), b->size - 8);
        while (text && b->data[8 + text - 1] != '\n')           /* who reads an index puts one behind it */
            text--;
        if (!text)
            return 1;
        rest = (bytes){ b->data + 8 + text, b->size - 8 - text };
        return explore_tar_index(e, b->data + 8, text - 1, rest), 1;
    }
    if (b->size < head || memcmp(b->data, "RAW!", 4))
        return 0;
    memcpy(&records, b->data + 4, sizeof records);
    records.struct_size = sizeof records;
    records.reserved0 = 0;
    bzna_dataset_config_init(&config, sizeof config);
    config.records = &records;
    source = (bzna_source){ sizeof source, 0, &rest, bytes_read_at, bytes_size, NULL };
    if (bzna_dataset_open_source(e->context, &source, &config, &dataset, NULL) == BZNA_OK)
        explore(e, dataset, rest.size);
    if (bzna_dataset_open_memory(e->context, rest.data, (size_t)rest.size, &config, &dataset, NULL) == BZNA_OK)
        explore(e, dataset, rest.size);
    return 1;
}

/* Read as a source and, where nothing is decoded, as bytes in memory, too, which take other ways. */
static void open_and_explore(explorer *e, const bytes *b)
{
    bzna_source source = { sizeof(bzna_source), 0, (void *)(uintptr_t)b, bytes_read_at, bytes_size, NULL };
    bzna_error err = { .struct_size = sizeof err };
    bzna_dataset *dataset = NULL;
    if (explore_tagged(e, b))
        return;
    if (bzna_dataset_open_source(e->context, &source, NULL, &dataset, &err) == BZNA_OK)
        explore(e, dataset, b->size);
    if (!e->decoder && bzna_dataset_open_memory(e->context, b->data, (size_t)b->size, NULL, &dataset, &err) == BZNA_OK)
        explore(e, dataset, b->size);
}

/* The bytes as a picture without a container: what is done with it before it is decoded, and its pixels. */
static void look_at_file(explorer *e, const bytes *b)
{
    const uint32_t codecs[] = { BZNA_CODEC_JPEG, BZNA_CODEC_STILL };
    const uint32_t codec = bzi_codec_recognize((bzi_span){ b->data, b->size });
    for (int i = 0; i < 2 && b->size; i++) {
        bzna_image image = { .struct_size = sizeof image, .codec = codecs[i], .data = b->data, .data_size = b->size };
        bzna_picture picture = { .struct_size = sizeof picture };
        uint8_t *copy = malloc((size_t)b->size);
        prepare(&image);
        if (copy) {
            memcpy(copy, b->data, (size_t)b->size);
            if (bzi_codec_find(codecs[i])->strip(copy, b->size) > b->size)
                abort();
        }
        free(copy);
        image.palette = b->size % 2;
        if (e->decoder && codec == codecs[i])
            e->pictures += bzna_decoder_decode(e->decoder, &image, &picture, NULL) == BZNA_OK;
    }
}

#ifdef BENZINA_NO_AVCODEC
static int decodes = 0;
static uint64_t decoder_bytes(const bzna_decoder *decoder) { (void)decoder; return 0; }
#else
static int decodes = 1;

/* What an open decoder keeps between pictures. */
static uint64_t decoder_bytes(const bzna_decoder *decoder)
{
    uint64_t kept;
    if (!decoder)
        return 0;
    kept = decoder->software.stream.capacity + decoder->software.key.capacity + decoder->software.pixels.capacity;
    kept += decoder->software.canvas.capacity + decoder->software.gathered.capacity;
#ifndef BENZINA_NO_JPEG
    kept += decoder->software.turbo.pixels.capacity + decoder->software.turbo.product.capacity;
#endif
    for (uint32_t i = 0; i < BZI_LRU_SLOTS; i++)
        kept += decoder->software.keys.slots[i].key.capacity;
    return kept;
}
#endif

/* Of a tar: the check sums of what are headers, so that what was changed in them is looked at. */
static void mend(uint8_t *data, size_t size)
{
    if (size < 512 || memcmp(data + 257, "ustar", 5))
        return;
    for (uint8_t *h = data; (size_t)(data + size - h) >= 512; h += 512) {
        unsigned sum = 8 * ' ';
        if (memcmp(h + 257, "ustar", 5))
            continue;
        for (int i = 0; i < 512; i++)
            sum += i >= 148 && i < 156 ? 0 : h[i];
        snprintf((char *)h + 148, 8, "%06o", sum);
        h[155] = ' ';
    }
}

static int run(const uint8_t *data, size_t size, uint64_t at)
{
    static ledger l;
    static bzna_decoder *decoder;
    static bzna_context *context;
    bytes b = { data, size };
    explorer e = { NULL, NULL, at, 0 };
    uint64_t before;
    if (!context) {
        bzna_context_config config;
        bzna_context_config_init(&config, sizeof config);
        config.allocator.user = &l;
        config.allocator.alloc = ledger_alloc;
        config.allocator.release = ledger_release;
        config.max_edge_px = 4096;
        if (bzna_context_open(&config, &context, NULL) != BZNA_OK ||
            (decodes && bzna_decoder_open(context, &decoder, NULL) != BZNA_OK))
            abort();
    }
    e.context = context;
    e.decoder = decoder;
    before = l.held - decoder_bytes(decoder);
    open_and_explore(&e, &b);
    look_at_file(&e, &b);
    if (l.held - decoder_bytes(decoder) != before) {
        fprintf(stderr, "fuzz_archive: %llu bytes were not given back\n",
                (unsigned long long)(l.held - decoder_bytes(decoder) - before));
        abort();
    }
    return e.pictures;
}

#ifdef BENZINA_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t capacity);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t capacity, unsigned seed);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t capacity, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, capacity);
    if (seed % 8)
        mend(data, size);
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run(data, size, UINT64_MAX);
    return 0;
}
#else
static uint8_t *load(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = NULL;
    long end;
    if (!file || fseek(file, 0, SEEK_END) || (end = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) ||
        !(data = malloc((size_t)end + 1)) || fread(data, 1, (size_t)end, file) != (size_t)end) {
        fprintf(stderr, "fuzz_archive: cannot read %s\n", path);
        exit(2);
    }
    fclose(file);
    *size = (size_t)end;
    return data;
}

int main(int argc, char **argv)
{
    size_t size;
    if (argc == 6 && (!strcmp(argv[1], "corrupt") || !strcmp(argv[1], "parse"))) {
        uint8_t *data = load(argv[2], &size);
        long first = atol(argv[3]), count = atol(argv[4]), step = atol(argv[5]), done = 0, pictures = 0;
        uint64_t slowest = 0;                               /* times are the processors' */
        clock_t start = clock();
        decodes = decodes && !strcmp(argv[1], "corrupt");
        for (long n = first; n < count && step > 0; n += step, done++) {
            bzna_random random;
            clock_t began = clock();
            uint64_t at, took;
            uint8_t old;
            bzna_random_init(&random, (uint64_t)n, 0, 0, 0);
            at = bzna_random_u32(&random) % size;
            old = data[at];
            data[at] ^= (uint8_t)(1 + bzna_random_u32(&random) % 255);
            if (n % 8)
                mend(data, size);
            pictures += run(data, size, at);
            data[at] = old;
            mend(data, size);
            took = (uint64_t)(clock() - began) * (1000000000 / CLOCKS_PER_SEC);
            slowest = took > slowest ? took : slowest;
        }
        printf("%s: %ld corruptions, %ld pictures still decoded, slowest %.0f ms, %.1f s\n", argv[2], done, pictures,
               (double)slowest * 1e-6, (double)(clock() - start) / (double)CLOCKS_PER_SEC);
        free(data);
        return slowest > 10000000000u;                      /* ten seconds for one small file is a hang */
    }
    if (argc >= 3 && !strcmp(argv[1], "replay")) {
        for (int i = 2; i < argc; i++) {
            uint8_t *data = load(argv[i], &size);
            printf("%s: %d pictures\n", argv[i], run(data, size, UINT64_MAX));
            free(data);
        }
        return 0;
    }
    fprintf(stderr, "usage: fuzz_archive corrupt|parse FILE FIRST COUNT STEP | replay FILE...\n");
    return 2;
}
#endif
