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
 *     bzna index FILE...               an index next to each .tar or .rec, so that it opens at once
 *     bzna devices                     GPUs, and what their video decoders decode
 *
 * The library is used through benzina.h alone; libavformat, libavcodec and libswscale read and encode pictures. A file
 * for each command or kind of them, several for pack; in this one, the tables of commands and options.
 *
 * Exit status: 0 success, 1 bad input, 2 bad command line. */
#include "tool.h"

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
#define OPTION_INDICES \
    TEXT("indices", indices, "FILE", \
      "the samples of an epoch and their order: a file of their numbers,\n" \
      "from 0, which may repeat; - is standard input")
#define OPTION_BATCH(highest, preset, help) INTEGER("batch", batch, 1, highest, "N", preset, help)
#define OPTION_END { NULL, 0, KIND_FLAG, 0, 0, 0, NULL, NULL, NULL }

#define RECORDS_HELP \
    "what each record of a record file holds, in order,\n" \
    "in parts with + between them: WxHxC, bytes in planes (WxHxC:nhwc:\n" \
    "pixels); label (label:int32, ...); skip:BYTES. header:BYTES comes\n" \
    "first and skips bytes before all records. cifar10 is label+32x32x3.\n" \
    "MNIST's IDX files need no --records"

/* How a data set is opened. */
#define OPTION_PAIRS \
    TEXT("pairs", pairs, "A,B", \
      "folders of a folder whose files of the same names make one sample:\n" \
      "images,masks, or image=a/images,mask=a/masks")
#define OPTIONS_DATASET \
    OPTION_PAIRS, \
    TEXT("format", format, "KIND", \
      "refuse data sets of other kinds, as bzna info calls them\n(default: found by content)"), \
    CHOICE("split", split, "train|validation|test", NULL, "the samples of one split of an archive (default: all)"), \
    TEXT("list", list, "FILE", \
      "a list of a folder's files, or labels of a .rec:\n" \
      ".lst (index, labels, path), .csv (path,label), or lines of path label"), \
    TEXT("records", records, "WxHxC[+label]", RECORDS_HELP), \
    TEXT("classes", classes, "A,B,C", \
      "the class folders of a folder, in the order of their numbers;\nothers are left out (default: all)"), \
    CHOICE("class-order", class_order, "text|numeric", "text", \
      "number class folders as 0, 1, 2, 10 (numeric)\nor as 0, 1, 10, 2 (text)"), \
    FLAG("allow-empty", allow_empty, "class folders without pictures are classes, too, with numbers"), \
    CHOICE("orientation", orientation, "apply|ignore", "apply", \
      "rotate pictures as their EXIF data says, or leave them"), \
    CHOICE("palette", palette, "colors|index", "colors", \
      "pictures with a palette become their colors,\nor their indices, as gray")

/* What batch, sheet and bench have in common. */
#define DTYPES "f32|f16|bf16|u8|float32|float16|bfloat16|uint8"
#define FILTERS "nearest|linear|cubic|lanczos|area|cubic-0.75|lanczos4"
#define OPTIONS_TYPE \
    CHOICE("dtype", dtype, DTYPES, "f32", "type of the batches; uint8 is rounded and saturated"), \
    CHOICE("layout", layout, "NCHW|NHWC", "NCHW", "order in memory: planes, or pixels of channels")
