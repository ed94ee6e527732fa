/* gpu_look.h - the sections of gpu_bench.c that look at a GPU rather than measure it: what there is, whether each
 * kernel makes the CPU's pixels, what NVDEC takes, and one picture decoded by hand, step by step. None of them stops at
 * what is wrong: a figure says so, and the next thing is looked at. Included by gpu_bench.c. */

/* ---- What there is ---- */

static void setting_figure(const char *name)
{
    const char *value = getenv(name);
    text_figure(name, value ? value : "(not set)");
}

/* Where the loader finds a library, with its version, which the file's real name ends with. */
static void library_figure(const char *name)
{
    char text[900], *file = NULL;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    struct link_map *map = NULL;
    if (!library)
        snprintf(text, sizeof text, "not found: %s", dlerror());
    else if (dlinfo(library, RTLD_DI_LINKMAP, &map) || !map || !(file = realpath(map->l_name, NULL)))
        snprintf(text, sizeof text, "found");
    else
        snprintf(text, sizeof text, "%s", file);
    free(file);
    text_figure(name, text);
}

/* A file's first line. */
static void line_figure(const char *path)
{
    char text[512] = "";
    FILE *file = fopen(path, "r");
    if (!file || !fgets(text, sizeof text, file))
        snprintf(text, sizeof text, "cannot be read: %s", strerror(errno));
    text[strcspn(text, "\n")] = 0;
    if (file)
        fclose(file);
    text_figure(path, text);
}

/* What the driver says before the library is asked for anything. */
static void driver_figures(void)
{
    bzi_cuda cu;
    int count = 0, version = 0;
    bzna_error err = fresh_error();
    char text[512], name[256] = "";
    CUdevice handle;
    memset(&cu, 0, sizeof cu);
    if (bzi_cuda_start(&cu, &count, &err) == BZNA_OK) {
        snprintf(text, sizeof text, "%d devices", count);
        if (cu.cuDeviceGet(&handle, (int)device_number) == CUDA_SUCCESS &&
            cu.cuDeviceGetName(name, (int)sizeof name - 1, handle) == CUDA_SUCCESS)
            name_device(name);
    } else {
        snprintf(text, sizeof text, "%s", err.message);
    }
    text_figure("the driver starts", text);
    if (cu.cuDriverGetVersion && cu.cuDriverGetVersion(&version) == CUDA_SUCCESS) {
        snprintf(text, sizeof text, "%d.%d", version / 1000, version % 1000 / 10);
        text_figure("CUDA of the driver", text);
    }
}

static void environment_section(void)
{
    static const char *const libraries[] = { "libcuda.so.1", "libnvcuvid.so.1", "libnvidia-ptxjitcompiler.so.1",
                                             "libnvidia-ml.so.1" };
    static const char *const settings[] = { "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_VISIBLE_DEVICES",
                                            "CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY" };
    bzna_context *context = NULL;
    bzna_context_config config;
    unsigned flags = 0;
    int active = 0;
    bzna_error err = fresh_error();
    bzna_status status;
    char text[400];
    driver_figures();
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        setting_figure(settings[i]);
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++)
        library_figure(libraries[i]);
    line_figure("/proc/driver/nvidia/version");
    snprintf(text, sizeof text, "%u", bzi_os_processors());
    text_figure("processors that this process may use", text);
    bzna_context_config_init(&config, sizeof config);
    config.device = (bzna_device){ BZNA_DEVICE_CUDA, (int32_t)device_number };
    status = bzna_context_open(&config, &context, &err);
    if (status == BZNA_OK)
        status = bzna_context_device_info(context, &about, sizeof about, &err);
    text_figure("the library opens the device", status == BZNA_OK ? "yes" : err.message);
    load_extras(status == BZNA_OK ? context->device : NULL);
    clocks_figures();
    if (status == BZNA_OK) {
        const bzi_device *device = context->device;
        snprintf(text, sizeof text, "%s, %.1f GiB, compute capability %u.%u", about.name,
                 (double)about.memory_bytes / (1 << 30), about.compute_major, about.compute_minor);
        text_figure("device", text);
        text_figure("NVDEC", about.video == BZNA_OK ? "yes" : about.message);
        snprintf(text, sizeof text, "%u", about.engines);
        text_figure("NVDEC engines", text);
        if (device->cu.cuDevicePrimaryCtxGetState &&
            device->cu.cuDevicePrimaryCtxGetState(device->handle, &flags, &active) == CUDA_SUCCESS) {
            snprintf(text, sizeof text, "%#x: who waits %s", flags,
                     (flags & 7) == WAIT_SLEEPS ? "sleeps" :
                     (flags & 7) == WAIT_SPINS  ? "spins" :
                     (flags & 7) == WAIT_YIELDS ? "yields" : "does what the driver chooses");
            text_figure("flags of the primary context", text);
        }
    }
    bzna_context_close(context);
}

