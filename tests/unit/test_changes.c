/* Files that change while they are open: shortened, written over, replaced, removed, or of a disk that fails. It costs
 * the samples which can't be read any more, and never the process. */
#include "library.h"
#include "with_formats.h"
#include "test.h"
#include "known.h"
#include "open_formats.h"
#include "recordio.h"
#include "tars.h"

#define TOP TEST_BUILD "/tests/changes"

#if defined(BENZINA_NO_AVCODEC) || defined(BENZINA_NO_WRITER) || defined(BENZINA_NO_SHARDS)

TEST(files_that_change_while_they_are_open) { SKIP("built without libavcodec [libavcodec-dev], writer or shards"); }

TEST_MAIN(RUN(files_that_change_while_they_are_open))

#else

enum { SAMPLES = 64, SIDE = 40 };
enum { ARCHIVE, VIDEO, RECORDIO, RECORDIO_SCANNED, TAR, TAR_SCANNED, KINDS };
enum { SHORTEN, EMPTY, OVERWRITE, ZEROS, REPLACE, UNLINK, SHORTEN_INDEX, UNLINK_INDEX, CHANGES };

static const char *const kind_names[] = { "a.bzna", "v.mp4", "r.rec", "s.rec", "t.tar", "u.tar" };
static const char *const change_names[] = { "shortened", "emptied", "overwritten", "zeroed", "replaced", "unlinked",
                                            "index shortened", "index unlinked" };

static size_t make_picture(uint8_t *bytes, int number)
{
    const int n = sprintf((char *)bytes, "P6 %d %d 255\n", SIDE, SIDE);
    for (int i = 0; i < SIDE * SIDE * 3; i++)
        bytes[n + i] = (uint8_t)(number * 3 + i % 7);
    return (size_t)n + SIDE * SIDE * 3;
}

static void make_archive(bzna_context *context, const char *path, int count)
{
    static uint8_t buffer[1 << 20];
    bzna_dataset *from = NULL;
    bzna_writer *writer = NULL;
    bzna_image image = { .struct_size = sizeof image };
    bzna_writer_sample desc = { .struct_size = sizeof desc, .image = &image };
    bzna_error e = { 0 };
    bzna_status status = bzna_dataset_open(context, "tests/data/mini_h264.bzna", NULL, &from, &e);
    if (status == BZNA_OK)
        status = bzna_dataset_read_image(from, 0, "bzna_input", buffer, sizeof buffer, &image, &e);
    if (status == BZNA_OK)
        status = bzna_writer_open(context, path, NULL, &writer, &e);
    for (int i = 0; i < count && status == BZNA_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "%04d.jpg", i);
        desc.name = name;
        desc.has_target = 1;
        desc.target = i;
        status = bzna_writer_add(writer, BZNA_INDEX_NEXT, &desc, 0, &e);
    }
    if (status == BZNA_OK)
        status = bzna_writer_finish(writer, &e);
    CHECK_EQ(status, BZNA_OK);
    bzna_writer_close(writer);
    bzna_dataset_close(from);
}

static void make_rec(const char *path, int with_idx)
{
    static uint8_t bytes[8192];
    rec_file *f = rec_new();
    for (int i = 0; i < SAMPLES; i++) {
        const float label = (float)i;
        rec_add_picture(f, (uint64_t)i, &label, 1, bytes, make_picture(bytes, i));
    }
    rec_save(f, path, with_idx);
    free(f);
}

/* And NAME.idx beside it, as wds2idx writes it. */
static void make_tar(const char *path, const char *idx)
{
    static uint8_t bytes[8192];
    char name[64], text[SAMPLES * 80] = "";
    size_t at = 0;
    tar t = { NULL, 0, 0, 0 };
    at += (size_t)sprintf(text, "v1.2 %d\n", SAMPLES);
    for (int i = 0; i < SAMPLES; i++) {
        const size_t size = make_picture(bytes, i);
        snprintf(name, sizeof name, "%04d.ppm", i);
        tar_file(&t, name, bytes, size);
        at += (size_t)sprintf(text + at, "ppm %zu %zu %s", t.last + 512, size, name);
        snprintf(name, sizeof name, "%04d.cls", i);
        tar_text(&t, name, "7");
        at += (size_t)sprintf(text + at, " cls %zu 1 %s\n", t.last + 512, name);
    }
    tar_end(&t);
    spill(path, t.bytes, t.size);
    if (idx)
        spill(idx, text, at);
    tar_free(&t);
}

