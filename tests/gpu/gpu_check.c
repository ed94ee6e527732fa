/* gpu_check.c - what must hold on a real GPU, from the driver up to loaders: `make gpu-check`, where there is one
 *
 * gpu_check [--data DIR] [--device N]      all checks. DIR: what `make gpu-data` wrote (default build/gpu/data);
 * without it some are skipped
 *     gpu_check --only WORDS                   those with WORDS in their names
 *     gpu_check --probe                        what there is; exit status 3, and the reason, when that is nothing
 *     gpu_check --short [--kernel]             a short run, for compute-sanitizer; or the kernel alone
 * gpu_check --record [--data DIR]          in a build with libavcodec: writes DIR/expected.txt, what the processor
 * makes of the same archives
 *
 * It is meant to be built on one machine and run on another: without libavcodec, so that nothing but NVDEC can have
 * decoded what is compared, and without NVIDIA's headers. Frames are compared with MD5s of libavcodec's frames. Batches
 * are compared with MD5s of the CPU path's. Where one is not equal, the CPU path's loops warp the same planes here,
 * which tells whose fault it is, and by how much. */
#include "../../benzina.c"

#ifdef BENZINA_NO_CUDA
int main(void)
{
    printf("SKIP gpu-check: this build has no GPU path (BENZINA_NO_CUDA)\ntests/gpu_check.c: 0 passed, 0 failed, 1 "
           "skipped\n");
    return 0;
}
#else
#include "../unit/test.h"
#include "../unit/known.h"
#include "../unit/gate.h"
#include "gpu_dice.h"
#include "../unit/random.h"
#include "../unit/operations.h"
#include <sys/wait.h>
#ifdef __GLIBC__
#  include <malloc.h>
#endif

/* ALL_SECONDS: what the slowest tests must leave room for */
enum { SKIPPED = 3, TEST_SECONDS = 180, ALL_SECONDS = 290 };
enum { TOOL_FAULT = 9 };              /* exit code that compute-sanitizer is told to end with when it found something */
/* bytes of memory that the second half of many rounds may add: the driver's pools grow in such steps, and early */
#define GROWTH (2.0 * (1 << 20))
/* the same of the host's memory: sanitizers' own grows, and the fake driver's decoders keep their surfaces there */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#  define HOST_GROWTH 1e12
#else
#  define HOST_GROWTH (is_fake ? 16 * GROWTH : GROWTH)
#endif

static const char *data_dir = "build/gpu/data", *self = "";
static bzna_context *context;
static bzi_device *device;
static bzna_device_info about;
static uint32_t device_number;
static int is_short, is_fake;
static uint64_t begun_ns;
static CUresult (CUDAAPI *cu_mem_info)(size_t *free_bytes, size_t *total);      /* NULL: the driver has none */
static CUresult (CUDAAPI *cu_copy)(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);      /* likewise */
static double taken_before;           /* bytes of device memory in use when nothing of ours was there but a context */

/* A reason for SKIP that is put together. */
__attribute__((format(printf, 1, 2))) static const char *reason(const char *format, ...)
{
    static char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

/* A stream of the user's. */
static bzna_status stream_make(bzi_device *on, void **out, bzna_error *err)
{
    CUstream stream = NULL;
    bzna_status status = bzi_device_check(on, on->cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0),
                                          "cuStreamCreateWithPriority", err);
    *out = stream;
    return status;
}

/* ---- MD5 (RFC 1321) ---- */

typedef struct md5 {
    uint32_t state[4];
    uint64_t bytes;
    uint8_t  block[64];
} md5;

static uint32_t md5_sines[64];        /* made before any thread is */

static void md5_tables(void)
{
    for (int i = 0; i < 64; i++)
        md5_sines[i] = (uint32_t)(int64_t)(fabs(sin(i + 1)) * 4294967296.0);
}

static void md5_block(md5 *m, const uint8_t *p)
{
    static const uint8_t turns[4][4] = { { 7, 12, 17, 22 }, { 5, 9, 14, 20 }, { 4, 11, 16, 23 }, { 6, 10, 15, 21 } };
    uint32_t a = m->state[0], b = m->state[1], c = m->state[2], d = m->state[3], x[16];
    for (int i = 0; i < 16; i++)
        x[i] = (uint32_t)p[4 * i] | (uint32_t)p[4 * i + 1] << 8 | (uint32_t)p[4 * i + 2] << 16 |
               (uint32_t)p[4 * i + 3] << 24;
    for (int i = 0; i < 64; i++) {
        int round = i / 16, k = round == 0 ? i :
                                round == 1 ? (5 * i + 1) % 16 :
                                round == 2 ? (3 * i + 5) % 16 :
                                             7 * i % 16;
        uint32_t f = round == 0 ? (b & c) | (~b & d) :
                     round == 1 ? (d & b) | (~d & c) :
                     round == 2 ? b ^ c ^ d :
                                  c ^ (b | ~d);
        uint32_t sum = a + f + md5_sines[i] + x[k], turn = turns[round][i % 4];
        a = d;
        d = c;
        c = b;
        b += sum << turn | sum >> (32 - turn);
    }
    m->state[0] += a;
    m->state[1] += b;
    m->state[2] += c;
    m->state[3] += d;
}

static md5 md5_start(void)
{
    md5 m = { .state = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476 } };
    return m;
}

static void md5_add(md5 *m, const void *data, size_t size)
{
    const uint8_t *p = data;
    size_t held = (size_t)(m->bytes % 64);
    m->bytes += size;
    if (held + size < 64) {
        memcpy(m->block + held, p, size);
        return;
    }
    if (held) {
        memcpy(m->block + held, p, 64 - held);
        md5_block(m, m->block);
        p += 64 - held;
        size -= 64 - held;
    }
    for (; size >= 64; p += 64, size -= 64)
        md5_block(m, p);
    memcpy(m->block, p, size);
}

static void md5_end(md5 *m, char text[33])
{
    uint8_t tail[72] = { 0x80 };
    uint64_t bits = m->bytes * 8;
    size_t pad = (size_t)(119 - m->bytes % 64) % 64 + 1;
    for (int i = 0; i < 8; i++)
        tail[pad + (size_t)i] = (uint8_t)(bits >> 8 * i);
    md5_add(m, tail, pad + 8);
    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * i, 3, "%02x", m->state[i / 4] >> 8 * (i % 4) & 255);
}

static void md5_of(const void *data, size_t size, char text[33])
{
    md5 m = md5_start();
    md5_add(&m, data, size);
    md5_end(&m, text);
}

/* Of a frame's planes, as the archives' descriptions have it: without what lies between rows. */
static void md5_of_frame(const bzna_picture *p, char text[33])
{
    md5 m = md5_start();
    for (int i = 0; i < 3 && p->plane[i]; i++) {
        uint32_t sx = i ? p->chroma_shift_x : 0, sy = i ? p->chroma_shift_y : 0, width = (p->frame_width + sx) >> sx;
        for (uint32_t y = 0; y < (p->frame_height + sy) >> sy; y++)
            md5_add(&m, (const uint8_t *)p->plane[i] + (int64_t)y * p->pitch[i], (p->depth > 8 ? 2u : 1u) * width);
    }
    md5_end(&m, text);
}

/* ---- Where frames differ: DIR/rows.txt ----
 *
 *     rows FILE TRACK INDEX PLANE R C HEX...       16 bits of a hash of each of R rows and each of C columns
 *
 * An MD5 says that a frame is wrong; these say from which row and column on. */

enum { EDGE_MAX = 4096 };

typedef struct edges { uint32_t rows, columns; uint16_t sum[2 * EDGE_MAX]; } edges;      /* rows first */

static uint32_t fold(uint32_t sum, uint32_t value) { return (sum ^ value) * 16777619u; }

/* 0: there is no such plane, or it is too large. */
static int edges_of(const bzna_picture *p, int plane, edges *out)
{
    static uint32_t columns[EDGE_MAX];
    const uint32_t sx = plane ? p->chroma_shift_x : 0, sy = plane ? p->chroma_shift_y : 0;
    out->columns = (p->frame_width + sx) >> sx;
    out->rows = (p->frame_height + sy) >> sy;
    if (!p->plane[plane] || out->columns > EDGE_MAX || out->rows > EDGE_MAX)
        return 0;
    for (uint32_t x = 0; x < out->columns; x++)
        columns[x] = 2166136261u;
    for (uint32_t y = 0; y < out->rows; y++) {
        const uint8_t *row = (const uint8_t *)p->plane[plane] + (int64_t)y * p->pitch[plane];
        uint32_t sum = 2166136261u;
        for (uint32_t x = 0; x < out->columns; x++) {
            uint16_t value = row[x];
            if (p->depth > 8)
                memcpy(&value, row + 2 * x, 2);
            sum = fold(sum, value);
            columns[x] = fold(columns[x], value);
        }
        out->sum[y] = (uint16_t)(sum >> 16 ^ sum);
    }
    for (uint32_t x = 0; x < out->columns; x++)
        out->sum[out->rows + x] = (uint16_t)(columns[x] >> 16 ^ columns[x]);
    return 1;
}

static const char *name_of(const char *path) { return strrchr(path, '/') ? strrchr(path, '/') + 1 : path; }

/* What was recorded; 0: nothing was. */
static int edges_recorded(const char *file, const char *track, uint64_t index, int plane, edges *out)
{
    char wanted[400], path[512], *line = NULL;
    size_t room = 0;
    int found = 0, at = 0;
    FILE *rows;
    snprintf(wanted, sizeof wanted, "rows %s %s %llu %d ", name_of(file), track ? track : "-",
             (unsigned long long)index, plane);
    snprintf(path, sizeof path, "%s/rows.txt", data_dir);
    if (!(rows = fopen(path, "r")))
        return 0;
    while (!found && getline(&line, &room, rows) > 0)
        found = !strncmp(line, wanted, strlen(wanted)) &&
                sscanf(line + strlen(wanted), "%u %u %n", &out->rows, &out->columns, &at) >= 2 &&
                out->rows <= EDGE_MAX && out->columns <= EDGE_MAX;
    for (uint32_t i = 0; found && i < out->rows + out->columns; i++) {
        unsigned value = 0;
        found = sscanf(line + strlen(wanted) + at + 4 * i, "%4x", &value) == 1;
        out->sum[i] = (uint16_t)value;
    }
    free(line);
    fclose(rows);
    return found;
}

/* The first, the last, and how many of some rows or columns that differ. */
static void edges_differ(const char *what, const uint16_t *made, const uint16_t *expected, uint32_t count)
{
    uint32_t first = count, last = 0, different = 0;
    for (uint32_t i = 0; i < count; i++)
        if (made[i] != expected[i]) {
            first = different++ ? first : i;
            last = i;
        }
    if (different)
        printf(", %s %u to %u (%u of %u)", what, first, last, different, count);
}

/* Which rows and columns of a frame are not as recorded. */
static void frame_differs(const char *file, const char *track, uint64_t index, const bzna_picture *frame)
{
    static edges made, expected;
    for (int plane = 0; plane < 3; plane++) {
        if (!edges_of(frame, plane, &made))
            continue;
        if (!edges_recorded(file, track, index, plane, &expected)) {
            printf("  plane %d: %s/rows.txt does not have it\n", plane, data_dir);
            continue;
        }
        if (made.rows != expected.rows || made.columns != expected.columns) {
            printf("  plane %d: %ux%u, not %ux%u\n", plane, made.columns, made.rows, expected.columns, expected.rows);
            continue;
        }
        printf("  plane %d differs in", plane);
        edges_differ("rows", made.sum, expected.sum, made.rows);
        edges_differ("columns", made.sum + made.rows, expected.sum + made.rows, made.columns);
        printf("\n");
    }
}

/* Only lines that are not all zeros. */
static void hex_print(const char *what, const void *data, size_t size)
{
    const uint8_t *p = data;
    printf("  %s, %zu bytes:\n", what, size);
    for (size_t at = 0; at < size; at += 32) {
        const size_t count = size - at < 32 ? size - at : 32;
        size_t zeros = 0;
        while (zeros < count && !p[at + zeros])
            zeros++;
        if (zeros == count)
            continue;
        printf("    %04zx ", at);
        for (size_t i = 0; i < count; i++)
            printf(i % 4 ? "%02x" : " %02x", p[at + i]);
        printf("\n");
    }
}

/* ---- What is checked ---- */

/* Kinds of coded pictures, as make gpu-data made them. */
static const char *const kinds[] = {
    "main10.mp4",      "main12.mp4",    "full8.mp4",     "full10.mp4",   "full12.mp4",   "odd265.mp4",
    "odd264.mp4",      "slices265.mp4", "slices264.mp4", "cavlc264.mp4", "intra265.mp4", "wpp265.mp4",
    "lossless265.mp4", "wide265.mp4",   "tall264.mp4",   "small265.mp4", "small264.mp4", "gray265.mp4",
    "high10.mp4",      "half265.mp4",   "full264.mp4",   "mbaff264.mp4", "av1.mp4",
};

/* One way of loading one archive: what the recording and the checks share. */
typedef struct check {
    const char *name, *file, *track;  /* file: of tests/data when it is there, else of DIR */
    uint32_t    batch, width, height, number;
    void      (*fill)(bzna_loader_config *config, uint32_t number);
} check;

static void fill_plain(bzna_loader_config *config, uint32_t number) { config->color.matrix = number; }

static void fill_crop(bzna_loader_config *config, uint32_t number)
{
    static const float mean[3] = { 123.675f, 116.28f, 103.53f }, std[3] = { 58.395f, 57.12f, 57.375f };
    config->warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    config->warp.flip_h = 0.5f;
    config->order.kind = BZNA_ORDER_SHUFFLE;
    memcpy(config->color.mean, mean, sizeof mean);
    memcpy(config->color.std, std, sizeof std);
    config->output.dtype = number;
}

static void fill_center(bzna_loader_config *config, uint32_t number)
{
    config->warp.kind = BZNA_WARP_CENTER_RESIZED_CROP;
    config->warp.scale[0] = 0.875f;
    config->color.matrix = number;
}

static void fill_turn(bzna_loader_config *config, uint32_t number)
{
    config->warp.kind = BZNA_WARP_SIMILARITY;
    config->warp.degrees[0] = -40;
    config->warp.degrees[1] = 40;
    config->warp.scale[0] = 0.3f;
    config->warp.scale[1] = 1.3f;
    config->warp.translate[0] = config->warp.translate[1] = 0.1f;
    config->warp.flip_v = 0.5f;
    config->color.fill[0] = 200;
    config->color.fill[1] = 100;
    config->color.fill[2] = 50;
    config->output.dtype = number;
}