static void capabilities_section(void)
{
    bzna_context *context = context_open(0);
    bzna_error err = fresh_error();
    if (!context->device->cu.cuvidGetDecoderCaps) {
        printf("%snot asked: %s\n", mark, about.message);
    } else if (bzi_device_enter(context->device, &err) == BZNA_OK) {
        for (int codec = 0; codec <= cudaVideoCodec_AV1; codec++)
            for (int chroma = 0; chroma < 4; chroma++)
                for (int depth = 8; depth <= 12; depth += 2)
                    caps_figure(context->device, codec, chroma, depth);
        bzi_device_leave(context->device);
    }
    bzna_context_close(context);
}

/* ---- Each kernel, beside the CPU's plain loop ---- */

enum { EQUAL_TRIES = 200 };

typedef struct equality {
    uint64_t  planes, outputs;        /* of the device: an arena for each slot */
    uint8_t  *host, *wanted, *got;
    void     *stream;
    long long slots, elements, different, beside;
    double    largest;
    char      first[200];             /* where the first difference is */
} equality;

/* A random slot that this kernel is for; 0: none was drawn. */
static int equality_slot(bzi_kernel_slot *slot, const bzi_kernel_output *out, int kernel, uint64_t planes,
                         uint8_t *host)
{
    for (int i = 0; i < EQUAL_TRIES; i++) {
        dice_slot(slot, planes, host, (uint32_t)out->width, (uint32_t)out->height);
        slot->antialias = kernel == BZI_KERNEL_OF_LERP;
        if (kernel == BZI_KERNEL_OF_RAMP) {
            const float h[9] = { dice_real(1, 4), 0, slot->h[2], 0, dice_real(1, 4), slot->h[5], 0, 0, 1 };
            memcpy(slot->h, h, sizeof h);
        } else if (kernel == BZI_KERNEL_ANY) {
            slot->filter = dice(7);
            slot->antialias = dice(4) == 0 ? BZNA_ANTIALIAS_OFF : BZNA_ANTIALIAS_AUTO;
            if (slot->filter != BZNA_FILTER_NEAREST && bzi_kernel_is_separable(slot->h) && dice(3) == 0)
                slot->antialias = BZNA_ANTIALIAS_ROUND;
            if (dice(2)) {
                slot->flags |= BZI_KERNEL_JITTER | (dice(2) ? BZI_KERNEL_SHIFT : 0);
                slot->brightness = dice_real(0.5, 1.5);
                slot->contrast = dice_real(0.5, 1.5);
                slot->saturation = dice_real(0.5, 1.5);
                slot->vivid = dice_real(0.5, 1.5);
                slot->hls[0] = slot->hue = dice_real(-1, 1);
                slot->round = 6;
            }
        }
        if (bzi_kernel_of(slot, out) == kernel)
            return 1;
    }
    return 0;
}

static double element_value(const uint8_t *at, uint32_t dtype)
{
    uint16_t half;
    uint32_t bits;
    float value;
    if (dtype == BZNA_DTYPE_UINT8)
        return *at;
    if (dtype == BZNA_DTYPE_FLOAT32) {
        memcpy(&value, at, 4);
        return (double)value;
    }
    memcpy(&half, at, 2);
    if (dtype == BZNA_DTYPE_BFLOAT16) {
        bits = (uint32_t)half << 16;
        memcpy(&value, &bits, 4);
        return (double)value;
    }
    value = half >> 10 & 31 ? (float)ldexp((half & 1023) + 1024, (half >> 10 & 31) - 25) :
                              (float)ldexp(half & 1023, -24);
    return half >> 15 ? -(double)value : (double)value;
}

