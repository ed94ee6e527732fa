/* test_outputs.c - several views of a sample, and several outputs of one decode: other sizes and types of the same
 * picture, other pictures of the same sample.
 *
 * The oracle is the library's pure half, one picture at a time: a view must hold, to the bit, what bzna_picture_render
 * makes of its picture with the random numbers that the header promises. */
#include "library.h"
#include "with_formats.h"
#include "test.h"
#ifdef TEST_NVDEC
#  include "../fake/nvdec.h"
#else
#  define TEST_NVDEC 0
#endif

#ifdef BENZINA_NO_AVCODEC
TEST(outputs_are_delivered) { SKIP("built without libavcodec [libavcodec-dev]"); }
TEST_MAIN(RUN(outputs_are_delivered))
#else

#include "archives.h"
#include "tars.h"

enum { SAMPLES = 7, BATCH = 3, EXTRAS = 4, FIELDS = 4 };

static bzna_context *context;
static bzna_dataset *tars, *archives; /* of SAMPLES each */
static const char *const fields[FIELDS] = { "jpg", "seg.png", "left.ppm", "right.ppm" };
static coded known[FIELDS][SAMPLES], thumbs[SAMPLES];       /* decoded: of the tar, of the archive */
static tar shard;
static archive mixed;
static memory mixed_memory;

/* ---- Data sets ---- */

static uint8_t *file_of(const char *name, size_t *size)
{
    char path[128];
    uint8_t *bytes = take_memory(1 << 18);
    FILE *file;
    snprintf(path, sizeof path, "tests/data/pictures/%s", name);
    file = fopen(path, "rb");
    if (!file) {
        printf("cannot prepare: %s\n", path);
        exit(1);
    }
    *size = fread(bytes, 1, 1 << 18, file);
    fclose(file);
    return bytes;
}

/* A picture whose brightness says how far to the right and down a point is, whatever the size. */
static void add_ramp(tar *t, const char *name, unsigned width, unsigned height)
{
    uint8_t *bytes = take_memory(64 + 3 * (size_t)width * height);
    size_t size = (size_t)snprintf((char *)bytes, 64, "P6\n%u %u\n255\n", width, height);
    for (unsigned y = 0; y < height; y++)
        for (unsigned x = 0; x < width; x++, size += 3) {
            bytes[size] = (uint8_t)lround(240 * (x + 0.5) / width);
            bytes[size + 1] = (uint8_t)lround(240 * (y + 0.5) / height);
            bytes[size + 2] = 77;
        }
    tar_file(t, name, bytes, size);
    free(bytes);
}

static void tars_make(void)
{
    static const char *const pictures[] = { "jpeg_420_progressive.jpg", "jpeg_411.jpg", "jpeg_exif_6.jpg",
                                            "jpeg_gray_progressive.jpg", "jpeg_440.jpg" };
    bzna_dataset_config config;
    bzna_decoder *decoder = NULL;
    for (unsigned i = 0; i < SAMPLES; i++) {
        size_t size, mask_size;
        uint8_t *bytes = file_of(pictures[i % COUNT(pictures)], &size);
        uint8_t *mask = file_of("png_palette_2.png", &mask_size);
        char name[32];
        snprintf(name, sizeof name, "%u.jpg", i);
        tar_file(&shard, name, bytes, size);
        snprintf(name, sizeof name, "%u.seg.png", i);
        tar_file(&shard, name, mask, mask_size);
        snprintf(name, sizeof name, "%u.left.ppm", i);
        add_ramp(&shard, name, 64, 48);
        snprintf(name, sizeof name, "%u.right.ppm", i);
        add_ramp(&shard, name, i % 2 ? 64 : 32, i % 2 ? 48 : 96);
        snprintf(name, sizeof name, "%u.cls", i);
        tar_text(&shard, name, "5");
        free(bytes);
        free(mask);
    }
    tar_end(&shard);
    bzna_dataset_config_init(&config, sizeof config);
    config.palette = BZNA_PALETTE_INDEX;
    require(bzna_dataset_open_memory(context, shard.bytes, shard.size, &config, &tars, NULL), "tar");
    require(bzna_decoder_open(context, &decoder, NULL), "decoder");
    for (unsigned f = 0; f < FIELDS; f++)
        for (unsigned i = 0; i < SAMPLES; i++) {
            coded *c = &known[f][i];
            c->memory = take_memory(shard.size);
            c->image.struct_size = sizeof c->image;
            require(bzna_dataset_read_image(tars, i, fields[f], c->memory, shard.size, &c->image, NULL), "image");
            coded_decode(c, decoder, &c->image);
        }
    bzna_decoder_close(decoder);
}

static void archives_make(void)
{
    static const int pattern[] = { 0, 1, 2, 3, 4, 5, 6 };
    const recipe r = { .count = SAMPLES, .pictures = thumbs, .pattern = pattern, .pattern_count = SAMPLES, .base = 3,
                       .step = 1 };
    bzna_decoder *decoder = NULL;
    require(bzna_decoder_open(context, &decoder, NULL), "decoder");
    for (unsigned i = 0; i < SAMPLES; i++) {
        thumbs[i] = coded_load(context, 1 + i % 2, i, NULL);
        coded_decode(&thumbs[i], decoder, &thumbs[i].image);
    }
    bzna_decoder_close(decoder);
    mixed = archive_build(context, &r);
    archives = open_split(context, &mixed_memory, &mixed, NULL);
}

/* ---- The model ---- */

/* A further output, with its own settings where own_... is 1. */
typedef struct extra {
    uint32_t           own_warp, own_filter, own_color;
    uint32_t           width, height, dtype, layout, channels, views;
    const char        *name, *field;
    bzna_warp          warp;
    bzna_loader_filter filter;
    bzna_loader_color  color;
    bzna_loader_output first;         /* what may be given in the first output alone */
} extra;

typedef struct plan {
    bzna_dataset       *dataset;
    bzna_loader_config  c;
    extra               extra[EXTRAS];
    bzna_loader_output  outputs[EXTRAS];
} plan;

/* Says in outputs what extra says. */
static void plan_fill(plan *p)
{
    for (int i = 0; i < EXTRAS; i++) {
        const extra *e = &p->extra[i];
        bzna_loader_output *o = &p->outputs[i];
        *o = e->first;
        o->width = e->width;
        o->height = e->height;
        o->dtype = e->dtype;
        o->layout = e->layout;
        o->channels = e->channels;
        o->views = e->views;
        o->name = e->name;
        o->field = e->field;
        o->warp = e->own_warp ? &e->warp : NULL;
        o->filter = e->own_filter ? &e->filter : NULL;
        o->color = e->own_color ? &e->color : NULL;
    }
}

static void plan_finish(plan *p)
{
    plan_fill(p);
    p->c.extra_outputs.ptr = p->c.extra_outputs.count ? p->outputs : NULL;
}

static plan plan_of(bzna_dataset *dataset)
{
    plan p;
    memset(&p, 0, sizeof p);
    p.dataset = dataset;
    bzna_loader_config_init(&p.c, sizeof p.c);
    p.c.output.batch_size = BATCH;
    p.c.output.width = 24;
    p.c.output.height = 16;
    p.c.order.kind = BZNA_ORDER_SHUFFLE;
    p.c.order.seed = 11;
    p.c.order.epochs = 2;
    p.c.decode.threads = 2;
    p.c.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    p.c.warp.flip_h = 0.5;
    p.c.filter.antialias = BZNA_ANTIALIAS_OFF;              /* many taps a pixel take long */
    p.c.color.mean[0] = 100;
    p.c.color.std[0] = p.c.color.std[1] = p.c.color.std[2] = 50;
    p.c.color.fill[1] = 30;
    if (dataset == tars) {
        p.c.fields.image = "jpg";
        p.c.decode.decoder = BZNA_DECODER_SOFTWARE;
    }
    return p;
}

static extra *plan_add(plan *p, const char *name)
{
    extra *e = &p->extra[p->c.extra_outputs.count++];
    e->name = name;
    return e;
}

static bzna_loader *plan_open(plan *p, bzna_context *in)
{
    bzna_error e = { .struct_size = sizeof e };
    bzna_loader *loader = NULL;
    plan_finish(p);
    CHECK_EQ(bzna_loader_open(in, p->dataset, &p->c, &loader, &e), BZNA_OK);
    if (!loader)
        printf("  %s\n", e.message);
    return loader;
}

/* The picture that output i is made of; i is 0 for the first one. */
static const bzna_picture *picture_for(const plan *p, uint32_t i, uint64_t index)
{
    const char *field = i && p->extra[i - 1].field ? p->extra[i - 1].field : p->c.fields.image;
    for (int f = 0; f < FIELDS && p->dataset == tars; f++)
        if (!strcmp(field, fields[f]))
            return &known[f][index].picture;
    return &thumbs[index].picture;
}

static bzna_output shape_of(const plan *p, uint32_t i)
{
    const bzna_loader_output *o = &p->c.output;
    const extra *e = &p->extra[i - (i > 0)];
    bzna_output shape = { sizeof shape, o->width, o->height, o->dtype, o->layout, o->channels };
    if (i)
        shape = (bzna_output){ sizeof shape, e->width ? e->width : o->width, e->height ? e->height : o->height,
                               e->dtype, e->layout, e->channels };
    return shape;
}

static uint32_t views_of(const plan *p, uint32_t i)
{
    const uint32_t first = p->c.output.views ? p->c.output.views : 1, views = p->extra[i - (i > 0)].views;
    return i == 0 ? first : views ? views : p->extra[i - 1].own_warp ? 1 : first;
}

static void colors_of(const bzna_loader_color *c, bzna_transform *t)
{
    bzna_transform_init(t, sizeof *t);
    for (int i = 0; i < 3; i++) {
        const int divides = c->mean[i] != 0 || c->std[i] != 0;
        t->bias[i] = divides ? c->mean[i] : c->bias[i];
        t->scale[i] = divides ? 1 / c->std[i] : c->scale[i] != 0 ? c->scale[i] : 1;
        t->fill[i] = c->fill[i];
    }
    t->fill_space = c->fill_space;
    t->matrix = c->matrix;
}

static uint32_t seen_width(const bzna_picture *p) { return p->orientation > 4 ? p->height : p->width; }
static uint32_t seen_height(const bzna_picture *p) { return p->orientation > 4 ? p->width : p->height; }

static void multiply(const double a[9], const double b[9], double out[9])
{
    for (int i = 0; i < 9; i++)
        out[i] = a[i / 3 * 3] * b[i % 3] + a[i / 3 * 3 + 1] * b[3 + i % 3] + a[i / 3 * 3 + 2] * b[6 + i % 3];
}

/* From pixels of one size to those of another: edges meet edges. */
static void scaling(double from_width, double from_height, double to_width, double to_height, double out[9])
{
    const double x = to_width / from_width, y = to_height / from_height;
    const double m[9] = { x, 0, (x - 1) / 2, 0, y, (y - 1) / 2, 0, 0, 1 };
    memcpy(out, m, sizeof m);
}

