/* fake.h - how tests script and question the fakes of libcuda.so.1 and libnvcuvid.so.1.
 *
 * The fakes decode with libavcodec, run the warp kernel's C side, and are asynchronous as the real ones are: every
 * stream has a thread, and so has every decoder, which takes turns with others at the engines. Device memory is
 * malloc's, so that ASan sees overruns; the fakes order threads only where CUDA does (their counters and tables are
 * relaxed atomics, their handles lie in fixed tables without a lock), so that TSan sees what a caller leaves
 * unordered.
 *
 *     const fake_interface *fake = fake_load();          // dlopen("libcuda.so.1"); see below
 *     fake->control->engines = 1;                        // script: any time, from any thread
 *     fake->fail("cuvidMapVideoFrame64", 3, 719, 0);     // the third call from now on fails
 *     ...
 *     CHECK_EQ(fake->control->violations, 0);            // else fake->violation() is the first one's text
 *     CHECK(!fake->leaks());
 *     fake->reset();                                     // back to the defaults; aborts if anything is alive
 *
 * Link tests with -Wl,--disable-new-dtags,-rpath,'$ORIGIN/fake': of an executable with a new-style tag, gcc's
 * sanitizers, which stand between it and dlopen, find nothing.
 *
 * What is a violation: a call without a current context, or with an object of another one; a handle that is not alive;
 * freeing what is not allocated; an address outside device memory given to a copy or a kernel; releasing a context's
 * last reference while it has objects; creating a decoder for what the caps exclude; submitting a surface that is in
 * flight or mapped; giving a decoder another size outside a parser's sequence callback; more maps than output surfaces;
 * mapping twice, unmapping what is not mapped; destroying a decoder with mapped surfaces; a decoder used by a thread
 * that did not make it; a picture of another size or format than its decoder's; and any call in a forked child. Each is
 * counted, printed (unless quiet), and mostly refused. Odd target sizes are refused, and that is no violation. */
#ifndef BENZINA_FAKE_H
#define BENZINA_FAKE_H
#ifdef _WIN32
#include "../windows/windows.h"
#else
#include <dlfcn.h>
#endif
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every function, then places at which the device itself can fail. */
#define FAKE_FUNCTIONS(X) \
    X(cuInit) X(cuDriverGetVersion) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute) \
        X(cuDeviceTotalMem_v2) \
    X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxPushCurrent_v2) X(cuCtxPopCurrent_v2) \
        X(cuCtxGetDevice) X(cuCtxCreate_v2) \
    X(cuCtxDestroy_v2) X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemcpyHtoDAsync_v2) \
        X(cuMemcpyDtoHAsync_v2) X(cuMemsetD8Async) \
    X(cuMemcpyDtoH_v2) X(cuStreamCreate) X(cuStreamDestroy_v2) X(cuStreamQuery) X(cuStreamSynchronize) \
        X(cuStreamWaitEvent) X(cuEventCreate) X(cuEventDestroy_v2) \
    X(cuEventRecord) X(cuEventSynchronize) X(cuEventQuery) X(cuModuleLoadData) X(cuModuleUnload) \
        X(cuModuleGetFunction) X(cuLaunchKernel) \
    X(cuGetErrorName) \
    X(cuvidGetDecoderCaps) X(cuvidCreateDecoder) X(cuvidDestroyDecoder) X(cuvidReconfigureDecoder) \
        X(cuvidDecodePicture) X(cuvidGetDecodeStatus) \
    X(cuvidMapVideoFrame64) X(cuvidUnmapVideoFrame64) X(cuvidCreateVideoParser) X(cuvidParseVideoData) \
        X(cuvidDestroyVideoParser) \
    X(cuMemGetInfo_v2) X(cuMemcpy2DAsync_v2) \
    X(stream_copy) X(stream_kernel) X(engine_picture)
#define FAKE_ID(name) FAKE_##name,
enum { FAKE_FUNCTIONS(FAKE_ID) FAKE_FUNCTION_COUNT };

typedef _Atomic long long fake_number;      /* reads and writes as a plain number does */

/* What the video engines take of one codec. */
typedef struct fake_caps {
    fake_number chroma_mask;                /* bit 0 4:0:0, 1 4:2:0, 2 4:2:2, 3 4:4:4; 0: the codec is not supported */
    fake_number depth_mask;                 /* bit n: n bits a sample */
    fake_number min_width, min_height, max_width, max_height, max_macroblocks;
} fake_caps;
enum { FAKE_H264, FAKE_HEVC, FAKE_AV1, FAKE_JPEG, FAKE_CODECS };
enum { FAKE_INDEX_CYCLE, FAKE_INDEX_ZERO, FAKE_INDEX_RANDOM };

