/* benzina.h - pictures for training neural networks, decoded as fast as the hardware can
 *
 * A data set is a folder, tar shards, RecordIO, or an archive (.bzna) of JPEG or of single H.265,
 * H.264 or AV1 frames, or several of these. The library decodes their pictures, warps and
 * normalizes them in one pass, and hands over whole batches: shuffled, several in flight, with the
 * same pixels in the same order for the same seed, whatever the number of threads. MIT license.
 *
 * This comment is the manual. Its chapters:
 *
 *    1  Vendoring and building        6  Errors                       11  The GPU
 *    2  The first program             7  Color and coordinates        12  Kinds of data sets
 *    3  Objects, structs, lifetimes   8  Limits and hostile files     13  What it does not do
 *    4  Threads and callbacks         9  Determinism and resuming
 *    5  Memory                       10  Versions and the ABI
 *
 * 1. VENDORING AND BUILDING
 * `make dist` writes the pair, kernels inside, to build/dist. Copy it, compile benzina.c as C11:
 *
 *     cc -std=c11 -O3 -ffp-contract=off -c benzina.c \
 *        $(pkg-config --cflags libavcodec libavutil libjpeg ffnvcodec)
 *     cc program.c benzina.o $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl
 *
 * -ffp-contract=off keeps results equal between machines with and without fused multiply-add.
 * benzina.c tells gcc and clang so itself, but clang with -ffp-contract=fast does not listen. It
 * refuses -ffast-math. In a file that includes benzina.c, this holds for what follows it, too.
 * Switches, defined when benzina.c is compiled; structs and functions are the same with each:
 *
 *     BENZINA_NO_CUDA      no GPU path, and no need of nv-codec-headers (ffnvcodec): chapter 11
 *     BENZINA_NO_AVCODEC   no libavcodec: no software decoder but that of JPEG
 *     BENZINA_NO_JPEG      no libjpeg-turbo: libavcodec decodes JPEG, more slowly, not arithmetic
 *     BENZINA_NO_WRITER    no writer: bzna_writer_open returns E_UNSUPPORTED
 *     BENZINA_NO_SHARDS    neither tar nor RecordIO
 *     BENZINA_NO_HEIF      neither HEIF nor AVIF
 *     BENZINA_STATIC       every function is static: for `#include "benzina.c"` in a file of yours
 *     BENZINA_HIDDEN       no function is exported: for a plugin or shared library with a copy of
 *                          the pair inside. Several copies may then live in one process
 *
 * 2. THE FIRST PROGRAM
 *     #include "benzina.h"
 *     #include <stdio.h>
 *
 *     int main(int argc, char **argv)
 *     {
 *         bzna_context *context = NULL;  bzna_dataset *dataset = NULL;
 *         bzna_loader *loader = NULL;  bzna_batch *batch;  bzna_batch_info info;
 *         bzna_loader_config config;  bzna_error err;  bzna_status status;
 *
 *         bzna_error_init(&err, sizeof err);
 *         bzna_loader_config_init(&config, sizeof config);
 *         config.output.batch_size = 16;  config.output.width = config.output.height = 224;
 *         config.order.kind = BZNA_ORDER_SHUFFLE;  config.order.seed = 1234;
 *         config.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;  config.warp.flip_h = 0.5;
 *
 *         if ((status = bzna_context_open(NULL, &context, &err)) == BZNA_OK &&
 *             (status = bzna_dataset_open(context, argc > 1 ? argv[1] : "train.bzna", NULL,
 *                                         &dataset, &err)) == BZNA_OK &&
 *             (status = bzna_loader_open(context, dataset, &config, &loader, &err)) == BZNA_OK)
 *             while (!(status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err))) {
 *                 bzna_batch_get_info(batch, &info, sizeof info, &err);
 *                 printf("%u pictures, %u of them failed\n", info.count, info.failed);
 *                 bzna_batch_release(batch);
 *             }
 *         if (status < 0) fprintf(stderr, "%s\n", err.message);
 *         bzna_loader_close(loader);  bzna_dataset_close(dataset);  bzna_context_close(context);
 *         return status < 0;
 *     }
 *
 * 3. OBJECTS, STRUCTS, LIFETIMES
 *     bzna_context   allocator, log, limits, device; shared by everything below
 *     bzna_dataset   immutable samples with named fields, from one container or several
 *     bzna_loader    order + warps + threads over one dataset; yields batches
 *     bzna_batch     one batch on loan from a loader; give it back with bzna_batch_release
 *     bzna_decoder   decodes single pictures, without a loader
 *     bzna_writer    writes an archive
 *
 * All are opaque. X_open makes one and sets *out (NULL when it fails); X_close ends it; closing
 * NULL does nothing. An object keeps alive what it was made from: contexts, datasets and loaders
 * may be closed in any order, and a batch on loan stays readable after its loader was closed, until
 * it is released. What is closed must not be used again by its owner.
 *
 * Structs that you fill in are prepared by bzna_X_init(&x, sizeof x); then set what you need: zero
 * means the documented default. (Two are not zero: bzna_transform, which is the identity, and the
 * target of bzna_sample_desc, none.) They are checked when used, and an error's message names the
 * field. bzna_X_get_info(x, &info, sizeof info, &err) tells about an object. Three structs are
 * given by a call and taken by another: bzna_image, _picture, _loader_state. Reserved words are 0.
 * A struct_size below 4 is E_STRUCT_SIZE. In bzna_error alone, 0 stands for the size of the library
 * that runs, so that `bzna_error err = {0};` works. The library never writes past its own size of a
 * struct, whatever struct_size or struct_size arguments say: chapter 10.
 *
 * 4. THREADS AND CALLBACKS
 * All but decoders may be used by any thread, concurrently, with two limits: one thread at a time
 * may wait in bzna_loader_next (a second one gets E_STATE), and a batch is released once.
 *
 *     callback                     is called on
 *     allocator.alloc, .release    any thread, concurrently
 *     device_allocator             the caller's thread; a loader's threads, for staging memory
 *     source.read_at               the loader's readers, concurrently; else the caller's thread
 *     source.size                  the caller's thread, in bzna_dataset_open_source
 *     source.close                 the thread that releases the dataset last
 *     sink.write_at, .close        a thread that adds, finishes or closes; never concurrently
 *     log                          the caller's thread, inside bzna_* calls, unless log_any_thread
 *     transform, picture           the loader's decoders, the context's sessions, concurrently
 *
 * No lock is held while a callback runs. Callbacks must return: the library waits for them when it
 * closes. Callbacks must not close any object (X_close returns E_STATE there, and does nothing),
 * and no C++ exception and no longjmp may leave one: the frames above it are C and would not be
 * undone. The library's threads block signals, except those that a thread causes itself (SIGSEGV,
 * SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS). After fork() a child must not use objects made by its
 * parent: loaders return E_STATE there, and so does whatever would touch CUDA.
 *
 * 5. MEMORY
 * What the library allocates goes through the context's allocator, and is released with its size.
 * The alignment asked for is a power of two: 16 for most blocks, 64 for batches, never more.
 * (libavcodec and libjpeg-turbo allocate by their own means, NVIDIA's driver does so.) A loader
 * allocates its batches, queues and threads when it is opened; its read buffers grow to the largest
 * sample met; after that it allocates nothing per batch. The index of an archive that is opened by
 * its path stays in the file: entries are read when they are needed, in blocks of which a context
 * keeps 2 MiB for all its files; a data set keeps a byte for 64 targets, and nothing is allocated
 * per sample. From a source, the index (12 bytes a sample and track) is read in one piece. Memory
 * that is opened as a data set must stay as it is: where it is a mapped file, that file must not be
 * shortened.
 *
 * 6. ERRORS
 * A bzna_status is 0 (BZNA_OK), a positive note (BZNA_END, BZNA_AGAIN), or a negative error. Every
 * call that can fail takes, as its last argument, a bzna_error of the caller's, or NULL; X_close
 * and bzna_batch_release, which fail only with E_STATE, take none. Not listed below are E_ARGUMENT
 * for what must not be NULL, E_STRUCT_SIZE for a struct_size that does not fit, E_MEMORY, and
 * E_STATE for what chapter 4 forbids in callbacks and after fork.
 *
 * A sample that cannot be read or decoded costs its own slot of the batch, which is filled with the
 * out-of-bounds color; its status says why (bzna_batch_error has the message). No other changes.
 * errors.policy has other ways. A callback that fails is a fault of the program, not of the data:
 * E_CALLBACK ends the run, whatever errors.policy is, unless errors.callback_policy says otherwise.
 *
 * Errors are returned, never printed. What libavcodec prints in no decoder's name ("nb_cpb 0
 * invalid") goes through its process-wide log, which is the program's to set: av_log_set_level.
 *
 * 7. COLOR AND COORDINATES
 * A homography H (3x3, row-major) maps OUTPUT pixel coordinates to INPUT pixel coordinates of the
 * picture, turned and without padding; integers are pixel centers: [X Y W]' = H [x y 1]', sampled
 * at (X/W, Y/W). What lies more than half a pixel outside [0, width-1] x [0, height-1], and NaN,
 * gives the out-of-bounds color; within that half pixel LINEAR and NEAREST use the border pixel.
 *
 * Y'CbCr is filtered with the stream's chroma siting and converted to R'G'B' in [0, 255],
 * unrounded, by the matrix and range of the container (colr; QuickTime's nclc has no range), else
 * of the stream (VUI, AV1's sequence header). Where neither says any, it is BT.601 at any size,
 * full-range in archives and in tracks that are called bzna_..., limited-range elsewhere, as FFmpeg
 * takes it. HEIF and AVIF files that have the brand miaf among those of ftyp follow its standard
 * (ISO/IEC 23000-22), by which such a picture is full-range. FFmpeg and libheif take these for
 * limited-range, too: they differ by 8 to 12 of 255. Pixels never decide it. Then
 * y = (x - bias) * scale for each channel (or by mean and std: bzna_loader_color).
 *
 * 8. LIMITS AND HOSTILE FILES
 * Every length, count and offset of a file is checked before use. Boxes nest 16 deep, movies have
 * 64 tracks at most; max_sample_bytes and max_edge_px bound samples and pictures; a still of over
 * 64 MiB of pixels needs a byte for each 4096. A damaged index entry fails its sample, when used.
 *
 * No file is mapped. One that is shortened, written over or on a disk that fails costs the samples
 * that can't be read: E_TRUNCATED, or E_IO after read.retries. One that is replaced or removed is
 * read on while it is open. Bytes that were written over in place are read as they are then: write
 * to another file, and rename it.
 *
 * 9. DETERMINISM AND RESUMING
 * The order of epoch e is a keyed permutation of (seed, e); random numbers are Philox4x32-10, keyed
 * by (seed, e), and counted by (sample index, operation, view): see bzna_random. Where an epoch can
 * hold a sample more than once (weights with replacement, indices that repeat), the position in the
 * epoch's order counts, too, so that each occurrence is augmented in its own way. So a batch
 * depends on (seed, epoch, position) alone. Rank r of w takes the positions p0 + r, p0 + r + w,
 * p0 + r + 2w, ... as DistributedSampler does, and gets as many batches as every other rank.
 *
 * A bzna_loader_state taken between two batches of a run can be restored with any thread count and
 * any world size. A loader that makes pixels otherwise (sizes, warp, colors, which picture of a
 * sample) refuses it, unless pipeline.restore_any_pixels is set.
 *
 * Orders, random numbers, warps, colors and jitters have the same bits on every machine, with every
 * compiler: the library has its own exp, log, sin, cos and tan, and fuses no operations. So have
 * pixels that are made of the same decoded planes, on CPUs and GPUs. Decoded planes are the same
 * for codecs that define them: H.264, H.265, AV1, WebP, lossless pictures, raw records. JPEG and
 * lossy JPEG 2000 leave rounding to the decoder: expect the same planes only from the same version
 * of the same decoder, and others from NVDEC. None of this holds where compilers calculate in more
 * precision than a type has, as on 32-bit x86 without -msse2 -mfpmath=sse.
 *
 * 10. VERSIONS AND THE ABI
 * Structs only ever grow at their end, nested groups into their reserved words; struct_size says
 * which version the caller was compiled with. What a smaller struct lacks has its default. A larger
 * one than the library knows is accepted when its tail is zero. Into a larger one nothing is
 * written past what the library knows: not by bzna_X_init, so clear it first where an older library
 * may run; and where a call fills one in, struct_size then says how many bytes were filled. Status
 * codes keep their numbers. Until 1.0 the ABI may change with the minor version, which the soname
 * carries. For bindings: integers have fixed widths (size_t only for sizes in memory); there are no
 * C enum types, bools, bit-fields, unions, varargs or structs by value in signatures; `user` comes
 * first in every callback.
 *
 * 11. THE GPU
 * libcuda.so.1 and libnvcuvid.so.1, both of NVIDIA's driver, are opened when first needed: by a
 * context that names a CUDA device, else by the first loader or query. Without a usable GPU,
 * BZNA_DEVICE_AUTO is the CPU and BZNA_DEVICE_CUDA is refused; bzna_context_get_device_info says
 * why. In containers, libnvcuvid is there only with NVIDIA_DRIVER_CAPABILITIES=compute,video.
 * `bzna devices` says what is missing and what to do; tests/README.md, "On a GPU", has the commands
 * of a first run, what to expect of it, and the report to send.
 *
 * Decode sessions, each a thread with a CUDA stream and decoders for up to eight frame sizes (more
 * are slower), are the context's and serve all its loaders. For their first decoders, the first
 * loader reads its data set's first sample. Each holds up to 12 samples: with fewer in flight
 * (batch_size * batches_in_flight), some wait. What NVDEC cannot decode here (codec, depth, chroma
 * format, size), or the driver refuses, the loader's threads decode; bzna_loader_stats counts.
 * Both decoders give the same pixels. NVDEC says of a picture of H.264, H.265 or JPEG whether it
 * was damaged, and the library asks: about every picture the first time that a loader decodes it,
 * then about one of each launch, and about all again if a picture is damaged that was not before.
 * Of AV1 NVDEC says nothing, so that damage may go unnoticed. The kernel is checked when a device
 * is opened, NVDEC and the kernel before pictures of a kind (codec, chroma format, depth): by
 * built-in ones, or the first one against libavcodec. What fails is gone around, or decoded in
 * software, and logged; a wrong kernel loses the device. BENZINA_NVDEC_CHECK=0 in the environment
 * skips it; all: AV1, too.
 *
 * With output.device on the CPU, bzna_loader_next returns when the batch has arrived in (pinned)
 * host memory, and no stream is involved. Else batches lie in device memory. The consumer's stream
 * is output.stream, or one that the loader makes; bzna_batch_info.stream names it. bzna_loader_next
 * blocks until the batch is filled, and until one is free: while all are on loan or still read by
 * work that you enqueued, which must not wait for that call. Else the stream waits for the GPU.
 *     - What is enqueued on that stream after bzna_loader_next reads the finished batch. The host
 *       must not read it before it has synchronized with that stream, or copied the batch on it.
 *     - bzna_batch_release orders everything enqueued on that stream up to then before the memory
 *       is written again. So release right after enqueueing the work that reads.
 *     - To use a batch on another stream, call bzna_batch_move first. The default streams are
 *       BZNA_STREAM_LEGACY and BZNA_STREAM_PER_THREAD, never NULL; with the latter, release on the
 *       thread that used it. A stream must live until the last batch on it was released.
 *     - While a CUDA graph is captured on it, neither open, close, take, move nor release with it.
 *
 * Calls of the driver's that belong to one CUDA context wait for one another. If the rate of a GPU
 * with several NVDEC engines stays the same with more sessions while its engines idle (nvidia-smi
 * dmon -s u, column dec), let several processes load for that GPU: each has a context of its own.
 *
 * A slow consumer stalls only its own loader: decode streams never wait on consumer streams.
 * Batches are recycled in order of release: one that a slow stream reads delays those after it.
 * The device's primary context is used, or context_config.cuda_context. A primary one that nobody
 * has used before is set to let waiting threads sleep (CU_CTX_SCHED_BLOCKING_SYNC); make it first
 * to have it otherwise. On the caller's threads it is pushed around calls. When the device is lost
 * (ECC error, illegal address, ...), every loader on it ends with E_DEVICE_LOST.
 *
 * 12. KINDS OF DATA SETS
 * A path that names nothing may be a pattern of several paths, which are laid end to end: "a::b"
 * stands for both, {0000..0146}, {1..9..2}, {train,val} for each in turn (padded with zeros where
 * one of the two is; the leftmost varies slowest), *, ?, [abc] match names, sorted by bytes; a
 * backslash takes what follows literally. A folder of *.bzna, *.tar or *.rec stands for those. Of
 * many files some 64 are open at a time; one that is opened again must be as it was, else E_IO.
 *
 * ARCHIVES (.bzna) hold frames of H.265, H.264 or AV1, or JPEG files as they are (sample entry
 * mjpg; QuickTime's jpeg is read; the original tools refuse both). For GPUs pack H.265: small,
 * decoded by video engines since Pascal; AV1 is as small, and needs GA10x, Ada or Blackwell. For
 * CPUs copy JPEG files, without loss: several times as fast as H.265. H.264 tuned for decoding is
 * larger, for both: CPUs decode the slices that a warp reads, and ignore damage in others. VIDEOS
 * (mp4, QuickTime, fragments) are frames that stand alone, turned by matrices; no edit lists apply.
 *
 * FOLDERS of pictures have the order and classes of torchvision's ImageFolder: each folder in the
 * root is a class, and all pictures below it are of that class; without class folders there are no
 * targets. Files are known by their names (jpg jpeg png ppm pgm pbm pnm bmp webp tif tiff gif jp2
 * j2k heic heif hif avif, in upper case, too), and left out where they begin with a dot. Links are
 * followed. Refused are one that leads back, a class without pictures, and, unless classes are
 * chosen, a root whose folders are no classes: they hold only folders, or two of them (or all) are
 * called as splits are (train, val, test2017), or one holds two that are. With a list, samples are
 * the files that it names, in its order; labels are targets where each sample has one that is
 * whole, else vectors. Files are looked at when read.
 *
 * TARS are shards as WebDataset writes them. Files next to each other that share a key, the name up
 * to the first dot after its last slash, are a sample; what follows is the field, in lower case: by
 * its last extension cls, cls2, index, inx, id are integers, txt, text, transcript text, jpg, png,
 * webp, ... pictures, others bytes. "name" is the key, unless a file is called so, "cls" the
 * target, "image" the first picture. Folders, links, hidden files, __folders__ and names of
 * BZNA_NAME_MAX bytes or more belong to no sample; 64 fields are the most. Sparse files are
 * refused; a field that stands twice fails its sample. Opening walks over the headers, or reads
 * SHARD.idx beside SHARD.tar (version 1.2, of DALI's wds2idx or `bzna index`). An index older than
 * the tar must be what a walk finds; one that the headers contradict is refused with E_BOX. A tar
 * of nothing but tars is refused.
 *
 * RECORDIO files (MXNet's .rec) have a sample a record: "image", "label" (its numbers), "target"
 * (the number where it is one, and whole), "id", "name" (the id in digits), "record" (all bytes,
 * which then may be anything). A list gives labels and names by id, with a line for each. Where
 * records begin, NAME.idx beside NAME.rec says (of MXNet or `bzna index`), else one scan over the
 * headers. An index that is older than the file must be what a scan finds; one of another file is
 * refused with E_FORMAT, at open or when a sample is used.
 *
 * PICTURES are told apart by their content: JPEG (8 bits, of any color), PNG, WebP, GIF (its first
 * picture), BMP, TIFF, PNM, JPEG 2000, HEIF, AVIF. Alpha is dropped, as PIL's convert("RGB") does
 * it. They are turned as EXIF (irot, imir) says, or XMP where no EXIF data do, unless
 * dataset_config.orientation is IGNORE; transforms see that size. ICC profiles are not applied:
 * colors are taken for sRGB. `bzna verify` counts pictures with other profiles, and `bzna pack
 * --icc convert` converts them. Kinds that libavcodec would decode to wrong pixels are refused by
 * name: TIFF of 16-bit CMYK, say, or JPEG 2000 part 15. A JPEG's pixels are its decoder's:
 * libjpeg-turbo, libavcodec, NVDEC; one without Huffman tables has those of the standard.
 * Damage fails it down to the last row that its warp reads; if it has several scans (progressive),
 * anywhere. Of HEIF and AVIF, the picture is the primary item (H.265, H.264, AV1, JPEG, iden,
 * grid), cut and turned by its properties, else the first of a track. Of a grid, only tiles that
 * the warp reads are decoded, by NVDEC or by workers that are free. A file alone has the field
 * "thumb", chosen by name alone. Overlays are refused; bzna_image_info.beside has what is left out.
 *
 * 13. WHAT IT DOES NOT DO
 *     - Every sample is a frame of its own; video is not decoded as video. Matrices do not scale.
 *     - NVDEC does not decode for a loader whose outputs are made of several fields: software does.
 *     - ICC profiles are not applied, nor transfer functions or primaries: no HDR tone mapping.
 *       `bzna pack --icc convert` converts pictures to sRGB before they are coded.
 *     - No posterize, solarize, sharpness, equalize: pipeline.picture may draw such things.
 *     - No JPEG XL, animated WebP, lossless or subsampled RGB JPEG; no BigTIFF, TIFF in tiles, of
 *       JPEG, of floating-point numbers or L*a*b*; no JPEG 2000 part 15, or of CMYK.
 *     - No network, compression, subprocess, spooling: a bzna_source. Windows, macOS: not tried.
 */
