/* benzina.c - the library in one file. Read benzina.h first: its opening comment is the manual.             MIT license
 *
 * The file has eight parts, and the parts have rooms. A room calls only rooms above it; there are no forward
 * declarations, so the compiler enforces that. A function that returns 1 if something is so returns 0 otherwise, and
 * one that returns 0 if it fails returns 1 otherwise.
 *
 * GROUND
 *       1  limits            named constants, each with its reason
 *       2  basics            checked arithmetic, big-endian loads, spans, versioned structs
 *     3-6  OS                files, folders, clock, threads: the interface, and a room for each platform
 *       7  all systems       what they share; the order of locks, which tests check
 *       8  memory            the only caller of the user's allocator
 *       9  errors            made and prefixed
 *   10-11  host              log, limits; open files, whose number is limited; sources
 *      12  settings          of the caller's structs: what they may be, and what zeros stand for
 *      13  cursor            bounded bytes and bits, sticky overrun; bytes that grow, with boxes
 * CODED PICTURES
 *   14-17  headers           NAL units; AV1; metadata: clap, colr, EXIF, XMP; JPEG
 *      18  stills            PNG, WebP
 *      19  codecs            the table of codecs
 *   20-21  pictures          finding a codec; a picture as container and stream describe it
 * ARCHIVES
 *   22-23  boxes             mp4 boxes by table; the walk over them
 *      24  sample tables     the places of a track's samples
 *      25  containers        their types: a type of container is a row of operations
 *      26  pictures          that are files, of the library's kinds or of the program's own codecs
 *   27-28  mp4               archives, plain video; their samples
 *   29-31  writer            the same boxes, the other way: pictures, tracks, archives
 * DATA SETS
 *      32  text              names in one buffer; lines, words, numbers
 *   33-34  folders           directories; pictures that are files
 *   35-37  shards            tar: headers, WebDataset's with or without an index, their samples
 *      38  providers         samples that the caller's functions give
 *      39  paths             the files that a path stands for
 *      40  opening           the table of containers
 *   41-42  data sets         a sample, its pictures and fields; parts over containers
 * SAMPLING
 *      43  elementary        exp, log, sin, cos, tan, the same on every machine; benzina_kernels.cu as plain C
 *      44  random, order     Philox, the keyed permutation, shards
 *   45-47  transforms        parameters -> homography; MXNet's; whole warps
 *      48  color             jitter, color -> matrix
 *      49  policies          operations that are drawn for a view
 *      50  kernels           a picture and a transform -> what the kernels read
 *      51  operations        what is drawn -> the passes of the kernels
 * DECODING
 *      52  JPEG decode       libjpeg-turbo; nothing else touches it
 *   53-54  software decode   libavcodec; nothing else touches it; who decodes what; the program's own codecs
 *   55-57  CUDA              NVIDIA's driver, opened at run time; a device; its memory, streams, kernels
 *   58-61  NVDEC             a session's decoders; sessions; mapping; their self-check; nothing else touches it
 * PIPELINE
 *   62-63  loader            its state; the locks live here; its tensors
 *      64  entries           the table of runs of samples, and what follows from their states
 *   65-70  loader            a batch's life, and the plan; who waits for what; given orders; fields; outputs; geometry
 *   71-72  readers           threads that read samples in the planned order; reading
 *   73-77  decode stages     lanes: writing slots; workers: software; engines: NVDEC
 *      78  contexts          the host, the device and its pool
 *      79  threads           what a loader's threads do, or the caller's thread in their place
 *      80  parts, closing    a loader's batches, entries, order, threads
 *   81-82  delivering        what the consumer's calls do; positions
 * INTERFACE
 *      83  statistics        what was counted, and what limits a loader
 *   84-86  configuration     defaults, checks; outputs; opening
 *   87-92  public API        validate, delegate
 *
 * WHERE TO BEGIN. These eight rooms, in this order, show how the library works; they are some 3,000 lines. First an
 * archive: Cursor, Boxes, Sample tables, Containers, Containers: mp4. Then how it becomes batches: Random numbers,
 * order; Loader: state, whose banner has the states of all that threads hand to each other, and the way of one sample
 * with the function at each step; Decode stages: workers, samples.
 */

/* ==== 0. Includes ================================================================================================= */

/* Every operation is rounded by itself, so that machines with and without fused multiply-add compute the same bits.
 * This precedes the first include, which defines inline functions. gcc 12 turns neighboring a * b - c and a * b + c
 * into vfmaddsub even with -ffp-contract=off, unless it does not vectorize straight-line code.
 *
 * gcc optimizes the part SAMPLING, which has all arithmetic, as much as the command line says, and the rest at -O1: it
 * takes half as long, and loaders are as fast. The end of this file gives back its own level to what follows in a unity
 * build. */
#if defined(__clang__)
#  pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#  pragma GCC optimize ("-ffp-contract=off", "-fno-tree-slp-vectorize", "-fno-loop-unroll-and-jam")
#endif
#if defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__) && !defined(__clang__)
#  define BZI_FAST_BEGIN _Pragma("GCC pop_options")
#  define BZI_FAST_END   _Pragma("GCC push_options") _Pragma("GCC optimize (\"O1\", \"-ffp-contract=off\")")
BZI_FAST_END
#else
#  define BZI_FAST_BEGIN
#  define BZI_FAST_END
#endif

#ifndef _GNU_SOURCE
#  define _GNU_SOURCE                 /* POSIX.1-2008, and types of directory entries */
#endif
#ifndef _FILE_OFFSET_BITS
#  define _FILE_OFFSET_BITS 64
#endif

#include "benzina.h"

/* Misspelt switches, which would leave nothing out. */
#if defined(BENZINA_NO_LIBAVCODEC) || defined(BENZINA_NO_FFMPEG) || defined(BENZINA_NO_LIBJPEG) || \
    defined(BENZINA_NO_NVDEC) || defined(BENZINA_NO_TAR) || defined(BENZINA_NO_RECORDIO) || \
    defined(BENZINA_NO_RECORDS) || defined(BENZINA_WITHOUT_CUDA)
#  error "this switch is unknown, or misspelt: chapter 1 of benzina.h lists the switches BENZINA_NO_..."
#endif

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Floats that are computed in more precision would make other pixels, too. */
#if FLT_EVAL_METHOD == 1 || FLT_EVAL_METHOD == 2 || FLT_EVAL_METHOD < 0
#  error "floats must be floats: -msse2 -mfpmath=sse on 32-bit x86, -fexcess-precision=fast on s390x"
#endif

#ifndef BENZINA_NO_CUDA
#  include <ffnvcodec/dynlink_cuda.h>
#  include <ffnvcodec/dynlink_cuviddec.h>
#  include <ffnvcodec/dynlink_nvcuvid.h>
#endif

#ifndef BENZINA_NO_AVCODEC
#  include <libavcodec/avcodec.h>
#  include <libavutil/avconfig.h>
#  include <libavutil/error.h>
#  include <libavutil/imgutils.h>
#  include <libavutil/pixdesc.h>
#  define BZI_HAS_AVCODEC 1
#  define BZI_AV_ID(name) AV_CODEC_ID_##name                /* libavcodec's number of a codec */
#else
#  define BZI_HAS_AVCODEC 0
#  define BZI_AV_ID(name) 0
#endif

#ifndef BENZINA_NO_JPEG
#  include <setjmp.h>
#  include <jpeglib.h>
#  include <jerror.h>
#  ifndef LIBJPEG_TURBO_VERSION
#    error "this jpeglib.h is not libjpeg-turbo's: define BENZINA_NO_JPEG"
#  endif
#endif

_Static_assert(sizeof(bzna_error) == 512, "bzna_error is part of the ABI");
_Static_assert(sizeof(bzna_loader_state) == 128, "bzna_loader_state is part of the ABI");
_Static_assert(sizeof(void *) <= sizeof(uint64_t), "addresses travel as uint64_t");

#define BZI_PRINTF(text, first) BZNA_ATTRIBUTE(format(printf, text, first))
#define BZI_MAYBE_UNUSED BZNA_ATTRIBUTE(unused)             /* not every build uses it */
#define BZI_COLD BZNA_ATTRIBUTE(cold)                       /* runs seldom: small, not fast, with what it calls */
/* It will be read soon. Without the fence, which is no instruction, gcc takes a function that only prefetches for one
 * without effects, and drops its calls. */
#if defined(__GNUC__) || defined(__clang__)
#  define BZI_PREFETCH(address) (__builtin_prefetch(address), atomic_signal_fence(memory_order_acq_rel))
#else
#  define BZI_PREFETCH(address) ((void)(address))
#endif


/* #### GROUND #########################################################################################################
 * Numbers, the operating system, memory, errors, files, the settings of the caller's structs, bounded reading. */


/* ==== 1. Limits =====================================================================================================
 * Every bound on what a file or a caller may ask for. */

#define BZI_LIMIT_DEPTH          16u             /* box nesting; real files reach 8 */
#define BZI_LIMIT_TRACKS         64u             /* tracks of a movie; archives have 4, with split variants 13 */
#define BZI_LIMIT_TOP_BOXES      65536u          /* boxes at file level: real files have less than 10 */
#define BZI_LIMIT_BOX_CHILDREN   1048576u        /* children of one box. Bounds the walk over a hostile file */
/* VPS + SPS + PPS that a writer keeps for one picture; encoders send 3 */
#define BZI_LIMIT_PARAMETER_SETS 16u
/* bytes of those: hvcC and avcC give each a 16-bit length */
#define BZI_LIMIT_CONFIG_BYTES   65536u

/* samples of a data set in which repetitions can be found, at a bit each: 1 GiB */
#define BZI_LIMIT_SEEN           (1ull << 33)
/* samples that a loader can remember as decoded undamaged by NVDEC, at a bit each: 16 MiB */
#define BZI_LIMIT_SOUND          (1ull << 27)

#define BZI_LIMIT_NAME_BYTES     65536u          /* bytes of a sample's file name */
#define BZI_LIMIT_PATH_BYTES     4096u           /* bytes of a path with its NUL: Linux's own limit */

/* scans of one picture: encoders make about 10, and each is a pass over the picture */
#define BZI_LIMIT_JPEG_SCANS     500u
/* bytes of the coefficients that a decoder of progressive JPEGs keeps, 2 bytes each: 175 megapixels in 4:2:0 */
#define BZI_LIMIT_JPEG_BYTES     (512ull << 20)

/* decoded bytes of a still with any number of coded bytes: a solid picture of 16 megapixels. A larger one needs a coded
 * byte for each BZI_LIMIT_STILL_RATIO decoded bytes */
#define BZI_LIMIT_STILL_BYTES    (64u << 20)
/* real pictures have at most about 1000 */
#define BZI_LIMIT_STILL_RATIO    4096u

#define BZI_LIMIT_TAR_EXTRA      16u             /* headers in a row that only describe a member; writers need 3 */
#define BZI_LIMIT_PAX_BYTES      (1u << 20)      /* bytes of one such header; writers need a few kB */

/* slices of a picture that is decoded in part: 16384 rows in slices of 64 rows */
#define BZI_LIMIT_SLICES         256u

#define BZI_LIMIT_BATCH          65536u          /* samples of a batch */
/* pixels of an output's edge; also the default for the edge of coded frames */
#define BZI_LIMIT_EDGE           16384u
#define BZI_LIMIT_THREADS        1024u           /* threads that decode in software */
#define BZI_LIMIT_READERS        256u            /* threads that read samples */
#define BZI_LIMIT_IN_FLIGHT      64u             /* batches of a loader that exist at the same time */
#define BZI_LIMIT_READ_AHEAD     65536u          /* samples that a loader reads ahead */

/* samples that a loader reads ahead where the config does not say how many: of tiny ones */
#define BZI_LIMIT_AHEAD          4096u
/* bytes read ahead in that case, for each decoder thread: some milliseconds of small pictures */
#define BZI_AHEAD_BYTES          (1u << 20)

/* a run, which readers hand over and workers take at once: samples, bytes (a part of a processor's cache), and the time
 * that it takes (100 times that of waking a thread) */
#define BZI_RUN_SAMPLES          128u
#define BZI_RUN_BYTES            (512u << 10)
#define BZI_PREFETCH_BYTES       4096u           /* of a sample; those that follow are fetched as it is read */
#define BZI_CACHE_LINE           64u
#define BZI_HOLD_BYTES           (256u << 20)    /* small files of a folder that stay in memory once they were read */
/* bytes of such a file: to open, read and close one takes 4 us, and to decode a JPEG of that size 150 us */
#define BZI_HOLD_SAMPLE_BYTES    (16u << 10)
#define BZI_RUN_NS               1000000u
#define BZI_READ_SLOW_NS         20000u          /* a read that takes longer waits for a disk or a network */

/* Decode sessions for each engine by default. The driver gives a session's pictures to one engine at a time, so with
 * two sessions an engine, some wait while others have two: 14 sessions kept an H200's 7 engines busy for 89 % of the
 * time, 28 for 98 %. */
#define BZI_SESSIONS_EACH        4u
#define BZI_SESSIONS_ALONE       3u              /* where there is one engine */
/* decode sessions of a context: no device has a tenth as many engines */
#define BZI_LIMIT_SESSIONS       256u
#define BZI_LIMIT_SESSION_MAPPED 8u              /* pictures of a session that one launch of the kernel warps */
#define BZI_LIMIT_SESSION_DEPTH  16u             /* pictures that a session has submitted and not mapped */

#define BZI_LIMIT_VECTOR         65536u          /* numbers of a vector that is a tensor */
/* fields of a tar's samples; those of a data set have one more, the key */
#define BZI_LIMIT_FIELDS         64u
#define BZI_LIMIT_ARCHIVE_FIELDS 60u             /* fields of an archive besides image, thumb, target and name */
#define BZI_LIMIT_CLASS_BYTES    (256u << 20)    /* bytes of the names of an archive's classes */
#define BZI_LIMIT_COLUMNS        16u             /* fields that a batch carries as tensors */
#define BZI_LIMIT_BYTES          64u             /* fields that a batch carries as bytes */
#define BZI_LIMIT_MADE           32u             /* tensors that a program makes */
#define BZI_LIMIT_MADE_BYTES     (256u << 20)    /* bytes of a sample in such a tensor, eight for each number */
/* tensors that batches have of fields: by name, made by the program, and the geometry */
#define BZI_LIMIT_FIELD_TENSORS  (BZI_LIMIT_COLUMNS + BZI_LIMIT_MADE + 1)
#define BZI_LIMIT_ALL_COLUMNS    (BZI_LIMIT_FIELD_TENSORS + BZI_LIMIT_BYTES)

#define BZI_LIMIT_OUTPUTS        16u             /* outputs of a loader: a lane keeps the slots of a launch for each */
/* views of a sample, in all outputs together: a thread keeps a slot for each */
#define BZI_LIMIT_VIEWS          64u

/* codecs of the program's own in a context: a thread keeps a state for each */
#define BZI_LIMIT_OWN_CODECS     32u
#define BZI_PROBE_BYTES          512u            /* the first bytes of a file, which say of what kind it is */
#define BZI_LIMIT_EXTENSIONS     256u            /* bytes of the extensions of one of them, with their NUL */
#define BZI_CANARY_BYTES         64u             /* before and after planes that such a codec writes */
#define BZI_LIMIT_POLICIES       16u             /* policies of an output */
#define BZI_LIMIT_OPERATIONS     256u            /* operations of a policy; AutoAugment's has 50 */

#define BZI_LIMIT_PARTS          65536u          /* archives of one data set */
/* files of data sets that stay open, or a quarter of the process's limit if that is less */
#define BZI_LIMIT_OPEN_FILES     64u
/* wait for a free descriptor: longer than other threads take to read a sample */
#define BZI_DESCRIPTOR_WAIT_NS   1000000000u

/* bytes of a box that is read whole: any but a sample table. The largest holds the names of classes */
#define BZI_LIMIT_BOX_BYTES      (512ull << 20)

/* folders in a class folder: links can make one folder appear in many places */
#define BZI_LIMIT_FOLDERS        (1u << 20)
/* threads that open files and list folders: more would wait for the same disk */
#define BZI_LIMIT_OPEN_THREADS   8u

/* samples tried for one slot: with more bad ones in a row, a data set is bad itself */
#define BZI_LIMIT_REPLACEMENTS   64u
#define BZI_LIMIT_RETRIES        1000u           /* times that a failed read is repeated */

/* default limit of a sample's bytes: a 16k x 16k picture at 8 bits a pixel */
#define BZI_LIMIT_SAMPLE_BYTES   (256ull << 20)
#define BZI_LIMIT_QUEUE_BYTES    (64u << 20)     /* default limit of the bytes that a writer keeps of samples */
#define BZI_LIMIT_READ_BYTES     (1ull << 30)    /* default limit of the bytes that are read ahead */

#define BZI_THUMB_EDGE           512u            /* pixels: a thumbnail's edge is at most this, as the format asks */
#define BZI_LOG_QUEUE            32u             /* messages kept for the caller's next call */
/* bytes: a cache line, and the alignment that AVX-512 and DLPack consumers like */
#define BZI_BATCH_ALIGN          64u


/* ==== 2. Basics =====================================================================================================
 * Pure helpers. Checked arithmetic returns 0 on overflow and leaves *out alone. */

#define BZI_LENGTH(array) (sizeof (array) / sizeof (array)[0])

typedef unsigned long long bzi_llu;   /* what %llu prints */

/* Bytes that belong to somebody else. */
typedef struct bzi_span {
    const uint8_t *data;
    uint64_t       size;
} bzi_span;

/* bzi_add and bzi_mul return 1, or 0 if the result exceeds 64 bits. */
static int bzi_add(uint64_t a, uint64_t b, uint64_t *out)
{
    if (a > UINT64_MAX - b)
        return 0;
    *out = a + b;
    return 1;
}

static int bzi_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    if (b && a > UINT64_MAX / b)
        return 0;
    *out = a * b;
    return 1;
}

static uint64_t bzi_min(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t bzi_max(uint64_t a, uint64_t b) { return a > b ? a : b; }


static void bzi_prefetch(const uint8_t *bytes, uint64_t size)
{
    for (uint64_t at = 0; at < bzi_min(size, BZI_PREFETCH_BYTES); at += BZI_CACHE_LINE)
        BZI_PREFETCH(bytes + at);
}

static uint32_t bzi_min32(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t bzi_default(uint32_t value, uint32_t otherwise) { return value ? value : otherwise; }
static uint32_t bzi_max32(uint32_t a, uint32_t b) { return a > b ? a : b; }

static uint32_t bzi_be16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }
static inline uint32_t bzi_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static uint64_t bzi_be64(const uint8_t *p) { return (uint64_t)bzi_be32(p) << 32 | bzi_be32(p + 4); }

BZI_MAYBE_UNUSED static uint32_t bzi_le32(const uint8_t *p)
{
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

/* Returns the number of a type such as "moov". */
static uint32_t bzi_type(const char text[4]) { return bzi_be32((const uint8_t *)text); }

BZI_MAYBE_UNUSED static void bzi_put_be32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}

/* Writes a type as text for messages. A byte that is not printable ASCII becomes '?'. */
static void bzi_fourcc_text(uint32_t type, char text[5])
{
    for (int i = 0; i < 4; i++) {
        uint32_t c = type >> (24 - 8 * i) & 255;

        text[i] = c > 32 && c < 127 ? (char)c : '?';
    }
    text[4] = 0;
}

/* Returns 1 if text is UTF-8, else 0: neither longer forms than are needed, nor surrogates. */
static int bzi_text_is_utf8(const char *text)
{
    static const uint32_t least[4] = { 0, 0x80, 0x800, 0x10000 };  /* codes that need so many bytes more */
    const uint8_t *at = (const uint8_t *)text;

    while (*at) {
        const uint32_t first = *at++, more = first < 0xc0 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
        uint32_t code = more ? first & 0x7fu >> more : first;

        for (uint32_t i = 0; i < more; i++, at++) {
            if ((*at & 0xc0) != 0x80)
                return 0;
            code = code << 6 | (*at & 0x3fu);
        }
        if (code < least[more] || code > 0x10ffff || code >> 11 == 0xd800 >> 11 || (code > 0x7f && !more))
            return 0;
    }
    return 1;
}

/* Cuts off a UTF-8 sequence that lost its end when the text was shortened. */
static void bzi_text_trim(char *text)
{
    size_t size = strlen(text), lead = size;
    unsigned char c;

    while (lead && size - lead < 4 && ((unsigned char)text[lead - 1] & 0xc0) == 0x80)
        lead--;
    if (!lead)
        return;

    c = (unsigned char)text[--lead];
    if (size - lead < (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : c >= 0xc0 ? 2u : 1u))
        text[lead] = 0;
}

/* Copies text of size bytes, which may lack a NUL, and ends it with one. Copies no part of a UTF-8 sequence. */
static void bzi_text_copy(char *dst, size_t capacity, const uint8_t *src, uint64_t size)
{
    size_t n = 0;

    while (n + 1 < capacity && n < size && src[n]) {
        dst[n] = (char)src[n];
        n++;
    }

    dst[n] = 0;
    if (n < size && src[n])
        bzi_text_trim(dst);
}

static char bzi_lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

/* Returns 1 if a word is in a list, in any case. list: words in small letters, each between blanks. */
static int bzi_word_is_in(const char *word, const char *list)
{
    char wanted[16];
    size_t length = strlen(word);

    if (length == 0 || length > sizeof wanted - 3 || strchr(word, ' '))
        return 0;

    wanted[0] = ' ';
    for (size_t i = 0; i < length; i++)
        wanted[i + 1] = bzi_lower(word[i]);

    memcpy(wanted + length + 1, " ", 2);
    return strstr(list, wanted) != NULL;
}

/* Each byte that is not printable ASCII becomes '?'. */
static void bzi_text_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 32 || (unsigned char)*text > 126)
            *text = '?';
}

/* Copies text of size bytes for a message. */
static void bzi_text_show(char *dst, size_t capacity, const uint8_t *src, uint64_t size)
{
    bzi_text_copy(dst, capacity, src, size);
    bzi_text_printable(dst);
}

/* As memcpy, but the addresses of no bytes may be NULL. */
static void bzi_copy(void *dst, const void *src, uint64_t size)
{
    if (size)
        memcpy(dst, src, (size_t)size);
}

/* As memchr, likewise. */
static const void *bzi_find_byte(const void *bytes, int byte, uint64_t size)
{
    return size ? memchr(bytes, byte, (size_t)size) : NULL;
}

/* Pre: there are n bytes. */
static bzi_span bzi_span_skip(bzi_span s, uint64_t n) { return (bzi_span){ s.data + n, s.size - n }; }

static int bzi_span_is(bzi_span s, const char *text)
{
    return s.size == strlen(text) && !memcmp(s.data, text, (size_t)s.size);
}

static int bzi_span_begins(bzi_span s, const char *bytes, uint64_t size)
{
    return s.size >= size && !memcmp(s.data, bytes, (size_t)size);
}

/* Like bzi_text_copy, for text that ends with a NUL. */
static void bzi_string_copy(char *dst, size_t capacity, const char *src)
{
    bzi_text_copy(dst, capacity, (const uint8_t *)src, strlen(src));
}

/* Returns the smallest i for which number i exceeds value, or count if there is none. Pre: the numbers ascend. step:
 * bytes from one to the next. */
static uint64_t bzi_search_above(const uint64_t *first, uint64_t count, size_t step, uint64_t value)
{
    uint64_t low = 0, high = count, number;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        memcpy(&number, (const uint8_t *)first + middle * step, sizeof number);
        if (number > value)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}


/* FNV-1a, for fingerprints and states, not for keys that an attacker chooses. Continues `hash`. */
static uint64_t bzi_hash(uint64_t hash, const void *data, uint64_t size)
{
    const uint8_t *p = data;

    for (uint64_t i = 0; i < size; i++)
        hash = (hash ^ p[i]) * 0x100000001b3ull;
    return hash;
}
#define BZI_HASH_START 0xcbf29ce484222325ull

/* Makes little-endian numbers of this machine's, in place, or the reverse. */
static void bzi_flip_to_little(void *data, uint64_t size, size_t width)
{
    const uint16_t one = 1;
    const int is_little = *(const uint8_t *)&one;
    uint8_t *p = data;

    for (uint64_t i = 0; !is_little && i + width <= size; i += width)
        for (size_t k = 0; k < width / 2; k++) {
            const uint8_t byte = p[i + k];
            p[i + k] = p[i + width - 1 - k];
            p[i + width - 1 - k] = byte;
        }
}

/* Versioned structs: caller and library may know different sizes of one struct.
 * - In: the members that both know are copied over the defaults in dst. Members that only the caller knows must be
 *   zero, because the library would ignore them.
 * - Out: the caller gets the members that it knows, and struct_size is how many bytes these have. */
#define BZI_STRUCT_GROWTH 4096u               /* bytes that a later version may add; a larger struct_size is an error */

static int bzi_is_zero(const void *data, size_t size)
{
    const uint8_t *bytes = data;

    while (size && !bytes[size - 1])
        size--;
    return size == 0;
}

/* Returns 0 if struct_size makes no sense, or if bytes past the known size are not zero. */
static int bzi_struct_in_over(void *dst, size_t known, const void *src)
{
    uint32_t given;

    memcpy(&given, src, sizeof given);
    if (given < sizeof given || given > known + BZI_STRUCT_GROWTH)
        return 0;

    if (given > known && !bzi_is_zero((const uint8_t *)src + known, given - known))
        return 0;

    memcpy(dst, src, given < known ? given : known);
    return 1;
}

/* The same for element i of an array, whose defaults are zeros. Returns 0, too, if it states another size than the
 * first element. */
static int bzi_struct_in_array(void *dst, size_t known, const void *array, uint64_t i)
{
    uint32_t first, given;
    const uint8_t *at;

    memcpy(&first, array, sizeof first);
    at = (const uint8_t *)array + (size_t)i * first;
    memcpy(&given, at, sizeof given);

    memset(dst, 0, known);
    return bzi_struct_in_over(dst, known, at) && given == first;
}

/* Copies the members that the caller's struct has, and sets struct_size in both. */
static void bzi_struct_out(void *dst, size_t given, void *src, size_t known)
{
    uint32_t size = (uint32_t)(given < known ? given : known);

    if (given < sizeof size)
        return;

    memcpy(src, &size, sizeof size);
    memcpy(dst, src, size);
}

/* Fills a caller's config with its defaults, NULL: zeros. struct_size becomes the caller's size, so that members which
 * only a newer library knows are not silently ignored. */
static void bzi_struct_init(void *config, size_t given, void *defaults, size_t known)
{
    uint32_t size = (uint32_t)given;

    if (!config || given < sizeof size || given > UINT32_MAX)
        return;

    if (defaults)
        bzi_struct_out(config, given, defaults, known);
    else
        memset(config, 0, given < known ? given : known);
    memcpy(config, &size, sizeof size);
}


/* ==== 3. OS =========================================================================================================
 * The interface to the system. Each platform has a room that implements it; no other room has system calls, system
 * headers or conditions on the platform. Unless it is said otherwise, functions return 0 or an errno. Paths are UTF-8,
 * with / between folders.
 *
 *   bzi_file, with fd, and with size, modified_ns and id as they were when it was opened
 *     bzi_os_file_open(file, path, write): for reading, or made anew for writing. ESPIPE: it cannot be read at any
 *       offset, as a pipe; EOPNOTSUPP: it states no size, as files in /proc; EISDIR: a folder
 *     bzi_os_file_size(file): now; it may have been shortened
 *     bzi_os_file_read_at(file, offset, dst, size): the number of bytes read, 0 at the end, or -errno
 *     bzi_os_file_write_some(file, offset, src, size): the number of bytes written, or -errno
 *     bzi_os_file_sync(file): waits until all written bytes are on the disk. Devices and pipes need not be able to
 *     bzi_os_file_close(file)
 *     bzi_os_file_limit(): how many files the process may have open
 *
 *   bzi_os_kind(path): BZI_OS_...; a link counts as what it leads to
 *     bzi_os_is_absolute(path): 1 or 0
 *     bzi_os_here(path, capacity): writes the path of the working folder. 0: there is none that fits
 *
 *   bzi_os_now_ns(), bzi_os_sleep_ns(ns): a clock that never steps back
 *   bzi_os_processors(), bzi_os_process(): their number, at least 1; the process's number

 *   bzi_os_error(error): the system's text for an errno, up to the thread's next call
 *   bzi_os_library(name), bzi_os_symbol(library, name): NULL: it is not there
 *   BZI_OS_CUDA, BZI_OS_NVCUVID: the names of NVIDIA's libraries
 *   bzi_os_aligned(size, align), bzi_os_free: memory. align: a power of two, at least that of a pointer
 *
 *   bzi_thread, bzi_mutex, bzi_cond; with BENZINA_NO_THREADS, none is started and locks do nothing
 *     bzi_os_thread_start(&thread, run, argument, cpu): on one processor, or on any if cpu < 0. run returns
 *       BZI_OS_THREAD, which is 0
 *     bzi_os_thread_join(thread)
 *     bzi_os_mutex_init(mutex, rank): BZI_RANK_...: where it stands in the order of locks
 *     bzi_os_mutex_free(mutex), bzi_os_lock(mutex), bzi_os_unlock(mutex)
 *     bzi_os_try_lock(mutex): 1: the caller has locked it; 0: another thread has it
 *     bzi_os_cond_init, _free, bzi_os_wake_one, _wake_all
 *     bzi_os_locks_init, _free: a mutex with its conditions, all of them or none
 *     bzi_os_exclusive_begin(exclusive, given_up), _end(exclusive): work that one thread at a time does
 *     bzi_os_wait(cond, mutex): may return without a reason
 *     bzi_os_wait_until(cond, mutex, deadline_ns): likewise with 0; 1 when the deadline has passed */

#ifndef BENZINA_NO_FOLDERS
/*   bzi_os_folder, with id, which tells it from all other folders
 *     bzi_os_folder_open(folder, path), bzi_os_folder_close(folder)
 *     bzi_os_folder_next(folder, &kind, &error): the next name and its kind. NULL: the end, or an error */
#endif

/* NONE: nothing is there, or the system does not tell. */
enum { BZI_OS_NONE, BZI_OS_FILE, BZI_OS_FOLDER, BZI_OS_OTHER };



typedef struct bzi_file {
    int      fd;                      /* -1: it is closed */
    uint64_t size;
    int64_t  modified_ns;             /* of the last change, since 1970 */
    uint64_t id[3];                   /* tells the file and its version: device, number, time of the last change */
} bzi_file;

#ifdef _MSC_VER                       /* it has C11's atomics, but not this word of C11 */
#  define BZI_THREAD_LOCAL __declspec(thread)
#else
#  define BZI_THREAD_LOCAL _Thread_local
#endif

/* How many user callbacks are under way on this thread, one inside the other. Meanwhile calls that wait are refused: a
 * close inside a callback would wait for itself. */
#ifdef BENZINA_NO_THREADS             /* one thread alone uses the library */
#  define BZI_THREADS 0
static int bzi_os_in_callback;
#else
#  define BZI_THREADS 1
static BZI_THREAD_LOCAL int bzi_os_in_callback;
#endif


#ifndef _WIN32

/* ==== 4. OS: POSIX ==================================================================================================
 * Linux with glibc or musl, macOS, FreeBSD. */

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifndef BENZINA_NO_THREADS
#  include <pthread.h>
#  include <signal.h>
#  ifdef __linux__
#    include <sys/syscall.h>
#  endif
#endif

#if !defined(O_CLOEXEC) || !defined(DT_REG)
#  error "a system header before benzina.c hid parts of POSIX: define _GNU_SOURCE before the first #include of this \
file, compile with -std=gnu11, or include benzina.c before all others"
#endif
_Static_assert(sizeof(off_t) == 8, "define _FILE_OFFSET_BITS as 64 before the first #include of the file");

#define BZI_OS_CUDA    "libcuda.so.1"
#define BZI_OS_NVCUVID "libnvcuvid.so.1"
#define BZI_OS_THREAD  void *

/* --- What differs between them --- */

#ifdef __APPLE__
#  define st_mtim st_mtimespec
#endif

#ifdef F_FULLFSYNC
/* On macOS fsync leaves bytes in the disk's own cache, but not every file system has more. */
static int bzi_posix_sync(int fd) { return fcntl(fd, F_FULLFSYNC) != -1 ? 0 : errno == EINTR ? -1 : fsync(fd); }
#else
static int bzi_posix_sync(int fd) { return fdatasync(fd); }
#endif

/* --- Files --- */

static int bzi_os_file_open(bzi_file *file, const char *path, int write)
{
    /* the open of a pipe must not block; for files this changes nothing */
    const int flags = O_CLOEXEC | (write ? O_RDWR | O_CREAT | O_TRUNC : O_RDONLY | O_NONBLOCK);
    int error;
    struct stat info;
    char byte;

    memset(file, 0, sizeof *file);
    do
        file->fd = open(path, flags, 0666);
    while (file->fd < 0 && errno == EINTR);
    if (file->fd < 0)
        return errno;

    error = fstat(file->fd, &info) ? errno : S_ISDIR(info.st_mode) ? EISDIR : 0;
    if (!error && !write && !S_ISREG(info.st_mode))
        error = ESPIPE;  /* a pipe, a socket or a device */
    if (!error && !write && info.st_size == 0 && pread(file->fd, &byte, 1, 0) == 1)
        error = EOPNOTSUPP;  /* it states a size of 0 but has bytes, as files in /proc do */
    if (error) {
        close(file->fd);
        return error;
    }

    file->size = (uint64_t)info.st_size;
    file->modified_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    file->id[0] = (uint64_t)info.st_dev;
    file->id[1] = (uint64_t)info.st_ino;
    file->id[2] = (uint64_t)file->modified_ns;
    return 0;
}

static uint64_t bzi_os_file_size(const bzi_file *file)
{
    struct stat info;
    return fstat(file->fd, &info) ? file->size : (uint64_t)info.st_size;
}

static uint64_t bzi_os_file_limit(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) ? 256 : (uint64_t)limit.rlim_cur;
}

static void bzi_os_file_close(bzi_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
}

static int64_t bzi_os_file_read_at(const bzi_file *file, uint64_t offset, void *dst, uint64_t size)
{
    ssize_t n;

    if (offset > INT64_MAX)
        return 0;

    do
        n = pread(file->fd, dst, (size_t)bzi_min(size, 1u << 30), (off_t)offset);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -(int64_t)errno : (int64_t)n;
}

BZI_MAYBE_UNUSED static int64_t bzi_os_file_write_some(const bzi_file *file, uint64_t offset, const void *src,
                                                       uint64_t size)
{
    ssize_t n;

    do
        n = pwrite(file->fd, src, (size_t)bzi_min(size, 1u << 30), (off_t)offset);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -(int64_t)errno : (int64_t)n;
}

BZI_MAYBE_UNUSED static int bzi_os_file_sync(bzi_file *file)
{
    while (bzi_posix_sync(file->fd))
        if (errno != EINTR)
            return errno == EINVAL || errno == EROFS ? 0 : errno;
    return 0;
}

/* --- Folders and paths --- */

/* Returns the kind of what a path names; a relative path begins in `folder`. */
static int bzi_os_kind_at(int folder, const char *path)
{
    struct stat info;

    if (fstatat(folder, path, &info, 0))
        return BZI_OS_NONE;
    return S_ISREG(info.st_mode) ? BZI_OS_FILE : S_ISDIR(info.st_mode) ? BZI_OS_FOLDER : BZI_OS_OTHER;
}

static int bzi_os_kind(const char *path) { return bzi_os_kind_at(AT_FDCWD, path); }

#ifndef BENZINA_NO_FOLDERS

typedef struct bzi_os_folder {
    DIR     *entries;
    uint64_t id[2];                   /* device, inode */
} bzi_os_folder;

static int bzi_os_folder_open(bzi_os_folder *folder, const char *path)
{
    struct stat info;

    do
        folder->entries = opendir(path);
    while (!folder->entries && errno == EINTR);
    if (!folder->entries)
        return errno;

    if (fstat(dirfd(folder->entries), &info)) {
        const int error = errno;
        closedir(folder->entries);
        return error;
    }

    folder->id[0] = (uint64_t)info.st_dev;
    folder->id[1] = (uint64_t)info.st_ino;
    return 0;
}

/* Most folders say the kind, so that a file needs no system call of its own. */
static const char *bzi_os_folder_next(bzi_os_folder *folder, int *kind, int *error)
{
    const struct dirent *entry;

    errno = 0;
    entry = readdir(folder->entries);
    *error = entry ? 0 : errno;
    if (!entry)
        return NULL;

    *kind = BZI_OS_OTHER;
    if (entry->d_type == DT_REG)
        *kind = BZI_OS_FILE;
    else if (entry->d_type == DT_DIR)
        *kind = BZI_OS_FOLDER;
    else if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN)
        *kind = bzi_os_kind_at(dirfd(folder->entries), entry->d_name);
    return entry->d_name;
}

static void bzi_os_folder_close(bzi_os_folder *folder) { closedir(folder->entries); }


#endif

static int bzi_os_is_absolute(const char *path) { return path[0] == '/'; }
static int bzi_os_here(char *path, size_t capacity) { return getcwd(path, capacity) && path[0] == '/'; }

/* --- Clock, processes, libraries, memory --- */

static uint64_t bzi_os_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t bzi_os_processors(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)bzi_min((uint64_t)n, BZI_LIMIT_THREADS) : 1;
}

BZI_MAYBE_UNUSED static void *bzi_os_library(const char *name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }
BZI_MAYBE_UNUSED static void *bzi_os_symbol(void *library, const char *name) { return dlsym(library, name); }


static struct timespec bzi_posix_time(uint64_t ns)
{
    return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };
}

static void bzi_os_sleep_ns(uint64_t ns)
{
    struct timespec left = bzi_posix_time(ns);
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

static int64_t bzi_os_process(void) { return (int64_t)getpid(); }

/* GNU's strerror_r returns the text, which may lie elsewhere; that of POSIX writes it. */
#define BZI_POSIX_GNU _Generic(&strerror_r, char *(*)(int, char *, size_t): 1, default: 0)

static const char *bzi_os_error(int error)
{
    static BZI_THREAD_LOCAL char text[96];
    intptr_t result;

    text[0] = 0;
    result = (intptr_t)strerror_r(error, text, sizeof text);
    if (BZI_POSIX_GNU)
        return (const char *)result;
    if (!text[0])
        snprintf(text, sizeof text, "error %d", error);
    return text;
}

static void *bzi_os_aligned(size_t size, size_t align)
{
    const size_t huge = 2097152;
    void *p = NULL;

    if (posix_memalign(&p, size < huge ? align : huge, size))
        return NULL;
#ifdef MADV_HUGEPAGE
    /* to clear a page of 2 MiB takes less time than 512 page faults; if the system has none, pages stay small */
    if (size >= huge)
        madvise(p, size, MADV_HUGEPAGE);
#endif
    return p;
}

static void bzi_os_free(void *ptr) { free(ptr); }

/* --- Threads --- */

#ifndef BENZINA_NO_THREADS

typedef pthread_mutex_t bzi_mutex;
typedef pthread_cond_t  bzi_cond;
typedef pthread_t       bzi_thread;

#ifdef __linux__
/* A bit for each processor on which a thread may run, as many as in glibc's cpu_set_t, which is declared only if
 * _GNU_SOURCE was defined before a program's first #include. */
typedef struct { unsigned long bits[1024 / (8 * sizeof(long))]; } bzi_posix_place;

/* Moves the calling thread, and threads that it starts, to one processor, and notes where it ran. */
static int bzi_posix_move(int32_t cpu, bzi_posix_place *before)
{
    const size_t of_a_word = 8 * sizeof(long);
    bzi_posix_place place = {{ 0 }};

    if ((size_t)cpu >= 8 * sizeof place)
        return EINVAL;

    place.bits[(size_t)cpu / of_a_word] = 1ul << (size_t)cpu % of_a_word;
    return syscall(SYS_sched_getaffinity, 0, sizeof *before, memset(before, 0, sizeof *before)) < 0 ||
           syscall(SYS_sched_setaffinity, 0, sizeof place, &place) < 0 ? errno : 0;
}

static void bzi_posix_move_back(const bzi_posix_place *before)
{
    syscall(SYS_sched_setaffinity, 0, sizeof *before, before);
}
#else
typedef int bzi_posix_place;
static int bzi_posix_move(int32_t cpu, bzi_posix_place *before) { return *before = cpu, ENOTSUP; }
static void bzi_posix_move_back(const bzi_posix_place *before) { (void)before; }
#endif

/* The library's threads block signals, so that handlers run on the program's own threads, but not those that a thread
 * causes itself: a host may handle these in its callbacks, as Julia's garbage collector does. */
static int bzi_os_thread_start(bzi_thread *thread, BZI_OS_THREAD (*run)(void *), void *argument, int32_t cpu)
{
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
    bzi_posix_place before;
    sigset_t blocked, old;
    int error = cpu < 0 ? 0 : bzi_posix_move(cpu, &before);

    if (error)
        return error;

    sigfillset(&blocked);
    for (size_t i = 0; i < BZI_LENGTH(own); i++)
        sigdelset(&blocked, own[i]);

    pthread_sigmask(SIG_SETMASK, &blocked, &old);
    error = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (cpu >= 0)
        bzi_posix_move_back(&before);
    return error;
}

static void bzi_os_thread_join(bzi_thread thread) { pthread_join(thread, NULL); }

static int bzi_os_mutex_init(bzi_mutex *mutex, uint32_t rank)
{
    return (void)rank, pthread_mutex_init(mutex, NULL);
}

static void bzi_os_mutex_free(bzi_mutex *mutex) { pthread_mutex_destroy(mutex); }
static void bzi_os_lock(bzi_mutex *mutex) { pthread_mutex_lock(mutex); }
static int bzi_os_try_lock(bzi_mutex *mutex) { return pthread_mutex_trylock(mutex) == 0; }
static void bzi_os_unlock(bzi_mutex *mutex) { pthread_mutex_unlock(mutex); }

static void bzi_os_cond_free(bzi_cond *cond) { pthread_cond_destroy(cond); }
static void bzi_os_wake_one(bzi_cond *cond) { pthread_cond_signal(cond); }
static void bzi_os_wake_all(bzi_cond *cond) { pthread_cond_broadcast(cond); }
static void bzi_os_wait(bzi_cond *cond, bzi_mutex *mutex) { pthread_cond_wait(cond, mutex); }

#ifdef __APPLE__
static int bzi_os_cond_init(bzi_cond *cond) { return pthread_cond_init(cond, NULL); }

static int bzi_os_wait_until(bzi_cond *cond, bzi_mutex *mutex, uint64_t deadline_ns)
{
    const uint64_t now = bzi_os_now_ns();
    const struct timespec left = bzi_posix_time(deadline_ns > now ? deadline_ns - now : 0);

    return pthread_cond_timedwait_relative_np(cond, mutex, &left) == ETIMEDOUT;
}
#else
/* Deadlines count on the clock of bzi_os_now_ns. */
static int bzi_os_cond_init(bzi_cond *cond)
{
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);

    if (error)
        return error;

    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    error = pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
    return error;
}

static int bzi_os_wait_until(bzi_cond *cond, bzi_mutex *mutex, uint64_t deadline_ns)
{
    const struct timespec deadline = bzi_posix_time(deadline_ns);
    return pthread_cond_timedwait(cond, mutex, &deadline) == ETIMEDOUT;
}
#endif

#endif

#endif


#ifdef _WIN32

/* ==== 5. OS: Windows ================================================================================================
 * Files are opened by absolute UTF-16 paths with the prefix \\?\, so that they may be longer than 260 characters.
 * Others may rename, remove or write them meanwhile, as elsewhere. */

#ifndef WIN32_LEAN_AND_MEAN
#  define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#  define NOMINMAX
#endif
#ifndef NOGDI
#  define NOGDI
#endif
#include <windows.h>
#include <io.h>
#include <fcntl.h>
#include <process.h>
#include <wchar.h>
#undef near                           /* windows.h gives these words to nothing */
#undef far

#define BZI_OS_CUDA    "nvcuda.dll"
#define BZI_OS_NVCUVID "nvcuvid.dll"
#define BZI_OS_THREAD  unsigned __stdcall

/* Returns errno's number for the last error of Windows, because the other rooms tell errors apart by errno. */
static int bzi_windows_error(void)
{
    switch (GetLastError()) {
    case ERROR_FILE_NOT_FOUND:         case ERROR_PATH_NOT_FOUND:      case ERROR_INVALID_NAME: case ERROR_BAD_NETPATH:
    case ERROR_BAD_NET_NAME:           case ERROR_INVALID_DRIVE:       return ENOENT;
    case ERROR_ACCESS_DENIED:          case ERROR_SHARING_VIOLATION:   case ERROR_LOCK_VIOLATION: return EACCES;
    case ERROR_NOT_ENOUGH_MEMORY:      case ERROR_OUTOFMEMORY:         return ENOMEM;
    case ERROR_DISK_FULL:              case ERROR_HANDLE_DISK_FULL:    return ENOSPC;
    case ERROR_NO_UNICODE_TRANSLATION: return EILSEQ;
    case ERROR_FILENAME_EXCED_RANGE:   return ENAMETOOLONG;
    case ERROR_TOO_MANY_OPEN_FILES:    return EMFILE;
    case ERROR_WRITE_PROTECT:          return EROFS;
    case ERROR_DIRECTORY:              return ENOTDIR;
    default:                           return EIO;
    }
}

/* --- Paths --- */

/* characters of a path that is given, and of an absolute one */
#define BZI_WINDOWS_PATH (2 * BZI_LIMIT_PATH_BYTES)

/* Returns the absolute path as UTF-16, for the caller to free, or NULL, and *error: EILSEQ if it is no UTF-8. */
static wchar_t *bzi_windows_path(const char *path, int *error)
{
    wchar_t *full = malloc((8 + 2 * BZI_WINDOWS_PATH) * sizeof *full), *at = full + 8, *wide = at + BZI_WINDOWS_PATH;
    const wchar_t *prefix = L"\\\\?\\";
    DWORD size = 0;

    *error = !full ? ENOMEM : !*path ? ENOENT : 0;
    if (!*error && (!MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, BZI_WINDOWS_PATH) ||
                    !(size = GetFullPathNameW(wide, BZI_WINDOWS_PATH, at, NULL))))
        *error = bzi_windows_error();
    if (*error || size >= BZI_WINDOWS_PATH) {
        *error = *error ? *error : ENAMETOOLONG;
        free(full);
        return NULL;
    }

    if (!wcsncmp(at, L"\\\\?\\", 4) || !wcsncmp(at, L"\\\\.\\", 4)) {
        prefix = L"";  /* it is such a path, or a device */
    } else if (!wcsncmp(at, L"\\\\", 2)) {
        prefix = L"\\\\?\\UNC\\";
        at += 2;
    }
    memmove(full + wcslen(prefix), at, (wcslen(at) + 1) * sizeof *full);
    memcpy(full, prefix, wcslen(prefix) * sizeof *full);
    return full;
}

/* Writes UTF-16 as UTF-8. Returns 1, or 0 if it does not fit. */
static int bzi_windows_narrow(const wchar_t *wide, char *text, size_t capacity)
{
    return WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, (int)bzi_min(capacity, INT_MAX), NULL, NULL) > 0;
}

static int bzi_os_is_absolute(const char *path)
{
    const char drive = (char)(path[0] | 0x20);
    return path[0] == '/' || path[0] == '\\' || (drive >= 'a' && drive <= 'z' && path[1] == ':');
}

static int bzi_os_here(char *path, size_t capacity)
{
    wchar_t wide[BZI_LIMIT_PATH_BYTES];
    const DWORD size = GetCurrentDirectoryW(BZI_LIMIT_PATH_BYTES, wide);

    if (!size || size >= BZI_LIMIT_PATH_BYTES || !bzi_windows_narrow(wide, path, capacity))
        return 0;
    for (; *path; path++)
        if (*path == '\\')
            *path = '/';
    return 1;
}

/* --- Files --- */

static int bzi_windows_kind(DWORD attributes)
{
    return attributes & FILE_ATTRIBUTE_DIRECTORY ? BZI_OS_FOLDER :
           attributes & FILE_ATTRIBUTE_DEVICE    ? BZI_OS_OTHER :
                                                   BZI_OS_FILE;
}

static int bzi_os_kind(const char *path)
{
    int error;
    wchar_t *wide = bzi_windows_path(path, &error);
    const DWORD attributes = wide ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;

    free(wide);
    return attributes == INVALID_FILE_ATTRIBUTES ? BZI_OS_NONE : bzi_windows_kind(attributes);
}

static HANDLE bzi_windows_handle(const bzi_file *file) { return (HANDLE)_get_osfhandle(file->fd); }

/* Returns what the path names, opened; else INVALID_HANDLE_VALUE, and *error. */
static HANDLE bzi_windows_open(const char *path, DWORD access, DWORD how, int *error)
{
    wchar_t *wide = bzi_windows_path(path, error);
    HANDLE handle = INVALID_HANDLE_VALUE;

    if (wide) {
        handle = CreateFileW(wide, access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, how,
                             FILE_ATTRIBUTE_NORMAL | FILE_FLAG_BACKUP_SEMANTICS, NULL);
        *error = handle == INVALID_HANDLE_VALUE ? bzi_windows_error() : 0;
    }
    free(wide);
    return handle;
}

static int bzi_os_file_open(bzi_file *file, const char *path, int write)
{
    BY_HANDLE_FILE_INFORMATION info;
    uint64_t time;
    int error;
    HANDLE handle = bzi_windows_open(path, GENERIC_READ | (write ? GENERIC_WRITE : 0),
                                     write ? CREATE_ALWAYS : OPEN_EXISTING, &error);

    memset(file, 0, sizeof *file);
    file->fd = -1;
    if (error)
        return write && bzi_os_kind(path) == BZI_OS_FOLDER ? EISDIR : error;

    if (GetFileType(handle) != FILE_TYPE_DISK)
        error = ESPIPE;
    else if (!GetFileInformationByHandle(handle, &info))
        error = bzi_windows_error();
    else if (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY)
        error = EISDIR;
    else if ((file->fd = _open_osfhandle((intptr_t)handle, _O_BINARY | (write ? _O_RDWR : _O_RDONLY))) < 0)
        error = EMFILE;
    if (error) {
        CloseHandle(handle);
        return error;
    }

    time = (uint64_t)info.ftLastWriteTime.dwHighDateTime << 32 | info.ftLastWriteTime.dwLowDateTime;
    file->size = (uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow;
    file->modified_ns = ((int64_t)time - 116444736000000000) * 100;  /* it counts 100 ns since 1601 */
    file->id[0] = info.dwVolumeSerialNumber;
    file->id[1] = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow;
    file->id[2] = time;
    return 0;
}

static uint64_t bzi_os_file_size(const bzi_file *file)
{
    LARGE_INTEGER size;
    return GetFileSizeEx(bzi_windows_handle(file), &size) ? (uint64_t)size.QuadPart : file->size;
}

static uint64_t bzi_os_file_limit(void) { return 2048; }    /* of the C library */

static void bzi_os_file_close(bzi_file *file)
{
    if (file->fd >= 0)
        _close(file->fd);
}

static int64_t bzi_os_file_read_at(const bzi_file *file, uint64_t offset, void *dst, uint64_t size)
{
    OVERLAPPED at = { .Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32) };
    DWORD n = 0;

    if (offset > INT64_MAX)
        return 0;
    if (ReadFile(bzi_windows_handle(file), dst, (DWORD)bzi_min(size, 1u << 30), &n, &at))
        return (int64_t)n;
    return GetLastError() == ERROR_HANDLE_EOF ? 0 : -(int64_t)bzi_windows_error();
}

BZI_MAYBE_UNUSED static int64_t bzi_os_file_write_some(const bzi_file *file, uint64_t offset, const void *src,
                                                       uint64_t size)
{
    OVERLAPPED at = { .Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32) };
    DWORD n = 0;

    return WriteFile(bzi_windows_handle(file), src, (DWORD)bzi_min(size, 1u << 30), &n, &at) ? (int64_t)n :
               -(int64_t)bzi_windows_error();
}

BZI_MAYBE_UNUSED static int bzi_os_file_sync(bzi_file *file)
{
    return FlushFileBuffers(bzi_windows_handle(file)) || GetLastError() == ERROR_INVALID_FUNCTION ? 0 :
               bzi_windows_error();
}

/* --- Folders --- */

typedef struct bzi_os_folder {
    HANDLE           find;
    WIN32_FIND_DATAW entry;           /* found last */
    int              is_first;        /* bzi_os_folder_next has not given it */
    char             name[4 * MAX_PATH];
    uint64_t         id[2];           /* volume, number */
} bzi_os_folder;

static int bzi_os_folder_open(bzi_os_folder *folder, const char *path)
{
    BY_HANDLE_FILE_INFORMATION info = { 0 };
    char pattern[BZI_LIMIT_PATH_BYTES + 2];
    wchar_t *wide;
    int error;
    HANDLE handle = bzi_windows_open(path, 0, OPEN_EXISTING, &error);

    if (error)
        return error;
    GetFileInformationByHandle(handle, &info);
    CloseHandle(handle);
    if (!(info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY))
        return ENOTDIR;
    folder->id[0] = info.dwVolumeSerialNumber;
    folder->id[1] = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow;

    if (snprintf(pattern, sizeof pattern, "%s/*", path) >= (int)sizeof pattern)
        return ENAMETOOLONG;
    if (!(wide = bzi_windows_path(pattern, &error)))
        return error;
    folder->find = FindFirstFileW(wide, &folder->entry);
    folder->is_first = 1;
    if (folder->find == INVALID_HANDLE_VALUE)
        error = bzi_windows_error();  /* before free, which may call the system, too */
    free(wide);
    return error;
}

static const char *bzi_os_folder_next(bzi_os_folder *folder, int *kind, int *error)
{
    *error = 0;
    if (!folder->is_first && !FindNextFileW(folder->find, &folder->entry)) {
        *error = GetLastError() == ERROR_NO_MORE_FILES ? 0 : bzi_windows_error();
        return NULL;
    }

    folder->is_first = 0;
    *kind = bzi_windows_kind(folder->entry.dwFileAttributes);
    if (bzi_windows_narrow(folder->entry.cFileName, folder->name, sizeof folder->name))
        return folder->name;
    *error = ENAMETOOLONG;
    return NULL;
}

static void bzi_os_folder_close(bzi_os_folder *folder) { FindClose(folder->find); }

/* --- Clock, processes, libraries, memory --- */

static uint64_t bzi_os_now_ns(void)
{
    LARGE_INTEGER now, each;

    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&each);
    return (uint64_t)(now.QuadPart / each.QuadPart) * 1000000000u +
           (uint64_t)(now.QuadPart % each.QuadPart) * 1000000000u / (uint64_t)each.QuadPart;
}

static void bzi_os_sleep_ns(uint64_t ns) { Sleep((DWORD)bzi_min((ns + 999999) / 1000000, 1u << 30)); }

static uint32_t bzi_os_processors(void)
{
    const DWORD n = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return n ? (uint32_t)bzi_min(n, BZI_LIMIT_THREADS) : 1;
}

static int64_t bzi_os_process(void) { return (int64_t)GetCurrentProcessId(); }

static const char *bzi_os_error(int error)
{
    static BZI_THREAD_LOCAL char text[96];

    if (strerror_s(text, sizeof text, error))
        snprintf(text, sizeof text, "error %d", error);
    return text;
}

BZI_MAYBE_UNUSED static void *bzi_os_library(const char *name) { return (void *)LoadLibraryA(name); }

BZI_MAYBE_UNUSED static void *bzi_os_symbol(void *library, const char *name)
{
    return (void *)(intptr_t)GetProcAddress((HMODULE)library, name);
}

static void *bzi_os_aligned(size_t size, size_t align) { return _aligned_malloc(size, align); }
static void bzi_os_free(void *ptr) { _aligned_free(ptr); }

/* --- Threads --- */

#ifndef BENZINA_NO_THREADS

typedef SRWLOCK            bzi_mutex;
typedef CONDITION_VARIABLE bzi_cond;
typedef HANDLE             bzi_thread;

/* Processors are those of the thread's group, at most 64. */
static int bzi_os_thread_start(bzi_thread *thread, BZI_OS_THREAD (*run)(void *), void *argument, int32_t cpu)
{
    DWORD_PTR allowed, all;

    if (cpu >= 0 && (cpu >= (int32_t)(8 * sizeof allowed) ||
                     !GetProcessAffinityMask(GetCurrentProcess(), &allowed, &all) || !(allowed >> cpu & 1)))
        return EINVAL;

    *thread = (HANDLE)_beginthreadex(NULL, 0, run, argument, CREATE_SUSPENDED, NULL);
    if (!*thread)
        return EAGAIN;
    if (cpu >= 0)
        SetThreadAffinityMask(*thread, (DWORD_PTR)1 << cpu);
    ResumeThread(*thread);
    return 0;
}

static void bzi_os_thread_join(bzi_thread thread)
{
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
}

static int bzi_os_mutex_init(bzi_mutex *mutex, uint32_t rank)
{
    return (void)rank, InitializeSRWLock(mutex), 0;
}

static void bzi_os_mutex_free(bzi_mutex *mutex) { (void)mutex; }
static void bzi_os_lock(bzi_mutex *mutex) { AcquireSRWLockExclusive(mutex); }
static int bzi_os_try_lock(bzi_mutex *mutex) { return TryAcquireSRWLockExclusive(mutex) != 0; }
static void bzi_os_unlock(bzi_mutex *mutex) { ReleaseSRWLockExclusive(mutex); }

static int bzi_os_cond_init(bzi_cond *cond) { return InitializeConditionVariable(cond), 0; }
static void bzi_os_cond_free(bzi_cond *cond) { (void)cond; }
static void bzi_os_wake_one(bzi_cond *cond) { WakeConditionVariable(cond); }
static void bzi_os_wake_all(bzi_cond *cond) { WakeAllConditionVariable(cond); }
static void bzi_os_wait(bzi_cond *cond, bzi_mutex *m) { SleepConditionVariableSRW(cond, m, INFINITE, 0); }

static int bzi_os_wait_until(bzi_cond *cond, bzi_mutex *mutex, uint64_t deadline_ns)
{
    const uint64_t now = bzi_os_now_ns(), left = deadline_ns > now ? deadline_ns - now : 0;

    SleepConditionVariableSRW(cond, mutex, (DWORD)bzi_min((left + 999999) / 1000000, 1u << 30), 0);
    return bzi_os_now_ns() >= deadline_ns;
}

#endif

#endif


/* ==== 6. OS: no threads =============================================================================================
 * Without threads there is nothing to lock, and nobody to wake. */

#ifdef BENZINA_NO_THREADS

typedef char bzi_mutex;
typedef char bzi_cond;
typedef char bzi_thread;

static int bzi_os_thread_start(bzi_thread *thread, BZI_OS_THREAD (*run)(void *), void *argument, int32_t cpu)
{
    (void)thread, (void)run, (void)argument, (void)cpu;
    return ENOTSUP;
}

#define BZI_OS_NOTHING(function, type) static void function(type unused) { (void)unused; }
BZI_OS_NOTHING(bzi_os_thread_join, bzi_thread)
BZI_OS_NOTHING(bzi_os_mutex_free, bzi_mutex *)
BZI_OS_NOTHING(bzi_os_lock, bzi_mutex *)
BZI_OS_NOTHING(bzi_os_unlock, bzi_mutex *)
BZI_OS_NOTHING(bzi_os_cond_free, bzi_cond *)
BZI_OS_NOTHING(bzi_os_wake_one, bzi_cond *)
BZI_OS_NOTHING(bzi_os_wake_all, bzi_cond *)

static int bzi_os_mutex_init(bzi_mutex *mutex, uint32_t rank) { return (void)rank, *mutex = 0; }
static int bzi_os_try_lock(bzi_mutex *mutex) { return (void)mutex, 1; }
static int bzi_os_cond_init(bzi_cond *cond) { return *cond = 0; }
/* Nothing ever waits without a deadline: what another thread would have to do is an error before that. */
static void bzi_os_wait(bzi_cond *cond, bzi_mutex *mutex) { (void)cond, (void)mutex; }

static int bzi_os_wait_until(bzi_cond *cond, bzi_mutex *mutex, uint64_t deadline_ns)
{
    const uint64_t now = bzi_os_now_ns();

    (void)cond, (void)mutex;
    if (now < deadline_ns)
        bzi_os_sleep_ns(deadline_ns - now);
    return 1;
}

#endif


/* ==== 7. OS: all systems, the order of locks ========================================================================
 * Calls: rooms 4.
 *
 * Each lock has a rank. A thread that holds a lock takes only locks that follow it here, and none if it is of the last
 * group (a leaf). A thread that waits holds only the lock of the condition, and one that runs a callback holds none.
 * Tests are compiled with BENZINA_CHECK_LOCKS, whose functions check these rules. */

/* Writes all size bytes. Returns 0 or an errno. */
BZI_MAYBE_UNUSED static int bzi_os_file_write_at(const bzi_file *file, uint64_t offset, const void *src, uint64_t size)
{
    for (uint64_t done = 0; done < size;) {
        const int64_t n = bzi_os_file_write_some(file, offset + done, (const uint8_t *)src + done, size - done);

        if (n <= 0)
            return n ? (int)-n : EIO;
        done += (uint64_t)n;
    }
    return 0;
}

/* The default allocator, with bzna_allocator's signatures. */
static void *bzi_os_alloc(void *user, size_t size, size_t align)
{
    (void)user;
    return bzi_os_aligned(size, align < sizeof(void *) ? sizeof(void *) : align);
}

static void bzi_os_release(void *user, void *ptr, size_t size)
{
    (void)user, (void)size;
    bzi_os_free(ptr);
}

enum {
    BZI_RANK_LOADER,
    BZI_RANK_POOL,                    /* the engines' queue */
    BZI_RANK_CONTEXT,
    BZI_RANK_WRITER,
    BZI_RANK_CREW,                    /* threads that open files */
    BZI_RANK_DEVICE,
    BZI_RANK_LOG,
    BZI_RANKS,
    BZI_RANK_LEAVES = BZI_RANK_CONTEXT       /* the first of the last group */
};

#ifdef BENZINA_CHECK_LOCKS
#  include "tests/unit/locks.h"
#else
#  define BZI_RANK_CALLBACK() ((void)0)
#endif

/* Makes a lock with its conditions. Returns 1, or 0 if the system has none left: then nothing was made. */
static int bzi_os_locks_init(bzi_mutex *mutex, uint32_t rank, bzi_cond *conds, uint32_t count)
{
    uint32_t made = 0;

    if (bzi_os_mutex_init(mutex, rank))
        return 0;
    while (made < count && !bzi_os_cond_init(&conds[made]))
        made++;
    if (made == count)
        return 1;
    while (made)
        bzi_os_cond_free(&conds[--made]);
    bzi_os_mutex_free(mutex);
    return 0;
}

static void bzi_os_locks_free(bzi_mutex *mutex, bzi_cond *conds, uint32_t count)
{
    while (count)
        bzi_os_cond_free(&conds[--count]);
    bzi_os_mutex_free(mutex);
}

/* Work that takes long, and that one thread at a time does, without holding a lock. */
typedef struct bzi_os_exclusive {
    bzi_mutex mutex;                  /* may guard what else the owner has */
    bzi_cond  over;                   /* taken is 0 again */
    uint32_t  taken;                  /* 1: a thread is at work */
} bzi_os_exclusive;

/* Waits until no thread is at work, and begins. Returns 0 if *given_up, which it reads once a second, is set before.
 * given_up: NULL: it never gives up. */
static int bzi_os_exclusive_begin(bzi_os_exclusive *exclusive, const atomic_int *given_up)
{
    int begun;

    bzi_os_lock(&exclusive->mutex);
    while (exclusive->taken && !(given_up && atomic_load(given_up)))
        bzi_os_wait_until(&exclusive->over, &exclusive->mutex, bzi_os_now_ns() + 1000000000u);
    begun = !exclusive->taken;
    exclusive->taken = 1;
    bzi_os_unlock(&exclusive->mutex);
    return begun;
}

static void bzi_os_exclusive_end(bzi_os_exclusive *exclusive)
{
    bzi_os_lock(&exclusive->mutex);
    exclusive->taken = 0;
    bzi_os_wake_one(&exclusive->over);
    bzi_os_unlock(&exclusive->mutex);
}

/* Around each call of a function of the user's. */
static void bzi_os_callback_begin(void)
{
    BZI_RANK_CALLBACK();
    bzi_os_in_callback++;
}

static void bzi_os_callback_end(void) { bzi_os_in_callback--; }

/* Runs a statement that calls one. */
#define BZI_CALLBACK(...) (bzi_os_callback_begin(), (void)(__VA_ARGS__), bzi_os_callback_end())


/* ==== 8. Memory =====================================================================================================
 * Calls: rooms 2, 7.
 *
 * The only caller of the user's allocator, whose release function gets each size back. */

typedef bzna_allocator bzi_memory;

/* Returns count * size bytes, or NULL if there is no memory or the product is too large. */
static void *bzi_alloc(const bzi_memory *memory, uint64_t count, uint64_t size, size_t align)
{
    uint64_t bytes;
    void *p;

    if (!bzi_mul(count, size, &bytes) || bytes > PTRDIFF_MAX)
        return NULL;

    BZI_CALLBACK(p = memory->alloc(memory->user, bytes ? (size_t)bytes : 1, align));
    return p;
}

static void *bzi_alloc_zero(const bzi_memory *memory, uint64_t count, uint64_t size)
{
    void *p = bzi_alloc(memory, count, size, 16);

    if (p)
        memset(p, 0, (size_t)(count * size));
    return p;
}

/* Releases what bzi_alloc returned for this count and size. NULL is ignored. */
static void bzi_release(const bzi_memory *memory, void *ptr, uint64_t count, uint64_t size)
{
    const size_t bytes = (size_t)(count * size);

    if (ptr)
        BZI_CALLBACK(memory->release(memory->user, ptr, bytes ? bytes : 1));
}

/* A growing array, of bytes or of elements. */
typedef struct bzi_buffer {
    uint8_t *data;                    /* NULL: nothing was reserved yet */
    uint64_t capacity;                /* bytes */
} bzi_buffer;

/* Makes room for size bytes; with `keep`, those that were there stay. Returns 0 if there is no memory; the buffer is
 * then as it was. Small and kept buffers have only malloc's alignment: with more, glibc before 2.38 leaves holes that
 * it cannot use again, and opening many files takes several times their memory. */
static int bzi_buffer_reserve(const bzi_memory *memory, bzi_buffer *buffer, uint64_t size, int keep)
{
    uint64_t capacity = buffer->capacity ? buffer->capacity : 4096;
    uint8_t *data;

    if (size <= buffer->capacity)
        return 1;

    while (capacity < size)
        if (!bzi_mul(capacity, 2, &capacity))
            return 0;

    data = bzi_alloc(memory, capacity, 1, keep || capacity <= 8192 ? 16 : BZI_BATCH_ALIGN);
    if (!data)
        return 0;

    if (keep)
        bzi_copy(data, buffer->data, buffer->capacity);
    bzi_release(memory, buffer->data, buffer->capacity, 1);
    buffer->data = data;
    buffer->capacity = capacity;
    return 1;
}

/* Returns 0 if there is no memory. *count: the elements that the buffer holds. */
static int bzi_buffer_push(const bzi_memory *memory, bzi_buffer *buffer, uint64_t *count, const void *element,
                           size_t size)
{
    if (!bzi_buffer_reserve(memory, buffer, (*count + 1) * size, 1))
        return 0;
    memcpy(buffer->data + (*count)++ * size, element, size);
    return 1;
}

static void bzi_buffer_free(const bzi_memory *memory, bzi_buffer *buffer)
{
    bzi_release(memory, buffer->data, buffer->capacity, 1);
    *buffer = (bzi_buffer){ 0 };
}

/* An arena is freed as a whole. It has a block for each part, but texts and small files share blocks. */
typedef struct bzi_arena_block {
    _Alignas(16) struct bzi_arena_block *next;
    uint64_t bytes;                   /* of all of it */
} bzi_arena_block;

typedef struct bzi_arena {
    const bzi_memory *memory;
    bzi_arena_block  *blocks;         /* the last one first */
    uint8_t          *text;           /* where the next short text lies; NULL: there was none yet */
    uint64_t          left;           /* bytes there */
    uint64_t          room;           /* of the last block for texts; each is twice as large, up to BZI_ARENA_ROOM */
} bzi_arena;

#define BZI_ARENA_TEXT 16384u         /* bytes of what shares a block, at most */
#define BZI_ARENA_ROOM 2097136u       /* bytes of a shared block, at most: a large page, with the block's own 16 */

static void *bzi_arena_add(bzi_arena *arena, uint64_t bytes)
{
    bzi_arena_block *block = NULL;

    if (bzi_add(bytes, sizeof *block, &bytes))
        block = bzi_alloc(arena->memory, bytes, 1, 16);
    if (!block)
        return NULL;
    *block = (bzi_arena_block){ arena->blocks, bytes };
    arena->blocks = block;
    return block + 1;
}

/* Returns count * size bytes that last until bzi_arena_free, or NULL. Those of size 1 may lie at any address. */
static void *bzi_arena_alloc(bzi_arena *arena, uint64_t count, uint64_t size)
{
    uint64_t bytes;

    if (!bzi_mul(count, size, &bytes))
        return NULL;
    if (size != 1 || bytes > BZI_ARENA_TEXT)
        return bzi_arena_add(arena, bytes);
    if (!arena->text || bytes > arena->left) {
        arena->left = bzi_min(bzi_max(2 * arena->room, bytes), BZI_ARENA_ROOM);
        if (!(arena->text = bzi_arena_add(arena, arena->left)))
            return NULL;
        arena->room = arena->left;
    }
    arena->left -= bytes;
    arena->text += bytes;
    return arena->text - bytes;
}

static void *bzi_arena_zero(bzi_arena *arena, uint64_t count, uint64_t size)
{
    void *bytes = bzi_arena_alloc(arena, count, size);

    return bytes ? memset(bytes, 0, (size_t)(count * size)) : NULL;
}

/* The same for an array, of which `place` is then the address. */
#define BZI_ARENA_ZERO(arena, place, count) ((place) = bzi_arena_zero(arena, count, sizeof *(place)))

static void *bzi_arena_copy(bzi_arena *arena, const void *from, uint64_t count, uint64_t size)
{
    void *copy = bzi_arena_alloc(arena, count, size);

    if (copy)
        bzi_copy(copy, from, count * size);
    return copy;
}

static const char *bzi_arena_text(bzi_arena *arena, const char *text)
{
    return bzi_arena_copy(arena, text, strlen(text) + 1, 1);
}

/* Moves all of one arena to another. */
BZI_MAYBE_UNUSED static void bzi_arena_join(bzi_arena *to, bzi_arena *from)
{
    bzi_arena_block **end = &from->blocks;

    while (*end)
        end = &(*end)->next;
    *end = to->blocks;
    to->blocks = from->blocks;
    *from = (bzi_arena){ .memory = from->memory };
}

static void bzi_arena_free(bzi_arena *arena)
{
    while (arena->blocks) {
        bzi_arena_block *block = arena->blocks;
        arena->blocks = block->next;
        bzi_release(arena->memory, block, block->bytes, 1);
    }
    arena->text = NULL;
}


/* ==== 9. Errors =====================================================================================================
 * Calls: rooms 2.
 *
 * Inside the library, a bzna_error is never NULL, and complete. Public functions copy it to the caller's. */

static const char *bzi_status_text(bzna_status status)
{
    switch (status) {
#define BZI_STATUS_TEXT(name, number, text) case number: return text;
    BZNA_STATUS_MAP(BZI_STATUS_TEXT)
#undef BZI_STATUS_TEXT
    default: return "unknown status";
    }
}

/* Of the message only its end: this runs for each call of a provider. */
static void bzi_error_init(bzna_error *err)
{
    memset(err, 0, offsetof(bzna_error, message) + 1);
    err->struct_size = sizeof *err;
    err->byte_offset = BZNA_NO_OFFSET;
}

#define BZI_AT "at byte "             /* begins messages of errors that have an offset */

/* Fills in an error and returns its status. offset: a byte of the file, which begins the message, or BZNA_NO_OFFSET.
 * fourcc: the box type, or 0. native: an errno or a driver's code, or 0; one of more than 32 bits becomes -1. */
BZI_COLD BZI_PRINTF(6, 7)
static bzna_status bzi_fail(bzna_error *err, bzna_status status, uint64_t offset, uint32_t fourcc, int64_t native,
                            const char *format, ...)
{
    va_list arguments;
    int used = 0;

    bzi_error_init(err);
    err->status = status;
    err->byte_offset = offset;
    err->fourcc = fourcc;
    err->native_code = native < INT32_MIN || native > INT32_MAX ? -1 : (int32_t)native;

    if (offset != BZNA_NO_OFFSET)
        used = snprintf(err->message, sizeof err->message, BZI_AT "%llu: ", (bzi_llu)offset);

    va_start(arguments, format);
    if (vsnprintf(err->message + used, sizeof err->message - (size_t)used, format, arguments) >=
        (int)sizeof err->message - used)
        bzi_text_trim(err->message);
    va_end(arguments);

    return status;
}

/* Analyzers do not look into functions whose arguments vary. */
#ifdef __clang_analyzer__
#  define bzi_fail(err, status, ...) (bzi_fail((err), (status), __VA_ARGS__), (status))
#endif

#define BZI_FAIL_AT(err, status, offset, ...) bzi_fail((err), (status), (offset), 0, 0, __VA_ARGS__)
#define BZI_FAIL(err, status, ...)            BZI_FAIL_AT(err, status, BZNA_NO_OFFSET, __VA_ARGS__)
#define BZI_FAIL_BY(err, status, native, ...) bzi_fail((err), (status), BZNA_NO_OFFSET, 0, (native), __VA_ARGS__)
#define BZI_MISUSE(err, ...)                  BZI_FAIL(err, BZNA_E_ARGUMENT, __VA_ARGS__)

/* Returns 1 for a status with which a codec or a provider may fail a sample. */
static int bzi_is_of_sample(int32_t status)
{
    return status == BZNA_E_MEMORY || status == BZNA_E_UNSUPPORTED ||
           (status <= BZNA_E_FORMAT && status >= BZNA_E_LIMIT) ||
           (status <= BZNA_E_CODEC && status >= BZNA_E_MISMATCH);
}

/* Fails because a function of the caller's returned `said`: with the message that it left in *err, else with
 * `otherwise`. bytes: an offset that is not below them has no meaning. */
static bzna_status bzi_fail_said(bzna_error *err, bzna_status status, int32_t said, uint64_t bytes,
                                 const char *otherwise)
{
    bzna_error left = *err;

    left.message[sizeof left.message - 1] = 0;  /* the caller's function may have left none */
    BZI_FAIL_BY(err, status, status == said ? left.native_code : said, "%s",
                left.message[0] ? left.message : otherwise);
    err->byte_offset = left.byte_offset < bytes ? left.byte_offset : BZNA_NO_OFFSET;
    return status;
}

/* what: the use of the memory, after "out of memory for". */
BZI_COLD
static bzna_status bzi_fail_memory(bzna_error *err, const char *what)
{
    return BZI_FAIL(err, BZNA_E_MEMORY, "out of memory for %s", what);
}

/* Puts a name before the message: "name: reason", or "name at byte 120: reason". Of a name that is too long it takes
 * the end, 96 bytes or more. Returns the error's status. */
BZI_COLD
static bzna_status bzi_error_prefix(bzna_error *err, const char *name)
{
    char message[2 * sizeof err->message];
    const size_t used = strlen(err->message) + sizeof "...: ", length = strlen(name);
    const size_t room = used + 96 < sizeof err->message ? sizeof err->message - used : 96;
    const char *end = length > room ? name + (length - room) : name;

    while (end > name && ((unsigned char)*end & 0xc0) == 0x80)
        end++;  /* not in the middle of a character */

    snprintf(message, sizeof message, "%s%s%s%s", end > name ? "..." : "", end,
             strncmp(err->message, BZI_AT, sizeof BZI_AT - 1) ? ": " : " ", err->message);
    bzi_string_copy(err->message, sizeof err->message, message);
    return err->status;
}

/* Names the boxes on the way to an error, like "meta/iloc". The last one's type goes into the error, too. */
BZI_COLD
static bzna_status bzi_error_box(bzna_error *err, const char *path)
{
    const size_t length = strlen(path);

    err->fourcc = length < 4 ? 0 : bzi_type(path + length - 4);
    return length ? bzi_error_prefix(err, path) : err->status;
}

#define BZI_FAIL_IN(err, status, offset, path, ...)                                                                    \
    (BZI_FAIL_AT(err, status, offset, __VA_ARGS__), bzi_error_box((err), (path)))


/* ==== 10. Host =======================================================================================================
 * Calls: rooms 2, 4, 7-9.
 *
 * The log, limits, work that threads share: what every room may use. */

/* A message that waits for the caller's next call. */
typedef struct bzi_log_entry {
    int32_t     level;                /* BZNA_LOG_... */
    bzna_status code;                 /* BZNA_OK if the message is no failure */
    char        message[sizeof ((bzna_error *)0)->message + 64];     /* the text, with its NUL */
} bzi_log_entry;

/* A codec of the program's own. Its name and extensions are those here. */
typedef struct bzi_own_codec {
    bzna_codec c;                     /* the caller's */
    char       name[BZNA_NAME_MAX];
    char       extensions[BZI_LIMIT_EXTENSIONS + 2];       /* as for bzi_word_is_in */
} bzi_own_codec;

/* Belongs to a context; each object that the context makes holds a reference. */
typedef struct bzi_host {
    bzi_memory    memory;             /* the allocator */
    atomic_int    references;         /* the last one frees the host */
    uint64_t      max_sample_bytes;   /* of a sample's coded bytes */
    uint32_t      max_edge_px;        /* of a coded picture's width and height */
    uint32_t      codecs;             /* that may be decoded, as BZNA_ALLOW_...; 0: all */
    bzi_own_codec own_codecs[BZI_LIMIT_OWN_CODECS];        /* in the order in which they are asked */
    uint32_t      own_codec_count;
    uint32_t      no_threads;         /* 1: the library starts none */
    uint32_t      log_any_thread;     /* log is called at once, on the thread that has the message */
    bzna_log_fn   log;                /* the user's function; NULL: nothing is logged */
    void         *log_user;
    int32_t       log_level;          /* messages of higher levels are dropped */
    bzi_mutex     log_mutex;          /* leaf lock over the queue; never held while the user's function is called */
    uint32_t      log_count;          /* messages in log_queue */
    uint32_t      log_lost;           /* since the last delivery, because the queue was full */
    bzi_log_entry log_queue[BZI_LOG_QUEUE]; /* the oldest first */
    uint32_t      file_limit;         /* files of data sets that stay open, at most */
    _Atomic uint32_t files;           /* those that are open */
} bzi_host;

static void bzi_host_retain(bzi_host *host) { atomic_fetch_add(&host->references, 1); }

static void bzi_host_drop(bzi_host *host)
{
    if (atomic_fetch_sub(&host->references, 1) == 1) {
        bzi_memory memory = host->memory;

        for (uint32_t i = 0; i < host->own_codec_count; i++) {
            const bzna_codec *codec = &host->own_codecs[i].c;
            if (codec->close)
                BZI_CALLBACK(codec->close(codec->user));
        }
        bzi_os_mutex_free(&host->log_mutex);
        bzi_release(&memory, host, 1, sizeof *host);
    }
}

/* Makes a host with one reference. Pre: config is checked and complete. */
static bzna_status bzi_host_open(const bzna_context_config *config, bzi_host **out, bzna_error *err)
{
    const bzi_memory memory = config->allocator;
    bzi_host *host = bzi_alloc_zero(&memory, 1, sizeof *host);

    if (!host)
        return bzi_fail_memory(err, "a context");

    host->memory = memory;
    atomic_init(&host->references, 1);
    host->max_sample_bytes = config->max_sample_bytes;
    host->max_edge_px = config->max_edge_px;
    host->codecs = config->codecs;
    host->no_threads = !BZI_THREADS || config->no_threads;
    host->log = config->log;
    host->log_user = config->log_user;
    host->log_level = config->log_level;
    host->log_any_thread = config->log_any_thread;

    host->file_limit = (uint32_t)bzi_max(bzi_min(bzi_os_file_limit() / 4, BZI_LIMIT_OPEN_FILES), 4);
    if (bzi_os_mutex_init(&host->log_mutex, BZI_RANK_LOG)) {
        bzi_release(&memory, host, 1, sizeof *host);
        return BZI_FAIL(err, BZNA_E_THREAD, "cannot make a lock");
    }

    *out = host;
    return BZNA_OK;
}

/* Pre: no lock is held. */
static void bzi_log_call(bzi_host *host, const bzi_log_entry *entry)
{
    /* <tgmath.h> has a macro log() */
    BZI_CALLBACK((host->log)(host->log_user, entry->level, entry->code, entry->message));
}

/* Any thread may call it. Queues the message until the caller's next call, unless the user wants messages at once. */
BZI_COLD BZI_PRINTF(4, 5)
static void bzi_log(bzi_host *host, int32_t level, bzna_status code, const char *format, ...)
{
    bzi_log_entry entry;
    va_list arguments;

    if (!host->log || level > host->log_level)
        return;

    entry.level = level;
    entry.code = code;
    va_start(arguments, format);
    vsnprintf(entry.message, sizeof entry.message, format, arguments);
    va_end(arguments);

    if (host->log_any_thread) {
        bzi_log_call(host, &entry);
        return;
    }

    bzi_os_lock(&host->log_mutex);
    if (host->log_count < BZI_LOG_QUEUE) {
        host->log_queue[host->log_count++] = entry;
    } else {
        /* it is more severe than the last one */
        if (level < host->log_queue[BZI_LOG_QUEUE - 1].level)
            host->log_queue[BZI_LOG_QUEUE - 1] = entry;
        host->log_lost++;
    }
    bzi_os_unlock(&host->log_mutex);
}

/* Hands queued messages to the user's function. Pre: this is the caller's thread, and it holds no lock. */
static void bzi_log_deliver(bzi_host *host)
{
    bzi_log_entry entry;
    uint32_t lost;

    if (!host->log || host->log_any_thread || bzi_os_in_callback)
        return;

    bzi_os_lock(&host->log_mutex);
    while (host->log_count) {
        entry = host->log_queue[0];
        host->log_count--;
        memmove(host->log_queue, host->log_queue + 1, host->log_count * sizeof entry);
        bzi_os_unlock(&host->log_mutex);
        bzi_log_call(host, &entry);
        bzi_os_lock(&host->log_mutex);
    }
    lost = host->log_lost;
    host->log_lost = 0;
    bzi_os_unlock(&host->log_mutex);

    if (lost) {
        snprintf(entry.message, sizeof entry.message, "%u more messages were dropped", lost);
        entry.level = BZNA_LOG_WARNING;
        entry.code = BZNA_OK;
        bzi_log_call(host, &entry);
    }
}

/* The same work on many things, shared by threads. */
typedef struct bzi_crew {
    bzna_status (*each)(void *user, uint64_t index, bzna_error *err); /* the work on one thing */
    void            *user;
    _Atomic uint64_t next;            /* the first index that no thread has taken */
    _Atomic uint64_t failed;          /* the lowest index that has failed so far; count: none has */
    bzi_mutex        mutex;           /* leaf lock over err and over changes of failed */
    bzna_error       err;             /* the error of index failed */
} bzi_crew;

/* A thread of a crew: takes indices until all below the lowest failed one are taken. */
static BZI_OS_THREAD bzi_crew_run(void *argument)
{
    bzi_crew *crew = argument;
    bzna_error err;
    uint64_t i;

    while ((i = atomic_fetch_add(&crew->next, 1)) < crew->failed) {
        if (crew->each(crew->user, i, &err) == BZNA_OK)
            continue;

        bzi_os_lock(&crew->mutex);
        if (i < crew->failed) {
            crew->failed = i;
            crew->err = err;
        }
        bzi_os_unlock(&crew->mutex);
    }
    return 0;
}

/* Calls each(user, i) for all i below count, on this thread and, if threads may be made, on others, until one fails.
 * The error is that of the lowest index that fails, however the threads share the work. */
static bzna_status bzi_parallel(const bzi_host *host, bzna_status (*each)(void *user, uint64_t index, bzna_error *err),
                                void *user, uint64_t count, bzna_error *err)
{
    bzi_crew crew = { .each = each, .user = user };
    bzi_thread threads[BZI_LIMIT_OPEN_THREADS];
    uint64_t wanted = host->no_threads ? 1 : bzi_min(bzi_min(bzi_os_processors(), BZI_LIMIT_OPEN_THREADS), count);
    uint32_t started = 0;

    atomic_init(&crew.failed, count);
    if (bzi_os_mutex_init(&crew.mutex, BZI_RANK_CREW))
        return BZI_FAIL(err, BZNA_E_THREAD, "cannot make a lock");

    while (started + 1 < wanted && !bzi_os_thread_start(&threads[started], bzi_crew_run, &crew, -1))
        started++;
    bzi_crew_run(&crew);
    while (started)
        bzi_os_thread_join(threads[--started]);
    bzi_os_mutex_free(&crew.mutex);

    if (crew.failed == count)
        return BZNA_OK;
    *err = crew.err;
    return err->status;
}


/* ==== 11. Host: files, sources =======================================================================================
 * Calls: rooms 2, 4, 7-9.
 *
 * A context limits how many files of its data sets stay open. The others are opened for each read, which takes about a
 * thousandth of the time of decoding a picture. Files are read, never mapped: if one is shortened, or a disk fails, a
 * read fails, and the process lives on.
 *
 * A sample is held if its bytes are in memory before it is read: at extent.data, where they are used. A source is held
 * if all of it is in memory.
 *
 *     bytes are     which is known by           in memory of               made so by
 *     outside       extent.data NULL            nobody                     bzi_source_open_path, _open_file, _open_user
 *     held          extent.data, source.held    the caller                 bzi_source_open_user (bzna_source.memory);
 *                                                                          bzi_reading_begin sets extent.data
 *     held          extent.data                 the provider               its row's `locate`
 *     read          sample.bytes                whoever reads: a buffer    bzi_reading_get
 *     fetched       sample.bytes                whoever reads: a buffer    bzi_reading_fetch: they have no place */

/* --- Files --- */

/* Writes a path that holds in any working folder. Returns 0 if it does not fit. */
static int bzi_path_absolute(char *full, size_t capacity, const char *path)
{
    char here[BZI_LIMIT_PATH_BYTES] = "";

    if (bzi_os_is_absolute(path) || !bzi_os_here(here, sizeof here))
        here[0] = 0;
    return snprintf(full, capacity, "%s%s%s", here, here[0] && *path ? "/" : "", path) < (int)capacity;
}

BZI_COLD
static bzna_status bzi_file_fail_open(int error, bzna_error *err)
{
    if (error == ESPIPE)
        return BZI_FAIL_BY(err, BZNA_E_UNSUPPORTED, error, "it is a pipe, a socket or a device, which cannot seek, but "
                           "samples are read in any order: write its contents to a file first");
    if (error == EOPNOTSUPP)
        return BZI_FAIL_BY(err, BZNA_E_UNSUPPORTED, error,
                           "it has bytes, but states a size of 0, as files in /proc do: copy it to another file first");
    return BZI_FAIL_BY(err, error == ENOENT || error == ENOTDIR ? BZNA_E_NOT_FOUND : BZNA_E_IO, error,
                       "cannot open: %s", bzi_os_error(error));
}

/* Opens a file to read it. If the process has no descriptor left, waits a while for one. */
static bzna_status bzi_file_open(bzi_file *file, const char *path, bzna_error *err)
{
    const uint64_t deadline_ns = bzi_os_now_ns() + BZI_DESCRIPTOR_WAIT_NS;
    int error;

    while ((error = bzi_os_file_open(file, path, 0)) == EMFILE && bzi_os_now_ns() < deadline_ns)
        bzi_os_sleep_ns(BZI_DESCRIPTOR_WAIT_NS / 100);
    return error ? bzi_file_fail_open(error, err) : BZNA_OK;
}

/* Judges a failed open of a data set's file: one that has gone is E_IO, since E_NOT_FOUND means that a sample has no
 * such field. */
static bzna_status bzi_file_fail_gone(bzna_error *err)
{
    if (err->status == BZNA_E_NOT_FOUND)
        err->status = BZNA_E_IO;
    return err->status;
}

/* --- Sources --- */

/* Bytes at offsets: the user's callbacks, a file, or the caller's memory. */
typedef struct bzi_source {
    bzna_source      callbacks;       /* how it is read, if it is the user's */
    uint32_t         is_file;
    bzi_file         file;            /* as it was first opened; fd -1: it is opened for each read */
    char            *path;            /* of a file that host counts: absolute, as the working folder may change */
    bzi_host        *host;            /* which counts this file among its open ones; NULL: it stays open */
    uint64_t         size;            /* bytes */
    const uint8_t   *held;            /* all of it, if it is held in memory; else NULL */
} bzi_source;

static bzna_status bzi_source_open_file(bzi_source *source, const char *path, bzna_error *err)
{
    if (bzi_file_open(&source->file, path, err) != BZNA_OK)
        return err->status;
    source->is_file = 1;
    source->size = source->file.size;
    return BZNA_OK;
}

static void bzi_source_close_file(bzi_source *source)
{
    if (!source->is_file || source->file.fd < 0)
        return;
    bzi_os_file_close(&source->file);
    if (source->host)
        atomic_fetch_sub(&source->host->files, 1);
    source->file.fd = -1;
}

static void bzi_source_close(bzi_source *source)
{
    bzi_source_close_file(source);
    if (source->path)
        bzi_release(&source->host->memory, source->path, strlen(source->path) + 1, 1);
    source->path = NULL;

    if (source->callbacks.close)
        BZI_CALLBACK(source->callbacks.close(source->callbacks.user));
}

/* Opens a file of a data set. It is open until bzi_source_close_surplus. */
static bzna_status bzi_source_open_path(bzi_source *source, bzi_host *host, const char *path, bzna_error *err)
{
    char full[2 * BZI_LIMIT_PATH_BYTES];

    if (!bzi_path_absolute(full, sizeof full, path))
        return bzi_file_fail_open(ENAMETOOLONG, err);
    if (bzi_source_open_file(source, full, err) != BZNA_OK)
        return err->status;

    source->host = host;
    atomic_fetch_add(&host->files, 1);
    if ((source->path = bzi_alloc(&host->memory, strlen(full) + 1, 1, 16)) != NULL) {
        bzi_copy(source->path, full, strlen(full) + 1);
        return BZNA_OK;
    }
    bzi_source_close(source);
    return bzi_fail_memory(err, "the path of a file");
}

/* After a data set was opened: if too many files are open, closes this one, to be opened for each read. */
static void bzi_source_close_surplus(bzi_source *source)
{
    if (source->host && atomic_load(&source->host->files) > source->host->file_limit)
        bzi_source_close_file(source);
}

static bzna_status bzi_source_open_user(bzi_source *source, const bzna_source *callbacks, bzna_error *err)
{
    int64_t size;

    BZI_CALLBACK(size = callbacks->size(callbacks->user));
    if (size < 0)
        return BZI_FAIL_BY(err, BZNA_E_IO, size, "the source's size callback failed with %lld", (long long)size);
    source->callbacks = *callbacks;
    source->held = callbacks->memory;
    source->size = (uint64_t)size;
    return BZNA_OK;
}

/* n: what the read returned: an error, or 0: the data end at `at`, or before if a file was shortened. */
static bzna_status bzi_source_fail(const bzi_source *source, int64_t n, uint64_t at, uint64_t left, bzna_error *err)
{
    const bzi_file *file = source->is_file ? &source->file : NULL;
    const uint64_t end = file ? bzi_min(bzi_os_file_size(file), at) : at;

    if (n < 0)
        return bzi_fail(err, BZNA_E_IO, at, 0, file ? -n : n, "reading %llu bytes failed with %lld%s%s%s",
                        (bzi_llu)left, (long long)n, file ? " (" : "",
                        file ? bzi_os_error((int)-n) : "", file ? ")" : "");
    return BZI_FAIL_AT(err, BZNA_E_TRUNCATED, end, "the data end %llu bytes too early%s",
                       (bzi_llu)(at + left - end),
                       file && end < file->size ? ": the file was shortened after it was opened" : "");
}

/* Reads all size bytes, or returns an error. Pre: a file is open. */
static bzna_status bzi_source_read_open(const bzi_source *source, uint64_t offset, void *dst, uint64_t size,
                                        bzna_error *err)
{
    uint8_t *p = dst;
    uint64_t done = 0;

    while (done < size) {
        const uint64_t at = offset + done;
        int64_t n;

        if (source->is_file) {
            n = bzi_os_file_read_at(&source->file, at, p + done, size - done);
        } else if (source->held) {
            n = at < source->size ? (int64_t)bzi_min(size - done, source->size - at) : 0;
            bzi_copy(p + done, source->held + at, (uint64_t)n);
        } else {
            BZI_CALLBACK(n = source->callbacks.read_at(source->callbacks.user, at, p + done, size - done));
        }
        if (n <= 0)
            return bzi_source_fail(source, n, offset + done, size - done, err);
        if (n == INT64_MAX)
            return BZI_FAIL_AT(err, BZNA_E_CALLBACK, offset + done, "read_at failed: its code is at fault");
        if ((uint64_t)n > size - done)
            return BZI_FAIL_AT(err, BZNA_E_CALLBACK, offset + done, "read_at returned %lld for a read of %llu bytes",
                               (long long)n, (bzi_llu)(size - done));
        done += (uint64_t)n;
    }
    return BZNA_OK;
}

/* Reads `size` bytes at an offset. A file that is not kept open is opened for this read, and must still be the one that
 * was there when the data set was opened: the offsets are those of that file. */
static bzna_status bzi_source_read(const bzi_source *source, uint64_t offset, void *dst, uint64_t size, bzna_error *err)
{
    bzi_source opened;
    bzna_status status;

    if (!source->is_file || source->file.fd >= 0)
        return bzi_source_read_open(source, offset, dst, size, err);

    opened = *source;
    if (bzi_file_open(&opened.file, source->path, err) != BZNA_OK)
        return bzi_file_fail_gone(err);
    if (opened.file.size == source->size && !memcmp(opened.file.id, source->file.id, sizeof opened.file.id))
        status = bzi_source_read_open(&opened, offset, dst, size, err);
    else
        status = BZI_FAIL(err, BZNA_E_IO, "the file has changed since it was opened");
    bzi_os_file_close(&opened.file);
    return status;
}

/* A view of a source for walks whose offsets rise. */
typedef struct bzi_window {
    const bzi_source *source;
    const bzi_memory *memory;         /* for bytes */
    const uint8_t    *held;           /* all that is walked over, from `at` on; or NULL: it is read */
    bzi_buffer        bytes;          /* the bytes read last */
    uint64_t          at;             /* their offset in the source */
    uint64_t          size;           /* how many they are */
} bzi_window;

#define BZI_WINDOW_READ      4096u    /* bytes read after a seek: a page */
#define BZI_WINDOW_READ_MOST 65536u   /* the most read at once, where a walk looks at nearly all bytes */

/* Gives size bytes at offset. While offsets follow closely, each read is twice as long. Pre: the bytes are in the
 * source. */
static bzna_status bzi_window_view(bzi_window *window, uint64_t offset, uint64_t size, const uint8_t **view,
                                   bzna_error *err)
{
    uint64_t end = window->at + window->size, n = BZI_WINDOW_READ;

    if (!window->held && (offset < window->at || offset + size > end)) {
        if (offset >= window->at && offset <= end + window->size && window->size)
            n = bzi_min(2 * window->size, BZI_WINDOW_READ_MOST);
        n = bzi_min(bzi_max(size, n), window->source->size - offset);
        window->size = 0;
        if (!bzi_buffer_reserve(window->memory, &window->bytes, n, 0))
            return bzi_fail_memory(err, "the bytes of a source");
        if (bzi_source_read(window->source, offset, window->bytes.data, n, err) != BZNA_OK)
            return err->status;
        window->at = offset;
        window->size = n;
    }
    *view = (window->held ? window->held : window->bytes.data) + (offset - window->at);
    return BZNA_OK;
}

/* Copies bytes that were viewed last, or reads them. Pre: they are in the source. */
static bzna_status bzi_window_copy(const bzi_window *window, uint64_t offset, void *dst, uint64_t size, bzna_error *err)
{
    if (offset < window->at || offset + size > window->at + window->size)
        return bzi_source_read(window->source, offset, dst, size, err);
    bzi_copy(dst, window->bytes.data + (offset - window->at), size);
    return BZNA_OK;
}


/* ==== 12. Settings =================================================================================================
 * Calls: rooms 2, 9.
 *
 * What the members of the caller's structs may be, and what zeros in them stand for: one table, by which they are
 * checked and completed, and of which `make bindings` makes those of Rust, Julia and Python. Rules of several members,
 * or of a data set, are where they are used. */

/* A setting. Members without a row may be anything. */
typedef struct bzi_setting {
    const char *name;                 /* as callers write it */
    uint8_t     of;                   /* BZI_OF_...: its struct */
    uint8_t     type;                 /* BZI_IS_... */
    uint16_t    offset;               /* of the member in its struct */
    uint16_t    bytes;                /* of the member, which may be an array */
    uint16_t    other_offset;         /* of two members, the second one's */
    uint16_t    other_bytes;
    float       least;                /* the smallest number allowed */
    float       most;                 /* the largest; 0: any, if it is finite */
    float       preset;               /* what 0 stands for; 0: itself, or what the code that uses it says */
} bzi_setting;

enum {
    BZI_IS_COUNT,                     /* uint32_t */
    BZI_IS_COUNT64,                   /* uint64_t */
    BZI_IS_CHOICE,                    /* uint32_t or int32_t: one of an enumeration, from 0 on */
    BZI_IS_FORMAT,                    /* likewise, and later versions may know more */
    BZI_IS_BITS,                      /* uint32_t: bits that may be set together */
    BZI_IS_SWITCH,                    /* uint32_t: 0 or 1 */
    BZI_IS_REAL,                      /* floats */
    BZI_IS_REAL64,                    /* doubles */
    BZI_IS_RANGE,                     /* pairs of floats, lo..hi */
    BZI_IS_RANGE64,                   /* pairs of doubles, lo..hi */
    BZI_IS_BOTH,                      /* two members of which both are given, or neither */
    BZI_IS_FIRST_ONLY,                /* must be 0 in further outputs */
    BZI_IS_EXTRA_ONLY,                /* must be 0 in the first output */
    BZI_IS_RESERVED                   /* words that are 0, so that they can have a meaning later */
};

/* Structs of the caller's, bzna_... without that; of loader_output, rules for further outputs, too. */
enum {
    BZI_OF_context_config, BZI_OF_dataset_config, BZI_OF_output, BZI_OF_loader_output, BZI_OF_extra_output,
    BZI_OF_loader_outputs, BZI_OF_loader_order, BZI_OF_loader_shard, BZI_OF_warp, BZI_OF_loader_filter,
    BZI_OF_loader_color, BZI_OF_jitter, BZI_OF_loader_fields, BZI_OF_loader_read, BZI_OF_loader_decode,
    BZI_OF_loader_errors, BZI_OF_loader_pipeline, BZI_OF_loader_augment, BZI_OF_transform, BZI_OF_writer_config,
    BZI_OF_writer_sample, BZI_OF_sink, BZI_OF_loader_config, BZI_OF_source, BZI_OF_provider,
    BZI_OF_provider_field, BZI_OF_policy, BZI_OF_operation, BZI_OF_codec, BZI_OF_image, BZI_OF_picture,
    BZI_OF_statistics
};

#define BZI_ROW(key, type, of, member, least, most, preset)                                                            \
    { #member, BZI_OF_##key, BZI_IS_##type, offsetof(bzna_##of, member), sizeof ((bzna_##of *)0)->member, 0, 0, least, \
      most, preset }
#define BZI_BOTH(of, a, b)                                                                                             \
    { #a ", " #b, BZI_OF_##of, BZI_IS_BOTH, offsetof(bzna_##of, a), sizeof ((bzna_##of *)0)->a,                        \
      offsetof(bzna_##of, b), sizeof ((bzna_##of *)0)->b, 0, 0, 0 }
#define BZI_NUMBER(type, of, member, least, most, preset) BZI_ROW(of, type, of, member, least, most, preset)
#define BZI_UP_TO(type, of, member, most)                 BZI_ROW(of, type, of, member, 0, most, 0)
#define BZI_PLAIN(type, of, member)                       BZI_ROW(of, type, of, member, 0, 0, 0)
#define BZI_SWITCH(of, member)                            BZI_ROW(of, SWITCH, of, member, 0, 1, 0)
#define BZI_CHOICE(of, member, most)                      BZI_ROW(of, CHOICE, of, member, 0, most, 0)
#define BZI_RESERVED(of, member)                          BZI_ROW(of, RESERVED, of, member, 0, 0, 0)
#define BZI_EXTRA(type, member, most)                     BZI_ROW(extra_output, type, loader_output, member, 0, most, 0)

static const bzi_setting bzi_settings[] = {
    BZI_NUMBER(CHOICE, context_config, log_level, 0, BZNA_LOG_DEBUG, BZNA_LOG_WARNING),
    BZI_CHOICE(context_config, device.kind, BZNA_DEVICE_CUDA),
    BZI_BOTH(context_config, allocator.alloc, allocator.release),
    BZI_SWITCH(context_config, log_any_thread),
    BZI_NUMBER(COUNT, context_config, max_edge_px, 1, 65535, BZI_LIMIT_EDGE),
    BZI_NUMBER(COUNT64, context_config, max_sample_bytes, 0, 0, BZI_LIMIT_SAMPLE_BYTES),
    BZI_UP_TO(COUNT, context_config, sessions, BZI_LIMIT_SESSIONS),
    BZI_UP_TO(COUNT, context_config, sessions_per_engine, BZI_LIMIT_SESSIONS),
    BZI_NUMBER(COUNT, context_config, session_depth, 1, BZI_LIMIT_SESSION_DEPTH, 4),
    BZI_NUMBER(COUNT, context_config, session_mapped, 1, BZI_LIMIT_SESSION_MAPPED, BZI_LIMIT_SESSION_MAPPED),
    BZI_BOTH(context_config, device_allocator.alloc, device_allocator.release),
    BZI_SWITCH(context_config, no_threads),
    BZI_UP_TO(BITS, context_config, codecs, 2 * BZNA_ALLOW_OWN - 1),
    BZI_UP_TO(COUNT64, context_config, own_codecs.count, BZI_LIMIT_OWN_CODECS),
    BZI_BOTH(context_config, own_codecs.ptr, own_codecs.count),
    BZI_RESERVED(context_config, own_codecs.reserved),

    BZI_SWITCH(dataset_config, allow_empty),
    BZI_BOTH(dataset_config, classes, class_count),
    BZI_CHOICE(dataset_config, class_order, BZNA_CLASS_ORDER_NUMERIC),
    BZI_CHOICE(dataset_config, orientation, BZNA_ORIENTATION_IGNORE),
    BZI_CHOICE(dataset_config, palette, BZNA_PALETTE_INDEX),
    BZI_BOTH(dataset_config, index, index_bytes),

    BZI_NUMBER(COUNT, output, width, 1, BZI_LIMIT_EDGE, 0),
    BZI_NUMBER(COUNT, output, height, 1, BZI_LIMIT_EDGE, 0),
    BZI_UP_TO(FORMAT, output, dtype, BZNA_DTYPE_UINT8),
    BZI_UP_TO(FORMAT, output, layout, BZNA_LAYOUT_NHWC),
    BZI_UP_TO(FORMAT, output, channels, BZNA_CHANNELS_GRAY),

    BZI_NUMBER(COUNT, loader_output, batch_size, 1, BZI_LIMIT_BATCH, 0),
    BZI_NUMBER(COUNT, loader_output, slices, 0, 0, 1),
    BZI_CHOICE(loader_output, device.kind, BZNA_DEVICE_CUDA),
    BZI_PLAIN(EXTRA_ONLY, loader_output, name),
    BZI_PLAIN(EXTRA_ONLY, loader_output, field),
    BZI_PLAIN(EXTRA_ONLY, loader_output, warp),
    BZI_PLAIN(EXTRA_ONLY, loader_output, filter),
    BZI_PLAIN(EXTRA_ONLY, loader_output, color),
    BZI_PLAIN(EXTRA_ONLY, loader_output, augment),
    BZI_CHOICE(loader_output, palette, BZNA_PALETTE_INDEX),
    BZI_RESERVED(loader_output, reserved),

    BZI_EXTRA(FIRST_ONLY, batch_size, 0),
    BZI_EXTRA(FIRST_ONLY, slices, 0),
    BZI_EXTRA(FIRST_ONLY, device, 0),
    BZI_EXTRA(FIRST_ONLY, stream, 0),
    BZI_EXTRA(FIRST_ONLY, buffers, 0),
    BZI_EXTRA(FIRST_ONLY, buffer_count, 0),
    BZI_EXTRA(CHOICE, palette, BZNA_PALETTE_INDEX),
    BZI_EXTRA(RESERVED, reserved, 0),

    BZI_UP_TO(COUNT64, loader_outputs, count, BZI_LIMIT_OUTPUTS - 1),
    BZI_BOTH(loader_outputs, ptr, count),
    BZI_RESERVED(loader_outputs, reserved),

    BZI_CHOICE(loader_order, kind, BZNA_ORDER_GIVEN),
    BZI_CHOICE(loader_order, last_batch, BZNA_LAST_FILL),
    BZI_NUMBER(COUNT64, loader_order, epochs, 0, 0, 1),
    BZI_BOTH(loader_order, indices, index_count),
    BZI_NUMBER(REAL64, loader_order, pad_value, -FLT_MAX, FLT_MAX, 0),
    BZI_RESERVED(loader_order, reserved),

    BZI_NUMBER(COUNT, loader_shard, world_size, 0, 0, 1),
    BZI_RESERVED(loader_shard, reserved),

    BZI_CHOICE(warp, kind, BZNA_WARP_MXNET),
    BZI_CHOICE(warp, crops, BZNA_CROPS_TORCHVISION),
    BZI_UP_TO(REAL64, warp, scale, 1e6),
    BZI_UP_TO(RANGE64, warp, ratio, 1e6),
    BZI_NUMBER(RANGE64, warp, degrees, -1e6, 1e6, 0),
    BZI_UP_TO(REAL64, warp, translate, 1e6),
    BZI_UP_TO(REAL64, warp, flip_h, 1),
    BZI_UP_TO(REAL64, warp, flip_v, 1),
    BZI_NUMBER(RANGE64, warp, rotate, -1e6, 1e6, 0),
    BZI_NUMBER(RANGE64, warp, shear, -89.999f, 89.999f, 0),
    BZI_UP_TO(REAL64, warp, perspective, 1),
    BZI_UP_TO(REAL64, warp, perspective_p, 1),
    BZI_SWITCH(warp, resize),
    BZI_SWITCH(warp, keep_ratio),
    BZI_SWITCH(warp, random_crop),
    BZI_UP_TO(REAL64, warp, mxnet.shear_ratio, 1e6),
    BZI_UP_TO(COUNT, warp, mxnet.canvas_px, 1e6),
    BZI_UP_TO(COUNT, warp, mxnet.crop_px, 1e6),
    BZI_UP_TO(COUNT, warp, mxnet.pad_px, 1e6),
    BZI_UP_TO(COUNT, warp, mxnet.short_edge_px, 1e6),
    BZI_SWITCH(warp, mxnet.has_crop_start),
    BZI_UP_TO(REAL, warp, mxnet.hls[0], 180),
    BZI_UP_TO(REAL, warp, mxnet.hls[1], 255),
    BZI_UP_TO(REAL, warp, mxnet.hls[2], 255),
    BZI_UP_TO(REAL, warp, mxnet.contrast, 0.999f),
    BZI_UP_TO(REAL, warp, mxnet.illumination, 1e6),
    BZI_SWITCH(warp, mxnet.clamp_hue),
    BZI_RESERVED(warp, mxnet.reserved0),
    BZI_RESERVED(warp, mxnet.reserved),
    BZI_RESERVED(warp, reserved0),
    BZI_RESERVED(warp, reserved),

    BZI_CHOICE(loader_filter, kind, BZNA_FILTER_CUBIC_075),
    BZI_CHOICE(loader_filter, antialias, BZNA_ANTIALIAS_ROUND),
    BZI_RESERVED(loader_filter, reserved),

    BZI_PLAIN(REAL, loader_color, mean),
    BZI_UP_TO(REAL, loader_color, std, FLT_MAX),
    BZI_PLAIN(REAL, loader_color, bias),
    BZI_PLAIN(REAL, loader_color, scale),
    BZI_PLAIN(REAL, loader_color, fill),
    BZI_CHOICE(loader_color, fill_space, BZNA_FILL_OUTPUT),
    BZI_CHOICE(loader_color, matrix, BZNA_MATRIX_BT2020_FULL),
    BZI_RESERVED(loader_color, reserved0),
    BZI_RESERVED(loader_color, reserved),

    BZI_UP_TO(RANGE, jitter, brightness, 1e6),
    BZI_UP_TO(RANGE, jitter, contrast, 1e6),
    BZI_UP_TO(RANGE, jitter, saturation, 1e6),
    BZI_NUMBER(RANGE, jitter, hue, -0.5, 0.5, 0),
    BZI_UP_TO(REAL, jitter, grayscale, 1),
    BZI_RESERVED(jitter, reserved0),
    BZI_RESERVED(jitter, reserved),

    BZI_UP_TO(COUNT, loader_fields, made_count, BZI_LIMIT_MADE),
    BZI_BOTH(loader_fields, made, made_count),
    BZI_BOTH(loader_fields, make, made_count),
    BZI_SWITCH(loader_fields, geometry),
    BZI_RESERVED(loader_fields, reserved),

    BZI_UP_TO(COUNT, loader_read, threads, BZI_LIMIT_READERS),
    BZI_UP_TO(COUNT, loader_read, ahead_samples, BZI_LIMIT_READ_AHEAD),
    BZI_NUMBER(COUNT64, loader_read, memory_bytes, 0, 0, BZI_LIMIT_READ_BYTES),
    BZI_UP_TO(COUNT, loader_read, retries, BZI_LIMIT_RETRIES),
    BZI_NUMBER(COUNT64, loader_read, backoff_ns, 0, 0, 1e7),
    BZI_RESERVED(loader_read, reserved0),
    BZI_RESERVED(loader_read, reserved),

    BZI_CHOICE(loader_decode, decoder, BZNA_DECODER_NVDEC),
    BZI_UP_TO(COUNT, loader_decode, threads, BZI_LIMIT_THREADS),
    BZI_CHOICE(loader_decode, jpeg, BZNA_DECODER_NVDEC),
    BZI_SWITCH(loader_decode, jpeg_shrink),
    BZI_NUMBER(REAL, loader_decode, jpeg_shrink_margin, 1, 64, 1),
    BZI_SWITCH(loader_decode, hybrid),
    BZI_RESERVED(loader_decode, reserved),

    BZI_CHOICE(loader_errors, on_error, BZNA_ON_ERROR_STOP),
    BZI_CHOICE(loader_errors, on_callback_error, BZNA_ON_CALLBACK_ERROR_SAMPLE),
    BZI_RESERVED(loader_errors, reserved),

    BZI_NUMBER(COUNT, loader_pipeline, batches_in_flight, 1, BZI_LIMIT_IN_FLIGHT, 3),
    BZI_SWITCH(loader_pipeline, restore_any_pixels),
    BZI_BOTH(loader_pipeline, cpus, cpu_count),
    BZI_SWITCH(loader_pipeline, no_threads),
    BZI_RESERVED(loader_pipeline, reserved),

#ifndef BENZINA_NO_AUGMENT
    BZI_UP_TO(COUNT, loader_augment, policy_count, BZI_LIMIT_POLICIES),
    BZI_BOTH(loader_augment, policies, policy_count),
    BZI_SWITCH(loader_augment, beyond_crop),
    BZI_RESERVED(loader_augment, reserved),

    BZI_NUMBER(COUNT, policy, operation_count, 1, BZI_LIMIT_OPERATIONS, 0),
    BZI_CHOICE(policy, apply, BZNA_POLICY_CHOOSE),
    BZI_UP_TO(REAL, policy, probability, 1),
    BZI_RESERVED(policy, reserved),

    BZI_UP_TO(REAL, operation, probability, 1),
    BZI_RESERVED(operation, reserved0),
    BZI_RESERVED(operation, reserved),
#endif

    BZI_CHOICE(transform, filter, BZNA_FILTER_CUBIC_075),
    BZI_PLAIN(REAL64, transform, homography),
    BZI_PLAIN(REAL, transform, bias),
    BZI_PLAIN(REAL, transform, scale),
    BZI_PLAIN(REAL, transform, fill),
    BZI_CHOICE(transform, fill_space, BZNA_FILL_OUTPUT),
    BZI_CHOICE(transform, matrix, BZNA_MATRIX_BT2020_FULL),
    BZI_CHOICE(transform, antialias, BZNA_ANTIALIAS_ROUND),
    BZI_SWITCH(transform, clamp_hue),
    BZI_SWITCH(transform, grayscale),
    BZI_PLAIN(REAL, transform, color),
    BZI_NUMBER(REAL, transform, hls[0], -180, 180, 0),
    BZI_NUMBER(REAL, transform, hls[1], -255, 255, 0),
    BZI_NUMBER(REAL, transform, hls[2], -255, 255, 0),
    BZI_UP_TO(REAL, transform, brightness, 1e6),
    BZI_UP_TO(REAL, transform, contrast, 1e6),
    BZI_UP_TO(REAL, transform, saturation, 1e6),
    BZI_NUMBER(REAL, transform, hue, -0.5, 0.5, 0),
    BZI_UP_TO(COUNT, transform, operation_count, BZNA_OPERATIONS_MAX),
    BZI_PLAIN(REAL64, transform, clip),
    BZI_PLAIN(REAL64, transform, clip_size),
    BZI_RESERVED(transform, reserved0),
    BZI_RESERVED(transform, reserved1),

#ifndef BENZINA_NO_WRITER
    BZI_BOTH(writer_config, classes, class_count),
    BZI_NUMBER(COUNT64, writer_config, queue_bytes, 0, 0, BZI_LIMIT_QUEUE_BYTES),
    BZI_RESERVED(writer_config, reserved0),
    BZI_RESERVED(writer_config, reserved1),
    BZI_RESERVED(writer_config, reserved),

    BZI_CHOICE(writer_sample, split, BZNA_SPLIT_TEST),
    BZI_SWITCH(writer_sample, has_target),
    BZI_UP_TO(COUNT, writer_sample, field_count, BZI_LIMIT_ARCHIVE_FIELDS),
    BZI_RESERVED(writer_sample, reserved),

    BZI_RESERVED(sink, reserved0),
#endif

    BZI_RESERVED(loader_config, reserved0),
    BZI_RESERVED(source, reserved0),
#ifndef BENZINA_NO_PROVIDERS
    BZI_BOTH(provider, files, file_count),
    BZI_BOTH(provider, classes, class_count),
    BZI_RESERVED(provider, reserved0),
    BZI_RESERVED(provider, reserved1),
    BZI_RESERVED(provider, reserved2),
    BZI_RESERVED(provider, reserved),
    BZI_NUMBER(COUNT, provider_field, kind, BZNA_FIELD_IMAGE, BZNA_FIELD_BYTES, 0),
    BZI_SWITCH(provider_field, located),
    BZI_CHOICE(provider_field, layout, BZNA_LAYOUT_NHWC),
    BZI_RESERVED(provider_field, reserved0),
    BZI_RESERVED(provider_field, reserved),
#endif

    BZI_RESERVED(codec, reserved0),
    BZI_RESERVED(codec, reserved),

    BZI_UP_TO(COUNT, image, orientation, 8),
    BZI_CHOICE(image, palette, BZNA_PALETTE_INDEX),
    BZI_RESERVED(image, reserved1),
};

static bzna_status bzi_setting_check_integers(const bzi_setting *s, const void *at, bzna_error *err)
{
    const uint32_t *words = at;
    const uint64_t least = (uint64_t)s->least, most = (uint64_t)s->most;
    const size_t count = s->bytes / sizeof *words;

    for (size_t i = 0; i < count; i++) {
        uint64_t value = words[i];

        if (s->type == BZI_IS_COUNT64)
            memcpy(&value, &words[i++], sizeof value);
        if (value >= least && (most == 0 || value <= most))
            continue;
        switch (s->type) {
        case BZI_IS_CHOICE: return BZI_MISUSE(err, "%d is not known", (int)words[i]);  /* as -1 */
        case BZI_IS_BITS:   return BZI_MISUSE(err, "0x%x has bits that are not known", words[i]);
        case BZI_IS_SWITCH: return BZI_MISUSE(err, "neither 0 nor 1");
        case BZI_IS_FORMAT: return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "%u is not supported; 0 to %u are", words[i],
                                            (uint32_t)most);
        default:            return BZI_MISUSE(err, "%llu is not in %llu..%llu", (bzi_llu)value, (bzi_llu)least,
                                              (bzi_llu)most);
        }
    }
    return BZNA_OK;
}

static bzna_status bzi_setting_check_reals(const bzi_setting *s, const void *at, bzna_error *err)
{
    const int is_double = s->type == BZI_IS_REAL64 || s->type == BZI_IS_RANGE64;
    const int is_range = s->type == BZI_IS_RANGE || s->type == BZI_IS_RANGE64;
    const size_t count = s->bytes / (is_double ? sizeof(double) : sizeof(float));
    double value = 0;

    for (size_t i = 0; i < count; i++) {
        const double before = value;

        value = is_double ? ((const double *)at)[i] : (double)((const float *)at)[i];
        if (!isfinite(value))
            return BZI_MISUSE(err, "%g is not a finite number", value);
        if (s->most != 0 && (value < s->least || value > s->most))
            return BZI_MISUSE(err, "%g is not in %g..%g", value, s->least, s->most);
        if (is_range && i % 2 && value < before)
            return BZI_MISUSE(err, "%g..%g is no range", before, value);
    }
    return BZNA_OK;
}

/* Fails if a reserved word, or one of an array of them, is set. */
static bzna_status bzi_check_reserved(const char *name, const void *words, size_t bytes, bzna_error *err)
{
    const uint8_t *word = words;
    char number[16] = "";

    if (bzi_is_zero(words, bytes))
        return BZNA_OK;
    if (bytes > sizeof(uint64_t)) {
        while (bzi_is_zero(word, sizeof(uint64_t)))
            word += sizeof(uint64_t);
        snprintf(number, sizeof number, "[%u]", (unsigned)((size_t)(word - (const uint8_t *)words) / sizeof(uint64_t)));
    }
    return BZI_FAIL(err, BZNA_E_STRUCT_SIZE, "%s%s: a reserved word must be 0", name, number);
}

/* Checks a struct of the caller's. of: BZI_OF_.... where: what errors call it. */
static bzna_status bzi_settings_check(uint32_t of, const void *values, const char *where, bzna_error *err)
{
    for (const bzi_setting *s = bzi_settings; s < bzi_settings + BZI_LENGTH(bzi_settings); s++) {
        const uint8_t *at = (const uint8_t *)values + s->offset, *other = (const uint8_t *)values + s->other_offset;
        const int is_zero = s->of == of && bzi_is_zero(at, s->bytes);
        bzna_status status = BZNA_OK;
        char name[160];

        if (s->of != of || (is_zero && s->type != BZI_IS_BOTH && (s->preset != 0 || s->type > BZI_IS_BOTH)))
            continue;  /* zeros stand for something that is allowed */
        switch (s->type) {
        case BZI_IS_RESERVED:
            snprintf(name, sizeof name, "%s.%s", where, s->name);
            return bzi_check_reserved(name, at, s->bytes, err);
        case BZI_IS_FIRST_ONLY:
            status = BZI_MISUSE(err, "can only be set for the first output");
            break;
        case BZI_IS_EXTRA_ONLY:
            status = BZI_MISUSE(err, "is only for extra_outputs; for the first output, set fields.image and the "
                                     "config's own groups");
            break;
        case BZI_IS_BOTH:
            if (is_zero != bzi_is_zero(other, s->other_bytes))
                status = BZI_MISUSE(err, "one is given without the other");
            break;
        default:
            status = s->type < BZI_IS_REAL ? bzi_setting_check_integers(s, at, err) :
                                             bzi_setting_check_reals(s, at, err);
        }
        if (status != BZNA_OK) {
            snprintf(name, sizeof name, "%s.%s", where, s->name);
            return bzi_error_prefix(err, name);
        }
    }
    return BZNA_OK;
}

/* Replaces zeros by what they stand for. Pre: the struct was checked. */
static void bzi_settings_resolve(uint32_t of, void *values)
{
    for (size_t i = 0; i < BZI_LENGTH(bzi_settings); i++) {
        const bzi_setting *s = &bzi_settings[i];
        uint8_t *at = (uint8_t *)values + s->offset;
        const uint32_t whole = (uint32_t)s->preset;
        const uint64_t large = (uint64_t)s->preset;

        if (s->of != of || s->preset == 0 || !bzi_is_zero(at, s->bytes))
            continue;
        if (s->type == BZI_IS_COUNT64)
            memcpy(at, &large, sizeof large);
        else if (s->type == BZI_IS_REAL)
            memcpy(at, &s->preset, sizeof s->preset);
        else
            memcpy(at, &whole, sizeof whole);
    }
}

/* Copies the caller's struct over the defaults in dst, and checks it. name: what errors call it. */
static bzna_status bzi_settings_in_over(void *dst, size_t known, const void *given, uint32_t of, const char *name,
                                        bzna_error *err)
{
    uint32_t size;

    memcpy(&size, given, sizeof size);
    if (!bzi_struct_in_over(dst, known, given))
        return BZI_FAIL(err, BZNA_E_STRUCT_SIZE, "%s.struct_size: %u, or fields unknown to this version are set", name,
                        size);
    return bzi_settings_check(of, dst, name, err);
}

static bzna_status bzi_settings_in(void *dst, size_t known, const void *given, uint32_t of, const char *name,
                                   bzna_error *err)
{
    memset(dst, 0, known);
    return bzi_settings_in_over(dst, known, given, of, name, err);
}


/* ==== 13. Cursor =====================================================================================================
 * Calls: rooms 2, 8.
 *
 * Readers of bytes and bits in memory. Reading past the end gives zeros and sets overrun, which stays set: one check at
 * the end of a structure is enough. Also the other way: bytes that grow, with mp4 boxes. */

typedef struct bzi_cursor {
    const uint8_t *data;              /* not owned */
    uint64_t       size;              /* bytes at data */
    uint64_t       pos;               /* of the next byte to read, from data; at most size */
    uint64_t       base;              /* file offset of data[0], for messages */
    uint32_t       overrun;           /* a read went past the end */
} bzi_cursor;

/* data may be NULL if there are no bytes; the cursor's own pointer is not, since not even 0 may be added to NULL. */
static bzi_cursor bzi_cursor_make(const uint8_t *data, uint64_t size, uint64_t base)
{
    bzi_cursor c = { data || size ? data : (const uint8_t *)"", size, 0, base, 0 };
    return c;
}

static bzi_cursor bzi_cursor_of(bzi_span bytes) { return bzi_cursor_make(bytes.data, bytes.size, 0); }

static uint64_t bzi_cursor_left(const bzi_cursor *c) { return c->size - c->pos; }
static uint64_t bzi_cursor_offset(const bzi_cursor *c) { return c->base + c->pos; }

/* Takes the next n bytes. Returns NULL, and sets overrun, if there are fewer. */
static inline const uint8_t *bzi_cursor_take(bzi_cursor *c, uint64_t n)
{
    const uint8_t *p;

    if (c->overrun || n > bzi_cursor_left(c)) {
        c->overrun = 1;
        return NULL;
    }

    p = c->data + c->pos;
    c->pos += n;
    return p;
}

/* Returns a number of at most 8 bytes. */
static inline uint64_t bzi_cursor_number(bzi_cursor *c, uint32_t bytes)
{
    const uint8_t *p = bzi_cursor_take(c, bytes);
    uint64_t value = 0;

    for (uint32_t i = 0; p && i < bytes; i++)
        value = value << 8 | p[i];
    return value;
}

static uint32_t bzi_cursor_u8(bzi_cursor *c)  { return (uint32_t)bzi_cursor_number(c, 1); }
static uint32_t bzi_cursor_u16(bzi_cursor *c) { return (uint32_t)bzi_cursor_number(c, 2); }
static uint32_t bzi_cursor_u32(bzi_cursor *c) { return (uint32_t)bzi_cursor_number(c, 4); }

/* Takes the next n bytes as a cursor of their own, which is empty if there are fewer. */
static bzi_cursor bzi_cursor_sub(bzi_cursor *c, uint64_t n)
{
    uint64_t base = bzi_cursor_offset(c);
    const uint8_t *p = bzi_cursor_take(c, n);
    return bzi_cursor_make(p, p ? n : 0, base);
}

/* Takes all that is left, which is nothing after an overrun. */
static bzi_span bzi_cursor_rest(bzi_cursor *c)
{
    const uint64_t left = c->overrun ? 0 : bzi_cursor_left(c);
    return (bzi_span){ bzi_cursor_take(c, left), left };
}

/* A place in the bits of a NAL unit, in which emulation prevention bytes (the 3 of 00 00 03) are skipped. */
typedef struct bzi_bits {
    const uint8_t *data;              /* not owned */
    uint64_t       size;              /* bytes at data */
    uint64_t       byte;              /* of the next bit, from data */
    uint32_t       bit;               /* of the next bit in data[byte]; 0: the highest */
    uint32_t       zeros;             /* zero bytes in a row before data[byte] */
    uint32_t       overrun;           /* a read went past the end */
    uint32_t       plain;             /* every byte counts: there is no emulation prevention */
} bzi_bits;

/* header: bytes before the bits. Those of AV1 are plain, which the caller sets. */
static bzi_bits bzi_bits_make(bzi_span nal, uint64_t header)
{
    bzi_bits b = { nal.data, nal.size, header, 0, 0, header > nal.size, 0 };
    return b;
}

/* Returns the next bit, or 0 past the end. A byte 3 after two zero bytes is not data in H.264 (7.4.1) and H.265
 * (7.4.2): encoders add it so that data do not look like a start code. */
static uint32_t bzi_bits_1(bzi_bits *b)
{
    uint32_t value;

    if (b->bit == 0 && b->zeros >= 2 && !b->plain && b->byte < b->size && b->data[b->byte] == 3) {
        b->byte++;
        b->zeros = 0;
    }

    if (b->byte >= b->size) {
        b->overrun = 1;
        return 0;
    }

    value = b->data[b->byte] >> (7 - b->bit) & 1u;
    if (++b->bit == 8) {
        b->zeros = b->data[b->byte] ? 0 : b->zeros + 1;
        b->bit = 0;
        b->byte++;
    }
    return value;
}

/* Returns the next n bits as a number. If there are more than 32, the last ones count. */
static uint32_t bzi_bits_u(bzi_bits *b, uint32_t n)
{
    uint32_t value = 0;

    while (n-- && !b->overrun)
        value = value << 1 | bzi_bits_1(b);
    return value;
}

/* Returns an unsigned Exp-Golomb number. More than 31 leading zeros count as an overrun. */
static uint32_t bzi_bits_ue(bzi_bits *b)
{
    uint32_t zeros = 0;

    while (!bzi_bits_1(b)) {
        if (b->overrun || ++zeros > 31) {
            b->overrun = 1;
            return 0;
        }
    }
    return ((1u << zeros) - 1) + bzi_bits_u(b, zeros);
}

/* Skips unsigned or signed numbers, which are as long. */
static void bzi_bits_skip_ue(bzi_bits *b, uint32_t count)
{
    while (count--)
        bzi_bits_ue(b);
}

static int32_t bzi_bits_se(bzi_bits *b)
{
    uint32_t k = bzi_bits_ue(b);
    return k & 1 ? (int32_t)(k / 2 + 1) : -(int32_t)(k / 2);
}

/* --- Writing --- */

/* The place to which a field's value, a stream or a key is written: bytes that fit are, and all are counted. */
typedef struct bzi_value {
    uint8_t *data;                    /* not owned; NULL if there is no room */
    uint64_t capacity;                /* bytes at data */
    uint64_t size;                    /* bytes of the whole value */
    uint32_t absent;                  /* the sample has no such value */
} bzi_value;

/* Adds bytes, which lie in memory, so that their sum does not overflow. */
static void bzi_value_put(bzi_value *value, const void *bytes, uint64_t size)
{
    if (size && value->size + size <= value->capacity)
        memcpy(value->data + value->size, bytes, (size_t)size);
    value->size += size;
}

#ifndef BENZINA_NO_WRITER

/* Bytes that grow, and the boxes among them that are open. It is enough to look at `failed` at the end. */
typedef struct bzi_out {
    const bzi_memory *memory;
    bzi_buffer        buffer;
    uint64_t          size;           /* bytes in the buffer */
    uint64_t          boxes[BZI_LIMIT_DEPTH];     /* where the open boxes begin, from outside to inside */
    uint32_t          depth;          /* open boxes */
    uint32_t          version;        /* of boxes that have times: 0: those have 4 bytes; 1: 8 */
    uint32_t          failed;         /* 1: an allocation failed */
    uint32_t          too_large;      /* 1: a box would have 4 GiB or more */
} bzi_out;

/* Returns room for n more bytes, or NULL. */
static uint8_t *bzi_out_take(bzi_out *out, uint64_t n)
{
    uint64_t size;

    if (out->failed || !bzi_add(out->size, n, &size) || !bzi_buffer_reserve(out->memory, &out->buffer, size, 1)) {
        out->failed = 1;
        return NULL;
    }
    out->size = size;
    return out->buffer.data + size - n;
}

static void bzi_out_bytes(bzi_out *out, const void *bytes, uint64_t n)
{
    uint8_t *p = n ? bzi_out_take(out, n) : NULL;
    if (p)
        bzi_copy(p, bytes, n);
}

static void bzi_out_text(bzi_out *out, const char *text) { bzi_out_bytes(out, text, strlen(text) + 1); }

/* Writes numbers of `width` bytes each as little-endian ones. */
static void bzi_out_little(bzi_out *out, const void *numbers, uint64_t size, size_t width)
{
    bzi_out_bytes(out, numbers, size);
    if (size && !out->failed)
        bzi_flip_to_little(out->buffer.data + out->size - size, size, width);
}

static void bzi_out_number(bzi_out *out, uint64_t number, uint32_t bytes)
{
    uint8_t *p = bzi_out_take(out, bytes);
    for (uint32_t i = 0; p && i < bytes; i++)
        p[i] = (uint8_t)(number >> 8 * (bytes - 1 - i));
}

/* Begins a box, whose size bzi_out_end sets. */
static void bzi_out_begin(bzi_out *out, const char *type)
{
    out->boxes[out->depth++] = out->size;
    bzi_out_number(out, 0, 4);
    bzi_out_bytes(out, type, 4);
}

static void bzi_out_end(bzi_out *out)
{
    const uint64_t at = out->boxes[--out->depth], size = out->size - at;
    out->too_large |= size > UINT32_MAX;
    if (!out->failed)
        bzi_put_be32(out->buffer.data + at, (uint32_t)size);
}

/* Writes big-endian numbers and boxes by a pattern with letters as in Python's struct: B, H, I and Q write the next
 * number, in 1, 2, 4 and 8 bytes, x writes a zero byte, and T the next number as a time. A count before a letter
 * repeats it. [ begins the box whose type follows, and ] ends a box. */
static void bzi_out_pack(bzi_out *out, const char *pattern, const uint64_t *numbers)
{
    uint32_t count = 0;

    for (const char *p = pattern; *p; p++) {
        const uint32_t bytes = *p == 'Q' || (*p == 'T' && out->version) ? 8 : *p == 'I' || *p == 'T' ? 4 :
                               *p == 'H' ? 2 : 1;

        if (*p >= '0' && *p <= '9') {
            count = 10 * count + (uint32_t)(*p - '0');
        } else if (*p == '[') {
            bzi_out_begin(out, p + 1);
            p += 4;
        } else if (*p == ']') {
            bzi_out_end(out);
        } else if (*p != ' ') {
            for (count = bzi_max32(count, 1); count; count--)
                bzi_out_number(out, *p == 'x' ? 0 : *numbers++, bytes);
        }
    }
}
#define BZI_OUT(out, pattern, ...) bzi_out_pack(out, pattern, (const uint64_t[]){ __VA_ARGS__ })

#endif


/* #### CODED PICTURES #################################################################################################
 * Headers and metadata of H.264, H.265, AV1, JPEG, PNG and WebP: size, depth, color, orientation. */


/* ==== 14. NAL units ==================================================================================================
 * Calls: rooms 2, 13.
 *
 * NAL units of H.264 and H.265, and what their parameter sets state. This room allocates nothing. */

/* --- NAL units --- */

enum { BZI_NAL_SLICE, BZI_NAL_VPS, BZI_NAL_SPS, BZI_NAL_PPS, BZI_NAL_SEI, BZI_NAL_DISCARDABLE, BZI_NAL_OTHER };

static uint32_t bzi_nal_header(uint32_t codec) { return codec == BZNA_CODEC_H265 ? 2 : 1; }

/* Pre: the unit is not empty. */
static uint32_t bzi_nal_type(uint32_t codec, bzi_span nal)
{
    return codec == BZNA_CODEC_H265 ? nal.data[0] >> 1 & 63 : nal.data[0] & 31;
}

/* Returns BZI_NAL_... Pre: the unit is not empty. */
static uint32_t bzi_nal_kind(uint32_t codec, bzi_span nal)
{
    /* first type and end of each kind: table 7-1 of both standards */
    static const uint8_t h264[][2] = { { 1, 6 }, { 0, 0 }, { 7, 8 }, { 8, 9 }, { 6, 7 }, { 9, 13 } };
    static const uint8_t h265[][2] = { { 0, 32 }, { 32, 33 }, { 33, 34 }, { 34, 35 }, { 39, 41 }, { 35, 39 } };
    const uint8_t (*types)[2] = codec == BZNA_CODEC_H265 ? h265 : h264;
    const uint32_t type = bzi_nal_type(codec, nal);
    uint32_t kind = 0;

    while (kind < BZI_NAL_OTHER && !(type >= types[kind][0] && type < types[kind][1]))
        kind++;
    return kind;
}

static int bzi_kind_is_parameter_set(uint32_t kind) { return kind >= BZI_NAL_VPS && kind <= BZI_NAL_PPS; }

/* Returns 1 if a decoder can start with the picture of this slice: IDR; in H.265 CRA and BLA, too. */
static int bzi_nal_starts_stream(uint32_t codec, bzi_span nal)
{
    const uint32_t type = bzi_nal_type(codec, nal);
    return codec == BZNA_CODEC_H265 ? type >= 16 && type < 22 : type == 5;
}


typedef struct bzi_nals {
    bzi_cursor c;                     /* at the next unit */
    uint32_t   length_size;           /* bytes of the length before each unit; 0: they follow start codes (Annex B) */
    uint32_t   count_size;            /* of a record's lists, bytes of the count: 2 in hvcC, 1 in avcC; 0: no record */
    uint32_t   lists;                 /* of a record, lists that have not begun */
    uint32_t   left;                  /* likewise, units left in the list that has */
} bzi_nals;

static bzi_nals bzi_nals_of_unit(bzi_span unit, uint32_t length_size)
{
    return (bzi_nals){ .c = bzi_cursor_of(unit), .length_size = length_size };
}

static bzi_nals bzi_nals_of_config(bzi_span config, uint32_t codec)
{
    const int is_hvcc = codec == BZNA_CODEC_H265;
    bzi_nals n = { .c = bzi_cursor_of(config), .length_size = 2, .count_size = is_hvcc ? 2 : 1 };

    bzi_cursor_take(&n.c, is_hvcc ? 22 : 5);
    n.lists = is_hvcc ? bzi_cursor_u8(&n.c) : 2;  /* avcC: sequence parameter sets, picture parameter sets */
    return n;
}

/* Returns the position of the next start code at or after `from`, and in *after that of the bytes after it. Both are
 * size if there is none. */
static uint64_t bzi_annexb_find(bzi_span s, uint64_t from, uint64_t *after)
{
    for (uint64_t i = from; i + 3 <= s.size; i++) {
        const uint8_t *one = bzi_find_byte(s.data + i + 2, 1, s.size - i - 2);

        if (!one)
            break;
        i = (uint64_t)(one - s.data) - 2;
        if (s.data[i] == 0 && s.data[i + 1] == 0) {
            *after = i + 3;
            return i;
        }
    }
    *after = s.size;
    return s.size;
}

/* Empty units are skipped. Returns 0 at the end. */
static int bzi_nals_next_annexb(bzi_cursor *c, bzi_span *nal)
{
    bzi_span all = { c->data, c->size };
    uint64_t begin, end, after;

    for (;;) {
        bzi_annexb_find(all, c->pos, &begin);
        c->pos = end = bzi_annexb_find(all, begin, &after);
        while (end > begin && all.data[end - 1] == 0)  /* trailing zeros and the longer start code's first byte */
            end--;
        if (begin >= all.size)
            return 0;
        nal->data = all.data + begin;
        nal->size = end - begin;
        if (nal->size)
            return 1;
    }
}

/* Returns 1 if *nal is the next unit that is not empty, 0 at the end, or -1 if a length contradicts the data. */
static int bzi_nals_next(bzi_nals *n, bzi_span *nal)
{
    bzi_cursor *c = &n->c;

    if (!n->length_size)
        return bzi_nals_next_annexb(c, nal);

    do {
        while (n->count_size && n->left == 0 && n->lists && !c->overrun) {  /* the next list of hvcC or avcC */
            n->lists--;
            if (n->count_size == 2)
                bzi_cursor_u8(c);  /* the type stands in each unit, too */
            n->left = (uint32_t)bzi_cursor_number(c, n->count_size);
            if (n->count_size == 1 && n->lists)
                n->left &= 31;
        }
        if (n->count_size ? n->left == 0 : !bzi_cursor_left(c))
            return c->overrun ? -1 : 0;
        n->left -= n->count_size > 0;
        nal->size = bzi_cursor_number(c, n->length_size);
        nal->data = bzi_cursor_take(c, nal->size);
        if (c->overrun)
            return -1;
    } while (nal->size == 0);
    return 1;
}

/* --- Sequence parameter sets --- */

/* What a coded picture of any codec states itself. */
typedef struct bzi_format {
    /* H.265: general profile to level; H.264: profile, constraints, level; AV1: profile, level, tier; JPEG: 1 if it is
     * baseline, Y'CbCr and in one scan, which NVDEC may decode; 1 if it defines no Huffman table */
    uint8_t    profile[12];
    uint32_t   sub_layers;            /* H.265: temporal sub-layers */
    uint32_t   nested;                /* H.265: sps_temporal_id_nesting_flag */
    uint32_t   chroma_format;         /* 0: gray, 1: 4:2:0, 2: 4:2:2, 3: 4:4:4; JPEG: also BZI_CHROMA_... */
    uint32_t   depth_luma;            /* bits of a sample */
    uint32_t   depth_chroma;
    uint32_t   width, height;         /* of the coded frame, before the conformance window is applied */
    uint32_t   window[4];             /* pixels cut off at the left, right, top, bottom, in luma samples */
    uint32_t   chroma_location;       /* BZI_CHROMA_...: the standards' chroma_sample_loc_type + 1; 0: not stated */
    bzna_color color;                 /* present: the VUI has video_signal_type */
    uint32_t   orientation;           /* EXIF's number, 1..8; 0: not stated */
    /* of a decoded pixel of a still; 0: its size was compared with that of the file */
    uint32_t   pixel_bits;
    uint32_t   crop[4];               /* x, y, width, height of the part that is seen; all 0: the whole picture */
    uint32_t   frame_num_bits;        /* H.264: bits of frame_num; 0: the heads of slices are not read */
    uint32_t   order_bits;            /* H.264: bits of the picture order count; 0: it is not there */
    uint32_t   pixels;                /* of a codec of the program's own: BZNA_PIXELS_... */
    uint32_t   interleaved;           /* likewise: R, G and B lie in one plane */
    uint32_t   chroma_shift[2];       /* of BZI_CHROMA_SHIFTS: log2 of the subsampling of columns and rows */
} bzi_format;

enum { BZI_CHROMA_440 = 4, BZI_CHROMA_411 = 5, BZI_CHROMA_SHIFTS = 6 };
enum { BZI_CHROMA_LEFT = 1, BZI_CHROMA_CENTER, BZI_CHROMA_TOP_LEFT, BZI_CHROMA_TOP, BZI_CHROMA_BOTTOM_LEFT };

/* The size of a frame is what the conformance window leaves. */
static uint32_t bzi_format_width(const bzi_format *f) { return f->width - f->window[0] - f->window[1]; }
static uint32_t bzi_format_height(const bzi_format *f) { return f->height - f->window[2] - f->window[3]; }

/* Reads a color's code points, which are 2, unspecified, if they are left out. */
static void bzi_format_color(bzi_bits *b, bzi_format *format)
{
    const uint32_t said = bzi_bits_1(b);

    format->color.primaries = (uint16_t)(said ? bzi_bits_u(b, 8) : 2);
    format->color.transfer = (uint16_t)(said ? bzi_bits_u(b, 8) : 2);
    format->color.matrix = (uint16_t)(said ? bzi_bits_u(b, 8) : 2);
}

/* E.2.1 of both standards, which agree up to the chroma location. */
static void bzi_sps_vui(bzi_bits *b, bzi_format *sps)
{
    if (!bzi_bits_1(b))  /* vui_parameters_present_flag */
        return;

    if (bzi_bits_1(b) && bzi_bits_u(b, 8) == 255)  /* aspect ratio */
        bzi_bits_u(b, 32);
    if (bzi_bits_1(b))  /* overscan */
        bzi_bits_1(b);
    if (bzi_bits_1(b)) {
        bzi_bits_u(b, 3);
        sps->color.present = 1;
        sps->color.full_range = (uint8_t)bzi_bits_1(b);
        bzi_format_color(b, sps);
    }

    if (bzi_bits_1(b)) {
        sps->chroma_location = bzi_bits_ue(b) + 1;
        bzi_bits_ue(b);
    }
}

static void bzi_sps_chroma(bzi_bits *b, bzi_format *sps)
{
    sps->chroma_format = bzi_bits_ue(b);
    if (sps->chroma_format == 3)
        bzi_bits_1(b);
}

static void bzi_sps_depths(bzi_bits *b, bzi_format *sps)
{
    sps->depth_luma = bzi_bits_ue(b) + 8;
    sps->depth_chroma = bzi_bits_ue(b) + 8;
}

/* Reads the conformance window if there is one. Its units are samples of chroma, and `rows` of their rows. */
static void bzi_sps_window(bzi_bits *b, bzi_format *sps, uint32_t rows)
{
    const uint32_t half_width = sps->chroma_format == 1 || sps->chroma_format == 2;
    const uint32_t half_height = sps->chroma_format == 1, present = bzi_bits_1(b);

    for (int i = 0; i < 4 && present; i++) {
        const uint64_t px = (uint64_t)bzi_bits_ue(b) * (i < 2 ? 1 + half_width : (1 + half_height) * rows);
        sps->window[i] = (uint32_t)bzi_min(px, UINT32_MAX);
    }
}

/* H.264 7.3.2.1.1.1: skips a scaling list. */
static void bzi_sps_h264_scaling_list(bzi_bits *b, int size)
{
    int32_t last = 8, next = 8;

    for (int i = 0; i < size && !b->overrun; i++) {
        if (next)
            next = (last + bzi_bits_se(b) % 256) & 255;  /* a damaged delta may be as large as an int can be */
        if (next)
            last = next;
    }
}

/* H.264 7.3.2.1.1. Heads of slices can be read only without fields and with picture order count type 0 or 2: else
 * frame_num_bits stays 0. */
static void bzi_sps_h264(bzi_bits *b, bzi_format *sps)
{
    /* profiles that have the chroma fields */
    static const uint8_t high[] = { 100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135 };
    uint32_t mbs_only, poc, frame_num_bits, order_bits = 0;

    for (int i = 0; i < 3; i++)
        sps->profile[i] = (uint8_t)bzi_bits_u(b, 8);
    bzi_bits_ue(b);

    sps->chroma_format = 1;
    sps->depth_luma = sps->depth_chroma = 8;
    if (memchr(high, sps->profile[0], sizeof high)) {
        bzi_sps_chroma(b, sps);
        bzi_sps_depths(b, sps);
        bzi_bits_1(b);
        for (int i = 0, count = !bzi_bits_1(b) ? 0 : sps->chroma_format == 3 ? 12 : 8; i < count; i++)
            if (bzi_bits_1(b))
                bzi_sps_h264_scaling_list(b, i < 6 ? 16 : 64);
    }
    frame_num_bits = bzi_bits_ue(b) + 4;
    poc = bzi_bits_ue(b);

    if (poc == 0) {
        order_bits = bzi_bits_ue(b) + 4;
    } else if (poc == 1) {
        bzi_bits_1(b);
        bzi_bits_skip_ue(b, 2);
        bzi_bits_skip_ue(b, bzi_min32(bzi_bits_ue(b), 256));
    }

    bzi_bits_ue(b);  /* reference frames */
    bzi_bits_1(b);

    sps->width = 16 * bzi_min32(bzi_bits_ue(b), 65535) + 16;
    sps->height = 16 * bzi_min32(bzi_bits_ue(b), 65535) + 16;
    mbs_only = bzi_bits_1(b);
    sps->height *= 2 - mbs_only;

    if (!mbs_only)
        bzi_bits_1(b);
    if (mbs_only && poc != 1 && frame_num_bits <= 16 && order_bits <= 16) {
        sps->frame_num_bits = frame_num_bits;
        sps->order_bits = order_bits;
    }

    bzi_bits_1(b);  /* direct_8x8 */
    bzi_sps_window(b, sps, 2 - mbs_only);
    bzi_sps_vui(b, sps);
}

/* H.265 7.3.7: skips a reference picture set. counts[i] is NumDeltaPocs of set i. Returns that of this set. */
static uint32_t bzi_sps_h265_reference_set(bzi_bits *b, uint32_t i, const uint32_t *counts)
{
    uint32_t count = 0, negative, positive;

    if (i && bzi_bits_1(b)) {
        bzi_bits_1(b);
        bzi_bits_ue(b);
        for (uint32_t j = 0; j <= counts[i - 1]; j++) {
            uint32_t used = bzi_bits_1(b);
            count += used || bzi_bits_1(b);
        }
        return count;
    }

    negative = bzi_bits_ue(b);
    positive = bzi_bits_ue(b);
    if (negative > 16 || positive > 16) {
        b->overrun = 1;
        return 0;
    }

    for (uint32_t j = 0; j < negative + positive; j++) {
        bzi_bits_ue(b);
        bzi_bits_1(b);
    }
    return negative + positive;
}

/* H.265 7.3.2.2.1, and in it 7.3.3, the profile, tier and level. */
static void bzi_sps_h265(bzi_bits *b, bzi_format *sps)
{
    uint32_t present[8] = { 0 }, counts[65] = { 0 }, more, poc_bits, sets, references;

    bzi_bits_u(b, 4);
    more = bzi_bits_u(b, 3);
    sps->sub_layers = more + 1;
    sps->nested = bzi_bits_1(b);
    for (int i = 0; i < 12; i++)
        sps->profile[i] = (uint8_t)bzi_bits_u(b, 8);
    for (uint32_t i = 0; i < more; i++)
        present[i] = bzi_bits_u(b, 2);
    bzi_bits_u(b, more ? 2 * (8 - more) : 0);
    for (uint32_t i = 0; i < more; i++)
        bzi_bits_u(b, (present[i] & 2 ? 88u : 0) + (present[i] & 1 ? 8u : 0));
    bzi_bits_ue(b);

    bzi_sps_chroma(b, sps);
    sps->width = bzi_bits_ue(b);
    sps->height = bzi_bits_ue(b);
    bzi_sps_window(b, sps, 1);
    bzi_sps_depths(b, sps);
    poc_bits = bzi_bits_ue(b) + 4;
    bzi_bits_skip_ue(b, bzi_bits_1(b) ? 3 * sps->sub_layers : 3);  /* of all sub-layers, or of the highest */

    bzi_bits_skip_ue(b, 6);  /* sizes of blocks */
    if (bzi_bits_1(b) && bzi_bits_1(b))                     /* scaling lists, 7.3.4 */
        for (int size = 0; size < 4; size++)
            for (int matrix = 0; matrix < 6 && !b->overrun; matrix += size == 3 ? 3 : 1)
                bzi_bits_skip_ue(b, !bzi_bits_1(b) ? 1 : size == 0 ? 16 : size == 1 ? 64 : 65);
    bzi_bits_u(b, 2);
    if (bzi_bits_1(b)) {  /* PCM */
        bzi_bits_u(b, 8);
        bzi_bits_skip_ue(b, 2);
        bzi_bits_1(b);
    }

    sets = bzi_bits_ue(b);
    b->overrun |= sets > 64;
    for (uint32_t i = 0; i < sets && !b->overrun; i++)
        counts[i] = bzi_sps_h265_reference_set(b, i, counts);
    references = bzi_bits_1(b) ? bzi_bits_ue(b) : 0;  /* long-term ones */
    for (uint32_t i = 0; i < references && !b->overrun; i++)
        bzi_bits_u(b, poc_bits + 1);
    bzi_bits_u(b, 2);
    bzi_sps_vui(b, sps);
}

/* Returns 1 if the unit is a sequence parameter set that makes sense. */
static int bzi_sps_read(uint32_t codec, bzi_span nal, bzi_format *sps)
{
    bzi_bits b = bzi_bits_make(nal, bzi_nal_header(codec));

    memset(sps, 0, sizeof *sps);
    if (codec == BZNA_CODEC_H265)
        bzi_sps_h265(&b, sps);
    else
        bzi_sps_h264(&b, sps);

    return !b.overrun && sps->chroma_format <= 3 && sps->depth_luma <= 16 && sps->depth_chroma <= 16 && sps->width &&
           sps->height && sps->width <= 65536 && sps->height <= 65536 &&
           (uint64_t)sps->window[0] + sps->window[1] < sps->width &&
           (uint64_t)sps->window[2] + sps->window[3] < sps->height;
}


/* ==== 15. AV1 =======================================================================================================
 * Calls: rooms 13-14.
 *
 * Open bitstream units of AV1, and what the sequence header states. Sections are those of the "AV1 Bitstream & Decoding
 * Process Specification". */

enum {
    BZI_OBU_SEQUENCE_HEADER = 1,
    BZI_OBU_TEMPORAL_DELIMITER = 2,
    BZI_OBU_FRAME_HEADER = 3,
    BZI_OBU_FRAME = 6,
    BZI_OBU_PADDING = 15
};

/* 5.3: takes the next unit. Returns 1, 0 at the end, or -1 if it does not fit. */
static int bzi_obu_next(bzi_cursor *c, uint32_t *type, bzi_span *payload)
{
    uint32_t header, byte, shift = 0;
    uint64_t size = 0;

    if (!bzi_cursor_left(c))
        return 0;

    header = bzi_cursor_u8(c);
    *type = header >> 3 & 15;
    bzi_cursor_take(c, header >> 2 & 1);  /* the extension's byte */
    if (header & 2) {
        do {
            if (shift > 49)
                return -1;
            byte = bzi_cursor_u8(c);
            size |= (uint64_t)(byte & 127) << shift;
            shift += 7;
        } while (byte & 128);
    } else {
        size = bzi_cursor_left(c);
    }

    *payload = (bzi_span){ bzi_cursor_take(c, size), size };
    return header & 0x80 || c->overrun ? -1 : 1;
}

/* Returns what the unit is to a picture: BZI_NAL_... */
static uint32_t bzi_obu_kind(uint32_t type)
{
    switch (type) {
    case BZI_OBU_FRAME:
    case BZI_OBU_FRAME_HEADER: return BZI_NAL_SLICE;
    case BZI_OBU_SEQUENCE_HEADER: return BZI_NAL_SPS;
    case BZI_OBU_TEMPORAL_DELIMITER:
    case BZI_OBU_PADDING: return BZI_NAL_DISCARDABLE;
    default: return BZI_NAL_OTHER;
    }
}

/* 5.5.1: the part between the flags and the frame size. */
static void bzi_av1_operating_points(bzi_bits *b, bzi_format *sps)
{
    uint32_t model = 0, delay_bits = 0, display, points;

    if (bzi_bits_1(b)) {  /* timing */
        bzi_bits_u(b, 64);
        if (bzi_bits_1(b))
            bzi_bits_ue(b);
        if ((model = bzi_bits_1(b)) != 0) {
            delay_bits = bzi_bits_u(b, 5) + 1;
            bzi_bits_u(b, 42);
        }
    }

    display = bzi_bits_1(b);
    points = bzi_bits_u(b, 5) + 1;
    for (uint32_t i = 0; i < points && !b->overrun; i++) {
        uint32_t level, tier;

        bzi_bits_u(b, 12);

        level = bzi_bits_u(b, 5);
        tier = level > 7 && bzi_bits_1(b);
        if (i == 0) {                 /* av1C states level and tier of the first point */
            sps->profile[1] = (uint8_t)level;
            sps->profile[2] = (uint8_t)tier;
        }

        if (model && bzi_bits_1(b))
            bzi_bits_u(b, 2 * delay_bits + 1);
        if (display && bzi_bits_1(b))
            bzi_bits_u(b, 4);
    }
}

/* 5.5.1: skips the tools between the frame size and the color. */
static void bzi_av1_tools(bzi_bits *b, uint32_t reduced)
{
    if (!reduced && bzi_bits_1(b))  /* frame numbers */
        bzi_bits_u(b, 7);
    bzi_bits_u(b, 3);
    if (!reduced) {
        uint32_t order_hint, content;

        bzi_bits_u(b, 4);
        order_hint = bzi_bits_1(b);
        bzi_bits_u(b, order_hint ? 2 : 0);
        content = bzi_bits_1(b);
        if (!content)
            content = bzi_bits_1(b);
        if (content && !bzi_bits_1(b))
            bzi_bits_1(b);
        bzi_bits_u(b, order_hint ? 3 : 0);
    }
    bzi_bits_u(b, 3);
}

/* 5.5.2: the color. */
static void bzi_av1_color(bzi_bits *b, uint32_t profile, bzi_format *sps)
{
    uint32_t high = bzi_bits_1(b), twelve = profile == 2 && high && bzi_bits_1(b), gray = profile != 1 && bzi_bits_1(b),
             place;

    sps->depth_luma = sps->depth_chroma = twelve ? 12 : high ? 10 : 8;
    sps->chroma_format = gray ? 0 : profile == 0 ? 1 : 3;
    sps->color.present = 1;  /* because the range is always stated */
    bzi_format_color(b, sps);

    if (!gray && sps->color.primaries == 1 && sps->color.transfer == 13 && sps->color.matrix == 0) {
        sps->color.full_range = 1;  /* sRGB without a matrix is full range and 4:4:4 */
        sps->chroma_format = 3;
        return;
    }

    sps->color.full_range = (uint8_t)bzi_bits_1(b);
    if (!gray && profile == 2)
        sps->chroma_format = !twelve ? 2 : !bzi_bits_1(b) ? 3 : bzi_bits_1(b) ? 1 : 2;
    if (sps->chroma_format == 1 && (place = bzi_bits_u(b, 2)) != 0)  /* 6.4.2: 1: left, 2: top left */
        sps->chroma_location = place == 2 ? BZI_CHROMA_TOP_LEFT : BZI_CHROMA_LEFT;
}

/* 5.5.1: returns 1 if the sequence header makes sense. *reduced: reduced_still_picture_header. */
static int bzi_av1_read(bzi_span unit, bzi_format *sps, uint32_t *reduced)
{
    bzi_bits b = bzi_bits_make(unit, 0);
    uint32_t profile, width_bits, height_bits;

    b.plain = 1;
    memset(sps, 0, sizeof *sps);

    profile = bzi_bits_u(&b, 3);
    bzi_bits_1(&b);
    *reduced = bzi_bits_1(&b);
    sps->profile[0] = (uint8_t)profile;

    if (*reduced)
        sps->profile[1] = (uint8_t)bzi_bits_u(&b, 5);
    else
        bzi_av1_operating_points(&b, sps);

    width_bits = bzi_bits_u(&b, 4) + 1;
    height_bits = bzi_bits_u(&b, 4) + 1;
    sps->width = bzi_bits_u(&b, width_bits) + 1;
    sps->height = bzi_bits_u(&b, height_bits) + 1;

    bzi_av1_tools(&b, *reduced);
    bzi_av1_color(&b, profile, sps);
    return !b.overrun && profile <= 2;
}


/* ==== 16. Metadata: clap, colr, EXIF, XMP ===========================================================================
 * Calls: rooms 2.
 *
 * The part of a frame that is seen, and how it is to be turned. EXIF data have TIFF's format, and count before XMP's
 * text, as in PIL's ImageOps.exif_transpose. */

/* --- Clean apertures, orientations --- */

/* One side of a clean aperture (ISO/IEC 14496-12 12.1.4), centered at (frame-1)/2 + offset. Returns 0 if it is not in
 * the frame. */
static int bzi_clap_side(uint32_t frame, const int32_t *size, const int32_t *offset, uint32_t *begin, uint32_t *length)
{
    double extent, middle, first;
    if (size[1] <= 0 || offset[1] == 0 || size[0] <= 0)
        return 0;
    extent = floor((double)size[0] / size[1]);
    middle = (frame - 1.0) / 2 + (double)offset[0] / offset[1];
    first = floor(middle - (extent - 1) / 2);  /* a half pixel belongs to the pixel before */
    if (!(extent >= 1) || !(first >= 0) || first + extent > frame)
        return 0;
    *begin = (uint32_t)first;
    *length = (uint32_t)extent;
    return 1;
}


/* EXIF's numbers as {a, b, c, d}: a pixel stored at x, y is seen at a x + c y, b x + d y. */
static const int8_t bzi_orientations[9][4] = { { 0 },          { 1, 0, 0, 1 },  { -1, 0, 0, 1 },   { -1, 0, 0, -1 },
                                               { 1, 0, 0, -1 }, { 0, 1, 1, 0 }, { 0, 1, -1, 0 },   { 0, -1, -1, 0 },
                                               { 0, -1, 1, 0 } };

/* Returns EXIF's number, or 0 if this is no turn by quarters and no mirror. one: what stands for 1. */
static uint32_t bzi_orientation_of(int32_t a, int32_t b, int32_t c, int32_t d, int32_t one)
{
    for (uint32_t i = 1; i < 9; i++) {
        const int8_t *o = bzi_orientations[i];
        if (o[0] * one == a && o[1] * one == b && o[2] * one == c && o[3] * one == d)
            return i;
    }
    return 0;
}

/* Returns the orientation that has the effect of two, one after the other; 0 if one of them is 0. */
static uint32_t bzi_orientation_then(uint32_t first, uint32_t then)
{
    const int8_t *f = bzi_orientations[first], *t = bzi_orientations[then];
    return bzi_orientation_of(t[0] * f[0] + t[2] * f[1], t[1] * f[0] + t[3] * f[1], t[0] * f[2] + t[2] * f[3],
                              t[1] * f[2] + t[3] * f[3], 1);
}

/* --- EXIF, XMP --- */

/* EXIF data. */
typedef struct bzi_exif {
    bzi_span tiff;                    /* from TIFF's header on, from which all places count */
    uint32_t is_big;                  /* 1: big-endian */
} bzi_exif;

/* Returns a number, or 0 if it goes past the end. */
static uint64_t bzi_exif_number(const bzi_exif *exif, uint64_t at, uint32_t bytes)
{
    uint64_t value = 0;

    if (at > exif->tiff.size || bytes > exif->tiff.size - at)
        return 0;
    for (uint32_t i = 0; i < bytes; i++)
        value |= (uint64_t)exif->tiff.data[at + i] << 8 * (exif->is_big ? bytes - 1 - i : i);
    return value;
}

/* Finds the first directory of EXIF data, behind their name, which some programs write twice. Returns 0 if they do not
 * begin as TIFF with 32-bit offsets, whose 42 some programs write in the wrong order. */
static uint64_t bzi_exif_directory(bzi_exif *exif)
{
    uint64_t magic;

    while (bzi_span_begins(exif->tiff, "Exif\0", 6))
        exif->tiff = bzi_span_skip(exif->tiff, 6);
    exif->is_big = (uint32_t)bzi_span_begins(exif->tiff, "MM", 2);
    magic = bzi_exif_number(exif, 2, 2);
    return (exif->is_big || bzi_span_begins(exif->tiff, "II", 2)) && (magic == 42 || magic == 42 << 8) ?
               bzi_exif_number(exif, 4, 4) : 0;
}

/* Returns the orientation in EXIF data, 1 to 8, or 0 if they have none. As in PIL, it may be a whole number of any
 * type; one out of range, and anything else, counts as 1. A tag whose values go past the end ends the directory, or is
 * skipped if no file of this size could have them. */
static uint32_t bzi_exif_orientation(bzi_span data)
{
    enum { ORIENTATION = 0x0112 };
    /* of a value, by its type; 0: PIL does not know the type */
    static const uint8_t sizes[] = { 0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8 };
    const uint32_t whole = 1u << 3 | 1u << 4 | 1u << 6 | 1u << 8 | 1u << 9 | 1u << 13 | 1u << 16;  /* such types */
    bzi_exif exif = { data, 0 };
    const uint64_t directory = bzi_exif_directory(&exif), count = bzi_exif_number(&exif, directory, 2);
    uint64_t taken = 0;

    for (uint64_t i = 0, at = directory + 2; directory && i < count && at + 12 <= exif.tiff.size; i++, at += 12) {
        const uint32_t type = (uint32_t)bzi_exif_number(&exif, at + 2, 2);
        const uint32_t bytes = type < sizeof sizes ? sizes[type] : 0;
        const uint64_t size = bzi_exif_number(&exif, at + 4, 4) * bytes;
        const uint64_t place = size > 4 ? bzi_exif_number(&exif, at + 8, 4) : at + 8;
        uint64_t value;

        taken += size > 4 ? size : 0;
        if (!size || (size > 4 && taken > exif.tiff.size))
            continue;
        if (place > exif.tiff.size || size > exif.tiff.size - place)
            break;
        if (bzi_exif_number(&exif, at, 2) != ORIENTATION)
            continue;

        value = bzi_exif_number(&exif, place, bytes);
        return (whole >> type & 1) && value >= 1 && value <= 8 ? (uint32_t)value : 1;
    }
    return 0;
}

/* Returns the orientation of an XMP packet, as tiff:Orientation="6" or tiff:Orientation>6<, or 0 if it has none. */
BZI_MAYBE_UNUSED static uint32_t bzi_xmp_orientation(bzi_span xmp)
{
    static const char name[] = "tiff:Orientation";
    const uint64_t length = sizeof name - 1;

    for (uint64_t i = 0; i + length + 2 <= xmp.size; i++) {
        const uint8_t *text = xmp.data + i, *next = text + length, *end = xmp.data + xmp.size;

        if (*text != 't' || memcmp(text, name, (size_t)length))
            continue;

        next += *next == '>' ? 1 : end - next > 2 && next[0] == '=' && next[1] == '"' ? 2 : end - next;
        if (next < end && *next >= '0' && *next <= '9')
            return *next >= '1' && *next <= '8' ? *next - '0' : 0;
    }
    return 0;
}


/* ==== 17. JPEG ======================================================================================================
 * Calls: rooms 2, 9, 13, 16.
 *
 * The header of a JPEG, down to its first scan (ITU-T T.81, JFIF, Adobe's marker, EXIF, XMP), for NVDEC and the writer,
 * too: only a build without these and without libjpeg-turbo reads no JPEG. libjpeg-turbo reads the header again when it
 * decodes, and judges tables and scans. This room allocates nothing. */

#define BZI_JPEG_DECODER "libjpeg-turbo"
#ifndef BENZINA_NO_JPEG
#  define BZI_HAS_JPEG 1
#else
#  define BZI_HAS_JPEG 0
#endif
#ifdef D_ARITH_CODING_SUPPORTED
#  define BZI_JPEG_ARITHMETIC 1
#else
#  define BZI_JPEG_ARITHMETIC 0
#endif

/* A cursor that ran out says that the file is truncated. */
BZI_MAYBE_UNUSED static bzna_status bzi_still_fail(bzna_error *err, const bzi_cursor *c, const char *reason)
{
    return BZI_FAIL_AT(err, BZNA_E_DECODE, bzi_cursor_offset(c), "%s%s", c->overrun ? "truncated: " : "", reason);
}

static bzi_span bzi_image_data(const bzna_image *image) { return (bzi_span){ image->data, image->data_size }; }

#if !defined(BENZINA_NO_JPEG) || !defined(BENZINA_NO_CUDA) || !defined(BENZINA_NO_WRITER)

enum { BZI_JPEG_SOF0 = 0xc0, BZI_JPEG_SOF2 = 0xc2, BZI_JPEG_DHT = 0xc4, BZI_JPEG_JPG = 0xc8, BZI_JPEG_SOF9 = 0xc9,
       BZI_JPEG_SOF10 = 0xca, BZI_JPEG_DAC = 0xcc, BZI_JPEG_SOF15 = 0xcf, BZI_JPEG_RST0 = 0xd0, BZI_JPEG_EOI = 0xd9,
       BZI_JPEG_SOS = 0xda, BZI_JPEG_DQT = 0xdb, BZI_JPEG_DHP = 0xde, BZI_JPEG_EXP = 0xdf, BZI_JPEG_APP0 = 0xe0,
       BZI_JPEG_APP1 = 0xe1, BZI_JPEG_APP14 = 0xee, BZI_JPEG_SOF55 = 0xf7 };

typedef struct bzi_jpeg_component {
    uint32_t id;                      /* by which scans name it */
    uint32_t h, v;                    /* horizontal and vertical sampling factors */
} bzi_jpeg_component;

/* What a header states. Sets of tables have a bit for each: 0 to 3 for quantization, 4 to 7 for Huffman codes of DC
 * coefficients, 8 to 11 for those of AC coefficients. */
typedef struct bzi_jpeg {
    uint32_t           frame;         /* the marker of the frame header; 0: there was none */
    uint32_t           width, height;
    uint32_t           count;         /* components */
    bzi_jpeg_component component[4];  /* in the order of the frame header */
    uint32_t           defined;       /* set of the tables that are defined */
    uint32_t           needed;        /* set of those that the first scan needs */
    uint32_t           odd;           /* 1: a table, length or scan that NVDEC may not get; libjpeg-turbo checks it */
    uint32_t           has_scan;      /* the first scan was reached */
    uint32_t           several;       /* there are several scans, each with a part of the components or coefficients */
    uint32_t           jfif;          /* JFIF's marker is there */
    uint32_t           adobe;         /* the transform in Adobe's marker; UINT32_MAX: there is no such marker */
    uint32_t           xmp_orientation; /* XMP's; 0: not stated */
    bzi_span           exif;          /* data of the first segment that has such; .data NULL: there is none */
} bzi_jpeg;

/* Returns the next marker, or 0 if there is none. If its segment ends too early, c->overrun is set. */
static uint32_t bzi_jpeg_next(bzi_cursor *c, bzi_cursor *segment)
{
    uint32_t marker = 0, size;

    while (!c->overrun && (marker == 0 || marker == 0xff)) {  /* 0: a byte 0xff of data; 0xff: a fill byte */
        while (marker != 0xff && !c->overrun)
            marker = bzi_cursor_u8(c);
        marker = bzi_cursor_u8(c);
    }

    *segment = bzi_cursor_sub(c, 0);
    if ((marker >= BZI_JPEG_RST0 && marker <= BZI_JPEG_EOI) || marker < BZI_JPEG_SOF0)
        return marker;  /* these have no segment */

    size = bzi_cursor_u16(c);
    *segment = bzi_cursor_sub(c, size < 2 ? UINT64_MAX : size - 2);
    return marker;
}

/* B.2.4.1, B.2.4.2: notes which tables a segment defines. */
static void bzi_jpeg_tables(bzi_jpeg *j, uint32_t marker, bzi_cursor *c)
{
    while (bzi_cursor_left(c) && !c->overrun) {
        const uint32_t which = bzi_cursor_u8(c), kind = which > 15;
        uint32_t bytes = kind ? 128 : 64;

        if (marker == BZI_JPEG_DHT) {
            const uint8_t *counts = bzi_cursor_take(c, 16);

            bytes = 0;
            for (int i = 0; i < 16 && counts; i++)
                bytes += counts[i];
        }
        if (which > 31 || (which & 15) > 3 || (marker == BZI_JPEG_DHT && bytes > 256) || !bzi_cursor_take(c, bytes))
            j->odd = 1;
        j->defined |= 1u << ((which & 3) + (marker == BZI_JPEG_DHT ? 4 + 4 * kind : 0));
    }
}

/* B.2.2: the frame header. Kinds that are not read are refused by their name. By table B.1, the lowest two bits of the
 * marker are 3 for lossless coding; the next one is set for differential frames, which only hierarchical pictures have,
 * and the one after that for arithmetic coding. */
static bzna_status bzi_jpeg_frame(bzi_jpeg *j, uint32_t marker, bzi_cursor *c, bzna_error *err)
{
    const uint32_t bits = bzi_cursor_u8(c);
    uint32_t damaged;

    if (marker > BZI_JPEG_SOF2 && !(BZI_JPEG_ARITHMETIC && (marker == BZI_JPEG_SOF9 || marker == BZI_JPEG_SOF10)))
        return BZI_FAIL(err, BZNA_E_CODEC, "%s coding (marker %02X) is not supported",
                        marker == BZI_JPEG_SOF55                      ? "JPEG-LS" :
                        marker > BZI_JPEG_SOF15                       ? "hierarchical" :
                        (marker & 3) == 3                             ? "lossless" :
                        marker > BZI_JPEG_JPG && (marker & 7) < 4     ? "arithmetic" :
                                                                        "hierarchical",
                        marker);
    if (j->frame)
        return bzi_still_fail(err, c, "a second frame header");

    j->frame = marker;
    j->height = bzi_cursor_u16(c);
    j->width = bzi_cursor_u16(c);
    j->count = bzi_cursor_u8(c);
    damaged = c->overrun || !j->width || !j->count || bzi_cursor_left(c) != 3 * j->count;
    if (!damaged && (bits != 8 || j->count > 4 || j->count == 2))
        return BZI_FAIL(err, BZNA_E_CODEC, "%u components of %u bits; 1, 3 and 4 of 8 bits are supported", j->count,
                        bits);
    if (!damaged && !j->height)
        return BZI_FAIL(err, BZNA_E_CODEC, "a height that follows the first scan (DNL) is not supported");

    for (uint32_t i = 0; i < j->count && !damaged; i++) {
        const uint32_t id = bzi_cursor_u8(c), factors = bzi_cursor_u8(c), table = bzi_cursor_u8(c);
        const uint32_t h = factors >> 4, v = factors & 15;

        j->component[i] = (bzi_jpeg_component){ id, h, v };
        j->needed |= 1u << (table & 3);
        j->odd |= table > 3;
        damaged = !h || h > 4 || !v || v > 4;
    }
    return damaged ? bzi_still_fail(err, c, "the frame header is damaged") : BZNA_OK;
}

/* B.2.3: the header of the first scan. */
static bzna_status bzi_jpeg_scan(bzi_jpeg *j, bzi_cursor *c, bzna_error *err)
{
    const uint32_t count = bzi_cursor_u8(c);

    if (!j->frame)
        return bzi_still_fail(err, c, "a scan before the frame header");
    j->odd |= bzi_cursor_left(c) != 2 * count + 3;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t id = bzi_cursor_u8(c), tables = bzi_cursor_u8(c);

        j->odd |= (tables & 0xcc) != 0 || i >= j->count || j->component[i].id != id;
        j->needed |= 16u << (tables >> 4 & 3) | 256u << (tables & 3);
    }
    j->has_scan = 1;
    j->several = (j->frame & 7) == 2 || count != j->count;  /* progressive, or without some of the components */
    return c->overrun ? bzi_still_fail(err, c, "a scan header is damaged") : BZNA_OK;
}

/* Reads a picture's markers down to its first scan. */
static bzna_status bzi_jpeg_read(bzi_jpeg *j, bzi_span file, bzna_error *err)
{
    static const char xmp[] = "http://ns.adobe.com/xap/1.0/";
    bzi_cursor c = bzi_cursor_of(file), segment;
    bzna_status status = BZNA_OK;

    memset(j, 0, sizeof *j);
    j->adobe = UINT32_MAX;
    if (bzi_cursor_u16(&c) != 0xffd8)
        return BZI_FAIL(err, BZNA_E_DECODE, "it does not begin as one");

    while (status == BZNA_OK && !j->has_scan) {
        const uint32_t marker = bzi_jpeg_next(&c, &segment);
        const bzi_span data = { segment.data, segment.size };

        if (c.overrun || marker == BZI_JPEG_EOI)
            return bzi_still_fail(err, &c, "there is no picture");
        if (marker == BZI_JPEG_SOS)
            status = bzi_jpeg_scan(j, &segment, err);
        else if (marker == BZI_JPEG_DQT || marker == BZI_JPEG_DHT)
            bzi_jpeg_tables(j, marker, &segment);
        else if ((marker >= BZI_JPEG_SOF0 && marker <= BZI_JPEG_SOF15 && marker != BZI_JPEG_JPG &&
                  marker != BZI_JPEG_DAC) ||
                 marker == BZI_JPEG_DHP || marker == BZI_JPEG_EXP || marker == BZI_JPEG_SOF55)
            status = bzi_jpeg_frame(j, marker, &segment, err);
        else if (marker == BZI_JPEG_APP1 && bzi_span_begins(data, xmp, sizeof xmp))
            j->xmp_orientation = bzi_xmp_orientation(bzi_span_skip(data, sizeof xmp));
        else if (marker == BZI_JPEG_APP1 && bzi_span_begins(data, "Exif\0", 6) && !j->exif.data)
            j->exif = data;
        else if (marker == BZI_JPEG_APP0 && bzi_span_begins(data, "JFIF", 5))
            j->jfif = 1;
        else if (marker == BZI_JPEG_APP14 && data.size >= 12 && bzi_span_begins(data, "Adobe", 5))
            j->adobe = data.data[11];  /* 0: no color transform, 1: Y'CbCr, 2: YCCK */
    }
    return status;
}

/* Returns 1 if three components are R'G'B', or if four are CMYK rather than YCCK, by libjpeg's rules: four are YCCK if
 * Adobe's marker says so; three are Y'CbCr with JFIF's marker, else Adobe's marker tells, or their numbers do. */
static int bzi_jpeg_is_rgb(const bzi_jpeg *j)
{
    const bzi_jpeg_component *c = j->component;

    if (j->count == 4)
        return j->adobe == 0 || j->adobe == UINT32_MAX;
    if (j->count == 1 || j->jfif)
        return 0;
    if (j->adobe != UINT32_MAX)
        return j->adobe == 0;
    return c[0].id == 'R' && c[1].id == 'G' && c[2].id == 'B';
}

/* The chroma format of CMYK and YCCK is 4:4:4, whatever the sampling factors are. */
static bzna_status bzi_jpeg_chroma(const bzi_jpeg *j, int is_rgb, uint32_t *chroma_format, bzna_error *err)
{
    static const struct { uint8_t x, y, format; } known[] = { { 1, 1, 3 }, { 2, 1, 2 }, { 2, 2, 1 },
                                                              { 1, 2, BZI_CHROMA_440 }, { 4, 1, BZI_CHROMA_411 } };
    const bzi_jpeg_component *c = j->component;
    const int alike = c[1].h == c[2].h && c[1].v == c[2].v;

    *chroma_format = j->count == 4 ? 3 : 0;
    if (j->count != 3)
        return BZNA_OK;

    for (size_t i = 0; i < (is_rgb ? 1 : BZI_LENGTH(known)) && alike; i++)
        if (c[0].h == c[1].h * known[i].x && c[0].v == c[1].v * known[i].y) {
            *chroma_format = known[i].format;
            return BZNA_OK;
        }

    return BZI_FAIL(err, BZNA_E_CODEC,
                    "3 components (%s) with the sampling factors %ux%u, %ux%u, %ux%u are not supported",
                    is_rgb ? "RGB" : "Y'CbCr", c[0].h, c[0].v, c[1].h, c[1].v, c[2].h, c[2].v);
}

/* Refuses what no decoder here can decode. Of several scans, a decoder keeps all coefficients: two bytes each, and one
 * more a block. */
static bzna_status bzi_jpeg_inspect(const bzna_image *image, bzi_format *format, bzna_error *err)
{
    bzi_jpeg j;
    uint64_t bytes = 0;
    uint32_t h = 1, v = 1;
    int is_rgb;

    memset(format, 0, sizeof *format);
    if (bzi_jpeg_read(&j, bzi_image_data(image), err) != BZNA_OK)
        return err->status;
    is_rgb = bzi_jpeg_is_rgb(&j);
    if (bzi_jpeg_chroma(&j, is_rgb, &format->chroma_format, err) != BZNA_OK)
        return err->status;

    for (uint32_t i = 0; i < j.count; i++) {
        h = bzi_max32(h, j.component[i].h);
        v = bzi_max32(v, j.component[i].v);
        bytes += 129 * j.component[i].h * j.component[i].v;
    }
    bytes *= (uint64_t)((j.width + 8 * h - 1) / (8 * h)) * ((j.height + 8 * v - 1) / (8 * v));
    if (j.several && bytes > BZI_LIMIT_JPEG_BYTES)
        return BZI_FAIL(err, BZNA_E_LIMIT,
                        "the coefficients of %ux%u in several scans need %llu bytes, more than %llu", j.width,
                        j.height, (bzi_llu)bytes, (bzi_llu)BZI_LIMIT_JPEG_BYTES);

    format->width = j.width;
    format->height = j.height;
    format->depth_luma = format->depth_chroma = 8;
    format->profile[0] = j.frame == BZI_JPEG_SOF0 && j.count == 3 && !j.several && !(j.needed & ~j.defined) &&
                         !j.odd && !is_rgb;  /* NVDEC may decode it */

    format->orientation = bzi_default(bzi_exif_orientation(j.exif), j.xmp_orientation);
    format->chroma_location = BZI_CHROMA_CENTER;
    format->color = (bzna_color){ 1, 13, (uint16_t)(is_rgb ? 0 : 5), 1, 1 };
    return BZNA_OK;
}

#else

/* Nothing decodes or writes JPEG in this build, which only names it. */
static bzna_status bzi_jpeg_inspect(const bzna_image *image, bzi_format *format, bzna_error *err)
{
    (void)image, (void)format;
    return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "not read by this build (BENZINA_NO_JPEG)");
}

#endif

/* --- Codecs --- */

/* A codec, or a kind of still. */
typedef struct bzi_codec {
    uint32_t    id, allow;            /* BZNA_CODEC_...; BZNA_ALLOW_... */
    const char *name;                 /* for messages */
    const char *signature;            /* a still's first bytes; a point stands for any byte */
    uint32_t    signature_size;
    char        entries[2][5];        /* types of mp4 sample entries, the writer's first; "": there are none */
    char        config[5];            /* type of the decoder configuration record; "": there is none */
    uint32_t    config_bytes;         /* the fewest bytes that it has */
    uint32_t    length_at;            /* its byte that has the size of NAL units' lengths; 0: there are none */
    /* reads the picture's format; BZNA_E_DECODE: it does not stand alone */
    bzna_status (*inspect)(const bzna_image *image, bzi_format *sps, bzna_error *err);
    /* the part of it that a kind of still does */
    bzna_status (*read)(bzi_span file, bzi_format *format, bzna_error *err);
    /* writes what a decoder is given */
    bzna_status (*stream)(const bzna_image *image, bzi_value *out, bzna_error *err);
    /* adds parameter sets to a key, each after its size. NULL: a decoder keeps nothing of a picture */
    void        (*key)(const bzna_image *image, bzi_value *key);
    int         av_id;                /* libavcodec's number */
    const char *av_decoder;           /* libavcodec's decoder; NULL: the default one */
    int         nv_id;                /* NVDEC's number */
    /* NVDEC's coded sizes are multiples of this. 0: NVDEC is not used. Above 1: its decoders can be made for intra
     * pictures only */
    uint32_t    nv_unit;
    uint32_t    in_rows;              /* some of a picture's rows can be decoded without the others */
    uint32_t    in_parts;             /* likewise, a rectangle */
    /* removes from a stream for libavcodec, in place, what rows rows[0] to rows[1] - 1 do not need; returns the size
     * that is left. NULL: nothing */
    uint64_t    (*cut)(uint8_t *stream, uint64_t size, const uint32_t rows[2]);
    /* removes, in place, what libavcodec shall not see; returns the size that is left. NULL: nothing */
    uint64_t    (*strip)(uint8_t *stream, uint64_t size);
    uint32_t    is_file;              /* it states its own sizes and colors: containers need not */
    /* sets the planes of pictures that are not coded; NULL: they are */
    void        (*planes)(const bzna_image *image, bzna_picture *picture);
} bzi_codec;


#ifndef BENZINA_NO_STILLS
/* ==== 18. Stills ====================================================================================================
 * Calls: rooms 2, 9, 13, 16-17.
 *
 * PNG and WebP; examples/formats has codecs of other kinds. The end of each file is looked for, because decoders
 * conceal missing data. Components and their bits are provisional until the picture is decoded. */

static uint32_t bzi_cursor_le(bzi_cursor *c, uint32_t bytes)
{
    const uint8_t *p = bzi_cursor_take(c, bytes);
    uint32_t value = 0;

    for (uint32_t i = bytes; p && i; i--)
        value = value << 8 | p[i - 1];
    return value;
}

/* --- PNG --- */

/* Returns the type of the next chunk, or 0 if it goes past the end: c->overrun is set then. */
static uint32_t bzi_png_next(bzi_cursor *c, bzi_cursor *data)
{
    uint32_t size = bzi_cursor_u32(c), type = bzi_cursor_u32(c);

    *data = bzi_cursor_sub(c, size);
    bzi_cursor_u32(c);

    return c->overrun ? 0 : type;
}

static bzna_status bzi_png_inspect(bzi_span file, bzi_format *format, bzna_error *err)
{
    /* samples of a pixel, by color type; 0: there is no such type */
    static const uint8_t samples[8] = { 1, 0, 3, 1, 2, 0, 4, 0 };
    bzi_cursor c = bzi_cursor_of(file), chunk;
    uint32_t type, depth, colors, has_palette = 0, has_exif = 0;
    uint64_t coded = 0;

    bzi_cursor_take(&c, 8);
    if (bzi_png_next(&c, &chunk) != bzi_type("IHDR") || chunk.size != 13)
        return bzi_still_fail(err, &c, "it does not begin with a header");

    format->width = bzi_cursor_u32(&chunk);
    format->height = bzi_cursor_u32(&chunk);
    depth = bzi_cursor_u8(&chunk);
    colors = bzi_cursor_u8(&chunk);
    format->depth_luma = format->depth_chroma = depth == 16 ? 16 : 8;

    do {
        if (!(type = bzi_png_next(&c, &chunk)))
            return bzi_still_fail(err, &c, "the end chunk is missing");
        if (type == bzi_type("PLTE") && !coded)
            has_palette = 1;
        if (type == bzi_type("IDAT"))
            coded += chunk.size;
        if (type == bzi_type("eXIf") && !has_exif++)  /* the first one counts */
            format->orientation = bzi_exif_orientation((bzi_span){ chunk.data, chunk.size });
    } while (type != bzi_type("IEND"));

    if (colors == 3 && !has_palette)
        return bzi_still_fail(err, &c, "there is no palette before the pixels");
    /* deflated data grow to at most 1032 times their size */
    if (colors > 7 || !samples[colors] || !coded ||
        ((uint64_t)format->width * samples[colors] * depth + 7) / 8 * format->height / 1032 > coded)
        return bzi_still_fail(err, &c, "the header is damaged, or pixels are missing");
    return BZNA_OK;
}

/* Removes, in place, chunks without pixels: texts, animations, and profiles, which decoders inflate to any size. */
static uint64_t bzi_png_strip(uint8_t *data, uint64_t size)
{
    bzi_cursor c = bzi_cursor_make(data, size, 0), chunk;
    uint64_t out = 8;
    uint32_t type;

    bzi_cursor_take(&c, 8);
    do {
        uint64_t begin = c.pos;

        type = bzi_png_next(&c, &chunk);
        if (!type || ((type >> 24 & 0x20) && type != bzi_type("tRNS")))
            continue;

        memmove(data + out, data + begin, (size_t)(c.pos - begin));
        out += c.pos - begin;
    } while (type && type != bzi_type("IEND"));

    return out;
}

/* --- WebP --- */

/* Returns 1 if a VP8 picture has segments and no map of them: libavcodec would use the last picture's. Its first
 * partition begins with four bits, of even chances: color space, clamping, segments, map (RFC 6386, 7.3 and 9.3). */
static int bzi_vp8_lacks_map(bzi_cursor partition)
{
    uint32_t range = 255, value = bzi_cursor_u16(&partition), bits = 0;

    for (int i = 0; i < 4; i++) {
        const uint32_t split = (range + 1) / 2, bit = value >= split << 8;

        value -= bit ? split << 8 : 0;
        range = bit ? range - split : split;
        bits = bits << 1 | bit;
        for (; range < 128; range <<= 1)
            value <<= 1;
    }
    return (bits & 3) == 2;
}

/* Reads the size of a VP8 or VP8L picture. Returns 0 if it needs another one, or has too few bytes: a macroblock of VP8
 * takes more than 2 bits. */
static int bzi_webp_read(uint32_t type, bzi_cursor *c, bzi_format *format)
{
    uint32_t bits;

    if (type == bzi_type("VP8 ")) {
        const uint32_t tag = bzi_cursor_le(c, 3), code = bzi_cursor_le(c, 3);

        format->width = bzi_cursor_le(c, 2) & 0x3fff;
        format->height = bzi_cursor_le(c, 2) & 0x3fff;
        format->color = (bzna_color){ 1, 13, 5, 0, 1 };

        return !(tag & 1) && code == 0x2a019d && !bzi_vp8_lacks_map(*c) && format->width && format->height &&
               (uint64_t)((format->width + 15) / 16) * ((format->height + 15) / 16) / 4 <= bzi_cursor_left(c);
    }

    bzi_cursor_take(c, 1);
    bits = bzi_cursor_le(c, 4);
    format->width = (bits & 0x3fff) + 1;
    format->height = (bits >> 14 & 0x3fff) + 1;
    format->pixel_bits = 32;
    return !c->overrun;
}

static bzna_status bzi_webp_inspect(bzi_span file, bzi_format *format, bzna_error *err)
{
    bzi_cursor c = bzi_cursor_of(file), riff, chunk;
    bzi_span exif = { NULL, 0 }, xmp = { NULL, 0 };  /* the first chunk of each kind counts */

    bzi_cursor_take(&c, 4);
    riff = bzi_cursor_sub(&c, bzi_cursor_le(&c, 4));
    if (c.overrun)
        return bzi_still_fail(err, &c, "it has fewer bytes than it says");

    bzi_cursor_take(&riff, 4);
    while (bzi_cursor_left(&riff) >= 8) {
        uint32_t type = bzi_cursor_u32(&riff), bytes = bzi_cursor_le(&riff, 4);

        chunk = bzi_cursor_sub(&riff, bytes);

        if (riff.overrun)
            return bzi_still_fail(err, &riff, "a chunk is longer than the file");
        bzi_cursor_take(&riff, bytes & 1 && bzi_cursor_left(&riff));  /* chunks are padded to even sizes */

        if (type == bzi_type("VP8X") && (bzi_cursor_u8(&chunk) & 2))
            return BZI_FAIL(err, BZNA_E_CODEC, "animations are not supported");
        if ((type == bzi_type("VP8 ") || type == bzi_type("VP8L")) && !format->width &&
            !bzi_webp_read(type, &chunk, format))
            return bzi_still_fail(err, &chunk, "the header is damaged, or pixels are missing");

        if (type == bzi_type("EXIF") && !exif.data)
            exif = (bzi_span){ chunk.data, bytes };
        if (type == bzi_type("XMP ") && !xmp.data)
            xmp = (bzi_span){ chunk.data, bytes };
    }

    format->orientation = bzi_default(bzi_exif_orientation(exif), bzi_xmp_orientation(xmp));
    return format->width ? BZNA_OK : bzi_still_fail(err, &riff, "there is no picture");
}

#  define BZI_STILL_READ(...) __VA_ARGS__
#else
#  define BZI_STILL_READ(...)
#endif
#define BZI_STILL(name_, signature_, ...) \
    { .name = name_, .signature = signature_, .signature_size = sizeof signature_ - 1, BZI_STILL_READ(__VA_ARGS__) }

/* --- The list, by which builds without stills name them --- */

static const bzi_codec bzi_stills[] = {
    BZI_STILL("PNG", "\x89PNG\r\n\x1a\n", .id = BZNA_CODEC_STILL, .allow = BZNA_ALLOW_PNG, .av_id = BZI_AV_ID(PNG),
              .read = bzi_png_inspect, .strip = bzi_png_strip),
    BZI_STILL("WebP", "RIFF....WEBP", .id = BZNA_CODEC_STILL, .allow = BZNA_ALLOW_WEBP, .av_id = BZI_AV_ID(WEBP),
              .read = bzi_webp_inspect),
};

/* Returns the kind of still that begins so, or NULL. */
static const bzi_codec *bzi_still_find(bzi_span head)
{
    for (size_t i = 0; i < BZI_LENGTH(bzi_stills); i++) {
        const bzi_codec *still = &bzi_stills[i];
        uint32_t n = 0;

        while (n < still->signature_size && n < head.size &&
               (still->signature[n] == '.' || (uint8_t)still->signature[n] == head.data[n]))
            n++;
        if (n == still->signature_size)
            return still;
    }
    return NULL;
}

/* Refuses a large picture in a few bytes. size: of the file. */
static bzna_status bzi_format_check_bytes(const bzi_format *format, uint64_t size, bzna_error *err)
{
    uint64_t bytes;

    if (!bzi_mul((uint64_t)format->width * format->height, format->pixel_bits, &bytes) ||
        (bytes / 8 > BZI_LIMIT_STILL_BYTES && bytes / 8 / BZI_LIMIT_STILL_RATIO > size))
        return BZI_FAIL(err, BZNA_E_LIMIT, "%ux%u pixels in %llu bytes: a picture of more than %u MiB needs a coded "
                        "byte for each %u bytes of it", format->width, format->height, (bzi_llu)size,
                        BZI_LIMIT_STILL_BYTES >> 20, BZI_LIMIT_STILL_RATIO);
    return BZNA_OK;
}

/* Reads the format of a still from its header. Unless its codec's function says otherwise, samples have 8 bits, chroma
 * is not subsampled, and the color is sRGB: primaries 1, transfer 13 and matrix 0 of H.273, with full range. */
static bzna_status bzi_still_inspect(const bzna_image *image, bzi_format *format, bzna_error *err)
{
    const bzi_span file = bzi_image_data(image);
    const bzi_codec *still = bzi_still_find(file);

    memset(format, 0, sizeof *format);
    if (!still)
        return BZI_FAIL(err, BZNA_E_CODEC, "neither PNG nor WebP, nor of a codec of the program's own");
    if (!still->read)
        return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "not read by this build (BENZINA_NO_STILLS)");

    format->depth_luma = format->depth_chroma = 8;
    format->chroma_format = 3;
    format->chroma_location = BZI_CHROMA_CENTER;
    format->color = (bzna_color){ 1, 13, 0, 1, 1 };

    if (still->read(file, format, err) != BZNA_OK)
        return err->status;
    if (!format->width || !format->height)
        return BZI_FAIL(err, BZNA_E_DECODE, "a picture of %ux%u", format->width, format->height);

    return bzi_format_check_bytes(format, file.size, err);
}


/* ==== 19. Codecs ====================================================================================================
 * Calls: rooms 2, 9, 13-15, 17-18.
 *
 * A codec is a row of the table below, with its functions. Other rooms ask the row. */

/* Colors that neither container nor stream states. In archives: BT.709 primaries, sRGB curve, BT.601 matrix, full
 * range. Elsewhere as the codecs' standards and FFmpeg assume: limited range, and an unspecified matrix, which counts
 * as BT.601 at any size. */
static const bzna_color bzi_color_of_archives = { 1, 13, 5, 1, 1 }, bzi_color_of_codecs = { 2, 2, 2, 0, 1 };

static bzi_span bzi_image_config(const bzna_image *image)
{
    return (bzi_span){ image->config, image->config ? image->config_size : 0 };
}

static bzi_span bzi_image_obus(const bzna_image *image)
{
    const bzi_span config = bzi_image_config(image);
    return config.size < 4 ? (bzi_span){ NULL, 0 } : bzi_span_skip(config, 4);
}

/* Iterates over the units of the config, then over those of the data: NAL units, or AV1's. */
typedef struct bzi_image_nals {
    bzi_nals nals[2];                 /* of the config, of the data; of AV1, only the cursors are used */
    uint32_t codec;
    uint32_t part;                    /* 0: in the config; 1: in the data */
    uint32_t kind;                    /* of the last unit: BZI_NAL_... */
} bzi_image_nals;

static bzi_image_nals bzi_image_nals_make(const bzna_image *image)
{
    const bzi_span config = bzi_image_config(image);

    return (bzi_image_nals){ .nals = { image->codec == BZNA_CODEC_AV1 ? bzi_nals_of_unit(bzi_image_obus(image), 0) :
                                                                        bzi_nals_of_config(config, image->codec),
                                       bzi_nals_of_unit(bzi_image_data(image), image->length_size) },
                             .codec = image->codec, .part = config.size ? 0 : 1 };
}

/* Returns 1 if *unit is the next unit, of AV1 its payload; 0 at the end, or -1 if a unit does not fit. */
static int bzi_image_nals_next(bzi_image_nals *n, bzi_span *unit)
{
    bzi_nals *nals = &n->nals[n->part];
    uint32_t type = 0;
    int got = n->codec == BZNA_CODEC_AV1 ? bzi_obu_next(&nals->c, &type, unit) : bzi_nals_next(nals, unit);

    if (got > 0)
        n->kind = n->codec == BZNA_CODEC_AV1 ? bzi_obu_kind(type) : bzi_nal_kind(n->codec, *unit);
    if (got || n->part)
        return got;
    n->part = 1;
    return bzi_image_nals_next(n, unit);
}

static bzna_status bzi_image_fail_nals(const bzi_image_nals *n, bzna_error *err)
{
    return BZI_FAIL(err, BZNA_E_BOX, "a unit of the %s is longer than the rest of it",
                    n->part ? "picture" : "configuration");
}

/* H.264, H.265: writes the configuration's parameter sets, then the access unit, as Annex B. */
static bzna_status bzi_image_annexb(const bzna_image *image, bzi_value *out, bzna_error *err)
{
    static const uint8_t start[4] = { 0, 0, 0, 1 };
    bzi_image_nals n = bzi_image_nals_make(image);
    bzi_span nal;
    int got;

    while ((got = bzi_image_nals_next(&n, &nal)) > 0) {
        if (n.part == 0 && !bzi_kind_is_parameter_set(n.kind))
            continue;  /* x265 puts its banner there, an SEI unit of 2.4 kB */
        bzi_value_put(out, start, sizeof start);
        bzi_value_put(out, nal.data, nal.size);
    }
    return got < 0 ? bzi_image_fail_nals(&n, err) : BZNA_OK;
}

/* AV1: writes the configuration's units, then the sample's. Other pictures are written as they are. */
static bzna_status bzi_image_bytes(const bzna_image *image, bzi_value *out, bzna_error *err)
{
    const bzi_span config = image->codec == BZNA_CODEC_AV1 ? bzi_image_obus(image) : (bzi_span){ NULL, 0 };

    (void)err;
    bzi_value_put(out, config.data, config.size);
    bzi_value_put(out, image->data, image->data_size);
    return BZNA_OK;
}

static void bzi_image_key_sets(const bzna_image *image, bzi_value *key)
{
    bzi_image_nals n = bzi_image_nals_make(image);
    bzi_span unit;

    while (bzi_image_nals_next(&n, &unit) > 0)
        if (bzi_kind_is_parameter_set(n.kind)) {
            bzi_value_put(key, &unit.size, sizeof unit.size);
            bzi_value_put(key, unit.data, unit.size);
        }
}

/* Finds the first slice or frame, and the last sequence parameter set or header before it. set->data NULL: there is
 * none. */
static bzna_status bzi_image_find_set(const bzna_image *image, bzi_span *set, bzi_span *picture, bzna_error *err)
{
    bzi_image_nals n = bzi_image_nals_make(image);
    int got;

    *set = (bzi_span){ NULL, 0 };
    while ((got = bzi_image_nals_next(&n, picture)) > 0 && n.kind != BZI_NAL_SLICE)
        if (n.kind == BZI_NAL_SPS)
            *set = *picture;
    if (got < 0)
        return bzi_image_fail_nals(&n, err);
    return got ? BZNA_OK : BZI_FAIL(err, BZNA_E_DECODE, "the access unit has no picture");
}

/* Reads that set, and checks that a decoder can start with the picture. */
static bzna_status bzi_image_sps(const bzna_image *image, bzi_format *sps, bzna_error *err)
{
    const int is_av1 = image->codec == BZNA_CODEC_AV1;
    const char *name = is_av1 ? "sequence header" : "sequence parameter set";
    uint32_t reduced = 0;
    bzi_span set, picture;

    if (bzi_image_find_set(image, &set, &picture, err) != BZNA_OK)
        return err->status;
    if (!is_av1 && !bzi_nal_starts_stream(image->codec, picture))
        return BZI_FAIL(err, BZNA_E_DECODE, "the picture needs other pictures");
    if (!set.data)
        return BZI_FAIL(err, BZNA_E_DECODE, "there is no %s", name);
    if (is_av1 ? !bzi_av1_read(set, sps, &reduced) : !bzi_sps_read(image->codec, set, sps))
        return BZI_FAIL(err, BZNA_E_DECODE, "the %s is damaged", name);
    /* show_existing_frame, frame_type: 0 is key */
    if (is_av1 && !reduced && (!picture.size || picture.data[0] & 0xe0))
        return BZI_FAIL(err, BZNA_E_DECODE, "the picture needs other pictures");
    return BZNA_OK;
}

/* --- Pictures that are not coded --- */

/* The color of BZNA_CODEC_RAW: full range, and R'G'B' without a matrix. */
static const bzna_color bzi_color_of_raw = { 1, 13, 0, 1, 1 };

/* Its data must be the numbers of all pixels, in order. */
static bzna_status bzi_image_raw(const bzna_image *image, bzi_format *sps, bzna_error *err)
{
    const bzi_span config = bzi_image_config(image);
    const uint64_t pixels = (uint64_t)image->frame_width * image->frame_height;

    if (config.size != 2 || (config.data[0] != 1 && config.data[0] != 3) || config.data[1] > BZNA_LAYOUT_NHWC)
        return BZI_MISUSE(err, "image.config: two bytes are required, channels (1 or 3) and BZNA_LAYOUT_...");
    if (!pixels || pixels > UINT64_MAX / 3 || image->data_size != pixels * config.data[0])
        return BZI_FAIL(err, BZNA_E_MISMATCH, "a picture of %ux%u in %u channels cannot have %llu bytes",
                        image->frame_width, image->frame_height, config.data[0], (bzi_llu)image->data_size);
    memset(sps, 0, sizeof *sps);
    sps->width = image->frame_width;
    sps->height = image->frame_height;
    sps->chroma_format = config.data[0] == 3 ? 3 : 0;
    sps->depth_luma = sps->depth_chroma = 8;
    sps->color = bzi_color_of_raw;
    return BZNA_OK;
}

/* G, B and R are Y, Cb and Cr. Pre: the picture was inspected. */
static void bzi_image_raw_planes(const bzna_image *image, bzna_picture *picture)
{
    static const uint32_t place[3] = { 1, 2, 0 };
    const uint8_t *config = image->config, *data = image->data;
    const uint64_t row = image->frame_width, plane = row * image->frame_height;
    const uint32_t channels = config[0], step = config[1] == BZNA_LAYOUT_NHWC ? channels : 1;

    for (uint32_t i = 0; i < channels; i++) {
        picture->plane[i] = data + (channels == 1 ? 0 : place[i] * (step == 1 ? plane : 1));
        picture->pitch[i] = (int64_t)(row * step);
        picture->step[i] = step;
    }
}

/* --- Slices of H.264 --- */

/* Returns 1 if slices of a picture parameter set (7.3.2.2) lie one below the other, have no CABAC, and state whether
 * they are deblocked. */
static int bzi_pps_has_plain_slices(bzi_span nal)
{
    bzi_bits b = bzi_bits_make(nal, 1);
    int is_plain;

    bzi_bits_skip_ue(&b, 2);
    is_plain = bzi_bits_u(&b, 2) == 0 && bzi_bits_ue(&b) == 0;  /* coding, order counts of fields, slice groups */
    bzi_bits_skip_ue(&b, 2);
    bzi_bits_u(&b, 3);
    bzi_bits_skip_ue(&b, 3);
    return (bzi_bits_u(&b, 3) & 5) == 4 && is_plain && !b.overrun;  /* deblocking control, no redundancy */
}

/* Reads the head of an IDR picture's slice (7.3.3) after first_mb_in_slice. Returns 1 if the slice is intra-coded and
 * not deblocked. */
static int bzi_slice_head(bzi_bits *b, const bzi_format *sps)
{
    const uint32_t type = bzi_bits_ue(b);
    bzi_bits_ue(b);  /* pic_parameter_set_id */
    bzi_bits_u(b, sps->frame_num_bits);
    bzi_bits_ue(b);                                         /* idr_pic_id */
    bzi_bits_u(b, sps->order_bits + 2);                     /* and dec_ref_pic_marking */
    bzi_bits_se(b);                                         /* slice_qp_delta */
    return bzi_bits_ue(b) == 1 && (type == 2 || type == 7) && !b->overrun;
}

/* Replaces a slice, in place, by an empty one: its head ends with the bits 010, and each macroblock has 8 bits (mb_type
 * I_16x16_2_0_0, intra_chroma_pred_mode, mb_qp_delta, coefficients 0), which need no emulation prevention. Returns its
 * size. A slice that would grow stays as it is. */
static uint64_t bzi_slice_empty(uint8_t *nal, uint64_t size, const bzi_format *sps, uint32_t macroblocks)
{
    const uint32_t empty = 0x27;
    bzi_bits b = bzi_bits_make((bzi_span){ nal, size }, 1);
    bzi_bits_ue(&b);
    bzi_slice_head(&b, sps);
    if (b.byte + macroblocks + 1 > size)
        return size;
    nal[b.byte] = (uint8_t)((nal[b.byte] & 0xff00u >> b.bit) | empty >> b.bit);
    memset(nal + b.byte + 1, (int)((empty << (8 - b.bit) | empty >> b.bit) & 255), macroblocks - 1);
    nal[b.byte + macroblocks] = (uint8_t)(empty << (8 - b.bit) | 0x80u >> b.bit);  /* rbsp_trailing_bits */
    return b.byte + macroblocks + 1;
}

/* The slices of an H.264 picture. */
typedef struct bzi_slices {
    bzi_format sps;
    uint32_t   sets;                  /* parameter sets seen */
    uint32_t   count;                 /* slices seen */
    uint32_t   is_past;               /* another kind of unit has followed the slices */
    uint32_t   first[BZI_LIMIT_SLICES + 1]; /* first macroblock of each slice; after the last, how many there are */
    bzi_span   nal[BZI_LIMIT_SLICES]; /* each slice */
} bzi_slices;

/* Returns 0 if slices of the picture may need each other, or if all rows are wanted. */
static int bzi_slices_add(bzi_slices *s, bzi_span nal, const uint32_t rows[2])
{
    const uint32_t kind = bzi_nal_kind(BZNA_CODEC_H264, nal), n = s->count;
    bzi_bits b = bzi_bits_make(nal, 1);
    if (kind == BZI_NAL_SPS)
        return !s->sets++ && bzi_sps_read(BZNA_CODEC_H264, nal, &s->sps) && s->sps.frame_num_bits &&
               (s->sps.chroma_format == 1 || s->sps.chroma_format == 2) &&
               (rows[0] || rows[1] < bzi_format_height(&s->sps));
    if (kind == BZI_NAL_PPS)
        return s->sets++ == 1 && bzi_pps_has_plain_slices(nal);
    if (kind != BZI_NAL_SLICE) {
        s->is_past = n > 0;
        return 1;
    }
    if (s->sets != 2 || s->is_past || n == BZI_LIMIT_SLICES || !bzi_nal_starts_stream(BZNA_CODEC_H264, nal) ||
        !(nal.data[0] & 0x60))  /* nal_ref_idc */
        return 0;

    s->first[n] = bzi_bits_ue(&b);
    s->first[n + 1] = s->sps.width / 16 * (s->sps.height / 16);
    s->nal[n] = nal;
    s->count++;
    return (n ? s->first[n] > s->first[n - 1] : s->first[n] == 0) && s->first[n] < s->first[n + 1] &&
           bzi_slice_head(&b, &s->sps);
}

/* Empties, in place, slices without any of the rows, if no slice of the picture (Annex B) needs another. They are gray
 * then. A decoder finds the picture complete, and notices damage of other slices as ever. */
static uint64_t bzi_h264_cut(uint8_t *data, uint64_t size, const uint32_t rows[2])
{
    bzi_nals nals = bzi_nals_of_unit((bzi_span){ data, size }, 0);
    bzi_slices s;
    bzi_span nal;
    uint64_t from = 0, to = 0;

    s.sets = s.count = s.is_past = 0;
    while (bzi_nals_next(&nals, &nal) > 0)
        if (!bzi_slices_add(&s, nal, rows))
            return size;

    for (uint32_t i = 0; i < s.count; i++) {
        const uint32_t width = s.sps.width / 16, top = s.sps.window[2];
        const uint32_t first = s.first[i] / width * 16, end = ((s.first[i + 1] - 1) / width + 1) * 16;
        uint64_t length = s.nal[i].size;
        from = (uint64_t)(s.nal[i].data - data);
        to = i ? to : from - 3;  /* each with its start code */
        if (end <= rows[0] + top || first >= rows[1] + top)
            length = bzi_slice_empty(data + from, length, &s.sps, s.first[i + 1] - s.first[i]);
        memmove(data + to, data + from - 3, (size_t)length + 3);
        from += s.nal[i].size;
        to += length + 3;
    }
    memmove(data + to, data + from, (size_t)(size - from));
    return size - (from - to);
}

/* --- The table of codecs --- */

#ifndef BENZINA_NO_CUDA
#  define BZI_NV_ID(name) cudaVideoCodec_##name
#else
#  define BZI_NV_ID(name) 0
#endif

static const bzi_codec bzi_codecs[] = {
    { .id = BZNA_CODEC_H264, .allow = BZNA_ALLOW_H264, .name = "H.264",
      .entries = { "avc1", "avc3" },
      .config = "avcC",
      .config_bytes = 7, .length_at = 4,
      .inspect = bzi_image_sps,
      .stream = bzi_image_annexb,
      .key = bzi_image_key_sets,
      .av_id = BZI_AV_ID(H264),
      .nv_id = BZI_NV_ID(H264), .nv_unit = 16,
      .in_rows = 1, .cut = bzi_h264_cut },
    { .id = BZNA_CODEC_H265, .allow = BZNA_ALLOW_H265, .name = "H.265",
      .entries = { "hvc1", "hev1" },
      .config = "hvcC",
      .config_bytes = 23, .length_at = 21,
      .inspect = bzi_image_sps,
      .stream = bzi_image_annexb,
      .key = bzi_image_key_sets,
      .av_id = BZI_AV_ID(HEVC),
      .nv_id = BZI_NV_ID(HEVC), .nv_unit = 16 },
    { .id = BZNA_CODEC_AV1, .allow = BZNA_ALLOW_AV1, .name = "AV1",
      .entries = { "av01" },
      .config = "av1C",
      .config_bytes = 4,
      .inspect = bzi_image_sps,
      .stream = bzi_image_bytes,
      .key = bzi_image_key_sets,
      .av_id = BZI_AV_ID(AV1),
      .av_decoder = "libdav1d",                 /* libavcodec's own AV1 decoder needs hardware */
      .nv_id = BZI_NV_ID(AV1), .nv_unit = 1 },
    { .id = BZNA_CODEC_JPEG, .allow = BZNA_ALLOW_JPEG, .name = "JPEG",
      .entries = { "jpeg", "mjpg" },             /* QuickTime's, which all programs know; HEIF's */
      .inspect = bzi_jpeg_inspect,
      .stream = bzi_image_bytes,
      .nv_id = BZI_NV_ID(JPEG),                 /* only for loaders that ask for it */
      .nv_unit = 1,
      .in_rows = 1,
      .is_file = 1 },
    { .id = BZNA_CODEC_STILL,                   /* of any kind: bzi_stills has what differs between kinds */
      .name = "still",
      .inspect = bzi_still_inspect,
      .stream = bzi_image_bytes,
      .is_file = 1 },
    { .id = BZNA_CODEC_RAW, .name = "raw",
      .inspect = bzi_image_raw,
      .stream = bzi_image_bytes,
      .planes = bzi_image_raw_planes },
};

#define BZI_CODECS (BZI_LENGTH(bzi_codecs))

static const bzi_codec *bzi_codec_of_entry(uint32_t type)
{
    for (size_t i = 0; i < BZI_CODECS && type; i++)
        if (bzi_type(bzi_codecs[i].entries[0]) == type || bzi_type(bzi_codecs[i].entries[1]) == type)
            return &bzi_codecs[i];
    return NULL;
}


/* ==== 20. Codecs: finding them ======================================================================================
 * Calls: rooms 2, 8-9, 13, 17-19.
 *
 * Codecs by number and by a file's first bytes; kinds of files that are not read; the keys of decoders. */

/* The row of all codecs of the program's own, whose pictures bzi_own_prepare inspects: bzi_image.is_inspected. */
static const bzi_codec bzi_codec_own = { .id = BZNA_CODEC_OWN, .allow = BZNA_ALLOW_OWN, .name = "a codec of your own",
                                         .stream = bzi_image_bytes, .in_parts = 1, .is_file = 1 };

static const bzi_codec *bzi_codec_find(uint32_t id)
{
    for (size_t i = 0; i < BZI_CODECS; i++)
        if (bzi_codecs[i].id == id)
            return &bzi_codecs[i];
    return id >= BZNA_CODEC_OWN && id < BZNA_CODEC_OWN + BZI_LIMIT_OWN_CODECS ? &bzi_codec_own : NULL;
}

/* Returns the codec of an image, for a still its kind. Pre: the codec is known. */
static const bzi_codec *bzi_codec_of(const bzna_image *image)
{
    const bzi_codec *still = image->codec == BZNA_CODEC_STILL ? bzi_still_find(bzi_image_data(image)) : NULL;
    return still ? still : bzi_codec_find(image->codec);
}

/* Fails if this build lacks the library that decodes a codec. */
static bzna_status bzi_codec_has_library(const bzi_codec *codec, bzna_error *err)
{
    const int is_jpeg = codec->id == BZNA_CODEC_JPEG;

    if (codec->planes || codec->id == BZNA_CODEC_OWN || (is_jpeg ? BZI_HAS_JPEG : BZI_HAS_AVCODEC))
        return BZNA_OK;
    return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "%s is decoded by %s, which this build does not have (%s)", codec->name,
                    is_jpeg ? "libjpeg-turbo" : "libavcodec", is_jpeg ? "BENZINA_NO_JPEG" : "BENZINA_NO_AVCODEC");
}

/* A failure is named after the codec. Pre: the codec is known. */
static bzna_status bzi_codec_inspect(const bzna_image *image, bzi_format *format, bzna_error *err)
{
    const bzi_codec *codec = bzi_codec_find(image->codec);

    if (!codec->inspect)
        BZI_FAIL(err, BZNA_E_CODEC, "this call does not support such pictures");
    else if (codec->inspect(image, format, err) == BZNA_OK)
        return BZNA_OK;
    return bzi_error_prefix(err, bzi_codec_of(image)->name);
}

/* codecs: context_config.codecs. Pixels that are not coded are always allowed. */
static int bzi_codec_is_allowed(uint32_t codecs, const bzna_image *image)
{
    const uint32_t allow = bzi_codec_of(image)->allow;
    return !codecs || !allow || (codecs & allow);
}

/* Pre: the codec is known. */
BZI_MAYBE_UNUSED static const char *bzi_codec_name(uint32_t id) { return bzi_codec_find(id)->name; }

/* Returns JPEG, STILL or UNKNOWN. */
static uint32_t bzi_codec_recognize(bzi_span head)
{
    if (bzi_span_begins(head, "\xff\xd8\xff", 3))
        return BZNA_CODEC_JPEG;
    return bzi_still_find(head) ? BZNA_CODEC_STILL : BZNA_CODEC_UNKNOWN;
}

/* The end of messages about files in other loaders' formats: what to do with them. */
#define BZI_UNREAD ", which is not read: its own library reads it; save its pictures as a folder, a tar or an archive"

#define BZI_BEGINS(magic, what) { magic, sizeof magic - 1, 0, what }

/* brand: the first in a file's list, or how it begins, as in formats_is_heif of examples/formats */
#define BZI_HEIF(brand) \
    { "ftyp" brand, sizeof brand + 3, 4, "a HEIF or AVIF picture, which is read by a codec of the program's own, " \
      "examples/formats/heif.c, from the folder or the tar that holds it" }

/* Kinds of files that users try and that are not read. */
static const struct bzi_unread {
    const char *magic;                /* the bytes that tell the kind */
    uint32_t    size, at;             /* how many they are; their offset in the file */
    const char *what;                 /* for messages, after "is" */
} bzi_unread[] = {
    BZI_BEGINS("\x1f\x8b", "compressed by gzip: decompress it (gunzip), or read it through a source that does"),
    BZI_BEGINS("(\xb5/\xfd", "compressed by zstd: decompress it (unzstd), or read it through a source that does"),
    BZI_BEGINS("PK\x03\x04", "a zip file, which is not read: unpack it into a folder"),
    BZI_BEGINS("PAR1", "a parquet file" BZI_UNREAD),
#ifdef BENZINA_NO_SHARDS
    { "ustar", 5, 257, "a tar, which this build does not read (BENZINA_NO_SHARDS)" },
#endif
    BZI_HEIF("avci"),
    BZI_HEIF("avi"),
    BZI_HEIF("he"),
    BZI_HEIF("jpeg"),
    BZI_HEIF("mi"),
    BZI_HEIF("msf1"),
};

/* Returns what such a file is, or NULL. */
static const char *bzi_codec_unread(bzi_span head)
{
    for (size_t i = 0; i < BZI_LENGTH(bzi_unread); i++)
        if (head.size > bzi_unread[i].at &&
            bzi_span_begins(bzi_span_skip(head, bzi_unread[i].at), bzi_unread[i].magic, bzi_unread[i].size))
            return bzi_unread[i].what;
    return NULL;
}

/* Of stills, the name of their kind. Pre: the codec is known. */
static const char *bzi_image_codec_name(const bzna_image *image) { return bzi_codec_of(image)->name; }

/* Writes the codec and the parameter sets, as much as fits: pictures with the same key can share a decoder. Returns the
 * required size. Pre: the codec is known. */
static uint64_t bzi_image_key(const bzna_image *image, uint8_t *key, uint64_t capacity)
{
    const bzi_codec *codec = bzi_codec_of(image);
    bzi_value out = { key, capacity, 0, 0 };

    bzi_value_put(&out, &codec->id, sizeof codec->id);
    bzi_value_put(&out, &codec->av_id, sizeof codec->av_id);
    if (codec->key)
        codec->key(image, &out);
    return out.size;
}

/* A small cache by pictures' keys, in which the slots used last stay. Its owner has the values of the slots. */
#define BZI_LRU_SLOTS 8u

typedef struct bzi_lru_slot {
    bzi_buffer key;
    uint64_t   size;                  /* bytes of the key */
    uint64_t   used;                  /* the clock at the last use; 0: the slot is free */
} bzi_lru_slot;

typedef struct bzi_lru {
    bzi_lru_slot slots[BZI_LRU_SLOTS]; /* in no order */
    bzi_buffer   key;                 /* which is looked for */
    uint64_t     clock;               /* counts lookups */
} bzi_lru;

/* Returns 1 and the slot that has the picture's key. Else returns 0 and the slot that was given to it, a free one or
 * the least recently used, which is free until bzi_lru_keep. Returns -1 if there is no memory. */
BZI_MAYBE_UNUSED static int bzi_lru_find(bzi_lru *lru, const bzi_memory *memory, const bzna_image *image,
                                         uint32_t *index)
{
    const uint64_t size = bzi_image_key(image, NULL, 0);
    bzi_lru_slot *slot;

    if (!bzi_buffer_reserve(memory, &lru->key, size, 0))
        return -1;
    bzi_image_key(image, lru->key.data, size);
    lru->clock++;
    *index = 0;
    for (uint32_t i = 0; i < BZI_LRU_SLOTS; i++) {
        slot = &lru->slots[i];
        if (slot->used && slot->size == size && !memcmp(slot->key.data, lru->key.data, (size_t)size)) {
            slot->used = lru->clock;
            *index = i;
            return 1;
        }
        if (slot->used < lru->slots[*index].used)
            *index = i;
    }

    slot = &lru->slots[*index];
    slot->used = 0;
    if (!bzi_buffer_reserve(memory, &slot->key, size, 0))
        return -1;
    bzi_copy(slot->key.data, lru->key.data, size);
    slot->size = size;
    return 0;
}

/* The slot that was found last is in use. */
BZI_MAYBE_UNUSED static void bzi_lru_keep(bzi_lru *lru, uint32_t index) { lru->slots[index].used = lru->clock; }
BZI_MAYBE_UNUSED static void bzi_lru_forget(bzi_lru *lru, uint32_t index) { lru->slots[index].used = 0; }

BZI_MAYBE_UNUSED static void bzi_lru_free(bzi_lru *lru, const bzi_memory *memory)
{
    for (uint32_t i = 0; i < BZI_LRU_SLOTS; i++) {
        bzi_lru_forget(lru, i);
        bzi_buffer_free(memory, &lru->slots[i].key);
    }
    bzi_buffer_free(memory, &lru->key);
}

/* Writes what a decoder is given. Pre: the codec is known. */
static bzna_status bzi_image_stream(const bzna_image *image, bzi_value *out, bzna_error *err)
{
    return bzi_codec_find(image->codec)->stream(image, out, err);
}


/* ==== 21. Pictures ==================================================================================================
 * Calls: rooms 2, 9, 12, 14, 19-20.
 *
 * A picture as its container and its stream describe it together. */

static int bzi_rect_is_inside(uint32_t x, uint32_t y, uint32_t width, uint32_t height, uint32_t frame_width,
                              uint32_t frame_height)
{
    return width && height && width <= frame_width && height <= frame_height && x <= frame_width - width &&
           y <= frame_height - height;
}

/* A coded picture, its place in the file, and what its container states about it. */
typedef struct bzi_image {
    bzna_image coded;
    uint32_t   fourcc;                /* type of the sample entry, or the kind of a file */
    int32_t    clap[8];               /* the clean aperture as it stands in the file; all 0: there is none */
    uint64_t   config_offset;         /* in the file */
    uint64_t   data_offset;
    uint32_t   has_range;             /* the container's color has a range; QuickTime's nclc has none */
    bzna_color otherwise;             /* the color if neither container nor stream states one */
    uint32_t   is_inspected;          /* by a codec of the program's own, which said: */
    bzi_format format;
} bzi_image;

/* Checks and completes a caller's picture. `field` names it in messages. */
static bzna_status bzi_image_take(bzna_image *image, const bzna_image *given, const char *field, bzna_error *err)
{
    if (!given)
        return BZI_MISUSE(err, "%s is NULL", field);
    if (bzi_settings_in(image, sizeof *image, given, BZI_OF_image, field, err) != BZNA_OK)
        return err->status;

    if (!image->data || !image->data_size)
        return BZI_MISUSE(err, "%s.data: no bytes; bzna_dataset_read_image gives them", field);
    if (image->length_size > 4 || image->length_size == 3)
        return BZI_MISUSE(err, "%s.length_size: %u is not 0, 1, 2 or 4", field, image->length_size);
    if (!image->config)
        image->config_size = 0;
    return BZNA_OK;
}

static bzi_image bzi_image_alone(const bzna_image *coded)
{
    return (bzi_image){ .coded = *coded, .has_range = 1, .otherwise = bzi_color_of_codecs };
}

/* offset: in the file. */
static bzi_image bzi_image_of_bytes(uint32_t codec, bzi_span bytes, uint64_t offset)
{
    bzna_image coded = { .struct_size = sizeof coded, .codec = codec, .data = bytes.data, .data_size = bytes.size };
    bzi_image image = bzi_image_alone(&coded);

    image.data_offset = offset;
    return image;
}

/* Says what pixels that are not coded are. layout: as bzna_image.config has it. */
BZI_MAYBE_UNUSED static void bzi_image_set_raw(bzi_image *image, uint32_t width, uint32_t height,
                                               const uint8_t layout[2])
{
    bzna_image *coded = &image->coded;

    coded->width = coded->frame_width = width;
    coded->height = coded->frame_height = height;
    coded->color = bzi_color_of_raw;
    coded->config = layout;
    coded->config_size = 2;
}

/* Returns the container's color, else the stream's. The stream's range counts if colr has none, and its color if it
 * says that the planes are G, B and R, since decoders go by it. */
static bzna_color bzi_image_color(const bzi_image *image, const bzi_format *format)
{
    const bzna_color *stream = &format->color;
    bzna_color color = image->coded.color;

    if (stream->present && stream->matrix == 0 && format->chroma_format == 3)
        return *stream;
    if (!color.present)
        return stream->present ? *stream : image->otherwise;
    if (!image->has_range)
        color.full_range = stream->present && stream->full_range;
    return color;
}

/* Checks the sizes, on which container and stream must agree. alone: the picture is a file, which states them itself:
 * those that are 0 are filled in. */
static bzna_status bzi_image_fit(bzna_image *image, uint32_t alone, const bzi_format *sps, bzna_error *err)
{
    const uint32_t width = bzi_format_width(sps), height = bzi_format_height(sps);

    if (alone) {
        if (!image->width && sps->crop[2]) {
            image->crop_x = sps->crop[0];
            image->crop_y = sps->crop[1];
            image->width = sps->crop[2];
            image->height = sps->crop[3];
        }
        image->frame_width = bzi_default(image->frame_width, width);
        image->frame_height = bzi_default(image->frame_height, height);
        image->width = bzi_default(image->width, width - bzi_min32(image->crop_x, width));
        image->height = bzi_default(image->height, height - bzi_min32(image->crop_y, height));
    }
    if (image->frame_width != width || image->frame_height != height)
        return BZI_FAIL(err, BZNA_E_MISMATCH, "the stream's frame is %ux%u, but its container says %ux%u", width,
                        height, image->frame_width, image->frame_height);
    if (!bzi_rect_is_inside(image->crop_x, image->crop_y, image->width, image->height, width, height))
        return BZI_FAIL(err, alone ? BZNA_E_MISMATCH : BZNA_E_ARGUMENT,
                        "the picture of %ux%u at %u,%u is not inside its frame, %ux%u", image->width, image->height,
                        image->crop_x, image->crop_y, width, height);
    return BZNA_OK;
}

/* Finds where chroma samples lie: by default centered if the range is JPEG's, else at the left as in MPEG. Those at the
 * bottom count as centered vertically. */
static void bzi_picture_chroma(const bzi_format *sps, bzna_picture *picture)
{
    static const uint8_t shifts[][2] = { { 0, 0 }, { 1, 1 }, { 1, 0 }, { 0, 0 }, { 0, 1 }, { 2, 0 } };
    const uint32_t location = bzi_default(sps->chroma_location,
                                          picture->color.full_range ? BZI_CHROMA_CENTER : BZI_CHROMA_LEFT);
    const int is_own = sps->chroma_format == BZI_CHROMA_SHIFTS;

    picture->chroma_shift_x = is_own ? sps->chroma_shift[0] : shifts[sps->chroma_format][0];
    picture->chroma_shift_y = is_own ? sps->chroma_shift[1] : shifts[sps->chroma_format][1];
    picture->chroma_left = location == BZI_CHROMA_LEFT || location == BZI_CHROMA_TOP_LEFT ||
                           location == BZI_CHROMA_BOTTOM_LEFT;
    picture->chroma_top = location == BZI_CHROMA_TOP_LEFT || location == BZI_CHROMA_TOP;
}

/* Turns a codec's offset, in the stream, into one in the file. */
static bzna_status bzi_image_fail_at(const bzi_image *image, bzna_error *err)
{
    err->byte_offset += err->byte_offset == BZNA_NO_OFFSET ? 0 : image->data_offset;
    return err->status;
}

/* Reads what a picture states itself. Pre: the codec is known. */
static bzna_status bzi_image_inspect(const bzi_image *image, bzi_format *format, bzna_error *err)
{
    if (!image->is_inspected && bzi_codec_inspect(&image->coded, format, err) != BZNA_OK)
        return bzi_image_fail_at(image, err);
    if (image->is_inspected)
        *format = image->format;
    return BZNA_OK;
}

/* Describes a picture. Its planes are set later, by the decoder. */
static bzna_status bzi_picture_describe(const bzi_image *given, uint32_t max_edge_px, bzi_format *sps,
                                        bzna_picture *picture, bzna_error *err)
{
    bzna_image image = given->coded;
    const bzi_codec *codec = bzi_codec_find(image.codec);

    if (!codec)
        return BZI_FAIL(err, BZNA_E_CODEC,
                        "codec %u is unknown: H.264, H.265, AV1, JPEG and stills can be decoded", image.codec);

    if (bzi_image_inspect(given, sps, err) != BZNA_OK)
        return err->status;
    if (sps->width > max_edge_px || sps->height > max_edge_px)
        return BZI_FAIL(err, BZNA_E_LIMIT, "the frame is %ux%u, more than max_edge_px, %u", sps->width, sps->height,
                        max_edge_px);
    if (sps->depth_luma < 8 || sps->depth_luma > 16 || (sps->depth_chroma != sps->depth_luma && sps->chroma_format))
        return BZI_FAIL(err, BZNA_E_CODEC,
                        "%u bits a luma sample and %u a chroma sample: only 8 to 16, the same for both, can be warped",
                        sps->depth_luma, sps->depth_chroma);
    if (bzi_image_fit(&image, codec->is_file, sps, err) != BZNA_OK)
        return err->status;

    *picture = (bzna_picture){ .struct_size = sizeof *picture, .width = image.width, .height = image.height,
                               .frame_width = image.frame_width, .frame_height = image.frame_height,
                               .crop_x = image.crop_x, .crop_y = image.crop_y, .depth = sps->depth_luma,
                               .color = bzi_image_color(given, sps) };
    picture->orientation = bzi_default(image.orientation, bzi_default(sps->orientation, 1));
    bzi_picture_chroma(sps, picture);
    return BZNA_OK;
}

/* Copies sizes, orientation and color from the stream to the picture. If the container states the size, a stream that
 * cannot be read is no error here. */
static bzna_status bzi_image_complete(bzi_image *image, bzna_error *err)
{
    const bzi_codec *codec = bzi_codec_find(image->coded.codec);
    bzna_image *coded = &image->coded;
    bzi_format format;

    if (!codec || (coded->color.present && image->has_range && coded->width))
        return BZNA_OK;
    if (bzi_image_inspect(image, &format, err) != BZNA_OK)
        return coded->width ? BZNA_OK : err->status;

    coded->color = bzi_image_color(image, &format);
    coded->orientation = bzi_default(coded->orientation, format.orientation);
    return coded->width ? BZNA_OK : bzi_image_fit(coded, 1, &format, err);
}

/* Returns the first letters of a codec's name, in small letters. */
static uint32_t bzi_kind_of_name(const char *name)
{
    uint8_t text[4] = { ' ', ' ', ' ', ' ' };

    for (size_t i = 0; i < 4 && name[i]; i++)
        text[i] = (uint8_t)bzi_lower(name[i]);
    return bzi_be32(text);
}

/* Rows of a picture's frame. Those of chroma are row >> shift. */
typedef struct bzi_rows {
    int32_t first;                    /* the first row */
    int32_t end;                      /* the row after the last */
} bzi_rows;

/* The parts of a picture that a decoder must give; it may give more. */
typedef struct bzi_wanted {
    bzi_rows rows;                    /* rows of the frame, at 1/shrink of its size */
    bzi_rows columns;                 /* likewise; only the program's own codecs are asked for some */
    uint32_t shrink;                  /* a JPEG may be decoded at 1/shrink of its size */
} bzi_wanted;

static void bzi_rows_add(bzi_rows *rows, bzi_rows more)
{
    const bzi_rows had = *rows;

    if (more.first >= more.end)
        return;

    rows->first = had.first < had.end && had.first < more.first ? had.first : more.first;
    rows->end = had.end > more.end ? had.end : more.end;
}

static bzi_wanted bzi_picture_all(const bzna_picture *picture)
{
    return (bzi_wanted){ { 0, (int32_t)picture->frame_height }, { 0, (int32_t)picture->frame_width }, 1 };
}


/* #### ARCHIVES #######################################################################################################
 * mp4 files: boxes, the places of samples, reading and writing. benzina.h and FORMAT.md say what an archive is. */


/* ==== 22. Boxes =====================================================================================================
 * Calls: rooms 2, 9, 13, 16, 19.
 *
 * Rules state which box is read by which function; unknown boxes are skipped. Boxes are read in memory, or through a
 * window over a file. Of a track's tables only the beginnings are read: bzi_track_index reads the rest. */

/* A track's sample tables: their places, their first entries and, after bzi_track_index, all entries. */
typedef struct bzi_table {
    uint64_t *offsets;                /* of each sample, owned by the container; NULL: only the first one is known */
    uint32_t *sizes;                  /* of each sample, bytes; NULL: all have that of the first one */
    uint64_t  first_offset;           /* of the first sample */
    uint32_t  first_size;             /* of the first sample, bytes */
    uint32_t  size_bits;              /* of an entry of stsz, stz2: 4, 8, 16, 32 */
    uint32_t  common_size;            /* bytes of every sample; 0: stsz or stz2 has an entry for each */
    uint32_t  sample_count;
    uint32_t  chunk_bits;             /* of an entry of stco, co64: 32, 64; 0: no box was seen */
    uint32_t  chunk_count;            /* entries of stco, co64 */
    uint32_t  run_count;              /* entries of stsc */
    uint64_t  sizes_at;               /* file offset of the entries of stsz, stz2 */
    uint64_t  chunks_at;              /* likewise, of stco, co64 */
    uint64_t  runs_at;                /* likewise, of stsc */
} bzi_table;

/* What a matrix does to pictures. */
typedef struct bzi_matrix {
    uint32_t orientation;             /* EXIF's number; 0: it does more than turn by quarters and mirror */
    uint64_t at;                      /* its file offset */
} bzi_matrix;

/* A track of a movie. */
typedef struct bzi_track {
    char       name[BZNA_NAME_MAX];   /* from hdlr; characters that cannot be printed are '?' */
    char       mime[64];              /* of mett, likewise */
    uint32_t   handler;               /* type of hdlr: 'vide', ... */
    uint32_t   format;                /* type of its first sample entry; jpeg if that is mp4v and has JPEG */
    uint32_t   flags;                 /* of tkhd */
    uint32_t   entries;               /* sample entries seen; only the first is kept */
    uint32_t   frame_width, frame_height;   /* of the sample entry */
    uint32_t   has_clap;              /* clap was seen */
    uint32_t   has_sync;              /* stss was seen */
    uint32_t   sync_count;            /* sync samples that it lists */
    int32_t    clap[8];               /* as it stands in the file */
    bzna_color color;                 /* of colr */
    uint32_t   has_range;             /* color.full_range is stated: QuickTime's nclc ends before it */
    bzi_span   config;                /* the payload of hvcC, avcC or av1C; data NULL: it was not kept */
    uint64_t   config_at;             /* its file offset; 0: there is none */
    bzi_matrix matrix;                /* of tkhd */
    uint32_t   number;                /* of the track in its movie, from 0 */
    bzi_table  table;
} bzi_track;

/* What a file's boxes state besides its tracks. */
typedef struct bzi_movie_head {
    bzi_matrix matrix;                /* of mvhd: it holds for all tracks */
    bzi_span   names;                 /* payload of our box 'uuid', after its id */
    uint64_t   names_at;              /* file offset of names */
    uint32_t   brand_count;           /* brands in use */
    uint32_t   brands[8];             /* of ftyp, the major one first */
} bzi_movie_head;

/* A file's boxes while they are read, and what they state. */
typedef struct bzi_movie {
    bzna_error        *err;           /* its status is BZNA_OK until a box fails */
    bzi_window        *window;        /* through which boxes are read */
    bzi_movie_head     head;
    uint64_t           unread;        /* bytes of its table that are not in memory */
    uint32_t           has_moov;      /* moov was seen */
    uint32_t           depth;         /* types in path */
    uint32_t           path[BZI_LIMIT_DEPTH]; /* types from the file level down to the box being read */
    uint32_t           track_count;
    bzi_track         *track;         /* the last of them, which is being read */
    bzi_track          tracks[BZI_LIMIT_TRACKS]; /* in the order of their trak boxes */
} bzi_movie;

#define BZI_FILE 0u                   /* the parent of top-level boxes */

/* Names the box that is being read before the message, as "moov/trak[2]/mdia/minf/stbl/stsz". */
static bzna_status bzi_box_blame(const bzi_movie *movie)
{
    char path[BZI_LIMIT_DEPTH * 5 + 16] = "", type[5];
    size_t n = 0;

    for (uint32_t i = 0; i < movie->depth; i++) {
        bzi_fourcc_text(movie->path[i], type);
        n += (size_t)snprintf(path + n, sizeof path - n, "%s%s", i ? "/" : "", type);
        if (movie->path[i] == bzi_type("trak") && movie->track_count)
            n += (size_t)snprintf(path + n, sizeof path - n, "[%u]", movie->track_count - 1);
    }
    movie->err->fourcc = movie->depth ? movie->path[movie->depth - 1] : 0;
    return n ? bzi_error_prefix(movie->err, path) : movie->err->status;
}

#define BZI_BOX_FAIL(movie, status, offset, ...)                                                                       \
    (BZI_FAIL_AT((movie)->err, status, offset, __VA_ARGS__), bzi_box_blame(movie))

static void bzi_movie_begin(bzi_movie *movie, bzna_error *err)
{
    memset(movie, 0, offsetof(bzi_movie, tracks));
    movie->err = err;
    movie->head.matrix.orientation = 1;
    bzi_error_init(err);
}

static uint32_t bzi_movie_box(const bzi_movie *movie) { return movie->path[movie->depth - 1]; }

/* --- Readers of a type of box --- */

/* They fail by BZI_BOX_FAIL, which sets movie->err. The children of a box whose bytes were all taken are not read. */

static void bzi_box_ftyp(bzi_movie *movie, bzi_cursor *c)
{
    bzi_movie_head *head = &movie->head;

    head->brands[0] = bzi_cursor_u32(c);
    head->brand_count = 1;
    bzi_cursor_u32(c);
    while (bzi_cursor_left(c) >= 4 && head->brand_count < 8)
        head->brands[head->brand_count++] = bzi_cursor_u32(c);
}

static void bzi_box_moov(bzi_movie *movie, bzi_cursor *c)
{
    if (movie->has_moov)
        BZI_BOX_FAIL(movie, BZNA_E_BOX, bzi_cursor_offset(c), "a second one");
    movie->has_moov = 1;
}

/* Reads mvhd or tkhd. Of their matrix {a b u, c d v, x y w}, a, b, c and d turn pictures; zeros turn nothing. */
static void bzi_box_header(bzi_movie *movie, bzi_cursor *c)
{
    const int is_track = bzi_movie_box(movie) == bzi_type("tkhd");
    const uint32_t version = bzi_cursor_u32(c);
    bzi_matrix *matrix = is_track ? &movie->track->matrix : &movie->head.matrix;
    int32_t m[9];

    if (is_track)
        movie->track->flags = version & 0xffffff;
    bzi_cursor_take(c, version >> 24 ? 28 : 16);            /* times, duration, time scale or number of the track */
    bzi_cursor_take(c, is_track ? 20 : 16);                 /* layer and volume, or rate and volume */
    matrix->at = bzi_cursor_offset(c);
    for (int i = 0; i < 9; i++)
        m[i] = (int32_t)bzi_cursor_u32(c);
    matrix->orientation = m[0] || m[1] || m[3] || m[4] ? bzi_orientation_of(m[0], m[1], m[3], m[4], 0x10000) : 1;
    bzi_cursor_take(c, is_track ? 8 : 0);  /* width, height */
}

static void bzi_box_trak(bzi_movie *movie, bzi_cursor *c)
{
    if (movie->track_count == BZI_LIMIT_TRACKS) {
        BZI_BOX_FAIL(movie, BZNA_E_LIMIT, bzi_cursor_offset(c), "more than %u tracks", BZI_LIMIT_TRACKS);
        return;
    }
    movie->track = &movie->tracks[movie->track_count];
    *movie->track = (bzi_track){ .number = movie->track_count++, .matrix.orientation = 1 };
}

static void bzi_box_hdlr(bzi_movie *movie, bzi_cursor *c)
{
    bzi_track *track = movie->track;
    bzi_span name;

    bzi_cursor_take(c, 8);
    track->handler = bzi_cursor_u32(c);
    bzi_cursor_take(c, 12);

    name = bzi_cursor_rest(c);
    bzi_text_show(track->name, sizeof track->name, name.data, name.size);
}

static void bzi_box_stsd(bzi_movie *movie, bzi_cursor *c)
{
    (void)movie;
    bzi_cursor_take(c, 8);  /* version, flags, number of entries, which are counted as they come */
}

/* Reads what all sample entries begin with. Returns 0 for all but the track's first: they are skipped. */
static int bzi_box_entry(bzi_movie *movie, bzi_cursor *c)
{
    if (movie->track->entries++) {
        bzi_cursor_rest(c);
        return 0;
    }
    movie->track->format = bzi_movie_box(movie);
    bzi_cursor_take(c, 8);
    return 1;
}

static void bzi_box_mett(bzi_movie *movie, bzi_cursor *c)
{
    bzi_span mime;

    if (!bzi_box_entry(movie, c))
        return;
    while (bzi_cursor_left(c) && bzi_cursor_u8(c))  /* content_encoding */
        ;

    mime = bzi_cursor_rest(c);
    bzi_text_show(movie->track->mime, sizeof movie->track->mime, mime.data, mime.size);
}

/* Reads a visual sample entry. One of an unknown codec is skipped, unless esds may still name the codec. */
static void bzi_box_visual(bzi_movie *movie, bzi_cursor *c)
{
    bzi_track *track = movie->track;

    if (!bzi_box_entry(movie, c))
        return;
    if (!bzi_codec_of_entry(track->format) && track->format != bzi_type("mp4v")) {
        bzi_cursor_rest(c);
        return;
    }
    bzi_cursor_take(c, 16);
    track->frame_width = bzi_cursor_u16(c);
    track->frame_height = bzi_cursor_u16(c);
    bzi_cursor_take(c, 50);
}

/* Reads a descriptor's tag and length (ISO/IEC 14496-1, 8.3.3). As elsewhere, the length is not used. */
static uint32_t bzi_box_descriptor(bzi_cursor *c)
{
    const uint32_t tag = bzi_cursor_u8(c);

    for (int i = 0; i < 4 && (bzi_cursor_u8(c) & 0x80); i++)
        ;
    return tag;
}

/* Reads what an mp4v entry has: a descriptor of a stream, and in it one of how to decode it (14496-1, 7.2.6.5-6). */
static void bzi_box_esds(bzi_movie *movie, bzi_cursor *c)
{
    enum { STREAM = 3, DECODER = 4, JPEG = 0x6c };
    bzi_track *track = movie->track;
    const uint32_t is_stream = (bzi_cursor_u32(c), bzi_box_descriptor(c) == STREAM);
    uint32_t flags;

    bzi_cursor_take(c, 2);  /* its number */
    flags = is_stream ? bzi_cursor_u8(c) : 0;
    bzi_cursor_take(c, flags & 0x80 ? 2 : 0);               /* the stream on which it depends */
    bzi_cursor_take(c, flags & 0x40 ? bzi_cursor_u8(c) : 0);        /* a URL */
    bzi_cursor_take(c, flags & 0x20 ? 2 : 0);               /* the stream of its clock */

    if (track->format == bzi_type("mp4v") && bzi_box_descriptor(c) == DECODER && bzi_cursor_u8(c) == JPEG)
        track->format = bzi_type("jpeg");
    c->overrun = 0;  /* it says nothing, then */
}

static void bzi_box_config(bzi_movie *movie, bzi_cursor *c)
{
    bzi_track *track = movie->track;

    if (track->config_at)
        BZI_BOX_FAIL(movie, BZNA_E_BOX, bzi_cursor_offset(c), "a second one in the same sample entry");
    track->config_at = bzi_cursor_offset(c);
    track->config = bzi_cursor_rest(c);
}

static void bzi_box_clap(bzi_movie *movie, bzi_cursor *c)
{
    for (int i = 0; i < 8; i++)
        movie->track->clap[i] = (int32_t)bzi_cursor_u32(c);
    movie->track->has_clap = 1;
}

/* An ICC profile states nothing about Y'CbCr. QuickTime's nclc ends before the range. */
static void bzi_box_colr(bzi_movie *movie, bzi_cursor *c)
{
    const uint32_t type = bzi_cursor_u32(c), has_range = type == bzi_type("nclx");
    bzi_track *track = movie->track;

    if (!has_range && type != bzi_type("nclc"))
        return;
    track->color.primaries = (uint16_t)bzi_cursor_u16(c);
    track->color.transfer = (uint16_t)bzi_cursor_u16(c);
    track->color.matrix = (uint16_t)bzi_cursor_u16(c);
    track->color.full_range = has_range && bzi_cursor_u8(c) >> 7;
    track->color.present = 1;
    track->has_range = has_range;
}

/* Reads how many entries a table has, of `bits` bits each, and notes where they begin. 0 bits: it has none. */
static void bzi_box_entries(bzi_movie *movie, bzi_cursor *c, uint32_t bits, uint32_t *count, uint64_t *at)
{
    const uint64_t entries = *count = bzi_cursor_u32(c), bytes = (entries * bits + 7) / 8;
    const uint64_t left = bzi_cursor_left(c) + movie->unread;

    if (*at)
        BZI_BOX_FAIL(movie, BZNA_E_BOX, bzi_cursor_offset(c), "a second one in the same track");
    else if (c->overrun || bytes > left)
        BZI_BOX_FAIL(movie, BZNA_E_BOX, bzi_cursor_offset(c), "%u entries need %llu bytes, but the box has %llu",
                     *count, (bzi_llu)bytes, (bzi_llu)left);
    *at = bzi_cursor_offset(c);
}

/* Reads stsz, which may have one size for all samples, or stz2, whose sizes have 4, 8 or 16 bits. */
static void bzi_box_sizes(bzi_movie *movie, bzi_cursor *c)
{
    bzi_table *table = &movie->track->table;
    const uint32_t is_compact = bzi_movie_box(movie) == bzi_type("stz2");
    uint32_t word, bits;

    bzi_cursor_take(c, 4);
    word = bzi_cursor_u32(c);
    table->size_bits = bits = is_compact ? word & 255 : 32;
    table->first_size = table->common_size = is_compact ? 0 : word;
    if (is_compact && bits != 4 && bits != 8 && bits != 16)
        BZI_BOX_FAIL(movie, BZNA_E_BOX, bzi_cursor_offset(c), "field size %u is not 4, 8 or 16", bits);
    else
        bzi_box_entries(movie, c, table->common_size ? 0 : bits, &table->sample_count, &table->sizes_at);
    if (!table->common_size && table->sample_count)
        table->first_size = (uint32_t)bzi_cursor_number(c, (bits + 7) / 8) >> (bits == 4 ? 4 : 0);
}

static void bzi_box_stsc(bzi_movie *movie, bzi_cursor *c)
{
    bzi_cursor_take(c, 4);
    bzi_box_entries(movie, c, 96, &movie->track->table.run_count, &movie->track->table.runs_at);
}

static void bzi_box_stco(bzi_movie *movie, bzi_cursor *c)
{
    bzi_table *table = &movie->track->table;

    bzi_cursor_take(c, 4);
    table->chunk_bits = bzi_movie_box(movie) == bzi_type("co64") ? 64 : 32;
    bzi_box_entries(movie, c, table->chunk_bits, &table->chunk_count, &table->chunks_at);
    if (table->chunk_count)
        table->first_offset = bzi_cursor_number(c, table->chunk_bits / 8);
}

#define BZI_UUID "moov/uuid"
/* 6f2b7f0e-5c1d-4a8e-9d3a-627a6e610001: tells our box from others of that type. */
static const uint8_t bzi_box_uuid[16] = { 0x6f, 0x2b, 0x7f, 0x0e, 0x5c, 0x1d, 0x4a, 0x8e,
                                          0x9d, 0x3a, 0x62, 0x7a, 0x6e, 0x61, 0x00, 0x01 };

static void bzi_box_names(bzi_movie *movie, bzi_cursor *c)
{
    if (bzi_cursor_left(c) < sizeof bzi_box_uuid ||
        memcmp(bzi_cursor_take(c, sizeof bzi_box_uuid), bzi_box_uuid, sizeof bzi_box_uuid))
        return;
    movie->head.names_at = bzi_cursor_offset(c);
    movie->head.names = bzi_cursor_rest(c);
}

static void bzi_box_moof(bzi_movie *movie, bzi_cursor *c)
{
    BZI_BOX_FAIL(movie, BZNA_E_UNSUPPORTED, bzi_cursor_offset(c), "fragmented files are not read. Remux it: "
                 "ffmpeg -i in.mp4 -c copy -movflags +faststart out.mp4");
}

static void bzi_box_stss(bzi_movie *movie, bzi_cursor *c)
{
    bzi_cursor_take(c, 4);
    movie->track->sync_count = bzi_cursor_u32(c);
    movie->track->has_sync = 1;
}


/* ==== 23. Boxes: rules ==============================================================================================
 * Calls: rooms 2, 11, 13, 22.
 *
 * The table of boxes that are read; the walk over boxes. */

typedef struct bzi_box {
    uint64_t at;                      /* file offset */
    uint64_t size;                    /* bytes, with its header */
    uint64_t header;                  /* bytes of its header: 8 or 16 */
    uint32_t type;
} bzi_box;

/* Which boxes are read, and by which function. */
typedef struct bzi_box_rule {
    char parent[5];                   /* type of the box around this one; "": it is at file level */
    char type[5];                     /* "": all types that no rule before it names */
    char children[5];                 /* the parent under which rules for its children are found; "": none matter */
    void (*read)(bzi_movie *movie, bzi_cursor *c);          /* NULL: only its children are read */
} bzi_box_rule;

static const bzi_box_rule bzi_box_rules[] = {
    { "",     "ftyp", "",     bzi_box_ftyp },
    { "",     "moov", "moov", bzi_box_moov },
    { "",     "moof", "",     bzi_box_moof },
    { "moov", "mvhd", "",     bzi_box_header },
    { "moov", "trak", "trak", bzi_box_trak },
    { "moov", "uuid", "",     bzi_box_names },
    { "trak", "tkhd", "",     bzi_box_header },
    { "trak", "mdia", "mdia", NULL },
    { "mdia", "hdlr", "",     bzi_box_hdlr },
    { "mdia", "minf", "minf", NULL },
    { "minf", "stbl", "stbl", NULL },
    { "stbl", "stsd", "stsd", bzi_box_stsd },
    { "stbl", "stsz", "",     bzi_box_sizes },
    { "stbl", "stz2", "",     bzi_box_sizes },
    { "stbl", "stsc", "",     bzi_box_stsc },
    { "stbl", "stco", "",     bzi_box_stco },
    { "stbl", "co64", "",     bzi_box_stco },
    { "stbl", "stss", "",     bzi_box_stss },
    { "stsd", "mett", "",     bzi_box_mett },
    { "stsd", "",     "visu", bzi_box_visual },             /* all but mett: hvc1, avc1, ... */
    { "visu", "hvcC", "",     bzi_box_config },
    { "visu", "avcC", "",     bzi_box_config },
    { "visu", "av1C", "",     bzi_box_config },
    { "visu", "esds", "",     bzi_box_esds },
    { "visu", "clap", "",     bzi_box_clap },
    { "visu", "colr", "",     bzi_box_colr },
};

/* Returns the rule for a type of box in a parent, or NULL. */
static const bzi_box_rule *bzi_box_find(uint32_t parent, uint32_t type)
{
    for (size_t i = 0; i < BZI_LENGTH(bzi_box_rules); i++)
        if (bzi_type(bzi_box_rules[i].parent) == parent &&
            (bzi_type(bzi_box_rules[i].type) == type || !*bzi_box_rules[i].type))
            return &bzi_box_rules[i];
    return NULL;
}

/* Reads the header of the box at `at`. Returns BZNA_END if only zeros are left, fewer than a header has: QuickTime ends
 * lists with them. */
static bzna_status bzi_box_next(bzi_movie *movie, uint64_t at, uint64_t end, bzi_box *box)
{
    const int is_top = movie->depth == 0;
    const uint64_t left = end - at;
    const uint8_t *bytes = NULL;

    if (bzi_window_view(movie->window, at, bzi_min(left, 16), &bytes, movie->err) != BZNA_OK)
        return movie->err->status;
    if (left < 8 && bzi_is_zero(bytes, (size_t)left))
        return BZNA_END;
    if (left < 8 || (left < 16 && bzi_be32(bytes) == 1))
        return BZI_BOX_FAIL(movie, BZNA_E_TRUNCATED, at, "only %llu bytes are left, too few for the header of a box",
                            (bzi_llu)left);

    *box = (bzi_box){ .at = at, .size = bzi_be32(bytes), .header = 8, .type = bzi_be32(bytes + 4) };
    if (box->size == 1) {
        box->header = 16;
        box->size = bzi_be64(bytes + 8);
    }
    movie->path[movie->depth++] = box->type;  /* so that messages name the box */
    if (box->size == 0 && box->header == 16 && box->type == bzi_type("mdat"))
        return BZI_BOX_FAIL(movie, BZNA_E_UNFINISHED, at,
                            "its length was never written: the archive was not finished");

    if (is_top && box->size == 0 && box->header == 8)
        box->size = left;  /* it goes to the end of the file */
    if (box->size < box->header)
        return BZI_BOX_FAIL(movie, BZNA_E_BOX, at, "size %llu is smaller than its header", (bzi_llu)box->size);
    if (box->size > left)
        return BZI_BOX_FAIL(movie, is_top ? BZNA_E_TRUNCATED : BZNA_E_BOX, at,
                            "size %llu, but only %llu bytes are left in %s", (bzi_llu)box->size, (bzi_llu)left,
                            is_top ? "the file" : "the box around it");
    movie->depth--;
    return BZNA_OK;
}

#define BZI_BOX_HEAD  128u            /* bytes at the beginning of boxes that hold others: 78 at most */
#define BZI_BOX_TABLE 16u             /* bytes of a table up to its first entry, which may have 8 */

/* Reads a box's payload by its rule. *children: where the boxes inside it begin. */
static bzna_status bzi_box_read(bzi_movie *movie, const bzi_box *box, const bzi_box_rule *rule, uint64_t *children)
{
    const uint64_t at = box->at + box->header, size = box->size - box->header;
    uint64_t part = size;  /* of it that is read: most entries of tables stay in the file for now */
    const uint8_t *bytes = NULL;
    bzi_cursor payload;

    *children = at;
    if (!rule->read)
        return BZNA_OK;

    if (!movie->window->held && (*rule->children || !strcmp(rule->parent, "stbl")))
        part = bzi_min(size, *rule->children ? BZI_BOX_HEAD : BZI_BOX_TABLE);
    if (part > BZI_LIMIT_BOX_BYTES && !movie->window->held)
        return BZI_BOX_FAIL(movie, BZNA_E_LIMIT, box->at, "%llu bytes, more than %llu", (bzi_llu)part,
                            (bzi_llu)BZI_LIMIT_BOX_BYTES);
    if (part && bzi_window_view(movie->window, at, part, &bytes, movie->err) != BZNA_OK)
        return movie->err->status;

    payload = bzi_cursor_make(bytes, part, at);
    movie->unread = size - part;
    rule->read(movie, &payload);
    *children = at + (payload.pos == part ? size : payload.pos);
    if (movie->err->status == BZNA_OK && payload.overrun)
        BZI_BOX_FAIL(movie, BZNA_E_BOX, box->at, "its %llu bytes are too few", (bzi_llu)box->size);
    return movie->err->status;
}

/* Reads the boxes from at to end that have a rule, depth first. */
static bzna_status bzi_box_list(bzi_movie *movie, uint64_t at, uint64_t end, uint32_t parent)
{
    const bzi_box_rule *rule;
    uint64_t children = 0;
    bzi_box box = { .at = at };

    for (uint32_t n = 0; at < end; n++, at += box.size) {
        bzna_status status;

        if (n == BZI_LIMIT_BOX_CHILDREN)
            return BZI_BOX_FAIL(movie, BZNA_E_LIMIT, at, "more than %u boxes in one", n);
        if (movie->depth == BZI_LIMIT_DEPTH)
            return BZI_BOX_FAIL(movie, BZNA_E_LIMIT, at, "boxes nest too deep, more than %u", BZI_LIMIT_DEPTH);
        if ((status = bzi_box_next(movie, at, end, &box)) != BZNA_OK)
            return status == BZNA_END ? BZNA_OK : status;
        if (!(rule = bzi_box_find(parent, box.type)))
            continue;

        movie->path[movie->depth++] = box.type;
        status = bzi_box_read(movie, &box, rule, &children);
        if (status == BZNA_OK && *rule->children)
            status = bzi_box_list(movie, children, at + box.size, bzi_type(rule->children));
        if (status != BZNA_OK)
            return status;
        movie->depth--;
    }
    return BZNA_OK;
}


/* ==== 24. Sample tables =============================================================================================
 * Calls: rooms 2, 8-9, 11, 16, 19.
 *
 * Where the samples of a track lie, and what the track states about its pictures. */

/* Returns the bytes of sample i. Without an index, i is 0. */
static uint32_t bzi_table_size(const bzi_table *t, uint64_t i) { return t->sizes ? t->sizes[i] : t->first_size; }

/* Reads `count` big-endian numbers of `bits` bits each as numbers of 4 or 8 bytes: to the end of the array, from where
 * they are spread. Pre: they are in the source, and no wider than those of the array. */
static bzna_status bzi_table_load(const bzi_window *window, uint64_t at, uint64_t count, uint32_t bits, void *array,
                                  uint32_t width, bzna_error *err)
{
    const uint64_t bytes = (count * bits + 7) / 8;
    uint8_t *from = (uint8_t *)array + count * width - bytes;
    uint32_t *small = array;
    uint64_t *large = array;

    if (bzi_window_copy(window, at, from, bytes, err) != BZNA_OK)
        return err->status;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t number = bits == 64 ? bzi_be64(from + 8 * i) : bits == 32 ? bzi_be32(from + 4 * i) :
                                bits == 16 ? bzi_be16(from + 2 * i) : bits == 8 ? from[i] :
                                (uint64_t)from[i / 2] >> (i % 2 ? 0 : 4) & 15;
        if (width == 8)
            large[i] = number;
        else
            small[i] = (uint32_t)number;
    }
    return BZNA_OK;
}

/* Names a box of a track before the message. */
static bzna_status bzi_track_blame(const bzi_track *track, const char *box, bzna_error *err)
{
    char path[64];

    snprintf(path, sizeof path, "moov/trak[%u]/%s", track->number, box);
    return bzi_error_box(err, path);
}

#define BZI_STBL "mdia/minf/stbl/"    /* on the way to a track's tables */

#define BZI_TRACK_FAIL(err, status, offset, track, box, ...)                                                           \
    (BZI_FAIL_AT(err, status, offset, __VA_ARGS__), bzi_track_blame(track, box, err))

/* Checks the runs of chunks with as many samples each, and counts the chunks in use. A run is three numbers of stsc:
 * its first chunk, the samples of each chunk, and the sample entry that they use. Chunks and entries count from 1. */
static bzna_status bzi_table_check(const bzi_track *track, const uint32_t *runs, uint64_t *used, bzna_error *err)
{
    const bzi_table *t = &track->table;
    uint64_t left = t->sample_count;

    *used = 0;
    for (uint32_t i = 0; t->chunk_count && i < t->run_count && left; i++) {
        const uint64_t at = t->runs_at + (uint64_t)i * 12;
        const uint32_t *run = runs + 3 * (size_t)i, next = i + 1 < t->run_count ? run[3] : t->chunk_count + 1;
        uint64_t chunks;

        if (run[0] == 0 || run[0] >= next || next - 1 > t->chunk_count || run[1] == 0 || (i == 0 && run[0] != 1))
            return BZI_TRACK_FAIL(err, BZNA_E_BOX, at, track, BZI_STBL "stsc",
                                  "run %u has chunks %u..%u of %u, %u samples each", i, run[0], next - 1,
                                  t->chunk_count, run[1]);
        if (run[2] > 1 && track->entries > 1)  /* entries that no sample uses are allowed */
            return BZI_TRACK_FAIL(err, BZNA_E_UNSUPPORTED, at, track, BZI_STBL "stsc",
                                  "its samples use other entries than the first of %u, which is not supported",
                                  track->entries);
        chunks = bzi_min(next - run[0], (left - 1) / run[1] + 1);
        left -= bzi_min(left, chunks * run[1]);
        *used += chunks;
    }

    if (!left)
        return BZNA_OK;
    return BZI_TRACK_FAIL(err, BZNA_E_BOX, t->sizes_at, track, BZI_STBL "stsz",
                          "the chunks (stco, stsc) hold %llu of %u samples", (bzi_llu)(t->sample_count - left),
                          t->sample_count);
}

/* Writes every sample's offset. chunks: the offsets of the chunks in use, at the end of the same array, where each is
 * read before it is written over. */
static void bzi_table_expand(const bzi_table *t, const uint64_t *chunks, const uint32_t *run)
{
    const uint32_t *last = run + 3 * (size_t)(t->run_count - 1);
    uint32_t sample = 0;

    for (uint32_t chunk = 1; sample < t->sample_count; chunk++) {
        uint64_t offset = *chunks++;
        if (run < last && run[3] == chunk)
            run += 3;
        for (uint32_t k = 0; k < run[1] && sample < t->sample_count; k++) {
            t->offsets[sample] = offset;
            if (!bzi_add(offset, bzi_table_size(t, sample++), &offset))
                offset = UINT64_MAX;  /* the sample itself fails when it is used */
        }
    }
}

/* Reads the places of a track's samples: offsets, 8 bytes each, into `arena`, and sizes, 4 bytes, into `sizes`. A table
 * has no more entries than fit its box, and samples of one size must fit the file. */
static bzna_status bzi_track_index(const bzi_window *window, bzi_track *track, bzi_arena *arena, bzi_arena *sizes,
                                   bzna_error *err)
{
    bzi_table *t = &track->table;
    const uint64_t count = t->sample_count;
    bzi_arena scratch = { .memory = arena->memory };
    uint32_t *runs;
    uint64_t used = 0;
    bzna_status status = BZNA_OK;

    if (count * bzi_max32(t->common_size, 1) > window->source->size)
        return BZI_TRACK_FAIL(err, BZNA_E_BOX, t->sizes_at, track, BZI_STBL "stsz",
                              "%u samples of %u bytes do not fit the file", t->sample_count, t->common_size);

    runs = bzi_arena_alloc(&scratch, t->run_count, 3 * sizeof *runs);
    t->offsets = bzi_arena_alloc(arena, count, sizeof *t->offsets);
    t->sizes = t->common_size ? NULL : bzi_arena_alloc(sizes, count, sizeof *t->sizes);
    if (!runs || !t->offsets || (!t->sizes && !t->common_size))
        status = bzi_fail_memory(err, "the sample index");
    else if ((t->sizes && bzi_table_load(window, t->sizes_at, count, t->size_bits, t->sizes, 4, err) != BZNA_OK) ||
             bzi_table_load(window, t->runs_at, 3 * (uint64_t)t->run_count, 32, runs, 4, err) != BZNA_OK ||
             bzi_table_check(track, runs, &used, err) != BZNA_OK ||
             bzi_table_load(window, t->chunks_at, used, t->chunk_bits, t->offsets + count - used, 8, err) != BZNA_OK)
        status = err->status;
    else if (used < count)  /* else they are in place: a chunk for each sample */
        bzi_table_expand(t, t->offsets + count - used, runs);
    bzi_arena_free(&scratch);
    return status;
}

/* Finds sample i. limit: the size of what holds it. Without an index, i is 0. */
static bzna_status bzi_table_entry(const bzi_table *t, uint32_t i, uint64_t limit, uint64_t *offset, uint64_t *size,
                                   bzna_error *err)
{
    const uint64_t at = t->chunks_at + (t->chunk_count == t->sample_count ? (uint64_t)i * t->chunk_bits / 8 : 0);

    *offset = t->offsets ? t->offsets[i] : t->first_offset;
    *size = bzi_table_size(t, i);
    if (*offset <= limit && *size <= limit - *offset)
        return BZNA_OK;
    return BZI_FAIL_AT(err, BZNA_E_BOX, at, "index entry %u (stco; stsz at byte %llu) says %llu bytes at "
                       "%llu, but there are only %llu", i, (bzi_llu)t->sizes_at, (bzi_llu)*size, (bzi_llu)*offset,
                       (bzi_llu)limit);
}

/* Joins the matrices of track and movie. *orientation 0: as the pictures state themselves. */
static bzna_status bzi_track_orientation(const bzi_track *track, const bzi_movie_head *head, uint32_t *orientation,
                                         bzna_error *err)
{
    const uint32_t both = bzi_orientation_then(track->matrix.orientation, head->matrix.orientation);
    const int is_track = !track->matrix.orientation;

    *orientation = both > 1 ? both : 0;
    if (both)
        return BZNA_OK;
    BZI_FAIL_AT(err, BZNA_E_UNSUPPORTED, is_track ? track->matrix.at : head->matrix.at,
                "the matrix scales or skews track \"%s\", which is not supported", track->name);
    return is_track ? bzi_track_blame(track, "tkhd", err) : bzi_error_box(err, "moov/mvhd");
}

/* Describes a track's picture by its boxes alone: codec, decoder configuration, sizes, and clap's crop. */
static bzna_status bzi_track_image(const bzi_track *track, bzi_image *image, bzna_error *err)
{
    const int32_t *c = track->clap;
    bzna_image *coded = &image->coded;
    const bzi_codec *codec = bzi_codec_of_entry(track->format);
    char type[5];

    *image = (bzi_image){ .fourcc = track->format, .has_range = track->has_range, .config_offset = track->config_at };
    bzi_fourcc_text(track->format, type);
    if (!codec)
        return BZI_FAIL(err, BZNA_E_CODEC, "sample entry '%s' is not a known codec", type);
    if (track->config.size < codec->config_bytes)
        return bzi_fail(err, BZNA_E_BOX, track->config_at, track->format, 0,
                        "the decoder configuration (%s) is missing or too short", codec->config);

    *coded = (bzna_image){ .struct_size = sizeof *coded, .codec = codec->id,
                           .length_size = codec->length_at ? (track->config.data[codec->length_at] & 3u) + 1 : 0,
                           .config_size = track->config.size, .color = track->color,
                           .frame_width = track->frame_width, .width = track->frame_width,
                           .frame_height = track->frame_height, .height = track->frame_height };
    if (coded->length_size == 3)
        return bzi_fail(err, BZNA_E_BOX, track->config_at, track->format, 0,
                        "NAL unit lengths of 3 bytes are not allowed");
    if (!track->frame_width || !track->frame_height)
        return BZI_FAIL(err, BZNA_E_BOX, "the frame size is %ux%u", track->frame_width, track->frame_height);
    if (codec->is_file && !track->has_clap)  /* each picture states its own size; the track's is that of the largest */
        coded->frame_width = coded->width = coded->frame_height = coded->height = 0;

    memcpy(image->clap, c, sizeof image->clap);
    if (track->has_clap && (!bzi_clap_side(coded->frame_width, c, c + 4, &coded->crop_x, &coded->width) ||
                            !bzi_clap_side(coded->frame_height, c + 2, c + 6, &coded->crop_y, &coded->height)))
        return BZI_FAIL(err, BZNA_E_BOX, "clap %d/%d x %d/%d at %d/%d, %d/%d is not inside the %ux%u frame", c[0],
                        c[1], c[2], c[3], c[4], c[5], c[6], c[7], track->frame_width, track->frame_height);
    return BZNA_OK;
}

/* Describes a track's picture by its access unit, at offset in the file. */
static bzna_status bzi_track_unit(const bzi_track *track, bzi_span unit, uint64_t offset, bzi_image *image,
                                  bzna_error *err)
{
    if (bzi_track_image(track, image, err) != BZNA_OK)
        return bzi_error_prefix(err, track->name);
    if (unit.size == 0)
        return BZI_FAIL(err, BZNA_E_BOX, "%s: the access unit has no bytes", track->name);

    image->coded.config = track->config.data;
    image->coded.data = unit.data;
    image->coded.data_size = unit.size;
    image->data_offset = offset;
    return BZNA_OK;
}


/* ==== 25. Containers ================================================================================================
 * Calls: rooms 2, 9, 11, 13.
 *
 * A container holds samples. Its type is a row of operations, which no code outside of rooms 24 to 40 knows. An open
 * container is immutable, and any thread may use it.
 *
 * An example: a file that begins with "GRAY", and then has pictures of 28 x 28 gray bytes, end to end. It needs this
 * and an entry in bzi_containers (parameters without their types; each function returns BZNA_OK):
 *
 *   int gray_probe(head) { return head.size >= 4 && !memcmp(head.data, "GRAY", 4); }
 *   bzna_status gray_open(c, config, err) { c->count = (c->source.size - 4) / 784;
 *       bzi_container_add_field(c, c->own, BZNA_FIELD_IMAGE, 1, "image"); }
 *   bzna_status gray_locate(c, index, extent, err) { extent->offset = 4 + 784 * index; extent->size = 784; }
 *   bzna_status gray_image(c, sample, pick, image, err) { static const uint8_t layout[2] = { 1, 0 };
 *       *image = bzi_image_of_bytes(BZNA_CODEC_RAW, bzi_sample_span(sample), 0);
 *       bzi_image_set_raw(image, 28, 28, layout); }
 *   const bzi_container_ops gray_row = {
 *       .name = "gray", .own_bytes = sizeof(bzi_field), .still = 1, .probe = gray_probe, .open = gray_open,
 *       .locate = gray_locate, .image = gray_image, .fingerprint = bzi_container_hash }; */

/* The place of a sample's bytes: in a source, in a file that is opened to read them, or in memory. */
typedef struct bzi_extent {
    uint64_t          offset;         /* of the first byte */
    uint64_t          size;           /* bytes; BZI_TO_END: up to the end of the file, known when it is open */
    const bzi_source *source;         /* where they lie; NULL: in the container's source */
    const uint8_t    *data;           /* they are held in memory, here; NULL: they are not */
    uint64_t          file;           /* they lie in this file of the container, counted from 1; 0: they do not */
    uint32_t          naming;         /* set by who asks: only to name the file of a sample in a message */
} bzi_extent;

#define BZI_TO_END (UINT64_MAX - 1)   /* BZNA_SIZE_UNKNOWN, which builds without providers do not have */

/* A sample. */
typedef struct bzi_sample {
    uint64_t       index;             /* number of the sample in its container */
    bzi_extent     extent;            /* where its bytes lie */
    const uint8_t *bytes;             /* extent.size of them, once it is held, read or fetched; else NULL */
} bzi_sample;

static bzi_span bzi_sample_span(const bzi_sample *sample) { return (bzi_span){ sample->bytes, sample->extent.size }; }

#define BZI_ABSENT UINT64_MAX

/* Finds one of the `count` parts of a sample, which lie end to end, and after them the size of each, a uint64_t.
 * BZI_ABSENT: the sample does not have it, and 0 is returned. */
BZI_MAYBE_UNUSED static int bzi_sample_part(const bzi_sample *sample, uint32_t count, uint32_t number, bzi_span *part)
{
    const uint8_t *sizes = sample->bytes + sample->extent.size - count * sizeof(uint64_t);
    uint64_t at = 0, size = 0;

    for (uint32_t i = 0; i <= number; i++) {
        at += size == BZI_ABSENT ? 0 : size;
        memcpy(&size, sizes + i * sizeof size, sizeof size);
    }
    *part = (bzi_span){ sample->bytes + at, size };
    return size != BZI_ABSENT;
}

/* Which picture of a sample is wanted. */
typedef struct bzi_pick {
    const char *name;                 /* NULL: the container chooses: a thumbnail if there is one */
    uint32_t    whole;                /* with name NULL: not the thumbnail */
    uint32_t    number;               /* of the field, for containers whose pictures are those of their fields */
    uint32_t    palette;              /* BZNA_PALETTE_INDEX: indices, whatever the container says */
} bzi_pick;

/* A field that samples have. */
typedef struct bzi_field {
    uint32_t kind;                    /* BZNA_FIELD_... */
    uint32_t inside;                  /* its value is in the sample's bytes, which are read before it is asked for */
    char     name[BZNA_NAME_MAX];     /* by which users name it */
} bzi_field;

static void bzi_sample_ref_add(bzna_sample_ref *out, const char *name)
{
    if (out->image_count < BZNA_IMAGES_MAX)
        bzi_string_copy(out->image_names[out->image_count++], BZNA_NAME_MAX, name);
}

/* Returns the bytes of each number in a value of this kind. An integer is an int64_t, a vector consists of floats, and
 * text has no NUL at its end. */
static size_t bzi_number_bytes(uint32_t kind)
{
    return kind == BZNA_FIELD_INTEGER ? sizeof(int64_t) : kind == BZNA_FIELD_VECTOR ? sizeof(float) : 1;
}

typedef struct bzi_container bzi_container;

/* Results of operations that are neither BZNA_OK nor an error. */
#define BZI_DECLINED 101              /* open: the file is of another type, which begins alike. It is the next row's */
#define BZI_FETCH    102              /* locate: the bytes lie in no one place. `fetch` gets them */

/* The operations of a type of containers. Their errors name place and byte offset; the caller adds sample and file.
 * After a row that declines, the next one that recognizes the file has its turn, with `own` as this one left it.
 * Operations from `fetch` on may be NULL. */
typedef struct bzi_container_ops {
    const char *name;                 /* for messages */
    uint64_t    own_bytes;            /* bytes of bzi_container.own, all zeros before open */
    uint32_t    still;                /* what bzi_container.still is, unless open says otherwise */
    const char *settings;             /* what bzi_container.settings is, unless open says otherwise */
    /* recognizes a file by its first bytes, at most BZI_PROBE_BYTES. NULL: it is opened by the caller's word only */
    int         (*probe)(bzi_span head);
    /* sets the members after `source` in bzi_container. May return BZI_DECLINED; BZNA_END, with an error, for a file
     * that adds no samples to those of others */
    bzna_status (*open)(bzi_container *c, const bzna_dataset_config *config, bzna_error *err);
    /* finds a sample's bytes. extent is all zeros before, but for `naming`. May return BZI_FETCH */
    bzna_status (*locate)(const bzi_container *c, uint64_t index, bzi_extent *extent, bzna_error *err);
    /* gives a field's value. number: in fields; of any kind but a picture */
    bzna_status (*field)(const bzi_container *c, const bzi_sample *sample, uint32_t number, bzi_value *value,
                         bzna_error *err);
    /* describes a picture, with pointers into the sample's bytes and the container. Without `images`, pick->number is
     * the number of its field */
    bzna_status (*image)(const bzi_container *c, const bzi_sample *sample, const bzi_pick *pick, bzi_image *image,
                         bzna_error *err);
    /* adds to a hash what tells its samples from those of other files */
    uint64_t    (*fingerprint)(const bzi_container *c, uint64_t hash);
    /* gets a sample that is not in one place: always the required size, and the whole sample if it fits. A row that has
     * this asks the user's code: E_CALLBACK costs the sample alone */
    bzna_status (*fetch)(const bzi_container *c, uint64_t index, uint8_t *bytes, uint64_t capacity, uint64_t *size,
                         bzna_error *err);
    /* gives the names of a sample's pictures. NULL: they are those of the picture fields */
    bzna_status (*images)(const bzi_container *c, const bzi_sample *sample, bzna_sample_ref *out,
                          bzna_error *err);
    /* gives the path of a file, counted from 0. NULL: no extent has a file */
    bzna_status (*path)(const bzi_container *c, uint64_t file, char *path, uint64_t capacity, bzna_error *err);
    /* gives the name of a target's class */
    bzna_status (*class_name)(const bzi_container *c, uint64_t target, bzi_value *value, bzna_error *err);
    void        (*close)(bzi_container *c); /* closes what own holds besides memory; NULL: nothing */
} bzi_container_ops;

#define BZI_NO_FIELD UINT32_MAX

/* A container of samples. */
struct bzi_container {
    const bzi_container_ops *ops;     /* its type */
    bzi_host        *host;            /* a reference is held */
    atomic_int       references;      /* the last one closes it */
    const char      *name;            /* for messages */
    const char      *settings;        /* members of dataset_config with an effect that not all have, as words for
                                       * bzi_word_is_in */
    bzi_source       source;          /* empty if samples are files of their own */
    uint64_t         size_bytes;      /* of its files, if they are not the source */
    bzna_dataset_info info;           /* its kind and, of an mp4 file, brands, tracks and trailing bytes */
    /* of an mp4 file, info.track_count of them, without what they point to, but a video's config */
    bzi_track       *tracks;
    uint64_t         count;           /* samples */
    uint64_t         target_count;    /* samples that may have a target: the first ones, or any */
    uint64_t         class_count;     /* classes that have a name */
    const char *const *class_names;   /* their names; NULL: the row has others */
    const bzi_field *fields;          /* that samples have */
    uint32_t         field_count;     /* how many they are */
    uint32_t         target_field;    /* number of the field that is a sample's target; BZI_NO_FIELD: there is none */
    uint32_t         target_inside;   /* the target is in the sample's bytes */
    uint32_t         target_chosen;   /* dataset_config.target names what it is, and no field */
    uint32_t         orientation;     /* BZNA_ORIENTATION_... */
    uint32_t         palette;         /* BZNA_PALETTE_... */
    uint32_t         still;           /* pictures are JPEG or other stills: NVDEC is asked only where decode.jpeg is */
    uint32_t         codec;           /* of all pictures; BZNA_CODEC_UNKNOWN: only each sample itself says it */
    uint32_t         records_held;    /* samples are records that a provider has in memory, as far as it is known */
    uint64_t         alike;           /* not 0: samples differ in nothing but bytes, and in no more from those of other
                                       * containers with this number: one size, pictures at the same place */
    uint64_t         max_bytes;       /* of a sample: context_config.max_sample_bytes, or a provider's smaller limit */
    bzi_arena        arena;            /* its memory, which ends with it */
    void            *own;             /* the state of its operations */
    const void      *given;           /* while it is opened: a folder's path, or a provider */
};


/* own: the array in which the container keeps its fields. */
static void bzi_container_add_field(bzi_container *c, bzi_field *own, uint32_t kind, uint32_t inside, const char *name)
{
    bzi_field *field = &own[c->field_count++];
    c->fields = own;
    field->kind = kind;
    field->inside = inside;
    bzi_string_copy(field->name, sizeof field->name, name);
}

/* For rows that set class_names. Pre: target < class_count. */
BZI_MAYBE_UNUSED static bzna_status bzi_container_class_name(const bzi_container *c, uint64_t target, bzi_value *value,
                                                             bzna_error *err)
{
    (void)err;
    bzi_value_put(value, c->class_names[target], strlen(c->class_names[target]));
    return BZNA_OK;
}

/* Returns the number of a picture field, or BZI_NO_FIELD. Without a name, or with "image" if no picture is called so,
 * that is the first one. */
static uint32_t bzi_container_find_picture(const bzi_container *c, const char *name)
{
    uint32_t first = BZI_NO_FIELD;

    for (uint32_t i = c->field_count; i-- > 0;) {
        if (c->fields[i].kind != BZNA_FIELD_IMAGE)
            continue;
        if (name && !strcmp(c->fields[i].name, name))
            return i;
        first = i;
    }
    return !name || !strcmp(name, "image") ? first : BZI_NO_FIELD;
}

/* Returns the number of a field, or BZI_NO_FIELD. If no field is called so, "target" is the one that gives the target,
 * and "image" the first picture. */
static uint32_t bzi_container_find_field(const bzi_container *c, const char *name)
{
    for (uint32_t i = 0; i < c->field_count; i++)
        if (!strcmp(c->fields[i].name, name))
            return i;
    return !strcmp(name, "image") ? bzi_container_find_picture(c, NULL) :
           !strcmp(name, "target") ? c->target_field : BZI_NO_FIELD;
}

/* Sizes tell most files apart. */
static uint64_t bzi_container_hash(const bzi_container *c, uint64_t hash)
{
    const uint64_t words[2] = { c->source.size, c->count };
    return bzi_hash(hash, words, sizeof words);
}

/* Checks that an extent is in its file, and finds its size if that is not known. */
static bzna_status bzi_extent_fit(bzi_extent *extent, uint64_t file_bytes, bzna_error *err)
{
    const uint64_t left = file_bytes - bzi_min(extent->offset, file_bytes);

    if (extent->size == BZI_TO_END && extent->offset <= file_bytes)
        extent->size = left;
    if (extent->offset <= file_bytes && extent->size <= left)
        return BZNA_OK;
    if (extent->size == BZI_TO_END)
        return BZI_FAIL_AT(err, BZNA_E_TRUNCATED, file_bytes, "the file ends before byte %llu",
                           (bzi_llu)extent->offset);
    return BZI_FAIL_AT(err, BZNA_E_TRUNCATED, file_bytes, "the file ends before the last of %llu bytes at byte %llu",
                       (bzi_llu)extent->size, (bzi_llu)extent->offset);
}

/* Opens an extent's file, and finds its size if that is not known. */
static bzna_status bzi_extent_open(const bzi_container *c, bzi_extent *extent, bzi_source *file, bzna_error *err)
{
    char path[BZI_LIMIT_PATH_BYTES];

    memset(file, 0, sizeof *file);
    if (c->ops->path(c, extent->file - 1, path, sizeof path, err) != BZNA_OK ||
        bzi_source_open_file(file, path, err) != BZNA_OK)
        return bzi_file_fail_gone(err);
    if (bzi_extent_fit(extent, file->size, err) == BZNA_OK)
        return BZNA_OK;
    bzi_source_close(file);
    return err->status;
}

/* Puts the path of an extent's file, if it has one, before the message. */
static bzna_status bzi_extent_blame(const bzi_container *c, const bzi_extent *extent, bzna_error *err)
{
    char path[BZI_LIMIT_PATH_BYTES] = "";
    bzna_error ignored;

    if (!extent->file && extent->source && extent->source->path)
        bzi_string_copy(path, sizeof path, extent->source->path);
    if (extent->file && c->ops->path(c, extent->file - 1, path, sizeof path, &ignored) != BZNA_OK)
        path[0] = 0;

    for (char *p = path; *p; p++)
        if ((unsigned char)*p < 32 || *p == 127)
            *p = '?';  /* a message is one line */
    if (strlen(path) >= strlen(c->name) && !strcmp(path + (strlen(path) - strlen(c->name)), c->name))
        return err->status;  /* which the container's name says */
    return path[0] && !strstr(err->message, path) ? bzi_error_prefix(err, path) : err->status;
}

/* name: the picture that is not there; NULL: any. */
static bzna_status bzi_container_fail_image(const char *name, bzna_error *err)
{
    return BZI_FAIL(err, BZNA_E_NOT_FOUND, "it has no picture%s%s%s", name ? " \"" : "", name ? name : "",
                    name ? "\"" : "");
}


/* ==== 26. Pictures in files ========================================================================================
 * Calls: rooms 2, 7-9, 12, 17-21.
 *
 * A picture that is a file, by itself or among the bytes of a sample: of a kind that the library knows, or else of the
 * program's own codecs (context_config.own_codecs). Their functions run without any lock, and nothing that they say is
 * trusted. */

/* Checks the caller's codecs and copies them to the host, which closes them. After a failure they are still the
 * caller's. */
static bzna_status bzi_own_open(bzi_host *host, const bzna_own_codecs *given, bzna_error *err)
{
    for (uint32_t i = 0; i < given->count; i++) {
        bzi_own_codec *own = &host->own_codecs[i];
        bzna_codec *c = &own->c;
        const char *fault = NULL;
        char where[48];

        snprintf(where, sizeof where, "context_config.own_codecs.ptr[%u]", i);
        if (!bzi_struct_in_array(c, sizeof *c, given->ptr, i))
            return BZI_FAIL(err, BZNA_E_STRUCT_SIZE, "%s.struct_size: differs from the first one's, or is not known",
                            where);
        if (bzi_settings_check(BZI_OF_codec, c, where, err) != BZNA_OK)
            return err->status;

        if (!c->name || !*c->name || strlen(c->name) >= sizeof own->name || !bzi_text_is_utf8(c->name))
            fault = "name: must have 1 to 31 bytes of UTF-8";
        else if (c->extensions && strlen(c->extensions) >= BZI_LIMIT_EXTENSIONS)
            fault = "extensions: has more than 255 bytes";
        else if (!c->recognize)
            fault = "recognize: is NULL";
        else if (!c->decode && !c->unwrap)
            fault = "decode, unwrap: both are NULL";
        else if (c->decode && !c->inspect)
            fault = "inspect: is NULL, but decode is not";
        else if (c->thread_end && !c->thread_begin)
            fault = "thread_begin: is NULL, but thread_end is not";
        if (fault)
            return BZI_MISUSE(err, "%s.%s", where, fault);

        bzi_string_copy(own->name, sizeof own->name, c->name);
        snprintf(own->extensions, sizeof own->extensions, " %s ", c->extensions ? c->extensions : "");
        c->name = c->extensions = NULL;  /* the caller's may go */
    }
    host->own_codec_count = (uint32_t)given->count;
    return BZNA_OK;
}

/* extension: without its dot. */
BZI_MAYBE_UNUSED static int bzi_own_has_extension(const bzi_host *host, const char *extension)
{
    for (uint32_t i = 0; i < host->own_codec_count; i++)
        if (bzi_word_is_in(extension, host->own_codecs[i].extensions))
            return 1;
    return 0;
}

/* Returns the number of the own codec that takes a file, or UNKNOWN. */
static uint32_t bzi_own_recognize(const bzi_host *host, bzi_span bytes)
{
    int32_t takes = 0;

    for (uint32_t i = 0; i < host->own_codec_count && bytes.size; i++) {
        const bzna_codec *c = &host->own_codecs[i].c;
        BZI_CALLBACK(takes = c->recognize(c->user, bytes.data, bzi_min(bytes.size, BZI_PROBE_BYTES)));
        if (takes)
            return BZNA_CODEC_OWN + i;
    }
    return BZNA_CODEC_UNKNOWN;
}

/* Returns 1 if a codec of the program's own may wrap pictures that the library decodes. */
static int bzi_own_wraps(const bzi_host *host)
{
    for (uint32_t i = 0; i < host->own_codec_count; i++)
        if (host->own_codecs[i].c.unwrap)
            return 1;
    return 0;
}

/* Returns 1 if this codec may. */
BZI_MAYBE_UNUSED static int bzi_own_may_wrap(const bzi_host *host, uint32_t codec)
{
    return codec - BZNA_CODEC_OWN < host->own_codec_count && host->own_codecs[codec - BZNA_CODEC_OWN].c.unwrap;
}

/* What the codecs keep for a thread that reads their pictures. */
typedef struct bzi_own {
    bzi_host  *host;                  /* NULL: there are no codecs */
    void      *states[BZI_LIMIT_OWN_CODECS];
    uint32_t   begun;                 /* bits: which of them were made */
    uint32_t   copied;                /* pictures that were copied */
    bzi_buffer pixels;                /* planes of the picture that was decoded last */
    bzi_buffer again;                 /* the same, if it was decoded twice */
    /* unwrapped pictures that did not lie in their wrapper: a sample has at most so many */
    bzi_buffer copies[BZI_LIMIT_OUTPUTS];
} bzi_own;

static void bzi_own_end(bzi_own *own)
{
    for (uint32_t i = 0; own->begun; i++, own->begun >>= 1) {
        const bzna_codec *c = &own->host->own_codecs[i].c;
        if (own->begun & 1 && c->thread_end)
            BZI_CALLBACK(c->thread_end(c->user, own->states[i]));
    }
    if (!own->host)
        return;
    bzi_buffer_free(&own->host->memory, &own->pixels);
    bzi_buffer_free(&own->host->memory, &own->again);
    for (uint32_t i = 0; i < BZI_LIMIT_OUTPUTS; i++)
        bzi_buffer_free(&own->host->memory, &own->copies[i]);
}

/* said: what a codec's function returned. */
static bzna_status bzi_own_fail(const bzi_own *own, uint32_t i, const char *function, int32_t said, uint64_t bytes,
                                bzna_error *err)
{
    char otherwise[64];

    snprintf(otherwise, sizeof otherwise, "%s returned %d", function, (int)said);
    bzi_fail_said(err, bzi_is_of_sample(said) ? said : BZNA_E_DECODE, said, bytes, otherwise);
    return bzi_error_prefix(err, own->host->own_codecs[i].name);
}

/* Makes a codec's state for this thread if there is none. */
static bzna_status bzi_own_begin(bzi_own *own, uint32_t i, bzna_error *err)
{
    const bzna_codec *c = &own->host->own_codecs[i].c;
    int32_t said = BZNA_OK;

    if (!c->thread_begin)
        own->states[i] = c->user;
    else if (!(own->begun >> i & 1)) {
        own->states[i] = NULL;
        bzi_error_init(err);
        BZI_CALLBACK(said = c->thread_begin(c->user, &own->states[i], err));
        if (said != BZNA_OK)
            return bzi_own_fail(own, i, "thread_begin", said, 0, err);
        own->begun |= 1u << i;
    }
    return BZNA_OK;
}

/* --- Codecs of the program's own: inspecting, unwrapping --- */

/* Checks a shape, and makes a format of it. is_index: numbers of colors are the pixels. */
static bzna_status bzi_own_format(const bzna_codec_shape *shape, int is_index, bzi_format *format, bzna_error *err)
{
    const uint32_t pixels = is_index && shape->pixels == BZNA_PIXELS_INDEX ? BZNA_PIXELS_GRAY : shape->pixels;
    const uint32_t is_rgb = pixels == BZNA_PIXELS_RGB || pixels == BZNA_PIXELS_INDEX;
    const uint32_t is_ycbcr = pixels == BZNA_PIXELS_YCBCR;
    const uint32_t depth = shape->depth ? shape->depth : 8;

    if (!shape->width || !shape->height || shape->pixels > BZNA_PIXELS_INDEX || shape->interleaved > 1 ||
        shape->chroma_shift_x > 2 || shape->chroma_shift_y > 2 || shape->orientation > 8 || depth < 8 || depth > 16 ||
        (shape->pixels == BZNA_PIXELS_INDEX && depth != 8) || shape->crop.x1 < shape->crop.x0 ||
        shape->crop.y1 < shape->crop.y0 || !shape->crop.x1 != !shape->crop.y1)
        return BZI_FAIL(err, BZNA_E_DECODE, "inspect says %ux%u, pixels %u, depth %u, interleaved %u, chroma_shift "
                        "%u,%u, orientation %u, or a crop, which no picture is", shape->width, shape->height,
                        shape->pixels, depth, shape->interleaved, shape->chroma_shift_x, shape->chroma_shift_y,
                        shape->orientation);

    *format = (bzi_format){ .width = shape->width, .height = shape->height, .depth_luma = depth, .depth_chroma = depth,
                            .chroma_format = is_rgb ? 3 : is_ycbcr ? BZI_CHROMA_SHIFTS : 0,
                            .chroma_shift = { shape->chroma_shift_x, shape->chroma_shift_y },
                            .orientation = shape->orientation, .pixels = shape->pixels,
                            .interleaved = shape->interleaved && shape->pixels == BZNA_PIXELS_RGB };
    format->chroma_location = shape->chroma_left ? BZI_CHROMA_LEFT : BZI_CHROMA_CENTER;
    if (shape->chroma_top)
        format->chroma_location = shape->chroma_left ? BZI_CHROMA_TOP_LEFT : BZI_CHROMA_TOP;
    format->pixel_bits = (is_rgb || is_ycbcr ? 3u : 1u) * (depth > 8 ? 16 : 8);
    format->crop[0] = shape->crop.x0;
    format->crop[1] = shape->crop.y0;
    format->crop[2] = shape->crop.x1 - shape->crop.x0;
    format->crop[3] = shape->crop.y1 - shape->crop.y0;
    format->color = shape->color;
    if (!shape->color.present || is_rgb)
        format->color = bzi_color_of_archives;
    if (is_rgb)
        format->color.matrix = 0;
    return BZNA_OK;
}

static int bzi_span_holds(bzi_span span, const void *data, uint64_t size)
{
    const uintptr_t begin = (uintptr_t)span.data, at = (uintptr_t)data;
    return at >= begin && at - begin <= span.size && size <= span.size - (at - begin);
}

/* Checks an unwrapped picture, and copies what is not in the wrapper. */
static bzna_status bzi_own_take_inner(bzi_own *own, bzi_span wrapper, bzna_image *inner, bzna_error *err)
{
    bzi_buffer *copy = &own->copies[own->copied % BZI_LIMIT_OUTPUTS];
    uint64_t total;

    if (inner->codec < BZNA_CODEC_H264 || inner->codec > BZNA_CODEC_STILL)
        return BZI_FAIL(err, BZNA_E_CODEC, "unwrap: codec %u is not H264, H265, AV1, JPEG or STILL", inner->codec);
    if (!bzi_add(inner->data_size, inner->config_size, &total) || total > own->host->max_sample_bytes)
        return BZI_FAIL(err, BZNA_E_LIMIT, "unwrap: a picture of %llu bytes, more than context_config.max_sample_bytes",
                        (bzi_llu)inner->data_size);
    if (bzi_span_holds(wrapper, inner->data, inner->data_size) &&
        (!inner->config_size || bzi_span_holds(wrapper, inner->config, inner->config_size)))
        return BZNA_OK;

    own->copied++;
    if (!bzi_buffer_reserve(&own->host->memory, copy, total, 0))
        return bzi_fail_memory(err, "an unwrapped picture");
    bzi_copy(copy->data, inner->data, inner->data_size);
    bzi_copy(copy->data + inner->data_size, inner->config, inner->config_size);
    inner->data = copy->data;
    inner->config = inner->config_size ? copy->data + inner->data_size : NULL;
    return BZNA_OK;
}

/* Replaces a wrapper by the picture in it, as if that had come alone. */
static bzna_status bzi_own_unwrap(bzi_own *own, uint32_t i, bzi_image *image, bzna_error *err)
{
    const bzna_codec *c = &own->host->own_codecs[i].c;
    const bzi_span wrapper = bzi_image_data(&image->coded);
    bzna_image given = { .struct_size = sizeof given }, inner;
    int32_t said;

    bzi_error_init(err);
    BZI_CALLBACK(said = c->unwrap(own->states[i], wrapper.data, wrapper.size, &given, err));
    given.struct_size = sizeof given;
    if (said == BZNA_OK && (bzi_image_take(&inner, &given, "image", err) != BZNA_OK ||
                            bzi_own_take_inner(own, wrapper, &inner, err) != BZNA_OK))
        said = err->status;
    if (said != BZNA_OK)
        return bzi_own_fail(own, i, "unwrap", said, wrapper.size, err);

    inner.palette = image->coded.palette;
    inner.orientation = bzi_default(image->coded.orientation, inner.orientation);  /* as the data set wants it */
    image->coded = inner;
    return BZNA_OK;
}

/* Inspects a picture of the program's own codecs, also a still of a kind that the library lacks, or unwraps it. Any
 * other picture stays as it is. */
static bzna_status bzi_own_prepare_one(bzi_own *own, bzi_image *image, bzna_error *err)
{
    const bzi_span file = bzi_image_data(&image->coded);
    const uint32_t allowed = own->host ? own->host->codecs : 0;
    bzna_codec_shape shape = { .struct_size = sizeof shape };
    const bzi_own_codec *codec;
    int32_t said = BZNA_OK;
    uint32_t i;

    if (image->coded.codec == BZNA_CODEC_STILL && own->host && !bzi_still_find(file) &&
        (i = bzi_own_recognize(own->host, file)) != BZNA_CODEC_UNKNOWN) {
        image->coded.codec = i;
        image->fourcc = bzi_kind_of_name(own->host->own_codecs[i - BZNA_CODEC_OWN].name);
    }
    i = image->coded.codec - BZNA_CODEC_OWN;
    if (image->coded.codec < BZNA_CODEC_OWN || image->is_inspected)
        return BZNA_OK;
    if (!own->host || i >= own->host->own_codec_count)
        return BZI_FAIL(err, BZNA_E_CODEC, "codec %u: the context has no such codec of its own", image->coded.codec);
    codec = &own->host->own_codecs[i];
    if (allowed && !(allowed & BZNA_ALLOW_OWN))
        return BZI_FAIL(err, BZNA_E_CODEC, "%s: context_config.codecs does not allow it", codec->name);
    if (bzi_own_begin(own, i, err) != BZNA_OK)
        return err->status;

    bzi_error_init(err);
    if (codec->c.inspect)
        BZI_CALLBACK(said = codec->c.inspect(own->states[i], file.data, file.size, &shape, err));
    if (said != BZNA_OK) {
        bzi_own_fail(own, i, "inspect", said, file.size, err);
        return bzi_image_fail_at(image, err);
    }
    if (!codec->c.decode || (codec->c.unwrap && shape.wrapped))
        return bzi_own_unwrap(own, i, image, err);

    if (allowed && (shape.codecs & ~allowed))
        return BZI_FAIL(err, BZNA_E_CODEC, "%s: context_config.codecs does not allow what it is made of", codec->name);
    if (bzi_own_format(&shape, image->coded.palette == BZNA_PALETTE_INDEX, &image->format, err) != BZNA_OK ||
        bzi_format_check_bytes(&image->format, file.size, err) != BZNA_OK)
        return bzi_own_fail(own, i, "inspect", err->status, file.size, err);
    image->is_inspected = 1;
    return BZNA_OK;
}

/* Does so, and once more with a still that was unwrapped. */
static bzna_status bzi_own_prepare(bzi_own *own, bzi_image *image, bzna_error *err)
{
    const bzna_status status = bzi_own_prepare_one(own, image, err);

    return status == BZNA_OK && image->coded.codec == BZNA_CODEC_STILL ? bzi_own_prepare_one(own, image, err) : status;
}

/* --- Pictures that are files --- */

/* Returns 1 if no kind of this build's takes a file. */
static int bzi_codec_declines(bzi_span bytes)
{
    const uint32_t kind = bzi_codec_recognize(bytes);
    return kind == BZNA_CODEC_UNKNOWN || (kind == BZNA_CODEC_STILL && !bzi_still_find(bytes)->read);
}

/* Returns the codec of a file: the library's or, if no kind of this build's takes it, one of the program's own. */
static uint32_t bzi_file_codec(const bzi_host *host, bzi_span bytes)
{
    const uint32_t own = bzi_codec_declines(bytes) ? bzi_own_recognize(host, bytes) : BZNA_CODEC_UNKNOWN;
    return own != BZNA_CODEC_UNKNOWN ? own : bzi_codec_recognize(bytes);
}

/* offset: of the picture in the file that holds it. */
static bzna_status bzi_file_image(const bzi_host *host, bzi_span bytes, uint64_t offset, bzi_image *image,
                                  bzna_error *err)
{
    const uint32_t codec = bzi_file_codec(host, bytes);
    const char *unread;

    *image = bzi_image_of_bytes(codec, bytes, offset);
    if (codec != BZNA_CODEC_UNKNOWN) {
        image->fourcc = bzi_kind_of_name(codec < BZNA_CODEC_OWN ? bzi_image_codec_name(&image->coded) :
                                                                  host->own_codecs[codec - BZNA_CODEC_OWN].name);
        return BZNA_OK;
    }
    if (bytes.size == 0)
        return BZI_FAIL_AT(err, BZNA_E_FORMAT, offset, "the picture has no bytes");
    if ((unread = bzi_codec_unread(bytes)) != NULL)
        return BZI_FAIL_AT(err, BZNA_E_CODEC, offset, "the picture is %s", unread);
    return BZI_FAIL_AT(err, BZNA_E_CODEC, offset,
                       "the picture is of no known kind: it begins with %02x %02x %02x %02x; examples/formats has more "
                       "codecs", bytes.data[0],
                       bytes.size > 1 ? bytes.data[1] : 0, bytes.size > 2 ? bytes.data[2] : 0,
                       bytes.size > 3 ? bytes.data[3] : 0);
}


/* ==== 27. Containers: mp4 ===========================================================================================
 * Calls: rooms 2, 8-9, 11, 13, 19-20, 22-25.
 *
 * Opening and indexing of archives, whose samples are small mp4 files, and of plain videos with a video track of sync
 * samples only: each frame is a sample. The index is read once, here: 12 bytes for each sample's place, 12 for that of
 * its name, and 8 for its target. A sample's own boxes are read with the sample. */

typedef struct bzi_mp4 {
    bzi_window     moov;              /* through which the movie box is read, while the file is opened */
    int64_t       *targets;           /* c->target_count of them */
    uint8_t       *bad_targets;       /* of each, 1: the index does not say 8 bytes in the file; NULL: of all it does */
    bzi_track     *input;             /* the track of pictures; NULL: there is none, as for the next two */
    bzi_track     *target;            /* the track of targets */
    bzi_track     *filename;          /* the track of names */
    bzi_movie_head head;              /* what the file states besides its tracks; its names are in memory */
    uint32_t       orientation;       /* of a video's frames */
    uint64_t       classes_at;        /* offset of the classes in head.names */
    bzi_field     *fields;            /* image, thumb, target and name, if there are such; then those of head.names */
    uint32_t       first_own;         /* number of the first field of head.names */
} bzi_mp4;

static const bzi_mp4 *bzi_mp4_of(const bzi_container *c) { return c->own; }

/* Frees what is needed only while a file is opened. */
static void bzi_mp4_close(bzi_container *c) { bzi_buffer_free(&c->host->memory, &((bzi_mp4 *)c->own)->moov.bytes); }


/* Recognizes a file by its first box. Old QuickTime files have no ftyp and begin with another one of these. */
static int bzi_mp4_probe(bzi_span head)
{
    static const char first[][5] = { "ftyp", "mdat", "moov", "wide", "free", "skip", "styp", "moof" };

    for (size_t i = 0; head.size >= 8 && i < BZI_LENGTH(first); i++)
        if (!memcmp(head.data + 4, first[i], 4))
            return !bzi_codec_unread(head);  /* HEIF begins like that, too */
    return 0;
}

/* Walks over the boxes of the file, and then reads the movie box. Ignores bytes at the end that are too few for a box.
 * Pointers in movie are invalid afterwards. */
static bzna_status bzi_mp4_scan(bzi_container *c, bzi_movie *movie)
{
    const uint64_t end = c->source.size;
    bzi_box box = { 0 }, last, moov = { 0 };
    bzna_status status = BZNA_OK;
    const uint8_t *bytes;
    uint64_t at = 0;

    for (uint32_t n = 0; at < end && status == BZNA_OK && (!n || end - at >= 8); n++, at += box.size) {
        last = box;
        if (n == BZI_LIMIT_TOP_BOXES)
            return BZI_BOX_FAIL(movie, BZNA_E_LIMIT, at, "more than %u boxes at file level", n);
        if ((status = bzi_box_next(movie, at, end, &box)) != BZNA_OK)
            break;
        if (last.type == bzi_type("mdat") && last.size == 16 && last.header == 16 && box.type == bzi_type("ftyp")) {
            /* the original tools write samples after an empty box, and let it contain them when they index the file */
            movie->path[movie->depth++] = last.type;
            return BZI_BOX_FAIL(movie, BZNA_E_UNFINISHED, last.at, "the archive was not indexed: the box is empty, and "
                                "samples follow it. Index it with the tool that wrote it, or pack its pictures again");
        }
        if (box.type == bzi_type("moov") && !moov.size)
            moov = box;
        else
            status = bzi_box_list(movie, at, at + box.size, BZI_FILE);
    }

    c->info.trailing_bytes = end > at ? end - at : 0;  /* too few for another box */
    if (status >= 0 && !moov.size)
        return BZI_FAIL_AT(movie->err, BZNA_E_TRUNCATED, end, "the file ends without a moov box");
    if (status >= 0 && !c->source.is_file)  /* in one piece */
        status = bzi_window_view(movie->window, moov.at, moov.size, &bytes, movie->err);
    return status < 0 ? status : bzi_box_list(movie, moov.at, moov.at + moov.size, BZI_FILE);
}

/* Copies a part of the movie box, which lasts as long as the container. */
static bzna_status bzi_mp4_copy(bzi_container *c, uint64_t at, bzi_span *span, bzna_error *err)
{
    uint8_t *copy;

    if (!span->size)
        return BZNA_OK;
    span->data = copy = bzi_arena_alloc(&c->arena, span->size, 1);
    return copy ? bzi_window_copy(&bzi_mp4_of(c)->moov, at, copy, span->size, err) :
                  bzi_fail_memory(err, "the bytes of a source");
}

/* Reads the movie box. Keeps the tracks in use, without what they point to. */
static bzna_status bzi_mp4_read(bzi_container *c, bzna_error *err)
{
    bzi_mp4 *mp4 = c->own;
    bzi_movie movie;  /* on the stack: in the heap, thousands of files would leave as many holes */

    bzi_movie_begin(&movie, err);
    mp4->moov = (bzi_window){ .source = &c->source, .memory = &c->host->memory, .held = c->source.held };
    movie.window = &mp4->moov;
    if (bzi_mp4_scan(c, &movie) != BZNA_OK)
        return err->status;
    if (!(c->tracks = bzi_arena_copy(&c->arena, movie.tracks, movie.track_count, sizeof *movie.tracks)))
        return bzi_fail_memory(err, "the tracks of a data set");

    c->info.track_count = movie.track_count;
    for (uint32_t i = 0; i < movie.track_count; i++)
        c->tracks[i].config.data = NULL;
    mp4->head = movie.head;
    c->info.brand_count = movie.head.brand_count;
    memcpy(c->info.brands, movie.head.brands, sizeof c->info.brands);
    return bzi_mp4_copy(c, mp4->head.names_at, &mp4->head.names, err);
}

/* Returns the first track of that name, or for NULL the first video track. NULL: there is none. */
static bzi_track *bzi_track_find(bzi_track *tracks, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (name ? !strcmp(tracks[i].name, name) : tracks[i].handler == bzi_type("vide"))
            return &tracks[i];
    return NULL;
}

/* Returns a track, or its variant for a split, like "bzna_input_train". */
static bzi_track *bzi_mp4_find(const bzi_container *c, const char *name, const char *split)
{
    char variant[BZNA_NAME_MAX];
    snprintf(variant, sizeof variant, "%s%s%.12s", name, split ? "_" : "", split ? split : "");
    return bzi_track_find(c->tracks, c->info.track_count, variant);
}

/* Reads the targets into the array of their offsets; those that are end to end, as in archives, at once. */
static bzna_status bzi_mp4_read_targets(bzi_container *c, bzna_error *err)
{
    bzi_mp4 *mp4 = c->own;
    bzi_arena scratch = { .memory = &c->host->memory };
    const uint64_t file_bytes = c->source.size;
    bzi_track track = *mp4->target;
    const bzi_table *t = &track.table;
    bzna_status status = bzi_track_index(&mp4->moov, &track, &c->arena, &scratch, err);

    mp4->targets = (int64_t *)t->offsets;
    c->target_count = t->sample_count;
    for (uint64_t i = 0, n; i < t->sample_count && status == BZNA_OK; i += n) {
        const uint64_t at = t->offsets[i], left = at < file_bytes ? (file_bytes - at) / 8 : 0;

        for (n = 0; i + n < t->sample_count && n < left && bzi_table_size(t, i + n) == 8 &&
                    t->offsets[i + n] == at + 8 * n; n++)
            ;
        if (n) {
            status = bzi_source_read(&c->source, at, mp4->targets + i, 8 * n, err);
            bzi_flip_to_little(mp4->targets + i, 8 * n, 8);
        } else if (mp4->bad_targets || BZI_ARENA_ZERO(&c->arena, mp4->bad_targets, t->sample_count)) {
            mp4->bad_targets[i] = 1;
            n = 1;
        } else {
            status = bzi_fail_memory(err, "the targets of a data set");
        }
    }
    bzi_arena_free(&scratch);
    return status;
}

/* Iterates over the fields in a box of ours. */
typedef struct bzi_named {
    bzi_cursor c;                     /* at the next field */
    uint32_t   left;                  /* fields */
    uint32_t   kind;                  /* of the last field: BZNA_FIELD_...; 0: there is none */
    bzi_span   name, value;           /* in the box */
} bzi_named;

/* Begins at the first field. A box of an unknown version is ignored, as if it were empty. */
static bzi_named bzi_named_begin(bzi_span box, uint64_t at)
{
    bzi_named n = { .c = bzi_cursor_make(box.data, box.size, at) };

    if (bzi_cursor_u32(&n.c) == 0)
        n.left = bzi_cursor_u32(&n.c);
    else
        n.c.pos = n.c.size;
    return n;
}

/* Returns BZNA_END after the last field. */
static bzna_status bzi_named_next(bzi_named *n, bzna_error *err)
{
    bzi_cursor *c = &n->c;
    const uint64_t at = bzi_cursor_offset(c);

    n->kind = 0;
    if (!n->left)
        return BZNA_END;

    n->left--;
    n->kind = bzi_cursor_u8(c);
    n->name.size = bzi_cursor_u8(c);
    n->name.data = bzi_cursor_take(c, n->name.size);
    n->value.size = bzi_cursor_u32(c);
    n->value.data = bzi_cursor_take(c, n->value.size);
    if (!c->overrun && n->kind >= BZNA_FIELD_IMAGE && n->kind <= BZNA_FIELD_BYTES && n->name.size &&
        n->name.size < BZNA_NAME_MAX)
        return BZNA_OK;
    return BZI_FAIL_IN(err, BZNA_E_BOX, at, BZI_UUID,
                       "the field has no name or no known kind, or does not fit the box");
}

/* Reads the names of fields and classes in a box of ours. inside: the values are in the samples. */
static bzna_status bzi_mp4_read_names(bzi_container *c, uint32_t inside, bzna_error *err)
{
    bzi_mp4 *mp4 = c->own;
    bzi_named n = bzi_named_begin(mp4->head.names, mp4->head.names_at);
    bzi_cursor *cursor = &n.c;
    bzna_status status;

    mp4->first_own = c->field_count;
    while ((status = bzi_named_next(&n, err)) == BZNA_OK) {
        char name[BZNA_NAME_MAX];
        bzi_text_copy(name, sizeof name, n.name.data, n.name.size);
        bzi_container_add_field(c, mp4->fields, n.kind, inside, name);
        if (n.left && c->field_count - mp4->first_own == BZI_LIMIT_ARCHIVE_FIELDS)
            return BZI_FAIL_IN(err, BZNA_E_LIMIT, bzi_cursor_offset(cursor), BZI_UUID, "more than %u fields",
                               BZI_LIMIT_ARCHIVE_FIELDS);
    }
    if (status != BZNA_END)
        return status;

    mp4->classes_at = cursor->pos + 4;
    c->class_count = bzi_cursor_left(cursor) < 8 ? 0 : bzi_cursor_u32(cursor);
    if (!c->class_count || c->class_count < bzi_cursor_left(cursor) / 4)
        return BZNA_OK;
    return BZI_FAIL_IN(err, BZNA_E_BOX, mp4->head.names_at + mp4->classes_at, BZI_UUID,
                       "it has no room for the names of %llu classes", (bzi_llu)c->class_count);
}

/* Pre: target < class_count. */
static bzna_status bzi_mp4_class_name(const bzi_container *c, uint64_t target, bzi_value *value, bzna_error *err)
{
    const bzi_mp4 *mp4 = c->own;
    const uint64_t at = mp4->classes_at + 4 * target, names_at = mp4->classes_at + 4 * (c->class_count + 1);
    const uint32_t begin = bzi_be32(mp4->head.names.data + at), end = bzi_be32(mp4->head.names.data + at + 4);
    if (begin > end || end > mp4->head.names.size - names_at)
        return BZI_FAIL_IN(err, BZNA_E_BOX, mp4->head.names_at + at, BZI_UUID,
                           "the name of class %llu is not inside it", (bzi_llu)target);
    bzi_value_put(value, mp4->head.names.data + names_at + begin, end - begin);
    return BZNA_OK;
}

/* Indexes the tracks, and makes the fields, of an archive or a video. Pre: input is a track. */
static bzna_status bzi_mp4_index(bzi_container *c, const bzna_dataset_config *config, bzna_error *err)
{
    bzi_mp4 *mp4 = c->own;
    const bzi_track *input = mp4->input;
    const uint32_t is_archive = input->handler != bzi_type("vide");

    mp4->target = config->target ? bzi_mp4_find(c, config->target, config->split) : NULL;
    c->target_chosen = mp4->target != NULL;
    mp4->target = mp4->target ? mp4->target : bzi_mp4_find(c, "bzna_target", config->split);
    mp4->filename = bzi_mp4_find(c, "bzna_fname", config->split);
    if (input->table.sample_count == 0)
        return BZI_FAIL(err, BZNA_E_NO_SAMPLES, "moov/trak[%u] \"%s\" has no samples", input->number, input->name);
    if (bzi_track_index(&mp4->moov, mp4->input, &c->arena, &c->arena, err) != BZNA_OK ||
        (mp4->filename && bzi_track_index(&mp4->moov, mp4->filename, &c->arena, &c->arena, err) != BZNA_OK) ||
        (mp4->target && bzi_mp4_read_targets(c, err) != BZNA_OK))
        return err->status;
    bzi_mp4_close(c);  /* the window: nothing more is read of the movie box */

    c->count = input->table.sample_count;
    if (!BZI_ARENA_ZERO(&c->arena, mp4->fields, mp4->head.names.size ? BZI_LIMIT_ARCHIVE_FIELDS + 4 : 4))
        return bzi_fail_memory(err, "the fields of a data set");

    bzi_container_add_field(c, mp4->fields, BZNA_FIELD_IMAGE, 1, "image");
    if (is_archive)
        bzi_container_add_field(c, mp4->fields, BZNA_FIELD_IMAGE, 1, "thumb");
    if (mp4->target) {
        c->target_field = c->field_count;
        bzi_container_add_field(c, mp4->fields, BZNA_FIELD_INTEGER, 0, "target");
    }
    if (mp4->filename)
        bzi_container_add_field(c, mp4->fields, BZNA_FIELD_TEXT, 0, "name");
    return bzi_mp4_read_names(c, is_archive, err);
}

/* An archive's bzna_input track holds files. If it holds video, the file is a sample of an archive, alone. */
static bzna_status bzi_mp4_open_archive(bzi_container *c, const bzna_dataset_config *config, bzna_error *err)
{
    bzi_mp4 *mp4 = c->own;

    if (bzi_mp4_read(c, err) != BZNA_OK)
        return err->status;
    mp4->input = bzi_mp4_find(c, "bzna_input", config->split);
    if (!mp4->input && config->split)
        return BZI_FAIL(err, BZNA_E_NOT_FOUND, "dataset_config.split: moov has no track \"bzna_input_%s\"",
                        config->split);
    if (!mp4->input || mp4->input->handler == bzi_type("vide"))
        return BZI_DECLINED;
    return bzi_mp4_index(c, config, err);
}

/* Unless the user named the format, the archive's row has had its turn, and has read the movie. */
static bzna_status bzi_mp4_open_video(bzi_container *c, const bzna_dataset_config *config, bzna_error *err)
{
    bzi_mp4 *mp4 = c->own;
    const bzi_codec *codec;
    bzi_track *input;
    bzna_status status = c->tracks ? BZI_DECLINED : bzi_mp4_open_archive(c, config, err);
    char type[5];

    if (status == BZNA_OK)
        return BZI_FAIL(err, BZNA_E_FORMAT, "dataset_config.format: the file is an archive, not an mp4 video");
    if (status != BZI_DECLINED)
        return status;

    input = mp4->input = mp4->input ? mp4->input : bzi_track_find(c->tracks, c->info.track_count, NULL);
    if (!input)
        return BZI_FAIL(err, BZNA_E_NO_SAMPLES, "moov has neither a bzna_input nor a video track");

    codec = bzi_codec_of_entry(input->format);
    bzi_fourcc_text(input->format, type);
    if (!codec && input->table.sample_count) {
        BZI_TRACK_FAIL(err, BZNA_E_CODEC, BZNA_NO_OFFSET, input, BZI_STBL "stsd",
                       "its frames are coded as '%s', which is not decoded", type);
        err->fourcc = input->format;
        return err->status;
    }
    if (input->has_sync && input->sync_count < input->table.sample_count)
        return BZI_TRACK_FAIL(err, BZNA_E_UNSUPPORTED, BZNA_NO_OFFSET, input, BZI_STBL "stss",
                              "not every frame of the video can be decoded alone");
    if (bzi_mp4_copy(c, input->config_at, &input->config, err) != BZNA_OK ||
        bzi_track_orientation(input, &mp4->head, &mp4->orientation, err) != BZNA_OK ||
        bzi_mp4_index(c, config, err) != BZNA_OK)
        return err->status;
    c->codec = codec->id;  /* known, as the track has samples */
    return BZNA_OK;
}


/* ==== 28. Containers: mp4, samples ==================================================================================
 * Calls: rooms 2, 9, 11, 13, 19-20, 22-27.
 *
 * The samples of archives and plain videos: their places, targets, names, fields and pictures. */

static bzna_status bzi_mp4_locate(const bzi_container *c, uint64_t index, bzi_extent *extent, bzna_error *err)
{
    return bzi_table_entry(&bzi_mp4_of(c)->input->table, (uint32_t)index, c->source.size, &extent->offset,
                           &extent->size, err);
}

static bzna_status bzi_mp4_target(const bzi_container *c, uint64_t index, bzi_value *value, bzna_error *err)
{
    const bzi_mp4 *mp4 = c->own;
    int64_t target;

    value->absent = index >= c->target_count;  /* the original tools stop at the first sample without one */
    if (value->absent)
        return BZNA_OK;

    target = mp4->targets[index];
    if (mp4->bad_targets && mp4->bad_targets[index])
        return bzi_fail(err, BZNA_E_BOX, mp4->target->table.chunks_at, mp4->target->format, 0,
                        "its target has not 8 bytes in the file, says the index (stco; stsz at byte %llu)",
                        (bzi_llu)mp4->target->table.sizes_at);
    value->absent = target == BZNA_TARGET_NONE;
    bzi_value_put(value, &target, sizeof target);
    return BZNA_OK;
}

/* The name has no NUL. */
static bzna_status bzi_mp4_filename(const bzi_container *c, uint64_t index, bzi_value *value, bzna_error *err)
{
    const bzi_track *track = bzi_mp4_of(c)->filename;
    const uint8_t *nul = NULL;
    uint64_t offset, size;
    uint8_t part[256];  /* most names are no longer */

    value->absent = index >= track->table.sample_count;
    if (value->absent)
        return BZNA_OK;
    if (bzi_table_entry(&track->table, (uint32_t)index, c->source.size, &offset, &size, err) != BZNA_OK)
        return err->status;

    size = bzi_min(size, BZI_LIMIT_NAME_BYTES);
    while (value->size < size && !nul) {
        const uint64_t n = bzi_min(size - value->size, sizeof part);
        if (bzi_source_read(&c->source, offset + value->size, part, n, err) != BZNA_OK)
            return err->status;
        nul = bzi_find_byte(part, 0, n);
        bzi_value_put(value, part, nul ? (uint64_t)(nul - part) : n);
    }
    return BZNA_OK;
}

static int bzi_track_is_picture(const bzi_track *track)
{
    return track->handler == bzi_type("vide") && track->table.sample_count > 0;
}

/* Reads the boxes in the bytes of an archive's sample. */
static bzna_status bzi_mp4_parse(const bzi_sample *sample, bzi_movie *movie, bzna_error *err)
{
    const bzi_extent *e = &sample->extent;
    bzi_window window = { .held = sample->bytes, .at = e->offset };
    bzna_status status;

    bzi_movie_begin(movie, err);
    movie->window = &window;
    status = bzi_box_list(movie, e->offset, e->offset + e->size, BZI_FILE);
    movie->window = NULL;

    if (status == BZNA_OK && !movie->has_moov)
        status = BZI_FAIL_IN(err, BZNA_E_BOX, e->offset, "moov", "no moov box in its %llu bytes", (bzi_llu)e->size);
    return status;
}

/* Returns the track that is asked for; without a name, the thumbnail, else the picture, else any video track. NULL:
 * there is none. */
static bzi_track *bzi_mp4_choose(bzi_movie *movie, const bzi_pick *pick)
{
    static const char *const preferred[] = { "bzna_thumb", "bzna_input", NULL };
    const char *named = pick->name;

    if (named)
        named = !strcmp(named, "image") ? "bzna_input" : !strcmp(named, "thumb") ? "bzna_thumb" : named;
    for (size_t i = pick->whole; i < (named ? pick->whole + 1 : 3); i++) {
        bzi_track *track = bzi_track_find(movie->tracks, movie->track_count, named ? named : preferred[i]);
        if (track && bzi_track_is_picture(track))
            return track;
    }

    return NULL;
}

/* Returns 1 if a sample of an archive is no file of boxes, but a picture by itself. */
static int bzi_mp4_is_picture(const bzi_container *c, const bzi_sample *sample)
{
    const bzi_span bytes = bzi_sample_span(sample);

    return bzi_codec_recognize(bytes) != BZNA_CODEC_UNKNOWN ||
           (!bzi_mp4_probe(bytes) && bzi_file_codec(c->host, bytes) != BZNA_CODEC_UNKNOWN);
}

/* Finds a field in a box of ours: in an archive the sample's, else the file's, which is a sample by itself. n->kind 0:
 * the sample does not have it. */
static bzna_status bzi_mp4_find_named(const bzi_container *c, const bzi_sample *sample, const bzi_field *field,
                                      bzi_named *n, bzna_error *err)
{
    bzi_movie movie;
    const bzi_movie_head *head = &bzi_mp4_of(c)->head;
    bzna_status status;

    n->kind = 0;
    if (field->inside) {
        if (bzi_mp4_parse(sample, &movie, err) != BZNA_OK)
            return err->status;
        head = &movie.head;
    }

    *n = bzi_named_begin(head->names, head->names_at);
    do {
        if ((status = bzi_named_next(n, err)) != BZNA_OK)
            return status == BZNA_END ? BZNA_OK : status;
    } while (!bzi_span_is(n->name, field->name));

    if (n->kind != field->kind || (n->kind == BZNA_FIELD_INTEGER && n->value.size != 8) ||
        (n->kind == BZNA_FIELD_VECTOR && n->value.size % 4))
        return BZI_FAIL_IN(err, BZNA_E_BOX, head->names_at, BZI_UUID, "its %s is of kind %u, in %llu bytes",
                           field->name, n->kind, (bzi_llu)n->value.size);
    return BZNA_OK;
}

/* A picture is the first sample of a track in an archive's sample, or a field of the user's. */
static bzna_status bzi_mp4_archive_image(const bzi_container *c, const bzi_sample *sample, const bzi_pick *pick,
                                         bzi_image *image, bzna_error *err)
{
    const bzi_extent *e = &sample->extent;
    bzi_movie movie;
    bzi_named n;
    const bzi_track *track;
    bzi_span unit;
    uint64_t at;
    uint32_t orientation;
    const uint32_t number = pick->name ? bzi_container_find_picture(c, pick->name) : BZI_NO_FIELD;
    const bzi_field *field = number != BZI_NO_FIELD && number >= bzi_mp4_of(c)->first_own ? &c->fields[number] : NULL;

    if (bzi_mp4_is_picture(c, sample)) {
        if (pick->name && strcmp(pick->name, "image") && strcmp(pick->name, "bzna_input"))
            return bzi_container_fail_image(pick->name, err);  /* it has no thumbnail */
        return bzi_file_image(c->host, bzi_sample_span(sample), e->offset, image, err);
    }
    if (field) {  /* its value is a whole file */
        if (bzi_mp4_find_named(c, sample, field, &n, err) != BZNA_OK)
            return err->status;
        if (!n.kind)
            return bzi_container_fail_image(field->name, err);
        return bzi_file_image(c->host, n.value, e->offset + (uint64_t)(n.value.data - sample->bytes), image, err);
    }

    if (bzi_mp4_parse(sample, &movie, err) != BZNA_OK)
        return err->status;
    if (!(track = bzi_mp4_choose(&movie, pick)))
        return bzi_container_fail_image(pick->name, err);
    if (bzi_track_orientation(track, &movie.head, &orientation, err) != BZNA_OK)
        return err->status;
    if (!track->table.chunk_count)
        return BZI_FAIL(err, BZNA_E_BOX, "%s has a sample but no stco or co64 entry", track->name);
    if (bzi_table_entry(&track->table, 0, e->size, &at, &unit.size, err) != BZNA_OK)
        return err->status;
    unit.data = sample->bytes + at;
    if (bzi_track_unit(track, unit, e->offset + at, image, err) != BZNA_OK)
        return err->status;
    image->coded.orientation = orientation;
    image->otherwise = bzi_color_of_archives;
    return BZNA_OK;
}

/* Lists the names of a sample's pictures: the tracks of its small mp4, then the archive's own fields. A sample that is
 * a picture by itself, not an mp4, has only bzna_input. */
static bzna_status bzi_mp4_archive_images(const bzi_container *c, const bzi_sample *sample, bzna_sample_ref *out,
                                          bzna_error *err)
{
    bzi_movie movie;
    bzna_status status = bzi_mp4_parse(sample, &movie, err);

    if (status != BZNA_OK && bzi_mp4_is_picture(c, sample)) {
        bzi_sample_ref_add(out, "bzna_input");
        return BZNA_OK;
    }
    if (status != BZNA_OK)
        return status;

    for (uint32_t i = 0; i < movie.track_count; i++)
        if (bzi_track_is_picture(&movie.tracks[i]))
            bzi_sample_ref_add(out, movie.tracks[i].name);
    for (uint32_t i = bzi_mp4_of(c)->first_own; i < c->field_count; i++)
        if (c->fields[i].kind == BZNA_FIELD_IMAGE)
            bzi_sample_ref_add(out, c->fields[i].name);
    return BZNA_OK;
}

/* In tracks that are named bzna_..., colors are those of archives. */
static bzna_status bzi_mp4_video_image(const bzi_container *c, const bzi_sample *sample, const bzi_pick *pick,
                                       bzi_image *image, bzna_error *err)
{
    const bzi_track *track = bzi_mp4_of(c)->input;

    if (pick->name && strcmp(pick->name, "image") && strcmp(pick->name, track->name))
        return bzi_container_fail_image(pick->name, err);
    if (bzi_track_unit(track, bzi_sample_span(sample), sample->extent.offset, image, err) != BZNA_OK)
        return err->status;
    image->coded.orientation = bzi_mp4_of(c)->orientation;
    image->otherwise = strncmp(track->name, "bzna_", 5) ? bzi_color_of_codecs : bzi_color_of_archives;
    return BZNA_OK;
}

static bzna_status bzi_mp4_video_images(const bzi_container *c, const bzi_sample *sample, bzna_sample_ref *out,
                                        bzna_error *err)
{
    (void)sample;
    (void)err;
    bzi_sample_ref_add(out, bzi_mp4_of(c)->input->name);
    return BZNA_OK;
}

/* Adds sizes, and the index entries at both ends. */
static uint64_t bzi_mp4_fingerprint(const bzi_container *c, uint64_t hash)
{
    const bzi_table *t = &bzi_mp4_of(c)->input->table;
    const uint64_t count = bzi_min(c->count, 128);

    hash = bzi_container_hash(c, hash);
    for (uint64_t k = 0; k < count; k++) {
        const uint64_t i = k < 64 ? k : c->count - count + k, place[2] = { t->offsets[i], bzi_table_size(t, i) };
        hash = bzi_hash(hash, place, sizeof place);
    }
    return hash;
}

/* Gets a field's value: below first_own the name or the target, else one from the sample's bytes, where numbers begin
 * with the highest byte. */
static bzna_status bzi_mp4_field(const bzi_container *c, const bzi_sample *sample, uint32_t number, bzi_value *value,
                                 bzna_error *err)
{
    const bzi_field *field = &c->fields[number];
    bzi_named n;
    bzna_status status;

    if (number < bzi_mp4_of(c)->first_own)
        return field->kind == BZNA_FIELD_TEXT ? bzi_mp4_filename(c, sample->index, value, err) :
                                                bzi_mp4_target(c, sample->index, value, err);

    status = bzi_mp4_find_named(c, sample, field, &n, err);
    value->absent = n.kind == 0;
    if (status != BZNA_OK || value->absent)
        return status;
    bzi_value_put(value, n.value.data, n.value.size);
    if (n.value.size <= value->capacity)
        bzi_flip_to_little(value->data, n.value.size, bzi_number_bytes(field->kind));
    return BZNA_OK;
}

#define BZI_MP4_OPERATIONS                                                                                             \
    .own_bytes = sizeof(bzi_mp4), .probe = bzi_mp4_probe, .locate = bzi_mp4_locate, .field = bzi_mp4_field,            \
    .fingerprint = bzi_mp4_fingerprint, .class_name = bzi_mp4_class_name, .close = bzi_mp4_close

static const bzi_container_ops bzi_mp4_archive = {
    BZI_MP4_OPERATIONS,
    .name = "archive",
    .settings = " split orientation palette ",
    .open = bzi_mp4_open_archive,
    .images = bzi_mp4_archive_images,
    .image = bzi_mp4_archive_image
};

static const bzi_container_ops bzi_mp4_video = {
    BZI_MP4_OPERATIONS,
    .name = "mp4 video",
    .settings = " split orientation ",
    .open = bzi_mp4_open_video,
    .images = bzi_mp4_video_images,
    .image = bzi_mp4_video_image
};


#ifndef BENZINA_NO_WRITER
/* ==== 29. Writer: pictures ==========================================================================================
 * Calls: rooms 2, 9, 13-14, 19-21.
 *
 * The same boxes, written to memory. Nothing depends on time, address or thread: the same inputs give the same
 * bytes. */

/* A picture to write, taken apart. */
typedef struct bzi_coded {
    bzna_image       image;                               /* the caller's, with what it left out */
    const bzi_codec *codec;
    bzi_format       sps;                                 /* what the stream says */
    bzi_span         sets[BZI_LIMIT_PARAMETER_SETS];      /* AV1: one, the sequence header's payload */
    uint32_t         set_count;
} bzi_coded;

/* Adds a parameter set, which stays the caller's memory. Encoders repeat their sets, so equal ones are kept once. */
static bzna_status bzi_coded_add_set(bzi_coded *coded, bzi_span set, bzna_error *err)
{
    uint64_t total = set.size;

    for (uint32_t i = 0; i < coded->set_count; i++) {
        if (coded->sets[i].size == set.size && !memcmp(coded->sets[i].data, set.data, (size_t)set.size))
            return BZNA_OK;
        total += coded->sets[i].size;
    }

    if (coded->set_count == BZI_LIMIT_PARAMETER_SETS || total > BZI_LIMIT_CONFIG_BYTES)
        return BZI_FAIL(err, BZNA_E_LIMIT, "more than %u parameter sets, or %u bytes of them",
                        BZI_LIMIT_PARAMETER_SETS, BZI_LIMIT_CONFIG_BYTES);
    coded->sets[coded->set_count++] = set;
    return BZNA_OK;
}

static uint32_t bzi_coded_count(const bzi_coded *coded, uint32_t kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < coded->set_count; i++)
        count += bzi_nal_kind(coded->image.codec, coded->sets[i]) == kind;
    return count;
}

/* Inspects the stream, and finds the parameter sets, of AV1 the sequence header in force. H.264 and H.265 must have
 * all, and a decoder must be able to start with each slice. */
static bzna_status bzi_coded_gather(bzi_coded *coded, bzna_error *err)
{
    const bzna_image *image = &coded->image;
    bzi_image_nals n;
    bzi_span nal, frame;
    int got;

    if (bzi_codec_inspect(image, &coded->sps, err) != BZNA_OK)
        return err->status;
    if (coded->codec->is_file)
        return BZNA_OK;
    if (image->codec == BZNA_CODEC_AV1)
        return bzi_image_find_set(image, &nal, &frame, err) == BZNA_OK ? bzi_coded_add_set(coded, nal, err) :
                                                                         err->status;

    n = bzi_image_nals_make(image);
    while ((got = bzi_image_nals_next(&n, &nal)) > 0) {
        if (n.kind == BZI_NAL_SLICE && !bzi_nal_starts_stream(n.codec, nal))
            return BZI_FAIL(err, BZNA_E_DECODE, "the picture needs other pictures");
        if (bzi_kind_is_parameter_set(n.kind) && bzi_coded_add_set(coded, nal, err) != BZNA_OK)
            return err->status;
    }
    if (got < 0)
        return bzi_image_fail_nals(&n, err);
    if ((n.codec == BZNA_CODEC_H265 && !bzi_coded_count(coded, BZI_NAL_VPS)) || !bzi_coded_count(coded, BZI_NAL_PPS))
        return BZI_MISUSE(err, "parameter sets are missing in config and data");
    return BZNA_OK;
}

/* Fills in sizes and colors from the stream, and checks the caller's against them. */
static bzna_status bzi_coded_fit(bzi_coded *coded, bzna_error *err)
{
    bzna_image *image = &coded->image;
    const bzi_format *sps = &coded->sps;
    const uint32_t width = bzi_format_width(sps), height = bzi_format_height(sps);
    const uint32_t orientation = bzi_default(sps->orientation, 1);

    if (image->orientation && image->orientation != orientation)
        return BZI_MISUSE(err, "the orientation is %u here, but archives keep the one in the picture, %u",
                          image->orientation, orientation);
    if (width > 65535 || height > 65535)
        return BZI_FAIL(err, BZNA_E_LIMIT, "the frame is %ux%u, but archives have at most 65535", width, height);

    image->frame_width = bzi_default(image->frame_width, width);
    image->frame_height = bzi_default(image->frame_height, height);
    if (!image->color.present)
        image->color = sps->color.present ? sps->color : bzi_color_of_archives;
    return bzi_image_fit(image, coded->codec->is_file, sps, err);
}

/* Checks a caller's picture and takes it apart. `field` names it in messages. */
static bzna_status bzi_coded_make(bzi_coded *coded, const bzna_image *given, const char *field, bzna_error *err)
{
    bzna_image *image = &coded->image;

    memset(coded, 0, sizeof *coded);
    if (bzi_image_take(image, given, field, err) != BZNA_OK)
        return err->status;

    coded->codec = bzi_codec_find(image->codec);
    if (!coded->codec || !*coded->codec->entries[0])
        return BZI_FAIL(err, BZNA_E_CODEC, "%s.codec: %u cannot be written, only H.264, H.265, AV1 and JPEG", field,
                        image->codec);
    if (bzi_coded_gather(coded, err) != BZNA_OK || bzi_coded_fit(coded, err) != BZNA_OK)
        return bzi_error_prefix(err, field);
    return BZNA_OK;
}

/* --- What is written of a picture --- */

/* Writes the parameter sets of a kind, each after its 16-bit size. */
static void bzi_out_sets(bzi_out *out, const bzi_coded *coded, uint32_t kind)
{
    for (uint32_t i = 0; i < coded->set_count; i++)
        if (bzi_nal_kind(coded->image.codec, coded->sets[i]) == kind) {
            bzi_out_number(out, coded->sets[i].size, 2);
            bzi_out_bytes(out, coded->sets[i].data, coded->sets[i].size);
        }
}

/* HEVCDecoderConfigurationRecord, ISO/IEC 14496-15 8.3.3.1, without segmentation, parallelism and frame rate. */
static void bzi_out_hvcc(bzi_out *out, const bzi_coded *coded)
{
    const bzi_format *sps = &coded->sps;

    bzi_out_number(out, 1, 1);                              /* version */
    bzi_out_bytes(out, sps->profile, 12);                   /* profile, compatibility, constraints, level */
    BZI_OUT(out, "HB 3B H2B", 0xf000, 0xfc,                 /* min_spatial_segmentation_idc, parallelismType */
            0xfc | sps->chroma_format, 0xf8 | (sps->depth_luma - 8), 0xf8 | (sps->depth_chroma - 8),
            0,                                              /* avgFrameRate */
            sps->sub_layers << 3 | sps->nested << 2 | 3,    /* 3: lengths of 4 bytes */
            3);                                             /* arrays */
    for (uint32_t kind = BZI_NAL_VPS; kind <= BZI_NAL_PPS; kind++) {
        BZI_OUT(out, "BH", 0x80 | (31 + kind), bzi_coded_count(coded, kind));  /* all sets of this type */
        bzi_out_sets(out, coded, kind);
    }
}

/* AVCDecoderConfigurationRecord, ISO/IEC 14496-15 5.3.3.1. Baseline, main, extended: one chroma and depth. */
static void bzi_out_avcc(bzi_out *out, const bzi_coded *coded)
{
    const bzi_format *sps = &coded->sps;
    const uint8_t profile = sps->profile[0];

    bzi_out_number(out, 1, 1);                              /* version */
    bzi_out_bytes(out, sps->profile, 3);                    /* profile, compatibility, level */
    BZI_OUT(out, "BB", 0xff, 0xe0 | bzi_coded_count(coded, BZI_NAL_SPS));           /* lengths of 4 bytes */
    bzi_out_sets(out, coded, BZI_NAL_SPS);
    bzi_out_number(out, bzi_coded_count(coded, BZI_NAL_PPS), 1);
    bzi_out_sets(out, coded, BZI_NAL_PPS);
    if (profile != 66 && profile != 77 && profile != 88)  /* and no sets of SPS extensions */
        BZI_OUT(out, "3Bx", 0xfc | sps->chroma_format, 0xf8 | (sps->depth_luma - 8), 0xf8 | (sps->depth_chroma - 8));
}

/* av1C requires a unit with a size field. */
static void bzi_out_sequence_header(bzi_out *out, bzi_span payload)
{
    uint64_t size = payload.size;

    bzi_out_number(out, BZI_OBU_SEQUENCE_HEADER << 3 | 2, 1);  /* 2: it has a size */
    for (; size > 127; size >>= 7)
        bzi_out_number(out, 128 | (size & 127), 1);
    bzi_out_number(out, size, 1);
    bzi_out_bytes(out, payload.data, payload.size);
}

/* AV1CodecConfigurationRecord, "AV1 Codec ISO Media File Format Binding" 2.3.3, without a presentation delay. */
static void bzi_out_av1c(bzi_out *out, const bzi_coded *coded)
{
    static const uint8_t chroma[4] = { 7, 3, 2, 0 };  /* monochrome, chroma_subsampling_x, _y */
    const bzi_format *sps = &coded->sps;
    const uint32_t place = sps->chroma_location == BZI_CHROMA_TOP_LEFT ? 2 : sps->chroma_location > 0;
    const uint32_t depth = sps->depth_luma > 10 ? 3 : sps->depth_luma > 8 ? 2 : 0;

    BZI_OUT(out, "3Bx", 0x81,  /* marker, version; initial_presentation_delay */
            (uint32_t)sps->profile[0] << 5 | sps->profile[1],
            (uint32_t)sps->profile[2] << 7 | depth << 5 | (uint32_t)chroma[sps->chroma_format] << 2 | place);
    bzi_out_sequence_header(out, coded->sets[0]);
}

/* Writes the access unit: of H.264 and H.265 with 4-byte lengths, without parameter sets and units that decoders do not
 * need; of AV1 without delimiters and padding, but with a sequence header before the frame, which each sample needs.
 * */
static void bzi_out_unit(bzi_out *out, const bzi_coded *coded)
{
    const uint32_t is_av1 = coded->image.codec == BZNA_CODEC_AV1;
    bzi_image_nals n;
    const bzi_cursor *c = &n.nals[1].c;
    uint32_t has_header = 0;
    bzi_span unit;

    if (coded->codec->is_file) {
        bzi_out_bytes(out, coded->image.data, coded->image.data_size);
        return;
    }

    n = bzi_image_nals_make(&coded->image);
    n.part = 1;  /* those of the config are written elsewhere */
    for (uint64_t begin = 0; bzi_image_nals_next(&n, &unit) > 0; begin = c->pos) {
        const uint32_t header = bzi_nal_header(n.codec);

        if (n.kind == BZI_NAL_DISCARDABLE)
            continue;  /* delimiters, ends, filler */
        has_header |= n.kind == BZI_NAL_SPS;
        if (is_av1 && n.kind == BZI_NAL_SLICE && !has_header++)
            bzi_out_sequence_header(out, coded->sets[0]);
        if (is_av1)
            bzi_out_bytes(out, c->data + begin, c->pos - begin);
        else if (!bzi_kind_is_parameter_set(n.kind) &&  /* nor encoders' banners, user_data_unregistered */
                 !(n.kind == BZI_NAL_SEI && unit.size > header && unit.data[header] == 5)) {
            bzi_out_number(out, unit.size, 4);
            bzi_out_bytes(out, unit.data, unit.size);
        }
    }
}

/* Writes the sample entry: hvc1, avc1 and av01 with colors, or jpeg, whose pictures have their own. */
static void bzi_out_visual(bzi_out *out, const bzi_coded *coded, int with_clap)
{
    const bzna_image *image = &coded->image;
    const bzna_color *color = &image->color;

    bzi_out_begin(out, coded->codec->entries[0]);
    BZI_OUT(out, "6xH16x2H2I4xH32x2H", 1,  /* data_reference_index */
            image->frame_width, image->frame_height,
            72u << 16, 72u << 16,                           /* horizresolution, vertresolution, in dots an inch */
            1,                                              /* frame_count; compressorname */
            24, 0xffff);                                    /* depth, pre_defined */
    if (!coded->codec->is_file) {
        bzi_out_begin(out, coded->codec->config);
        if (image->codec == BZNA_CODEC_H265)
            bzi_out_hvcc(out, coded);
        else if (image->codec == BZNA_CODEC_H264)
            bzi_out_avcc(out, coded);
        else
            bzi_out_av1c(out, coded);
        bzi_out_end(out);
        BZI_OUT(out, "[colr I3HB]", bzi_type("nclx"), color->primaries, color->transfer, color->matrix,
                color->full_range ? 0x80 : 0);
    }
    if (with_clap)  /* offsets are those of the centers, in halves */
        BZI_OUT(out, "[clap 8I]", image->width, 1, image->height, 1,
                2 * image->crop_x + image->width - image->frame_width, 2,
                2 * image->crop_y + image->height - image->frame_height, 2);
    bzi_out_end(out);
}

/* --- Samples in the index --- */

#define BZI_WRITER_NUL       12u      /* offset of a byte in ftyp that is 0: the name of samples that have none */

/* The part of a sample that is kept until the index is written: 40 bytes. */
typedef struct bzi_index_entry {
    uint64_t offset;                  /* where the sample begins in the file */
    uint64_t name_at;                 /* where its name begins among all names */
    int64_t  target;                  /* BZNA_TARGET_NONE: it has none */
    uint32_t size;                    /* bytes of the sample */
    uint32_t thumb;                   /* offset of the thumbnail in the sample */
    uint32_t thumb_size;              /* its bytes; 0: there is none */
    uint32_t name_bytes : 24;         /* of its name, with the NUL; 0: it has none */
    uint32_t split : 8;               /* BZNA_SPLIT_... */
} bzi_index_entry;

/* The samples of an archive, in their order in the file. */
typedef struct bzi_index {
    bzi_buffer buffer;                /* a bzi_index_entry for each */
    uint64_t   counts[4];             /* samples: [0] all, else by split */
    uint64_t   targets_at;            /* where the first target lies in the file; they are in one piece */
    uint64_t   names_at;              /* where the first name lies; likewise */
    uint32_t   targets;               /* samples that have a target; if any has one, each has an entry for it */
    uint32_t   names;                 /* samples that have a name */
    uint32_t   thumbs;                /* samples that have a thumbnail */
} bzi_index;

static bzi_index_entry *bzi_index_at(const bzi_index *index, uint64_t i)
{
    return (bzi_index_entry *)(void *)index->buffer.data + i;
}

/* The tracks of an archive and of a sample in it, by what they hold. */
enum { BZI_TRACK_INPUT, BZI_TRACK_TARGET, BZI_TRACK_NAME, BZI_TRACK_THUMB };

/* Returns where a track's part of the i-th sample lies in the file, and sets its bytes. */
static uint64_t bzi_index_find(const bzi_index *index, uint32_t track, uint64_t i, uint64_t *size)
{
    const bzi_index_entry *e = bzi_index_at(index, i);

    switch (track) {
    case BZI_TRACK_INPUT:
        *size = e->size;
        return e->offset;
    case BZI_TRACK_TARGET:
        *size = 8;
        return index->targets_at + 8 * i;
    case BZI_TRACK_NAME:
        *size = bzi_max32(e->name_bytes, 1);
        return e->name_bytes ? index->names_at + e->name_at : BZI_WRITER_NUL;
    default:
        *size = e->thumb_size;
        return e->offset + e->thumb;
    }
}

#endif


#ifndef BENZINA_NO_WRITER
/* ==== 30. Writer: tracks, samples ===================================================================================
 * Calls: rooms 2, 4, 7-9, 13, 22, 25-26, 29.
 *
 * The boxes of a track; a whole sample, made by the thread that hands it in; the struct of a writer.
 *
 * A box 'uuid' of the sample's moov has the fields. It precedes the tracks: the original reader looks for tracks until
 * the last box that it read was one, and never returns if another box follows them. The box has:
 *   version and flags, 0
 *   the number of fields
 *   for each field: its kind and the length of its name (a byte each), the name, the size of the value, the value (of a
 *   picture: a whole file)
 *
 * The index has the same box, with the fields of all samples, without values. The number of classes that have names
 * follows, where each name begins and the last one ends, and the names end to end. */

#define BZI_WRITER_TIMESCALE 20u

#define BZI_WRITER_UPRIGHT 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000

/* --- Tracks --- */

typedef struct bzi_track_desc {
    uint32_t         kind;            /* BZI_TRACK_... */
    uint32_t         id;
    uint32_t         flags;           /* of its tkhd; 3: it is enabled and in the movie */
    const bzi_coded *coded;           /* of video: the picture that it shows, from which its sample entry is made */
    const bzi_out   *entry;           /* of video, if `coded` is gone: its sample entry */
    uint64_t         count;           /* of its samples */
    const bzi_index *index;           /* in the index: the samples; NULL: in a sample */
    uint32_t         split;           /* in the index: of its samples; 0: all */
    uint32_t         offset_bytes;    /* in the index: of offsets, 4 or 8 */
    uint64_t         offset;          /* in a sample: of the one entry, from the sample's beginning */
    uint64_t         size;            /* in a sample: its bytes */
} bzi_track_desc;

static void bzi_out_mvhd(bzi_out *out, uint64_t duration, uint64_t next_track)
{
    BZI_OUT(out, "[mvhd I2T I T IH 10x 9I 24x I]", out->version << 24, 0, 0, BZI_WRITER_TIMESCALE, duration,
            0x10000, 0x100,  /* rate, volume */
            BZI_WRITER_UPRIGHT, next_track);
}

/* Writes the sizes or the offsets of a track of the index: a size for each sample even if all are equal, as the
 * original tools do. */
static void bzi_out_table(bzi_out *out, const bzi_track_desc *t, int offsets)
{
    const bzi_index *index = t->index;

    for (uint64_t i = 0; t->count && i < index->counts[0] && !out->failed; i++) {
        uint64_t size;
        const uint64_t offset = bzi_index_find(index, t->kind, i, &size);
        if (!t->split || t->split == bzi_index_at(index, i)->split)
            bzi_out_number(out, offsets ? offset : size, offsets ? t->offset_bytes : 4);
    }
}

static void bzi_out_trak(bzi_out *out, const bzi_track_desc *t)
{
    static const char *const names[] = { "bzna_input", "bzna_target", "bzna_fname", "bzna_thumb" };
    static const char *const mimes[] = { "video/mp4", "application/octet-stream", "text/plain", "" };
    static const char *const splits[] = { "", "_train", "_validation", "_test" };
    const uint64_t duration = t->count * BZI_WRITER_TIMESCALE;
    const uint32_t version = out->version << 24, is_video = t->coded || t->entry;
    uint32_t width = t->coded ? t->coded->image.width : 0, height = t->coded ? t->coded->image.height : 0;
    char name[BZNA_NAME_MAX];

    if (t->entry) {
        width = bzi_be16(t->entry->buffer.data + 32);
        height = bzi_be16(t->entry->buffer.data + 34);
    }
    snprintf(name, sizeof name, "%s%s", names[t->kind], splits[t->split]);

    BZI_OUT(out, "[trak [tkhd I2T 2I T 16x 9I 2I] [mdia [mdhd I2T I T 2H] [hdlr 3I 12x",
            version | t->flags, 0, 0, t->id, 0, duration, BZI_WRITER_UPRIGHT, width << 16, height << 16,
            version, 0, 0, BZI_WRITER_TIMESCALE, duration, 0x55c4, 0,  /* language: und */
            0, 0, bzi_type(is_video ? "vide" : "meta"));
    bzi_out_text(out, name);

    BZI_OUT(out, is_video ? "] [minf [vmhd I 8x]" : "] [minf [nmhd I]", is_video);
    BZI_OUT(out, "[dinf [dref 2I [url I]]] [stbl [stsd 2I", 0, 1,
            1,  /* flags: in this file */
            0, 1);
    if (t->coded) {
        bzi_out_visual(out, t->coded, 1);
    } else if (t->entry) {
        bzi_out_bytes(out, t->entry->buffer.data, t->entry->size);
    } else {
        BZI_OUT(out, "[mett 6xH x", 1);  /* data_reference_index; no content_encoding */
        bzi_out_text(out, mimes[t->kind]);
        bzi_out_end(out);
    }

    BZI_OUT(out, "] [stts 4I] [stsz 3I", 0, 1, t->count, BZI_WRITER_TIMESCALE,
            0, t->size, t->count);  /* size 0: each has its own */
    if (t->index)
        bzi_out_table(out, t, 0);
    BZI_OUT(out, t->count ? "] [stsc 5I]" : "] [stsc 2I]",  /* FFmpeg refuses runs without samples */
            0, t->count > 0, 1, 1, 1);  /* chunks of one sample, from the first on */
    BZI_OUT(out, t->offset_bytes == 8 ? "[co64 2I" : "[stco 2I", 0, t->count);
    if (t->index)
        bzi_out_table(out, t, 1);
    else
        bzi_out_number(out, t->offset, 4);
    bzi_out_pack(out, "]]]]]", NULL);  /* from stco to trak */
}

/* --- Samples --- */

typedef struct bzi_pending {
    struct bzi_pending *next;         /* in the queue */
    uint64_t            index;        /* of the sample in the archive */
    bzi_index_entry     entry;
    uint64_t            name_at;      /* offset of the name in the sample */
    bzi_out             out;          /* the sample, then the thumbnail's sample entry; empty: none comes here */
} bzi_pending;

static void bzi_pending_free(const bzi_memory *memory, bzi_pending *p)
{
    if (p)
        bzi_buffer_free(memory, &p->out.buffer);
    bzi_release(memory, p, 1, sizeof *p);
}

static void bzi_out_begin_fields(bzi_out *out, uint32_t count)
{
    bzi_out_begin(out, "uuid");
    bzi_out_bytes(out, bzi_box_uuid, sizeof bzi_box_uuid);
    BZI_OUT(out, "2I", 0, count);  /* version and flags */
}

static void bzi_out_field(bzi_out *out, uint32_t kind, const char *name, const void *value, uint64_t size)
{
    BZI_OUT(out, "2B", kind, strlen(name));
    bzi_out_bytes(out, name, strlen(name));
    bzi_out_number(out, size, 4);
    bzi_out_little(out, value, size, bzi_number_bytes(kind));
}

/* Pre: the fields were checked. */
static bzna_field_value bzi_sample_field(const bzna_writer_sample *sample, uint32_t i)
{
    bzna_field_value value;
    bzi_struct_in_array(&value, sizeof value, sample->fields, i);
    return value;
}


static bzna_status bzi_sample_check_field(const bzi_host *host, const bzna_writer_sample *sample, uint32_t i,
                                          bzna_error *err)
{
    static const char *const taken[] = { "image", "thumb", "target", "name" };
    const char *wrong = NULL;
    bzna_field_value v;
    bzi_image image;

    if (!bzi_struct_in_array(&v, sizeof v, sample->fields, i))
        return BZI_FAIL(err, BZNA_E_STRUCT_SIZE,
                        "sample.fields[%u].struct_size: differs from the first one's, or is not known", i);
    if (!v.name || !*v.name || strlen(v.name) >= BZNA_NAME_MAX || !bzi_text_is_utf8(v.name))
        return BZI_MISUSE(err, "sample.fields[%u].name: must have 1 to %u bytes of UTF-8", i, BZNA_NAME_MAX - 1);

    for (size_t k = 0; k < BZI_LENGTH(taken); k++)
        if (!strcmp(v.name, taken[k]))
            wrong = "name: archives have a field of that name";
    for (uint32_t k = 0; k < i; k++)
        if (!strcmp(bzi_sample_field(sample, k).name, v.name))
            wrong = "name: is given twice";

    if (v.kind < BZNA_FIELD_IMAGE || v.kind > BZNA_FIELD_BYTES)
        wrong = "kind: must be BZNA_FIELD_IMAGE, _INTEGER, _VECTOR, _TEXT or _BYTES";
    else if ((v.size && !v.data) || v.size > UINT32_MAX)
        wrong = v.data ? "size: more than 4 GiB" : "data: is NULL";
    else if (v.kind == BZNA_FIELD_INTEGER ? v.size != 8 : v.kind == BZNA_FIELD_VECTOR && v.size % 4)
        wrong = "size: an integer has 8 bytes, and each number of a vector 4";
    else if (v.kind == BZNA_FIELD_TEXT && bzi_find_byte(v.data, 0, v.size))
        wrong = "data: a text must not contain a NUL";
    else if (v.kind == BZNA_FIELD_IMAGE &&
             bzi_file_image(host, (bzi_span){ v.data, v.size }, 0, &image, err) != BZNA_OK)
        wrong = "data: a picture is a whole file of a kind that folders may hold";
    return wrong ? BZI_MISUSE(err, "sample.fields[%u] \"%s\", %s", i, v.name, wrong) : BZNA_OK;
}

/* Writes the small mp4 of one sample. mdat comes first, so that all offsets are known when the boxes are written. A
 * picture that is its own thumbnail is written once, and two tracks name its bytes. */
static void bzi_pending_put(bzi_pending *p, const bzna_writer_sample *sample, const bzi_coded *input,
                            const bzi_coded *thumb)
{
    const uint64_t target_bytes = sample->target == BZNA_TARGET_NONE ? 0 : 8;
    bzi_track_desc tracks[] = { { .kind = BZI_TRACK_INPUT, .coded = input },
                                { .kind = BZI_TRACK_NAME, .size = p->entry.name_bytes, .flags = 3 },
                                { .kind = BZI_TRACK_TARGET, .size = target_bytes },
                                { .kind = BZI_TRACK_THUMB, .coded = thumb, .flags = 3 } };
    bzi_out *out = &p->out;
    uint32_t id = 1;

    BZI_OUT(out, "[ftyp 3I] [mdat", bzi_type("isom"), 0, bzi_type("isom"));
    tracks[0].offset = tracks[3].offset = out->size;
    bzi_out_unit(out, input);
    tracks[0].size = out->size - tracks[0].offset;
    if (thumb && thumb != input) {
        tracks[3].offset = out->size;
        bzi_out_unit(out, thumb);
    }
    tracks[3].size = thumb ? out->size - tracks[3].offset : 0;
    tracks[2].offset = out->size;
    bzi_out_little(out, &sample->target, target_bytes, 8);
    tracks[1].offset = p->name_at = out->size;
    bzi_out_bytes(out, sample->name, p->entry.name_bytes);

    for (uint32_t i = 0; i < 4; i++)
        id += tracks[i].size > 0;
    bzi_out_pack(out, "] [moov", NULL);
    bzi_out_mvhd(out, BZI_WRITER_TIMESCALE, id);
    if (sample->field_count) {
        bzi_out_begin_fields(out, sample->field_count);
        for (uint32_t i = 0; i < sample->field_count; i++) {
            const bzna_field_value v = bzi_sample_field(sample, i);
            bzi_out_field(out, v.kind, v.name, v.data, v.size);
        }
        bzi_out_end(out);
    }
    id = 0;
    for (bzi_track_desc *t = tracks; t < tracks + 4; t++)
        if (t->size) {
            t->id = ++id;
            t->count = 1;
            bzi_out_trak(out, t);
        }
    bzi_out_end(out);

    p->entry.size = (uint32_t)out->size;
    p->entry.thumb = (uint32_t)tracks[3].offset;
    p->entry.thumb_size = (uint32_t)tracks[3].size;
}

/* No lock is held. A picture that is small enough is its own thumbnail. */
static bzna_status bzi_pending_make(bzi_pending *p, const bzi_host *host, const bzna_writer_sample *sample,
                                    bzna_error *err)
{
    bzi_coded input, given_thumb;
    const bzi_coded *thumb = NULL;

    if (bzi_coded_make(&input, sample->image, "sample.image", err) != BZNA_OK ||
        (sample->thumb && bzi_coded_make(&given_thumb, sample->thumb, "sample.thumb", err) != BZNA_OK))
        return err->status;
    if (sample->name && strlen(sample->name) >= BZI_LIMIT_NAME_BYTES)
        return BZI_MISUSE(err, "sample.name: longer than 65535 bytes");
    if (sample->field_count && !sample->fields)
        return BZI_MISUSE(err, "sample.fields: is NULL, and field_count is %u", sample->field_count);
    for (uint32_t i = 0; i < sample->field_count; i++)
        if (bzi_sample_check_field(host, sample, i, err) != BZNA_OK)
            return err->status;
    if (sample->thumb)
        thumb = &given_thumb;
    else if (input.image.frame_width <= BZI_THUMB_EDGE && input.image.frame_height <= BZI_THUMB_EDGE)
        thumb = &input;

    p->entry.split = sample->split & 3;
    p->entry.target = sample->target;
    p->entry.name_bytes = sample->name ? (strlen(sample->name) + 1) & 0xffffff : 0;
    bzi_pending_put(p, sample, &input, thumb);
    if (p->out.size > UINT32_MAX)
        return BZI_FAIL(err, BZNA_E_LIMIT, "a sample has at most 4 GiB");
    if (thumb)
        bzi_out_visual(&p->out, thumb, 0);
    return p->out.failed ? bzi_fail_memory(err, "a sample") : BZNA_OK;
}

/* --- Writers --- */

struct bzna_writer {
    bzi_host     *host;               /* a reference is held */
    bzna_sink     sink;               /* where to write; if write_at is NULL, to `file` */
    bzi_file      file;               /* the library's own */
    bzi_arena     arena;              /* has the path */
    const char   *path;               /* of the file, for messages; NULL: there is none */
    bzi_mutex     lock;               /* guards what follows, down to field_count */
    bzi_cond      changed;            /* the queue has changed, or a thread is no longer busy */
    bzna_status   poison;             /* an error that every later call returns; BZNA_OK: none */
    uint32_t      finished;           /* 1: the index is written */
    uint32_t      busy;               /* 1: a thread is writing */
    uint64_t      next;               /* the index whose turn it is */
    uint64_t      last;               /* one more than the largest index that was given */
    uint64_t      queue_limit;        /* bytes that may wait */
    uint64_t      queue_bytes;        /* bytes that wait */
    uint64_t      queue_count;        /* samples that wait */
    bzi_pending  *queue;              /* those samples, by index */
    bzi_pending  *queue_last;         /* the last of them; NULL: none waits */
    bzi_field     fields[BZI_LIMIT_ARCHIVE_FIELDS];   /* of all samples so far */
    uint32_t      field_count;
    /* The rest belongs to the busy thread. */
    uint32_t      thumbs_differ;      /* 1: thumbnails have different sample entries, so no track can hold them all */
    uint64_t      position;           /* where the next sample goes, and at last the index */
    bzi_index     index;
    uint32_t      class_count;        /* of class_names */
    bzi_out       name_bytes;         /* names of samples, each with its NUL */
    bzi_out       class_names;        /* their number, where each begins and the last ends, and themselves */
    bzi_out       thumb_entry;        /* the first thumbnail's sample entry */
    bzi_out       tail;               /* what comes after the samples: targets, names, the movie box */
};

static bzna_status bzi_writer_write(bzna_writer *writer, uint64_t offset, const void *bytes, uint64_t size,
                                    bzna_error *err)
{
    bzna_status status = BZNA_OK;
    int error = 0;

    if (writer->sink.write_at)
        BZI_CALLBACK(status = writer->sink.write_at(writer->sink.user, offset, bytes, size));
    else
        error = bzi_os_file_write_at(&writer->file, offset, bytes, size);
    if (status >= 0 && !error)
        return BZNA_OK;
    status = bzi_fail(err, BZNA_E_IO, offset, 0, error ? error : status, "writing %llu bytes failed: %s", (bzi_llu)size,
                      error ? bzi_os_error(error) : bzi_status_text(status));
    return writer->path ? bzi_error_prefix(err, writer->path) : status;
}

/* Writes what `tail` has, and empties it. */
static bzna_status bzi_writer_flush(bzna_writer *writer, uint64_t offset, bzna_error *err)
{
    bzi_out *tail = &writer->tail;
    const uint64_t size = tail->size;

    tail->size = 0;
    return tail->failed ? bzi_fail_memory(err, "the archive's index") :
                          bzi_writer_write(writer, offset, tail->buffer.data, size, err);
}

/* Waits until all is on the disk, so that it gets there before what is written next, and late errors are seen. */
static bzna_status bzi_writer_sync(bzna_writer *writer, bzna_error *err)
{
    const int error = writer->path ? bzi_os_file_sync(&writer->file) : 0;
    if (!error)
        return BZNA_OK;
    BZI_FAIL_BY(err, BZNA_E_IO, error, "cannot be written to the disk: %s", bzi_os_error(error));
    return bzi_error_prefix(err, writer->path);
}

#endif


#ifndef BENZINA_NO_WRITER
/* ==== 31. Writer: archives ==========================================================================================
 * Calls: rooms 2, 4, 7-10, 13, 29-30.
 *
 * A sample waits in the queue until its turn. One thread at a time, the busy one, writes them by index, so that the
 * file does not depend on timing. The archive's mdat has length 0, which marks it as unfinished, until
 * bzna_writer_finish sets the length. */

#define BZI_WRITER_MDAT      24u      /* offset of mdat, behind ftyp; its length follows its first 8 bytes */

/* --- Opening --- */

/* Copies the names of classes, as the index states them. */
static bzna_status bzi_writer_name_classes(bzna_writer *writer, const bzna_writer_config *config, bzna_error *err)
{
    bzi_out *names = &writer->class_names;
    uint64_t end = 0;

    writer->class_count = config->class_count;
    BZI_OUT(names, "2I", config->class_count, 0);  /* 0: where the first name begins */
    for (uint32_t i = 0; i < config->class_count; i++) {
        const char *name = config->classes[i];
        if (!name || strlen(name) >= BZI_LIMIT_NAME_BYTES)
            return BZI_MISUSE(err, "writer_config.classes[%u]: %s", i, name ? "longer than 65535 bytes" : "is NULL");
        end += strlen(name);
        if (end + i >= BZI_LIMIT_CLASS_BYTES)
            return BZI_FAIL(err, BZNA_E_LIMIT, "writer_config.classes: more than %u bytes", BZI_LIMIT_CLASS_BYTES);
        bzi_out_number(names, end, 4);
    }
    for (uint32_t i = 0; i < config->class_count; i++)
        bzi_out_bytes(names, config->classes[i], strlen(config->classes[i]));
    return names->failed ? bzi_fail_memory(err, "the names of classes") : BZNA_OK;
}

static bzna_status bzi_writer_open(bzna_writer *writer, const char *path, const bzna_sink *sink, bzna_error *err)
{
    int error;

    if (sink) {
        writer->sink = *sink;
        return BZNA_OK;
    }
    if (!(writer->path = bzi_arena_text(&writer->arena, path)))
        return bzi_fail_memory(err, "a path");
    if ((error = bzi_os_file_open(&writer->file, path, 1)) == 0)
        return BZNA_OK;
    writer->file.fd = -1;
    BZI_FAIL_BY(err, error == ENOENT || error == ENOTDIR ? BZNA_E_NOT_FOUND : BZNA_E_IO, error, "cannot create: %s",
                bzi_os_error(error));
    return bzi_error_prefix(err, path);
}

static void bzi_writer_close(bzna_writer *writer)
{
    bzi_host *host = writer->host;
    const bzi_memory *memory = &host->memory;

    bzi_os_file_close(&writer->file);  /* there is none with a sink */
    if (writer->sink.close)
        BZI_CALLBACK(writer->sink.close(writer->sink.user));

    bzi_arena_free(&writer->arena);
    bzi_buffer_free(memory, &writer->name_bytes.buffer);
    bzi_buffer_free(memory, &writer->class_names.buffer);
    bzi_buffer_free(memory, &writer->thumb_entry.buffer);
    bzi_buffer_free(memory, &writer->tail.buffer);
    bzi_buffer_free(memory, &writer->index.buffer);
    for (bzi_pending *p = writer->queue, *next; p; p = next) {
        next = p->next;
        bzi_pending_free(memory, p);
    }

    bzi_os_locks_free(&writer->lock, &writer->changed, 1);
    bzi_release(memory, writer, 1, sizeof *writer);
    bzi_host_drop(host);
}

static bzna_status bzi_writer_make(bzi_host *host, const char *path, const bzna_sink *sink,
                                   const bzna_writer_config *config, bzna_writer **out, bzna_error *err)
{
    bzna_writer *writer = bzi_alloc_zero(&host->memory, 1, sizeof *writer);
    const bzi_out empty = { .memory = &host->memory };
    bzi_out *head;

    if (!writer)
        return bzi_fail_memory(err, "a writer");
    if (!bzi_os_locks_init(&writer->lock, BZI_RANK_WRITER, &writer->changed, 1)) {
        bzi_release(&host->memory, writer, 1, sizeof *writer);
        return BZI_FAIL(err, BZNA_E_THREAD, "cannot make a lock");
    }

    writer->host = host;
    bzi_host_retain(host);
    writer->arena.memory = &host->memory;
    writer->file.fd = -1;
    writer->queue_limit = config->queue_bytes;
    writer->name_bytes = writer->class_names = writer->thumb_entry = writer->tail = empty;
    head = &writer->tail;  /* what comes before the samples; mdat has 64 bits for its length */
    BZI_OUT(head, "[ftyp 4I] 2IQ", bzi_type("isom"), 0, bzi_type("bzna"), bzi_type("isom"), 1, bzi_type("mdat"), 0);
    writer->position = head->size;
    head->version = 1;
    if (bzi_writer_name_classes(writer, config, err) == BZNA_OK &&
        bzi_writer_open(writer, path, sink, err) == BZNA_OK && bzi_writer_flush(writer, 0, err) == BZNA_OK) {
        *out = writer;
        return BZNA_OK;
    }
    writer->sink.close = NULL;  /* the sink still belongs to the caller */
    bzi_writer_close(writer);
    return err->status;
}

/* --- Writing samples --- */

/* Adds a sample that is in the file to the index. Returns 0 if memory is out, else 1. */
static int bzi_writer_note(bzna_writer *writer, bzi_index_entry entry)
{
    bzi_index *index = &writer->index;

    entry.offset = writer->position;
    writer->position += entry.size;
    if (entry.split)
        index->counts[entry.split]++;
    index->targets += entry.target != BZNA_TARGET_NONE;
    index->names += entry.name_bytes > 0;
    index->thumbs += entry.thumb_size > 0;
    return bzi_buffer_push(&writer->host->memory, &index->buffer, &index->counts[0], &entry, sizeof entry);
}

/* Writes the sample whose turn it is. Compares its thumbnail's sample entry with the first one, since the playable
 * track has only one. Frame sizes must agree, too: libavcodec takes a JPEG that is much lower than the entry says for
 * one of two fields. */
static bzna_status bzi_writer_write_sample(bzna_writer *writer, bzi_pending *p, bzna_error *err)
{
    bzi_out *first = &writer->thumb_entry, *names = &writer->name_bytes;
    const uint64_t entry_size = p->out.size - p->entry.size;
    const uint8_t *bytes = p->out.buffer.data, *entry = bytes + p->entry.size;

    if (bzi_writer_write(writer, writer->position, bytes, p->entry.size, err) != BZNA_OK)
        return err->status;

    if (p->entry.thumb_size && !writer->index.thumbs)
        bzi_out_bytes(first, entry, entry_size);
    else if (p->entry.thumb_size)
        writer->thumbs_differ |= first->size != entry_size || memcmp(first->buffer.data, entry, (size_t)entry_size);
    p->entry.name_at = names->size;
    bzi_out_bytes(names, bytes + p->name_at, p->entry.name_bytes);
    if (!bzi_writer_note(writer, p->entry) || names->failed || first->failed)
        return bzi_fail_memory(err, "the archive's index");
    return BZNA_OK;
}

/* --- The queue. Under the lock, which bzi_writer_add takes --- */

/* Returns the place of an index in the queue. Most come in order. */
static bzi_pending **bzi_queue_find(bzna_writer *writer, uint64_t index)
{
    bzi_pending *last = writer->queue_last, **at = last && last->index < index ? &last->next : &writer->queue;
    while (*at && (*at)->index < index)
        at = &(*at)->next;
    return at;
}

static uint64_t bzi_pending_bytes(const bzi_pending *p) { return sizeof *p + p->out.buffer.capacity; }

/* Lists the missing indices below the largest, as "5, 9 to 12", as far as there is room. */
static void bzi_queue_name_missing(const bzna_writer *writer, char text[160])
{
    uint64_t from = writer->next;
    size_t n = 0;

    for (const bzi_pending *p = writer->queue; p && n < 110; from = p->index + 1, p = p->next) {
        if (p->index > from)
            n += (size_t)snprintf(text + n, 160 - n, "%s%llu", n ? ", " : "", (bzi_llu)from);
        if (p->index > from + 1)
            n += (size_t)snprintf(text + n, 160 - n, " to %llu", (bzi_llu)p->index - 1);
    }
}

static bzna_status bzi_writer_check(const bzna_writer *writer, bzna_error *err)
{
    if (bzi_os_in_callback)
        return BZI_FAIL(err, BZNA_E_STATE, "must not be called in a callback");
    if (writer->poison)
        return BZI_FAIL(err, writer->poison, "the writer failed before: %s", bzi_status_text(writer->poison));
    if (writer->finished)
        return BZI_FAIL(err, BZNA_E_STATE, "the archive is finished");
    return BZNA_OK;
}

/* Checks that a sample can be given at this index, and sets p->index. */
static bzna_status bzi_writer_check_index(bzna_writer *writer, uint64_t index, bzi_pending *p, bzna_error *err)
{
    const bzi_pending *same;

    if (bzi_writer_check(writer, err) != BZNA_OK)
        return err->status;
    p->index = index == BZNA_INDEX_NEXT ? writer->last : index;
    if (p->index >= UINT32_MAX)
        return BZI_FAIL(err, BZNA_E_LIMIT, "an archive holds no more samples");
    same = *bzi_queue_find(writer, p->index);
    if (p->index < writer->next || (same && same->index == p->index))
        return BZI_MISUSE(err, "index %llu was given before", (bzi_llu)index);
    return BZNA_OK;
}

/* Adds a sample's fields to those of the archive; all of them or, on an error, none. */
static bzna_status bzi_writer_note_fields(bzna_writer *writer, const bzna_writer_sample *sample, bzna_error *err)
{
    bzi_field *fields = writer->fields;
    uint32_t count = writer->field_count;

    for (uint32_t i = 0; i < sample->field_count; i++) {
        const bzna_field_value v = bzi_sample_field(sample, i);
        uint32_t k = 0;
        while (k < count && strcmp(fields[k].name, v.name))
            k++;
        if (k < count && fields[k].kind != v.kind)
            return BZI_MISUSE(err, "sample.fields[%u] \"%s\", kind: other samples have kind %u there", i, v.name,
                              fields[k].kind);
        if (k == BZI_LIMIT_ARCHIVE_FIELDS)
            return BZI_FAIL(err, BZNA_E_LIMIT, "sample.fields: more than %u names in one archive", count);
        if (k == count) {
            fields[count].kind = v.kind;
            bzi_string_copy(fields[count++].name, sizeof fields->name, v.name);
        }
    }
    writer->field_count = count;
    return BZNA_OK;
}

/* Writes the samples whose turn it is, without the lock, unless another thread does. */
static bzna_status bzi_writer_drain(bzna_writer *writer, bzna_error *err)
{
    bzi_pending *p;

    if (writer->busy)
        return BZNA_OK;
    writer->busy = 1;
    while (!writer->poison && (p = writer->queue) != NULL && p->index == writer->next) {
        bzna_status status;

        writer->queue = p->next;
        writer->queue_last = p->next ? writer->queue_last : NULL;
        writer->queue_count--;
        writer->queue_bytes -= bzi_pending_bytes(p);
        writer->next++;
        bzi_os_unlock(&writer->lock);
        status = p->out.size ? bzi_writer_write_sample(writer, p, err) : BZNA_OK;
        bzi_pending_free(&writer->host->memory, p);
        bzi_os_lock(&writer->lock);
        writer->poison = status;
    }
    writer->busy = 0;
    bzi_os_wake_all(&writer->changed);
    return writer->poison;
}

/* Waits for room in the queue or for its turn, then puts p into the queue. Returns BZNA_AGAIN at the timeout. */
static bzna_status bzi_writer_queue(bzna_writer *writer, bzi_pending *p, uint64_t index,
                                    const bzna_writer_sample *sample, int64_t timeout_ns, bzna_error *err)
{
    const uint64_t deadline = bzi_os_now_ns() + (uint64_t)(timeout_ns < 0 ? INT64_MAX : timeout_ns);  /* 292 years */
    const uint64_t bytes = bzi_pending_bytes(p);

    while (bzi_writer_check_index(writer, index, p, err) == BZNA_OK) {
        /* if no index below it is missing, its turn will come, because a thread is busy with those */
        const int will_come = p->index == writer->next || (p->index == writer->last &&
                                                           writer->next + writer->queue_count == writer->last);
        if ((p->index == writer->next && !writer->busy) || writer->queue_bytes + bytes <= writer->queue_limit) {
            bzi_pending **at = bzi_queue_find(writer, p->index);

            if (sample && bzi_writer_note_fields(writer, sample, err) != BZNA_OK)
                return err->status;
            p->next = *at;
            *at = p;
            writer->queue_last = p->next ? writer->queue_last : p;
            writer->queue_count++;
            writer->queue_bytes += bytes;
            writer->last = bzi_max(writer->last, p->index + 1);
            return BZNA_OK;
        }
        if (writer->busy && will_come)
            bzi_os_wait(&writer->changed, &writer->lock);
        else if (bzi_os_now_ns() >= deadline)
            return BZNA_AGAIN;
        else
            bzi_os_wait_until(&writer->changed, &writer->lock, deadline);
    }
    return err->status;
}

/* Adds a sample or, if `sample` is NULL, says that none comes at this index. */
static bzna_status bzi_writer_add(bzna_writer *writer, uint64_t index, const bzna_writer_sample *sample,
                                  int64_t timeout_ns, bzna_error *err)
{
    const bzi_memory *memory = &writer->host->memory;
    bzi_pending *p = bzi_alloc_zero(memory, 1, sizeof *p);
    bzna_status status;

    if (!p)
        return bzi_fail_memory(err, "a sample");

    p->out.memory = memory;
    status = sample ? bzi_pending_make(p, writer->host, sample, err) : BZNA_OK;
    bzi_os_lock(&writer->lock);
    if (status == BZNA_OK && (status = bzi_writer_queue(writer, p, index, sample, timeout_ns, err)) == BZNA_OK) {
        p = NULL;
        status = bzi_writer_drain(writer, err);
    }
    bzi_os_unlock(&writer->lock);
    bzi_pending_free(memory, p);
    return status;
}

/* --- The index --- */

static int bzi_field_order(const void *a, const void *b)
{
    return strcmp(((const bzi_field *)a)->name, ((const bzi_field *)b)->name);
}

static uint32_t bzi_writer_has_thumbs(const bzna_writer *writer)
{
    return writer->index.thumbs == writer->index.counts[0] && !writer->thumbs_differ;
}

/* Adds the outer movie box: the names of fields and classes, the tracks of all samples and of each split, and last, as
 * the format asks, the playable one. */
static void bzi_writer_movie(bzna_writer *writer, uint32_t offset_bytes)
{
    const bzi_index *index = &writer->index;
    const uint32_t kinds = index->names ? 3 : 2, has_thumbs = bzi_writer_has_thumbs(writer);
    bzi_out *out = &writer->tail;
    bzi_track_desc t = { .index = index, .offset_bytes = offset_bytes };
    uint32_t next = 1 + has_thumbs;

    for (uint32_t split = 0; split < 4; split++)
        next += index->counts[split] ? kinds : 0;

    bzi_out_begin(out, "moov");
    bzi_out_mvhd(out, index->counts[0] * BZI_WRITER_TIMESCALE, next);
    if (writer->class_count || writer->field_count) {
        bzi_out_begin_fields(out, writer->field_count);
        for (uint32_t i = 0; i < writer->field_count; i++)
            bzi_out_field(out, writer->fields[i].kind, writer->fields[i].name, NULL, 0);
        bzi_out_bytes(out, writer->class_names.buffer.data, writer->class_names.size);
        bzi_out_end(out);
    }

    for (; t.split < 4; t.split++)
        for (t.kind = 0; t.kind < kinds && index->counts[t.split]; t.kind++) {
            t.id++;
            t.count = t.kind == BZI_TRACK_TARGET && !index->targets ? 0 : index->counts[t.split];
            bzi_out_trak(out, &t);
        }
    if (has_thumbs) {
        t = (bzi_track_desc){ .kind = BZI_TRACK_THUMB, .id = t.id + 1, .flags = 3, .entry = &writer->thumb_entry,
                              .count = index->counts[0], .index = index, .offset_bytes = offset_bytes };
        bzi_out_trak(out, &t);
    }
    bzi_out_end(out);
}

/* Writes targets, names and movie box, then the length of mdat. */
static bzna_status bzi_writer_index(bzna_writer *writer, bzna_error *err)
{
    bzi_out *out = &writer->tail;
    bzi_index *index = &writer->index;
    uint64_t end;

    index->targets_at = writer->position;
    for (uint64_t i = 0; index->targets && i < index->counts[0]; i++)
        bzi_out_little(out, &bzi_index_at(index, i)->target, 8, 8);
    index->names_at = writer->position + out->size;
    bzi_out_bytes(out, writer->name_bytes.buffer.data, writer->name_bytes.size);
    end = writer->position + out->size;
    bzi_writer_movie(writer, end > UINT32_MAX ? 8 : 4);

    if (out->too_large)
        return BZI_FAIL(err, BZNA_E_LIMIT, "the index of %llu samples would have more than 4 GiB",
                        (bzi_llu)index->counts[0]);
    if (bzi_writer_flush(writer, writer->position, err) != BZNA_OK || bzi_writer_sync(writer, err) != BZNA_OK)
        return err->status;

    bzi_out_number(out, end - BZI_WRITER_MDAT, 8);
    return bzi_writer_flush(writer, BZI_WRITER_MDAT + 8, err) == BZNA_OK ? bzi_writer_sync(writer, err) : err->status;
}

/* Writes the index, once no other thread writes. The lock is free meanwhile, and `busy` keeps the others out. After an
 * error of writing every later call fails, since nobody knows what the file holds. */
static bzna_status bzi_writer_finish(bzna_writer *writer, bzna_error *err)
{
    const bzi_index *index = &writer->index;
    char missing[160];
    bzna_status status;

    bzi_os_lock(&writer->lock);
    while (writer->busy)
        bzi_os_wait(&writer->changed, &writer->lock);
    status = bzi_writer_check(writer, err);
    if (status == BZNA_OK && writer->queue_count) {
        bzi_queue_name_missing(writer, missing);
        status = BZI_FAIL(err, BZNA_E_NOT_FOUND, "samples that were never given: %s", missing);
    }
    if (status == BZNA_OK && !index->counts[0])
        status = BZI_FAIL(err, BZNA_E_NO_SAMPLES, "nothing was added to the archive");
    if (status == BZNA_OK) {
        writer->busy = 1;
        qsort(writer->fields, writer->field_count, sizeof *writer->fields, bzi_field_order);
        bzi_os_unlock(&writer->lock);
        status = bzi_writer_index(writer, err);
        bzi_os_lock(&writer->lock);
        writer->busy = 0;
        writer->finished = status == BZNA_OK;
        writer->poison = status == BZNA_E_IO ? status : BZNA_OK;
        bzi_os_wake_all(&writer->changed);
    }
    bzi_os_unlock(&writer->lock);
    if (status == BZNA_OK && !bzi_writer_has_thumbs(writer))
        bzi_log(writer->host, BZNA_LOG_WARNING, BZNA_OK, "no outer bzna_thumb track: %s",
                index->thumbs != index->counts[0] ? "not every sample has a thumbnail" :
                                                    "the thumbnails do not share one size and decoder configuration");
    return status;
}

#endif


/* #### DATA SETS ######################################################################################################
 * The other containers, how a path or a source is opened, and the samples and fields of a data set, whatever it is
 * made of. */


/* ==== 32. Text ======================================================================================================
 * Calls: rooms 2, 8-9.
 *
 * A growing array of texts; readers of words and numbers in files. */

typedef struct bzi_names {
    bzi_arena *arena;
    bzi_buffer texts;                 /* const char * */
    uint64_t   count;
} bzi_names;

static void bzi_names_free(bzi_names *names) { bzi_buffer_free(names->arena->memory, &names->texts); }

static bzna_status bzi_names_add(bzi_names *names, const char *name, bzna_error *err)
{
    const char *const copy = bzi_arena_text(names->arena, name);

    return copy && bzi_buffer_push(names->arena->memory, &names->texts, &names->count, &copy, sizeof copy) ?
               BZNA_OK : bzi_fail_memory(err, "names of files");
}

/* Valid until another text is added. */
static const char **bzi_names_all(const bzi_names *names) { return (const char **)(void *)names->texts.data; }

/* --- Text --- */

/* Takes the text up to a character, and the character. Returns 0 if it is not there, and takes all of the text. */
static int bzi_text_take(bzi_span *rest, char stop, bzi_span *part)
{
    const uint8_t *end = bzi_find_byte(rest->data, stop, rest->size);

    *part = (bzi_span){ rest->data, end ? (uint64_t)(end - rest->data) : rest->size };
    rest->data += part->size + (end != NULL);
    rest->size -= part->size + (end != NULL);
    return end != NULL;
}

/* Reads a number of digits only. Returns 0 if it is no such number, or exceeds 64 bits. */
static int bzi_span_integer(bzi_span s, uint64_t *out)
{
    uint64_t value = 0;

    for (uint64_t i = 0; i < s.size; i++) {
        const uint32_t digit = (uint32_t)s.data[i] - '0';
        if (digit > 9 || value > UINT64_MAX / 10 || (value = value * 10 + digit) < digit)
            return 0;
    }

    *out = value;
    return s.size > 0;
}

#ifndef BENZINA_NO_SHARDS

/* Takes the next word, which is empty at the end and before a control character. */
static bzi_span bzi_text_word(bzi_span *rest)
{
    uint64_t size = 0;

    while (rest->size && memchr(" \t\n\v\f\r", *rest->data, 6))
        *rest = bzi_span_skip(*rest, 1);
    while (size < rest->size && rest->data[size] > ' ')
        size++;
    *rest = bzi_span_skip(*rest, size);
    return (bzi_span){ rest->data - size, size };
}

/* --- Numbers, independent of the process's locale --- */

/* The same with a sign or without, between blanks. */
static int bzi_span_signed(bzi_span s, int64_t *out)
{
    bzi_span digits = bzi_text_word(&s);
    const int minus = digits.size && *digits.data == '-';
    uint64_t value;

    if (minus || (digits.size && *digits.data == '+'))
        digits = bzi_span_skip(digits, 1);
    if (bzi_text_word(&s).size || s.size || !bzi_span_integer(digits, &value) ||
        value > (uint64_t)INT64_MAX + (uint64_t)minus)
        return 0;
    *out = (int64_t)(minus ? 0 - value : value);
    return 1;
}

#endif


/* ==== 33. Directories ===============================================================================================
 * Calls: rooms 2, 4, 8-9, 26, 32.
 *
 * The files under a folder with certain extensions, in the order of Python's sorted(os.walk(top, followlinks=True)): by
 * the bytes of their folder's path, then of their name. Links are followed. Names that begin with a dot are left out.
 * No file is opened. */

#ifndef BENZINA_NO_FOLDERS

/* Joins folder and name with a slash, unless one of them is empty. */
static bzna_status bzi_path_join(char *path, uint64_t capacity, const char *folder, const char *name, bzna_error *err)
{
    const size_t length = strlen(folder), size = strlen(name) + 1;
    const size_t slash = *folder && *name && folder[length - 1] != '/';

    if (length + slash + size > capacity)
        return BZI_FAIL(err, BZNA_E_LIMIT, "%.64s...: a path has at most %u bytes", *name ? name : folder,
                        BZI_LIMIT_PATH_BYTES - 1);

    memcpy(path, folder, length);
    path[length] = '/';
    memcpy(path + length + slash, name, size);
    return BZNA_OK;
}

/* Returns the bytes of the folder in a path, without the slash after it, or 0. */
static size_t bzi_path_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

/* Compares paths of files, for qsort. */
static int bzi_path_order(const void *a, const void *b)
{
    const char *const x = *(const char *const *)a, *const y = *(const char *const *)b;
    const size_t n = bzi_path_folder(x), m = bzi_path_folder(y);
    const int order = memcmp(x, y, n < m ? n : m);

    return order ? order : n != m ? (n < m ? -1 : 1) : strcmp(x + n, y + n);
}

static void bzi_paths_sort(bzi_names *paths)
{
    if (paths->count)
        qsort(paths->texts.data, (size_t)paths->count, sizeof(char *), bzi_path_order);
}

typedef struct bzi_walk_folder {
    const char *path;                 /* below the root, which has "" */
    uint64_t    parent;               /* number of the folder that holds it */
    uint64_t    id[2];                /* as in bzi_os_folder */
} bzi_walk_folder;

typedef struct bzi_walk {
    const char *root;
    const char *extensions;           /* of files that count, as for bzi_word_is_in; NULL: all files count */
    const bzi_host *host;             /* whose own codecs have more of them; NULL: none count */
    bzi_names   files;                /* their paths below the root; the arena gets those of folders, too */
    bzi_buffer  folders;              /* bzi_walk_folder */
    uint64_t    folder_count;
} bzi_walk;

/* Returns folder number i, until another is added. */
static bzi_walk_folder *bzi_walk_at(const bzi_walk *walk, uint64_t i)
{
    return (bzi_walk_folder *)(void *)walk->folders.data + i;
}

static void bzi_walk_free(bzi_walk *walk)
{
    bzi_buffer_free(walk->files.arena->memory, &walk->folders);
    bzi_names_free(&walk->files);
}

static bzna_status bzi_walk_add(bzi_walk *walk, const char *path, uint64_t parent, bzna_error *err)
{
    const bzi_walk_folder folder = { bzi_arena_text(walk->files.arena, path), parent, { 0 } };

    if (walk->folder_count == BZI_LIMIT_FOLDERS)
        return BZI_FAIL(err, BZNA_E_LIMIT, "more than %u folders", BZI_LIMIT_FOLDERS);
    if (folder.path && bzi_buffer_push(walk->files.arena->memory, &walk->folders, &walk->folder_count, &folder,
                                       sizeof folder))
        return BZNA_OK;
    return bzi_fail_memory(err, "folders");
}

/* Returns 1 if a file counts, by its name. */
static int bzi_walk_wants(const bzi_walk *walk, const char *name)
{
    const char *dot = strrchr(name, '.');

    return !walk->extensions || (dot && (bzi_word_is_in(dot + 1, walk->extensions) ||
                                         (walk->host && bzi_own_has_extension(walk->host, dot + 1))));
}

/* Lists folder number i: keeps the paths of its files, and adds its folders, which are listed later. A broken link
 * counts as a file. Refuses a link to a folder that holds it: the walk would never end. */
static bzna_status bzi_walk_scan(bzi_walk *walk, uint64_t i, bzna_error *err)
{
    const char *const below = bzi_walk_at(walk, i)->path;
    char path[BZI_LIMIT_PATH_BYTES];              /* of the folder; then of each entry, below the root */
    bzi_os_folder folder;
    bzna_status status = bzi_path_join(path, sizeof path, walk->root, below, err);
    const char *name;
    int error = 0, kind;

    if (status == BZNA_OK && (error = bzi_os_folder_open(&folder, path)) == 0) {
        memcpy(bzi_walk_at(walk, i)->id, folder.id, sizeof folder.id);
        for (uint64_t k = i; k && status == BZNA_OK; ) {
            k = bzi_walk_at(walk, k)->parent;
            if (!memcmp(bzi_walk_at(walk, k)->id, folder.id, sizeof folder.id))
                status = BZI_MISUSE(err, "this link leads back to a folder that holds it");
        }
        while (status == BZNA_OK && (name = bzi_os_folder_next(&folder, &kind, &error)) != NULL)
            if (name[0] != '.' && kind != BZI_OS_OTHER && (kind == BZI_OS_FOLDER || bzi_walk_wants(walk, name)) &&
                (status = bzi_path_join(path, sizeof path, below, name, err)) == BZNA_OK)
                status = kind == BZI_OS_FOLDER ? bzi_walk_add(walk, path, i, err) :
                                                 bzi_names_add(&walk->files, path, err);
        bzi_os_folder_close(&folder);
    }
    if (status == BZNA_OK && error)
        status = BZI_FAIL_BY(err, BZNA_E_IO, error, "cannot list: %s", bzi_os_error(error));
    return status == BZNA_OK || status == BZNA_E_LIMIT || !*below ? status : bzi_error_prefix(err, below);
}

/* Lists a folder, and if `deep` is set all below it. */
static bzna_status bzi_walk_list(bzi_walk *walk, const char *path, int deep, bzna_error *err)
{
    const uint64_t first = walk->folder_count;
    bzna_status status = bzi_walk_add(walk, path, 0, err);

    for (uint64_t i = first; status == BZNA_OK && i < (deep ? walk->folder_count : first + 1); i++)
        status = bzi_walk_scan(walk, i, err);
    return status;
}


/* ==== 34. Containers: folder ========================================================================================
 * Calls: rooms 2, 8-11, 13, 25-26, 32-33.
 *
 * Pictures that are files, in the order and with the classes of torchvision's ImageFolder: each folder in the root is a
 * class of all pictures below it. A root that holds pictures and no folders has no classes. A file is opened when its
 * sample is read. */

/* The files of one class, or of a root without classes. */
typedef struct bzi_class {
    uint64_t    begin;                /* number of its first sample */
    const char **files;               /* paths below the root, sorted */
    uint64_t    count;
    bzi_arena   arena;                /* of the thread that lists it, meanwhile */
} bzi_class;

/* A small file that was read. data is NULL before that, and is stored last. */
typedef struct bzi_folder_file {
    uint64_t                size;
    const uint8_t *_Atomic  data;
} bzi_folder_file;

typedef struct bzi_folder {
    const char *root;                 /* its path, absolute where the working folder is known */
    uint64_t    root_id[2];           /* its identity, which ends circles of links */
    bzi_class  *classes;              /* those of bzi_container.class_names; without classes, &all */
    uint64_t    class_room;           /* elements of classes */
    bzi_class   all;
    bzi_field   fields[3];            /* image, target or not, name */
    bzi_folder_file *_Atomic held;    /* by the number of the sample; NULL: none was held yet */
    atomic_int  busy;                 /* 1: a thread holds a file in the arena, where no other may add to it */
    uint64_t    left;                 /* bytes that may still be held */
    bzi_arena  *arena;                /* the container's */
} bzi_folder;

/* The extensions of ImageFolder, and those of other pictures that can be decoded. */
#define BZI_PICTURE_EXTENSIONS " jpg jpeg png webp "

/* Orders names that are decimal numbers by value, and names of equal value ("7", "007") as text. */
static int bzi_folder_number_order(const void *left, const void *right)
{
    const char *a = *(const char *const *)left, *b = *(const char *const *)right;
    const char *x = a + strspn(a, "0"), *y = b + strspn(b, "0");
    int order = strlen(x) != strlen(y) ? strlen(x) < strlen(y) ? -1 : 1 : strcmp(x, y);
    return order ? order : strcmp(a, b);
}

/* Names the classes in order: those that the caller gives, or the folders that a walk has found after the root. */
static bzna_status bzi_folder_name_classes(bzi_container *c, const bzi_walk *walk, const bzna_dataset_config *config,
                                           bzna_error *err)
{
    const int is_numeric = config->class_order == BZNA_CLASS_ORDER_NUMERIC;
    const uint64_t count = walk->folder_count - 1;
    const char **top, **names;

    if (config->classes && config->class_order)
        return BZI_MISUSE(err, "dataset_config.class_order: dataset_config.classes sets the order");
    if (!BZI_ARENA_ZERO(&c->arena, top, count) || !BZI_ARENA_ZERO(&c->arena, names, config->class_count))
        return bzi_fail_memory(err, "classes");
    for (uint64_t i = 0; i < count; i++)
        top[i] = bzi_walk_at(walk, i + 1)->path;
    qsort(top, (size_t)count, sizeof *top, is_numeric ? bzi_folder_number_order : bzi_path_order);
    for (uint64_t i = 0; i < count && is_numeric; i++)
        if (top[i][strspn(top[i], "0123456789")])
            return BZI_MISUSE(err, "dataset_config.class_order: the folder name \"%.64s\" is not a number", top[i]);

    c->class_names = config->classes ? names : top;
    c->class_count = config->classes ? config->class_count : count;
    for (uint32_t i = 0; i < config->class_count; i++) {
        const char *const *found = bsearch(&config->classes[i], top, (size_t)count, sizeof *top, bzi_path_order);

        if (!found)
            return BZI_FAIL(err, BZNA_E_NOT_FOUND, "dataset_config.classes[%u]: there is no folder \"%.64s\"", i,
                            config->classes[i]);
        for (uint32_t j = 0; j < i; j++)
            if (names[j] == *found)
                return BZI_MISUSE(err, "dataset_config.classes[%u]: \"%.64s\" is named twice", i, *found);
        names[i] = *found;
    }
    return BZNA_OK;
}

/* Keeps the files that a walk has found as those of a class. */
static bzna_status bzi_folder_keep(bzi_class *class, bzi_walk *walk, bzna_error *err)
{
    bzi_paths_sort(&walk->files);
    class->count = walk->files.count;
    class->files = bzi_arena_copy(walk->files.arena, walk->files.texts.data, class->count, sizeof *class->files);
    return class->files ? BZNA_OK : bzi_fail_memory(err, "names of files");
}

/* Finds the files of one class, on one of several threads. */
static bzna_status bzi_folder_list_class(void *user, uint64_t index, bzna_error *err)
{
    const bzi_container *c = user;
    const bzi_folder *folder = c->own;
    bzi_class *class = &folder->classes[index];
    bzi_walk walk = { .root = folder->root, .extensions = BZI_PICTURE_EXTENSIONS, .host = c->host,
                      .files.arena = &class->arena };
    bzna_status status;

    class->arena.memory = &c->host->memory;
    if ((status = bzi_walk_add(&walk, "", 0, err)) == BZNA_OK) {
        memcpy(bzi_walk_at(&walk, 0)->id, folder->root_id, sizeof folder->root_id);
        status = bzi_walk_list(&walk, c->class_names[index], 1, err);
    }
    if (status == BZNA_OK)
        status = bzi_folder_keep(class, &walk, err);
    bzi_walk_free(&walk);
    return status;
}

/* Fails because a class, or with class "" the root, holds no pictures. The message names the first file that is
 * there. */
static bzna_status bzi_folder_fail_empty(const bzi_container *c, const char *class, const char *what, bzna_error *err)
{
    bzi_arena arena = { .memory = &c->host->memory };
    bzi_walk walk = { .root = ((const bzi_folder *)c->own)->root, .files.arena = &arena };
    const char *file = "";
    char other[128];
    bzna_error ignored;

    bzi_walk_list(&walk, class, 1, &ignored);
    bzi_paths_sort(&walk.files);
    if (walk.files.count)
        file = *bzi_names_all(&walk.files);
    bzi_text_show(other, sizeof other, (const uint8_t *)file, strlen(file));
    BZI_FAIL(err, BZNA_E_NO_SAMPLES, "%s%s%.64s%s", what, *file ? ": \"" : "", other,
             *file ? "\" has another extension" : "");
    bzi_walk_free(&walk);
    bzi_arena_free(&arena);
    return *class ? bzi_error_prefix(err, class) : err->status;
}

/* Opens the folders in the root as classes, and numbers the samples class by class. Several threads list classes, each
 * class in an arena of its own, because arenas have no locks. An empty class begins where the next one does. */
static bzna_status bzi_folder_open_classes(bzi_container *c, const bzi_walk *walk, const bzna_dataset_config *config,
                                           bzna_error *err)
{
    bzi_folder *folder = c->own;
    uint64_t splits = 0;
    char word[16];
    bzna_status status = bzi_folder_name_classes(c, walk, config, err);

    if (status != BZNA_OK)
        return status;
    folder->class_room = c->class_count;
    if (!BZI_ARENA_ZERO(&c->arena, folder->classes, folder->class_room))
        return bzi_fail_memory(err, "classes");
    status = bzi_parallel(c->host, bzi_folder_list_class, c, c->class_count, err);
    for (uint64_t i = 0; i < c->class_count; i++)
        bzi_arena_join(&c->arena, &folder->classes[i].arena);
    if (status != BZNA_OK)
        return status;

    for (uint64_t i = 0; i < c->class_count; i++) {         /* such as train or val2017 */
        bzi_string_copy(word, sizeof word, c->class_names[i]);
        word[strcspn(word, "0123456789")] = 0;
        splits += bzi_word_is_in(word, " train training val valid validation dev eval test testing ") != 0;
    }
    if (splits == c->class_count && !config->classes)
        return BZI_FAIL(err, BZNA_E_FORMAT, "its folders are named like splits, not like classes: open one of them "
                        "(\"%.64s\"), or name those that are classes in dataset_config.classes", c->class_names[0]);

    for (uint64_t i = 0; i < c->class_count; i++) {
        if (!folder->classes[i].count && !config->allow_empty)
            return bzi_folder_fail_empty(c, c->class_names[i], "the class folder has no picture files", err);
        folder->classes[i].begin = c->count;
        c->count += folder->classes[i].count;
    }
    c->target_count = c->count;
    return c->count ? BZNA_OK : bzi_folder_fail_empty(c, "", "none of its class folders has picture files", err);
}

/* Finds the samples. The path is made absolute: the working folder may change. */
static bzna_status bzi_folder_open(bzi_container *c, const bzna_dataset_config *config, bzna_error *err)
{
    bzi_folder *folder = c->own;
    bzi_walk walk = { .extensions = BZI_PICTURE_EXTENSIONS, .host = c->host, .files.arena = &c->arena };
    char path[BZI_LIMIT_PATH_BYTES];
    bzna_status status;

    if (!bzi_path_absolute(path, sizeof path, c->given))
        return bzi_file_fail_open(ENAMETOOLONG, err);
    if (!(walk.root = folder->root = bzi_arena_text(&c->arena, path)))
        return bzi_fail_memory(err, "a folder");

    if ((status = bzi_walk_list(&walk, "", 0, err)) == BZNA_OK) {
        memcpy(folder->root_id, bzi_walk_at(&walk, 0)->id, sizeof folder->root_id);
        if (walk.folder_count > 1 || config->classes)
            status = bzi_folder_open_classes(c, &walk, config, err);
        else if (!walk.files.count)
            status = bzi_folder_fail_empty(c, "", "the folder holds neither pictures nor folders of them", err);
        else {
            folder->classes = &folder->all;
            folder->class_room = 1;
            c->settings = " orientation palette ";          /* there are no class folders */
            c->count = walk.files.count;
            status = bzi_folder_keep(&folder->all, &walk, err);
        }
    }
    bzi_walk_free(&walk);
    if (status != BZNA_OK)
        return status;

    folder->arena = &c->arena;
    folder->left = BZI_HOLD_BYTES;
    bzi_container_add_field(c, folder->fields, BZNA_FIELD_IMAGE, 1, "image");
    if (c->target_count) {
        c->target_field = c->field_count;
        bzi_container_add_field(c, folder->fields, BZNA_FIELD_INTEGER, 0, "target");
    }
    bzi_container_add_field(c, folder->fields, BZNA_FIELD_TEXT, 0, "name");
    return BZNA_OK;
}

/* Returns the class of a sample. An empty class begins where the next one does, and is never the last to do so. */
static uint64_t bzi_folder_class_of(const bzi_folder *folder, uint64_t index)
{
    return bzi_search_above(&folder->classes->begin, folder->class_room, sizeof *folder->classes, index) - 1;
}

/* Returns a sample's path below the root. */
static const char *bzi_folder_name(const bzi_folder *folder, uint64_t index)
{
    const bzi_class *class = &folder->classes[bzi_folder_class_of(folder, index)];
    return class->files[index - class->begin];
}

static bzna_status bzi_folder_locate(const bzi_container *c, uint64_t index, bzi_extent *extent, bzna_error *err)
{
    const bzi_folder *folder = c->own;
    const bzi_folder_file *held = folder->held;
    (void)err;

    extent->data = held && !extent->naming ? held[index].data : NULL;
    extent->size = extent->data ? held[index].size : BZI_TO_END;
    extent->file = extent->data ? 0 : index + 1;
    return BZNA_OK;
}

static bzna_status bzi_folder_path(const bzi_container *c, uint64_t file, char *path, uint64_t capacity,
                                   bzna_error *err)
{
    const bzi_folder *folder = c->own;
    return bzi_path_join(path, capacity, folder->root, bzi_folder_name(folder, file), err);
}

static bzna_status bzi_folder_field(const bzi_container *c, const bzi_sample *sample, uint32_t number,
                                    bzi_value *value, bzna_error *err)
{
    const char *const name = bzi_folder_name(c->own, sample->index);
    const int64_t target = (int64_t)bzi_folder_class_of(c->own, sample->index);
    (void)err;

    if (c->fields[number].kind == BZNA_FIELD_TEXT)
        bzi_value_put(value, name, strlen(name));
    else
        bzi_value_put(value, &target, sizeof target);
    return BZNA_OK;
}

/* Holds a file that was read, if it is small, there is room, and no other thread is holding one. */
static void bzi_folder_hold(const bzi_container *c, const bzi_sample *sample)
{
    bzi_folder *folder = c->own;
    const uint64_t size = sample->extent.size;

    if (size > BZI_HOLD_SAMPLE_BYTES || (folder->held && folder->held[sample->index].data) ||
        atomic_exchange(&folder->busy, 1))
        return;
    if (!folder->held)
        BZI_ARENA_ZERO(folder->arena, folder->held, c->count);
    if (folder->held && size <= folder->left) {
        bzi_folder_file *file = folder->held + sample->index;

        folder->left -= size;
        file->size = size;
        file->data = bzi_arena_copy(folder->arena, sample->bytes, size, 1);
    }
    folder->busy = 0;
}

static bzna_status bzi_folder_image(const bzi_container *c, const bzi_sample *sample, const bzi_pick *pick,
                                    bzi_image *image, bzna_error *err)
{
    (void)pick;
    bzi_folder_hold(c, sample);
    return bzi_file_image(c->host, bzi_sample_span(sample), 0, image, err);
}

/* Hashes the names of all files in order, each folder's before those of its files. */
static uint64_t bzi_folder_fingerprint(const bzi_container *c, uint64_t hash)
{
    const bzi_folder *folder = c->own;

    for (uint64_t i = 0; i < folder->class_room; i++) {
        const char *const *const files = folder->classes[i].files;

        for (uint64_t k = 0; k < folder->classes[i].count; k++) {
            const char *name = files[k];
            const size_t length = bzi_path_folder(name);

            if (!k || length != bzi_path_folder(files[k - 1]) || memcmp(name, files[k - 1], length))
                hash = bzi_hash(bzi_hash(hash, name, length), "", 1);
            name += length + (length > 0);
            hash = bzi_hash(hash, name, strlen(name) + 1);
        }
    }
    return hash;
}

static const bzi_container_ops bzi_folder_ops = {
    .name = "folder",
    .settings = " classes class_order allow_empty orientation palette ",
    .own_bytes = sizeof(bzi_folder),
    .still = 1,
    .open = bzi_folder_open,
    .locate = bzi_folder_locate,
    .field = bzi_folder_field,
    .image = bzi_folder_image,
    .fingerprint = bzi_folder_fingerprint,
    .path = bzi_folder_path,
    .class_name = bzi_container_class_name
};


#endif


#ifndef BENZINA_NO_SHARDS

/* ==== 35. tar: headers ==============================================================================================
 * Calls: rooms 2, 8-9, 11, 32.
 *
 * Walks over the members of a tar: v7, ustar, GNU and pax headers. Names are limited, and so are the headers that
 * describe the next member. Nothing is read past the end of the source. */

#define BZI_TAR_BLOCK 512u

typedef struct bzi_tar_file {
    bzi_span name;
    uint64_t offset;                  /* where its bytes begin, after its header */
    uint64_t size;                    /* its bytes, without padding */
} bzi_tar_file;

typedef struct bzi_tar_walk {
    bzi_window   window;              /* over the tar */
    uint64_t     at;                  /* where the next header lies */
    bzi_tar_file file;                /* the member that bzi_tar_next has found; its name is below */
    uint32_t     is_file;             /* 1: it is a regular file */
    uint32_t     is_sparse;           /* 1: so says a pax header */
    uint64_t     told_size;           /* from a pax header; BZI_ABSENT: its own header has it */
    uint8_t      name[BZI_LIMIT_PATH_BYTES];
} bzi_tar_walk;

/* Fills in `walk`, which bzi_tar_walk_end frees. */
static void bzi_tar_walk_begin(bzi_tar_walk *walk, const bzi_source *source, const bzi_memory *memory, uint64_t at)
{
    memset(walk, 0, offsetof(bzi_tar_walk, name));
    walk->window = (bzi_window){ .source = source, .memory = memory, .held = source->held };
    walk->at = at;
    walk->file.name.data = walk->name;
}

static void bzi_tar_walk_end(bzi_tar_walk *walk) { bzi_buffer_free(walk->window.memory, &walk->window.bytes); }

/* Reads octal digits between blanks, or a number in base 256. An empty field is 0. Returns 0 for anything else. */
static int bzi_tar_number(const uint8_t *field, uint32_t size, uint64_t *value)
{
    uint32_t i = 0;

    *value = 0;
    if (field[0] & 0x80) {
        *value = field[0] & 0x7f;
        for (i = 1; i < size; i++) {
            if (*value >> 56)
                return 0;
            *value = *value << 8 | field[i];
        }
        return 1;
    }

    while (i < size && field[i] == ' ')
        i++;
    for (; i < size && field[i] >= '0' && field[i] <= '7'; i++)
        *value = *value << 3 | (uint64_t)(field[i] - '0');
    return i == size || field[i] == 0 || field[i] == ' ';
}

/* Returns 1 if a block is a header, by its check sum. Some writers sum signed bytes: both sums are right. */
static int bzi_tar_is_header(const uint8_t *block)
{
    uint32_t sum = 8 * ' ', high = 0;                       /* the check sum itself counts as blanks */
    uint64_t told;

    for (uint32_t i = 0; i < BZI_TAR_BLOCK; i++) {          /* without a condition, so that compilers use vectors */
        sum += block[i];
        high += block[i] >> 7;
    }
    for (uint32_t i = 148; i < 156; i++) {
        sum -= block[i];
        high -= block[i] >> 7;
    }
    return bzi_tar_number(block + 148, 8, &told) && (told == sum || told == (uint64_t)(sum - 256 * high));
}

static uint64_t bzi_tar_round(uint64_t end) { return (end + BZI_TAR_BLOCK - 1) & ~(uint64_t)(BZI_TAR_BLOCK - 1); }

static int bzi_tar_is_file(uint8_t type) { return type == 0 || type == '0' || type == '7'; }

/* Returns 1 if a block is the header of a file of so many bytes. */
static int bzi_tar_matches(const uint8_t *block, uint64_t size)
{
    uint64_t told;
    return bzi_tar_is_header(block) && bzi_tar_number(block + 124, 12, &told) && told == size &&
           bzi_tar_is_file(block[156]);
}

/* Views the header at walk->at. It is NULL at the archive's end, which is a block of zeros or the end of the source. */
static bzna_status bzi_tar_header(bzi_tar_walk *walk, const uint8_t **header, bzna_error *err)
{
    const uint64_t end = walk->window.source->size;

    *header = NULL;
    if (walk->at > end)
        return BZI_FAIL_AT(err, BZNA_E_TRUNCATED, end, "the tar ends inside the padding of its last member: what "
                           "followed that is missing");
    if (walk->at == end)
        return BZNA_OK;
    if (end - walk->at < BZI_TAR_BLOCK)
        return BZI_FAIL_AT(err, BZNA_E_TRUNCATED, walk->at, "the tar ends inside the header that begins here");
    if (bzi_window_view(&walk->window, walk->at, BZI_TAR_BLOCK, header, err) != BZNA_OK)
        return err->status;
    if (**header == 0 && bzi_is_zero(*header, BZI_TAR_BLOCK))
        *header = NULL;
    else if (!bzi_tar_is_header(*header))
        return BZI_FAIL_AT(err, BZNA_E_BOX, walk->at, "no tar header: its check sum is wrong");
    return BZNA_OK;
}

/* Adds text, up to a NUL, to the member's name. Returns 0 if there is no room. */
static int bzi_tar_add_name(bzi_tar_walk *walk, bzi_span text)
{
    const uint8_t *nul = bzi_find_byte(text.data, 0, text.size);

    if (nul)
        text.size = (uint64_t)(nul - text.data);
    if (text.size > sizeof walk->name - walk->file.name.size)
        return 0;
    bzi_copy(walk->name + walk->file.name.size, text.data, text.size);
    walk->file.name.size += text.size;
    return 1;
}

static bzna_status bzi_tar_set_name(bzi_tar_walk *walk, bzi_span text, uint64_t at, bzna_error *err)
{
    walk->file.name.size = 0;
    if (bzi_tar_add_name(walk, text))
        return BZNA_OK;
    return BZI_FAIL_AT(err, BZNA_E_LIMIT, at, "the name has more than %u bytes", BZI_LIMIT_PATH_BYTES);
}

/* Reads a member that only describes the next: GNU's long name, or the records of a pax header, such as
 * "27 path=a/b/000.jpg\n". An empty value cancels an earlier record. GNU's long targets of links are not needed. */
static bzna_status bzi_tar_read_description(bzi_tar_walk *walk, uint8_t type, bzna_error *err)
{
    uint64_t at = walk->file.offset;
    bzi_span rest = { NULL, walk->file.size };

    if (rest.size > BZI_LIMIT_PAX_BYTES)
        return BZI_FAIL_AT(err, BZNA_E_LIMIT, walk->at,
                           "the header has %llu bytes of names and records, more than %u", (bzi_llu)rest.size,
                           BZI_LIMIT_PAX_BYTES);
    if (bzi_window_view(&walk->window, at, rest.size, &rest.data, err) != BZNA_OK)
        return err->status;
    if (type == 'L' || type == 'K')
        return type == 'K' ? BZNA_OK : bzi_tar_set_name(walk, rest, at, err);

    while (rest.size && *rest.data) {
        bzi_span value = rest, digits, key;
        uint64_t length;
        const int fits = bzi_text_take(&value, ' ', &digits) && bzi_span_integer(digits, &length) &&
                         length <= rest.size && length > digits.size + 2 && rest.data[length - 1] == '\n';

        if (fits)
            value.size = length - digits.size - 2;          /* without the blank and the line feed */
        if (!fits || !bzi_text_take(&value, '=', &key))
            return BZI_FAIL_AT(err, BZNA_E_BOX, at, "no pax record");

        if (bzi_span_is(key, "path") && bzi_tar_set_name(walk, value, at, err) != BZNA_OK)
            return err->status;
        if (bzi_span_is(key, "size")) {
            walk->told_size = BZI_ABSENT;
            if (value.size && !bzi_span_integer(value, &walk->told_size))
                return BZI_FAIL_AT(err, BZNA_E_BOX, at, "the pax record's size is not a number of 64 bits");
        }
        walk->is_sparse |= (uint32_t)bzi_span_begins(key, "GNU.sparse.", 11);
        rest = bzi_span_skip(rest, length);
        at += length;
    }
    return BZNA_OK;
}

/* Steps to the next member, of any type, or returns BZNA_END. Links, devices and folders have no bytes, whatever their
 * header says. A pax header of all members (type g) counts as a member that is no file. */
static bzna_status bzi_tar_next(bzi_tar_walk *walk, bzna_error *err)
{
    const uint64_t end = walk->window.source->size;
    bzi_tar_file *file = &walk->file;
    const uint8_t *header;

    file->name.size = 0;
    walk->told_size = BZI_ABSENT;
    walk->is_sparse = 0;

    for (uint32_t n = 0; n <= BZI_LIMIT_TAR_EXTRA; n++) {
        const bzna_status status = bzi_tar_header(walk, &header, err);
        const uint8_t type = header ? header[156] : 0;
        const int describes = type == 'L' || type == 'K' || type == 'x' || type == 'X';

        if (status != BZNA_OK)
            return status;
        if (!header)
            return n ? BZI_FAIL_AT(err, BZNA_E_TRUNCATED, walk->at, "the tar ends after the description of a member") :
                       BZNA_END;

        if (!describes && !file->name.size) {               /* GNU's headers have no first part of it as ustar's */
            if (!memcmp(header + 257, "ustar", 6))
                bzi_tar_add_name(walk, (bzi_span){ header + 345, 155 });
            if (file->name.size)
                bzi_tar_add_name(walk, (bzi_span){ (const uint8_t *)"/", 1 });
            bzi_tar_add_name(walk, (bzi_span){ header, 100 });
        }
        file->offset = walk->at + BZI_TAR_BLOCK;
        file->size = 0;
        if ((type < '1' || type > '6') && !bzi_tar_number(header + 124, 12, &file->size))
            return BZI_FAIL_AT(err, BZNA_E_BOX, walk->at, "the header's size is not a number");
        if (bzi_tar_is_file(type) && walk->told_size != BZI_ABSENT)
            file->size = walk->told_size;
        if (file->size > end - file->offset)
            return BZI_FAIL_AT(err, BZNA_E_TRUNCATED, walk->at,
                               "the member has %llu bytes, which end beyond the tar's end at byte %llu",
                               (bzi_llu)file->size, (bzi_llu)end);
        if (describes && bzi_tar_read_description(walk, type, err) != BZNA_OK)
            return err->status;
        if (type == 'S' || walk->is_sparse)
            return BZI_FAIL_AT(err, BZNA_E_UNSUPPORTED, walk->at,
                               "the member is a sparse file, which is not read: write the tar without --sparse");

        walk->at = bzi_tar_round(file->offset + file->size);
        walk->is_file = (uint32_t)bzi_tar_is_file(type);
        if (!describes)
            return BZNA_OK;
    }

    return BZI_FAIL_AT(err, BZNA_E_LIMIT, walk->at, "more than %u headers in a row before here describe a member",
                       BZI_LIMIT_TAR_EXTRA);
}


/* ==== 36. Containers: tar ===========================================================================================
 * Calls: rooms 2, 8-11, 25-26, 32, 35.
 *
 * WebDataset shards. Neighboring members that share a key are a sample. The key is a member's name up to the first dot
 * after the last slash; the field's name follows that dot. The index has 4 bytes a sample and 16 a member, and no keys:
 * they are read again from the headers. It is built by a walk over all headers, or from the file that wds2idx has
 * written beside the tar. */

/* The place of a member, in 16 bytes. */
typedef struct bzi_tar_member {
    uint64_t offset;                  /* of its bytes, which follow its header */
    uint32_t size_low;                /* low 32 bits of its size */
    uint16_t size_high;               /* high 16 bits */
    uint16_t field;                   /* number of its field; fields are in the order in which they were met */
} bzi_tar_member;

typedef struct bzi_tar {
    bzi_tar_member *members;          /* in the file's order */
    uint32_t       *begins;           /* the first member of each sample, then the number of members */
    uint32_t        from_index;       /* 1: the places are from an index: they are checked when members are used */
    uint32_t        key_field;        /* number of "name", the key; BZI_NO_FIELD: members have such a field */
} bzi_tar;

/* The members of a sample, and where they end. */
static const bzi_tar_member *bzi_tar_members(const bzi_tar *tar, uint64_t index, const bzi_tar_member **end)
{
    *end = tar->members + tar->begins[index + 1];
    return tar->members + tar->begins[index];
}

static uint64_t bzi_tar_member_size(const bzi_tar_member *m) { return (uint64_t)m->size_high << 32 | m->size_low; }
static uint64_t bzi_tar_member_end(const bzi_tar_member *m) { return m->offset + bzi_tar_member_size(m); }

/* Recognizes a tar by its first header's check sum, since its first bytes are any name, even "PAR1". A tar without
 * members begins with zeros. */
static int bzi_tar_probe(bzi_span head)
{
    return head.size >= BZI_TAR_BLOCK && (bzi_tar_is_header(head.data) || bzi_is_zero(head.data, BZI_TAR_BLOCK));
}

/* Returns the size of the key in a name, or 0 for files of no sample: those without key or field, hidden ones, and
 * those in folders called like __this__. */
static uint64_t bzi_tar_key_size(bzi_span name)
{
    bzi_span part, rest = name;
    int is_folder;

    do {
        is_folder = bzi_text_take(&rest, '/', &part);
        if (part.size >= 4 && !memcmp(part.data, "__", 2) && !memcmp(part.data + part.size - 2, "__", 2))
            return 0;
    } while (is_folder);

    rest = part;
    return bzi_text_take(&rest, '.', &part) && part.size && rest.size ? name.size - rest.size - 1 : 0;
}

/* --- Building the index --- */

typedef struct bzi_tar_build {
    bzi_container *c;                 /* which is being opened */
    const bzna_dataset_config *config; /* which it is opened with */
    uint64_t       key_size;
    uint8_t        key[BZI_LIMIT_PATH_BYTES];               /* of the last sample */
    bzi_buffer     members;           /* of bzi_tar_member */
    bzi_buffer     begins;            /* of uint32_t: the first member of each sample */
    uint64_t       member_count;
    uint64_t       count;             /* of samples */
    uint64_t       file_count;        /* files that were seen, of samples or not */
    uint32_t       last_field;        /* of the member added last: the next one mostly has the field after it */
    bzi_field      fields[BZI_LIMIT_FIELDS + 1];            /* c->field_count of them; the last is for the key */
    bzi_tar_walk   walk;              /* over the tar's headers */
} bzi_tar_build;

/* Adds a file to the last sample if it has the same key, else to a new one. Skips files of no sample. The last
 * extension of a new field's name tells its kind. */
static bzna_status bzi_tar_add(bzi_tar_build *b, const bzi_tar_file *file, bzna_error *err)
{
    bzi_container *c = b->c;
    const bzi_memory *memory = &c->host->memory;
    const uint64_t key_size = bzi_tar_key_size(file->name);
    bzi_tar_member member = { file->offset, (uint32_t)file->size, (uint16_t)(file->size >> 32), 0 };
    const uint32_t first = (uint32_t)b->member_count;
    char name[BZNA_NAME_MAX] = "";
    uint32_t k;
    int is_new;

    b->file_count++;
    if (key_size == 0 || file->name.size - key_size > BZNA_NAME_MAX)
        return BZNA_OK;
    if (b->member_count == UINT32_MAX || file->size >> 48)
        return BZI_FAIL_AT(err, BZNA_E_LIMIT, file->offset, "a tar has at most 2^32 - 1 members, of 2^48 bytes");

    for (uint64_t i = key_size + 1; i < file->name.size; i++)
        name[i - key_size - 1] = bzi_lower((char)file->name.data[i]);
    for (k = 0; k < c->field_count; k++) {
        b->last_field = (b->last_field + 1) % c->field_count;
        if (!strcmp(b->fields[b->last_field].name, name))
            break;
    }
    if (k == c->field_count) {
        const char *const dot = strrchr(name, '.'), *const extension = dot ? dot + 1 : name;
        const uint32_t kind =
            bzi_word_is_in(extension, " cls cls2 index inx id ") ? BZNA_FIELD_INTEGER :
            bzi_word_is_in(extension, " txt text transcript name ") ? BZNA_FIELD_TEXT :     /* "name" always is text */
            bzi_word_is_in(extension, " jpg jpeg jpe jfif png webp ") || bzi_own_has_extension(c->host, extension) ?
                BZNA_FIELD_IMAGE : BZNA_FIELD_BYTES;

        if (k == BZI_LIMIT_FIELDS) {
            bzi_text_printable(name);
            return BZI_FAIL_AT(err, BZNA_E_LIMIT, file->offset - BZI_TAR_BLOCK,
                               "the member has the field \"%s\", which is one too many: the field is what follows the "
                               "first dot of a name, and a tar has at most %u fields", name, BZI_LIMIT_FIELDS);
        }
        b->last_field = k;
        bzi_container_add_field(c, b->fields, kind, 1, name);
    }

    member.field = (uint16_t)b->last_field;
    is_new = key_size != b->key_size || memcmp(file->name.data, b->key, (size_t)key_size);
    if (!bzi_buffer_push(memory, &b->members, &b->member_count, &member, sizeof member) ||
        (is_new && !bzi_buffer_push(memory, &b->begins, &b->count, &first, sizeof first)))
        return bzi_fail_memory(err, "the index of a tar");

    memcpy(b->key, file->name.data, (size_t)key_size);
    b->key_size = key_size;
    return BZNA_OK;
}



static bzna_status bzi_tar_fail_index(const bzi_tar_build *b, const char *why, bzna_error *err)
{
    return BZI_FAIL(err, BZNA_E_BOX, "%s does not fit it (sample %llu: %s): leave that out, or write it again (bzna "
                    "index)", b->config->index ? "dataset_config.index" : "the .idx file next to it",
                    (bzi_llu)b->count, why);
}

/* Parses an index as wds2idx of NVIDIA DALI writes it: v1.2 and the number of samples; then, in a line a sample, field,
 * offset, size and name of each member. Returns BZI_DECLINED if the file next to the tar is no such index, or has no
 * members. Compares the last member with its header; the others are compared when they are used. */
static bzna_status bzi_tar_parse_index(bzi_tar_build *b, bzi_span text, bzna_error *err)
{
    const uint64_t file_size = b->c->source.size;
    const bzi_span version = bzi_text_word(&text), number = bzi_text_word(&text);
    bzi_tar_file file = { 0 };
    const uint8_t *header = NULL;
    uint64_t count, end = 0;

    if (!bzi_span_is(version, "v1.2") || !bzi_span_integer(number, &count)) {
        if (b->config->index)
            return bzi_tar_fail_index(b, "it does not begin with \"v1.2\" and a number of samples", err);
        bzi_log(b->c->host, BZNA_LOG_WARNING, BZNA_OK,
                "%s: the .idx file beside it is ignored: it is not an index v1.2", b->c->name);
        return BZI_DECLINED;
    }

    while (bzi_text_word(&text).size) {
        const bzi_span at = bzi_text_word(&text), bytes = bzi_text_word(&text);

        file.name = bzi_text_word(&text);
        if (!bzi_span_integer(at, &file.offset) || !bzi_span_integer(bytes, &file.size) || !file.name.size ||
            file.name.size > BZI_LIMIT_PATH_BYTES || file.offset % BZI_TAR_BLOCK ||
            file.offset < end + BZI_TAR_BLOCK || file.offset > file_size || file.size > file_size - file.offset)
            return bzi_tar_fail_index(b, "not the field, offset, size and name of a member that can be there", err);
        if (bzi_tar_add(b, &file, err) != BZNA_OK)
            return err->status;
        end = bzi_tar_round(file.offset + file.size);
    }

    if (text.size || b->count != count)
        return bzi_tar_fail_index(b, "it is not text, or has more or fewer samples than it says", err);
    if (!b->file_count)
        return BZI_DECLINED;
    if (bzi_window_view(&b->walk.window, file.offset - BZI_TAR_BLOCK, BZI_TAR_BLOCK, &header, err) != BZNA_OK)
        return err->status;
    if (!bzi_tar_matches(header, file.size))
        return bzi_tar_fail_index(b, "the tar has something else there", err);
    b->walk.at = end;
    return end > file_size ? bzi_tar_next(&b->walk, err) : BZNA_OK;     /* says that padding is missing */
}

/* Reads SHARD.idx next to SHARD.tar. Returns 0 if it cannot be read, or is older than the tar. */
static int bzi_tar_load_index(const bzi_container *c, bzi_buffer *bytes, bzi_span *text)
{
    const size_t length = c->source.path ? strlen(c->source.path) : 0;
    char path[BZI_LIMIT_PATH_BYTES];
    bzi_source file = { 0 };
    bzna_error ignored;
    int is_read;

    if (length < 5 || length >= sizeof path || strcmp(c->source.path + length - 4, ".tar"))
        return 0;
    snprintf(path, sizeof path, "%.*s.idx", (int)length - 4, c->source.path);
    if (bzi_source_open_file(&file, path, &ignored) != BZNA_OK)
        return 0;
    is_read = file.file.modified_ns >= c->source.file.modified_ns &&
              bzi_buffer_reserve(&c->host->memory, bytes, file.size, 0) &&
              bzi_source_read(&file, 0, bytes->data, file.size, &ignored) == BZNA_OK;
    *text = (bzi_span){ bytes->data, file.size };
    bzi_source_close(&file);
    return is_read;
}

/* Moves what was built to memory of the right size, adds the field "name" and finds the targets. */
static bzna_status bzi_tar_finish(bzi_tar_build *b, bzna_error *err)
{
    const uint32_t member_count = (uint32_t)b->member_count;
    bzi_container *c = b->c;
    bzi_tar *tar = c->own;

    if (b->count == 0)
        return BZI_FAIL(err, BZNA_E_NO_SAMPLES, "the tar has no files that are named KEY.FIELD, with a FIELD of at "
                        "most %d bytes", BZNA_NAME_MAX - 1);
    if (c->field_count == 1 && bzi_word_is_in(b->fields[0].name, " tar tar.gz tgz zip "))
        return BZI_FAIL(err, BZNA_E_FORMAT, "its %llu files are archives themselves (KEY.%s): unpack it, then unpack "
                        "each into a folder of its name, or open them (*.tar)", (bzi_llu)b->count,
                        b->fields[0].name);

    c->target_field = bzi_container_find_field(c, "cls");
    tar->key_field = bzi_container_find_field(c, "name") == BZI_NO_FIELD ? c->field_count : BZI_NO_FIELD;
    if (tar->key_field != BZI_NO_FIELD)
        bzi_container_add_field(c, b->fields, BZNA_FIELD_TEXT, 0, "name");
    c->count = b->count;

    tar->members = bzi_arena_copy(&c->arena, b->members.data, b->member_count, sizeof *tar->members);
    c->fields = bzi_arena_copy(&c->arena, b->fields, c->field_count, sizeof *c->fields);
    if (bzi_buffer_push(&c->host->memory, &b->begins, &b->count, &member_count, sizeof member_count))
        tar->begins = bzi_arena_copy(&c->arena, b->begins.data, b->count, sizeof *tar->begins);
    if (!tar->members || !c->fields || !tar->begins)
        return bzi_fail_memory(err, "the index of a tar");

    for (uint64_t i = 0; i < b->member_count; i++)
        c->target_count += tar->members[i].field == c->target_field;
    /* a sample may have the field twice, which fails when the sample is used */
    c->target_count = bzi_min(c->target_count, c->count);
    return BZNA_OK;
}

#define BZI_TAR_EMPTY (1u << 20)      /* bytes of zeros that are a tar without files, at most; writers have 10 kB */

/* Takes the caller's index, or the one next to the tar, or walks over all headers. If a writer had no samples left, its
 * tar has no files: zeros alone, or folders and links. */
static bzna_status bzi_tar_open(bzi_container *c, const bzna_dataset_config *config, bzna_error *err)
{
    const bzi_memory *memory = &c->host->memory;
    bzi_tar_build b = { .c = c, .config = config };
    bzi_span text = { config->index, config->index_bytes };
    bzi_buffer bytes = { 0 };
    bzna_status status = BZI_DECLINED;

    bzi_tar_walk_begin(&b.walk, &c->source, memory, 0);
    if (config->index || bzi_tar_load_index(c, &bytes, &text))
        status = bzi_tar_parse_index(&b, text, err);
    ((bzi_tar *)c->own)->from_index = status == BZNA_OK;
    if (status == BZI_DECLINED)
        while ((status = bzi_tar_next(&b.walk, err)) == BZNA_OK &&
               (!b.walk.is_file || (status = bzi_tar_add(&b, &b.walk.file, err)) == BZNA_OK))
            continue;

    if (status == BZNA_OK || status == BZNA_END) {
        if (b.file_count)
            status = bzi_tar_finish(&b, err);
        else if (b.walk.at == 0 && c->source.size > BZI_TAR_EMPTY)
            status = BZI_DECLINED;                          /* records, or a file that was never written */
        else {
            BZI_FAIL(err, BZNA_E_NO_SAMPLES, "the tar is empty");
            status = BZNA_END;
        }
    }

    bzi_tar_walk_end(&b.walk);
    bzi_buffer_free(memory, &bytes);
    bzi_buffer_free(memory, &b.members);
    bzi_buffer_free(memory, &b.begins);
    return status;
}


/* ==== 37. Containers: tar, samples ==================================================================================
 * Calls: rooms 2, 9, 13, 25-26, 32, 35-36. */

/* Returns where the headers of a sample's first member begin: at the end of the sample before it. */
static uint64_t bzi_tar_begin(const bzi_tar *tar, uint64_t index)
{
    const uint32_t first = tar->begins[index];
    return first ? bzi_tar_round(bzi_tar_member_end(&tar->members[first - 1])) : 0;
}

/* A sample's extent reaches from the headers of its first member, which may hold the key, to the end of its last. After
 * something long between samples it begins at the member's own header, and bzi_tar_key reads the file. */
static bzna_status bzi_tar_locate(const bzi_container *c, uint64_t index, bzi_extent *extent, bzna_error *err)
{
    const bzi_tar *tar = c->own;
    const bzi_tar_member *end, *const first = bzi_tar_members(tar, index, &end);
    const uint64_t begin = bzi_tar_begin(tar, index);
    (void)err;

    extent->offset = first->offset - begin > BZI_WINDOW_READ ? first->offset - BZI_TAR_BLOCK : begin;
    extent->size = bzi_tar_member_end(end - 1) - extent->offset;
    return BZNA_OK;
}

/* Reads the key from the headers of the sample's first member, in the sample's bytes if these include them. */
static bzna_status bzi_tar_key(const bzi_container *c, const bzi_sample *sample, bzi_value *value, bzna_error *err)
{
    const bzi_tar *tar = c->own;
    const uint64_t offset = tar->members[tar->begins[sample->index]].offset, begin = bzi_tar_begin(tar, sample->index);
    const int is_read = sample->bytes && sample->extent.offset == begin;
    const bzi_source bytes = { .held = sample->bytes, .size = sample->extent.size };
    const uint64_t base = is_read ? begin : 0;              /* from which offsets in the walk count */
    bzi_tar_walk walk;
    bzna_status status = BZNA_OK;

    bzi_tar_walk_begin(&walk, is_read ? &bytes : &c->source, &c->host->memory, begin - base);
    while (status == BZNA_OK && base + walk.file.offset < offset)
        status = bzi_tar_next(&walk, err);
    if (status == BZNA_OK ? base + walk.file.offset != offset : is_read || status == BZNA_END)
        status = BZI_FAIL_AT(err, BZNA_E_BOX, offset, "no member of the tar is at this byte");

    if (status == BZNA_OK)
        bzi_value_put(value, walk.name, bzi_tar_key_size(walk.file.name));
    bzi_tar_walk_end(&walk);
    return status;
}

/* Finds the bytes of a field of a sample that was read, and their offset in the file. bytes->data is NULL if there is
 * none. If the place is from an index, the header is checked. */
static bzna_status bzi_tar_bytes(const bzi_container *c, const bzi_sample *sample, uint32_t number, bzi_span *bytes,
                                 uint64_t *offset, bzna_error *err)
{
    const bzi_tar *tar = c->own;
    const bzi_tar_member *end;

    *bytes = (bzi_span){ NULL, 0 };
    *offset = 0;
    for (const bzi_tar_member *m = bzi_tar_members(tar, sample->index, &end); m < end; m++) {
        const uint8_t *data = sample->bytes + (m->offset - sample->extent.offset), *header = data - BZI_TAR_BLOCK;

        if (m->field != number)
            continue;
        if (bytes->data)
            return BZI_FAIL_AT(err, BZNA_E_BOX, m->offset - BZI_TAR_BLOCK,
                               "it has the field \"%s\" twice, the first time at byte %llu", c->fields[number].name,
                               (bzi_llu)*offset - BZI_TAR_BLOCK);
        *offset = m->offset;
        *bytes = (bzi_span){ data, bzi_tar_member_size(m) };
        if (tar->from_index && !bzi_tar_matches(header, bytes->size))
            return BZI_FAIL_AT(err, BZNA_E_BOX, m->offset - BZI_TAR_BLOCK,
                               "the header does not match the .idx file: remove that, or write it again: bzna index");
    }
    return BZNA_OK;
}

static bzna_status bzi_tar_field(const bzi_container *c, const bzi_sample *sample, uint32_t number, bzi_value *value,
                                 bzna_error *err)
{
    bzi_span bytes;
    uint64_t offset;
    int64_t integer;
    char text[24];

    if (number == ((const bzi_tar *)c->own)->key_field)
        return bzi_tar_key(c, sample, value, err);
    if (bzi_tar_bytes(c, sample, number, &bytes, &offset, err) != BZNA_OK)
        return err->status;

    value->absent = !bytes.data;
    if (c->fields[number].kind != BZNA_FIELD_INTEGER || value->absent)
        bzi_value_put(value, bytes.data, bytes.size);
    else if (bzi_span_signed(bytes, &integer))
        bzi_value_put(value, &integer, sizeof integer);
    else {
        bzi_text_show(text, sizeof text, bytes.data, bytes.size);
        return BZI_FAIL_AT(err, BZNA_E_BOX, offset, "its %s is not an integer: \"%s\"", c->fields[number].name, text);
    }
    return BZNA_OK;
}

static bzna_status bzi_tar_images(const bzi_container *c, const bzi_sample *sample, bzna_sample_ref *out,
                                  bzna_error *err)
{
    const bzi_tar_member *end, *m = bzi_tar_members(c->own, sample->index, &end);
    (void)err;

    for (; m < end; m++)
        if (c->fields[m->field].kind == BZNA_FIELD_IMAGE)
            bzi_sample_ref_add(out, c->fields[m->field].name);
    return BZNA_OK;
}

/* Opens the field that `pick` names; without a name, or with "image", the sample's first picture. */
static bzna_status bzi_tar_image(const bzi_container *c, const bzi_sample *sample, const bzi_pick *pick,
                                 bzi_image *image, bzna_error *err)
{
    const char *const name = pick->name && strcmp(pick->name, "image") ? pick->name : NULL;
    const bzi_tar_member *end, *m = bzi_tar_members(c->own, sample->index, &end);
    uint64_t offset;
    bzi_span bytes;

    while (m < end && (name ? strcmp(c->fields[m->field].name, name) : c->fields[m->field].kind != BZNA_FIELD_IMAGE))
        m++;
    if (m == end)
        return bzi_container_fail_image(name, err);
    if (bzi_tar_bytes(c, sample, m->field, &bytes, &offset, err) != BZNA_OK)
        return err->status;
    return bzi_file_image(c->host, bytes, offset, image, err);
}

/* Tells files apart by their sizes and the places of the first 64 and the last 64 samples or so. */
static uint64_t bzi_tar_fingerprint(const bzi_container *c, uint64_t hash)
{
    const bzi_tar *tar = c->own;
    uint64_t words[2];

    hash = bzi_container_hash(c, hash);
    for (uint64_t i = 0; i < c->count; i += i == 63 && c->count > 128 ? c->count - 127 : 1) {
        words[0] = tar->members[tar->begins[i]].offset;
        words[1] = bzi_tar_member_end(&tar->members[tar->begins[i + 1] - 1]);
        hash = bzi_hash(hash, words, sizeof words);
    }
    return hash;
}

static const bzi_container_ops bzi_tar_row = {
    .name = "tar",
    .own_bytes = sizeof(bzi_tar),
    .still = 1,
    .probe = bzi_tar_probe,
    .settings = " index orientation palette ",
    .open = bzi_tar_open,
    .locate = bzi_tar_locate,
    .field = bzi_tar_field,
    .images = bzi_tar_images,
    .image = bzi_tar_image,
    .fingerprint = bzi_tar_fingerprint
};

#endif


#ifndef BENZINA_NO_PROVIDERS
/* ==== 38. Containers: providers ====================================================================================
 * Calls: rooms 2, 4, 7-9, 11-13, 21, 25-26.
 *
 * Samples that the caller's functions give, field by field. A field is read by `read`, or is where `locate` says, in a
 * file or in memory. A sample's bytes are its pictures:
 *
 *   one picture, which is located   its bytes, where they are
 *   one picture, which is read      its bytes, fetched
 *   several pictures                fetched: their bytes in the order of the fields, as bzi_sample_part finds them
 *   no picture                      none
 *   a record, with `unpack`         its bytes, where they are, or fetched
 *
 * Only records include the other fields. Nothing that the functions say is trusted. If a context may keep all files
 * open, they are opened with the data set; else each is opened when it is read. */

typedef struct bzi_provider {
    bzna_provider c;                  /* the caller's, with copies of its arrays */
    /* as the caller describes the fields, but for the names; then the record */
    bzna_provider_field given[BZI_LIMIT_FIELDS + 1];
    bzi_field   fields[BZI_LIMIT_FIELDS + 1];
    uint8_t     layouts[BZI_LIMIT_FIELDS][2];         /* of raw pictures, as bzna_image.config has it */
    uint64_t    sizes[BZI_LIMIT_FIELDS + 1];          /* bytes that a value must have; 0: any */
    uint64_t    record_bytes;         /* of a record, at least: raw pictures end there */
    uint32_t    pictures;             /* how many fields are pictures */
    uint32_t    whole;                /* field with all of a sample's bytes: the record, or the only picture */
    const char *here;                 /* the working folder at opening; "": it is not known */
    bzi_source *files;                /* NULL: each is opened when it is read */
    uint64_t    limit;                /* of a value's bytes */
} bzi_provider;

/* --- Opening --- */

/* Pre: own->sizes has the field's size, and the fields before it were added. */
static bzna_status bzi_provider_check_field(const bzi_container *c, const bzi_provider *own, uint32_t number,
                                            bzna_error *err)
{
    const bzna_provider_field *f = &own->given[number];
    const bzna_provider *p = &own->c;
    const uint64_t bytes = own->sizes[number];
    const uint32_t edge = c->host->max_edge_px, is_picture = f->kind == BZNA_FIELD_IMAGE;
    const uint32_t is_raw = is_picture && f->codec == BZNA_CODEC_RAW;
    const char *const name = f->name ? f->name : "";
    const struct { int is_wrong; const char *member, *why; } rules[] = {
        { p->unpack && f->located, "located", "provider.unpack gives it" },
        { !p->unpack && (f->located ? !p->locate && !p->places : !p->read), "located",
          f->located ? "provider.locate and provider.places are NULL" : "it is 0, and provider.read is NULL" },
        { !name[0] || strlen(name) >= BZNA_NAME_MAX || strpbrk(name, ",:") || !bzi_text_is_utf8(name), "name",
          "it must have 1 to 31 bytes of UTF-8, without comma and colon" },
        { !is_raw && f->codec > (is_picture ? BZNA_CODEC_AV1 : 0), "codec", is_picture ?
          "it must be UNKNOWN (a file, told apart by its content), H264, H265, AV1 or RAW" :
          "it describes pictures only" },
        { !is_raw && (f->width || f->height || f->channels || f->layout || f->offset),
          "width, height, channels, layout, offset", "they describe RAW pixels only" },
        { is_raw && f->channels != 1 && f->channels != 3, "channels", "RAW pixels have 1 or 3" },
        { is_raw && (!f->width || f->width > edge || !f->height || f->height > edge),
          f->width && f->width <= edge ? "height" : "width", "of RAW pixels, it must be 1 to max_edge_px" },
        { is_raw && bytes > own->limit, "width, height", "the pixels have more bytes than max_bytes" },
        { f->offset > (p->unpack ? own->limit - bzi_min(bytes, own->limit) : 0), "offset", p->unpack ?
          "no record of max_bytes has the pixels there" : "it has an effect with provider.unpack only" },
    };
    char where[32];

    snprintf(where, sizeof where, "provider.fields[%u]", number);
    if (bzi_settings_check(BZI_OF_provider_field, f, where, err) != BZNA_OK)
        return err->status;
    for (size_t i = 0; i < BZI_LENGTH(rules); i++)
        if (rules[i].is_wrong)
            return BZI_MISUSE(err, "%s.%s: %s", where, rules[i].member, rules[i].why);
    for (uint32_t i = 0; i < number; i++)
        if (!strcmp(own->fields[i].name, name))
            return BZI_MISUSE(err, "%s.name: \"%s\" is the name of another field", where, name);
    return BZNA_OK;
}

/* Checks a field and adds it. "target" is the target. */
static bzna_status bzi_provider_add_field(bzi_container *c, bzi_provider *own, uint32_t number, bzna_error *err)
{
    bzna_provider_field *f = &own->given[number];
    const int is_picture = f->kind == BZNA_FIELD_IMAGE, is_raw = is_picture && f->codec == BZNA_CODEC_RAW;

    own->sizes[number] = is_raw ? (uint64_t)f->width * f->height * f->channels :
                                  f->kind == BZNA_FIELD_INTEGER ? sizeof(int64_t) : 0;
    if (bzi_provider_check_field(c, own, number, err) != BZNA_OK)
        return err->status;
    bzi_container_add_field(c, own->fields, f->kind, own->c.unpack || is_picture, f->name);
    f->name = own->fields[number].name;

    if (f->kind == BZNA_FIELD_INTEGER && !strcmp(f->name, "target")) {
        c->target_field = number;
        c->target_count = c->count;
    }
    if (!is_picture)
        return BZNA_OK;
    own->layouts[number][0] = (uint8_t)f->channels;
    own->layouts[number][1] = (uint8_t)f->layout;
    if (is_raw && own->c.unpack)
        own->record_bytes = bzi_max(own->record_bytes, f->offset + own->sizes[number]);
    if (f->codec != BZNA_CODEC_UNKNOWN && !is_raw) {
        c->still = 0;                                       /* NVDEC may decode it */
        c->settings = "";
    }
    c->codec = !own->pictures || c->codec == f->codec ? f->codec : BZNA_CODEC_UNKNOWN;
    own->pictures++;
    return BZNA_OK;
}

/* Replaces an array of the caller's texts by a copy. what: its name. */
static bzna_status bzi_provider_copy(bzi_container *c, const char *const **texts, uint64_t count, const char *what,
                                     bzna_error *err)
{
    const char **copy;

    if (count > SIZE_MAX / sizeof *copy)
        return BZI_FAIL(err, BZNA_E_LIMIT, "provider.%s: no array has %llu texts", what, (bzi_llu)count);
    for (uint64_t i = 0; i < count; i++)
        if (!(*texts)[i])
            return BZI_MISUSE(err, "provider.%s[%llu]: is NULL", what, (bzi_llu)i);
    if (!BZI_ARENA_ZERO(&c->arena, copy, count))
        return bzi_fail_memory(err, "the texts of a provider");
    for (uint64_t i = 0; i < count; i++)
        if (!(copy[i] = bzi_arena_text(&c->arena, (*texts)[i])))
            return bzi_fail_memory(err, "the texts of a provider");
    *texts = copy;
    return BZNA_OK;
}

static bzna_status bzi_provider_path(const bzi_container *c, uint64_t file, char *path, uint64_t capacity,
                                     bzna_error *err)
{
    const bzi_provider *own = c->own;
    const char *const name = own->c.files[file], *const here = bzi_os_is_absolute(name) ? "" : own->here;

    if (snprintf(path, capacity, "%s%s%s", here, *here ? "/" : "", name) >= (int)capacity)
        return bzi_file_fail_open(ENAMETOOLONG, err);
    return BZNA_OK;
}

/* Keeps the paths of the files, and opens these if all of them may stay open. */
static bzna_status bzi_provider_open_files(bzi_container *c, bzi_provider *own, bzna_error *err)
{
    const uint64_t count = own->c.file_count;
    char here[BZI_LIMIT_PATH_BYTES];

    if (!count)
        return BZNA_OK;
    if (bzi_provider_copy(c, &own->c.files, count, "files", err) != BZNA_OK)
        return err->status;
    if (!bzi_path_absolute(here, sizeof here, ""))
        return bzi_file_fail_open(ENAMETOOLONG, err);
    if (!(own->here = bzi_arena_text(&c->arena, here)))
        return bzi_fail_memory(err, "the texts of a provider");
    if (count > c->host->file_limit || count >= own->c.count)
        return BZNA_OK;

    if (!BZI_ARENA_ZERO(&c->arena, own->files, count))
        return bzi_fail_memory(err, "the files of a provider");
    for (uint64_t i = 0; i < count; i++) {
        if (bzi_source_open_path(&own->files[i], c->host, own->c.files[i], err) != BZNA_OK)
            return bzi_error_prefix(err, own->c.files[i]);
        bzi_source_close_surplus(&own->files[i]);
    }
    return BZNA_OK;
}

/* Opens a provider, which belongs to the caller until all has succeeded. */
static bzna_status bzi_provider_open(bzi_container *c, const bzna_dataset_config *config, bzna_error *err)
{
    const bzna_provider_field *picture;
    bzi_provider *own = c->own;
    bzna_provider *p = &own->c;
    (void)config;

    *p = *(const bzna_provider *)c->given;
    if (!p->count)
        return BZI_FAIL(err, BZNA_E_NO_SAMPLES, "provider.count: is 0");
    if (p->count > (uint64_t)1 << 63)
        return BZI_FAIL(err, BZNA_E_LIMIT, "provider.count: %llu are more than 2^63 samples", (bzi_llu)p->count);
    if (p->places && p->locate)
        return BZI_MISUSE(err, "provider.places: has no effect together with locate");
    if (!p->fields || !p->field_count || p->field_count > BZI_LIMIT_FIELDS)
        return BZI_MISUSE(err, "provider.fields: 1 to %u fields are needed", BZI_LIMIT_FIELDS);
    if (p->unpack && !p->locate && !p->places && !p->read)
        return BZI_MISUSE(err, "provider.unpack: is set, but neither locate, places nor read gives the records");
    if (p->kind && (strlen(p->kind) >= sizeof c->info.container || !bzi_text_is_utf8(p->kind)))
        return BZI_MISUSE(err, "provider.kind: it must be UTF-8 of fewer than %d bytes",
                          (int)sizeof c->info.container);

    c->count = p->count;
    c->size_bytes = p->size_bytes;
    c->class_count = p->class_count;
    own->limit = c->max_bytes = p->max_bytes ? bzi_min(c->max_bytes, p->max_bytes) : c->max_bytes;
    memcpy(own->given, p->fields, p->field_count * sizeof *own->given);
    p->fields = own->given;
    own->given[p->field_count].located = p->locate || p->places;
    own->fields[p->field_count] = (bzi_field){ BZNA_FIELD_BYTES, 0, "record" };
    for (uint32_t i = 0; i < p->field_count; i++)
        if (bzi_provider_add_field(c, own, i, err) != BZNA_OK)
            return err->status;
    own->whole = p->unpack ? p->field_count : own->pictures == 1 ? bzi_container_find_picture(c, NULL) : BZI_NO_FIELD;
    if (bzi_provider_copy(c, &p->classes, p->class_count, "classes", err) != BZNA_OK ||
        bzi_provider_open_files(c, own, err) != BZNA_OK)
        return err->status;

    c->class_names = p->classes;
    picture = &own->given[own->pictures ? bzi_container_find_picture(c, NULL) : 0];
    c->records_held = p->unpack && !p->file_count && own->given[own->whole].located;
    if (own->pictures == 1 && picture->codec == BZNA_CODEC_RAW && picture->offset < 1 << 15)
        c->alike = picture->offset << 49 | (uint64_t)picture->width << 32 | picture->height << 8 |
                   picture->channels << 4 | picture->layout;
    if (p->kind)
        bzi_string_copy(c->info.container, sizeof c->info.container, p->kind);
    return BZNA_OK;
}

static void bzi_provider_close(bzi_container *c)
{
    bzi_provider *own = c->own;

    for (uint64_t i = 0; own->files && i < own->c.file_count; i++)
        bzi_source_close(&own->files[i]);           /* some may not be open, after a failure */
    if (!c->given && own->c.close)                  /* opening has succeeded */
        BZI_CALLBACK(own->c.close(own->c.user));
}

/* --- Asking --- */

/* Checks the size that a value has, by the caller's word. */
static bzna_status bzi_provider_check_size(const bzi_provider *own, uint32_t number, uint64_t size, bzna_error *err)
{
    const uint32_t kind = own->fields[number].kind;
    const uint64_t exact = own->sizes[number];
    const uint64_t least = exact ? exact : number == own->whole ? bzi_max(own->record_bytes, 1) :
                                           kind == BZNA_FIELD_IMAGE && !own->c.unpack;
    const uint64_t most = exact ? exact : own->limit;
    const int is_large = size > own->limit, by_user = own->c.max_bytes == own->limit;

    if (size >= least && size <= most && size % bzi_number_bytes(kind) == 0)
        return BZNA_OK;
    if (size >= BZNA_SIZE_UNKNOWN)
        return BZI_FAIL(err, BZNA_E_CALLBACK, "the provider did not say how many bytes \"%s\" has",
                        own->fields[number].name);
    return BZI_FAIL(err, is_large && !by_user ? BZNA_E_LIMIT : BZNA_E_CALLBACK,
                    "\"%s\" has %llu bytes instead of %llu%s",
                    own->fields[number].name, (bzi_llu)size, (bzi_llu)(size < least ? least : most),
                    exact ? "" : size < least ? " at least" : !is_large ? " at most, in whole numbers of float32" :
                    by_user ? " at most, provider.max_bytes" : " at most, context_config.max_sample_bytes");
}

enum { BZI_BY_LOCATE, BZI_BY_READ, BZI_BY_UNPACK };

/* Calls one of the caller's functions for a value, and judges what it returned: E_IO may be tried again, E_NOT_FOUND
 * says that the sample has no such value, and a status that no sample has is E_CALLBACK. A value that is read or
 * unpacked is written to value->data if it fits, unless place->data says where it is. */
static bzna_status bzi_provider_call(const bzi_provider *own, int function, const bzi_sample *sample, uint32_t number,
                                     const bzi_value *value, bzna_place *place, bzna_error *err)
{
    static const char *const names[] = { "locate", "read", "unpack" };
    const bzna_provider *p = &own->c;
    char otherwise[160];
    bzna_status status;

    *place = (bzna_place){ .size = BZI_ABSENT };
    bzi_error_init(err);
    bzi_os_callback_begin();
    if (function == BZI_BY_LOCATE)
        status = p->locate(p->user, sample->index, number, place, err);
    else if (function == BZI_BY_READ)
        status = p->read(p->user, sample->index, number, value->data, value->capacity, &place->size, err);
    else
        status = p->unpack(p->user, sample->index, number, (void *)(uintptr_t)sample->bytes, sample->extent.size,
                           value->data, value->capacity, place, err);
    bzi_os_callback_end();

    if (function == BZI_BY_READ && status == BZNA_E_BUFFER && place->size != BZI_ABSENT &&
        place->size > value->capacity)
        status = BZNA_OK;                                   /* it said how many bytes it needs */
    if (status == BZNA_OK)
        return function == BZI_BY_LOCATE ? BZNA_OK : bzi_provider_check_size(own, number, place->size, err);
    snprintf(otherwise, sizeof otherwise, "the provider's %s returned %d (%s) for \"%s\"", names[function], status,
             bzi_status_text(status), own->fields[number].name);
    return bzi_fail_said(err, status == BZNA_E_IO || status == BZNA_E_NOT_FOUND || bzi_is_of_sample(status) ?
                                  status : BZNA_E_CALLBACK, status, BZNA_NO_OFFSET, otherwise);
}

/* Finds where a value is, and checks all but whether its file has it. A value of unknown size has the one of its field,
 * or ends with its file. Returns BZI_FETCH for a record that `read` gives. */
static bzna_status bzi_provider_locate_field(const bzi_container *c, uint64_t index, uint32_t number,
                                             bzi_extent *extent, bzna_error *err)
{
    const bzi_provider *own = c->own;
    const char *const name = own->fields[number].name;
    bzna_place place;

    if (own->c.places) {
        place = own->c.places[own->c.unpack ? index : index * own->c.field_count + number];
        if (place.size == BZNA_NO_VALUE)
            return BZI_FAIL(err, BZNA_E_NOT_FOUND, "it has no \"%s\"", name);
    } else if (bzi_provider_call(own, BZI_BY_LOCATE, &(bzi_sample){ .index = index }, number, NULL, &place, err) !=
               BZNA_OK)
        return err->status;

    if (place.size == BZNA_SIZE_UNKNOWN && !place.data && own->sizes[number])
        place.size = own->sizes[number];
    if (own->c.unpack && own->c.read && !place.data && place.file == BZNA_BY_READ) {
        *extent = (bzi_extent){ .offset = place.offset };
        return BZI_FETCH;
    }
    *extent = (bzi_extent){ .size = place.size, .data = place.data };
    if ((place.size != BZNA_SIZE_UNKNOWN || place.data || own->record_bytes) &&
        bzi_provider_check_size(own, number, place.size, err) != BZNA_OK)
        return err->status;
    if (place.data)
        return BZNA_OK;

    if (place.file >= own->c.file_count || place.offset > INT64_MAX ||
        (place.size != BZI_TO_END && place.size > INT64_MAX - place.offset))
        return BZI_FAIL(err, BZNA_E_CALLBACK, "\"%s\" is at a place that no file can have: %llu bytes at byte %llu of "
                        "file %llu of %llu", name, (bzi_llu)place.size, (bzi_llu)place.offset, (bzi_llu)place.file,
                        (bzi_llu)own->c.file_count);
    extent->offset = place.offset;
    extent->file = own->files ? 0 : place.file + 1;
    extent->source = own->files ? &own->files[place.file] : NULL;
    return BZNA_OK;
}

/* Gets a value: its size always, and its bytes if they fit. The size of a picture in a file is judged by whoever reads
 * the picture. */
static bzna_status bzi_provider_get(const bzi_container *c, uint64_t index, uint32_t number, bzi_value *value,
                                    bzna_error *err)
{
    const bzi_provider *own = c->own;
    bzi_source opened = { 0 };
    bzna_place place;
    bzi_extent extent;
    bzna_status status = own->given[number].located ? bzi_provider_locate_field(c, index, number, &extent, err) :
                                                      BZI_FETCH;

    if (status == BZI_FETCH) {
        status = bzi_provider_call(own, BZI_BY_READ, &(bzi_sample){ .index = index }, number, value, &place, err);
        value->size = place.size;
        return status;
    }
    if (status != BZNA_OK)
        return status;
    if (extent.data) {
        bzi_value_put(value, extent.data, extent.size);
        return BZNA_OK;
    }

    status = extent.file ? bzi_extent_open(c, &extent, &opened, err) :
                           bzi_extent_fit(&extent, extent.source->size, err);
    if (status == BZNA_OK && own->fields[number].kind != BZNA_FIELD_IMAGE)
        status = bzi_provider_check_size(own, number, extent.size, err);
    if (status == BZNA_OK && extent.size <= value->capacity)
        status = bzi_source_read(extent.file ? &opened : extent.source, extent.offset, value->data, extent.size, err);
    value->size = extent.size;
    bzi_source_close(&opened);
    if (status == BZNA_OK)
        return BZNA_OK;
    bzi_error_prefix(err, own->fields[number].name);
    return bzi_extent_blame(c, &extent, err);
}

/* --- Samples --- */

/* The library reads a located picture or record, and fetches other samples. The first of several names the file. */
static bzna_status bzi_provider_locate(const bzi_container *c, uint64_t index, bzi_extent *extent, bzna_error *err)
{
    const bzi_provider *own = c->own;
    const uint32_t number = own->whole == BZI_NO_FIELD && extent->naming ? bzi_container_find_picture(c, NULL) :
                                                                          own->whole;

    if (number == BZI_NO_FIELD || !own->given[number].located)
        return BZI_FETCH;
    return bzi_provider_locate_field(c, index, number, extent, err);
}

/* Gets the bytes of a sample: of the one field that has them all, or else of every picture, one after the other, and
 * after those a table of their sizes, BZI_ABSENT for pictures that the sample does not have. */
static bzna_status bzi_provider_fetch(const bzi_container *c, uint64_t index, uint8_t *bytes, uint64_t capacity,
                                      uint64_t *size, bzna_error *err)
{
    const bzi_provider *own = c->own;
    const uint64_t table = own->pictures * sizeof(uint64_t);
    uint64_t sizes[BZI_LIMIT_FIELDS], at = 0;
    uint32_t pictures = 0;
    bzi_value one = { bytes, capacity, 0, 0 };
    bzna_status status;

    if (own->whole != BZI_NO_FIELD) {
        status = bzi_provider_get(c, index, own->whole, &one, err);
        *size = one.size;
        return status;
    }
    for (uint32_t i = 0; i < c->field_count; i++) {
        if (c->fields[i].kind != BZNA_FIELD_IMAGE)
            continue;
        one = (bzi_value){ at < capacity ? bytes + at : NULL, capacity - bzi_min(at, capacity), 0, 0 };
        status = bzi_provider_get(c, index, i, &one, err);
        if (status != BZNA_OK && status != BZNA_E_NOT_FOUND)
            return status;

        sizes[pictures++] = status == BZNA_OK ? one.size : BZI_ABSENT;
        at += status == BZNA_OK ? one.size : 0;
        if (at > own->limit)
            return BZI_FAIL(err, BZNA_E_LIMIT, "its pictures have more bytes together than one value may have, %llu",
                            (bzi_llu)own->limit);
    }

    *size = at + table;
    if (*size <= capacity)
        bzi_copy(bytes + at, sizes, table);
    return BZNA_OK;
}

static bzna_status bzi_provider_field_value(const bzi_container *c, const bzi_sample *sample, uint32_t number,
                                            bzi_value *value, bzna_error *err)
{
    const bzi_provider *own = c->own;
    bzna_place place;
    bzna_status status;

    if (own->c.unpack) {
        status = bzi_provider_call(own, BZI_BY_UNPACK, sample, number, value, &place, err);
        if (status == BZNA_OK && place.data)
            bzi_value_put(value, place.data, place.size);
        value->size = place.size;
    } else
        status = bzi_provider_get(c, sample->index, number, value, err);

    if (status != BZNA_E_NOT_FOUND)
        return status;
    value->absent = 1;
    value->size = 0;
    return BZNA_OK;
}

/* Describes a picture: by its codec if the caller said that, else as a file. */
static bzna_status bzi_provider_image(const bzi_container *c, const bzi_sample *sample, const bzi_pick *pick,
                                      bzi_image *image, bzna_error *err)
{
    const bzi_provider *own = c->own;
    const bzna_provider_field *f = &own->given[pick->number];
    bzi_span bytes = bzi_sample_span(sample);
    bzna_place place = { .offset = f->offset, .size = own->sizes[pick->number] };
    uint32_t before = 0;              /* pictures */
    uint64_t offset;
    bzna_status status;

    for (uint32_t i = 0; i < pick->number; i++)
        before += c->fields[i].kind == BZNA_FIELD_IMAGE;
    if (own->c.unpack) {
        if (f->codec != BZNA_CODEC_RAW &&
            bzi_provider_call(own, BZI_BY_UNPACK, sample, pick->number, &(bzi_value){ .size = 0 }, &place, err) !=
                BZNA_OK)
            return err->status;
        if (place.data || place.offset > bytes.size || place.size > bytes.size - place.offset)
            return BZI_FAIL(err, BZNA_E_CALLBACK, "\"%s\" is not inside the record of %llu bytes", f->name,
                            (bzi_llu)bytes.size);
        bytes = (bzi_span){ bytes.data + place.offset, place.size };
    } else if (own->pictures > 1 && !bzi_sample_part(sample, own->pictures, before, &bytes))
        return bzi_container_fail_image(f->name, err);

    offset = sample->extent.offset + (uint64_t)(bytes.data - sample->bytes);
    if (f->codec == BZNA_CODEC_UNKNOWN) {
        status = bzi_file_image(c->host, bytes, offset, image, err);
    } else {
        *image = bzi_image_of_bytes(f->codec, bytes, offset);
        if (f->codec == BZNA_CODEC_RAW)
            bzi_image_set_raw(image, f->width, f->height, own->layouts[pick->number]);
        status = bzi_image_complete(image, err);
    }
    return status == BZNA_OK || !before ? status : bzi_error_prefix(err, f->name);
}

/* Hashes the caller's fingerprint, and what the samples are. How values are got does not count. */
static uint64_t bzi_provider_fingerprint(const bzi_container *c, uint64_t hash)
{
    const bzi_provider *own = c->own;
    const uint64_t words[] = { own->c.fingerprint, c->count, c->field_count };

    hash = bzi_hash(hash, words, sizeof words);
    for (uint32_t i = 0; i < c->field_count; i++) {
        const bzna_provider_field *f = &own->given[i];
        const uint32_t what[] = { f->kind, f->codec, f->width, f->height, f->channels, f->layout };
        hash = bzi_hash(hash, f->name, strlen(f->name) + 1);
        hash = bzi_hash(hash, what, sizeof what);
    }
    return hash;
}

static const bzi_container_ops bzi_provider_ops = {
    .name = "provider",
    .settings = " orientation palette ",
    .own_bytes = sizeof(bzi_provider),
    .still = 1,
    .open = bzi_provider_open,
    .locate = bzi_provider_locate,
    .fetch = bzi_provider_fetch,
    .field = bzi_provider_field_value,
    .image = bzi_provider_image,
    .fingerprint = bzi_provider_fingerprint,
    .class_name = bzi_container_class_name,
    .path = bzi_provider_path,
    .close = bzi_provider_close
};

#endif


/* ==== 39. Paths =====================================================================================================
 * Calls: rooms 4, 8-9, 32-33.
 *
 * The files that a path stands for: itself, or the archives and shards in a folder of such. */

static bzna_status bzi_paths_add(bzi_names *paths, const char *path, bzna_error *err)
{
    if (paths->count == BZI_LIMIT_PARTS)
        return BZI_FAIL(err, BZNA_E_LIMIT, "more than %u files", BZI_LIMIT_PARTS);
    return bzi_names_add(paths, path, err);
}

#ifndef BENZINA_NO_FOLDERS
#define BZI_SHARD_EXTENSIONS " bzna tar rec "

/* Adds the archives and shards that a folder holds, in the order of their names; nothing if it holds none. */
static bzna_status bzi_paths_add_shards(bzi_names *paths, const char *folder, bzna_error *err)
{
    bzi_arena arena = { .memory = paths->arena->memory };
    bzi_walk walk = { .root = folder, .extensions = BZI_SHARD_EXTENSIONS, .files.arena = &arena };
    char path[BZI_LIMIT_PATH_BYTES];
    bzna_status status = bzi_walk_list(&walk, "", 0, err);

    bzi_paths_sort(&walk.files);
    if (status == BZNA_OK && walk.files.count && walk.folder_count > 1)
        status = BZI_FAIL(err, BZNA_E_FORMAT, "it holds folders as well as files of samples (\"%.64s\"): open those by "
                          "their paths, or set dataset_config.format to \"folder\"", *bzi_names_all(&walk.files));
    for (uint64_t i = 0; i < walk.files.count && status == BZNA_OK; i++)
        if ((status = bzi_path_join(path, sizeof path, folder, bzi_names_all(&walk.files)[i], err)) == BZNA_OK)
            status = bzi_paths_add(paths, path, err);
    bzi_walk_free(&walk);
    bzi_arena_free(&arena);
    return status;
}

#endif

/* Finds the files and folders that paths stand for. The format "folder" says that a folder holds pictures. The caller
 * frees `paths`, even on failure. */
static bzna_status bzi_paths_resolve(bzi_names *paths, const char *const *given, uint32_t count,
                                     const bzna_dataset_config *config, bzna_error *err)
{
    (void)config;
    for (uint32_t i = 0; i < count; i++) {
#ifndef BENZINA_NO_FOLDERS
        const uint64_t before = paths->count;
        if ((!config->format || strcmp(config->format, "folder")) && bzi_os_kind(given[i]) == BZI_OS_FOLDER &&
            bzi_paths_add_shards(paths, given[i], err) != BZNA_OK)
            return bzi_error_prefix(err, given[i]);
        if (paths->count > before)
            continue;
#endif
        if (bzi_paths_add(paths, given[i], err) != BZNA_OK)
            return err->status;
    }
    return BZNA_OK;
}


/* ==== 40. Containers: opening =======================================================================================
 * Calls: rooms 2, 4, 8-11, 20, 25, 28, 34, 37. The table of containers. The first row that recognizes a file opens it.
 * Errors of samples get the sample's number and the container's name here. */

/* Rows are tried in this order. The surest probe comes first. */
static const bzi_container_ops *const bzi_containers[] = {
#ifndef BENZINA_NO_SHARDS
    &bzi_tar_row,
#endif
    &bzi_mp4_archive,
    &bzi_mp4_video
};

/* Frees all but the source, which belongs to the caller after a failed open. */
static void bzi_container_free(bzi_container *c)
{
    bzi_host *host = c->host;
    if (c->own && c->ops->close)
        c->ops->close(c);
    bzi_arena_free(&c->arena);
    bzi_release(&host->memory, c, 1, sizeof *c);
    bzi_host_drop(host);
}

static void bzi_container_drop(bzi_container *c)
{
    if (atomic_fetch_sub(&c->references, 1) != 1)
        return;
    bzi_source_close(&c->source);
    bzi_container_free(c);
}

/* Has a row open what is given. Refuses settings without effect, and makes the field that the caller names the target;
 * a track was taken when the file was opened. */
static bzna_status bzi_container_become(bzi_container *c, const bzi_container_ops *ops,
                                        const bzna_dataset_config *config, bzna_error *err)
{
    const struct { const char *name; int is_set; } settings[] = {
        { "split", config->split != NULL },
        { "index", config->index != NULL },
        { "classes", config->classes != NULL },
        { "class_order", config->class_order != 0 },
        { "allow_empty", config->allow_empty != 0 },
        { "orientation", config->orientation != 0 },
        { "palette", config->palette != 0 },
    };
    bzna_status status;
    uint32_t number;
    int is_integer;

    c->ops = ops;
    c->still = ops->still;
    c->settings = ops->settings;
    bzi_string_copy(c->info.container, sizeof c->info.container, ops->name);
    if (!c->own && ops->own_bytes && !(c->own = bzi_arena_zero(&c->arena, 1, ops->own_bytes)))
        return bzi_fail_memory(err, "a data set");
    if ((status = ops->open(c, config, err)) != BZNA_OK)
        return status;
    for (size_t i = 0; i < BZI_LENGTH(settings); i++)
        if (settings[i].is_set && !bzi_word_is_in(settings[i].name, c->settings))
            return BZI_MISUSE(err, "dataset_config.%s: it has no effect on this data set, which is of kind %s",
                              settings[i].name, ops->name);

    number = config->target ? bzi_container_find_field(c, config->target) : c->target_field;
    is_integer = number != BZI_NO_FIELD && c->fields[number].kind == BZNA_FIELD_INTEGER;
    if (config->target && !is_integer && !c->target_chosen)
        return BZI_FAIL(err, BZNA_E_NOT_FOUND, "dataset_config.target: there is no field of integers \"%.64s\"",
                        config->target);
    if (is_integer && number != c->target_field) {
        c->target_field = number;
        c->target_count = c->count;
    }
    c->target_inside = c->target_field != BZI_NO_FIELD && c->fields[c->target_field].inside;
    return BZNA_OK;
}

/* Has the row that recognizes a file by its first bytes open it. If there is none, says what the file is. */
static bzna_status bzi_container_recognize(bzi_container *c, const bzna_dataset_config *config, bzna_error *err)
{
    uint8_t bytes[BZI_PROBE_BYTES] = { 0 };
    const bzi_span head = { bytes, bzi_min(c->source.size, sizeof bytes) };
    bzna_status status = BZI_DECLINED;

    if (head.size == 0)
        return BZI_FAIL(err, BZNA_E_FORMAT, "the file is empty");
    if (bzi_source_read(&c->source, 0, bytes, head.size, err) != BZNA_OK)
        return err->status;

    for (size_t i = 0; status == BZI_DECLINED && i < BZI_LENGTH(bzi_containers); i++) {
        const bzi_container_ops *ops = bzi_containers[i];
        if (ops->probe(head) && (!config->format || !strcmp(config->format, ops->name)))
            status = bzi_container_become(c, ops, config, err);
    }
    if (status != BZI_DECLINED)
        return status;

    if (bzi_codec_unread(head))
        return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "it is %s", bzi_codec_unread(head));
    if (config->format)
        return BZI_FAIL(err, BZNA_E_FORMAT, "dataset_config.format: the file is not of the format \"%s\"",
                        config->format);
    if (bzi_codec_recognize(head) != BZNA_CODEC_UNKNOWN)
        return BZI_FAIL(err, BZNA_E_FORMAT, "it is one picture: open the folder that holds it");
    return BZI_FAIL(err, BZNA_E_FORMAT, "of no known kind: not an mp4 file (it does not begin with a box), not a tar; "
                   "examples/formats opens more kinds");
}

/* What a container is opened from. */
typedef struct bzi_input {
    const char              *path;    /* of a file or a folder; NULL: another */
    const bzi_source        *source;  /* taken if opening succeeds; its bytes tell its kind */
    const void              *given;   /* a provider, taken likewise */
    const bzi_container_ops *ops;     /* its kind */
    const char              *kind;    /* its name, unless the config or the path is */
} bzi_input;

/* Finds the row for what is given, and has it opened. */
static bzna_status bzi_container_begin(bzi_container *c, const bzi_input *input, const bzna_dataset_config *config,
                                       bzna_error *err)
{
    const bzi_container_ops *ops = input->ops;

    c->given = input->given;
    if (input->path && bzi_os_kind(input->path) == BZI_OS_FOLDER) {
#ifdef BENZINA_NO_FOLDERS
        return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "it is a folder, and this build reads none (BENZINA_NO_FOLDERS)");
#else
        c->given = input->path;
        ops = &bzi_folder_ops;
#endif
    }
    if (ops && config->format && strcmp(config->format, ops->name))
        return BZI_FAIL(err, BZNA_E_FORMAT, "dataset_config.format: it is a %s, not \"%s\"", ops->name,
                        config->format);
    if (ops)
        return bzi_container_become(c, ops, config, err);
    if (input->source)
        c->source = *input->source;
    else if (bzi_source_open_path(&c->source, c->host, input->path, err) != BZNA_OK)
        return config->name ? bzi_error_prefix(err, input->path) : err->status;
    return bzi_container_recognize(c, config, err);
}

/* Opens a container. Returns BZNA_END, and makes an error, if it adds no samples to those of others. Errors name it. */
static bzna_status bzi_container_open(bzi_host *host, const bzi_input *input, const bzna_dataset_config *config,
                                      bzi_container **out, bzna_error *err)
{
    const char *const name = config->name ? config->name : input->path ? input->path : input->kind;
    bzi_container *c = bzi_alloc_zero(&host->memory, 1, sizeof *c);
    bzna_status status;

    if (!c)
        return bzi_fail_memory(err, "a data set");

    c->host = host;
    c->arena.memory = &host->memory;
    c->max_bytes = bzi_min(host->max_sample_bytes, SIZE_MAX);
    atomic_init(&c->references, 1);
    bzi_host_retain(host);
    c->orientation = config->orientation;
    c->palette = config->palette;
    c->target_field = BZI_NO_FIELD;
    c->name = bzi_arena_text(&c->arena, name);
    status = c->name ? bzi_container_begin(c, input, config, err) : bzi_fail_memory(err, "a dataset's name");

    if (status != BZNA_OK) {
        if (input->path)
            bzi_source_close(&c->source);
        bzi_container_free(c);
        bzi_error_prefix(err, name);
        return status;
    }
    c->given = NULL;
    bzi_source_close_surplus(&c->source);
    *out = c;
    return BZNA_OK;
}

/* Puts "train.bzna: sample 12: " before the message. For a sample of a folder, its file's path replaces the container's
 * name; for one of a provider, it is added. */
static bzna_status bzi_container_fail(const bzi_container *c, uint64_t index, bzna_error *err)
{
    const int by_user = c->ops->fetch && err->status == BZNA_E_CALLBACK;      /* who is at fault, and not a file */
    bzi_extent extent = { .naming = 1 };
    char name[40];
    bzna_error ignored = { 0 };

    if (c->ops->path && !by_user && c->ops->locate(c, index, &extent, &ignored) == BZNA_OK)
        bzi_extent_blame(c, &extent, err);

    snprintf(name, sizeof name, "sample %llu", (bzi_llu)index);
    bzi_error_prefix(err, name);
    return c->ops->path && !c->ops->fetch ? err->status : bzi_error_prefix(err, c->name);
}


/* ==== 41. Samples ===================================================================================================
 * Calls: rooms 2, 8-9, 11, 13, 20-21, 25-26, 40.
 * One sample of a container: reading it, looking at it on the caller's thread, its pictures and fields. */

/* --- Reading --- */

typedef struct bzi_reading {
    bzi_sample        sample;         /* its index, extent and, once read, bytes */
    const bzi_container *container;
    /* where its bytes lie: a source of the container's, or `own`; NULL after the end */
    const bzi_source *source;
    bzi_source        own;            /* of a sample that is a file */
    uint32_t          fetched;        /* the container fetches it, and says its size then */
} bzi_reading;

static void bzi_reading_end(bzi_reading *reading)
{
    if (reading->source == &reading->own)
        bzi_source_close(&reading->own);
    reading->source = NULL;
}

/* Locates a sample. Checks that its source has it, unless that is a file that is yet to be opened. */
static bzna_status bzi_container_locate(const bzi_container *c, uint64_t index, bzi_extent *extent, bzna_error *err)
{
    bzna_status status;

    memset(extent, 0, sizeof *extent);
    if ((status = c->ops->locate(c, index, extent, err)) != BZNA_OK)
        return status;
    if (!extent->source && !extent->file)
        extent->source = &c->source;
    if (extent->data || !extent->source)
        return BZNA_OK;
    if ((status = bzi_extent_fit(extent, extent->source->size, err)) == BZNA_OK && extent->source->held)
        extent->data = extent->source->held + extent->offset;
    return status;
}

/* Locates a sample and checks its size, which is 0 for one that is fetched. On success bzi_reading_end closes it. */
static bzna_status bzi_reading_begin(bzi_reading *reading, const bzi_container *c, uint64_t index, bzna_error *err)
{
    bzi_extent *extent = &reading->sample.extent;
    bzna_status status;

    reading->container = c;
    reading->source = NULL;
    reading->sample.index = index;
    reading->sample.bytes = NULL;
    if ((status = bzi_container_locate(c, index, extent, err)) == BZNA_OK && extent->file)
        status = bzi_extent_open(c, extent, &reading->own, err);
    reading->fetched = status == BZI_FETCH;
    if (status != BZNA_OK)
        return reading->fetched ? BZNA_OK : status;

    reading->source = extent->file ? &reading->own : extent->source;
    if (extent->size <= c->max_bytes)
        return BZNA_OK;
    bzi_reading_end(reading);
    return BZI_FAIL_AT(err, BZNA_E_LIMIT, extent->offset, "its %llu bytes are more than %s, %llu",
                       (bzi_llu)extent->size, c->max_bytes < c->host->max_sample_bytes ?
                           "provider.max_bytes" : "context_config.max_sample_bytes", (bzi_llu)c->max_bytes);
}

/* Fetches the sample into `bytes`. If its size, which becomes known, does not fit, the caller makes room and calls
 * again. Another size then is a fault of the user's code. */
static bzna_status bzi_reading_fetch(bzi_reading *reading, uint8_t *bytes, uint64_t capacity, bzna_error *err)
{
    const bzi_container *c = reading->container;
    const uint64_t said = reading->sample.extent.size;
    uint64_t size = 0;
    bzna_status status = c->ops->fetch(c, reading->sample.index, bytes, capacity, &size, err);

    if (status != BZNA_OK)
        return status;
    if (said && size != said)
        return BZI_FAIL(err, BZNA_E_CALLBACK, "its size changes between calls: %llu bytes, then %llu",
                        (bzi_llu)said, (bzi_llu)size);

    reading->sample.extent.size = size;
    reading->sample.bytes = bytes;
    return BZNA_OK;
}

/* Fetches the sample, or reads it into `bytes`, which then have room for the extent. */
static bzna_status bzi_reading_get(bzi_reading *reading, uint8_t *bytes, uint64_t capacity, bzna_error *err)
{
    const bzi_extent *extent = &reading->sample.extent;

    if (reading->fetched)
        return bzi_reading_fetch(reading, bytes, capacity, err);
    reading->sample.bytes = bytes;
    if (!extent->data)
        return bzi_source_read(reading->source, extent->offset, bytes, extent->size, err);
    bzi_copy(bytes, extent->data, extent->size);
    return BZNA_OK;
}

/* Gives a sample's target, or BZNA_TARGET_NONE. Pre: the sample was read if c->target_inside. */
static bzna_status bzi_container_target(const bzi_container *c, const bzi_sample *sample, int64_t *target,
                                        bzna_error *err)
{
    bzi_value value = { (uint8_t *)target, sizeof *target, 0, c->target_field == BZI_NO_FIELD };
    const bzna_status status = value.absent ? BZNA_OK : c->ops->field(c, sample, c->target_field, &value, err);

    if (status != BZNA_OK || value.absent)
        *target = BZNA_TARGET_NONE;
    return status;
}

static bzna_status bzi_container_image(const bzi_container *c, const bzi_sample *sample, const bzi_pick *pick,
                                       bzi_image *image, bzna_error *err)
{
    bzi_pick one = *pick;

    if (!c->ops->images && (one.number = bzi_container_find_picture(c, pick->name)) == BZI_NO_FIELD)
        return bzi_container_fail_image(pick->name, err);
    if (c->ops->image(c, sample, &one, image, err) != BZNA_OK)
        return err->status;

    if (c->orientation == BZNA_ORIENTATION_IGNORE)
        image->coded.orientation = 1;
    image->coded.palette = bzi_default(pick->palette, c->palette);
    return BZNA_OK;
}

/* --- Looking --- */

/* A sample that is looked at on the caller's thread. */
typedef struct bzi_look {
    bzi_reading reading;
    bzi_buffer  buffer;               /* the sample's bytes, unless they were in memory */
} bzi_look;

/* What of it is looked at. */
enum { BZI_LOOK_OUTSIDE, BZI_LOOK_PLACE, BZI_LOOK_BYTES };

/* Ends looking at a sample, which a failure names. Returns the status. */
static bzna_status bzi_look_end(bzi_look *look, bzna_status status, bzna_error *err)
{
    const bzi_container *c = look->reading.container;

    bzi_reading_end(&look->reading);
    bzi_buffer_free(&c->host->memory, &look->buffer);
    return status == BZNA_OK ? status : bzi_container_fail(c, look->reading.sample.index, err);
}

/* Begins to look at a sample: outside of it, which opens and reads no file; at its place, which tells its size; or at
 * its bytes, which are copied only if they are not in memory. bzi_look_end closes it. */
static bzna_status bzi_look_begin(bzi_look *look, const bzi_container *c, uint64_t index, int at, bzna_error *err)
{
    bzi_reading *const reading = &look->reading;
    const bzi_extent *extent = &reading->sample.extent;
    bzna_status status = BZNA_OK;

    *look = (bzi_look){ .reading = { .container = c, .sample.index = index } };
    if (at != BZI_LOOK_OUTSIDE)
        status = bzi_reading_begin(reading, c, index, err);
    if (status == BZNA_OK && reading->fetched)
        status = bzi_reading_fetch(reading, NULL, 0, err);
    if (status != BZNA_OK || at != BZI_LOOK_BYTES)
        return status;

    reading->sample.bytes = extent->data;
    if (extent->data)
        return BZNA_OK;
    if (!bzi_buffer_reserve(&c->host->memory, &look->buffer, extent->size, 0))
        return bzi_fail_memory(err, "a sample's bytes");
    return bzi_reading_get(reading, look->buffer.data, look->buffer.capacity, err);
}

/* Gives a sample's target, and the names of its pictures; unless `at` is BZI_LOOK_OUTSIDE, also its place, and names
 * that differ by sample. */
static bzna_status bzi_container_sample(const bzi_container *c, uint64_t index, int at, bzna_sample_ref *out,
                                        bzna_error *err)
{
    bzi_look look;
    const bzi_sample *sample = &look.reading.sample;
    const int lists = at != BZI_LOOK_OUTSIDE && c->ops->images;
    bzna_status status = bzi_look_begin(&look, c, index, c->target_inside || lists ? BZI_LOOK_BYTES : at, err);

    *out = (bzna_sample_ref){ .target = BZNA_TARGET_NONE };
    if (status == BZNA_OK)
        status = bzi_container_target(c, sample, &out->target, err);
    if (status == BZNA_OK && lists)
        status = c->ops->images(c, sample, out, err);
    for (uint32_t i = 0; i < c->field_count && !c->ops->images; i++)
        if (c->fields[i].kind == BZNA_FIELD_IMAGE)
            bzi_sample_ref_add(out, c->fields[i].name);

    out->offset = sample->extent.offset;
    out->size = sample->extent.size;
    return bzi_look_end(&look, status, err);
}

/* Finds a picture of a sample, which is read into the caller's buffer. An unwrapped picture that is not there is copied
 * to the end of the sample's bytes. buffer NULL: describes the picture without its bytes. */
static bzna_status bzi_container_look_image(const bzi_container *c, uint64_t index, const bzi_pick *pick,
                                            const bzi_span *buffer, bzi_image *image, bzna_error *err)
{
    bzi_look look;
    bzi_own own = { .host = c->host };
    bzna_image *coded = &image->coded;
    const bzi_extent *extent = &look.reading.sample.extent;
    uint8_t *const bytes = buffer ? (uint8_t *)(uintptr_t)buffer->data : NULL;
    bzna_status status = bzi_look_begin(&look, c, index, buffer ? BZI_LOOK_PLACE : BZI_LOOK_BYTES, err);

    if (status == BZNA_OK && buffer && buffer->size < extent->size)
        status = BZI_FAIL(err, BZNA_E_BUFFER, "it has %llu bytes, the buffer %llu", (bzi_llu)extent->size,
                          (bzi_llu)buffer->size);
    else if (status == BZNA_OK && buffer)
        status = bzi_reading_get(&look.reading, bytes, buffer->size, err);
    if (status == BZNA_OK && (status = bzi_container_image(c, &look.reading.sample, pick, image, err)) == BZNA_OK &&
        (status = bzi_own_prepare(&own, image, err)) == BZNA_OK)
        status = bzi_image_complete(image, err);

    if (status == BZNA_OK && own.copied && buffer) {
        bzi_value to = { bytes, buffer->size, extent->size, 0 };

        bzi_value_put(&to, coded->data, coded->data_size);
        bzi_value_put(&to, coded->config, coded->config_size);
        coded->data = bytes + extent->size;
        coded->config = coded->config_size ? bytes + extent->size + coded->data_size : NULL;
        if (to.size > to.capacity)
            status = BZI_FAIL(err, BZNA_E_BUFFER, "with what it wraps, it needs %llu bytes, the buffer has %llu",
                              (bzi_llu)to.size, (bzi_llu)to.capacity);
    }
    bzi_own_end(&own);
    if (!buffer)
        coded->config = coded->data = NULL;
    return bzi_look_end(&look, status, err);
}

/* --- Fields --- */

/* Ends a value in the caller's memory: a text, with a NUL. what: it, for messages. */
static bzna_status bzi_value_end(bzi_value *value, uint64_t capacity, int is_text, const char *what, bzna_error *err)
{
    value->size += is_text != 0;
    if (value->size > capacity)
        return BZI_FAIL(err, BZNA_E_BUFFER, "the %s needs %llu bytes, the buffer has %llu", what,
                        (bzi_llu)value->size, (bzi_llu)capacity);
    if (is_text)
        value->data[value->size - 1] = 0;
    return BZNA_OK;
}

/* Gives one field of a sample, in the caller's memory; a picture as a stream of its own. value->size: that of the whole
 * value, or 0 if it is not known. */
static bzna_status bzi_container_field(const bzi_container *c, uint64_t index, const char *name, bzi_value *value,
                                       bzna_error *err)
{
    const uint64_t capacity = value->capacity;
    const uint32_t number = bzi_container_find_field(c, name);
    const bzi_field *field;
    bzi_look look;
    const bzi_sample *sample = &look.reading.sample;
    bzi_image image;
    bzna_status status;
    int is_text;

    if (number == BZI_NO_FIELD) {
        BZI_FAIL(err, BZNA_E_NOT_FOUND, "there is no field \"%s\"", name);
        return bzi_container_fail(c, index, err);
    }
    field = &c->fields[number];
    is_text = field->kind == BZNA_FIELD_TEXT;
    value->capacity -= is_text && capacity;                 /* room for the NUL at a text's end */
    status = bzi_look_begin(&look, c, index, field->inside ? BZI_LOOK_BYTES : BZI_LOOK_OUTSIDE, err);
    if (status == BZNA_OK && field->kind != BZNA_FIELD_IMAGE)
        status = c->ops->field(c, sample, number, value, err);
    else if (status == BZNA_OK &&
             (status = bzi_container_image(c, sample, &(bzi_pick){ .name = name }, &image, err)) == BZNA_OK)
        status = bzi_image_stream(&image.coded, value, err);

    if (status == BZNA_OK && value->absent)
        status = BZI_FAIL(err, BZNA_E_NOT_FOUND, "it has no %s", name);
    if (status == BZNA_OK)
        status = bzi_value_end(value, capacity, is_text, name, err);
    return bzi_look_end(&look, status, err);
}


/* ==== 42. Datasets ==================================================================================================
 * Calls: rooms 2, 8-10, 32, 39-40.
 *
 * A data set is parts of containers laid end to end: so are ranges, concatenations and lists of paths. */

typedef struct bzi_part {
    bzi_container *container;         /* a reference is held */
    uint64_t       first;             /* its first sample in the container */
    uint64_t       count;             /* of its samples */
    uint64_t       begin;             /* index of its first sample in the data set */
} bzi_part;

struct bzna_dataset {
    bzi_host  *host;                  /* a reference is held */
    atomic_int references;
    uint32_t   part_count;            /* parts in use */
    uint32_t   part_room;             /* elements of parts */
    uint64_t   count;                 /* of samples */
    bzi_part   parts[];               /* in the order of the data set */
};


static void bzi_dataset_drop(bzna_dataset *dataset)
{
    bzi_host *host = dataset->host;

    if (atomic_fetch_sub(&dataset->references, 1) != 1)
        return;

    for (uint32_t i = 0; i < dataset->part_count; i++)
        bzi_container_drop(dataset->parts[i].container);
    bzi_release(&host->memory, dataset, sizeof *dataset + dataset->part_room * sizeof *dataset->parts, 1);
    bzi_host_drop(host);
}

/* Makes a data set without parts, with room for `parts` of them. */
static bzna_status bzi_dataset_make(bzi_host *host, uint32_t parts, bzna_dataset **out, bzna_error *err)
{
    bzna_dataset *dataset = bzi_alloc_zero(&host->memory, sizeof *dataset + parts * sizeof *dataset->parts, 1);

    if (!dataset)
        return bzi_fail_memory(err, "a data set");

    dataset->host = host;
    bzi_host_retain(host);
    atomic_init(&dataset->references, 1);
    dataset->part_room = parts;
    *out = dataset;
    return BZNA_OK;
}

/* Appends a part and takes the reference to the container, even on failure. Pre: there is room. */
static bzna_status bzi_dataset_append(bzna_dataset *dataset, bzi_container *container, uint64_t first, uint64_t count,
                                      bzna_error *err)
{
    dataset->parts[dataset->part_count++] = (bzi_part){ container, first, count, dataset->count };
    if (bzi_add(dataset->count, count, &dataset->count) && dataset->count <= (uint64_t)1 << 63)
        return BZNA_OK;
    return BZI_FAIL(err, BZNA_E_LIMIT, "a data set has at most 2^63 samples");
}

/* Makes a data set of others: of samples first .. first + count - 1 of each, as far as it has them. */
static bzna_status bzi_dataset_join(bzi_host *host, bzna_dataset *const *from, uint32_t from_count, uint64_t first,
                                    uint64_t count, bzna_dataset **out, bzna_error *err)
{
    bzna_dataset *all = NULL;
    uint64_t parts = 0;
    bzna_status status;

    for (uint32_t i = 0; i < from_count; i++)
        if ((parts += from[i]->part_count) > BZI_LIMIT_PARTS)
            return BZI_FAIL(err, BZNA_E_LIMIT, "a data set has at most %u files", BZI_LIMIT_PARTS);

    status = bzi_dataset_make(host, (uint32_t)parts, &all, err);
    for (uint32_t i = 0; i < from_count; i++)
        for (uint32_t k = 0; k < from[i]->part_count && status == BZNA_OK; k++) {
            const bzi_part *part = &from[i]->parts[k];
            const uint64_t begin = bzi_max(first, part->begin), end = bzi_min(first + count, part->begin + part->count);

            if (begin >= end)
                continue;
            atomic_fetch_add(&part->container->references, 1);
            status = bzi_dataset_append(all, part->container, part->first + (begin - part->begin), end - begin, err);
        }
    if (status == BZNA_OK)
        *out = all;
    else if (all)
        bzi_dataset_drop(all);
    return status;
}

/* What is opened at once. */
typedef struct bzi_opening {
    bzi_host                  *host;
    const bzi_input           *input;         /* NULL: the paths are opened */
    bzi_names                  paths;
    uint64_t                   count;         /* of paths; 1 for an input */
    bzi_container            **containers;    /* one for each; NULL: not opened yet, or empty */
    const bzna_dataset_config *config;        /* for every file */
} bzi_opening;

static bzna_status bzi_opening_open(void *user, uint64_t i, bzna_error *err)
{
    bzi_opening *o = user;
    const bzi_input *input = o->input ? o->input : &(bzi_input){ .path = bzi_names_all(&o->paths)[i] };
    const bzna_status status = bzi_container_open(o->host, input, o->config, &o->containers[i], err);

    if (status != BZNA_END)
        return status;
    if (o->count == 1)
        return err->status;
    bzi_log(o->host, BZNA_LOG_INFO, BZNA_OK, "%s", err->message);
    return BZNA_OK;
}

/* Opens an input, or with input NULL all that paths stand for, on several threads. Pre: there are 1 to BZI_LIMIT_PARTS
 * paths. */
static bzna_status bzi_dataset_open(bzi_host *host, const bzi_input *input, const char *const *paths, uint32_t count,
                                    const bzna_dataset_config *config, bzna_dataset **out, bzna_error *err)
{
    bzi_arena arena = { .memory = &host->memory };
    bzi_opening o = { .host = host, .input = input, .paths.arena = &arena, .config = config };
    bzna_dataset *all = NULL;
    bzna_status status = input ? BZNA_OK : bzi_paths_resolve(&o.paths, paths, count, config, err);

    o.count = input ? 1 : o.paths.count;
    if (status == BZNA_OK && o.count > 1 && (config->index || config->name))
        status = BZI_MISUSE(err, "dataset_config.%s: it is of one file, and these are %llu",
                            config->index ? "index" : "name", (bzi_llu)o.count);
    if (status == BZNA_OK && !BZI_ARENA_ZERO(&arena, o.containers, o.count))
        status = bzi_fail_memory(err, "a data set");
    if (status == BZNA_OK && (status = bzi_dataset_make(host, (uint32_t)o.count, &all, err)) == BZNA_OK)
        status = bzi_parallel(host, bzi_opening_open, &o, o.count, err);

    for (uint64_t i = 0; o.containers && i < o.count; i++)
        if (o.containers[i] && status == BZNA_OK)
            status = bzi_dataset_append(all, o.containers[i], 0, o.containers[i]->count, err);
        else if (o.containers[i])
            bzi_container_drop(o.containers[i]);
    if (status == BZNA_OK && all->part_count == 0)
        status = BZI_FAIL(err, BZNA_E_NO_SAMPLES, "all of the %llu files are empty", (bzi_llu)o.count);
    bzi_names_free(&o.paths);
    bzi_arena_free(&arena);
    if (status == BZNA_OK)
        *out = all;
    else if (all)
        bzi_dataset_drop(all);
    return status;
}

/* Returns the container of a sample, and sets *index to the sample's number there. Pre: *index < count. */
static const bzi_container *bzi_dataset_at(const bzna_dataset *dataset, uint64_t *index)
{
    const bzi_part *part = dataset->parts;

    part += bzi_search_above(&part->begin, dataset->part_count, sizeof *part, *index) - 1;
    *index = *index - part->begin + part->first;
    return part->container;
}

/* The same for an index from the caller. Returns NULL if there is no such sample. */
static const bzi_container *bzi_dataset_find(const bzna_dataset *dataset, uint64_t *index, bzna_error *err)
{
    if (*index < dataset->count)
        return bzi_dataset_at(dataset, index);

    BZI_FAIL(err, BZNA_E_RANGE, "index %llu is not below the %llu samples", (bzi_llu)*index,
             (bzi_llu)dataset->count);
    bzi_error_prefix(err, dataset->part_count > 1 ? "data set" : dataset->parts[0].container->name);
    return NULL;
}

/* Returns a hash of the containers and of the ranges of samples that are taken from them, by which a saved state is
 * known to belong to another data set. */
static uint64_t bzi_dataset_fingerprint(const bzna_dataset *dataset)
{
    uint64_t hash = BZI_HASH_START;

    for (uint32_t i = 0; i < dataset->part_count; i++) {
        const bzi_part *part = &dataset->parts[i];
        hash = part->container->ops->fingerprint(part->container, hash);
        if (dataset->part_count == 1 && part->count == part->container->count)
            break;                    /* a whole container has the fingerprint that it had before parts existed */
        hash = bzi_hash(hash, &part->first, sizeof part->first);
        hash = bzi_hash(hash, &part->count, sizeof part->count);
    }
    return hash;
}

/* Hashes what else fixes the pixels of stills: settings, and which library decodes JPEG. Returns 0 without any. */
static uint64_t bzi_dataset_hash_stills(const bzna_dataset *dataset)
{
    static const char decoder[] = BZI_JPEG_DECODER;
    uint64_t hash = 0;

    for (uint32_t i = 0; i < dataset->part_count; i++) {
        const bzi_container *c = dataset->parts[i].container;
        const uint32_t settings[] = { i, c->orientation, c->palette };

        if (c->orientation || c->palette || (c->still && !hash))
            hash = bzi_hash(bzi_hash(hash ? hash : BZI_HASH_START, decoder, sizeof decoder), settings,
                                    sizeof settings);
    }
    return hash;
}

/* Returns a field by number: those of the first part, then those that only others have; then NULL. */
static const bzi_field *bzi_dataset_field(const bzna_dataset *dataset, uint32_t number)
{
    const bzi_field *seen[BZI_LIMIT_FIELDS + 1];
    uint32_t count = 0;

    for (uint32_t i = 0; i < dataset->part_count; i++) {
        const bzi_container *c = dataset->parts[i].container;

        for (uint32_t k = 0, j; k < c->field_count && count <= BZI_LIMIT_FIELDS; k++) {
            for (j = 0; j < count && strcmp(seen[j]->name, c->fields[k].name); j++)
                continue;
            if (j < count)
                continue;
            if (count == number)
                return &c->fields[k];
            seen[count++] = &c->fields[k];
        }
    }
    return NULL;
}


/* #### SAMPLING #######################################################################################################
 * Orders, random numbers, transforms, colors and policies: all that is drawn for a sample, and the kernels'
 * arguments. */


BZI_FAST_BEGIN

/* ==== 43. Elementary functions ======================================================================================
 * Calls: nothing.
 *
 * exp, log, sin, cos and tan from + - x / and rounding to whole numbers, which IEEE 754 fixes, as it does sqrt, floor,
 * fmod and ldexp. libm's results differ in the last bit between machines. Errors are below 1 ulp.
 * Series: Abramowitz and Stegun 1964, 4.1.27 (log), 4.2.1 (exp), 4.3.65 (sin) and 4.3.66 (cos); numbers in two parts:
 * Dekker 1971, "A floating-point technique for extending the available precision". */

#define BZI_LN2_HIGH 0x1.62e42fefap-1                   /* 36 bits: its product with an exponent is exact */
#define BZI_LN2_LOW  0x1.cf79abc9e3b3ap-40              /* ln 2 less BZI_LN2_HIGH */

/* Returns exp of x: 0 below the least subnormal. Pre: it does not overflow. */
static double bzi_math_exp(double x)
{
    if (x < -746)
        return 0;

    /* x = k ln 2 + r, with r in two parts */
    const double k = floor(x * 1.4426950408889634 + 0.5), high = x - k * BZI_LN2_HIGH, low = k * BZI_LN2_LOW;
    const double r = high - low, rest = (high - r) - low;

    /* r^2/2! + r^3/3! + ...: the terms after r^14 are below 2^-62 */
    double sum = 0;
    for (int n = 14; n > 2; n--)
        sum = (sum + 1) * r / n;
    sum = (sum + 1) * r * r / 2;

    return ldexp(1 + (r + (sum + rest * (1 + r))), (int)k);
}

/* Returns the natural logarithm. Pre: x is finite and above 0. */
static double bzi_math_log(double x)
{
    int k;

    /* x = 2^k (1 + f), with 1 + f between the square roots of 1/2 and 2 */
    double f = frexp(x, &k);
    if (f < 0.70710678118654752) {
        f *= 2;
        k--;
    }
    f -= 1;

    /* log(1 + f) = 2 (s + s^3/3 + s^5/5 + ...), s = f / (2 + f); 2 s = f - s f */
    const double s = f / (2 + f), z = s * s;
    double sum = 0;
    for (int n = 25; n > 1; n -= 2)
        sum = (sum + 2.0 / n) * z;

    const double whole = k * BZI_LN2_HIGH, high = whole + f, low = f - (high - whole);
    return high + (low - (s * (f - sum) - k * BZI_LN2_LOW));
}

/* A number as the sum of two. low is at most half a unit in high's last place. */
typedef struct bzi_pair {
    double high;                      /* the number, rounded */
    double low;                       /* the rest */
} bzi_pair;

/* Returns a + b. Pre: |a| >= |b|, or a = 0. */
static bzi_pair bzi_pair_of(double a, double b)
{
    const double sum = a + b;
    return (bzi_pair){ sum, b - (sum - a) };
}

/* Returns a b, exact if nothing overflows or underflows. */
static bzi_pair bzi_pair_product(double a, double b)
{
    const double split_a = a * 134217729, split_b = b * 134217729;          /* 2^27 + 1 */
    const double a1 = split_a - (split_a - a), a2 = a - a1, b1 = split_b - (split_b - b), b2 = b - b1;
    const double product = a * b;
    return (bzi_pair){ product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2 };
}

static bzi_pair bzi_pair_multiply(bzi_pair a, bzi_pair b)
{
    const bzi_pair p = bzi_pair_product(a.high, b.high);
    return bzi_pair_of(p.high, p.low + (a.high * b.low + a.low * b.high));
}

static bzi_pair bzi_pair_divide(bzi_pair a, bzi_pair b)
{
    const double q = a.high / b.high;
    const bzi_pair p = bzi_pair_product(q, b.high);
    return bzi_pair_of(q, ((a.high - p.high) - p.low + a.low - q * b.low) / b.high);
}

/* Returns 1 - z/(n(n+1)) (1 - z/((n+2)(n+3)) (1 - ...)). For n = 1 that is the cosine, for n = 2 the sine divided by
 * its angle. z is the square of the angle, below 0.62. */
static bzi_pair bzi_series(bzi_pair z, int n)
{
    bzi_pair sum = { 1, 0 };
    for (int i = n + 18; i >= n; i -= 2) {
        const bzi_pair divisor = { -i * (i + 1), 0 }, term = bzi_pair_divide(bzi_pair_multiply(z, sum), divisor);
        sum = bzi_pair_of(1, term.high);
        sum.low += term.low;
    }
    return sum;
}

/* Gives sin and cos of a finite angle in degrees. Multiples of 90 degrees are exact, and leave at most 45. */
static void bzi_turn(double degrees, bzi_pair *sine, bzi_pair *cosine)
{
    static const bzi_pair unit = { 0x1.1df46a2529d39p-6, 0x1.5c1d8becdd291p-62 };      /* pi / 180 */
    double d = fmod(degrees, 360);
    const int quarters = (int)floor(d / 90 + 0.5);

    d -= 90 * quarters;
    *sine = (bzi_pair){ 0, 0 };
    *cosine = (bzi_pair){ 1, 0 };
    if (d != 0) {
        const bzi_pair angle = bzi_pair_multiply((bzi_pair){ d, 0 }, unit), z = bzi_pair_multiply(angle, angle);
        *sine = bzi_pair_multiply(angle, bzi_series(z, 2));
        *cosine = bzi_series(z, 1);
    }

    for (int i = quarters & 3; i > 0; i--) {
        const bzi_pair s = *sine;
        *sine = *cosine;
        *cosine = (bzi_pair){ 0 - s.high, 0 - s.low };
    }
}

static double bzi_math_sin(double degrees)
{
    bzi_pair sine, cosine;
    bzi_turn(degrees, &sine, &cosine);
    return sine.high + sine.low;
}

static double bzi_math_cos(double degrees)
{
    bzi_pair sine, cosine;
    bzi_turn(degrees, &sine, &cosine);
    return cosine.high + cosine.low;
}

/* Pre: the angle is not an odd multiple of 90 degrees. */
static double bzi_math_tan(double degrees)
{
    bzi_pair sine, cosine;
    bzi_turn(degrees, &sine, &cosine);
    const bzi_pair quotient = bzi_pair_divide(sine, cosine);
    return quotient.high + quotient.low;
}

/* The pixel arithmetic, as plain C. Philox is in it, too, since operations on pixels draw their noise by it. */
#include "benzina_kernels.cu"


/* ==== 44. Random numbers, order =====================================================================================
 * Calls: rooms 2.
 *
 * Random numbers and orders are pure functions of seed, epoch and position, so that every thread, rank and restarted
 * run gets the same ones. */

/* Makes 128 bits by Philox 4x32-10 (Salmon and others 2011). Use 0 keys the random numbers of samples, use 1 the
 * permutation. */
static void bzi_random_epoch(uint64_t seed, uint64_t epoch, uint32_t use, uint32_t out[4])
{
    const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };

    out[0] = (uint32_t)epoch;
    out[1] = (uint32_t)(epoch >> 32);
    out[2] = use;
    out[3] = 0;
    bzi_kernel_philox(key, out);
}

/* Starts the random numbers of an epoch, of which bzi_random_aim makes those of its samples. */
static void bzi_random_begin(bzna_random *random, uint64_t seed, uint64_t epoch)
{
    uint32_t key[4];

    memset(random, 0, sizeof *random);
    bzi_random_epoch(seed, epoch, 0, key);
    memcpy(random->key, key, sizeof random->key);
    random->used = 4;
}

/* Makes them the stream of one sample for one purpose (BZNA_RANDOM_...). */
static void bzi_random_aim(bzna_random *random, uint64_t sample, uint32_t purpose)
{
    random->counter[0] = (uint32_t)sample;
    random->counter[1] = (uint32_t)(sample >> 32);
    random->counter[2] = purpose;
}

/* Turns a fresh stream of a sample into that of another view or occurrence. View 0 of occurrence 0 keeps it. */
static void bzi_random_fork(bzna_random *random, uint32_t view, uint64_t occurrence)
{
    uint32_t key[4] = { (uint32_t)occurrence, (uint32_t)(occurrence >> 32), view, 1 };

    if (!view && !occurrence)
        return;

    bzi_kernel_philox(random->key, key);
    memcpy(random->key, key, sizeof random->key);
}

static uint32_t bzi_random_is_fresh(const bzna_random *random) { return random->counter[3] == 0 && random->used == 4; }

static uint32_t bzi_random_u32(bzna_random *random)
{
    if (random->used >= 4) {
        memcpy(random->block, random->counter, sizeof random->block);
        bzi_kernel_philox(random->key, random->block);
        random->counter[3]++;
        random->used = 0;
    }
    return random->block[random->used++];
}

/* Returns a number from lo to hi, made from 53 random bits. It can be hi only if the sum is rounded up. */
static double bzi_random_uniform(bzna_random *random, double lo, double hi)
{
    uint64_t low = bzi_random_u32(random), high = bzi_random_u32(random);
    return lo + (hi - lo) * ((double)((high << 32 | low) >> 11) * 0x1p-53);
}

/* A keyed permutation of 0..count - 1: an alternating Feistel network, which adds where others xor, on a grid of rows x
 * columns, both near the square root of count. A result past the end, of which a large grid has at most a row, is
 * permuted again. Grids below 8 x 8 would have too few permutations. */
typedef struct bzi_permutation {
    uint64_t count;                   /* positions that are permuted */
    uint64_t key[2];                  /* 128 bits that depend on seed and epoch */
    uint64_t rows;                    /* of the grid; rows * columns >= count */
    uint64_t columns;                 /* of the grid; both are below 2^32 */
} bzi_permutation;

#define BZI_PERMUTATION_ROUNDS 6      /* with 4, small data sets fail chi-square tests */

static bzi_permutation bzi_permutation_make(uint64_t seed, uint64_t epoch, uint64_t count)
{
    bzi_permutation p;
    uint32_t words[4];

    bzi_random_epoch(seed, epoch, 1, words);
    p.count = count;
    p.key[0] = (uint64_t)words[1] << 32 | words[0];
    p.key[1] = (uint64_t)words[3] << 32 | words[2];
    p.rows = bzi_max((uint64_t)sqrt((double)count), 8);     /* a rounded root will do: columns are computed from it */
    p.columns = bzi_max(count / p.rows + 1, 8);
    return p;
}

/* Returns a number below limit that depends on all bits of x and key. One multiplication fewer fails chi-square
 * tests. */
static uint64_t bzi_permutation_mix(uint64_t x, uint64_t key, uint64_t limit)
{
    x = (x ^ key) * 0x9e3779b97f4a7c15ull;
    x ^= x >> 32;
    return (x * 0xd6e8feb86659fd93ull >> 32) * limit >> 32;
}

/* Returns where the permutation sends a position below count. */
static uint64_t bzi_permutation_at(const bzi_permutation *p, uint64_t position)
{
    do {
        uint64_t row = position / p->columns, column = position % p->columns, key = p->key[0];

        for (int round = 0; round < BZI_PERMUTATION_ROUNDS; round += 2) {
            row += bzi_permutation_mix(column, key, p->rows);
            row -= row >= p->rows ? p->rows : 0;
            key += p->key[1] | 1;
            column += bzi_permutation_mix(row, key, p->columns);
            column -= column >= p->columns ? p->columns : 0;
            key += p->key[1] | 1;
        }
        position = row * p->columns + column;
    } while (position >= p->count);
    return position;
}

/* The samples of one epoch that the caller gave (BZNA_ORDER_GIVEN), in one allocation with its arrays. */
typedef struct bzi_sequence {
    struct bzi_sequence *next;            /* another list of the loader */
    uint64_t         bytes;           /* of the allocation */
    uint64_t         epoch;
    uint64_t         count;           /* of indices */
    uint64_t         batch_count;     /* of ends; 0: batches are as large as those of other orders */
    uint64_t         hash;            /* of indices and ends; not 0 */
    uint64_t         own_samples;     /* that the loader's rank has of the whole epoch, without padding */
    uint64_t         own_batches;     /* likewise */
    uint32_t         repeats;         /* 1: a sample may be in it more than once */
    uint64_t        *indices;
    uint64_t        *ends;            /* of each batch, the position past its last sample; NULL: batch_count is 0 */
} bzi_sequence;

/* Where a run stands. */
typedef struct bzi_place {
    uint64_t epoch;
    uint64_t position;                /* in the epoch's order */
    uint64_t count;                   /* positions of that; 0: its list was not begun */
    uint64_t list;                    /* the hash of the epoch's list; 0: there is none, or it was not begun */
} bzi_place;

/* Which sample is at each position of an epoch. The loader owns the arrays. */
typedef struct bzi_order {
    const bzi_sequence *list;             /* BZNA_ORDER_GIVEN: of the epoch, with `indices`; else NULL */
    uint64_t        length;           /* of an epoch: of `indices`, or of the data set */
    uint32_t        shuffle;          /* 1: samples are permuted */
    const uint64_t *indices;          /* the samples to deliver; NULL: all */
    uint64_t        seed;             /* that the order was made with */
    uint64_t        epoch;            /* likewise */
    uint32_t        repeats;          /* 1: a sample may stand at several positions of an epoch */
    uint32_t        stride;           /* in a batch: from the position of a slot to that of the next */
    bzi_permutation permutation;      /* of 0..length - 1 */
} bzi_order;

static void bzi_order_epoch(bzi_order *order, uint64_t seed, uint64_t epoch)
{
    order->seed = seed;
    order->epoch = epoch;
    order->permutation = bzi_permutation_make(seed, epoch, order->length);
}

/* Returns the sample at a position below length. */
static uint64_t bzi_order_at(const bzi_order *order, uint64_t position)
{
    const uint64_t sample = order->shuffle ? bzi_permutation_at(&order->permutation, position) : position;
    return order->indices ? order->indices[sample] : sample;
}

/* One rank's share of an epoch. Batch j of rank r has the positions start + (j * batch + slot) * world + r. Batches
 * that the caller gave are dealt whole: batch j of rank r is batch first + j * world + r. All ranks have equally many
 * batches. */
typedef struct bzi_shard {
    uint64_t        count;            /* positions of the epoch */
    uint64_t        start;            /* the first position that is dealt */
    uint32_t        batch;            /* slots of a batch */
    uint32_t        world;            /* number of ranks */
    uint32_t        rank;             /* of this process, from 0 */
    uint32_t        last_batch;       /* BZNA_LAST_... */
    uint64_t        first;            /* given batches: the one that begins at `start` */
    uint64_t        given;            /* given batches; 0: each has `batch` slots */
    const uint64_t *ends;             /* of each given batch, the position past its last sample */
} bzi_shard;

/* Returns how many positions one batch of every rank takes together, or how many given batches. */
static uint64_t bzi_shard_step(const bzi_shard *s) { return s->given ? s->world : (uint64_t)s->batch * s->world; }

static uint64_t bzi_shard_batches(const bzi_shard *s)
{
    uint64_t left = s->given ? s->given - s->first : s->count - s->start, step = bzi_shard_step(s);
    return left / step + (s->last_batch != BZNA_LAST_DROP && left % step != 0);
}

/* Returns the position of slot 0 of batch j; for one past the last given batch, count. Positions from count on are
 * padding. */
static uint64_t bzi_shard_position(const bzi_shard *s, uint64_t j)
{
    const uint64_t number = s->first + j * s->world + s->rank;      /* of a given batch */

    if (!s->given)
        return s->start + j * bzi_shard_step(s) + s->rank;
    return number >= s->given ? s->count : number ? s->ends[number - 1] : 0;
}

/* Returns how many slots of batch j have samples; the others are padding. */
static uint32_t bzi_shard_real(const bzi_shard *s, uint64_t j)
{
    const uint64_t first = bzi_shard_position(s, j);

    if (first >= s->count)
        return 0;
    if (s->given)
        return (uint32_t)(s->ends[s->first + j * s->world + s->rank] - first);
    return (uint32_t)bzi_min(s->batch, (s->count - first + s->world - 1) / s->world);
}

/* Returns how many samples the rank's batches have, without padding. Pre: the epoch is dealt from its start. */
static uint64_t bzi_shard_samples(const bzi_shard *s)
{
    const uint64_t batches = bzi_shard_batches(s);
    uint64_t samples = 0;

    if (!s->given)
        return s->last_batch == BZNA_LAST_DROP ? batches * s->batch :
               s->count > s->rank ? (s->count - s->rank + s->world - 1) / s->world : 0;
    for (uint64_t j = 0; j < batches; j++)
        samples += bzi_shard_real(s, j);
    return samples;
}


/* ==== 45. Transforms ================================================================================================
 * Calls: rooms 43-44.
 *
 * Turns parameters and random numbers into homographies. All arithmetic is done in doubles. */

static int bzi_finite(const double *values, int n)
{
    for (int i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return 0;
    return 1;
}

/* An affine warp. Arrays have an element for x and one for y. */
typedef struct bzi_affine {
    double   in[2];                   /* size of the picture */
    double   out[2];                  /* size of the output */
    double   center[2];               /* of the crop, from the picture's, in pixels of that */
    double   crop[2];                 /* its size */
    double   shift[2];                /* in pixels of the output */
    double   degrees;                 /* counterclockwise */
    uint32_t flip[2];                 /* 1: mirrored */
    uint32_t resize;                  /* 1: the crop is scaled to the output */
    uint32_t keep_ratio;              /* 1: by one factor */
} bzi_affine;

static const double bzi_homography_none[9] = { 1, 0, 0, 0, 1, 0, 0, 0, 1 };

/* Computes H = T_in * T_crop * R * S * T_out, which maps output to input pixels. Pre: sizes are above 0, all numbers
 * are finite. */
static void bzi_affine_matrix(const bzi_affine *a, double h[9])
{
    const double c = bzi_math_cos(a->degrees), s = bzi_math_sin(a->degrees), rotation[2][2] = { { c, -s }, { s, c } };
    double scale[2] = { 1, 1 }, from[2];

    for (int i = 0; i < 2; i++) {
        from[i] = a->shift[i] - (a->out[i] - 1) / 2;
        if (a->resize)
            scale[i] = fabs(rotation[i][0] * a->crop[0] + rotation[i][1] * a->crop[1]) / a->out[i];
    }
    if (a->keep_ratio)
        scale[0] = scale[1] = fmin(scale[0], scale[1]);

    memcpy(h, bzi_homography_none, sizeof bzi_homography_none);
    for (int i = 0; i < 2; i++, h += 3) {
        const double sign = a->flip[i] ? -1 : 1, x = rotation[i][0] * scale[0], y = rotation[i][1] * scale[1];
        h[0] = sign * x;
        h[1] = sign * y;
        h[2] = sign * (x * from[0] + y * from[1] + a->center[i]) + (a->in[i] - 1) / 2;
    }
}

/* Draws a number from lo to hi. A range of no width takes no random number. */
static double bzi_draw(bzna_random *random, double lo, double hi)
{
    return lo < hi ? bzi_random_uniform(random, lo, hi) : lo;
}

static double bzi_draw_around_0(bzna_random *random, double reach) { return bzi_draw(random, -reach, reach); }
static double bzi_draw_in(bzna_random *random, const double range[2]) { return bzi_draw(random, range[0], range[1]); }

/* The same, log-uniform. */
static double bzi_draw_log(bzna_random *random, const double range[2])
{
    const double lo = range[0], hi = range[1];
    return lo < hi ? bzi_math_exp(bzi_random_uniform(random, bzi_math_log(lo), bzi_math_log(hi))) : lo;
}

/* Returns 1 with that probability, else 0. Probabilities of 0 and 1 take no random number. */
static uint32_t bzi_draw_flip(bzna_random *random, double probability)
{
    if (probability <= 0 || probability >= 1)
        return probability >= 1;
    return bzi_random_uniform(random, 0, 1) < probability;
}

/* Both ways of drawing crops fall back on this crop when ten tries found none: the largest centered one within the
 * ratios. */
static void bzi_crop_central(const bzna_warp *p, bzi_affine *a)
{
    const double ratio = a->in[0] / a->in[1];

    memcpy(a->crop, a->in, sizeof a->crop);
    if (ratio < p->ratio[0])
        a->crop[1] = fmax(1, floor(a->in[0] / p->ratio[0] + 0.5));
    else if (ratio > p->ratio[1] && p->ratio[0] > 0)
        a->crop[0] = fmax(1, floor(a->in[1] * p->ratio[1] + 0.5));
}

/* Makes the crop so large, in whole pixels or not. Returns 1 if it fits in the picture, else 0. */
static int bzi_crop_size(bzi_affine *a, double area, double ratio, int is_whole)
{
    int fits = 1;

    a->crop[0] = sqrt(area * ratio);
    a->crop[1] = sqrt(area / ratio);
    for (int i = 0; i < 2; i++) {
        if (is_whole)
            a->crop[i] = floor(a->crop[i] + 0.5);
        fits &= a->crop[i] > 0 && a->crop[i] <= a->in[i];
    }
    return fits;
}

/* Draws the crop of torchvision's RandomResizedCrop: its area is uniform, its ratio log-uniform, and its edges are
 * whole pixels. */
static void bzi_crop_torchvision(bzna_random *random, const bzna_warp *p, bzi_affine *a)
{
    int tries = 0, fits = 0;

    while (!fits && tries++ < 10) {
        const double area = a->in[0] * a->in[1] * bzi_draw_in(random, p->scale);
        const double ratio = p->ratio[0] > 0 ? bzi_draw_log(random, p->ratio) : a->in[0] / a->in[1];
        fits = bzi_crop_size(a, area, ratio, 1);
    }

    for (int i = 0; i < 2 && fits; i++) {
        const double margin = a->in[i] - a->crop[i];
        const double begin = p->random_crop ? floor(bzi_draw(random, 0, margin + 1)) : margin / 2;
        a->center[i] = begin + a->crop[i] / 2 - a->in[i] / 2;
    }
    if (!fits)
        bzi_crop_central(p, a);
}

/* Returns where torchvision's CenterCrop of out pixels begins in `in` pixels; below 0, a margin comes first. Halves are
 * rounded to even numbers where pixels are cut off. Of an odd margin, the larger part is the last. */
static double bzi_center_crop(double in, double out)
{
    const double around = (in - out) / 2;
    return around < 0 ? ceil(around) : rint(around);
}

/* Makes the crop of torchvision's Resize and CenterCrop. Resize makes the edge that is shorter in comparison with the
 * output's output / edge pixels long, and the other one in the picture's ratio, both rounded to whole pixels.
 * CenterCrop takes the middle from a whole pixel on. An output that is larger than the resized picture has a margin. */
static void bzi_crop_resized(double edge, bzi_affine *a)
{
    const int s = a->in[0] * a->out[1] > a->in[1] * a->out[0];    /* the shorter edge; 0: the width, 1: the height */
    double resized[2];

    resized[s] = fmax(1, floor(a->out[s] / edge + 0.5));
    resized[!s] = fmax(1, floor(resized[s] * a->in[!s] / a->in[s]));
    for (int i = 0; i < 2; i++) {
        const double step = a->in[i] / resized[i];
        a->center[i] = (bzi_center_crop(resized[i], a->out[i]) + a->out[i] / 2 - resized[i] / 2) * step;
        a->crop[i] = a->out[i] * step;
    }
    a->keep_ratio = 0;
}

/* Draws a crop by the original's rule: its area is log-uniform and drawn once, then up to ten ratios are tried, then
 * its place is drawn. The kind NONE begins at whole pixels. */
static void bzi_crop_benzina(bzna_random *random, const bzna_warp *p, bzi_affine *a)
{
    const double edge = p->kind == BZNA_WARP_CENTER_RESIZED_CROP ? p->scale[0] : 1;
    const double scale = edge * bzi_draw_log(random, p->scale);
    int tries = 0, fits = !(p->ratio[0] > 0);

    for (int i = 0; i < 2; i++)
        a->crop[i] = a->resize ? a->in[i] * sqrt(scale) : a->out[i];
    while (!fits && tries++ < 10)
        fits = bzi_crop_size(a, scale * a->in[0] * a->in[1], bzi_draw_log(random, p->ratio), 0);

    for (int i = 0; i < 2 && fits; i++) {
        const double margin = fmax(0, (a->in[i] - a->crop[i]) / 2);
        if (p->kind == BZNA_WARP_NONE)
            a->center[i] = bzi_center_crop(a->in[i], a->out[i]) - (a->in[i] - a->out[i]) / 2;
        else if (p->random_crop)
            a->center[i] = bzi_draw_around_0(random, margin);
    }
    if (!fits)
        bzi_crop_central(p, a);
}

/* Draws a random similarity. Pre: `a` has sizes above 0, and nothing else is set. */
static void bzi_warp_similarity(bzna_random *random, const bzna_warp *p, bzi_affine *a, double h[9])
{
    a->resize = p->resize || p->ratio[0] > 0 || p->scale[0] != 1 || p->scale[1] != 1;
    a->keep_ratio = p->keep_ratio;

    if (p->crops != BZNA_CROPS_TORCHVISION || !a->resize)
        bzi_crop_benzina(random, p, a);
    else if (p->kind == BZNA_WARP_CENTER_RESIZED_CROP)
        bzi_crop_resized(p->scale[0], a);
    else
        bzi_crop_torchvision(random, p, a);

    a->degrees = bzi_draw_in(random, p->degrees);
    for (int i = 0; i < 2; i++)
        a->shift[i] = bzi_draw_around_0(random, p->translate[i] * a->out[i]);
    a->flip[0] = bzi_draw_flip(random, p->flip_h);
    a->flip[1] = bzi_draw_flip(random, p->flip_v);
    bzi_affine_matrix(a, h);
}

/* h = a b. h may be a or b. */
static void bzi_homography_multiply(const double a[9], const double b[9], double h[9])
{
    double product[9];
    for (int i = 0; i < 9; i++) {
        const double *row = a + i / 3 * 3, *column = b + i % 3;
        product[i] = row[0] * column[0] + row[1] * column[3] + row[2] * column[6];
    }
    memcpy(h, product, sizeof product);
}

/* Draws a whole number from lo to hi, both included. */
static double bzi_draw_integer(bzna_random *random, double lo, double hi)
{
    return fmin(floor(bzi_draw(random, lo, lo < hi ? hi + 1 : hi)), hi);
}


/* ==== 46. Transforms: MXNet ==========================================================================================
 * Calls: rooms 43-45.
 *
 * What continues runs of MXNet: the warp of its DefaultImageAugmenter, and its shifts of H, L and S, contrast and
 * illumination, with its rounding. BENZINA_NO_MXNET leaves it out. */

#ifndef BENZINA_NO_MXNET

/* Enlarges a size in its ratio to at least the output's height, then to its width. As in MXNet, sizes are whole, and
 * the arithmetic is done in floats. */
static void bzi_mxnet_enlarge(const double out[2], double size[2])
{
    for (int i = 1; i >= 0; i--)
        if (size[i] < out[i]) {
            size[!i] = floor((float)out[i] / (float)size[i] * (float)size[!i]);
            size[i] = out[i];
        }
}

/* Draws the warp of MXNet's DefaultImageAugmenter: it resizes the short edge, transforms the picture onto a canvas,
 * pads, enlarges, crops and mirrors. MXNet's matrix m maps input to output, h the other way. MXNet refuses a square
 * crop (crop_px) that is larger than the canvas; here it is centered. Pre: only the sizes of `a` are set. */
static void bzi_warp_mxnet(bzna_random *random, const bzna_warp *p, const bzi_affine *a, double h[9])
{
    const bzna_mxnet *x = &p->mxnet;
    const double *out = a->out, *given = a->in;
    const double start[2] = { x->crop_x_start, x->crop_y_start };
    const int s = given[0] > given[1];
    double in[2] = { given[0], given[1] }, crop[2] = { out[0], out[1] }, canvas[2], size[2], shown[2];
    double origin[2], step[2];
    if (x->short_edge_px) {
        in[s] = x->short_edge_px;
        in[!s] = floor(x->short_edge_px * given[!s] / given[s]);
    }
    const double shear = bzi_draw_around_0(random, x->shear_ratio);
    const double degrees = bzi_draw_integer(random, p->degrees[0], p->degrees[1]);
    const double k = bzi_draw_in(random, p->scale), ratio = bzi_draw_in(random, p->ratio);
    const double c = bzi_math_cos(degrees), d = bzi_math_sin(degrees), hs = 2 * k / (1 + ratio), ws = ratio * hs;
    const double m[4] = { hs * c - shear * d * ws, hs * d + shear * c * ws, -d * ws, c * ws }, area = hs * ws;
    const double inverse[4] = { m[3] / area, -m[1] / area, -m[2] / area, m[0] / area };
    if (x->crop_px[1])
        crop[0] = crop[1] = bzi_draw_integer(random, x->crop_px[0], x->crop_px[1]);
    for (int i = 0; i < 2; i++) {
        canvas[i] = fmax(fmin(k * in[i], x->canvas_px[1] ? x->canvas_px[1] : 1e10), x->canvas_px[0]);
        size[i] = shown[i] = fmax(1, floor(canvas[i]) + 2.0 * x->pad_px);
    }
    if (!x->crop_px[1])
        bzi_mxnet_enlarge(out, shown);
    for (int i = 0; i < 2; i++) {
        const double room = shown[i] - crop[i], shrink = size[i] / shown[i];
        const double begin = x->has_crop_start ? start[i] :
                             p->random_crop && room > 0 ? bzi_draw_integer(random, 0, room) : floor(room / 2);
        step[i] = shrink * (crop[i] / out[i]);
        origin[i] = shrink * begin - x->pad_px + (step[i] - 1) / 2 -
                    (canvas[i] - (m[2 * i] * in[0] + m[2 * i + 1] * in[1])) / 2;
    }
    memcpy(h, bzi_homography_none, sizeof bzi_homography_none);
    for (int i = 0; i < 2; i++) {                   /* m maps centers of pixels, the resize of the short edge edges */
        const double grow = given[i] / in[i];
        h[3 * i] = grow * inverse[2 * i] * step[0];
        h[3 * i + 1] = grow * inverse[2 * i + 1] * step[1];
        h[3 * i + 2] = grow * (inverse[2 * i] * origin[0] + inverse[2 * i + 1] * origin[1] + 0.5) - 0.5;
    }
    const int flips[2] = { (int)bzi_draw_flip(random, p->flip_h), (int)bzi_draw_flip(random, p->flip_v) };
    for (int i = 0; i < 6; i++)
        if (i % 3 < 2 && flips[i % 3]) {
            h[i / 3 * 3 + 2] += h[i] * (out[i % 3] - 1);
            h[i] = -h[i];
        }
}

/* Draws MXNet's part of a jitter. Shifts of H, L and S are whole numbers; the sum of two draws favors small ones. */
static void bzi_jitter_mxnet(bzna_random *random, const bzna_mxnet *x, bzna_transform *t)
{
    t->clamp_hue |= x->clamp_hue;

    for (int i = 0; i < 3; i++)
        if (x->hls[i] > 0) {
            const double one = bzi_random_uniform(random, 0, 1), four = bzi_random_uniform(random, 0, 4);
            t->hls[i] = (float)trunc(((one + four) / 5 * 2 - 1) * x->hls[i]);
        }

    const double contrast = 1 + bzi_draw_around_0(random, x->contrast);
    const double illumination = bzi_draw_around_0(random, x->illumination);
    for (int i = 0; i < 3 && (contrast != 1 || illumination != 0); i++) {
        t->bias[i] = (float)(t->bias[i] - illumination / contrast);
        t->scale[i] = (float)(t->scale[i] * contrast);
    }
}

#endif


/* ==== 47. Transforms: warps ==========================================================================================
 * Calls: rooms 2, 9, 12, 43, 45-46.
 *
 * Whole warps: a kind's own, then distortions of the output. Checks their settings. */

/* Appends torchvision's RandomAffine without its shift and scale, which turns and shears about the output's middle. */
static void bzi_distort_affine(double rotate, double shear_x, double shear_y, const double size[2], double h[9])
{
    const double angle = rotate - shear_y, cos_y = bzi_math_cos(shear_y), tan_x = bzi_math_tan(shear_x);
    const double a = bzi_math_cos(angle) / cos_y, b = -a * tan_x - bzi_math_sin(rotate);
    const double c = bzi_math_sin(angle) / cos_y, d = -c * tan_x + bzi_math_cos(rotate);
    const double x = (size[0] - 1) / 2, y = (size[1] - 1) / 2;
    const double matrix[9] = { d, -b, x - d * x + b * y, -c, a, y + c * x - a * y, 0, 0, 1 };
    bzi_homography_multiply(h, matrix, h);
}

/* Appends torchvision's perspective, which moves the corners of the output to q, clockwise from the top left one. The
 * corners are whole pixels from 0 to w - 1, which torchvision takes for edges of pixels. The unit square is mapped to
 * the quadrilateral (Heckbert 1989); the inverse, without which none is applied, maps output to input. */
static void bzi_distort_perspective(double q[4][2], const double size[2], double h[9])
{
    double d1[2], d2[2], sum[2], p[9];

    for (int i = 0; i < 2; i++) {
        d1[i] = q[1][i] - q[2][i];
        d2[i] = q[3][i] - q[2][i];
        sum[i] = q[0][i] - q[1][i] + q[2][i] - q[3][i];
    }

    const double det = d1[0] * d2[1] - d2[0] * d1[1];
    const double g = (sum[0] * d2[1] - d2[0] * sum[1]) / det, k = (d1[0] * sum[1] - sum[0] * d1[1]) / det;
    const double a = q[1][0] - q[0][0] + g * q[1][0], b = q[3][0] - q[0][0] + k * q[3][0], c = q[0][0];
    const double d = q[1][1] - q[0][1] + g * q[1][1], e = q[3][1] - q[0][1] + k * q[3][1], f = q[0][1];
    const double w = size[0] - 1, v = size[1] - 1, one = a * e - b * d;
    const double adjugate[9] = { w * (e - f * k), w * (c * k - b), w * (b * f - c * e), v * (f * g - d),
                                 v * (a - c * g), v * (c * d - a * f), d * k - e * g, b * g - a * k, one };
    const double centers[9] = { 1, 0, 0.5, 0, 1, 0.5, 0, 0, 1 }, edges[9] = { 1, 0, -0.5, 0, 1, -0.5, 0, 0, 1 };
    if (!(fabs(det) > 0) || !(w > 0) || !(v > 0) || !(fabs(one) > 0))
        return;

    bzi_homography_multiply(adjugate, centers, p);
    bzi_homography_multiply(edges, p, p);
    for (int i = 0; i < 9; i++)
        p[i] /= one;
    bzi_homography_multiply(h, p, h);
}


/* Draws one warp: its homography from output to input pixels. Pre: bzi_warp_resolve has made it; sizes are above 0. */
static void bzi_warp_draw(bzna_random *random, const bzna_warp *p, const uint32_t in[2], const uint32_t out[2],
                          double h[9])
{
    bzi_affine a = { .in = { in[0], in[1] }, .out = { out[0], out[1] } };
    double rotate, shear_x, shear_y, corners[4][2];

#ifndef BENZINA_NO_MXNET
    if (p->kind == BZNA_WARP_MXNET)
        bzi_warp_mxnet(random, p, &a, h);
    else
#endif
        bzi_warp_similarity(random, p, &a, h);

    rotate = bzi_draw_in(random, p->rotate);
    shear_x = bzi_draw_in(random, p->shear);
    shear_y = bzi_draw_in(random, p->shear + 2);
    if (rotate != 0 || shear_x != 0 || shear_y != 0)
        bzi_distort_affine(rotate, shear_x, shear_y, a.out, h);

    if (p->perspective > 0 && bzi_draw_flip(random, p->perspective_p)) {
        for (int i = 0; i < 8; i++) {                       /* as torchvision's RandomPerspective moves them */
            const int axis = i % 2, far = axis ? i >= 4 : i == 2 || i == 4;
            const double reach = floor(p->perspective * floor(a.out[axis] / 2));
            corners[i / 2][axis] = bzi_draw_integer(random, 0, reach) + (far ? a.out[axis] - 1 - reach : 0);
        }
        bzi_distort_perspective(corners, a.out, h);
    }
}

/* Returns 1 if a pair of numbers was given. */
static int bzi_is_set(const double pair[2]) { return pair[0] != 0 || pair[1] != 0; }

/* Checks a warp's members one by one. where: what messages call the warp, here and below. */
static bzna_status bzi_warp_check(const bzna_warp *w, const char *where, bzna_error *err)
{
#ifdef BENZINA_NO_MXNET
    if (w->kind == BZNA_WARP_MXNET || !bzi_is_zero(&w->mxnet, sizeof w->mxnet))
        return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "%s: this build has nothing of MXNet's (BENZINA_NO_MXNET)", where);
#endif
    return bzi_settings_check(BZI_OF_warp, w, where, err);
}

/* Refuses fields that are set but have no effect on the kind of warp. Pre: that is known. */
static bzna_status bzi_warp_check_effects(const bzna_warp *w, const char *where, bzna_error *err)
{
    enum { RANDOM = 1 << BZNA_WARP_RANDOM_RESIZED_CROP, CENTER = 1 << BZNA_WARP_CENTER_RESIZED_CROP,
           SIMILARITY = 1 << BZNA_WARP_SIMILARITY, MXNET = 1 << BZNA_WARP_MXNET };
    const struct {
        const char *name;
        size_t      offset;           /* of the field, as the next one */
        size_t      bytes;
        uint32_t    kinds;            /* a bit for each kind that reads it */
    } fields[] = {
#define BZI_FIELD(member, kinds) { #member, offsetof(bzna_warp, member), sizeof w->member, kinds }
        BZI_FIELD(scale, RANDOM | CENTER | SIMILARITY | MXNET),
        BZI_FIELD(scale[1], RANDOM | SIMILARITY | MXNET),
        BZI_FIELD(ratio, RANDOM | SIMILARITY | MXNET),
        BZI_FIELD(degrees, SIMILARITY | MXNET),
        BZI_FIELD(translate, SIMILARITY),
        BZI_FIELD(resize, SIMILARITY),
        BZI_FIELD(keep_ratio, SIMILARITY),
        BZI_FIELD(random_crop, SIMILARITY | MXNET),
        BZI_FIELD(crops, RANDOM | CENTER | SIMILARITY),
        BZI_FIELD(perspective_p, w->perspective != 0 ? ~0u : 0),
        BZI_FIELD(mxnet.crop_x_start, w->mxnet.has_crop_start ? MXNET : 0),
        BZI_FIELD(mxnet.crop_y_start, w->mxnet.has_crop_start ? MXNET : 0),
        { "mxnet.shear_ratio to crop_y_start", offsetof(bzna_warp, mxnet), offsetof(bzna_mxnet, hls), MXNET },
#undef BZI_FIELD
    };

    for (size_t i = 0; i < BZI_LENGTH(fields); i++)
        if (!(fields[i].kinds >> w->kind & 1) && !bzi_is_zero((const uint8_t *)w + fields[i].offset, fields[i].bytes))
            return BZI_MISUSE(err, "%s.%s: has no effect on this kind of warp (%u)", where, fields[i].name, w->kind);

    return BZNA_OK;
}

/* Checks a warp, and fills in its defaults. Both numbers of a CENTER_RESIZED_CROP's scale become its edge. */
static bzna_status bzi_warp_resolve(const bzna_warp *given, const char *where, bzna_warp *w, bzna_error *err)
{
    const uint32_t is_center = given->kind == BZNA_WARP_CENTER_RESIZED_CROP;
    const uint32_t is_random = given->kind == BZNA_WARP_RANDOM_RESIZED_CROP;
    const bzna_mxnet *m = &w->mxnet;
    const char *fault;

    if (bzi_warp_check(given, where, err) != BZNA_OK || bzi_warp_check_effects(given, where, err) != BZNA_OK)
        return err->status;

    *w = *given;
    if (!bzi_is_set(w->scale)) {
        w->scale[0] = is_random ? 0.08 : 1;
        w->scale[1] = 1;
    } else if (is_center) {
        w->scale[1] = w->scale[0];
    }
    if (!bzi_is_set(w->ratio) && (is_random || w->kind == BZNA_WARP_MXNET)) {
        w->ratio[0] = is_random ? 3.0 / 4 : 1;
        w->ratio[1] = is_random ? 4.0 / 3 : 1;
    }

    w->crops = bzi_default(w->crops, is_random || is_center ? BZNA_CROPS_TORCHVISION : BZNA_CROPS_BENZINA);
    w->resize |= is_random | is_center;
    w->keep_ratio |= is_center;
    w->random_crop |= is_random;
    if (w->perspective > 0 && w->perspective_p == 0)
        w->perspective_p = 0.5;

    fault = !(w->scale[0] >= DBL_MIN && w->scale[1] >= w->scale[0] && w->scale[1] <= (is_center ? 1e3 : 1e6)) ?
                "scale" :
            bzi_is_set(w->ratio) && !(w->ratio[0] >= DBL_MIN) ? "ratio" :
            m->canvas_px[1] && m->canvas_px[0] > m->canvas_px[1] ? "mxnet.canvas_px" :
            m->crop_px[0] > m->crop_px[1] || (m->crop_px[1] && !m->crop_px[0]) ? "mxnet.crop_px" : NULL;
    if (fault)
        return BZI_MISUSE(err, "%s.%s: out of its range, or not lo..hi", where, fault);
    return BZNA_OK;
}


/* ==== 48. Transforms: color =========================================================================================
 * Calls: rooms 2, 45-46.
 *
 * Turns jitter and random numbers into the colors of a transform, and descriptions of colors into coefficients. */

/* Replaces groups of zeros by the identities that they stand for. */
static void bzi_transform_resolve(bzna_transform *t)
{
    if (bzi_is_zero(t->homography, sizeof t->homography))
        t->homography[0] = t->homography[4] = t->homography[8] = 1;
    if (bzi_is_zero(t->color, sizeof t->color))
        t->color[0] = t->color[5] = t->color[10] = 1;
    for (int i = 0; i < 3; i++)
        if (t->scale[i] == 0)
            t->scale[i] = 1;
}

/* Makes the transform that changes nothing. */
static void bzi_transform_init(bzna_transform *t)
{
    memset(t, 0, sizeof *t);
    t->struct_size = sizeof *t;
    bzi_transform_resolve(t);
}

/* Returns 1 if a matrix of 3 rows of 4 changes nothing, else 0. */
static int bzi_color_is_identity(const float color[12])
{
    for (int i = 0; i < 12; i++)
        if (color[i] != (i % 5 == 0 ? 1 : 0))
            return 0;
    return 1;
}

/* Draws the jitter of one sample into t. mxnet: MXNet's colors, or NULL. Pre: both were checked. */
static void bzi_jitter_draw(bzna_random *random, const bzna_jitter *j, const bzna_mxnet *mxnet, bzna_transform *t)
{
    const float *ranges[4] = { j->brightness, j->contrast, j->saturation, j->hue };
    float *drawn[4] = { &t->brightness, &t->contrast, &t->saturation, &t->hue };

    for (int i = 0; i < 4; i++)
        if (ranges[i][0] != 0 || ranges[i][1] != 0) {
            *drawn[i] = (float)bzi_draw(random, ranges[i][0], ranges[i][1]);
            *drawn[i] = *drawn[i] != 0 || i == 3 ? *drawn[i] : FLT_MIN;      /* a factor of 0 stands for 1 */
        }

    t->grayscale |= bzi_draw_flip(random, j->grayscale);
#ifndef BENZINA_NO_MXNET
    if (mxnet)
        bzi_jitter_mxnet(random, mxnet, t);
#endif
    (void)mxnet;
}

/* Finds the luma weights of red and blue for a matrix code point (ISO/IEC 23091-2, table 4). An unspecified matrix is
 * BT.601, as in JFIF. Returns 0 for a code point that has no such weights. */
static int bzi_color_weights(uint32_t matrix, double *kr, double *kb)
{
    switch (matrix) {
    case 1:                         *kr = 0.2126; *kb = 0.0722; return 1;    /* BT.709 */
    case 2: case 5: case 6:         *kr = 0.299;  *kb = 0.114;  return 1;    /* BT.601 */
    case 4:                         *kr = 0.30;   *kb = 0.11;   return 1;    /* FCC */
    case 7:                         *kr = 0.212;  *kb = 0.087;  return 1;    /* SMPTE 240M */
    case 9: case 10:                *kr = 0.2627; *kb = 0.0593; return 1;    /* BT.2020 */
    default: return 0;
    }
}

/* Returns the colors of a stream, with the code point and the range that a setting, BZNA_MATRIX_..., forces. */
static bzna_color bzi_color_forced(uint32_t matrix, bzna_color stream)
{
    static const struct {
        uint8_t matrix, full;
    } forced[] = { { 0, 0 }, { 5, 1 }, { 5, 0 }, { 1, 0 }, { 9, 0 }, { 1, 1 }, { 9, 1 } };

    if (matrix != BZNA_MATRIX_AUTO) {
        stream.matrix = forced[matrix].matrix;
        stream.full_range = forced[matrix].full;
    }
    return stream;
}


/* ==== 49. Policies =================================================================================================
 * Calls: rooms 2, 9, 12, 44-45, 47.
 *
 * Policies and random numbers become the operations of a transform. Those that move pixels go into its homography. */

#ifndef BENZINA_NO_AUGMENT
/* The least and the most magnitude of each kind of operations; 0, 0: it has none. */
static const float bzi_op_ranges[BZNA_OP_GRID_MASK + 1][2] = {
    [BZNA_OP_SHEAR_X] = { -10, 10 },
    [BZNA_OP_SHEAR_Y] = { -10, 10 },
    [BZNA_OP_TRANSLATE_X] = { -10, 10 },
    [BZNA_OP_TRANSLATE_Y] = { -10, 10 },
    [BZNA_OP_TRANSLATE_X_PX] = { -65536, 65536 },
    [BZNA_OP_TRANSLATE_Y_PX] = { -65536, 65536 },
    [BZNA_OP_ROTATE] = { -1e6f, 1e6f },
    [BZNA_OP_BRIGHTNESS] = { -1, 1e6f },
    [BZNA_OP_CONTRAST] = { -1, 1e6f },
    [BZNA_OP_SATURATION] = { -1, 1e6f },
    [BZNA_OP_HUE] = { -0.5f, 0.5f },
    [BZNA_OP_GAMMA] = { 1e-6f, 65535 },
    [BZNA_OP_POSTERIZE] = { 0, 8 },
    [BZNA_OP_SOLARIZE] = { 0, 256 },
    [BZNA_OP_SOLARIZE_ADD] = { -255, 255 },
    [BZNA_OP_LIGHTING] = { 0, 100 },
    [BZNA_OP_SHARPNESS] = { -1, 1e6f },
    [BZNA_OP_BLUR] = { 1e-3f, 1000 },
    [BZNA_OP_ERASE] = { FLT_MIN, 1 },
    [BZNA_OP_CUTOUT] = { 0, 1 },
    [BZNA_OP_GRID_MASK] = { FLT_MIN, 1 },
};

/* Return 1 for operations that move pixels, that change them, and that cover them. */
static int bzi_op_moves(uint32_t kind) { return kind >= BZNA_OP_SHEAR_X && kind <= BZNA_OP_ROTATE; }
static int bzi_op_is_pixels(uint32_t kind) { return kind >= BZNA_OP_BRIGHTNESS && kind <= BZNA_OP_BLUR; }
static int bzi_op_covers(uint32_t kind) { return kind >= BZNA_OP_ERASE && kind <= BZNA_OP_GRID_MASK; }

/* Returns 1 if there is such a kind. */
static int bzi_op_exists(uint32_t kind)
{
    return kind == BZNA_OP_IDENTITY || bzi_op_moves(kind) || bzi_op_is_pixels(kind) || bzi_op_covers(kind);
}

#define BZI_BLUR_MOST 63u             /* pixels along an edge of a blur's kernel */
#define BZI_BLUR_USUAL 23u            /* the default */

/* Returns 1 if all numbers lie between least and most, which NaN does not. */
static int bzi_within(const float *numbers, int count, double least, double most)
{
    for (int i = 0; i < count; i++)
        if (!(numbers[i] >= least && numbers[i] <= most))
            return 0;
    return 1;
}

/* Returns 1 if a blur's kernel may be so large. */
static int bzi_blur_fits(uint32_t kernel_px) { return kernel_px <= BZI_BLUR_MOST && (!kernel_px || kernel_px % 2); }

/* Returns the name of a member of a transform's operation that is out of its range, or NULL. */
static const char *bzi_drawn_fault(const bzna_drawn *d)
{
    const int shuffles = d->kind == BZNA_OP_SHUFFLE;

    if (!bzi_op_exists(d->kind))
        return "kind";
    const float *range = bzi_op_ranges[d->kind];
    const int is_sized = bzi_op_is_pixels(d->kind) && range[0] < range[1];
    for (int i = 0; i < 4; i++)
        if (d->area[i] < 0 || d->area[i] > (int32_t)BZI_LIMIT_EDGE)
            return "area";
    for (int i = 0; i < 3 && shuffles; i++)
        if (d->value[i] != floorf(d->value[i]))
            return "value";
    return !bzi_within(&d->magnitude, 1, is_sized ? range[0] : -FLT_MAX, is_sized ? range[1] : FLT_MAX) ? "magnitude" :
           !bzi_blur_fits(d->kernel_px) ? "kernel_px" :
           d->value_space > BZNA_FILL_OUTPUT ? "value_space" :
           !bzi_within(d->value, 3, shuffles ? 0 : -FLT_MAX, shuffles ? 2 : FLT_MAX) ? "value" :
           !bzi_within(&d->noise, 1, 0, FLT_MAX) ? "noise" : NULL;
}


/* Returns the name of a member of an operation that is out of its range, or has no effect; or NULL. */
static const char *bzi_operation_fault(const bzna_operation *o)
{
    const int erases = o->kind == BZNA_OP_ERASE, is_grid = o->kind == BZNA_OP_GRID_MASK;

    if (!bzi_op_exists(o->kind))
        return "kind";
    const float *range = bzi_op_ranges[o->kind];
    const int sized = range[0] < range[1], covers = bzi_op_covers(o->kind);
    const double most = o->sign ? fmin(range[1], -range[0]) : range[1];
    const int ratio_fits =
        (o->ratio[0] == 0 && o->ratio[1] == 0) ||
        (erases && bzi_within(o->ratio, 2, 1e-3, 1e3) && o->ratio[0] <= o->ratio[1]) ||
        (is_grid && bzi_within(o->ratio, 1, 0, 1) && o->ratio[1] == 0);
    return o->sign > (uint32_t)sized ? "sign" :
           !bzi_within(o->magnitude, 2, sized ? range[0] : -FLT_MAX, sized ? most : FLT_MAX) ? "magnitude" :
           !bzi_blur_fits(o->kernel_px) || (o->kernel_px && o->kind != BZNA_OP_BLUR) ? "kernel_px" :
           !ratio_fits ? "ratio" :
           !bzi_within(o->value, 3, covers ? -1e30 : 0, covers ? 1e30 : 0) ? "value" :
           o->value_space > (covers ? BZNA_FILL_OUTPUT : 0) ? "value_space" :
           !bzi_within(&o->noise, 1, 0, erases ? 1e30 : 0) ? "noise" : NULL;
}

/* Returns how many groups a policy draws. */
static uint32_t bzi_policy_draws(const bzna_policy *p)
{
    const uint32_t groups = p->operation_count / bzi_default(p->group_size, 1);
    return p->apply == BZNA_POLICY_CHOOSE ? bzi_default(p->draws, 1) : p->apply == BZNA_POLICY_ALL ? groups :
                                                                     bzi_default(p->draws, groups);
}

/* Returns the name of a member of a policy that is out of its range, or NULL. */
static const char *bzi_policy_fault(const bzna_policy *p)
{
    const uint32_t size = bzi_default(p->group_size, 1);

    const uint32_t most = p->apply == BZNA_POLICY_ALL ? 0 :
                          p->apply == BZNA_POLICY_SHUFFLE ? p->operation_count / size : BZI_LIMIT_OPERATIONS;

    return !p->operations ? "operations" :
           p->operation_count % size ? "group_size" :
           p->draws > most ? "draws" :
           p->bins == 1 || p->bins > 1000000 ? "bins" :
           p->bin[0] > p->bin[1] || p->bin[1] > (p->bins ? p->bins - 1 : 0) ? "bin" : NULL;
}

/* Returns how many operations policies may draw for a view, at most. */
static uint32_t bzi_augment_most(const bzna_loader_augment *a)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < a->policy_count; i++)
        most += bzi_policy_draws(&a->policies[i]) * bzi_default(a->policies[i].group_size, 1);
    return most;
}

/* Checks an output's policies. where: what messages call them. moves: 1 if they may join the warp. */
static bzna_status bzi_augment_check(const bzna_loader_augment *a, const char *where, int moves, bzna_error *err)
{
    const char *fault;
    char name[128], part[160];

    if (bzi_settings_check(BZI_OF_loader_augment, a, where, err) != BZNA_OK)
        return err->status;

    for (uint32_t i = 0; i < a->policy_count; i++) {
        const bzna_policy *p = &a->policies[i];
        snprintf(name, sizeof name, "%s.policies[%u]", where, i);
        if (bzi_settings_check(BZI_OF_policy, p, name, err) != BZNA_OK)
            return err->status;
        if ((fault = bzi_policy_fault(p)) != NULL)
            return BZI_MISUSE(err, "%s.%s: out of its range", name, fault);
        for (uint32_t k = 0; k < p->operation_count; k++) {
            const bzna_operation *o = &p->operations[k];
            snprintf(part, sizeof part, "%s.operations[%u]", name, k);
            if (bzi_settings_check(BZI_OF_operation, o, part, err) != BZNA_OK)
                return err->status;
            if ((fault = bzi_operation_fault(o)) != NULL)
                return BZI_MISUSE(err, "%s.%s: out of its range, not a number, or without effect on this kind (%u)",
                                  part, fault, o->kind);
            if (!moves && bzi_op_moves(o->kind))
                return BZI_MISUSE(err, "%s.kind: it moves pixels, and the output has the first one's warp", part);
        }
    }

    if (bzi_augment_most(a) > BZNA_OPERATIONS_MAX)
        return BZI_MISUSE(err, "%s: its policies may draw %u operations for a view, and %u are allowed", where,
                          bzi_augment_most(a), BZNA_OPERATIONS_MAX);
    return BZNA_OK;
}

/* --- Drawing --- */

static double bzi_draw_magnitude(bzna_random *random, const bzna_policy *p, const bzna_operation *o)
{
    const double from = o->magnitude[0], to = o->magnitude[1];

    if (from == to || bzi_op_ranges[o->kind][0] == bzi_op_ranges[o->kind][1])
        return from;
    if (p->bins)
        return from + (to - from) * (bzi_draw_integer(random, p->bin[0], p->bin[1]) / (p->bins - 1.0));
    return bzi_draw(random, fmin(from, to), fmax(from, to));
}

/* Draws the rectangle of torchvision's RandomErasing. out: width and height of the output. */
static void bzi_draw_erase(bzna_random *random, const bzna_policy *p, const bzna_operation *o, const double out[2],
                           bzna_drawn *d)
{
    const double ratios[2] = { o->ratio[0] != 0 ? o->ratio[0] : 0.3, o->ratio[1] != 0 ? o->ratio[1] : 3.3 };

    for (int i = 0; i < 10; i++) {
        const double share = bzi_draw_magnitude(random, p, o), ratio = bzi_draw_log(random, ratios);
        const double area = out[0] * out[1] * share, edge[2] = { rint(sqrt(area / ratio)), rint(sqrt(area * ratio)) };

        d->magnitude = (float)share;
        if (edge[0] < out[0] && edge[1] < out[1]) {
            for (int k = 1; k >= 0; k--) {                  /* the top is drawn first */
                d->area[k] = (int32_t)bzi_draw_integer(random, 0, out[k] - edge[k]);
                d->area[2 + k] = d->area[k] + (int32_t)edge[k];
            }
            break;
        }
    }

    for (int i = 0; i < 2 && o->noise > 0; i++)
        d->key[i] = bzi_random_u32(random);
}

/* Draws a square of DeVries and Taylor's Cutout, or where the squares of a grid lie. */
static void bzi_draw_squares(bzna_random *random, const bzna_operation *o, const double out[2], bzna_drawn *d)
{
    const double edge = floor(d->magnitude * fmin(out[0], out[1]) + 0.5);

    for (int i = 0; i < 2 && o->kind == BZNA_OP_CUTOUT; i++) {
        const double from = bzi_draw_integer(random, 0, out[i] - 1) - floor(edge / 2);
        d->area[i] = (int32_t)fmax(from, 0);
        d->area[2 + i] = (int32_t)fmin(from + edge, out[i]);
    }

    if (o->kind == BZNA_OP_GRID_MASK) {
        d->area[2] = (int32_t)fmax(edge, 1);
        d->area[3] = (int32_t)floor(d->area[2] * (o->ratio[0] != 0 ? (double)o->ratio[0] : 0.5) + 0.5);
        for (int i = 0; i < 2; i++)
            d->area[i] = (int32_t)bzi_draw_integer(random, 0, d->area[2] - 1);
    }
}

/* Draws AlexNet's lighting noise: the principal components of ImageNet's colors, in 0..1. */
static void bzi_draw_lighting(bzna_random *random, bzna_drawn *d)
{
    static const double values[3] = { 0.2175, 0.0188, 0.0045 };
    static const double vectors[3][3] = { { -0.5675, 0.7192, 0.4009 },
                                          { -0.5808, -0.0045, -0.8140 },
                                          { -0.5836, -0.6948, 0.4203 } };
    double sums[3] = { 0 };

    for (int k = 0; k < 3; k++) {
        double normal = -6;
        for (int i = 0; i < 12; i++)
            normal += bzi_random_uniform(random, 0, 1);
        for (int c = 0; c < 3; c++)
            sums[c] += vectors[c][k] * values[k] * normal * d->magnitude;
    }
    for (int c = 0; c < 3; c++)
        d->value[c] = (float)(255 * sums[c]);
}

/* Moves the picture of an output: m maps pixels of the output to those that it shows instead. */
static void bzi_augment_move(const bzna_drawn *d, const double out[2], int beyond_crop, bzna_transform *t)
{
    const double by = d->magnitude;
    const int axis = d->kind == BZNA_OP_SHEAR_Y || d->kind == BZNA_OP_TRANSLATE_Y || d->kind == BZNA_OP_TRANSLATE_Y_PX;
    const int is_share = d->kind == BZNA_OP_TRANSLATE_X || d->kind == BZNA_OP_TRANSLATE_Y;
    double m[9], clip[9];

    memcpy(m, bzi_homography_none, sizeof m);
    if (d->kind == BZNA_OP_ROTATE) {
        bzi_distort_affine(-by, 0, 0, out, m);
    } else if (d->kind == BZNA_OP_SHEAR_X || d->kind == BZNA_OP_SHEAR_Y) {
        m[1 + 2 * axis] = by;
        m[2 + 3 * axis] = by / 2;
    } else {
        m[2 + 3 * axis] = -trunc(by * (is_share ? out[axis] : 1));
    }

    bzi_homography_multiply(t->homography, m, t->homography);
    if (beyond_crop)
        return;
    memcpy(clip, bzi_homography_none, sizeof clip);
    if (bzi_is_zero(t->clip, sizeof t->clip))
        memcpy(t->clip_size, out, sizeof t->clip_size);
    else
        memcpy(clip, t->clip, sizeof t->clip);
    bzi_homography_multiply(clip, m, clip);
    memcpy(t->clip, clip, sizeof t->clip);
}

/* Pre: the transform has a place for the operation. All numbers come from one stream, so another order of the draws
 * would change the pictures of a seed. */
static void bzi_operation_draw(bzna_random *random, const bzna_policy *p, const bzna_operation *o, const double out[2],
                               int beyond_crop, bzna_transform *t)
{
    static const float orders[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
    bzna_drawn *d = &t->operations[t->operation_count];

    if (o->probability > 0 && !bzi_draw_flip(random, o->probability))
        return;

    memset(d, 0, sizeof *d);
    t->operation_count++;
    d->kind = o->kind;
    d->kernel_px = o->kind == BZNA_OP_BLUR ? bzi_default(o->kernel_px, BZI_BLUR_USUAL) : 0;
    d->value_space = o->value_space;
    d->noise = o->noise;
    memcpy(d->value, o->value, sizeof d->value);
    if (o->kind == BZNA_OP_ERASE) {
        bzi_draw_erase(random, p, o, out, d);
        return;
    }

    d->magnitude = (float)bzi_draw_magnitude(random, p, o);
    if (o->sign && bzi_draw_flip(random, 0.5))
        d->magnitude = -d->magnitude;
    if (o->kind == BZNA_OP_POSTERIZE)
        d->magnitude = floorf(d->magnitude + 0.5f);
    if (o->kind == BZNA_OP_CUTOUT || o->kind == BZNA_OP_GRID_MASK)
        bzi_draw_squares(random, o, out, d);
    else if (o->kind == BZNA_OP_LIGHTING)
        bzi_draw_lighting(random, d);
    else if (o->kind == BZNA_OP_SHUFFLE)
        memcpy(d->value, orders[(int)bzi_draw_integer(random, 0, 5)], sizeof d->value);
    else if (bzi_op_moves(o->kind))
        bzi_augment_move(d, out, beyond_crop, t);
}

/* Draws the operations of all policies. Pre: they were checked, and the transform has places for them. */
static void bzi_augment_draw(bzna_random *random, const bzna_loader_augment *a, const uint32_t size[2],
                             bzna_transform *t)
{
    const double out[2] = { size[0], size[1] };

    for (uint32_t i = 0; i < a->policy_count; i++) {
        const bzna_policy *p = &a->policies[i];
        const uint32_t group = bzi_default(p->group_size, 1), groups = p->operation_count / group;
        const uint32_t draws = bzi_policy_draws(p);
        uint16_t order[BZI_LIMIT_OPERATIONS];

        if (p->probability > 0 && !bzi_draw_flip(random, p->probability))
            continue;
        for (uint32_t k = 0; k < groups; k++)
            order[k] = (uint16_t)k;
        for (uint32_t k = 0; k < draws; k++) {
            uint32_t chosen = k;
            if (p->apply == BZNA_POLICY_CHOOSE) {
                chosen = (uint32_t)bzi_draw_integer(random, 0, groups - 1.0);
            } else if (p->apply == BZNA_POLICY_SHUFFLE) {     /* those that are left lie from k on */
                const uint32_t at = (uint32_t)bzi_draw_integer(random, k, groups - 1.0);
                chosen = order[at];
                order[at] = order[k];
            }
            for (uint32_t n = 0; n < group; n++)
                bzi_operation_draw(random, p, &p->operations[chosen * group + n], out, (int)a->beyond_crop, t);
        }
    }
}

#else

static bzna_status bzi_augment_check(const bzna_loader_augment *a, const char *where, int moves, bzna_error *err)
{
    (void)moves;
    return a->policies || a->policy_count ? BZI_FAIL(err, BZNA_E_UNSUPPORTED, "%s: this build has no policies "
                                                     "(BENZINA_NO_AUGMENT)", where) : BZNA_OK;
}
#endif


/* ==== 50. Kernels on the CPU ========================================================================================
 * Calls: rooms 2, 9, 12, 16, 48-49.
 *
 * benzina_kernels.cu does the arithmetic. This room turns a picture and a transform into the slot that it reads. */

_Static_assert(BZI_LIMIT_SESSION_MAPPED == BZI_KERNEL_SLOTS, "a launch warps as many pictures as a session may map");

static bzna_status bzi_filter_check(const char *where, uint32_t filter, uint32_t antialias, bzna_error *err)
{
    return filter != BZNA_FILTER_AREA || antialias != BZNA_ANTIALIAS_OFF ? BZNA_OK :
               BZI_MISUSE(err, "%s.antialias: the area filter takes the mean of the pixels that it covers; its "
                          "antialiasing cannot be switched off", where);
}

static bzna_status bzi_transform_check(const bzna_transform *t, bzna_error *err)
{
    if (bzi_settings_check(BZI_OF_transform, t, "transform", err) != BZNA_OK)
        return err->status;
#ifdef BENZINA_NO_AUGMENT
    if (t->operation_count)
        return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "transform.operations: this build has none (BENZINA_NO_AUGMENT)");
#else
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const char *const fault = bzi_drawn_fault(&t->operations[i]);
        if (fault)
            return BZI_MISUSE(err, "transform.operations[%u].%s: out of its range, or not a number", i, fault);
    }
#endif
    return bzi_filter_check("transform", t->filter, t->antialias, err);
}

/* The shares of R, G and B in a gray: PIL's and torchvision's. */
static const float bzi_luma[3] = { 0.299f, 0.587f, 0.114f };

/* Fills in the colors of a slot, which a slot of a failed sample needs as well. bias and scale apply to the channels
 * that are delivered, and to a fill in R, G, B, which is converted to those first. */
static void bzi_slot_colors(bzi_kernel_slot *slot, const bzna_transform *t, uint32_t channels)
{
    const int is_gray = channels == BZNA_CHANNELS_GRAY, is_bgr = channels == BZNA_CHANNELS_BGR;

    memcpy(slot->color, t->color, sizeof slot->color);
    slot->flags = bzi_color_is_identity(t->color) ? 0 : BZI_KERNEL_COLOR;
    slot->flags |= (is_gray ? BZI_KERNEL_GRAY : 0) | (t->fill_space == BZNA_FILL_RGB ? BZI_KERNEL_FILL_MEAN : 0);
    memcpy(slot->luma, bzi_luma, sizeof bzi_luma);

    for (int i = 0; i < 3; i++) {
        const float fill = is_gray ? bzi_kernel_luma(bzi_luma, t->fill) : t->fill[is_bgr ? 2 - i : i];
        slot->bias[i] = t->bias[i];
        slot->scale[i] = t->scale[i];
        slot->fill[i] = t->fill_space == BZNA_FILL_OUTPUT ? t->fill[i] : (fill - t->bias[i]) * t->scale[i];
    }
}


/* Fills in the jitter of a slot, after its matrices. Brightness, saturation and gray alone go into these. A brightness
 * above 1 goes into slot->rgb, after which the kernel clamps, as torchvision does; one below 1 needs no clamp and goes
 * into slot->color. Everything else is done step by step (BZI_KERNEL_JITTER). */
static void bzi_slot_jitter(bzi_kernel_slot *slot, const bzna_transform *t)
{
    const float brightness = t->brightness != 0 ? t->brightness : 1, contrast = t->contrast != 0 ? t->contrast : 1;
    const float saturation = t->saturation != 0 ? t->saturation : 1;
    const float lit = brightness < 1 ? brightness : 1, blend = t->grayscale ? 0 : saturation;
    const int shifts = t->hls[0] != 0 || t->hls[1] != 0 || t->hls[2] != 0, turns = t->hue != 0;
    const int is_linear = !shifts && !turns && contrast == 1 && !(t->grayscale && saturation > 1);

    if (brightness == 1 && saturation == 1 && !t->grayscale && is_linear)
        return;

    if (is_linear && !(slot->flags & BZI_KERNEL_COLOR)) {
        for (int i = 0; i < 12; i++) {
            slot->rgb[i] *= brightness / lit;
            if (i % 4 < 3)
                slot->color[i] = lit * (slot->color[i] * blend + (1 - blend) * slot->luma[i % 4]);
        }
        slot->flags |= BZI_KERNEL_COLOR;
        return;
    }

    slot->flags |= BZI_KERNEL_JITTER | (shifts ? BZI_KERNEL_SHIFT : 0) | (turns ? BZI_KERNEL_HUE : 0) |
                   (contrast != 1 ? BZI_KERNEL_MEAN_LUMA : 0);
    slot->hls[0] = t->hls[0] / 30;
    slot->hls[1] = t->hls[1];
    slot->hls[2] = t->hls[2] / 255;
    slot->round = t->clamp_hue ? 0.0f : 6.0f;
    slot->brightness = brightness;
    slot->contrast = contrast;
    slot->saturation = saturation;
    slot->hue = t->hue * 6;
    slot->vivid = t->grayscale ? 0.0f : 1.0f;
}

/* Makes a slot deliver B, G, R, by the order of the last matrix's rows. With jitter the kernel swaps. */
static void bzi_slot_swap(bzi_kernel_slot *slot)
{
    if (slot->flags & BZI_KERNEL_JITTER) {
        slot->flags |= BZI_KERNEL_SWAP;
        return;
    }

    float *matrix = slot->flags & BZI_KERNEL_COLOR ? slot->color : slot->rgb;
    for (int i = 0; i < 4; i++) {
        float red = matrix[i];
        matrix[i] = matrix[8 + i];
        matrix[8 + i] = red;
    }
}

/* Returns 1 if the planes are G, B and R. */
static int bzi_picture_is_rgb(const bzna_picture *picture)
{
    return picture->plane[1] && picture->color.matrix == 0 && !picture->chroma_shift_x && !picture->chroma_shift_y;
}

/* Fills in the matrix that turns a picture's planes into R'G'B': one with luma weights, or YCgCo's. Planes of G, B and
 * R, and gray, need none, whatever matrix is forced; a forced range applies to gray. */
static bzna_status bzi_slot_matrix(bzi_kernel_slot *slot, const bzna_picture *picture, uint32_t forced, bzna_error *err)
{
    const int is_gray = !picture->plane[1], is_rgb = bzi_picture_is_rgb(picture);
    const bzna_color color = is_rgb ? picture->color : bzi_color_forced(forced, picture->color);
    double kr, kb;

    if (is_gray || is_rgb)
        bzi_kernel_identity_matrix(is_gray, color.full_range, slot->depth, slot->rgb);
    else if (color.matrix == 8)
        bzi_kernel_ycgco_matrix(color.full_range, slot->depth, slot->rgb);
    else if (bzi_color_weights(color.matrix, &kr, &kb))
        bzi_kernel_rgb_matrix(kr, kb, color.full_range, slot->depth, slot->rgb);
    else
        return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "color matrix %u is not supported", color.matrix);
    return BZNA_OK;
}


/* Returns 1 if width and height of a picture are exchanged when it is seen. */
static uint32_t bzi_picture_is_turned(const bzna_picture *picture) { return picture->orientation > 4; }

/* Return the size of a picture as it is seen. */
static uint32_t bzi_picture_width(const bzna_picture *picture)
{
    return bzi_picture_is_turned(picture) ? picture->height : picture->width;
}

static uint32_t bzi_picture_height(const bzna_picture *picture)
{
    return bzi_picture_is_turned(picture) ? picture->width : picture->height;
}

/* `given` maps the output to the picture as it is seen, turned and mirrored by EXIF's number. h becomes the map to the
 * picture in its planes. Integers are centers of pixels, so a mirrored x is last - x. */
static void bzi_picture_orient(const bzna_picture *picture, const double given[9], double h[9])
{
    const double last[2] = { picture->width - 1.0, picture->height - 1.0 };

    memcpy(h, given, 9 * sizeof *h);
    for (int row = 0; row < 2; row++) {
        const double *from = given + 3 * (bzi_picture_is_turned(picture) ? 1 - row : row);
        const int8_t *o = &bzi_orientations[picture->orientation][2 * row];
        const int is_mirrored = o[0] + o[1] < 0;
        for (int i = 0; i < 3; i++)
            h[3 * row + i] = is_mirrored ? last[row] * given[6 + i] - from[i] : from[i];
    }
}

/* Returns the bytes of a sample of so many bits. */
static uint32_t bzi_sample_bytes(uint32_t depth) { return depth > 8 ? 2 : 1; }

/* Tells a slot where the samples of its picture are. */
static void bzi_slot_planes(bzi_kernel_slot *slot, const bzna_picture *picture)
{
    for (int i = 0; i < 3; i++) {
        slot->plane[i] = (uint64_t)(uintptr_t)picture->plane[i];
        slot->pitch[i] = (int32_t)picture->pitch[i];
        slot->step[i] = (int32_t)bzi_default(picture->step[i], bzi_sample_bytes(picture->depth));
    }
}

/* Makes the slot that warps a picture by a transform. channels: BZNA_CHANNELS_... Fails if the picture's color matrix
 * is not known. Pre: the transform was checked. */
static bzna_status bzi_slot_make(bzi_kernel_slot *slot, const bzna_picture *picture, const bzna_transform *t,
                                 uint32_t channels, bzna_error *err)
{
    double h[9];
    int rounds;

    memset(slot, 0, sizeof *slot);
    bzi_slot_planes(slot, picture);
    slot->x0 = (int32_t)picture->crop_x;
    slot->y0 = (int32_t)picture->crop_y;
    slot->x1 = (int32_t)(picture->crop_x + picture->width - 1);
    slot->y1 = (int32_t)(picture->crop_y + picture->height - 1);
    slot->shift_x = (int32_t)picture->chroma_shift_x;
    slot->shift_y = (int32_t)picture->chroma_shift_y;
    slot->left = (int32_t)picture->chroma_left;
    slot->top = (int32_t)picture->chroma_top;
    slot->depth = (int32_t)picture->depth;
    slot->filter = t->filter;

    if (bzi_slot_matrix(slot, picture, t->matrix, err) != BZNA_OK)
        return err->status;

    bzi_picture_orient(picture, t->homography, h);
    for (int i = 0; i < 9; i++)
        slot->h[i] = (float)h[i];
    /* the passes of a filter can be rounded if they are two, and the planes are what PIL filters */
    rounds = slot->filter != BZNA_FILTER_NEAREST && bzi_kernel_is_separable(slot->h) &&
             (!picture->plane[1] || bzi_picture_is_rgb(picture));
    slot->antialias = t->antialias != BZNA_ANTIALIAS_ROUND || rounds ? t->antialias : BZNA_ANTIALIAS_AUTO;

    bzi_slot_colors(slot, t, channels);
    if (!bzi_is_zero(t->clip, sizeof t->clip)) {            /* outside of which the slot is fill */
        slot->flags |= BZI_KERNEL_CLIP;
        for (int i = 0; i < 6; i++)
            slot->clip[i] = (float)t->clip[i];
        for (int i = 0; i < 2; i++)
            slot->clip_last[i] = (float)(t->clip_size[i] - 1);
    }
    bzi_slot_jitter(slot, t);
    if (channels == BZNA_CHANNELS_BGR)
        bzi_slot_swap(slot);
    return BZNA_OK;
}

/* Returns the rows of a plane that the filter reads for row v of the picture. p: 0 luma, 1 chroma. */
static bzi_rows bzi_slot_plane_rows(const bzi_kernel_slot *slot, const bzi_kernel_view *view, int p, float v)
{
    if (view->kind == BZI_KERNEL_LERP) {
        const bzi_kernel_tap tap = bzi_kernel_tap_of(view->y[p], bzi_kernel_place(slot->filter, v, view->y[0].last));
        return (bzi_rows){ tap.index, tap.index + tap.next + 1 };
    }

    const bzi_kernel_taps taps = bzi_kernel_reach(slot->filter, view->y[p], v, view->shrink[1]);
    return (bzi_rows){ taps.first > 0 ? taps.first : 0, (taps.last < taps.end ? taps.last : taps.end) + 1 };
}

/* Returns the rows that are read of all planes, as rows of the frame's luma. A row of chroma counts as the first of the
 * luma rows that share it, even if the picture, once decoded, turns out to have none. */
static bzi_rows bzi_slot_luma_rows(const bzi_kernel_slot *slot, const bzi_kernel_view *view, float v)
{
    const int32_t first = slot->y0 >> slot->shift_y, each = 1 << slot->shift_y;
    const bzi_rows luma = bzi_slot_plane_rows(slot, view, 0, v), chroma = bzi_slot_plane_rows(slot, view, 1, v);
    const bzi_rows a = { slot->y0 + luma.first, slot->y0 + luma.end };
    const bzi_rows b = { (first + chroma.first) * each, (first + chroma.end - 1) * each + 1 };
    return (bzi_rows){ a.first < b.first ? a.first : b.first, a.end > b.end ? a.end : b.end };
}

/* Narrows least..most, rows of the picture that an affine warp looks at, to those inside the slot's clip. The kernel,
 * which calculates in floats, may keep what is outside by some of the last bits of the terms of clip. */
static void bzi_slot_clip_rows(const bzi_kernel_slot *slot, const bzi_kernel_output *out, float *least, float *most)
{
    const float *h = slot->h;
    double m[6], terms = 0, low = INFINITY, high = -INFINITY;

    for (int i = 0; i < 6; i++) {
        m[i] = slot->clip[i];
        terms += fabs(m[i]) * (i % 3 == 0 ? out->width : i % 3 == 1 ? out->height : 1);
    }
    const double det = m[0] * m[4] - m[1] * m[3];
    const double along = (h[3] * m[4] - h[4] * m[3]) / det, across = (h[4] * m[0] - h[3] * m[1]) / det;
    if (!(fabs(along) + fabs(across) < 1e6))
        return;

    for (int corner = 0; corner < 4; corner++) {              /* of the rectangle, as rows of the picture */
        const double x = (corner & 1 ? slot->clip_last[0] + 0.5 : -0.5) - m[2];
        const double y = (corner & 2 ? slot->clip_last[1] + 0.5 : -0.5) - m[5];
        const double v = along * x + across * y + h[5];
        low = fmin(low, v);
        high = fmax(high, v);
    }
    const double margin = 1 + 1e-6 * terms * (fabs(along) + fabs(across));
    *least = (float)fmax(low - margin, *least);
    *most = (float)fmin(high + margin, *most);
}

/* Returns the rows of the frame's luma that the warp of a slot can read. Those of chroma are these rows >> shift_y.
 * They are exact for an axis-aligned H, turned by 90 degrees or not. Another affine H adds some, any other all rows. */
static bzi_rows bzi_slot_rows(const bzi_kernel_slot *given, const bzi_kernel_output *to)
{
    bzi_kernel_slot slot = *given;
    bzi_kernel_output out = *to;

    if (slot.x1 < slot.x0 || slot.y1 < slot.y0)
        return (bzi_rows){ 0, 0 };

    bzi_kernel_turn(&slot, &out);
    slot.flags = 0;                                           /* the clip is looked at below */
    const bzi_kernel_view view = bzi_kernel_view_of(&slot);
    const int aligned = bzi_kernel_aligned(slot.h), affine = bzi_kernel_affine(slot.h);
    const float last = view.y[0].last, around = aligned ? 0.0f : 1.0f;       /* one more row for rounding */
    float u, v, least = last + 1.0f, most = -1.0f;
    bzi_kernel_inner in = { 0, out.width, 0, out.height };
    if (aligned)
        in = bzi_kernel_inner_of(&slot, &view, &out);

    for (int corner = 0; in.top < in.bottom && corner < 4; corner++) {       /* NaN may be any row */
        bzi_kernel_map_affine(slot.h, corner & 1 ? in.end - 1 : in.first, corner & 2 ? in.bottom - 1 : in.top, &u, &v);
        const float above = affine && v - around > 0.0f ? v - around : -0.5f;
        const float below = affine && v + around < last ? v + around : last + 0.5f;
        least = fminf(least, above);
        most = fmaxf(most, below);
    }
    if (affine && (given->flags & BZI_KERNEL_CLIP))
        bzi_slot_clip_rows(&slot, &out, &least, &most);

    if (most < least || most < -0.5f || least > last + 0.5f)
        return (bzi_rows){ 0, 0 };
    return (bzi_rows){ bzi_slot_luma_rows(&slot, &view, least).first, bzi_slot_luma_rows(&slot, &view, most).end };
}


/* Returns by how much a decoder may shrink the picture of a slot, 1, 2, 4 or 8: the antialiasing filter still shrinks
 * it by `margin`. */
static uint32_t bzi_slot_may_shrink(const bzi_kernel_slot *slot, float margin)
{
    const bzi_kernel_view view = bzi_kernel_view_of(slot);
    const float least = view.shrink[0] < view.shrink[1] ? view.shrink[0] : view.shrink[1];
    uint32_t k = slot->filter == BZNA_FILTER_NEAREST || slot->antialias == BZNA_ANTIALIAS_OFF || slot->x0 || slot->y0 ||
                 !bzi_kernel_affine(slot->h) ? 1 : 8;

    while (k > 1 && !((float)k * margin <= least))
        k /= 2;
    return k;
}

/* Adapts a slot to a picture that was decoded at 1/k of its size: position X of the picture moves to (X + 0.5) / k -
 * 0.5. Its last row and column may stand for fewer than k of the full picture's. */
static void bzi_slot_shrink(bzi_kernel_slot *slot, uint32_t k)
{
    for (int i = 0; i < 6 && k > 1; i++) {
        const double half = 0.5 * slot->h[6 + i % 3];
        slot->h[i] = (float)((slot->h[i] + half) / k - half);
    }
    slot->x1 /= (int32_t)k;
    slot->y1 /= (int32_t)k;
}

/* Returns how many channels BZNA_CHANNELS_... has. */
static uint32_t bzi_channels(uint32_t channels) { return channels == BZNA_CHANNELS_GRAY ? 1 : 3; }

/* Returns an output as the kernel knows it, densely packed. */
static bzi_kernel_output bzi_output_make(const bzna_output *o)
{
    bzi_kernel_output out = { .width = (int32_t)o->width, .height = (int32_t)o->height, .dtype = o->dtype,
                              .channels = bzi_channels(o->channels) };

    out.stride_c = o->layout == BZNA_LAYOUT_NHWC ? 1 : (int64_t)o->width * o->height;
    out.stride_x = o->layout == BZNA_LAYOUT_NHWC ? out.channels : 1;
    out.stride_y = (int64_t)o->width * out.stride_x;
    return out;
}


static uint32_t bzi_dtype_bytes(uint32_t dtype)
{
    return 1u << bzi_kernel_element_shift(dtype);
}

/* Returns the bytes of one picture of an output, which was checked so that the product does not overflow. */
static uint64_t bzi_output_bytes(const bzna_output *o)
{
    return (uint64_t)bzi_channels(o->channels) * o->width * o->height * bzi_dtype_bytes(o->dtype);
}


/* ==== 51. Operations ===============================================================================================
 * Calls: rooms 2, 43, 49-50.
 *
 * The operations of a transform become what the kernels' passes read, which run on the CPU. A view with operations on
 * pixels is first warped to planes of 8 bits in scratch memory. */

#ifndef BENZINA_NO_AUGMENT
_Static_assert(BZI_KERNEL_RADIUS >= BZI_BLUR_MOST / 2, "tiles have room for a blur's radius");

/* Sets the color and the noise of an operation that covers pixels, by the channels that are delivered. */
static void bzi_operation_color(bzi_kernel_op *op, const bzna_drawn *d, const bzna_transform *t, uint32_t channels)
{
    op->bits = d->value_space == BZNA_FILL_RGB;
    for (int i = 0; i < 3; i++) {
        const float value = channels == BZNA_CHANNELS_GRAY && op->bits ? bzi_kernel_luma(bzi_luma, d->value) :
                            d->value[channels == BZNA_CHANNELS_BGR && op->bits ? 2 - i : i];
        op->a[i] = op->bits ? (value - t->bias[i]) * t->scale[i] : value;
        op->noise[i] = op->bits ? d->noise * t->scale[i] : d->noise;
    }
}

/* Makes the kernel's operation of one that was drawn. out: the output that it is for. */
static bzi_kernel_op bzi_operation_make(const bzna_drawn *d, const bzna_transform *t, uint32_t channels,
                                        const bzi_kernel_output *out)
{
    bzi_kernel_op op = { .kind = d->kind, .a = { d->magnitude, 0, 0 }, .key = { d->key[0], d->key[1] } };
    const int32_t shorter = out->width < out->height ? out->width : out->height;

    switch (d->kind) {
    case BZNA_OP_BRIGHTNESS: case BZNA_OP_CONTRAST: case BZNA_OP_SATURATION: case BZNA_OP_SHARPNESS:
        if (d->kind == BZNA_OP_SHARPNESS && shorter < 3)      /* as in torchvision: such a picture is all border */
            op.a[0] = 0;
        op.a[1] = -op.a[0];
        op.a[0] = (float)(1 + (double)op.a[0]);
        break;
    case BZNA_OP_POSTERIZE:
        op.bits = (0xff00u >> (uint32_t)(d->magnitude + 0.5f)) & 0xff;
        break;
    case BZNA_OP_BLUR:
        op.bits = bzi_min32(bzi_default(d->kernel_px, BZI_BLUR_USUAL) / 2, (uint32_t)shorter - 1);
        op.a[0] = (float)bzi_math_exp(-1 / (2 * (double)d->magnitude * (double)d->magnitude));
        break;
    case BZNA_OP_LIGHTING:
        memcpy(op.a, d->value, sizeof op.a);
        break;
    case BZNA_OP_SHUFFLE:
        op.bits = (uint32_t)d->value[0] | (uint32_t)d->value[1] << 2 | (uint32_t)d->value[2] << 4;
        break;
    case BZNA_OP_ERASE: case BZNA_OP_CUTOUT: case BZNA_OP_GRID_MASK:
        bzi_operation_color(&op, d, t, channels);
        for (int i = 0; i < 4; i++)
            op.area[i] = (uint16_t)d->area[i];
        for (int i = 0; i < 2 && d->kind == BZNA_OP_GRID_MASK && d->area[2]; i++)
            op.area[i] = (uint16_t)(d->area[i] % d->area[2]);
        break;
    default: break;
    }
    return op;
}

/* Makes the passes of a view: of its operations the kernel does pass->end, of which pass->pixels change pixels. src and
 * dst are set later. */
static void bzi_operations_make(const bzna_transform *t, uint32_t channels, const bzi_kernel_output *out,
                                bzi_kernel_pass *pass)
{
    memset(pass, 0, sizeof *pass);
    for (int covers = 0; covers < 2; covers++) {
        for (uint32_t i = 0; i < t->operation_count; i++) {
            const uint32_t kind = t->operations[i].kind;
            if (covers ? bzi_op_covers(kind) : bzi_op_is_pixels(kind))
                pass->op[pass->end++] = bzi_operation_make(&t->operations[i], t, channels, out);
        }
        if (!covers)
            pass->pixels = pass->end;
    }

    memcpy(pass->bias, t->bias, sizeof pass->bias);
    memcpy(pass->scale, t->scale, sizeof pass->scale);
    memcpy(pass->luma, bzi_luma, sizeof pass->luma);
    pass->flags = (channels == BZNA_CHANNELS_GRAY ? BZI_KERNEL_GRAY : 0) |
                  (channels == BZNA_CHANNELS_BGR ? BZI_KERNEL_SWAP : 0);
}

/* Returns 1 if policies may draw operations on pixels. */
static int bzi_augment_has_pixels(const bzna_loader_augment *a)
{
    int found = 0;

    for (uint32_t i = 0; i < a->policy_count; i++)
        for (uint32_t k = 0; k < a->policies[i].operation_count; k++)
            found |= bzi_op_is_pixels(a->policies[i].operations[k].kind);
    return found;
}

/* Returns the bytes of scratch memory that a view with operations on pixels needs, a multiple of 256. */
static uint64_t bzi_scratch_bytes(const bzi_kernel_output *out) { return bzi_kernel_scratch_of(out).bytes; }

#else

/* In this build transforms have no operations. */
typedef struct bzi_kernel_pass {
    uint32_t pixels;                  /* 0, as the next one */
    uint32_t end;
    uint64_t src;
    uint64_t dst;
} bzi_kernel_pass;

#define bzi_kernel_operate(pass, out)               ((void)(pass))

#define bzi_operations_make(t, channels, out, pass) ((void)(out), memset(pass, 0, sizeof *(pass)))
#define bzi_augment_has_pixels(augment)             0
#define bzi_scratch_bytes(out)                      ((void)(out), 0)

#endif

/* Makes slot and passes of a view, as bzi_slot_make. With operations on pixels, the warp writes R, G, B, and a fill in
 * units of the output becomes a color. Pre: the transform was checked. */
static bzna_status bzi_view_make(bzi_kernel_slot *slot, bzi_kernel_pass *pass, const bzna_picture *picture,
                                 const bzna_transform *t, uint32_t channels, const bzi_kernel_output *out,
                                 bzna_error *err)
{
    bzi_operations_make(t, channels, out, pass);
    if (!pass->pixels)
        return bzi_slot_make(slot, picture, t, channels, err);

    bzna_transform warped = *t;
    for (int i = 0; i < 3; i++) {
        const int from = channels == BZNA_CHANNELS_GRAY ? 0 : channels == BZNA_CHANNELS_BGR ? 2 - i : i;
        if (t->fill_space == BZNA_FILL_OUTPUT)
            warped.fill[i] = t->fill[from] / t->scale[from] + t->bias[from];
        warped.bias[i] = 0;
        warped.scale[i] = 1;
    }
    warped.fill_space = BZNA_FILL_RGB;
    return bzi_slot_make(slot, picture, &warped, BZNA_CHANNELS_RGB, err);
}

/* Returns what a view's warp writes: its output, or with operations on pixels three planes of bytes. */
static bzi_kernel_output bzi_view_target(const bzi_kernel_pass *pass, const bzi_kernel_output *out)
{
    const bzna_output planes = { .width = (uint32_t)out->width, .height = (uint32_t)out->height,
                                 .dtype = BZNA_DTYPE_UINT8 };
    return pass->pixels ? bzi_output_make(&planes) : *out;
}

/* With operations on pixels, the warp writes to scratch memory, and the passes to the slot. */
static void bzi_view_place(bzi_kernel_slot *slot, bzi_kernel_pass *pass, uint64_t scratch)
{
    pass->src = scratch;
    pass->dst = slot->dst;
    if (pass->pixels)
        slot->dst = scratch;
}

/* Warps a view and runs its passes, on the CPU. workspace: of bzi_kernel_warp_bytes of the view's target. scratch:
 * of bzi_scratch_bytes, aligned to 16; it may be NULL if there are no operations on pixels. */
static void bzi_view_warp(const bzi_kernel_slot *slot, const bzi_kernel_pass *pass, const bzi_kernel_output *out,
                          void *workspace, size_t workspace_bytes, void *scratch)
{
    const bzi_kernel_output target = bzi_view_target(pass, out);
    bzi_kernel_slot warped = *slot;
    bzi_kernel_pass all = *pass;

    bzi_view_place(&warped, &all, (uint64_t)(uintptr_t)scratch);
    bzi_kernel_warp(&warped, &target, workspace, workspace_bytes);
    if (pass->end)
        bzi_kernel_operate(&all, out);
}


BZI_FAST_END

/* #### DECODING #######################################################################################################
 * From coded bytes to planes: libjpeg-turbo, libavcodec, a program's codecs, and NVIDIA's driver with its decode
 * sessions. */


/* ==== 52. JPEG decode ===============================================================================================
 * Calls: rooms 2, 8-9.
 *
 * Only this room knows libjpeg-turbo. Each thread has a bzi_turbo, and each picture a decoder of libjpeg's: earlier
 * pictures cannot have an effect.
 *
 * Pixels       libjpeg gives each component as a plane ("raw data"), neither upsampled nor converted. Rows above the
 *              wanted ones are only read by the entropy decoder. Of four components it gives pixels, which are not
 *              converted either, and repeat what was subsampled.
 * Scans        A picture of several scans is read to its end before its pixels are made, and must be complete, since
 *              libjpeg does not report missing scans. Where AC coefficients are missing, libjpeg smooths.
 * Memory       libjpeg allocates a picture's coefficients with malloc. bzi_jpeg_inspect bounds them. */

#ifndef BENZINA_NO_JPEG
#  define BZI_TEXT_OF(version) #version
#  define BZI_TEXT(version) BZI_TEXT_OF(version)
#  define BZI_TURBO "libjpeg-turbo " BZI_TEXT(LIBJPEG_TURBO_VERSION)
/* The edge of a decoded block of a component: 8, unless the picture is shrunk. */
#  if JPEG_LIB_VERSION >= 70
#    define BZI_TURBO_EDGE(component) (uint32_t)(component)->DCT_h_scaled_size
#  else
#    define BZI_TURBO_EDGE(component) (uint32_t)(component)->DCT_scaled_size
#  endif

typedef struct bzi_turbo {
    struct jpeg_decompress_struct info;       /* libjpeg's decoder, while there is a picture */
    struct jpeg_error_mgr         errors;     /* its last message */
    struct jpeg_progress_mgr      progress;   /* it calls this while it reads several scans */
    jmp_buf                       jump;       /* where bzi_turbo_exit returns to */
    bzi_span                      data;       /* the file */
    bzi_wanted                    wanted;     /* rows and shrinking that were asked for */
    uint32_t                      ended;      /* 1: libjpeg has asked for more bytes than there are */
    uint8_t                      *plane[3];   /* of the first components; four are interleaved */
    int64_t                       pitch[3];   /* bytes from a row of a plane to the next */
    bzi_buffer                    pixels;     /* memory of `plane` */
} bzi_turbo;

/* Leaves libjpeg after an error: it must not return to libjpeg. */
static void bzi_turbo_exit(j_common_ptr info) { longjmp(((bzi_turbo *)info->client_data)->jump, 1); }

/* Receives libjpeg's messages. Warnings have negative levels. Those listed here leave the pixels as they were meant;
 * all others are errors.
 *
 * At the end of the file libjpeg warns and gets an end marker. If that comes too early, it warns again, but not with
 * arithmetic coding, where it takes bytes that are missing before a marker for zeros, since encoders may leave those
 * out. There a file without its end marker is an error at once. */
static void bzi_turbo_message(j_common_ptr common, int level)
{
    const int code = common->err->msg_code;

    if (code == JWRN_JPEG_EOF)
        ((bzi_turbo *)common->client_data)->ended = 1;
    if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM && code != JWRN_JFIF_MAJOR &&
        code != JWRN_NOT_SEQUENTIAL && (code != JWRN_JPEG_EOF || ((j_decompress_ptr)common)->arith_code))
        bzi_turbo_exit(common);
}

/* Runs a step that calls libjpeg, whose errors return here. Returns the step's result, or 0 after an error. */
static int bzi_turbo_try(bzi_turbo *turbo, int (*step)(bzi_turbo *turbo))
{
    if (setjmp(turbo->jump))
        return 0;
    return step(turbo);
}

static void bzi_turbo_check_scan(j_common_ptr info)
{
    if (((j_decompress_ptr)info)->input_scan_number > (int)BZI_LIMIT_JPEG_SCANS)
        bzi_turbo_exit(info);
}

/* Has libjpeg fail if a scan needs a Huffman table that no segment defined. Instead of missing ones libjpeg takes the
 * standard's (ITU-T T.81, K.3.3), which is right only for pictures that have none, like frames of Motion JPEG. */
static void bzi_turbo_mark_tables(struct jpeg_decompress_struct *info)
{
    JHUFF_TBL **tables[2] = { info->dc_huff_tbl_ptrs, info->ac_huff_tbl_ptrs };
    int defined = info->progressive_mode;

    for (int i = 0; i < 4; i++)
        defined |= tables[i & 1][i / 2] != NULL;
    for (int i = 0; i < 4 && defined; i++)
        if (!tables[i & 1][i / 2]) {
            tables[i & 1][i / 2] = jpeg_alloc_huff_table((j_common_ptr)info);
            memset(tables[i & 1][i / 2], 255, sizeof **tables[0]);      /* more codes than there can be */
        }
}

/* A step that reads the headers, and of a picture of several scans all of them. */
static int bzi_turbo_start(bzi_turbo *turbo)
{
    struct jpeg_decompress_struct *info = &turbo->info;

    jpeg_create_decompress(info);
    info->mem->max_memory_to_use = BZI_LIMIT_JPEG_BYTES + (64L << 20);      /* coefficients, rows */
    info->progress = &turbo->progress;
    jpeg_mem_src(info, turbo->data.data, (unsigned long)turbo->data.size);
    jpeg_read_header(info, TRUE);
    bzi_turbo_mark_tables(info);
    info->raw_data_out = info->num_components < 4;
    info->out_color_space = info->jpeg_color_space;
    info->do_fancy_upsampling = FALSE;
    info->dct_method = JDCT_ISLOW;
    info->scale_num = 1;
    info->scale_denom = turbo->wanted.shrink;
    jpeg_start_decompress(info);
    return info->num_components <= 4;
}

/* Returns 1 if no scan is missing: all components have data, and a progressive picture has each coefficient down to its
 * last bit. With an end marker, DC coefficients are enough, since encoders may leave out scans that refine. */
static int bzi_turbo_is_complete(const bzi_turbo *turbo)
{
    const struct jpeg_decompress_struct *info = &turbo->info;

    for (int i = 0; i < info->num_components; i++) {
        if (!info->comp_info[i].quant_table || (info->coef_bits && info->coef_bits[i][0] < 0))
            return 0;
        for (int k = 0; k < DCTSIZE2 && info->coef_bits && turbo->ended; k++)
            if (info->coef_bits[i][k])
                return 0;
    }
    return 1;
}

/* Reserves memory for all rows of the planes, also for those that will not be decoded. */
static bzna_status bzi_turbo_make_planes(bzi_turbo *turbo, const bzi_memory *memory, bzna_error *err)
{
    const struct jpeg_decompress_struct *info = &turbo->info;
    uint64_t offset[3] = { 0, 1, 2 }, size = 0;

    for (int i = 0; i < info->num_components && i < 3; i++) {
        const jpeg_component_info *component = &info->comp_info[i];
        const uint32_t edge = BZI_TURBO_EDGE(component);
        if (!info->raw_data_out) {
            turbo->pitch[i] = (int64_t)info->output_width * 4;
            size = (uint64_t)turbo->pitch[i] * info->output_height;
            continue;
        }
        turbo->pitch[i] = ((int64_t)component->width_in_blocks * edge + 63) & ~(int64_t)63;
        offset[i] = size;
        size += (uint64_t)turbo->pitch[i] * info->total_iMCU_rows * (uint64_t)component->v_samp_factor * edge;
    }

    if (!bzi_buffer_reserve(memory, &turbo->pixels, size, 0))
        return bzi_fail_memory(err, "a picture's planes");
    for (int i = 0; i < 3; i++)
        turbo->plane[i] = turbo->pixels.data + offset[i];
    return BZNA_OK;
}

/* Multiplies C, M, Y, or Y', Cb, Cr, of a row by its K. All are inverted, as Adobe's programs write them; without
 * Adobe's marker, too, as in Pillow and browsers. */
static void bzi_turbo_multiply(uint8_t *pixel, uint32_t width, int is_cmyk)
{
    for (uint32_t x = 0; x < width; x++, pixel += 4)
        for (int i = 0; i < 3; i++) {
            const int sample = pixel[i], black = pixel[3];
            const int value = is_cmyk ? (sample * black + 127) / 255 :
                              i == 0  ? ((255 - sample) * black + 127) / 255 : 128 + (128 - sample) * black / 255;
            pixel[i] = (uint8_t)(value > 255 ? 255 : value);
        }
}

/* A step that decodes into the planes, a row of MCUs at a time. Above the wanted rows libjpeg makes no pixels, since no
 * component is marked as needed. */
static int bzi_turbo_read(bzi_turbo *turbo)
{
    struct jpeg_decompress_struct *info = &turbo->info;
    const uint32_t lines = (uint32_t)info->max_v_samp_factor * DCTSIZE / turbo->wanted.shrink;        /* of luma */
    const uint32_t end = bzi_min32((uint32_t)turbo->wanted.rows.end, info->output_height);
    JSAMPROW rows[3][MAX_SAMP_FACTOR * DCTSIZE];
    JSAMPARRAY planes[3] = { rows[0], rows[1], rows[2] };

    for (uint32_t y = 0; y < end && !info->raw_data_out; y++) {
        rows[0][0] = turbo->plane[0] + (int64_t)y * turbo->pitch[0];
        jpeg_read_scanlines(info, rows[0], 1);
        bzi_turbo_multiply(rows[0][0], info->output_width, info->jpeg_color_space == JCS_CMYK);
    }
    for (uint32_t n = 0; n * lines < end && info->raw_data_out; n++) {
        for (int i = 0; i < info->num_components; i++) {
            jpeg_component_info *component = &info->comp_info[i];
            const uint32_t each = (uint32_t)component->v_samp_factor * BZI_TURBO_EDGE(component);
            component->component_needed = (n + 1) * lines > (uint32_t)turbo->wanted.rows.first;
            for (uint32_t k = 0; k < each; k++)
                rows[i][k] = turbo->plane[i] + ((int64_t)n * each + k) * turbo->pitch[i];
        }
        jpeg_read_raw_data(info, planes, lines);
    }
    return 1;
}

/* Fails with libjpeg's last message, and its place in the file and in the picture. */
static bzna_status bzi_turbo_fail(bzi_turbo *turbo, bzna_error *err)
{
    struct jpeg_decompress_struct *info = &turbo->info;
    const int code = turbo->errors.msg_code;
    const int ends = turbo->ended || (code == JWRN_HIT_MARKER && info->unread_marker == JPEG_EOI);
    const uint64_t at = turbo->data.size - (turbo->ended || !info->src ? 0 : info->src->bytes_in_buffer);
    char text[JMSG_LENGTH_MAX];

    if (code == JERR_OUT_OF_MEMORY)
        return bzi_fail_memory(err, "libjpeg-turbo");
    if (info->input_scan_number > (int)BZI_LIMIT_JPEG_SCANS)
        return BZI_FAIL_AT(err, BZNA_E_LIMIT, at, "JPEG: more than %u scans", BZI_LIMIT_JPEG_SCANS);
    turbo->errors.format_message((j_common_ptr)info, text);
    if (code == JERR_BAD_HUFF_TABLE)                        /* see bzi_turbo_mark_tables */
        bzi_string_copy(text, sizeof text, "a Huffman table is damaged, or was not defined");
    bzi_fail(err, BZNA_E_DECODE, at, 0, code, "%s row %u (libjpeg-turbo: %s)",
             ends ? "truncated after" : "damaged near",
             info->input_iMCU_row * (uint32_t)info->max_v_samp_factor * DCTSIZE, text);
    return bzi_error_prefix(err, "JPEG");
}

/* Decodes some rows of a picture that was inspected, to planes that are valid until the next call. If libjpeg shrinks
 * subsampled chroma by half as much as luma, the picture's chroma shifts are reduced. */
static bzna_status bzi_turbo_decode(bzi_turbo *turbo, const bzi_memory *memory, bzi_span data, int is_rgb,
                                    bzi_wanted wanted, bzna_picture *picture, bzna_error *err)
{
    struct jpeg_decompress_struct *info = &turbo->info;
    bzna_status status = BZNA_OK;

    memset(info, 0, sizeof *info);
    info->err = jpeg_std_error(&turbo->errors);
    info->client_data = turbo;
    turbo->errors.error_exit = bzi_turbo_exit;
    turbo->errors.emit_message = bzi_turbo_message;
    turbo->progress.progress_monitor = bzi_turbo_check_scan;
    turbo->data = data;
    turbo->wanted = wanted;
    turbo->ended = 0;

    if (!bzi_turbo_try(turbo, bzi_turbo_start))
        status = bzi_turbo_fail(turbo, err);
    else if (!bzi_turbo_is_complete(turbo))
        status = BZI_FAIL_AT(err, BZNA_E_DECODE, data.size, "JPEG: truncated: scans are missing");
    else if (bzi_turbo_make_planes(turbo, memory, err) != BZNA_OK)
        status = err->status;
    else if (!bzi_turbo_try(turbo, bzi_turbo_read))
        status = bzi_turbo_fail(turbo, err);
    else if (info->image_width != picture->frame_width || info->image_height != picture->frame_height)
        status = BZI_FAIL(err, BZNA_E_MISMATCH, "libjpeg-turbo's picture is %ux%u, not %ux%u", info->image_width,
                          info->image_height, picture->frame_width, picture->frame_height);
    for (int i = 0; status == BZNA_OK && i < info->num_components && i < 3; i++) {
        const int place = is_rgb ? (i + 2) % 3 : i;         /* R, G, B, or C, M, Y, become G, B, R */
        picture->plane[place] = turbo->plane[i];
        picture->pitch[place] = turbo->pitch[i];
        picture->step[place] = info->raw_data_out ? 1 : 4;
    }

    if (status == BZNA_OK && info->num_components == 3 &&
        BZI_TURBO_EDGE(&info->comp_info[1]) * wanted.shrink > DCTSIZE) {
        picture->chroma_shift_x--;                          /* libjpeg enlarges both directions or none */
        picture->chroma_shift_y--;
    }

    jpeg_destroy_decompress(info);
    return status;
}

#endif


/* ==== 53. Software decode ===========================================================================================
 * Calls: rooms 2, 8-9, 19-20, 26.
 *
 * The only room that knows libavcodec. Each thread has a bzi_software, whose codec contexts stay open across samples.
 *
 * Results must not depend on what was decoded before:
 *   - libavcodec keeps old parameter sets when new ones are damaged. So a context only sees one content of parameter
 *     sets. Of a few contexts, the least recently used is replaced. A context is flushed between pictures.
 *   - Frame memory is filled with a pattern. A picture that depends on it is damaged: libavcodec does not report that
 *     slices of H.265 or rows of a PNG end early. */

typedef struct bzi_software {
    const bzi_memory *memory;         /* the host's; NULL: it is not open */
    bzi_own           own;            /* the host, and the program's own codecs */
    bzi_buffer        stream;         /* the picture, as libavcodec takes it */
#ifndef BENZINA_NO_JPEG
    bzi_turbo         turbo;          /* decodes JPEG */
#endif
#ifndef BENZINA_NO_AVCODEC
    bzi_lru           keys;           /* codec and parameter sets of each codec context, as bzi_image_key writes them */
    AVCodecContext   *codecs[BZI_LRU_SLOTS];          /* one for each key */
    bzi_buffer        pixels;         /* the planes of a still that libavcodec gives in another form */
    uint32_t          fill;           /* two bytes with which frame memory is filled: bzi_fill_at */
    AVFrame          *frame;
    AVFrame          *first;          /* the same picture, if it was decoded twice */
    AVPacket         *packet;         /* points to `stream` */
#endif
} bzi_software;

/* Writes what a decoder is given of a picture to a buffer, with room for `padding` bytes after it. */
BZI_MAYBE_UNUSED static bzna_status bzi_image_to_buffer(const bzna_image *image, const bzi_memory *memory,
                                                        uint64_t padding, bzi_buffer *buffer, uint64_t *size,
                                                        bzna_error *err)
{
    bzi_value out = { NULL, 0, 0, 0 };
    const bzna_status status = bzi_image_stream(image, &out, err);

    *size = out.size;
    if (status != BZNA_OK)
        return status;
    if (!bzi_buffer_reserve(memory, buffer, *size + padding, 0))
        return bzi_fail_memory(err, "an access unit");
    out = (bzi_value){ buffer->data, *size, 0, 0 };
    return bzi_image_stream(image, &out, err);
}

/* --- Memory that is filled, so that pixels which were never written are found --- */

#define BZI_FILL_FIRST  0xa35cu       /* two bytes with which memory is filled, which pixels seldom have */
#define BZI_FILL_SECOND 0x5ca3u       /* for a second try: the opposite of each byte */

typedef struct bzi_area {
    const uint8_t *data;              /* the first byte of the first row */
    int64_t        pitch;             /* bytes from one row to the next */
    uint64_t       width;             /* bytes of a row */
    uint64_t       rows;
} bzi_area;

/* The byte at an address before it is written. */
static uint8_t bzi_fill_at(uint32_t fill, const uint8_t *at) { return (uint8_t)((uintptr_t)at & 1 ? fill >> 8 : fill); }

static void bzi_fill(uint8_t *data, uint64_t size, uint32_t fill)
{
    uint8_t part[256];

    for (size_t at = 0; at < sizeof part; at++)
        part[at] = bzi_fill_at(fill, data + at);
    for (uint64_t at = 0; at < size; at += sizeof part)
        memcpy(data + at, part, (size_t)bzi_min(size - at, sizeof part));
}

/* Returns 1 if so many bytes are as memory was filled. */
static int bzi_is_filled(const uint8_t *data, uint64_t size, uint32_t fill)
{
    while (size && *data == bzi_fill_at(fill, data)) {
        data++;
        size--;
    }
    return size == 0;
}

/* Returns 1 if pixels may never have been written: if four bytes side by side are as memory was filled
 * (BZI_FILL_FIRST), or fewer at the ends of four rows. Only each eighth row and the last one are looked at. libavcodec
 * leaves out without a report:
 *   - the last rows of a PNG, unless it is interlaced.
 *   - blocks of 16x16 pixels or more of an H.265 picture whose slices end early. The filter of the next slice changes
 *     three pixels at their edges, and leaves 13 rows of 13 pixels. */
static int bzi_area_may_lack(bzi_area area)
{
    for (uint64_t y = 0; y < area.rows; y++)
        for (uint64_t x = 0; x < area.width && (y % 8 == 0 || y + 1 == area.rows); x += 4) {
            const uint64_t width = bzi_min(area.width - x, 4), end = width < 4 ? bzi_min(area.rows, y + 4) : y + 1;
            uint64_t row = y;

            while (row < end && bzi_is_filled(area.data + (int64_t)row * area.pitch + x, width, BZI_FILL_FIRST))
                row++;
            if (row == end)
                return 1;
        }
    return 0;
}

static int bzi_area_is_same(bzi_area a, bzi_area b)
{
    uint64_t y = 0;

    while (y < a.rows && !memcmp(a.data + (int64_t)y * a.pitch, b.data + (int64_t)y * b.pitch, (size_t)a.width))
        y++;
    return y == a.rows;
}

#ifndef BENZINA_NO_AVCODEC

/* For libavcodec: takes frame memory as it does by default, and fills it. */
static int bzi_software_get_buffer(AVCodecContext *codec, AVFrame *frame, int flags)
{
    const bzi_software *software = codec->opaque;
    int result = avcodec_default_get_buffer2(codec, frame, flags);

    for (int i = 0; result >= 0 && i < AV_NUM_DATA_POINTERS && frame->buf[i]; i++)
        bzi_fill(frame->buf[i]->data, (size_t)frame->buf[i]->size, software->fill);
    return result;
}

/* Opens a codec context whose output does not depend on the processor or on earlier pictures. */
static bzna_status bzi_software_open_codec(bzi_software *software, const bzna_image *image, AVCodecContext **out,
                                           bzna_error *err)
{
    const bzi_codec *row = bzi_codec_of(image);
    const AVCodec *codec = row->av_decoder ? avcodec_find_decoder_by_name(row->av_decoder) :
                                             avcodec_find_decoder((enum AVCodecID)row->av_id);
    const uint32_t max_edge_px = software->own.host->max_edge_px;
    AVCodecContext *context;
    int result;

    if (!codec)
        return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "this libavcodec was built without a decoder for %s", row->name);
    if (!(context = avcodec_alloc_context3(codec)))
        return bzi_fail_memory(err, "a decoder");

    context->thread_count = 1;
    context->flags |= AV_CODEC_FLAG_LOW_DELAY | AV_CODEC_FLAG_UNALIGNED;
    /* Concealment stays on: without it libavcodec takes H.264 pictures of several slices for damaged. bzi_av_run
     * refuses what was concealed. */
    context->err_recognition = AV_EF_EXPLODE | AV_EF_BITSTREAM | AV_EF_BUFFER;
    if (image->codec == BZNA_CODEC_STILL)
        context->err_recognition |= AV_EF_CRCCHECK;
    context->get_buffer2 = bzi_software_get_buffer;
    context->opaque = software;
    context->log_level_offset = 64;                         /* above every level: errors are returned, not printed */
    context->max_pixels = (int64_t)max_edge_px * max_edge_px;
    context->idct_algo = FF_IDCT_SIMPLE;                    /* the same bits on every processor */

    if ((result = avcodec_open2(context, codec, NULL)) < 0) {
        avcodec_free_context(&context);
        if (result == AVERROR(ENOMEM))
            return bzi_fail_memory(err, "a decoder");
        return BZI_FAIL_BY(err, BZNA_E_CODEC, result, "libavcodec cannot open its decoder for %s",
                           row->name);
    }

    *out = context;
    return BZNA_OK;
}

/* Decodes one access unit to a frame. Drains a decoder that would wait for more. */
static int bzi_software_run(bzi_software *software, AVCodecContext *codec, uint32_t fill)
{
    int result;

    software->fill = fill;
    avcodec_flush_buffers(codec);
    result = avcodec_send_packet(codec, software->packet);
    if (result < 0)
        return result;
    result = avcodec_receive_frame(codec, software->frame);
    if (result == AVERROR(EAGAIN)) {
        result = avcodec_send_packet(codec, NULL);
        if (result >= 0)
            result = avcodec_receive_frame(codec, software->frame);
    }
    return result;
}

/* Returns a plane of a frame. Pre: the frame has it. */
static bzi_area bzi_frame_area(const AVFrame *frame, int i)
{
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get(frame->format);
    const int bytes = av_image_get_linesize(frame->format, frame->width, i);
    const int rows = AV_CEIL_RSHIFT(frame->height, i == 1 || i == 2 ? format->log2_chroma_h : 0);

    return (bzi_area){ frame->data[i], frame->linesize[i], bytes > 0 ? (uint64_t)bytes : 0, (uint64_t)rows };
}

/* Decodes the packet. If pixels look as memory was filled, maybe by chance, decodes it again, with another filling:
 * what differs now was never written. */
static int bzi_software_frame(bzi_software *software, AVCodecContext *codec)
{
    AVFrame *const a = software->first, *const b = software->frame;
    int result = bzi_software_run(software, codec, BZI_FILL_FIRST), same;

    if (result < 0 || !bzi_area_may_lack(bzi_frame_area(b, 0)))
        return result;

    av_frame_unref(a);
    av_frame_move_ref(a, b);
    result = bzi_software_run(software, codec, BZI_FILL_SECOND);
    same = result >= 0 && a->format == b->format && a->width == b->width && a->height == b->height;
    for (int i = 0; same && i < av_pix_fmt_count_planes(a->format); i++)
        same = bzi_area_is_same(bzi_frame_area(a, i), bzi_frame_area(b, i));
    if (!same)
        b->flags |= AV_FRAME_FLAG_CORRUPT;
    av_frame_unref(a);
    return result;
}

/* Gives the components of a frame where they are: Y', Cb and Cr, or G, B and R, or gray. */
static void bzi_frame_planes(const AVFrame *frame, uint32_t count, int is_rgb, bzna_picture *picture)
{
    for (uint32_t i = 0; i < count; i++) {
        const AVComponentDescriptor *c = &av_pix_fmt_desc_get(frame->format)->comp[is_rgb ? (i + 1) % 3 : i];
        picture->plane[i] = frame->data[c->plane] + c->offset;
        picture->pitch[i] = frame->linesize[c->plane];
        picture->step[i] = (uint32_t)c->step;
    }
}

#ifndef BENZINA_NO_STILLS

/* Writes a palette's colors, bits, or samples in the other order of bytes as planes of G, B and R, or one of gray.
 * Fewer than 8 bits are stretched to 0..255. */
static bzna_status bzi_software_split(bzi_software *software, uint32_t count, bzna_picture *picture, bzna_error *err)
{
    const AVFrame *frame = software->frame;
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get(frame->format);
    const int has_palette = (format->flags & AV_PIX_FMT_FLAG_PAL) != 0;
    const uint32_t top = has_palette ? 255 : (1u << format->comp[0].depth) - 1;
    const uint64_t row = 2 * (uint64_t)frame->width, plane = row * (uint64_t)frame->height;
    const uint8_t *data[4] = { frame->data[0], frame->data[1] };

    if (!bzi_buffer_reserve(software->memory, &software->pixels, plane * count, 0))
        return bzi_fail_memory(err, "a picture's planes");

    for (uint32_t i = 0; i < count; i++) {
        const int color = count == 3 ? (int)(i + 1) % 3 : 0;
        uint8_t *dst = software->pixels.data + plane * i;

        picture->plane[i] = dst;
        picture->pitch[i] = (int64_t)row;
        picture->step[i] = 0;
        if (has_palette)                                    /* entries are 0xAARRGGBB in the machine's order of bytes */
            data[1] = frame->data[1] + (AV_HAVE_BIGENDIAN ? 1 + color : 2 - color);
        for (int y = 0; y < frame->height; y++, dst += row) {
            av_read_image_line2(dst, data, frame->linesize, format, 0, y, has_palette ? 0 : color, frame->width,
                                has_palette, 2);
            for (int x = 0; x < frame->width && picture->depth <= 8; x++)           /* of 16 bits, in place */
                dst[x] = (uint8_t)(((const uint16_t *)(const void *)dst)[x] * 255u / top);
        }
    }
    return BZNA_OK;
}

/* Gives the planes of a still: samples of 8 bits where they are, all else that a PNG holds as new planes. The range is
 * 0 to 255, but for WebP's Y'CbCr. Alpha is left out, as by Pillow's convert("RGB"). */
static bzna_status bzi_software_still(bzi_software *software, const bzna_image *image, bzna_picture *picture,
                                      bzna_error *err)
{
    const AVFrame *frame = software->frame;
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get(frame->format);
    const int has_palette = format && (format->flags & AV_PIX_FMT_FLAG_PAL);
    const int is_index = has_palette && image->palette == BZNA_PALETTE_INDEX;
    const int is_gray = is_index || (format && format->nb_components < 3 && !has_palette);
    const int is_rgb = !is_gray && (has_palette || (format && (format->flags & AV_PIX_FMT_FLAG_RGB)));
    const int is_read = is_index || (format && format->comp[0].depth == 8 && !has_palette);

    if (!format || !format->nb_components || format->comp[0].depth > 16 || (!is_gray && !is_rgb && !is_read))
        return BZI_FAIL(err, BZNA_E_CODEC, "%s: pixel format %s cannot be used", bzi_image_codec_name(image),
                        format ? format->name : "?");
    picture->depth = has_palette ? 8 : bzi_max32((uint32_t)format->comp[0].depth, 8);
    picture->chroma_shift_x = is_gray || is_rgb ? 0 : format->log2_chroma_w;
    picture->chroma_shift_y = is_gray || is_rgb ? 0 : format->log2_chroma_h;
    picture->color = bzi_color_of_archives;
    picture->color.matrix = is_rgb ? 0 : 5;
    picture->color.full_range = is_gray || is_rgb || frame->color_range != AVCOL_RANGE_MPEG;
    if (!is_read)
        return bzi_software_split(software, is_gray ? 1 : 3, picture, err);

    bzi_frame_planes(frame, is_gray ? 1 : 3, is_rgb, picture);
    return BZNA_OK;
}

#endif

/* Decodes the packet, by the context that has seen the picture's parameter sets, or a new one. A context that met
 * damage is not used again: for H.264 without CABAC, libavcodec would add the coefficients of a damaged macroblock to
 * the next picture. libavcodec calls a picture damaged, or not supported, if some allocations fail, so what fails is
 * decoded again by another context. BZNA_E_DECODE means that the picture is at fault. */
static bzna_status bzi_av_run(bzi_software *software, const bzna_image *image, const bzna_picture *picture,
                              bzna_error *err)
{
    const AVFrame *frame = software->frame;
    const char *const name = bzi_image_codec_name(image);
    bzna_status status = BZNA_E_DECODE;

    for (int i = 0; i < 2 && status != BZNA_OK && status != BZNA_E_MEMORY; i++) {
        uint32_t index = 0;
        const int found = bzi_lru_find(&software->keys, software->memory, image, &index);
        int result;

        if (found < 0)
            return bzi_fail_memory(err, "parameter sets");
        if (!found) {
            avcodec_free_context(&software->codecs[index]);
            if ((status = bzi_software_open_codec(software, image, &software->codecs[index], err)) != BZNA_OK)
                continue;
            bzi_lru_keep(&software->keys, index);
        }

        result = bzi_software_frame(software, software->codecs[index]);
        if (result == AVERROR(ENOMEM))
            status = bzi_fail_memory(err, "a decoded picture");
        else if (result == AVERROR_PATCHWELCOME)
            status = BZI_FAIL_BY(err, BZNA_E_CODEC, result, "libavcodec does not support what this %s picture uses",
                                 name);
        else if (result < 0)
            status = BZI_FAIL_BY(err, BZNA_E_DECODE, result, "libavcodec: the %s data are damaged or truncated", name);
        else if ((frame->flags & AV_FRAME_FLAG_CORRUPT) || frame->decode_error_flags)
            status = BZI_FAIL(err, BZNA_E_DECODE, "libavcodec: the picture is incomplete");
        else if ((uint32_t)frame->width != picture->frame_width || (uint32_t)frame->height != picture->frame_height)
            status = BZI_FAIL(err, BZNA_E_MISMATCH, "libavcodec's frame is %dx%d, not %ux%u", frame->width,
                              frame->height, picture->frame_width, picture->frame_height);
        else
            return BZNA_OK;
        bzi_lru_forget(&software->keys, index);
    }
    return status;
}

/* Decodes a picture with libavcodec, which takes it padded, and without what the codec's `cut` and `strip` remove.
 * H.264's gray comes as 4:2:0 with neutral chroma, which is left out. */
static bzna_status bzi_av_decode(bzi_software *software, const bzna_image *image, const bzi_format *format,
                                 bzi_rows wanted, bzna_picture *picture, bzna_error *err)
{
    const bzi_codec *row = bzi_codec_of(image);
    const uint32_t rows[2] = { (uint32_t)wanted.first, (uint32_t)wanted.end };
    const int gray = format->chroma_format == 0;
    AVPacket *const packet = software->packet;
    const AVPixFmtDescriptor *pixels;
    int is_rgb;
    uint64_t size;

    if (bzi_image_to_buffer(image, software->memory, AV_INPUT_BUFFER_PADDING_SIZE, &software->stream, &size, err) !=
        BZNA_OK)
        return err->status;
    if (size > INT32_MAX - AV_INPUT_BUFFER_PADDING_SIZE)
        return BZI_FAIL(err, BZNA_E_LIMIT, "the access unit has %llu bytes, more than libavcodec supports",
                        (bzi_llu)size);

    packet->data = software->stream.data;
    if (row->cut)
        size = row->cut(packet->data, size, rows);
    if (row->strip)
        size = row->strip(packet->data, size);
    memset(packet->data + size, 0, AV_INPUT_BUFFER_PADDING_SIZE);
    packet->size = (int)size;
    packet->flags = AV_PKT_FLAG_KEY;                        /* without it, a PNG is drawn over the one before */
    if (bzi_av_run(software, image, picture, err) != BZNA_OK)
        return err->status;

#ifndef BENZINA_NO_STILLS
    if (image->codec == BZNA_CODEC_STILL)
        return bzi_software_still(software, image, picture, err);
#endif
    pixels = av_pix_fmt_desc_get(software->frame->format);
    is_rgb = pixels && (pixels->flags & AV_PIX_FMT_FLAG_RGB);
    if (!pixels || (uint32_t)pixels->comp[0].depth != picture->depth || (pixels->flags & AV_PIX_FMT_FLAG_BE) ||
        (is_rgb && format->chroma_format != 3) ||
        (!gray &&
         (pixels->nb_components < 3 || !(pixels->flags & AV_PIX_FMT_FLAG_PLANAR) ||
          pixels->log2_chroma_w != picture->chroma_shift_x || pixels->log2_chroma_h != picture->chroma_shift_y)))
        return BZI_FAIL(err, BZNA_E_CODEC, "pixel format %s cannot be used", pixels ? pixels->name : "?");
    bzi_frame_planes(software->frame, gray ? 1 : 3, is_rgb, picture);
    return BZNA_OK;
}

#endif

#ifdef BENZINA_NO_JPEG
#  define BZI_TURBO ""
#endif

/* Names the libraries that decode, for people. */
static void bzi_software_name(char *text, size_t size)
{
#ifndef BENZINA_NO_AVCODEC
    unsigned v = avcodec_version();
    snprintf(text, size, "libavcodec %u.%u.%u%s", v >> 16, v >> 8 & 255, v & 255, *BZI_TURBO ? ", " BZI_TURBO : "");
#else
    bzi_string_copy(text, size, *BZI_TURBO ? BZI_TURBO : "none");
#endif
}

/* Closes what was opened, or is all zeros. */
static void bzi_software_close(bzi_software *software)
{
#ifndef BENZINA_NO_JPEG
    bzi_buffer_free(software->memory, &software->turbo.pixels);
#endif
#ifndef BENZINA_NO_AVCODEC
    for (uint32_t i = 0; i < BZI_LRU_SLOTS; i++)
        avcodec_free_context(&software->codecs[i]);
    bzi_lru_free(&software->keys, software->memory);
    av_frame_free(&software->frame);
    av_frame_free(&software->first);
    av_packet_free(&software->packet);
    bzi_buffer_free(software->memory, &software->pixels);
#endif
    bzi_buffer_free(software->memory, &software->stream);
    bzi_own_end(&software->own);
    memset(software, 0, sizeof *software);
}

/* Makes what the libraries of this build need. */
static bzna_status bzi_software_open(bzi_software *software, bzi_host *host, bzna_error *err)
{
    (void)err;
    memset(software, 0, sizeof *software);
    software->own.host = host;
    software->memory = &host->memory;
#ifndef BENZINA_NO_AVCODEC
    software->frame = av_frame_alloc();
    software->first = av_frame_alloc();
    software->packet = av_packet_alloc();
    if (!(software->frame && software->first && software->packet)) {
        bzi_software_close(software);
        return bzi_fail_memory(err, "a decoder");
    }
#endif
    return BZNA_OK;
}


/* ==== 54. Software decode: own codecs ===============================================================================
 * Calls: rooms 2, 7-9, 17, 20, 26, 50, 52-53.
 *
 * Which library decodes what. Codecs of the program's own write planes that are made here. What they leave out or
 * overwrite is found. */

/* Returns the samples of chroma for so many of luma. */
static uint32_t bzi_subsampled(uint32_t samples, uint32_t shift)
{
    return (uint32_t)(((uint64_t)samples + (1u << shift) - 1) >> shift);
}

/* A plane of a picture in a copy of it. */
typedef struct bzi_plane {
    uint64_t row_bytes;               /* without padding */
    uint64_t rows;
    uint64_t pitch;                   /* bytes from row to row in the copy, a multiple of 64 */
    uint64_t offset;                  /* bytes from the beginning of the copy */
} bzi_plane;

/* Lays out memory for planes of a picture that was decoded at 1/shrink of its size. Returns the bytes of all.
 *   samples   of a pixel in a row of a plane; 1, unless planes are interleaved
 *   gap       bytes before each plane and after the last */
static uint64_t bzi_picture_planes(const bzna_picture *picture, uint32_t count, uint32_t shrink, uint32_t samples,
                                   uint32_t gap, bzi_plane planes[3])
{
    const uint32_t width = (picture->frame_width + shrink - 1) / shrink;
    const uint32_t height = (picture->frame_height + shrink - 1) / shrink;
    uint64_t total = gap;

    for (uint32_t i = 0; i < count; i++) {
        bzi_plane *plane = &planes[i];
        plane->row_bytes = (uint64_t)bzi_subsampled(width, i ? picture->chroma_shift_x : 0) * samples *
                           bzi_sample_bytes(picture->depth);
        plane->rows = bzi_subsampled(height, i ? picture->chroma_shift_y : 0);
        plane->pitch = (plane->row_bytes + 63) & ~(uint64_t)63;
        plane->offset = total;
        total += plane->pitch * plane->rows + gap;
    }
    return total;
}

/* Copies one plane, with samples side by side, and sets the picture's pitch and step to those of the copy. */
static void bzi_picture_copy_plane(bzna_picture *picture, uint32_t i, const bzi_plane *plane, uint8_t *dst)
{
    const uint32_t bytes = bzi_sample_bytes(picture->depth), step = bzi_default(picture->step[i], bytes);

    for (uint64_t y = 0; y < plane->rows; y++, dst += plane->pitch) {
        const uint8_t *src = (const uint8_t *)picture->plane[i] + (int64_t)y * picture->pitch[i];
        if (step == bytes)
            bzi_copy(dst, src, plane->row_bytes);
        for (uint64_t x = 0; x < plane->row_bytes && step != bytes; x++)
            dst[x] = src[x / bytes * step + x % bytes];
    }
    picture->step[i] = 0;
    picture->pitch[i] = (int64_t)plane->pitch;
}

/* Returns the columns of a frame that the warp of a slot may read: the rows with the axes exchanged. */
static bzi_rows bzi_slot_columns(const bzi_kernel_slot *slot, const bzi_kernel_output *to)
{
    bzi_kernel_slot across = *slot;

    memcpy(across.h, slot->h + 3, 3 * sizeof *across.h);
    memcpy(across.h + 3, slot->h, 3 * sizeof *across.h);
    across.x0 = slot->y0;
    across.y0 = slot->x0;
    across.x1 = slot->y1;
    across.y1 = slot->x1;
    across.shift_x = slot->shift_y;
    across.shift_y = slot->shift_x;
    across.left = slot->top;
    across.top = slot->left;
    return bzi_slot_rows(&across, to);
}

/* --- Codecs of the program's own --- */

#define BZI_PALETTE_BYTES 768u        /* 256 times R, G, B */

/* The memory in which a codec of the program's own writes a picture: planes with canaries around each. */
typedef struct bzi_own_frame {
    bzi_plane         planes[3];
    uint32_t          count;
    uint64_t          size;           /* bytes of all */
    bzna_rectangle    needed;         /* what must be right */
    bzna_codec_planes to;             /* what the codec is given */
    uint8_t           palette[BZI_PALETTE_BYTES];
} bzi_own_frame;

/* Lays out the planes of a picture. At least a pixel is needed. */
static void bzi_own_layout(bzi_own_frame *frame, const bzna_picture *picture, const bzi_format *format,
                           const bzi_wanted *wanted)
{
    const uint32_t width = picture->frame_width, height = picture->frame_height;
    const uint32_t samples = format->interleaved ? 3 : 1;
    const int is_one = format->pixels == BZNA_PIXELS_INDEX || format->interleaved || !format->chroma_format;

    frame->to = (bzna_codec_planes){ .struct_size = sizeof frame->to, .width = width, .height = height,
                                     .step = samples * bzi_sample_bytes(picture->depth) };
    frame->needed.x1 = bzi_min32(bzi_max32((uint32_t)wanted->columns.end, 1), width);
    frame->needed.y1 = bzi_min32(bzi_max32((uint32_t)wanted->rows.end, 1), height);
    frame->needed.x0 = bzi_min32((uint32_t)wanted->columns.first, frame->needed.x1 - 1);
    frame->needed.y0 = bzi_min32((uint32_t)wanted->rows.first, frame->needed.y1 - 1);

    frame->count = is_one ? 1 : 3;
    frame->size = bzi_picture_planes(picture, frame->count, 1, samples, BZI_CANARY_BYTES, frame->planes);
    for (uint32_t i = 0; i < 3 && (i < frame->count || format->interleaved); i++)
        frame->to.pitch[i] = (int64_t)frame->planes[format->interleaved ? 0 : i].pitch;
}

/* Has the codec decode into filled memory at base. Fails if it writes around the planes. */
static bzna_status bzi_own_run(bzi_own *own, const bzna_image *image, const bzi_format *format, bzi_own_frame *frame,
                               uint8_t *base, uint32_t fill, bzna_error *err)
{
    const uint32_t i = image->codec - BZNA_CODEC_OWN;
    int32_t said;
    int live = 1;

    if (bzi_own_begin(own, i, err) != BZNA_OK)
        return err->status;
    bzi_fill(base, frame->size, fill);
    memset(frame->palette, 0, sizeof frame->palette);
    for (uint32_t k = 0; k < 3 && (k < frame->count || format->interleaved); k++)
        frame->to.plane[k] = base + (format->interleaved ? frame->planes[0].offset + k * frame->to.step / 3 :
                                                           frame->planes[k].offset);
    frame->to.palette = format->pixels == BZNA_PIXELS_INDEX ? frame->palette : NULL;

    bzi_error_init(err);
    BZI_CALLBACK(said = own->host->own_codecs[i].c.decode(own->states[i], image->data, image->data_size,
                                                          &frame->needed, &frame->to, err));
    for (uint32_t k = 0; k <= frame->count; k++) {
        const uint64_t end = k < frame->count ? frame->planes[k].offset : frame->size;
        live = live && bzi_is_filled(base + end - BZI_CANARY_BYTES, BZI_CANARY_BYTES, fill);
    }
    if (!live)
        said = BZI_FAIL(err, BZNA_E_DECODE, "decode wrote outside of its planes: other memory may be damaged, too");
    return said == BZNA_OK ? BZNA_OK : bzi_own_fail(own, i, "decode", said, image->data_size, err);
}

/* Returns the part that is needed of a plane, in memory at base. */
static bzi_area bzi_own_area(const bzi_own_frame *frame, const bzna_picture *picture, uint32_t i, const uint8_t *base)
{
    const uint32_t shift_x = i ? picture->chroma_shift_x : 0, shift_y = i ? picture->chroma_shift_y : 0;
    const uint64_t x = frame->needed.x0 >> shift_x, y = frame->needed.y0 >> shift_y;
    const bzi_plane *plane = &frame->planes[i];

    return (bzi_area){ base + plane->offset + y * plane->pitch + x * frame->to.step, (int64_t)plane->pitch,
                       (bzi_subsampled(frame->needed.x1, shift_x) - x) * frame->to.step,
                       bzi_subsampled(frame->needed.y1, shift_y) - y };
}

/* Decodes a picture of the program's own codecs, twice if it may lack pixels, as with libavcodec. Gives the planes as
 * the warp reads them: G, B, R; Y, Cb, Cr; or gray. Pre: the picture was inspected. */
static bzna_status bzi_software_own(bzi_software *software, const bzna_image *image, const bzi_format *format,
                                    const bzi_wanted *wanted, bzna_picture *picture, bzna_error *err)
{
    const uint32_t is_rgb = format->chroma_format == 3;
    bzi_own *own = &software->own;
    bzi_own_frame frame;
    bzi_buffer *buffer = &own->pixels;
    uint64_t colors;                  /* bytes of each plane that a palette makes; 0: there is none */
    int lacks = 0;

    bzi_own_layout(&frame, picture, format, wanted);
    colors = format->pixels == BZNA_PIXELS_INDEX ? frame.planes[0].pitch * frame.planes[0].rows : 0;

    for (int again = 0; again <= lacks; again++) {
        buffer = again ? &own->again : &own->pixels;
        /* with 16 KiB or more, memory is aligned as planes are */
        if (!bzi_buffer_reserve(software->memory, buffer, bzi_max(frame.size + 3 * colors, 16384), 0))
            return bzi_fail_memory(err, "a picture's planes");
        if (bzi_own_run(own, image, format, &frame, buffer->data, again ? BZI_FILL_SECOND : BZI_FILL_FIRST, err) !=
            BZNA_OK)
            return err->status;

        for (uint32_t i = 0; i < frame.count; i++) {
            const bzi_area first = bzi_own_area(&frame, picture, i, own->pixels.data);
            if (again && !bzi_area_is_same(first, bzi_own_area(&frame, picture, i, buffer->data))) {
                BZI_FAIL(err, BZNA_E_DECODE, "decode has not written all pixels");
                return bzi_own_fail(own, image->codec - BZNA_CODEC_OWN, "decode", BZNA_E_DECODE, 0, err);
            }
            lacks = lacks || bzi_area_may_lack(first);
        }
    }

    for (uint32_t i = 0; i < (format->chroma_format ? 3u : 1u); i++) {
        const uint32_t from = is_rgb ? (i + 1) % 3 : i;
        uint8_t *const color = buffer->data + frame.size + colors * i;

        picture->plane[i] = colors && is_rgb ? color : frame.to.plane[from];
        picture->pitch[i] = frame.to.pitch[colors ? 0 : from];
        picture->step[i] = frame.to.step;
        for (uint64_t at = 0; at < colors && is_rgb; at++)
            color[at] = frame.palette[3 * ((const uint8_t *)frame.to.plane[0])[at] + from];
    }
    return BZNA_OK;
}

/* Decodes any picture. Pre: picture and format are what bzi_picture_describe made of the image. The planes belong to
 * the decoder until its next call. Outside of what is wanted they may hold anything; sizes are the whole picture's. */
static bzna_status bzi_software_decode(bzi_software *software, const bzna_image *image, const bzi_format *format,
                                       bzi_wanted wanted, bzna_picture *picture, bzna_error *err)
{
    const bzi_codec *row = bzi_codec_of(image);

    if (image->codec >= BZNA_CODEC_OWN)
        return bzi_software_own(software, image, format, &wanted, picture, err);
    if (row->planes) {
        row->planes(image, picture);
        return BZNA_OK;
    }
    if (!bzi_codec_is_allowed(software->own.host->codecs, image))
        return BZI_FAIL(err, BZNA_E_CODEC, "%s: context_config.codecs does not allow it", row->name);
    if (bzi_codec_has_library(row, err) != BZNA_OK)
        return err->status;

#ifndef BENZINA_NO_JPEG
    if (image->codec == BZNA_CODEC_JPEG)
        return bzi_turbo_decode(&software->turbo, software->memory, bzi_image_data(image), format->color.matrix == 0,
                                wanted, picture, err);
#endif
#ifndef BENZINA_NO_AVCODEC
    return bzi_av_decode(software, image, format, wanted.rows, picture, err);
#else
    return BZNA_E_UNSUPPORTED;                              /* not reached: bzi_codec_has_library has refused it */
#endif
}


/* ==== 55. CUDA: the driver ==========================================================================================
 * Calls: rooms 2, 4, 9.
 *
 * NVIDIA's driver, opened at run time, and the meaning of its errors. Its libraries stay open: drivers do not survive
 * being unloaded. */

#ifndef BENZINA_NO_CUDA

enum { BZI_CUDA_NO_MEMORY = 2, BZI_CUDA_NO_DEVICE = 100 };

/* Only the drivers 465 report CUDA 11.3. Their decoders overwrite memory if several work at once. */
#define BZI_CUDA_CORRUPTS 11030

/* Types that nv-codec-headers does not have. */
typedef CUresult CUDAAPI bzi_cuDriverGetVersion(int *version);
typedef CUresult CUDAAPI bzi_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
typedef CUresult CUDAAPI bzi_cuMemHostAlloc(void **host, size_t bytes, unsigned int flags);
typedef CUresult CUDAAPI bzi_cuMemFreeHost(void *host);
typedef CUresult CUDAAPI bzi_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);
typedef CUresult CUDAAPI bzi_cuCtxGetCurrent(CUcontext *context);
typedef CUresult CUDAAPI bzi_cuCtxGetFlags(unsigned int *flags);
typedef CUresult CUDAAPI bzi_cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority);
typedef CUresult CUDAAPI bzi_cuThreadExchangeStreamCaptureMode(int *mode);

/* The functions that are used. nv-codec-headers has the types of the first list and of libnvcuvid's, with a t before
 * the name; those of the second are above. */
#define BZI_CUDA_SYMBOLS(X) \
    X(cuInit) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute) \
    X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxGetState) \
    X(cuDevicePrimaryCtxSetFlags) X(cuCtxPushCurrent_v2) X(cuCtxPopCurrent_v2) X(cuCtxGetDevice) X(cuMemAlloc_v2) \
    X(cuMemFree_v2) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyDtoHAsync_v2) X(cuMemsetD8Async) X(cuStreamDestroy_v2) \
    X(cuStreamQuery) X(cuStreamSynchronize) X(cuEventCreate) X(cuEventDestroy_v2) X(cuEventRecord) X(cuEventQuery) \
    X(cuEventSynchronize) X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuLaunchKernel) \
    X(cuGetErrorName)
#define BZI_CUDA_OWN_SYMBOLS(X) \
    X(cuDriverGetVersion) X(cuDeviceTotalMem_v2) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuStreamWaitEvent) \
    X(cuCtxGetCurrent) X(cuCtxGetFlags) X(cuStreamCreateWithPriority) X(cuThreadExchangeStreamCaptureMode)
#define BZI_NVCUVID_SYMBOLS(X) \
    X(cuvidGetDecoderCaps) X(cuvidCreateDecoder) X(cuvidDestroyDecoder) X(cuvidReconfigureDecoder) \
    X(cuvidDecodePicture) X(cuvidGetDecodeStatus) X(cuvidMapVideoFrame64) X(cuvidUnmapVideoFrame64) \
    X(cuvidCreateVideoParser) X(cuvidParseVideoData) X(cuvidDestroyVideoParser)

typedef struct bzi_cuda {
#define BZI_CUDA_FIELD(name)     t##name *name;
#define BZI_CUDA_OWN_FIELD(name) bzi_##name *name;
    BZI_CUDA_SYMBOLS(BZI_CUDA_FIELD)
    BZI_CUDA_OWN_SYMBOLS(BZI_CUDA_OWN_FIELD)
    BZI_NVCUVID_SYMBOLS(BZI_CUDA_FIELD)
} bzi_cuda;

typedef struct bzi_cuda_symbol {
    const char *name;
    size_t      at;                   /* offset of its member in bzi_cuda */
} bzi_cuda_symbol;

#define BZI_CUDA_NEEDED(name) { #name, offsetof(bzi_cuda, name) },
static const bzi_cuda_symbol bzi_cuda_symbols[] = { BZI_CUDA_SYMBOLS(BZI_CUDA_NEEDED)
                                                    BZI_CUDA_OWN_SYMBOLS(BZI_CUDA_NEEDED) };
static const bzi_cuda_symbol bzi_nvcuvid_symbols[] = { BZI_NVCUVID_SYMBOLS(BZI_CUDA_NEEDED) };

/* Loads functions of one of the driver's libraries. remedy: what to do if there is no such library. */
static bzna_status bzi_cuda_load(bzi_cuda *cu, const char *name, const char *remedy, const bzi_cuda_symbol *symbols,
                                 size_t count, bzna_error *err)
{
    void *library = bzi_os_library(name);

    if (!library)
        return BZI_FAIL(err, BZNA_E_DEVICE, "%s was not found: %s", name, remedy);
    for (size_t i = 0; i < count; i++) {
        void *symbol = bzi_os_symbol(library, symbols[i].name);
        if (!symbol)
            return BZI_FAIL(err, BZNA_E_DEVICE, "%s lacks %s: the NVIDIA driver is too old", name, symbols[i].name);
        /* ISO C has no cast from an object's address to a function's; for POSIX both have one form */
        memcpy((char *)cu + symbols[i].at, &symbol, sizeof symbol);
    }
    return BZNA_OK;
}

/* Returns 1 for errors after which nothing works in this CUDA context: sticky ones, and those of one that is gone. */
static int bzi_cuda_is_lost(int result)
{
    static const int lost[] = { 3, 4, 46, 201, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721,
                                805, 806, 807, 808, 809, 810 };         /* 805 to 810: of MPS, whose server is gone */
    for (size_t i = 0; i < BZI_LENGTH(lost); i++)
        if (result == lost[i])
            return 1;
    return 0;
}

/* Makes an error of the driver's. The call's name loses its version. */
static bzna_status bzi_cuda_fail(const bzi_cuda *cu, CUresult result, const char *call, bzna_error *err)
{
    const char *name = NULL;
    int code = (int)result;
    bzna_status status = code == BZI_CUDA_NO_MEMORY ? BZNA_E_MEMORY :
                         bzi_cuda_is_lost(code) ? BZNA_E_DEVICE_LOST : BZNA_E_DEVICE;

    if (cu->cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
        name = "unknown error";
    return BZI_FAIL_BY(err, status, code, "%.*s: %s (%d)", (int)strcspn(call, "_"), call, name, code);
}

static bzna_status bzi_cuda_fail_forked(bzna_error *err)
{
    return BZI_FAIL(err, BZNA_E_STATE, "CUDA was started before fork, and a child process cannot use it; "
                    "BZNA_DEVICE_CPU works there");
}

/* Loads and starts the driver, and remembers the process: a child must not call a driver that was started before fork.
 */
static bzna_status bzi_cuda_start(bzi_cuda *cu, int *count, bzna_error *err)
{
    static _Atomic int64_t started;
    int64_t by = atomic_load(&started);
    CUresult result;

    if (by && by != bzi_os_process())
        return bzi_cuda_fail_forked(err);
    if (bzi_cuda_load(cu, BZI_OS_CUDA, "there is no NVIDIA driver here (in a container: start it with the GPU, "
                      "--gpus all)", bzi_cuda_symbols, BZI_LENGTH(bzi_cuda_symbols), err) != BZNA_OK)
        return err->status;

    if ((result = cu->cuInit(0)) == CUDA_SUCCESS && (result = cu->cuDeviceGetCount(count)) == CUDA_SUCCESS &&
        *count < 1)
        result = (CUresult)BZI_CUDA_NO_DEVICE;
    if (result != CUDA_SUCCESS)
        return bzi_cuda_fail(cu, result, "cuInit", err);

    atomic_store(&started, bzi_os_process());
    return BZNA_OK;
}

#endif

/* ==== 56. CUDA: the device ==========================================================================================
 * Calls: rooms 2, 4, 7-9, 19-20, 55, and the kernels' structs.
 *
 * A device. The rooms below see streams and events as void *, device addresses as uint64_t, and failures as a status,
 * with the driver's code in native_code.
 *
 * A context has at most one, made by the first caller that needs it. Calls that need a current CUDA context are made
 * between enter and leave, or on a thread of the library that has entered once.
 *
 *   mark   lock                      guards                        order
 *   (D)    device->exclusive.mutex   what the device can decode    a leaf
 *
 * One session at a time checks what NVDEC decodes, without a lock, because a check allocates. */

typedef struct bzi_device bzi_device;

/* How often those who wait for threads of the library look after them, and how many looks in a row see a thread in one
 * call of the driver until it is given up: a process may have been stopped for long. A thread that nobody looks after
 * does not wait in a call: it asks every BZI_POLL_NS, for as long. */
#ifndef BZI_LOOK_NS
#  define BZI_LOOK_NS 1000000000u
#endif
#define BZI_LOOKS   60u
#define BZI_POLL_NS 100000u

/* A thread's calls of the driver. Nobody can end a call. So a thread that has been in one for too long is left alone:
 * its work counts as lost, and if the call returns after all, the thread goes no further. */
typedef struct bzi_watch {
    atomic_uint_fast64_t calls;       /* odd: the thread is in a call; BZI_WATCH_LEFT: it was left alone in one */
    uint64_t seen;                    /* what `calls` was at the last look */
    uint32_t looks;                   /* looks in a row that have seen the thread in that call */
    uint32_t holds;                   /* entries that the thread has, which are lost with it */
    uint32_t patient;                 /* 1: it waits for the user's work, which is no sign that the device hangs */
    uint8_t  apart[36];               /* keeps two threads in different cache lines */
} bzi_watch;

/* Threads that are looked after together. Their owner's lock guards all but calls. */
typedef struct bzi_watches {
    bzi_watch *all;
    uint32_t   count;                 /* of threads that were started, and are to be joined */
    uint32_t   gone;                  /* that have ended or were left alone */
    uint32_t   left;                  /* that were left alone */
    uint32_t   lost;                  /* entries that those have */
    uint64_t   looked_ns;             /* when somebody last looked */
} bzi_watches;

#define BZI_WATCH_LEFT UINT64_MAX

/* That of this thread. NULL: nobody looks after its calls. */
#ifdef BENZINA_NO_THREADS
BZI_MAYBE_UNUSED static bzi_watch *bzi_watch_self;
#else
BZI_MAYBE_UNUSED static BZI_THREAD_LOCAL bzi_watch *bzi_watch_self;
#endif

#ifndef BENZINA_NO_CUDA

#define BZI_CAPS_DEPTHS  3            /* depths of 8, 10 and 12 bits */
/* Of bzi_device.lost, and no CUresult. */
#define BZI_DEVICE_WRONG (-1)         /* the kernel makes wrong pixels */
#define BZI_DEVICE_HUNG  (-2)         /* a call of the driver has not returned */

/* Of bzi_device.stuck. */
enum {
    BZI_STUCK_NOT,
    BZI_STUCK_NVDEC,                  /* NVDEC did not finish a picture: it is not used any more */
    BZI_STUCK_CALL                    /* a call of the driver has not returned: no more calls are made */
};

/* A kind of coded pictures: a codec, a chroma format and a depth. */
typedef struct bzi_caps {
    uint32_t        known;            /* 1: `caps` is filled in */
    CUVIDDECODECAPS caps;
    atomic_uint     check;            /* BZNA_CHECK_...; set after `report`, by the session that checks */
    char            report[sizeof ((bzna_codec_info *)0)->check_message];     /* what the check found */
} bzi_caps;

struct bzi_device {
    bzi_host        *host;            /* outlives the device */
    bzna_context_config config;       /* the context's */
    bzi_cuda         cu;              /* the driver's functions */
    CUdevice         handle;          /* the driver's number of the device */
    CUcontext        cuda;            /* the user's CUDA context, or the primary one */
    CUmodule         module;          /* the kernel's */
    CUfunction       warp[BZI_KERNEL_COUNT];
    CUfunction       augment;         /* NULL with BENZINA_NO_AUGMENT */

    uint32_t         owns_primary;    /* 1: the primary CUDA context is retained */
    int64_t          process;         /* that opened it; after fork, no other may call the driver */
    bzna_device_info info;
    bzna_error       video;           /* status < 0: why NVDEC cannot be used */
    atomic_int       lost;            /* the CUresult that lost the device, or BZI_DEVICE_...; 0: it works */
    atomic_int       stuck;           /* BZI_STUCK_... */
    atomic_uint      failures[BZI_CODECS];        /* by codec: calls in a row that failed, of all sessions */
    atomic_uint      given_up;        /* a bit for each codec that no session decodes any more because of failures */
    uint32_t         spins;           /* 1: a thread that waits in a call of the driver keeps a processor busy */
    uint32_t         checks;          /* 1: what the kernel and NVDEC make is compared with what the CPU makes */
    bzi_os_exclusive exclusive;       /* of sessions that check a kind of pictures; its mutex is (D) */
    bzi_caps         caps[BZI_CODECS][4][BZI_CAPS_DEPTHS];   /* (D) by codec, chroma format, depth */
    uint64_t         decoder_budget;  /* bytes that decoder_bytes may reach */
    atomic_uint_fast64_t decoder_bytes;           /* of the surfaces of all decoders */
    atomic_uint_fast64_t decoders_made;
    atomic_uint_fast64_t decoders_reconfigured;   /* how often one was given another size */
    atomic_uint_fast64_t sessions_lost;           /* that ended because of failures */
};

/* The kernel's PTX, packed: bzi_kernel_unpack. make writes the file, and make dist puts it here. Without it, no device
 * is opened. */
#ifdef __has_include
#  if !__has_include("benzina_kernels.ptx.h")
#    define BZI_NO_PTX
#  endif
#endif
static const uint8_t bzi_kernel_ptx[] = {
#ifndef BZI_NO_PTX
#include "benzina_kernels.ptx.h"
#else
    0, 0, 0, 0
#endif
};

/* The first reason counts. */
static void bzi_device_lose(bzi_device *device, CUresult result)
{
    int none = 0;
    atomic_compare_exchange_strong(&device->lost, &none, (int)result);
}

static int bzi_device_is_lost(bzi_device *device) { return atomic_load(&device->lost) != 0; }

static bzna_status bzi_device_fail_lost(bzi_device *device, bzna_error *err)
{
    int code = atomic_load(&device->lost);

    if (code == BZI_DEVICE_WRONG)
        return BZI_FAIL(err, BZNA_E_DEVICE_LOST, "%s: the kernel's pixels differ from the CPU's, so the device is no "
                        "longer used; compile benzina.c with -ffp-contract=off, if it was not",
                        device->info.name);
    if (code == BZI_DEVICE_HUNG)
        return BZI_FAIL(err, BZNA_E_DEVICE_LOST, "%s hangs: a call of the driver has not returned for a minute. The "
                        "device is no longer used: restart the process", device->info.name);
    return BZI_FAIL_BY(err, BZNA_E_DEVICE_LOST, code, "CUDA device %d was lost (%d)",
                       device->info.device.ordinal, code);
}

/* Returns 1 if NVDEC is not used any more, or no call may be made. */
static int bzi_device_is_stuck(bzi_device *device) { return atomic_load(&device->stuck) != BZI_STUCK_NOT; }

static int bzi_device_is_hung(bzi_device *device) { return atomic_load(&device->stuck) == BZI_STUCK_CALL; }

static int bzi_device_is_wrong(bzi_device *device) { return atomic_load(&device->lost) == BZI_DEVICE_WRONG; }

/* Gives the device up: a call of the driver has not returned. */
static void bzi_device_hang(bzi_device *device)
{
    atomic_store(&device->stuck, BZI_STUCK_CALL);
    bzi_device_lose(device, (CUresult)BZI_DEVICE_HUNG);
}

/* --- Calls of the driver --- */

/* Begins a call. Returns 0 if no more may be made. */
static int bzi_driver_begin(bzi_device *device)
{
    if (bzi_device_is_hung(device))
        return 0;
    if (bzi_watch_self)
        atomic_fetch_add(&bzi_watch_self->calls, 1);
    return 1;
}

/* Ends a call, and returns its result. A thread that was left alone stays here for good: it may be in a callback of the
 * driver's, whose frames must not be unwound. */
static CUresult bzi_driver_end(CUresult result)
{
    uint_fast64_t calls = bzi_watch_self ? atomic_load(&bzi_watch_self->calls) : 0;

    while (bzi_watch_self && (calls == BZI_WATCH_LEFT ||
                              !atomic_compare_exchange_strong(&bzi_watch_self->calls, &calls, calls + 1)))
        bzi_os_sleep_ns(UINT64_C(3600000000000));
    return result;
}

/* Calls a function of the driver's that may wait for the device. The parser, which calls back, and what only concerns
 * the thread are called directly. */
#define BZI_CALL(device, function, ...) \
    (bzi_driver_begin(device) ? bzi_driver_end((device)->cu.function(__VA_ARGS__)) : (CUresult)BZI_DEVICE_HUNG)

/* Makes a status of the result of a driver's call. */
static bzna_status bzi_device_check(bzi_device *device, CUresult result, const char *call, bzna_error *err)
{
    if (result == CUDA_SUCCESS)
        return BZNA_OK;
    if ((int)result == BZI_DEVICE_HUNG)
        return bzi_device_fail_lost(device, err);
    if (bzi_cuda_is_lost((int)result))
        bzi_device_lose(device, result);
    return bzi_cuda_fail(&device->cu, result, call, err);
}

/* The same, and makes a status of the result. */
#define BZI_DRIVER(device, err, function, ...) \
    bzi_device_check(device, BZI_CALL(device, function, __VA_ARGS__), #function, err)

/* Returns BZNA_OK, or the error because of which NVDEC cannot be used. */
static bzna_status bzi_device_video(bzi_device *device, bzna_error *err)
{
    if (bzi_device_is_hung(device))
        return bzi_device_fail_lost(device, err);
    if (bzi_device_is_stuck(device))
        return BZI_FAIL(err, BZNA_E_DEVICE, "NVDEC of %s has not finished a picture for seconds, and is no longer "
                        "used: restart the process", device->info.name);
    *err = device->video;
    return err->status;
}

/* Makes the device's CUDA context current, or loses the device. device NULL needs none, here and in the next two. */
static bzna_status bzi_device_enter(bzi_device *device, bzna_error *err)
{
    CUresult result = device ? BZI_CALL(device, cuCtxPushCurrent_v2, device->cuda) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        return BZNA_OK;
    bzi_device_lose(device, result);
    bzi_device_check(device, result, "cuCtxPushCurrent", err);
    return err->status = BZNA_E_DEVICE_LOST;
}

/* Enters on a thread of the library, for good. Its allocations must not end the program's capture of a CUDA graph. */
static bzna_status bzi_device_enter_thread(bzi_device *device, bzna_error *err)
{
    int relaxed = 2;
    if (device)
        device->cu.cuThreadExchangeStreamCaptureMode(&relaxed);
    return bzi_device_enter(device, err);
}

static void bzi_device_leave(bzi_device *device)
{
    CUcontext popped;
    if (device)
        device->cu.cuCtxPopCurrent_v2(&popped);
}

/* --- Opening and closing --- */

static bzna_status bzi_device_describe(bzi_device *device, bzna_error *err)
{
    const CUdevice handle = device->handle;
    int major = 0, minor = 0, driver = 0;
    size_t bytes = 0;

    if (BZI_DRIVER(device, err, cuDeviceGetName, device->info.name, (int)sizeof device->info.name - 1, handle) !=
            BZNA_OK ||
        BZI_DRIVER(device, err, cuDeviceTotalMem_v2, &bytes, handle) != BZNA_OK ||
        BZI_DRIVER(device, err, cuDriverGetVersion, &driver) != BZNA_OK ||
        BZI_DRIVER(device, err, cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle) !=
            BZNA_OK ||
        BZI_DRIVER(device, err, cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle) !=
            BZNA_OK)
        return err->status;

    device->info.memory_bytes = bytes;
    device->decoder_budget = device->config.decode_memory_bytes ? device->config.decode_memory_bytes : bytes / 8;
    device->info.driver = (uint32_t)driver;
    device->info.compute_major = (uint32_t)major;
    device->info.compute_minor = (uint32_t)minor;
    if (major < 6)
        return BZI_FAIL(err, BZNA_E_DEVICE, "%s has compute capability %d.%d: 6.0 is needed", device->info.name, major,
                        minor);
    return BZNA_OK;
}

/* Chooses the device and its CUDA context: the user's, or the primary one. A program with a process for each GPU
 * selects the device by a context that is current. */
static bzna_status bzi_device_choose(bzi_device *device, bzna_error *err)
{
    const bzi_cuda *cu = &device->cu;
    const bzna_device wanted = device->config.device;
    CUcontext current = NULL;
    unsigned flags = 0;
    int count = 0, active = 1, ordinal = wanted.ordinal;
    bzna_status status;

    if (!bzi_le32(bzi_kernel_ptx))
        return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "this build has no PTX: run make, or use the files of make dist");
    if (bzi_cuda_start(&device->cu, &count, err) != BZNA_OK)
        return err->status;
    device->info.device_count = (uint32_t)count;

    if (device->config.cuda_context) {
        device->cuda = device->config.cuda_context;
        if (bzi_device_enter(device, err) != BZNA_OK)
            return err->status;
        status = BZI_DRIVER(device, err, cuCtxGetDevice, &device->handle);
        bzi_device_leave(device);
        if (status == BZNA_OK && wanted.kind == BZNA_DEVICE_CUDA && device->handle != ordinal)
            return BZI_MISUSE(err, "the CUDA context belongs to device %d, but device %d was requested",
                              device->handle, ordinal);
        device->info.device.ordinal = device->handle;       /* a CUdevice is its ordinal */
        return status;
    }

    if (wanted.kind == BZNA_DEVICE_AUTO &&
        (cu->cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current || cu->cuCtxGetDevice(&ordinal) != CUDA_SUCCESS))
        ordinal = 0;
    device->info.device.ordinal = ordinal;
    if (ordinal >= count)
        return BZI_FAIL(err, BZNA_E_DEVICE, "there is no CUDA device %d; the driver sees %d", ordinal, count);
    if (BZI_DRIVER(device, err, cuDeviceGet, &device->handle, ordinal) != BZNA_OK)
        return err->status;

    /* Threads that wait in a primary context spin by default, too much work for a dozen sessions. The flags of one that
     * is in use already are left alone. */
    if (cu->cuDevicePrimaryCtxGetState(device->handle, &flags, &active) == CUDA_SUCCESS && !active)
        cu->cuDevicePrimaryCtxSetFlags(device->handle, CU_CTX_SCHED_BLOCKING_SYNC);
    if (BZI_DRIVER(device, err, cuDevicePrimaryCtxRetain, &device->cuda, device->handle) != BZNA_OK)
        return err->status;
    device->owns_primary = 1;
    return BZNA_OK;
}

/* Writes the PTX as text. Packed are its size with 32 bits, the lowest first, then bytes. Those below 128 stand for
 * themselves. Others begin a reference to bytes before:
 *   10llllbb bbbbbbbb             l + 3 bytes, from b + 1 bytes before
 *   11llllll bbbbbbbb bbbbbbbb    l + 4 bytes, likewise */
static void bzi_kernel_unpack(char *text)
{
    const uint8_t *in = bzi_kernel_ptx + 4;
    const char *const end = text + bzi_le32(bzi_kernel_ptx);

    while (text != end) {
        const uint32_t first = *in++;
        uint64_t back, length;

        if (first < 128) {
            *text++ = (char)first;
            continue;
        }
        length = first < 192 ? (first >> 2 & 15) + 3 : (first & 63) + 4;
        back = first < 192 ? (first & 3) : *in++;
        back = (back << 8 | *in++) + 1;
        for (; length; length--, text++)
            *text = text[-(ptrdiff_t)back];
    }
    *text = 0;
}

/* Unpacks the PTX, and has the driver compile it. Errors say what helps. */
static bzna_status bzi_device_load_kernel(bzi_device *device, bzna_error *err)
{
#define BZI_KERNEL_NAME(name, function, bounds) #name,
    static const char *const names[] = { BZI_KERNELS(BZI_KERNEL_NAME) };
    static const struct { int code; const char *text; } reasons[] = {
        { 221, "libnvidia-ptxjitcompiler.so.1 was not found; it is a part of the driver, of libcuda.so.1's version" },
        { 222, "the driver is too old for this kernel" },
        { 223, "unset CUDA_DISABLE_PTX_JIT: the driver must compile the kernel" },
        { 304, "~/.nv/ComputeCache, or CUDA_CACHE_PATH, must be writable; or set CUDA_CACHE_DISABLE=1" },
    };
    const bzi_memory *memory = &device->host->memory;
    const uint64_t size = (uint64_t)bzi_le32(bzi_kernel_ptx) + 1;      /* of the text, with its NUL */
    char *text = bzi_alloc(memory, size, 1, 16);
    size_t used;
    bzna_status status;

    if (!text)
        return bzi_fail_memory(err, "the kernel");

    bzi_kernel_unpack(text);
    status = BZI_DRIVER(device, err, cuModuleLoadData, &device->module, text);
    for (size_t i = 0; i < BZI_LENGTH(reasons) && status != BZNA_OK; i++)
        if (err->native_code == reasons[i].code) {
            used = strlen(err->message);
            snprintf(err->message + used, sizeof err->message - used, ": %s", reasons[i].text);
        }
    for (int i = 0; i < BZI_KERNEL_COUNT && status == BZNA_OK; i++)
        status = BZI_DRIVER(device, err, cuModuleGetFunction, &device->warp[i], device->module, names[i]);
#ifndef BENZINA_NO_AUGMENT
    if (status == BZNA_OK)
        status = BZI_DRIVER(device, err, cuModuleGetFunction, &device->augment, device->module, "bzi_kernel_augment");
#endif

    bzi_release(memory, text, size, 1);
    return status;
}

/* Returns the number of a codec that NVDEC may decode, which is also that of its bit. */
static uint32_t bzi_device_codec(uint32_t codec) { return (uint32_t)(bzi_codec_find(codec) - bzi_codecs); }

/* Returns the entry of a kind, or NULL if NVDEC is never used for it. */
static bzi_caps *bzi_device_kind(bzi_device *device, uint32_t codec, uint32_t chroma, uint32_t depth)
{
    const bzi_codec *row = bzi_codec_find(codec);

    if (!row || !row->nv_unit || chroma > 3 || depth < 8 || depth > 12 || depth % 2)
        return NULL;
    return &device->caps[bzi_device_codec(codec)][chroma][(depth - 8) / 2];
}

/* Tells what NVDEC can do with pictures of a kind: zeros if nothing. The driver, which is slow, is asked once for each
 * kind, or twice if two threads ask at once. Pre: in the CUDA context. */
static bzna_status bzi_device_caps(bzi_device *device, uint32_t codec, uint32_t chroma, uint32_t depth,
                                   CUVIDDECODECAPS *out, bzna_error *err)
{
    bzi_caps *kind = bzi_device_kind(device, codec, chroma, depth);
    CUVIDDECODECAPS caps = { .eChromaFormat = (cudaVideoChromaFormat)chroma, .nBitDepthMinus8 = depth - 8 };
    uint32_t known;

    memset(out, 0, sizeof *out);
    if (!device->cu.cuvidGetDecoderCaps) {                  /* libnvcuvid was not loaded, and device->video says why */
        *err = device->video;
        return err->status;
    }
    if (!kind)
        return BZNA_OK;

    bzi_os_lock(&device->exclusive.mutex);
    known = kind->known;
    *out = kind->caps;
    bzi_os_unlock(&device->exclusive.mutex);
    if (known)
        return BZNA_OK;

    caps.eCodecType = (cudaVideoCodec)bzi_codec_find(codec)->nv_id;
    if (BZI_DRIVER(device, err, cuvidGetDecoderCaps, &caps) != BZNA_OK)
        return err->status;
    if (caps.bIsSupported && !caps.nNumNVDECs)              /* old drivers do not count them */
        caps.nNumNVDECs = 1;

    bzi_os_lock(&device->exclusive.mutex);
    kind->caps = *out = caps;
    kind->known = 1;
    bzi_os_unlock(&device->exclusive.mutex);
    return BZNA_OK;
}

/* Finds out whether NVDEC can be used, and how many engines it has. */
static void bzi_device_open_video(bzi_device *device)
{
    CUVIDDECODECAPS caps = { .bIsSupported = 0 };

    bzi_error_init(&device->video);

    if (device->info.driver / 10 == BZI_CUDA_CORRUPTS / 10)
        BZI_FAIL(&device->video, BZNA_E_DEVICE, "this driver, of CUDA 11.3, corrupts memory when several video "
                 "decoders work at once: update the driver to 470.21 or later");
    else if (bzi_cuda_load(&device->cu, BZI_OS_NVCUVID, "the driver's video part is not installed (in a container: set "
                           "NVIDIA_DRIVER_CAPABILITIES=compute,video)", bzi_nvcuvid_symbols,
                           BZI_LENGTH(bzi_nvcuvid_symbols), &device->video) == BZNA_OK &&
        bzi_device_caps(device, BZNA_CODEC_H265, 1, 8, &caps, &device->video) == BZNA_OK &&
        (caps.bIsSupported || bzi_device_caps(device, BZNA_CODEC_H264, 1, 8, &caps, &device->video) == BZNA_OK)) {
        device->info.engines = caps.bIsSupported ? caps.nNumNVDECs : 0;
        if (device->info.engines == 0)
            BZI_FAIL(&device->video, BZNA_E_DEVICE, "%s has no NVDEC engine for H.265 or H.264 (GPUs without one, and "
                     "small MIG slices, have none)", device->info.name);
    }

    device->info.video = device->video.status;
    bzi_string_copy(device->info.message, sizeof device->info.message, device->video.message);
}

/* Closes the device. Pre: the pool on it is closed. */
static void bzi_device_close(bzi_device *device)
{
    bzna_error ignored;

    /* a driver that is stuck may not return from these calls */
    if (device->process == bzi_os_process() && !bzi_device_is_stuck(device)) {
        int entered = device->module && bzi_device_enter(device, &ignored) == BZNA_OK;
        if (device->module)
            device->cu.cuModuleUnload(device->module);       /* for a lost device, without its context */
        if (entered)
            bzi_device_leave(device);
        if (device->owns_primary)
            device->cu.cuDevicePrimaryCtxRelease(device->handle);
    }

    bzi_os_locks_free(&device->exclusive.mutex, &device->exclusive.over, 1);
    bzi_release(&device->host->memory, device, 1, sizeof *device);
}


/* ==== 57. CUDA: memory, streams, kernels ============================================================================
 * Calls: rooms 4, 7-9, 48, 50, 55-56.
 *
 * Each function says whether it must be called in the CUDA context, or the title of its section does. */

static void bzi_device_free(bzi_device *device, uint64_t ptr, uint64_t bytes, void *stream)
{
    const bzna_device_allocator *allocator = &device->config.device_allocator;

    if (!ptr)
        return;
    if (!allocator->alloc) {
        BZI_CALL(device, cuMemFree_v2, ptr);
        return;
    }
    if (!bzi_device_is_hung(device))                        /* else work on the device may still use the memory */
        BZI_CALLBACK(allocator->release(allocator->user, (void *)(uintptr_t)ptr, (size_t)bytes, stream));
}

/* Allocates memory on the device, aligned to 256 bytes. Pre: in the CUDA context. */
static bzna_status bzi_device_alloc(bzi_device *device, uint64_t bytes, void *stream, uint64_t *out, bzna_error *err)
{
    const bzna_device_allocator *allocator = &device->config.device_allocator;
    CUdeviceptr ptr = 0;

    *out = 0;
    if (!allocator->alloc) {
        const bzna_status status = BZI_DRIVER(device, err, cuMemAlloc_v2, &ptr, (size_t)bytes);
        *out = ptr;
        return status;
    }

    BZI_CALLBACK(*out = (uint64_t)(uintptr_t)allocator->alloc(allocator->user, (size_t)bytes, stream));
    if (!*out)
        return BZI_FAIL(err, BZNA_E_MEMORY, "device_allocator.alloc returned NULL for %llu bytes",
                        (bzi_llu)bytes);
    if (*out % 256 == 0)
        return BZNA_OK;

    bzi_device_free(device, *out, bytes, stream);
    *out = 0;
    return BZI_FAIL(err, BZNA_E_CALLBACK, "device_allocator.alloc: its memory is not aligned to 256 bytes");
}

/* Pre: in the CUDA context. */
static bzna_status bzi_device_pin(bzi_device *device, uint64_t bytes, void **out, bzna_error *err)
{
    *out = NULL;
    return BZI_DRIVER(device, err, cuMemHostAlloc, out, (size_t)bytes, 0);
}

static void bzi_device_unpin(bzi_device *device, void *host)
{
    if (host)
        BZI_CALL(device, cuMemFreeHost, host);
}

/* --- Streams and events. Pre: in the CUDA context --- */

/* Makes a stream. urgent: its kernels run before others, since video engines are idle while decoded pictures that wait
 * for kernels fill all surfaces. */
static bzna_status bzi_device_stream(bzi_device *device, int urgent, void **out, bzna_error *err)
{
    CUstream stream = NULL;
    const bzna_status status = BZI_DRIVER(device, err, cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING,
                                          urgent ? -100 : 0);           /* the driver clamps the number */
    *out = stream;
    return status;
}

static bzna_status bzi_device_event(bzi_device *device, void **out, bzna_error *err)
{
    CUevent event = NULL;
    const bzna_status status = BZI_DRIVER(device, err, cuEventCreate, &event,
                                          CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
    *out = event;
    return status;
}

static void bzi_device_event_free(bzi_device *device, void *event)
{
    if (event)
        BZI_CALL(device, cuEventDestroy_v2, event);
}

static bzna_status bzi_device_record(bzi_device *device, void *event, void *stream, bzna_error *err)
{
    return BZI_DRIVER(device, err, cuEventRecord, event, stream);
}

/* Makes the stream wait for what the event recorded last. */
static bzna_status bzi_device_order(bzi_device *device, void *stream, void *event, bzna_error *err)
{
    return BZI_DRIVER(device, err, cuStreamWaitEvent, stream, event, 0);
}

/* Waits for what the event recorded last, or with event NULL for all that was enqueued on the stream. A thread that
 * nobody looks after asks for a minute at most, then returns BZNA_AGAIN, with an error.
 *   own   1: the work is the library's own. If a minute is not enough, the device hangs */
static bzna_status bzi_device_wait(bzi_device *device, void *event, void *stream, int own, bzna_error *err)
{
    const uint64_t until = bzi_os_now_ns() + BZI_LOOKS * (uint64_t)BZI_LOOK_NS;

    for (;;) {
        const CUresult result = event ? BZI_CALL(device, cuEventQuery, event) : BZI_CALL(device, cuStreamQuery, stream);
        if (result != CUDA_ERROR_NOT_READY)
            return bzi_device_check(device, result, event ? "cuEventQuery" : "cuStreamQuery", err);
        if (bzi_watch_self)
            return event ? BZI_DRIVER(device, err, cuEventSynchronize, event) :
                           BZI_DRIVER(device, err, cuStreamSynchronize, stream);
        if (bzi_os_now_ns() >= until)
            break;
        bzi_os_sleep_ns(BZI_POLL_NS);
    }
    if (own) {
        bzi_device_hang(device);
        return bzi_device_fail_lost(device, err);
    }
    BZI_FAIL(err, BZNA_E_DEVICE, "the program's work on %s has not ended for a minute", device->info.name);
    return BZNA_AGAIN;
}


static bzna_status bzi_device_drain(bzi_device *device, void *stream, bzna_error *err)
{
    return stream ? bzi_device_wait(device, NULL, stream, 0, err) : BZNA_OK;
}

/* The same for a stream of the library's own, whose memory is freed next. */
static void bzi_device_stream_wait(bzi_device *device, void *stream)
{
    bzna_error ignored;                                     /* if the device is lost, the next call reports it */
    if (stream)
        bzi_device_wait(device, NULL, stream, 1, &ignored);
}

/* Frees a stream after what was enqueued on it is done. */
static void bzi_device_stream_free(bzi_device *device, void *stream)
{
    if (!stream)
        return;
    bzi_device_stream_wait(device, stream);
    BZI_CALL(device, cuStreamDestroy_v2, stream);
}

static bzna_status bzi_device_upload(bzi_device *device, uint64_t dst, const void *src, uint64_t bytes, void *stream,
                                     bzna_error *err)
{
    return BZI_DRIVER(device, err, cuMemcpyHtoDAsync_v2, dst, src, (size_t)bytes, stream);
}

static bzna_status bzi_device_download(bzi_device *device, void *dst, uint64_t src, uint64_t bytes, void *stream,
                                       bzna_error *err)
{
    return BZI_DRIVER(device, err, cuMemcpyDtoHAsync_v2, dst, src, (size_t)bytes, stream);
}

static bzna_status bzi_device_zero(bzi_device *device, uint64_t dst, uint64_t bytes, void *stream, bzna_error *err)
{
    return BZI_DRIVER(device, err, cuMemsetD8Async, dst, 0, (size_t)bytes, stream);
}

/* Launches a kernel on `count` views, whose array it copies. A block has 32 x 8 threads. A warp of them covers
 * consecutive pixels of a row, and each thread does four rows, since setting up a slot takes as long as a pixel. */
static bzna_status bzi_device_launch(bzi_device *device, CUfunction kernel, void *views, unsigned count,
                                     bzi_kernel_output out, void *stream, bzna_error *err)
{
    void *parameters[2] = { views, &out };

    return BZI_DRIVER(device, err, cuLaunchKernel, kernel, ((unsigned)out.width + 31) / 32,
                      ((unsigned)out.height + 31) / 32, count, 32, 8, 1, 0, stream, parameters, NULL);
}

/* Warps slots[0 .. count-1]. There is one launch for each kernel that they need. Before those, a launch adds up the
 * lumas of the slots that need their mean; their sums must be 0. */
static bzna_status bzi_device_warp(bzi_device *device, const bzi_kernel_slots *slots, uint32_t count,
                                   const bzi_kernel_output *out, void *stream, bzna_error *err)
{
    bzi_kernel_slots some;
    bzi_kernel_output to = *out;
    bzna_status status = BZNA_OK;

    if (bzi_device_is_lost(device))                         /* its kernel may be what is wrong */
        return bzi_device_fail_lost(device, err);

    for (int kernel = -1; kernel < BZI_KERNEL_COUNT && status == BZNA_OK; kernel++) {
        unsigned n = 0;

        for (uint32_t i = 0; i < count; i++)
            if (kernel < 0 && (slots->slot[i].flags & BZI_KERNEL_MEAN_LUMA))
                some.slot[n++] = bzi_kernel_summing(&slots->slot[i]);
            else if (kernel >= 0 && bzi_kernel_of(&slots->slot[i], out) == kernel)
                some.slot[n++] = slots->slot[i];
        to.mean = kernel < 0 ? 0 : out->mean;
        if (n)
            status = bzi_device_launch(device, device->warp[kernel < 0 ? BZI_KERNEL_ANY : kernel], &some, n, to, stream,
                                       err);
    }

    return status;
}

/* Runs the passes of views that were warped. There is a launch for the first pass of all views, one for the second, and
 * so on, without views whose passes are over. */
#ifdef BENZINA_NO_AUGMENT
#  define bzi_device_operate(...) ((void)0)
#else
static bzna_status bzi_device_operate(bzi_device *device, const bzi_kernel_pass *views, uint32_t count,
                                      const bzi_kernel_output *out, void *stream, bzna_error *err)
{
    bzi_kernel_stage stages[BZI_KERNEL_SLOTS];
    bzi_kernel_passes passes;
    bzna_status status = BZNA_OK;
    unsigned n;

    memset(stages, 0, sizeof stages);
    do {
        n = 0;
        for (uint32_t i = 0; i < count; i++)
            n += bzi_kernel_next_pass(&views[i], out, &stages[i], &passes.pass[n]) != 0;
        if (n)
            status = bzi_device_launch(device, device->augment, &passes, n, *out, stream, err);
    } while (n && status == BZNA_OK);
    return status;
}
#endif

/* Returns how many bits are 0 below the values in NVDEC's surfaces. */
static uint32_t bzi_surface_low_zeros(uint32_t depth) { return depth > 8 ? 16 - depth : 0; }

/* --- The kernel, compared with the plain loop on the CPU. Pre: in the CUDA context --- */

#define BZI_TRIAL_SIDE   32                                 /* width and height of an output, in pixels */
#define BZI_TRIAL_PIXELS (3 * BZI_TRIAL_SIDE * BZI_TRIAL_SIDE)          /* values of an output, of three channels */
#define BZI_TRIAL_BYTES  (2 * BZI_TRIAL_PIXELS * sizeof(float))         /* of two outputs */

static const bzi_kernel_output bzi_trial_output = {
    .width = BZI_TRIAL_SIDE, .height = BZI_TRIAL_SIDE, .channels = 3, .stride_x = 1, .stride_y = BZI_TRIAL_SIDE,
    .stride_c = BZI_TRIAL_SIDE * BZI_TRIAL_SIDE };

/* Tries the kernel on a picture in memory of the device, as NVDEC writes it: with an axis-aligned and with a projective
 * matrix. If that differs from the plain loop, the device is lost.
 *   surface, bytes   the memory of the picture
 *   pinned           host memory of BZI_TRIAL_BYTES, and then of so many bytes for a copy of the picture */
static bzna_status bzi_trial_picture(bzi_device *device, void *stream, const bzna_picture *picture, uint64_t surface,
                                     uint64_t bytes, uint8_t *pinned, bzna_error *err)
{
    static const double warps[2][9] = { { 1.5, 0, 2.25, 0, 1.25, 1.75, 0, 0, 1 },
                                        { 1.1, 0.2, 3, -0.15, 0.9, 7, 2e-3, -1e-3, 1 } };
    uint8_t *const copy = pinned + BZI_TRIAL_BYTES;
    float expected[2 * BZI_TRIAL_PIXELS];
    bzi_kernel_slots slots;
    uint64_t pixels;
    bzna_status status = bzi_device_alloc(device, BZI_TRIAL_BYTES, stream, &pixels, err);

    for (uint32_t i = 0; i < 2 && status == BZNA_OK; i++) {
        bzna_transform transform;
        bzi_transform_init(&transform);
        memcpy(transform.homography, warps[i], sizeof warps[i]);
        transform.matrix = BZNA_MATRIX_BT709;               /* the picture's own may be one that is not known here */
        status = bzi_slot_make(&slots.slot[i], picture, &transform, BZNA_CHANNELS_RGB, err);
        slots.slot[i].low_zeros = (int32_t)bzi_surface_low_zeros(picture->depth);
        slots.slot[i].dst = pixels + i * BZI_TRIAL_BYTES / 2;
    }
    if (status == BZNA_OK)
        status = bzi_device_warp(device, &slots, 2, &bzi_trial_output, stream, err);
    if (status == BZNA_OK)
        status = bzi_device_download(device, pinned, pixels, BZI_TRIAL_BYTES, stream, err);
    if (status == BZNA_OK)
        status = bzi_device_download(device, copy, surface, bytes, stream, err);
    if (status == BZNA_OK)
        status = bzi_device_drain(device, stream, err);
    else
        bzi_device_stream_wait(device, stream);
    bzi_device_free(device, pixels, BZI_TRIAL_BYTES, stream);
    if (status != BZNA_OK)
        return status;

    for (int i = 0; i < 2; i++) {
        bzi_kernel_slot *slot = &slots.slot[i];
        for (int k = 0; k < 3; k++)                         /* a gray picture has one plane, others are 0 */
            slot->plane[k] += slot->plane[k] ? (uintptr_t)copy - surface : 0;
        slot->dst = (uint64_t)(uintptr_t)&expected[i * BZI_TRIAL_PIXELS];
        bzi_kernel_warp_plain(slot, &bzi_trial_output);
    }
    if (!memcmp(pinned, expected, sizeof expected))
        return BZNA_OK;
    bzi_device_lose(device, (CUresult)BZI_DEVICE_WRONG);
    return bzi_device_fail_lost(device, err);
}

/* Tries the kernel on a picture that is uploaded, as those that software decodes are. */
static bzna_status bzi_trial_run(bzi_device *device, bzna_error *err)
{
    enum { WIDTH = 64, HEIGHT = 48, BYTES = WIDTH * HEIGHT * 3 / 2 };
    bzna_picture picture = { .depth = 8, .width = WIDTH, .height = HEIGHT, .chroma_shift_x = 1, .chroma_shift_y = 1,
                             .pitch = { WIDTH, WIDTH, WIDTH }, .step = { 1, 2, 2 } };
    void *stream = NULL, *pinned = NULL;
    uint64_t surface = 0;
    bzna_status status = bzi_device_stream(device, 0, &stream, err);

    if (status == BZNA_OK && (status = bzi_device_pin(device, BZI_TRIAL_BYTES + BYTES, &pinned, err)) == BZNA_OK &&
        (status = bzi_device_alloc(device, BYTES, stream, &surface, err)) == BZNA_OK) {
        uint8_t *const pixels = (uint8_t *)pinned + BZI_TRIAL_BYTES;
        for (uint32_t i = 0; i < BYTES; i++)
            pixels[i] = (uint8_t)(i * i / 37 + i % 64 * 3);
        for (uint32_t i = 0; i < 3; i++)
            picture.plane[i] = (const void *)(uintptr_t)(surface + (i ? WIDTH * HEIGHT + i - 1 : 0));
        if ((status = bzi_device_upload(device, surface, pixels, BYTES, stream, err)) == BZNA_OK)
            status = bzi_trial_picture(device, stream, &picture, surface, BYTES, pinned, err);
    }

    bzi_device_free(device, surface, BYTES, stream);
    bzi_device_stream_free(device, stream);
    bzi_device_unpin(device, pinned);
    return status;
}

/* Opens a device: its CUDA context, the kernel, which is tried unless checks are off, and NVDEC, if it has that. */
static bzna_status bzi_device_open(bzi_host *host, const bzna_context_config *config, bzi_device **out, bzna_error *err)
{
    const char *checks = getenv("BENZINA_NVDEC_CHECK");
    bzi_device *device = bzi_alloc_zero(&host->memory, 1, sizeof *device);
    unsigned flags = 0;
    bzna_status status;

    if (!device)
        return bzi_fail_memory(err, "a device");
    if (!bzi_os_locks_init(&device->exclusive.mutex, BZI_RANK_DEVICE, &device->exclusive.over, 1)) {
        bzi_release(&host->memory, device, 1, sizeof *device);
        return BZI_FAIL(err, BZNA_E_THREAD, "cannot make a lock");
    }

    device->checks = !checks || strcmp(checks, "0");
    device->host = host;
    device->config = *config;
    device->process = bzi_os_process();
    device->info.struct_size = sizeof device->info;
    device->info.device.kind = BZNA_DEVICE_CUDA;
    if ((status = bzi_device_choose(device, err)) == BZNA_OK &&
        (status = bzi_device_describe(device, err)) == BZNA_OK && (status = bzi_device_enter(device, err)) == BZNA_OK) {
        /* 0 if bzi_device_choose set the flag, or another library did */
        device->spins = device->cu.cuCtxGetFlags(&flags) != CUDA_SUCCESS || !(flags & CU_CTX_SCHED_BLOCKING_SYNC);
        if ((status = bzi_device_load_kernel(device, err)) == BZNA_OK &&
            (status = device->checks ? bzi_trial_run(device, err) : BZNA_OK) == BZNA_OK)
            bzi_device_open_video(device);
        bzi_device_leave(device);
    }

    if (status != BZNA_OK) {
        bzi_device_close(device);
        return status;
    }

    *out = device;
    return BZNA_OK;
}

static bzna_status bzi_device_count(uint32_t *count, bzna_error *err)
{
    bzi_cuda cu;
    int n = 0;
    bzna_status status = bzi_cuda_start(&cu, &n, err);
    *count = (uint32_t)n;
    return status;
}

/* Returns 1 in a fork of the process that opened the device. */
static int bzi_device_is_foreign(const bzi_device *device) { return device->process != bzi_os_process(); }

/* Returns 1 if NVDEC does not decode a codec any more. */
static int bzi_device_gave_up(bzi_device *device, uint32_t codec)
{
    return bzi_device_is_stuck(device) || (atomic_load(&device->given_up) >> bzi_device_codec(codec) & 1);
}

/* Returns 1 if NVDEC's pixels of such pictures are known to be software's. */
static int bzi_device_has_passed(bzi_device *device, uint32_t codec, const bzi_format *format)
{
    bzi_caps *kind = bzi_device_kind(device, codec, format->chroma_format, format->depth_luma);

    return kind && atomic_load(&kind->check) == BZNA_CHECK_PASSED;
}

static void bzi_device_counts(bzi_device *device, bzna_statistics *stats)
{
    stats->decoders_made = atomic_load(&device->decoders_made);
    stats->decoders_reconfigured = atomic_load(&device->decoders_reconfigured);
    stats->sessions_lost = atomic_load(&device->sessions_lost);
}

#else

struct bzi_device {
    bzna_device_info info;            /* all zeros */
    bzna_error       video;           /* likewise */
};

/* In this build no device is ever opened: one function replaces all others. */
static int bzi_device_skip(const void *device, ...) { (void)device; return 0; }

#define bzi_cuda_fail_forked    bzi_device_skip
#define bzi_device_alloc        bzi_device_skip

#define bzi_device_download     bzi_device_skip
#define bzi_device_drain        bzi_device_skip
#define bzi_device_enter        bzi_device_skip
#define bzi_device_enter_thread bzi_device_skip
#define bzi_device_event        bzi_device_skip
#define bzi_device_fail_lost    bzi_device_skip
#define bzi_device_operate      bzi_device_skip
#define bzi_device_order        bzi_device_skip
#define bzi_device_pin          bzi_device_skip
#define bzi_device_record       bzi_device_skip
#define bzi_device_stream       bzi_device_skip
#define bzi_device_upload       bzi_device_skip
#define bzi_device_video        bzi_device_skip
#define bzi_device_wait         bzi_device_skip
#define bzi_device_warp         bzi_device_skip
#define bzi_device_zero         bzi_device_skip
#define bzi_pool_open           bzi_device_skip
#define bzi_check_codec         bzi_device_skip
#define bzi_device_close        bzi_device_skip
#define bzi_device_counts       bzi_device_skip
#define bzi_device_event_free   bzi_device_skip
#define bzi_device_free         bzi_device_skip
#define bzi_device_gave_up      bzi_device_skip
#define bzi_device_hang         bzi_device_skip
#define bzi_device_has_passed   bzi_device_skip
#define bzi_device_is_foreign   bzi_device_skip
#define bzi_device_is_hung      bzi_device_skip
#define bzi_device_is_lost      bzi_device_skip
#define bzi_device_is_wrong     bzi_device_skip
#define bzi_device_leave        bzi_device_skip
#define bzi_device_stream_free  bzi_device_skip
#define bzi_device_stream_wait  bzi_device_skip
#define bzi_device_unpin        bzi_device_skip
#define bzi_pool_close          bzi_device_skip
#define bzi_nvdec_chosen        (uint32_t)bzi_device_skip

static bzna_status bzi_device_open(bzi_host *host, const bzna_context_config *config, bzi_device **out, bzna_error *err)
{
    (void)host, (void)config;
    *out = NULL;
    return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "this build has no GPU path (BENZINA_NO_CUDA)");
}

static bzna_status bzi_device_count(uint32_t *count, bzna_error *err)
{
    *count = 0;
    return bzi_device_open(NULL, NULL, &(bzi_device *){ NULL }, err);
}

#endif

/* ==== 58. NVDEC decoders ============================================================================================
 * Calls: rooms 2, 9, 20, 50, 56.
 *
 * The decoders of a session: made, reconfigured for another size, and kept in a cache, which also decides what happens
 * if there is no memory for one more. A cache belongs to one thread, which works in the CUDA context.
 *
 * A surface is in use from the submission of a picture until that is unmapped. As all pictures are intra, decoders
 * remember nothing of them. */

#ifndef BENZINA_NO_CUDA

/* Surfaces of a decoder: NVDEC's limit, and the number of bits of bzi_nvdec.busy. */
#define BZI_LIMIT_SURFACES        32u
/* The time that a picture may take, and the time between queries of its status. */
#ifndef BZI_NVDEC_DEADLINE_NS
#  define BZI_NVDEC_DEADLINE_NS   5000000000u
#endif
#ifndef BZI_NVDEC_POLL_NS
#  define BZI_NVDEC_POLL_NS       100000u
#endif
/* A mapped picture may be in progress for so long until it is given up. */
#define BZI_NVDEC_VERDICT_NS      (BZI_NVDEC_DEADLINE_NS / 10)
/* Decoders of a session. Making one takes 50 to 100 ms, another size 5 ms. Each takes memory of the driver's, besides
 * its surfaces. */
#define BZI_NVDEC_CACHE_SLOTS     4u
/* The largest frame that a decoder is made for is a multiple of so many pixels: other sizes fit, too. */
#define BZI_NVDEC_SIZE_ALIGNMENT  512u

/* Calls of a session return BZNA_OK; BZNA_AGAIN if a picture must be mapped or unmapped before; BZNA_E_CODEC if another
 * decoder may take the picture; another error if none can; or one of these two. */
enum {
    BZI_FOREIGN = 100,                /* as E_CODEC, which is in the error, because NVDEC is never used for its codec */
    BZI_NO_ROOM = 101                 /* no memory for its decoder; the error is E_MEMORY */
};

/* A coded picture, and what it says of itself. */
typedef struct bzi_nvdec_picture {
    const bzna_image *image;          /* the caller's, with the coded bytes */
    bzi_format        sps;            /* by its parameter sets, or by JPEG's frame header */
    bzna_picture      picture;        /* sizes and colors; its planes come later */
} bzi_nvdec_picture;

/* What a decoder is made for, by the parameter sets. */
typedef struct bzi_nvdec_format {
    uint32_t codec;                   /* BZNA_CODEC_... */
    uint32_t chroma;                  /* chroma_format_idc */
    uint32_t depth;                   /* bits of a sample */
    uint32_t width;                   /* of the frame, in pixels */
    uint32_t height;
} bzi_nvdec_format;

typedef struct bzi_nvdec {
    CUvideodecoder handle;            /* NULL: the slot is free */
    bzi_nvdec_format format;
    uint32_t       width;             /* of its surfaces, as NVIDIA's parser sees it */
    uint32_t       height;
    uint32_t       max_width;         /* up to which it can be reconfigured */
    uint32_t       max_height;
    uint32_t       surfaces;          /* those chosen from, or more if the parser asks for more */
    uint32_t       busy;              /* a bit for each surface that was submitted and is not unmapped */
    uint32_t       broken;            /* 1: a surface could not be mapped: it takes no more pictures */
    uint32_t       next;              /* the surface after the last one submitted: all take turns */
    uint64_t       frames;            /* a hash of the format */
    uint64_t       used;              /* when it was used last, by the cache's clock */
    uint64_t       bytes;             /* of its surfaces */
} bzi_nvdec;

/* The decoders of a session, and what limits their number. */
typedef struct bzi_nvdec_cache {
    bzi_device *device;               /* on which decoders are made */
    bzi_nvdec   decoders[BZI_NVDEC_CACHE_SLOTS];  /* free slots have no handle */
    uint32_t    max_live;             /* decoders at most: lowered when memory is out */
    uint64_t    clock;                /* pictures submitted */
} bzi_nvdec_cache;

static bzi_nvdec_format bzi_nvdec_format_of(const bzi_nvdec_picture *coded)
{
    const bzi_format *sps = &coded->sps;
    return (bzi_nvdec_format){ coded->image->codec, sps->chroma_format, sps->depth_luma, sps->width, sps->height };
}

static cudaVideoSurfaceFormat bzi_nvdec_format_surface(const bzi_nvdec_format *format)
{
    if (format->chroma == 3)
        return format->depth > 8 ? cudaVideoSurfaceFormat_YUV444_16Bit : cudaVideoSurfaceFormat_YUV444;
    return format->depth > 8 ? cudaVideoSurfaceFormat_P016 : cudaVideoSurfaceFormat_NV12;
}

static cudaVideoCodec bzi_nvdec_codec(uint32_t codec) { return (cudaVideoCodec)bzi_codec_find(codec)->nv_id; }

/* --- A decoder --- */

static void bzi_nvdec_destroy(bzi_device *device, bzi_nvdec *decoder)
{
    if (!decoder->handle)
        return;
    if (!bzi_device_is_stuck(device))                       /* otherwise this call might not return */
        BZI_CALL(device, cuvidDestroyDecoder, decoder->handle);
    atomic_fetch_sub(&device->decoder_bytes, decoder->bytes);
    memset(decoder, 0, sizeof *decoder);
}

/* Returns how many surfaces a session chooses from: for pictures submitted, and for pictures mapped. */
static uint32_t bzi_nvdec_chosen(const bzi_device *device)
{
    return device->config.session_depth + device->config.session_mapped;
}

/* Returns how many surfaces a decoder has: at least as many as the parser asks for. */
static uint32_t bzi_nvdec_surfaces(const bzi_device *device, const CUVIDEOFORMAT *parsed)
{
    return bzi_max32(parsed->min_num_decode_surfaces, bzi_nvdec_chosen(device));
}

/* Returns 1 if a decoder is for such frames already, as NVIDIA's parser sees them. */
static int bzi_nvdec_serves(const bzi_nvdec *decoder, const bzi_nvdec_format *want, const CUVIDEOFORMAT *parsed)
{
    return decoder->handle && !memcmp(&decoder->format, want, sizeof *want) && decoder->width == parsed->coded_width &&
           decoder->height == parsed->coded_height && decoder->surfaces >= parsed->min_num_decode_surfaces;
}

/* Returns 1 if a decoder can be reconfigured for such frames. */
static int bzi_nvdec_fits(const bzi_nvdec *decoder, const bzi_nvdec_format *want)
{
    const bzi_nvdec_format *has = &decoder->format;
    return has->codec == want->codec && has->chroma == want->chroma && has->depth == want->depth &&
           decoder->max_width >= want->width && decoder->max_height >= want->height;
}

/* Returns the surface that has been free for longest, or BZI_LIMIT_SURFACES if all are in use. */
static uint32_t bzi_nvdec_free_surface(const bzi_device *device, const bzi_nvdec *decoder)
{
    const uint32_t chosen = bzi_nvdec_chosen(device);

    for (uint32_t i = 0; i < chosen; i++)
        if (!(decoder->busy >> (decoder->next + i) % chosen & 1))
            return (decoder->next + i) % chosen;
    return BZI_LIMIT_SURFACES;
}

/* Returns the bytes of device memory that a decoder's surfaces take, decoded and mapped ones. */
static uint64_t bzi_nvdec_bytes(const bzi_nvdec_format *want, uint64_t surfaces, uint64_t width, uint64_t height)
{
    return surfaces * width * height * (want->chroma == 3 ? 6 : 3) / 2 * bzi_sample_bytes(want->depth);
}

/* Returns the largest width or height that a decoder is made for. had: that of the one before it. */
static uint32_t bzi_nvdec_max_edge(uint32_t edge, uint32_t had, uint32_t limit)
{
    uint32_t aligned = (edge + BZI_NVDEC_SIZE_ALIGNMENT - 1) / BZI_NVDEC_SIZE_ALIGNMENT * BZI_NVDEC_SIZE_ALIGNMENT;
    return bzi_min32(bzi_max32(aligned, had), bzi_max32(limit, edge));
}

/* Describes a decoder for the whole frame. The driver only takes even target sizes, and scales a frame of odd size
 * unless the target has a rectangle of that size. Edges are at most 16384, as was checked. */
static void bzi_nvdec_describe(const bzi_device *device, const bzi_nvdec_format *want, const CUVIDEOFORMAT *parsed,
                               CUVIDDECODECREATEINFO *info)
{
    const unsigned width = parsed->coded_width, height = parsed->coded_height;

    *info = (CUVIDDECODECREATEINFO){
        .CodecType = bzi_nvdec_codec(want->codec),
        .ChromaFormat = (cudaVideoChromaFormat)want->chroma,
        .bitDepthMinus8 = want->depth - 8,
        .ulWidth = width,
        .ulHeight = height,
        .ulTargetWidth = (width + 1ul) & ~1ul,
        .ulTargetHeight = (height + 1ul) & ~1ul,
        .display_area = { .right = (short)width, .bottom = (short)height },
        .ulNumDecodeSurfaces = bzi_nvdec_surfaces(device, parsed),
        .ulNumOutputSurfaces = device->config.session_mapped,
        .ulIntraDecodeOnly = bzi_codec_find(want->codec)->nv_unit > 1,
        .ulCreationFlags = cudaVideoCreate_PreferCUVID,
        .DeinterlaceMode = cudaVideoDeinterlaceMode_Weave,
        .OutputFormat = bzi_nvdec_format_surface(want),
    };
    if ((width | height) & 1) {
        info->target_rect.right = (short)width;
        info->target_rect.bottom = (short)height;
    }
}

/* Replaces what is in the slot by a decoder, also for the sizes of before. After a failure the slot is free. The old
 * one is destroyed first, since memory may not suffice for both. Other sessions make decoders at the same time, so the
 * bytes are added to the device's before the sum is compared with the budget. */
static bzna_status bzi_nvdec_remake(bzi_device *device, bzi_nvdec *decoder, const bzi_nvdec_format *want,
                                    const CUVIDEOFORMAT *parsed, bzna_error *err)
{
    CUVIDDECODECREATEINFO info;
    CUVIDDECODECAPS caps;
    uint64_t bytes;
    bzna_status status;

    if (bzi_device_caps(device, want->codec, want->chroma, want->depth, &caps, err) != BZNA_OK)
        return err->status;

    bzi_nvdec_describe(device, want, parsed, &info);
    info.ulMaxWidth = bzi_nvdec_max_edge(parsed->coded_width, decoder->max_width, caps.nMaxWidth);
    info.ulMaxHeight = bzi_nvdec_max_edge(parsed->coded_height, decoder->max_height, caps.nMaxHeight);
    bytes = bzi_nvdec_bytes(want, info.ulNumDecodeSurfaces + info.ulNumOutputSurfaces, info.ulMaxWidth,
                            info.ulMaxHeight);

    bzi_nvdec_destroy(device, decoder);
    if (atomic_fetch_add(&device->decoder_bytes, bytes) + bytes > device->decoder_budget)
        status = BZI_FAIL_BY(err, BZNA_E_MEMORY, BZI_CUDA_NO_MEMORY,
                             "context_config.decode_memory_bytes: %llu bytes leave no room for another decoder",
                             (bzi_llu)device->decoder_budget);
    else
        status = BZI_DRIVER(device, err, cuvidCreateDecoder, &decoder->handle, &info);

    if (status != BZNA_OK) {
        atomic_fetch_sub(&device->decoder_bytes, bytes);
        decoder->handle = NULL;
        return status == BZNA_E_MEMORY ? BZI_NO_ROOM : status;
    }

    atomic_fetch_add(&device->decoders_made, 1);
    decoder->surfaces = (uint32_t)info.ulNumDecodeSurfaces;
    decoder->max_width = (uint32_t)info.ulMaxWidth;
    decoder->max_height = (uint32_t)info.ulMaxHeight;
    decoder->bytes = bytes;
    return BZNA_OK;
}

/* Gives a decoder another size. Returns 0 if a new decoder has to be made instead. */
static int bzi_nvdec_reconfigure(bzi_device *device, bzi_nvdec *decoder, const bzi_nvdec_format *want,
                                 const CUVIDEOFORMAT *parsed)
{
    CUVIDDECODECREATEINFO made;
    CUVIDRECONFIGUREDECODERINFO info = { 0 };
    bzna_error ignored;

    if (!decoder->handle || !bzi_nvdec_fits(decoder, want) || parsed->coded_width > decoder->max_width ||
        parsed->coded_height > decoder->max_height || parsed->min_num_decode_surfaces > decoder->surfaces)
        return 0;

    bzi_nvdec_describe(device, want, parsed, &made);
    info.ulWidth = parsed->coded_width;
    info.ulHeight = parsed->coded_height;
    info.ulTargetWidth = (unsigned)made.ulTargetWidth;
    info.ulTargetHeight = (unsigned)made.ulTargetHeight;
    info.ulNumDecodeSurfaces = decoder->surfaces;
    memcpy(&info.display_area, &made.display_area, sizeof info.display_area);
    memcpy(&info.target_rect, &made.target_rect, sizeof info.target_rect);
    if (BZI_DRIVER(device, &ignored, cuvidReconfigureDecoder, decoder->handle, &info) != BZNA_OK)
        return 0;

    atomic_fetch_add(&device->decoders_reconfigured, 1);
    return 1;
}

/* Checks that NVIDIA's parser and the library see the same frames. The parser may round sizes up. */
static bzna_status bzi_nvdec_agree(const bzi_nvdec_format *want, const CUVIDEOFORMAT *parsed, bzna_error *err)
{
    const uint32_t width = parsed->coded_width, height = parsed->coded_height;
    const uint32_t chroma = (uint32_t)parsed->chroma_format, depth = parsed->bit_depth_luma_minus8 + 8u;
    if (parsed->codec == bzi_nvdec_codec(want->codec) && chroma == want->chroma && depth == want->depth &&
        width >= want->width && width <= want->width + 63 && height >= want->height && height <= want->height + 63)
        return BZNA_OK;
    return BZI_FAIL(err, BZNA_E_CODEC,
                    "NVIDIA's parser sees a frame of %ux%u, %u bits, chroma format %u; the library sees %ux%u, %u, %u",
                    width, height, depth, chroma, want->width, want->height, want->depth, want->chroma);
}

/* --- The cache of decoders --- */

static void bzi_nvdec_cache_open(bzi_nvdec_cache *cache, bzi_device *device)
{
    *cache = (bzi_nvdec_cache){ .device = device, .max_live = BZI_NVDEC_CACHE_SLOTS };
}

static uint32_t bzi_nvdec_cache_live(const bzi_nvdec_cache *cache)
{
    uint32_t live = 0;
    for (uint32_t i = 0; i < BZI_NVDEC_CACHE_SLOTS; i++)
        live += cache->decoders[i].handle != NULL;
    return live;
}

/* Returns the decoder for such pictures, or the slot that is to become it: in this order
 *
 *   - a free slot, if one more decoder may live
 *   - the least recently used idle decoder that only needs another size
 *   - the least recently used idle decoder, unless a busy one would only need another size
 *
 * Returns NULL if there is none until a picture is unmapped. */
static bzi_nvdec *bzi_nvdec_cache_find(bzi_nvdec_cache *cache, const bzi_nvdec_format *want)
{
    const int free_worth = bzi_nvdec_cache_live(cache) < cache->max_live ? 3 : 0;
    bzi_nvdec *found = NULL;
    int best = 0, busy_fits = 0;

    for (uint32_t i = 0; i < BZI_NVDEC_CACHE_SLOTS; i++) {
        bzi_nvdec *d = &cache->decoders[i];
        int worth;

        if (d->broken && !d->busy)
            bzi_nvdec_destroy(cache->device, d);
        if (d->handle && !d->broken && !memcmp(&d->format, want, sizeof *want))
            return bzi_nvdec_free_surface(cache->device, d) < BZI_LIMIT_SURFACES ? d : NULL;
        if (d->busy) {
            busy_fits |= bzi_nvdec_fits(d, want);
            continue;
        }

        worth = !d->handle ? free_worth : bzi_nvdec_fits(d, want) ? 2 : 1;
        if (worth > best || (found && worth == best && d->used < found->used)) {
            best = worth;
            found = d;
        }
    }

    return best < 2 && busy_fits ? NULL : found;
}

/* Finds a decoder for such pictures, with a free surface; or reconfigures or makes one. If memory is out, the session
 * keeps no more decoders than it has, and gives up idle ones, one by one. With none left it tries once more. */
static bzna_status bzi_nvdec_cache_acquire(bzi_nvdec_cache *cache, const bzi_nvdec_format *want,
                                           const CUVIDEOFORMAT *parsed, bzi_nvdec **out, bzna_error *err)
{
    bzna_status result = BZI_NO_ROOM;

    for (int alone = 0; result == BZI_NO_ROOM && alone < 2; ) {
        bzi_nvdec *decoder = *out = bzi_nvdec_cache_find(cache, want);
        uint32_t live;

        if (decoder && bzi_nvdec_serves(decoder, want, parsed))
            return BZNA_OK;
        if (!decoder || decoder->busy)                      /* with streams for which the parser asks for fewer */
            return BZNA_AGAIN;
        if (bzi_nvdec_agree(want, parsed, err) != BZNA_OK)
            return BZNA_E_CODEC;

        result = bzi_nvdec_reconfigure(cache->device, decoder, want, parsed) ? BZNA_OK :
                 bzi_nvdec_remake(cache->device, decoder, want, parsed, err);
        live = bzi_nvdec_cache_live(cache);
        if (result == BZI_NO_ROOM && live)
            cache->max_live = live;
        alone += !live;
    }
    if (result != BZNA_OK)
        return result;

    (*out)->format = *want;
    (*out)->frames = bzi_hash(BZI_HASH_START, want, sizeof *want);
    (*out)->width = parsed->coded_width;
    (*out)->height = parsed->coded_height;
    return BZNA_OK;
}

#endif

/* ==== 59. NVDEC sessions ============================================================================================
 * Calls: rooms 9-10, 20, 53, 56, 58.
 *
 * A session decodes pictures in the order in which they are submitted, and keeps several in flight. One thread opens,
 * uses and closes it, in the CUDA context:
 *
 *   accepts -> submit -> map (waits for the oldest) -> the kernel is enqueued on session->stream -> unmap
 *
 * The session chooses the surface of a picture, not the parser, as every picture is decoded alone. A picture must not
 * depend on those before it:
 *   - A parser only sees one content of parameter sets, and is replaced after a failure. A session keeps several, since
 *     a batch may mix frame sizes.
 *   - A decoder may be reconfigured only in the sequence callback, which a parser calls for new parameter sets. If the
 *     decoder has another size by then, the parser is replaced, too.
 *   - The parser calls back inside submit, and does not return what a callback did: bzi_submission keeps that. */

#ifndef BENZINA_NO_CUDA

#define BZI_SESSION_PARSERS BZI_LRU_SLOTS
/* After so many failed calls of the driver in a row with a codec, in all sessions, it is given up. */
#define BZI_SESSION_MAX_FAILURES 32u

/* A picture in flight. */
typedef struct bzi_flight {
    void        *tag;                 /* the caller's */
    bzna_picture picture;             /* its planes are device addresses once it is mapped */
    uint32_t     window_x;            /* where the stream's picture begins in the surface, in pixels */
    uint32_t     window_y;
    bzi_nvdec   *decoder;
    uint32_t     surface;             /* of the decoder */
    uint32_t     is_sound;            /* 1: NVDEC has reported no damage, now or before for the same bytes */
    CUdeviceptr  address;             /* of the mapped surface */
} bzi_flight;

typedef struct bzi_session bzi_session;

/* A call of bzi_session_submit, for the parser's callbacks. */
typedef struct bzi_submission {
    bzi_session     *session;         /* that submits */
    bzi_nvdec_format want;            /* what its decoder must be for */
    bzi_flight       flight;          /* the picture; it goes to the session when it is queued */
    uint32_t         queued;          /* 1: the decoder has the picture */
    bzna_status      result;          /* of the callbacks */
    bzna_error      *err;             /* the caller's */
} bzi_submission;

/* One of NVIDIA's parsers, whose user pointer points here. */
typedef struct bzi_parser {
    CUvideoparser   handle;           /* NULL: the slot is free */
    CUVIDEOFORMAT   parsed;           /* what it made of its parameter sets */
    bzi_submission *submission;       /* while it parses; else NULL */
} bzi_parser;

struct bzi_session {
    bzi_device      *device;          /* outlives the session */
    const bzi_memory *memory;         /* the user's, for buffers */
    void            *stream;          /* on which surfaces are mapped */
    bzi_buffer       bytes;           /* the picture being submitted, in Annex B for H.264 and H.265 */
    bzi_lru          parser_keys;     /* the parameter sets of each parser */
    bzi_parser       parsers[BZI_SESSION_PARSERS];
    bzi_nvdec_cache  decoders;
    uint32_t         waits;           /* 1: a picture is mapped only after the driver reports that it is done */
    bzi_flight       pending[BZI_LIMIT_SESSION_DEPTH];        /* submitted: a ring */
    uint32_t         pending_first;   /* index of the oldest in the ring */
    uint32_t         pending_count;
    bzi_flight       mapped[BZI_KERNEL_SLOTS];    /* read by kernels on `stream` */
    uint32_t         mapped_count;    /* how many of them */
    bzi_software     software;        /* with which the self-check compares; memory NULL: it is not open */
};


static const char *bzi_chroma_name(uint32_t chroma)
{
    return chroma == 0 ? "gray" : chroma == 1 ? "4:2:0" : chroma == 2 ? "4:2:2" : "4:4:4";
}

/* Returns BZNA_OK; BZI_FOREIGN if NVDEC is never used for the codec; BZNA_E_CODEC if this device's NVDEC cannot decode
 * such pictures; or BZNA_E_DEVICE_LOST. */
static bzna_status bzi_session_accepts(bzi_session *session, const bzi_nvdec_picture *coded, bzna_error *err)
{
    const bzi_format *sps = &coded->sps;
    const bzi_nvdec_format format = bzi_nvdec_format_of(coded);
    const uint32_t codec = format.codec;
    const char *name = bzi_codec_name(codec), *device = session->device->info.name;
    const uint32_t unit = bzi_codec_find(codec)->nv_unit;
    uint32_t width, height;
    CUVIDDECODECAPS caps;
    bzna_status status;

    if (!unit || !bzi_codec_is_allowed(session->device->host->codecs, coded->image)) {
        BZI_FAIL(err, BZNA_E_CODEC, unit ? "%s: context_config.codecs does not allow it" :
                                           "%s is decoded in software, not by NVDEC", name);
        return BZI_FOREIGN;
    }
    if (atomic_load(&session->device->given_up) >> bzi_device_codec(codec) & 1)
        return BZI_FAIL(err, BZNA_E_CODEC, "NVDEC of %s has failed %u times in a row with %s", device,
                        BZI_SESSION_MAX_FAILURES, name);

    status = bzi_device_is_stuck(session->device) ? bzi_device_video(session->device, err) :
             bzi_device_caps(session->device, codec, format.chroma, format.depth, &caps, err);
    if (status != BZNA_OK)                                  /* an old driver may not know the codec */
        return status == BZNA_E_DEVICE_LOST ? status : (err->status = BZNA_E_CODEC);
    if (!caps.bIsSupported || format.chroma == 2 || (sps->depth_chroma != sps->depth_luma && format.chroma) ||
        !(caps.nOutputFormatMask >> bzi_nvdec_format_surface(&format) & 1))
        return BZI_FAIL(err, BZNA_E_CODEC, "NVDEC of %s does not decode %s of %u bits, %s", device, name, format.depth,
                        bzi_chroma_name(format.chroma));

    /* The driver counts frames as coded, in whole macroblocks, for H.265, too. */
    width = (sps->width + unit - 1) / unit * unit;
    height = (sps->height + unit - 1) / unit * unit;
    if (width < caps.nMinWidth || height < caps.nMinHeight || width > caps.nMaxWidth || height > caps.nMaxHeight ||
        (uint64_t)width * height / 256 > caps.nMaxMBCount)
        return BZI_FAIL(err, BZNA_E_CODEC,
                        "NVDEC of %s decodes %s frames of %ux%u to %ux%u and %u macroblocks, not %ux%u", device, name,
                        caps.nMinWidth, caps.nMinHeight, caps.nMaxWidth, caps.nMaxHeight, caps.nMaxMBCount,
                        format.width, format.height);
    return BZNA_OK;
}

/* --- Parsers --- */

/* The parser has read parameter sets: finds the decoder for them. Returns its surfaces, or 0 on failure. */
static int CUDAAPI bzi_parser_on_sequence(void *user, CUVIDEOFORMAT *format)
{
    bzi_parser *parser = user;
    bzi_submission *s = parser->submission;

    parser->parsed = *format;
    if (!s || s->result != BZNA_OK)
        return 0;
    if (!s->queued)                                         /* else the picture's decoder must stay as it is */
        s->result = bzi_nvdec_cache_acquire(&s->session->decoders, &s->want, format, &s->flight.decoder, s->err);
    return s->result == BZNA_OK ? (int)bzi_nvdec_surfaces(s->session->device, format) : 0;
}

/* Takes the first picture of the access unit as the sample, as software does, and gives it to the decoder. Says
 * BZNA_AGAIN if there is no free surface. */
static int CUDAAPI bzi_parser_on_picture(void *user, CUVIDPICPARAMS *parameters)
{
    bzi_parser *parser = user;
    bzi_submission *s = parser->submission;
    CUVIDAV1PICPARAMS *av1 = &parameters->CodecSpecific.av1;
    bzi_flight *flight;
    int is_av1;

    if (!s || s->result != BZNA_OK || s->queued)
        return s && s->queued;

    flight = &s->flight;
    is_av1 = s->want.codec == BZNA_CODEC_AV1;
    if (!bzi_nvdec_serves(flight->decoder, &s->want, &parser->parsed))
        s->result = BZI_FAIL(s->err, BZNA_E_CODEC, "NVIDIA's parser finds a picture without parameter sets");
    else if (parameters->field_pic_flag)
        s->result = BZI_FAIL(s->err, BZNA_E_CODEC, "the picture is interlaced");
    else if (is_av1 && av1->apply_grain)
        s->result = BZI_FAIL(s->err, BZNA_E_CODEC, "the picture has film grain, which needs two surfaces");
    else if ((flight->surface = bzi_nvdec_free_surface(s->session->device, flight->decoder)) == BZI_LIMIT_SURFACES)
        s->result = BZNA_AGAIN;
    else {
        parameters->CurrPicIdx = (int)flight->surface;
        if (is_av1) {
            av1->decodePicIdx = (int)flight->surface;
            if (av1->frame_type == 0)   /* a key frame; frames that the parser remembers were overwritten long ago */
                memset(av1->ref_frame_map, 0xff, sizeof av1->ref_frame_map);
        }
        s->result = BZI_DRIVER(s->session->device, s->err, cuvidDecodePicture, flight->decoder->handle, parameters);
    }
    s->queued = s->result == BZNA_OK;
    return (int)s->queued;
}

static void bzi_session_drop_parser(bzi_session *session, bzi_parser *parser)
{
    if (parser->handle)
        session->device->cu.cuvidDestroyVideoParser(parser->handle);
    memset(parser, 0, sizeof *parser);
    bzi_lru_forget(&session->parser_keys, (uint32_t)(parser - session->parsers));
}

/* Finds a parser that has only seen the image's parameter sets, for frames that this decoder serves, or makes one. */
static bzna_status bzi_session_find_parser(bzi_session *session, const bzna_image *image,
                                           const bzi_submission *submission, bzi_parser **out, bzna_error *err)
{
    uint32_t index = 0;
    const int found = bzi_lru_find(&session->parser_keys, session->memory, image, &index);
    bzi_parser *parser;
    /* the sequence callback returns the real number of surfaces */
    CUVIDPARSERPARAMS parameters = { .CodecType = bzi_nvdec_codec(image->codec), .ulMaxNumDecodeSurfaces = 1,
                                     .pfnSequenceCallback = bzi_parser_on_sequence,
                                     .pfnDecodePicture = bzi_parser_on_picture };
    bzna_status status;

    if (found < 0)
        return bzi_fail_memory(err, "parameter sets");
    *out = parser = &session->parsers[index];
    if (found && bzi_nvdec_serves(submission->flight.decoder, &submission->want, &parser->parsed))
        return BZNA_OK;

    bzi_session_drop_parser(session, parser);
    parameters.pUserData = parser;
    status = BZI_DRIVER(session->device, err, cuvidCreateVideoParser, &parser->handle, &parameters);
    if (status == BZNA_OK)
        bzi_lru_keep(&session->parser_keys, index);
    else
        parser->handle = NULL;
    return status;
}

/* --- Submitting --- */

/* Returns what to do with a picture after an error. A driver error that does not lose the device may be the picture's
 * fault, or pass: it is decoded in software, and after too many in a row, all of the codec. */
static bzna_status bzi_session_fall_back(bzi_session *session, uint32_t codec, bzna_error *err)
{
    bzi_device *device = session->device;
    const uint32_t number = bzi_device_codec(codec), bit = 1u << number;

    if (err->status != BZNA_E_DEVICE && (err->status != BZNA_E_MEMORY || err->native_code != BZI_CUDA_NO_MEMORY))
        return err->status;
    if (atomic_fetch_add(&device->failures[number], 1) + 1 >= BZI_SESSION_MAX_FAILURES &&
        !(atomic_fetch_or(&device->given_up, bit) & bit))
        bzi_log(device->host, BZNA_LOG_WARNING, BZNA_E_DEVICE, "%s is decoded in software from now on: %u driver calls "
                "failed in a row", bzi_codec_name(codec), BZI_SESSION_MAX_FAILURES);
    return err->status = BZNA_E_CODEC;
}

static void bzi_session_count_success(bzi_session *session, uint32_t codec)
{
    atomic_uint *failures = &session->device->failures[bzi_device_codec(codec)];
    if (atomic_load(failures))
        atomic_store(failures, 0);
}

/* Gives a picture to a parser, whose callbacks find its decoder and submit it there. */
static bzna_status bzi_session_offer(bzi_session *session, const bzi_nvdec_picture *coded, bzi_submission *submission,
                                     bzna_error *err)
{
    const bzna_image *image = coded->image;
    /* without this flag, the parser waits for the next packet */
    CUVIDSOURCEDATAPACKET packet = { .flags = CUVID_PKT_ENDOFPICTURE };
    bzi_parser *parser = NULL;
    uint64_t size;
    bzna_error why;
    bzna_status result;

    submission->session = session;
    submission->want = bzi_nvdec_format_of(coded);
    submission->err = err;

    /* The sequence callback looks for it again. If it were busy there, the parser would be lost. */
    submission->flight.decoder = bzi_nvdec_cache_find(&session->decoders, &submission->want);
    if (!submission->flight.decoder)
        return BZNA_AGAIN;

    if (bzi_image_to_buffer(image, session->memory, 0, &session->bytes, &size, err) != BZNA_OK ||
        bzi_session_find_parser(session, image, submission, &parser, err) != BZNA_OK)
        return bzi_session_fall_back(session, image->codec, err);

    packet.payload = session->bytes.data;
    packet.payload_size = (tcu_ulong)size;
    parser->submission = submission;
    result = bzi_device_check(session->device, session->device->cu.cuvidParseVideoData(parser->handle, &packet),
                              "cuvidParseVideoData", &why);
    parser->submission = NULL;
    if (submission->queued)                                 /* whatever the parser makes of the rest */
        return BZNA_OK;

    bzi_session_drop_parser(session, parser);
    if (submission->result != BZNA_OK)                      /* the callbacks' error is the first one */
        result = submission->result;
    else if (result != BZNA_OK)
        *err = why;
    else
        result = BZI_FAIL(err, BZNA_E_CODEC, "NVIDIA's parser finds no picture");
    return result < 0 ? bzi_session_fall_back(session, image->codec, err) : result;
}

/* Queues a picture. Pre: bzi_session_accepts has accepted it. */
static bzna_status bzi_session_submit(bzi_session *session, const bzi_nvdec_picture *coded, void *tag, bzna_error *err)
{
    const bzi_format *sps = &coded->sps;
    bzi_submission submission = { .flight = { .tag = tag, .picture = coded->picture, .window_x = sps->window[0],
                                              .window_y = sps->window[2] } };
    const bzi_flight *flight = &submission.flight;
    bzna_status result = BZNA_AGAIN;

    if (session->pending_count == session->device->config.session_depth ||
        (result = bzi_session_offer(session, coded, &submission, err)) != BZNA_OK)
        return result;

    flight->decoder->busy |= 1u << flight->surface;
    flight->decoder->next = flight->surface + 1;
    flight->decoder->used = ++session->decoders.clock;
    session->pending[(session->pending_first + session->pending_count++) % BZI_LIMIT_SESSION_DEPTH] = *flight;
    return BZNA_OK;
}

#endif

/* ==== 60. NVDEC sessions: mapping ===================================================================================
 * Calls: rooms 4, 8-9, 20, 50, 53, 55-59.
 *
 * A picture that NVDEC has decoded becomes a surface that kernels read. It is delivered only after the driver has
 * reported its status, unless the driver reports none for any picture. */

#ifndef BENZINA_NO_CUDA

/* Returns the rows of luma in a decoder's surfaces. */
static uint64_t bzi_nvdec_rows(const bzi_nvdec *decoder) { return (decoder->height + 1ull) & ~1ull; }

/* Sets where the planes lie in a mapped surface. Cb and Cr alternate in one plane, unless they are as large as luma. */
static void bzi_session_planes(bzi_flight *flight, uint64_t pitch)
{
    const uint64_t rows = bzi_nvdec_rows(flight->decoder), bytes = bzi_sample_bytes(flight->picture.depth);
    const int alternate = flight->decoder->format.chroma != 3;

    for (uint64_t i = 0; i < 3; i++) {
        const uint64_t half = i && alternate;
        const uint64_t row = (half ? 1 : i) * rows + (flight->window_y >> half);
        const uint64_t x = (flight->window_x >> half << half) + (half ? i - 1 : 0);
        const uintptr_t at = (uintptr_t)(flight->address + row * pitch + x * bytes);

        flight->picture.plane[i] = half && !flight->picture.chroma_shift_x ? NULL : (const void *)at;   /* gray */
        flight->picture.pitch[i] = (int64_t)pitch;
        flight->picture.step[i] = (uint32_t)(bytes << half);
    }
}

static void bzi_session_unmap(bzi_session *session, const bzi_flight *flight)
{
    if (!bzi_device_is_stuck(session->device))              /* otherwise this call might not return */
        BZI_CALL(session->device, cuvidUnmapVideoFrame64, flight->decoder->handle, flight->address);

    flight->decoder->busy &= ~(1u << flight->surface);
}

/* Asks NVDEC for a picture's status until it is done, or so long. *out: Invalid for AV1 and with old drivers. */
static bzna_status bzi_session_ask(bzi_session *session, const bzi_flight *flight, uint64_t limit_ns,
                                   cuvidDecodeStatus *out, bzna_error *err)
{
    bzi_device *device = session->device;
    const uint64_t until = bzi_os_now_ns() + limit_ns;

    *out = cuvidDecodeStatus_Invalid;
    while (flight->decoder->format.codec != BZNA_CODEC_AV1) {
        CUVIDGETDECODESTATUS decoded = { .decodeStatus = cuvidDecodeStatus_Invalid };
        CUresult result;

        if (bzi_device_is_stuck(device))
            return bzi_device_video(device, err);
        result = BZI_CALL(device, cuvidGetDecodeStatus, flight->decoder->handle, (int)flight->surface, &decoded);
        if (bzi_cuda_is_lost((int)result) || (int)result == BZI_DEVICE_HUNG)
            return bzi_device_check(device, result, "cuvidGetDecodeStatus", err);
        *out = result == CUDA_SUCCESS ? decoded.decodeStatus : cuvidDecodeStatus_Invalid;
        if (*out != cuvidDecodeStatus_InProgress || bzi_os_now_ns() > until)
            break;
        bzi_os_sleep_ns(BZI_NVDEC_POLL_NS);
    }
    return BZNA_OK;
}

/* Decides about a mapped picture. decoded: its status, or Invalid. Returns E_DECODE if it is damaged, E_DEVICE if the
 * driver does not tell. Of bytes that were sound before, only the first picture of a flush is asked about, since a call
 * may hold the context's lock for long. */
static bzna_status bzi_session_judge(bzi_session *session, bzi_flight *flight, cuvidDecodeStatus decoded,
                                     bzna_error *err)
{
    if (decoded == cuvidDecodeStatus_Invalid && flight->is_sound && session->mapped_count)
        return BZNA_OK;
    if (decoded == cuvidDecodeStatus_Invalid &&
        bzi_session_ask(session, flight, BZI_NVDEC_VERDICT_NS, &decoded, err) != BZNA_OK)
        return err->status;

    if (decoded == cuvidDecodeStatus_InProgress)
        return BZI_FAIL(err, BZNA_E_DEVICE, "NVDEC has mapped a picture and does not report whether it is damaged");
    if (decoded == cuvidDecodeStatus_Error || decoded == cuvidDecodeStatus_Error_Concealed)
        return BZI_FAIL_BY(err, BZNA_E_DECODE, decoded, "NVDEC: the picture is damaged");

    flight->is_sound = decoded == cuvidDecodeStatus_Success;
    return BZNA_OK;
}

/* Maps the oldest picture, after it is done. Its tag is set in every case. The rest of *out is valid until
 * bzi_session_unmap_all. Pre: pending_count > 0, mapped_count < session_mapped. */
static bzna_status bzi_session_map(bzi_session *session, bzi_flight *out, bzna_error *err)
{
    bzi_device *device = session->device;
    CUVIDPROCPARAMS parameters = { .progressive_frame = 1, .output_stream = session->stream };
    cuvidDecodeStatus decoded = cuvidDecodeStatus_Invalid;
    uint32_t codec;
    unsigned pitch;
    bzna_status status = BZNA_OK;

    *out = session->pending[session->pending_first];
    session->pending_first = (session->pending_first + 1) % BZI_LIMIT_SESSION_DEPTH;
    session->pending_count--;
    codec = out->decoder->format.codec;

    if (device->spins || session->waits)
        status = bzi_session_ask(session, out, BZI_NVDEC_DEADLINE_NS, &decoded, err);
    if (status == BZNA_OK && decoded == cuvidDecodeStatus_InProgress)
        atomic_store(&device->stuck, BZI_STUCK_NVDEC);
    if (bzi_device_is_stuck(device))
        status = bzi_device_video(device, err);
    if (status != BZNA_OK || BZI_DRIVER(device, err, cuvidMapVideoFrame64, out->decoder->handle, (int)out->surface,
                                        &out->address, &pitch, &parameters) != BZNA_OK) {
        out->decoder->broken = 1;
        out->decoder->busy &= ~(1u << out->surface);
        return bzi_session_fall_back(session, codec, err);
    }

    status = bzi_session_judge(session, out, decoded, err);
    if (status != BZNA_E_DEVICE)
        bzi_session_count_success(session, codec);
    if (status != BZNA_OK) {
        bzi_session_unmap(session, out);
        return status == BZNA_E_DEVICE ? bzi_session_fall_back(session, codec, err) : status;
    }

    bzi_session_planes(out, pitch);
    session->mapped[session->mapped_count++] = *out;
    return BZNA_OK;
}

/* Unmaps all surfaces. Pre: all that reads them was enqueued on session->stream: the next surface is written after
 * that. */
static void bzi_session_unmap_all(bzi_session *session)
{
    while (session->mapped_count)
        bzi_session_unmap(session, &session->mapped[--session->mapped_count]);
}

static void bzi_session_drop_all(bzi_session *session)
{
    bzi_session_unmap_all(session);
    for (uint32_t i = 0; i < BZI_SESSION_PARSERS; i++)
        bzi_session_drop_parser(session, &session->parsers[i]);
    for (uint32_t i = 0; i < BZI_NVDEC_CACHE_SLOTS; i++)
        bzi_nvdec_destroy(session->device, &session->decoders.decoders[i]);
}

/* Closes a session. Pre: nothing is pending. */
static void bzi_session_close(bzi_session *session)
{
    bzi_session_drop_all(session);
    bzi_lru_free(&session->parser_keys, session->memory);
    bzi_device_stream_free(session->device, session->stream);
    session->stream = NULL;
    bzi_buffer_free(session->memory, &session->bytes);
    bzi_software_close(&session->software);
}

static bzna_status bzi_session_open(bzi_session *session, bzi_device *device, const bzi_memory *memory, bzna_error *err)
{
    memset(session, 0, sizeof *session);
    session->device = device;
    session->memory = memory;
    bzi_nvdec_cache_open(&session->decoders, device);
    return bzi_device_stream(device, 1, &session->stream, err);
}

#endif


/* ==== 61. NVDEC: self-check =========================================================================================
 * Calls: rooms 2, 7, 9, 20-21, 50, 53-54, 56-60.
 *
 * The first picture of a kind is decoded by NVDEC and by the CPU, and the two are compared: by bits, but for JPEG,
 * whose decoders round differently. The kernel is tried on the same picture.
 *
 *   - If NVDEC makes other pixels, the kind is decoded in software from then on, and the log says so.
 *   - If only the kernel is wrong, the device is lost.
 *   - A picture is mapped only once NVDEC reports that it is done, as nobody could end a call that waits in vain. If
 *     NVDEC never reports it, nothing more is asked of it in this process. For AV1 it reports nothing, so the call
 *     waits. Whoever looks after the thread notices if it does not return. */

#ifndef BENZINA_NO_CUDA

/* By how much of 255 JPEGs may differ. On average it is half of 1. */
#define BZI_CHECK_MAX_DIFFERENCE 4u

static uint64_t bzi_check_surface_bytes(const bzi_flight *flight)
{
    return (uint64_t)flight->picture.pitch[0] * bzi_nvdec_rows(flight->decoder) *
           (flight->decoder->format.chroma == 3 ? 6 : 3) / 2;
}

/* Returns the picture in a copy of its surface. */
static bzna_picture bzi_check_in_copy(const bzi_flight *flight, const uint8_t *copy)
{
    bzna_picture picture = flight->picture;

    for (int i = 0; i < 3 && picture.plane[i]; i++)
        picture.plane[i] = copy + ((uintptr_t)picture.plane[i] - (uintptr_t)flight->address);
    return picture;
}

static uint32_t bzi_check_value(const bzna_picture *p, int plane, uint32_t x, uint32_t y)
{
    const uint32_t bytes = bzi_sample_bytes(p->depth), step = bzi_default(p->step[plane], bytes);
    const uint8_t *at = (const uint8_t *)p->plane[plane] + (int64_t)y * p->pitch[plane] + x * step;
    uint16_t value = *at;

    if (bytes == 2)
        memcpy(&value, at, 2);
    return value;
}

/* Compares what NVDEC has made of a frame with what the CPU has. The standards of video define every pixel, but that of
 * JPEG lets decoders round differently. */
static bzna_status bzi_check_compare(const bzna_picture *made, const bzna_picture *right, uint32_t codec,
                                     bzna_error *err)
{
    const uint32_t low_zeros = bzi_surface_low_zeros(made->depth);
    uint64_t sum = 0, count = 0, differ = 0;
    uint32_t most = 0;

    for (int i = 0; i < 3 && right->plane[i]; i++) {
        const uint32_t shift_x = i ? right->chroma_shift_x : 0, shift_y = i ? right->chroma_shift_y : 0;
        const uint32_t width = bzi_subsampled(right->frame_width, shift_x);
        const uint32_t height = bzi_subsampled(right->frame_height, shift_y);

        count += (uint64_t)width * height;
        for (uint32_t y = 0; y < height; y++)
            for (uint32_t x = 0; x < width; x++) {
                const uint32_t a = bzi_check_value(made, i, x, y) >> low_zeros, b = bzi_check_value(right, i, x, y);
                const uint32_t difference = a > b ? a - b : b - a;
                differ += difference != 0;
                sum += difference;
                most = bzi_max32(most, difference);
            }
    }

    if (!differ || (codec == BZNA_CODEC_JPEG && most <= BZI_CHECK_MAX_DIFFERENCE && 2 * sum <= count))
        return BZNA_OK;
    return BZI_FAIL(err, BZNA_E_DEVICE, "wrong pixels: %llu of %llu values differ, by up to %u", (bzi_llu)differ,
                    (bzi_llu)count, most);
}

/* Decodes a picture by NVDEC, as an engine does, and compares it with what the CPU has made of it. After a failure the
 * session has no picture in flight, and no decoder. */
static bzna_status bzi_check_try(bzi_session *session, const bzi_nvdec_picture *coded, const bzna_picture *right,
                                 bzna_error *err)
{
    bzi_device *device = session->device;
    bzi_flight flight;
    uint64_t bytes = 0;
    void *pinned = NULL;
    bzna_status status;

    session->waits = 1;
    if ((status = bzi_session_submit(session, coded, NULL, err)) == BZNA_OK)
        status = bzi_session_map(session, &flight, err);
    session->waits = 0;

    if (status == BZNA_OK) {
        bytes = bzi_check_surface_bytes(&flight);
        status = bzi_device_pin(device, BZI_TRIAL_BYTES + bytes, &pinned, err);
    }
    if (status == BZNA_OK)
        status = bzi_trial_picture(device, session->stream, &flight.picture, flight.address, bytes, pinned, err);
    bzi_session_unmap_all(session);

    if (status == BZNA_OK) {
        const bzna_picture made = bzi_check_in_copy(&flight, (uint8_t *)pinned + BZI_TRIAL_BYTES);
        status = bzi_check_compare(&made, right, coded->image->codec, err);
    }
    bzi_device_unpin(device, pinned);
    if (status == BZNA_OK)
        return status;

    session->pending_count = 0;
    bzi_session_drop_all(session);
    bzi_nvdec_cache_open(&session->decoders, device);
    return status;
}

/* Checks a kind by a picture, or notes that it cannot be checked. A status but BZNA_OK: the check was not finished. */
static bzna_status bzi_check_run(bzi_session *session, bzi_caps *kind, const bzi_nvdec_picture *coded, bzna_error *err)
{
    bzi_software *software = &session->software;
    bzna_picture right = coded->picture;
    bzna_status status = BZNA_OK;
    uint32_t verdict = BZNA_CHECK_PASSED;

    if (!software->memory)
        status = bzi_software_open(software, session->device->host, err);
    if (status == BZNA_OK)
        status = bzi_software_decode(software, coded->image, &coded->sps, bzi_picture_all(&right), &right, err);
    if (status != BZNA_OK && status != BZNA_E_UNSUPPORTED)
        return status;

    if (status == BZNA_E_UNSUPPORTED) {
        BZI_FAIL(err, status, "there is no other decoder to compare with");
        verdict = BZNA_CHECK_SKIPPED;
    } else if ((status = bzi_check_try(session, coded, &right, err)) != BZNA_OK) {
        if (status == BZNA_E_DEVICE_LOST || status == BZNA_E_MEMORY || bzi_device_is_stuck(session->device))
            return status;
        verdict = BZNA_CHECK_FAILED;
    }
    bzi_string_copy(kind->report, sizeof kind->report, status == BZNA_OK ? "" : err->message);
    atomic_store(&kind->check, verdict);
    return BZNA_OK;
}

static int bzi_check_is_due(bzi_device *device, const bzi_nvdec_format *want)
{
    return device->checks &&
           atomic_load(&bzi_device_kind(device, want->codec, want->chroma, want->depth)->check) == BZNA_CHECK_NONE;
}

/* Tells whether NVDEC may decode pictures of a kind, which is checked first if that is due, while other sessions wait.
 * Pre: then nothing is in flight. */
static bzna_status bzi_check_kind(bzi_session *session, const bzi_nvdec_format *want, const bzi_nvdec_picture *coded,
                                  bzna_error *err)
{
    bzi_device *device = session->device;
    bzi_caps *kind = bzi_device_kind(device, want->codec, want->chroma, want->depth);
    bzna_status status = BZNA_OK;

    if (bzi_check_is_due(device, want)) {
        const int begun = bzi_os_exclusive_begin(&device->exclusive, &device->stuck);

        if (bzi_device_is_stuck(device))
            status = bzi_device_video(device, err);
        else if (bzi_check_is_due(device, want))
            status = bzi_check_run(session, kind, coded, err);
        if (begun)
            bzi_os_exclusive_end(&device->exclusive);
    }

    if (status == BZNA_E_MEMORY)
        return BZI_NO_ROOM;
    if (status == BZNA_E_DEVICE_LOST)
        return status;
    if (status == BZNA_OK) {
        if (!device->checks || atomic_load(&kind->check) != BZNA_CHECK_FAILED)
            return BZNA_OK;
        BZI_FAIL(err, BZNA_E_CODEC, "NVDEC of %s fails its self-check of %s of %u bits, %s: %s", device->info.name,
                 bzi_codec_name(want->codec), want->depth, bzi_chroma_name(want->chroma), kind->report);
    }
    return err->status = BZNA_E_CODEC;                      /* even a damaged picture: libavcodec is to report that */
}

/* Fills in what NVDEC can do with the kind in *info. */
static bzna_status bzi_check_codec(bzi_device *device, bzna_codec_info *info, bzna_error *err)
{
    CUVIDDECODECAPS caps;
    bzna_status status;

    if (bzi_device_enter(device, err) != BZNA_OK)
        return err->status;
    status = bzi_device_caps(device, info->codec, info->chroma_format, info->depth, &caps, err);

    if (status == BZNA_OK && caps.bIsSupported) {
        bzi_caps *kind = bzi_device_kind(device, info->codec, info->chroma_format, info->depth);

        info->supported = 1;
        info->engines = caps.nNumNVDECs;
        info->min_width = caps.nMinWidth;
        info->min_height = caps.nMinHeight;
        info->max_width = caps.nMaxWidth;
        info->max_height = caps.nMaxHeight;
        info->max_macroblocks = caps.nMaxMBCount;
        info->check = device->checks ? atomic_load(&kind->check) : BZNA_CHECK_SKIPPED;
        bzi_string_copy(info->check_message, sizeof info->check_message, info->check ? kind->report : "");
    }
    bzi_device_leave(device);
    return status;
}

#endif


/* #### PIPELINE #######################################################################################################
 * Threads read, decode and warp samples into batches. Locks and threads are here, and nowhere above but in NVDEC's
 * sessions. */


/* ==== 62. Loader: state =============================================================================================
 * Calls: nothing.
 *
 * Readers fetch samples in the planned order. Workers decode each sample, and warp it into the slot that the plan gave
 * it. bzna_loader_next lends out finished batches in order, whatever the order in which samples are completed. With
 * NVDEC, readers hand samples to the device's pool, whose engines (a thread and a session each) serve all loaders of
 * the context. A sample that NVDEC cannot decode goes on to the loader's workers.
 *
 * PARTS
 *   setup      the config, and what follows from it. It does not change
 *   queues     which sample comes next, what threads hand to each other, what is asked of them, and the lock
 *
 * Code that works on samples has these two. Opening, closing and the consumer's calls have the whole loader. Members of
 * these names, as in a batch or a worker, are the loader's.
 *
 * LOCKS
 *   mark   lock           guards                                    held across                 taken while holding
 *   (L)    queues->mutex  a loader's lists, counts and batch states bookkeeping only: never a   nothing
 *                                                                   read, a decode, user code
 *   (P)    pool->mutex    the queue of samples for the engines      bookkeeping only            nothing, or (L)
 *
 * A function whose comment ends with a mark is called, and returns, with that lock held.
 *
 * ENTRIES
 * An entry of a loader's table stands for a run: slots side by side in one batch, whose samples are read together and
 * then worked on together, and the memory that they lie in. Many small samples make a run, so that threads wake for a
 * run and not for each sample. A large sample is a run by itself, and so is one for the pool. What is known of a single
 * sample is in its slot's item. Any empty entry is used next, so a batch may have more runs than there are entries. An
 * entry's ticket is its place in the plan; the lowest is taken first. The states, who may change an entry and its items
 * then, and the ways out:
 *
 *   state     it is in           changed by     next
 *   EMPTY     its list           nobody         READING: bzi_plan_run gives it slots, bzi_hand_work takes it
 *   PLANNED   its list           nobody         READING: bzi_hand_work
 *   READING   a reader's hands   that thread    FULL: bzi_reader_pass; POOL: bzi_reader_submit; PLANNED:
 *                                               bzi_entry_leave, if nothing could be read
 *   FULL      its list           nobody         TAKEN: bzi_worker_next
 *   TAKEN     a worker's hands   that thread    EMPTY or PLANNED: bzi_entry_leave; POOL: bzi_worker_give_back
 *   POOL      pool->queue, (P)   nobody         with an engine: bzi_pool_take; TAKEN: bzi_worker_next
 *             an engine's hands  that thread    EMPTY or PLANNED: bzi_entry_leave; FULL: bzi_engine_refuse, for
 *                                               software
 *
 * Only bzi_entry_move changes the state, under the lock. What is thrown away becomes EMPTY: FULL and PLANNED entries
 * (bzi_loader_seek), and those of the pool that no engine has (bzi_pool_withdraw). An engine takes an entry from the
 * queue under (P) alone. Only the worker or engine that has an entry writes its slots.
 *
 * A thread ends the slots of its entry one by one, or several at once: a slot is written, or is to be read again, with
 * the same sample or another one. After the last, bzi_entry_leave plans the entry once more, with its ticket, for slots
 * that are to be read again, or empties it.
 *
 * Nobody waits with an entry in hand. One to be read later is PLANNED, says when, or how much memory it waits for, and
 * is read before new ones. While one waits for memory, later ones get none, and that of empty and planned entries can
 * be freed for it. What was read before comes to its end and leaves its memory, too.
 *
 * THE WAY OF A SAMPLE
 *   slot      bzi_plan_run, and its sample: bzi_entry_plan
 *   read      bzi_reader_read_entry: bytes, target, fields. bzi_reader_pass hands it on
 *   software  bzi_worker_next, bzi_worker_sample: bzi_worker_parse, bzi_worker_want, bzi_software_decode,
 *             bzi_worker_warp; then bzi_item_finish, or on the device bzi_lane_flush
 *   NVDEC     bzi_pool_take, bzi_engine_begin, bzi_session_submit, bzi_engine_map, bzi_lane_flush
 *   failure   bzi_item_complete: bzi_item_requeue, or bzi_item_fill
 *   batch     bzi_item_finish makes it ready; bzi_loader_look finds it; bzi_batch_to_loan, bzi_batch_unref
 *
 * In steady state nothing is allocated: open makes entries and batches, and an entry's memory grows to the largest run
 * met, under a common ceiling.
 *
 * BATCHES
 *   host     free -> filling -> ready -> on loan -> free
 *   device   free -> filling -> ready -> on loan -> retiring -> free
 *
 * Retiring means released, but GPU work that the consumer enqueued may still read the batch. A thread of its own waits
 * for that work, in the order of release. Closing waits for it, too, but a reset does not.
 *
 * HYBRID DECODING
 * With decode.hybrid, a worker takes an entry from the pool's queue if the consumer waits, no batch is ready, and more
 * entries wait there than engines can begin. It does so only for kinds of pictures that have passed their self-check,
 * so the pixels are the same. Decoders may differ about damage, so software decides: a picture that NVDEC finds damaged
 * goes to a worker. One that a worker has taken, and software finds damaged, goes back to the pool, for engines only,
 * and from there as above. So a sample has the same pixels and status whoever was first.
 *
 * INTERRUPTS
 * Stop, reset, restore and close let readers and workers finish the sample at hand and keep them from taking another.
 *
 * STREAMS
 * On the device, lanes write slots: the streams of engines and of workers. Batches have events for what waits: written
 * and released. Decode streams never wait on consumer streams, nor do engines and workers: a session has few surfaces,
 * and its stream frees them, so a slow consumer must not hold that up.
 *
 * bzna_loader_next blocks on the GPU only when
 *   - batches go to the host: until the copy of the batch at hand is complete;
 *   - all batches that are not on loan are retiring: until one is free;
 *   - the driver refuses to let the consumer's stream wait: until nothing writes to that batch any more.
 *
 * Reset, restore and close wait for writes to batches that they discard. Close also waits for reads of retiring ones. A
 * release waits for the consumer's stream only if its event cannot be recorded. */

typedef struct bzi_queues bzi_queues;
typedef struct bzi_setup  bzi_setup;

/* The table above explains them. Entries of the first three are in the list of their state. */
enum { BZI_ENTRY_EMPTY, BZI_ENTRY_PLANNED, BZI_ENTRY_FULL, BZI_ENTRY_READING, BZI_ENTRY_POOL, BZI_ENTRY_TAKEN,
       BZI_ENTRY_STATES };

/* An entry of a loader's table. What is not marked is changed by the thread that has the entry, and by nobody while it
 * is in a list. */
typedef struct bzi_entry {
    struct bzi_entry *next;           /* (L) in the list of its state; (P) in the pool's queue */
    struct bzi_entry *before;         /* likewise */
    bzi_queues *queues;
    uint32_t    state;                /* (L) BZI_ENTRY_... */
    uint32_t    slot;                 /* the first */
    uint32_t    count;                /* of slots */
    uint32_t    left;                 /* slots to be read, if it is planned; else to be made */
    uint32_t    again;                /* slots to be read after those */
    uint32_t    is_new;               /* 1: its slots have no samples yet */
    bzna_batch *batch;
    uint64_t    ticket;
    uint64_t    not_before;           /* planned: when it may be read; 0: at once */
    uint64_t    wants;                /* planned: the bytes of memory that it waits for; 0: none */
    uint64_t    size;                 /* bytes of the samples read, without failed ones */
    uint64_t    usual;                /* bytes that are enough for one sample, as a guess */
    bzi_buffer  bytes;                /* its memory */
    uint64_t    used;                 /* bytes of it that samples lie in */
    uint64_t    frames;               /* a hash of the decoder format it needs; 0: no engine has looked yet */
    uint32_t    passed_over;          /* (P) queued: how often a later one was taken while this was the first */
} bzi_entry;

/* A list of entries, or the number of those in a state without a list. */
typedef struct bzi_entries {
    bzi_entry *first;
    bzi_entry *last;
    uint32_t   count;
    uint32_t   left;                  /* of a list, as what follows: the sum of theirs */
    uint64_t   size;                  /* likewise */
    uint64_t   memory;                /* bytes that they have */
} bzi_entries;

/* The next step for an item. */
enum { BZI_ITEM_UNREAD, BZI_ITEM_READ, BZI_ITEM_DONE };

/* A slot of a batch, and the sample for it. It belongs to the thread that has its entry. */
typedef struct bzi_item {
    const bzi_setup    *setup;
    bzi_queues         *queues;
    bzna_batch         *batch;
    bzi_entry          *entry;        /* of the slot */
    uint32_t            slot;
    uint32_t            stage;        /* BZI_ITEM_... */
    uint32_t            replacements; /* samples tried for the slot before this one */
    uint32_t            again;        /* 1: this sample is made a second time */
    uint64_t            position;     /* in the epoch's order */
    uint64_t            index;        /* in the data set */
    const bzi_container *container;
    uint64_t            local;        /* its index in that container */
    bzi_extent          extent;
    bzna_status         status;       /* of reading */
    bzna_status         result;       /* of reading if that failed, else of decoding and warping */
    bzna_error         *err;          /* its slot's in the batch */
    const uint8_t      *data;         /* the sample: in the entry's memory, or in the source's */
    uint32_t            retries;
    uint64_t            decode_ns;
    uint64_t            warp_ns;
    uint32_t            shrinkable;   /* 1: decode.jpeg_shrink would have shrunk its JPEG */
    uint32_t            by_nvdec;
    uint32_t            shared;       /* 1: a worker took it from the engines, and none has refused it since */
    uint32_t            is_padding;   /* 1: no sample; its slot gets order.pad_value */
} bzi_item;

/* The cost of a sample, as moving averages, by which the length of runs is chosen. */
typedef struct bzi_pace {
    uint64_t read_ns;                 /* of a reader; 0: not measured yet */
    uint64_t work_ns;                 /* of a worker; 0: not measured yet */
    uint64_t bytes;
} bzi_pace;

/* One output of a loader: a tensor of each batch, of pictures of one size, one or more views a sample. */
typedef struct bzi_output {
    char              name[BZNA_NAME_MAX];
    char              where[40];      /* how errors name its settings: "loader_config.extra_outputs[3]" */
    const char       *group;          /* and the struct with its warp, filter, color and augment */
    bzna_output       shape;          /* of one picture */
    uint32_t          views;
    uint32_t          random;         /* the fork of the random numbers of its first view */
    uint32_t          picture;        /* its pick's number */
    uint32_t          own_warp;       /* 1: its own; 0: the first output's */
    uint32_t          own_filter;     /* likewise */
    uint32_t          own_color;      /* likewise */
    bzna_warp         warp;
    bzna_transform    transform;      /* every sample starts with it; checked at open */
    bzna_jitter       jitter;
    bzna_loader_augment augment;      /* its policies: the caller's until the loader is open, then a copy */
    uint32_t          own_augment;    /* as own_warp */
    uint64_t          augment_hash;   /* for the check of saved states */
    bzi_kernel_output kernel;         /* for the kernel; its mean is the one on the host */
    uint64_t          picture_bytes;  /* of one view */
    uint64_t          offset;         /* in a batch's data */
    void             *mean;           /* a copy; NULL: none */
    uint64_t          mean_bytes;
    uint64_t          mean_hash;
    uint64_t          device_mean;    /* the copy on the device, or 0 */
} bzi_output;

/* A view of each sample. All stand in one table, in the order of the outputs. */
typedef struct bzi_view {
    const bzi_output *output;
    uint32_t          number;         /* among the output's views */
} bzi_view;

/* Work memory of a thread, for each view of one sample. */
typedef struct bzi_views {
    uint32_t        constant;         /* 1: no random number or callback made the transforms */
    uint32_t        reused;           /* 1: all but the planes is as for the sample before */
    bzna_transform  transforms[BZI_LIMIT_VIEWS];
    bzi_kernel_slot slots[BZI_LIMIT_VIEWS];
    bzi_kernel_pass passes[BZI_LIMIT_VIEWS];          /* what is done with them after the warp */
    bzna_geometry   geometry[BZI_LIMIT_VIEWS];        /* of the first output */
} bzi_views;

/* Views of one output that are warped together. */
typedef struct bzi_launch {
    uint32_t         count;           /* of slots */
    bzi_kernel_slots slots;
    bzi_kernel_pass  passes[BZI_KERNEL_SLOTS];
} bzi_launch;

/* A stream that writes slots of batches. It gathers launches for items of one loader. */
#define BZI_LANE_SUMS 256                                   /* bytes for the sums of luma of a launch */
typedef struct bzi_lane {
    bzi_device       *device;
    void             *stream;
    uint32_t          number;         /* of its event in batches: engines first, then the loader's workers */
    uint32_t          count;          /* of items */
    bzi_item         *items[BZI_KERNEL_SLOTS];        /* that end with the next flush */
    /* two for each output: views without operations on pixels, and those that are warped to scratch memory */
    bzi_launch        launches[2 * BZI_LIMIT_OUTPUTS];
    bzna_error        error;          /* of a launch since the last flush */
} bzi_lane;

/* The device's engines, and the queue of entries for them, of all loaders in the order of reading. */
typedef struct bzi_pool {
    bzi_device        *device;
    bzi_host          *host;
    struct bzi_engine *engines;
    uint32_t           count;         /* immutable */
    uint32_t           has_locks;
    bzi_mutex          mutex;
    bzi_cond           wake;          /* an entry was queued, or the pool closes */
    bzi_entries        queue;         /* (P) of one slot each */
    uint32_t           idle;          /* (P) engines that wait */
    uint32_t           live;          /* (P) engines that have not ended */
    uint32_t           quit;          /* (P) */
    bzi_watches        watches;       /* (P) */
    bzi_watch          watch[BZI_LIMIT_SESSIONS];
} bzi_pool;

/* DLPack's structs, as dlpack.h lays them out: unversioned ones as of 0.2 to 1.x, versioned ones as of 1.0. */
typedef struct bzi_dl_tensor {
    void    *data;
    int32_t  device_type;
    int32_t  device_id;
    int32_t  dimensions;
    uint8_t  code;                    /* the kind of number */
    uint8_t  bits;
    uint16_t lanes;                   /* 1 */
    int64_t *shape;
    int64_t *strides;                 /* in elements */
    uint64_t byte_offset;
} bzi_dl_tensor;

typedef struct bzi_dl_managed {
    bzi_dl_tensor tensor;
    void         *manager;            /* the deleter's */
    void        (*deleter)(struct bzi_dl_managed *self);
} bzi_dl_managed;

typedef struct bzi_dl_versioned {
    uint32_t      major;              /* DLPack's version */
    uint32_t      minor;
    void         *manager;            /* the deleter's */
    void        (*deleter)(struct bzi_dl_versioned *self);
    uint64_t      flags;
    bzi_dl_tensor tensor;
} bzi_dl_versioned;

/* What threads of a loader wait for: see bzi_can. Threads of the first two roles wait for any job, so one of them is
 * woken for it. Each thread of the other roles waits for something of its own. */
enum {
    BZI_ROLE_READ,                    /* readers: something to read */
    BZI_ROLE_WORK,                    /* workers: a full entry; without readers, something to read */
    BZI_ROLE_DONE,                    /* the thread in next: its batch, or the end */
    BZI_ROLE_CONTROL,                 /* reset, restore, close: nothing is active; close: threads have ended */
    BZI_ROLE_RETIRE,                  /* the thread for retiring batches: one of them */
    BZI_ROLES,
};

/* Every batch has the first BZI_TENSORS tensors (bzi_setup_decide); those of fields, then of further outputs follow. */
enum { BZI_TENSORS = 4, BZI_TENSORS_MAX = BZI_TENSORS + BZI_LIMIT_FIELD_TENSORS + BZI_LIMIT_OUTPUTS - 1,
       BZI_DIMENSIONS = 5 };

/* A tensor of each batch, as loader, batches and DLPack describe it. */
typedef struct bzi_tensor {
    bzna_tensor       one;            /* of a batch with one slot, without data */
    uint32_t          axis;           /* the dimension that counts slots */
    const bzi_output *output;         /* whose pictures it has; NULL: none */
} bzi_tensor;

/* A tensor in the forms of DLPack. Consumers get pointers to it. Each tensor that is out has a reference to the batch,
 * which is filled again only once all are dropped. */
typedef struct bzi_export {
    bzi_dl_managed   managed;
    bzi_dl_versioned versioned;
    int64_t          shape[BZI_DIMENSIONS];
    int64_t          strides[BZI_DIMENSIONS];         /* in elements */
} bzi_export;

/* A field that batches carry, as a tensor or as bytes. Column i has tensor BZI_TENSORS + i. */
typedef struct bzi_column {
    char     name[BZNA_NAME_MAX];
    char     field[BZNA_NAME_MAX];
    uint32_t kind;                    /* BZNA_FIELD_...; 0: no field's, but the program's or the geometry */
    uint32_t length;                  /* of a vector */
    uint32_t clear;                   /* 1: numbers that a sample lacks are NaN or -1; 0: they are 0 */
} bzi_column;

/* The bytes of a field in one slot. */
typedef struct bzi_slot_bytes {
    bzi_buffer buffer;                /* grows to the largest value met */
    uint64_t   size;                  /* of the value */
    uint32_t   present;               /* 1: the sample has the field */
} bzi_slot_bytes;

/* It does not change once the loader is open, so every thread reads it without a lock. */
struct bzi_setup {
    bzna_context      *context;
    bzi_host          *host;
    const bzi_memory  *memory;
    bzna_dataset      *dataset;
    bzna_loader_config config;        /* with defaults filled in, without pointers to the user's arrays */
    bzi_pick           picks[BZI_LIMIT_OUTPUTS];      /* pictures of a sample; names are copies */
    bzi_output         outputs[BZI_LIMIT_OUTPUTS];
    bzi_view           views[BZI_LIMIT_VIEWS];
    uint32_t           pick_count;
    uint32_t           output_count;
    uint32_t           view_count;
    uint32_t           drawn_views;   /* view_count, if any output has policies; else 0 */
    bzi_tensor         tensors[BZI_TENSORS_MAX];
    uint32_t           tensor_end;    /* the number after the last */
    bzi_column         columns[BZI_LIMIT_ALL_COLUMNS];      /* tensors, then bytes */
    uint32_t           tensor_count;  /* of columns; the geometry is the last */
    uint32_t           column_count;  /* and bytes */
    uint32_t           made;          /* the first column that the program fills in (fields.made) */
    int64_t            process;       /* that opened it */
    uint64_t           opened_ns;
    uint64_t           fingerprint;   /* of data set and order; other states are not restored */
    uint64_t           stills;        /* bzi_dataset_hash_stills */
    uint32_t           slice_slots;
    uint64_t           slot_bytes;    /* of a sample in all outputs; 0: no pictures */
    uint64_t           data_bytes;    /* of a batch in all outputs */
    bzi_device        *device;        /* NULL: the loader uses none */
    bzi_pool          *pool;          /* NULL: software decodes */
    uint32_t           on_device;     /* 1: batches lie on the device */
    uint32_t           lanes;         /* that may write to its batches: engines, and workers if on_device */
    uint64_t           scratch;       /* of the lanes, on the device (bzi_lane_warp) */
    uint64_t           scratch_bytes;
    uint64_t           view_scratch;  /* bytes of it for a view; 0: none has operations on pixels */
    void              *stream;        /* the consumer's */
    uint32_t           owns_stream;   /* 1: the library made it */
    bzna_codec_info    jpeg;          /* of NVDEC, if it decodes JPEG (bzi_setup_is_nvdec_jpeg) */
    char               reason[sizeof ((bzna_loader_info *)0)->decoder_reason];
    bzi_arena          arena;         /* what open allocates, until no batch is on loan any more */
};

enum { BZI_BATCH_NEW, BZI_BATCH_FREE, BZI_BATCH_FILLING, BZI_BATCH_READY, BZI_BATCH_ON_LOAN, BZI_BATCH_RETIRING };

/* A list of batches. An empty one is all zeros. */
typedef struct bzi_batches {
    bzna_batch *first;
    bzna_batch *last;
} bzi_batches;

struct bzna_batch {
    bzna_loader *loader;
    const bzi_setup *setup;
    bzi_queues  *queues;
    bzna_batch  *next;                /* (L) in its list */
    uint32_t     state;               /* (L) BZI_BATCH_... */
    uint32_t     slots;               /* samples, with padding */
    uint32_t     real;                /* without padding */
    uint32_t     unfinished;          /* (L) slots not written yet */
    uint32_t     failed;              /* (L) real slots that failed */
    uint32_t     replaced;            /* (L) real slots that took another sample */
    uint32_t     stop_slot;           /* (L) the first whose sample ends the run; UINT32_MAX: none */
    uint32_t     last_of_epoch;
    bzi_item    *items;
    uint32_t     owned;               /* (L) on loan, 1: not released yet */
    uint32_t     references;          /* (L) on loan: the owner's, and one for each DLPack tensor */
    uint64_t     epoch;
    uint64_t     number;              /* in the epoch */
    uint64_t     position;            /* in the epoch's order */
    bzi_place    after;               /* where a state saved after this batch goes on */
    bzi_order    order;               /* of its epoch; the plan may be in a later one */
    bzna_random  random;              /* of its epoch (bzi_random_begin) */
    void        *block;               /* the library's memory on the host; pinned if there is a device */
    uint8_t    **slices;              /* where each slice lies, on host or device */
    int64_t     *targets;             /* this and the next three: one for each slot */
    uint64_t    *indices;
    bzna_status *status;
    bzna_error  *errors;
    bzna_drawn  *operations;          /* setup.drawn_views * BZNA_OPERATIONS_MAX for each slot */
    uint32_t    *operation_counts;    /* setup.drawn_views for each slot */
    void        *columns[BZI_LIMIT_ALL_COLUMNS];      /* of tensors: values; then of bytes: bzi_slot_bytes */
    bzi_export   exports[BZI_TENSORS_MAX];
    uint64_t     device_data;         /* the library's memory there: the data, or what is copied to the host */
    void        *stream;              /* the consumer's */
    void       **written;             /* each lane's event after its last write; the consumer's stream waits for it */
    /* for each lane, 1: nothing waits yet for writes that it has enqueued. Only the lane's own thread uses its flag
     * until the batch is ready */
    uint8_t     *touched;
    void        *released;            /* event of its release, on the consumer's stream; to retire, it is waited for */
    /* (L) 1: that event is recorded, and nobody has waited for it. On loan, only the thread that drops the last
     * reference sets it, without the lock */
    uint32_t     has_release;
};

typedef struct bzi_worker {
    const bzi_setup *setup;
    bzi_queues  *queues;
    bzi_software software;
    bzi_image    images[BZI_LIMIT_OUTPUTS];   /* coded, one for each pick */
    bzi_format   formats[BZI_LIMIT_OUTPUTS];  /* as their streams state */
    bzna_picture pictures[BZI_LIMIT_OUTPUTS]; /* described, then decoded */
    bzi_views    views;               /* of the sample at hand */
    const bzi_container *before;      /* of the sample before, if its samples are alike; else NULL */
    const uint8_t *before_data;       /* where that sample lay */
    uint64_t     clock;               /* when the last piece of work ended */
    bzi_buffer   workspace;           /* of the warp on the host */
    bzi_buffer   scratch_pixels;      /* of the passes after it, on the host */
    bzi_buffer   drawn;               /* the copy that the user's callback draws into */
    bzi_lane     lane;                /* with batches on the device, as what follows */
    void        *staging;             /* pinned memory, from which pictures are uploaded */
    uint64_t     upload;              /* memory on the device, for them */
    uint64_t     upload_bytes;        /* capacity of both */
    void        *uploaded;            /* event: staging may be written again */
} bzi_worker;

/* Which sample comes next, and where the run stands. (L) */
typedef struct bzi_plan {
    bzi_order     order;              /* of the epoch being planned */
    bzi_shard     shard;              /* likewise */
    uint64_t      seed;
    uint64_t      epoch;              /* being planned */
    uint64_t      end_epoch;          /* after the last */
    uint64_t      next_batch;         /* the next batch's number in the epoch */
    uint32_t      is_given;           /* 1: the caller gives each epoch's list */
    bzi_place     done;               /* after the last delivered batch */
    bzi_sequence *lists;              /* of epochs; those before done.epoch are over */
} bzi_plan;

/* Their lock is (L). An entry is in the list of its state, or in the pool's queue, or in the hands of one thread. A
 * batch that is not on loan is in one list: free_batches, retiring, or the consumer's pending. */
struct bzi_queues {
    bzi_mutex mutex;
    bzi_cond  wake[BZI_ROLES];
    uint32_t  has_locks;
    uint32_t  sleeping[BZI_ROLES];    /* (L) threads, by role */
    uint32_t  woken[BZI_ROLES];       /* (L) 1: they were signalled, and none has gone on yet */
    const bzi_setup *setup;
    bzi_pool  *hybrid;                /* from which workers take entries, too; NULL: they do not */

    /* Who works, and how much is read ahead; immutable once the loader is open. */
    uint32_t   sessions;              /* of the pool's, as many as the loader can keep busy; 0: no pool */
    uint32_t   worker_count;
    uint32_t   reader_count;          /* 0: workers read */
    uint32_t   run_most;              /* samples of a run, at most */
    uint32_t   ahead_samples;         /* read ahead at most */
    uint32_t   ahead_least;           /* read ahead at least, whatever their bytes */
    uint64_t   ahead_bytes;           /* that are enough once so many are read ahead */
    uint64_t   memory_bytes;          /* of all entries, at most */
    bzna_batch *batches;
    uint32_t   batch_count;

    /* What is asked of threads. */
    uint32_t   quit;                  /* (L) */
    uint32_t   stopped;               /* (L) 1: stop was called, and no reset or restore since */
    uint32_t   paused;                /* (L) resets and restores at work */
    uint32_t   clearing;              /* (L) 1: one throws away what is planned; nothing else is at work */
    bzi_watches watches;              /* (L) of its threads */
    bzna_error poison;                /* (L) what every call of next returns, unless BZNA_OK */
    uint64_t   alarm;                 /* (L) when a reading thread wakes by itself; UINT64_MAX: none does */

    /* Samples, and batches for them. */
    bzi_plan    plan;                 /* (L) */
    bzi_entries entries[BZI_ENTRY_STATES];      /* (L) a stack of empty ones, others by tickets */
    uint64_t    tickets;              /* (L) that were given */
    uint32_t    is_full;              /* (L) the last answer of bzi_queues_is_full */
    bzi_pace    pace;                 /* (L) */
    uint64_t    held_bytes;           /* (L) memory of all entries */
    bzi_batches free_batches;         /* (L) that may be planned */
    bzi_batches retiring;             /* (L) in the order of release, without the one that is waited for */
    bzi_batches pending;              /* (L) filling or ready, in the order of delivery */
    uint32_t   waiting;               /* (L) 1: a thread is in next */
    bzna_batch *open;                 /* (L) not all slots are given to entries; NULL: none */
    uint32_t    next_slot;            /* (L) of it */

    /* Counters. */
    bzna_statistics stats;            /* (L) */
    uint64_t        refusals[8];      /* (L) hashes of the logged reasons why NVDEC does not decode */
    uint64_t        starved_ns;       /* (L) how long sessions had nothing to do, summed */
    uint64_t        pool_ns;          /* (L) the time up to which starved_ns counts */
    atomic_uint    *sound;            /* each sample's bit: NVDEC has decoded it undamaged; NULL: not kept */
    atomic_uint     changes;          /* 1: a sound sample came out damaged, so the data changes: ignore sound */
};

/* A thread of a loader, or with pipeline.no_threads its work. */
typedef struct bzi_hand {
    bzi_thread  thread;
    bzi_queues *queues;
    bzi_device *device;               /* NULL: none */
    bzi_watch  *watch;
    uint32_t    role;                 /* BZI_ROLE_READ, WORK or RETIRE */
    bzi_worker *worker;               /* NULL: it does not decode */
    const bzi_container *fields_of;   /* the container of the last sample */
    uint32_t    fields[BZI_LIMIT_ALL_COLUMNS];        /* each column's field there; or BZI_NO_FIELD */
} bzi_hand;

struct bzna_loader {
    bzi_setup    setup;
    bzi_queues   queues;              /* their lock is (L) */
    atomic_int   references;          /* the owner's, and of each batch on loan */
    bzi_entry   *entries;
    uint32_t     entry_count;
    bzi_worker  *workers;
    bzi_hand    *hands;               /* of workers, of readers, then for retiring batches */
};


/* ==== 63. Loader: tensors ==========================================================================================
 * Calls: rooms 2, 4, 9, 50.
 *
 * Where things lie in a batch, and how its tensors are described. */

/* In an output, all slots of the first view come first. */
static uint64_t bzi_view_at(const bzi_view *view, uint32_t slots, uint32_t slot)
{
    return view->output->offset + ((uint64_t)view->number * slots + slot) * view->output->picture_bytes;
}

/* With several slices, batches have one view. */
static uint8_t *bzi_batch_slot(const bzna_batch *batch, const bzi_view *view, uint32_t slot)
{
    const uint32_t each = batch->setup->slice_slots;
    return batch->slices[slot / each] + bzi_view_at(view, batch->slots, slot % each);
}

/* Returns 1 if batches have no pictures, which are tensor 0; else 0. */
static uint32_t bzi_setup_first_tensor(const bzi_setup *setup) { return setup->slot_bytes ? 0 : 1; }

/* Returns the number of the tensor with a name, or setup->tensor_end. */
static uint32_t bzi_setup_find_tensor(const bzi_setup *setup, const char *name)
{
    uint32_t number = bzi_setup_first_tensor(setup);

    while (number < setup->tensor_end && strcmp(setup->tensors[number].one.name, name) != 0)
        number++;
    return number;
}

/* Types of numbers, by BZNA_DTYPE_..., as DLPack describes them. */
static const struct {
    uint8_t code;                     /* 0 kDLInt, 1 kDLUInt, 2 kDLFloat, 4 kDLBfloat */
    uint8_t bytes;
} bzi_dtypes[] = {
    [BZNA_DTYPE_FLOAT32] = { 2, 4 }, [BZNA_DTYPE_FLOAT16] = { 2, 2 }, [BZNA_DTYPE_BFLOAT16] = { 4, 2 },
    [BZNA_DTYPE_UINT8] = { 1, 1 },   [BZNA_DTYPE_INT32] = { 0, 4 },   [BZNA_DTYPE_INT64] = { 0, 8 },
    [BZNA_DTYPE_UINT64] = { 1, 8 },
};

/* Fails if another tensor has the name. shape: of a slot, without the dimension that counts slots. */
static bzna_status bzi_setup_add_tensor(bzi_setup *setup, const char *name, uint32_t dtype, const int64_t *shape,
                                        uint32_t dimensions, uint32_t axis, bzna_error *err)
{
    bzi_tensor *tensor = &setup->tensors[setup->tensor_end];
    bzna_tensor *one = &tensor->one;

    if (bzi_setup_find_tensor(setup, name) < setup->tensor_end)
        return BZI_MISUSE(err, "another tensor has the name \"%s\"", name);
    setup->tensor_end++;
    tensor->axis = axis;
    *one = (bzna_tensor){ .struct_size = sizeof *one, .device.kind = BZNA_DEVICE_CPU, .dtype = dtype,
                          .dimensions = dimensions + 1, .bytes = bzi_dtypes[dtype].bytes };
    bzi_string_copy(one->name, sizeof one->name, name);
    for (uint32_t i = 0; i <= dimensions; i++) {
        one->shape[i] = i == axis ? 1 : *shape++;
        one->bytes *= (uint64_t)one->shape[i];
    }
    return BZNA_OK;
}

/* Without pictures, the tensor of an output has neither name nor bytes. */
static bzna_status bzi_setup_add_output(bzi_setup *setup, const bzi_output *output, bzna_error *err)
{
    const bzna_output *o = &output->shape;
    const int last = o->layout == BZNA_LAYOUT_NHWC;
    const uint32_t channels = bzi_channels(o->channels), several = output->views > 1;
    const int64_t shape[BZI_DIMENSIONS - 1] = { output->views, last ? o->height : channels, last ? o->width : o->height,
                                                last ? channels : o->width };
    bzi_tensor *tensor = &setup->tensors[setup->tensor_end];
    char where[sizeof output->where + 8];

    if (bzi_setup_add_tensor(setup, setup->slot_bytes ? output->name : "", o->dtype, shape + !several,
                             BZI_DIMENSIONS - 2 + several, several, err) != BZNA_OK) {
        snprintf(where, sizeof where, "%s.name", output->where);
        return bzi_error_prefix(err, where);
    }
    tensor->output = output;
    if (setup->on_device)
        tensor->one.device = setup->device->info.device;
    return BZNA_OK;
}

/* Describes a tensor of a batch with so many slots, without its data. */
static void bzi_tensor_describe(const bzi_tensor *tensor, uint64_t slots, bzna_tensor *out)
{
    *out = tensor->one;
    out->shape[tensor->axis] = (int64_t)slots;
    out->bytes *= slots;
}

static void bzi_batch_tensor(const bzna_batch *batch, uint32_t number, bzna_tensor *out)
{
    void *const data[BZI_TENSORS] = { NULL, batch->targets, batch->indices, batch->status };
    const bzi_tensor *tensor = &batch->setup->tensors[number];

    bzi_tensor_describe(tensor, batch->slots, out);
    out->data = tensor->output       ? batch->slices[0] + tensor->output->offset :
                number < BZI_TENSORS ? data[number] :
                                       batch->columns[number - BZI_TENSORS];
}

/* Returns 1 in a forked child: it has no threads, and one of the parent's may have held the lock. */
static int bzi_loader_forked(const bzna_loader *loader) { return loader->setup.process != bzi_os_process(); }

/* Returns 1 if NVDEC decodes a JPEG. It depends on the file and on what was known at open, not on who is busy, so that
 * every run gives the same pixels. */
static int bzi_setup_is_nvdec_jpeg(const bzi_setup *setup, uint32_t codec, const bzi_format *format)
{
    const bzna_codec_info *limits = &setup->jpeg;
    return limits->supported && codec == BZNA_CODEC_JPEG && format->profile[0] && format->chroma_format == 1 &&
           format->width >= limits->min_width && format->width <= limits->max_width &&
           format->height >= limits->min_height && format->height <= limits->max_height &&
           (uint64_t)format->width * format->height / 256 <= limits->max_macroblocks;
}


/* ==== 64. Loader: entries ==========================================================================================
 * Calls: rooms 2, 4.
 *
 * The table of entries, and what follows from their states. */

/* Returns 1 if no thread is to take an entry. (L) */
static int bzi_queues_interrupted(const bzi_queues *queues)
{
    return queues->quit || queues->paused || queues->stopped;
}

/* Brings starved_ns up to date, before an entry enters or leaves the pool. (L) */
static void bzi_queues_count_starved(bzi_queues *queues)
{
    const uint32_t in_pool = queues->entries[BZI_ENTRY_POOL].count;
    uint64_t now = bzi_os_now_ns();

    if (in_pool < queues->sessions)
        queues->starved_ns += (queues->sessions - in_pool) * (now - queues->pool_ns);
    queues->pool_ns = now;
}

/* Ends a loader. Every call of next returns the first such error. (L) */
static void bzi_queues_break(bzi_queues *queues, const bzna_error *err)
{
    if (queues->poison.status == BZNA_OK)
        queues->poison = *err;
}

/* --- Entries --- */

/* before: NULL: the entry becomes the first. */
static void bzi_entries_add(bzi_entries *list, bzi_entry *entry, bzi_entry *before)
{
    bzi_entry *next = before ? before->next : list->first;

    entry->before = before;
    entry->next = next;
    *(before ? &before->next : &list->first) = entry;
    *(next ? &next->before : &list->last) = entry;
    list->count++;
}

static void bzi_entries_remove(bzi_entries *list, const bzi_entry *entry)
{
    *(entry->before ? &entry->before->next : &list->first) = entry->next;
    *(entry->next ? &entry->next->before : &list->last) = entry->before;
    list->count--;
}

/* Changes an entry's state. States up to FULL have lists, others are only counted. Pre: it is not in the pool's queue.
 * (L) */
static void bzi_entry_move(bzi_entry *entry, uint32_t state)
{
    bzi_queues *queues = entry->queues;
    bzi_entries *from = &queues->entries[entry->state], *to = &queues->entries[state];
    bzi_entry *before = state == BZI_ENTRY_EMPTY ? NULL : to->last;

    if (entry->state == BZI_ENTRY_POOL || state == BZI_ENTRY_POOL)
        bzi_queues_count_starved(queues);
    if (entry->state <= BZI_ENTRY_FULL) {
        bzi_entries_remove(from, entry);
        from->left -= entry->left;
        from->size -= entry->size;
        from->memory -= entry->bytes.capacity;
    } else {
        from->count--;
    }

    entry->state = state;
    if (state > BZI_ENTRY_FULL) {
        to->count++;
        return;
    }
    while (before && before->ticket > entry->ticket)
        before = before->before;
    bzi_entries_add(to, entry, before);
    to->left += entry->left;
    to->size += entry->size;
    to->memory += entry->bytes.capacity;
}

/* Ends so many slots of an entry. After the last, it is planned for those to be read again, or else empty. (L) */
static void bzi_entry_leave(bzi_entry *entry, uint32_t slots)
{
    entry->left -= slots;
    if (entry->left)
        return;
    entry->left = entry->again;
    entry->again = 0;
    bzi_entry_move(entry, entry->left ? BZI_ENTRY_PLANNED : BZI_ENTRY_EMPTY);
}

/* Returns the moving average for one sample, in which a run's average has a weight of one quarter. It is never 0, which
 * means that nothing was measured. */
static uint64_t bzi_pace_mean(uint64_t mean, uint64_t sum, uint32_t count)
{
    const uint64_t now = sum / count + 1;
    return mean ? (3 * mean + now) / 4 : now;
}

/* Returns how many samples the next run has: BZI_RUN_BYTES, or BZI_RUN_NS of reading or work, whichever is less, are
 * enough to wake a thread for, and leave work for others. It is 1 until the times were measured. */
static uint32_t bzi_queues_run_length(const bzi_queues *queues)
{
    const bzi_pace *pace = &queues->pace;
    const uint64_t longer = bzi_max(pace->read_ns, pace->work_ns);

    if (!pace->read_ns || !pace->work_ns)
        return 1;
    return (uint32_t)bzi_min(queues->run_most, 1 + bzi_min(BZI_RUN_BYTES / (pace->bytes + 1), BZI_RUN_NS / longer));
}

/* Returns 1 if so much waits for workers that no more should be read ahead. That stays so until half of it is gone, so
 * that woken readers find much to do. (L) */
static int bzi_queues_is_full(bzi_queues *queues)
{
    const bzi_entries *full = &queues->entries[BZI_ENTRY_FULL];
    const uint64_t part = queues->is_full ? 2 : 1;

    queues->is_full = full->left * part >= queues->ahead_samples ||
                      (full->size * part >= queues->ahead_bytes && full->left >= queues->ahead_least);
    return queues->is_full != 0;
}

static uint32_t bzi_queues_count(const bzi_queues *queues, uint32_t state)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < queues->batch_count; i++)
        count += queues->batches[i].state == state;
    return count;
}

/* Returns the first planned entry that waits for memory, or NULL. (L) */
static const bzi_entry *bzi_queues_first_short(const bzi_queues *queues)
{
    const bzi_entry *entry = queues->entries[BZI_ENTRY_PLANNED].first;

    while (entry && !entry->wants)
        entry = entry->next;
    return entry;
}

/* Returns the first planned entry that can be read now, or NULL with the time when one can, UINT64_MAX if that is not
 * known. Memory that one waits for is there if it fits under the ceiling once empty and planned entries have none.
 * (L) */
static bzi_entry *bzi_queues_find_planned(const bzi_queues *queues, uint64_t *when)
{
    const bzi_entries *planned = &queues->entries[BZI_ENTRY_PLANNED];
    const uint64_t held = queues->held_bytes - queues->entries[BZI_ENTRY_EMPTY].memory - planned->memory;
    const uint64_t now = planned->first ? bzi_os_now_ns() : 0;

    *when = UINT64_MAX;
    for (bzi_entry *entry = planned->first; entry && (!entry->wants || held <= queues->memory_bytes - entry->wants);
         entry = entry->next) {
        if (entry->not_before <= now) {
            *when = UINT64_MAX;
            return entry;
        }
        *when = bzi_min(*when, entry->not_before);
    }
    return NULL;                                            /* nor may one after it take memory */
}


/* ==== 65. Loader: the life of a batch, the plan =====================================================================
 * Calls: rooms 2, 4, 20, 41-42, 44, 56, 64.
 *
 * Each change of a batch's state is one function. The plan says which sample goes into which slot. All functions of
 * this room but bzi_entry_plan are called with the loader's lock held. */

static void bzi_batches_add(bzi_batches *list, bzna_batch *batch, uint32_t state)
{
    *(list->last ? &list->last->next : &list->first) = batch;
    list->last = batch;
    batch->next = NULL;
    batch->state = state;
}

/* Takes out and returns the first batch. Pre: there is one. */
static bzna_batch *bzi_batches_take(bzi_batches *list)
{
    bzna_batch *batch = list->first;

    list->first = batch->next;
    list->last = list->first ? list->last : NULL;
    return batch;
}

/* The plan may take the batch again: it is new or was on loan or retiring, and nothing on the device reads it any more,
 * or a reset discards what is planned. */
static void bzi_batch_to_free(bzna_batch *batch)
{
    bzi_batches_add(&batch->queues->free_batches, batch, BZI_BATCH_FREE);
    batch->has_release = 0;
}

/* From ready. A loaned batch refers to the loader. A state that is saved now continues after it. */
static void bzi_batch_to_loan(bzna_batch *batch)
{
    batch->state = BZI_BATCH_ON_LOAN;
    batch->owned = batch->references = 1;
    atomic_fetch_add(&batch->loader->references, 1);

    batch->queues->plan.done = batch->after;
}

/* From on loan, or new. */
static void bzi_batch_to_retiring(bzna_batch *batch)
{
    bzi_batches_add(&batch->queues->retiring, batch, BZI_BATCH_RETIRING);
}

/* --- The plan --- */

/* Plans an epoch from a position in its order on. */
static void bzi_plan_epoch(bzi_plan *plan, uint64_t epoch, uint64_t start)
{
    plan->epoch = epoch;
    plan->next_batch = 0;
    plan->shard.start = start;
    plan->order.list = NULL;
}

/* Returns the epoch's given list, or NULL. */
static const bzi_sequence *bzi_plan_find_list(const bzi_plan *plan, uint64_t epoch)
{
    const bzi_sequence *list = plan->lists;

    while (list && list->epoch != epoch)
        list = list->next;
    return list;
}

/* Pre: a batch of the list begins at shard->start. */
static void bzi_plan_share_list(bzi_shard *shard, const bzi_sequence *list)
{
    shard->count = list->count;
    shard->given = list->batch_count;
    shard->ends = list->ends;
    shard->first = bzi_search_above(list->ends, list->batch_count, sizeof *list->ends, shard->start);
}

/* Returns 0 if the epoch being planned waits for its list. */
static int bzi_plan_list(bzi_plan *plan)
{
    bzi_order *order = &plan->order;

    if (!plan->is_given || order->list)
        return 1;
    if (!(order->list = bzi_plan_find_list(plan, plan->epoch)))
        return 0;

    order->indices = order->list->indices;
    order->length = order->list->count;
    order->repeats = order->list->repeats;
    bzi_plan_share_list(&plan->shard, order->list);
    return 1;
}

/* Moves past epochs without a batch left. Returns 0 if none has one, or the next waits for its list. Only the first
 * epoch can be empty, because a plan or a list without batches is refused. */
static int bzi_plan_has_batch(bzi_plan *plan)
{
    while (plan->epoch < plan->end_epoch && bzi_plan_list(plan) &&
           plan->next_batch >= bzi_shard_batches(&plan->shard))
        bzi_plan_epoch(plan, plan->epoch + 1, 0);
    return plan->epoch < plan->end_epoch && bzi_plan_list(plan);
}

/* Returns 1 if slots can be given to an entry: of the open batch, or of the next one, if one is free and will be
 * delivered. */
static int bzi_plan_can_go_on(bzi_queues *queues)
{
    return queues->open ||
           (queues->poison.status == BZNA_OK && bzi_plan_has_batch(&queues->plan) && queues->free_batches.first);
}

/* Opens the next batch. Pre: bzi_plan_can_go_on, and none is open. */
static void bzi_plan_batch(bzi_queues *queues)
{
    bzi_plan *plan = &queues->plan;
    const bzi_shard *shard = &plan->shard;
    bzi_shard first = plan->shard;
    bzna_batch *batch;

    if (!plan->next_batch)
        bzi_order_epoch(&plan->order, plan->seed, plan->epoch);

    batch = bzi_batches_take(&queues->free_batches);
    batch->epoch = plan->epoch;
    batch->order = plan->order;
    bzi_random_begin(&batch->random, batch->order.seed, batch->epoch);
    batch->number = plan->next_batch++;
    batch->position = bzi_shard_position(shard, batch->number);
    batch->order.stride = shard->given ? 1 : shard->world;
    batch->real = bzi_shard_real(shard, batch->number);

    batch->slots = shard->last_batch >= BZNA_LAST_PAD ? shard->batch : batch->real;
    batch->unfinished = batch->slots;
    batch->failed = batch->replaced = 0;
    batch->stop_slot = UINT32_MAX;
    batch->last_of_epoch = plan->next_batch == bzi_shard_batches(shard);
    /* a state that is saved after this batch was delivered goes on at the next batch of rank 0 */
    first.rank = 0;
    batch->after = batch->last_of_epoch ?
                       (bzi_place){ plan->epoch + 1, 0, plan->is_given ? 0 : batch->order.length, 0 } :
                       (bzi_place){ plan->epoch, bzi_shard_position(&first, plan->next_batch), batch->order.length,
                                    batch->order.list ? batch->order.list->hash : 0 };

    /* without slots, the last samples of the epoch went to other ranks */
    bzi_batches_add(&queues->pending, batch, batch->slots ? BZI_BATCH_FILLING : BZI_BATCH_READY);
    queues->open = batch->slots ? batch : NULL;
    queues->next_slot = 0;
}

/* Finds the sample at the item's position, and clears what an earlier one left. */
static void bzi_plan_sample(bzi_item *item)
{
    item->index = bzi_order_at(&item->batch->order, item->position);
    item->local = item->index;
    item->stage = BZI_ITEM_UNREAD;
    item->decode_ns = item->warp_ns = item->by_nvdec = item->shrinkable = 0;
    item->shared = item->retries = 0;
    item->data = NULL;
    item->container = bzi_dataset_at(item->setup->dataset, &item->local);
    item->batch->indices[item->slot] = item->index;
}

/* Returns 1 if the item's sample lies in a file, and may be read. */
static int bzi_item_locate(const bzi_item *item, bzi_extent *extent)
{
    bzna_error ignored;

    return !item->is_padding && bzi_container_locate(item->container, item->local, extent, &ignored) == BZNA_OK &&
           !extent->data && extent->source && extent->source->is_file &&
           extent->size <= item->container->max_bytes;
}

static bzna_status bzi_item_image(const bzi_item *item, uint32_t number, bzi_image *image,
                                  bzna_error *err)
{
    bzi_sample sample = { item->local, item->extent, item->data };

    return bzi_container_image(item->container, &sample, &item->setup->picks[number], image, err);
}

/* Returns 1 if nothing but NVDEC decodes the picture. */
static int bzi_item_lacks_decoder(const bzi_item *item)
{
    bzi_image image;
    bzna_error ignored;

    if (BZI_HAS_AVCODEC && BZI_HAS_JPEG)
        return 0;
    return item->status == BZNA_OK && bzi_item_image(item, 0, &image, &ignored) == BZNA_OK &&
           bzi_codec_has_library(bzi_codec_of(&image.coded), &ignored) != BZNA_OK;
}

/* The first of an entry's items. The others follow it. */
static bzi_item *bzi_entry_items(const bzi_entry *entry) { return &entry->batch->items[entry->slot]; }

/* Gives the next slots of a batch, at most so many, to an empty entry. Returns NULL if there is nothing to plan now.
 * Pre: an entry is empty. */
static bzi_entry *bzi_plan_run(bzi_queues *queues, uint32_t most)
{
    bzi_entry *entry = queues->entries[BZI_ENTRY_EMPTY].first;
    bzna_batch *batch;

    while (!queues->open) {
        if (!bzi_plan_can_go_on(queues))
            return NULL;
        bzi_plan_batch(queues);
    }
    batch = entry->batch = queues->open;
    entry->is_new = 1;
    entry->ticket = queues->tickets++;
    entry->slot = queues->next_slot;
    entry->count = bzi_min32(most, batch->slots - queues->next_slot);
    entry->usual = bzi_min(2 * queues->pace.bytes, BZI_RUN_BYTES);
    queues->next_slot += entry->count;
    if (queues->next_slot == batch->slots)
        queues->open = NULL;
    return entry;
}

/* Finds the samples of a new entry. Without the lock: the order of a batch stays until it is filled. */
static void bzi_entry_plan(bzi_entry *entry)
{
    const bzna_batch *batch = entry->batch;
    bzi_item *item = bzi_entry_items(entry);

    entry->left = entry->count;
    entry->is_new = 0;
    for (const bzi_item *end = item + entry->count; item < end; item++) {
        item->entry = entry;
        item->replacements = item->again = 0;
        item->position = (batch->position + (uint64_t)item->slot * batch->order.stride) % batch->order.length;
        bzi_plan_sample(item);
        item->is_padding = item->setup->config.order.last_batch == BZNA_LAST_FILL && item->slot >= batch->real;
        if (item->is_padding)
            batch->indices[item->slot] = UINT64_MAX;
    }
}

/* --- The pool's queue --- */

/* Looks after threads, at most once in BZI_LOOK_NS. If BZI_LOOKS looks in a row see one in the same call of the driver,
 * the device hangs: no more calls are made, and threads end, but for those in a call, which are left alone. Returns 1
 * if it hangs. closes: 1: the threads are to end, and a patient one that does not is left alone, too, without giving up
 * the device. With the lock of the watches held. */
static int bzi_watches_look(bzi_watches *watches, bzi_device *device, int closes)
{
    const int hung = bzi_device_is_hung(device);

    if (bzi_os_now_ns() - watches->looked_ns < BZI_LOOK_NS)
        return hung;
    watches->looked_ns = bzi_os_now_ns();
    for (bzi_watch *watch = watches->all, *end = watch + watches->count; watch < end; watch++) {
        uint_fast64_t calls = atomic_load(&watch->calls);
        const int stays = calls % 2 && calls == watch->seen && calls != BZI_WATCH_LEFT && (closes || !watch->patient);

        watch->seen = calls;
        watch->looks = stays ? watch->looks + 1 : 0;
        if (watch->looks >= BZI_LOOKS && !watch->patient)
            bzi_device_hang(device);
        if (watch->looks >= (hung ? 2 : BZI_LOOKS) && (hung || watch->patient) &&
            atomic_compare_exchange_strong(&watch->calls, &calls, BZI_WATCH_LEFT)) {
            watch->seen = BZI_WATCH_LEFT;
            watches->lost += watch->holds;
            watches->left++;
            watches->gone++;
        }
    }
    return bzi_device_is_hung(device);
}

/* Returns 1 if the device hangs. *over: 1 if no engine touches an entry any more. */
static int bzi_pool_look(bzi_pool *pool, int *over)
{
    int hangs;

    bzi_os_lock(&pool->mutex);
    hangs = bzi_watches_look(&pool->watches, pool->device, 0);
    *over = pool->watches.gone == pool->watches.count;
    bzi_os_unlock(&pool->mutex);
    if (hangs)
        bzi_os_wake_all(&pool->wake);
    return hangs;
}

/* Queues the entry of an item, its only one, for the engines: last, or first if a worker gives it back. Returns 0 if no
 * engine is left. (L) */
static int bzi_pool_submit(bzi_pool *pool, const bzi_item *item)
{
    bzi_entry *entry = item->entry;
    int alive;

    bzi_os_lock(&pool->mutex);
    alive = pool->live > 0;
    if (alive) {
        bzi_entry_move(entry, BZI_ENTRY_POOL);
        bzi_entries_add(&pool->queue, entry, item->shared ? NULL : pool->queue.last);
        if (pool->idle)
            bzi_os_wake_one(&pool->wake);
    }
    bzi_os_unlock(&pool->mutex);
    return alive;
}

/* Finds an entry that a worker may take from the engines: the first after as many as those can begin, one for each, or
 * else the last one before. Returns NULL if no more wait. take: 1: out of the queue. (L) */
static bzi_entry *bzi_pool_share(bzi_pool *pool, const bzi_queues *queues, int take)
{
    bzi_entry *found = NULL, *entry;
    uint32_t number = 0;

    bzi_os_lock(&pool->mutex);
    entry = pool->queue.count > pool->live ? pool->queue.first : NULL;
    for (; entry && !(found && number > pool->live); entry = entry->next, number++)
        if (entry->queues == queues && !bzi_entry_items(entry)->shared)
            found = entry;
    if (found && take)
        bzi_entries_remove(&pool->queue, found);
    bzi_os_unlock(&pool->mutex);
    return found;
}

/* Takes a loader's entries out of the queue. (L) */
static void bzi_pool_withdraw(bzi_pool *pool, const bzi_queues *queues)
{
    if (!pool)
        return;

    bzi_os_lock(&pool->mutex);
    for (bzi_entry *entry = pool->queue.first, *next; entry; entry = next) {
        next = entry->next;
        if (entry->queues != queues)
            continue;
        bzi_entries_remove(&pool->queue, entry);
        bzi_entry_move(entry, BZI_ENTRY_EMPTY);
    }
    bzi_os_unlock(&pool->mutex);
}


/* ==== 66. Loader: waiting ===========================================================================================
 * Calls: rooms 2, 4, 56, 64-65.
 *
 * Who waits for what, and the one place that wakes threads.
 *
 * bzi_can says whether there is something for a role. It is what the threads of the role wait for, and nothing else
 * says when to wake them: whoever gives back the lock, or sleeps, signals each role that can go on. So, whenever the
 * lock is free, for each role with bzi_can: a thread of it was signalled and has not gone on yet, or none sleeps. One
 * that goes on and takes a job gives back the lock, and so signals the next if there is more to do. */

/* Takes the lock, and counts a wait for it. */
static void bzi_queues_lock(bzi_queues *queues)
{
    uint64_t start;

    if (bzi_os_try_lock(&queues->mutex))
        return;

    start = bzi_os_now_ns();
    bzi_os_lock(&queues->mutex);
    queues->stats.lock_waits++;
    queues->stats.lock_wait_ns += bzi_os_now_ns() - start;
}

/* Returns 1 if a planned entry, *entry, can be read, or a new one, *entry NULL, that is not too far ahead. *when: when
 * one can be read, if only that time is to come; else UINT64_MAX. */
static int bzi_can_read(bzi_queues *queues, bzi_entry **entry, uint64_t *when)
{
    *entry = NULL;
    *when = UINT64_MAX;
    if (bzi_queues_interrupted(queues))
        return 0;
    *entry = bzi_queues_find_planned(queues, when);
    return *entry || (queues->entries[BZI_ENTRY_EMPTY].count && (queues->sessions || !bzi_queues_is_full(queues)) &&
                      bzi_plan_can_go_on(queues) && !bzi_queues_first_short(queues));
}

static int bzi_can_retire(const bzi_queues *queues)
{
    return queues->retiring.first && queues->poison.status == BZNA_OK;
}

/* One reader is enough for samples that are read faster than a thread wakes, unless workers have nothing to do. */
static int bzi_can_read_more(const bzi_queues *queues)
{
    const bzi_entries *entries = queues->entries;
    const int slow = !queues->pace.read_ns || queues->pace.read_ns > BZI_READ_SLOW_NS;

    return !entries[BZI_ENTRY_READING].count || slow || queues->sessions || entries[BZI_ENTRY_PLANNED].count ||
           (!entries[BZI_ENTRY_FULL].count && entries[BZI_ENTRY_TAKEN].count < queues->worker_count);
}

enum { BZI_NEXT_NOTHING, BZI_NEXT_STOP, BZI_NEXT_ERROR, BZI_NEXT_BATCH, BZI_NEXT_END, BZI_NEXT_ALL_ON_LOAN };

/* Returns what the thread in next gets; NOTHING: it must wait; END: no batch is left, or the next epoch has no list. */
static uint32_t bzi_can_deliver(bzi_queues *queues)
{
    const bzna_batch *head = queues->pending.first;

    if (queues->quit || queues->stopped)
        return BZI_NEXT_STOP;
    if (queues->paused)
        return BZI_NEXT_NOTHING;
    if (queues->poison.status != BZNA_OK)
        return BZI_NEXT_ERROR;
    if (head)
        return head->state == BZI_BATCH_READY ? BZI_NEXT_BATCH : BZI_NEXT_NOTHING;
    if (!bzi_plan_has_batch(&queues->plan))
        return BZI_NEXT_END;
    return bzi_queues_count(queues, BZI_BATCH_ON_LOAN) == queues->batch_count ? BZI_NEXT_ALL_ON_LOAN : BZI_NEXT_NOTHING;
}

/* Returns 1 if a worker may take an entry from the engines, who change the pool's queue without this loader's lock, as
 * do other loaders: only speed depends on this. */
static int bzi_can_share(const bzi_queues *queues)
{
    return queues->hybrid && queues->waiting && !bzi_queues_interrupted(queues) &&
           !bzi_queues_count(queues, BZI_BATCH_READY) && bzi_pool_share(queues->hybrid, queues, 0);
}

/* Returns 1 if there is what threads of the role wait for. bzi_queues_signal asks this each time that the lock is given
 * back, so who changes something need not know who waits for it. (L) */
static int bzi_can(bzi_queues *queues, uint32_t role)
{
    const bzi_entries *entries = queues->entries;
    const uint32_t active = entries[BZI_ENTRY_READING].count + entries[BZI_ENTRY_TAKEN].count +
                            entries[BZI_ENTRY_POOL].count;
    bzi_entry *entry;
    uint64_t when;

    switch (role) {
    case BZI_ROLE_READ:
        return queues->quit || (bzi_can_read(queues, &entry, &when) && bzi_can_read_more(queues)) ||
               when < queues->alarm;
    case BZI_ROLE_WORK:
        return queues->quit || (queues->entries[BZI_ENTRY_FULL].count && !bzi_queues_interrupted(queues)) ||
               (!queues->reader_count && (bzi_can_read(queues, &entry, &when) || when < queues->alarm)) ||
               bzi_can_share(queues);
    case BZI_ROLE_DONE:
        return bzi_can_deliver(queues) != BZI_NEXT_NOTHING;
    case BZI_ROLE_CONTROL:                                  /* taken entries come back, but for lost ones */
        return active == queues->watches.lost && !queues->clearing &&
               (!queues->quit || (!queues->waiting && queues->watches.gone == queues->watches.count));
    default:
        return queues->quit || bzi_can_retire(queues);
    }
}

/* Wakes a thread of each role that can go on, or all if each waits for something of its own. */
static void bzi_queues_signal(bzi_queues *queues)
{
    for (uint32_t role = 0; role < BZI_ROLES; role++) {
        if (!queues->sleeping[role] || queues->woken[role] || !bzi_can(queues, role))
            continue;
        queues->woken[role] = 1;
        (role <= BZI_ROLE_WORK ? bzi_os_wake_one : bzi_os_wake_all)(&queues->wake[role]);
    }
}

static void bzi_queues_unlock(bzi_queues *queues)
{
    bzi_queues_signal(queues);
    bzi_os_unlock(&queues->mutex);
}

/* Waits until there is perhaps something for the role: the caller looks again. deadline_ns: on the clock of
 * bzi_os_now_ns; UINT64_MAX: none. Returns 1 if it has passed. (L), but not during the wait. */
static int bzi_queues_sleep(bzi_queues *queues, uint32_t role, uint64_t deadline_ns)
{
    int expired = 0;

    bzi_queues_signal(queues);
    queues->sleeping[role]++;
    if (deadline_ns < UINT64_MAX)
        expired = bzi_os_wait_until(&queues->wake[role], &queues->mutex, deadline_ns);
    else
        bzi_os_wait(&queues->wake[role], &queues->mutex);
    queues->sleeping[role]--;
    queues->woken[role] = 0;
    return expired;
}

/* Looks after threads and engines. Ends the loader if the device hangs. Returns 1 if no engine touches an entry any
 * more. (L) */
static int bzi_queues_look(bzi_queues *queues)
{
    const bzi_setup *setup = queues->setup;
    bzna_error err = { .status = BZNA_E_DEVICE_LOST };
    int over = 0;

    if (!setup->device)
        return 0;
    if (setup->pool)
        bzi_pool_look(setup->pool, &over);
    if (!bzi_watches_look(&queues->watches, setup->device, queues->quit != 0))
        return 0;
    bzi_device_fail_lost(setup->device, &err);
    bzi_queues_break(queues, &err);
    return over;
}

/* Waits as bzi_queues_sleep does, but at most until a look is due. */
static int bzi_queues_sleep_for(bzi_queues *queues, uint32_t role, uint64_t deadline_ns)
{
    const uint64_t look_ns = queues->setup->device ? bzi_os_now_ns() + BZI_LOOK_NS : UINT64_MAX;

    return bzi_queues_sleep(queues, role, bzi_min(deadline_ns, look_ns)) && deadline_ns <= look_ns;
}

/* Takes back what engines have not begun, and waits until no thread has an entry, but for engines that hang. (L), but
 * not during the wait. */
static void bzi_queues_settle(bzi_queues *queues)
{
    bzi_pool_withdraw(queues->setup->pool, queues);
    while (!bzi_can(queues, BZI_ROLE_CONTROL)) {
        bzi_queues_sleep_for(queues, BZI_ROLE_CONTROL, UINT64_MAX);
        if (bzi_queues_look(queues)) {
            bzi_queues_count_starved(queues);
            queues->entries[BZI_ENTRY_POOL].count = 0;
        }
    }
}


/* ==== 67. Loader: given orders =====================================================================================
 * Calls: rooms 2, 8-9, 44, 65-66.
 *
 * Lists of samples that the caller gave for epochs (BZNA_ORDER_GIVEN). A list is made and freed without the lock. Once
 * the loader has it, it is only read. It stays until the last batch of its epoch was delivered, since no sample of that
 * epoch is then in any thread's hands, or until a reset or restore, which wait until none is. */

/* Finds out if an index stands there twice, by a bit for each sample; *repeats is 1, too, if the data set is too large
 * for that. Pre: indices are below the number of samples. */
static bzna_status bzi_indices_repeat(const bzi_setup *setup, const uint64_t *indices, uint64_t count,
                                      uint32_t *repeats, bzna_error *err)
{
    const uint64_t bytes = setup->dataset->count / 8 + 1;
    uint8_t *seen;

    *repeats = setup->dataset->count > BZI_LIMIT_SEEN;
    if (*repeats)
        return BZNA_OK;
    if (!(seen = bzi_alloc_zero(setup->memory, bytes, 1)))
        return bzi_fail_memory(err, "looking for indices that repeat");

    for (uint64_t i = 0; i < count && !*repeats; i++) {
        uint8_t bit = (uint8_t)(1u << indices[i] % 8), *at = &seen[indices[i] / 8];
        *repeats = (*at & bit) != 0;
        *at |= bit;
    }

    bzi_release(setup->memory, seen, bytes, 1);
    return BZNA_OK;
}

static void bzi_sequence_free_all(const bzi_memory *memory, bzi_sequence *list)
{
    while (list) {
        bzi_sequence *next = list->next;
        bzi_release(memory, list, list->bytes, 1);
        list = next;
    }
}

/* Returns the samples of an epoch; 0: its list is given. */
static uint64_t bzi_setup_samples(const bzi_setup *setup)
{
    const bzna_loader_order *order = &setup->config.order;

    return order->kind == BZNA_ORDER_GIVEN ? 0 : order->index_count ? order->index_count : setup->dataset->count;
}

/* Returns this rank's part of an epoch. list: NULL for orders that are not given. */
static bzi_shard bzi_setup_share(const bzi_setup *setup, const bzi_sequence *list)
{
    const bzna_loader_config *c = &setup->config;
    bzi_shard shard = { bzi_setup_samples(setup), 0, c->output.batch_size, c->shard.world_size, c->shard.rank,
                        c->order.last_batch, 0, 0, NULL };

    if (list)
        bzi_plan_share_list(&shard, list);
    return shard;
}

/* Copies, checks and hashes what the caller gave. sizes: of batches. */
static bzna_status bzi_sequence_fill(const bzi_setup *setup, bzi_sequence *list, const uint64_t *indices,
                                     const uint32_t *sizes, bzna_error *err)
{
    const uint64_t samples = setup->dataset->count, numbers = list->count + list->batch_count;
    const uint32_t most = setup->config.output.batch_size;
    const bzi_llu epoch = list->epoch;
    uint64_t end = 0;
    bzi_shard shard;

    for (uint64_t i = 0; i < list->batch_count; i++) {
        if (!sizes[i] || sizes[i] > most)
            return BZI_MISUSE(err, "sizes[%llu] of epoch %llu: %u is not in 1..%u (batch_size)", (bzi_llu)i, epoch,
                              sizes[i], most);
        list->ends[i] = end += sizes[i];
    }
    if (list->batch_count && end != list->count)
        return BZI_MISUSE(err, "sizes of epoch %llu: their sum is %llu, but there are %llu indices", epoch,
                          (bzi_llu)end, (bzi_llu)list->count);

    memcpy(list->indices, indices, (size_t)(list->count * sizeof *list->indices));
    for (uint64_t i = 0; i < list->count; i++)
        if (list->indices[i] >= samples)
            return BZI_FAIL(err, BZNA_E_RANGE, "indices[%llu] of epoch %llu: %llu is not below the %llu samples",
                            (bzi_llu)i, epoch, (bzi_llu)list->indices[i], (bzi_llu)samples);
    if (bzi_indices_repeat(setup, list->indices, list->count, &list->repeats, err) != BZNA_OK)
        return err->status;

    shard = bzi_setup_share(setup, list);
    list->own_batches = bzi_shard_batches(&shard);
    list->own_samples = bzi_shard_samples(&shard);
    if (list->own_batches == 0)
        return BZI_MISUSE(err, "the list of epoch %llu leaves no batch, since last_batch is DROP: %llu %s for %u "
                          "ranks", epoch, (bzi_llu)(list->batch_count ? list->batch_count : list->count),
                          list->batch_count ? "batches" : "samples", shard.world);

    list->hash = bzi_hash(BZI_HASH_START, &list->batch_count, sizeof list->batch_count);
    list->hash = bzi_hash(list->hash, list->indices, (size_t)(numbers * sizeof *list->indices));
    list->hash += !list->hash;                              /* 0 stands for no list */
    return BZNA_OK;
}

/* Checks that an epoch may get a list. A restored loader takes only the saved run's list for the epoch that it is
 * inside. (L) */
static bzna_status bzi_plan_check_list(const bzi_plan *plan, const bzi_sequence *list, bzna_error *err)
{
    const unsigned long long epoch = list->epoch;
    const bzi_place *done = &plan->done;

    if (list->epoch >= plan->end_epoch)
        return BZI_FAIL(err, BZNA_E_RANGE, "epoch %llu is not below %llu, where the run ends (order.epochs)", epoch,
                        (bzi_llu)plan->end_epoch);
    if (list->epoch < done->epoch)
        return BZI_FAIL(err, BZNA_E_STATE, "epoch %llu is over: the next batch is of epoch %llu", epoch,
                        (bzi_llu)done->epoch);
    if (bzi_plan_find_list(plan, list->epoch))
        return BZI_FAIL(err, BZNA_E_STATE, "epoch %llu has its list already, which cannot change until "
                        "bzna_loader_reset or bzna_loader_restore", epoch);

    if (list->epoch == done->epoch && done->position) {
        const uint64_t batch = bzi_search_above(list->ends, list->batch_count, sizeof *list->ends, done->position);
        if ((done->list && list->hash != done->list) || list->count != done->count ||
            (list->batch_count && (!batch || list->ends[batch - 1] != done->position)))
            return BZI_MISUSE(err, "the list of epoch %llu, of %llu samples, is not the one that state.list is the "
                              "hash of, of %llu: the run was restored inside this epoch", epoch,
                              (bzi_llu)list->count, (bzi_llu)done->count);
    }
    return BZNA_OK;
}

/* Takes the lists of earlier epochs out of the plan. (L) */
static bzi_sequence *bzi_plan_take_lists(bzi_plan *plan, uint64_t epoch)
{
    bzi_sequence **link = &plan->lists, *taken = NULL, *list;

    while ((list = *link) != NULL) {
        if (list->epoch >= epoch) {
            link = &list->next;
            continue;
        }
        *link = list->next;
        list->next = taken;
        taken = list;
    }
    return taken;
}

/* Plans from a place on, and returns the lists that it had. seed: NULL: as it is. (L), while no batch is planned. */
static bzi_sequence *bzi_plan_from(bzi_plan *plan, const uint64_t *seed, const bzi_place *place,
                                          uint64_t end_epoch)
{
    plan->seed = seed ? *seed : plan->seed;
    plan->end_epoch = end_epoch;
    plan->done = *place;
    bzi_plan_epoch(plan, place->epoch, place->position);
    return bzi_plan_take_lists(plan, UINT64_MAX);
}

/* Gives an epoch its list, and frees those of epochs that are over. given: its epoch and counts. sizes: of batches;
 * NULL: they are as large as those of other orders. */
static bzna_status bzi_loader_give(bzna_loader *loader, const bzi_sequence *given, const uint64_t *indices,
                                   const uint32_t *sizes, bzna_error *err)
{
    bzi_queues *queues = &loader->queues;
    const bzi_memory *memory = loader->setup.memory;
    bzi_plan *plan = &loader->queues.plan;
    uint64_t numbers, bytes;
    bzi_sequence *list, *old, **home;
    bzna_status status;

    if (!bzi_add(given->count, given->batch_count, &numbers) || !bzi_mul(numbers, sizeof(uint64_t), &bytes) ||
        !bzi_add(bytes, sizeof *list, &bytes) || !(list = bzi_alloc(memory, bytes, 1, 16)))
        return bzi_fail_memory(err, "the list of an epoch");

    *list = *given;
    list->bytes = bytes;
    list->indices = (uint64_t *)(void *)(list + 1);
    list->ends = given->batch_count ? list->indices + given->count : NULL;
    status = bzi_sequence_fill(&loader->setup, list, indices, sizes, err);

    bzi_queues_lock(queues);
    old = bzi_plan_take_lists(plan, plan->done.epoch);
    if (status == BZNA_OK)
        status = bzi_plan_check_list(plan, list, err);
    home = status == BZNA_OK ? &plan->lists : &old;
    list->next = *home;
    *home = list;
    bzi_queues_unlock(queues);

    bzi_sequence_free_all(memory, old);
    return status;
}


/* ==== 68. Loader: fields ============================================================================================
 * Calls: rooms 2, 8-9, 12, 20, 25, 32, 41, 63.
 * Batches carry fields besides picture and target: numbers as tensors, others as bytes, with one value for each slot.
 * The values of a slot belong to whoever holds its item. */

/* --- Opening: which fields --- */

/* Reads an entry "name=field:length" of a list. The field is the name by default, the length 0. Returns 0 if the entry
 * is no valid one. */
static int bzi_column_parse(bzi_span entry, bzi_column *column)
{
    uint64_t length = 0;
    bzi_span name, field;

    if (bzi_text_take(&entry, ':', &field) &&
        (!bzi_span_integer(entry, &length) || length == 0 || length > BZI_LIMIT_VECTOR))
        return 0;
    if (!bzi_text_take(&field, '=', &name))
        field = name;
    if (name.size == 0 || name.size >= sizeof column->name || field.size == 0 || field.size >= sizeof column->field)
        return 0;

    *column = (bzi_column){ .length = (uint32_t)length, .clear = 1 };
    bzi_copy(column->name, name.data, name.size);
    bzi_copy(column->field, field.data, field.size);
    return 1;
}

/* Completes a column by its field. A vector without a length has that of the first sample of the first part with the
 * field. */
static bzna_status bzi_column_find(const bzna_dataset *dataset, bzi_column *column, int is_tensor, bzna_error *err)
{
    const bzi_part *part = dataset->parts, *const end = part + dataset->part_count;
    bzi_value value = { NULL, 0, 0, 0 };
    uint32_t number = BZI_NO_FIELD;
    bzna_status status;

    while (part < end && (number = bzi_container_find_field(part->container, column->field)) == BZI_NO_FIELD)
        part++;
    if (part == end)
        return BZI_FAIL(err, BZNA_E_NOT_FOUND, "the data set has no field \"%s\"", column->field);

    column->kind = part->container->fields[number].kind;
    if (is_tensor && column->kind != BZNA_FIELD_INTEGER && column->kind != BZNA_FIELD_VECTOR)
        return BZI_MISUSE(err, "\"%s\" is not a number: name it in fields.bytes", column->name);
    if (column->length && column->kind != BZNA_FIELD_VECTOR)
        return BZI_MISUSE(err, "\"%s:%u\": only vectors have a length", column->name, column->length);
    if (!is_tensor || column->length || column->kind == BZNA_FIELD_INTEGER)
        return BZNA_OK;

    status = bzi_container_field(part->container, part->first, column->field, &value, err);
    if (status != BZNA_E_BUFFER && status != BZNA_OK)
        return status;
    value.size /= sizeof(float);
    if (value.size == 0 || value.size > BZI_LIMIT_VECTOR)
        return BZI_FAIL(err, BZNA_E_LIMIT, "\"%s\" has %llu numbers in the first sample; 1 to %u can be a tensor",
                        column->field, (bzi_llu)value.size, BZI_LIMIT_VECTOR);
    column->length = (uint32_t)value.size;
    return BZNA_OK;
}

/* Makes the columns of one of the two lists of names. A field may be in both. bzi_setup_add_tensor finds tensors of one
 * name. */
static bzna_status bzi_setup_list_columns(bzi_setup *setup, const char *list, int is_tensor, bzna_error *err)
{
    const char *const setting = is_tensor ? "loader_config.fields.tensors" : "loader_config.fields.bytes";
    const uint32_t first = setup->column_count, most = is_tensor ? BZI_LIMIT_COLUMNS : BZI_LIMIT_BYTES;
    bzi_span rest = { (const uint8_t *)list, list ? strlen(list) : 0 }, entry;

    while (rest.size) {
        bzi_column *column = &setup->columns[setup->column_count];
        int64_t length;
        uint32_t is_vector;

        if (bzi_text_take(&rest, ',', &entry) > (rest.size != 0) || entry.size == 0)
            return BZI_MISUSE(err, "%s: a name is empty; commas are allowed only between two names", setting);
        if (!bzi_column_parse(entry, column))
            return BZI_MISUSE(err, "%s: \"%.*s\" is neither a field's name nor a vector's name and length, as in "
                              "\"box:4\"; commas separate them", setting, (int)bzi_min(entry.size, 40),
                              (const char *)entry.data);
        if (!bzi_text_is_utf8(column->name) || !bzi_text_is_utf8(column->field))
            return BZI_MISUSE(err, "%s: a name is not UTF-8", setting);
        if (setup->column_count - first == most)
            return BZI_FAIL(err, BZNA_E_LIMIT, "%s: more than %u names", setting, most);
        for (const bzi_column *other = &setup->columns[setup->tensor_count]; other < column; other++)
            if (strcmp(other->name, column->name) == 0 && strcmp(other->field, column->field) == 0)
                return BZI_MISUSE(err, "%s: \"%s\" is named twice", setting, column->name);

        if (bzi_column_find(setup->dataset, column, is_tensor, err) != BZNA_OK)
            return bzi_error_prefix(err, setting);
        length = column->length;
        is_vector = column->kind == BZNA_FIELD_VECTOR;
        if (is_tensor && bzi_setup_add_tensor(setup, column->name, is_vector ? BZNA_DTYPE_FLOAT32 : BZNA_DTYPE_INT64,
                                              &length, is_vector, 0, err) != BZNA_OK)
            return bzi_error_prefix(err, setting);
        setup->tensor_count += (uint32_t)is_tensor;
        setup->column_count++;
    }
    return BZNA_OK;
}

/* --- Opening: tensors that the program makes --- */

static bzna_status bzi_made_check(const bzna_made *made, bzna_error *err)
{
    const size_t name = made->name ? strlen(made->name) : 0;
    uint64_t bytes = 8;               /* of the largest element, so that the limit is the same for every dtype */

    if (bzi_check_reserved("reserved", made->reserved, sizeof made->reserved, err) != BZNA_OK ||
        bzi_check_reserved("reserved0", &made->reserved0, sizeof made->reserved0, err) != BZNA_OK)
        return err->status;
    if (name == 0 || name >= BZNA_NAME_MAX || !bzi_text_is_utf8(made->name))
        return BZI_MISUSE(err, "name: must have 1 to %u bytes of UTF-8", BZNA_NAME_MAX - 1);
    if (made->zero > 1)
        return BZI_MISUSE(err, "zero: neither 0 nor 1");
    if (made->dtype != BZNA_DTYPE_FLOAT32 && made->dtype != BZNA_DTYPE_UINT8 && made->dtype != BZNA_DTYPE_INT32 &&
        made->dtype != BZNA_DTYPE_INT64)
        return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "dtype: %u; only float32, uint8, int32 and int64", made->dtype);
    if (made->dimensions > BZI_LENGTH(made->shape))
        return BZI_MISUSE(err, "dimensions: %u; at most 4", made->dimensions);
    for (uint32_t i = 0; i < made->dimensions; i++)
        if (made->shape[i] < 1 || !bzi_mul(bytes, (uint64_t)made->shape[i], &bytes) || bytes > BZI_LIMIT_MADE_BYTES)
            return BZI_MISUSE(err, "shape[%u]: %lld; each must be at least 1, and a sample has at most %u bytes", i,
                              (long long)made->shape[i], BZI_LIMIT_MADE_BYTES);
    return BZNA_OK;
}

/* where: the setting that asks for it. */
static bzna_status bzi_setup_add_made(bzi_setup *setup, const bzna_made *made, const char *where, bzna_error *err)
{
    if (bzi_made_check(made, err) != BZNA_OK ||
        bzi_setup_add_tensor(setup, made->name, made->dtype, made->shape, made->dimensions, 0, err) != BZNA_OK)
        return bzi_error_prefix(err, where);
    setup->columns[setup->column_count++].clear = !made->zero;
    setup->tensor_count++;
    return BZNA_OK;
}

/* Adds the tensors that the program makes, and the geometry's. */
static bzna_status bzi_setup_make_made(bzi_setup *setup, bzna_error *err)
{
    const bzna_loader_fields *fields = &setup->config.fields;
    const uint32_t views = setup->outputs[0].views, several = views > 1;
    const bzna_made geometry = { .name = "geometry", .dtype = BZNA_DTYPE_FLOAT32, .dimensions = 1 + several,
                                 .shape = { several ? views : 16, 16 } };
    char where[48];

    setup->made = setup->tensor_count;
    for (uint32_t i = 0; i < fields->made_count; i++) {
        snprintf(where, sizeof where, "loader_config.fields.made[%u]", i);
        if (bzi_setup_add_made(setup, &fields->made[i], where, err) != BZNA_OK)
            return err->status;
    }
    return fields->geometry ? bzi_setup_add_made(setup, &geometry, "loader_config.fields.geometry", err) : BZNA_OK;
}

/* --- Values --- */

static bzi_slot_bytes *bzi_batch_bytes(const bzna_batch *batch, uint32_t column, uint32_t slot)
{
    return (bzi_slot_bytes *)batch->columns[column] + slot;
}

/* Returns where an item's value lies in the tensor of a column. */
static uint8_t *bzi_item_value(const bzi_item *item, uint32_t column)
{
    return (uint8_t *)item->batch->columns[column] + item->slot * item->setup->tensors[BZI_TENSORS + column].one.bytes;
}

/* Makes an item's value absent, from a byte of it on: integers are -1, vectors NaN. */
static void bzi_item_clear_value(const bzi_item *item, uint32_t column, uint64_t from)
{
    const bzna_tensor *tensor = &item->setup->tensors[BZI_TENSORS + column].one;
    const uint32_t clear = item->setup->columns[column].clear;
    uint8_t *at = bzi_item_value(item, column);
    const float nan = NAN;

    if (clear && tensor->dtype == BZNA_DTYPE_FLOAT32)
        for (; from < tensor->bytes; from += sizeof nan)
            memcpy(at + from, &nan, sizeof nan);
    else if (from < tensor->bytes)
        memset(at + from, clear && tensor->dtype != BZNA_DTYPE_UINT8 ? 0xff : 0, (size_t)(tensor->bytes - from));
}

/* Makes an item's fields from one of them up to another absent. */
static void bzi_item_clear_fields(const bzi_item *item, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        if (i < item->setup->tensor_count)
            bzi_item_clear_value(item, i, 0);
        else
            bzi_batch_bytes(item->batch, i, item->slot)->present = 0;
}

/* Writes the bytes of a field and a NUL, which makes text a string, into the slot's memory, which grows. A picture is a
 * stream of its own, and is asked for by its name. */
static bzna_status bzi_item_put_bytes(const bzi_item *item, const bzi_sample *sample, uint32_t i, uint32_t number,
                                      bzna_error *err)
{
    const bzi_container *container = item->container;
    const char *name = item->setup->columns[i].field;
    const bzi_pick pick = { .name = name };
    bzi_slot_bytes *out = bzi_batch_bytes(item->batch, i, item->slot);

    for (int asked = 0;; asked++) {
        bzi_value value = { out->buffer.data, out->buffer.capacity ? out->buffer.capacity - 1 : 0, 0, 0 };
        bzi_image image;
        bzna_status status;

        if (container->fields[number].kind != BZNA_FIELD_IMAGE)
            status = container->ops->field(container, sample, number, &value, err);
        else if ((status = bzi_container_image(container, sample, &pick, &image, err)) == BZNA_OK)
            status = bzi_image_stream(&image.coded, &value, err);
        else if (status == BZNA_E_NOT_FOUND)
            return BZNA_OK;
        if (status != BZNA_OK || value.absent)
            return status;

        if (out->buffer.capacity > value.size) {
            value.data[value.size] = 0;
            out->size = value.size;
            out->present = 1;
            return BZNA_OK;
        }

        if (asked)
            return BZI_FAIL(err, BZNA_E_CALLBACK, "the size of its %s changes between calls: %llu bytes, then %llu",
                            name, (bzi_llu)value.capacity, (bzi_llu)value.size);
        if (!bzi_buffer_reserve(item->setup->memory, &out->buffer, value.size + 1, 0))
            return bzi_fail_memory(err, "the bytes of a field");
    }
}

/* Writes one field of a sample: bytes, or a number or a vector, which NaN follow if it is shorter. number:
 * BZI_NO_FIELD: only other parts of the data set have it. */
static bzna_status bzi_item_put_field(const bzi_item *item, const bzi_sample *sample, uint32_t i, uint32_t number,
                                      bzna_error *err)
{
    const bzi_setup *setup = item->setup;
    const bzi_column *column = &setup->columns[i];
    const bzi_field *field = number == BZI_NO_FIELD ? NULL : &item->container->fields[number];
    bzi_value value = { .size = 0 };

    if (!field || i >= setup->tensor_count || column->kind != field->kind) {
        bzi_item_clear_fields(item, i, i + 1);
        if (!field || !column->kind)
            return BZNA_OK;                                 /* without a kind, it is filled in later */
        if (i >= setup->tensor_count)
            return bzi_item_put_bytes(item, sample, i, number, err);
        return BZI_FAIL(err, BZNA_E_MISMATCH, "its %s is of another kind than in other samples", field->name);
    }

    value.data = bzi_item_value(item, i);
    value.capacity = setup->tensors[BZI_TENSORS + i].one.bytes;
    if (item->container->ops->field(item->container, sample, number, &value, err) != BZNA_OK)
        return err->status;
    if (value.size > value.capacity)
        return BZI_FAIL(err, BZNA_E_MISMATCH, "its %s has %llu numbers, more than the %u of fields.tensors: name it as "
                        "\"%s:%llu\" there, with the length of the longest", column->name,
                        (bzi_llu)(value.size / sizeof(float)), column->length, column->name,
                        (bzi_llu)(value.size / sizeof(float)));
    bzi_item_clear_value(item, i, value.absent ? 0 : value.size);
    return BZNA_OK;
}

/* Writes the fields of a sample into its slot. They are looked up by name unless the thread's last sample was of the
 * same container. */
static bzna_status bzi_item_fields(bzi_hand *hand, const bzi_item *item, const bzi_sample *sample, bzna_error *err)
{
    const bzi_setup *setup = item->setup;
    bzna_status status = BZNA_OK;

    for (uint32_t i = 0; i < setup->column_count && hand->fields_of != item->container; i++)
        hand->fields[i] = bzi_container_find_field(item->container, setup->columns[i].field);
    hand->fields_of = item->container;
    for (uint32_t i = 0; i < setup->column_count && status == BZNA_OK; i++)
        status = bzi_item_put_field(item, sample, i, hand->fields[i], err);
    return status;
}


/* ==== 69. Loader: outputs ===========================================================================================
 * Calls: rooms 7, 9, 44-45, 47-51.
 *
 * Turns a sample into views. Their transforms are drawn before the sample's pictures are decoded, because decoders need
 * to know which part is wanted, and at what size. Their slots are made once the pictures are decoded. */

/* A sample that comes again in an epoch has other random numbers. */
static bzna_random bzi_item_random(const bzi_item *item, uint32_t operation, uint32_t view)
{
    bzna_random random = item->batch->random;

    bzi_random_aim(&random, item->index, operation);
    bzi_random_fork(&random, view, item->batch->order.repeats ? item->position : 0);
    return random;
}

/* Returns 0 if a homography has no inverse, or rounding alone may have made its determinant, a sum of six terms. */
static int bzi_homography_invert(const double h[9], double inverse[9])
{
    double determinant = 0, size = 0;
    int finite = 1;

    for (int i = 0; i < 9; i++) {
        const int r = i % 3, c = i / 3, r1 = (r + 1) % 3, r2 = (r + 2) % 3, c1 = (c + 1) % 3, c2 = (c + 2) % 3;
        const double plus = h[3 * r1 + c1] * h[3 * r2 + c2], minus = h[3 * r1 + c2] * h[3 * r2 + c1];
        inverse[i] = plus - minus;
        if (r == 0) {
            determinant += h[c] * inverse[i];
            size += fabs(h[c] * plus) + fabs(h[c] * minus);
        }
    }
    for (int i = 0; i < 9; i++) {
        inverse[i] /= determinant;
        finite &= isfinite(inverse[i]) != 0;
    }
    return finite && fabs(determinant) > 4 * DBL_EPSILON * size;
}

/* What callbacks are told about a view, or about a picture whose first view it is. */
static bzna_sample_info bzi_item_info(const bzi_item *item, const bzi_view *view, const bzna_picture *picture)
{
    const bzi_output *output = view->output;
    const bzna_batch *batch = item->batch;

    return (bzna_sample_info){
        .struct_size = sizeof(bzna_sample_info),
        .slot = item->slot,
        .index = item->index,
        .epoch = batch->epoch,
        .target = batch->targets[item->slot],
        .width = bzi_picture_width(picture),
        .height = bzi_picture_height(picture),
        .out_width = output->shape.width,
        .out_height = output->shape.height,
        .occurrence = batch->order.repeats ? item->position : 0,
        .view = output->random + view->number,
        .output = (uint32_t)(output - item->setup->outputs),
    };
}

/* Lets the user's callback change a view's transform. It fails with E_CALLBACK, also if it makes an invalid one. */
static bzna_status bzi_view_ask(const bzi_item *item, const bzi_view *view, const bzna_picture *picture,
                                bzna_transform *transform, bzna_error *err)
{
    const bzna_loader_pipeline *pipeline = &item->setup->config.pipeline;
    bzna_sample_info info = bzi_item_info(item, view, picture);
    bzna_random random = bzi_item_random(item, BZNA_RANDOM_USER, info.view);
    double inverse[9];
    bzna_status status;

    bzi_os_callback_begin();
    status = pipeline->transform(pipeline->transform_user, &info, &random, transform);
    bzi_os_callback_end();

    if (status < 0)
        return BZI_FAIL_BY(err, BZNA_E_CALLBACK, status, "the transform callback returned %d",
                           (int)status);

    bzi_transform_resolve(transform);
    if ((status = bzi_transform_check(transform, err)) == BZNA_OK &&
        !bzi_homography_invert(transform->homography, inverse))
        status = BZI_MISUSE(err, "transform.homography: it is singular");
    if (status == BZNA_OK)
        return BZNA_OK;
    bzi_error_prefix(err, "after the transform callback");
    return err->status = BZNA_E_CALLBACK;
}

/* Scales the columns of rows of a homography by out, m / n: x of n pixels is (x + 1/2) * m / n - 1/2 of m pixels. */
static void bzi_rows_scale(const double *from, double *to, int rows, const double out[2])
{
    for (; rows; rows--, from += 3, to += 3) {
        to[0] = from[0] * out[0];
        to[1] = from[1] * out[1];
        to[2] = from[0] * (out[0] - 1) / 2 + from[1] * (out[1] - 1) / 2 + from[2];
    }
}

/* Makes the transform of a view that is warped as the first output's view is. Its pixels are mapped to those of the
 * first output, by that one's warp to its picture, and from there to the view's own picture, edges to edges
 * (bzi_rows_scale). It shares the operations that join the warp, by their rectangle, and the others if it has neither
 * colors nor policies of its own. */
static void bzi_view_share(const bzi_output *output, const bzi_output *first, const bzna_transform *given,
                           const bzna_picture *pictures, bzna_transform *transform)
{
    const bzna_picture *from = &pictures[first->picture], *to = &pictures[output->picture];
    const bzna_transform *filter = output->own_filter ? &output->transform : given;
    const double in[2] = { (double)bzi_picture_width(to) / bzi_picture_width(from),
                           (double)bzi_picture_height(to) / bzi_picture_height(from) };
    const double out[2] = { (double)first->shape.width / output->shape.width,
                            (double)first->shape.height / output->shape.height };
    double *h = transform->homography;

    *transform = output->own_color ? output->transform : *given;
    transform->filter = filter->filter;
    transform->antialias = filter->antialias;

    bzi_rows_scale(given->homography, h, 3, out);
    for (int i = 0; i < 6; i++)
        h[i] = h[i] * in[i / 3] + h[6 + i % 3] * (in[i / 3] - 1) / 2;
    bzi_rows_scale(given->clip, transform->clip, 2, out);
    memcpy(transform->clip_size, given->clip_size, sizeof transform->clip_size);

    transform->operation_count = output->own_augment || output->own_color ? 0 : given->operation_count;
    for (uint32_t i = 0; i < transform->operation_count; i++) {
        bzna_drawn *d = &transform->operations[i];
        for (int k = 0; k < 4; k++) {
            const int is_y = k == 1 || (k == 3 && d->kind != BZNA_OP_GRID_MASK);
            const uint32_t mine = is_y ? output->shape.height : output->shape.width;
            const uint32_t its = is_y ? first->shape.height : first->shape.width;
            d->area[k] = (int32_t)floor((double)d->area[k] * mine / its + 0.5);
        }
    }
}

/* Draws the transforms of all views, from the sizes that a sample's pictures state before they are decoded. */
static bzna_status bzi_item_draw(const bzi_item *item, const bzna_picture *pictures, bzi_views *views,
                                 bzna_error *err)
{
    const bzi_setup *setup = item->setup;

    views->constant = !setup->drawn_views && !setup->config.pipeline.transform;
    for (uint32_t i = 0; i < setup->view_count; i++) {
        const bzi_view *view = &setup->views[i];
        const bzi_output *output = view->output;
        const bzna_picture *picture = &pictures[output->picture];
        const uint32_t in[2] = { bzi_picture_width(picture), bzi_picture_height(picture) };
        const uint32_t out[2] = { output->shape.width, output->shape.height };
        const uint32_t number = view->number + (output->own_warp ? output->random : 0);
        bzna_transform *transform = &views->transforms[i];
        bzna_random random;

        if (output->own_warp) {
            *transform = output->transform;
            random = bzi_item_random(item, BZNA_RANDOM_WARP, number);
            bzi_warp_draw(&random, &output->warp, in, out, transform->homography);
            views->constant &= bzi_random_is_fresh(&random);
        } else {
            bzi_view_share(output, setup->outputs, &views->transforms[view->number], pictures, transform);
        }

        if (output->own_warp || output->own_color) {
            random = bzi_item_random(item, BZNA_RANDOM_COLOR, number);
            bzi_jitter_draw(&random, &output->jitter, output->own_warp ? &output->warp.mxnet : NULL, transform);
            views->constant &= bzi_random_is_fresh(&random);
        }
#ifndef BENZINA_NO_AUGMENT
        if (output->augment.policy_count && (output->own_warp || output->own_augment)) {
            random = bzi_item_random(item, BZNA_RANDOM_AUGMENT, number);
            bzi_augment_draw(&random, &output->augment, out, transform);
        }
#endif
        if (output->own_warp && setup->config.pipeline.transform &&
            bzi_view_ask(item, view, picture, transform, err) != BZNA_OK)
            return err->status;
        if (!bzi_finite(transform->homography, 9))          /* nothing else that is drawn can leave its range */
            return bzi_transform_check(transform, err);
    }

    return BZNA_OK;
}

/* Makes the slots of one picture, decoded at 1/shrink of its size, unless those before are reused. Their addresses are
 * set later. */
static bzna_status bzi_item_slots(const bzi_item *item, uint32_t number, const bzna_picture *picture, uint32_t shrink,
                                  bzi_views *views, bzna_error *err)
{
    for (uint32_t i = 0; i < item->setup->view_count; i++) {
        const bzi_output *output = item->setup->views[i].output;
        if (output->picture != number)
            continue;
        if (views->reused) {
            bzi_slot_planes(&views->slots[i], picture);
            continue;
        }
        if (bzi_view_make(&views->slots[i], &views->passes[i], picture, &views->transforms[i], output->shape.channels,
                          &output->kernel, err) != BZNA_OK)
            return err->status;
        bzi_slot_shrink(&views->slots[i], shrink);
    }

    return BZNA_OK;
}


/* ==== 70. Loader: geometry =========================================================================================
 * Calls: rooms 7, 9, 50, 68-69.
 * The geometry that was drawn for a sample, as users need it, and the program's function that makes tensors of fields
 * by it. It is asked once the transforms are drawn, before pictures are decoded. The tensors of a slot belong to
 * whoever holds its item. */

/* Maps a point. Returns the third coordinate, which divides the others if it is above 0. */
static double bzi_geometry_map(const double h[9], double x, double y, double out[2])
{
    const double w = h[6] * x + h[7] * y + h[8], divisor = w > 0 ? w : 1;

    for (int i = 0; i < 2; i++)
        out[i] = (h[3 * i] * x + h[3 * i + 1] * y + h[3 * i + 2]) / divisor;
    return w;
}

/* Grows a box, with edges of pixels, by a place, given from the middle of the first pixel. */
static void bzi_box_add(double box[4], const double at[2])
{
    for (int i = 0; i < 2; i++) {
        box[i] = fmin(box[i], at[i] + 0.5);
        box[2 + i] = fmax(box[2 + i], at[i] + 0.5);
    }
}

/* Finds the upright box around a mapped box. Both have edges of pixels, which lie half a pixel from the centers that
 * the homography maps. What lies beyond the horizon of a perspective is cut off, where lines between corners meet a
 * line farther away than any picture reaches. Returns 0 if all of the box lies there. */
static int bzi_geometry_hull(const double h[9], const double box[4], double out[4])
{
    const double least = 1e-5 * fabs(h[8] + (h[6] * (box[0] + box[2]) + h[7] * (box[1] + box[3])) / 2);
    double at[2];

    out[0] = out[1] = INFINITY;
    out[2] = out[3] = -INFINITY;
    for (int i = 0; i < 4; i++) {
        const double x = box[2 * (i & 1)] - 0.5, y = box[1 + (i & 2)] - 0.5, w = bzi_geometry_map(h, x, y, at);

        if (w > least)
            bzi_box_add(out, at);
        for (int k = 0; k < i; k++) {
            const double x1 = box[2 * (k & 1)] - 0.5, y1 = box[1 + (k & 2)] - 0.5;
            const double w1 = h[6] * x1 + h[7] * y1 + h[8], t = (w - least) / (w - w1);
            if ((w > least) != (w1 > least) && bzi_geometry_map(h, x + t * (x1 - x), y + t * (y1 - y), at) > 0)
                bzi_box_add(out, at);
        }
    }
    return out[0] <= out[2];
}

/* Describes how a view of the first output shows its picture. Points before the horizon stay there in the inverse,
 * which is 0 if there is none. */
static void bzi_geometry_make(bzna_geometry *g, const bzi_item *item, const bzna_picture *picture,
                              const bzna_transform *transform, uint32_t view)
{
    const bzna_output *shape = &item->setup->outputs->shape;
    const double all[4] = { 0, 0, shape->width, shape->height };
    const double x = (all[2] - 1) / 2, y = (all[3] - 1) / 2;
    double *h = g->homography, at[2], sign;

    *g = (bzna_geometry){ .struct_size = sizeof *g, .view = view, .width = bzi_picture_width(picture),
                          .height = bzi_picture_height(picture), .out_width = shape->width,
                          .out_height = shape->height };
    sign = bzi_geometry_map(transform->homography, x, y, at) > 0 ? 1 : -1;
    for (int i = 0; i < 9; i++)
        h[i] = sign * transform->homography[i];             /* the middle of the output lies before the horizon */
    if (!bzi_homography_invert(h, g->inverse))
        memset(g->inverse, 0, sizeof g->inverse);
    bzi_geometry_map(h, x, y, at);
    g->flip_h = h[0] - at[0] * h[6] < 0;
    g->flip_v = h[4] - at[1] * h[7] < 0;
    bzi_geometry_hull(h, all, g->crop);
}

/* Has the program make its tensors of a sample. On failure they are as without a value. */
static bzna_status bzi_item_make(const bzi_item *item, const bzna_sample_info *sample, const bzna_geometry *geometry,
                                 bzna_error *err)
{
    const bzi_setup *setup = item->setup;
    const bzna_loader_fields *fields = &setup->config.fields;
    bzna_bytes values[BZI_LIMIT_BYTES];
    void *out[BZI_LIMIT_MADE];
    const bzna_make_input input = {
        sizeof input, geometry ? setup->outputs[0].views : 0, sample, geometry, values, out
    };
    char otherwise[48];
    bzna_status said;

    for (uint32_t i = setup->tensor_count; i < setup->column_count; i++) {
        const bzi_slot_bytes *bytes = bzi_batch_bytes(item->batch, i, item->slot);
        values[i - setup->tensor_count] = (bzna_bytes){ bytes->present ? bytes->buffer.data : NULL,
                                                        bytes->present ? bytes->size : 0 };
    }
    for (uint32_t i = 0; i < fields->made_count; i++)
        out[i] = bzi_item_value(item, setup->made + i);

    bzi_error_init(err);
    bzi_os_callback_begin();
    said = fields->make(fields->make_user, &input, err);
    bzi_os_callback_end();
    if (said >= 0)
        return BZNA_OK;

    bzi_item_clear_fields(item, setup->made, setup->made + fields->made_count);
    snprintf(otherwise, sizeof otherwise, "fields.make returned %d", (int)said);
    return bzi_fail_said(err, said == BZNA_E_CALLBACK || bzi_is_of_sample(said) ? said : BZNA_E_FORMAT, said,
                         BZNA_NO_OFFSET, otherwise);
}

/* Writes the geometry and the program's tensors. pictures: NULL: batches have none. */
static bzna_status bzi_item_made(const bzi_item *item, const bzna_picture *pictures, bzi_views *views, bzna_error *err)
{
    static const bzna_picture none;
    const bzi_setup *setup = item->setup;
    const bzna_picture *picture = pictures ? &pictures[setup->outputs->picture] : &none;
    const uint32_t is_made = setup->config.fields.made_count, is_tensor = setup->config.fields.geometry;
    bzna_sample_info info;

    for (uint32_t i = 0; pictures && i < setup->outputs->views && (is_made || is_tensor); i++) {
        bzna_geometry *g = &views->geometry[i];

        bzi_geometry_make(g, item, picture, &views->transforms[i], i);
        if (is_tensor) {
            const double rest[7] = { g->width, g->height, g->crop[0], g->crop[1], g->crop[2], g->crop[3],
                                     g->flip_h + 2 * g->flip_v };
            float *to = (float *)(void *)bzi_item_value(item, setup->tensor_count - 1) + 16 * i;
            for (int k = 0; k < 16; k++)
                to[k] = (float)(k < 9 ? g->homography[k] : rest[k - 9]);
        }
    }
    if (!is_made)
        return BZNA_OK;
    info = bzi_item_info(item, setup->views, picture);
    return bzi_item_make(item, &info, pictures ? views->geometry : NULL, err);
}

/* transforms: NULL: no operations. */
static void bzi_item_put_operations(const bzi_item *item, const bzna_transform *transforms)
{
    const uint32_t views = item->setup->drawn_views;
    uint32_t *counts = item->batch->operation_counts + (uint64_t)item->slot * views;
    bzna_drawn *to = item->batch->operations + (uint64_t)item->slot * views * BZNA_OPERATIONS_MAX;

    memset(to, 0, views * BZNA_OPERATIONS_MAX * sizeof *to);
    for (uint32_t i = 0; i < views; i++, to += BZNA_OPERATIONS_MAX) {
        counts[i] = transforms ? transforms[i].operation_count : 0;
        if (counts[i])
            memcpy(to, transforms[i].operations, counts[i] * sizeof *to);
    }
}

/* Draws the transforms of a sample, unless they stay, and makes what depends on them. */
static bzna_status bzi_item_prepare(const bzi_item *item, const bzna_picture *pictures, bzi_views *views,
                                    bzna_error *err)
{
    if (!views->reused && bzi_item_draw(item, pictures, views, err) != BZNA_OK)
        return err->status;
    bzi_item_put_operations(item, views->transforms);
    return bzi_item_made(item, pictures, views, err);
}


/* ==== 71. Readers ===================================================================================================
 * Calls: rooms 2, 8-9, 57, 64-66.
 *
 * The thread for batches that are retiring, and memory for what is read. */

/* --- Retiring --- */

/* Waits until the consumer's GPU work no longer reads the batch. In the CUDA context. */
static bzna_status bzi_batch_drain_reads(const bzna_batch *batch, bzna_error *err)
{
    return batch->has_release ? bzi_device_wait(batch->setup->device, batch->released, NULL, 0, err) :
                                bzi_device_drain(batch->setup->device, batch->stream, err);
}

/* Waits until nothing reads the batch that was released first, and makes it free. Returns 0 if none may be waited for:
 * at close, that is left to bzi_loader_free. In the CUDA context. (L), but not during the wait. */
static int bzi_queues_retire(bzi_queues *queues)
{
    bzna_batch *batch;
    bzna_error err;
    bzna_status status;

    if (!bzi_can_retire(queues))
        return 0;
    batch = bzi_batches_take(&queues->retiring);
    bzi_queues_unlock(queues);
    status = bzi_batch_drain_reads(batch, &err);
    bzi_queues_lock(queues);
    if (status == BZNA_OK)
        bzi_batch_to_free(batch);
    else
        bzi_queues_break(queues, &err);                     /* GPU work may still read it: never write to it */
    return 1;
}

/* --- Memory for what is read --- */

/* Takes the memory of an empty or planned entry. Returns 0 if none has any. (L) */
static int bzi_queues_take_memory(bzi_queues *queues, bzi_buffer *bytes)
{
    for (uint32_t state = BZI_ENTRY_EMPTY; state <= BZI_ENTRY_PLANNED; state++)
        for (bzi_entry *entry = queues->entries[state].first; entry; entry = entry->next)
            if (entry->bytes.capacity) {
                *bytes = entry->bytes;
                entry->bytes = (bzi_buffer){ 0 };
                queues->entries[state].memory -= bytes->capacity;
                return 1;
            }
    return 0;
}

/* Gives an entry other memory, if that fits under the common ceiling, and no earlier entry waits for any. Frees its
 * own, then that of empty and planned entries. Returns BZNA_AGAIN if there is none now. Without the lock. */
static bzna_status bzi_reader_exchange(bzi_entry *entry, uint64_t want, bzna_error *err)
{
    bzi_queues *queues = entry->queues;
    const bzi_memory *memory = queues->setup->memory;
    bzi_buffer old = entry->bytes;
    int fits, more;

    entry->bytes = (bzi_buffer){ 0 };
    do {
        const uint64_t freed = old.capacity;
        const bzi_entry *first;

        bzi_buffer_free(memory, &old);
        bzi_queues_lock(queues);
        queues->held_bytes -= freed;
        first = bzi_queues_first_short(queues);
        more = !first || first->ticket >= entry->ticket;
        fits = more && queues->held_bytes + want <= queues->memory_bytes;
        more = more && !fits && bzi_queues_take_memory(queues, &old);
        queues->held_bytes += fits ? want : 0;
        bzi_queues_unlock(queues);
    } while (more);

    entry->wants = fits ? 0 : want;
    if (!fits)
        return BZNA_AGAIN;
    if ((entry->bytes.data = bzi_alloc(memory, want, 1, BZI_BATCH_ALIGN)) != NULL) {
        entry->bytes.capacity = want;
        return BZNA_OK;
    }
    bzi_queues_lock(queues);
    queues->held_bytes -= want;
    bzi_queues_unlock(queues);
    return bzi_fail_memory(err, "a sample's bytes");
}

/* Gives an entry room for so many bytes more. Returns BZNA_AGAIN if samples in its memory are to be worked on first, or
 * if memory is short: then `wants` says how much it waits for. */
static bzna_status bzi_reader_reserve(bzi_entry *entry, uint64_t bytes, bzna_error *err)
{
    const uint64_t ceiling = entry->queues->memory_bytes;
    const uint64_t all = bytes + (entry->count - 1) * entry->usual;
    const uint64_t need = entry->used ? bytes : bzi_max(bytes, bzi_min(all, ceiling));
    uint64_t want = 4096;

    if (need <= entry->bytes.capacity - entry->used)
        return BZNA_OK;
    if (bytes > ceiling)
        return BZI_FAIL(err, BZNA_E_LIMIT, "its %llu bytes are more than loader_config.read.memory_bytes, %llu",
                        (bzi_llu)bytes, (bzi_llu)ceiling);
    if (entry->used)
        return BZNA_AGAIN;
    while (want < need)
        want *= 2;
    return bzi_reader_exchange(entry, bzi_min(want, ceiling), err);
}


/* ==== 72. Readers: reading =========================================================================================
 * Calls: rooms 2, 4, 9, 11, 26, 41, 64-66, 68, 71.
 *
 * The work of readers on an entry: bytes, targets and fields of its samples, several of them in one read where they lie
 * side by side; retries; handing on. */

/* Returns room for the next sample in an entry's memory. Pre: there is enough. */
static uint8_t *bzi_entry_use(bzi_entry *entry, uint64_t bytes)
{
    uint8_t *at = entry->bytes.data + entry->used;
    const uint64_t lines = (entry->used + bytes + BZI_CACHE_LINE - 1) / BZI_CACHE_LINE;

    entry->used = bzi_min(entry->bytes.capacity, lines * BZI_CACHE_LINE);
    return at;
}

/* Prefetches what is read of the next sample, if there is one that lies in memory: all of it if its fields will be
 * copied, else its beginning, where most records have their target. */
static void bzi_reader_prefetch(const bzi_hand *hand, const bzi_item *next)
{
    const bzi_container *container = next ? next->container : NULL;
    const uint32_t columns = hand->queues->setup->column_count;
    bzi_extent extent;

    if (!container || next->is_padding || !(container->records_held || (columns && container->source.held)))
        return;
    bzi_item_locate(next, &extent);
    if (extent.data)
        bzi_prefetch(extent.data, columns ? extent.size : 1);
}

/* Finds, reads or fetches a sample's bytes. One of unknown size gets room for an average sample first, so that the
 * user's code is seldom asked twice. */
static bzna_status bzi_reader_bytes(bzi_hand *hand, bzi_item *item, bzi_reading *reading, bzna_error *err)
{
    const bzi_extent *extent = &reading->sample.extent;
    bzi_entry *entry = item->entry;
    uint64_t need = bzi_max(extent->size, 1), room;         /* an empty file's bytes have an address, too */
    bzna_status status = BZNA_OK;

    if (reading->fetched)
        need = bzi_min(bzi_max(entry->usual, 4096), hand->queues->memory_bytes);
    reading->sample.bytes = item->data = extent->data;
    while (!item->data) {
        if ((status = bzi_reader_reserve(entry, need, err)) != BZNA_OK)
            return status;
        room = entry->bytes.capacity - entry->used;
        if ((status = bzi_reading_get(reading, entry->bytes.data + entry->used, room, err)) != BZNA_OK)
            return status;
        need = extent->size;
        if (need <= room)
            item->data = bzi_entry_use(entry, need);
    }
    return BZNA_OK;
}

/* Reads the item's sample, unless its neighbors' read did, its target and its fields. Returns BZNA_AGAIN if memory is
 * short, BZNA_END for padding, which nobody decodes. */
static bzna_status bzi_reader_read(bzi_hand *hand, bzi_item *item, bzna_error *err)
{
    const bzi_container *container = item->container;
    bzi_reading reading = { .sample = { item->local, item->extent, item->data } };
    int64_t *target = &item->batch->targets[item->slot];
    bzna_status status = BZNA_OK;

    *target = item->is_padding ? item->setup->config.order.pad_target : BZNA_TARGET_NONE;
    if (item->is_padding)
        return BZNA_END;

    if (!container->target_inside)
        status = bzi_container_target(container, &reading.sample, target, err);
    if (status == BZNA_OK && !item->data &&
        (status = bzi_reading_begin(&reading, container, item->local, err)) == BZNA_OK)
        status = bzi_reader_bytes(hand, item, &reading, err);
    if (status == BZNA_OK && container->target_inside)
        status = bzi_container_target(container, &reading.sample, target, err);
    item->extent = reading.sample.extent;                   /* one that was fetched has its size only now */
    bzi_reading_end(&reading);
    return status == BZNA_OK ? bzi_item_fields(hand, item, &reading.sample, err) : status;
}

/* Returns 1 if reading is to be tried again, as often as the config allows; the entry's not_before says when. */
static int bzi_reader_retries(const bzna_loader_read *config, bzi_item *item)
{
    const uint32_t doublings = bzi_min32(item->retries, 61);
    const uint64_t most = (uint64_t)INT64_MAX / 2 >> doublings;             /* 146 years: no overflow in what follows */

    if (item->status != BZNA_E_IO || item->retries == config->retries)
        return 0;
    item->retries++;
    item->entry->not_before = bzi_max(item->entry->not_before,
                                      bzi_os_now_ns() + (bzi_min(config->backoff_ns, most) << doublings));
    return 1;
}

/* Locates the sample after those that are read together, from `first` on. Returns 1 if it follows them in the file, and
 * *bytes up to its end are at most BZI_RUN_BYTES. */
static int bzi_item_joins(const bzi_item *first, bzi_item *item, uint64_t *bytes)
{
    const bzi_extent *extent = &item->extent;
    const uint64_t begin = first->extent.offset;

    if (item->container != first->container || item->local != item[-1].local + 1 ||
        !bzi_item_locate(item, &item->extent) || extent->source != first->extent.source ||
        extent->offset < begin + *bytes || extent->size > BZI_RUN_BYTES ||
        extent->offset - begin > BZI_RUN_BYTES - extent->size)
        return 0;
    *bytes = extent->offset - begin + extent->size;
    return 1;
}

/* Reads neighbors in a file at once. If that fails, each is read by itself later, so that a bad one costs only its own
 * slot. So is each from the user's callbacks. */
static void bzi_reader_read_neighbors(bzi_entry *entry)
{
    bzi_item *item = bzi_entry_items(entry), *next = item + 1, *const end = item + entry->count;

    for (; next < end; item = next++) {
        uint64_t bytes;
        bzna_error ignored;

        if (next->local != item->local + 1 || !bzi_item_locate(item, &item->extent))
            continue;
        bytes = item->extent.size;
        while (next < end && bzi_item_joins(item, next, &bytes))
            next++;
        if (next > item + 1 && bzi_reader_reserve(entry, bytes, &ignored) == BZNA_OK &&
            bzi_source_read(item->extent.source, item->extent.offset, entry->bytes.data + entry->used, bytes,
                            &ignored) == BZNA_OK) {
            const uint8_t *data = bzi_entry_use(entry, bytes);
            for (const bzi_item *first = item; item < next; item++)
                item->data = data + (item->extent.offset - first->extent.offset);
        }
    }
}

/* Submits a sample to the engines, if they may be able to decode it. Returns 1 if the pool has it now. If no engine is
 * left and this build has no other decoder, the run ends, since the sample is not at fault. (L) */
static int bzi_reader_submit(bzi_item *item)
{
    const bzi_container *container = item->container;
    const bzi_span bytes = { item->data, item->status == BZNA_OK ? item->extent.size : 0 };
    const int may_wrap = container->codec == BZNA_CODEC_UNKNOWN && bzi_own_wraps(item->setup->host) &&
                         bzi_codec_declines(bytes);
    bzna_error err;

    if ((container->still && !item->setup->jpeg.supported && !may_wrap) || bzi_queues_interrupted(item->queues))
        return 0;
    if (bzi_pool_submit(item->setup->pool, item))
        return 1;
    if (bzi_item_lacks_decoder(item)) {
        BZI_FAIL(&err, BZNA_E_DEVICE, "no decode session is left, and this build has no other decoder for pictures");
        bzi_queues_break(item->queues, &err);
    }
    item->queues->stats.fallbacks += item->status == BZNA_OK;
    return 0;
}

/* Reads the unread samples of an entry, until memory is short. Returns how many failed and are to be tried again.
 * Without the lock. */
static uint32_t bzi_reader_read_entry(bzi_hand *hand, bzi_entry *entry)
{
    bzi_item *item, *end;
    uint32_t retried = 0, done = 0, is_short = 0;

    entry->not_before = entry->wants = entry->used = entry->size = 0;
    entry->frames = entry->passed_over = 0;
    if (entry->is_new) {
        bzi_entry_plan(entry);
        bzi_reader_read_neighbors(entry);
    }
    item = bzi_entry_items(entry);
    for (end = item + entry->count; item < end; item++) {
        if (item->stage != BZI_ITEM_UNREAD)
            continue;
        if (!is_short) {
            bzi_reader_prefetch(hand, item + 1 < end ? item + 1 : NULL);
            item->status = bzi_reader_read(hand, item, item->err);
            if (item->status != BZNA_OK)
                bzi_item_clear_fields(item, 0, item->setup->column_count);
            is_short = item->status == BZNA_AGAIN;
        }
        if (is_short || bzi_reader_retries(&item->setup->config.read, item)) {
            item->data = NULL;
            retried += !is_short;
            continue;
        }
        item->stage = BZI_ITEM_READ;
        entry->size += item->status == BZNA_OK ? item->extent.size : 0;
        done++;
    }
    entry->again = entry->left - done;
    entry->left = done;
    return retried;
}

/* Reads an entry and hands it on. (L), but not while it reads. */
static void bzi_reader_pass(bzi_hand *hand, bzi_entry *entry)
{
    bzi_queues *queues = hand->queues;
    bzna_stage_statistics *stage = &queues->stats.stage[BZNA_STAGE_READ];
    uint64_t took = bzi_os_now_ns();
    uint32_t retried;

    bzi_queues_unlock(queues);
    retried = bzi_reader_read_entry(hand, entry);
    took = bzi_os_now_ns() - took;
    bzi_queues_lock(queues);

    queues->stats.retries += retried;
    stage->busy_ns += took;
    stage->count += entry->left;
    stage->bytes += entry->size;
    if (!entry->left) {
        bzi_entry_leave(entry, 0);
        return;
    }

    queues->pace.read_ns = bzi_pace_mean(queues->pace.read_ns, took, entry->left);
    queues->pace.bytes = bzi_pace_mean(queues->pace.bytes, entry->size, entry->left);
    if (!queues->sessions || !bzi_reader_submit(bzi_entry_items(entry)))    /* with sessions, an entry has one slot */
        bzi_entry_move(entry, BZI_ENTRY_FULL);
}

/* ==== 73. Decode stages: lanes ======================================================================================
 * Calls: rooms 2, 4, 10, 40, 50-51, 57, 63-66, 70.
 *
 * This room ends samples, which were warped or have failed. Its lanes are streams that write slots on the device. */

/* --- Bookkeeping for a sample that was decoded or has failed --- */

static void bzi_stage_count(bzna_stage_statistics *stage, uint64_t ns, uint64_t bytes)
{
    stage->count += ns != 0;
    stage->busy_ns += ns;
    stage->bytes += ns ? bytes : 0;
}

/* Counts a sample, the time spent on it, and a failure by what was at fault. Keeps the first failure's message. (L) */
static void bzi_item_account(const bzi_item *item)
{
    const bzna_status status = item->result;
    bzna_statistics *stats = &item->queues->stats;

    if (item->is_padding)
        return;

    bzi_stage_count(&stats->stage[BZNA_STAGE_DECODE], item->decode_ns, item->extent.size);
    bzi_stage_count(&stats->stage[BZNA_STAGE_WARP], item->warp_ns, item->setup->slot_bytes);
    stats->samples++;
    stats->samples_shrinkable += item->shrinkable;
    if (status == BZNA_OK) {
        stats->samples_nvdec += item->by_nvdec;
        stats->samples_software += !item->by_nvdec && item->setup->slot_bytes;
        stats->samples_hybrid += !item->by_nvdec && item->shared;
        return;
    }

    if (!stats->samples_failed++) {
        stats->first_failed_status = status;
        stats->first_failed_index = item->index;
        bzi_string_copy(stats->first_failed_message, sizeof stats->first_failed_message, item->err->message);
    }
    if (status == BZNA_E_IO || status == BZNA_E_TRUNCATED || (item->status && status == BZNA_E_CALLBACK))
        stats->failed_read++;
    else if (status / 100 == -4)                            /* -4xx: pictures; -3xx: containers */
        stats->failed_decode++;
    else if (status / 100 == -3 || status == BZNA_E_NOT_FOUND)
        stats->failed_format++;
    else
        stats->failed_other++;
}

/* Returns 1 if memory, a thread or the device was lacking, which says nothing about a sample. */
static int bzi_status_is_of_machine(bzna_status status)
{
    return status == BZNA_E_MEMORY || status == BZNA_E_THREAD || status == BZNA_E_DEVICE;
}

/* Returns 1 if a failed sample is to be made once more, from the start, so with the same pixels. */
static int bzi_item_may_redo(const bzi_item *item) { return bzi_status_is_of_machine(item->result) && !item->again; }

/* Returns 1 if an item that failed ends the run. What the machine lacked does, since a filled slot would be taken for a
 * damaged sample. Otherwise the policy for errors decides, and for the user's callbacks also their own, unless the
 * container itself is the user's code. */
static int bzi_item_stops(const bzi_item *item)
{
    const bzna_loader_errors *errors = &item->setup->config.errors;
    const int of_container = item->status && item->container->ops->fetch;

    return bzi_status_is_of_machine(item->result) ||
           (item->result == BZNA_E_CALLBACK && !of_container &&
            errors->on_callback_error == BZNA_ON_CALLBACK_ERROR_STOP) ||
           (item->result != BZNA_OK && errors->on_error == BZNA_ON_ERROR_STOP);
}

/* Plans a failed item once more: with its sample, or the one at the position that a next slot would have. Returns 0 if
 * neither may be. (L) */
static int bzi_item_requeue(bzi_item *item)
{
    bzi_queues *queues = item->queues;

    if (bzi_queues_interrupted(queues))
        return 0;
    if (bzi_item_may_redo(item)) {
        item->again = 1;
        queues->stats.retries++;
    } else if (item->setup->config.errors.on_error == BZNA_ON_ERROR_REPLACE && !bzi_item_stops(item) &&
               item->replacements < BZI_LIMIT_REPLACEMENTS) {
        item->again = 0;
        item->replacements++;
        item->position = (item->position + item->batch->order.stride) % item->batch->order.length;
        queues->stats.replaced++;
    } else {
        return 0;
    }

    bzi_plan_sample(item);
    item->entry->again++;
    bzi_entry_leave(item->entry, 1);
    return 1;
}

/* Ends an item whose slot is written or enqueued, which may make its batch ready. (L) */
static void bzi_item_finish(bzi_item *item)
{
    bzna_batch *batch = item->batch;

    if (item->result == BZNA_OK)
        bzi_item_account(item);                             /* failures are counted at once */
    item->stage = BZI_ITEM_DONE;
    batch->status[item->slot] = item->result;
    if (item->slot < batch->stop_slot && bzi_item_stops(item))
        batch->stop_slot = item->slot;
    if (item->slot < batch->real) {
        batch->failed += item->result != BZNA_OK;
        batch->replaced += item->result == BZNA_OK && item->replacements;
    }
    if (!--batch->unfinished)
        batch->state = BZI_BATCH_READY;
    bzi_entry_leave(item->entry, 1);
}

/* --- Lanes --- */

static uint64_t bzi_lane_scratch_bytes(const bzi_setup *setup)
{
    return BZI_LANE_SUMS + BZI_KERNEL_SLOTS * setup->view_scratch;
}

static uint64_t bzi_lane_target(const bzi_item *item, const bzi_view *view)
{
    const bzna_batch *batch = item->batch;

    return item->setup->on_device ? (uint64_t)(uintptr_t)bzi_batch_slot(batch, view, item->slot) :
                                     batch->device_data + bzi_view_at(view, batch->slots, item->slot);
}

/* Enqueues warps and passes of a launch. The lane keeps an error until it is flushed. Its part of the loader's scratch
 * memory is BZI_LANE_SUMS bytes, where sums of luma begin with 0, then memory for each view. Launches share it, because
 * a stream runs them one after the other. */
static void bzi_lane_warp(bzi_lane *lane, const bzi_setup *setup, uint32_t number)
{
    const bzi_output *output = &setup->outputs[number / 2];
    const uint64_t sums = setup->scratch + lane->number * bzi_lane_scratch_bytes(setup);
    bzi_launch *launch = &lane->launches[number];
    bzi_kernel_output out = output->kernel, target;
    bzna_error *err = &lane->error;
    uint32_t summed = 0;

    if (launch->count && err->status == BZNA_OK) {
        for (uint32_t i = 0; i < launch->count; i++) {
            bzi_kernel_slot *slot = &launch->slots.slot[i];
            summed |= slot->flags & BZI_KERNEL_MEAN_LUMA;
            slot->sums = sums + i * 2 * sizeof(uint64_t);
            bzi_view_place(slot, &launch->passes[i], sums + BZI_LANE_SUMS + i * setup->view_scratch);
        }
        out.mean = output->device_mean;
        target = bzi_view_target(launch->passes, &out);
        if ((!summed || bzi_device_zero(lane->device, sums, BZI_LANE_SUMS, lane->stream, err) == BZNA_OK) &&
            bzi_device_warp(lane->device, &launch->slots, launch->count, &target, lane->stream, err) == BZNA_OK)
            bzi_device_operate(lane->device, launch->passes, launch->count, &out, lane->stream, err);
    }
    launch->count = 0;
}

static void bzi_lane_warp_all(bzi_lane *lane, const bzi_setup *setup)
{
    for (uint32_t i = 0; i < 2 * setup->output_count; i++)
        bzi_lane_warp(lane, setup, i);
}

/* Adds a view's slot and passes to its output's launch. Pre: the lane has the item, or a place for it. */
static void bzi_lane_put(bzi_lane *lane, const bzi_item *item, const bzi_view *view, const bzi_kernel_slot *slot,
                         const bzi_kernel_pass *pass)
{
    const uint32_t number = 2 * (uint32_t)(view->output - item->setup->outputs) + (pass->pixels != 0);
    bzi_launch *launch = &lane->launches[number];

    if (launch->count == BZI_KERNEL_SLOTS)
        bzi_lane_warp(lane, item->setup, number);
    launch->passes[launch->count] = *pass;
    launch->slots.slot[launch->count] = *slot;
    launch->slots.slot[launch->count++].dst = bzi_lane_target(item, view);
}

/* Adds an item, all of whose slots are in the lane. Pre: there is a place, and the others are of the same loader. */
static void bzi_lane_add(bzi_lane *lane, bzi_item *item)
{
    lane->items[lane->count++] = item;
    item->batch->touched[lane->number] = 1;
}

/* Launches what was gathered, and ends its items: enqueues a launch for each output, copies if batches go to the host,
 * and an event for each batch, which must neither become ready nor be thrown away without it. Pre: there are items. */
static void bzi_lane_flush(bzi_lane *lane)
{
    const bzi_setup *setup = lane->items[0]->setup;
    bzi_queues *queues = lane->items[0]->queues;
    bzna_error *err = &lane->error;
    uint64_t each = bzi_os_now_ns();

    bzi_lane_warp_all(lane, setup);
    for (uint32_t i = 0; i < lane->count && !setup->on_device; i++)
        for (const bzi_view *view = setup->views; view < setup->views + setup->view_count; view++)
            if (err->status == BZNA_OK)
                bzi_device_download(lane->device, bzi_batch_slot(lane->items[i]->batch, view, lane->items[i]->slot),
                                    bzi_lane_target(lane->items[i], view), view->output->picture_bytes, lane->stream,
                                    err);
    for (uint32_t i = 0; i < lane->count && err->status == BZNA_OK; i++) {
        const bzna_batch *batch = lane->items[i]->batch;
        if (i + 1 == lane->count || lane->items[i + 1]->batch != batch)
            bzi_device_record(lane->device, batch->written[lane->number], lane->stream, err);
    }
    /* after an error, no event tells when the work that was enqueued has ended, and its memory may be freed */
    if (err->status != BZNA_OK)
        bzi_device_stream_wait(lane->device, lane->stream);
    each = (bzi_os_now_ns() - each) / lane->count;

    bzi_queues_lock(queues);
    if (err->status != BZNA_OK)
        bzi_queues_break(queues, err);                      /* slots that were not written cannot be delivered */
    err->status = BZNA_OK;
    for (uint32_t i = 0; i < lane->count; i++) {
        lane->items[i]->warp_ns += each;
        bzi_item_finish(lane->items[i]);
    }
    lane->count = 0;
    bzi_queues_unlock(queues);
}

/* --- The end of a sample --- */

/* Ends an item by filling its slot: with the out-of-bounds color, so that nothing of its earlier contents remains, or
 * padding with its value. The kernel gets an empty picture, out of bounds everywhere. lane: as in bzi_item_complete. */
static void bzi_item_fill(bzi_item *item, bzi_lane *lane)
{
    static const bzi_kernel_pass none;
    const bzi_setup *setup = item->setup;
    bzi_queues *queues = item->queues;
    bzi_kernel_slot slot = { .x1 = -1, .y1 = -1, .depth = 8 };

    bzi_item_put_operations(item, NULL);

    for (uint32_t i = 0; i < setup->view_count; i++) {
        const bzi_view *view = &setup->views[i];

        bzi_slot_colors(&slot, &view->output->transform, view->output->shape.channels);
        if (item->is_padding) {
            for (int k = 0; k < 3; k++)
                slot.fill[k] = (float)setup->config.order.pad_value;
            slot.flags &= ~BZI_KERNEL_FILL_MEAN;
        }
        slot.dst = (uint64_t)(uintptr_t)bzi_batch_slot(item->batch, view, item->slot);
        if (lane)
            bzi_lane_put(lane, item, view, &slot, &none);
        else
            bzi_kernel_fill(&slot, &view->output->kernel);
    }

    if (lane) {
        bzi_lane_add(lane, item);
        return;
    }

    bzi_queues_lock(queues);
    bzi_item_finish(item);
    bzi_queues_unlock(queues);
}

/* Ends a failed sample, or padding: it is made once more, or its slot takes another one, or is filled. lane: NULL:
 * slots are on the host; else it has a place for the item. Without the lock. */
static void bzi_item_complete(bzi_item *item, bzi_lane *lane)
{
    bzi_queues *queues = item->queues;
    const int redo = bzi_item_may_redo(item);
    int requeued = 0;

    if (item->is_padding) {
        item->result = BZNA_OK;
        bzi_item_fill(item, lane);
        return;
    }

    bzi_container_fail(item->container, item->local, item->err);
    bzi_log(item->setup->host, BZNA_LOG_WARNING, item->err->status, "%s%s", redo ? "tried again: " : "",
            item->err->message);

    bzi_queues_lock(queues);
    if (!redo)
        bzi_item_account(item);
    if (item->result == BZNA_E_DEVICE_LOST)
        bzi_queues_break(queues, item->err);
    else
        requeued = bzi_item_requeue(item);
    bzi_queues_unlock(queues);
    if (!requeued)
        bzi_item_fill(item, lane);
}


/* ==== 74. Decode stages: workers ====================================================================================
 * Calls: rooms 2, 4, 7-9, 20-21, 26, 50-51, 53-54, 57, 63, 65, 69-70, 73.
 *
 * Workers are threads that decode in software and warp into slots, on the host or by a lane. */

/* Makes a worker's decoders, and on the device its stream, with that number in batches, and event. In the CUDA
 * context. */
static bzna_status bzi_worker_open(bzi_worker *worker, const bzi_setup *setup, bzi_queues *queues, uint32_t number,
                                   bzna_error *err)
{
    bzi_lane *lane = &worker->lane;

    worker->setup = setup;
    worker->queues = queues;
    if (setup->slot_bytes && bzi_software_open(&worker->software, setup->host, err) != BZNA_OK)
        return err->status;
    if (!setup->on_device)
        return BZNA_OK;

    lane->device = setup->device;
    lane->number = number;
    if (bzi_device_stream(lane->device, 1, &lane->stream, err) != BZNA_OK)
        return err->status;
    return bzi_device_event(lane->device, &worker->uploaded, err);
}

/* Frees what a worker has on the device, once its stream is idle. In the CUDA context. */
static void bzi_worker_free_lane(bzi_worker *worker)
{
    bzi_lane *lane = &worker->lane;

    if (!lane->device)                                      /* its thread has done so */
        return;
    bzi_device_stream_wait(lane->device, lane->stream);
    bzi_device_event_free(lane->device, worker->uploaded);
    bzi_device_free(lane->device, worker->upload, worker->upload_bytes, lane->stream);
    bzi_device_unpin(lane->device, worker->staging);
    bzi_device_stream_free(lane->device, lane->stream);
    lane->device = NULL;
}

static void bzi_worker_close(bzi_worker *worker, const bzi_memory *memory)
{
    bzi_software_close(&worker->software);
    bzi_buffer_free(memory, &worker->workspace);
    bzi_buffer_free(memory, &worker->scratch_pixels);
    bzi_buffer_free(memory, &worker->drawn);
    bzi_worker_free_lane(worker);
}

/* Copies a picture's planes to the device, whose addresses *picture gets. */
static bzna_status bzi_worker_upload(bzi_worker *worker, bzna_picture *picture, uint32_t shrink, bzna_error *err)
{
    bzi_device *device = worker->lane.device;
    void *stream = worker->lane.stream;
    bzi_plane planes[3];
    const uint32_t count = picture->plane[1] ? 3 : 1;
    const uint64_t total = bzi_picture_planes(picture, count, shrink, 1, 0, planes);

    if (bzi_device_wait(device, worker->uploaded, NULL, 1, err) != BZNA_OK)
        return err->status;

    if (total > worker->upload_bytes) {                     /* pinned memory and that on the device grow together */
        bzi_device_stream_wait(device, stream);
        bzi_device_unpin(device, worker->staging);
        bzi_device_free(device, worker->upload, worker->upload_bytes, stream);
        worker->upload = worker->upload_bytes = 0;
        if (bzi_device_pin(device, total, &worker->staging, err) != BZNA_OK ||
            bzi_device_alloc(device, total, stream, &worker->upload, err) != BZNA_OK)
            return err->status;
        worker->upload_bytes = total;
    }

    for (uint32_t i = 0; i < count; i++) {
        bzi_picture_copy_plane(picture, i, &planes[i], (uint8_t *)worker->staging + planes[i].offset);
        picture->plane[i] = (const void *)(uintptr_t)(worker->upload + planes[i].offset);
    }

    if (bzi_device_upload(device, worker->upload, worker->staging, total, stream, err) != BZNA_OK)
        return err->status;
    return bzi_device_record(device, worker->uploaded, stream, err);
}

/* Finds which part of a picture is to be decoded: what its views read, or all if its codec has no choice, or the user's
 * callback draws into it. A JPEG is shrunk meanwhile, if the config allows that. */
static bzna_status bzi_worker_want(bzi_worker *worker, bzi_item *item, uint32_t number, bzi_wanted *wanted,
                                   bzna_error *err)
{
    const bzi_setup *setup = worker->setup;
    const bzna_loader_decode *decode = &setup->config.decode;
    const bzi_codec *codec = bzi_codec_find(worker->images[number].coded.codec);
    uint32_t may = codec->id == BZNA_CODEC_JPEG ? 8 : 1;

    *wanted = bzi_picture_all(&worker->pictures[number]);
    if ((!codec->in_rows && !codec->in_parts) || setup->config.pipeline.picture)
        return BZNA_OK;
    if (bzi_item_slots(item, number, &worker->pictures[number], 1, &worker->views, err) != BZNA_OK)
        return err->status;

    for (uint32_t i = 0; i < setup->view_count && may > 1; i++)
        if (setup->views[i].output->picture == number)
            may = bzi_min32(may, bzi_slot_may_shrink(&worker->views.slots[i], decode->jpeg_shrink_margin));
    *wanted = (bzi_wanted){ { 0, 0 }, { 0, 0 }, decode->jpeg_shrink ? may : 1 };
    item->shrinkable |= may > wanted->shrink;

    for (uint32_t i = 0; i < setup->view_count; i++) {
        const bzi_kernel_output *to = &setup->views[i].output->kernel;
        bzi_kernel_slot *slot = &worker->views.slots[i];
        if (setup->views[i].output->picture != number)
            continue;
        bzi_slot_shrink(slot, wanted->shrink);
        bzi_rows_add(&wanted->rows, bzi_slot_rows(slot, to));
        if (codec->in_parts)
            bzi_rows_add(&wanted->columns, bzi_slot_columns(slot, to));
    }
    return BZNA_OK;
}

/* Warps all views of one picture. On the device a sample's views are launched together, but picture by picture if it
 * has several, because these are uploaded to the same memory. */
static bzna_status bzi_worker_warp(bzi_worker *worker, bzi_item *item, uint32_t number, uint32_t shrink,
                                   bzna_error *err)
{
    const bzi_setup *setup = worker->setup;
    bzna_picture *picture = &worker->pictures[number];

    if ((setup->on_device && bzi_worker_upload(worker, picture, shrink, err) != BZNA_OK) ||
        bzi_item_slots(item, number, picture, shrink, &worker->views, err) != BZNA_OK)
        return err->status;

    for (uint32_t i = 0; i < setup->view_count; i++) {
        const bzi_view *view = &setup->views[i];
        const bzi_kernel_output *out = &view->output->kernel;
        bzi_kernel_slot *slot = &worker->views.slots[i];
        const bzi_kernel_pass *pass = &worker->views.passes[i];
        bzi_kernel_output target;

        if (view->output->picture != number)
            continue;
        if (setup->on_device) {
            bzi_lane_put(&worker->lane, item, view, slot, pass);
            continue;
        }
        slot->dst = (uint64_t)(uintptr_t)bzi_batch_slot(item->batch, view, item->slot);
        if (!pass->end && bzi_kernel_warp_copy(slot, out))  /* takes no workspace */
            continue;
        target = bzi_view_target(pass, out);
        if (!bzi_buffer_reserve(setup->memory, &worker->workspace, bzi_kernel_warp_bytes(slot, &target), 0) ||
            (pass->pixels && !bzi_buffer_reserve(setup->memory, &worker->scratch_pixels, bzi_scratch_bytes(out), 0)))
            return bzi_fail_memory(err, "the warp's workspace");
        bzi_view_warp(slot, pass, out, worker->workspace.data, (size_t)worker->workspace.capacity,
                      worker->scratch_pixels.data);
    }

    if (setup->on_device && setup->pick_count > 1)
        bzi_lane_warp_all(&worker->lane, setup);
    return BZNA_OK;
}

/* Names a picture in its error; the first one has the sample's name. */
static bzna_status bzi_worker_blame(const bzi_worker *worker, uint32_t number, bzna_error *err)
{
    return number ? bzi_error_prefix(err, worker->setup->picks[number].name) : err->status;
}

/* Describes the sample's pictures from their headers, and draws its transforms, which decide what is decoded. goes_on:
 * 1: all is as for the sample before, but for bytes and what is random. */
static bzna_status bzi_worker_parse(bzi_worker *worker, bzi_item *item, int goes_on, bzna_error *err)
{
    worker->views.reused = goes_on && worker->views.constant;
    for (uint32_t i = 0; i < worker->setup->pick_count; i++) {
        bzna_image *coded = &worker->images[i].coded;

        if (goes_on) {
            coded->data = item->data + ((const uint8_t *)coded->data - worker->before_data);
            continue;
        }
        if ((item->status = bzi_item_image(item, i, &worker->images[i], err)) != BZNA_OK)
            return err->status;
        if (bzi_own_prepare(&worker->software.own, &worker->images[i], err) != BZNA_OK ||
            bzi_picture_describe(&worker->images[i], worker->setup->host->max_edge_px, &worker->formats[i],
                                 &worker->pictures[i], err) != BZNA_OK)
            return bzi_worker_blame(worker, i, err);
    }
    return bzi_item_prepare(item, worker->pictures, &worker->views, err);
}

/* Fails a JPEG that NVDEC should have decoded, but did not, for the reason in *err: software would give other pixels. A
 * driver may refuse one picture for what it is; one that has long refused all is itself at fault. */
static bzna_status bzi_worker_refuse_jpeg(const bzi_worker *worker, bzna_error *err)
{
    const bzna_error why = *err;
    bzi_pool *pool = worker->setup->pool;
    bzna_status status = why.status == BZNA_OK || why.status == BZNA_E_CODEC ? BZNA_E_DECODE : why.status;
    int alive;

    bzi_os_lock(&pool->mutex);
    alive = pool->live > 0;
    bzi_os_unlock(&pool->mutex);
    if (!alive)
        return BZI_FAIL(err, BZNA_E_DEVICE, "loader_config.decode.jpeg: not by NVDEC: no decode session is left");
    if (bzi_device_gave_up(worker->setup->device, BZNA_CODEC_JPEG))
        status = BZNA_E_DEVICE;
    return BZI_FAIL_BY(err, status, why.native_code, "loader_config.decode.jpeg: not by NVDEC: %s", why.message);
}

/* Lets the user's callback draw into a copy, because the planes may belong to a decoder or the data set. */
static bzna_status bzi_worker_draw(bzi_worker *worker, const bzi_item *item, uint32_t number, bzna_error *err)
{
    const bzna_loader_pipeline *pipeline = &worker->setup->config.pipeline;
    const bzi_view *view = worker->setup->views;
    bzna_random random = bzi_item_random(item, BZNA_RANDOM_PICTURE, number);
    bzna_picture *picture = &worker->pictures[number];
    bzna_sample_info info;
    bzi_plane planes[3];
    void *drawn[3] = { NULL, NULL, NULL };
    const uint32_t count = picture->plane[1] ? 3 : 1;
    const uint64_t total = bzi_picture_planes(picture, count, 1, 1, 0, planes);
    bzna_status status;

    if (!bzi_buffer_reserve(worker->setup->memory, &worker->drawn, total, 0))
        return bzi_fail_memory(err, "a copy of the picture");

    memset(worker->drawn.data, 0, (size_t)total);           /* the callback can see the padding after each row */
    for (uint32_t i = 0; i < count; i++) {
        drawn[i] = worker->drawn.data + planes[i].offset;
        bzi_picture_copy_plane(picture, i, &planes[i], drawn[i]);
        picture->plane[i] = drawn[i];
    }

    while (view->output->picture != number)
        view++;
    info = bzi_item_info(item, view, picture);

    bzi_os_callback_begin();
    status = pipeline->picture(pipeline->picture_user, &info, &random, picture, drawn);
    bzi_os_callback_end();
    if (status < 0)
        return BZI_FAIL_BY(err, BZNA_E_CALLBACK, status, "the picture callback returned %d",
                           (int)status);
    return BZNA_OK;
}


/* ==== 75. Decode stages: workers, samples =================================================================== *
 * The work of workers on samples, and on entries of them. */

/* Returns the time since the last call. */
static uint64_t bzi_worker_time(bzi_worker *worker)
{
    const uint64_t before = worker->clock;

    worker->clock = bzi_os_now_ns();
    return worker->clock - before;
}

/* Gives an item back to the engines. Returns 0 if the loader is interrupted, or no engine is left. Without the lock. */
static int bzi_worker_give_back(const bzi_worker *worker, const bzi_item *item)
{
    bzi_queues *queues = worker->queues;
    int given;

    bzi_queues_lock(queues);
    given = !bzi_queues_interrupted(queues) && bzi_pool_submit(queues->hybrid, item);
    bzi_queues_unlock(queues);
    return given;
}

/* Takes a sample from its bytes to its slots. Returns BZNA_AGAIN if it was given back to the engines. */
static bzna_status bzi_worker_sample(bzi_worker *worker, bzi_item *item, bzna_error *err)
{
    const bzi_setup *setup = worker->setup;
    /* 1: the sample differs from the one before in its bytes alone */
    const int goes_on = worker->before && item->container->alike == worker->before->alike;
    uint32_t codec;
    bzna_status status;

    if (!setup->slot_bytes)
        return bzi_item_made(item, NULL, &worker->views, err);     /* only fields were asked for */

    status = bzi_worker_parse(worker, item, goes_on, err);
    codec = worker->images[0].coded.codec;
    /* engines decode their picture unless software does so as they do: its kind has passed the self-check */
    if (status == BZNA_OK && item->shared &&
        (codec == BZNA_CODEC_JPEG || bzi_item_lacks_decoder(item) ||
         !bzi_device_has_passed(setup->device, codec, &worker->formats[0])) &&
        bzi_worker_give_back(worker, item)) {
        worker->before = NULL;
        return BZNA_AGAIN;
    }
    if (status == BZNA_OK && bzi_setup_is_nvdec_jpeg(setup, codec, &worker->formats[0]))
        status = bzi_worker_refuse_jpeg(worker, err);
    for (uint32_t i = 0; i < setup->pick_count && status == BZNA_OK; i++) {
        bzi_wanted wanted;
        if ((status = bzi_worker_want(worker, item, i, &wanted, err)) != BZNA_OK ||
            (status = bzi_software_decode(&worker->software, &worker->images[i].coded, &worker->formats[i], wanted,
                                          &worker->pictures[i], err)) != BZNA_OK ||
            (setup->config.pipeline.picture && (status = bzi_worker_draw(worker, item, i, err)) != BZNA_OK)) {
            bzi_worker_blame(worker, i, err);
            break;
        }
        if (!goes_on || setup->config.pipeline.picture)     /* else there was nothing to do */
            item->decode_ns += bzi_worker_time(worker);
        status = bzi_worker_warp(worker, item, i, wanted.shrink, err);
        item->warp_ns += bzi_worker_time(worker);
    }

    worker->before = status == BZNA_OK && item->container->alike ? item->container : NULL;
    worker->before_data = item->data;

    /* Another sample may take the slot: nothing of this one may be written there after that. */
    if (status != BZNA_OK && setup->on_device && setup->pick_count > 1)
        bzi_device_stream_wait(worker->lane.device, worker->lane.stream);
    return status;
}

/* Works on the samples of an entry. On the device they are launched one by one, because they are uploaded to the same
 * memory. On the host, those that succeed are finished together. After the last, another thread may have the entry. */
static void bzi_worker_make_entry(bzi_worker *worker, bzi_entry *entry)
{
    bzi_queues *queues = worker->queues;
    bzi_lane *lane = worker->setup->on_device ? &worker->lane : NULL;
    bzi_item *const items = bzi_entry_items(entry), *item = items;
    uint32_t made = 0;
    bzna_status status;

    bzi_worker_time(worker);
    for (uint32_t left = entry->left; left; left--, item++) {
        while (item->stage != BZI_ITEM_READ)
            item++;
        /* small samples may lie anywhere: waiting for memory would take longer than the work */
        if (left > 1 && item[1].stage == BZI_ITEM_READ && item[1].status == BZNA_OK && item->setup->slot_bytes)
            bzi_prefetch(item[1].data, item[1].extent.size);
        status = item->status == BZNA_OK ? bzi_worker_sample(worker, item, item->err) : item->status;
        if (status == BZNA_AGAIN)                           /* it was the entry's only one */
            return;
        item->result = status;
        if (status == BZNA_OK && lane)
            bzi_lane_add(lane, item);
        else if (status == BZNA_OK)
            made++;
        else if (!item->shared || item->status != BZNA_OK || bzi_status_is_of_machine(status) ||
                 status == BZNA_E_DEVICE_LOST || status == BZNA_E_CALLBACK || !bzi_worker_give_back(worker, item))
            bzi_item_complete(item, lane);                  /* else engines decide about it */
        if (lane && lane->count) {
            bzi_lane_flush(lane);
            bzi_worker_time(worker);
        }
    }
    if (!made)
        return;

    bzi_queues_lock(queues);
    for (item = items; made; item++)
        if (item->stage == BZI_ITEM_READ && item->result == BZNA_OK) {
            bzi_item_finish(item);
            made--;
        }
    bzi_queues_unlock(queues);
}

/* Works on an entry, and measures the pace. (L), but not while it works. */
static void bzi_worker_make(bzi_worker *worker, bzi_entry *entry)
{
    bzi_queues *queues = worker->queues;
    const uint32_t count = entry->left;
    uint64_t took = bzi_os_now_ns();

    bzi_queues_unlock(queues);
    bzi_worker_make_entry(worker, entry);
    took = bzi_os_now_ns() - took;
    bzi_queues_lock(queues);
    queues->pace.work_ns = bzi_pace_mean(queues->pace.work_ns, took, count);
}

/* Takes the first full entry, else one from the engines, or returns NULL. (L) */
static bzi_entry *bzi_worker_next(bzi_queues *queues)
{
    bzi_entry *entry = queues->entries[BZI_ENTRY_FULL].first;

    if (bzi_queues_interrupted(queues))
        return NULL;
    if (!entry && bzi_can_share(queues) && (entry = bzi_pool_share(queues->hybrid, queues, 1)) != NULL)
        bzi_entry_items(entry)->shared = 1;
    if (entry)
        bzi_entry_move(entry, BZI_ENTRY_TAKEN);
    return entry;
}

/* ==== 76. Decode stages: engines ====================================================================================
 * Calls: rooms 2, 4, 10, 56-58, 60, 64-66, 69-70, 73.
 *
 * The engines of the pool. Each is a thread with an NVDEC session.
 */

#define BZI_ENGINE_MAX_OOM_STREAK 4u  /* samples in a row without memory that end an engine */
#define BZI_POOL_MAX_PASSED       16u /* entries an engine looks past, and times that the first may be passed over */

#ifndef BENZINA_NO_CUDA

typedef struct bzi_engine {
    bzi_pool   *pool;
    bzi_thread  thread;
    uint32_t    oom_streak;           /* samples in a row without memory for a decoder */
    uint32_t    retired;              /* 1: this engine ends */
    bzi_session session;
    bzi_lane    lane;
    bzi_views   views;                /* of the sample at hand */
    bzi_own     own;                  /* own codecs, which may wrap what NVDEC decodes */
} bzi_engine;

/* Returns 1 if the engine has a decoder for an entry, no engine has looked at that yet, or the engine is retired. */
static int bzi_engine_suits(const bzi_engine *engine, const bzi_entry *entry)
{
    int suits = engine->retired || !entry->frames;

    for (uint32_t i = 0; i < BZI_NVDEC_CACHE_SLOTS; i++)
        suits |= engine->session.decoders.decoders[i].frames == entry->frames;
    return suits;
}

/* Takes the first entry from the queue, or a later one that suits the engine better. (P) */
static bzi_entry *bzi_pool_pop(bzi_pool *pool, const bzi_engine *engine)
{
    bzi_entry *const first = pool->queue.first;
    bzi_entry *entry = first;

    for (uint32_t i = 0; entry && !bzi_engine_suits(engine, entry); i++)
        entry = i < BZI_POOL_MAX_PASSED && first->passed_over < BZI_POOL_MAX_PASSED ? entry->next : NULL;

    entry = entry ? entry : first;
    if (!entry)
        return NULL;
    first->passed_over += entry != first;
    bzi_entries_remove(&pool->queue, entry);
    return entry;
}

/* Puts an entry back at the head of the queue for another engine. Returns 0 if the engine should keep it: it has a
 * decoder for it, may make one more or has only one, the queue is empty, or an engine has looked at it before. */
static int bzi_engine_return(bzi_engine *engine, bzi_entry *entry, const bzi_nvdec_format *want)
{
    const bzi_nvdec_cache *decoders = &engine->session.decoders;
    bzi_pool *pool = engine->pool;
    int is_new = !entry->frames, given;

    entry->frames = bzi_hash(BZI_HASH_START, want, sizeof *want);
    if (!is_new || bzi_nvdec_cache_live(decoders) < bzi_max32(decoders->max_live, 2) || bzi_engine_suits(engine, entry))
        return 0;

    bzi_os_lock(&pool->mutex);
    given = pool->queue.count > 0;
    if (given) {
        bzi_entries_add(&pool->queue, entry, NULL);
        bzi_os_wake_one(&pool->wake);
    }
    bzi_os_unlock(&pool->mutex);
    return given;
}

/* Returns the next entry's item, or NULL. An idle engine waits until the pool closes. A busy one does not, and leaves
 * the last entries to others, because a session uses only one of the GPU's decoder units at a time. */
static bzi_item *bzi_pool_take(bzi_engine *engine, int busy)
{
    bzi_pool *pool = engine->pool;
    bzi_entry *entry = NULL;

    bzi_os_lock(&pool->mutex);
    if (busy && pool->queue.count > pool->idle)
        entry = bzi_pool_pop(pool, engine);
    while (!busy && (entry = bzi_pool_pop(pool, engine)) == NULL && !pool->quit && !bzi_device_is_hung(pool->device)) {
        pool->idle++;
        bzi_os_wait(&pool->wake, &pool->mutex);
        pool->idle--;
    }
    bzi_os_unlock(&pool->mutex);
    return entry ? bzi_entry_items(entry) : NULL;
}

/* Launches what the lane has, and unmaps the surfaces that it reads. */
static void bzi_engine_flush(bzi_engine *engine)
{
    if (engine->lane.count)
        bzi_lane_flush(&engine->lane);
    bzi_session_unmap_all(&engine->session);
}

/* Makes room in the lane, which takes items of one loader, and for one more mapped surface. */
static void bzi_engine_make_room(bzi_engine *engine, const bzi_item *item)
{
    const bzi_lane *lane = &engine->lane;

    if ((lane->count && lane->items[0]->queues != item->queues) || lane->count == BZI_KERNEL_SLOTS ||
        engine->session.mapped_count == engine->pool->device->config.session_mapped)
        bzi_engine_flush(engine);
}

/* Ends a sample that failed. Pre: the slots of all mapped surfaces are in the lane. */
static void bzi_engine_fail(bzi_engine *engine, bzi_item *item)
{
    item->result = item->status == BZNA_OK ? item->err->status : item->status;
    item->decode_ns = 0;
    bzi_engine_make_room(engine, item);
    bzi_item_complete(item, &engine->lane);
}

/* Hands an item that this engine does not decode to the workers, or fails it with the engine's reason if they lack a
 * decoder. A fallback is counted, and a loader logs up to eight kinds of reasons, equal up to the first digit, once
 * each. It is none with a codec that NVDEC is never used for, nor if reading failed, which a worker reports. */
static void bzi_engine_refuse(bzi_engine *engine, bzi_item *item, uint32_t is_fallback)
{
    bzi_queues *queues = item->queues;
    const bzna_error reason = *item->err;
    const uint64_t hash = bzi_hash(BZI_HASH_START, reason.message, strcspn(reason.message, "0123456789"));
    uint32_t i = 0;
    int is_new;

    if (bzi_item_lacks_decoder(item)) {
        bzi_engine_fail(engine, item);
        return;
    }

    is_fallback = is_fallback && item->status == BZNA_OK;
    bzi_queues_lock(queues);
    while (i < 8 && queues->refusals[i] && queues->refusals[i] != hash)
        i++;
    is_new = is_fallback && i < 8 && !queues->refusals[i];
    if (is_new)
        queues->refusals[i] = hash;
    queues->stats.fallbacks += is_fallback;
    item->decode_ns = item->by_nvdec = item->shared = 0;
    bzi_entry_move(item->entry, BZI_ENTRY_FULL);
    bzi_queues_unlock(queues);

    /* The pool's host: the loader may be closed by now. */
    if (is_new)
        bzi_log(engine->pool->host, BZNA_LOG_WARNING, BZNA_OK, "decoding in software: %s", reason.message);
}

/* Ends a sample whose bytes NVDEC does not decode. With hybrid decoding software decides about it, unless it is a JPEG,
 * which NVDEC alone decodes. */
static void bzi_engine_reject(bzi_engine *engine, bzi_item *item, uint32_t codec)
{
    const bzna_status status = item->err->status;

    if (item->queues->hybrid && codec != BZNA_CODEC_JPEG && !bzi_status_is_of_machine(status) &&
        status != BZNA_E_DEVICE_LOST && !bzi_item_lacks_decoder(item))
        bzi_engine_refuse(engine, item, 0);
    else
        bzi_engine_fail(engine, item);
}

/* Waits for the oldest picture in flight, notes whether it is damaged, and adds its slots to the lane. A damaged one
 * that was sound before says that the data set has changed: no sample is taken for sound from then on. */
static void bzi_engine_map(bzi_engine *engine)
{
    bzi_session *session = &engine->session;
    bzi_item *item = session->pending[session->pending_first].tag;
    bzi_queues *queues = item->queues;
    bzna_error *err = item->err;
    uint64_t start = bzi_os_now_ns();
    atomic_uint *sounds = queues->sound ? &queues->sound[item->index / 32] : NULL;
    const uint32_t bit = 1u << item->index % 32;
    const uint32_t sound = sounds && !atomic_load_explicit(&queues->changes, memory_order_relaxed) &&
                           (atomic_load_explicit(sounds, memory_order_relaxed) & bit);
    bzi_flight flight;
    bzna_status status;

    bzi_engine_make_room(engine, item);
    session->pending[session->pending_first].is_sound = sound;
    status = bzi_session_map(session, &flight, err);
    item->decode_ns += bzi_os_now_ns() - start;
    if (status == BZNA_E_CODEC) {
        bzi_engine_refuse(engine, item, 1);
        return;
    }
    if (sound && status == BZNA_E_DECODE)
        atomic_store(&queues->changes, 1);
    else if (sounds && !sound && status == BZNA_OK && flight.is_sound)
        atomic_fetch_or_explicit(sounds, bit, memory_order_relaxed);

    if (status != BZNA_OK) {
        bzi_engine_reject(engine, item, flight.decoder->format.codec);
        return;
    }

    if (bzi_item_prepare(item, &flight.picture, &engine->views, err) != BZNA_OK ||
        bzi_item_slots(item, 0, &flight.picture, 1, &engine->views, err) != BZNA_OK) {
        bzi_engine_fail(engine, item);
        return;
    }
    for (uint32_t i = 0; i < item->setup->view_count; i++) {
        bzi_kernel_slot *slot = &engine->views.slots[i];
        slot->low_zeros = (int32_t)bzi_surface_low_zeros(flight.picture.depth);
        bzi_lane_put(&engine->lane, item, &item->setup->views[i], slot, &engine->views.passes[i]);
    }
    item->result = BZNA_OK;
    bzi_lane_add(&engine->lane, item);
}

/* Takes the oldest picture in flight. Launches if no more surfaces can be mapped, or none is in flight. */
static void bzi_engine_advance(bzi_engine *engine)
{
    bzi_session *session = &engine->session;

    if (session->pending_count)
        bzi_engine_map(engine);
    if (!session->pending_count || session->mapped_count == session->device->config.session_mapped)
        bzi_engine_flush(engine);
}

/* Returns 1 if pictures are in flight or wait for a launch. */
static int bzi_engine_busy(const bzi_engine *engine)
{
    return engine->session.pending_count || engine->session.mapped_count || engine->lane.count;
}

/* Ends this engine. The last one hands all queued entries to the loaders' workers. */
static void bzi_engine_retire(bzi_engine *engine, const bzna_error *why)
{
    bzi_pool *pool = engine->pool;
    bzi_item *item;
    uint32_t left;

    engine->retired = 1;
    atomic_fetch_add(&pool->device->sessions_lost, 1);

    bzi_os_lock(&pool->mutex);
    left = --pool->live;
    bzi_os_unlock(&pool->mutex);
    bzi_log(pool->host, BZNA_LOG_WARNING, why->status, "a decode session has ended, %u are left: %s", left,
            why->message);

    while (!left && (item = bzi_pool_take(engine, 1)) != NULL) {
        if (item->status == BZNA_OK)
            *item->err = *why;
        bzi_engine_refuse(engine, item, 1);
    }

    while (bzi_engine_busy(engine))
        bzi_engine_advance(engine);
}

#endif

/* ==== 77. Decode stages: engines, samples ===========================================================================
 * Calls: rooms 2, 4, 7-9, 21, 26, 56-61, 63, 65, 76.
 *
 * The thread of a session takes samples from the pool, and submits their pictures. Pools begin and end here. */

#ifndef BENZINA_NO_CUDA

/* Submits an item's picture once there is room, if the session decodes it. Returns BZNA_AGAIN if the item is back in
 * the queue, and no longer the caller's. */
static bzna_status bzi_engine_submit(bzi_engine *engine, bzi_item *item, const bzi_nvdec_picture *coded,
                                     bzna_error *err)
{
    bzi_session *session = &engine->session;
    const bzi_nvdec_format want = bzi_nvdec_format_of(coded);
    bzna_status status;

    if (coded->image->codec == BZNA_CODEC_JPEG &&
        !bzi_setup_is_nvdec_jpeg(item->setup, BZNA_CODEC_JPEG, &coded->sps)) {
        BZI_FAIL(err, BZNA_E_CODEC, "JPEG is decoded in software, not by NVDEC");
        return BZI_FOREIGN;
    }
    if ((status = bzi_session_accepts(session, coded, err)) != BZNA_OK)
        return status;
    while (bzi_check_is_due(session->device, &want) && bzi_engine_busy(engine))
        bzi_engine_advance(engine);
    if ((status = bzi_check_kind(session, &want, coded, err)) != BZNA_OK)
        return status;
    if (bzi_engine_return(engine, item->entry, &want))
        return BZNA_AGAIN;

    item->by_nvdec = 1;
    while ((status = bzi_session_submit(session, coded, item, err)) == BZNA_AGAIN)
        bzi_engine_advance(engine);
    return status;
}

/* Brings an item from the pool to the session, or to where its status sends it. */
static void bzi_engine_begin(bzi_engine *engine, bzi_item *item)
{
    const bzi_host *host = item->setup->host;
    bzna_error *err = item->err, why;
    uint64_t start = bzi_os_now_ns();
    bzi_image image;
    bzi_nvdec_picture coded;
    bzna_status status = item->status;

    if (status == BZNA_OK)
        status = item->status = bzi_item_image(item, 0, &image, err);
    if (status == BZNA_OK && bzi_own_may_wrap(host, image.coded.codec))
        status = bzi_own_prepare(&engine->own, &image, err);
    coded.image = &image.coded;
    if (status == BZNA_OK)                                  /* NVDEC has none of the program's own codecs */
        status = image.coded.codec >= BZNA_CODEC_OWN ? BZI_FOREIGN :
                 bzi_picture_describe(&image, host->max_edge_px, &coded.sps, &coded.picture, err);
    if (status != BZNA_OK && status != BZI_FOREIGN) {
        bzi_engine_fail(engine, item);
        return;
    }

    if (status == BZNA_OK && (status = bzi_engine_submit(engine, item, &coded, err)) == BZNA_OK)
        item->decode_ns += bzi_os_now_ns() - start;
    if (status == BZNA_OK || (status < 0 && status != BZNA_E_CODEC))
        engine->oom_streak = 0;

    why = *err;
    if (status == BZI_NO_ROOM || status == BZI_FOREIGN || status == BZNA_E_CODEC)
        bzi_engine_refuse(engine, item, status != BZI_FOREIGN);
    else if (status < 0)
        bzi_engine_reject(engine, item, image.coded.codec);
    /* the engine ends only if several samples in a row find no memory */
    if (status == BZI_NO_ROOM && ++engine->oom_streak == BZI_ENGINE_MAX_OOM_STREAK)
        bzi_engine_retire(engine, &why);
}

/* --- Running --- */

/* Decodes until the pool closes, the engine retires, or the device hangs. What is in flight then fails. */
static BZI_OS_THREAD bzi_engine_run(void *argument)
{
    bzi_engine *engine = argument;
    bzi_session *session = &engine->session;
    bzi_pool *pool = engine->pool;
    bzna_error err;
    int entered, opened;

    bzi_watch_self = &pool->watch[engine - pool->engines];
    entered = bzi_device_enter_thread(pool->device, &err) == BZNA_OK;
    opened = entered && bzi_session_open(session, pool->device, &pool->host->memory, &err) == BZNA_OK;
    engine->lane.stream = session->stream;
    if (!opened)
        bzi_engine_retire(engine, &err);

    while (!engine->retired && !bzi_device_is_hung(pool->device)) {
        const int busy = bzi_engine_busy(engine), full = session->pending_count == pool->device->config.session_depth;
        bzi_item *item = full ? NULL : bzi_pool_take(engine, busy);

        if (item)
            bzi_engine_begin(engine, item);
        else if (busy)
            bzi_engine_advance(engine);
        else
            break;                                          /* the pool closes */
    }
    while (bzi_engine_busy(engine))
        bzi_engine_advance(engine);

    if (entered) {
        bzi_device_stream_wait(pool->device, session->stream);
        bzi_session_close(session);
        bzi_device_leave(pool->device);
    }

    bzi_own_end(&engine->own);
    bzi_os_lock(&pool->mutex);
    pool->watches.gone++;
    bzi_os_wake_all(&pool->wake);
    bzi_os_unlock(&pool->mutex);
    return 0;
}

/* Ends the threads of a pool and frees it. Pre: no loader uses it. Returns 1 if a thread is in a call of the driver for
 * good, which may use pool and device, so both stay; else 0. */
static int bzi_pool_close(bzi_pool *pool)
{
    const bzi_memory memory = pool->host->memory;
    /* as in bzi_loader_forked */
    int foreign = bzi_device_is_foreign(pool->device);

    if (pool->has_locks && !foreign) {
        bzi_os_lock(&pool->mutex);
        pool->quit = 1;
        bzi_os_wake_all(&pool->wake);
        while (pool->watches.gone < pool->watches.count)
            if (bzi_os_wait_until(&pool->wake, &pool->mutex, bzi_os_now_ns() + BZI_LOOK_NS) &&
                bzi_watches_look(&pool->watches, pool->device, 1))
                bzi_os_wake_all(&pool->wake);
        bzi_os_unlock(&pool->mutex);
    }

    for (uint32_t i = 0; i < pool->watches.count && !foreign; i++)
        if (pool->watch[i].seen != BZI_WATCH_LEFT)
            bzi_os_thread_join(pool->engines[i].thread);
    if (pool->watches.left)
        return 1;
    if (pool->has_locks && !foreign)
        bzi_os_locks_free(&pool->mutex, &pool->wake, 1);

    bzi_release(&memory, pool->engines, pool->count, sizeof *pool->engines);
    bzi_release(&memory, pool, 1, sizeof *pool);
    return 0;
}

/* Makes the pool of a device, and starts its threads. watches.count is the number of those that were started: after a
 * failure, bzi_pool_close ends just these. */
static bzna_status bzi_pool_open(bzi_device *device, bzi_host *host, bzi_pool **out, bzna_error *err)
{
    const bzna_context_config *config = &device->config;
    const uint32_t each = bzi_default(config->sessions_per_engine,
                                      device->info.engines == 1 ? BZI_SESSIONS_ALONE : BZI_SESSIONS_EACH);
    bzi_pool *pool = bzi_alloc_zero(&host->memory, 1, sizeof *pool);
    int error = 0;

    if (!pool)
        return bzi_fail_memory(err, "decode sessions");

    pool->host = host;
    pool->device = device;
    pool->watches.all = pool->watch;
    pool->count = pool->live = bzi_default(config->sessions, bzi_min32(each * device->info.engines,
                                                                       BZI_LIMIT_SESSIONS));
    err->status = BZNA_OK;
    if (!(pool->engines = bzi_alloc_zero(&host->memory, pool->count, sizeof *pool->engines)))
        bzi_fail_memory(err, "decode sessions");
    else if (!(pool->has_locks = (uint32_t)bzi_os_locks_init(&pool->mutex, BZI_RANK_POOL, &pool->wake, 1)))
        BZI_FAIL(err, BZNA_E_THREAD, "cannot make a lock");

    while (err->status == BZNA_OK && pool->watches.count < pool->count) {
        bzi_engine *engine = &pool->engines[pool->watches.count];

        engine->pool = pool;
        engine->own.host = host;
        engine->lane.device = device;
        engine->lane.number = pool->watches.count;
        if ((error = bzi_os_thread_start(&engine->thread, bzi_engine_run, engine, -1)) != 0)
            BZI_FAIL_BY(err, BZNA_E_THREAD, error, "context_config.sessions: cannot start session %u of %u: %s",
                        pool->watches.count, pool->count, bzi_os_error(error));
        pool->watches.count += !error;
    }

    if (err->status != BZNA_OK) {
        bzi_pool_close(pool);
        return err->status;
    }
    *out = pool;
    return BZNA_OK;
}

#endif


/* ==== 78. Contexts ==================================================================================================
 * Calls: rooms 7-10, 26, 55-57, 77.
 *
 * A context has the host, the device and its pool. The first loader that needs the device or the pool makes it.
 *
 * LOCKS
 *   mark   lock                       guards                       held across                     taken while holding
 *   (C)    context->exclusive.mutex   who makes the device or its  never a call of the driver's    nothing
 *                                     pool, one thread at a time   or the user's */

struct bzna_context {
    bzi_host       *host;             /* a reference is held */
    atomic_int      references;       /* the owner's, and one for each loader */
    bzna_context_config config;       /* with defaults filled in */
    bzi_os_exclusive exclusive;       /* for who makes what follows; its mutex is (C) */
    bzi_device     *device;           /* NULL: not opened yet, or none; once set it stays */
    bzna_error      device_error;     /* status < 0: why there is no device */
    bzi_pool       *pool;             /* NULL: no loader has needed it yet; once set it stays */
};

static void bzi_context_retain(bzna_context *context) { atomic_fetch_add(&context->references, 1); }

/* The last reference closes pool and device, and frees the context. */
static void bzi_context_drop(bzna_context *context)
{
    bzi_host *host = context->host;

    if (atomic_fetch_sub(&context->references, 1) != 1)
        return;

    if ((!context->pool || !bzi_pool_close(context->pool)) && context->device)
        bzi_device_close(context->device);
    bzi_os_locks_free(&context->exclusive.mutex, &context->exclusive.over, 1);
    bzi_release(&host->memory, context, 1, sizeof *context);
    bzi_host_drop(host);
}

/* Makes a context, without a device. Pre: config is checked and complete. */
static bzna_status bzi_context_make(const bzna_context_config *config, bzna_context **out, bzna_error *err)
{
    bzi_host *host;
    bzna_context *context;

    if (bzi_host_open(config, &host, err) != BZNA_OK)
        return err->status;

    context = bzi_alloc_zero(&host->memory, 1, sizeof *context);
    if (!context || !bzi_os_locks_init(&context->exclusive.mutex, BZI_RANK_CONTEXT, &context->exclusive.over, 1)) {
        bzi_release(&host->memory, context, 1, sizeof *context);
        bzi_host_drop(host);
        return context ? BZI_FAIL(err, BZNA_E_THREAD, "cannot make a lock") : bzi_fail_memory(err, "a context");
    }

    context->host = host;
    atomic_init(&context->references, 1);
    context->config = *config;
    bzi_error_init(&context->device_error);
    if (bzi_own_open(host, &config->own_codecs, err) != BZNA_OK) {
        bzi_context_drop(context);
        return err->status;
    }
    *out = context;
    return BZNA_OK;
}

/* Gives the context's device. The first call opens it; if that fails, later calls return the same error, except for
 * lack of memory. */
static bzna_status bzi_context_gpu(bzna_context *context, bzi_device **out, bzna_error *err)
{
    bzi_device *device;
    int is_new;

    *out = NULL;
    if (context->config.device.kind == BZNA_DEVICE_CPU)
        return BZI_FAIL(err, BZNA_E_DEVICE, "context_config.device is BZNA_DEVICE_CPU");

    bzi_os_exclusive_begin(&context->exclusive, NULL);
    is_new = !context->device && context->device_error.status == BZNA_OK;
    if (is_new && bzi_device_open(context->host, &context->config, &context->device, &context->device_error) ==
                      BZNA_E_DEVICE_LOST)
        context->device_error.status = BZNA_E_DEVICE;       /* nothing is lost: there is just no device */
    device = context->device;
    if (!device)
        *err = context->device_error;
    if (context->device_error.status == BZNA_E_MEMORY)      /* not stored: there may be memory next time */
        bzi_error_init(&context->device_error);
    bzi_os_exclusive_end(&context->exclusive);

    if (!device && is_new && err->status != BZNA_E_MEMORY)
        bzi_log(context->host, BZNA_LOG_INFO, err->status, "no GPU: %s", err->message);
    if (!device)
        return err->status;

    if (bzi_device_is_foreign(device))
        return bzi_cuda_fail_forked(err);

    if (bzi_device_is_lost(device)) {
        /* if only the kernel's pixels were wrong, the CPU can take over */
        bzi_device_fail_lost(device, err);
        return err->status = bzi_device_is_wrong(device) ? BZNA_E_DEVICE : err->status;
    }

    *out = device;
    return BZNA_OK;
}

/* Gives the device's pool, made first if need be. Pre: bzi_context_gpu has returned the device. */
static bzna_status bzi_context_pool(bzna_context *context, bzi_pool **out, bzna_error *err)
{
    bzna_status status = BZNA_OK;

    bzi_os_exclusive_begin(&context->exclusive, NULL);
    if (!context->pool)
        status = bzi_pool_open(context->device, context->host, &context->pool, err);
    *out = context->pool;
    bzi_os_exclusive_end(&context->exclusive);
    return status;
}


/* ==== 79. Threads of a loader =======================================================================================
 * Calls: rooms 4, 26, 56, 64-66, 71-72, 74-75.
 *
 * What the threads of a loader do, one piece after the other. With pipeline.no_threads, the thread in bzna_loader_next
 * does that, one run after the other, and what is read ahead is less than a run. */

/* Does the next piece of work, or returns 0 if there is none before *when, as in bzi_can_read. What was read comes
 * before reading more, so that no sample that holds memory waits while memory is short. (L), but not while it works. */
static int bzi_hand_work(bzi_hand *hand, uint64_t *when)
{
    bzi_queues *queues = hand->queues;
    bzi_entry *entry;

    *when = UINT64_MAX;
    if (hand->role == BZI_ROLE_RETIRE)
        return bzi_queues_retire(queues);
    if (hand->worker && (entry = bzi_worker_next(queues)) != NULL) {
        hand->watch->holds = 1;
        bzi_worker_make(hand->worker, entry);
        hand->watch->holds = 0;
        return 1;
    }
    if ((hand->role == BZI_ROLE_READ ? !bzi_can_read_more(queues) : queues->reader_count) ||
        !bzi_can_read(queues, &entry, when))
        return 0;
    /* a planned entry comes before new slots, of which the plan may have none left */
    if (!entry)
        entry = bzi_plan_run(queues, queues->sessions ? 1 : bzi_queues_run_length(queues));
    if (!entry)
        return 0;
    bzi_entry_move(entry, BZI_ENTRY_READING);
    bzi_reader_pass(hand, entry);
    return 1;
}

/* Waits until there is perhaps something to do, and counts how long. One thread wakes by itself at `when`, when the
 * next planned entry can be read, if that is known. (L), but not during the wait. */
static void bzi_hand_sleep(const bzi_hand *hand, uint64_t when)
{
    bzi_queues *queues = hand->queues;
    const uint32_t role = hand->role;
    /* workers wait for samples, or for a batch to fill; with NVDEC, idle ones are normal */
    const int before = role == BZI_ROLE_WORK && (queues->open || queues->free_batches.first);
    const int is_first = when < queues->alarm;
    const uint64_t start = bzi_os_now_ns();
    uint64_t waited;

    queues->alarm = is_first ? when : queues->alarm;
    bzi_queues_sleep(queues, role, is_first ? when : UINT64_MAX);
    queues->alarm = is_first ? UINT64_MAX : queues->alarm;
    waited = bzi_os_now_ns() - start;
    if (role == BZI_ROLE_READ)
        queues->stats.stage[BZNA_STAGE_READ].wait_after_ns += waited;
    else if (role == BZI_ROLE_WORK && !queues->sessions)
        *(before ? &queues->stats.stage[BZNA_STAGE_DECODE].wait_before_ns :
                   &queues->stats.stage[BZNA_STAGE_DECODE].wait_after_ns) += waited;
}

/* A thread of a loader. One that cannot enter the CUDA context ends the loader. It frees what it has on the device in
 * that context, and counts itself as gone only then, because close waits for the count. */
static BZI_OS_THREAD bzi_hand_run(void *argument)
{
    bzi_hand *hand = argument;
    bzi_queues *queues = hand->queues;
    bzna_error err;
    int entered;

    bzi_watch_self = hand->watch;
    entered = bzi_device_enter_thread(hand->device, &err) == BZNA_OK;
    bzi_queues_lock(queues);
    if (!entered)
        bzi_queues_break(queues, &err);
    while (!queues->quit) {
        uint64_t when;
        if (!bzi_hand_work(hand, &when))
            bzi_hand_sleep(hand, when);
    }
    bzi_queues_unlock(queues);
    if (hand->worker)
        bzi_own_end(&hand->worker->software.own);
    if (hand->worker && entered)
        bzi_worker_free_lane(hand->worker);
    if (entered)
        bzi_device_leave(hand->device);
    bzi_queues_lock(queues);
    queues->watches.gone++;
    bzi_queues_unlock(queues);
    return 0;
}

/* Without threads, does the next piece of work that the batch to be delivered needs. Returns the time before which
 * there is none, or UINT64_MAX. queues.poison gets an error that ends the loader. (L), but not while it works. */
static uint64_t bzi_loader_work(bzna_loader *loader)
{
    bzi_device *device = loader->setup.device;
    uint64_t when = UINT64_MAX;
    bzna_error err = { .struct_size = sizeof err };

    if (bzi_device_enter(device, &err) != BZNA_OK) {
        bzi_queues_break(&loader->queues, &err);
        return when;
    }
    if (!bzi_hand_work(loader->hands, &when))
        bzi_queues_retire(&loader->queues);
    bzi_device_leave(device);
    return when;
}


/* ==== 80. Parts of a loader, closing ================================================================================
 * Calls: rooms 2, 4, 7-10, 42, 56-58, 64-68, 71, 74, 78-79.
 *
 * Makes a loader's batches, queues, order and threads, and frees them. */

/* --- Batches --- */

/* Returns 0 if there is no memory. */
static int bzi_batch_make_arrays(bzna_batch *batch)
{
    const bzi_setup *setup = batch->setup;
    const uint64_t slots = setup->config.output.batch_size, views = slots * setup->drawn_views;
    bzi_arena *arena = &batch->loader->setup.arena;

    if (!BZI_ARENA_ZERO(arena, batch->items, slots) ||
        !BZI_ARENA_ZERO(arena, batch->targets, slots) ||
        !BZI_ARENA_ZERO(arena, batch->indices, slots) ||
        !BZI_ARENA_ZERO(arena, batch->status, slots) ||
        !BZI_ARENA_ZERO(arena, batch->errors, slots) ||
        !BZI_ARENA_ZERO(arena, batch->operations, views * BZNA_OPERATIONS_MAX) ||
        !BZI_ARENA_ZERO(arena, batch->slices, setup->config.output.slices) ||
        !BZI_ARENA_ZERO(arena, batch->written, setup->lanes) ||
        !BZI_ARENA_ZERO(arena, batch->touched, setup->lanes) ||
        !BZI_ARENA_ZERO(arena, batch->operation_counts, views))
        return 0;
    for (uint32_t i = 0; i < setup->column_count; i++) {
        const uint64_t bytes = i < setup->tensor_count ? setup->tensors[BZI_TENSORS + i].one.bytes :
                                                           sizeof(bzi_slot_bytes);
        if (!(batch->columns[i] = bzi_arena_zero(arena, slots, bytes)))
            return 0;
    }
    for (uint32_t i = 0; i < slots; i++)
        batch->items[i] = (bzi_item){ .setup = setup, .queues = batch->queues, .batch = batch, .slot = i,
                                      .err = &batch->errors[i] };
    return 1;
}

/* Makes a batch's events, its memory on the device, and pinned memory if data goes to the host. In the CUDA context. */
static bzna_status bzi_batch_make_device(bzna_batch *batch, bzna_error *err)
{
    const bzi_setup *setup = batch->setup;
    bzi_device *device = setup->device;
    const int on_host = !setup->on_device, given = setup->config.output.buffers != NULL;

    if (((on_host || !given) &&
         bzi_device_alloc(device, setup->data_bytes, setup->stream, &batch->device_data, err) != BZNA_OK) ||
        (on_host && !given && bzi_device_pin(device, setup->data_bytes, &batch->block, err) != BZNA_OK) ||
        bzi_device_event(device, &batch->released, err) != BZNA_OK)
        return err->status;
    for (uint32_t i = 0; i < setup->lanes; i++)
        if (bzi_device_event(device, &batch->written[i], err) != BZNA_OK)
            return err->status;

    /* Work on the consumer's stream may still use the memory. */
    batch->has_release = bzi_device_record(device, batch->released, setup->stream, err) == BZNA_OK;
    return batch->has_release ? BZNA_OK : err->status;
}

/* Makes one batch. Its slices lie in the user's buffers, or side by side in the library's memory. In the CUDA context
 * of the device, if there is one. */
static bzna_status bzi_batch_make(bzna_batch *batch, uint32_t number, bzna_error *err)
{
    const bzi_setup *setup = batch->setup;
    const bzna_loader_output *output = &setup->config.output;
    const uint64_t slice_bytes = setup->slice_slots * setup->slot_bytes;
    const uint64_t first = (uint64_t)number * output->slices;
    const int has_block = !output->buffers && !setup->device;
    uint8_t *data;

    batch->stream = setup->stream;
    if (has_block)
        batch->block = bzi_alloc(setup->memory, setup->data_bytes, 1, BZI_BATCH_ALIGN);
    if ((has_block && !batch->block) || !bzi_batch_make_arrays(batch))
        return BZI_FAIL(err, BZNA_E_MEMORY,
                        "out of memory: batch %u needs %llu bytes (batch_size, width, height, batches_in_flight)",
                        number, (bzi_llu)setup->data_bytes);
    if (setup->device && bzi_batch_make_device(batch, err) != BZNA_OK)
        return bzi_error_prefix(err, "loader_config.output.batch_size, width, height, pipeline.batches_in_flight");

    data = setup->on_device ? (uint8_t *)(uintptr_t)batch->device_data : batch->block;
    for (uint32_t k = 0; k < output->slices; k++)
        batch->slices[k] = output->buffers ? output->buffers[first + k].data : data + k * slice_bytes;

    if (batch->has_release)
        bzi_batch_to_retiring(batch);                       /* no lock: there are no threads yet */
    else
        bzi_batch_to_free(batch);
    return BZNA_OK;
}

/* --- The loader's parts --- */

/* Makes entries, queues, and the arrays of batches, workers and threads. There are entries for all samples that are
 * read ahead, one for each reader and worker, and for each session one for each surface that it chooses from. */
static bzna_status bzi_loader_make_entries(bzna_loader *loader, bzna_error *err)
{
    bzi_setup *setup = &loader->setup;
    bzi_queues *queues = &loader->queues;
    const uint32_t workers = queues->worker_count, readers = queues->reader_count ? queues->reader_count : workers;
    const uint32_t batches = setup->config.pipeline.batches_in_flight;
    bzi_arena *arena = &setup->arena;

    loader->entry_count = queues->ahead_samples + workers + readers;
    if (setup->pool)
        loader->entry_count += setup->pool->count * bzi_nvdec_chosen(setup->device);

    if (!BZI_ARENA_ZERO(arena, loader->entries, loader->entry_count) ||
        !BZI_ARENA_ZERO(arena, loader->workers, workers) ||
        !BZI_ARENA_ZERO(arena, loader->hands, workers + readers + 1) ||
        !BZI_ARENA_ZERO(arena, queues->watches.all, workers + readers + 1) ||
        (setup->pool && setup->dataset->count <= BZI_LIMIT_SOUND &&
         !BZI_ARENA_ZERO(arena, queues->sound, setup->dataset->count / 32 + 1)) ||
        !BZI_ARENA_ZERO(arena, queues->batches, batches))
        return bzi_fail_memory(err, "a loader's queues");

    queues->batch_count = batches;
    for (uint32_t i = 0; i < queues->batch_count; i++)
        queues->batches[i] = (bzna_batch){ .loader = loader, .setup = setup, .queues = queues };
    for (uint32_t i = 0; i < loader->entry_count; i++) {
        loader->entries[i].queues = queues;
        bzi_entries_add(&queues->entries[BZI_ENTRY_EMPTY], &loader->entries[i], NULL);
    }
    return BZNA_OK;
}

/* Makes the order of samples, and the hash of it and of the data set, without which no saved state is restored. Pre:
 * the config is checked, and the user's arrays still exist. */
static bzna_status bzi_order_make(bzi_order *order, bzi_setup *setup, bzna_error *err)
{
    const bzna_loader_order *given = &setup->config.order;
    const uint64_t count = given->index_count;
    const uint32_t weighting = 0;                           /* the weights of 0.3, whose states are restored */

    order->shuffle = given->kind == BZNA_ORDER_SHUFFLE;
    order->length = count ? count : setup->dataset->count;
    setup->fingerprint = bzi_hash(bzi_dataset_fingerprint(setup->dataset), &weighting, sizeof weighting);
    if (!count)
        return BZNA_OK;
    if (!(order->indices = bzi_arena_copy(&setup->arena, given->indices, count, sizeof *given->indices)))
        return bzi_fail_memory(err, "loader_config.order.indices");
    setup->fingerprint = bzi_hash(setup->fingerprint, order->indices, (size_t)(count * sizeof *given->indices));
    return bzi_indices_repeat(setup, order->indices, count, &order->repeats, err);
}

/* Starts all threads, one after the other on the caller's processors, or without threads only prepares the work.
 * bzi_loader_end ends them, after an error, too. In the CUDA context, if batches lie on the device. */
static bzna_status bzi_loader_start_threads(bzna_loader *loader, bzna_error *err)
{
    static const char *const names[BZI_ROLES] = {
        [BZI_ROLE_READ] = "loader_config.read.threads: cannot start reader thread",
        [BZI_ROLE_WORK] = "loader_config.decode.threads: cannot start decoder thread",
        [BZI_ROLE_RETIRE] = "cannot start the thread that reclaims batches, thread"
    };
    const bzi_setup *setup = &loader->setup;
    const bzna_loader_pipeline *pipeline = &setup->config.pipeline;
    bzi_queues *queues = &loader->queues;
    const uint32_t workers = queues->worker_count, not_retiring = workers + queues->reader_count;
    const uint32_t count = not_retiring + (setup->device && !pipeline->no_threads);

    for (uint32_t i = 0; i < count; i++) {
        const int32_t cpu = pipeline->cpus ? pipeline->cpus[i % pipeline->cpu_count] : -1;
        bzi_hand *hand = &loader->hands[i];
        char place[48] = "";
        int error;

        *hand = (bzi_hand){ .queues = queues, .watch = &queues->watches.all[i] };
        hand->role = i < workers ? BZI_ROLE_WORK : i < not_retiring ? BZI_ROLE_READ : BZI_ROLE_RETIRE;
        hand->watch->patient = hand->role == BZI_ROLE_RETIRE;
        hand->device = hand->role == BZI_ROLE_RETIRE ? setup->device : NULL;
        if (hand->role == BZI_ROLE_WORK) {
            hand->worker = &loader->workers[i];
            if (bzi_worker_open(hand->worker, setup, queues, setup->lanes - workers + i, err) != BZNA_OK)
                return err->status;
            hand->device = hand->worker->lane.device;
        }
        if (pipeline->no_threads)
            continue;

        if ((error = bzi_os_thread_start(&hand->thread, bzi_hand_run, hand, cpu)) != 0) {
            if (cpu >= 0)
                snprintf(place, sizeof place, " on processor %d (pipeline.cpus)", cpu);
            return BZI_FAIL_BY(err, BZNA_E_THREAD, error, "%s %u of the loader%s: %s", names[hand->role], i, place,
                               bzi_os_error(error));
        }
        queues->watches.count++;
    }
    return BZNA_OK;
}

/* --- Closing --- */

/* Waits until no lane writes to the batch. In the CUDA context. */
static void bzi_batch_drain_writes(bzna_batch *batch)
{
    bzna_error ignored;

    for (uint32_t i = 0; batch->touched && i < batch->setup->lanes; i++)
        if (batch->touched[i]) {
            bzi_device_wait(batch->setup->device, batch->written[i], NULL, 1, &ignored);
            batch->touched[i] = 0;
        }
}

/* Frees what a batch has outside the arena. In the CUDA context, if there is one. */
static void bzi_batch_free(const bzna_batch *batch)
{
    const bzi_setup *setup = batch->setup;
    bzi_device *device = setup->device;

    for (uint32_t i = 0; batch->written && i < setup->lanes; i++)
        bzi_device_event_free(device, batch->written[i]);
    if (device) {
        bzi_device_event_free(device, batch->released);
        bzi_device_free(device, batch->device_data, setup->data_bytes, setup->stream);
        bzi_device_unpin(device, batch->block);
    } else {
        bzi_release(setup->memory, batch->block, setup->data_bytes, 1);
    }
    for (uint32_t i = setup->tensor_count; i < setup->column_count && batch->columns[i]; i++)
        for (uint32_t slot = 0; slot < setup->config.output.batch_size; slot++)
            bzi_buffer_free(setup->memory, &bzi_batch_bytes(batch, i, slot)->buffer);
}

/* Frees what batches on loan needed until now, after the device's work on them. All of it stays if something still uses
 * it: a thread that was left alone in a call of the driver, or work of the program's. After a lost device, the
 * library's own objects are freed nevertheless. Pre: bzi_loader_end. */
static void bzi_loader_free(bzna_loader *loader)
{
    bzi_setup *setup = &loader->setup;
    bzi_queues *queues = &loader->queues;
    bzi_device *device = setup->device;
    bzna_context *context = setup->context;
    int done = !queues->watches.left, entered;
    bzna_error err;

    BZI_FAIL(&err, BZNA_E_DEVICE, "%u of its threads are in calls of the driver that do not return",
             queues->watches.left);
    entered = done && bzi_device_enter(device, &err) == BZNA_OK;
    for (uint32_t i = 0; done && i < queues->batch_count; i++) {
        bzna_batch *batch = &queues->batches[i];

        bzi_batch_drain_writes(batch);
        done = batch->state != BZI_BATCH_RETIRING || bzi_batch_drain_reads(batch, &err) != BZNA_AGAIN;
        if (done)
            bzi_batch_free(batch);
    }
    if (done && device) {
        for (uint32_t i = 0; i < setup->output_count; i++)
            bzi_device_free(device, setup->outputs[i].device_mean, setup->outputs[i].mean_bytes, setup->stream);
        bzi_device_free(device, setup->scratch, setup->scratch_bytes, setup->stream);
        if (setup->owns_stream)
            bzi_device_stream_free(device, setup->stream);
    }
    if (entered)
        bzi_device_leave(device);
    if (!done) {
        bzi_log(setup->host, BZNA_LOG_WARNING, err.status, "a loader is closed, but its memory and its context stay "
                "until the process ends: %s", err.message);
        return;
    }

    bzi_arena_free(&setup->arena);
    if (queues->has_locks)
        bzi_os_locks_free(&queues->mutex, queues->wake, BZI_ROLES);
    bzi_release(setup->memory, loader, 1, sizeof *loader);
    bzi_context_drop(context);
}

/* Waits until no thread uses a loader, neither the library's nor one in next, and frees what only its threads use. A
 * thread that does not return from a call of the driver is left alone, with all that it may use. */
static void bzi_loader_end(bzna_loader *loader)
{
    bzi_setup *setup = &loader->setup;
    bzi_queues *queues = &loader->queues;
    const bzi_memory *memory = setup->memory;
    bzna_error ignored;
    int entered, done;

    if (queues->has_locks) {
        bzi_queues_lock(queues);
        queues->quit = 1;
        bzi_queues_settle(queues);
        bzi_queues_unlock(queues);
    }
    for (uint32_t i = 0; i < queues->watches.count; i++)
        if (queues->watches.all[i].seen != BZI_WATCH_LEFT)
            bzi_os_thread_join(loader->hands[i].thread);

    done = !queues->watches.left;
    entered = bzi_device_enter(setup->device, &ignored) == BZNA_OK;
    for (uint32_t i = 0; done && loader->workers && i < queues->worker_count; i++)
        bzi_worker_close(&loader->workers[i], memory);
    if (entered)
        bzi_device_leave(setup->device);
    for (uint32_t i = 0; done && loader->entries && i < loader->entry_count; i++)
        bzi_buffer_free(memory, &loader->entries[i].bytes);
    bzi_sequence_free_all(memory, queues->plan.lists);
    bzi_dataset_drop(setup->dataset);
}

static uint64_t bzi_loader_end_epoch(const bzna_loader_config *config, uint64_t first)
{
    return config->order.epochs > UINT64_MAX - first ? UINT64_MAX : first + config->order.epochs;
}

/* The last reference frees the loader. Without the lock. */
static void bzi_loader_unref(bzna_loader *loader)
{
    if (atomic_fetch_sub(&loader->references, 1) == 1)
        bzi_loader_free(loader);
}


/* ==== 81. Delivering ================================================================================================
 * Calls: rooms 2, 4, 9-10, 56-57, 63-66, 79-80.
 *
 * The consumer's calls: delivering and releasing batches, tensors, resets, states. */

/* Returns BZNA_OK with the next batch, BZNA_END, an error, or BZNA_AGAIN if it is to come. (L) */
static bzna_status bzi_loader_look(bzi_queues *queues, bzna_batch **out, bzna_error *err)
{
    const bzi_plan *plan = &queues->plan;
    bzna_batch *head = queues->pending.first;

    switch (bzi_can_deliver(queues)) {
    case BZI_NEXT_NOTHING:
        return BZNA_AGAIN;
    case BZI_NEXT_STOP:
        return BZI_FAIL(err, BZNA_E_STOPPED, "the loader was stopped");
    case BZI_NEXT_BATCH:
        *out = head;
        if (head->stop_slot == UINT32_MAX)
            return BZNA_OK;
        *out = NULL;                                        /* the first sample that ends the run */
        head->errors[head->stop_slot].status = head->status[head->stop_slot];
        bzi_queues_break(queues, &head->errors[head->stop_slot]);
        /* fall through */
    case BZI_NEXT_ERROR:
        *err = queues->poison;
        return err->status;
    case BZI_NEXT_END:
        return plan->epoch >= plan->end_epoch ? BZNA_END :
               BZI_FAIL(err, BZNA_E_STATE, "the list of epoch %llu was not given: call bzna_loader_set_batches "
                        "first", (bzi_llu)plan->epoch);
    default:
        return BZI_FAIL(err, BZNA_E_STATE, "all %u batches are on loan: release one first, or raise batches_in_flight",
                        queues->batch_count);
    }
}

/* Waits for the next batch, or makes it, without threads: one piece of it if timeout_ns is 0, which does not wait.
 * Below 0 there is no limit. Returns what bzi_loader_look does; BZNA_AGAIN: after the timeout. (L) */
static bzna_status bzi_loader_wait(bzna_loader *loader, int64_t timeout_ns, bzna_batch **out, bzna_error *err)
{
    bzi_queues *queues = &loader->queues;
    const uint64_t deadline = timeout_ns < 0 ? UINT64_MAX : bzi_os_now_ns() + (uint64_t)timeout_ns;
    const int no_threads = loader->setup.config.pipeline.no_threads != 0;
    int expired = timeout_ns == 0 && !no_threads;

    for (;;) {
        bzna_status status;

        bzi_queues_look(queues);
        status = bzi_loader_look(queues, out, err);
        if (status != BZNA_AGAIN || expired)
            return status;
        if (no_threads && !queues->paused) {
            const uint64_t when = bzi_loader_work(loader);
            if (when < UINT64_MAX && timeout_ns)
                bzi_queues_sleep(queues, BZI_ROLE_DONE, bzi_min(deadline, when));
            expired = bzi_os_now_ns() >= deadline;
        } else {                                            /* then look once more */
            expired = timeout_ns == 0 || bzi_queues_sleep_for(queues, BZI_ROLE_DONE, deadline);
        }
    }
}

/* Makes the consumer's stream, or the host for a batch on it, wait for the lanes that wrote to the batch. */
static bzna_status bzi_batch_wait_written(bzna_batch *batch, bzna_error *err)
{
    const bzi_setup *setup = batch->setup;
    bzi_device *device = setup->device;
    bzna_status status = bzi_device_enter(device, err);

    if (status != BZNA_OK)
        return status;

    batch->stream = setup->stream;
    for (uint32_t i = 0; i < setup->lanes && status == BZNA_OK; i++) {
        if (!batch->touched[i])
            continue;
        status = setup->on_device ? bzi_device_order(device, batch->stream, batch->written[i], err) :
                                     bzi_device_wait(device, batch->written[i], NULL, 1, err);
        batch->touched[i] = status != BZNA_OK;
    }

    if (status != BZNA_OK)                                  /* it is not delivered, and may be written again */
        bzi_batch_drain_writes(batch);
    bzi_device_leave(device);
    return status;
}

/* The last reference ends the loan. Without the lock. */
static void bzi_batch_unref(bzna_batch *batch)
{
    bzi_queues *queues = batch->queues;
    bzi_device *device = batch->setup->on_device ? batch->setup->device : NULL;
    bzna_status status = BZNA_OK;
    bzna_error err;
    uint32_t left;

    bzi_queues_lock(queues);
    left = --batch->references;
    bzi_queues_unlock(queues);
    if (left)
        return;

    /* The event comes after all work that the consumer has enqueued. Without it, the host waits for that. No lock:
     * nobody else has the batch. */
    if (device && (status = bzi_device_enter(device, &err)) == BZNA_OK) {
        batch->has_release = bzi_device_record(device, batch->released, batch->stream, &err) == BZNA_OK;
        if (!batch->has_release)
            status = bzi_device_drain(device, batch->stream, &err);
        bzi_device_leave(device);
    }
    bzi_queues_lock(queues);
    if (status != BZNA_OK)
        bzi_queues_break(queues, &err);                     /* GPU work may still read it: never write to it */
    if (batch->has_release || status != BZNA_OK)
        bzi_batch_to_retiring(batch);
    else
        bzi_batch_to_free(batch);
    bzi_queues_unlock(queues);
    bzi_loader_unref(batch->loader);
}

/* Takes back a batch that the device did not finish, and ends the loader. Returns the error that every later call
 * returns: this one, or that which ended the loader before. Without the lock. */
static bzna_status bzi_loader_take_back(bzna_batch *batch, bzna_error *err)
{
    bzi_queues *queues = batch->queues;

    bzi_queues_lock(queues);
    bzi_queues_break(queues, err);
    *err = queues->poison;
    batch->owned = 0;
    bzi_queues_unlock(queues);
    bzi_batch_unref(batch);
    return err->status;
}

/* Delivers the next batch. The batch is on loan before the lock is free, so no reset takes it away. The wait for the
 * GPU is without the lock, which would stop all threads. */
static bzna_status bzi_loader_next(bzna_loader *loader, int64_t timeout_ns, bzna_batch **out, bzna_error *err)
{
    bzi_queues *queues = &loader->queues;
    bzna_stage_statistics *stage = &queues->stats.stage[BZNA_STAGE_DELIVER];
    uint64_t start = bzi_os_now_ns();
    bzna_batch *batch = NULL;
    bzna_status status;

    bzi_queues_lock(queues);
    if (queues->waiting) {
        bzi_queues_unlock(queues);
        return BZI_FAIL(err, BZNA_E_STATE, "another thread is waiting in bzna_loader_next");
    }

    queues->waiting = 1;
    status = bzi_loader_wait(loader, timeout_ns, &batch, err);
    queues->waiting = 0;

    if (batch) {
        bzi_batch_to_loan(bzi_batches_take(&queues->pending));
        stage->count++;
        stage->bytes += batch->slots * loader->setup.slot_bytes;
    }

    stage->wait_before_ns += bzi_os_now_ns() - start;
    bzi_queues_unlock(queues);
    if (batch && loader->setup.device && bzi_batch_wait_written(batch, err) != BZNA_OK)
        return bzi_loader_take_back(batch, err);

    if (batch && batch->real && batch->failed == batch->real)
        bzi_log(batch->setup->host, BZNA_LOG_ERROR, batch->status[0],
                "all %u samples of batch %llu of epoch %llu failed", batch->real, (bzi_llu)batch->number,
                (bzi_llu)batch->epoch);
    *out = batch;
    return status;
}

/* Returns 1 if a batch is on loan, and its owner has not released it. (L) */
static int bzi_batch_is_owned(const bzna_batch *batch) { return batch->state == BZI_BATCH_ON_LOAN && batch->owned; }

/* Drops a DLPack tensor's reference, but not in a forked child: the batch is the parent's. */
static void bzi_batch_delete_tensor(bzna_batch *batch)
{
    if (!bzi_loader_forked(batch->loader))
        bzi_batch_unref(batch);
}

static void bzi_batch_delete_managed(bzi_dl_managed *tensor) { bzi_batch_delete_tensor(tensor->manager); }
static void bzi_batch_delete_versioned(bzi_dl_versioned *tensor) { bzi_batch_delete_tensor(tensor->manager); }

static void bzi_batch_describe_export(bzna_batch *batch, uint32_t number)
{
    bzi_export *export = &batch->exports[number];
    bzi_dl_tensor *to = &export->managed.tensor;
    bzna_tensor from;

    bzi_batch_tensor(batch, number, &from);
    memset(export, 0, sizeof *export);
    memcpy(export->shape, from.shape, sizeof export->shape);
    *to = (bzi_dl_tensor){
        .data = batch->slots ? from.data : NULL,            /* DLPack wants NULL for empty tensors */
        .device_type = from.device.kind,
        .device_id = from.device.ordinal,
        .dimensions = (int32_t)from.dimensions,
        .code = bzi_dtypes[from.dtype].code,
        .bits = (uint8_t)(8 * bzi_dtypes[from.dtype].bytes),
        .lanes = 1,
        .shape = export->shape,
        .strides = export->strides,
    };
    to->strides[from.dimensions - 1] = 1;
    for (uint32_t i = from.dimensions - 1; i > 0; i--)
        to->strides[i - 1] = to->strides[i] * to->shape[i];

    export->managed.manager = export->versioned.manager = batch;
    export->managed.deleter = bzi_batch_delete_managed;
    export->versioned.deleter = bzi_batch_delete_versioned;
    export->versioned.major = 1;
    export->versioned.tensor = *to;
}

/* Exports a tensor to DLPack. All exports of it get the same struct, and each has a reference to the batch. The first
 * export describes all tensors, which are only read until the last one is deleted. */
static bzna_status bzi_batch_export(bzna_batch *batch, uint32_t number, uint32_t version, void **out, bzna_error *err)
{
    const bzi_setup *setup = batch->setup;
    bzi_export *export = &batch->exports[number];
    bzna_status status = BZNA_OK;

    bzi_queues_lock(batch->queues);
    if (!bzi_batch_is_owned(batch))
        status = BZI_FAIL(err, BZNA_E_STATE, "bzna_batch_to_dlpack: the batch is not on loan");
    else if (setup->on_device && (uintptr_t)batch->stream == BZNA_STREAM_PER_THREAD)
        status = BZI_FAIL(err, BZNA_E_STATE, "bzna_batch_to_dlpack: the batch is on BZNA_STREAM_PER_THREAD, and a "
                          "deleter on another thread would record its release on another stream");
    else if (batch->references++ == batch->owned)           /* no other tensor is out */
        for (uint32_t i = bzi_setup_first_tensor(setup); i < setup->tensor_end; i++)
            bzi_batch_describe_export(batch, i);
    bzi_queues_unlock(batch->queues);

    if (status == BZNA_OK)
        *out = version == BZNA_DLPACK_1 ? (void *)&export->versioned : (void *)&export->managed;
    return status;
}


/* ==== 82. Positions ==================================================================================================
 * Calls: rooms 2, 9, 56, 64-67, 80.
 *
 * Stopping, resetting, saving and restoring a loader. */

/* Moves to a place: waits for the samples at hand, throws away lists and what is planned, and plans from there. Fails
 * while a thread is in bzna_loader_next. Without the lock. */
static bzna_status bzi_loader_seek(bzna_loader *loader, const uint64_t *seed, const bzi_place *place,
                                   uint64_t end_epoch, bzna_error *err)
{
    bzi_queues *queues = &loader->queues;
    bzi_device *device = loader->setup.device;
    bzi_sequence *lists;
    bzna_error ignored;

    bzi_queues_lock(queues);
    if (queues->waiting) {
        bzi_queues_unlock(queues);
        return BZI_FAIL(err, BZNA_E_STATE, "a thread is waiting in bzna_loader_next: stop the loader first");
    }

    queues->paused++;
    bzi_queues_settle(queues);
    queues->clearing = 1;                                   /* nobody else uses batches that are pending */
    bzi_queues_unlock(queues);
    if (bzi_device_enter(device, &ignored) == BZNA_OK) {
        for (bzna_batch *batch = queues->pending.first; batch; batch = batch->next)
            bzi_batch_drain_writes(batch);
        bzi_device_leave(device);
    }
    bzi_queues_lock(queues);
    queues->clearing = 0;

    for (uint32_t state = BZI_ENTRY_PLANNED; state <= BZI_ENTRY_FULL; state++)
        while (queues->entries[state].first)
            bzi_entry_move(queues->entries[state].first, BZI_ENTRY_EMPTY);
    while (queues->pending.first)
        bzi_batch_to_free(bzi_batches_take(&queues->pending));
    queues->open = NULL;
    memset(&queues->poison, 0, sizeof queues->poison);
    lists = bzi_plan_from(&queues->plan, seed, place, end_epoch);
    queues->paused--;
    queues->stopped = 0;
    bzi_queues_unlock(queues);
    bzi_sequence_free_all(loader->setup.memory, lists);
    return BZNA_OK;
}

/* Returns a hash of a state's other members. */
static uint32_t bzi_loader_state_check(const bzna_loader_state *state)
{
    uint64_t hash = bzi_hash(BZI_HASH_START, state, offsetof(bzna_loader_state, check));

    hash = bzi_hash(hash, &state->pixels, sizeof *state - offsetof(bzna_loader_state, pixels));
    return (uint32_t)(hash ^ hash >> 32);
}

/* Continues a hash with a number or an array. */
#define BZI_HASH_MORE(hash, value) bzi_hash(hash, &(value), sizeof(value))

/* Continues a hash with the numbers of a warp. The area of a CENTER_RESIZED_CROP stands for its scale. */
static uint64_t bzi_warp_hash(const bzna_warp *w, uint64_t hash)
{
    const uint32_t is_center = w->kind == BZNA_WARP_CENTER_RESIZED_CROP, is_mxnet = w->kind == BZNA_WARP_MXNET;
    const uint32_t flags[] = { w->crops, w->resize, w->keep_ratio, w->random_crop };
    const double edge = is_center ? w->scale[0] : 1;
    const double scale[] = { is_center ? edge : 0, edge * w->scale[0], edge * w->scale[1] };
    const bzna_mxnet *m = &w->mxnet;

    hash = BZI_HASH_MORE(hash, flags);
    hash = BZI_HASH_MORE(hash, scale);
    hash = bzi_hash(hash, w->ratio, offsetof(bzna_warp, resize) - offsetof(bzna_warp, ratio));
    hash = BZI_HASH_MORE(hash, m->shear_ratio);
    hash = BZI_HASH_MORE(hash, is_mxnet);
    hash = bzi_hash(hash, m->canvas_px, offsetof(bzna_mxnet, hls) - offsetof(bzna_mxnet, canvas_px));
    if (!bzi_is_zero(m->hls, sizeof *m - offsetof(bzna_mxnet, hls)))
        hash = bzi_hash(hash, m->hls, sizeof *m - offsetof(bzna_mxnet, hls));
    return hash;
}

/* Continues a hash with all that determines an output's pixels, so without dtype and layout, which only say how they
 * are stored. What 0.3 did not have is hashed only if it is set, so that states of 0.3 are restored. */
static uint64_t bzi_output_pixels(const bzi_setup *setup, const bzi_output *output, uint64_t hash)
{
    const bzna_transform *t = &output->transform;
    const bzna_loader_decode *decode = &setup->config.decode;
    const bzi_pick *pick = &setup->picks[output->picture];
    const uint32_t numbers[] = { output->shape.width, output->shape.height, t->filter,   t->antialias, t->matrix,
                                 t->fill_space,       pick->whole | pick->palette << 1,
                                 (setup->config.pipeline.transform != NULL) |
                                     (uint32_t)(setup->config.pipeline.picture != NULL) << 1 };

    hash = BZI_HASH_MORE(hash, numbers);
    hash = bzi_warp_hash(&output->warp, hash);
    hash = BZI_HASH_MORE(hash, t->bias);
    hash = BZI_HASH_MORE(hash, t->scale);
    hash = BZI_HASH_MORE(hash, t->fill);
    if (output->shape.channels)
        hash = BZI_HASH_MORE(hash, output->shape.channels);
    if (setup->stills)
        hash = BZI_HASH_MORE(hash, setup->stills);

    if (setup->jpeg.supported) {
        const uint32_t limits[] = { BZNA_DECODER_NVDEC, setup->jpeg.min_width, setup->jpeg.min_height,
                                    setup->jpeg.max_width, setup->jpeg.max_height, setup->jpeg.max_macroblocks };
        hash = BZI_HASH_MORE(hash, limits);
    }

    if (decode->jpeg_shrink)
        hash = bzi_hash(hash, "shrink", sizeof "shrink");
    if (decode->jpeg_shrink && decode->jpeg_shrink_margin > 1)
        hash = BZI_HASH_MORE(hash, decode->jpeg_shrink_margin);
    if (!bzi_is_zero(&output->jitter, sizeof output->jitter))
        hash = BZI_HASH_MORE(hash, output->jitter);
    if (output->mean_bytes)
        hash = BZI_HASH_MORE(hash, output->mean_hash);
    if (output->augment_hash)
        hash = BZI_HASH_MORE(hash, output->augment_hash);
    return bzi_hash(hash, pick->name ? pick->name : "", pick->name ? strlen(pick->name) : 0);
}

/* A single output of one view has the hash of its pixels alone. */
static uint64_t bzi_setup_pixels(const bzi_setup *setup)
{
    const bzi_host *host = setup->host;
    uint64_t hash = BZI_HASH_START;

    for (uint32_t i = 0; i < setup->output_count; i++) {
        const bzi_output *output = &setup->outputs[i];
        const uint32_t numbers[] = { output->views, output->own_warp | output->own_augment << 1, output->own_filter,
                                     output->own_color };
        hash = bzi_output_pixels(setup, output, hash);
        if (i || output->views > 1)
            hash = BZI_HASH_MORE(hash, numbers);
    }
    for (uint32_t i = 0; i < host->own_codec_count; i++)
        hash = BZI_HASH_MORE(hash, host->own_codecs[i].c.fingerprint);
    return hash;
}


/* #### INTERFACE ######################################################################################################
 * Configurations are checked, objects are opened, and public functions call the rooms above. */


/* ==== 83. Statistics ===============================================================================================
 * Calls: rooms 4, 57, 64, 66.
 *
 * A judgement of what limits a loader, from its counters. The thresholds are rules of thumb. */

/* In percent of the time of a stage's threads. */
static double bzi_share_of(uint64_t ns, const bzna_statistics *stats, uint64_t threads)
{
    return 100.0 * (double)ns / ((double)stats->elapsed_ns * (double)(threads ? threads : 1) + 1.0);
}

BZI_PRINTF(3, 4)
static void bzi_statistics_advise(bzna_statistics *stats, uint32_t stage, const char *format, ...)
{
    va_list arguments;

    stats->limiting_stage = stage;
    va_start(arguments, format);
    vsnprintf(stats->advice, sizeof stats->advice, format, arguments);
    va_end(arguments);
}

/* Without decoder threads, the consumer's does all the work. Readers that are blocked while NVDEC waits for samples
 * wait for the consumer's work on the device. */
static void bzi_statistics_judge(bzna_statistics *stats)
{
    const bzna_stage_statistics *reader = &stats->stage[BZNA_STAGE_READ], *decoder = &stats->stage[BZNA_STAGE_DECODE];
    const unsigned threads = (unsigned)decoder->threads;
    const int is_nvdec = stats->samples_nvdec && stats->samples_nvdec >= stats->samples_software;
    const double consumer = bzi_share_of(stats->stage[BZNA_STAGE_DELIVER].wait_before_ns, stats, 1);
    const double starved = bzi_share_of(decoder->wait_before_ns, stats, threads);
    const double blocked = bzi_share_of(decoder->wait_after_ns, stats, threads);
    const double decode = bzi_share_of(decoder->busy_ns, stats, threads);
    const double warp = bzi_share_of(stats->stage[BZNA_STAGE_WARP].busy_ns, stats, threads);
    const double reading = bzi_share_of(reader->busy_ns, stats, reader->threads);
    const double waited = fmax(starved, blocked);
    const int is_warp = warp > decode;
    const char *const work[2] = { is_warp ? "the warp" : "decoding", is_warp ? "decoding" : "the warp" };
    const int is_shrinkable = 2 * stats->samples_shrinkable > stats->samples;
    const uint32_t longer = is_warp ? BZNA_STAGE_WARP : BZNA_STAGE_DECODE;

    memset(stats->advice, 0, sizeof stats->advice);
    if (consumer < (threads ? 10 : 50))
        bzi_statistics_advise(stats, BZNA_STAGE_DELIVER, "the consumer: it waits for batches only %.0f %% of the time; "
                              "no setting of the loader changes that", consumer);
    else if (!threads)
        bzi_statistics_advise(stats, reading > fmax(decode, warp) ? BZNA_STAGE_READ : longer,
                              "work in bzna_loader_next: of the time, reading takes %.0f %%, decoding %.0f %%, the "
                              "warp %.0f %%; threads would do that meanwhile (pipeline.no_threads)", reading, decode,
                              warp);
    else if (is_nvdec && starved <= 25)
        bzi_statistics_advise(stats, BZNA_STAGE_DECODE, "NVDEC: its sessions have samples %.0f %% of the time; "
                              "%ssmaller pictures, or pictures of fewer bytes", 100 - starved, stats->samples_hybrid ?
                              "" : "decode.hybrid, so that idle processors decode, too; ");
    else if (is_nvdec && bzi_share_of(reader->wait_after_ns, stats, reader->threads) > 50)
        bzi_statistics_advise(stats, BZNA_STAGE_DELIVER, "the consumer: its work on the device still reads the "
                              "batches; more batches (pipeline.batches_in_flight)");
    else if (is_nvdec || (reading > 50 && (starved > 25 || decode + warp < 50)))
        bzi_statistics_advise(stats, BZNA_STAGE_READ, "reading: %s %.0f %% of the time; faster storage, or more reader "
                              "threads (read.threads: %u now)", waited > 25 ? "decoders wait for it" :
                              "its threads work", waited > 25 ? waited : reading, (unsigned)reader->threads);
    else if (decode + warp >= 50 && threads < bzi_os_processors())
        bzi_statistics_advise(stats, longer, "%s: decoder threads work %.0f %% of the time; more of them "
                              "(decode.threads: %u now, for %u processors)", work[0], decode + warp, threads,
                              bzi_os_processors());
    else if (decode + warp >= 50)
        bzi_statistics_advise(stats, longer, "%s: %.0f %% of the decoder threads' time, %s %.0f %%; %s",
                              work[0], fmax(decode, warp), work[1], fmin(decode, warp), is_warp ?
                              "a smaller output (output.width, output.height), or uint8 or float16 (output.dtype)" :
                              is_shrinkable ?
                              "decode.jpeg_shrink decodes large JPEGs, most of the pictures, at 1/2 of their size" :
                              "smaller pictures, or a codec that is decoded faster");
    else if (blocked > starved)
        bzi_statistics_advise(stats, BZNA_STAGE_NONE, "waking threads: decoders wait %.0f %% of the time until there "
                              "is a batch to fill; larger batches (output.batch_size), or more of them "
                              "(pipeline.batches_in_flight)", blocked);
    else
        bzi_statistics_advise(stats, BZNA_STAGE_NONE, "waking threads, or other programs: decoders wait for samples "
                              "%.0f %% of the time, and readers read %.0f %%; larger batches (output.batch_size), or "
                              "more samples read ahead (read.ahead_samples)", starved, reading);
}

static void bzi_loader_stats(bzna_loader *loader, bzna_statistics *stats)
{
    const bzi_setup *setup = &loader->setup;
    bzi_queues *queues = &loader->queues;
    bzna_stage_statistics *read = &stats->stage[BZNA_STAGE_READ], *decode = &stats->stage[BZNA_STAGE_DECODE];
    bzna_stage_statistics *deliver = &stats->stage[BZNA_STAGE_DELIVER];
    int by_nvdec;                                           /* it decodes most samples */

    bzi_queues_lock(queues);
    *stats = queues->stats;
    by_nvdec = queues->sessions && stats->samples_nvdec >= stats->samples_software;
    read->depth = queues->entries[BZI_ENTRY_PLANNED].left;
    decode->depth = queues->entries[BZI_ENTRY_FULL].left;
    read->capacity = decode->capacity = loader->entry_count * queues->run_most;
    deliver->depth = bzi_queues_count(queues, BZI_BATCH_READY);
    deliver->capacity = queues->batch_count;
    stats->read_memory_bytes = queues->held_bytes;
    if (queues->sessions) {
        bzi_queues_count_starved(queues);
        decode->depth += queues->entries[BZI_ENTRY_POOL].count;
        if (by_nvdec)
            decode->wait_before_ns = queues->starved_ns;
    }

    bzi_queues_unlock(queues);
    stats->elapsed_ns = bzi_os_now_ns() - setup->opened_ns;
    decode->threads = setup->config.pipeline.no_threads ? 0 :
                      by_nvdec ? queues->sessions : setup->config.decode.threads;
    read->threads = queues->reader_count ? queues->reader_count : decode->threads;
    stats->stage[BZNA_STAGE_WARP].threads = decode->threads;
    deliver->threads = 1;
    if (queues->sessions)
        bzi_device_counts(setup->device, stats);
    bzi_statistics_judge(stats);
}


/* ==== 84. Configuration ====================================================================================== *
 * Checks what callers ask for, group by group, and fills in defaults. Errors name the setting. */

static bzna_status bzi_device_check_wanted(const char *field, bzna_device device, bzna_error *err)
{
    return device.ordinal >= 0 && (!device.ordinal || device.kind == BZNA_DEVICE_CUDA) ? BZNA_OK :
               BZI_MISUSE(err, "%s.ordinal: %d; it must be 0, or a CUDA device's number, from 0 on", field,
                          device.ordinal);
}

/* Checks a context's config and fills in defaults. */
static bzna_status bzi_context_check(bzna_context_config *c, bzna_error *err)
{
    if (bzi_device_check_wanted("context_config.device", c->device, err) != BZNA_OK)
        return err->status;
    if (c->cuda_context && c->device.kind == BZNA_DEVICE_CPU)
        return BZI_MISUSE(err, "context_config.cuda_context: device.kind is BZNA_DEVICE_CPU");

    if (!c->allocator.alloc) {
        c->allocator.alloc = bzi_os_alloc;
        c->allocator.release = bzi_os_release;
    }

    bzi_settings_resolve(BZI_OF_context_config, c);
    return BZNA_OK;
}

/* Writes "group.member", the name of a setting in messages. */
enum { BZI_SETTING_BYTES = 80 };
static const char *bzi_setting_name(char text[BZI_SETTING_BYTES], const char *group, const char *member)
{
    snprintf(text, BZI_SETTING_BYTES, "%s.%s", group, member);
    return text;
}

/* Checks and completes the groups of settings that outputs cannot have of their own. Without threads, processors are
 * not counted: C libraries open a file for that, which a sandbox may forbid. */
static bzna_status bzi_loader_check_groups(bzna_loader_config *c, bzna_error *err)
{
    const struct {
        uint32_t    of;
        void       *values;
        const char *where;
    } groups[] = {
#define BZI_GROUP(name) { BZI_OF_loader_##name, &c->name, "loader_config." #name }
        BZI_GROUP(output),
        { BZI_OF_loader_outputs, &c->extra_outputs, "loader_config.extra_outputs" },
        BZI_GROUP(order), BZI_GROUP(shard), BZI_GROUP(fields), BZI_GROUP(read), BZI_GROUP(decode), BZI_GROUP(errors),
        BZI_GROUP(pipeline)
#undef BZI_GROUP
    };

    for (size_t i = 0; i < BZI_LENGTH(groups); i++) {
        if (bzi_settings_check(groups[i].of, groups[i].values, groups[i].where, err) != BZNA_OK)
            return err->status;
        bzi_settings_resolve(groups[i].of, groups[i].values);
    }
    if (c->pipeline.no_threads)
        c->decode.threads = 1;                              /* the thread in next does its work */
    else if (!c->decode.threads)
        c->decode.threads = bzi_os_processors();
    return BZNA_OK;
}

/* Returns 1 if batches have no pictures: other fields are named, and nothing is set for pictures. */
static int bzi_loader_lacks_pictures(const bzna_loader_config *c)
{
    const bzna_loader_output *o = &c->output;

    return (c->fields.tensors || c->fields.bytes || c->fields.made_count) && !c->fields.image && !c->fields.geometry &&
           !o->buffers && o->views <= 1 && !c->extra_outputs.count && !o->width && !o->height;
}

/* Checks the order, decoding, processors, slices, padding and the shard. An epoch must have at least one batch. */
static bzna_status bzi_setup_check_counts(bzi_setup *setup, bzna_error *err)
{
    const bzna_loader_config *c = &setup->config;
    const bzna_loader_order *order = &c->order;
    const uint64_t samples = setup->dataset->count;
    bzi_shard shard;

    if (order->first_epoch == UINT64_MAX)
        return BZI_MISUSE(err, "loader_config.order.first_epoch: the last epoch there can be is 2^64 - 2");
    if (order->kind == BZNA_ORDER_GIVEN && (order->indices || order->index_count))
        return BZI_MISUSE(err, "loader_config.order.indices: not with BZNA_ORDER_GIVEN, where bzna_loader_set_batches "
                          "gives each epoch's samples");
    for (uint64_t i = 0; i < order->index_count; i++)
        if (order->indices[i] >= samples)
            return BZI_FAIL(err, BZNA_E_RANGE, "loader_config.order.indices[%llu]: %llu is not below the %llu samples",
                            (bzi_llu)i, (bzi_llu)order->indices[i], (bzi_llu)samples);

    if (c->decode.hybrid && c->errors.on_error != BZNA_ON_ERROR_FILL)
        return BZI_MISUSE(err, "loader_config.decode.hybrid: errors.on_error must be BZNA_ON_ERROR_FILL, since NVDEC "
                          "and software may differ about what is damaged");
    if (c->decode.jpeg_shrink_margin != 1 && !c->decode.jpeg_shrink)
        return BZI_MISUSE(err, "loader_config.decode.jpeg_shrink_margin: it needs jpeg_shrink");
#ifdef BENZINA_NO_JPEG
    if (c->decode.jpeg_shrink)
        return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "loader_config.decode.jpeg_shrink: this build has no libjpeg-turbo");
#endif
    for (uint32_t i = 0; i < c->pipeline.cpu_count; i++)
        if (c->pipeline.cpus[i] < 0)
            return BZI_MISUSE(err, "loader_config.pipeline.cpus[%u]: %d is not a processor", i,
                              c->pipeline.cpus[i]);
    if (c->output.batch_size % c->output.slices)
        return BZI_MISUSE(err, "loader_config.output.slices: %u does not divide batch_size, %u", c->output.slices,
                          c->output.batch_size);
    setup->slice_slots = c->output.batch_size / c->output.slices;

    if (order->last_batch != BZNA_LAST_FILL && (order->pad_value != 0 || order->pad_target))
        return BZI_MISUSE(err, "loader_config.order.pad_value, pad_target: they have an effect on BZNA_LAST_FILL only");

    if (c->shard.rank >= c->shard.world_size)
        return BZI_MISUSE(err, "loader_config.shard.rank: %u is not below world_size, %u", c->shard.rank,
                          c->shard.world_size);
    shard = bzi_setup_share(setup, NULL);
    if (order->kind != BZNA_ORDER_GIVEN && bzi_shard_batches(&shard) == 0)
        return BZI_MISUSE(err, "loader_config.order.last_batch: DROP leaves no batch: %llu samples, %u x %u a step",
                          (bzi_llu)shard.count, c->output.batch_size, c->shard.world_size);
    return bzi_device_check_wanted("loader_config.output.device", c->output.device, err);
}

/* Checks the caller's memory for batches of data_bytes each. Pre: slices divide batch_size. */
static bzna_status bzi_loader_check_buffers(const bzna_loader_config *c, uint64_t data_bytes, bzna_error *err)
{
    const bzna_loader_output *o = &c->output;
    const uint64_t need = data_bytes / o->slices;

    if (!o->buffers != !o->buffer_count ||
        (o->buffers && o->buffer_count != (uint64_t)c->pipeline.batches_in_flight * o->slices))
        return BZI_MISUSE(err, "loader_config.output.buffers, buffer_count: %u buffers for %u batches in flight of %u "
                          "slices", o->buffer_count, c->pipeline.batches_in_flight, o->slices);
    for (uint32_t i = 0; i < o->buffer_count; i++) {
        if (!o->buffers[i].data || (uintptr_t)o->buffers[i].data % sizeof(float))
            return BZI_MISUSE(err, "loader_config.output.buffers[%u].data: is NULL, or not aligned to %u bytes", i,
                              (unsigned)sizeof(float));
        if (o->buffers[i].bytes < need)
            return BZI_FAIL(err, BZNA_E_BUFFER, "loader_config.output.buffers[%u].bytes: %llu are fewer than the %llu "
                            "of %u samples", i, (bzi_llu)o->buffers[i].bytes, (bzi_llu)need,
                            o->batch_size / o->slices);
        for (uint32_t k = 0; k < i; k++) {
            const uintptr_t a = (uintptr_t)o->buffers[i].data, b = (uintptr_t)o->buffers[k].data;
            if ((a < b ? b - a : a - b) < need)
                return BZI_MISUSE(err, "loader_config.output.buffers[%u]: overlaps buffers[%u]", i, k);
        }
    }
    return BZNA_OK;
}

/* Checks filter and colors, and puts them in *t, mean and std as bias and scale. where: their group. */
static bzna_status bzi_loader_check_colors(const char *where, const bzna_loader_filter *filter,
                                           const bzna_loader_color *c, bzna_transform *t, bzna_error *err)
{
    char text[BZI_SETTING_BYTES];
    const int divides = !bzi_is_zero(c->mean, sizeof c->mean) || !bzi_is_zero(c->std, sizeof c->std);

    if (bzi_settings_check(BZI_OF_loader_filter, filter, bzi_setting_name(text, where, "filter"), err) != BZNA_OK ||
        bzi_filter_check(text, filter->kind, filter->antialias, err) != BZNA_OK ||
        bzi_settings_check(BZI_OF_loader_color, c, bzi_setting_name(text, where, "color"), err) != BZNA_OK ||
        bzi_settings_check(BZI_OF_jitter, &c->jitter, bzi_setting_name(text, where, "color.jitter"), err) != BZNA_OK)
        return err->status;

    if (divides && !(bzi_is_zero(c->bias, sizeof c->bias) && bzi_is_zero(c->scale, sizeof c->scale)))
        return BZI_MISUSE(err, "%s.color.mean, std, bias, scale: give (mean, std), which divides, or (bias, scale), "
                          "which multiplies", where);

    for (int i = 0; i < 3; i++) {
        t->bias[i] = divides ? c->mean[i] : c->bias[i];
        t->scale[i] = divides ? (c->std[i] != 0 ? 1.0f / c->std[i] : 1.0f) : (c->scale[i] != 0 ? c->scale[i] : 1.0f);
        t->fill[i] = c->fill[i];
        if (!isfinite(t->scale[i]))
            return BZI_MISUSE(err, "%s.color.std: 1 / %g of channel %d is not a finite number", where, c->std[i], i);
    }

    t->fill_space = c->fill_space;
    t->matrix = c->matrix;
    t->filter = filter->kind;
    t->antialias = filter->antialias;
    return BZNA_OK;
}


/* ==== 85. Configuration: outputs ====================================================================================
 * Calls: rooms 2, 8-9, 12, 41, 47-50, 84.
 *
 * Checks what outputs callers ask for, and with them a loader's config as a whole. */

static int bzi_name_is(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

/* Copies the mean image, which must have the output's channels and size. */
static bzna_status bzi_setup_mean(bzi_setup *setup, const bzna_loader_color *c, bzi_output *output, bzna_error *err)
{
    const bzna_output *o = &output->shape;
    const uint64_t count = (uint64_t)bzi_channels(o->channels) * o->width * o->height;
    float *mean;

    if (!c->mean_image && !c->mean_image_bytes)
        return BZNA_OK;
    if (!bzi_is_zero(c->mean, sizeof c->mean) || !bzi_is_zero(c->bias, sizeof c->bias))
        return BZI_MISUSE(err, "%s.color.mean_image: not together with mean or bias", output->group);

    output->mean_bytes = count * sizeof *mean;
    if (!c->mean_image || c->mean_image_bytes != output->mean_bytes)
        return BZI_MISUSE(err, "%s.%s: %llu bytes%s, not the %llu of float32 [%u, %u, %u]", output->group,
                          output->own_color ? "color.mean_image_bytes" : "color: the first output's mean image",
                          (bzi_llu)c->mean_image_bytes, c->mean_image ? "" : " at NULL",
                          (bzi_llu)output->mean_bytes, bzi_channels(o->channels), o->height, o->width);

    if (!(output->mean = mean = bzi_arena_copy(&setup->arena, c->mean_image, count, sizeof *mean)))
        return bzi_fail_memory(err, "a mean image");
    for (uint64_t k = 0; k < count; k++)
        if (!isfinite(mean[k]))
            return BZI_MISUSE(err, "%s.color.mean_image: number %llu is not finite", output->group, (bzi_llu)k);
    output->mean_hash = bzi_hash(BZI_HASH_START, mean, (size_t)output->mean_bytes);
    return BZNA_OK;
}

/* Copies an output's policies, and hashes them without addresses and reserved words. */
static bzna_status bzi_setup_policies(bzi_setup *setup, bzi_output *output, bzna_error *err)
{
    const bzna_loader_augment *given = &output->augment;
    bzna_policy *policies;
    uint64_t hash;

    if (!given->policy_count)
        return BZNA_OK;
    policies = bzi_arena_copy(&setup->arena, given->policies, given->policy_count, sizeof *policies);
    hash = bzi_hash(BZI_HASH_START, &given->beyond_crop, sizeof given->beyond_crop);
    for (uint32_t i = 0; i < given->policy_count && policies; i++) {
        bzna_policy *p = &policies[i];
        hash = bzi_hash(hash, &p->operation_count,
                                offsetof(bzna_policy, reserved) - offsetof(bzna_policy, operation_count));
        hash = bzi_hash(hash, p->operations, p->operation_count * sizeof *p->operations);
        if (!(p->operations = bzi_arena_copy(&setup->arena, p->operations, p->operation_count, sizeof *p->operations)))
            policies = NULL;
    }
    if (!policies)
        return bzi_fail_memory(err, "policies");

    output->augment.policies = policies;
    output->augment_hash = hash;
    setup->drawn_views = 1;
    return BZNA_OK;
}

/* Completes an output, and adds it. Without a field, it has the picture, or the thumbnail if all such outputs are small
 * enough. palette: how its field, decoded once, is delivered to all outputs of it. */
static bzna_status bzi_setup_add(bzi_setup *setup, const char *field, uint32_t palette, bzna_error *err)
{
    const uint32_t number = setup->output_count++;
    bzi_output *output = &setup->outputs[number];
    const bzi_part *part = setup->dataset->parts;
    char text[BZI_SETTING_BYTES];
    uint64_t slot_bytes;
    bzi_pick *pick;
    bzi_image image;
    bzna_status status = BZNA_OK;

    if (output->views > BZI_LIMIT_VIEWS - setup->view_count)
        return BZI_MISUSE(err, "%s.views: %u, and %u of other outputs, are more than %u", output->where, output->views,
                          setup->view_count, BZI_LIMIT_VIEWS);
    if (setup->config.decode.jpeg_shrink &&
        (output->transform.antialias == BZNA_ANTIALIAS_OFF || output->transform.filter == BZNA_FILTER_NEAREST))
        return BZI_MISUSE(err, "loader_config.decode.jpeg_shrink: %s has a filter without antialias", output->where);

    while (output->picture < setup->pick_count && !bzi_name_is(field, setup->picks[output->picture].name))
        output->picture++;
    pick = &setup->picks[output->picture];
    if (output->picture == setup->pick_count) {
        *pick = (bzi_pick){ .name = field, .palette = palette };
        setup->pick_count++;
        if (field && !(pick->name = bzi_arena_text(&setup->arena, field)))
            return bzi_fail_memory(err, "the names of fields");
        /* so that a mistyped name fails now; what cannot be read now may be readable later */
        if (field)
            status = bzi_container_look_image(part->container, part->first, pick, NULL, &image, err);
        if (status == BZNA_E_NOT_FOUND)
            bzi_error_prefix(err, bzi_setting_name(text, output->group, number ? "field" : "fields.image"));
        if (status == BZNA_E_NOT_FOUND || status == BZNA_E_MEMORY)
            return status;
    }
    pick->whole |= !field && (output->shape.width > BZI_THUMB_EDGE || output->shape.height > BZI_THUMB_EDGE);
    if (pick->palette != palette)
        return BZI_MISUSE(err, "%s.palette: another output has the same field, which is decoded once, and says "
                          "otherwise", output->where);

    output->kernel = bzi_output_make(&output->shape);
    output->kernel.mean = (uint64_t)(uintptr_t)output->mean;
    output->picture_bytes = bzi_output_bytes(&output->shape);
    output->offset = (setup->data_bytes + 255) & ~(uint64_t)255;
    slot_bytes = output->picture_bytes * output->views;
    setup->data_bytes = output->offset + slot_bytes * setup->config.output.batch_size;    /* below 2^60 */
    setup->slot_bytes += slot_bytes;
    for (uint32_t i = 0; i < output->views; i++)
        setup->views[setup->view_count++] = (bzi_view){ output, i };
    return BZNA_OK;
}

/* Takes an output's name and shape, for a further one by default the first one's. */
static bzna_status bzi_setup_shape(const bzi_setup *setup, const bzna_loader_output *e, bzi_output *output,
                                   bzna_error *err)
{
    const bzi_output *first = setup->outputs;
    const size_t length = e->name ? strlen(e->name) : 0;
    bzna_output shape = { .struct_size = sizeof shape, .width = bzi_default(e->width, first->shape.width),
                          .height = bzi_default(e->height, first->shape.height), .dtype = e->dtype,
                          .layout = e->layout, .channels = e->channels };

    if (length == 0 || length >= sizeof output->name)
        return BZI_MISUSE(err, "%s.name: must have 1 to %u bytes", output->where, (unsigned)sizeof output->name - 1);
    if (!bzi_text_is_utf8(e->name) || (e->field && !bzi_text_is_utf8(e->field)))
        return BZI_MISUSE(err, "%s.%s: is not UTF-8", output->where, bzi_text_is_utf8(e->name) ? "field" : "name");

    memcpy(output->name, e->name, length + 1);
    output->shape = shape;
    output->own_warp = e->warp != NULL;
    output->own_filter = e->filter != NULL;
    output->own_color = e->color != NULL;
    output->own_augment = e->augment != NULL;
    output->augment = e->augment ? *e->augment : setup->config.augment;
    output->views = bzi_default(e->views, e->warp ? 1 : first->views);
    if (!e->warp && output->views != first->views)
        return BZI_MISUSE(err, "%s.views: %u; it shares the warps of the first output's %u views", output->where,
                          output->views, first->views);
    if (bzi_loader_lacks_pictures(&setup->config))
        shape.width = shape.height = 1;                     /* the rest of it is checked nevertheless */
    return bzi_settings_check(BZI_OF_output, &shape, output->where, err);
}

/* Makes an output. A further one shares with the first what it does not set itself. */
static bzna_status bzi_setup_output(bzi_setup *setup, const bzna_loader_output *e, bzna_error *err)
{
    const bzna_loader_filter *filter = e->filter ? e->filter : &setup->config.filter;
    const bzna_loader_color *color = e->color ? e->color : &setup->config.color;
    bzi_output *output = &setup->outputs[setup->output_count];
    const uint32_t number = setup->output_count;
    char text[BZI_SETTING_BYTES];

    bzi_string_copy(output->where, sizeof output->where, "loader_config.output");
    if (number)
        snprintf(output->where, sizeof output->where, "loader_config.extra_outputs[%u]", number - 1);
    output->group = number ? output->where : "loader_config";
    if (number && bzi_settings_check(BZI_OF_extra_output, e, output->where, err) != BZNA_OK)
        return err->status;

    bzi_transform_init(&output->transform);
    output->jitter = color->jitter;
    if (bzi_setup_shape(setup, e, output, err) != BZNA_OK ||
        bzi_loader_check_colors(output->group, filter, color, &output->transform, err) != BZNA_OK ||
        bzi_transform_check(&output->transform, err) != BZNA_OK ||
        bzi_setup_mean(setup, color, output, err) != BZNA_OK ||
        (e->warp &&
         bzi_warp_resolve(e->warp, bzi_setting_name(text, output->group, "warp"), &output->warp, err) != BZNA_OK) ||
        (e->augment && bzi_augment_check(e->augment, bzi_setting_name(text, output->group, "augment"), e->warp != NULL,
                                         err) != BZNA_OK) ||
        bzi_setup_policies(setup, output, err) != BZNA_OK)
        return err->status;

    for (uint32_t i = 0; i < number; i++)
        output->random += setup->outputs[i].own_warp ? setup->outputs[i].views : 0;
    return bzi_setup_add(setup, e->field ? e->field : setup->config.fields.image, e->palette, err);
}

/* Checks and completes the loader's config, and makes its outputs. The first one has the config's own groups. */
static bzna_status bzi_setup_check(bzi_setup *setup, bzna_error *err)
{
    bzna_loader_config *c = &setup->config;
    const bzna_loader_outputs *extra = &c->extra_outputs;
    bzna_loader_output first;

    if (c->fields.image && !bzi_text_is_utf8(c->fields.image))
        return BZI_MISUSE(err, "loader_config.fields.image: is not UTF-8");
    if (bzi_loader_lacks_pictures(c) && c->warp.kind == 0)
        c->warp.kind = BZNA_WARP_NONE;                      /* states without pictures depend on no warp */
    if (bzi_loader_check_groups(c, err) != BZNA_OK || bzi_setup_check_counts(setup, err) != BZNA_OK)
        return err->status;
    if (c->output.slices > 1 && (c->output.views > 1 || extra->count))
        return BZI_MISUSE(err, "loader_config.output.slices: not together with views or extra_outputs");

    first = c->output;
    first.name = "image";
    first.warp = &c->warp;
    first.filter = &c->filter;
    first.color = &c->color;
    first.augment = &c->augment;
    if (bzi_setup_output(setup, &first, err) != BZNA_OK)
        return err->status;
    for (uint32_t i = 0; i < extra->count; i++)
        if (bzi_setup_output(setup, &extra->ptr[i], err) != BZNA_OK)
            return err->status;
    setup->drawn_views *= setup->view_count;
    return bzi_loader_check_buffers(c, setup->data_bytes, err);
}


/* ==== 86. Opening ===================================================================================================
 * Calls: rooms 2, 4, 7-10, 20, 25, 42, 51, 56-57, 61, 63, 67-68, 73, 78, 80, 85.
 *
 * Chooses the decoder and opens loaders. */

/* Asks the context for the device and the sessions that the config may use. *why: why there are none, which is no error
 * here. */
static bzna_status bzi_setup_find_gpu(bzi_setup *setup, bzna_error *why, bzna_error *err)
{
    const bzna_loader_config *config = &setup->config;
    const char *needed = config->pipeline.no_threads ? "pipeline.no_threads: NVDEC's sessions are threads" :
                         config->pipeline.picture ? "pipeline.picture needs pictures that are decoded in software" :
                         setup->pick_count > 1 ? "outputs of several fields are decoded in software" :
                                                 NULL;
    const int software = needed || config->decode.decoder == BZNA_DECODER_SOFTWARE;

    bzi_error_init(why);
    if (needed)
        BZI_FAIL(why, BZNA_E_UNSUPPORTED, "%s", needed);
    if (!setup->slot_bytes || (config->output.device.kind != BZNA_DEVICE_CUDA && software))
        return BZNA_OK;

    if (bzi_context_gpu(setup->context, &setup->device, why) != BZNA_OK || software ||
        bzi_device_video(setup->device, why) != BZNA_OK)
        return BZNA_OK;
    return bzi_context_pool(setup->context, &setup->pool, err);
}

/* Sets the numbers of threads, lanes and entries: the config's, else those that suit what decodes. Without readers,
 * workers read: if nothing is decoded or all samples lie in memory, that is faster than to wait for readers. Where
 * software decodes small samples, more of them are read ahead, as decoders would wait for readers. A run leaves each
 * worker several to take. */
static void bzi_setup_scale(bzi_setup *setup, bzi_queues *queues)
{
    const bzna_loader_config *config = &setup->config;
    const uint32_t sessions = setup->pool ? setup->pool->count : 0;
    const uint64_t slots = (uint64_t)config->output.batch_size * config->pipeline.batches_in_flight;
    const uint64_t threads = config->decode.threads;
    const bzna_dataset *dataset = setup->dataset;
    uint32_t ahead = config->read.ahead_samples, in_memory = 0;

    while (in_memory < dataset->part_count && dataset->parts[in_memory].container->source.held)
        in_memory++;
    queues->sessions = (uint32_t)bzi_min(sessions, slots);
    queues->hybrid = config->decode.hybrid ? setup->pool : NULL;
    queues->worker_count = config->decode.threads;
    setup->lanes = sessions + (setup->on_device ? queues->worker_count : 0);
    queues->reader_count = config->read.threads;
    if (config->pipeline.no_threads)
        queues->reader_count = 0;
    else if (!config->read.threads && (setup->device || (setup->slot_bytes && in_memory < dataset->part_count)))
        queues->reader_count = !sessions ? 1 : sessions < 4 ? 2 : bzi_min32(sessions / 2, 8);

    queues->memory_bytes = config->read.memory_bytes;
    queues->ahead_least = ahead ? ahead : (uint32_t)(2 * threads + 2 + 4 * sessions);
    queues->ahead_bytes = bzi_min(threads * BZI_AHEAD_BYTES, queues->memory_bytes / 4);
    if (!ahead && !sessions)
        ahead = (uint32_t)bzi_min(slots, BZI_LIMIT_AHEAD);
    queues->ahead_samples = bzi_max32(ahead, queues->ahead_least);

    queues->run_most = (uint32_t)bzi_min(bzi_min(slots, queues->ahead_samples) / (4 * (threads + 1)), BZI_RUN_SAMPLES);
    queues->run_most = queues->run_most && !sessions ? queues->run_most : 1;
}

/* Decides what decodes, and where batches lie. A missing GPU is an error only if the config insists on one; one that
 * cannot be used (after fork, out of memory, lost) always is. */
static bzna_status bzi_setup_decide(bzi_setup *setup, bzna_error *err)
{
    const bzna_loader_config *config = &setup->config;
    const bzna_loader_output *output = &config->output;
    const int nvdec = config->decode.decoder == BZNA_DECODER_NVDEC;
    bzna_error why;
    int unusable;

    if (bzi_setup_find_gpu(setup, &why, err) != BZNA_OK)
        return err->status;
    unusable = why.status == BZNA_E_STATE || why.status == BZNA_E_MEMORY || why.status == BZNA_E_DEVICE_LOST;
    if (why.status != BZNA_OK &&
        (nvdec || (!setup->device && (unusable || output->device.kind == BZNA_DEVICE_CUDA)))) {
        *err = why;
        return bzi_error_prefix(err, nvdec ? "loader_config.decode.decoder" : "loader_config.output.device");
    }

    if (output->stream && output->device.kind != BZNA_DEVICE_CUDA)
        return BZI_MISUSE(err, "loader_config.output.stream: has no effect unless output.device is BZNA_DEVICE_CUDA");

    setup->on_device = setup->device && output->device.kind == BZNA_DEVICE_CUDA;
    if (setup->on_device && output->device.ordinal && output->device.ordinal != setup->device->info.device.ordinal)
        return BZI_MISUSE(err, "loader_config.output.device.ordinal: %d; the context's device is %d",
                          output->device.ordinal, setup->device->info.device.ordinal);

    if (!setup->on_device && !setup->pool)
        setup->device = NULL;
    bzi_error_prefix(&why, "no NVDEC");
    bzi_string_copy(setup->reason, sizeof setup->reason,
                    config->decode.decoder == BZNA_DECODER_SOFTWARE ? "software decoding was requested" :
                    setup->pool ? "NVDEC decodes; software decodes what NVDEC cannot" : why.message);
    if (setup->pool && output->device.kind == BZNA_DEVICE_AUTO)
        bzi_log(setup->host, BZNA_LOG_INFO, BZNA_OK, "NVDEC decodes, and batches are copied to host memory: "
                "output.device = BZNA_DEVICE_CUDA leaves them on the GPU");

    /* the tensors that every batch has: now it is known where they lie */
    if (bzi_setup_add_output(setup, setup->outputs, err) != BZNA_OK ||
        bzi_setup_add_tensor(setup, "target", BZNA_DTYPE_INT64, NULL, 0, 0, err) != BZNA_OK ||
        bzi_setup_add_tensor(setup, "index", BZNA_DTYPE_UINT64, NULL, 0, 0, err) != BZNA_OK)
        return err->status;
    return bzi_setup_add_tensor(setup, "status", BZNA_DTYPE_INT32, NULL, 0, 0, err);
}

/* Takes NVDEC for JPEG, if the device has a decoder for it that has not failed its check in another loader. Now,
 * because once a sample has come it can only fail. */
static bzna_status bzi_setup_take_jpeg(bzi_setup *setup, bzna_error *err)
{
    bzna_codec_info info = { .codec = BZNA_CODEC_JPEG, .chroma_format = 1, .depth = 8 };
    bzna_status status;

    if (!setup->pool)
        return BZI_FAIL(err, BZNA_E_DEVICE, "loader_config.decode.jpeg: %s", setup->reason);
    status = bzi_check_codec(setup->device, &info, err);
    if (status == BZNA_OK && (!info.supported || info.check == BZNA_CHECK_FAILED))
        status = BZI_FAIL(err, BZNA_E_DEVICE, "NVDEC of %s does not decode JPEG%s%s", setup->device->info.name,
                          info.check_message[0] ? ": " : "", info.check_message);
    setup->jpeg = info;
    return status == BZNA_OK ? status : bzi_error_prefix(err, "loader_config.decode.jpeg");
}

/* Takes the consumer's stream, or makes one. Copies the mean images to the device, before batches are written. Makes
 * the lanes' scratch memory, so that none is made later: for views of the largest output, if policies or a callback may
 * give them operations on pixels. In the CUDA context. */
static bzna_status bzi_setup_make_device(bzi_setup *setup, bzna_error *err)
{
    bzi_device *device = setup->device;

    setup->stream = setup->on_device ? setup->config.output.stream : NULL;
    setup->owns_stream = !setup->stream;
    if (!setup->stream && bzi_device_stream(device, 0, &setup->stream, err) != BZNA_OK)
        return err->status;

    for (uint32_t i = 0; i < setup->output_count; i++) {
        bzi_output *output = &setup->outputs[i];
        const uint64_t bytes = output->mean_bytes, scratch = bzi_scratch_bytes(&output->kernel);

        if (output->mean &&
            (bzi_device_alloc(device, bytes, setup->stream, &output->device_mean, err) != BZNA_OK ||
             bzi_device_upload(device, output->device_mean, output->mean, bytes, setup->stream, err) != BZNA_OK))
            return err->status;
        if ((setup->config.pipeline.transform || bzi_augment_has_pixels(&output->augment)) &&
            setup->view_scratch < scratch)
            setup->view_scratch = scratch;
    }
    setup->scratch_bytes = setup->lanes * bzi_lane_scratch_bytes(setup);
    return bzi_device_alloc(device, setup->scratch_bytes, setup->stream, &setup->scratch, err);
}

/* Fails if no sample can give a picture: no container has a picture field for an output that takes any, or all know the
 * codec of their pictures, and nothing decodes any of them. Otherwise each sample fails by itself. */
static bzna_status bzi_setup_check_pictures(const bzi_setup *setup, bzna_error *err)
{
    const bzna_dataset *dataset = setup->dataset;
    uint32_t named = 0, finds = 0, decodes = setup->pool != NULL;

    for (uint32_t i = 0; i < setup->pick_count; i++)
        named += setup->picks[i].name != NULL;
    for (uint32_t i = 0; i < dataset->part_count; i++) {
        const bzi_container *c = dataset->parts[i].container;
        finds |= bzi_container_find_picture(c, NULL) != BZI_NO_FIELD;
        decodes |= !c->codec || bzi_codec_has_library(bzi_codec_find(c->codec), err) == BZNA_OK;
    }

    finds |= named == setup->pick_count;                    /* these are looked for in the first sample */
    if (!setup->slot_bytes || (finds && decodes))
        return BZNA_OK;
    if (!finds)
        BZI_FAIL(err, BZNA_E_NOT_FOUND, "the data set has no picture field; for batches of other fields, set "
                 "fields.tensors or fields.bytes, and no width and height");
    return bzi_error_prefix(err, "loader_config.output");
}

/* Does all that can fail. The caller frees what was made. Pre: the user's arrays still exist. */
static bzna_status bzi_loader_build(bzna_loader *loader, bzna_error *err)
{
    bzi_setup *setup = &loader->setup;
    const bzna_loader_order *order = &setup->config.order;
    bzi_queues *queues = &loader->queues;
    bzna_status status = BZNA_OK;

    if (bzi_setup_check(setup, err) != BZNA_OK)
        return err->status;

    queues->plan.is_given = order->kind == BZNA_ORDER_GIVEN;
    queues->plan.shard = bzi_setup_share(setup, NULL);
    bzi_plan_from(&queues->plan, &order->seed,
                  &(bzi_place){ order->first_epoch, 0, bzi_setup_samples(setup), 0 },
                  bzi_loader_end_epoch(&setup->config, order->first_epoch));
    queues->alarm = UINT64_MAX;
    queues->has_locks = (uint32_t)bzi_os_locks_init(&queues->mutex, BZI_RANK_LOADER, queues->wake, BZI_ROLES);
    if (!queues->has_locks)
        return BZI_FAIL(err, BZNA_E_THREAD, "cannot make a lock");
    /* column i has tensor BZI_TENSORS + i, so columns of bytes, which have none, come after all with tensors */
    if (bzi_setup_decide(setup, err) != BZNA_OK ||
        (setup->config.decode.jpeg == BZNA_DECODER_NVDEC && bzi_setup_take_jpeg(setup, err) != BZNA_OK) ||
        bzi_setup_check_pictures(setup, err) != BZNA_OK ||
        bzi_setup_list_columns(setup, setup->config.fields.tensors, 1, err) != BZNA_OK ||
        bzi_setup_make_made(setup, err) != BZNA_OK ||
        bzi_setup_list_columns(setup, setup->config.fields.bytes, 0, err) != BZNA_OK ||
        bzi_order_make(&queues->plan.order, setup, err) != BZNA_OK)
        return err->status;
    for (uint32_t i = 1; i < setup->output_count; i++)
        if (bzi_setup_add_output(setup, &setup->outputs[i], err) != BZNA_OK)
            return err->status;

    setup->stills = bzi_dataset_hash_stills(setup->dataset);
    bzi_setup_scale(setup, queues);
    if (bzi_loader_make_entries(loader, err) != BZNA_OK || bzi_device_enter(setup->device, err) != BZNA_OK)
        return err->status;
    if (setup->device)
        status = bzi_setup_make_device(setup, err);
    for (uint32_t i = 0; i < queues->batch_count && status == BZNA_OK; i++)
        status = bzi_batch_make(&queues->batches[i], i, err);
    if (status == BZNA_OK)
        status = bzi_loader_start_threads(loader, err);     /* they need all the rest */
    bzi_device_leave(setup->device);
    return status;
}

static bzna_status bzi_loader_make(bzna_context *context, bzna_dataset *dataset, const bzna_loader_config *config,
                                   bzna_loader **out, bzna_error *err)
{
    const bzi_memory *memory = &context->host->memory;
    bzna_loader *loader = bzi_alloc_zero(memory, 1, sizeof *loader);
    bzna_loader_config *c;
    bzi_setup *setup;
    bzna_status status;

    if (!loader)
        return bzi_fail_memory(err, "a loader");

    /* from here on, bzi_loader_end and bzi_loader_free undo what was done, however far it got */
    bzi_context_retain(context);
    atomic_fetch_add(&dataset->references, 1);
    setup = &loader->setup;
    loader->queues.setup = setup;
    setup->context = context;
    setup->host = context->host;
    setup->memory = setup->arena.memory = memory;
    setup->dataset = dataset;
    setup->config = *config;
    atomic_init(&loader->references, 1);
    setup->process = bzi_os_process();
    setup->opened_ns = loader->queues.pool_ns = bzi_os_now_ns();
    status = bzi_loader_build(loader, err);

    /* The caller's memory, of which all that is needed has been copied. */
    c = &setup->config;
    c->fields.image = c->fields.tensors = c->fields.bytes = NULL;
    c->color.mean_image = c->fields.made = NULL;
    c->order.indices = NULL;
    c->pipeline.cpus = NULL;
    c->output.buffers = NULL;
    c->extra_outputs.ptr = NULL;
    c->augment.policies = NULL;

    if (status != BZNA_OK) {
        bzi_loader_end(loader);
        bzi_loader_free(loader);
        return status;
    }

    *out = loader;
    return BZNA_OK;
}


/* ==== 87. Public API: contexts ======================================================================================
 * Functions of these rooms validate, delegate, and copy errors to the caller's struct. No other room calls them. */

/* Returns how many bytes of an error fit in a caller's struct: none without room for a message. */
static uint32_t bzi_api_error_room(uint64_t struct_size)
{
    const uint32_t most = sizeof(bzna_error), room = struct_size ? (uint32_t)bzi_min(struct_size, most) : most;

    return room > offsetof(bzna_error, message) ? room : 0;
}

/* Copies an error to the caller's struct, as far as it fits. Returns `status`. */
static bzna_status bzi_api_error(bzna_error *out, bzna_error *err, bzna_status status)
{
    const uint32_t room = out ? bzi_api_error_room(out->struct_size) : 0;

    if (status >= 0 || !room)
        return status;

    err->status = status;
    err->message[room - offsetof(bzna_error, message) - 1] = 0;
    bzi_text_trim(err->message);
    bzi_struct_out(out, room, err, sizeof *err);
    return status;
}

#define BZI_API_BEGIN bzna_error e; bzi_error_init(&e)
#define BZI_API_FAIL(...) return bzi_api_error(err, &e, BZI_FAIL(&e, __VA_ARGS__))
#define BZI_API_MISUSE(...) BZI_API_FAIL(BZNA_E_ARGUMENT, __VA_ARGS__)
#define BZI_API_END(status) return bzi_api_error(err, &e, (status))
#define BZI_API_TRY(call)                                                                    \
    do {                                                                                     \
        const bzna_status bzi_tried = (call);                                                \
        if (bzi_tried != BZNA_OK)                                                            \
            BZI_API_END(bzi_tried);                                                          \
    } while (0)

/* Fails if one of the arguments is NULL. names: theirs, with commas between them. */
static bzna_status bzi_api_need(const char *call, const char *names, const void *const *arguments, bzna_error *err)
{
    for (int length; *names; names += length + (int)strspn(names + length, ", ")) {
        length = (int)strcspn(names, ",");
        if (!*arguments++)
            return BZI_MISUSE(err, "%s: %.*s is NULL", call, length, names);
    }
    return BZNA_OK;
}

#define BZI_API_NEED(...)                                                                    \
    BZI_API_TRY(bzi_api_need(__func__, #__VA_ARGS__, (const void *const[]){ __VA_ARGS__ }, &e))

/* Begins a function with arguments that must not be NULL. */
#define BZI_API_BEGIN_WITH(...) BZI_API_BEGIN; BZI_API_NEED(__VA_ARGS__)

/* Fails if a timeout is none: negative, but not BZNA_WAIT_FOREVER. */
static bzna_status bzi_api_check_timeout(int64_t timeout_ns, const char *call, bzna_error *err)
{
    return timeout_ns >= 0 || timeout_ns == BZNA_WAIT_FOREVER ? BZNA_OK :
           BZI_MISUSE(err, "%s: timeout_ns: %lld is negative, and not BZNA_WAIT_FOREVER", call, (long long)timeout_ns);
}

/* Begins one that makes an object. */
#define BZI_API_BEGIN_OUT(out, ...) BZI_API_BEGIN_WITH(out); *(out) = NULL; BZI_API_NEED(__VA_ARGS__)

/* Begins a function that ends an object; NULL is none. */
#define BZI_API_BEGIN_CLOSE(object)                                                          \
    if (!(object) || bzi_os_in_callback)                                                     \
    return (object) ? BZNA_E_STATE : BZNA_OK

/* Copies an answer to the caller's struct, as far as it fits. */
static bzna_status bzi_api_out(const char *name, void *out, size_t given, void *all, size_t known, bzna_error *err)
{
    if (given < sizeof(uint32_t) || given > UINT32_MAX)
        return BZI_FAIL(err, BZNA_E_STRUCT_SIZE, "%s: struct_size: %llu bytes is not the size of a struct", name,
                        (bzi_llu)given);
    bzi_struct_out(out, given, all, known);
    return BZNA_OK;
}

/* Hands queued messages to the user's function, after what may have made some. */
static bzna_status bzi_api_logged(bzi_host *host, bzna_status status)
{
    bzi_log_deliver(host);
    return status;
}

/* Ends a function that answers with `all`: to a struct whose size is an argument, or stands in the struct. */
#define BZI_API_ANSWER_SIZED(to, size) BZI_API_END(bzi_api_out(#to, (to), (size), &all, sizeof all, &e))
#define BZI_API_ANSWER(to)     BZI_API_NEED(to); BZI_API_ANSWER_SIZED(to, struct_size)
#define BZI_API_ANSWER_OVER(to) BZI_API_ANSWER_SIZED(to, (to)->struct_size)

BZNA_API void bzna_error_init(bzna_error *error, size_t struct_size)
{
    bzna_error none;
    bzi_error_init(&none);
    if (error)
        bzi_struct_out(error, bzi_api_error_room(struct_size), &none, sizeof none);
}

BZNA_API uint32_t bzna_version(void) { return BZNA_VERSION; }

BZNA_API const char *bzna_status_name(bzna_status status)
{
    switch (status) {
#define BZI_STATUS_NAME(name, number, text) case number: return "BZNA_" #name;
    BZNA_STATUS_MAP(BZI_STATUS_NAME)
#undef BZI_STATUS_NAME
    default: return "BZNA_?";
    }
}

BZNA_API const char *bzna_status_text(bzna_status status) { return bzi_status_text(status); }

#define BZI_API_IN(all, given, of) BZI_API_TRY(bzi_settings_in(&(all), sizeof(all), given, BZI_OF_##of, #of, &e))

#define BZI_API_INIT(name)                                                                   \
    BZI_COLD                                                                                 \
    BZNA_API void bzna_##name##_init(bzna_##name *all, size_t struct_size)                   \
    {                                                                                        \
        bzi_struct_init(all, struct_size, NULL, sizeof *all);                                \
    }

BZI_API_INIT(source)
BZI_API_INIT(context_config)
BZI_API_INIT(image)
BZI_API_INIT(dataset_config)
BZI_API_INIT(loader_config)
#ifndef BENZINA_NO_PROVIDERS
BZI_API_INIT(provider)
#endif
#ifndef BENZINA_NO_WRITER
BZI_API_INIT(writer_config)
BZI_API_INIT(field_value)
BZI_API_INIT(writer_sample)
#endif

/* --- Context --- */

BZNA_API bzna_status bzna_context_open(const bzna_context_config *config, bzna_context **out, bzna_error *err)
{
    bzna_context_config c = { 0 };
    bzi_device *device;
    bzna_status status = BZNA_OK;

    BZI_API_BEGIN_WITH(out);
    *out = NULL;
    if (config)
        BZI_API_IN(c, config, context_config);
    BZI_API_TRY(bzi_context_check(&c, &e));
    BZI_API_TRY(bzi_context_make(&c, out, &e));

    if ((c.device.kind == BZNA_DEVICE_CUDA || c.cuda_context) &&
        (status = bzi_context_gpu(*out, &device, &e)) != BZNA_OK) {
        bzi_log_deliver((*out)->host);
        (*out)->host->own_codec_count = 0;                  /* so that they stay the caller's */
        bzi_context_drop(*out);
        *out = NULL;
        bzi_error_prefix(&e, c.cuda_context ? "context_config.cuda_context" : "context_config.device");
    }
    BZI_API_END(status);
}

BZNA_API bzna_status bzna_context_close(bzna_context *context)
{
    BZI_API_BEGIN_CLOSE(context);
    bzi_log_deliver(context->host);
    bzi_context_drop(context);
    return BZNA_OK;
}

/* --- Devices --- */

BZNA_API bzna_status bzna_context_device_info(bzna_context *context, bzna_device_info *info, size_t struct_size,
                                                  bzna_error *err)
{
    bzi_device *device;
    bzna_device_info all = { 0 };

    BZI_API_BEGIN;
    if (!context) {
        BZI_API_TRY(bzi_device_count(&all.device_count, &e));
        BZI_API_ANSWER(info);
    }
    BZI_API_TRY(bzi_api_logged(context->host, bzi_context_gpu(context, &device, &e)));

    all = device->info;
    all.video = bzi_device_video(device, &e);
    bzi_string_copy(all.message, sizeof all.message, e.message);
    bzi_os_exclusive_begin(&context->exclusive, NULL);
    all.sessions = context->pool ? context->pool->count : 0;
    bzi_os_exclusive_end(&context->exclusive);
    BZI_API_ANSWER(info);
}

BZNA_API bzna_status bzna_context_codec_info(bzna_context *context, uint32_t codec, uint32_t chroma_format,
                                                 uint32_t depth, bzna_codec_info *info, size_t struct_size,
                                                 bzna_error *err)
{
    bzna_codec_info all = { .codec = codec, .chroma_format = chroma_format, .depth = depth };
    bzi_device *device;

    BZI_API_BEGIN_WITH(context);
    if (!bzi_codec_find(codec) || chroma_format > 3 || (depth != 8 && depth != 10 && depth != 12))
        BZI_API_MISUSE("bzna_context_codec_info: no codec %u with chroma format %u and %u bits is known",
                     codec, chroma_format, depth);

    BZI_API_TRY(bzi_api_logged(context->host, bzi_context_gpu(context, &device, &e)));
    BZI_API_TRY(bzi_device_video(device, &e));
    BZI_API_TRY(bzi_check_codec(device, &all, &e));
    BZI_API_ANSWER(info);
}

/* --- Coded pictures --- */

BZNA_API bzna_status bzna_image_annexb(const bzna_image *image, void *dst, size_t capacity, size_t *needed,
                                       bzna_error *err)
{
    bzi_value out = { dst, dst ? capacity : 0, 0, 0 };
    bzna_image whole;

    BZI_API_BEGIN;
    if (needed)
        *needed = 0;

    BZI_API_TRY(bzi_image_take(&whole, image, "image", &e));
    if (!bzi_codec_find(whole.codec))
        BZI_API_FAIL(BZNA_E_CODEC, "image.codec: %u is not known", whole.codec);
    BZI_API_TRY(bzi_image_stream(&whole, &out, &e));

    if (needed)
        *needed = (size_t)out.size;
    if (out.size > out.capacity || !dst)
        BZI_API_FAIL(BZNA_E_BUFFER, "the stream needs %llu bytes, the buffer has %llu", (bzi_llu)out.size,
                     (bzi_llu)out.capacity);
    return BZNA_OK;
}

/* ==== 88. Public API: data sets =====================================================================================
 * Calls: all rooms above. */

/* Finds a sample's container, and makes its index the one in there. */
#define BZI_API_FIND(c, index)                                                               \
    if (!((c) = bzi_dataset_find(dataset, (index), &e)))                                     \
    BZI_API_END(e.status)

/* Fails if one of an array of pointers is NULL. name: the array's. */
static bzna_status bzi_api_need_all(const char *name, const void *pointers, uint64_t count, bzna_error *err)
{
    const void *const *all = pointers;

    for (uint64_t i = 0; i < count; i++)
        if (!all[i])
            return BZI_MISUSE(err, "%s[%llu] is NULL", name, (bzi_llu)i);
    return BZNA_OK;
}

/* Takes the caller's config, and checks its classes. */
static bzna_status bzi_api_dataset_config(const bzna_dataset_config *config, bzna_dataset_config *c, bzna_error *err)
{
    memset(c, 0, sizeof *c);
    if (!config)
        return BZNA_OK;

    if (bzi_settings_in(c, sizeof *c, config, BZI_OF_dataset_config, "dataset_config", err) != BZNA_OK)
        return err->status;
    if (c->name && !bzi_text_is_utf8(c->name))
        return BZI_MISUSE(err, "dataset_config.name: is not UTF-8");
    if (c->target && !bzi_text_is_utf8(c->target))
        return BZI_MISUSE(err, "dataset_config.target: is not UTF-8");

    return bzi_api_need_all("dataset_config.classes", c->classes, c->class_count, err);
}

BZNA_API bzna_status bzna_dataset_open_list(bzna_context *context, const char *const *paths, uint32_t path_count,
                                            const bzna_dataset_config *config, bzna_dataset **out, bzna_error *err)
{
    bzna_dataset_config c;

    BZI_API_BEGIN_OUT(out, context, paths);
    if (path_count == 0)
        BZI_API_FAIL(BZNA_E_NO_SAMPLES, "bzna_dataset_open_list: there are no paths");
    if (path_count > BZI_LIMIT_PARTS)
        BZI_API_FAIL(BZNA_E_LIMIT, "bzna_dataset_open_list: %u paths are more than %u", path_count, BZI_LIMIT_PARTS);
    BZI_API_TRY(bzi_api_need_all("bzna_dataset_open_list: paths", paths, path_count, &e));
    for (uint32_t i = 0; i < path_count; i++)
        if (!*paths[i])
            BZI_API_FAIL(BZNA_E_NOT_FOUND, path_count == 1 ? "the path is empty" : "path %u is empty", i);
    BZI_API_TRY(bzi_api_dataset_config(config, &c, &e));
    BZI_API_END(bzi_api_logged(context->host,
                               bzi_dataset_open(context->host, NULL, paths, path_count, &c, out, &e)));
}

BZNA_API bzna_status bzna_dataset_open(bzna_context *context, const char *path, const bzna_dataset_config *config,
                                       bzna_dataset **out, bzna_error *err)
{
    BZI_API_BEGIN_OUT(out, context, path);
    BZI_API_END(bzna_dataset_open_list(context, &path, 1, config, out, &e));
}

/* callbacks: NULL, or a user's source, which becomes input.source. */
static bzna_status bzi_api_open_input(bzna_context *context, bzi_input input, const bzna_source *callbacks,
                                      const bzna_dataset_config *config, bzna_dataset **out, bzna_error *err)
{
    bzi_source source = { 0 };
    bzna_dataset_config c;
    bzna_status status;

    if (bzi_api_dataset_config(config, &c, err) != BZNA_OK)
        return err->status;

    input.source = callbacks ? &source : input.source;
    if (callbacks && bzi_source_open_user(&source, callbacks, err) != BZNA_OK)
        status = bzi_error_prefix(err, c.name ? c.name : input.kind);
    else
        status = bzi_dataset_open(context->host, &input, NULL, 0, &c, out, err);
    return bzi_api_logged(context->host, status);
}

BZNA_API bzna_status bzna_dataset_open_memory(bzna_context *context, const void *bytes, size_t size,
                                              const bzna_dataset_config *config, bzna_dataset **out, bzna_error *err)
{
    bzi_source source = { .held = bytes, .size = size };

    BZI_API_BEGIN_OUT(out, context, bytes);

    BZI_API_END(bzi_api_open_input(context, (bzi_input){ .source = &source, .kind = "memory" }, NULL, config, out,
                                   &e));
}

BZNA_API bzna_status bzna_dataset_open_source(bzna_context *context, const bzna_source *source,
                                              const bzna_dataset_config *config, bzna_dataset **out, bzna_error *err)
{
    bzna_source callbacks;

    BZI_API_BEGIN_OUT(out, context, source);

    BZI_API_IN(callbacks, source, source);
    if (!callbacks.size || (!callbacks.read_at && !callbacks.memory))
        BZI_API_MISUSE("source.%s: required", callbacks.read_at || callbacks.memory ? "size" : "read_at");
    BZI_API_END(bzi_api_open_input(context, (bzi_input){ .kind = "source" }, &callbacks, config, out, &e));
}

#ifndef BENZINA_NO_PROVIDERS
BZNA_API bzna_status bzna_dataset_open_provider(bzna_context *context, const bzna_provider *provider,
                                                const bzna_dataset_config *config, bzna_dataset **out,
                                                bzna_error *err)
{
    bzna_provider all;

    BZI_API_BEGIN_OUT(out, context, provider);
    BZI_API_IN(all, provider, provider);
    BZI_API_END(bzi_api_open_input(context, (bzi_input){ .given = &all, .ops = &bzi_provider_ops,
                                                        .kind = "provider" }, NULL, config, out, &e));
}
#endif

BZNA_API bzna_status bzna_dataset_concat(bzna_context *context, bzna_dataset *const *parts, uint32_t part_count,
                                         bzna_dataset **out, bzna_error *err)
{
    BZI_API_BEGIN_OUT(out, context);

    if (!parts || !part_count)
        BZI_API_MISUSE("bzna_dataset_concat: there are no parts");
    BZI_API_TRY(bzi_api_need_all("bzna_dataset_concat: parts", parts, part_count, &e));
    BZI_API_END(bzi_dataset_join(context->host, parts, part_count, 0, UINT64_MAX, out, &e));
}

BZNA_API bzna_status bzna_dataset_range(bzna_dataset *dataset, uint64_t first, uint64_t count, bzna_dataset **out,
                                        bzna_error *err)
{
    BZI_API_BEGIN_OUT(out, dataset);

    if (count == 0)
        BZI_API_FAIL(BZNA_E_NO_SAMPLES, "bzna_dataset_range: count is 0");
    if (first > dataset->count || count > dataset->count - first)
        BZI_API_FAIL(BZNA_E_RANGE, "bzna_dataset_range: %llu samples from %llu on, but there are %llu",
                     (bzi_llu)count, (bzi_llu)first, (bzi_llu)dataset->count);
    BZI_API_END(bzi_dataset_join(dataset->host, &dataset, 1, first, count, out, &e));
}

BZNA_API bzna_status bzna_dataset_close(bzna_dataset *dataset)
{
    BZI_API_BEGIN_CLOSE(dataset);
    bzi_dataset_drop(dataset);
    return BZNA_OK;
}

BZNA_API uint64_t bzna_dataset_count(const bzna_dataset *dataset) { return dataset ? dataset->count : 0; }

BZNA_API uint64_t bzna_dataset_part_count(const bzna_dataset *dataset, uint32_t part)
{
    return dataset && part < dataset->part_count ? dataset->parts[part].count : 0;
}

BZNA_API bzna_status bzna_dataset_get_info(const bzna_dataset *dataset, bzna_dataset_info *info, size_t struct_size,
                                           bzna_error *err)
{
    bzna_dataset_info all;
    BZI_API_BEGIN_WITH(dataset);

    all = dataset->parts[0].container->info;
    all.sample_count = dataset->count;
    all.part_count = dataset->part_count;
    for (uint32_t i = 0; i < dataset->part_count; i++) {
        const bzi_part *part = &dataset->parts[i];
        const uint64_t targets = part->container->target_count;
        all.size_bytes += part->container->source.size + part->container->size_bytes;
        all.target_count += targets <= part->first ? 0 : bzi_min(part->count, targets - part->first);
    }

    while (bzi_dataset_field(dataset, all.field_count))
        all.field_count++;
    BZI_API_ANSWER(info);
}

BZNA_API bzna_status bzna_dataset_field_info(const bzna_dataset *dataset, uint32_t field, bzna_field_info *info,
                                                 size_t struct_size, bzna_error *err)
{
    bzna_field_info all = { 0 };
    const bzi_field *found;

    BZI_API_BEGIN_WITH(dataset);

    if (!(found = bzi_dataset_field(dataset, field)))
        BZI_API_FAIL(BZNA_E_RANGE, "%s: there is no field %u", dataset->parts[0].container->name, field);
    all.kind = found->kind;
    memcpy(all.name, found->name, sizeof all.name);
    BZI_API_ANSWER(info);
}

BZNA_API bzna_status bzna_dataset_track_info(const bzna_dataset *dataset, uint32_t track, bzna_track_info *info,
                                                 size_t struct_size, bzna_error *err)
{
    bzna_track_info all;
    const bzi_container *c;
    const bzi_track *found;

    BZI_API_BEGIN_WITH(dataset);

    c = dataset->parts[0].container;
    if (track >= c->info.track_count)
        BZI_API_FAIL(BZNA_E_RANGE, "%s: there is no track %u", c->name, track);
    found = &c->tracks[track];
    all = (bzna_track_info){
        .handler = found->handler,
        .format = found->format,
        .flags = found->flags,
        .sample_count = found->table.sample_count,
    };
    memcpy(all.name, found->name, sizeof all.name);
    memcpy(all.mime, found->mime, sizeof all.mime);
    BZI_API_ANSWER(info);
}

BZNA_API bzna_status bzna_dataset_target(const bzna_dataset *dataset, uint64_t index, int64_t *target, bzna_error *err)
{
    const bzi_container *c;
    bzna_sample_ref sample;
    bzna_status status;

    BZI_API_BEGIN_WITH(dataset, target);

    *target = BZNA_TARGET_NONE;
    BZI_API_FIND(c, &index);
    status = bzi_container_sample(c, index, BZI_LOOK_OUTSIDE, &sample, &e);
    *target = sample.target;
    BZI_API_END(status);
}

BZNA_API bzna_status bzna_dataset_field(const bzna_dataset *dataset, uint64_t index, const char *field, void *buffer,
                                        size_t capacity, size_t *needed, bzna_error *err)
{
    bzi_value value = { buffer, buffer ? capacity : 0, 0, 0 };
    const bzi_container *c;
    bzna_status status;

    BZI_API_BEGIN_WITH(dataset, field);
    if (needed)
        *needed = 0;

    BZI_API_FIND(c, &index);
    status = bzi_container_field(c, index, field, &value, &e);
    if (needed && (status == BZNA_OK || status == BZNA_E_BUFFER))
        *needed = (size_t)value.size;
    BZI_API_END(status);
}

BZNA_API bzna_status bzna_dataset_class(const bzna_dataset *dataset, int64_t target, void *buffer, size_t capacity,
                                        size_t *needed, bzna_error *err)
{
    const uint64_t room = buffer ? capacity : 0;
    bzi_value value = { buffer, room - (room > 0), 0, 0 };  /* and a NUL */
    const bzi_container *c;
    bzna_status status;

    BZI_API_BEGIN_WITH(dataset);

    c = dataset->parts[0].container;                        /* or the first whose classes have names */
    for (uint32_t i = 1; !c->class_count && i < dataset->part_count; i++)
        c = dataset->parts[i].container;
    if (!c->class_count)
        status = BZI_FAIL(&e, BZNA_E_NOT_FOUND, "its classes have no names");
    else if ((uint64_t)target >= c->class_count)
        status = BZI_FAIL(&e, BZNA_E_RANGE, "target %lld is not one of the %llu classes", (long long)target,
                          (bzi_llu)c->class_count);
    else if ((status = c->ops->class_name(c, (uint64_t)target, &value, &e)) == BZNA_OK)
        status = bzi_value_end(&value, room, 1, "name", &e);
    if (needed)
        *needed = (size_t)value.size;
    BZI_API_END(status == BZNA_OK ? status : bzi_error_prefix(&e, c->name));
}

BZNA_API bzna_status bzna_dataset_sample(const bzna_dataset *dataset, uint64_t index, bzna_sample_ref *sample,
                                             size_t struct_size, bzna_error *err)
{
    const bzi_container *c;
    uint64_t local = index;
    bzna_sample_ref all;

    BZI_API_BEGIN_WITH(dataset);

    BZI_API_FIND(c, &local);
    BZI_API_TRY(bzi_container_sample(c, local, BZI_LOOK_PLACE, &all, &e));
    all.index = index;
    BZI_API_ANSWER(sample);
}

BZNA_API bzna_status bzna_dataset_read_image(const bzna_dataset *dataset, uint64_t index, const char *field,
                                             void *buffer, size_t capacity, bzna_image *image, bzna_error *err)
{
    const bzi_container *c;
    bzi_image found;
    bzna_image all;

    BZI_API_BEGIN_WITH(dataset, buffer, image);

    BZI_API_FIND(c, &index);
    BZI_API_TRY(bzi_container_look_image(c, index, &(bzi_pick){ .name = field }, &(bzi_span){ buffer, capacity },
                                         &found, &e));
    all = found.coded;
    BZI_API_ANSWER_OVER(image);
}

BZNA_API bzna_status bzna_dataset_image_info(const bzna_dataset *dataset, uint64_t index, const char *field,
                                                 bzna_image_info *info, size_t struct_size, bzna_error *err)
{
    const bzi_container *c;
    bzi_image image;
    const bzna_image *coded = &image.coded;
    bzna_image_info all;

    BZI_API_BEGIN_WITH(dataset);

    BZI_API_FIND(c, &index);
    BZI_API_TRY(bzi_container_look_image(c, index, &(bzi_pick){ .name = field }, NULL, &image, &e));
    all = (bzna_image_info){
        .codec = coded->codec, .fourcc = image.fourcc, .width = coded->width, .height = coded->height,
        .frame_width = coded->frame_width, .frame_height = coded->frame_height, .crop_x = coded->crop_x,
        .crop_y = coded->crop_y, .length_size = coded->length_size, .color = coded->color,
        .config_offset = image.config_offset, .config_size = coded->config_size, .data_offset = image.data_offset,
        .data_size = coded->data_size, .orientation = coded->orientation };
    memcpy(all.clap, image.clap, sizeof all.clap);
    BZI_API_ANSWER(info);
}


/* ==== 89. Public API: pictures, numbers, warps ======================================================================
 * Calls: all rooms above. */

struct bzna_decoder {
    bzi_host     *host;               /* a reference is held */
    uint32_t      alone;              /* 1: it was opened without a context, so it calls no function of the user's */
    bzi_software  software;
};

BZNA_API bzna_status bzna_decoder_open(bzna_context *context, bzna_decoder **out, bzna_error *err)
{
    bzna_context_config config = { 0 };
    bzna_decoder *decoder;
    bzi_host *host;

    BZI_API_BEGIN_WITH(out);
    *out = NULL;

    if (context) {
        host = context->host;
        bzi_host_retain(host);
    } else {
        BZI_API_TRY(bzi_context_check(&config, &e));        /* all defaults */
        BZI_API_TRY(bzi_host_open(&config, &host, &e));
    }

    if (!(decoder = bzi_alloc_zero(&host->memory, 1, sizeof *decoder)))
        bzi_fail_memory(&e, "a decoder");
    else if (bzi_software_open(&decoder->software, host, &e) != BZNA_OK)
        bzi_release(&host->memory, decoder, 1, sizeof *decoder);
    if (e.status != BZNA_OK) {
        bzi_host_drop(host);
        BZI_API_END(e.status);
    }

    decoder->host = host;
    decoder->alone = !context;

    *out = decoder;
    return BZNA_OK;
}

BZNA_API bzna_status bzna_decoder_close(bzna_decoder *decoder)
{
    bzi_host *host;

    if (!decoder || (bzi_os_in_callback && !decoder->alone))
        return decoder ? BZNA_E_STATE : BZNA_OK;
    host = decoder->host;
    bzi_software_close(&decoder->software);
    bzi_release(&host->memory, decoder, 1, sizeof *decoder);
    bzi_host_drop(host);
    return BZNA_OK;
}

BZNA_API bzna_status bzna_decoder_decode(bzna_decoder *decoder, const bzna_image *image, bzna_picture *picture,
                                         bzna_error *err)
{
    bzna_image whole;
    bzi_image alone;
    bzi_format format;
    bzna_picture all;

    BZI_API_BEGIN_WITH(decoder, picture);

    BZI_API_TRY(bzi_image_take(&whole, image, "image", &e));

    alone = bzi_image_alone(&whole);
    BZI_API_TRY(bzi_own_prepare(&decoder->software.own, &alone, &e));
    BZI_API_TRY(bzi_picture_describe(&alone, decoder->host->max_edge_px, &format, &all, &e));
    BZI_API_TRY(bzi_software_decode(&decoder->software, &alone.coded, &format, bzi_picture_all(&all), &all, &e));
    BZI_API_ANSWER_OVER(picture);
}

BZNA_API bzna_status bzna_image_inspect(const bzna_image *image, bzna_codec_shape *shape, bzna_error *err)
{
    bzna_codec_shape all;
    bzna_image whole;
    bzi_image alone;
    bzi_format format;
    bzna_picture picture;

    BZI_API_BEGIN_WITH(shape);
    BZI_API_TRY(bzi_image_take(&whole, image, "image", &e));
    alone = bzi_image_alone(&whole);
    alone.otherwise.present = 0;
    BZI_API_TRY(bzi_picture_describe(&alone, UINT32_MAX, &format, &picture, &e));

    all = (bzna_codec_shape){
        .width = picture.frame_width,
        .height = picture.frame_height,
        .pixels = format.chroma_format ? BZNA_PIXELS_YCBCR : BZNA_PIXELS_GRAY,
        .depth = picture.depth,
        .chroma_shift_x = picture.chroma_shift_x,
        .chroma_shift_y = picture.chroma_shift_y,
        .chroma_left = picture.chroma_left,
        .chroma_top = picture.chroma_top,
        .color = picture.color,
        .orientation = picture.orientation,
        .crop = { picture.crop_x, picture.crop_y, picture.crop_x + picture.width, picture.crop_y + picture.height },
    };
    BZI_API_ANSWER_OVER(shape);
}

/* --- Random numbers, transforms --- */

BZNA_API void bzna_random_init(bzna_random *random, uint64_t seed, uint64_t epoch, uint64_t sample, uint32_t purpose)
{
    if (!random)
        return;
    bzi_random_begin(random, seed, epoch);
    bzi_random_aim(random, sample, purpose);
}

BZNA_API uint32_t bzna_random_u32(bzna_random *random) { return bzi_random_u32(random); }
BZNA_API double bzna_random_uniform(bzna_random *random, double lo, double hi)
{
    return bzi_random_uniform(random, lo, hi);
}

BZNA_API uint64_t bzna_order_permute(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t position)
{
    bzi_permutation p;
    if (position >= count || count > (uint64_t)1 << 63)
        return UINT64_MAX;
    p = bzi_permutation_make(seed, epoch, count);
    return bzi_permutation_at(&p, position);
}

BZNA_API void bzna_transform_init(bzna_transform *transform, size_t struct_size)
{
    bzna_transform all;
    bzi_transform_init(&all);
    bzi_struct_init(transform, struct_size, &all, sizeof all);
}

BZNA_API uint32_t bzna_geometry_box(const bzna_geometry *geometry, const double area[4], double out[4])
{
    double hull[4];

    if (!geometry || !area || !out)
        return 0;
    if (bzi_geometry_hull(geometry->inverse, area, hull)) {
        for (int i = 0; i < 4; i++)
            out[i] = fmin(fmax(hull[i], 0), i % 2 ? geometry->out_height : geometry->out_width);
        if (out[0] < out[2] && out[1] < out[3])
            return 1;
    }
    memset(out, 0, sizeof hull);
    return 0;
}

BZNA_API bzna_status bzna_jitter_draw(bzna_random *random, const bzna_jitter *jitter, const bzna_mxnet *mxnet,
                                      bzna_transform *transform, bzna_error *err)
{
    bzna_warp colors = {0};
    bzna_transform all;

    BZI_API_BEGIN_WITH(random, jitter, transform);

    BZI_API_TRY(bzi_settings_check(BZI_OF_jitter, jitter, "jitter", &e));
    if (mxnet)
        colors.mxnet = *mxnet;
    BZI_API_TRY(bzi_warp_check(&colors, "warp", &e));
    bzi_transform_init(&all);
    BZI_API_TRY(bzi_settings_in_over(&all, sizeof all, transform, BZI_OF_transform, "transform", &e));

    bzi_transform_resolve(&all);
    bzi_jitter_draw(random, jitter, &colors.mxnet, &all);
    BZI_API_ANSWER_OVER(transform);
}

#ifndef BENZINA_NO_AUGMENT
BZNA_API bzna_status bzna_augment_draw(bzna_random *random, const bzna_loader_augment *augment, uint32_t out_width,
                                       uint32_t out_height, bzna_transform *transform, bzna_error *err)
{
    const uint32_t size[2] = { out_width, out_height };
    bzna_transform all;

    BZI_API_BEGIN_WITH(random, augment, transform);

    bzi_transform_init(&all);
    BZI_API_TRY(bzi_augment_check(augment, "augment", 1, &e));
    BZI_API_TRY(bzi_settings_in_over(&all, sizeof all, transform, BZI_OF_transform, "transform", &e));
    if (!out_width || !out_height || out_width > BZI_LIMIT_EDGE || out_height > BZI_LIMIT_EDGE)
        BZI_API_MISUSE("out_width, out_height: %u, %u; 1 to %u are allowed", out_width, out_height,
                     BZI_LIMIT_EDGE);
    if (bzi_augment_most(augment) + all.operation_count > BZNA_OPERATIONS_MAX)
        BZI_API_MISUSE("transform has %u operations, and policies may draw more than up to %u",
                     all.operation_count, BZNA_OPERATIONS_MAX);

    bzi_transform_resolve(&all);
    bzi_augment_draw(random, augment, size, &all);
    BZI_API_ANSWER_OVER(transform);
}
#endif

BZNA_API bzna_status bzna_warp_draw(bzna_random *random, const bzna_warp *warp, uint32_t in_width, uint32_t in_height,
                                    uint32_t out_width, uint32_t out_height, double homography[9], bzna_error *err)
{
    const uint32_t in[2] = { in_width, in_height }, out[2] = { out_width, out_height };
    bzna_warp p;

    BZI_API_BEGIN_WITH(random, warp, homography);
    if (!in_width || !in_height || !out_width || !out_height)
        BZI_API_MISUSE("bzna_warp_draw: a size is 0: from %ux%u to %ux%u", in_width, in_height,
                     out_width, out_height);
    BZI_API_TRY(bzi_warp_resolve(warp, "warp", &p, &e));
    bzi_warp_draw(random, &p, in, out, homography);
    return BZNA_OK;
}

/* Fills in what zeros of a caller's picture stand for, and checks its numbers. The sizes of its planes in memory are
 * not known. */
static bzna_status bzi_api_picture(bzna_picture *p, bzna_error *err)
{
    p->depth = bzi_default(p->depth, 8);
    if (!p->frame_width && p->crop_x <= UINT32_MAX - p->width)
        p->frame_width = p->crop_x + p->width;
    if (!p->frame_height && p->crop_y <= UINT32_MAX - p->height)
        p->frame_height = p->crop_y + p->height;
    if (!p->color.present)
        p->color = bzi_color_of_codecs;

    if (p->depth < 8 || p->depth > 16 || p->chroma_shift_x > 2 || p->chroma_shift_y > 2 || !p->plane[0] ||
        !p->plane[1] != !p->plane[2] || p->orientation > 8)
        return BZI_MISUSE(err, "picture: 8 to 16 bits, subsampling of at most 4, an orientation of at most 8 and "
                          "planes are needed");

    if (p->chroma_left > 1 || p->chroma_top > 1)
        return BZI_MISUSE(err, "picture.chroma_%s: neither 0 nor 1", p->chroma_left > 1 ? "left" : "top");

    if (p->frame_width > 65535 || p->frame_height > 65535 ||
        !bzi_rect_is_inside(p->crop_x, p->crop_y, p->width, p->height, p->frame_width, p->frame_height))
        return BZI_MISUSE(err, "picture: %ux%u at %u,%u is not inside its %ux%u frame", p->width, p->height,
                          p->crop_x, p->crop_y, p->frame_width, p->frame_height);

    for (int i = 0; i < 3; i++) {
        if (p->depth > 8 && ((uintptr_t)p->plane[i] % 2 || p->pitch[i] % 2))
            return BZI_MISUSE(err, "picture.plane[%d], pitch[%d]: samples of two bytes must be aligned", i, i);
        if (p->step[i] > 65535 || (p->depth > 8 && p->step[i] % 2))
            return BZI_MISUSE(err, "picture.step[%d]: %u; must be at most 65535, and even if samples have two bytes", i,
                              p->step[i]);
        if (p->pitch[i] > INT32_MAX || p->pitch[i] < INT32_MIN)
            return BZI_MISUSE(err, "picture.pitch[%d]: %lld does not fit in 32 bits", i, (long long)p->pitch[i]);
    }
    return BZNA_OK;
}

BZNA_API bzna_status bzna_picture_render(const bzna_picture *picture, const bzna_transform *transform,
                                         const bzna_output *output, void *dst, size_t dst_bytes, bzna_error *err)
{
    bzna_picture p;
    bzna_transform t;
    bzna_output o;
    bzi_kernel_output out;
    bzi_kernel_slot slot;
    bzi_kernel_pass pass;

    BZI_API_BEGIN_WITH(picture, transform, output, dst);

    bzi_transform_init(&t);
    BZI_API_IN(p, picture, picture);
    BZI_API_TRY(bzi_settings_in_over(&t, sizeof t, transform, BZI_OF_transform, "transform", &e));
    BZI_API_IN(o, output, output);

    bzi_transform_resolve(&t);
    out = bzi_output_make(&o);
    BZI_API_TRY(bzi_api_picture(&p, &e));
    BZI_API_TRY(bzi_transform_check(&t, &e));
    BZI_API_TRY(bzi_view_make(&slot, &pass, &p, &t, o.channels, &out, &e));

    if (dst_bytes < bzi_output_bytes(&o))
        BZI_API_FAIL(BZNA_E_BUFFER, "dst: %llu bytes are too few for %u x %u x %u elements of %u bytes",
                     (bzi_llu)dst_bytes, out.channels, o.height, o.width, bzi_dtype_bytes(o.dtype));
    if ((uintptr_t)dst % bzi_dtype_bytes(o.dtype))
        BZI_API_MISUSE("dst: not aligned to %u bytes", bzi_dtype_bytes(o.dtype));

    slot.dst = (uint64_t)(uintptr_t)dst;
    const bzi_kernel_output target = bzi_view_target(&pass, &out);
    const size_t bytes = (bzi_kernel_warp_bytes(&slot, &target) + 63) & ~(size_t)63;
    const size_t all = bytes + (pass.pixels ? (size_t)bzi_scratch_bytes(&out) : 0);
    uint8_t *workspace = all ? bzi_os_alloc(NULL, all, 64) : NULL;
    if (all && !workspace)
        BZI_API_END(bzi_fail_memory(&e, "what the warp needs"));
    bzi_view_warp(&slot, &pass, &out, workspace, bytes, all ? workspace + bytes : NULL);
    bzi_os_release(NULL, workspace, all);
    return BZNA_OK;
}


/* ==== 90. Public API: loaders =======================================================================================
 * Calls: all rooms above. */

BZNA_API bzna_status bzna_loader_open(bzna_context *context, bzna_dataset *dataset, const bzna_loader_config *config,
                                      bzna_loader **out, bzna_error *err)
{
    bzna_loader_config own;

    BZI_API_BEGIN_OUT(out, context, dataset, config);

    BZI_API_IN(own, config, loader_config);
    own.pipeline.no_threads |= context->host->no_threads;
    BZI_API_END(bzi_api_logged(context->host, bzi_loader_make(context, dataset, &own, out, &e)));
}

/* Fails without a loader, in a child after fork(), and for calls that wait, inside a callback. */
#define BZI_API_NEED_LOADER(loader, waits)                                                              \
    BZI_API_NEED(loader);                                                                               \
    if (((waits) && bzi_os_in_callback) || bzi_loader_forked(loader))                                   \
    BZI_API_FAIL(BZNA_E_STATE, "%s: must not be called %s", __func__,                                   \
                 bzi_loader_forked(loader) ? "after fork" : "inside a callback")

/* Begins a function of a loader. */
#define BZI_API_BEGIN_LOADER(waits) BZI_API_BEGIN; BZI_API_NEED_LOADER(loader, waits)

BZNA_API bzna_status bzna_loader_close(bzna_loader *loader)
{
    bzna_context *context;

    BZI_API_BEGIN_CLOSE(loader);
    if (bzi_loader_forked(loader))
        return BZNA_E_STATE;

    context = loader->setup.context;
    bzi_context_retain(context);      /* the loader may have the last reference, and its messages are delivered below */
    bzi_loader_end(loader);
    bzi_loader_unref(loader);
    bzi_log_deliver(context->host);
    bzi_context_drop(context);
    return BZNA_OK;
}

BZNA_API bzna_status bzna_loader_next(bzna_loader *loader, int64_t timeout_ns, bzna_batch **batch, bzna_error *err)
{
    bzna_context *context;
    bzna_status status;

    BZI_API_BEGIN_WITH(batch);
    *batch = NULL;
    BZI_API_NEED_LOADER(loader, 1);
    BZI_API_TRY(bzi_api_check_timeout(timeout_ns, __func__, &e));

    context = loader->setup.context;
    bzi_context_retain(context);      /* another thread may close the loader as soon as its lock is free */
    status = bzi_loader_next(loader, timeout_ns, batch, &e);
    bzi_log_deliver(context->host);
    bzi_context_drop(context);
    BZI_API_END(status);
}

BZNA_API bzna_status bzna_loader_set_batches(bzna_loader *loader, uint64_t epoch, const uint64_t *indices,
                                             uint64_t index_count, const uint32_t *sizes, uint64_t size_count,
                                             bzna_error *err)
{
    const bzi_sequence given = { .epoch = epoch, .count = index_count, .batch_count = size_count };
    bzna_status status;

    BZI_API_BEGIN_LOADER(0);
    BZI_API_NEED(indices);
    if (!size_count != !sizes)
        BZI_API_MISUSE("bzna_loader_set_batches: epoch %llu: give sizes and size_count, or neither", (bzi_llu)epoch);
    if (loader->setup.config.order.kind != BZNA_ORDER_GIVEN)
        BZI_API_FAIL(BZNA_E_STATE, "bzna_loader_set_batches: loader_config.order.kind is not BZNA_ORDER_GIVEN");
    if (!index_count)
        BZI_API_MISUSE("bzna_loader_set_batches: the list of epoch %llu is empty", (bzi_llu)epoch);
    status = bzi_loader_give(loader, &given, indices, sizes, &e);
    BZI_API_END(status == BZNA_OK ? status : bzi_error_prefix(&e, __func__));
}

BZNA_API bzna_status bzna_loader_stop(bzna_loader *loader, bzna_error *err)
{
    BZI_API_BEGIN_LOADER(0);

    bzi_queues_lock(&loader->queues);
    loader->queues.stopped = 1;
    bzi_queues_unlock(&loader->queues);
    return BZNA_OK;
}

BZNA_API bzna_status bzna_loader_reset(bzna_loader *loader, uint64_t epoch, bzna_error *err)
{
    BZI_API_BEGIN_LOADER(1);
    if (epoch == UINT64_MAX)
        BZI_API_MISUSE("bzna_loader_reset: epoch: the last one is 2^64 - 2");
    BZI_API_END(bzi_loader_seek(loader, NULL, &(bzi_place){ epoch, 0, bzi_setup_samples(&loader->setup), 0 },
                                bzi_loader_end_epoch(&loader->setup.config, epoch), &e));
}

enum { BZI_STATE_VERSION = 2 };

BZNA_API bzna_status bzna_loader_save(bzna_loader *loader, bzna_loader_state *state, size_t struct_size,
                                      bzna_error *err)
{
    const bzi_plan *plan;

    BZI_API_BEGIN_LOADER(0);
    BZI_API_NEED(state);
    plan = &loader->queues.plan;
    if (struct_size < sizeof *state)
        BZI_API_FAIL(BZNA_E_STRUCT_SIZE, "bzna_loader_save: a state has %u bytes, not %llu", (unsigned)sizeof *state,
                     (bzi_llu)struct_size);

    bzi_queues_lock(&loader->queues);
    *state = (bzna_loader_state){
        .struct_size = sizeof *state,
        .version = BZI_STATE_VERSION,
        .seed = plan->seed,
        .epoch = plan->done.epoch,
        .position = plan->done.position,
        .fingerprint = loader->setup.fingerprint,
        .sample_count = plan->done.count,
        .list = plan->done.list,
        .end_epoch = plan->end_epoch,
        .order = loader->setup.config.order.kind,
    };
    bzi_queues_unlock(&loader->queues);
    state->pixels = bzi_setup_pixels(&loader->setup);
    state->check = bzi_loader_state_check(state);
    return BZNA_OK;
}

BZNA_API bzna_status bzna_loader_restore(bzna_loader *loader, const bzna_loader_state *state, bzna_error *err)
{
    const bzi_setup *setup;
    uint64_t samples;

    BZI_API_BEGIN_LOADER(1);
    BZI_API_NEED(state);

    setup = &loader->setup;
    samples = bzi_setup_samples(setup);
    if (state->version != BZI_STATE_VERSION || state->struct_size != sizeof *state)
        BZI_API_MISUSE("state.version: %u of %u bytes is not known", state->version, state->struct_size);
    if (state->check && state->check != bzi_loader_state_check(state))
        BZI_API_MISUSE("state.check: the state is damaged");
    if (state->fingerprint != setup->fingerprint || (state->sample_count != samples && samples))
        BZI_API_MISUSE("state.fingerprint: the state is of another data set, of %llu samples an epoch; this "
                       "one has %llu%s", (bzi_llu)state->sample_count, (bzi_llu)samples,
                       state->sample_count == samples ? ", but not the same" : "");
    if (state->order != setup->config.order.kind)
        BZI_API_MISUSE("state.order: the state is of order %u, the loader has %u", state->order,
                       setup->config.order.kind);
    if (state->position > state->sample_count || state->epoch > state->end_epoch)
        BZI_API_MISUSE("state.position: %llu of %llu in epoch %llu is past the end",
                       (bzi_llu)state->position, (bzi_llu)state->sample_count,
                       (bzi_llu)state->epoch);

    if (state->pixels != bzi_setup_pixels(setup) && !setup->config.pipeline.restore_any_pixels)
        BZI_API_MISUSE("state.pixels: the state was saved by a run of another size, warp, picture or colors; "
                       "loader_config.pipeline.restore_any_pixels restores it anyway");
    BZI_API_END(bzi_api_logged(setup->host, bzi_loader_seek(
        loader, &state->seed, &(bzi_place){ state->epoch, state->position, state->sample_count, state->list },
        state->end_epoch, &e)));
}

BZNA_API bzna_status bzna_loader_get_info(bzna_loader *loader, bzna_loader_info *info, size_t struct_size,
                                          bzna_error *err)
{
    bzna_loader_info all = { 0 };
    const bzi_setup *setup;
    const bzi_plan *plan;
    const bzi_sequence *list;
    const bzna_loader_config *c;
    const bzi_pick *pick;
    bzi_shard shard;

    BZI_API_BEGIN_LOADER(0);

    setup = &loader->setup;
    c = &setup->config;
    all.decoder = setup->pool ? BZNA_DECODER_NVDEC : BZNA_DECODER_SOFTWARE;
    all.sessions = setup->pool ? setup->pool->count : 0;
    all.layout = c->output.layout;
    all.threads = c->decode.threads;
    all.reader_threads = loader->queues.reader_count;
    all.batches_in_flight = c->pipeline.batches_in_flight;
    all.read_ahead = loader->queues.ahead_samples;
    bzi_tensor_describe(setup->tensors, c->output.batch_size, &all.image);

    shard = bzi_setup_share(setup, NULL);
    all.samples_per_epoch = bzi_shard_samples(&shard);
    all.batches_per_epoch = bzi_shard_batches(&shard);
    plan = &loader->queues.plan;
    bzi_queues_lock(&loader->queues);                       /* lists may be freed as soon as it is free */
    list = plan->is_given ? bzi_plan_find_list(plan, plan->done.epoch) : NULL;
    if (list) {
        all.samples_per_epoch = list->own_samples;
        all.batches_per_epoch = list->own_batches;
    }
    bzi_queues_unlock(&loader->queues);

    if (setup->pool)
        snprintf(all.decoder_name, sizeof all.decoder_name, "NVDEC of %.50s", setup->device->info.name);
    else
        bzi_software_name(all.decoder_name, sizeof all.decoder_name);
    bzi_string_copy(all.decoder_reason, sizeof all.decoder_reason, setup->reason);

    pick = &setup->picks[0];
    bzi_string_copy(all.image_field, sizeof all.image_field,
                    pick->name  ? pick->name :
                    pick->whole ? "image" :
                                  "thumb");
    bzi_string_copy(all.image_field_reason, sizeof all.image_field_reason,
                    pick->name  ? "loader_config.fields.image" :
                    pick->whole ? "an output is larger than 512 pixels, the largest edge of a thumbnail" :
                                  "the output has at most 512 pixels; samples without thumbnails give the picture");
    BZI_API_ANSWER(info);
}

/* Gives the config with its defaults, so that it opens such a loader again: what has no effect on the kind of warp
 * stays 0. */
BZNA_API bzna_status bzna_loader_get_config(bzna_loader *loader, bzna_loader_config *config, size_t struct_size,
                                            bzna_error *err)
{
    bzna_loader_config all;
    const bzna_warp *drawn;

    BZI_API_BEGIN_LOADER(0);

    all = loader->setup.config;
    all.output.views = loader->setup.outputs->views;
    all.output.device = loader->setup.tensors->one.device;
    all.decode.decoder = loader->setup.pool ? BZNA_DECODER_NVDEC : BZNA_DECODER_SOFTWARE;
    all.read.threads = loader->queues.reader_count;
    all.read.ahead_samples = loader->queues.ahead_samples;

    drawn = &loader->setup.outputs->warp;
    all.warp.perspective_p = drawn->perspective_p;
    if (all.warp.kind != BZNA_WARP_NONE) {
        all.warp.scale[0] = drawn->scale[0];
        all.warp.scale[1] = all.warp.kind == BZNA_WARP_CENTER_RESIZED_CROP ? 0 : drawn->scale[1];
        memcpy(all.warp.ratio, drawn->ratio, sizeof all.warp.ratio);
        all.warp.crops = all.warp.kind == BZNA_WARP_MXNET ? 0 : drawn->crops;
    }
    BZI_API_ANSWER(config);
}

BZNA_API bzna_status bzna_loader_statistics(bzna_loader *loader, bzna_statistics *stats, size_t struct_size,
                                           bzna_error *err)
{
    bzna_statistics all;

    BZI_API_BEGIN_LOADER(0);

    bzi_loader_stats(loader, &all);
    BZI_API_ANSWER(stats);
}

BZNA_API bzna_status bzna_statistics_since(const bzna_statistics *later, const bzna_statistics *earlier,
                                           bzna_statistics *since, size_t struct_size, bzna_error *err)
{
    bzna_statistics all, before;
    uint64_t memory;

    BZI_API_BEGIN_WITH(later, earlier);

    BZI_API_IN(all, later, statistics);
    BZI_API_IN(before, earlier, statistics);
    if (all.elapsed_ns < before.elapsed_ns || all.samples < before.samples ||
        all.stage[BZNA_STAGE_DELIVER].count < before.stage[BZNA_STAGE_DELIVER].count)
        BZI_API_MISUSE("bzna_statistics_since: later has counted less than earlier: they are in the wrong order, or of "
                       "two loaders");
    memory = all.read_memory_bytes;

    /* Depths, capacities, threads and memory are no counts, and stay. What decoders have waited may be less than
     * before, once NVDEC has taken over. */
    for (size_t at = offsetof(bzna_statistics, stage); at < offsetof(bzna_statistics, advice); at += sizeof(uint64_t)) {
        uint64_t *count = (uint64_t *)(void *)((char *)&all + at);
        if (at >= offsetof(bzna_statistics, samples) ||
            (at - offsetof(bzna_statistics, stage)) % sizeof *all.stage < offsetof(bzna_stage_statistics, depth))
            *count -= bzi_min(*count, *(const uint64_t *)(const void *)((const char *)&before + at));
    }
    all.read_memory_bytes = memory;
    bzi_statistics_judge(&all);
    BZI_API_ANSWER(since);
}

BZNA_API bzna_status bzna_loader_tensor(bzna_loader *loader, uint32_t number, bzna_tensor *tensor, size_t struct_size,
                                        bzna_error *err)
{
    bzna_tensor all;
    uint32_t first, count;

    BZI_API_BEGIN;
    BZI_API_NEED_LOADER(loader, 0);
    first = bzi_setup_first_tensor(&loader->setup);
    count = loader->setup.tensor_end - first;
    if (number >= count)
        BZI_API_FAIL(BZNA_E_RANGE, "bzna_loader_tensor: %u is not below %u", number, count);
    bzi_tensor_describe(&loader->setup.tensors[first + number], loader->setup.config.output.batch_size, &all);
    BZI_API_ANSWER(tensor);
}


/* ==== 91. Public API: batches =======================================================================================
 * Calls: all rooms above. */

BZNA_API bzna_status bzna_batch_get_info(const bzna_batch *batch, bzna_batch_info *info, size_t struct_size,
                                         bzna_error *err)
{
    BZI_API_BEGIN_WITH(batch);

    const uint32_t views = batch->setup->drawn_views;
    bzna_batch_info all = {
        .stream = batch->setup->on_device ? batch->stream : NULL,
        .layout = batch->setup->config.output.layout,
        .count = batch->real,
        .failed = batch->failed,
        .epoch = batch->epoch,
        .batch = batch->number,
        .position = batch->position,
        .targets = batch->targets,
        .indices = batch->indices,
        .status = batch->status,
        .last_of_epoch = batch->last_of_epoch,
        .replaced = batch->replaced,
        .slice_count = batch->setup->config.output.slices,
        .slice_slots = batch->setup->slice_slots,
        .slices = (void *const *)batch->slices,
        .operation_views = views,
        .operations = views ? batch->operations : NULL,
        .operation_counts = views ? batch->operation_counts : NULL,
    };
    bzi_batch_tensor(batch, 0, &all.image);

    if (!bzi_loader_forked(batch->loader)) {
        bzi_queues_lock(batch->queues);
        all.on_loan = bzi_queues_count(batch->queues, BZI_BATCH_ON_LOAN);
        bzi_queues_unlock(batch->queues);
    }

    BZI_API_ANSWER(info);
}

/* Gives a tensor's number. A batch in slices does not have its image in one piece, which is an error. */
static bzna_status bzi_api_find_tensor(const bzna_batch *batch, const char *name, uint32_t *number, bzna_error *err)
{
    *number = bzi_setup_find_tensor(batch->setup, name);
    if (*number == batch->setup->tensor_end)
        return BZI_FAIL(err, BZNA_E_NOT_FOUND, "the batch has no tensor \"%s\"", name);
    if (*number == 0 && batch->setup->config.output.slices > 1)
        return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "the batch's image is in %u slices, so it is not one tensor",
                        batch->setup->config.output.slices);
    return BZNA_OK;
}

BZNA_API bzna_status bzna_batch_tensor(const bzna_batch *batch, const char *name, bzna_tensor *tensor,
                                       size_t struct_size, bzna_error *err)
{
    bzna_tensor all;
    uint32_t number;

    BZI_API_BEGIN_WITH(batch, name);

    BZI_API_TRY(bzi_api_find_tensor(batch, name, &number, &e));
    bzi_batch_tensor(batch, number, &all);
    BZI_API_ANSWER(tensor);
}

BZNA_API bzna_status bzna_batch_bytes(const bzna_batch *batch, const char *name, uint32_t slot, const void **data,
                                      uint64_t *size, bzna_error *err)
{
    const bzi_slot_bytes *bytes = NULL;

    BZI_API_BEGIN_WITH(batch, name, data, size);

    if (slot >= batch->slots)
        BZI_API_FAIL(BZNA_E_RANGE, "bzna_batch_bytes: slot %u is not below %u", slot, batch->slots);

    for (uint32_t i = batch->setup->tensor_count; i < batch->setup->column_count && (!bytes || !bytes->present); i++)
        if (strcmp(batch->setup->columns[i].name, name) == 0)
            bytes = bzi_batch_bytes(batch, i, slot);
    if (!bytes)
        BZI_API_FAIL(BZNA_E_NOT_FOUND, "loader_config.fields.bytes does not name \"%s\"", name);
    *data = bytes->present ? bytes->buffer.data : NULL;
    *size = bytes->present ? bytes->size : 0;
    BZI_API_END(BZNA_OK);
}

BZNA_API bzna_status bzna_batch_error(const bzna_batch *batch, uint32_t slot, bzna_error *err)
{
    BZI_API_BEGIN_WITH(batch);
    if (slot >= batch->slots)
        BZI_API_FAIL(BZNA_E_RANGE, "bzna_batch_error: there is no such slot");
    if (batch->status[slot] < 0)
        e = batch->errors[slot];
    BZI_API_END(batch->status[slot]);
}

BZNA_API bzna_status bzna_batch_to_dlpack(bzna_batch *batch, const char *name, uint32_t version, void **tensor,
                                          bzna_error *err)
{
    uint32_t number;

    BZI_API_BEGIN_WITH(tensor, batch, name);
    if (version > BZNA_DLPACK_1)
        BZI_API_FAIL(BZNA_E_UNSUPPORTED, "bzna_batch_to_dlpack: version %u is not known", version);

    BZI_API_NEED_LOADER(batch->loader, 0);
    BZI_API_TRY(bzi_api_find_tensor(batch, name, &number, &e));
    BZI_API_END(bzi_batch_export(batch, number, version, tensor, &e));
}

BZNA_API bzna_status bzna_batch_move(bzna_batch *batch, void *stream, bzna_error *err)
{
    bzi_device *device;
    bzna_status status;
    uint32_t tensors;
    int owned;

    BZI_API_BEGIN_WITH(batch);
    BZI_API_NEED_LOADER(batch->loader, 0);

    if (!batch->setup->on_device)
        BZI_API_FAIL(BZNA_E_UNSUPPORTED, "bzna_batch_move: the batch is on the host");
    if (!stream)
        BZI_API_MISUSE(
            "bzna_batch_move: stream is NULL; the default streams are BZNA_STREAM_LEGACY and BZNA_STREAM_PER_THREAD");
    bzi_queues_lock(batch->queues);
    owned = bzi_batch_is_owned(batch);
    tensors = batch->references - batch->owned;
    bzi_queues_unlock(batch->queues);
    if (!owned)
        BZI_API_FAIL(BZNA_E_STATE, "bzna_batch_move: the batch is not on loan");
    if (tensors && (uintptr_t)stream == BZNA_STREAM_PER_THREAD)
        BZI_API_FAIL(BZNA_E_STATE, "bzna_batch_move: cannot move to BZNA_STREAM_PER_THREAD while %u DLPack tensors are "
                     "out; their deleters may run on other threads", tensors);

    device = batch->setup->device;
    BZI_API_TRY(bzi_device_enter(device, &e));
    /* the event has no other use before the release, which records it again */
    if ((status = bzi_device_record(device, batch->released, batch->stream, &e)) == BZNA_OK &&
        (status = bzi_device_order(device, stream, batch->released, &e)) == BZNA_OK)
        batch->stream = stream;
    bzi_device_leave(device);
    BZI_API_END(status);
}

BZNA_API bzna_status bzna_batch_release(bzna_batch *batch)
{
    int owned;

    if (!batch)
        return BZNA_OK;
    if (bzi_loader_forked(batch->loader))
        return BZNA_E_STATE;

    bzi_queues_lock(batch->queues);
    owned = bzi_batch_is_owned(batch);                      /* 0: its owner has released it before */
    batch->owned = 0;
    bzi_queues_unlock(batch->queues);
    if (!owned)
        return BZNA_E_STATE;
    bzi_batch_unref(batch);                                 /* DLPack tensors may keep it on loan */
    return BZNA_OK;
}


/* ==== 92. Public API: writers ======================================================================================
 * Calls: all rooms above. */

#ifndef BENZINA_NO_WRITER

static bzna_status bzi_api_writer(bzna_context *context, const char *path, const bzna_sink *sink,
                                  const bzna_writer_config *config, bzna_writer **out, bzna_error *err)
{
    bzna_writer_config c = { 0 };
    bzna_sink callbacks;

    if (sink && bzi_settings_in(&callbacks, sizeof callbacks, sink, BZI_OF_sink, "sink", err) != BZNA_OK)
        return err->status;
    if (sink && !callbacks.write_at)
        return BZI_MISUSE(err, "sink.write_at: required");
    if (config && bzi_settings_in(&c, sizeof c, config, BZI_OF_writer_config, "writer_config", err) != BZNA_OK)
        return err->status;
    bzi_settings_resolve(BZI_OF_writer_config, &c);
    return bzi_writer_make(context->host, path, sink ? &callbacks : NULL, &c, out, err);
}

BZNA_API bzna_status bzna_writer_open(bzna_context *context, const char *path, const bzna_writer_config *config,
                                      bzna_writer **out, bzna_error *err)
{
    BZI_API_BEGIN_OUT(out, context, path);
    if (!*path)
        BZI_API_FAIL(BZNA_E_NOT_FOUND, "bzna_writer_open: the path is empty");
    BZI_API_END(bzi_api_writer(context, path, NULL, config, out, &e));
}

BZNA_API bzna_status bzna_writer_open_sink(bzna_context *context, const bzna_sink *sink,
                                           const bzna_writer_config *config, bzna_writer **out, bzna_error *err)
{
    BZI_API_BEGIN_OUT(out, context, sink);
    BZI_API_END(bzi_api_writer(context, NULL, sink, config, out, &e));
}

BZNA_API bzna_status bzna_writer_add(bzna_writer *writer, uint64_t index, const bzna_writer_sample *sample,
                                     int64_t timeout_ns, bzna_error *err)
{
    bzna_writer_sample all;

    BZI_API_BEGIN_WITH(writer);
    BZI_API_TRY(bzi_api_check_timeout(timeout_ns, __func__, &e));
    if (index == BZNA_INDEX_NEXT)
        BZI_API_NEED(sample);
    else if (index >= UINT32_MAX)
        BZI_API_FAIL(BZNA_E_RANGE, "bzna_writer_add: index %llu is above %u", (bzi_llu)index, UINT32_MAX - 1);
    if (sample) {
        BZI_API_TRY(bzi_settings_in(&all, sizeof all, sample, BZI_OF_writer_sample, "sample", &e));
        if (all.has_target && all.target == BZNA_TARGET_NONE)
            BZI_API_MISUSE("sample.target: -1 stands for a sample without a target; set has_target to 0 for that");
        if (!all.has_target && all.target != 0 && all.target != BZNA_TARGET_NONE)
            BZI_API_MISUSE("sample.target: %lld, but has_target is 0", (long long)all.target);
        if (!all.image)
            BZI_API_MISUSE("sample.image: required");
        all.target = all.has_target ? all.target : BZNA_TARGET_NONE;
    }
    BZI_API_END(bzi_writer_add(writer, index, sample ? &all : NULL, timeout_ns, &e));
}

BZNA_API bzna_status bzna_writer_finish(bzna_writer *writer, bzna_error *err)
{
    BZI_API_BEGIN_WITH(writer);
    BZI_API_END(bzi_api_logged(writer->host, bzi_writer_finish(writer, &e)));
}

BZNA_API bzna_status bzna_writer_close(bzna_writer *writer)
{
    BZI_API_BEGIN_CLOSE(writer);
    bzi_writer_close(writer);
    return BZNA_OK;
}

#endif

BZI_FAST_BEGIN
