/* benzina.h - pictures for training neural networks, decoded as fast as the hardware can
 *
 * A data set is a folder of pictures, tar shards, an archive (.bzna) of JPEG files or of single
 * H.265, H.264 or AV1 frames, or several of these as one. The library decodes their pictures, warps
 * and normalizes them in one pass, and hands over whole batches. Samples can be shuffled, and
 * several batches are in flight at once. The same seed gives the same pixels in the same order,
 * whatever the number of threads. MIT license.
 *
 * This comment is the manual. Its chapters:
 *
 *    1  Vendoring and building        6  Errors                       11  The GPU
 *    2  The first program             7  Color and coordinates        12  Kinds of data sets
 *    3  Objects, structs, lifetimes   8  Limits and hostile files     13  Codecs of your own
 *    4  Threads and callbacks         9  Determinism and resuming     14  What it does not do
 *    5  Memory                       10  Versions and the ABI
 *
 * Names are short here: E_IO means BZNA_E_IO, and output.device means that member of a
 * bzna_loader_config.
 *
 * 1. VENDORING AND BUILDING
 *
 * `make dist` writes a pair of files to build/dist: benzina.h, and benzina.c with the GPU's kernels
 * inside. Copy both into your source tree, and compile benzina.c as C11:
 *
 *     cc -std=c11 -O3 -ffp-contract=off -c benzina.c \
 *        $(pkg-config --cflags libavcodec libavutil libjpeg ffnvcodec)
 *     cc program.c benzina.o $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl
 *
 * -ffp-contract=off keeps results equal between machines with and without fused multiply-add.
 * benzina.c itself tells gcc and clang not to fuse, but clang with -ffp-contract=fast ignores that.
 * benzina.c refuses to be compiled with -ffast-math. If a file of yours includes benzina.c, these
 * rules also hold for everything in that file after the #include.
 *
 * Give the same switches when benzina.c is compiled and when files that include this header are.
 * The header does not declare functions that a switch removes, nor structs and constants that only
 * these functions use. A call of such a function is then an error of the compiler, not the linker.
 * Everything else is the same with every switch. A compiler accepts a misspelled switch silently.
 * Therefore benzina.c refuses likely misspellings, such as BENZINA_NO_LIBAVCODEC and
 * BENZINA_WITHOUT_CUDA. make refuses any -DBENZINA_... in CFLAGS or CPPFLAGS that is none of them.
 *
 *     BENZINA_NO_CUDA      no GPU path, so nv-codec-headers (ffnvcodec) are not needed. Without
 *                          this switch, NVIDIA's driver is looked for at run time: chapter 11
 *     BENZINA_NO_AVCODEC   no libavcodec: only JPEG, raw pixels and pictures of added codecs are
 *                          decoded in software. Data sets of other pictures can still be opened
 *                          and listed
 *     BENZINA_NO_JPEG      no libjpeg-turbo: JPEG is not decoded in software. NVDEC can still
 *                          decode it, and the writer store it. If CUDA and WRITER are left out,
 *                          too, the library does not even read JPEG headers: a program can only
 *                          fetch the bytes of JPEG files
 *     BENZINA_NO_WRITER    no writer of archives
 *     BENZINA_NO_SHARDS    no tar
 *     BENZINA_NO_STILLS    neither PNG nor WebP
 *     BENZINA_NO_FOLDERS   no folders, nor lists of their samples: a path is that of a file
 *     BENZINA_NO_PROVIDERS no providers
 *     BENZINA_NO_AUGMENT   no policies: a loader whose config has policies is refused, and so is a
 *                          transform with operations
 *     BENZINA_NO_MXNET     nothing that only continues runs of MXNet: a loader whose config has a
 *                          warp MXNET, or settings in warp.mxnet, is refused
 *     BENZINA_NO_THREADS   no threads, so -lpthread is not needed: one thread alone may use the
 *                          library, and context_config.no_threads is always 1
 *     BENZINA_STATIC       every function is static: for `#include "benzina.c"` in a file of yours
 *     BENZINA_HIDDEN       no function is exported: for a plugin or shared library with a copy of
 *                          the pair inside. Several copies may then live in one process
 *
 * The library decides for each picture whether this build can decode it. A sample that needs a
 * library that is left out fails by itself, with E_UNSUPPORTED and a message that names the switch,
 * and the others are loaded. A loader is refused as a whole only if it is known, when it is opened,
 * that none of its samples can be decoded: those of a plain video without libavcodec, for example.
 *
 * The parts that BENZINA_NO_... leaves out can also be removed from the text:
 * make dist WITHOUT="SHARDS WRITER" writes a benzina.c without these parts, and a benzina.h without
 * their declarations and their paragraphs of this manual, which defines BENZINA_NO_SHARDS and
 * BENZINA_NO_WRITER. A file or setting that needs such a part fails with E_UNSUPPORTED either way,
 * and the message names the switch. A program can ask such a header #ifdef BENZINA_NO_SHARDS.
 *
 * 2. THE FIRST PROGRAM
 *
 *     #include "benzina.h"
 *     #include <stdio.h>
 *
 *     int main(int argc, char **argv)
 *     {
 *         bzna_loader_config config = {
 *             .struct_size = sizeof config,
 *             .output = { .batch_size = 16, .width = 224, .height = 224 },
 *             .order = { .kind = BZNA_ORDER_SHUFFLE, .seed = 7 },
 *             .warp = { .kind = BZNA_WARP_RANDOM_RESIZED_CROP, .flip_h = 0.5 },
 *         };
 *         const char *path = argc > 1 ? argv[1] : "train.bzna";
 *         bzna_context *context = NULL;
 *         bzna_dataset *dataset = NULL;
 *         bzna_loader *loader = NULL;
 *         bzna_batch *batch = NULL;
 *         bzna_error err = {0};
 *         bzna_status status;
 *
 *         status = bzna_context_open(NULL, &context, &err);
 *         if (status == BZNA_OK)
 *             status = bzna_dataset_open(context, path, NULL, &dataset, &err);
 *         if (status == BZNA_OK)
 *             status = bzna_loader_open(context, dataset, &config, &loader, &err);
 *
 *         while (status == BZNA_OK) {
 *             status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err);
 *             if (status == BZNA_OK) {
 *                 bzna_batch_info info;
 *                 bzna_batch_get_info(batch, &info, sizeof info, NULL);
 *                 printf("%u pictures, %u of them failed\n", info.count, info.failed);
 *                 bzna_batch_release(batch);
 *             }
 *         }
 *         if (status < 0)              // after the last batch, status is BZNA_END, which is 1
 *             fprintf(stderr, "%s\n", err.message);
 *
 *         bzna_loader_close(loader);
 *         bzna_dataset_close(dataset);
 *         bzna_context_close(context);
 *         return status < 0;
 *     }
 *
 * A training loop needs these functions, and may skip all others:
 *
 *     bzna_context_open, _close               once in a process
 *     bzna_dataset_open, _count, _close       the samples
 *     bzna_loader_open, _next, _close         the batches, in an order, as one config says
 *     bzna_loader_get_config                  the values that zeros in the config mean
 *     bzna_loader_save, _restore, _reset      continuing after an interruption; another epoch
 *     bzna_loader_statistics                  failures, and the stage that limits the rate
 *     bzna_batch_get_info, _tensor, _bytes    images, targets, indices, statuses; other fields
 *     bzna_batch_error, _release              why a sample failed; giving the batch back
 *     bzna_batch_move, _to_dlpack             batches in device memory; for frameworks
 *
 * Everything else, by the sections below:
 *
 *     what is in a data set                   bzna_dataset_...
 *     data from elsewhere                     sources, providers (chapter 12), codecs (chapter 13)
 *     single pictures                         bzna_image_..., bzna_decoder_..., bzna_picture_render
 *     what a loader draws, for callbacks      bzna_random_..., bzna_..._draw, bzna_geometry_box
 *     orders of your own                      bzna_loader_set_batches, bzna_order_permute
 *     more about a loader                     bzna_loader_get_info, _tensor, bzna_statistics_since
 *     ending a wait for batches               bzna_loader_stop
 *     what GPUs can do                        bzna_context_device_info, bzna_context_codec_info
 *     writing archives                        bzna_writer_...
 *     for bindings                            bzna_..._init, bzna_status_name, _text, bzna_version
 *
 * 3. OBJECTS, STRUCTS, LIFETIMES
 *
 *     bzna_context   allocator, log, limits, device; shared by everything below
 *     bzna_dataset   immutable samples with named fields, from one container or several
 *     bzna_loader    order + warps + threads over one dataset; yields batches
 *     bzna_batch     one batch on loan from a loader; give it back with bzna_batch_release
 *     bzna_decoder   decodes single pictures, without a loader
 *     bzna_writer    writes an archive
 *
 * All are opaque. X_open makes an object and stores it in *out, or NULL if it fails. X_close ends
 * the object, which its owner must not use again. Closing NULL does nothing.
 *
 * An object keeps alive everything that it was made from. Therefore contexts, datasets and loaders
 * may be closed in any order. A batch on loan stays readable after its loader was closed, until the
 * batch is released.
 *
 * Structs that you fill in have a member struct_size, and zero means the documented default for
 * every other member. There are three ways to prepare such a struct:
 *     - In C, use a designated initializer, as in chapter 2. Members that it leaves out become 0.
 *     - In C++, write `bzna_loader_config config{}; config.struct_size = sizeof config;`.
 *     - In any language, set all bytes to zero. Then set struct_size, and the members that you
 *       need. For most structs, bzna_X_init(&x, sizeof x) sets the zeros and struct_size. The init
 *       functions do nothing with NULL.
 *
 * The groups of a bzna_loader_config and the structs inside them (bzna_warp, bzna_jitter,
 * bzna_loader_output) have no struct_size: clear them, and set the members that you need. Zero is
 * the default of each member there, too.
 *
 * Two words are kept apart in all names, but not in text, which says picture for both. An image is
 * a picture as it is coded: bytes of a stream or a file. A picture is pixels: planes in memory.
 * However, the tensor of pixels in a batch is called "image", after the field that it was made
 * from.
 *
 * A struct is checked when it is used, and the error's message names the field at fault. Reserved
 * words must be 0. One that is set is E_STRUCT_SIZE, as if the struct were of a later version, and
 * the message names the word. A struct_size below 4 is E_STRUCT_SIZE. Only in bzna_error does a
 * struct_size of 0 mean the size of the library that runs, so that `bzna_error err = {0};` works.
 * The library never writes past its own size of a struct, whatever struct_size or an argument of
 * that name says: see chapter 10.
 *
 * To ask about an object, call bzna_X_get_info(x, &info, sizeof info, &err). Four structs are
 * values that one call fills in and another call takes: bzna_image, bzna_picture, bzna_statistics
 * and bzna_loader_state. Prepare a bzna_image or a bzna_picture like a struct that you fill in,
 * before a call fills it in.
 *
 * An array is a pointer with its count right after it: indices and index_count, or, in a group that
 * has nothing else, ptr and count. Counts of samples, batches and files, and those of groups, are
 * uint64_t, and all others are uint32_t. Numbers of bytes in structs are uint64_t. Arrays of a
 * batch have an element for each of its slots, unless a comment says otherwise.
 *
 * 4. THREADS AND CALLBACKS
 *
 *     object                       may be used by
 *     bzna_context, bzna_dataset   any thread, concurrently
 *     bzna_loader                  any thread, concurrently, but only one thread at a time may wait
 *                                  in bzna_loader_next: a second one gets E_STATE
 *     bzna_batch                   any thread, concurrently, but it is released only once: see
 *                                  bzna_batch_release
 *     bzna_decoder                 one thread at a time
 *     bzna_writer                  any thread, concurrently
 *
 *     callback                     is called on
 *     allocator.alloc, .release    any thread, concurrently
 *     device_allocator             the caller's thread; also a loader's threads, when they grow
 *                                  their staging memory
 *     source.read_at               the loader's reader threads, concurrently; also the caller's
 *                                  thread, in bzna_dataset_* calls
 *     source.size                  the caller's thread, in bzna_dataset_open_source
 *     source.close                 the thread that releases the dataset last
 *     provider.read, .locate       the loader's reader threads, concurrently; also the caller's
 *                                  thread, in bzna_dataset_* calls and in bzna_loader_open
 *     provider.unpack              the same, and the loader's decoder threads
 *     provider.close               the thread that releases the dataset last
 *     codec.recognize              the loader's reader and decoder threads, the context's decode
 *                                  sessions and the caller's thread, concurrently
 *     codec, except recognize and  the same threads, each with its own state
 *     close
 *     codec.close                  the thread that releases the context's last object
 *     sink.write_at, .close        a thread that adds, finishes or closes; never concurrently
 *     log                          the caller's thread, inside bzna_* calls; with log_any_thread,
 *                                  any thread
 *     transform, picture, make     the loader's decoder threads and the context's decode sessions,
 *                                  concurrently
 *
 * No lock is held while a callback runs. Rules for callbacks:
 *     - A callback must return, because the library waits for running callbacks when it closes.
 *     - A callback must not close any object: X_close returns E_STATE there, and does nothing. The
 *       exception is a decoder that was opened without a context, which a codec may have.
 *     - No C++ exception and no longjmp may leave a callback. The frames above it are C, and would
 *       not be unwound.
 *     - An allocator or device_allocator must call no bzna_* function. The callbacks of transforms,
 *       pictures, fields and codecs must call no function that takes a context, data set or loader,
 *       but bzna_loader_stop.
 *     - Calls that wait return E_STATE in every callback: bzna_loader_next, _reset and _restore,
 *       and those that add to a writer or finish it.
 *
 * Without threads: a loader with pipeline.no_threads starts no thread. bzna_loader_next then reads,
 * decodes and warps the samples of its batch on the thread that calls it, and all callbacks above
 * run there, so that a debugger shows the program's own stack above them. Batches have the same
 * bits. NVDEC's sessions are threads, so software decodes. Batches may still be in a GPU's memory,
 * and be warped there. context_config.no_threads asks for this in all loaders of a context, and
 * lets no other call start a thread either, as in a sandbox that forbids threads.
 * BENZINA_NO_THREADS compiles the library without a threads library.
 *
 * The library's threads block all signals, except those that a thread causes itself (SIGSEGV,
 * SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS).
 *
 * A thread that calls the library needs 64 kB of stack, and so does each of the library's threads,
 * which have the system's default size: 8 MB with glibc, 128 kB with musl, 512 kB on macOS. These
 * 64 kB were measured with gcc and clang on x86-64, with all kinds of data sets, libavcodec and
 * libjpeg-turbo included. Add the stack that your callbacks need.
 *
 * After fork(), a child must not use objects that its parent made. Calls on such loaders, and calls
 * that would touch CUDA, return E_STATE in the child.
 *
 * 5. MEMORY
 *
 * The library allocates its memory with the context's allocator, and passes the size again when it
 * releases a block. The alignment that it asks for is a power of two: 16 bytes for most blocks, 64
 * bytes for batches, and never more. libavcodec and libjpeg-turbo allocate by their own means, and
 * so does NVIDIA's driver, from which pinned host memory comes.
 *
 * A loader allocates its batches, queues and threads when it is opened. Its read buffers grow to
 * the largest sample met. After that it allocates nothing per batch.
 *
 *     data set                     memory for its index
 *     archive                      12 bytes a sample, 12 for its name, and 8 for its target, read
 *                                  when it is opened
 *     mp4 video                    12 bytes a frame
 *     provider                     none per sample; 8 bytes a file, and its path
 *     tar                          4 bytes a sample, and 16 bytes a field of each
 *     folder                       names; small files, once they were read (chapter 12)
 *
 * Memory that is opened as a data set must stay as it is until the data set is closed. If that
 * memory is a mapped file, the file must not be shortened meanwhile.
 *
 * 6. ERRORS
 *
 * A bzna_status is 0 (BZNA_OK), a positive note (BZNA_END, BZNA_AGAIN), or a negative error. Calls
 * that can fail take a bzna_error as their last argument, which may be NULL. Two kinds of calls
 * take none, because they fail only with E_STATE: X_close and bzna_batch_release.
 *
 * When a call fails, bzna_error holds
 *     - the status
 *     - a message that names the file, box or field
 *     - the byte offset in the file, or BZNA_NO_OFFSET
 *     - the native code of the operating system, libavcodec or the driver, or 0.
 *
 * The comments on functions do not list these statuses, which nearly every call can return:
 *     - E_ARGUMENT, for an argument that must not be NULL
 *     - E_STRUCT_SIZE, for a struct_size that does not fit
 *     - E_MEMORY
 *     - E_STATE, for calls that chapter 4 forbids in callbacks and after fork.
 *
 * A sample that cannot be read or decoded costs only its own slot of the batch. The slot is filled
 * with the out-of-bounds color, and its status says why. bzna_batch_error has the message. The
 * other samples are not affected. errors.on_error can choose to replace such a sample or to end the
 * run. Look at bzna_batch_info.failed in the loop over batches: it says how many samples
 * of a batch are such slots. bzna_statistics has the index and the message of the first one, also
 * if there is no log.
 *
 * If memory, a thread or the device is lacking, the sample is not at fault. The loader then makes
 * the sample a second time, with the same pixels. If that also fails for such a reason,
 * bzna_loader_next returns E_MEMORY, E_THREAD or E_DEVICE instead of its batch, whatever
 * errors.on_error is. No slot is filled for such a reason.
 *
 * A callback that fails is a fault of the program, not of the data. It ends the run with
 * E_CALLBACK, whatever errors.on_error is. errors.on_callback_error can choose to treat the sample
 * as one that cannot be decoded. Providers and codecs are exceptions, because they supply the data:
 * if one of them fails, only that sample fails.
 *
 * The library returns errors and never prints them. It keeps libavcodec's decoders from printing,
 * too. A few messages that libavcodec logs without naming a decoder reach stderr all the same, such
 * as "nb_cpb 0 invalid" for some damaged H.265 parameter sets, or "Invalid code" for some damaged
 * WebP files. They go through libavcodec's process-wide log, whose settings the library leaves to
 * the program: call av_log_set_level to silence them.
 *
 * 7. COLOR AND COORDINATES
 *
 * A homography H (3x3, row-major) maps OUTPUT pixel coordinates to INPUT pixel coordinates. The
 * input is the picture without padding, after its orientation (EXIF, a track's matrix) was applied.
 * Integers are pixel centers. The output pixel (x, y) is sampled from the input at (X/W, Y/W),
 * where [X Y W]' = H [x y 1]'.
 *
 * A place more than half a pixel outside [0, width-1] x [0, height-1] gives the out-of-bounds
 * color, and so does NaN. Within that half pixel, LINEAR and NEAREST use the border pixel.
 *
 * Y'CbCr is filtered with the stream's chroma siting, and converted to R'G'B' in [0, 255], which is
 * not rounded. The matrix and the range come from the first of these sources that has any:
 *     1. the container's colr box (QuickTime's kind of it, nclc, gives a matrix but no range)
 *     2. the stream (VUI, or AV1's sequence header). A JPEG of Y'CbCr always has BT.601's
 *        matrix and the full range, as JFIF says.
 *     3. the default: BT.601 at any size. It is full-range in archives and in tracks that are
 *        called bzna_... Everywhere else it is limited-range, as FFmpeg assumes.
 *
 * There is one exception: a 4:4:4 stream that says that it is RGB (matrix 0) is RGB, whatever its
 * container says.
 *
 * The library never guesses the matrix or the range from pixels.
 *
 * Each channel x then becomes y = (x - bias) * scale. In a bzna_loader_color, mean and std are a
 * second spelling of the same: y = (x - mean) / std. Settings that use both spellings are refused.
 *
 * JOINT WARPS. Masks, depth or the right picture of a pair are further image fields of a sample:
 * files with one key in a tar (a.jpg, a.mask.png), fields of an archive, folders side by side
 * (examples/formats). Each becomes a further output (config.extra_outputs) that names its field.
 * Without a warp of its own, such an output has that of the first output's picture: the same crop,
 * flips, rotation and perspective. A picture of another size than the first one is assumed to show
 * the same scene, edge to edge, so the warp is scaled to its size. Each output has its own size,
 * filter, dtype, channels, fill and colors; without colors of its own, it has those of the first
 * output, with its color jitter. The following output is for masks of class numbers. It sets a
 * filter and colors of its own, so its pixels are exactly those of the mask, or the fill:
 *
 *     bzna_loader_filter nearest = { .kind = BZNA_FILTER_NEAREST };
 *     bzna_loader_color as_they_are = { .fill = { 0 } };
 *     bzna_loader_output mask = { .name = "mask", .field = "masks", .dtype = BZNA_DTYPE_UINT8,
 *                                 .channels = BZNA_CHANNELS_GRAY, .palette = BZNA_PALETTE_INDEX,
 *                                 .filter = &nearest, .color = &as_they_are };
 *     config.extra_outputs.ptr = &mask;
 *     config.extra_outputs.count = 1;
 *
 * A mask with a palette is returned as its indices, which are the class numbers, because the
 * output's palette is BZNA_PALETTE_INDEX. This also holds for archives, which store masks as their
 * original files. PNG of 16 bits a sample is decoded with all bits, and so are PNM and TIFF by
 * their codecs. A value x of 16 bits is returned as x / 257, in 0..255, which float32 holds to 1
 * part in 2^23. To get a depth map in its original units, set dtype to FLOAT32 and color.scale[0]
 * to 257. Floating-point pictures (TIFF, PFM, OpenEXR) are not read; such depth can be a field of
 * bytes.
 *
 * POLICIES are random augmentations beyond crop, flips and jitter: RandAugment, TrivialAugmentWide,
 * AutoAugment, blur, solarize, erasing and others. A bzna_policy is a list of operations, and says
 * how many of them are drawn. Policies are applied one after the other. The lists of RandAugment,
 * TrivialAugmentWide and AutoAugment are in examples/formats/policies.c, which is not part of the
 * pair: compile it and data.c with your program, and include formats.h. This is the recipe of many
 * vision transformers, two operations of RandAugment with magnitude 9, and then erasing:
 *
 *     bzna_operation erase = { .kind = BZNA_OP_ERASE, .magnitude = { 0.02f, 0.33f },
 *                              .probability = 0.25f };
 *     bzna_policy policies[2] = { { 0 }, { .operations = &erase, .operation_count = 1 } };
 *     bzna_formats_policy_preset(BZNA_PRESET_RAND_AUGMENT, 2, 9, &policies[0], NULL);
 *     config.augment.policies = policies;
 *     config.augment.policy_count = 2;
 *
 * Operations that move pixels (shear, translate, rotate) join the warp, so that the picture is
 * filtered once. Pixels that they move in from beyond the crop have the out-of-bounds color, unless
 * augment.beyond_crop is set. If any other operation was drawn for a view, its pixels are rounded
 * to 8 bits after the warp and its jitter, and after each operation, as in torchvision. Operations
 * that cover a part of the picture (erase, cutout, grid mask) come last. bzna_batch_info.operations
 * has the operations that were drawn. examples/augment.c is a whole program.
 *
 * BOXES AND POLYGONS are fields, too: JSON, XML, vectors. config.fields.make turns such fields into
 * tensors while the batch is made, on the decoder threads:
 *
 *     bzna_made made[2] = {
 *         { .name = "boxes", .dimensions = 2, .shape = { 100, 5 }, .zero = 1 },
 *         { .name = "boxes_count", .dtype = BZNA_DTYPE_INT64, .zero = 1 },
 *     };
 *     config.fields.bytes = "json,text=caption.txt,text=note.txt";
 *     config.fields.made = made;
 *     config.fields.made_count = 2;
 *     config.fields.make = read_boxes;
 *
 * Each batch then has "boxes" [N, 100, 5], "boxes_count" [N], and bzna_batch_bytes of "text". The
 * callback gets the bytes and the drawn geometry: the homography both ways, sizes, crop and flips.
 * bzna_geometry_box maps a box of the picture to the output, and clips it there. To map boxes later
 * instead, set config.fields.geometry: each batch then has these numbers as the tensor "geometry".
 *
 * examples/formats/rules.c calls a function for each field, which is chosen by name, suffix or
 * pattern, and adds the counts. examples/boxes.c is a whole program with it.
 *
 * 8. LIMITS AND HOSTILE FILES
 *
 * Every length, count and offset of a file is checked before it is used.
 *
 *     limit                                      default or fixed value
 *     boxes of an mp4 file, nested               16 deep
 *     tracks of a movie                          64
 *     bytes of a sample                          256 MiB: context_config.max_sample_bytes
 *     edge of a coded frame                      16384 pixels: context_config.max_edge_px
 *     a still of over 64 MiB when decoded        must have a coded byte for each 4096 bytes
 *     scans of a JPEG                            500
 *     fields of a tar's samples                  64
 *     parts of a data set, or its containers     65536
 *
 * A damaged index entry fails its own sample, when that sample is used. Opening a data set from
 * memory or from a source uses at most 512 KiB of memory, and 512 bytes for each byte of the file,
 * whatever counts the file claims.
 *
 * SECURITY. Files from strangers may be opened, listed, and copied: containers, headers, fields and
 * parameter sets are read by benzina.c alone, which is fuzzed under sanitizers. Pixels are decoded
 * by others, and decoding is as safe as they are, so keep them up to date:
 *     - libjpeg-turbo decodes JPEG, also for a GPU, unless decode.jpeg asks for NVDEC.
 *     - libavcodec decodes H.264, H.265, AV1 and stills in software, by itself or by libraries that
 *       it was built with: AV1 always by libdav1d. It sees a picture only after benzina.c read its
 *       headers and found its size, depth and kind within the limits above.
 *     - NVIDIA's driver decodes for NVDEC, in part in the kernel. It sees a picture only after the
 *       same checks.
 *     - Codecs of your own (chapter 13) see all bytes of the pictures that they recognize.
 * To use fewer of them, name the codecs that may be decoded in context_config.codecs, and leave
 * libraries out with the switches of chapter 1. A smaller max_edge_px and max_sample_bytes bound
 * the cost of a picture. To contain them, decode in a process of its own that may neither open
 * files nor connect: with context_config.no_threads, device.kind CPU and data sets from memory or
 * sources, the library itself opens no file and starts no thread, so that a filter of system calls
 * may forbid both. tests/unit/test_no_threads.c does so, and decodes H.264, H.265, AV1 and JPEG.
 *
 * Paths, configurations and callbacks are the program's own, and trusted. So are the links of a
 * folder, which are followed wherever they lead: if strangers may make links there, give the paths
 * of the files instead. No archive, tar or picture can name another file. Lists (examples/formats)
 * can name any file, and are trusted as paths are. The library never runs a command nor connects to
 * anything. A saved state is checked, and may come from anywhere. How to report a fault:
 * tests/README.md, "Security".
 *
 * Files may change while they are open. The library maps no file into memory, so a change fails
 * samples and never ends the process:
 *     - A file that was shortened fails the samples that can no longer be read, with E_TRUNCATED.
 *     - If a disk fails, the samples that it cannot read fail with E_IO, after read.retries more
 *       attempts.
 *     - A disk that stalls delays the samples that are read from it, and loses none. Meanwhile
 *       bzna_loader_next returns after its timeout, and bzna_loader_stop at once. Close, reset and
 *       restore of the loader wait for reads that have begun.
 *     - A file that was removed, or replaced by another of its name, can be read as long as it is
 *       open.
 *     - A file that was written over in place is read as it is then, so samples may be wrong or
 *       fail. To change a data set, write another file and rename it.
 *
 * 9. DETERMINISM AND RESUMING
 *
 * The pixels of a batch depend on the data set, the config without its numbers of threads, and
 * (seed, epoch, position). They do not depend on threads, timing or the batches before:
 *     - The order of epoch e is a keyed permutation of (seed, e).
 *     - Random numbers are Philox4x32-10, keyed by (seed, e) and counted by (sample index,
 *       purpose, view): see bzna_random.
 *     - An epoch can hold a sample more than once, by lists or indices that repeat. There the
 *       position in the epoch's order counts, too, so that each occurrence of the sample is
 *       augmented in its own way.
 *     - Rank r of w ranks takes the positions p0 + r, p0 + r + w, p0 + r + 2w, ..., as PyTorch's
 *       DistributedSampler does. p0 is 0, or the position from which a run was restored. Every rank
 *       gets the same number of batches.
 *
 * ORDERS OF YOUR OWN. With BZNA_ORDER_GIVEN, the program lists the indices of each epoch's samples:
 * for hard examples, for curricula, or for samplers of other libraries. examples/formats/weighted.c
 * draws such lists by weights.
 *     - bzna_loader_set_batches gives a list, and, if they differ, the sizes of its batches. It
 *       copies the list. No sample of an epoch is read before its list was given, and
 *       bzna_loader_next returns E_STATE if the epoch that it is about to begin has no list. It
 *       never waits for a list.
 *     - An epoch's list is given once. It cannot change until bzna_loader_reset or
 *       bzna_loader_restore, which forget all lists.
 *     - Lists of later epochs can be given at any time, several of them, by any thread, also while
 *       another thread waits in bzna_loader_next. The first batches of such an epoch are made while
 *       the one before is used up, as in other orders.
 *     - The list is that of the whole epoch, and is divided among the ranks as other orders are:
 *       all ranks give the same list. A sampler that draws each rank's own samples (PyTorch's
 *       DistributedSampler) has divided them already: leave shard at its default then.
 *     - A list gives the same pixels as the same list in order.indices. If it is the permutation
 *       that BZNA_ORDER_SHUFFLE would draw, it gives the same pixels as that order. A sample that
 *       the list repeats is augmented anew each time.
 *     - A state that was taken inside an epoch carries a hash of the list. After
 *       bzna_loader_restore, that epoch accepts only the same list. If the list is the whole
 *       epoch's, the rank and the world size may change. If it is one rank's own, they must stay
 *       the same.
 *
 * A bzna_loader_state taken between two batches of a run can be restored with any number of threads
 * and any world size. There is one exception: with a list of one rank's own samples (above), rank
 * and world size must stay the same. A hash in it describes how the run's pixels were made: sizes,
 * warp, colors, and which picture of a sample. A loader that makes pixels otherwise refuses the
 * state, unless pipeline.restore_any_pixels is set. The fingerprints of the context's own codecs
 * are part of that hash.
 *
 *     result                                     has the same bits
 *     orders, random numbers, warps, colors,     on every machine, with every compiler
 *     jitters, drawn operations
 *     pixels made of the same decoded planes     on every machine, with every compiler, on CPUs
 *                                                and GPUs
 *     decoded planes of H.264, H.265, AV1,       from every decoder: their standards define them
 *     WebP, lossless pictures, raw pixels
 *     decoded planes of JPEG and lossy           only from the same version of the same decoder:
 *     JPEG 2000                                  their standards leave rounding to the decoder.
 *                                                NVDEC's differ from software's
 *
 * To that end, the library has its own exp, log, sin, cos and tan, and fuses no operations. None of
 * this holds if compilers calculate in more precision than a type has, as on 32-bit x86 without
 * -msse2 -mfpmath=sse.
 *
 * 10. VERSIONS AND THE ABI
 *
 * Structs only ever grow at their end, and struct_size says which version the caller was compiled
 * with. Groups inside other structs, such as bzna_warp, have no struct_size, and grow only into
 * their reserved words. Status codes keep their numbers. Until 1.0 the ABI may change with the
 * minor version, which the soname carries.
 *
 * If a caller's struct is smaller than the library's, because the library is newer, the members
 * that it lacks have their defaults.
 *
 * If a caller's struct is larger than the library's, because the library is older:
 *     - Input is accepted if everything past the library's size is zero. If it is over 4096 bytes
 *       larger, it is refused, since no version grows by so much.
 *     - Output is written only as far as the library's size. Afterwards struct_size says how many
 *       bytes were filled in.
 *     - bzna_X_init does not write past the library's size, either. If an older library may run,
 *       set the whole struct to zero first, as a designated initializer does.
 *
 * For bindings: integers have fixed widths, and size_t is used only for sizes in memory. There are
 * no C enum types, bools, bit-fields, unions or varargs, and no structs by value in signatures.
 * `user` is the first argument of every callback. examples/offsets.json has the size and offset of
 * every struct and member, and the value of every constant, for bindings that do not use a C
 * compiler.
 *
 * 11. THE GPU
 *
 * libcuda.so.1 and libnvcuvid.so.1 are parts of NVIDIA's driver. The library opens them when they
 * are first needed: by a context that names a CUDA device, else by the first loader or query.
 * Without a usable GPU, BZNA_DEVICE_AUTO means the CPU, and BZNA_DEVICE_CUDA is refused.
 * bzna_context_device_info says why.
 *
 * `bzna devices` says what is missing and what to do about it. In a container, for instance,
 * libnvcuvid is there only with NVIDIA_DRIVER_CAPABILITIES=compute,video. The section "On a GPU" of
 * tests/README.md has the commands of a first run, the results to expect, and the report to send.
 *
 * DECODE SESSIONS. A decode session is a thread with a CUDA stream and at most four decoders, one
 * for each of the frame sizes that it decoded most recently. A data set that alternates between
 * more sizes decodes more slowly. The sessions belong to the context and serve all its loaders. To
 * make their first decoders, the first loader reads the first sample of its data set.
 *
 * A session holds up to 12 samples by default (context_config.session_depth + session_mapped).
 * Some sessions wait if the loaders have fewer samples in flight (batch_size * batches_in_flight)
 * than 12 for each session.
 *
 * If NVDEC cannot decode a picture here because of its codec, depth, chroma format or size, or if
 * the driver refuses it, the loader's own threads decode it in software. bzna_statistics counts
 * such pictures. Both decoders give the same pixels, bit for bit, except for JPEG (decode.jpeg),
 * whose pixels differ by up to 4 of 255. One decoder may miss damage that the other one reports.
 *
 * HYBRID DECODING. With decode.hybrid, processors that would idle help NVDEC. While a thread waits
 * in bzna_loader_next, no batch is ready, and more pictures wait for NVDEC than its sessions can
 * begin, the loader's decoder threads take pictures of H.264, H.265 and AV1 from NVDEC and decode
 * them in software. They only take kinds that have passed the self-check, so pixels are the same.
 * bzna_statistics.samples_hybrid counts them. "bzna bench" says when NVDEC limits a loader.
 *     - Batches do not depend on which decoder decodes a picture. A picture that one decoder finds
 *       damaged is given to the other one, and fails only if both find it damaged. Without hybrid
 *       decoding NVDEC alone decides, so a sample may fail that would be loaded with hybrid
 *       decoding.
 *     - A run that replaces failed samples or stops at one cannot use hybrid decoding:
 *       errors.on_error must be BZNA_ON_ERROR_FILL.
 *     - JPEG is never shared.
 *     - pipeline.transform may be called a second time for a picture that is damaged.
 *
 * DAMAGE. NVDEC can report whether a picture of H.264, H.265 or JPEG was damaged, but the query
 * costs time. A loader therefore queries every picture when it decodes it for the first time. In
 * later epochs it queries one picture in each launch of the kernel. If that picture is damaged, the
 * loader queries all pictures from then on. NVDEC reports nothing about AV1, so damage in AV1 may
 * go unnoticed.
 *
 * SELF-CHECK. The library checks the GPU before it uses the GPU's results:
 *     - the kernel, when the device is opened
 *     - NVDEC and the kernel together, by the first picture of each kind (codec, chroma format,
 *       depth): it is decoded by NVDEC and by the CPU, and the pixels are compared, bit for bit.
 *       JPEG may differ by up to 4 of 255.
 *
 * If a check fails, the library reports it to context_config.log, and then reacts:
 *     - If NVDEC's pixels are wrong, it decodes pictures of that kind in software from then on.
 *       JPEG that a loader has asked NVDEC for (decode.jpeg) fails instead.
 *     - If the library's own CUDA kernel gives wrong results, the library stops using the device.
 *       Loaders on the device end with E_DEVICE_LOST. A loader that is opened later works on the
 *       CPU, or fails with E_DEVICE if output.device or decode.decoder asks for CUDA or NVDEC.
 *     - If NVDEC reports for five seconds that a picture is in progress, the library stops using
 *       NVDEC in this process. Loaders continue in software.
 *
 * If the environment variable BENZINA_NVDEC_CHECK is 0, these checks are skipped.
 * bzna_context_codec_info has the result of a check, once a picture of the kind was decoded.
 *
 * WHERE BATCHES ARE. Batches are in host memory unless output.device is CUDA, so that the same
 * program works with and without a GPU. NVDEC decodes in both cases. With batches in host memory,
 * bzna_loader_next returns when the batch has arrived there, in pinned memory. No stream is
 * involved. With output.device CUDA, batches are in device memory, and are handed over on the
 * consumer's stream: output.stream, or one that the loader makes. bzna_batch_info.stream names it.
 *
 * WHICH GPU. A context whose device is AUTO uses the GPU of the CUDA context that is current on the
 * calling thread, and GPU 0 if there is none. So eight ranks of one machine that choose nothing all
 * open GPU 0: give each rank its own GPU by context_config.device or CUDA_VISIBLE_DEVICES, or make
 * its CUDA context current before the library is called.
 *
 * WAITING. With batches in device memory, bzna_loader_next blocks the calling thread only
 *     - until the next batch is filled
 *     - until a batch is free to be filled, if each one is on loan or released but still read by
 *       work that you enqueued. If all are on loan, it returns E_STATE at once.
 *     - until the batch is written, if the driver cannot make the consumer's stream wait.
 * In all other cases the call does not wait for the GPU. The consumer's stream waits for the batch.
 *
 * Therefore work that you enqueue must not wait for the thread that is in bzna_loader_next, neither
 * by a host function nor by a value written later. The two would wait for each other forever. The
 * same holds for bzna_loader_close, which waits for work that still reads released batches, and for
 * the release of the last batch on loan after its loader was closed.
 *
 * STREAMS. Rules for the consumer's stream:
 *     - Work enqueued on it after bzna_loader_next reads the finished batch. The host does not: the
 *       batch may be unfinished when bzna_loader_next returns. Before the host reads the batch, or
 *       a copy of it that was enqueued on the stream, it must synchronize with the stream.
 *     - After bzna_batch_release, the batch's memory is written again only after everything that
 *       the stream had been given before. Nothing else is needed, so release a batch right after
 *       enqueueing the work that reads it.
 *     - To use a batch on another stream, call bzna_batch_move first.
 *     - The default streams are BZNA_STREAM_LEGACY and BZNA_STREAM_PER_THREAD, never NULL. A batch
 *       on BZNA_STREAM_PER_THREAD must be released on the thread that used it.
 *     - A stream must live until its loader is closed and the last batch on it has been released.
 *     - While a CUDA graph is captured on the stream, neither open nor close a loader with it, nor
 *       take, move or release batches. A graph reads the addresses that it was captured with, but
 *       the next batch has others: let the graph read a buffer of yours, and copy each batch there.
 *
 * A slow consumer stalls only its own loader, since decode streams never wait on consumer streams.
 * Batches are recycled in the order of their release. A batch that a slow stream still reads
 * therefore delays those released after it.
 *
 * THE CUDA CONTEXT is context_config.cuda_context, or the device's primary one. On the caller's
 * threads, the library makes it current before its own calls of CUDA, and restores the previous one
 * afterwards. If the primary context is not in use yet, the library sets its flag
 * CU_CTX_SCHED_BLOCKING_SYNC: waiting threads sleep, and the thread of a session waits most of the
 * time. The flag also applies to the program's own threads. To keep other flags, make the primary
 * context current or retain it before the first bzna_context, loader or query that uses the GPU.
 *
 * The device counts as lost when the driver reports it (ECC error, illegal address, ...), or when
 * the CUDA context cannot be pushed. Every loader on it then ends with E_DEVICE_LOST at once. A
 * loader that is opened later in the same bzna_context and would use the device fails with
 * E_DEVICE_LOST, too.
 *
 * A GPU THAT HANGS. A call of the driver that never returns cannot be ended, but the library stops
 * waiting for it. Once a second, a thread that waits in bzna_loader_next, reset, restore or close
 * checks whether the sessions and the loader's own threads make progress. The device counts as lost
 * if one thread has been in a single call for a minute, or if pictures for a batch in host memory
 * are not complete a minute after all work for them was enqueued. Then every loader on it ends with
 * E_DEVICE_LOST, and the library calls the driver no more. Loaders and contexts can be closed,
 * which takes a few seconds. These stay until the process ends:
 *     - the thread. If the call returns after all, the thread sleeps from then on, so do not unload
 *       the library
 *     - the memory that this call may write to: some hundred kilobytes of the allocator's if it is
 *       a session's call, the loader and its context if it is one of the loader's threads
 *     - memory on the device, also of context_config.device_allocator, and pinned memory.
 * Work that was enqueued before may still write to batches: do not free output.buffers.
 *
 * Your own work may take any time. A batch that it still reads is no sign that the GPU hangs, and
 * bzna_loader_next waits for it up to its timeout. But bzna_loader_close, and the release of the
 * last batch after it, wait for such work for a minute. If it has not ended then, the loader and
 * its context stay until the process ends, and a warning is logged that says so. Other loaders
 * continue. A thread of your own that is in a call of the driver when the GPU hangs, as in
 * bzna_batch_release, stays there.
 *
 * SEVERAL PROCESSES. The driver lets calls that belong to one CUDA context wait for one another.
 * Look at a GPU with several NVDEC engines (nvidia-smi dmon -s u, column dec). If its engines idle
 * and the rate stays the same with more sessions, start several processes that load for that GPU:
 * each process has a CUDA context of its own.
 *
 * 12. KINDS OF DATA SETS
 *
 * PATHS. A path names a file or a folder. A folder that holds *.bzna or *.tar files means all of
 * those files, in the order of their names. If it holds folders, too, it is refused, unless
 * dataset_config.format is "folder": then it is one of pictures. bzna_formats_open of
 * examples/formats opens more, for the program bzna and the bindings, too: patterns of several
 * paths ("shard-{000..146}.tar" and "a.tar::b.tar"), folders side by side (images, masks), lists of
 * files (.lst, .csv, Caffe's), RecordIO (MXNet's .rec), and record files (CIFAR, MNIST, raw
 * tensors).
 *
 * MANY FILES. If a data set has many files, at most 64 of them are open at a time, or a quarter of
 * the files that the process may open, if that is less. The others are opened for each read, which
 * costs little on a local disk, and a round trip on a network file system. If a file that is opened
 * again has changed or was removed, its samples fail with E_IO. If the process has no descriptor
 * left for it, a read waits for one second, and then fails with E_IO, too. A sample is E_NOT_FOUND
 * only if it has no such field.
 *
 * ARCHIVES (.bzna) are mp4 files. They hold frames of H.265, H.264 or AV1, or JPEG files as they
 * are, with their EXIF orientation. The sample entry of JPEG is jpeg, as in QuickTime. HEIF's mjpg,
 * which version 0.3 wrote, and mp4v are read, too. The original Benzina tools decode none of them.
 * Samples of an archive are small mp4 files inside it. A sample may also be a plain JPEG or another
 * still picture without an mp4 file around it, and is decoded as that.
 * examples/FORMAT.md describes archives byte by byte.
 *
 *     to decode on      pack                  because
 *     GPUs              H.265                 it is small, and GPUs decode it since Pascal
 *     GPUs              AV1                   it is as small, but needs GA10x, Ada or Blackwell,
 *                                             not A100 or Hopper
 *     CPUs              JPEG, copied as is    nothing is lost, and CPUs decode it several times as
 *                                             fast as H.265
 *     both              H.264 tuned for       CPUs decode only the slices that a warp reads, and
 *                       decoding              ignore damage in others. Files are larger
 *
 * tests/BENCHMARKS.md has figures.
 *
 * VIDEOS are mp4 or QuickTime files in which no frame depends on another. Frames are rotated and
 * mirrored as the matrices of track and movie (tkhd, mvhd) say. Edit lists are ignored. Fragmented
 * files are refused: `ffmpeg -i in.mp4 -c copy -movflags +faststart out.mp4` makes an unfragmented
 * one.
 *
 * FOLDERS of pictures have the order and classes of torchvision's ImageFolder. Each folder in the
 * root is a class, and all pictures below it belong to that class. A root without such folders
 * has no targets. Files count as pictures if their names end with one of these extensions, in any
 * case: jpg jpeg png webp, and those of codecs that the program has given to the context
 * (examples/formats has some). Files with other extensions, and with names that begin with a dot,
 * are left out. Names that are not UTF-8 are ordered by their bytes. Links are followed. The
 * library opens a file only when it reads it. Files of at most 16 KiB stay in memory once they were
 * read, up to 256 MiB of a data set, and are not opened again, even if they have changed.
 *
 * A folder is refused
 *     - if a link in it leads back to a folder above it
 *     - if a class has no pictures, unless dataset_config.allow_empty is 1
 *     - if all folders in its root are named like splits (train, val, test2017), unless
 *       dataset_config.classes names the classes
 *
 * TARS are shards as WebDataset writes them. Files next to each other that share a key are one
 * sample. The key is the name up to the first dot after its last slash, and the rest is the name of
 * the field, in lower case. The last extension says what a field is:
 *
 *     cls cls2 index inx id                                                integer
 *     txt text transcript                                                  text
 *     jpg jpeg jpe jfif png webp, those of the context's own codecs        picture
 *     any other                                                            bytes
 *
 * A tar that contains no files, only blocks of zeros, as some writers of shards leave, adds no
 * samples to the data set. If no file has samples, opening fails with E_NO_SAMPLES. A tar that ends
 * inside a header, a file or the padding of a file is E_TRUNCATED.
 *
 * Three fields have meanings of their own: "name" is the key, unless a file has the extension
 * "name", "cls" is the target, and "image" is the first picture. A tar has at most 64 fields. If a
 * sample has two fields of the same name, reading that field fails. A tar with a sparse file is
 * refused, and so is a tar that holds nothing but tars. These belong to no sample:
 *     - folders and links
 *     - hidden files, and files in folders that are called __so__
 *     - files whose field's name has BZNA_NAME_MAX bytes or more.
 *
 * Opening a tar walks over its headers, or reads SHARD.idx next to SHARD.tar (version 1.2, which
 * wds2idx of DALI and `bzna index` write). An index that the headers contradict is refused with
 * E_BOX, when the tar is opened or when a sample is used. A SHARD.idx that is older than the tar is
 * not used, and one of another version is ignored with a warning. dataset_config.index gives the
 * index of a tar that is not opened by a path; one of another version is refused with E_BOX.
 *
 * PROVIDERS are your own code: a database, a generator, a list of files, or files of your own
 * format. A bzna_provider says which fields samples have, and how the library gets each field's
 * values:
 *
 *     places    a table says where they are: in memory, or in files. No function is called
 *     locate    a function says the same
 *     read      a function writes them into the library's buffer
 *     unpack    all of a sample is one record, which places, locate or read give and the library
 *               reads once. A function finds the values in it
 *
 * The pixels of a picture may be RAW. RAW pixels in memory are used there; `read` costs a copy. A
 * million files are a provider whose places are whole files:
 *
 *     bzna_place place = { .file = i, .size = BZNA_SIZE_UNKNOWN };
 *
 * and folders side by side (images, masks) are a provider with two such fields. If a provider has
 * at most 64 files, and fewer files than samples, the library opens them with the data set and
 * keeps them open. Otherwise it opens no file with the data set, and each one only to read a value,
 * so that opening the data set takes no more time than copying the paths.
 *
 * A loader asks for the values of a sample that it needs, one by one on one thread: the target,
 * then the pictures, then other fields. If a sample is a row of a table, keep the row that was
 * found last: the next value is probably in the same row. Several threads ask at once, each for its
 * own sample: read.threads of them, or decode.threads if the data set has no pictures, and any
 * threads of yours that call bzna_dataset_*. If something serves one thread at a time, such as a
 * connection to a database, the provider keeps several in a pool, from which a thread borrows one
 * for a call. The library does not tell a provider when one of its threads begins or ends.
 *
 * examples/lmdb.c reads values of a database in place, by places. examples/sqlite.c reads rows of a
 * table, by `read` and a pool. examples/generator.c draws pictures.
 *
 * PICTURES are distinguished by their content.
 *     - Alpha is dropped, as by PIL's convert("RGB").
 *     - Pictures are rotated and mirrored as their EXIF data say. If a JPEG or WebP has none that
 *       say so, its XMP counts. Transforms see the size of the picture after that. torchvision's
 *       ImageFolder does not rotate or mirror pictures: set dataset_config.orientation to IGNORE to
 *       get the same pictures.
 *     - ICC profiles are not applied, and all colors are treated as sRGB. `bzna verify` counts
 *       pictures with other profiles, and `bzna pack --icc convert` converts them.
 *
 * JPEG is baseline or progressive, of 8 bits, in gray, Y'CbCr, RGB, CMYK or YCCK. The pixels of a
 * JPEG are those of its decoder: libjpeg-turbo or NVDEC. A JPEG without Huffman tables is decoded
 * with the tables of the standard. Damage fails a picture if it is above the last row that the warp
 * reads. If the picture has several scans (progressive), damage anywhere fails it.
 *
 * STILLS are PNG and WebP, and the kinds that the context's own codecs read (chapter 13).
 * examples/formats has codecs for HEIF, GIF (its first picture), BMP, PNM, TIFF, JPEG 2000 and JPEG
 * XL, in files that may be copied next to the library's. build/libbenzina_formats has them all, and
 * bzna and the bindings register them.
 *
 * HEIF AND AVIF are read by a codec of the program's own, examples/formats/heif.c (chapter 13),
 * which the program bzna and the bindings have.
 *
 * 13. CODECS OF YOUR OWN
 *
 * A bzna_codec decodes pictures of a kind that the library does not know. It is a struct of
 * functions, and can be written in an afternoon:
 *
 *     recognize      is this file mine? It sees the first 512 bytes
 *     thread_begin   what do I keep for a thread? A decoder of the library that I call, perhaps
 *     inspect        what is the picture: its size, kind of pixels, depth, orientation?
 *     decode         writes pixels into memory that the library has made
 *     unwrap         instead of decode: where in these bytes is a picture that the library decodes?
 *
 * This is one for pictures of gray pixels after a head of twelve bytes, "GRAY" and two numbers:
 *
 *     static int32_t recognize(void *user, const void *head, uint64_t bytes)
 *     {
 *         return bytes >= 12 && !memcmp(head, "GRAY", 4);
 *     }
 *
 *     static bzna_status inspect(void *state, const void *data, uint64_t bytes,
 *                                bzna_codec_shape *shape, bzna_error *err)
 *     {
 *         memcpy(&shape->width, (const char *)data + 4, 4);
 *         memcpy(&shape->height, (const char *)data + 8, 4);
 *         shape->pixels = BZNA_PIXELS_GRAY;
 *         if ((bytes - 12) / (shape->width ? shape->width : 1) >= shape->height)
 *             return BZNA_OK;
 *         snprintf(err->message, sizeof err->message, "there are only %llu bytes",
 *                  (unsigned long long)bytes);
 *         return BZNA_E_TRUNCATED;
 *     }
 *
 *     static bzna_status decode(void *state, const void *data, uint64_t bytes,
 *                               const bzna_rectangle *needed, const bzna_codec_planes *planes,
 *                               bzna_error *err)
 *     {
 *         for (uint32_t y = needed->y0; y < needed->y1; y++)
 *             memcpy((char *)planes->plane[0] + y * planes->pitch[0],
 *                    (const char *)data + 12 + (size_t)y * planes->width, planes->width);
 *         return BZNA_OK;
 *     }
 *
 *     bzna_codec gray = { .struct_size = sizeof gray, .name = "gray", .extensions = "gray",
 *                         .recognize = recognize, .inspect = inspect, .decode = decode };
 *     bzna_context_config config = { .struct_size = sizeof config,
 *                                    .own_codecs = { .ptr = &gray, .count = 1 } };
 *
 * examples/formats has several codecs, and a function that returns all of them (formats.h):
 *
 *     config.own_codecs.ptr = bzna_formats_codecs(&config.own_codecs.count);
 *
 * examples/formats/jxl.c is the one for JPEG XL, by libjxl, with comments that teach, and
 * examples/own_codec.c is a program that registers it. examples/rust/src/bin/own_codec.rs has one
 * for QOI in Rust.
 *
 * ORDER. The library looks for its own kinds first. If a picture is none of them, the codecs are
 * asked in their order, until one recognizes it. This holds for each picture that is a file: in
 * folders, tars, fields of archives, providers whose field has codec UNKNOWN, and whenever
 * bzna_image.codec is BZNA_CODEC_STILL, also for bzna_decoder. For a bzna_decoder, bzna_image.codec
 * may also name a codec of your own: BZNA_CODEC_OWN is the first one, BZNA_CODEC_OWN + 1 the
 * second, and so on. A build with BENZINA_NO_STILLS leaves PNG and WebP to the codecs.
 *
 * The library lists a folder without opening its files, and selects them by their extensions, to
 * which bzna_codec.extensions adds. In a tar, extensions say which fields are pictures. Once a file
 * is read, its bytes decide, and not its name.
 *
 * WHAT THE LIBRARY DOES. After inspect, it compares the size with max_edge_px and with the number
 * of coded bytes (chapter 8), draws the transforms, and says in decode which rectangle the warp
 * reads. It rotates the picture, converts colors, applies palettes, and drops pixels that are not
 * needed, in the same pass as for other pictures. The library owns the planes, and uses them again
 * for the thread's next picture. NVDEC's sessions unwrap too, so a wrapper around H.265, H.264, AV1
 * or JPEG is decoded where that picture would be.
 *
 * RULES FOR A CODEC. It gives the same pixels for the same bytes, on every thread, whatever it
 * decoded before: results depend on nothing else (chapter 9). It decodes bytes from strangers: any
 * of them may be wrong. The bytes that inspect has checked are the same in decode. Its functions
 * must not wait for one another: with pipeline.no_threads, one thread runs them all.
 *
 * In Python and Julia, callbacks would run on threads that the library made. In these languages,
 * decode in a source of your own and use a provider with RAW fields, or register a codec that is
 * written in C or Rust.
 *
 * 14. WHAT IT DOES NOT DO
 *
 *     - Video is not decoded as video: every sample is a frame of its own, and one that depends on
 *       other frames is refused. Tracks whose matrix scales or skews are refused, too.
 *     - NVDEC is not used by a loader whose outputs come from different fields, or that has a
 *       picture callback. All its pictures are decoded in software.
 *     - ICC profiles, transfer functions and primaries are not applied, so there is no HDR tone
 *       mapping. `bzna pack --icc convert` converts pictures to sRGB before they are coded.
 *     - The library does not mix samples (MixUp, CutMix). Mix whole batches after they arrive.
 *     - Animated WebP, lossless JPEG and subsampled RGB JPEG are not read. HEIF, AVIF, GIF, BMP,
 *       PNM, TIFF, JPEG 2000 and JPEG XL are read only by codecs that a program adds (chapter 13),
 *       such as those of examples/formats. Pictures of floating-point numbers are not read, nor are
 *       fragmented mp4 files.
 *     - The library has no network access, unpacks no gzip, zip or zstd, starts no process, and
 *       writes no temporary files. Bytes from elsewhere come through a bzna_source. Shards from
 *       pipes, commands, gzip and zstd come through examples/stream/stream.h.
 *     - It compiles for macOS and FreeBSD, but has not run there. On Windows it has run under Wine,
 *       with libavcodec and libjpeg-turbo, and with NVDEC on fakes of the driver only. On 64-bit
 *       ARM it has run under QEMU only.
 */
