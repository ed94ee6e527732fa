/* test_corrupt.c - damaged pictures of H.264, H.265, AV1 and JPEG among good ones, in archives and in a folder
 *
 * A round damages some samples at random: bits, runs of bytes, bytes that are missing or too many, access units of
 * other samples, headers. Then it loads all of them, twice, with other numbers of threads and with memory that held
 * other bytes before. Each undamaged sample has the pixels of the clean run, bit for bit. A damaged one has a status
 * with a message and the fill color, or a picture whose pixels are all in range and the same both times: what was never
 * written would differ. Each round has a seed, which a failure prints.
 *
 *     build/tests/test_corrupt --seed SEED [ROUNDS]         these rounds again; or others
 *     build/tests/test_corrupt --rate SECONDS               what 1 % damaged samples cost */
#include "library.h"
#include "test.h"

#if defined(BENZINA_NO_AVCODEC) || defined(BENZINA_NO_JPEG) || defined(BENZINA_NO_WRITER) || defined(BENZINA_NO_FOLDERS)

TEST(damaged_pictures)
{
    SKIP("built without libavcodec, libjpeg-turbo [libavcodec-dev libjpeg-dev], writer or folders");
}
TEST_MAIN(RUN(damaged_pictures))

#else

#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#ifdef __GLIBC__
#  include <malloc.h>
#endif

#ifdef TEST_NVDEC
#  include "../fake/nvdec.h"
#endif
#include "archives.h"

#ifdef TEST_NVDEC
#  define TOP_OF(kind) TEST_BUILD "/tests/corrupt_" #kind        /* two suites may run at once */
#  define TOP_NAMED(kind) TOP_OF(kind)
#  define TOP TOP_NAMED(TEST_NVDEC)
#else
#  define TOP TEST_BUILD "/tests/corrupt"
#  define TEST_NVDEC 0
#endif

enum { SAMPLES = 48, BATCH = 7, SIDE = 24, SLOT = SIDE * SIDE * 3, PICTURES = 32, HANG_S = 300 };

/* ---- Files ---- */

static uint8_t *slurp(const char *path, size_t *size)
{
    enum { ROOM = 1 << 18 };
    FILE *const f = fopen(path, "rb");
    uint8_t *const bytes = take_memory(ROOM);
    *size = f ? fread(bytes, 1, ROOM, f) : 0;
    if (f)
        fclose(f);
    return bytes;
}

static void spill(const char *path, const void *bytes, size_t size)
{
    FILE *const f = fopen(path, "wb");
    CHECK(f && fwrite(bytes, 1, size, f) == size);
    if (f)
        fclose(f);
}

/* ---- Pictures ---- */

static const struct { const char *path; uint64_t index; } files[] = {
    { "tests/data/mini_h264.bzna", 4 }, { "tests/data/mini_h265.bzna", 5 }, { "tests/data/seeds/av1.mp4", 0 },
    { "tests/data/pictures/jpeg_411.jpg", 0 }, { "tests/data/seeds/h264.bzna", 0 }, { "tests/data/seeds/h265.bzna", 1 },
    { "tests/data/seeds/av1.mp4", 2 }, { "tests/data/pictures/jpeg_422_restarts.jpg", 0 },
    { "tests/data/slices_h264.bzna", 0 }, { "tests/data/mini_h265.bzna", 4 }, { "tests/data/seeds/av1.mp4", 1 },
    { "tests/data/pictures/jpeg_420_progressive.jpg", 0 }, { "tests/data/mini_h264.bzna", 5 },
    { "tests/data/pictures/jpeg_440.jpg", 0 }, { "tests/data/pictures/jpeg_gray_progressive.jpg", 0 },
    { "tests/data/pictures/jpeg_ycck_420_scans.jpg", 0 }
};

static coded pictures[COUNT(files)];