#ifndef BENZINA_H
#define BENZINA_H

#include <stddef.h>
#include <stdint.h>

#define BZNA_VERSION_MAJOR 0
#define BZNA_VERSION_MINOR 3
#define BZNA_VERSION_PATCH 0
#define BZNA_VERSION (BZNA_VERSION_MAJOR * 10000 + BZNA_VERSION_MINOR * 100 + BZNA_VERSION_PATCH)

/* How public functions are declared. Define BZNA_API to choose it yourself; else BENZINA_STATIC
 * and BENZINA_HIDDEN choose (chapter 1), and without them the functions are exported. */
#ifndef BZNA_API
#  if defined(BENZINA_STATIC) && (defined(__GNUC__) || defined(__clang__))
#    define BZNA_API static __attribute__((unused))
#  elif defined(BENZINA_STATIC)
#    define BZNA_API static
#  elif defined(BENZINA_HIDDEN) && (defined(__GNUC__) || defined(__clang__))
#    define BZNA_API extern __attribute__((visibility("hidden")))
#  elif defined(BENZINA_HIDDEN)
#    define BZNA_API extern
#  elif defined(__GNUC__) || defined(__clang__)
#    define BZNA_API extern __attribute__((visibility("default")))
#  else
#    define BZNA_API extern
#  endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status and errors -------------------------------------------------------------------- */
typedef int32_t bzna_status;