/* Nothing but + - * /, so that every C library makes the same. */
static bzna_status perspective(void *user, const bzna_sample_info *sample, bzna_random *random,
                               bzna_transform *transform)
{
    double sx = (double)sample->width / sample->out_width, sy = (double)sample->height / sample->out_height;
    double h[9] = { sx * bzna_random_uniform(random, 0.6, 1.2),
                    bzna_random_uniform(random, -0.3, 0.3),
                    bzna_random_uniform(random, -20, 20),
                    bzna_random_uniform(random, -0.3, 0.3),
                    sy * bzna_random_uniform(random, 0.6, 1.2),
                    bzna_random_uniform(random, -20, 20),
                    bzna_random_uniform(random, -2e-3, 2e-3),
                    bzna_random_uniform(random, -2e-3, 2e-3),
                    1 };
    (void)user;
    memcpy(transform->homography, h, sizeof h);
    for (int i = 0; i < 12; i++)
        transform->color[i] = (float)bzna_random_uniform(random, -0.1, 0.1) + (i % 5 == 0 ? 0.9f : 0);
    for (int i = 0; i < 3; i++) {
        transform->bias[i] = (float)bzna_random_uniform(random, 0, 128);
        transform->scale[i] = (float)bzna_random_uniform(random, 0.004, 0.1);
        transform->fill[i] = (float)bzna_random_uniform(random, 0, 255);
    }
    transform->fill_space = (uint32_t)(sample->index % 2);
    transform->matrix = (uint32_t)(sample->index % 7);
    return BZNA_OK;
}

static void fill_perspective(bzna_loader_config *config, uint32_t number)
{
    config->pipeline.transform = perspective;
    config->output.dtype = number;
}

#define H265 "mini_h265.bzna"
#define H264 "mini_h264.bzna"
#define IN   "bzna_input"
static const check checks[] = {
    { "identity",       H265, IN, 4, 512, 512, 0, fill_plain },
    { "identity_264",   H264, IN, 4, 512, 512, 0, fill_plain },
    { "identity_thumb", H265, NULL, 4, 512, 512, 0, fill_plain },
    { "crop_flip",      H265, NULL, 3, 224, 224, BZNA_DTYPE_FLOAT32, fill_crop },
    { "crop_flip_264",  H264, NULL, 8, 224, 224, BZNA_DTYPE_FLOAT32, fill_crop },
    { "crop_half",      H265, NULL, 8, 224, 224, BZNA_DTYPE_FLOAT16, fill_crop },
    { "turn",           H264, NULL, 4, 160, 120, BZNA_DTYPE_FLOAT32, fill_turn },
    { "turn_half",      H265, NULL, 4, 161, 121, BZNA_DTYPE_FLOAT16, fill_turn },
    { "perspective",    H265, IN, 8, 200, 150, BZNA_DTYPE_FLOAT32, fill_perspective },
    { "matrix_601f",    H265, NULL, 8, 64, 64, BZNA_MATRIX_BT601_FULL, fill_center },
    { "matrix_601",     H265, NULL, 8, 64, 64, BZNA_MATRIX_BT601, fill_center },
    { "matrix_709",     H265, NULL, 8, 64, 64, BZNA_MATRIX_BT709, fill_center },
    { "matrix_2020",    H265, NULL, 8, 64, 64, BZNA_MATRIX_BT2020, fill_center },
    { "matrix_709f",    H265, NULL, 8, 64, 64, BZNA_MATRIX_BT709_FULL, fill_center },
    { "matrix_2020f",   H265, NULL, 8, 64, 64, BZNA_MATRIX_BT2020_FULL, fill_center },
    { "mixed_sizes",    "mixed.bzna", IN, 16, 96, 128, BZNA_DTYPE_FLOAT32, fill_crop },
    { "mixed_half",     "mixed.bzna", IN, 5, 224, 224, BZNA_DTYPE_FLOAT16, fill_crop },
    { "mixed_turn",     "mixed.bzna", IN, 16, 100, 100, BZNA_DTYPE_FLOAT32, fill_perspective },
    { "main10",         "main10.mp4", NULL, 5, 128, 96, BZNA_DTYPE_FLOAT32, fill_crop },
    { "main12",         "main12.mp4", NULL, 5, 128, 96, BZNA_DTYPE_FLOAT32, fill_turn },
    { "full8",          "full8.mp4", NULL, 5, 128, 96, BZNA_DTYPE_FLOAT32, fill_crop },
    { "full10",         "full10.mp4", NULL, 5, 128, 96, BZNA_DTYPE_FLOAT16, fill_perspective },
    { "odd265",         "odd265.mp4", NULL, 5, 520, 390, 0, fill_plain },
    { "odd264",         "odd264.mp4", NULL, 5, 520, 390, 0, fill_plain },
    { "wide",           "wide265.mp4", NULL, 2, 224, 224, BZNA_DTYPE_FLOAT32, fill_crop },
};
enum { CHECKS = sizeof checks / sizeof checks[0], KINDS = sizeof kinds / sizeof kinds[0], EPOCHS = 2 };

static const check *check_named(const char *name)
{
    for (int i = 0; i < CHECKS; i++)
        if (!strcmp(checks[i].name, name))
            return &checks[i];
    return NULL;
}

static const char *path_of(const char *file)
{
    static _Thread_local char path[512];
    snprintf(path, sizeof path, "tests/data/%s", file);
    if (access(path, R_OK))
        snprintf(path, sizeof path, "%s/%s", data_dir, file);
    return path;
}

static void config_of(const check *c, bzna_loader_config *config)
{
    bzna_loader_config_init(config, sizeof *config);
    config->output.batch_size = c->batch;
    config->output.width = c->width;
    config->output.height = c->height;
    if (device)                                             /* what is recorded is the CPU's */
        config->output.device = (bzna_device){ BZNA_DEVICE_CUDA, (int32_t)device_number };
    config->fields.image = c->track;
    config->order.seed = 77;
    config->order.epochs = EPOCHS;
    c->fill(config, c->number);
}

/* ---- Expectations: lines of DIR/expected.txt ----
 *
 *     frame FILE INDEX MD5                         of libavcodec's frame
 * slot CHECK ORDINAL SLOT INDEX HMD5 MD5       of the CPU path's pixels; HMD5: of the matrix as floats. ORDINAL: of the
 * batch in the run
 *     state CHECK ORDINAL HEX                      as saved behind that batch */

typedef struct expectation {
    char kind, name[24];
    uint32_t ordinal, slot;
    uint64_t index;
    char matrix[33], md5[257];
} expectation;

static expectation *expected;
static size_t expected_count;

static void expectations_load(void)
{
    char line[512];
    char path[512];
    FILE *file;
    snprintf(path, sizeof path, "%s/expected.txt", data_dir);
    file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        expectation e;
        unsigned long long index = 0;
        memset(&e, 0, sizeof e);
        if (sscanf(line, "frame %23s %llu %256s", e.name, &index, e.md5) == 3)
            e.kind = 'f';
        else if (sscanf(line, "slot %23s %u %u %llu %32s %256s", e.name, &e.ordinal, &e.slot, &index, e.matrix,
                        e.md5) == 6)
            e.kind = 's';
        else if (sscanf(line, "state %23s %u %256s", e.name, &e.ordinal, e.md5) == 3)
            e.kind = 't';
        else
            continue;
        e.index = index;
        if (expected_count % 256 == 0)
            expected = realloc(expected, (expected_count + 256) * sizeof *expected);
        expected[expected_count++] = e;
    }
    if (file)
        fclose(file);
}

static const expectation *expect_slot(const char *name, uint32_t ordinal, uint32_t slot)
{
    for (size_t i = 0; i < expected_count; i++)
        if (expected[i].kind == 's' && expected[i].ordinal == ordinal && expected[i].slot == slot &&
            !strcmp(expected[i].name, name))
            return &expected[i];
    return NULL;
}

static const expectation *expect_other(char kind, const char *name, uint64_t number)
{
    for (size_t i = 0; i < expected_count; i++)
        if (expected[i].kind == kind && !strcmp(expected[i].name, name) &&
            (kind == 'f' ? expected[i].index : expected[i].ordinal) == number)
            return &expected[i];
    return NULL;
}

#define NEED_DATA() do { if (!expected_count) \
    SKIP(reason("%s/expected.txt is not there: run make gpu-data where there is an encoder", data_dir)); } while (0)

/* ---- Running a loader ---- */

/* A batch of which everything has been copied. */
typedef struct copied {
    uint32_t    ordinal, count, failed, slices;
    uint64_t    epoch, slot_bytes;
    int64_t     targets[64];
    uint64_t    indices[64];
    bzna_status status[64];
    bzna_error  errors[64];
    uint8_t    *pixels;
} copied;

typedef void copied_fn(void *user, bzna_loader *loader, const check *c, const copied *batch);

/* How a run differs from what is usual. */
typedef struct variation {
    bzna_context *context;            /* NULL: the common one */
    bzna_dataset *dataset;            /* NULL: the check's */
    void        (*change)(bzna_loader_config *config, void *user);
    void         *change_user;
    void         *move;               /* stream that batches are moved to */
    uint32_t      dawdle;             /* copies made on the stream before the one that counts, so that work piles up */
    uint32_t      first_ordinal;
    void        (*prepare)(bzna_loader *loader, void *user);
    bzna_statistics *stats;         /* of the end */
    bzna_loader_info  *info;
} variation;

/* Copies a batch on its stream, gives it back at once, and only then waits: the release must come behind the copy.
 * pinned: of the batch's size. */
static bzna_status batch_copy(bzna_batch *batch, const variation *v, uint8_t *pinned, copied *to, bzna_error *err)
{
    bzna_batch_info info = { .struct_size = sizeof info };
    bzna_status status = BZNA_OK;
    bzna_batch_get_info(batch, &info, sizeof info, NULL);
    to->count = info.count;
    to->failed = info.failed;
    to->slices = info.slice_count;
    to->epoch = info.epoch;
    to->slot_bytes = info.image.bytes / (uint64_t)(info.image.shape[0] ? info.image.shape[0] : 1);
    for (uint32_t i = 0; i < info.count && i < 64; i++) {
        to->targets[i] = info.targets[i];
        to->indices[i] = info.indices[i];
        to->status[i] = info.status[i];
        if (info.status[i] < 0) {
            to->errors[i] = fresh_error();
            bzna_batch_error(batch, i, &to->errors[i]);
        }
    }
    if (v->move && info.image.device.kind == BZNA_DEVICE_CUDA &&
        (status = bzna_batch_move(batch, v->move, err)) == BZNA_OK)
        info.stream = v->move;
    for (uint32_t k = 0; k <= v->dawdle && status == BZNA_OK; k++)
        for (uint32_t s = 0; s < info.slice_count && status == BZNA_OK; s++) {
            const void *data = info.slices[s];
            const uint32_t each = info.slice_slots;
            if (info.image.device.kind == BZNA_DEVICE_CPU)
                memcpy(pinned + s * each * to->slot_bytes, data, each * to->slot_bytes);
            else
                status = bzi_device_download(device, pinned + s * each * to->slot_bytes, (uint64_t)(uintptr_t)data,
                                             each * to->slot_bytes, info.stream, err);
        }
    bzna_batch_release(batch);
    if (info.image.device.kind == BZNA_DEVICE_CUDA && status == BZNA_OK)
        status = bzi_device_check(device, device->cu.cuStreamSynchronize(info.stream), "cuStreamSynchronize", err);
    to->pixels = pinned;
    return status;
}

/* Runs a check to its end. */
static bzna_status run(const check *c, const variation *v, copied_fn *fn, void *user, bzna_error *err)
{
    bzna_context *in = v->context ? v->context : context;
    bzna_dataset *dataset = v->dataset;
    bzna_loader_config config;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    copied *to = calloc(1, sizeof *to);
    uint8_t *memory = NULL;
    bzna_status status = BZNA_OK;
    config_of(c, &config);
    if (v->change)
        v->change(&config, v->change_user);
    if (!dataset)
        status = bzna_dataset_open(in, path_of(c->file), NULL, &dataset, err);
    if (status == BZNA_OK)
        status = bzna_loader_open(in, dataset, &config, &loader, err);
    if (loader && v->prepare)
        v->prepare(loader, v->change_user);
    if (loader && v->info)
        bzna_loader_get_info(loader, v->info, sizeof *v->info, NULL);
    if (loader && device)
        status = bzi_device_pin(device, config.output.batch_size * loader->setup.slot_bytes, (void **)&memory, err);
    else if (loader)
        memory = malloc((size_t)(config.output.batch_size * loader->setup.slot_bytes));
    to->ordinal = v->first_ordinal;
    while (status == BZNA_OK && (status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, err)) == BZNA_OK) {
        if ((status = batch_copy(batch, v, memory, to, err)) == BZNA_OK)
            fn(user, loader, c, to);
        to->ordinal++;
    }
    if (loader && v->stats)
        bzna_loader_statistics(loader, v->stats, sizeof *v->stats, NULL);
    bzna_loader_close(loader);
    if (!v->dataset)
        bzna_dataset_close(dataset);
    if (device)
        bzi_device_unpin(device, memory);
    else
        free(memory);
    free(to);
    return status == BZNA_END ? BZNA_OK : status;
}

/* The transform that a loader gives a sample of a batch. */
static bzna_status transform_of(const bzna_loader *loader, const copied *batch, uint32_t slot,
                                const bzna_picture *picture, bzna_transform *transform, bzna_error *err)
{
    static bzi_views views;                                 /* of the first output alone, by one thread */
    int64_t targets[64];
    bzna_batch in;
    bzi_item item;
    bzna_status status;
    memset(&in, 0, sizeof in);
    memset(&item, 0, sizeof item);
    memcpy(targets, batch->targets, sizeof targets);
    in.epoch = batch->epoch;
    in.order.seed = loader->queues.plan.seed;
    bzi_random_begin(&in.random, in.order.seed, in.epoch);
    in.targets = targets;
    item.batch = &in;
    item.setup = &loader->setup;
    item.slot = slot;
    item.index = batch->indices[slot];
    status = bzi_item_draw(&item, picture, &views, err);
    *transform = views.transforms[0];
    return status;
}

