/* test_contract.c - what the library promises of every data set, held against every kind of them.
 *
 * A form makes a file or a folder of samples; a row of the table lays pieces of some form end to end, and knows of each
 * sample what it must be: target, name, place, picture. A promise is a test that goes through all rows, opened in all
 * ways: from a path, from memory, by a user's source. The oracle of pixels is the library's pure half, as in
 * test_loader.c: each slot must hold, to the bit, what bzna_picture_render makes of its sample's picture. */
#include "library.h"
#include "../../examples/formats/formats.h"
#include "test.h"
#include "../../examples/formats/data.h"

#if defined(BENZINA_NO_AVCODEC) || defined(BENZINA_NO_JPEG) || defined(BENZINA_NO_WRITER)
TEST(promises_hold_for_every_kind_of_data_set)
{
    SKIP("built without libavcodec, libjpeg-turbo or the writer [libavcodec-dev libjpeg-dev]");
}
TEST_MAIN(RUN(promises_hold_for_every_kind_of_data_set))
#else

#include "archives.h"
#define ASK_ALWAYS
#include "asking.h"
#include "open_formats.h"
#include "recordio.h"
#include "tars.h"
#include <libavcodec/avcodec.h>

#define TOP TEST_BUILD "/tests/contract"

enum { SAMPLES = 45, PIECES = 4, WIDTH = 14, HEIGHT = 9, PLANE = WIDTH * HEIGHT, SLOT = 3 * PLANE, SEED = 77 };
enum { BY_PATH, BY_MEMORY, BY_SOURCE, WAYS };
enum { BY_LIST = 1, BY_PATTERN };

static const char *const way_names[WAYS] = { "a path", "memory", "a source" };

/* ---- What there is ----------------------------------------------------------------------------------------------- */

/* What a sample must be. */
typedef struct sample {
    const coded *coded;
    int64_t      target;
    char         name[40];            /* empty: it has none */
    uint64_t     offset, size;        /* in its file; size 0: as the library says, if it can be so */
    uint64_t     at;                  /* where its picture lies in its file; 0: likewise */
    char         extra[16];           /* the value of its form's extra field */
    uint64_t     extra_size;
} sample;

typedef struct piece piece;

typedef struct form {
    const char *container;            /* as bzna_dataset_info calls it */
    const char *fields;               /* its fields' names, with a blank behind each */
    const char *extra;                /* a field that all its samples have, besides picture and name */
    const char *tensors;              /* fields that batches carry as numbers */
    bzna_status lost_header;          /* of one destroyed after opening; BZNA_OK: nobody reads it again */
    uint64_t    header_bytes;         /* before its picture; 0: there is none */
    void      (*make)(piece *p);      /* its samples' pictures are chosen; sets the rest, and writes the files */
} form;

/* A file, or a folder of them, opened as one container. */
struct piece {
    const form *form;
    const char *name;                 /* of the file or folder in TOP */
    uint64_t    count;
    uint64_t    first;                /* its samples' numbers begin there: in names, targets, pictures */
    char        path[200], list[208];
    archive     file;                 /* its bytes; none where samples are files of their own */
    sample      samples[SAMPLES];
};

typedef struct row {
    const char *name;
    piece      *pieces[PIECES];
    int         several;              /* one call opens all from their paths: BY_LIST, BY_PATTERN */
    uint64_t    first, count;         /* a range of the pieces laid end to end; count 0: all */
    int         content;              /* rows with the same number hold the same bytes */
} row;

static coded jpegs[SAMPLES], pngs[SAMPLES], raws[2][SAMPLES], split_jpegs[SAMPLES];
static coded units[SAMPLES], frames[3];
static bzna_context *context;         /* of what belongs to no test alone */

/* ---- Pictures ---------------------------------------------------------------------------------------------------- */

static uint8_t drawn(int plane, int x, int y, int n)
{
    const int box = x / 8 == n % 8 && y / 8 == n / 8 % 6;
    return (uint8_t)(plane == 0 ? 30 + (n * 29 + x * (n % 3) + y * 2) % 150 + 60 * box :
                     plane == 1 ? 40 + n * 4 : 220 - n * 4);
}

/* In the frame's own format: Y'CbCr 4:2:0, or RGB. */
static void frame_draw(AVFrame *f, int n)
{
    const int is_rgb = f->format == AV_PIX_FMT_RGB24;
    for (int p = 0; p < 3; p++)
        for (int y = 0; y < (p && !is_rgb ? 24 : 48); y++)
            for (int x = 0; x < (p && !is_rgb ? 32 : 64); x++)
                if (is_rgb)
                    f->data[0][y * f->linesize[0] + 3 * x + p] = drawn(p, x, y, n);
                else
                    f->data[p][y * f->linesize[p] + x] = drawn(p, p ? 2 * x : x, p ? 2 * y : y, n);
}

/* A JPEG or a PNG of 64x48 pixels; n tells it from others. */
static void still_make(coded *c, int n, int is_png)
{
    const int format = is_png ? AV_PIX_FMT_RGB24 : AV_PIX_FMT_YUV420P;
    AVCodecContext *encoder =
        avcodec_alloc_context3(avcodec_find_encoder(is_png ? AV_CODEC_ID_PNG : AV_CODEC_ID_MJPEG));
    AVFrame *f = av_frame_alloc();
    AVPacket *packet = av_packet_alloc();
    encoder->width = f->width = 64;
    encoder->height = f->height = 48;
    encoder->pix_fmt = f->format = format;
    encoder->color_range = f->color_range = AVCOL_RANGE_JPEG;
    encoder->time_base = (AVRational){ 1, 25 };
    encoder->flags |= AV_CODEC_FLAG_QSCALE;
    encoder->global_quality = f->quality = 6 * FF_QP2LAMBDA;
    encoder->thread_count = 1;
    if (avcodec_open2(encoder, NULL, NULL) < 0 || av_frame_get_buffer(f, 0) < 0)
        abort();
    frame_draw(f, n);
    f->pts = 0;
    if (avcodec_send_frame(encoder, f) < 0 || avcodec_receive_packet(encoder, packet) < 0 ||
        packet->size > (is_png ? 4096 : 1536))
        abort();
    c->memory = take_memory((size_t)packet->size);
    memcpy(c->memory, packet->data, (size_t)packet->size);
    bzna_image_init(&c->image, sizeof c->image);
    c->image.codec = is_png ? BZNA_CODEC_STILL : BZNA_CODEC_JPEG;
    c->image.data = c->memory;
    c->image.data_size = (uint64_t)packet->size;
    av_packet_free(&packet);
    av_frame_free(&f);
    avcodec_free_context(&encoder);
}

/* The same picture, with a comment in it that holds RecordIO's magic number twice: its record has three parts. */
static void jpeg_split(coded *c, const coded *from)
{
    static const uint8_t comment[6] = { 0xff, 0xfe, 0, 20, ' ', ' ' };
    const size_t size = (size_t)from->image.data_size;
    *c = *from;
    c->memory = take_memory(size + 22);
    memcpy(c->memory, from->memory, 2);
    memcpy(c->memory + 2, comment, sizeof comment);
    memcpy(c->memory + 8, rec_magic, 4);
    memcpy(c->memory + 16, rec_magic, 4);
    memcpy(c->memory + 24, from->memory + 2, size - 2);
    c->image.data = c->memory;
    c->image.data_size = size + 22;
}

/* Numbers as they are: planes of R, G and B, or pixels. Decoded, they stay where they lie. */
static void raw_make(coded *c, int n, uint32_t layout)
{
    enum { EDGE = 32, BYTES = 3 * EDGE * EDGE };
    uint8_t *p = c->memory = take_memory(BYTES + 2);
    for (int i = 0; i < BYTES; i++)
        p[i] = drawn(i / EDGE / EDGE, i % EDGE, i / EDGE % EDGE, n);
    p[BYTES] = 3;                                           /* channels */
    p[BYTES + 1] = (uint8_t)layout;
    bzna_image_init(&c->image, sizeof c->image);
    c->image.codec = BZNA_CODEC_RAW;
    c->image.width = c->image.height = c->image.frame_width = c->image.frame_height = EDGE;
    c->image.color = bzi_color_of_raw;
    c->image.config = p + BYTES;
    c->image.config_size = 2;
    c->image.data = p;
    c->image.data_size = BYTES;
}

/* A picture of the archives in tests/data as this version's writer writes it. */
static coded unit_load(uint32_t codec, uint64_t index)
{
    static const int first = 0;
    enum { ROOM = 1 << 16 };
    coded given = coded_load(context, codec, index, NULL), c = { .memory = take_memory(ROOM) };
    const recipe r = { .count = 1, .pictures = &given, .pattern = &first, .pattern_count = 1 };
    archive a = archive_build(context, &r);
    bzna_dataset *dataset = NULL;
    bzna_image_init(&c.image, sizeof c.image);
    require(bzna_dataset_open_memory(context, a.bytes, (size_t)a.size, NULL, &dataset, NULL), "archive");
    require(bzna_dataset_read_image(dataset, 0, "image", c.memory, ROOM, &c.image, NULL), "image");
    bzna_dataset_close(dataset);
    archive_clear(&a);
    coded_clear(&given);
    return c;
}

/* Those of archives: two pictures of two codecs, cropped so that no two are equal. Those of videos: whole frames. */
static void pictures_make(void)
{
    static const uint64_t of_video[3] = { 4, 5, 2 };
    coded base[2] = { unit_load(BZNA_CODEC_H264, 5), unit_load(BZNA_CODEC_H265, 4) };
    bzna_decoder *decoder = NULL;
    require(bzna_decoder_open(context, &decoder, NULL), "decoder");
    for (int i = 0; i < SAMPLES; i++) {
        still_make(&jpegs[i], i, 0);
        still_make(&pngs[i], i, 1);
        coded_decode(&jpegs[i], decoder, &jpegs[i].image);
        coded_decode(&pngs[i], decoder, &pngs[i].image);
        jpeg_split(&split_jpegs[i], &jpegs[i]);
        for (uint32_t layout = BZNA_LAYOUT_NCHW; layout <= BZNA_LAYOUT_NHWC; layout++) {
            raw_make(&raws[layout][i], i, layout);
            raws[layout][i].picture = (bzna_picture){ .struct_size = sizeof raws[layout][i].picture };
            require(bzna_decoder_decode(decoder, &raws[layout][i].image, &raws[layout][i].picture, NULL), "decode");
        }
        units[i] = base[i % 2];
        units[i].image.width = 100;
        units[i].image.height = 80;
        units[i].image.crop_x = (uint32_t)(i / 2 % 5 * 2);
        units[i].image.crop_y = (uint32_t)(i / 10 * 2);
        coded_decode(&units[i], decoder, &units[i].image);
    }
    for (int i = 0; i < 3; i++) {
        frames[i] = unit_load(BZNA_CODEC_H264, of_video[i]);
        frames[i].image.width = frames[i].image.frame_width;
        frames[i].image.height = frames[i].image.frame_height;
        coded_decode(&frames[i], decoder, &frames[i].image);
    }
    bzna_decoder_close(decoder);
}

/* ---- Forms ------------------------------------------------------------------------------------------------------- */

static void spill(const char *path, const void *bytes, uint64_t size)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, (size_t)size, f) != size || fclose(f)) {
        printf("cannot prepare: %s\n", path);
        exit(1);
    }
}

static void sample_set(sample *s, const coded *c, int64_t target, const char *name)
{
    s->coded = c;
    s->target = target;
    snprintf(s->name, sizeof s->name, "%s", name);
    memcpy(s->extra, &target, sizeof target);
    s->extra_size = sizeof target;
}

/* pictures: count of them, from first on. */
static void make_mp4(piece *p, const coded *pictures, const int *pattern, uint64_t pattern_count)
{
    recipe r = { .count = p->count, .pictures = pictures, .pattern = pattern, .pattern_count = pattern_count,
                 .base = 17 + 1003 * (int64_t)p->first, .step = 1003, .letter = 'i' };
    p->file = archive_build(context, &r);
    for (uint64_t i = 0; i < p->count; i++) {
        char name[32];
        snprintf(name, sizeof name, "i%05d", (int)i);
        sample_set(&p->samples[i], p->file.pictures[i], target_of(&p->file, i), name);
    }
}