/* One call, or one piece of work in a stream (stream_copy, stream_kernel) or an engine (engine_picture). */
typedef struct fake_entry {
    fake_number function;                   /* FAKE_cuInit, ... */
    fake_number thread;                     /* 1, 2, ... in order of first use */
    fake_number stream, decoder;            /* handles, 0: none */
    fake_number value; /* picture index, address, event, number of slots: what the function is about */
} fake_entry;
#define FAKE_LOG_SIZE 65536
#define FAKE_DEVICES 16                     /* at most */

typedef struct fake_control {
    /* Script; defaults in brackets. */
    fake_number seed;                       /* of the delays [1] */
    /* before each piece of work in a stream: at least; and 0 to this more at random [0, 0] */
    fake_number stream_us, stream_delay_us;
    fake_number engine_us, engine_delay_us; /* the same for each picture [0, 0] */
    fake_number call_delay_us;              /* in each call, at random: shakes threads [0] */
    fake_number create_us;                  /* what creating a decoder takes [0] */
    fake_number devices;                    /* [1] */
    fake_number driver_version;             /* [12080] */
    fake_number capability_major, capability_minor;   /* [9, 0] */
    fake_number memory_total;               /* bytes [80 GiB] */
    fake_number decoder_extra;              /* bytes that a decoder takes beside its surfaces [0] */
    fake_number decoder_once;               /* bytes that the first decoder takes beside that [0] */
    fake_number memory_budget;              /* bytes for device memory and decoders, 0: no limit [0] */
    fake_number engines;                    /* nNumNVDECs; at 0 the caps are all zero [7] */
    fake_number caps_without_engines;       /* 1: at 0 engines the caps still say supported [0] */
    fake_number uncounted;                  /* 1: nNumNVDECs is 0, as in drivers older than it [0] */
    fake_caps   caps[FAKE_CODECS]; /* [Hopper's: H.264 8 bits 4:2:0; HEVC 8, 10, 12 bits 4:2:0 and 4:4:4; no more] */
    fake_number parser_index;               /* which surface the parser names: FAKE_INDEX_... [FAKE_INDEX_CYCLE] */
    fake_number parser_propagates;          /* 1: cuvidParseVideoData returns 999 when a callback failed [0] */
    fake_number min_surfaces;               /* CUVIDEOFORMAT.min_num_decode_surfaces [4] */
    fake_number poison;                     /* what a callback was given is overwritten when it returns [1] */
    fake_number concealed;                  /* 1: bad pictures are Error_Concealed (9) instead of Error (8) [0] */
    fake_number pitch_step;                 /* decoder n's pitch is 256-aligned plus n % 4 times this [64] */
    fake_number allow_drop; /* 1: a picture that is decoded but was never mapped may be overwritten [0] */
    fake_number lost_alone;                 /* 1: a device that is lost takes no other one with it [0] */
    fake_number lost_push; /* 1: on a lost device cuCtxPushCurrent and cuCtxPopCurrent fail, too, and do nothing [0] */
    fake_number reconfigure_anywhere;       /* 1: outside the sequence callback, too [0] */
    fake_number any_thread;                 /* 1: a decoder may wander between threads, used by one at a time [0] */
    fake_number quiet;                      /* 1: violations are not printed [0] */
    /* What a driver may get wrong: 1, all of it [0]. A map's copy reads what was decoded into the surface meanwhile;
     * decoders for intra pictures alone (2: all), and those that were given another size, decode wrong pixels; a
     * picture is decoded into the surface that the parser named; the kernel writes a wrong pixel (2: none); a surface
     * keeps the first picture that was decoded into it (the number of the surface, counted from 1); a decoder gives the
     * picture that it decoded before (2: the one before that); pictures are never done, and what waits for one never
     * returns. */
    fake_number wrong_surface, wrong_intra, wrong_index, wrong_size, wrong_kernel, wrong_kept, wrong_order, stuck;
    fake_number wrong_entry;                /* wrong_kernel's is this kernel, counted from 1; 0: every one [0] */
    fake_number jpeg_error;                 /* is added to every other luma sample of a JPEG [0] */
    fake_number no_status;                  /* 1: cuvidGetDecodeStatus says Invalid of all pictures [0] */
    fake_number late_status;                /* and InProgress for so many calls about a mapped one, -1: for ever [0] */
    fake_number odd_targets;                /* 1: decoders with odd target sizes are made, as of frames [0] */
    fake_number refused_codecs;             /* bit n: decoders of codec n (FAKE_H264, ...) cannot be made [0] */
    /* Of the parser: 1, it sees frames that are 80 wider; 2, pictures without parameter sets; 3, interlaced ones; 4,
     * of AV1, with film grain [0] */
    fake_number wrong_parser;
    fake_number spins;                      /* 1: contexts are another library's, in which waiting calls spin [0] */
    /* 1: a picture in five, by its bytes, is damaged, whatever libavcodec says, and what libavcodec finds damaged is
     * not, but has pixels of one value [0] */
    fake_number contrary;
    fake_number hangs; /* calls of this function never return, while it is so: FAKE_..., counted from 1; 0: none [0] */
    fake_number lazy_streams; /* 1: work in a stream begins only when somebody waits for it, or asks [0] */

    /* Counters. */
    fake_number calls[FAKE_FUNCTION_COUNT]; /* each function's calls, failed ones too */
    fake_number violations, fork_calls;     /* fork_calls: in children, seen by the parent too */
    fake_number lost;                       /* the sticky code, once a device is lost */
    fake_number lost_device[FAKE_DEVICES];  /* the last one of each device, see lost_alone */
    /* that succeeded */
    fake_number creates, destroys, reconfigures, parser_creates, parser_destroys, decodes, maps, unmaps;
    fake_number launches, slots;            /* slots: the sum of gridDimZ */
    /* memory_used: bytes now, of device memory and decoders */
    fake_number mem_allocs, mem_frees, host_allocs, host_frees, memory_used;
    fake_number streams_created, streams_destroyed, events_created, events_destroyed, event_syncs, stream_syncs;
    fake_number busy_streams_destroyed;     /* with work pending, which the real call would not wait for */
    fake_number pageable_copies;            /* copies from or to host memory that is not pinned */
    fake_number dropped;                    /* pictures overwritten unmapped, see allow_drop */
    fake_number bad_pictures;               /* decoded with a status other than Success */
    fake_number max_mapped, max_queued;     /* of any decoder; queued: submitted and not decoded */
    fake_number max_busy_decoders;          /* decoders with something queued, at the same time */
    fake_number max_busy_engines;
    fake_number map_waits;                  /* maps of pictures that were not decoded yet */
    /* maps at which n pictures of the decoder were submitted and not mapped, that one included */
    fake_number map_depth[33];
    fake_number log_count;                  /* beyond FAKE_LOG_SIZE only the count goes on */
    fake_entry  log[FAKE_LOG_SIZE];

    /* The fakes' own. */
    fake_number fail_at[FAKE_FUNCTION_COUNT], fail_code[FAKE_FUNCTION_COUNT], fail_later[FAKE_FUNCTION_COUNT];
    fake_number live_decoders, live_parsers, live_mapped, busy_decoders, busy_engines, randoms;
    _Atomic int violation_state;
    char        violation[240];
} fake_control;

