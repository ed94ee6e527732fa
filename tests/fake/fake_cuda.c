/* fake_cuda.c - a libcuda.so.1 for tests: see fake.h.
 *
 * Handles are places in fixed tables whose states are atomics, so that a stale handle is found without a lock, which
 * would order threads that CUDA leaves unordered. For the same reason a stream's queue has no lock, events are
 * counters, and sleeping is done by bare futexes. */
#define _GNU_SOURCE
#define FAKE_INTERNAL
#include "fake.h"
#include <stdarg.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>
#ifndef _WIN32
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#endif
#include "../../benzina_kernels.cu"
#include "../unit/passes.h"

#define NAME(name, function, bounds) #name,
enum { AUGMENT = BZI_KERNEL_COUNT, ENTRIES };
static const char *const entries[ENTRIES] = { BZI_KERNELS(NAME) "bzi_kernel_augment" };

tcuInit cuInit;
tcuDeviceGetCount cuDeviceGetCount;
tcuDeviceGet cuDeviceGet;
tcuDeviceGetName cuDeviceGetName;
tcuDeviceGetAttribute cuDeviceGetAttribute;
tcuDevicePrimaryCtxRetain cuDevicePrimaryCtxRetain;
tcuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease;
tcuCtxPushCurrent_v2 cuCtxPushCurrent_v2;
tcuCtxPopCurrent_v2 cuCtxPopCurrent_v2;
tcuCtxGetDevice cuCtxGetDevice;
tcuCtxCreate_v2 cuCtxCreate_v2;
tcuCtxDestroy_v2 cuCtxDestroy_v2;
tcuMemAlloc_v2 cuMemAlloc_v2;
tcuMemFree_v2 cuMemFree_v2;
tcuMemcpyHtoDAsync_v2 cuMemcpyHtoDAsync_v2;
tcuMemcpyDtoHAsync_v2 cuMemcpyDtoHAsync_v2;
tcuMemsetD8Async cuMemsetD8Async;
tcuMemcpyDtoH_v2 cuMemcpyDtoH_v2;
tcuMemcpy2DAsync_v2 cuMemcpy2DAsync_v2;
tcuStreamCreate cuStreamCreate;
tcuStreamDestroy_v2 cuStreamDestroy_v2;
tcuStreamQuery cuStreamQuery;
tcuStreamSynchronize cuStreamSynchronize;
tcuEventCreate cuEventCreate;
tcuEventDestroy_v2 cuEventDestroy_v2;
tcuEventRecord cuEventRecord;
tcuEventSynchronize cuEventSynchronize;
tcuEventQuery cuEventQuery;
tcuModuleLoadData cuModuleLoadData;
tcuModuleUnload cuModuleUnload;
tcuModuleGetFunction cuModuleGetFunction;
tcuLaunchKernel cuLaunchKernel;
tcuGetErrorName cuGetErrorName;
/* What the header lacks. */
CUresult cuDriverGetVersion(int *version);
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
CUresult cuMemGetInfo_v2(size_t *unused, size_t *total);
CUresult cuMemHostAlloc(void **pp, size_t size, unsigned flags);
CUresult cuMemFreeHost(void *p);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
tcuDevicePrimaryCtxGetState cuDevicePrimaryCtxGetState;
tcuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags;
CUresult cuCtxGetCurrent(CUcontext *pctx);
CUresult cuCtxGetFlags(unsigned *flags);
CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned flags, int priority);
CUresult cuThreadExchangeStreamCaptureMode(int *mode);


/* ---- Control ----------------------------------------------------------------------------------------------------- */

static fake_control *control;           /* shared with children, so that what they do wrong is seen */
static _Atomic int init_pid;            /* 0: cuInit was not called */
static _Atomic long long thread_count, stream_serial;

#define FAKE_NAME(name) #name,
static const char *const names[] = { FAKE_FUNCTIONS(FAKE_NAME) };

static void set_defaults(void)
{
    static const long long caps[FAKE_CODECS][7] = {
        { 1 << 1,          1 << 8,                      48,  16, 4096, 4096,  65536 },
        { 1 << 1 | 1 << 3, 1 << 8 | 1 << 10 | 1 << 12, 144, 144, 8192, 8192, 262144 },
        { 0,               1 << 8 | 1 << 10,           128, 128, 8192, 8192, 262144 },
        { 0,               1 << 8,                      64,  64, 32768, 16384, 67108864 },
    };
    memset((void *)control, 0, sizeof *control);
    for (int i = 0; i < FAKE_CODECS; i++) {
        control->caps[i].chroma_mask = caps[i][0];
        control->caps[i].depth_mask = caps[i][1];
        control->caps[i].min_width = caps[i][2];
        control->caps[i].min_height = caps[i][3];
        control->caps[i].max_width = caps[i][4];
        control->caps[i].max_height = caps[i][5];
        control->caps[i].max_macroblocks = caps[i][6];
    }
    control->seed = 1;
    control->devices = 1;
    control->driver_version = 12080;
    control->capability_major = 9;
    control->memory_total = 80LL << 30;
    control->engines = 7;
    control->min_surfaces = 4;
    control->poison = 1;
    control->pitch_step = 64;
}

fake_control *fake_get(void) { return control; }

static const char *function_name(long long function)
{
    return function >= 0 && function < FAKE_FUNCTION_COUNT ? names[function] : "?";
}

static int function_id(const char *name)
{
    for (int i = 0; i < FAKE_FUNCTION_COUNT; i++)
        if (!strcmp(names[i], name))
            return i;
    fprintf(stderr, "fake: there is no function %s\n", name);
    abort();
}

static long long function_calls(const char *name) { return control->calls[function_id(name)]; }

static void script_failure(const char *name, long long k, int code, int later)
{
    int f = function_id(name);
    control->fail_at[f] = 0;
    control->fail_code[f] = code;
    control->fail_later[f] = later;
    control->fail_at[f] = k ? control->calls[f] + k : 0;
}

static int scripted(int function, long long k)
{
    long long at = FAKE_GET(control->fail_at[function]);
    return at && (k == at || (k > at && FAKE_GET(control->fail_later[function]))) ?
               (int)FAKE_GET(control->fail_code[function]) :
               0;
}

void fake_violate(const char *format, ...)
{
    char text[sizeof control->violation];
    int none = 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!FAKE_GET(control->quiet))
        fprintf(stderr, "fake: violation: %s\n", text);
    if (atomic_compare_exchange_strong(&control->violation_state, &none, 1)) {
        memcpy(control->violation, text, sizeof text);
        atomic_store(&control->violation_state, 2);
    }
    FAKE_ADD(control->violations, 1);
}

static const char *first_violation(void)
{
    return atomic_load(&control->violation_state) == 2 ? control->violation : NULL;
}

void fake_peak(fake_number *peak, long long value)
{
    long long was = FAKE_GET(*peak);
    while (value > was &&
           !atomic_compare_exchange_weak_explicit(peak, &was, value, memory_order_relaxed, memory_order_relaxed))
        ;
}

long long fake_thread(void)
{
    static _Thread_local long long id;
    if (!id)
        id = FAKE_ADD(thread_count, 1) + 1;
    return id;
}

/* ---- Contexts, and what is lost of them -------------------------------------------------------------------------- */

enum { FREE, MAKING, ALIVE, DEAD };

struct CUctx_st {
    _Atomic int state;
    fake_number flags;
    CUdevice    device;
    fake_number retained, objects;      /* of a primary context; what lives in it */
};

