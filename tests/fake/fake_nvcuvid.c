/* fake_nvcuvid.c - a libnvcuvid.so.1 for tests: see fake.h.
 *
 * A decoder's thread does what the engine would do for it, and takes turns at that engine with the threads of others;
 * one thread an engine would order callers that share an engine, and so hide their races. What libavcodec allocates
 * stays in the thread that decodes, or in the parser, since TSan does not see into libavcodec. */
#define _GNU_SOURCE
#define FAKE_INTERNAL
#include "fake.h"
#include <ffnvcodec/dynlink_nvcuvid.h>
#include <libavcodec/avcodec.h>
#include <libavutil/pixdesc.h>
#include <time.h>

tcuvidGetDecoderCaps cuvidGetDecoderCaps;
tcuvidCreateDecoder cuvidCreateDecoder;
tcuvidDestroyDecoder cuvidDestroyDecoder;
tcuvidReconfigureDecoder cuvidReconfigureDecoder;
tcuvidDecodePicture cuvidDecodePicture;
tcuvidGetDecodeStatus cuvidGetDecodeStatus;
tcuvidMapVideoFrame64 cuvidMapVideoFrame64;
tcuvidUnmapVideoFrame64 cuvidUnmapVideoFrame64;
tcuvidCreateVideoParser cuvidCreateVideoParser;
tcuvidParseVideoData cuvidParseVideoData;
tcuvidDestroyVideoParser cuvidDestroyVideoParser;

enum { FREE, MAKING, ALIVE };
enum { SURFACES = 32, OUTPUTS = 64, QUEUE = 4, DECODERS = 256, PARSERS = 256, ENGINES = 64 };

static fake_control *control;

static FILE *trace;     /* FAKE_TRACE in the environment: a line for each decoder made and picture given */
static FILE *record;    /* FAKE_RECORD: what parsers are given, for tests/nvparser/replay.cpp */

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("FAKE_TRACE");
    control = fake_get();
    trace = path ? fopen(path, "a") : NULL;
    if (trace)
        setvbuf(trace, NULL, _IOLBF, 0);
    path = getenv("FAKE_RECORD");
    record = path ? fopen(path, "ab") : NULL;
}

static int claim(_Atomic int *state)
{
    int from = FREE;
    return atomic_compare_exchange_strong_explicit(state, &from, MAKING, memory_order_acquire, memory_order_relaxed);
}

static void settle(_Atomic int *state, int to) { atomic_store_explicit(state, to, memory_order_release); }

#define IN_TABLE(handle, table, \
    count) ((uintptr_t)(handle) >= (uintptr_t)(table) && (uintptr_t)(handle) < (uintptr_t)((table) + (count)) && \
                                        ((uintptr_t)(handle) - (uintptr_t)(table)) % sizeof (table)[0] == 0)
