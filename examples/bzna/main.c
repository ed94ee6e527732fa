/* bzna - packs archives, inspects, checks and times data sets: the command-line tool of benzina
 *
 *     bzna pack DIR -o OUT.bzna        an archive from a folder of pictures, with a folder for each class or without
 *     bzna info DATA                   kind, fields, tracks, and numbers of samples, targets and classes
 *     bzna list DATA                   one line for each sample
 *     bzna extract DATA INDEX          one picture, as PNG, PPM, planes or a bitstream, or another field
 *     bzna verify DATA                 looks for damage; with --decode, decodes every picture
 *     bzna batch DATA -o DIR           one batch as a loader delivers it, as picture files
 *     bzna sheet DATA -o OUT.png       samples, or one sample under several augmentations, on one labelled sheet
 *     bzna view DATA -o OUT.html       a page of samples, to look through in a browser
 *     bzna bench DATA                  pictures per second
 *     bzna merge DATA... -o OUT.bzna   one archive of several; append, subset, split: others of coded samples
 *     bzna diff DATA DATA              in what two data sets differ
 *     bzna index FILE...               an index beside each .tar or .rec, so that it opens at once
 *     bzna devices                     GPUs, and what their video decoders decode
 *
 * The library is used through benzina.h alone; libavformat, libavcodec and libswscale read and encode pictures. A file
 * for each command or kind of them, several for pack; in this one, the tables of commands and options.
 *
 * Exit status: 0 success, 1 bad input, 2 bad command line. */
#include "tool.h"

#include <signal.h>
#include <string.h>

#include <libavutil/log.h>

/* ---- options ---- */

#define FIELD(name) offsetof(tool_options, name)
#define FLAG(name, field, help) { name, 0, KIND_FLAG, FIELD(field), 0, 0, NULL, NULL, help }
#define TEXT(name, field, argument, help) { name, 0, KIND_TEXT, FIELD(field), 0, 0, argument, NULL, help }
#define CHOICE(name, field, choices, preset, help) { name, 0, KIND_CHOICE, FIELD(field), 0, 0, choices, preset, help }
#define INTEGER(name, field, lowest, highest, argument, preset, help) \
    { name, 0, KIND_INTEGER, FIELD(field), lowest, highest, argument, preset, help }
#define REAL(name, field, lowest, highest, argument, preset, help) \
    { name, 0, KIND_REAL, FIELD(field), lowest, highest, argument, preset, help }
#define OPTION_JSON FLAG("json", json, "print JSON")
#define OPTION_OUT(argument, help) { "out", 'o', KIND_TEXT, FIELD(out), 0, 0, argument, NULL, help }
#define OPTION_TRACK(help) TEXT("track", track, "NAME", help)
#define OPTION_JOBS(help) { "jobs", 'j', KIND_INTEGER, FIELD(jobs), 1, 1024, "N", NULL, help }
#define OPTION_SEED(what) INTEGER("seed", seed, 0, 9.2e18, "N", "1", what)
#define OPTION_BATCH(highest, preset, help) INTEGER("batch", batch, 1, highest, "N", preset, help)
#define OPTION_END { NULL, 0, KIND_FLAG, 0, 0, 0, NULL, NULL, NULL }

#define RECORDS_HELP \
    "a file of records of one size: what each holds, in order, parts with + between them:\n" \
    "WxHxC bytes in planes (WxHxC:nhwc, pixels), label (label:int32, ...), skip:BYTES;\n" \
    "before them header:BYTES. cifar10 is label+32x32x3. MNIST's IDX files need none"