static void make_archive_of(piece *p, const coded *pictures)
{
    int pattern[SAMPLES];
    for (int i = 0; i < SAMPLES; i++)
        pattern[i] = i;
    make_mp4(p, pictures + p->first, pattern, p->count);
    spill(p->path, p->file.bytes, p->file.size);
}

static void make_archive(piece *p)      { make_archive_of(p, units); }
static void make_jpeg_archive(piece *p) { make_archive_of(p, jpegs); }

/* An archive without its input track is a video, of the pictures that its outer thumbnail track plays. */
static void make_video(piece *p)
{
    static const int pattern[] = { 0, 1, 2, 1, 0, 2, 2 };
    uint8_t *at;
    make_mp4(p, frames, pattern, sizeof pattern / sizeof *pattern);
    at = p->file.bytes + p->file.size;
    while (at > p->file.bytes && memcmp(at, "bzna_input", 10))
        at--;
    if (at == p->file.bytes)
        abort();
    memcpy(at, "x", 1);
    spill(p->path, p->file.bytes, p->file.size);
}

/* A file in the piece's folder. */
static void folder_add(piece *p, uint64_t i, const coded *c, int64_t target, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", p->path, name);
    spill(path, c->memory, c->image.data_size);
    sample_set(&p->samples[i], c, target, name);
    p->samples[i].size = c->image.data_size;
}

static void make_classes(piece *p)
{
    static const char *const folders[] = { "ant", "bee", "bee/deep", "cat" };
    static const int64_t classes[] = { 0, 1, 1, 2 };
    char name[32], path[300];
    mkdir(p->path, 0777);
    for (uint64_t i = 0; i < p->count; i++) {
        const uint64_t k = i * 4 / p->count;
        snprintf(path, sizeof path, "%s/%s", p->path, folders[k]);
        mkdir(path, 0777);
        snprintf(name, sizeof name, "%s/%03d.jpg", folders[k], (int)i);
        folder_add(p, i, &jpegs[p->first + i], classes[k], name);
    }
}

static void make_flat_of(piece *p, const coded *pictures, const char *extension)
{
    char name[32];
    mkdir(p->path, 0777);
    for (uint64_t i = 0; i < p->count; i++) {
        snprintf(name, sizeof name, "%03d.%s", (int)i, extension);
        folder_add(p, i, &pictures[i], BZNA_TARGET_NONE, name);
        memcpy(p->samples[i].extra, name, p->samples[i].extra_size = strlen(name) + 1);
    }
}

static void make_flat(piece *p) { make_flat_of(p, pngs, "png"); }

/* The piece's folder, and one beside it with other pictures of the same names. Opened is the folder that holds both. */
static void make_pairs(piece *p)
{
    char name[40], path[300];
    mkdir(TOP "/pairs", 0777);
    mkdir(TOP "/pairs/masks", 0777);
    mkdir(p->path, 0777);
    for (uint64_t i = 0; i < p->count; i++) {
        const coded *mask = &pngs[p->count - 1 - i];
        snprintf(path, sizeof path, TOP "/pairs/masks/%03d.png", (int)i);
        spill(path, mask->memory, mask->image.data_size);
        snprintf(name, sizeof name, "%03d.jpg", (int)i);
        folder_add(p, i, &jpegs[i], BZNA_TARGET_NONE, name);
        memcpy(p->samples[i].extra, name, p->samples[i].extra_size = strlen(name) + 1);
        p->samples[i].size += mask->image.data_size + 16;
    }
}

/* From the last file to the first. */
static void make_listed(piece *p)
{
    char name[32], text[SAMPLES * 64];
    size_t n = 0;
    mkdir(p->path, 0777);
    for (uint64_t i = 0; i < p->count; i++) {
        snprintf(name, sizeof name, "%03d.jpg", (int)(p->count - 1 - i));
        folder_add(p, i, &jpegs[p->count - 1 - i], 1000 + (int64_t)i, name);
        n += (size_t)snprintf(text + n, sizeof text - n, "%d\t%d\t%s\n", (int)i * 3, 1000 + (int)i, name);
    }
    snprintf(p->list, sizeof p->list, "%s.lst", p->path);
    spill(p->list, text, n);
}

static void make_tar(piece *p)
{
    tar t = { NULL, 0, 0, 0 };
    for (uint64_t i = 0; i < p->count; i++) {
        sample *s = &p->samples[i];
        const coded *c = &jpegs[p->first + i];
        char name[40], text[16];
        snprintf(name, sizeof name, "d/%05d", (int)(p->first + i));
        sample_set(s, c, 3 * (int64_t)(p->first + i), name);
        s->offset = t.size;
        s->at = t.size + 512;
        strcat(name, ".jpg");
        tar_file(&t, name, c->memory, (size_t)c->image.data_size);
        snprintf(text, sizeof text, "%d", (int)s->target);
        strcpy(strrchr(name, '.'), ".cls");
        tar_text(&t, name, text);
        s->extra_size = (uint64_t)snprintf(s->extra, sizeof s->extra, "{\"n\":%d}", (int)i);
        strcpy(strrchr(name, '.'), ".json");
        tar_text(&t, name, s->extra);
        s->size = t.last + 512 + s->extra_size - s->offset;
    }
    tar_end(&t);
    p->file = (archive){ .bytes = t.bytes, .size = t.size, .count = p->count };
    spill(p->path, t.bytes, t.size);
}

/* The index beside it, as wds2idx writes it. */
static void make_tar_with_index(piece *p)
{
    char text[SAMPLES * 160], path[208], cls[16];
    size_t n = 0;
    make_tar(p);
    n += (size_t)snprintf(text, sizeof text, "v1.2 %d\n", (int)p->count);
    for (uint64_t i = 0; i < p->count; i++) {
        const sample *s = &p->samples[i];
        const int jpg = (int)s->coded->image.data_size, at = (int)s->at, cls_at = at + (jpg + 511) / 512 * 512 + 512;
        snprintf(cls, sizeof cls, "%d", (int)s->target);
        n += (size_t)snprintf(text + n, sizeof text - n, "jpg %d %d %s.jpg cls %d %d %s.cls json %d %d %s.json\n", at,
                              jpg, s->name, cls_at, (int)strlen(cls), s->name, cls_at + 1024, (int)s->extra_size,
                              s->name);
    }
    snprintf(path, sizeof path, "%.*s.idx", (int)strlen(p->path) - 4, p->path);
    spill(path, text, n);
}

static void make_records(piece *p, const coded *pictures, int with_idx)
{
    rec_file *f = rec_new();
    for (uint64_t i = 0; i < p->count; i++) {
        sample *s = &p->samples[i];
        const coded *c = &pictures[p->first + i];
        const float label = (float)(7 * i);
        char name[32];
        snprintf(name, sizeof name, "%d", 500 + (int)i);
        sample_set(s, c, 7 * (int64_t)i, name);
        memcpy(s->extra, &label, s->extra_size = sizeof label);
        s->offset = f->size;
        s->at = f->size + 8 + 24;
        rec_add_picture(f, 500 + i, &label, 1, c->memory, (size_t)c->image.data_size);
        s->size = f->size - s->offset;
    }
    rec_save(f, p->path, with_idx);
    p->file = (archive){ .bytes = f->bytes, .size = f->size, .count = p->count };    /* all of *f, for the whole run */
}

static void make_rec(piece *p)          { make_records(p, jpegs, 0); }
static void make_rec_with_idx(piece *p) { make_records(p, jpegs, 1); }
static void make_split_rec(piece *p)    { make_records(p, split_jpegs, 0); }

/* A header, then labels and pictures as CIFAR has them. */
static void make_raw_of(piece *p, const coded *pictures)
{
    const uint64_t stride = 1 + pictures[0].image.data_size;
    p->file = (archive){ .bytes = take_memory((size_t)(16 + p->count * stride)), .size = 16 + p->count * stride };
    for (uint64_t i = 0; i < p->count; i++) {
        sample *s = &p->samples[i];
        sample_set(s, &pictures[i], (int64_t)(5 * i), "");
        s->offset = 16 + i * stride;
        s->at = s->offset + 1;
        s->size = stride;
        p->file.bytes[s->offset] = (uint8_t)(5 * i);
        memcpy(p->file.bytes + s->at, pictures[i].memory, (size_t)stride - 1);
    }
    spill(p->path, p->file.bytes, p->file.size);
}

static void make_raw(piece *p)        { make_raw_of(p, raws[BZNA_LAYOUT_NCHW]); }
static void make_raw_pixels(piece *p) { make_raw_of(p, raws[BZNA_LAYOUT_NHWC]); }

/* ---- A provider -------------------------------------------------------------------------------------------------- */

/* Its file holds pictures and nothing else: they are located there by path, and in memory by memory; by source, they
 * are read. */
static void make_provider(piece *p)
{
    for (uint64_t i = 0; i < p->count; i++) {
        const coded *c = &jpegs[p->first + i];
        char name[32];
        snprintf(name, sizeof name, "p%02d", (int)i);
        sample_set(&p->samples[i], c, (int64_t)i * 3 - 1 + (i == 0), name);
        p->samples[i].at = p->file.size;
        archive_write(&p->file, p->file.size, c->memory, c->image.data_size);
    }
    spill(p->path, p->file.bytes, p->file.size);
}

/* What a provider's functions are told. */
typedef struct provided {
    const piece *p;
    memory      *m;                   /* that pictures are read from; NULL: they are located */
    int          in_memory;
} provided;

static bzna_status provider_read(void *user, uint64_t index, uint32_t field, void *buffer, uint64_t capacity,
                                 uint64_t *size, bzna_error *err)
{
    (void)err;
    const provided *of = user;
    const sample *s = &of->p->samples[index];
    uint64_t at = 0;
    *size = field == 0 ? s->coded->image.data_size : field == 1 ? sizeof s->target : strlen(s->name);
    if (*size > capacity)
        return BZNA_OK;
    if (field)
        memcpy(buffer, field == 1 ? (const void *)&s->target : s->name, (size_t)*size);
    while (field == 0 && at < *size) {
        int64_t n = memory_read(of->m, s->at + at, (uint8_t *)buffer + at, *size - at);
        if (n <= 0)
            return BZNA_E_IO;
        at += (uint64_t)n;
    }
    return BZNA_OK;
}

static bzna_status provider_locate(void *user, uint64_t index, uint32_t field, bzna_place *place, bzna_error *err)
{
    (void)err;
    const provided *of = user;
    const sample *s = &of->p->samples[index];
    place->data = of->in_memory ? of->p->file.bytes + s->at : NULL;
    place->offset = s->at;
    place->size = s->coded->image.data_size;
    return field ? BZNA_E_ARGUMENT : BZNA_OK;
}

static void provider_close(void *user)
{
    provided *of = user;
    if (of->m)
        of->m->closes++;
    free(of);
}