/* Compares a slot's output, which begins 256 bytes into its arena. */
static void equality_compare(equality *e, const bzi_kernel_output *out, uint32_t slot)
{
    const size_t size = bzi_dtype_bytes(out->dtype), begin = slot * (size_t)ARENA + 256;
    const size_t end = begin + out->channels * (size_t)out->width * (size_t)out->height * size;
    e->slots++;
    e->beside += memcmp(e->got + begin - 256, e->wanted + begin - 256, 256) ||
                 memcmp(e->got + end, e->wanted + end, begin - 256 + ARENA - end);
    for (uint32_t c = 0; c < out->channels; c++)
        for (int32_t y = 0; y < out->height; y++)
            for (int32_t x = 0; x < out->width; x++) {
                const size_t at = begin + (size_t)(c * out->stride_c + y * out->stride_y + x * out->stride_x) * size;
                double made, should, difference;
                e->elements++;
                if (!memcmp(e->got + at, e->wanted + at, size))
                    continue;
                made = element_value(e->got + at, out->dtype);
                should = element_value(e->wanted + at, out->dtype);
                difference = fabs(made - should);
                if (!e->different++)
                    snprintf(e->first, sizeof e->first, "slot %lld, x %d, y %d, channel %u of %dx%d %s: %.9g, not %.9g",
                             e->slots, x, y, c, out->width, out->height,
                             out->dtype == BZNA_DTYPE_UINT8 ? "uint8" : out->dtype == BZNA_DTYPE_FLOAT32 ? "float32" :
                             "float16", made, should);
                if (!(difference <= e->largest))
                    e->largest = difference;
            }
}

/* One launch of slots that are all this kernel's. */
static bzna_status equality_round(equality *e, bzi_device *device, int kernel, bzna_error *err)
{
    const bzi_kernel_output out = dice_output();
    const uint32_t most = few ? 2 : BZI_KERNEL_SLOTS;
    bzi_kernel_slots slots;
    uint64_t bytes;
    uint32_t count = 0;
    bzna_status status;
    memset(&slots, 0, sizeof slots);
    memset(e->wanted, 0xa5, (size_t)most * ARENA);
    memset(e->got, 0xa5, (size_t)most * ARENA);
    while (count < most && equality_slot(&slots.slot[count], &out, kernel, e->planes + count * ARENA,
                                         e->host + count * ARENA)) {
        bzi_kernel_slot on_host = slots.slot[count];
        slots.slot[count].dst = e->outputs + count * ARENA + 256;
        for (int p = 0; p < 3; p++)
            on_host.plane[p] = on_host.plane[p] ? on_host.plane[p] - e->planes + (uint64_t)(uintptr_t)e->host : 0;
        on_host.dst = (uint64_t)(uintptr_t)(e->wanted + count++ * ARENA + 256);
        bzi_kernel_warp_plain(&on_host, &out);
    }
    bytes = (uint64_t)count * ARENA;
    if (!count || (status = bzi_device_upload(device, e->planes, e->host, bytes, e->stream, err)) != BZNA_OK ||
        (status = bzi_device_upload(device, e->outputs, e->got, bytes, e->stream, err)) != BZNA_OK ||
        (status = bzi_device_warp(device, &slots, count, &out, e->stream, err)) != BZNA_OK ||
        (status = bzi_device_download(device, e->got, e->outputs, bytes, e->stream, err)) != BZNA_OK ||
        (status = bzi_device_drain(device, e->stream, err)) != BZNA_OK)
        return count ? status : BZI_FAIL(err, BZNA_E_STATE, "no slot was drawn that is for this kernel");
    for (uint32_t i = 0; i < count; i++)
        equality_compare(e, &out, i);
    return BZNA_OK;
}

static void equality_figure(equality *e, int kernel, bzna_status status, const bzna_error *err)
{
#define KERNEL_NAME(name, function, bounds) #name,
    static const char *const names[] = { BZI_KERNELS(KERNEL_NAME) };
    const char *name = names[kernel] + strlen("bzi_kernel_warp_");
    printf("%s%-10s %lld slots, %lld values: ", mark, name, e->slots, e->elements);
    if (status != BZNA_OK)
        printf("ended with %s\n", err->message);
    else if (!e->different && !e->beside)
        printf("equal to the CPU's, every bit\n");
    else
        printf("%lld differ, by at most %g; the first: %s; beside the output, in %lld slots\n", e->different,
               e->largest, e->first[0] ? e->first : "none", e->beside);
    json_figure("kernel equality");
    fprintf(json, "\"kernel\": \"%s\", \"slots\": %lld, \"values\": %lld, \"different\": %lld, \"beside\": %lld", name,
            e->slots, e->elements, e->different, e->beside);
    json_number("largest", e->largest);
    json_string("first", e->first);
    json_string("error", status == BZNA_OK ? "" : err->message);
    json_end();
}