/* X(name, number, text). Notes are positive, errors negative, in families with gaps. */
#define BZNA_STATUS_MAP(X)                                                          \
    X(OK,                 0, "ok")                                                  \
    X(END,                1, "no more batches")                                     \
    X(AGAIN,              2, "not ready within the timeout")                        \
    X(E_ARGUMENT,      -101, "an argument or a config field has no meaning")        \
    X(E_STRUCT_SIZE,   -102, "struct_size does not fit this library")               \
    X(E_RANGE,         -103, "index out of range")                                  \
    X(E_STATE,         -104, "not allowed now, here or in this order")              \
    X(E_BUFFER,        -105, "the buffer is too small")                             \
    X(E_CALLBACK,      -106, "a callback failed")                                   \
    X(E_STOPPED,       -107, "the loader was stopped")                              \
    X(E_UNSUPPORTED,   -108, "not supported by this build or version")              \
    X(E_MEMORY,        -201, "out of memory")                                       \
    X(E_NOT_FOUND,     -202, "no such file, track or field")                        \
    X(E_IO,            -203, "reading or writing failed")                           \
    X(E_THREAD,        -204, "a thread could not be started")                       \
    X(E_FORMAT,        -301, "not a file of this kind")                             \
    X(E_TRUNCATED,     -302, "the file ends too early")                             \
    X(E_BOX,           -303, "a box contradicts the format")                        \
    X(E_LIMIT,         -304, "a limit is exceeded")                                 \
    X(E_NO_SAMPLES,    -305, "there are no samples")                                \
    X(E_UNFINISHED,    -306, "the archive was never finished")                      \
    X(E_CODEC,         -401, "no decoder for this codec, depth or chroma format")   \
    X(E_DECODE,        -402, "the picture is damaged")                              \
    X(E_MISMATCH,      -403, "the picture is not what its container says")          \
    X(E_DEVICE,        -501, "no usable device, or its driver failed")              \
    X(E_DEVICE_LOST,   -502, "the device was lost")

enum {
#define BZNA_STATUS_ENTRY(name, number, text) BZNA_##name = number,
    BZNA_STATUS_MAP(BZNA_STATUS_ENTRY)
#undef BZNA_STATUS_ENTRY
    BZNA_STATUS_RESERVED = -9999
};
#define BZNA_NO_OFFSET UINT64_MAX

/* What went wrong; written on failure only, as far as struct_size has room (0: as far as this
 * version goes). A struct_size below 8 leaves room for nothing, and is no fault. byte_offset: in
 * the file, of the box or field at fault, or BZNA_NO_OFFSET. native_code: errno, AVERROR or
 * CUresult, or 0. fourcc: the type of the box at fault, or 0. message names file, box or field, in
 * UTF-8, NUL-terminated: "train.bzna: moov/trak[2]/mdia/minf/stbl/stsz at byte 1945002: ..." */
typedef struct bzna_error {
    uint32_t    struct_size;
    bzna_status status;
    uint64_t    byte_offset;
    int32_t     native_code;
    uint32_t    fourcc;
    char        message[232];
} bzna_error;

/* Sets struct_size, and the rest to "no error". struct_size 0: that of the library that runs. */
BZNA_API void bzna_error_init(bzna_error *error, size_t struct_size);
/* "BZNA_E_BOX"; "BZNA_?" for a number that this version does not know. A constant string. */
BZNA_API const char *bzna_status_name(bzna_status status);
/* "a box contradicts the format". A constant string. */
BZNA_API const char *bzna_status_text(bzna_status status);
/* BZNA_VERSION of the library that runs. */
BZNA_API uint32_t bzna_version(void);

/* ---- Objects ------------------------------------------------------------------------------ */
typedef struct bzna_context bzna_context;
typedef struct bzna_dataset bzna_dataset;
typedef struct bzna_loader  bzna_loader;
typedef struct bzna_batch   bzna_batch;
typedef struct bzna_decoder bzna_decoder;
typedef struct bzna_writer  bzna_writer;

/* ---- Host services ------------------------------------------------------------------------ */
/* alloc returns size bytes aligned to align (chapter 5) or NULL; release gets the same size back.
 * Any thread, concurrently. All NULL: the C library's. Forbidden inside: every bzna_* function. */
typedef struct bzna_allocator {
    void  *user;
    void *(*alloc)(void *user, size_t size, size_t align);
    void  (*release)(void *user, void *ptr, size_t size);
} bzna_allocator;

/* ERROR: a batch of which no sample is left. WARNING: a sample that failed; NVDEC's trouble. INFO:
 * why there is no GPU. Calls that fail say so in their bzna_error alone. */
enum { BZNA_LOG_ERROR = 1, BZNA_LOG_WARNING = 2, BZNA_LOG_INFO = 3, BZNA_LOG_DEBUG = 4 };
/* Called on the caller's thread inside bzna_* calls, unless log_any_thread is set. */
typedef void (*bzna_log_fn)(void *user, int32_t level, bzna_status code, const char *message);

/* Bytes from anywhere. read_at copies up to size bytes from offset to dst and returns how many
 * (short counts are asked for again; 0 is the end of the data), or a negative number, which becomes
 * native_code; several threads call it at once. size: all bytes, or negative. close may be NULL.
 * A negative number is trouble with the data: E_IO. A count above size is a fault of read_at
 * itself: E_CALLBACK. A binding returns INT64_MAX where the user's code is at fault. */
typedef struct bzna_source {
    uint32_t struct_size, reserved0;
    void    *user;
    int64_t (*read_at)(void *user, uint64_t offset, void *dst, uint64_t size);
    int64_t (*size)(void *user);
    void    (*close)(void *user);
} bzna_source;

/* Bytes to anywhere. write_at writes all size bytes at offset and returns BZNA_OK, or a negative
 * status; the writer appends, and at the end goes back to patch 8 bytes. close may be NULL. */
typedef struct bzna_sink {
    uint32_t    struct_size, reserved0;
    void       *user;
    bzna_status (*write_at)(void *user, uint64_t offset, const void *src, uint64_t size);
    void        (*close)(void *user);
} bzna_sink;
BZNA_API void bzna_source_init(bzna_source *source, size_t struct_size);
BZNA_API void bzna_sink_init(bzna_sink *sink, size_t struct_size);

/* Device memory from anywhere (a framework's caching allocator): size bytes aligned to 256 at a
 * device address, or 0. The memory is first used on stream, and no longer used on any other when it
 * is released. All NULL: cuMemAlloc. Forbidden inside: every bzna_* function. */
typedef struct bzna_device_allocator {
    void    *user;
    uint64_t (*alloc)(void *user, size_t size, void *stream);
    void     (*release)(void *user, uint64_t ptr, size_t size, void *stream);
} bzna_device_allocator;

/* ---- Context ------------------------------------------------------------------------------ */
/* CUDA's handles of the default streams. Frameworks may call the legacy one 0. */
#define BZNA_STREAM_LEGACY     ((void *)1)
#define BZNA_STREAM_PER_THREAD ((void *)2)
/* Kinds of devices: DLPack's numbers. */
enum { BZNA_DEVICE_AUTO = 0, BZNA_DEVICE_CPU = 1, BZNA_DEVICE_CUDA = 2 };

/* A device, wherever one appears. ordinal: among the CUDA devices, from 0; else it must be 0. */
typedef struct bzna_device {
    int32_t kind, ordinal;
} bzna_device;

typedef struct bzna_context_config {
    uint32_t              struct_size;
    /* the most verbose level passed on; default BZNA_LOG_WARNING */
    int32_t               log_level;
    /* AUTO: a GPU that this build can use (current where it is needed first, or 0), or the CPU */
    bzna_device           device;
    bzna_allocator        allocator;
    /* NULL: silent. log_any_thread 1: called at once from any thread; 0: when a thread of the
     * caller's opens or closes something, takes a batch, restores a state or asks for the device */
    bzna_log_fn           log;
    void                 *log_user;
    uint32_t              log_any_thread;
    /* longest edge of a coded frame, default 16384 (at most 65535); sample size, default 256 MiB */
    uint32_t              max_edge_px;
    uint64_t              max_sample_bytes;
    /* NVDEC decode sessions: in all, or for each engine; default 2 (of a single engine, 3), at most
     * 256. Of each, pictures being decoded (4, at most 16) and decoded ones that a launch warps (8,
     * at most 8). Device memory for their decoders, by estimate, default an eighth of it all: with
     * little, they are fewer and change frame sizes; with none, a session ends */
    uint32_t              sessions, sessions_per_engine, session_depth, session_mapped;
    uint64_t              decode_memory_bytes;
    /* for batches and uploads; the CUcontext to work in, on its device, NULL: the primary one */
    bzna_device_allocator device_allocator;
    void                 *cuda_context;
} bzna_context_config;
BZNA_API void bzna_context_config_init(bzna_context_config *config, size_t struct_size);
/* Makes a context. config may be NULL: all defaults. Errors: E_ARGUMENT, E_THREAD, E_DEVICE (a
 * device was demanded that cannot be used), E_UNSUPPORTED (no GPU path in this build). */
BZNA_API bzna_status bzna_context_open(const bzna_context_config *config, bzna_context **out,
    bzna_error *err);
BZNA_API bzna_status bzna_context_close(bzna_context *context);
/* A CUDA device, as a context uses it. driver: the CUDA version that it supports, 12040 = 12.4.
 * engines: NVDEC engines for 8-bit 4:2:0 H.265, else H.264. sessions: that loaders share to decode,
 * 0 before the first. video: BZNA_OK if NVDEC can be used, else why not, with message. */
typedef struct bzna_device_info {
    uint32_t    struct_size, driver;
    bzna_device device;
    uint64_t    memory_bytes;
    uint32_t    compute_major, compute_minor, engines, sessions;
    bzna_status video;
    uint32_t    reserved0;
    char        name[96], message[232];
} bzna_device_info;

enum { BZNA_CHECK_NONE = 0, BZNA_CHECK_PASSED = 1, BZNA_CHECK_FAILED = 2, BZNA_CHECK_SKIPPED = 3 };
/* What a device decodes: BZNA_CODEC_..., chroma format (0 gray, 1 4:2:0, 2 4:2:2, 3 4:4:4), depth
 * (bits a sample: 8, 10, 12). supported 0: all that follows is 0. Sizes are of coded frames, in
 * pixels; width * height / 256 is at most max_macroblocks. check_message: what is gone around, why
 * check failed or was skipped. NONE: it waits for a data set's first picture. */
typedef struct bzna_codec_info {
    uint32_t struct_size, codec, chroma_format, depth, supported, engines;
    uint32_t min_width, min_height, max_width, max_height, max_macroblocks, check;
    char     check_message[128];
} bzna_codec_info;
/* CUDA devices here. Starts CUDA. Errors: E_DEVICE (no driver), E_UNSUPPORTED (no GPU path). */
BZNA_API bzna_status bzna_device_count(uint32_t *count, bzna_error *err);
/* The context's device, which is made ready if it was not. Errors: as for a context that demands a
 * device, with AUTO too: E_DEVICE says why the CPU works instead. */
BZNA_API bzna_status bzna_context_get_device_info(bzna_context *context, bzna_device_info *info,
    size_t struct_size, bzna_error *err);
/* What NVDEC can do there with pictures of a kind, after a check with built-in ones. Errors: as of
 * bzna_context_get_device_info, why video cannot be used, E_ARGUMENT. */
BZNA_API bzna_status bzna_context_get_codec_info(bzna_context *context, uint32_t codec,
    uint32_t chroma_format, uint32_t depth, bzna_codec_info *info, size_t struct_size,
    bzna_error *err);

/* ---- Pictures as they are coded ----------------------------------------------------------- */
/* STILL: a file of PNG, WebP, GIF (its first picture), BMP, TIFF, PNM or JPEG 2000. RAW: pixels
 * that are not coded, frame_width * frame_height bytes, or three times as many of R, G and B;
 * config is two bytes, channels (1 or 3) and BZNA_LAYOUT_... JPEG, STILL and RAW are decoded in
 * software, and the latter two not written. HEIF: a file of a grid (NVDEC, too) or of an item in
 * pieces; config: where in data the item's number stands, NULL: the primary one. */
