/* gpu_bench.c - what a GPU makes of archives: pictures a second end to end, and where the time goes. `make gpu-run`
 * runs its sections, each in a process of its own, so that none can lose another's figures:
 *
 *     gpu_bench SECTION [--data DIR] [--device N] [--out FILE] [--scale S] [--budget S]
 *     gpu_bench share --sessions N --batch N --begin T ...    one of several processes that measure at the same time
 *     gpu_bench --probe                        exit status 3, and the reason, where nothing can be looked at
 *     gpu_bench --sections                     their names
 *
 * DIR: what `make gpu-data` wrote. FILE: where each figure goes at once, a line of JSON each. --scale: how long points
 * take, of 2 seconds (default 1; below 0.3 there are fewer of them, too). --budget: after so many seconds no point is
 * begun, and what is missing is named. On the fake driver every line and figure says so: they mean nothing.
 *
 * End to end: a loader over an archive in memory (shuffled, random resized crops, flips, normalized, batches of 256 of
 * 224x224 on the device, 3 in flight), whose batches are given back at once. The clock starts when all sessions have
 * their decoders, and stops when the last batch is whole: its stream has been waited for. Bare: as many sessions
 * without a loader, fed with pictures that lie ready, which decode and map and do nothing else. One engine: a decoder
 * driven by hand, with pictures that were parsed before. Contexts: the same sessions, spread over several CUDA contexts
 * of the device. Calls: a run in which the driver's functions are timed, which costs a little. Processor time is of the
 * whole process. */
#include "../../benzina.c"
#include "check_pictures.h"

#include <link.h>
#include <sys/resource.h>

#ifdef BENZINA_NO_CUDA
int main(void)
{
    printf("SKIP gpu-bench: this build has no GPU path (BENZINA_NO_CUDA)\n");
    return 0;
}
#else

enum { UNMEASURABLE = 3, BATCH = 256 };
enum { WAIT_SPINS = 1, WAIT_YIELDS = 2, WAIT_SLEEPS = 4 };     /* CU_CTX_SCHED_... */

static const char *data_dir = "build/gpu/data", *mark = "";
static bzna_device_info about;
static uint32_t device_number;
static int is_fake, few;              /* few: points are short, and fewer, and pictures small */
static uint32_t out_edge = 224;           /* of the pictures of a batch */
static double point_seconds = 2, budget_seconds = 3600;
static uint64_t started_ns;
static FILE *json;

/* Seconds; a driver of the tests has a clock of its own. */
static double (*driver_clock)(void);
static double now(void) { return driver_clock ? driver_clock() : (double)bzi_os_now_ns() * 1e-9; }
static double elapsed(void) { return (double)(bzi_os_now_ns() - started_ns) * 1e-9; }
static int in_time(double seconds) { return elapsed() + seconds < budget_seconds; }

static void fail(const char *what, const bzna_error *err)
{
    printf("%s: %s\n", what, err->message);
    exit(1);
}

static bzna_error fresh_error(void)
{
    bzna_error err;
    memset(&err, 0, sizeof err);
    err.struct_size = sizeof err;
    return err;
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

/* ---- What the library's own table lacks ---- */

typedef struct extras {
    CUresult (CUDAAPI *copy)(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream);
    CUresult (CUDAAPI *elapsed)(float *ms, CUevent from, CUevent to);
    CUresult (CUDAAPI *bus)(char *text, int size, CUdevice device);
    CUresult (CUDAAPI *attribute)(int *value, int attribute, CUfunction function);
    CUresult (CUDAAPI *memory)(size_t *available, size_t *total);
    CUresult (CUDAAPI *context_create)(CUcontext *context, unsigned flags, CUdevice device);
    CUresult (CUDAAPI *context_destroy)(CUcontext context);
} extras;

typedef struct nvml_rates { unsigned gpu, memory; } nvml_rates;

typedef struct nvml {
    int (*init)(void);
    int (*by_bus)(const char *bus, void **device);
    int (*by_index)(unsigned index, void **device);
    int (*decoder)(void *device, unsigned *percent, unsigned *period_us);
    int (*rates)(void *device, nvml_rates *rates);
    int (*clock)(void *device, int kind, unsigned *mhz);
    int (*power)(void *device, unsigned *milliwatt);
    void *device;                     /* NULL: there is no NVML */
} nvml;

static extras extra;
static nvml management;

static void find(void *library, const char *name, void *pointer)
{
    void *symbol = library ? dlsym(library, name) : NULL;
    memcpy(pointer, &symbol, sizeof symbol);
}

/* device: NULL where there is none; NVML may be there nevertheless. */
static void load_extras(const bzi_device *device)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    char bus[32] = "";
    find(library, "cuMemcpyDtoDAsync_v2", &extra.copy);
    find(library, "cuEventElapsedTime", &extra.elapsed);
    find(library, "cuDeviceGetPCIBusId", &extra.bus);
    find(library, "cuFuncGetAttribute", &extra.attribute);
    find(library, "cuMemGetInfo_v2", &extra.memory);
    find(library, "cuCtxCreate_v2", &extra.context_create);
    find(library, "cuCtxDestroy_v2", &extra.context_destroy);
    find(library, "null_now", &driver_clock);
    library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    find(library, "nvmlInit_v2", &management.init);
    find(library, "nvmlDeviceGetHandleByPciBusId_v2", &management.by_bus);
    find(library, "nvmlDeviceGetHandleByIndex_v2", &management.by_index);
    find(library, "nvmlDeviceGetDecoderUtilization", &management.decoder);
    find(library, "nvmlDeviceGetUtilizationRates", &management.rates);
    find(library, "nvmlDeviceGetClockInfo", &management.clock);
    find(library, "nvmlDeviceGetPowerUsage", &management.power);
    if (!management.init || management.init() != 0)
        return;
    if (!device || !extra.bus || extra.bus(bus, (int)sizeof bus, device->handle) != CUDA_SUCCESS ||
        !management.by_bus || management.by_bus(bus, &management.device) != 0)
        if (!management.by_index || management.by_index(device_number, &management.device) != 0)
            management.device = NULL;
}

/* Samples utilization, clocks and power while something runs. A figure that nobody gave is negative. */
typedef struct watch {
    pthread_t  thread;
    atomic_int quit;
    double     decoder, gpu, video_mhz, sm_mhz, watts;
    int        samples;
} watch;

static void *watch_run(void *user)
{
    watch *w = user;
    double sum[5] = { 0 };
    int count[5] = { 0 };
    unsigned a, b;
    nvml_rates rates;
    for (int i = 0; !atomic_load(&w->quit); i++) {
        usleep(100000);
        if (i < 5)
            continue;                                       /* NVML's figures are of the time before */
        w->samples++;
        if (management.decoder && management.decoder(management.device, &a, &b) == 0)  { sum[0] += a; count[0]++; }
        if (management.rates && management.rates(management.device, &rates) == 0) {
            sum[1] += rates.gpu;
            count[1]++;
        }
        if (management.clock && management.clock(management.device, 3, &a) == 0)       { sum[2] += a; count[2]++; }
        if (management.clock && management.clock(management.device, 1, &a) == 0)       { sum[3] += a; count[3]++; }
        if (management.power && management.power(management.device, &a) == 0) {
            sum[4] += a * 1e-3;
            count[4]++;
        }
    }
    double *const out[5] = { &w->decoder, &w->gpu, &w->video_mhz, &w->sm_mhz, &w->watts };
    for (int i = 0; i < 5; i++)
        *out[i] = count[i] ? sum[i] / count[i] : -1;
    return NULL;
}

static void watch_start(watch *w)
{
    memset(w, 0, sizeof *w);
    w->decoder = w->gpu = w->video_mhz = w->sm_mhz = w->watts = -1;
    if (management.device && pthread_create(&w->thread, NULL, watch_run, w) != 0)
        management.device = NULL;
}

static void watch_end(watch *w)
{
    atomic_store(&w->quit, 1);
    if (management.device)
        pthread_join(w->thread, NULL);
}

static double processor_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* ---- Archives in memory ---- */

typedef struct archive {
    const char *name;
    uint8_t    *bytes;
    uint64_t    size, count;
    int         is_folder;            /* of JPEG files, which the CPU decodes and the GPU warps */
} archive;

/* The first is the common case. Then, the same pictures coded to about so many bytes each, and pictures of other sizes
 * with as many bits a pixel: from both together, an engine's time a byte and a macroblock are told apart. */
static archive archives[] = { { .name = "h265_crf20" }, { .name = "h265_crf28" }, { .name = "h264_crf20" },
                              { .name = "h265_5k" }, { .name = "h265_10k" }, { .name = "h265_26k" },
                              { .name = "h265_60k" }, { .name = "fit_160x160" }, { .name = "fit_256x256" },
                              { .name = "fit_384x512" }, { .name = "fit_512x512" }, { .name = "fit_1024x1024" },
                              { .name = "fit_2048x2048" } };
enum { ARCHIVES = sizeof archives / sizeof archives[0], FIRST_SIZED = 3, FIRST_FIT = 7 };
static archive jpegs = { .name = "jpeg", .is_folder = 1 }, tuned = { .name = "h264_tuned" };

static int64_t archive_read(void *user, uint64_t offset, void *dst, uint64_t size)
{
    const archive *a = user;
    if (offset >= a->size)
        return 0;
    size = size < a->size - offset ? size : a->size - offset;
    memcpy(dst, a->bytes + offset, (size_t)size);
    return (int64_t)size;
}

static int64_t archive_size(void *user) { return (int64_t)((archive *)user)->size; }

/* 0: it is not there, which is said. */
static int archive_load(archive *a)
{
    char path[512];
    FILE *file;
    long size;
    if (a->bytes)
        return 1;
    snprintf(path, sizeof path, "%s/%s.bzna", data_dir, a->name);
    if (!(file = fopen(path, "rb"))) {
        printf("%s%s is not there: run make gpu-data where there is an encoder\n", mark, path);
        return 0;
    }
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    a->bytes = malloc((size_t)size);
    a->size = fread(a->bytes, 1, (size_t)size, file);
    fclose(file);
    return 1;
}

static bzna_dataset *archive_open(bzna_context *context, archive *a)
{
    bzna_source source = { sizeof source, 0, a, archive_read, archive_size, NULL, NULL };
    bzna_error err = fresh_error();
    bzna_dataset *dataset = NULL;
    if (!archive_load(a))
        exit(1);
    if (bzna_dataset_open_source(context, &source, NULL, &dataset, &err) != BZNA_OK)
        fail(a->name, &err);
    a->count = bzna_dataset_count(dataset);
    return dataset;
}

/* NULL: it is not there, which is said. */
static bzna_dataset *dataset_open(bzna_context *context, archive *a)
{
    bzna_error err = fresh_error();
    bzna_dataset *dataset = NULL;
    char path[512];
    if (!a->is_folder)
        return archive_open(context, a);
    snprintf(path, sizeof path, "%s/%s", data_dir, a->name);
    if (bzna_dataset_open(context, path, NULL, &dataset, &err) != BZNA_OK)
        printf("%s%s: %s\n", mark, path, err.message);
    else
        a->count = bzna_dataset_count(dataset);
    return dataset;
}

/* What is loaded end to end: H.265 by NVDEC, or where that cannot be, JPEG by the CPU, warped by the GPU. */
static archive *common(void) { return about.video == BZNA_OK ? &archives[0] : &jpegs; }

static uint32_t session_depth;        /* of contexts that are opened; 0: the library's default */

/* cuda: NULL, or the CUDA context to use. */
static bzna_context *context_open_in(uint32_t sessions, CUcontext cuda)
{
    bzna_context_config config;
    bzna_context *context = NULL;
    bzna_error err = fresh_error();
    bzna_context_config_init(&config, sizeof config);
    config.device = (bzna_device){ BZNA_DEVICE_CUDA, (int32_t)device_number };
    config.sessions = sessions;
    config.session_depth = session_depth;
    config.cuda_context = cuda;
    if (bzna_context_open(&config, &context, &err) != BZNA_OK)
        fail("context", &err);
    return context;
}

static bzna_context *context_open(uint32_t sessions) { return context_open_in(sessions, NULL); }

/* Pictures that lie ready to be submitted. */
typedef struct unit { uint8_t *bytes; bzna_image image; bzna_picture picture; bzi_format sps; } unit;
typedef struct units { unit *unit; uint64_t count; } units;

static void units_add(units *u, bzna_context *context, bzna_dataset *dataset, const char *track)
{
    u->unit = realloc(u->unit, (size_t)(u->count + bzna_dataset_count(dataset)) * sizeof *u->unit);
    for (uint64_t i = 0; i < bzna_dataset_count(dataset); i++) {
        bzna_sample_ref sample = { .struct_size = sizeof sample };
        bzna_error err = fresh_error();
        bzi_image alone;
        unit *to = &u->unit[u->count];
        memset(to, 0, sizeof *to);
        to->image.struct_size = sizeof to->image;
        if (bzna_dataset_sample(dataset, i, &sample, sizeof sample, &err) != BZNA_OK)
            fail("a sample", &err);
        to->bytes = malloc((size_t)sample.size);
        if (bzna_dataset_read_image(dataset, i, track, to->bytes, sample.size, &to->image, &err) != BZNA_OK ||
            (alone = bzi_image_alone(&to->image),
             bzi_picture_describe(&alone, context->host->max_edge_px, &to->sps, &to->picture, &err)) != BZNA_OK)
            fail("a picture", &err);
        u->count++;
    }
}