static struct CUctx_st contexts[FAKE_DEVICES + 64];      /* primary ones first */
static _Thread_local CUcontext stack[32];
static _Thread_local int depth;
static _Thread_local int of_device = -1;            /* of a thread that works for a stream or an engine */

CUcontext fake_current(void) { return depth ? stack[depth - 1] : NULL; }
void fake_work_for(CUcontext context) { of_device = context ? context->device : -1; }

/* The device of the current context, or the one that this thread works for; -1: none. */
static int fake_device(void) { return depth ? stack[depth - 1]->device : of_device; }

uint64_t fake_random(void)      /* splitmix64 */
{
    uint64_t z = ((uint64_t)FAKE_GET(control->seed) << 32) +
                 (uint64_t)FAKE_ADD(control->randoms, 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static long long up_to(long long us) { return us > 0 ? (long long)(fake_random() % (uint64_t)(us + 1)) : 0; }

void fake_nap(long long us)
{
    while (us > 0 && !fake_lost()) {
        long long slice = us < 2000 ? us : 2000;
        struct timespec time = { 0, (long)slice * 1000 };
        nanosleep(&time, NULL);
        us -= slice;
    }
}

/* Not through libc: a sanitizer would take sleeping for synchronization. The limit also notices a lost device. */
void fake_sleep_on(fake_word *word, unsigned seen)
{
#ifdef _WIN32
    WaitOnAddress(&word->value, &seen, sizeof seen, 5);
#else
    struct timespec limit = { 0, 5000000 };
    syscall(SYS_futex, &word->value, FUTEX_WAIT_PRIVATE, seen, &limit, NULL, 0);
#endif
}

void fake_wake(fake_word *word)
{
    atomic_fetch_add_explicit(&word->value, 1, memory_order_release);
#ifdef _WIN32
    WakeByAddressAll(&word->value);
#else
    syscall(SYS_futex, &word->value, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
#endif
}

int fake_is_sticky(int code)
{
    return code == 214 || code == 220 || code == 700 || code == 702 || code == 710 || (code >= 714 && code <= 719);
}

void fake_lose(int code)
{
    const int device = fake_device();
    long long none = 0;
    atomic_compare_exchange_strong_explicit(&control->lost, &none, code, memory_order_relaxed, memory_order_relaxed);
    if (device >= 0)
        FAKE_SET(control->lost_device[device], code);
}

int fake_lost(void)
{
    const int device = fake_device();
    if (!FAKE_GET(control->lost_alone))
        return (int)FAKE_GET(control->lost);
    return device < 0 ? 0 : (int)FAKE_GET(control->lost_device[device]);
}

static int lost(void) { return fake_lost(); }

static long long note(int function, const void *stream, const void *decoder, long long value)
{
    long long at = FAKE_ADD(control->log_count, 1);
    if (at < FAKE_LOG_SIZE) {
        fake_entry *entry = &control->log[at];
        FAKE_SET(entry->function, function);
        FAKE_SET(entry->thread, fake_thread());
        FAKE_SET(entry->stream, (long long)(intptr_t)stream);
        FAKE_SET(entry->decoder, (long long)(intptr_t)decoder);
        FAKE_SET(entry->value, value);
    }
    return FAKE_ADD(control->calls[function], 1) + 1;
}

int fake_happens(int place, const void *stream, const void *decoder, long long value)
{
    int code = scripted(place, note(place, stream, decoder, value));
    if (code && (place != FAKE_engine_picture || fake_is_sticky(code)))
        fake_lose(code);
    return code;
}


/* ---- Contexts ---------------------------------------------------------------------------------------------------- */

static int claim(_Atomic int *state, int from)
{
    return atomic_compare_exchange_strong_explicit(state, &from, MAKING, memory_order_acquire, memory_order_relaxed);
}

static void settle(_Atomic int *state, int to) { atomic_store_explicit(state, to, memory_order_release); }
static int is_alive(const _Atomic int *state) { return atomic_load_explicit(state, memory_order_relaxed) == ALIVE; }

#define IN_TABLE(handle, \
    table) ((uintptr_t)(handle) >= (uintptr_t)(table) && (uintptr_t)(handle) < (uintptr_t)((table) + sizeof(table) / \
    sizeof(table)[0]) && \
                                 ((uintptr_t)(handle) - (uintptr_t)(table)) % sizeof(table)[0] == 0)

int fake_mine(CUcontext context) { return context == fake_current() || lost(); }
void fake_object(CUcontext context, int n) { FAKE_ADD(context->objects, n); }

static int has_context(int function)
{
    if (depth && is_alive(&stack[depth - 1]->state))
        return 1;
    fake_violate("%s: %s", names[function],
                 depth ? "the current context was destroyed" : "no current context on this thread");
    return 0;
}

int fake_enter(int function, unsigned flags, const void *stream, const void *decoder, long long value)
{
    int pid = FAKE_GET(init_pid), code;
    long long k;
    if (pid && pid != (int)getpid()) {
        FAKE_ADD(control->fork_calls, 1);
        fake_violate("%s in a forked child", names[function]);
        return FAKE_E_NOT_INITIALIZED;
    }
    k = note(function, stream, decoder, value);
    while (FAKE_GET(control->hangs) == function + 1)
        usleep(1000);
    fake_nap(up_to(FAKE_GET(control->call_delay_us)));
    if (!pid && !(flags & FAKE_ALWAYS)) {
        fake_violate("%s before cuInit", names[function]);
        return FAKE_E_NOT_INITIALIZED;
    }
    if (fake_is_sticky(code = scripted(function, k)) ||
        (code && function == FAKE_cuCtxPushCurrent_v2 && FAKE_GET(control->fail_later[function])))
        fake_lose(code); /* a context that can be entered no more is as good as gone */
    if (!code && (!(flags & FAKE_HOST) || FAKE_GET(control->lost_push)))
        code = lost();
    if ((flags & FAKE_CONTEXT) && !lost() && !has_context(function))
        return depth ? FAKE_E_DESTROYED : FAKE_E_CONTEXT;
    return flags & FAKE_RELEASES ? -code : code;
}

/* Opens a function: the ways out that it need not care about. The second is for those that release something. */
#define ENTER(function, flags, stream, value)                                                   \
    do {                                                                                        \
        int refused = fake_enter(FAKE_##function, (flags), (stream), NULL, (long long)(value)); \
        if (refused)                                                                            \
            return (CUresult)refused;                                                           \
    } while (0)
#define ENTER_RELEASE(after, function, flags, stream, value)                                              \
    int after = fake_enter(FAKE_##function, (flags) | FAKE_RELEASES, (stream), NULL, (long long)(value)); \
    if (after > 0)                                                                                        \
    return (CUresult)after

static int is_device(CUdevice device)
{
    return device >= 0 && device < FAKE_GET(control->devices) && device < FAKE_DEVICES;
}

CUresult cuInit(unsigned Flags)
{
    ENTER(cuInit, FAKE_ALWAYS, NULL, Flags);
    if (Flags)
        return (CUresult)FAKE_E_VALUE;
    FAKE_SET(init_pid, (int)getpid());
    return FAKE_GET(control->devices) ? CUDA_SUCCESS : (CUresult)100;
}

CUresult cuDriverGetVersion(int *version)
{
    ENTER(cuDriverGetVersion, FAKE_ALWAYS, NULL, 0);
    *version = (int)FAKE_GET(control->driver_version);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    ENTER(cuDeviceGetCount, 0, NULL, 0);
    *count = (int)FAKE_GET(control->devices);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER(cuDeviceGet, 0, NULL, ordinal);
    if (!is_device(ordinal))
        return (CUresult)FAKE_E_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
    ENTER(cuDeviceGetName, 0, NULL, dev);
    if (!is_device(dev))
        return (CUresult)FAKE_E_DEVICE;
    snprintf(name, len > 0 ? (size_t)len : 0, "Fake GPU");
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    ENTER(cuDeviceGetAttribute, 0, NULL, attrib);
    if (!is_device(dev))
        return (CUresult)FAKE_E_DEVICE;
    *pi = attrib == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? (int)FAKE_GET(control->capability_major)
        : attrib == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? (int)FAKE_GET(control->capability_minor)
        : attrib == CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT ? 512
        : attrib == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 132 : attrib == CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    ENTER(cuDeviceTotalMem_v2, 0, NULL, device);
    if (!is_device(device))
        return (CUresult)FAKE_E_DEVICE;
    *bytes = (size_t)FAKE_GET(control->memory_total);
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *unused, size_t *total)
{
    long long budget = FAKE_GET(control->memory_budget);
    ENTER(cuMemGetInfo_v2, FAKE_CONTEXT, NULL, 0);
    *total = (size_t)FAKE_GET(control->memory_total);
    *unused = (size_t)(budget ? budget : FAKE_GET(control->memory_total)) - (size_t)FAKE_GET(control->memory_used);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    ENTER(cuDevicePrimaryCtxRetain, 0, NULL, dev);
    if (!is_device(dev))
        return (CUresult)FAKE_E_DEVICE;
    FAKE_ADD(contexts[dev].retained, 1);
    contexts[dev].state = ALIVE;
    *pctx = &contexts[dev];
    return CUDA_SUCCESS;
}

static void check_empty(const struct CUctx_st *context, const char *function)
{
    if (FAKE_GET(context->objects))
        fake_violate("%s: the context still has %lld objects", function, FAKE_GET(context->objects));
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    ENTER_RELEASE(after, cuDevicePrimaryCtxRelease, 0, NULL, dev);
    if (!is_device(dev) || !FAKE_GET(contexts[dev].retained)) {
        fake_violate("cuDevicePrimaryCtxRelease: not retained");
        return (CUresult)FAKE_E_CONTEXT;
    }
    if (FAKE_ADD(contexts[dev].retained, -1) == 1) {
        check_empty(&contexts[dev], "cuDevicePrimaryCtxRelease");
        contexts[dev].state = DEAD;
    }
    return (CUresult)-after;
}

CUresult cuCtxPushCurrent_v2(CUcontext pctx)
{
    ENTER(cuCtxPushCurrent_v2, FAKE_HOST, NULL, (intptr_t)pctx);
    if (!IN_TABLE(pctx, contexts) || !is_alive(&pctx->state) || depth == sizeof stack / sizeof stack[0]) {
        fake_violate("cuCtxPushCurrent: %s", IN_TABLE(pctx, contexts) && is_alive(&pctx->state) ?
                                                 "the thread's stack is full" :
                                                 "not a context");
        return (CUresult)FAKE_E_CONTEXT;
    }
    stack[depth++] = pctx;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
    ENTER(cuCtxPopCurrent_v2, FAKE_HOST, NULL, 0);
    if (!depth) {
        fake_violate("cuCtxPopCurrent: no current context on this thread");
        return (CUresult)FAKE_E_CONTEXT;
    }
    depth--;
    if (pctx)
        *pctx = stack[depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    ENTER(cuCtxGetDevice, FAKE_CONTEXT, NULL, 0);
    *device = fake_current()->device;
    return CUDA_SUCCESS;
}

/* Neither scripted nor counted. */
CUresult cuCtxGetFlags(unsigned *flags)
{
    if (!fake_current())
        return (CUresult)FAKE_E_CONTEXT;
    *flags = FAKE_GET(control->spins) ? 0 : (unsigned)FAKE_GET(fake_current()->flags);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
    *pctx = fake_current();
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned *flags, int *active)
{
    *flags = is_device(dev) ? (unsigned)FAKE_GET(contexts[dev].flags) : 0;
    *active = is_device(dev) && FAKE_GET(contexts[dev].retained) > 0;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned flags)
{
    if (!is_device(dev))
        return (CUresult)FAKE_E_DEVICE;
    FAKE_SET(contexts[dev].flags, flags);
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned flags, CUdevice dev)
{
    ENTER(cuCtxCreate_v2, 0, NULL, flags);
    if (!is_device(dev) || depth == sizeof stack / sizeof stack[0])
        return (CUresult)FAKE_E_DEVICE;
    for (size_t i = FAKE_DEVICES; i < sizeof contexts / sizeof contexts[0]; i++)
        if (claim(&contexts[i].state, FREE)) {
            contexts[i].device = dev;
            FAKE_SET(contexts[i].flags, flags);
            settle(&contexts[i].state, ALIVE);
            *pctx = stack[depth++] = &contexts[i];
            return CUDA_SUCCESS;
        }
    return (CUresult)FAKE_E_MEMORY;
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    ENTER_RELEASE(after, cuCtxDestroy_v2, 0, NULL, (intptr_t)ctx);
    if (!IN_TABLE(ctx, contexts) || !is_alive(&ctx->state) || ctx < contexts + FAKE_DEVICES) {
        fake_violate("cuCtxDestroy: not a context that cuCtxCreate made");
        return (CUresult)FAKE_E_CONTEXT;
    }
    check_empty(ctx, "cuCtxDestroy");
    if (fake_current() == ctx)
        depth--;
    settle(&ctx->state, DEAD);          /* for good, until fake_reset: a stale handle stays recognizable */
    return (CUresult)-after;
}


/* ---- Streams ----------------------------------------------------------------------------------------------------- */

/* A queue of many writers and one reader (Vyukov): writers swap the tail, then link; the reader owns the head, whose
 * work is done. */
typedef struct node {
    _Atomic(struct node *) next;
    fake_work *work;
    void      *payload;
} node;

struct CUstream_st {
    _Atomic int     state, stop;
    uint64_t        serial;
    CUcontext       context;            /* NULL: the implicit stream, of every context */
    pthread_t       thread;
    node           *head;
    _Atomic(node *) tail;
    fake_number     pushed, done, pumped;       /* pumped: so many may begin, where streams are lazy */
    fake_word       work, progress;
};

static struct CUstream_st streams[512], implicit;
static pthread_mutex_t implicit_lock = PTHREAD_MUTEX_INITIALIZER;

static void *stream_main(void *argument)
{
    struct CUstream_st *s = argument;
    fake_work_for(s->context);
    for (;;) {
        unsigned seen = FAKE_GET(s->work.value);
        int stopping = atomic_load_explicit(&s->stop, memory_order_acquire);
        node *next = atomic_load_explicit(&s->head->next, memory_order_acquire);
        if (next && (stopping || lost() || !FAKE_GET(control->lazy_streams) ||
                     FAKE_GET(s->done) < FAKE_GET(s->pumped))) {
            fake_nap(FAKE_GET(control->stream_us) + up_to(FAKE_GET(control->stream_delay_us)));
            next->work(next->payload, lost());
            free(s->head);
            s->head = next;
            atomic_fetch_add_explicit(&s->done, 1, memory_order_release);
            fake_wake(&s->progress);
        } else if (stopping) {
            free(s->head);
            return NULL;
        } else {
            fake_sleep_on(&s->work, seen);
        }
    }
}

static int stream_start(struct CUstream_st *s, CUcontext context)
{
    s->head = calloc(1, sizeof *s->head);
    s->context = context;
    s->serial = (uint64_t)FAKE_ADD(stream_serial, 1) + 1;
    FAKE_SET(s->tail, s->head);
    FAKE_SET(s->pushed, 0);
    FAKE_SET(s->done, 0);
    FAKE_SET(s->pumped, 0);
    FAKE_SET(s->stop, 0);
    return s->head && !fake_start(&s->thread, stream_main, s);
}

/* Somebody waits for what was queued so far, or asks whether it is done. */
static void stream_pump(struct CUstream_st *s)
{
    FAKE_SET(s->pumped, FAKE_GET(s->pushed));
    if (FAKE_GET(control->lazy_streams))
        fake_wake(&s->work);
}

/* Does all that was queued, then ends. */
static void stream_stop(struct CUstream_st *s)
{
    atomic_store_explicit(&s->stop, 1, memory_order_release);
    fake_wake(&s->work);
    pthread_join(s->thread, NULL);
    settle(&s->state, FREE);
}

static struct CUstream_st *implicit_stream(void)
{
    if (atomic_load_explicit(&implicit.state, memory_order_acquire) != ALIVE) {
        pthread_mutex_lock(&implicit_lock);
        if (implicit.state != ALIVE) {
            if (!stream_start(&implicit, NULL))
                abort();
            settle(&implicit.state, ALIVE);
        }
        pthread_mutex_unlock(&implicit_lock);
    }
    return &implicit;
}

/* NULL, a violation recorded: not for this thread's current context. */
static struct CUstream_st *stream_use(CUstream stream, const char *function)
{
    if ((uintptr_t)stream <= 2)         /* NULL, legacy, per thread */
        return implicit_stream();
    if (!IN_TABLE(stream, streams) || !is_alive(&stream->state))
        fake_violate("%s: not a stream, or one that was destroyed", function);
    else if (!fake_mine(stream->context))
        fake_violate("%s: the stream is of another context", function);
    else
        return stream;
    return NULL;
}

static void stream_push(struct CUstream_st *s, fake_work *work, void *payload)
{
    node *n = calloc(1, sizeof *n), *before;
    if (!n)
        abort();
    n->work = work;
    n->payload = payload;
    FAKE_ADD(s->pushed, 1);
    before = atomic_exchange_explicit(&s->tail, n, memory_order_acq_rel);
    atomic_store_explicit(&before->next, n, memory_order_release);
    fake_wake(&s->work);
}

uint64_t fake_stream_serial(CUstream stream)
{
    if ((uintptr_t)stream <= 2)
        return implicit_stream()->serial;
    return IN_TABLE(stream, streams) && is_alive(&stream->state) ? stream->serial : 0;
}

int fake_stream_push(CUstream stream, uint64_t serial, fake_work *work, void *payload)
{
    struct CUstream_st *s;
    if (serial && serial != fake_stream_serial(stream))
        return FAKE_E_HANDLE;
    if (!(s = stream_use(stream, "a map's output_stream")))
        return FAKE_E_HANDLE;
    stream_push(s, work, payload);
    return 0;
}

static CUresult stream_drain(struct CUstream_st *s)
{
    long long target = FAKE_GET(s->pushed);
    stream_pump(s);
    for (;;) {
        unsigned seen = FAKE_GET(s->progress.value);
        if (atomic_load_explicit(&s->done, memory_order_acquire) >= target || lost())
            return (CUresult)lost();
        fake_sleep_on(&s->progress, seen);
    }
}

CUresult cuStreamCreate(CUstream *phStream, unsigned flags)
{
    ENTER(cuStreamCreate, FAKE_CONTEXT, NULL, flags);
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++)
        if (claim(&streams[i].state, FREE)) {
            if (!stream_start(&streams[i], fake_current()))
                abort();
            fake_object(fake_current(), 1);
            FAKE_ADD(control->streams_created, 1);
            settle(&streams[i].state, ALIVE);
            *phStream = &streams[i];
            return CUDA_SUCCESS;
        }
    return (CUresult)FAKE_E_MEMORY;
}

/* Neither scripted nor counted. */
CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned flags, int priority)
{
    (void)priority;
    return cuStreamCreate(phStream, flags);
}

CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
    *mode = 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream hStream)
{
    ENTER_RELEASE(after, cuStreamDestroy_v2, FAKE_CONTEXT, hStream, 0);
    if ((uintptr_t)hStream <= 2 || !stream_use(hStream, "cuStreamDestroy"))
        return (CUresult)FAKE_E_HANDLE;
    if (FAKE_GET(hStream->done) < FAKE_GET(hStream->pushed))
        FAKE_ADD(control->busy_streams_destroyed, 1);
    fake_object(hStream->context, -1);
    FAKE_ADD(control->streams_destroyed, 1);
    stream_stop(hStream);
    return (CUresult)-after;
}

CUresult cuStreamQuery(CUstream hStream)
{
    struct CUstream_st *s;
    ENTER(cuStreamQuery, FAKE_CONTEXT, hStream, 0);
    if (!(s = stream_use(hStream, "cuStreamQuery")))
        return (CUresult)FAKE_E_HANDLE;
    stream_pump(s);
    if (lost())
        return (CUresult)lost();
    return atomic_load_explicit(&s->done, memory_order_acquire) >= FAKE_GET(s->pushed) ? CUDA_SUCCESS :
                                                                                        CUDA_ERROR_NOT_READY;
}

CUresult cuStreamSynchronize(CUstream hStream)
{
    struct CUstream_st *s;
    ENTER(cuStreamSynchronize, FAKE_CONTEXT, hStream, 0);
    if (!(s = stream_use(hStream, "cuStreamSynchronize")))
        return (CUresult)FAKE_E_HANDLE;
    FAKE_ADD(control->stream_syncs, 1);
    return stream_drain(s);
}


/* ---- Events ------------------------------------------------------------------------------------------------------ */

/* A record is a number; done[n % 64] is at least n once the n-th is reached. */
struct CUevent_st {
    _Atomic int state;
    CUcontext   context;
    /* pending: queued work that names the event, which keeps its place after its end */
    fake_number recorded, done[64], pending;
    _Atomic(struct CUstream_st *) stream;       /* of the last record */
    fake_word   word;
};

static struct CUevent_st events[4096];
static _Atomic unsigned event_next;

typedef struct mark { struct CUevent_st *event; long long number; } mark;

static struct CUevent_st *event_use(CUevent event, const char *function)
{
    if (!IN_TABLE(event, events) || !is_alive(&event->state))
        fake_violate("%s: not an event, or one that was destroyed", function);
    else if (!fake_mine(event->context))
        fake_violate("%s: the event is of another context", function);
    else
        return event;
    return NULL;
}

static int event_reached(struct CUevent_st *e, long long number)
{
    struct CUstream_st *s = FAKE_GET(e->stream);
    if (s && is_alive(&s->state))
        stream_pump(s);
    return atomic_load_explicit(&e->done[number % 64], memory_order_acquire) >= number;
}

static void event_wait(struct CUevent_st *e, long long number)
{
    for (;;) {
        unsigned seen = FAKE_GET(e->word.value);
        if (event_reached(e, number) || lost())
            return;
        fake_sleep_on(&e->word, seen);
    }
}

static void work_record(void *payload, int is_lost)
{
    mark *m = payload;
    (void)is_lost;
    atomic_store_explicit(&m->event->done[m->number % 64], m->number, memory_order_release);
    fake_wake(&m->event->word);
    atomic_fetch_add_explicit(&m->event->pending, -1, memory_order_release);
    free(m);
}

static void work_wait(void *payload, int is_lost)
{
    mark *m = payload;
    if (!is_lost)
        event_wait(m->event, m->number);
    atomic_fetch_add_explicit(&m->event->pending, -1, memory_order_release);
    free(m);
}

static void push_mark(struct CUstream_st *s, fake_work *work, struct CUevent_st *e, long long number)
{
    mark *m = malloc(sizeof *m);
    if (!m)
        abort();
    m->event = e;
    m->number = number;
    FAKE_ADD(e->pending, 1);
    stream_push(s, work, m);
}

CUresult cuEventCreate(CUevent *phEvent, unsigned Flags)
{
    ENTER(cuEventCreate, FAKE_CONTEXT, NULL, Flags);
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        struct CUevent_st *e = &events[FAKE_ADD(event_next, 1) % (sizeof events / sizeof events[0])];
        if (atomic_load_explicit(&e->pending, memory_order_acquire) || !claim(&e->state, FREE))
            continue;
        e->context = fake_current();
        FAKE_SET(e->recorded, 0);
        FAKE_SET(e->stream, NULL);
        for (int k = 0; k < 64; k++)
            FAKE_SET(e->done[k], 0);
        fake_object(e->context, 1);
        FAKE_ADD(control->events_created, 1);
        settle(&e->state, ALIVE);
        *phEvent = e;
        return CUDA_SUCCESS;
    }
    return (CUresult)FAKE_E_MEMORY;
}

CUresult cuEventDestroy_v2(CUevent hEvent)
{
    ENTER_RELEASE(after, cuEventDestroy_v2, FAKE_CONTEXT, NULL, (intptr_t)hEvent);
    if (!event_use(hEvent, "cuEventDestroy"))
        return (CUresult)FAKE_E_HANDLE;
    fake_object(hEvent->context, -1);
    FAKE_ADD(control->events_destroyed, 1);
    settle(&hEvent->state, FREE);
    return (CUresult)-after;
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
    struct CUstream_st *s;
    ENTER(cuEventRecord, FAKE_CONTEXT, hStream, (intptr_t)hEvent);
    if (!event_use(hEvent, "cuEventRecord") || !(s = stream_use(hStream, "cuEventRecord")))
        return (CUresult)FAKE_E_HANDLE;
    FAKE_SET(hEvent->stream, s);
    push_mark(s, work_record, hEvent, FAKE_ADD(hEvent->recorded, 1) + 1);
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    struct CUstream_st *s;
    ENTER(cuStreamWaitEvent, FAKE_CONTEXT, stream, (intptr_t)event);
    if (!event_use(event, "cuStreamWaitEvent") || !(s = stream_use(stream, "cuStreamWaitEvent")))
        return (CUresult)FAKE_E_HANDLE;
    if (flags)
        return (CUresult)FAKE_E_VALUE;
    if (FAKE_GET(event->recorded))
        push_mark(s, work_wait, event, FAKE_GET(event->recorded));
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent hEvent)
{
    ENTER(cuEventSynchronize, FAKE_CONTEXT, NULL, (intptr_t)hEvent);
    if (!event_use(hEvent, "cuEventSynchronize"))
        return (CUresult)FAKE_E_HANDLE;
    FAKE_ADD(control->event_syncs, 1);
    event_wait(hEvent, FAKE_GET(hEvent->recorded));
    return (CUresult)lost();
}

CUresult cuEventQuery(CUevent hEvent)
{
    ENTER(cuEventQuery, FAKE_CONTEXT, NULL, (intptr_t)hEvent);
    if (!event_use(hEvent, "cuEventQuery"))
        return (CUresult)FAKE_E_HANDLE;
    return event_reached(hEvent, FAKE_GET(hEvent->recorded)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}


/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* Base 0: a free place; 1: one being filled. */
typedef struct range {
    _Atomic uint64_t  base, size;
    _Atomic int       kind, mapped;
    _Atomic CUcontext context;
} range;

static range ranges[4096];
static _Atomic size_t range_end;        /* no range is in use from here on */

int fake_range_add(const void *base, size_t size, int kind, CUcontext context)
{
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        uint64_t none = 0;
        size_t end = FAKE_GET(range_end);
        if (!atomic_compare_exchange_strong_explicit(&ranges[i].base, &none, 1, memory_order_acquire,
                                                     memory_order_relaxed))
            continue;
        FAKE_SET(ranges[i].size, size);
        FAKE_SET(ranges[i].kind, kind);
        FAKE_SET(ranges[i].mapped, 0);
        FAKE_SET(ranges[i].context, context);
        FAKE_SET(ranges[i].base, (uint64_t)(uintptr_t)base);
        while (end <= i && !atomic_compare_exchange_weak_explicit(&range_end, &end, i + 1, memory_order_relaxed,
                                                                  memory_order_relaxed))
            ;
        return 1;
    }
    return 0;
}

static range *range_of(uint64_t address, uint64_t size)
{
    size_t end = FAKE_GET(range_end);
    for (size_t i = 0; i < end; i++) {
        uint64_t base = FAKE_GET(ranges[i].base);
        if (base > 1 && address >= base && address - base < FAKE_GET(ranges[i].size) &&
            size <= FAKE_GET(ranges[i].size) - (address - base))
            return &ranges[i];
    }
    return NULL;
}

int fake_range_remove(uint64_t base, int kind)
{
    range *r = range_of(base, 1);
    return r && FAKE_GET(r->kind) == kind &&
           atomic_compare_exchange_strong_explicit(&r->base, &base, 0, memory_order_release, memory_order_relaxed);
}

void fake_range_map(const void *base, int mapped)
{
    range *r = range_of((uint64_t)(uintptr_t)base, 1);
    if (r)
        FAKE_SET(r->mapped, mapped);
}

/* Can work of the current context reach it? pinned: memory of the host that the device sees will do, too. */
static int check_address(uint64_t address, uint64_t size, int pinned, const char *what)
{
    range *r = range_of(address, size);
    if (!r || (FAKE_GET(r->kind) == FAKE_PINNED && !pinned))
        fake_violate("%s: %llu bytes at %#llx are not in device memory", what, (unsigned long long)size,
                     (unsigned long long)address);
    else if (!fake_mine(FAKE_GET(r->context)))
        fake_violate("%s: memory of another context", what);
    else if (FAKE_GET(r->kind) == FAKE_SURFACE && !FAKE_GET(r->mapped))
        fake_violate("%s: an output surface that is not mapped", what);
    else
        return 1;
    return 0;
}

#ifdef _WIN32
#undef posix_memalign
#define posix_memalign(block, align, size) (!(*(block) = _aligned_malloc(size, align)))
#define block_free(block)                  _aligned_free(block)
#else
#define block_free(block)                  free(block)
#endif

/* Exactly as large as asked, for ASan's sake, and not zeros, as far as it is not huge. */
static void *make_block(size_t size, int kind)
{
    const size_t filled = (size_t)64 << 20;
    void *block = NULL;
    if (posix_memalign(&block, 256, size))
        return NULL;
    memset(block, 0xcd, size < filled ? size : filled);
    if (!fake_range_add(block, size, kind, fake_current())) {
        block_free(block);
        return NULL;
    }
    fake_object(fake_current(), 1);
    return block;
}

/* kind's block is freed; 0 and a violation: there is none. */
static int free_block(uint64_t base, int kind, const char *function)
{
    range *r = base ? range_of(base, 1) : NULL;
    CUcontext context = r ? FAKE_GET(r->context) : NULL;
    long long size = r ? (long long)FAKE_GET(r->size) : 0;
    if (r && !fake_mine(context))
        fake_violate("%s: memory of another context", function);
    if (!r || !fake_range_remove(base, kind)) {
        fake_violate("%s: %#llx was not allocated, or freed before", function, (unsigned long long)base);
        return 0;
    }
    fake_object(context, -1);
    if (kind == FAKE_DEVICE_MEMORY)
        FAKE_ADD(control->memory_used, -size);
    block_free((void *)(uintptr_t)base);
    return 1;
}

/* The real ones wait for the device before they free. These do so only where callers are kept from waiting themselves,
 * the device being lost or some function failing from now on; else those who forget to wait would not be found. */
static void rest_before_free(void)
{
    int kept = lost() != 0;
    for (int i = 0; i < FAKE_FUNCTION_COUNT; i++)
        kept |= FAKE_GET(control->fail_later[i]) != 0;
    for (size_t i = 0; kept && i < sizeof streams / sizeof streams[0]; i++) {
        struct CUstream_st *s = &streams[i];
        long long target = FAKE_GET(s->pushed);
        while (is_alive(&s->state) && atomic_load_explicit(&s->done, memory_order_acquire) < target) {
            struct timespec t = { 0, 200000 };
            nanosleep(&t, NULL);
        }
    }
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    void *block;
    long long budget = FAKE_GET(control->memory_budget);
    ENTER(cuMemAlloc_v2, FAKE_CONTEXT, NULL, bytesize);
    if (!bytesize || !dptr)
        return (CUresult)FAKE_E_VALUE;
    if ((budget && FAKE_GET(control->memory_used) + (long long)bytesize > budget) ||
        !(block = make_block(bytesize, FAKE_DEVICE_MEMORY)))
        return (CUresult)FAKE_E_MEMORY;
    FAKE_ADD(control->memory_used, (long long)bytesize);
    FAKE_ADD(control->mem_allocs, 1);
    *dptr = (CUdeviceptr)(uintptr_t)block;
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    ENTER_RELEASE(after, cuMemFree_v2, FAKE_CONTEXT, NULL, dptr);
    rest_before_free();
    if (!free_block(dptr, FAKE_DEVICE_MEMORY, "cuMemFree"))
        return (CUresult)FAKE_E_VALUE;
    FAKE_ADD(control->mem_frees, 1);
    return (CUresult)-after;
}

CUresult cuMemHostAlloc(void **pp, size_t size, unsigned flags)
{
    ENTER(cuMemHostAlloc, FAKE_CONTEXT, NULL, size);
    if (!size || !pp || flags > 7)
        return (CUresult)FAKE_E_VALUE;
    if (!(*pp = make_block(size, FAKE_PINNED)))
        return (CUresult)FAKE_E_MEMORY;
    FAKE_ADD(control->host_allocs, 1);
    return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *p)
{
    ENTER_RELEASE(after, cuMemFreeHost, FAKE_CONTEXT, NULL, (intptr_t)p);
    rest_before_free();
    if (!free_block((uint64_t)(uintptr_t)p, FAKE_PINNED, "cuMemFreeHost"))
        return (CUresult)FAKE_E_VALUE;
    FAKE_ADD(control->host_frees, 1);
    return (CUresult)-after;
}

/* rows of size bytes */
typedef struct copy {
    uint8_t       *dst;
    const uint8_t *src;
    size_t         size, rows, dst_pitch, src_pitch;
    CUstream       stream;
} copy;

static void work_copy(void *payload, int is_lost)
{
    copy *c = payload;
    if (!is_lost && !fake_happens(FAKE_stream_copy, c->stream, NULL, (long long)(intptr_t)c->dst))
        for (size_t y = 0; y < c->rows; y++)
            memcpy(c->dst + y * c->dst_pitch, c->src + y * c->src_pitch, c->size);
    free(c);
}

static CUresult push_copy(CUstream stream, void *dst, const void *src, size_t size, uint64_t device, const void *host,
                          const char *function)
{
    struct CUstream_st *s = stream_use(stream, function);
    range *pinned = range_of((uint64_t)(uintptr_t)host, size);
    copy *c;
    if (!s)
        return (CUresult)FAKE_E_HANDLE;
    if (!check_address(device, size, 0, function))
        return (CUresult)FAKE_E_VALUE;
    if (!pinned || FAKE_GET(pinned->kind) != FAKE_PINNED)
        FAKE_ADD(control->pageable_copies, 1);
    if (!(c = malloc(sizeof *c)))
        abort();
    *c = (copy){ dst, src, size, 1, 0, 0, stream };
    stream_push(s, work_copy, c);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
{
    ENTER(cuMemcpyHtoDAsync_v2, FAKE_CONTEXT, hStream, dstDevice);
    return push_copy(hStream, (void *)(uintptr_t)dstDevice, srcHost, ByteCount, dstDevice, srcHost,
                     "cuMemcpyHtoDAsync");
}

CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
    ENTER(cuMemcpyDtoHAsync_v2, FAKE_CONTEXT, hStream, srcDevice);
    return push_copy(hStream, dstHost, (const void *)(uintptr_t)srcDevice, ByteCount, srcDevice, dstHost,
                     "cuMemcpyDtoHAsync");
}

/* From the device, to it or to the host. */
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream hStream)
{
    static const char function[] = "cuMemcpy2DAsync";
    const int to_host = c->dstMemoryType == CU_MEMORYTYPE_HOST;
    uint64_t from = c->srcDevice + c->srcY * c->srcPitch + c->srcXInBytes;
    uint64_t to = (to_host ? (uint64_t)(uintptr_t)c->dstHost : c->dstDevice) + c->dstY * c->dstPitch + c->dstXInBytes;
    struct CUstream_st *s;
    copy *work;
    ENTER(cuMemcpy2DAsync_v2, FAKE_CONTEXT, hStream, (intptr_t)c->dstDevice);
    if (!(s = stream_use(hStream, function)))
        return (CUresult)FAKE_E_HANDLE;
    if (c->srcMemoryType != CU_MEMORYTYPE_DEVICE || !c->Height || c->WidthInBytes > c->srcPitch ||
        c->WidthInBytes > c->dstPitch ||
        !check_address(from, (c->Height - 1) * c->srcPitch + c->WidthInBytes, 0, function) ||
        (!to_host && !check_address(to, (c->Height - 1) * c->dstPitch + c->WidthInBytes, 0, function)))
        return (CUresult)FAKE_E_VALUE;
    if (!(work = malloc(sizeof *work)))
        abort();
    *work = (copy){ (uint8_t *)(uintptr_t)to, (const uint8_t *)(uintptr_t)from, c->WidthInBytes, c->Height,
                    c->dstPitch, c->srcPitch, hStream };
    stream_push(s, work_copy, work);
    return CUDA_SUCCESS;
}