#define ENTER(function, flags, decoder, value)                                                   \
    do {                                                                                         \
        int refused = fake_enter(FAKE_##function, (flags), NULL, (decoder), (long long)(value)); \
        if (refused)                                                                             \
            return (CUresult)refused;                                                            \
    } while (0)
#define ENTER_RELEASE(after, function, flags, decoder, value)                                              \
    int after = fake_enter(FAKE_##function, (flags) | FAKE_RELEASES, NULL, (decoder), (long long)(value)); \
    if (after > 0)                                                                                         \
    return (CUresult)after

static int lost(void) { return fake_lost(); }


/* ---- What the engines take --------------------------------------------------------------------------------------- */

static int codec_of(cudaVideoCodec codec)
{
    return codec == cudaVideoCodec_H264 ? FAKE_H264 :
           codec == cudaVideoCodec_HEVC ? FAKE_HEVC :
           codec == cudaVideoCodec_AV1  ? FAKE_AV1 :
           codec == cudaVideoCodec_JPEG ? FAKE_JPEG :
                                          -1;
}

static const AVCodec *software_of(int codec)
{
    const AVCodec *found;
    if (codec == FAKE_H264 || codec == FAKE_HEVC)
        return avcodec_find_decoder(codec == FAKE_H264 ? AV_CODEC_ID_H264 : AV_CODEC_ID_HEVC);
    if (codec == FAKE_JPEG)
        return avcodec_find_decoder(AV_CODEC_ID_MJPEG);
    found = avcodec_find_decoder_by_name("libdav1d");
    return found ? found : avcodec_find_decoder_by_name("libaom-av1");
}

/* av_parser_init takes an int, and from FFmpeg 9 on an AVCodecID: a constant is either. */
static AVCodecParserContext *software_parser_of(int codec)
{
    switch (codec) {
    case FAKE_H264: return av_parser_init(AV_CODEC_ID_H264);
    case FAKE_HEVC: return av_parser_init(AV_CODEC_ID_HEVC);
    case FAKE_AV1:  return av_parser_init(AV_CODEC_ID_AV1);
    default:        return av_parser_init(AV_CODEC_ID_MJPEG);
    }
}

static int is_supported(int codec, cudaVideoChromaFormat chroma, unsigned long depth)
{
    return codec >= 0 && depth <= 16 && (unsigned)chroma <= 3 &&
           (FAKE_GET(control->engines) > 0 || FAKE_GET(control->caps_without_engines)) &&
           (FAKE_GET(control->caps[codec].chroma_mask) >> chroma & 1) &&
           (FAKE_GET(control->caps[codec].depth_mask) >> depth & 1) && software_of(codec);
}

static cudaVideoSurfaceFormat format_of(cudaVideoChromaFormat chroma, unsigned long depth)
{
    return chroma == cudaVideoChromaFormat_444 ?
               depth > 8 ? cudaVideoSurfaceFormat_YUV444_16Bit : cudaVideoSurfaceFormat_YUV444 :
           depth > 8 ? cudaVideoSurfaceFormat_P016 :
                       cudaVideoSurfaceFormat_NV12;
}

CUresult cuvidGetDecoderCaps(CUVIDDECODECAPS *pdc)
{
    int codec = codec_of(pdc->eCodecType);
    ENTER(cuvidGetDecoderCaps, FAKE_CONTEXT, NULL, pdc->eCodecType);
    memset(&pdc->bIsSupported, 0, sizeof *pdc - offsetof(CUVIDDECODECAPS, bIsSupported));
    if (is_supported(codec, pdc->eChromaFormat, pdc->nBitDepthMinus8 + 8ul)) {
        const fake_caps *caps = &control->caps[codec];
        pdc->bIsSupported = 1;
        pdc->nNumNVDECs = (unsigned char)(FAKE_GET(control->uncounted) ? 0 : FAKE_GET(control->engines));
        pdc->nOutputFormatMask = (unsigned short)(1 << format_of(pdc->eChromaFormat, pdc->nBitDepthMinus8 + 8ul));
        pdc->nMaxWidth = (unsigned)FAKE_GET(caps->max_width);
        pdc->nMaxHeight = (unsigned)FAKE_GET(caps->max_height);
        pdc->nMaxMBCount = (unsigned)FAKE_GET(caps->max_macroblocks);
        pdc->nMinWidth = (unsigned short)FAKE_GET(caps->min_width);
        pdc->nMinHeight = (unsigned short)FAKE_GET(caps->min_height);
    }
    return CUDA_SUCCESS;
}


/* ---- What callers ask for, as lines of words: for comparisons of callers ----------------------------------------- */

static void trace_decoder(const CUVIDDECODECREATEINFO *c)
{
    if (trace)
        fprintf(trace,
                "decoder codec=%d chroma=%d depth=%lu size=%lux%lu target=%lux%lu display=%d,%d,%d,%d rect=%d,%d,%d,%d "
                "surfaces=%lu outputs=%lu format=%d deinterlace=%d flags=%lu intra_only=%lu max=%lux%lu lock=%d\n",
                c->CodecType, c->ChromaFormat, c->bitDepthMinus8 + 8, c->ulWidth, c->ulHeight, c->ulTargetWidth,
                c->ulTargetHeight, c->display_area.left, c->display_area.top, c->display_area.right,
                c->display_area.bottom, c->target_rect.left, c->target_rect.top, c->target_rect.right,
                c->target_rect.bottom, c->ulNumDecodeSurfaces, c->ulNumOutputSurfaces, c->OutputFormat,
                c->DeinterlaceMode, c->ulCreationFlags, c->ulIntraDecodeOnly, c->ulMaxWidth, c->ulMaxHeight,
                c->vidLock != NULL);
}

/* A slice: bytes behind its start code, without zeros at its end, which may belong to the next one's start code. */
static void trace_slice(const CUVIDPICPARAMS *p, unsigned slice)
{
    const uint8_t *at = p->pBitstreamData + p->pSliceDataOffsets[slice];
    const uint8_t *end = p->pBitstreamData +
                         (slice + 1 < p->nNumSlices ? p->pSliceDataOffsets[slice + 1] : p->nBitstreamDataLen);
    uint64_t sum = 0xcbf29ce484222325u;
    while (at < end && !*at)
        at++;
    if (at < end && *at == 1)
        at++;
    while (end > at && !end[-1])
        end--;
    fprintf(trace, " slice%u=%zu:", slice, (size_t)(end - at));
    for (; at < end; at++)
        sum = (sum ^ *at) * 0x100000001b3u;
    fprintf(trace, "%016llx", (unsigned long long)sum);
}

static void trace_picture(int codec, const CUVIDPICPARAMS *p)
{
    if (!trace)
        return;
    flockfile(trace);
    fprintf(trace, "picture codec=%d size=%dx%d slices=%u", codec, p->PicWidthInMbs, p->FrameHeightInMbs,
            p->nNumSlices);
    for (unsigned i = 0; i < p->nNumSlices && codec != FAKE_AV1; i++)
        trace_slice(p, i);
    fprintf(trace, " field=%d bottom=%d second=%d ref=%d intra=%d", p->field_pic_flag, p->bottom_field_flag,
            p->second_field, p->ref_pic_flag, p->intra_pic_flag);
    if (codec == FAKE_HEVC) {
        const CUVIDHEVCPICPARAMS *h = &p->CodecSpecific.hevc;
        fprintf(trace, " luma=%dx%d depths=%d,%d irap=%d idr=%d", h->pic_width_in_luma_samples,
                h->pic_height_in_luma_samples, h->bit_depth_luma_minus8, h->bit_depth_chroma_minus8, h->IrapPicFlag,
                h->IdrPicFlag);
    }
    if (codec == FAKE_AV1) {
        const CUVIDAV1PICPARAMS *av1 = &p->CodecSpecific.av1;
        fprintf(trace, " own_surface=%d references=", av1->decodePicIdx == p->CurrPicIdx);
        for (int i = 0; i < 8; i++)
            fprintf(trace, "%02x", av1->ref_frame_map[i]);
    }
    fputc('\n', trace);
    funlockfile(trace);
}


/* ---- Pictures and output surfaces -------------------------------------------------------------------------------- */

/* As an output surface has it, with rows one behind the other. */
typedef uint8_t picture;

/* Where planes lie, in a surface and in a picture. */
typedef struct geometry {
    int    planes, bytes, depth;
    size_t width, height;
    size_t pitch, offset[3], surface_size;
    size_t row[3], rows[3], picture_size;
} geometry;

typedef struct output {
    _Atomic int refs;                   /* the decoder's, and one for each piece of work in streams */
    geometry    g;
    int         picture_index;          /* -1: not mapped */
    CUstream    stream;
    uint64_t    serial;
    uint8_t    *data;
} output;

static geometry geometry_of(const CUVIDDECODECREATEINFO *info, long long number)
{
    geometry g = { 0 };
    size_t even = (info->ulHeight + 1) & ~1ul;
    g.bytes = info->bitDepthMinus8 ? 2 : 1;
    g.depth = (int)info->bitDepthMinus8 + 8;
    g.width = info->ulWidth;
    g.height = info->ulHeight;
    g.planes = info->ChromaFormat == cudaVideoChromaFormat_444 ? 3 : 2;
    g.pitch = (info->ulTargetWidth * (size_t)g.bytes + 255) / 256 * 256 +
              (size_t)(number % 4 * FAKE_GET(control->pitch_step));
    for (int p = 0; p < g.planes; p++) {
        int chroma = p && g.planes == 2;
        g.row[p] = (chroma ? (g.width + 1) / 2 * 2 : g.width) * (size_t)g.bytes;
        g.rows[p] = chroma ? (g.height + 1) / 2 : g.height;
        g.offset[p] = g.pitch * even * (size_t)p;
        g.surface_size = g.offset[p] + g.pitch * g.rows[p];
        g.picture_size += g.row[p] * g.rows[p];
    }
    return g;
}

/* Only the last one learns what the others did: streams would be ordered otherwise. */
static void output_drop(output *o)
{
    if (atomic_fetch_sub_explicit(&o->refs, 1, memory_order_release) == 1 &&
        !atomic_load_explicit(&o->refs, memory_order_acquire)) {
        free(o->data);
        free(o);
    }
}

/* A map's copy that is queued, for wrong_surface: of which decoder's surface; whether that has another picture now. */
typedef struct fill {
    _Atomic int          taken, surface, spoiled;
    _Atomic(const void *) decoder;
} fill;

static fill fills[1024];

static fill *fill_begin(const void *decoder, int surface)
{
    for (size_t i = 0; i < sizeof fills / sizeof fills[0]; i++) {
        int none = 0;
        if (!atomic_compare_exchange_strong_explicit(&fills[i].taken, &none, 1, memory_order_relaxed,
                                                     memory_order_relaxed))
            continue;
        FAKE_SET(fills[i].spoiled, 0);
        FAKE_SET(fills[i].surface, surface);
        FAKE_SET(fills[i].decoder, decoder);
        return &fills[i];
    }
    abort();
}

static void fill_spoil(const void *decoder, int surface)
{
    for (size_t i = 0; i < sizeof fills / sizeof fills[0]; i++)
        if (FAKE_GET(fills[i].decoder) == decoder && FAKE_GET(fills[i].surface) == surface)
            FAKE_SET(fills[i].spoiled, 1);
}

/* owns from; NULL: garbage. fill: NULL but for wrong_surface */
typedef struct transfer { output *to; picture *from; CUstream stream; fill *fill; } transfer;

/* A stream's part of a map. Padding, and all of a picture that failed, is something that no one expects. */
static void work_fill(void *payload, int is_lost)
{
    transfer *t = payload;
    const geometry *g = &t->to->g;
    if (!is_lost && !fake_happens(FAKE_stream_copy, t->stream, NULL, (long long)(intptr_t)t->to->data)) {
        const uint8_t *from = t->from;
        memset(t->to->data, 0xaa, g->surface_size);
        if (t->fill && FAKE_GET(t->fill->spoiled))
            from = NULL;
        for (int p = 0; p < g->planes && from; p++)
            for (size_t y = 0; y < g->rows[p]; y++, from += g->row[p])
                memcpy(t->to->data + g->offset[p] + y * g->pitch, from, g->row[p]);
    }
    if (t->fill) {
        FAKE_SET(t->fill->decoder, NULL);
        FAKE_SET(t->fill->taken, 0);
    }
    free(t->from);
    output_drop(t->to);
    free(t);
}

/* And of an unmap: who reads the surface after this, reads garbage. */
static void work_poison(void *payload, int is_lost)
{
    output *o = payload;
    if (!is_lost)
        memset(o->data, 0xee, o->g.surface_size);
    output_drop(o);
}

/* count samples of one component, step samples apart. */
static void row_make(const geometry *g, uint8_t *to, const uint8_t *from, size_t count, size_t step)
{
    if (g->bytes == 1 && step == 1)
        memcpy(to, from, count);
    else if (g->bytes == 1)
        for (size_t x = 0; x < count; x++)
            to[x * step] = from[x];
    else
        for (size_t x = 0; x < count; x++) {
            uint16_t value;
            memcpy(&value, from + 2 * x, 2);
            value = (uint16_t)(value << (16 - g->depth));
            memcpy(to + 2 * x * step, &value, 2);
        }
}

static picture *picture_make(const geometry *g, const AVFrame *frame)
{
    picture *p = malloc(g->picture_size), *to = p;
    if (!p)
        abort();
    memset(p, 0xaa, g->picture_size);           /* stays in the frame's edges, rounded up */
    for (int plane = 0; plane < g->planes; plane++) {
        int half = g->planes == 2 && plane;     /* two components in turns */
        size_t step = half ? 2 : 1, width = ((size_t)frame->width + (size_t)half) >> half,
               height = ((size_t)frame->height + (size_t)half) >> half;
        size_t count = g->row[plane] / (size_t)g->bytes / step;
        for (size_t y = 0; y < g->rows[plane]; y++, to += g->row[plane])
            for (size_t part = 0; part < step && y < height; part++)
                row_make(g, to + part * (size_t)g->bytes,
                         frame->data[(size_t)plane + part] + (ptrdiff_t)y * frame->linesize[(size_t)plane + part],
                         width < count ? width : count, step);
    }
    return p;
}


/* ---- Decoders: what the engine does ------------------------------------------------------------------------------ */

/* named: the surface that the parser named */
typedef struct job { int index, named; uint8_t *data; size_t size; } job;
typedef struct surface {
    enum { EMPTY, QUEUED, DECODED, MAPPED } state;
    int      status;                    /* cuvidDecodeStatus */
    int      asked;                     /* so often for the status, since it is mapped */
    picture *picture;
    long long given_ms;                 /* when it was queued */
} surface;

typedef struct decoder {
    _Atomic int           state, busy;
    CUcontext             context;
    long long             thread, number, memory;
    int                   engine, outputs, codec;
    CUVIDDECODECREATEINFO info;
    geometry              g;
    output               *output[OUTPUTS];
    int                   mapped;
    /* Shared with its thread, under the lock. */
    pthread_mutex_t       lock;
    pthread_cond_t        changed;
    int                   stop, first, count;
    job                   queue[QUEUE];
    surface               surface[SURFACES];
    pthread_t             worker;
    int                   has_worker;
    int                   resized;
    picture              *held[SURFACES];       /* wrong_index, wrong_kept: what is really in each surface */
    picture              *past[2];              /* wrong_order: what was decoded last, and before that */
    AVCodecContext       *software[FAKE_CODECS];        /* kept from decoder to decoder: opening takes long */
} decoder;

static _Thread_local int parser_named;  /* the surface of the picture that the thread's parser calls back for */
static _Thread_local int in_sequence;   /* below a parser's pfnSequenceCallback */
static decoder decoders[DECODERS];
static fake_number decoder_count, engine_load[ENGINES];
static _Atomic int engine_taken[ENGINES];
static fake_word engine_word[ENGINES];

/* A relaxed flag, not a mutex: see above. */
static void engine_take(int engine)
{
    for (;;) {
        unsigned seen = FAKE_GET(engine_word[engine].value);
        int none = 0;
        if (atomic_compare_exchange_strong_explicit(&engine_taken[engine], &none, 1, memory_order_relaxed,
                                                    memory_order_relaxed))
            break;
        fake_sleep_on(&engine_word[engine], seen);
    }
    fake_peak(&control->max_busy_engines, FAKE_ADD(control->busy_engines, 1) + 1);
}

static void engine_give(int engine)
{
    FAKE_ADD(control->busy_engines, -1);
    FAKE_SET(engine_taken[engine], 0);
    fake_wake(&engine_word[engine]);
}

/* What a damaged picture leaves out is the same whatever was decoded before: tests compare it. */
static int cleared_buffer(AVCodecContext *context, AVFrame *frame, int flags)
{
    const int result = avcodec_default_get_buffer2(context, frame, flags);
    for (int i = 0; result >= 0 && i < AV_NUM_DATA_POINTERS && frame->buf[i]; i++)
        memset(frame->buf[i]->data, 0, frame->buf[i]->size);
    return result;
}

static AVCodecContext *software_open(int codec)
{
    AVCodecContext *context = avcodec_alloc_context3(software_of(codec));
    if (!context)
        abort();
    context->thread_count = 1;
    context->get_buffer2 = cleared_buffer;
    context->flags |= AV_CODEC_FLAG_LOW_DELAY;
    context->err_recognition = AV_EF_EXPLODE | AV_EF_BITSTREAM | AV_EF_BUFFER;
    context->apply_cropping = 0;        /* surfaces hold coded frames */
    context->log_level_offset = 64;     /* below every level */
    if (avcodec_open2(context, NULL, NULL) < 0)
        abort();
    return context;
}

static int software_decode(AVCodecContext *context, const job *j, AVFrame *frame)
{
    AVPacket *packet = av_packet_alloc();
    int result = packet ? av_new_packet(packet, (int)j->size) : -1;
    if (result < 0)
        abort();
    memcpy(packet->data, j->data, j->size);
    result = avcodec_send_packet(context, packet);
    if (result >= 0)
        result = avcodec_receive_frame(context, frame);
    if (result == AVERROR(EAGAIN) && (result = avcodec_send_packet(context, NULL)) >= 0)
        result = avcodec_receive_frame(context, frame);
    av_packet_free(&packet);
    return result >= 0 && !(frame->flags & AV_FRAME_FLAG_CORRUPT) && !frame->decode_error_flags;
}

/* Sizes of H.265 frames as NVIDIA's parser has them: in whole macroblocks, as for H.264. */
static int coded_size(int codec, int size) { return codec == FAKE_HEVC ? (size + 15) / 16 * 16 : size; }

/* Is the frame what the decoder was made for? */
static int fits(const decoder *d, const AVFrame *frame)
{
    const AVPixFmtDescriptor *f = av_pix_fmt_desc_get(frame->format);
    int full = f && f->nb_components == 3 && !f->log2_chroma_w && !f->log2_chroma_h,
        half = f && f->log2_chroma_w == 1 && f->log2_chroma_h == 1;
    if (f && (size_t)coded_size(d->codec, frame->width) == d->g.width &&
        (size_t)coded_size(d->codec, frame->height) == d->g.height && f->comp[0].depth == d->g.depth &&
        (d->g.planes == 3 ? full : half))
        return 1;
    fake_violate("a picture of %dx%d %s was given to a decoder of %zux%zu, %d bits, %s", frame->width, frame->height,
                 f ? f->name : "?", d->g.width, d->g.height, d->g.depth, d->g.planes == 3 ? "4:4:4" : "4:2:0");
    return 0;
}

/* contrary: what comes of a picture instead. */
static picture *contradict(const decoder *d, const job *j, picture *p)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < j->size; i++)
        sum = sum * 31 + j->data[i];
    if (!p)
        return memset(malloc(d->g.picture_size), 0x55, d->g.picture_size);
    if (sum % 5)
        return p;
    free(p);
    return NULL;
}