#ifndef BENZINA_H
#define BENZINA_H

#include <stddef.h>
#include <stdint.h>

/* The version of this header. bzna_version returns that of the library. */
#define BZNA_VERSION_MAJOR 0
#define BZNA_VERSION_MINOR 4
#define BZNA_VERSION_PATCH 0
/* The version as one number: 400 is 0.4.0, 10203 is 1.2.3. */
#define BZNA_VERSION (BZNA_VERSION_MAJOR * 10000 + BZNA_VERSION_MINOR * 100 + BZNA_VERSION_PATCH)

/* The declaration of public functions. Define BZNA_API to choose it yourself; else BENZINA_STATIC
 * and BENZINA_HIDDEN choose (chapter 1), and without them the functions are exported. */
#if defined(__GNUC__) || defined(__clang__)
#  define BZNA_ATTRIBUTE(what) __attribute__((what))
#else
#  define BZNA_ATTRIBUTE(what)
#endif

#ifndef BZNA_API
#  if defined(BENZINA_STATIC)
#    define BZNA_API static BZNA_ATTRIBUTE(unused)
#  elif defined(BENZINA_HIDDEN)
#    define BZNA_API extern BZNA_ATTRIBUTE(visibility("hidden"))
#  else
#    define BZNA_API extern BZNA_ATTRIBUTE(visibility("default"))
#  endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status and errors -------------------------------------------------------------------- */
/* The result of a call. 0 is BZNA_OK, a positive number is a note (BZNA_END, BZNA_AGAIN), and a
 * negative number is an error. */