/* The jitter of view `number`. */
static void jitter(const plan *p, const bzna_loader_color *c, const bzna_mxnet *mxnet, uint64_t epoch, uint64_t index,
                   uint32_t number, bzna_transform *t)
{
    bzna_random random;
    bzna_random_init(&random, p->c.order.seed, epoch, index, BZNA_RANDOM_COLOR);
    bzi_random_fork(&random, number, 0);
    require(bzna_jitter_draw(&random, &c->jitter, mxnet, t, NULL), "jitter");
}

/* What the header says a view's transform is. */
static void transform_of(const plan *p, uint64_t epoch, uint64_t index, uint32_t i, uint32_t view, bzna_transform *t)
{
    const extra *e = i ? &p->extra[i - 1] : NULL;
    const bzna_picture *picture = picture_for(p, i, index), *first = picture_for(p, 0, index);
    const bzna_output shape = shape_of(p, i), first_shape = shape_of(p, 0);
    uint32_t number = view;
    bzna_random random;
    if (e && !e->own_warp) {
        double in[9], out[9], half[9];
        bzna_transform given;
        transform_of(p, epoch, index, 0, view, &given);
        scaling(shape.width, shape.height, first_shape.width, first_shape.height, out);
        scaling(seen_width(first), seen_height(first), seen_width(picture), seen_height(picture), in);
        *t = given;
        if (e->own_color) {
            colors_of(&e->color, t);
            jitter(p, &e->color, NULL, epoch, index, view, t);
        }
        if (e->own_filter) {
            t->filter = e->filter.kind;
            t->antialias = e->filter.antialias;
        } else {
            t->filter = given.filter;
            t->antialias = given.antialias;
        }
        multiply(given.homography, out, half);
        multiply(in, half, t->homography);
        return;
    }
    for (uint32_t k = 0; k < i; k++)
        number += k == 0 || p->extra[k - 1].own_warp ? views_of(p, k) : 0;
    colors_of(e && e->own_color ? &e->color : &p->c.color, t);
    t->filter = e && e->own_filter ? e->filter.kind : p->c.filter.kind;
    t->antialias = e && e->own_filter ? e->filter.antialias : p->c.filter.antialias;
    bzna_random_init(&random, p->c.order.seed, epoch, index, BZNA_RANDOM_WARP);
    bzi_random_fork(&random, number, 0);
    require(bzna_warp_draw(&random, e ? &e->warp : &p->c.warp, seen_width(picture), seen_height(picture), shape.width,
                           shape.height, t->homography, NULL), "warp");
    jitter(p, e && e->own_color ? &e->color : &p->c.color, e ? &e->warp.mxnet : &p->c.warp.mxnet, epoch, index, number,
           t);
}

static size_t bytes_of(const bzna_output *shape)
{
    static const size_t element[] = { 4, 2, 2, 1 };
    return element[shape->dtype] * (shape->channels == BZNA_CHANNELS_GRAY ? 1 : 3) * shape->width * shape->height;
}

/* Whether one view of a slot is right. */
static int view_is_right(const plan *p, const bzna_batch_info *info, uint32_t slot, uint32_t i, uint32_t view,
                         const uint8_t *at)
{
    static uint8_t wanted[1 << 16];
    const bzna_output shape = shape_of(p, i);
    const uint64_t index = info->indices[slot];
    bzna_transform t;
    transform_of(p, info->epoch, index, i, view, &t);
    if (info->status[slot] < 0)                             /* the fill, as it is without a jitter */
        colors_of(i && p->extra[i - 1].own_color ? &p->extra[i - 1].color : &p->c.color, &t);
    if (info->status[slot] < 0) {                           /* all of it lies outside */
        t.homography[0] = t.homography[4] = 1;
        t.homography[1] = t.homography[3] = 0;
        t.homography[2] = t.homography[5] = 1e6;
    }
    require(bzna_picture_render(picture_for(p, i, index), &t, &shape, wanted, sizeof wanted, NULL), "render");
    return !memcmp(wanted, at, bytes_of(&shape));
}

/* Where an output's tensor lies, which must be as the header says. */
static const uint8_t *tensor_of(const plan *p, const bzna_batch *batch, uint32_t i, uint32_t slots)
{
    const bzna_output shape = shape_of(p, i);
    const uint32_t views = views_of(p, i), channels = shape.channels == BZNA_CHANNELS_GRAY ? 1 : 3;
    const int last = shape.layout == BZNA_LAYOUT_NHWC;
    const int64_t wanted[5] = { views, slots, last ? shape.height : channels, last ? shape.width : shape.height,
                                last ? channels : shape.width };
    bzna_tensor tensor = { .struct_size = sizeof tensor };
    require(bzna_batch_tensor(batch, i ? p->extra[i - 1].name : "image", &tensor, sizeof tensor, NULL), "tensor");
    CHECK_EQ(tensor.dimensions, views > 1 ? 5 : 4);
    CHECK(!memcmp(tensor.shape, wanted + (views == 1), sizeof *wanted * tensor.dimensions));
    CHECK_EQ(tensor.dtype, shape.dtype);
    CHECK_EQ(tensor.bytes, views * slots * bytes_of(&shape));
    CHECK_STR(tensor.name, i ? p->extra[i - 1].name : "image");
    CHECK(p->c.output.buffers || (uintptr_t)tensor.data % 64 == 0);
    return tensor.data;
}

/* Returns how many samples were right in all outputs. */
static uint32_t check_batch(const plan *p, const bzna_batch *batch)
{
    const bzna_batch_info info = info_of(batch);
    const uint32_t slots = (uint32_t)info.image.shape[views_of(p, 0) > 1];
    uint32_t wrong[BATCH] = { 0 }, right = 0;
    for (uint32_t i = 0; i <= p->c.extra_outputs.count; i++) {
        const bzna_output shape = shape_of(p, i);
        const uint8_t *data = tensor_of(p, batch, i, slots);
        for (uint32_t view = 0; view < views_of(p, i); view++)
            for (uint32_t slot = 0; slot < info.count; slot++) {
                if (view_is_right(p, &info, slot, i, view, data + ((size_t)view * slots + slot) * bytes_of(&shape)))
                    continue;
                wrong[slot]++;
                printf("  output %u, view %u, sample %llu: other pixels\n", i, view,
                       (unsigned long long)info.indices[slot]);
            }
    }
    for (uint32_t slot = 0; slot < info.count; slot++)
        right += !wrong[slot];
    CHECK_EQ(right, info.count);
    return right;
}

/* All batches. Returns the samples that were right. */
static uint32_t walk_loader(const plan *p, bzna_loader *loader)
{
    bzna_batch *batch = NULL;
    uint32_t right = 0;
    while (loader && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        right += check_batch(p, batch);
        bzna_batch_release(batch);
    }
    return right;
}

static uint32_t walk(plan *p)
{
    bzna_loader *loader = plan_open(p, context);
    uint32_t right = walk_loader(p, loader);
    bzna_loader_close(loader);
    return right;
}

/* A hash of all tensors of all batches. */
static uint64_t hash_of(plan *p)
{
    bzna_loader *loader = plan_open(p, context);
    bzna_batch *batch = NULL;
    uint64_t hash = BZI_HASH_START;
    while (loader && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        for (uint32_t i = 0; i <= p->c.extra_outputs.count; i++) {
            bzna_tensor tensor = { .struct_size = sizeof tensor };
            require(bzna_batch_tensor(batch, i ? p->extra[i - 1].name : "image", &tensor, sizeof tensor, NULL), "");
            hash = bzi_hash(hash, tensor.data, (size_t)tensor.bytes);
        }
        bzna_batch_release(batch);
    }
    bzna_loader_close(loader);
    return hash;
}

/* Two global views and eight local ones of another size, as DINO's, and more. */
static plan plan_dino(bzna_dataset *dataset)
{
    plan p = plan_of(dataset);
    extra *e;
    p.c.output.views = 2;
    p.c.warp.perspective = 0.5;
    p.c.warp.rotate[1] = 20;
    p.c.color.jitter = (bzna_jitter){ .brightness = { 0.6f, 1.4f }, .contrast = { 0.5f, 2 }, .saturation = { 0, 2 },
                                      .hue = { -0.1f, 0.5f }, .grayscale = 0.2f };
    p.c.warp.mxnet = (bzna_mxnet){ .hls = { 90, 20, 60 }, .contrast = 0.3f, .illumination = 9 };
    e = plan_add(&p, "local");
    e->own_warp = 1;
    e->views = 8;
    e->width = 13;                                          /* no multiple of 256 bytes */
    e->height = 11;
    e->warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    e->warp.scale[0] = 0.05;
    e->warp.scale[1] = 0.4;
    e->warp.flip_v = 0.5;
    e->warp.shear[0] = -20;
    e->warp.mxnet = p.c.warp.mxnet;
    e->own_filter = 1;
    e->filter.kind = BZNA_FILTER_CUBIC;
    e->filter.antialias = BZNA_ANTIALIAS_OFF;
    e = plan_add(&p, "half");                               /* of the first output's views */
    e->dtype = BZNA_DTYPE_FLOAT16;
    e->layout = BZNA_LAYOUT_NHWC;
    e = plan_add(&p, "whole");
    e->own_warp = e->own_color = 1;
    e->width = 20;
    e->dtype = BZNA_DTYPE_UINT8;
    e->channels = BZNA_CHANNELS_GRAY;
    e->warp.kind = BZNA_WARP_CENTER_RESIZED_CROP;
    e->warp.flip_h = 0.5;
    e->color.jitter.brightness[0] = 0.5f;
    e->color.jitter.brightness[1] = 2;
    e->color.jitter.contrast[1] = 3;
    return p;
}

/* Image and mask, left and right. */
static plan plan_fields(void)
{
    plan p = plan_of(tars);
    extra *e = plan_add(&p, "mask");
    e->field = "seg.png";
    e->own_color = e->own_filter = 1;
    e->filter.kind = BZNA_FILTER_NEAREST;
    e->color.fill[0] = e->color.fill[1] = e->color.fill[2] = 255;       /* what losses are told to ignore */
    e->dtype = BZNA_DTYPE_UINT8;
    e->channels = BZNA_CHANNELS_GRAY;
    e = plan_add(&p, "left");
    e->field = "left.ppm";
    e = plan_add(&p, "right");
    e->field = "right.ppm";
    e->own_warp = 1;
    e->views = 3;
    e->channels = BZNA_CHANNELS_BGR;
    e->warp.kind = BZNA_WARP_SIMILARITY;
    e->warp.degrees[0] = -30;
    e->warp.degrees[1] = 30;
    return p;
}

/* ---- Pixels ---- */