enum { BZNA_CODEC_UNKNOWN = 0, BZNA_CODEC_H264 = 1, BZNA_CODEC_H265 = 2, BZNA_CODEC_AV1 = 3,
       BZNA_CODEC_JPEG = 4, BZNA_CODEC_STILL = 5, BZNA_CODEC_RAW = 6, BZNA_CODEC_HEIF = 7 };

/* What pictures with a palette give: its colors, or their indices as gray (masks of classes). */
enum { BZNA_PALETTE_COLORS = 0, BZNA_PALETTE_INDEX = 1 };
/* ISO/IEC 23091-2 code points (colr nclx, VUI). 2: unspecified. Matrices 0-2 and 4-10 are known.
 * full_range 1: 0..255; 0: 16..235 and 16..240. present 0: nothing is known of color. */
typedef struct bzna_color {
    uint16_t primaries, transfer, matrix;
    uint8_t  full_range, present;
} bzna_color;

/* One coded picture: what bzna_dataset_read_image gives, decoder and writer take. Sizes, in pixels,
 * are of the picture without padding, and of the coded frame (writer, JPEG, STILL: 0 = as the
 * stream says); crop_x, crop_y: where in the frame the picture begins. color: the container's;
 * present = 0 is the stream's, else BT.601, limited-range to a decoder, full-range to a writer; no
 * effect on RGB, nor on a written JPEG. length_size: bytes of the NAL units' length prefix (1, 2,
 * 4); 0: Annex B start codes, or none. orientation: EXIF's number, 1..8: how it is to be turned and
 * mirrored; 0: as it says itself, all that a writer takes. config: hvcC/avcC/av1C payload (NULL
 * where data has the parameter sets). data: the access unit. palette: BZNA_PALETTE_... */
typedef struct bzna_image {
    uint32_t    struct_size, codec;
    uint32_t    width, height, frame_width, frame_height, crop_x, crop_y;
    bzna_color  color;
    uint32_t    length_size, orientation;
    const void *config;
    uint64_t    config_size;
    const void *data;
    uint64_t    data_size;
    uint32_t    palette, reserved1;
} bzna_image;
BZNA_API void bzna_image_init(bzna_image *image, size_t struct_size);
/* The access unit as an Annex B stream: the parameter sets of the config, then the coded picture,
 * each behind 00 00 00 01. AV1 is copied as it is, behind the config's OBUs, other kinds as they
 * are. dst has capacity bytes (NULL: 0); *needed (may be NULL) is set to the size of the whole.
 * Errors: E_ARGUMENT, E_CODEC, E_BUFFER (what is in dst is of no use), E_BOX. */
BZNA_API bzna_status bzna_image_annexb(const bzna_image *image, void *dst, size_t capacity,
    size_t *needed, bzna_error *err);

/* ---- Data sets ---------------------------------------------------------------------------- */
#define BZNA_TARGET_NONE ((int64_t)-1)
#define BZNA_NAME_MAX    32
#define BZNA_IMAGES_MAX  4
/* APPLY: a picture is turned as its EXIF data says; torchvision's ImageFolder ignores that. */
enum { BZNA_ORIENTATION_APPLY = 0, BZNA_ORIENTATION_IGNORE = 1 };
/* How class folders are numbered: by their names as text ("10" before "2"), or as numbers. */
enum { BZNA_CLASS_ORDER_TEXT = 0, BZNA_CLASS_ORDER_NUMERIC = 1 };
/* Types of labels and samples in fixed-size records, little-endian. */
enum { BZNA_RECORD_NONE = 0, BZNA_RECORD_UINT8 = 1, BZNA_RECORD_INT32 = 2, BZNA_RECORD_INT64 = 3,
       BZNA_RECORD_FLOAT32 = 4 };

/* A file of records of one size, stride bytes each (0: what data and label need), behind
 * header_bytes: CIFAR, MNIST, raw tensors. A picture of height * width pixels in 1 or 3 channels
 * (BZNA_RECORD_UINT8; planes, or with BZNA_LAYOUT_NHWC pixels of channels) lies data_offset bytes
 * into each; anything else is the field "data", a vector of channels * height * width numbers, each
 * x * scale + bias (scale 0 counts as 1). A label lies label_offset bytes into it: an integer is
 * the "target", a float32 the "label", a vector of one. Bytes behind the last record: refused. */
typedef struct bzna_records {
    uint32_t struct_size;
    uint32_t data_type, layout;
    uint32_t width, height, channels;
    uint64_t header_bytes, stride, data_offset, label_offset;
    uint32_t label_type;
    float    scale, bias;
    uint32_t reserved0;
} bzna_records;

/* All is copied. name: what error messages call it; default: the path, "memory" or "source". split:
 * "train", "validation", "test": only the samples of that split; E_NOT_FOUND where the archive has
 * no tracks of it (bzna_input_train, bzna_target_train, ...). Default: all samples. format: the
 * kind of container, as bzna_dataset_info calls it; default: found by content. list: path of a list
 * of samples, which names a folder's files, or the labels of a .rec: lines of index, labels, path
 * with tabs between them (MXNet's .lst), of path,label (.csv), or of path label with a blank
 * between them (Caffe's val.txt), as its first line is. classes: a folder's class
 * folders, in the order of their numbers, others are left out; default: all, in class_order.
 * records: NULL: the file is not fixed-size records. */
typedef struct bzna_dataset_config {
    uint32_t    struct_size, reserved0;
    const char *name, *split, *format, *list;
    const char *const *classes;
    uint32_t    class_count, class_order;
    uint32_t    orientation, palette;
    const bzna_records *records;
    uint64_t    reserved[4];
} bzna_dataset_config;

/* part_count: files, or ranges of files, that it is made of; size_bytes (of whole files, 0 for
 * folders) and target_count (samples from the first that have a target) are sums. The first one's:
 * container ("archive", "mp4 video", "HEIF", "folder", "tar", "RecordIO", "records"), tracks. */
typedef struct bzna_dataset_info {
    uint32_t struct_size, field_count;
    uint64_t size_bytes, sample_count, target_count;
    uint32_t part_count, track_count, brand_count, brands[8];
    char     container[20];
    /* of the first file, after its last box: ignored */
    uint64_t trailing_bytes;
} bzna_dataset_info;

/* An integer is an int64_t, a vector is of float32, text is UTF-8. */
enum { BZNA_FIELD_PICTURE = 1, BZNA_FIELD_INTEGER = 2, BZNA_FIELD_VECTOR = 3, BZNA_FIELD_TEXT = 4,
       BZNA_FIELD_BYTES = 5 };

/* One field of a data set's samples. An archive has "image" and "thumb", a plain video "image";
 * both have "target" and "name" where they have the tracks of them, and what was written beside. A
 * folder has "image", "name" (its path), "target" where classes or a list have it, else "label". */
typedef struct bzna_field_info {
    uint32_t struct_size, kind;
    char     name[BZNA_NAME_MAX];
} bzna_field_info;

/* One track: handler ("meta", "vide"), sample entry ("mett", "hvc1"), tkhd's flags, name, MIME. */
typedef struct bzna_track_info {
    uint32_t struct_size, handler, format, flags;
    uint64_t sample_count;
    char     name[BZNA_NAME_MAX], mime[64];
} bzna_track_info;

/* Where one sample lies in its file, bytes, its target, and the tracks of the pictures in it. */
typedef struct bzna_sample {
    uint32_t struct_size, image_count;
    uint64_t index, offset, size;
    int64_t  target;
    char     image_names[BZNA_IMAGES_MAX][BZNA_NAME_MAX];
} bzna_sample;

/* What a HEIF file holds beside its picture. */
enum { BZNA_BESIDE_THUMB = 1, BZNA_BESIDE_AUXILIARY = 2 /* alpha, depth, ... */,
       BZNA_BESIDE_PICTURES = 4, BZNA_BESIDE_SEQUENCE = 8 };
/* What is said of one picture of a sample (the fields of bzna_image; fourcc: the sample entry,
 * "hvc1" = 0x68766331, or the kind of file, "jpeg"; clap: the clean aperture as it stands in the
 * file, (n, d) x 4, all 0: there is none), and where config's payload and the access unit lie. */
typedef struct bzna_image_info {
    uint32_t   struct_size, codec, fourcc;
    uint32_t   width, height, frame_width, frame_height, crop_x, crop_y;
    int32_t    clap[8];
    uint32_t   length_size;
    bzna_color color;
    uint64_t   config_offset, config_size, data_offset, data_size;
    uint32_t   orientation, beside;
} bzna_image_info;
BZNA_API void bzna_dataset_config_init(bzna_dataset_config *config, size_t struct_size);
BZNA_API void bzna_records_init(bzna_records *records, size_t struct_size);
/* Opens a path, and finds out by its content what it is: chapter 12 has the kinds, and the patterns
 * that stand for several files. The cost does not grow with the number of samples of an archive.
 * config may be NULL. Errors: E_NOT_FOUND, E_ARGUMENT (braces, a setting without effect on the
 * kind), E_IO, E_FORMAT, E_TRUNCATED, E_BOX, E_LIMIT, E_NO_SAMPLES, E_UNFINISHED, E_UNSUPPORTED (a
 * format that is known and not read; a pipe or device, since samples are read at any place). */
BZNA_API bzna_status bzna_dataset_open(bzna_context *context, const char *path,
    const bzna_dataset_config *config, bzna_dataset **out, bzna_error *err);
/* Several paths laid end to end, by which messages call them (config->name: only of one), opened by
 * several threads. Errors: those of the first that fails; E_NO_SAMPLES; E_LIMIT (over 65536). */
BZNA_API bzna_status bzna_dataset_open_list(bzna_context *context, const char *const *paths,
    uint32_t count, const bzna_dataset_config *config, bzna_dataset **out, bzna_error *err);
/* A file that lies in memory. The bytes are borrowed: they must stay as they are until the data
 * set, and every loader and data set made of it, is closed. Errors: as of a path, without E_IO. */
BZNA_API bzna_status bzna_dataset_open_memory(bzna_context *context, const void *bytes, size_t size,
    const bzna_dataset_config *config, bzna_dataset **out, bzna_error *err);
/* The same from a user's source. On success the data set owns it and closes it exactly once; on
 * failure it is still the caller's, and close has not been called. */
BZNA_API bzna_status bzna_dataset_open_source(bzna_context *context, const bzna_source *source,
    const bzna_dataset_config *config, bzna_dataset **out, bzna_error *err);
BZNA_API bzna_status bzna_dataset_close(bzna_dataset *dataset);
/* Several data sets laid end to end: index i of the whole is index i - (counts before) of its part.
 * Errors: E_ARGUMENT, E_LIMIT (more than 2^63 samples or 65536 files). */
BZNA_API bzna_status bzna_dataset_concat(bzna_context *context, bzna_dataset *const *parts,
    uint32_t part_count, bzna_dataset **out, bzna_error *err);
/* The samples first .. first + count - 1 of a data set, as one. Errors: E_RANGE, E_NO_SAMPLES. */
BZNA_API bzna_status bzna_dataset_range(bzna_dataset *dataset, uint64_t first, uint64_t count,
    bzna_dataset **out, bzna_error *err);
/* How many samples there are; 0 for NULL. */
BZNA_API uint64_t bzna_dataset_count(const bzna_dataset *dataset);
/* What the data set is as a whole. */
BZNA_API bzna_status bzna_dataset_get_info(const bzna_dataset *dataset, bzna_dataset_info *info,
    size_t struct_size, bzna_error *err);
