/* bzna - make, look into, check and time .bzna archives: the command-line tool of benzina
 *
 *     bzna pack DIR -o OUT.bzna        a folder of class folders, or of pictures, into an archive
 *     bzna info FILE                   brands, samples and tracks
 *     bzna list FILE                   one line a sample
 *     bzna extract FILE INDEX          one picture, as PPM, planes or H.265/H.264
 *     bzna verify FILE                 every sample, and with --decode every picture
 *     bzna batch FILE -o DIR           one batch as a loader delivers it, as PPM files
 *     bzna bench FILE                  pictures per second
 *
 * The library is used through benzina.h alone. Pictures are read and coded by libavformat, libavcodec and libswscale:
 *
 * Exit status: 0 all is well, 1 the input is at fault, 2 the command line is. */
#include "tool.h"

#include <stddef.h>
#include <string.h>

#include <libavutil/log.h>

#define FIELD(name) offsetof(options, name)
#define OPTION_JSON { "json", 0, KIND_FLAG, FIELD(json), 0, 0, NULL, NULL, "write JSON, for machines" }
#define OPTION_DEVICE { "device", 0, KIND_DEVICE, FIELD(device), 0, 0, "auto|cpu|N", "auto", "where to work: a GPU if there is one, none, or CUDA device N" }
#define OPTION_SESSIONS { "sessions", 0, KIND_INTEGER, FIELD(sessions), 1, 256, "N", NULL, "NVDEC sessions (default: two for each of the device's engines)" }
#define OPTION_DECODER { "decoder", 0, KIND_CHOICE, FIELD(decoder), 0, 0, "auto|software|nvdec", "auto", "who decodes for the loader" }
#define OPTION_END  { NULL, 0, KIND_FLAG, 0, 0, 0, NULL, NULL, NULL }

#define PRESETS "ultrafast|superfast|veryfast|faster|fast|medium|slow|slower|veryslow|placebo"

static const option pack_options[] = {
    { "out", 'o', KIND_TEXT, FIELD(out), 0, 0, "OUT.bzna", NULL, "the archive to write; must be given" },
    { "codec", 0, KIND_CHOICE, FIELD(codec), 0, 0, "h265|h264", "h265", "how pictures are coded" },
    { "crf", 0, KIND_REAL, FIELD(crf), 0, 51, "N", "20", "quality, 0..51: less is better and larger" },
    { "preset", 0, KIND_CHOICE, FIELD(preset), 0, 0, PRESETS, "medium", "the encoder's effort" },
    { "jobs", 'j', KIND_INTEGER, FIELD(jobs), 1, 1024, "N", NULL, "coding threads (default: one a processor); does not change the result" },
    { "class-order", 0, KIND_CHOICE, FIELD(class_order), 0, 0, "numeric|text", NULL,
      "folders 0, 1, 2, 10 are numbered in this order, or 0, 1, 10, 2 (default: text, and a warning if they differ)" },
    { "overwrite", 0, KIND_FLAG, FIELD(overwrite), 0, 0, NULL, NULL, "replace OUT.bzna if it is there" },
    OPTION_JSON, OPTION_END
};
static const option json_options[] = { OPTION_JSON, OPTION_END };
static const option extract_options[] = {
    { "out", 'o', KIND_TEXT, FIELD(out), 0, 0, "FILE", NULL, "what to write; its ending says how" },
    { "track", 0, KIND_TEXT, FIELD(track), 0, 0, "NAME", NULL, "which of the sample's pictures, bzna_input or bzna_thumb (default bzna_input)" },
    { "md5", 0, KIND_FLAG, FIELD(md5), 0, 0, NULL, NULL, "print the MD5 of the decoded frame: planes Y, Cb, Cr, padding included" },
    OPTION_JSON, OPTION_END
};
static const option verify_options[] = {
    { "decode", 0, KIND_FLAG, FIELD(decode), 0, 0, NULL, NULL, "also decode every picture" },
    { "jobs", 'j', KIND_INTEGER, FIELD(jobs), 1, 1024, "N", NULL, "threads (default: one a processor)" },
    OPTION_JSON, OPTION_END
};
static const option batch_options[] = {
    { "out", 'o', KIND_TEXT, FIELD(out), 0, 0, "DIR", NULL, "the folder to write to, made if need be; must be given" },
    { "batch", 0, KIND_INTEGER, FIELD(batch), 1, 65536, "N", "16", "pictures in the batch" },
    { "size", 0, KIND_INTEGER, FIELD(size), 1, 16384, "PX", "224", "edge of the square output, pixels" },
    { "seed", 0, KIND_INTEGER, FIELD(seed), 0, 9.2e18, "N", "1", "of order and warps" },
    { "shuffle", 0, KIND_FLAG, FIELD(shuffle), 0, 0, NULL, NULL, "in shuffled order instead of the archive's" },
    { "warp", 0, KIND_CHOICE, FIELD(warp), 0, 0, "random|center|none", "random", "random or central crop, resized; or 1:1" },
    { "flip", 0, KIND_REAL, FIELD(flip), 0, 1, "P", "0", "probability of mirroring left and right" },
    { "track", 0, KIND_TEXT, FIELD(track), 0, 0, "NAME", NULL, "bzna_input or bzna_thumb (default: the thumbnail where there is one)" },
    OPTION_DECODER, OPTION_DEVICE, OPTION_SESSIONS, OPTION_JSON, OPTION_END
};
static const option bench_options[] = {
    { "batch", 0, KIND_INTEGER, FIELD(batch), 1, 65536, "N", "64", "pictures in a batch" },
    { "size", 0, KIND_INTEGER, FIELD(size), 1, 16384, "PX", "224", "edge of the square output, pixels" },
    { "threads", 0, KIND_INTEGER, FIELD(threads), 1, 1024, "N", NULL, "decoder threads (default: one a processor)" },
    { "seconds", 0, KIND_REAL, FIELD(seconds), 0.1, 86400, "S", "5", "how long each of the two is measured" },
    { "dtype", 0, KIND_CHOICE, FIELD(dtype), 0, 0, "f32|f16", "f32", "of the batches: float32 or float16" },
    { "output", 0, KIND_CHOICE, FIELD(output), 0, 0, "auto|host|device", "auto", "where batches lie; auto: on the device, unless the decoder is software" },
    { "track", 0, KIND_TEXT, FIELD(track), 0, 0, "NAME", NULL, "bzna_input or bzna_thumb (default: the thumbnail where there is one)" },
    OPTION_DECODER, OPTION_DEVICE, OPTION_SESSIONS, OPTION_JSON, OPTION_END
};