static picture *engine_decode(const decoder *d, AVCodecContext **context, AVFrame *frame, const job *j)
{
    picture *p = NULL;
    long long delay = FAKE_GET(control->engine_delay_us);
    int bad;
    engine_take(d->engine);
    fake_nap(FAKE_GET(control->engine_us) + (delay > 0 ? (long long)(fake_random() % (uint64_t)(delay + 1)) : 0));
    while (FAKE_GET(control->stuck))
        fake_nap(1000);
    if (!fake_happens(FAKE_engine_picture, NULL, d, j->index) && !lost()) {
        if (!*context)
            *context = software_open(d->codec);
        if (software_decode(*context, j, frame) && fits(d, frame))
            p = picture_make(&d->g, frame);
        bad = !p;
        if (FAKE_GET(control->contrary))
            p = contradict(d, j, p);
        av_frame_unref(frame);
        avcodec_flush_buffers(*context);
        if (p && (FAKE_GET(control->wrong_intra) > !d->info.ulIntraDecodeOnly ||
                  (FAKE_GET(control->wrong_size) && d->resized)))
            for (size_t i = 0; i < d->g.row[0] * d->g.rows[0]; i++)
                p[i] ^= 0x40;
        if (p && d->codec == FAKE_JPEG)
            for (size_t i = 0; i < d->g.row[0] * d->g.rows[0]; i += 2)
                p[i] = (uint8_t)(p[i] + FAKE_GET(control->jpeg_error));
        if (bad)
            avcodec_free_context(context);      /* nothing of a bad picture reaches the next */
    }
    engine_give(d->engine);
    return p;
}

/* wrong_kept, wrong_order: of a picture that was decoded into a surface. With d's lock held. */
static void mix_up(decoder *d, int index, picture *p)
{
    const long long order = FAKE_GET(control->wrong_order);
    picture *decoded;
    if (index == FAKE_GET(control->wrong_kept) - 1) {
        if (d->held[index])
            memcpy(p, d->held[index], d->g.picture_size);
        else
            d->held[index] = memcpy(malloc(d->g.picture_size), p, d->g.picture_size);
    }
    if (!order)
        return;
    decoded = memcpy(malloc(d->g.picture_size), p, d->g.picture_size);
    if (d->past[order - 1])
        memcpy(p, d->past[order - 1], d->g.picture_size);
    free(d->past[1]);
    d->past[1] = d->past[0];
    d->past[0] = decoded;
}