/* One of the fields of its samples, counted from 0; E_RANGE past the end. */
BZNA_API bzna_status bzna_dataset_get_field_info(const bzna_dataset *dataset, uint32_t field,
    bzna_field_info *info, size_t struct_size, bzna_error *err);
/* One of the tracks of the first file, counted from 0; E_RANGE past the end. */
BZNA_API bzna_status bzna_dataset_get_track_info(const bzna_dataset *dataset, uint32_t track,
    bzna_track_info *info, size_t struct_size, bzna_error *err);
/* Where a sample lies and what it holds; no picture is read. Errors: E_RANGE, E_IO, E_BOX, ... */
BZNA_API bzna_status bzna_dataset_get_sample(const bzna_dataset *dataset, uint64_t index,
    bzna_sample *sample, size_t struct_size, bzna_error *err);
/* A sample's target: BZNA_TARGET_NONE where it has none. Errors: E_RANGE, E_IO, E_BOX. */
BZNA_API bzna_status bzna_dataset_target(const bzna_dataset *dataset, uint64_t index,
    int64_t *target, bzna_error *err);
/* The name of a class, as text with a NUL at its end: of folders that are classes, or as an archive
 * has it. Of data sets laid end to end, the first that has names answers for all. buffer, *needed:
 * as in bzna_dataset_field. Errors: E_NOT_FOUND (no names), E_RANGE (no such class), E_BUFFER. */
BZNA_API bzna_status bzna_dataset_class(const bzna_dataset *dataset, int64_t target, void *buffer,
    size_t capacity, size_t *needed, bzna_error *err);
/* One field of a sample, by name: a picture as a stream of its own (bzna_image_annexb), an integer
 * as an int64_t, text with a NUL at its end. buffer has capacity bytes (NULL: 0); *needed (may be
 * NULL) gets the size, the NUL counted. A sample without a name among named ones has "". Errors:
 * E_NOT_FOUND (none of that name, or in this sample), E_BUFFER, E_RANGE, E_IO, E_BOX, ... */
BZNA_API bzna_status bzna_dataset_field(const bzna_dataset *dataset, uint64_t index,
    const char *field, void *buffer, size_t capacity, size_t *needed, bzna_error *err);
/* Reads one picture of a sample. field: "image", "thumb", or the name of a track ("bzna_input");
 * NULL: the thumbnail where there is one, else the picture. buffer, of at least the sample's size
 * (bzna_dataset_get_sample), receives the whole sample. *image, prepared by bzna_image_init, is
 * filled in: config and data point into buffer (config of a plain video or raw records, whose
 * samples share it, into the data set). Errors: E_RANGE, E_NOT_FOUND, E_BUFFER, E_IO, E_BOX, ... */
BZNA_API bzna_status bzna_dataset_read_image(const bzna_dataset *dataset, uint64_t index,
    const char *field, void *buffer, size_t capacity, bzna_image *image, bzna_error *err);
/* Where that picture lies, and what its container says of it. Errors: likewise. */
BZNA_API bzna_status bzna_dataset_get_image_info(const bzna_dataset *dataset, uint64_t index,
    const char *field, bzna_image_info *info, size_t struct_size, bzna_error *err);

/* ---- Decoding single pictures ------------------------------------------------------------- */
/* A decoded picture: planes Y, Cb, Cr in memory (plane[1] NULL: gray), pitch bytes from one row to
 * the next. depth: bits a sample, 8, or 9 to 16 in two bytes. Sizes are as in bzna_image.
 * chroma_shift: log2 of the subsampling, 1, 1 for 4:2:0. chroma_left, _top: 1 if chroma is co-sited
 * with the left column / the top row, 0 if it is centered. color is what applies (chapter 7); with
 * matrix 0 the planes are G, B, R. orientation: EXIF's number, 1..8 (0 counts as 1): what is
 * rendered is the picture turned so, and homographies are relative to that. */
typedef struct bzna_picture {
    uint32_t    struct_size, depth;
    uint32_t    width, height, crop_x, crop_y, frame_width, frame_height;
    uint32_t    chroma_shift_x, chroma_shift_y, chroma_left, chroma_top;
    bzna_color  color;
    const void *plane[3];
    int64_t     pitch[3];
    uint32_t    orientation, step[3];
} bzna_picture;
BZNA_API void bzna_picture_init(bzna_picture *picture, size_t struct_size);
/* Opens a software decoder. E_UNSUPPORTED: built with BENZINA_NO_AVCODEC. */
BZNA_API bzna_status bzna_decoder_open(bzna_context *context, bzna_decoder **out, bzna_error *err);
BZNA_API bzna_status bzna_decoder_close(bzna_decoder *decoder);
/* Decodes one access unit; image must have its data and config. *picture, prepared by
 * bzna_picture_init, is filled in; its planes are the decoder's until its next call (raw pictures':
 * image's). After E_ARGUMENT, E_CODEC, E_DECODE, E_MISMATCH, E_LIMIT, E_BOX it can go on. */
BZNA_API bzna_status bzna_decoder_decode(bzna_decoder *decoder, const bzna_image *image,
    bzna_picture *picture, bzna_error *err);

/* ---- Random numbers and order ------------------------------------------------------------- */
/* A counter-based generator: Philox4x32-10 (Salmon et al. 2011). The stream of (seed, epoch,
 * sample, operation): key = the first two words of philox(counter = {epoch low, epoch high, 0, 0},
 * key = {seed low, seed high}); block n = philox(counter = {sample low, sample high, operation, n},
 * key). Words come in order 0..3 of block 0, 1, ...; used: words of block already handed out, 4:
 * all. A plain value: copy it to repeat its numbers. Test vectors, the first words of a stream:
 *     seed 0,    epoch 0, sample 0,       operation 0:   d4abea56 dd653103 04e23b27 74656f08
 *     seed 1234, epoch 5, sample 1000000, operation 16:  3cf3e08d 4cc55af4 77c3fa94 890dc105 */
typedef struct bzna_random {
    uint32_t key[2], counter[4], block[4], used, reserved0;
} bzna_random;

/* Numbers from BZNA_OPERATION_USER on are the user's. */
enum { BZNA_OPERATION_WARP = 0, BZNA_OPERATION_COLOR = 1, BZNA_OPERATION_ORDER = 2,
       BZNA_OPERATION_PICTURE = 3, BZNA_OPERATION_USER = 16 };
BZNA_API void bzna_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
BZNA_API void bzna_random_init(bzna_random *random, uint64_t seed, uint64_t epoch, uint64_t sample,
    uint32_t operation);
/* Of a stream fresh from bzna_random_init, that of another view or occurrence of the sample: key =
 * the first two words of philox(counter = {occurrence low, high, view, 1}, key). (0, 0) leaves it
 * as it is. A loader's occurrence is the position where an order can repeat samples, else 0. */
BZNA_API void bzna_random_fork(bzna_random *random, uint32_t view, uint64_t occurrence);
BZNA_API uint32_t bzna_random_u32(bzna_random *random);
/* lo + (hi-lo) * k/2^53, k of 53 bits: two words, low then high. */
BZNA_API double bzna_random_uniform(bzna_random *random, double lo, double hi);
/* The index at a position of an epoch's shuffled order: a bijection of [0, count), computed without
 * memory. Any count up to 2^63; a position outside [0, count) gives UINT64_MAX.
 * bzna_permute(1234, 5, 1281167, 0..3) = 298837, 609860, 1210012, 1168792. */
BZNA_API uint64_t bzna_permute(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t position);

/* ---- Transforms --------------------------------------------------------------------------- */
/* CUBIC (a = -0.5), LANCZOS3: as in PIL, without samples from outside the picture. CUBIC_075
 * (a = -0.75), LANCZOS4: OpenCV's, the border repeated. AREA: the mean; LINEAR where it enlarges.
 * Subsampled chroma is linear unless shrunk. AUTO: where warps shrink, all but NEAREST widen. */
enum { BZNA_FILTER_LINEAR = 0, BZNA_FILTER_NEAREST = 1, BZNA_FILTER_CUBIC = 2, BZNA_FILTER_AREA = 3,
       BZNA_FILTER_LANCZOS4 = 4, BZNA_FILTER_LANCZOS3 = 5, BZNA_FILTER_CUBIC_075 = 6 };
enum { BZNA_ANTIALIAS_AUTO = 0, BZNA_ANTIALIAS_OFF = 1 };
/* Rounded to nearest, ties to even. UINT8: saturated. INT32..UINT64: targets, indices, status. */
enum { BZNA_DTYPE_FLOAT32 = 0, BZNA_DTYPE_FLOAT16 = 1, BZNA_DTYPE_BFLOAT16 = 2,
       BZNA_DTYPE_UINT8 = 3, BZNA_DTYPE_INT32 = 16, BZNA_DTYPE_INT64 = 17, BZNA_DTYPE_UINT64 = 18 };
/* Planes, or pixels ("channels last"), of channels. GRAY: one, 0.299 R + 0.587 G + 0.114 B. */
enum { BZNA_LAYOUT_NCHW = 0, BZNA_LAYOUT_NHWC = 1 };
enum { BZNA_CHANNELS_RGB = 0, BZNA_CHANNELS_BGR = 1, BZNA_CHANNELS_GRAY = 2 };
/* From Y'CbCr to R'G'B'; without FULL: limited range. AUTO: the stream's. Not for coded RGB. */
enum { BZNA_MATRIX_AUTO = 0, BZNA_MATRIX_BT601_FULL = 1, BZNA_MATRIX_BT601 = 2,
       BZNA_MATRIX_BT709 = 3, BZNA_MATRIX_BT2020 = 4, BZNA_MATRIX_BT709_FULL = 5,
       BZNA_MATRIX_BT2020_FULL = 6 };
/* RGB: R, G, B in 0..255, before bias and scale; OUTPUT: the channels delivered, in their units. */
enum { BZNA_FILL_RGB = 0, BZNA_FILL_OUTPUT = 1 };

/* What happens to one sample: output to input pixel (homography, row-major, chapter 7); R'G'B' of
 * 0..255 times color (3x4, row-major: [R G B]' = C [R G B 1]'); hls, added to OpenCV's H (0..180:
 * round, or with clamp_hue 1 to its end), L, S (0..255); torchvision's brightness, contrast (about
 * the mean of pixels inside), saturation (0 = 1), hue (+-0.5 turns), grayscale (1), each clamped; y
 * = (x - bias) * scale, in the order of the channels delivered (GRAY: [0]). fill is the out-of-
 * bounds color. bzna_transform_init: identities, fill 0. A user's callback may change it all. */
typedef struct bzna_transform {
    uint32_t struct_size, filter;
    double   homography[9];
    float    bias[3], scale[3], fill[3];
    uint32_t fill_space, matrix, antialias, clamp_hue, grayscale, reserved0;
    float    color[12], hls[3], brightness, contrast, saturation, hue;
} bzna_transform;

/* What a transform callback is told: slot in the batch, size of the picture without padding, as it
 * is seen (bzna_picture.orientation), and of the output, what its random numbers are forked with
 * (bzna_random_fork), and the output: 0 is the first, i + 1 is outputs.ptr[i]. */
typedef struct bzna_sample_info {
    uint32_t struct_size, slot;
    uint64_t index, epoch;
    int64_t  target;
    uint32_t width, height, out_width, out_height;
    uint64_t occurrence;
    uint32_t view, output;
} bzna_sample_info;

/* Called on decoder threads, concurrently, once a view that has a warp of its own. The sample fails
 * with E_CALLBACK, and by default the run with it (errors.callback_policy), after a negative
 * result, which becomes native_code, and after one that leaves a homography that is singular or a
 * number that is not finite. Forbidden inside: all that takes a context, dataset or loader. */
typedef bzna_status (*bzna_transform_fn)(void *user, const bzna_sample_info *sample,
    bzna_random *random, bzna_transform *transform);