static void load_pictures(bzna_context *context)
{
    enum { ROOM = 1 << 18 };
    for (size_t i = 0; i < COUNT(files) && !pictures[i].memory; i++) {
        bzna_dataset *dataset = NULL;
        const size_t length = strlen(files[i].path);
        pictures[i].image.struct_size = sizeof pictures[i].image;
        pictures[i].memory = take_memory(ROOM);
        if (!strcmp(files[i].path + length - 4, ".jpg")) {
            size_t size;
            free(pictures[i].memory);
            pictures[i].memory = slurp(files[i].path, &size);
            pictures[i].image.codec = BZNA_CODEC_JPEG;
            pictures[i].image.data = pictures[i].memory;
            pictures[i].image.data_size = size;
            continue;
        }
        require(bzna_dataset_open(context, files[i].path, NULL, &dataset, NULL), files[i].path);
        require(bzna_dataset_read_image(dataset, files[i].index, NULL, pictures[i].memory, ROOM, &pictures[i].image,
                                        NULL), files[i].path);
        if (pictures[i].image.config_size) {                /* a plain video's lies in the data set */
            uint8_t *const copy = pictures[i].memory + ROOM - pictures[i].image.config_size;
            memmove(copy, pictures[i].image.config, (size_t)pictures[i].image.config_size);
            pictures[i].image.config = copy;
        }
        bzna_dataset_close(dataset);
    }
}

/* ---- Memory that held other bytes ---- */

static int fill_byte;

static void *filled_alloc(void *user, size_t size, size_t align)
{
    void *p = NULL;
    (void)user;
    if (posix_memalign(&p, align < sizeof p ? sizeof p : align, size))
        return NULL;
    memset(p, fill_byte, size);
    return p;
}

static void filled_release(void *user, void *p, size_t size)
{
    (void)user;
    memset(p, ~fill_byte, size);
    free(p);
}

/* From now on memory has this byte where nobody has written, that of other libraries, too. */
static void fill_memory(int byte)
{
    fill_byte = byte;
#if defined(__GLIBC__) && !SANITIZED
    mallopt(M_PERTURB, byte);
#endif
}

/* ---- A run ---- */

typedef struct run {
    uint64_t    hash[SAMPLES];        /* of the slot's floats */
    bzna_status status[SAMPLES];
    char        message[SAMPLES][488];
    uint32_t    delivered, out_of_range, other_fill;
} run;

static uint64_t hash_of(const void *data, size_t size)
{
    const uint8_t *p = data;
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ p[i]) * 1099511628211u;
    return hash;
}

static void take_slot(run *r, bzna_batch *batch, const bzna_batch_info *info, uint32_t slot)
{
    const float *pixels = (const float *)info->image.data + (size_t)slot * SLOT;
    const uint64_t index = info->indices[slot];
    bzna_error err = { .struct_size = sizeof err };
    int legal = 1, filled = 1;
    for (int i = 0; i < SLOT; i++) {
        legal &= pixels[i] >= 0 && pixels[i] <= 255;        /* not NaN, either */
        filled &= pixels[i] == 9;
    }
    r->status[index] = info->status[slot];
    r->hash[index] = hash_of(pixels, SLOT * sizeof *pixels);
    r->delivered++;
    r->out_of_range += !legal;
    CHECK_EQ(bzna_batch_error(batch, slot, &err), info->status[slot]);
    snprintf(r->message[index], sizeof r->message[index], "%s", err.message);
    r->other_fill += info->status[slot] < 0 && !filled;
}

static bzna_context *open_context(int32_t device)
{
    bzna_context_config config = { .struct_size = sizeof config, .device.kind = device,
                                   .allocator = { NULL, filled_alloc, filled_release } };
    bzna_context *context = NULL;
    require(bzna_context_open(&config, &context, NULL), "context");
    return context;
}

