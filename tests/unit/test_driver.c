/* test_driver.c - the driver as it is found: all there, in part, or not at all; and what can be asked of it. On
 * tests/fake's driver. */
#ifndef _GNU_SOURCE
#  define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#  define _FILE_OFFSET_BITS 64
#endif
#ifdef _WIN32
#  define WIN32_LEAN_AND_MEAN
#  define NOGDI
#  include <windows.h>
#  include <process.h>
#else
#  include <dlfcn.h>
#endif
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* Libraries and symbols that the library under test does not find. */
static const char *missing_library[2], *missing_symbol;

__attribute__((unused)) static int is_missing(const char *name)
{
    return (missing_library[0] && !strcmp(name, missing_library[0])) ||
           (missing_library[1] && !strcmp(name, missing_library[1])) ||
           (missing_symbol && !strcmp(name, missing_symbol));
}

/* So many threads and locks can be had, the next one cannot; 0: all. */
static _Atomic int threads_left, locks_left;

__attribute__((unused)) static int is_last(_Atomic int *left)
{
    int seen = *left;
    while (seen && !atomic_compare_exchange_weak(left, &seen, seen - 1)) {}
    return seen == 1;
}

#ifdef _WIN32
#  define LoadLibraryA(name)            (is_missing(name) ? NULL : LoadLibraryA(name))
#  define GetProcAddress(library, name) (is_missing(name) ? NULL : GetProcAddress(library, name))
#  define _beginthreadex(with, size, run, argument, how, id) \
    (is_last(&threads_left) ? 0 : _beginthreadex(with, size, run, argument, how, id))
#else
void *test_dlopen(const char *name, int flags);
void *test_dlopen(const char *name, int flags) { return is_missing(name) ? NULL : dlopen(name, flags); }
void *test_dlsym(void *library, const char *name);
void *test_dlsym(void *library, const char *name) { return is_missing(name) ? NULL : dlsym(library, name); }
int test_pthread_create(pthread_t *thread, const pthread_attr_t *with, void *(*run)(void *), void *argument);
int test_pthread_create(pthread_t *thread, const pthread_attr_t *with, void *(*run)(void *), void *argument)
{
    return is_last(&threads_left) ? EAGAIN : pthread_create(thread, with, run, argument);
}
int test_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *with);
int test_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *with)
{
    return is_last(&locks_left) ? EAGAIN : pthread_mutex_init(mutex, with);
}
int test_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *with);
int test_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *with)
{
    return is_last(&locks_left) ? EAGAIN : pthread_cond_init(cond, with);
}
#  define dlopen             test_dlopen
#  define dlsym              test_dlsym
#  define pthread_create     test_pthread_create
#  define pthread_mutex_init test_pthread_mutex_init
#  define pthread_cond_init  test_pthread_cond_init
#endif
#include "library.h"
#undef LoadLibraryA
#undef GetProcAddress
#undef _beginthreadex
#undef dlopen
#undef dlsym
#undef pthread_create
#undef pthread_mutex_init
#undef pthread_cond_init
#include "test.h"

#if defined(BENZINA_NO_CUDA) || defined(BENZINA_NO_AVCODEC)
TEST(the_driver_is_found_on_the_fake)
{
    SKIP("built without nv-codec-headers, clang or libavcodec [clang libffmpeg-nvenc-dev libavcodec-dev]");
}
TEST_MAIN(RUN(the_driver_is_found_on_the_fake))
#else

#include "archives.h"
#include "../fake/watch.h"
#include <sys/wait.h>

#define NAME_OF(name) #name,

static const char *const cuda_names[] = { BZI_CUDA_SYMBOLS(NAME_OF) BZI_CUDA_OWN_SYMBOLS(NAME_OF) };
static const char *const nvcuvid_names[] = { BZI_NVCUVID_SYMBOLS(NAME_OF) };
#define BEGIN fake_begin(__func__ + 5, 120)                 /* each test's first line */

/* Each test's last line, when its contexts are closed. */
static void finish(void)
{
    missing_library[0] = missing_library[1] = missing_symbol = NULL;
    threads_left = locks_left = 0;
    fake_finish();
}

static const bzna_device on_auto = { BZNA_DEVICE_AUTO, 0 }, on_cpu = { BZNA_DEVICE_CPU, 0 };

static bzna_device on_cuda(int32_t ordinal) { return (bzna_device){ BZNA_DEVICE_CUDA, ordinal }; }

static bzna_context *context_of(bzna_device device)
{
    bzna_context_config config;
    bzna_context *context = NULL;
    bzna_context_config_init(&config, sizeof config);
    config.device = device;
    config.sessions = 3;
    require(bzna_context_open(&config, &context, NULL), "a context");
    return context;
}

static bzna_error no_error(void)
{
    bzna_error e;
    memset(&e, 0, sizeof e);
    e.struct_size = sizeof e;
    return e;
}

/* ---- Loaders ----------------------------------------------------------------------------------------------------- */

enum { WIDTH = 40, HEIGHT = 24, BATCH = 8, FLOATS = BATCH * 3 * WIDTH * HEIGHT };

static bzna_loader_config config_of(uint32_t decoder, bzna_device output)
{
    bzna_loader_config c;
    bzna_loader_config_init(&c, sizeof c);
    c.output.batch_size = BATCH;
    c.output.width = WIDTH;
    c.output.height = HEIGHT;
    c.decode.threads = 2;
    c.order.seed = 5;
    c.order.kind = BZNA_ORDER_SHUFFLE;
    c.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    c.decode.decoder = decoder;
    c.output.device = output;
    return c;
}

/* The fake's device memory is the host's, so that a test can read it once its stream is done. */
static void wait_for(bzna_loader *loader, void *stream)
{
    bzna_error e;
    if (!stream || bzi_device_enter(loader->setup.device, &e) != BZNA_OK)
        return;
    loader->setup.device->cu.cuStreamSynchronize(stream);
    bzi_device_leave(loader->setup.device);
}

/* What a loader delivers, how it describes itself, and where its batches lie. BZNA_OK, or why it cannot be opened. */
static bzna_status one_batch(bzna_context *context, uint32_t decoder, bzna_device output, float *out,
                             bzna_loader_info *loader_info, bzna_device *device, bzna_error *e)
{
    bzna_loader_config c = config_of(decoder, output);
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_status status;
    require(bzna_dataset_open(context, "tests/data/mini_h265.bzna", NULL, &dataset, NULL), "tests/data/mini_h265.bzna");
    status = bzna_loader_open(context, dataset, &c, &loader, e);
    if (status == BZNA_OK) {
        bzna_batch_info info;
        memset(&info, 0, sizeof info);
        memset(loader_info, 0, sizeof *loader_info);
        CHECK_EQ(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), BZNA_OK);
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        bzna_loader_get_info(loader, loader_info, sizeof *loader_info, NULL);
        wait_for(loader, info.stream);
        CHECK_EQ(info.image.bytes, FLOATS * sizeof(float));
        CHECK_EQ(info.failed, 0);
        memcpy(out, info.image.data, FLOATS * sizeof(float));
        *device = info.image.device;
        bzna_batch_release(batch);
    }
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    return status;
}