typedef struct set_bytes { void *dst; size_t size; CUstream stream; unsigned char byte; } set_bytes;

static void work_set_bytes(void *payload, int is_lost)
{
    set_bytes *s = payload;
    if (!is_lost && !fake_happens(FAKE_stream_copy, s->stream, NULL, (long long)(intptr_t)s->dst))
        memset(s->dst, s->byte, s->size);
    free(s);
}

CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
    ENTER(cuMemsetD8Async, FAKE_CONTEXT, hStream, dstDevice);
    struct CUstream_st *stream = stream_use(hStream, "cuMemsetD8Async");
    set_bytes *s;
    if (!stream)
        return (CUresult)FAKE_E_HANDLE;
    if (!check_address(dstDevice, N, 0, "cuMemsetD8Async"))
        return (CUresult)FAKE_E_VALUE;
    if (!(s = malloc(sizeof *s)))
        abort();
    *s = (set_bytes){ (void *)(uintptr_t)dstDevice, N, hStream, uc };
    stream_push(stream, work_set_bytes, s);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
    CUresult result;
    ENTER(cuMemcpyDtoH_v2, FAKE_CONTEXT, NULL, srcDevice);
    result = push_copy(NULL, dstHost, (const void *)(uintptr_t)srcDevice, ByteCount, srcDevice, dstHost,
                       "cuMemcpyDtoH");
    return result ? result : stream_drain(implicit_stream());
}


