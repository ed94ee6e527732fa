/* selftest.c - shows that the fakes decode, wait, fail and complain as fake.h says, by using them as a careful caller
 * would, and then less so. From the repository's root, after make:
 *
 *     sh tests/fake/build.sh build/tests/fake gcc
 * gcc -std=c11 -O1 -g -ffp-contract=off -I. -o build/tests/fake_selftest tests/fake/selftest.c
 * build/tests/fake/libcuda.so.1 \
 * build/tests/fake/libnvcuvid.so.1 -Wl,--disable-new-dtags,-rpath,'$ORIGIN/fake' build/libbenzina.a $(pkg-config --libs
 * libavcodec libavutil) -lm -lpthread
 *     build/tests/fake_selftest build/tests/fake */
#define _GNU_SOURCE
#include "benzina.h"
#include "../../benzina_kernels.cu"
#include "../unit/test.h"
#include "../unit/known.h"
#define FAKE_INTERNAL       /* for its CUresult */
#include "fake.h"
#include <ffnvcodec/dynlink_nvcuvid.h>
#include <libavcodec/avcodec.h>
#include <libavutil/pixdesc.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __has_feature
#  if __has_feature(thread_sanitizer)
#    define UNDER_TSAN 1
#  endif
#endif
#if defined(__SANITIZE_THREAD__) && !defined(UNDER_TSAN)
#  define UNDER_TSAN 1
#endif
#ifndef UNDER_TSAN
#  define UNDER_TSAN 0      /* 1: leave out what TSan would report, as it does if this is 0 */
#endif

#define DECLARE(name) t##name name;
#define EACH(X) X(cuInit) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute) \
    X(cuDevicePrimaryCtxRetain) \
    X(cuDevicePrimaryCtxRelease) X(cuCtxPushCurrent_v2) X(cuCtxPopCurrent_v2) X(cuCtxGetDevice) X(cuCtxCreate_v2) \
        X(cuCtxDestroy_v2) X(cuMemAlloc_v2) \
    X(cuMemFree_v2) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyDtoHAsync_v2) X(cuMemcpyDtoH_v2) X(cuStreamCreate) \
        X(cuStreamDestroy_v2) \
    X(cuStreamQuery) X(cuStreamSynchronize) X(cuEventCreate) X(cuEventDestroy_v2) X(cuEventRecord) \
        X(cuEventSynchronize) X(cuEventQuery) X(cuModuleLoadData) \
    X(cuModuleUnload) X(cuModuleGetFunction) X(cuLaunchKernel) X(cuGetErrorName) X(cuvidGetDecoderCaps) \
        X(cuvidCreateDecoder) \
    X(cuvidDestroyDecoder) X(cuvidReconfigureDecoder) X(cuvidDecodePicture) X(cuvidGetDecodeStatus) \
        X(cuvidMapVideoFrame64) \
    X(cuvidUnmapVideoFrame64) X(cuvidCreateVideoParser) X(cuvidParseVideoData) X(cuvidDestroyVideoParser)
EACH(DECLARE)
CUresult cuDriverGetVersion(int *version);
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
CUresult cuMemHostAlloc(void **pp, size_t size, unsigned flags);
CUresult cuMemFreeHost(void *p);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);

#define OK(call) CHECK_EQ(call, 0)
#define PTX "// a comment\n.version 5.0\n.visible .entry bzi_kernel_warp_any()\n"

static const fake_interface *fake;
static fake_control *control;
static const char *fake_folder;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}


/* ---- Pictures and what libavcodec makes of them ------------------------------------------------------------------ */

typedef struct sample {
    cudaVideoCodec codec;
    uint8_t       *data;
    size_t         size;
    char           md5[64];
    /* The coded frame as a surface has it, rows one behind the other. */
    int            width, height, depth, planes;
    uint8_t       *pixels;
    size_t         pixels_size;
} sample;

static sample samples[64];
static int sample_count;

static void reference_pixels(sample *s, const AVFrame *frame)
{
    const AVPixFmtDescriptor *f = av_pix_fmt_desc_get(frame->format);
    int bytes = f->comp[0].depth > 8 ? 2 : 1;
    uint8_t *to;
    s->width = frame->width;
    s->height = frame->height;
    s->depth = f->comp[0].depth;
    s->planes = f->log2_chroma_w ? 2 : 3;
    s->pixels = to = malloc((size_t)(s->width + 1) * (size_t)(s->height + 1) * 3 * (size_t)bytes);
    for (int p = 0; p < s->planes; p++) {
        int half = s->planes == 2 && p, width = half ? (s->width + 1) / 2 : s->width,
            height = half ? (s->height + 1) / 2 : s->height;
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++)
                for (int c = 0; c < 1 + half; c++, to += bytes) {
                    const uint8_t *from = frame->data[p + c] + (ptrdiff_t)y * frame->linesize[p + c] + x * bytes;
                    unsigned v = bytes == 1 ? *from : (from[0] | (unsigned)from[1] << 8) << (16 - s->depth);
                    to[0] = (uint8_t)v;
                    if (bytes == 2)
                        to[1] = (uint8_t)(v >> 8);
                }
    }
    s->pixels_size = (size_t)(to - s->pixels);
}

static int reference_decode(sample *s)
{
    const AVCodec *codec = s->codec == cudaVideoCodec_AV1 ? avcodec_find_decoder_by_name("libdav1d")
                         : avcodec_find_decoder(s->codec == cudaVideoCodec_HEVC ? AV_CODEC_ID_HEVC : AV_CODEC_ID_H264);
    AVCodecContext *context = codec ? avcodec_alloc_context3(codec) : NULL;
    AVPacket *packet = av_packet_alloc();
    AVFrame *frame = av_frame_alloc();
    int good = 0;
    if (context) {
        context->thread_count = 1;
        context->apply_cropping = 0;
        context->log_level_offset = 64;
        av_new_packet(packet, (int)s->size);
        memcpy(packet->data, s->data, s->size);
        good = avcodec_open2(context, NULL, NULL) >= 0 && avcodec_send_packet(context, packet) >= 0 &&
               avcodec_send_packet(context, NULL) >= 0 && avcodec_receive_frame(context, frame) >= 0;
        if (good)
            reference_pixels(s, frame);
    }
    avcodec_free_context(&context);
    av_packet_free(&packet);
    av_frame_free(&frame);
    return good;
}

static void load_archive(int a)
{
    bzna_context *context;
    bzna_dataset *dataset;
    static uint8_t buffer[1 << 20];
    if (bzna_context_open(NULL, &context, NULL) || bzna_dataset_open(context, archives[a], NULL, &dataset, NULL))
        exit(1);
    for (int i = 0; i < known[a].count; i++)
        for (int m = 0; m < known[a].samples[i].image_count; m++) {
            sample *s = &samples[sample_count];
            bzna_image image = { 0 };
            size_t needed;
            image.struct_size = sizeof image;
            if (bzna_dataset_read_image(dataset, (uint64_t)i, known[a].samples[i].images[m].name, buffer, sizeof buffer,
                                        &image, NULL))
                exit(1);
            s->codec = image.codec == BZNA_CODEC_H265 ? cudaVideoCodec_HEVC : cudaVideoCodec_H264;
            s->data = malloc(1 << 20);
            bzna_image_annexb(&image, s->data, 1 << 20, &needed, NULL);
            s->size = needed;
            s->data = realloc(s->data, needed);         /* exactly: ASan sees who reads beyond */
            memcpy(s->md5, known[a].samples[i].images[m].md5, sizeof s->md5);
            sample_count += reference_decode(s);
        }
    bzna_dataset_close(dataset);
    bzna_context_close(context);
}