static void *worker_main(void *argument)
{
    decoder *d = argument;
    AVCodecContext *context = d->software[d->codec];
    AVFrame *frame = av_frame_alloc();
    fake_work_for(d->context);
    pthread_mutex_lock(&d->lock);
    for (;;) {
        job j;
        picture *p;
        surface *s;
        while (!d->count && !d->stop)
            pthread_cond_wait(&d->changed, &d->lock);
        if (d->stop)
            break;
        j = d->queue[d->first];
        pthread_mutex_unlock(&d->lock);
        p = engine_decode(d, &context, frame, &j);
        free(j.data);
        pthread_mutex_lock(&d->lock);
        s = &d->surface[j.index];
        if (FAKE_GET(control->wrong_surface))
            fill_spoil(d, j.index);
        s->picture = p;
        if (FAKE_GET(control->wrong_index) && p) {
            free(d->held[j.named]);
            d->held[j.named] = memcpy(malloc(d->g.picture_size), p, d->g.picture_size);
        }
        if (p)
            mix_up(d, j.index, p);
        s->status = p                            ? cuvidDecodeStatus_Success :
                    FAKE_GET(control->concealed) ? cuvidDecodeStatus_Error_Concealed :
                                                   cuvidDecodeStatus_Error;
        s->state = DECODED;
        if (!p)
            FAKE_ADD(control->bad_pictures, 1);
        d->first = (d->first + 1) % QUEUE;
        if (!--d->count)
            FAKE_ADD(control->busy_decoders, -1);
        pthread_cond_broadcast(&d->changed);
    }
    pthread_mutex_unlock(&d->lock);
    av_frame_free(&frame);
    d->software[d->codec] = context;
    return NULL;
}


/* ---- Decoders: what the caller does ------------------------------------------------------------------------------ */

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A picture that takes so long, on a machine that is busy with other things, may be mapped by another thread: that call
 * might hang. */
enum { SLOW_MS = 500 };

/* Takes the decoder for a call; NULL and a violation: it may not be used so. index: of the surface that is mapped, or
 * -1 */
static decoder *decoder_take_for(CUvideodecoder handle, const char *function, int index)
{
    decoder *d = handle;
    int foreign;
    if (!IN_TABLE(d, decoders, DECODERS) || atomic_load_explicit(&d->state, memory_order_relaxed) != ALIVE) {
        fake_violate("%s: not a decoder, or one that was destroyed", function);
        return NULL;
    }
    if (atomic_exchange_explicit(&d->busy, 1, memory_order_acquire)) {
        fake_violate("%s: another thread is using this decoder", function);
        return NULL;
    }
    foreign = d->thread != fake_thread() && !FAKE_GET(control->any_thread) &&
              !(index >= 0 && index < SURFACES && now_ms() - d->surface[index].given_ms >= SLOW_MS);
    if (foreign)
        fake_violate("%s: by another thread than made the decoder", function);
    if (!fake_mine(d->context))
        fake_violate("%s: the decoder is of another context", function);
    if (!foreign && fake_mine(d->context))
        return d;
    atomic_store_explicit(&d->busy, 0, memory_order_release);
    return NULL;
}

static decoder *decoder_take(CUvideodecoder handle, const char *function)
{
    return decoder_take_for(handle, function, -1);
}

static CUresult decoder_give(decoder *d, int result)
{
    atomic_store_explicit(&d->busy, 0, memory_order_release);
    return (CUresult)result;
}

/* Waits, with d's lock held, for its thread; wakes now and then for a lost device. */
static void decoder_wait(decoder *d)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 5000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&d->changed, &d->lock, &until);
}

static int check_size(int codec, unsigned long width, unsigned long height)
{
    const fake_caps *c = &control->caps[codec];
    long long w = (long long)width, h = (long long)height;
    return w >= FAKE_GET(c->min_width) && w <= FAKE_GET(c->max_width) && h >= FAKE_GET(c->min_height) &&
           h <= FAKE_GET(c->max_height) && (w + 15) / 16 * ((h + 15) / 16) <= FAKE_GET(c->max_macroblocks);
}

static int is_whole(long left, long top, long right, long bottom, unsigned long width, unsigned long height)
{
    return !left && !top && ((!right && !bottom) || (right == (long)width && bottom == (long)height));
}

/* Is the target the frame, not scaled? One that is rounded up to even sizes needs the rectangle of the frame. */
static int is_unscaled(unsigned long target_width, unsigned long target_height, long right, long bottom,
                       unsigned long width, unsigned long height)
{
    return target_width - width <= width % 2 && target_height - height <= height % 2 &&
           ((target_width == width && target_height == height) || (right == (long)width && bottom == (long)height));
}

/* What is wrong with it; NULL: nothing. */
static const char *check_create(const CUVIDDECODECREATEINFO *c)
{
    int codec = codec_of(c->CodecType);
    if (!is_supported(codec, c->ChromaFormat, c->bitDepthMinus8 + 8))
        return "codec, chroma and depth are not supported";
    if (!FAKE_GET(control->engines))                                        return "there is no engine";
    if (!check_size(codec, c->ulWidth, c->ulHeight))                        return "the size is not one of the caps'";
    if (c->ulNumDecodeSurfaces < 1 || c->ulNumDecodeSurfaces > SURFACES)    return "ulNumDecodeSurfaces";
    if ((long long)c->ulNumDecodeSurfaces < FAKE_GET(control->min_surfaces))
        return "ulNumDecodeSurfaces are fewer than the parser asks for";
    if (c->ulNumOutputSurfaces < 1 || c->ulNumOutputSurfaces > OUTPUTS)     return "ulNumOutputSurfaces";
    if (!is_unscaled(c->ulTargetWidth, c->ulTargetHeight, c->target_rect.right, c->target_rect.bottom, c->ulWidth,
                     c->ulHeight))
        return "the fake does not scale";
    if (c->OutputFormat != format_of(c->ChromaFormat, c->bitDepthMinus8 + 8)) return "OutputFormat is not in the mask";
    if (c->DeinterlaceMode != cudaVideoDeinterlaceMode_Weave)               return "DeinterlaceMode is not Weave";
    if (c->vidLock)                                                         return "vidLock";
    if (c->ulIntraDecodeOnly > 1)                                           return "ulIntraDecodeOnly";
    if (c->ulCreationFlags & ~4ul)                                          return "ulCreationFlags";
    if ((c->ulMaxWidth && c->ulMaxWidth < c->ulWidth) || (c->ulMaxHeight && c->ulMaxHeight < c->ulHeight))
        return "ulMaxWidth, ulMaxHeight";
    if (!is_whole(c->display_area.left, c->display_area.top, c->display_area.right, c->display_area.bottom, c->ulWidth,
                  c->ulHeight) ||
        !is_whole(c->target_rect.left, c->target_rect.top, c->target_rect.right, c->target_rect.bottom, c->ulWidth,
                  c->ulHeight))
        return "the fake does not crop";
    return NULL;
}

static void outputs_make(decoder *d)
{
    d->g = geometry_of(&d->info, d->number);
    for (d->outputs = 0; d->outputs < (int)d->info.ulNumOutputSurfaces; d->outputs++) {
        output *o = calloc(1, sizeof *o);
        if (!o || !(o->data = malloc(d->g.surface_size)) ||
            !fake_range_add(o->data, d->g.surface_size, FAKE_SURFACE, d->context))
            abort();
        memset(o->data, 0xcd, d->g.surface_size);
        o->refs = 1;
        o->g = d->g;
        o->picture_index = -1;
        d->output[d->outputs] = o;
    }
}

static void outputs_drop(decoder *d)
{
    for (int i = 0; i < d->outputs; i++) {
        fake_range_remove((uint64_t)(uintptr_t)d->output[i]->data, FAKE_SURFACE);
        output_drop(d->output[i]);
    }
    d->outputs = 0;
}

static void surfaces_drop(decoder *d)
{
    for (int i = 0; i < SURFACES; i++) {
        free(d->surface[i].picture);
        free(d->held[i]);
        d->held[i] = NULL;
        if (i < 2) {
            free(d->past[i]);
            d->past[i] = NULL;
        }
        d->surface[i] = (surface){ EMPTY, cuvidDecodeStatus_Invalid, 0, NULL, 0 };
    }
}

/* The least loaded engine. */
static int engine_choose(void)
{
    int best = 0, count = (int)FAKE_GET(control->engines);
    for (int i = 1; i < count && i < ENGINES; i++)
        if (FAKE_GET(engine_load[i]) < FAKE_GET(engine_load[best]))
            best = i;
    FAKE_ADD(engine_load[best], 1);
    return best;
}

static long long memory_of(const CUVIDDECODECREATEINFO *c)
{
    unsigned long width = c->ulMaxWidth ? c->ulMaxWidth : c->ulWidth,
                  height = c->ulMaxHeight ? c->ulMaxHeight : c->ulHeight;
    unsigned long sample = (c->ChromaFormat == cudaVideoChromaFormat_444 ? 6 : 3) * (c->bitDepthMinus8 ? 2ul : 1ul);
    return (long long)(width * height * sample / 2 * (c->ulNumDecodeSurfaces + c->ulNumOutputSurfaces)) +
           FAKE_GET(control->decoder_extra) + (FAKE_GET(control->creates) ? 0 : FAKE_GET(control->decoder_once));
}