/* How a data set is opened. */
#define OPTIONS_DATASET \
    TEXT("format", format, "KIND", \
      "refuse data sets of other kinds, as bzna info calls them\n(default: found by content)"), \
    CHOICE("split", split, "train|validation|test", NULL, "the samples of one split of an archive (default: all)"), \
    TEXT("list", list, "FILE", \
      "a list of a folder's files, or labels of a .rec:\n" \
      ".lst (index, labels, path), .csv (path,label), or path label"), \
    TEXT("records", records, "WxHxC[+label]", RECORDS_HELP), \
    TEXT("classes", classes, "A,B,C", \
      "a folder's class folders, in the order of their numbers;\nothers are left out (default: all)"), \
    CHOICE("class-order", class_order, "text|numeric", "text", \
      "numeric numbers class folders as 0, 1, 2, 10; text as 0, 1, 10, 2"), \
    CHOICE("orientation", orientation, "apply|ignore", "apply", "turn pictures as their EXIF data says, or not"), \
    CHOICE("palette", palette, "colors|index", "colors", \
      "what pictures with a palette give: colors, or indices as gray")

/* What batch, sheet and bench have in common. */
#define DTYPES "f32|f16|bf16|u8|float32|float16|bfloat16|uint8"
#define FILTERS "nearest|linear|cubic|lanczos|area|cubic-0.75|lanczos4"
#define OPTIONS_TYPE \
    CHOICE("dtype", dtype, DTYPES, "f32", "type of the batches; uint8 is rounded and saturated"), \
    CHOICE("layout", layout, "NCHW|NHWC", "NCHW", "planes, or pixels of channels")
#define OPTIONS_LOADER \
    REAL("flip", flip, 0, 1, "P", "0", "probability of a horizontal flip"), \
    REAL("rotate", rotate, 0, 180, "D", "0", "rotate by -D to D degrees, on top of the warp"), \
    REAL("shear", shear, 0, 89, "D", "0", "then shear by -D to D degrees along x"), \
    REAL("perspective", perspective, 0, 1, "S", "0", "then distort half of them: torchvision's distortion_scale"), \
    REAL("brightness", brightness, 0, 100, "B", "0", "multiply colors by 1-B to 1+B"), \
    REAL("contrast", contrast, 0, 100, "C", "0", "colors by 1-C to 1+C, the rest the mean luma"), \
    REAL("saturation", saturation, 0, 100, "S", "0", "colors by 1-S to 1+S, the rest their luma"), \
    REAL("hue", hue, 0, 0.5, "H", "0", "turn hues by -H to H of a whole turn"), \
    REAL("grayscale", grayscale, 0, 1, "P", "0", "probability of gray in all channels"), \
    REAL("random-h", hls[0], 0, 180, "H", "0", "MXNet's random_h: hue, of 180"), \
    REAL("random-l", hls[1], 0, 255, "L", "0", "MXNet's random_l: lightness, of 255"), \
    REAL("random-s", hls[2], 0, 255, "S", "0", "MXNet's random_s: saturation, of 255"), \
    REAL("max-random-contrast", max_contrast, 0, 0.999, "C", "0", "MXNet's, about 0"), \
    REAL("max-random-illumination", max_illumination, 0, 1e6, "I", "0", "MXNet's, of 255"), \
    CHOICE("channels", channels, "RGB|BGR|gray|grey", "RGB", "channels and their order; gray is one, the luma"), \
    CHOICE("warp", warp, "random|center|none", "random", \
      "random resized crop, center resized crop, or none: center crop, not resized"), \
    CHOICE("law", law, "auto|benzina|torchvision", "auto", "how crops are drawn; auto: random ones as torchvision's"), \
    CHOICE("filter", filter, FILTERS, "linear", "how pixels are resampled"), \
    FLAG("antialias", antialias, "widen the filter where a picture shrinks: the default"), \
    { "no-antialias", 0, KIND_FLAG, FIELD(antialias), -1, 0, NULL, NULL, "do not widen it" }, \
    FLAG("jpeg-shrink", jpeg_shrink, "decode JPEG at 1/2, 1/4, 1/8 where the warp shrinks by that"), \
    INTEGER("size", size, 1, 16384, "PX", "224", "edge of the square output, in pixels"), \
    INTEGER("views", views, 1, 64, "N", "1", "views of each picture, each with a warp of its own"), \
    OPTION_TRACK("the picture of a sample to load: its field, image or thumb\n" \
                 "(default: sizes up to 512 load the thumbnail where there is one)"), \
    CHOICE("decoder", decoder, "auto|software|nvdec", "auto", "which decoder to use"), \
    CHOICE("jpeg-decoder", jpeg_decoder, "auto|software|nvdec", "auto", \
      "nvdec: it decodes baseline JPEG of 4:2:0, too, or the command fails"), \
    { "device", 0, KIND_DEVICE, FIELD(device), 0, 0, "auto|cpu|N", "auto", \
      "auto: a GPU if there is one; cpu: no GPU; N: CUDA device N" }, \
    INTEGER("sessions", sessions, 1, 256, "N", NULL, \
      "NVDEC sessions (default: two for each NVDEC engine, three for one)"), \
    OPTIONS_DATASET, OPTION_JSON

