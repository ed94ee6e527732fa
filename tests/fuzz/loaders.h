/* loaders.h - the target of whole loaders: 64 bytes of settings and of what fails, then a file. On the CPU, or on the
 * fake driver, whose calls fail, too. Include behind files.h. */
#ifndef BENZINA_FUZZ_LOADERS_H
#define BENZINA_FUZZ_LOADERS_H

enum { LOADER_HEAD = 64 };

/* What an output may be; most of it is allowed. */
static void loader_output(bytes *b, bzna_loader_output *o, int is_first)
{
    if (is_first)
        o->batch_size = 1 + take(b, 6);
    o->width = 1 + take(b, 40);
    o->height = 1 + take(b, 40);
    o->dtype = take(b, 4);
    o->layout = take(b, 2);
    o->channels = take(b, 3);
    o->views = take(b, 4);
    o->slices = is_first ? take(b, 8) / 6 : 0;
}

static void loader_warp(bytes *b, bzna_warp *w)
{
    w->kind = take(b, 5);
    w->flip_h = w->flip_v = 0.5 * take(b, 3);
    w->perspective = take(b, 8) ? 0 : 0.5;
    w->rotate[0] = -(double)take(b, 90);
    w->rotate[1] = take(b, 90);
}

static void loader_config(bytes *b, bzna_loader_config *c, bzna_loader_output *extra)
{
    static const char *const images[] = { NULL, NULL, NULL, "thumb", "image", "none" };
    static const char *const fields[] = { NULL, NULL, "name", "target", "label", "name,label", "cls" };
    bzna_loader_config_init(c, sizeof *c);
    loader_output(b, &c->output, 1);
    loader_warp(b, &c->warp);
    if (take(b, 4) == 0) {
        loader_output(b, extra, 0);
        extra->name = "second";
        c->extra_outputs.ptr = extra;
        c->extra_outputs.count = 1;
    }
    c->order.kind = take(b, 2);
    c->order.last_batch = take(b, 4);
    c->order.epochs = 1 + take(b, 3);
    c->filter.kind = take(b, 4);
    c->filter.antialias = take(b, 2);
    c->fields.image = images[take(b, 6)];
    c->fields.tensors = fields[take(b, 7)];
    c->fields.bytes = fields[take(b, 7)];
    c->fields.geometry = take(b, 2);
    c->color.jitter.brightness[0] = (float)take(b, 2);
    c->color.jitter.brightness[1] = c->color.jitter.brightness[0] * 2;
    c->read.threads = take(b, 3);
    c->read.ahead_samples = take(b, 9);
    c->read.memory_bytes = take(b, 4) ? 0 : 4096;
    c->read.retries = take(b, 3);
    c->read.backoff_ns = 1;
    c->decode.threads = 1 + take(b, 2);
    c->decode.jpeg_shrink = take(b, 2);
    c->errors.on_error = take(b, 3);
    c->errors.on_callback_error = take(b, 2);
    c->pipeline.batches_in_flight = take(b, 4);
    c->pipeline.no_threads = take(b, 2);
}

/* All that a batch has. Every number is read, so that a sanitizer sees where it lies. */
static void look_at_batch(bzna_loader *loader, bzna_batch *batch)
{
    bzna_error err = { .struct_size = sizeof err };
    bzna_batch_info info;
    bzna_tensor tensor;
    uint64_t sum = 0;
    FUZZ_CHECK(bzna_batch_get_info(batch, &info, sizeof info, &err) == BZNA_OK);
    for (uint32_t n = 0; bzna_loader_tensor(loader, n, &tensor, sizeof tensor, NULL) == BZNA_OK; n++) {
        bzna_tensor t;
        if (bzna_batch_tensor(batch, tensor.name, &t, sizeof t, &err) == BZNA_OK && t.device.kind == BZNA_DEVICE_CPU)
            for (uint64_t i = 0; i < t.bytes; i++)
                sum += ((const uint8_t *)t.data)[i];
    }
    for (uint32_t i = 0; i < info.count; i++) {
        const void *data = NULL;
        uint64_t size = 0;
        if (info.status[i] < 0)
            bzna_batch_error(batch, i, &err);
        if (bzna_batch_bytes(batch, "name", i, &data, &size, &err) == BZNA_OK)
            for (uint64_t k = 0; k < size; k++)
                sum += ((const uint8_t *)data)[k];
    }
    if (sum == UINT64_MAX)                                  /* it is used */
        puts("");
}