/* MD5 of the reference as the archives' lists have it: planar. */
static void planar_md5(const sample *s, char text[33])
{
    struct AVMD5 *md5 = av_md5_alloc();
    size_t luma = (size_t)(s->width * s->height);
    uint8_t sum[16], *plane = malloc(luma);
    av_md5_init(md5);
    av_md5_update(md5, s->pixels, luma);
    for (size_t c = 0; c < 2; c++) {
        for (size_t i = 0; i < luma / 4; i++)
            plane[i] = s->pixels[luma + 2 * i + c];
        av_md5_update(md5, plane, luma / 4);
    }
    av_md5_final(md5, sum);
    free(plane);
    av_free(md5);
    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * i, 3, "%02x", sum[i]);
}

/* A drawn picture in another format, if the ffmpeg program can make it. */
static int make_sample(sample *s, cudaVideoCodec codec, const char *size, const char *pixels, const char *encoder,
                       const char *format)
{
    char command[512], path[128];
    memset(s, 0, sizeof *s);
    snprintf(path, sizeof path, "%s/sample.%d.bin", fake_folder, (int)getpid());
    snprintf(command, sizeof command,
             "ffmpeg -v quiet -y -f lavfi -i testsrc2=s=%s -frames:v 1 -pix_fmt %s -c:v %s -f %s %s </dev/null "
             ">/dev/null 2>&1",
             size, pixels, encoder, format, path);
    s->codec = codec;
    if (!system(command))
        s->data = slurp(path, &s->size);
    remove(path);
    if (s->data && reference_decode(s))
        return 1;
    free(s->data);
    return 0;
}

static void free_sample(sample *s)
{
    free(s->data);
    free(s->pixels);
}


/* ---- A careful caller -------------------------------------------------------------------------------------------- */

enum { SURFACE_COUNT = 8, MAPPED_MAX = 4, DEPTH = 4, OUT = 24 };

typedef struct session {
    CUstream        stream;
    CUvideodecoder  decoder;
    CUvideoparser   parser;
    CUfunction      kernel;
    CUVIDDECODECREATEINFO info;
    int             sequences, pictures, failed, spoiled;
    CUresult        error;
    /* Submitted, oldest first; which sample, which surface. */
    int             first, count, index[SURFACE_COUNT], which[SURFACE_COUNT], current;
    /* Mapped, not yet launched. */
    int             mapped;
    unsigned long long address[MAPPED_MAX];
    unsigned        pitch[MAPPED_MAX];
    int             what[MAPPED_MAX];
    uint64_t        batch;          /* device: a slot for each sample */
    uint8_t       **raw;            /* or pinned: whole surfaces are copied there */
    unsigned       *raw_pitch;
} session;

static void launch(session *s);

static void map_oldest(session *s)
{
    CUVIDPROCPARAMS params = { 0 };
    CUVIDGETDECODESTATUS status = { 0 };
    CUresult result;
    int index = s->index[s->first], what = s->which[s->first];
    params.progressive_frame = 1;
    params.output_stream = s->stream;
    s->first = (s->first + 1) % SURFACE_COUNT;
    s->count--;
    if ((result = cuvidMapVideoFrame64(s->decoder, index, &s->address[s->mapped], &s->pitch[s->mapped], &params))) {
        s->error = result;
        return;
    }
    if (s->info.CodecType != cudaVideoCodec_AV1) {
        cuvidGetDecodeStatus(s->decoder, index, &status);
        s->spoiled += status.decodeStatus != cuvidDecodeStatus_Success;
    }
    s->what[s->mapped++] = what;
    if (s->mapped == MAPPED_MAX || !s->count)
        launch(s);
}

static bzi_kernel_slot slot_of(const sample *p)
{
    bzi_kernel_slot slot;
    memset(&slot, 0, sizeof slot);
    for (int i = 0; i < 3; i++)
        slot.step[i] = (p->depth > 8 ? 2 : 1) * (p->planes == 2 && i ? 2 : 1);
    slot.x1 = p->width - 1;
    slot.y1 = p->height - 1;
    slot.shift_x = slot.shift_y = p->planes == 2;
    slot.depth = p->depth;
    slot.low_zeros = p->depth > 8 ? 16 - p->depth : 0;
    slot.h[0] = (float)p->width / OUT;
    slot.h[4] = (float)p->height / OUT;
    slot.h[8] = 1.0f;
    bzi_kernel_rgb_matrix(0.299, 0.114, 1, p->depth, slot.rgb);
    for (int i = 0; i < 3; i++) {
        slot.color[i * 5] = 1.0f;
        slot.scale[i] = 1.0f;
    }
    return slot;
}

static void slot_planes(bzi_kernel_slot *slot, const sample *p, uint64_t base, unsigned pitch, int rows)
{
    uint64_t chroma = (uint64_t)pitch * (uint64_t)rows;
    slot->plane[0] = base;
    slot->plane[1] = base + chroma;
    slot->plane[2] = p->planes == 2 ? base + chroma + (p->depth > 8 ? 2 : 1) : base + 2 * chroma;
    for (int i = 0; i < 3; i++)
        slot->pitch[i] = (int32_t)pitch;
}

/* Of luma, in a surface. */
static int surface_rows(const sample *p)
{
    return p->codec == cudaVideoCodec_HEVC ? (p->height + 15) / 16 * 16 : (p->height + 1) / 2 * 2;
}

static const bzi_kernel_output output = {
    .width = OUT, .height = OUT, .stride_c = OUT * OUT, .stride_y = OUT, .stride_x = 1, .channels = 3
};

/* One launch for what is mapped, then the surfaces are given back. */
static void launch(session *s)
{
    bzi_kernel_slots slots;
    bzi_kernel_output out = output;
    void *params[2] = { &slots, &out };
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < s->mapped; i++) {
        const sample *p = &samples[s->what[i]];
        int high = surface_rows(p);
        slots.slot[i] = slot_of(p);
        slot_planes(&slots.slot[i], p, s->address[i], s->pitch[i], high);
        slots.slot[i].dst = s->batch + (uint64_t)s->what[i] * 3 * OUT * OUT * sizeof(float);
        if (s->raw) {
            size_t size = s->pitch[i] * (size_t)(p->planes == 2 ? high + high / 2 : 3 * high);
            s->raw_pitch[s->what[i]] = s->pitch[i];
            OK(cuMemHostAlloc((void **)&s->raw[s->what[i]], size, 0));
            OK(cuMemcpyDtoHAsync_v2(s->raw[s->what[i]], s->address[i], size, s->stream));
        }
    }
    if (s->mapped && s->batch)
        result = cuLaunchKernel(s->kernel, 1, 1, (unsigned)s->mapped, 16, 16, 1, 0, s->stream, params, NULL);
    while (s->mapped) {
        CUresult unmapped = cuvidUnmapVideoFrame64(s->decoder, s->address[--s->mapped]);
        result = result ? result : unmapped;
    }
    if (result)
        s->error = result;
}

static void drain(session *s)
{
    while (s->count && !s->error)
        map_oldest(s);
    launch(s);
}

