/* stream.h - batches from shards that cannot seek: pipes, standard input, commands, gzip and zstd
 *
 * The library reads samples at any offset of their files. A stream reads whole shards into memory instead, as many as
 * memory_bytes allows, and draws batches from them. A shard is a tar, or any other file that bzna_dataset_open_memory
 * opens.
 *
 *     #include "stream.h"
 *     #include <stdio.h>
 *
 *     int main(void)
 *     {
 *         const char *sources[] = { "pipe:curl -sf https://host/train-{000..146}.tar" };
 *         bzna_loader_config loader = {
 *             .struct_size = sizeof loader,
 *             .output = { .batch_size = 256, .width = 224, .height = 224 },
 *             .order = { .kind = BZNA_ORDER_SHUFFLE, .seed = 7, .epochs = 90 },
 *             .warp = { .kind = BZNA_WARP_RANDOM_RESIZED_CROP, .flip_h = 0.5 },
 *         };
 *         bzna_stream_config config = {
 *             .struct_size = sizeof config, .sources = sources, .source_count = 1, .loader = &loader,
 *         };
 *         bzna_context *context = NULL;
 *         bzna_stream *stream = NULL;
 *         bzna_batch *batch = NULL;
 *         bzna_error err = {0};
 *         bzna_status status;
 *
 *         status = bzna_context_open(NULL, &context, &err);
 *         if (status == BZNA_OK)
 *             status = bzna_stream_open(context, &config, &stream, &err);
 *         while (status == BZNA_OK)
 *             if ((status = bzna_stream_next(stream, BZNA_WAIT_FOREVER, &batch, &err)) == BZNA_OK)
 *                 bzna_batch_release(batch);                  // after your work with it
 *         if (status < 0)
 *             fprintf(stderr, "%s\n", err.message);
 *         bzna_stream_close(stream);
 *         bzna_context_close(context);
 *         return status < 0;
 *     }
 *
 * To use this in a program, copy stream.h, stream.c, stream_source.h and stream_source.c into a folder next to
 * benzina.h, such as stream/, and formats.h, data.h, data.c, paths.c and rules.c of examples/formats into another, such
 * as formats/. Compile them with the program. They need POSIX, and zlib and zstd unless -DBZNA_STREAM_NO_ZLIB and
 * -DBZNA_STREAM_NO_ZSTD are given:
 *
 *     cc -std=c11 -I. -Istream -Iformats program.c stream/stream.c stream/stream_source.c formats/paths.c \
 *        formats/rules.c formats/data.c benzina.o $(pkg-config --libs zlib libzstd libavcodec libavutil libjpeg) \
 *        -lm -lpthread -ldl
 *
 * Installed, it is libbenzina_stream: benzina_stream of pkg-config, and benzina::stream of find_package(benzina).
 *
 * SOURCES. A source has one of the forms below. Braces name several, as in paths of data sets (bzna_formats_braces):
 * {000..146}, {a,b}. A source without braces is used as it is, with its backslashes. For a command that needs braces,
 * set literal.
 *
 *     path          a file, a FIFO, or /dev/fd/N
 *     -             standard input, once
 *     pipe:COMMAND  the output of sh -c COMMAND. A status other than 0 is an error, which names command and status
 *
 * gzip and zstd are found by their first bytes, and decompressed by zlib and libzstd. Several gzip members or zstd
 * frames one after the other are one shard. A tar must end with its end-of-archive marker, so that a tar that was cut
 * short is noticed. It ends at the first marker: if cat joins several tars, only the first is read, so give each its
 * own source. A tar of zeros alone, as some writers of shards leave, adds no samples; if all shards of a rank are such
 * tars, the stream ends with E_NO_SAMPLES.
 *
 * WINDOWS. A thread reads shards until a third of memory_bytes is full: a window. Batches are drawn from it while the
 * next window is read. The windows that are read do not depend on timing, but on memory_bytes and the shards' sizes.
 *     - With BZNA_ORDER_SHUFFLE, shards are permuted each epoch by order.seed, and so are the samples of a window.
 *     - Batches are full: samples of a window that are left over are carried into the next one, and their shards stay
 *       in memory. Only the last batch of an epoch may be partial, padded or dropped (order.last_batch).
 *     - The first batch comes when the first window is full. With a smaller memory_bytes it comes earlier, and samples
 *       are mixed less.
 *     - There is one loader for the whole run, which makes its decoders once.
 *     - Shards of fewer than batch_size samples may be carried over several windows, until there are enough. Those that
 *       one batch needs must fit into two thirds of memory_bytes.
 *     - memory_bytes bounds the shards, unpacked. The loader's own memory comes on top: loader->read.memory_bytes and
 *       its batches. So do up to 128 MiB that a zstd frame may ask for.
 *
 * EPOCHS AND RANKS. loader->shard says which share of the shards this process reads: those at rank, rank + world_size,
 * ... of the permuted list. An epoch has each of them once, so ranks have different numbers of batches. With
 * samples_per_epoch, every rank has the same number of batches: a rank that runs out of shards continues with those of
 * its next permutation, and a rank that has more keeps the rest for the next epoch.
 *
 * RESUMING. bzna_stream_save saves the position of a run, after any batch. bzna_stream_restore continues from there
 * with the same batches, bit for bit. For that, it reads again the shards of that window, and earlier shards with
 * samples that were left for that window. Sources and settings must be the same, and the shards must have the same
 * samples: otherwise the state is refused. Threads may differ. If a source cannot be read again, such as standard
 * input, whoever starts the program supplies it again.
 *
 * A batch's info (bzna_batch_get_info) is the loader's. There, index is (number of the shard in the list) << 32 |
 * (number of the sample in the shard), and epoch counts lists of samples, of which a window has one or more.
 * bzna_stream_get_info has the epoch of the stream. Fields are those of the first shard that is read.
 *
 * THREADS. One thread at a time may call bzna_stream_wait, _next, _save and _restore. bzna_stream_stop may be called
 * from any thread, and ends their waiting. A read that blocks delays only batches: stop, restore and close end it, and
 * kill the command. With loader->pipeline.no_threads, no thread is made: next reads shards itself when it needs some,
 * and stop ends that, too. */