/* A video whose frames stand alone, one a chunk or several: the samples of an archive's track, called otherwise. ffmpeg
 * makes it once. */
static int make_video(const char *path)
{
    static uint8_t *video;
    static size_t size;
    char command[512];
    if (video) {
        spill(path, video, size);
        return 1;
    }
    snprintf(command, sizeof command,
             "ffmpeg -v error -y -f lavfi -i testsrc=size=64x48:rate=25 -frames:v %d -c:v libx264 -g 1 "
             "-pix_fmt yuv420p %s 2>/dev/null", SAMPLES, path);
    return system(command) == 0 && (video = slurp(path, &size)) != NULL;
}

typedef struct subject {
    bzna_context *context;
    bzna_dataset *dataset;
    char          path[256], index[256];
} subject;

/* Returns 0 where there is nothing to make it with. */
static int subject_make(subject *s, int kind)
{
    memset(s, 0, sizeof *s);
    snprintf(s->path, sizeof s->path, TOP "/%s", kind_names[kind]);
    CHECK_EQ(bzna_context_open(NULL, &s->context, NULL), BZNA_OK);
    snprintf(s->index, sizeof s->index, "%.*s.idx", (int)strlen(s->path) - 4, s->path);
    CHECK(mkdir(TOP, 0777) == 0 || errno == EEXIST);
    unlink(s->path);                                        /* what comes is another file */
    unlink(s->index);
    switch (kind) {
    case ARCHIVE:  make_archive(s->context, s->path, SAMPLES); break;
    case VIDEO:    return make_video(s->path);
    case RECORDIO: make_rec(s->path, 1); break;
    case RECORDIO_SCANNED: make_rec(s->path, 0); break;
    default:       make_tar(s->path, kind == TAR ? s->index : NULL); break;
    }
    return 1;
}

static int subject_open(subject *s)
{
    bzna_error e = { 0 };
    if (bzna_dataset_open(s->context, s->path, NULL, &s->dataset, &e) == BZNA_OK)
        return 1;
    printf("  %s: %s\n", s->path, e.message);
    return 0;
}

static void subject_close(subject *s)
{
    bzna_dataset_close(s->dataset);
    bzna_context_close(s->context);
}