static int on_sequence(void *user, CUVIDEOFORMAT *f)
{
    session *s = user;
    CUVIDDECODECREATEINFO *c = &s->info;
    s->sequences++;
    drain(s);
    if (s->decoder && cuvidDestroyDecoder(s->decoder))
        s->failed++;
    s->decoder = NULL;
    memset(c, 0, sizeof *c);
    c->CodecType = f->codec;
    c->ChromaFormat = f->chroma_format;
    c->bitDepthMinus8 = f->bit_depth_luma_minus8;
    c->ulWidth = c->ulTargetWidth = f->coded_width;
    c->ulHeight = c->ulTargetHeight = f->coded_height;
    c->ulMaxWidth = c->ulWidth;
    c->ulMaxHeight = c->ulHeight;
    c->ulNumDecodeSurfaces = SURFACE_COUNT;
    c->ulNumOutputSurfaces = MAPPED_MAX;
    c->ulIntraDecodeOnly = 1;
    c->OutputFormat = f->chroma_format == cudaVideoChromaFormat_444 ? f->bit_depth_luma_minus8 ?
                                                                      cudaVideoSurfaceFormat_YUV444_16Bit :
                                                                      cudaVideoSurfaceFormat_YUV444 :
                      f->bit_depth_luma_minus8                      ? cudaVideoSurfaceFormat_P016 :
                                                                      cudaVideoSurfaceFormat_NV12;
    if (s->error || (s->error = cuvidCreateDecoder(&s->decoder, c))) {
        s->decoder = NULL;
        return 0;
    }
    return SURFACE_COUNT;
}

static int on_picture(void *user, CUVIDPICPARAMS *pic)
{
    session *s = user;
    for (int again = 1; again && !s->error;) {          /* the parser's surface may still be in use */
        again = s->count >= DEPTH;
        for (int i = 0; i < s->count; i++)
            again = again || s->index[(s->first + i) % SURFACE_COUNT] == pic->CurrPicIdx;
        if (again)
            map_oldest(s);
    }
    launch(s);
    if (s->error || (s->error = cuvidDecodePicture(s->decoder, pic)))
        return 0;
    s->index[(s->first + s->count) % SURFACE_COUNT] = pic->CurrPicIdx;
    s->which[(s->first + s->count) % SURFACE_COUNT] = s->current;
    s->count++;
    s->pictures++;
    return 1;
}

static CUresult make_parser(session *s, cudaVideoCodec codec)
{
    CUVIDPARSERPARAMS p;
    memset(&p, 0, sizeof p);
    p.CodecType = codec;
    p.ulMaxNumDecodeSurfaces = 1;
    p.pUserData = s;
    p.pfnSequenceCallback = on_sequence;
    p.pfnDecodePicture = on_picture;
    return cuvidCreateVideoParser(&s->parser, &p);
}

static void feed_flags(session *s, const sample *p, int which, tcu_ulong flags)
{
    CUVIDSOURCEDATAPACKET packet = { flags, p->size, malloc(p->size), 0 };
    s->current = which;
    memcpy((void *)(uintptr_t)packet.payload, p->data, p->size);
    if (cuvidParseVideoData(s->parser, &packet))
        s->failed++;
    free((void *)(uintptr_t)packet.payload);        /* at once: who reads it later is seen */
}

static void feed(session *s, const sample *p, int which) { feed_flags(s, p, which, CUVID_PKT_ENDOFPICTURE); }

static void session_close(session *s)
{
    while (s->mapped)
        cuvidUnmapVideoFrame64(s->decoder, s->address[--s->mapped]);
    if (s->parser)
        cuvidDestroyVideoParser(s->parser);
    if (s->decoder)
        cuvidDestroyDecoder(s->decoder);
    if (s->stream)
        cuStreamDestroy_v2(s->stream);
    memset(s, 0, sizeof *s);
}

typedef struct device { CUcontext context; CUmodule module; CUfunction kernel; } device;

static device device_open(void)
{
    device d = { NULL, NULL, NULL };
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&d.context, 0));
    OK(cuCtxPushCurrent_v2(d.context));
    OK(cuModuleLoadData(&d.module, PTX));
    OK(cuModuleGetFunction(&d.kernel, d.module, "bzi_kernel_warp_any"));
    return d;
}

static void device_close(device *d)
{
    CUcontext c;
    cuModuleUnload(d->module);
    cuCtxPopCurrent_v2(&c);
    cuDevicePrimaryCtxRelease(0);
}

static void session_open(session *s, const device *d, cudaVideoCodec codec)
{
    memset(s, 0, sizeof *s);
    s->kernel = d->kernel;
    s->error = cuStreamCreate(&s->stream, CU_STREAM_NON_BLOCKING);
    if (!s->error)
        s->error = make_parser(s, codec);
}

/* Nothing left; and nothing wrong, or n things, the first of them this. Then the defaults again. */
static void check_end(long long n, const char *violation)
{
    CHECK_EQ(control->violations, n);
    if (n)
        CHECK_CONTAINS(fake->violation(), violation);
    else if (fake->violation())
        CHECK_STR(fake->violation(), "");
    if (fake->leaks())
        CHECK_STR(fake->leaks(), "");
    fake->reset();
}
#define END() check_end(0, NULL)
#define END_VIOLATION(n, text) check_end(n, text)

/* Does a whole surface, as it was copied, show the sample? */
static int shows(const sample *p, const uint8_t *raw, unsigned pitch)
{
    const uint8_t *want = p->pixels;
    int bytes = p->depth > 8 ? 2 : 1, high = surface_rows(p);
    if (!raw)
        return 0;
    for (int i = 0; i < p->planes; i++) {
        int half = p->planes == 2 && i, rows = half ? (p->height + 1) / 2 : p->height;
        size_t row = (size_t)((half ? (p->width + 1) / 2 * 2 : p->width) * bytes);
        for (int y = 0; y < rows; y++, want += row)
            if (memcmp(want, raw + (size_t)pitch * (size_t)(high * i + y), row))
                return 0;
    }
    return 1;
}

static void expected(const sample *p, float *out)
{
    bzi_kernel_slot slot = slot_of(p);
    slot_planes(&slot, p, (uint64_t)(uintptr_t)p->pixels, (unsigned)(p->width * (p->depth > 8 ? 2 : 1)), p->height);
    slot.dst = (uint64_t)(uintptr_t)out;
    bzi_kernel_warp_plain(&slot, &output);
}


/* ---- What works -------------------------------------------------------------------------------------------------- */

TEST(every_picture_of_the_archives_is_decoded_to_the_frame_of_libavcodec)
{
    device d = device_open();
    uint8_t *raw[64] = { NULL };
    unsigned pitch[64];
    char md5[33];
    CHECK(sample_count > 20);
    for (int a = 0; a < 2; a++) {
        session s;
        session_open(&s, &d, a ? cudaVideoCodec_H264 : cudaVideoCodec_HEVC);
        s.raw = raw;
        s.raw_pitch = pitch;
        for (int i = 0; i < sample_count; i++)
            if (samples[i].codec == (a ? cudaVideoCodec_H264 : cudaVideoCodec_HEVC))
                feed(&s, &samples[i], i);
        drain(&s);
        OK(cuStreamSynchronize(s.stream));
        CHECK(s.sequences > 0);
        CHECK_EQ(s.error, 0);
        CHECK_EQ(s.spoiled, 0);
        session_close(&s);
    }
    for (int i = 0; i < sample_count; i++) {
        planar_md5(&samples[i], md5);
        CHECK_STR(samples[i].md5, md5);
        CHECK(shows(&samples[i], raw[i], pitch[i]));
        OK(cuMemFreeHost(raw[i]));
    }
    CHECK_EQ(control->decodes, sample_count);
    CHECK_EQ(control->maps, control->unmaps);
    CHECK_EQ(control->pageable_copies, 0);
    CHECK(control->max_queued <= 4 && control->max_mapped <= MAPPED_MAX);
    CHECK(control->map_depth[DEPTH] > 10);
    device_close(&d);
    END();
}