static void units_free(units *u)
{
    for (uint64_t i = 0; i < u->count; i++)
        free(u->unit[i].bytes);
    free(u->unit);
    u->unit = NULL;
    u->count = 0;
}

/* ---- Figures, a line of JSON each ---- */

/* The start of a figure's line in the JSON file. */
static void json_figure(const char *kind)
{
    fprintf(json, "{\"kind\": \"%s\", \"fake_driver\": %s, ", kind, is_fake ? "true" : "false");
}

static void json_string(const char *name, const char *value)
{
    fprintf(json, ", \"%s\": \"", name);
    for (; *value; value++)
        if ((unsigned char)*value >= 32)
            fprintf(json, *value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
    fputc('"', json);
}

/* Whatever happens next, this figure is there. */
static void json_end(void)
{
    fputs("}\n", json);
    fflush(json);
}

static void json_number(const char *name, double value)
{
    if (value < 0 || !isfinite(value))
        fprintf(json, ", \"%s\": null", name);
    else
        fprintf(json, ", \"%s\": %.6g", name, value);
}

/* ---- The driver's calls, timed ---- */

#define TIMED_CALLS(X) \
    X(parse, cuvidParseVideoData, (CUvideoparser a, CUVIDSOURCEDATAPACKET *b), (a, b)) \
    X(decode, cuvidDecodePicture, (CUvideodecoder a, CUVIDPICPARAMS *b), (a, b)) \
    X(map, cuvidMapVideoFrame64, (CUvideodecoder a, int b, unsigned long long *c, unsigned *d, CUVIDPROCPARAMS *e), \
        (a, b, c, d, e)) \
    X(unmap, cuvidUnmapVideoFrame64, (CUvideodecoder a, unsigned long long b), (a, b)) \
    X(decode_status, cuvidGetDecodeStatus, (CUvideodecoder a, int b, CUVIDGETDECODESTATUS *c), (a, b, c)) \
    X(decoder_create, cuvidCreateDecoder, (CUvideodecoder *a, CUVIDDECODECREATEINFO *b), (a, b)) \
    X(decoder_destroy, cuvidDestroyDecoder, (CUvideodecoder a), (a)) \
    X(decoder_reconfigure, cuvidReconfigureDecoder, (CUvideodecoder a, CUVIDRECONFIGUREDECODERINFO *b), (a, b)) \
    X(parser_create, cuvidCreateVideoParser, (CUvideoparser *a, CUVIDPARSERPARAMS *b), (a, b)) \
    X(event_record, cuEventRecord, (CUevent a, CUstream b), (a, b)) \
    X(stream_wait, cuStreamWaitEvent, (CUstream a, CUevent b, unsigned c), (a, b, c)) \
    X(launch, cuLaunchKernel, (CUfunction a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned g, \
        unsigned h, CUstream i, void **j, void **k), \
                           (a, b, c, d, e, f, g, h, i, j, k))
#define TIMED_ID(name, function, parameters, arguments) TIMED_##name,
enum { TIMED_CALLS(TIMED_ID) TIMED_COUNT };
#define TIMED_NAME(name, function, parameters, arguments) #name,
static const char *const timed_names[] = { TIMED_CALLS(TIMED_NAME) };

static bzi_cuda real;
enum { TIMED_BUCKETS = 8 * 40 };      /* eight to each power of two of nanoseconds: to 9 % */
static struct { atomic_uint_fast64_t calls, ns, self_ns, bucket[TIMED_BUCKETS]; } timed[TIMED_COUNT];
static _Thread_local uint64_t timed_inside;       /* of calls made within the one at hand */

static int timed_bucket(uint64_t ns)
{
    int power = 3;
    if (ns < 8)
        return (int)ns;
    while (ns >> (power + 1))
        power++;
    power = 8 * (power - 2) + (int)(ns >> (power - 3) & 7);
    return power < TIMED_BUCKETS ? power : TIMED_BUCKETS - 1;
}

/* The time, in us, that so large a part of the calls stayed below. */
static double timed_quantile(int call, double part)
{
    uint64_t seen = 0;
    for (int i = 0; i < TIMED_BUCKETS; i++) {
        seen += timed[call].bucket[i];
        if ((double)seen >= part * (double)timed[call].calls)
            return (i < 8 ? i + 1 : ldexp(8 + i % 8 + 1, i / 8 - 1)) * 1e-3;
    }
    return 0;
}

static void timed_note(int call, uint64_t start, uint64_t outer)
{
    uint64_t ns = bzi_os_now_ns() - start;
    atomic_fetch_add(&timed[call].calls, 1);
    atomic_fetch_add(&timed[call].ns, ns);
    atomic_fetch_add(&timed[call].bucket[timed_bucket(ns - timed_inside)], 1);
    atomic_fetch_add(&timed[call].self_ns, ns - timed_inside);      /* parsing calls decoding, and making decoders */
    timed_inside = outer + ns;
}

#define TIMED_FUNCTION(name, function, parameters, arguments)                 \
    static CUresult CUDAAPI timed_##name parameters                 \
    {                                                               \
        uint64_t outer = timed_inside, start = bzi_os_now_ns();     \
        CUresult result;                                            \
        timed_inside = 0;                                           \
        result = real.function arguments;                           \
        timed_note(TIMED_##name, start, outer);                     \
        return result;                                              \
    }
TIMED_CALLS(TIMED_FUNCTION)

/* Before any session is open. */
static void time_calls(bzi_device *device)
{
    real = device->cu;
    memset(timed, 0, sizeof timed);
#define TIMED_INSTALL(name, function, parameters, arguments) device->cu.function = timed_##name;
    TIMED_CALLS(TIMED_INSTALL)
}

/* Half of the calls of each took less than so many us. */
static void timed_figures(void)
{
    static const int calls[] = { TIMED_decode, TIMED_map, TIMED_unmap };
    char name[40];
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        snprintf(name, sizeof name, "%s_p50_us", timed_names[calls[i]]);
        json_number(name, timed[calls[i]].calls ? timed_quantile(calls[i], 0.5) : -1);
    }
}

static double timed_us(int call)
{
    return (double)timed[call].ns * 1e-3 / (double)(timed[call].calls ? timed[call].calls : 1);
}

/* A CUDA context, current on no thread; NULL where the driver makes no more. */
static CUcontext cuda_context_make(const bzi_device *device, unsigned flags)
{
    CUcontext made = NULL, popped;
    if (!extra.context_create || extra.context_create(&made, flags, device->handle) != CUDA_SUCCESS)
        return NULL;
    device->cu.cuCtxPopCurrent_v2(&popped);                 /* creating it made it this thread's current one */
    return made;
}

/* ---- End to end ---- */

typedef struct point {
    archive *archive;
    uint32_t sessions, dtype, batch;
    int32_t  output;                  /* BZNA_DEVICE_... */
    uint32_t readers, readers_made;   /* readers: 0: as many as a loader has by default */
    uint32_t depth_made;              /* pictures that a session decodes at once */
    double   seconds, rate, core_seconds;         /* core_seconds: a thousand pictures */
    uint64_t pictures;
    watch    watch;
    bzna_statistics stats;
    int      profile;                 /* time the driver's calls */
    CUcontext cuda;                   /* NULL: the device's primary one */
    const char *beside;               /* what else goes on, for the report; NULL: nothing */
    uint32_t decoder;                 /* BZNA_DECODER_...; 0: what suits the archive */
    uint32_t hybrid, jpeg;            /* as in bzna_loader_decode */
    uint32_t waits_by;                /* WAITS_... */
    uint64_t by_nvdec, by_software, by_hybrid;    /* pictures, of those that were counted */
} point;

/* How a session waits for its oldest picture: as the library does in such a context, in the call that maps it, or by
 * asking for its status until it is done. */
enum { WAITS_AS_EVER, WAITS_IN_MAP, WAITS_BY_STATUS };

static void point_use_waiting(const point *p, bzi_device *device)
{
    if (p->waits_by)
        device->spins = p->waits_by == WAITS_BY_STATUS;
}

static void point_config(const point *p, bzna_loader_config *config)
{
    static const float mean[3] = { 123.675f, 116.28f, 103.53f }, std[3] = { 58.395f, 57.12f, 57.375f };
    bzna_loader_config_init(config, sizeof *config);
    config->output.batch_size = p->batch;
    config->output.width = config->output.height = out_edge;
    config->output.dtype = p->dtype;
    config->output.device.kind = p->output;
    config->output.device.ordinal = p->output == BZNA_DEVICE_CUDA ? (int32_t)device_number : 0;
    config->order.kind = BZNA_ORDER_SHUFFLE;
    config->order.seed = 1;
    config->order.epochs = BZNA_EPOCHS_ENDLESS;
    config->warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    config->warp.flip_h = 0.5;
    config->decode.decoder = p->decoder             ? p->decoder :
                             p->archive->is_folder ? BZNA_DECODER_SOFTWARE :
                                                     BZNA_DECODER_NVDEC;
    config->decode.hybrid = p->hybrid;
    config->decode.jpeg = p->jpeg;
    config->read.threads = p->readers;
    memcpy(config->color.mean, mean, sizeof mean);
    memcpy(config->color.std, std, sizeof std);
}

/* Takes a batch and gives it back; *stream: that it came on. */
static uint32_t point_take(bzna_loader *loader, void **stream)
{
    bzna_batch *batch = NULL;
    bzna_batch_info info = { .struct_size = sizeof info };
    bzna_error err = fresh_error();
    if (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err) != BZNA_OK)
        fail("next", &err);
    bzna_batch_get_info(batch, &info, sizeof info, NULL);
    *stream = info.stream;
    bzna_batch_release(batch);
    return info.count;
}

static void point_wait(bzi_device *device, void *stream)
{
    bzna_error err = fresh_error();
    if (!stream)
        return;
    if (bzi_device_enter(device, &err) != BZNA_OK ||
        bzi_device_check(device, device->cu.cuStreamSynchronize(stream), "cuStreamSynchronize", &err) != BZNA_OK)
        fail("stream", &err);
    bzi_device_leave(device);
}

/* An epoch goes through the archive many times, so that there are few ends of epochs. */
static bzna_loader *point_open(point *p, bzna_context *context, bzna_dataset *dataset)
{
    uint64_t count = p->archive->count * 64, *indices = malloc((size_t)count * sizeof *indices);
    bzna_loader *loader = NULL;
    bzna_loader_config config;
    bzna_loader_info info = { .struct_size = sizeof info };
    bzna_error err = fresh_error();
    for (uint64_t i = 0; i < count; i++)
        indices[i] = i % p->archive->count;
    point_config(p, &config);
    config.order.indices = indices;
    config.order.index_count = count;
    if (bzna_loader_open(context, dataset, &config, &loader, &err) != BZNA_OK)
        fail("loader", &err);
    free(indices);
    bzna_loader_get_info(loader, &info, sizeof info, NULL);
    p->readers_made = info.reader_threads;
    return loader;
}

/* Until every session has had a picture. */
static void point_warm_up(point *p, bzna_loader *loader, void **stream)
{
    double start = now();
    p->stats.struct_size = sizeof p->stats;
    do {
        for (int i = 0; i < 4; i++)
            point_take(loader, stream);
        bzna_loader_statistics(loader, &p->stats, sizeof p->stats, NULL);
    } while (((p->stats.decoders_made < p->sessions && !p->archive->is_folder) ||
              now() - start < 0.1 * point_seconds) &&
             now() - start < point_seconds);
}

static void point_measure(point *p)
{
    bzna_context *context = context_open_in(p->sessions, p->cuda);
    bzna_dataset *dataset = dataset_open(context, p->archive);
    bzna_loader *loader;
    bzna_statistics before;
    void *stream = NULL;
    double start, processor;
    if (!dataset)
        exit(1);
    if (p->profile)
        time_calls(context->device);
    point_use_waiting(p, context->device);
    p->depth_made = context->device->config.session_depth;
    loader = point_open(p, context, dataset);
    point_warm_up(p, loader, &stream);
    point_wait(context->device, stream);
    before = p->stats;
    watch_start(&p->watch);
    processor = processor_seconds();
    start = now();
    do {
        p->pictures += point_take(loader, &stream);
    } while (now() - start < point_seconds);
    point_wait(context->device, stream);
    p->seconds = now() - start;
    processor = processor_seconds() - processor;
    watch_end(&p->watch);
    bzna_loader_statistics(loader, &p->stats, sizeof p->stats, NULL);
    p->rate = (double)p->pictures / p->seconds;
    p->core_seconds = processor / (double)p->pictures * 1000;
    p->by_nvdec = p->stats.samples_nvdec - before.samples_nvdec;
    p->by_software = p->stats.samples_software - before.samples_software;
    p->by_hybrid = p->stats.samples_hybrid - before.samples_hybrid;
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
}

