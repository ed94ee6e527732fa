/* null_driver.c - libcuda.so.1 and libnvcuvid.so.1 that accept everything and do nothing: what remains of a loader's
 * time is the library's own. For tests/bench/bench_sessions.c. Every picture is one of 512x512, 8 bits, 4:2:0. At first
 * nothing is ever pending; null_driver.h says what calls may be made to cost. */
#define _GNU_SOURCE
#include "null_driver.h"
#include <dlfcn.h>
#include <ffnvcodec/dynlink_cuda.h>
#include <ffnvcodec/dynlink_nvcuvid.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default"))) CUresult

static char surfaces[4096];                 /* an address for what nobody reads */

/* ---- Time: real nanoseconds ---- */

enum { ENGINES = 16 };
typedef struct state {
    pthread_mutex_t lock;
    double          context_free, engine_free[ENGINES];     /* when each of them is */
    int             next_engine;
} state;

/* Of libcuda.so.1 both: the other library asks for its. */
__attribute__((visibility("default"))) null_model null_model_state;
__attribute__((visibility("default"))) extern state null_state;
state null_state = { .lock = PTHREAD_MUTEX_INITIALIZER };
static null_model *model;
static state *shared;

static int is_virtual;
__attribute__((visibility("default"))) extern double null_virtual_ns;      /* of libcuda.so.1, as null_state */
double null_virtual_ns;
static double *virtual_ns = &null_virtual_ns;

static double now(void)
{
    struct timespec t;
    if (is_virtual)
        return *virtual_ns;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void sleep_until(double ns)
{
    static _Thread_local int is_exact;
    struct timespec t = { (time_t)(ns * 1e-9), (long)fmod(ns, 1e9) };
    if (is_virtual) {
        *virtual_ns = fmax(*virtual_ns, ns);
        return;
    }
    if (!is_exact++)
        prctl(PR_SET_TIMERSLACK, 1);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
        ;
}

__attribute__((constructor)) static void find(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY);
    model = library ? dlsym(library, "null_model_state") : NULL;
    shared = library ? dlsym(library, "null_state") : NULL;
    model = model ? model : &null_model_state;
    shared = shared ? shared : &null_state;
    is_virtual = getenv("NULL_VIRTUAL") != NULL;
    if (library && dlsym(library, "null_virtual_ns"))
        virtual_ns = dlsym(library, "null_virtual_ns");
    if (getenv("NULL_MODEL"))
        sscanf(getenv("NULL_MODEL"), "%lf %lf %lf %lf", &model->scale, &model->picture_us, &model->kilobyte_us,
               &model->macroblock_us);
}

/* Seconds. */
__attribute__((visibility("default"))) double null_now(void);
__attribute__((visibility("default"))) double null_now(void) { return is_virtual ? *virtual_ns * 1e-9 : now() * 1e-9; }

static double scaled(double us) { return us * 1e3 * model->scale; }

/* Opens a call that takes the context's lock: returns when it has had it. Up to leave, the model's own lock is held. */
static void enter(void)
{
    double end;
    if (model->scale <= 0)
        return;
    atomic_fetch_add(&model->calls, 1);
    pthread_mutex_lock(&shared->lock);
    end = shared->context_free = fmax(now(), shared->context_free) + scaled(model->lock_us);
    pthread_mutex_unlock(&shared->lock);
    if (model->lock_us > 0)
        sleep_until(end);
    pthread_mutex_lock(&shared->lock);
}

static CUresult leave(void)
{
    if (model->scale > 0)
        pthread_mutex_unlock(&shared->lock);
    return CUDA_SUCCESS;
}

typedef struct timeline { double free; } timeline;      /* a stream: when all that was enqueued is done */
typedef struct moment { double at; } moment;            /* an event */

/* Enqueues work that takes so long, not while the program keeps the device busy. */
static double enqueue(CUstream handle, double us)
{
    timeline *s = (timeline *)(void *)handle;
    double start;
    if (model->scale <= 0)
        return 0;
    start = fmax(now(), s->free);
    if (model->sm_period_us > 0) {
        double at = fmod(start, scaled(model->sm_period_us));
        start += at < scaled(model->sm_busy_us) ? scaled(model->sm_busy_us) - at : 0;
    }
    return s->free = start + scaled(us);
}