static const command commands[] = {
    { "pack", "DIR -o OUT.bzna", "make an archive from a folder of pictures",
      "Codes every picture below DIR as one H.265 (or H.264) frame and writes them into an archive. Each folder in\n"
      "DIR is a class, numbered from 0 in the order of their names; without folders the pictures have no class.\n"
      "Folders called train, val, test and the like are splits, not classes: each is to be packed by itself.\n"
      "Any picture format that libavcodec knows is read. EXIF orientations are applied, alpha channels dropped.\n"
      "Files that are no readable pictures are listed at the end; the archive is whole without them. Names that\n"
      "begin with a dot are passed over. The same pictures and options give the same bytes.\n"
      "Until it is whole, the archive is OUT.bzna.partial, which one run alone may write; the next run replaces what\n"
      "is left of one that was killed.\n"
      "Exit status: 0 all packed, 1 something was left out or went wrong, 2 wrong usage, or OUT.bzna is there already\n"
      "and --overwrite was not given.", 1, pack_options, run_pack },
    { "info", "FILE", "brands, samples and tracks of an archive",
      "Shows what an archive holds as a whole: brands, size, number of samples and of targets, tracks.", 1, json_options, run_info },
    { "list", "FILE", "every sample of an archive",
      "Shows each sample's index, target, size, coding, picture sizes and file name. JSON also tells where in the\n"
      "file they lie. Damaged samples are shown with the reason, and make the exit status 1.", 1, json_options, run_list },
    { "extract", "FILE INDEX", "one picture of an archive",
      "Takes sample INDEX (from 0) out of an archive. The ending of -o's name says as what:\n"
      "  .ppm                 the picture without padding, in color\n"
      "  .yuv                 the decoded frame's planes Y, Cb, Cr, padding included, one after the other\n"
      "  .h265 .h264 .obu     the coded picture as a stream, not decoded", 2, extract_options, run_extract },
    { "verify", "FILE", "look for damage",
      "Checks every sample's index entries, boxes and ranges; with --decode also that its pictures decode.\n"
      "Exit status 1 if any sample is damaged.", 1, verify_options, run_verify },
    { "batch", "FILE -o DIR", "one batch, as a loader delivers it, as pictures",
      "Loads the first batch of an epoch and writes DIR/00000.ppm, ... by slot, and all of them as DIR/contact.ppm.",
      1, batch_options, run_batch },
    { "bench", "FILE", "pictures per second",
      "Times a loader (shuffled, random resized crops, endless epochs) against bare decoders with as many threads\n"
      "and the pictures in memory. The two take turns, so that other work on the machine hits both alike. Where NVDEC\n"
      "decodes, the loader alone is timed, up to the end of all work on the device.", 1, bench_options, run_bench },
    { "devices", "", "GPUs, and what their video decoders take",
      "Shows every CUDA device: memory, compute capability, NVDEC engines, and the codecs, chroma formats, depths and\n"
      "frame sizes that they decode. Where there is none, or its driver lacks something, it says why, and the exit\n"
      "status is 0 all the same.", 0, json_options, run_devices },
};

static void print_summary(FILE *file)
{
    fputs("usage: bzna COMMAND ...\n\n", file);
    for (size_t i = 0; i < LENGTH(commands); i++)
        fprintf(file, "  bzna %-8s %-18s %s\n", commands[i].name, commands[i].operands, commands[i].summary);
    fputs("\n`bzna COMMAND --help` shows a command's options. `bzna --version` shows the version.\n", file);
}

static int run_command(const command *c, int count, char **arguments)
{
    options o;
    int parsed = options_parse(c, count, arguments, &o);
    if (parsed < 0) return EXIT_USAGE;
    if (parsed > 0) return EXIT_OK;
    if (!o.out && (c->run == run_pack || c->run == run_batch)) return usage_error(c, "-o must be given");
    int result = c->run(&o);
    if ((fflush(stdout) || ferror(stdout)) && result == EXIT_OK) result = complain("standard output cannot be written");
    return result;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    av_log_set_level(AV_LOG_QUIET);
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        print_summary(stdout);
        return EXIT_OK;
    }
    if (!strcmp(name, "--version")) {
        uint32_t version = bzna_version();
        printf("bzna %" PRIu32 ".%" PRIu32 ".%" PRIu32 "\n", version / 10000, version / 100 % 100, version % 100);
        return EXIT_OK;
    }
    for (size_t i = 0; i < LENGTH(commands); i++)
        if (!strcmp(name, commands[i].name)) return run_command(&commands[i], argc - 2, argv + 2);
    if (*name) fprintf(stderr, "bzna: unknown command \"%s\"\n", name);
    print_summary(stderr);
    return EXIT_USAGE;
}