/* Batches, with what else a program may do between them. A loader that has failed may only be closed. */
static void loader_run(bytes *b, bzna_loader *loader)
{
    bzna_error err = { .struct_size = sizeof err };
    bzna_loader_state state = { .struct_size = sizeof state };
    bzna_statistics statistics;
    bzna_batch *held[4] = { NULL, NULL, NULL, NULL };
    uint32_t batches = 0;
    for (int n = 0; n < 24; n++) {
        const uint32_t what = take(b, 32), at = batches % 4;
        bzna_status status = BZNA_OK;
        int holds;
        if (what == 1)
            status = bzna_loader_save(loader, &state, sizeof state, &err);
        else if (what == 2)
            status = bzna_loader_reset(loader, take(b, 3), &err);
        else if (what == 3)
            status = bzna_loader_restore(loader, &state, &err);
        else if (what == 4)
            status = bzna_loader_statistics(loader, &statistics, sizeof statistics, &err);
        else if (what == 5)
            status = bzna_loader_stop(loader, &err);
        if (status < 0 && what != 3)
            break;
        if (held[at])
            bzna_batch_release(held[at]);
        held[at] = NULL;
        /* While this thread holds batches, none may be left to fill. */
        holds = held[0] || held[1] || held[2] || held[3];
        status = bzna_loader_next(loader, what == 6 ? 0 : holds ? 20000000 : 19000000000, &held[at], &err);
        FUZZ_CHECK(status != BZNA_AGAIN || what == 6 || holds);
        if (status < 0 || status == BZNA_END)
            break;
        if (status == BZNA_OK) {
            look_at_batch(loader, held[at]);
            if (what >= 8 || batches % 4 == 3)
                bzna_batch_release(held[at]), held[at] = NULL;
            batches++;
        }
    }
    for (int i = 0; i < 4; i++)
        if (held[i])
            bzna_batch_release(held[i]);
}

static void loader_over(bzna_context *context, bytes settings, bytes file, const bzna_loader_config *preset)
{
    bzna_loader_output extra = { 0 };
    bzna_loader_config config;
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    source s = { .b = file };
    bzna_source callbacks = source_of(&s);
    const uint32_t read_fails = take(&settings, 64), alloc_fails = take(&settings, 256);
    loader_config(&settings, &config, &extra);
    config.output.device = preset->output.device;
    config.decode.decoder = preset->decode.decoder;
    if (bzna_dataset_open_source(context, &callbacks, NULL, &dataset, NULL) != BZNA_OK)
        return;
    s.result = take(&settings, 2) ? BZNA_E_IO : 0;
    s.fail_at = read_fails < 32 ? 0 : read_fails - 31;
    fuzz_ledger.fail_at = alloc_fails < 192 ? 0 : alloc_fails - 191;
    if (bzna_loader_open(context, dataset, &config, &loader, NULL) == BZNA_OK) {
        bzna_dataset_close(dataset);
        dataset = NULL;
        loader_run(&settings, loader);
    }
    fuzz_ledger.fail_at = 0;
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    FUZZ_CHECK(s.closes == 1);
}