#ifndef BENZINA_STREAM_H
#define BENZINA_STREAM_H

#include "benzina.h"
#if defined(BENZINA_NO_PROVIDERS) || defined(BENZINA_NO_FOLDERS)
#  error "streams are providers, and expand patterns: they need what these switches leave out"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bzna_stream bzna_stream;

/* The treatment of a shard that cannot be read or opened. */
enum {
    BZNA_STREAM_ON_ERROR_STOP  = 0,   /* the run ends with the error, after the batches of the windows before */
    BZNA_STREAM_ON_ERROR_LEAVE = 1    /* the shard is left out, and log is told */
};

/* The settings of a stream. Zero is the default of every member that does not say otherwise. */
typedef struct bzna_stream_config {
    uint32_t           struct_size;   /* sizeof the struct; bzna_stream_config_init sets it */
    uint32_t           source_count;  /* texts at sources; at least 1 */
    const char *const *sources;       /* required; copied */
    uint32_t           literal;       /* 1: braces and backslashes in sources are literal */
    uint32_t           on_error;      /* BZNA_STREAM_ON_ERROR_... */
    /* the loader; required. order.kind is SEQUENTIAL or SHUFFLE. order's epochs, first_epoch, seed and last_batch
     * are those of the stream, and so is shard. The other members of order must be 0. The struct is copied. The memory
     * that it points to must stay as it is until bzna_stream_wait or bzna_stream_next has returned BZNA_OK */
    const bzna_loader_config  *loader;
    /* how each shard is opened; its name must be NULL. The memory that it points to must stay as it is until the stream
     * is closed. NULL: all defaults */
    const bzna_dataset_config *dataset;
    uint64_t           memory_bytes;  /* of all shards in memory, unpacked; default 1 GiB. A shard may use a third */
    /* of all ranks together: each has an equal number of them, rounded up. Default 0: each shard once */
    uint64_t           samples_per_epoch;
    /* rules for fields of the loader (formats/rules.c): an array, which must stay as it is for as long as loader; may
     * be NULL */
    const struct bzna_rule *rules;
    uint32_t           rule_count;    /* rules at rules */
    uint32_t           reserved0;     /* must be 0 */
    bzna_log_fn        log;           /* told of shards that are left out, in bzna_stream_wait and _next; may be NULL */
    void              *log_user;      /* passed to log */
    uint64_t           reserved[4];   /* must be 0 */
} bzna_stream_config;