static void matrix_md5(const bzna_transform *transform, char text[33])
{
    float h[9];
    for (int i = 0; i < 9; i++)
        h[i] = (float)transform->homography[i];
    md5_of(h, sizeof h, text);
}

/* A coded picture in memory, and what the stream says of it. */
typedef struct coded { uint8_t *bytes; bzna_image image; bzna_picture picture; bzi_format sps; } coded;

static bzna_status coded_load(bzna_context *in, bzna_dataset *dataset, uint64_t index, const char *track, coded *out,
                              bzna_error *err)
{
    bzna_sample_ref sample = { .struct_size = sizeof sample };
    bzna_status status = bzna_dataset_sample(dataset, index, &sample, sizeof sample, err);
    memset(out, 0, sizeof *out);
    out->image.struct_size = sizeof out->image;
    if (status == BZNA_OK) {
        out->bytes = malloc((size_t)sample.size + 1);
        status = bzna_dataset_read_image(dataset, index, track, out->bytes, sample.size, &out->image, err);
    }
    const bzi_image alone = bzi_image_alone(&out->image);
    return status == BZNA_OK ? bzi_picture_describe(&alone, in->host->max_edge_px, &out->sps, &out->picture, err) :
                               status;
}

/* ---- Recording, where libavcodec is ---- */

#ifndef BENZINA_NO_AVCODEC

typedef struct recording { FILE *file; bzna_dataset *dataset; long long slots; int failed; } recording;

static void record_batch(void *user, bzna_loader *loader, const check *c, const copied *batch)
{
    recording *r = user;
    bzna_error err = fresh_error();
    for (uint32_t i = 0; i < batch->count; i++) {
        coded unit;
        bzna_transform transform;
        char matrix[33] = "", sum[33];
        if (batch->status[i] != BZNA_OK ||
            coded_load(loader->setup.context, r->dataset, batch->indices[i], c->track, &unit, &err) != BZNA_OK ||
            transform_of(loader, batch, i, &unit.picture, &transform, &err) != BZNA_OK) {
            printf("%s: sample %llu: %s\n", c->name, (unsigned long long)batch->indices[i],
                   batch->status[i] != BZNA_OK ? batch->errors[i].message : err.message);
            r->failed = 1;
            continue;
        }
        matrix_md5(&transform, matrix);
        md5_of(batch->pixels + i * batch->slot_bytes, (size_t)batch->slot_bytes, sum);
        fprintf(r->file, "slot %s %u %u %llu %s %s\n", c->name, batch->ordinal, i,
                (unsigned long long)batch->indices[i], matrix, sum);
        r->slots++;
        free(unit.bytes);
    }
    if (batch->ordinal == 1) {
        bzna_loader_state state;
        bzna_loader_save(loader, &state, sizeof state, NULL);
        fprintf(r->file, "state %s %u ", c->name, batch->ordinal);
        for (size_t i = 0; i < sizeof state; i++)
            fprintf(r->file, "%02x", ((const uint8_t *)&state)[i]);
        fputc('\n', r->file);
    }
}

static void record_rows(FILE *file, const char *name, const char *track, uint64_t index, const bzna_picture *picture)
{
    static edges e;
    for (int plane = 0; plane < 3; plane++) {
        if (!edges_of(picture, plane, &e))
            continue;
        fprintf(file, "rows %s %s %llu %d %u %u ", name, track ? track : "-", (unsigned long long)index, plane, e.rows,
                e.columns);
        for (uint32_t i = 0; i < e.rows + e.columns; i++)
            fprintf(file, "%04x", e.sum[i]);
        fputc('\n', file);
    }
}

/* A kind that libavcodec cannot decode has nothing to compare with: said, and left out. file: of MD5s, or NULL. */
static void record_frames(FILE *file, FILE *rows, const char *name, const char *track)
{
    bzna_error err = fresh_error();
    bzna_dataset *dataset = NULL;
    bzna_decoder *decoder = NULL;
    uint64_t count = 0;
    if (bzna_dataset_open(context, path_of(name), NULL, &dataset, &err) != BZNA_OK ||
        bzna_decoder_open(context, &decoder, &err) != BZNA_OK)
        printf("left out: %s\n", err.message);
    else
        count = bzna_dataset_count(dataset);
    for (uint64_t i = 0; i < count; i++) {
        bzna_picture picture = { .struct_size = sizeof picture };
        coded unit;
        char sum[33];
        if (coded_load(context, dataset, i, track, &unit, &err) != BZNA_OK ||
            bzna_decoder_decode(decoder, &unit.image, &picture, &err) != BZNA_OK) {
            printf("left out: %s, sample %llu: %s\n", name, (unsigned long long)i, err.message);
        } else {
            md5_of_frame(&picture, sum);
            if (file)
                fprintf(file, "frame %s %llu %s\n", name, (unsigned long long)i, sum);
            record_rows(rows, name, track, i, &picture);
        }
        free(unit.bytes);
    }
    bzna_decoder_close(decoder);
    bzna_dataset_close(dataset);
}

static int record(void)
{
    bzna_context_config config;
    bzna_error err = fresh_error();
    recording r = { 0 };
    char path[512], rows_path[512];
    FILE *rows = NULL;
    snprintf(path, sizeof path, "%s/expected.txt", data_dir);
    snprintf(rows_path, sizeof rows_path, "%s/rows.txt", data_dir);
    bzna_context_config_init(&config, sizeof config);
    config.device.kind = BZNA_DEVICE_CPU;
    if (bzna_context_open(&config, &context, &err) != BZNA_OK || !(r.file = fopen(path, "w")) ||
        !(rows = fopen(rows_path, "w"))) {
        printf("%s: %s\n", path, err.message[0] ? err.message : strerror(errno));
        return 1;
    }
    for (int i = 0; i < KINDS; i++)
        record_frames(r.file, rows, kinds[i], NULL);
    for (int i = 0; i < 4; i++)                             /* whose MD5s stand in known.h */
        record_frames(NULL, rows, i % 2 ? H264 : H265, i / 2 ? "bzna_thumb" : IN);
    r.failed |= fclose(rows) != 0;
    for (int i = 0; i < CHECKS; i++) {
        variation v = { 0 };
        if (bzna_dataset_open(context, path_of(checks[i].file), NULL, &r.dataset, &err) != BZNA_OK) {
            printf("left out: %s: %s\n", checks[i].name, err.message);
            continue;
        }
        if (run(&checks[i], &v, record_batch, &r, &err) != BZNA_OK) {
            printf("%s: %s\n", checks[i].name, err.message);
            r.failed = 1;
        }
        bzna_dataset_close(r.dataset);
        r.dataset = NULL;
    }
    r.failed |= fclose(r.file) != 0;
    printf("%s: %lld slots of %d ways of loading%s\n", path, r.slots, CHECKS, r.failed ? "; something failed" : "");
    bzna_context_close(context);
    return r.failed;
}

#endif

/* ---- Decoding by a session ---- */

/* A frame on the host as libavcodec lays it out: planar, values in the low bits. */
typedef struct plain { bzna_picture picture; uint8_t *bytes; } plain;

/* Copies a mapped surface and takes it apart. */
static bzna_status plain_take(bzi_session *session, const bzi_flight *flight, plain *out, bzna_error *err)
{
    const bzna_picture *p = &flight->picture;
    uint64_t pitch = (uint64_t)p->pitch[0], rows = (flight->decoder->height + 1) & ~1u, unit = p->depth > 8 ? 2 : 1;
    uint64_t size = pitch * rows * (flight->decoder->format.chroma == 3 ? 6 : 3) / 2, at = 0;
    uint8_t *surface = malloc((size_t)size);
    bzna_status status = bzi_device_download(session->device, surface, flight->address, size, session->stream, err);
    if (status == BZNA_OK)
        status = bzi_device_check(session->device, session->device->cu.cuStreamSynchronize(session->stream),
                                  "cuStreamSynchronize", err);
    out->picture = *p;
    out->bytes = malloc((size_t)(3 * unit * p->frame_width * p->frame_height));
    for (int i = 0; i < 3 && status == BZNA_OK; i++) {
        uint32_t sx = i ? p->chroma_shift_x : 0, sy = i ? p->chroma_shift_y : 0, width = (p->frame_width + sx) >> sx,
                 height = (p->frame_height + sy) >> sy;
        uint64_t step = p->step[i];
        out->picture.plane[i] = NULL;
        if (!p->plane[i])
            continue;
        out->picture.plane[i] = out->bytes + at;
        out->picture.pitch[i] = (int64_t)(width * unit);
        out->picture.step[i] = 0;
        for (uint32_t y = 0; y < height; y++) {
            const uint8_t *row = surface + ((uint64_t)(uintptr_t)p->plane[i] - flight->address) + y * pitch;
            for (uint32_t x = 0; x < width; x++, at += unit) {
                uint16_t value;
                if (unit == 1) {
                    out->bytes[at] = row[x * step];
                    continue;
                }
                memcpy(&value, row + x * step, 2);
                value = (uint16_t)(value >> (16 - p->depth));
                memcpy(out->bytes + at, &value, 2);
            }
        }
    }
    free(surface);
    return status;
}

enum { IN_FLIGHT = 16 };              /* more than a session can have */

typedef struct decoding {
    bzi_session session;
    CUVIDPICPARAMS parameters[IN_FLIGHT];     /* what NVDEC was given, by the sample's index */
    void      (*fn)(void *user, uint64_t index, bzna_status status, const plain *frame, const bzna_error *err);
    void       *user;
} decoding;

static tcuvidDecodePicture *decode_really;
static _Thread_local CUVIDPICPARAMS decode_given;

static CUresult CUDAAPI decode_noted(CUvideodecoder decoder, CUVIDPICPARAMS *parameters)
{
    decode_given = *parameters;
    return decode_really(decoder, parameters);
}

/* Maps the oldest picture. Surfaces are let go of when as many are mapped as can be. */
static void decoding_advance(decoding *d)
{
    bzna_error err = fresh_error();
    bzi_flight flight;
    plain frame;
    bzna_status result;
    bzna_status status;
    if (d->session.mapped_count == device->config.session_mapped || !d->session.pending_count)
        bzi_session_unmap_all(&d->session);
    if (!d->session.pending_count)
        return;
    memset(&frame, 0, sizeof frame);
    result = bzi_session_map(&d->session, &flight, &err);
    status = result == BZNA_OK ? BZNA_OK : err.status;
    if (status == BZNA_OK)
        status = plain_take(&d->session, &flight, &frame, &err);
    d->fn(d->user, (uint64_t)(uintptr_t)flight.tag, status, &frame, &err);
    free(frame.bytes);
}

static bzna_status decoding_accepts(bzi_session *session, const coded *unit, bzi_nvdec_picture *picture,
                                    bzna_error *err)
{
    *picture = (bzi_nvdec_picture){ &unit->image, unit->sps, unit->picture };
    return bzi_session_accepts(session, picture, err);
}

/* Submits a sample; those before it may be in flight still. */
static void decoding_submit(decoding *d, bzna_dataset *dataset, const char *track, uint64_t index)
{
    bzna_error err = fresh_error();
    coded unit;
    bzi_nvdec_picture picture;
    void *tag = (void *)(uintptr_t)index;
    bzna_status result = BZNA_E_DEVICE;
    if (coded_load(context, dataset, index, track, &unit, &err) == BZNA_OK)
        result = decoding_accepts(&d->session, &unit, &picture, &err);
    if (result == BZNA_OK)
        while ((result = bzi_session_submit(&d->session, &picture, tag, &err)) == BZNA_AGAIN)
            decoding_advance(d);
    free(unit.bytes);
    if (result == BZNA_OK)
        d->parameters[index % IN_FLIGHT] = decode_given;
    else
        d->fn(d->user, index, err.status, NULL, &err);
}

static void decoding_drain(decoding *d)
{
    while (d->session.pending_count || d->session.mapped_count)
        decoding_advance(d);
}

/* Decodes samples first .. first + count - 1, several in flight at a time. */
static void decoding_run(decoding *d, bzna_dataset *dataset, const char *track, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++)
        decoding_submit(d, dataset, track, i);
    decoding_drain(d);
}

typedef struct tally {
    const decoding *by;               /* NULL: what differs is not explained */
    int explained;
    const char *name;
    const facts *known;
    const char *track;
    int frames, equal, refused, failed;
    char message[488];
} tally;

/* All that could tell why a frame is wrong: where it is, and what NVIDIA's parser made of it. Once for each tally. */
static void tally_explain(tally *t, uint64_t index, const plain *frame)
{
    const bzi_session *session = t->by ? &t->by->session : NULL;
    if (!session || t->explained++)
        return;
    printf("  %s %s, sample %llu\n", t->name, t->track ? t->track : "", (unsigned long long)index);
    frame_differs(t->name, t->track, index, &frame->picture);
    for (uint32_t i = 0; i < BZI_SESSION_PARSERS; i++)
        if (session->parsers[i].handle)
            hex_print("CUVIDEOFORMAT of a parser of this session", &session->parsers[i].parsed,
                      sizeof session->parsers[i].parsed);
    hex_print("CUVIDPICPARAMS of this picture", &t->by->parameters[index % IN_FLIGHT], sizeof (CUVIDPICPARAMS));
}

static void tally_frame(void *user, uint64_t index, bzna_status status, const plain *frame, const bzna_error *err)
{
    tally *t = user;
    char sum[33];
    const char *should = NULL;
    if (t->known) {
        for (int k = 0; k < t->known->samples[index].image_count; k++)
            if (!strcmp(t->known->samples[index].images[k].name, t->track))
                should = t->known->samples[index].images[k].md5;
    } else {
        const expectation *e = expect_other('f', t->name, index);
        should = e ? e->md5 : NULL;
    }
    t->frames++;
    if (status != BZNA_OK) {
        t->refused += status == BZNA_E_CODEC;
        t->failed += status != BZNA_E_CODEC;
        snprintf(t->message, sizeof t->message, "%s", err->message);
        return;
    }
    md5_of_frame(&frame->picture, sum);
    t->equal += should && !strcmp(sum, should);
    if (should && strcmp(sum, should)) {
        snprintf(t->message, sizeof t->message, "sample %llu: MD5 %.64s, not %.64s", (unsigned long long)index, sum,
                 should);
        tally_explain(t, index, frame);
    }
    if (!should) {
        t->frames--; /* libavcodec did not decode it: there is nothing to compare with */
        snprintf(t->message, sizeof t->message, "NVDEC decodes it; there is no MD5 of libavcodec's to compare with");
    }
}