static const char *dtype_name(uint32_t dtype) { return dtype == BZNA_DTYPE_FLOAT16 ? "float16" : "float32"; }

static void point_report(const point *p)
{
    static const char *const stages[5] = { "read", "decode", "warp", "consumer", "none" };
    const char *output = p->output == BZNA_DEVICE_CPU ? "host" : "device";
    printf("%s%-11s %4u %-8s %-6s %4u %10.0f %8.3f", mark, p->archive->name, p->sessions, dtype_name(p->dtype), output,
           p->readers_made, p->rate, p->core_seconds);
    if (p->watch.decoder >= 0)
        printf(" %6.0f %% %5.0f %% %6.0f %6.0f %5.0f", p->watch.decoder, p->watch.gpu, p->watch.video_mhz,
               p->watch.sm_mhz, p->watch.watts);
    else
        printf("  %33s", "(no NVML)");
    printf("  %s%s%s%s%s\n", stages[p->stats.limiting_stage % 5],
           p->stats.samples_failed || p->stats.sessions_lost ? ", WITH FAILURES" : "",
           p->profile ? ", calls timed" : "", p->beside ? ", " : "", p->beside ? p->beside : "");
    json_figure("end to end");
    fprintf(json,
            "\"archive\": \"%s\", \"sessions\": %u, \"dtype\": \"%s\", \"output\": \"%s\", \"readers\": %u, "
            "\"readers_by_default\": %s, \"beside\": \"%s\"",
            p->archive->name, p->sessions, dtype_name(p->dtype), output, p->readers_made,
            p->readers ? "false" : "true", p->beside ? p->beside : "nothing");
    fprintf(json, ", \"batch\": %u, \"edge\": %u, \"calls_timed\": %s, \"limits\": \"%s\"", p->batch, out_edge,
            p->profile ? "true" : "false", stages[p->stats.limiting_stage % 5]);
    json_number("images_per_second", p->rate);
    json_number("seconds", p->seconds);
    json_number("core_seconds_per_1000", p->core_seconds);
    json_number("decoder_utilization", p->watch.decoder);
    json_number("gpu_utilization", p->watch.gpu);
    json_number("video_mhz", p->watch.video_mhz);
    json_number("sm_mhz", p->watch.sm_mhz);
    json_number("watts", p->watch.watts);
    json_number("samples_failed", (double)p->stats.samples_failed);
    json_number("sessions_lost", (double)p->stats.sessions_lost);
    json_number("decoders_made", (double)p->stats.decoders_made);
    json_number("decoders_reconfigured", (double)p->stats.decoders_reconfigured);
    json_end();
}

static double point_run(archive *a, uint32_t sessions, uint32_t dtype, int32_t output, uint32_t readers, int profile)
{
    point p = { .archive = a,
                .sessions = sessions,
                .dtype = dtype,
                .output = output,
                .readers = readers,
                .batch = few ? 16 : BATCH,
                .profile = profile };
    if (!in_time(2 * point_seconds)) {
        printf("%s%-11s %4u %-8s: not measured, out of time\n", mark, a->name, sessions, dtype_name(dtype));
        return 0;
    }
    point_measure(&p);
    point_report(&p);
    return p.rate;
}

/* ---- The same sessions in several CUDA contexts ---- */

/* One context's part: a loader of its own, and a thread that consumes. */
typedef struct share {
    pthread_t     thread;
    point         point;
    CUcontext     cuda;
    bzna_context *context;
    bzna_dataset *dataset;
    atomic_int   *quit, *ready;
    atomic_uint_fast64_t taken;       /* pictures so far, of batches that are whole */
    uint64_t      first;              /* of them, before anything was counted */
    double        rate;               /* its part of the rate of all */
} share;

static void *share_run(void *user)
{
    share *s = user;
    point *p = &s->point;
    bzna_loader *loader = point_open(p, s->context, s->dataset);
    void *stream = NULL;
    point_warm_up(p, loader, &stream);
    atomic_fetch_add(s->ready, 1);
    while (!atomic_load(s->quit)) {
        const uint32_t count = point_take(loader, &stream);
        point_wait(s->context->device, stream);
        atomic_fetch_add(&s->taken, count);
    }
    bzna_loader_statistics(loader, &p->stats, sizeof p->stats, NULL);
    bzna_loader_close(loader);
    return NULL;
}

/* Opens everything; 0 where the driver makes no more contexts. */
static int share_open(share *s, const bzi_device *table)
{
    if (!(s->cuda = cuda_context_make(table, WAIT_SLEEPS)))
        return 0;
    s->context = context_open_in(s->point.sessions, s->cuda);
    s->dataset = dataset_open(s->context, s->point.archive);
    time_calls(s->context->device);
    return s->dataset != NULL;
}

static void share_close(share *s)
{
    bzna_dataset_close(s->dataset);
    bzna_context_close(s->context);
    if (s->cuda)
        extra.context_destroy(s->cuda);
}

static uint64_t shares_taken(share *all, uint32_t count, uint64_t *least)
{
    uint64_t sum = 0, taken;
    *least = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        sum += taken = atomic_load(&all[i].taken);
        *least = taken < *least ? taken : *least;
    }
    return sum;
}

/* Pictures a second of all of them: what they took between two moments, while all of them go on before and after.
 * Each has taken some by the first, so that no batch that lay ready is counted as if it had been made meanwhile. */
static double shares_measure(share *all, uint32_t count, watch *w, double *core_seconds)
{
    atomic_int quit, ready;
    double processor, start, seconds;
    uint64_t pictures, least, first;
    uint32_t waiting;                 /* shares that have not had a picture since then */
    atomic_init(&quit, 0);
    atomic_init(&ready, 0);
    for (uint32_t i = 0; i < count; i++) {
        all[i].quit = &quit;
        all[i].ready = &ready;
        if (pthread_create(&all[i].thread, NULL, share_run, &all[i]) != 0)
            exit(1);
    }
    while ((uint32_t)atomic_load(&ready) < count)
        usleep(1000);
    start = now();
    do {
        usleep(1000);
        shares_taken(all, count, &least);
    } while (least < 4 * all[0].point.batch && now() - start < point_seconds);
    watch_start(w);
    memset(timed, 0, sizeof timed);
    processor = processor_seconds();
    first = shares_taken(all, count, &least);
    for (uint32_t i = 0; i < count; i++)
        all[i].first = atomic_load(&all[i].taken);
    start = now();
    do {
        usleep((useconds_t)(point_seconds * 1e6));
        pictures = shares_taken(all, count, &least) - first;
        seconds = now() - start;
        waiting = 0;
        for (uint32_t i = 0; i < count; i++)
            waiting += atomic_load(&all[i].taken) == all[i].first;
    } while (waiting && seconds < 5);
    for (uint32_t i = 0; i < count; i++)
        all[i].rate = (double)(atomic_load(&all[i].taken) - all[i].first) / seconds;
    processor = processor_seconds() - processor;
    watch_end(w);
    atomic_store(&quit, 1);
    for (uint32_t i = 0; i < count; i++)
        pthread_join(all[i].thread, NULL);
    *core_seconds = processor / (double)(pictures ? pictures : 1) * 1000;
    return (double)pictures / seconds;
}

/* sessions, readers and batch are of all contexts together. one: the rate with one context, or 0. Returns this rate. */
static double contexts_point(const bzna_context *any, uint32_t contexts, uint32_t sessions, uint32_t readers,
                             uint32_t batch, double one)
{
    share *all = calloc(contexts, sizeof *all);
    watch w;
    double rate = 0, core_seconds = 0;
    uint32_t open = 0;
    for (uint32_t i = 0; i < contexts; i++)
        all[i].point = (point){ .archive = common(),
                                .sessions = sessions / contexts,          /* without remainder */
                                .dtype = BZNA_DTYPE_FLOAT32,
                                .output = BZNA_DEVICE_CUDA,
                                .batch = batch / contexts,
                                .readers = (readers + contexts - 1) / contexts };
    while (open < contexts && share_open(&all[open], any->device))
        open++;
    if (open == contexts) {
        rate = shares_measure(all, contexts, &w, &core_seconds);
        printf("%s%8u %8u %10.0f %8.3f", mark, contexts, sessions, rate, core_seconds);
        if (w.decoder >= 0)
            printf(" %6.0f %%", w.decoder);
        else
            printf(" %8s", "-");
        printf(" %10.2f\n", one > 0 ? rate / one : 1.0);
        json_figure("contexts");
        fprintf(json, "\"archive\": \"%s\", \"contexts\": %u, \"sessions\": %u, \"readers\": %u, \"batch\": %u",
                all[0].point.archive->name, contexts, sessions, all[0].point.readers * contexts,
                all[0].point.batch * contexts);
        json_number("images_per_second", rate);
        timed_figures();
        json_number("core_seconds_per_1000", core_seconds);
        json_number("decoder_utilization", w.decoder);
        json_number("of_one_context", one > 0 ? rate / one : 1);
        json_end();
    } else {
        printf("%s%8u %8u: the driver makes no more than %u contexts\n", mark, contexts, sessions, open);
    }
    for (uint32_t i = 0; i < contexts; i++)
        share_close(&all[i]);
    free(all);
    return rate;
}

/* ---- Bare sessions ---- */

typedef struct bare {
    pthread_t   thread;
    bzi_device *device;
    bzna_context *context;
    const units *units;
    uint64_t    first, pictures, failed;
    uint32_t    places;               /* decoders that a session may keep; 0: as it has it */
    atomic_int *phase;                /* 0: get ready; 1: count; 2: end */
    atomic_int *ready;
    bzna_error  err;
} bare;

static void bare_advance(bare *b, bzi_session *session)
{
    bzi_flight flight;
    if (session->mapped_count == session->device->config.session_mapped || !session->pending_count)
        bzi_session_unmap_all(session);
    if (!session->pending_count)
        return;
    b->failed += bzi_session_map(session, &flight, &b->err) != BZNA_OK;
    b->pictures++;
}

static void *bare_run(void *user)
{
    bare *b = user;
    bzi_session session;
    bzna_status result;
    int counting = 0;
    b->err = fresh_error();
    if (bzi_device_enter(b->device, &b->err) != BZNA_OK ||
        bzi_session_open(&session, b->device, &b->context->host->memory, &b->err) != BZNA_OK) {
        b->failed++;
        atomic_fetch_add(b->ready, 1);
        return NULL;
    }
    for (uint64_t i = b->first; atomic_load(b->phase) < 2; i++) {
        const unit *u = &b->units->unit[i % b->units->count];
        if (b->places)
            session.decoders.max_live = b->places;
        const bzi_nvdec_picture coded = { &u->image, u->sps, u->picture };
        while ((result = bzi_session_submit(&session, &coded, NULL, &b->err)) == BZNA_AGAIN)
            bare_advance(b, &session);
        if (result != BZNA_OK && b->failed++ > 100)
            break;
        if (i - b->first == 8)
            atomic_fetch_add(b->ready, 1);
        if (!counting && atomic_load(b->phase) == 1) {
            b->pictures = 0;
            counting = 1;
        }
    }
    uint64_t counted = b->pictures;
    while (session.pending_count || session.mapped_count)
        bare_advance(b, &session);
    b->pictures = counted;
    bzi_session_close(&session);
    bzi_device_leave(b->device);
    return NULL;
}

typedef struct bare_result { double rate, least, most, core_seconds; watch watch; } bare_result;

/* Sessions in turn in these contexts. Rates are pictures a second, of all and of the slowest and fastest session;
 * failures end the program. */
static bare_result bare_measure(bzna_context *const *contexts, uint32_t context_count, const units *u,
                                uint32_t sessions, uint32_t places, double seconds)
{
    bare *all = calloc(sessions, sizeof *all);
    bare_result r = { .least = INFINITY };
    atomic_int phase, ready;
    double start, processor;
    uint64_t pictures = 0;
    atomic_init(&phase, 0);
    atomic_init(&ready, 0);
    for (uint32_t i = 0; i < sessions; i++) {
        all[i] = (bare){ .device = contexts[i % context_count]->device, .context = contexts[i % context_count],
                         .units = u, .places = places, .first = i * 37, .phase = &phase, .ready = &ready };
        if (pthread_create(&all[i].thread, NULL, bare_run, &all[i]) != 0)
            exit(1);
    }
    while ((uint32_t)atomic_load(&ready) < sessions)
        usleep(1000);
    watch_start(&r.watch);
    processor = processor_seconds();
    start = now();
    atomic_store(&phase, 1);
    usleep((useconds_t)(seconds * 1e6));
    atomic_store(&phase, 2);
    seconds = now() - start;
    processor = processor_seconds() - processor;
    watch_end(&r.watch);
    for (uint32_t i = 0; i < sessions; i++) {
        pthread_join(all[i].thread, NULL);
        pictures += all[i].pictures;
        r.least = fmin(r.least, (double)all[i].pictures / seconds);
        r.most = fmax(r.most, (double)all[i].pictures / seconds);
        if (all[i].failed)
            fail("a bare session", &all[i].err);
    }
    free(all);
    r.rate = (double)pictures / seconds;
    r.core_seconds = processor / (double)(pictures ? pictures : 1) * 1000;
    return r;
}