static bzna_status provider_open(bzna_context *c, const piece *p, int way, memory *m, const bzna_dataset_config *config,
                                 bzna_dataset **out, bzna_error *err)
{
    const bzna_provider_field fields[] = {
        { .name = "image", .kind = BZNA_FIELD_IMAGE, .located = way != BY_SOURCE },
        { .name = "target", .kind = BZNA_FIELD_INTEGER }, { .name = "name", .kind = BZNA_FIELD_TEXT } };
    const char *const files[] = { p->path };
    provided *of = take_memory(sizeof *of);
    bzna_provider provider = { .struct_size = sizeof provider, .user = of, .count = p->count, .fields = fields,
                               .field_count = COUNT(fields), .read = provider_read, .close = provider_close,
                               .locate = way == BY_SOURCE ? NULL : provider_locate, .fingerprint = 0x5eed };
    bzna_status status;
    if (way == BY_PATH) {
        provider.files = files;
        provider.file_count = 1;
    }
    if (way == BY_SOURCE)
        memory_source(m, &p->file);
    *of = (provided){ p, way == BY_SOURCE ? m : NULL, way == BY_MEMORY };
    status = bzna_dataset_open_provider(c, &provider, config, out, err);
    if (status != BZNA_OK)
        free(of);
    return status;
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

static const form forms[] = {
    { "archive", "image thumb target name ", "target", NULL, 0, 0, make_archive },
    { "archive", "image thumb target name ", "target", NULL, 0, 0, make_jpeg_archive },
    { "mp4 video", "image target name ", "target", NULL, 0, 0, make_video },
    { "folder", "image target name ", "target", NULL, 0, 0, make_classes },
    { "folder", "image name ", "name", NULL, 0, 0, make_flat },
    { "folder", "image target name ", "target", NULL, 0, 0, make_listed },
    { "tar", "jpg cls json name ", "json", "cls", BZNA_OK, 512, make_tar },
    { "tar", "jpg cls json name ", "json", "cls", BZNA_E_BOX, 512, make_tar_with_index },
    { "RecordIO", "image label id target name record ", "label", "label,id", BZNA_E_FORMAT, 32, make_rec },
    { "RecordIO", "image label id target name record ", "label", "label,id", BZNA_E_FORMAT, 32, make_rec_with_idx },
    { "RecordIO", "image label id target name record ", "label", "label,id", BZNA_E_FORMAT, 32, make_split_rec },
    { "records", "image target ", "target", NULL, BZNA_OK, 0, make_raw },
    { "records", "image target ", "target", NULL, BZNA_OK, 0, make_raw_pixels },
    { "provider", "image target name ", "target", NULL, 0, 0, make_provider },
    { "folder pairs", "images masks name ", "name", NULL, 0, 0, make_pairs },
};

enum { ARCHIVE, ARCHIVE_JPEG, VIDEO, CLASSES, FLAT, LISTED, TAR, TAR_IDX, REC, REC_IDX, REC_SPLIT, RAW, RAW_PIXELS,
       PROVIDER, PAIRS };

static piece whole[] = {
    { .form = &forms[ARCHIVE], .name = "a.bzna", .count = SAMPLES },
    { .form = &forms[ARCHIVE_JPEG], .name = "jpeg.bzna", .count = SAMPLES },
    { .form = &forms[VIDEO], .name = "video.mp4", .count = SAMPLES },
    { .form = &forms[CLASSES], .name = "classes", .count = SAMPLES },
    { .form = &forms[FLAT], .name = "flat", .count = SAMPLES },
    { .form = &forms[LISTED], .name = "listed", .count = SAMPLES },
    { .form = &forms[TAR], .name = "a.tar", .count = SAMPLES },
    { .form = &forms[TAR_IDX], .name = "wds.tar", .count = SAMPLES },
    { .form = &forms[REC], .name = "a.rec", .count = SAMPLES },
    { .form = &forms[REC_IDX], .name = "indexed.rec", .count = SAMPLES },
    { .form = &forms[REC_SPLIT], .name = "parts.rec", .count = SAMPLES },
    { .form = &forms[RAW], .name = "raw.bin", .count = SAMPLES },
    { .form = &forms[RAW_PIXELS], .name = "raw.bin", .count = SAMPLES },       /* the same bytes, taken otherwise */
    { .form = &forms[PROVIDER], .name = "provided.bin", .count = SAMPLES },
}, paired = { .form = &forms[PAIRS], .name = "pairs/images", .count = SAMPLES }, parts[] = {
    { .form = &forms[TAR], .name = "0.tar", .count = 15 },
    { .form = &forms[TAR], .name = "1.tar", .count = 15, .first = 15 },
    { .form = &forms[TAR], .name = "2.tar", .count = 15, .first = 30 },
    { .form = &forms[ARCHIVE], .name = "small.bzna", .count = 12 },
    { .form = &forms[TAR], .name = "small_1.tar", .count = 11, .first = 12 },
    { .form = &forms[TAR], .name = "small_2.tar", .count = 10, .first = 23 },
    { .form = &forms[CLASSES], .name = "small", .count = 12, .first = 33 },
    { .form = &forms[PROVIDER], .name = "small.bin", .count = 10, .first = 23 },
};

static const row rows[] = {
    { "an archive", { &whole[ARCHIVE] }, 0, 0, 0, 0 },
    { "an archive of JPEG", { &whole[ARCHIVE_JPEG] }, 0, 0, 0, 13 },
    { "a video", { &whole[VIDEO] }, 0, 0, 0, 1 },
    { "a folder with classes", { &whole[CLASSES] }, 0, 0, 0, 2 },
    { "a flat folder of PNGs", { &whole[FLAT] }, 0, 0, 0, 3 },
    { "a folder by a list", { &whole[LISTED] }, 0, 0, 0, 4 },
    { "a tar", { &whole[TAR] }, 0, 0, 0, 5 },
    { "a tar with an index", { &whole[TAR_IDX] }, 0, 0, 0, 5 },
    { "a RecordIO file", { &whole[REC] }, 0, 0, 0, 6 },
    { "a RecordIO file with an .idx", { &whole[REC_IDX] }, 0, 0, 0, 6 },
    { "a RecordIO file of records in parts", { &whole[REC_SPLIT] }, 0, 0, 0, 7 },
    { "raw records", { &whole[RAW] }, 0, 0, 0, 11 },
    { "raw records of pixels", { &whole[RAW_PIXELS] }, 0, 0, 0, 12 },
    { "a provider", { &whole[PROVIDER] }, 0, 0, 0, 15 },
    { "pairs of folders", { &paired }, 0, 0, 0, 17 },
    { "tars by a pattern", { &parts[0], &parts[1], &parts[2] }, BY_PATTERN, 0, 0, 8 },
    { "tars by their paths", { &parts[0], &parts[1], &parts[2] }, BY_LIST, 0, 0, 8 },
    { "an archive, two tars and a folder", { &parts[3], &parts[4], &parts[5], &parts[6] }, 0, 0, 0, 9 },
    { "a range of those", { &parts[3], &parts[4], &parts[5], &parts[6] }, 0, 7, 30, 10 },
    { "a range of an archive, a tar, a provider", { &parts[3], &parts[4], &parts[7] }, 0, 3, 28, 16 },
};

enum { ROWS = sizeof rows / sizeof *rows };

static uint64_t row_count(const row *r)
{
    uint64_t count = 0;
    for (int i = 0; i < PIECES && r->pieces[i]; i++)
        count += r->pieces[i]->count;
    return r->count ? r->count : count;
}

/* The number of the sample's piece, and its own there. */
static int row_part(const row *r, uint64_t *index)
{
    int i = 0;
    for (*index += r->first; *index >= r->pieces[i]->count; i++)
        *index -= r->pieces[i]->count;
    return i;
}

static piece *row_piece(const row *r, uint64_t *index) { return r->pieces[row_part(r, index)]; }

static const sample *row_sample(const row *r, uint64_t index)
{
    const piece *p = row_piece(r, &index);
    return &p->samples[index];
}

/* A field that some of its samples have, and others may lack; "name": all have it. */
static const char *row_extra(const row *r) { return r->pieces[1] ? "json" : r->pieces[0]->form->extra; }

/* Folders and patterns have only a path. */
static int row_ways(const row *r) { return r->pieces[0]->file.bytes && r->several != BY_PATTERN ? WAYS : 1; }

/* A promise fails here. */
static void report(const row *r, int way, int failures_before)
{
    if (test_failures != failures_before)
        printf("  in %s, opened from %s\n", r->name, way_names[way]);
}

#define EACH(r, way)                                                                                                   \
    for (const row *r = rows; r < rows + ROWS; r++)                                                                    \
        for (int way = 0, way##_failures = test_failures; way < row_ways(r);                                           \
             report(r, way, way##_failures), way##_failures = test_failures, way++)

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

typedef struct opened {
    bzna_dataset *dataset;
    memory        sources[PIECES];
} opened;

static bzna_status piece_open(bzna_context *c, const piece *p, int way, memory *m, bzna_dataset **out, bzna_error *err)
{
    const bzna_records records = { .struct_size = sizeof records, .data_type = BZNA_RECORD_UINT8, .width = 32,
                                   .layout = p->form == &forms[RAW_PIXELS] ? BZNA_LAYOUT_NHWC : BZNA_LAYOUT_NCHW,
                                   .height = 32, .channels = 3, .header_bytes = 16, .data_offset = 1,
                                   .label_type = BZNA_RECORD_UINT8 };
    bzna_dataset_config config;
    bzna_formats_config formats = { .struct_size = sizeof formats };
    bzna_source source;
    bzna_dataset_config_init(&config, sizeof config);
    if (p->form == &forms[PROVIDER]) {
        config.name = p->path;
        return provider_open(c, p, way, m, &config, out, err);
    }
    formats.list = p->list[0] ? p->list : NULL;
    formats.dataset = &config;
    formats.records = p->form == &forms[RAW] || p->form == &forms[RAW_PIXELS] ? &records : NULL;
    formats.pairs = p->form == &forms[PAIRS] ? "images,masks" : NULL;
    if (formats.pairs || way == BY_PATH || !p->file.bytes)
        return bzna_formats_open(c, formats.pairs ? TOP "/pairs" : p->path, &formats, out, err);
    config.name = p->path;
    if (way == BY_MEMORY)
        return bzna_formats_open_memory(c, p->file.bytes, (size_t)p->file.size, &formats, out, err);
    source = memory_source(m, &p->file);
    return bzna_formats_open_source(c, &source, &formats, out, err);
}

/* Laid end to end, and cut. */
static bzna_status row_join(bzna_context *c, const row *r, bzna_dataset *const *all, bzna_dataset **out,
                            bzna_error *err)
{
    bzna_dataset *joined = NULL;
    uint32_t count = 0;
    bzna_status status;
    while (count < PIECES && all[count])
        count++;
    if ((status = bzna_dataset_concat(c, all, count, &joined, err)) != BZNA_OK || !r->count) {
        *out = joined;
        return status;
    }
    status = bzna_dataset_range(joined, r->first, r->count, out, err);
    bzna_dataset_close(joined);
    return status;
}

static bzna_status row_open(bzna_context *c, const row *r, int way, opened *o, bzna_error *err)
{
    bzna_dataset *all[PIECES] = { NULL };
    const char *paths[PIECES];
    bzna_status status = BZNA_OK;
    uint32_t count = 0;
    memset(o, 0, sizeof *o);
    for (; count < PIECES && r->pieces[count]; count++)
        paths[count] = r->pieces[count]->path;
    if (r->several == BY_PATTERN)
        return bzna_formats_open(c, TOP "/{0..2}.tar", NULL, &o->dataset, err);
    if (r->several && way == BY_PATH)
        return bzna_dataset_open_list(c, paths, count, NULL, &o->dataset, err);
    for (uint32_t i = 0; i < count && status == BZNA_OK; i++)
        status = piece_open(c, r->pieces[i], way, &o->sources[i], &all[i], err);
    if (count == 1) {
        o->dataset = all[0];
        return status;
    }
    if (status == BZNA_OK)
        status = row_join(c, r, all, &o->dataset, err);
    for (uint32_t i = 0; i < count; i++)
        bzna_dataset_close(all[i]);
    return status;
}

static void open_or_exit(bzna_context *c, const row *r, int way, opened *o)
{
    bzna_error err = { .struct_size = sizeof err };
    if (row_open(c, r, way, o, &err) != BZNA_OK) {
        printf("  %s cannot be opened from %s: %s\n", r->name, way_names[way], err.message);
        exit(1);
    }
}

static bzna_loader *open_loader(bzna_context *own, const opened *o, const bzna_loader_config *c)
{
    bzna_loader *loader = NULL;
    bzna_error err = { .struct_size = sizeof err };
    if (bzna_loader_open(own, o->dataset, c, &loader, &err) != BZNA_OK) {
        printf("  open: %s\n", err.message);
        exit(1);
    }
    return loader;
}

/* The names and that, for fields.bytes. */
static const char *bytes_of(const row *r)
{
    static char text[64];
    const char *const extra = row_extra(r);
    snprintf(text, sizeof text, "%s%s%s", row_sample(r, 0)->name[0] ? "name" : "",
             row_sample(r, 0)->name[0] && strcmp(extra, "name") ? "," : "", strcmp(extra, "name") ? extra : "");
    return text;
}

static bzna_loader_config config_of(uint32_t batch, uint32_t order)
{
    bzna_loader_config c;
    bzna_loader_config_init(&c, sizeof c);
    c.output.batch_size = batch;
    c.output.width = WIDTH;
    c.output.height = HEIGHT;
    c.order.kind = order;
    c.order.seed = SEED;
    c.decode.threads = 2;
    c.read.threads = 2;
    c.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    c.warp.flip_h = 0.5;
    c.filter.antialias = BZNA_ANTIALIAS_OFF;                /* widened filters take long without optimization */
    for (int i = 0; i < 3; i++)
        c.color.fill[i] = 11.0f * (float)(i + 1);
    return c;
}

/* ---- What a loader must deliver ---------------------------------------------------------------------------------- */

/* Where a loader stands, by arithmetic of its own. */
typedef struct plan {
    const row         *row;
    bzna_loader_config c;
    uint64_t           epoch, position;          /* of the next batch: of all ranks' first sample in it */
    uint8_t           *seen;                     /* how often each sample came in a real slot; may be NULL */
    uint64_t           bad;                      /* this sample fails with bad_status; UINT64_MAX: none does */
    bzna_status        bad_status;
} plan;

static plan plan_of(const row *r, const bzna_loader_config *c)
{
    plan p = { .row = r, .c = *c, .epoch = c->order.first_epoch, .bad = UINT64_MAX };
    p.c.shard.world_size = c->shard.world_size ? c->shard.world_size : 1;
    return p;
}

static uint64_t plan_index(const plan *p, uint64_t epoch, uint64_t position)
{
    const uint64_t count = row_count(p->row);
    return p->c.order.kind == BZNA_ORDER_SHUFFLE ? bzna_order_permute(p->c.order.seed, epoch, count, position % count) :
           p->c.order.kind == BZNA_ORDER_GIVEN   ? (2 * count - 1 - position % count - epoch) % count :
                                                   position % count;
}

static int pixels_are_right(const plan *p, uint64_t epoch, uint64_t index, const float *slot)
{
    const bzna_picture *picture = &row_sample(p->row, index)->coded->picture;
    bzna_output output = { .struct_size = sizeof output, .width = WIDTH, .height = HEIGHT };
    float expected[SLOT];
    bzna_transform t;
    bzna_random random;
    bzna_transform_init(&t, sizeof t);
    t.antialias = BZNA_ANTIALIAS_OFF;
    memcpy(t.fill, p->c.color.fill, sizeof t.fill);
    bzna_random_init(&random, p->c.order.seed, epoch, index, BZNA_RANDOM_WARP);
    require(bzna_warp_draw(&random, &p->c.warp, picture->width, picture->height, WIDTH, HEIGHT, t.homography, NULL),
            "warp");
    require(bzna_picture_render(picture, &t, &output, expected, sizeof expected, NULL), "pixels");
    return !memcmp(expected, slot, sizeof expected);
}

static int is_filled(const plan *p, const float *slot)
{
    for (int i = 0; i < SLOT; i++)
        if (slot[i] != p->c.color.fill[i / PLANE])
            return 0;
    return 1;
}

/* Whether a value that the batch carries is this one; NULL: there is none. */
static int bytes_are(const bzna_batch *batch, const char *field, uint32_t slot, const void *bytes, uint64_t size)
{
    const void *data = NULL;
    uint64_t got = 0;
    if (bzna_batch_bytes(batch, field, slot, &data, &got, NULL) != BZNA_OK || (data != NULL) != (bytes != NULL))
        return 0;
    return !bytes || (got == size && !memcmp(data, bytes, (size_t)size) && ((const char *)data)[size] == 0);
}

/* The message names the file and the sample's number in it. */
static int names_sample(const row *r, uint64_t index, const char *message)
{
    const piece *p = row_piece(r, &index);
    char number[32], path[300];
    const char *at;
    snprintf(number, sizeof number, "sample %d", (int)index);
    snprintf(path, sizeof path, "%s%s%s", p->path, p->file.bytes ? "" : "/", p->file.bytes ? ": " :
                                                                              p->samples[index].name);
    at = strstr(message, number);
    return at && strchr(": ", at[strlen(number)]) && strstr(message, path);
}

static int failure_is_right(const plan *p, const bzna_batch *batch, uint32_t slot)
{
    const bzna_batch_info info = info_of(batch);
    bzna_error err = { .struct_size = sizeof err };
    if (info.status[slot] != p->bad_status || bzna_batch_error(batch, slot, &err) != p->bad_status ||
        err.status != p->bad_status || !names_sample(p->row, p->bad, err.message)) {
        printf("  status %d, message \"%s\"\n", (int)err.status, err.message);
        return 0;
    }
    return is_filled(p, (const float *)info.image.data + (size_t)slot * SLOT);
}

/* "name", and the row's extra field where the sample has it. */
static int fields_are_right(const plan *p, const bzna_batch *batch, uint32_t slot, uint64_t index)
{
    const char *const extra = row_extra(p->row);
    const piece *in = row_piece(p->row, &index);
    const sample *s = &in->samples[index];
    const int has = !strcmp(in->form->extra, extra);
    return (!s->name[0] || bytes_are(batch, "name", slot, s->name, strlen(s->name))) &&
           (!strcmp(extra, "name") || bytes_are(batch, extra, slot, has ? s->extra : NULL, s->extra_size));
}

static int slot_is_right(const plan *p, const bzna_batch *batch, uint32_t slot, uint64_t epoch, uint64_t index)
{
    const bzna_batch_info info = info_of(batch);
    if (info.indices[slot] != index)
        return 0;
    if (index == p->bad)
        return failure_is_right(p, batch, slot);
    return info.status[slot] == BZNA_OK && info.targets[slot] == row_sample(p->row, index)->target &&
           (!p->c.fields.bytes || fields_are_right(p, batch, slot, index)) &&
           pixels_are_right(p, epoch, index, (const float *)info.image.data + (size_t)slot * SLOT);
}

static void check_slots(plan *p, const bzna_batch *batch, const bzna_batch_info *info)
{
    uint32_t replaced = 0;
    for (uint32_t slot = 0; slot < info->image.shape[0]; slot++) {
        const uint64_t at = p->position + p->c.shard.rank + (uint64_t)slot * p->c.shard.world_size;
        uint64_t index = plan_index(p, p->epoch, at);               /* padding begins the order anew */
        if (index == p->bad && p->c.errors.on_error == BZNA_ON_ERROR_REPLACE) {
            index = plan_index(p, p->epoch, at + p->c.shard.world_size);
            replaced += slot < info->count;
        }
        if (!slot_is_right(p, batch, slot, p->epoch, index)) {
            test_failures++;
            printf("  epoch %d, batch %d, slot %d: index %d, not %d; target %lld; status %d; or other pixels\n",
                   (int)info->epoch, (int)info->batch, (int)slot, (int)info->indices[slot], (int)index,
                   (long long)info->targets[slot], (int)info->status[slot]);
        }
        if (slot < info->count && p->seen)
            p->seen[index]++;
    }
    CHECK_EQ(info->replaced, replaced);
}

/* Checks a batch, and moves the plan on. */
static void check_batch(plan *p, const bzna_batch *batch)
{
    const uint64_t count = row_count(p->row), step = (uint64_t)p->c.output.batch_size * p->c.shard.world_size;
    const bzna_batch_info info = info_of(batch);
    const int drops = p->c.order.last_batch == BZNA_LAST_DROP;
    uint32_t real = 0;
    if (drops ? count - p->position < step : p->position >= count) {
        p->epoch++;
        p->position = 0;
    }
    while (real < p->c.output.batch_size && p->position + p->c.shard.rank + real * p->c.shard.world_size < count)
        real++;
    CHECK_EQ(info.epoch, p->epoch);
    CHECK_EQ(info.position, p->position + p->c.shard.rank);
    CHECK_EQ(info.count, real);
    CHECK_EQ(info.last_of_epoch, drops ? count - p->position < 2 * step : count - p->position <= step);
    CHECK_EQ(info.image.shape[0], p->c.order.last_batch == BZNA_LAST_PAD ? p->c.output.batch_size : real);
    check_slots(p, batch, &info);
    p->position += step;
}

/* Takes up to n batches, and checks each. Returns how many came. */
static uint64_t walk(bzna_loader *loader, plan *p, uint64_t n)
{
    const int failures = test_failures;
    uint64_t taken = 0;
    for (; taken < n && test_failures == failures; taken++) {
        bzna_batch *batch = NULL;
        bzna_error err = { .struct_size = sizeof err };
        bzna_status status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err);
        if (status == BZNA_END)
            break;
        if (status != BZNA_OK) {
            test_failures++;
            printf("  next: %s\n", err.message);
            break;
        }
        check_batch(p, batch);
        CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
    }
    return taken;
}

/* Opens a loader, walks to the end, closes it. Returns the number of batches. */
static uint64_t walk_all(const opened *o, const row *r, const bzna_loader_config *c, uint8_t *seen)
{
    bzna_loader *loader = open_loader(context, o, c);
    plan p = plan_of(r, c);
    uint64_t batches;
    p.seen = seen;
    batches = walk(loader, &p, UINT64_MAX);
    bzna_loader_close(loader);
    return batches;
}

static void check_each_once(const row *r, const uint8_t *seen, int times)
{
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < row_count(r); i++)
        wrong += seen[i] != times;
    CHECK_EQ(wrong, 0);
}

/* ---- 1. What it holds -------------------------------------------------------------------------------------------- */

static uint8_t room[1 << 18], other[1 << 18];

/* A field's bytes are these. */
static int field_is(const bzna_dataset *dataset, uint64_t i, const char *field, const void *bytes, uint64_t size)
{
    size_t needed = 0;
    if (bzna_dataset_field(dataset, i, field, room, sizeof room, &needed, NULL) != BZNA_OK)
        return 0;
    return needed == size && !memcmp(room, bytes, needed);
}

/* The bytes of the file that a sample of the piece lies in. */
static const uint8_t *bytes_at(const piece *p, const sample *s, uint64_t at)
{
    return (p->file.bytes ? p->file.bytes : s->coded->memory) + at;
}

static int is_provided(const piece *p)
{
    return p->form == &forms[PROVIDER] || p->form == &forms[RAW] || p->form == &forms[RAW_PIXELS];
}

/* Where its picture lies in its file. Of a provider, the test knows. */
static uint64_t picture_at(const piece *p, uint64_t local, const bzna_image_info *info)
{
    return is_provided(p) ? p->samples[local].at : info->data_offset;
}

/* Where the sample and its picture lie. Of what an archive's writer has written, the test knows how it begins. */
static void check_place(const row *r, uint64_t i, const bzna_sample_ref *place, const bzna_image_info *info)
{
    uint64_t local = i;
    const piece *p = row_piece(r, &local);
    const sample *s = &p->samples[local];
    CHECK_EQ(place->index, i);
    if (p->form == &forms[RAW] || p->form == &forms[RAW_PIXELS]) {
        const uint64_t begin = s->at - place->offset;       /* those in memory or of a source have no place */
        CHECK(begin < place->size || !place->offset);
        CHECK(info->data_offset >= place->offset &&
              info->data_offset + info->data_size <= place->offset + place->size);
        CHECK_EQ(info->data_size, s->coded->image.data_size);
    } else if (s->size) {
        CHECK_EQ(place->offset, s->offset);
        CHECK_EQ(place->size, s->size);
        CHECK_EQ(info->data_offset, s->at);
        CHECK_EQ(info->data_size, s->coded->image.data_size);
    } else if (!strcmp(p->form->container, "archive")) {
        CHECK(!memcmp(p->file.bytes + place->offset + 4, "ftyp", 4));
    } else {
        CHECK(place->offset == info->data_offset && place->size == info->data_size);
    }
    CHECK(info->data_offset >= place->offset && info->data_offset + info->data_size <= place->offset + place->size);
}

/* As the container says it, and as the sample is read. */
static void check_picture(const bzna_dataset *dataset, const row *r, uint64_t i)
{
    uint64_t local = i;
    const piece *p = row_piece(r, &local);
    const coded *c = p->samples[local].coded;
    bzna_sample_ref place = { .struct_size = sizeof place };
    bzna_image_info info = { .struct_size = sizeof info };
    bzna_image image = { .struct_size = sizeof image };
    size_t size = 0;
    CHECK_EQ(bzna_dataset_sample(dataset, i, &place, sizeof place, NULL), BZNA_OK);
    CHECK_EQ(place.target, p->samples[local].target);
    CHECK_EQ(bzna_dataset_image_info(dataset, i, "image", &info, sizeof info, NULL), BZNA_OK);
    CHECK(info.codec == c->image.codec && info.width == c->picture.width && info.height == c->picture.height);
    check_place(r, i, &place, &info);
    REQUIRE(bzna_dataset_read_image(dataset, i, "image", room, (size_t)place.size, &image, NULL) == BZNA_OK);
    CHECK(image.codec == c->image.codec && image.data_size == info.data_size &&
          image.config_size == c->image.config_size);
    CHECK(!image.config_size || !memcmp(image.config, c->image.config, (size_t)image.config_size));
    if (p->form != &forms[REC_SPLIT])
        CHECK(!memcmp(image.data, bytes_at(p, &p->samples[local], picture_at(p, local, &info)),
                      (size_t)image.data_size));
    REQUIRE(bzna_image_annexb(&c->image, other, sizeof other, &size, NULL) == BZNA_OK);
    CHECK(field_is(dataset, i, "image", other, size));
    if (c->image.codec >= BZNA_CODEC_JPEG)
        CHECK(size == c->image.data_size && !memcmp(other, c->memory, size));
}

static void check_info(const bzna_dataset *dataset, const row *r)
{
    bzna_dataset_info info = { .struct_size = sizeof info };
    bzna_field_info field = { .struct_size = sizeof field };
    char fields[BZI_LIMIT_FIELDS * BZNA_NAME_MAX] = "";
    uint64_t targets = 0, bytes = 0;
    uint32_t count = 0;
    REQUIRE(bzna_dataset_get_info(dataset, &info, sizeof info, NULL) == BZNA_OK);
    for (; count < PIECES && r->pieces[count]; count++)
        bytes += r->pieces[count]->form == &forms[PROVIDER] ? 0 : r->pieces[count]->file.size;
    for (uint64_t i = 0; i < row_count(r); i++)
        targets += row_sample(r, i)->target != BZNA_TARGET_NONE;
    CHECK(info.sample_count == row_count(r) && bzna_dataset_count(dataset) == row_count(r));
    CHECK_EQ(info.part_count, count);
    CHECK_EQ(info.target_count, targets);
    CHECK_EQ(info.size_bytes, bytes);
    CHECK_STR(info.container, r->pieces[0]->form->container);
    for (uint32_t i = 0; bzna_dataset_field_info(dataset, i, &field, sizeof field, NULL) == BZNA_OK; i++) {
        CHECK(i < info.field_count);
        snprintf(fields + strlen(fields), sizeof field.name + 1, "%s ", field.name);
    }
    CHECK(!strncmp(fields, r->pieces[0]->form->fields, strlen(r->pieces[0]->form->fields)));
    CHECK(count > 1 || !strcmp(fields, r->pieces[0]->form->fields));
}

TEST(a_data_set_holds_what_its_files_hold)
{
    EACH(r, way) {
        opened o;
        bzna_error err = { .struct_size = sizeof err };
        open_or_exit(context, r, way, &o);
        check_info(o.dataset, r);
        for (uint64_t i = 0; i < row_count(r); i++) {
            uint64_t local = i;
            const piece *p = row_piece(r, &local);
            const sample *s = &p->samples[local];
            int64_t target = 12345;
            CHECK(bzna_dataset_target(o.dataset, i, &target, NULL) == BZNA_OK && target == s->target);
            CHECK(!s->name[0] || field_is(o.dataset, i, "name", s->name, strlen(s->name) + 1));
            CHECK(field_is(o.dataset, i, p->form->extra, s->extra, s->extra_size));
            check_picture(o.dataset, r, i);
        }
        CHECK_EQ(bzna_dataset_field(o.dataset, row_count(r), "name", room, sizeof room, NULL, &err), BZNA_E_RANGE);
        CHECK_EQ(bzna_dataset_field(o.dataset, 0, "nothing", room, sizeof room, NULL, &err), BZNA_E_NOT_FOUND);
        CHECK_CONTAINS(err.message, "\"nothing\"");
        bzna_dataset_close(o.dataset);
        for (int i = 0; way == BY_SOURCE && i < PIECES && r->pieces[i]; i++)
            CHECK_EQ(o.sources[i].closes, r->pieces[i]->file.bytes != NULL);
    }
}

/* ---- 2. Order ---------------------------------------------------------------------------------------------------- */

/* A setting, and the kinds on which it has an effect. */
static const struct { const char *name, *kinds; } settings[] = {
    { "split", "archive, mp4 video" }, { "classes", "folder" },
    { "class_order", "folder" },       { "orientation", "folder, tar, archive, mp4 video, provider" },
    { "palette", "folder, tar, archive, provider" }, { "allow_empty", "folder" } };

TEST(a_setting_has_an_effect_or_is_refused_by_its_name)
{
    static const char *const classes[] = { "none" };
    for (size_t i = 0; i < COUNT(whole) * COUNT(settings); i++) {
        const piece *p = &whole[i / COUNT(settings)];
        const char *name = settings[i % COUNT(settings)].name, *kind = p->form->container;
        bzna_error e = { .struct_size = sizeof e };
        bzna_dataset_config config;
        bzna_dataset *dataset = NULL;
        char words[96];
        kind = strcmp(kind, "RecordIO") ? kind : "provider";
        if (!strcmp(kind, "records") || p->list[0])
            continue;                 /* they need one, which comes first */
        bzna_dataset_config_init(&config, sizeof config);
        config.split = strcmp(name, "split") ? NULL : "train";
        config.classes = strcmp(name, "classes") ? NULL : classes;
        config.class_count = config.classes != NULL;
        config.class_order = !strcmp(name, "class_order");
        config.allow_empty = !strcmp(name, "allow_empty");
        config.orientation = !strcmp(name, "orientation");
        config.palette = !strcmp(name, "palette");
        const bzna_status status = p->form == &forms[PROVIDER] ?
                                       provider_open(context, p, BY_PATH, NULL, &config, &dataset, &e) :
                                       bzna_dataset_open(context, p->path, &config, &dataset, &e);
        snprintf(words, sizeof words, "which is of kind %s", kind);
        const int lacks_classes = p->form == &forms[FLAT] && (config.class_order || config.allow_empty);
        CHECK_EQ(strstr(e.message, words) != NULL,
                 lacks_classes || strstr(settings[i % COUNT(settings)].kinds, kind) == NULL);
        CHECK(!strstr(e.message, words) || (status == BZNA_E_ARGUMENT && strstr(e.message, name) && !dataset));
        bzna_dataset_close(dataset);
    }
}

TEST(a_format_is_taken_by_its_name_alone)
{
    for (size_t i = 0; i < COUNT(whole); i++)
        for (size_t k = 0; k < COUNT(forms); k++) {
            const piece *p = &whole[i];
            const int same = !strcmp(p->form->container, forms[k].container);
            bzna_error e = { .struct_size = sizeof e };
            bzna_dataset_config config;
            bzna_dataset *dataset = NULL;
            bzna_dataset_config_init(&config, sizeof config);
            config.format = forms[k].container;
            if (!strcmp(p->form->container, "records"))
                continue;             /* other settings say that a file is of those */
            if (p->form == &forms[PROVIDER])
                provider_open(context, p, BY_PATH, NULL, &config, &dataset, &e);
            else
                bzna_formats_open(context, p->path, &(bzna_formats_config){ .struct_size = sizeof(bzna_formats_config),
                                                                            .dataset = &config,
                                                                            .list = p->list[0] ? p->list : NULL },
                                  &dataset, &e);
            CHECK_EQ(dataset != NULL, same);
            CHECK(same || e.status != BZNA_OK);
            bzna_dataset_close(dataset);
        }
}

TEST(an_epoch_has_each_sample_once_in_its_order_with_its_pixels)
{
    static const struct { uint32_t batch, threads, readers, order, no_threads; } ways[] = {
        { 7, 1, 1, BZNA_ORDER_SEQUENTIAL, 0 }, { 16, 4, 4, BZNA_ORDER_SHUFFLE, 0 }, { 1, 4, 1, BZNA_ORDER_SHUFFLE, 0 },
        { 60, 1, 4, BZNA_ORDER_SHUFFLE, 0 }, { 11, 4, 4, BZNA_ORDER_SHUFFLE, 1 } };
    EACH(r, way) {
        opened o;
        open_or_exit(context, r, way, &o);
        for (size_t i = 0; i < COUNT(ways); i++) {
            bzna_loader_config c = config_of(ways[i].batch, ways[i].order);
            uint8_t seen[SAMPLES] = { 0 };
            c.decode.threads = ways[i].threads;
            c.read.threads = ways[i].readers;
            c.pipeline.no_threads = ways[i].no_threads;
            c.order.epochs = i == 1 ? 2 : 1;
            CHECK_EQ(walk_all(&o, r, &c, seen),
                     c.order.epochs * ((row_count(r) + ways[i].batch - 1) / ways[i].batch));
            check_each_once(r, seen, (int)c.order.epochs);
        }
        bzna_dataset_close(o.dataset);
    }
}

/* ---- 3. Resuming ------------------------------------------------------------------------------------------------- */

/* The state after so many batches of a run of two epochs. */
static bzna_loader_state state_after(const row *r, int way, uint64_t batches, uint8_t *seen)
{
    bzna_loader_config c = config_of(7, BZNA_ORDER_SHUFFLE);
    bzna_loader_state state = { .struct_size = sizeof state };
    bzna_loader *loader;
    opened o;
    plan p;
    c.order.epochs = 2;
    p = plan_of(r, &c);
    p.seen = seen;
    open_or_exit(context, r, way, &o);
    loader = open_loader(context, &o, &c);
    CHECK_EQ(walk(loader, &p, batches), batches);
    CHECK_EQ(bzna_loader_save(loader, &state, sizeof state, NULL), BZNA_OK);
    bzna_loader_close(loader);
    bzna_dataset_close(o.dataset);
    return state;
}

/* Goes on from it with another seed in the config, other threads and batches, in each rank of a world. */
static void resume(const row *r, int way, const bzna_loader_state *state, uint32_t world, uint8_t *seen)
{
    opened o;
    open_or_exit(context, r, way, &o);
    for (uint32_t rank = 0; rank < world; rank++) {
        bzna_loader_config c = config_of(3 + 2 * world, BZNA_ORDER_SHUFFLE);
        bzna_loader *loader;
        bzna_error err = { .struct_size = sizeof err };
        plan p;
        c.decode.threads = 1 + world;
        c.read.threads = 4 - world;
        c.pipeline.no_threads = rank & 1;
        c.order.seed = 5;
        c.shard.rank = rank;
        c.shard.world_size = world;
        loader = open_loader(context, &o, &c);
        CHECK_EQ(bzna_loader_restore(loader, state, &err), BZNA_OK);
        CHECK_STR(err.message, "");
        p = plan_of(r, &c);
        p.c.order.seed = state->seed;
        p.epoch = state->epoch;
        p.position = state->position;
        p.seen = seen;
        walk(loader, &p, UINT64_MAX);
        bzna_loader_close(loader);
    }
    bzna_dataset_close(o.dataset);
}

/* By another way, too: what a data set is, its content says, and not where it came from. */
TEST(a_run_goes_on_after_any_batch_however_the_data_set_is_opened)
{
    for (const row *r = rows; r < rows + ROWS; r++) {
        const uint64_t an_epoch = (row_count(r) + 6) / 7;
        for (uint64_t batches = 0; batches <= an_epoch + 1; batches++) {
            const int from = (int)batches % row_ways(r), to = ((int)batches + 1) % row_ways(r);
            const int failures = test_failures;
            uint8_t seen[SAMPLES] = { 0 };
            bzna_loader_state state = state_after(r, from, batches, seen);
            CHECK_EQ(state.epoch, batches / an_epoch);
            CHECK_EQ(state.position, batches % an_epoch * 7);
            resume(r, to, &state, 1 + (uint32_t)batches % 3, seen);
            check_each_once(r, seen, 2);
            report(r, to, failures);
        }
    }
}

TEST(a_state_of_another_data_set_is_refused)
{
    bzna_loader_state states[ROWS];
    for (int i = 0; i < ROWS; i++)
        states[i] = state_after(&rows[i], 0, 2, NULL);
    EACH(r, way) {
        bzna_loader_config c = config_of(7, BZNA_ORDER_SHUFFLE);
        bzna_loader *loader;
        opened o;
        open_or_exit(context, r, way, &o);
        loader = open_loader(context, &o, &c);
        for (int i = 0; i < ROWS; i++) {
            bzna_error err = { .struct_size = sizeof err };
            const int same = rows[i].content == r->content;
            CHECK_EQ(bzna_loader_restore(loader, &states[i], &err), same ? BZNA_OK : BZNA_E_ARGUMENT);
            CHECK_CONTAINS(err.message, same ? "" : "state.fingerprint");
        }
        bzna_loader_close(loader);
        bzna_dataset_close(o.dataset);
    }
}

/* ---- 4. Worlds --------------------------------------------------------------------------------------------------- */

TEST(ranks_share_an_epoch_in_equally_many_batches)
{
    static const uint32_t worlds[] = { 1, 2, 3, 5 }, sizes[] = { 4, 11, 4, 4 };       /* 45 = 2 * 22 + 1 */
    static const uint32_t last[] = { BZNA_LAST_PAD, BZNA_LAST_PARTIAL, BZNA_LAST_PAD, BZNA_LAST_DROP };
    for (const row *r = rows; r < rows + ROWS; r++)
        for (size_t w = 0; w < COUNT(worlds); w++) {
            const int failures = test_failures, way = (int)w % row_ways(r);
            const uint64_t step = sizes[w] * worlds[w], count = row_count(r);
            const uint64_t batches = last[w] == BZNA_LAST_DROP ? count / step : (count + step - 1) / step;
            uint8_t seen[SAMPLES] = { 0 };
            uint64_t once = 0;
            opened o;
            open_or_exit(context, r, way, &o);
            for (uint32_t rank = 0; rank < worlds[w]; rank++) {
                bzna_loader_config c = config_of(sizes[w], BZNA_ORDER_SHUFFLE);
                c.order.last_batch = last[w];
                c.shard.rank = rank;
                c.shard.world_size = worlds[w];
                CHECK_EQ(walk_all(&o, r, &c, seen), batches);
            }
            for (uint64_t i = 0; i < count; i++) {
                CHECK(seen[i] <= 1);
                once += seen[i];
            }
            CHECK_EQ(once, last[w] == BZNA_LAST_DROP ? batches * step : count);
            bzna_dataset_close(o.dataset);
            report(r, way, failures);
        }
}

/* ---- Orders that are given --------------------------------------------------------------------------------------- */

/* Gives epochs 0 and 1 their lists, each of which has all samples, backwards. size: of batches; 0: none are given. */
static void give(bzna_loader *loader, const plan *p, uint32_t size)
{
    const uint64_t count = row_count(p->row), batches = size ? (count + size - 1) / size : 0;
    uint64_t indices[SAMPLES];
    uint32_t sizes[SAMPLES];
    for (uint64_t epoch = p->epoch; epoch < 2; epoch++) {
        for (uint64_t i = 0; i < count; i++) {
            indices[i] = plan_index(p, epoch, i);
            sizes[i] = (uint32_t)(size ? bzi_min(size, count - bzi_min(count, i * size)) : 0);
        }
        CHECK_EQ(size ? bzna_loader_set_batches(loader, epoch, indices, count, sizes, batches, NULL) :
                        bzna_loader_set_batches(loader, epoch, indices, count, NULL, 0, NULL),
                 BZNA_OK);
    }
}

/* Begun in one rank that was opened one way, and ended by so many that were opened another way. */
TEST(a_given_order_is_that_of_the_batches_and_a_run_goes_on_in_it_with_other_ranks)
{
    EACH(r, way) {
        bzna_loader_config c = config_of(7, BZNA_ORDER_GIVEN);
        bzna_loader_state state = { .struct_size = sizeof state };
        uint8_t seen[SAMPLES] = { 0 }, in_batches[SAMPLES] = { 0 };
        bzna_loader *loader;
        opened o;
        plan p;
        c.order.epochs = 2;
        open_or_exit(context, r, way, &o);
        loader = open_loader(context, &o, &c);
        p = plan_of(r, &c);
        p.seen = seen;
        give(loader, &p, 0);
        CHECK_EQ(walk(loader, &p, 2), 2);
        CHECK_EQ(bzna_loader_save(loader, &state, sizeof state, NULL), BZNA_OK);
        CHECK_EQ(bzna_loader_reset(loader, 0, NULL), BZNA_OK);
        p = plan_of(r, &c);
        p.seen = in_batches;
        p.c.output.batch_size = 4;
        give(loader, &p, 4);
        CHECK_EQ(walk(loader, &p, UINT64_MAX), 2 * ((row_count(r) + 3) / 4));
        bzna_loader_close(loader);
        bzna_dataset_close(o.dataset);

        open_or_exit(context, r, (way + 1) % row_ways(r), &o);
        for (uint32_t rank = 0; rank < 2; rank++) {
            c.output.batch_size = 5;
            c.shard.world_size = 2;
            c.shard.rank = rank;
            loader = open_loader(context, &o, &c);
            CHECK_EQ(bzna_loader_restore(loader, &state, NULL), BZNA_OK);
            p = plan_of(r, &c);
            p.position = state.position;
            p.seen = seen;
            give(loader, &p, 0);
            walk(loader, &p, UINT64_MAX);
            bzna_loader_close(loader);
        }
        bzna_dataset_close(o.dataset);
        check_each_once(r, seen, 2);
        check_each_once(r, in_batches, 2);
    }
}

/* ---- 5. Errors --------------------------------------------------------------------------------------------------- */

/* Writes over bytes of the file that holds a sample, in memory and on disk, and leaves its time as it was. */
static void overwrite(piece *p, uint64_t local, uint64_t at, const uint8_t *bytes, uint64_t size)
{
    const sample *s = &p->samples[local];
    struct timespec times[2];
    bzi_file file;
    char path[300];
    int fd;
    snprintf(path, sizeof path, "%s%s%s", p->path, p->file.bytes ? "" : "/", p->file.bytes ? "" : s->name);
    if (bzi_os_file_open(&file, path, 0))
        abort();
    bzi_os_file_close(&file);
    times[0] = times[1] = (struct timespec){ file.modified_ns / 1000000000, (long)(file.modified_ns % 1000000000) };
    fd = open(path, O_WRONLY);
    if (fd < 0 || pwrite(fd, bytes, (size_t)size, (off_t)at) != (ssize_t)size || close(fd) ||
        utimensat(AT_FDCWD, path, times, 0))
        abort();
    if (p->file.bytes)
        memcpy(p->file.bytes + at, bytes, (size_t)size);
}

static uint8_t destroyed[1 << 16];      /* what stood where a test has written */

/* So many bytes from `at` on become this one. */
static void destroy(piece *p, uint64_t local, uint64_t at, uint64_t size, uint8_t with)
{
    memcpy(destroyed, bytes_at(p, &p->samples[local], at), (size_t)size);
    memset(room, with, (size_t)size);
    overwrite(p, local, at, room, size);
}

static void heal(piece *p, uint64_t local, uint64_t at, uint64_t size) { overwrite(p, local, at, destroyed, size); }

/* What a decoder alone says of a sample. */
static bzna_status decoded_alone(const bzna_dataset *dataset, uint64_t index)
{
    static uint8_t bytes[1 << 16];
    bzna_image image = { .struct_size = sizeof image };
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_decoder *decoder = NULL;
    bzna_status status = bzna_dataset_read_image(dataset, index, "image", bytes, sizeof bytes, &image, NULL);
    require(bzna_decoder_open(context, &decoder, NULL), "decoder");
    if (status == BZNA_OK)
        status = bzna_decoder_decode(decoder, &image, &picture, NULL);
    bzna_decoder_close(decoder);
    return status;
}

/* By policy FILL and REPLACE, in a run over all samples; by STOP, the batches before it come, then always its error. */
static void check_failure(const opened *o, const row *r, uint64_t bad, bzna_status status)
{
    for (uint32_t i = 0; i < 6; i++) {                      /* each policy with threads and without */
        const uint32_t policy = BZNA_ON_ERROR_FILL + i / 2;
        const int stops = policy == BZNA_ON_ERROR_STOP;
        bzna_loader_config c = config_of(7, stops ? BZNA_ORDER_SEQUENTIAL : BZNA_ORDER_SHUFFLE);
        bzna_error err = { .struct_size = sizeof err };
        bzna_batch *batch = NULL;
        bzna_loader *loader;
        plan p;
        c.errors.on_error = policy;
        c.pipeline.no_threads = i % 2;
        c.fields.bytes = bytes_of(r);
        loader = open_loader(context, o, &c);
        p = plan_of(r, &c);
        p.bad = bad;
        p.bad_status = status;
        CHECK_EQ(walk(loader, &p, stops ? bad / 7 : UINT64_MAX), stops ? bad / 7 : (row_count(r) + 6) / 7);
        for (int again = 0; stops && again < 2; again++) {
            CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), status);
            CHECK(!batch && names_sample(r, bad, err.message));
        }
        bzna_loader_close(loader);
    }
}