static void kernels_section(void)
{
    const uint64_t bytes = BZI_KERNEL_SLOTS * (uint64_t)ARENA;
    bzna_context *context = context_open(0);
    bzi_device *device = context->device;
    bzna_error err = fresh_error();
    equality room = { .host = calloc(1, bytes), .wanted = malloc(bytes), .got = malloc(bytes) };
    if (bzi_device_enter(device, &err) != BZNA_OK ||
        bzi_device_alloc(device, bytes, NULL, &room.planes, &err) != BZNA_OK ||
        bzi_device_alloc(device, bytes, NULL, &room.outputs, &err) != BZNA_OK ||
        stream_make(device, &room.stream, &err) != BZNA_OK)
        fail("kernels", &err);
    for (int kernel = 0; kernel < BZI_KERNEL_COUNT; kernel++) {
        equality e = room;
        bzna_status status = BZNA_OK;
        for (int round = 0; round < (few ? 2 : 60) && status == BZNA_OK && in_time(0); round++)
            status = equality_round(&e, device, kernel, &err);
        equality_figure(&e, kernel, status, &err);
    }
    bzi_device_free(device, room.planes, bytes, NULL);
    bzi_device_free(device, room.outputs, bytes, NULL);
    bzi_device_stream_free(device, room.stream);
    bzi_device_leave(device);
    bzna_context_close(context);
    free(room.host);
    free(room.wanted);
    free(room.got);
}

/* ---- One picture by hand ---- */

/* A step begins: if it never ends, the figures say which one it was. */
static void hand_step(const char *codec, const char *step)
{
    printf("%s%s: %s ...\n", mark, codec, step);
    json_figure("hand step");
    fprintf(json, "\"codec\": \"%s\", \"step\": \"%s\"", codec, step);
    json_end();
}

static const char *hand_status_name(int status)
{
    return status == cuvidDecodeStatus_Invalid ? "invalid" : status == cuvidDecodeStatus_InProgress ? "in progress" :
           status == cuvidDecodeStatus_Success ? "success" : status == cuvidDecodeStatus_Error ? "error" :
           status == cuvidDecodeStatus_Error_Concealed ? "error, concealed" : "unknown";
}

/* Asks for a picture's status until it is final, or for a second: what was said, and when, goes to text. */
static int hand_watch(engine *e, int surface, char *text, size_t size)
{
    const double start = now();
    int last = -1;
    size_t length = 0;
    text[0] = 0;
    do {
        CUVIDGETDECODESTATUS said;
        CUresult result;
        int is;
        memset(&said, 0, sizeof said);
        result = e->device->cu.cuvidGetDecodeStatus(e->decoder, surface, &said);
        is = result == CUDA_SUCCESS ? (int)said.decodeStatus : 1000 + (int)result;
        if (is != last && length < size) {
            length += (size_t)snprintf(text + length, size - length, "%s%s", length ? ", " : "",
                                       is < 1000 ? hand_status_name(is) : "no answer");
            if (length < size)
                length += (size_t)snprintf(text + length, size - length, is < 1000 ? " at %.0f us" : " (%.0f)",
                                           is < 1000 ? (now() - start) * 1e6 : (double)(is - 1000));
        }
        last = is;
        if (last != cuvidDecodeStatus_InProgress)
            break;
        usleep(20);
    } while (now() - start < 1);
    if (last == cuvidDecodeStatus_InProgress && length < size)
        snprintf(text + length, size - length, ", and still after 1 s");
    return last;
}

/* Whether the pixels of a mapped picture are those that are known. */
static int hand_is_right(engine *e, check_pair *check, uint64_t address, unsigned pitch)
{
    const uint64_t rows = e->format.coded_height, bytes = (uint64_t)pitch * rows * 3 / 2;
    uint8_t *copy = malloc((size_t)bytes);
    bzna_picture p = check->coded[0].picture;
    bzna_error err = fresh_error();
    int right = -1;
    if (bzi_device_download(e->device, copy, address, bytes, e->stream, &err) == BZNA_OK &&
        bzi_device_drain(e->device, e->stream, &err) == BZNA_OK) {
        for (int i = 0; i < 3; i++) {
            p.plane[i] = copy + (i ? pitch * rows + (uint64_t)i - 1 : 0);
            p.pitch[i] = pitch;
            p.step[i] = i ? 2 : 1;
        }
        right = check_sum(&p, 0) == check->sums[0];
    }
    free(copy);
    return right;
}