static const tool_option pack_options[] = {
    OPTION_OUT("OUT.bzna", "the archive to write; required"),
    CHOICE("codec", codec, "h265|h264|av1|jpeg|copy", NULL,
      "codec of the pictures; copy keeps JPEG files as they are,\n"
      "and encodes others as jpeg (default: h265, or that of --encoder)"),
    TEXT("encoder", encoder, "NAME",
      "libavcodec's encoder, as in `ffmpeg -encoders`: hevc_nvenc, libsvtav1\n"
      "(default: libx265, libx264, libaom-av1, mjpeg)"),
    REAL("crf", crf, 0, 51, "N", "20",
      "constant rate factor of h265, h264 and av1, 0 to 51: lower is better and larger"),
    TEXT("preset", preset, "NAME",
      "preset of the encoder: slower is smaller. ultrafast, superfast, veryfast, faster,\n"
      "fast, medium, slow, slower, veryslow, placebo (default medium);\n"
      "of another --encoder, what that one has (default: its own)"),
    CHOICE("chroma", chroma, "420|444", NULL,
      "444 keeps colors at full resolution: larger, and fewer GPUs decode it (default 420)"),
    FLAG("lossless", lossless, "h265, h264, av1: no loss beyond that of 8-bit Y'CbCr"),
    FLAG("tune-decode", tune_decode, "h265, h264: faster to decode, and larger (tune fastdecode)"),
    INTEGER("quality", quality, 1, 100, "N", "90",
      "quality of jpeg, 1 to 100 as libjpeg counts it: higher is better and larger"),
    INTEGER("max-edge", max_edge, 1, 16384, "PX", NULL, "scale down what has a longer edge"),
    INTEGER("max-short-edge", max_short_edge, 1, 16384, "PX", NULL, "scale down what has a longer short edge"),
    TEXT("frame", frame, "auto|N|exact",
      "edges of coded frames: multiples of 512 (auto), or of N; exact: as the picture,\n"
      "rounded up to 16. At least what NVDEC decodes: 144 (h265), 48 (h264), 128 (av1)"),
    TEXT("thumb", thumb, "PX|none",
      "longest edge of thumbnails, 16 to 512; pictures that are not longer have none\n(default 512)"),
    TEXT("background", background, "COLOR",
      "what lies under transparent pixels: white, black, gray, #rrggbb\n"
      "(default: alpha is dropped, and the colors under it show)"),
    CHOICE("icc", icc, "ignore|convert", "ignore",
      "color profiles: convert pictures to sRGB, or ignore them, as loaders do and\ntorchvision, DALI and FFCV"),
    TEXT("list", list, "FILE",
      "which files of the folder, in this order, and their labels; of a .rec, its labels:\n"
      ".lst (index, label, path, tabs between), .csv (path,label), or path label"),
    TEXT("records", records, "WxHxC[+label]", RECORDS_HELP),
    TEXT("targets", targets, "FILE", "targets of all files: lines of NAME,TARGET, or of TARGET in the files' order"),
    TEXT("shard", shard, "I/N", "only share I of N, from 0/N to N-1/N: one behind the other, all nearly as large"),
    OPTION_JOBS("processes that encode (default: one for each processor); they do not change the archive"),
    TEXT("classes", classes, "FILE",
      "names of the class folders, one a line, in the order of their numbers;\nother folders are refused"),
    TEXT("splits", splits, "S=DIR,...",
      "train=DIR,validation=DIR,test=DIR instead of DIR: folders of the same classes,\n"
      "which the archive has in that order, and each split by its name"),
    CHOICE("class-order", class_order, "numeric|text", NULL,
      "numeric numbers class folders as 0, 1, 2, 10; text as 0, 1, 10, 2\n"
      "(default: text, with a warning if the two differ)"),
    TEXT("report", report, "FILE",
      "PSNR and SSIM of every picture, and what was left out: .json, or .html\n"
      "with the worst 20 beside their sources"),
    FLAG("resume", resume, "go on with an interrupted run: only what it has not done is encoded"),
    FLAG("overwrite", overwrite, "replace OUT.bzna if it exists, and what an interrupted run has left"),
    OPTION_JSON, OPTION_END
};
static const tool_option json_options[] = { OPTION_JSON, OPTION_END };
#define OPTION_OVERWRITE FLAG("overwrite", overwrite, "replace what exists")
#define OPTION_NEW OPTION_OUT("OUT.bzna", "the archive to write")
static const tool_option index_options[] = {
    OPTION_NEW,
    TEXT("classes", classes, "FILE",
      "names of the classes of NEW.bzna, one a line\n"
      "(default: folders in the names of samples, where each class has one)"),
    OPTION_OVERWRITE, OPTION_JSON, OPTION_END
};
static const tool_option merge_options[] = { OPTION_NEW, OPTION_OVERWRITE, OPTIONS_DATASET, OPTION_JSON, OPTION_END };
static const tool_option subset_options[] = {
    OPTION_NEW,
    TEXT("indices", indices, "FILE", "numbers of samples, from 0"),
    TEXT("class", class_name, "NAME", "a class, by its name or its number"),
    OPTION_OVERWRITE, OPTIONS_DATASET, OPTION_JSON, OPTION_END
};
static const tool_option convert_options[] = {
    OPTION_OUT("OUT", "what to write: OUT/, OUT.tar, OUT.rec or OUT.bzna"),
    INTEGER("shard-size", shard_size, 1, 1e12, "N", NULL, "samples a file: OUT-000000.tar and so on"),
    FLAG("shuffle", shuffle, "in an order of chance, the same for the same --seed"),
    OPTION_SEED("of that order"),
    INTEGER("quality", quality, 1, 100, "N", "95", "of JPEG that frames of video become"),
    OPTION_OVERWRITE, OPTIONS_DATASET, OPTION_JSON, OPTION_END
};
static const tool_option split_options[] = {
    OPTION_NEW,
    INTEGER("parts", parts, 1, 99999, "N", NULL, "how many archives"),
    OPTION_OVERWRITE, OPTIONS_DATASET, OPTION_JSON, OPTION_END
};
static const tool_option dataset_options[] = { OPTIONS_DATASET, OPTION_JSON, OPTION_END };
static const tool_option extract_options[] = {
    OPTION_OUT("FILE", "the file to write, - for standard output; its extension selects the format"),
    TEXT("as", as, "png|ppm|yuv|jpg|h265|h264|obu",
      "the format, whatever the file's name is (default of standard output: png)"),
    OPTION_TRACK("the picture of the sample to extract: its field, image or thumb\n"
                 "(default: an archive's full picture, else the first one)"),
    TEXT("field", field, "NAME",
      "a field instead of a decoded picture: printed, or written to -o's\n"
      "file; numbers as text, everything else as it is"),
    FLAG("md5", md5, "print the MD5 of the decoded frame's planes, padding included"),
    OPTIONS_DATASET, OPTION_JSON, OPTION_END
};
static const tool_option verify_options[] = {
    FLAG("decode", decode, "also decode every picture"),
    OPTION_JOBS("threads (default: one for each processor)"),
    OPTIONS_DATASET, OPTION_JSON, OPTION_END
};
static const tool_option batch_options[] = {
    OPTION_OUT("DIR", "the folder to write to, created if necessary; required"),
    OPTION_BATCH(65536, "16", "batch size"),
    OPTION_SEED("seed of the order and of the augmentation"),
    FLAG("shuffle", shuffle, "in shuffled order instead of the data set's"),
    OPTIONS_TYPE, OPTIONS_LOADER, OPTION_END
};
static const tool_option sheet_options[] = {
    OPTION_OUT("OUT.png", "the file to write; required"),
    OPTION_BATCH(4096, "16", "how many samples, or with --index, draws of one"),
    INTEGER("index", index, -1, 9.2e18, "I", "-1", "sample I alone, drawn N times; -1: any"),
    OPTION_SEED("seed of the order and of the augmentation"),
    FLAG("shuffle", shuffle, "in shuffled order instead of the data set's"),
    OPTIONS_LOADER, OPTION_END
};
static const tool_option view_options[] = {
    OPTION_OUT("OUT.html", "the file to write; required"),
    INTEGER("count", count, 1, 100000, "N", "500", "how many samples"),
    INTEGER("size", size, 16, 1024, "PX", "200", "longest edge of pictures on the page, in pixels"),
    OPTION_SEED("seed of the order"),
    FLAG("shuffle", shuffle, "the first N of a shuffled order instead of the data set's"),
    OPTION_TRACK("the picture of a sample to show: its field, image or thumb\n"
                 "(default: the thumbnail where there is one)"),
    OPTIONS_DATASET, OPTION_END
};
static const tool_option bench_options[] = {
    OPTION_BATCH(65536, "64", "batch size"),
    INTEGER("threads", threads, 1, 1024, "N", NULL,
      "threads of the software decoder (default: one for each processor)"),
    REAL("seconds", seconds, 0.1, 86400, "S", "5", "how long each of the two rates is measured"),
    CHOICE("output", output, "auto|host|device", "auto",
      "memory of the batches\nauto: the device's if there is one and the decoder is not software"),
    OPTIONS_TYPE, OPTIONS_LOADER, OPTION_END
};