CUresult cuvidCreateDecoder(CUvideodecoder *phDecoder, CUVIDDECODECREATEINFO *pdci)
{
    const char *wrong;
    decoder *d = decoders;
    long long memory = memory_of(pdci), budget = FAKE_GET(control->memory_budget);
    ENTER(cuvidCreateDecoder, FAKE_CONTEXT, NULL, pdci->ulWidth);
    trace_decoder(pdci);
    fake_nap(FAKE_GET(control->create_us));
    if (((pdci->ulTargetWidth | pdci->ulTargetHeight) & 1 && !FAKE_GET(control->odd_targets)) ||
        (codec_of(pdci->CodecType) >= 0 && FAKE_GET(control->refused_codecs) >> codec_of(pdci->CodecType) & 1))
        return (CUresult)FAKE_E_VALUE;
    if ((wrong = check_create(pdci))) {
        fake_violate("cuvidCreateDecoder: %s (%lux%lu, codec %d)", wrong, pdci->ulWidth, pdci->ulHeight,
                     pdci->CodecType);
        return (CUresult)FAKE_E_VALUE;
    }
    while (d < decoders + DECODERS && !claim(&d->state))
        d++;
    if (d == decoders + DECODERS || (budget && FAKE_GET(control->memory_used) + memory > budget)) {
        if (d < decoders + DECODERS)
            settle(&d->state, FREE);
        return (CUresult)FAKE_E_MEMORY;
    }
    FAKE_ADD(control->memory_used, memory);
    FAKE_ADD(control->live_decoders, 1);
    FAKE_ADD(control->creates, 1);
    d->context = fake_current();
    d->thread = fake_thread();
    d->number = FAKE_ADD(decoder_count, 1);
    d->memory = memory;
    d->codec = codec_of(pdci->CodecType);
    d->engine = engine_choose();
    d->info = *pdci;
    d->stop = d->first = d->count = d->mapped = d->has_worker = d->resized = 0;
    fake_object(d->context, 1);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    surfaces_drop(d);
    outputs_make(d);
    settle(&d->state, ALIVE);
    *phDecoder = d;
    return CUDA_SUCCESS;
}

CUresult cuvidDestroyDecoder(CUvideodecoder hDecoder)
{
    while (FAKE_GET(control->stuck) && ((decoder *)hDecoder)->count)
        fake_nap(1000);
    ENTER_RELEASE(after, cuvidDestroyDecoder, FAKE_CONTEXT, hDecoder, 0);
    decoder *d = decoder_take(hDecoder, "cuvidDestroyDecoder");
    if (!d)
        return (CUresult)FAKE_E_HANDLE;
    if (d->mapped)
        fake_violate("cuvidDestroyDecoder: %d surfaces are mapped", d->mapped);
    pthread_mutex_lock(&d->lock);
    d->stop = 1;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    if (d->has_worker)
        pthread_join(d->worker, NULL);
    if (d->count)
        FAKE_ADD(control->busy_decoders, -1);
    for (; d->count; d->count--, d->first = (d->first + 1) % QUEUE)
        free(d->queue[d->first].data);
    surfaces_drop(d);
    outputs_drop(d);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    FAKE_ADD(engine_load[d->engine], -1);
    FAKE_ADD(control->memory_used, -d->memory);
    FAKE_ADD(control->live_mapped, -d->mapped);
    FAKE_ADD(control->live_decoders, -1);
    FAKE_ADD(control->destroys, 1);
    fake_object(d->context, -1);
    decoder_give(d, 0);
    settle(&d->state, FREE);
    return (CUresult)-after;
}

/* Nothing submitted or mapped? For reconfiguring. */
static int is_idle(decoder *d)
{
    int idle = !d->mapped;
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < SURFACES; i++)
        idle = idle && d->surface[i].state == EMPTY;
    pthread_mutex_unlock(&d->lock);
    return idle;
}

CUresult cuvidReconfigureDecoder(CUvideodecoder hDecoder, CUVIDRECONFIGUREDECODERINFO *p)
{
    decoder *d;
    ENTER(cuvidReconfigureDecoder, FAKE_CONTEXT, hDecoder, p->ulWidth);
    if (!(d = decoder_take(hDecoder, "cuvidReconfigureDecoder")))
        return (CUresult)FAKE_E_HANDLE;
    if (!in_sequence && !FAKE_GET(control->reconfigure_anywhere)) {
        fake_violate("cuvidReconfigureDecoder: outside pfnSequenceCallback");
        return decoder_give(d, FAKE_E_VALUE);
    }
    if ((p->ulTargetWidth | p->ulTargetHeight) & 1 && !FAKE_GET(control->odd_targets))
        return decoder_give(d, FAKE_E_VALUE);
    if (!is_idle(d)) {
        fake_violate("cuvidReconfigureDecoder: pictures are in flight or mapped");
        return decoder_give(d, FAKE_E_VALUE);
    }
    if (p->ulWidth > d->info.ulMaxWidth || p->ulHeight > d->info.ulMaxHeight ||
        !check_size(d->codec, p->ulWidth, p->ulHeight) ||
        !is_unscaled(p->ulTargetWidth, p->ulTargetHeight, p->target_rect.right, p->target_rect.bottom, p->ulWidth,
                     p->ulHeight) ||
        p->ulNumDecodeSurfaces < 1 || p->ulNumDecodeSurfaces > SURFACES ||
        !is_whole(p->display_area.left, p->display_area.top, p->display_area.right, p->display_area.bottom, p->ulWidth,
                  p->ulHeight) ||
        !is_whole(p->target_rect.left, p->target_rect.top, p->target_rect.right, p->target_rect.bottom, p->ulWidth,
                  p->ulHeight)) {
        fake_violate("cuvidReconfigureDecoder: to %ux%u of at most %lux%lu", p->ulWidth, p->ulHeight,
                     d->info.ulMaxWidth, d->info.ulMaxHeight);
        return decoder_give(d, FAKE_E_VALUE);
    }
    d->info.ulWidth = p->ulWidth;
    d->info.ulHeight = p->ulHeight;
    d->info.ulTargetWidth = p->ulTargetWidth;
    d->info.ulTargetHeight = p->ulTargetHeight;
    d->info.ulNumDecodeSurfaces = p->ulNumDecodeSurfaces;
    outputs_drop(d);
    outputs_make(d);
    surfaces_drop(d);
    d->resized = 1;
    FAKE_ADD(control->reconfigures, 1);
    return decoder_give(d, 0);
}

/* With d's lock held; NULL: the surface can take a picture. */
static const char *check_submit(const decoder *d, const CUVIDPICPARAMS *p)
{
    static const char *const occupied[] = { NULL, "is in flight", "was decoded and never mapped", "is mapped" };
    surface empty = { EMPTY, 0, 0, NULL, 0 };
    const surface *s = p->CurrPicIdx >= 0 && p->CurrPicIdx < (int)d->info.ulNumDecodeSurfaces ?
                           &d->surface[p->CurrPicIdx] :
                           &empty;
    if (s == &empty)
        return "is not one of ulNumDecodeSurfaces";
    if (p->PicWidthInMbs != (int)(d->g.width + 15) / 16 || p->FrameHeightInMbs != (int)(d->g.height + 15) / 16)
        return "would get a picture of another size than the decoder's";
    if (!p->nBitstreamDataLen || !p->pBitstreamData || !p->nNumSlices)
        return "would get no data";
    if (s->state == DECODED && FAKE_GET(control->allow_drop)) {
        FAKE_ADD(control->dropped, 1);
        return NULL;
    }
    return occupied[s->state];
}

/* With d's lock held: waits for a place in the queue. */
static CUresult submit(decoder *d, const CUVIDPICPARAMS *p)
{
    surface *s = &d->surface[p->CurrPicIdx];
    job *j;
    while (d->count == QUEUE && !lost())
        decoder_wait(d);
    if (lost())
        return (CUresult)lost();
    j = &d->queue[(d->first + d->count) % QUEUE];
    *j = (job){ p->CurrPicIdx, parser_named, malloc(p->nBitstreamDataLen), p->nBitstreamDataLen };
    if (!j->data || (!d->has_worker && fake_start(&d->worker, worker_main, d)))
        abort();
    d->has_worker = 1;
    memcpy(j->data, p->pBitstreamData, j->size);
    free(s->picture);
    *s = (surface){ QUEUED, cuvidDecodeStatus_InProgress, 0, NULL, now_ms() };
    if (!d->count++)
        fake_peak(&control->max_busy_decoders, FAKE_ADD(control->busy_decoders, 1) + 1);
    fake_peak(&control->max_queued, d->count);
    FAKE_ADD(control->decodes, 1);
    pthread_cond_broadcast(&d->changed);
    return CUDA_SUCCESS;
}