static bzna_status decoding_open(decoding *d, bzna_error *err)
{
    memset(d, 0, sizeof *d);
    if (!decode_really) {
        decode_really = device->cu.cuvidDecodePicture;
        device->cu.cuvidDecodePicture = decode_noted;
    }
    return bzi_session_open(&d->session, device, &context->host->memory, err);
}

TEST(frames_of_the_original_archives_equal_their_md5)
{
    bzna_error err = fresh_error();
    facts_load();
    for (int a = 0; a < 2; a++) {
        static const char *const tracks[2] = { "bzna_input", "bzna_thumb" };
        bzna_dataset *dataset = NULL;
        decoding d;
        REQUIRE(bzna_dataset_open(context, archives[a], NULL, &dataset, &err) == BZNA_OK);
        REQUIRE(decoding_open(&d, &err) == BZNA_OK);
        for (int k = 0; k < 2; k++) {
            tally t = { .by = &d, .name = archives[a], .known = &known[a], .track = tracks[k] };
            d.fn = tally_frame;
            d.user = &t;
            decoding_run(&d, dataset, tracks[k], 0, bzna_dataset_count(dataset));
            printf("  %-26s %s: %d of %d frames equal, %d refused, %d failed %s\n", archives[a], tracks[k], t.equal,
                   t.frames, t.refused, t.failed, t.message);
            CHECK_EQ(t.equal, 8);
        }
        bzi_session_close(&d.session);
        bzna_dataset_close(dataset);
    }
}

/* What the caps exclude is refused with E_CODEC; all else must be bit for bit libavcodec's. */
TEST(frames_of_every_kind_equal_libavcodec)
{
    bzna_error err = fresh_error();
    decoding d;
    NEED_DATA();
    REQUIRE(decoding_open(&d, &err) == BZNA_OK);
    for (int i = 0; i < KINDS; i++) {
        bzna_dataset *dataset = NULL;
        tally t = { .by = &d, .name = kinds[i] };
        if (bzna_dataset_open(context, path_of(kinds[i]), NULL, &dataset, &err) != BZNA_OK) {
            printf("  %-16s is not there\n", kinds[i]);
            continue;
        }
        d.fn = tally_frame;
        d.user = &t;
        decoding_run(&d, dataset, NULL, 0, bzna_dataset_count(dataset));
        printf("  %-16s %d of %d equal, %d refused, %d failed  %s\n", kinds[i], t.equal, t.frames, t.refused, t.failed,
               t.message);
        if (t.equal + t.refused != t.frames) {
            test_failures++;
            printf("  %s: NVDEC and libavcodec differ, or NVDEC failed\n", kinds[i]);
        }
        bzna_dataset_close(dataset);
    }
    printf("  by this session: %llu decoders made, %llu reconfigured\n",
           (unsigned long long)atomic_load(&device->decoders_made),
           (unsigned long long)atomic_load(&device->decoders_reconfigured));
    bzi_session_close(&d.session);
}

/* Which parsers a session has. Returns how many. */
static uint32_t parsers_of(const bzi_session *session, CUvideoparser all[BZI_SESSION_PARSERS])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < BZI_SESSION_PARSERS; i++)
        if ((all[i] = session->parsers[i].handle) != NULL)
            count++;
    return count;
}

/* Frames of three sizes in turn, and room for two decoders. Parsers are kept for all three, and a kept one does not
 * call its sequence callback again: from the second round on, decoders get their other size in the callback that hands
 * over a picture, which NVIDIA's header does not foresee. */
TEST(a_decoder_given_another_size_decodes_the_same)
{
    /* the original archives' frames of 512x512; 2 has 1024x512, 3 has 1536x1024 */
    static const uint64_t small[] = { 0, 1, 4, 5, 6, 7 };
    bzna_error err = fresh_error();
    facts_load();
    for (int a = 0; a < 2; a++) {
        CUvideoparser parsers[BZI_SESSION_PARSERS], later[BZI_SESSION_PARSERS];
        uint64_t made = 0, reconfigured = 0;
        uint32_t count = 0, rounds = is_fake ? 4 : 40;
        bzna_dataset *dataset = NULL;
        tally t = { .name = archives[a], .known = &known[a], .track = IN };
        decoding d;
        REQUIRE(bzna_dataset_open(context, archives[a], NULL, &dataset, &err) == BZNA_OK);
        REQUIRE(decoding_open(&d, &err) == BZNA_OK);
        d.fn = tally_frame;
        d.user = &t;
        d.session.decoders.max_live = 2;
        for (uint32_t round = 0; round < rounds; round++) {
            decoding_submit(&d, dataset, IN, small[round % 6]);
            decoding_submit(&d, dataset, IN, 2);
            decoding_submit(&d, dataset, IN, 3);
            if (round)
                continue;
            decoding_drain(&d);                             /* all sizes have been met */
            count = parsers_of(&d.session, parsers);
            made = atomic_load(&device->decoders_made);
            reconfigured = atomic_load(&device->decoders_reconfigured);
        }
        decoding_drain(&d);
        reconfigured = atomic_load(&device->decoders_reconfigured) - reconfigured;
        printf("  %-26s %d of %d frames equal, by %u parsers; after the first round %llu decoders made, %llu "
               "reconfigured %s\n",
               archives[a], t.equal, t.frames, count, (unsigned long long)(atomic_load(&device->decoders_made) - made),
               (unsigned long long)reconfigured, t.message);
        CHECK_EQ(t.equal, 3 * rounds);
        CHECK(reconfigured > 0);
        CHECK_EQ(parsers_of(&d.session, later), count);     /* and they are the same ones */
        CHECK(!memcmp(later, parsers, sizeof later));
        bzi_session_close(&d.session);
        bzna_dataset_close(dataset);
    }
}

/* ---- The kernel ---- */

/* One launch of several slots, each with its planes and its output in arenas. Returns how many elements differ. */
static long long kernel_round(uint64_t planes, uint64_t outputs, uint8_t *host, uint8_t *wanted, uint8_t *got,
                              void *stream, double *largest)
{
    bzi_kernel_output out = dice_output();
    bzi_kernel_slots slots;
    bzna_error err = fresh_error();
    uint32_t count = 1 + dice(BZI_KERNEL_SLOTS);
    size_t size = bzi_dtype_bytes(out.dtype);
    long long different = 0;
    memset(wanted, 0xa5, (size_t)count * ARENA);
    memset(&slots, 0, sizeof slots);
    for (uint32_t i = 0; i < count; i++) {
        bzi_kernel_slot on_host;
        dice_slot(&slots.slot[i], planes + i * ARENA, host + i * ARENA, (uint32_t)out.width, (uint32_t)out.height);
        slots.slot[i].dst = outputs + i * ARENA + 256;
        on_host = slots.slot[i];
        for (int p = 0; p < 3; p++)
            on_host.plane[p] = on_host.plane[p] ? on_host.plane[p] - planes + (uint64_t)(uintptr_t)host : 0;
        on_host.dst = (uint64_t)(uintptr_t)(wanted + i * ARENA + 256);
        bzi_kernel_warp_plain(&on_host, &out);
    }
    memset(got, 0xa5, (size_t)count * ARENA);
    CHECK_EQ(bzi_device_upload(device, planes, host, (uint64_t)count * ARENA, stream, &err), BZNA_OK);
    CHECK_EQ(bzi_device_upload(device, outputs, got, (uint64_t)count * ARENA, stream, &err), BZNA_OK);
    CHECK_EQ(bzi_device_warp(device, &slots, count, &out, stream, &err), BZNA_OK);
    CHECK_EQ(bzi_device_download(device, got, outputs, (uint64_t)count * ARENA, stream, &err), BZNA_OK);
    CHECK_EQ(bzi_device_check(device, device->cu.cuStreamSynchronize(stream), "cuStreamSynchronize", &err), BZNA_OK);
    if (test_failures)
        printf("  %s\n", err.message);
    for (uint32_t i = 0; i < count; i++) {
        size_t elements = out.channels * (size_t)out.width * (size_t)out.height;
        size_t begin = i * (size_t)ARENA + 256, end = begin + elements * size;
        if (memcmp(got + i * (size_t)ARENA, wanted + i * (size_t)ARENA, 256) ||
            memcmp(got + end, wanted + end, (i + 1) * (size_t)ARENA - end)) {
            test_failures++;
            printf("  something was written beside the output\n");
        }
        for (size_t at = begin; at < end; at += size) {
            if (!memcmp(got + at, wanted + at, size))
                continue;
            different++;
            if (size == 4) {
                float a, b;
                memcpy(&a, got + at, 4);
                memcpy(&b, wanted + at, 4);
                if (fabs((double)a - (double)b) > *largest)
                    *largest = fabs((double)a - (double)b);
            }
        }
    }
    return different;
}

TEST(the_kernel_equals_its_c_side_to_the_bit)
{
    uint8_t *host = malloc(BZI_KERNEL_SLOTS * (size_t)ARENA), *wanted = malloc(BZI_KERNEL_SLOTS * (size_t)ARENA),
            *got = malloc(BZI_KERNEL_SLOTS * (size_t)ARENA);
    uint64_t planes = 0, outputs = 0;
    bzna_error err = fresh_error();
    long long different = 0;
    double largest = 0;
    void *stream = NULL;
    int rounds = is_short ? 12 : is_fake ? 30 : 250;
    memset(host, 0, BZI_KERNEL_SLOTS * (size_t)ARENA);
    REQUIRE(bzi_device_alloc(device, BZI_KERNEL_SLOTS * (uint64_t)ARENA, NULL, &planes, &err) == BZNA_OK);
    REQUIRE(bzi_device_alloc(device, BZI_KERNEL_SLOTS * (uint64_t)ARENA, NULL, &outputs, &err) == BZNA_OK);
    REQUIRE(stream_make(device, &stream, &err) == BZNA_OK);
    for (int i = 0; i < rounds && test_failures < 5; i++)
        different += kernel_round(planes, outputs, host, wanted, got, stream, &largest);
    printf("  %d launches of 1 to %d random slots: %lld elements differ, the largest difference is %g\n", rounds,
           BZI_KERNEL_SLOTS, different, largest);
    CHECK_EQ(different, 0);
    bzi_device_stream_free(device, stream);
    bzi_device_free(device, planes, BZI_KERNEL_SLOTS * (uint64_t)ARENA, NULL);
    bzi_device_free(device, outputs, BZI_KERNEL_SLOTS * (uint64_t)ARENA, NULL);
    free(host);
    free(wanted);
    free(got);
}

/* Passes of several views on the device, and on the processor. Returns how many bytes of the batches differ. */
static long long operations_round(uint64_t scratch, uint64_t batch, uint8_t *host, uint8_t *wanted, uint8_t *got,
                                  void *stream)
{
    const bzna_output o = { .width = 1 + dice(250), .height = 1 + dice(250), .dtype = dice(4), .channels = dice(3),
                            .layout = dice(2) };
    const bzi_kernel_output out = bzi_output_make(&o);
    const uint32_t count = 1 + dice(BZI_KERNEL_SLOTS);
    bzi_kernel_pass passes[BZI_KERNEL_SLOTS];
    bzna_error err = fresh_error();
    long long different = 0;
    memset(wanted, 0xa5, (size_t)count * ARENA);
    memset(got, 0xa5, (size_t)count * ARENA);
    for (size_t i = 0; i < (size_t)count * ARENA; i++)
        host[i] = (uint8_t)(dice(2) ? random_u32() : i / 7);
    CHECK_EQ(bzi_device_upload(device, scratch, host, (uint64_t)count * ARENA, stream, &err), BZNA_OK);
    CHECK_EQ(bzi_device_upload(device, batch, got, (uint64_t)count * ARENA, stream, &err), BZNA_OK);
    for (uint32_t i = 0; i < count; i++) {
        const bzna_transform t = any_operations(1 + dice(BZNA_OPERATIONS_MAX), out.width, out.height);
        bzi_operations_make(&t, o.channels, &out, &passes[i]);
        bzi_kernel_pass view = passes[i];
        passes[i].src = scratch + i * ARENA;
        passes[i].dst = batch + i * ARENA;
        view.src = (uint64_t)(uintptr_t)(host + i * (size_t)ARENA);
        view.dst = (uint64_t)(uintptr_t)(wanted + i * (size_t)ARENA);
        CHECK(bzi_scratch_bytes(&out) <= ARENA && bzi_output_bytes(&o) <= ARENA);
        bzi_device_drain(device, stream, &err);             /* before what was uploaded changes */
        if (view.end)
            bzi_kernel_operate(&view, &out);
        else
            i--;
    }
    CHECK_EQ(bzi_device_operate(device, passes, count, &out, stream, &err), BZNA_OK);
    CHECK_EQ(bzi_device_download(device, got, batch, (uint64_t)count * ARENA, stream, &err), BZNA_OK);
    CHECK_EQ(bzi_device_check(device, device->cu.cuStreamSynchronize(stream), "cuStreamSynchronize", &err), BZNA_OK);
    if (test_failures)
        printf("  %s\n", err.message);
    for (size_t i = 0; i < (size_t)count * ARENA; i++)
        different += got[i] != wanted[i];
    return different;
}

TEST(operations_equal_those_of_the_processor_to_the_bit)
{
    const uint64_t bytes = BZI_KERNEL_SLOTS * (uint64_t)ARENA;
    uint8_t *host = aligned_alloc(64, bytes), *wanted = malloc(bytes), *got = malloc(bytes);
    uint64_t scratch = 0, batch = 0;
    bzna_error err = fresh_error();
    long long different = 0;
    void *stream = NULL;
    const int rounds = is_short ? 8 : is_fake ? 10 : 120;
    REQUIRE(host && wanted && got);
    REQUIRE(bzi_device_alloc(device, bytes, NULL, &scratch, &err) == BZNA_OK);
    REQUIRE(bzi_device_alloc(device, bytes, NULL, &batch, &err) == BZNA_OK);
    REQUIRE(stream_make(device, &stream, &err) == BZNA_OK);
    for (int i = 0; i < rounds && test_failures < 5; i++)
        different += operations_round(scratch, batch, host, wanted, got, stream);
    printf("  %d launches of passes of 1 to %d views: %lld bytes differ\n", rounds, BZI_KERNEL_SLOTS, different);
    CHECK_EQ(different, 0);
    bzi_device_stream_free(device, stream);
    bzi_device_free(device, scratch, bytes, NULL);
    bzi_device_free(device, batch, bytes, NULL);
    free(host);
    free(wanted);
    free(got);
}