/* The position of a run. */
typedef struct bzna_stream_info {
    uint32_t struct_size;             /* set by the call: how many bytes were filled */
    uint32_t shard_count;             /* sources, braces expanded */
    uint64_t epoch;                   /* of the batch that bzna_stream_next returned last */
    uint64_t window;                  /* the window of that batch, from 0 */
    /* 1: that batch was the last of its epoch. With BZNA_LAST_DROP, an epoch may end without one */
    uint32_t last_of_epoch;
    uint32_t shards_left_out;         /* with BZNA_STREAM_ON_ERROR_LEAVE */
    uint64_t shards_read;             /* by this process, since the stream was opened */
    uint64_t bytes_read;              /* of them, unpacked */
    uint64_t memory_bytes;            /* of the shards that are in memory now */
    uint64_t peak_bytes;              /* the most that memory_bytes was */
    uint64_t samples;                 /* in batches that were delivered, since the stream was opened */
} bzna_stream_info;

/* Where a window begins. Members are the stream's own. */
typedef struct bzna_stream_mark {
    uint64_t window, list, epoch, epoch_samples;   /* its number; its first list, epoch, and samples given of that */
    uint64_t first_pass, first_place, first_sample;    /* the first of its samples */
    uint64_t own_pass, own_place;                  /* the first shard that the window before did not have */
} bzna_stream_mark;

/* A place in a run, as bzna_stream_save fills it in: plain bytes to be kept in a file. Numbers have this machine's byte
 * order, and machines of the other order refuse it. */
typedef struct bzna_stream_state {
    uint32_t          struct_size;    /* of this struct */
    uint32_t          version;        /* 1 */
    uint64_t          fingerprint;    /* of sources and settings */
    uint64_t          epoch;          /* of the next batch */
    bzna_stream_mark  mark;           /* the window of the next batch */
    bzna_loader_state loader;         /* the place in it */
} bzna_stream_state;

/* Clears config, which makes every member the default, and sets its struct_size, in bytes: pass sizeof *config. After
 * that, set sources, source_count and loader. Any thread. */
BZNA_API void bzna_stream_config_init(bzna_stream_config *config, size_t struct_size);

/* Makes a stream. Nothing is read before bzna_stream_wait or bzna_stream_next. Any thread.
 *     context   must stay open until the stream is closed. The thread that opens shards may call its log
 *     config    copied, with what its comments say
 *     out       becomes the stream, to be closed with bzna_stream_close
 * Statuses: E_ARGUMENT, whose message names the setting; E_NO_SAMPLES if this rank has no shard; E_THREAD. */
BZNA_API bzna_status bzna_stream_open(bzna_context *context, const bzna_stream_config *config, bzna_stream **out,
                                      bzna_error *err);

/* Waits until the first window is in memory and the loader is open. bzna_stream_next does the same; call this to get
 * the loader's or data set's description earlier. Returns BZNA_AGAIN after timeout_ns nanoseconds (BZNA_WAIT_FOREVER:
 * none; another negative number is E_ARGUMENT); E_STOPPED; the errors of bzna_stream_next and of bzna_loader_open. */