#define OPTIONS_LOADER \
    REAL("flip", flip, 0, 1, "P", "0", "probability of a horizontal flip"), \
    REAL("rotate", rotate, 0, 180, "D", "0", "rotate by -D to D degrees, after the warp"), \
    REAL("shear", shear, 0, 89, "D", "0", "then shear by -D to D degrees along x"), \
    REAL("perspective", perspective, 0, 1, "S", "0", \
      "then distort half of the pictures;\nS is torchvision's distortion_scale"), \
    REAL("brightness", brightness, 0, 100, "B", "0", "multiply colors by 1-B to 1+B"), \
    REAL("contrast", contrast, 0, 100, "C", "0", "mix colors (1-C to 1+C) with the mean luma (the rest)"), \
    REAL("saturation", saturation, 0, 100, "S", "0", "mix colors (1-S to 1+S) with their own luma (the rest)"), \
    REAL("hue", hue, 0, 0.5, "H", "0", "shift hues by -H to H of the color wheel"), \
    REAL("grayscale", grayscale, 0, 1, "P", "0", "probability of gray in all channels"), \
    REAL("random-h", hls[0], 0, 180, "H", "0", "MXNet's random_h: hue, of 180"), \
    REAL("random-l", hls[1], 0, 255, "L", "0", "MXNet's random_l: lightness, of 255"), \
    REAL("random-s", hls[2], 0, 255, "S", "0", "MXNet's random_s: saturation, of 255"), \
    REAL("max-random-contrast", max_contrast, 0, 0.999, "C", "0", "MXNet's max_random_contrast, about 0"), \
    REAL("max-random-illumination", max_illumination, 0, 1e6, "I", "0", "MXNet's max_random_illumination, of 255"), \
    CHOICE("augment", augment, "none|rand|trivial|auto", "none", \
      "draw operations, too; rand: RandAugment, 2 of magnitude 9;\n" \
      "trivial: TrivialAugmentWide; auto: ImageNet's AutoAugment"), \
    REAL("erase", erase, 0, 1, "P", "0", "then erase a rectangle with probability P"), \
    CHOICE("channels", channels, "RGB|BGR|gray|grey", "RGB", "channels and their order; gray is one, the luma"), \
    CHOICE("warp", warp, "random|center|none", "random", \
      "random: random resized crop; center: center resized crop;\nnone: center crop, not resized"), \
    CHOICE("crops", crops, "auto|benzina|torchvision", "auto", \
      "how crops are drawn; auto: as torchvision does"), \
    CHOICE("filter", filter, FILTERS, "linear", "how pixels are resampled"), \
    FLAG("antialias", antialias, "widen the filter if a picture shrinks (this is the default)"), \
    { "no-antialias", 0, KIND_FLAG, FIELD(antialias), -1, 0, NULL, NULL, "do not widen the filter" }, \
    FLAG("jpeg-shrink", jpeg_shrink, \
      "decode JPEG at 1/2, 1/4 or 1/8 of its size\nif the warp shrinks it by as much"), \
    REAL("jpeg-shrink-margin", jpeg_shrink_margin, 1, 64, "S", "1", \
      "with --jpeg-shrink: decode smaller only if the warp still\nshrinks that S-fold"), \
    INTEGER("size", size, 1, 16384, "PX", "224", "edge of the square output, in pixels"), \
    INTEGER("views", views, 1, 64, "N", "1", "views of each picture, each with a warp of its own"), \
    OPTION_TRACK("the picture of a sample to load: its field, image or thumb\n" \
                 "(default: sizes up to 512 load the thumbnail if there is one)"), \
    FLAG("hybrid", hybrid, "decode in software, too, while NVDEC has more pictures than\nit can begin"), \
    FLAG("no-threads", no_threads, "read and decode on the command's own thread, in software"), \
    CHOICE("decoder", decoder, "auto|software|nvdec", "auto", "which decoder to use"), \
    CHOICE("jpeg-decoder", jpeg_decoder, "auto|software|nvdec", "auto", \
      "nvdec: NVDEC decodes baseline JPEG of 4:2:0, too,\nor the command fails"), \
    { "device", 0, KIND_DEVICE, FIELD(device), 0, 0, "auto|cpu|N", "auto", \
      "auto: a GPU if there is one; cpu: no GPU; N: CUDA device N" }, \
    INTEGER("sessions", sessions, 1, 256, "N", NULL, \
      "NVDEC sessions (default: four for each NVDEC engine, three for one)"), \
    OPTIONS_DATASET, OPTION_JSON