/* Sessions, all in one CUDA context or spread over several. */
static void bare_point(archive *a, uint32_t sessions, uint32_t context_count)
{
    bzna_context *contexts[8] = { NULL };
    CUcontext cuda[8] = { NULL };
    bzna_dataset *dataset;
    units u = { 0 };
    bare_result r;
    if (!in_time(point_seconds + 1)) {
        printf("%s%-11s %4u sessions in %u contexts: not measured, out of time\n", mark, a->name, sessions,
               context_count);
        return;
    }
    contexts[0] = context_open(0);
    for (uint32_t i = 1; i < context_count; i++) {
        cuda[i] = cuda_context_make(contexts[0]->device, WAIT_SLEEPS);
        contexts[i] = cuda[i] ? context_open_in(0, cuda[i]) : contexts[0];
    }
    for (uint32_t i = 0; i < context_count; i++)
        if (i == 0 || contexts[i] != contexts[0])
            time_calls(contexts[i]->device);
    dataset = archive_open(contexts[0], a);
    units_add(&u, contexts[0], dataset, NULL);
    r = bare_measure(contexts, context_count, &u, sessions, 0, point_seconds * 0.5);
    printf("%s%-11s %4u %4u %10.0f %10.0f %10.0f %8.3f %8.0f %8.1f %8.1f %8.1f\n", mark, a->name, sessions,
           context_count, r.rate, r.least, r.most, r.core_seconds, r.watch.decoder, timed_quantile(TIMED_decode, 0.5),
           timed_quantile(TIMED_map, 0.5), timed_quantile(TIMED_unmap, 0.5));
    json_figure("bare sessions");
    fprintf(json, "\"archive\": \"%s\", \"sessions\": %u, \"contexts\": %u", a->name, sessions, context_count);
    json_number("images_per_second", r.rate);
    json_number("slowest_session", r.least);
    json_number("fastest_session", r.most);
    json_number("core_seconds_per_1000", r.core_seconds);
    json_number("decoder_utilization", r.watch.decoder);
    timed_figures();
    json_end();
    units_free(&u);
    bzna_dataset_close(dataset);
    for (uint32_t i = context_count; i-- > 0;) {
        if (contexts[i] != contexts[0] || i == 0)
            bzna_context_close(contexts[i]);
        if (cuda[i])
            extra.context_destroy(cuda[i]);
    }
}

static void bare_header(void)
{
    printf("%s%-11s %4s %4s %10s %10s %10s %8s %8s %8s %8s %8s\n", mark, "archive", "ses.", "ctx.", "pictures/s",
           "slowest", "fastest", "cpu s/k", "NVDEC %", "decode", "map", "unmap");
}

/* How engines are shared: sessions that decode and map alone. */
static void sessions_section(void)
{
    const uint32_t e = about.engines ? about.engines : 1, all[] = { 1, 2, 4, e, 2 * e, 4 * e };
    bare_header();
    for (int a = 0; a < FIRST_SIZED; a++)
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            if ((i < 3 || all[i] > all[i - 1]) && (!few || (a == 0 && i < 3)) && (a == 0 || i == 0 || i > 2))
                bare_point(&archives[a], all[i], 1);
}

/* Whether the driver's locks, of which a CUDA context has its own, hold sessions up. Each has as many sessions, so that
 * four may have some more in all. */
static void contexts_section(void)
{
    static const uint32_t counts[] = { 1, 2, 4 };
    uint32_t sessions = few ? 4 : 2 * (about.engines ? about.engines : 1), readers = sessions < 4  ? 2 :
                                                                                           sessions > 16 ? 8 :
                                                                                                           sessions / 2;
    bzna_context *any = context_open(0);
    double one = 0;
    printf("\n%sThe same sessions in several CUDA contexts of the device, each with a loader and a consumer of its "
           "own; %u readers and batches of %u in all\n",
           mark, readers, few ? 16 : BATCH);
    printf("%s%8s %8s %10s %8s %8s %10s\n", mark, "contexts", "sessions", "pictures/s", "cpu s/k", "NVDEC", "of one");
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        double rate;
        if (few && counts[i] > 2)
            continue;
        if (!extra.context_create || !extra.context_destroy || !in_time(2 * point_seconds)) {
            printf("%s%8u %8u: not measured, %s\n", mark, counts[i], sessions,
                   extra.context_create ? "out of time" : "the driver lacks cuCtxCreate");
            continue;
        }
        rate = contexts_point(any, counts[i], (sessions + counts[i] - 1) / counts[i] * counts[i], readers,
                              few ? 16 : BATCH, one);
        one = counts[i] == 1 ? rate : one;
    }
    bzna_context_close(any);
    if (about.video != BZNA_OK)
        return;
    printf("\n%sThe same, bare; us of half of the calls\n", mark);
    bare_header();
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (!few || counts[i] < 4)
            bare_point(&archives[0], sessions, counts[i]);
}

/* ---- The calls of one run ---- */

static void calls_report(uint32_t sessions)
{
    const double pictures = (double)(timed[TIMED_map].calls ? timed[TIMED_map].calls : 1);
    printf("%sThe driver's calls of %u sessions, in us, without the calls made within them\n", mark, sessions);
    printf("%s%-20s %10s %12s %12s %12s %14s\n", mark, "call", "calls", "mean", "p50", "p99", "a picture");
    for (int i = 0; i < TIMED_COUNT; i++) {
        double calls = (double)timed[i].calls, self = (double)timed[i].self_ns * 1e-3;
        if (calls == 0)
            continue;
        printf("%s%-20s %10.0f %12.2f %12.2f %12.2f %14.2f\n", mark, timed_names[i], calls, self / calls,
               timed_quantile(i, 0.5), timed_quantile(i, 0.99), self / pictures);
        json_figure("driver call");
        fprintf(json, "\"call\": \"%s\", \"sessions\": %u", timed_names[i], sessions);
        json_number("calls", calls);
        json_number("us", timed_us(i));
        json_number("self_us", self / calls);
        json_number("p50_us", timed_quantile(i, 0.5));
        json_number("p99_us", timed_quantile(i, 0.99));
        json_number("self_us_per_picture", self / pictures);
        json_end();
    }
}

/* ---- The kernel ---- */

/* Time between two points of a stream: by events, or by the clock where the driver has no timed ones. */
typedef struct stopwatch { bzi_device *device; void *stream; CUevent from, to; double start; } stopwatch;

static void stopwatch_start(stopwatch *s, bzi_device *device, void *stream)
{
    s->device = device;
    s->stream = stream;
    device->cu.cuStreamSynchronize(stream);
    s->start = now();
    if (extra.elapsed) {
        device->cu.cuEventCreate(&s->from, 0);
        device->cu.cuEventCreate(&s->to, 0);
        device->cu.cuEventRecord(s->from, stream);
    }
}

static double stopwatch_end(stopwatch *s)
{
    float ms = 0;
    if (extra.elapsed)
        s->device->cu.cuEventRecord(s->to, s->stream);
    s->device->cu.cuStreamSynchronize(s->stream);
    if (!extra.elapsed)
        return now() - s->start;
    extra.elapsed(&ms, s->from, s->to);
    s->device->cu.cuEventDestroy_v2(s->from);
    s->device->cu.cuEventDestroy_v2(s->to);
    return (double)ms * 1e-3;
}

enum { SURFACES = 256, SURFACE_EDGE = 512, SURFACE_BYTES = SURFACE_EDGE * SURFACE_EDGE * 3 / 2 };

typedef struct kernel_case {
    const char *name;
    uint32_t dtype;
    double degrees;
    uint32_t per_launch, streams;
} kernel_case;

typedef struct kernel_bench {
    bzi_device *device;
    uint64_t    surfaces, batch;
    uint32_t    count;
    double      copy_bandwidth;
    void       *stream[16];
} kernel_bench;

/* A slot of a 500x375 picture in a surface of 512x512, and how many of the surface's bytes its crop covers. */
static double kernel_slot(const kernel_bench *k, const kernel_case *c, uint32_t i, bzi_kernel_slot *slot)
{
    bzna_picture picture = { .struct_size = sizeof picture,
                             .depth = 8,
                             .width = 500,
                             .height = 375,
                             .frame_width = SURFACE_EDGE,
                             .frame_height = SURFACE_EDGE,
                             .chroma_shift_x = 1,
                             .chroma_shift_y = 1,
                             .crop_x = 0,
                             .crop_y = 0 };
    uint64_t base = k->surfaces + (uint64_t)i * SURFACE_BYTES;
    bzna_transform transform;
    bzna_warp warp;
    bzna_random random;
    bzna_error err = fresh_error();
    uint64_t plane[3] = { base, base + SURFACE_EDGE * SURFACE_EDGE, base + SURFACE_EDGE * SURFACE_EDGE + 1 };
    bzna_transform_init(&transform, sizeof transform);
    memset(&warp, 0, sizeof warp);                     /* the crop of RANDOM_RESIZED_CROP, turned */
    warp.kind = BZNA_WARP_SIMILARITY;
    warp.crops = BZNA_CROPS_TORCHVISION;
    warp.scale[0] = 0.08;
    warp.scale[1] = 1;
    warp.ratio[0] = 3.0 / 4;
    warp.ratio[1] = 4.0 / 3;
    warp.random_crop = warp.resize = 1;
    warp.flip_h = 0.5;
    warp.degrees[0] = -c->degrees;
    warp.degrees[1] = c->degrees;
    bzna_random_init(&random, 1, 0, i, BZNA_RANDOM_WARP);
    if (bzna_warp_draw(&random, &warp, picture.width, picture.height, out_edge, out_edge, transform.homography, &err) !=
        BZNA_OK)
        fail("warp", &err);
    for (int p = 0; p < 3; p++) {
        picture.plane[p] = (const void *)(uintptr_t)plane[p];
        picture.pitch[p] = SURFACE_EDGE;
        picture.step[p] = p ? 2 : 1;
    }
    picture.color = (bzna_color){ 1, 13, 5, 1, 1 };
    if (bzi_slot_make(slot, &picture, &transform, BZNA_CHANNELS_RGB, &err) != BZNA_OK)
        fail("slot", &err);
    slot->dst = k->batch + (uint64_t)i * 3 * out_edge * out_edge * bzi_dtype_bytes(c->dtype);
    const double *h = transform.homography;
    double area = fabs(h[0] * h[4] - h[1] * h[3]) * out_edge * out_edge;
    return 1.5 * (area < 500.0 * 375 ? area : 500.0 * 375);
}

static double kernel_launches(const kernel_bench *k, const kernel_case *c, bzi_kernel_slots *slots, uint32_t launches)
{
    bzi_kernel_output out = bzi_output_make(&(bzna_output){ .width = out_edge, .height = out_edge, .dtype = c->dtype });
    stopwatch s;
    bzna_error err = fresh_error();
    double start = now();
    stopwatch_start(&s, k->device, k->stream[0]);
    for (uint32_t i = 0; i < launches; i++)
        if (bzi_device_warp(k->device, &slots[i], c->per_launch, &out, k->stream[i % c->streams], &err) != BZNA_OK)
            fail("launch", &err);
    if (c->streams == 1)
        return stopwatch_end(&s);
    stopwatch_end(&s);
    for (uint32_t i = 0; i < c->streams; i++)
        k->device->cu.cuStreamSynchronize(k->stream[i]);
    return now() - start;                                   /* several streams: by the clock */
}

static void kernel_case_run(const kernel_bench *k, const kernel_case *c)
{
    uint32_t launches = k->count / c->per_launch;
    bzi_kernel_slots *slots = calloc(launches, sizeof *slots);
    double read = 0, best = 1e9, bandwidth;
    const double written = (double)k->count * 3 * out_edge * out_edge * bzi_dtype_bytes(c->dtype);
    for (uint32_t i = 0; i < launches; i++)
        for (uint32_t n = 0; n < c->per_launch; n++)
            read += kernel_slot(k, c, i * c->per_launch + n, &slots[i].slot[n]);
    for (int round = 0; round < (few ? 2 : 12); round++)
        best = fmin(best, kernel_launches(k, c, slots, launches));
    free(slots);
    bandwidth = (read + written) / best;
    printf("%s%-26s %6u %8u %12.3f %12.0f %10.0f", mark, c->name, c->per_launch, c->streams, best / k->count * 1e6,
           (double)k->count / best, bandwidth * 1e-9);
    printf(k->copy_bandwidth > 0 ? " %8.0f %%\n" : "        -\n", 100 * bandwidth / k->copy_bandwidth);
    json_figure("kernel");
    fprintf(json, "\"case\": \"%s\", \"dtype\": \"%s\", \"slots_per_launch\": %u, \"streams\": %u, \"by\": \"%s\"",
            c->name, dtype_name(c->dtype), c->per_launch, c->streams,
            c->streams == 1 && extra.elapsed ? "events" : "clock");
    json_number("us_per_picture", best / k->count * 1e6);
    json_number("gb_per_second", bandwidth * 1e-9);
    json_number("fraction_of_copy", k->copy_bandwidth > 0 ? bandwidth / k->copy_bandwidth : -1);
    json_end();
}