static bzna_loader_config config_of(uint64_t seed, uint32_t threads)
{
    bzna_loader_config c = {
        .struct_size = sizeof c, .output.batch_size = BATCH, .output.width = SIDE, .output.height = SIDE,
        .output.dtype = BZNA_DTYPE_FLOAT32, .order.kind = BZNA_ORDER_SHUFFLE, .order.seed = seed, .order.epochs = 1,
        .warp.kind = seed % 2 ? BZNA_WARP_RANDOM_RESIZED_CROP : BZNA_WARP_CENTER_RESIZED_CROP,
        .color.fill = { 9, 9, 9 }, .decode.threads = threads, .read.threads = 2
    };
    if (!TEST_NVDEC) {
        c.output.device.kind = BZNA_DEVICE_CPU;
        c.decode.decoder = BZNA_DECODER_SOFTWARE;
    }
    return c;
}

/* One epoch. a: an archive; NULL: the folder at path. */
static run load(const archive *a, const char *path, uint64_t seed, uint32_t threads, int byte)
{
    run r = { .delivered = 0 };
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    const bzna_loader_config c = config_of(seed, threads);
    memory m;
    bzna_status status;
    fill_memory(byte);
    bzna_context *context = open_context(BZNA_DEVICE_AUTO);
    if (a)
        dataset = open_split(context, &m, a, NULL);
    else
        require(bzna_dataset_open(context, path, NULL, &dataset, NULL), path);
    require(bzna_loader_open(context, dataset, &c, &loader, NULL), "loader");
    while ((status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL)) == BZNA_OK) {
        const bzna_batch_info info = info_of(batch);
        for (uint32_t i = 0; i < info.count; i++)
            take_slot(&r, batch, &info, i);
        bzna_batch_release(batch);
    }
    CHECK_EQ(status, BZNA_END);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    fill_memory(0);
    return r;
}

/* ---- Damage ---- */

static uint64_t dice;

static uint64_t roll(uint64_t sides)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    const uint64_t x = dice >> 33;
    return sides ? (x ^ x >> 11) % sides : 0;
}

enum { BITS, HEAD, RUN, ZEROS, DROP, INSERT, CUT, SPLICE, SWAP, BOXES, KINDS };
static const char *const kind_name[KINDS] = { "bits flipped", "a bit of the head flipped", "a run of bytes", "zeros",
                                              "bytes dropped", "bytes inserted", "cut short", "the rest of another one",
                                              "another one's access unit", "a bit of the sample's boxes flipped" };

/* Bytes of a coded picture, and another one's. Returns the new size, which is never larger. */
static uint64_t damage_bytes(uint8_t *p, uint64_t size, const uint8_t *other, uint64_t other_size, int kind)
{
    const uint64_t at = roll(size), n = 1 + roll(roll(2) ? 4 : size / 2), end = bzi_min(size, at + n);
    switch (kind) {
    case BITS:
        for (uint64_t i = 1 + roll(roll(2) ? 1 : 30); i; i--)
            p[roll(size)] ^= (uint8_t)(1u << roll(8));
        return size;
    case HEAD:
        p[roll(bzi_min(size, 24))] ^= (uint8_t)(1u << roll(8));
        return size;
    case RUN:
        for (uint64_t i = at; i < end; i++)
            p[i] = (uint8_t)roll(256);
        return size;
    case ZEROS:
        memset(p + at, 0, end - at);
        return size;
    case DROP:
        memmove(p + at, p + end, size - end);
        return size - (end - at);
    case INSERT:
        memmove(p + end, p + at, size - end);
        return size;
    case CUT:
        return at ? at : 1;
    case SPLICE:
        memcpy(p + at, other + bzi_min(at, other_size), bzi_min(size - at, other_size - bzi_min(at, other_size)));
        return size;
    default:
        memcpy(p, other, bzi_min(size, other_size));
        return bzi_min(size, other_size);
    }
}

typedef struct damage { int kind[SAMPLES]; } damage;        /* -1: none */

static damage choose(void)
{
    damage d;
    for (int i = 0; i < SAMPLES; i++)
        d.kind[i] = roll(4) ? -1 : (int)roll(KINDS);
    return d;
}