/* A sample in the first piece, in the middle, in the last. */
static uint64_t bad_of(const row *r, int way) { return way == 0 ? 1 : way == 1 ? row_count(r) / 2 : row_count(r) - 2; }

/* All of it zeros: what is it? All but its first bytes 0xff: its decoder must see. */
TEST(a_damaged_picture_costs_its_own_slot)
{
    enum { BEGIN = 5 };
    EACH(r, way) {
        for (int with = 0; with <= 0xff && row_sample(r, 0)->coded->image.codec != BZNA_CODEC_RAW; with += 0xff) {
            const uint64_t bad = bad_of(r, way);
            uint64_t local = bad;
            piece *p = row_piece(r, &local);
            bzna_image_info info = { .struct_size = sizeof info };
            bzna_status status;
            opened o;
            open_or_exit(context, r, way, &o);
            REQUIRE(bzna_dataset_image_info(o.dataset, bad, "image", &info, sizeof info, NULL) == BZNA_OK);
            bzna_dataset_close(o.dataset);
            if (p->form == &forms[REC_SPLIT])
                info.data_size = 8;                         /* the record stays one */
            info.data_offset = picture_at(p, local, &info);
            info.data_offset += with ? BEGIN : 0;
            info.data_size -= with ? BEGIN : 0;
            destroy(p, local, info.data_offset, info.data_size, (uint8_t)with);
            open_or_exit(context, r, way, &o);
            status = decoded_alone(o.dataset, bad);
            CHECK(status <= BZNA_E_FORMAT);
            check_failure(&o, r, bad, status);
            bzna_dataset_close(o.dataset);
            heal(p, local, info.data_offset, info.data_size);
        }
    }
}