/* Bytes a second of a copy within the device, read and written ones both counted. */
static double copy_bandwidth(bzi_device *device, void *stream)
{
    uint64_t bytes = UINT64_C(512) << 20, from = 0, to = 0;
    double best = 0;
    bzna_error err = fresh_error();
    if (!extra.copy || bzi_device_alloc(device, bytes, NULL, &from, &err) != BZNA_OK ||
        bzi_device_alloc(device, bytes, NULL, &to, &err) != BZNA_OK)
        return 0;
    for (int round = 0; round < 5; round++) {
        stopwatch s;
        stopwatch_start(&s, device, stream);
        for (int i = 0; i < 8; i++)
            extra.copy(to, from, (size_t)bytes, stream);
        best = fmax(best, 16 * (double)bytes / stopwatch_end(&s));
    }
    bzi_device_free(device, from, bytes, NULL);
    bzi_device_free(device, to, bytes, NULL);
    return best;
}

/* What the driver's compiler made of the kernels. */
static void kernel_registers(const bzi_device *device)
{
    for (int i = 0; i < BZI_KERNEL_COUNT && extra.attribute; i++) {
        int used = 0, spilled = 0;
        extra.attribute(&used, 4, device->warp[i]);         /* CU_FUNC_ATTRIBUTE_NUM_REGS */
        extra.attribute(&spilled, 3, device->warp[i]);      /* ..._LOCAL_SIZE_BYTES */
        printf("%skernel %d: %d registers a thread, %d bytes of local memory\n", mark, i, used, spilled);
        json_figure("registers");
        fprintf(json, "\"kernel\": %d", i);
        json_number("registers", used);
        json_number("local_bytes", spilled);
        json_end();
    }
}

static void kernel_section(void)
{
    static const kernel_case cases[] = {
        { "crop and flip", BZNA_DTYPE_FLOAT32, 0, 1, 1 }, { "crop and flip", BZNA_DTYPE_FLOAT32, 0, 2, 1 },
        { "crop and flip", BZNA_DTYPE_FLOAT32, 0, 4, 1 },
        { "crop and flip", BZNA_DTYPE_FLOAT32, 0, 8, 1 }, { "crop and flip", BZNA_DTYPE_FLOAT32, 0, 4, 4 },
        { "crop and flip", BZNA_DTYPE_FLOAT32, 0, 4, 14 },
        { "crop and flip, float16", BZNA_DTYPE_FLOAT16, 0, 4, 1 },
        { "crop and flip, float16", BZNA_DTYPE_FLOAT16, 0, 8, 1 },
        { "crop, flip, rotation", BZNA_DTYPE_FLOAT32, 30, 4, 1 },
        { "crop, flip, rotation", BZNA_DTYPE_FLOAT32, 30, 8, 1 },
    };
    bzna_context *context = context_open(0);
    kernel_bench k = { .device = context->device, .count = few ? 16 : SURFACES };
    uint8_t *noise = malloc(SURFACE_BYTES);
    int registers = 0;
    bzna_error err = fresh_error();
    uint64_t surfaces = (uint64_t)k.count * SURFACE_BYTES, batch = (uint64_t)k.count * 3 * out_edge * out_edge * 4;
    if (bzi_device_enter(k.device, &err) != BZNA_OK ||
        bzi_device_alloc(k.device, surfaces, NULL, &k.surfaces, &err) != BZNA_OK ||
        bzi_device_alloc(k.device, batch, NULL, &k.batch, &err) != BZNA_OK)
        fail("kernel", &err);
    for (int i = 0; i < 16; i++)
        if (stream_make(k.device, &k.stream[i], &err) != BZNA_OK)
            fail("stream", &err);
    for (uint32_t i = 0; i < SURFACE_BYTES; i++)
        noise[i] = (uint8_t)(i * 2654435761u >> 24);
    for (uint32_t i = 0; i < k.count; i++)
        if (bzi_device_upload(k.device, k.surfaces + (uint64_t)i * SURFACE_BYTES, noise, SURFACE_BYTES, k.stream[0],
                              &err) != BZNA_OK)
            fail("upload", &err);
    k.device->cu.cuStreamSynchronize(k.stream[0]);
    k.copy_bandwidth = copy_bandwidth(k.device, k.stream[0]);
    if (extra.attribute)
        extra.attribute(&registers, 4, k.device->warp[0]);     /* CU_FUNC_ATTRIBUTE_NUM_REGS */
    kernel_registers(k.device);
    printf("\n%sThe warp kernel alone: %u pictures of 500x375 to 224x224, in launches of so many slots, the best of "
           "some rounds; bytes of the crop and of the "
           "batch.\n",
           mark, k.count);
    printf("%sA copy within the device moves %.0f GB/s, read and written. The kernel has %d registers a thread.\n",
           mark, k.copy_bandwidth * 1e-9, registers);
    printf("%s%-26s %6s %8s %12s %12s %10s %10s\n", mark, "", "slots", "streams", "us/picture", "pictures/s", "GB/s",
           "of copy");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        kernel_case_run(&k, &cases[i]);
    json_figure("other");
    fprintf(json, "\"what\": \"copy within the device\"");
    json_number("gb_per_second", k.copy_bandwidth > 0 ? k.copy_bandwidth * 1e-9 : -1);
    json_number("kernel_registers", registers > 0 ? registers : -1);
    json_end();
    for (int i = 0; i < 16; i++)
        bzi_device_stream_free(k.device, k.stream[i]);
    bzi_device_free(k.device, k.surfaces, surfaces, NULL);
    bzi_device_free(k.device, k.batch, batch, NULL);
    bzi_device_leave(k.device);
    bzna_context_close(context);
    free(noise);
}

/* ---- Making decoders, and parsing ---- */

static void other_figure(const char *what, const char *unit_name, double value, double count)
{
    printf("%s%-66s %10.3f %s (of %.0f)\n", mark, what, value, unit_name, count);
    json_figure("other");
    fprintf(json, "\"what\": \"%s\", \"unit\": \"%s\"", what, unit_name);
    json_number("value", value);
    json_number("count", count);
    json_end();
}

/* One session that meets more sizes than it keeps decoders: the check's archives have some of H.265, 8 bits, 4:2:0, and
 * it may keep two. */
static void decoders_section(void)
{
    static const struct {
        const char *file, *track;
    } files[] = {
        { "mixed.bzna", "bzna_input" }, { "odd265.mp4", NULL }, { "slices265.mp4", NULL }, { "wide265.mp4", NULL }
    };
    bzna_context *context = context_open(0);
    bzna_dataset *datasets[4] = { NULL };                   /* a plain mp4's parameter sets lie in the data set */
    units u = { 0 };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", data_dir, files[i].file);
        if (bzna_dataset_open(context, path, NULL, &datasets[i], NULL) == BZNA_OK)
            units_add(&u, context, datasets[i], files[i].track);
    }
    if (u.count) {
        time_calls(context->device);
        bare_measure(&context, 1, &u, 1, 2, few ? 1 : 2);
        other_figure("creating a decoder (sizes of up to 1920x1080)", "ms", timed_us(TIMED_decoder_create) * 1e-3,
                     (double)timed[TIMED_decoder_create].calls);
        other_figure("giving it another size", "ms", timed_us(TIMED_decoder_reconfigure) * 1e-3,
                     (double)timed[TIMED_decoder_reconfigure].calls);
        other_figure("destroying it", "ms", timed_us(TIMED_decoder_destroy) * 1e-3,
                     (double)timed[TIMED_decoder_destroy].calls);
        other_figure("making a parser", "ms", timed_us(TIMED_parser_create) * 1e-3,
                     (double)timed[TIMED_parser_create].calls);
    }
    units_free(&u);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        bzna_dataset_close(datasets[i]);
    bzna_context_close(context);
}

enum { MEASURED_DECODERS = 8 };

/* As the library makes them, of H.265, 8 bits, 4:2:0; intra: ulIntraDecodeOnly. Sizes are multiples of 16. Returns how
 * many were made. */
static int decoders_make(bzi_device *device, CUvideodecoder *all, uint32_t width, uint32_t height, int intra,
                         uint64_t *estimate)
{
    const bzi_nvdec_format format = { BZNA_CODEC_H265, 1, 8, width, height };
    CUVIDDECODECREATEINFO info;
    int made = 0;
    memset(&info, 0, sizeof info);
    info.CodecType = cudaVideoCodec_HEVC;
    info.ChromaFormat = cudaVideoChromaFormat_420;
    info.ulWidth = info.ulTargetWidth = width;
    info.ulHeight = info.ulTargetHeight = height;
    info.ulMaxWidth = bzi_nvdec_max_edge(width, 0, 8192);
    info.ulMaxHeight = bzi_nvdec_max_edge(height, 0, 8192);
    info.ulNumDecodeSurfaces = bzi_nvdec_chosen(device);
    info.ulNumOutputSurfaces = device->config.session_mapped;
    info.ulIntraDecodeOnly = (unsigned long)intra;
    info.ulCreationFlags = cudaVideoCreate_PreferCUVID;
    info.DeinterlaceMode = cudaVideoDeinterlaceMode_Weave;
    info.OutputFormat = cudaVideoSurfaceFormat_NV12;
    info.display_area.right = (short)width;
    info.display_area.bottom = (short)height;
    *estimate = bzi_nvdec_bytes(&format, info.ulNumDecodeSurfaces + info.ulNumOutputSurfaces, info.ulMaxWidth,
                                info.ulMaxHeight);
    while (made < MEASURED_DECODERS && device->cu.cuvidCreateDecoder(&all[made], &info) == CUDA_SUCCESS)
        made++;
    return made;
}

/* What the device has less by some decoders more. */
static void decoder_memory(bzi_device *device, uint32_t width, uint32_t height, int intra)
{
    CUvideodecoder all[MEASURED_DECODERS];
    size_t before = 0, after = 0, total = 0;
    uint64_t estimate = 0;
    int known = extra.memory && extra.memory(&before, &total) == CUDA_SUCCESS, made;
    double each;
    if (known && before < (size_t)2 << 30) {
        printf("%s%ux%u: not measured, only %zu MiB are free\n", mark, width, height, before >> 20);
        return;
    }
    made = decoders_make(device, all, width, height, intra, &estimate);
    known = known && made && extra.memory(&after, &total) == CUDA_SUCCESS;
    each = known ? ((double)before - (double)after) / made / (1 << 20) : -1;
    for (int i = 0; i < made; i++)
        device->cu.cuvidDestroyDecoder(all[i]);
    printf("%s%4ux%-8u %10d %6d", mark, width, height, intra, made);
    if (known)
        printf(" %10.1f", each);
    else
        printf(" %10s", "-");
    printf(" %10.1f\n", (double)estimate / (1 << 20));
    json_figure("decoder memory");
    fprintf(json, "\"width\": %u, \"height\": %u, \"intra_only\": %s, \"decoders\": %d", width, height,
            intra ? "true" : "false", made);
    json_number("mib", each);
    json_number("estimated_mib", (double)estimate / (1 << 20));
    json_end();
}

static void memory_section(void)
{
    bzna_context *context = context_open(0);
    bzi_device *device = context->device;
    CUvideodecoder first[MEASURED_DECODERS];
    uint64_t ignored;
    int made;
    bzna_error err = fresh_error();
    if (!in_time(6) || bzi_device_enter(device, &err) != BZNA_OK) {
        printf("%sthe memory of decoders: not measured, out of time\n", mark);
        bzna_context_close(context);
        return;
    }
    printf("\n%sDevice memory of a decoder: what some take, made one after the other%s, and what the library reckons "
           "with\n",
           mark, extra.memory ? "" : " (this driver cannot tell)");
    printf("%s%-13s %10s %6s %10s %10s\n", mark, "size", "intra only", "made", "MiB each", "reckoned");
    made = decoders_make(device, first, 512, 512, 1, &ignored); /* what comes with the first one is not theirs */
    for (int large = 0; large < 2; large++)
        for (int intra = 0; intra < 2; intra++)
            decoder_memory(device, large ? 1920 : 512, large ? 1088 : 512, intra);
    for (int i = 0; i < made; i++)
        device->cu.cuvidDestroyDecoder(first[i]);
    bzi_device_leave(device);
    bzna_context_close(context);
}

static int CUDAAPI parse_sequence(void *user, CUVIDEOFORMAT *format) { (void)user; (void)format; return 8; }