/* Of both tracks of a sample's picture: bzna_input, and bzna_thumb, where it is the same one. */
static void say_size(uint8_t *boxes, uint64_t size, uint64_t old, uint64_t now)
{
    uint8_t stsz[12] = "stsz";
    int tracks = 0;
    bzi_put_be32(stsz + 8, (uint32_t)old);
    for (uint64_t at = 0; at + 12 <= size; at++)
        if (!memcmp(boxes + at, stsz, 12)) {
            bzi_put_be32(boxes + at + 8, (uint32_t)now);
            tracks++;
        }
    CHECK(tracks == 1 || tracks == 2);
}

/* An archive of which some samples are damaged. What is dropped may be said, or not: then zeros are in its place. */
static archive damage_archive(const archive *clean, bzna_dataset *dataset, damage *d)
{
    archive a = archive_copy(clean);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        bzna_image_info info, other;
        bzna_sample_ref sample;
        const int kind = d->kind[i];
        if (kind < 0)
            continue;
        require(bzna_dataset_sample(dataset, i, &sample, sizeof sample, NULL), "sample");
        require(bzna_dataset_image_info(dataset, i, NULL, &info, sizeof info, NULL), "image");
        require(bzna_dataset_image_info(dataset, roll(SAMPLES), NULL, &other, sizeof other, NULL), "image");
        uint8_t *const p = a.bytes + info.data_offset, *const boxes = p + info.data_size;
        const uint64_t boxes_size = sample.offset + sample.size - info.data_offset - info.data_size;
        if (kind == BOXES) {
            boxes[roll(boxes_size)] ^= (uint8_t)(1u << roll(8));
            continue;
        }
        const uint64_t now = damage_bytes(p, info.data_size, clean->bytes + other.data_offset, other.data_size, kind);
        if (now < info.data_size && roll(2))
            memset(p + now, 0, info.data_size - now);
        else if (now < info.data_size)
            say_size(boxes, boxes_size, info.data_size, now);
    }
    return a;
}

/* ---- What must hold ---- */

static long undamaged, refused, decoded, rounds_of[KINDS], refused_of[KINDS];

static void check_pair(const run *clean, const run *one, const run *two, const damage *d, uint64_t seed)
{
    const int failures = test_failures;
    CHECK_EQ(one->delivered, SAMPLES);
    CHECK_EQ(two->delivered, SAMPLES);
    CHECK_EQ(one->out_of_range + two->out_of_range, 0);
    CHECK_EQ(one->other_fill + two->other_fill, 0);
    for (int i = 0; i < SAMPLES; i++) {
        const int same = one->status[i] == two->status[i] && one->hash[i] == two->hash[i];
        const int both = one->status[i] == BZNA_OK && two->status[i] == BZNA_OK;
        if (d->kind[i] < 0) {
            undamaged++;
            CHECK(one->status[i] == clean->status[i] && one->hash[i] == clean->hash[i] && same);
        } else {
            rounds_of[d->kind[i]]++;
            refused_of[d->kind[i]] += one->status[i] < 0;
            *(one->status[i] < 0 ? &refused : &decoded) += 1;
            /* NVDEC is not asked about every picture */
            CHECK(TEST_NVDEC ? !both || one->hash[i] == two->hash[i] : same);
            CHECK(one->status[i] == BZNA_OK || (one->status[i] < 0 && one->message[i][0]));
        }
        if (test_failures > failures) {
            printf("  seed %llu: sample %d (%s), %s: %s \"%s\", %s \"%s\"\n", (unsigned long long)seed, i,
                   files[(size_t)i % COUNT(files)].path, d->kind[i] < 0 ? "undamaged" : kind_name[d->kind[i]],
                   bzna_status_name(one->status[i]), one->message[i], bzna_status_name(two->status[i]),
                   two->message[i]);
            return;
        }
    }
}

/* Before each round, and behind it, when its contexts are closed: what hangs is ended, nothing is left in the driver,
 * and no rule of its was broken. */