EXPORT cuInit(unsigned flags);
EXPORT cuInit(unsigned flags) { return flags ? 1 : CUDA_SUCCESS; }
EXPORT cuDriverGetVersion(int *version);
EXPORT cuDriverGetVersion(int *version) { *version = 12040; return CUDA_SUCCESS; }
EXPORT cuDeviceGetCount(int *count);
EXPORT cuDeviceGetCount(int *count) { *count = 1; return CUDA_SUCCESS; }
EXPORT cuDeviceGet(CUdevice *device, int ordinal);
EXPORT cuDeviceGet(CUdevice *device, int ordinal) { *device = ordinal; return CUDA_SUCCESS; }
EXPORT cuDeviceGetName(char *name, int length, CUdevice device);
EXPORT cuDeviceGetName(char *name, int length, CUdevice device)
{
    snprintf(name, (size_t)length, "null device %d", device);
    return CUDA_SUCCESS;
}
EXPORT cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device);
EXPORT cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)attribute;
    (void)device;
    *value = 9;
    return CUDA_SUCCESS;
}
EXPORT cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
EXPORT cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = (size_t)1 << 37;
    return CUDA_SUCCESS;
}
EXPORT cuMemGetInfo_v2(size_t *unused, size_t *total);
EXPORT cuMemGetInfo_v2(size_t *unused, size_t *total)
{
    *unused = *total = (size_t)1 << 37;
    return CUDA_SUCCESS;
}
EXPORT cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
EXPORT cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    (void)device;
    *context = (CUcontext)(void *)surfaces;
    return CUDA_SUCCESS;
}
EXPORT cuDevicePrimaryCtxRelease(CUdevice device);
EXPORT cuDevicePrimaryCtxRelease(CUdevice device) { (void)device; return CUDA_SUCCESS; }
EXPORT cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
EXPORT cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    (void)flags;
    (void)device;
    *context = (CUcontext)(void *)surfaces;
    return CUDA_SUCCESS;
}
EXPORT cuCtxDestroy_v2(CUcontext context);
EXPORT cuCtxDestroy_v2(CUcontext context) { (void)context; return CUDA_SUCCESS; }
EXPORT cuCtxPushCurrent_v2(CUcontext context);
EXPORT cuCtxPushCurrent_v2(CUcontext context) { (void)context; return CUDA_SUCCESS; }
EXPORT cuCtxPopCurrent_v2(CUcontext *context);
EXPORT cuCtxPopCurrent_v2(CUcontext *context) { *context = NULL; return CUDA_SUCCESS; }
EXPORT cuCtxGetFlags(unsigned *flags);
EXPORT cuCtxGetFlags(unsigned *flags) { *flags = model->spins ? 0 : CU_CTX_SCHED_BLOCKING_SYNC; return CUDA_SUCCESS; }
EXPORT cuCtxGetCurrent(CUcontext *context);
EXPORT cuCtxGetCurrent(CUcontext *context) { *context = NULL; return CUDA_SUCCESS; }
EXPORT cuThreadExchangeStreamCaptureMode(int *mode);
EXPORT cuThreadExchangeStreamCaptureMode(int *mode) { *mode = 0; return CUDA_SUCCESS; }
EXPORT cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active);
EXPORT cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    (void)device;
    *flags = 0;
    *active = 1;
    return CUDA_SUCCESS;
}
EXPORT cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags);
EXPORT cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags)
{
    (void)device, (void)flags;
    return CUDA_SUCCESS;
}
EXPORT cuCtxGetDevice(CUdevice *device);
EXPORT cuCtxGetDevice(CUdevice *device) { *device = 0; return CUDA_SUCCESS; }

EXPORT cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
EXPORT cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    *pointer = (CUdeviceptr)(size_t)aligned_alloc(256, (bytes + 255) & ~(size_t)255);
    return *pointer ? CUDA_SUCCESS : 2;
}
EXPORT cuMemFree_v2(CUdeviceptr pointer);
EXPORT cuMemFree_v2(CUdeviceptr pointer) { free((void *)(size_t)pointer); return CUDA_SUCCESS; }
EXPORT cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags);
EXPORT cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    (void)flags;
    *pointer = aligned_alloc(256, (bytes + 255) & ~(size_t)255);
    return *pointer ? CUDA_SUCCESS : 2;
}
EXPORT cuMemFreeHost(void *pointer);
EXPORT cuMemFreeHost(void *pointer) { free(pointer); return CUDA_SUCCESS; }
EXPORT cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
EXPORT cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    (void)to;
    (void)from;
    (void)bytes;
    (void)stream;
    return CUDA_SUCCESS;
}
EXPORT cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream);
EXPORT cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream)
{
    (void)to;
    (void)byte;
    (void)bytes;
    (void)stream;
    return CUDA_SUCCESS;
}
EXPORT cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
EXPORT cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    (void)to;
    (void)from;
    (void)bytes;
    (void)stream;
    return CUDA_SUCCESS;
}
EXPORT cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream);
EXPORT cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    (void)copy;
    (void)stream;
    return CUDA_SUCCESS;
}