/* Called on decoder threads, concurrently, once a decoded picture, before its views are warped.
 * planes: picture's, in a copy that is to be drawn into; they are those of the coded frame (crop_x,
 * crop_y, orientation). sample->output: the first one made of it. random: BZNA_OPERATION_PICTURE's.
 * After a negative result the sample fails as above. Forbidden inside: as above. */
typedef bzna_status (*bzna_picture_fn)(void *user, const bzna_sample_info *sample,
    bzna_random *random, const bzna_picture *picture, void *const planes[3]);
/* What bzna_picture_render writes: edges of 1..16384 pixels; BZNA_CHANNELS_... */
typedef struct bzna_output {
    uint32_t struct_size, width, height, dtype, layout, channels;
} bzna_output;

BZNA_API void bzna_transform_init(bzna_transform *transform, size_t struct_size);
BZNA_API void bzna_output_init(bzna_output *output, size_t struct_size);

/* Warps one picture into dst (channels * height * width elements), on the caller's thread, with
 * malloc's memory. Errors: E_ARGUMENT, E_BUFFER, E_UNSUPPORTED. */
BZNA_API bzna_status bzna_picture_render(const bzna_picture *picture,
    const bzna_transform *transform, const bzna_output *output, void *dst, size_t dst_bytes,
    bzna_error *err);
/* compute_affine_matrix of the original: H = T_in T_crop R S T_out. The crop (has_crop 0: the whole
 * input) has its center crop_x, crop_y from the input's; translate_x, _y are in output pixels. */
typedef struct bzna_affine {
    uint32_t struct_size, in_width, in_height, out_width, out_height, has_crop;
    double   crop_x, crop_y, crop_width, crop_height;
    double   degrees, translate_x, translate_y;
    uint32_t flip_h, flip_v, resize, keep_ratio;
} bzna_affine;
BZNA_API void bzna_affine_init(bzna_affine *affine, size_t struct_size);
/* Writes the 3x3 matrix. Errors: E_ARGUMENT for a size of 0 or a NaN. */
BZNA_API bzna_status bzna_affine_matrix(const bzna_affine *affine, double homography[9],
    bzna_error *err);
/* out = a b, row-major: b first, then a. out may be a or b. */
BZNA_API void bzna_homography_multiply(const double a[9], const double b[9], double out[9]);
/* NONE: centered, one output pixel for one input pixel. MXNET: as its ImageRecordIter has it. There
 * a picture of w x h, with its padding, that is smaller than the output of W x H is enlarged before
 * it is cropped: if h < H, w becomes floor(w H / h), and h H; then, if w < W, h becomes
 * floor(h W / w), and w W. With crop_px it is not; a crop larger than the picture is centered. */
enum { BZNA_WARP_NONE = 0, BZNA_WARP_RANDOM_RESIZED_CROP = 1, BZNA_WARP_CENTER_RESIZED_CROP = 2,
       BZNA_WARP_SIMILARITY = 3, BZNA_WARP_MXNET = 4 };
/* How crops are drawn. AUTO: TORCHVISION for RANDOM_RESIZED_CROP, else BENZINA, the original's:
 * log-uniform area. TORCHVISION: uniform area, whole pixels; centered: its Resize, CenterCrop. */
enum { BZNA_LAW_AUTO = 0, BZNA_LAW_BENZINA = 1, BZNA_LAW_TORCHVISION = 2 };
/* A random warp. A setting that has no effect on the kind is refused. */
typedef struct bzna_warp {
    /* BZNA_WARP_..., BZNA_LAW_... */
    uint32_t kind, law;
    /* scale: RANDOM_RESIZED_CROP: of the crop's AREA, lo..hi, default 0.08..1. SIMILARITY: of the
     * area, default 1..1. CENTER_RESIZED_CROP: [0] is the fraction of the short edge, default 1
     * (224/256: short edge 256, crop 224). ratio: of the crop's width to its height, lo..hi;
     * default 3/4..4/3 for RANDOM_RESIZED_CROP, the input's own for SIMILARITY. MXNET:
     * min.., max_random_scale, and 1 -+ max_aspect_ratio; default 1..1 */
    double   scale[2], ratio[2];
    /* rotation, lo..hi, of whole degrees with MXNET (+-max_rotate_angle; of no width: rotate).
     * SIMILARITY: shift, at most +- these fractions of the output's size */
    double   degrees[2], translate[2];
    /* probabilities of mirroring; with every kind */
    double   flip_h, flip_v;
    /* with every kind, on top of it: torchvision's RandomAffine of the output (degrees clockwise,
     * lo..hi; shear in degrees below 90, x lo..hi, y lo..hi), then its RandomPerspective
     * (distortion_scale; p, default 0.5). What they bring in is the input beyond the crop */
    double   rotate[2], shear[4], perspective, perspective_p;
    /* SIMILARITY: scale crops (forced by scale, ratio); keep ratios; crop anywhere (MXNET, too) */
    uint32_t resize, keep_ratio, random_crop, reserved0;
    /* MXNET: max_shear_ratio; min.. and max_img_size (0: any); min.. and max_crop_size (0: the
     * output's size); pad; resize; with has_crop_start 1, crop_x_start, crop_y_start */
    double   shear_ratio;
    uint32_t canvas_px[2], crop_px[2], pad_px, short_edge_px;
    uint32_t has_crop_start, crop_x_start, crop_y_start, reserved1;
    uint64_t reserved[4];
} bzna_warp;
BZNA_API void bzna_warp_init(bzna_warp *warp, size_t struct_size);

/* Draws one warp. Draws are taken from random in this order: by the original's law s, then (ar) up
 * to 10 times; by torchvision's (s, ar) up to 10 times; then, if that found a crop, cx, cy;
 * degrees, tx, ty, flip_h, flip_v. MXNET: shear, degrees, scale, ratio, crop, x, y, flips. Then
 * rotate, shear x, y, whether there is perspective, x, y of its corners, clockwise from the top
 * left. A range of no width takes none. Errors: E_ARGUMENT. */
BZNA_API bzna_status bzna_warp_draw(bzna_random *random, const bzna_warp *warp, uint32_t in_width,
    uint32_t in_height, uint32_t out_width, uint32_t out_height, double out[9], bzna_error *err);

/* How colors are drawn: brightness, contrast, saturation, hue (lo..hi; 0, 0: none) by torchvision's
 * ColorJitter, in this order; grayscale: RandomGrayscale's p. The out-of-bounds color stays. As of
 * MXNet: random_h (at most 180), _l, _s (255) in mxnet_hls, max_random_...; c (below 1) = 1 +
 * U(-,+), i = U(-,+): y = ((x - mean) * c + i) * scale. mxnet_clamp_hue: see clamp_hue above. */
typedef struct bzna_jitter {
    float    brightness[2], contrast[2], saturation[2], hue[2];
    float    grayscale, mxnet_hls[3], mxnet_contrast, mxnet_illumination;
    uint32_t mxnet_clamp_hue, reserved0;  uint64_t reserved[2];
} bzna_jitter;
BZNA_API void bzna_jitter_init(bzna_jitter *jitter, size_t struct_size);
/* Draws one jitter, in the order of the fields (mxnet_hls: two draws each), into transform. A range
 * of no width, or a probability of 0 or 1, takes no draw. Errors: E_ARGUMENT. */
BZNA_API bzna_status bzna_jitter_draw(bzna_random *random, const bzna_jitter *jitter,
    bzna_transform *transform, bzna_error *err);

/* ---- Loaders ------------------------------------------------------------------------------ */
enum { BZNA_ORDER_SEQUENTIAL = 0, BZNA_ORDER_SHUFFLE = 1 };
/* An epoch's last batch when it is not full. PARTIAL delivers fewer samples (for some ranks none:
 * count 0), DROP no batch, PAD fills it from the start of the order; info.count are real. */
enum { BZNA_LAST_PARTIAL = 0, BZNA_LAST_DROP = 1, BZNA_LAST_PAD = 2 };
/* REPLACE: each position is an independent draw. ONCE: without replacement (Efraimidis, Spirakis
 * 2006), by sorting all samples as an epoch starts (16 bytes each); order.kind has no effect. */
enum { BZNA_WEIGHTING_NONE = 0, BZNA_WEIGHTING_REPLACE = 1, BZNA_WEIGHTING_ONCE = 2 };
/* AUTO: NVDEC where the context has it, and in software what it cannot decode. */
enum { BZNA_DECODER_AUTO = 0, BZNA_DECODER_SOFTWARE = 1, BZNA_DECODER_NVDEC = 2 };

/* What a sample that cannot be read or decoded does. FILL: its slot holds the out-of-bounds color.
 * REPLACE: its slot takes the sample at the position world_size further on in the epoch's order
 * (from the end, back to its start), and so on up to 64 times: the same one in every run, delivered
 * at its own position as well. STOP: bzna_loader_next returns its error instead of its batch. */
enum { BZNA_ON_ERROR_FILL = 0, BZNA_ON_ERROR_REPLACE = 1, BZNA_ON_ERROR_STOP = 2 };
/* What a sample does that a callback failed (E_CALLBACK: transform, picture, a source's read_at).
 * STOP: bzna_loader_next returns its error instead of its batch, whatever the policy for samples
 * is. SAMPLE: it counts as one that cannot be read or decoded, for which there is that policy. */
enum { BZNA_ON_CALLBACK_ERROR_STOP = 0, BZNA_ON_CALLBACK_ERROR_SAMPLE = 1 };
#define BZNA_WAIT_FOREVER   ((int64_t)-1)
#define BZNA_EPOCHS_ENDLESS UINT64_MAX
/* The caller's memory. */
typedef struct bzna_buffer {
    void    *data;
    uint64_t bytes;
} bzna_buffer;

/* Batches, and where they lie. */
typedef struct bzna_loader_output {
    /* 1..65536 samples; 1..16384 pixels. All three must be given, but for sizes of 0 with
     * fields.tensors or bytes: batches without pictures, on the host */
    uint32_t           batch_size, width, height;
    /* BZNA_DTYPE_..., BZNA_LAYOUT_..., BZNA_CHANNELS_...; views of each sample, default 1: view n
     * has the random numbers that are forked with n. slices: equal parts that a batch of one output
     * and view is delivered in (one a device, say), default 1; must divide batch_size */
    uint32_t           dtype, layout, channels, views, slices;
    /* AUTO: on the context's device, else in host memory. CUDA: there; ordinal: 0 or its own */
    bzna_device        device;
    /* the consumer's CUstream, for batches on the device; NULL: the loader makes one (a
     * non-blocking one, which the default stream does not wait for): chapter 11 */
    void              *stream;
    /* memory for batches, batches_in_flight * slices of them (the array is copied):
     * buffers[batch * slices + slice], each for batch_size / slices samples (of all outputs in
     * order, each from a multiple of 256 bytes on), aligned to 4 bytes, valid until the loader is
     * closed and its batches are released. Where there is a GPU, device must be named */
    const bzna_buffer *buffers;
    uint32_t           buffer_count, reserved0;
    uint64_t           reserved[4];
} bzna_loader_output;
/* The samples of an epoch. Arrays are copied. */
typedef struct bzna_loader_order {
    /* BZNA_ORDER_..., BZNA_LAST_... */
    uint32_t        kind, last_batch;
    /* how many epochs to deliver, one after the other (default 1), from first_epoch on */
    uint64_t        seed, epochs, first_epoch;
    /* the samples of an epoch, by index; may repeat. NULL: all */
    const uint64_t *indices;
    uint64_t        index_count;
    /* how likely a sample is drawn: one a sample (of indices, when given), or with weights_by_part
     * one a part of a concatenation, shared evenly by its samples. Finite, >= 0, one > 0 */
    const double   *weights;
    uint64_t        weight_count;
    /* BZNA_WEIGHTING_...; with it, draws an epoch, at most 2^63, default: as many as samples */
    uint32_t        weighting, weights_by_part;
    uint64_t        epoch_samples;
    uint64_t        reserved[4];
} bzna_loader_order;
/* This process's share: chapter 9. world_size: default 1. */
typedef struct bzna_loader_shard {
    uint32_t rank, world_size;
    uint64_t reserved[2];
} bzna_loader_shard;
/* BZNA_FILTER_..., BZNA_ANTIALIAS_... AREA with OFF is refused. */
typedef struct bzna_loader_filter {
    uint32_t kind, antialias;
    uint64_t reserved[2];
} bzna_loader_filter;