/* The same pixels as the CPU's, wherever they were decoded and lie. */
static void check_works(bzna_context *context, uint32_t decoder, bzna_device output, uint32_t decodes, bzna_device lies,
                        const char *reason)
{
    static float expected[FLOATS], got[FLOATS];
    bzna_context *cpu = context_of(on_cpu);
    bzna_error e = no_error();
    bzna_loader_info info;
    bzna_device device = on_auto;
    CHECK_EQ(one_batch(cpu, BZNA_DECODER_AUTO, on_auto, expected, &info, &device, &e), BZNA_OK);
    CHECK(device.kind == BZNA_DEVICE_CPU && device.ordinal == 0);
    CHECK_EQ(info.decoder, BZNA_DECODER_SOFTWARE);
    bzna_context_close(cpu);
    device = on_auto;
    if (one_batch(context, decoder, output, got, &info, &device, &e) != BZNA_OK) {
        test_failures++;
        printf("  open: %s\n", e.message);
        return;
    }
    CHECK(!memcmp(expected, got, sizeof got));
    CHECK(device.kind == lies.kind && device.ordinal == lies.ordinal);
    CHECK_EQ(info.decoder, decodes);
    CHECK(info.image.device.kind == lies.kind && info.image.device.ordinal == lies.ordinal);
    if (reason)
        CHECK_CONTAINS(info.decoder_reason, reason);
}

static void check_refused(bzna_context *context, uint32_t decoder, bzna_device output, bzna_status status,
                          const char *why)
{
    static float got[FLOATS];
    bzna_error e = no_error();
    bzna_loader_info info;
    bzna_device device;
    CHECK_EQ(one_batch(context, decoder, output, got, &info, &device, &e), status);
    CHECK_CONTAINS(e.message, decoder == BZNA_DECODER_NVDEC ? "loader_config.decode.decoder" :
                                                              "loader_config.output.device");
    CHECK_CONTAINS(e.message, why);
}

/* Devices that no machine has. */
static const struct { bzna_device device; const char *member; } wrong_devices[] = {
    { { -1, 0 }, ".kind: -1" },                { { 3, 0 }, ".kind: 3" },
    { { BZNA_DEVICE_AUTO, 1 }, ".ordinal: 1" }, { { BZNA_DEVICE_CPU, 1 }, ".ordinal: 1" },
    { { BZNA_DEVICE_CUDA, -1 }, ".ordinal: -1" }, { { BZNA_DEVICE_AUTO, -1 }, ".ordinal: -1" },
};

/* ---- 1. Symbols -------------------------------------------------------------------------------------------------- */

/* In a child, before the fake is loaded here: a copy of a library that truly has not the symbol. */
static int child_lacks(const char *library, const char *symbol)
{
    char from[256], to[256];
    bzna_device_info info;
    bzna_error e = no_error();
    bzna_context *context;
    int is_cuda = !strcmp(library, "libcuda.so.1"), wrong = 0;
    memset(&info, 0, sizeof info);
    snprintf(from, sizeof from, TEST_BUILD "/tests/fake/%s", library);
    snprintf(to, sizeof to, TEST_BUILD "/tests/fake/lacks.%d.%s", (int)getpid(), library);
    if (!fake_without(from, to, symbol))
        return 1;
    if (!dlopen(to, RTLD_NOW | RTLD_LOCAL))
        wrong = 2;
    remove(to);
    context = context_of(on_auto);
    if (is_cuda) {
        wrong |= bzna_context_device_info(context, &info, sizeof info, &e) == BZNA_E_DEVICE &&
                         strstr(e.message, library) && strstr(e.message, symbol) ?
                     0 :
                     4;
    } else {
        wrong |= bzna_context_device_info(context, &info, sizeof info, &e) == BZNA_OK &&
                         info.video == BZNA_E_DEVICE && strstr(info.message, library) && strstr(info.message, symbol) ?
                     0 :
                     8;
    }
    bzna_context_close(context);
    return wrong;
}

TEST(a_library_that_truly_lacks_a_symbol_is_named_with_it)
{
    if (ON_WINDOWS)
        SKIP("nothing forks here");
    static const char *const lacks[][2] = { { "libcuda.so.1", "cuLaunchKernel" },
                                            { "libnvcuvid.so.1", "cuvidMapVideoFrame64" } };
    for (size_t i = 0; i < COUNT(lacks); i++) {
        int result = -1;
        pid_t child;
        fflush(stdout);
        child = fork();
        if (child == 0) {
            alarm(60);
            _exit(child_lacks(lacks[i][0], lacks[i][1]));
        }
        CHECK_EQ(waitpid(child, &result, 0), child);
        CHECK(WIFEXITED(result));
        CHECK_EQ(WEXITSTATUS(result), 0);
    }
}

TEST(each_symbol_of_libcuda_that_is_missing_is_named)
{
    BEGIN;
    CHECK(COUNT(cuda_names) >= 37);
    for (size_t i = 0; i < COUNT(cuda_names); i++) {
        bzna_context *context = context_of(on_auto), *other = NULL;
        bzna_context_config config;
        bzna_device_info info;
        bzna_error e = no_error();
        missing_symbol = cuda_names[i];
        CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, &e), BZNA_E_DEVICE);
        CHECK_CONTAINS(e.message, cuda_names[i]);
        CHECK_CONTAINS(e.message, BZI_OS_CUDA);
        e = no_error();
        CHECK_EQ(bzna_context_device_info(NULL, &info, sizeof info, &e), BZNA_E_DEVICE);
        CHECK_CONTAINS(e.message, cuda_names[i]);
        bzna_context_config_init(&config, sizeof config);
        config.device = on_cuda(0);
        e = no_error();
        CHECK_EQ(bzna_context_open(&config, &other, &e), BZNA_E_DEVICE);
        CHECK(!other);
        CHECK_CONTAINS(e.message, "context_config.device");
        CHECK_CONTAINS(e.message, cuda_names[i]);
        if (i % 10 == 0) {
            check_works(context, BZNA_DECODER_AUTO, on_auto, BZNA_DECODER_SOFTWARE, on_cpu, cuda_names[i]);
            check_refused(context, BZNA_DECODER_NVDEC, on_auto, BZNA_E_DEVICE, cuda_names[i]);
            check_refused(context, BZNA_DECODER_AUTO, on_cuda(0), BZNA_E_DEVICE, cuda_names[i]);
        }
        bzna_context_close(context);
        finish();
    }
}