static void hand_decode(engine *e, check_pair *check, const char *codec)
{
    char before[300], after[300] = "not asked";
    double start, decode_us, map_us = -1, unmap_us = -1;
    unsigned long long address = 0;
    unsigned pitch = 0;
    CUVIDPROCPARAMS parameters = { .progressive_frame = 1, .output_stream = e->stream };
    CUresult decoded, mapped;
    int right = -1;
    hand_step(codec, "cuvidDecodePicture");
    e->pictures[0].parameters.CurrPicIdx = 0;
    start = now();
    decoded = e->device->cu.cuvidDecodePicture(e->decoder, &e->pictures[0].parameters);
    decode_us = (now() - start) * 1e6;
    hand_step(codec, "cuvidGetDecodeStatus");
    hand_watch(e, 0, before, sizeof before);
    printf("%s%s: decode returned %d after %.0f us; status %s\n", mark, codec, (int)decoded, decode_us, before);
    hand_step(codec, "cuvidMapVideoFrame64");
    start = now();
    mapped = e->device->cu.cuvidMapVideoFrame64(e->decoder, 0, &address, &pitch, &parameters);
    map_us = (now() - start) * 1e6;
    if (mapped == CUDA_SUCCESS) {
        hand_step(codec, "cuvidGetDecodeStatus after the map");
        hand_watch(e, 0, after, sizeof after);
        right = hand_is_right(e, check, address, pitch);
        hand_step(codec, "cuvidUnmapVideoFrame64");
        start = now();
        e->device->cu.cuvidUnmapVideoFrame64(e->decoder, address);
        unmap_us = (now() - start) * 1e6;
    }
    printf("%s%s: map returned %d after %.0f us, pitch %u; status after it %s; pixels %s; unmapped in %.0f us\n", mark,
           codec, (int)mapped, map_us, pitch, after, right > 0 ? "right" : right ? "not seen" : "WRONG", unmap_us);
    json_figure("hand");
    fprintf(json, "\"codec\": \"%s\", \"surfaces_asked\": %u, \"surfaces\": %u, \"decode\": %d, \"map\": %d, "
            "\"pitch\": %u, \"pixels\": \"%s\"", codec, (unsigned)e->format.min_num_decode_surfaces,
            (unsigned)ENGINE_SURFACES, (int)decoded, (int)mapped, pitch,
            right > 0 ? "right" : right ? "not seen" : "wrong");
    json_number("decode_us", decode_us);
    json_number("map_us", map_us);
    json_number("unmap_us", unmap_us);
    json_string("status", before);
    json_string("status_after_map", after);
    json_end();
}

static void hand_section(uint32_t codec)
{
    const char *name = bzi_codec_name(codec);
    bzna_context *context = context_open(0);
    bzna_error err = fresh_error();
    check_pair check = { .want = { codec, 1, 8, 0, 0 } };
    unit one;
    units all = { .unit = &one, .count = 1 };
    engine e = { .device = context->device };
    CUVIDDECODECAPS caps;
    double start;
    if (bzi_device_enter(context->device, &err) != BZNA_OK)
        fail(name, &err);
    if (!check_pair_use(&check) ||
        bzi_device_caps(context->device, codec, 1, 8, &caps, &err) != BZNA_OK || !caps.bIsSupported) {
        printf("%s%s: the driver does not decode it %s\n", mark, name, err.message);
        json_figure("hand");
        fprintf(json, "\"codec\": \"%s\", \"refused\": true", name);
        json_end();
        bzi_device_leave(context->device);
        bzna_context_close(context);
        return;
    }
    memset(&one, 0, sizeof one);
    one.image = check.images[0];
    one.image.struct_size = sizeof one.image;
    one.picture = check.coded[0].picture;
    one.sps = check.coded[0].sps;
    hand_step(name, "cuvidCreateVideoParser, cuvidParseVideoData");
    engine_parse(&e, &all);
    printf("%s%s: the parser sees %ux%u, asks for %u surfaces, and hands over %llu pictures of %llu bytes\n", mark,
           name, e.format.coded_width, e.format.coded_height, (unsigned)e.format.min_num_decode_surfaces,
           (unsigned long long)e.count, (unsigned long long)e.bytes);
    if (e.count) {
        hand_step(name, "cuvidCreateDecoder");
        start = now();
        engine_open(&e);
        printf("%s%s: a decoder with %u surfaces was made in %.1f ms\n", mark, name, (unsigned)ENGINE_SURFACES,
               (now() - start) * 1e3);
        hand_decode(&e, &check, name);
        hand_step(name, "cuvidDestroyDecoder");
        engine_close(&e);
    }
    hand_step(name, "done");
    bzi_device_leave(context->device);
    bzna_context_close(context);
}