/* y = (x - mean) / std, std 0 = 1; or y = (x - bias) * scale, scale 0 = 1; not both. fill: the
 * out-of-bounds color, default black; fill_space: BZNA_FILL_...; matrix: BZNA_MATRIX_...
 * mean_image, in place of mean or bias: one for each pixel, of float32 [channels, height, width] of
 * the output, copied. An output of another size or other channels needs own_color then. jitter:
 * with random numbers of BZNA_OPERATION_COLOR, forked with the view (own_warp 0: the first's). */
typedef struct bzna_loader_color {
    float       mean[3], std[3], bias[3], scale[3], fill[3];
    uint32_t    fill_space, matrix, reserved0;
    const void *mean_image;
    uint64_t    mean_image_bytes;
    bzna_jitter jitter;
    uint64_t    reserved[2];
} bzna_loader_color;

/* A further output of the same samples: the tensor's name, and the picture field that it is made
 * of (NULL: the first output's; a field is decoded once). Sizes of 0 are the first output's.
 * own_warp 0: view v is warped, filled and colored as view v of the first output is, whatever the
 * callback made of that; the warp is scaled from the sizes of the first output and picture to its
 * own, so that edges meet edges. views: 0, or as many. 1: by warp, with random numbers forked with
 * the view numbers after those of the outputs before it that have warps of their own, and the
 * callback is asked. own_filter, own_color 0: as the first output; 1: by filter, color. */
typedef struct bzna_extra_output {
    uint32_t           struct_size, width, height, dtype, layout, channels, views;
    uint32_t           own_warp, own_filter, own_color;
    const char        *name, *field;
    bzna_warp          warp;
    bzna_loader_filter filter;
    bzna_loader_color  color;
} bzna_extra_output;

/* The outputs beside the first one, at most 15; views of all together: at most 64. */
typedef struct bzna_loader_outputs {
    const bzna_extra_output *ptr;
    uint64_t                 count;
} bzna_loader_outputs;

/* image: which picture of a sample: "image", "thumb", or a track's name, which the first sample
 * must have. Default: if width and height are at most 512, the thumbnail where a sample has one;
 * else the picture. tensors, bytes: further fields of each batch, by name, commas between them.
 * tensors: integers ([N] int64, -1: none) and vectors ([N, k] float32); k is how many numbers the
 * first sample has, or stands behind a colon, "cls,label:16"; what a shorter vector, or a failed
 * sample, leaves of its row is NaN; longer ones fail with E_MISMATCH. bytes: of any kind, for
 * bzna_batch_bytes; one with the name of a tensor of every batch ("index") comes so. Copied. */
typedef struct bzna_loader_fields {
    const char *image, *tensors, *bytes;
    uint64_t    reserved[3];
} bzna_loader_fields;
typedef struct bzna_loader_read {
    /* threads: default 1; with NVDEC, one for two sessions, 2 to 8. At most 256. ahead_samples:
     * samples read before they are decoded; default 2 a decoder thread + 4 a session + 2. At most
     * 65536. memory_bytes: of all of them; a larger sample fails with E_LIMIT. Default 1 GiB */
    uint32_t threads, ahead_samples;
    uint64_t memory_bytes;
    /* how often a sample's read that failed with E_IO is tried again, default 0, at most 1000
     * (opening is not), and the time before the first retry, doubled each time, default 10 ms */
    uint32_t retries, reserved0;
    uint64_t backoff_ns;
    uint64_t reserved[4];
} bzna_loader_read;

/* BZNA_DECODER_...; threads that decode in software: default one a processor, at most 1024.
 * verify_every: one of so many of NVDEC's pictures is compared with libavcodec's, for statistics.
 * jpeg: BZNA_DECODER_NVDEC: all JPEG that are baseline, 4:2:0, of a size it takes (best: one) are
 * NVDEC's, or opening fails; pixels differ by up to 4 of 255. jpeg_shrink 1: a JPEG that all views
 * shrink 2- (4-, 8-) fold, with antialias, is decoded at 1/2 (1/4, 1/8), by libjpeg-turbo. */
typedef struct bzna_loader_decode {
    uint32_t decoder, threads, verify_every, jpeg, jpeg_shrink, reserved0;
    uint64_t reserved[2];
} bzna_loader_decode;

typedef struct bzna_loader_errors {
    uint32_t policy;                  /* BZNA_ON_ERROR_... */
    uint32_t callback_policy;         /* BZNA_ON_CALLBACK_ERROR_... */
    uint64_t reserved[2];
} bzna_loader_errors;

typedef struct bzna_loader_pipeline {
    /* batches being filled, ready, on loan, or released and still read on the device; default 3, at
     * most 64. restore_any_pixels 1: bzna_loader_restore takes states of other pixels, too */
    uint32_t          batches_in_flight, restore_any_pixels;
    /* thread i (decoders, then readers) runs on cpus[i % cpu_count]; NULL: anywhere. Copied */
    const int32_t    *cpus;
    uint32_t          cpu_count, reserved0;
    /* replaces or changes what warp and color gave a sample; NULL: none */
    bzna_transform_fn transform;
    void             *transform_user;
    /* draws into pictures before they are warped: software decodes. NULL: none */
    bzna_picture_fn   picture;
    void             *picture_user;
    uint64_t          reserved[2];
} bzna_loader_pipeline;
typedef struct bzna_loader_config {
    uint32_t             struct_size, reserved0;
    bzna_loader_output   output;
    bzna_loader_outputs  outputs;
    bzna_loader_order    order;
    bzna_loader_shard    shard;
    bzna_warp            warp;
    bzna_loader_filter   filter;
    bzna_loader_color    color;
    bzna_loader_fields   fields;
    bzna_loader_read     read;
    bzna_loader_decode   decode;
    bzna_loader_errors   errors;
    bzna_loader_pipeline pipeline;
} bzna_loader_config;

/* A tensor: of what a loader yields (data is NULL), or of a batch. Elements (BZNA_DTYPE_...) are
 * densely packed, the last dimension first in memory. data is a device address when device is
 * CUDA's: void * as in DLPack, so that host code reads it without a cast. */
typedef struct bzna_tensor {
    uint32_t    struct_size, dtype;
    bzna_device device;
    uint32_t    dimensions, reserved0;
    int64_t     shape[6];
    void       *data;
    uint64_t    bytes;
    char        name[BZNA_NAME_MAX];
    uint64_t    reserved[4];
} bzna_tensor;

/* One batch, as it lies in memory until it is released. Arrays have an element for each slot. */
typedef struct bzna_batch_info {
    /* real samples, in the first slots; of them, those that failed, and that were replaced */
    uint32_t           struct_size, count, failed, replaced;
    /* the first output. NCHW: {batch, channels, height, width}; NHWC: {batch, height, width,
     * channels}; of several views {views, batch, ...}: each view is a batch. In several slices,
     * data is the first slice's: bzna_batch_slice. Without pictures it has no name and no bytes,
     * and its shape says only how many slots there are */
    bzna_tensor        image;
    uint32_t           layout, last_of_epoch, slices, reserved0;
    /* batch: number within the epoch, from 0 (from the restored position after a restore).
     * position: of this rank's first sample in the epoch's global order */
    uint64_t           epoch, batch, position;
    /* BZNA_TARGET_NONE: none; sample index in the dataset; BZNA_OK, or why the slot is filled */
    const int64_t     *targets;
    const uint64_t    *indices;
    const bzna_status *status;
    /* CUstream behind which the image is written: chapter 11; NULL on the host */
    void              *stream;
} bzna_batch_info;

/* What a loader yields (image: of a full batch), and who decodes (BZNA_DECODER_SOFTWARE or _NVDEC,
 * by name, and why this one); defaults are filled in. sessions: NVDEC's, shared with the context's
 * other loaders; 0: software only. Samples and batches are this rank's, padding not counted.
 * picture: what is decoded of each sample (fields.image, else "thumb" or "image"), and why. */
typedef struct bzna_loader_info {
    uint32_t    struct_size, decoder;
    bzna_tensor image;
    uint32_t    layout, sessions, threads, reader_threads, batches_in_flight, read_ahead;
    uint64_t    samples_per_epoch, batches_per_epoch;
    char        decoder_name[64], decoder_reason[128], picture[32], picture_reason[96];
} bzna_loader_info;

/* One stage of the pipeline: samples (batches in the last stage) that passed, and their bytes.
 * Times are summed over its threads: working, waiting for the stage before, and blocked because the
 * next queue was full (back-pressure). depth is what waits in its queue now, capacity at most. */
typedef struct bzna_stage_stats {
    uint64_t count, bytes, busy_ns, wait_before_ns, wait_after_ns, depth, capacity, reserved[3];
} bzna_stage_stats;
enum { BZNA_STAGE_READ = 0, BZNA_STAGE_DECODE = 1, BZNA_STAGE_WARP = 2, BZNA_STAGE_DELIVER = 3 };
/* Counts since the loader was opened. limiting_stage: the stage that is busy while the one before
 * it is blocked and the one after it waits; when readers are blocked, and either bzna_loader_next
 * never waits or decoders have nothing to do, the consumer (DELIVER, which counts batches lent). */
typedef struct bzna_loader_stats {
    uint32_t         struct_size, limiting_stage;
    bzna_stage_stats stage[4];
    /* finished; of them failed; of those, by kind: E_IO, E_TRUNCATED, E_CALLBACK of a source;
     * E_BOX, E_LIMIT, E_NOT_FOUND, ...; E_DECODE, E_CODEC, E_MISMATCH; transform, memory */
    uint64_t samples, samples_failed, failed_read, failed_format, failed_decode, failed_other;
    /* attempts at a replacement; reads tried again; memory that samples read ahead hold now */
    uint64_t         replaced, retries, read_memory_bytes;
    /* by NVDEC; in software; of these, what NVDEC was to and could not (reasons are logged once) */
    uint64_t         samples_nvdec, samples_software, fallbacks;
    /* the context's decoders: created, and given another frame size; both stand still in steady
     * state. Its sessions that ended: no memory for decoders, or 32 failed driver calls in a row
     * while other sessions' succeeded. (If no session's do, software decodes that codec from then
     * on, and sessions go on with others.) By decode.verify_every: pictures compared, and of them
     * not equal */
    uint64_t         decoders_made, decoders_reconfigured, sessions_lost, verified, verify_failed;
    uint64_t         samples_tiled, tiles;   /* HEIF grids, and their tiles that were decoded */
    /* How often a thread, the consumer's or one of the library's, found the loader's lock taken by
     * another, and how long they waited for it together. Threads that wait for work do not count. */
    uint64_t         lock_waits, lock_wait_ns;
} bzna_loader_stats;

/* Where a run stands: 128 bytes of plain little-endian data, for a model's checkpoint. position:
 * samples of the epoch's order already delivered, of all ranks. fingerprint: of the dataset,
 * indices and weights. pixels: a hash of what fixes pixels (chapter 9). check: of all else. */
