/* test_stack.c - what stack a thread needs: chapter 4 of benzina.h states it. A thread whose stack was painted before
 * opens, loads and writes data sets of every kind. What is no longer painted, it has used. In loaders without threads
 * the caller reads, decodes and warps, so that this is also what the library's own threads need. */
#include "library.h"
#include "../../examples/formats/formats.h"
#include "test.h"

#if defined(BENZINA_NO_AVCODEC) || defined(BENZINA_NO_JPEG) || defined(BENZINA_NO_WRITER) || \
    defined(BENZINA_NO_FOLDERS) || defined(BENZINA_NO_STILLS) || \
    defined(BENZINA_NO_THREADS) || defined(BENZINA_NO_SHARDS) || defined(BENZINA_NO_AUGMENT) || defined(_WIN32)
TEST(threads_need_no_more_stack_than_is_stated) { SKIP("built without a part of the library"); }
TEST_MAIN(RUN(threads_need_no_more_stack_than_is_stated))
#else

#include <pthread.h>
#include <sys/mman.h>
#include "heif.h"

enum { STACK_BYTES = 8 << 20, PAINT = 0xa5 };

static bzna_context *context;
static uint64_t opened, delivered;

/* The number of kilobytes that the header states, before the words "of stack". */
static long stated_kilobytes(void)
{
    static char text[1 << 18];
    FILE *file = fopen("benzina.h", "r");
    char *at;
    size_t size;
    if (!file)
        return 0;
    size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = 0;
    at = strstr(text, " kB of stack");
    while (at && at > text && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return at ? strtol(at, NULL, 10) : 0;
}

static void load(bzna_dataset *dataset, int heavy)
{
    bzna_policy policies[2];
    bzna_operation erase = { .kind = BZNA_OP_ERASE, .probability = 1 };
    bzna_loader_config c;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_statistics stats;
    bzna_loader_config_init(&c, sizeof c);
    c.output.batch_size = 4;
    c.output.width = c.output.height = 64;
    c.pipeline.no_threads = 1;
    c.order.epochs = 1;
    c.order.kind = BZNA_ORDER_SHUFFLE;
    c.fields.geometry = 1;
    if (heavy) {
        c.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
        c.color.jitter.brightness[0] = 0.6f;
        c.color.jitter.brightness[1] = 1.4f;
        memset(policies, 0, sizeof policies);
        bzna_formats_policy_preset(BZNA_PRESET_RAND_AUGMENT, 2, 9, &policies[0], NULL);
        policies[1].operations = &erase;
        policies[1].operation_count = 1;
        c.augment.policies = policies;
        c.augment.policy_count = 2;
    }
    if (bzna_loader_open(context, dataset, &c, &loader, NULL) != BZNA_OK)
        return;
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_batch_info info;
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        delivered += info.count - info.failed;
        bzna_batch_release(batch);
    }
    bzna_loader_statistics(loader, &stats, sizeof stats, NULL);
    bzna_loader_close(loader);
}

static void load_path(const char *path)
{
    bzna_dataset *dataset = NULL;
    bzna_error err = { .struct_size = sizeof err };
    if (bzna_dataset_open(context, path, NULL, &dataset, &err) != BZNA_OK)
        return;
    opened++;
    for (int heavy = 0; heavy < 2; heavy++)
        load(dataset, heavy);
    bzna_dataset_close(dataset);
}

/* Writes pictures of one archive to another. */
static void write_archive(void)
{
    static uint8_t bytes[1 << 20];
    bzna_dataset *dataset = NULL;
    bzna_writer *writer = NULL;
    bzna_image image;
    bzna_writer_sample sample;
    if (bzna_dataset_open(context, "tests/data/mini_h265.bzna", NULL, &dataset, NULL) != BZNA_OK)
        return;
    bzna_writer_sample_init(&sample, sizeof sample);
    bzna_writer_open(context, TEST_BUILD "/tests/stack.bzna", NULL, &writer, NULL);
    for (uint64_t i = 0; i < bzna_dataset_count(dataset); i++) {
        bzna_image_init(&image, sizeof image);
        bzna_dataset_read_image(dataset, i, NULL, bytes, sizeof bytes, &image, NULL);
        sample.image = &image;
        sample.name = "name";
        bzna_writer_add(writer, BZNA_INDEX_NEXT, &sample, 0, NULL);
    }
    bzna_writer_finish(writer, NULL);
    bzna_writer_close(writer);
    bzna_dataset_close(dataset);
    load_path(TEST_BUILD "/tests/stack.bzna");
}

static void *use_all(void *unused)
{
    static const char *const paths[] = {
        "tests/data/mini_h264.bzna", "tests/data/mini_h265.bzna", "tests/data/slices_h264.bzna",
        "tests/data/seeds/av1.mp4", "tests/data/seeds/h264.mp4",
        "tests/data/seeds/pax.tar", "tests/data/seeds/gnu.tar",
        "tests/data/heif", "tests/data/pictures", "tests/data/seeds",
        "tests/data/no_such_file", "tests/data/mini_h265.json" };
    context = heif_context(NULL);
    for (size_t i = 0; i < COUNT(paths); i++)
        load_path(paths[i]);
    write_archive();
    bzna_context_close(context);
    return unused;
}

static void *nothing(void *unused) { return unused; }

/* Runs a function on a thread with a painted stack, and returns how many bytes of it were used. */
static size_t stack_of(void *(*run)(void *))
{
    uint8_t *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t how;
    pthread_t thread;
    size_t clean = 0;
    if (stack == MAP_FAILED)
        return 0;
    memset(stack, PAINT, STACK_BYTES);
    pthread_attr_init(&how);
    pthread_attr_setstack(&how, stack, STACK_BYTES);
    if (pthread_create(&thread, &how, run, NULL))
        return 0;
    pthread_join(thread, NULL);
    pthread_attr_destroy(&how);
    while (clean < STACK_BYTES && stack[clean] == PAINT)
        clean++;
    munmap(stack, STACK_BYTES);
    return STACK_BYTES - clean;
}

TEST(threads_need_no_more_stack_than_is_stated)
{
    const size_t system = stack_of(nothing), used = stack_of(use_all);
    if (SANITIZED)
        SKIP("a sanitizer's frames are larger");
    printf("stack: %d bytes, and %d of the system's; %d data sets, %d samples\n", (int)(used - system), (int)system,
           (int)opened, (int)delivered);
    CHECK(system > 0 && opened > 9 && delivered > 80);
    CHECK((long)(used - system) <= stated_kilobytes() * 1000);
    CHECK((long)(used - system) > stated_kilobytes() * 1000 / 4);    /* else the number says too much */
}

TEST_MAIN(RUN(threads_need_no_more_stack_than_is_stated))
#endif