/* What is not read again is not missed, but the name in it. */
TEST(a_header_that_is_lost_after_opening_costs_its_own_slot)
{
    EACH(r, way) {
        uint64_t bad = bad_of(r, 1), local = bad;
        piece *p = row_piece(r, &local);
        const sample *s = &p->samples[local];
        const bzna_status lost = p->form == &forms[TAR_IDX] && way != BY_PATH ? BZNA_OK : p->form->lost_header;
        opened o;
        if (!p->form->header_bytes || way == BY_MEMORY)
            continue;                                       /* memory must stay as it is */
        open_or_exit(context, r, way, &o);
        destroy(p, local, s->at - p->form->header_bytes, 8, 0xff);
        CHECK_EQ(bzna_dataset_field(o.dataset, bad, p->form->extra, room, sizeof room, NULL, NULL),
                 lost == BZNA_E_FORMAT ? BZNA_E_FORMAT : BZNA_OK);
        CHECK_EQ(decoded_alone(o.dataset, bad), lost);
        check_failure(&o, r, bad, lost ? lost : BZNA_E_BOX);
        heal(p, local, s->at - p->form->header_bytes, 8);
        bzna_dataset_close(o.dataset);
    }
}

TEST(a_file_that_is_deleted_costs_its_own_slot)
{
    EACH(r, way) {
        uint64_t bad = bad_of(r, 2), local = bad;
        const piece *p = row_piece(r, &local);
        const sample *s = &p->samples[local];
        char path[300];
        opened o;
        if (p->file.bytes)
            continue;
        snprintf(path, sizeof path, "%s/%s", p->path, s->name);
        open_or_exit(context, r, way, &o);
        CHECK(!remove(path));
        check_failure(&o, r, bad, BZNA_E_IO);
        spill(path, "", 0);
        check_failure(&o, r, bad, BZNA_E_FORMAT);
        bzna_dataset_close(o.dataset);                      /* which may hold what it has read */
        spill(path, s->coded->memory, s->coded->image.data_size);
        open_or_exit(context, r, way, &o);
        CHECK_EQ(decoded_alone(o.dataset, bad), BZNA_OK);
        bzna_dataset_close(o.dataset);
    }
}