typedef struct bzna_loader_state {
    uint32_t struct_size, version;
    uint64_t seed, epoch, position, fingerprint, sample_count, end_epoch;
    uint32_t order, check;
    uint64_t pixels, reserved[7];
} bzna_loader_state;
BZNA_API void bzna_loader_config_init(bzna_loader_config *config, size_t struct_size);
BZNA_API void bzna_extra_output_init(bzna_extra_output *output, size_t struct_size);

/* Checks the config, allocates, starts the threads. Reading and decoding begin at once; on the
 * device, when what was enqueued on output.stream before is done. Errors, which name the setting:
 * E_ARGUMENT, E_UNSUPPORTED, E_RANGE (order.indices), E_NOT_FOUND (fields.image), E_BUFFER
 * (output.buffers), E_LIMIT, E_THREAD; E_DEVICE, E_DEVICE_LOST where config asks for the device. */
BZNA_API bzna_status bzna_loader_open(bzna_context *context, bzna_dataset *dataset,
    const bzna_loader_config *config, bzna_loader **out, bzna_error *err);
/* Stops the threads and releases the dataset. Waits for running callbacks and, on the device, for
 * what reads released batches. Batches on loan stay valid; the last one's release frees memory. */
BZNA_API bzna_status bzna_loader_close(bzna_loader *loader);

/* The next batch, in order, lent to the caller until bzna_batch_release. timeout_ns: 0 polls,
 * BZNA_WAIT_FOREVER waits. Returns BZNA_OK with *batch set (else it is NULL); BZNA_END after the
 * last epoch; BZNA_AGAIN when the time is over; E_STOPPED after bzna_loader_stop; E_STATE when
 * another thread is waiting, or all batches are on loan; E_DEVICE, E_DEVICE_LOST, E_CALLBACK of a
 * sample that a callback failed, or any sample's error with BZNA_ON_ERROR_STOP: these stay until
 * bzna_loader_reset or _restore. */
BZNA_API bzna_status bzna_loader_next(bzna_loader *loader, int64_t timeout_ns, bzna_batch **batch,
    bzna_error *err);
/* Ends all waiting, now and later, until bzna_loader_reset or _restore. Does not wait itself. */
BZNA_API bzna_status bzna_loader_stop(bzna_loader *loader, bzna_error *err);
/* Goes to the start of an epoch, whatever is under way, as if it were first_epoch; batches already
 * delivered stay valid. E_STATE while a thread waits in next. */
BZNA_API bzna_status bzna_loader_reset(bzna_loader *loader, uint64_t epoch, bzna_error *err);
/* The state after the last batch delivered. E_STRUCT_SIZE: state has fewer than 128 bytes. */
BZNA_API bzna_status bzna_loader_save(bzna_loader *loader, bzna_loader_state *state,
    size_t struct_size, bzna_error *err);
/* Goes on from a state. Seed and epochs come from it; world size, threads and batch size may
 * differ. E_ARGUMENT: it is of another dataset or order, or of a run whose pixels were made
 * otherwise (chapter 9). One of version 1 (64 bytes, of 0.1) is taken, with a warning. */
BZNA_API bzna_status bzna_loader_restore(bzna_loader *loader, const bzna_loader_state *state,
    bzna_error *err);
/* What the loader yields, and with what. */
BZNA_API bzna_status bzna_loader_get_info(bzna_loader *loader, bzna_loader_info *info,
    size_t struct_size, bzna_error *err);
/* Counts and waits since the loader was opened. */
BZNA_API bzna_status bzna_loader_get_stats(bzna_loader *loader, bzna_loader_stats *stats,
    size_t struct_size, bzna_error *err);
/* The tensors of a full batch, from 0: "image", "target", "index", "status", then those of
 * fields.tensors, which lie on the host, then those of outputs. Batches without pictures have no
 * "image": "target" is their first. E_RANGE past the end. */
BZNA_API bzna_status bzna_loader_tensor(bzna_loader *loader, uint32_t number, bzna_tensor *tensor,
    size_t struct_size, bzna_error *err);
/* The batch as it lies in memory; what info points to is the loader's, valid until its release. */
BZNA_API bzna_status bzna_batch_get_info(const bzna_batch *batch, bzna_batch_info *info,
    size_t struct_size, bzna_error *err);
/* One tensor of the batch, by name. E_NOT_FOUND; E_UNSUPPORTED: "image" lies in several slices. */
BZNA_API bzna_status bzna_batch_tensor(const bzna_batch *batch, const char *name,
    bzna_tensor *tensor, size_t struct_size, bzna_error *err);
/* The value of one of fields.bytes in a slot: a picture as a stream of its own (bzna_image_annexb),
 * numbers as int64_t or float, all with a NUL behind them that is not counted. NULL and 0 where the
 * sample has none, or failed. Valid while the batch is on loan. Errors: E_NOT_FOUND, E_RANGE. */
BZNA_API bzna_status bzna_batch_bytes(const bzna_batch *batch, const char *name, uint32_t slot,
    const void **data, uint64_t *size, bzna_error *err);
/* The status of a slot, with its message in err. E_RANGE past the end. */
BZNA_API bzna_status bzna_batch_error(const bzna_batch *batch, uint32_t slot, bzna_error *err);
/* Where a slice lies, and how many of its samples are real. E_RANGE past the end. */
BZNA_API bzna_status bzna_batch_slice(const bzna_batch *batch, uint32_t slice, void **data,
    uint32_t *count, bzna_error *err);
/* Returns a batch to its loader; NULL is none. Does not wait, while the loader is open. Any thread;
 * of a batch on BZNA_STREAM_PER_THREAD, the one that used it. E_STATE: not on loan, or after fork.
 * What fails on the device, bzna_loader_next reports. */
BZNA_API bzna_status bzna_batch_release(bzna_batch *batch);
/* Moves a batch on the device to another stream of its context: what is enqueued there afterwards
 * reads the finished batch, and releasing orders behind that stream instead of the loader's.
 * E_STATE: not on loan, or to PER_THREAD with DLPack tensors. E_UNSUPPORTED: on the host. */
BZNA_API bzna_status bzna_batch_move(bzna_batch *batch, void *stream, bzna_error *err);
/* Kinds of DLPack tensors (dlpack.h): DLManagedTensor * ("dltensor" capsules), and
 * DLManagedTensorVersioned * of version 1.0 ("dltensor_versioned" capsules). */
enum { BZNA_DLPACK_0 = 0, BZNA_DLPACK_1 = 1 };
/* A tensor of the batch, by name, as a DLPack tensor, into *tensor. It keeps the batch on loan
 * until its deleter has run, on any thread, even after the loader was closed. Nothing is copied or
 * allocated. A call that fails leaves *tensor as it was: a tensor that stands there still has to be
 * deleted. Errors: E_NOT_FOUND; E_UNSUPPORTED (as of bzna_batch_tensor); E_STATE (a batch on
 * BZNA_STREAM_PER_THREAD: the deleter would have to run on that thread). */
BZNA_API bzna_status bzna_batch_to_dlpack(bzna_batch *batch, const char *name, uint32_t version,
    void **tensor, bzna_error *err);

/* ---- Writers ------------------------------------------------------------------------------ */
/* classes: names of the targets 0 .. class_count - 1, for bzna_dataset_class; copied. queue_bytes:
 * memory for samples that wait for those of smaller indices (bzna_writer_add_at); default 64 MiB */
typedef struct bzna_writer_config {
    uint32_t           struct_size, class_count;
    const char *const *classes;
    uint64_t           queue_bytes, reserved[4];
} bzna_writer_config;
enum { BZNA_SPLIT_NONE = 0, BZNA_SPLIT_TRAIN = 1, BZNA_SPLIT_VALIDATION = 2, BZNA_SPLIT_TEST = 3 };
/* A further field of a sample: name (1 to 31 bytes; not "image", "thumb", "target" or "name"), kind
 * (BZNA_FIELD_INTEGER, _VECTOR, _TEXT or _BYTES; the same in all samples), and the value's bytes,
 * as bzna_dataset_field gives them, text without a NUL. An archive has at most 60 such names. */
typedef struct bzna_field_value {
    uint32_t    struct_size, kind;
    const char *name;
    const void *data;
    uint64_t    size;
} bzna_field_value;
/* One sample to write. What it points to is read before the call returns. split: BZNA_SPLIT_...:
 * also listed in that split's tracks, which older readers ignore. image: the full picture, of
 * H.264, H.265, AV1 or JPEG; it must be given, and samples may differ. thumb: its thumbnail; NULL:
 * the picture itself serves, if its frame is at most 512x512. target: written here and in the
 * index; BZNA_TARGET_NONE (set by init): none; once a sample has none, later ones are not indexed.
 * name: UTF-8, at most 65535 bytes, or NULL; as in folders, a path with slashes. */
typedef struct bzna_sample_desc {
    uint32_t                struct_size, split;
    const bzna_image       *image, *thumb;
    int64_t                 target;
    const char             *name;
    const bzna_field_value *fields;
    uint32_t                field_count, reserved0;
    uint64_t                reserved[2];
} bzna_sample_desc;
BZNA_API void bzna_writer_config_init(bzna_writer_config *config, size_t struct_size);
BZNA_API void bzna_field_value_init(bzna_field_value *value, size_t struct_size);
BZNA_API void bzna_sample_desc_init(bzna_sample_desc *sample, size_t struct_size);
/* Makes the file, or empties it; config may be NULL. E_ARGUMENT, E_LIMIT, E_NOT_FOUND, E_IO, ... */
BZNA_API bzna_status bzna_writer_open(bzna_context *context, const char *path,
    const bzna_writer_config *config, bzna_writer **out, bzna_error *err);
/* The same into a sink, which the writer then owns and closes once; on failure the caller does. */
BZNA_API bzna_status bzna_writer_open_sink(bzna_context *context, const bzna_sink *sink,
    const bzna_writer_config *config, bzna_writer **out, bzna_error *err);
/* Writes one sample, behind all that were given: the same inputs give the same bytes. One that is
 * refused (E_ARGUMENT, E_STRUCT_SIZE, E_BOX, E_LIMIT, E_CODEC, E_DECODE, E_MISMATCH) leaves the
 * archive as it was. A failed write (E_IO) ends the writer: every later call returns that status;
 * so does E_MEMORY for the index, else it may be tried again. BZNA_AGAIN: as below. */
BZNA_API bzna_status bzna_writer_add(bzna_writer *writer, const bzna_sample_desc *sample,
    bzna_error *err);
/* The same at an index, for several threads at once: samples come in any order, and lie in the file
 * in that of their indices, whatever the timing. sample NULL: none comes at this index, and those
 * behind it move up. A sample whose turn has not come is copied, up to config.queue_bytes in all,
 * and written by a later call. Past that, the call waits for up to timeout_ns (0: not at all) and
 * returns BZNA_AGAIN: it was not taken. So no call waits forever, and where each thread takes the
 * smallest index that is left, none waits long. Errors: likewise; E_ARGUMENT: the index was given
 * before, or timeout_ns is negative; E_RANGE: it is above 2^32 - 2. */
BZNA_API bzna_status bzna_writer_add_at(bzna_writer *writer, uint64_t index,
    const bzna_sample_desc *sample, int64_t timeout_ns, bzna_error *err);
/* Writes the index, and waits until a file is on the disk; nothing can be added afterwards. The
 * outer bzna_thumb track is written if all samples have thumbnails that share one configuration.
 * E_NO_SAMPLES; E_NOT_FOUND: the message names indices that were not given, and still can be. */
BZNA_API bzna_status bzna_writer_finish(bzna_writer *writer, bzna_error *err);
/* Without finish, as when the process was killed, the file is left unfinished: opening it gives
 * E_UNFINISHED, and `bzna index FILE -o NEW` makes an archive of the samples that it holds. */
BZNA_API bzna_status bzna_writer_close(bzna_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