static void run_loader(const uint8_t *data, size_t size)
{
    static bzna_context *context;
    static const bzna_loader_config preset = { .output = { .device = { BZNA_DEVICE_CPU, 0 } },
                                               .decode = { .decoder = BZNA_DECODER_SOFTWARE } };
    bytes rest = { data, size };
    const bytes settings = take_bytes(&rest, LOADER_HEAD);
    if (!context)
        context = fuzz_context_open(BZNA_DEVICE_CPU, 0);
    FUZZ_CHECK(context);
    loader_over(context, settings, rest, &preset);
}

#ifndef BENZINA_NO_CUDA
/* A driver of its own for each input, in which one call fails. */
static void run_loader_gpu(const uint8_t *data, size_t size)
{
    static const char *const functions[] = {
        "cuMemAlloc_v2", "cuMemHostAlloc", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuStreamCreate",
        "cuEventCreate", "cuEventRecord", "cuEventSynchronize", "cuLaunchKernel", "cuvidCreateDecoder",
        "cuvidReconfigureDecoder", "cuvidDecodePicture", "cuvidGetDecodeStatus", "cuvidMapVideoFrame64",
        "cuvidUnmapVideoFrame64", "cuvidCreateVideoParser", "cuvidParseVideoData", "stream_copy", "stream_kernel",
        "engine_picture", "cuCtxPushCurrent_v2", "cuModuleLoadData",
    };
    static const int codes[] = { 1, 2, 999, 700, 719, 214 };
    const fake_interface *fake = fake_load();
    bytes rest = { data, size };
    bytes settings = take_bytes(&rest, LOADER_HEAD);
    const uint32_t function = take(&settings, 48), nth = 1 + take(&settings, 24), code = take(&settings, 6);
    const uint32_t decoder = take(&settings, 3), device = take(&settings, 2);
    const bzna_loader_config preset = {
        .output = { .device = { device ? BZNA_DEVICE_CUDA : BZNA_DEVICE_CPU, 0 } }, .decode = { .decoder = decoder } };
    bzna_context *context;
    fake->control->quiet = 0;
    fake->control->engines = 1 + take(&settings, 2);
    fake->control->memory_budget = 256 << 20;
    if ((context = fuzz_context_open(BZNA_DEVICE_CUDA, 0))) {
        if (function < sizeof functions / sizeof *functions)
            fake->fail(functions[function], nth, codes[code], (int)take(&settings, 2));
        loader_over(context, settings, rest, &preset);
        bzna_context_close(context);
    }
    FUZZ_CHECK(!fake->violation());
    FUZZ_CHECK(!fake->leaks());
    fake->reset();
}
#endif

static size_t mutate_loader(uint8_t *data, size_t size, size_t capacity, unsigned seed)
{
    return mutate_behind(LOADER_HEAD, data, size, capacity, seed);
}

static void seeds_loader(fuzz_give *give, void *user)
{
    static const char *const paths[] = {
        "tests/data/seeds/h264.mp4", "tests/data/seeds/h265.mp4", "tests/data/heif/grid.heic",
        "tests/data/heif/still_jpeg.heif", "tests/data/seeds/labels.rec" };
    static uint8_t input[LOADER_HEAD + 4096];
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        FILE *file = fopen(paths[i], "rb");
        size_t size = file ? fread(input + LOADER_HEAD, 1, 4096, file) : 0;
        if (strstr(paths[i], "/heif/")) {                   /* which are no data sets by themselves */
            tar t = { NULL, 0, 0, 0 };
            tar_file(&t, "a.heic", input + LOADER_HEAD, size);
            size = t.size < 4096 ? t.size : 4096;
            memcpy(input + LOADER_HEAD, t.bytes, size);
            tar_free(&t);
        }
        for (uint32_t k = 0; k < LOADER_HEAD; k++)          /* the first without failures, with small numbers */
            input[k] = (uint8_t)(i % 2 ? (k + 1) * (i + 3) * 2654435761u >> 24 : k % 5);
        if (file)
            fclose(file);
        give(user, input, LOADER_HEAD + size);
    }
}

#endif