/* A loader of which one sample's read fails so many times; -1: always. */
static bzna_statistics walk_with_fault(const row *r, opened *o, int64_t times, uint32_t retries, bzna_status status)
{
    const uint64_t bad = bad_of(r, 1);
    bzna_loader_config c = config_of(7, BZNA_ORDER_SHUFFLE);
    bzna_statistics stats = { .struct_size = sizeof stats };
    bzna_image_info info = { .struct_size = sizeof info };
    bzna_loader *loader;
    uint64_t local = bad;
    memory *m = &o->sources[row_part(r, &local)];
    plan p;
    CHECK_EQ(bzna_dataset_image_info(o->dataset, bad, "image", &info, sizeof info, NULL), BZNA_OK);
    info.data_offset = picture_at(row_piece(r, &(uint64_t){ bad }), local, &info);
    m->faults[0] = (fault){ .from = info.data_offset + 4, .to = info.data_offset + 8, .result = -5, .left = times };
    m->fault_count = 1;
    c.read.retries = retries;
    c.read.backoff_ns = 100000;
    c.pipeline.no_threads = times > 0;
    c.fields.bytes = bytes_of(r);
    loader = open_loader(context, o, &c);
    p = plan_of(r, &c);
    p.bad = status == BZNA_OK ? UINT64_MAX : bad;
    p.bad_status = status;
    CHECK_EQ(walk(loader, &p, UINT64_MAX), (row_count(r) + 6) / 7);
    bzna_loader_statistics(loader, &stats, sizeof stats, NULL);
    bzna_loader_close(loader);
    m->fault_count = 0;
    return stats;
}

