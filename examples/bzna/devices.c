/* devices.c - bzna devices: the GPUs, and what their video decoders decode */
#include "tool.h"

#include <string.h>

/* A CUDA device, and why it or its video decoders cannot be used. */
typedef struct gpu {
    bzna_context    *context;         /* NULL: the device cannot be used at all */
    bzna_device_info info;
    char             reason[sizeof ((bzna_error *)0)->message];      /* empty: both can be used */
} gpu;

static gpu gpu_open(uint32_t ordinal)
{
    gpu g = { .info = { .device = { BZNA_DEVICE_CUDA, (int32_t)ordinal } } };
    bzna_error err = tool_empty_error();
    if (archive_open_context(g.info.device, 0, &g.context, &err) < 0 ||
        bzna_context_get_device_info(g.context, &g.info, sizeof g.info, &err) < 0)
        snprintf(g.reason, sizeof g.reason, "%s", err.message);
    else if (g.info.video < 0)
        snprintf(g.reason, sizeof g.reason, "%s", g.info.message);
    return g;
}

static const char *const codec_names[] = { "H.264", "H.265", "AV1", "JPEG" };
static const char *const chroma_names[] = { "gray", "4:2:0", "4:2:2", "4:4:4" };
static const uint32_t depths[] = { 8, 10, 12 };
static const char *const check_names[] = { "none", "passed", "failed", "skipped" };      /* by BZNA_CHECK_... */

/* What the device says of combination `number` of a codec, a chroma format and a depth. Returns 0 past the last one. */
static int gpu_codec_info(const gpu *g, uint32_t number, bzna_codec_info *info)
{
    const uint32_t depth_count = LENGTH(depths), chroma_count = LENGTH(chroma_names), codec_count = LENGTH(codec_names);
    memset(info, 0, sizeof *info);
    if (number >= codec_count * chroma_count * depth_count) return 0;
    info->depth = depths[number % depth_count];
    info->chroma_format = number / depth_count % chroma_count;
    info->codec = BZNA_CODEC_H264 + number / (depth_count * chroma_count);
    if (g->context)
        bzna_context_get_codec_info(g->context, info->codec, info->chroma_format, info->depth, info, sizeof *info,
                                    NULL);
    return 1;
}

static void codec_json(const bzna_codec_info *c)
{
    printf("{\"codec\":\"%s\",\"chroma\":\"%s\",\"depth\":%" PRIu32 ",\"supported\":%s,\"engines\":%" PRIu32,
           codec_names[c->codec - BZNA_CODEC_H264], chroma_names[c->chroma_format], c->depth,
           c->supported ? "true" : "false", c->engines);
    printf(",\"min_width\":%" PRIu32 ",\"min_height\":%" PRIu32 ",\"max_width\":%" PRIu32 ",\"max_height\":%" PRIu32
           ",\"max_macroblocks\":%" PRIu32 ",\"check\":\"%s\",\"check_message\":", c->min_width, c->min_height,
           c->max_width, c->max_height, c->max_macroblocks, check_names[c->check % LENGTH(check_names)]);
    tool_json_string(c->check_message[0] ? c->check_message : NULL);
    printf("}");
}

static void gpu_json(const gpu *g)
{
    const bzna_device_info *d = &g->info;
    bzna_codec_info c;
    printf(" {\"device\":%" PRId32 ",\"name\":", d->device.ordinal);
    tool_json_string(d->name[0] ? d->name : NULL);
    printf(",\"memory\":%" PRIu64 ",\"compute\":\"%" PRIu32 ".%" PRIu32 "\",\"driver\":\"%" PRIu32 ".%" PRIu32
           "\",\"engines\":%" PRIu32 ",\"reason\":", d->memory_bytes, d->compute_major, d->compute_minor,
           d->driver / 1000, d->driver % 1000 / 10, d->engines);
    tool_json_string(g->reason[0] ? g->reason : NULL);
    printf(",\"codecs\":[");
    for (uint32_t i = 0; !g->reason[0] && gpu_codec_info(g, i, &c); i++) {
        fputs(i ? ",\n  " : "\n  ", stdout);
        codec_json(&c);
    }
    printf("]}");
}

static void codec_text(const bzna_codec_info *c)
{
    char smallest[32], largest[32];
    snprintf(smallest, sizeof smallest, "%" PRIu32 "x%" PRIu32, c->min_width, c->min_height);
    snprintf(largest, sizeof largest, "%" PRIu32 "x%" PRIu32, c->max_width, c->max_height);
    printf("%-6s %-6s %5" PRIu32 " %8" PRIu32 "  %-12s %-12s %-12" PRIu32 " %s%s%s\n",
           codec_names[c->codec - BZNA_CODEC_H264], chroma_names[c->chroma_format], c->depth, c->engines, smallest,
           largest, c->max_macroblocks, check_names[c->check % LENGTH(check_names)], c->check_message[0] ? ": " : "",
           c->check_message);
}

static void gpu_text(const gpu *g)
{
    const bzna_device_info *d = &g->info;
    bzna_codec_info c;
    if (!d->name[0]) {
        printf("CUDA device %" PRId32 " cannot be used: %s\n", d->device.ordinal, g->reason);
        return;
    }
    printf("CUDA device %" PRId32 ": %s, %.1f GiB, compute capability %" PRIu32 ".%" PRIu32 ", driver for CUDA %"
           PRIu32 ".%" PRIu32 "\n", d->device.ordinal, d->name, (double)d->memory_bytes / (1 << 30), d->compute_major,
           d->compute_minor, d->driver / 1000, d->driver % 1000 / 10);
    if (g->reason[0]) {
        printf("no NVDEC: %s\n", g->reason);
        return;
    }
    printf("NVDEC: %" PRIu32 " engines\n\n", d->engines);
    printf("%-6s %-6s %5s %8s  %-12s %-12s %-12s %s\n", "codec", "chroma", "depth", "engines", "frames from", "to",
           "macroblocks", "self-check");
    for (uint32_t i = 0; gpu_codec_info(g, i, &c); i++)
        if (c.supported) codec_text(&c);
}

/* Having no GPU or no driver is an answer, not a failure. */
int tool_run_devices(const tool_options *o)
{
    bzna_error err = tool_empty_error();
    uint32_t count = 0;
    bzna_status status = bzna_device_count(&count, &err);
    if (o->json) printf("{\"devices\":[");
    else if (status < 0) printf("no CUDA device: %s\n", err.message);
    for (uint32_t i = 0; status == BZNA_OK && i < count; i++) {
        gpu g = gpu_open(i);
        if (i || o->json) puts(i && o->json ? "," : "");
        if (o->json) gpu_json(&g);
        else         gpu_text(&g);
        bzna_context_close(g.context);
    }
    if (o->json) {
        printf("],\"reason\":");
        tool_json_string(status < 0 ? err.message : NULL);
        puts("}");
    }
    return EXIT_OK;
}