/* One picture of any format through all that there is. */
static void check_format(sample *p)
{
    device d = device_open();
    session s;
    uint8_t *raw[64] = { NULL };
    unsigned pitch[64];
    sample saved = samples[0];
    session_open(&s, &d, p->codec);
    s.raw = raw;
    s.raw_pitch = pitch;
    samples[0] = *p;
    feed(&s, p, 0);
    drain(&s);
    OK(cuStreamSynchronize(s.stream));
    CHECK_EQ(s.error, 0);
    CHECK_EQ(s.spoiled, 0);
    CHECK(shows(p, raw[0], pitch[0]));
    if (raw[0])
        OK(cuMemFreeHost(raw[0]));
    samples[0] = saved;
    session_close(&s);
    device_close(&d);
    free_sample(p);
    END();
}

TEST(ten_and_twelve_bits_and_444_come_as_p016_and_planes)
{
    static const char *const formats[] = { "yuv420p10le", "yuv420p12le", "yuv444p", "yuv444p10le", "yuv444p12le" };
    sample p;
    for (int i = 0; i < 5; i++) {
        if (!make_sample(&p, cudaVideoCodec_HEVC, "200x152", formats[i], "libx265 -x265-params log-level=none", "hevc"))
            SKIP("no ffmpeg program with libx265 [ffmpeg]");
        CHECK_EQ(p.planes, i < 2 ? 2 : 3);
        check_format(&p);
    }
}

TEST(av1_is_decoded_where_it_is_allowed)
{
    sample p;
    if (!make_sample(&p, cudaVideoCodec_AV1, "200x152", "yuv420p", "libaom-av1 -cpu-used 8", "obu"))
        SKIP("no ffmpeg program with libaom, or no libdav1d");
    control->caps[FAKE_AV1].chroma_mask = 2;
    check_format(&p);
}

typedef struct thread_job { device *d; int first, step, rounds; CUevent event; uint64_t batch; session s; } thread_job;

static void *session_thread(void *argument)
{
    thread_job *j = argument;
    cuCtxPushCurrent_v2(j->d->context);
    session_open(&j->s, j->d, cudaVideoCodec_HEVC);
    j->s.batch = j->batch;
    for (int r = 0; r < j->rounds && !j->s.error; r++)
        for (int i = j->first; i < sample_count; i += j->step)
            if (samples[i].codec == cudaVideoCodec_HEVC && !j->s.error)
                feed(&j->s, &samples[i], i);
    drain(&j->s);
    j->s.error = j->s.error ? j->s.error : cuEventRecord(j->event, j->s.stream);
    cuCtxPopCurrent_v2(NULL);
    return NULL;
}