TEST(each_view_has_random_numbers_of_its_own_and_the_first_is_that_of_a_single_view)
{
    plan one = plan_of(archives), three = plan_of(archives);
    bzna_loader *loaders[2];
    bzna_batch *batches[2] = { NULL, NULL };
    three.c.output.views = 3;
    CHECK_EQ(walk(&one), 2 * SAMPLES);
    CHECK_EQ(walk(&three), 2 * SAMPLES);
    loaders[0] = plan_open(&one, context);
    loaders[1] = plan_open(&three, context);
    while (loaders[0] && loaders[1] &&
           bzna_loader_next(loaders[0], BZNA_WAIT_FOREVER, &batches[0], NULL) == BZNA_OK &&
           bzna_loader_next(loaders[1], BZNA_WAIT_FOREVER, &batches[1], NULL) == BZNA_OK) {
        const bzna_batch_info a = info_of(batches[0]), b = info_of(batches[1]);
        const uint8_t *views = b.image.data;
        CHECK_EQ(b.image.bytes, 3 * a.image.bytes);
        CHECK(!memcmp(a.image.data, views, (size_t)a.image.bytes));
        CHECK(memcmp(views, views + a.image.bytes, (size_t)a.image.bytes));
        CHECK(memcmp(views + a.image.bytes, views + 2 * a.image.bytes, (size_t)a.image.bytes));
        bzna_batch_release(batches[0]);
        bzna_batch_release(batches[1]);
    }
    bzna_loader_close(loaders[0]);
    bzna_loader_close(loaders[1]);
}

TEST(outputs_of_one_picture_have_their_own_sizes_types_views_warps_and_colors)
{
    plan a = plan_dino(archives), b = plan_dino(tars);
    CHECK_EQ(walk(&a), 2 * SAMPLES);
    CHECK_EQ(walk(&b), 2 * SAMPLES);
}

TEST(outputs_of_other_pictures_share_the_first_ones_warp_or_have_their_own)
{
    plan p = plan_fields();
    CHECK_EQ(walk(&p), 2 * SAMPLES);
    p.c.output.views = 2;
    CHECK_EQ(walk(&p), 2 * SAMPLES);
}

/* Of pictures whose brightness says where a point lies: what lies at the same place of the first picture. */
TEST(a_shared_warp_shows_the_same_part_of_a_picture_of_another_size)
{
    plan p = plan_of(tars);
    extra *e = plan_add(&p, "right");
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    double worst[2] = { 0, 0 };
    e->field = "right.ppm";
    e = plan_add(&p, "small");
    e->field = "right.ppm";
    e->width = 12;
    e->height = 32;
    p.c.fields.image = "left.ppm";
    p.c.color = (bzna_loader_color){ .fill = { 0 } };
    p.c.warp = (bzna_warp){ .kind = BZNA_WARP_SIMILARITY, .scale = { 0.2, 0.5 }, .degrees = { -20, 20 }, .flip_h = 0.5,
                            .flip_v = 0.5, .random_crop = 1 };
    loader = plan_open(&p, context);
    while (loader && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        const float *left = (const float *)tensor_of(&p, batch, 0, info_of(batch).count),
                    *right = (const float *)tensor_of(&p, batch, 1, info_of(batch).count),
                    *small = (const float *)tensor_of(&p, batch, 2, info_of(batch).count);
        for (uint32_t k = 0; k < info_of(batch).count * 3; k++)           /* planes: those of blue are constant */
            for (uint32_t y = 0; y < 16; y++)
                for (uint32_t x = 0; x < 24; x++) {
                    const float a = left[k * 384 + y * 24 + x], b = right[k * 384 + y * 24 + x];
                    const float *c = &small[k * 384 + 2 * y * 12 + x / 2];    /* two rows, half a column */
                    const uint32_t other = k * 384 + y * 24 + (x ^ 1);
                    if (a > 10 && a < 230 && b > 10 && b < 230)     /* not at the border, which is flat, or outside */
                        worst[0] = fmax(worst[0], fabs(a - b));
                    if (a > 20 && a < 220 && left[other] > 20 && left[other] < 220 && c[0] > 0 && c[12] > 0)
                        worst[1] = fmax(worst[1], fabs((a + left[other]) / 2 - (c[0] + c[12]) / 2));
                }
        bzna_batch_release(batch);
    }
    bzna_loader_close(loader);
    CHECK(worst[0] > 0);
    CHECK_NEAR(worst[0], 0, 1.01);                          /* each is rounded to whole numbers */
    CHECK_NEAR(worst[1], 0, 1.01);
}

/* By arithmetic of its own: the index at the nearest place, not one between. */
TEST(a_mask_keeps_its_class_numbers)
{
    plan p = plan_fields();
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    uint32_t met[256] = { 0 }, wrong = 0, ties = 0, pixels = 0;
    p.c.warp = (bzna_warp){ .kind = BZNA_WARP_SIMILARITY, .scale = { 0.3, 1 }, .degrees = { -40, 40 }, .flip_h = 0.5,
                            .random_crop = 1 };
    p.extra[0].width = 37;
    p.extra[0].height = 29;
    loader = plan_open(&p, context);
    while (loader && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        const bzna_batch_info info = info_of(batch);
        const uint8_t *mask = tensor_of(&p, batch, 1, info.count);
        for (uint32_t slot = 0; slot < info.count; slot++) {
            const bzna_picture *picture = picture_for(&p, 1, info.indices[slot]);
            bzna_transform t;
            transform_of(&p, info.epoch, info.indices[slot], 1, 0, &t);
            for (uint32_t y = 0; y < 29; y++)
                for (uint32_t x = 0; x < 37; x++, mask++) {
                    const double u = t.homography[0] * x + t.homography[1] * y + t.homography[2] + 0.5,
                                 v = t.homography[3] * x + t.homography[4] * y + t.homography[5] + 0.5;
                    const int inside = u >= 0 && v >= 0 && u < picture->width && v < picture->height;
                    const uint8_t *row = (const uint8_t *)picture->plane[0] + (int64_t)(inside ? v : 0) *
                                                                                  picture->pitch[0];
                    const int tie = fabs(u - round(u)) < 1e-3 || fabs(v - round(v)) < 1e-3;
                    ties += (uint32_t)tie;
                    wrong += !tie && *mask != (inside ? row[(int)u] : 255);
                    met[*mask]++;
                    pixels++;
                }
        }
        bzna_batch_release(batch);
    }
    bzna_loader_close(loader);
    CHECK_EQ(wrong, 0);
    CHECK(pixels == 2 * SAMPLES * 29 * 37 && ties < pixels / 50);
    CHECK(met[0] && met[1] && met[2] && met[3]);
    CHECK_EQ(met[0] + met[1] + met[2] + met[3] + met[255], pixels);
}

/* An archive of the thumbs, each with the palette picture as its mask. */
static archive masks_build(void)
{
    archive a = { .count = SAMPLES };
    bzna_sink sink = { sizeof sink, 0, &a, archive_write, NULL };
    bzna_writer *writer = NULL;
    size_t size;
    uint8_t *mask = file_of("png_palette_2.png", &size);
    require(bzna_writer_open_sink(context, &sink, NULL, &writer, NULL), "writer");
    for (unsigned i = 0; i < SAMPLES; i++) {
        const bzna_field_value field = { sizeof field, BZNA_FIELD_IMAGE, "mask", mask, size };
        const bzna_writer_sample sample = { .struct_size = sizeof sample, .image = &thumbs[i].image, .fields = &field,
                                            .field_count = 1 };
        require(bzna_writer_add(writer, BZNA_INDEX_NEXT, &sample, 0, NULL), "sample");
    }
    require(bzna_writer_finish(writer, NULL), "archive");
    bzna_writer_close(writer);
    free(mask);
    return a;
}

/* Counts the masks of an epoch whose bytes are the rows of `picture`. palette: the output's. */
static uint32_t count_masks(bzna_dataset *dataset, const bzna_picture *picture, uint32_t palette)
{
    plan p = plan_of(dataset);
    extra *e = plan_add(&p, "mask");
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    uint32_t right = 0;
    p.c.order.epochs = 1;
    p.c.decode.decoder = BZNA_DECODER_SOFTWARE;             /* as all outputs of several fields */
    e->field = "mask";
    e->first.palette = palette;
    e->width = picture->width;
    e->height = picture->height;
    e->own_warp = e->own_color = e->own_filter = 1;         /* pixel by pixel */
    e->warp.kind = BZNA_WARP_NONE;
    e->filter.kind = BZNA_FILTER_NEAREST;
    e->dtype = BZNA_DTYPE_UINT8;
    e->channels = BZNA_CHANNELS_GRAY;
    loader = plan_open(&p, context);
    while (loader && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        const uint32_t count = info_of(batch).count;
        const uint8_t *mask = tensor_of(&p, batch, 1, count);
        for (uint32_t slot = 0; slot < count; slot++) {
            uint32_t same = 0;
            for (uint32_t y = 0; y < picture->height; y++, mask += picture->width)
                same += !memcmp(mask, (const uint8_t *)picture->plane[0] + y * picture->pitch[0], picture->width);
            right += same == picture->height;
        }
        bzna_batch_release(batch);
    }
    bzna_loader_close(loader);
    return right;
}

/* As a tar or a folder with the same setting of the data set or of the output; without both, an archive has the colors,
 * too. */
TEST(an_archives_palette_masks_have_their_class_numbers)
{
    const bzna_picture *indices = &known[1][0].picture;
    archive a = masks_build();
    for (uint32_t palette = BZNA_PALETTE_COLORS; palette <= BZNA_PALETTE_INDEX; palette++) {
        bzna_dataset_config config;
        bzna_dataset *dataset = NULL;
        bzna_error e = { .struct_size = sizeof e };
        bzna_dataset_config_init(&config, sizeof config);
        config.palette = palette;
        CHECK_EQ(bzna_dataset_open_memory(context, a.bytes, (size_t)a.size, &config, &dataset, &e), BZNA_OK);
        if (dataset)
            for (uint32_t own = 0; own < 2; own++)
                CHECK_EQ(count_masks(dataset, indices, own), palette == BZNA_PALETTE_INDEX || own ? SAMPLES : 0);
        bzna_dataset_close(dataset);
    }
    archive_clear(&a);
}

TEST(outputs_do_not_depend_on_threads)
{
    plan p = plan_dino(archives), q = plan_fields();
    uint64_t hashes[2] = { 0, 0 };
    for (uint32_t threads = 1; threads <= 4; threads++) {
        uint64_t now[2];
        p.c.decode.threads = q.c.decode.threads = p.c.read.threads = q.c.read.threads = threads;
        now[0] = hash_of(&p);
        now[1] = hash_of(&q);
        CHECK(threads == 1 || (now[0] == hashes[0] && now[1] == hashes[1]));
        memcpy(hashes, now, sizeof now);
    }
}