/* ---- Modules and kernels ----------------------------------------------------------------------------------------- */

struct CUmod_st {
    _Atomic int state;
    char        has_entry[ENTRIES];           /* a function is the address of its element */
    CUcontext   context;
};

static struct CUmod_st modules[64];

static const char *skip_comments(const char *text)
{
    for (;;) {
        text += strspn(text, " \t\r\n");
        if (!strncmp(text, "//", 2))
            text += strcspn(text, "\n");
        else if (!strncmp(text, "/*", 2) && strstr(text + 2, "*/"))
            text = strstr(text + 2, "*/") + 2;
        else
            return text;
    }
}

static int module_use(CUmodule module, const char *function)
{
    if (!IN_TABLE(module, modules) || !is_alive(&module->state))
        fake_violate("%s: not of a loaded module", function);
    else if (!fake_mine(module->context))
        fake_violate("%s: the module is of another context", function);
    else
        return 1;
    return 0;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    const char *text = image ? skip_comments(image) : "";
    ENTER(cuModuleLoadData, FAKE_CONTEXT, NULL, 0);
    if (strncmp(text, ".version", 8))
        return (CUresult)(image ? FAKE_E_PTX : FAKE_E_VALUE);
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
        if (claim(&modules[i].state, FREE)) {
            for (int k = 0; k < ENTRIES; k++)
                modules[i].has_entry[k] = strstr(text, entries[k]) != NULL;
            modules[i].context = fake_current();
            fake_object(fake_current(), 1);
            settle(&modules[i].state, ALIVE);
            *module = &modules[i];
            return CUDA_SUCCESS;
        }
    return (CUresult)FAKE_E_MEMORY;
}