EXPORT cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority);
EXPORT cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
    (void)flags, (void)priority;
    *out = (CUstream)calloc(1, sizeof(timeline));
    return *out ? CUDA_SUCCESS : 2;
}
EXPORT cuStreamDestroy_v2(CUstream handle);
EXPORT cuStreamDestroy_v2(CUstream handle) { free((void *)handle); return CUDA_SUCCESS; }
EXPORT cuStreamQuery(CUstream handle);
EXPORT cuStreamQuery(CUstream handle)
{
    double at;
    enter();
    at = ((timeline *)(void *)handle)->free;
    leave();
    return model->scale <= 0 || at <= now() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
EXPORT cuStreamSynchronize(CUstream handle);
EXPORT cuStreamSynchronize(CUstream handle) { sleep_until(((timeline *)(void *)handle)->free); return CUDA_SUCCESS; }
EXPORT cuStreamWaitEvent(CUstream handle, CUevent what, unsigned flags);
EXPORT cuStreamWaitEvent(CUstream handle, CUevent what, unsigned flags)
{
    timeline *s = (timeline *)(void *)handle;
    (void)flags;
    enter();
    s->free = fmax(s->free, ((moment *)(void *)what)->at);
    return leave();
}
EXPORT cuEventCreate(CUevent *out, unsigned flags);
EXPORT cuEventCreate(CUevent *out, unsigned flags)
{
    (void)flags;
    *out = (CUevent)calloc(1, sizeof(moment));
    return *out ? CUDA_SUCCESS : 2;
}
EXPORT cuEventDestroy_v2(CUevent what);
EXPORT cuEventDestroy_v2(CUevent what) { free((void *)what); return CUDA_SUCCESS; }
EXPORT cuEventRecord(CUevent what, CUstream handle);
EXPORT cuEventRecord(CUevent what, CUstream handle)
{
    enter();
    ((moment *)(void *)what)->at = ((timeline *)(void *)handle)->free;
    return leave();
}
EXPORT cuEventQuery(CUevent what);
EXPORT cuEventQuery(CUevent what)
{
    double at;
    enter();
    at = ((moment *)(void *)what)->at;
    leave();
    return model->scale <= 0 || at <= now() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
EXPORT cuEventSynchronize(CUevent what);
EXPORT cuEventSynchronize(CUevent what)
{
    double at;
    enter();
    at = ((moment *)(void *)what)->at;
    leave();
    sleep_until(at);
    return CUDA_SUCCESS;
}

EXPORT cuModuleLoadData(CUmodule *module, const void *image);
EXPORT cuModuleLoadData(CUmodule *module, const void *image)
{
    (void)image;
    *module = (CUmodule)(void *)surfaces;
    return CUDA_SUCCESS;
}
EXPORT cuModuleUnload(CUmodule module);
EXPORT cuModuleUnload(CUmodule module) { (void)module; return CUDA_SUCCESS; }
EXPORT cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
EXPORT cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    (void)module;
    (void)name;
    *function = (CUfunction)(void *)surfaces;
    return CUDA_SUCCESS;
}
EXPORT cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream handle,
                      void **parameters, void **extra);
EXPORT cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream handle,
                      void **parameters, void **extra)
{
    (void)function;
    (void)grid_x;
    (void)grid_y;
    (void)block_x;
    (void)block_y;
    (void)block_z;
    (void)shared_bytes;
    (void)parameters;
    (void)extra;
    enter();
    enqueue(handle, grid_z * model->slot_us);
    return leave();
}
EXPORT cuGetErrorName(CUresult error, const char **name);
EXPORT cuGetErrorName(CUresult error, const char **name) { (void)error; *name = "an error"; return CUDA_SUCCESS; }