/* ---- commands ---- */

#define DATA_HELP \
    "DATA is whatever the library opens: an archive, another mp4, a folder of pictures, a tar shard or a pattern of\n" \
    "several (shard-{000..146}.tar), a .rec, an IDX file of pictures (MNIST's; its labels are those of the file\n" \
    "beside it, train-labels-idx1-ubyte of train-images-idx3-ubyte), or other records of one size, as --records\n" \
    "says.\n\n"

static const tool_command commands[] = {
    { "pack", "DIR|FILE... -o OUT.bzna", "make an archive of pictures",
      "Encodes every picture in DIR as one H.265, H.264 or AV1 frame, or as JPEG, and writes them into an archive.\n"
      "Each folder in DIR is a class; classes are numbered from 0 in the order of their names. Without folders,\n"
      "samples have no target. Folders named train, val, test and the like are splits, not classes: pack each by\n"
      "itself. A file NAME.target beside the picture NAME, or NAME with an extension, is its target.\n"
      "FILE is a picture, or a data set: a tar, a .rec, an archive, a pattern of several. Of their samples, pictures,\n"
      "targets, names, splits and fields are packed. Names are paths in DIR; the archive has the names of classes.\n\n"
      "HEIF, AVIF, and all picture formats of libavcodec are read. EXIF orientations are applied (with --codec copy,\n"
      "they stay in the files' bytes, and loaders apply them), alpha channels dropped. Files that are not readable\n"
      "pictures are left out and listed at the end. Files whose names begin with a dot are ignored. Pictures of more\n"
      "than 512x512 pixels get a thumbnail, which loaders take for small batches; with --codec copy they get none.\n"
      "The same pictures and options give the same bytes.\n\n"
      "The archive is written as OUT.bzna.partial, which is locked, and renamed when it is complete; beside it,\n"
      "OUT.bzna.partial.log says which files are done. A run that was interrupted, killed, or found the disk full\n"
      "goes on where it was with --resume, with the same options and files, and gives the same bytes as one that\n"
      "was not interrupted. Files count as the same while their names, sizes, times of modification and classes\n"
      "are. --resume without anything to go on with begins; where OUT.bzna is complete, it says\n"
      "so, and does nothing.\n\n"
      "With - -o -, for other programs: names of files, each with a NUL behind it, are read from standard input, and\n"
      "coded pictures written to standard output, each behind a line of JSON (see pack_stream.c).\n\n"
      "Exit status: 0 all files packed; 1 some files left out, or an error; 2 bad command line, or OUT.bzna or\n"
      "what an interrupted run has left exists, and neither --resume nor --overwrite says what to do.",
      OPERANDS_ANY, pack_options, tool_run_pack },
    { "info", "DATA", "what a data set is",
      DATA_HELP
      "Prints what kind of data set it is, its size in bytes, the numbers of samples and of targets, the names of\n"
      "classes, and the fields of its samples; of an archive, brands and tracks, too. In JSON, \"targets\" is 0 where\n"
      "no sample has a target, \"size\" null where it is not known, \"mime\" null for a track without one; the number\n"
      "\"classes\" and \"class_names\" are there only where classes have names. Of a .rec, each record says whether\n"
      "it has a target: up to 1000 are read and counted; of more, \"targets\" is null.",
      1, dataset_options, tool_run_info },
    { "list", "DATA", "the samples of a data set",
      DATA_HELP
      "Prints for each sample: index, target, size in bytes, codec, sizes of its pictures (in text, of the first\n"
      "two), name (of a folder, or an archive of one: the path; of tar: the key; of a .rec: as OUT.lst beside it has\n"
      "it, else the record's number), class, and further fields; JSON has offsets in the file, too. Sizes are of the\n"
      "picture as it is seen, turned where its orientation says so; \"frame_width\" and \"frame_height\" are of the\n"
      "coded frame. A missing target or name is \"-\" in text and null in JSON; fields that a sample does not\n"
      "have are left out, and of bytes only their number is printed. Damaged samples are listed with the error,\n"
      "and the exit status is 1.", 1, dataset_options, tool_run_list },
    { "extract", "DATA INDEX|NAME", "one picture or field of a data set",
      DATA_HELP
      "Extracts sample INDEX, from 0, or the one whose file name NAME is. The extension of -o's file selects the\n"
      "format:\n"
      "  .png .ppm            the picture in RGB, upright, without padding\n"
      "  .yuv                 the planes of the decoded frame, padding included, one after the other: Y, Cb, Cr, or\n"
      "                       G, B, R of what is coded in RGB\n"
      "  .jpg .jpeg           a JPEG's own bytes; of other pictures, a JPEG of quality 95, upright\n"
      "  .h265 .h264 .obu     the encoded picture as a bitstream: Annex B, or OBUs of AV1\n"
      "With --field, the value of that field is written instead, or printed without -o: of a picture, its own bytes.",
      2, extract_options, tool_run_extract },
    { "verify", "DATA", "look for damage in a data set",
      DATA_HELP
      "Checks that every sample can be found and read: index entries, boxes, byte ranges, fields, and what its\n"
      "pictures say of themselves; with --decode, also that they decode. Damaged samples (in JSON, \"bad\") are told\n"
      "apart from those that are sound, but not supported here (\"unsupported\"). The exit status is 1 if there is\n"
      "any of either: a loader would deliver neither.", 1, verify_options, tool_run_verify },
    { "batch", "DATA -o DIR", "one batch, as a loader delivers it, as picture files",
      DATA_HELP
      "Loads the first batch of an epoch. Writes each picture as DIR/00000.ppm, DIR/00001.ppm, ..., and all of them\n"
      "on a contact sheet, DIR/contact.ppm and DIR/contact.png.", 1, batch_options, tool_run_batch },
    { "sheet", "DATA -o OUT.png", "samples, or one under several augmentations, on one labelled sheet",
      DATA_HELP
      "Loads the first N samples of an epoch as `bzna batch` does, or one sample N times, and draws them on one PNG.\n"
      "Below each stand its index, its target, and what was drawn: the crop (width x height at left,top of the whole\n"
      "picture), \"mirrored\", \"turned\" by degrees, and so on. With --views, a row has the views of one sample.\n"
      "A sample that fails is black, with its error in red, and the exit status is 1.",
      1, sheet_options, tool_run_sheet },
    { "view", "DATA -o OUT.html", "a page of samples, to look through in a browser",
      DATA_HELP
      "Writes one HTML page that needs no other file and no network: the first N samples, with pictures, indices,\n"
      "targets, names and sizes. The page filters by class, by status and by text. Samples that cannot be read or\n"
      "decoded are marked, with the error; the exit status is 1 then, and the page is complete all the same.",
      1, view_options, tool_run_view },
    { "bench", "DATA", "pictures per second",
      DATA_HELP
      "Measures the rate of a loader (shuffled order, endless epochs) and that of its decoder alone, with as many\n"
      "threads and the encoded pictures in memory. The two take turns, so that other work on the machine slows both.\n"
      "Where NVDEC decodes, only the loader is measured, including all work on the device.",
      1, bench_options, tool_run_bench },
    { "merge", "DATA... -o OUT.bzna", "one archive of several, without encoding",
      "Copies the samples of all data sets, one behind the other, into an archive: pictures as they are coded,\n"
      "targets, names, splits, fields and the names of classes, which must agree. What an archive cannot hold (a PNG\n"
      "in a tar) is left out, by name: bzna pack encodes it.",
      OPERANDS_SOME, merge_options, tool_run_merge },
    { "append", "ARCHIVE DATA...", "add the samples of data sets to an archive",
      "Writes ARCHIVE.partial, with the samples of ARCHIVE and of all others behind them, as bzna merge does, and\n"
      "puts it in ARCHIVE's place when it is complete.", OPERANDS_SOME, dataset_options, tool_run_append },
    { "subset", "DATA -o OUT.bzna", "an archive of some samples, without encoding",
      "Copies samples as bzna merge does: those whose numbers a file has, in its order, or those of a class.",
      1, subset_options, tool_run_subset },
    { "split", "DATA -o OUT.bzna --parts N", "several archives of one, without encoding",
      "Copies the samples, as bzna merge does, into N archives of nearly as many each, one behind the other:\n"
      "OUT-00000-of-00004.bzna and so on.", 1, split_options, tool_run_split },
    { "convert", "DATA -o OUT", "a data set as a folder, tar, RecordIO file or archive",
      "OUT is a folder (OUT/), OUT.tar (as WebDataset has it), OUT.rec (MXNet's, with OUT.idx) or OUT.bzna. JPEG, PNG\n"
      "and other files stay as they are; frames of video, and records, become JPEG, but frames stay so in OUT.bzna.\n"
      "Targets, names and fields are kept, as far as OUT can hold them; what it cannot is said, and counted. A\n"
      "folder has a folder for each class, and OUT.lst where it has other targets or another order by itself. OUT.rec\n"
      "has names and labels in OUT.lst, which is read with it.",
      1, convert_options, tool_run_convert },
    { "diff", "DATA DATA", "in what two data sets differ",
      "Compares sample by sample: names, targets, splits, fields, and pictures as they are coded, without SEI; and\n"
      "the names of classes. The exit status is 0 if nothing differs, and 1 if something does.", 2,
      dataset_options, tool_run_diff },
    { "index", "FILE...", "an index beside each .tar or .rec, so that it opens at once",
      "Writes SHARD.idx beside SHARD.tar, as wds2idx of NVIDIA DALI does: where the members of each sample lie; or\n"
      "RECORDS.idx beside RECORDS.rec, as MXNet does: where its records begin. A file that has one is opened without\n"
      "a walk over its headers. An index that is there is replaced. One that contradicts its file is refused until it\n"
      "is removed or written again. Names with blanks cannot stand in the index of a tar.\n\n"
      "With -o NEW.bzna, an archive that lost its end, or was never indexed: its samples, up to the first that is not\n"
      "whole, are copied into a new one, with fields and splits. The names of classes are the folders in the names\n"
      "of samples, where each class has one, or those of --classes.",
      OPERANDS_SOME, index_options, tool_run_index },
    { "devices", "", "GPUs, and what their video decoders decode",
      "Prints every CUDA device: memory, compute capability, NVDEC engines, and the codecs, chroma formats, bit\n"
      "depths and frame sizes that they decode, with what came of their self-check: NVDEC decodes built-in pictures.\n"
      "Where there is no device, or its driver lacks something, it prints the reason; the exit status is 0 in any\n"
      "case.", 0, json_options, tool_run_devices },
};