/* ---- Random numbers and callbacks ---- */

typedef struct asked {
    _Atomic int64_t calls, wrong, views[8];
    double          homography[9];    /* what is answered for view `bad`, of the sample */
    uint64_t        index;
    uint32_t        bad;
    bzna_status     status;
} asked;

static bzna_status answer(void *user, const bzna_sample_info *s, bzna_random *random, bzna_transform *t)
{
    asked *a = user;
    bzna_random fresh;
    bzna_random_init(&fresh, 11, s->epoch, s->index, BZNA_RANDOM_USER);
    bzi_random_fork(&fresh, s->view, s->occurrence);
    a->calls++;
    a->wrong += memcmp(&fresh, random, sizeof fresh) != 0;
    a->wrong += s->out_width != (s->output == 0 ? 24 : s->output == 1 ? 13 : 20) || s->output == 2;
    a->wrong += s->output == 0 ? s->view > 1 : s->output == 1 ? s->view < 2 || s->view > 9 : s->view != 10;
    if (s->index == a->index && s->view == a->bad) {
        memcpy(t->homography, a->homography, sizeof a->homography);
        return a->status;
    }
    return BZNA_OK;
}

TEST(a_callback_is_told_output_and_view_and_what_it_breaks_costs_the_sample_alone)
{
    static const struct { double h[9]; bzna_status status; const char *part; } bad[] = {
        { { 1, 0, 0, 0, 1, 0, 0, 0, 1 }, BZNA_E_DECODE, "callback returned -402" },
        { { NAN, 0, 0, 0, 1, 0, 0, 0, 1 }, BZNA_OK, "transform.homography: nan is not a finite number" },
        { { 1, 0, 0, 0, 1, 0, 0, 0, INFINITY }, BZNA_OK, "transform.homography: inf is not a finite number" },
        { { 0, 0, 1, 0, 0, 0, 0, 0, 0 }, BZNA_OK, "transform.homography: it is singular" },
        { { 0.3, 0.1, 5, 0.9, 0.3, 7, 0, 0, 1 }, BZNA_OK, "transform.homography: it is singular" },
        { { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, BZNA_OK, "transform.homography: it is singular" },
    };
    for (uint32_t k = 0; k < COUNT(bad); k++) {
        plan p = plan_dino(archives);
        asked a = { .index = 4, .bad = k % 2 ? 10 : k, .status = bad[k].status };
        bzna_loader *loader;
        bzna_batch *batch = NULL;
        bzna_statistics stats = { .struct_size = sizeof stats };
        memcpy(a.homography, bad[k].h, sizeof a.homography);
        p.c.pipeline.transform = answer;
        p.c.errors.on_callback_error = BZNA_ON_CALLBACK_ERROR_SAMPLE;
        p.c.pipeline.transform_user = &a;
        loader = plan_open(&p, context);
        while (loader && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
            const bzna_batch_info info = info_of(batch);
            bzna_error e = { .struct_size = sizeof e };
            for (uint32_t slot = 0; slot < info.count; slot++) {
                CHECK_EQ(info.status[slot], info.indices[slot] == 4 ? BZNA_E_CALLBACK : BZNA_OK);
                if (info.indices[slot] == 4) {
                    CHECK_EQ(bzna_batch_error(batch, slot, &e), BZNA_E_CALLBACK);
                    CHECK_CONTAINS(e.message, bad[k].part);
                }
            }
            check_batch(&p, batch);
            bzna_batch_release(batch);
        }
        bzna_loader_statistics(loader, &stats, sizeof stats, NULL);
        CHECK_EQ(stats.samples, 2 * SAMPLES);
        CHECK_EQ(stats.samples_failed, 2);
        bzna_loader_close(loader);
        CHECK_EQ(a.wrong, 0);
        CHECK_EQ(a.calls, 2 * ((SAMPLES - 1) * 11 + a.bad + 1));    /* not of "half", nor after the one that failed */
    }
}

/* The first eight bytes of the sample's target, then the width that the geometry says; or a fault. */
static bzna_status tell(void *user, const bzna_rule_input *input, void *out, uint64_t out_bytes, uint64_t *count)
{
    const asked *a = user;
    (void)count;
    if (out_bytes != 16 || input->size != 8 || input->view_count != 2)
        return BZNA_E_CALLBACK;
    if (a && input->sample->index == a->index)
        return -5;
    memcpy(out, input->data, 8);
    memcpy((char *)out + 8, &(int64_t){ input->geometry[1].width }, 8);
    return BZNA_OK;
}

TEST(rules_and_geometry_know_what_was_drawn_whoever_decodes)
{
    for (int fails = 0; fails < 2; fails++) {
        plan p = plan_of(archives);
        asked a = { .index = 4 };
        const bzna_rule rule = { .struct_size = sizeof rule, .kind = BZNA_RULE_TENSOR, .field = "target",
                                 .name = "told", .call = tell, .user = fails ? &a : NULL,
                                 .dtype = BZNA_DTYPE_INT64, .dimensions = 1,
                                 .shape = { 2 } };
        bzna_rules *rules;
        bzna_loader *loader;
        bzna_batch *batch = NULL;
        bzna_tensor told, geometry;
        uint32_t failed = 0;
        p.c.output.views = 2;
        require(bzna_formats_rules_open(p.dataset, &rule, 1, &p.c, &rules, NULL), "rules");
        p.c.fields.geometry = 1;
        loader = plan_open(&p, context);
        while (loader && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
            const bzna_batch_info info = info_of(batch);
            failed += info.failed;
            check_batch(&p, batch);
            require(bzna_batch_tensor(batch, "told", &told, sizeof told, NULL), "told");
            require(bzna_batch_tensor(batch, "geometry", &geometry, sizeof geometry, NULL), "geometry");
            CHECK(told.device.kind == BZNA_DEVICE_CPU && geometry.shape[1] == 2 && geometry.shape[2] == 16);
            for (uint32_t slot = 0; slot < info.count; slot++) {
                const int64_t *numbers = (const int64_t *)told.data + 2 * slot;
                const uint64_t index = info.indices[slot];
                const int is_bad = fails && index == 4;
                CHECK_EQ(info.status[slot], is_bad ? BZNA_E_FORMAT : BZNA_OK);
                CHECK_EQ(numbers[0], is_bad ? -1 : info.targets[slot]);
                CHECK_EQ(numbers[1], is_bad ? -1 : (int64_t)thumbs[index].picture.width);
                for (uint32_t view = 0; view < 2; view++) {
                    const float *g = (const float *)geometry.data + (2 * slot + view) * 16;
                    bzna_transform t;
                    transform_of(&p, info.epoch, index, 0, view, &t);
                    for (int k = 0; k < 9; k++)
                        CHECK_NEAR(g[k], (float)t.homography[k], 1e-6);
                    CHECK(g[10] == (float)thumbs[index].picture.height && g[15] == (float)(t.homography[0] < 0));
                    CHECK_NEAR(g[12], (float)(t.homography[5] - t.homography[4] / 2 + 0.5), 1e-4);
                }
            }
            bzna_batch_release(batch);
        }
        CHECK_EQ(failed, fails ? 2 : 0);
        bzna_loader_close(loader);
        bzna_formats_rules_close(rules);
    }
}

/* What the callback makes of a view is shared, too. */
static bzna_status tint(void *user, const bzna_sample_info *s, bzna_random *random, bzna_transform *t)
{
    (void)user, (void)random;
    t->homography[2] += 3;
    t->color[3] = s->view ? 40 : 20;
    t->fill[0] = 9;
    return BZNA_OK;
}

TEST(what_a_callback_makes_of_a_view_holds_for_the_outputs_that_share_it)
{
    plan p = plan_of(archives);
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    plan_add(&p, "twin");
    p.c.output.views = 2;
    p.c.pipeline.transform = tint;
    loader = plan_open(&p, context);
    while (loader && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        const bzna_batch_info info = info_of(batch);
        CHECK(!memcmp(tensor_of(&p, batch, 0, info.count), tensor_of(&p, batch, 1, info.count),
                      (size_t)info.image.bytes));
        bzna_batch_release(batch);
    }
    bzna_loader_close(loader);
}

/* ---- Pictures that are drawn into ---- */

/* Turns every sample into its complement, where the picture is what the decoder gave. */
static bzna_status invert(void *user, const bzna_sample_info *s, bzna_random *random, const bzna_picture *picture,
                          void *const planes[3])
{
    bzna_random fresh;
    bzna_random_init(&fresh, 11, s->epoch, s->index, BZNA_RANDOM_PICTURE);
    if (user && s->index == *(const uint64_t *)user)
        return BZNA_E_DECODE;
    for (int k = 0; k < 3 && planes[k]; k++) {
        const uint32_t sx = k ? picture->chroma_shift_x : 0, sy = k ? picture->chroma_shift_y : 0;
        for (uint32_t y = 0; y < (picture->frame_height + (1u << sy) - 1) >> sy; y++)
            for (uint32_t x = 0; x < (picture->frame_width + (1u << sx) - 1) >> sx; x++) {
                uint8_t *at = (uint8_t *)planes[k] + (int64_t)y * picture->pitch[k] + x;
                *at = (uint8_t)~*at;
            }
    }
    return planes[0] == picture->plane[0] && picture->depth == 8 && s->output < 2 &&
                   (s->output || !memcmp(&fresh, random, sizeof fresh)) ? BZNA_OK : BZNA_E_CALLBACK;
}

/* The same of what the model knows. */
static void invert_known(coded *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const bzna_picture *p = &all[i].picture;
        for (int k = 0; k < 3 && p->plane[k]; k++) {
            const uint32_t shift = k ? p->chroma_shift_y : 0, rows = (p->frame_height + (1u << shift) - 1) >> shift;
            uint8_t *at = (uint8_t *)(uintptr_t)p->plane[k];
            for (size_t n = (size_t)p->pitch[k] * rows; n-- > 0; at++)
                *at = (uint8_t)~*at;
        }
    }
}

TEST(a_callback_draws_into_pictures_before_they_are_warped)
{
    plan p = plan_dino(archives), q = plan_of(tars);
    p.c.pipeline.picture = q.c.pipeline.picture = invert;
    p.c.decode.decoder = BZNA_DECODER_SOFTWARE;             /* the suite is run with NVDEC demanded, too */
    plan_add(&q, "left")->field = "left.ppm";
    q.extra[0].own_color = 1;                               /* of a warp that it shares, and colors drawn for it */
    q.extra[0].color.jitter.brightness[1] = 2;
    invert_known(thumbs, SAMPLES);
    invert_known(known[0], FIELDS * SAMPLES);
    CHECK_EQ(walk(&p), 2 * SAMPLES);
    CHECK_EQ(walk(&q), 2 * SAMPLES);
    q.c.extra_outputs.count = 0;                                  /* of rows below the crop, too */
    q.c.warp.scale[0] = 0.01;
    q.c.warp.scale[1] = 0.02;
    CHECK_EQ(walk(&q), 2 * SAMPLES);
    invert_known(thumbs, SAMPLES);
    invert_known(known[0], FIELDS * SAMPLES);
}