static int CUDAAPI parse_picture(void *user, CUVIDPICPARAMS *parameters)
{
    (void)parameters;
    ++*(uint64_t *)user;
    return 1;
}

/* The parser with callbacks that do nothing, on one thread. */
static void parser_section(archive *a)
{
    bzna_context *context = context_open(0);
    bzi_device *device = context->device;
    bzna_dataset *dataset = archive_open(context, a);
    units u = { 0 };
    uint64_t pictures = 0, packets = 0, copied_bytes = 0;
    uint8_t *stream = malloc(1 << 22);
    CUVIDPARSERPARAMS parameters;
    CUvideoparser parser = NULL;
    bzna_error err = fresh_error();
    char what[96];
    double start, parsing = 0, writing = 0;
    units_add(&u, context, dataset, NULL);
    memset(&parameters, 0, sizeof parameters);
    parameters.CodecType = strstr(a->name, "h264") ? cudaVideoCodec_H264 : cudaVideoCodec_HEVC;
    parameters.ulMaxNumDecodeSurfaces = 1;
    parameters.pUserData = &pictures;
    parameters.pfnSequenceCallback = parse_sequence;
    parameters.pfnDecodePicture = parse_picture;
    if (bzi_device_enter(device, &err) != BZNA_OK ||
        bzi_device_check(device, device->cu.cuvidCreateVideoParser(&parser, &parameters), "cuvidCreateVideoParser",
                         &err) !=
            BZNA_OK)
        fail("parser", &err);
    for (double end = now() + (few ? 0.2 : 1); now() < end;)
        for (uint64_t i = 0; i < u.count; i++) {
            CUVIDSOURCEDATAPACKET packet;
            size_t size = 0;
            memset(&packet, 0, sizeof packet);
            start = now();
            if (bzna_image_annexb(&u.unit[i].image, stream, 1 << 22, &size, &err) != BZNA_OK)
                fail("annexb", &err);
            writing += now() - start;
            packet.flags = CUVID_PKT_ENDOFPICTURE;
            packet.payload = stream;
            packet.payload_size = (tcu_ulong)size;
            start = now();
            if (bzi_device_check(device, device->cu.cuvidParseVideoData(parser, &packet), "cuvidParseVideoData",
                                 &err) != BZNA_OK)
                fail("parse", &err);
            parsing += now() - start;
            packets++;
            copied_bytes += size;
        }
    device->cu.cuvidDestroyVideoParser(parser);
    snprintf(what, sizeof what, "parsing a picture of %s, nothing decoded", a->name);
    other_figure(what, "us", parsing / (double)packets * 1e6, (double)pictures);
    snprintf(what, sizeof what, "writing its stream of %.0f bytes for the parser",
             (double)copied_bytes / (double)packets);
    other_figure(what, "us", writing / (double)packets * 1e6, (double)packets);
    bzi_device_leave(device);
    units_free(&u);
    free(stream);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
}

/* ---- What there is ---- */

static void text_figure(const char *what, const char *value)
{
    printf("%s%-40s %s\n", mark, what, value);
    json_figure("text");
    fprintf(json, "\"what\": \"%s\"", what);
    json_string("value", value);
    json_end();
}

/* What the driver takes of a kind of coded pictures, whether this library asks for it or not. */
static void caps_figure(const bzi_device *device, int codec, int chroma, int depth)
{
    static const char *const names[] = { "MPEG-1", "MPEG-2", "MPEG-4", "VC-1", "H.264", "JPEG", "H.264 SVC",
                                         "H.264 MVC", "H.265", "VP8", "VP9", "AV1" };
    CUVIDDECODECAPS caps;
    CUresult result;
    memset(&caps, 0, sizeof caps);
    caps.eCodecType = (cudaVideoCodec)codec;
    caps.eChromaFormat = (cudaVideoChromaFormat)chroma;
    caps.nBitDepthMinus8 = (unsigned)depth - 8;
    result = device->cu.cuvidGetDecoderCaps(&caps);
    if (caps.bIsSupported)
        printf("%s%-9s %s %2u bits: %u engines, %ux%u to %ux%u, %u macroblocks, output formats %#x\n", mark,
               names[codec], bzi_chroma_name((uint32_t)chroma), depth, caps.nNumNVDECs, caps.nMinWidth,
               caps.nMinHeight, caps.nMaxWidth, caps.nMaxHeight, caps.nMaxMBCount, caps.nOutputFormatMask);
    json_figure("caps");
    fprintf(json, "\"codec\": \"%s\", \"chroma\": \"%s\", \"depth\": %d, \"result\": %d, \"supported\": %u",
            names[codec], bzi_chroma_name((uint32_t)chroma), depth, (int)result, caps.bIsSupported);
    if (caps.bIsSupported)
        fprintf(json, ", \"engines\": %u, \"min\": [%u, %u], \"max\": [%u, %u], \"macroblocks\": %u, \"formats\": %u",
                caps.nNumNVDECs, caps.nMinWidth, caps.nMinHeight, caps.nMaxWidth, caps.nMaxHeight, caps.nMaxMBCount,
                caps.nOutputFormatMask);
    json_end();
}

static void clocks_figures(void)
{
    static const char *const names[4] = { "clock, graphics", "clock, SM", "clock, memory", "clock, video" };
    int (*max)(void *device, int kind, unsigned *mhz) = NULL;
    int (*mig)(void *device, unsigned *current, unsigned *pending) = NULL;
    int (*version)(char *text, unsigned size) = NULL;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    char text[128];
    unsigned a = 0, b = 0;
    find(library, "nvmlDeviceGetMaxClockInfo", &max);
    find(library, "nvmlDeviceGetMigMode", &mig);
    find(library, "nvmlSystemGetDriverVersion", &version);
    text_figure("driver", version && version(text, sizeof text) == 0 ? text : "not known: there is no NVML");
    for (int i = 0; i < 4 && management.device; i++)
        if (management.clock && management.clock(management.device, i, &a) == 0 && max &&
            max(management.device, i, &b) == 0) {
            snprintf(text, sizeof text, "%u of at most %u MHz", a, b);
            text_figure(names[i], text);
        }
    snprintf(text, sizeof text, "not known");
    if (mig && management.device && mig(management.device, &a, &b) == 0)
        snprintf(text, sizeof text, "%s", a ? "on" : "off");
    text_figure("MIG", text);
}

static void name_device(const char *name)
{
    is_fake = !strcmp(name, "Fake GPU");
    if (is_fake)
        mark = "fake driver: ";
}

#include "gpu_dice.h"

/* The kernel's compilation by the driver, in a process that has done nothing else. Run twice with one CUDA_CACHE_PATH
 * that was empty, the second is warm. */
static void ptx_section(void)
{
    bzna_context *context = NULL;
    bzna_context_config config;
    bzna_error err = fresh_error();
    char *text = calloc(1, 1 << 20);
    uint64_t size;
    bzi_cuda cu;
    CUcontext cuda, popped;
    CUdevice handle = 0;
    CUmodule module;
    int count;
    double start = now(), begun = start;
    memset(&cu, 0, sizeof cu);
    bzi_kernel_unpack(text);
    size = strlen(text) + 1;
    if (bzi_cuda_start(&cu, &count, &err) != BZNA_OK || cu.cuDeviceGet(&handle, (int)device_number) != CUDA_SUCCESS ||
        cu.cuDevicePrimaryCtxRetain(&cuda, handle) != CUDA_SUCCESS || cu.cuCtxPushCurrent_v2(cuda) != CUDA_SUCCESS)
        fail("starting the driver", &err);
    if (cu.cuDeviceGetName(about.name, (int)sizeof about.name - 1, handle) == CUDA_SUCCESS)
        name_device(about.name);
    other_figure("starting the driver and its context", "ms", (now() - start) * 1e3, 1);
    start = now();
    if (cu.cuModuleLoadData(&module, text) != CUDA_SUCCESS)
        fail("cuModuleLoadData", &err);
    snprintf(err.message, sizeof err.message, "loading %ld bytes of PTX, the cache %s", (long)size - 1,
             getenv("PTX_CACHE") ? getenv("PTX_CACHE") : "as it is");
    other_figure(err.message, "ms", (now() - start) * 1e3, 1);
    cu.cuModuleUnload(module);
    cu.cuCtxPopCurrent_v2(&popped);
    cu.cuDevicePrimaryCtxRelease(handle);
    free(text);
    bzna_context_config_init(&config, sizeof config);
    config.device = (bzna_device){ BZNA_DEVICE_CUDA, (int32_t)device_number };
    start = now();
    if (bzna_context_open(&config, &context, &err) != BZNA_OK)
        fail("context", &err);
    other_figure("opening a context of the library after that", "ms", (now() - start) * 1e3, 1);
    bzna_context_close(context);
    other_figure("all of it, closing included", "ms", (now() - begun) * 1e3, 1);
}

/* ---- The self-check ---- */

/* The pictures of a kind, in turn, each as the self-check decodes a kind's first one. */
static void selfcheck_try(bzna_context *context, size_t picture)
{
    bzi_device *device = context->device;
    const uint32_t codec = check_pictures[picture].codec, depth = check_pictures[picture].depth;
    bzi_session session;
    check_pair pair = { .want = { codec, 1, depth, 0, 0 } };
    bzna_error err = fresh_error();
    bzna_status status;
    double start = now();
    if ((status = bzi_session_open(&session, device, &context->host->memory, &err)) != BZNA_OK)
        fail("session", &err);
    check_pair_use(&pair);
    if (bzi_session_accepts(&session, pair.coded, &err) == BZNA_OK) {
        for (int i = 0; i < 6 && status == BZNA_OK; i++)
            status = check_pair_decode(&session, &pair, i % 2, &err);
        /* The kernel is compared last: what NVDEC decoded was right. What the kernel does is a section of its own. */
        if (status == BZNA_E_DEVICE_LOST && atomic_load(&device->lost) == BZI_DEVICE_WRONG) {
            atomic_store(&device->lost, 0);
            status = BZNA_OK;
        }
    } else {
        status = BZNA_E_UNSUPPORTED;
    }
    printf("%s%-5s %2u bits: %s, %.0f ms %s\n", mark, bzi_codec_name(codec), depth,
           status == BZNA_OK ? "passed" : status == BZNA_E_UNSUPPORTED ? "not decoded here" : "FAILED",
           (now() - start) * 1e3, status == BZNA_OK ? "" : err.message);
    json_figure("self-check");
    fprintf(json, "\"codec\": \"%s\", \"depth\": %u, \"status\": %d", bzi_codec_name(codec), depth, status);
    json_string("state", status == BZNA_OK ? "passed" : status == BZNA_E_UNSUPPORTED ? "refused" : "failed");
    json_string("message", status == BZNA_OK ? "" : err.message);
    json_number("ms", (now() - start) * 1e3);
    json_end();
    if (atomic_load(&device->stuck))
        exit(1);                                            /* nothing may wait for this driver any more */
    bzi_session_close(&session);
}

static void selfcheck_section(void)
{
    bzna_context *context = context_open(0);
    bzi_device *device = context->device;
    bzna_error err = fresh_error();
    device->checks = 1;
    if (bzi_device_enter(device, &err) != BZNA_OK)
        fail("context", &err);
    text_figure("the kernel", bzi_trial_run(device, &err) == BZNA_OK ? "passed" : err.message);
    if (atomic_load(&device->lost) == BZI_DEVICE_WRONG)
        atomic_store(&device->lost, 0);
    for (size_t i = 0; i < sizeof check_pictures / sizeof check_pictures[0]; i++)
        if (check_pictures[i].codec != BZNA_CODEC_JPEG && in_time(1))   /* its decoders round in different ways */
            selfcheck_try(context, i);
    bzi_device_leave(device);
    bzna_context_close(context);
}

/* ---- One engine ---- */

enum { ENGINE_SURFACES = 16, ENGINE_DEPTHS = 4 };
static const uint32_t engine_depths[ENGINE_DEPTHS] = { 1, 2, 4, 8 };

/* A picture as the parser hands it over. */
typedef struct parsed { CUVIDPICPARAMS parameters; uint8_t *bytes; unsigned *slices; } parsed;

typedef struct engine {
    bzi_device    *device;
    CUVIDEOFORMAT  format;            /* of the first picture; those of other sizes are left out */
    parsed        *pictures;
    uint64_t       count, bytes;
    cudaVideoCodec codec;             /* of all pictures */
    CUvideodecoder decoder;
    CUstream       stream;
} engine;

static int CUDAAPI engine_sequence(void *user, CUVIDEOFORMAT *format)
{
    engine *e = user;
    if (!e->count)
        e->format = *format;
    return format->coded_width == e->format.coded_width && format->coded_height == e->format.coded_height ? 8 : 0;
}