CUresult cuModuleUnload(CUmodule hmod)
{
    ENTER_RELEASE(after, cuModuleUnload, FAKE_CONTEXT, NULL, (intptr_t)hmod);
    if (!module_use(hmod, "cuModuleUnload"))
        return (CUresult)FAKE_E_HANDLE;
    fake_object(hmod->context, -1);
    settle(&hmod->state, FREE);
    return (CUresult)-after;
}

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    ENTER(cuModuleGetFunction, FAKE_CONTEXT, NULL, (intptr_t)hmod);
    if (!module_use(hmod, "cuModuleGetFunction"))
        return (CUresult)FAKE_E_HANDLE;
    for (int k = 0; k < ENTRIES; k++)
        if (hmod->has_entry[k] && !strcmp(name, entries[k])) {
            *hfunc = (CUfunction)(void *)&hmod->has_entry[k];
            return CUDA_SUCCESS;
        }
    return (CUresult)FAKE_E_NOT_FOUND;
}

/* The module of a function, and which of entries it is. */
static CUmodule module_of(CUfunction f, int *entry)
{
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
        for (*entry = 0; *entry < ENTRIES; ++*entry)
            if ((void *)f == (void *)&modules[i].has_entry[*entry])
                return &modules[i];
    return NULL;
}

typedef struct launch {
    union {
        bzi_kernel_slots  slots;
        bzi_kernel_passes passes;
    };
    bzi_kernel_output out;
    unsigned          count;
    int               entry;
    CUstream          stream;
} launch;