typedef int32_t bzna_status;

/* X(name, number, text) for each status. Errors form families with gaps between the numbers:
 *     -1xx  the call: its arguments, its place, its callbacks
 *     -2xx  the system: memory, files, threads
 *     -3xx  the file that a data set is opened from, or a sample's place in it
 *     -4xx  one coded picture
 *     -5xx  the GPU and its driver
 * A number keeps its meaning in every version. */
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

/* The statuses as constants: BZNA_OK, BZNA_END, ..., BZNA_E_DEVICE_LOST. */
enum {
#define BZNA_STATUS_ENTRY(name, number, text) BZNA_##name = number,
    BZNA_STATUS_MAP(BZNA_STATUS_ENTRY)
#undef BZNA_STATUS_ENTRY
    BZNA_STATUS_RESERVED = -9999      /* never returned */
};

/* UINT64_MAX: bzna_error.byte_offset of an error that has no place in a file. */
#define BZNA_NO_OFFSET 0xFFFFFFFFFFFFFFFF

/* Why a call failed. The caller owns the struct. The library writes to it only when the call fails.
 * It writes all members and as much of the message as fits, with a NUL, and sets struct_size to the
 * bytes that it has written. A struct_size of 0 means the size of the library that runs. If
 * struct_size leaves no room for a message, nothing is written; that is no error. */
typedef struct bzna_error {
    /* set by the caller, in bytes; 0: the size of the library that runs. A call that fails sets it
     * to the bytes that it has written */
    uint32_t    struct_size;
    bzna_status status;               /* the status that the call returned */
    /* where the box or field at fault begins, in bytes from the start of the file, or
     * BZNA_NO_OFFSET */
    uint64_t    byte_offset;
    int32_t     native_code;          /* errno, AVERROR or CUresult, as status suggests; 0: none */
    uint32_t    fourcc;               /* the type of the box at fault, or 0 */
    /* names the file, and the box or field, in UTF-8 with a NUL at its end:
     * "train.bzna: moov/trak[2]/mdia/minf/stbl/stsz at byte 1945002: ..." If a path is too long,
     * its beginning is left out, never the reason */
    char        message[488];
} bzna_error;

/* Sets error to "no error". struct_size is the size of the caller's bzna_error in bytes, or 0 for
 * the size of the library that runs. Clear the struct first if an older library may run. NULL
 * does nothing. Any thread. */
BZNA_API void bzna_error_init(bzna_error *error, size_t struct_size);

/* Returns the name of status, such as "BZNA_E_BOX", or "BZNA_?" for a number that this version does
 * not know. The text is constant and is not freed. Any thread. */
BZNA_API const char *bzna_status_name(bzna_status status);

/* Returns the meaning of status in English, such as "a box contradicts the format". The text is
 * constant and is not freed. Any thread. */
BZNA_API const char *bzna_status_text(bzna_status status);

/* Returns BZNA_VERSION of the library that runs, which may differ from that of this header. Any
 * thread. */
BZNA_API uint32_t bzna_version(void);

/* The comments below list the statuses that are particular to a call. Chapter 6 has those that
 * every call may return: E_ARGUMENT, E_STRUCT_SIZE, E_MEMORY and, if chapter 4 forbids the call,
 * E_STATE. */

/* ---- Objects ------------------------------------------------------------------------------ */
/* Chapter 3 says which objects keep others alive. */
typedef struct bzna_context bzna_context;    /* allocator, log, limits and device */
typedef struct bzna_dataset bzna_dataset;    /* immutable samples with named fields */
typedef struct bzna_loader  bzna_loader;     /* order, warps and threads over one data set */
typedef struct bzna_batch   bzna_batch;      /* one batch on loan from a loader */
typedef struct bzna_decoder bzna_decoder;    /* decodes single pictures in software */

/* ---- Host services ------------------------------------------------------------------------ */
/* The source of the library's memory. Both functions are called on any thread, concurrently. They
 * must not call any bzna_* function. If both are NULL, the C library's functions are used; one
 * without the other is E_ARGUMENT. */
typedef struct bzna_allocator {
    void  *user;                      /* passed to both functions; the caller's */
    /* returns size bytes whose address is a multiple of align (a power of two, at most 64), or NULL
     * if there are none */
    void *(*alloc)(void *user, size_t size, size_t align);
    /* frees ptr, which alloc returned; size is what alloc was asked for */
    void  (*release)(void *user, void *ptr, size_t size);
} bzna_allocator;

/* Levels of messages. A call that fails reports it only in its bzna_error, and logs nothing. */
enum {
    BZNA_LOG_ERROR   = 1,             /* all samples of a batch failed */
    /* a sample that failed or is made again; trouble with NVDEC or an index */
    BZNA_LOG_WARNING = 2,
    /* why there is no GPU; that NVDEC decodes for batches in host memory; files without samples */
    BZNA_LOG_INFO    = 3,
    BZNA_LOG_DEBUG   = 4              /* nothing uses it yet */
};

/* Receives one message. user is context_config.log_user, level is BZNA_LOG_..., code is the status
 * that the message is about or BZNA_OK, and message is UTF-8, valid until the function returns. It
 * is called on the caller's thread inside bzna_* calls, unless log_any_thread is set: then on any
 * thread, concurrently. It must not close any object. */
typedef void (*bzna_log_fn)(void *user, int32_t level, bzna_status code, const char *message);

/* Bytes from anywhere, for bzna_dataset_open_source. The callbacks must not close any object. */
typedef struct bzna_source {
    uint32_t struct_size;             /* sizeof the struct; bzna_source_init sets it */
    uint32_t reserved0;               /* must be 0 */
    void    *user;                    /* passed to the functions; the caller's until close */
    /* Copies up to size bytes, from byte offset on, to dst. Returns how many it copied. After fewer
     * than size, it is called again for the rest; 0 means the end of the data. Several threads call
     * it at once. Failures:
     *     a negative number   trouble with the data: E_IO, and the number becomes native_code
     *     more than size      a fault of read_at itself: E_CALLBACK
     * A binding returns INT64_MAX if the user's code is at fault. */
    int64_t (*read_at)(void *user, uint64_t offset, void *dst, uint64_t size);
    /* Returns the number of all bytes. A negative number becomes the native_code of E_IO. Called on
     * the caller's thread, in bzna_dataset_open_source. */
    int64_t (*size)(void *user);
    /* Releases the source's resources. Called exactly once, on the thread that releases the data
     * set last, and never if bzna_dataset_open_source failed. May be NULL. */
    void    (*close)(void *user);
    /* All bytes, if they are in memory. They are not copied, and must stay as they are until close;
     * read_at may be NULL. NULL: read_at gives them */
    const void *memory;
} bzna_source;

/* Clears source and sets its struct_size, in bytes: pass sizeof *source. After that, set read_at
 * and size. Any thread. */
BZNA_API void bzna_source_init(bzna_source *source, size_t struct_size);

/* The source of device memory, such as a framework's caching allocator. Both functions are called
 * on the caller's thread, and for staging memory on a loader's threads. They must not call any
 * bzna_* function. If both are NULL, cuMemAlloc and cuMemFree are used; one without the other is
 * E_ARGUMENT. */
typedef struct bzna_device_allocator {
    void  *user;                      /* passed to both functions; the caller's */
    /* returns the device address of size bytes, a multiple of 256, or NULL if there are none. The
     * memory is first used on stream, a CUstream */
    void *(*alloc)(void *user, size_t size, void *stream);
    /* frees ptr, which alloc returned; size is what alloc was asked for. No other stream still uses
     * the memory */
    void  (*release)(void *user, void *ptr, size_t size, void *stream);
} bzna_device_allocator;

/* ---- Images ------------------------------------------------------------------------------- */
/* How an image is coded. NVDEC decodes H264, H265, AV1 and, if decode.jpeg asks for it, JPEG. The
 * rest is decoded in software. A writer accepts H264, H265, AV1 and JPEG. */
enum {
    BZNA_CODEC_UNKNOWN = 0,
    BZNA_CODEC_H264    = 1,
    BZNA_CODEC_H265    = 2,
    BZNA_CODEC_AV1     = 3,
    BZNA_CODEC_JPEG    = 4,
    /* a file of PNG, WebP, or of a kind that a codec in context_config.own_codecs reads,
     * distinguished by its content */
    BZNA_CODEC_STILL   = 5,
    /* pixels that are not coded: frame_width * frame_height bytes of gray, or three times as many
     * of R, G and B. config is two bytes: the number of channels (1 or 3) and BZNA_LAYOUT_... */
    BZNA_CODEC_RAW     = 6,
    /* a file of the first codec in context_config.own_codecs. One more is the second, and so on */
    BZNA_CODEC_OWN     = 1000
};

/* How a picture with a palette is delivered. */
enum {
    BZNA_PALETTE_COLORS = 0,          /* its colors */
    BZNA_PALETTE_INDEX  = 1           /* its indices, as gray: for masks of classes */
};

/* How numbers of a picture represent colors: code points of ISO/IEC 23091-2, as in colr nclx and in
 * VUI. In each of the first three, 2 is "unspecified". */
typedef struct bzna_color {
    uint16_t primaries;               /* not applied */
    uint16_t transfer;                /* not applied */
    uint16_t matrix;                  /* 0 to 2 and 4 to 10 are known; 0: the planes are G, B, R */
    uint8_t  full_range;              /* 1: 0..255; 0: 16..235 for luma, 16..240 for chroma */
    uint8_t  present;                 /* 0: nothing is known, and the other members are ignored */
} bzna_color;

/* One image: a coded picture. bzna_dataset_read_image fills it in; bzna_decoder_decode,
 * bzna_image_annexb and a writer take it. It owns nothing. */
typedef struct bzna_image {
    uint32_t    struct_size;          /* sizeof the struct; bzna_image_init sets it */
    uint32_t    codec;                /* BZNA_CODEC_... */
    uint32_t    width;                /* pixels of the picture without padding */
    uint32_t    height;               /* pixels of the picture without padding */
    /* pixels of the coded frame; 0: as the stream says (for a writer, for JPEG and STILL) */
    uint32_t    frame_width;
    uint32_t    frame_height;         /* its height */
    uint32_t    crop_x;               /* where in the frame the picture begins, in pixels */
    uint32_t    crop_y;               /* how far from the frame's top, in pixels */
    /* the container's description of color. present 0: that of the stream applies, else BT.601,
     * limited-range to a decoder, full-range to a writer. It has no effect on RGB, nor on a JPEG
     * that is written */
    bzna_color  color;
    /* bytes of the length before each NAL unit: 1, 2 or 4; 0: start codes of Annex B, or a codec
     * without NAL units */
    uint32_t    length_size;
    /* EXIF's number, 1..8: how the picture is to be rotated and mirrored. 0: as the picture itself
     * says; a writer accepts no other number than that */
    uint32_t    orientation;
    /* the payload of hvcC, avcC or av1C; NULL if data has the parameter sets. Borrowed */
    const void *config;
    uint64_t    config_size;          /* bytes at config */
    const void *data;                 /* the access unit, or the file's bytes. Borrowed */
    uint64_t    data_size;            /* bytes at data */
    uint32_t    palette;              /* BZNA_PALETTE_... */
    uint32_t    reserved1;            /* must be 0 */
} bzna_image;

/* Clears image and sets its struct_size, in bytes: pass sizeof *image. Any thread. */
BZNA_API void bzna_image_init(bzna_image *image, size_t struct_size);

/* Copies an image as a stream of its own, which other decoders can decode. H.264 and H.265 become
 * Annex B: the parameter sets of the config and then the image, each NAL unit preceded by 00 00 00
 * 01. For AV1, the OBUs of the config are copied and then the image. Other kinds are copied as they
 * are. Any thread.
 *     image      must have data; unchanged
 *     dst        receives the stream; NULL asks for the size alone
 *     capacity   bytes at dst
 *     needed     set to the bytes of the whole stream, also if dst is NULL or too small; may be
 *                NULL
 * Statuses: E_ARGUMENT; E_CODEC for an unknown codec; E_BOX for a damaged config or access unit;
 * E_BUFFER if dst is NULL or too small, in which case the bytes at dst are undefined. */
BZNA_API bzna_status bzna_image_annexb(const bzna_image *image, void *dst, size_t capacity,
    size_t *needed, bzna_error *err);

/* ---- Codecs of your own ------------------------------------------------------------------- */
/* A bzna_codec decodes pictures of a kind that the library does not know. Chapter 13 introduces it.
 * Register codecs in context_config.own_codecs. They decode pictures of everything that is opened
 * with that context: folders, tars, archives, providers, and single pictures. */

/* The kind of pixels that a codec writes. A codec drops alpha, as PIL's convert("RGB") does. */
enum {
    BZNA_PIXELS_RGB   = 0,            /* planes of R, G, B; or interleaved ones */
    BZNA_PIXELS_GRAY  = 1,            /* one plane */
    BZNA_PIXELS_YCBCR = 2,            /* planes of Y, Cb, Cr; chroma may be subsampled */
    /* one plane of numbers, 8 bits each, and a palette with the color of each number. If
     * dataset_config.palette is BZNA_PALETTE_INDEX, the numbers are the pixels */
    BZNA_PIXELS_INDEX = 3
};

/* A rectangle of pixels, before a picture is rotated. */
typedef struct bzna_rectangle {
    uint32_t x0;                      /* the first column */
    uint32_t y0;                      /* the first row */
    uint32_t x1;                      /* the column after the last */
    uint32_t y1;                      /* the row after the last */
} bzna_rectangle;

/* The properties of a picture, which a codec's inspect or bzna_image_inspect fills in. The library
 * clears the struct and sets struct_size before it calls inspect. Zero is the default of every
 * member but width and height. */
typedef struct bzna_codec_shape {
    uint32_t   struct_size;           /* set by the library, in bytes */
    uint32_t   width;                 /* pixels, before the picture is rotated; required */
    uint32_t   height;                /* rows of pixels; required */
    uint32_t   pixels;                /* BZNA_PIXELS_... */
    /* bits of a sample: 8, or 9 to 16. Default 8. Above 8, a sample is a uint16_t of the machine,
     * whose lowest bits hold the value: 0 to 2^depth - 1 */
    uint32_t   depth;
    /* RGB: 1: R, G and B of a pixel are next to each other in one plane; 0: three planes */
    uint32_t   interleaved;
    /* YCBCR: log2 of the subsampling, 0 to 2. 4:2:0 has 1 in both. A plane of chroma has (width +
     * 2^shift - 1) >> shift samples a row, and as many rows by the same formula */
    uint32_t   chroma_shift_x;
    uint32_t   chroma_shift_y;        /* the same for rows */
    /* YCBCR: 1: chroma is co-sited with the left column; 0: centered, as in JPEG */
    uint32_t   chroma_left;
    uint32_t   chroma_top;            /* 1: co-sited with the top row; 0: centered */
    /* YCBCR: matrix and range; present 0: BT.601, full range. GRAY: only the range has an effect.
     * RGB and palettes are full range. Primaries and transfer are not applied: chapter 7 */
    bzna_color color;
    /* EXIF's number, 1..8: how the picture is to be rotated and mirrored; 0 counts as 1. The codec
     * leaves the planes as they are coded */
    uint32_t   orientation;
    /* 1: the bytes are a wrapper around a picture that the library decodes, so unwrap is called,
     * and the other members are ignored. A codec without decode need not set it */
    uint32_t   wrapped;
    /* BZNA_ALLOW_... of the library's codecs that decode will use, by a bzna_decoder of its own: if
     * context_config.codecs forbids one, the picture fails. 0: none */
    uint32_t   codecs;
    bzna_rectangle crop;              /* the part that is seen; all zeros: the whole picture */
} bzna_codec_shape;

/* Memory for a picture's pixels. The sample of plane i at column x and row y is at
 *     (char *)plane[i] + y * pitch[i] + x * step
 * A codec may write only the samples of width * height pixels, and the palette. */
typedef struct bzna_codec_planes {
    uint32_t struct_size;             /* set by the library, in bytes */
    uint32_t width;                   /* pixels of plane[0], as inspect said */
    uint32_t height;                  /* rows of plane[0] */
    /* bytes from one sample of a row to the next: 1 or 2, and three times as many for interleaved
     * RGB */
    uint32_t step;
    /* R, G, B, or Y, Cb, Cr, or one plane; others are NULL. Interleaved RGB is at plane[0]; plane
     * [1] and [2] are the first pixel's G and B. Multiples of 64, except these two */
    void    *plane[3];
    int64_t  pitch[3];                /* bytes from one row to the next; a multiple of 64 */
    /* INDEX: 256 times R, G, B, all black at first. Else NULL */
    uint8_t *palette;
} bzna_codec_planes;

/* Returns 1 if a file with this beginning is of the codec's kind, else 0. It must be quick: it is
 * called for every picture that no codec before it has recognized.
 *     user    bzna_codec.user
 *     head    the first bytes of the file
 *     bytes   how many they are: 512, or all of a smaller file; never 0 */
typedef int32_t (*bzna_codec_recognize_fn)(void *user, const void *head, uint64_t bytes);

/* Makes the state that a thread needs for decoding, and stores it in *state, which is NULL before.
 * Called before a thread first inspects, decodes or unwraps. If it fails, thread_end is not called,
 * and it is called again for the thread's next picture.
 *     user    bzna_codec.user
 *     err     as for bzna_codec_inspect_fn */
typedef bzna_status (*bzna_codec_thread_begin_fn)(void *user, void **state, bzna_error *err);

/* Frees a state that thread_begin made, once, when its thread needs it no more: on that thread, or
 * on the one that closes a loader or decoder. */
typedef void (*bzna_codec_thread_end_fn)(void *user, void *state);

/* Fills in the properties of a picture, without decoding it. The library then compares the size
 * with its limits, draws transforms, and allocates planes. All members of shape must be right for
 * decode.
 *     state   this thread's, which thread_begin stored, or bzna_codec.user without thread_begin
 *     data    all bytes of the file, which recognize accepted. They may be damaged in any way
 *     bytes   how many they are
 *     shape   cleared; to be filled in
 *     err     a complete struct without an error, never NULL. A function that fails may write
 *             err->message, in UTF-8; err->byte_offset, which counts from data; and
 *             err->native_code. Without a message, the library's message has the number that the
 *             function returns */
typedef bzna_status (*bzna_codec_inspect_fn)(void *state, const void *data, uint64_t bytes,
    bzna_codec_shape *shape, bzna_error *err);

/* Decodes a picture into planes. At least all pixels of the rectangle must be written. A codec that
 * cannot decode a part decodes the whole picture: the planes have room for it.
 *     state, data, bytes, err   as for inspect, which was called for these bytes and this state.
 *              It may have been called for other pictures since
 *     needed   the rectangle, which the warp reads; never empty
 *     planes   where to. Their contents are undefined */
typedef bzna_status (*bzna_codec_decode_fn)(void *state, const void *data, uint64_t bytes,
    const bzna_rectangle *needed, const bzna_codec_planes *planes, bzna_error *err);

/* Finds the picture in a wrapper. The library then decodes it as a picture without a wrapper: by
 * NVDEC, libjpeg-turbo or libavcodec.
 *     state, data, bytes, err   as for inspect
 *     image   prepared by bzna_image_init. Set codec (H264, H265, AV1, JPEG or STILL), data and
 *             data_size; for NAL units with lengths and AV1, config, config_size and length_size,
 *             and width, height, frame_width and frame_height, unless they are the same as in the
 *             stream. crop_x, crop_y, color and orientation may be set. data and config point into
 *             the given bytes, or into the codec's own memory, which must stay as it is until the
 *             state's next call and is copied */
typedef bzna_status (*bzna_codec_unwrap_fn)(void *state, const void *data, uint64_t bytes,
    bzna_image *image, bzna_error *err);

/* A codec of your own. Any thread calls recognize, concurrently. The other functions are called
 * concurrently, too, but never two at once with one state. No lock of the library is held. They
 * must not close any object, nor call functions that take a context, data set or loader, with one
 * exception: a state may have a decoder of its own, opened without a context, to decode the parts
 * of a picture.
 *
 * They return BZNA_OK, or a failure, which costs the sample: its slot is filled with the
 * out-of-bounds color, and the others are as they would have been. Statuses that say why are
 * E_CODEC (not supported), E_DECODE (damaged), E_TRUNCATED, E_LIMIT, E_UNSUPPORTED and E_MISMATCH.
 * After E_MEMORY the sample is made once more (chapter 6). Any other number becomes E_DECODE, with
 * that number as native_code.
 *
 * A codec is part of the program, and is trusted with the program's memory. The library notices
 * some of its mistakes, and fails the sample: shapes that make no sense; planes that decode leaves
 * unwritten, in whole rows or blocks of rows; up to 64 bytes written before a plane or after it
 * (other memory may be damaged then, too); an unwrapped picture that is not coded as image says.
 * Pixels that are written and wrong are not noticed. */
typedef struct bzna_codec {
    /* required: sizeof the struct. Clear the rest, or initialize the members that you need */
    uint32_t    struct_size;
    uint32_t    reserved0;            /* must be 0 */
    void       *user;                 /* passed to functions; the caller's until close */
    /* for messages; bzna_image_info.fourcc is its first four letters: "JXL (JPEG XL)". Required;
     * fewer than BZNA_NAME_MAX bytes */
    const char *name;
    /* Extensions of files, in lower case, with blanks between: "jxl". Each has at most 13 bytes,
     * and the text 255. They select the files of a folder, in lower or upper case, and the fields
     * of a tar that are pictures. NULL: none. The codec then gets only files whose names have
     * another picture's extension, and pictures that have no names */
    const char *extensions;
    /* Distinguishes versions of the codec that give other pixels: it is part of saved states, which
     * are not restored with another fingerprint. 0 is as valid as any number */
    uint64_t    fingerprint;
    bzna_codec_recognize_fn recognize;          /* required */
    bzna_codec_thread_begin_fn thread_begin;    /* may be NULL: each state is user */
    bzna_codec_thread_end_fn thread_end;        /* may be NULL; NULL without thread_begin */
    bzna_codec_inspect_fn inspect;    /* required if decode is */
    bzna_codec_decode_fn decode;      /* may be NULL: every picture is unwrapped */
    bzna_codec_unwrap_fn unwrap;      /* may be NULL: every picture is decoded */
    /* Releases the resources of user. Called exactly once, when the last object that was made with
     * the context is closed, on that thread; never if bzna_context_open failed. May be NULL */
    void      (*close)(void *user);
    uint64_t    reserved[4];          /* must be 0 */
} bzna_codec;

/* Fills in the properties of a coded picture, without decoding it: for codecs whose pictures
 * consist of coded pictures, as HEIF's grids do. Planes of matrix 0 count as Y'CbCr: they are G, B
 * and R. Any thread.
 *     image   as for bzna_decoder_decode
 *     shape   struct_size is required; filled in. color.present 0: neither image nor its stream
 *             describes the color
 * Statuses: as for bzna_decoder_decode. */
BZNA_API bzna_status bzna_image_inspect(const bzna_image *image, bzna_codec_shape *shape,
    bzna_error *err);

/* ---- Context ------------------------------------------------------------------------------ */
/* CUDA's handles of the default streams, as numbers: cast them to void *, or pass CU_STREAM_LEGACY
 * or CU_STREAM_PER_THREAD of cuda.h, which are the same handles. NULL is neither of them, since
 * frameworks may call the legacy default stream 0. */
#define BZNA_STREAM_LEGACY     1             /* the legacy default stream */
#define BZNA_STREAM_PER_THREAD 2             /* the calling thread's own default stream */

