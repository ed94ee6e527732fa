/* gpu_ways.h - the sections of gpu_bench.c that compare ways to use video engines and processors together: hybrid
 * decoding, numbers of sessions and of pictures that each has begun, how a session waits, and two loaders at once.
 * Included by gpu_bench.c.
 *
 * hybrid needs libavcodec, which gpu_bench does without: gpu_hybrid is the same program with it. */

static uint32_t engines_of_device(void) { return about.engines ? about.engines : 1; }

/* As many sessions as the library has by default, but few for the fake driver. */
static uint32_t usual_sessions(void) { return few ? 2 : 4 * engines_of_device(); }

/* Says what is left out where the time is over. */
static int is_left_out(const char *what, double seconds)
{
    if (in_time(seconds))
        return 0;
    printf("%s%s: not measured, out of time\n", mark, what);
    return 1;
}

static void print_nvdec(const watch *w)
{
    if (w->decoder >= 0)
        printf(" %7.0f %%", w->decoder);
    else
        printf(" %9s", "-");
}

/* ---- Hybrid decoding ---- */

static void hybrid_point(archive *a, const char *way, uint32_t decoder, uint32_t hybrid)
{
    point p = { .archive = a, .dtype = BZNA_DTYPE_FLOAT32, .output = BZNA_DEVICE_CUDA, .batch = few ? 16 : BATCH,
                .sessions = decoder == BZNA_DECODER_SOFTWARE ? 0 : usual_sessions(), .decoder = decoder,
                .hybrid = hybrid };
    char what[64];
    snprintf(what, sizeof what, "%-11s %-10s", a->name, way);
    if (is_left_out(what, 2 * point_seconds + 1) || !archive_load(a))
        return;
    point_measure(&p);
    printf("%s%s %10.0f %8.3f", mark, what, p.rate, p.core_seconds);
    print_nvdec(&p.watch);
    printf(" %10llu %10llu %10llu%s%s\n", (unsigned long long)p.by_nvdec, (unsigned long long)p.by_software,
           (unsigned long long)p.by_hybrid, p.stats.fallbacks ? ", WITH FALLBACKS" : "",
           p.stats.samples_failed || p.stats.sessions_lost ? ", WITH FAILURES" : "");
    json_figure("hybrid");
    fprintf(json, "\"archive\": \"%s\", \"way\": \"%s\", \"sessions\": %u", a->name, way, p.sessions);
    json_number("images_per_second", p.rate);
    json_number("core_seconds_per_1000", p.core_seconds);
    json_number("decoder_utilization", p.watch.decoder);
    json_number("samples_nvdec", (double)p.by_nvdec);
    json_number("samples_software", (double)p.by_software);
    json_number("samples_hybrid", (double)p.by_hybrid);
    json_number("samples_failed", (double)p.stats.samples_failed);
    json_number("fallbacks", (double)p.stats.fallbacks);
    json_end();
}

/* Whether processors that would idle make the engines' rate higher. */
static void hybrid_section(void)
{
    static const struct { const char *name; uint32_t decoder, hybrid; } ways[] = {
        { "hybrid", BZNA_DECODER_NVDEC, 1 }, { "NVDEC", BZNA_DECODER_NVDEC, 0 },
        { "processors", BZNA_DECODER_SOFTWARE, 0 },
    };
    archive *const of[] = { &archives[0], &tuned };
#ifdef BENZINA_NO_AVCODEC
    printf("%sprocessors decode no video here: this is gpu_bench, not gpu_hybrid\n", mark);
    exit(1);
#endif
    unsetenv("BENZINA_NVDEC_CHECK");                        /* processors take only kinds that have passed it */
    printf("%s%-11s %-10s %10s %8s %9s %10s %10s %10s\n", mark, "archive", "decoded by", "pictures/s", "cpu s/k",
           "NVDEC", "by NVDEC", "processors", "(hybrid)");
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++)
        for (size_t a = 0; a < sizeof of / sizeof of[0]; a++)
            hybrid_point(of[a], ways[w].name, ways[w].decoder, ways[w].hybrid);
}

/* ---- Sessions, and pictures that each has begun ---- */

static void grid_report(const char *what, uint32_t sessions, uint32_t depth, double rate, double core_seconds,
                        const watch *w)
{
    printf("%s%-14s %8u %6u %10.0f %8.3f", mark, what, sessions, depth, rate, core_seconds);
    print_nvdec(w);
    printf("\n");
    json_figure("grid");
    fprintf(json, "\"what\": \"%s\", \"sessions\": %u, \"depth\": %u", what, sessions, depth);
    json_number("images_per_second", rate);
    json_number("core_seconds_per_1000", core_seconds);
    json_number("decoder_utilization", w->decoder);
    json_end();
}

static void grid_loader(uint32_t sessions)
{
    point p = { .archive = &archives[0], .dtype = BZNA_DTYPE_FLOAT32, .output = BZNA_DEVICE_CUDA,
                .batch = few ? 16 : BATCH, .sessions = sessions };
    point_measure(&p);
    grid_report("loader", sessions, p.depth_made, p.rate, p.core_seconds, &p.watch);
}