static void start(void)
{
#if TEST_NVDEC
    const fake_interface *const fake = fake_load();
    setenv("BENZINA_NVDEC_CHECK", "0", 1);
    fake->control->caps[FAKE_AV1] = fake->control->caps[FAKE_HEVC];
#endif
    alarm(HANG_S);
}

static void finish(int with_archive)
{
    (void)with_archive;
#if TEST_NVDEC
    const fake_interface *const fake = fake_load();
    const char *const leaks = fake->leaks();
    CHECK_EQ(fake->control->violations, 0);
    CHECK(!with_archive || fake->control->decodes > 0);
    CHECK_STR(leaks ? leaks : "nothing", "nothing");
    fake->reset();
#endif
    alarm(0);
}

static archive make_archive(bzna_context *context)
{
    int pattern[COUNT(files)];
    load_pictures(context);
    for (size_t i = 0; i < COUNT(files); i++)
        pattern[i] = (int)i;
    const recipe r = { .count = SAMPLES, .pictures = pictures, .pattern = pattern, .pattern_count = COUNT(files),
                       .base = 3, .step = 1, .letter = 'c' };
    return archive_build(context, &r);
}

static void archive_rounds(uint64_t seed, long rounds)
{
    bzna_context *context = open_context(BZNA_DEVICE_CPU);
    archive whole = make_archive(context);
    memory m;
    bzna_dataset *dataset = open_split(context, &m, &whole, NULL);
    for (long i = 0; i < rounds && !test_failures; i++, seed++) {
        start();
        dice = seed * 0x9e3779b97f4a7c15u;
        damage d = choose();
        archive a = damage_archive(&whole, dataset, &d);
        const run clean = load(&whole, NULL, seed, 2, 0x11);
        const run one = load(&a, NULL, seed, 1 + (uint32_t)roll(2), 0x55);
        const run two = load(&a, NULL, seed, 3, 0xcc);
        check_pair(&clean, &one, &two, &d, seed);
        archive_clear(&a);
        finish(1);
    }
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    archive_clear(&whole);
}

/* ---- A folder of JPEG files ---- */

static const char *const jpeg_files[] = { "jpeg_411", "jpeg_420_progressive", "jpeg_422_restarts", "jpeg_440",
                                          "jpeg_cmyk", "jpeg_exif_6", "jpeg_gray_progressive", "jpeg_rgb_adobe",
                                          "jpeg_ycck_420_scans" };

static void spill_jpeg(const char *folder, int i, const uint8_t *bytes, uint64_t size)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%02d.jpg", folder, i);
    spill(path, bytes, (size_t)size);
}

/* Writes a clean folder and a damaged one. */
static void make_folders(damage *d)
{
    CHECK(system("rm -rf " TOP " && mkdir -p " TOP "/clean/a " TOP "/damaged/a") == 0);
    for (int i = 0; i < SAMPLES; i++) {
        size_t size, other_size;
        char path[256];
        snprintf(path, sizeof path, "tests/data/pictures/%s.jpg", jpeg_files[(size_t)i % COUNT(jpeg_files)]);
        uint8_t *bytes = slurp(path, &size);
        snprintf(path, sizeof path, "tests/data/pictures/%s.jpg", jpeg_files[roll(COUNT(jpeg_files))]);
        uint8_t *other = slurp(path, &other_size);
        spill_jpeg(TOP "/clean/a", i, bytes, size);
        if (d->kind[i] == BOXES)
            d->kind[i] = BITS;
        const uint64_t now = d->kind[i] < 0 ? size : damage_bytes(bytes, size, other, other_size, d->kind[i]);
        spill_jpeg(TOP "/damaged/a", i, bytes, now);
        free(bytes);
        free(other);
    }
}

static void folder_rounds(uint64_t seed, long rounds)
{
    for (long i = 0; i < rounds && !test_failures; i++, seed++) {
        start();
        dice = seed * 0x9e3779b97f4a7c15u;
        damage d = choose();
        make_folders(&d);
        const run clean = load(NULL, TOP "/clean", seed, 2, 0x11);
        const run one = load(NULL, TOP "/damaged", seed, 1 + (uint32_t)roll(2), 0x55);
        const run two = load(NULL, TOP "/damaged", seed, 3, 0xcc);
        check_pair(&clean, &one, &two, &d, seed);
        finish(0);
    }
}