/* Kinds of devices. The numbers are DLPack's. */
enum {
    /* a context: a GPU if there is one, else the CPU. A loader's batches: host memory */
    BZNA_DEVICE_AUTO = 0,
    BZNA_DEVICE_CPU  = 1,             /* the host */
    BZNA_DEVICE_CUDA = 2              /* an NVIDIA GPU */
};

/* A device, wherever one appears. */
typedef struct bzna_device {
    int32_t kind;                     /* BZNA_DEVICE_... */
    int32_t ordinal;                  /* number of the CUDA device, from 0; else it must be 0 */
} bzna_device;

/* The codecs that may be decoded, as bits of context_config.codecs. */
enum {
    BZNA_ALLOW_H264 = 1,
    BZNA_ALLOW_H265 = 2,
    BZNA_ALLOW_AV1  = 4,
    BZNA_ALLOW_JPEG = 8,
    BZNA_ALLOW_PNG  = 16,
    BZNA_ALLOW_WEBP = 32,
    /* the codecs of own_codecs. The kinds that they unwrap must be allowed, too */
    BZNA_ALLOW_OWN  = 64
};

/* Codecs of the program's own, in the order in which they are asked. */
typedef struct bzna_own_codecs {
    /* an array; copied, with the texts that it points to. "Codecs of your own" describes them */
    const bzna_codec *ptr;
    uint64_t count;                   /* codecs at ptr, at most 32 */
    uint64_t reserved[2];             /* must be 0 */
} bzna_own_codecs;

/* The settings of a context. Zero is the default of every member. */
typedef struct bzna_context_config {
    uint32_t       struct_size;       /* sizeof the struct; bzna_context_config_init sets it */
    /* the most verbose level that log receives, BZNA_LOG_...; default BZNA_LOG_WARNING */
    int32_t        log_level;
    /* AUTO: a GPU if there is one that this build can use, else the CPU. The GPU is the device that
     * is current on the thread that needs it first, or device 0. CUDA: that device, or the call
     * fails. CPU: no GPU is looked for */
    bzna_device    device;
    /* host memory; default: the C library's, and large pages for blocks of 2 MiB or more */
    bzna_allocator allocator;
    bzna_log_fn    log;               /* receives messages; NULL: they are dropped */
    void          *log_user;          /* passed to log; the caller's */
    /* 0: log is called when a thread of the caller's opens a data set or a loader, closes a loader
     *    or the context, takes a batch, restores a state, finishes an archive or asks for the
     *    device. Up to 32 messages wait for that, and a message says how many more were dropped
     * 1: log is called at once, from any thread */
    uint32_t       log_any_thread;
    /* the longest edge of a coded frame, in pixels, 1..65535; default 16384 */
    uint32_t       max_edge_px;
    uint64_t       max_sample_bytes;  /* the largest sample, in bytes; default 256 MiB */
    /* Advanced, used to tune decoding on one kind of GPU: NVDEC decode sessions of the context, at
     * most 256. Default: sessions_per_engine for each engine */
    uint32_t       sessions;
    /* Advanced, used by configurations for several kinds of GPUs: NVDEC decode sessions for each
     * engine of the device, at most 256 (and 256 in all). Default 4, or 3 if there is a single
     * engine. sessions has precedence */
    uint32_t       sessions_per_engine;
    /* Advanced, used to tune decoding: how many pictures one session decodes at once, at most 16;
     * default 4 */
    uint32_t       session_depth;
    /* Advanced, used to tune decoding: how many decoded pictures of a session one launch of the
     * kernel warps, at most 8; default 8 */
    uint32_t       session_mapped;
    /* Advanced, used when a large model shares the GPU: device memory for the surfaces of the
     * decoders of all sessions, in bytes. The driver uses more memory for each decoder, and does
     * not report how much. Default: an eighth of the device's memory. With little memory, there are
     * fewer decoders, and they change frame sizes. With none, a session ends */
    uint64_t       decode_memory_bytes;
    /* Advanced, used when a framework has an allocator of its own: allocates the device memory of
     * batches and uploads. Default, all zeros: the driver's */
    bzna_device_allocator device_allocator;
    /* Advanced, used by programs that made a CUDA context: the CUcontext to work in, on its device.
     * It is the caller's, and must live until everything made from this context is closed. NULL:
     * the device's primary context */
    void          *cuda_context;
    /* Advanced, used in sandboxes, and by hosts whose callbacks must stay on their own thread: 1:
     * no call with this context starts a thread. Data sets are opened by the caller's thread alone,
     * and loaders have pipeline.no_threads */
    uint32_t       no_threads;
    /* Advanced, used with files from strangers: BZNA_ALLOW_... of the codecs that may be decoded. A
     * picture of another codec fails before a decoder sees it (E_CODEC): chapter 8. Default: all */
    uint32_t       codecs;
    /* Advanced, used for pictures that the library does not know: codecs that the library asks
     * after its own have declined. Default: none */
    bzna_own_codecs own_codecs;
} bzna_context_config;

/* Clears config, which makes every member the default, and sets its struct_size, in bytes: pass
 * sizeof *config. Any thread. */
BZNA_API void bzna_context_config_init(bzna_context_config *config, size_t struct_size);

/* Makes a context. config has its settings; it is copied, and NULL means all defaults. *out becomes
 * the context, to be closed with bzna_context_close. Any thread.
 *     E_ARGUMENT      the message names the setting
 *     E_THREAD        a lock could not be made
 *     E_DEVICE        config demands a device that cannot be used
 *     E_UNSUPPORTED   config demands a device, and this build has no GPU path
 * If it fails, config.own_codecs still belong to the caller: their close is not called. */
BZNA_API bzna_status bzna_context_open(const bzna_context_config *config, bzna_context **out,
    bzna_error *err);

/* Closes context; NULL does nothing. Objects that were made from it stay usable, and keep alive the
 * parts of it that they need. Returns E_STATE inside callbacks, and does nothing then. Any thread,
 * once. */
BZNA_API bzna_status bzna_context_close(bzna_context *context);

/* A CUDA device, as a context uses it. */
typedef struct bzna_device_info {
    uint32_t    struct_size;          /* set by the call: how many bytes were filled */
    uint32_t    driver;               /* the CUDA version that the driver supports, 12040 = 12.4 */
    bzna_device device;               /* BZNA_DEVICE_CUDA, and the ordinal */
    uint64_t    memory_bytes;         /* device memory in all, in bytes */
    uint32_t    compute_major;        /* compute capability, 8 of 8.6 */
    uint32_t    compute_minor;        /* compute capability, 6 of 8.6 */
    uint32_t    engines;              /* NVDEC engines for 8-bit 4:2:0 H.265, else for H.264 */
    /* decode sessions that the context's loaders share; 0 before the first loader needs them */
    uint32_t    sessions;
    bzna_status video;                /* BZNA_OK if NVDEC can be used, else why not */
    uint32_t    device_count;         /* CUDA devices of this machine */
    char        name[96];             /* the device's name, as the driver gives it */
    char        message[488];         /* more about video, if it is not BZNA_OK */
} bzna_device_info;

/* Results of NVDEC's check for one kind of picture. */
enum {
    BZNA_CHECK_NONE    = 0,           /* not checked yet: it waits for a data set's first picture */
    BZNA_CHECK_PASSED  = 1,           /* NVDEC decoded a picture to the expected pixels */
    BZNA_CHECK_FAILED  = 2,           /* it did not; the library does not use what failed */
    BZNA_CHECK_SKIPPED = 3            /* nothing to check with, or the environment forbids it */
};

/* NVDEC's abilities with one kind of picture: a codec, a chroma format and a depth. Sizes are those
 * of coded frames. */
typedef struct bzna_codec_info {
    uint32_t struct_size;             /* set by the call: how many bytes were filled */
    uint32_t codec;                   /* BZNA_CODEC_..., as asked */
    uint32_t chroma_format;           /* 0 gray, 1 4:2:0, 2 4:2:2, 3 4:4:4, as asked */
    uint32_t depth;                   /* bits a sample: 8, 10 or 12, as asked */
    uint32_t supported;               /* 1: the device decodes it; 0: all that follows is 0 */
    uint32_t engines;                 /* NVDEC engines for this kind */
    uint32_t min_width;               /* pixels */
    uint32_t min_height;              /* pixels */
    uint32_t max_width;               /* pixels */
    uint32_t max_height;              /* pixels */
    uint32_t max_macroblocks;         /* width * height / 256 of a frame is at most this */
    uint32_t check;                   /* BZNA_CHECK_... */
    /* why the check failed or was skipped, and what the library avoids because of it */
    char     check_message[128];
} bzna_codec_info;

/* Describes the device of context, and makes it ready for work if it was not. Without a context
 * (NULL), the call fills in only device_count; this starts CUDA, so a program that forks should
 * fork first. info is filled in, up to struct_size bytes: pass sizeof *info. Any thread. Fails as
 * bzna_context_open does for a config that demands a device, even if context_config.device is AUTO:
 *     E_DEVICE        the message says why the CPU works instead
 *     E_UNSUPPORTED   this build has no GPU path */
BZNA_API bzna_status bzna_context_device_info(bzna_context *context, bzna_device_info *info,
    size_t struct_size, bzna_error *err);

/* Describes how NVDEC of the context's device handles one kind of picture, and the result of its
 * self-check, once a picture of that kind was decoded. Makes the device ready if it was not. Any
 * thread.
 *     context         its device is asked
 *     codec           BZNA_CODEC_..., but not UNKNOWN
 *     chroma_format   0 gray, 1 4:2:0, 2 4:2:2, 3 4:4:4
 *     depth           bits a sample: 8, 10 or 12
 *     info            filled in, up to struct_size bytes: pass sizeof *info
 *     struct_size     in bytes
 * Statuses: E_ARGUMENT for another codec, chroma_format or depth; those of
 * bzna_context_device_info; if NVDEC cannot be used, the status in bzna_device_info.video. A
 * kind that the device does not decode is no error: info->supported is 0. */
BZNA_API bzna_status bzna_context_codec_info(bzna_context *context, uint32_t codec,
    uint32_t chroma_format, uint32_t depth, bzna_codec_info *info, size_t struct_size,
    bzna_error *err);

/* ---- Data sets ---------------------------------------------------------------------------- */
#define BZNA_TARGET_NONE (-1LL)              /* the target of a sample that has none */
#define BZNA_NAME_MAX    32                  /* bytes of a name in a struct, its NUL counted */
#define BZNA_IMAGES_MAX  4                   /* images of a sample in an archive, at most */

/* The treatment of pictures whose EXIF data, XMP or codec says how to rotate and mirror them. */
enum {
    BZNA_ORIENTATION_APPLY  = 0,      /* they are rotated; transforms see that size */
    BZNA_ORIENTATION_IGNORE = 1       /* they are not, as in torchvision's ImageFolder */
};

/* How the class folders of a folder are numbered. */
enum {
    BZNA_CLASS_ORDER_TEXT    = 0,     /* by their names as text: "10" comes before "2" */
    BZNA_CLASS_ORDER_NUMERIC = 1      /* by their names as numbers: "2" comes before "10" */
};

/* Settings for opening a data set. Everything is copied. A setting that has no effect on the kind
 * of file is E_ARGUMENT. Zero is the default of every member. */
typedef struct bzna_dataset_config {
    uint32_t            struct_size;  /* sizeof the struct; bzna_dataset_config_init sets it */
    /* 1: class folders without pictures are classes, too, and have numbers; 0: they are refused */
    uint32_t            allow_empty;
    /* the name of the data set in error messages, in UTF-8; only if it is one file. Default: the
     * path, "memory", "source" or "provider" */
    const char         *name;
    /* "train", "validation" or "test": only the samples of that split, which an archive lists in
     * tracks of their own (bzna_input_train, bzna_target_train, ...). E_NOT_FOUND if it has
     * none. Default: all samples */
    const char         *split;
    /* the kind of container, as bzna_dataset_info.container calls it. Default: found by content */
    const char         *format;
    /* names of a folder's class folders, in the order of their numbers; other folders are left out.
     * Default: all of them, in class_order */
    const char *const  *classes;
    uint32_t            class_count;  /* names at classes */
    uint32_t            class_order;  /* BZNA_CLASS_ORDER_...; not together with classes */
    uint32_t            orientation;  /* BZNA_ORIENTATION_... */
    uint32_t            palette;      /* BZNA_PALETTE_... */
    /* the name of the integer field that is the target, such as "cls2" of a tar. In mp4 files also
     * the name of a track of integers, such as "bzna_target"; with a split, the library uses that
     * split's variant of the track. E_NOT_FOUND if there is none. Default: chapter 12 says which */
    const char         *target;
    /* the text of an index (.idx) of one tar, in place of the file next to it, so that a tar that
     * is opened by a source need not be walked over. Read until the call returns. Default:
     * the file next to it, if the data set is opened by a path */
    const void         *index;
    uint64_t            index_bytes;  /* bytes at index */
} bzna_dataset_config;

/* A data set as a whole. */
typedef struct bzna_dataset_info {
    uint32_t struct_size;             /* set by the call: how many bytes were filled */
    uint32_t field_count;             /* fields of its samples: bzna_dataset_field_info */
    /* of all its files, whole; 0 for folders; what provider.size_bytes says */
    uint64_t size_bytes;
    uint64_t sample_count;            /* of the whole data set, as from bzna_dataset_count */
    /* samples that may have a target: in archives, each sample says whether it has one; 0: none
     * has one */
    uint64_t target_count;
    uint32_t part_count;              /* files, or ranges of files, in the data set */
    uint32_t track_count;             /* of the first file: bzna_dataset_track_info */
    uint32_t brand_count;             /* of the first file's ftyp, at most 8 */
    uint32_t brands[8];               /* the major brand first */
    /* of the first file: "archive", "mp4 video", "folder", "tar", "provider", or a provider's
     * kind */
    char     container[20];
    uint64_t trailing_bytes;          /* of the first file, after its last box: ignored */
} bzna_dataset_info;

/* Kinds of fields. */
enum {
    BZNA_FIELD_IMAGE   = 1,           /* a coded picture: bzna_image */
    BZNA_FIELD_INTEGER = 2,           /* an int64_t */
    BZNA_FIELD_VECTOR  = 3,           /* float32 numbers */
    BZNA_FIELD_TEXT    = 4,           /* UTF-8 */
    BZNA_FIELD_BYTES   = 5            /* bytes without a meaning to the library */
};

/* One field of a data set's samples. Chapter 12 has the fields of tar.
 *     archive   "image", "thumb"; "target" and "name" if it has such tracks; fields that were
 *               written with the samples
 *     video     "image"; "target" and "name" if it has such tracks
 *     provider  as its fields say
 *     folder    "image"; "name", the path below the folder; "target" if folders are classes */
typedef struct bzna_field_info {
    uint32_t struct_size;             /* set by the call: how many bytes were filled */
    uint32_t kind;                    /* BZNA_FIELD_... */
    char     name[BZNA_NAME_MAX];     /* UTF-8 with a NUL at its end */
} bzna_field_info;

/* One track of an archive or a video. */
typedef struct bzna_track_info {
    uint32_t struct_size;             /* set by the call: how many bytes were filled */
    uint32_t handler;                 /* four characters, such as "meta" or "vide" */
    /* of the sample entry, such as "mett" or "hvc1"; "jpeg" if that is mp4v, and its esds box says
     * that the frames are JPEG */
    uint32_t format;
    uint32_t flags;                   /* of tkhd */
    uint64_t sample_count;            /* of the track */
    char     name[BZNA_NAME_MAX];     /* of hdlr, such as "bzna_input" */
    char     mime[64];                /* of the sample entry, or "" */
} bzna_track_info;

/* The place of one sample in its file. */
typedef struct bzna_sample_ref {
    uint32_t struct_size;             /* set by the call: how many bytes were filled */
    uint32_t image_count;             /* names at image_names */
    uint64_t index;                   /* in the data set, as asked */
    uint64_t offset;                  /* where the sample begins in its file, in bytes */
    uint64_t size;                    /* bytes of the sample */
    int64_t  target;                  /* BZNA_TARGET_NONE: it has none */
    char     image_names[BZNA_IMAGES_MAX][BZNA_NAME_MAX];   /* tracks of the images in it */
} bzna_sample_ref;

/* One image of a sample, as its container describes it, and the place of its bytes. */
typedef struct bzna_image_info {
    uint32_t   struct_size;           /* set by the call: how many bytes were filled */
    uint32_t   codec;                 /* BZNA_CODEC_... */
    /* the sample entry, "hvc1" = 0x68766331, or the kind of file, "jpeg" */
    uint32_t   fourcc;
    uint32_t   width;                 /* pixels of the picture without padding */
    uint32_t   height;                /* its height */
    uint32_t   frame_width;           /* pixels of the coded frame */
    uint32_t   frame_height;          /* its height */
    uint32_t   crop_x;                /* where in the frame the picture begins, in pixels */
    uint32_t   crop_y;                /* how far from the frame's top, in pixels */
    /* the clean aperture as it is in the file: width, height, horizontal and vertical offset, each
     * a numerator and a denominator. All 0: there is none */
    int32_t    clap[8];
    uint32_t   length_size;           /* as in bzna_image */
    bzna_color color;                 /* as in bzna_image */
    uint64_t   config_offset;         /* where the config's payload begins in the file, in bytes */
    uint64_t   config_size;           /* bytes of the config's payload */
    uint64_t   data_offset;           /* where the access unit begins in the file, in bytes */
    uint64_t   data_size;             /* bytes of the access unit */
    uint32_t   orientation;           /* as in bzna_image */
    uint32_t   reserved0;             /* 0 */
} bzna_image_info;

/* Clears config, which makes every member the default, and sets its struct_size, in bytes: pass
 * sizeof *config. Any thread. */
BZNA_API void bzna_dataset_config_init(bzna_dataset_config *config, size_t struct_size);

/* Opens the file or folder that path names, and detects its kind by its content: chapter 12. Reads
 * the index of an archive or a video, the headers of a tar or its index, or the names in a folder,
 * and no picture. Any thread.
 *     context   may be closed before the data set
 *     path      UTF-8; copied
 *     config    copied; NULL: all defaults
 *     out       becomes the data set, to be closed with bzna_dataset_close
 * Statuses:
 *     E_NOT_FOUND     nothing is there, path is empty, or config->split has no tracks
 *     E_ARGUMENT      a setting that has no effect on the kind of file
 *     E_IO            reading failed
 *     E_FORMAT, E_TRUNCATED, E_BOX, E_LIMIT, E_UNFINISHED   the file is damaged or of no kind known
 *     E_NO_SAMPLES    the file is whole and has no samples, or each of several files is
 *     E_UNSUPPORTED   a format that the library knows and does not read; a pipe or device, since
 *                     samples are read at any offset */
BZNA_API bzna_status bzna_dataset_open(bzna_context *context, const char *path,
    const bzna_dataset_config *config, bzna_dataset **out, bzna_error *err);

/* Opens several paths as one data set, one after the other. Several threads open them. Messages
 * call each by its path. Any thread.
 *     context      may be closed before the data set
 *     paths        each as for bzna_dataset_open; copied
 *     path_count   1..65536
 *     config       for each path; copied; NULL: all defaults. config->name: only of one file
 *     out          becomes the data set, to be closed with bzna_dataset_close
 * Statuses: that of bzna_dataset_open for the first path that fails; E_NO_SAMPLES if path_count is
 * 0; E_LIMIT for more than 65536 files. */
BZNA_API bzna_status bzna_dataset_open_list(bzna_context *context, const char *const *paths,
    uint32_t path_count, const bzna_dataset_config *config, bzna_dataset **out, bzna_error *err);

/* Opens a file in memory. Any thread.
 *     context   may be closed before the data set
 *     bytes     the file; borrowed. It must stay as it is until the data set, and every loader and
 *               data set that was made of it, is closed
 *     size      bytes at bytes
 *     config    copied; NULL: all defaults
 *     out       becomes the data set, to be closed with bzna_dataset_close
 * Statuses: those of bzna_dataset_open, without E_IO. */
BZNA_API bzna_status bzna_dataset_open_memory(bzna_context *context, const void *bytes, size_t size,
    const bzna_dataset_config *config, bzna_dataset **out, bzna_error *err);

/* Opens a file that the caller's functions read. Any thread.
 *     context   may be closed before the data set
 *     source    size is required, and so is read_at or memory; the struct is copied. On success
 *               the data set owns the source, and closes it exactly once. On failure it is still
 *               the caller's, and close was not called
 *     config    copied; NULL: all defaults
 *     out       becomes the data set, to be closed with bzna_dataset_close
 * Statuses: those of bzna_dataset_open; E_CALLBACK if a function misbehaves. */
BZNA_API bzna_status bzna_dataset_open_source(bzna_context *context, const bzna_source *source,
    const bzna_dataset_config *config, bzna_dataset **out, bzna_error *err);

/* Closes dataset; NULL does nothing. Loaders and data sets that were made from it stay usable, and
 * keep its files open. Returns E_STATE inside callbacks, and does nothing then. Any thread,
 * once. */
BZNA_API bzna_status bzna_dataset_close(bzna_dataset *dataset);

/* Lays data sets end to end as one: index i of the whole is index i - (counts before) of its part.
 * Any thread.
 *     context      may be closed before the new data set
 *     parts        part_count data sets; each is kept alive, and may be closed by the caller
 *     part_count   at least 1
 *     out          becomes the data set, to be closed with bzna_dataset_close
 * Statuses: E_ARGUMENT; E_LIMIT for more than 2^63 samples or 65536 files. */
BZNA_API bzna_status bzna_dataset_concat(bzna_context *context, bzna_dataset *const *parts,
    uint32_t part_count, bzna_dataset **out, bzna_error *err);

/* Makes a data set of the samples first .. first + count - 1 of dataset. *out keeps dataset alive,
 * so the caller may close dataset first. Close *out with bzna_dataset_close. Any thread.
 * Statuses: E_NO_SAMPLES if count is 0; E_RANGE if the range ends past the last sample. */
BZNA_API bzna_status bzna_dataset_range(bzna_dataset *dataset, uint64_t first, uint64_t count,
    bzna_dataset **out, bzna_error *err);

/* Returns how many samples dataset has; 0 for NULL. Any thread. */
BZNA_API uint64_t bzna_dataset_count(const bzna_dataset *dataset);

/* Returns how many samples one part of dataset has: one of its files, or a range of one. Parts
 * follow each other. Returns 0 from part number bzna_dataset_info.part_count on. Any thread. */
BZNA_API uint64_t bzna_dataset_part_count(const bzna_dataset *dataset, uint32_t part);

/* Describes dataset as a whole. info is filled in, up to struct_size bytes: pass sizeof *info.
 * Nothing is read. Any thread. */
BZNA_API bzna_status bzna_dataset_get_info(const bzna_dataset *dataset, bzna_dataset_info *info,
    size_t struct_size, bzna_error *err);

/* Describes one field of the samples of dataset. field is its number, from 0. info is filled in, up
 * to struct_size bytes: pass sizeof *info. Returns E_RANGE past the last field. Any thread. */
BZNA_API bzna_status bzna_dataset_field_info(const bzna_dataset *dataset, uint32_t field,
    bzna_field_info *info, size_t struct_size, bzna_error *err);

/* Describes one track of the first file of dataset. track is its number, from 0. info is filled in,
 * up to struct_size bytes: pass sizeof *info. Returns E_RANGE past the last track, and if the
 * file has no tracks. Any thread. */
BZNA_API bzna_status bzna_dataset_track_info(const bzna_dataset *dataset, uint32_t track,
    bzna_track_info *info, size_t struct_size, bzna_error *err);

/* Says where sample number index of dataset is, and what it holds, for which archives, videos and
 * tars read the sample. sample is filled in, up to struct_size bytes: pass sizeof *sample. Any
 * thread. Statuses: E_RANGE past the last sample; E_IO, E_TRUNCATED, E_BOX, ... if its index entry
 * or its boxes are damaged or cannot be read. */
BZNA_API bzna_status bzna_dataset_sample(const bzna_dataset *dataset, uint64_t index,
    bzna_sample_ref *sample, size_t struct_size, bzna_error *err);

/* Sets *target to the target of sample number index of dataset, or to BZNA_TARGET_NONE if it has
 * none. Any thread. Statuses: E_RANGE past the last sample; E_IO, E_TRUNCATED, E_BOX, ... */
BZNA_API bzna_status bzna_dataset_target(const bzna_dataset *dataset, uint64_t index,
    int64_t *target, bzna_error *err);

/* Copies the name of a class as text with a NUL at its end. Classes have names in folders that are
 * classes, in archives whose writer was given them, and in providers that have them. In data sets
 * laid end to end, the first one that has names answers for all. Any thread.
 *     dataset    the data set
 *     target     the class, as bzna_dataset_target gives it
 *     buffer     receives the name; NULL asks for the size alone
 *     capacity   bytes at buffer
 *     needed     set to the size of the name with its NUL, in bytes; may be NULL
 * Statuses: E_NOT_FOUND if classes have no names; E_RANGE if there is no such class; E_BUFFER if
 * buffer is NULL or too small. */
BZNA_API bzna_status bzna_dataset_class(const bzna_dataset *dataset, int64_t target, void *buffer,
    size_t capacity, size_t *needed, bzna_error *err);

/* Copies the value of one field of a sample. An image comes as a stream of its own, as from
 * bzna_image_annexb; an integer as an int64_t; a vector as float32 numbers; text with a NUL at its
 * end. A sample without a name among named ones has the name "". Any thread.
 *     dataset    the data set
 *     index      the sample
 *     field      the field's name
 *     buffer     receives the value; NULL asks for the size alone
 *     capacity   bytes at buffer
 *     needed     set to the value's size in bytes, the NUL of text counted; may be NULL
 * Statuses: E_NOT_FOUND if no field has that name, or this sample lacks it; E_BUFFER if buffer is
 * NULL or too small; E_RANGE past the last sample; E_IO, E_TRUNCATED, E_BOX, ... */
BZNA_API bzna_status bzna_dataset_field(const bzna_dataset *dataset, uint64_t index,
    const char *field, void *buffer, size_t capacity, size_t *needed, bzna_error *err);

/* Reads a sample and finds one image in it, for bzna_decoder_decode or a writer. Any
 * thread.
 *     dataset    the data set
 *     index      the sample
 *     field      "image", "thumb", or the name of a track such as "bzna_input"; NULL: the thumbnail
 *                if there is one, else the image
 *     buffer     receives the whole sample
 *     capacity   bytes at buffer; at least bzna_sample_ref.size. If a codec of the program's own
 *                copies bytes to unwrap the sample, they follow it, and need more: E_BUFFER
 *     image      prepared by bzna_image_init, and filled in. Its config and data point into buffer.
 *                The config of plain videos and of a provider's RAW pixels points into
 *                the data set, since all samples share it
 * Statuses: E_RANGE past the last sample; E_NOT_FOUND if there is no such image; E_BUFFER if
 * capacity is too small; E_IO, E_TRUNCATED, E_BOX, E_CODEC, ... */
