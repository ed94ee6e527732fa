/* devices.c - bzna devices */
#include "tool.h"

#include <string.h>

/* A CUDA device, and why it or its video decoders cannot be used. */
typedef struct gpu {
    bzna_context    *context;         /* NULL: it cannot be used at all */
    bzna_device_info info;
    char             reason[sizeof ((bzna_error *)0)->message];      /* empty: both can */
} gpu;

static gpu gpu_open(uint32_t ordinal)
{
    gpu g = { .info = { .struct_size = sizeof g.info, .device = (int32_t)ordinal } };
    bzna_error err = error_empty();
    bzna_context_config config;
    bzna_context_config_init(&config, sizeof config);
    config.device = (int32_t)ordinal + 1;
    if (bzna_context_open(&config, &g.context, &err) < 0 || bzna_context_device(g.context, &g.info, sizeof g.info, &err) < 0)
        snprintf(g.reason, sizeof g.reason, "%s", err.message);
    else if (g.info.video < 0)
        snprintf(g.reason, sizeof g.reason, "%s", g.info.message);
    return g;
}

static const char *const gpu_codecs[] = { "H.264", "H.265", "AV1" }, *const gpu_chroma[] = { "gray", "4:2:0", "4:2:2", "4:4:4" };

/* What the device takes of one of the kinds 0, 1, ...: each codec, chroma format and depth. Returns 0 behind the last. */
static int gpu_codec(const gpu *g, uint32_t kind, bzna_codec_info *codec)
{
    static const uint32_t depths[] = { 8, 10, 12 };
    uint32_t count = (uint32_t)(LENGTH(gpu_codecs) * LENGTH(gpu_chroma) * LENGTH(depths));
    uint32_t chroma = kind / (uint32_t)LENGTH(depths) % (uint32_t)LENGTH(gpu_chroma), depth = depths[kind % LENGTH(depths)];
    memset(codec, 0, sizeof *codec);
    codec->struct_size = sizeof *codec;
    if (kind >= count) return 0;
    codec->codec = BZNA_CODEC_H264 + kind / (uint32_t)(LENGTH(depths) * LENGTH(gpu_chroma));
    codec->chroma_format = chroma;
    codec->depth = depth;
    if (g->context) bzna_context_codec(g->context, codec->codec, chroma, depth, codec, sizeof *codec, NULL);
    return 1;
}

static void gpu_json(const gpu *g)
{
    const bzna_device_info *d = &g->info;
    bzna_codec_info c;
    printf(" {\"device\":%" PRId32 ",\"name\":", d->device);
    json_string(d->name[0] ? d->name : NULL);
    printf(",\"memory\":%" PRIu64 ",\"compute\":\"%" PRIu32 ".%" PRIu32 "\",\"driver\":\"%" PRIu32 ".%" PRIu32 "\",\"engines\":%" PRIu32 ",\"reason\":",
           d->memory_bytes, d->compute_major, d->compute_minor, d->driver / 1000, d->driver % 1000 / 10, d->engines);
    json_string(g->reason[0] ? g->reason : NULL);
    printf(",\"codecs\":[");
    for (uint32_t i = 0; !g->reason[0] && gpu_codec(g, i, &c); i++)
        printf("%s\n  {\"codec\":\"%s\",\"chroma\":\"%s\",\"depth\":%" PRIu32 ",\"supported\":%s,\"engines\":%" PRIu32 ",\"min_width\":%" PRIu32
               ",\"min_height\":%" PRIu32 ",\"max_width\":%" PRIu32 ",\"max_height\":%" PRIu32 ",\"max_macroblocks\":%" PRIu32 "}", i ? "," : "",
               gpu_codecs[c.codec - BZNA_CODEC_H264], gpu_chroma[c.chroma_format], c.depth, c.supported ? "true" : "false", c.engines, c.min_width,
               c.min_height, c.max_width, c.max_height, c.max_macroblocks);
    printf("]}");
}

static void gpu_plain(const gpu *g)
{
    const bzna_device_info *d = &g->info;
    bzna_codec_info c;
    if (!d->name[0]) {
        printf("CUDA device %" PRId32 " cannot be used: %s\n", d->device, g->reason);
        return;
    }
    printf("CUDA device %" PRId32 ": %s, %.1f GiB, compute capability %" PRIu32 ".%" PRIu32 ", driver for CUDA %" PRIu32 ".%" PRIu32 "\n", d->device,
           d->name, (double)d->memory_bytes / (1 << 30), d->compute_major, d->compute_minor, d->driver / 1000, d->driver % 1000 / 10);
    if (g->reason[0]) {
        printf("no NVDEC: %s\n", g->reason);
        return;
    }
    printf("NVDEC: %" PRIu32 " engines\n\n%-6s %-6s %5s %8s  %-12s %-12s %s\n", d->engines, "codec", "chroma", "depth", "engines", "frames from",
           "to", "macroblocks");
    for (uint32_t i = 0; gpu_codec(g, i, &c); i++) {
        char from[32], to[32];
        if (!c.supported) continue;
        snprintf(from, sizeof from, "%" PRIu32 "x%" PRIu32, c.min_width, c.min_height);
        snprintf(to, sizeof to, "%" PRIu32 "x%" PRIu32, c.max_width, c.max_height);
        printf("%-6s %-6s %5" PRIu32 " %8" PRIu32 "  %-12s %-12s %" PRIu32 "\n", gpu_codecs[c.codec - BZNA_CODEC_H264], gpu_chroma[c.chroma_format],
               c.depth, c.engines, from, to, c.max_macroblocks);
    }
}

/* That there is no GPU, or no driver, is an answer, not a failure. */
int run_devices(const options *o)
{
    bzna_error err = error_empty();
    uint32_t count = 0;
    bzna_status status = bzna_device_count(&count, &err);
    if (o->json) printf("{\"devices\":[");
    else if (status < 0) printf("no CUDA device: %s\n", err.message);
    for (uint32_t i = 0; status == BZNA_OK && i < count; i++) {
        gpu g = gpu_open(i);
        if (i || o->json) puts(i && o->json ? "," : "");
        if (o->json) gpu_json(&g);
        else         gpu_plain(&g);
        bzna_context_close(g.context);
    }
    if (o->json) {
        printf("],\"reason\":");
        json_string(status < 0 ? err.message : NULL);
        puts("}");
    }
    return EXIT_OK;
}