static const tool_command *command_find(const char *name)
{
    for (size_t i = 0; i < LENGTH(commands); i++)
        if (!strcmp(name, commands[i].name)) return &commands[i];
    return NULL;
}

static void print_summary(FILE *file)
{
    fputs("usage: bzna COMMAND ...\n\n", file);
    for (size_t i = 0; i < LENGTH(commands); i++)
        fprintf(file, "  bzna %-8s %-18s %s\n", commands[i].name, commands[i].operands, commands[i].summary);
    fputs("\n`bzna help COMMAND` prints a command's options. `bzna --version` prints the version.\n", file);
}

static int unknown_command(const char *name)
{
    if (*name) fprintf(stderr, "bzna: unknown command \"%s\"\n", name);
    print_summary(stderr);
    return EXIT_USAGE;
}

static int command_run(const tool_command *c, int count, char **arguments)
{
    tool_options o;
    int parsed = tool_options_parse(c, count, arguments, &o);
    if (parsed < 0) return EXIT_USAGE;
    if (parsed > 0) return EXIT_OK;
    bzna_records records;
    const char *wrong = o.records ? records_parse(o.records, &records) : NULL;
    if (wrong) return tool_usage_error(c, "--records: \"%s\": %s", o.records, wrong);
    if (!o.out && (c->run == tool_run_pack || c->run == tool_run_batch || c->run == tool_run_sheet ||
                   c->run == tool_run_view))
        return tool_usage_error(c, "-o must be given");
    int result = c->run(&o);
    if ((fflush(stdout) || ferror(stdout)) && result == EXIT_OK)
        result = tool_error("standard output cannot be written");
    return result;
}

/* `bzna help` and `bzna help COMMAND`. */
static int help(const char *name)
{
    const tool_command *c = name ? command_find(name) : NULL;
    if (name && !c) return unknown_command(name);
    if (c) tool_print_help(c);
    else   print_summary(stdout);
    return EXIT_OK;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    av_log_set_level(AV_LOG_QUIET);
    signal(SIGXFSZ, SIG_IGN);             /* a file that may not grow is an error, not the end of the program */
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) return help(argc > 2 ? argv[2] : NULL);
    if (!strcmp(name, "--version")) {
        uint32_t version = bzna_version();
        printf("bzna %" PRIu32 ".%" PRIu32 ".%" PRIu32 "\n", version / 10000, version / 100 % 100, version % 100);
        return EXIT_OK;
    }
    const tool_command *c = command_find(name);
    return c ? command_run(c, argc - 2, argv + 2) : unknown_command(name);
}