/* A callback that clears a transform asks for steps that change nothing, as one does that writes the identities. */
static bzna_status clear_transform(void *user, const bzna_sample_info *s, bzna_random *random, bzna_transform *t)
{
    static const double one[9] = { 1, 0, 0, 0, 1, 0, 0, 0, 1 };
    static const float color[12] = { 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0 };
    const int writes = *(const int *)user;
    (void)s, (void)random;
    memset(t->homography, 0, sizeof t->homography);
    memset(t->color, 0, sizeof t->color);
    memset(t->scale, 0, sizeof t->scale);
    if (writes) {
        memcpy(t->homography, one, sizeof one);
        memcpy(t->color, color, sizeof color);
        t->scale[0] = t->scale[1] = t->scale[2] = 1;
    }
    return BZNA_OK;
}

TEST(zeros_that_a_callback_leaves_are_identities)
{
    uint64_t hashes[2];
    for (int writes = 0; writes < 2; writes++) {
        plan p = plan_of(archives);
        p.c.pipeline.transform = clear_transform;
        p.c.pipeline.transform_user = &writes;
        hashes[writes] = hash_of(&p);
    }
    CHECK_EQ(hashes[0], hashes[1]);
}

/* Software decodes then, and the batches are the same on the host and on the device. */
TEST(outputs_are_the_same_without_threads)
{
    plan p = plan_of(archives);
    const uint64_t hash = hash_of(&p);
    p.c.pipeline.no_threads = 1;
    p.c.decode.decoder = BZNA_DECODER_SOFTWARE;
    CHECK_EQ(hash_of(&p), hash);
}

TEST(a_picture_callback_that_fails_costs_its_sample)
{
    plan p = plan_of(archives);
    uint64_t bad = 4;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_error e = { .struct_size = sizeof e };
    p.c.pipeline.picture = invert;
    p.c.pipeline.picture_user = &bad;
    p.c.errors.on_callback_error = BZNA_ON_CALLBACK_ERROR_SAMPLE;
    p.c.decode.decoder = BZNA_DECODER_SOFTWARE;
    loader = plan_open(&p, context);
    REQUIRE(loader);
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        const bzna_batch_info b = info_of(batch);
        for (uint32_t slot = 0; slot < b.count; slot++) {
            CHECK_EQ(b.status[slot], b.indices[slot] == bad ? BZNA_E_CALLBACK : BZNA_OK);
            if (b.indices[slot] == bad && bzna_batch_error(batch, slot, &e) < 0)
                CHECK_CONTAINS(e.message, "the picture callback returned -402");
        }
        bzna_batch_release(batch);
    }
    bzna_loader_close(loader);
}

static bzna_status refuse_masks(void *user, const bzna_sample_info *s, bzna_random *random, const bzna_picture *picture,
                                void *const planes[3])
{
    (void)user, (void)random, (void)picture, (void)planes;
    return s->output == 1 && s->index % 3 == 0 ? BZNA_E_DECODE : BZNA_OK;
}

/* Its first picture may still be on its way to the slot when the second one fails and another sample takes the slot. */
TEST(a_sample_whose_second_field_fails_writes_nothing_over_the_sample_that_replaces_it)
{
    plan p = plan_of(tars);
    plan_add(&p, "mask")->field = "seg.png";
    p.c.pipeline.picture = refuse_masks;
    p.c.errors.on_callback_error = BZNA_ON_CALLBACK_ERROR_SAMPLE;
    p.c.errors.on_error = BZNA_ON_ERROR_REPLACE;
    p.c.decode.threads = 3;
#if TEST_NVDEC == 2
    fake_load()->control->stream_us = 3000;
#endif
    for (uint64_t round = 0; round < 4; round++) {
        p.c.order.seed = 11 + round;
        p.c.order.epochs = 1;
        CHECK_EQ(walk(&p), SAMPLES);
    }
#if TEST_NVDEC == 2
    fake_load()->control->stream_us = 0;
#endif
}

/* ---- Colors ---- */

TEST(what_is_outside_has_the_fill_color_in_each_outputs_type_and_channels)
{
    for (uint32_t space = 0; space < 2; space++)
        for (uint32_t dtype = 0; dtype < 4; dtype++) {
            plan p = plan_of(archives);
            extra *e;
            const float fill[3] = { 200, 3.5f, 90 };
            memcpy(p.c.color.fill, fill, sizeof fill);
            p.c.color.fill_space = space;
            p.c.output.dtype = dtype;
            p.c.warp = (bzna_warp){ .kind = BZNA_WARP_SIMILARITY, .translate = { 3, 3 } };
            e = plan_add(&p, "bgr");
            e->channels = BZNA_CHANNELS_BGR;
            e->layout = BZNA_LAYOUT_NHWC;
            e->dtype = (dtype + 1) % 4;
            e = plan_add(&p, "gray");
            e->channels = BZNA_CHANNELS_GRAY;
            e->dtype = (dtype + 2) % 4;
            e->own_color = 1;
            e->color.fill[0] = 255;
            e->color.fill_space = space;
            CHECK_EQ(walk(&p), 2 * SAMPLES);
        }
}

/* What the plan's means, scales and fills make of a view, from what a plan without them renders. */
static double mean_fault(const plan *p, const plan *plain, const bzna_batch_info *info, uint32_t slot, uint32_t i,
                         uint32_t view, const float *got, const float *mean)
{
    static float wanted[1 << 14];
    const bzna_output shape = shape_of(plain, i);
    const bzna_picture *picture = picture_for(p, i, info->indices[slot]);
    const uint32_t planes = shape.channels == BZNA_CHANNELS_GRAY ? 1 : 3, area = shape.width * shape.height;
    const double scale = i == 2 ? 1 : 0.25;
    double worst = 0;
    bzna_transform t;
    transform_of(plain, info->epoch, info->indices[slot], i, view, &t);
    t.fill_space = BZNA_FILL_RGB;
    require(bzna_picture_render(picture, &t, &shape, wanted, sizeof wanted, NULL), "render");
    for (uint32_t at = 0; at < area * planes; at++) {
        const uint32_t c = shape.layout ? at % planes : at / area, xy = shape.layout ? at / planes : at % area;
        const double u = t.homography[0] * (xy % shape.width) + t.homography[2];
        const double v = t.homography[4] * (xy / shape.width) + t.homography[5];
        const int inside = u >= -0.5 && v >= -0.5 && u <= picture->width - 0.5 && v <= picture->height - 0.5;
        double value = ((double)wanted[at] - mean[c * area + xy]) * scale;
        if (!inside && i < 2 && p->c.color.fill_space == BZNA_FILL_OUTPUT)
            value = p->c.color.fill[c];
        worst = fmax(worst, fabs(value - got[at]));
    }
    return worst;
}

/* The first output in two views, one that shares its colors, and one with a mean image of its own. */
static plan plan_means(uint32_t k, const float *mean, const float *own)
{
    plan p = plan_of(archives);
    extra *e;
    memset(&p.c.color, 0, sizeof p.c.color);
    p.c.output.channels = k % 3;
    p.c.output.layout = k % 2;
    p.c.output.views = 2;
    p.c.color.scale[0] = p.c.color.scale[1] = p.c.color.scale[2] = mean ? 0.25f : 1;
    p.c.color.fill[1] = 100;
    p.c.color.fill_space = k / 3;
    p.c.color.mean_image = mean;
    p.c.color.mean_image_bytes = mean ? sizeof(float) * (k % 3 == BZNA_CHANNELS_GRAY ? 1 : 3) * 24 * 16 : 0;
    p.c.warp = (bzna_warp){ .kind = BZNA_WARP_SIMILARITY, .translate = { 0.7, 0.7 }, .flip_h = 0.5 };
    e = plan_add(&p, "twin");
    e->channels = k % 3;
    e = plan_add(&p, "own");
    e->own_warp = e->own_color = 1;
    e->width = e->height = 10;
    e->channels = BZNA_CHANNELS_GRAY;
    e->color.mean_image = own;
    e->color.mean_image_bytes = own ? sizeof(float) * 100 : 0;
    return p;
}

/* Before the scale: from pixels, from a fill that is in R, G, B, and in all views. */
TEST(a_mean_image_is_subtracted_pixel_by_pixel)
{
    enum { NUMBERS = 3 * 24 * 16 };
    static float mean[NUMBERS], kept[NUMBERS], own[100];
    for (uint32_t k = 0; k < 6; k++) {
        plan p = plan_means(k, mean, own), plain = plan_means(k, NULL, NULL);
        bzna_loader *loader;
        bzna_batch *batch = NULL;
        double worst = 0;
        for (int i = 0; i < NUMBERS; i++)
            mean[i] = kept[i] = (float)(i * 7 % 251) + 0.5f;
        for (int i = 0; i < 100; i++)
            own[i] = (float)i;
        loader = plan_open(&p, context);
        memset(mean, 0xff, sizeof mean);                    /* it was copied */
        while (loader && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
            const bzna_batch_info info = info_of(batch);
            for (uint32_t i = 0; i < 3; i++) {
                const bzna_output shape = shape_of(&p, i);
                const uint8_t *at = tensor_of(&p, batch, i, info.count);
                for (uint32_t n = 0; n < views_of(&p, i) * info.count; n++, at += bytes_of(&shape))
                    worst = fmax(worst, mean_fault(&p, &plain, &info, n % info.count, i, n / info.count,
                                                   (const float *)(const void *)at, i == 2 ? own : kept));
            }
            bzna_batch_release(batch);
        }
        bzna_loader_close(loader);
        CHECK_NEAR(worst, 0, 1e-3);
    }
}

/* ---- Errors ---- */

/* A sample whose second picture is damaged fails in all outputs, once. */
static tar damaged_tar(uint64_t index, const char *field)
{
    tar t = { .bytes = take_memory(shard.size), .size = shard.size, .capacity = shard.size };
    bzna_image_info info = { .struct_size = sizeof info };
    memcpy(t.bytes, shard.bytes, shard.size);
    require(bzna_dataset_image_info(tars, index, field, &info, sizeof info, NULL), "place");
    memset(t.bytes + info.data_offset + info.data_size / 2, 0x55, (size_t)(info.data_size / 2));
    return t;
}