BZNA_API bzna_status bzna_dataset_read_image(const bzna_dataset *dataset, uint64_t index,
    const char *field, void *buffer, size_t capacity, bzna_image *image, bzna_error *err);

/* Says where an image of a sample is, and how its container describes it. Any thread.
 *     dataset       the data set
 *     index         the sample
 *     field         which image, as for bzna_dataset_read_image
 *     info          filled in, up to struct_size bytes: pass sizeof *info
 *     struct_size   in bytes
 * Statuses: those of bzna_dataset_read_image, without E_BUFFER. */
BZNA_API bzna_status bzna_dataset_image_info(const bzna_dataset *dataset, uint64_t index,
    const char *field, bzna_image_info *info, size_t struct_size, bzna_error *err);

#ifndef BENZINA_NO_PROVIDERS
/* ---- Providers ---------------------------------------------------------------------------- */
/* One field of a provider's samples. Zero is the default of every member that does not say
 * otherwise. */
typedef struct bzna_provider_field {
    /* UTF-8, of fewer than BZNA_NAME_MAX bytes, without commas and colons; required. Some
     * names have meanings: an INTEGER called "target" is the target, an IMAGE called "image" is the
     * picture that loaders decode by default (without one, the first IMAGE is), and a TEXT called
     * "name" is the sample's name */
    const char *name;
    /* BZNA_FIELD_..., which says what a value is, and is required:
     *     IMAGE     a picture, as codec says
     *     INTEGER   an int64_t, in the machine's byte order
     *     VECTOR    any number of float32 numbers, in that order, too
     *     TEXT      UTF-8 without a NUL
     *     BYTES     any bytes */
    uint32_t    kind;
    /* 1: places or locate say where values are; 0: read gives them */
    uint32_t    located;
    /* IMAGE:
     *     BZNA_CODEC_UNKNOWN           a file of JPEG, PNG, ..., distinguished by its content
     *     BZNA_CODEC_H264, H265, AV1   one picture with its parameter sets, in Annex B or OBUs, as
     *                                  bzna_image_annexb writes it
     *     BZNA_CODEC_RAW               pixels, as the next members say */
    uint32_t    codec;
    uint32_t    width;                /* RAW: pixels */
    uint32_t    height;               /* RAW: pixels */
    uint32_t    channels;             /* RAW: 1, gray; 3, RGB. Each is a byte */
    uint32_t    layout;               /* RAW: BZNA_LAYOUT_... */
    uint32_t    reserved0;            /* must be 0 */
    /* RAW, with provider.unpack: where the pixels begin in each record, in bytes */
    uint64_t    offset;
    uint64_t    reserved[2];          /* must be 0 */
} bzna_provider_field;

/* Where a value of a provider is: in memory, in a part of a file, or in a whole file, which is {
 * .file = number, .size = BZNA_SIZE_UNKNOWN }. */
typedef struct bzna_place {
    /* its bytes in memory, which must stay as they are until provider.close: nothing is copied.
     * NULL: it is in a file */
    const void *data;
    uint64_t    offset;               /* of its first byte in the file */
    uint64_t    size;                 /* bytes, or BZNA_SIZE_UNKNOWN; required */
    /* number of the file in provider.files; or of a record, BZNA_BY_READ: then read gives it, and
     * offset is the place that messages name */
    uint64_t    file;
} bzna_place;

/* UINT64_MAX: in bzna_place.file, see there. */
#define BZNA_BY_READ      0xFFFFFFFFFFFFFFFF
/* UINT64_MAX: in provider.places, the size of a value that a sample does not have. */
#define BZNA_NO_VALUE     0xFFFFFFFFFFFFFFFF
/* UINT64_MAX - 1: in bzna_place, the size of a value that ends with its file, which the library
 * finds when it reads the value. RAW pixels and INTEGERs have as many bytes as their field says,
 * and their file may have more bytes after them. */
#define BZNA_SIZE_UNKNOWN 0xFFFFFFFFFFFFFFFE

/* Gives a value of a provider's sample: sets *size to its bytes, and writes it to buffer if it has
 * no more than capacity bytes. If it has more, nothing need be written, and the function is called
 * again with a larger buffer, perhaps later and by another thread; both times it returns BZNA_OK. A
 * loader offers more than most samples need, so that this is rare. bzna_provider says what the
 * function returns, and on which threads it runs.
 *     user       bzna_provider.user
 *     index      of the sample, 0..count - 1
 *     field      number of the field in bzna_provider.fields
 *     buffer     capacity bytes without alignment; NULL if capacity is 0, to ask for the size alone
 *     capacity   bytes at buffer
 *     size       required, in bytes
 *     err        a complete struct without an error, never NULL. A function that fails may write
 *                err->message, in UTF-8; err->byte_offset; and err->native_code. The library puts
 *                the data set and the sample before the message. Without one, its own has the
 *                number that the function returns */
typedef bzna_status (*bzna_provider_read_fn)(void *user, uint64_t index, uint32_t field,
    void *buffer, uint64_t capacity, uint64_t *size, bzna_error *err);

/* Says where a value of a provider's sample is. The library reads files as it reads its own kinds
 * of data sets: neighbors in one call, and with few descriptors. bzna_provider says what the
 * function returns, and on which threads it runs.
 *     user    bzna_provider.user
 *     index   of the sample, 0..count - 1
 *     field   number of the field in bzna_provider.fields
 *     place   all zeros, except size: set data, or file and offset; and set size
 *     err     as for bzna_provider_read_fn */
typedef bzna_status (*bzna_provider_locate_fn)(void *user, uint64_t index, uint32_t field,
    bzna_place *place, bzna_error *err);

/* Gives a value of a provider whose samples are records: the library reads a record once, and this
 * function finds each value in it. bzna_provider says what the function returns, and on which
 * threads it runs.
 *     user       bzna_provider.user
 *     index      of the sample, 0..count - 1
 *     field      number of the field in bzna_provider.fields
 *     record     the record. The function may change it, for instance to join its parts, unless it
 *                is in the provider's memory (bzna_place.data). Later calls for this sample may
 *                find it changed, or read again
 *     bytes      of the record
 *     buffer     for a value that is not an IMAGE: capacity bytes without alignment, or NULL
 *     capacity   bytes at buffer
 *     place      all zeros, except size, which is required. For an IMAGE, set offset, its place in
 *                the record. For another value, set data, in the record or in the provider's
 *                memory, which the library copies; or write it to buffer, if it has at most
 *                capacity bytes
 *     err        as for bzna_provider_read_fn */
typedef bzna_status (*bzna_provider_unpack_fn)(void *user, uint64_t index, uint32_t field,
    void *record, uint64_t bytes, void *buffer, uint64_t capacity, bzna_place *place,
    bzna_error *err);

/* Samples from the caller's functions, for bzna_dataset_open_provider. read, locate and unpack are
 * called by several threads at once: the reader threads of loaders, with unpack also their decoder
 * threads, and threads in bzna_dataset_* calls and in bzna_loader_open. No lock of the library is
 * held. They may use other data sets, but must not close any object. Each function must give the
 * same value in every call. A loader of pictures has one reader thread by default: raise
 * read.threads if read calculates much or waits long. Without pictures, decoder threads read.
 *
 * They return BZNA_OK, or a failure:
 *     BZNA_E_NOT_FOUND   the sample has no such value: a missing target is BZNA_TARGET_NONE,
 *                        missing numbers are NaN, missing text and bytes are NULL, and a missing
 *                        picture fails the sample if it is wanted, or the only one
 *     BZNA_E_IO          trouble with the data. The sample fails with E_IO, after read.retries more
 *                        attempts, or at once if unpack failed for a picture
 *     BZNA_E_FORMAT, E_TRUNCATED, E_BOX, E_LIMIT, E_CODEC, E_DECODE, E_MISMATCH, E_UNSUPPORTED
 *                        the sample fails with it
 *     BZNA_E_MEMORY      the sample is made once more; then the run ends (chapter 6)
 *     any other number   the sample fails with E_CALLBACK, and the number becomes native_code: the
 *                        code of a library that you ask may be returned as it is, if it is not one
 *                        of the above
 *
 * A size that cannot be right fails the sample with E_CALLBACK: one that changes between calls, one
 * above max_bytes (E_LIMIT if that is the default), a picture without bytes, an INTEGER that has
 * not 8 bytes, RAW pixels that are not as many as their field says, a place that no file can have
 * or that is not in the record. A fault of a file has the status that it has in other data sets,
 * and the message names the file: E_IO if it cannot be opened or read, E_TRUNCATED if it ends
 * before a value does, E_LIMIT if it is larger than max_bytes. All these failures cost their own
 * slots (errors.on_error); errors.on_callback_error has no effect on them. */
typedef struct bzna_provider {
    uint32_t    struct_size;          /* sizeof the struct; bzna_provider_init sets it */
    uint32_t    reserved0;            /* must be 0 */
    void       *user;                 /* passed to the functions; the caller's until close */
    uint64_t    count;                /* samples; at least 1 */
    const bzna_provider_field *fields;          /* of the samples; copied */
    uint32_t    field_count;          /* 1..64 */
    uint32_t    reserved1;            /* must be 0 */
    /* bytes of a value, at most; default context_config.max_sample_bytes, which always holds */
    uint64_t    max_bytes;
    bzna_provider_read_fn   read;     /* gives values; NULL if every field is located */
    bzna_provider_locate_fn locate;   /* says where values are; NULL if places says it */
    /* instead of locate, the places of all values, so that no function is called: field f of sample
     * i is at places[i * field_count + f]. Places of fields that are not located are ignored. The
     * array must stay as it is until close. NULL: locate says it */
    const bzna_place *places;
    /* paths of the files that hold values; copied. If they are at most 64, and fewer than the
     * samples, the library opens them with the data set. Otherwise it opens each file when it reads
     * it, so a missing file fails only its samples */
    const char *const *files;
    uint64_t    file_count;           /* any number */
    const char *const *classes;       /* names of targets 0, 1, ...; copied. NULL: none have any */
    uint32_t    class_count;          /* 0 without classes */
    uint32_t    reserved2;            /* must be 0 */
    /* distinguishes these samples from others: a saved state is not restored with another
     * fingerprint. Default 0: only count and fields distinguish providers */
    uint64_t    fingerprint;
    /* Releases the provider's resources. Called exactly once, on the thread that releases the data
     * set last, and never if bzna_dataset_open_provider failed. May be NULL */
    void        (*close)(void *user);
    /* the value of bzna_dataset_info.container, in UTF-8 of fewer than 20 bytes; copied. Default:
     * "provider" */
    const char *kind;
    uint64_t    size_bytes;           /* of its files, for bzna_dataset_info; default: 0 */
    /* Samples are records, and this function finds all fields in them but RAW pixels. A sample then
     * has one place: places, locate or read give the whole record. Sample i is at places[i], and
     * locate and read are called with field_count as the number of the field. NULL: each field has
     * a place of its own */
    bzna_provider_unpack_fn unpack;
    uint64_t    reserved[2];          /* must be 0 */
} bzna_provider;

/* Clears provider and sets its struct_size, in bytes: pass sizeof *provider. After that, set count,
 * fields, field_count, and read or locate. Any thread. */
BZNA_API void bzna_provider_init(bzna_provider *provider, size_t struct_size);

/* Opens samples that the caller's functions give. Any thread.
 *     context    may be closed before the data set
 *     provider   the struct and its arrays are copied. On success the data set owns user, and
 *                calls close exactly once. On failure it is still the caller's, and close was not
 *                called
 *     config     copied; NULL: all defaults. Only name, format ("provider"), target, orientation
 *                and palette have an effect
 *     out        becomes the data set, to be closed with bzna_dataset_close
 * None of its functions is called here. Statuses: E_ARGUMENT for an invalid provider; the message
 * names the member; E_NO_SAMPLES if count is 0; E_LIMIT; those of opening a file if provider.files
 * has at most 64. */
BZNA_API bzna_status bzna_dataset_open_provider(bzna_context *context,
    const bzna_provider *provider, const bzna_dataset_config *config, bzna_dataset **out,
    bzna_error *err);

#endif

/* ---- Decoding single pictures ------------------------------------------------------------- */
/* A decoded picture: planes in memory. bzna_decoder_decode fills it in; bzna_picture_render takes
 * it, from any source. It owns nothing. */
typedef struct bzna_picture {
    uint32_t    struct_size;          /* sizeof the struct */
    /* bits a sample: 8, or 9 to 16 in two bytes each; 0 counts as 8 */
    uint32_t    depth;
    uint32_t    width;                /* pixels of the picture without padding */
    uint32_t    height;               /* its height */
    uint32_t    crop_x;               /* where in the frame the picture begins, in pixels */
    uint32_t    crop_y;               /* how far from the frame's top, in pixels */
    /* pixels of the coded frame, which the planes show whole; 0: the frame ends where the picture
     * does */
    uint32_t    frame_width;
    uint32_t    frame_height;         /* its height */
    uint32_t    chroma_shift_x;       /* log2 of the subsampling, at most 2: 1 for 4:2:0 */
    uint32_t    chroma_shift_y;       /* the same for rows: 1 for 4:2:0 */
    uint32_t    chroma_left;          /* 1: chroma is co-sited with the left column; 0: centered */
    uint32_t    chroma_top;           /* 1: chroma is co-sited with the top row; 0: centered */
    /* the color description that applies: chapter 7. With matrix 0 the planes are G, B, R */
    bzna_color  color;
    /* Y, Cb, Cr; plane[1] and [2] NULL: gray. Borrowed. Planes and pitches of samples of two bytes
     * are multiples of 2 */
    const void *plane[3];
    int64_t     pitch[3];             /* bytes from one row of a plane to the next */
    /* EXIF's number, 1..8; 0 counts as 1. All sizes here are those of the planes as they are
     * stored; homographies and outputs refer to the picture after it was rotated */
    uint32_t    orientation;
    /* bytes from one sample of a row to the next; 0: the size of a sample. Interleaved planes have
     * more */
    uint32_t    step[3];
} bzna_picture;

/* Opens a decoder, which works in software. context may be closed before it; NULL: the decoder has
 * the defaults of a context's settings. *out becomes the decoder, to be closed with
 * bzna_decoder_close. Any thread. */
BZNA_API bzna_status bzna_decoder_open(bzna_context *context, bzna_decoder **out, bzna_error *err);

/* Closes decoder; NULL does nothing. Planes that it returned are freed. Returns E_STATE inside
 * callbacks, and does nothing then, unless the decoder was opened without a context. Any thread,
 * once, while no other uses it. */
BZNA_API bzna_status bzna_decoder_close(bzna_decoder *decoder);

/* Decodes one coded picture. One thread at a time may use a decoder.
 *     decoder   stays usable after every failure below
 *     image     must have its data, and its config if the codec has one; unchanged
 *     picture   has its struct_size, and is filled in. Its planes are the decoder's, and
 *               valid until the decoder's next call; those of raw pixels are in image's data
 * Statuses: E_ARGUMENT; E_CODEC if there is no decoder for this kind; E_UNSUPPORTED if the library
 * was built without that decoder, as with BENZINA_NO_AVCODEC; E_DECODE if the picture is damaged;
 * E_MISMATCH if it is not what image says; E_LIMIT; E_BOX. */
BZNA_API bzna_status bzna_decoder_decode(bzna_decoder *decoder, const bzna_image *image,
    bzna_picture *picture, bzna_error *err);

/* ---- Random numbers and order ------------------------------------------------------------- */
/* A stream of random numbers by a counter-based generator, Philox4x32-10 (Salmon et al. 2011,
 * "Parallel random numbers: as easy as 1, 2, 3"). The stream of (seed, epoch, sample, purpose) is
 *     key     = the first two words of philox(counter = {epoch low, epoch high, 0, 0},
 *                                             key = {seed low, seed high})
 *     block n = philox(counter = {sample low, sample high, purpose, n}, key)
 * Words come in order 0..3 of block 0, 1, ... Test vectors, the first words of a stream:
 *     seed 0,    epoch 0, sample 0,       purpose 0:   d4abea56 dd653103 04e23b27 74656f08
 *     seed 1234, epoch 5, sample 1000000, purpose 16:  3cf3e08d 4cc55af4 77c3fa94 890dc105
 * The struct is a plain value that owns nothing: copy it to repeat its numbers. */
typedef struct bzna_random {
    uint32_t key[2];                  /* of the stream */
    uint32_t counter[4];              /* of the next block */
    uint32_t block[4];                /* its words */
    uint32_t used;                    /* words of block already handed out; 4: all */
    uint32_t reserved0;               /* 0 */
} bzna_random;

/* Purposes of random numbers. Each purpose has numbers of its own for each sample. */
enum {
    BZNA_RANDOM_WARP    = 0,          /* a loader's warps */
    BZNA_RANDOM_COLOR   = 1,          /* a loader's jitters */
    BZNA_RANDOM_ORDER   = 2,          /* a loader's order */
    BZNA_RANDOM_PICTURE = 3,          /* a loader's picture callback */
    BZNA_RANDOM_AUGMENT = 4,          /* a loader's policies */
    /* a loader's transform callback; this and higher numbers are the user's */
    BZNA_RANDOM_USER    = 16
};

/* Sets random to the start of the stream of (seed, epoch, sample, purpose). purpose is
 * BZNA_RANDOM_... NULL does nothing. Any thread.
 *
 * In a loader, this is the stream of view 0 of a sample that the epoch has once. The stream of
 * another view or occurrence has another key: the first two words of philox(counter = {occurrence
 * low, occurrence high, view, 1}, key). */
BZNA_API void bzna_random_init(bzna_random *random, uint64_t seed, uint64_t epoch, uint64_t sample,
    uint32_t purpose);

/* Returns the next word of random, uniform in 0..2^32 - 1. One thread at a time may use the same
 * bzna_random. */
BZNA_API uint32_t bzna_random_u32(bzna_random *random);

/* Returns lo + (hi - lo) * k / 2^53. The next two words of random, the low one first, make 64 bits,
 * and k is the upper 53 of them. One thread at a time may use the same bzna_random. */
BZNA_API double bzna_random_uniform(bzna_random *random, double lo, double hi);

/* Returns the index of the sample at a position of an epoch's shuffled order. For a given seed and
 * epoch that is a bijection of [0, count), computed without memory. Any thread.
 *     seed       order.seed of a loader
 *     epoch      from 0
 *     count      samples of the epoch, at most 2^63
 *     position   0 .. count - 1; any other, and a larger count, give UINT64_MAX
 * bzna_order_permute(1234, 5, 1281167, 0..3) = 298837, 609860, 1210012, 1168792. */
BZNA_API uint64_t bzna_order_permute(uint64_t seed, uint64_t epoch, uint64_t count,
    uint64_t position);

/* ---- Transforms --------------------------------------------------------------------------- */
/* How pixels between pixels are computed. Chroma that is subsampled is filtered linearly, unless
 * the warp shrinks it. */
enum {
    BZNA_FILTER_LINEAR    = 0,        /* two samples an axis */
    BZNA_FILTER_NEAREST   = 1,        /* the nearest sample */
    /* a = -0.5, as in PIL; samples outside the picture have no weight */
    BZNA_FILTER_CUBIC     = 2,
    BZNA_FILTER_AREA      = 3,        /* the mean of the covered pixels; LINEAR if it enlarges */
    BZNA_FILTER_LANCZOS4  = 4,        /* as in OpenCV; the border is repeated */
    BZNA_FILTER_LANCZOS3  = 5,        /* as in PIL; samples outside the picture have no weight */
    BZNA_FILTER_CUBIC_075 = 6         /* a = -0.75, as in OpenCV; the border is repeated */
};

/* How filters act when a warp shrinks the picture. */
enum {
    BZNA_ANTIALIAS_AUTO = 0,          /* all but NEAREST widen as much, as in PIL, torchvision */
    BZNA_ANTIALIAS_OFF  = 1,          /* they do not, as in OpenCV; AREA with OFF is refused */
    /* as AUTO, but RGB and gray pictures are rounded to whole samples after they were filtered
     * along rows, and again after columns, as in PIL. Warps that are not axis-aligned, and pictures
     * of Y'CbCr, such as JPEG, are as with AUTO */
    BZNA_ANTIALIAS_ROUND = 2
};

/* Types of elements. Numbers are rounded to nearest, ties to even. Outputs have one of the first
 * four. */
enum {
    BZNA_DTYPE_FLOAT32  = 0,
    BZNA_DTYPE_FLOAT16  = 1,          /* IEEE binary16 */
    BZNA_DTYPE_BFLOAT16 = 2,
    BZNA_DTYPE_UINT8    = 3,          /* numbers below 0 give 0, numbers above 255 give 255 */
    BZNA_DTYPE_INT32    = 16,         /* the tensor "status" */
    BZNA_DTYPE_INT64    = 17,         /* the tensor "target", and fields that are integers */
    BZNA_DTYPE_UINT64   = 18          /* the tensor "index" */
};

/* The order of channels in memory. */
enum {
    BZNA_LAYOUT_NCHW = 0,             /* planes: all of one channel, then all of the next */
    BZNA_LAYOUT_NHWC = 1              /* channels interleaved, "channels last" */
};

/* The channels of an output, in order. */
enum {
    BZNA_CHANNELS_RGB  = 0,
    BZNA_CHANNELS_BGR  = 1,
    BZNA_CHANNELS_GRAY = 2            /* one: 0.299 R + 0.587 G + 0.114 B */
};

/* How Y'CbCr becomes R'G'B'. They have no effect on pictures that are coded as RGB. */
enum {
    BZNA_MATRIX_AUTO        = 0,      /* as the picture says: chapter 7 */
    BZNA_MATRIX_BT601_FULL  = 1,      /* full range */
    BZNA_MATRIX_BT601       = 2,      /* limited range */
    BZNA_MATRIX_BT709       = 3,      /* limited range */
    BZNA_MATRIX_BT2020      = 4,      /* limited range */
    BZNA_MATRIX_BT709_FULL  = 5,      /* full range */
    BZNA_MATRIX_BT2020_FULL = 6       /* full range */
};

/* Units of the out-of-bounds color. */
enum {
    BZNA_FILL_RGB    = 0,             /* R, G, B in 0..255, before bias and scale */
    BZNA_FILL_OUTPUT = 1              /* the channels delivered, in their units */
};

/* The operations of policies. Pixels are R'G'B' of the output, before it is normalized. Factors,
 * thresholds and roundings are those of torchvision's functions for tensors of uint8. The comment
 * of each describes its magnitude; operations whose comment does not mention one ignore it. */
enum {
    BZNA_OP_IDENTITY       = 0,       /* nothing */
    /* Joining the warp. They move the output's picture, as the crop has made it. */
    BZNA_OP_SHEAR_X        = 1,       /* the tangent of the angle, about the top left corner */
    BZNA_OP_SHEAR_Y        = 2,       /* the same, for columns */
    /* to the right by this share of the output's width, rounded to whole pixels towards 0 */
    BZNA_OP_TRANSLATE_X    = 3,
    BZNA_OP_TRANSLATE_Y    = 4,       /* downwards, by a share of its height, as X */
    BZNA_OP_TRANSLATE_X_PX = 5,       /* to the right by pixels, rounded towards 0 to whole ones */
    BZNA_OP_TRANSLATE_Y_PX = 6,       /* downwards by pixels, as X_PX */
    BZNA_OP_ROTATE         = 7,       /* degrees, counterclockwise, about the middle */
    /* Changing each pixel alone. */
    BZNA_OP_BRIGHTNESS     = 16,      /* the factor less 1: 0 changes nothing, -1 gives black */
    BZNA_OP_CONTRAST       = 17,      /* the factor less 1, about the mean gray of all pixels */
    BZNA_OP_SATURATION     = 18,      /* the factor less 1, which is torchvision's "Color" */
    BZNA_OP_HUE            = 19,      /* turns: -0.5..0.5 */
    BZNA_OP_GAMMA          = 20,      /* the exponent of pixels in 0..1: above 0, below 65536 */
    BZNA_OP_POSTERIZE      = 21,      /* bits that are kept, rounded to a whole number: 0..8 */
    BZNA_OP_SOLARIZE       = 22,      /* pixels at or above it are inverted: 0..256 */
    BZNA_OP_SOLARIZE_ADD   = 23,      /* added to pixels below 128: -255..255 */
    BZNA_OP_INVERT         = 24,      /* 255 - x */
    BZNA_OP_GRAYSCALE      = 25,      /* three equal channels */
    /* the standard deviation of AlexNet's lighting noise: the three principal components of
     * ImageNet's colors are added, each times its eigenvalue and a normal number of this
     * deviation. AlexNet has 0.1 */
    BZNA_OP_LIGHTING       = 26,
    BZNA_OP_SHUFFLE        = 27,      /* channels in one of their six orders */
    /* Changing pixels by the whole picture, or by neighbors. */
    BZNA_OP_AUTOCONTRAST   = 28,      /* each channel is stretched to 0..255 */
    BZNA_OP_EQUALIZE       = 29,      /* each channel's histogram is made even */
    /* the factor less 1: above 0 sharpens, and -1 is a blur of 3x3. The border stays as it is */
    BZNA_OP_SHARPNESS      = 30,
    BZNA_OP_BLUR           = 31,      /* Gaussian blur: sigma in pixels, above 0, at most 1000 */
    /* Covering a part of the output, after all others. */
    /* the rectangle's share of the output's area, above 0, at most 1: torchvision's
     * RandomErasing. Up to 10 times area and ratio are drawn, until the rectangle is smaller than
     * the output; else nothing is erased */
    BZNA_OP_ERASE          = 48,
    /* the square's edge as a share of the output's shorter one, 0..1. Its middle is any pixel of
     * the output, so that part of the square may be outside */
    BZNA_OP_CUTOUT         = 49,
    /* the period of the squares as a share of the output's shorter edge, above 0, at most 1 */
    BZNA_OP_GRID_MASK      = 50
};

/* One operation of a policy. Zero is the default of every member. The struct has no struct_size: it
 * grows only into reserved words. */
typedef struct bzna_operation {
    uint32_t kind;                    /* BZNA_OP_... */
    uint32_t sign;                    /* 1: half of the time, the magnitude is negated */
    float    probability;             /* above 0, at most 1; 0 counts as 1 */
    /* from [0] to [1], which may be the smaller one: drawn as the policy's bins say */
    float    magnitude[2];
    /* BLUR: pixels along an edge of the kernel, an odd number of 1..63; default 23. If the output
     * is so small that a border cannot be reflected, the largest odd number with which it can is
     * used */
    uint32_t kernel_px;
    /* ERASE: height divided by width, lo..hi; default 0.3..3.3. GRID_MASK: [0] is the squares'
     * edge as a share of their period, default 0.5; [1] is 0 */
    float    ratio[2];
    float    value[3];                /* the color that covers pixels, in units of value_space */
    /* BZNA_FILL_... of value and noise. Value 0 in RGB is black, and in units of the output it is
     * the mean color, which torchvision erases with after it has normalized */
    uint32_t value_space;
    /* ERASE: the standard deviation of a normal number that is added to value, drawn anew for each
     * channel of each pixel. torchvision's value="random" is 1 in units of the output */
    float    noise;
    uint32_t reserved0;               /* must be 0 */
    uint64_t reserved[4];             /* must be 0 */
} bzna_operation;