/* The threads have ended, which is how the decoders may now be closed here. */
static void run_sessions(device *d, thread_job *jobs, int n, uint64_t batch, int rounds)
{
    pthread_t threads[16];
    for (int i = 0; i < n; i++) {           /* all events before any thread, which may lose the device */
        memset(&jobs[i], 0, sizeof jobs[i]);
        jobs[i].d = d;
        jobs[i].first = i % 14;
        jobs[i].step = 14;
        jobs[i].rounds = rounds;
        jobs[i].batch = batch;
        OK(cuEventCreate(&jobs[i].event, CU_EVENT_DISABLE_TIMING));
    }
    for (int i = 0; i < n; i++)
        pthread_create(&threads[i], NULL, session_thread, &jobs[i]);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

TEST(fourteen_sessions_with_delays_fill_every_slot_right)
{
    size_t slot = 3 * OUT * OUT * sizeof(float), size = slot * (size_t)sample_count;
    float *host, want[3 * OUT * OUT];
    CUdeviceptr batch;
    CUstream consumer;
    thread_job jobs[14];
    for (int mode = 0; mode < 3; mode++) {
        device d = device_open();
        control->parser_index = mode;
        control->seed = 7 + mode;
        control->any_thread = 1;
        control->stream_delay_us = 3000;
        control->engine_us = control->engine_delay_us = 3000;
        control->call_delay_us = 300;
        OK(cuMemAlloc_v2(&batch, size));
        OK(cuMemHostAlloc((void **)&host, size, 0));
        OK(cuStreamCreate(&consumer, CU_STREAM_NON_BLOCKING));
        run_sessions(&d, jobs, 14, batch, 2);
        for (int i = 0; i < 14; i++)
            OK(cuStreamWaitEvent(consumer, jobs[i].event, 0));
        OK(cuMemcpyDtoHAsync_v2(host, batch, size, consumer));
        OK(cuStreamSynchronize(consumer));
        for (int i = 0; i < sample_count; i++)
            if (samples[i].codec == cudaVideoCodec_HEVC) {
                expected(&samples[i], want);
                CHECK(!memcmp(host + (size_t)i * 3 * OUT * OUT, want, sizeof want));
            }
        CHECK(control->max_busy_decoders > 7);
        CHECK(control->max_busy_engines > 3 && control->max_busy_engines <= 7);
        CHECK_EQ(control->slots, control->maps);
        for (int i = 0; i < 14; i++) {
            CHECK_EQ(jobs[i].s.error, 0);
            OK(cuEventDestroy_v2(jobs[i].event));
            session_close(&jobs[i].s);
        }
        OK(cuStreamDestroy_v2(consumer));
        CHECK_EQ(control->busy_streams_destroyed, 0);
        OK(cuMemFree_v2(batch));
        OK(cuMemFreeHost(host));
        device_close(&d);
        END();
    }
}

TEST(streams_and_events_are_ordered_as_cuda_orders_them)
{
    device d = device_open();
    CUstream a, b;
    CUevent never, event;
    CUdeviceptr block;
    int *host;
    OK(cuStreamCreate(&a, 1));
    OK(cuStreamCreate(&b, 1));
    OK(cuEventCreate(&never, 2));
    OK(cuEventCreate(&event, 2));
    OK(cuMemAlloc_v2(&block, sizeof(int)));
    OK(cuMemHostAlloc((void **)&host, 100 * sizeof(int), 0));
    control->stream_delay_us = 2000;
    OK(cuEventQuery(never));
    OK(cuEventSynchronize(never));
    OK(cuStreamWaitEvent(b, never, 0));
    for (int i = 0; i < 40; i++) {
        host[i] = i;
        OK(cuMemcpyHtoDAsync_v2(block, host + i, sizeof(int), a));
        OK(cuEventRecord(event, a));
        OK(cuStreamWaitEvent(b, event, 0));
        OK(cuMemcpyDtoHAsync_v2(host + 50 + i, block, sizeof(int), b));
        OK(cuEventRecord(event, b));
        OK(cuStreamWaitEvent(a, event, 0));
    }
    CHECK_EQ(cuEventQuery(event), 600);
    CHECK_EQ(cuStreamQuery(b), 600);
    OK(cuEventSynchronize(event));
    OK(cuEventQuery(event));
    OK(cuStreamSynchronize(b));
    OK(cuStreamQuery(b));
    for (int i = 0; i < 40; i++)
        CHECK_EQ(host[50 + i], i);
    OK(cuMemcpyHtoDAsync_v2(block, host + 33, sizeof(int), NULL));      /* the implicit stream, under all its names */
    OK(cuMemcpyDtoHAsync_v2(host, block, sizeof(int), (CUstream)2));
    OK(cuStreamSynchronize((CUstream)1));
    CHECK_EQ(host[0], 33);
    OK(cuMemcpyDtoH_v2(host + 1, block, sizeof(int)));
    CHECK_EQ(host[1], 33);
    OK(cuMemcpyHtoDAsync_v2(block, host, sizeof(int), a));
    OK(cuEventDestroy_v2(event));
    OK(cuEventDestroy_v2(never));
    OK(cuStreamDestroy_v2(a));
    OK(cuStreamDestroy_v2(b));
    CHECK_EQ(control->busy_streams_destroyed, 1);
    OK(cuMemFree_v2(block));
    OK(cuMemFreeHost(host));
    device_close(&d);
    END();
}

TEST(staging_memory_reused_too_early_gives_other_bytes)
{
    device d = device_open();
    CUstream a;
    CUdeviceptr block;
    int *host;
    OK(cuStreamCreate(&a, 1));
    OK(cuMemAlloc_v2(&block, sizeof(int)));
    OK(cuMemHostAlloc((void **)&host, 2 * sizeof(int), 0));
    host[0] = 1;
    OK(cuMemcpyHtoDAsync_v2(block, host, sizeof(int), a));
    OK(cuStreamSynchronize(a));
    host[0] = 2;            /* after a synchronization: right */
    OK(cuMemcpyDtoHAsync_v2(host + 1, block, sizeof(int), a));
    OK(cuStreamSynchronize(a));
    CHECK_EQ(host[1], 1);
#if !UNDER_TSAN
    control->stream_us = 200000;
    OK(cuMemcpyHtoDAsync_v2(block, host, sizeof(int), a));
    usleep(50000);
    host[0] = 3;            /* too early */
    control->stream_us = 0;
    OK(cuStreamSynchronize(a));
    OK(cuMemcpyDtoH_v2(host + 1, block, sizeof(int)));
    CHECK_EQ(host[1], 3);
#endif
    OK(cuStreamDestroy_v2(a));
    OK(cuMemFree_v2(block));
    OK(cuMemFreeHost(host));
    device_close(&d);
    END();
}

TEST(a_surface_read_after_its_unmap_is_garbage)
{
    device d = device_open();
    session s;
    CUVIDPROCPARAMS params = { 0 };
    unsigned pitch;
    unsigned long long address;
    uint8_t *host;
    session_open(&s, &d, cudaVideoCodec_HEVC);
    feed(&s, &samples[0], 0);
    params.output_stream = s.stream;
    OK(cuMemHostAlloc((void **)&host, 2, 0));
    OK(cuvidMapVideoFrame64(s.decoder, s.index[0], &address, &pitch, &params));
    OK(cuMemcpyDtoHAsync_v2(host, address, 1, s.stream));
    control->quiet = 1;
    OK(cuvidUnmapVideoFrame64(s.decoder, address));
    CHECK_EQ(cuMemcpyDtoHAsync_v2(host + 1, address, 1, s.stream), 1);
    OK(cuStreamSynchronize(s.stream));
    CHECK_EQ(host[0], samples[0].pixels[0]);
    CHECK_CONTAINS(fake->violation(), "not mapped");
    CHECK_EQ(*(uint8_t *)(uintptr_t)address, 0xee);
    OK(cuMemFreeHost(host));
    session_close(&s);
    device_close(&d);
    END_VIOLATION(1, "cuMemcpyDtoHAsync: an output surface that is not mapped");
}

TEST(the_parser_needs_endofpicture_and_remembers_parameter_sets)
{
    device d = device_open();
    session s;
    sample slice = samples[0], broken = samples[0];
    size_t at = 0, sps = 0;
    session_open(&s, &d, cudaVideoCodec_HEVC);
    for (size_t i = 0; i + 5 < slice.size; i++) {
        if (!slice.data[i] && !slice.data[i + 1] && slice.data[i + 2] == 1 && slice.data[i + 3] >> 1 == 33)
            sps = i + 3;
        if (!at && !slice.data[i] && !slice.data[i + 1] && slice.data[i + 2] == 1 && slice.data[i + 3] >> 1 < 32)
            at = i;
    }
    slice.data += at;
    slice.size -= at;
    feed(&s, &slice, 0);                        /* no parameter sets yet: nothing */
    CHECK_EQ(s.sequences + s.pictures, 0);
    feed_flags(&s, &samples[0], 0, 0);          /* a packet late */
    CHECK_EQ(s.pictures, 0);
    feed(&s, &slice, 0);                        /* with those remembered */
    CHECK_EQ(s.sequences, 1);
    CHECK_EQ(s.pictures, 2);
    broken.data = malloc(broken.size);
    memcpy(broken.data, samples[0].data, broken.size);
    memset(broken.data + sps + 3, 0xff, 8);
    feed(&s, &broken, 0);                       /* instead of the damaged one */
    CHECK_EQ(s.sequences, 1);
    CHECK_EQ(s.pictures, 3);
    free(broken.data);
    drain(&s);
    CHECK_EQ(s.spoiled, 0);
    CHECK_EQ(s.error, 0);
    feed_flags(&s, &slice, 0, 0);
    CHECK_EQ(s.pictures, 3);
    session_close(&s);
    device_close(&d);
    END();
}

TEST(a_damaged_picture_spoils_itself_only)
{
    device d = device_open();
    session s;
    sample bad = samples[0];            /* and cut in half */
    uint8_t *raw[64] = { NULL };
    unsigned pitch[64];
    session_open(&s, &d, cudaVideoCodec_HEVC);
    s.raw = raw;
    s.raw_pitch = pitch;
    bad.size /= 2;
    feed(&s, &samples[0], 0);
    feed(&s, &bad, 1);
    feed(&s, &samples[2], 2);
    drain(&s);
    OK(cuStreamSynchronize(s.stream));
    CHECK_EQ(s.spoiled, 1);
    CHECK(shows(&samples[0], raw[0], pitch[0]) && shows(&samples[2], raw[2], pitch[2]));
    CHECK_EQ(raw[1][5], 0xaa);
    CHECK_EQ(control->bad_pictures, 1);
    for (int i = 0; i < 3; i++)
        cuMemFreeHost(raw[i]);
    fake->fail("engine_picture", 1, 1, 0);
    control->concealed = 1;
    s.raw = NULL;
    feed(&s, &samples[0], 0);
    drain(&s);
    CHECK_EQ(s.spoiled, 2);
    session_close(&s);
    device_close(&d);
    END();
}

TEST(caps_are_scripted)
{
    device d = device_open();
    CUVIDDECODECAPS caps = { 0 };
    caps.eCodecType = cudaVideoCodec_HEVC;
    caps.eChromaFormat = cudaVideoChromaFormat_420;
    OK(cuvidGetDecoderCaps(&caps));
    CHECK(caps.bIsSupported && caps.nNumNVDECs == 7 && caps.nMinWidth == 144 && caps.nMaxWidth == 8192 &&
          caps.nOutputFormatMask == 1);
    caps.nBitDepthMinus8 = 2;
    OK(cuvidGetDecoderCaps(&caps));
    CHECK(caps.bIsSupported && caps.nOutputFormatMask == 2);
    caps.eChromaFormat = cudaVideoChromaFormat_422;
    OK(cuvidGetDecoderCaps(&caps));
    CHECK(!caps.bIsSupported && !caps.nNumNVDECs);
    caps.eChromaFormat = cudaVideoChromaFormat_420;
    caps.nBitDepthMinus8 = 0;
    control->engines = 0;
    OK(cuvidGetDecoderCaps(&caps));
    CHECK(!caps.bIsSupported);
    control->caps_without_engines = 1;
    OK(cuvidGetDecoderCaps(&caps));
    CHECK(caps.bIsSupported && !caps.nNumNVDECs);
    control->engines = 1;
    control->caps[FAKE_HEVC].chroma_mask = 0;
    OK(cuvidGetDecoderCaps(&caps));
    CHECK(!caps.bIsSupported);
    CHECK_EQ(fake->calls("cuvidGetDecoderCaps"), 6);
    device_close(&d);
    END();
}

TEST(a_decoder_can_be_reconfigured_when_idle)
{
    device d = device_open();
    session s;
    CUVIDRECONFIGUREDECODERINFO r;
    session_open(&s, &d, cudaVideoCodec_HEVC);
    memset(&r, 0, sizeof r);
    r.ulWidth = r.ulTargetWidth = r.ulHeight = r.ulTargetHeight = 256;
    r.ulNumDecodeSurfaces = 8;
    feed(&s, &samples[0], 0);
    control->quiet = control->reconfigure_anywhere = 1;
    CHECK_EQ(cuvidReconfigureDecoder(s.decoder, &r), 1);
    drain(&s);
    control->reconfigure_anywhere = 0;
    CHECK_EQ(cuvidReconfigureDecoder(s.decoder, &r), 1);
    control->reconfigure_anywhere = 1;
    OK(cuvidReconfigureDecoder(s.decoder, &r));
    r.ulWidth = r.ulTargetWidth = 1024;
    CHECK_EQ(cuvidReconfigureDecoder(s.decoder, &r), 1);
    CHECK_EQ(control->reconfigures, 1);
    session_close(&s);
    device_close(&d);
    END_VIOLATION(3, "in flight or mapped");
}

TEST(memory_is_counted_against_the_budget)
{
    device d = device_open();
    session s;
    CUdeviceptr block;
    session_open(&s, &d, cudaVideoCodec_HEVC);
    control->memory_budget = 1 << 20;
    CHECK_EQ(cuMemAlloc_v2(&block, 2 << 20), 2);
    OK(cuMemAlloc_v2(&block, 1 << 19));
    feed(&s, &samples[0], 0);
    CHECK_EQ(s.error, 2);
    control->memory_budget = 0;
    fake->fail("cuvidCreateDecoder", 1, 2, 0);
    s.error = CUDA_SUCCESS;
    feed(&s, &samples[0], 0);
    CHECK_EQ(s.error, 2);
    s.error = CUDA_SUCCESS;
    feed(&s, &samples[0], 0);
    CHECK_EQ(s.error, 0);
    CHECK_EQ(s.pictures, 1);
    OK(cuMemFree_v2(block));
    session_close(&s);
    CHECK_EQ(control->memory_used, 0);
    device_close(&d);
    END();
}

TEST(a_lost_device_ends_every_wait_at_once)
{
    static const char *const places[] = { "cuvidMapVideoFrame64",   "cuvidDecodePicture", "cuEventRecord",
                                          "cuLaunchKernel",         "stream_kernel",      "engine_picture",
                                          "cuvidUnmapVideoFrame64", "cuvidCreateDecoder", "cuStreamSynchronize" };
    for (size_t k = 0; k < sizeof places / sizeof places[0]; k++) {
        device d = device_open();
        thread_job jobs[4];
        CUdeviceptr batch;
        double start;
        OK(cuMemAlloc_v2(&batch, 64 * 3 * OUT * OUT * sizeof(float)));
        control->any_thread = 1;
        control->engine_us = 2000;
        fake->fail(places[k], 2, 719, 0);
        start = now();
        run_sessions(&d, jobs, 4, batch, 40);
        for (int i = 0; i < 4; i++)
            cuStreamSynchronize(jobs[i].s.stream);
        CHECK_EQ(control->lost, 719);
        CHECK(now() - start < SLOWED(30.0, 300.0));
        for (int i = 0; i < 4; i++) {
            CHECK_EQ(cuEventSynchronize(jobs[i].event), 719);
            CHECK_EQ(cuEventDestroy_v2(jobs[i].event), 719);
            session_close(&jobs[i].s);
        }
        CHECK_EQ(cuMemFree_v2(batch), 719);
        device_close(&d);
        END();
    }
}

TEST(a_blocked_map_returns_when_the_device_is_lost_elsewhere)
{
    device d = device_open();
    session s;
    CUstream other;
    double start = now();
    session_open(&s, &d, cudaVideoCodec_HEVC);
    control->engine_us = 60000000;
    feed(&s, &samples[0], 0);
    OK(cuStreamCreate(&other, 1));
    fake->fail("cuStreamSynchronize", 1, 700, 0);
    CHECK_EQ(cuStreamSynchronize(other), 700);
    drain(&s);
    CHECK_EQ(s.error, 700);
    CHECK(now() - start < 30.0);
    cuStreamDestroy_v2(other);
    session_close(&s);
    device_close(&d);
    END();
}

TEST(any_function_can_be_made_to_fail)
{
    device d = device_open();
    CUdeviceptr block;
    const char *name;
    fake->fail("cuMemAlloc_v2", 2, 2, 0);
    OK(cuMemAlloc_v2(&block, 1));
    OK(cuMemFree_v2(block));
    CHECK_EQ(cuMemAlloc_v2(&block, 1), 2);
    fake->fail("cuMemAlloc_v2", 1, 999, 1);
    CHECK_EQ(cuMemAlloc_v2(&block, 1), 999);
    CHECK_EQ(cuMemAlloc_v2(&block, 1), 999);
    fake->fail("cuMemAlloc_v2", 0, 0, 0);
    OK(cuMemAlloc_v2(&block, 1));
    fake->fail("cuMemFree_v2", 1, 1, 0);
    CHECK_EQ(cuMemFree_v2(block), 1);           /* and yet it is freed */
    OK(cuGetErrorName((CUresult)2, &name));
    CHECK_STR(name, "CUDA_ERROR_OUT_OF_MEMORY");
    CHECK_EQ(cuModuleLoadData(&d.module, "ELF"), 218);
    CHECK_EQ(cuModuleGetFunction(&d.kernel, d.module, "another"), 500);
    CHECK_STR(fake->name(control->log[0].function), "cuInit");
    device_close(&d);
    END();
}

static int find_without(const char *path)
{
    void *copy = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return copy && !dlsym(copy, "cuStreamWaitEvent") && dlsym(copy, "cuStreamSynchronize");
}

TEST(a_symbol_can_be_taken_away)
{
    char from[256], to[256];
    snprintf(from, sizeof from, "%s/libcuda.so.1", fake_folder);
    snprintf(to, sizeof to, "%s/without.so", fake_folder);
    REQUIRE(fake_without(from, to, "cuStreamWaitEvent"));
    CHECK(find_without(to));
    CHECK(!fake_without(from, to, "cuNothing"));
    remove(to);
}


/* ---- What is found ----------------------------------------------------------------------------------------------- */

TEST(calls_without_a_context_are_found)
{
    CUdeviceptr block;
    CUcontext c;
    CUVIDDECODECAPS caps = { 0 };
    OK(cuInit(0));
    control->quiet = 1;
    CHECK_EQ(cuMemAlloc_v2(&block, 1), 201);
    CHECK_EQ(cuvidGetDecoderCaps(&caps), 201);
    CHECK_EQ(cuCtxPopCurrent_v2(&c), 201);
    END_VIOLATION(3, "cuMemAlloc_v2: no current context");
}

TEST(objects_of_another_context_are_found)
{
    device d = device_open();
    CUcontext other;
    CUstream stream;
    CUdeviceptr block;
    CUevent event;
    CUdevice number = 7;
    control->quiet = 1;
    OK(cuStreamCreate(&stream, 1));
    OK(cuEventCreate(&event, 2));
    OK(cuMemAlloc_v2(&block, 4));
    OK(cuCtxCreate_v2(&other, 0, 0));
    OK(cuCtxGetDevice(&number));
    CHECK_EQ(number, 0);
    CHECK(cuStreamSynchronize(stream) != 0);
    CHECK(cuEventRecord(event, NULL) != 0);
    CHECK(cuMemcpyDtoH_v2(&number, block, 4) != 0);
    OK(cuCtxDestroy_v2(other));
    OK(cuStreamDestroy_v2(stream));
    OK(cuEventDestroy_v2(event));
    OK(cuMemFree_v2(block));
    CHECK(cuCtxPushCurrent_v2(other) != 0);
    device_close(&d);
    END_VIOLATION(4, "the stream is of another context");
}

TEST(stale_handles_double_frees_and_leaks_are_found)
{
    device d = device_open();
    CUstream stream;
    CUevent event;
    CUdeviceptr block;
    control->quiet = 1;
    OK(cuStreamCreate(&stream, 1));
    OK(cuEventCreate(&event, 2));
    OK(cuMemAlloc_v2(&block, 4));
    CHECK_CONTAINS(fake->leaks(), "1 contexts, 1 blocks of device memory, 1 streams, 1 events, 1 modules");
    OK(cuMemFree_v2(block));
    OK(cuEventDestroy_v2(event));
    OK(cuStreamDestroy_v2(stream));
    CHECK(cuMemFree_v2(block) != 0);
    CHECK(cuMemFreeHost(&block) != 0);
    CHECK(cuEventSynchronize(event) != 0);
    CHECK(cuStreamSynchronize(stream) != 0);
    CHECK(cuStreamDestroy_v2(stream) != 0);
    CHECK(cuvidUnmapVideoFrame64(&block, 1) != 0);
    CHECK(cuvidDestroyVideoParser(&block) != 0);
    device_close(&d);
    CHECK(cuDevicePrimaryCtxRelease(0) != 0);
    END_VIOLATION(8, "was not allocated, or freed before");
}

TEST(a_context_released_with_objects_in_it_is_found)
{
    device d = device_open();
    CUcontext c;
    control->quiet = 1;
    OK(cuCtxPopCurrent_v2(&c));
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxRetain(&c, 0));
    OK(cuCtxPushCurrent_v2(c));
    device_close(&d);
    END_VIOLATION(1, "the context still has 1 objects");
}