static const tool_option pack_options[] = {
    OPTION_OUT("OUT.bzna", "the archive to write; required"),
    CHOICE("codec", codec, "h265|h264|av1|jpeg|copy", NULL,
      "codec of the pictures; copy keeps JPEG files as they are,\n"
      "and encodes others as jpeg (default: h265, or that of --encoder)"),
    TEXT("encoder", encoder, "NAME",
      "libavcodec's encoder, as in `ffmpeg -encoders`: hevc_nvenc, libsvtav1\n"
      "(default: libx265, libx264, libaom-av1); JPEG is libjpeg-turbo's"),
    REAL("crf", crf, 0, 51, "N", "20",
      "constant rate factor of h265, h264 and av1, from 0 to 51;\nlower is better and larger"),
    TEXT("preset", preset, "NAME",
      "preset of the encoder; slower ones give smaller files. ultrafast,\n"
      "superfast, veryfast, faster, fast, medium, slow, slower, veryslow,\n"
      "placebo (default medium);\n"
      "another --encoder has presets of its own (default: its own default)"),
    CHOICE("chroma", chroma, "420|444", NULL,
      "444 keeps colors at full resolution; it is larger,\nand fewer GPUs decode it (default 420)"),
    FLAG("lossless", lossless, "for h265, h264, av1: lose nothing beyond the conversion to 8-bit Y'CbCr"),
    FLAG("tune-decode", tune_decode,
      "for h265, h264: pictures that are faster to decode, and larger\n(tune fastdecode)"),
    TEXT("quality", quality_name, "NAME|N",
      "for every codec: visually-lossless (no difference is seen), jpeg-90\n"
      "(as good as JPEG of quality 90) or small. For jpeg alone: N, from 1 to\n"
      "100 as libjpeg counts it (default: what --crf says; jpeg: 90)"),
    INTEGER("max-edge", max_edge, 1, 16384, "PX", NULL, "scale down pictures with a longer edge"),
    INTEGER("max-short-edge", max_short_edge, 1, 16384, "PX", NULL, "scale down pictures whose short edge is longer"),
    TEXT("frame", frame, "auto|N|exact",
      "edges of coded frames: multiples of 512 (auto) or of N, or the\n"
      "picture's edges rounded up to 16 (exact). They are at least what\n"
      "NVDEC decodes: 144 (h265), 48 (h264), 128 (av1)"),
    TEXT("thumb", thumb, "PX|none",
      "longest edge of thumbnails, from 16 to 512; pictures that are\nnot longer get none (default 512)"),
    TEXT("background", background, "COLOR",
      "the color under transparent pixels: white, black, gray, #rrggbb\n"
      "(default: alpha is dropped, and the colors under it show)"),
    CHOICE("icc", icc, "ignore|convert", "ignore",
      "convert pictures with color profiles to sRGB, or ignore the\n"
      "profiles, as loaders, torchvision, DALI and FFCV do"),
    CHOICE("check", check, "decode|headers", "decode",
      "how --codec copy checks JPEG files: decode every one, or look at\n"
      "headers and end markers only, which is many times as fast and does\n"
      "not notice damage between them"),
    TEXT("list", list, "FILE",
      "which files of the folder to pack, in this order, with labels;\n"
      "or the labels of a .rec: .lst (index, label, path, tabs between),\n"
      ".csv (path,label), or lines of path label"),
    TEXT("records", records, "WxHxC[+label]", RECORDS_HELP),
    OPTION_PAIRS,
    TEXT("targets", targets, "FILE",
      "targets of all files: lines of NAME,TARGET, or of TARGET\nin the order of the files"),
    TEXT("shard", shard, "I/N",
      "only share I of N, from 0/N to N-1/N; all shares in their order\n"
      "make the whole, and are of nearly equal size"),
    OPTION_JOBS("number of processes that encode; it does not change the archive\n(default: one for each processor)"),
    TEXT("classes", classes, "FILE",
      "names of the class folders, one a line, in the order of their numbers;\nother folders are refused"),
    TEXT("splits", splits, "S=DIR,...",
      "train=DIR,validation=DIR,test=DIR instead of DIR: folders of the\n"
      "same classes. The archive has them in that order, each as a split with its name"),
    CHOICE("class-order", class_order, "numeric|text", NULL,
      "number class folders as 0, 1, 2, 10 (numeric) or 0, 1, 10, 2 (text)\n"
      "(default: text, with a warning if the two differ)"),
    TEXT("report", report, "FILE",
      "write PSNR and SSIM of every picture, and files left out:\n"
      ".json, or .html with the worst 20 pictures next to their sources"),
    FLAG("resume", resume, "continue an interrupted run, and encode only what it has not done"),
    FLAG("overwrite", overwrite, "replace OUT.bzna if it exists, and the rest of an interrupted run"),
    OPTION_JSON, OPTION_END
};
static const tool_option json_options[] = { OPTION_JSON, OPTION_END };
#define OPTION_OVERWRITE FLAG("overwrite", overwrite, "replace an output that exists")
#define OPTION_NEW OPTION_OUT("OUT.bzna", "the archive to write")
static const tool_option index_options[] = {
    OPTION_NEW,
    TEXT("classes", classes, "FILE",
      "names of the classes of NEW.bzna, one a line\n"
      "(default: folders in the names of samples, if each class has one)"),
    OPTION_OVERWRITE, OPTION_JSON, OPTION_END
};
static const tool_option merge_options[] = { OPTION_NEW, OPTION_OVERWRITE, OPTIONS_DATASET, OPTION_JSON, OPTION_END };
static const tool_option subset_options[] = {
    OPTION_NEW,
    TEXT("indices", indices, "FILE", "a file of numbers of samples, counted from 0; - is standard input"),
    TEXT("class", class_name, "NAME", "a class, by its name or its number"),
    OPTION_OVERWRITE, OPTIONS_DATASET, OPTION_JSON, OPTION_END
};
static const tool_option convert_options[] = {
    OPTION_OUT("OUT", "the output: OUT/, OUT.tar, OUT.rec or OUT.bzna"),
    INTEGER("shard-size", shard_size, 1, 1e12, "N", NULL, "samples in each file: OUT-000000.tar and so on"),
    FLAG("shuffle", shuffle, "write samples in a random order, which is the same for the same --seed"),
    OPTION_SEED("seed of that order"),
    INTEGER("quality", quality, 1, 100, "N", "95", "quality of the JPEG that frames of video and records become"),
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
      "a field instead of a decoded picture, printed or written to the file of -o:\n"
      "numbers as text, everything else as it is"),
    FLAG("md5", md5, "print the MD5 of the decoded frame's planes, padding included"),
    OPTIONS_DATASET, OPTION_JSON, OPTION_END
};
static const tool_option verify_options[] = {
    FLAG("decode", decode, "also decode every picture"),
    OPTION_JOBS("number of threads (default: one for each processor)"),
    OPTIONS_DATASET, OPTION_JSON, OPTION_END
};
static const tool_option batch_options[] = {
    OPTION_OUT("DIR", "the folder to write to, created if necessary; required"),
    OPTION_BATCH(65536, "16", "batch size"),
    OPTION_SEED("seed of the order and of the augmentation"),
    FLAG("shuffle", shuffle, "load in shuffled order instead of the data set's"),
    OPTION_INDICES,
    OPTIONS_TYPE, OPTIONS_LOADER, OPTION_END
};
static const tool_option sheet_options[] = {
    OPTION_OUT("OUT.png", "the file to write; required"),
    OPTION_BATCH(4096, "16", "how many samples, or with --index how many draws of one"),
    INTEGER("index", index, -1, 9.2e18, "I", "-1", "sample I alone, drawn N times; -1: any"),
    OPTION_SEED("seed of the order and of the augmentation"),
    FLAG("shuffle", shuffle, "load in shuffled order instead of the data set's"),
    OPTION_INDICES,
    OPTIONS_LOADER, OPTION_END
};
static const tool_option view_options[] = {
    OPTION_OUT("OUT.html", "the file to write; required"),
    INTEGER("count", count, 1, 100000, "N", "500", "how many samples"),
    INTEGER("size", size, 16, 1024, "PX", "200", "longest edge of pictures on the page, in pixels"),
    OPTION_SEED("seed of the order"),
    FLAG("shuffle", shuffle, "the first N of a shuffled order instead of the data set's"),
    OPTION_TRACK("the picture of a sample to show: its field, image or thumb\n"
                 "(default: the thumbnail if there is one)"),
    OPTIONS_DATASET, OPTION_END
};
static const tool_option bench_options[] = {
    OPTION_BATCH(65536, "64", "batch size"),
    INTEGER("threads", threads, 1, 1024, "N", NULL,
      "threads of the software decoder (default: one for each processor)"),
    REAL("seconds", seconds, 0.01, 86400, "S", "5", "how long each of the two rates is measured"),
    OPTION_INDICES,
    CHOICE("output", output, "auto|host|device", "auto",
      "memory of the batches; auto: the device's if there is one\nand the decoder is not software"),
    OPTIONS_TYPE, OPTIONS_LOADER, OPTION_END
};