BZNA_API bzna_status bzna_stream_wait(bzna_stream *stream, int64_t timeout_ns, bzna_error *err);

/* Returns the next batch, as bzna_loader_next does, with the same arguments and statuses, among them BZNA_END and
 * BZNA_AGAIN. Without threads, timeout_ns does not bound reading. Besides the loader's errors it returns those of
 * shards. Their messages name the shard and the byte:
 *     E_IO                 reading failed; or a command, whose status is native_code (128 + a signal that ended it)
 *     E_LIMIT              a shard is larger than a third of memory_bytes, unpacked
 *     E_FORMAT, E_TRUNCATED, ...   a damaged gzip or zstd, or what bzna_dataset_open_memory says
 *     E_UNSUPPORTED        gzip or zstd without the library that unpacks it
 * They stay until bzna_stream_restore. */
BZNA_API bzna_status bzna_stream_next(bzna_stream *stream, int64_t timeout_ns, bzna_batch **batch, bzna_error *err);

/* Says where stream is in its run. info is filled in, up to struct_size bytes: pass sizeof *info. Any thread. */
BZNA_API bzna_status bzna_stream_get_info(bzna_stream *stream, bzna_stream_info *info, size_t struct_size,
                                          bzna_error *err);

/* Returns the source that a sample of a batch came from, by its index there. The text is the stream's. NULL if there is
 * none. The sample's number in that shard is the low half of index. Any thread. */
BZNA_API const char *bzna_stream_source(const bzna_stream *stream, uint64_t index);

/* The loader and the data set that the stream draws from, for their info and statistics. They are the stream's: do not
 * close, reset or restore them. NULL before bzna_stream_wait has returned BZNA_OK. The thread of bzna_stream_next. */
BZNA_API bzna_loader *bzna_stream_loader(bzna_stream *stream);
BZNA_API bzna_dataset *bzna_stream_dataset(bzna_stream *stream);

/* Saves the position of the run after the last batch that was delivered. state is filled in; struct_size is its size:
 * pass sizeof *state. Returns E_STRUCT_SIZE for another size. */
BZNA_API bzna_status bzna_stream_save(bzna_stream *stream, bzna_stream_state *state, size_t struct_size,
                                      bzna_error *err);

/* Continues from a state, also after an error or bzna_stream_stop. Ends a read that has begun. Returns E_ARGUMENT if
 * the state is damaged, or of other sources or settings. Shards that changed are found when they are read again: then
 * bzna_stream_next returns E_ARGUMENT. */
BZNA_API bzna_status bzna_stream_restore(bzna_stream *stream, const bzna_stream_state *state, bzna_error *err);

/* Ends all waiting and reading, now and later, with E_STOPPED, until bzna_stream_restore. Does not wait. Any thread. */
BZNA_API void bzna_stream_stop(bzna_stream *stream);

/* Closes stream; NULL does nothing. Ends reading, and kills its command. Batches on loan stay valid. Returns E_STATE
 * inside callbacks, and does nothing then. Once, while no other thread uses it: call bzna_stream_stop first, and wait
 * until the others have returned. */
BZNA_API bzna_status bzna_stream_close(bzna_stream *stream);

/* Reads one source into memory, unpacked, without a stream: for tools. Braces in source are literal.
 *     max_bytes   E_LIMIT if there are more
 *     bytes       to be freed by free()
 *     size        set to the bytes at bytes
 * Statuses: those of shards in bzna_stream_next. Any thread. */
BZNA_API bzna_status bzna_stream_read(const char *source, uint64_t max_bytes, void **bytes, size_t *size,
                                      bzna_error *err);

/* Expands the braces of one source: *list becomes an array of *count texts in one block, to be freed by free(). Returns
 * the statuses of bzna_formats_braces. */
BZNA_API bzna_status bzna_stream_expand(const char *pattern, char ***list, uint32_t *count, bzna_error *err);

#ifdef __cplusplus
}
#endif
#endif