TEST(a_source_that_fails_costs_its_own_slot_unless_it_is_tried_again)
{
    EACH(r, way) {
        bzna_statistics stats;
        opened o;
        if (way != BY_SOURCE)
            continue;
        open_or_exit(context, r, way, &o);
        stats = walk_with_fault(r, &o, -1, 0, BZNA_E_IO);
        CHECK(stats.retries == 0 && stats.failed_read == 1);
        stats = walk_with_fault(r, &o, -1, 2, BZNA_E_IO);
        CHECK(stats.retries == 2 && stats.failed_read == 1);
        stats = walk_with_fault(r, &o, 2, 2, BZNA_OK);
        CHECK(stats.retries == 2 && stats.samples_failed == 0);
        bzna_dataset_close(o.dataset);
    }
}

/* ---- 6. Stopping ------------------------------------------------------------------------------------------------- */

static bzna_context *open_context(const bzna_allocator *allocator)
{
    bzna_context_config config;
    bzna_context *own = NULL;
    bzna_context_config_init(&config, sizeof config);
    config.allocator = *allocator;
    require(bzna_context_open(&config, &own, NULL), "context");
    return own;
}

static void set_blocked(opened *o, int blocked)
{
    for (int i = 0; i < PIECES; i++)
        o->sources[i].blocked = blocked;
}

static void *unblock_soon(void *o)
{
    sleep_us(3000);
    set_blocked(o, 0);
    return NULL;
}

static int64_t reads_inside(const opened *o)
{
    int64_t inside = 0;
    for (int i = 0; i < PIECES; i++)
        inside += o->sources[i].inside;
    return inside;
}

/* Nothing but a callback that does not return holds up a stop, and that not either. */
static void check_stop(opened *o, bzna_loader *loader, int way)
{
    bzna_batch *batch = NULL;
    waiter w;
    if (way == BY_SOURCE) {
        waiter_start(&w, loader);
        WAIT_FOR(reads_inside(o) > 0);
        CHECK_EQ(bzna_loader_stop(loader, NULL), BZNA_OK);
        pthread_join(w.thread, NULL);
        CHECK(w.status == BZNA_E_STOPPED && !w.batch && reads_inside(o) > 0);
    }
    CHECK_EQ(bzna_loader_stop(loader, NULL), BZNA_OK);
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_E_STOPPED);
}

TEST(stop_reset_and_close_end_what_a_blocked_source_holds_up)
{
    EACH(r, way) {
        bzna_loader_config c = config_of(7, BZNA_ORDER_SHUFFLE);
        bzna_batch *batch = NULL;
        bzna_loader *loader;
        pthread_t helper;
        bzna_context *own;
        ledger l;
        opened o;
        plan p, again;
        bzna_allocator allocator = ledger_allocator(&l);
        own = open_context(&allocator);
        open_or_exit(own, r, way, &o);
        c.order.epochs = BZNA_EPOCHS_ENDLESS;
        c.fields.bytes = bytes_of(r);
        p = plan_of(r, &c);
        p.epoch = 3;
        set_blocked(&o, 1);
        loader = open_loader(own, &o, &c);
        check_stop(&o, loader, way);
        pthread_create(&helper, NULL, unblock_soon, &o);
        CHECK_EQ(bzna_loader_reset(loader, 3, NULL), BZNA_OK);
        pthread_join(helper, NULL);
        again = p;
        REQUIRE(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK);
        check_batch(&p, batch);
        set_blocked(&o, 1);
        pthread_create(&helper, NULL, unblock_soon, &o);
        CHECK_EQ(bzna_loader_close(loader), BZNA_OK);
        pthread_join(helper, NULL);
        CHECK_EQ(reads_inside(&o), 0);
        bzna_dataset_close(o.dataset);
        bzna_context_close(own);
        for (int i = 0; i < PIECES && r->pieces[i]; i++)
            CHECK_EQ(o.sources[i].closes, way == BY_SOURCE && r->pieces[i]->file.bytes);
        check_batch(&again, batch);
        bzna_batch_release(batch);
        check_settled(&l);
    }
}

/* At moments that differ from round to round. */
TEST(stop_reset_and_close_are_safe_at_any_moment)
{
    EACH(r, way) {
        for (int round = 0; round < 6; round++) {
            bzna_loader_config c = config_of(7, BZNA_ORDER_SHUFFLE);
            bzna_batch *batch = NULL;
            bzna_loader *loader;
            bzna_context *own;
            ledger l;
            opened o;
            plan p = plan_of(r, &c);
            bzna_allocator allocator = ledger_allocator(&l);
            own = open_context(&allocator);
            open_or_exit(own, r, way, &o);
            for (int i = 0; i < PIECES; i++)
                o.sources[i].jitter_us = 900;
            loader = open_loader(own, &o, &c);
            sleep_us(round * 250);
            if (round % 3 == 1)
                bzna_loader_stop(loader, NULL);
            if (round % 3) {
                CHECK_EQ(bzna_loader_reset(loader, 0, NULL), BZNA_OK);
                walk(loader, &p, (uint64_t)round % 2);
                CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_OK);
            }
            bzna_loader_close(loader);
            bzna_dataset_close(o.dataset);
            bzna_context_close(own);
            if (batch)
                check_batch(&p, batch);
            bzna_batch_release(batch);
            check_settled(&l);
        }
    }
}

/* ---- 7. Steady state --------------------------------------------------------------------------------------------- */

static atomic_int gate_open;

/* The decoder waits here until every item of the loader has been read into once. */
static bzna_status gate(void *user, const bzna_sample_info *info, bzna_random *random, bzna_transform *transform)
{
    (void)user;
    (void)info;
    (void)random;
    (void)transform;
    while (!gate_open)
        sleep_us(200);
    return BZNA_OK;
}

static bzna_stage_statistics read_stats(bzna_loader *loader)
{
    bzna_statistics stats = { .struct_size = sizeof stats };
    bzna_loader_statistics(loader, &stats, sizeof stats, NULL);
    return stats.stage[BZNA_STAGE_READ];
}

/* Takes so many batches, and gives them back together. */
static void take_together(bzna_loader *loader, int n)
{
    bzna_batch *batches[3] = { NULL };
    for (int i = 0; i < n; i++)
        CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batches[i], NULL), BZNA_OK);
    for (int i = 0; i < n; i++) {
        CHECK_EQ(info_of(batches[i]).failed, 0);
        CHECK_EQ(bzna_batch_release(batches[i]), BZNA_OK);
    }
}

/* All slots and decoders have been used once; all samples of a form need memory of one size. Any empty entry may be
 * used next, so each may still have to grow once, and of several forms each slot, too. */
TEST(in_steady_state_no_sample_costs_an_allocation)
{
    EACH(r, way) {
        const int mixed = r->pieces[1] && !r->several;
        bzna_loader_config c = config_of(15, BZNA_ORDER_SHUFFLE);
        bzna_loader *loader;
        bzna_context *own;
        int64_t calls;
        ledger l;
        opened o;
        bzna_allocator allocator = ledger_allocator(&l);
        own = open_context(&allocator);
        open_or_exit(own, r, way, &o);
        c.order.epochs = BZNA_EPOCHS_ENDLESS;
        c.pipeline.transform = gate;
        c.decode.threads = 1;                               /* it meets each kind of picture soon */
        c.read.threads = c.read.ahead_samples = 1;          /* one item is read ahead, one decoded */
        c.fields.bytes = bytes_of(r);
        gate_open = 0;
        loader = open_loader(own, &o, &c);
        WAIT_FOR(read_stats(loader).count >= 2);
        gate_open = 1;
        take_together(loader, 3);
        for (int i = 0; i < 3; i++)
            take_together(loader, 1);
        calls = l.calls;
        for (int i = 0; i < (mixed ? 18 : 6); i++)
            take_together(loader, 1);
        calls = l.calls - calls;
        CHECK_EQ(calls > (int64_t)read_stats(loader).capacity + (mixed ? 45 : 0) ? calls : 0, 0);
        bzna_loader_close(loader);
        bzna_dataset_close(o.dataset);
        bzna_context_close(own);
        check_settled(&l);
    }
}

/* ---- 8. Memory that runs out ------------------------------------------------------------------------------------- */

/* Fails one allocation, on whichever thread. */
typedef struct shortage {
    ledger          l;
    _Atomic int64_t left;             /* this one from now; 0: none */
} shortage;

static void *shortage_alloc(void *user, size_t size, size_t align)
{
    shortage *s = user;
    return s->left > 0 && atomic_fetch_sub(&s->left, 1) == 1 ? NULL : ledger_alloc(&s->l, size, align);
}

static void shortage_release(void *user, void *p, size_t size) { ledger_release(&((shortage *)user)->l, p, size); }

static bzna_context *open_short(shortage *s)
{
    const bzna_allocator allocator = { s, shortage_alloc, shortage_release };
    s->left = 0;
    ledger_allocator(&s->l);
    return open_context(&allocator);
}

/* Returns whether it is over: nothing failed. What failed did so cleanly. */
static int ran_out(shortage *s, bzna_status status, const bzna_error *err, int64_t blocks)
{
    s->left = 0;
    if (status == BZNA_OK)
        return 0;
    CHECK_EQ(status, BZNA_E_MEMORY);
    CHECK_CONTAINS(err->message, "out of memory");
    CHECK_EQ(s->l.blocks, blocks);
    return status == BZNA_E_MEMORY;
}

TEST(every_allocation_of_opening_may_fail)
{
    EACH(r, way) {
        shortage s;
        bzna_context *own = open_short(&s);
        const int64_t blocks = s.l.blocks;
        bzna_error err = { .struct_size = sizeof err };
        bzna_status status;
        int n = 0;
        opened o;
        do {
            s.left = ++n;
            status = row_open(own, r, way, &o, &err);
            CHECK((o.dataset != NULL) == (status == BZNA_OK));
            for (int i = 0; i < PIECES && status != BZNA_OK; i++)
                CHECK(o.sources[i].closes <= 1);
            if (status == BZNA_OK)
                check_info(o.dataset, r);
        } while (ran_out(&s, status, &err, blocks) && n < 1000);
        CHECK(n > 4);
        bzna_dataset_close(o.dataset);
        bzna_context_close(own);
        check_settled(&s.l);
    }
}

