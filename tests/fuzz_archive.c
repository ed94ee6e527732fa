/* fuzz_archive.c - hostile archives: open, list and decode whatever bytes come. Nothing may crash, hang, leak or read where it should not.
 *
 * With clang -fsanitize=fuzzer (-DBENZINA_LIBFUZZER) this is a libFuzzer target. Otherwise a plain driver:
 *     fuzz_archive corrupt FILE FIRST COUNT STEP    one random byte changed: corruptions number FIRST, FIRST + STEP, ... below COUNT
 *     fuzz_archive replay FILE...                   files as they are
 * Corruption n of a file is the same on every machine: place and value are Philox numbers of seed n. */
#include "../benzina.c"

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

/* Looks at everything; decodes the samples that overlap [at, at + 1), or all when at is UINT64_MAX. Returns how many pictures came out. */
static int explore(bzna_context *context, const bytes *b, uint64_t at, bzna_decoder *decoder)
{
    static const char *const tracks[] = { "bzna_input", "bzna_thumb", NULL };
    bzna_source source = { (void *)(uintptr_t)b, bytes_read_at, bytes_size, NULL };
    bzna_error err = { .struct_size = sizeof err };
    bzna_dataset *dataset = NULL;
    uint64_t count;
    int pictures = 0;
    uint8_t *buffer;
    if (bzna_dataset_open_source(context, &source, NULL, &dataset, &err) != BZNA_OK)
        return 0;
    count = bzi_min(bzna_dataset_count(dataset), 1000);
    buffer = malloc((size_t)b->size);
    for (uint64_t i = 0; i < count && buffer; i++) {
        bzna_sample sample = { .struct_size = sizeof sample };
        char name[300];
        int64_t target;
        bzna_dataset_field(dataset, i, "name", name, sizeof name, NULL, &err);
        bzna_dataset_target(dataset, i, &target, &err);
        if (bzna_dataset_get_sample(dataset, i, &sample, sizeof sample, &err) != BZNA_OK)
            continue;
        int named = 0;                /* a plain mp4 has neither of the first two */
        for (int t = 0; t < 3; t++) {
            bzna_image image = { .struct_size = sizeof image };
            bzna_picture picture = { .struct_size = sizeof picture };
            if (bzna_dataset_read_image(dataset, i, tracks[t], buffer, (size_t)b->size, &image, &err) != BZNA_OK || (t == 2 && named))
                continue;
            named = 1;
            if (at == UINT64_MAX || (at >= sample.offset && at - sample.offset < sample.size))
                pictures += bzna_decoder_decode(decoder, &image, &picture, &err) == BZNA_OK;
        }
    }
    free(buffer);
    bzna_dataset_close(dataset);
    return pictures;
}

/* What an open decoder keeps between pictures. */
static uint64_t decoder_bytes(const bzna_decoder *decoder)
{
    uint64_t bytes = decoder->software.stream.capacity + decoder->software.key.capacity;
    for (uint32_t i = 0; i < BZI_LRU_SLOTS; i++)
        bytes += decoder->software.keys.slots[i].key.capacity;
    return bytes;
}

static int run(const uint8_t *data, size_t size, uint64_t at)
{
    static ledger l;
    static bzna_decoder *decoder;
    static bzna_context *context;
    bytes b = { data, size };
    uint64_t before;
    int pictures;
    if (!context) {
        bzna_context_config config;
        bzna_context_config_init(&config, sizeof config);
        config.allocator.user = &l;
        config.allocator.alloc = ledger_alloc;
        config.allocator.release = ledger_release;
        config.max_edge_px = 4096;
        if (bzna_context_open(&config, &context, NULL) != BZNA_OK || bzna_decoder_open(context, &decoder, NULL) != BZNA_OK)
            abort();
    }
    before = l.held - decoder_bytes(decoder);
    pictures = explore(context, &b, at, decoder);
    if (l.held - decoder_bytes(decoder) != before) {
        fprintf(stderr, "fuzz_archive: %llu bytes were not given back\n", (unsigned long long)(l.held - decoder_bytes(decoder) - before));
        abort();
    }
    return pictures;
}

#ifdef BENZINA_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
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
    if (!file || fseek(file, 0, SEEK_END) || (end = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) || !(data = malloc((size_t)end + 1)) ||
        fread(data, 1, (size_t)end, file) != (size_t)end) {
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
    if (argc == 6 && !strcmp(argv[1], "corrupt")) {
        uint8_t *data = load(argv[2], &size);
        long first = atol(argv[3]), count = atol(argv[4]), step = atol(argv[5]), done = 0, pictures = 0;
        uint64_t start = bzi_os_now_ns(), slowest = 0;
        for (long n = first; n < count && step > 0; n += step, done++) {
            bzna_random random;
            uint64_t at, took = bzi_os_now_ns();
            uint8_t old;
            bzna_random_init(&random, (uint64_t)n, 0, 0, 0);
            at = bzna_random_u32(&random) % size;
            old = data[at];
            data[at] ^= (uint8_t)(1 + bzna_random_u32(&random) % 255);
            pictures += run(data, size, at);
            data[at] = old;
            took = bzi_os_now_ns() - took;
            slowest = took > slowest ? took : slowest;
        }
        printf("%s: %ld corruptions, %ld pictures still decoded, slowest %.0f ms, %.1f s\n", argv[2], done, pictures, (double)slowest * 1e-6,
               (double)(bzi_os_now_ns() - start) * 1e-9);
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
    fprintf(stderr, "usage: fuzz_archive corrupt FILE FIRST COUNT STEP | replay FILE...\n");
    return 2;
}
#endif