TEST(each_symbol_of_libnvcuvid_that_is_missing_is_named_and_costs_only_nvdec)
{
    BEGIN;
    CHECK(COUNT(nvcuvid_names) >= 11);
    for (size_t i = 0; i < COUNT(nvcuvid_names); i++) {
        bzna_context *context = context_of(on_auto);
        bzna_device_info info;
        bzna_codec_info codec;
        bzna_error e = no_error();
        memset(&info, 0, sizeof info);
        missing_symbol = nvcuvid_names[i];
        CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, &e), BZNA_OK);
        CHECK_EQ(info.video, BZNA_E_DEVICE);
        CHECK_EQ(info.engines, 0);
        CHECK_CONTAINS(info.message, nvcuvid_names[i]);
        CHECK_CONTAINS(info.message, BZI_OS_NVCUVID);
        CHECK_EQ(bzna_context_codec_info(context, BZNA_CODEC_H265, 1, 8, &codec, sizeof codec, &e), BZNA_E_DEVICE);
        CHECK_CONTAINS(e.message, nvcuvid_names[i]);
        check_refused(context, BZNA_DECODER_NVDEC, on_auto, BZNA_E_DEVICE, nvcuvid_names[i]);
        if (i % 4 == 0) {
            check_works(context, BZNA_DECODER_AUTO, on_cuda(0), BZNA_DECODER_SOFTWARE, on_cuda(0), nvcuvid_names[i]);
            check_works(context, BZNA_DECODER_AUTO, on_cpu, BZNA_DECODER_SOFTWARE, on_cpu, nvcuvid_names[i]);
        }
        bzna_context_close(context);
        finish();
    }
}

/* ---- Where batches lie ------------------------------------------------------------------------------------------- */

TEST(batches_lie_on_the_host_unless_output_device_says_otherwise_and_one_message_says_so)
{
    const struct { bzna_device output, lies; uint32_t decoder; int messages; } cases[] = {
        { on_auto, on_cpu, BZNA_DECODER_AUTO, 1 }, { on_auto, on_cpu, BZNA_DECODER_NVDEC, 1 },
        { on_cpu, on_cpu, BZNA_DECODER_AUTO, 0 },  { on_cuda(0), on_cuda(0), BZNA_DECODER_AUTO, 0 },
        { on_auto, on_cpu, BZNA_DECODER_SOFTWARE, 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const uint32_t decodes = cases[i].decoder == BZNA_DECODER_SOFTWARE ? cases[i].decoder : BZNA_DECODER_NVDEC;
        bzna_context_config config;
        bzna_context *context = NULL;
        messages m;
        BEGIN;
        memset(&m, 0, sizeof m);
        bzna_context_config_init(&config, sizeof config);
        config.log = take_message;
        config.log_user = &m;
        config.log_level = BZNA_LOG_INFO;
        CHECK_EQ(bzna_context_open(&config, &context, NULL), BZNA_OK);
        check_works(context, cases[i].decoder, cases[i].output, decodes, cases[i].lies, NULL);
        CHECK_EQ(m.count, cases[i].messages);
        if (m.count)
            CHECK_CONTAINS(m.text[0], "output.device");
        CHECK_EQ(control->launches > 0, decodes == BZNA_DECODER_NVDEC);
        bzna_context_close(context);
        finish();
    }
}

TEST(a_stream_without_output_on_a_gpu_is_refused)
{
    bzna_context *context;
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_error e = no_error();
    bzna_loader_config c = config_of(BZNA_DECODER_AUTO, on_auto);
    BEGIN;
    context = context_of(on_auto);
    c.output.stream = &c;
    require(bzna_dataset_open(context, "tests/data/mini_h265.bzna", NULL, &dataset, NULL), "tests/data/mini_h265.bzna");
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "loader_config.output.stream");
    c.output.device.kind = BZNA_DEVICE_CPU;
    e = no_error();
    CHECK_EQ(bzna_loader_open(context, dataset, &c, &loader, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "loader_config.output.stream");
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    finish();
}

/* ---- 2. Libraries ------------------------------------------------------------------------------------------------ */

TEST(without_a_driver_auto_works_on_the_cpu_and_a_device_by_number_is_refused)
{
    bzna_context_config config;
    bzna_context *context = NULL, *other = NULL;
    bzna_device_info info;
    bzna_codec_info codec;
    bzna_error e = no_error();
    messages m;
    BEGIN;
    memset(&m, 0, sizeof m);
    missing_library[0] = BZI_OS_CUDA;
    missing_library[1] = BZI_OS_NVCUVID;
    bzna_context_config_init(&config, sizeof config);
    config.log = take_message;
    config.log_user = &m;
    config.log_level = BZNA_LOG_INFO;
    CHECK_EQ(bzna_context_open(&config, &context, &e), BZNA_OK);
    check_works(context, BZNA_DECODER_AUTO, on_auto, BZNA_DECODER_SOFTWARE, on_cpu,
                BZI_OS_CUDA " was not found: there is no NVIDIA driver here");
    check_works(context, BZNA_DECODER_SOFTWARE, on_cpu, BZNA_DECODER_SOFTWARE, on_cpu, NULL);
    check_refused(context, BZNA_DECODER_NVDEC, on_cpu, BZNA_E_DEVICE, BZI_OS_CUDA);
    check_refused(context, BZNA_DECODER_SOFTWARE, on_cuda(0), BZNA_E_DEVICE, BZI_OS_CUDA);
    CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, &e), BZNA_E_DEVICE);
    CHECK_CONTAINS(e.message, BZI_OS_CUDA);
    CHECK_EQ(bzna_context_codec_info(context, BZNA_CODEC_H265, 1, 8, &codec, sizeof codec, &e), BZNA_E_DEVICE);
    CHECK_EQ(bzna_context_device_info(NULL, &info, sizeof info, &e), BZNA_E_DEVICE);
    CHECK_EQ(m.count, 1);                                   /* once, not for every loader */
    CHECK_CONTAINS(m.text[0], "no GPU");
    config.device = on_cuda(0);
    CHECK_EQ(bzna_context_open(&config, &other, &e), BZNA_E_DEVICE);
    CHECK(!other);
    CHECK_CONTAINS(e.message, "context_config.device");
    CHECK_CONTAINS(e.message, BZI_OS_CUDA);
    bzna_context_close(context);
    for (int i = 0; i < FAKE_FUNCTION_COUNT; i++)
        CHECK_EQ(control->calls[i], 0);
    finish();
}

TEST(without_libnvcuvid_the_device_is_usable_and_says_which_capability_containers_need)
{
    bzna_context *context;
    bzna_device_info info;
    bzna_codec_info codec;
    bzna_error e = no_error();
    BEGIN;
    memset(&info, 0, sizeof info);
    missing_library[0] = BZI_OS_NVCUVID;
    context = context_of(on_cuda(0));
    CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, &e), BZNA_OK);
    CHECK_EQ(info.video, BZNA_E_DEVICE);
    CHECK_EQ(info.engines, 0);
    CHECK_STR(info.message, BZI_OS_NVCUVID " was not found: the driver's video part is not installed "
                            "(in a container: set NVIDIA_DRIVER_CAPABILITIES=compute,video)");
    CHECK_EQ(bzna_context_codec_info(context, BZNA_CODEC_H265, 1, 8, &codec, sizeof codec, &e), BZNA_E_DEVICE);
    CHECK_CONTAINS(e.message, "NVIDIA_DRIVER_CAPABILITIES");
    check_refused(context, BZNA_DECODER_NVDEC, on_cuda(0), BZNA_E_DEVICE, "NVIDIA_DRIVER_CAPABILITIES");
    check_refused(context, BZNA_DECODER_NVDEC, on_cpu, BZNA_E_DEVICE, "video");
    check_works(context, BZNA_DECODER_AUTO, on_cuda(0), BZNA_DECODER_SOFTWARE, on_cuda(0), BZI_OS_NVCUVID);
    check_works(context, BZNA_DECODER_SOFTWARE, on_cuda(0), BZNA_DECODER_SOFTWARE, on_cuda(0), NULL);
    CHECK(control->launches > 0);
    check_works(context, BZNA_DECODER_AUTO, on_cpu, BZNA_DECODER_SOFTWARE, on_cpu, BZI_OS_NVCUVID);
    bzna_context_close(context);
    finish();
}