EXPORT cuvidGetDecoderCaps(CUVIDDECODECAPS *caps);
EXPORT cuvidGetDecoderCaps(CUVIDDECODECAPS *caps)
{
    caps->bIsSupported = 1;
    caps->nNumNVDECs = (unsigned char)(model->engines ? model->engines : 7);
    caps->nOutputFormatMask = 15;
    caps->nMaxWidth = caps->nMaxHeight = 8192;
    caps->nMaxMBCount = 262144;
    return CUDA_SUCCESS;
}
typedef struct decoder {
    int       engine;
    unsigned  submitted;
    double    last[4];                        /* when its last four pictures are decoded */
    double    done[32], copied[32];           /* when each surface's picture is, and when its map's copy */
    double    macroblocks;                    /* of a picture */
} decoder;

EXPORT cuvidCreateDecoder(CUvideodecoder *out, CUVIDDECODECREATEINFO *info);
EXPORT cuvidCreateDecoder(CUvideodecoder *out, CUVIDDECODECREATEINFO *info)
{
    decoder *d = calloc(1, sizeof *d);
    if (!d)
        return 2;
    d->macroblocks = (double)((info->ulWidth + 15) / 16 * ((info->ulHeight + 15) / 16));
    enter();
    d->engine = shared->next_engine++ % (model->engines ? model->engines : 7);
    *out = d;
    return leave();
}
EXPORT cuvidDestroyDecoder(CUvideodecoder handle);
EXPORT cuvidDestroyDecoder(CUvideodecoder handle) { free(handle); return CUDA_SUCCESS; }
EXPORT cuvidReconfigureDecoder(CUvideodecoder handle, CUVIDRECONFIGUREDECODERINFO *info);
EXPORT cuvidReconfigureDecoder(CUvideodecoder handle, CUVIDRECONFIGUREDECODERINFO *info)
{
    (void)handle;
    (void)info;
    return CUDA_SUCCESS;
}

/* Of the engines that are free at that time the one that was busy last, else the one that is free first. */
static int first_engine(double from)
{
    const double *end = shared->engine_free;
    int best = 0;
    for (int i = 1; i < (model->engines ? model->engines : 7); i++)
        if (end[best] <= from ? end[i] <= from && end[i] > end[best] : end[i] < end[best])
            best = i;
    return best;
}

/* Four pictures may be queued: then the call blocks. A decoder's pictures are decoded one after the other. */
EXPORT cuvidDecodePicture(CUvideodecoder handle, CUVIDPICPARAMS *p);
EXPORT cuvidDecodePicture(CUvideodecoder handle, CUVIDPICPARAMS *p)
{
    decoder *d = handle;
    double *oldest = &d->last[d->submitted % 4], before = d->last[(d->submitted + 3) % 4], start;
    int engine;
    if (model->scale <= 0)
        return CUDA_SUCCESS;
    sleep_until(*oldest);
    enter();
    start = fmax(now(), before);
    if (model->surface_waits)
        start = fmax(start, d->copied[p->CurrPicIdx & 31]);
    engine = model->dynamic ? first_engine(start) : d->engine;
    start = fmax(start, shared->engine_free[engine]);
    *oldest = d->done[p->CurrPicIdx & 31] = shared->engine_free[engine] =
        start + scaled(model->picture_us + model->kilobyte_us * p->nBitstreamDataLen / 1024.0 +
                       model->macroblock_us * d->macroblocks);
    d->submitted++;
    atomic_fetch_add(&model->pictures, 1);
    return leave();
}
EXPORT cuvidGetDecodeStatus(CUvideodecoder handle, int index, CUVIDGETDECODESTATUS *status);
EXPORT cuvidGetDecodeStatus(CUvideodecoder handle, int index, CUVIDGETDECODESTATUS *status)
{
    const decoder *d = handle;
    enter();
    status->decodeStatus = model->scale <= 0 || d->done[index & 31] <= now() ? cuvidDecodeStatus_Success :
                                                                               cuvidDecodeStatus_InProgress;
    return leave();
}
EXPORT cuvidMapVideoFrame64(CUvideodecoder handle, int index, unsigned long long *address, unsigned *pitch,
                            CUVIDPROCPARAMS *parameters);