/* Which of its operations a policy applies. */
enum {
    BZNA_POLICY_ALL     = 0,          /* all groups, in order */
    BZNA_POLICY_SHUFFLE = 1,          /* different groups, in random order */
    BZNA_POLICY_CHOOSE  = 2           /* each draw is any of all groups, as in RandAugment */
};

/* A list of operations, and how they are drawn. Zero is the default of every member but the first
 * two. The struct has no struct_size: it grows only into reserved words. */
typedef struct bzna_policy {
    const bzna_operation *operations; /* an array; required */
    uint32_t operation_count;         /* operations at operations, 1..256 */
    /* operations that are drawn together, in order, each with its own probability: those of one
     * group follow one another. Default 1; must divide operation_count. AutoAugment's sub-policies
     * are groups of 2 */
    uint32_t group_size;
    uint32_t apply;                   /* BZNA_POLICY_... */
    /* groups that are drawn. ALL: must be 0. SHUFFLE: at most all of them; default all. CHOOSE:
     * default 1 */
    uint32_t draws;
    /* 0: magnitudes are uniform between both ends. Else at least 2: a magnitude is one of this many
     * evenly spaced values, from magnitude[0], which is number 0, to magnitude[1] */
    uint32_t bins;
    /* with bins: the range of bins that are drawn, lo..hi, each with the same probability.
     * RandAugment of magnitude 9 has 31 bins and 9..9, TrivialAugmentWide 31 bins and 0..30 */
    uint32_t bin[2];
    float    probability;             /* of applying any; above 0, at most 1; 0 counts as 1 */
    uint64_t reserved[4];             /* must be 0 */
} bzna_policy;

/* The policies of an output. Zero is the default of every member. */
typedef struct bzna_loader_augment {
    const bzna_policy *policies;      /* an array; copied, with what it points to; NULL: none */
    uint32_t           policy_count;  /* policies at policies, at most 16 */
    /* 1: operations that join the warp bring in the input beyond the crop, as warp.rotate does; 0:
     * they bring in the out-of-bounds color, as torchvision does. The color is not mixed with the
     * border's pixels */
    uint32_t           beyond_crop;
    uint64_t           reserved[8];   /* must be 0 */
} bzna_loader_augment;

/* How many operations may be drawn for a view, all policies together. */
#define BZNA_OPERATIONS_MAX 8

/* An operation that was drawn. */
typedef struct bzna_drawn {
    uint32_t kind;                    /* BZNA_OP_... */
    /* as drawn, with its sign. For CUTOUT, GRID_MASK and ERASE, area has the result in pixels */
    float    magnitude;
    uint32_t kernel_px;               /* BLUR: as in bzna_operation; 0 counts as 23 */
    uint32_t value_space;             /* as in bzna_operation */
    /* pixels of the output. ERASE, CUTOUT: left, top, right and bottom edge. GRID_MASK: left and
     * top of any square, the period, and the edge of a square. Right or period 0: nothing */
    int32_t  area[4];
    /* ERASE, CUTOUT, GRID_MASK: as in bzna_operation. LIGHTING: the numbers added to R, G, B, in
     * 0..255. SHUFFLE: which channel becomes R, G, B: 0, 1 and 2 in any order */
    float    value[3];
    float    noise;                   /* as in bzna_operation */
    uint32_t key[2];                  /* of the noise's random numbers */
} bzna_drawn;

/* How one view of a sample is made. The steps have this order:
 *     1. The homography says which input pixel an output pixel shows.
 *     2. The picture's matrix makes R'G'B' in 0..255.
 *     3. color, hls, brightness, contrast, saturation, hue and grayscale change R'G'B'. The result
 *        of each but color is clamped to 0..255.
 *     4. If there are operations on pixels' values (BZNA_OP_BRIGHTNESS to BZNA_OP_BLUR), R'G'B' are
 *        rounded to 8 bits, and those operations are applied in order.
 *     5. Each channel delivered becomes y = (x - bias) * scale.
 *     6. The operations that cover pixels are applied in order.
 * Zero is the default of every member, and means a step that changes nothing. A loader writes the
 * identities out: a transform callback finds them as numbers that it can multiply and add to. It
 * may change every member but struct_size. */
typedef struct bzna_transform {
    uint32_t struct_size;             /* sizeof the struct; bzna_transform_init sets it */
    uint32_t filter;                  /* BZNA_FILTER_... */
    /* 3x3, row-major, output to input pixels: chapter 7. Nine zeros count as the identity */
    double   homography[9];
    float    bias[3];                 /* by channel, in the order delivered; [0] for GRAY */
    float    scale[3];                /* factors, in the same order; 0 counts as 1 */
    float    fill[3];                 /* the out-of-bounds color, in units of fill_space */
    uint32_t fill_space;              /* BZNA_FILL_... */
    uint32_t matrix;                  /* BZNA_MATRIX_... */
    uint32_t antialias;               /* BZNA_ANTIALIAS_... */
    /* how hls treats hues past the ends of H. 0: they wrap around; 1: they stop at the end, as in
     * MXNet */
    uint32_t clamp_hue;
    uint32_t grayscale;               /* 1: gray, as torchvision's RandomGrayscale makes it */
    uint32_t reserved0;               /* must be 0 */
    /* 3x4, row-major: [R G B]' becomes color [R G B 1]', with R'G'B' in 0..255. Twelve zeros count
     * as the identity */
    float    color[12];
    /* added to OpenCV's H (0..180), L and S (0..255): -180..180, -255..255, -255..255 */
    float    hls[3];
    float    brightness;              /* torchvision's factor, at least 0; 0 counts as 1 */
    /* torchvision's factor, at least 0, about the mean of the pixels that are inside the picture; 0
     * counts as 1 */
    float    contrast;
    float    saturation;              /* torchvision's factor, at least 0; 0 counts as 1 */
    float    hue;                     /* torchvision's, in turns: -0.5..0.5 */
    uint32_t operation_count;         /* at operations */
    uint32_t reserved1;               /* must be 0 */
    /* the operations that policies drew, in order. Operations that join the warp are in the
     * homography and in clip already: here they are information, and have no effect */
    bzna_drawn operations[BZNA_OPERATIONS_MAX];
    /* Outside of a rectangle, which moves with the output's picture, there is the out-of-bounds
     * color. An output pixel is inside if [u v]' = clip [x y 1]' has -0.5 <= u <= clip_size[0] -
     * 0.5, and the same for v and clip_size[1]. 2x3, row-major. Six zeros: there is no rectangle */
    double   clip[6];
    double   clip_size[2];            /* width and height of the rectangle */
} bzna_transform;

/* The sample, view and output that a transform or picture callback is asked about. */
typedef struct bzna_sample_info {
    uint32_t struct_size;             /* bytes that the library has filled in */
    uint32_t slot;                    /* of the batch, from 0 */
    uint64_t index;                   /* of the sample in the data set */
    uint64_t epoch;                   /* from 0 */
    int64_t  target;                  /* BZNA_TARGET_NONE: it has none */
    uint32_t width;                   /* pixels of the picture without padding, rotated */
    uint32_t height;                  /* its height */
    uint32_t out_width;               /* pixels of the output */
    uint32_t out_height;              /* its height */
    /* the position in the epoch's order if an order can repeat a sample (chapter 9), else 0 */
    uint64_t occurrence;
    uint32_t view;                    /* number of the view, from 0 */
    /* 0 is config.output, i + 1 is config.extra_outputs.ptr[i]; in a picture callback, the first
     * output that is made of the picture */
    uint32_t output;
} bzna_sample_info;

/* Changes how one view of a sample is made. Called on decoder threads, concurrently, once for each
 * view that has a warp of its own.
 *     user        pipeline.transform_user
 *     sample      about the sample and the view
 *     random      the view's own numbers, of BZNA_RANDOM_USER
 *     transform   the result of the config's warp and color; may be changed
 * Returns BZNA_OK, or a negative number, which becomes native_code. The sample fails with
 * E_CALLBACK, and by default the run with it (errors.on_callback_error),
 *     - if the result is negative,
 *     - if the homography is singular, or
 *     - if a number is not finite.
 * It must not call functions that take a context, data set or loader. */
typedef bzna_status (*bzna_transform_fn)(void *user, const bzna_sample_info *sample,
    bzna_random *random, bzna_transform *transform);

/* Draws into a decoded picture before its views are warped. Called on decoder threads,
 * concurrently, once for each decoded picture.
 *     user      pipeline.picture_user
 *     sample    about the sample and the first output that is made of the picture
 *     random    numbers of BZNA_RANDOM_PICTURE for this sample
 *     picture   a copy of the coded frame; its crop_x, crop_y and orientation say which part of it
 *               is seen
 *     planes    the planes of picture, to draw into: planes[i] is picture->plane[i] and has its
 *               pitch. They are the loader's, and not to be used after the callback has returned
 * Returns BZNA_OK, or a negative number, which becomes native_code and fails the sample as above.
 * It must not call functions that take a context, data set or loader. */
typedef bzna_status (*bzna_picture_fn)(void *user, const bzna_sample_info *sample,
    bzna_random *random, const bzna_picture *picture, void *const planes[3]);

/* How a view of the first output shows its picture. Edges of pixels are counted from the corner:
 * the pixel (0, 0) is from 0 to 1 in both directions, and its center is 0 to the homographies. */
typedef struct bzna_geometry {
    uint32_t struct_size;             /* bytes that the library has filled in */
    uint32_t view;                    /* number of the view, from 0 */
    uint32_t width;                   /* pixels of the picture without padding, rotated */
    uint32_t height;                  /* its height */
    uint32_t out_width;               /* pixels of the output */
    uint32_t out_height;              /* its height */
    /* 1: from left to right in the middle of the output, the picture is shown from right to left */
    uint32_t flip_h;
    uint32_t flip_v;                  /* the same, from bottom to top */
    double   homography[9];           /* output to input pixels, as drawn: chapter 7 */
    double   inverse[9];              /* input to output pixels */
    /* the part that the output shows: left, top, right and bottom edge of the upright rectangle
     * around it, in pixels of the picture. It may reach beyond the picture */
    double   crop[4];
} bzna_geometry;

/* Finds where a box of the picture is in the output. Any thread.
 *     geometry   as fields.make is given it
 *     area       the box: left, top, right and bottom edge, in pixels of the picture
 *     out        the upright rectangle around it in pixels of the output, clipped to the output;
 *                may be area
 * Returns 1, or 0 if nothing of the box is in the output: then out is all 0. */
BZNA_API uint32_t bzna_geometry_box(const bzna_geometry *geometry, const double area[4],
    double out[4]);

/* A value of a field. */
typedef struct bzna_bytes {
    /* as bzna_batch_bytes gives it, with a NUL behind it; NULL: the sample has none */
    const void *data;
    uint64_t    size;                 /* bytes at data, without that NUL */
} bzna_bytes;

/* The input of fields.make for one sample. All of it is the loader's, and must not be used after
 * the callback has returned. */
typedef struct bzna_make_input {
    uint32_t                struct_size;     /* bytes that the library has filled in */
    uint32_t                view_count;      /* at geometry; 0 in batches without pictures */
    /* about the sample and its first view; width and height are 0 in batches without pictures */
    const bzna_sample_info *sample;
    const bzna_geometry    *geometry;        /* one for each view of the first output; or NULL */
    const bzna_bytes       *values;          /* one for each name in fields.bytes, in that order */
    /* the sample's part of each tensor of fields.made, in that order, to be filled in */
    void *const            *out;
} bzna_make_input;

/* Makes a sample's part of tensors from its fields. Called on decoder threads, concurrently, once
 * for each sample before its pictures are decoded, or twice if NVDEC hands the sample on to
 * software.
 *     user    fields.make_user
 *     input   the fields' values, the geometry drawn for the sample, and the memory to be filled
 *             in. It is as for a sample without a value, or as an earlier call for this sample left
 *             it
 *     err     a message and a native code may be left in it
 * Returns BZNA_OK, or a negative number, with which the sample fails:
 *     BZNA_E_CALLBACK                     the program is at fault: errors.on_callback_error
 *     E_FORMAT, E_MISMATCH, E_LIMIT, ...  the data are damaged
 *     E_MEMORY                            the sample is made once more; then the run ends
 *     any other                           as E_FORMAT; the number becomes native_code
 * It must not call functions that take a context, data set or loader. */
typedef bzna_status (*bzna_make_fn)(void *user, const bzna_make_input *input, bzna_error *err);

/* A tensor [N, shape...] of batches, whose parts fields.make fills in. Zero is the default of every
 * member but name. */
typedef struct bzna_made {
    const char *name;                 /* at most 31 bytes of UTF-8; copied */
    uint32_t    dtype;                /* BZNA_DTYPE_FLOAT32, _UINT8, _INT32 or _INT64 */
    uint32_t    dimensions;           /* numbers at shape, at most 4 */
    int64_t     shape[4];             /* of a sample, the outermost one first; each at least 1 */
    /* the numbers of a sample that failed in make, or before it was called. 0: floats are NaN,
     * integers -1, and uint8 0; 1: all are 0 */
    uint32_t    zero;
    uint32_t    reserved0;            /* must be 0 */
    uint64_t    reserved[2];          /* must be 0 */
} bzna_made;

/* The output of bzna_picture_render. */
typedef struct bzna_output {
    uint32_t struct_size;             /* sizeof the struct */
    uint32_t width;                   /* pixels, 1..16384 */
    uint32_t height;                  /* pixels, 1..16384 */
    uint32_t dtype;                   /* BZNA_DTYPE_FLOAT32, _FLOAT16, _BFLOAT16 or _UINT8 */
    uint32_t layout;                  /* BZNA_LAYOUT_... */
    uint32_t channels;                /* BZNA_CHANNELS_... */
} bzna_output;

/* Clears transform, writes out the identities that zeros mean (homography, color, scale), and sets
 * its struct_size, in bytes: pass sizeof *transform. Any thread. */
BZNA_API void bzna_transform_init(bzna_transform *transform, size_t struct_size);

/* Warps one picture on the caller's thread. Its memory is malloc's. Any thread.
 *     picture     the picture; its planes are read
 *     transform   what happens to it
 *     output      size, type and order of the pixels that are written
 *     dst         receives channels * height * width elements; aligned to the size of one
 *     dst_bytes   bytes at dst in all
 * Statuses: E_ARGUMENT; E_BUFFER if dst_bytes are too few; E_UNSUPPORTED for another dtype, layout
 * or channels, or colors that cannot be converted. */
BZNA_API bzna_status bzna_picture_render(const bzna_picture *picture,
    const bzna_transform *transform, const bzna_output *output, void *dst, size_t dst_bytes,
    bzna_error *err);

/* Kinds of warps. */
enum {
    /* the default: the middle, scaled to the output, so that nothing of the output is empty:
     * torchvision's Resize and CenterCrop. A picture of the output's size is copied */
    BZNA_WARP_CENTER_RESIZED_CROP = 0,
    BZNA_WARP_RANDOM_RESIZED_CROP = 1,    /* a random crop, scaled to the output: training */
    /* centered, one output pixel for one input pixel, which is copied: torchvision's CenterCrop.
     * If an odd number of rows or columns is cut off, the crop begins at half of it, rounded to an
     * even number; an odd margin has its larger part at the right and the bottom */
    BZNA_WARP_NONE                = 2,
    BZNA_WARP_SIMILARITY          = 3,    /* the original's; the kinds above are cases of it */
    /* Advanced, used to continue runs of MXNet: the affine augmentation of its ImageRecordIter. A
     * picture of w x h, with its padding, that is smaller than the output of W x H is enlarged
     * before it is cropped: if h < H, w becomes floor(w H / h), and h becomes H; then, if w < W, h
     * becomes floor(h W / w), and w becomes W. With mxnet.crop_px it is not enlarged, and a crop
     * larger than the picture is centered */
    BZNA_WARP_MXNET               = 4
};

/* How crops are drawn. */
enum {
    BZNA_CROPS_AUTO        = 0,       /* TORCHVISION for both resized crops, else BENZINA */
    BZNA_CROPS_BENZINA     = 1,       /* the original's: log-uniform area, parts of pixels */
    /* torchvision's. RandomResizedCrop: uniform area, whole pixels. Centered crops: its Resize and
     * CenterCrop */
    BZNA_CROPS_TORCHVISION = 2
};

/* Advanced, used to continue runs of MXNet: parameters of its ImageRecordIter that nothing else
 * has. The members before hls are only for the kind MXNET, and E_ARGUMENT with others. hls to
 * clamp_hue change the colors of all views that are warped by this bzna_warp, whatever its kind,
 * after the jitter. Zero is "none" for every member. */
typedef struct bzna_mxnet {
    double   shear_ratio;             /* max_shear_ratio */
    /* min_img_size and max_img_size of the scaled picture, in pixels; 0: any */
    uint32_t canvas_px[2];
    /* min_crop_size and max_crop_size of a square crop, which is resized to the output, in pixels;
     * 0: the output's size */
    uint32_t crop_px[2];
    uint32_t pad_px;                  /* pad, pixels added on each side */
    uint32_t short_edge_px;           /* resize of the short edge, in pixels, before all */
    uint32_t has_crop_start;          /* 1: crop_x_start and crop_y_start count */
    uint32_t crop_x_start;            /* where the crop begins, in pixels */
    uint32_t crop_y_start;            /* how far from the top, in pixels */
    float    hls[3];                  /* random_h (at most 180), random_l, random_s (at most 255) */
    /* max_random_contrast, below 1, and max_random_illumination. With c = 1 + U(-,+) of the one and
     * i = U(-,+) of the other, y = ((x - mean) * c + i) * scale */
    float    contrast;
    float    illumination;            /* see contrast */
    uint32_t clamp_hue;               /* bzna_transform.clamp_hue */
    uint32_t reserved0;               /* must be 0 */
    uint64_t reserved[4];             /* must be 0 */
} bzna_mxnet;

/* How warps are drawn. Zero is the default of every member. A setting that has no effect on the
 * kind is E_ARGUMENT. The struct has no struct_size: it grows only into reserved words. */
typedef struct bzna_warp {
    uint32_t kind;                    /* BZNA_WARP_... */
    uint32_t crops;                   /* BZNA_CROPS_...; must be 0 for NONE and MXNET */
    /* by kind:
     *     RANDOM_RESIZED_CROP   the crop's share of the picture's area, lo..hi; default 0.08..1
     *     CENTER_RESIZED_CROP   [0] is the output's edge as a fraction of the short edge of the
     *                           resized picture; default 1; 224.0 / 256 for "resize to 256, crop
     *                           224". [1] is 0
     *     SIMILARITY            the crop's share of the picture's area, lo..hi; default 1..1
     *     MXNET                 min_random_scale..max_random_scale; default 1..1 */
    double   scale[2];
    /* the crop's width divided by its height, lo..hi. Default 3/4..4/3 for RANDOM_RESIZED_CROP, the
     * input's own for SIMILARITY. MXNET: 1 - max_aspect_ratio..1 + max_aspect_ratio, default
     * 1..1 */
    double   ratio[2];
    /* SIMILARITY, MXNET: rotation, counterclockwise, lo..hi. MXNET draws whole degrees:
     * -max_rotate_angle..max_rotate_angle, or for its rotate a range of no width */
    double   degrees[2];
    /* SIMILARITY: shift in x and y, at most plus or minus these fractions of the output's size */
    double   translate[2];
    double   flip_h;                  /* probability of mirroring left to right; every kind */
    double   flip_v;                  /* probability of mirroring top to bottom; every kind */
    /* Advanced: torchvision's RandomAffine and then RandomPerspective, applied to the output of
     * every kind. They bring in parts of the input beyond the crop. rotate: degrees, clockwise,
     * lo..hi */
    double   rotate[2];
    double   shear[4];                /* Advanced: degrees below 90: x lo..hi, y lo..hi */
    double   perspective;             /* Advanced: distortion_scale, 0..1; 0: none */
    double   perspective_p;           /* Advanced: probability of perspective; default 0.5 */
    /* SIMILARITY: 1 scales the crop to the output; implied by scale and ratio */
    uint32_t resize;
    uint32_t keep_ratio;              /* SIMILARITY: 1: resize scales both axes alike */
    /* SIMILARITY: 1 crops anywhere, 0 in the middle. MXNET: rand_crop */
    uint32_t random_crop;
    uint32_t reserved0;               /* must be 0 */
    bzna_mxnet mxnet;                 /* Advanced: parameters of MXNet's alone */
    uint64_t reserved[8];             /* must be 0 */
} bzna_warp;

/* Draws one warp, as a loader does for a view with numbers of BZNA_RANDOM_WARP. Any thread.
 *     random       the stream; one thread at a time may use it
 *     warp         how warps are drawn
 *     in_width     pixels of the picture without padding, rotated; at least 1
 *     in_height    its height; at least 1
 *     out_width    pixels of the output; at least 1
 *     out_height   its height; at least 1
 *     out          receives the homography, row-major, output to input pixels
 * Numbers are drawn in this order; a range of no width draws none:
 *     1. the crop's size: BENZINA draws the area, then the ratio up to 10 times; TORCHVISION
 *        draws area and ratio up to 10 times
 *     2. the crop's center x, y, if that found a crop
 *     3. degrees, translate x, y, flip_h, flip_v
 *     4. instead of 1 to 3, for MXNET: shear, degrees, scale, ratio, crop size, crop x, y, flips
 *     5. rotate, shear x, shear y, whether there is perspective, and x, y of each of its corners,
 *        clockwise from the top left one
 * Returns E_ARGUMENT for a size of 0, or a setting that is out of its range. */
BZNA_API bzna_status bzna_warp_draw(bzna_random *random, const bzna_warp *warp, uint32_t in_width,
    uint32_t in_height, uint32_t out_width, uint32_t out_height, double out[9], bzna_error *err);

/* How colors are drawn. The out-of-bounds color is not changed. Zero is "none" for every member.
 * The struct has no struct_size: it grows only into reserved words. */
typedef struct bzna_jitter {
    float    brightness[2];           /* torchvision's ColorJitter: factors, lo..hi; 0, 0: none */
    float    contrast[2];             /* factors, as for brightness */
    float    saturation[2];           /* factors, as for brightness */
    float    hue[2];                  /* shifts in turns, -0.5..0.5; 0, 0: none */
    float    grayscale;               /* the probability of gray, as in RandomGrayscale, 0..1 */
    uint32_t reserved0;               /* must be 0 */
    uint64_t reserved[11];            /* must be 0 */
} bzna_jitter;

/* Draws one jitter, as a loader does for a view with numbers of BZNA_RANDOM_COLOR. Any thread.
 *     random      the stream; one thread at a time may use it. Numbers are drawn in the order of
 *                 jitter's members, then of mxnet's, two for each of hls; a range of no width and a
 *                 probability of 0 or 1 draw none
 *     jitter      how colors are drawn
 *     mxnet       MXNet's colors after that: hls to clamp_hue. NULL: none
 *     transform   the factors drawn replace its own; mxnet's contrast and illumination change its
 *                 bias and scale
 * Returns E_ARGUMENT for a setting that is out of its range. */
BZNA_API bzna_status bzna_jitter_draw(bzna_random *random, const bzna_jitter *jitter,
    const bzna_mxnet *mxnet, bzna_transform *transform, bzna_error *err);

#ifndef BENZINA_NO_AUGMENT
/* Draws operations, as a loader does for a view with numbers of BZNA_RANDOM_AUGMENT. Any thread.
 *     random       the stream; one thread at a time may use it
 *     augment      the policies
 *     out_width    pixels of the output, 1..16384
 *     out_height   its height, 1..16384
 *     transform    gets the operations after those that it has; operations that join the warp also
 *                  change its homography and clip
 * Numbers are drawn in this order; a range of no width and a probability of 0 or 1 draw none:
 *     1. for each policy: whether it is applied, and then for each of its draws the group. SHUFFLE
 *        draws one of the groups that are left
 *     2. for each operation of the group: whether it is applied, its magnitude or bin, its sign
 *     3. further numbers that it needs. ERASE: up to 10 times area and ratio, then top and left,
 *        and two words of key if it has noise. CUTOUT: x and y of its middle. GRID_MASK: left and
 *        top. LIGHTING: three normal numbers, each the sum of twelve uniform ones of 0..1, less 6.
 *        SHUFFLE: the order's number
 * Statuses: E_ARGUMENT for a setting that is out of its range, or for more than
 * BZNA_OPERATIONS_MAX operations. */
BZNA_API bzna_status bzna_augment_draw(bzna_random *random, const bzna_loader_augment *augment,
    uint32_t out_width, uint32_t out_height, bzna_transform *transform, bzna_error *err);
#endif

/* ---- Loaders ------------------------------------------------------------------------------ */
/* The order of an epoch's samples. */
enum {
    BZNA_ORDER_SEQUENTIAL = 0,        /* as in the data set, or in order.indices */
    BZNA_ORDER_SHUFFLE    = 1,        /* another permutation each epoch, by order.seed */
    /* the caller gives each epoch's samples, by bzna_loader_set_batches: chapter 9. order.indices
     * must be NULL */
    BZNA_ORDER_GIVEN      = 2
};

/* How an epoch ends if its last batch is not full. Every rank gets the same number of batches. */
enum {
    /* it has fewer samples; for some ranks it may have none: count is 0 */
    BZNA_LAST_PARTIAL = 0,
    /* it is not delivered; if no other batch is left then, opening fails */
    BZNA_LAST_DROP    = 1,
    /* it is filled from the start of the epoch's order; bzna_batch_info.count says how many of its
     * samples are real. What ends a run does so in the others, too. With sizes of
     * bzna_loader_set_batches, each short batch is filled with the samples that follow it in the
     * list, then from the start */
    BZNA_LAST_PAD     = 2,
    /* it is filled with order.pad_value and order.pad_target; bzna_batch_info.count says how many
     * of its samples are real. The slots after them have the index UINT64_MAX and no fields */
    BZNA_LAST_FILL    = 3
};

/* Who decodes. */
enum {
    BZNA_DECODER_AUTO     = 0,        /* NVDEC if the context has it; software for the rest */
    BZNA_DECODER_SOFTWARE = 1,        /* software decodes everything */
    BZNA_DECODER_NVDEC    = 2         /* NVDEC, or opening fails; software for the rest */
};

/* How a loader treats a sample that cannot be read or decoded. E_MEMORY, E_THREAD and E_DEVICE are
 * no faults of a sample, and end the run with every setting: chapter 6. */