TEST(host_addresses_in_a_launch_or_copy_are_found)
{
    device d = device_open();
    CUdeviceptr block;
    bzi_kernel_slots slots;
    bzi_kernel_output out = output;
    void *params[2] = { &slots, &out };
    float here[4] = { 0 };
    control->quiet = 1;
    OK(cuMemAlloc_v2(&block, 4));
    memset(&slots, 0, sizeof slots);
    slots.slot[0].dst = (uint64_t)(uintptr_t)here;
    CHECK(cuLaunchKernel(d.kernel, 1, 1, 1, 16, 16, 1, 0, NULL, params, NULL) != 0);
    slots.slot[0].dst = block;
    CHECK(cuLaunchKernel(d.kernel, 1, 1, BZI_KERNEL_SLOTS + 1, 16, 16, 1, 0, NULL, params, NULL) != 0);
    CHECK(cuLaunchKernel(d.kernel, 1, 1, 1, 64, 64, 1, 0, NULL, params, NULL) != 0);
    CHECK(cuMemcpyHtoDAsync_v2(block, here, 8, NULL) != 0);        /* four bytes too many */
    OK(cuMemcpyHtoDAsync_v2(block, here, 4, NULL));
    OK(cuStreamSynchronize(NULL));
    CHECK_EQ(control->pageable_copies, 1);
    OK(cuMemFree_v2(block));
    device_close(&d);
    END_VIOLATION(4, "cuLaunchKernel: dst");
}