static void work_kernel(void *payload, int is_lost)
{
    launch *l = payload;
    if (!is_lost && !fake_happens(FAKE_stream_kernel, l->stream, NULL, l->count))
        for (unsigned z = 0; z < l->count; z++) {
            if (l->entry == AUGMENT) {
                pass_plain(&l->passes.pass[z], &l->out);
                continue;
            }
            if (FAKE_GET(control->wrong_kernel) < 2)
                bzi_kernel_warp_plain(&l->slots.slot[z], &l->out);
            if (FAKE_GET(control->wrong_kernel) == 1 &&
                (!FAKE_GET(control->wrong_entry) || FAKE_GET(control->wrong_entry) == l->entry + 1))
                *(uint8_t *)(uintptr_t)l->slots.slot[z].dst ^= 1;
        }
    free(l);
}

/* Before it runs, since addresses of the host would work here and nowhere else. Each kernel but one has slots of its
 * own. */
static int check_launch(const launch *l, int entry)
{
    for (unsigned z = 0; z < l->count && entry == AUGMENT; z++) {
        const bzi_kernel_pass *pass = &l->passes.pass[z];
        const uint32_t kind = pass->kind;
        if ((kind != BZI_KERNEL_PASS_TALLY && !check_address(pass->dst, 1, 1, "cuLaunchKernel: dst")) ||
            (kind == BZI_KERNEL_PASS_TALLY &&
             !check_address(pass->counts, bzi_kernel_parts(&l->out) * 3072, 0, "cuLaunchKernel: counts")) ||
            (kind != BZI_KERNEL_PASS_COVER && !check_address(pass->src, 1, 1, "cuLaunchKernel: src")) ||
            (pass->tables && !check_address(pass->tables, 768, 1, "cuLaunchKernel: tables")))
            return 0;
    }
    if (entry == AUGMENT)
        return 1;
    for (unsigned z = 0; z < l->count; z++) {
        const bzi_kernel_slot *slot = &l->slots.slot[z];
        if (entry != BZI_KERNEL_ANY && bzi_kernel_of(slot, &l->out) != entry) {
            fake_violate("cuLaunchKernel: a slot for another kernel than %s", entries[entry]);
            return 0;
        }
        if (!check_address(slot->dst, 1, 1, "cuLaunchKernel: dst"))
            return 0;
        if ((slot->flags & (BZI_KERNEL_SUM | BZI_KERNEL_MEAN_LUMA)) &&
            !check_address(slot->sums, 16, 0, "cuLaunchKernel: sums"))
            return 0;
        for (int p = 0; p < 3; p++)
            if (slot->plane[p] && !check_address(slot->plane[p], 1, 1, "cuLaunchKernel: plane"))
                return 0;
    }
    return 1;
}