TEST(a_picture_that_cannot_be_decoded_fails_its_sample_in_all_outputs)
{
    for (uint32_t policy = 0; policy < 3; policy++) {
        tar t = damaged_tar(4, "seg.png");
        plan p = plan_fields();
        bzna_dataset_config config;
        bzna_loader *loader;
        bzna_batch *batch = NULL;
        bzna_statistics stats = { .struct_size = sizeof stats };
        bzna_status status = BZNA_OK;
        uint32_t failed = 0, replaced = 0, right = 0;
        bzna_dataset_config_init(&config, sizeof config);
        config.palette = BZNA_PALETTE_INDEX;
        require(bzna_dataset_open_memory(context, t.bytes, t.size, &config, &p.dataset, NULL), "damaged");
        p.c.errors.on_error = policy;
        loader = plan_open(&p, context);
        bzna_dataset_close(p.dataset);
        p.dataset = tars;                                   /* whose pictures are known */
        while (loader && (status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL)) == BZNA_OK) {
            const bzna_batch_info info = info_of(batch);
            failed += info.failed;
            replaced += info.replaced;
            right += check_batch(&p, batch);
            bzna_batch_release(batch);
        }
        bzna_loader_statistics(loader, &stats, sizeof stats, NULL);
        CHECK_EQ(status, policy == BZNA_ON_ERROR_STOP ? BZNA_E_DECODE : BZNA_END);
        if (policy != BZNA_ON_ERROR_STOP) {
            CHECK_EQ(right, 2 * SAMPLES);
            CHECK_EQ(failed, policy == BZNA_ON_ERROR_FILL ? 2 : 0);
            CHECK_EQ(replaced, policy == BZNA_ON_ERROR_FILL ? 0 : 2);
            CHECK_EQ(stats.samples_failed, 2);
            CHECK_EQ(stats.failed_decode, 2);
        }
        bzna_loader_close(loader);
        tar_free(&t);
    }
}

TEST(a_sample_without_the_picture_of_an_output_fails)
{
    plan p = plan_fields();
    tar t = { 0 };
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    size_t size;
    uint8_t *bytes = file_of("jpeg_411.jpg", &size);
    tar_file(&t, "0.jpg", bytes, size);
    add_ramp(&t, "0.seg.ppm", 8, 8);
    tar_file(&t, "1.jpg", bytes, size);
    tar_end(&t);
    p.c.extra_outputs.count = 1;
    p.extra[0].field = "seg.ppm";
    require(bzna_dataset_open_memory(context, t.bytes, t.size, NULL, &p.dataset, NULL), "tar");
    p.c.order.kind = BZNA_ORDER_SEQUENTIAL;
    loader = plan_open(&p, context);
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_OK);
    if (batch) {
        CHECK_EQ(info_of(batch).status[0], BZNA_OK);
        CHECK_EQ(info_of(batch).status[1], BZNA_E_NOT_FOUND);
    }
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    bzna_dataset_close(p.dataset);
    free(bytes);
    tar_free(&t);
}

/* ---- Memory ---- */

TEST(tensors_of_outputs_have_names_numbers_and_dlpack)
{
    static const char *const names[] = { "image", "target", "index", "status", "cls", "mask", "left", "right" };
    plan p = plan_fields();
    bzna_loader *loader;
    bzna_batch *batch = NULL;
    bzna_tensor tensor = { .struct_size = sizeof tensor };
    p.c.fields.tensors = "cls";
    loader = plan_open(&p, context);
    REQUIRE(loader);
    for (uint32_t i = 0; i < COUNT(names); i++) {
        CHECK_EQ(bzna_loader_tensor(loader, i, &tensor, sizeof tensor, NULL), BZNA_OK);
        CHECK_STR(tensor.name, names[i]);
        CHECK(!tensor.data);
    }
    CHECK_EQ(tensor.dimensions, 5);
    CHECK_EQ(bzna_loader_tensor(loader, COUNT(names), &tensor, sizeof tensor, NULL), BZNA_E_RANGE);
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_OK);
    for (uint32_t i = 0; batch && i < COUNT(names); i++) {
        bzi_dl_versioned *dl = NULL;
        CHECK_EQ(bzna_batch_tensor(batch, names[i], &tensor, sizeof tensor, NULL), BZNA_OK);
        CHECK_EQ(bzna_batch_to_dlpack(batch, names[i], BZNA_DLPACK_1, (void **)&dl, NULL), BZNA_OK);
        CHECK_EQ(dl->tensor.dimensions, tensor.dimensions);
        CHECK(dl->tensor.data == tensor.data);
        CHECK(!memcmp(dl->tensor.shape, tensor.shape, sizeof(int64_t) * tensor.dimensions));
        CHECK_EQ(dl->tensor.strides[0], (int64_t)(tensor.bytes / (dl->tensor.bits / 8)) / tensor.shape[0]);
        dl->deleter(dl);
    }
    bzna_batch_release(batch);
    bzna_loader_close(loader);
}

enum { ROOM = 1 << 18 };

static void *buffer_take(void)
{
#if TEST_NVDEC == 2
    return nvdec_alloc(context, ROOM);
#else
    return take_memory(ROOM);
#endif
}

static void buffer_give(void *data)
{
#if TEST_NVDEC == 2
    nvdec_free(context, data);
#else
    free(data);
#endif
}

/* Where the outputs of a full batch begin, and in the end how long all of them are. */
static void places_of(plan *p, uint64_t places[EXTRAS + 2])
{
    bzna_loader *loader = plan_open(p, context);
    places[0] = 0;
    for (uint32_t i = 0; i <= p->c.extra_outputs.count; i++) {
        bzna_tensor tensor = { .struct_size = sizeof tensor };
        require(bzna_loader_tensor(loader, i ? 3 + i : 0, &tensor, sizeof tensor, NULL), "tensor");
        places[i] = (places[i] + 255) / 256 * 256;
        places[i + 1] = places[i] + tensor.bytes;
    }
    bzna_loader_close(loader);
}

TEST(the_callers_buffers_hold_all_outputs)
{
    plan p = plan_dino(archives);
    bzna_buffer buffers[3];
    uint64_t places[EXTRAS + 2];
    bzna_loader *loader, *refused = NULL;
    bzna_error e = { .struct_size = sizeof e };
    bzna_batch *batch = NULL;
    uint32_t right = 0;
    places_of(&p, places);
    for (int i = 0; i < 3; i++) {
        buffers[i] = (bzna_buffer){ buffer_take(), places[p.c.extra_outputs.count + 1] };
        memset(buffers[i].data, 0x77, ROOM);
    }
    p.c.output.buffers = buffers;
    p.c.output.buffer_count = 3;
    p.c.output.device.kind = TEST_NVDEC == 2 ? BZNA_DEVICE_CUDA : BZNA_DEVICE_CPU;
    loader = plan_open(&p, context);
    while (loader && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        const bzna_batch_info info = info_of(batch);
        for (uint32_t i = 0; i <= p.c.extra_outputs.count; i++)
            CHECK(tensor_of(&p, batch, i, info.count) == (const uint8_t *)info.image.data + places[i]);
        right += check_batch(&p, batch);
        bzna_batch_release(batch);
    }
    bzna_loader_close(loader);
    CHECK_EQ(right, 2 * SAMPLES);
    for (int i = 0; i < 3; i++)
        for (uint64_t k = buffers[i].bytes; k < ROOM; k++)
            right += ((const uint8_t *)buffers[i].data)[k] != 0x77;
    CHECK_EQ(right, 2 * SAMPLES);                           /* nothing is written past the end */
    buffers[1].bytes--;
    CHECK_EQ(bzna_loader_open(context, archives, &p.c, &refused, &e), BZNA_E_BUFFER);
    CHECK_CONTAINS(e.message, "loader_config.output.buffers[1].bytes");
    for (int i = 0; i < 3; i++)
        buffer_give(buffers[i].data);
}

#if !TEST_NVDEC
/* Every allocation that opening makes may fail, and then nothing is left. */
TEST(an_allocation_that_fails_at_open_leaves_nothing)
{
    for (int k = 0; k < 2; k++) {
        ledger l;
        bzna_context_config config;
        bzna_context *own = NULL;
        bzna_dataset *dataset = NULL;
        plan p = k ? plan_fields() : plan_dino(archives);
        int64_t at = 0, calls;
        bzna_loader *loader = NULL;
        bzna_context_config_init(&config, sizeof config);
        config.allocator = ledger_allocator(&l);
        require(bzna_context_open(&config, &own, NULL), "context");
        require(k ? bzna_dataset_open_memory(own, shard.bytes, shard.size, NULL, &dataset, NULL) :
                    bzna_dataset_open_memory(own, mixed.bytes, (size_t)mixed.size, NULL, &dataset, NULL), "data set");
        plan_finish(&p);
        for (; !loader && at < 200; at++) {
            const int64_t before = l.blocks;
            bzna_status status;
            l.fail_at = at + 1;
            calls = l.calls;
            status = bzna_loader_open(own, dataset, &p.c, &loader, NULL);
            l.fail_at = 0;
            CHECK(status == BZNA_E_MEMORY || (status == BZNA_OK && l.calls > calls));
            if (status != BZNA_OK)
                CHECK_EQ(l.blocks, before);
        }
        CHECK(at > 10 && loader);
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
        bzna_context_close(own);
        check_settled(&l);
    }
}

/* Once all pictures were met, nothing is allocated; what fails to be, costs its sample, and no memory. */
static bzna_status leave(void *user, const bzna_sample_info *s, bzna_random *random, const bzna_picture *picture,
                         void *const planes[3])
{
    (void)user, (void)s, (void)random, (void)picture, (void)planes;
    return BZNA_OK;
}

TEST(in_steady_state_nothing_is_allocated)
{
    ledger l;
    bzna_context_config config;
    bzna_context *own = NULL;
    plan p = plan_fields();
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    int64_t calls = 0;
    bzna_context_config_init(&config, sizeof config);
    config.allocator = ledger_allocator(&l);
    require(bzna_context_open(&config, &own, NULL), "context");
    require(bzna_dataset_open_memory(own, shard.bytes, shard.size, NULL, &p.dataset, NULL), "tar");
    p.c.pipeline.picture = leave;
    p.c.order.epochs = 60;
    p.c.decode.threads = 1;
    p.c.output.views = 2;
    loader = plan_open(&p, own);
    while (loader && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        if (info_of(batch).epoch == 30)
            calls = l.calls;
        bzna_batch_release(batch);
    }
    CHECK_EQ(l.calls, calls);
    bzna_loader_close(loader);
    bzna_dataset_close(p.dataset);
    bzna_context_close(own);
    check_settled(&l);
}
#endif

/* ---- States ---- */

TEST(a_run_with_outputs_goes_on_where_it_stopped)
{
    plan p = plan_dino(archives);
    bzna_loader *loader = plan_open(&p, context), *later = NULL;
    bzna_loader_state state;
    bzna_batch *batch = NULL;
    uint32_t before = 0, after;
    for (int i = 0; i < 2 && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK; i++) {
        before += check_batch(&p, batch);
        bzna_batch_release(batch);
    }
    require(bzna_loader_save(loader, &state, sizeof state, NULL), "state");
    bzna_loader_stop(loader, NULL);
    CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_E_STOPPED);
    bzna_loader_close(loader);
    p.c.decode.threads = 3;
    later = plan_open(&p, context);
    CHECK_EQ(bzna_loader_restore(later, &state, NULL), BZNA_OK);
    after = walk_loader(&p, later);
    CHECK_EQ(before + after, 2 * SAMPLES);
    bzna_loader_close(later);
}