TEST(a_driver_that_cannot_start_leaves_auto_on_the_cpu)
{
    static const struct {
        const char *function;
        int code;
    } ways[] = { { "cuInit", 34 },
                 { "cuInit", 100 },
                 { "cuInit", 803 },
                 { "cuInit", 999 },
                 { "cuDeviceGetCount", 999 },
                 { "cuDevicePrimaryCtxRetain", 46 },
                 { "cuDevicePrimaryCtxRetain", 101 },
                 { "cuModuleLoadData", 222 } };
    BEGIN;
    for (size_t i = 0; i < COUNT(ways); i++) {
        bzna_context *context = context_of(on_auto), *other = NULL;
        bzna_context_config config;
        bzna_error e = no_error();
        char number[16];
        snprintf(number, sizeof number, "(%d)", ways[i].code);
        fake->fail(ways[i].function, 1, ways[i].code, 1);
        check_works(context, BZNA_DECODER_AUTO, on_auto, BZNA_DECODER_SOFTWARE, on_cpu, number);
        check_refused(context, BZNA_DECODER_NVDEC, on_auto, BZNA_E_DEVICE, number);
        bzna_context_config_init(&config, sizeof config);
        config.device = on_cuda(0);
        CHECK_EQ(bzna_context_open(&config, &other, &e), BZNA_E_DEVICE);
        CHECK_EQ(e.native_code, ways[i].code);
        bzna_context_close(context);
        finish();
    }
    {
        bzna_context *context = context_of(on_auto);
        bzna_device_info info;
        bzna_error e = no_error();
        control->devices = 0;
        CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, &e), BZNA_E_DEVICE);
        CHECK_EQ(bzna_context_device_info(NULL, &info, sizeof info, &e), BZNA_E_DEVICE);
        check_works(context, BZNA_DECODER_AUTO, on_auto, BZNA_DECODER_SOFTWARE, on_cpu,
                    "no NVDEC: cuInit: CUDA_ERROR_NO_DEVICE (100)");
        bzna_context_close(context);
        finish();
    }
    {
        bzna_context *context = context_of(on_auto);
        bzna_device_info info;
        bzna_error e = no_error();
        control->capability_major = 5;
        control->capability_minor = 2;
        CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, &e), BZNA_E_DEVICE);
        CHECK_CONTAINS(e.message, "Fake GPU has compute capability 5.2: 6.0 is needed");
        check_works(context, BZNA_DECODER_AUTO, on_auto, BZNA_DECODER_SOFTWARE, on_cpu, "5.2");
        bzna_context_close(context);
        finish();
    }
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

TEST(nothing_of_the_driver_is_touched_before_it_is_needed)
{
    bzna_context *context;
    bzna_context_config config;
    BEGIN;
    context = context_of(on_auto);
    check_works(context, BZNA_DECODER_SOFTWARE, on_cpu, BZNA_DECODER_SOFTWARE, on_cpu, NULL);
    bzna_context_close(context);
    context = context_of(on_cpu);
    check_works(context, BZNA_DECODER_AUTO, on_auto, BZNA_DECODER_SOFTWARE, on_cpu, NULL);
    check_refused(context, BZNA_DECODER_NVDEC, on_auto, BZNA_E_DEVICE, "context_config.device is BZNA_DEVICE_CPU");
    check_refused(context, BZNA_DECODER_AUTO, on_cuda(0), BZNA_E_DEVICE, "BZNA_DEVICE_CPU");
    bzna_context_close(context);
    CHECK_EQ(control->calls[FAKE_cuInit], 0);
    context = context_of(on_cuda(0));                       /* by number: at once */
    CHECK(control->calls[FAKE_cuInit] > 0);
    CHECK_EQ(control->calls[FAKE_cuModuleLoadData], 1);
    bzna_context_close(context);
    bzna_context_config_init(&config, sizeof config);
    for (size_t i = 0; i < COUNT(wrong_devices); i++) {
        bzna_error e = no_error();
        config.device = wrong_devices[i].device;
        CHECK_EQ(bzna_context_open(&config, &context, &e), BZNA_E_ARGUMENT);
        CHECK_CONTAINS(e.message, "context_config.device");
        CHECK_CONTAINS(e.message, wrong_devices[i].member);
    }
    config.device = on_auto;
    config.sessions = 257;
    CHECK_EQ(bzna_context_open(&config, &context, NULL), BZNA_E_ARGUMENT);
    finish();
}

/* Each call of opening fails in turn: an error, and nothing left; and memory is asked for again the next time. */
TEST(whatever_fails_when_the_device_is_opened_is_told_and_leaves_nothing)
{
    static const int codes[] = { 1, 2, 719, 999 };
    BEGIN;
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
        for (int i = 0; i < 4; i++)
            for (long long k = 1; k <= 3; k++) {
                bzna_context *context = context_of(on_auto);
                bzna_device_info info;
                bzna_error e = no_error();
                bzna_status status;
                long long came;
                memset(&info, 0, sizeof info);
                fake->fail(fake->name(f), k, codes[i], 0);
                status = bzna_context_device_info(context, &info, sizeof info, &e);
                came = control->calls[f] >= k;
                fake->fail(fake->name(f), 0, 0, 0);
                CHECK(status == BZNA_OK || e.message[0]);
                CHECK(status == BZNA_OK || status == BZNA_E_DEVICE || (status == BZNA_E_MEMORY && codes[i] == 2) ||
                      (status == BZNA_E_DEVICE_LOST && codes[i] == 719));
                CHECK(came || status == BZNA_OK);
                if (status == BZNA_E_MEMORY)
                    CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, NULL), BZNA_OK);
                else if (status != BZNA_OK)
                    CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, NULL), status);
                bzna_context_close(context);
                if (!control->lost)
                    CHECK_EQ(control->calls[FAKE_cuCtxPushCurrent_v2] - control->calls[FAKE_cuCtxPopCurrent_v2],
                             f == FAKE_cuCtxPushCurrent_v2 && came ? 1 : 0);
                finish();
                if (!came)
                    break;
            }
}

/* Fails one allocation. */
typedef struct miser {
    int64_t fail_at, blocks;
} miser;