static void print_counts(const char *what, uint64_t seed, long rounds)
{
    const unsigned long long first = seed, last = seed + (uint64_t)rounds - 1;
    printf("%s: %ld damaged pictures of seeds %llu to %llu, %ld with a status and %ld decoded; %ld undamaged ones\n",
           what, refused + decoded, first, last, refused, decoded, undamaged);
}

static void forget_counts(void)
{
    undamaged = refused = decoded = 0;
    memset(rounds_of, 0, sizeof rounds_of);
    memset(refused_of, 0, sizeof refused_of);
}

/* Each way of damage was met, and noticed at least once; some of it was not. */
static void check_counts(void)
{
    CHECK(refused > 0 && decoded > 0);
    for (int kind = 0; kind < KINDS; kind++)
        CHECK(kind == BOXES || kind == SWAP || refused_of[kind] > 0);
}

static long rounds_for(long few, long sanitized, long many)
{
    return test_all() ? many : SLOWED(few, sanitized);
}

TEST(damaged_pictures_of_an_archive_cost_their_own_slots_or_are_legal)
{
    const long rounds = rounds_for(TEST_NVDEC ? 12 : 40, 8, TEST_NVDEC ? 100 : 400);
    forget_counts();
    archive_rounds(1, rounds);
    print_counts("an archive", 1, rounds);
    check_counts();
}

TEST(damaged_jpegs_of_a_folder_cost_their_own_slots_or_are_legal)
{
    const long rounds = rounds_for(TEST_NVDEC ? 8 : 40, 8, TEST_NVDEC ? 60 : 400);
    forget_counts();
    folder_rounds(1001, rounds);
    print_counts("a folder", 1001, rounds);
    check_counts();
}

/* ---- What they cost ---- */

static double now_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum { RATE_SAMPLES = 200 };

typedef struct cost { double wall, processors; uint32_t failed; } cost;

/* Two epochs of an archive; the first one is not counted. */
static cost time_epochs(bzna_context *context, const archive *a)
{
    bzna_loader_config c = config_of(2, 2);
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    cost spent = { 0, 0, 0 };
    memory m;
    bzna_dataset *dataset = open_split(context, &m, a, NULL);
    c.order.epochs = 2;
    c.output.batch_size = 20;
    require(bzna_loader_open(context, dataset, &c, &loader, NULL), "loader");
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        const bzna_batch_info info = info_of(batch);
        if (info.epoch == 0 && info.last_of_epoch)
            spent = (cost){ -now_s(CLOCK_MONOTONIC), -now_s(CLOCK_PROCESS_CPUTIME_ID), 0 };
        spent.failed += info.failed;
        bzna_batch_release(batch);
    }
    spent.wall += now_s(CLOCK_MONOTONIC);
    spent.processors += now_s(CLOCK_PROCESS_CPUTIME_ID);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    return spent;
}

/* One sample in a hundred is damaged: its bits, or it ends early, of which AV1 notices the latter alone. */
static archive damage_one_in_a_hundred(const archive *clean, bzna_context *context)
{
    archive a = archive_copy(clean);
    memory m;
    bzna_dataset *dataset = open_split(context, &m, clean, NULL);
    for (uint64_t i = 37; i < RATE_SAMPLES; i += 100) {
        bzna_image_info info;
        bzna_sample_ref sample;
        require(bzna_dataset_image_info(dataset, i, NULL, &info, sizeof info, NULL), "image");
        require(bzna_dataset_sample(dataset, i, &sample, sizeof sample, NULL), "sample");
        const uint64_t boxes = info.data_offset + info.data_size;
        if (i % 200 < 100)
            say_size(a.bytes + boxes, sample.offset + sample.size - boxes, info.data_size, info.data_size / 2);
        else
            for (uint64_t at = info.data_size / 3; at < info.data_size; at += 7)
                a.bytes[info.data_offset + at] ^= 0x5a;
    }
    bzna_dataset_close(dataset);
    return a;
}