/* ---- Batches ---- */

/* What became of the slots of a run. */
typedef struct verdict {
    const char   *name;
    long long     slots, equal, other_matrix, different, failed, unknown;
    double        largest;
    int           explain;            /* 1: slots that differ are rendered here, too; 2: and the first of each batch */
    long long     here_equal, here_different;
    bzna_dataset *dataset;
    char          message[488];
} verdict;

static double half_value(uint16_t h)
{
    double value = h >> 10 & 31 ? ldexp((h & 1023) + 1024, (h >> 10 & 31) - 25) : ldexp(h & 1023, -24);
    return h >> 15 ? -value : value;
}

static double largest_difference(const uint8_t *a, const uint8_t *b, size_t bytes, int half)
{
    double largest = 0, d;
    for (size_t i = 0; i < bytes; i += half ? 2 : 4) {
        float x, y;
        uint16_t p, q;
        memcpy(half ? (void *)&p : (void *)&x, a + i, half ? 2 : 4);
        memcpy(half ? (void *)&q : (void *)&y, b + i, half ? 2 : 4);
        d = half ? fabs(half_value(p) - half_value(q)) : fabs((double)x - (double)y);
        if (!(d <= largest))
            largest = d;
    }
    return largest;
}

typedef struct here {
    const copied *batch;
    bzna_loader *loader;
    uint32_t slot;
    verdict *verdict;
    uint8_t *pixels;
    char matrix[33];
} here;

static void render_here(void *user, uint64_t index, bzna_status status, const plain *frame, const bzna_error *err)
{
    here *h = user;
    bzna_transform transform;
    bzi_kernel_slot slot;
    bzi_kernel_output out = h->loader->setup.outputs[0].kernel;
    bzna_error ignored;
    (void)index;
    if (status == BZNA_OK)
        status = transform_of(h->loader, h->batch, h->slot, &frame->picture, &transform, &ignored);
    if (status == BZNA_OK)
        status = bzi_slot_make(&slot, &frame->picture, &transform, BZNA_CHANNELS_RGB, &ignored);
    if (status != BZNA_OK) {
        snprintf(h->verdict->message, sizeof h->verdict->message, "%s", err->message);
        return;
    }
    matrix_md5(&transform, h->matrix);
    h->pixels = malloc((size_t)h->batch->slot_bytes);
    slot.dst = (uint64_t)(uintptr_t)h->pixels;
    bzi_kernel_warp_plain(&slot, &out);
}

/* The CPU path's loops on NVDEC's planes, on this machine. */
static void compare_here(here *h, const check *c)
{
    const uint8_t *theirs = h->batch->pixels + h->slot * h->batch->slot_bytes;
    decoding d;
    bzna_error err = fresh_error();
    if (decoding_open(&d, &err) != BZNA_OK)
        return;
    d.fn = render_here;
    d.user = h;
    decoding_run(&d, h->verdict->dataset, c->track, h->batch->indices[h->slot], 1);
    bzi_session_close(&d.session);
    if (!h->pixels)
        return;
    if (!memcmp(h->pixels, theirs, (size_t)h->batch->slot_bytes)) {
        h->verdict->here_equal++;
    } else {
        double largest = largest_difference(h->pixels, theirs, (size_t)h->batch->slot_bytes,
                                            h->loader->setup.config.output.dtype == BZNA_DTYPE_FLOAT16);
        h->verdict->here_different++;
        h->verdict->largest = largest > h->verdict->largest ? largest : h->verdict->largest;
    }
    free(h->pixels);
}

static void judge(void *user, bzna_loader *loader, const check *c, const copied *batch)
{
    verdict *v = user;
    for (uint32_t i = 0; i < batch->count; i++) {
        const expectation *e = expect_slot(c->name, batch->ordinal, i);
        here h = { .batch = batch, .loader = loader, .slot = i, .verdict = v };
        char sum[33];
        int equal;
        v->slots++;
        if (batch->status[i] != BZNA_OK) {
            v->failed++;
            snprintf(v->message, sizeof v->message, "%s", batch->errors[i].message);
            continue;
        }
        if (!e || e->index != batch->indices[i]) {
            v->unknown++;
            continue;
        }
        md5_of(batch->pixels + i * batch->slot_bytes, (size_t)batch->slot_bytes, sum);
        equal = !strcmp(sum, e->md5);
        if ((!equal && v->explain) || (v->explain == 2 && i == 0))
            compare_here(&h, c);
        if (equal)
            v->equal++;
        else if (h.matrix[0] && strcmp(h.matrix, e->matrix))
            v->other_matrix++; /* the C library's exp, log, sin or cos; what counts then is the comparison made here */
        else
            v->different++;
    }
}

static int verdict_is_good(const verdict *v)
{
    return v->slots && v->equal + v->other_matrix == v->slots && !v->here_different && v->other_matrix <= v->here_equal;
}

static void verdict_print(const verdict *v)
{
    printf("  %-14s %4lld slots: %lld equal, %lld of another matrix, %lld different, %lld failed, %lld unknown; warped "
           "here: %lld equal, %lld different, "
           "largest difference %g %s\n",
           v->name, v->slots, v->equal, v->other_matrix, v->different, v->failed, v->unknown, v->here_equal,
           v->here_different, v->largest, v->message);
}

static void judged(const check *c, const variation *v, int explain)
{
    bzna_error err = fresh_error();
    verdict of_run = { .name = c->name, .explain = explain };
    bzna_status status = bzna_dataset_open(context, path_of(c->file), NULL, &of_run.dataset, &err);
    if (status == BZNA_OK)
        status = run(c, v, judge, &of_run, &err);
    if (status != BZNA_OK) {
        test_failures++;
        printf("  %s: %s\n", c->name, err.message);
    }
    if (explain || !verdict_is_good(&of_run))
        verdict_print(&of_run);
    CHECK(verdict_is_good(&of_run));
    bzna_dataset_close(of_run.dataset);
}

/* Whether the device takes what an archive holds. */
static int is_taken(const check *c)
{
    bzna_error err = fresh_error();
    bzna_dataset *dataset = NULL;
    decoding d;
    coded unit;
    bzi_nvdec_picture picture;
    int taken = 0;
    if (bzna_dataset_open(context, path_of(c->file), NULL, &dataset, &err) != BZNA_OK)
        return 0;
    if (decoding_open(&d, &err) == BZNA_OK) {
        taken = coded_load(context, dataset, 0, c->track, &unit, &err) == BZNA_OK &&
                decoding_accepts(&d.session, &unit, &picture, &err) == BZNA_OK;
        free(unit.bytes);
        bzi_session_close(&d.session);
    }
    bzna_dataset_close(dataset);
    if (!taken)
        printf("  %-14s is not for this device: %s\n", c->name, err.message);
    return taken;
}

TEST(batches_equal_those_of_the_processor)
{
    variation v = { 0 };
    NEED_DATA();
    for (int i = 0; i < CHECKS; i++)
        if (is_taken(&checks[i]))
            judged(&checks[i], &v, 2);
}

static void to_host(bzna_loader_config *config, void *user)
{
    (void)user;
    config->output.device.kind = BZNA_DEVICE_CPU;
}

TEST(batches_come_to_the_host_as_they_are)
{
    variation v = { .change = to_host };
    bzna_loader_info info = { .struct_size = sizeof info };
    NEED_DATA();
    v.info = &info;
    judged(check_named("crop_flip"), &v, 0);
    CHECK_EQ(info.image.device.kind, BZNA_DEVICE_CPU);
    CHECK_EQ(info.decoder, BZNA_DECODER_NVDEC);
    judged(check_named("crop_half"), &v, 0);
}

TEST(no_number_of_sessions_changes_a_pixel)
{
    static const uint32_t sessions[] = { 1, 2, 7, 28 };
    NEED_DATA();
    for (size_t i = 0; i < sizeof sessions / sizeof sessions[0]; i++) {
        bzna_context_config config;
        bzna_error err = fresh_error();
        variation v = { 0 };
        bzna_loader_info info = { .struct_size = sizeof info };
        bzna_context_config_init(&config, sizeof config);
        config.device = (bzna_device){ BZNA_DEVICE_CUDA, (int32_t)device_number };
        config.sessions = sessions[i];
        REQUIRE(bzna_context_open(&config, &v.context, &err) == BZNA_OK);
        v.info = &info;
        judged(check_named("turn"), &v, 0);
        CHECK_EQ(info.sessions, sessions[i]);
        bzna_context_close(v.context);
    }
}

/* ---- Streams and buffers ---- */

typedef struct streams { void *stream; bzna_buffer buffers[16]; uint32_t in_flight, slices; } streams;

static void on_stream(bzna_loader_config *config, void *user)
{
    const streams *s = user;
    config->output.stream = s->stream;
    config->pipeline.batches_in_flight = s->in_flight;
    config->output.slices = s->slices;
    if (s->buffers[0].data) {
        config->output.buffers = s->buffers;
        config->output.buffer_count = s->in_flight * (s->slices ? s->slices : 1);
        config->output.device = about.device;
    }
}

/* Work piles up on the consumer's stream: the loader must not write before it is done. */
TEST(a_slow_consumer_reads_whole_batches_on_its_own_stream)
{
    streams s = { .in_flight = 1 };
    variation v = { .change = on_stream, .change_user = &s, .dawdle = is_fake ? 3 : 40 };
    bzna_error err = fresh_error();
    NEED_DATA();
    REQUIRE(stream_make(device, &s.stream, &err) == BZNA_OK);
    for (s.in_flight = 1; s.in_flight <= 3; s.in_flight++) {
        judged(check_named("crop_flip"), &v, 0);
        judged(check_named("identity"), &v, 0);
    }
    bzi_device_stream_free(device, s.stream);
}

/* Work that keeps a stream busy: copies within the device, or down to the host where the driver has none of those. */
typedef struct burden { uint64_t from, to, bytes; void *host; uint32_t copies; } burden;

static bzna_status burden_copy(const burden *b, void *stream, bzna_error *err)
{
    if (b->host)
        return bzi_device_download(device, b->host, b->from, b->bytes, stream, err);
    return bzi_device_check(device, cu_copy(b->to, b->from, (size_t)b->bytes, stream), "cuMemcpyDtoDAsync", err);
}

static bzna_status burden_put(const burden *b, void *stream, bzna_error *err)
{
    bzna_status status = BZNA_OK;
    for (uint32_t i = 0; i < b->copies && status == BZNA_OK; i++)
        status = burden_copy(b, stream, err);
    return status;
}

/* What one copy takes: the best of some rounds, since a device that slept is slow to wake. */
static bzna_status burden_measure(burden *b, void *stream, double *seconds, bzna_error *err)
{
    bzna_status status = BZNA_OK;
    *seconds = 1;
    b->copies = is_fake ? 4 : 32;
    for (int round = 0; round < 5 && status == BZNA_OK; round++) {
        uint64_t start = bzi_os_now_ns();
        if ((status = burden_put(b, stream, err)) == BZNA_OK)
            status = bzi_device_check(device, device->cu.cuStreamSynchronize(stream), "cuStreamSynchronize", err);
        *seconds = fmin(*seconds, (double)(bzi_os_now_ns() - start) * 1e-9 / b->copies);
    }
    return status;
}

/* Large copies, so that few of them are enough: a stream takes about a thousand before the host must wait. Where those
 * within the device are too fast for that, copies to the host are made instead. */
static bzna_status burden_make(burden *b, double seconds, void *stream, bzna_error *err)
{
    enum { MOST = 500 };
    double copy = 1;
    bzna_status status;
    memset(b, 0, sizeof *b);
    b->bytes = UINT64_C(1) << (is_fake ? 25 : 28);
    status = bzi_device_alloc(device, b->bytes, NULL, &b->from, err);
    if (status == BZNA_OK && cu_copy && (status = bzi_device_alloc(device, b->bytes, NULL, &b->to, err)) == BZNA_OK)
        status = burden_measure(b, stream, &copy, err);
    if (status == BZNA_OK && (!b->to || copy * (double)MOST < seconds) &&
        (status = bzi_device_pin(device, b->bytes, &b->host, err)) == BZNA_OK)
        status = burden_measure(b, stream, &copy, err);
    b->copies = (uint32_t)fmin(MOST, ceil(seconds / copy));
    return status;
}

static void burden_free(burden *b)
{
    if (b->from)
        bzi_device_free(device, b->from, b->bytes, NULL);
    if (b->to)
        bzi_device_free(device, b->to, b->bytes, NULL);
    bzi_device_unpin(device, b->host);
}

enum { BACKLOG_BATCH = 16, BACKLOG_IN_FLIGHT = 4, BACKLOG_BATCHES = 32 };
#define BURDEN_SECONDS (is_fake ? 0.12 : 0.05)     /* a batch: several times what a session takes to fill one */

/* Batches taken from a loader by a consumer that never waits, but whose stream lies far behind. */
typedef struct backlog {
    uint32_t  sessions, batches;
    void     *stream;
    burden    burden;
    uint64_t  slot_bytes;
    uint64_t *order;                  /* sample of each slot */
    uint8_t  *pixels;
    long long failed, equal, anothers, different;
    double    seconds, behind; /* behind: seconds of work left on the stream when the last batch was handed out */
} backlog;

/* In no order that a number of surfaces could fall in step with: what overwrites a picture must not be the same
 * picture. */
static void backlog_order(backlog *b)
{
    uint32_t state = 12345;
    for (uint32_t i = 0; i < b->batches * BACKLOG_BATCH; i++) {
        state = state * 1664525u + 1013904223u;
        b->order[i] = state >> 29;
    }
}

static bzna_status backlog_take(backlog *b, bzna_loader *loader, uint32_t number, bzna_error *err)
{
    bzna_batch *batch = NULL;
    bzna_batch_info info = { .struct_size = sizeof info };
    bzna_status status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, err);
    uint64_t bytes = BACKLOG_BATCH * b->slot_bytes;
    if (status != BZNA_OK)
        return status;
    bzna_batch_get_info(batch, &info, sizeof info, NULL);
    b->failed += info.failed;
    if ((status = burden_put(&b->burden, b->stream, err)) == BZNA_OK)
        status = bzi_device_download(device, b->pixels + number * bytes, (uint64_t)(uintptr_t)info.image.data, bytes,
                                     b->stream, err);
    bzna_batch_release(batch);
    return status;
}