static void *miser_alloc(void *user, size_t size, size_t align)
{
    miser *m = user;
    void *p = NULL;
    if (m->fail_at && --m->fail_at == 0)
        return NULL;
    m->blocks++;
    return posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, size) ? NULL : p;
}

static void miser_release(void *user, void *ptr, size_t size)
{
    miser *m = user;
    (void)size;
    m->blocks--;
    free(ptr);
}

TEST(without_host_memory_the_device_is_not_opened_and_may_be_later)
{
    BEGIN;
    for (int64_t at = 1; at < 5; at++) {
        miser m = { 0, 0 };
        bzna_context_config config;
        bzna_context *context = NULL;
        bzna_device_info info;
        bzna_error e = no_error();
        bzna_status status;
        bzna_context_config_init(&config, sizeof config);
        config.allocator = (bzna_allocator){ &m, miser_alloc, miser_release };
        require(bzna_context_open(&config, &context, NULL), "a context");
        m.fail_at = at;
        status = bzna_context_device_info(context, &info, sizeof info, &e);
        CHECK(status == (m.fail_at ? BZNA_OK : BZNA_E_MEMORY));
        CHECK(at > 1 || status == BZNA_E_MEMORY);
        m.fail_at = 0;
        CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, &e), BZNA_OK);
        bzna_context_close(context);
        CHECK_EQ(m.blocks, 0);
        finish();
    }
}

typedef struct asker {
    bzna_context *context;
    pthread_t     thread;
    int           wrong;
} asker;

static void *ask(void *argument)
{
    asker *a = argument;
    bzna_device_info info;
    bzna_codec_info codec;
    for (int i = 0; i < 20; i++) {
        memset(&info, 0, sizeof info);
        a->wrong += bzna_context_device_info(a->context, &info, sizeof info, NULL) != BZNA_OK || info.engines != 7;
        a->wrong += bzna_context_codec_info(a->context, BZNA_CODEC_H264 + (uint32_t)i % 3, (uint32_t)i % 4,
                                                8 + 2 * ((uint32_t)i % 3), &codec, sizeof codec, NULL) != BZNA_OK;
    }
    return NULL;
}

/* Each lock, then each thread, that a loader needs is the one that cannot be had, until there are enough for all. */
TEST(a_thread_or_a_lock_that_cannot_be_had_is_said_and_leaves_nothing)
{
    int met = 0;
    BEGIN;
    for (int of_locks = 0; of_locks < 2; of_locks++) {
        bzna_status status = BZNA_E_THREAD;
        for (int at = 1; at < 200 && status == BZNA_E_THREAD; at++) {
            bzna_context *context = context_of(on_auto);
            bzna_loader_config c = config_of(BZNA_DECODER_NVDEC, on_cuda(0));
            bzna_dataset *dataset = NULL;
            bzna_loader *loader = NULL;
            bzna_error e = no_error();
            require(bzna_dataset_open(context, "tests/data/mini_h265.bzna", NULL, &dataset, NULL), "mini_h265.bzna");
            *(of_locks ? &locks_left : &threads_left) = at;
            status = bzna_loader_open(context, dataset, &c, &loader, &e);
            if (status != BZNA_OK) {
                CHECK_EQ(status, BZNA_E_THREAD);
                CHECK(!loader && (strstr(e.message, "cannot make a lock") || strstr(e.message, "cannot start")));
                CHECK(!strstr(e.message, "processor"));
                met += strstr(e.message, "context_config.sessions: cannot start session 1 of 3: ") != NULL;
            }
            bzna_loader_close(loader);
            bzna_dataset_close(dataset);
            bzna_context_close(context);
            finish();
        }
        CHECK_EQ(status, BZNA_OK);
    }
    CHECK_EQ(met, 1);
}

/* Its code is there still. */
TEST(an_error_that_the_driver_has_no_name_for_is_called_unknown)
{
    bzna_context *context;
    bzna_device_info info;
    bzna_error e = no_error();
    BEGIN;
    context = context_of(on_auto);
    fake->fail("cuDeviceTotalMem_v2", 1, 12345, 1);
    CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, &e), BZNA_E_DEVICE);
    CHECK_STR(e.message, "cuDeviceTotalMem: unknown error (12345)");
    CHECK_EQ(e.native_code, 12345);
    bzna_context_close(context);
    finish();
}

TEST(many_threads_may_ask_a_context_first_and_make_one_device)
{
    BEGIN;
    for (int round = 0; round < 5; round++) {
        asker askers[8];
        bzna_context *context = context_of(on_auto);
        control->seed = round + 1;
        control->call_delay_us = 200;
        for (int i = 0; i < 8; i++) {
            askers[i].context = context;
            askers[i].wrong = 0;
            REQUIRE(pthread_create(&askers[i].thread, NULL, ask, &askers[i]) == 0);
        }
        for (int i = 0; i < 8; i++) {
            pthread_join(askers[i].thread, NULL);
            CHECK_EQ(askers[i].wrong, 0);
        }
        bzna_context_close(context);
        finish();
    }
}

/* 465, of CUDA 11.3, corrupts memory: what was before it and behind it does not. */
TEST(a_driver_that_corrupts_memory_is_not_asked_to_decode_and_the_message_says_what_to_do)
{
    BEGIN;
    for (int i = 0; i < 3; i++) {
        bzna_context *context;
        bzna_device_info info;
        bzna_codec_info codec;
        bzna_error e = no_error();
        control->driver_version = (const int[3]){ 11020, 11030, 11040 }[i];
        context = context_of(on_auto);
        CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, &e), BZNA_OK);
        CHECK_EQ(info.video, i == 1 ? BZNA_E_DEVICE : BZNA_OK);
        if (i == 1) {
            CHECK_CONTAINS(info.message, "update the driver");
            CHECK_EQ(bzna_context_codec_info(context, BZNA_CODEC_H265, 1, 8, &codec, sizeof codec, &e),
                     BZNA_E_DEVICE);
            CHECK_CONTAINS(e.message, "update the driver");
            check_works(context, BZNA_DECODER_AUTO, on_cuda(0), BZNA_DECODER_SOFTWARE, on_cuda(0), "update the driver");
            check_refused(context, BZNA_DECODER_NVDEC, on_auto, BZNA_E_DEVICE, "update the driver");
            CHECK_EQ(control->creates + control->decodes, 0);
        }
        bzna_context_close(context);
        finish();
    }
}

TEST(why_the_kernel_could_not_be_compiled_is_said_in_words)
{
    static const struct { int code; const char *words; } ways[] = {
        { 221, "libnvidia-ptxjitcompiler.so.1 was not found; it is a part of the driver" },
        { 222, "the driver is too old for this kernel" },
        { 223, "unset CUDA_DISABLE_PTX_JIT: the driver must compile the kernel" },
        { 304, "~/.nv/ComputeCache, or CUDA_CACHE_PATH, must be writable" },
    };
    BEGIN;
    for (size_t i = 0; i < COUNT(ways); i++) {
        bzna_context *context = context_of(on_auto);
        bzna_device_info info;
        bzna_error e = no_error();
        fake->fail("cuModuleLoadData", 1, ways[i].code, 1);
        CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, &e), BZNA_E_DEVICE);
        CHECK_EQ(e.native_code, ways[i].code);
        CHECK_CONTAINS(e.message, ways[i].words);
        CHECK(strlen(e.message) < sizeof e.message - 1);    /* nothing is cut off */
        check_works(context, BZNA_DECODER_AUTO, on_auto, BZNA_DECODER_SOFTWARE, on_cpu, "cuModuleLoadData");
        bzna_context_close(context);
        finish();
    }
}