static void hand265_section(void) { hand_section(BZNA_CODEC_H265); }
static void hand264_section(void) { hand_section(BZNA_CODEC_H264); }

/* ---- Pictures that the CPU decodes and the GPU warps ---- */

/* A batch of JPEG files, warped on the CPU or on the GPU. Returns its bytes, or NULL and why. */
static uint8_t *upload_batch(bzna_context *context, bzna_dataset *dataset, int32_t device, uint32_t batch,
                             uint64_t *bytes, bzna_error *err)
{
    point p = { .archive = &jpegs, .dtype = BZNA_DTYPE_FLOAT32, .batch = batch, .output = device };
    bzna_loader_config config;
    bzna_loader *loader = NULL;
    bzna_batch *got = NULL;
    bzna_batch_info info = { .struct_size = sizeof info };
    uint8_t *copy = NULL;
    point_config(&p, &config);
    if (bzna_loader_open(context, dataset, &config, &loader, err) == BZNA_OK &&
        bzna_loader_next(loader, BZNA_WAIT_FOREVER, &got, err) == BZNA_OK &&
        bzna_batch_get_info(got, &info, sizeof info, err) == BZNA_OK) {
        const void *data = info.slices[0];
        *bytes = info.image.bytes;
        copy = malloc((size_t)*bytes);
        if (device == BZNA_DEVICE_CPU) {
            memcpy(copy, data, (size_t)*bytes);
        } else if (bzi_device_enter(context->device, err) == BZNA_OK) {
            if (bzi_device_download(context->device, copy, (uint64_t)(uintptr_t)data, *bytes, info.stream, err) ||
                bzi_device_drain(context->device, info.stream, err)) {
                free(copy);
                copy = NULL;
            }
            bzi_device_leave(context->device);
        }
    }
    if (got)
        bzna_batch_release(got);
    bzna_loader_close(loader);
    return copy;
}

static void uploads_section(void)
{
    bzna_context *context = context_open(0);
    bzna_error err = fresh_error();
    bzna_dataset *dataset = dataset_open(context, &jpegs);
    uint64_t bytes[2] = { 0, 0 }, different = 0;
    double largest = 0;
    uint8_t *made[2] = { NULL, NULL };
    if (!dataset) {
        bzna_context_close(context);
        return;
    }
    made[0] = upload_batch(context, dataset, BZNA_DEVICE_CPU, few ? 4 : 64, &bytes[0], &err);
    made[1] = made[0] ? upload_batch(context, dataset, BZNA_DEVICE_CUDA, few ? 4 : 64, &bytes[1], &err) : NULL;
    for (uint64_t i = 0; made[1] && bytes[0] == bytes[1] && i < bytes[0]; i += 4)
        if (memcmp(made[0] + i, made[1] + i, 4)) {
            float a, b;
            memcpy(&a, made[0] + i, 4);
            memcpy(&b, made[1] + i, 4);
            different++;
            largest = fmax(largest, fabs((double)a - (double)b));
        }
    if (made[1])
        printf("%sa batch of JPEG, decoded by the CPU, warped by the GPU and by the CPU: %llu of %llu values differ, "
               "by at most %g\n", mark, (unsigned long long)different, (unsigned long long)bytes[0] / 4, largest);
    else
        printf("%sa batch of JPEG: %s\n", mark, err.message);
    json_figure("uploads");
    fprintf(json, "\"values\": %llu, \"different\": %llu", (unsigned long long)bytes[0] / 4,
            (unsigned long long)different);
    json_number("largest", largest);
    json_string("error", made[1] ? "" : err.message);
    json_end();
    free(made[0]);
    free(made[1]);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
}