static void backlog_judge(backlog *b, const check *c)
{
    for (uint32_t i = 0; i < b->batches * BACKLOG_BATCH; i++) {
        char sum[33];
        uint32_t whose = 8;
        md5_of(b->pixels + i * b->slot_bytes, (size_t)b->slot_bytes, sum);
        for (uint32_t k = 0; k < 8; k++) {
            const expectation *e = expect_slot(c->name, k / c->batch, k % c->batch);
            if (e && !strcmp(e->md5, sum))
                whose = k;
        }
        b->equal += whose == b->order[i];
        b->anothers += whose != b->order[i] && whose < 8;
        b->different += whose == 8;
    }
}

static bzna_status backlog_run(backlog *b, const check *c, bzna_context *in, bzna_dataset *dataset, bzna_error *err)
{
    bzna_loader_config config;
    bzna_loader *loader = NULL;
    uint64_t start, handed_out;
    bzna_status status;
    config_of(c, &config);
    config.output.batch_size = BACKLOG_BATCH;
    config.pipeline.batches_in_flight = BACKLOG_IN_FLIGHT;
    config.order.indices = b->order;
    config.order.index_count = b->batches * BACKLOG_BATCH;
    config.order.epochs = 1;
    config.output.stream = b->stream;
    if ((status = bzna_loader_open(in, dataset, &config, &loader, err)) != BZNA_OK)
        return status;
    b->slot_bytes = loader->setup.slot_bytes;
    status = bzi_device_pin(device, b->batches * BACKLOG_BATCH * b->slot_bytes, (void **)&b->pixels, err);
    start = bzi_os_now_ns();
    for (uint32_t i = 0; i < b->batches && status == BZNA_OK; i++)
        status = backlog_take(b, loader, i, err);
    handed_out = bzi_os_now_ns();
    if (device->cu.cuStreamSynchronize(b->stream) != CUDA_SUCCESS && status == BZNA_OK)
        status = BZI_FAIL(err, BZNA_E_DEVICE, "the consumer's stream has failed");
    b->behind = (double)(bzi_os_now_ns() - handed_out) * 1e-9;
    b->seconds = (double)(bzi_os_now_ns() - start) * 1e-9;
    bzna_loader_close(loader);
    if (status == BZNA_OK)
        backlog_judge(b, c);
    bzi_device_unpin(device, b->pixels);
    return status;
}

static void backlog_of(uint32_t sessions)
{
    /* pixels that depend on nothing but the sample; all frames have one size */
    const check *c = check_named("matrix_709");
    bzna_context_config config;
    bzna_context *in = NULL;
    bzna_dataset *dataset = NULL;
    bzna_error err = fresh_error();
    backlog b = { .sessions = sessions, .batches = is_fake ? 6 : BACKLOG_BATCHES };
    long long pictures = b.batches * BACKLOG_BATCH;
    b.order = calloc((size_t)pictures, sizeof *b.order);
    backlog_order(&b);
    bzna_context_config_init(&config, sizeof config);
    config.device = (bzna_device){ BZNA_DEVICE_CUDA, (int32_t)device_number };
    config.sessions = sessions;
    REQUIRE(stream_make(device, &b.stream, &err) == BZNA_OK);
    CHECK_EQ(bzna_context_open(&config, &in, &err), BZNA_OK);
    CHECK_EQ(bzna_dataset_open(in, path_of(c->file), NULL, &dataset, &err), BZNA_OK);
    CHECK_EQ(burden_make(&b.burden, BURDEN_SECONDS, b.stream, &err), BZNA_OK);
    if (!test_failures)
        CHECK_EQ(backlog_run(&b, c, in, dataset, &err), BZNA_OK);
    printf("  %u sessions: %lld pictures, %lld equal, %lld hold another sample's picture, %lld are something else, "
           "%lld failed; %.0f ms, of which the consumer "
           "took %.0f behind the last batch %s\n",
           sessions, pictures, b.equal, b.anothers, b.different, b.failed, b.seconds * 1e3, b.behind * 1e3,
           err.message);
    CHECK_EQ(b.equal, pictures);
    CHECK_EQ(b.failed, 0);
    /* else it was not slow, and nothing was tried */
    CHECK(is_fake || (b.seconds > 0.8 * BURDEN_SECONDS * b.batches && b.behind > 0.8 * BURDEN_SECONDS));
    burden_free(&b.burden);
    bzna_dataset_close(dataset);
    bzna_context_close(in);
    bzi_device_stream_free(device, b.stream);
    free(b.order);
}

/* A batch that was given back may still be read by a slow consumer. If the loader made its streams wait for that,
 * conversions of decoded surfaces would queue up there, while NVDEC goes on, with a few surfaces a session: one that
 * was not converted yet would be overwritten, and no status would tell. */
TEST(nvdec_overwrites_no_surface_that_a_slow_consumer_holds_up)
{
    NEED_DATA();
    backlog_of(1);
    if (!test_failures)
        backlog_of(2);
}

static bzna_status put_burden(void *user, void *stream, bzna_error *err) { return burden_put(user, stream, err); }

/* Tries with longer and longer burdens, until the next picture is done while one is worked on. */
static bzna_status gate_try_longer(gate *g, uint32_t codec, bzna_error *err)
{
    enum { TRIES = 3 };
    void *stream = NULL;
    bzna_status status = stream_make(device, &stream, err);
    double seconds = BURDEN_SECONDS;
    g->was_closed = 0;
    for (int i = 0; i < TRIES && status == BZNA_OK && !g->was_closed; i++, seconds *= 4) {
        burden b;
        if ((status = burden_make(&b, seconds, stream, err)) == BZNA_OK) {
            *g = (gate){ .close = put_burden, .user = &b };
            status = gate_try(g, device, codec, err);
        }
        burden_free(&b);
    }
    bzi_device_stream_free(device, stream);
    return status;
}

/* Where no try told, the test is skipped. */
TEST(a_picture_holds_while_its_surface_is_decoded_into_again)
{
    static const uint32_t codecs[] = { BZNA_CODEC_H264, BZNA_CODEC_H265 };
    bzna_error err = fresh_error();
    const char *untold = NULL;
    for (int i = 0; i < 2; i++) {
        gate g = { 0 };
        bzna_codec_info c = { 0 };
        device->checks = 1;
        bzna_context_codec_info(context, codecs[i], 1, 8, &c, sizeof c, &err);
        device->checks = 0;
        if (!c.supported)
            continue;
        CHECK_EQ(gate_try_longer(&g, codecs[i], &err), BZNA_OK);
        printf("  %s: the next picture was done %s, in %s surface: the first one %s, the next one %s %s\n",
               bzi_codec_name(codecs[i]),
               g.was_closed ? "while the stream waited" : "too late",
               g.same_surface ? "the same" : "another", g.holds[0] ? "holds" : "is overwritten",
               g.holds[1] ? "is right" : "is wrong", err.message);
        CHECK(g.holds[1]);
        CHECK(g.holds[0]);
        if (!g.was_closed || !g.same_surface)
            untold = reason("%s: the next picture was done %s, so that it is not known whether a picture holds",
                            bzi_codec_name(codecs[i]), g.was_closed ? "in another surface" : "too late in all tries");
    }
    if (untold)
        SKIP(untold);
}

TEST(a_batch_moves_to_another_stream)
{
    streams s = { .in_flight = 2 };
    variation v = { .change = on_stream, .change_user = &s, .dawdle = is_fake ? 3 : 40 };
    bzna_error err = fresh_error();
    NEED_DATA();
    REQUIRE(stream_make(device, &v.move, &err) == BZNA_OK);
    judged(check_named("crop_flip"), &v, 0);                /* from the loader's own stream */
    REQUIRE(stream_make(device, &s.stream, &err) == BZNA_OK);
    judged(check_named("identity_264"), &v, 0);             /* and from the user's */
    bzi_device_stream_free(device, v.move);
    bzi_device_stream_free(device, s.stream);
}

TEST(batches_lie_in_buffers_of_the_user)
{
    const check *c = check_named("crop_flip_264");
    uint64_t bytes = 4 * 3 * 224 * 224 * 4;                 /* half a batch of 8 */
    streams s = { .in_flight = 3, .slices = 2 };
    variation v = { .change = on_stream, .change_user = &s };
    bzna_error err = fresh_error();
    NEED_DATA();
    for (int i = 0; i < 6; i++) {
        uint64_t at = 0;
        REQUIRE(bzi_device_alloc(device, bytes, NULL, &at, &err) == BZNA_OK);
        s.buffers[i] = (bzna_buffer){ (void *)(uintptr_t)at, bytes };
    }
    judged(c, &v, 0);
    for (int i = 0; i < 6; i++)
        bzi_device_free(device, (uint64_t)(uintptr_t)s.buffers[i].data, bytes, NULL);
}

TEST(a_tensor_lies_on_the_device)
{
    bzna_error err = fresh_error();
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_loader_config config;
    bzna_batch_info info = { .struct_size = sizeof info };
    bzi_dl_managed *tensor = NULL;
    config_of(check_named("crop_half"), &config);
    REQUIRE(bzna_dataset_open(context, archives[0], NULL, &dataset, &err) == BZNA_OK);
    REQUIRE(bzna_loader_open(context, dataset, &config, &loader, &err) == BZNA_OK);
    REQUIRE(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err) == BZNA_OK);
    bzna_batch_get_info(batch, &info, sizeof info, NULL);
    CHECK(info.image.device.kind == BZNA_DEVICE_CUDA && info.image.device.ordinal == about.device.ordinal);
    CHECK_EQ(bzna_batch_to_dlpack(batch, "image", BZNA_DLPACK_0, (void **)&tensor, &err), BZNA_OK);
    REQUIRE(tensor);
    CHECK_EQ(tensor->tensor.device_type, 2);
    CHECK_EQ(tensor->tensor.device_id, about.device.ordinal);
    CHECK_EQ(tensor->tensor.bits, 16);
    CHECK(tensor->tensor.data == info.image.data && (uintptr_t)info.image.data % 256 == 0);
    CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
    CHECK_EQ(bzna_loader_close(loader), BZNA_OK);
    tensor->deleter(tensor);                                /* the last to go */
    bzna_dataset_close(dataset);
}

/* ---- Going elsewhere ---- */

static void restore_it(bzna_loader *loader, void *user)
{
    bzna_error err = fresh_error();
    CHECK_EQ(bzna_loader_restore(loader, user, &err), BZNA_OK);
    if (test_failures)
        printf("  %s\n", err.message);
}

/* Saved where libavcodec decoded, behind the second batch. */
TEST(a_state_saved_on_the_processor_goes_on_on_the_gpu)
{
    static const char *const names[] = { "crop_flip", "mixed_half", "turn" };
    NEED_DATA();
    for (int i = 0; i < 3; i++) {
        const expectation *e = expect_other('t', names[i], 1);
        bzna_loader_state state;
        variation v = { .prepare = restore_it, .change_user = &state, .first_ordinal = 2 };
        REQUIRE(e && strlen(e->md5) == 2 * sizeof state);
        for (size_t k = 0; k < sizeof state; k++) {
            char two[3] = { e->md5[2 * k], e->md5[2 * k + 1], 0 };
            ((uint8_t *)&state)[k] = (uint8_t)strtoul(two, NULL, 16);
        }
        judged(check_named(names[i]), &v, 0);
    }
}

static void wander(bzna_loader *loader, void *user)
{
    bzna_error err = fresh_error();
    bzna_loader_state state;
    (void)user;
    for (int i = 0; i < 12; i++) {
        bzna_batch *batch = NULL;
        if (i % 3 == 2)
            CHECK_EQ(bzna_loader_reset(loader, (uint64_t)(i % 2), &err), BZNA_OK);
        if (i % 4 == 3) {
            CHECK_EQ(bzna_loader_save(loader, &state, sizeof state, NULL), BZNA_OK);
            CHECK_EQ(bzna_loader_restore(loader, &state, &err), BZNA_OK);
        }
        CHECK_EQ(bzna_loader_next(loader, i % 5 ? BZNA_WAIT_FOREVER : 0, &batch, &err) < 0, 0);
        if (batch)
            bzna_batch_release(batch);
    }
    CHECK_EQ(bzna_loader_reset(loader, 0, &err), BZNA_OK);
}

TEST(after_resets_and_restores_in_mid_run_everything_is_as_at_the_start)
{
    variation v = { .prepare = wander };
    NEED_DATA();
    judged(check_named("crop_flip"), &v, 0);
    judged(check_named("mixed_sizes"), &v, 0);
}

typedef struct parallel {
    const char *name;
    variation variation;
    verdict verdict;
    bzna_status status;
    bzna_error err;
} parallel;

static void *parallel_run(void *user)
{
    parallel *p = user;
    bzna_error ignored;
    if (bzi_device_enter(device, &ignored) != BZNA_OK)
        return NULL;
    for (int i = 0; i < 3 && p->status == BZNA_OK; i++)
        p->status = run(check_named(p->name), &p->variation, judge, &p->verdict, &p->err);
    bzi_device_leave(device);
    return NULL;
}