static float a_mean[20 * 16], bad_mean[24 * 16 * 3] = { 1, 2, NAN }, whole_mean[24 * 16 * 3];

static void change(plan *p, int i)
{
    switch (i) {
    case 0: p->c.output.views = 3; break;
    case 1: p->extra[0].views = 7; break;
    case 2: p->extra[0].width = 14; break;
    case 3: p->extra[0].height = 13; break;
    case 4: p->extra[0].channels = BZNA_CHANNELS_BGR; break;
    case 5: p->extra[0].warp.scale[1] = 0.5; break;
    case 6: p->extra[0].own_warp = p->extra[0].views = 0; p->extra[0].warp = (bzna_warp){ 0 }; break;
    case 7: p->extra[0].field = "thumb"; break;
    case 8: p->extra[2].color.fill[0] = 4; break;
    case 9: p->extra[2].color.bias[2] = 4; break;
    case 10: p->extra[2].color.scale[1] = 4; break;
    case 11: p->extra[2].color.matrix = BZNA_MATRIX_BT709; break;
    case 12: p->c.extra_outputs.count = 2; break;
    case 13: p->extra[2].color.mean_image = a_mean; p->extra[2].color.mean_image_bytes = sizeof a_mean; break;
    case 14: p->extra[0].filter.kind = BZNA_FILTER_LANCZOS3; break;
    case 15: p->extra[0].filter.antialias = BZNA_ANTIALIAS_AUTO; break;
    case 16: p->extra[2].color.jitter.brightness[1] = 3; break;
    case 17: p->c.warp.rotate[1] = 21; break;
    case 18: p->c.pipeline.picture = invert; break;
    /* how pixels are stored */
    case 19: p->extra[0].dtype = BZNA_DTYPE_UINT8; break;
    case 20: p->extra[0].layout = BZNA_LAYOUT_NHWC; break;
    default: p->extra[0].name = "renamed"; break;
    }
}

TEST(a_state_of_other_outputs_is_refused)
{
    enum { OTHER_PIXELS = 19, CHANGES = 22 };
    plan p = plan_dino(archives);
    bzna_loader *loader = plan_open(&p, context);
    bzna_loader_state state;
    require(bzna_loader_save(loader, &state, sizeof state, NULL), "state");
    bzna_loader_close(loader);
    for (int i = 0; i < CHANGES; i++) {
        plan q = plan_dino(archives);
        q.c.decode.decoder = BZNA_DECODER_SOFTWARE;
        change(&q, i);
        loader = plan_open(&q, context);
        REQUIRE(loader);
        if (bzna_loader_restore(loader, &state, NULL) != (i < OTHER_PIXELS ? BZNA_E_ARGUMENT : BZNA_OK)) {
            printf("  change %d\n", i);
            CHECK(!"restored otherwise");
        }
        bzna_loader_close(loader);
    }
}

/* ---- What is refused ---- */

static bzna_loader_output too_many[BZI_LIMIT_OUTPUTS];

typedef struct refusal { bzna_status status; const char *message; } refusal;

/* One thing is wrong with the plan, what is said of it behind "loader_config.", and whether it is the i-th. */
#define BAD(changes, code, said) if (i-- == 0) { changes; return (refusal){ BZNA_##code, said }; }

static refusal spoil_list(plan *p, int i)
{
    bzna_loader_config *c = &p->c;
    extra *e = p->extra;
    BAD(c->extra_outputs.ptr = NULL, E_ARGUMENT,
        "extra_outputs.ptr, count: one is given without the other")
    BAD(c->extra_outputs.count = 0, E_ARGUMENT,
        "extra_outputs.ptr, count: one is given without the other")
    BAD(c->extra_outputs.ptr = too_many; c->extra_outputs.count = COUNT(too_many), E_ARGUMENT,
        "extra_outputs.count: 16 is not in 0..15")
    BAD(c->extra_outputs.count = UINT64_MAX, E_ARGUMENT, "extra_outputs.count: 18446744073709551615 is not in 0..15")
    BAD(c->extra_outputs.reserved[7] = 1, E_STRUCT_SIZE, "extra_outputs.reserved[7]: a reserved word must be 0")
    BAD(e[0].views = 62, E_ARGUMENT, "extra_outputs[1].views: 2, and 64 of other outputs, are more than")
    BAD(e[0].views = UINT32_MAX, E_ARGUMENT, "extra_outputs[0].views: 4294967295")
    BAD(c->output.views = 65, E_ARGUMENT, "output.views: 65")
    BAD(c->output.slices = 3, E_ARGUMENT, "output.slices: not together with views or extra_outputs")
    BAD(c->output.slices = 3; c->output.views = 1; e[1].views = 1, E_ARGUMENT, "output.slices: not together")
    BAD(c->output.slices = 3; c->extra_outputs = (bzna_loader_outputs){ 0 }, E_ARGUMENT, "output.slices: not together")
    BAD(c->output.width = c->output.height = 0; c->fields.tensors = "target", E_ARGUMENT, "output.width: 0")
    return (refusal){ BZNA_OK, NULL };
}

static refusal spoil_output(plan *p, int i)
{
    static const char long_name[] = "a.name.that.has.one.byte.too.many";
    extra *e = p->extra;
    BAD(e[1].name = NULL, E_ARGUMENT, "extra_outputs[1].name: ")
    BAD(e[1].name = "", E_ARGUMENT, "extra_outputs[1].name: ")
    BAD(e[1].name = long_name + sizeof long_name - 1 - BZNA_NAME_MAX, E_ARGUMENT, "extra_outputs[1].name: ")
    BAD(e[1].name = "local", E_ARGUMENT, "extra_outputs[1].name: another tensor has the name \"local\"")
    BAD(e[2].name = "image", E_ARGUMENT, "extra_outputs[2].name: another tensor has the name \"image\"")
    BAD(e[2].name = "target", E_ARGUMENT, "extra_outputs[2].name: another tensor has the name \"target\"")
    BAD(e[2].width = 16385, E_ARGUMENT, "extra_outputs[2].width: 16385")
    BAD(e[2].height = 16385, E_ARGUMENT, "extra_outputs[2].height: 16385")
    BAD(e[2].layout = 2, E_UNSUPPORTED, "extra_outputs[2].layout: 2")
    BAD(e[2].channels = 3, E_UNSUPPORTED, "extra_outputs[2].channels: 3")
    BAD(e[2].dtype = 4, E_UNSUPPORTED, "extra_outputs[2].dtype: 4")
    BAD(e[1].views = 3, E_ARGUMENT, "extra_outputs[1].views: 3; it shares the warps")
    BAD(e[1].first.batch_size = 3, E_ARGUMENT, "extra_outputs[1].batch_size: can only be set for the first output")
    BAD(e[1].first.slices = 1, E_ARGUMENT, "extra_outputs[1].slices: can only be set for the first output")
    BAD(e[1].first.device.kind = 1, E_ARGUMENT, "extra_outputs[1].device: can only be set for the first output")
    BAD(e[1].first.device.ordinal = 1, E_ARGUMENT, "extra_outputs[1].device: can only be set for the first output")
    BAD(e[1].first.stream = p, E_ARGUMENT, "extra_outputs[1].stream: can only be set for the first output")
    BAD(e[1].first.buffers = (bzna_buffer *)p, E_ARGUMENT,
        "extra_outputs[1].buffers: can only be set for the first output")
    BAD(e[1].first.buffer_count = 3, E_ARGUMENT, "extra_outputs[1].buffer_count: can only be set for the first output")
    BAD(e[1].first.palette = 2, E_ARGUMENT, "extra_outputs[1].palette: 2")
    BAD(p->c.output.palette = 2, E_ARGUMENT, "output.palette: 2")
    BAD(e[0].first.palette = 1, E_ARGUMENT, "extra_outputs[0].palette: another output has the same field, which is ")
    BAD(e[1].first.reserved[6] = 3, E_STRUCT_SIZE, "extra_outputs[1].reserved[6]: a reserved word must be 0")
    BAD(p->c.output.name = "image", E_ARGUMENT, "output.name: is only for extra_outputs")
    BAD(p->c.output.field = "image", E_ARGUMENT, "output.field: is only for extra_outputs")
    BAD(p->c.output.warp = &p->c.warp, E_ARGUMENT, "output.warp: is only for extra_outputs")
    BAD(p->c.output.filter = &p->c.filter, E_ARGUMENT, "output.filter: is only for extra_outputs")
    BAD(p->c.output.color = &p->c.color, E_ARGUMENT, "output.color: is only for extra_outputs")
    BAD(p->c.output.augment = &p->c.augment, E_ARGUMENT, "output.augment: is only for extra_outputs")
    BAD(e[2].field = "nothing"; p->c.decode.decoder = BZNA_DECODER_SOFTWARE, E_NOT_FOUND, "extra_outputs[2].field: ")
    return (refusal){ BZNA_OK, NULL };
}

static refusal spoil_groups(plan *p, int i)
{
    extra *e = p->extra;
    BAD(e[0].warp.kind = 9, E_ARGUMENT, "extra_outputs[0].warp.kind: 9")
    BAD(e[0].warp.scale[0] = NAN, E_ARGUMENT, "extra_outputs[0].warp.scale")
    BAD(e[0].filter.kind = 7, E_ARGUMENT, "extra_outputs[0].filter.kind: 7")
    BAD(e[0].filter.antialias = 3, E_ARGUMENT, "extra_outputs[0].filter.antialias: 3")
    BAD(e[2].color.std[1] = -1, E_ARGUMENT, "extra_outputs[2].color.std: -1 is not in 0..")
    BAD(e[2].color.fill_space = 2, E_ARGUMENT, "extra_outputs[2].color.fill_space: 2")
    BAD(e[2].color.matrix = 7, E_ARGUMENT, "extra_outputs[2].color.matrix: 7")
    BAD(e[2].color.mean[0] = e[2].color.scale[0] = 1, E_ARGUMENT, "extra_outputs[2].color.mean, std, bias, scale: ")
    BAD(e[2].color.bias[0] = INFINITY, E_ARGUMENT, "extra_outputs[2].color.bias: inf is not a finite number")
    BAD(e[2].color.reserved[1] = 1, E_STRUCT_SIZE, "extra_outputs[2].color.reserved[1]: a reserved word must be 0")
    BAD(e[2].color.reserved0 = 1, E_STRUCT_SIZE, "extra_outputs[2].color.reserved0: a reserved word must be 0")
    BAD(e[0].filter.reserved[0] = 1, E_STRUCT_SIZE, "extra_outputs[0].filter.reserved[0]: a reserved word must be 0")
    BAD(e[0].warp.reserved[3] = 1, E_STRUCT_SIZE, "extra_outputs[0].warp.reserved[3]: a reserved word must be 0")
    return (refusal){ BZNA_OK, NULL };
}