TEST(decoders_that_the_caps_exclude_are_found)
{
    device d = device_open();
    CUvideodecoder decoder;
    CUVIDDECODECREATEINFO good, c;
    memset(&good, 0, sizeof good);
    good.CodecType = cudaVideoCodec_HEVC;
    good.ChromaFormat = cudaVideoChromaFormat_420;
    good.ulWidth = good.ulTargetWidth = good.ulHeight = good.ulTargetHeight = 512;
    good.ulNumDecodeSurfaces = 8;
    good.ulNumOutputSurfaces = 4;
    control->quiet = 1;
    OK(cuvidCreateDecoder(&decoder, &good));
    OK(cuvidDestroyDecoder(decoder));
#define BAD(field, value) c = good; c.field = value; CHECK(cuvidCreateDecoder(&decoder, &c) != 0)
    BAD(ulWidth, c.ulTargetWidth = 128);
    BAD(CodecType, cudaVideoCodec_AV1);
    BAD(ChromaFormat, cudaVideoChromaFormat_422);
    BAD(bitDepthMinus8, 2);
    BAD(ulNumDecodeSurfaces, 33);
    BAD(ulNumOutputSurfaces, 0);
    BAD(OutputFormat, cudaVideoSurfaceFormat_P016);
    BAD(DeinterlaceMode, cudaVideoDeinterlaceMode_Adaptive);
    BAD(vidLock, (CUvideoctxlock)(void *)&c);
    BAD(ulMaxWidth, 256);
    BAD(ulTargetWidth, 256);
    BAD(display_area.right, 100);
    device_close(&d);
    END_VIOLATION(12, "the size is not one of the caps'");
}

static int keep_picture(void *user, CUVIDPICPARAMS *pic)
{
    session *s = user;
    return !(s->error = cuvidDecodePicture(s->decoder, pic));
}

TEST(surfaces_used_too_early_and_too_many_maps_are_found)
{
    device d = device_open();
    session s;
    CUVIDPARSERPARAMS p;
    CUVIDPROCPARAMS params = { 0 };
    unsigned long long address[5];
    unsigned pitch;
    session_open(&s, &d, cudaVideoCodec_HEVC);
    memset(&p, 0, sizeof p);
    p.CodecType = cudaVideoCodec_HEVC;
    p.pUserData = &s;
    p.pfnSequenceCallback = on_sequence;
    p.pfnDecodePicture = keep_picture;
    OK(cuvidDestroyVideoParser(s.parser));
    OK(cuvidCreateVideoParser(&s.parser, &p));
    control->quiet = 1;
    params.output_stream = s.stream;
    for (int i = 0; i < 8; i++)
        feed(&s, &samples[0], 0);
    CHECK_EQ(s.error, 0);
    CHECK(cuvidMapVideoFrame64(s.decoder, 8, &address[0], &pitch, &params) != 0);
    for (int i = 0; i < 4; i++)
        OK(cuvidMapVideoFrame64(s.decoder, i, &address[i], &pitch, &params));
    CHECK(cuvidMapVideoFrame64(s.decoder, 3, &address[4], &pitch, &params) != 0);
    CHECK(cuvidMapVideoFrame64(s.decoder, 4, &address[4], &pitch, &params) != 0);
    feed(&s, &samples[0], 0);           /* surface 0: mapped */
    CHECK_EQ(s.error, 1);
    OK(cuvidUnmapVideoFrame64(s.decoder, address[1]));
    CHECK(cuvidUnmapVideoFrame64(s.decoder, address[1]) != 0);
    feed(&s, &samples[0], 0);           /* surface 1: free again */
    CHECK_EQ(s.error, 0);
    CHECK(cuvidMapVideoFrame64(s.decoder, 2, &address[4], &pitch, &params) != 0);
    CHECK_EQ(control->violations, 6);
    for (int i = 0; i < 3; i++)         /* 2 and 3: mapped; 4: in flight or decoded */
        feed(&s, &samples[0], 0);
    OK(cuStreamSynchronize(s.stream));
    CHECK_EQ(control->live_mapped, 3);
    CHECK_EQ(control->map_depth[8], 1);
    session_close(&s);                  /* with three mapped */
    device_close(&d);
    CHECK_EQ(control->violations, 10);
    END_VIOLATION(10, "is not one of ulNumDecodeSurfaces");
}

