/* devices.c - bzna devices: the GPUs, and what their video decoders decode */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

/* ---- what is missing, and what to do ---- */

enum { ADVICE_SIZE = 700 };           /* bytes of a text */

/* setting: an environment variable whose value the advice ends with, or NULL. */
static const struct advice {
    const char *of, *text, *setting;
} advices[] = {
    { "BENZINA_NO_CUDA",
      "this bzna was built without the GPU path: install clang and NVIDIA's headers (Debian: clang, "
      "libffmpeg-nvenc-dev) and run make again", NULL },
    { "no PTX", "run make where clang is installed, or build from the pair of files that make dist writes", NULL },
    { "libcuda.so.1 was not found",
      "run nvidia-smi: if that fails, too, install NVIDIA's driver; if this is a container, start it with the GPU, for "
      "instance docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,video,utility, with the NVIDIA Container "
      "Toolkit on its host", "NVIDIA_VISIBLE_DEVICES" },
    { "nvcuda.dll was not found", "run nvidia-smi: if that fails, too, install NVIDIA's driver", NULL },
    { "nvcuvid.dll was not found", "the GPU works, but not its video decoders: install NVIDIA's driver anew", NULL },
    { "CUDA_ERROR_NO_DEVICE",
      "the driver is there, but shows no GPU: compare nvidia-smi -L, and look at what hides GPUs from this process",
      "CUDA_VISIBLE_DEVICES" },
    { "is too old", "update NVIDIA's driver", NULL },
    { "libnvcuvid.so.1 was not found",
      "the GPU works, but not its video decoders: in a container, NVIDIA_DRIVER_CAPABILITIES must have the word video, "
      "for instance docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,video,utility; else install the part "
      "of the driver that has libnvcuvid.so.1 (Debian: libnvcuvid1; Ubuntu: libnvidia-decode-VERSION)",
      "NVIDIA_DRIVER_CAPABILITIES" },
    { "has no NVDEC engine",
      "run nvidia-smi -L: if it lists MIG devices, choose a profile that has decoders (the column DEC of "
      "nvidia-smi mig -lgip), or turn MIG off; a GPU without NVDEC still warps pictures that the CPU decodes: pack "
      "them with --codec jpeg", NULL },
    { "compute capability", "the GPU is older than Pascal and cannot be used: --device cpu does without it", NULL },
    { "pixels differ from the CPU's",
      "do not use this GPU with this driver; please send the report that make gpu-run writes", NULL },
    { "fails its self-check", "update NVIDIA's driver; please send the report that make gpu-run writes", NULL },
    { "(802)", "start nvidia-fabricmanager, which machines with NVSwitch need, and try again", NULL },
    { "(803)", "libcuda and the driver's kernel module are of two versions: restart the machine, or the container",
      NULL },
    { "CUDA_ERROR_MPS", "start the MPS server again (nvidia-cuda-mps-control -d), and then this process", NULL },
    { "CUDA_ERROR_ILLEGAL_ADDRESS", "start the process again; if it happens again, please report what was run", NULL },
    { "was lost", "start the process again; nvidia-smi -q and dmesg (Xid) tell what happened to the GPU", NULL },
};

void tool_gpu_advice(const char *message, char *text, size_t size)
{
    const struct advice *found = NULL;
    int length;
    for (size_t i = 0; i < LENGTH(advices) && !found; i++)
        if (strstr(message, advices[i].of)) found = &advices[i];
    snprintf(text, size, "%s", found ? found->text : "");
    if (!found || !found->setting) return;
    length = (int)strlen(text);
    const char *value = getenv(found->setting);
    if (value) snprintf(text + length, size - (size_t)length, " (%s is \"%s\" here)", found->setting, value);
    else       snprintf(text + length, size - (size_t)length, " (%s is not set here)", found->setting);
}

int tool_gpu_error(const char *message)
{
    char advice[ADVICE_SIZE];
    tool_error("%s", message);
    tool_gpu_advice(message, advice, sizeof advice);
    if (advice[0]) fprintf(stderr, "bzna: what to do: %s; bzna devices tells more\n", advice);
    return EXIT_INPUT;
}

/* For devices: below a reason. */
static void advice_text(const char *reason)
{
    char advice[ADVICE_SIZE];
    tool_gpu_advice(reason, advice, sizeof advice);
    if (advice[0]) printf("what to do: %s\n", advice);
}