/* ---- Devices ----------------------------------------------------------------------------------------------------- */

TEST(a_device_is_described_as_the_driver_has_it)
{
    bzna_context *context;
    bzna_device_info info, part;
    bzna_error e = no_error();
    BEGIN;
    control->devices = 3;
    control->memory_total = 141ll << 30;
    control->capability_major = 10;
    control->capability_minor = 3;
    control->driver_version = 13010;
    control->engines = 5;
    CHECK_EQ(bzna_context_device_info(NULL, &info, sizeof info, &e), BZNA_OK);
    CHECK_EQ(info.device_count, 3);
    CHECK_EQ(info.driver, 0);
    CHECK_EQ(bzna_context_device_info(NULL, NULL, sizeof info, &e), BZNA_E_ARGUMENT);
    context = context_of(on_cuda(2));
    memset(&info, 0xee, sizeof info);
    CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, &e), BZNA_OK);
    CHECK_EQ(info.struct_size, sizeof info);
    CHECK(info.device.kind == BZNA_DEVICE_CUDA && info.device.ordinal == 2 && info.device_count == 3);
    CHECK_EQ(info.memory_bytes, 141ull << 30);
    CHECK(info.compute_major == 10 && info.compute_minor == 3);
    CHECK_EQ(info.driver, 13010);
    CHECK_EQ(info.engines, 5);
    CHECK_EQ(info.sessions, 0);
    CHECK_EQ(info.video, BZNA_OK);
    CHECK_STR(info.name, "Fake GPU");
    CHECK_STR(info.message, "");
    memset(&part, 0xee, sizeof part);                       /* a caller of an older version */
    CHECK_EQ(bzna_context_device_info(context, &part, offsetof(bzna_device_info, compute_major), &e), BZNA_OK);
    CHECK_EQ(part.memory_bytes, info.memory_bytes);
    CHECK_EQ(part.compute_major, 0xeeeeeeee);
    CHECK_EQ(bzna_context_device_info(context, NULL, sizeof info, &e), BZNA_E_ARGUMENT);
    check_works(context, BZNA_DECODER_AUTO, on_cuda(0), BZNA_DECODER_NVDEC, on_cuda(2), NULL);
    CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, &e), BZNA_OK);
    CHECK_EQ(info.sessions, 3);
    bzna_context_close(context);
    finish();
}

TEST(a_device_that_is_not_there_is_refused_with_the_number_that_there_are)
{
    bzna_context_config config;
    bzna_context *context = NULL;
    bzna_error e = no_error();
    BEGIN;
    control->devices = 2;
    bzna_context_config_init(&config, sizeof config);
    config.device = on_cuda(2);
    CHECK_EQ(bzna_context_open(&config, &context, &e), BZNA_E_DEVICE);
    CHECK(!context);
    CHECK_CONTAINS(e.message, "context_config.device");
    CHECK_CONTAINS(e.message, "there is no CUDA device 2; the driver sees 2");
    config.device = on_cuda(INT32_MAX);
    CHECK_EQ(bzna_context_open(&config, &context, &e), BZNA_E_DEVICE);
    finish();
}

TEST(a_device_that_opens_says_nothing_of_having_no_gpu)
{
    messages m = { 0 };
    bzna_context_config config;
    bzna_context *context = NULL;
    bzna_device_info info;
    bzna_error e = no_error();
    BEGIN;
    bzna_context_config_init(&config, sizeof config);
    config.log = take_message;
    config.log_user = &m;
    config.log_level = BZNA_LOG_DEBUG;
    CHECK_EQ(bzna_context_open(&config, &context, &e), BZNA_OK);
    CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, &e), BZNA_OK);
    bzna_context_close(context);
    CHECK_EQ(m.count, 0);
    finish();
}

TEST(batches_lie_on_the_contexts_device_and_no_other)
{
    bzna_context *context;
    BEGIN;
    control->devices = 3;
    context = context_of(on_cuda(2));
    for (uint32_t decoder = BZNA_DECODER_AUTO; decoder <= BZNA_DECODER_SOFTWARE; decoder++) {
        const uint32_t decodes = decoder == BZNA_DECODER_AUTO ? BZNA_DECODER_NVDEC : BZNA_DECODER_SOFTWARE;
        check_works(context, decoder, on_cuda(2), decodes, on_cuda(2), NULL);
        check_refused(context, decoder, on_cuda(1), BZNA_E_ARGUMENT, ".ordinal: 1; the context's device is 2");
        check_works(context, decoder, on_cuda(0), decodes, on_cuda(2), NULL); /* 0: the context's, whichever it is */
        check_refused(context, decoder, on_cuda(3), BZNA_E_ARGUMENT, ".ordinal: 3; the context's device is 2");
        check_works(context, decoder, on_cpu, decodes, on_cpu, NULL);
        for (size_t i = 0; i < COUNT(wrong_devices); i++)
            check_refused(context, decoder, wrong_devices[i].device, BZNA_E_ARGUMENT, wrong_devices[i].member);
    }
    bzna_context_close(context);
    finish();
}

