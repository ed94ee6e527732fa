/* generator.c - pictures that are drawn when a loader reads them: any number of shapes of a few classes
 *
 *     cc -std=c11 generator.c benzina.o $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl -o draw
 *     ./draw sheet.ppm [COUNT [READERS]]     the first batch as a picture; loads COUNT samples by READERS threads
 *
 * The library asks for values by number, on its reader threads, several at once. Here a sample's random numbers come
 * from its number alone, so that each epoch, run and machine draws the same pictures. */
#include "example.h"

#include <math.h>
#include <string.h>

enum { EDGE = 64, BATCH = 16 };

static const char *const classes[] = { "disc", "square", "ring" };

static const bzna_provider_field fields[] = {
    { .name = "image", .kind = BZNA_FIELD_IMAGE, .codec = BZNA_CODEC_RAW, .width = EDGE, .height = EDGE, .channels = 3,
      .layout = BZNA_LAYOUT_NHWC },
    { .name = "target", .kind = BZNA_FIELD_INTEGER },
    { .name = "center", .kind = BZNA_FIELD_VECTOR },
};

/* What a picture shows. */
typedef struct shape {
    int64_t kind;
    float   center[2];
    double  radius;
    uint8_t color[3], ground[3];
} shape;

static shape shape_of(uint64_t index)
{
    bzna_random random;
    shape s;

    bzna_random_init(&random, 1234, 0, index, BZNA_RANDOM_USER);
    s.kind = bzna_random_u32(&random) % 3;
    s.radius = bzna_random_uniform(&random, (double)EDGE / 10, (double)EDGE / 4);
    for (int i = 0; i < 2; i++)
        s.center[i] = (float)bzna_random_uniform(&random, s.radius, (double)EDGE - s.radius);
    for (int i = 0; i < 3; i++) {
        s.color[i] = (uint8_t)bzna_random_uniform(&random, 128, 256);
        s.ground[i] = (uint8_t)bzna_random_uniform(&random, 0, 100);
    }
    return s;
}

static void shape_draw(const shape *s, uint8_t *pixels)
{
    for (int y = 0; y < EDGE; y++)
        for (int x = 0; x < EDGE; x++, pixels += 3) {
            const double dx = fabs(x - (double)s->center[0]), dy = fabs(y - (double)s->center[1]);
            const double distance = s->kind == 1 ? fmax(dx, dy) : sqrt(dx * dx + dy * dy);
            const int inside = distance < s->radius && (s->kind != 2 || distance > 0.6 * s->radius);
            memcpy(pixels, inside ? s->color : s->ground, 3);
        }
}

/* A value is written only if it fits; its size is always said. */
static bzna_status generator_read(void *user, uint64_t index, uint32_t field, void *buffer, uint64_t capacity,
                                  uint64_t *size, bzna_error *err)
{
    (void)err;
    const shape s = shape_of(index);
    (void)user;
    *size = field == 0 ? 3 * EDGE * EDGE : field == 1 ? sizeof s.kind : sizeof s.center;
    if (*size > capacity)
        return BZNA_OK;
    if (field == 0)
        shape_draw(&s, buffer);
    else
        memcpy(buffer, field == 1 ? (const void *)&s.kind : s.center, (size_t)*size);
    return BZNA_OK;
}

static void run(bzna_loader *loader, const char *path, bzna_error *err)
{
    uint64_t counts[3] = { 0 }, batches = 0, failed = 0;
    bzna_batch *batch = NULL;
    bzna_status status;

    while ((status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, err)) == BZNA_OK) {
        bzna_batch_info info;
        check(bzna_batch_get_info(batch, &info, sizeof info, err), err);
        for (uint32_t i = 0; i < info.count; i++)
            if (info.targets[i] >= 0)
                counts[info.targets[i] % 3]++;
        failed += info.failed;
        if (batches++ == 0)
            write_ppm(path, info.image.data, EDGE, (int64_t)EDGE * info.count);
        bzna_batch_release(batch);
    }
    check(status, err);
    for (int i = 0; i < 3; i++)
        printf("%" PRIu64 " %s%s, ", counts[i], classes[i], counts[i] == 1 ? "" : "s");
    printf("%" PRIu64 " failed\n", failed);
}

int main(int argc, char **argv)
{
    bzna_provider provider;
    bzna_loader_config config;
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_error err;

    if (argc < 2) { fprintf(stderr, "usage: %s SHEET.PPM [COUNT [READERS]]\n", argv[0]); return 2; }
    bzna_error_init(&err, sizeof err);
    bzna_provider_init(&provider, sizeof provider);
    provider.count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000;
    provider.fields = fields;
    provider.field_count = sizeof fields / sizeof fields[0];
    provider.read = generator_read;
    provider.classes = classes;
    provider.class_count = 3;

    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = BATCH;
    config.output.width = config.output.height = EDGE;
    config.output.dtype = BZNA_DTYPE_UINT8;
    config.output.layout = BZNA_LAYOUT_NHWC;
    config.order.kind = BZNA_ORDER_SHUFFLE;
    config.fields.tensors = "center";
    config.read.threads = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 2;      /* they draw */

    check(bzna_context_open(NULL, &context, &err), &err);
    check(bzna_dataset_open_provider(context, &provider, NULL, &dataset, &err), &err);
    check(bzna_loader_open(context, dataset, &config, &loader, &err), &err);
    run(loader, argv[1], &err);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return 0;
}