static void grid_bare(uint32_t sessions)
{
    bzna_context *context = context_open(0);
    bzna_dataset *dataset = archive_open(context, &archives[0]);
    units u = { 0 };
    units_add(&u, context, dataset, NULL);
    const bare_result r = bare_measure(&context, 1, &u, sessions, 0, point_seconds);
    grid_report("decoding alone", sessions, context->device->config.session_depth, r.rate, r.core_seconds, &r.watch);
    units_free(&u);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
}

/* One, two and four sessions an engine, with 4, 8 and 16 pictures each; runs are short. */
static void grid_section(void)
{
    static const uint32_t depths[] = { 4, 8, 16 };
    const uint32_t per_engine[] = { 1, 2, 4 }, engines = few ? 1 : engines_of_device();
    point_seconds *= 0.4;
    printf("%s%-14s %8s %6s %10s %8s %9s\n", mark, "H.265 CRF 20", "sessions", "depth", "pictures/s", "cpu s/k",
           "NVDEC");
    for (int alone = 0; alone < 2; alone++)
        for (size_t s = 0; s < (few ? 2 : 3); s++)
            for (size_t d = 0; d < sizeof depths / sizeof depths[0]; d++) {
                const uint32_t sessions = engines * per_engine[s];
                char what[64];
                snprintf(what, sizeof what, "%-14s %8u %6u", alone ? "decoding alone" : "loader", sessions, depths[d]);
                if (is_left_out(what, 2 * point_seconds + 0.5))
                    continue;
                session_depth = depths[d];
                if (alone)
                    grid_bare(sessions);
                else
                    grid_loader(sessions);
            }
}

/* ---- How a session waits ---- */

static const char *waits_name(uint32_t waits_by) { return waits_by == WAITS_IN_MAP ? "in map" : "by status"; }

static void waiting_report(const char *what, unsigned flags, const point *p)
{
    const double maps = (double)(timed[TIMED_map].calls ? timed[TIMED_map].calls : 1);
    const double asked = (double)timed[TIMED_decode_status].calls / maps;
    const char *context = flags == WAIT_SPINS ? "spins" : "sleeps";
    printf("%s%-14s %-7s %-9s %8u %10.0f %8.3f %10.2f %8.1f", mark, what, context, waits_name(p->waits_by), p->sessions,
           p->rate, p->core_seconds, asked, timed_quantile(TIMED_map, 0.5));
    print_nvdec(&p->watch);
    printf("\n");
    json_figure("waiting");
    fprintf(json, "\"what\": \"%s\", \"context\": \"%s\", \"waits\": \"%s\", \"sessions\": %u", what, context,
            waits_name(p->waits_by), p->sessions);
    json_number("images_per_second", p->rate);
    json_number("core_seconds_per_1000", p->core_seconds);
    json_number("status_calls_per_picture", asked);
    json_number("map_p50_us", timed_quantile(TIMED_map, 0.5));
    json_number("decoder_utilization", p->watch.decoder);
    json_end();
}

/* Sessions that decode and map alone, in this context. */
static void waiting_bare(point *p)
{
    bzna_context *context = context_open_in(0, p->cuda);
    bzna_dataset *dataset = archive_open(context, p->archive);
    units u = { 0 };
    units_add(&u, context, dataset, NULL);
    time_calls(context->device);
    point_use_waiting(p, context->device);
    const bare_result r = bare_measure(&context, 1, &u, p->sessions, 0, point_seconds);
    p->rate = r.rate;
    p->core_seconds = r.core_seconds;
    p->watch = r.watch;
    units_free(&u);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
}

static void waiting_point(const bzna_context *any, const char *what, unsigned flags, uint32_t waits_by)
{
    point p = { .archive = &archives[0], .dtype = BZNA_DTYPE_FLOAT32, .output = BZNA_DEVICE_CUDA,
                .batch = few ? 16 : BATCH, .sessions = usual_sessions(), .waits_by = waits_by, .profile = 1 };
    char name[64];
    snprintf(name, sizeof name, "%-14s %-7s %-9s", what, flags == WAIT_SPINS ? "spins" : "sleeps",
             waits_name(waits_by));
    if (is_left_out(name, 2 * point_seconds + 0.5))
        return;
    if (!(p.cuda = cuda_context_make(any->device, flags))) {
        printf("%s%s: not measured, the driver makes no context\n", mark, name);
        return;
    }
    if (*what == 'd')
        waiting_bare(&p);
    else
        point_measure(&p);
    waiting_report(what, flags, &p);
    extra.context_destroy(p.cuda);
}

/* What waiting costs processors. The library waits in the call that maps where a context's threads sleep, and asks for
 * the status where they spin. */