CUresult cuvidDecodePicture(CUvideodecoder hDecoder, CUVIDPICPARAMS *pPicParams)
{
    decoder *d;
    const char *wrong;
    CUresult result = (CUresult)FAKE_E_VALUE;
    ENTER(cuvidDecodePicture, FAKE_CONTEXT, hDecoder, pPicParams->CurrPicIdx);
    if (!(d = decoder_take(hDecoder, "cuvidDecodePicture")))
        return (CUresult)FAKE_E_HANDLE;
    trace_picture(d->codec, pPicParams);
    pthread_mutex_lock(&d->lock);
    if ((wrong = check_submit(d, pPicParams)))
        fake_violate("cuvidDecodePicture: surface %d %s", pPicParams->CurrPicIdx, wrong);
    else
        result = submit(d, pPicParams);
    pthread_mutex_unlock(&d->lock);
    return decoder_give(d, (int)result);
}

/* With the decoder's lock held. */
static cuvidDecodeStatus status_of(surface *s)
{
    const long long late = FAKE_GET(control->late_status);
    if (FAKE_GET(control->no_status))
        return cuvidDecodeStatus_Invalid;
    if (s->state == MAPPED && (late < 0 || s->asked++ < late))
        return cuvidDecodeStatus_InProgress;
    return (cuvidDecodeStatus)s->status;
}

CUresult cuvidGetDecodeStatus(CUvideodecoder hDecoder, int nPicIdx, CUVIDGETDECODESTATUS *pDecodeStatus)
{
    decoder *d;
    ENTER(cuvidGetDecodeStatus, FAKE_CONTEXT, hDecoder, nPicIdx);
    if (!(d = decoder_take(hDecoder, "cuvidGetDecodeStatus")))
        return (CUresult)FAKE_E_HANDLE;
    if (nPicIdx < 0 || nPicIdx >= (int)d->info.ulNumDecodeSurfaces)
        return decoder_give(d, FAKE_E_VALUE);
    if (d->codec == FAKE_AV1)
        return decoder_give(d, FAKE_E_SUPPORT);
    pthread_mutex_lock(&d->lock);
    pDecodeStatus->decodeStatus = status_of(&d->surface[nPicIdx]);
    pthread_mutex_unlock(&d->lock);
    return decoder_give(d, 0);
}

/* With d's lock held: waits for the picture. */
static const char *check_map(decoder *d, int index)
{
    surface *s = index >= 0 && index < (int)d->info.ulNumDecodeSurfaces ? &d->surface[index] : NULL;
    int depth = 0;
    if (!s)
        return "is not one of ulNumDecodeSurfaces";
    if (s->state == EMPTY)
        return "was not submitted";
    if (s->state == MAPPED)
        return "is mapped already";
    if (d->mapped == d->outputs)
        return "finds no output surface: all are mapped";
    for (int i = 0; i < SURFACES; i++)
        depth += d->surface[i].state == QUEUED || d->surface[i].state == DECODED;
    FAKE_ADD(control->map_depth[depth], 1);
    FAKE_ADD(control->map_waits, s->state == QUEUED);
    while (s->state == QUEUED && !lost())
        decoder_wait(d);
    return NULL;
}

/* With d's lock held: the decoded picture into the lowest output surface that is free. */
static CUresult map(decoder *d, int index, CUstream stream, output **out)
{
    output *o;
    transfer *t = malloc(sizeof *t);
    int at = 0, result;
    while (d->output[at]->picture_index >= 0)
        at++;
    o = d->output[at];
    if (!t)
        abort();
    o->stream = stream;
    o->serial = fake_stream_serial(stream);
    *t = (transfer){ o, d->surface[index].picture, stream, NULL };
    if (FAKE_GET(control->wrong_index) && t->from && d->held[index])
        memcpy(t->from, d->held[index], d->g.picture_size);
    else if (FAKE_GET(control->wrong_index) && t->from)
        memset(t->from, 0x11, d->g.picture_size);
    t->fill = FAKE_GET(control->wrong_surface) ? fill_begin(d, index) : NULL;
    FAKE_ADD(o->refs, 1);
    if ((result = fake_stream_push(stream, 0, work_fill, t))) {
        output_drop(o);
        free(t);
        return (CUresult)result;
    }
    d->surface[index].picture = NULL;
    o->picture_index = index;
    d->surface[index].state = MAPPED;
    d->mapped++;
    fake_range_map(o->data, 1);
    FAKE_ADD(control->live_mapped, 1);
    FAKE_ADD(control->maps, 1);
    fake_peak(&control->max_mapped, d->mapped);
    *out = o;
    return CUDA_SUCCESS;
}

CUresult cuvidMapVideoFrame64(CUvideodecoder hDecoder, int nPicIdx, unsigned long long *pDevPtr, unsigned *pPitch,
                              CUVIDPROCPARAMS *pVPP)
{
    decoder *d;
    output *o = NULL;
    const char *wrong;
    CUresult result = (CUresult)FAKE_E_VALUE;
    int refused = fake_enter(FAKE_cuvidMapVideoFrame64, FAKE_CONTEXT, pVPP ? pVPP->output_stream : NULL, hDecoder,
                             nPicIdx);
    if (refused)
        return (CUresult)refused;
    if (!(d = decoder_take_for(hDecoder, "cuvidMapVideoFrame64", nPicIdx)))
        return (CUresult)FAKE_E_HANDLE;
    pthread_mutex_lock(&d->lock);
    if (!pVPP || !pDevPtr || !pPitch)
        fake_violate("cuvidMapVideoFrame64: a NULL pointer");
    else if ((wrong = check_map(d, nPicIdx)))
        fake_violate("cuvidMapVideoFrame64: surface %d %s", nPicIdx, wrong);
    else
        result = lost() ? (CUresult)lost() : map(d, nPicIdx, pVPP->output_stream, &o);
    pthread_mutex_unlock(&d->lock);
    if (o) {
        *pDevPtr = (unsigned long long)(uintptr_t)o->data;
        *pPitch = (unsigned)o->g.pitch;
    }
    return decoder_give(d, (int)result);
}

CUresult cuvidUnmapVideoFrame64(CUvideodecoder hDecoder, unsigned long long DevPtr)
{
    ENTER_RELEASE(after, cuvidUnmapVideoFrame64, FAKE_CONTEXT, hDecoder, DevPtr);
    decoder *d = decoder_take(hDecoder, "cuvidUnmapVideoFrame64");
    output *o = NULL;
    if (!d)
        return (CUresult)FAKE_E_HANDLE;
    for (int i = 0; i < d->outputs; i++)
        if ((unsigned long long)(uintptr_t)d->output[i]->data == DevPtr && d->output[i]->picture_index >= 0)
            o = d->output[i];
    if (!o) {
        fake_violate("cuvidUnmapVideoFrame64: %#llx is not mapped", DevPtr);
        return decoder_give(d, FAKE_E_VALUE);
    }
    pthread_mutex_lock(&d->lock);
    d->surface[o->picture_index].state = EMPTY;
    pthread_mutex_unlock(&d->lock);
    o->picture_index = -1;
    d->mapped--;
    fake_range_map(o->data, 0);
    FAKE_ADD(control->live_mapped, -1);
    FAKE_ADD(control->unmaps, 1);
    FAKE_ADD(o->refs, 1);
    if (o->serial != fake_stream_serial(o->stream) || fake_stream_push(o->stream, o->serial, work_poison, o))
        output_drop(o);
    return decoder_give(d, -after);
}


/* ---- Parsers ----------------------------------------------------------------------------------------------------- */

typedef struct bytes { uint8_t *data; size_t size; } bytes;

typedef struct parser {
    _Atomic int           state, busy;
    CUVIDPARSERPARAMS     params;
    int                   codec, has_format, has_pending;
    unsigned              surfaces, next;
    bytes                 sets[3];      /* the last good VPS, SPS, PPS, all of a packet's */
    bytes                 pending;      /* a packet without CUVID_PKT_ENDOFPICTURE */
    CUVIDEOFORMAT         format;
    AVCodecContext       *context;
    AVCodecParserContext *software;
} parser;

static parser parsers[PARSERS];

/* A parser is made ('C'), is given a packet ('P'), goes ('D'): five numbers of the machine's, then the packet. */
static void record_event(char what, const parser *p, unsigned long flags, const void *data, size_t size)
{
    const uint32_t head[5] = { (uint32_t)what, (uint32_t)(p - parsers), (uint32_t)p->params.CodecType, (uint32_t)flags,
                               (uint32_t)size };
    if (!record)
        return;
    flockfile(record);
    fwrite(head, sizeof head, 1, record);
    if (size)
        fwrite(data, size, 1, record);
    fflush(record);
    funlockfile(record);
}