static void *foreign_thread(void *argument)
{
    session *s = argument;
    CUVIDGETDECODESTATUS status;
    cuCtxPushCurrent_v2(*(CUcontext *)(void *)s->raw);
    s->failed += cuvidGetDecodeStatus(s->decoder, 0, &status) != 0;
    cuCtxPopCurrent_v2(NULL);
    return NULL;
}

TEST(a_decoder_in_another_thread_is_found)
{
    device d = device_open();
    session s;
    pthread_t thread;
    session_open(&s, &d, cudaVideoCodec_HEVC);
    control->quiet = 1;
    feed(&s, &samples[0], 0);
    drain(&s);
    s.raw = (uint8_t **)(void *)&d.context;
    pthread_create(&thread, NULL, foreign_thread, &s);
    pthread_join(thread, NULL);
    CHECK_EQ(s.failed, 1);
    control->any_thread = 1;
    pthread_create(&thread, NULL, foreign_thread, &s);
    pthread_join(thread, NULL);
    CHECK_EQ(s.failed, 1);
    session_close(&s);
    device_close(&d);
    END_VIOLATION(1, "by another thread");
}

TEST(a_picture_of_another_size_is_found)
{
    device d = device_open();
    session s;
    CUVIDPICPARAMS *pic = calloc(1, sizeof *pic);
    session_open(&s, &d, cudaVideoCodec_HEVC);
    feed(&s, &samples[0], 0);
    drain(&s);
    control->quiet = 1;
    pic->PicWidthInMbs = 20;
    pic->FrameHeightInMbs = 32;
    pic->pBitstreamData = samples[0].data;
    pic->nBitstreamDataLen = (unsigned)samples[0].size;
    pic->nNumSlices = 1;
    CHECK_EQ(cuvidDecodePicture(s.decoder, pic), 1);
    free(pic);
    session_close(&s);
    device_close(&d);
    END_VIOLATION(1, "would get a picture of another size");
}

TEST(calls_in_a_forked_child_are_found)
{
    device d = device_open();
    pid_t child;
    int status = 1;
    control->quiet = 1;
    if (!(child = fork())) {
        CUdeviceptr block;
        _exit(cuMemAlloc_v2(&block, 4) != 3 || cuInit(0) != 3);
    }
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    CHECK_EQ(control->fork_calls, 2);
    device_close(&d);
    END_VIOLATION(2, "cuMemAlloc_v2 in a forked child");
}

/* What callers get wrong with streams shows in pixels: two maps into one output surface, in streams that nothing
 * orders. */
TEST(a_second_stream_without_an_event_gives_wrong_pixels)
{
    device d = device_open();
    session s;
    CUVIDPROCPARAMS params = { 0 };
    CUstream other;
    unsigned long long address;
    unsigned pitch;
    uint8_t *host;
    session_open(&s, &d, cudaVideoCodec_HEVC);
    if (UNDER_TSAN) {
        session_close(&s);
        device_close(&d);
        END();
        SKIP("TSan would report it");
    }
    OK(cuStreamCreate(&other, 1));
    OK(cuMemHostAlloc((void **)&host, 64, 0));
    feed(&s, &samples[0], 0);
    feed(&s, &samples[1], 1);
    control->stream_us = 300000;
    params.output_stream = s.stream;
    OK(cuvidMapVideoFrame64(s.decoder, 0, &address, &pitch, &params));
    OK(cuMemcpyDtoHAsync_v2(host, address, 64, s.stream));
    OK(cuMemcpyDtoHAsync_v2(host, address, 64, s.stream));
    OK(cuMemcpyDtoHAsync_v2(host, address, 64, s.stream));
    OK(cuvidUnmapVideoFrame64(s.decoder, address));
    usleep(50000);
    control->stream_us = 0;             /* what the first stream is waiting for goes on */
    params.output_stream = other;
    OK(cuvidMapVideoFrame64(s.decoder, 1, &address, &pitch, &params));
    OK(cuStreamSynchronize(other));
    OK(cuStreamSynchronize(s.stream));
    CHECK_EQ(*(uint8_t *)(uintptr_t)address, 0xee); /* the first unmap's poison came after the second map's pixels */
    OK(cuvidUnmapVideoFrame64(s.decoder, address));
    OK(cuMemFreeHost(host));
    OK(cuStreamDestroy_v2(other));
    session_close(&s);
    device_close(&d);
    END();
}

static void begin(void)
{
    fake_folder = getenv("FAKES") ? getenv("FAKES") : "build/tests/fake";
    fake = fake_load();
    control = fake->control;
    facts_load();
    load_archive(0);
    load_archive(1);
}

static void end(void)
{
    for (int i = 0; i < sample_count; i++)
        free_sample(&samples[i]);
}

TEST_MAIN(begin();
    RUN(every_picture_of_the_archives_is_decoded_to_the_frame_of_libavcodec)
    RUN(ten_and_twelve_bits_and_444_come_as_p016_and_planes)
    RUN(av1_is_decoded_where_it_is_allowed)
    RUN(fourteen_sessions_with_delays_fill_every_slot_right)
    RUN(streams_and_events_are_ordered_as_cuda_orders_them)
    RUN(staging_memory_reused_too_early_gives_other_bytes)
    RUN(a_surface_read_after_its_unmap_is_garbage)
    RUN(the_parser_needs_endofpicture_and_remembers_parameter_sets)
    RUN(a_damaged_picture_spoils_itself_only)
    RUN(caps_are_scripted)
    RUN(a_decoder_can_be_reconfigured_when_idle)
    RUN(memory_is_counted_against_the_budget)
    RUN(a_lost_device_ends_every_wait_at_once)
    RUN(a_blocked_map_returns_when_the_device_is_lost_elsewhere)
    RUN(any_function_can_be_made_to_fail)
    RUN(a_symbol_can_be_taken_away)
    RUN(calls_without_a_context_are_found)
    RUN(objects_of_another_context_are_found)
    RUN(stale_handles_double_frees_and_leaks_are_found)
    RUN(a_context_released_with_objects_in_it_is_found)
    RUN(host_addresses_in_a_launch_or_copy_are_found)
    RUN(decoders_that_the_caps_exclude_are_found)
    RUN(surfaces_used_too_early_and_too_many_maps_are_found)
    RUN(a_decoder_in_another_thread_is_found)
    RUN(a_picture_of_another_size_is_found)
    RUN(calls_in_a_forked_child_are_found)
    RUN(a_second_stream_without_an_event_gives_wrong_pixels)
    end();)