static void waiting_section(void)
{
    static const char *const whats[] = { "loader", "decoding alone" };
    static const unsigned contexts[] = { WAIT_SLEEPS, WAIT_SPINS };
    bzna_context *any = context_open(0);
    point_seconds *= 0.5;
    printf("%s%-14s %-7s %-9s %8s %10s %8s %10s %8s %9s\n", mark, "H.265 CRF 20", "context", "waits", "sessions",
           "pictures/s", "cpu s/k", "asked", "map us", "NVDEC");
    for (size_t w = 0; w < 2; w++)
        for (size_t c = 0; c < 2; c++)
            for (uint32_t by = WAITS_IN_MAP; by <= WAITS_BY_STATUS; by++)
                waiting_point(any, whats[w], contexts[c], by);
    bzna_context_close(any);
}

/* ---- Several loaders ---- */

static void loaders_report(const char *what, const share *all, uint32_t count, double rate, double core_seconds,
                           const watch *w)
{
    uint64_t by_nvdec = 0, by_software = 0, failed = 0;
    for (uint32_t i = 0; i < count; i++) {
        by_nvdec += all[i].point.stats.samples_nvdec;
        by_software += all[i].point.stats.samples_software;
        failed += all[i].point.stats.samples_failed;
    }
    printf("%s%-40s %10.0f %8.0f %8.0f %8.3f", mark, what, rate, all[0].rate, count > 1 ? all[1].rate : 0,
           core_seconds);
    print_nvdec(w);
    printf(" %10llu %10llu%s\n", (unsigned long long)by_nvdec, (unsigned long long)by_software,
           failed ? ", WITH FAILURES" : "");
    json_figure("loaders");
    fprintf(json, "\"what\": \"%s\", \"loaders\": %u", what, count);
    json_number("images_per_second", rate);
    json_number("first", all[0].rate);
    json_number("second", count > 1 ? all[1].rate : -1);
    json_number("core_seconds_per_1000", core_seconds);
    json_number("decoder_utilization", w->decoder);
    json_number("samples_nvdec", (double)by_nvdec);
    json_number("samples_software", (double)by_software);
    json_number("samples_failed", (double)failed);
    json_end();
}

/* One or two loaders of one context, each with a consumer of its own. */
static void loaders_point(const char *what, const point *points, uint32_t count)
{
    share all[2];
    watch w;
    double rate, core_seconds;
    int is_there = 1;
    if (is_left_out(what, 2 * point_seconds + 1))
        return;
    bzna_context *context = context_open(few ? 2 : 0);
    memset(all, 0, sizeof all);
    for (uint32_t i = 0; i < count; i++) {
        all[i].point = points[i];
        all[i].context = context;
        all[i].dataset = dataset_open(context, points[i].archive);
        is_there = is_there && all[i].dataset;
    }
    if (is_there) {
        rate = shares_measure(all, count, &w, &core_seconds);
        loaders_report(what, all, count, rate, core_seconds, &w);
    }
    for (uint32_t i = 0; i < count; i++)
        bzna_dataset_close(all[i].dataset);
    bzna_context_close(context);
}

/* Whether NVDEC decodes JPEG here, or why not. */
static int takes_jpeg(void)
{
    bzna_context *context = context_open(0);
    bzna_codec_info info = { .struct_size = sizeof info };
    bzna_error err = fresh_error();
    const int takes = bzna_context_codec_info(context, BZNA_CODEC_JPEG, 1, 8, &info, sizeof info, &err) == BZNA_OK &&
                      info.supported;
    if (!takes) {
        printf("%sJPEG by NVDEC: not measured, the NVDEC of this device does not decode it\n", mark);
        json_figure("loaders");
        fprintf(json, "\"what\": \"JPEG by NVDEC\"");
        json_string("reason", "the NVDEC of this device does not decode JPEG");
        json_end();
    }
    bzna_context_close(context);
    return takes;
}

/* Two loaders of one context share its sessions. JPEG is decoded by NVDEC, by processors, and by both at once. */
static void loaders_section(void)
{
    const point video = { .archive = &archives[0], .dtype = BZNA_DTYPE_FLOAT32, .output = BZNA_DEVICE_CUDA,
                          .batch = few ? 16 : BATCH };
    point jpeg = video, by_nvdec;
    jpeg.archive = &jpegs;
    by_nvdec = jpeg;
    by_nvdec.decoder = by_nvdec.jpeg = BZNA_DECODER_NVDEC;
    const int takes = takes_jpeg();
    printf("%s%-40s %10s %8s %8s %8s %9s %10s %10s\n", mark, "loaders of one context", "pictures/s", "first", "second",
           "cpu s/k", "NVDEC", "by NVDEC", "processors");
    loaders_point("H.265", &video, 1);
    loaders_point("H.265 twice", (const point[]){ video, video }, 2);
    loaders_point("JPEG by processors", &jpeg, 1);
    if (takes) {
        loaders_point("JPEG by NVDEC", &by_nvdec, 1);
        loaders_point("JPEG by NVDEC and by processors", (const point[]){ by_nvdec, jpeg }, 2);
    }
    loaders_point("H.265, and JPEG by processors", (const point[]){ video, jpeg }, 2);
}