enum {
    BZNA_ON_ERROR_FILL    = 0,        /* its slot holds the out-of-bounds color */
    /* its slot gets the sample at the position world_size further on in the epoch's order (with
     * sizes of bzna_loader_set_batches, at the next position), and after the end from its start,
     * and so on up to 64 times. That is the same sample in every run, and it is delivered at its
     * own position as well */
    BZNA_ON_ERROR_REPLACE = 1,
    BZNA_ON_ERROR_STOP    = 2         /* bzna_loader_next returns its error instead of its batch */
};

/* How a loader treats a sample that fails with E_CALLBACK, because transform, picture or a source's
 * read_at failed. A sample that a provider fails costs its slot, whatever this setting is. */
enum {
    /* bzna_loader_next returns its error instead of its batch, whatever errors.on_error is */
    BZNA_ON_CALLBACK_ERROR_STOP   = 0,
    /* it counts as a sample that cannot be read or decoded: errors.on_error */
    BZNA_ON_CALLBACK_ERROR_SAMPLE = 1
};

#define BZNA_WAIT_FOREVER   (-1LL)           /* a timeout without an end */
#define BZNA_EPOCHS_ENDLESS 0xFFFFFFFFFFFFFFFF    /* order.epochs of a run without an end */

/* A piece of the caller's memory. */
typedef struct bzna_buffer {
    void    *data;                    /* its address, on the device for outputs that are there */
    uint64_t bytes;                   /* its size */
} bzna_buffer;

/* How pixels are filtered. */
typedef struct bzna_loader_filter {
    uint32_t kind;                    /* BZNA_FILTER_... */
    uint32_t antialias;               /* BZNA_ANTIALIAS_... */
    uint64_t reserved[8];             /* must be 0 */
} bzna_loader_filter;

/* How numbers are made of colors, in the order of the output's channels. Give mean and std, or bias
 * and scale, not both. */
typedef struct bzna_loader_color {
    float       mean[3];              /* y = (x - mean) / std, for x in 0..255 */
    float       std[3];               /* 0 counts as 1 */
    float       bias[3];              /* y = (x - bias) * scale, for x in 0..255 */
    float       scale[3];             /* 0 counts as 1 */
    float       fill[3];              /* the out-of-bounds color; default black */
    uint32_t    fill_space;           /* BZNA_FILL_... of fill */
    uint32_t    matrix;               /* Advanced, used if files say it wrong: BZNA_MATRIX_... */
    uint32_t    reserved0;            /* must be 0 */
    /* Advanced, used to continue runs of MXNet or Caffe: a mean for each pixel, in place of mean or
     * bias. float32 [channels, height, width] of the output; copied. An output of another size or
     * other channels needs a color of its own then */
    const void *mean_image;
    uint64_t    mean_image_bytes;     /* bytes at mean_image */
    /* random colors, by numbers of BZNA_RANDOM_COLOR that are forked with the view. In an output
     * without a warp of its own, that is the view of the first output */
    bzna_jitter jitter;
    uint64_t    reserved[8];          /* must be 0 */
} bzna_loader_color;

/* An output of a loader: config.output is the first one, the tensor "image", and the elements of
 * config.extra_outputs are further ones, made of the same samples. Zero is the default of every
 * member. The struct has no struct_size: it grows only into reserved words.
 *
 * Further outputs serve for masks of pictures, and for views of other sizes. They are parts of the
 * batches of the first one, so batch_size, slices, device, stream and buffers must be 0 in them. In
 * the first output, name, field, warp, filter, color and augment must be NULL: its field is
 * config.fields.image, and the other four are groups of the config. */
typedef struct bzna_loader_output {
    /* samples of a batch, 1..65536; required in the first output, and 0 in further ones */
    uint32_t                  batch_size;
    /* pixels, 1..16384. The first output's is required; 0 in a further one: the first one's.
     * Width and height 0 with fields.tensors, bytes or made mean batches without pictures, on the
     * host: without fields.image, fields.geometry, several views, buffers and further outputs */
    uint32_t                  width;
    uint32_t                  height;        /* its height */
    uint32_t                  dtype;         /* BZNA_DTYPE_FLOAT32, _FLOAT16, _BFLOAT16 or _UINT8 */
    uint32_t                  layout;        /* BZNA_LAYOUT_... */
    uint32_t                  channels;      /* BZNA_CHANNELS_... */
    /* Advanced, used in contrastive learning: views of each sample, at most 64 in all outputs.
     * Default 1; in an output without a warp of its own, as many as the first output has, and no
     * other number is allowed. View n has the random numbers that are forked with n */
    uint32_t                  views;
    /* Advanced, used by programs that drive several devices: equal parts that a batch is delivered
     * in, one for each consumer. Default 1; must divide batch_size, and be 1 with several views or
     * outputs */
    uint32_t                  slices;
    /* where batches are, whatever decodes. AUTO, CPU: in host memory. CUDA: on the context's
     * device; ordinal is 0 or that device's. With AUTO, a message at BZNA_LOG_INFO says if NVDEC
     * decodes, so that batches are copied from the device */
    bzna_device               device;
    /* Advanced, used by programs that have a stream: the consumer's CUstream, for batches on the
     * device; refused if device is AUTO. It is the caller's, and must live until the loader is
     * closed and the last batch on it has been released. NULL: the loader makes one, a non-blocking
     * stream, which the default stream does not wait for (chapter 11) */
    void                     *stream;
    /* Advanced, used by programs that own their staging memory: an array of batches_in_flight *
     * slices buffers, which batches use instead of the library's memory. The library copies the
     * array, and borrows the buffers.
     *     - buffers[batch * slices + slice] has room for batch_size / slices samples: all outputs
     *       in order, each from a multiple of 256 bytes on.
     *     - It is aligned to 4 bytes, and none overlaps another.
     *     - It stays valid until the loader is closed and its batches are released.
     *     - Its addresses are the device's if device is CUDA */
    const bzna_buffer        *buffers;
    uint32_t                  buffer_count;  /* buffers at buffers */
    /* BZNA_PALETTE_INDEX: pictures with a palette come as its indices, whatever the data set's
     * config says. All outputs of one field must say the same. Default: the data set's setting */
    uint32_t                  palette;
    /* Further outputs: the name of the tensor, 1..31 bytes; required; copied */
    const char               *name;
    /* Further outputs: the image field that it is made of; copied. A field is decoded once. NULL:
     * the first output's */
    const char               *field;
    /* Further outputs: how warps are drawn; copied.
     *     NULL         view v has the warp, fill and colors of view v of the first output, as the
     *                  transform callback left them, which is not called for it again. The warp is
     *                  scaled from the sizes of the first output and its picture to those of this
     *                  one, so that edges meet edges
     *     not NULL     warps are drawn by it, and the transform callback is called. The random
     *                  numbers are forked with view numbers that continue those of earlier outputs
     *                  that have warps of their own */
    const bzna_warp          *warp;
    /* Further outputs: how pixels are filtered; copied. NULL: as in the first output */
    const bzna_loader_filter *filter;
    /* Further outputs: how numbers are made of colors; copied. NULL: as in the first output */
    const bzna_loader_color  *color;
    /* Further outputs: their policies; copied.
     *     NULL         the policies of the first output: drawn anew with a warp of its own; else
     *                  the operations that were drawn for the first output's view. An output
     *                  without a warp, but with colors of its own, such as a mask, has only the
     *                  operations that join the warp
     *     not NULL     these, by random numbers that are forked as those of colors. Without a warp
     *                  of its own, they must not join the warp */
    const bzna_loader_augment *augment;
    uint64_t                  reserved[7];   /* must be 0 */
} bzna_loader_output;

/* The outputs after the first one. */
typedef struct bzna_loader_outputs {
    const bzna_loader_output *ptr;           /* an array; copied, with what it points to */
    uint64_t                  count;         /* outputs at ptr, at most 15 */
    uint64_t                  reserved[8];   /* must be 0 */
} bzna_loader_outputs;

/* The samples of an epoch. Arrays are copied. */
typedef struct bzna_loader_order {
    uint32_t        kind;             /* BZNA_ORDER_... */
    uint32_t        last_batch;       /* BZNA_LAST_... */
    uint64_t        seed;             /* of order, warps and colors */
    uint64_t        epochs;           /* to deliver, one after the other; default 1 */
    uint64_t        first_epoch;      /* the number of the first one: at most 2^64 - 2 */
    /* Advanced, used by programs with their own samplers: the samples of an epoch, by index. They
     * may repeat. NULL: all samples of the data set */
    const uint64_t *indices;
    uint64_t        index_count;      /* indices at indices */
    /* with BZNA_LAST_FILL: every number of the pictures that fill the last batch, as it is in the
     * tensor */
    double          pad_value;
    int64_t         pad_target;       /* with BZNA_LAST_FILL: their targets */
    uint64_t        reserved[6];      /* must be 0 */
} bzna_loader_order;

/* This process's share of each epoch, for distributed training: chapter 9. */
typedef struct bzna_loader_shard {
    uint32_t rank;                    /* of this process, 0 .. world_size - 1 */
    uint32_t world_size;              /* processes that share the epoch; default 1 */
    uint64_t reserved[8];             /* must be 0 */
} bzna_loader_shard;

/* The fields that batches are made of. Strings are copied. */
typedef struct bzna_loader_fields {
    /* which image of a sample: "image", "thumb", or the name of a track. A name that the first
     * sample does not have is refused. Default: the thumbnail, if a sample has one and all outputs
     * of it are at most 512 pixels wide and high; else the picture */
    const char *image;
    /* further tensors of each batch: at most 16 fields by name, with commas between them. Names are
     * UTF-8, and none is empty.
     *     integers   [N] int64; -1 if a sample has none
     *     vectors    [N, k] float32. k is how many numbers the first sample has, or the number
     *                after a colon: "cls,label:16". A shorter vector, or a sample that could not
     *                be read, leaves NaN in the rest of its row; a longer one fails its sample
     *                with E_MISMATCH
     * "label=cls" is the field "cls" as the tensor "label" */
    const char *tensors;
    /* at most 64 fields of any kind for bzna_batch_bytes, by name, with commas between them. This
     * is the only way to read a field that has the name of a tensor of every batch, such as
     * "index". "text=note" is the field "note" under the name "text". If several fields have one
     * name, as in "text=caption,text=note", the first that a sample has is used */
    const char *bytes;
    const bzna_made *made;            /* tensors that make fills in: an array of at most 32 */
    uint32_t    made_count;           /* tensors at made */
    /* 1: batches have the tensor "geometry", [N, 16] float32, or [N, views, 16] with several views
     * of the first output: the homography (9), width and height of the picture, the crop (4), and
     * flip_h + 2 * flip_v, as in bzna_geometry. NaN if a sample failed before they were drawn */
    uint32_t    geometry;
    bzna_make_fn make;                /* fills in the tensors at made */
    void       *make_user;            /* passed to make; the caller's */
    uint64_t    reserved[8];          /* must be 0 */
} bzna_loader_fields;

/* Advanced, used with slow or failing storage: how samples are read. */
typedef struct bzna_loader_read {
    /* threads that read, at most 256; default 1, or with NVDEC one for two sessions, 2 to 8. If
     * nothing is decoded, or all samples are in memory and no GPU is used, the default is none:
     * decoder threads read. Raise it if each read waits long, as on network storage */
    uint32_t threads;
    /* samples read before they are decoded, at most 65536. Default: 2 for each decoder thread, 4
     * for each session, and 2; if software decodes, more while they are small: up to 1 MiB for
     * each decoder thread, a quarter of memory_bytes, the slots of batches in flight, and 4096 */
    uint32_t ahead_samples;
    /* memory of all samples read ahead, in bytes; default 1 GiB. A sample that is larger fails with
     * E_LIMIT. Samples in the caller's memory need none */
    uint64_t memory_bytes;
    /* how often a sample's read that failed with E_IO is tried again, at most 1000; default 0.
     * Opening a data set is not tried again */
    uint32_t retries;
    uint32_t reserved0;               /* must be 0 */
    /* time before the first retry, in nanoseconds, doubled for each further one; default 10 ms.
     * A sample that waits for a retry blocks neither readers nor samples that need its memory */
    uint64_t backoff_ns;
    uint64_t reserved[8];             /* must be 0 */
} bzna_loader_read;

/* How pictures are decoded. */
typedef struct bzna_loader_decode {
    uint32_t decoder;                 /* BZNA_DECODER_... */
    /* threads that decode in software, or with NVDEC the pictures that it cannot decode; at most
     * 1024; default one for each processor. Set it if several processes share a machine */
    uint32_t threads;
    /* Advanced, used when a GPU waits for slow CPUs: with BZNA_DECODER_NVDEC, NVDEC decodes all
     * JPEG that are baseline, 4:2:0, and of a size that it supports, or opening fails. It is
     * fastest with pictures of one size. Pixels differ by up to 4 of 255. Default: software decodes
     * JPEG */
    uint32_t jpeg;
    /* Advanced, used with large photographs and small outputs: 1: a JPEG that all views shrink
     * 2-fold (4-, 8-fold), with antialias, is decoded at 1/2 (1/4, 1/8) of its size by
     * libjpeg-turbo. Pixels differ */
    uint32_t jpeg_shrink;
    /* Advanced, used with jpeg_shrink for pixels that differ less: by how much all views must still
     * shrink the decoded picture, 1 to 64. With 1.5, a JPEG is decoded at 1/2 of its size only if
     * all views shrink it 3-fold. Default 1 */
    float    jpeg_shrink_margin;
    /* Advanced, used when NVDEC limits a loader and processors idle: 1: decoder threads take
     * pictures of H.264, H.265 and AV1 from NVDEC while bzna_loader_next waits and more pictures
     * wait for NVDEC than it can begin. Batches are the same: chapter 11. Needs errors.on_error
     * BZNA_ON_ERROR_FILL */
    uint32_t hybrid;
    uint64_t reserved[7];             /* must be 0 */
} bzna_loader_decode;

/* How failures are treated. */
typedef struct bzna_loader_errors {
    uint32_t on_error;                /* BZNA_ON_ERROR_... */
    uint32_t on_callback_error;       /* BZNA_ON_CALLBACK_ERROR_... */
    uint64_t reserved[8];             /* must be 0 */
} bzna_loader_errors;

/* Batches in flight, threads, callbacks. */
typedef struct bzna_loader_pipeline {
    /* batches being filled, ready, on loan, or released and still read on the device; at most 64;
     * default 3 */
    uint32_t          batches_in_flight;
    /* Advanced, used to change augmentation during a run: 1: bzna_loader_restore accepts states of
     * runs that made other pixels, too */
    uint32_t          restore_any_pixels;
    /* Advanced, used on machines with several sockets: thread i runs on processor
     * cpus[i % cpu_count]: decoders, then readers, then with a GPU the thread that waits until
     * released batches may be written again. Copied. NULL: anywhere */
    const int32_t    *cpus;
    uint32_t          cpu_count;      /* processors at cpus */
    /* Advanced, used when threads may not be made, and to debug callbacks: 1: the loader starts no
     * thread. bzna_loader_next reads, decodes and warps on the thread that calls it, and callbacks
     * run there. Batches are the same. decode.threads, read.threads and cpus have no effect. NVDEC
     * is not used: chapter 4 */
    uint32_t          no_threads;
    /* Advanced, used by programs with their own augmentation: changes the transform that warp and
     * color gave a view. NULL: none */
    bzna_transform_fn transform;
    void             *transform_user; /* passed to transform; the caller's */
    /* Advanced, used for augmentation that no warp can do: is called with each decoded picture, to
     * change its pixels before they are warped. All pictures are decoded in software then. NULL:
     * none */
    bzna_picture_fn   picture;
    void             *picture_user;   /* passed to picture; the caller's */
    uint64_t          reserved[8];    /* must be 0 */
} bzna_loader_pipeline;

/* The configuration of a loader. Zero is the default of every member. Only output.batch_size, width
 * and height are required. Three whole configurations follow, in C. C++ before C++20 has no such
 * initialisers: clear the struct with {}, and set struct_size and the members.
 *
 * Training, on one of world_size processes, as in torchvision's reference:
 *
 *     bzna_loader_config training = {
 *         .struct_size = sizeof training,
 *         .output = { .batch_size = 256, .width = 224, .height = 224,
 *                     .dtype = BZNA_DTYPE_FLOAT16 },
 *         .order = { .kind = BZNA_ORDER_SHUFFLE, .last_batch = BZNA_LAST_DROP,
 *                    .seed = 7, .epochs = 90 },
 *         .shard = { .rank = rank, .world_size = world_size },
 *         .warp = { .kind = BZNA_WARP_RANDOM_RESIZED_CROP, .flip_h = 0.5 },
 *         .color = { .mean = { 123.675f, 116.28f, 103.53f },
 *                    .std = { 58.395f, 57.12f, 57.375f },
 *                    .jitter = { .brightness = { 0.6f, 1.4f }, .saturation = { 0.6f, 1.4f } } },
 *         .errors = { .on_error = BZNA_ON_ERROR_REPLACE },
 *     };
 *
 * Evaluation: each sample once, in the order of the data set, resized to 256 and cropped to 224:
 *
 *     bzna_loader_config evaluation = {
 *         .struct_size = sizeof evaluation,
 *         .output = { .batch_size = 256, .width = 224, .height = 224,
 *                     .dtype = BZNA_DTYPE_FLOAT16 },
 *         .shard = { .rank = rank, .world_size = world_size },
 *         .warp = { .kind = BZNA_WARP_CENTER_RESIZED_CROP, .scale = { 224.0 / 256 } },
 *         .color = { .mean = { 123.675f, 116.28f, 103.53f },
 *                    .std = { 58.395f, 57.12f, 57.375f } },
 *         .errors = { .on_error = BZNA_ON_ERROR_STOP },
 *     };
 *
 * Inference: bytes, pixel by pixel, with the name of each sample. Its warp is the default: each
 * picture is scaled until it just covers the output, and centered:
 *
 *     bzna_loader_config inference = {
 *         .struct_size = sizeof inference,
 *         .output = { .batch_size = 32, .width = 384, .height = 384,
 *                     .dtype = BZNA_DTYPE_UINT8, .layout = BZNA_LAYOUT_NHWC },
 *         .filter = { .kind = BZNA_FILTER_CUBIC },
 *         .fields = { .bytes = "name" },
 *     };
 */
typedef struct bzna_loader_config {
    uint32_t             struct_size; /* sizeof the struct; bzna_loader_config_init sets it */
    uint32_t             reserved0;   /* must be 0 */
    bzna_loader_output   output;      /* the first output: "image" */
    bzna_loader_outputs  extra_outputs;      /* Advanced: the outputs after it */
    bzna_loader_order    order;       /* the samples of an epoch */
    bzna_loader_shard    shard;       /* this process's share of them */
    bzna_warp            warp;        /* which part of a picture an output shows */
    bzna_loader_filter   filter;      /* how pixels are filtered */
    bzna_loader_color    color;       /* how numbers are made of colors */
    bzna_loader_fields   fields;      /* the fields that batches are made of */
    bzna_loader_read     read;        /* Advanced: how samples are read */
    bzna_loader_decode   decode;      /* who decodes */
    bzna_loader_errors   errors;      /* how failures are treated */
    bzna_loader_pipeline pipeline;    /* batches in flight, threads, callbacks */
    bzna_loader_augment  augment;     /* random operations: RandAugment, blur, erasing, ... */
} bzna_loader_config;

/* A tensor of a batch, or of the batches that a loader yields. Elements are densely packed, the
 * last dimension first in memory. */
typedef struct bzna_tensor {
    uint32_t    struct_size;          /* set by the call: how many bytes were filled */
    uint32_t    dtype;                /* BZNA_DTYPE_... */
    bzna_device device;               /* CPU or CUDA: where data points to */
    uint32_t    dimensions;           /* numbers at shape */
    uint32_t    reserved0;            /* 0 */
    int64_t     shape[6];             /* elements along each dimension, the outermost one first */
    /* the loader's; valid until the batch is released. A device address if device is CUDA: void *
     * as in DLPack, so that host code reads host tensors without a cast. NULL if it describes a
     * loader's batches */
    void       *data;
    uint64_t    bytes;                /* bytes at data */
    char        name[BZNA_NAME_MAX];  /* of the tensor, such as "image" */
    uint64_t    reserved[4];          /* 0 */
} bzna_tensor;

/* One batch, as it is in memory until it is released. Arrays have an element for each slot, and are
 * on the host. */
typedef struct bzna_batch_info {
    uint32_t           struct_size;   /* set by the call: how many bytes were filled */
    uint32_t           count;         /* real samples, which are in the first slots */
    uint32_t           failed;        /* real samples that have a status below 0 */
    /* real samples that are another sample than planned (errors.on_error); indices says which */
    uint32_t           replaced;
    /* the first output.
     *     NCHW               {batch, channels, height, width}
     *     NHWC               {batch, height, width, channels}
     *     several views      {views, batch, ...}: the shape above, once for each view
     *     several slices     data is the first slice's: slices has all of them
     *     without pictures   bytes is 0, there is no name, and data means nothing; shape[0] is what
     *                        it is with pictures */
    bzna_tensor        image;
    uint32_t           layout;        /* BZNA_LAYOUT_... of image */
    uint32_t           last_of_epoch; /* 1: no batch of this epoch comes after it */
    uint32_t           operation_views;      /* of all outputs together; 0 without policies */
    /* how many of the loader's pipeline.batches_in_flight are on loan now, this one included. A
     * released batch stays on loan as long as DLPack tensors of it exist. 0 after fork */
    uint32_t           on_loan;
    uint64_t           epoch;         /* from order.first_epoch on */
    uint64_t           batch;         /* number in the epoch, from 0, or from a restored position */
    uint64_t           position;      /* of this rank's first sample in the epoch's global order */
    const int64_t     *targets;       /* BZNA_TARGET_NONE: the sample has none */
    const uint64_t    *indices;       /* of the samples in the data set */
    const bzna_status *status;        /* BZNA_OK, or why the slot holds the out-of-bounds color */
    /* the CUstream on which the image is finished (chapter 11); NULL for a batch on the host */
    void              *stream;
    /* the operations that policies drew: BZNA_OPERATIONS_MAX for each view of each slot. The
     * operations of view v of a slot begin at operations[(slot * operation_views + v) *
     * BZNA_OPERATIONS_MAX], and operation_counts[slot * operation_views + v] says how many there
     * are; 0 if the sample failed. The views of the first output come first, then the second
     * output's, and so on. NULL without policies. The geometry is in the tensor "geometry":
     * fields.geometry */
    const bzna_drawn  *operations;
    const uint32_t    *operation_counts;     /* NULL without policies */
    /* the address of each slice of image, on the device if the batch is there; the loader's memory,
     * or the caller's of output.buffers */
    void *const       *slices;
    uint32_t           slice_count;   /* output.slices */
    uint32_t           slice_slots;   /* slots of each slice: slice i begins with i * slice_slots */
} bzna_batch_info;

/* The loader's batches, threads and decoder, with defaults filled in. */
typedef struct bzna_loader_info {
    uint32_t    struct_size;          /* set by the call: how many bytes were filled */
    uint32_t    decoder;              /* BZNA_DECODER_SOFTWARE or BZNA_DECODER_NVDEC */
    bzna_tensor image;                /* of a full batch; data is NULL */
    uint32_t    layout;               /* BZNA_LAYOUT_... of image */
    /* NVDEC's decode sessions, shared with the context's other loaders; 0: software only */
    uint32_t    sessions;
    uint32_t    threads;              /* decode.threads */
    uint32_t    reader_threads;       /* read.threads; 0: decoder threads read */
    uint32_t    batches_in_flight;    /* pipeline.batches_in_flight */
    uint32_t    read_ahead;           /* read.ahead_samples; by default, as many as may be */
    /* of this rank in a whole epoch, from its start; padding is not counted */
    uint64_t    samples_per_epoch;
    /* of this rank in a whole epoch, from its start. With BZNA_ORDER_GIVEN, both numbers are of the
     * epoch of the next batch, and 0 if its list was not given yet */
    uint64_t    batches_per_epoch;
    char        decoder_name[64];     /* such as "libavcodec 59.37.100" */
    char        decoder_reason[128];  /* why the loader uses this decoder */
    char        image_field[32];      /* the field of each sample that is decoded */
    char        image_field_reason[96];      /* why that field */
} bzna_loader_info;

/* One stage of the pipeline. Times are summed over its threads, in nanoseconds. */
typedef struct bzna_stage_statistics {
    uint64_t count;                   /* samples that passed; in the last stage batches */
    uint64_t bytes;                   /* of the samples that passed */
    uint64_t busy_ns;                 /* working */
    uint64_t wait_before_ns;          /* waiting for the stage before it */
    uint64_t wait_after_ns;           /* blocked because the next queue was full (back-pressure) */
    uint64_t depth;                   /* samples that wait in its queue now */
    uint64_t capacity;                /* the most that its queue holds */
    /* that work in it: read.threads, decode.threads or NVDEC's sessions, the same, 1. Decoder
     * threads that read count in the first, too. 0 in the first three with pipeline.no_threads */
    uint64_t threads;
    uint64_t reserved[2];             /* 0 */
} bzna_stage_statistics;

/* The stages of the pipeline, in order. */
enum {
    BZNA_STAGE_READ    = 0,           /* samples are read */
    BZNA_STAGE_DECODE  = 1,           /* pictures are decoded */
    BZNA_STAGE_WARP    = 2,           /* outputs are made of them */
    BZNA_STAGE_DELIVER = 3,           /* batches are on loan; waits are those in bzna_loader_next */
    BZNA_STAGE_NONE    = 4            /* none limits: threads wake one another most of the time */
};