/* As cp does it: the same file, other bytes. */
static void overwrite(const char *path, int byte)
{
    size_t size;
    uint8_t *bytes = slurp(path, &size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(byte < 0 ? i * 2654435761u >> 13 : (unsigned)byte);
    spill(path, bytes, size);
    free(bytes);
}

static void change(const subject *s, int what)
{
    size_t size;
    uint8_t *bytes = slurp(s->path, &size);
    switch (what) {
    case SHORTEN:       CHECK(!truncate(s->path, (off_t)size / 2)); break;
    case EMPTY:         CHECK(!truncate(s->path, 0)); break;
    case OVERWRITE:     overwrite(s->path, -1); break;
    case ZEROS:         overwrite(s->path, 0); break;
    case REPLACE:       spill(TOP "/other", "other bytes", 11); CHECK(!rename(TOP "/other", s->path)); break;
    case UNLINK:        CHECK(!unlink(s->path)); break;
    case SHORTEN_INDEX: (void)!truncate(s->index, 10); break;
    default:            (void)!unlink(s->index); break;
    }
    free(bytes);
}

/* What still must be there: the file is open, or its index is not asked again. */
static int must_stay(int what) { return what >= REPLACE; }

static void check_message(const subject *s, int kind, int what, const bzna_error *e)
{
    const int of_bytes = what <= EMPTY;
    if (!strstr(e->message, kind_names[kind]) || !strstr(e->message, "sample ") ||
        (of_bytes && (e->byte_offset == BZNA_NO_OFFSET || !strstr(e->message, "byte ")))) {
        printf("  %s, %s: \"%s\"\n", s->path, change_names[what], e->message);
        test_failures++;
    }
}

/* Every call that looks into samples. Returns how many failed. */
static int look_at_all(const subject *s, int kind, int what)
{
    static uint8_t room[1 << 20];
    int failed = 0;
    for (uint64_t i = 0; i < SAMPLES; i++) {
        bzna_sample_ref sample;
        bzna_image_info info;
        bzna_image image = { .struct_size = sizeof image };
        int64_t target;
        for (int call = 0; call < 6; call++) {
            bzna_error e = { 0 };
            const bzna_status status =
                call == 0 ? bzna_dataset_target(s->dataset, i, &target, &e) :
                call == 1 ? bzna_dataset_sample(s->dataset, i, &sample, sizeof sample, &e) :
                call == 2 ? bzna_dataset_image_info(s->dataset, i, NULL, &info, sizeof info, &e) :
                call == 3 ? bzna_dataset_read_image(s->dataset, i, NULL, room, sizeof room, &image, &e) :
                call == 4 ? bzna_dataset_field(s->dataset, i, "image", room, sizeof room, NULL, &e) :
                            bzna_dataset_field(s->dataset, i, "name", room, sizeof room, NULL, &e);
            if (status == BZNA_OK || (status == BZNA_E_NOT_FOUND && call == 5))
                continue;
            failed++;
            check_message(s, kind, what, &e);
        }
    }
    return failed;
}

#define EACH_CHANGE(kind, what) \
    for (int kind = 0; kind < KINDS; kind++) \
        for (int what = 0; what < CHANGES; what++) \
            if (kind != VIDEO && (what < SHORTEN_INDEX || kind == RECORDIO || kind == TAR))

static void change_between_calls(int kind, int what)
{
    subject s;
    int failed;
    REQUIRE(subject_make(&s, kind));
    REQUIRE(subject_open(&s));
    REQUIRE(look_at_all(&s, kind, what) == 0);
    change(&s, what);
    failed = look_at_all(&s, kind, what);
    if (must_stay(what) ? failed != 0 : failed == 0) {
        printf("  %s, %s: %d calls failed\n", s.path, change_names[what], failed);
        test_failures++;
    }
    subject_close(&s);
}

TEST(a_file_that_changes_between_calls_costs_the_calls_and_no_more)
{
    EACH_CHANGE(kind, what)
        change_between_calls(kind, what);
}

/* Three epochs in order, changed after the first batch. */
static void change_in_mid_epoch(int kind, int what)
{
    bzna_loader_config c = { .struct_size = sizeof c, .output.batch_size = 4, .output.width = 16,
                             .output.height = 16, .output.device.kind = BZNA_DEVICE_CPU,
                             .decode.decoder = BZNA_DECODER_SOFTWARE,
                             .order.epochs = 3, .read.threads = 2, .read.ahead_samples = 4,
                             .pipeline.batches_in_flight = 2, .decode.threads = 2, .read.retries = 1 };
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_batch_info info = { 0 };
    bzna_error e = { 0 };
    uint32_t failed = 0, batches = 0;
    subject s;
    bzna_status status;
    REQUIRE(subject_make(&s, kind));
    REQUIRE(subject_open(&s));
    REQUIRE(bzna_loader_open(s.context, s.dataset, &c, &loader, &e) == BZNA_OK);
    while ((status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &e)) == BZNA_OK) {
        CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
        if (batches++ == 0)
            change(&s, what);
        for (uint32_t i = 0; i < info.count; i++)
            if (info.status[i] != BZNA_OK) {
                bzna_error why = { 0 };
                CHECK_EQ(bzna_batch_error(batch, i, &why), info.status[i]);
                check_message(&s, kind, what, &why);
            }
        failed += info.failed;
        CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
    }
    CHECK_EQ(status, BZNA_END);
    CHECK_EQ(batches, 3 * SAMPLES / 4);
    if (must_stay(what) ? failed != 0 : failed < SAMPLES / 2) {
        printf("  %s, %s: %u slots failed\n", s.path, change_names[what], failed);
        test_failures++;
    }
    bzna_loader_close(loader);
    subject_close(&s);
}

TEST(a_file_that_changes_in_mid_epoch_costs_slots_and_the_loader_goes_on)
{
    EACH_CHANGE(kind, what)
        change_in_mid_epoch(kind, what);
}