static int CUDAAPI engine_picture(void *user, CUVIDPICPARAMS *parameters)
{
    engine *e = user;
    parsed *p = &e->pictures[e->count++];
    p->parameters = *parameters;
    p->bytes = malloc(parameters->nBitstreamDataLen);
    p->slices = malloc(parameters->nNumSlices * sizeof *p->slices);
    memcpy(p->bytes, parameters->pBitstreamData, parameters->nBitstreamDataLen);
    if (parameters->nNumSlices)                             /* none are told for AV1 */
        memcpy(p->slices, parameters->pSliceDataOffsets, parameters->nNumSlices * sizeof *p->slices);
    p->parameters.pBitstreamData = p->bytes;
    p->parameters.pSliceDataOffsets = p->slices;
    e->bytes += parameters->nBitstreamDataLen;
    return 1;
}

/* Parses all pictures, each by a parser that has seen nothing. */
static void engine_parse(engine *e, const units *u)
{
    uint8_t *stream = malloc(1 << 22);
    bzna_error err = fresh_error();
    e->pictures = calloc((size_t)u->count, sizeof *e->pictures);
    e->codec = bzi_nvdec_codec(u->unit[0].image.codec);
    for (uint64_t i = 0; i < u->count; i++) {
        CUVIDPARSERPARAMS parameters;
        CUVIDSOURCEDATAPACKET packet;
        CUvideoparser parser;
        size_t size = 0;
        memset(&parameters, 0, sizeof parameters);
        memset(&packet, 0, sizeof packet);
        parameters.CodecType = e->codec;
        parameters.ulMaxNumDecodeSurfaces = 1;
        parameters.pUserData = e;
        parameters.pfnSequenceCallback = engine_sequence;
        parameters.pfnDecodePicture = engine_picture;
        if (bzi_device_check(e->device, e->device->cu.cuvidCreateVideoParser(&parser, &parameters),
                             "cuvidCreateVideoParser",
                             &err) != BZNA_OK ||
            bzna_image_annexb(&u->unit[i].image, stream, 1 << 22, &size, &err) != BZNA_OK)
            fail("parser", &err);
        packet.flags = CUVID_PKT_ENDOFPICTURE;
        packet.payload = stream;
        packet.payload_size = (tcu_ulong)size;
        e->device->cu.cuvidParseVideoData(parser, &packet);
        e->device->cu.cuvidDestroyVideoParser(parser);
    }
    free(stream);
}

static void engine_open(engine *e)
{
    CUVIDDECODECREATEINFO info;
    bzna_error err = fresh_error();
    memset(&info, 0, sizeof info);
    info.CodecType = e->codec;
    info.ChromaFormat = cudaVideoChromaFormat_420;
    info.ulWidth = info.ulTargetWidth = e->format.coded_width;
    info.ulHeight = info.ulTargetHeight = e->format.coded_height;
    info.ulNumDecodeSurfaces = ENGINE_SURFACES;
    info.ulNumOutputSurfaces = 2;
    info.ulIntraDecodeOnly = 1;
    info.ulCreationFlags = cudaVideoCreate_PreferCUVID;
    info.DeinterlaceMode = cudaVideoDeinterlaceMode_Weave;
    info.OutputFormat = cudaVideoSurfaceFormat_NV12;
    if (bzi_device_check(e->device, e->device->cu.cuvidCreateDecoder(&e->decoder, &info), "cuvidCreateDecoder", &err) !=
            BZNA_OK ||
        stream_make(e->device, (void **)&e->stream, &err) != BZNA_OK)
        fail("decoder", &err);
}

static void engine_close(engine *e)
{
    e->device->cu.cuvidDestroyDecoder(e->decoder);
    bzi_device_stream_free(e->device, e->stream);
    for (uint64_t i = 0; i < e->count; i++) {
        free(e->pictures[i].bytes);
        free(e->pictures[i].slices);
    }
    free(e->pictures);
}

/* Seconds a picture, with so many submitted and not mapped. All pictures are measured as often, in at most twice the
 * time, since they differ in bytes. */
static double engine_measure(engine *e, uint32_t depth, double seconds)
{
    uint64_t submitted = 0, mapped = 0, first = 0;
    double start = now(), begin = start;
    bzna_error err = fresh_error();
    while (now() - start < seconds || submitted < 4 * depth ||
           ((mapped - first) % e->count && now() - start < 2 * seconds)) {
        CUVIDPROCPARAMS parameters;
        unsigned long long address;
        unsigned pitch;
        for (; submitted < mapped + depth; submitted++) {
            CUVIDPICPARAMS *p = &e->pictures[submitted % e->count].parameters;
            p->CurrPicIdx = (int)(submitted % ENGINE_SURFACES);
            if (bzi_device_check(e->device, e->device->cu.cuvidDecodePicture(e->decoder, p), "cuvidDecodePicture",
                                 &err))
                fail("one engine", &err);
        }
        memset(&parameters, 0, sizeof parameters);
        parameters.progressive_frame = 1;
        parameters.output_stream = e->stream;
        if (bzi_device_check(e->device, e->device->cu.cuvidMapVideoFrame64(e->decoder, (int)(mapped % ENGINE_SURFACES),
                                                                      &address, &pitch,
                                                          &parameters), "cuvidMapVideoFrame64", &err))
            fail("one engine", &err);
        e->device->cu.cuvidUnmapVideoFrame64(e->decoder, address);
        if (++mapped == 2 * depth) {                        /* the queue is full by now */
            first = mapped;
            begin = now();
        }
    }
    start = now() - begin;
    for (first = mapped - first; mapped < submitted; mapped++) {
        CUVIDPROCPARAMS parameters = { .progressive_frame = 1, .output_stream = e->stream };
        unsigned long long address;
        unsigned pitch;
        if (e->device->cu.cuvidMapVideoFrame64(e->decoder, (int)(mapped % ENGINE_SURFACES),
                                                                      &address, &pitch, &parameters) ==
            CUDA_SUCCESS)
            e->device->cu.cuvidUnmapVideoFrame64(e->decoder, address);
    }
    return start / (double)first;
}

/* What an engine took for pictures of an archive. */
typedef struct engine_point { double bytes, macroblocks, us; } engine_point;

/* us = fit[0] + fit[1] x bytes + fit[2] x macroblocks, by least squares of relative errors, so that a small picture
 * counts as much as a large one. with: without macroblocks where they are all of one number. Returns 0 if the points do
 * not determine it. */
static int engine_solve(const engine_point *points, int count, int with, double fit[3])
{
    double m[3][4] = { { 0 } }, scale[3] = { 1, 0, 0 };
    for (int i = 0; i < count; i++) {
        scale[1] = fmax(scale[1], points[i].bytes);
        scale[2] = fmax(scale[2], points[i].macroblocks);
    }
    for (int i = 0; i < count; i++) {
        const double row[3] = { 1 / points[i].us, points[i].bytes / scale[1] / points[i].us,
                                points[i].macroblocks / scale[2] / points[i].us };
        for (int y = 0; y < with; y++) {
            for (int x = 0; x < with; x++)
                m[y][x] += row[y] * row[x];
            m[y][3] += row[y];
        }
    }
    for (int k = 0; k < with; k++) {
        const double before = m[k][k];
        for (int j = 0; j < k; j++)
            for (int x = 0; x < 4; x++)
                if (x > j || x == 3)
                    m[k][x] -= m[k][j] / m[j][j] * m[j][x];
        if (!(m[k][k] > 1e-6 * before))
            return 0;
        for (int j = 0; j < k; j++)
            m[k][j] = 0;
    }
    fit[2] = 0;
    for (int k = with - 1; k >= 0; k--) {
        fit[k] = m[k][3];
        for (int x = k + 1; x < with; x++)
            fit[k] -= m[k][x] * fit[x];
        fit[k] /= m[k][k];
    }
    for (int k = 0; k < 3; k++)
        fit[k] /= k && scale[k] > 0 ? scale[k] : 1;
    return 1;
}

static void engine_fit(uint32_t depth, const engine_point *points, int count)
{
    double fit[3] = { 0 }, worst = 0;
    int with = 3;
    while (with > 1 && (count < with || !engine_solve(points, count, with, fit)))
        with--;
    if (with < 2)
        return;
    for (int i = 0; i < count; i++)
        worst = fmax(worst, fabs((fit[0] + fit[1] * points[i].bytes + fit[2] * points[i].macroblocks) / points[i].us -
                                 1));
    printf("%sdepth %u: us = %.1f + %.3f x kB + %.4f x macroblocks%s, at most %.0f %% from what was measured at %d "
           "points; %.0f Mbit/s for bytes alone\n", mark, depth, fit[0], fit[1] * 1000, fit[2],
           with < 3 ? " (all pictures have as many)" : "", worst * 100, count, fit[1] > 0 ? 8 / fit[1] : 0);
    json_figure("engine fit");
    fprintf(json, "\"depth\": %u, \"points\": %d, \"a_us\": %.6g, \"b_us_per_byte\": %.6g", depth, count, fit[0],
            fit[1]);
    if (with == 3)
        fprintf(json, ", \"c_us_per_macroblock\": %.6g", fit[2]);
    json_number("worst_percent", worst * 100);
    json_end();
}

/* An archive's pictures at these depths; those that are not measured stay 0. */
static int engine_archive(bzna_context *context, archive *a, int first, int end, engine_point *made,
                          double us[ENGINE_DEPTHS])
{
    engine e = { .device = context->device };
    units u = { 0 };
    bzna_dataset *dataset;
    bzna_error err = fresh_error();
    if (!in_time((double)ENGINE_DEPTHS * point_seconds * 0.5) || !archive_load(a))
        return 0;
    dataset = archive_open(context, a);
    units_add(&u, context, dataset, NULL);
    if (bzi_device_enter(context->device, &err) != BZNA_OK)
        fail("context", &err);
    engine_parse(&e, &u);
    engine_open(&e);
    made->bytes = (double)e.bytes / (double)e.count;
    made->macroblocks = ceil(e.format.coded_width / 16.0) * ceil(e.format.coded_height / 16.0);
    printf("%s%-13s %4llu pictures of %7.0f bytes, %6.0f macroblocks:", mark, a->name, (unsigned long long)e.count,
           made->bytes, made->macroblocks);
    for (int d = 0; d < ENGINE_DEPTHS; d++) {
        us[d] = d < first || d > end ? 0 : engine_measure(&e, engine_depths[d], point_seconds * 0.5) * 1e6;
        if (us[d] <= 0) {
            printf(" %8s", "-");
            continue;
        }
        printf(" %8.1f", us[d]);
        json_figure("engine");
        fprintf(json, "\"archive\": \"%s\", \"depth\": %u", a->name, engine_depths[d]);
        json_number("bytes", made->bytes);
        json_number("macroblocks", made->macroblocks);
        json_number("us", us[d]);
        json_end();
    }
    printf("\n");
    engine_close(&e);
    bzi_device_leave(context->device);
    units_free(&u);
    bzna_dataset_close(dataset);
    return 1;
}

/* The depth of which pictures of other sizes are measured, too: an engine is then never idle. */
enum { ENGINE_FULL = 2 };

static void engine_section(void)
{
    engine_point points[ARCHIVES];
    double us[ARCHIVES][ENGINE_DEPTHS];
    bzna_context *context = context_open(0);
    int count = 0;
    printf("%sOne decoder driven by hand: us a picture with 1, 2, 4, 8 of them submitted and not mapped\n", mark);
    for (int a = FIRST_SIZED; a < ARCHIVES; a++)
        count += engine_archive(context, &archives[a], a < FIRST_FIT ? 0 : ENGINE_FULL, a < FIRST_FIT ? ENGINE_DEPTHS :
                                ENGINE_FULL, &points[count], us[count]);
    for (int d = 0; d < ENGINE_DEPTHS; d++) {
        engine_point some[ARCHIVES];
        int n = 0;
        for (int i = 0; i < count; i++)
            if (us[i][d] > 0) {
                some[n] = points[i];
                some[n++].us = us[i][d];
            }
        engine_fit(engine_depths[d], some, n);
    }
    bzna_context_close(context);
}

/* ---- End to end ---- */

static void end_header(void)
{
    printf("%s%-11s %4s %-8s %-6s %4s %10s %8s %8s %7s %6s %6s %5s  %s\n", mark, "archive", "ses.", "dtype", "output",
           "rdr.", "pictures/s", "cpu s/k", "NVDEC", "GPU", "vid", "SM MHz", "W", "limited by");
}