static void append(bytes *b, const void *data, size_t size)
{
    if (!(b->data = realloc(b->data, b->size + size + AV_INPUT_BUFFER_PADDING_SIZE)))
        abort();
    if (size)
        memcpy(b->data + b->size, data, size);
    b->size += size;
    memset(b->data + b->size, 0, AV_INPUT_BUFFER_PADDING_SIZE);
}

static void append_nal(bytes *b, bytes nal)
{
    append(b, "\0\0\0\1", 4);
    append(b, nal.data, nal.size);
}

static void drop(bytes *b)
{
    free(b->data);
    *b = (bytes){ NULL, 0 };
}

/* The next NAL unit of Annex B data, without start code and zeros behind it. */
static int next_nal(bytes *rest, bytes *nal)
{
    size_t at = 0, end;
    while (at + 3 <= rest->size && (rest->data[at] || rest->data[at + 1] || rest->data[at + 2] != 1))
        at++;
    if (at + 4 > rest->size)
        return 0;
    for (end = at += 3; end < rest->size; end++)
        if (end + 3 <= rest->size && !rest->data[end] && !rest->data[end + 1] && rest->data[end + 2] <= 1)
            break;
    *nal = (bytes){ rest->data + at, end - at };
    *rest = (bytes){ rest->data + end, rest->size - end };
    return 1;
}

/* 0, 1, 2: VPS, SPS, PPS; 3: a slice; 4: something else. */
static int kind_of(int codec, bytes nal)
{
    int type = !nal.size ? 63 : codec == FAKE_HEVC ? nal.data[0] >> 1 & 63 : nal.data[0] & 31;
    if (codec == FAKE_HEVC)
        return type >= 32 && type <= 34 ? type - 32 : type < 32 ? 3 : 4;
    return type == 7 || type == 8 ? type - 6 : type >= 1 && type <= 5 ? 3 : 4;
}

/* Does libavcodec take these parameter sets? Asking takes long, so answers are kept: the last bit of a hash. */
static int is_good(int codec, const bytes *sets, int count)
{
    static _Atomic uint64_t known[1024];
    AVCodecContext *context;
    bytes all = { NULL, 0 };
    uint64_t hash = 0xcbf29ce484222325u + (uint64_t)codec, had;
    int result;
    for (int i = 0; i < count; i++)
        if (sets[i].size)
            append(&all, sets[i].data, sets[i].size);
    for (size_t i = 0; i < all.size; i++)
        hash = (hash ^ all.data[i]) * 0x100000001b3u;
    had = atomic_load_explicit(&known[hash % 1024], memory_order_relaxed);
    if (had && (had | 1) == (hash | 1)) {
        drop(&all);
        return had & 1;
    }
    context = avcodec_alloc_context3(software_of(codec));
    if (!context || !(context->extradata = av_mallocz(all.size + AV_INPUT_BUFFER_PADDING_SIZE)))
        abort();
    memcpy(context->extradata, all.data, all.size);
    context->extradata_size = (int)all.size;
    context->thread_count = 1;
    context->err_recognition = AV_EF_EXPLODE;
    context->log_level_offset = 64;
    result = avcodec_open2(context, NULL, NULL);
    avcodec_free_context(&context);
    drop(&all);
    atomic_store_explicit(&known[hash % 1024], (hash & ~(uint64_t)1) | (result >= 0), memory_order_relaxed);
    return result >= 0;
}

/* Remembers fresh parameter sets where they are good, else the old ones stay. */
static void remember(parser *p, bytes fresh[3])
{
    for (int i = 0; i < 3; i++) {
        bytes old = p->sets[i];
        if (!fresh[i].size || (fresh[i].size == old.size && !memcmp(fresh[i].data, old.data, old.size)))
            continue;
        p->sets[i] = fresh[i];
        if (is_good(p->codec, p->sets, i + 1)) {
            fresh[i] = old;
        } else {
            p->sets[i] = old;
        }
    }
}

/* The packet with the remembered parameter sets in front. *offsets: of slices, *count of them. */
static bytes gather(parser *p, bytes packet, unsigned **offsets, unsigned *count)
{
    bytes unit = { NULL, 0 }, rest = packet, nal, fresh[3] = { { NULL, 0 }, { NULL, 0 }, { NULL, 0 } };
    *count = 0;
    *offsets = malloc(sizeof **offsets * (packet.size / 4 + 1));
    if (!*offsets)
        abort();
    if (p->codec == FAKE_AV1 || p->codec == FAKE_JPEG) {
        append(&unit, packet.data, packet.size);
        (*offsets)[(*count)++] = 0;
        return unit;
    }
    while (next_nal(&rest, &nal))
        if (kind_of(p->codec, nal) < 3)
            append_nal(&fresh[kind_of(p->codec, nal)], nal);
    remember(p, fresh);
    for (int i = 0; i < 3; i++) {
        drop(&fresh[i]);
        append(&unit, p->sets[i].data, p->sets[i].size);
    }
    for (rest = packet; next_nal(&rest, &nal);) {
        if (kind_of(p->codec, nal) == 3)
            (*offsets)[(*count)++] = (unsigned)unit.size;
        if (kind_of(p->codec, nal) >= 3)
            append_nal(&unit, nal);
    }
    return unit;
}

/* A JPEG's size and layout, of 4:2:0 or another, by its frame header: libavcodec's parser does not look at it. */
static void inspect_jpeg(bytes unit, AVCodecParserContext *s)
{
    for (size_t at = 2; at + 19 < unit.size && unit.data[at] == 0xff;) {
        const uint8_t *segment = unit.data + at;
        if (segment[1] == 0xc0) {
            s->height = segment[5] << 8 | segment[6];
            s->width = segment[7] << 8 | segment[8];
            s->format = segment[11] == 0x22 ? AV_PIX_FMT_YUV420P : AV_PIX_FMT_YUV444P;
            return;
        }
        at += 2u + (size_t)(segment[2] << 8 | segment[3]);
    }
}

/* Is an H.264 sequence gray? libavcodec decodes those as 4:2:0. Its high profiles have chroma_format_idc, a code that
 * begins with 1 for gray, behind the number of the SPS. */
static int is_gray(const parser *p)
{
    const uint8_t *sps = p->sets[1].data + 4;
    unsigned zeros = 0, bits;
    if (p->codec != FAKE_H264 || p->sets[1].size < 12 || (sps[1] != 100 && sps[1] != 110 && sps[1] != 122))
        return 0;
    bits = (unsigned)sps[4] << 16 | (unsigned)sps[5] << 8 | sps[6];
    while (zeros < 8 && !(bits >> (23 - zeros) & 1))
        zeros++;
    return bits >> (23 - 2 * zeros - 1) & 1;
}

/* What libavcodec says of the picture; 0: it sees none. */
static int inspect(parser *p, bytes unit, CUVIDEOFORMAT *format)
{
    AVCodecParserContext *s = p->software;
    const AVPixFmtDescriptor *f;
    uint8_t *data;
    int size;
    s->format = -1;
    s->width = s->height = s->coded_width = s->coded_height = 0;
    if (p->codec == FAKE_JPEG)
        inspect_jpeg(unit, s);
    else
        av_parser_parse2(s, p->context, &data, &size, unit.data, (int)unit.size, AV_NOPTS_VALUE, AV_NOPTS_VALUE, 0);
    if (s->width <= 0 || s->height <= 0 || !(f = av_pix_fmt_desc_get(s->format)))
        return 0;
    memset(format, 0, sizeof *format);
    format->codec = p->params.CodecType;
    format->frame_rate.numerator = 25;
    format->frame_rate.denominator = 1;
    format->progressive_sequence = 1;
    format->bit_depth_luma_minus8 = (unsigned char)(f->comp[0].depth - 8);
    format->bit_depth_chroma_minus8 = (unsigned char)(f->nb_components > 1 ? f->comp[1].depth - 8 : 0);
    format->min_num_decode_surfaces = (unsigned char)FAKE_GET(control->min_surfaces);
    format->coded_width = (unsigned)coded_size(p->codec, s->coded_width ? s->coded_width : s->width);
    format->coded_height = (unsigned)coded_size(p->codec, s->coded_height ? s->coded_height : s->height);
    format->coded_width += FAKE_GET(control->wrong_parser) == 1 ? 80 : 0;
    format->display_area.right = s->width;
    format->display_area.bottom = s->height;
    format->chroma_format = f->nb_components == 1 || is_gray(p) ? cudaVideoChromaFormat_Monochrome :
                            f->log2_chroma_h                    ? cudaVideoChromaFormat_420 :
                            f->log2_chroma_w                    ? cudaVideoChromaFormat_422 :
                                                                  cudaVideoChromaFormat_444;
    format->display_aspect_ratio.x = s->width;
    format->display_aspect_ratio.y = s->height;
    format->video_signal_description.video_format = 5;
    format->video_signal_description.color_primaries = format->video_signal_description.transfer_characteristics = 2;
    format->video_signal_description.matrix_coefficients = 2;
    return 1;
}