TEST(a_plain_video_that_changes_costs_no_more_either)
{
    subject s;
    const int made = subject_make(&s, VIDEO);
    bzna_context_close(s.context);
    if (!made)
        SKIP("no ffmpeg with libx264 [ffmpeg]");
    for (int what = 0; what < SHORTEN_INDEX; what++) {
        change_between_calls(VIDEO, what);
        change_in_mid_epoch(VIDEO, what);
    }
}

/* ---- a folder, whose files are opened one by one ---- */

enum { SHORTER, NO_BYTES, OTHER_BYTES, GONE, A_FOLDER, A_PIPE, ANOTHER_PICTURE, FILE_CHANGES };
enum { FILES = 3 * FILE_CHANGES };

static const char *folder_file(int number)
{
    static char path[256];
    snprintf(path, sizeof path, TOP "/folder/a/%02d.ppm", number);
    return path;
}

static void change_file(int number)
{
    static uint8_t bytes[8192];
    const char *const path = folder_file(number);
    switch (number / 3) {
    case SHORTER:     CHECK(!truncate(path, 700)); break;
    case NO_BYTES:    CHECK(!truncate(path, 0)); break;
    case OTHER_BYTES: overwrite(path, -1); break;
    case GONE:        CHECK(!unlink(path)); break;
    case A_FOLDER:    CHECK(!unlink(path) && !mkdir(path, 0777)); break;
    case A_PIPE:      CHECK(!unlink(path) && (ON_WINDOWS || !mkfifo(path, 0666))); break;      /* or gone */
    default:
        spill(TOP "/other", bytes, make_picture(bytes, 100));
        CHECK(!rename(TOP "/other", path));
    }
}

/* Of a file that changed, the status says so; or it is the picture that is there now. */
static void check_slot(int number, int is_changed, bzna_status status, int value, bzna_batch *batch, uint32_t slot)
{
    const int is_other = is_changed && number / 3 == ANOTHER_PICTURE;
    bzna_error why = { 0 };
    CHECK_EQ(bzna_batch_error(batch, slot, &why), status);
    if (!is_changed || is_other) {
        CHECK_EQ(status, BZNA_OK);
        CHECK_EQ(value, is_other ? 301 % 256 : number * 3 + 1);       /* make_picture's, where the crop begins */
    } else {
        CHECK(status < 0);
        CHECK_CONTAINS(why.message, strrchr(folder_file(number), '/') + 1);
    }
}

TEST(files_of_a_folder_that_change_in_mid_epoch_cost_their_own_slots)
{
    static uint8_t bytes[20000];      /* zeros after the picture: more than what stays in memory */
    bzna_loader_config c = { .struct_size = sizeof c, .output.batch_size = 3, .output.width = 8, .output.height = 8,
                             .output.device.kind = BZNA_DEVICE_CPU, .decode.decoder = BZNA_DECODER_SOFTWARE,
                             .output.dtype = BZNA_DTYPE_UINT8, .output.layout = BZNA_LAYOUT_NHWC, .order.epochs = 3,
                             .pipeline.batches_in_flight = 2, .warp.kind = BZNA_WARP_NONE };
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_status status;
    CHECK(system("rm -rf " TOP " && mkdir -p " TOP "/folder/a") == 0);
    for (int i = 0; i < FILES; i++) {
        make_picture(bytes, i);
        spill(folder_file(i), bytes, sizeof bytes);
    }
    REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
    REQUIRE(bzna_dataset_open(context, TOP "/folder", NULL, &dataset, NULL) == BZNA_OK);
    REQUIRE(bzna_loader_open(context, dataset, &c, &loader, NULL) == BZNA_OK);
    while ((status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL)) == BZNA_OK) {
        bzna_batch_info info = { 0 };
        CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
        if (info.epoch == 0 && info.batch == 1)
            for (int i = 0; i < FILES; i += 3)
                change_file(i);
        for (uint32_t i = 0; i < info.count; i++) {
            const int number = (int)info.indices[i];
            const uint8_t *const pixel = (const uint8_t *)info.image.data + i * 8 * 8 * 3;
            if (info.epoch < 2 && number % 3 == 0)
                continue;                                   /* before the change, or after it */
            check_slot(number, number % 3 == 0, info.status[i], *pixel, batch, i);
        }
        bzna_batch_release(batch);
    }
    CHECK_EQ(status, BZNA_END);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
}