static void advice_json(const char *reason)
{
    char advice[ADVICE_SIZE];
    tool_gpu_advice(reason, advice, sizeof advice);
    printf(",\"advice\":");
    tool_json_string(advice[0] ? advice : NULL);
}

/* ---- devices ---- */

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
        bzna_context_device_info(g.context, &g.info, sizeof g.info, &err) < 0)
        snprintf(g.reason, sizeof g.reason, "%s", err.message);
    else if (g.info.video < 0)
        snprintf(g.reason, sizeof g.reason, "%s", g.info.message);
    return g;
}

static const char *const codec_names[] = { "H.264", "H.265", "AV1", "JPEG" };
static const char *const chroma_names[] = { "gray", "4:2:0", "4:2:2", "4:4:4" };
static const uint32_t depths[] = { 8, 10, 12 };

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
        bzna_context_codec_info(g->context, info->codec, info->chroma_format, info->depth, info, sizeof *info,
                                    NULL);
    return 1;
}

static void codec_json(const bzna_codec_info *c)
{
    printf("{\"codec\":\"%s\",\"chroma\":\"%s\",\"depth\":%" PRIu32 ",\"supported\":%s,\"engines\":%" PRIu32,
           codec_names[c->codec - BZNA_CODEC_H264], chroma_names[c->chroma_format], c->depth,
           c->supported ? "true" : "false", c->engines);
    printf(",\"min_width\":%" PRIu32 ",\"min_height\":%" PRIu32 ",\"max_width\":%" PRIu32 ",\"max_height\":%" PRIu32
           ",\"max_macroblocks\":%" PRIu32 "}", c->min_width, c->min_height, c->max_width, c->max_height,
           c->max_macroblocks);
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
    advice_json(g->reason);
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
    printf("%-6s %-6s %5" PRIu32 " %8" PRIu32 "  %-12s %-12s %" PRIu32 "\n",
           codec_names[c->codec - BZNA_CODEC_H264], chroma_names[c->chroma_format], c->depth, c->engines, smallest,
           largest, c->max_macroblocks);
}

static void gpu_text(const gpu *g)
{
    const bzna_device_info *d = &g->info;
    bzna_codec_info c;
    if (!d->name[0]) {
        printf("CUDA device %" PRId32 " cannot be used: %s\n", d->device.ordinal, g->reason);
        advice_text(g->reason);
        return;
    }
    printf("CUDA device %" PRId32 ": %s, %.1f GiB, compute capability %" PRIu32 ".%" PRIu32 ", driver for CUDA %"
           PRIu32 ".%" PRIu32 "\n", d->device.ordinal, d->name, (double)d->memory_bytes / (1 << 30), d->compute_major,
           d->compute_minor, d->driver / 1000, d->driver % 1000 / 10);
    if (g->reason[0]) {
        printf("no NVDEC: %s\n", g->reason);
        advice_text(g->reason);
        return;
    }
    printf("NVDEC: %" PRIu32 " engines\n\n", d->engines);
    printf("%-6s %-6s %5s %8s  %-12s %-12s %s\n", "codec", "chroma", "depth", "engines", "frames from", "to",
           "macroblocks");
    for (uint32_t i = 0; gpu_codec_info(g, i, &c); i++)
        if (c.supported) codec_text(&c);
}

/* Having no GPU or no driver is an answer, not a failure. */
int tool_run_devices(const tool_options *o)
{
    bzna_error err = tool_empty_error();
    bzna_device_info all = { .device_count = 0 };
    bzna_status status = bzna_context_device_info(NULL, &all, sizeof all, &err);
    if (o->json) printf("{\"devices\":[");
    else if (status < 0) {
        printf("no CUDA device: %s\n", err.message);
        advice_text(err.message);
    }
    for (uint32_t i = 0; status == BZNA_OK && i < all.device_count; i++) {
        gpu g = gpu_open(i);
        if (i || o->json) puts(i && o->json ? "," : "");
        if (o->json) gpu_json(&g);
        else         gpu_text(&g);
        bzna_context_close(g.context);
    }
    if (o->json) {
        printf("],\"reason\":");
        tool_json_string(status < 0 ? err.message : NULL);
        advice_json(status < 0 ? err.message : "");
        puts("}");
    }
    return EXIT_OK;
}