static void end_section(void)
{
    const uint32_t e = about.engines ? about.engines : 1, all[] = { 1, e, 2 * e, 4 * e };
    const uint32_t cores = bzi_os_processors();
    uint32_t best_sessions = 1;
    double best = 0;
    end_header();
    for (int a = 0; a < (few ? 1 : FIRST_SIZED) && about.video == BZNA_OK; a++)
        for (size_t i = 0; i < (few ? 2 : 4); i++) {
            const uint32_t sessions = few ? 1 + 2 * (uint32_t)i : all[i];
            double rate;
            if (a && i != 2)
                continue;
            rate = point_run(&archives[a], sessions, BZNA_DTYPE_FLOAT32, BZNA_DEVICE_CUDA, 0, 0);
            if (a == 0 && rate > best) {
                best = rate;
                best_sessions = sessions;
            }
        }
    if (about.video == BZNA_OK) {
        point_run(&archives[0], best_sessions, BZNA_DTYPE_FLOAT16, BZNA_DEVICE_CUDA, 0, 0);
        if (!few)
            point_run(&archives[0], best_sessions, BZNA_DTYPE_FLOAT32, BZNA_DEVICE_CUDA, 8, 0);
        point_run(&archives[0], best_sessions, BZNA_DTYPE_FLOAT32, BZNA_DEVICE_CPU, 0, 0);
    }
    printf("%sJPEG, decoded by %u processors, warped by the GPU; then warped by the CPU\n", mark, cores);
    point_run(&jpegs, 0, BZNA_DTYPE_FLOAT32, BZNA_DEVICE_CUDA, 0, 0);
    if (!few)
        point_run(&jpegs, 0, BZNA_DTYPE_FLOAT32, BZNA_DEVICE_CPU, 0, 0);
}

static void calls_section(void)
{
    const uint32_t e = about.engines ? about.engines : 1, sessions[2] = { 1, few ? 3 : 2 * e };
    for (int i = 0; i < 2; i++) {
        end_header();
        if (point_run(common(), about.video == BZNA_OK ? sessions[i] : 0, BZNA_DTYPE_FLOAT32, BZNA_DEVICE_CUDA, 0, 1) >
            0)
            calls_report(sessions[i]);
    }
}

/* A thread that keeps the multiprocessors full, as training does: warps to a large output, one behind the other. */
typedef struct load { pthread_t thread; bzi_device *device; atomic_int quit; uint64_t launches; } load;

static void *load_run(void *user)
{
    load *l = user;
    const uint32_t edge = few ? 64 : 2048;
    const bzna_output output = { .width = edge, .height = edge };
    const uint64_t bytes = 12ull * edge * edge;
    bzi_kernel_output out = bzi_output_make(&output);
    bzna_picture picture = { .depth = 8, .width = 512, .height = 512, .chroma_shift_x = 1, .chroma_shift_y = 1,
                             .pitch = { 512, 512, 512 }, .step = { 1, 2, 2 }, .color = { 1, 13, 5, 1, 1 } };
    bzi_kernel_slots slots;
    bzna_transform transform;
    uint64_t memory = 0, surface = 0;
    void *stream = NULL;
    bzna_error err = fresh_error();
    bzna_transform_init(&transform, sizeof transform);
    transform.homography[0] = transform.homography[4] = 512.0 / edge;
    if (bzi_device_enter(l->device, &err) != BZNA_OK || stream_make(l->device, &stream, &err) != BZNA_OK ||
        bzi_device_alloc(l->device, bytes, stream, &memory, &err) != BZNA_OK ||
        bzi_device_alloc(l->device, SURFACE_BYTES, stream, &surface, &err) != BZNA_OK)
        fail("load", &err);
    for (int i = 0; i < 3; i++)
        picture.plane[i] = (const void *)(uintptr_t)(surface + (i ? SURFACE_EDGE * SURFACE_EDGE + (uint64_t)i - 1 : 0));
    if (bzi_slot_make(&slots.slot[0], &picture, &transform, BZNA_CHANNELS_RGB, &err) != BZNA_OK)
        fail("slot", &err);
    slots.slot[0].dst = memory;
    while (!atomic_load(&l->quit)) {
        for (int i = 0; i < 16; i++, l->launches++)
            if (bzi_device_warp(l->device, &slots, 1, &out, stream, &err) != BZNA_OK)
                fail("load", &err);
        bzi_device_stream_wait(l->device, stream);
    }
    bzi_device_free(l->device, memory, bytes, stream);
    bzi_device_free(l->device, surface, SURFACE_BYTES, stream);
    bzi_device_stream_free(l->device, stream);
    bzi_device_leave(l->device);
    return NULL;
}

static void beside_point(const char *what, unsigned flags, int loaded)
{
    bzna_context *context = context_open(0);
    const uint32_t sessions = few ? 2 : 2 * (about.engines ? about.engines : 1);
    point p = { .archive = common(), .sessions = about.video == BZNA_OK ? sessions : 0, .dtype = BZNA_DTYPE_FLOAT32,
                .output = BZNA_DEVICE_CUDA, .batch = few ? 16 : BATCH, .beside = what };
    load l = { 0 };
    bzna_context *in = NULL;
    if (!in_time(point_seconds * 2) || !(p.cuda = cuda_context_make(context->device, flags))) {
        printf("%s%s: not measured, %s\n", mark, what, p.cuda ? "out of time" : "out of time, or no context");
        bzna_context_close(context);
        return;
    }
    if (loaded) {
        in = context_open_in(0, p.cuda);
        l.device = in->device;
        if (pthread_create(&l.thread, NULL, load_run, &l) != 0)
            exit(1);
    }
    point_measure(&p);
    point_report(&p);
    if (loaded) {
        atomic_store(&l.quit, 1);
        pthread_join(l.thread, NULL);
        other_figure("launches of the load meanwhile", "", (double)l.launches, 1);
        bzna_context_close(in);
    }
    extra.context_destroy(p.cuda);
    bzna_context_close(context);
}

static void beside_section(void)
{
    end_header();
    beside_point("in a context whose threads sleep", WAIT_SLEEPS, 0);
    beside_point("in a context whose threads spin", WAIT_SPINS, 0);
    beside_point("beside kernels that fill the GPU", WAIT_SLEEPS, 1);
    beside_point("beside them, in a context whose threads spin", WAIT_SPINS, 1);
}

/* --- One of several processes --- */

static uint32_t share_sessions = 1, share_batch = BATCH;
static double share_begin;            /* seconds since 1970 at which all of them begin to count */

static void share_section(void)
{
    point p = { .archive = common(), .sessions = about.video == BZNA_OK ? share_sessions : 0,
                .dtype = BZNA_DTYPE_FLOAT32, .output = BZNA_DEVICE_CUDA, .batch = share_batch };
    bzna_context *context = context_open(p.sessions);
    bzna_dataset *dataset = dataset_open(context, p.archive);
    bzna_loader *loader;
    void *stream = NULL;
    struct timespec time;
    double start, processor;
    if (!dataset)
        exit(1);
    time_calls(context->device);
    loader = point_open(&p, context, dataset);
    point_warm_up(&p, loader, &stream);
    do {
        point_take(loader, &stream);
        clock_gettime(CLOCK_REALTIME, &time);
    } while ((double)time.tv_sec + 1e-9 * (double)time.tv_nsec < share_begin);
    point_wait(context->device, stream);
    memset(timed, 0, sizeof timed);
    processor = processor_seconds();
    start = now();
    do {
        p.pictures += point_take(loader, &stream);
    } while (now() - start < point_seconds);
    point_wait(context->device, stream);
    p.seconds = now() - start;
    processor = processor_seconds() - processor;
    json_figure("process");
    fprintf(json, "\"sessions\": %u", p.sessions);
    json_number("late_seconds", (double)time.tv_sec + 1e-9 * (double)time.tv_nsec - share_begin);
    json_number("images_per_second", (double)p.pictures / p.seconds);
    json_number("core_seconds_per_1000", processor / (double)p.pictures * 1000);
    timed_figures();
    json_end();
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
}

/* --- The rest --- */

static void parser_sections(void)
{
    for (int i = 0; i < FIRST_SIZED; i += 2)
        if (archive_load(&archives[i]))
            parser_section(&archives[i]);
}

#include "gpu_look.h"
#include "gpu_ways.h"

/* What a section needs: nothing, a device that the library opens, or NVDEC on it. */
enum { NEEDS_NOTHING, NEEDS_DEVICE, NEEDS_VIDEO };

static const struct { const char *name; void (*run)(void); int needs; } sections[] = {
    { "environment", environment_section, NEEDS_NOTHING }, { "kernels", kernels_section, NEEDS_DEVICE },
    { "capabilities", capabilities_section, NEEDS_DEVICE }, { "hand265", hand265_section, NEEDS_VIDEO },
    { "hand264", hand264_section, NEEDS_VIDEO }, { "selfcheck", selfcheck_section, NEEDS_VIDEO },
    { "uploads", uploads_section, NEEDS_DEVICE }, { "ptx", ptx_section, NEEDS_NOTHING },
    { "engine", engine_section, NEEDS_VIDEO }, { "sessions", sessions_section, NEEDS_VIDEO },
    { "hybrid", hybrid_section, NEEDS_VIDEO }, { "grid", grid_section, NEEDS_VIDEO },
    { "waiting", waiting_section, NEEDS_VIDEO }, { "loaders", loaders_section, NEEDS_VIDEO },
    { "end", end_section, NEEDS_DEVICE }, { "beside", beside_section, NEEDS_DEVICE },
    { "calls", calls_section, NEEDS_VIDEO }, { "contexts", contexts_section, NEEDS_DEVICE },
    { "share", share_section, NEEDS_DEVICE }, { "kernel", kernel_section, NEEDS_DEVICE },
    { "decoders", decoders_section, NEEDS_VIDEO }, { "memory", memory_section, NEEDS_VIDEO },
    { "parser", parser_sections, NEEDS_VIDEO },
};
enum { SECTIONS = sizeof sections / sizeof sections[0] };

/* What the device is, in about; 0 and the reason: nothing can be measured, or nothing of NVDEC. */
static int device_find(int needs, bzna_error *err)
{
    bzna_context_config config;
    bzna_context *context = NULL;
    bzna_status status;
    bzna_context_config_init(&config, sizeof config);
    config.device = (bzna_device){ BZNA_DEVICE_CUDA, (int32_t)device_number };
    about.struct_size = sizeof about;
    if ((status = bzna_context_open(&config, &context, err)) == BZNA_OK &&
        (status = bzna_context_device_info(context, &about, sizeof about, err)) == BZNA_OK)
        load_extras(context->device);
    if (status == BZNA_OK && needs == NEEDS_VIDEO && (status = about.video) != BZNA_OK)
        snprintf(err->message, sizeof err->message, "%s", about.message);
    bzna_context_close(context);
    name_device(about.name);
    return status == BZNA_OK;
}

static int section_run(size_t section, const char *out)
{
    bzna_error err = fresh_error();
    if (sections[section].needs != NEEDS_NOTHING && !device_find(sections[section].needs, &err)) {
        printf("SKIP gpu-bench: %s\n", err.message);
        return UNMEASURABLE;
    }
    if (!(json = fopen(out, "w"))) {
        printf("%s: %s\n", out, strerror(errno));
        return 1;
    }
    sections[section].run();
    for (int a = 0; a < ARCHIVES; a++)
        free(archives[a].bytes);
    free(tuned.bytes);
    return fclose(json) != 0;
}

int main(int argc, char **argv)
{
    const char *out = "/dev/null";
    double scale = 1;
    size_t section = SECTIONS;
    int bad = 0;
    bzna_error err = fresh_error();
    setvbuf(stdout, NULL, _IOLBF, 0);
    setenv("BENZINA_NVDEC_CHECK", "0", 1);                  /* what is wrong is measured, not avoided */
    started_ns = bzi_os_now_ns();
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        for (size_t k = 0; k < SECTIONS; k++)
            section = strcmp(argv[i], sections[k].name) ? section : k;
        if (!strcmp(argv[i], "--probe")) {
            int good = device_find(NEEDS_DEVICE, &err);
            printf("%s\n", good ? about.name : err.message);
            return good ? 0 : UNMEASURABLE;
        }
        if (!strcmp(argv[i], "--sections")) {
            for (size_t k = 0; k < SECTIONS; k++)
                printf("%s\n", sections[k].name);
            return 0;
        }
        if (section < SECTIONS && !strcmp(argv[i], sections[section].name))
            continue;
        i++;
        if (value && !strcmp(argv[i - 1], "--data"))          data_dir = value;
        else if (value && !strcmp(argv[i - 1], "--out"))      out = value;
        else if (value && !strcmp(argv[i - 1], "--device"))   device_number = (uint32_t)strtoul(value, NULL, 10);
        else if (value && !strcmp(argv[i - 1], "--scale"))    scale = strtod(value, NULL);
        else if (value && !strcmp(argv[i - 1], "--budget"))   budget_seconds = strtod(value, NULL);
        else if (value && !strcmp(argv[i - 1], "--sessions")) share_sessions = (uint32_t)strtoul(value, NULL, 10);
        else if (value && !strcmp(argv[i - 1], "--batch"))    share_batch = (uint32_t)strtoul(value, NULL, 10);
        else if (value && !strcmp(argv[i - 1], "--begin"))    share_begin = strtod(value, NULL);
        else bad = 1;
    }
    if (bad || section == SECTIONS) {
        fprintf(stderr, "usage: gpu_bench SECTION [--data DIR] [--device N] [--out FILE] [--scale S] [--budget S] | "
                        "--sections | --probe\n");
        return 2;
    }
    point_seconds *= scale;
    few = scale < 0.3;
    out_edge = few ? 40 : out_edge;
    return section_run(section, out);
}
#endif