TEST(auto_takes_the_device_that_is_current_on_the_thread_and_contexts_of_users_must_be_of_the_device)
{
    tcuInit *init;
    tcuCtxCreate_v2 *create;
    tcuCtxDestroy_v2 *destroy;
    tcuCtxPopCurrent_v2 *pop;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbols[4] = { dlsym(library, "cuInit"), dlsym(library, "cuCtxCreate_v2"), dlsym(library, "cuCtxDestroy_v2"),
                         dlsym(library, "cuCtxPopCurrent_v2") };
    CUcontext mine = NULL, popped = NULL;
    bzna_context *context = NULL;
    bzna_context_config config;
    bzna_device_info info;
    bzna_error e = no_error();
    BEGIN;
    memcpy(&init, &symbols[0], sizeof init);
    memcpy(&create, &symbols[1], sizeof create);
    memcpy(&destroy, &symbols[2], sizeof destroy);
    memcpy(&pop, &symbols[3], sizeof pop);
    control->devices = 3;
    CHECK_EQ(init(0), 0);
    CHECK_EQ(create(&mine, 0, 1), 0);                       /* current here */
    context = context_of(on_auto);
    CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, &e), BZNA_OK);
    CHECK(info.device.kind == BZNA_DEVICE_CUDA && info.device.ordinal == 1);
    check_works(context, BZNA_DECODER_AUTO, on_cuda(0), BZNA_DECODER_NVDEC, on_cuda(1), NULL);
    bzna_context_close(context);
    context = context_of(on_cuda(2));                       /* by number, what is current does not matter */
    CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, &e), BZNA_OK);
    CHECK(info.device.kind == BZNA_DEVICE_CUDA && info.device.ordinal == 2);
    bzna_context_close(context);
    CHECK_EQ(pop(&popped), 0);
    CHECK(popped == mine);                                  /* and is as it was */
    context = context_of(on_auto);
    CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, &e), BZNA_OK);
    CHECK(info.device.kind == BZNA_DEVICE_CUDA && info.device.ordinal == 0);
    bzna_context_close(context);
    bzna_context_config_init(&config, sizeof config);
    config.cuda_context = mine;
    config.sessions = 2;
    CHECK_EQ(bzna_context_open(&config, &context, &e), BZNA_OK);
    CHECK_EQ(bzna_context_device_info(context, &info, sizeof info, &e), BZNA_OK);
    CHECK(info.device.kind == BZNA_DEVICE_CUDA && info.device.ordinal == 1);
    check_works(context, BZNA_DECODER_AUTO, on_cuda(0), BZNA_DECODER_NVDEC, on_cuda(1), NULL);
    bzna_context_close(context);
    config.device = on_cuda(1);
    CHECK_EQ(bzna_context_open(&config, &context, &e), BZNA_OK);
    bzna_context_close(context);
    config.device = on_cuda(2);
    CHECK_EQ(bzna_context_open(&config, &context, &e), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(e.message, "context_config.cuda_context");
    CHECK_CONTAINS(e.message, "the CUDA context belongs to device 1, but device 2 was requested");
    config.device.kind = BZNA_DEVICE_CPU;
    CHECK_EQ(bzna_context_open(&config, &context, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(destroy(mine), 0);
    finish();
}

/* ---- Codecs ------------------------------------------------------------------------------------------------------ */

TEST(codecs_are_what_the_caps_say_and_are_asked_for_once)
{
    bzna_context *context;
    bzna_error e = no_error();
    BEGIN;
    control->caps[FAKE_JPEG].chroma_mask = 1 << 1;
    context = context_of(on_cuda(0));
    for (int round = 0; round < 3; round++)
        for (uint32_t codec = BZNA_CODEC_H264; codec <= BZNA_CODEC_JPEG; codec++)
            for (uint32_t chroma = 0; chroma < 4; chroma++)
                for (uint32_t depth = 8; depth <= 12; depth += 2) {
                    const fake_caps *caps = &control->caps[codec - 1];
                    bzna_codec_info info;
                    uint32_t supported = (caps->chroma_mask >> chroma & 1) && (caps->depth_mask >> depth & 1);
                    memset(&info, 0xee, sizeof info);
                    CHECK_EQ(bzna_context_codec_info(context, codec, chroma, depth, &info, sizeof info, &e),
                             BZNA_OK);
                    CHECK(info.struct_size == sizeof info && info.codec == codec && info.chroma_format == chroma &&
                          info.depth == depth && info.check == (supported ? BZNA_CHECK_SKIPPED : 0u) &&
                          !info.check_message[0]);
                    CHECK_EQ(info.supported, supported);
                    CHECK_EQ(info.engines, supported ? 7 : 0);
                    CHECK_EQ(info.min_width, supported ? caps->min_width : 0);
                    CHECK_EQ(info.min_height, supported ? caps->min_height : 0);
                    CHECK_EQ(info.max_width, supported ? caps->max_width : 0);
                    CHECK_EQ(info.max_height, supported ? caps->max_height : 0);
                    CHECK_EQ(info.max_macroblocks, supported ? caps->max_macroblocks : 0);
                }
    for (uint32_t codec = BZNA_CODEC_STILL; codec <= BZNA_CODEC_RAW; codec++) {             /* not asked for */
        bzna_codec_info info;
        CHECK_EQ(bzna_context_codec_info(context, codec, 1, 8, &info, sizeof info, &e), BZNA_OK);
        CHECK(!info.supported && !info.engines);
    }
    CHECK_EQ(control->calls[FAKE_cuvidGetDecoderCaps], 4 * 4 * 3);
    for (int i = 0; i < 6; i++) {
        static const uint32_t wrong[6][3] = { { 0, 1, 8 }, { 8, 1, 8 }, { 2, 4, 8 },
                                              { 2, 1, 9 }, { 2, 1, 0 }, { 2, 1, 14 } };
        bzna_codec_info info;
        CHECK_EQ(bzna_context_codec_info(context, wrong[i][0], wrong[i][1], wrong[i][2], &info, sizeof info, &e),
                 BZNA_E_ARGUMENT);
    }
    CHECK_EQ(bzna_context_codec_info(NULL, 2, 1, 8, &(bzna_codec_info){ 0 }, sizeof(bzna_codec_info), &e),
             BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_context_codec_info(context, 2, 1, 8, NULL, sizeof(bzna_codec_info), &e), BZNA_E_ARGUMENT);
    bzna_context_close(context);
    finish();
}

TEST(a_query_of_caps_that_fails_is_told_and_tried_again)
{
    bzna_context *context;
    bzna_codec_info info;
    bzna_error e = no_error();
    BEGIN;
    context = context_of(on_cuda(0));
    fake->fail("cuvidGetDecoderCaps", 1, 999, 0);
    CHECK_EQ(bzna_context_codec_info(context, BZNA_CODEC_H265, 3, 10, &info, sizeof info, &e), BZNA_E_DEVICE);
    CHECK_EQ(e.native_code, 999);
    CHECK_CONTAINS(e.message, "cuvidGetDecoderCaps");
    CHECK_EQ(bzna_context_codec_info(context, BZNA_CODEC_H265, 3, 10, &info, sizeof info, &e), BZNA_OK);
    CHECK_EQ(info.supported, 1);
    fake->fail("cuvidGetDecoderCaps", 1, 719, 0);           /* and this one ends everything */
    CHECK_EQ(bzna_context_codec_info(context, BZNA_CODEC_H265, 3, 12, &info, sizeof info, &e), BZNA_E_DEVICE_LOST);
    CHECK_EQ(bzna_context_codec_info(context, BZNA_CODEC_H265, 3, 10, &info, sizeof info, &e), BZNA_E_DEVICE_LOST);
    CHECK_EQ(bzna_context_device_info(context, &(bzna_device_info){ 0 }, sizeof(bzna_device_info), &e),
             BZNA_E_DEVICE_LOST);
    check_refused(context, BZNA_DECODER_AUTO, on_auto, BZNA_E_DEVICE_LOST, "lost");
    bzna_context_close(context);
    finish();
}

/* All that cuda.h says of: the process, the context or the MPS client cannot go on. Others cost one call. */
TEST(errors_after_which_nothing_works_lose_the_device_and_others_do_not)
{
    static const int lost[] = { 3, 4, 46, 201, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721,
                                805, 806, 807, 808, 809, 810 };
    static const int others[] = { 1, 2, 100, 101, 200, 209, 218, 221, 222, 400, 500, 600, 701, 703, 704, 705, 708, 711,
                                  712, 713, 720, 800, 801, 802, 803, 804, 811, 812, 900, 909, 999 };
    BEGIN;
    for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++) {
        bzna_context *context = context_of(on_cuda(0));
        bzna_codec_info info;
        bzna_error e = no_error();
        fake->fail("cuvidGetDecoderCaps", 2, lost[i], 0);
        CHECK(bzi_cuda_is_lost(lost[i]));
        bzna_context_codec_info(context, BZNA_CODEC_H265, 3, 12, &info, sizeof info, &e);
        CHECK_EQ(bzna_context_codec_info(context, BZNA_CODEC_H264, 1, 10, &info, sizeof info, &e),
                 BZNA_E_DEVICE_LOST);
        CHECK_EQ(e.native_code, lost[i]);
        bzna_context_close(context);
        finish();
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        CHECK(!bzi_cuda_is_lost(others[i]));
}

/* Rooms that ask for the caps by themselves, as the checks on a GPU do. */
TEST(without_libnvcuvid_the_caps_are_refused_with_the_reason)
{
    bzna_context *context;
    bzi_device *device = NULL;
    CUVIDDECODECAPS caps;
    bzna_error e = no_error();
    BEGIN;
    missing_library[0] = BZI_OS_NVCUVID;
    context = context_of(on_cuda(0));
    require(bzi_context_gpu(context, &device, &e), "a device");
    for (uint32_t codec = BZNA_CODEC_H264; codec <= BZNA_CODEC_RAW; codec++) {
        e = no_error();
        CHECK_EQ(bzi_device_caps(device, codec, 1, 8, &caps, &e), BZNA_E_DEVICE);
        CHECK_CONTAINS(e.message, BZI_OS_NVCUVID " was not found");
        CHECK(!caps.bIsSupported);
    }
    bzna_context_close(context);
    finish();
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

/* Whether three words in a row of a message stand between quotes in a test, or it has not as many besides what printf
 * fills in. */
static int is_looked_for(const char *message, const char *tests)
{
    int runs = 0;
    for (const char *at = message; *at; at++) {
        char words[256];
        size_t n = 0, spaces = 0;
        if (at > message && at[-1] != ' ')
            continue;
        while (at[n] && at[n] != '%' && (at[n] != ' ' || ++spaces < 3) && n + 1 < sizeof words) {
            words[n] = at[n];
            n++;
        }
        words[n] = 0;
        if (spaces < 2 || strlen(words) < 10)
            continue;
        runs++;
        for (const char *found = tests; (found = strstr(found, words)) != NULL; found++) {
            int quotes = 0;
            for (const char *before = found; before > tests && before[-1] != '\n'; before--)
                quotes += before[-1] == '"' || before[-1] == '\'';
            if (quotes % 2)
                return 1;
        }
    }
    return !runs;
}

static char *text_of(const char *path, char *before)
{
    const size_t had = before ? strlen(before) : 0;
    FILE *file = fopen(path, "rb");
    char *text = realloc(before, had + (2u << 20));
    require(file && text ? BZNA_OK : BZNA_E_IO, path);
    text[had + fread(text + had, 1, (2u << 20) - 1, file)] = 0;
    fclose(file);
    return text;
}

/* The rooms of the driver, of NVDEC and of the engines: the strings of their source, neighbors joined; but names of
 * what there was no memory for. */
TEST(every_message_of_the_gpu_path_is_looked_for_by_a_test)
{
    static const char *const rooms[][2] = { { ". CUDA: the driver ====", ". Loader: state ====" },
                                            { ". Decode stages: engines ====", ". Threads of a loader ===" } };
    char *sessions = text_of("tests/unit/test_sessions.c", text_of("tests/unit/test_driver.c", NULL));
    char *tests = text_of("tests/make/test_build.sh", sessions), *library = text_of("benzina.c", NULL), message[1024];
    int count = 0;
    for (size_t i = 0; i < COUNT(rooms); i++) {
        const char *at = strstr(library, rooms[i][0]), *end = strstr(library, rooms[i][1]);
        REQUIRE(at && end && at < end);
        for (size_t n = 0, named = 0; at < end; at++) {
            if (at[0] == '/' && at[1] == '*') {
                at = strstr(at, "*/") + 1;
            } else if (*at == '"') {
                named = !n && !strncmp(at - 21, "bzi_fail_memory(err, ", 21);
                for (at++; *at != '"'; at++)
                    if (n + 1 < sizeof message && (*at != '\\' || *++at))
                        message[n++] = *at;
            } else if (n && !strchr(" \n", *at)) {
                message[n] = 0;
                n = 0;
                count++;
                if (!named && !is_looked_for(message, tests)) {
                    test_failures++;
                    printf("  no test looks for: %s\n", message);
                }
            }
        }
    }
    CHECK(count > 50);
    free(library);
    free(tests);
}

TEST_MAIN(RUN(a_library_that_truly_lacks_a_symbol_is_named_with_it) fake_setup();
    RUN(each_symbol_of_libcuda_that_is_missing_is_named)
    RUN(each_symbol_of_libnvcuvid_that_is_missing_is_named_and_costs_only_nvdec)
    RUN(batches_lie_on_the_host_unless_output_device_says_otherwise_and_one_message_says_so)
    RUN(a_stream_without_output_on_a_gpu_is_refused)
    RUN(without_a_driver_auto_works_on_the_cpu_and_a_device_by_number_is_refused)
    RUN(without_libnvcuvid_the_device_is_usable_and_says_which_capability_containers_need)
    RUN(a_driver_that_cannot_start_leaves_auto_on_the_cpu)
    RUN(nothing_of_the_driver_is_touched_before_it_is_needed)
    RUN(whatever_fails_when_the_device_is_opened_is_told_and_leaves_nothing)
    RUN(without_host_memory_the_device_is_not_opened_and_may_be_later)
    RUN(a_thread_or_a_lock_that_cannot_be_had_is_said_and_leaves_nothing)
    RUN(an_error_that_the_driver_has_no_name_for_is_called_unknown)
    RUN(many_threads_may_ask_a_context_first_and_make_one_device)
    RUN(a_driver_that_corrupts_memory_is_not_asked_to_decode_and_the_message_says_what_to_do)
    RUN(why_the_kernel_could_not_be_compiled_is_said_in_words)
    RUN(a_device_is_described_as_the_driver_has_it)
    RUN(a_device_that_is_not_there_is_refused_with_the_number_that_there_are)
    RUN(a_device_that_opens_says_nothing_of_having_no_gpu)
    RUN(batches_lie_on_the_contexts_device_and_no_other)
    RUN(auto_takes_the_device_that_is_current_on_the_thread_and_contexts_of_users_must_be_of_the_device)
    RUN(codecs_are_what_the_caps_say_and_are_asked_for_once)
    RUN(errors_after_which_nothing_works_lose_the_device_and_others_do_not)
    RUN(without_libnvcuvid_the_caps_are_refused_with_the_reason)
    RUN(every_message_of_the_gpu_path_is_looked_for_by_a_test)
    RUN(a_query_of_caps_that_fails_is_told_and_tried_again)
)
#endif