/* fail: the k-th call (1 = the next) of a function returns code without doing anything, and with later != 0 all that
 * follow it, too. Functions that release something do so even then. Codes 214, 220, 700, 702, 710, 714..719 lose the
 * device: every later call returns that code, blocked ones at once. Of stream_copy and stream_kernel any code loses the
 * device, when that work's turn comes; of engine_picture a sticky code does, another one spoils that picture. k = 0
 * takes the script back. On a lost device contexts can still be pushed and popped (see lost_push), and those who
 * release need none. leaks: NULL, or what is still alive; violation: NULL, or the first one. */
typedef struct fake_interface {
    fake_control *control;
    void        (*reset)(void);
    void        (*fail)(const char *function, long long k, int code, int later);
    long long   (*calls)(const char *function);
    const char *(*leaks)(void);
    const char *(*violation)(void);
    const char *(*name)(long long function);        /* of a fake_entry's function */
} fake_interface;

/* A program that knows nothing of fakes is scripted by FAKE_SCRIPT in its environment: words of the form NAME=VALUE,
 * with the names in fake_cuda.c's scripts[], and fail=FUNCTION,K,CODE,LATER. libcuda.so.1 exports fake_api, and the
 * functions fake_get, fake_reset, fake_leaks of these types. */
extern fake_interface fake_api;
fake_control *fake_get(void);
void          fake_reset(void);
const char   *fake_leaks(void);

static inline const fake_interface *fake_load(void)
{
    static _Atomic(const fake_interface *) loaded;
    const fake_interface *api = atomic_load(&loaded);
    if (!api) {
        void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        api = library ? dlsym(library, "fake_api") : NULL;
        if (!api) {
            fprintf(stderr, "fake.h: %s\n", library ? "libcuda.so.1 is not the fake" : dlerror());
            exit(1);
        }
        atomic_store(&loaded, api);
    }
    return api;
}