/* A mean image of the first output is there: of its size, with one number that is none. */
static refusal spoil_mean(plan *p, int i)
{
    bzna_loader_color *c = &p->c.color, *own = &p->extra[2].color;
    extra *e = p->extra;
    e[0].own_color = 1;
    c->mean[0] = 0;
    c->mean_image = bad_mean;
    c->mean_image_bytes = sizeof bad_mean;
    BAD(c->mean_image_bytes = 0, E_ARGUMENT, "color.mean_image_bytes: 0 bytes, not the 4608 of float32 [3, 16, 24]")
    BAD(c->mean_image_bytes += 4, E_ARGUMENT, "color.mean_image_bytes: 4612 bytes, not the 4608")
    BAD(c->mean_image = NULL, E_ARGUMENT, "color.mean_image_bytes: 4608 bytes at NULL")
    BAD(c->mean[0] = 100, E_ARGUMENT, "color.mean_image: not together with mean or bias")
    BAD(c->std[0] = c->std[1] = c->std[2] = 0; c->bias[2] = 1, E_ARGUMENT, "color.mean_image: not together")
    BAD(e[0].own_color = 0; c->mean_image = whole_mean, E_ARGUMENT,
        "extra_outputs[0].color: the first output's mean image: 4608 bytes, not the 1716")
    BAD(c->mean_image = whole_mean; own->mean_image = a_mean; own->mean_image_bytes = 1276, E_ARGUMENT,
        "extra_outputs[2].color.mean_image_bytes: 1276")
    BAD(, E_ARGUMENT, "color.mean_image: number 2 is not finite")
    whole_mean[9] = i == 0 ? INFINITY : 0;
    BAD(c->mean_image = own->mean_image = whole_mean; own->mean_image_bytes = 1280, E_ARGUMENT,
        "color.mean_image: number 9 is not finite")
    BAD(c->mean_image = whole_mean; own->mean_image = bad_mean; own->mean_image_bytes = 1280, E_ARGUMENT,
        "extra_outputs[2].color.mean_image: number 2 is not finite")
    return (refusal){ BZNA_OK, NULL };
}

TEST(outputs_that_cannot_be_made_are_refused_by_name)
{
    static refusal (*const lists[])(plan *, int) = { spoil_list, spoil_output, spoil_groups, spoil_mean };
    for (size_t list = 0; list < COUNT(lists); list++)
        for (int i = 0;; i++) {
            plan p = plan_dino(archives);
            bzna_loader *loader = (bzna_loader *)&p;
            bzna_error e = { .struct_size = sizeof e };
            refusal wanted;
            plan_finish(&p);
            wanted = lists[list](&p, i);
            plan_fill(&p);
            if (!wanted.message)
                break;
            CHECK_EQ(bzna_loader_open(context, archives, &p.c, &loader, &e), wanted.status);
            CHECK(loader == NULL && !strncmp(e.message, "loader_config.", 14));
            CHECK(!strncmp(e.message + 14, wanted.message, strlen(wanted.message)));
            if (strncmp(e.message + 14, wanted.message, strlen(wanted.message)))
                printf("  %s\n  not %s\n", e.message, wanted.message);
        }
}

/* A column may not be called as an output is, nor the other way round. */
TEST(names_of_outputs_and_fields_do_not_meet)
{
    plan p = plan_fields();
    bzna_loader *loader = NULL;
    bzna_error e = { .struct_size = sizeof e };
    p.extra[1].name = "cls";
    plan_finish(&p);
    p.c.fields.tensors = "cls";
    CHECK_EQ(bzna_loader_open(context, tars, &p.c, &loader, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "\"cls\"");
}

#if TEST_NVDEC
/* ---- On the device ---- */

/* Thirteen views in four outputs: each picture is decoded and mapped once, and an output's views share launches. */
TEST(views_share_decoding_mapping_and_launches)
{
    const fake_control *control = fake_load()->control;
    plan p = plan_dino(archives);
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    long long decodes, launches, slots, made = 0;
    const int64_t samples = 20 * SAMPLES;
    p.c.order.epochs = 20;
    loader = plan_open(&p, context);
    decodes = control->decodes;                             /* some may have begun */
    launches = control->launches;
    slots = control->slots;
    while (loader && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        if (info_of(batch).epoch == 10)
            made = control->mem_allocs + control->host_allocs + control->events_created;
        bzna_batch_release(batch);
    }
    CHECK_EQ(control->mem_allocs + control->host_allocs + control->events_created, made);
    CHECK(control->decodes - decodes <= samples && control->decodes - decodes > samples / 2);
    /* twice, since contrast needs the mean of each first */
    CHECK(control->slots - slots <= 2 * 13 * samples && control->slots - slots > 13 * samples);
    CHECK(control->launches - launches <= 2 * 4 * samples);
    CHECK_EQ(control->violations, 0);
    bzna_loader_close(loader);
}

TEST(outputs_of_several_fields_are_not_decoded_by_nvdec)
{
    plan p = plan_dino(archives);
    bzna_loader *loader = NULL;
    bzna_loader_info info = { .struct_size = sizeof info };
    bzna_error e = { .struct_size = sizeof e };
    p.extra[0].field = "thumb";
    plan_finish(&p);
    p.c.decode.decoder = BZNA_DECODER_NVDEC;
    CHECK_EQ(bzna_loader_open(context, archives, &p.c, &loader, &e), BZNA_E_UNSUPPORTED);
    CHECK_CONTAINS(e.message, "loader_config.decode.decoder: outputs of several fields");
#undef bzna_loader_open
    p.c.decode.decoder = BZNA_DECODER_AUTO;
    CHECK_EQ(bzna_loader_open(context, archives, &p.c, &loader, &e), BZNA_OK);
    CHECK_EQ(bzna_loader_get_info(loader, &info, sizeof info, NULL), BZNA_OK);
    CHECK_EQ(info.decoder, BZNA_DECODER_SOFTWARE);
    CHECK_CONTAINS(info.decoder_reason, "outputs of several fields are decoded in software");
    CHECK_EQ(walk_loader(&p, loader), 2 * SAMPLES);
    bzna_loader_close(loader);
}

TEST(pictures_that_are_drawn_into_are_not_decoded_by_nvdec)
{
    plan p = plan_of(archives);
    bzna_loader *loader = NULL;
    bzna_error e = { .struct_size = sizeof e };
    bzna_loader_info info = { .struct_size = sizeof info };
    p.c.pipeline.picture = invert;
    p.c.decode.decoder = BZNA_DECODER_NVDEC;
    CHECK(bzna_loader_open(context, archives, &p.c, &loader, &e) < 0);
    CHECK_CONTAINS(e.message,
                   "loader_config.decode.decoder: pipeline.picture needs pictures that are decoded in software");
    p.c.decode.decoder = BZNA_DECODER_AUTO;
    CHECK_EQ(bzna_loader_open(context, archives, &p.c, &loader, &e), BZNA_OK);
    CHECK_EQ(bzna_loader_get_info(loader, &info, sizeof info, NULL), BZNA_OK);
    CHECK_EQ(info.decoder, BZNA_DECODER_SOFTWARE);
    CHECK_CONTAINS(info.decoder_reason, "pipeline.picture needs pictures that are decoded in software");
    bzna_loader_close(loader);
}
#endif

int main(int argc, char **argv)
{
    (void)argc;
    test_start(argv);
    require(bzna_context_open(NULL, &context, NULL), "context");
    tars_make();
    archives_make();
#if TEST_NVDEC
    plan first = plan_dino(archives); /* checks the context's sessions, which decode pictures of their own */
    walk(&first);
#endif
    RUN(each_view_has_random_numbers_of_its_own_and_the_first_is_that_of_a_single_view)
    RUN(outputs_of_one_picture_have_their_own_sizes_types_views_warps_and_colors)
    RUN(outputs_of_other_pictures_share_the_first_ones_warp_or_have_their_own)
    RUN(a_shared_warp_shows_the_same_part_of_a_picture_of_another_size)
    RUN(a_mask_keeps_its_class_numbers)
    RUN(an_archives_palette_masks_have_their_class_numbers)
    RUN(outputs_do_not_depend_on_threads)
    RUN(a_callback_is_told_output_and_view_and_what_it_breaks_costs_the_sample_alone)
    RUN(rules_and_geometry_know_what_was_drawn_whoever_decodes)
    RUN(what_a_callback_makes_of_a_view_holds_for_the_outputs_that_share_it)
    RUN(a_callback_draws_into_pictures_before_they_are_warped)
    RUN(zeros_that_a_callback_leaves_are_identities)
    RUN(outputs_are_the_same_without_threads)
    RUN(a_picture_callback_that_fails_costs_its_sample)
    RUN(a_sample_whose_second_field_fails_writes_nothing_over_the_sample_that_replaces_it)
    RUN(what_is_outside_has_the_fill_color_in_each_outputs_type_and_channels)
    RUN(a_mean_image_is_subtracted_pixel_by_pixel)
    RUN(a_picture_that_cannot_be_decoded_fails_its_sample_in_all_outputs)
    RUN(a_sample_without_the_picture_of_an_output_fails)
    RUN(tensors_of_outputs_have_names_numbers_and_dlpack)
    RUN(the_callers_buffers_hold_all_outputs)
#if !TEST_NVDEC
    RUN(an_allocation_that_fails_at_open_leaves_nothing)
    RUN(in_steady_state_nothing_is_allocated)
#endif
    RUN(a_run_with_outputs_goes_on_where_it_stopped)
    RUN(a_state_of_other_outputs_is_refused)
    RUN(outputs_that_cannot_be_made_are_refused_by_name)
    RUN(names_of_outputs_and_fields_do_not_meet)
#if TEST_NVDEC
    RUN(views_share_decoding_mapping_and_launches)
    RUN(outputs_of_several_fields_are_not_decoded_by_nvdec)
    RUN(pictures_that_are_drawn_into_are_not_decoded_by_nvdec)
#endif
    bzna_dataset_close(tars);
    bzna_dataset_close(archives);
    bzna_context_close(context);
    for (unsigned i = 0; i < SAMPLES; i++) {
        coded_clear(&thumbs[i]);
        for (unsigned f = 0; f < FIELDS; f++)
            coded_clear(&known[f][i]);
    }
    archive_clear(&mixed);
    tar_free(&shard);
    printf("%s: %d passed, %d failed, %d skipped\n", __FILE__, test_passed, test_failed, test_skipped);
    return test_failed != 0;
}
#endif