static void poison(void *data, size_t size)
{
    if (FAKE_GET(control->poison))
        memset(data, 0x5a, size);
}

/* 0: the callback failed. */
static int call_sequence(parser *p, const CUVIDEOFORMAT *format)
{
    CUVIDEOFORMAT copy = *format;
    int result;
    if (p->has_format && !memcmp(&p->format, format, sizeof *format))
        return 1;
    p->format = *format;
    if (FAKE_GET(control->wrong_parser) == 2) {
        p->surfaces = (unsigned)FAKE_GET(control->min_surfaces);
        return 1;
    }
    in_sequence = 1;
    result = p->params.pfnSequenceCallback ? p->params.pfnSequenceCallback(p->params.pUserData, &copy) : 1;
    in_sequence = 0;
    poison(&copy, sizeof copy);
    p->has_format = result > 0;
    if (result > 1) {
        p->surfaces = (unsigned)result;
        p->next %= p->surfaces;
    }
    return result > 0;
}

static int call_picture(parser *p, bytes unit, unsigned *offsets, unsigned count)
{
    CUVIDPICPARAMS *pic = calloc(1, sizeof *pic);
    long long mode = FAKE_GET(control->parser_index);
    int result = 1;
    if (!pic)
        abort();
    pic->PicWidthInMbs = (int)(p->format.coded_width + 15) / 16;
    pic->FrameHeightInMbs = (int)(p->format.coded_height + 15) / 16;
    pic->CurrPicIdx = mode == FAKE_INDEX_ZERO ?
                          0 :
                          (int)(mode == FAKE_INDEX_RANDOM ? fake_random() % p->surfaces : p->next);
    pic->nBitstreamDataLen = (unsigned)unit.size;
    pic->pBitstreamData = unit.data;
    pic->nNumSlices = count;
    pic->pSliceDataOffsets = offsets;
    pic->ref_pic_flag = 1;
    pic->field_pic_flag = FAKE_GET(control->wrong_parser) == 3;
    pic->intra_pic_flag = p->software->pict_type != AV_PICTURE_TYPE_P && p->software->pict_type != AV_PICTURE_TYPE_B;
    if (p->codec == FAKE_HEVC) {
        pic->CodecSpecific.hevc.pic_width_in_luma_samples = (int)p->format.coded_width;
        pic->CodecSpecific.hevc.pic_height_in_luma_samples = (int)p->format.coded_height;
        pic->CodecSpecific.hevc.bit_depth_luma_minus8 = p->format.bit_depth_luma_minus8;
        pic->CodecSpecific.hevc.bit_depth_chroma_minus8 = p->format.bit_depth_chroma_minus8;
        pic->CodecSpecific.hevc.IrapPicFlag = pic->CodecSpecific.hevc.IdrPicFlag = (unsigned char)pic->intra_pic_flag;
    }
    if (p->codec == FAKE_AV1)
        pic->CodecSpecific.av1.apply_grain = FAKE_GET(control->wrong_parser) == 4;
    p->next = (p->next + 1) % p->surfaces;
    parser_named = pic->CurrPicIdx;
    if (p->params.pfnDecodePicture)
        result = p->params.pfnDecodePicture(p->params.pUserData, pic) > 0;
    if (result && p->params.pfnDisplayPicture) {
        CUVIDPARSERDISPINFO display = { pic->CurrPicIdx, 1, 0, 0, 0 };
        result = p->params.pfnDisplayPicture(p->params.pUserData, &display) > 0;
    }
    poison(pic, sizeof *pic);
    free(pic);
    return result;
}

static int parse(parser *p, bytes packet)
{
    CUVIDEOFORMAT format;
    unsigned *offsets, count;
    bytes unit = gather(p, packet, &offsets, &count);
    int result = 1;
    if (count && inspect(p, unit, &format))
        result = call_sequence(p, &format) && call_picture(p, unit, offsets, count);
    poison(unit.data, unit.size);
    poison(offsets, sizeof *offsets * count);
    free(offsets);
    drop(&unit);
    return result;
}

CUresult cuvidCreateVideoParser(CUvideoparser *pObj, CUVIDPARSERPARAMS *pParams)
{
    parser *p = parsers;
    int codec = codec_of(pParams->CodecType);
    ENTER(cuvidCreateVideoParser, 0, NULL, pParams->CodecType);
    if (codec < 0 || !software_of(codec))
        return (CUresult)FAKE_E_SUPPORT;
    if (pParams->ulMaxNumDecodeSurfaces > SURFACES || pParams->ulErrorThreshold > 100) {
        fake_violate("cuvidCreateVideoParser: ulMaxNumDecodeSurfaces %u, ulErrorThreshold %u",
                     pParams->ulMaxNumDecodeSurfaces, pParams->ulErrorThreshold);
        return (CUresult)FAKE_E_VALUE;
    }
    while (p < parsers + PARSERS && !claim(&p->state))
        p++;
    if (p == parsers + PARSERS)
        return (CUresult)FAKE_E_MEMORY;
    p->params = *pParams;
    p->codec = codec;
    p->has_format = p->has_pending = 0;
    p->next = 0;
    p->surfaces = pParams->ulMaxNumDecodeSurfaces ? pParams->ulMaxNumDecodeSurfaces : 1;
    p->context = avcodec_alloc_context3(software_of(codec));
    p->software = software_parser_of(codec);
    if (!p->context || !p->software)
        abort();
    p->context->log_level_offset = 64;
    p->software->flags |= PARSER_FLAG_COMPLETE_FRAMES;
    FAKE_ADD(control->live_parsers, 1);
    FAKE_ADD(control->parser_creates, 1);
    record_event('C', p, 0, NULL, 0);
    settle(&p->state, ALIVE);
    *pObj = p;
    return CUDA_SUCCESS;
}

static parser *parser_take(CUvideoparser handle, const char *function)
{
    parser *p = handle;
    if (!IN_TABLE(p, parsers, PARSERS) || atomic_load_explicit(&p->state, memory_order_relaxed) != ALIVE)
        fake_violate("%s: not a parser, or one that was destroyed", function);
    else if (atomic_exchange_explicit(&p->busy, 1, memory_order_acquire))
        fake_violate("%s: the parser is in use, by another thread or below in a callback", function);
    else
        return p;
    return NULL;
}

CUresult cuvidParseVideoData(CUvideoparser obj, CUVIDSOURCEDATAPACKET *pPacket)
{
    parser *p;
    int good = 1;
    bytes packet;
    ENTER(cuvidParseVideoData, 0, NULL, pPacket ? pPacket->payload_size : 0);
    if (!(p = parser_take(obj, "cuvidParseVideoData")))
        return (CUresult)FAKE_E_VALUE;
    packet = pPacket && pPacket->payload ? (bytes){ (uint8_t *)(uintptr_t)pPacket->payload, pPacket->payload_size } :
                                           (bytes){ NULL, 0 };
    record_event('P', p, pPacket ? pPacket->flags : 0, packet.data, packet.size);
    if (p->has_pending) {
        good = parse(p, p->pending);
        drop(&p->pending);
        p->has_pending = 0;
    }
    if (packet.size && (pPacket->flags & (CUVID_PKT_ENDOFPICTURE | CUVID_PKT_ENDOFSTREAM))) {
        good = parse(p, packet) && good;
    } else if (packet.size) {
        append(&p->pending, packet.data, packet.size);
        p->has_pending = 1;
    }
    atomic_store_explicit(&p->busy, 0, memory_order_release);
    return !good && FAKE_GET(control->parser_propagates) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

CUresult cuvidDestroyVideoParser(CUvideoparser obj)
{
    ENTER_RELEASE(after, cuvidDestroyVideoParser, 0, NULL, (intptr_t)obj);
    parser *p = parser_take(obj, "cuvidDestroyVideoParser");
    if (!p)
        return (CUresult)FAKE_E_VALUE;
    for (int i = 0; i < 3; i++)
        drop(&p->sets[i]);
    drop(&p->pending);
    record_event('D', p, 0, NULL, 0);
    av_parser_close(p->software);
    avcodec_free_context(&p->context);
    FAKE_ADD(control->live_parsers, -1);
    FAKE_ADD(control->parser_destroys, 1);
    atomic_store_explicit(&p->busy, 0, memory_order_release);
    settle(&p->state, FREE);
    return (CUresult)-after;
}