CUresult cuLaunchKernel(CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ, unsigned blockDimX,
                        unsigned blockDimY, unsigned blockDimZ, unsigned sharedMemBytes, CUstream hStream,
                        void **kernelParams, void **extra)
{
    struct CUstream_st *s;
    launch *l;
    int entry;
    uint64_t threads = (uint64_t)blockDimX * blockDimY * blockDimZ;
    ENTER(cuLaunchKernel, FAKE_CONTEXT, hStream, gridDimZ);
    if (!module_use(module_of(f, &entry), "cuLaunchKernel") || !(s = stream_use(hStream, "cuLaunchKernel")))
        return (CUresult)FAKE_E_HANDLE;
    if (!gridDimX || !gridDimY || !gridDimZ || gridDimY > 65535 || gridDimZ > BZI_KERNEL_SLOTS || !threads ||
        threads > 1024 || blockDimZ > 64 || sharedMemBytes > 49152 || !kernelParams || extra) {
        fake_violate("cuLaunchKernel: grid %ux%ux%u of %ux%ux%u", gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,
                     blockDimZ);
        return (CUresult)FAKE_E_VALUE;
    }
    if (!(l = malloc(sizeof *l)))
        abort();
    if (entry == AUGMENT)
        memcpy(&l->passes, kernelParams[0], sizeof l->passes);
    else
        memcpy(&l->slots, kernelParams[0], sizeof l->slots);
    memcpy(&l->out, kernelParams[1], sizeof l->out);
    l->count = gridDimZ;
    l->entry = entry;
    l->stream = hStream;
    if (!check_launch(l, entry)) {
        free(l);
        return (CUresult)FAKE_E_VALUE;
    }
    FAKE_ADD(control->launches, 1);
    FAKE_ADD(control->slots, gridDimZ);
    stream_push(s, work_kernel, l);
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **pstr)
{
    static const struct { int code; const char *name; } errors[] = {
        { 0, "CUDA_SUCCESS" }, { 1, "CUDA_ERROR_INVALID_VALUE" }, { 2, "CUDA_ERROR_OUT_OF_MEMORY" },
        { 3, "CUDA_ERROR_NOT_INITIALIZED" },
        { 100, "CUDA_ERROR_NO_DEVICE" }, { 101, "CUDA_ERROR_INVALID_DEVICE" }, { 200, "CUDA_ERROR_INVALID_IMAGE" },
        { 201, "CUDA_ERROR_INVALID_CONTEXT" },
        { 209, "CUDA_ERROR_NO_BINARY_FOR_GPU" }, { 214, "CUDA_ERROR_ECC_UNCORRECTABLE" },
        { 218, "CUDA_ERROR_INVALID_PTX" },
        { 220, "CUDA_ERROR_NVLINK_UNCORRECTABLE" }, { 221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND" },
        { 223, "CUDA_ERROR_JIT_COMPILATION_DISABLED" }, { 304, "CUDA_ERROR_OPERATING_SYSTEM" },
        { 222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" },
        { 400, "CUDA_ERROR_INVALID_HANDLE" },
        { 500, "CUDA_ERROR_NOT_FOUND" }, { 600, "CUDA_ERROR_NOT_READY" }, { 700, "CUDA_ERROR_ILLEGAL_ADDRESS" },
        { 702, "CUDA_ERROR_LAUNCH_TIMEOUT" }, { 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED" }, { 710, "CUDA_ERROR_ASSERT" },
        { 719, "CUDA_ERROR_LAUNCH_FAILED" }, { 801, "CUDA_ERROR_NOT_SUPPORTED" }, { 999, "CUDA_ERROR_UNKNOWN" },
    };
    int refused = fake_enter(FAKE_cuGetErrorName, FAKE_ALWAYS, NULL, NULL, error);
    *pstr = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0] && refused != FAKE_E_NOT_INITIALIZED; i++)
        if (errors[i].code == (int)error)
            *pstr = errors[i].name;
    return (CUresult)(*pstr ? 0 : FAKE_E_VALUE);
}


/* ---- What is alive, and starting over ---------------------------------------------------------------------------- */

static void count_leaks(long long counts[9])
{
    memset(counts, 0, 9 * sizeof counts[0]);
    for (int i = 0; i < FAKE_DEVICES; i++)
        counts[0] += FAKE_GET(contexts[i].retained);
    for (size_t i = FAKE_DEVICES; i < sizeof contexts / sizeof contexts[0]; i++)
        counts[0] += is_alive(&contexts[i].state);
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (FAKE_GET(ranges[i].base) && FAKE_GET(ranges[i].kind) != FAKE_SURFACE)
            counts[FAKE_GET(ranges[i].kind)]++;
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++)
        counts[3] += is_alive(&streams[i].state);
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        counts[4] += is_alive(&events[i].state);
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
        counts[5] += is_alive(&modules[i].state);
    counts[6] = control->live_decoders;
    counts[7] = control->live_parsers;
    counts[8] = control->live_mapped;
}