static int less(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { RATE_ROUNDS = 400 };

/* Rounds of each in turns, and the median of what they took beside one another. Returns the share of the rate that is
 * left, by processors' time. */
static double compare_rates(size_t picture, double seconds, int print)
{
    static double wall[RATE_ROUNDS], processors[RATE_ROUNDS];
    const recipe r = { .count = RATE_SAMPLES, .pictures = pictures, .pattern = (int[]){ (int)picture },
                       .pattern_count = 1 };
    bzna_context *context = open_context(BZNA_DEVICE_CPU);
    load_pictures(context);
    archive clean = archive_build(context, &r), damaged = damage_one_in_a_hundred(&clean, context);
    const double end = now_s(CLOCK_MONOTONIC) + seconds;
    size_t n = 0;
    uint32_t failed = 0;
    while (n < RATE_ROUNDS && (n < 5 || now_s(CLOCK_MONOTONIC) < end)) {
        const cost first = time_epochs(context, n % 2 ? &damaged : &clean);
        const cost second = time_epochs(context, n % 2 ? &clean : &damaged);
        const cost *const good = n % 2 ? &second : &first, *const bad = n % 2 ? &first : &second;
        CHECK_EQ(good->failed, 0);
        failed = bad->failed;
        wall[n] = good->wall / bad->wall;
        processors[n++] = good->processors / bad->processors;
    }
    qsort(wall, n, sizeof *wall, less);
    qsort(processors, n, sizeof *processors, less);
    if (print)
        printf("%-40s %zu rounds, %u of %d samples with a status: rate %.3f of the clean one by the clock, %.3f by "
               "the processors\n", files[picture].path, n, failed, RATE_SAMPLES, wall[n / 2], processors[n / 2]);
    archive_clear(&clean);
    archive_clear(&damaged);
    bzna_context_close(context);
    return processors[n / 2];
}

/* Of H.264, H.265, AV1 and JPEG, those that take longest here. */
static const size_t rate_pictures[] = { 0, 1, 2, 3 };

TEST(one_damaged_sample_in_a_hundred_leaves_nearly_the_whole_rate)
{
    if (SANITIZED || TEST_NVDEC)
        SKIP("what sanitizers and the fake driver cost says nothing");
    if (!test_all())
        SKIP("rates are compared on a machine that does nothing else: make test-all");
    for (size_t i = 0; i < COUNT(rate_pictures); i++)
        CHECK(compare_rates(rate_pictures[i], 0, 0) > 0.9);   /* 0.95 and more: --rate */
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "--rate")) {
        start();
        alarm(0);
        for (size_t i = 0; i < COUNT(rate_pictures); i++)
            compare_rates(rate_pictures[i], atof(argv[2]) / (double)COUNT(rate_pictures), 1);
        return test_failures > 0;
    }
    if (argc > 2 && !strcmp(argv[1], "--seed")) {
        const uint64_t seed = strtoull(argv[2], NULL, 0);
        const long rounds = argc > 3 ? atol(argv[3]) : 1;
        archive_rounds(seed, rounds);
        folder_rounds(seed, rounds);
        print_counts("both", seed, rounds);
        for (int i = 0; i < KINDS; i++)
            printf("%8ld %s, %ld with a status\n", rounds_of[i], kind_name[i], refused_of[i]);
        return test_failures > 0;
    }
    test_start(argv);
    RUN(damaged_pictures_of_an_archive_cost_their_own_slots_or_are_legal)
    RUN(damaged_jpegs_of_a_folder_cost_their_own_slots_or_are_legal)
    RUN(one_damaged_sample_in_a_hundred_leaves_nearly_the_whole_rate)
    printf("%s: %d passed, %d failed, %d skipped\n", __FILE__, test_passed, test_failed, test_skipped);
    return test_failed != 0;
}

#endif