/* ---- commands ---- */

#define DATA_HELP \
    "DATA is any data set that the library opens: an archive, another mp4, a folder of pictures, a tar shard or a\n" \
    "pattern of several (shard-{000..146}.tar), a .rec, an IDX file of pictures, or other record files, which\n" \
    "--records describes. IDX files are MNIST's; their labels are those of the file next to them\n" \
    "(train-labels-idx1-ubyte for train-images-idx3-ubyte).\n\n"

static const tool_command commands[] = {
    { "pack", "DIR|FILE... -o OUT.bzna", "make an archive of pictures",
      "Encodes every picture in DIR as one H.265, H.264 or AV1 frame, or as JPEG, and writes them into an archive.\n"
      "Each folder in DIR is a class. Classes are numbered from 0 in the order of their names. Without such folders,\n"
      "samples have no target. Folders named train, val, test and the like are splits, not classes: pack each by\n"
      "itself. A file NAME.target next to the picture NAME, or NAME with an extension, is its target.\n"
      "FILE is a picture, or a data set: a tar, a .rec, an archive, a pattern of several. The pictures, targets,\n"
      "names, splits and fields of its samples are packed. The name of a sample is its path in DIR. The archive\n"
      "has the names of the classes.\n\n"
      "pack reads the pictures that loaders read, and all picture formats of libavcodec. It applies EXIF orientations\n"
      "and drops alpha channels. It leaves out files that are not readable pictures, and lists them at the end. It\n"
      "ignores files whose names begin with a dot. Pictures of more than 512x512 pixels get a thumbnail, which\n"
      "loaders decode for small outputs. With --codec copy, orientations stay in the files' bytes, loaders apply\n"
      "them, and there are no thumbnails. The same pictures and options give the same bytes.\n\n"
      "The archive is written as OUT.bzna.partial, which is locked, and renamed when it is complete. The file\n"
      "OUT.bzna.partial.log next to it says which files are done. If a run was interrupted, was killed, or found\n"
      "the disk full, --resume continues it, with the same options and files, and gives the same bytes as an\n"
      "uninterrupted run. Files count as the same while their names, sizes, times of modification and classes are\n"
      "the same. If there is nothing to continue, the run starts from the beginning. If OUT.bzna is complete, the\n"
      "command says so and does nothing.\n\n"
      "With - -o -, for other programs: standard input has names of files, each followed by a NUL, and standard\n"
      "output gets the coded pictures, each after a line of JSON (see pack_stream.c).\n\n"
      "Exit status: 0 all files were packed; 1 some files were left out, or an error; 2 bad command line, or\n"
      "OUT.bzna or the rest of an interrupted run exists, and neither --resume nor --overwrite was given.",
      OPERANDS_ANY, pack_options, tool_run_pack },
    { "info", "DATA", "describe a data set",
      DATA_HELP
      "Prints the kind of data set, its size in bytes, the numbers of samples and of targets, the names of the\n"
      "classes, and the fields of its samples; for an archive also brands and tracks.\n\n"
      "In JSON, \"targets\" is 0 if no sample has a target, \"size\" is null if it is not known, and \"mime\" is null\n"
      "for a track without one. The number \"classes\" and \"class_names\" are present only if classes have names.\n"
      "In a .rec each record says whether it has a target: up to 1000 records are read and counted; with more,\n"
      "\"targets\" is null.",
      1, dataset_options, tool_run_info },
    { "list", "DATA", "print one line for each sample",
      DATA_HELP
      "Prints for each sample: index, target, size in bytes, codec, sizes of its pictures (in text, of the first\n"
      "two), name, class, and further fields. JSON also has offsets in the file.\n\n"
      "The name is the path in a folder or in an archive made of one, the key in a tar, and in a .rec the name in\n"
      "OUT.lst next to it, else the number of the record. Sizes are those of the picture as it is seen, rotated\n"
      "if its orientation says so; \"frame_width\" and \"frame_height\" are those of the coded frame. A missing\n"
      "target or name is \"-\" in text and null in JSON. Other fields that a sample does not have are left out, and\n"
      "only the number of bytes is printed of a field of bytes. Damaged samples are listed with the error, and the\n"
      "exit status is 1.", 1, dataset_options, tool_run_list },
    { "extract", "DATA INDEX|NAME", "write one picture or field of a sample",
      DATA_HELP
      "Extracts sample INDEX, counted from 0, or the sample with the file name NAME. The extension of the file\n"
      "that -o names selects the format:\n"
      "  .png .ppm            the picture in RGB, upright, without padding\n"
      "  .yuv                 the planes of the decoded frame, padding included, one after the other: Y, Cb, Cr,\n"
      "                       or G, B, R for a picture coded in RGB\n"
      "  .jpg .jpeg           a JPEG's own bytes; for other pictures a JPEG of quality 95, upright\n"
      "  .h265 .h264 .obu     the encoded picture as a bitstream: Annex B, or OBUs of AV1\n"
      "With --field, the value of that field is written, or printed without -o. For a picture these are its own\n"
      "bytes.",
      2, extract_options, tool_run_extract },
    { "verify", "DATA", "look for damage in a data set",
      DATA_HELP
      "Checks that every sample can be found and read: index entries, boxes, byte ranges, fields, and what the\n"
      "pictures' headers say. With --decode it also decodes every picture.\n\n"
      "It distinguishes damaged samples (in JSON, \"bad\") from samples that are sound but not supported here\n"
      "(\"unsupported\"). A loader delivers neither. If there is any of either, the exit status is 1.",
      1, verify_options, tool_run_verify },
    { "batch", "DATA -o DIR", "write one batch, as a loader delivers it, as picture files",
      DATA_HELP
      "Loads the first batch of an epoch. Writes each picture as DIR/00000.ppm, DIR/00001.ppm, ..., and all of\n"
      "them on a contact sheet, DIR/contact.ppm and DIR/contact.png.", 1, batch_options, tool_run_batch },
    { "sheet", "DATA -o OUT.png", "draw samples, or one under several augmentations, on a labelled sheet",
      DATA_HELP
      "Loads the first N samples of an epoch as `bzna batch` does, or one sample N times, and draws them on one\n"
      "PNG. The index, the target and the random values are below each picture: the crop (width x height at\n"
      "left,top of the whole picture), \"mirrored\", \"turned\" by degrees, and so on. With --views, a row has the\n"
      "views of one sample. A sample that fails is black, with its error in red, and the exit status is 1.",
      1, sheet_options, tool_run_sheet },
    { "view", "DATA -o OUT.html", "make a page of samples for a browser",
      DATA_HELP
      "Writes one HTML page that needs no other file and no network. It shows the first N samples with pictures,\n"
      "indices, targets, names and sizes, and filters them by class, by status and by text. Samples that cannot\n"
      "be read or decoded are marked with the error. The exit status is then 1, and the page is complete all the\n"
      "same.",
      1, view_options, tool_run_view },
    { "bench", "DATA", "measure pictures per second",
      DATA_HELP
      "Measures the rate of a loader (shuffled order, endless epochs) and the rate of its decoder alone, with as\n"
      "many threads and the encoded pictures in memory. The two run in turns, so that other work on the machine\n"
      "slows both. If NVDEC decodes, only the loader is measured, including all work on the device.",
      1, bench_options, tool_run_bench },
    { "merge", "DATA... -o OUT.bzna", "join data sets in one archive, without encoding",
      "Copies the samples of all data sets into one archive, one data set after the other: pictures as they are\n"
      "coded, targets, names, splits, fields and the names of classes, which must agree. Samples that an archive\n"
      "cannot hold (a PNG in a tar) are left out, by name; bzna pack encodes them.",
      OPERANDS_SOME, merge_options, tool_run_merge },
    { "append", "ARCHIVE DATA...", "add the samples of data sets to an archive",
      "Writes ARCHIVE.partial with the samples of ARCHIVE, followed by all others, as bzna merge does, and\n"
      "replaces ARCHIVE by it when it is complete.", OPERANDS_SOME, dataset_options, tool_run_append },
    { "subset", "DATA -o OUT.bzna", "copy some samples into an archive, without encoding",
      "Copies samples as bzna merge does: those whose numbers a file lists, in its order, or those of a class.",
      1, subset_options, tool_run_subset },
    { "split", "DATA -o OUT.bzna --parts N", "make several archives of one, without encoding",
      "Copies the samples, as bzna merge does, into N archives of nearly equal size, one after the other:\n"
      "OUT-00000-of-00004.bzna and so on.", 1, split_options, tool_run_split },
    { "convert", "DATA -o OUT", "write a data set as a folder, tar, RecordIO file or archive",
      "OUT is a folder (OUT/), OUT.tar (as WebDataset writes it), OUT.rec (MXNet's, with OUT.idx) or OUT.bzna.\n"
      "JPEG, PNG, TIFF and other files stay as they are. Records, HEIF, and frames of video, become JPEG; in\n"
      "OUT.bzna frames stay frames.\n\n"
      "Targets, names and fields are kept as far as OUT can hold them. The command says what is lost of the first\n"
      "sample, and counts the others. A folder has a folder for each class, and OUT.lst if its own targets or\n"
      "order would differ. OUT.rec has names and labels in OUT.lst, which is read with it.",
      1, convert_options, tool_run_convert },
    { "diff", "DATA DATA", "compare two data sets",
      "Compares sample by sample: names, targets, splits, fields, and the coded pictures without SEI; and the\n"
      "names of classes. The exit status is 0 if nothing differs, and 1 if something does.", 2,
      dataset_options, tool_run_diff },
    { "index", "FILE...", "write an index next to each .tar or .rec, so that it opens at once",
      "Writes SHARD.idx next to SHARD.tar, as wds2idx of NVIDIA DALI does: where the members of each sample are.\n"
      "Or writes RECORDS.idx next to RECORDS.rec, as MXNet does: where its records begin. A file with an index is\n"
      "opened without a walk over its headers. An index that exists is replaced. An index that contradicts its\n"
      "file is refused until it is removed or written again. The index of a tar cannot hold names with blanks.\n\n"
      "With -o NEW.bzna, the command rescues an archive that lost its end or was never indexed. It copies the\n"
      "samples up to the first incomplete one into a new archive, with fields and splits. The names of classes\n"
      "are the folders in the names of samples, if each class has exactly one, or those of --classes.",
      OPERANDS_SOME, index_options, tool_run_index },
    { "devices", "", "print the GPUs, and what their video decoders decode",
      "Prints every CUDA device: memory, compute capability, NVDEC engines, and the codecs, chroma formats, bit\n"
      "depths and frame sizes that they decode. If there is no device, or if its driver lacks something, it\n"
      "prints the reason and what to do. The exit status is 0 in any case.", 0, json_options, tool_run_devices },
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
        fprintf(file, "  bzna %-8s %-26s %s\n", commands[i].name, commands[i].operands, commands[i].summary);
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
        return tool_usage_error(c, "-o is required");
    return c->run(&o);
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

static int run(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) return help(argc > 2 ? argv[2] : NULL);
    if (!strcmp(name, "--version")) {
        uint32_t version = bzna_version();
        printf("bzna %" PRIu32 ".%" PRIu32 ".%" PRIu32 "\n", version / 10000, version / 100 % 100, version % 100);
        return EXIT_OK;
    }
    const tool_command *c = command_find(name);
    return c ? command_run(c, argc - 2, argv + 2) : unknown_command(name);
}

int main(int argc, char **argv)
{
    os_start(&argc, &argv);
    av_log_set_level(AV_LOG_QUIET);
    return tool_stdout_end(run(argc, argv));
}