const char *fake_leaks(void)
{
    static const char *const what[9] = {
        "contexts", "blocks of device memory", "blocks of pinned memory", "streams", "events", "modules", "decoders",
        "parsers",  "mapped surfaces"
    };
    static char text[320];
    long long counts[9];
    size_t length = 0;
    count_leaks(counts);
    for (int i = 0; i < 9; i++)
        if (counts[i])
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%lld %s", length ? ", " : "", counts[i],
                                       what[i]);
    return length ? text : NULL;
}

void fake_reset(void)
{
    const char *leaks = fake_leaks();
    if (leaks) {
        fprintf(stderr, "fake: still alive: %s\n", leaks);
        abort();
    }
    pthread_mutex_lock(&implicit_lock);
    if (implicit.state == ALIVE)
        stream_stop(&implicit);
    pthread_mutex_unlock(&implicit_lock);
    for (size_t i = 0; i < sizeof contexts / sizeof contexts[0]; i++) {
        FAKE_SET(contexts[i].objects, 0);
        FAKE_SET(contexts[i].flags, 0);
        contexts[i].device = i < FAKE_DEVICES ? (CUdevice)i : 0;
        settle(&contexts[i].state, FREE);
    }
    set_defaults();
}

fake_interface fake_api;

/* FAKE_SCRIPT: see fake.h. */
static void read_script(const char *script)
{
#define SCRIPT(name) { #name, offsetof(fake_control, name) }
    static const struct { const char *name; size_t at; } scripts[] = {
        SCRIPT(devices),
        SCRIPT(driver_version), SCRIPT(engines), SCRIPT(engine_us), SCRIPT(stream_us), SCRIPT(create_us),
        SCRIPT(no_status), SCRIPT(wrong_surface), SCRIPT(wrong_intra), SCRIPT(wrong_index), SCRIPT(wrong_size),
        SCRIPT(wrong_kernel), SCRIPT(wrong_entry), SCRIPT(wrong_kept), SCRIPT(wrong_order), SCRIPT(stuck),
        SCRIPT(memory_budget), SCRIPT(lazy_streams),
        { "h264", offsetof(fake_control, caps[FAKE_H264].chroma_mask) },
        { "h265", offsetof(fake_control, caps[FAKE_HEVC].chroma_mask) },
        { "jpeg", offsetof(fake_control, caps[FAKE_JPEG].chroma_mask) },
    };
    char name[64];
    long long value, k;
    int length, code, later;
    for (; *script; script += length) {
        size_t i = 0;
        length = 0;
        if (sscanf(script, " fail=%63[A-Za-z0-9_],%lld,%d,%d %n", name, &k, &code, &later, &length) == 4 && length) {
            script_failure(name, k, code, later);
            continue;
        }
        if (sscanf(script, " %63[a-z0-9_]=%lld %n", name, &value, &length) == 2 && length)
            while (i < sizeof scripts / sizeof scripts[0] && strcmp(name, scripts[i].name))
                i++;
        else
            i = sizeof scripts / sizeof scripts[0];
        if (i == sizeof scripts / sizeof scripts[0]) {
            fprintf(stderr, "fake: FAKE_SCRIPT: %s\n", script);
            abort();
        }
        *(fake_number *)(void *)((char *)control + scripts[i].at) = value;
    }
}

__attribute__((constructor)) static void begin(void)
{
#ifdef _WIN32
    control = calloc(1, sizeof *control);
    if (!control)
        abort();
#else
    control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (control == MAP_FAILED)
        abort();
#endif
    set_defaults();
    fake_api = (fake_interface){ control,    fake_reset,      script_failure, function_calls,
                                 fake_leaks, first_violation, function_name };
    for (int i = 0; i < FAKE_DEVICES; i++)
        contexts[i].device = i;
    if (getenv("FAKE_SCRIPT"))
        read_script(getenv("FAKE_SCRIPT"));
}