/* They are read once: then their files may be gone, and messages name them all the same. */
TEST(small_files_of_a_folder_stay_in_memory_once_they_were_read)
{
    static uint8_t bytes[8192];
    bzna_loader_config c = { .struct_size = sizeof c, .output.batch_size = FILES, .output.width = 8,
                             .output.height = 8, .decode.decoder = BZNA_DECODER_SOFTWARE, .decode.threads = 1,
                             .output.dtype = BZNA_DTYPE_UINT8, .output.layout = BZNA_LAYOUT_NHWC,
                             .warp.kind = BZNA_WARP_NONE };
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    CHECK(system("rm -rf " TOP " && mkdir -p " TOP "/folder/a") == 0);
    for (int i = 0; i < FILES; i++)
        spill(folder_file(i), bytes, i == 1 ? 700 : make_picture(bytes, i));
    REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
    REQUIRE(bzna_dataset_open(context, TOP "/folder", NULL, &dataset, NULL) == BZNA_OK);
    for (int run = 0; run < 2; run++) {
        bzna_loader *loader = NULL;
        bzna_batch *batch = NULL;
        bzna_batch_info info = { 0 };
        REQUIRE(bzna_loader_open(context, dataset, &c, &loader, NULL) == BZNA_OK);
        REQUIRE(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK);
        CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
        CHECK_EQ(info.count, FILES);
        for (uint32_t i = 0; i < info.count; i++) {
            const uint8_t *const pixel = (const uint8_t *)info.image.data + i * 8 * 8 * 3;
            check_slot((int)info.indices[i], info.indices[i] == 1, info.status[i], *pixel, batch, i);
        }
        bzna_batch_release(batch);
        bzna_loader_close(loader);
        CHECK(system("rm -rf " TOP "/folder") == 0);
    }
    bzna_dataset_close(dataset);
    bzna_context_close(context);
}

/* What was changed is opened again: an error, or what is there now. */
TEST(a_file_that_changed_is_opened_again_or_refused)
{
    EACH_CHANGE(kind, what) {
        subject s;
        bzna_error e = { 0 };
        bzna_status status;
        REQUIRE(subject_make(&s, kind));
        change(&s, what);
        status = bzna_dataset_open(s.context, s.path, NULL, &s.dataset, &e);
        if (must_stay(what) && what >= SHORTEN_INDEX ? what == UNLINK_INDEX && status != BZNA_OK :
            what != SHORTEN && status == BZNA_OK) {
            printf("  %s, %s: %s\n", s.path, change_names[what], bzna_status_name(status));
            test_failures++;
        }
        if (status != BZNA_OK)
            CHECK(s.dataset == NULL && e.message[0] != 0);
        subject_close(&s);
    }
}

/* The file's descriptor becomes that of a folder, or on Windows, where those have none, of the file itself to write it:
 * each read fails. The index, with the targets, was read when the file was opened, and needs none. */
TEST(reads_that_fail_count_towards_retries_and_the_index_needs_none)
{
    bzna_loader_config c = { .struct_size = sizeof c, .output.batch_size = 4, .output.width = 16, .output.height = 16,
                             .output.device.kind = BZNA_DEVICE_CPU, .decode.decoder = BZNA_DECODER_SOFTWARE,
                             .order.epochs = 1, .read.threads = 1, .read.retries = 3, .read.backoff_ns = 1 };
    subject s;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_batch_info info = { 0 };
    bzna_statistics stats;
    bzna_error e = { 0 };
    const bzi_container *container;
    int saved, folder, broken;
    REQUIRE(subject_make(&s, ARCHIVE));
    REQUIRE(subject_open(&s));
    container = s.dataset->parts[0].container;
    broken = container->source.file.fd;
    saved = dup(broken);
    folder = open(ON_WINDOWS ? s.path : "/", ON_WINDOWS ? O_WRONLY : O_RDONLY);
    REQUIRE(saved >= 0 && folder >= 0 && dup2(folder, broken) >= 0);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        int64_t target = -2;
        bzna_sample_ref sample = { .struct_size = sizeof sample };
        CHECK_EQ(bzna_dataset_target(s.dataset, i, &target, &e), BZNA_OK);
        CHECK(target >= 0);
        CHECK_EQ(bzna_dataset_sample(s.dataset, i, &sample, sizeof sample, &e), BZNA_E_IO);         /* its boxes */
    }
    CHECK_EQ(bzna_loader_open(s.context, s.dataset, &c, &loader, &e), BZNA_OK);
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &e) == BZNA_OK) {
        CHECK_EQ(bzna_batch_get_info(batch, &info, sizeof info, NULL), BZNA_OK);
        for (uint32_t i = 0; i < info.count; i++) {
            bzna_error why = { 0 };
            CHECK_EQ(bzna_batch_error(batch, i, &why), BZNA_E_IO);
            CHECK_EQ(why.native_code, ON_WINDOWS ? EACCES : EISDIR);
            CHECK_CONTAINS(why.message, "a.bzna: sample ");
        }
        CHECK_EQ(info.failed, info.count);
        CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
    }
    CHECK_EQ(bzna_loader_statistics(loader, &stats, sizeof stats, NULL), BZNA_OK);
    CHECK_EQ(stats.retries, 3 * SAMPLES);
    bzna_loader_close(loader);
    CHECK(dup2(saved, broken) >= 0);                  /* nothing of it was kept */
    CHECK_EQ(look_at_all(&s, ARCHIVE, UNLINK), 0);
    close(saved);
    close(folder);
    subject_close(&s);
}