/* Counts and waits since the loader was opened, or over the time of bzna_statistics_since. */
typedef struct bzna_statistics {
    uint32_t         struct_size;     /* set by the call: how many bytes were filled */
    /* BZNA_STAGE_..., a judgement from the times: the stage that is busy while the one before it is
     * blocked and the one after it waits for work. It is the consumer (DELIVER) when
     * bzna_loader_next hardly waits, and NONE when no stage is busy, as with tiny batches */
    uint32_t         limiting_stage;
    bzna_stage_statistics stage[4];        /* by BZNA_STAGE_... */
    uint64_t         samples;         /* samples that were finished, whether they failed or not */
    uint64_t         samples_failed;  /* samples that failed; by kind below */
    uint64_t         failed_read;     /* E_IO, E_TRUNCATED; E_CALLBACK of source, provider */
    uint64_t         failed_format;   /* E_BOX, E_LIMIT, E_NOT_FOUND, ... */
    uint64_t         failed_decode;   /* E_DECODE, E_CODEC, E_MISMATCH */
    uint64_t         failed_other;    /* E_CALLBACK of transform or picture, E_MEMORY, ... */
    uint64_t         replaced;        /* attempts at a replacement, by errors.on_error */
    /* reads that were tried again, and samples that were made again because memory, a thread or the
     * device was lacking */
    uint64_t         retries;
    uint64_t         read_memory_bytes;      /* that samples which are read ahead hold now */
    uint64_t         samples_nvdec;   /* samples that NVDEC decoded */
    uint64_t         samples_software;       /* samples that software decoded */
    /* samples that software decoded, because NVDEC could not; reasons are logged once */
    uint64_t         fallbacks;
    uint64_t         samples_hybrid;  /* samples that decode.hybrid has taken from NVDEC */
    uint64_t         decoders_made;   /* the context's NVDEC decoders; constant in steady state */
    uint64_t         decoders_reconfigured;  /* to another frame size; constant in steady state */
    /* the context's sessions that ended, because there was no memory for their decoders. If 32
     * driver calls in a row fail with a codec, software decodes it from then on, and sessions
     * continue with other codecs */
    uint64_t         sessions_lost;
    /* how often a thread, the consumer's or one of the library's, found the loader's lock taken by
     * another. Threads that wait for work do not count */
    uint64_t         lock_waits;
    uint64_t         lock_wait_ns;    /* how long they waited for it, together */
    uint64_t         elapsed_ns;      /* the time that all of this was counted over */
    /* JPEGs that were decoded at their full size, though all views shrink them so much that
     * decode.jpeg_shrink would decode them at 1/2 or less */
    uint64_t         samples_shrinkable;
    /* limiting_stage in a sentence: how busy it was, and which setting would change that, such as
     * "reading: decoders wait for it 92 % of the time; ... (read.threads: 1 now)" */
    char             advice[240];
    /* the first sample that failed: its status, as from bzna_batch_error, the index of the sample
     * in the data set, and the message, or BZNA_OK, 0 and "" if none failed */
    bzna_status      first_failed_status;
    uint32_t         reserved0;       /* 0 */
    uint64_t         first_failed_index;     /* its index */
    char             first_failed_message[488];     /* its message, with a NUL at its end */
} bzna_statistics;

/* The position of a run: 128 bytes of plain data without pointers, to be saved with a model's
 * checkpoint. bzna_loader_save fills it in, and bzna_loader_restore reads it. Its numbers have the
 * byte order of the machine that saved it; a machine of the other order refuses it. */
typedef struct bzna_loader_state {
    uint32_t struct_size;             /* 128 */
    uint32_t version;                 /* 2, as in 0.3, whose states are restored */
    uint64_t seed;                    /* order.seed */
    uint64_t epoch;                   /* that has begun */
    uint64_t position;                /* samples of the epoch already delivered, to all ranks */
    uint64_t fingerprint;             /* of data set and indices */
    /* of an epoch, for all ranks together; with BZNA_ORDER_GIVEN of the epoch that has begun, and 0
     * at the start of one */
    uint64_t sample_count;
    uint64_t end_epoch;               /* the first epoch that is not delivered */
    uint32_t order;                   /* BZNA_ORDER_... */
    /* a hash of all other members, which finds damaged states. A program that has changed the
     * position sets it to 0: then it is not compared */
    uint32_t check;
    /* a hash of the settings that determine pixels: sizes, warp, colors, which picture; not dtype,
     * layout, batch size or threads */
    uint64_t pixels;
    /* BZNA_ORDER_GIVEN: a hash of the list of the epoch that has begun; 0 with other orders, and at
     * the start of an epoch, which then accepts any list */
    uint64_t list;
    uint64_t reserved[6];             /* 0 */
} bzna_loader_state;

/* Clears config, which makes every member the default, and sets its struct_size, in bytes: pass
 * sizeof *config. Set output.batch_size, width and height then. Any thread. */
BZNA_API void bzna_loader_config_init(bzna_loader_config *config, size_t struct_size);

/* Checks the config, allocates everything and starts the threads. Reading and decoding begin at
 * once; on the device, when earlier work on output.stream has finished. Any thread.
 *     context   may be closed before the loader
 *     dataset   may be closed before the loader
 *     config    copied, with all memory that it points to except that of output.buffers
 *     out       becomes the loader, to be closed with bzna_loader_close
 * Statuses, whose messages name the setting:
 *     E_ARGUMENT, E_UNSUPPORTED     a setting is invalid, or not supported by this build; or this
 *                                   build can decode none of the samples (chapter 1)
 *     E_RANGE                       order.indices has an index past the last sample
 *     E_NOT_FOUND                   the first sample lacks the picture fields.image or an output's
 *                                   field; or the data set has no picture at all, or lacks a field
 *                                   of fields.tensors or bytes
 *     E_BUFFER                      output.buffers are too small
 *     E_LIMIT                       too many names of fields, or numbers of a vector
 *     E_THREAD, E_MEMORY            the system has no more
 *     E_DEVICE, E_DEVICE_LOST       config asks for the device, which cannot be used */
BZNA_API bzna_status bzna_loader_open(bzna_context *context, bzna_dataset *dataset,
    const bzna_loader_config *config, bzna_loader **out, bzna_error *err);

/* Stops the threads of loader, and releases its data set; NULL does nothing. Waits for callbacks
 * that are running, for reads of files that have begun and, on the device, for work that was
 * enqueued to read released batches, but no longer than a minute (chapter 11, A GPU THAT HANGS).
 * Batches on loan stay valid; the release of the last one frees their memory, and waits, too.
 * Returns E_STATE inside callbacks and after fork, and does nothing then. Any thread, once. */
BZNA_API bzna_status bzna_loader_close(bzna_loader *loader);

/* Takes the next batch, in order. Any thread, but one at a time.
 *     loader       it lends the batch until bzna_batch_release
 *     timeout_ns   how long to wait, in nanoseconds; 0 polls, BZNA_WAIT_FOREVER waits. Another
 *                  negative number is E_ARGUMENT. With pipeline.no_threads the call works
 *                  meanwhile: it reads or decodes a few samples (one, if they are large), checks
 *                  the clock, and continues. With 0 it does that once
 *     batch        set to the batch with BZNA_OK, else to NULL
 * A batch on the host is finished when the call returns. A batch on the device is finished for work
 * that is enqueued on its stream after the call (chapter 11).
 *
 * The call waits until the next batch is filled, and for that until one is free. A batch is not
 * free while it is on loan, or while work that you enqueued before its release still reads it. So
 * that work must not wait for the thread that is in this call, neither by a host function nor for a
 * value that the thread writes later: both would wait forever. While a CUDA graph is being captured
 * on the batches' stream, neither open nor close a loader with it, nor take, move or release
 * batches. Let the graph read a buffer of yours, and copy each batch there.
 *
 * Statuses:
 *     BZNA_END                  the last epoch is over
 *     BZNA_AGAIN                the time is over
 *     E_STOPPED                 bzna_loader_stop was called
 *     E_STATE                   another thread is in this call, or all batches are on loan; or with
 *                               BZNA_ORDER_GIVEN, the next epoch has no list yet, which the message
 *                               names. After each of these failures the call can be made again
 *     E_DEVICE, E_DEVICE_LOST   the device failed
 *     E_MEMORY, E_THREAD        it was lacking twice for a sample of the batch
 *     E_CALLBACK                a callback failed a sample of the batch: errors.on_callback_error
 *     another                   with BZNA_ON_ERROR_STOP, the error of a sample of the batch
 * The last four stay until bzna_loader_reset or bzna_loader_restore. */
BZNA_API bzna_status bzna_loader_next(bzna_loader *loader, int64_t timeout_ns, bzna_batch **batch,
    bzna_error *err);

/* Gives the samples of one epoch to a loader with BZNA_ORDER_GIVEN: chapter 9. Any thread, also
 * while another one waits in bzna_loader_next. Does not wait.
 *     loader        makes the epoch's batches from now on
 *     epoch         the one under way, if it has no list yet, or a later one
 *     indices       of samples in the data set, in the order of the epoch; they may repeat. Copied,
 *                   8 bytes each; the copy is kept until a list is given after the epoch's last
 *                   batch was taken
 *     index_count   at least 1
 *     sizes         NULL: batches have output.batch_size, and all ranks together have so many
 *                   samples: rank r of w takes those at r, r + w, r + 2w, ... Else the number of
 *                   samples of each batch, 1..output.batch_size; the sum is index_count. Copied.
 *                   Ranks share whole batches: rank r of w takes the batches r, r + w, ...
 *     size_count    the number of batches; 0 without sizes
 * If the number of sizes does not divide by w, order.last_batch says what happens at the end: ranks
 * without a batch get an empty one (PARTIAL), the rest is not delivered (DROP), or they get padding
 * (PAD and FILL, which also fill each batch to output.batch_size).
 * Statuses:
 *     E_ARGUMENT   index_count is 0, or last_batch is DROP and leaves no batch; or a size is out
 *                  of range, or their sum is not index_count; or the loader was restored inside
 *                  the epoch, and the run that was saved had another list
 *     E_RANGE      an index is past the last sample, or epoch past the last one
 *     E_STATE      the epoch has its list already, or is over; or the order is of another kind
 *     E_MEMORY     for the copy, or for a bit for each sample of the data set, by which repeated
 *                  indices are found */
BZNA_API bzna_status bzna_loader_set_batches(bzna_loader *loader, uint64_t epoch,
    const uint64_t *indices, uint64_t index_count, const uint32_t *sizes, uint64_t size_count,
    bzna_error *err);

/* Ends all waiting for batches of loader, now and later, with E_STOPPED, until bzna_loader_reset or
 * bzna_loader_restore. Does not wait itself. Any thread, inside callbacks, too. */
BZNA_API bzna_status bzna_loader_stop(bzna_loader *loader, bzna_error *err);

/* Moves to the start of an epoch (set_epoch in other libraries), whatever epoch has begun. Waits
 * for samples that are being made. Any thread.
 *     loader   delivers as many epochs as if it had been opened with order.first_epoch = epoch.
 *              Batches on loan stay valid. Lists of BZNA_ORDER_GIVEN are forgotten, also those of
 *              later epochs
 *     epoch    from 0 to 2^64 - 2
 * Returns E_ARGUMENT for epoch 2^64 - 1; E_STATE while a thread waits in bzna_loader_next. */
BZNA_API bzna_status bzna_loader_reset(bzna_loader *loader, uint64_t epoch, bzna_error *err);

/* Saves the position of the run of loader after the last batch that was delivered. state is filled
 * in; struct_size is its size in bytes: pass sizeof *state. Any thread. Returns E_STRUCT_SIZE if
 * that is less than 128. */
BZNA_API bzna_status bzna_loader_save(bzna_loader *loader, bzna_loader_state *state,
    size_t struct_size, bzna_error *err);

/* Continues from a state. Waits for samples that are being made. Any thread.
 *     loader   seed and epochs come from the state; world size, threads and batch size may differ
 *              from those of the run that was saved. Batches on loan stay valid. Lists of
 *              BZNA_ORDER_GIVEN are forgotten: give the list of the state's epoch again
 *     state    of bzna_loader_save, of this version or 0.3
 * Statuses: E_ARGUMENT if the state is damaged, is of another version, data set or order, or of a
 * run whose pixels were made otherwise (chapter 9); E_STATE while a thread waits in
 * bzna_loader_next. */
BZNA_API bzna_status bzna_loader_restore(bzna_loader *loader, const bzna_loader_state *state,
    bzna_error *err);

/* Describes the batches, threads and decoder of loader. info is filled in, up to struct_size bytes:
 * pass sizeof *info. Any thread. */
BZNA_API bzna_status bzna_loader_get_info(bzna_loader *loader, bzna_loader_info *info,
    size_t struct_size, bzna_error *err);

/* Gives the config of loader with its defaults filled in: the values that members of 0 mean here.
 * config is filled in, up to struct_size bytes: pass sizeof *config. Members that point to memory
 * of the caller are NULL. Numbers of elements, functions, colors and augmentations are as they were
 * given. A loader that is opened with it, once those pointers are set again, has the same settings.
 * Any thread. */
BZNA_API bzna_status bzna_loader_get_config(bzna_loader *loader, bzna_loader_config *config,
    size_t struct_size, bzna_error *err);

/* Gives the counts of loader since it was opened. stats is filled in, up to struct_size bytes: pass
 * sizeof *stats. Any thread. */
BZNA_API bzna_status bzna_loader_statistics(bzna_loader *loader, bzna_statistics *stats,
    size_t struct_size, bzna_error *err);

/* Gives the counts of a loader between two calls of bzna_loader_statistics, such as in an epoch,
 * and the stage that limited it in that time. Any thread.
 *     later         of the second call
 *     earlier       of the first call
 *     since         filled in, up to struct_size bytes: pass sizeof *since. It may be later or
 *                   earlier. Depths, capacities, threads, read_memory_bytes and the first sample
 *                   that failed are those of later
 *     struct_size   in bytes
 * Returns E_ARGUMENT if later has counted less than earlier. */
BZNA_API bzna_status bzna_statistics_since(const bzna_statistics *later,
    const bzna_statistics *earlier, bzna_statistics *since, size_t struct_size, bzna_error *err);

/* Describes one tensor of a full batch; its data is NULL. Any thread.
 *     loader        the loader
 *     number        from 0: "image", "target", "index", "status", then those of fields (tensors,
 *                   fields.made, "geometry"), which are on the host, then those of extra_outputs.
 *                   Batches without pictures have no "image", and begin with "target"
 *     tensor        filled in, up to struct_size bytes: pass sizeof *tensor
 *     struct_size   in bytes
 * Returns E_RANGE past the last tensor. */
BZNA_API bzna_status bzna_loader_tensor(bzna_loader *loader, uint32_t number, bzna_tensor *tensor,
    size_t struct_size, bzna_error *err);

/* Describes batch as it is in memory. info is filled in, up to struct_size bytes: pass sizeof
 * *info. Its pointers are the loader's, and valid until the batch is released. Any thread. */
BZNA_API bzna_status bzna_batch_get_info(const bzna_batch *batch, bzna_batch_info *info,
    size_t struct_size, bzna_error *err);

/* Describes one tensor of a batch. Any thread.
 *     batch         on loan
 *     name          of the tensor, such as "image" or "target"
 *     tensor        filled in, up to struct_size bytes: pass sizeof *tensor. Its data is the
 *                   loader's, and valid until the batch is released
 *     struct_size   in bytes
 * Statuses: E_NOT_FOUND if there is no such tensor; E_UNSUPPORTED if "image" consists of several
 * slices. */
BZNA_API bzna_status bzna_batch_tensor(const bzna_batch *batch, const char *name,
    bzna_tensor *tensor, size_t struct_size, bzna_error *err);

/* Finds the value of a field in one slot. Any thread.
 *     batch   on loan
 *     name    of the field, one of fields.bytes
 *     slot    of the batch, from 0
 *     data    set to the value, which is the loader's and valid until the batch is released:
 *             an image as a stream of its own, as from bzna_image_annexb; an integer as int64_t; a
 *             vector as float; text and bytes as they are. A NUL follows each. NULL if the sample
 *             has none, or could not be read; one that could not be decoded has its values
 *     size    set to the bytes at data, without that NUL; 0 if data is NULL
 * Statuses: E_NOT_FOUND if fields.bytes does not name it; E_RANGE past the last slot. */
BZNA_API bzna_status bzna_batch_bytes(const bzna_batch *batch, const char *name, uint32_t slot,
    const void **data, uint64_t *size, bzna_error *err);

/* Returns the status of one slot of batch, and its message in err. slot counts from 0. Returns
 * E_RANGE past the last slot. Any thread. */
BZNA_API bzna_status bzna_batch_error(const bzna_batch *batch, uint32_t slot, bzna_error *err);

/* Returns batch to its loader; NULL does nothing. Work that was enqueued on its stream before this
 * call still reads it undisturbed, so release it right after enqueueing the work that reads. Does
 * not wait while the loader is open. Any thread; for a batch on BZNA_STREAM_PER_THREAD, the thread
 * that used it. Returns E_STATE if the batch is not on loan, and after fork. If the device fails,
 * bzna_loader_next reports it.
 *
 * Release a batch once, and forget the pointer. A loader lends the same few batches repeatedly, and
 * a pointer does not say which loan it belongs to. A second release returns E_STATE until the
 * loader lends that batch again. After that it cannot be noticed: it ends the next borrower's loan,
 * whose pixels may then be written over. */
BZNA_API bzna_status bzna_batch_release(bzna_batch *batch);

/* Moves a batch on the device to another stream of its context. Work that is enqueued there after
 * this call reads the finished batch, and the release is ordered after that stream's work instead
 * of the old one's.
 * Any thread.
 *     batch    on loan, on the device
 *     stream   a CUstream, BZNA_STREAM_LEGACY or BZNA_STREAM_PER_THREAD; not NULL. It is the
 *              caller's, and must live until the batch is released
 * Statuses: E_STATE if the batch is not on loan, or for BZNA_STREAM_PER_THREAD while it has DLPack
 * tensors; E_UNSUPPORTED if it is on the host; E_DEVICE, E_DEVICE_LOST. */
BZNA_API bzna_status bzna_batch_move(bzna_batch *batch, void *stream, bzna_error *err);

/* Kinds of DLPack tensors (dlpack.h). */
enum {
    BZNA_DLPACK_0 = 0,                /* DLManagedTensor *, for "dltensor" capsules */
    /* DLManagedTensorVersioned * of version 1.0, for "dltensor_versioned" capsules */
    BZNA_DLPACK_1 = 1
};

/* Exports one tensor of a batch as a DLPack tensor. Nothing is copied or allocated. Any thread.
 *     batch     stays on loan until the tensor's deleter has run and bzna_batch_release was called,
 *               whichever comes last. Work that was enqueued on the batch's stream before that
 *               still reads it undisturbed. The deleter may run on any thread, and after the loader
 *               was closed
 *     name      of the tensor, as for bzna_batch_tensor
 *     version   BZNA_DLPACK_..., which says the type
 *     tensor    set to a DLManagedTensor * or a DLManagedTensorVersioned *, which the consumer
 *               deletes. A call that fails leaves the pointer as it was
 * Statuses: E_NOT_FOUND; E_UNSUPPORTED for another version, or if "image" consists of several
 * slices; E_STATE if the batch is not on loan, or is on BZNA_STREAM_PER_THREAD, when the deleter
 * would have to run on that thread. */
BZNA_API bzna_status bzna_batch_to_dlpack(bzna_batch *batch, const char *name, uint32_t version,
    void **tensor, bzna_error *err);

#ifndef BENZINA_NO_WRITER
/* ---- Writers ------------------------------------------------------------------------------ */
typedef struct bzna_writer bzna_writer;      /* writes one archive */

/* Bytes to anywhere, for bzna_writer_open_sink. The callbacks are never called concurrently. They
 * must not close any object. */
typedef struct bzna_sink {
    uint32_t    struct_size;          /* sizeof the struct */
    uint32_t    reserved0;            /* must be 0 */
    void       *user;                 /* passed to the functions; the caller's until close */
    /* Writes all size bytes of src at byte offset. Returns BZNA_OK, or a negative number, which
     * becomes the native_code of E_IO. The writer appends, and at the end overwrites 8 bytes, which
     * mark the archive as finished. A sink whose archives shall survive a loss of power flushes
     * what was written before it overwrites those. */
    bzna_status (*write_at)(void *user, uint64_t offset, const void *src, uint64_t size);
    /* Releases the sink's resources. Called exactly once, by bzna_writer_close, and never if
     * bzna_writer_open_sink failed. May be NULL. */
    void        (*close)(void *user);
} bzna_sink;

/* The settings of a writer. Zero is the default of every member. */
typedef struct bzna_writer_config {
    uint32_t           struct_size;   /* sizeof the struct; bzna_writer_config_init sets it */
    uint32_t           reserved0;     /* must be 0 */
    /* names of the targets 0 .. class_count - 1, for bzna_dataset_class: UTF-8, at most 65535 bytes
     * each; copied. NULL: none */
    const char *const *classes;
    uint32_t           class_count;   /* 0 without classes */
    uint32_t           reserved1;     /* must be 0 */
    /* Advanced, used by packers with many threads: memory for samples that wait for those of
     * smaller indices (bzna_writer_add), in bytes. Default 64 MiB */
    uint64_t           queue_bytes;
    uint64_t           reserved[4];   /* must be 0 */
} bzna_writer_config;

/* A split that a sample belongs to. */
enum {
    BZNA_SPLIT_NONE       = 0,
    BZNA_SPLIT_TRAIN      = 1,
    BZNA_SPLIT_VALIDATION = 2,
    BZNA_SPLIT_TEST       = 3
};

/* A further field of a sample. An archive has at most 60 names of them. */
typedef struct bzna_field_value {
    uint32_t    struct_size;          /* sizeof the struct; bzna_field_value_init sets it */
    /* BZNA_FIELD_...; the same in all samples */
    uint32_t    kind;
    const char *name;                 /* 1..31 bytes; not "image", "thumb", "target" or "name" */
    /* the value in the form that bzna_dataset_field gives, but text has no NUL. A picture is a
     * whole file: JPEG, PNG or another kind that folders may hold, which is kept as it is.
     * Borrowed */
    const void *data;
    uint64_t    size;                 /* bytes at data */
} bzna_field_value;

/* One sample to write. The memory that it points to is read before the call returns, and stays the
 * caller's. */
typedef struct bzna_writer_sample {
    /* sizeof the struct; bzna_writer_sample_init sets it */
    uint32_t                struct_size;
    /* BZNA_SPLIT_...: the sample is also listed in that split's tracks, which older readers
     * ignore */
    uint32_t                split;
    /* the full image: H.264, H.265, AV1 or JPEG; required. Samples may differ in codec
     * and size */
    const bzna_image       *image;
    /* its thumbnail. NULL: the image itself serves if its frame is at most 512x512 pixels, else the
     * sample has no thumbnail */
    const bzna_image       *thumb;
    /* the class number, written here and in the index: any but BZNA_TARGET_NONE. If has_target is
     * 0, it must be 0 or BZNA_TARGET_NONE */
    int64_t                 target;
    const char             *name;     /* UTF-8, at most 65535 bytes; in folders, a path; or NULL */
    const bzna_field_value *fields;   /* further fields */
    uint32_t                field_count;     /* at most 60 */
    /* 1: the sample has a target. 0: it has none. If any sample has a target, the index of targets
     * has BZNA_TARGET_NONE for samples without one */
    uint32_t                has_target;
    uint64_t                reserved[2];     /* must be 0 */
} bzna_writer_sample;

/* Clears config, which makes every member the default, and sets its struct_size, in bytes: pass
 * sizeof *config. Any thread. */
BZNA_API void bzna_writer_config_init(bzna_writer_config *config, size_t struct_size);

/* Clears value and sets its struct_size, in bytes: pass sizeof *value. After that, set name, kind,
 * data and size. Any thread. */
BZNA_API void bzna_field_value_init(bzna_field_value *value, size_t struct_size);

/* Clears sample and sets its struct_size, in bytes: pass sizeof *sample. After that, set image. Any
 * thread. */
BZNA_API void bzna_writer_sample_init(bzna_writer_sample *sample, size_t struct_size);

/* Makes an archive as a file, or empties the file that is there. Any thread.
 *     context   may be closed before the writer
 *     path      UTF-8; copied
 *     config    copied; NULL: all defaults
 *     out       becomes the writer, to be closed with bzna_writer_close
 * Statuses: E_ARGUMENT, E_LIMIT for names of classes; E_NOT_FOUND if the folder of path is not
 * there; E_IO. */
BZNA_API bzna_status bzna_writer_open(bzna_context *context, const char *path,
    const bzna_writer_config *config, bzna_writer **out, bzna_error *err);

/* Makes an archive that the caller's functions write. Any thread.
 *     context   may be closed before the writer
 *     sink      write_at is required; the struct is copied. On success the writer owns the sink,
 *               and closes it exactly once. On failure it is still the caller's
 *     config    copied; NULL: all defaults
 *     out       becomes the writer, to be closed with bzna_writer_close
 * Statuses: E_ARGUMENT; E_LIMIT; E_IO if write_at failed. */
BZNA_API bzna_status bzna_writer_open_sink(bzna_context *context, const bzna_sink *sink,
    const bzna_writer_config *config, bzna_writer **out, bzna_error *err);

/* The index of a sample that comes after all that were given before: bzna_writer_add. */
#define BZNA_INDEX_NEXT 0xFFFFFFFFFFFFFFFF

/* Writes one sample. The same inputs give the same bytes. Several threads can give samples at once,
 * each at its index: they may come in any order. The file has them in the order of their indices,
 * whatever the timing. Any thread.
 *     writer       the archive
 *     index        of the sample, 0 .. 2^32 - 2, or BZNA_INDEX_NEXT
 *     sample       what is written; it may be freed when the call returns. NULL: no sample comes at
 *                  this index, and later samples move up
 *     timeout_ns   how long to wait for room, in nanoseconds; 0: not at all; BZNA_WAIT_FOREVER:
 *                  until there is room. Another negative number is E_ARGUMENT
 * A sample whose turn has not come is copied, up to config.queue_bytes in all, and written by a
 * later call. Past that, the call waits for up to timeout_ns and returns BZNA_AGAIN: the sample was
 * not taken. A call with BZNA_WAIT_FOREVER waits until other threads have added the samples before
 * its sample. If each thread takes the smallest index that is left, none waits long. Statuses:
 *     E_ARGUMENT, E_STRUCT_SIZE, E_BOX, E_LIMIT, E_CODEC, E_DECODE, E_MISMATCH
 *                   the sample is refused, and the archive is as it was; E_ARGUMENT also if index
 *                   was given before
 *     E_RANGE       index is too large
 *     E_IO          a write failed. That ends the writer: every later call returns this status
 *     E_MEMORY      for the index it ends the writer, too; else the call may be tried again
 *     BZNA_AGAIN    the sample was not taken */
BZNA_API bzna_status bzna_writer_add(bzna_writer *writer, uint64_t index,
    const bzna_writer_sample *sample, int64_t timeout_ns, bzna_error *err);

/* Writes the index of the archive, and waits until a file is on the disk. Nothing can be added to
 * writer afterwards. The outer bzna_thumb track is written if all samples have thumbnails that
 * share one size and decoder configuration; else a warning says that it is missing. Any thread.
 * Statuses: E_NO_SAMPLES; E_NOT_FOUND if indices were not given, which the message names, and which
 * can still be given; E_IO, which ends the writer; E_LIMIT for an index of over 4 GiB; E_MEMORY;
 * E_STATE if it is finished. */
BZNA_API bzna_status bzna_writer_finish(bzna_writer *writer, bzna_error *err);

/* Closes writer; NULL does nothing. Without bzna_writer_finish, as when the process was killed, the
 * file is left unfinished: opening it gives E_UNFINISHED, and `bzna index FILE -o NEW` makes an
 * archive of the samples that it holds. Only bzna_writer_finish says whether the file is whole.
 * Returns E_STATE inside callbacks, and does nothing then. Any thread, once, while no other uses
 * it. */
BZNA_API bzna_status bzna_writer_close(bzna_writer *writer);
#endif

#ifdef __cplusplus
}
#endif
#endif