/* Copies a shared object so that one symbol cannot be found in it: its name in the table of names, which comes first in
 * the file, gets another first letter. Returns 1, or 0 if it could not. To use the copy: in a process that has not
 * loaded the fake (a child of fork before fake_load, or exec), dlopen it by its path; a later dlopen("libcuda.so.1")
 * then finds it by its soname. */
static inline int fake_without(const char *from, const char *to, const char *symbol)
{
    FILE *in = fopen(from, "rb"), *out = NULL;
    size_t length = strlen(symbol) + 1, size = 0, room = (size_t)64 << 20, i = 1;
    char *bytes = in ? malloc(room) : NULL;
    if (bytes)
        size = fread(bytes, 1, room, in);
    while (i + length <= size && (bytes[i - 1] || memcmp(bytes + i, symbol, length)))
        i++;
    if (i + length <= size && (out = fopen(to, "wb"))) {
        bytes[i] = '_';
        if (fwrite(bytes, 1, size, out) != size)
            size = 0;
        if (fclose(out))
            size = 0;
    }
    if (in)
        fclose(in);
    free(bytes);
    return out && size;
}

#ifdef FAKE_INTERNAL
/* ---- What the two fakes share ------------------------------------------------------------------------------------ */
#include <pthread.h>
#include <signal.h>
#include <ffnvcodec/dynlink_cuda.h>

enum { /* CUresult, as far as dynlink_cuda.h lacks them */
       FAKE_E_VALUE = 1,
       FAKE_E_MEMORY = 2,
       FAKE_E_NOT_INITIALIZED = 3,
       FAKE_E_DEVICE = 101,
       FAKE_E_IMAGE = 200,
       FAKE_E_CONTEXT = 201,
       FAKE_E_PTX = 218,
       FAKE_E_HANDLE = 400,
       FAKE_E_NOT_FOUND = 500,
       FAKE_E_DESTROYED = 709,
       FAKE_E_SUPPORT = 801
};
enum { FAKE_CONTEXT = 1, FAKE_RELEASES = 2, FAKE_ALWAYS = 4, FAKE_HOST = 8 };
    /* needs a current context; releases something; works before cuInit; works on a lost device */
enum { FAKE_DEVICE_MEMORY = 1, FAKE_PINNED, FAKE_SURFACE };
typedef void fake_work(void *payload, int lost);                    /* lost: only release the payload */
typedef struct fake_word { _Atomic unsigned value; } fake_word;     /* to sleep on, without ordering anything */

#define FAKE_ADD(counter, n) atomic_fetch_add_explicit(&(counter), (n), memory_order_relaxed)
#define FAKE_GET(number)     atomic_load_explicit(&(number), memory_order_relaxed)
#define FAKE_SET(number, v)  atomic_store_explicit(&(number), (v), memory_order_relaxed)

/* A driver's threads take no signals. */
static inline int fake_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, old;
    int error;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

/* What every function does first. > 0: return that; < 0: do it, then return minus that; 0: do it. */
int       fake_enter(int function, unsigned flags, const void *stream, const void *decoder, long long value);
/* a place's scripted code, 0: none */
int       fake_happens(int place, const void *stream, const void *decoder, long long value);
void      fake_lose(int code);
int       fake_is_sticky(int code);
void      fake_violate(const char *format, ...) __attribute__((format(printf, 1, 2)));
void      fake_peak(fake_number *peak, long long value);
long long fake_thread(void);
uint64_t  fake_random(void);
void      fake_nap(long long us);                                   /* ends early when the device is lost */
void      fake_sleep_on(fake_word *word, unsigned seen);            /* until it is woken, a few ms at most */
void      fake_wake(fake_word *word);
CUcontext fake_current(void);
int       fake_mine(CUcontext context);                             /* current, or the device is lost */
void      fake_work_for(CUcontext context);                         /* this thread works for that device from now on */
int       fake_lost(void);                                          /* the code with which its device was lost, or 0 */
void      fake_object(CUcontext context, int n);                    /* one object more, or fewer, lives in it */
uint64_t  fake_stream_serial(CUstream stream);                      /* 0: not alive; no two streams have the same */
/* Work at the stream's end. A code, having done nothing with payload, when the stream cannot be used with the current
 * context. */
int       fake_stream_push(CUstream stream, uint64_t serial, fake_work *work, void *payload);
int       fake_range_add(const void *base, size_t size, int kind, CUcontext context);       /* 0: the table is full */
int       fake_range_remove(uint64_t base, int kind);               /* 0: there is none that begins so */
void      fake_range_map(const void *base, int mapped);             /* of a surface: may kernels be given it now? */
#endif

#endif