TEST(loaders_share_the_sessions_of_a_context)
{
    static parallel p[4] = {
        { .name = "crop_flip" }, { .name = "mixed_half" }, { .name = "identity_264" }, { .name = "turn" }
    };
    pthread_t threads[4];
    NEED_DATA();
    for (int i = 0; i < 4; i++) {
        p[i].verdict.name = p[i].name;
        p[i].err = fresh_error();
        if (i == 2)
            p[i].variation.change = to_host;
        REQUIRE(pthread_create(&threads[i], NULL, parallel_run, &p[i]) == 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(p[i].status, BZNA_OK);
        CHECK(verdict_is_good(&p[i].verdict));
        if (p[i].status != BZNA_OK || !verdict_is_good(&p[i].verdict)) {
            printf("  %s\n", p[i].err.message);
            verdict_print(&p[i].verdict);
        }
    }
}

/* ---- Bad samples ---- */

typedef struct limits { int refused, fine; char message[488]; } limits;

static void judge_limits(void *user, bzna_loader *loader, const check *c, const copied *batch)
{
    limits *l = user;
    (void)loader;
    for (uint32_t i = 0; i < batch->count; i++) {
        char sum[33];
        if (batch->indices[i] < 8) {                        /* of the archive that is fine */
            const expectation *e = expect_slot(c->name, (uint32_t)batch->indices[i] / c->batch,
                                               (uint32_t)batch->indices[i] % c->batch);
            md5_of(batch->pixels + i * batch->slot_bytes, (size_t)batch->slot_bytes, sum);
            l->fine += batch->status[i] == BZNA_OK && e && !strcmp(sum, e->md5);
        } else if (batch->status[i] == BZNA_E_CODEC) {
            int fill = 1;
            for (uint64_t k = 0; k < batch->slot_bytes; k++)
                fill &= batch->pixels[i * batch->slot_bytes + k] == 0;
            l->refused += fill;
            snprintf(l->message, sizeof l->message, "%s", batch->errors[i].message);
        }
    }
}

static void mingle(bzna_loader_config *config, void *user)
{
    config->order.indices = user;
    config->order.index_count = 11;
    config->order.epochs = 1;
}

/* Without libavcodec nobody else can decode them. */
TEST(frames_too_small_are_refused_with_the_limits)
{
    static const uint64_t order[11] = { 0, 8, 1, 2, 9, 3, 4, 5, 10, 6, 7 };
    const check *c = check_named("identity_thumb"); /* of the default track: the other archive has no bzna_thumb */
    bzna_codec_info codec = { .struct_size = sizeof codec };
    bzna_error err = fresh_error();
    bzna_dataset *parts[2] = { NULL, NULL };
    limits l = { 0 };
    uint64_t indices[11];
    variation v = { .change = mingle, .change_user = indices };
    char size[64];
    NEED_DATA();
    memcpy(indices, order, sizeof order);
    REQUIRE(bzna_context_codec_info(context, BZNA_CODEC_H265, 1, 8, &codec, sizeof codec, &err) == BZNA_OK);
    if (codec.min_width <= 128 && codec.min_height <= 96)
        SKIP(reason("this device decodes frames of %ux%u", codec.min_width, codec.min_height));
    REQUIRE(bzna_dataset_open(context, path_of(c->file), NULL, &parts[0], &err) == BZNA_OK);
    REQUIRE(bzna_dataset_open(context, path_of("small265.mp4"), NULL, &parts[1], &err) == BZNA_OK);
    REQUIRE(bzna_dataset_concat(context, parts, 2, &v.dataset, &err) == BZNA_OK);
    CHECK_EQ(run(c, &v, judge_limits, &l, &err), BZNA_OK);
    snprintf(size, sizeof size, "%ux%u", codec.min_width, codec.min_height);
    printf("  %s\n", l.message);
    CHECK_EQ(l.fine, 8);
    CHECK_EQ(l.refused, 3);
    CHECK_CONTAINS(l.message, size);
    CHECK_CONTAINS(l.message, "128x96");
    bzna_dataset_close(v.dataset);
    bzna_dataset_close(parts[0]);
    bzna_dataset_close(parts[1]);
}

typedef struct damage { uint32_t bad; long long neighbors, equal, noticed, unnoticed, unfilled; uint8_t color; } damage;

static void judge_damage(void *user, bzna_loader *loader, const check *c, const copied *batch)
{
    damage *d = user;
    (void)loader;
    for (uint32_t i = 0; i < batch->count; i++) {
        const expectation *e = expect_slot(c->name, batch->ordinal, i);
        char sum[33];
        if (d->bad >> batch->indices[i] & 1) {
            int fill = 1;
            for (uint64_t k = 0; k < batch->slot_bytes && batch->status[i] != BZNA_OK; k++)
                fill &= batch->pixels[i * batch->slot_bytes + k] == 0;
            d->noticed += batch->status[i] != BZNA_OK;
            d->unnoticed += batch->status[i] == BZNA_OK;
            d->unfilled += !fill;
            continue;
        }
        md5_of(batch->pixels + i * batch->slot_bytes, (size_t)batch->slot_bytes, sum);
        d->neighbors++;
        d->equal += batch->status[i] == BZNA_OK && e && !strcmp(sum, e->md5);
    }
}

/* Spoils the picture of a sample in one of several ways. */
static void spoil(uint8_t *file, const fact_image *image, uint32_t way)
{
    uint8_t *at = file + image->at, *end = at + image->size, *middle = at + image->size / 3;
    switch (way) {
    case 0: for (uint8_t *p = middle; p < end; p++) *p = (uint8_t)dice(256); break;
    case 1: memset(middle, 0, (size_t)(end - middle)); break;
    case 2: for (int i = 0; i < 20; i++) middle[dice((uint32_t)(end - middle))] ^= (uint8_t)(1u << dice(8)); break;
    case 3: memset(at, 0xff, (size_t)image->size); break;
    case 4: for (int i = 5; i < 40; i++) at[i] = (uint8_t)dice(256); break;
    default: memmove(middle, middle + 7, (size_t)(end - middle) - 7); break;
    }
}

/* The source in memory counts its reads without a lock. */
static void one_reader(bzna_loader_config *config, void *user) { (void)user; config->read.threads = 1; }

TEST(damaged_samples_cost_their_own_slots)
{
    static const char *const names[2] = { "identity", "identity_264" };
    static const char *const ways[6] = {
        "random bytes", "zeros", "20 bits", "all ones", "its header", "7 bytes missing"
    };
    bzna_error err = fresh_error();
    NEED_DATA();
    facts_load();
    for (int a = 0; a < 2; a++)
        for (uint32_t way = 0; way < 6; way++) {
            damage total = { 0 };
            for (int round = 0; round < (is_fake ? 1 : 5); round++) {
                memory_source memory;
                size_t size;
                uint8_t *file = slurp(archives[a], &size);
                bzna_source source = source_of(&memory, file, size);
                variation v = { .change = one_reader };
                damage d = { .bad = dice(255) | 1u << dice(8) };
                for (int i = 0; i < 8; i++)
                    if (d.bad >> i & 1)
                        spoil(file, &known[a].samples[i].images[0], way);
                REQUIRE(bzna_dataset_open_source(context, &source, NULL, &v.dataset, &err) == BZNA_OK);
                CHECK_EQ(run(check_named(names[a]), &v, judge_damage, &d, &err), BZNA_OK);
                bzna_dataset_close(v.dataset);
                free(file);
                total.neighbors += d.neighbors;
                total.equal += d.equal;
                total.noticed += d.noticed;
                total.unnoticed += d.unnoticed;
                total.unfilled += d.unfilled;
            }
            printf("  %s, %-15s: %lld of %lld damaged pictures noticed, %lld of %lld neighbors equal\n", names[a],
                   ways[way], total.noticed, total.noticed + total.unnoticed, total.equal, total.neighbors);
            CHECK_EQ(total.equal, total.neighbors);
            CHECK_EQ(total.unfilled, 0);
        }
    judged(check_named("identity"), &(variation){ 0 }, 0);  /* and nothing is left of it */
    judged(check_named("identity_264"), &(variation){ 0 }, 0);
}

/* ---- Weeks ---- */

/* Without what the C library keeps for the next allocation, which varies with the threads that happened to free it. */
static double resident_bytes(void)
{
    long pages = 0, resident = 0;
    FILE *file;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
    file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

/* Somebody else's programs take and give back memory of the device, which cuMemGetInfo counts as well. */
static int device_is_shared(void) { return taken_before > (double)(1 << 30); }

static const char *why_not_judged(void)
{
    return reason("%.1f GiB of the device's memory are somebody else's: what it lost was not judged, all else was",
                  taken_before / (1 << 30));
}

static double device_bytes(void)
{
    size_t available = 0, total = 0;
    return cu_mem_info && cu_mem_info(&available, &total) == CUDA_SUCCESS ? (double)(total - available) : 0;
}

/* Memory at the start, in the middle and at the end of many rounds. */
typedef struct growth { double resident[3], device[3]; bzna_statistics stats[3]; } growth;

static void growth_note(growth *g, int when, bzna_loader *loader)
{
    g->resident[when] = resident_bytes();
    g->device[when] = device_bytes();
    g->stats[when].struct_size = sizeof g->stats[when];
    if (loader)
        bzna_loader_statistics(loader, &g->stats[when], sizeof g->stats[when], NULL);
}

/* The first half may warm up, the second must not grow. */
static void growth_judge(const growth *g, const char *name)
{
    printf("  %s: device memory %+.0f bytes in the first half and %+.0f in the second%s, host %+.0f and %+.0f\n", name,
           g->device[1] - g->device[0], g->device[2] - g->device[1], cu_mem_info ? "" : " (this driver cannot tell)",
           g->resident[1] - g->resident[0], g->resident[2] - g->resident[1]);
    CHECK(g->resident[2] - g->resident[1] <= HOST_GROWTH);
    if (device_is_shared())
        test_skip_reason = why_not_judged();
    else
        CHECK(g->device[2] - g->device[1] <= GROWTH);
}

static void watch_growth(void *user, bzna_loader *loader, const check *c, const copied *batch)
{
    growth *g = user;
    (void)c;
    for (int half = 0; half < 2; half++)
        if (batch->epoch == (half ? 9u : 4u) && g->resident[half] == 0)
            growth_note(g, half, loader);
    growth_note(g, 2, loader);
}

static void many_epochs(bzna_loader_config *config, void *user) { (void)user; config->order.epochs = 14; }

/* Two sessions, so that both have met every frame size by the fifth epoch, or nearly. mixed.bzna has three, and a
 * session makes a decoder for each. */
TEST(ten_epochs_more_take_no_memory_and_make_no_decoder)
{
    static const struct { const char *check; uint64_t formats; } runs[2] = { { "crop_flip", 1 }, { "mixed_half", 3 } };
    NEED_DATA();
    for (int i = 0; i < 2; i++) {
        bzna_context_config config;
        variation v = { .change = many_epochs };
        growth g;
        bzna_error err = fresh_error();
        memset(&g, 0, sizeof g);
        bzna_context_config_init(&config, sizeof config);
        config.device = (bzna_device){ BZNA_DEVICE_CUDA, (int32_t)device_number };
        config.sessions = 2;
        REQUIRE(bzna_context_open(&config, &v.context, &err) == BZNA_OK);
        CHECK_EQ(run(check_named(runs[i].check), &v, watch_growth, &g, &err), BZNA_OK);
        printf("  %s: %lld decoders more, %lld reconfigured, over %llu samples\n", runs[i].check,
               (long long)(g.stats[2].decoders_made - g.stats[0].decoders_made),
               (long long)(g.stats[2].decoders_reconfigured - g.stats[0].decoders_reconfigured),
               (unsigned long long)(g.stats[2].samples - g.stats[0].samples));
        if (g.stats[2].decoders_made == g.stats[1].decoders_made)           /* else a session met a rare size late */
            growth_judge(&g, runs[i].check);
        CHECK_EQ(g.stats[2].samples_failed, 0);
        CHECK(g.stats[2].decoders_made <= 2 * runs[i].formats);
        CHECK_EQ(g.stats[2].decoders_reconfigured, 0);
        bzna_context_close(v.context);
    }
}

TEST(opening_and_closing_twenty_times_leaves_nothing)
{
    variation v = { .change = to_host };
    growth g;
    bzna_error err = fresh_error();
    verdict ignored = { 0 };
    bzna_context_config config;
    NEED_DATA();
    memset(&g, 0, sizeof g);
    bzna_context_config_init(&config, sizeof config);
    config.device = (bzna_device){ BZNA_DEVICE_CUDA, (int32_t)device_number };
    config.sessions = 1;                                    /* so that the first run makes all the decoders */
    REQUIRE(bzna_context_open(&config, &v.context, &err) == BZNA_OK);
    for (int i = 0; i < 22; i++) {
        CHECK_EQ(run(check_named("matrix_709"), &v, judge, &ignored, &err), BZNA_OK);
        v.change = i % 2 ? to_host : NULL;
        if (i % 10 == 1)
            growth_note(&g, i / 10, NULL);
    }
    growth_judge(&g, "twenty runs");
    bzna_context_close(v.context);
}

typedef struct closer { bzna_loader *loader; bzna_status status; uint64_t ns; } closer;

static void *wait_in_next(void *user)
{
    closer *c = user;
    bzna_batch *batch = NULL;
    uint64_t start = bzi_os_now_ns();
    do {
        batch = NULL;
        c->status = bzna_loader_next(c->loader, BZNA_WAIT_FOREVER, &batch, NULL);
        if (batch)
            bzna_batch_release(batch);
    } while (c->status == BZNA_OK);
    c->ns = bzi_os_now_ns() - start;
    return NULL;
}

TEST(stopping_and_closing_in_mid_run_are_prompt)
{
    bzna_error err = fresh_error();
    bzna_dataset *dataset = NULL;
    bzna_loader_config config;
    double slowest = 0;
    config_of(check_named("crop_flip"), &config);
    config.order.epochs = BZNA_EPOCHS_ENDLESS;
    REQUIRE(bzna_dataset_open(context, archives[0], NULL, &dataset, &err) == BZNA_OK);
    for (int i = 0; i < 10; i++) {
        closer c = { 0 };
        pthread_t thread;
        uint64_t start;
        REQUIRE(bzna_loader_open(context, dataset, &config, &c.loader, &err) == BZNA_OK);
        REQUIRE(pthread_create(&thread, NULL, wait_in_next, &c) == 0);
        usleep((useconds_t)(i * 7000));
        start = bzi_os_now_ns();
        CHECK_EQ(bzna_loader_stop(c.loader, NULL), BZNA_OK);
        pthread_join(thread, NULL);
        CHECK_EQ(c.status, BZNA_E_STOPPED);
        CHECK_EQ(bzna_loader_close(c.loader), BZNA_OK);
        slowest = fmax(slowest, (double)(bzi_os_now_ns() - start) * 1e-6);
    }
    printf("  at most %.1f ms\n", slowest);
    CHECK(slowest < 2000);
    bzna_dataset_close(dataset);
}

TEST(a_forked_child_is_refused_and_the_parent_goes_on)
{
    bzna_error err = fresh_error();
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_loader_config config;
    int status = 0;
    pid_t child;
    config_of(check_named("crop_flip"), &config);
    REQUIRE(bzna_dataset_open(context, archives[0], NULL, &dataset, &err) == BZNA_OK);
    REQUIRE(bzna_loader_open(context, dataset, &config, &loader, &err) == BZNA_OK);
    fflush(stdout);
    if ((child = fork()) == 0) {
        bzna_loader *other = NULL;
        bzna_device_info info = { .struct_size = sizeof info };
        alarm(20);
        int good = bzna_loader_next(loader, 0, &batch, NULL) == BZNA_E_STATE &&
                   bzna_loader_open(context, dataset, &config, &other, NULL) == BZNA_E_STATE &&
                   bzna_context_device_info(context, &info, sizeof info, NULL) == BZNA_E_STATE;
        _exit(good ? 7 : 1);
    }
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), BZNA_OK);
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* ---- The device, and tools that watch it ---- */

static void probe_codecs(void)
{
    static const char *const codecs[] = { "H.264", "H.265", "AV1" }, *const chroma[] = { "gray", "4:2:0", "4:2:2",
                                                                                         "4:4:4" };
    for (uint32_t i = 0; i < 36; i++) {
        bzna_codec_info c = { .struct_size = sizeof c };
        if (bzna_context_codec_info(context, i / 12 + 1, i / 3 % 4, 8 + 2 * (i % 3), &c, sizeof c, NULL) ==
                BZNA_OK &&
            c.supported)
            printf("  %-5s %s %2u bits: %u engines, %ux%u to %ux%u, %u macroblocks\n", codecs[c.codec - 1],
                   chroma[c.chroma_format], c.depth, c.engines, c.min_width, c.min_height, c.max_width, c.max_height,
                   c.max_macroblocks);
    }
}

TEST(there_is_a_device_with_video_engines_and_it_takes_the_kernel)
{
    printf("  %s, compute capability %u.%u, %.1f GiB, driver for CUDA %u.%u, %u NVDEC engines\n", about.name,
           about.compute_major, about.compute_minor, (double)about.memory_bytes / (1 << 30), about.driver / 1000,
           about.driver % 1000 / 10, about.engines);
    probe_codecs();
    CHECK(device->warp[0] && device->warp[BZI_KERNEL_ANY]);              /* the PTX was loaded, and has the entries */
    CHECK_EQ(about.video, BZNA_OK);
    CHECK(about.engines > 0);
    if (about.video != BZNA_OK)
        printf("  %s\n", about.message);
}

/* As the library's own check, AV1 too, but for libavcodec, which these programs do without. */
TEST(nvdec_decodes_the_pictures_of_each_kind_to_their_sums_and_the_kernel_reads_them)
{
    bzna_error err = fresh_error();
    uint64_t start = bzi_os_now_ns();
    REQUIRE(bzi_device_enter(device, &err) == BZNA_OK);
    CHECK_EQ(bzi_trial_run(device, &err), BZNA_OK);
    printf("  the kernel: %s, %.1f ms\n", err.status == BZNA_OK ? "passed" : err.message,
           (double)(bzi_os_now_ns() - start) * 1e-6);
    for (size_t i = 0; i < sizeof check_pictures / sizeof check_pictures[0]; i++) {
        check_pair pair = { .want = { check_pictures[i].codec, 1, check_pictures[i].depth, 0, 0 } };
        bzi_session session;
        if (pair.want.codec == BZNA_CODEC_JPEG)             /* whose decoders round in different ways */
            continue;
        start = bzi_os_now_ns();
        REQUIRE(check_pair_use(&pair));
        REQUIRE(bzi_session_open(&session, device, &context->host->memory, &err) == BZNA_OK);
        if (bzi_session_accepts(&session, pair.coded, &err) == BZNA_OK) {
            for (int k = 0; k < 6; k++)
                CHECK_EQ(check_pair_decode(&session, &pair, k % 2, &err), BZNA_OK);
            printf("  %s, %u bits: %s, %.1f ms\n", bzi_codec_name(pair.want.codec), pair.want.depth,
                   err.status == BZNA_OK ? "passed" : err.message, (double)(bzi_os_now_ns() - start) * 1e-6);
        }
        bzi_session_close(&session);
    }
    bzi_device_leave(device);
}

/* Where compute-sanitizer is installed. */
static const char *sanitizer(void)
{
    static const char *const places[] = { "/usr/local/cuda/bin/compute-sanitizer", "/usr/bin/compute-sanitizer",
                                          "/opt/cuda/bin/compute-sanitizer" };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (access(places[i], X_OK) == 0)
            return places[i];
    return system("command -v compute-sanitizer >/dev/null 2>&1") == 0 ? "compute-sanitizer" : NULL;
}

/* What the tool is to look at: our kernel. NVIDIA's own libraries try calls that fail, and have kernels that are not
 * ours to judge. */
static const char *sanitizer_filter(void)
{
    char command[200];
    snprintf(command, sizeof command, "'%s' --help 2>/dev/null | grep -q -e --kernel-name", sanitizer());
    return system(command) == 0 ? "--kernel-name kns=bzi_" : "--kernel-regex kns=bzi_";     /* as older ones call it */
}

/* Runs a part of this program under the tool. Where a kernel faults, the program fails as well, and then its exit code
 * wins over the tool's: so a report that names our kernel is a failure whatever the code. All other codes are the
 * tool's trouble, or of tests that are run without it, too. */
static void sanitized(const char *arguments)
{
    char command[1400], line[400], last[200] = "";
    int status, code, lines = 0, named = 0, left = ALL_SECONDS - (int)((bzi_os_now_ns() - begun_ns) / 1000000000u);
    FILE *pipe;
    if (left < 20)
        SKIP("the tests before took too long");
    snprintf(command, sizeof command,
             "timeout %d '%s' --tool memcheck --error-exitcode %d --report-api-errors no %s '%s' --device %u --data "
             "'%s' %s 2>&1",
             left < 150 ? left : 150, sanitizer(), TOOL_FAULT, sanitizer_filter(), self, device_number, data_dir,
             arguments);
    fflush(stdout);
    if (!(pipe = popen(command, "r")))
        SKIP("compute-sanitizer cannot be started");
    while (fgets(line, sizeof line, pipe)) {
        named |= strstr(line, "=========") && strstr(line, "bzi_kernel_");
        if (line[0] != '\n')
            snprintf(last, sizeof last, "%.*s", (int)strcspn(line, "\n"), line);
        if ((strstr(line, "=========") || strstr(line, "passed") || strstr(line, "FAIL")) && lines++ < 60)
            printf("  %s", line);
    }
    status = pclose(pipe);
    code = WIFEXITED(status) ? WEXITSTATUS(status) : 256;
    CHECK(!named);
    CHECK(code != TOOL_FAULT);
    if (code != 0 && code != TOOL_FAULT)
        SKIP(code == 124 ? reason("compute-sanitizer did not end in time") :
                           reason("compute-sanitizer ended with status %d: %s", code, last));
}

TEST(compute_sanitizer_finds_nothing_in_the_kernel)
{
    if (is_fake || !sanitizer())
        SKIP("compute-sanitizer is not installed");
    sanitized("--short --kernel");
}

TEST(compute_sanitizer_finds_nothing_in_a_short_run)
{
    if (is_fake || !sanitizer())
        SKIP("compute-sanitizer is not installed");
    sanitized("--short");
}

/* ---- main ---- */

static const struct test { const char *name; void (*run)(void); int in_short, is_kernel; } tests[] = {
#define ALL(name)   { #name, test_##name, 0, 0 },
#define SHORT(name) { #name, test_##name, 1, 0 },
    SHORT(there_is_a_device_with_video_engines_and_it_takes_the_kernel)
    ALL(nvdec_decodes_the_pictures_of_each_kind_to_their_sums_and_the_kernel_reads_them)
    { "the_kernel_equals_its_c_side_to_the_bit", test_the_kernel_equals_its_c_side_to_the_bit, 1, 1 },
    { "operations_equal_those_of_the_processor_to_the_bit", test_operations_equal_those_of_the_processor_to_the_bit,
      1, 1 },
    SHORT(frames_of_the_original_archives_equal_their_md5)
    ALL(frames_of_every_kind_equal_libavcodec)
    ALL(a_decoder_given_another_size_decodes_the_same)
    ALL(batches_equal_those_of_the_processor)
    SHORT(batches_come_to_the_host_as_they_are)
    ALL(no_number_of_sessions_changes_a_pixel)
    ALL(a_slow_consumer_reads_whole_batches_on_its_own_stream)
    ALL(a_picture_holds_while_its_surface_is_decoded_into_again)
    ALL(nvdec_overwrites_no_surface_that_a_slow_consumer_holds_up)
    SHORT(a_batch_moves_to_another_stream)
    ALL(batches_lie_in_buffers_of_the_user)
    SHORT(a_tensor_lies_on_the_device)
    ALL(a_state_saved_on_the_processor_goes_on_on_the_gpu)
    ALL(after_resets_and_restores_in_mid_run_everything_is_as_at_the_start)
    ALL(loaders_share_the_sessions_of_a_context)
    ALL(frames_too_small_are_refused_with_the_limits)
    ALL(damaged_samples_cost_their_own_slots)
    ALL(ten_epochs_more_take_no_memory_and_make_no_decoder)
    ALL(opening_and_closing_twenty_times_leaves_nothing)
    ALL(stopping_and_closing_in_mid_run_are_prompt)
    ALL(a_forked_child_is_refused_and_the_parent_goes_on)
    ALL(compute_sanitizer_finds_nothing_in_the_kernel)
    ALL(compute_sanitizer_finds_nothing_in_a_short_run)
};
enum { TESTS = sizeof tests / sizeof tests[0] };

static const char *running = "";

static void conclude(void)
{
    printf("%s: %d passed, %d failed, %d skipped\n", __FILE__, test_passed, test_failed, test_skipped);
}

/* A hang is a failure, too, and must not cost the results before it. */
static void on_alarm(int number)
{
    (void)number;
    test_failed++;
    printf("FAIL %s: no end after %d seconds\n", running, TEST_SECONDS);
    conclude();
    fflush(stdout);
    _exit(1);
}

static int skip_all(const char *why)
{
    printf("SKIP gpu-check: %s\n", why);
    test_skipped = TESTS;
    conclude();
    return 0;
}

static void complain_to_stdout(void *user, int32_t level, bzna_status code, const char *message)
{
    (void)user;
    (void)level;
    /* of samples damaged on purpose */
    if (code != BZNA_E_DECODE && code != BZNA_E_CODEC && code != BZNA_E_BOX && code != BZNA_E_MISMATCH &&
        code != BZNA_E_FORMAT)
        printf("  log: %s\n", message);
}

static void find(void *library, const char *name, void *pointer)
{
    void *symbol = library ? dlsym(library, name) : NULL;
    memcpy(pointer, &symbol, sizeof symbol);
}

static bzna_status open_device(bzna_error *err)
{
    bzna_context_config config;
    bzna_status status;
    void *library;
    bzna_context_config_init(&config, sizeof config);
    config.device = (bzna_device){ BZNA_DEVICE_CUDA, (int32_t)device_number };
    config.log = complain_to_stdout;
    about.struct_size = sizeof about;
    if ((status = bzna_context_open(&config, &context, err)) != BZNA_OK ||
        (status = bzna_context_device_info(context, &about, sizeof about, err)) != BZNA_OK)
        return status;
    device = context->device;
    is_fake = !strcmp(about.name, "Fake GPU");
    library = dlopen("libcuda.so.1", RTLD_NOW);
    find(library, "cuMemGetInfo_v2", &cu_mem_info);
    find(library, "cuMemcpyDtoDAsync_v2", &cu_copy);
    status = bzi_device_enter(device, err);
    taken_before = status == BZNA_OK ? device_bytes() : 0;
    return status;
}

int main(int argc, char **argv)
{
    bzna_error err = fresh_error();
    int recording_wanted = 0, probe = 0, kernel_only = 0;
    const char *only = NULL;
    self = argv[0];
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--data") && i + 1 < argc)        data_dir = argv[++i];
        else if (!strcmp(argv[i], "--device") && i + 1 < argc) device_number = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--only") && i + 1 < argc)   only = argv[++i];
        else if (!strcmp(argv[i], "--record"))                 recording_wanted = 1;
        else if (!strcmp(argv[i], "--probe"))                  probe = 1;
        else if (!strcmp(argv[i], "--short"))                  is_short = 1;
        else if (!strcmp(argv[i], "--kernel"))                 kernel_only = 1;
        else {
            fprintf(stderr, "usage: gpu_check [--data DIR] [--device N] [--probe | --short [--kernel] | --record] "
                            "[--only PART_OF_A_NAME]\n");
            return 2;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    setenv("BENZINA_NVDEC_CHECK", "0", 1);                  /* what is wrong must fail here, not be avoided */
    begun_ns = bzi_os_now_ns();
    md5_tables();
#ifndef BENZINA_NO_AVCODEC
    if (recording_wanted)
        return record();
#endif
    if (recording_wanted)
        return fprintf(stderr, "gpu_check: this build has no libavcodec to record\n"), 2;
    bzna_status status = open_device(&err);
    if (status == BZNA_OK && about.video != BZNA_OK && probe) {
        printf("%s; %s\n", about.name, about.message);
        return SKIPPED;
    }
    if (probe)
        return printf("%s\n", status == BZNA_OK ? about.name : err.message), status == BZNA_OK ? 0 : SKIPPED;
    if (status != BZNA_OK)
        return skip_all(err.message);
    expectations_load();
    signal(SIGALRM, on_alarm);
    for (int i = 0; i < TESTS; i++) {
        uint64_t start = bzi_os_now_ns();
        if ((is_short && !tests[i].in_short) || (kernel_only && !tests[i].is_kernel) ||
            (only && !strstr(tests[i].name, only)))
            continue;
        if (about.video != BZNA_OK && !tests[i].is_kernel) {
            if (!test_skipped++)
                printf("SKIP gpu-check: %s\n", about.message);
            continue;
        }
        running = tests[i].name;
        printf("-- %s\n", running);
        alarm(TEST_SECONDS);
        test_run(tests[i].name, tests[i].run);
        alarm(0);
        printf("   %.1f s\n", (double)(bzi_os_now_ns() - start) * 1e-9);
    }
    bzi_device_leave(device);
    bzna_context_close(context);
    conclude();
    return test_failed != 0;
}
#endif