EXPORT cuvidMapVideoFrame64(CUvideodecoder handle, int index, unsigned long long *address, unsigned *pitch,
                            CUVIDPROCPARAMS *parameters)
{
    decoder *d = handle;
    if (model->scale > 0) {
        const double start = now();
        sleep_until(d->done[index & 31]);
        atomic_fetch_add(&model->map_ns, (long long)((now() - start) / model->scale));
    }
    enter();
    d->copied[index & 31] = enqueue(parameters->output_stream, model->copy_us);
    *address = (unsigned long long)(size_t)surfaces;
    *pitch = 512;
    return leave();
}
EXPORT cuvidUnmapVideoFrame64(CUvideodecoder handle, unsigned long long address);
EXPORT cuvidUnmapVideoFrame64(CUvideodecoder handle, unsigned long long address)
{
    (void)handle;
    (void)address;
    enter();
    return leave();
}

typedef struct parser {
    CUVIDPARSERPARAMS parameters;
    int               begun;
} parser;

/* Reads bits of a NAL unit, without the bytes that keep start codes out. */
typedef struct bits { const uint8_t *at, *end; unsigned bit, zeros; } bits;

static unsigned bits_get(bits *b, unsigned count)
{
    unsigned value = 0;
    while (count-- && b->at < b->end) {
        value = value << 1 | (*b->at >> (7 - b->bit) & 1u);
        if (++b->bit == 8) {
            b->bit = 0;
            b->zeros = *b->at++ ? 0 : b->zeros + 1;
            if (b->zeros >= 2 && b->at < b->end && *b->at == 3) {
                b->at++;
                b->zeros = 0;
            }
        }
    }
    return value;
}

static unsigned bits_golomb(bits *b)
{
    unsigned zeros = 0;
    while (b->at < b->end && !bits_get(b, 1))
        zeros++;
    return (1u << (zeros & 31)) - 1 + bits_get(b, zeros & 31);
}

/* The size of H.265 frames, by the first sequence parameter set of one layer; others are 512x512. */
static void frame_size(const CUVIDSOURCEDATAPACKET *packet, CUVIDEOFORMAT *format)
{
    const uint8_t *p = packet->payload, *end = p + packet->payload_size;
    format->coded_width = format->coded_height = 512;
    for (; format->codec == cudaVideoCodec_HEVC && p + 8 < end; p++) {
        bits b = { p + 5, end, 0, 0 };
        if (p[0] || p[1] || p[2] != 1 || (p[3] >> 1 & 63) != 33)
            continue;
        if ((bits_get(&b, 8) >> 1 & 7) != 0)                /* layers would make the profile longer */
            return;
        bits_get(&b, 32);
        bits_get(&b, 32);
        bits_get(&b, 32);
        bits_golomb(&b);
        if (bits_golomb(&b) == 3)
            bits_get(&b, 1);
        format->coded_width = bits_golomb(&b);
        format->coded_height = bits_golomb(&b);
        return;
    }
}

EXPORT cuvidCreateVideoParser(CUvideoparser *out, CUVIDPARSERPARAMS *parameters);
EXPORT cuvidCreateVideoParser(CUvideoparser *out, CUVIDPARSERPARAMS *parameters)
{
    parser *p = calloc(1, sizeof *p);
    if (!p)
        return 2;
    p->parameters = *parameters;
    *out = p;
    return CUDA_SUCCESS;
}
EXPORT cuvidParseVideoData(CUvideoparser handle, CUVIDSOURCEDATAPACKET *packet);
EXPORT cuvidParseVideoData(CUvideoparser handle, CUVIDSOURCEDATAPACKET *packet)
{
    parser *p = handle;
    CUVIDPICPARAMS picture;
    if (!p->begun++) {
        CUVIDEOFORMAT format;
        memset(&format, 0, sizeof format);
        format.codec = p->parameters.CodecType;
        format.chroma_format = cudaVideoChromaFormat_420;
        frame_size(packet, &format);
        p->parameters.pfnSequenceCallback(p->parameters.pUserData, &format);
    }
    memset(&picture, 0, sizeof picture);
    picture.nBitstreamDataLen = (unsigned)packet->payload_size;
    picture.pBitstreamData = packet->payload;
    p->parameters.pfnDecodePicture(p->parameters.pUserData, &picture);
    return CUDA_SUCCESS;
}
EXPORT cuvidDestroyVideoParser(CUvideoparser handle);
EXPORT cuvidDestroyVideoParser(CUvideoparser handle) { free(handle); return CUDA_SUCCESS; }