/* ---- Targets ---- */

enum { TARGETS = 200 };

static void poke(const char *path, uint64_t at, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY);
    CHECK(fd >= 0 && pwrite(fd, bytes, size, (off_t)at) == (ssize_t)size);
    close(fd);
}

static void peek(const char *path, uint64_t at, void *bytes, size_t size)
{
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && pread(fd, bytes, size, (off_t)at) == (ssize_t)size);
    close(fd);
}

/* One that lies elsewhere, is of another size, or of which the index is damaged; the others are as they were. */
TEST(a_target_out_of_order_is_where_the_index_says)
{
    static const struct { int sample; bzna_status status; const char *says; } cases[] = {
        { 70, BZNA_OK, NULL }, { 130, BZNA_E_BOX, "its target has not 8 bytes in the file" },
        { 10, BZNA_E_BOX, "its target has not 8 bytes in the file" } };
    for (int k = 0; k < 3; k++) {
        const int at = cases[k].sample;
        uint8_t fifth[8];
        size_t width;
        bzi_table table;
        bzna_error e = { 0 };
        subject s;
        REQUIRE(subject_make(&s, ARCHIVE));
        make_archive(s.context, s.path, TARGETS);
        REQUIRE(subject_open(&s));
        table = ((const bzi_mp4 *)s.dataset->parts[0].container->own)->target->table;
        width = table.chunk_bits / 8;
        peek(s.path, table.chunks_at + 5 * width, fifth, width);
        bzna_dataset_close(s.dataset);
        if (k == 1)
            poke(s.path, table.sizes_at + 4 * (uint64_t)at, "\0\0\0\4", 4);
        else
            poke(s.path, table.chunks_at + (uint64_t)at * width,
                 k ? (const uint8_t *)"\x7f\xff\xff\xff\xff\xff\xff\xff" : fifth, width);
        REQUIRE(subject_open(&s));
        for (int i = 0; i < TARGETS; i++) {
            int64_t target = -2;
            const bzna_status status = bzna_dataset_target(s.dataset, (uint64_t)i, &target, &e);
            CHECK_EQ(status, i == at ? cases[k].status : BZNA_OK);
            if (status == BZNA_OK)
                CHECK_EQ(target, i == at ? 5 : i);
            else
                CHECK_CONTAINS(e.message, cases[k].says);
        }
        subject_close(&s);
    }
}

TEST_MAIN(
    RUN(a_file_that_changes_between_calls_costs_the_calls_and_no_more)
    RUN(a_file_that_changes_in_mid_epoch_costs_slots_and_the_loader_goes_on)
    RUN(a_plain_video_that_changes_costs_no_more_either)
    RUN(files_of_a_folder_that_change_in_mid_epoch_cost_their_own_slots)
    RUN(small_files_of_a_folder_stay_in_memory_once_they_were_read)
    RUN(a_file_that_changed_is_opened_again_or_refused)
    RUN(reads_that_fail_count_towards_retries_and_the_index_needs_none)
    RUN(a_target_out_of_order_is_where_the_index_says))

#endif