/* One call that looks into a sample. */
static bzna_status look(const bzna_dataset *dataset, const row *r, uint64_t i, int which, bzna_error *err)
{
    uint64_t local = i;
    const char *extra = row_piece(r, &local)->form->extra;
    bzna_sample_ref place = { .struct_size = sizeof place };
    bzna_image_info info = { .struct_size = sizeof info };
    bzna_image image = { .struct_size = sizeof image };
    const char *name = row_sample(r, i)->name[0] ? "name" : "target";
    int64_t target;
    return which == 0 ? bzna_dataset_field(dataset, i, name, room, sizeof room, NULL, err) :
           which == 1 ? bzna_dataset_field(dataset, i, "image", room, sizeof room, NULL, err) :
           which == 2 ? bzna_dataset_field(dataset, i, extra, room, sizeof room, NULL, err) :
           which == 3 ? bzna_dataset_sample(dataset, i, &place, sizeof place, err) :
           which == 4 ? bzna_dataset_image_info(dataset, i, NULL, &info, sizeof info, err) :
           which == 5 ? bzna_dataset_read_image(dataset, i, NULL, room, sizeof room, &image, err) :
                        bzna_dataset_target(dataset, i, &target, err);
}

TEST(every_allocation_of_a_look_at_a_sample_may_fail)
{
    EACH(r, way) {
        const uint64_t i = bad_of(r, way);
        shortage s;
        bzna_context *own = open_short(&s);
        opened o;
        open_or_exit(own, r, way, &o);
        for (int which = 0; which < 7; which++) {
            const int64_t blocks = s.l.blocks;
            bzna_error err = { .struct_size = sizeof err };
            bzna_status status;
            int n = 0;
            do {
                s.left = ++n;
                status = look(o.dataset, r, i, which, &err);
                CHECK(status == BZNA_OK || names_sample(r, i, err.message));
            } while (ran_out(&s, status, &err, blocks) && n < 100);
            CHECK_EQ(s.l.blocks, blocks);
        }
        bzna_dataset_close(o.dataset);
        bzna_context_close(own);
        check_settled(&s.l);
    }
}

/* On the thread that opens: what others cannot allocate fails samples. */
TEST(every_allocation_of_a_loader_may_fail)
{
    EACH(r, way) {
        bzna_loader_config c = config_of(7, BZNA_ORDER_SHUFFLE);
        bzna_loader *loader = NULL;
        bzna_context *own;
        int64_t blocks;
        int n = 0;
        ledger l;
        opened o;
        bzna_status status;
        bzna_allocator allocator = ledger_allocator(&l);
        own = open_context(&allocator);
        open_or_exit(own, r, way, &o);
        blocks = l.blocks;
        c.fields.bytes = bytes_of(r);
        c.fields.tensors = r->pieces[0]->form->tensors;
        do {
            bzna_error err = { .struct_size = sizeof err };
            l.fail_at = ++n;
            status = bzna_loader_open(own, o.dataset, &c, &loader, &err);
            l.fail_at = 0;
            CHECK(status == BZNA_OK || status == BZNA_E_MEMORY);
            CHECK(status == BZNA_OK || (!loader && l.blocks == blocks));
        } while (status == BZNA_E_MEMORY && n < 200);
        CHECK(n > 10);
        if (loader) {
            plan p = plan_of(r, &c);
            walk(loader, &p, UINT64_MAX);
        }
        bzna_loader_close(loader);
        bzna_dataset_close(o.dataset);
        bzna_context_close(own);
        check_settled(&l);
    }
}

/* ---- 9. Fields --------------------------------------------------------------------------------------------------- */

/* A number of a tensor, as the sample's target or name says it. */
static void check_number(const row *r, const bzna_batch *batch, const char *name, uint32_t slot, uint64_t index)
{
    const piece *p = row_piece(r, &index);
    const sample *s = &p->samples[index];
    bzna_tensor tensor = { .struct_size = sizeof tensor };
    const int64_t expected = p->form->container[0] != 't' && !strcmp(name, "cls") ? BZNA_TARGET_NONE :
                             !strcmp(name, "id") ? atoll(s->name) : s->target;
    REQUIRE(bzna_batch_tensor(batch, name, &tensor, sizeof tensor, NULL) == BZNA_OK);
    if (!strcmp(name, "label"))
        CHECK(tensor.dtype == BZNA_DTYPE_FLOAT32 && ((const float *)tensor.data)[slot] == (float)expected);
    else
        CHECK(tensor.dtype == BZNA_DTYPE_INT64 && ((const int64_t *)tensor.data)[slot] == expected);
}

static void check_coded(const row *r, const bzna_batch *batch, uint32_t slot, uint64_t index)
{
    const coded *c = row_sample(r, index)->coded;
    size_t size = 0;
    REQUIRE(bzna_image_annexb(&c->image, other, sizeof other, &size, NULL) == BZNA_OK);
    CHECK(bytes_are(batch, "image", slot, other, size));
}

TEST(batches_carry_the_fields_of_their_samples)
{
    static const char *const numbers[] = { "label", "id", "cls" };
    EACH(r, way) {
        bzna_loader_config c = config_of(7, BZNA_ORDER_SHUFFLE);
        bzna_batch *batch = NULL;
        bzna_loader *loader;
        char bytes[80];
        opened o;
        plan p;
        open_or_exit(context, r, way, &o);
        snprintf(bytes, sizeof bytes, "image,%s", bytes_of(r));
        c.fields.bytes = bytes;
        c.fields.tensors = r->pieces[1] ? "cls" : r->pieces[0]->form->tensors;
        c.order.last_batch = BZNA_LAST_PAD;
        loader = open_loader(context, &o, &c);
        p = plan_of(r, &c);
        while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
            const bzna_batch_info info = info_of(batch);
            check_batch(&p, batch);
            for (uint32_t slot = 0; slot < c.output.batch_size; slot++) {
                check_coded(r, batch, slot, info.indices[slot]);
                for (size_t i = 0; i < COUNT(numbers) && c.fields.tensors; i++)
                    if (strstr(c.fields.tensors, numbers[i]))
                        check_number(r, batch, numbers[i], slot, info.indices[slot]);
            }
            bzna_batch_release(batch);
        }
        CHECK(p.position >= row_count(r));
        bzna_loader_close(loader);
        bzna_dataset_close(o.dataset);
    }
}

/* Rows are the bytes of the field. The picture's size is the drawn geometry's. */
static bzna_status copy_bytes(void *user, const bzna_rule_input *input, void *out, uint64_t out_bytes, uint64_t *count)
{
    (void)user;
    if (input->size > out_bytes || input->view_count != 1 || input->geometry->width != input->sample->width ||
        input->geometry->height != input->sample->height)
        return BZNA_E_CALLBACK;
    memcpy(out, input->data, (size_t)input->size);
    *count = input->size;
    return BZNA_OK;
}

TEST(rules_are_given_the_fields_of_every_kind)
{
    EACH(r, way) {
        const char *const extra = row_extra(r);
        const bzna_rule rule = { .struct_size = sizeof rule, .kind = BZNA_RULE_ROWS, .field = extra, .name = "made",
                                 .call = copy_bytes, .dtype = BZNA_DTYPE_UINT8, .dimensions = 1, .shape = { 40 } };
        bzna_loader_config c = config_of(7, BZNA_ORDER_SHUFFLE), ruled = c;
        bzna_batch *batch = NULL;
        bzna_loader *loader;
        bzna_rules *rules;
        bzna_tensor made, counts;
        opened o;
        plan p;
        open_or_exit(context, r, way, &o);
        require(bzna_formats_rules_open(o.dataset, &rule, 1, &ruled, &rules, NULL), "rules");
        loader = open_loader(context, &o, &ruled);
        p = plan_of(r, &c);
        while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
            const bzna_batch_info info = info_of(batch);
            check_batch(&p, batch);
            require(bzna_batch_tensor(batch, "made", &made, sizeof made, NULL), "made");
            require(bzna_batch_tensor(batch, "made_count", &counts, sizeof counts, NULL), "made_count");
            for (uint32_t slot = 0; slot < info.count; slot++) {
                const sample *s = row_sample(r, info.indices[slot]);
                const uint8_t *got = (const uint8_t *)made.data + slot * 40;
                uint64_t index = info.indices[slot];
                char word[40];
                uint64_t size;
                snprintf(word, sizeof word, "%s ", extra);
                size = strstr(row_piece(r, &index)->form->fields, word) ? s->extra_size - !strcmp(extra, "name") : 0;
                CHECK_EQ(((const int64_t *)counts.data)[slot], (int64_t)size);
                CHECK(!memcmp(got, s->extra, (size_t)size) && bzi_is_zero(got + size, 40 - size));
            }
            bzna_batch_release(batch);
        }
        CHECK(p.position >= row_count(r));
        bzna_loader_close(loader);
        bzna_formats_rules_close(rules);
        bzna_dataset_close(o.dataset);
    }
}

/* ---- 10. Two at once --------------------------------------------------------------------------------------------- */

typedef struct other_loader {
    const opened *o;
    const row    *row;
    const char   *bytes;
    uint8_t       seen[SAMPLES];
} other_loader;

static void *other_walk(void *argument)
{
    other_loader *w = argument;
    bzna_loader_config c = config_of(4, BZNA_ORDER_SHUFFLE);
    c.order.seed = 9;
    c.order.epochs = 2;
    c.fields.bytes = w->bytes;
    walk_all(w->o, w->row, &c, w->seen);
    return NULL;
}

TEST(two_loaders_at_once_give_what_each_gives_alone)
{
    EACH(r, way) {
        bzna_loader_config c = config_of(7, BZNA_ORDER_SHUFFLE);
        opened o;
        other_loader w = { &o, r, bytes_of(r), { 0 } };
        uint8_t seen[SAMPLES] = { 0 };
        pthread_t thread;
        open_or_exit(context, r, way, &o);
        c.order.epochs = 2;
        pthread_create(&thread, NULL, other_walk, &w);
        walk_all(&o, r, &c, seen);
        pthread_join(thread, NULL);
        check_each_once(r, seen, 2);
        check_each_once(r, w.seen, 2);
        bzna_dataset_close(o.dataset);
    }
}

/* ---- Preparing --------------------------------------------------------------------------------------------------- */

static void pieces_make(piece *pieces, size_t count)
{
    for (piece *p = pieces; p < pieces + count; p++) {
        snprintf(p->path, sizeof p->path, "%s/%s", TOP, p->name);
        p->form->make(p);
    }
}

static void prepare(void)
{
    if (system("rm -rf '" TOP "' && mkdir -p '" TOP "'")) {
        printf("cannot prepare %s\n", TOP);
        exit(1);
    }
    alarm(SLOWED(300, 1200));                               /* what hangs has failed */
    require(bzna_context_open(NULL, &context, NULL), "context");
    pictures_make();
    pieces_make(whole, COUNT(whole));
    pieces_make(parts, COUNT(parts));
    pieces_make(&paired, 1);
}

TEST_MAIN(
    prepare();
    RUN(a_data_set_holds_what_its_files_hold)
    RUN(a_setting_has_an_effect_or_is_refused_by_its_name)
    RUN(a_format_is_taken_by_its_name_alone)
    RUN(an_epoch_has_each_sample_once_in_its_order_with_its_pixels)
    RUN(a_run_goes_on_after_any_batch_however_the_data_set_is_opened)
    RUN(a_state_of_another_data_set_is_refused)
    RUN(ranks_share_an_epoch_in_equally_many_batches)
    RUN(a_given_order_is_that_of_the_batches_and_a_run_goes_on_in_it_with_other_ranks)
    RUN(a_damaged_picture_costs_its_own_slot)
    RUN(a_header_that_is_lost_after_opening_costs_its_own_slot)
    RUN(a_file_that_is_deleted_costs_its_own_slot)
    RUN(a_source_that_fails_costs_its_own_slot_unless_it_is_tried_again)
    RUN(stop_reset_and_close_end_what_a_blocked_source_holds_up)
    RUN(stop_reset_and_close_are_safe_at_any_moment)
    RUN(in_steady_state_no_sample_costs_an_allocation)
    RUN(every_allocation_of_opening_may_fail)
    RUN(every_allocation_of_a_look_at_a_sample_may_fail)
    RUN(every_allocation_of_a_loader_may_fail)
    RUN(batches_carry_the_fields_of_their_samples)
    RUN(rules_are_given_the_fields_of_every_kind)
    RUN(two_loaders_at_once_give_what_each_gives_alone)
    bzna_context_close(context);
)
#endif
