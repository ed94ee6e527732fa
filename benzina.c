/* benzina.c - the library in one file. Read benzina.h first: its opening comment is the manual.             MIT license
 *
 * Rooms, in order. A room calls only rooms above it; there are no forward declarations, so the compiler enforces that.
 *
 *       1  limits            named constants, each with its reason
 *       2  basics            checked arithmetic, big-endian loads, spans, versioned structs
 *       3  OS                files, folders, clock, threads; the only room that a port touches
 *       4  memory            the only caller of the user's allocator
 *     5-6  host              errors, log, limits; files, of which few are open at a time, and sources
 *       7  cursor            bounded bytes and bits, sticky overrun
 *    8-12  codecs            NAL units; AV1; JPEG; stills; the table of codecs
 *   13-14  HEIF              the items of a file and what they say, grids
 *   15-16  pictures          which codec; what a picture is
 *   17-18  boxes             mp4 boxes by table; fragments
 *      19  sample tables     where a track's samples lie
 *      20  containers        their types: what holds samples is a row of operations
 *      21  HEIF files        alone, or among other pictures
 *   22-23  mp4               archives, plain video; their samples
 *   24-26  folders           lists of samples; directories; pictures that are files
 *   27-29  tar               headers; WebDataset shards, with or without an index; their samples
 *   30-31  records           MXNet's RecordIO; records of one size
 *   32-33  opening           paths and patterns; the table of containers
 *   34-35  data sets         a sample, its pictures and fields; parts over containers
 *   36-38  writer            the same boxes, the other way: pictures, tracks, archives
 *      39  random, order     Philox, the keyed permutation, shards
 *      40  transforms        parameters -> homography, color -> matrix
 *      41  kernels           benzina_kernels.cu as plain C
 *      42  JPEG decode       libjpeg-turbo; nothing else touches it
 *   43-44  software decode   libavcodec; nothing else touches it; who decodes what; HEIF
 *   45-47  CUDA              NVIDIA's driver, opened at run time; a device; its memory, streams, events
 *   48-50  NVDEC             a session's decoders; sessions; their self-check; nothing else touches NVDEC
 *   51-54  loader            its state; the life of a batch, and the plan; fields; outputs; the locks live here
 *      55  readers           threads that read samples in the planned order
 *   56-58  decode stages     lanes: writing slots; workers: software; engines: NVDEC
 *      59  contexts          the host, the device and its pool
 *      60  parts, closing    a loader's batches, queues, order, threads
 *      61  delivering        what the consumer's calls do
 *   62-64  configuration     defaults, checks; outputs; opening
 *   65-68  public API        validate, delegate
 */

/* ==== 0. Includes ================================================================================================= */

#ifndef _GNU_SOURCE
#  define _GNU_SOURCE                 /* POSIX.1-2008, madvise, and Linux's thread affinity */
#endif
#ifndef _FILE_OFFSET_BITS
#  define _FILE_OFFSET_BITS 64
#endif

#include "benzina.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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
#endif

#ifndef BENZINA_NO_JPEG
#  include <setjmp.h>
#  include <jpeglib.h>
#  include <jerror.h>
#  ifndef LIBJPEG_TURBO_VERSION
#    error "this jpeglib.h is not libjpeg-turbo's: define BENZINA_NO_JPEG"
#  endif
#endif

#if defined(BENZINA_NO_AVCODEC) && defined(BENZINA_NO_JPEG)
#  define BZI_SOFTWARE 0                                    /* nothing is decoded in software */
#else
#  define BZI_SOFTWARE 1
#endif

_Static_assert(sizeof(bzna_error) == 256, "bzna_error is part of the ABI");
_Static_assert(sizeof(bzna_loader_state) == 128, "bzna_loader_state is part of the ABI");
_Static_assert(sizeof(void *) <= sizeof(uint64_t), "addresses travel as uint64_t");

#if defined(__GNUC__) || defined(__clang__)
#  define BZI_PRINTF(text, first) __attribute__((format(printf, text, first)))
#  define BZI_MAYBE_UNUSED __attribute__((unused))        /* not every build uses it */
#else
#  define BZI_PRINTF(text, first)
#  define BZI_MAYBE_UNUSED
#endif


/* ==== 1. Limits ======================================================================================================
 * Every bound on what a file or a caller may ask for. */

#define BZI_LIMIT_DEPTH          16u             /* box nesting; real files reach 8 */
#define BZI_LIMIT_TRACKS         64u             /* tracks of a movie; archives have 4, with split variants 13 */
/* boxes at file level, two a fragment, of which a video may have one a frame: bounds the walk over a hostile file */
#define BZI_LIMIT_TOP_BOXES      (1u << 22)
#define BZI_LIMIT_BOX_CHILDREN   1048576u        /* children of one box, likewise */
#define BZI_LIMIT_PARAMETER_SETS 16u /* VPS + SPS + PPS that a writer keeps for one picture; encoders send 3 */
#define BZI_LIMIT_CONFIG_BYTES   65536u /* parameter sets of one picture: each has a 16-bit length in hvcC and avcC */
/* samples of a data set whose repetitions are looked for, a bit each: 1 GiB */
#define BZI_LIMIT_SEEN           (1ull << 33)
#define BZI_LIMIT_NAME_BYTES     65536u          /* of a sample's file name */
#define BZI_LIMIT_PATH_BYTES     4096u           /* of a path, its NUL counted: Linux's own limit */
#define BZI_LIMIT_JPEG_SCANS     500u /* of one picture: encoders make about 10, and each is a pass over the picture */
/* coefficients that a decoder of progressive JPEGs keeps, 2 bytes each: those of 175 megapixels in 4:2:0 */
#define BZI_LIMIT_JPEG_BYTES     (512ull << 20)
/* decoded, of a still in however few bytes: a solid picture of 16 megapixels; larger ones need a coded byte for each
 * BZI_LIMIT_STILL_RATIO */
#define BZI_LIMIT_STILL_BYTES    (64u << 20)
#define BZI_LIMIT_STILL_RATIO    4096u           /* of real pictures, at most about 1000 */
#define BZI_LIMIT_ITEMS          4096u           /* of a HEIF file: phones write up to some 500 */
#define BZI_LIMIT_PROPERTIES     32u             /* of an item; writers need 10 */
#define BZI_LIMIT_TILES          1024u           /* of a grid: 16384 x 16384 in tiles of 512 */
#define BZI_LIMIT_TAR_EXTRA      16u             /* headers in a row that only describe a member; writers need 3 */
#define BZI_LIMIT_PAX_BYTES      (1u << 20)      /* of one of them; writers need a few kB */
#define BZI_LIMIT_BATCH          65536u
#define BZI_LIMIT_EDGE           16384u          /* of outputs; also the default for coded frames */
#define BZI_LIMIT_THREADS        1024u
#define BZI_LIMIT_READERS        256u
#define BZI_LIMIT_IN_FLIGHT      64u
#define BZI_LIMIT_READ_AHEAD     65536u
#define BZI_LIMIT_SESSIONS       256u /* decode sessions of a context: no device has a tenth of so many engines */
#define BZI_LIMIT_SESSION_DEPTH  16u             /* pictures that a session has submitted and not mapped */
#define BZI_LIMIT_VECTOR         65536u          /* numbers of a vector that is a tensor */
/* of a tar's members; a data set's samples have one more, the key */
#define BZI_LIMIT_FIELDS         64u
#define BZI_LIMIT_COLUMNS        16u             /* fields that a batch carries as tensors, and as bytes */
#define BZI_LIMIT_OUTPUTS        16u             /* of a loader: a lane keeps the slots of a launch for each */
#define BZI_LIMIT_VIEWS          64u             /* of a sample, in all outputs: a thread keeps a slot for each */
#define BZI_LIMIT_PARTS          65536u          /* archives of one data set */
#define BZI_LIMIT_OPEN_FILES     64u             /* of data sets, at once; a quarter of what the process may have */
/* until a read fails because the process has no descriptor left: longer than others take to read a sample */
#define BZI_DESCRIPTOR_WAIT_NS   1000000000u
#define BZI_LIMIT_MAPS           32768u          /* of files, in a context: Linux lets a process have 65530 */
#define BZI_LIMIT_FOLDERS        (1u << 20) /* in a class folder: links can make one folder appear in many places */
#define BZI_LIMIT_OPEN_THREADS   8u              /* that open files and list folders: more wait for the same disk */
#define BZI_LIMIT_REPLACEMENTS   64u /* samples tried for one slot: that many bad ones in a row are a bad data set */
#define BZI_LIMIT_RETRIES        1000u
#define BZI_LIMIT_SAMPLE_BYTES   (256ull << 20)  /* default: a 16k x 16k picture at 8 bits a pixel */
#define BZI_LIMIT_READ_BYTES     (1ull << 30)    /* default: what is read ahead */
#define BZI_THUMB_EDGE           512u            /* thumbnails have at most this edge, as the format asks */
#define BZI_LOG_QUEUE            32u             /* messages kept for the caller's next call */
#define BZI_BATCH_ALIGN          64u             /* a cache line, and what AVX-512 and DLPack consumers like */


/* ==== 2. Basics ======================================================================================================
 * Pure helpers. Checked arithmetic returns 0 on overflow and leaves *out alone. */

typedef struct bzi_span {
    const uint8_t *data;
    uint64_t       size;
} bzi_span;

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

static uint32_t bzi_be16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }
static uint32_t bzi_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static uint64_t bzi_be64(const uint8_t *p) { return (uint64_t)bzi_be32(p) << 32 | bzi_be32(p + 4); }

static uint32_t bzi_le32(const uint8_t *p)
{
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static uint64_t bzi_le64(const uint8_t *p)
{
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | p[i];
    return value;
}

#define BZI_FOURCC(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

/* A type as text for messages: what cannot be printed becomes '?'. */
static void bzi_fourcc_text(uint32_t type, char text[5])
{
    for (int i = 0; i < 4; i++) {
        uint32_t c = type >> (24 - 8 * i) & 255;
        text[i] = c > 32 && c < 127 ? (char)c : '?';
    }
    text[4] = 0;
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

/* Copies at most capacity - 1 bytes of text that may lack a NUL. */
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

static int bzi_is_space(uint32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Names from files go into messages: what is not printable ASCII becomes '?'. */
static void bzi_text_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 32 || (unsigned char)*text > 126)
            *text = '?';
}

static void bzi_string_copy(char *dst, size_t capacity, const char *src)
{
    bzi_text_copy(dst, capacity, (const uint8_t *)src, strlen(src));
}

/* The smallest i below count for which is_past(array, i, value); count when there is none. Pre: it holds for all that
 * follow, too. */
static uint64_t bzi_search(const void *array, uint64_t count, const void *value,
                           int (*is_past)(const void *array, uint64_t i, const void *value))
{
    uint64_t low = 0, high = count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (is_past(array, middle, value))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Moves the element at root down until none below it stands behind it. */
static void bzi_sort_sift(uint8_t *a, uint64_t root, uint64_t end, size_t size,
                          int (*is_before)(const void *a, const void *b))
{
    uint8_t moved[64];
    uint64_t child;
    memcpy(moved, a + root * size, size);
    for (; (child = 2 * root + 1) < end; root = child) {
        child += child + 1 < end && is_before(a + child * size, a + (child + 1) * size);
        if (!is_before(moved, a + child * size))
            break;
        memcpy(a + root * size, a + child * size, size);
    }
    memcpy(a + root * size, moved, size);
}

/* Heapsort: in place, and n log n steps whatever the order was. Pre: size <= 64. */
static void bzi_sort(void *array, uint64_t count, size_t size, int (*is_before)(const void *a, const void *b))
{
    uint8_t *a = array, last[64];
    for (uint64_t root = count / 2; root-- > 0;)
        bzi_sort_sift(a, root, count, size, is_before);
    for (uint64_t end = count; end-- > 1;) {
        memcpy(last, a + end * size, size);
        memcpy(a + end * size, a, size);
        memcpy(a, last, size);
        bzi_sort_sift(a, 0, end, size, is_before);
    }
}

/* FNV-1a: fingerprints and check sums of states; not for hostile keys. */
static uint64_t bzi_hash(uint64_t hash, const void *data, size_t size)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ p[i]) * 0x100000001b3ull;
    return hash;
}
#define BZI_HASH_START 0xcbf29ce484222325ull

/* Versioned structs. In: copies what both know; a larger struct must have a zero tail. Out: the caller gets what it
 * knows. */
static int bzi_struct_in(void *dst, size_t known, const void *src)
{
    uint32_t given;
    memcpy(&given, src, sizeof given);
    memset(dst, 0, known);
    if (given < sizeof given)
        return 0;
    for (size_t i = known; i < given; i++)
        if (((const uint8_t *)src)[i])
            return 0;
    memcpy(dst, src, given < known ? given : known);
    return 1;
}

static void bzi_struct_out(void *dst, size_t given, void *src, size_t known)
{
    uint32_t size = (uint32_t)(given < known ? given : known);
    if (given < sizeof size || given > UINT32_MAX)
        return;
    memcpy(src, &size, sizeof size);
    memcpy(dst, src, size);
    if (given > known)
        memset((uint8_t *)dst + known, 0, given - known);
    size = (uint32_t)given;
    memcpy(dst, &size, sizeof size);
}

static void bzi_struct_init(void *config, size_t given)
{
    uint32_t size = (uint32_t)given;
    if (!config || given < sizeof size || given > UINT32_MAX)
        return;
    memset(config, 0, given);
    memcpy(config, &size, sizeof size);
}


/* ==== 3. OS ==========================================================================================================
 * The only room with system calls. Functions return 0 or an errno. */

typedef struct bzi_file {
    int      fd;
    uint64_t size;
    int64_t  modified_ns;             /* when it was changed last, in nanoseconds since 1970 */
    void    *map;                     /* the whole file, or NULL */
    uint64_t id[4];                   /* device, inode, time of the last change */
} bzi_file;

typedef pthread_mutex_t bzi_mutex;
typedef pthread_cond_t  bzi_cond;
typedef pthread_t       bzi_thread;

/* Nesting of user callbacks on this thread: closing inside one would wait for itself. */
static _Thread_local int bzi_os_in_callback;

static int bzi_os_file_open(bzi_file *file, const char *path, int write)
{
    struct stat info;
    memset(file, 0, sizeof *file);
    if (write)
        file->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    else
        file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not block here; files do not care */
    if (file->fd < 0)
        return errno;
    if (fstat(file->fd, &info)) {
        int error = errno;
        close(file->fd);
        return error;
    }
    if (S_ISDIR(info.st_mode)) {
        close(file->fd);
        return EISDIR;
    }
    file->size = (uint64_t)info.st_size;
    file->modified_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    file->id[0] = (uint64_t)info.st_dev;
    file->id[1] = (uint64_t)info.st_ino;
    file->id[2] = (uint64_t)info.st_mtim.tv_sec;
    file->id[3] = (uint64_t)info.st_mtim.tv_nsec;
    return 0;
}

/* Its size now: a file may be shortened while it is open. */
static uint64_t bzi_os_file_size(const bzi_file *file)
{
    struct stat info;
    return fstat(file->fd, &info) ? file->size : (uint64_t)info.st_size;
}

/* How many files the process may have open. */
static uint64_t bzi_os_file_limit(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) ? 256 : (uint64_t)limit.rlim_cur;
}

/* Mapping is an optimization: without it the index is read in one piece. */
static void bzi_os_file_map(bzi_file *file)
{
    if (file->size == 0 || file->size > SIZE_MAX)
        return;
    file->map = mmap(NULL, (size_t)file->size, PROT_READ, MAP_SHARED, file->fd, 0);
    if (file->map == MAP_FAILED)
        file->map = NULL;
}

/* Lets go of the pages that a walk over the map has touched; they come back from the page cache when they are
 * needed. */
static void bzi_os_file_drop_pages(bzi_file *file)
{
#ifdef MADV_DONTNEED
    if (file->map)                    /* shared and read-only: nothing can be lost */
        madvise(file->map, (size_t)file->size, MADV_DONTNEED);
#endif
}

static void bzi_os_file_close(bzi_file *file)
{
    if (file->map)
        munmap(file->map, (size_t)file->size);
    if (file->fd >= 0)
        close(file->fd);
}

static void bzi_os_descriptor_close(int fd) { close(fd); }

/* Bytes read (0 at the end), or -errno. */
static int64_t bzi_os_file_read_at(void *user, uint64_t offset, void *dst, uint64_t size)
{
    const bzi_file *file = user;
    ssize_t n;
    if (offset > INT64_MAX)
        return 0;
    do
        n = pread(file->fd, dst, (size_t)bzi_min(size, 1u << 30), (off_t)offset);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -(int64_t)errno : (int64_t)n;
}

BZI_MAYBE_UNUSED static int bzi_os_file_write_at(bzi_file *file, uint64_t offset, const void *src, uint64_t size)
{
    const uint8_t *p = src;
    while (size) {
        ssize_t n = pwrite(file->fd, p, (size_t)bzi_min(size, 1u << 30), (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        p += n;
        offset += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return 0;
}

/* What a path names. A link is what it leads to; NONE: nothing is there, or it cannot be known. */
enum { BZI_OS_NONE, BZI_OS_FILE, BZI_OS_FOLDER, BZI_OS_OTHER };

static int bzi_os_kind_at(int folder, const char *path)
{
    struct stat info;
    if (fstatat(folder, path, &info, 0))
        return BZI_OS_NONE;
    return S_ISREG(info.st_mode) ? BZI_OS_FILE : S_ISDIR(info.st_mode) ? BZI_OS_FOLDER : BZI_OS_OTHER;
}

static int bzi_os_kind(const char *path) { return bzi_os_kind_at(AT_FDCWD, path); }

typedef struct bzi_os_folder {
    DIR     *entries;
    uint64_t id[2];                   /* what tells it from all others: device, inode */
} bzi_os_folder;

static int bzi_os_folder_open(bzi_os_folder *folder, const char *path)
{
    struct stat info;
    folder->entries = opendir(path);
    if (!folder->entries)
        return errno;
    if (fstat(dirfd(folder->entries), &info)) {
        int error = errno;
        closedir(folder->entries);
        return error;
    }
    folder->id[0] = (uint64_t)info.st_dev;
    folder->id[1] = (uint64_t)info.st_ino;
    return 0;
}

/* The next name, and what it is: as the folder says, without a look at the file where that is known. NULL: there are no
 * more, or *error. */
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

/* The paths that match a pattern of *, ? and [], in no order; what follows a backslash stands for itself. Returns 0,
 * ENOENT (there are none) or ENOMEM; 0: bzi_os_glob_free frees them. */
static int bzi_os_glob(const char *pattern, glob_t *matches)
{
    int error = glob(pattern, GLOB_NOSORT, NULL, matches);
    if (error == 0)
        return 0;
    globfree(matches);
    return error == GLOB_NOSPACE ? ENOMEM : ENOENT;
}

static void bzi_os_glob_free(glob_t *matches) { globfree(matches); }

/* The working folder's path, for paths to be kept. Returns 0 where it has none, or a longer one. */
static int bzi_os_here(char *path, size_t capacity) { return getcwd(path, capacity) && path[0] == '/'; }

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

/* A shared library that the program need not have; NULL: there is none. */
BZI_MAYBE_UNUSED static void *bzi_os_library(const char *name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }
BZI_MAYBE_UNUSED static void *bzi_os_symbol(void *library, const char *name) { return dlsym(library, name); }

/* What the environment says, or NULL. */
BZI_MAYBE_UNUSED static const char *bzi_os_setting(const char *name) { return getenv(name); }

BZI_MAYBE_UNUSED static void bzi_os_sleep_ns(uint64_t ns)
{
    struct timespec t = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
    nanosleep(&t, NULL);
}

static int64_t bzi_os_process(void) { return (int64_t)getpid(); }

static int bzi_os_thread_place(pthread_attr_t *attributes, int32_t cpu)
{
#ifdef __linux__
    cpu_set_t set;
    if (cpu < 0)
        return 0;
    if (cpu >= CPU_SETSIZE)
        return EINVAL;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return pthread_attr_setaffinity_np(attributes, sizeof set, &set);
#else
    (void)attributes;
    return cpu < 0 ? 0 : ENOTSUP;
#endif
}

/* cpu < 0: anywhere. The library's threads block signals: handlers run on the program's own threads. Not those that a
 * thread causes itself, which a host may want to handle in its callbacks (Julia's garbage collector does). */
static int bzi_os_thread_start(bzi_thread *thread, void *(*run)(void *), void *argument, int32_t cpu)
{
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
    pthread_attr_t attributes;
    sigset_t blocked, old;
    int error = pthread_attr_init(&attributes);
    if (error)
        return error;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &old);
    if ((error = bzi_os_thread_place(&attributes, cpu)) == 0)
        error = pthread_create(thread, &attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

static void bzi_os_thread_join(bzi_thread thread) { pthread_join(thread, NULL); }

static int bzi_os_mutex_init(bzi_mutex *mutex) { return pthread_mutex_init(mutex, NULL); }
static void bzi_os_mutex_free(bzi_mutex *mutex) { pthread_mutex_destroy(mutex); }
static void bzi_os_lock(bzi_mutex *mutex) { pthread_mutex_lock(mutex); }
static void bzi_os_unlock(bzi_mutex *mutex) { pthread_mutex_unlock(mutex); }

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

static void bzi_os_cond_free(bzi_cond *cond) { pthread_cond_destroy(cond); }
static void bzi_os_wake_one(bzi_cond *cond) { pthread_cond_signal(cond); }
static void bzi_os_wake_all(bzi_cond *cond) { pthread_cond_broadcast(cond); }
static void bzi_os_wait(bzi_cond *cond, bzi_mutex *mutex) { pthread_cond_wait(cond, mutex); }

/* Returns 0 when woken (perhaps for nothing), 1 when deadline_ns has passed. */
static int bzi_os_wait_until(bzi_cond *cond, bzi_mutex *mutex, uint64_t deadline_ns)
{
    struct timespec t;
    t.tv_sec = (time_t)(deadline_ns / 1000000000u);
    t.tv_nsec = (long)(deadline_ns % 1000000000u);
    return pthread_cond_timedwait(cond, mutex, &t) == ETIMEDOUT;
}

static void *bzi_os_alloc(void *user, size_t size, size_t align)
{
    void *p = NULL;
    (void)user;
    return posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, size) ? NULL : p;
}

static void bzi_os_release(void *user, void *ptr, size_t size)
{
    (void)user;
    (void)size;
    free(ptr);
}


/* ==== 4. Memory ======================================================================================================
 * Calls: rooms 2. The only caller of the user's allocator. Sizes are counted in 64 bits and checked. Who allocates
 * remembers the size, because release gets it back. */

typedef struct bzi_memory {
    bzna_allocator allocator;
} bzi_memory;

static void *bzi_alloc(const bzi_memory *memory, uint64_t count, uint64_t size, size_t align)
{
    uint64_t bytes;
    void *p;
    if (!bzi_mul(count, size, &bytes) || bytes > PTRDIFF_MAX)
        return NULL;
    bzi_os_in_callback++;
    p = memory->allocator.alloc(memory->allocator.user, bytes ? (size_t)bytes : 1, align);
    bzi_os_in_callback--;
    return p;
}

static void *bzi_alloc_zero(const bzi_memory *memory, uint64_t count, uint64_t size)
{
    void *p = bzi_alloc(memory, count, size, 16);
    if (p)
        memset(p, 0, (size_t)(count * size));
    return p;
}

static void bzi_release(const bzi_memory *memory, void *ptr, uint64_t count, uint64_t size)
{
    size_t bytes = (size_t)(count * size);
    if (!ptr)
        return;
    bzi_os_in_callback++;
    memory->allocator.release(memory->allocator.user, ptr, bytes ? bytes : 1);
    bzi_os_in_callback--;
}

/* A buffer that only grows. */
typedef struct bzi_buffer {
    uint8_t *data;
    uint64_t capacity;
} bzi_buffer;

/* Makes room for size bytes; what was there is kept if keep. Returns 0 when memory is out, and the buffer is as it
 * was. Small ones and those that are kept are aligned as malloc does it: of what is aligned more, glibc before 2.38
 * leaves holes that it cannot use again, so that opening many files would take several times what they keep. */
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
    if (keep && buffer->capacity)
        memcpy(data, buffer->data, (size_t)buffer->capacity);
    bzi_release(memory, buffer->data, buffer->capacity, 1);
    buffer->data = data;
    buffer->capacity = capacity;
    return 1;
}

/* A private copy of count elements; NULL when memory is out. */
static void *bzi_alloc_copy(const bzi_memory *memory, const void *from, uint64_t count, uint64_t size)
{
    void *copy = bzi_alloc(memory, count, size, 16);
    if (copy && count)
        memcpy(copy, from, (size_t)(count * size));
    return copy;
}

static void bzi_buffer_free(const bzi_memory *memory, bzi_buffer *buffer)
{
    bzi_release(memory, buffer->data, buffer->capacity, 1);
    buffer->data = NULL;
    buffer->capacity = 0;
}

/* The keys of a small cache: those of the slots used last stay. What belongs to a slot, its owner keeps under the same
 * index. */
#define BZI_LRU_SLOTS 8u

typedef struct bzi_lru_slot {
    bzi_buffer key;
    uint64_t   size;                  /* of the key */
    uint64_t   used;                  /* when, by the clock; 0: the slot is free */
} bzi_lru_slot;

typedef struct bzi_lru {
    bzi_lru_slot slots[BZI_LRU_SLOTS];
    uint64_t     clock;
} bzi_lru;

/* Returns 1, and the slot of this key. Else 0, and the slot to give to it: a free one, else the one that was not used
 * for longest. */
BZI_MAYBE_UNUSED static int bzi_lru_find(bzi_lru *lru, const uint8_t *key, uint64_t size, uint32_t *index)
{
    lru->clock++;
    *index = 0;
    for (uint32_t i = 0; i < BZI_LRU_SLOTS; i++) {
        bzi_lru_slot *slot = &lru->slots[i];
        if (slot->used && slot->size == size && !memcmp(slot->key.data, key, (size_t)size)) {
            slot->used = lru->clock;
            *index = i;
            return 1;
        }
        if (slot->used < lru->slots[*index].used)
            *index = i;
    }
    return 0;
}

/* Makes a slot free. */
BZI_MAYBE_UNUSED static void bzi_lru_forget(bzi_lru *lru, uint32_t index) { lru->slots[index].used = 0; }

/* Gives a slot to a key. Returns 0 when memory is out, and the slot is free. */
BZI_MAYBE_UNUSED static int bzi_lru_set(bzi_lru *lru, const bzi_memory *memory, uint32_t index, const uint8_t *key,
                                 uint64_t size)
{
    bzi_lru_slot *slot = &lru->slots[index];
    bzi_lru_forget(lru, index);
    if (!bzi_buffer_reserve(memory, &slot->key, size, 0))
        return 0;
    memcpy(slot->key.data, key, (size_t)size);
    slot->size = size;
    slot->used = lru->clock;
    return 1;
}

BZI_MAYBE_UNUSED static void bzi_lru_free(bzi_lru *lru, const bzi_memory *memory)
{
    for (uint32_t i = 0; i < BZI_LRU_SLOTS; i++) {
        bzi_lru_forget(lru, i);
        bzi_buffer_free(memory, &lru->slots[i].key);
    }
}


/* ==== 5. Host ========================================================================================================
 * Calls: rooms 2-4. Inside the library a bzna_error is always there and whole; the public API copies it to the
 * caller's. */

static const char *bzi_status_name(bzna_status status)
{
    switch (status) {
#define BZI_STATUS_NAME(name, number, text) case number: return "BZNA_" #name;
    BZNA_STATUS_MAP(BZI_STATUS_NAME)
#undef BZI_STATUS_NAME
    default: return "BZNA_?";
    }
}

static const char *bzi_status_text(bzna_status status)
{
    switch (status) {
#define BZI_STATUS_TEXT(name, number, text) case number: return text;
    BZNA_STATUS_MAP(BZI_STATUS_TEXT)
#undef BZI_STATUS_TEXT
    default: return "unknown status";
    }
}

static void bzi_error_init(bzna_error *err)
{
    memset(err, 0, sizeof *err);
    err->struct_size = sizeof *err;
    err->byte_offset = BZNA_NO_OFFSET;
}

BZI_PRINTF(6, 7)
static bzna_status bzi_fail(bzna_error *err, bzna_status status, uint64_t offset, uint32_t fourcc, int64_t native,
                            const char *format, ...)
{
    va_list arguments;
    bzi_error_init(err);
    err->status = status;
    err->byte_offset = offset;
    err->fourcc = fourcc;
    err->native_code = native < INT32_MIN || native > INT32_MAX ? -1 : (int32_t)native;
    va_start(arguments, format);
    if (vsnprintf(err->message, sizeof err->message, format, arguments) >= (int)sizeof err->message)
        bzi_text_trim(err->message);
    va_end(arguments);
    return status;
}

#define BZI_FAIL(err, status, ...) bzi_fail((err), (status), BZNA_NO_OFFSET, 0, 0, __VA_ARGS__)

static bzna_status bzi_fail_memory(bzna_error *err, const char *what)
{
    return BZI_FAIL(err, BZNA_E_MEMORY, "out of memory for %s", what);
}

/* Puts "name: " before the message; of a long name, its end. */
static bzna_status bzi_error_prefix(bzna_error *err, const char *name)
{
    char message[sizeof err->message + 128];
    size_t length = strlen(name);
    const char *end = length > 96 ? name + length - 96 : name;
    while (end > name && ((unsigned char)*end & 0xc0) == 0x80)
        end++;                                              /* not in the middle of a character */
    snprintf(message, sizeof message, "%s%s: %s", length > 96 ? "..." : "", end, err->message);
    bzi_string_copy(err->message, sizeof err->message, message);
    return err->status;
}

typedef struct bzi_log_entry {
    int32_t     level;
    bzna_status code;
    char        message[248];
} bzi_log_entry;

/* A file of a data set. It is closed when others need its descriptor, and opened again when it is read. */
typedef struct bzi_shared_file {
    struct bzi_files *files;
    char             *path;           /* absolute: the working folder may change */
    uint64_t          path_size;
    bzi_file          file;           /* fd -1: it is closed; what is mapped stays mapped */
    uint32_t          was_open;       /* the file is known, and must stay the same */
    uint32_t          opening;        /* by a thread, without the lock */
    uint32_t          pins;           /* reads under way: it must not be closed */
    uint32_t          idle;           /* open and not pinned: in the list */
    struct bzi_shared_file *newer, *older;
} bzi_shared_file;

/* A context's open files. */
typedef struct bzi_files {
    bzi_mutex        mutex;           /* leaf lock; not held while files are opened, closed or read */
    bzi_cond         wake;            /* a file was opened or unpinned, or a descriptor is free */
    uint32_t         waiting;
    uint32_t         open, limit;
    uint32_t         maps;
    bzi_shared_file *newest, *oldest; /* of the idle ones, by when they were last read */
} bzi_files;

/* What every room may use: memory, log, limits, open files. A context owns one; what is made from the context holds a
 * reference of its own. */
typedef struct bzi_host {
    bzi_memory   memory;
    atomic_int   references;
    uint64_t     max_sample_bytes;
    uint32_t     max_edge_px;
    uint32_t     log_any_thread;
    bzna_log_fn  log;
    void        *log_user;
    int32_t      log_level;
    bzi_mutex    log_mutex;           /* leaf lock over the queue; never held across the user's function */
    uint32_t     log_count, log_lost;
    bzi_log_entry log_queue[BZI_LOG_QUEUE];
    bzi_files    files;
} bzi_host;

static void bzi_host_retain(bzi_host *host) { atomic_fetch_add(&host->references, 1); }

static void bzi_host_drop(bzi_host *host)
{
    if (atomic_fetch_sub(&host->references, 1) == 1) {
        bzi_memory memory = host->memory;
        bzi_os_cond_free(&host->files.wake);
        bzi_os_mutex_free(&host->files.mutex);
        bzi_os_mutex_free(&host->log_mutex);
        bzi_release(&memory, host, 1, sizeof *host);
    }
}

/* The host's locks. Returns 0 where there are none. */
static int bzi_host_make_locks(bzi_host *host)
{
    if (bzi_os_mutex_init(&host->log_mutex))
        return 0;
    if (!bzi_os_mutex_init(&host->files.mutex)) {
        if (!bzi_os_cond_init(&host->files.wake))
            return 1;
        bzi_os_mutex_free(&host->files.mutex);
    }
    bzi_os_mutex_free(&host->log_mutex);
    return 0;
}

/* config is checked and complete. */
static bzna_status bzi_host_open(const bzna_context_config *config, bzi_host **out, bzna_error *err)
{
    bzi_memory memory = { config->allocator };
    bzi_host *host = bzi_alloc_zero(&memory, 1, sizeof *host);
    if (!host)
        return bzi_fail_memory(err, "a context");
    host->memory = memory;
    atomic_init(&host->references, 1);
    host->max_sample_bytes = config->max_sample_bytes;
    host->max_edge_px = config->max_edge_px;
    host->log = config->log;
    host->log_user = config->log_user;
    host->log_level = config->log_level;
    host->log_any_thread = config->log_any_thread;
    host->files.limit = (uint32_t)bzi_min(bzi_os_file_limit() / 4, BZI_LIMIT_OPEN_FILES);
    host->files.limit = host->files.limit < 4 ? 4 : host->files.limit;
    if (!bzi_host_make_locks(host)) {
        bzi_release(&memory, host, 1, sizeof *host);
        return BZI_FAIL(err, BZNA_E_THREAD, "cannot make a lock");
    }
    *out = host;
    return BZNA_OK;
}

static void bzi_log_call(bzi_host *host, int32_t level, bzna_status code, const char *message)
{
    bzi_os_in_callback++;
    host->log(host->log_user, level, code, message);
    bzi_os_in_callback--;
}

/* From any thread: queued for the caller's next call, unless the user wants it at once. */
BZI_PRINTF(4, 5)
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
        bzi_log_call(host, level, code, entry.message);
        return;
    }
    bzi_os_lock(&host->log_mutex);
    if (host->log_count < BZI_LOG_QUEUE) {
        host->log_queue[host->log_count++] = entry;
    } else {
        if (level < host->log_queue[BZI_LOG_QUEUE - 1].level)           /* an error among many warnings */
            host->log_queue[BZI_LOG_QUEUE - 1] = entry;
        host->log_lost++;
    }
    bzi_os_unlock(&host->log_mutex);
}

/* On the caller's thread, with no lock held. */
static void bzi_log_deliver(bzi_host *host)
{
    bzi_log_entry entry;
    uint32_t lost = 0;
    if (!host->log || host->log_any_thread || bzi_os_in_callback)
        return;
    for (;;) {
        bzi_os_lock(&host->log_mutex);
        if (host->log_count == 0) {
            lost = host->log_lost;
            host->log_lost = 0;
            bzi_os_unlock(&host->log_mutex);
            break;
        }
        entry = host->log_queue[0];
        host->log_count--;
        memmove(host->log_queue, host->log_queue + 1, host->log_count * sizeof entry);
        bzi_os_unlock(&host->log_mutex);
        bzi_log_call(host, entry.level, entry.code, entry.message);
    }
    if (lost) {
        snprintf(entry.message, sizeof entry.message, "%u more messages were dropped", lost);
        bzi_log_call(host, BZNA_LOG_WARNING, BZNA_OK, entry.message);
    }
}

/* The same work on many things, shared by threads. */
typedef struct bzi_crew {
    bzna_status (*each)(void *user, uint64_t index, bzna_error *err);
    void            *user;
    uint64_t         count;
    _Atomic uint64_t next;
    _Atomic uint64_t failed;          /* the first index that did; count: none */
    bzi_mutex        mutex;           /* leaf lock over err and changes of failed */
    bzna_error       err;
} bzi_crew;

static void *bzi_crew_run(void *argument)
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
    return NULL;
}

/* Calls each(user, i) for all i below count, on this thread and others; not for all when one fails. The error is that
 * of the first i that fails, whatever the threads do. */
static bzna_status bzi_parallel(bzna_status (*each)(void *user, uint64_t index, bzna_error *err), void *user,
                                uint64_t count, bzna_error *err)
{
    bzi_crew crew = { .each = each, .user = user, .count = count };
    bzi_thread threads[BZI_LIMIT_OPEN_THREADS];
    uint64_t wanted = bzi_min(bzi_min(bzi_os_processors(), BZI_LIMIT_OPEN_THREADS), count);
    uint32_t started = 0;
    atomic_init(&crew.failed, count);
    if (bzi_os_mutex_init(&crew.mutex))
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


/* ==== 6. Host: files, sources ========================================================================================
 * Calls: rooms 2-5. Where bytes come from. A context has only so many files of its data sets open at once. */

/* --- Open files --- */

static void bzi_files_link(bzi_files *files, bzi_shared_file *f)
{
    f->idle = 1;
    f->older = files->newest;
    f->newer = NULL;
    if (f->older)
        f->older->newer = f;
    else
        files->oldest = f;
    files->newest = f;
}

static void bzi_files_unlink(bzi_files *files, bzi_shared_file *f)
{
    f->idle = 0;
    if (f->newer)
        f->newer->older = f->older;
    else
        files->newest = f->older;
    if (f->older)
        f->older->newer = f->newer;
    else
        files->oldest = f->newer;
}

static void bzi_files_changed(bzi_files *files)
{
    if (files->waiting)
        bzi_os_wake_all(&files->wake);
}

/* The descriptor of the file that was not read for longest, which the caller closes; -1: none is idle. */
static int bzi_files_evict(bzi_files *files)
{
    bzi_shared_file *f = files->oldest;
    int fd;
    if (!f)
        return -1;
    bzi_files_unlink(files, f);
    fd = f->file.fd;
    f->file.fd = -1;
    return fd;
}

/* The process has no descriptor left: that of an idle file, in *fd, which the caller closes; or -1, after a short wait
 * for one that others read, or that is not ours. Returns 0 when there was none until *deadline_ns, which is set when it
 * is 0. With the lock, which it gives up meanwhile. */
static int bzi_files_give_way(bzi_files *files, uint64_t *deadline_ns, int *fd)
{
    const uint64_t now = bzi_os_now_ns();
    *fd = bzi_files_evict(files);
    files->open -= *fd >= 0;
    if (*fd >= 0)
        return 1;
    *deadline_ns = *deadline_ns ? *deadline_ns : now + BZI_DESCRIPTOR_WAIT_NS;
    if (now >= *deadline_ns)
        return 0;
    files->waiting++;
    bzi_os_wait_until(&files->wake, &files->mutex, now + BZI_DESCRIPTOR_WAIT_NS / 100);
    files->waiting--;
    return 1;
}

static bzna_status bzi_file_fail_open(int error, bzna_error *err)
{
    return bzi_fail(err, error == ENOENT || error == ENOTDIR ? BZNA_E_NOT_FOUND : BZNA_E_IO, BZNA_NO_OFFSET, 0, error,
                    "cannot open: %s", strerror(error));
}

/* Opens it, first or again, in the place of the descriptor fd, if that is one. Without the lock. */
static bzna_status bzi_file_open(const bzi_shared_file *f, int fd, bzi_file *file, bzna_error *err)
{
    int error;
    if (fd >= 0)
        bzi_os_descriptor_close(fd);
    if ((error = bzi_os_file_open(file, f->path, 0)) != 0)
        return bzi_file_fail_open(error, err);
    if (!f->was_open || (file->size == f->file.size && !memcmp(file->id, f->file.id, sizeof file->id)))
        return BZNA_OK;
    bzi_os_descriptor_close(file->fd);
    return BZI_FAIL(err, BZNA_E_IO, "the file has changed since it was opened");
}

/* Has it open. With the lock, which it gives up meanwhile. */
static bzna_status bzi_files_need(bzi_files *files, bzi_shared_file *f, bzna_error *err)
{
    bzna_status status;
    bzi_file file;
    uint64_t deadline_ns = 0;
    int fd = -1;
    while (f->opening || (f->file.fd < 0 && files->open == files->limit && !files->oldest)) {
        files->waiting++;
        bzi_os_wait(&files->wake, &files->mutex);
        files->waiting--;
    }
    if (f->file.fd >= 0)
        return BZNA_OK;
    if (files->open == files->limit)
        fd = bzi_files_evict(files);
    else
        files->open++;
    f->opening = 1;
    do {
        bzi_os_unlock(&files->mutex);
        status = bzi_file_open(f, fd, &file, err);
        bzi_os_lock(&files->mutex);
    } while (status != BZNA_OK && err->native_code == EMFILE && bzi_files_give_way(files, &deadline_ns, &fd));
    f->opening = 0;
    if (status == BZNA_OK) {
        file.map = f->file.map;
        f->file = file;
        f->was_open = 1;
    } else {
        files->open--;
    }
    bzi_files_changed(files);
    return status;
}

/* BZNA_OK: f->file can be read until bzi_file_unpin. */
static bzna_status bzi_file_pin(bzi_shared_file *f, bzna_error *err)
{
    bzi_files *files = f->files;
    bzna_status status = BZNA_OK;
    bzi_os_lock(&files->mutex);
    if (f->file.fd < 0)
        status = bzi_files_need(files, f, err);
    if (status == BZNA_OK) {
        if (f->idle)
            bzi_files_unlink(files, f);
        f->pins++;
    }
    bzi_os_unlock(&files->mutex);
    return status;
}

static void bzi_file_unpin(bzi_shared_file *f)
{
    bzi_files *files = f->files;
    bzi_os_lock(&files->mutex);
    if (--f->pins == 0) {
        bzi_files_link(files, f);
        bzi_files_changed(files);
    }
    bzi_os_unlock(&files->mutex);
}

/* Pre: nobody reads it. */
static void bzi_shared_file_close(bzi_shared_file *f, const bzi_memory *memory)
{
    bzi_files *files = f->files;
    bzi_file file;
    bzi_os_lock(&files->mutex);
    file = f->file;                   /* others may have closed it meanwhile, to have its descriptor */
    if (f->idle)
        bzi_files_unlink(files, f);
    files->open -= file.fd >= 0;
    files->maps -= file.map != NULL;
    bzi_files_changed(files);
    bzi_os_unlock(&files->mutex);
    bzi_os_file_close(&file);
    bzi_release(memory, f->path, f->path_size, 1);
    bzi_release(memory, f, 1, sizeof *f);
}

/* Maps it, unless too many files are mapped. Pre: it is pinned. */
static void bzi_shared_file_map(bzi_shared_file *f)
{
    bzi_files *files = f->files;
    int may;
    bzi_os_lock(&files->mutex);
    may = files->maps < BZI_LIMIT_MAPS;
    files->maps += (uint32_t)may;
    bzi_os_unlock(&files->mutex);
    if (!may)
        return;
    bzi_os_file_map(&f->file);
    if (f->file.map)
        return;
    bzi_os_lock(&files->mutex);
    files->maps--;
    bzi_os_unlock(&files->mutex);
}

static bzna_status bzi_shared_file_open(bzi_host *host, const char *path, bzi_shared_file **out, bzna_error *err)
{
    const bzi_memory *memory = &host->memory;
    char here[BZI_LIMIT_PATH_BYTES], full[2 * BZI_LIMIT_PATH_BYTES];
    bzi_shared_file *f;
    bzna_status status = BZNA_E_MEMORY;
    if (path[0] == '/' || !bzi_os_here(here, sizeof here))
        here[0] = 0;
    if (snprintf(full, sizeof full, "%s%s%s", here, here[0] ? "/" : "", path) >= (int)sizeof full)
        return bzi_file_fail_open(ENAMETOOLONG, err);
    if (!(f = bzi_alloc_zero(memory, 1, sizeof *f)))
        return bzi_fail_memory(err, "a file");
    f->files = &host->files;
    f->file.fd = -1;
    f->path_size = strlen(full) + 1;
    if (!(f->path = bzi_alloc_copy(memory, full, f->path_size, 1)))
        bzi_fail_memory(err, "the path of a file");
    else
        status = bzi_file_pin(f, err);
    if (status != BZNA_OK) {
        bzi_shared_file_close(f, memory);
        return status;
    }
    bzi_shared_file_map(f);
    bzi_file_unpin(f);
    *out = f;
    return BZNA_OK;
}

/* --- Sources --- */

/* Bytes at offsets: the user's callbacks, or a file of our own that may also be mapped. */
typedef struct bzi_source {
    bzna_source      callbacks;
    bzi_file         file;            /* callbacks.user points here when owns_file */
    bzi_shared_file *shared;          /* a file that need not be open */
    uint32_t         owns_file, in_memory;
    uint64_t         size;
    const uint8_t   *map;
    const char      *path;            /* of a file, while a container opens it; else NULL */
} bzi_source;

/* As bzi_files_give_way; closes the file. */
static int bzi_files_close_one(bzi_files *files, uint64_t *deadline_ns)
{
    int fd, again;
    bzi_os_lock(&files->mutex);
    again = bzi_files_give_way(files, deadline_ns, &fd);
    bzi_files_changed(files);
    bzi_os_unlock(&files->mutex);
    if (fd >= 0)
        bzi_os_descriptor_close(fd);
    return again;
}

/* A file that stays open, without mapping it. files: they give way where descriptors are used up; or NULL. */
static bzna_status bzi_source_open_file(bzi_source *source, bzi_files *files, const char *path, bzna_error *err)
{
    uint64_t deadline_ns = 0;
    int error;
    do
        error = bzi_os_file_open(&source->file, path, 0);
    while (error == EMFILE && files && bzi_files_close_one(files, &deadline_ns));
    if (error)
        return bzi_file_fail_open(error, err);
    source->owns_file = 1;
    source->callbacks.user = &source->file;
    source->callbacks.read_at = bzi_os_file_read_at;
    source->size = source->file.size;
    return BZNA_OK;
}

/* A file, mapped, and open when it must be. */
static bzna_status bzi_source_open_path(bzi_source *source, bzi_host *host, const char *path, bzna_error *err)
{
    bzna_status status = bzi_shared_file_open(host, path, &source->shared, err);
    if (status != BZNA_OK)
        return status;
    source->callbacks.user = &source->shared->file;
    source->callbacks.read_at = bzi_os_file_read_at;
    source->size = source->shared->file.size;
    source->map = source->shared->file.map;
    source->path = path;
    return BZNA_OK;
}

/* When the file of a source that was opened by its path was changed last. */
static int64_t bzi_source_modified_ns(const bzi_source *source)
{
    return source->shared ? source->shared->file.modified_ns : source->file.modified_ns;
}

static bzna_status bzi_source_open_user(bzi_source *source, const bzna_source *callbacks, bzna_error *err)
{
    int64_t size;
    bzi_os_in_callback++;
    size = callbacks->size(callbacks->user);
    bzi_os_in_callback--;
    if (size < 0)
        return bzi_fail(err, BZNA_E_IO, BZNA_NO_OFFSET, 0, size, "the source's size callback failed with %lld",
                        (long long)size);
    source->callbacks = *callbacks;
    source->size = (uint64_t)size;
    return BZNA_OK;
}

static int64_t bzi_source_read_memory(void *user, uint64_t offset, void *dst, uint64_t size)
{
    const bzi_source *source = user;
    uint64_t n = offset < source->size ? bzi_min(size, source->size - offset) : 0;
    memcpy(dst, source->map + offset, (size_t)n);
    return (int64_t)n;
}

/* Memory of the caller's, borrowed: as a file that is mapped. */
static void bzi_source_open_memory(bzi_source *source, const void *bytes, uint64_t size)
{
    source->map = bytes;
    source->size = size;
    source->in_memory = 1;
    source->callbacks.read_at = bzi_source_read_memory;
}

/* After the struct was copied: its callbacks may point to its own members. */
static void bzi_source_moved(bzi_source *source)
{
    if (source->owns_file)
        source->callbacks.user = &source->file;
    if (source->in_memory)
        source->callbacks.user = source;
}

static void bzi_source_close(bzi_source *source, const bzi_memory *memory)
{
    if (source->shared) {
        bzi_shared_file_close(source->shared, memory);
    } else if (source->owns_file) {
        bzi_os_file_close(&source->file);
    } else if (source->callbacks.close) {
        bzi_os_in_callback++;
        source->callbacks.close(source->callbacks.user);
        bzi_os_in_callback--;
    }
}

/* Why a read has failed: n < 0; or the data end, at `at` or before. */
static bzna_status bzi_source_fail(const bzi_source *source, int64_t n, uint64_t at, uint64_t left, bzna_error *err)
{
    const bzi_file *file = source->owns_file || source->shared ? source->callbacks.user : NULL;
    const uint64_t end = file ? bzi_min(bzi_os_file_size(file), at) : at;
    if (n < 0)
        return bzi_fail(err, BZNA_E_IO, at, 0, file ? -n : n, "reading %llu bytes at byte %llu failed with %lld%s%s%s",
                        (unsigned long long)left, (unsigned long long)at, (long long)n, file ? " (" : "",
                        file ? strerror((int)-n) : "", file ? ")" : "");
    return bzi_fail(err, BZNA_E_TRUNCATED, end, 0, 0, "the data end at byte %llu, %llu bytes too early%s",
                    (unsigned long long)end, (unsigned long long)(at + left - end),
                    file && end < file->size ? ": the file was shortened after it was opened" : "");
}

/* All of it or an error. */
static bzna_status bzi_source_read_open(const bzi_source *source, uint64_t offset, void *dst, uint64_t size,
                                        bzna_error *err)
{
    uint8_t *p = dst;
    uint64_t done = 0;
    while (done < size) {
        int64_t n;
        bzi_os_in_callback++;
        n = source->callbacks.read_at(source->callbacks.user, offset + done, p + done, size - done);
        bzi_os_in_callback--;
        if (n <= 0)
            return bzi_source_fail(source, n, offset + done, size - done, err);
        if ((uint64_t)n > size - done)
            return bzi_fail(err, BZNA_E_CALLBACK, offset + done, 0, 0, "read_at returned %lld for a read of %llu bytes",
                            (long long)n, (unsigned long long)(size - done));
        done += (uint64_t)n;
    }
    return BZNA_OK;
}

static bzna_status bzi_source_read(const bzi_source *source, uint64_t offset, void *dst, uint64_t size, bzna_error *err)
{
    bzna_status status = source->shared ? bzi_file_pin(source->shared, err) : BZNA_OK;
    if (status != BZNA_OK)
        return status;
    status = bzi_source_read_open(source, offset, dst, size, err);
    if (source->shared)
        bzi_file_unpin(source->shared);
    return status;
}

/* A range as memory: in the map, or read into buffer. */
static bzna_status bzi_source_view(const bzi_source *source, const bzi_memory *memory, bzi_buffer *buffer,
                                   uint64_t offset, uint64_t size, const uint8_t **view, bzna_error *err)
{
    if (source->map) {
        *view = source->map + offset;
        return BZNA_OK;
    }
    if (!bzi_buffer_reserve(memory, buffer, size, 0))
        return bzi_fail_memory(err, "the bytes of a source");
    *view = buffer->data;
    return bzi_source_read(source, offset, buffer->data, size, err);
}

/* For walks over a source whose offsets rise. */
typedef struct bzi_window {
    const bzi_source *source;
    const bzi_memory *memory;
    const uint8_t    *map;            /* all of the source, or NULL: then bytes has what was read last */
    bzi_buffer        bytes;
    uint64_t          at, size;       /* of bytes, in the source */
} bzi_window;

#define BZI_WINDOW_READ      4096u    /* what is read after a seek: a page */
#define BZI_WINDOW_READ_MOST 65536u   /* what is read where a walk looks at nearly all */

/* Bytes of the source. Where the next ones lie close behind the last, more and more is read at once, so that small
 * steps do not cost a read each; after a seek, little. Pre: they lie in the source. */
BZI_MAYBE_UNUSED static bzna_status bzi_window_view(bzi_window *window, uint64_t offset, uint64_t size,
                                                    const uint8_t **view, bzna_error *err)
{
    uint64_t end = window->at + window->size, n = BZI_WINDOW_READ;
    bzna_status status;
    if (window->map) {
        *view = window->map + offset;
        return BZNA_OK;
    }
    if (offset < window->at || offset + size > end) {
        if (offset >= window->at && offset <= end + window->size && window->size)
            n = bzi_min(2 * window->size, BZI_WINDOW_READ_MOST);
        n = bzi_min(size > n ? size : n, window->source->size - offset);
        window->size = 0;
        if (!bzi_buffer_reserve(window->memory, &window->bytes, n, 0))
            return bzi_fail_memory(err, "the bytes of a source");
        if ((status = bzi_source_read(window->source, offset, window->bytes.data, n, err)) != BZNA_OK)
            return status;
        window->at = offset;
        window->size = n;
    }
    *view = window->bytes.data + (offset - window->at);
    return BZNA_OK;
}


/* ==== 7. Cursor ======================================================================================================
 * Calls: rooms 2. Reading past the end gives zeros and sets overrun, which stays set: check once, at the end. */

typedef struct bzi_cursor {
    const uint8_t *data;
    uint64_t       size;
    uint64_t       pos;
    uint64_t       base;              /* file offset of data[0], for messages */
    uint32_t       overrun;
} bzi_cursor;

static bzi_cursor bzi_cursor_make(const uint8_t *data, uint64_t size, uint64_t base)
{
    bzi_cursor c = { data, size, 0, base, 0 };
    return c;
}

static uint64_t bzi_cursor_left(const bzi_cursor *c) { return c->size - c->pos; }
static uint64_t bzi_cursor_offset(const bzi_cursor *c) { return c->base + c->pos; }

/* The next n bytes, or NULL. */
static const uint8_t *bzi_cursor_take(bzi_cursor *c, uint64_t n)
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

static uint32_t bzi_cursor_u8(bzi_cursor *c)  { const uint8_t *p = bzi_cursor_take(c, 1); return p ? *p : 0; }
static uint32_t bzi_cursor_u16(bzi_cursor *c) { const uint8_t *p = bzi_cursor_take(c, 2); return p ? bzi_be16(p) : 0; }
static uint32_t bzi_cursor_u32(bzi_cursor *c) { const uint8_t *p = bzi_cursor_take(c, 4); return p ? bzi_be32(p) : 0; }

/* A number of 0, 2, 4 or 8 bytes. */
static uint64_t bzi_cursor_number(bzi_cursor *c, uint32_t bytes)
{
    uint64_t high = bytes == 8 ? bzi_cursor_u32(c) : 0;
    return bytes == 0 ? 0 : bytes == 2 ? bzi_cursor_u16(c) : high << 32 | bzi_cursor_u32(c);
}

/* A cursor over the next n bytes. */
static bzi_cursor bzi_cursor_sub(bzi_cursor *c, uint64_t n)
{
    uint64_t base = bzi_cursor_offset(c);
    const uint8_t *p = bzi_cursor_take(c, n);
    return bzi_cursor_make(p, p ? n : 0, base);
}

/* Bits of a NAL unit's payload: the emulation prevention byte (00 00 03) is skipped. */
typedef struct bzi_bits {
    const uint8_t *data;
    uint64_t       size;
    uint64_t       byte;
    uint32_t       bit;               /* of data[byte], from the top */
    uint32_t       zeros;             /* zero bytes in a row before data[byte] */
    uint32_t       overrun;
    uint32_t       plain;             /* every byte counts: there is no emulation prevention */
} bzi_bits;

static bzi_bits bzi_bits_make(bzi_span nal, uint64_t header)
{
    bzi_bits b = { nal.data, nal.size, header, 0, 0, header > nal.size, 0 };
    return b;
}

static bzi_bits bzi_bits_plain(bzi_span bytes)
{
    bzi_bits b = bzi_bits_make(bytes, 0);
    b.plain = 1;
    return b;
}

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

static uint32_t bzi_bits_u(bzi_bits *b, uint32_t n)
{
    uint32_t value = 0;
    while (n--)
        value = value << 1 | bzi_bits_1(b);
    return value;
}

static void bzi_bits_skip(bzi_bits *b, uint32_t n)
{
    while (n-- && !b->overrun)
        bzi_bits_1(b);
}

/* Unsigned Exp-Golomb; more than 31 leading zeros is an overrun. */
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

static int32_t bzi_bits_se(bzi_bits *b)
{
    uint32_t k = bzi_bits_ue(b);
    return k & 1 ? (int32_t)(k / 2 + 1) : -(int32_t)(k / 2);
}


/* ==== 8. NAL units ===================================================================================================
 * Calls: rooms 2, 7. What coded pictures of H.264 and H.265 say of themselves: NAL units and parameter sets. Works on
 * memory, without allocating. */

#define BZI_HVC1 BZI_FOURCC('h', 'v', 'c', '1')
#define BZI_HEV1 BZI_FOURCC('h', 'e', 'v', '1')
#define BZI_AVC1 BZI_FOURCC('a', 'v', 'c', '1')
#define BZI_AVC3 BZI_FOURCC('a', 'v', 'c', '3')
#define BZI_AV01 BZI_FOURCC('a', 'v', '0', '1')

/* --- NAL units --- */

enum { BZI_NAL_SLICE, BZI_NAL_VPS, BZI_NAL_SPS, BZI_NAL_PPS, BZI_NAL_SEI, BZI_NAL_DISCARDABLE, BZI_NAL_OTHER };

/* Where H.264 (7.3.1, table 7-1) and H.265 (7.3.1.2, table 7-1) differ: the header, and what the types mean. */
typedef struct bzi_nal_syntax {
    uint8_t header;                   /* bytes */
    uint8_t shift, mask;              /* of the type in the header's first byte */
    uint8_t starts[2]; /* slices that a decoder can start with, first type and end: IDR; in H.265 also CRA and BLA */
    uint8_t kinds[BZI_NAL_OTHER][2];  /* by BZI_NAL_..., first type and end */
} bzi_nal_syntax;

static const bzi_nal_syntax bzi_nal_h264 = {
    1, 0, 31, { 5, 6 }, { { 1, 6 }, { 0, 0 }, { 7, 8 }, { 8, 9 }, { 6, 7 }, { 9, 13 } }
};
static const bzi_nal_syntax bzi_nal_h265 = {
    2, 1, 63, { 16, 22 }, { { 0, 32 }, { 32, 33 }, { 33, 34 }, { 34, 35 }, { 39, 41 }, { 35, 39 } }
};

static const bzi_nal_syntax *bzi_nal_syntax_of(uint32_t codec)
{
    return codec == BZNA_CODEC_H265 ? &bzi_nal_h265 : &bzi_nal_h264;
}

static uint32_t bzi_nal_type(const bzi_nal_syntax *syntax, bzi_span nal)
{
    return nal.data[0] >> syntax->shift & syntax->mask;
}

static uint32_t bzi_nal_kind(uint32_t codec, bzi_span nal)
{
    const bzi_nal_syntax *syntax = bzi_nal_syntax_of(codec);
    uint32_t type = bzi_nal_type(syntax, nal), kind = 0;
    while (kind < BZI_NAL_OTHER && !(type >= syntax->kinds[kind][0] && type < syntax->kinds[kind][1]))
        kind++;
    return kind;
}

static int bzi_nal_is_parameter_set(uint32_t codec, bzi_span nal)
{
    uint32_t kind = bzi_nal_kind(codec, nal);
    return kind == BZI_NAL_VPS || kind == BZI_NAL_SPS || kind == BZI_NAL_PPS;
}

/* A picture that a decoder can start with. Whether it stands alone is the decoder's to judge. */
static int bzi_nal_starts_stream(uint32_t codec, bzi_span nal)
{
    const bzi_nal_syntax *syntax = bzi_nal_syntax_of(codec);
    uint32_t type = bzi_nal_type(syntax, nal);
    return type >= syntax->starts[0] && type < syntax->starts[1];
}

/* Units that a decoder has no use for in a picture that stands alone: delimiters, ends, filler, encoders' banners. */
BZI_MAYBE_UNUSED static int bzi_nal_is_discardable(uint32_t codec, bzi_span nal)
{
    uint32_t kind = bzi_nal_kind(codec, nal), header = bzi_nal_syntax_of(codec)->header;
    if (kind == BZI_NAL_SEI)
        return nal.size > header && nal.data[header] == 5;              /* user_data_unregistered */
    return kind == BZI_NAL_DISCARDABLE;
}

enum { BZI_NALS_LENGTH, BZI_NALS_ANNEXB, BZI_NALS_HVCC, BZI_NALS_AVCC };

/* One iterator for everything that holds NAL units. */
typedef struct bzi_nals {
    bzi_cursor c;
    uint32_t   kind;
    uint32_t   length_size;           /* LENGTH */
    uint32_t   lists, left;           /* HVCC, AVCC: lists to come, units left in this one */
} bzi_nals;

static bzi_nals bzi_nals_of_unit(bzi_span unit, uint32_t length_size)
{
    bzi_nals n;
    memset(&n, 0, sizeof n);
    n.c = bzi_cursor_make(unit.data, unit.size, 0);
    n.kind = length_size ? BZI_NALS_LENGTH : BZI_NALS_ANNEXB;
    n.length_size = length_size;
    return n;
}

static bzi_nals bzi_nals_of_config(bzi_span config, uint32_t codec)
{
    bzi_nals n;
    memset(&n, 0, sizeof n);
    n.c = bzi_cursor_make(config.data, config.size, 0);
    n.kind = codec == BZNA_CODEC_H265 ? BZI_NALS_HVCC : BZI_NALS_AVCC;
    if (n.kind == BZI_NALS_HVCC) {
        bzi_cursor_take(&n.c, 22);
        n.lists = bzi_cursor_u8(&n.c);
    } else {
        bzi_cursor_take(&n.c, 5);
        n.lists = 2;                  /* sequence parameter sets, picture parameter sets */
    }
    return n;
}

/* The next start code at or after from: its position, and where the bytes after it begin. size when there is none. */
static uint64_t bzi_annexb_find(bzi_span s, uint64_t from, uint64_t *after)
{
    for (uint64_t i = from; i + 3 <= s.size; i++) {
        const uint8_t *one = memchr(s.data + i + 2, 1, (size_t)(s.size - i - 2));
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

/* The next unit between start codes; empty ones are skipped. */
static int bzi_nals_next_annexb(bzi_cursor *c, bzi_span *nal)
{
    bzi_span all = { c->data, c->size };
    uint64_t begin, end, after;
    for (;;) {
        bzi_annexb_find(all, c->pos, &begin);
        c->pos = end = bzi_annexb_find(all, begin, &after);
        while (end > begin && all.data[end - 1] == 0)       /* trailing zeros and the longer start code's first byte */
            end--;
        if (begin >= all.size)
            return 0;
        nal->data = all.data + begin;
        nal->size = end - begin;
        if (nal->size)
            return 1;
    }
}

/* The length of the next unit of an access unit. 0: the end. */
static int bzi_nals_length(bzi_nals *n, uint64_t *length)
{
    if (bzi_cursor_left(&n->c) == 0)
        return 0;
    *length = 0;
    for (uint32_t i = 0; i < n->length_size; i++)
        *length = *length << 8 | bzi_cursor_u8(&n->c);
    return 1;
}

/* The length of the next unit of hvcC or avcC, which hold lists of them. 0: the end, or the record ends early. */
static int bzi_nals_length_in_lists(bzi_nals *n, uint64_t *length)
{
    bzi_cursor *c = &n->c;
    while (n->left == 0) {
        if (n->lists == 0 || c->overrun)
            return 0;
        n->lists--;
        if (n->kind == BZI_NALS_HVCC)
            bzi_cursor_u8(c);                               /* the type stands in each unit, too */
        n->left = n->kind == BZI_NALS_HVCC ? bzi_cursor_u16(c) : bzi_cursor_u8(c) & (n->lists ? 31u : 255u);
    }
    n->left--;
    *length = bzi_cursor_u16(c);
    return 1;
}

/* 1: *nal is the next unit (never empty); 0: the end; -1: lengths that contradict the data. */
static int bzi_nals_next(bzi_nals *n, bzi_span *nal)
{
    uint64_t length;
    if (n->kind == BZI_NALS_ANNEXB)
        return bzi_nals_next_annexb(&n->c, nal);
    do {
        if (!(n->kind == BZI_NALS_LENGTH ? bzi_nals_length(n, &length) : bzi_nals_length_in_lists(n, &length)))
            return n->c.overrun ? -1 : 0;
        nal->data = bzi_cursor_take(&n->c, length);
        nal->size = length;
        if (n->c.overrun)
            return -1;
    } while (length == 0);
    return 1;
}

/* --- Sequence parameter sets: what container, decoder and kernel must agree on --- */

/* What a coded picture says of itself, whatever its codec. */
typedef struct bzi_format {
    /* H.265: general profile .. level; H.264: profile, constraints, level; AV1: profile, level, tier; JPEG: 1: it
     * is baseline, Y'CbCr, in one scan */
    uint8_t     profile[12];
    uint32_t    sub_layers, nested;
    uint32_t    chroma_format;        /* 0 gray, 1 4:2:0, 2 4:2:2, 3 4:4:4; JPEG: BZI_CHROMA_... */
    uint32_t    depth_luma, depth_chroma;
    uint32_t    width, height;        /* coded, before the conformance window */
    uint32_t    window[4];            /* left, right, top, bottom, in luma samples */
    uint32_t    has_chroma_location, chroma_location;
    bzna_color  color;                /* present when the VUI has video_signal_type */
    uint32_t    orientation;          /* EXIF's, 1..8; 0: none is said */
    uint32_t    pixel_bits;           /* of a still, decoded; 0: its size was compared with that of the file */
    uint32_t    crop[4];              /* a HEIF file's: x, y, width, height of what is seen; all 0: the whole */
    uint32_t    tiles;                /* of a HEIF grid; 0: it is none */
} bzi_format;

enum { BZI_CHROMA_440 = 4, BZI_CHROMA_411 = 5 };

/* The code points of a color, which may be left out: unspecified. */
static void bzi_format_color(bzi_bits *b, bzi_format *format)
{
    const uint32_t said = bzi_bits_1(b);
    format->color.primaries = (uint16_t)(said ? bzi_bits_u(b, 8) : 2);
    format->color.transfer = (uint16_t)(said ? bzi_bits_u(b, 8) : 2);
    format->color.matrix = (uint16_t)(said ? bzi_bits_u(b, 8) : 2);
}

/* E.2.1 of both standards begin alike: up to the chroma location. */
static void bzi_sps_vui(bzi_bits *b, bzi_format *sps)
{
    if (bzi_bits_1(b) && bzi_bits_u(b, 8) == 255)           /* aspect ratio */
        bzi_bits_skip(b, 32);
    if (bzi_bits_1(b))                                      /* overscan */
        bzi_bits_1(b);
    if (bzi_bits_1(b)) {
        bzi_bits_u(b, 3);
        sps->color.present = 1;
        sps->color.full_range = (uint8_t)bzi_bits_1(b);
        bzi_format_color(b, sps);
    }
    sps->has_chroma_location = bzi_bits_1(b);
    if (sps->has_chroma_location) {
        sps->chroma_location = bzi_bits_ue(b);
        bzi_bits_ue(b);
    }
}

static void bzi_sps_window(bzi_bits *b, bzi_format *sps, uint32_t unit_x, uint32_t unit_y)
{
    for (int i = 0; i < 4; i++) {
        uint64_t px = (uint64_t)bzi_bits_ue(b) * (i < 2 ? unit_x : unit_y);
        sps->window[i] = (uint32_t)bzi_min(px, UINT32_MAX);
    }
}

/* H.264 7.3.2.1.1.1: only the bits matter here. */
static void bzi_sps_h264_scaling_list(bzi_bits *b, int size)
{
    int32_t last = 8, next = 8;
    for (int i = 0; i < size && !b->overrun; i++) {
        if (next)
            next = (last + bzi_bits_se(b) % 256) & 255;     /* a damaged delta may be as large as an int can be */
        if (next)
            last = next;
    }
}

/* H.264 7.3.2.1.1: profiles with the chroma fields. */
static int bzi_sps_h264_is_high(uint32_t profile)
{
    static const uint8_t high[] = { 100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135 };
    return memchr(high, (int)profile, sizeof high) != NULL;
}

static void bzi_sps_h264_chroma(bzi_bits *b, bzi_format *sps)
{
    sps->chroma_format = bzi_bits_ue(b);
    if (sps->chroma_format == 3)
        bzi_bits_1(b);
    sps->depth_luma = bzi_bits_ue(b) + 8;
    sps->depth_chroma = bzi_bits_ue(b) + 8;
    bzi_bits_1(b);
    if (bzi_bits_1(b))
        for (int i = 0; i < (sps->chroma_format == 3 ? 12 : 8); i++)
            if (bzi_bits_1(b))
                bzi_sps_h264_scaling_list(b, i < 6 ? 16 : 64);
}

static void bzi_sps_h264(bzi_bits *b, bzi_format *sps)
{
    uint32_t mbs_only, poc, width, height;
    for (int i = 0; i < 3; i++)
        sps->profile[i] = (uint8_t)bzi_bits_u(b, 8);
    bzi_bits_ue(b);
    sps->chroma_format = 1;
    sps->depth_luma = sps->depth_chroma = 8;
    if (bzi_sps_h264_is_high(sps->profile[0]))
        bzi_sps_h264_chroma(b, sps);
    bzi_bits_ue(b);                                         /* log2_max_frame_num */
    poc = bzi_bits_ue(b);
    if (poc == 0) {
        bzi_bits_ue(b);
    } else if (poc == 1) {
        uint32_t n;
        bzi_bits_1(b);
        bzi_bits_se(b);
        bzi_bits_se(b);
        n = bzi_bits_ue(b);
        for (uint32_t i = 0; i < n && i < 256 && !b->overrun; i++)
            bzi_bits_se(b);
    }
    bzi_bits_ue(b);                                         /* reference frames */
    bzi_bits_1(b);
    width = bzi_bits_ue(b) + 1;
    height = bzi_bits_ue(b) + 1;
    mbs_only = bzi_bits_1(b);
    sps->width = width < 65536 ? width * 16 : 0;
    sps->height = height < 65536 ? height * 16 * (2 - mbs_only) : 0;
    if (!mbs_only)
        bzi_bits_1(b);
    bzi_bits_1(b);                                          /* direct_8x8 */
    if (bzi_bits_1(b))
        bzi_sps_window(b, sps, sps->chroma_format == 1 || sps->chroma_format == 2 ? 2 : 1,
                       (sps->chroma_format == 1 ? 2 : 1) * (2 - mbs_only));
    if (bzi_bits_1(b))
        bzi_sps_vui(b, sps);
}

/* H.265 7.3.3 */
static void bzi_sps_h265_profile(bzi_bits *b, bzi_format *sps, uint32_t sub_layers)
{
    uint32_t present[8] = { 0 };
    for (int i = 0; i < 12; i++)
        sps->profile[i] = (uint8_t)bzi_bits_u(b, 8);
    for (uint32_t i = 0; i + 1 < sub_layers; i++)
        present[i] = bzi_bits_u(b, 2);
    if (sub_layers > 1)
        bzi_bits_skip(b, 2 * (9 - sub_layers));
    for (uint32_t i = 0; i + 1 < sub_layers; i++)
        bzi_bits_skip(b, (present[i] & 2 ? 88u : 0) + (present[i] & 1 ? 8u : 0));
}

/* H.265 7.3.4 */
static void bzi_sps_h265_scaling_lists(bzi_bits *b)
{
    for (int size = 0; size < 4; size++) {
        for (int matrix = 0; matrix < 6 && !b->overrun; matrix += size == 3 ? 3 : 1) {
            if (!bzi_bits_1(b)) {
                bzi_bits_ue(b);
            } else {
                int count = size == 0 ? 16 : 64;
                if (size > 1)
                    bzi_bits_se(b);
                while (count-- && !b->overrun)
                    bzi_bits_se(b);
            }
        }
    }
}

/* H.265 7.3.7. counts[i] is NumDeltaPocs of set i; returns that of this set. */
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

/* H.265 7.3.2.2.1, from the coding block sizes to the VUI. */
static void bzi_sps_h265_tail(bzi_bits *b, bzi_format *sps, uint32_t poc_bits)
{
    uint32_t counts[65] = { 0 }, sets;
    for (int i = 0; i < 6; i++)
        bzi_bits_ue(b);
    if (bzi_bits_1(b) && bzi_bits_1(b))
        bzi_sps_h265_scaling_lists(b);
    bzi_bits_u(b, 2);
    if (bzi_bits_1(b)) {                                    /* PCM */
        bzi_bits_u(b, 8);
        bzi_bits_ue(b);
        bzi_bits_ue(b);
        bzi_bits_1(b);
    }
    sets = bzi_bits_ue(b);
    if (sets > 64)
        b->overrun = 1;
    for (uint32_t i = 0; i < sets && !b->overrun; i++)
        counts[i] = bzi_sps_h265_reference_set(b, i, counts);
    if (bzi_bits_1(b)) {                                    /* long-term references */
        uint32_t n = bzi_bits_ue(b);
        for (uint32_t i = 0; i < n && !b->overrun; i++)
            bzi_bits_skip(b, poc_bits + 1);
    }
    bzi_bits_u(b, 2);
    if (bzi_bits_1(b))
        bzi_sps_vui(b, sps);
}

static void bzi_sps_h265(bzi_bits *b, bzi_format *sps)
{
    uint32_t poc_bits, all;
    bzi_bits_u(b, 4);
    sps->sub_layers = bzi_bits_u(b, 3) + 1;
    sps->nested = bzi_bits_1(b);
    bzi_sps_h265_profile(b, sps, sps->sub_layers);
    bzi_bits_ue(b);
    sps->chroma_format = bzi_bits_ue(b);
    if (sps->chroma_format == 3)
        bzi_bits_1(b);
    sps->width = bzi_bits_ue(b);
    sps->height = bzi_bits_ue(b);
    if (bzi_bits_1(b))
        bzi_sps_window(b, sps, sps->chroma_format == 1 || sps->chroma_format == 2 ? 2 : 1,
                       sps->chroma_format == 1 ? 2 : 1);
    sps->depth_luma = bzi_bits_ue(b) + 8;
    sps->depth_chroma = bzi_bits_ue(b) + 8;
    poc_bits = bzi_bits_ue(b) + 4;
    all = bzi_bits_1(b);
    for (uint32_t i = all ? 0 : sps->sub_layers - 1; i < sps->sub_layers; i++) {
        bzi_bits_ue(b);
        bzi_bits_ue(b);
        bzi_bits_ue(b);
    }
    bzi_sps_h265_tail(b, sps, poc_bits);
}

/* 1 if the unit is a sequence parameter set that makes sense. */
static int bzi_sps_read(uint32_t codec, bzi_span nal, bzi_format *sps)
{
    bzi_bits b = bzi_bits_make(nal, bzi_nal_syntax_of(codec)->header);
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


/* ==== 9. AV1 =========================================================================================================
 * Calls: rooms 7-8. The same of AV1: open bitstream units; sections are those of "AV1 Bitstream & Decoding Process
 * Specification". */

enum {
    BZI_OBU_SEQUENCE_HEADER = 1,
    BZI_OBU_TEMPORAL_DELIMITER = 2,
    BZI_OBU_FRAME_HEADER = 3,
    BZI_OBU_FRAME = 6,
    BZI_OBU_PADDING = 15
};

/* 5.3: 1 and the next unit's type and payload; 0 at the end; -1 if it does not fit. */
static int bzi_obu_next(bzi_span *rest, uint32_t *type, bzi_span *payload)
{
    uint64_t at = 1, size = 0;
    if (!rest->size)
        return 0;
    *type = rest->data[0] >> 3 & 15u;
    at += rest->data[0] >> 2 & 1u;                          /* the extension's byte */
    if (rest->data[0] & 0x80u || at > rest->size)
        return -1;
    if (rest->data[0] & 2u) {
        uint32_t shift = 0;
        do {
            if (at >= rest->size || shift > 49)
                return -1;
            size |= (uint64_t)(rest->data[at] & 127u) << shift;
            shift += 7;
        } while (rest->data[at++] & 128u);
    } else {
        size = rest->size - at;
    }
    if (size > rest->size - at)
        return -1;
    payload->data = rest->data + at;
    payload->size = size;
    rest->data += at + size;
    rest->size -= at + size;
    return 1;
}

/* 5.5.1, the part between the flags and the frame size. */
static void bzi_av1_operating_points(bzi_bits *b, bzi_format *sps)
{
    uint32_t model = 0, delay_bits = 0, display, points;
    if (bzi_bits_1(b)) {                                    /* timing */
        bzi_bits_skip(b, 64);
        if (bzi_bits_1(b))
            bzi_bits_ue(b);
        if ((model = bzi_bits_1(b)) != 0) {
            delay_bits = bzi_bits_u(b, 5) + 1;
            bzi_bits_skip(b, 42);
        }
    }
    display = bzi_bits_1(b);
    points = bzi_bits_u(b, 5) + 1;
    for (uint32_t i = 0; i < points && !b->overrun; i++) {
        uint32_t level, tier;
        bzi_bits_skip(b, 12);
        level = bzi_bits_u(b, 5);
        tier = level > 7 && bzi_bits_1(b);
        if (i == 0) {
            sps->profile[1] = (uint8_t)level;
            sps->profile[2] = (uint8_t)tier;
        }
        if (model && bzi_bits_1(b))
            bzi_bits_skip(b, 2 * delay_bits + 1);
        if (display && bzi_bits_1(b))
            bzi_bits_skip(b, 4);
    }
}

/* 5.5.1, the tools between the frame size and the color. */
static void bzi_av1_tools(bzi_bits *b, uint32_t reduced)
{
    uint32_t order_hint, content = 2;
    if (!reduced && bzi_bits_1(b))                          /* frame numbers */
        bzi_bits_skip(b, 7);
    bzi_bits_skip(b, 3);
    if (!reduced) {
        bzi_bits_skip(b, 4);
        if ((order_hint = bzi_bits_1(b)) != 0)
            bzi_bits_skip(b, 2);
        if (!bzi_bits_1(b))
            content = bzi_bits_1(b);
        if (content && !bzi_bits_1(b))
            bzi_bits_1(b);
        if (order_hint)
            bzi_bits_skip(b, 3);
    }
    bzi_bits_skip(b, 3);
}

/* 5.5.2 */
static void bzi_av1_color(bzi_bits *b, uint32_t profile, bzi_format *sps)
{
    uint32_t high = bzi_bits_1(b), twelve = profile == 2 && high && bzi_bits_1(b), gray = profile != 1 && bzi_bits_1(b),
             place;
    sps->depth_luma = sps->depth_chroma = twelve ? 12 : high ? 10 : 8;
    sps->chroma_format = gray ? 0 : profile == 0 ? 1 : 3;
    sps->color.present = 1;                                /* for the range is always said */
    bzi_format_color(b, sps);
    if (!gray && sps->color.primaries == 1 && sps->color.transfer == 13 && sps->color.matrix == 0) {
        sps->color.full_range = 1;                         /* sRGB as it is, 4:4:4 */
        sps->chroma_format = 3;
        return;
    }
    sps->color.full_range = (uint8_t)bzi_bits_1(b);
    if (!gray && profile == 2)
        sps->chroma_format = !twelve ? 2 : !bzi_bits_1(b) ? 3 : bzi_bits_1(b) ? 1 : 2;
    if (sps->chroma_format == 1 && (place = bzi_bits_u(b, 2)) != 0) {
        sps->has_chroma_location = 1;
        sps->chroma_location = place == 2 ? 2 : 0;          /* 6.4.2: 1 is on the left, 2 on the top left */
    }
}

/* 1 if the sequence header makes sense. */
static int bzi_av1_read(bzi_span unit, bzi_format *sps, uint32_t *reduced)
{
    bzi_bits b = bzi_bits_plain(unit);
    uint32_t profile, width_bits, height_bits;
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


/* ==== 10. JPEG =======================================================================================================
 * Calls: rooms 5, 7. What a JPEG says of itself (ITU-T T.81, JFIF, Adobe's marker, EXIF), by its markers. Decoders use
 * tables of an earlier picture, and conceal that scans are missing: so a picture of several scans is walked to its end,
 * and must be whole. Of a single scan, rows above damage are of use; where it is, the decoder says. Works on memory,
 * without allocating.  Who decodes them is fixed when the library is built, or for NVDEC when a loader is opened: their
 * pixels depend on it. */

#ifndef BENZINA_NO_JPEG
#  define BZI_JPEG_DECODER "libjpeg-turbo"
#elif !defined(BENZINA_NO_AVCODEC)
#  define BZI_JPEG_DECODER "libavcodec"
#else
#  define BZI_JPEG_DECODER ""
#endif
#if !defined(BENZINA_NO_JPEG) && defined(D_ARITH_CODING_SUPPORTED)
#  define BZI_JPEG_ARITHMETIC 1
#else
#  define BZI_JPEG_ARITHMETIC 0
#endif

/* --- TIFF: what EXIF data are, too --- */

/* A little-endian (II) or big-endian (MM) number; 0 where it lies past the end. */
static uint32_t bzi_tiff_number(bzi_span tiff, uint64_t at, uint32_t bytes)
{
    uint32_t value = 0;
    if (at > tiff.size || bytes > tiff.size - at)
        return 0;
    for (uint32_t i = 0; i < bytes; i++)
        value = value << 8 | tiff.data[at + (tiff.data[0] == 'I' ? bytes - 1 - i : i)];
    return value;
}

static int bzi_tiff_is(bzi_span tiff)
{
    return tiff.size >= 8 && (!memcmp(tiff.data, "II*\0", 4) || !memcmp(tiff.data, "MM\0*", 4));
}

/* The first value of a tag in the first directory, if it is a number of 1, 2 or 4 bytes; 0: there is none. */
static uint32_t bzi_tiff_value(bzi_span tiff, uint32_t tag)
{
    static const uint8_t bytes[] = { 0, 1, 0, 2, 4 };       /* of BYTE, SHORT, LONG */
    uint64_t directory;
    uint32_t count;
    if (!bzi_tiff_is(tiff))
        return 0;
    directory = bzi_tiff_number(tiff, 4, 4);
    count = bzi_tiff_number(tiff, directory, 2);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t at = directory + 2 + 12 * (uint64_t)i;
        uint32_t type = bzi_tiff_number(tiff, at + 2, 2), size = type < sizeof bytes ? bytes[type] : 0;
        if (bzi_tiff_number(tiff, at, 2) != tag || !size)
            continue;
        if ((uint64_t)bzi_tiff_number(tiff, at + 4, 4) * size > 4)
            at = bzi_tiff_number(tiff, at + 8, 4);          /* there is no room for the values here */
        else
            at += 8;
        return bzi_tiff_number(tiff, at, size);
    }
    return 0;
}

/* EXIF's number, 1 to 8; 0: there is none. */
static uint32_t bzi_tiff_orientation(bzi_span tiff)
{
    uint32_t value = bzi_tiff_value(tiff, 0x0112);
    return value <= 8 ? value : 0;
}

/* --- Markers --- */

enum { BZI_JPEG_SOF0 = 0xc0, BZI_JPEG_SOF2 = 0xc2, BZI_JPEG_DHT = 0xc4, BZI_JPEG_JPG = 0xc8, BZI_JPEG_SOF9 = 0xc9,
       BZI_JPEG_SOF10 = 0xca, BZI_JPEG_DAC = 0xcc, BZI_JPEG_SOF15 = 0xcf,
       BZI_JPEG_RST0 = 0xd0, BZI_JPEG_RST7 = 0xd7, BZI_JPEG_SOI = 0xd8, BZI_JPEG_EOI = 0xd9,
       BZI_JPEG_SOS = 0xda, BZI_JPEG_DQT = 0xdb, BZI_JPEG_DRI = 0xdd, BZI_JPEG_DHP = 0xde, BZI_JPEG_EXP = 0xdf,
       BZI_JPEG_APP0 = 0xe0, BZI_JPEG_APP1 = 0xe1, BZI_JPEG_APP14 = 0xee, BZI_JPEG_APP15 = 0xef, BZI_JPEG_SOF55 = 0xf7,
       BZI_JPEG_COM = 0xfe };

typedef struct bzi_jpeg_component {
    uint32_t id, h, v;                /* h, v: sampling factors */
    uint32_t table;                   /* of quantization */
    uint64_t final;                   /* coefficients of which a scan has the last bit, a bit each */
} bzi_jpeg_component;

/* What was said up to here. Sets are a bit each. */
typedef struct bzi_jpeg {
    uint32_t            frame;        /* the marker of the frame header; 0: there was none */
    uint64_t            height_at;    /* where the height stands */
    uint32_t            width, height, count;
    bzi_jpeg_component  component[4];
    uint32_t            quantization, dc, ac;               /* tables that are defined */
    uint32_t            restart;      /* units between restart markers; 0: there are none */
    uint32_t            scans, seen;  /* seen: components that a scan began */
    uint32_t            several;      /* scans, each of a part of the picture's components or coefficients */
    uint64_t            scan_units;   /* of the scan before, 0: there is none, or it has ended */
    uint64_t            restarts;     /* restart markers in it */
    uint32_t            jfif, adobe;  /* adobe: its transform; UINT32_MAX: there is no such marker */
    uint32_t            orientation;  /* 0: not said */
} bzi_jpeg;

/* The marker behind whatever comes before it, and what its segment holds. 0: there is no other. What ends too early has
 * c->overrun set. */
static uint32_t bzi_jpeg_next(bzi_cursor *c, bzi_cursor *segment)
{
    while (bzi_cursor_left(c) > 1) {
        const uint8_t *from = c->data + c->pos, *ff = memchr(from, 0xff, (size_t)(bzi_cursor_left(c) - 1));
        uint32_t marker, size;
        if (!ff)
            break;
        c->pos += (uint64_t)(ff - from) + 1;
        marker = c->data[c->pos];
        if (marker == 0 || marker == 0xff)                  /* a byte of coded data; a fill byte */
            continue;
        c->pos++;
        *segment = bzi_cursor_sub(c, 0);
        if ((marker >= BZI_JPEG_RST0 && marker <= BZI_JPEG_EOI) || marker < BZI_JPEG_SOF0)
            return marker;                                  /* these have no segment, the last no meaning */
        size = bzi_cursor_u16(c);
        *segment = bzi_cursor_sub(c, size < 2 ? UINT64_MAX : size - 2);
        return marker;
    }
    c->pos = c->size;
    *segment = bzi_cursor_sub(c, 0);
    return 0;
}

static bzna_status bzi_jpeg_fail(bzna_error *err, const bzi_cursor *c, const char *what)
{
    return bzi_fail(err, BZNA_E_DECODE, bzi_cursor_offset(c), 0, 0, "JPEG, byte %llu: %s",
                    (unsigned long long)bzi_cursor_offset(c), what);
}

/* B.2.4.1 */
static bzna_status bzi_jpeg_quantization(bzi_jpeg *j, bzi_cursor *c, bzna_error *err)
{
    while (bzi_cursor_left(c)) {
        uint32_t which = bzi_cursor_u8(c);
        bzi_cursor_take(c, which >> 4 ? 128 : 64);
        if (c->overrun || which >> 4 > 1 || (which & 15) > 3)
            return bzi_jpeg_fail(err, c, "a quantization table is damaged");
        j->quantization |= 1u << (which & 15);
    }
    return BZNA_OK;
}

/* B.2.4.2 */
static bzna_status bzi_jpeg_huffman(bzi_jpeg *j, bzi_cursor *c, bzna_error *err)
{
    while (bzi_cursor_left(c)) {
        uint32_t which = bzi_cursor_u8(c), codes = 0;
        for (int i = 0; i < 16; i++)
            codes += bzi_cursor_u8(c);
        bzi_cursor_take(c, codes);
        if (c->overrun || codes > 256 || which >> 4 > 1 || (which & 15) > 3)
            return bzi_jpeg_fail(err, c, "a Huffman table is damaged");
        *(which >> 4 ? &j->ac : &j->dc) |= 1u << (which & 15);
    }
    return BZNA_OK;
}

/* A frame header that is not read, by its name. */
static bzna_status bzi_jpeg_refuse(uint32_t marker, bzna_error *err)
{
    return BZI_FAIL(err, BZNA_E_CODEC, "JPEG: %s coding (marker %02X) is not supported",
                    marker == BZI_JPEG_SOF55                               ? "JPEG-LS" :
                    marker == BZI_JPEG_DHP || marker == BZI_JPEG_EXP       ? "hierarchical" :
                    (marker & 3) == 3                                      ? "lossless" :
                    marker > BZI_JPEG_JPG && (marker & 7) < 4              ? "arithmetic" :
                                                                             "hierarchical",
                    marker);
}

/* B.2.2 */
static bzna_status bzi_jpeg_frame(bzi_jpeg *j, uint32_t marker, bzi_cursor *c, bzna_error *err)
{
    uint32_t bits = bzi_cursor_u8(c), ids[4] = { 0 };
    if (j->frame)
        return bzi_jpeg_fail(err, c, "a second frame header");
    if (marker > BZI_JPEG_SOF2 && !(BZI_JPEG_ARITHMETIC && (marker == BZI_JPEG_SOF9 || marker == BZI_JPEG_SOF10)))
        return bzi_jpeg_refuse(marker, err);
    j->frame = marker;
    j->height_at = bzi_cursor_offset(c);
    j->height = bzi_cursor_u16(c);
    j->width = bzi_cursor_u16(c);
    j->count = bzi_cursor_u8(c);
    if (c->overrun || !j->width || !j->count || bzi_cursor_left(c) != 3 * j->count)
        return bzi_jpeg_fail(err, c, "the frame header is damaged");
    if (bits != 8)
        return BZI_FAIL(err, BZNA_E_CODEC, "JPEG: %u bits a sample; only 8 are supported", bits);
    if (!j->height)
        return BZI_FAIL(err, BZNA_E_CODEC, "JPEG: a height that comes behind the first scan (DNL) is not supported");
    if (j->count > 4 || j->count == 2)
        return BZI_FAIL(err, BZNA_E_CODEC, "JPEG: %u components; 1, 3 and 4 are supported", j->count);
    for (uint32_t i = 0; i < j->count; i++) {
        uint32_t factors;
        bzi_jpeg_component *p = &j->component[i];
        p->id = ids[i] = bzi_cursor_u8(c);
        factors = bzi_cursor_u8(c);
        p->h = factors >> 4;
        p->v = factors & 15;
        p->table = bzi_cursor_u8(c);
        for (uint32_t k = 0; k < i; k++)
            if (ids[k] == p->id)
                return bzi_jpeg_fail(err, c, "two components have one number");
        if (!p->h || p->h > 4 || !p->v || p->v > 4 || p->table > 3)
            return bzi_jpeg_fail(err, c, "the frame header is damaged");
    }
    return BZNA_OK;
}

/* --- Scans --- */

static uint32_t bzi_jpeg_divide(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

static void bzi_jpeg_factors(const bzi_jpeg *j, uint32_t *h, uint32_t *v)
{
    *h = *v = 1;
    for (uint32_t i = 0; i < j->count; i++) {
        *h = j->component[i].h > *h ? j->component[i].h : *h;
        *v = j->component[i].v > *v ? j->component[i].v : *v;
    }
}

/* Units of a scan (A.2): blocks of the one component that it has; or blocks of all, as the factors say. */
static uint64_t bzi_jpeg_units(const bzi_jpeg *j, const bzi_jpeg_component *one)
{
    uint32_t h, v;
    bzi_jpeg_factors(j, &h, &v);
    if (one)
        return (uint64_t)bzi_jpeg_divide(bzi_jpeg_divide(j->width * one->h, h), 8) *
               bzi_jpeg_divide(bzi_jpeg_divide(j->height * one->v, v), 8);
    return (uint64_t)bzi_jpeg_divide(j->width, 8 * h) * bzi_jpeg_divide(j->height, 8 * v);
}

/* Restart markers that a scan must have. More at its end do no harm. */
static uint64_t bzi_jpeg_restarts(const bzi_jpeg *j)
{
    return j->scan_units && j->restart ? (j->scan_units - 1) / j->restart : 0;
}

static bzna_status bzi_jpeg_scan_end(bzi_jpeg *j, const bzi_cursor *c, bzna_error *err)
{
    if (j->restarts < bzi_jpeg_restarts(j))
        return bzi_jpeg_fail(err, c, "restart markers are missing: the coded data are damaged");
    j->scan_units = 0;
    return BZNA_OK;
}

static bzna_status bzi_jpeg_restart(bzi_jpeg *j, uint32_t marker, const bzi_cursor *c, bzna_error *err)
{
    if (j->restarts < bzi_jpeg_restarts(j) && marker != BZI_JPEG_RST0 + j->restarts % 8)
        return bzi_jpeg_fail(err, c, "restart markers are out of order: the coded data are damaged");
    j->restarts++;
    return BZNA_OK;
}

static int bzi_jpeg_is_progressive(const bzi_jpeg *j) { return (j->frame & 7) == 2; }

/* The coefficients of a scan, and their bits: what the scans have of the components that are in the set. */
static void bzi_jpeg_coefficients(bzi_jpeg *j, uint32_t set, uint32_t first, uint32_t last, uint32_t bits)
{
    j->several |= bzi_jpeg_is_progressive(j) || set != (1u << j->count) - 1;
    j->seen |= first ? 0 : set;
    for (uint32_t i = 0; i < j->count; i++)
        if (set >> i & 1 && !(bits & 15) && last < 64)
            j->component[i].final |= UINT64_MAX >> (63 - last) & UINT64_MAX << (first & 63);
}

/* B.2.3. Every table that the scan uses must be this picture's: a decoder may have others of pictures before. rows: of
 * a picture of one scan, those that are wanted; 0: all. */
static bzna_status bzi_jpeg_scan(bzi_jpeg *j, uint32_t rows, bzi_cursor *c, bzna_error *err)
{
    uint32_t count = bzi_cursor_u8(c), quantization = 0, dc = 0, ac = 0, seen = 0, first, last, bits;
    const bzi_jpeg_component *one = NULL;
    if (!j->frame)
        return bzi_jpeg_fail(err, c, "a scan before the frame header");
    if (++j->scans > BZI_LIMIT_JPEG_SCANS)
        return bzi_fail(err, BZNA_E_LIMIT, bzi_cursor_offset(c), 0, 0, "JPEG: more than %u scans",
                        BZI_LIMIT_JPEG_SCANS);
    if (!count || count > j->count || bzi_cursor_left(c) != 2 * count + 3)
        return bzi_jpeg_fail(err, c, "a scan header is damaged");
    while (count--) {
        uint32_t id = bzi_cursor_u8(c), tables = bzi_cursor_u8(c), i = 0;
        while (i < j->count && j->component[i].id != id)
            i++;
        if (i == j->count || seen >> i & 1 || tables >> 4 > 3 || (tables & 15) > 3)
            return bzi_jpeg_fail(err, c, "a scan header is damaged");
        one = seen ? NULL : &j->component[i];
        seen |= 1u << i;
        quantization |= 1u << j->component[i].table;
        dc |= 1u << (tables >> 4);
        ac |= 1u << (tables & 15);
    }
    first = bzi_cursor_u8(c);
    last = bzi_cursor_u8(c);
    bits = bzi_cursor_u8(c);                                /* where a scan before has left off, and this one does */
    if (!bzi_jpeg_is_progressive(j))
        first = bits = 0, last = 63;
    else if (first)
        dc = 0;
    else
        ac = 0;
    if (j->frame > BZI_JPEG_SOF2)
        dc = ac = 0;                                        /* arithmetic coding does without */
    if ((quantization & ~j->quantization) || (dc & ~j->dc && !(bits >> 4)) || (ac & ~j->ac))
        return bzi_jpeg_fail(err, c, "a scan uses a table that the picture does not define");
    bzi_jpeg_coefficients(j, seen, first, last, bits);
    if (!j->several && rows && rows < j->height && j->count < 4)            /* of CMYK, libavcodec blends rows */
        j->height = rows;
    j->scan_units = bzi_jpeg_units(j, one);
    j->restarts = 0;
    return BZNA_OK;
}

/* --- The picture --- */

/* What programs note: JFIF, EXIF, Adobe. */
static void bzi_jpeg_note(bzi_jpeg *j, uint32_t marker, const bzi_cursor *c)
{
    bzi_span tiff = { c->data, c->size };
    if (marker == BZI_JPEG_APP0 && c->size >= 5 && !memcmp(c->data, "JFIF", 5))
        j->jfif = 1;
    if (marker == BZI_JPEG_APP14 && c->size >= 12 && !memcmp(c->data, "Adobe", 5))
        j->adobe = c->data[11];
    if (marker == BZI_JPEG_APP1 && c->size >= 6 && !memcmp(c->data, "Exif\0", 6) && !j->orientation) {
        tiff.data += 6;
        tiff.size -= 6;
        j->orientation = bzi_tiff_orientation(tiff);
    }
}

/* One marker of the picture and its segment. */
static bzna_status bzi_jpeg_take(bzi_jpeg *j, uint32_t marker, uint32_t rows, bzi_cursor *segment, bzna_error *err)
{
    bzna_status status;
    if (marker >= BZI_JPEG_RST0 && marker <= BZI_JPEG_RST7)
        return bzi_jpeg_restart(j, marker, segment, err);
    if ((status = bzi_jpeg_scan_end(j, segment, err)) != BZNA_OK)
        return status;
    if (marker < BZI_JPEG_SOF0)
        return bzi_jpeg_fail(err, segment, "there is no such marker: the coded data are damaged");
    switch (marker) {
    case BZI_JPEG_SOI:  return bzi_jpeg_fail(err, segment, "a picture inside the picture");
    case BZI_JPEG_DQT:  return bzi_jpeg_quantization(j, segment, err);
    case BZI_JPEG_DHT:  return bzi_jpeg_huffman(j, segment, err);
    case BZI_JPEG_SOS:  return bzi_jpeg_scan(j, rows, segment, err);
    case BZI_JPEG_DHP:
    case BZI_JPEG_EXP:
    case BZI_JPEG_SOF55: return bzi_jpeg_refuse(marker, err);
    case BZI_JPEG_DAC:
    case BZI_JPEG_JPG:  return BZNA_OK;
    case BZI_JPEG_DRI:
        j->restart = bzi_cursor_u16(segment);
        return segment->overrun ? bzi_jpeg_fail(err, segment, "the restart interval is damaged") : BZNA_OK;
    }
    if (marker <= BZI_JPEG_SOF15)
        return bzi_jpeg_frame(j, marker, segment, err);
    bzi_jpeg_note(j, marker, segment);
    return BZNA_OK;
}

/* Whether the scans have every bit of the picture, so that none can be missing. */
static int bzi_jpeg_is_complete(const bzi_jpeg *j)
{
    uint64_t final = j->frame ? UINT64_MAX : 0;
    for (uint32_t i = 0; i < j->count; i++)
        final &= j->component[i].final;
    return final == UINT64_MAX;
}

/* All of a picture of several scans. One of a single scan is known when that begins; with rows, as many of its rows are
 * walked as well, and become its height. */
static bzna_status bzi_jpeg_walk(bzi_jpeg *j, bzi_span data, uint32_t rows, bzna_error *err)
{
    bzi_cursor c = bzi_cursor_make(data.data, data.size, 0), segment;
    uint32_t marker;
    bzna_status status;
    memset(j, 0, sizeof *j);
    j->adobe = UINT32_MAX;
    if (data.size < 3 || memcmp(data.data, "\xff\xd8\xff", 3))
        return BZI_FAIL(err, BZNA_E_DECODE, "not a JPEG: it begins otherwise");
    c.pos = 2;
    while ((marker = bzi_jpeg_next(&c, &segment)) != BZI_JPEG_EOI) {
        if ((!marker || c.overrun) && bzi_jpeg_is_complete(j) && j->restarts >= bzi_jpeg_restarts(j))
            break;
        if (!marker || c.overrun)
            return bzi_jpeg_fail(err, &c, "truncated: the end marker is missing");
        if ((status = bzi_jpeg_take(j, marker, rows, &segment, err)) != BZNA_OK)
            return status;
        if (j->scans && !j->several && !rows)
            return BZNA_OK;
    }
    if ((status = bzi_jpeg_scan_end(j, &c, err)) != BZNA_OK)
        return status;
    if (!j->frame || j->seen != (1u << j->count) - 1)
        return bzi_jpeg_fail(err, &c, j->frame ? "a component has no data" : "there is no picture");
    return BZNA_OK;
}

/* What the components are, by the rules of libjpeg, which others follow: JFIF's marker means Y'CbCr, else Adobe's says
 * it, else the components' numbers do. 1: R'G'B'. */
static int bzi_jpeg_is_rgb(const bzi_jpeg *j)
{
    const bzi_jpeg_component *c = j->component;
    if (j->count == 4)
        return j->adobe == 0;                               /* CMYK, multiplied by K */
    if (j->count == 1 || j->jfif)
        return 0;
    if (j->adobe != UINT32_MAX)
        return j->adobe == 0;
    return c[0].id == 'R' && c[1].id == 'G' && c[2].id == 'B';
}

/* The chroma format; of CMYK and YCCK it is that of 4:4:4, whatever their factors are. */
static bzna_status bzi_jpeg_chroma(const bzi_jpeg *j, uint32_t *chroma_format, bzna_error *err)
{
    static const struct { uint8_t x, y, format; } known[] = { { 1, 1, 3 }, { 2, 1, 2 }, { 2, 2, 1 },
                                                              { 1, 2, BZI_CHROMA_440 }, { 4, 1, BZI_CHROMA_411 } };
    const bzi_jpeg_component *c = j->component;
    int alike = c[1].h == c[2].h && c[1].v == c[2].v;
    size_t full = bzi_jpeg_is_rgb(j) ? 1 : sizeof known / sizeof known[0];
    *chroma_format = j->count == 4 ? 3 : 0;
    if (j->count != 3)
        return BZNA_OK;
    for (size_t i = 0; i < full && alike; i++)
        if (c[0].h == c[1].h * known[i].x && c[0].v == c[1].v * known[i].y) {
            *chroma_format = known[i].format;
            return BZNA_OK;
        }
    return BZI_FAIL(err, BZNA_E_CODEC, "JPEG: %u components (%s) with the sampling factors %ux%u, %ux%u, %ux%u "
                    "are not supported", j->count, bzi_jpeg_is_rgb(j) ? "RGB" : "Y'CbCr", c[0].h, c[0].v, c[1].h,
                    c[1].v, c[2].h, c[2].v);
}

/* A decoder of several scans keeps all coefficients: two bytes each, and one a block. */
static bzna_status bzi_jpeg_check_memory(const bzi_jpeg *j, bzna_error *err)
{
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < j->count; i++)
        blocks += bzi_jpeg_units(j, NULL) * j->component[i].h * j->component[i].v;
    if (j->several && blocks * 129 > BZI_LIMIT_JPEG_BYTES)
        return BZI_FAIL(err, BZNA_E_LIMIT,
                        "JPEG: the coefficients of %ux%u in several scans take %llu bytes, more than %llu", j->width,
                        j->height, (unsigned long long)blocks * 129, (unsigned long long)BZI_LIMIT_JPEG_BYTES);
    return BZNA_OK;
}

static bzna_status bzi_jpeg_inspect(bzi_span data, bzi_format *format, bzna_error *err)
{
    bzi_jpeg j;
    bzna_status status = bzi_jpeg_walk(&j, data, 0, err);
    memset(format, 0, sizeof *format);
    if (status != BZNA_OK || (status = bzi_jpeg_chroma(&j, &format->chroma_format, err)) != BZNA_OK ||
        (status = bzi_jpeg_check_memory(&j, err)) != BZNA_OK)
        return status;
    if (j.count == 4 && j.adobe != 0 && (j.adobe != 2 || j.component[0].id == 'C'))
        return BZI_FAIL(err, BZNA_E_CODEC, "JPEG: four components that neither Adobe's marker nor their numbers "
                        "explain as CMYK or YCCK are not supported");
    format->width = j.width;
    format->height = j.height;
    format->depth_luma = format->depth_chroma = 8;
    format->profile[0] = j.frame == BZI_JPEG_SOF0 && j.count == 3 && !j.several && !bzi_jpeg_is_rgb(&j);
    format->orientation = j.orientation;
    format->has_chroma_location = format->chroma_location = 1;              /* centered */
    format->color.primaries = 1;
    format->color.transfer = 13;
    format->color.matrix = bzi_jpeg_is_rgb(&j) ? 0 : 5;
    format->color.full_range = format->color.present = 1;
    return BZNA_OK;
}

/* For libavcodec, which decodes a picture of one scan as far as its header says, and does not look at the numbers of
 * restart markers: makes it one of so many rows, whose markers are in order. One of several scans stays as it is. That
 * data end early, libavcodec sees only where an MCU begins, and it does not say in which row. */
BZI_MAYBE_UNUSED static bzna_status bzi_jpeg_cut(uint8_t *data, uint64_t size, uint32_t *rows, bzna_error *err)
{
    bzi_span whole = { data, size };
    bzi_jpeg j;
    bzna_status status = bzi_jpeg_walk(&j, whole, *rows ? *rows : 1, err);
    if (status == BZNA_OK) {
        *rows = j.height;
        data[j.height_at] = (uint8_t)(j.height >> 8);
        data[j.height_at + 1] = (uint8_t)j.height;
    }
    return status;
}

/* Takes out, in place, what libavcodec shall not see: notes, by which libavcodec knows programs that it decodes
 * otherwise, now and later; Adobe's, too, where JFIF's counts. Returns the size that is left. */
BZI_MAYBE_UNUSED static uint64_t bzi_jpeg_strip(uint8_t *data, uint64_t size)
{
    bzi_span whole = { data, size };
    bzi_cursor c = bzi_cursor_make(data, size, 0), segment;
    uint64_t begin = 2, out = 2;      /* of what is kept next; and where it goes */
    bzi_jpeg j;
    bzna_error ignored;
    uint32_t marker;
    if (bzi_jpeg_walk(&j, whole, 0, &ignored) != BZNA_OK)
        return size;
    c.pos = 2;
    do {
        marker = bzi_jpeg_next(&c, &segment);
        if ((marker >= BZI_JPEG_APP0 && marker <= BZI_JPEG_APP15 &&
             !(marker == BZI_JPEG_APP14 && (!j.jfif || j.count == 4))) ||
            marker == BZI_JPEG_COM) {
            uint64_t end = c.pos - segment.size - 4;        /* marker and size */
            memmove(data + out, data + begin, (size_t)(end - begin));
            out += end - begin;
            begin = c.pos;
        }
    } while (marker && marker != BZI_JPEG_EOI);
    memmove(data + out, data + begin, (size_t)(c.pos - begin));
    return out + (c.pos - begin);
}


/* ==== 11. Stills =====================================================================================================
 * Calls: rooms 2, 5, 7, 10. Pictures that are files of their own, told apart by their first bytes. Their headers say
 * sizes and orientation; and their ends are looked for, because decoders conceal what is missing. What components and
 * bits they have is known once they are decoded: a format's are provisional here. */

/* A little-endian number of the next bytes. */
static uint32_t bzi_cursor_le(bzi_cursor *c, uint32_t bytes)
{
    const uint8_t *p = bzi_cursor_take(c, bytes);
    uint32_t value = 0;
    for (uint32_t i = bytes; p && i; i--)
        value = value << 8 | p[i - 1];
    return value;
}

static bzna_status bzi_still_fail(bzna_error *err, const bzi_cursor *c, const char *name, const char *what)
{
    return bzi_fail(err, BZNA_E_DECODE, bzi_cursor_offset(c), 0, 0, "%s, byte %llu: %s", name,
                    (unsigned long long)bzi_cursor_offset(c), what);
}

static bzna_status bzi_still_refuse(bzna_error *err, const char *what)
{
    return BZI_FAIL(err, BZNA_E_CODEC, "%s is not supported", what);
}

/* --- PNG --- */

enum { BZI_PNG_HEADER = 8 + 8 + 13 + 4 };                   /* signature; IHDR: length and type, data, CRC */

/* The next chunk: its type and data. 0: there is none, or c->overrun is set. */
static uint32_t bzi_png_next(bzi_cursor *c, bzi_cursor *data)
{
    uint32_t size = bzi_cursor_u32(c), type = bzi_cursor_u32(c);
    *data = bzi_cursor_sub(c, size);
    bzi_cursor_u32(c);
    return c->overrun ? 0 : type;
}

/* Deflated data are at most 1032 times as long as they were: a file of a few bytes is no large picture. */
static int bzi_png_can_be(uint32_t width, uint32_t height, uint32_t bits, uint64_t coded)
{
    return ((uint64_t)width * bits + 7) / 8 * height / 1032 <= coded;
}

static bzna_status bzi_png_inspect(bzi_span file, bzi_format *format, bzna_error *err)
{
    static const uint8_t samples[8] = { 1, 0, 3, 1, 2, 0, 4, 0 };           /* of a pixel, by color type */
    bzi_cursor c = bzi_cursor_make(file.data, file.size, 0), chunk;
    uint32_t type, depth, colors, has_palette = 0;
    uint64_t coded = 0;
    bzi_cursor_take(&c, 8);
    if (bzi_png_next(&c, &chunk) != BZI_FOURCC('I', 'H', 'D', 'R') || chunk.size != 13)
        return bzi_still_fail(err, &c, "PNG", "it does not begin with a header");
    format->width = bzi_cursor_u32(&chunk);
    format->height = bzi_cursor_u32(&chunk);
    depth = bzi_cursor_u8(&chunk);
    colors = bzi_cursor_u8(&chunk);
    format->depth_luma = format->depth_chroma = depth == 16 ? 16 : 8;
    do {
        if (!(type = bzi_png_next(&c, &chunk)))
            return bzi_still_fail(err, &c, "PNG", "truncated: the end chunk is missing");
        if (type == BZI_FOURCC('P', 'L', 'T', 'E') && !coded)
            has_palette = 1;
        if (type == BZI_FOURCC('I', 'D', 'A', 'T'))
            coded += chunk.size;
        if (type == BZI_FOURCC('e', 'X', 'I', 'f') && !format->orientation)
            format->orientation = bzi_tiff_orientation((bzi_span){ chunk.data, chunk.size });
    } while (type != BZI_FOURCC('I', 'E', 'N', 'D'));
    if (colors == 3 && !has_palette)
        return bzi_still_fail(err, &c, "PNG", "there is no palette before the pixels");
    if (colors > 7 || !samples[colors] || !coded ||
        !bzi_png_can_be(format->width, format->height, samples[colors] * depth, coded))
        return bzi_still_fail(err, &c, "PNG", "the header is damaged, or pixels are missing");
    return BZNA_OK;
}

/* Takes out what is no pixel: profiles, which a decoder would inflate to any size, texts, animations. */
static uint64_t bzi_png_strip(uint8_t *data, uint64_t size)
{
    bzi_cursor c = bzi_cursor_make(data, size, 0), chunk;
    uint64_t out = 8;
    uint32_t type;
    bzi_cursor_take(&c, 8);
    do {
        uint64_t begin = c.pos;
        type = bzi_png_next(&c, &chunk);
        if (!type || ((type >> 24 & 0x20) && type != BZI_FOURCC('t', 'R', 'N', 'S')))
            continue;
        memmove(data + out, data + begin, (size_t)(c.pos - begin));
        out += c.pos - begin;
    } while (type && type != BZI_FOURCC('I', 'E', 'N', 'D'));
    return out;
}

/* --- WebP --- */

/* Whether a VP8 picture has segments and no map of them: libavcodec would take that of the picture before. The first
 * four bits of its first partition, as likely 0 as 1, are: color space, clamping, segments, map (RFC 6386, 7.3 and
 * 9.3). */
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

/* Sizes. Of VP8, a macroblock costs more than 2 bits. Returns 0 where it is no picture that stands alone. */
static int bzi_webp_read(uint32_t type, bzi_cursor *c, bzi_format *format)
{
    uint32_t bits;
    if (type == BZI_FOURCC('V', 'P', '8', ' ')) {
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
    bzi_cursor c = bzi_cursor_make(file.data, file.size, 0), riff, chunk;
    bzi_cursor_take(&c, 4);
    riff = bzi_cursor_sub(&c, bzi_cursor_le(&c, 4));
    if (c.overrun)
        return bzi_still_fail(err, &c, "WebP", "truncated");
    bzi_cursor_take(&riff, 4);
    while (bzi_cursor_left(&riff) >= 8) {
        uint32_t type = bzi_cursor_u32(&riff), bytes = bzi_cursor_le(&riff, 4);
        chunk = bzi_cursor_sub(&riff, bytes);
        if (riff.overrun)
            return bzi_still_fail(err, &riff, "WebP", "a chunk is longer than the file");
        bzi_cursor_take(&riff, bytes & 1 && bzi_cursor_left(&riff));        /* even sizes */
        if (type == BZI_FOURCC('V', 'P', '8', 'X') && (bzi_cursor_u8(&chunk) & 2))
            return bzi_still_refuse(err, "animated WebP");
        if ((type == BZI_FOURCC('V', 'P', '8', ' ') || type == BZI_FOURCC('V', 'P', '8', 'L')) && !format->width &&
            !bzi_webp_read(type, &chunk, format))
            return bzi_still_fail(err, &chunk, "WebP", "the header is damaged, or pixels are missing");
        if (type == BZI_FOURCC('E', 'X', 'I', 'F') && !format->orientation) {
            uint32_t skip = bytes >= 6 && !memcmp(chunk.data, "Exif\0", 6) ? 6 : 0;         /* some write that */
            format->orientation = bzi_tiff_orientation((bzi_span){ chunk.data + skip, bytes - skip });
        }
    }
    return format->width ? BZNA_OK : bzi_still_fail(err, &riff, "WebP", "there is no picture");
}

/* --- GIF --- */

static void bzi_gif_skip_blocks(bzi_cursor *c)
{
    uint32_t size;
    while ((size = bzi_cursor_u8(c)) != 0)
        bzi_cursor_take(c, size);
}

typedef struct bzi_gif {
    uint64_t control;                 /* where the flags are that say of a transparent color; 0: nowhere */
    uint64_t palettes[2];             /* where they are: that of all pictures, that of the first */
    uint32_t colors[2];
} bzi_gif;

static void bzi_gif_palette(bzi_cursor *c, uint32_t flags, bzi_gif *gif, int own)
{
    gif->palettes[own] = c->pos;
    gif->colors[own] = flags & 0x80 ? 2u << (flags & 7) : 0;
    bzi_cursor_take(c, 3 * gif->colors[own]);
}

/* Goes to the first picture, and past it. */
static int bzi_gif_first(bzi_cursor *c, bzi_gif *gif)
{
    uint32_t block, flags;
    memset(gif, 0, sizeof *gif);
    bzi_cursor_take(c, 10);
    flags = bzi_cursor_u8(c);
    bzi_cursor_take(c, 2);
    bzi_gif_palette(c, flags, gif, 0);
    while ((block = bzi_cursor_u8(c)) == 0x21) {
        if (bzi_cursor_u8(c) == 0xf9)
            gif->control = c->pos + 1;
        bzi_gif_skip_blocks(c);
    }
    if (block != 0x2c)
        return 0;
    bzi_cursor_take(c, 8);
    bzi_gif_palette(c, bzi_cursor_u8(c), gif, 1);
    bzi_cursor_u8(c);
    bzi_gif_skip_blocks(c);
    return !c->overrun;
}

static bzna_status bzi_gif_inspect(bzi_span file, bzi_format *format, bzna_error *err)
{
    bzi_cursor c = bzi_cursor_make(file.data, file.size, 0), all = c;
    bzi_gif gif;
    bzi_cursor_take(&c, 6);
    format->width = bzi_cursor_le(&c, 2);
    format->height = bzi_cursor_le(&c, 2);
    format->pixel_bits = 8;
    if (!bzi_gif_first(&all, &gif))
        return bzi_still_fail(err, &all, "GIF", all.overrun ? "truncated" : "there is no picture");
    return BZNA_OK;
}

/* No color is transparent then: libavcodec would replace it. Nor is there a second picture. */
static uint64_t bzi_gif_strip(uint8_t *data, uint64_t size)
{
    bzi_cursor c = bzi_cursor_make(data, size, 0);
    bzi_gif gif;
    if (!bzi_gif_first(&c, &gif))
        return size;
    if (gif.control)
        data[gif.control] &= 0xfe;
    return c.pos;
}

/* Each color of the palettes becomes its own number, so that what libavcodec decodes are indices. */
static void bzi_gif_number_colors(uint8_t *data, uint64_t size)
{
    bzi_cursor c = bzi_cursor_make(data, size, 0);
    bzi_gif gif;
    if (!bzi_gif_first(&c, &gif))
        return;
    for (int own = 0; own < 2; own++)
        for (uint32_t i = 0; i < 3 * gif.colors[own]; i++)
            data[gif.palettes[own] + i] = (uint8_t)(i / 3);
}

/* --- BMP, TIFF, PNM --- */

static bzna_status bzi_bmp_inspect(bzi_span file, bzi_format *format, bzna_error *err)
{
    enum { RLE8 = 1, RLE4 = 2 };
    bzi_cursor c = bzi_cursor_make(file.data, file.size, 0);
    uint32_t pixels, header, bits, compression;
    bzi_cursor_take(&c, 10);
    pixels = bzi_cursor_le(&c, 4);
    header = bzi_cursor_le(&c, 4);
    format->width = bzi_cursor_le(&c, header == 12 ? 2 : 4);
    format->height = bzi_cursor_le(&c, header == 12 ? 2 : 4);
    if (header != 12 && format->height > INT32_MAX)
        format->height = 0 - format->height;                /* negative: rows from the top */
    bzi_cursor_take(&c, 2);
    bits = bzi_cursor_le(&c, 2);
    compression = header == 12 ? 0 : bzi_cursor_le(&c, 4);
    format->pixel_bits = compression == RLE8 || compression == RLE4 ? 8 : 0;
    if (c.overrun || bits > 32 || pixels > file.size ||
        (compression != RLE8 && compression != RLE4 && format->height &&
         ((uint64_t)format->width * bits + 31) / 32 * 4 > (file.size - pixels) / format->height))
        return bzi_still_fail(err, &c, "BMP", "truncated, or the header is damaged");
    return BZNA_OK;
}

/* libavcodec decodes tiles, and JPEG inside, to black without an error. */
static bzna_status bzi_tiff_inspect(bzi_span file, bzi_format *format, bzna_error *err)
{
    enum { WIDTH = 256, HEIGHT = 257, BITS = 258, COMPRESSION = 259, SAMPLES = 277, TILE_WIDTH = 322,
           SAMPLE_FORMAT = 339, OLD_JPEG = 6, JPEG = 7, FLOATS = 3 };
    const uint32_t compression = bzi_tiff_value(file, COMPRESSION), bits = bzi_tiff_value(file, BITS);
    const uint32_t samples = bzi_tiff_value(file, SAMPLES);
    format->width = bzi_tiff_value(file, WIDTH);
    format->height = bzi_tiff_value(file, HEIGHT);
    format->depth_luma = format->depth_chroma = bits == 16 ? 16 : 8;
    format->pixel_bits = (bits ? (uint32_t)bzi_min(bits, 16) : 1) * (samples ? (uint32_t)bzi_min(samples, 4) : 1);
    format->orientation = bzi_tiff_orientation(file);
    if (compression == JPEG || compression == OLD_JPEG)
        return bzi_still_refuse(err, "TIFF compressed as JPEG");
    if (bzi_tiff_value(file, TILE_WIDTH))
        return bzi_still_refuse(err, "TIFF in tiles");
    if (bits > 16 || bzi_tiff_value(file, SAMPLE_FORMAT) == FLOATS)
        return bzi_still_refuse(err, "TIFF of floating-point numbers, or of more than 16 bits a sample,");
    return BZNA_OK;
}

/* Leaves the tags that libavcodec needs, because it fails on those that it does not know where errors are to count. */
static uint64_t bzi_tiff_strip(uint8_t *data, uint64_t size)
{
    /* sizes, bits, compression, photometric, fill order, strips, samples, planes, fax options, predictor, palette,
     * Y'CbCr */
    static const uint16_t kept[] = { 256, 257, 258, 259, 262, 266, 273, 277, 278, 279, 284, 292, 293, 317, 320, 530 };
    const bzi_span tiff = { data, size };
    const uint64_t directory = bzi_tiff_number(tiff, 4, 4);
    const uint32_t count = bzi_tiff_number(tiff, directory, 2), is_little = data[0] == 'I';
    uint64_t out = directory + 2;
    uint32_t left = 0;
    if (out + 12 * (uint64_t)count > size)
        return size;
    for (uint64_t at = out; at < directory + 2 + 12 * (uint64_t)count; at += 12)
        for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
            if (bzi_tiff_number(tiff, at, 2) == kept[i]) {
                memmove(data + out, data + at, 12);
                out += 12;
                left++;
                break;
            }
    data[directory + is_little] = (uint8_t)(left >> 8);
    data[directory + !is_little] = (uint8_t)left;
    memset(data + out, 0, (size_t)bzi_min(4, size - out));  /* no second picture */
    return size;
}

/* The next word of a header, up to 8 characters; comments are skipped. */
static void bzi_pnm_word(bzi_cursor *c, char word[9])
{
    uint32_t n = 0, letter = bzi_cursor_u8(c);
    while (!c->overrun && (bzi_is_space(letter) || letter == '#')) {
        while (letter == '#' && !c->overrun && bzi_cursor_u8(c) != '\n')
            ;
        letter = bzi_cursor_u8(c);
    }
    for (; !c->overrun && !bzi_is_space(letter); letter = bzi_cursor_u8(c))
        if (n < 8)
            word[n++] = (char)letter;
    word[n] = 0;
}

static uint32_t bzi_pnm_number(bzi_cursor *c)
{
    char word[9];
    uint32_t value = 0;
    bzi_pnm_word(c, word);
    for (const char *p = word; *p >= '0' && *p <= '9'; p++)
        value = value * 10 + (uint32_t)(*p - '0');
    return value;
}

/* Portable anymap (P7): words and numbers in any order. */
static void bzi_pam_header(bzi_cursor *c, bzi_format *format, uint32_t *top, uint32_t *samples)
{
    char word[9] = "";
    while (!c->overrun && strcmp(word, "ENDHDR")) {
        bzi_pnm_word(c, word);
        if (!strcmp(word, "WIDTH"))
            format->width = bzi_pnm_number(c);
        else if (!strcmp(word, "HEIGHT"))
            format->height = bzi_pnm_number(c);
        else if (!strcmp(word, "DEPTH"))
            *samples = bzi_pnm_number(c);
        else if (!strcmp(word, "MAXVAL"))
            *top = bzi_pnm_number(c);
    }
}

static bzna_status bzi_pnm_inspect(bzi_span file, bzi_format *format, bzna_error *err)
{
    bzi_cursor c = bzi_cursor_make(file.data, file.size, 0);
    uint32_t kind = file.data[1], top = 1, samples = kind == '3' || kind == '6' ? 3 : 1;
    uint64_t row;
    bzi_cursor_take(&c, 2);
    if (kind == '7') {
        bzi_pam_header(&c, format, &top, &samples);
    } else {
        format->width = bzi_pnm_number(&c);
        format->height = bzi_pnm_number(&c);
        top = kind == '1' || kind == '4' ? 1 : bzi_pnm_number(&c);
    }
    format->depth_luma = format->depth_chroma = top > 255 ? 16 : 8;
    row = kind == '4' ? ((uint64_t)format->width + 7) / 8 : (uint64_t)format->width * samples * (top > 255 ? 2 : 1);
    if (kind < '4')
        row = format->width;                                /* a character for each pixel at least */
    if (c.overrun || !top || top > 65535 || !samples || samples > 4 || !format->height ||
        row > bzi_cursor_left(&c) / format->height)
        return bzi_still_fail(err, &c, "PNM", "truncated, or the header is damaged");
    return BZNA_OK;
}

/* --- JPEG 2000 --- */

/* The codestream in a file of boxes, or the file itself. */
static bzi_cursor bzi_j2k_stream(bzi_span file)
{
    bzi_cursor c = bzi_cursor_make(file.data, file.size, 0);
    while (file.data[0] == 0 && bzi_cursor_left(&c) >= 8 && !c.overrun) {
        uint64_t size = bzi_cursor_u32(&c), header = 8;
        uint32_t type = bzi_cursor_u32(&c);
        if (size == 1) {
            size = (uint64_t)bzi_cursor_u32(&c) << 32;
            size |= bzi_cursor_u32(&c);
            header = 16;
        }
        size = size ? size - header : bzi_cursor_left(&c);
        if (type == BZI_FOURCC('j', 'p', '2', 'c'))
            return bzi_cursor_sub(&c, size);
        bzi_cursor_take(&c, size);
    }
    return c;
}

/* What comes after the header, libavcodec checks. */
static bzna_status bzi_j2k_inspect(bzi_span file, bzi_format *format, bzna_error *err)
{
    bzi_cursor c = bzi_j2k_stream(file);
    uint32_t right, bottom, x, y;
    if (bzi_cursor_u16(&c) != 0xff4f || bzi_cursor_u16(&c) != 0xff51)
        return bzi_still_fail(err, &c, "JPEG 2000", "there is no picture, or it is truncated");
    bzi_cursor_take(&c, 4);
    right = bzi_cursor_u32(&c);
    bottom = bzi_cursor_u32(&c);
    x = bzi_cursor_u32(&c);
    y = bzi_cursor_u32(&c);
    bzi_cursor_take(&c, 16);
    format->pixel_bits = (uint32_t)bzi_min(bzi_cursor_u16(&c), 4);          /* components */
    format->depth_luma = format->depth_chroma = (bzi_cursor_u8(&c) & 127) + 1 > 8 ? 16 : 8;
    format->pixel_bits *= format->depth_luma;
    if (c.overrun || right <= x || bottom <= y)
        return bzi_still_fail(err, &c, "JPEG 2000", "the header is damaged");
    format->width = right - x;
    format->height = bottom - y;
    return BZNA_OK;
}

/* --- The list --- */

#ifndef BENZINA_NO_AVCODEC
#  define BZI_AV_ID(name) AV_CODEC_ID_##name
#else
#  define BZI_AV_ID(name) 0
#endif

typedef struct bzi_still {
    const char *name;                 /* for messages */
    const char *signature;            /* its first bytes; a point is any */
    uint32_t    signature_size;
    int         av_id;                /* libavcodec's number */
    bzna_status (*inspect)(bzi_span file, bzi_format *format, bzna_error *err);
    /* as bzi_codec.strip */
    uint64_t    (*strip)(uint8_t *data, uint64_t size);
    /* libavcodec's decoder takes nothing of a picture for the next. Those of the others do: GIF's colors past the end
     * of a palette; TIFF's palette, planes, subsampling; JPEG 2000's palette and color space */
    uint32_t    forgets;
} bzi_still;

static const bzi_still bzi_stills[] = {
    { "PNG", "\x89PNG\r\n\x1a\n", 8, BZI_AV_ID(PNG), bzi_png_inspect, bzi_png_strip, 1 },
    { "WebP", "RIFF....WEBP", 12, BZI_AV_ID(WEBP), bzi_webp_inspect, NULL, 1 },
    { "GIF", "GIF8.a", 6, BZI_AV_ID(GIF), bzi_gif_inspect, bzi_gif_strip, 0 },
    { "BMP", "BM.............\0\0\0", 18, BZI_AV_ID(BMP), bzi_bmp_inspect, NULL, 1 },
    { "TIFF", "II*\0", 4, BZI_AV_ID(TIFF), bzi_tiff_inspect, bzi_tiff_strip, 0 },
    { "TIFF", "MM\0*", 4, BZI_AV_ID(TIFF), bzi_tiff_inspect, bzi_tiff_strip, 0 },
    { "PBM", "P1", 2, BZI_AV_ID(PBM), bzi_pnm_inspect, NULL, 1 },
    { "PGM", "P2", 2, BZI_AV_ID(PGM), bzi_pnm_inspect, NULL, 1 },
    { "PPM", "P3", 2, BZI_AV_ID(PPM), bzi_pnm_inspect, NULL, 1 },
    { "PBM", "P4", 2, BZI_AV_ID(PBM), bzi_pnm_inspect, NULL, 1 },
    { "PGM", "P5", 2, BZI_AV_ID(PGM), bzi_pnm_inspect, NULL, 1 },
    { "PPM", "P6", 2, BZI_AV_ID(PPM), bzi_pnm_inspect, NULL, 1 },
    { "PAM", "P7", 2, BZI_AV_ID(PAM), bzi_pnm_inspect, NULL, 1 },
    { "JPEG 2000", "\0\0\0\x0cjP  \r\n\x87\n", 12, BZI_AV_ID(JPEG2000), bzi_j2k_inspect, NULL, 0 },
    { "JPEG 2000", "\xff\x4f\xff\x51", 4, BZI_AV_ID(JPEG2000), bzi_j2k_inspect, NULL, 0 },
};

/* What kind of still begins so; NULL: none that is known. */
static const bzi_still *bzi_still_find(bzi_span head)
{
    for (size_t i = 0; i < sizeof bzi_stills / sizeof bzi_stills[0]; i++) {
        const bzi_still *still = &bzi_stills[i];
        uint32_t n = 0;
        while (n < still->signature_size && n < head.size &&
               (still->signature[n] == '.' || (uint8_t)still->signature[n] == head.data[n]))
            n++;
        if (n == still->signature_size && (n > 2 || (head.size > 2 && bzi_is_space(head.data[2]))))
            return still;
    }
    return NULL;
}

/* Its name, by its first bytes: "PNG". */
static const char *bzi_still_name(bzi_span head)
{
    const bzi_still *still = bzi_still_find(head);
    return still ? still->name : "still";
}

static bzna_status bzi_still_inspect(bzi_span file, bzi_format *format, bzna_error *err)
{
    const bzi_still *still = bzi_still_find(file);
    bzna_status status;
    uint64_t bytes;
    memset(format, 0, sizeof *format);
    if (!still)
        return BZI_FAIL(err, BZNA_E_CODEC, "no still that is known: PNG, WebP, GIF, BMP, TIFF, PNM and JPEG 2000 are");
    format->depth_luma = format->depth_chroma = 8;
    format->chroma_format = 3;
    format->has_chroma_location = format->chroma_location = 1;              /* centered */
    format->color = (bzna_color){ 1, 13, 0, 1, 1 };
    if ((status = still->inspect(file, format, err)) != BZNA_OK)
        return status;
    if (!format->width || !format->height)
        return BZI_FAIL(err, BZNA_E_DECODE, "%s: a picture of %ux%u", still->name, format->width, format->height);
    if (!bzi_mul((uint64_t)format->width * format->height, format->pixel_bits, &bytes) ||
        (bytes / 8 > BZI_LIMIT_STILL_BYTES && bytes / 8 / BZI_LIMIT_STILL_RATIO > file.size))
        return BZI_FAIL(err, BZNA_E_LIMIT, "%s: %ux%u pixels in %llu bytes: a picture of more than %u MiB needs a byte "
                        "for each %u", still->name, format->width, format->height, (unsigned long long)file.size,
                        BZI_LIMIT_STILL_BYTES >> 20, BZI_LIMIT_STILL_RATIO);
    return BZNA_OK;
}

BZI_MAYBE_UNUSED static uint64_t bzi_still_strip(uint8_t *data, uint64_t size)
{
    const bzi_still *still = bzi_still_find((bzi_span){ data, size });
    return still && still->strip ? still->strip(data, size) : size;
}

/* Of a picture with a palette, of which libavcodec gives colors alone. */
BZI_MAYBE_UNUSED static void bzi_still_number_colors(uint8_t *data, uint64_t size)
{
    const bzi_still *still = bzi_still_find((bzi_span){ data, size });
    if (still && still->inspect == bzi_gif_inspect)
        bzi_gif_number_colors(data, size);
}


/* ==== 12. Codecs =====================================================================================================
 * Calls: rooms 2, 5, 8-11. A codec is a row of a table and its functions, and nothing else in the library names one. */

/* Their color where neither container nor stream says it. In archives: BT.709 primaries, sRGB curve, BT.601 matrix,
 * full range. Elsewhere what the codecs' standards and FFmpeg take it for: limited range, and BT.601 at any size, as
 * which an unspecified matrix counts here. */
static const bzna_color bzi_color_of_archives = { 1, 13, 5, 1, 1 }, bzi_color_of_codecs = { 2, 2, 2, 0, 1 };

static bzi_span bzi_image_config(const bzna_image *image)
{
    bzi_span s = { image->config, image->config ? image->config_size : 0 };
    return s;
}
static bzi_span bzi_image_data(const bzna_image *image)   { bzi_span s = { image->data, image->data_size }; return s; }

/* Iterates over the units of the config, then over those of the data: one loop for all that look at both. */
typedef struct bzi_image_nals {
    bzi_nals nals[2];
    uint32_t part;                    /* 0: in the config; 1: in the data */
} bzi_image_nals;

static bzi_image_nals bzi_image_nals_make(const bzna_image *image)
{
    bzi_image_nals n;
    bzi_span config = bzi_image_config(image);
    n.nals[0] = bzi_nals_of_config(config, image->codec);
    n.nals[1] = bzi_nals_of_unit(bzi_image_data(image), image->length_size);
    n.part = config.size ? 0 : 1;
    return n;
}

static int bzi_image_nals_next(bzi_image_nals *n, bzi_span *nal)
{
    int got = bzi_nals_next(&n->nals[n->part], nal);
    if (got == 0 && n->part == 0) {
        n->part = 1;
        got = bzi_nals_next(&n->nals[1], nal);
    }
    return got;
}

static bzna_status bzi_image_fail_nals(const bzi_image_nals *n, bzna_error *err)
{
    return BZI_FAIL(err, BZNA_E_BOX, "%s: a NAL unit is longer than what holds it",
                    n->part ? "the access unit" : n->nals[0].kind == BZI_NALS_HVCC ? "hvcC" : "avcC");
}

/* H.264, H.265: the configuration's parameter sets, then the access unit, each after a start code (Annex B). Returns
 * the required size always; writes only what fits. */
static bzna_status bzi_image_annexb(const bzna_image *image, uint8_t *dst, uint64_t capacity, uint64_t *needed,
                                    bzna_error *err)
{
    static const uint8_t start[4] = { 0, 0, 0, 1 };
    bzi_image_nals n = bzi_image_nals_make(image);
    uint64_t size = 0;
    bzi_span nal;
    int got;
    while ((got = bzi_image_nals_next(&n, &nal)) > 0) {
        if (n.part == 0 && !bzi_nal_is_parameter_set(image->codec, nal))
            continue;                                       /* x265 puts its banner there, 2.4 kB of SEI */
        if (size + 4 + nal.size <= capacity) {
            memcpy(dst + size, start, 4);
            memcpy(dst + size + 4, nal.data, (size_t)nal.size);
        }
        size += 4 + nal.size; /* cannot overflow: 4 more for each unit that lies in memory */
    }
    if (got < 0)
        return bzi_image_fail_nals(&n, err);
    *needed = size;
    return BZNA_OK;
}

/* The units of an AV1 configuration record. */
static bzi_span bzi_image_obus(const bzna_image *image)
{
    bzi_span config = bzi_image_config(image);
    uint64_t skip = bzi_min(config.size, 4);
    config.data = skip ? config.data + skip : NULL;
    config.size -= skip;
    return config;
}

/* AV1: the configuration's units, then the sample's. Returns the required size always; writes only what fits. */
static bzna_status bzi_image_low_overhead(const bzna_image *image, uint8_t *dst, uint64_t capacity, uint64_t *needed,
                                          bzna_error *err)
{
    bzi_span config = bzi_image_obus(image), data = bzi_image_data(image);
    (void)err;
    *needed = config.size + data.size;
    if (*needed <= capacity && config.size)
        memcpy(dst, config.data, (size_t)config.size);
    if (*needed <= capacity)
        memcpy(dst + config.size, data.data, (size_t)data.size);
    return BZNA_OK;
}

static uint64_t bzi_image_key_add(uint8_t *key, uint64_t at, uint64_t capacity, bzi_span unit)
{
    if (at + sizeof unit.size + unit.size <= capacity) {
        memcpy(key + at, &unit.size, sizeof unit.size);
        memcpy(key + at + sizeof unit.size, unit.data, (size_t)unit.size);
    }
    return at + sizeof unit.size + unit.size;
}

static uint64_t bzi_image_key_nals(const bzna_image *image, uint8_t *key, uint64_t at, uint64_t capacity)
{
    bzi_image_nals n = bzi_image_nals_make(image);
    bzi_span unit;
    while (bzi_image_nals_next(&n, &unit) > 0)
        if (bzi_nal_is_parameter_set(image->codec, unit))
            at = bzi_image_key_add(key, at, capacity, unit);
    return at;
}

static uint64_t bzi_image_key_obus(const bzna_image *image, uint8_t *key, uint64_t at, uint64_t capacity)
{
    for (int part = 0; part < 2; part++) {
        bzi_span rest = part ? bzi_image_data(image) : bzi_image_obus(image), unit;
        uint32_t type;
        while (bzi_obu_next(&rest, &type, &unit) > 0)
            if (type == BZI_OBU_SEQUENCE_HEADER)
                at = bzi_image_key_add(key, at, capacity, unit);
    }
    return at;
}

/* The sequence header in force, and whether the first frame is a key frame. */
static bzna_status bzi_image_av1(const bzna_image *image, bzi_format *sps, bzna_error *err)
{
    uint32_t type, reduced = 0, found = 0;
    bzi_span unit;
    for (int part = 0; part < 2; part++) {
        bzi_span rest = part ? bzi_image_data(image) : bzi_image_obus(image);
        int got;
        while ((got = bzi_obu_next(&rest, &type, &unit)) > 0) {
            if (type == BZI_OBU_SEQUENCE_HEADER) {
                if (!bzi_av1_read(unit, sps, &reduced))
                    return BZI_FAIL(err, BZNA_E_DECODE, "the sequence header is damaged");
                found = 1;
            }
            if (type != BZI_OBU_FRAME && type != BZI_OBU_FRAME_HEADER)
                continue;
            if (!found)
                return BZI_FAIL(err, BZNA_E_DECODE, "there is no sequence header");
            if (!reduced && (!unit.size || unit.data[0] & 0xe0)) /* show_existing_frame, frame_type: 0 is a key frame */
                return BZI_FAIL(err, BZNA_E_DECODE, "the picture needs other pictures");
            return BZNA_OK;
        }
        if (got < 0)
            return BZI_FAIL(err, BZNA_E_BOX, "%s: an AV1 unit is longer than what holds it",
                            part ? "the access unit" : "av1C");
    }
    return BZI_FAIL(err, BZNA_E_DECODE, "the access unit has no picture");
}

/* The sequence parameter set in force: the last one before the first slice. */
static bzna_status bzi_image_sps(const bzna_image *image, bzi_format *sps, bzna_error *err)
{
    bzi_image_nals n = bzi_image_nals_make(image);
    bzi_span nal, found = { NULL, 0 };
    int got;
    while ((got = bzi_image_nals_next(&n, &nal)) > 0) {
        uint32_t kind = bzi_nal_kind(image->codec, nal);
        if (kind == BZI_NAL_SPS)
            found = nal;
        else if (kind == BZI_NAL_SLICE)
            break;
    }
    if (got < 0)
        return bzi_image_fail_nals(&n, err);
    if (got == 0)
        return BZI_FAIL(err, BZNA_E_DECODE, "the access unit has no picture");
    if (!bzi_nal_starts_stream(image->codec, nal))
        return BZI_FAIL(err, BZNA_E_DECODE, "the picture needs other pictures");
    if (!found.data)
        return BZI_FAIL(err, BZNA_E_DECODE, "there is no sequence parameter set");
    if (!bzi_sps_read(image->codec, found, sps))
        return BZI_FAIL(err, BZNA_E_DECODE, "the sequence parameter set is damaged");
    return BZNA_OK;
}

static bzna_status bzi_image_jpeg(const bzna_image *image, bzi_format *format, bzna_error *err)
{
    return bzi_jpeg_inspect(bzi_image_data(image), format, err);
}

static bzna_status bzi_image_still(const bzna_image *image, bzi_format *format, bzna_error *err)
{
    return bzi_still_inspect(bzi_image_data(image), format, err);
}

/* A file of its own: its bytes as they are. */
static bzna_status bzi_image_bytes(const bzna_image *image, uint8_t *dst, uint64_t capacity, uint64_t *needed,
                                   bzna_error *err)
{
    (void)err;
    *needed = image->data_size;
    if (*needed <= capacity)
        memcpy(dst, image->data, (size_t)*needed);
    return BZNA_OK;
}

static uint64_t bzi_image_key_still(const bzna_image *image, uint8_t *key, uint64_t at, uint64_t capacity)
{
    const bzi_still *still = bzi_still_find(bzi_image_data(image));
    bzi_span number = { (const uint8_t *)&still->av_id, sizeof still->av_id };
    return bzi_image_key_add(key, at, capacity, number);
}

/* --- Pictures that are not coded --- */

/* Of BZNA_CODEC_RAW: full range, and R'G'B' as it is. */
static const bzna_color bzi_color_of_raw = { 1, 13, 0, 1, 1 };

/* The numbers of pixels, in order. */
static bzna_status bzi_image_raw(const bzna_image *image, bzi_format *sps, bzna_error *err)
{
    const bzi_span config = bzi_image_config(image);
    const uint64_t pixels = (uint64_t)image->frame_width * image->frame_height;
    if (config.size != 2 || (config.data[0] != 1 && config.data[0] != 3) || config.data[1] > BZNA_LAYOUT_NHWC)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "image.config: of raw pictures it is two bytes, channels (1 or 3) and "
                        "BZNA_LAYOUT_...");
    if (!pixels || pixels > UINT64_MAX / 3 || image->data_size != pixels * config.data[0])
        return BZI_FAIL(err, BZNA_E_MISMATCH, "a raw picture of %ux%u in %u channels has not %llu bytes",
                        image->frame_width, image->frame_height, config.data[0], (unsigned long long)image->data_size);
    memset(sps, 0, sizeof *sps);
    sps->width = image->frame_width;
    sps->height = image->frame_height;
    sps->chroma_format = config.data[0] == 3 ? 3 : 0;
    sps->depth_luma = sps->depth_chroma = 8;
    sps->color = bzi_color_of_raw;
    return BZNA_OK;
}

/* They need no decoder. G, B and R are Y, Cb and Cr. Pre: it was inspected. */
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

/* --- The table of codecs: a codec is a row and its functions, and nothing else in the library names one --- */

#ifndef BENZINA_NO_CUDA
#  define BZI_NV_ID(name) cudaVideoCodec_##name
#else
#  define BZI_NV_ID(name) 0
#endif

typedef struct bzi_codec {
    uint32_t    id;                   /* BZNA_CODEC_... */
    const char *name;                 /* for messages */
    uint32_t    entries[2];           /* types of mp4 sample entries, the writer's first; 0: there are none */
    uint32_t    config;               /* type of the decoder configuration record; 0: there is none */
    uint32_t    config_bytes;         /* which has so many at least */
    uint32_t    length_at; /* byte of the record that has the size of NAL units' lengths; 0: there are none */
    /* E_DECODE: not a picture that stands alone */
    bzna_status (*inspect)(const bzna_image *image, bzi_format *sps, bzna_error *err);
    bzna_status (*stream)(const bzna_image *image, uint8_t *dst, uint64_t capacity, uint64_t *needed, bzna_error *err);
    /* parameter sets, each after its size. NULL: nothing of a picture stays with its decoder */
    uint64_t    (*key)(const bzna_image *image, uint8_t *key, uint64_t at, uint64_t capacity);
    int         av_id;                /* libavcodec's number */
    const char *av_decoder;           /* and decoder; NULL: its own one */
    int         nv_id;                /* NVDEC's number */
    /* its coded sizes are multiples of this; above 1 its decoders can be made for intra pictures only. 0: NVDEC is not
     * asked to decode it */
    uint32_t    nv_unit;
    /* takes out of a stream, in place, what libavcodec shall not see; returns the size that is left. NULL: nothing */
    uint64_t    (*strip)(uint8_t *stream, uint64_t size);
    uint32_t    is_file;              /* its sizes and colors are in itself: a container may leave them unsaid */
    /* of pictures that are not coded: their planes, where they lie. NULL: they are */
    void        (*planes)(const bzna_image *image, bzna_picture *picture);
} bzi_codec;

static const bzi_codec bzi_codecs[] = {
    { .id = BZNA_CODEC_H264,
      .name = "H.264",
      .entries = { BZI_AVC1, BZI_AVC3 },
      .config = BZI_FOURCC('a', 'v', 'c', 'C'),
      .config_bytes = 7,
      .length_at = 4,
      .inspect = bzi_image_sps,
      .stream = bzi_image_annexb,
      .key = bzi_image_key_nals,
      .av_id = BZI_AV_ID(H264),
      .nv_id = BZI_NV_ID(H264),
      .nv_unit = 16 },
    { .id = BZNA_CODEC_H265,
      .name = "H.265",
      .entries = { BZI_HVC1, BZI_HEV1 },
      .config = BZI_FOURCC('h', 'v', 'c', 'C'),
      .config_bytes = 23,
      .length_at = 21,
      .inspect = bzi_image_sps,
      .stream = bzi_image_annexb,
      .key = bzi_image_key_nals,
      .av_id = BZI_AV_ID(HEVC),
      .nv_id = BZI_NV_ID(HEVC),
      .nv_unit = 16 },
    { .id = BZNA_CODEC_AV1,
      .name = "AV1",
      .entries = { BZI_AV01, BZI_AV01 },
      .config = BZI_FOURCC('a', 'v', '1', 'C'),
      .config_bytes = 4,
      .inspect = bzi_image_av1,
      .stream = bzi_image_low_overhead,
      .key = bzi_image_key_obus,
      .av_id = BZI_AV_ID(AV1),
      .av_decoder = "libdav1d",                 /* libavcodec's own AV1 decoder needs hardware */
      .nv_id = BZI_NV_ID(AV1),
      .nv_unit = 1 },
    { .id = BZNA_CODEC_JPEG,
      .name = "JPEG",
      .entries = { BZI_FOURCC('m', 'j', 'p', 'g'), BZI_FOURCC('j', 'p', 'e', 'g') },        /* HEIF's, QuickTime's */
      .inspect = bzi_image_jpeg,
      .stream = bzi_image_bytes,
      .av_id = BZI_AV_ID(MJPEG),
      .nv_id = BZI_NV_ID(JPEG),                 /* for loaders that ask for it */
      .nv_unit = 1,
      .strip = bzi_jpeg_strip,
      .is_file = 1 },
    { .id = BZNA_CODEC_STILL,                   /* bzi_stills has libavcodec's numbers */
      .name = "still",
      .inspect = bzi_image_still,
      .stream = bzi_image_bytes,
      .key = bzi_image_key_still,
      .strip = bzi_still_strip,
      .is_file = 1 },
    { .id = BZNA_CODEC_RAW,
      .name = "raw",
      .inspect = bzi_image_raw,
      .stream = bzi_image_bytes,
      .planes = bzi_image_raw_planes },
};

#define BZI_CODECS (sizeof bzi_codecs / sizeof bzi_codecs[0])

static const bzi_codec *bzi_codec_of_entry(uint32_t type)
{
    for (size_t i = 0; i < BZI_CODECS && type; i++)
        if (bzi_codecs[i].entries[0] == type || bzi_codecs[i].entries[1] == type)
            return &bzi_codecs[i];
    return NULL;
}

/* --- What is seen of a frame --- */

/* One side of a clean aperture (ISO/IEC 14496-12 12.1.4): center at (frame-1)/2 + offset. In units of 1/(2*d*d') to
 * stay whole. Returns 0 if it does not lie in the frame. */
static int bzi_clap_side(uint32_t frame, const int32_t *size, const int32_t *offset, uint32_t *begin, uint32_t *length)
{
    double extent, middle, first;
    if (size[1] <= 0 || offset[1] == 0 || size[0] <= 0)
        return 0;
    extent = floor((double)size[0] / size[1]);
    middle = (frame - 1.0) / 2 + (double)offset[0] / offset[1];
    first = floor(middle - (extent - 1) / 2);               /* a half-pixel position goes to the pixel before */
    if (!(extent >= 1) || !(first >= 0) || first + extent > frame)
        return 0;
    *begin = (uint32_t)first;
    *length = (uint32_t)extent;
    return 1;
}

/* EXIF's numbers as {a, b, c, d}: what lies at x, y is seen at a x + c y, b x + d y. */
static const int8_t bzi_orientations[9][4] = { { 0 },          { 1, 0, 0, 1 },  { -1, 0, 0, 1 },   { -1, 0, 0, -1 },
                                               { 1, 0, 0, -1 }, { 0, 1, 1, 0 }, { 0, 1, -1, 0 },   { 0, -1, -1, 0 },
                                               { 0, -1, 1, 0 } };

/* 0: it is no turn by quarters, and no mirror. */
static uint32_t bzi_orientation_of(int32_t a, int32_t b, int32_t c, int32_t d)
{
    for (uint32_t i = 1; i < 9; i++)
        if (bzi_orientations[i][0] == a && bzi_orientations[i][1] == b && bzi_orientations[i][2] == c &&
            bzi_orientations[i][3] == d)
            return i;
    return 0;
}

/* One after the other. */
static uint32_t bzi_orientation_then(uint32_t first, uint32_t then)
{
    const int8_t *f = bzi_orientations[first], *t = bzi_orientations[then];
    return bzi_orientation_of(t[0] * f[0] + t[2] * f[1], t[1] * f[0] + t[3] * f[1], t[0] * f[2] + t[2] * f[3],
                              t[1] * f[2] + t[3] * f[3]);
}


#ifndef BENZINA_NO_HEIF
/* ==== 13. HEIF: items ================================================================================================
 * Calls: rooms 2, 5, 7. What a HEIF or AVIF file (ISO/IEC 23008-12) says of its pictures: the items of its meta box,
 * where their bytes lie, what refers to what, and their properties. Works on memory, without allocating: boxes are
 * walked anew for each question, with limits on how many there are. Offsets in messages are base and on. */

#define BZI_GRID BZI_FOURCC('g', 'r', 'i', 'd')
#define BZI_IDEN BZI_FOURCC('i', 'd', 'e', 'n')

typedef struct bzi_heif {
    bzi_span   file;
    uint64_t   base;                  /* offset of the file in what holds it, for messages */
    uint32_t   primary;               /* number of the item that is the picture; 0: there is none */
    uint32_t   has_movie;
    bzi_cursor iloc, iinf, iref, iprp, idat;      /* the payloads of meta's boxes; empty where there is none */
} bzi_heif;

/* The picture that an item is, or is made of, as its properties say: a part of the frame, turned. */
typedef struct bzi_heif_item {
    uint32_t   id, type;              /* of the item that holds data: what identity items lead to */
    uint32_t   width, height;         /* of its frame; 0: not said */
    uint32_t   crop[4];               /* x, y, width, height of the part that is seen, as it lies in the frame */
    uint32_t   orientation;           /* EXIF's number */
    int32_t    clap[8];
    bzna_color color;
    bzi_span   config;
    uint64_t   config_at;
} bzi_heif_item;

/* "meta/iloc at byte 120: ..." */
BZI_PRINTF(5, 6)
static bzna_status bzi_heif_fail(const bzi_cursor *box, const char *path, bzna_status status, bzna_error *err,
                                 const char *format, ...)
{
    const size_t length = strlen(path);
    const uint32_t type = length < 4 ? 0 : bzi_be32((const uint8_t *)path + length - 4);
    char text[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return bzi_fail(err, status, bzi_cursor_offset(box), type, 0, "%s at byte %llu: %s", path,
                    (unsigned long long)bzi_cursor_offset(box), text);
}

/* A HEIF file's first bytes: ftyp with one of the brands that stills and sequences have. */
static int bzi_heif_probe(bzi_span head)
{
    static const char brands[] = "mif1mif2msf1heicheixheimheishevchevxhevmhevsavcijpegavifavismiaf";
    if (head.size < 12 || memcmp(head.data + 4, "ftyp", 4))
        return 0;
    for (size_t i = 0; i + 4 < sizeof brands; i += 4)
        if (!memcmp(head.data + 8, brands + i, 4))
            return 1;
    return 0;
}

/* The next box of c: 1; 0 at the end, -1 where it does not fit. */
static int bzi_heif_next_box(bzi_cursor *c, uint32_t *type, bzi_cursor *payload)
{
    const uint64_t left = bzi_cursor_left(c);
    uint64_t size, header = 8;
    if (left < 8)
        return 0;
    size = bzi_be32(c->data + c->pos);
    *type = bzi_be32(c->data + c->pos + 4);
    if (size == 1 && left >= 16) {
        header = 16;
        size = bzi_be64(c->data + c->pos + 8);
    }
    size = size ? size : left;
    if (size < header || size > left)
        return -1;
    bzi_cursor_take(c, header);
    *payload = bzi_cursor_sub(c, size - header);
    return 1;
}

/* The boxes of meta; of each kind the first. */
static bzna_status bzi_heif_read_meta(bzi_heif *heif, bzi_cursor meta, bzna_error *err)
{
    const struct { const char *type; bzi_cursor *to; } boxes[] = { { "iloc", &heif->iloc }, { "iinf", &heif->iinf },
                                                                   { "iref", &heif->iref }, { "iprp", &heif->iprp },
                                                                   { "idat", &heif->idat } };
    bzi_cursor box;
    uint32_t type;
    int got;
    bzi_cursor_take(&meta, 4);
    for (uint32_t n = 0; (got = bzi_heif_next_box(&meta, &type, &box)) > 0; n++) {
        if (n == BZI_LIMIT_ITEMS)
            return bzi_heif_fail(&box, "meta", BZNA_E_LIMIT, err, "more than %u boxes", n);
        if (type == BZI_FOURCC('p', 'i', 't', 'm'))
            heif->primary = (uint32_t)bzi_cursor_number(&box, bzi_cursor_u32(&box) >> 24 ? 4 : 2);
        for (size_t i = 0; i < sizeof boxes / sizeof boxes[0]; i++)
            if (bzi_be32((const uint8_t *)boxes[i].type) == type && !boxes[i].to->data)
                *boxes[i].to = box;
    }
    return got < 0 ? bzi_heif_fail(&meta, "meta", BZNA_E_BOX, err, "a box does not fit in what holds it") : BZNA_OK;
}

static bzna_status bzi_heif_read(bzi_heif *heif, bzi_span file, uint64_t base, bzna_error *err)
{
    bzi_cursor c = bzi_cursor_make(file.data, file.size, base), box;
    uint32_t type, has_meta = 0;
    int got;
    memset(heif, 0, sizeof *heif);
    heif->file = file;
    heif->base = base;
    for (uint32_t n = 0; (got = bzi_heif_next_box(&c, &type, &box)) > 0; n++) {
        if (n == BZI_LIMIT_TOP_BOXES)
            return bzi_heif_fail(&box, "file", BZNA_E_LIMIT, err, "more than %u boxes", n);
        heif->has_movie |= type == BZI_FOURCC('m', 'o', 'o', 'v');
        if (type == BZI_FOURCC('m', 'e', 't', 'a') && !has_meta++ && bzi_heif_read_meta(heif, box, err) != BZNA_OK)
            return err->status;
    }
    return got < 0 ? bzi_heif_fail(&c, "file", BZNA_E_TRUNCATED, err, "a box goes past the end") : BZNA_OK;
}

/* --- What items are, and what refers to them --- */

/* An item's type (infe); 0: there is no such item, or it has none. */
static bzna_status bzi_heif_type(const bzi_heif *heif, uint32_t id, uint32_t *type, bzna_error *err)
{
    bzi_cursor c = heif->iinf, box;
    uint32_t kind;
    int got;
    bzi_cursor_number(&c, bzi_cursor_u32(&c) >> 24 ? 4 : 2);
    for (uint32_t n = 0; (got = bzi_heif_next_box(&c, &kind, &box)) > 0; n++) {
        uint32_t version = bzi_cursor_u32(&box) >> 24;
        if (n == BZI_LIMIT_ITEMS)
            return bzi_heif_fail(&c, "meta/iinf", BZNA_E_LIMIT, err, "more than %u items", n);
        if (version < 2 || bzi_cursor_number(&box, version == 2 ? 2 : 4) != id)
            continue;
        if (bzi_cursor_u16(&box))
            return bzi_heif_fail(&box, "meta/iinf/infe", BZNA_E_UNSUPPORTED, err, "item %u is encrypted", id);
        *type = bzi_cursor_u32(&box);
        return BZNA_OK;
    }
    return bzi_heif_fail(&heif->iinf, "meta/iinf", BZNA_E_BOX, err, got < 0 ? "a box does not fit in what holds it" :
                         "there is no item %u", id);
}

/* References of a kind, one after the other: 1; 0 at the end. ids: of the items that item *from refers to. */
static int bzi_heif_next_reference(bzi_cursor *c, uint32_t id_bytes, uint32_t kind, uint32_t *from, bzi_cursor *ids)
{
    uint32_t type;
    while (bzi_heif_next_box(c, &type, ids) > 0) {
        uint64_t count;
        *from = (uint32_t)bzi_cursor_number(ids, id_bytes);
        count = bzi_cursor_u16(ids);
        if (type == kind && count && bzi_cursor_left(ids) >= count * id_bytes) {
            *ids = bzi_cursor_sub(ids, count * id_bytes);
            return 1;
        }
    }
    return 0;
}

/* What an item is made of (dimg): how many items, and their numbers, of *id_bytes each. */
static uint64_t bzi_heif_inputs(const bzi_heif *heif, uint32_t id, bzi_cursor *ids, uint32_t *id_bytes)
{
    bzi_cursor c = heif->iref;
    uint32_t from;
    *id_bytes = bzi_cursor_u32(&c) >> 24 ? 4 : 2;
    for (uint32_t n = 0; n < BZI_LIMIT_ITEMS &&
         bzi_heif_next_reference(&c, *id_bytes, BZI_FOURCC('d', 'i', 'm', 'g'), &from, ids); n++)
        if (from == id)
            return bzi_cursor_left(ids) / *id_bytes;
    return 0;
}

/* The first item that refers so to the item; 0: there is none. number, if not NULL: where that stands. */
static uint32_t bzi_heif_referrer(const bzi_heif *heif, uint32_t kind, uint32_t id, bzi_span *number)
{
    bzi_cursor c = heif->iref, ids;
    uint32_t from, id_bytes = bzi_cursor_u32(&c) >> 24 ? 4 : 2;
    for (uint32_t n = 0; n < BZI_LIMIT_ITEMS && bzi_heif_next_reference(&c, id_bytes, kind, &from, &ids); n++)
        while (bzi_cursor_left(&ids))
            if (bzi_cursor_number(&ids, id_bytes) == id) {
                if (number)
                    *number = (bzi_span){ ids.data - 2 - id_bytes, id_bytes };
                return from;
            }
    return 0;
}

/* --- Where their bytes lie --- */

/* The extents of an item, which are read one after the other. */
typedef struct bzi_heif_extents {
    bzi_cursor c;                     /* at the next extent */
    uint32_t   left, index_bytes, offset_bytes, length_bytes;
    uint64_t   base, begin;           /* added to offsets; where bytes of `in` lie in the file */
    bzi_span   in;
} bzi_heif_extents;

/* Reads an entry of iloc, and its number. c stands behind it then, e at its extents. Returns construction_method and
 * data_reference_index, 0 where the extents lie in this file. */
static uint32_t bzi_heif_iloc_entry(bzi_cursor *c, uint32_t version, uint32_t base_bytes, bzi_heif_extents *e,
                                    uint32_t *id)
{
    uint32_t method, reference;
    *id = (uint32_t)bzi_cursor_number(c, version < 2 ? 2 : 4);
    method = version ? bzi_cursor_u16(c) & 15 : 0;
    reference = bzi_cursor_u16(c);
    e->base = bzi_cursor_number(c, base_bytes);
    e->left = bzi_cursor_u16(c);
    e->c = *c;
    bzi_cursor_take(c, (uint64_t)e->left * (e->index_bytes + e->offset_bytes + e->length_bytes));
    return method | reference << 4;
}

static bzna_status bzi_heif_extents_of(const bzi_heif *heif, uint32_t id, bzi_heif_extents *e, bzna_error *err)
{
    bzi_cursor c = heif->iloc;
    uint32_t version = bzi_cursor_u32(&c) >> 24, sizes = bzi_cursor_u16(&c), found = 0, where = 0;
    uint64_t count = bzi_cursor_number(&c, version < 2 ? 2 : 4);
    const uint32_t widths[4] = { sizes >> 12, sizes >> 8 & 15, sizes >> 4 & 15, version ? sizes & 15 : 0 };
    memset(e, 0, sizeof *e);
    for (int i = 0; i < 4; i++)
        if (widths[i] != 0 && widths[i] != 4 && widths[i] != 8)
            return bzi_heif_fail(&heif->iloc, "meta/iloc", BZNA_E_BOX, err, "numbers of %u bytes", widths[i]);
    if (version > 2 || count > BZI_LIMIT_ITEMS)
        return bzi_heif_fail(&heif->iloc, "meta/iloc", BZNA_E_LIMIT, err, "version %u, %llu items", version,
                             (unsigned long long)count);
    e->offset_bytes = widths[0];
    e->length_bytes = widths[1];
    e->index_bytes = widths[3];
    for (uint64_t i = 0; i < count && !c.overrun && (!found || found != id); i++)
        where = bzi_heif_iloc_entry(&c, version, widths[2], e, &found);
    if (c.overrun || found != id)
        return bzi_heif_fail(&heif->iloc, "meta/iloc", BZNA_E_BOX, err, c.overrun ? "too short for its items" :
                             "it does not say where item %u lies", id);
    if (where > 1)
        return bzi_heif_fail(&e->c, "meta/iloc", BZNA_E_UNSUPPORTED, err, "item %u lies in %s", id,
                             where & 15 ? "other items (construction method 2)" : "another file");
    e->in = where ? (bzi_span){ heif->idat.data, heif->idat.size } : heif->file;
    e->begin = where ? heif->idat.base : heif->base;
    if (!e->left)
        return bzi_heif_fail(&e->c, "meta/iloc", BZNA_E_BOX, err, "item %u has no bytes", id);
    return BZNA_OK;
}

/* The next one's bytes; BZNA_END. A length of 0 is all that follows. */
static bzna_status bzi_heif_next_extent(bzi_heif_extents *e, bzi_span *bytes, bzna_error *err)
{
    const bzi_cursor at = e->c;
    uint64_t offset, size, end;
    if (!e->left)
        return BZNA_END;
    e->left--;
    bzi_cursor_number(&e->c, e->index_bytes);
    offset = bzi_cursor_number(&e->c, e->offset_bytes);
    size = bzi_cursor_number(&e->c, e->length_bytes);
    if (!bzi_add(e->base, offset, &offset) || offset > e->in.size || !bzi_add(offset, size, &end) || end > e->in.size)
        return bzi_heif_fail(&at, "meta/iloc", BZNA_E_BOX, err, "an extent of %llu bytes at %llu of %llu",
                             (unsigned long long)size, (unsigned long long)offset, (unsigned long long)e->in.size);
    *bytes = (bzi_span){ e->in.data + offset, size ? size : e->in.size - offset };
    return BZNA_OK;
}

/* Where an item's bytes lie: *bytes is the first extent, with those that follow on it; *total the size of all, of which
 * as much goes to dst as there is room for. */
static bzna_status bzi_heif_bytes(const bzi_heif *heif, uint32_t id, bzi_span *bytes, uint64_t *total, bzi_span dst,
                                  bzna_error *err)
{
    bzi_heif_extents e;
    bzi_span part = { NULL, 0 };
    bzna_status status = bzi_heif_extents_of(heif, id, &e, err);
    *bytes = (bzi_span){ NULL, 0 };
    *total = 0;
    while (status == BZNA_OK && (status = bzi_heif_next_extent(&e, &part, err)) == BZNA_OK) {
        if (!*total || bytes->data + bytes->size == part.data)
            *bytes = (bzi_span){ *total ? bytes->data : part.data, bytes->size + part.size };
        if (*total < dst.size)
            memcpy((uint8_t *)(uintptr_t)dst.data + *total, part.data, (size_t)bzi_min(part.size, dst.size - *total));
        *total += part.size;
        if (*total > heif->file.size)
            return bzi_heif_fail(&e.c, "meta/iloc", BZNA_E_BOX, err, "the extents of item %u overlap", id);
    }
    if (status == BZNA_END && !*total)
        return bzi_heif_fail(&heif->iloc, "meta/iloc", BZNA_E_BOX, err, "item %u has no bytes", id);
    return status == BZNA_END ? BZNA_OK : status;
}


/* ==== 14. HEIF: properties ===========================================================================================
 * Calls: rooms 2, 5, 7-9, 12-13. What of an item's frame is seen, and how it is turned; the tiles of a grid. */

/* The transforms come in the order of ipma, each on the picture as those before it left it: the clean aperture of a
 * turned picture is one of the frame. */
static bzna_status bzi_heif_clap(bzi_heif_item *item, bzi_cursor *c, bzna_error *err)
{
    static const uint8_t mirrored[9] = { 0, 0, 1, 3, 2, 0, 2, 3, 1 };       /* as in bzi_picture_orient */
    const uint32_t turned = item->orientation > 4, *crop = item->crop;
    uint32_t at[2], size[2];
    for (int i = 0; i < 8; i++)
        item->clap[i] = (int32_t)bzi_cursor_u32(c);
    if (!bzi_clap_side(crop[2 + turned], item->clap, item->clap + 4, &at[turned], &size[turned]) ||
        !bzi_clap_side(crop[3 - turned], item->clap + 2, item->clap + 6, &at[!turned], &size[!turned]))
        return bzi_heif_fail(c, "meta/iprp/ipco/clap", BZNA_E_BOX, err, "it does not lie in the picture");
    for (int i = 0; i < 2; i++) {
        item->crop[i] += mirrored[item->orientation] >> i & 1 ? crop[2 + i] - at[i] - size[i] : at[i];
        item->crop[2 + i] = size[i];
    }
    return BZNA_OK;
}

static bzna_status bzi_heif_irot(bzi_heif_item *item, bzi_cursor *c, bzna_error *err)
{
    static const uint8_t numbers[4] = { 1, 8, 3, 6 };       /* quarters, anticlockwise */
    (void)err;
    item->orientation = bzi_orientation_then(item->orientation, numbers[bzi_cursor_u8(c) & 3]);
    return BZNA_OK;
}

static bzna_status bzi_heif_imir(bzi_heif_item *item, bzi_cursor *c, bzna_error *err)
{
    (void)err;
    item->orientation = bzi_orientation_then(item->orientation, bzi_cursor_u8(c) & 1 ? 2 : 4);
    return BZNA_OK;
}

static bzna_status bzi_heif_ispe(bzi_heif_item *item, bzi_cursor *c, bzna_error *err)
{
    bzi_cursor_take(c, 4);
    if (item->width)
        return BZNA_OK;                                     /* that of an identity item follows from its input's */
    item->crop[2] = item->width = bzi_cursor_u32(c);
    item->crop[3] = item->height = bzi_cursor_u32(c);
    return item->width && item->height ? BZNA_OK : bzi_heif_fail(c, "meta/iprp/ipco/ispe", BZNA_E_BOX, err,
                                                                 "a picture of %ux%u", item->width, item->height);
}

static bzna_status bzi_heif_colr(bzi_heif_item *item, bzi_cursor *c, bzna_error *err)
{
    (void)err;
    if (bzi_cursor_u32(c) != BZI_FOURCC('n', 'c', 'l', 'x'))
        return BZNA_OK;                                     /* an ICC profile says nothing about Y'CbCr */
    item->color.primaries = (uint16_t)bzi_cursor_u16(c);
    item->color.transfer = (uint16_t)bzi_cursor_u16(c);
    item->color.matrix = (uint16_t)bzi_cursor_u16(c);
    item->color.full_range = bzi_cursor_u8(c) & 0x80 ? 1 : 0;
    item->color.present = 1;
    return BZNA_OK;
}

/* Of several layers in one item: the decoders give the best one, so that is all that may be asked for. */
static bzna_status bzi_heif_lsel(bzi_heif_item *item, bzi_cursor *c, bzna_error *err)
{
    const uint32_t layer = bzi_cursor_u16(c);
    (void)item;
    return layer == 0xffff ? BZNA_OK : bzi_heif_fail(c, "meta/iprp/ipco/lsel", BZNA_E_UNSUPPORTED, err,
                                                     "layer %u of several is selected", layer);
}

static bzna_status bzi_heif_a1op(bzi_heif_item *item, bzi_cursor *c, bzna_error *err)
{
    const uint32_t point = bzi_cursor_u8(c);
    (void)item;
    return point == 0 ? BZNA_OK : bzi_heif_fail(c, "meta/iprp/ipco/a1op", BZNA_E_UNSUPPORTED, err,
                                                "operating point %u is selected", point);
}

/* A property of an item: ipma says that it must be understood, or that it need not. */
static bzna_status bzi_heif_property(bzi_heif_item *item, uint32_t type, bzi_cursor c, uint32_t essential,
                                     bzna_error *err)
{
    static const struct { const char *type; bzna_status (*read)(bzi_heif_item *, bzi_cursor *, bzna_error *); }
    rules[] = { { "ispe", bzi_heif_ispe }, { "colr", bzi_heif_colr }, { "clap", bzi_heif_clap },
                { "irot", bzi_heif_irot }, { "imir", bzi_heif_imir }, { "lsel", bzi_heif_lsel },
                { "a1op", bzi_heif_a1op }, { "pixi", NULL }, { "pasp", NULL }, { "a1lx", NULL }, { "auxC", NULL } };
    const bzi_codec *codec = bzi_codec_of_entry(item->type);
    char path[32] = "meta/iprp/ipco/";
    bzna_status status;
    bzi_fourcc_text(type, path + strlen(path));
    if (codec && codec->config == type && !item->config.data) {
        item->config_at = bzi_cursor_offset(&c);
        item->config = (bzi_span){ c.data, c.size };
        return BZNA_OK;
    }
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (bzi_be32((const uint8_t *)rules[i].type) == type) {
            status = rules[i].read ? rules[i].read(item, &c, err) : BZNA_OK;
            return status == BZNA_OK && c.overrun ? bzi_heif_fail(&c, path, BZNA_E_BOX, err, "too short") : status;
        }
    return !essential || (codec && codec->config == type) ? BZNA_OK :
           bzi_heif_fail(&c, path, BZNA_E_UNSUPPORTED, err, "item %u needs this property, which is unknown", item->id);
}

/* The property of that number, from 1. */
static bzna_status bzi_heif_find_property(const bzi_heif *heif, uint32_t number, uint32_t *type, bzi_cursor *property,
                                          bzna_error *err)
{
    bzi_cursor c = heif->iprp, ipco;
    uint32_t n = 0;
    int got = bzi_heif_next_box(&c, type, &ipco);
    if (got > 0 && *type == BZI_FOURCC('i', 'p', 'c', 'o') && number <= BZI_LIMIT_ITEMS)
        while (n < number && bzi_heif_next_box(&ipco, type, property) > 0)
            n++;
    return n == number ? BZNA_OK : bzi_heif_fail(&heif->iprp, "meta/iprp/ipma", BZNA_E_BOX, err,
                                                 "an item has property %u, ipco has fewer", number);
}

/* The properties that one ipma gives an item; c stands behind version and flags. */
static bzna_status bzi_heif_associations(const bzi_heif *heif, bzi_cursor c, uint32_t version, uint32_t id,
                                         bzi_heif_item *item, bzna_error *err)
{
    const uint32_t is_wide = version & 1, count = bzi_cursor_u32(&c);
    for (uint32_t i = 0; i < count && !c.overrun; i++) {
        uint32_t of = (uint32_t)bzi_cursor_number(&c, version >> 24 ? 4 : 2), n = bzi_cursor_u8(&c);
        if (i == BZI_LIMIT_ITEMS || (of == id && n > BZI_LIMIT_PROPERTIES))
            return bzi_heif_fail(&c, "meta/iprp/ipma", BZNA_E_LIMIT, err, "%u items, %u properties", count, n);
        for (uint32_t k = 0; k < n && of == id && !c.overrun; k++) {
            uint32_t word = is_wide ? bzi_cursor_u16(&c) : bzi_cursor_u8(&c), top = is_wide ? 0x8000 : 0x80, type;
            bzi_cursor property;
            if (!(word & (top - 1)))
                continue;
            if (bzi_heif_find_property(heif, word & (top - 1), &type, &property, err) != BZNA_OK ||
                bzi_heif_property(item, type, property, word & top, err) != BZNA_OK)
                return err->status;
        }
        if (of != id)
            bzi_cursor_take(&c, n * (1ull + is_wide));
    }
    return c.overrun ? bzi_heif_fail(&c, "meta/iprp/ipma", BZNA_E_BOX, err, "too short for its items") : BZNA_OK;
}

static bzna_status bzi_heif_properties(const bzi_heif *heif, uint32_t id, bzi_heif_item *item, bzna_error *err)
{
    bzi_cursor c = heif->iprp, box;
    uint32_t type;
    for (uint32_t n = 0; n < 4 && bzi_heif_next_box(&c, &type, &box) > 0; n++) {
        uint32_t version = bzi_cursor_u32(&box);
        if (type == BZI_FOURCC('i', 'p', 'm', 'a') &&
            bzi_heif_associations(heif, box, version, id, item, err) != BZNA_OK)
            return err->status;
    }
    return BZNA_OK;
}

static bzna_status bzi_heif_fail_type(const bzi_heif *heif, const bzi_heif_item *item, bzna_error *err)
{
    char type[5];
    bzi_fourcc_text(item->type, type);
    return bzi_heif_fail(&heif->iinf, "meta/iinf", BZNA_E_UNSUPPORTED, err,
                         "the picture, item %u, is of type '%s', which is not read", item->id, type);
}

/* An item, or what identity items lead to, with the properties of all on the way. */
static bzna_status bzi_heif_find(const bzi_heif *heif, uint32_t id, bzi_heif_item *item, bzna_error *err)
{
    uint32_t chain[8], n = 0, id_bytes;
    bzi_cursor ids;
    bzna_status status;
    memset(item, 0, sizeof *item);
    item->orientation = 1;
    while ((status = bzi_heif_type(heif, id, &item->type, err)) == BZNA_OK) {
        chain[n++] = item->id = id;
        if (item->type != BZI_IDEN)
            break;
        if (n == 8 || bzi_heif_inputs(heif, id, &ids, &id_bytes) != 1)
            return bzi_heif_fail(&heif->iref, "meta/iref", BZNA_E_BOX, err, n == 8 ? "item %u is the last of too many "
                                 "identity items" : "identity item %u has not one input", id);
        id = (uint32_t)bzi_cursor_number(&ids, id_bytes);
    }
    if (status == BZNA_OK && item->type != BZI_GRID && !bzi_codec_of_entry(item->type))
        return bzi_heif_fail_type(heif, item, err);
    while (status == BZNA_OK && n)
        status = bzi_heif_properties(heif, chain[--n], item, err);
    if (status == BZNA_OK && !item->width)
        return bzi_heif_fail(&heif->iprp, "meta/iprp/ipma", BZNA_E_BOX, err, "item %u has no size (ispe)", item->id);
    return status;
}

/* An item that is coded, as a picture: its frame; what is seen of it says the item. data: NULL where it lies in
 * pieces. */
static bzna_status bzi_heif_coded(const bzi_heif *heif, const bzi_heif_item *item, bzna_image *coded, bzna_error *err)
{
    const bzi_codec *codec = bzi_codec_of_entry(item->type);
    bzi_span bytes;
    uint64_t size;
    memset(coded, 0, sizeof *coded);
    coded->struct_size = sizeof *coded;
    if (!codec)
        return bzi_heif_fail_type(heif, item, err);
    if (item->config.size < codec->config_bytes)
        return bzi_heif_fail(&heif->iprp, "meta/iprp/ipma", BZNA_E_BOX, err,
                             "item %u (%s) has no decoder configuration, or too short a one", item->id, codec->name);
    coded->codec = codec->id;
    coded->length_size = codec->length_at ? (item->config.data[codec->length_at] & 3u) + 1 : 0;
    if (coded->length_size == 3)
        return bzi_heif_fail(&heif->iprp, "meta/iprp/ipco", BZNA_E_BOX, err, "NAL unit lengths of 3 bytes");
    coded->config = item->config.data;
    coded->config_size = item->config.size;
    coded->frame_width = coded->width = item->width;
    coded->frame_height = coded->height = item->height;
    coded->color = item->color;
    if (bzi_heif_bytes(heif, item->id, &bytes, &size, (bzi_span){ NULL, 0 }, err) != BZNA_OK)
        return err->status;
    coded->data = bytes.size == size ? bytes.data : NULL;
    coded->data_size = size;
    return BZNA_OK;
}

typedef struct bzi_heif_grid {
    uint32_t   columns, rows, width, height;
    bzi_cursor tiles;                 /* their items' numbers, row by row */
    uint32_t   id_bytes;
} bzi_heif_grid;

static uint32_t bzi_heif_tile(const bzi_heif_grid *grid, uint32_t number)
{
    bzi_cursor c = grid->tiles;
    bzi_cursor_take(&c, (uint64_t)number * grid->id_bytes);
    return (uint32_t)bzi_cursor_number(&c, grid->id_bytes);
}

/* 6.6.2.3.2 of the standard. */
static bzna_status bzi_heif_read_grid(const bzi_heif *heif, const bzi_heif_item *item, bzi_heif_grid *grid,
                                      bzna_error *err)
{
    uint8_t bytes[12] = { 0 };
    bzi_cursor c = bzi_cursor_make(bytes, sizeof bytes, heif->base);
    bzi_span first;
    uint64_t size, tiles;
    uint32_t flags;
    memset(grid, 0, sizeof *grid);
    if (bzi_heif_bytes(heif, item->id, &first, &size, (bzi_span){ bytes, sizeof bytes }, err) != BZNA_OK)
        return err->status;
    tiles = bzi_heif_inputs(heif, item->id, &grid->tiles, &grid->id_bytes);
    flags = bzi_cursor_u16(&c);
    grid->rows = bzi_cursor_u8(&c) + 1;
    grid->columns = bzi_cursor_u8(&c) + 1;
    grid->width = (uint32_t)bzi_cursor_number(&c, flags & 1 ? 4 : 2);
    grid->height = (uint32_t)bzi_cursor_number(&c, flags & 1 ? 4 : 2);
    if (flags > 1 || size < (flags & 1 ? 12u : 8u))
        return bzi_heif_fail(&heif->iloc, "meta/iloc", BZNA_E_BOX, err, "grid item %u: version %u in %llu bytes",
                             item->id, flags >> 8, (unsigned long long)size);
    if (tiles != (uint64_t)grid->rows * grid->columns || tiles > BZI_LIMIT_TILES)
        return bzi_heif_fail(&heif->iref, "meta/iref", tiles > BZI_LIMIT_TILES ? BZNA_E_LIMIT : BZNA_E_BOX, err,
                             "grid item %u has %u x %u tiles, of which %llu are named (at most %u)", item->id,
                             grid->columns, grid->rows, (unsigned long long)tiles, BZI_LIMIT_TILES);
    if (grid->width != item->width || grid->height != item->height)
        return bzi_heif_fail(&heif->iprp, "meta/iprp/ipco", BZNA_E_BOX, err,
                             "grid item %u is %ux%u, its ispe says %ux%u", item->id, grid->width, grid->height,
                             item->width, item->height);
    return BZNA_OK;
}

/* A tile, which must be of the first one's size and as it is. */
static bzna_status bzi_heif_find_tile(const bzi_heif *heif, const bzi_heif_grid *grid, uint32_t number,
                                      bzi_heif_item *tile, bzna_image *coded, bzna_error *err)
{
    if (bzi_heif_find(heif, bzi_heif_tile(grid, number), tile, err) != BZNA_OK ||
        bzi_heif_coded(heif, tile, coded, err) != BZNA_OK)
        return err->status;
    if (tile->orientation != 1 || tile->crop[2] != tile->width || tile->crop[3] != tile->height)
        return bzi_heif_fail(&heif->iprp, "meta/iprp/ipma", BZNA_E_UNSUPPORTED, err, "tile %u is turned or cut",
                             number);
    return BZNA_OK;
}

/* --- A file as one coded picture: a grid, or an item in pieces. What is direct has its item's codec instead. --- */

/* What the coded item says. Of one in pieces, its configuration, or its first piece, has to say it. */
static bzna_status bzi_heif_inspect_item(const bzi_heif *heif, const bzi_heif_item *item, bzna_image *coded,
                                         bzi_format *format, bzna_error *err)
{
    bzi_span bytes, unit;
    bzi_image_nals n;
    uint64_t size;
    uint32_t type, reduced;
    if (coded->data)
        return bzi_codec_of_entry(item->type)->inspect(coded, format, err);
    if (bzi_heif_bytes(heif, item->id, &bytes, &size, (bzi_span){ NULL, 0 }, err) != BZNA_OK)
        return err->status;
    memset(format, 0, sizeof *format);
    for (int part = 0; coded->codec == BZNA_CODEC_AV1 && part < 2; part++) {
        bzi_span rest = part ? bytes : bzi_image_obus(coded);
        while (bzi_obu_next(&rest, &type, &unit) > 0)
            if (type == BZI_OBU_SEQUENCE_HEADER && bzi_av1_read(unit, format, &reduced))
                return BZNA_OK;
    }
    n = bzi_image_nals_make(coded);
    while (coded->length_size && bzi_nals_next(&n.nals[0], &unit) > 0)
        if (bzi_nal_kind(coded->codec, unit) == BZI_NAL_SPS && bzi_sps_read(coded->codec, unit, format))
            return BZNA_OK;
    return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "item %u lies in pieces, and does not begin with what it is", item->id);
}

/* Of a grid: the format of the first tile, and the size of all. */
static bzna_status bzi_heif_inspect_grid(const bzi_heif *heif, bzi_heif_item *item, bzi_format *format, bzna_error *err)
{
    bzi_heif_grid grid;
    bzi_heif_item tile;
    bzna_image coded;
    uint32_t chroma, unit_x, unit_y;
    if (bzi_heif_read_grid(heif, item, &grid, err) != BZNA_OK ||
        bzi_heif_find_tile(heif, &grid, 0, &tile, &coded, err) != BZNA_OK ||
        bzi_heif_inspect_item(heif, &tile, &coded, format, err) != BZNA_OK)
        return err->status;
    if ((grid.width - 1) / tile.width != grid.columns - 1 || (grid.height - 1) / tile.height != grid.rows - 1)
        return bzi_heif_fail(&heif->iprp, "meta/iprp/ipco", BZNA_E_BOX, err, "%u x %u tiles of %ux%u do not make %ux%u",
                             grid.columns, grid.rows, tile.width, tile.height, grid.width, grid.height);
    chroma = format->chroma_format;
    unit_x = chroma == BZI_CHROMA_411 ? 4 : chroma == 1 || chroma == 2 ? 2 : 1;
    unit_y = chroma == 1 || chroma == BZI_CHROMA_440 ? 2 : 1;
    if ((tile.width % unit_x && grid.columns > 1) || (tile.height % unit_y && grid.rows > 1))
        return bzi_heif_fail(&heif->iprp, "meta/iprp/ipco", BZNA_E_UNSUPPORTED, err,
                             "tiles of %ux%u split samples of chroma", tile.width, tile.height);
    if ((uint64_t)grid.width * grid.height > BZI_LIMIT_STILL_BYTES / 2 &&
        (uint64_t)grid.width * grid.height / BZI_LIMIT_STILL_RATIO > heif->file.size)
        return BZI_FAIL(err, BZNA_E_LIMIT, "a grid of %ux%u in %llu bytes: one of more than %u megapixels needs a byte "
                        "for each %u pixels", grid.width, grid.height, (unsigned long long)heif->file.size,
                        BZI_LIMIT_STILL_BYTES >> 21, BZI_LIMIT_STILL_RATIO);
    item->color = item->color.present ? item->color : tile.color;
    format->width = grid.width;
    format->height = grid.height;
    memset(format->window, 0, sizeof format->window);
    format->tiles = grid.columns * grid.rows;
    return BZNA_OK;
}

/* Reads a file, and finds the item that an image's config numbers, else the primary one. */
static bzna_status bzi_heif_of(const bzna_image *image, bzi_heif *heif, bzi_heif_item *item, bzna_error *err)
{
    const bzi_span number = bzi_image_config(image);
    bzi_cursor c = bzi_cursor_make(number.data, number.size, 0);
    if (bzi_heif_read(heif, bzi_image_data(image), 0, err) != BZNA_OK)
        return err->status;
    return bzi_heif_find(heif, number.size ? (uint32_t)bzi_cursor_number(&c, number.size == 2 ? 2 : 4) : heif->primary,
                         item, err);
}

static bzna_status bzi_heif_inspect(const bzna_image *image, bzi_format *format, bzna_error *err)
{
    bzi_heif heif;
    bzi_heif_item item;
    bzna_image coded;
    bzna_status status;
    if (bzi_heif_of(image, &heif, &item, err) != BZNA_OK)
        return err->status;
    if (item.type == BZI_GRID)
        status = bzi_heif_inspect_grid(&heif, &item, format, err);
    else if ((status = bzi_heif_coded(&heif, &item, &coded, err)) == BZNA_OK)
        status = bzi_heif_inspect_item(&heif, &item, &coded, format, err);
    if (status != BZNA_OK)
        return status;
    if (format->width - format->window[0] - format->window[1] != item.width ||
        format->height - format->window[2] - format->window[3] != item.height)
        return BZI_FAIL(err, BZNA_E_MISMATCH, "the stream's frame is not %ux%u, as its ispe says", item.width,
                        item.height);
    memcpy(format->crop, item.crop, sizeof format->crop);
    format->orientation = item.orientation;
    format->color = item.color.present && !(format->color.present && format->color.matrix == 0) ? item.color :
                    format->color.present ? format->color : bzi_color_of_archives;
    return BZNA_OK;
}

static const bzi_codec bzi_codec_heif = {
    .id = BZNA_CODEC_HEIF,
    .name = "HEIF",
    .inspect = bzi_heif_inspect,
    .stream = bzi_image_bytes,
    .is_file = 1
};

#else
static int bzi_heif_probe(bzi_span head) { (void)head; return 0; }
#endif


/* ==== 15. Codecs: finding them =======================================================================================
 * Calls: rooms 11-12, 14. */

/* NULL: not known. */
static const bzi_codec *bzi_codec_find(uint32_t id)
{
    for (size_t i = 0; i < BZI_CODECS; i++)
        if (bzi_codecs[i].id == id)
            return &bzi_codecs[i];
#ifndef BENZINA_NO_HEIF
    if (id == BZNA_CODEC_HEIF)
        return &bzi_codec_heif;
#endif
    return NULL;
}

/* Pre: the codec is known, as of every picture that was inspected. */
BZI_MAYBE_UNUSED static const char *bzi_codec_name(uint32_t id) { return bzi_codec_find(id)->name; }

/* The codec of a file that begins so: JPEG, STILL or UNKNOWN. */
BZI_MAYBE_UNUSED static uint32_t bzi_codec_recognize(bzi_span head)
{
    if (head.size >= 3 && !memcmp(head.data, "\xff\xd8\xff", 3))
        return BZNA_CODEC_JPEG;
    return bzi_still_find(head) ? BZNA_CODEC_STILL : BZNA_CODEC_UNKNOWN;
}

/* Files of a kind that is met, and not read: what they are; as one picture among others, what begins as a container
 * may is of such a kind, too. NULL: not known either. */
static const char *bzi_codec_unread(bzi_span head, int as_picture)
{
    static const struct { const char *magic; uint32_t at, size, as_picture; const char *what; } known[] = {
        { "\x1f\x8b", 0, 2, 0, "compressed by gzip: decompress it (gunzip), or read it through a source that does" },
        { "(\xb5/\xfd", 0, 4, 0, "compressed by zstd: decompress it (unzstd), or read it through a source that does" },
        { "1AY&SY", 4, 6, 0, "compressed by bzip2: decompress it (bunzip2), or read it through a source that does" },
        { "\xfd" "7zXZ", 0, 5, 0, "compressed by xz: decompress it (unxz), or read it through a source that does" },
        { "PK\x03\x04", 0, 4, 0, "a zip file, which is not read: unpack it into a folder" },
#ifdef BENZINA_NO_HEIF
        { "ftypavi", 4, 7, 0, "an AVIF picture, which this build does not read (BENZINA_NO_HEIF)" },
        { "ftyphe", 4, 6, 0, "a HEIF picture, which this build does not read (BENZINA_NO_HEIF)" },
        { "ftypmif1", 4, 8, 0, "a HEIF picture, which this build does not read (BENZINA_NO_HEIF)" },
        { "ftypmsf1", 4, 8, 0, "a HEIF image sequence, which this build does not read (BENZINA_NO_HEIF)" },
#endif
        { "\0\0\0\x0cJXL ", 0, 8, 0, "a JPEG XL picture, which is not read" },
        { "\xff\x0a", 0, 2, 0, "a JPEG XL picture, which is not read" },
        { "8BPS", 0, 4, 0, "a Photoshop file (PSD), which is not read" },
        { "v/1\x01", 0, 4, 0, "an OpenEXR picture, which is not read" },
        { "%PDF-", 0, 5, 0, "a PDF document, which is not read" },
        { "\x1a\x45\xdf\xa3", 0, 4, 0, "a video (Matroska, WebM), which is not read" },
        { "AVI ", 8, 4, 0, "a video (AVI), which is not read" },
        { "\0\0\1\0", 0, 4, 1, "an icon (ICO), which is not read" },
        { "ftyp", 4, 4, 1, "an mp4 or QuickTime file, no picture" },
        { "<svg", 0, 4, 1, "an SVG drawing, which is not read" },
        { "<", 0, 1, 1, "text (SVG, XML or HTML), no picture" },
#ifdef BENZINA_NO_SHARDS
        { "ustar", 257, 5, 0, "a tar, which this build does not read (BENZINA_NO_SHARDS)" },
        { "\n#\xd7\xce", 0, 4, 0, "a RecordIO file, which this build does not read (BENZINA_NO_SHARDS)" },
#endif
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (head.size >= known[i].at + known[i].size && as_picture >= (int)known[i].as_picture &&
            !memcmp(head.data + known[i].at, known[i].magic, known[i].size))
            return known[i].what;
    return NULL;
}

/* What messages call the picture's codec. Likewise. */
BZI_MAYBE_UNUSED static const char *bzi_image_codec_name(const bzna_image *image)
{
    return image->codec == BZNA_CODEC_STILL ? bzi_still_name(bzi_image_data(image)) : bzi_codec_name(image->codec);
}

/* What a decoder may be kept for: codec and parameter sets. Returns the required size always; writes only what fits.
 * Pre: the codec is known. */
BZI_MAYBE_UNUSED static uint64_t bzi_image_key(const bzna_image *image, uint8_t *key, uint64_t capacity)
{
    const bzi_codec *codec = bzi_codec_find(image->codec);
    uint64_t size = sizeof image->codec;
    if (size <= capacity)
        memcpy(key, &image->codec, sizeof image->codec);
    return codec->key ? codec->key(image, key, size, capacity) : size;
}

/* What a decoder is given. Likewise. */
static bzna_status bzi_image_stream(const bzna_image *image, uint8_t *dst, uint64_t capacity, uint64_t *needed,
                                    bzna_error *err)
{
    return bzi_codec_find(image->codec)->stream(image, dst, capacity, needed, err);
}


/* ==== 16. Pictures ===================================================================================================
 * Calls: rooms 2, 5, 15. A picture as container and stream describe it together. */

/* Whether a picture of that size at that place lies in its frame. */
static int bzi_rect_is_inside(uint32_t x, uint32_t y, uint32_t width, uint32_t height, uint32_t frame_width,
                              uint32_t frame_height)
{
    return width && height && width <= frame_width && height <= frame_height && x <= frame_width - width &&
           y <= frame_height - height;
}

/* A coded picture, where it lies, and what its container says of colors. */
typedef struct bzi_image {
    bzna_image  coded;
    uint32_t    fourcc;               /* of the sample entry */
    int32_t     clap[8];              /* the clean aperture as it stands in the file; all 0: none */
    uint64_t    config_offset, data_offset;
    uint32_t    beside;               /* BZNA_BESIDE_... */
    uint32_t    has_range;            /* 0: the container's color has no range (QuickTime's nclc) */
    bzna_color  otherwise;            /* where neither container nor stream says any */
} bzi_image;

/* A picture that came without a container. */
static bzi_image bzi_image_alone(const bzna_image *coded)
{
    bzi_image image;
    memset(&image, 0, sizeof image);
    image.coded = *coded;
    image.has_range = 1;
    image.otherwise = bzi_color_of_codecs;
    return image;
}

/* The container's color, else the stream's; the range of a colr without one is the stream's. That planes are of G, B
 * and R, only the stream can say: decoders go by it. */
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

/* The sizes that container and stream agree on; a file's own, where nothing else is said. */
static bzna_status bzi_picture_size(const bzna_image *image, const bzi_codec *codec, const bzi_format *sps,
                                    bzna_picture *picture, bzna_error *err)
{
    uint32_t whole = codec->is_file, width = image->frame_width, height = image->frame_height;
    picture->frame_width = sps->width - sps->window[0] - sps->window[1];
    picture->frame_height = sps->height - sps->window[2] - sps->window[3];
    width = whole && !width ? picture->frame_width : width;
    height = whole && !height ? picture->frame_height : height;
    if (picture->frame_width != width || picture->frame_height != height)
        return BZI_FAIL(err, BZNA_E_MISMATCH, "the stream's frame is %ux%u, its container says %ux%u",
                        picture->frame_width, picture->frame_height, width, height);
    picture->width = whole && !image->width && image->crop_x < width ? width - image->crop_x : image->width;
    picture->height = whole && !image->height && image->crop_y < height ? height - image->crop_y : image->height;
    picture->crop_x = image->crop_x;
    picture->crop_y = image->crop_y;
    if (whole && !image->width && sps->crop[2]) {
        picture->crop_x = sps->crop[0];
        picture->crop_y = sps->crop[1];
        picture->width = sps->crop[2];
        picture->height = sps->crop[3];
    }
    if (!bzi_rect_is_inside(picture->crop_x, picture->crop_y, picture->width, picture->height, width, height))
        return BZI_FAIL(err, codec->is_file ? BZNA_E_MISMATCH : BZNA_E_ARGUMENT,
                        "image: %ux%u at %u,%u does not lie in its frame, %ux%u", picture->width, picture->height,
                        image->crop_x, image->crop_y, width, height);
    return BZNA_OK;
}

/* Where chroma lies. Unsaid, it is centered as in JPEG when the range is JPEG's, else on the left as in MPEG. 4 and 5
 * (bottom) count as centered vertically. */
static void bzi_picture_chroma(const bzi_format *sps, bzna_picture *picture)
{
    uint32_t format = sps->chroma_format;
    uint32_t location = sps->has_chroma_location ? sps->chroma_location : picture->color.full_range ? 1 : 0;
    picture->chroma_shift_x = format == BZI_CHROMA_411 ? 2 : format == 1 || format == 2;
    picture->chroma_shift_y = format == 1 || format == BZI_CHROMA_440;
    picture->chroma_left = location == 0 || location == 2 || location == 4;
    picture->chroma_top = location == 2 || location == 3;
}

/* Offsets in errors of codecs are the stream's: in the file, they are further on. */
static bzna_status bzi_image_fail_at(const bzi_image *image, bzna_error *err)
{
    err->byte_offset += err->byte_offset == BZNA_NO_OFFSET ? 0 : image->data_offset;
    return err->status;
}

/* What container and stream say together; planes come later. */
static bzna_status bzi_picture_describe(const bzi_image *given, uint32_t max_edge_px, bzi_format *sps,
                                        bzna_picture *picture, bzna_error *err)
{
    const bzna_image *image = &given->coded;
    const bzi_codec *codec = bzi_codec_find(image->codec);
    bzna_status status;
    memset(picture, 0, sizeof *picture);
    picture->struct_size = sizeof *picture;
    if (!codec)
        return BZI_FAIL(err, BZNA_E_CODEC, "codec %u: H.264, H.265, AV1, JPEG, stills and HEIF can be decoded",
                        image->codec);
    if ((status = codec->inspect(image, sps, err)) != BZNA_OK)
        return bzi_image_fail_at(given, err);
    if (sps->width > max_edge_px || sps->height > max_edge_px)
        return BZI_FAIL(err, BZNA_E_LIMIT, "the frame is %ux%u, more than max_edge_px, %u", sps->width, sps->height,
                        max_edge_px);
    if (sps->depth_luma < 8 || sps->depth_luma > 16 || (sps->depth_chroma != sps->depth_luma && sps->chroma_format))
        return BZI_FAIL(err, BZNA_E_CODEC,
                        "%u bits a luma sample, %u a chroma sample: 8 to 16, both alike, can be warped",
                        sps->depth_luma, sps->depth_chroma);
    if ((status = bzi_picture_size(image, codec, sps, picture, err)) != BZNA_OK)
        return status;
    picture->depth = sps->depth_luma;
    picture->color = bzi_image_color(given, sps);
    picture->orientation = image->orientation ? image->orientation : sps->orientation ? sps->orientation : 1;
    bzi_picture_chroma(sps, picture);
    return BZNA_OK;
}

/* What is told of a picture without its bytes. */
static bzna_image_info bzi_image_info(const bzi_image *image)
{
    bzna_image_info info;
    memset(&info, 0, sizeof info);
    info.codec = image->coded.codec;
    info.fourcc = image->fourcc;
    info.width = image->coded.width;
    info.height = image->coded.height;
    info.frame_width = image->coded.frame_width;
    info.frame_height = image->coded.frame_height;
    info.crop_x = image->coded.crop_x;
    info.crop_y = image->coded.crop_y;
    memcpy(info.clap, image->clap, sizeof info.clap);
    info.length_size = image->coded.length_size;
    info.color = image->coded.color;
    info.config_offset = image->config_offset;
    info.config_size = image->coded.config_size;
    info.data_offset = image->data_offset;
    info.data_size = image->coded.data_size;
    info.orientation = image->coded.orientation;
    info.beside = image->beside;
    return info;
}

/* Puts what the stream says of sizes, orientation and colors, too, into the picture's own, for those who get it without
 * the stream's format. Where the container says the size, what cannot be read of the stream is as if it were not
 * said. */
static bzna_status bzi_image_complete(bzi_image *image, bzna_error *err)
{
    const bzi_codec *codec = bzi_codec_find(image->coded.codec);
    bzna_image *coded = &image->coded;
    bzi_format format;
    bzna_status status;
    if (!codec || (coded->color.present && image->has_range && coded->width))
        return BZNA_OK;
    if ((status = codec->inspect(coded, &format, err)) != BZNA_OK)
        return coded->width ? BZNA_OK : bzi_image_fail_at(image, err);
    coded->color = bzi_image_color(image, &format);
    if (!coded->orientation)
        coded->orientation = format.orientation;
    if (!coded->width) {
        coded->width = coded->frame_width = format.width - format.window[0] - format.window[1];
        coded->height = coded->frame_height = format.height - format.window[2] - format.window[3];
        if (format.crop[2]) {
            coded->crop_x = format.crop[0];
            coded->crop_y = format.crop[1];
            coded->width = format.crop[2];
            coded->height = format.crop[3];
        }
    }
    return BZNA_OK;
}

/* The kind of a file of one picture: "jpeg", "png ", "jp2 ", as messages call it, in small letters; 0: not known. */
static uint32_t bzi_image_kind(const bzna_image *image)
{
    const char *name = image->codec ? bzi_image_codec_name(image) : "";
    uint8_t text[4] = { ' ', ' ', ' ', ' ' };
    if (!strcmp(name, "JPEG 2000"))
        name = "jp2";
    for (size_t i = 0; i < 4 && name[i]; i++)
        text[i] = (uint8_t)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i]);
    return *name ? bzi_be32(text) : 0;
}

/* A picture that lies by itself in memory, at offset in its file: what it is, its first bytes say. */
BZI_MAYBE_UNUSED static bzna_status bzi_image_found(bzi_span bytes, uint64_t offset, bzi_image *image, bzna_error *err)
{
    bzna_image coded;
    memset(&coded, 0, sizeof coded);
    coded.struct_size = sizeof coded;
    coded.codec = bzi_codec_recognize(bytes);
    coded.data = bytes.data;
    coded.data_size = bytes.size;
    *image = bzi_image_alone(&coded);
    image->data_offset = offset;
    image->fourcc = bzi_image_kind(&coded);
    if (bytes.size == 0)
        return bzi_fail(err, BZNA_E_FORMAT, offset, 0, 0, "the picture at byte %llu has no bytes",
                        (unsigned long long)offset);
    if (coded.codec == BZNA_CODEC_UNKNOWN && bzi_codec_unread(bytes, 1))
        return bzi_fail(err, BZNA_E_CODEC, offset, 0, 0, "the picture at byte %llu is %s", (unsigned long long)offset,
                        bzi_codec_unread(bytes, 1));
    if (coded.codec == BZNA_CODEC_UNKNOWN)
        return bzi_fail(err, BZNA_E_CODEC, offset, 0, 0,
                        "the picture at byte %llu is of no known kind: it begins with %02x %02x %02x %02x",
                        (unsigned long long)offset, bytes.data[0], bytes.size > 1 ? bytes.data[1] : 0,
                        bytes.size > 2 ? bytes.data[2] : 0, bytes.size > 3 ? bytes.data[3] : 0);
    return BZNA_OK;
}


/* Rows first to end - 1 of a picture's frame; chroma's are row >> shift. */
typedef struct bzi_rows {
    int32_t first, end;
} bzi_rows;

/* A part of a frame, its end excluded; all 0: the whole. */
typedef struct bzi_region {
    uint32_t x0, y0, x1, y1;
} bzi_region;

/* What is wanted of a picture, at least: rows of its frame at 1/shrink of its size, which a JPEG may be decoded at; of
 * a grid, the tiles of a part of its frame. */
typedef struct bzi_wanted {
    bzi_rows   rows;
    uint32_t   shrink;
    bzi_region part;
} bzi_wanted;

/* With rows that are wanted, too. */
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
    return (bzi_wanted){ { 0, (int32_t)picture->frame_height }, 1, { 0, 0, 0, 0 } };
}


/* ==== 17. Boxes ======================================================================================================
 * Calls: rooms 2, 5, 7, 12. mp4 by tables: rules say which box is read where; unknown boxes are skipped. Everything in
 * here works on memory, without allocating: a track's tables stay where they lie in the file. */

/* A track's sample tables, as they lie in the file. Big-endian, unaligned. */
typedef struct bzi_table {
    const uint8_t *sizes;             /* stsz/stz2 entries; NULL: common_size */
    const uint8_t *chunks;            /* stco/co64 entries */
    const uint8_t *runs;              /* stsc entries, 12 bytes */
    uint64_t      *offsets;           /* one a sample, owned by the dataset; NULL when every sample is its own chunk */
    uint8_t       *own_sizes;         /* of a fragmented track, 4 bytes a sample: sizes is this; owned likewise */
    uint32_t       size_bits;         /* of an entry of sizes: 4, 8, 16, 32 */
    uint32_t       common_size;
    uint32_t       sample_count;
    uint32_t       chunk_bytes;       /* of an entry of chunks: 4, 8; 0: no box was seen */
    uint32_t       chunk_count;
    uint32_t       run_count;
    uint64_t       sizes_at, chunks_at, runs_at;     /* file offsets of the entries, for messages */
} bzi_table;

typedef struct bzi_track {
    char        name[BZNA_NAME_MAX];
    char        mime[64];
    uint32_t    handler, format, flags;
    uint32_t    entries;              /* sample entries seen; only the first is kept */
    uint32_t    frame_width, frame_height;
    uint32_t    has_clap, has_sync, sync_count;
    int32_t     clap[8];
    bzna_color color;
    uint32_t    has_range;            /* color.full_range was said, too: QuickTime's nclc ends before it */
    bzi_span    config;               /* hvcC, avcC, av1C payload */
    uint64_t    config_at;
    uint32_t    orientation;          /* EXIF's number of what tkhd's matrix does */
    uint64_t    turned_at;            /* its file offset, if it does something else; else 0 */
    uint32_t    id;
    uint32_t    fragment_samples, fragments_depend;     /* samples in fragments; some need others */
    bzi_table   table;
} bzi_track;

/* A box moof while it is read: where the runs of samples of a track begin, and what they have in common. */
typedef struct bzi_fragment {
    bzi_track *track;                 /* NULL: none that is known */
    uint64_t   begin;                 /* of moof, in the file */
    uint64_t   base, end;             /* what offsets are relative to; where the run before ended */
    uint32_t   runs, first;           /* runs of this track; whether it is the first track of the fragment */
    uint32_t   size, flags;           /* of a sample, where a run does not say */
} bzi_fragment;

/* Where the samples of a track's fragments go. */
typedef struct bzi_fragment_sink {
    const bzi_track *track;
    uint64_t        *offsets;
    uint8_t         *sizes;
    uint64_t         at, count;
} bzi_fragment_sink;

typedef struct bzi_movie {
    uint32_t  orientation;            /* as in bzi_track, of mvhd's matrix, which holds for all tracks */
    uint64_t  turned_at;
    uint64_t  box_at;                 /* file offset of the box being read */
    uint32_t  trex_count, trex[BZI_LIMIT_TRACKS][3];      /* track, size and flags of samples in its fragments */
    bzi_fragment       fragment;
    bzi_fragment_sink *sink;          /* NULL: samples of fragments are only counted */
    uint32_t  brand_count, brands[8];
    uint32_t  has_moov;
    uint32_t  track_count;
    uint32_t  depth;
    uint32_t  path[BZI_LIMIT_DEPTH];  /* types from the file level down to the box being read */
    bzi_track tracks[BZI_LIMIT_TRACKS];
} bzi_movie;

#define BZI_FILE   0u                             /* parent of top-level boxes */
#define BZI_VISUAL BZI_FOURCC('v', 'i', 's', 'u') /* parent of what is inside hvc1, avc1, ... */
#define BZI_ANY    0u                             /* rule for a type that no other rule names */
#define BZI_SKIP   1                              /* a reader's note: leave the children alone */

/* "moov/trak[2]/mdia/minf/stbl/stsz at byte 1945002: ..." */
BZI_PRINTF(5, 6)
static bzna_status bzi_box_fail(const bzi_movie *movie, bzna_error *err, bzna_status status, uint64_t offset,
                                const char *format, ...)
{
    char path[BZI_LIMIT_DEPTH * 5 + 16], type[5], text[160];
    size_t n = 0;
    uint32_t fourcc = movie->depth ? movie->path[movie->depth - 1] : 0;
    va_list arguments;
    path[0] = 0;
    for (uint32_t i = 0; i < movie->depth; i++) {
        bzi_fourcc_text(movie->path[i], type);
        n += (size_t)snprintf(path + n, sizeof path - n, "%s%s", i ? "/" : "", type);
        if (movie->path[i] == BZI_FOURCC('t', 'r', 'a', 'k') && movie->track_count)
            n += (size_t)snprintf(path + n, sizeof path - n, "[%u]", movie->track_count - 1);
    }
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return bzi_fail(err, status, offset, fourcc, 0, "%s%sat byte %llu: %s", path, n ? " " : "",
                    (unsigned long long)offset, text);
}

/* For another file, with the room that it has. */
static void bzi_movie_reset(bzi_movie *movie)
{
    movie->track_count = movie->depth = movie->has_moov = movie->brand_count = 0;
    movie->turned_at = movie->orientation = movie->trex_count = 0;
    movie->sink = NULL;
}

static bzi_track *bzi_movie_track(bzi_movie *movie) { return &movie->tracks[movie->track_count - 1]; }

static bzna_status bzi_box_ftyp(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    (void)err;
    movie->brand_count = 0;
    movie->brands[movie->brand_count++] = bzi_cursor_u32(c);
    bzi_cursor_u32(c);
    while (bzi_cursor_left(c) >= 4 && movie->brand_count < 8)
        movie->brands[movie->brand_count++] = bzi_cursor_u32(c);
    return BZNA_OK;
}

static bzna_status bzi_box_moov(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    if (movie->has_moov)
        return bzi_box_fail(movie, err, BZNA_E_BOX, bzi_cursor_offset(c), "a second one");
    movie->has_moov = 1;
    return BZNA_OK;
}

/* What a matrix {a b u, c d v, x y w} does to pictures, which a, b, c and d say: EXIF's number; 0: something else. All
 * zeros say nothing. */
static uint32_t bzi_box_matrix(bzi_cursor *c, uint64_t *turned_at)
{
    const uint64_t at = bzi_cursor_offset(c);
    int32_t m[9];
    uint32_t number, whole = 1;
    for (int i = 0; i < 9; i++)
        m[i] = (int32_t)bzi_cursor_u32(c);
    for (int i = 0; i < 5; i++)
        whole &= i == 2 || m[i] % 0x10000 == 0;
    number = !m[0] && !m[1] && !m[3] && !m[4] ? 1 :
             whole ? bzi_orientation_of(m[0] / 0x10000, m[1] / 0x10000, m[3] / 0x10000, m[4] / 0x10000) : 0;
    *turned_at = number ? 0 : at;
    return number;
}

static bzna_status bzi_box_mvhd(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    (void)err;
    bzi_cursor_take(c, (bzi_cursor_u32(c) >> 24 ? 28 : 16) + 16);       /* times, duration; rate, volume */
    movie->orientation = bzi_box_matrix(c, &movie->turned_at);
    return BZNA_OK;
}

static bzna_status bzi_box_trak(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    if (movie->track_count == BZI_LIMIT_TRACKS)
        return bzi_box_fail(movie, err, BZNA_E_LIMIT, bzi_cursor_offset(c), "more than %u tracks", BZI_LIMIT_TRACKS);
    memset(&movie->tracks[movie->track_count++], 0, sizeof movie->tracks[0]);
    return BZNA_OK;
}

static bzna_status bzi_box_tkhd(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    bzi_track *track = bzi_movie_track(movie);
    uint32_t version = bzi_cursor_u32(c);
    (void)err;
    track->flags = version & 0xffffff;
    bzi_cursor_take(c, version >> 24 ? 16 : 8);             /* times */
    track->id = bzi_cursor_u32(c);
    bzi_cursor_take(c, (version >> 24 ? 12 : 8) + 16);      /* duration; layer, volume */
    track->orientation = bzi_box_matrix(c, &track->turned_at);
    bzi_cursor_take(c, 8);                                  /* width, height */
    return BZNA_OK;
}

static bzna_status bzi_box_hdlr(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    bzi_track *track = bzi_movie_track(movie);
    (void)err;
    bzi_cursor_take(c, 8);
    track->handler = bzi_cursor_u32(c);
    bzi_cursor_take(c, 12);
    if (!c->overrun)
        bzi_text_copy(track->name, sizeof track->name, c->data + c->pos, bzi_cursor_left(c));
    bzi_text_printable(track->name);
    return BZNA_OK;
}

static bzna_status bzi_box_stsd(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    (void)movie;
    (void)err;
    bzi_cursor_take(c, 8); /* version, flags, number of entries: they are counted as they come */
    return BZNA_OK;
}

/* Any sample entry: what all of them begin with. */
static bzna_status bzi_box_entry(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    bzi_track *track = bzi_movie_track(movie);
    (void)err;
    if (track->entries++)
        return BZI_SKIP;
    track->format = movie->path[movie->depth - 1];
    bzi_cursor_take(c, 8);
    return BZNA_OK;
}

static bzna_status bzi_box_mett(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    bzi_track *track = bzi_movie_track(movie);
    bzna_status status = bzi_box_entry(movie, c, err);
    if (status != BZNA_OK)
        return status;
    while (bzi_cursor_left(c) && bzi_cursor_u8(c))          /* content_encoding */
        ;
    if (!c->overrun)
        bzi_text_copy(track->mime, sizeof track->mime, c->data + c->pos, bzi_cursor_left(c));
    bzi_text_printable(track->mime);
    return BZNA_OK;
}

static bzna_status bzi_box_visual(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    bzi_track *track = bzi_movie_track(movie);
    bzna_status status = bzi_box_entry(movie, c, err);
    if (status != BZNA_OK)
        return status;
    bzi_cursor_take(c, 16);
    track->frame_width = bzi_cursor_u16(c);
    track->frame_height = bzi_cursor_u16(c);
    bzi_cursor_take(c, 50);
    return BZNA_OK;
}

static bzna_status bzi_box_config(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    bzi_track *track = bzi_movie_track(movie);
    if (track->config.data)
        return bzi_box_fail(movie, err, BZNA_E_BOX, bzi_cursor_offset(c), "a second one in one sample entry");
    track->config_at = bzi_cursor_offset(c);
    track->config.size = bzi_cursor_left(c);
    track->config.data = bzi_cursor_take(c, track->config.size);
    return BZNA_OK;
}

static bzna_status bzi_box_clap(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    bzi_track *track = bzi_movie_track(movie);
    (void)err;
    for (int i = 0; i < 8; i++)
        track->clap[i] = (int32_t)bzi_cursor_u32(c);
    track->has_clap = 1;
    return BZNA_OK;
}

static bzna_status bzi_box_colr(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    bzi_track *track = bzi_movie_track(movie);
    uint32_t type = bzi_cursor_u32(c);
    (void)err;
    if (type != BZI_FOURCC('n', 'c', 'l', 'x') && type != BZI_FOURCC('n', 'c', 'l', 'c'))
        return BZNA_OK;                                     /* an ICC profile says nothing about Y'CbCr */
    track->color.primaries = (uint16_t)bzi_cursor_u16(c);
    track->color.transfer = (uint16_t)bzi_cursor_u16(c);
    track->color.matrix = (uint16_t)bzi_cursor_u16(c);
    track->has_range = type == BZI_FOURCC('n', 'c', 'l', 'x');
    track->color.full_range = track->has_range && bzi_cursor_u8(c) >> 7;
    track->color.present = 1;
    return BZNA_OK;
}

/* Takes a table of count entries of bits each, or says where it should have ended. */
static bzna_status bzi_box_entries(bzi_movie *movie, bzi_cursor *c, uint32_t count, uint32_t bits,
                                   const uint8_t **entries, uint64_t *at, bzna_error *err)
{
    uint64_t bytes = ((uint64_t)count * bits + 7) / 8;
    if (*entries || *at)
        return bzi_box_fail(movie, err, BZNA_E_BOX, bzi_cursor_offset(c), "a second one in one track");
    *at = bzi_cursor_offset(c);
    if (c->overrun || bytes > bzi_cursor_left(c))
        return bzi_box_fail(movie, err, BZNA_E_BOX, *at, "%u entries need %llu bytes, the box has %llu", count,
                            (unsigned long long)bytes, (unsigned long long)bzi_cursor_left(c));
    *entries = count ? bzi_cursor_take(c, bytes) : NULL;
    return BZNA_OK;
}

static bzna_status bzi_box_stsz(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    bzi_table *table = &bzi_movie_track(movie)->table;
    bzi_cursor_take(c, 4);
    table->common_size = bzi_cursor_u32(c);
    table->sample_count = bzi_cursor_u32(c);
    table->size_bits = 32;
    return bzi_box_entries(movie, c, table->common_size ? 0 : table->sample_count, 32, &table->sizes, &table->sizes_at,
                           err);
}

static bzna_status bzi_box_stz2(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    bzi_table *table = &bzi_movie_track(movie)->table;
    bzi_cursor_take(c, 4);
    table->size_bits = bzi_cursor_u32(c) & 255;
    table->sample_count = bzi_cursor_u32(c);
    if (table->size_bits != 4 && table->size_bits != 8 && table->size_bits != 16)
        return bzi_box_fail(movie, err, BZNA_E_BOX, bzi_cursor_offset(c), "field size %u is not 4, 8 or 16",
                            table->size_bits);
    return bzi_box_entries(movie, c, table->sample_count, table->size_bits, &table->sizes, &table->sizes_at, err);
}

static bzna_status bzi_box_stsc(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    bzi_table *table = &bzi_movie_track(movie)->table;
    bzi_cursor_take(c, 4);
    table->run_count = bzi_cursor_u32(c);
    return bzi_box_entries(movie, c, table->run_count, 96, &table->runs, &table->runs_at, err);
}

static bzna_status bzi_box_stco(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    bzi_table *table = &bzi_movie_track(movie)->table;
    bzi_cursor_take(c, 4);
    table->chunk_bytes = movie->path[movie->depth - 1] == BZI_FOURCC('c', 'o', '6', '4') ? 8 : 4;
    table->chunk_count = bzi_cursor_u32(c);
    return bzi_box_entries(movie, c, table->chunk_count, table->chunk_bytes * 8, &table->chunks, &table->chunks_at,
                           err);
}

static bzna_status bzi_box_stss(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    bzi_track *track = bzi_movie_track(movie);
    (void)err;
    bzi_cursor_take(c, 4);
    track->sync_count = bzi_cursor_u32(c);
    track->has_sync = 1;
    return BZNA_OK;
}


/* ==== 18. Boxes: fragments, rules ====================================================================================
 * Calls: rooms 2, 7, 17. Samples in fragments (moof), and the table of what is read where. */

static bzna_status bzi_box_trex(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    uint32_t *trex = movie->trex[movie->trex_count % BZI_LIMIT_TRACKS];
    if (movie->trex_count++ == BZI_LIMIT_TRACKS)
        return bzi_box_fail(movie, err, BZNA_E_LIMIT, bzi_cursor_offset(c), "more than %u tracks", BZI_LIMIT_TRACKS);
    bzi_cursor_take(c, 4);
    trex[0] = bzi_cursor_u32(c);
    bzi_cursor_take(c, 8);
    trex[1] = bzi_cursor_u32(c);
    trex[2] = bzi_cursor_u32(c);
    return BZNA_OK;
}

static bzna_status bzi_box_moof(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    if (!movie->has_moov)
        return bzi_box_fail(movie, err, BZNA_E_UNSUPPORTED, bzi_cursor_offset(c), "a fragment before the moov box");
    movie->fragment = (bzi_fragment){ .begin = movie->box_at, .end = movie->box_at, .first = 1 };
    return BZNA_OK;
}

static bzna_status bzi_box_traf(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    (void)c, (void)err;
    movie->fragment.track = NULL;
    return BZNA_OK;
}

static bzna_status bzi_box_tfhd(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    bzi_fragment *f = &movie->fragment;
    const uint32_t flags = bzi_cursor_u32(c), id = bzi_cursor_u32(c);
    (void)err;
    f->track = NULL;
    f->size = f->flags = f->runs = 0;
    for (uint32_t i = 0; i < movie->track_count; i++)
        if (movie->tracks[i].id == id)
            f->track = &movie->tracks[i];
    for (uint32_t i = 0; i < movie->trex_count; i++)
        if (movie->trex[i][0] == id) {
            f->size = movie->trex[i][1];
            f->flags = movie->trex[i][2];
        }
    f->base = flags & 0x20000 || f->first ? f->begin : f->end;
    f->first = 0;
    if (flags & 1)
        f->base = bzi_cursor_number(c, 8);
    bzi_cursor_take(c, (flags & 2 ? 4 : 0) + (flags & 8 ? 4 : 0));          /* description, duration */
    f->size = flags & 0x10 ? bzi_cursor_u32(c) : f->size;
    f->flags = flags & 0x20 ? bzi_cursor_u32(c) : f->flags;
    return BZNA_OK;
}

/* One sample of a run, which lies at the end of the one before it. */
static void bzi_fragment_add(bzi_movie *movie, uint32_t size, uint32_t flags)
{
    bzi_fragment *f = &movie->fragment;
    bzi_fragment_sink *sink = movie->sink;
    f->track->fragments_depend |= flags >> 16 & 1;          /* sample_is_non_sync_sample */
    if (sink && sink->track == f->track && sink->at < sink->count) {
        sink->offsets[sink->at] = f->end;
        for (int i = 0; i < 4; i++)
            sink->sizes[4 * sink->at + (uint32_t)i] = (uint8_t)(size >> (24 - 8 * i));
        sink->at++;
    }
    if (!bzi_add(f->end, size, &f->end))
        f->end = UINT64_MAX;                                /* fails its own sample, at use */
}

/* Samples that have all in common cost no bytes here: they are counted first, and listed only if the file can hold
 * them. */
static bzna_status bzi_box_trun(bzi_movie *movie, bzi_cursor *c, bzna_error *err)
{
    bzi_fragment *f = &movie->fragment;
    const uint32_t flags = bzi_cursor_u32(c), count = bzi_cursor_u32(c);
    const uint32_t each = 4 * ((flags >> 8 & 1) + (flags >> 9 & 1) + (flags >> 10 & 1) + (flags >> 11 & 1));
    const uint64_t at = bzi_cursor_offset(c);
    uint32_t first_flags;
    uint64_t start = f->runs++ ? f->end : f->base;
    if (flags & 1)
        start = f->base + (uint64_t)(int64_t)(int32_t)bzi_cursor_u32(c);    /* an offset is checked at use */
    first_flags = flags & 4 ? bzi_cursor_u32(c) : f->flags;
    if (c->overrun || (uint64_t)count * each > bzi_cursor_left(c) || (!(flags & 0x200) && count && !f->size))
        return bzi_box_fail(movie, err, BZNA_E_BOX, at, "%u samples of %u bytes each do not fit in it", count, each);
    if (!f->track)
        return BZNA_OK;
    if (count > UINT32_MAX - f->track->table.sample_count - f->track->fragment_samples)
        return bzi_box_fail(movie, err, BZNA_E_LIMIT, at, "more than %u samples", UINT32_MAX);
    f->track->fragment_samples += count;
    f->end = start;
    if (!movie->sink && !each) {
        f->track->fragments_depend |= count && ((first_flags | (count > 1 ? f->flags : 0)) >> 16 & 1);
        f->end = bzi_add(start, (uint64_t)count * f->size, &f->end) ? f->end : UINT64_MAX;
        return BZNA_OK;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size, sample_flags;
        bzi_cursor_take(c, flags & 0x100 ? 4 : 0);
        size = flags & 0x200 ? bzi_cursor_u32(c) : f->size;
        sample_flags = flags & 0x400 ? bzi_cursor_u32(c) : i ? f->flags : first_flags;
        bzi_cursor_take(c, flags & 0x800 ? 4 : 0);
        bzi_fragment_add(movie, size, flags & 4 && !i ? first_flags : sample_flags);
    }
    return BZNA_OK;
}

/* Which boxes are read, and where. children: what their children are looked up under; 0: they have none that matter. */
typedef struct bzi_box_rule {
    uint32_t parent, type, children;
    bzna_status (*read)(bzi_movie *movie, bzi_cursor *c, bzna_error *err);
} bzi_box_rule;

#define BZI_BOX(parent, a, b, c, d, children, read) { parent, BZI_FOURCC(a, b, c, d), children, read }
#define BZI_MOOV BZI_FOURCC('m', 'o', 'o', 'v')
#define BZI_TRAK BZI_FOURCC('t', 'r', 'a', 'k')
#define BZI_MDIA BZI_FOURCC('m', 'd', 'i', 'a')
#define BZI_MINF BZI_FOURCC('m', 'i', 'n', 'f')
#define BZI_STBL BZI_FOURCC('s', 't', 'b', 'l')
#define BZI_STSD BZI_FOURCC('s', 't', 's', 'd')
#define BZI_MVEX BZI_FOURCC('m', 'v', 'e', 'x')
#define BZI_MOOF BZI_FOURCC('m', 'o', 'o', 'f')
#define BZI_TRAF BZI_FOURCC('t', 'r', 'a', 'f')

static const bzi_box_rule bzi_box_rules[] = {
    BZI_BOX(BZI_FILE,   'f', 't', 'y', 'p', 0,          bzi_box_ftyp),
    BZI_BOX(BZI_FILE,   'm', 'o', 'o', 'v', BZI_MOOV,   bzi_box_moov),
    BZI_BOX(BZI_FILE,   'm', 'o', 'o', 'f', BZI_MOOF,   bzi_box_moof),
    BZI_BOX(BZI_MOOF,   't', 'r', 'a', 'f', BZI_TRAF,   bzi_box_traf),
    BZI_BOX(BZI_TRAF,   't', 'f', 'h', 'd', 0,          bzi_box_tfhd),
    BZI_BOX(BZI_TRAF,   't', 'r', 'u', 'n', 0,          bzi_box_trun),
    BZI_BOX(BZI_MOOV,   'm', 'v', 'e', 'x', BZI_MVEX,   NULL),
    BZI_BOX(BZI_MVEX,   't', 'r', 'e', 'x', 0,          bzi_box_trex),
    BZI_BOX(BZI_MOOV,   'm', 'v', 'h', 'd', 0,          bzi_box_mvhd),
    BZI_BOX(BZI_MOOV,   't', 'r', 'a', 'k', BZI_TRAK,   bzi_box_trak),
    BZI_BOX(BZI_TRAK,   't', 'k', 'h', 'd', 0,          bzi_box_tkhd),
    BZI_BOX(BZI_TRAK,   'm', 'd', 'i', 'a', BZI_MDIA,   NULL),
    BZI_BOX(BZI_MDIA,   'h', 'd', 'l', 'r', 0,          bzi_box_hdlr),
    BZI_BOX(BZI_MDIA,   'm', 'i', 'n', 'f', BZI_MINF,   NULL),
    BZI_BOX(BZI_MINF,   's', 't', 'b', 'l', BZI_STBL,   NULL),
    BZI_BOX(BZI_STBL,   's', 't', 's', 'd', BZI_STSD,   bzi_box_stsd),
    BZI_BOX(BZI_STBL,   's', 't', 's', 'z', 0,          bzi_box_stsz),
    BZI_BOX(BZI_STBL,   's', 't', 'z', '2', 0,          bzi_box_stz2),
    BZI_BOX(BZI_STBL,   's', 't', 's', 'c', 0,          bzi_box_stsc),
    BZI_BOX(BZI_STBL,   's', 't', 'c', 'o', 0,          bzi_box_stco),
    BZI_BOX(BZI_STBL,   'c', 'o', '6', '4', 0,          bzi_box_stco),
    BZI_BOX(BZI_STBL,   's', 't', 's', 's', 0,          bzi_box_stss),
    BZI_BOX(BZI_STSD,   'm', 'e', 't', 't', 0,          bzi_box_mett),
    BZI_BOX(BZI_STSD,   'h', 'v', 'c', '1', BZI_VISUAL, bzi_box_visual),
    BZI_BOX(BZI_STSD,   'h', 'e', 'v', '1', BZI_VISUAL, bzi_box_visual),
    BZI_BOX(BZI_STSD,   'a', 'v', 'c', '1', BZI_VISUAL, bzi_box_visual),
    BZI_BOX(BZI_STSD,   'a', 'v', 'c', '3', BZI_VISUAL, bzi_box_visual),
    BZI_BOX(BZI_STSD,   'a', 'v', '0', '1', BZI_VISUAL, bzi_box_visual),
    BZI_BOX(BZI_STSD,   'm', 'j', 'p', 'g', BZI_VISUAL, bzi_box_visual),
    BZI_BOX(BZI_STSD,   'j', 'p', 'e', 'g', BZI_VISUAL, bzi_box_visual),
    BZI_BOX(BZI_VISUAL, 'h', 'v', 'c', 'C', 0,          bzi_box_config),
    BZI_BOX(BZI_VISUAL, 'a', 'v', 'c', 'C', 0,          bzi_box_config),
    BZI_BOX(BZI_VISUAL, 'a', 'v', '1', 'C', 0,          bzi_box_config),
    BZI_BOX(BZI_VISUAL, 'c', 'l', 'a', 'p', 0,          bzi_box_clap),
    BZI_BOX(BZI_VISUAL, 'c', 'o', 'l', 'r', 0,          bzi_box_colr),
    { BZI_STSD, BZI_ANY, 0, bzi_box_entry },
};

static const bzi_box_rule *bzi_box_find(uint32_t parent, uint32_t type)
{
    for (size_t i = 0; i < sizeof bzi_box_rules / sizeof bzi_box_rules[0]; i++)
        if (bzi_box_rules[i].parent == parent && (bzi_box_rules[i].type == type || bzi_box_rules[i].type == BZI_ANY))
            return &bzi_box_rules[i];
    return NULL;
}

typedef struct bzi_box {
    uint64_t at;                      /* file offset of the box */
    uint64_t size;                    /* whole, header included */
    uint64_t header;                  /* 8 or 16 */
    uint32_t type;
    uint32_t to_end;                  /* its size was written as 0: to the end of the file */
} bzi_box;

/* Reads a box header from up to 16 bytes; limit is how many bytes are left for the whole box. */
static bzna_status bzi_box_header(bzi_movie *movie, const uint8_t *bytes, uint64_t limit, uint64_t at, bzi_box *box,
                                  bzna_error *err)
{
    memset(box, 0, sizeof *box);
    box->at = at;
    if (limit < 8)
        return bzi_box_fail(movie, err, BZNA_E_TRUNCATED, at, "%llu bytes are left, a box header has 8",
                            (unsigned long long)limit);
    box->size = bzi_be32(bytes);
    box->type = bzi_be32(bytes + 4);
    box->header = 8;
    movie->path[movie->depth++] = box->type;                /* so that messages name it */
    if (box->size == 1) {
        if (limit < 16)
            return bzi_box_fail(movie, err, BZNA_E_TRUNCATED, at, "%llu bytes are left, its header has 16",
                                (unsigned long long)limit);
        box->size = bzi_be64(bytes + 8);
        box->header = 16;
        if (box->size == 0 && box->type == BZI_FOURCC('m', 'd', 'a', 't'))
            return bzi_box_fail(movie, err, BZNA_E_UNFINISHED, at,
                                "its length was never written: the archive was not finished");
    } else if (box->size == 0 && movie->depth == 1) {
        box->size = limit;
        box->to_end = 1;
    }
    if (box->size < box->header)
        return bzi_box_fail(movie, err, BZNA_E_BOX, at, "size %llu is smaller than its header",
                            (unsigned long long)box->size);
    if (box->size > limit)
        return bzi_box_fail(movie, err, movie->depth == 1 ? BZNA_E_TRUNCATED : BZNA_E_BOX, at,
                            "size %llu, but only %llu bytes are left in %s", (unsigned long long)box->size,
                            (unsigned long long)limit, movie->depth == 1 ? "the file" : "the box around it");
    movie->depth--;
    return BZNA_OK;
}

/* Trailing zeros are allowed where a box header no longer fits: QuickTime ends lists with them. */
static int bzi_box_padding(const bzi_cursor *c)
{
    uint64_t left = bzi_cursor_left(c);
    if (left >= 8)
        return 0;
    for (uint64_t i = 0; i < left; i++)
        if (c->data[c->pos + i])
            return 0;
    return 1;
}

/* Reads what the rules name among the boxes of c, depth first. */
static bzna_status bzi_box_walk(bzi_movie *movie, bzi_cursor c, uint32_t parent, bzna_error *err)
{
    for (uint32_t n = 0; !bzi_box_padding(&c); n++) {
        const bzi_box_rule *rule;
        bzi_cursor payload;
        bzi_box box;
        bzna_status status;
        if (n == BZI_LIMIT_BOX_CHILDREN || movie->depth == BZI_LIMIT_DEPTH)
            return bzi_box_fail(movie, err, BZNA_E_LIMIT, bzi_cursor_offset(&c),
                                n ? "too many boxes" : "boxes nest too deep");
        status = bzi_box_header(movie, c.data + c.pos, bzi_cursor_left(&c), bzi_cursor_offset(&c), &box, err);
        if (status != BZNA_OK)
            return status;
        bzi_cursor_take(&c, box.header);
        payload = bzi_cursor_sub(&c, box.size - box.header);
        rule = bzi_box_find(parent, box.type);
        if (!rule)
            continue;
        movie->path[movie->depth++] = box.type;
        movie->box_at = box.at;
        status = rule->read ? rule->read(movie, &payload, err) : BZNA_OK;
        if (status == BZNA_OK && payload.overrun)
            status = bzi_box_fail(movie, err, BZNA_E_BOX, box.at, "its %llu bytes are too few",
                                  (unsigned long long)box.size);
        if (status == BZNA_OK && rule->children)
            status = bzi_box_walk(movie, bzi_cursor_sub(&payload, bzi_cursor_left(&payload)), rule->children, err);
        if (status < 0)
            return status;
        movie->depth--;
    }
    return BZNA_OK;
}


/* ==== 19. Sample tables ==============================================================================================
 * Calls: rooms 2, 5, 12. Where the samples of a track lie, and what its pictures are. */

/* Pre: i < sample_count. */
static uint32_t bzi_table_size(const bzi_table *t, uint32_t i)
{
    if (!t->sizes)
        return t->common_size;
    switch (t->size_bits) {
    case 32: return bzi_be32(t->sizes + (uint64_t)i * 4);
    case 16: return bzi_be16(t->sizes + (uint64_t)i * 2);
    case 8:  return t->sizes[i];
    default: return (uint32_t)t->sizes[i / 2] >> (i % 2 ? 0 : 4) & 15u;
    }
}

static uint64_t bzi_table_chunk(const bzi_table *t, uint32_t i)
{
    return t->chunk_bytes == 8 ? bzi_be64(t->chunks + (uint64_t)i * 8) : bzi_be32(t->chunks + (uint64_t)i * 4);
}

/* Every sample its own chunk, as archives have it: sample i lies at chunk i. */
static int bzi_table_is_plain(const bzi_table *t)
{
    if (t->sample_count == 1 && t->chunk_count == 1)
        return 1;
    return t->run_count == 1 && bzi_be32(t->runs) == 1 && bzi_be32(t->runs + 4) == 1 &&
           t->chunk_count >= t->sample_count;
}

/* A track must have its tables and they must agree. Costs nothing per sample. */
static bzna_status bzi_table_check(const bzi_track *of, uint32_t track, bzna_error *err)
{
    const bzi_table *t = &of->table;
    const char *name = of->name;
    if (t->sample_count == 0)
        return BZNA_OK;
    if (!t->chunk_bytes || t->chunk_count == 0)
        return BZI_FAIL(err, BZNA_E_BOX, "moov/trak[%u] \"%s\": %u samples but no stco or co64 entry", track, name,
                        t->sample_count);
    if (!t->runs || t->run_count == 0)
        return BZI_FAIL(err, BZNA_E_BOX, "moov/trak[%u] \"%s\": %u samples but no stsc entry", track, name,
                        t->sample_count);
    if (t->run_count == 1 && bzi_be32(t->runs + 4) == 1 && t->chunk_count < t->sample_count)
        return bzi_fail(err, BZNA_E_BOX, t->chunks_at, 0, 0,
                        "moov/trak[%u] \"%s\": %u samples in %u chunks of one sample at byte %llu", track, name,
                        t->sample_count, t->chunk_count, (unsigned long long)t->chunks_at);
    return BZNA_OK;
}

/* Writes every sample's offset by walking the chunks; offsets has sample_count entries. */
static bzna_status bzi_table_expand(const bzi_table *t, uint32_t track, uint64_t *offsets, bzna_error *err)
{
    uint32_t sample = 0;
    for (uint32_t run = 0; run < t->run_count && sample < t->sample_count; run++) {
        const uint8_t *entry = t->runs + (uint64_t)run * 12;
        uint32_t first = bzi_be32(entry), each = bzi_be32(entry + 4);
        uint32_t end = run + 1 < t->run_count ? bzi_be32(entry + 12) : t->chunk_count + 1;
        if (first == 0 || first >= end || end - 1 > t->chunk_count || each == 0 || (run == 0 && first != 1))
            return bzi_fail(
                err, BZNA_E_BOX, t->runs_at + (uint64_t)run * 12, BZI_FOURCC('s', 't', 's', 'c'), 0,
                "moov/trak[%u]/mdia/minf/stbl/stsc at byte %llu: run %u has chunks %u..%u of %u, %u samples each",
                track, (unsigned long long)(t->runs_at + (uint64_t)run * 12), run, first, end - 1, t->chunk_count,
                each);
        for (uint32_t chunk = first - 1; chunk < end - 1 && sample < t->sample_count; chunk++) {
            uint64_t at = bzi_table_chunk(t, chunk);
            for (uint32_t k = 0; k < each && sample < t->sample_count; k++) {
                offsets[sample] = at;
                if (!bzi_add(at, bzi_table_size(t, sample), &at))
                    at = UINT64_MAX;                        /* fails its own sample, at use */
                sample++;
            }
        }
    }
    if (sample < t->sample_count)
        return bzi_fail(err, BZNA_E_BOX, t->runs_at, BZI_FOURCC('s', 't', 's', 'c'), 0,
                        "moov/trak[%u]/mdia/minf/stbl/stsc at byte %llu: its chunks hold %u of %u samples", track,
                        (unsigned long long)t->runs_at, sample, t->sample_count);
    return BZNA_OK;
}

/* Where sample i lies, checked against the size of what holds it. */
static bzna_status bzi_table_entry(const bzi_table *t, uint32_t i, uint64_t limit, uint64_t *offset, uint64_t *size,
                                   bzna_error *err)
{
    uint64_t end;
    *offset = t->offsets ? t->offsets[i] : bzi_table_chunk(t, i);
    *size = bzi_table_size(t, i);
    if (bzi_add(*offset, *size, &end) && end <= limit)
        return BZNA_OK;
    return bzi_fail(err, BZNA_E_BOX, t->offsets ? t->chunks_at : t->chunks_at + (uint64_t)i * t->chunk_bytes, 0, 0,
                    "index entry %u (stco/stsz at bytes %llu, %llu) says %llu bytes at %llu, but there are only %llu",
                    i, (unsigned long long)(t->offsets ? t->chunks_at : t->chunks_at + (uint64_t)i * t->chunk_bytes),
                    (unsigned long long)t->sizes_at, (unsigned long long)*size, (unsigned long long)*offset,
                    (unsigned long long)limit);
}

/* How a track's pictures are to be turned: by the matrices of track and movie, of which each may be a turn by quarters
 * or a mirror. 0: as they say themselves. */
static bzna_status bzi_track_orientation(const bzi_track *track, uint32_t number, uint64_t movie_turned_at,
                                         uint32_t movie_orientation, uint32_t *orientation, bzna_error *err)
{
    const uint64_t at = track->turned_at ? track->turned_at : movie_turned_at;
    const uint32_t both = bzi_orientation_then(track->orientation ? track->orientation : 1,
                                               movie_orientation ? movie_orientation : 1);
    char place[32] = "mvhd";
    *orientation = both > 1 ? both : 0;
    if (!at)
        return BZNA_OK;
    if (track->turned_at)
        snprintf(place, sizeof place, "trak[%u]/tkhd", number);
    return bzi_fail(err, BZNA_E_UNSUPPORTED, at,
                    track->turned_at ? BZI_FOURCC('t', 'k', 'h', 'd') : BZI_FOURCC('m', 'v', 'h', 'd'), 0,
                    "moov/%s at byte %llu: the matrix scales or skews track \"%s\", which is not supported", place,
                    (unsigned long long)at, track->name);
}

/* The clean aperture of a track's frames, where it has one. */
static bzna_status bzi_track_clap(const bzi_track *track, bzi_image *image, bzna_error *err)
{
    const int32_t *c = track->clap;
    bzna_image *coded = &image->coded;
    if (!track->has_clap)
        return BZNA_OK;
    memcpy(image->clap, c, sizeof image->clap);
    if (bzi_clap_side(coded->frame_width, c, c + 4, &coded->crop_x, &coded->width) &&
        bzi_clap_side(coded->frame_height, c + 2, c + 6, &coded->crop_y, &coded->height))
        return BZNA_OK;
    return BZI_FAIL(err, BZNA_E_BOX, "track \"%s\": clap %d/%d x %d/%d at %d/%d, %d/%d does not lie in the %ux%u frame",
                    track->name, c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], track->frame_width,
                    track->frame_height);
}

/* What a video track says of its pictures. length_size comes from the configuration record. */
static bzna_status bzi_track_image(const bzi_track *track, bzi_image *image, bzna_error *err)
{
    bzna_image *coded = &image->coded;
    const bzi_codec *codec = bzi_codec_of_entry(track->format);
    char type[5];
    memset(image, 0, sizeof *image);
    coded->struct_size = sizeof *coded;
    image->fourcc = track->format;
    coded->frame_width = coded->width = track->frame_width;
    coded->frame_height = coded->height = track->frame_height;
    coded->color = track->color;
    image->has_range = track->has_range;
    image->config_offset = track->config_at;
    coded->config_size = track->config.size;
    bzi_fourcc_text(codec ? codec->config : track->format, type);
    if (!codec)
        return BZI_FAIL(err, BZNA_E_CODEC, "track \"%s\": sample entry '%s' is not a known codec", track->name, type);
    coded->codec = codec->id;
    if (track->config.size < codec->config_bytes)
        return bzi_fail(err, BZNA_E_BOX, track->config_at, track->format, 0,
                        "track \"%s\": no decoder configuration (%s), or too short", track->name, type);
    if (codec->length_at)
        coded->length_size = (track->config.data[codec->length_at] & 3u) + 1;
    if (coded->length_size == 3)
        return bzi_fail(err, BZNA_E_BOX, track->config_at, track->format, 0,
                        "track \"%s\": NAL unit lengths of 3 bytes", track->name);
    if (!track->frame_width || !track->frame_height)
        return BZI_FAIL(err, BZNA_E_BOX, "track \"%s\": frame size %ux%u", track->name, track->frame_width,
                        track->frame_height);
    if (codec->is_file && !track->has_clap)                 /* each says its own, of which the track's is the largest */
        coded->frame_width = coded->width = coded->frame_height = coded->height = 0;
    return bzi_track_clap(track, image, err);
}


/* ==== 20. Containers =================================================================================================
 * Calls: rooms 2, 5. The types only. A container holds samples, and is a row of operations: an archive, a plain mp4
 * video. It is immutable once open, so any thread may use it. Nothing outside rooms 20 to 35 knows which one a sample
 * came from. */

/* Where a sample's bytes lie, in its container's source or in a file of its own. */
typedef struct bzi_extent {
    uint64_t offset, size;
} bzi_extent;

/* A sample; bytes, extent.size of them, are there once it was read. */
typedef struct bzi_sample {
    uint64_t       index;
    bzi_extent     extent;
    const uint8_t *bytes;
} bzi_sample;

/* What a thread needs to look into samples: one a thread. */
typedef struct bzi_scratch {
    bzi_movie movie;
} bzi_scratch;

/* Which picture of a sample: by name, or the container's choice, which is a thumbnail where there is one, but for
 * whole. */
typedef struct bzi_pick {
    const char *name;                 /* NULL: none */
    uint32_t    whole;
} bzi_pick;

/* A field that samples have. */
typedef struct bzi_field {
    uint32_t kind;                    /* BZNA_FIELD_... */
    uint32_t inside;                  /* its value is in the sample's bytes, which are read before it is asked for */
    char     name[BZNA_NAME_MAX];
} bzi_field;

/* Where the value of a field goes: as much of it as there is room for. An integer is an int64_t, a vector is of
 * floats, text has no NUL at its end. */
typedef struct bzi_value {
    uint8_t *data;
    uint64_t capacity;
    uint64_t size;                    /* of the whole value */
    uint32_t absent;                  /* the sample has none */
} bzi_value;

static void bzi_value_put(bzi_value *value, const void *data, uint64_t size)
{
    value->size = size;
    if (size && size <= value->capacity)
        memcpy(value->data, data, (size_t)size);
}

typedef struct bzi_container bzi_container;

/* Errors name place and byte offset; the caller adds the sample and the file. open returns BZNA_AGAIN for a file of
 * another kind that begins alike: the next row that recognizes it has its turn, and finds own, of the same type, as
 * this one left it. Rows may lack what stands after close. */
typedef struct bzi_container_ops {
    const char *name;
    uint64_t    own_bytes;            /* of what the row keeps of a file, all zeros before open */
    uint32_t    names_inside;         /* which pictures a sample has is in its bytes */
    uint32_t    still;                /* pictures are JPEG or other stills: NVDEC is not asked */
    uint32_t    listed;               /* dataset_config.list may name or label its samples */
    /* head: the file's first bytes, at most BZI_PROBE_BYTES. NULL: they do not say */
    int         (*probe)(const uint8_t *head, uint64_t size);
    /* sets what stands after source in bzi_container. config is checked */
    bzna_status (*open)(bzi_container *c, const bzna_dataset_config *config, bzna_error *err);
    bzna_status (*locate)(const bzi_container *c, uint64_t index, bzi_extent *extent, bzna_error *err);
    /* number: in fields, of any kind but a picture */
    bzna_status (*field)(const bzi_container *c, const bzi_sample *sample, uint32_t number, bzi_value *value,
                         bzna_error *err);
    /* their names; NULL: those of the picture fields */
    bzna_status (*images)(const bzi_container *c, const bzi_sample *sample, bzi_scratch *scratch, bzna_sample *out,
                          bzna_error *err);
    bzna_status (*image)(const bzi_container *c, const bzi_sample *sample, const bzi_pick *pick, bzi_scratch *scratch,
                         bzi_image *image, bzna_error *err); /* the image's pointers go into bytes and the container */
    uint64_t    (*fingerprint)(const bzi_container *c, uint64_t hash);
    void        (*close)(bzi_container *c);                 /* frees what own points to; NULL: nothing */
    /* where each sample is a file of its own: its path. There is no locate then: the size is found when the file is
     * opened */
    bzna_status (*path)(const bzi_container *c, uint64_t index, char *path, uint64_t capacity, bzna_error *err);
    /* the name of a target */
    void        (*class_name)(const bzi_container *c, uint64_t target, bzi_value *value);
    void        (*describe)(const bzi_container *c, bzna_dataset_info *info);        /* tracks, brands */
    bzna_status (*track)(const bzi_container *c, uint32_t track, bzna_track_info *info);
    /* of a sample that was just read: makes its bytes what the other operations take, in place. writable: its bytes, or
     * NULL where they must stay as they are; then BZNA_AGAIN says that they would have to change */
    bzna_status (*prepare)(const bzi_container *c, const bzi_sample *sample, uint8_t *writable, bzna_error *err);
} bzi_container_ops;

#define BZI_NO_FIELD UINT32_MAX

struct bzi_container {
    const bzi_container_ops *ops;
    bzi_host   *host;                 /* a reference is held */
    atomic_int  references;
    char       *name;                 /* for messages */
    uint64_t    name_size;
    bzi_source  source;               /* size 0 and nothing to read where samples are files of their own */
    uint64_t    count;
    uint64_t    target_count;         /* the first so many samples have a target, or so many of them have */
    uint64_t    class_count;
    const bzi_field *fields;          /* that samples have */
    uint32_t    field_count;
    uint32_t    target_field;         /* number of the field that gives a sample's target; BZI_NO_FIELD: none */
    uint32_t    target_inside;        /* it is in the sample's bytes */
    uint32_t    orientation, palette; /* BZNA_ORIENTATION_..., BZNA_PALETTE_... */
    void       *own;                  /* what its operations keep */
};

#define BZI_PROBE_BYTES 512u

/* Adds a field. own: where the container keeps its fields. */
static void bzi_container_add_field(bzi_container *c, bzi_field *own, uint32_t kind, uint32_t inside, const char *name)
{
    bzi_field *field = &own[c->field_count++];
    c->fields = own;
    field->kind = kind;
    field->inside = inside;
    bzi_string_copy(field->name, sizeof field->name, name);
}

/* name: which was asked for; NULL: any. */
static bzna_status bzi_container_fail_image(const char *name, bzna_error *err)
{
    return BZI_FAIL(err, BZNA_E_NOT_FOUND, "it has no picture%s%s%s", name ? " \"" : "", name ? name : "",
                    name ? "\"" : "");
}


/* ==== 21. HEIF: files ================================================================================================
 * Calls: rooms 2, 5, 7, 12-14, 16-20. A HEIF or AVIF file, alone or among other pictures, as the picture that it shows:
 * its primary item, else the first picture of its first track of pictures. */

#ifndef BENZINA_NO_HEIF

/* What the file holds beside the picture that is read: BZNA_BESIDE_... */
static uint32_t bzi_heif_beside(const bzi_heif *heif)
{
    const uint32_t auxl = BZI_FOURCC('a', 'u', 'x', 'l'), thmb = BZI_FOURCC('t', 'h', 'm', 'b');
    bzi_cursor c = heif->iinf, box;
    uint32_t type, beside = heif->has_movie ? BZNA_BESIDE_SEQUENCE : 0, n = 0;
    bzi_cursor_number(&c, bzi_cursor_u32(&c) >> 24 ? 4 : 2);
    while (n++ < BZI_LIMIT_ITEMS && bzi_heif_next_box(&c, &type, &box) > 0) {
        const uint32_t flags = bzi_cursor_u32(&box), id = (uint32_t)bzi_cursor_number(&box, flags >> 24 == 2 ? 2 : 4);
        bzi_cursor_u16(&box);
        type = bzi_cursor_u32(&box);
        if (flags >> 24 >= 2 && id != heif->primary && !(flags & 1) &&
            (bzi_codec_of_entry(type) || type == BZI_GRID || type == BZI_IDEN ||
             type == BZI_FOURCC('i', 'o', 'v', 'l')))
            beside |= BZNA_BESIDE_PICTURES;
    }
    return beside | (bzi_heif_referrer(heif, thmb, heif->primary, NULL) ? BZNA_BESIDE_THUMB : 0) |
           (bzi_heif_referrer(heif, auxl, heif->primary, NULL) ? BZNA_BESIDE_AUXILIARY : 0);
}

/* The first picture of the first track of pictures: its sample tables, and what it says of pictures. */
static bzna_status bzi_heif_sequence(bzi_span bytes, uint64_t offset, bzi_movie *movie, bzi_image *image,
                                     bzna_error *err)
{
    uint32_t i = 0;
    uint64_t at, size;
    bzna_status status;
    bzi_movie_reset(movie);
    status = bzi_box_walk(movie, bzi_cursor_make(bytes.data, bytes.size, offset), BZI_FILE, err);
    while (i < movie->track_count && movie->tracks[i].handler != BZI_FOURCC('p', 'i', 'c', 't') &&
           movie->tracks[i].handler != BZI_FOURCC('v', 'i', 'd', 'e'))
        i++;
    if (status == BZNA_OK && (i == movie->track_count || !movie->tracks[i].table.sample_count))
        return bzi_fail(err, BZNA_E_NOT_FOUND, offset, 0, 0, "the HEIF file at byte %llu has neither a primary item "
                        "nor a track of pictures", (unsigned long long)offset);
    if (status != BZNA_OK || (status = bzi_table_check(&movie->tracks[i], i, err)) != BZNA_OK ||
        (status = bzi_table_entry(&movie->tracks[i].table, 0, bytes.size, &at, &size, err)) != BZNA_OK ||
        (status = bzi_track_image(&movie->tracks[i], image, err)) != BZNA_OK)
        return status;
    image->coded.config = movie->tracks[i].config.data;
    image->coded.data = bytes.data + at;
    image->coded.data_size = size;
    image->data_offset = offset + at;
    if ((status = bzi_track_orientation(&movie->tracks[i], i, movie->turned_at, movie->orientation,
                                        &image->coded.orientation, err)) != BZNA_OK)
        return status;
    return size ? BZNA_OK : BZI_FAIL(err, BZNA_E_BOX, "moov/trak[%u]: its first picture has no bytes", i);
}

/* The picture of a file; thumb: its thumbnail. What is coded as one piece is a picture of its item's codec, else of
 * BZNA_CODEC_HEIF. */
static bzna_status bzi_heif_image(bzi_span bytes, uint64_t offset, int thumb, bzi_scratch *scratch, bzi_image *image,
                                  bzna_error *err)
{
    bzi_heif heif;
    bzi_heif_item item;
    bzi_span number = { NULL, 0 };
    uint32_t id;
    memset(image, 0, sizeof *image);
    image->has_range = 1;
    if (bzi_heif_read(&heif, bytes, offset, err) != BZNA_OK)
        return err->status;
    id = thumb ? bzi_heif_referrer(&heif, BZI_FOURCC('t', 'h', 'm', 'b'), heif.primary, &number) : heif.primary;
    if (thumb && !id)
        return bzi_container_fail_image("thumb", err);
    if (!id)
        return bzi_heif_sequence(bytes, offset, &scratch->movie, image, err);
    if (bzi_heif_find(&heif, id, &item, err) != BZNA_OK ||
        (item.type != BZI_GRID && bzi_heif_coded(&heif, &item, &image->coded, err) != BZNA_OK))
        return err->status;
    image->fourcc = item.type;
    image->beside = bzi_heif_beside(&heif);
    image->otherwise = bzi_color_of_archives;               /* ISO/IEC 23000-22 7.3.6.4 */
    image->data_offset = offset;
    if (!image->coded.data) {
        image->coded = (bzna_image){ .struct_size = sizeof image->coded, .codec = BZNA_CODEC_HEIF, .data = bytes.data,
                                     .data_size = bytes.size, .config = number.data, .config_size = number.size };
        return BZNA_OK;
    }
    memcpy(image->clap, item.clap, sizeof image->clap);
    image->config_offset = item.config_at;
    image->data_offset += (uint64_t)((const uint8_t *)image->coded.data - bytes.data);
    image->coded.crop_x = item.crop[0];
    image->coded.crop_y = item.crop[1];
    image->coded.width = item.crop[2];
    image->coded.height = item.crop[3];
    image->coded.orientation = item.orientation;
    return BZNA_OK;
}

/* --- A file by itself as a data set of one sample --- */

static int bzi_heif_row_probe(const uint8_t *head, uint64_t size) { return bzi_heif_probe((bzi_span){ head, size }); }

static const bzi_field bzi_heif_fields[] = { { BZNA_FIELD_PICTURE, 1, "image" }, { BZNA_FIELD_PICTURE, 1, "thumb" } };

static bzna_status bzi_heif_open(bzi_container *c, const bzna_dataset_config *config, bzna_error *err)
{
    (void)config, (void)err;
    c->count = 1;
    c->fields = bzi_heif_fields;
    c->field_count = sizeof bzi_heif_fields / sizeof bzi_heif_fields[0];
    return BZNA_OK;
}

static bzna_status bzi_heif_locate(const bzi_container *c, uint64_t index, bzi_extent *extent, bzna_error *err)
{
    (void)index, (void)err;
    *extent = (bzi_extent){ 0, c->source.size };
    return BZNA_OK;
}

static bzna_status bzi_heif_images(const bzi_container *c, const bzi_sample *sample, bzi_scratch *scratch,
                                   bzna_sample *out, bzna_error *err)
{
    bzi_heif heif;
    (void)c, (void)scratch;
    if (bzi_heif_read(&heif, (bzi_span){ sample->bytes, sample->extent.size }, 0, err) != BZNA_OK)
        return err->status;
    bzi_string_copy(out->image_names[out->image_count++], BZNA_NAME_MAX, "image");
    if (heif.primary && bzi_heif_referrer(&heif, BZI_FOURCC('t', 'h', 'm', 'b'), heif.primary, NULL))
        bzi_string_copy(out->image_names[out->image_count++], BZNA_NAME_MAX, "thumb");
    return BZNA_OK;
}

static bzna_status bzi_heif_row_image(const bzi_container *c, const bzi_sample *sample, const bzi_pick *pick,
                                      bzi_scratch *scratch, bzi_image *image, bzna_error *err)
{
    const int thumb = pick->name && !strcmp(pick->name, "thumb");
    (void)c;
    if (pick->name && !thumb && strcmp(pick->name, "image"))
        return bzi_container_fail_image(pick->name, err);
    return bzi_heif_image((bzi_span){ sample->bytes, sample->extent.size }, 0, thumb, scratch, image, err);
}

static uint64_t bzi_heif_fingerprint(const bzi_container *c, uint64_t hash)
{
    return bzi_hash(hash, &c->source.size, sizeof c->source.size);
}

static const bzi_container_ops bzi_heif_ops = {
    .name = "HEIF",
    .names_inside = 1,
    .still = 1,
    .probe = bzi_heif_row_probe,
    .open = bzi_heif_open,
    .locate = bzi_heif_locate,
    .images = bzi_heif_images,
    .image = bzi_heif_row_image,
    .fingerprint = bzi_heif_fingerprint
};

#endif

/* A picture that is a file, at offset in what holds it: what it is, its first bytes say. */
BZI_MAYBE_UNUSED static bzna_status bzi_file_image(bzi_span bytes, uint64_t offset, bzi_scratch *scratch,
                                                   bzi_image *image, bzna_error *err)
{
#ifndef BENZINA_NO_HEIF
    if (bzi_heif_probe(bytes))
        return bzi_heif_image(bytes, offset, 0, scratch, image, err);
#endif
    (void)scratch;
    return bzi_image_found(bytes, offset, image, err);
}


/* ==== 22. Containers: mp4 ============================================================================================
 * Calls: rooms 2, 4-7, 12, 17-20. Files are opened and indexed here. Archives, whose samples are small mp4 files of
 * their own, and plain videos whose first video track has only sync samples: each frame is then a sample. The movie box
 * stays where it lies (mapped, or read in one piece); a sample's own boxes are read when the sample is. Nothing is
 * allocated per sample, but for offsets where several samples share a chunk. */

typedef struct bzi_mp4 {
    bzi_buffer index;                 /* the movie box, when the source is not mapped */
    bzi_buffer targets;               /* likewise the targets, when they lie together */
    uint64_t   targets_at;
    uint64_t   trailing_bytes;        /* after the last box: too few for another */
    int32_t    input, target, filename;       /* track numbers, -1: there is none */
    uint64_t   turned_at;             /* as in bzi_movie */
    uint32_t   movie_orientation, orientation;      /* as there; of a video's frames */
    uint32_t   brand_count, brands[8];
    uint32_t   track_count;
    bzi_track *tracks;
    bzi_field  fields[4];             /* image, thumb, target, name; of those, what there is */
} bzi_mp4;

static bzi_track *bzi_mp4_track(const bzi_container *c, int32_t number)
{
    const bzi_mp4 *mp4 = c->own;
    return number < 0 ? NULL : &mp4->tracks[number];
}

static void bzi_mp4_close(bzi_container *c)
{
    const bzi_memory *memory = &c->host->memory;
    bzi_mp4 *mp4 = c->own;
    for (uint32_t i = 0; i < mp4->track_count; i++) {
        bzi_release(memory, mp4->tracks[i].table.offsets, mp4->tracks[i].table.sample_count,
                    sizeof *mp4->tracks[i].table.offsets);
        bzi_release(memory, mp4->tracks[i].table.own_sizes, mp4->tracks[i].table.sample_count, 4);
    }
    bzi_release(memory, mp4->tracks, mp4->track_count, sizeof *mp4->tracks);
    bzi_buffer_free(memory, &mp4->index);
    bzi_buffer_free(memory, &mp4->targets);
}

/* A file that begins with a box of a kind that files begin with. */
static int bzi_mp4_probe(const uint8_t *head, uint64_t size)
{
    static const uint32_t first[] = {
        BZI_FOURCC('f', 't', 'y', 'p'), BZI_FOURCC('m', 'd', 'a', 't'), BZI_MOOV,
        BZI_FOURCC('w', 'i', 'd', 'e'), BZI_FOURCC('f', 'r', 'e', 'e'), BZI_FOURCC('s', 'k', 'i', 'p')
    };
    for (size_t i = 0; size >= 8 && i < sizeof first / sizeof first[0]; i++)
        if (bzi_be32(head + 4) == first[i])
            return 1;
    return 0;
}

/* Reads what the rules name of one box at file level. */
static bzna_status bzi_mp4_read_box(const bzi_container *c, bzi_movie *movie, const bzi_box *box, bzi_buffer *buffer,
                                    bzna_error *err)
{
    const uint8_t *view = NULL;
    bzna_status status;
    if (!bzi_box_find(BZI_FILE, box->type))
        return BZNA_OK;
    if ((status = bzi_source_view(&c->source, &c->host->memory, buffer, box->at, box->size, &view, err)) != BZNA_OK)
        return status;
    return bzi_box_walk(movie, bzi_cursor_make(view, box->size, box->at), BZI_FILE, err);
}

/* The original tools write samples behind an mdat box of no content, and make it hold them when they index the file. */
static bzna_status bzi_mp4_check_indexed(bzi_movie *movie, const bzi_box *last, const bzi_box *box, bzna_error *err)
{
    if (last->type != BZI_FOURCC('m', 'd', 'a', 't') || last->size != 16 || last->header != 16 ||
        box->type != BZI_FOURCC('f', 't', 'y', 'p'))
        return BZNA_OK;
    movie->path[movie->depth++] = last->type;
    return bzi_box_fail(movie, err, BZNA_E_UNFINISHED, last->at,
                        "the archive was not indexed: the box is empty, and samples follow it. Index it with the tool "
                        "that wrote it, or pack its pictures again");
}

/* Walks the boxes of the file: what the rules do not name is skipped unread. index gets the bytes of the movie box. A
 * tail too short for a box is left alone. */
static bzna_status bzi_mp4_scan(const bzi_container *c, bzi_movie *movie, bzi_buffer *index, bzi_buffer *scratch,
                                bzna_error *err)
{
    const bzi_source *source = &c->source;
    bzna_status status = BZNA_OK;
    uint64_t at = 0;
    bzi_box box = { .at = 0 }, last;
    for (uint32_t n = 0; at < source->size && status == BZNA_OK; n++) {
        uint8_t header[16] = { 0 };
        if (n && source->size - at < 8)
            break;
        last = box;
        if (n == BZI_LIMIT_TOP_BOXES)
            return bzi_box_fail(movie, err, BZNA_E_LIMIT, at, "more than %u boxes at file level", n);
        if ((status = bzi_source_read(source, at, header, bzi_min(16, source->size - at), err)) != BZNA_OK)
            return status;
        if ((status = bzi_box_header(movie, header, source->size - at, at, &box, err)) != BZNA_OK ||
            (status = bzi_mp4_check_indexed(movie, &last, &box, err)) != BZNA_OK)
            return status;
        status = bzi_mp4_read_box(c, movie, &box, box.type == BZI_MOOV && !movie->has_moov ? index : scratch, err);
        at += box.size;
    }
    ((bzi_mp4 *)c->own)->trailing_bytes = source->size > at ? source->size - at : 0;
    if (status == BZNA_OK && !movie->has_moov)
        return bzi_fail(err, BZNA_E_TRUNCATED, source->size, 0, 0, "there is no moov box up to the end at byte %llu",
                        (unsigned long long)source->size);
    return status;
}

/* The movie box, into own. A movie has room for all tracks that a file may have; only those that there are stay. */
static bzna_status bzi_mp4_read(bzi_container *c, bzna_error *err)
{
    const bzi_memory *memory = &c->host->memory;
    bzi_movie movie;                  /* not in the heap, where thousands of files would leave as many holes */
    bzi_mp4 *mp4 = c->own;
    bzi_buffer scratch = { NULL, 0 };
    bzna_status status;
    memset(&movie, 0, sizeof movie);
    status = bzi_mp4_scan(c, &movie, &mp4->index, &scratch, err);
    bzi_buffer_free(memory, &scratch);
    if (status == BZNA_OK &&
        !(mp4->tracks = bzi_alloc_copy(memory, movie.tracks, movie.track_count, sizeof *movie.tracks)))
        status = bzi_fail_memory(err, "the tracks of a data set");
    if (status == BZNA_OK) {
        mp4->track_count = movie.track_count;
        mp4->turned_at = movie.turned_at;
        mp4->movie_orientation = movie.orientation;
        mp4->brand_count = movie.brand_count;
        memcpy(mp4->brands, movie.brands, sizeof mp4->brands);
    }
    return status;
}

/* The first track of that name, or, without one, the first video track. -1: there is none. */
static int32_t bzi_track_find(const bzi_track *tracks, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (name ? !strcmp(tracks[i].name, name) : tracks[i].handler == BZI_FOURCC('v', 'i', 'd', 'e'))
            return (int32_t)i;
    return -1;
}

/* A track of the whole archive, or its variant for a split: "bzna_input", "bzna_input_train". */
static int32_t bzi_mp4_find(const bzi_mp4 *mp4, const char *name, const char *split)
{
    char variant[BZNA_NAME_MAX];
    snprintf(variant, sizeof variant, "%s%s%.12s", name, split ? "_" : "", split ? split : "");
    return bzi_track_find(mp4->tracks, mp4->track_count, variant);
}

/* A fragmented track: its samples in moov, then those of its fragments, are written out as one list. */
static bzna_status bzi_mp4_index_fragments(bzi_container *c, bzi_track *track, uint32_t number, bzna_error *err)
{
    const bzi_memory *memory = &c->host->memory;
    const bzi_mp4 *mp4 = c->own;
    bzi_table *table = &track->table;
    const uint32_t in_moov = table->sample_count, count = in_moov + track->fragment_samples;
    bzi_fragment_sink sink = { .at = in_moov, .count = count };
    bzi_buffer index = { NULL, 0 }, scratch = { NULL, 0 };
    bzi_movie movie;
    bzna_status status = BZNA_OK;
    if (count > c->source.size)
        return BZI_FAIL(err, BZNA_E_BOX, "moov/trak[%u] \"%s\": %u samples do not fit the file", number, track->name,
                        count);
    sink.offsets = bzi_alloc(memory, count, sizeof *sink.offsets, 16);
    sink.sizes = bzi_alloc_zero(memory, count, 4);
    if (!sink.offsets || !sink.sizes)
        status = bzi_fail_memory(err, "the sample index");
    for (uint32_t i = 0; i < in_moov && status == BZNA_OK; i++) {
        for (int k = 0; k < 4; k++)
            sink.sizes[4 * (uint64_t)i + (uint32_t)k] = (uint8_t)(bzi_table_size(table, i) >> (24 - 8 * k));
        sink.offsets[i] = bzi_table_is_plain(table) ? bzi_table_chunk(table, i) : 0;
    }
    if (status == BZNA_OK && in_moov && !bzi_table_is_plain(table))
        status = bzi_table_expand(table, number, sink.offsets, err);
    memset(&movie, 0, sizeof movie);
    movie.sink = &sink;
    sink.track = &movie.tracks[number];
    if (status == BZNA_OK)
        status = bzi_mp4_scan(c, &movie, &index, &scratch, err);
    if (status == BZNA_OK && sink.at != count)
        status = BZI_FAIL(err, BZNA_E_IO, "moov/trak[%u] \"%s\": its fragments have changed", number, track->name);
    bzi_buffer_free(memory, &index);
    bzi_buffer_free(memory, &scratch);
    if (status != BZNA_OK || mp4->track_count != movie.track_count) {
        bzi_release(memory, sink.offsets, count, sizeof *sink.offsets);
        bzi_release(memory, sink.sizes, count, 4);
        return status == BZNA_OK ? BZI_FAIL(err, BZNA_E_IO, "the moov box has changed") : status;
    }
    table->offsets = sink.offsets;
    table->sizes = table->own_sizes = sink.sizes;
    table->size_bits = 32;
    table->sample_count = count;
    return BZNA_OK;
}

/* Only tables that are not one sample a chunk are written out; archives never need it. */
static bzna_status bzi_mp4_index_track(bzi_container *c, int32_t number, bzna_error *err)
{
    bzi_track *track = bzi_mp4_track(c, number);
    bzi_table *table;
    uint64_t bytes;
    bzna_status status;
    if (!track)
        return BZNA_OK;
    table = &track->table;
    if ((status = bzi_table_check(track, (uint32_t)number, err)) != BZNA_OK ||
        ((table->sample_count == 0 || bzi_table_is_plain(table)) && !track->fragment_samples))
        return status;
    if (!table->sizes && (!bzi_mul(table->common_size, table->sample_count, &bytes) || bytes > c->source.size))
        return bzi_fail(err, BZNA_E_BOX, table->sizes_at, BZI_FOURCC('s', 't', 's', 'z'), 0,
                        "moov/trak[%d]/mdia/minf/stbl/stsz at byte %llu: %u samples of %u bytes do not fit the file",
                        (int)number, (unsigned long long)table->sizes_at, table->sample_count, table->common_size);
    if (track->fragment_samples)
        return bzi_mp4_index_fragments(c, track, (uint32_t)number, err);
    table->offsets = bzi_alloc(&c->host->memory, table->sample_count, sizeof *table->offsets, 16);
    if (!table->offsets)
        return bzi_fail_memory(err, "the sample index");
    return bzi_table_expand(table, (uint32_t)number, table->offsets, err);
}

/* Without a map, one read for all targets when they lie together, as archives have them. */
static bzna_status bzi_mp4_load_targets(bzi_container *c, bzna_error *err)
{
    bzi_mp4 *mp4 = c->own;
    const bzi_track *track = bzi_mp4_track(c, mp4->target);
    uint64_t first = UINT64_MAX, last = 0, count = track ? track->table.sample_count : 0;
    c->target_count = count;
    if (c->source.map || !count)
        return BZNA_OK;
    for (uint32_t i = 0; i < count; i++) {
        bzi_extent e;
        if (bzi_table_entry(&track->table, i, c->source.size, &e.offset, &e.size, err) != BZNA_OK)
            return BZNA_OK;                                 /* its sample will say so */
        first = bzi_min(first, e.offset);
        last = e.offset + e.size > last ? e.offset + e.size : last;
    }
    if (last - first > count * 8 + 4096)
        return BZNA_OK;
    if (!bzi_buffer_reserve(&c->host->memory, &mp4->targets, last - first, 0))
        return bzi_fail_memory(err, "the targets");
    mp4->targets_at = first;
    return bzi_source_read(&c->source, first, mp4->targets.data, last - first, err);
}

/* What both kinds of mp4 need of their tracks. Pre: input is a track. */
static bzna_status bzi_mp4_index(bzi_container *c, const char *split, bzna_error *err)
{
    bzi_mp4 *mp4 = c->own;
    const bzi_track *input = bzi_mp4_track(c, mp4->input);
    bzna_status status;
    mp4->target = bzi_mp4_find(mp4, "bzna_target", split);
    mp4->filename = bzi_mp4_find(mp4, "bzna_fname", split);
    if (input->table.sample_count + input->fragment_samples == 0)
        return BZI_FAIL(err, BZNA_E_NO_SAMPLES, "moov/trak[%d] \"%s\" has no samples", (int)mp4->input, input->name);
    if ((status = bzi_mp4_index_track(c, mp4->input, err)) != BZNA_OK ||
        (status = bzi_mp4_index_track(c, mp4->target, err)) != BZNA_OK ||
        (status = bzi_mp4_index_track(c, mp4->filename, err)) != BZNA_OK)
        return status;
    c->count = input->table.sample_count;
    bzi_container_add_field(c, mp4->fields, BZNA_FIELD_PICTURE, 1, "image");
    if (c->ops->names_inside)
        bzi_container_add_field(c, mp4->fields, BZNA_FIELD_PICTURE, 1, "thumb");
    if (mp4->target >= 0) {
        c->target_field = c->field_count;
        bzi_container_add_field(c, mp4->fields, BZNA_FIELD_INTEGER, 0, "target");
    }
    if (mp4->filename >= 0)
        bzi_container_add_field(c, mp4->fields, BZNA_FIELD_TEXT, 0, "name");
    return bzi_mp4_load_targets(c, err);
}

/* An archive's bzna_input track holds files; a track of that name that holds video is a sample of an archive, by
 * itself. */
static bzna_status bzi_mp4_open_archive(bzi_container *c, const bzna_dataset_config *config, bzna_error *err)
{
    const char *split = config->split;
    bzi_mp4 *mp4 = c->own;
    bzna_status status = bzi_mp4_read(c, err);
    if (status != BZNA_OK)
        return status;
    mp4->input = bzi_mp4_find(mp4, "bzna_input", split);
    if (mp4->input < 0 && split)
        return BZI_FAIL(err, BZNA_E_NOT_FOUND, "dataset_config.split: moov has no track \"bzna_input_%s\"", split);
    if (mp4->input < 0 || bzi_mp4_track(c, mp4->input)->handler == BZI_FOURCC('v', 'i', 'd', 'e'))
        return BZNA_AGAIN;
    return bzi_mp4_index(c, split, err);
}

/* What is met in mp4 files, and has no row in the table of codecs. */
static const char *bzi_mp4_codec_name(uint32_t entry)
{
    static const struct { const char *entry, *name; } known[] = {
        { "mp4v", "MPEG-4 Visual" }, { "vp08", "VP8" }, { "vp09", "VP9" }, { "vvc1", "H.266" }, { "vvi1", "H.266" },
        { "apch", "ProRes" }, { "apcn", "ProRes" }, { "apcs", "ProRes" }, { "apco", "ProRes" }, { "ap4h", "ProRes" },
        { "ap4x", "ProRes" }, { "AVdn", "DNxHD" }, { "AVdh", "DNxHR" }, 
        { "mjpa", "Motion JPEG" }, { "mjpb", "Motion JPEG" }, { "mjp2", "JPEG 2000" }, { "png ", "PNG" },
        { "s263", "H.263" }, { "dvh1", "Dolby Vision" }, { "dvhe", "Dolby Vision" }, { "encv", "encrypted" },
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (bzi_be32((const uint8_t *)known[i].entry) == entry)
            return known[i].name;
    return "an unknown codec";
}

/* A video of a codec that nothing here decodes is refused as a whole. */
static bzna_status bzi_mp4_check_codec(const bzi_track *track, int32_t number, bzna_error *err)
{
    char type[5];
    if (bzi_codec_of_entry(track->format) || track->table.sample_count + track->fragment_samples == 0)
        return BZNA_OK;
    bzi_fourcc_text(track->format, type);
    return bzi_fail(err, BZNA_E_CODEC, BZNA_NO_OFFSET, track->format, 0,
                    "moov/trak[%d]/mdia/minf/stbl/stsd: its frames are coded as '%s' (%s), which is not decoded",
                    (int)number, type, bzi_mp4_codec_name(track->format));
}

/* The movie is read by the archive's row, which has its turn first unless the format was named. */
static bzna_status bzi_mp4_open_video(bzi_container *c, const bzna_dataset_config *config, bzna_error *err)
{
    bzi_mp4 *mp4 = c->own;
    const bzi_track *input;
    bzna_status status = mp4->tracks ? BZNA_AGAIN : bzi_mp4_open_archive(c, config, err);
    if (status == BZNA_OK)
        return BZI_FAIL(err, BZNA_E_FORMAT, "dataset_config.format: it is an archive, no mp4 video");
    if (status != BZNA_AGAIN)
        return status;
    if (mp4->input < 0)
        mp4->input = bzi_track_find(mp4->tracks, mp4->track_count, NULL);
    if (mp4->input < 0)
        return BZI_FAIL(err, BZNA_E_NO_SAMPLES, "moov has neither a bzna_input nor a video track");
    input = bzi_mp4_track(c, mp4->input);
    if ((status = bzi_mp4_check_codec(input, mp4->input, err)) != BZNA_OK)
        return status;
    if (input->fragments_depend || (input->has_sync && input->sync_count < input->table.sample_count))
        return BZI_FAIL(err, BZNA_E_UNSUPPORTED,
                        "moov/trak[%d]%s: not every frame of the video stands alone", (int)mp4->input,
                        input->fragments_depend ? ", its fragments" : "/mdia/minf/stbl/stss");
    if ((status = bzi_track_orientation(input, (uint32_t)mp4->input, mp4->turned_at, mp4->movie_orientation,
                                        &mp4->orientation, err)) != BZNA_OK)
        return status;
    return bzi_mp4_index(c, config->split, err);
}


/* ==== 23. Containers: mp4, samples ===================================================================================
 * Calls: rooms 2, 4-7, 12, 17-20, 22. */

static bzna_status bzi_mp4_locate(const bzi_container *c, uint64_t index, bzi_extent *extent, bzna_error *err)
{
    const bzi_mp4 *mp4 = c->own;
    return bzi_table_entry(&mp4->tracks[mp4->input].table, (uint32_t)index, c->source.size, &extent->offset,
                           &extent->size, err);
}

static bzna_status bzi_mp4_target(const bzi_container *c, uint64_t index, bzi_value *value, bzna_error *err)
{
    const bzi_mp4 *mp4 = c->own;
    const bzi_table *table;
    uint64_t offset, size;
    int64_t target;
    uint8_t bytes[8];
    bzna_status status;
    value->absent = index >= c->target_count; /* the packer stops at the first sample without a target */
    if (value->absent)
        return BZNA_OK;
    table = &bzi_mp4_track(c, mp4->target)->table;
    if ((status = bzi_table_entry(table, (uint32_t)index, c->source.size, &offset, &size, err)) != BZNA_OK)
        return status;
    if (size != 8)
        return bzi_fail(err, BZNA_E_BOX, table->sizes_at, BZI_FOURCC('s', 't', 's', 'z'), 0,
                        "its target has %llu bytes, not 8", (unsigned long long)size);
    if (c->source.map)
        memcpy(bytes, c->source.map + offset, 8);
    else if (mp4->targets.data && offset >= mp4->targets_at && offset + 8 - mp4->targets_at <= mp4->targets.capacity)
        memcpy(bytes, mp4->targets.data + (offset - mp4->targets_at), 8);
    else if ((status = bzi_source_read(&c->source, offset, bytes, 8, err)) != BZNA_OK)
        return status;
    target = (int64_t)bzi_le64(bytes);
    value->absent = target == BZNA_TARGET_NONE;
    bzi_value_put(value, &target, sizeof target);
    return BZNA_OK;
}

static bzna_status bzi_mp4_filename(const bzi_container *c, uint64_t index, bzi_value *value, bzna_error *err)
{
    const bzi_track *track = bzi_mp4_track(c, ((const bzi_mp4 *)c->own)->filename);
    bzi_buffer scratch = { NULL, 0 };
    const uint8_t *view = NULL, *nul;
    uint64_t offset, size;
    uint8_t room[256];                /* most names need no memory */
    bzna_status status;
    value->absent = !track || index >= track->table.sample_count;
    if (value->absent)
        return BZNA_OK;
    if ((status = bzi_table_entry(&track->table, (uint32_t)index, c->source.size, &offset, &size, err)) != BZNA_OK)
        return status;
    size = bzi_min(size, BZI_LIMIT_NAME_BYTES);
    if (!c->source.map && size <= sizeof room)
        status = bzi_source_read(&c->source, offset, room, size, err);
    else
        status = bzi_source_view(&c->source, &c->host->memory, &scratch, offset, size, &view, err);
    if (status == BZNA_OK) {
        view = view ? view : room;
        nul = size ? memchr(view, 0, (size_t)size) : NULL;
        bzi_value_put(value, view, nul ? (uint64_t)(nul - view) : size);
    }
    bzi_buffer_free(&c->host->memory, &scratch);
    return status;
}

static int bzi_track_is_picture(const bzi_track *track)
{
    return track->handler == BZI_FOURCC('v', 'i', 'd', 'e') && track->table.sample_count > 0;
}

/* Reads the boxes of a sample of an archive. */
static bzna_status bzi_mp4_parse(const bzi_sample *sample, bzi_movie *movie, bzna_error *err)
{
    const bzi_extent *e = &sample->extent;
    bzna_status status;
    bzi_movie_reset(movie);
    status = bzi_box_walk(movie, bzi_cursor_make(sample->bytes, e->size, e->offset), BZI_FILE, err);
    if (status == BZNA_OK && !movie->has_moov)
        status = bzi_fail(err, BZNA_E_BOX, e->offset, BZI_MOOV, 0, "no moov box in its %llu bytes at byte %llu",
                          (unsigned long long)e->size, (unsigned long long)e->offset);
    return status;
}

/* The track of a field; a name that is no field is a track's own. */
static const char *bzi_mp4_track_of_field(const char *name)
{
    return strcmp(name, "image") == 0 ? "bzna_input" : strcmp(name, "thumb") == 0 ? "bzna_thumb" : name;
}

/* The track asked for; without a name, the thumbnail before the picture before any other video track. -1: there is
 * none. */
static int32_t bzi_mp4_choose(const bzi_movie *movie, const bzi_pick *pick)
{
    static const char *const preferred[] = { "bzna_thumb", "bzna_input", NULL };
    const char *const named = pick->name ? bzi_mp4_track_of_field(pick->name) : NULL;
    for (size_t i = pick->whole; i < (named ? pick->whole + 1 : 3); i++) {
        int32_t track = bzi_track_find(movie->tracks, movie->track_count, named ? named : preferred[i]);
        if (track >= 0 && bzi_track_is_picture(&movie->tracks[track]))
            return track;
    }
    return -1;
}

/* One picture: what its track says, and where in the sample its access unit lies. */
static bzna_status bzi_mp4_picture(const bzi_track *track, const bzi_sample *sample, const bzi_extent *unit,
                                   bzi_image *image, bzna_error *err)
{
    bzna_status status = bzi_track_image(track, image, err);
    if (status != BZNA_OK)
        return status;
    if (unit->size == 0)
        return BZI_FAIL(err, BZNA_E_BOX, "track \"%s\": its access unit has no bytes", track->name);
    image->coded.config = track->config.data;
    image->coded.data = sample->bytes + unit->offset;
    image->coded.data_size = unit->size;
    image->data_offset = sample->extent.offset + unit->offset;
    return BZNA_OK;
}

static bzna_status bzi_mp4_archive_image(const bzi_container *c, const bzi_sample *sample, const bzi_pick *pick,
                                         bzi_scratch *scratch, bzi_image *image, bzna_error *err)
{
    bzi_movie *movie = &scratch->movie;
    const bzi_track *track;
    bzi_extent unit;
    int32_t number;
    uint32_t orientation;
    bzna_status status = bzi_mp4_parse(sample, movie, err);
    (void)c;
    if (status != BZNA_OK)
        return status;
    if ((number = bzi_mp4_choose(movie, pick)) < 0)
        return bzi_container_fail_image(pick->name, err);
    track = &movie->tracks[number];
    if ((status = bzi_track_orientation(track, (uint32_t)number, movie->turned_at, movie->orientation, &orientation,
                                        err)) != BZNA_OK)
        return status;
    if (!track->table.chunk_bytes || !track->table.chunk_count)
        return BZI_FAIL(err, BZNA_E_BOX, "track \"%s\" has a sample but no stco or co64 entry", track->name);
    if ((status = bzi_table_entry(&track->table, 0, sample->extent.size, &unit.offset, &unit.size, err)) != BZNA_OK ||
        (status = bzi_mp4_picture(track, sample, &unit, image, err)) != BZNA_OK)
        return status;
    image->otherwise = bzi_color_of_archives;
    image->coded.orientation = orientation;
    return BZNA_OK;
}

static bzna_status bzi_mp4_archive_images(const bzi_container *c, const bzi_sample *sample, bzi_scratch *scratch,
                                          bzna_sample *out, bzna_error *err)
{
    const bzi_movie *movie = &scratch->movie;
    bzna_status status = bzi_mp4_parse(sample, &scratch->movie, err);
    (void)c;
    if (status != BZNA_OK)
        return status;
    for (uint32_t i = 0; i < movie->track_count && out->image_count < BZNA_IMAGES_MAX; i++)
        if (bzi_track_is_picture(&movie->tracks[i]))
            bzi_string_copy(out->image_names[out->image_count++], BZNA_NAME_MAX, movie->tracks[i].name);
    return BZNA_OK;
}

static bzna_status bzi_mp4_video_image(const bzi_container *c, const bzi_sample *sample, const bzi_pick *pick,
                                       bzi_scratch *scratch, bzi_image *image, bzna_error *err)
{
    const bzi_track *track = bzi_mp4_track(c, ((const bzi_mp4 *)c->own)->input);
    bzi_extent unit = { 0, sample->extent.size };
    bzna_status status;
    (void)scratch;
    if (pick->name && strcmp(pick->name, "image") != 0 && strcmp(pick->name, track->name) != 0)
        return bzi_container_fail_image(pick->name, err);
    if ((status = bzi_mp4_picture(track, sample, &unit, image, err)) == BZNA_OK)
        image->coded.orientation = ((const bzi_mp4 *)c->own)->orientation;
    if (status == BZNA_OK)
        image->otherwise = strncmp(track->name, "bzna_", 5) ? bzi_color_of_codecs : bzi_color_of_archives;
    return status;
}

static bzna_status bzi_mp4_video_images(const bzi_container *c, const bzi_sample *sample, bzi_scratch *scratch,
                                        bzna_sample *out, bzna_error *err)
{
    (void)sample;
    (void)scratch;
    (void)err;
    bzi_string_copy(out->image_names[out->image_count++], BZNA_NAME_MAX,
                    bzi_mp4_track(c, ((const bzi_mp4 *)c->own)->input)->name);
    return BZNA_OK;
}

/* Tells files apart: sizes, and the index entries at both ends. */
static uint64_t bzi_mp4_fingerprint(const bzi_container *c, uint64_t hash)
{
    const bzi_mp4 *mp4 = c->own;
    const bzi_table *table = &mp4->tracks[mp4->input].table;
    uint64_t words[2];
    bzna_error ignored;
    words[0] = c->source.size;
    words[1] = c->count;
    hash = bzi_hash(hash, words, sizeof words);
    for (uint64_t i = 0; i < c->count; i += i == 63 && c->count > 128 ? c->count - 127 : 1) {
        bzi_table_entry(table, (uint32_t)i, UINT64_MAX, &words[0], &words[1], &ignored);
        hash = bzi_hash(hash, words, sizeof words);
    }
    return hash;
}

static void bzi_mp4_describe(const bzi_container *c, bzna_dataset_info *info)
{
    const bzi_mp4 *mp4 = c->own;
    info->track_count = mp4->track_count;
    info->trailing_bytes = mp4->trailing_bytes;
    info->brand_count = mp4->brand_count;
    memcpy(info->brands, mp4->brands, sizeof info->brands);
}

static bzna_status bzi_mp4_field(const bzi_container *c, const bzi_sample *sample, uint32_t number, bzi_value *value,
                                 bzna_error *err)
{
    return c->fields[number].kind == BZNA_FIELD_TEXT ? bzi_mp4_filename(c, sample->index, value, err) :
                                                       bzi_mp4_target(c, sample->index, value, err);
}

static bzna_status bzi_mp4_describe_track(const bzi_container *c, uint32_t number, bzna_track_info *info)
{
    const bzi_mp4 *mp4 = c->own;
    const bzi_track *track;
    if (number >= mp4->track_count)
        return BZNA_E_RANGE;
    track = &mp4->tracks[number];
    info->handler = track->handler;
    info->format = track->format;
    info->flags = track->flags;
    info->sample_count = track->table.sample_count;
    memcpy(info->name, track->name, sizeof info->name);
    memcpy(info->mime, track->mime, sizeof info->mime);
    return BZNA_OK;
}

static const bzi_container_ops bzi_mp4_archive = {
    .name = "archive",
    .own_bytes = sizeof(bzi_mp4),
    .names_inside = 1,
    .probe = bzi_mp4_probe,
    .open = bzi_mp4_open_archive,
    .locate = bzi_mp4_locate,
    .field = bzi_mp4_field,
    .images = bzi_mp4_archive_images,
    .image = bzi_mp4_archive_image,
    .fingerprint = bzi_mp4_fingerprint,
    .describe = bzi_mp4_describe,
    .track = bzi_mp4_describe_track,
    .close = bzi_mp4_close
};

static const bzi_container_ops bzi_mp4_video = {
    .name = "mp4 video",
    .own_bytes = sizeof(bzi_mp4),
    .probe = bzi_mp4_probe,
    .open = bzi_mp4_open_video,
    .locate = bzi_mp4_locate,
    .field = bzi_mp4_field,
    .images = bzi_mp4_video_images,
    .image = bzi_mp4_video_image,
    .fingerprint = bzi_mp4_fingerprint,
    .describe = bzi_mp4_describe,
    .track = bzi_mp4_describe_track,
    .close = bzi_mp4_close
};


/* ==== 24. Lists ======================================================================================================
 * Calls: rooms 2, 4-7. Text that lists samples, one a line: index, labels and path with tabs between them (MXNet's
 * .lst), or path and labels with commas (.csv; the first line may be a header, and a path with commas stands in
 * quotes). Which of them it is, the first line says. The text is kept, since paths lie in it; a line costs 32 bytes
 * more, and 4 a label. */

typedef struct bzi_list_row {
    uint64_t index;                   /* as the line says; of a .csv, its row, from 0 */
    uint64_t path_at;                 /* in the text */
    uint64_t label_at;                /* in labels */
    uint32_t path_size, label_count;
} bzi_list_row;

typedef struct bzi_list {
    uint8_t      *text;
    uint64_t      size;
    bzi_list_row *rows;               /* in the order of lines, until bzi_list_sort; NULL while they are counted */
    uint64_t      count, row_room;
    float        *labels;
    uint64_t      label_count, label_room;
    uint8_t       separator;          /* of fields */
} bzi_list;

/* --- Numbers, whatever the process's locale is --- */

static bzi_span bzi_span_trim(bzi_span s)
{
    while (s.size && bzi_is_space(s.data[0])) {
        s.data++;
        s.size--;
    }
    while (s.size && bzi_is_space(s.data[s.size - 1]))
        s.size--;
    return s;
}

/* Digits alone. */
static int bzi_span_integer(bzi_span s, uint64_t *out)
{
    uint64_t value = 0;
    for (uint64_t i = 0; i < s.size; i++)
        if (s.data[i] < '0' || s.data[i] > '9' || !bzi_mul(value, 10, &value) ||
            !bzi_add(value, (uint64_t)(s.data[i] - '0'), &value))
            return 0;
    *out = value;
    return s.size > 0;
}

/* Digits, with a sign or without, between blanks. */
BZI_MAYBE_UNUSED static int bzi_span_signed(bzi_span s, int64_t *out)
{
    uint64_t value;
    int minus;
    s = bzi_span_trim(s);
    minus = s.size && *s.data == '-';
    if (minus || (s.size && *s.data == '+')) {
        s.data++;
        s.size--;
    }
    if (!bzi_span_integer(s, &value) || value > (uint64_t)INT64_MAX + (uint64_t)minus)
        return 0;
    *out = minus && value ? -(int64_t)(value - 1) - 1 : (int64_t)value;
    return 1;
}

/* x * 10^exponent. */
static double bzi_scale_10(double x, int64_t exponent)
{
    double power = 1, base = 10;
    uint64_t n = (uint64_t)(exponent < 0 ? -exponent : exponent);
    for (n = bzi_min(n, 400); n > 22; n -= 22) /* a double holds 10^22 exactly */
        x = exponent < 0 ? x / 1e22 : x * 1e22;
    for (; n; n >>= 1, base *= base)
        power *= n & 1 ? base : 1;
    return exponent < 0 ? x / power : x * power;
}

/* The digits of a decimal number, with a point: 19 of them count, more than a double holds. */
static int bzi_span_digits(bzi_cursor *c, double *value)
{
    uint64_t mantissa = 0, digits = 0;
    int64_t exponent = 0;
    int point = 0;
    for (; bzi_cursor_left(c); c->pos++) {
        uint8_t d = c->data[c->pos];
        if (d == '.' && !point) {
            point = 1;
            continue;
        }
        if (d < '0' || d > '9')
            break;
        digits++;
        exponent -= point && mantissa < UINT64_MAX / 100;
        exponent += !point && mantissa >= UINT64_MAX / 100;
        if (mantissa < UINT64_MAX / 100)
            mantissa = mantissa * 10 + (uint64_t)(d - '0');
    }
    *value = bzi_scale_10((double)mantissa, exponent);
    return digits > 0;
}

/* A decimal number that a float32 can hold: no "nan", no "inf". */
static int bzi_span_number(bzi_span s, float *out)
{
    bzi_cursor c;
    uint64_t exponent = 0;
    double value;
    int minus = 0, minus_exponent = 0;
    s = bzi_span_trim(s);
    c = bzi_cursor_make(s.data, s.size, 0);
    if (s.size && (*s.data == '-' || *s.data == '+'))
        minus = bzi_cursor_u8(&c) == '-';
    if (!bzi_span_digits(&c, &value))
        return 0;
    if (bzi_cursor_left(&c)) {
        bzi_span rest;
        if ((bzi_cursor_u8(&c) | 32) != 'e')
            return 0;
        if (bzi_cursor_left(&c) && (c.data[c.pos] == '-' || c.data[c.pos] == '+'))
            minus_exponent = bzi_cursor_u8(&c) == '-';
        rest.data = c.data + c.pos;
        rest.size = bzi_cursor_left(&c);
        if (!bzi_span_integer(rest, &exponent))
            return 0;
        exponent = bzi_min(exponent, 400);
        value = bzi_scale_10(value, minus_exponent ? -(int64_t)exponent : (int64_t)exponent);
    }
    if (!(value <= (double)FLT_MAX))
        return 0;
    *out = (float)(minus ? -value : value);
    return 1;
}

/* A label that is one number, and an integer, is a target, too. Returns 0 where it is not. */
static int bzi_label_target(const float *labels, uint64_t count, int64_t *target)
{
    if (count != 1 || !(fabsf(labels[0]) < 9e18f) || truncf(labels[0]) != labels[0])
        return 0;
    *target = (int64_t)labels[0];
    return *target != BZNA_TARGET_NONE;
}

/* --- Lines --- */

/* A line, and where it stands. */
typedef struct bzi_list_line {
    bzi_span text;
    uint64_t at, number;              /* in the file; from 1 */
    bzi_span index, labels, path;     /* its parts */
} bzi_list_line;

static bzna_status bzi_list_fail(const bzi_list_line *line, const char *what, bzi_span text, bzna_error *err)
{
    char shown[32];
    bzi_text_copy(shown, sizeof shown, text.data, text.size);
    bzi_text_printable(shown);
    return bzi_fail(err, BZNA_E_FORMAT, line->at, 0, 0, "line %llu at byte %llu: %s%s%s%s",
                    (unsigned long long)line->number, (unsigned long long)line->at, what, text.size ? ": \"" : "",
                    shown, text.size ? "\"" : "");
}

static bzi_span bzi_span_between(const uint8_t *from, const uint8_t *to)
{
    bzi_span s = { from, from < to ? (uint64_t)(to - from) : 0 };
    return s;
}

/* index TAB labels TAB path: the first field, the last, and what is between. */
static const char *bzi_list_split_tabs(bzi_list_line *line)
{
    const uint8_t *begin = line->text.data, *end = begin + line->text.size, *last = end;
    const uint8_t *first = memchr(begin, '\t', (size_t)line->text.size);
    if (!first)
        return "no tab";
    while (*--last != '\t')
        continue;
    line->index = bzi_span_between(begin, first);
    line->labels = bzi_span_between(first + 1, last);
    line->path = bzi_span_between(last + 1, end);
    return NULL;
}

/* path,labels: or "path",labels. */
static const char *bzi_list_split_commas(bzi_list_line *line)
{
    const uint8_t *begin = line->text.data, *end = begin + line->text.size, *stop;
    const int quoted = *begin == '"';
    begin += quoted;
    stop = memchr(begin, quoted ? '"' : ',', (size_t)(end - begin));
    if (quoted && !stop)
        return "a quote without its end";
    if (!stop)
        return "neither a tab nor a comma";
    line->path = bzi_span_between(begin, stop);
    stop += quoted;
    if (stop == end || *stop != ',')
        return "no comma after the path";
    line->labels = bzi_span_between(stop + 1, end);
    return NULL;
}

/* Reads the labels, and keeps them unless rows are still counted. */
static const char *bzi_list_labels(bzi_list *list, const bzi_list_line *line, uint64_t *count)
{
    const uint8_t *at = line->labels.data, *end = at + line->labels.size;
    *count = 0;
    while (at < end) {
        const uint8_t *stop = memchr(at, list->separator, (size_t)(end - at));
        float label;
        stop = stop ? stop : end;
        if (!bzi_span_number(bzi_span_between(at, stop), &label))
            return "a label is no number that a float32 holds";
        if (list->label_count + *count < list->label_room)  /* there is none for numbers in a header */
            list->labels[list->label_count + *count] = label;
        ++*count;
        at = stop + 1;
    }
    return NULL;
}

static bzna_status bzi_list_take(bzi_list *list, bzi_list_line *line, bzna_error *err)
{
    const int tabs = list->separator == '\t';
    uint64_t index = list->count, labels;
    const char *fault = tabs ? bzi_list_split_tabs(line) : bzi_list_split_commas(line);
    if (fault)
        return bzi_list_fail(line, fault, line->text, err);
    if (tabs && !bzi_span_integer(bzi_span_trim(line->index), &index))
        return bzi_list_fail(line, "the index is no whole number", line->index, err);
    fault = bzi_list_labels(list, line, &labels);
    if (fault && !tabs && line->number == 1)
        return BZNA_OK;                                     /* a header */
    if (fault)
        return bzi_list_fail(line, fault, line->labels, err);
    if (line->path.size == 0 || line->path.size >= BZI_LIMIT_PATH_BYTES || labels > UINT32_MAX)
        return bzi_list_fail(line, "the path is empty or too long", line->path, err);
    if (list->rows) {
        bzi_list_row row = { index, (uint64_t)(line->path.data - list->text), list->label_count,
                             (uint32_t)line->path.size, (uint32_t)labels };
        list->rows[list->count] = row;
    }
    list->count++;
    list->label_count += labels;
    return BZNA_OK;
}

/* All lines: they are counted first, then kept. */
static bzna_status bzi_list_walk(bzi_list *list, bzna_error *err)
{
    const uint64_t bom = list->size >= 3 && !memcmp(list->text, "\xef\xbb\xbf", 3) ? 3 : 0;
    bzi_list_line line = { { NULL, 0 }, bom, 0, { NULL, 0 }, { NULL, 0 }, { NULL, 0 } };
    bzna_status status = BZNA_OK;
    list->count = list->label_count = 0;
    while (line.at < list->size && status == BZNA_OK) {
        const uint8_t *begin = list->text + line.at, *end = list->text + list->size;
        const uint8_t *stop = memchr(begin, '\n', (size_t)(end - begin));
        const uint8_t *text_end = stop ? stop : end;
        text_end -= text_end > begin && text_end[-1] == '\r';
        line.text = bzi_span_between(begin, text_end);
        line.number++;
        if (line.text.size && !list->separator)
            list->separator = memchr(begin, '\t', (size_t)line.text.size) ? '\t' : ',';
        status = line.text.size ? bzi_list_take(list, &line, err) : BZNA_OK;
        line.at = (uint64_t)((stop ? stop + 1 : end) - list->text);
    }
    return status;
}

/* --- A list --- */

static void bzi_list_close(bzi_list *list, const bzi_memory *memory)
{
    bzi_release(memory, list->text, list->size, 1);
    bzi_release(memory, list->rows, list->row_room, sizeof *list->rows);
    bzi_release(memory, list->labels, list->label_room, sizeof *list->labels);
    memset(list, 0, sizeof *list);
}

/* Reads the rows of the text. */
static bzna_status bzi_list_parse(bzi_list *list, const bzi_memory *memory, bzna_error *err)
{
    const uint8_t *zero = list->size ? memchr(list->text, 0, (size_t)list->size) : NULL;
    bzna_status status;
    if (zero)
        return bzi_fail(err, BZNA_E_FORMAT, (uint64_t)(zero - list->text), 0, 0, "it is no text: byte %llu is zero",
                        (unsigned long long)(zero - list->text));
    if ((status = bzi_list_walk(list, err)) != BZNA_OK)
        return status;
    if (list->count == 0)
        return BZI_FAIL(err, BZNA_E_NO_SAMPLES, "the list has no lines");
    list->rows = bzi_alloc(memory, list->count, sizeof *list->rows, 16);
    list->row_room = list->rows ? list->count : 0;
    list->labels = bzi_alloc(memory, list->label_count, sizeof *list->labels, 16);
    list->label_room = list->labels ? list->label_count : 0;
    return list->rows && list->labels ? bzi_list_walk(list, err) : bzi_fail_memory(err, "a list of samples");
}

/* Reads a list. BZNA_OK: bzi_list_close frees it. Else there is nothing to free. Messages name the list. */
static bzna_status bzi_list_open(bzi_list *list, const bzi_memory *memory, const char *path, bzna_error *err)
{
    bzi_source source;
    bzna_status status;
    memset(list, 0, sizeof *list);
    memset(&source, 0, sizeof source);
    if (bzi_source_open_file(&source, NULL, path, err) != BZNA_OK)
        return bzi_error_prefix(err, path);
    list->text = bzi_alloc(memory, source.size, 1, 16);
    list->size = source.size;
    status = list->text ? bzi_source_read(&source, 0, list->text, list->size, err) :
                          bzi_fail_memory(err, "a list of samples");
    if (status == BZNA_OK)
        status = bzi_list_parse(list, memory, err);
    bzi_source_close(&source, memory);
    if (status == BZNA_OK)
        return BZNA_OK;
    bzi_list_close(list, memory);
    return bzi_error_prefix(err, path);
}

/* --- The index beside a file --- */

/* bzi_idx_close frees it. */
typedef struct bzi_idx {
    bzi_span   text;                  /* a line feed stands at its end */
    bzi_buffer buffer;
    uint32_t   is_old;                /* older than the file */
    char       path[BZI_LIMIT_PATH_BYTES];
} bzi_idx;

BZI_MAYBE_UNUSED static void bzi_idx_close(bzi_idx *idx, bzi_host *host)
{
    bzi_buffer_free(&host->memory, &idx->buffer);
}

/* NAME.idx beside NAME and extension, as a source. BZNA_AGAIN: there is none. Messages name the index. */
BZI_MAYBE_UNUSED static bzna_status bzi_idx_open(bzi_idx *idx, bzi_host *host, const bzi_source *of,
                                                 const char *extension, bzna_error *err)
{
    const size_t length = of->path ? strlen(of->path) : 0;
    bzi_source file;
    bzna_status status;
    memset(idx, 0, offsetof(bzi_idx, path));
    memset(&file, 0, sizeof file);
    if (length < 5 || length >= sizeof idx->path || strcmp(of->path + length - 4, extension))
        return BZNA_AGAIN;
    snprintf(idx->path, sizeof idx->path, "%.*s.idx", (int)length - 4, of->path);
    if ((status = bzi_source_open_file(&file, &host->files, idx->path, err)) != BZNA_OK)
        return status == BZNA_E_NOT_FOUND ? BZNA_AGAIN : bzi_error_prefix(err, idx->path);
    idx->is_old = file.file.modified_ns < bzi_source_modified_ns(of);
    if (!bzi_buffer_reserve(&host->memory, &idx->buffer, file.size + 1, 0))
        status = bzi_fail_memory(err, "an index");
    else if ((status = bzi_source_read(&file, 0, idx->buffer.data, file.size, err)) == BZNA_OK)
        idx->buffer.data[file.size] = '\n';
    idx->text = (bzi_span){ idx->buffer.data, file.size };
    bzi_source_close(&file, &host->memory);
    if (status == BZNA_OK)
        return BZNA_OK;
    bzi_idx_close(idx, host);
    return bzi_error_prefix(err, idx->path);
}

/* --- Its rows --- */

static bzi_span bzi_list_path(const bzi_list *list, const bzi_list_row *row)
{
    bzi_span s = { list->text + row->path_at, row->path_size };
    return s;
}

/* label_count of them. */
static const float *bzi_list_row_labels(const bzi_list *list, const bzi_list_row *row)
{
    return list->labels + row->label_at;
}

/* Equal indices stand in the order of their lines. */
static int bzi_list_row_is_before(const void *a, const void *b)
{
    const bzi_list_row *x = a, *y = b;
    return x->index < y->index || (x->index == y->index && x->path_at < y->path_at);
}

/* Puts the rows into the order of their indices, for bzi_list_find; two lines of one index are refused. */
BZI_MAYBE_UNUSED static bzna_status bzi_list_sort(bzi_list *list, const char *name, bzna_error *err)
{
    bzi_sort(list->rows, list->count, sizeof *list->rows, bzi_list_row_is_before);
    for (uint64_t i = 1; i < list->count; i++) {
        const bzi_list_row *row = &list->rows[i];
        if (row->index != row[-1].index)
            continue;
        bzi_fail(err, BZNA_E_FORMAT, row->path_at, 0, 0, "index %llu is in two lines, again before byte %llu",
                 (unsigned long long)row->index, (unsigned long long)row->path_at);
        return bzi_error_prefix(err, name);
    }
    return BZNA_OK;
}

static int bzi_list_row_is_past(const void *rows, uint64_t i, const void *index)
{
    return ((const bzi_list_row *)rows)[i].index >= *(const uint64_t *)index;
}

/* The row of an index; NULL: there is none. Pre: sorted. */
BZI_MAYBE_UNUSED static const bzi_list_row *bzi_list_find(const bzi_list *list, uint64_t index)
{
    uint64_t i = bzi_search(list->rows, list->count, &index, bzi_list_row_is_past);
    return i < list->count && list->rows[i].index == index ? &list->rows[i] : NULL;
}


/* ==== 25. Directories ================================================================================================
 * Calls: rooms 2-5. The files under a folder that have certain names, in the order in which Python's
 * sorted(os.walk(top, followlinks=True)) gives them: by the path of their folder, then by name, as bytes. Links are
 * followed; names that begin with a dot are left out. No file is opened or looked at. */

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

/* Whether a word is one of a list's, in any case. list: in small letters, between blanks. */
static int bzi_word_is_in(const char *word, const char *list)
{
    char wanted[16];
    size_t length = strlen(word);
    if (length == 0 || length > sizeof wanted - 3 || strchr(word, ' '))
        return 0;
    wanted[0] = ' ';
    for (size_t i = 0; i < length; i++)
        wanted[i + 1] = word[i] >= 'A' && word[i] <= 'Z' ? (char)(word[i] + 32) : word[i];
    memcpy(wanted + length + 1, " ", 2);
    return strstr(list, wanted) != NULL;
}

/* Whether a name ends with one of these extensions. */
static int bzi_path_has_extension(const char *name, const char *list)
{
    const char *dot = strrchr(name, '.');
    return dot && bzi_word_is_in(dot + 1, list);
}

/* Of two things that begin with a text. */
static int bzi_path_is_before(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b) < 0;
}

/* Files of a folder. */
typedef struct bzi_tree_folder {
    const char *path;                 /* below the root; "": the root */
    uint64_t    first, count;         /* of names */
} bzi_tree_folder;

typedef struct bzi_tree {
    char            *text;            /* what the others point into */
    uint64_t         text_size;
    const char     **names;           /* of files */
    uint64_t         count;
    bzi_tree_folder *folders;
    uint64_t         folder_count;
} bzi_tree;

static void bzi_tree_free(bzi_tree *tree, const bzi_memory *memory)
{
    bzi_release(memory, tree->text, tree->text_size, 1);
    bzi_release(memory, tree->names, tree->count, sizeof *tree->names);
    bzi_release(memory, tree->folders, tree->folder_count, sizeof *tree->folders);
    memset(tree, 0, sizeof *tree);
}

/* Texts, one after the other. */
typedef struct bzi_names {
    const bzi_memory *memory;
    bzi_buffer        text, at;       /* at: where each begins in text */
    uint64_t          text_size, count;
} bzi_names;

static void bzi_names_free(bzi_names *names)
{
    bzi_buffer_free(names->memory, &names->text);
    bzi_buffer_free(names->memory, &names->at);
}

/* A text that is none of the names; returns where it begins. */
static bzna_status bzi_names_keep(bzi_names *names, const char *text, uint64_t *at, bzna_error *err)
{
    uint64_t size = strlen(text) + 1;
    if (!bzi_buffer_reserve(names->memory, &names->text, names->text_size + size, 1))
        return bzi_fail_memory(err, "names of files");
    memcpy(names->text.data + names->text_size, text, (size_t)size);
    *at = names->text_size;
    names->text_size += size;
    return BZNA_OK;
}

static bzna_status bzi_names_add(bzi_names *names, const char *name, bzna_error *err)
{
    uint64_t at = 0;
    bzna_status status = bzi_names_keep(names, name, &at, err);
    if (status != BZNA_OK)
        return status;
    if (!bzi_buffer_reserve(names->memory, &names->at, (names->count + 1) * sizeof at, 1))
        return bzi_fail_memory(err, "names of files");
    memcpy(names->at.data + names->count++ * sizeof at, &at, sizeof at);
    return BZNA_OK;
}

/* Valid until another is added. */
static const char *bzi_names_get(const bzi_names *names, uint64_t i)
{
    uint64_t at;
    memcpy(&at, names->at.data + i * sizeof at, sizeof at);
    return (const char *)names->text.data + at;
}

/* A folder that a walk has met. */
typedef struct bzi_walk_folder {
    uint64_t path;                    /* below the root: where it begins in text */
    uint64_t parent;
    uint64_t first, count;            /* of names */
    uint64_t id[2];
} bzi_walk_folder;

typedef struct bzi_walk {
    const char *root;
    const char *extensions;
    bzi_names   names;                /* of files; the folders' paths are kept there, too */
    bzi_buffer  folders;
    uint64_t    folder_count;
    uint32_t    others;               /* files with other names, too, were met */
} bzi_walk;

static bzi_walk_folder *bzi_walk_at(const bzi_walk *walk, uint64_t i)
{
    return (bzi_walk_folder *)(void *)walk->folders.data + i;
}

static void bzi_walk_free(bzi_walk *walk)
{
    bzi_buffer_free(walk->names.memory, &walk->folders);
    bzi_names_free(&walk->names);
}

static bzna_status bzi_walk_add_folder(bzi_walk *walk, const char *path, uint64_t parent, bzna_error *err)
{
    bzi_walk_folder folder = { 0, parent, 0, 0, { 0, 0 } };
    bzna_status status;
    if (walk->folder_count == BZI_LIMIT_FOLDERS)
        return BZI_FAIL(err, BZNA_E_LIMIT, "%s: more than %u folders", path, BZI_LIMIT_FOLDERS);
    if ((status = bzi_names_keep(&walk->names, path, &folder.path, err)) != BZNA_OK)
        return status;
    if (!bzi_buffer_reserve(walk->names.memory, &walk->folders, (walk->folder_count + 1) * sizeof folder, 1))
        return bzi_fail_memory(err, "folders");
    *bzi_walk_at(walk, walk->folder_count++) = folder;
    return BZNA_OK;
}

/* One entry of folder number i, whose path is given. A link to nothing counts as the file that it may have been. */
static bzna_status bzi_walk_entry(bzi_walk *walk, uint64_t i, const char *path, const char *name, int kind,
                                  bzna_error *err)
{
    char below[BZI_LIMIT_PATH_BYTES];
    bzna_status status;
    if (name[0] == '.' || kind == BZI_OS_OTHER)
        return BZNA_OK;
    if (kind != BZI_OS_FOLDER && !bzi_path_has_extension(name, walk->extensions)) {
        walk->others = 1;
        return BZNA_OK;
    }
    if (kind != BZI_OS_FOLDER)
        return bzi_names_add(&walk->names, name, err);
    status = bzi_path_join(below, sizeof below, path, name, err);
    return status == BZNA_OK ? bzi_walk_add_folder(walk, below, i, err) : status;
}

/* A folder that links lead back to would be met without end. */
static bzna_status bzi_walk_check_cycle(const bzi_walk *walk, uint64_t i, const char *path, bzna_error *err)
{
    const bzi_walk_folder *folder = bzi_walk_at(walk, i);
    for (uint64_t k = i; k; ) {
        k = bzi_walk_at(walk, k)->parent;
        if (!memcmp(bzi_walk_at(walk, k)->id, folder->id, sizeof folder->id))
            return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s: this link leads back to a folder that holds it", path);
    }
    return BZNA_OK;
}

/* What folder number i holds: names; and folders, which are met later. */
static bzna_status bzi_walk_scan(bzi_walk *walk, uint64_t i, bzna_error *err)
{
    char path[BZI_LIMIT_PATH_BYTES], below[BZI_LIMIT_PATH_BYTES];
    bzi_os_folder folder;
    bzna_status status;
    const char *name;
    int error = 0, kind;
    bzi_string_copy(below, sizeof below, (const char *)walk->names.text.data + bzi_walk_at(walk, i)->path);
    if ((status = bzi_path_join(path, sizeof path, walk->root, below, err)) != BZNA_OK)
        return status;
    if ((error = bzi_os_folder_open(&folder, path)) != 0)
        return bzi_fail(err, BZNA_E_IO, BZNA_NO_OFFSET, 0, error, "%s: cannot list: %s", below, strerror(error));
    memcpy(bzi_walk_at(walk, i)->id, folder.id, sizeof folder.id);
    bzi_walk_at(walk, i)->first = walk->names.count;
    status = bzi_walk_check_cycle(walk, i, below, err);
    while (status == BZNA_OK && (name = bzi_os_folder_next(&folder, &kind, &error)) != NULL)
        status = bzi_walk_entry(walk, i, below, name, kind, err);
    if (status == BZNA_OK && error)
        status = bzi_fail(err, BZNA_E_IO, BZNA_NO_OFFSET, 0, error, "%s: cannot list: %s", below, strerror(error));
    bzi_walk_at(walk, i)->count = walk->names.count - bzi_walk_at(walk, i)->first;
    bzi_os_folder_close(&folder);
    return status;
}

/* Room for what a walk has found: no more. */
static bzna_status bzi_tree_make(bzi_tree *tree, const bzi_walk *walk, bzna_error *err)
{
    memset(tree, 0, sizeof *tree);
    tree->text_size = walk->names.text_size;
    tree->count = walk->names.count;
    tree->text = bzi_alloc_copy(walk->names.memory, walk->names.text.data, walk->names.text_size, 1);
    tree->names = bzi_alloc(walk->names.memory, tree->count, sizeof *tree->names, 16);
    for (uint64_t i = 0; i < walk->folder_count; i++)
        tree->folder_count += bzi_walk_at(walk, i)->count > 0;
    tree->folders = bzi_alloc(walk->names.memory, tree->folder_count, sizeof *tree->folders, 16);
    if (tree->text && tree->names && tree->folders)
        return BZNA_OK;
    bzi_tree_free(tree, walk->names.memory);
    return bzi_fail_memory(err, "names of files");
}

/* What a walk has found, in order. */
static bzna_status bzi_walk_finish(const bzi_walk *walk, bzi_tree *tree, bzna_error *err)
{
    uint64_t n = 0;
    bzna_status status = bzi_tree_make(tree, walk, err);
    if (status != BZNA_OK)
        return status;
    for (uint64_t i = 0; i < walk->folder_count; i++) {
        const bzi_walk_folder *folder = bzi_walk_at(walk, i);
        if (folder->count)
            tree->folders[n++] = (bzi_tree_folder){ tree->text + folder->path, folder->first, folder->count };
    }
    bzi_sort(tree->folders, n, sizeof *tree->folders, bzi_path_is_before);
    n = 0;
    for (uint64_t i = 0; i < tree->folder_count; i++) {
        bzi_tree_folder *folder = &tree->folders[i];
        for (uint64_t k = 0; k < folder->count; k++) {
            const char *name = bzi_names_get(&walk->names, folder->first + k);
            tree->names[n + k] = tree->text + (name - (const char *)walk->names.text.data);
        }
        folder->first = n;
        bzi_sort(tree->names + n, folder->count, sizeof *tree->names, bzi_path_is_before);
        n += folder->count;
    }
    return BZNA_OK;
}

static int bzi_tree_is_past(const void *folders, uint64_t i, const void *index)
{
    const bzi_tree_folder *folder = (const bzi_tree_folder *)folders + i;
    return folder->first + folder->count > *(const uint64_t *)index;
}

/* The path of file number i, below the root. Pre: there is one. */
static bzna_status bzi_tree_path(const bzi_tree *tree, uint64_t i, char *path, uint64_t capacity, bzna_error *err)
{
    uint64_t k = bzi_search(tree->folders, tree->folder_count, &i, bzi_tree_is_past);
    return bzi_path_join(path, capacity, tree->folders[k].path, tree->names[i], err);
}


/* ==== 26. Containers: folder =========================================================================================
 * Calls: rooms 2-5, 20-21, 24-25. Pictures that are files, in the order and with the classes of torchvision's
 * ImageFolder: each folder in the root is a class, and all pictures below it are of that class. A root that holds
 * pictures and no folders has no classes. A list can name the files instead. Opening looks at no file; each sample's is
 * opened when it is read. */

/* ImageFolder's, and those of other pictures that can be decoded. */
#define BZI_PICTURE_EXTENSIONS " jpg jpeg png ppm bmp pgm tif tiff webp pbm pnm gif jp2 j2k heic heif hif avif "

/* Files of one class; without classes, all. */
typedef struct bzi_class {
    const char *name;
    uint64_t    begin;                /* number of its first sample */
    uint32_t    only_folders;         /* at least two, and no file beside them */
    bzi_tree    tree;
} bzi_class;

typedef struct bzi_folder {
    char       *root;
    uint64_t    root_size;
    bzi_tree    top;                  /* the names of classes lie in its text */
    uint64_t    root_id[2];
    bzi_class  *classes;
    uint64_t    class_room;
    bzi_list    list;                 /* which names the samples, where it has rows */
    bzi_field   fields[3];            /* image, target or label or neither, name */
    bzi_host   *host;
} bzi_folder;

static void bzi_folder_close(bzi_container *c)
{
    const bzi_memory *memory = &c->host->memory;
    bzi_folder *folder = c->own;
    for (uint64_t i = 0; i < folder->class_room; i++)
        bzi_tree_free(&folder->classes[i].tree, memory);
    bzi_release(memory, folder->classes, folder->class_room, sizeof *folder->classes);
    bzi_tree_free(&folder->top, memory);
    bzi_list_close(&folder->list, memory);
    bzi_release(memory, folder->root, folder->root_size, 1);
}

/* Names that are numbers, by their numbers; equal ones as text. */
static int bzi_folder_number_is_before(const void *left, const void *right)
{
    const char *a = *(const char *const *)left, *b = *(const char *const *)right;
    const char *x = a + strspn(a, "0"), *y = b + strspn(b, "0");
    int order = strlen(x) != strlen(y) ? strlen(x) < strlen(y) ? -1 : 1 : strcmp(x, y);
    return order ? order < 0 : strcmp(a, b) < 0;
}

/* The root's folders, sorted by name: names. */
static bzna_status bzi_folder_list(const bzi_walk *walk, bzi_tree *top, bzna_error *err)
{
    uint64_t count = walk->folder_count - 1;
    memset(top, 0, sizeof *top);
    top->text_size = walk->names.text_size;
    top->text = bzi_alloc_copy(walk->names.memory, walk->names.text.data, walk->names.text_size, 1);
    top->names = bzi_alloc(walk->names.memory, count, sizeof *top->names, 16);
    top->count = count;
    if (!top->text || !top->names) {
        bzi_tree_free(top, walk->names.memory);
        return bzi_fail_memory(err, "the names of classes");
    }
    for (uint64_t i = 0; i < count; i++)
        top->names[i] = top->text + bzi_walk_at(walk, i + 1)->path;
    bzi_sort(top->names, count, sizeof *top->names, bzi_path_is_before);
    return BZNA_OK;
}

/* By number. */
static bzna_status bzi_folder_sort_numbers(const char **names, uint64_t count, bzna_error *err)
{
    for (uint64_t i = 0; i < count; i++)
        if (names[i][strspn(names[i], "0123456789")])
            return BZI_FAIL(err, BZNA_E_ARGUMENT,
                            "dataset_config.class_order: the folder \"%.64s\" is no number, so its class has none",
                            names[i]);
    bzi_sort(names, count, sizeof *names, bzi_folder_number_is_before);
    return BZNA_OK;
}

static int bzi_folder_name_is_past(const void *names, uint64_t i, const void *name)
{
    return strcmp(((const char *const *)names)[i], name) >= 0;
}

/* Those classes that the caller has chosen. */
static bzna_status bzi_folder_choose(bzi_folder *folder, const bzna_dataset_config *config, bzna_error *err)
{
    for (uint32_t i = 0; i < config->class_count; i++) {
        const char *wanted = config->classes[i];
        uint64_t k = bzi_search(folder->top.names, folder->top.count, wanted, bzi_folder_name_is_past);
        if (k == folder->top.count || strcmp(folder->top.names[k], wanted))
            return BZI_FAIL(err, BZNA_E_NOT_FOUND, "dataset_config.classes[%u]: there is no folder \"%.64s\"", i,
                            wanted);
        for (uint32_t j = 0; j < i; j++)
            if (folder->classes[j].name == folder->top.names[k])
                return BZI_FAIL(err, BZNA_E_ARGUMENT, "dataset_config.classes[%u]: \"%.64s\" stands there twice", i,
                                wanted);
        folder->classes[i].name = folder->top.names[k];
    }
    return BZNA_OK;
}

/* The classes' names, in their order. */
static bzna_status bzi_folder_name_classes(bzi_container *c, const bzna_dataset_config *config, bzna_error *err)
{
    bzi_folder *folder = c->own;
    uint64_t count = config->classes ? config->class_count : folder->top.count;
    bzna_status status;
    folder->classes = bzi_alloc_zero(&c->host->memory, count, sizeof *folder->classes);
    if (!folder->classes)
        return bzi_fail_memory(err, "classes");
    folder->class_room = c->class_count = count;
    if (config->classes && config->class_order)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "dataset_config.class_order: dataset_config.classes says the order");
    if (config->classes)
        return bzi_folder_choose(folder, config, err);
    if (config->class_order == BZNA_CLASS_ORDER_NUMERIC &&
        (status = bzi_folder_sort_numbers(folder->top.names, count, err)) != BZNA_OK)
        return status;
    for (uint64_t i = 0; i < count; i++)
        folder->classes[i].name = folder->top.names[i];
    return BZNA_OK;
}

/* The files of one class. Runs on several threads. */
static bzna_status bzi_folder_list_class(void *user, uint64_t index, bzna_error *err)
{
    const bzi_folder *folder = user;
    bzi_class *class = &folder->classes[index];
    bzi_walk walk = { .names = { .memory = &folder->host->memory },
                      .root = folder->root,
                      .extensions = BZI_PICTURE_EXTENSIONS };
    bzna_status status = bzi_walk_add_folder(&walk, "", 0, err);
    if (status == BZNA_OK) {
        memcpy(bzi_walk_at(&walk, 0)->id, folder->root_id, sizeof folder->root_id);
        status = bzi_walk_add_folder(&walk, class->name, 0, err);
    }
    for (uint64_t i = 1; status == BZNA_OK && i < walk.folder_count; i++) {
        status = bzi_walk_scan(&walk, i, err);
        if (i == 1)
            class->only_folders = walk.folder_count > 3 && !walk.names.count && !walk.others;
    }
    if (status == BZNA_OK)
        status = bzi_walk_finish(&walk, &class->tree, err);
    bzi_walk_free(&walk);
    return status;
}

/* Whether a folder is called as a split is: train, val2017. */
static int bzi_folder_is_split(const char *name)
{
    char word[16];
    size_t length = strlen(name);
    while (length && name[length - 1] >= '0' && name[length - 1] <= '9')
        length--;
    snprintf(word, sizeof word, "%.*s", (int)bzi_min(length, sizeof word), name);
    return bzi_word_is_in(word, " train training val valid validation dev eval test testing ");
}

/* A class without pictures, as ImageFolder refuses it; and a root that holds roots, where train and val would be the
 * classes: its folders hold only folders, or are called as splits are. */
static bzna_status bzi_folder_check_classes(const bzi_container *c, const bzna_dataset_config *config,
                                            bzna_error *err)
{
    const bzi_folder *folder = c->own;
    uint64_t roots = 0, splits = 0;
    for (uint64_t i = 0; i < c->class_count; i++) {
        roots += folder->classes[i].only_folders;
        splits += (uint64_t)bzi_folder_is_split(folder->classes[i].name);
    }
    if ((roots == c->class_count || splits == c->class_count) && !config->classes)
        return BZI_FAIL(err, BZNA_E_FORMAT,
                        "its folders %s: open one of them (\"%.64s\"), or name those that are classes in "
                        "dataset_config.classes",
                        splits == c->class_count ? "are called as splits are" : "hold only folders",
                        folder->classes[0].name);
    for (uint64_t i = 0; i < c->class_count; i++)
        if (!folder->classes[i].tree.count)
            return BZI_FAIL(err, BZNA_E_NO_SAMPLES, "the class folder \"%.64s\" holds no files that end as pictures do",
                            folder->classes[i].name);
    return BZNA_OK;
}

static bzna_status bzi_folder_open_classes(bzi_container *c, const bzna_dataset_config *config, bzna_error *err)
{
    bzi_folder *folder = c->own;
    bzna_status status;
    if ((status = bzi_folder_name_classes(c, config, err)) != BZNA_OK ||
        (status = bzi_parallel(bzi_folder_list_class, folder, c->class_count, err)) != BZNA_OK ||
        (status = bzi_folder_check_classes(c, config, err)) != BZNA_OK)
        return status;
    for (uint64_t i = 0; i < c->class_count; i++) {
        folder->classes[i].begin = c->count;
        c->count += folder->classes[i].tree.count;
    }
    c->target_count = c->count;
    return BZNA_OK;
}

/* The files that a list names. Where each has one label, a whole number, those are targets; else labels are vectors. */
static bzna_status bzi_folder_open_list(bzi_container *c, const bzna_dataset_config *config, bzna_error *err)
{
    bzi_folder *folder = c->own;
    const bzi_list *list = &folder->list;
    int64_t target;
    bzna_status status;
    if (config->classes || config->class_order)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "dataset_config.%s: with a list, its labels say the classes",
                        config->classes ? "classes" : "class_order");
    if ((status = bzi_list_open(&folder->list, &c->host->memory, config->list, err)) != BZNA_OK)
        return status;
    c->count = c->target_count = list->count;
    for (uint64_t i = 0; i < list->count && c->target_count; i++)
        if (!bzi_label_target(bzi_list_row_labels(list, &list->rows[i]), list->rows[i].label_count, &target))
            c->target_count = 0;
    return BZNA_OK;
}

/* Pictures that lie in the root, which holds no folders. */
static bzna_status bzi_folder_open_flat(bzi_container *c, const bzi_walk *walk, const bzna_dataset_config *config,
                                        bzna_error *err)
{
    bzi_folder *folder = c->own;
    if (config->classes)
        return BZI_FAIL(err, BZNA_E_NOT_FOUND, "dataset_config.classes[0]: there is no folder \"%.64s\"",
                        config->classes[0]);
    if (config->class_order)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "dataset_config.class_order: there are no class folders");
    if (!walk->names.count)
        return BZI_FAIL(err, BZNA_E_NO_SAMPLES, "the folder holds neither pictures nor folders of them");
    if (!(folder->classes = bzi_alloc_zero(&c->host->memory, 1, sizeof *folder->classes)))
        return bzi_fail_memory(err, "a folder");
    folder->class_room = 1;
    c->count = walk->names.count;
    return bzi_walk_finish(walk, &folder->classes[0].tree, err);
}

/* The path to open again whatever the working folder is by then. */
static bzna_status bzi_folder_make(bzi_container *c, const char *path, bzna_error *err)
{
    const bzi_memory *memory = &c->host->memory;
    char here[BZI_LIMIT_PATH_BYTES], root[BZI_LIMIT_PATH_BYTES];
    bzi_folder *folder = c->own;
    bzna_status status;
    folder->host = c->host;
    if (path[0] == '/' || !bzi_os_here(here, sizeof here))
        here[0] = 0;
    if ((status = bzi_path_join(root, sizeof root, here, path, err)) != BZNA_OK)
        return status;
    folder->root_size = strlen(root) + 1;
    folder->root = bzi_alloc_copy(memory, root, folder->root_size, 1);
    return folder->root ? BZNA_OK : bzi_fail_memory(err, "a folder");
}

static bzna_status bzi_folder_find(bzi_container *c, const char *path, const bzna_dataset_config *config,
                                   bzna_error *err)
{
    bzi_walk walk = { .names = { .memory = &c->host->memory }, .extensions = BZI_PICTURE_EXTENSIONS };
    bzi_folder *folder = c->own;
    bzna_status status = bzi_folder_make(c, path, err);
    if (status != BZNA_OK)
        return status;
    walk.root = folder->root;
    if (config->list)
        return bzi_folder_open_list(c, config, err);
    if ((status = bzi_walk_add_folder(&walk, "", 0, err)) == BZNA_OK &&
        (status = bzi_walk_scan(&walk, 0, err)) == BZNA_OK) {
        memcpy(folder->root_id, bzi_walk_at(&walk, 0)->id, sizeof folder->root_id);
        if (walk.folder_count == 1)
            status = bzi_folder_open_flat(c, &walk, config, err);
        else if ((status = bzi_folder_list(&walk, &folder->top, err)) == BZNA_OK)
            status = bzi_folder_open_classes(c, config, err);
    }
    bzi_walk_free(&walk);
    return status;
}

static bzna_status bzi_folder_open_path(bzi_container *c, const char *path, const bzna_dataset_config *config,
                                        bzna_error *err)
{
    bzna_status status = bzi_folder_find(c, path, config, err);
    bzi_folder *folder = c->own;
    if (status != BZNA_OK)
        return status;
    bzi_container_add_field(c, folder->fields, BZNA_FIELD_PICTURE, 1, "image");
    if (c->target_count) {
        c->target_field = c->field_count;
        bzi_container_add_field(c, folder->fields, BZNA_FIELD_INTEGER, 0, "target");
    } else if (folder->list.label_count) {
        bzi_container_add_field(c, folder->fields, BZNA_FIELD_VECTOR, 0, "label");
    }
    bzi_container_add_field(c, folder->fields, BZNA_FIELD_TEXT, 0, "name");
    return BZNA_OK;
}

static int bzi_class_is_past(const void *classes, uint64_t i, const void *index)
{
    const bzi_class *class = (const bzi_class *)classes + i;
    return class->begin + class->tree.count > *(const uint64_t *)index;
}

static uint64_t bzi_folder_class_of(const bzi_folder *folder, uint64_t index)
{
    return bzi_search(folder->classes, folder->class_room, &index, bzi_class_is_past);
}

/* A sample's path below the root. */
static bzna_status bzi_folder_name(const bzi_container *c, uint64_t index, char *name, uint64_t capacity,
                                   bzna_error *err)
{
    const bzi_folder *folder = c->own;
    const bzi_class *class;
    if (folder->list.rows) {
        bzi_span path = bzi_list_path(&folder->list, &folder->list.rows[index]);
        bzi_text_copy(name, (size_t)capacity, path.data, path.size);        /* a list's paths are not longer */
        return BZNA_OK;
    }
    class = &folder->classes[bzi_folder_class_of(folder, index)];
    return bzi_tree_path(&class->tree, index - class->begin, name, capacity, err);
}

static bzna_status bzi_folder_path(const bzi_container *c, uint64_t index, char *path, uint64_t capacity,
                                   bzna_error *err)
{
    char name[BZI_LIMIT_PATH_BYTES];
    const bzi_folder *folder = c->own;
    bzna_status status = bzi_folder_name(c, index, name, sizeof name, err);
    return status == BZNA_OK ? bzi_path_join(path, capacity, name[0] == '/' ? "" : folder->root, name, err) : status;
}

/* What a list or the folder around the file says of a sample. */
static void bzi_folder_label(const bzi_folder *folder, uint64_t index, uint32_t kind, bzi_value *value)
{
    const bzi_list_row *row = folder->list.rows ? &folder->list.rows[index] : NULL;
    const float *labels = row ? bzi_list_row_labels(&folder->list, row) : NULL;
    int64_t target = BZNA_TARGET_NONE;
    if (kind == BZNA_FIELD_VECTOR) {
        value->absent = row->label_count == 0;
        bzi_value_put(value, labels, row->label_count * sizeof *labels);
        return;
    }
    if (row)
        bzi_label_target(labels, row->label_count, &target);
    else
        target = (int64_t)bzi_folder_class_of(folder, index);
    bzi_value_put(value, &target, sizeof target);
}

static bzna_status bzi_folder_field(const bzi_container *c, const bzi_sample *sample, uint32_t number,
                                    bzi_value *value, bzna_error *err)
{
    char name[BZI_LIMIT_PATH_BYTES];
    const uint32_t kind = c->fields[number].kind;
    bzna_status status = BZNA_OK;
    if (kind != BZNA_FIELD_TEXT)
        bzi_folder_label(c->own, sample->index, kind, value);
    else if ((status = bzi_folder_name(c, sample->index, name, sizeof name, err)) == BZNA_OK)
        bzi_value_put(value, name, strlen(name));
    return status;
}

static void bzi_folder_class_name(const bzi_container *c, uint64_t target, bzi_value *value)
{
    const char *name = ((const bzi_folder *)c->own)->classes[target].name;
    bzi_value_put(value, name, strlen(name));
}

static bzna_status bzi_folder_image(const bzi_container *c, const bzi_sample *sample, const bzi_pick *pick,
                                    bzi_scratch *scratch, bzi_image *image, bzna_error *err)
{
    (void)c;
    if (pick->name && strcmp(pick->name, "image"))
        return bzi_container_fail_image(pick->name, err);
    return bzi_file_image((bzi_span){ sample->bytes, sample->extent.size }, 0, scratch, image, err);
}

/* The classes and the names of all files: another order of classes is another data set. */
static uint64_t bzi_folder_fingerprint(const bzi_container *c, uint64_t hash)
{
    const bzi_folder *folder = c->own;
    hash = bzi_hash(hash, folder->list.text, (size_t)folder->list.size);
    for (uint64_t i = 0; i < folder->class_room; i++) {
        const bzi_tree *tree = &folder->classes[i].tree;
        for (uint64_t k = 0; k < tree->folder_count; k++) {
            const bzi_tree_folder *in = &tree->folders[k];
            hash = bzi_hash(hash, in->path, strlen(in->path) + 1);
            for (uint64_t j = 0; j < in->count; j++)
                hash = bzi_hash(hash, tree->names[in->first + j], strlen(tree->names[in->first + j]) + 1);
        }
    }
    return hash;
}

static const bzi_container_ops bzi_folder_ops = {
    .name = "folder",
    .own_bytes = sizeof(bzi_folder),
    .still = 1,
    .listed = 1,
    .field = bzi_folder_field,
    .image = bzi_folder_image,
    .fingerprint = bzi_folder_fingerprint,
    .close = bzi_folder_close,
    .path = bzi_folder_path,
    .class_name = bzi_folder_class_name
};


#ifndef BENZINA_NO_SHARDS
/* ==== 27. tar: headers ===============================================================================================
 * Calls: rooms 4-7, 24. A walk over the members of a tar: v7, ustar, GNU and pax headers. Names, headers that only
 * describe the next member, and their number have limits; what is read stays within the source. */

#define BZI_TAR_BLOCK 512u

typedef struct bzi_tar_walk {
    bzi_window        window;         /* over the tar */
    uint64_t          at;             /* of the next header */
    /* the member: where its bytes are, whether it is a file, its name */
    uint64_t          offset, size;
    uint32_t          is_file;
    uint32_t          name_size;
    uint8_t           name[BZI_LIMIT_PATH_BYTES];
    int64_t           told_size;      /* by a pax header before the member's; -1: it is in its own */
} bzi_tar_walk;

/* Fills in walk; bzi_tar_walk_end frees it. map: the source's, or NULL to read. */
static void bzi_tar_walk_begin(bzi_tar_walk *walk, const bzi_source *source, const bzi_memory *memory,
                               const uint8_t *map, uint64_t at)
{
    memset(walk, 0, offsetof(bzi_tar_walk, name));
    walk->window.source = source;
    walk->window.memory = memory;
    walk->window.map = map;
    walk->at = at;
}

static void bzi_tar_walk_end(bzi_tar_walk *walk) { bzi_buffer_free(walk->window.memory, &walk->window.bytes); }

/* Octal digits between blanks, or base 256; nothing at all is 0. Returns 0 if it is something else, or negative. */
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

/* Whether a block is a header: its check sum says so. Some writers have summed signed bytes. */
static int bzi_tar_is_header(const uint8_t *block)
{
    uint32_t sum = 8 * ' ', high = 0;
    uint64_t told;
    for (uint32_t i = 0; i < BZI_TAR_BLOCK; i++) {
        sum += block[i];
        high += block[i] >> 7;
    }
    for (uint32_t i = 148; i < 156; i++) {                  /* the check sum itself counts as blanks */
        sum -= block[i];
        high -= block[i] >> 7;
    }
    return bzi_tar_number(block + 148, 8, &told) && (told == sum || told == (uint64_t)(sum - 256 * high));
}

static uint64_t bzi_tar_round(uint64_t end) { return (end + BZI_TAR_BLOCK - 1) & ~(uint64_t)(BZI_TAR_BLOCK - 1); }

/* The header at walk->at; NULL at the end of the archive: that of the source, or a block of zeros. */
static bzna_status bzi_tar_header(bzi_tar_walk *walk, const uint8_t **header, bzna_error *err)
{
    const unsigned long long at = walk->at;
    const uint8_t *block = NULL;
    bzna_status status;
    *header = NULL;
    if (walk->at >= walk->window.source->size)
        return BZNA_OK;
    if (walk->window.source->size - walk->at < BZI_TAR_BLOCK)
        return bzi_fail(err, BZNA_E_TRUNCATED, walk->at, 0, 0, "the tar ends inside the header at byte %llu", at);
    if ((status = bzi_window_view(&walk->window, walk->at, BZI_TAR_BLOCK, &block, err)) != BZNA_OK)
        return status;
    if (block[0] == 0 && !memcmp(block, block + 1, BZI_TAR_BLOCK - 1))
        return BZNA_OK;
    if (!bzi_tar_is_header(block))
        return bzi_fail(err, BZNA_E_BOX, walk->at, 0, 0, "no tar header at byte %llu: its check sum is wrong", at);
    *header = block;
    return BZNA_OK;
}

/* Text up to a NUL. at: where it lies. */
static bzna_status bzi_tar_set_name(bzi_tar_walk *walk, const uint8_t *text, uint64_t size, uint64_t at,
                                    bzna_error *err)
{
    const uint8_t *nul = size ? memchr(text, 0, (size_t)size) : NULL;
    size = nul ? (uint64_t)(nul - text) : size;
    if (size > sizeof walk->name)
        return bzi_fail(err, BZNA_E_LIMIT, at, 0, 0, "the name at byte %llu has %llu bytes, more than %u",
                        (unsigned long long)at, (unsigned long long)size, BZI_LIMIT_PATH_BYTES);
    if (size)
        memcpy(walk->name, text, (size_t)size);
    walk->name_size = (uint32_t)size;
    return BZNA_OK;
}

/* The name in the member's own header: ustar has a second part, which stands before. GNU has other things there. */
static void bzi_tar_own_name(bzi_tar_walk *walk, const uint8_t *header)
{
    bzna_error ignored;                                     /* both parts fit */
    const uint8_t *nul = memchr(header, 0, 100);
    const uint32_t size = nul ? (uint32_t)(nul - header) : 100;
    if (!memcmp(header + 257, "ustar", 6))
        bzi_tar_set_name(walk, header + 345, 155, 0, &ignored);
    if (walk->name_size)
        walk->name[walk->name_size++] = '/';
    memcpy(walk->name + walk->name_size, header, size);
    walk->name_size += size;
}

static bzna_status bzi_tar_fail_sparse(uint64_t at, bzna_error *err)
{
    return bzi_fail(err, BZNA_E_UNSUPPORTED, at, 0, 0,
                    "the member at byte %llu is a sparse file, which is not read: write the tar without --sparse",
                    (unsigned long long)at);
}

/* A record of a pax header, "27 path=a/b/000.jpg\n". */
typedef struct bzi_pax {
    bzi_span key, value;
} bzi_pax;

/* 1: the next record; 0: the end; -1: what is there is none. */
static int bzi_pax_next(bzi_cursor *c, bzi_pax *record)
{
    const uint8_t *p = c->data + c->pos, *equals;
    const uint64_t left = bzi_cursor_left(c);
    uint64_t length = 0, i = 0;
    if (left == 0 || *p == 0)
        return 0;
    for (; i < left && i < 8 && p[i] >= '0' && p[i] <= '9'; i++)
        length = length * 10 + (uint64_t)(p[i] - '0');
    if (i == 0 || length > left || length < i + 3 || p[i] != ' ' || p[length - 1] != '\n')
        return -1;
    i++;
    if (!(equals = memchr(p + i, '=', (size_t)(length - i - 1))))
        return -1;
    record->key = (bzi_span){ p + i, (uint64_t)(equals - p) - i };
    record->value = (bzi_span){ equals + 1, length - (uint64_t)(equals - p) - 2 };
    c->pos += length;
    return 1;
}

static int bzi_pax_is(const bzi_pax *record, const char *key)
{
    return record->key.size == strlen(key) && !memcmp(record->key.data, key, (size_t)record->key.size);
}

/* What a record says of the member: its name and its size. An empty value takes back what was said. */
static bzna_status bzi_pax_apply(bzi_tar_walk *walk, const bzi_pax *record, uint64_t at, bzna_error *err)
{
    if (bzi_pax_is(record, "path"))
        return bzi_tar_set_name(walk, record->value.data, record->value.size, at, err);
    if (!bzi_pax_is(record, "size"))
        return BZNA_OK;
    walk->told_size = -1;
    if (record->value.size && (!bzi_span_signed(record->value, &walk->told_size) || walk->told_size < 0))
        return bzi_fail(err, BZNA_E_BOX, at, 0, 0, "the pax record at byte %llu: its size is no number below 2^63",
                        (unsigned long long)at);
    return BZNA_OK;
}

/* The records of a pax header, of the next member or (global) of all that follow. */
static bzna_status bzi_tar_read_pax(bzi_tar_walk *walk, bzi_cursor c, int global, bzna_error *err)
{
    bzna_status status = BZNA_OK;
    uint64_t at = c.base;
    bzi_pax record;
    int found = 0;
    while (status == BZNA_OK && (found = bzi_pax_next(&c, &record)) > 0) {
        if (record.key.size >= 11 && !memcmp(record.key.data, "GNU.sparse.", 11))
            status = bzi_tar_fail_sparse(walk->at, err);
        else if (!global)
            status = bzi_pax_apply(walk, &record, at, err);
        else if (bzi_pax_is(&record, "path") || bzi_pax_is(&record, "size"))
            status = bzi_fail(err, BZNA_E_UNSUPPORTED, at, 0, 0,
                              "the pax record at byte %llu gives all members one path or one size",
                              (unsigned long long)at);
        at = bzi_cursor_offset(&c);
    }
    if (status == BZNA_OK && found < 0)
        status = bzi_fail(err, BZNA_E_BOX, at, 0, 0, "no pax record at byte %llu, in the header at byte %llu",
                          (unsigned long long)at, (unsigned long long)walk->at);
    return status;
}

/* Whether a member of a type only describes the next: GNU's long names and link targets, pax headers. */
static int bzi_tar_describes(uint8_t type)
{
    return type == 'L' || type == 'K' || type == 'x' || type == 'X' || type == 'g';
}

/* Reads a member that only describes. */
static bzna_status bzi_tar_read_description(bzi_tar_walk *walk, uint8_t type, bzna_error *err)
{
    const uint8_t *view = NULL;
    bzna_status status;
    if (walk->size > BZI_LIMIT_PAX_BYTES)
        return bzi_fail(err, BZNA_E_LIMIT, walk->at, 0, 0,
                        "the header at byte %llu has %llu bytes of names and records, more than %u",
                        (unsigned long long)walk->at, (unsigned long long)walk->size, BZI_LIMIT_PAX_BYTES);
    if ((status = bzi_window_view(&walk->window, walk->offset, walk->size, &view, err)) != BZNA_OK)
        return status;
    if (type == 'K')
        return BZNA_OK;
    if (type == 'L')
        return bzi_tar_set_name(walk, view, walk->size, walk->offset, err);
    return bzi_tar_read_pax(walk, bzi_cursor_make(view, walk->size, walk->offset), type == 'g', err);
}

/* Where the bytes of the member at walk->at lie: links, devices and folders have none, whatever their header says. */
static bzna_status bzi_tar_place(bzi_tar_walk *walk, const uint8_t *header, bzna_error *err)
{
    const unsigned long long at = walk->at;
    const uint8_t type = header[156];
    const int v7_folder = type == 0 && walk->name_size && walk->name[walk->name_size - 1] == '/';
    walk->offset = walk->at + BZI_TAR_BLOCK;
    walk->size = 0;
    if ((type >= '1' && type <= '6') || v7_folder)
        return BZNA_OK;
    if (!bzi_tar_number(header + 124, 12, &walk->size))
        return bzi_fail(err, BZNA_E_BOX, walk->at, 0, 0, "the header at byte %llu: its size is no number", at);
    if (walk->told_size >= 0 && !bzi_tar_describes(type))
        walk->size = (uint64_t)walk->told_size;
    if (walk->size > walk->window.source->size - walk->offset)
        return bzi_fail(err, BZNA_E_TRUNCATED, walk->at, 0, 0,
                        "the member at byte %llu has %llu bytes, which end beyond the tar's end at byte %llu", at,
                        (unsigned long long)walk->size, (unsigned long long)walk->window.source->size);
    walk->is_file = type == 0 || type == '0' || type == '7';
    return BZNA_OK;
}

/* The next member, of whatever kind. BZNA_END: there is none. */
static bzna_status bzi_tar_next(bzi_tar_walk *walk, bzna_error *err)
{
    const uint8_t *header = NULL;
    bzna_status status;
    int described = 0;
    walk->name_size = 0;
    walk->told_size = -1;
    for (uint32_t n = 0; n <= BZI_LIMIT_TAR_EXTRA; n++) {
        uint8_t type;
        walk->is_file = 0;
        if ((status = bzi_tar_header(walk, &header, err)) != BZNA_OK)
            return status;
        if (!header)
            return described ? bzi_fail(err, BZNA_E_TRUNCATED, walk->at, 0, 0,
                                        "the tar ends at byte %llu, after the description of a member",
                                        (unsigned long long)walk->at) : BZNA_END;
        type = header[156];
        if (type == 'S')
            return bzi_tar_fail_sparse(walk->at, err);
        if (!bzi_tar_describes(type) && !walk->name_size)
            bzi_tar_own_name(walk, header);
        if ((status = bzi_tar_place(walk, header, err)) == BZNA_OK && bzi_tar_describes(type))
            status = bzi_tar_read_description(walk, type, err);
        if (status != BZNA_OK)
            return status;
        walk->at = bzi_tar_round(walk->offset + walk->size);
        if (!bzi_tar_describes(type))
            return BZNA_OK;
        described |= type != 'g';
    }
    return bzi_fail(err, BZNA_E_LIMIT, walk->at, 0, 0,
                    "more than %u headers in a row before byte %llu describe a member", BZI_LIMIT_TAR_EXTRA,
                    (unsigned long long)walk->at);
}


/* ==== 28. Containers: tar ============================================================================================
 * Calls: rooms 2, 4-5, 24, 27. WebDataset shards. Members that lie next to each other and share a key, the name up to
 * the first dot after its last slash, are a sample; what follows that dot is the field. The index is a number a sample
 * and a place a member, 36 bytes for a sample of two members: keys are read again where they stand. It is built by a
 * walk over all headers, or from what wds2idx has written beside the file. Nothing is allocated per sample. */

/* Where a member lies: 16 bytes. */
typedef struct bzi_tar_member {
    uint64_t offset;
    uint32_t size_low;
    uint16_t size_high, field;
} bzi_tar_member;

typedef struct bzi_tar {
    bzi_tar_member *members;          /* in the file's order */
    uint32_t       *begins;           /* the first member of each sample, and the end of the last one's */
    uint64_t        member_count;
    uint32_t        from_index;       /* what an index says of a member is checked when the member is used */
    uint32_t        key_field;        /* the number of "name", the key; BZI_NO_FIELD: members are called so */
    bzi_field      *fields;           /* in the order first met; last the key */
} bzi_tar;

static uint64_t bzi_tar_member_size(const bzi_tar_member *m) { return (uint64_t)m->size_high << 32 | m->size_low; }
static uint64_t bzi_tar_member_end(const bzi_tar_member *m) { return m->offset + bzi_tar_member_size(m); }

static void bzi_tar_close(bzi_container *c)
{
    const bzi_memory *memory = &c->host->memory;
    bzi_tar *tar = c->own;
    bzi_release(memory, tar->members, tar->member_count, sizeof *tar->members);
    bzi_release(memory, tar->begins, c->count + 1, sizeof *tar->begins);
    bzi_release(memory, tar->fields, c->field_count, sizeof *tar->fields);
}

static int bzi_tar_probe(const uint8_t *head, uint64_t size)
{
    return size >= BZI_TAR_BLOCK && bzi_tar_is_header(head);
}

/* The size of the key in a name, and where its field begins; 0: it belongs to no sample. Hidden files do not, nor what
 * is in __folders__. */
static uint32_t bzi_tar_split(const uint8_t *name, uint32_t size)
{
    const uint8_t *const end = name + size, *begin = name, *slash, *stop, *dot;
    do {
        slash = begin < end ? memchr(begin, '/', (size_t)(end - begin)) : NULL;
        stop = slash ? slash : end;
        if (stop - begin >= 4 && !memcmp(begin, "__", 2) && !memcmp(stop - 2, "__", 2))
            return 0;
        begin = slash ? slash + 1 : begin;
    } while (slash);
    dot = begin < end ? memchr(begin, '.', (size_t)(end - begin)) : NULL;
    return !dot || dot == begin || dot + 1 == end ? 0 : (uint32_t)(dot - name);
}

/* What a field is, by its last extension. */
static uint32_t bzi_tar_kind(const char *field)
{
    static const struct { uint32_t kind; const char *names; } known[] = {
        { BZNA_FIELD_INTEGER, " cls cls2 index inx id " },
        { BZNA_FIELD_TEXT, " txt text transcript name " },     /* "name" is text in all containers */
        { BZNA_FIELD_PICTURE, " jpg jpeg jpe jfif png ppm pgm pbm pnm pam webp bmp gif tif tiff jp2 j2k jpx jpf " },
    };
    const char *dot = strrchr(field, '.');
    char word[BZNA_NAME_MAX + 2];
    snprintf(word, sizeof word, " %s ", dot ? dot + 1 : field);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strchr(dot ? dot + 1 : field, ' ') && strstr(known[i].names, word))
            return known[i].kind;
    return BZNA_FIELD_BYTES;
}

/* --- Building the index --- */

typedef struct bzi_tar_build {
    bzi_container *c;
    bzi_tar       *tar;
    bzi_buffer     members, begins;
    uint64_t       member_count, count;
    uint32_t       field_count, last_field;
    bzi_field      fields[BZI_LIMIT_FIELDS + 1];
    uint32_t       left_out;          /* members whose field has too long a name; the first is at left_out_at */
    uint64_t       left_out_at;
    uint32_t       is_old;            /* the index is older than the tar */
    uint32_t       key_size;
    uint8_t        key[BZI_LIMIT_PATH_BYTES];               /* of the last sample */
} bzi_tar_build;

/* A member as headers or an index tell of it. */
typedef struct bzi_tar_entry {
    const uint8_t *name;
    uint32_t       name_size;
    uint64_t       offset, size;
} bzi_tar_entry;

/* Samples are mostly alike: the next field is the one that came after the last one before, in the same letters. */
static int bzi_tar_is_next_field(bzi_tar_build *b, const uint8_t *name, uint32_t size)
{
    const uint32_t next = b->last_field + 1 < b->field_count ? b->last_field + 1 : 0;
    if (!b->field_count || memcmp(b->fields[next].name, name, size) || b->fields[next].name[size])
        return 0;
    b->last_field = next;
    return 1;
}

/* Sets last_field to the number of the member's field, which gets one when it is met first. Pre: its name has less than
 * BZNA_NAME_MAX bytes. */
static bzna_status bzi_tar_number_field(bzi_tar_build *b, const bzi_tar_entry *entry, uint32_t key_size,
                                        bzna_error *err)
{
    bzi_field field = { 0, 1, "" };
    uint32_t size = entry->name_size - key_size - 1;
    for (uint32_t i = 0; i < size; i++) {
        uint8_t c = entry->name[key_size + 1 + i];
        field.name[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    }
    for (uint32_t i = 0; i < b->field_count; i++) {
        b->last_field = (b->last_field + 1) % b->field_count;
        if (!strcmp(b->fields[b->last_field].name, field.name))
            return BZNA_OK;
    }
    if (b->field_count == BZI_LIMIT_FIELDS) {
        bzi_text_printable(field.name);
        return bzi_fail(err, BZNA_E_LIMIT, entry->offset, 0, 0,
                        "the member at byte %llu is of field \"%s\": what follows the first dot of a name is its "
                        "field, and there are at most %u", (unsigned long long)entry->offset - BZI_TAR_BLOCK,
                        field.name, BZI_LIMIT_FIELDS);
    }
    field.kind = bzi_tar_kind(field.name);
    b->last_field = b->field_count;
    b->fields[b->field_count++] = field;
    return BZNA_OK;
}

/* A file goes into its sample: the one before, if that has its key, else a new one. What belongs to no sample is passed
 * over. */
static bzna_status bzi_tar_add(bzi_tar_build *b, const bzi_tar_entry *entry, bzna_error *err)
{
    const bzi_memory *memory = &b->c->host->memory;
    const uint32_t key_size = bzi_tar_split(entry->name, entry->name_size);
    bzi_tar_member member = { entry->offset, (uint32_t)entry->size, (uint16_t)(entry->size >> 32), 0 };
    uint32_t first = (uint32_t)b->member_count;
    bzna_status status;
    if (key_size == 0)
        return BZNA_OK;
    if (entry->name_size - key_size > BZNA_NAME_MAX) {
        b->left_out_at = b->left_out++ ? b->left_out_at : entry->offset - BZI_TAR_BLOCK;
        return BZNA_OK;
    }
    if (b->member_count == UINT32_MAX || entry->size >> 48)
        return bzi_fail(err, BZNA_E_LIMIT, entry->offset, 0, 0, "a tar has at most 2^32 - 1 members, of 2^48 bytes");
    if (!bzi_tar_is_next_field(b, entry->name + key_size + 1, entry->name_size - key_size - 1) &&
        (status = bzi_tar_number_field(b, entry, key_size, err)) != BZNA_OK)
        return status;
    member.field = (uint16_t)b->last_field;
    if (!bzi_buffer_reserve(memory, &b->members, (b->member_count + 1) * sizeof member, 1))
        return bzi_fail_memory(err, "the index of a tar");
    memcpy(b->members.data + b->member_count++ * sizeof member, &member, sizeof member);
    if (key_size == b->key_size && !memcmp(entry->name, b->key, key_size))
        return BZNA_OK;
    if (!bzi_buffer_reserve(memory, &b->begins, (b->count + 2) * sizeof first, 1))
        return bzi_fail_memory(err, "the index of a tar");
    memcpy(b->key, entry->name, key_size);
    b->key_size = key_size;
    memcpy(b->begins.data + b->count++ * sizeof first, &first, sizeof first);
    return BZNA_OK;
}

/* Walks over all headers. Files are read, not mapped: of a map, the system would read ahead what is passed over. */
static bzna_status bzi_tar_scan(bzi_tar_build *b, bzna_error *err)
{
    const bzi_source *source = &b->c->source;
    bzi_tar_walk walk;
    bzna_status status;
    bzi_tar_walk_begin(&walk, source, &b->c->host->memory, source->in_memory ? source->map : NULL, 0);
    do {
        if ((status = bzi_tar_next(&walk, err)) == BZNA_OK && walk.is_file) {
            const bzi_tar_entry entry = { walk.name, walk.name_size, walk.offset, walk.size };
            status = bzi_tar_add(b, &entry, err);
        }
    } while (status == BZNA_OK);
    bzi_tar_walk_end(&walk);
    return status == BZNA_END ? BZNA_OK : status;
}

/* An index as it is read. */
typedef struct bzi_tar_index {
    const uint8_t *p, *end;           /* what is still to be read; a line feed stands at its end */
    uint64_t       line, count;       /* samples read, and samples that it says it has */
    uint64_t       last_end;          /* of the last member, padded */
    bzi_tar_walk   walk;              /* for comparing with headers */
} bzi_tar_index;

/* why: what is wrong with it, "it is older than the tar". */
static bzna_status bzi_tar_fail_index(const bzi_tar_build *b, const char *why, uint64_t line, bzna_error *err)
{
    const char *path = b->c->source.path, *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    const int stem = (int)bzi_min(strlen(base) - 4, 40);
    char place[32] = "";
    if (line)
        snprintf(place, sizeof place, "line %llu: ", (unsigned long long)line);
    return BZI_FAIL(err, BZNA_E_BOX,
                    "%.*s.idx does not fit it (%s%s): remove it, or write it again: bzna index %.*s.tar", stem, base,
                    place, why, stem, base);
}

static const uint8_t *bzi_tar_blanks(const uint8_t *p)
{
    while (*p == ' ' || *p == '\t' || *p == '\r')
        p++;
    return p;
}

/* The next word of the line; without bytes at its end. */
static bzi_span bzi_tar_word(bzi_tar_index *x)
{
    const uint8_t *p = bzi_tar_blanks(x->p);
    bzi_span word = { p, 0 };
    while (*p > ' ')
        p++;
    word.size = (uint64_t)(p - word.data);
    x->p = p;
    return word;
}

/* The next word, if it is a number of at most 18 digits; else -1. */
static int64_t bzi_tar_word_number(bzi_tar_index *x)
{
    const uint8_t *p = bzi_tar_blanks(x->p), *const first = p;
    uint64_t number = 0;
    for (uint32_t digit; (digit = (uint32_t)*p - '0') < 10; p++)
        number = number * 10 + digit;
    x->p = p;
    return p > first && p - first <= 18 && *p <= ' ' ? (int64_t)number : -1;
}

/* Whether the tar has the member there that the index names: headers are walked from the member before. */
static bzna_status bzi_tar_compare(const bzi_tar_build *b, bzi_tar_index *x, const bzi_tar_entry *entry,
                                   bzna_error *err)
{
    bzi_tar_walk *walk = &x->walk;
    bzna_status status;
    walk->at = x->last_end;
    do
        status = bzi_tar_next(walk, err);
    while (status == BZNA_OK && walk->offset < entry->offset);
    if (status == BZNA_E_IO || status == BZNA_E_MEMORY)
        return status;
    if (status == BZNA_OK && walk->is_file && walk->offset == entry->offset && walk->size == entry->size &&
        walk->name_size == entry->name_size && !memcmp(walk->name, entry->name, entry->name_size))
        return BZNA_OK;
    return bzi_tar_fail_index(b, "the tar has something else there", x->line + 2, err);
}

/* One sample: field, offset, size and name of each member. Some samples are compared with the tar. */
static bzna_status bzi_tar_read_line(bzi_tar_build *b, bzi_tar_index *x, bzna_error *err)
{
    const uint64_t file_size = b->c->source.size, step = x->count / 8 + 1;
    const int compare = x->line % step == 0 || x->line + 1 == x->count;
    bzna_status status = BZNA_OK;
    while (status == BZNA_OK && bzi_tar_word(x).size) {
        const int64_t at = bzi_tar_word_number(x), bytes = bzi_tar_word_number(x);
        const bzi_span name = bzi_tar_word(x);
        bzi_tar_entry entry;
        if (at < 0 || bytes < 0 || !name.size || name.size > BZI_LIMIT_PATH_BYTES)
            return bzi_tar_fail_index(b, "not the field, offset, size and name of members", x->line + 2, err);
        entry = (bzi_tar_entry){ name.data, (uint32_t)name.size, (uint64_t)at, (uint64_t)bytes };
        if (entry.offset % BZI_TAR_BLOCK || entry.offset < x->last_end + BZI_TAR_BLOCK || entry.offset > file_size ||
            entry.size > file_size - entry.offset)
            return bzi_tar_fail_index(b, "no member can lie there", x->line + 2, err);
        if (compare)
            status = bzi_tar_compare(b, x, &entry, err);
        if (status == BZNA_OK)
            status = bzi_tar_add(b, &entry, err);
        x->last_end = bzi_tar_round(entry.offset + entry.size);
    }
    if (status == BZNA_OK && x->p < x->end && *x->p++ != '\n')
        return bzi_tar_fail_index(b, "it is no text", x->line + 2, err);
    return status;
}

/* The text of an index. BZNA_AGAIN: it is none of ours. */
static bzna_status bzi_tar_parse_index(bzi_tar_build *b, bzi_tar_index *x, bzna_error *err)
{
    const bzi_span version = bzi_tar_word(x), number = bzi_tar_word(x);
    bzna_status status = BZNA_OK;
    int64_t count = -1;
    if (version.size != 4 || memcmp(version.data, "v1.2", 4) || !bzi_span_signed(number, &count) || count < 0 ||
        bzi_tar_word(x).size) {
        bzi_log(b->c->host, BZNA_LOG_INFO, BZNA_OK, "%s: the .idx file beside it is ignored: it is no index v1.2",
                b->c->name);
        return BZNA_AGAIN;
    }
    x->count = (uint64_t)count;
    x->p += x->p < x->end;
    for (; status == BZNA_OK && x->p < x->end; x->line++)
        status = bzi_tar_read_line(b, x, err);
    if (status == BZNA_OK && x->line != x->count)
        status = bzi_tar_fail_index(b, "it has more or fewer lines than its first one says", 0, err);
    return status;
}

/* SHARD.idx beside SHARD.tar, as wds2idx of NVIDIA DALI writes it: v1.2 and the number of samples, then a line a
 * sample. BZNA_AGAIN: there is none. One that is stale is refused, not believed. */
static bzna_status bzi_tar_read_index(bzi_tar_build *b, bzna_error *err)
{
    bzi_host *host = b->c->host;
    bzi_idx idx;
    bzi_tar_index x;
    bzna_status status = bzi_idx_open(&idx, host, &b->c->source, ".tar", err);
    if (status != BZNA_OK)
        return status;
    memset(&x, 0, offsetof(bzi_tar_index, walk));
    bzi_tar_walk_begin(&x.walk, &b->c->source, &host->memory, NULL, 0);
    x.p = idx.text.data;
    x.end = x.p + idx.text.size;
    status = bzi_tar_parse_index(b, &x, err);
    b->is_old = idx.is_old;
    b->tar->from_index = status == BZNA_OK;
    bzi_tar_walk_end(&x.walk);
    bzi_idx_close(&idx, host);
    return status;
}

static void bzi_tar_build_free(bzi_tar_build *b)
{
    bzi_buffer_free(&b->c->host->memory, &b->members);
    bzi_buffer_free(&b->c->host->memory, &b->begins);
}

/* An index that is older than its tar, as those of copied files often are, must be what the headers say. */
static bzna_status bzi_tar_confirm(const bzi_tar_build *b, bzna_error *err)
{
    bzi_tar_build scan;
    bzna_status status;
    memset(&scan, 0, sizeof scan);
    scan.c = b->c;
    scan.tar = b->tar;
    status = bzi_tar_scan(&scan, err);
    if (status == BZNA_OK &&
        (scan.member_count != b->member_count || scan.count != b->count || scan.field_count != b->field_count ||
         memcmp(scan.fields, b->fields, b->field_count * sizeof *b->fields) ||
         (b->count && (memcmp(scan.members.data, b->members.data, (size_t)b->member_count * sizeof(bzi_tar_member)) ||
                       memcmp(scan.begins.data, b->begins.data, (size_t)b->count * sizeof(uint32_t))))))
        status = bzi_tar_fail_index(b, "it is older than the tar, and of other members", 0, err);
    bzi_tar_build_free(&scan);
    return status;
}

/* What was built, in memory of its own size; "name" and the target. */
static bzna_status bzi_tar_finish(bzi_tar_build *b, bzna_error *err)
{
    const bzi_memory *memory = &b->c->host->memory;
    bzi_container *c = b->c;
    bzi_tar *tar = b->tar;
    uint32_t end = (uint32_t)b->member_count;
    if (b->left_out)
        bzi_log(c->host, BZNA_LOG_WARNING, BZNA_OK,
                "%s: %u members are left out: their fields' names have more than %d bytes; the first is at byte %llu",
                c->name, b->left_out, BZNA_NAME_MAX - 1, (unsigned long long)b->left_out_at);
    if (b->count == 0)
        return BZI_FAIL(err, BZNA_E_NO_SAMPLES, "the tar has no files that are called KEY.FIELD");
    memcpy(b->begins.data + b->count * sizeof end, &end, sizeof end);
    tar->key_field = b->field_count;
    for (uint32_t i = 0; i < b->field_count; i++) {
        if (!strcmp(b->fields[i].name, "cls"))
            c->target_field = i;
        if (!strcmp(b->fields[i].name, "name"))
            tar->key_field = BZI_NO_FIELD;
    }
    if (tar->key_field != BZI_NO_FIELD)
        b->fields[b->field_count++] = (bzi_field){ BZNA_FIELD_TEXT, 0, "name" };
    c->count = b->count;
    tar->member_count = b->member_count;
    c->field_count = b->field_count;
    tar->members = bzi_alloc_copy(memory, b->members.data, b->member_count, sizeof *tar->members);
    tar->begins = bzi_alloc_copy(memory, b->begins.data, b->count + 1, sizeof *tar->begins);
    c->fields = tar->fields = bzi_alloc_copy(memory, b->fields, b->field_count, sizeof *tar->fields);
    if (!tar->members || !tar->begins || !tar->fields)
        return bzi_fail_memory(err, "the index of a tar");
    c->target_inside = c->target_field != BZI_NO_FIELD;
    for (uint64_t i = 0; i < tar->member_count; i++)
        c->target_count += tar->members[i].field == c->target_field;
    c->target_count = bzi_min(c->target_count, c->count);   /* a field twice in a sample: it fails when it is used */
    return BZNA_OK;
}

static bzna_status bzi_tar_open(bzi_container *c, const bzna_dataset_config *config, bzna_error *err)
{
    bzi_tar_build b;
    bzna_status status;
    (void)config;
    memset(&b, 0, sizeof b);
    b.c = c;
    b.tar = c->own;
    if ((status = bzi_tar_read_index(&b, err)) == BZNA_AGAIN)
        status = bzi_tar_scan(&b, err);
    else if (status == BZNA_OK && b.is_old)
        status = bzi_tar_confirm(&b, err);
    if (status == BZNA_OK)
        status = bzi_tar_finish(&b, err);
    bzi_tar_build_free(&b);
    return status;
}


/* ==== 29. Containers: tar, samples ===================================================================================
 * Calls: rooms 2, 5-6, 20-21, 24, 27-28. */

/* Where the headers of a sample's first member begin: where the sample before ends. */
static uint64_t bzi_tar_begin(const bzi_tar *tar, uint64_t index)
{
    const uint32_t first = tar->begins[index];
    return first ? bzi_tar_round(bzi_tar_member_end(&tar->members[first - 1])) : 0;
}

/* From the first member's headers to the last one's end. Headers that describe it, which most writers of shards put
 * there, have the key; but what else stands before it may be long. */
static bzna_status bzi_tar_locate(const bzi_container *c, uint64_t index, bzi_extent *extent, bzna_error *err)
{
    const bzi_tar *tar = c->own;
    const bzi_tar_member *first = tar->members + tar->begins[index], *last = tar->members + tar->begins[index + 1] - 1;
    const uint64_t begin = bzi_tar_begin(tar, index);
    uint64_t places[BZI_LIMIT_FIELDS] = { 0 };              /* no member lies at 0: its header is there */
    for (const bzi_tar_member *m = first; m <= last; m++) {
        if (places[m->field])
            return bzi_fail(err, BZNA_E_BOX, m->offset - BZI_TAR_BLOCK, 0, 0,
                            "it has the field \"%s\" twice, at byte %llu and at byte %llu", tar->fields[m->field].name,
                            (unsigned long long)places[m->field] - BZI_TAR_BLOCK,
                            (unsigned long long)m->offset - BZI_TAR_BLOCK);
        places[m->field] = m->offset;
    }
    extent->offset = first->offset - begin > BZI_WINDOW_READ ? first->offset - BZI_TAR_BLOCK : begin;
    extent->size = bzi_tar_member_end(last) - extent->offset;
    return BZNA_OK;
}

/* The key, from the headers of the sample's first member. Of a sample that was read they are at hand, unless they are
 * long: nothing is read or allocated. */
static bzna_status bzi_tar_key(const bzi_container *c, const bzi_sample *sample, bzi_value *value, bzna_error *err)
{
    const bzi_tar *tar = c->own;
    const uint64_t offset = tar->members[tar->begins[sample->index]].offset, begin = bzi_tar_begin(tar, sample->index);
    const int at_hand = sample->bytes && sample->extent.offset == begin;
    bzi_source bytes = { .size = 0 };
    bzi_tar_walk walk;
    bzna_status status = BZNA_OK;
    bzi_source_open_memory(&bytes, sample->bytes, sample->extent.size);
    bzi_tar_walk_begin(&walk, at_hand ? &bytes : &c->source, &c->host->memory,
                       at_hand ? bytes.map : c->source.in_memory ? c->source.map : NULL, at_hand ? 0 : begin);
    while (status == BZNA_OK && walk.offset + (at_hand ? begin : 0) < offset)
        status = bzi_tar_next(&walk, err);
    if (status == BZNA_OK ? walk.offset + (at_hand ? begin : 0) != offset : at_hand || status == BZNA_END)
        status = bzi_fail(err, BZNA_E_BOX, offset, 0, 0, "its bytes at byte %llu are no member's",
                          (unsigned long long)offset);
    if (status == BZNA_OK)
        bzi_value_put(value, walk.name, bzi_tar_split(walk.name, walk.name_size));
    bzi_tar_walk_end(&walk);
    return status;
}

/* The bytes of a member of a sample that was read. Of what an index said, the header is asked again. */
static bzna_status bzi_tar_bytes(const bzi_tar *tar, const bzi_sample *sample, const bzi_tar_member *m, bzi_span *bytes,
                                 bzna_error *err)
{
    const uint8_t *data = sample->bytes + (m->offset - sample->extent.offset), *header = data - BZI_TAR_BLOCK;
    uint64_t size;
    *bytes = (bzi_span){ data, bzi_tar_member_size(m) };
    if (!tar->from_index || (bzi_tar_is_header(header) && bzi_tar_number(header + 124, 12, &size) &&
                             size == bytes->size && (header[156] == 0 || header[156] == '0' || header[156] == '7')))
        return BZNA_OK;
    return bzi_fail(err, BZNA_E_BOX, m->offset - BZI_TAR_BLOCK, 0, 0,
                    "the header at byte %llu is not what the .idx file says: remove it, or write it again: bzna index",
                    (unsigned long long)m->offset - BZI_TAR_BLOCK);
}

static bzna_status bzi_tar_field(const bzi_container *c, const bzi_sample *sample, uint32_t number, bzi_value *value,
                                 bzna_error *err)
{
    const bzi_tar *tar = c->own;
    const bzi_tar_member *m = tar->members + tar->begins[sample->index],
                         *end = tar->members + tar->begins[sample->index + 1];
    bzi_span bytes;
    bzna_status status;
    int64_t integer;
    char text[24];
    if (number == tar->key_field)
        return bzi_tar_key(c, sample, value, err);
    while (m < end && m->field != number)
        m++;
    value->absent = m == end;
    if (m == end || (status = bzi_tar_bytes(tar, sample, m, &bytes, err)) != BZNA_OK)
        return m == end ? BZNA_OK : status;
    if (tar->fields[number].kind != BZNA_FIELD_INTEGER) {
        bzi_value_put(value, bytes.data, bytes.size);
        return BZNA_OK;
    }
    if (bzi_span_signed(bytes, &integer)) {
        bzi_value_put(value, &integer, sizeof integer);
        return BZNA_OK;
    }
    bzi_text_copy(text, sizeof text, bytes.data, bytes.size);
    bzi_text_printable(text);
    return bzi_fail(err, BZNA_E_BOX, m->offset, 0, 0, "its %s at byte %llu is no integer: \"%s\"",
                    tar->fields[number].name, (unsigned long long)m->offset, text);
}

static bzna_status bzi_tar_images(const bzi_container *c, const bzi_sample *sample, bzi_scratch *scratch,
                                  bzna_sample *out, bzna_error *err)
{
    const bzi_tar *tar = c->own;
    (void)scratch;
    (void)err;
    for (uint32_t i = tar->begins[sample->index]; i < tar->begins[sample->index + 1]; i++) {
        const bzi_field *field = &tar->fields[tar->members[i].field];
        if (field->kind == BZNA_FIELD_PICTURE && out->image_count < BZNA_IMAGES_MAX)
            memcpy(out->image_names[out->image_count++], field->name, BZNA_NAME_MAX);
    }
    return BZNA_OK;
}

/* The field asked for, whatever its name says that it is; without a name, and as "image", the sample's first
 * picture. */
static bzna_status bzi_tar_image(const bzi_container *c, const bzi_sample *sample, const bzi_pick *pick,
                                 bzi_scratch *scratch, bzi_image *image, bzna_error *err)
{
    const bzi_tar *tar = c->own;
    const char *const name = pick->name && strcmp(pick->name, "image") ? pick->name : NULL;
    bzi_span bytes;
    for (uint32_t i = tar->begins[sample->index]; i < tar->begins[sample->index + 1]; i++) {
        const bzi_tar_member *m = &tar->members[i];
        const bzi_field *field = &tar->fields[m->field];
        if (name ? strcmp(field->name, name) != 0 : field->kind != BZNA_FIELD_PICTURE)
            continue;
        if (bzi_tar_bytes(tar, sample, m, &bytes, err) != BZNA_OK)
            return err->status;
        return bzi_file_image(bytes, m->offset, scratch, image, err);
    }
    return bzi_container_fail_image(name, err);
}

/* Tells files apart: sizes, and where the samples at both ends lie. */
static uint64_t bzi_tar_fingerprint(const bzi_container *c, uint64_t hash)
{
    const bzi_tar *tar = c->own;
    uint64_t words[2] = { c->source.size, c->count };
    hash = bzi_hash(hash, words, sizeof words);
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
    .open = bzi_tar_open,
    .locate = bzi_tar_locate,
    .field = bzi_tar_field,
    .images = bzi_tar_images,
    .image = bzi_tar_image,
    .fingerprint = bzi_tar_fingerprint,
    .close = bzi_tar_close
};


/* ==== 30. Containers: RecordIO =======================================================================================
 * Calls: rooms 2, 4-6, 20-21, 24. MXNet's .rec: records end to end, each of a picture and its labels, or of any bytes.
 * Where they begin, NAME.idx beside NAME.rec says, else one scan over their headers: 8 bytes a record. An index is not
 * believed: that of an older time must be what a scan finds, and each record's header is checked when it is read. A
 * record is written in parts where its own bytes hold the magic number; it becomes one part when it is read, in the
 * memory that it was read into. */

#define BZI_RECORDIO_MAGIC  0xced7230au
#define BZI_RECORDIO_MAX    ((1u << 29) - 1)      /* bytes of a part, and of a record: its length has 29 bits */

enum { BZI_RECORDIO_WHOLE, BZI_RECORDIO_FIRST, BZI_RECORDIO_MIDDLE, BZI_RECORDIO_LAST };

typedef struct bzi_recordio {
    uint64_t *offsets;                /* of the records, ascending; behind them the size of the file */
    uint64_t  room;
    bzi_list  list;                   /* by index; without rows where there is none */
} bzi_recordio;

/* A part: which of its record's, and where its bytes lie. */
typedef struct bzi_recordio_part {
    uint32_t which;                   /* BZI_RECORDIO_WHOLE, ... */
    uint64_t length, next;            /* next: where the part after it begins, as seen from its header */
} bzi_recordio_part;

/* Returns 0 where no part begins. */
static int bzi_recordio_header(const uint8_t header[8], bzi_recordio_part *part)
{
    const uint32_t word = bzi_le32(header + 4);
    part->which = word >> 29;
    part->length = word & BZI_RECORDIO_MAX;
    part->next = 8 + ((part->length + 3) & ~(uint64_t)3);
    return bzi_le32(header) == BZI_RECORDIO_MAGIC;
}

static int bzi_recordio_probe(const uint8_t *head, uint64_t size)
{
    bzi_recordio_part part;
    return size >= 8 && bzi_recordio_header(head, &part) && part.which <= BZI_RECORDIO_LAST;
}

static void bzi_recordio_close(bzi_container *c)
{
    const bzi_memory *memory = &c->host->memory;
    bzi_recordio *own = c->own;
    bzi_release(memory, own->offsets, own->room, sizeof *own->offsets);
    bzi_list_close(&own->list, memory);
}

/* --- The scan --- */

/* A walk over the headers of all parts. */
typedef struct bzi_recordio_scan {
    const bzi_container *c;
    bzi_window window;                /* over the file */
    bzi_buffer offsets;               /* found so far */
    uint64_t   count;
    int        in_parts;              /* inside of a record in parts */
} bzi_recordio_scan;

static bzna_status bzi_recordio_fail_scan(uint64_t at, bzna_status status, const char *what, bzna_error *err)
{
    return bzi_fail(err, status, at, 0, 0, "%s at byte %llu: without an .idx, records can't be found from there on",
                    what, (unsigned long long)at);
}

/* A part that does not go on with the record before it begins one, even where none may begin so: that one fails by
 * itself when it is read. */
static int bzi_recordio_begins(bzi_recordio_scan *scan, uint32_t which)
{
    const int goes_on = scan->in_parts && (which == BZI_RECORDIO_MIDDLE || which == BZI_RECORDIO_LAST);
    scan->in_parts = which == BZI_RECORDIO_FIRST || (goes_on && which == BZI_RECORDIO_MIDDLE);
    return !goes_on;
}

static bzna_status bzi_recordio_walk(bzi_recordio_scan *scan, bzna_error *err)
{
    const uint64_t size = scan->c->source.size;
    bzi_recordio_part part;
    const uint8_t *header = NULL;
    bzna_status status;
    for (uint64_t at = 0; at < size; at += part.next) {
        if (size - at < 8)
            return bzi_recordio_fail_scan(at, BZNA_E_TRUNCATED, "the file ends in the header", err);
        if ((status = bzi_window_view(&scan->window, at, 8, &header, err)) != BZNA_OK)
            return status;
        if (!bzi_recordio_header(header, &part))
            return bzi_recordio_fail_scan(at, BZNA_E_FORMAT, "no record begins", err);
        if (part.length > size - at - 8)
            return bzi_recordio_fail_scan(at, BZNA_E_TRUNCATED, "the file ends in the record", err);
        if (!bzi_recordio_begins(scan, part.which))
            continue;
        if (!bzi_buffer_reserve(&scan->c->host->memory, &scan->offsets, (scan->count + 1) * sizeof at, 1))
            return bzi_fail_memory(err, "the index of a RecordIO file");
        memcpy(scan->offsets.data + scan->count++ * sizeof at, &at, sizeof at);
    }
    return BZNA_OK;
}

/* Room for so many offsets, and the size of the file behind them. */
static bzna_status bzi_recordio_make(bzi_container *c, uint64_t count, bzna_error *err)
{
    bzi_recordio *own = c->own;
    own->offsets = bzi_alloc(&c->host->memory, count + 1, sizeof *own->offsets, 16);
    if (!own->offsets)
        return bzi_fail_memory(err, "the index of a RecordIO file");
    own->room = count + 1;
    own->offsets[count] = c->source.size;
    c->count = count;
    return BZNA_OK;
}

/* Finds the records; of a file that has an index already, whether it says the same. */
static bzna_status bzi_recordio_find(bzi_container *c, int *is_same, bzna_error *err)
{
    bzi_recordio *own = c->own;
    bzi_recordio_scan scan;
    bzna_status status;
    memset(&scan, 0, sizeof scan);
    scan.c = c;
    scan.window = (bzi_window){ .source = &c->source, .memory = &c->host->memory, .map = c->source.map };
    status = bzi_recordio_walk(&scan, err);
    if (is_same) {
        *is_same = status == BZNA_OK && scan.count == c->count &&
                   !memcmp(scan.offsets.data, own->offsets, (size_t)(scan.count * sizeof *own->offsets));
        status = status == BZNA_E_FORMAT || status == BZNA_E_TRUNCATED ? BZNA_OK : status;
    } else if (status == BZNA_OK && (status = bzi_recordio_make(c, scan.count, err)) == BZNA_OK) {
        memcpy(own->offsets, scan.offsets.data, (size_t)(scan.count * sizeof *own->offsets));
    }
    bzi_buffer_free(&c->host->memory, &scan.window.bytes);
    bzi_buffer_free(&c->host->memory, &scan.offsets);
    return status;
}

/* --- The index beside the file --- */

static bzna_status bzi_recordio_fail_idx(uint64_t at, const char *what, uint64_t line, bzna_error *err)
{
    char place[40] = "";
    if (line)
        snprintf(place, sizeof place, "line %llu: ", (unsigned long long)line);
    return bzi_fail(err, BZNA_E_FORMAT, at, 0, 0,
                    "%s%s: it is not of the .rec as it is now; remove it, or write it anew (bzna index)", place, what);
}

static int bzi_recordio_is_before(const void *a, const void *b) { return *(const uint64_t *)a < *(const uint64_t *)b; }

/* Lines of key and offset, with a tab between them. Pre: there is room for as many offsets as the text has lines. */
static bzna_status bzi_recordio_parse_idx(bzi_container *c, bzi_span text, bzna_error *err)
{
    uint64_t *offsets = ((bzi_recordio *)c->own)->offsets, count = 0, line = 0;
    const uint8_t *at = text.data, *end = at + text.size, *tab;
    for (const uint8_t *stop; at < end; at = stop + 1) {
        stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        line++;
        if (bzi_span_trim(bzi_span_between(at, stop)).size == 0)
            continue;
        for (tab = stop; tab > at && tab[-1] != '\t'; tab--)
            continue;
        if (tab == at || !bzi_span_integer(bzi_span_trim(bzi_span_between(tab, stop)), &offsets[count]))
            return bzi_recordio_fail_idx((uint64_t)(at - text.data), "no key, tab and offset", line, err);
        if (offsets[count] % 4 || offsets[count] >= c->source.size || c->source.size - offsets[count] < 8)
            return bzi_recordio_fail_idx(offsets[count], "no record can begin at its offset", line, err);
        count++;
    }
    if (count == 0)
        return bzi_recordio_fail_idx(0, "it is empty", 0, err);
    for (uint64_t i = 1; i < count; i++)
        if (offsets[i] <= offsets[i - 1]) {
            bzi_sort(offsets, count, sizeof *offsets, bzi_recordio_is_before);
            break;
        }
    for (uint64_t i = 1; i < count; i++)
        if (offsets[i] == offsets[i - 1])
            return bzi_recordio_fail_idx(offsets[i], "two lines have the same offset", 0, err);
    offsets[count] = c->source.size;
    c->count = count;
    return BZNA_OK;
}

/* Whether the index is this file's. That of the same time or later is looked at in two places; one that is older may be
 * so because the two files were copied one after the other: then it is what a scan finds. */
static bzna_status bzi_recordio_check_idx(bzi_container *c, uint32_t is_old, bzna_error *err)
{
    const bzi_recordio *own = c->own;
    const uint64_t ends[2] = { own->offsets[0], own->offsets[c->count - 1] };
    bzi_recordio_part part;
    uint8_t header[8];
    int is_same = 1;
    bzna_status status;
    if (is_old && (status = bzi_recordio_find(c, &is_same, err)) != BZNA_OK)
        return status;
    if (!is_same)
        return bzi_recordio_fail_idx(BZNA_NO_OFFSET, "older than the .rec, and of other records", 0, err);
    for (int i = 0; i < 2; i++) {
        if ((status = bzi_source_read(&c->source, ends[i], header, sizeof header, err)) != BZNA_OK)
            return status;
        if (!bzi_recordio_header(header, &part))
            return bzi_recordio_fail_idx(ends[i], i ? "no record begins at its last offset" :
                                         "no record begins at its first offset", 0, err);
    }
    return BZNA_OK;
}

/* NAME.idx of NAME.rec. BZNA_AGAIN: there is none. */
static bzna_status bzi_recordio_open_idx(bzi_container *c, bzna_error *err)
{
    bzi_idx idx;
    uint64_t lines = 1;
    bzna_status status = bzi_idx_open(&idx, c->host, &c->source, ".rec", err);
    if (status != BZNA_OK)
        return status;
    for (uint64_t i = 0; i < idx.text.size; i++)
        lines += idx.text.data[i] == '\n';
    if ((status = bzi_recordio_make(c, lines, err)) != BZNA_OK ||
        (status = bzi_recordio_parse_idx(c, idx.text, err)) != BZNA_OK ||
        (status = bzi_recordio_check_idx(c, idx.is_old, err)) != BZNA_OK)
        bzi_error_prefix(err, idx.path);
    bzi_idx_close(&idx, c->host);
    return status;
}

enum { BZI_RECORDIO_IMAGE, BZI_RECORDIO_LABEL, BZI_RECORDIO_ID, BZI_RECORDIO_TARGET, BZI_RECORDIO_NAME,
       BZI_RECORDIO_RECORD, BZI_RECORDIO_FIELDS };

static const bzi_field bzi_recordio_fields[BZI_RECORDIO_FIELDS] = {
    { BZNA_FIELD_PICTURE, 1, "image" },  { BZNA_FIELD_VECTOR, 1, "label" }, { BZNA_FIELD_INTEGER, 1, "id" },
    { BZNA_FIELD_INTEGER, 1, "target" }, { BZNA_FIELD_TEXT, 1, "name" },    { BZNA_FIELD_BYTES, 1, "record" },
};

static bzna_status bzi_recordio_open(bzi_container *c, const bzna_dataset_config *config, bzna_error *err)
{
    bzi_recordio *own = c->own;
    bzna_status status = BZNA_OK;
    if (config->list && ((status = bzi_list_open(&own->list, &c->host->memory, config->list, err)) != BZNA_OK ||
                         (status = bzi_list_sort(&own->list, config->list, err)) != BZNA_OK))
        return status;
    if ((status = bzi_recordio_open_idx(c, err)) == BZNA_AGAIN)
        status = bzi_recordio_find(c, NULL, err);
    c->target_count = c->count;       /* which of them have none, is known when they are read */
    c->fields = bzi_recordio_fields;
    c->field_count = BZI_RECORDIO_FIELDS;
    c->target_field = BZI_RECORDIO_TARGET;
    c->target_inside = 1;
    return status;
}

/* --- Records --- */

static bzna_status bzi_recordio_locate(const bzi_container *c, uint64_t index, bzi_extent *extent, bzna_error *err)
{
    const bzi_recordio *own = c->own;
    (void)err;
    extent->offset = own->offsets[index];
    extent->size = own->offsets[index + 1] - own->offsets[index];
    return BZNA_OK;
}

static bzna_status bzi_recordio_fail(const bzi_sample *sample, uint64_t at, bzna_status status, const char *what,
                                     uint64_t number, bzna_error *err)
{
    at += sample->extent.offset;
    return bzi_fail(err, status, at, 0, 0, "the record at byte %llu: %s (%llu) at byte %llu",
                    (unsigned long long)sample->extent.offset, what, (unsigned long long)number,
                    (unsigned long long)at);
}

/* The part at `at` of a sample, checked. */
static bzna_status bzi_recordio_part_at(const bzi_sample *sample, uint64_t at, bzi_recordio_part *part,
                                        bzna_error *err)
{
    const uint64_t size = sample->extent.size;
    if (at > size || size - at < 8)
        return bzi_recordio_fail(sample, bzi_min(at, size), BZNA_E_TRUNCATED, "its last part is missing", size, err);
    if (!bzi_recordio_header(sample->bytes + at, part))
        return bzi_recordio_fail(sample, at, BZNA_E_FORMAT, "no magic number", bzi_le32(sample->bytes + at), err);
    if (part->length > size - at - 8)
        return bzi_recordio_fail(sample, at, BZNA_E_TRUNCATED, "a part of more bytes than are left", part->length,
                                 err);
    if (at ? part->which != BZI_RECORDIO_MIDDLE && part->which != BZI_RECORDIO_LAST : part->which > BZI_RECORDIO_FIRST)
        return bzi_recordio_fail(sample, at, BZNA_E_FORMAT, "a part out of order, cflag", part->which, err);
    return BZNA_OK;
}

static void bzi_recordio_put_le32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> 8 * i);
}

/* Makes one part of a record of several. In place: what is joined is shorter, since each header of a part but the first
 * gives way to the magic number that stood there. */
static bzna_status bzi_recordio_prepare(const bzi_container *c, const bzi_sample *sample, uint8_t *writable,
                                        bzna_error *err)
{
    uint64_t at = 0, end = 8;
    bzi_recordio_part part = { 0, 0, 0 };
    (void)c;
    do {
        bzna_status status = bzi_recordio_part_at(sample, at, &part, err);
        if (status != BZNA_OK || part.which == BZI_RECORDIO_WHOLE)
            return status;
        if (!writable)
            return BZNA_AGAIN;
        if (at) {
            bzi_recordio_put_le32(writable + end, BZI_RECORDIO_MAGIC);
            end += 4;
        }
        memmove(writable + end, sample->bytes + at + 8, (size_t)part.length);
        end += part.length;
        at += part.next;
    } while (part.which != BZI_RECORDIO_LAST);
    if (end - 8 > BZI_RECORDIO_MAX)
        return bzi_recordio_fail(sample, 0, BZNA_E_LIMIT, "too long for a record", end - 8, err);
    bzi_recordio_put_le32(writable + 4, (uint32_t)(end - 8));
    return BZNA_OK;
}

/* What a record says of its picture: {u32 flag, f32 label, u64 id, u64 id2}, flag numbers unless that is 0, the
 * picture. */
typedef struct bzi_recordio_entry {
    uint64_t       id;
    uint64_t       label_count;
    const uint8_t *labels;            /* in the record, little-endian; or NULL, */
    const bzi_list_row *row;          /* and the list has them; NULL: there is no list */
    uint64_t       picture_at;        /* in the sample's bytes */
    uint64_t       picture_size;
} bzi_recordio_entry;

/* Pre: the sample was prepared: its record is whole, and lies in its bytes. */
static bzi_span bzi_recordio_payload(const bzi_sample *sample)
{
    bzi_span s = { sample->bytes + 8, bzi_le32(sample->bytes + 4) & BZI_RECORDIO_MAX };
    return s;
}

static bzna_status bzi_recordio_read(const bzi_container *c, const bzi_sample *sample, bzi_recordio_entry *entry,
                                     bzna_error *err)
{
    const bzi_recordio *own = c->own;
    const bzi_span payload = bzi_recordio_payload(sample);
    uint64_t flag;
    if (payload.size < 24)
        return bzi_recordio_fail(sample, 8, BZNA_E_FORMAT, "too short for a picture and its label", payload.size, err);
    flag = bzi_le32(payload.data);
    if (flag * 4 > payload.size - 24)
        return bzi_recordio_fail(sample, 8, BZNA_E_FORMAT, "more labels than it has room for", flag, err);
    entry->id = bzi_le64(payload.data + 8);
    entry->label_count = flag ? flag : 1;
    entry->labels = payload.data + (flag ? 24 : 4);
    entry->picture_at = 8 + 24 + flag * 4;
    entry->picture_size = payload.size - 24 - flag * 4;
    entry->row = own->list.count ? bzi_list_find(&own->list, entry->id) : NULL;
    if (!own->list.count)
        return BZNA_OK;
    if (!entry->row)
        return bzi_recordio_fail(sample, 16, BZNA_E_NOT_FOUND, "dataset_config.list has no line of its id", entry->id,
                                 err);
    entry->label_count = entry->row->label_count;
    entry->labels = NULL;
    return BZNA_OK;
}

static float bzi_recordio_label(const bzi_container *c, const bzi_recordio_entry *entry, uint64_t i)
{
    uint32_t bits;
    float value;
    if (!entry->labels)
        return bzi_list_row_labels(&((const bzi_recordio *)c->own)->list, entry->row)[i];
    bits = bzi_le32(entry->labels + 4 * i);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* --- Fields --- */

static void bzi_recordio_put_labels(const bzi_container *c, const bzi_recordio_entry *entry, bzi_value *value)
{
    value->size = entry->label_count * sizeof(float);
    value->absent = entry->label_count == 0;
    for (uint64_t i = 0; i < entry->label_count && value->size <= value->capacity; i++) {
        const float label = bzi_recordio_label(c, entry, i);
        memcpy(value->data + i * sizeof label, &label, sizeof label);
    }
}

static void bzi_recordio_put_target(const bzi_container *c, const bzi_recordio_entry *entry, bzi_value *value)
{
    int64_t target = BZNA_TARGET_NONE;
    float label;
    value->absent = 1;
    if (entry->label_count != 1)
        return;
    label = bzi_recordio_label(c, entry, 0);
    value->absent = !bzi_label_target(&label, 1, &target);
    if (!value->absent)
        bzi_value_put(value, &target, sizeof target);
}

/* The list's path, or the id. */
static void bzi_recordio_put_name(const bzi_container *c, const bzi_recordio_entry *entry, bzi_value *value)
{
    char digits[24];
    bzi_span path;
    if (entry->row) {
        path = bzi_list_path(&((const bzi_recordio *)c->own)->list, entry->row);
        bzi_value_put(value, path.data, path.size);
        return;
    }
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)entry->id);
    bzi_value_put(value, digits, strlen(digits));
}

static bzna_status bzi_recordio_field(const bzi_container *c, const bzi_sample *sample, uint32_t number,
                                      bzi_value *value, bzna_error *err)
{
    const bzi_span payload = bzi_recordio_payload(sample);
    bzi_recordio_entry entry;
    bzna_status status;
    if (number == BZI_RECORDIO_RECORD) {
        bzi_value_put(value, payload.data, payload.size);
        return BZNA_OK;
    }
    if ((status = bzi_recordio_read(c, sample, &entry, err)) != BZNA_OK)
        return status;
    if (number == BZI_RECORDIO_LABEL)
        bzi_recordio_put_labels(c, &entry, value);
    else if (number == BZI_RECORDIO_TARGET)
        bzi_recordio_put_target(c, &entry, value);
    else if (number == BZI_RECORDIO_NAME)
        bzi_recordio_put_name(c, &entry, value);
    else
        bzi_value_put(value, &(int64_t){ (int64_t)entry.id }, sizeof(int64_t));
    return BZNA_OK;
}

static bzna_status bzi_recordio_image(const bzi_container *c, const bzi_sample *sample, const bzi_pick *pick,
                                      bzi_scratch *scratch, bzi_image *image, bzna_error *err)
{
    bzi_recordio_entry entry;
    bzi_span picture;
    bzna_status status;
    if (pick->name && strcmp(pick->name, "image"))
        return bzi_container_fail_image(pick->name, err);
    if ((status = bzi_recordio_read(c, sample, &entry, err)) != BZNA_OK)
        return status;
    picture.data = sample->bytes + entry.picture_at;
    picture.size = entry.picture_size;
    return bzi_file_image(picture, sample->extent.offset + entry.picture_at, scratch, image, err);
}

/* Tells files apart: sizes, the index entries at both ends, and the list. */
static uint64_t bzi_recordio_fingerprint(const bzi_container *c, uint64_t hash)
{
    const bzi_recordio *own = c->own;
    const uint64_t end = bzi_min(c->count, 64), words[2] = { c->source.size, c->count };
    hash = bzi_hash(hash, words, sizeof words);
    hash = bzi_hash(hash, own->list.text, (size_t)own->list.size);
    hash = bzi_hash(hash, own->offsets, (size_t)end * sizeof *own->offsets);
    return bzi_hash(hash, own->offsets + (c->count - end), (size_t)end * sizeof *own->offsets);
}

static const bzi_container_ops bzi_recordio_ops = {
    .name = "RecordIO",
    .own_bytes = sizeof(bzi_recordio),
    .still = 1,
    .listed = 1,
    .probe = bzi_recordio_probe,
    .open = bzi_recordio_open,
    .locate = bzi_recordio_locate,
    .field = bzi_recordio_field,
    .image = bzi_recordio_image,
    .fingerprint = bzi_recordio_fingerprint,
    .close = bzi_recordio_close,
    .prepare = bzi_recordio_prepare
};

#endif


/* ==== 31. Containers: raw records ====================================================================================
 * Calls: rooms 2, 5, 12, 16, 20. Files of records of one size, which say nothing of themselves: dataset_config.records
 * does. MNIST, CIFAR, tensors as they are in memory. */

typedef struct bzi_records {
    bzna_records c;                   /* checked; stride and scale are never 0 */
    uint64_t     numbers;             /* of a picture or vector */
    uint64_t     bytes;               /* of a record, up to the end of data and label */
    uint32_t     is_picture;
    uint8_t      layout[2];           /* of pictures: bzna_image.config */
    bzi_field    fields[2];           /* image or data; target or label, or neither */
} bzi_records;

enum { BZI_RECORDS_DATA, BZI_RECORDS_LABEL };

/* Of BZNA_RECORD_...; 0: there is none such. */
static uint32_t bzi_records_type_bytes(uint32_t type)
{
    static const uint8_t bytes[] = { 0, 1, 4, 8, 4 };
    return type < sizeof bytes ? bytes[type] : 0;
}

/* A label that is an integer is a target. */
static int bzi_records_has_target(const bzi_records *own)
{
    return own->c.label_type != BZNA_RECORD_NONE && own->c.label_type != BZNA_RECORD_FLOAT32;
}

static bzna_status bzi_records_fail(const char *field, uint64_t value, const char *why, bzna_error *err)
{
    return BZI_FAIL(err, BZNA_E_ARGUMENT, "dataset_config.records.%s: %llu; %s", field, (unsigned long long)value, why);
}

/* Types and sizes, each by itself. */
static bzna_status bzi_records_check(const bzi_container *c, bzi_records *own, bzna_error *err)
{
    bzna_records *r = &own->c;
    const uint32_t edge = c->host->max_edge_px;
    uint64_t pixels = (uint64_t)r->width * r->height;
    own->is_picture = r->data_type == BZNA_RECORD_UINT8 && (r->channels == 1 || r->channels == 3);
    if (!bzi_records_type_bytes(r->data_type))
        return bzi_records_fail("data_type", r->data_type, "it is 1 to 4", err);
    if (r->label_type && !bzi_records_type_bytes(r->label_type))
        return bzi_records_fail("label_type", r->label_type, "it is 0 to 4", err);
    if (r->layout > BZNA_LAYOUT_NHWC)
        return bzi_records_fail("layout", r->layout, "it is 0 or 1", err);
    if (!pixels)
        return bzi_records_fail(r->width ? "height" : "width", 0, "a size is needed", err);
    if (!r->channels)
        return bzi_records_fail("channels", 0, "1 or more are needed", err);
    if (own->is_picture && (r->width > edge || r->height > edge))
        return bzi_records_fail(r->width > edge ? "width" : "height", r->width > edge ? r->width : r->height,
                                "more than max_edge_px", err);
    if (own->is_picture && (r->scale != 0 || r->bias != 0))
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "dataset_config.records.scale, bias: they have no effect on pictures, "
                        "which the loader normalizes");
    if (!own->is_picture && r->layout)
        return bzi_records_fail("layout", r->layout, "it has no effect on vectors", err);
    if (!r->label_type && r->label_offset)
        return bzi_records_fail("label_offset", r->label_offset, "it has no effect without label_type", err);
    if (!isfinite(r->scale) || !isfinite(r->bias))
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "dataset_config.records.scale, bias: %g, %g", (double)r->scale,
                        (double)r->bias);
    if (!bzi_mul(pixels, r->channels, &own->numbers) || own->numbers > UINT64_MAX / 16)
        return bzi_records_fail("channels", r->channels, "too many for this width and height", err);
    return BZNA_OK;
}

/* What a record needs, and that it has it. */
static bzna_status bzi_records_measure(const bzi_container *c, bzi_records *own, bzna_error *err)
{
    bzna_records *r = &own->c;
    const uint64_t limit = c->host->max_sample_bytes;
    uint64_t data_end, label_end = 0;
    if (!bzi_add(r->data_offset, own->numbers * bzi_records_type_bytes(r->data_type), &data_end) || data_end > limit)
        return bzi_records_fail("data_offset", r->data_offset, "data end past max_sample_bytes", err);
    if (r->label_type &&
        (!bzi_add(r->label_offset, bzi_records_type_bytes(r->label_type), &label_end) || label_end > limit))
        return bzi_records_fail("label_offset", r->label_offset, "the label ends past max_sample_bytes", err);
    own->bytes = data_end > label_end ? data_end : label_end;
    if (r->stride && r->stride < own->bytes)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "dataset_config.records.stride: %llu; data and label need %llu bytes",
                        (unsigned long long)r->stride, (unsigned long long)own->bytes);
    r->stride = r->stride ? r->stride : own->bytes;
    r->scale = r->scale != 0 ? r->scale : 1;
    own->layout[0] = (uint8_t)r->channels;
    own->layout[1] = (uint8_t)r->layout;
    return BZNA_OK;
}

/* A file that is not made of whole records is mostly one whose records are others. */
static bzna_status bzi_records_count(bzi_container *c, const bzi_records *own, bzna_error *err)
{
    const uint64_t header = own->c.header_bytes, size = c->source.size, stride = own->c.stride;
    const uint64_t tail = size > header ? (size - header) % stride : 0;
    if (size <= header)
        return bzi_fail(err, BZNA_E_NO_SAMPLES, size, 0, 0, "nothing comes behind the header of %llu bytes "
                        "(dataset_config.records.header_bytes)", (unsigned long long)header);
    if (tail)
        return bzi_fail(err, BZNA_E_TRUNCATED, size - tail, 0, 0, "%llu bytes at byte %llu are no whole record of %llu "
                        "(dataset_config.records: header_bytes, stride, sizes)", (unsigned long long)tail,
                        (unsigned long long)(size - tail), (unsigned long long)stride);
    c->count = (size - header) / stride;
    return BZNA_OK;
}

static bzna_status bzi_records_open(bzi_container *c, const bzna_dataset_config *config, bzna_error *err)
{
    bzi_records *own = c->own;
    bzna_status status;
    if (!config->records)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "dataset_config.records: must say what the records are");
    own->c = *config->records;
    if ((status = bzi_records_check(c, own, err)) != BZNA_OK ||
        (status = bzi_records_measure(c, own, err)) != BZNA_OK ||
        (status = bzi_records_count(c, own, err)) != BZNA_OK)
        return status;
    if (own->is_picture)
        bzi_container_add_field(c, own->fields, BZNA_FIELD_PICTURE, 1, "image");
    else
        bzi_container_add_field(c, own->fields, BZNA_FIELD_VECTOR, 1, "data");
    if (own->c.label_type == BZNA_RECORD_FLOAT32)
        bzi_container_add_field(c, own->fields, BZNA_FIELD_VECTOR, 1, "label");
    if (!bzi_records_has_target(own))
        return BZNA_OK;
    bzi_container_add_field(c, own->fields, BZNA_FIELD_INTEGER, 1, "target");
    c->target_count = c->count;
    c->target_field = BZI_RECORDS_LABEL;
    c->target_inside = 1;
    return BZNA_OK;
}

static bzna_status bzi_records_locate(const bzi_container *c, uint64_t index, bzi_extent *extent, bzna_error *err)
{
    const bzi_records *own = c->own;
    (void)err;
    extent->offset = own->c.header_bytes + index * own->c.stride;
    extent->size = own->bytes;
    return BZNA_OK;
}

static int64_t bzi_records_integer(const uint8_t *p, uint32_t type)
{
    if (type == BZNA_RECORD_UINT8)
        return *p;
    return type == BZNA_RECORD_INT32 ? (int32_t)bzi_le32(p) : (int64_t)bzi_le64(p);
}

static float bzi_records_number(const uint8_t *p, uint32_t type, float scale, float bias)
{
    const uint32_t bits = type == BZNA_RECORD_FLOAT32 ? bzi_le32(p) : 0;
    double number;
    float value;
    memcpy(&value, &bits, sizeof value);
    number = type == BZNA_RECORD_FLOAT32 ? (double)value : (double)bzi_records_integer(p, type);
    return (float)(number * (double)scale + (double)bias);
}

/* count numbers, as float32. */
static void bzi_records_put_numbers(const uint8_t *from, uint64_t count, const bzi_records *own, int is_data,
                                    bzi_value *value)
{
    const uint32_t type = is_data ? own->c.data_type : own->c.label_type, bytes = bzi_records_type_bytes(type);
    const float scale = is_data ? own->c.scale : 1, bias = is_data ? own->c.bias : 0;
    value->size = count * sizeof(float);
    for (uint64_t i = 0; i < count && value->size <= value->capacity; i++) {
        const float number = bzi_records_number(from + i * bytes, type, scale, bias);
        memcpy(value->data + i * sizeof number, &number, sizeof number);
    }
}

static bzna_status bzi_records_field(const bzi_container *c, const bzi_sample *sample, uint32_t number,
                                     bzi_value *value, bzna_error *err)
{
    const bzi_records *own = c->own;
    const uint8_t *const label = sample->bytes + own->c.label_offset;
    int64_t target;
    (void)err;
    if (number == BZI_RECORDS_DATA) {
        bzi_records_put_numbers(sample->bytes + own->c.data_offset, own->numbers, own, 1, value);
    } else if (!bzi_records_has_target(own)) {
        bzi_records_put_numbers(label, 1, own, 0, value);
    } else {
        target = bzi_records_integer(label, own->c.label_type);
        value->absent = target == BZNA_TARGET_NONE;
        bzi_value_put(value, &target, sizeof target);
    }
    return BZNA_OK;
}

static bzna_status bzi_records_image(const bzi_container *c, const bzi_sample *sample, const bzi_pick *pick,
                                     bzi_scratch *scratch, bzi_image *image, bzna_error *err)
{
    const bzi_records *own = c->own;
    bzna_image coded;
    (void)scratch;
    if (!own->is_picture || (pick->name && strcmp(pick->name, "image")))
        return bzi_container_fail_image(pick->name, err);
    memset(&coded, 0, sizeof coded);
    coded.struct_size = sizeof coded;
    coded.codec = BZNA_CODEC_RAW;
    coded.width = coded.frame_width = own->c.width;
    coded.height = coded.frame_height = own->c.height;
    coded.color = bzi_color_of_raw;
    coded.config = own->layout;
    coded.config_size = sizeof own->layout;
    coded.data = sample->bytes + own->c.data_offset;
    coded.data_size = own->numbers;
    *image = bzi_image_alone(&coded);
    image->data_offset = sample->extent.offset + own->c.data_offset;
    return BZNA_OK;
}

/* Tells files apart: their size, and what is taken for their records. */
static uint64_t bzi_records_fingerprint(const bzi_container *c, uint64_t hash)
{
    const bzna_records *r = &((const bzi_records *)c->own)->c;
    const uint64_t words[] = { c->source.size, r->data_type,   r->layout,       r->width,        r->height,
                               r->channels,    r->header_bytes, r->stride,      r->data_offset,  r->label_offset,
                               r->label_type };
    const float scaling[] = { r->scale, r->bias };
    return bzi_hash(bzi_hash(hash, words, sizeof words), scaling, sizeof scaling);
}

static const bzi_container_ops bzi_records_ops = {
    .name = "records",
    .own_bytes = sizeof(bzi_records),
    .open = bzi_records_open,
    .locate = bzi_records_locate,
    .field = bzi_records_field,
    .image = bzi_records_image,
    .fingerprint = bzi_records_fingerprint
};


/* ==== 32. Paths and patterns =========================================================================================
 * Calls: rooms 2-3, 5, 25. What a caller's path stands for. One that exists stands for itself. Else "::" separates
 * several, braces are expanded ({000..146}, {1..9..2}, {a,b}, nested; the leftmost varies slowest), then *, ? and []
 * match the names of files, in the order of bytes; what follows a backslash stands for itself. A folder that holds
 * archives or shards stands for those. */

#define BZI_SHARD_EXTENSIONS " bzna tar rec "

/* --- Braces --- */

/* The first of two characters that is in no group and not escaped; end: there is none. Pre: braces are balanced. */
static const char *bzi_brace_next(const char *p, const char *end, char one, char other)
{
    uint32_t depth = 0;
    for (; p < end; p++) {
        if (depth == 0 && (*p == one || *p == other))
            return p;
        if (*p == '\\' && p + 1 < end)
            p++;
        else if (*p == '{')
            depth++;
        else if (*p == '}' && depth)
            depth--;
    }
    return end;
}

static bzna_status bzi_brace_check(const char *pattern, bzna_error *err)
{
    uint64_t open[BZI_LIMIT_DEPTH], at;
    uint32_t depth = 0;
    for (at = 0; pattern[at]; at++) {
        if (pattern[at] == '\\' && pattern[at + 1]) {
            at++;
        } else if (pattern[at] == '{') {
            if (depth == BZI_LIMIT_DEPTH)
                return bzi_fail(err, BZNA_E_LIMIT, at, 0, 0, "braces nest deeper than %u at byte %llu of the pattern",
                                BZI_LIMIT_DEPTH, (unsigned long long)at);
            open[depth++] = at;
        } else if (pattern[at] == '}' && depth-- == 0) {
            return bzi_fail(err, BZNA_E_ARGUMENT, at, 0, 0,
                            "the pattern's braces are unbalanced: the } at byte %llu closes none",
                            (unsigned long long)at);
        }
    }
    if (!depth)
        return BZNA_OK;
    return bzi_fail(err, BZNA_E_ARGUMENT, open[depth - 1], 0, 0,
                    "the pattern's braces are unbalanced: the { at byte %llu is not closed",
                    (unsigned long long)open[depth - 1]);
}

/* What {first..last..step} gives: count numbers, or letters. */
typedef struct bzi_brace_range {
    int64_t  first, step;
    uint64_t count;
    int      width;                   /* with zeros before them; 0: as they are */
    int      letters;
} bzi_brace_range;

/* A whole number of at most 18 digits. Returns what follows; NULL: there is none. */
static const char *bzi_brace_number(const char *p, const char *end, int64_t *value)
{
    const int minus = p < end && *p == '-';
    const char *first = p += minus;
    for (*value = 0; p < end && *p >= '0' && *p <= '9' && p - first < 19; p++)
        *value = p - first < 18 ? *value * 10 + (*p - '0') : *value;
    *value = minus ? -*value : *value;
    return p > first && p - first < 19 ? p : NULL;
}

/* A letter, as its place in A to Z, a to z; or a number. Likewise. */
static const char *bzi_brace_bound(const char *p, const char *end, int64_t *value, int *letter)
{
    *letter = p < end && ((*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z'));
    if (!*letter)
        return bzi_brace_number(p, end, value);
    *value = *p >= 'a' ? *p - 'a' + 26 : *p - 'A';
    return p + 1;
}

/* Whether it is padded with zeros. */
static int bzi_brace_is_padded(const char *p, const char *end)
{
    p += *p == '-';
    return *p == '0' && end - p > 1;
}

/* What is between braces, as a range. Returns 0 when it is none. */
static int bzi_brace_range_of(const char *p, const char *end, bzi_brace_range *range)
{
    const char *first_end, *last, *last_end;
    int64_t stop, step = 1;
    int letter;
    if (!(first_end = bzi_brace_bound(p, end, &range->first, &range->letters)) || end - first_end < 3 ||
        memcmp(first_end, "..", 2))
        return 0;
    last = first_end + 2;
    if (!(last_end = bzi_brace_bound(last, end, &stop, &letter)) || letter != range->letters)
        return 0;
    if (last_end < end) {
        if (end - last_end < 3 || memcmp(last_end, "..", 2) || bzi_brace_number(last_end + 2, end, &step) != end)
            return 0;
        step = step < 0 ? -step : step ? step : 1;
    }
    range->step = range->first <= stop ? step : -step;
    range->count = (uint64_t)((stop - range->first) / range->step) + 1;
    range->width = 0;
    if (!letter && (bzi_brace_is_padded(p, first_end) || bzi_brace_is_padded(last, last_end)))
        range->width = (int)(first_end - p > last_end - last ? first_end - p : last_end - last);
    return 1;
}

/* How many texts a pattern gives; at most BZI_LIMIT_PARTS + 1 are counted. */
static uint64_t bzi_brace_count(const char *p, const char *end)
{
    const uint64_t most = BZI_LIMIT_PARTS + 1;
    uint64_t count = 1;
    while ((p = bzi_brace_next(p, end, '{', '{')) < end) {
        const char *close = bzi_brace_next(++p, end, '}', '}');
        bzi_brace_range range;
        uint64_t items = 0;
        if (bzi_brace_range_of(p, close, &range)) {
            items = bzi_min(range.count, most);
        } else {
            for (const char *comma; (comma = bzi_brace_next(p, close, ',', ',')) < close; p = comma + 1)
                items = bzi_min(items + bzi_brace_count(p, comma), most);
            items = bzi_min(items + bzi_brace_count(p, close), most);
        }
        count = bzi_min(count * items, most);
        p = close + 1;
    }
    return count;
}

/* A member of a range. Returns where it ends. */
static char *bzi_brace_write_range(const bzi_brace_range *range, uint64_t number, char *out)
{
    int64_t value = range->first + range->step * (int64_t)number;
    if (!range->letters)
        return out + snprintf(out, 32, "%0*lld", range->width, (long long)value);
    *out = (char)(value < 26 ? 'A' + value : 'a' + (value - 26));
    return out + 1;
}

/* Writes text number i of those. It is not longer than the pattern. Returns where it ends. */
static char *bzi_brace_write(const char *p, const char *end, uint64_t i, char *out)
{
    uint64_t below = bzi_brace_count(p, end);
    while (p < end) {
        const char *open = bzi_brace_next(p, end, '{', '{'), *close, *comma;
        bzi_brace_range range;
        uint64_t item, count;
        memcpy(out, p, (size_t)(open - p));
        out += open - p;
        if (open == end)
            break;
        p = open + 1;
        close = bzi_brace_next(p, end, '}', '}');
        below /= bzi_brace_count(open, close + 1);
        item = i / below;
        i %= below;
        comma = bzi_brace_next(p, close, ',', ',');
        if (bzi_brace_range_of(p, close, &range)) {
            out = bzi_brace_write_range(&range, item, out);
        } else if (comma == close) {                        /* neither: the braces stay */
            *out++ = '{';
            out = bzi_brace_write(p, close, item, out);
            *out++ = '}';
        } else {
            for (; item >= (count = bzi_brace_count(p, comma)); comma = bzi_brace_next(p, close, ',', ',')) {
                item -= count;
                p = comma + 1;
            }
            out = bzi_brace_write(p, comma, item, out);
        }
        p = close + 1;
    }
    return out;
}

/* --- Paths --- */

static bzna_status bzi_paths_add(bzi_names *paths, const char *path, bzna_error *err)
{
    if (paths->count == BZI_LIMIT_PARTS)
        return BZI_FAIL(err, BZNA_E_LIMIT, "more than %u files", BZI_LIMIT_PARTS);
    return bzi_names_add(paths, path, err);
}

/* Files that match, sorted. */
static bzna_status bzi_paths_match(bzi_names *paths, const char *pattern, bzna_error *err)
{
    glob_t matches;
    bzna_status status = BZNA_OK;
    int error = bzi_os_glob(pattern, &matches);
    if (error == ENOMEM)
        return bzi_fail_memory(err, "the names that match a pattern");
    if (error)
        return BZI_FAIL(err, BZNA_E_NOT_FOUND, "no file matches \"%.160s\"", pattern);
    bzi_sort(matches.gl_pathv, matches.gl_pathc, sizeof *matches.gl_pathv, bzi_path_is_before);
    for (size_t i = 0; i < matches.gl_pathc && status == BZNA_OK; i++)
        status = bzi_paths_add(paths, matches.gl_pathv[i], err);
    bzi_os_glob_free(&matches);
    return status;
}

/* A path without braces: it may be literal, with backslashes before what would mean something. */
static bzna_status bzi_paths_add_expanded(bzi_names *paths, const char *text, bzna_error *err)
{
    char literal[BZI_LIMIT_PATH_BYTES];
    int has_wildcard = 0;
    size_t n = 0;
    for (const char *p = text; *p; p++) {
        if (*p == '\\' && p[1])
            p++;
        else
            has_wildcard |= *p == '*' || *p == '?' || *p == '[';
        literal[n++] = *p;
    }
    literal[n] = 0;
    if (has_wildcard && bzi_os_kind(literal) == BZI_OS_NONE)
        return bzi_paths_match(paths, text, err);
    return bzi_paths_add(paths, literal, err);
}

/* One path, or one between "::". */
static bzna_status bzi_paths_add_pattern(bzi_names *paths, const char *pattern, bzna_error *err)
{
    const size_t size = strlen(pattern);
    char text[BZI_LIMIT_PATH_BYTES];
    bzna_status status;
    uint64_t count;
    if (bzi_os_kind(pattern) != BZI_OS_NONE || !pattern[strcspn(pattern, "{}*?[")])
        return bzi_paths_add(paths, pattern, err);
    if (size >= sizeof text)
        return BZI_FAIL(err, BZNA_E_LIMIT, "a pattern has at most %u bytes", BZI_LIMIT_PATH_BYTES - 1);
    if ((status = bzi_brace_check(pattern, err)) != BZNA_OK)
        return status;
    count = bzi_brace_count(pattern, pattern + size);
    if (count > BZI_LIMIT_PARTS)
        return BZI_FAIL(err, BZNA_E_LIMIT, "the pattern stands for more than %u files", BZI_LIMIT_PARTS);
    for (uint64_t i = 0; i < count && status == BZNA_OK; i++) {
        *bzi_brace_write(pattern, pattern + size, i, text) = 0;
        status = bzi_paths_add_expanded(paths, text, err);
    }
    return status;
}

/* All that a caller's path stands for but shards in folders. */
static bzna_status bzi_paths_expand(bzi_names *paths, const char *path, bzna_error *err)
{
    const char *p = path, *next;
    bzna_status status = BZNA_OK;
    if (bzi_os_kind(path) != BZI_OS_NONE || !strstr(path, "::"))
        return bzi_paths_add_pattern(paths, path, err);
    for (; p && status == BZNA_OK; p = next ? next + 2 : NULL) {
        char item[BZI_LIMIT_PATH_BYTES];
        size_t size = (next = strstr(p, "::")) ? (size_t)(next - p) : strlen(p);
        if (size == 0)
            return bzi_fail(err, BZNA_E_ARGUMENT, (uint64_t)(p - path), 0, 0, "no path stands before or after the :: "
                            "at byte %llu", (unsigned long long)(p - path - (p > path ? 2 : 0)));
        if (size >= sizeof item)
            return BZI_FAIL(err, BZNA_E_LIMIT, "a pattern has at most %u bytes", BZI_LIMIT_PATH_BYTES - 1);
        memcpy(item, p, size);
        item[size] = 0;
        status = bzi_paths_add_pattern(paths, item, err);
    }
    return status;
}

/* The archives and shards that a folder holds, in the order of their names; none: it holds something else. */
static bzna_status bzi_paths_add_shards(bzi_names *paths, const char *folder, bzna_error *err)
{
    bzi_walk walk = { .names = { .memory = paths->memory }, .root = folder, .extensions = BZI_SHARD_EXTENSIONS };
    char path[BZI_LIMIT_PATH_BYTES];
    bzi_tree tree = { .text = NULL };
    bzna_status status = bzi_walk_add_folder(&walk, "", 0, err);
    if (status == BZNA_OK && (status = bzi_walk_scan(&walk, 0, err)) == BZNA_OK && walk.names.count) {
        if (walk.folder_count > 1)
            status = BZI_FAIL(err, BZNA_E_FORMAT,
                              "it holds folders, and files of samples (\"%.64s\"): open those by a pattern (*.tar), or "
                              "set dataset_config.format to \"folder\"",
                              bzi_names_get(&walk.names, 0));
        else
            status = bzi_walk_finish(&walk, &tree, err);
    }
    for (uint64_t i = 0; i < tree.count && status == BZNA_OK; i++)
        if ((status = bzi_path_join(path, sizeof path, folder, tree.names[i], err)) == BZNA_OK)
            status = bzi_paths_add(paths, path, err);
    bzi_tree_free(&tree, paths->memory);
    bzi_walk_free(&walk);
    return status;
}

/* Of a path that is as the caller meant it. */
static bzna_status bzi_paths_resolve_one(bzi_names *paths, const char *path, const bzna_dataset_config *config,
                                         bzna_error *err)
{
    uint64_t before = paths->count;
    bzna_status status = BZNA_OK;
    if (!config->list && (!config->format || strcmp(config->format, "folder")) && bzi_os_kind(path) == BZI_OS_FOLDER)
        status = bzi_paths_add_shards(paths, path, err);
    if (status != BZNA_OK)
        return bzi_error_prefix(err, path);
    return paths->count > before ? BZNA_OK : bzi_paths_add(paths, path, err);
}

/* The files and folders that paths stand for. paths is empty; the caller frees it. */
static bzna_status bzi_paths_resolve(bzi_names *paths, const char *const *given, uint32_t count,
                                     const bzna_dataset_config *config, bzna_error *err)
{
    bzi_names expanded = { .memory = paths->memory };
    bzna_status status = BZNA_OK;
    for (uint32_t i = 0; i < count && status == BZNA_OK; i++)
        if ((status = bzi_paths_expand(&expanded, given[i], err)) != BZNA_OK)
            bzi_error_prefix(err, given[i]);
    for (uint64_t i = 0; i < expanded.count && status == BZNA_OK; i++)
        status = bzi_paths_resolve_one(paths, bzi_names_get(&expanded, i), config, err);
    bzi_names_free(&expanded);
    if (status == BZNA_OK && config->name && paths->count > 1)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "dataset_config.name: of %llu files, each is called by its path",
                        (unsigned long long)paths->count);
    return status;
}


/* ==== 33. Containers: opening ========================================================================================
 * Calls: rooms 2-6, 15, 21, 23, 26, 29-31. The table of containers: a file is of the first kind whose row recognizes
 * it. Errors of samples get the sample's number and the container's name here. */

/* The surest probe first. */
static const bzi_container_ops *const bzi_containers[] = {
#ifndef BENZINA_NO_SHARDS
    &bzi_tar_row,
    &bzi_recordio_ops,
#endif
#ifndef BENZINA_NO_HEIF
    &bzi_heif_ops,
#endif
    &bzi_mp4_archive,
    &bzi_mp4_video,
    &bzi_records_ops
};

#ifdef BENZINA_NO_SHARDS
#  define BZI_OTHER_KINDS "this build reads neither tar nor RecordIO (BENZINA_NO_SHARDS)"
#else
#  define BZI_OTHER_KINDS "no tar, no RecordIO file"
#endif

static void bzi_container_retain(bzi_container *c) { atomic_fetch_add(&c->references, 1); }

/* All but the source, which a failed open leaves to its owner. */
static void bzi_container_free(bzi_container *c)
{
    bzi_host *host = c->host;
    if (c->own && c->ops->close)
        c->ops->close(c);
    bzi_release(&host->memory, c->own, 1, c->ops ? c->ops->own_bytes : 0);
    bzi_release(&host->memory, c->name, c->name_size, 1);
    bzi_release(&host->memory, c, 1, sizeof *c);
    bzi_host_drop(host);
}

static void bzi_container_drop(bzi_container *c)
{
    if (atomic_fetch_sub(&c->references, 1) != 1)
        return;
    bzi_source_close(&c->source, &c->host->memory);
    bzi_container_free(c);
}

/* No row took it. */
static bzna_status bzi_container_fail_kind(const uint8_t *head, uint64_t size, const char *format, bzna_error *err)
{
    const char *what = bzi_codec_unread((bzi_span){ head, size }, 0);
    if (what)
        return bzi_fail(err, BZNA_E_UNSUPPORTED, 0, 0, 0, "it is %s", what);
    if (format)
        return bzi_fail(err, BZNA_E_FORMAT, 0, 0, 0, "dataset_config.format: it is no %s", format);
    if (bzi_codec_recognize((bzi_span){ head, size }) != BZNA_CODEC_UNKNOWN)
        return bzi_fail(err, BZNA_E_FORMAT, 0, 0, 0, "it is one picture: open the folder that holds it");
    return bzi_fail(err, BZNA_E_FORMAT, 0, 0, 0,
                    "of no known kind: no mp4 file (it does not begin with a box), " BZI_OTHER_KINDS);
}

/* A setting that has no effect on this kind is an error: the caller expects one. */
static bzna_status bzi_container_check_config(const bzi_container *c, const bzna_dataset_config *config,
                                              bzna_error *err)
{
    const bzi_container_ops *ops = c->ops;
    const struct { const char *name; int is_set, has_effect; const char *kinds; } settings[] = {
        { "split", config->split != NULL, ops->track != NULL, "mp4 files" },
        { "list", config->list != NULL, ops->listed != 0, "folders and RecordIO files" },
        { "classes", config->classes != NULL, ops->class_name != NULL, "folders" },
        { "class_order", config->class_order != 0, ops->class_name != NULL, "folders" },
        { "orientation", config->orientation != 0, ops->still || ops->track, "folders, tars, RecordIO and mp4 files" },
        { "palette", config->palette != 0, ops->still != 0, "folders, tars and RecordIO files" },
        { "records", config->records != NULL, ops == &bzi_records_ops, "the format \"records\"" },
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        if (settings[i].is_set && !settings[i].has_effect)
            return BZI_FAIL(err, BZNA_E_ARGUMENT, "dataset_config.%s: it has an effect on %s only; this is of kind %s",
                            settings[i].name, settings[i].kinds, ops->name);
    return BZNA_OK;
}

static bzna_status bzi_container_become(bzi_container *c, const bzi_container_ops *ops, bzna_error *err)
{
    c->ops = ops;
    if (!c->own && ops->own_bytes && !(c->own = bzi_alloc_zero(&c->host->memory, 1, ops->own_bytes)))
        return bzi_fail_memory(err, "a data set");
    return BZNA_OK;
}

/* Whether it is a row's turn. */
static int bzi_container_suits(const bzi_container_ops *ops, const bzna_dataset_config *config, const uint8_t *head,
                               uint64_t size)
{
    if (config->format)
        return strcmp(config->format, ops->name) == 0;
    return config->records ? ops == &bzi_records_ops : ops->probe && ops->probe(head, size);
}

/* Finds the row for a file by its first bytes, and has it build the index. */
static bzna_status bzi_container_recognize(bzi_container *c, const bzna_dataset_config *config, bzna_error *err)
{
    uint8_t head[BZI_PROBE_BYTES] = { 0 };
    uint64_t size = bzi_min(c->source.size, sizeof head);
    bzna_status status = BZNA_AGAIN;
    if (size == 0)
        return bzi_fail(err, BZNA_E_FORMAT, 0, 0, 0, "the file is empty");
    if (bzi_source_read(&c->source, 0, head, size, err) != BZNA_OK)
        return err->status;
    if (!config->records && bzi_codec_unread((bzi_span){ head, size }, 0))
        return bzi_container_fail_kind(head, size, config->format, err);
    for (size_t i = 0; status == BZNA_AGAIN && i < sizeof bzi_containers / sizeof bzi_containers[0]; i++) {
        const bzi_container_ops *ops = bzi_containers[i];
        if (!bzi_container_suits(ops, config, head, size))
            continue;
        if ((status = bzi_container_become(c, ops, err)) == BZNA_OK)
            status = ops->open(c, config, err);
        if (status != BZNA_AGAIN && bzi_container_check_config(c, config, err) != BZNA_OK)
            status = err->status;
    }
    return status == BZNA_AGAIN ? bzi_container_fail_kind(head, size, config->format, err) : status;
}

/* Not yet of any kind. */
static bzna_status bzi_container_make(bzi_host *host, const char *name, const bzna_dataset_config *config,
                                      bzi_container **out, bzna_error *err)
{
    bzi_container *c = bzi_alloc_zero(&host->memory, 1, sizeof *c);
    if (!c)
        return bzi_fail_memory(err, "a data set");
    c->host = host;
    atomic_init(&c->references, 1);
    bzi_host_retain(host);
    c->orientation = config->orientation;
    c->palette = config->palette;
    c->target_field = BZI_NO_FIELD;
    c->name_size = strlen(name) + 1;
    c->name = bzi_alloc_copy(&host->memory, name, c->name_size, 1);
    *out = c;
    if (c->name)
        return BZNA_OK;
    bzi_container_free(c);
    return bzi_fail_memory(err, "a dataset's name");
}

/* Takes an open source; on failure the source is the caller's again. */
static bzna_status bzi_container_open(bzi_host *host, const bzi_source *source, const char *name,
                                      const bzna_dataset_config *config, bzi_container **out, bzna_error *err)
{
    bzi_container *c;
    bzna_status status = bzi_container_make(host, name, config, &c, err);
    if (status != BZNA_OK)
        return status;
    c->source = *source;
    bzi_source_moved(&c->source);
    if ((status = bzi_container_recognize(c, config, err)) != BZNA_OK) {
        bzi_container_free(c);
        return status;
    }
    if (c->source.shared)
        bzi_os_file_drop_pages(&c->source.shared->file);
    c->source.path = NULL;
    *out = c;
    return BZNA_OK;
}

/* A folder of pictures. */
static bzna_status bzi_container_open_folder(bzi_host *host, const char *path, const bzna_dataset_config *config,
                                             bzi_container **out, bzna_error *err)
{
    bzi_container *c;
    bzna_status status = bzi_container_make(host, config->name ? config->name : path, config, &c, err);
    if (status != BZNA_OK)
        return status;
    if (config->format && strcmp(config->format, bzi_folder_ops.name))
        status = BZI_FAIL(err, BZNA_E_FORMAT, "dataset_config.format: it is a folder, no %s", config->format);
    else if ((status = bzi_container_become(c, &bzi_folder_ops, err)) == BZNA_OK &&
             (status = bzi_container_check_config(c, config, err)) == BZNA_OK)
        status = bzi_folder_open_path(c, path, config, err);
    if (status != BZNA_OK) {
        bzi_container_free(c);
        return status;
    }
    *out = c;
    return BZNA_OK;
}

/* "train.bzna: sample 12: " before the message; of a sample that is a file of its own, also the file's path. */
static bzna_status bzi_container_fail(const bzi_container *c, uint64_t index, bzna_error *err)
{
    char name[40], path[BZI_LIMIT_PATH_BYTES];
    bzna_error ignored;
    if (c->ops->path && c->ops->path(c, index, path, sizeof path, &ignored) == BZNA_OK) {
        for (char *p = path; *p; p++)
            if ((unsigned char)*p < 32 || *p == 127)
                *p = '?';                                   /* a message is one line */
        bzi_error_prefix(err, path);
    }
    snprintf(name, sizeof name, "sample %llu", (unsigned long long)index);
    bzi_error_prefix(err, name);
    return c->ops->path ? err->status : bzi_error_prefix(err, c->name);
}


/* ==== 34. Samples ====================================================================================================
 * Calls: rooms 2, 4-6, 15-16. One sample of a container: read, looked at on the caller's thread, its pictures and
 * fields. */

/* --- Reading --- */

/* A sample about to be read: where its bytes lie, and what they are read from: the container's source, or a file of its
 * own. */
typedef struct bzi_reading {
    bzi_sample        sample;
    const bzi_container *container;
    const bzi_source *source;
    bzi_source        own;
} bzi_reading;

/* Opens the sample's own file; the size of the sample is that of the file. */
static bzna_status bzi_reading_open(bzi_reading *reading, const bzi_container *c, bzna_error *err)
{
    char path[BZI_LIMIT_PATH_BYTES];
    bzna_status status = c->ops->path(c, reading->sample.index, path, sizeof path, err);
    if (status != BZNA_OK ||
        (status = bzi_source_open_file(&reading->own, &c->host->files, path, err)) != BZNA_OK)
        return status;
    reading->source = &reading->own;
    reading->sample.extent.size = reading->own.size;
    return BZNA_OK;
}

static void bzi_reading_end(bzi_reading *reading)
{
    if (reading->source == &reading->own)
        bzi_source_close(&reading->own, NULL);
    reading->source = NULL;
}

/* BZNA_OK: bzi_reading_end closes it. Else there is nothing to close. */
static bzna_status bzi_reading_begin(bzi_reading *reading, const bzi_container *c, uint64_t index, bzna_error *err)
{
    const bzi_extent *extent = &reading->sample.extent;
    uint64_t limit = bzi_min(c->host->max_sample_bytes, SIZE_MAX);
    bzna_status status;
    memset(reading, 0, sizeof *reading);
    reading->container = c;
    reading->source = &c->source;
    reading->sample.index = index;
    status = c->ops->path ? bzi_reading_open(reading, c, err) :
                            c->ops->locate(c, index, &reading->sample.extent, err);
    if (status != BZNA_OK)
        return status;
    if (extent->size <= limit)
        return BZNA_OK;
    bzi_reading_end(reading);
    return bzi_fail(err, BZNA_E_LIMIT, extent->offset, 0, 0, "its %llu bytes are more than max_sample_bytes, %llu",
                    (unsigned long long)extent->size, (unsigned long long)limit);
}

/* Into bytes, which have room for the extent. */
static bzna_status bzi_reading_read(bzi_reading *reading, uint8_t *bytes, bzna_error *err)
{
    const bzi_container *c = reading->container;
    const bzi_extent *extent = &reading->sample.extent;
    bzna_status status = bzi_source_read(reading->source, extent->offset, bytes, extent->size, err);
    reading->sample.bytes = bytes;
    return status == BZNA_OK && c->ops->prepare ? c->ops->prepare(c, &reading->sample, bytes, err) : status;
}

/* For looking: in the map where that will do, or in buffer. */
static bzna_status bzi_reading_view(bzi_reading *reading, const bzi_memory *memory, bzi_buffer *buffer,
                                    bzna_error *err)
{
    const bzi_container *c = reading->container;
    const bzi_extent *extent = &reading->sample.extent;
    const uint8_t *const map = reading->source->map;
    bzna_status status = BZNA_AGAIN;
    if (map) {
        reading->sample.bytes = map + extent->offset;
        status = c->ops->prepare ? c->ops->prepare(c, &reading->sample, NULL, err) : BZNA_OK;
    }
    if (status == BZNA_AGAIN && !bzi_buffer_reserve(memory, buffer, extent->size, 0))
        status = bzi_fail_memory(err, "a sample's bytes");
    return status == BZNA_AGAIN ? bzi_reading_read(reading, buffer->data, err) : status;
}

/* BZNA_TARGET_NONE where the sample has none. It was read if its target is inside. */
static bzna_status bzi_container_target(const bzi_container *c, const bzi_sample *sample, int64_t *target,
                                        bzna_error *err)
{
    bzi_value value = { (uint8_t *)target, sizeof *target, 0, 0 };
    *target = BZNA_TARGET_NONE;
    return c->target_field == BZI_NO_FIELD ? BZNA_OK : c->ops->field(c, sample, c->target_field, &value, err);
}

/* A picture of a sample that was read. */
static bzna_status bzi_container_image(const bzi_container *c, const bzi_sample *sample, const bzi_pick *pick,
                                       bzi_scratch *scratch, bzi_image *image, bzna_error *err)
{
    bzna_status status = c->ops->image(c, sample, pick, scratch, image, err);
    if (status != BZNA_OK)
        return status;
    if (c->orientation == BZNA_ORIENTATION_IGNORE)
        image->coded.orientation = 1;
    image->coded.palette = c->palette;
    return BZNA_OK;
}

/* --- Looking --- */

/* A sample that is looked at on the caller's thread. */
typedef struct bzi_look {
    const bzi_container *container;
    bzi_reading          reading;
    bzi_buffer           buffer;
    bzi_scratch          scratch;
} bzi_look;

static void bzi_look_end(bzi_look *look)
{
    bzi_reading_end(&look->reading);
    bzi_buffer_free(&look->container->host->memory, &look->buffer);
}

/* inside: its bytes are needed, too. BZNA_OK: bzi_look_end closes it. */
static bzna_status bzi_look_begin(bzi_look *look, const bzi_container *c, uint64_t index, uint32_t inside,
                                  bzna_error *err)
{
    bzna_status status = bzi_reading_begin(&look->reading, c, index, err);
    look->container = c;
    memset(&look->buffer, 0, sizeof look->buffer);
    if (status != BZNA_OK || !inside)
        return status;
    if ((status = bzi_reading_view(&look->reading, &c->host->memory, &look->buffer, err)) != BZNA_OK)
        bzi_look_end(look);
    return status;
}

/* The target alone: no file is opened or read for one that stands elsewhere than in the sample's bytes. */
static bzna_status bzi_container_look_target(const bzi_container *c, uint64_t index, int64_t *target, bzna_error *err)
{
    const bzi_sample unread = { index, { 0, 0 }, NULL };
    bzi_look look;
    bzna_status status;
    if (!c->target_inside)
        return bzi_container_target(c, &unread, target, err);
    if ((status = bzi_look_begin(&look, c, index, 1, err)) != BZNA_OK)
        return status;
    status = bzi_container_target(c, &look.reading.sample, target, err);
    bzi_look_end(&look);
    return status;
}

static bzna_status bzi_container_images(const bzi_container *c, const bzi_sample *sample, bzi_scratch *scratch,
                                        bzna_sample *out, bzna_error *err)
{
    if (c->ops->images)
        return c->ops->images(c, sample, scratch, out, err);
    for (uint32_t i = 0; i < c->field_count; i++)
        if (c->fields[i].kind == BZNA_FIELD_PICTURE)
            bzi_string_copy(out->image_names[out->image_count++], BZNA_NAME_MAX, c->fields[i].name);
    return BZNA_OK;
}

/* Where the sample is, its target and the names of its pictures. */
static bzna_status bzi_container_sample(const bzi_container *c, uint64_t index, bzna_sample *out, bzna_error *err)
{
    bzi_look look;
    const bzi_sample *sample = &look.reading.sample;
    bzna_status status;
    memset(out, 0, sizeof *out);
    if ((status = bzi_look_begin(&look, c, index, c->ops->names_inside || c->target_inside, err)) != BZNA_OK)
        return status;
    if ((status = bzi_container_target(c, sample, &out->target, err)) == BZNA_OK)
        status = bzi_container_images(c, sample, &look.scratch, out, err);
    out->offset = sample->extent.offset;
    out->size = sample->extent.size;
    bzi_look_end(&look);
    return status;
}

/* The sample's bytes, in the caller's buffer, and the picture in them. */
static bzna_status bzi_container_read_image(const bzi_container *c, uint64_t index, const bzi_pick *pick,
                                            bzi_span buffer, bzi_image *image, bzna_error *err)
{
    bzi_look look;
    const bzi_sample *sample = &look.reading.sample;
    bzna_status status = bzi_look_begin(&look, c, index, 0, err);
    if (status != BZNA_OK)
        return status;
    if (buffer.size < sample->extent.size)
        status = BZI_FAIL(err, BZNA_E_BUFFER, "it has %llu bytes, the buffer %llu",
                          (unsigned long long)sample->extent.size, (unsigned long long)buffer.size);
    if (status == BZNA_OK &&
        (status = bzi_reading_read(&look.reading, (uint8_t *)(uintptr_t)buffer.data, err)) == BZNA_OK &&
        (status = bzi_container_image(c, sample, pick, &look.scratch, image, err)) == BZNA_OK)
        status = bzi_image_complete(image, err);
    bzi_look_end(&look);
    return status;
}

/* What the picture is, without its bytes. */
static bzna_status bzi_container_describe_image(const bzi_container *c, uint64_t index, const bzi_pick *pick,
                                                bzi_image *image, bzna_error *err)
{
    bzi_look look;
    bzna_status status = bzi_look_begin(&look, c, index, 1, err);
    if (status != BZNA_OK)
        return status;
    if ((status = bzi_container_image(c, &look.reading.sample, pick, &look.scratch, image, err)) == BZNA_OK)
        status = bzi_image_complete(image, err);
    image->coded.config = image->coded.data = NULL;
    bzi_look_end(&look);
    return status;
}

/* --- Fields --- */

/* The number of a field; BZI_NO_FIELD: there is none of that name. What gives the target is called "target", too, and
 * where no field is called "image", a sample's first picture is. */
static uint32_t bzi_container_find_field(const bzi_container *c, const char *name, bzi_field *field)
{
    uint32_t picture = BZI_NO_FIELD;
    for (uint32_t i = 0; i < c->field_count; i++) {
        *field = c->fields[i];
        if (strcmp(field->name, name) == 0)
            return i;
        if (field->kind == BZNA_FIELD_PICTURE && picture == BZI_NO_FIELD)
            picture = i;
    }
    if (strcmp(name, "image") == 0) {
        *field = (bzi_field){ BZNA_FIELD_PICTURE, 1, "image" };
        return picture;
    }
    if (strcmp(name, "target") || c->target_field == BZI_NO_FIELD)
        return BZI_NO_FIELD;
    *field = c->fields[c->target_field];
    return c->target_field;
}

/* The value of a field that is no picture, of a sample that was read if the field asks for it. */
static bzna_status bzi_container_value(const bzi_container *c, const bzi_sample *sample, uint32_t number,
                                       bzi_value *value, bzna_error *err)
{
    value->size = 0;
    value->absent = 0;
    return c->ops->field(c, sample, number, value, err);
}

/* A picture of a sample as a stream of its own. */
static bzna_status bzi_look_stream(bzi_look *look, const bzi_pick *pick, bzi_value *value, bzna_error *err)
{
    bzi_image image;
    bzna_status status = bzi_container_image(look->container, &look->reading.sample, pick, &look->scratch, &image, err);
    return status == BZNA_OK ? bzi_image_stream(&image.coded, value->data, value->capacity, &value->size, err) : status;
}

/* A value that is in the sample's bytes. */
static bzna_status bzi_container_value_inside(const bzi_container *c, uint64_t index, const char *name,
                                              uint32_t number, bzi_value *value, bzna_error *err)
{
    const bzi_pick pick = { name, 0 };
    bzi_look look;
    bzna_status status = bzi_look_begin(&look, c, index, 1, err);
    if (status != BZNA_OK)
        return status;
    status = number == BZI_NO_FIELD ? bzi_look_stream(&look, &pick, value, err) :
                                      bzi_container_value(c, &look.reading.sample, number, value, err);
    bzi_look_end(&look);
    return status;
}

/* One field of a sample, into the caller's memory; value->size is that of the whole, 0 where that is not known. A
 * container may know a picture by another name than "image". */
static bzna_status bzi_container_field(const bzi_container *c, uint64_t index, const char *name, bzi_value *value,
                                       bzna_error *err)
{
    const bzi_sample sample = { index, { 0, 0 }, NULL };
    bzi_field field = { 0, 0, "" };
    const uint64_t capacity = value->capacity;
    uint32_t number = bzi_container_find_field(c, name, &field), nul;
    bzna_status status;
    if (number == BZI_NO_FIELD && strcmp(name, "image"))
        return BZI_FAIL(err, BZNA_E_NOT_FOUND, "there is no field \"%s\"", name);
    nul = number != BZI_NO_FIELD && field.kind == BZNA_FIELD_TEXT;
    value->capacity -= nul && value->capacity;              /* room for the NUL at a text's end */
    if (number == BZI_NO_FIELD || field.kind == BZNA_FIELD_PICTURE)
        status = bzi_container_value_inside(c, index, name, BZI_NO_FIELD, value, err);
    else if (field.inside)
        status = bzi_container_value_inside(c, index, name, number, value, err);
    else
        status = bzi_container_value(c, &sample, number, value, err);
    if (status == BZNA_OK && value->absent)
        status = BZI_FAIL(err, BZNA_E_NOT_FOUND, "it has no %s", name);
    value->size += nul;
    if (status == BZNA_OK && value->size > capacity)
        return BZI_FAIL(err, BZNA_E_BUFFER, "the %s needs %llu bytes, the buffer has %llu", name,
                        (unsigned long long)value->size, (unsigned long long)capacity);
    if (status == BZNA_OK && nul)
        value->data[value->size - 1] = 0;
    return status;
}


/* ==== 35. Datasets ===================================================================================================
 * Calls: rooms 2-6, 25, 32-33. Parts of containers laid end to end. Ranges, concatenations and lists of paths are only
 * parts. */

/* A part of a data set. */
typedef struct bzi_part {
    bzi_container *container;         /* a reference is held */
    uint64_t       first;             /* of the container's samples */
    uint64_t       count;
    uint64_t       begin;             /* where the part stands in the data set */
} bzi_part;

struct bzna_dataset {
    bzi_host  *host;
    atomic_int references;
    bzi_part  *parts;
    uint32_t   part_count, part_room;
    uint64_t   count;
};

static void bzi_dataset_retain(bzna_dataset *dataset) { atomic_fetch_add(&dataset->references, 1); }

static void bzi_dataset_drop(bzna_dataset *dataset)
{
    bzi_host *host = dataset->host;
    if (atomic_fetch_sub(&dataset->references, 1) != 1)
        return;
    for (uint32_t i = 0; i < dataset->part_count; i++)
        bzi_container_drop(dataset->parts[i].container);
    bzi_release(&host->memory, dataset->parts, dataset->part_room, sizeof *dataset->parts);
    bzi_release(&host->memory, dataset, 1, sizeof *dataset);
    bzi_host_drop(host);
}

/* Without parts yet, but with room for so many. */
static bzna_status bzi_dataset_make(bzi_host *host, uint32_t parts, bzna_dataset **out, bzna_error *err)
{
    bzna_dataset *dataset = bzi_alloc_zero(&host->memory, 1, sizeof *dataset);
    if (dataset && !(dataset->parts = bzi_alloc_zero(&host->memory, parts, sizeof *dataset->parts))) {
        bzi_release(&host->memory, dataset, 1, sizeof *dataset);
        dataset = NULL;
    }
    if (!dataset)
        return bzi_fail_memory(err, "a data set");
    dataset->host = host;
    bzi_host_retain(host);
    atomic_init(&dataset->references, 1);
    dataset->part_room = parts;
    *out = dataset;
    return BZNA_OK;
}

/* Takes the reference to the container. Pre: there is room, and the sum of counts was checked. */
static void bzi_dataset_append(bzna_dataset *dataset, bzi_container *container, uint64_t first, uint64_t count)
{
    bzi_part part = { container, first, count, dataset->count };
    dataset->parts[dataset->part_count++] = part;
    dataset->count += count;
}

/* One container. Takes an open source; on failure the source is the caller's again. */
static bzna_status bzi_dataset_open(bzi_host *host, const bzi_source *source, const char *name,
                                    const bzna_dataset_config *config, bzna_dataset **out, bzna_error *err)
{
    bzna_dataset *dataset = NULL;
    bzi_container *container = NULL;
    bzna_status status = bzi_dataset_make(host, 1, &dataset, err);
    if (status == BZNA_OK && (status = bzi_container_open(host, source, name, config, &container, err)) != BZNA_OK)
        bzi_dataset_drop(dataset);
    if (status != BZNA_OK)
        return status;
    bzi_dataset_append(dataset, container, 0, container->count);
    *out = dataset;
    return BZNA_OK;
}

static bzna_status bzi_dataset_concat(bzi_host *host, bzna_dataset *const *from, uint32_t from_count,
                                      bzna_dataset **out, bzna_error *err)
{
    uint64_t parts = 0, samples = 0;
    bzna_status status;
    for (uint32_t i = 0; i < from_count; i++) {
        parts += from[i]->part_count;
        if (parts > BZI_LIMIT_PARTS || !bzi_add(samples, from[i]->count, &samples) || samples > (uint64_t)1 << 63)
            return BZI_FAIL(err, BZNA_E_LIMIT, "a data set has at most %u files and 2^63 samples", BZI_LIMIT_PARTS);
    }
    if ((status = bzi_dataset_make(host, (uint32_t)parts, out, err)) != BZNA_OK)
        return status;
    for (uint32_t i = 0; i < from_count; i++)
        for (uint32_t k = 0; k < from[i]->part_count; k++) {
            const bzi_part *part = &from[i]->parts[k];
            bzi_container_retain(part->container);
            bzi_dataset_append(*out, part->container, part->first, part->count);
        }
    return BZNA_OK;
}

/* A file or a folder. */
static bzna_status bzi_container_open_path(bzi_host *host, const char *path, const bzna_dataset_config *config,
                                           bzi_container **out, bzna_error *err)
{
    const char *name = config->name ? config->name : path;
    bzi_source source;
    bzna_status status;
    memset(&source, 0, sizeof source);
    if (bzi_os_kind(path) == BZI_OS_FOLDER) {
        status = bzi_container_open_folder(host, path, config, out, err);
        return status == BZNA_OK ? status : bzi_error_prefix(err, name);
    }
    if (bzi_source_open_path(&source, host, path, err) != BZNA_OK)
        return bzi_error_prefix(err, path);
    if ((status = bzi_container_open(host, &source, name, config, out, err)) == BZNA_OK)
        return status;
    bzi_source_close(&source, &host->memory);
    return bzi_error_prefix(err, name);
}

/* Several that are opened at once. */
typedef struct bzi_opening {
    bzi_host                  *host;
    bzi_names                  paths;
    const bzna_dataset_config *config;
    bzi_container            **opened;        /* NULL: not yet */
} bzi_opening;

static bzna_status bzi_opening_open(void *user, uint64_t i, bzna_error *err)
{
    bzi_opening *opening = user;
    return bzi_container_open_path(opening->host, bzi_names_get(&opening->paths, i), opening->config,
                                   &opening->opened[i], err);
}

/* What was opened, laid end to end. Takes the references. */
static bzna_status bzi_opening_join(const bzi_opening *opening, bzna_dataset *all, bzna_error *err)
{
    uint64_t samples = 0;
    for (uint64_t i = 0; i < opening->paths.count; i++)
        if (!bzi_add(samples, opening->opened[i]->count, &samples) || samples > (uint64_t)1 << 63)
            return BZI_FAIL(err, BZNA_E_LIMIT, "a data set has at most 2^63 samples");
    for (uint64_t i = 0; i < opening->paths.count; i++) {
        bzi_dataset_append(all, opening->opened[i], 0, opening->opened[i]->count);
        opening->opened[i] = NULL;
    }
    return BZNA_OK;
}

static bzna_status bzi_opening_run(bzi_opening *opening, bzna_dataset **out, bzna_error *err)
{
    bzna_dataset *all = NULL;
    bzna_status status = bzi_dataset_make(opening->host, (uint32_t)opening->paths.count, &all, err);
    if (status != BZNA_OK)
        return status;
    if ((status = bzi_parallel(bzi_opening_open, opening, opening->paths.count, err)) == BZNA_OK)
        status = bzi_opening_join(opening, all, err);
    if (status == BZNA_OK)
        *out = all;
    else
        bzi_dataset_drop(all);
    return status;
}

/* What paths stand for, laid end to end. Pre: 0 < count <= BZI_LIMIT_PARTS. */
static bzna_status bzi_dataset_open_list(bzi_host *host, const char *const *paths, uint32_t count,
                                         const bzna_dataset_config *config, bzna_dataset **out, bzna_error *err)
{
    const bzi_memory *memory = &host->memory;
    bzi_opening opening = { .host = host, .paths = { .memory = memory }, .config = config };
    bzna_status status = bzi_paths_resolve(&opening.paths, paths, count, config, err);
    uint64_t room = opening.paths.count;
    if (status == BZNA_OK && !(opening.opened = bzi_alloc_zero(memory, room, sizeof *opening.opened)))
        status = bzi_fail_memory(err, "a data set");
    if (status == BZNA_OK)
        status = bzi_opening_run(&opening, out, err);
    for (uint64_t i = 0; opening.opened && i < room; i++)
        if (opening.opened[i])
            bzi_container_drop(opening.opened[i]);
    bzi_release(memory, opening.opened, room, sizeof *opening.opened);
    bzi_names_free(&opening.paths);
    return status;
}

/* Samples first .. first + count - 1. Pre: they exist, and count > 0. */
static bzna_status bzi_dataset_range(const bzna_dataset *from, uint64_t first, uint64_t count, bzna_dataset **out,
                                     bzna_error *err)
{
    bzna_status status = bzi_dataset_make(from->host, from->part_count, out, err);
    for (uint32_t i = 0; i < from->part_count && status == BZNA_OK; i++) {
        const bzi_part *part = &from->parts[i];
        uint64_t begin = first > part->begin ? first : part->begin,
                 end = bzi_min(first + count, part->begin + part->count);
        if (begin >= end)
            continue;
        bzi_container_retain(part->container);
        bzi_dataset_append(*out, part->container, part->first + (begin - part->begin), end - begin);
    }
    return status;
}

static int bzi_part_is_past(const void *parts, uint64_t i, const void *index)
{
    const bzi_part *part = (const bzi_part *)parts + i;
    return part->begin + part->count > *(const uint64_t *)index;
}

/* The container behind an index, and the index there. Pre: *index < count. */
static const bzi_container *bzi_dataset_at(const bzna_dataset *dataset, uint64_t *index)
{
    const bzi_part *part = &dataset->parts[bzi_search(dataset->parts, dataset->part_count, index, bzi_part_is_past)];
    *index = *index - part->begin + part->first;
    return part->container;
}

/* Likewise of an index that the caller gave; NULL: there is no such sample. */
static const bzi_container *bzi_dataset_find(const bzna_dataset *dataset, uint64_t *index, bzna_error *err)
{
    if (*index < dataset->count)
        return bzi_dataset_at(dataset, index);
    BZI_FAIL(err, BZNA_E_RANGE, "index %llu is not below the %llu samples", (unsigned long long)*index,
             (unsigned long long)dataset->count);
    bzi_error_prefix(err, dataset->part_count > 1 ? "data set" : dataset->parts[0].container->name);
    return NULL;
}

/* The name of a class, with a NUL: the first container's that has names. */
static bzna_status bzi_dataset_class(const bzna_dataset *dataset, uint64_t target, bzi_value *value, bzna_error *err)
{
    const uint64_t capacity = value->capacity;
    for (uint32_t i = 0; i < dataset->part_count; i++) {
        const bzi_container *c = dataset->parts[i].container;
        if (!c->ops->class_name || !c->class_count)
            continue;
        if (target >= c->class_count) {
            BZI_FAIL(err, BZNA_E_RANGE, "target %lld is not one of the %llu classes", (long long)target,
                     (unsigned long long)c->class_count);
            return bzi_error_prefix(err, c->name);
        }
        value->capacity -= capacity > 0;
        c->ops->class_name(c, target, value);
        value->size++;
        if (value->size > capacity)
            return BZI_FAIL(err, BZNA_E_BUFFER, "the name needs %llu bytes, the buffer has %llu",
                            (unsigned long long)value->size, (unsigned long long)capacity);
        value->data[value->size - 1] = 0;
        return BZNA_OK;
    }
    BZI_FAIL(err, BZNA_E_NOT_FOUND, "its classes have no names");
    return bzi_error_prefix(err, dataset->parts[0].container->name);
}

static uint64_t bzi_dataset_fingerprint(const bzna_dataset *dataset)
{
    uint64_t hash = BZI_HASH_START;
    for (uint32_t i = 0; i < dataset->part_count; i++) {
        const bzi_part *part = &dataset->parts[i];
        hash = part->container->ops->fingerprint(part->container, hash);
        if (dataset->part_count == 1 && part->count == part->container->count)
            break;                                          /* a whole container, as it always was */
        hash = bzi_hash(hash, &part->first, sizeof part->first);
        hash = bzi_hash(hash, &part->count, sizeof part->count);
    }
    return hash;
}

/* Of what fixes the pixels of pictures that are no video: settings, and who decodes JPEG, since decoders differ. 0:
 * there are none. Which samples of an archive are JPEG, only they say: libavcodec counts with all archives. */
static uint64_t bzi_dataset_hash_stills(const bzna_dataset *dataset, const char *decoder)
{
    const int by_libavcodec = !strcmp(decoder, "libavcodec");
    uint64_t hash = 0;
    for (uint32_t i = 0; i < dataset->part_count; i++) {
        const bzi_container *c = dataset->parts[i].container;
        const uint32_t settings[] = { i, c->orientation, c->palette };
        if (c->orientation || c->palette || ((c->ops->still || by_libavcodec) && !hash))
            hash = bzi_hash(bzi_hash(hash ? hash : BZI_HASH_START, decoder, strlen(decoder) + 1), settings,
                            sizeof settings);
    }
    return hash;
}

/* A field of the parts from the first to the last: those of the first, then what others have beside them. NULL: past
 * the end. */
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

static void bzi_dataset_describe(const bzna_dataset *dataset, bzna_dataset_info *info)
{
    const bzi_container *first = dataset->parts[0].container;
    memset(info, 0, sizeof *info);
    info->sample_count = dataset->count;
    info->part_count = dataset->part_count;
    for (uint32_t i = 0; i < dataset->part_count; i++) {
        const bzi_part *part = &dataset->parts[i];
        uint64_t all = part->container->target_count;
        info->size_bytes += part->container->source.size;
        info->target_count += all <= part->first ? 0 : bzi_min(part->count, all - part->first);
    }
    if (first->ops->describe)
        first->ops->describe(first, info);
    bzi_string_copy(info->container, sizeof info->container, first->ops->name);
    while (bzi_dataset_field(dataset, info->field_count))
        info->field_count++;
}


/* ==== 36. Writer: pictures ===========================================================================================
 * Calls: rooms 2, 4-5, 8-9, 12, 15-16. The same boxes, written to memory. Nothing depends on time, address or thread:
 * the same inputs give the same bytes. Here: bytes that grow, coded pictures taken apart, their sample entries. */

#ifndef BENZINA_NO_WRITER

/* Bytes that grow; a failed allocation sticks, and is asked for once, at the end. */
typedef struct bzi_out {
    const bzi_memory *memory;
    bzi_buffer        buffer;
    uint64_t          size;
    uint32_t          failed;
} bzi_out;

/* Room for n more bytes; NULL when memory is out. */
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
    uint8_t *p = bzi_out_take(out, n);
    if (p && n)
        memcpy(p, bytes, (size_t)n);
}

static void bzi_out_zeros(bzi_out *out, uint64_t n)
{
    uint8_t *p = bzi_out_take(out, n);
    if (p)
        memset(p, 0, (size_t)n);
}

static void bzi_put_be32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}

static void bzi_out_u8(bzi_out *out, uint32_t v)  { uint8_t b = (uint8_t)v; bzi_out_bytes(out, &b, 1); }
static void bzi_out_u16(bzi_out *out, uint32_t v) { bzi_out_u8(out, v >> 8); bzi_out_u8(out, v); }
static void bzi_out_u32(bzi_out *out, uint32_t v) { uint8_t b[4]; bzi_put_be32(b, v); bzi_out_bytes(out, b, 4); }
static void bzi_out_u64(bzi_out *out, uint64_t v)
{
    bzi_out_u32(out, (uint32_t)(v >> 32));
    bzi_out_u32(out, (uint32_t)v);
}

static void bzi_out_le64(bzi_out *out, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        bzi_out_u8(out, (uint32_t)(v >> (8 * i)) & 255);
}

/* begin gives the box's place, which end needs to patch its size. */
static uint64_t bzi_out_begin(bzi_out *out, uint32_t type)
{
    uint64_t at = out->size;
    bzi_out_u32(out, 0);
    bzi_out_u32(out, type);
    return at;
}

static uint64_t bzi_out_begin_full(bzi_out *out, uint32_t type, uint32_t version_flags)
{
    uint64_t at = bzi_out_begin(out, type);
    bzi_out_u32(out, version_flags);
    return at;
}

static void bzi_out_end(bzi_out *out, uint64_t at)
{
    if (!out->failed && out->size - at > UINT32_MAX)
        out->failed = 1;
    if (!out->failed)
        bzi_put_be32(out->buffer.data + at, (uint32_t)(out->size - at));
}

static void bzi_out_reset(bzi_out *out)
{
    out->size = 0;
    out->failed = 0;
}

static void bzi_out_matrix(bzi_out *out)
{
    static const uint32_t identity[9] = { 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000 };
    for (int i = 0; i < 9; i++)
        bzi_out_u32(out, identity[i]);
}

/* A picture as it will be written: gathered once, from config and data. */
typedef struct bzi_coded {
    bzna_image                  image;
    bzi_format                  sps;
    const struct bzi_coded_ops *ops;
    bzi_span                    sets[BZI_LIMIT_PARAMETER_SETS];      /* AV1: one, the sequence header's payload */
    uint32_t                    set_count;
} bzi_coded;

/* How pictures of a codec are written. */
typedef struct bzi_coded_ops {
    uint32_t    codec;
    bzna_status (*gather)(bzi_coded *coded, const char *field, bzna_error *err);        /* fills in sets and sps */
    void        (*config)(bzi_out *out, const bzi_coded *coded); /* the decoder configuration record; NULL: none */
    void        (*unit)(bzi_out *out, const bzi_coded *coded);          /* the access unit */
} bzi_coded_ops;

static int bzi_span_equal(bzi_span a, bzi_span b)
{
    return a.size == b.size && !memcmp(a.data, b.data, (size_t)a.size);
}

static bzna_status bzi_coded_add_set(bzi_coded *coded, const char *field, bzi_span nal, bzna_error *err)
{
    uint64_t total = nal.size;
    for (uint32_t i = 0; i < coded->set_count; i++) {
        if (bzi_span_equal(coded->sets[i], nal))
            return BZNA_OK;
        total += coded->sets[i].size;
    }
    if (coded->set_count == BZI_LIMIT_PARAMETER_SETS || total > BZI_LIMIT_CONFIG_BYTES)
        return BZI_FAIL(err, BZNA_E_LIMIT, "%s: more than %u parameter sets, or %u bytes of them", field,
                        BZI_LIMIT_PARAMETER_SETS, BZI_LIMIT_CONFIG_BYTES);
    coded->sets[coded->set_count++] = nal;
    return BZNA_OK;
}

static int bzi_coded_has(const bzi_coded *coded, uint32_t kind)
{
    for (uint32_t i = 0; i < coded->set_count; i++)
        if (bzi_nal_kind(coded->image.codec, coded->sets[i]) == kind)
            return 1;
    return 0;
}

static bzna_status bzi_coded_gather_nals(bzi_coded *coded, const char *field, bzna_error *err)
{
    const bzna_image *image = &coded->image;
    bzi_image_nals n = bzi_image_nals_make(image);
    bzi_span nal;
    bzna_status status;
    int got, pictures = 0;
    while ((got = bzi_image_nals_next(&n, &nal)) > 0) {
        if (bzi_nal_is_parameter_set(image->codec, nal)) {
            if ((status = bzi_coded_add_set(coded, field, nal, err)) != BZNA_OK)
                return status;
        } else if (n.part == 1 && bzi_nal_kind(image->codec, nal) == BZI_NAL_SLICE) {
            if (!bzi_nal_starts_stream(image->codec, nal))
                return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.data: not an intra picture that stands alone (IDR)", field);
            pictures++;
        }
    }
    if (got < 0 && bzi_image_fail_nals(&n, err) < 0)
        return bzi_error_prefix(err, field);
    if (!pictures)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.data: no coded picture in it", field);
    if ((bzi_nal_syntax_of(image->codec)->kinds[BZI_NAL_VPS][1] && !bzi_coded_has(coded, BZI_NAL_VPS)) ||
        !bzi_coded_has(coded, BZI_NAL_SPS) || !bzi_coded_has(coded, BZI_NAL_PPS))
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s: parameter sets are missing in config and data", field);
    return bzi_image_sps(image, &coded->sps, err) == BZNA_OK ? BZNA_OK : bzi_error_prefix(err, field);
}

/* The sequence header in force, which is the one that bzi_image_av1 reads: the last before the first frame. */
static bzna_status bzi_coded_gather_obus(bzi_coded *coded, const char *field, bzna_error *err)
{
    const bzna_image *image = &coded->image;
    if (bzi_image_av1(image, &coded->sps, err) != BZNA_OK)
        return bzi_error_prefix(err, field);
    for (int part = 0; part < 2; part++) {
        bzi_span rest = part ? bzi_image_data(image) : bzi_image_obus(image), unit;
        uint32_t type;
        while (bzi_obu_next(&rest, &type, &unit) > 0 && type != BZI_OBU_FRAME && type != BZI_OBU_FRAME_HEADER)
            if (type == BZI_OBU_SEQUENCE_HEADER)
                coded->sets[0] = unit;
    }
    coded->set_count = 1;
    if (coded->sets[0].size > BZI_LIMIT_CONFIG_BYTES)
        return BZI_FAIL(err, BZNA_E_LIMIT, "%s: a sequence header of more than %u bytes", field,
                        BZI_LIMIT_CONFIG_BYTES);
    return BZNA_OK;
}

static void bzi_out_sets(bzi_out *out, const bzi_coded *coded, uint32_t kind, int wide_count, uint32_t reserved)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < coded->set_count; i++)
        count += bzi_nal_kind(coded->image.codec, coded->sets[i]) == kind;
    if (wide_count)
        bzi_out_u16(out, count);
    else
        bzi_out_u8(out, reserved | count);
    for (uint32_t i = 0; i < coded->set_count; i++) {
        if (bzi_nal_kind(coded->image.codec, coded->sets[i]) != kind)
            continue;
        bzi_out_u16(out, (uint32_t)coded->sets[i].size);
        bzi_out_bytes(out, coded->sets[i].data, coded->sets[i].size);
    }
}

/* HEVCDecoderConfigurationRecord, ISO/IEC 14496-15 8.3.3.1. */
static void bzi_out_hvcc(bzi_out *out, const bzi_coded *coded)
{
    static const uint32_t kinds[3] = { BZI_NAL_VPS, BZI_NAL_SPS, BZI_NAL_PPS };
    const bzi_format *sps = &coded->sps;
    bzi_out_u8(out, 1);
    bzi_out_bytes(out, sps->profile, 12);
    bzi_out_u16(out, 0xf000);                               /* spatial segmentation: not said */
    bzi_out_u8(out, 0xfc);                                  /* parallelism: not said */
    bzi_out_u8(out, 0xfc | sps->chroma_format);
    bzi_out_u8(out, 0xf8 | (sps->depth_luma - 8));
    bzi_out_u8(out, 0xf8 | (sps->depth_chroma - 8));
    bzi_out_u16(out, 0);                                    /* frame rate: not said */
    bzi_out_u8(out, sps->sub_layers << 3 | sps->nested << 2 | 3);
    bzi_out_u8(out, 3);
    for (uint32_t i = 0; i < 3; i++) {
        bzi_out_u8(out, 0x80 | (32 + i));
        bzi_out_sets(out, coded, kinds[i], 1, 0);
    }
}

/* AVCDecoderConfigurationRecord, ISO/IEC 14496-15 5.3.3.1. */
static void bzi_out_avcc(bzi_out *out, const bzi_coded *coded)
{
    const bzi_format *sps = &coded->sps;
    bzi_out_u8(out, 1);
    bzi_out_bytes(out, sps->profile, 3);
    bzi_out_u8(out, 0xff);
    bzi_out_sets(out, coded, BZI_NAL_SPS, 0, 0xe0);
    bzi_out_sets(out, coded, BZI_NAL_PPS, 0, 0);
    if (sps->profile[0] == 100 || sps->profile[0] == 110 || sps->profile[0] == 122 || sps->profile[0] == 144) {
        bzi_out_u8(out, 0xfc | sps->chroma_format);
        bzi_out_u8(out, 0xf8 | (sps->depth_luma - 8));
        bzi_out_u8(out, 0xf8 | (sps->depth_chroma - 8));
        bzi_out_u8(out, 0);
    }
}

/* The access unit with 4-byte lengths, without parameter sets and discardable units. */
static void bzi_out_nals(bzi_out *out, const bzi_coded *coded)
{
    bzi_nals n = bzi_nals_of_unit(bzi_image_data(&coded->image), coded->image.length_size);
    bzi_span nal;
    while (bzi_nals_next(&n, &nal) > 0) {
        if (bzi_nal_is_parameter_set(coded->image.codec, nal) || bzi_nal_is_discardable(coded->image.codec, nal))
            continue;
        bzi_out_u32(out, (uint32_t)nal.size);
        bzi_out_bytes(out, nal.data, nal.size);
    }
}

/* A sequence header as a unit that says its size, which av1C asks for. */
static void bzi_out_sequence_header(bzi_out *out, bzi_span payload)
{
    uint64_t size = payload.size;
    bzi_out_u8(out, BZI_OBU_SEQUENCE_HEADER << 3 | 2);
    for (; size > 127; size >>= 7)
        bzi_out_u8(out, 128 | (uint32_t)(size & 127));
    bzi_out_u8(out, (uint32_t)size);
    bzi_out_bytes(out, payload.data, payload.size);
}

/* AV1CodecConfigurationRecord, "AV1 Codec ISO Media File Format Binding" 2.3.3. */
static void bzi_out_av1c(bzi_out *out, const bzi_coded *coded)
{
    const bzi_format *sps = &coded->sps;
    uint32_t gray = sps->chroma_format == 0, x = sps->chroma_format < 3, y = sps->chroma_format < 2;
    uint32_t place = !sps->has_chroma_location ? 0 : sps->chroma_location == 2 ? 2 : 1;
    bzi_out_u8(out, 0x81);
    bzi_out_u8(out, (uint32_t)sps->profile[0] << 5 | sps->profile[1]);
    bzi_out_u8(out, (uint32_t)sps->profile[2] << 7 | (sps->depth_luma > 8 ? 64u : 0) |
                        (sps->depth_luma > 10 ? 32u : 0) | gray << 4 | x << 3 | y << 2 | place);
    bzi_out_u8(out, 0);                                     /* presentation delay: not said */
    bzi_out_sequence_header(out, coded->sets[0]);
}

/* The units as they are, without delimiters and padding; with a sequence header before the frame, as samples that stand
 * alone have to have. */
static void bzi_out_obus(bzi_out *out, const bzi_coded *coded)
{
    bzi_span rest = bzi_image_data(&coded->image), before = rest, payload;
    uint32_t type, found = 0;
    while (bzi_obu_next(&rest, &type, &payload) > 0) {
        found |= type == BZI_OBU_SEQUENCE_HEADER;
        if (!found && (type == BZI_OBU_FRAME || type == BZI_OBU_FRAME_HEADER)) {
            bzi_out_sequence_header(out, coded->sets[0]);
            found = 1;
        }
        if (type != BZI_OBU_TEMPORAL_DELIMITER && type != BZI_OBU_PADDING)
            bzi_out_bytes(out, before.data, before.size - rest.size);
        before = rest;
    }
}

static bzna_status bzi_coded_gather_file(bzi_coded *coded, const char *field, bzna_error *err)
{
    bzna_status status = bzi_codec_find(coded->image.codec)->inspect(&coded->image, &coded->sps, err);
    return status == BZNA_OK ? BZNA_OK : bzi_error_prefix(err, field);
}

static void bzi_out_file(bzi_out *out, const bzi_coded *coded)
{
    bzi_out_bytes(out, coded->image.data, coded->image.data_size);
}

static const bzi_coded_ops bzi_coded_rows[] = {
    { BZNA_CODEC_H264, bzi_coded_gather_nals, bzi_out_avcc, bzi_out_nals },
    { BZNA_CODEC_H265, bzi_coded_gather_nals, bzi_out_hvcc, bzi_out_nals },
    { BZNA_CODEC_AV1,  bzi_coded_gather_obus, bzi_out_av1c, bzi_out_obus },
    { BZNA_CODEC_JPEG, bzi_coded_gather_file, NULL, bzi_out_file },
};

/* Fills in what the stream says of sizes and colors, and checks what the caller says against it. */
static bzna_status bzi_coded_fit(bzi_coded *coded, const char *field, bzna_error *err)
{
    bzna_image *image = &coded->image;
    const bzi_format *sps = &coded->sps;
    const uint32_t width = sps->width - sps->window[0] - sps->window[1], upright = !sps->orientation;
    const uint32_t height = sps->height - sps->window[2] - sps->window[3];
    if (image->orientation && image->orientation != sps->orientation + upright)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.orientation: %u; in archives, it is what the picture says itself, %u",
                        field, image->orientation, sps->orientation + upright);
    if ((image->frame_width && image->frame_width != width) || (image->frame_height && image->frame_height != height))
        return BZI_FAIL(err, BZNA_E_MISMATCH, "%s.frame_width, frame_height: %ux%u, but the stream is %ux%u", field,
                        image->frame_width, image->frame_height, width, height);
    image->frame_width = width;
    image->frame_height = height;
    if (!coded->ops->config && !image->width && !image->height) {
        image->width = width;
        image->height = height;
    }
    if (width > 65535 || height > 65535 ||
        !bzi_rect_is_inside(image->crop_x, image->crop_y, image->width, image->height, width, height))
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.width, height: %ux%u at %u,%u does not lie in the %ux%u frame", field,
                        image->width, image->height, image->crop_x, image->crop_y, width, height);
    if (!image->color.present)
        image->color = sps->color.present ? sps->color : bzi_color_of_archives;
    return BZNA_OK;
}

static bzna_status bzi_coded_make(bzi_coded *coded, const bzna_image *given, const char *field, bzna_error *err)
{
    bzna_image *image = &coded->image;
    const bzi_codec *codec;
    char type[5];
    bzna_status status;
    memset(coded, 0, sizeof *coded);
    if (!bzi_struct_in(image, sizeof *image, given))
        return BZI_FAIL(err, BZNA_E_STRUCT_SIZE, "%s.struct_size: %u is not known", field, given->struct_size);
    if (image->reserved1)
        return BZI_FAIL(err, BZNA_E_STRUCT_SIZE, "%s: reserved words are set", field);
    for (size_t i = 0; i < sizeof bzi_coded_rows / sizeof bzi_coded_rows[0]; i++)
        if (bzi_coded_rows[i].codec == image->codec)
            coded->ops = &bzi_coded_rows[i];
    codec = bzi_codec_find(image->codec);
    if (!codec)
        return BZI_FAIL(err, BZNA_E_CODEC, "%s.codec: %u is not known", field, image->codec);
    if (!coded->ops)
        return BZI_FAIL(err, BZNA_E_CODEC, "%s.codec: %s can't be written (H.264, H.265, AV1 and JPEG can)", field,
                        codec->name);
    if (!image->data || !image->data_size || (image->config_size && !image->config))
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.data: no bytes", field);
    if (image->length_size > 4 || image->length_size == 3)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.length_size: %u is not 0, 1, 2 or 4", field, image->length_size);
    if (!image->config)
        image->config_size = 0;
    bzi_fourcc_text(codec->config, type);
    if (image->config && image->config_size < codec->config_bytes)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.config: %llu bytes are no %s", field,
                        (unsigned long long)image->config_size, type);
    status = coded->ops->gather(coded, field, err);
    return status == BZNA_OK ? bzi_coded_fit(coded, field, err) : status;
}

/* The sample entry: hvc1, avc1, av01 or mjpg, which says its colors itself. with_clap: with a clean aperture. */
static void bzi_out_visual(bzi_out *out, const bzi_coded *coded, int with_clap)
{
    const bzna_image *image = &coded->image;
    const bzi_codec *codec = bzi_codec_find(image->codec);
    uint64_t entry = bzi_out_begin(out, codec->entries[0]), box;
    bzi_out_zeros(out, 6);
    bzi_out_u16(out, 1);
    bzi_out_zeros(out, 16);
    bzi_out_u16(out, image->frame_width);
    bzi_out_u16(out, image->frame_height);
    bzi_out_u32(out, 72u << 16);
    bzi_out_u32(out, 72u << 16);
    bzi_out_u32(out, 0);
    bzi_out_u16(out, 1);
    bzi_out_zeros(out, 32);
    bzi_out_u16(out, 24);
    bzi_out_u16(out, 0xffff);
    if (coded->ops->config) {
        box = bzi_out_begin(out, codec->config);
        coded->ops->config(out, coded);
        bzi_out_end(out, box);
        box = bzi_out_begin(out, BZI_FOURCC('c', 'o', 'l', 'r'));
        bzi_out_u32(out, BZI_FOURCC('n', 'c', 'l', 'x'));
        bzi_out_u16(out, image->color.primaries);
        bzi_out_u16(out, image->color.transfer);
        bzi_out_u16(out, image->color.matrix);
        bzi_out_u8(out, image->color.full_range ? 0x80 : 0);
        bzi_out_end(out, box);
    }
    if (with_clap) {
        box = bzi_out_begin(out, BZI_FOURCC('c', 'l', 'a', 'p'));
        bzi_out_u32(out, image->width);
        bzi_out_u32(out, 1);
        bzi_out_u32(out, image->height);
        bzi_out_u32(out, 1);
        /* two's complement, as the box has it */
        bzi_out_u32(out, 2 * image->crop_x + image->width - image->frame_width);
        bzi_out_u32(out, 2);
        bzi_out_u32(out, 2 * image->crop_y + image->height - image->frame_height);
        bzi_out_u32(out, 2);
        bzi_out_end(out, box);
    }
    bzi_out_end(out, entry);
}

#endif


/* ==== 37. Writer: tracks =============================================================================================
 * Calls: rooms 2, 36. The boxes of one track, in a sample or in the index. */

#ifndef BENZINA_NO_WRITER

#define BZI_WRITER_TIMESCALE 20u

/* One track to write. Of a video track, what it shows or, once that is gone, its sample entry; of a metadata track, its
 * mime type. */
typedef struct bzi_track_desc {
    const char      *name, *mime;
    const bzi_coded *coded;
    const bzi_out   *entry;
    uint32_t         id, flags, version, width, height, with_clap;
    uint32_t         count;           /* of the track's samples */
    uint32_t         total;           /* of the archive's, over which members selects */
    const uint8_t   *members;         /* a byte each; NULL: all belong to the track */
    uint32_t         member;          /* the value of those that do */
    const uint8_t   *sizes;           /* big-endian 32 bits each; NULL: common_size */
    uint32_t         common_size;
    uint32_t         spell_out;       /* write common_size once a sample, as the original tools do */
    uint64_t         offset;          /* of the first owner */
    const uint8_t   *skips; /* big-endian 32 bits each: bytes between an owner's start and this entry; NULL: 0 */
    const uint8_t   *owners;          /* sizes of what the entries lie in; NULL: sizes */
} bzi_track_desc;

static void bzi_out_times(bzi_out *out, uint32_t version, uint32_t id_or_scale, int reserved, uint64_t duration)
{
    bzi_out_zeros(out, version ? 16 : 8);
    bzi_out_u32(out, id_or_scale);
    if (reserved)
        bzi_out_u32(out, 0);
    if (version)
        bzi_out_u64(out, duration);
    else
        bzi_out_u32(out, (uint32_t)duration);
}

static void bzi_out_mvhd(bzi_out *out, uint32_t version, uint64_t duration, uint32_t next_track)
{
    uint64_t box = bzi_out_begin_full(out, BZI_FOURCC('m', 'v', 'h', 'd'), version << 24);
    bzi_out_times(out, version, BZI_WRITER_TIMESCALE, 0, duration);
    bzi_out_u32(out, 0x10000);
    bzi_out_u16(out, 0x100);
    bzi_out_zeros(out, 10);
    bzi_out_matrix(out);
    bzi_out_zeros(out, 24);
    bzi_out_u32(out, next_track);
    bzi_out_end(out, box);
}

static int bzi_track_is_video(const bzi_track_desc *t) { return t->coded || t->entry; }

/* The entries of a track, whose samples lie one after the other: where each is, and its size. */
typedef struct bzi_entries {
    const bzi_track_desc *track;
    uint32_t              next;       /* of the archive's samples */
    uint64_t              owner;      /* where that one begins */
    uint64_t              offset;     /* of the entry */
    uint32_t              size;
} bzi_entries;

static bzi_entries bzi_entries_of(const bzi_track_desc *t)
{
    bzi_entries e = { t, 0, t->offset, 0, 0 };
    return e;
}

static int bzi_entries_next(bzi_entries *e)
{
    const bzi_track_desc *t = e->track;
    while (e->next < t->total) {
        uint64_t at = (uint64_t)e->next * 4;
        uint32_t size = t->sizes ? bzi_be32(t->sizes + at) : t->common_size;
        int belongs = !t->members || t->members[e->next] == t->member;
        e->offset = e->owner + (t->skips ? bzi_be32(t->skips + at) : 0);
        e->size = size;
        e->owner += t->owners ? bzi_be32(t->owners + at) : size;
        e->next++;
        if (belongs)
            return 1;
    }
    return 0;
}

/* 64 bits wide only when the last one needs it. */
static void bzi_out_offsets(bzi_out *out, const bzi_track_desc *t)
{
    uint64_t box;
    bzi_entries e = bzi_entries_of(t);
    int wide;
    while (bzi_entries_next(&e))
        ;
    wide = e.offset > UINT32_MAX; /* of the archive's last sample, whether it belongs to the track or not */
    box = bzi_out_begin_full(out, wide ? BZI_FOURCC('c', 'o', '6', '4') : BZI_FOURCC('s', 't', 'c', 'o'), 0);
    bzi_out_u32(out, t->count);
    for (e = bzi_entries_of(t); bzi_entries_next(&e); )
        if (wide)
            bzi_out_u64(out, e.offset);
        else
            bzi_out_u32(out, (uint32_t)e.offset);
    bzi_out_end(out, box);
}

static void bzi_out_sizes(bzi_out *out, const bzi_track_desc *t)
{
    uint64_t box = bzi_out_begin_full(out, BZI_FOURCC('s', 't', 's', 'z'), 0);
    int each = t->sizes || t->spell_out;
    bzi_out_u32(out, each ? 0 : t->common_size);
    bzi_out_u32(out, t->count);
    for (bzi_entries e = bzi_entries_of(t); each && bzi_entries_next(&e); )
        bzi_out_u32(out, e.size);
    bzi_out_end(out, box);
}

static void bzi_out_stbl(bzi_out *out, const bzi_track_desc *t)
{
    uint64_t stbl = bzi_out_begin(out, BZI_STBL), box, entry;
    box = bzi_out_begin_full(out, BZI_STSD, 0);
    bzi_out_u32(out, 1);
    if (t->coded) {
        bzi_out_visual(out, t->coded, (int)t->with_clap);
    } else if (t->entry) {
        bzi_out_bytes(out, t->entry->buffer.data, t->entry->size);
    } else {
        entry = bzi_out_begin(out, BZI_FOURCC('m', 'e', 't', 't'));
        bzi_out_zeros(out, 6);
        bzi_out_u16(out, 1);
        bzi_out_u8(out, 0);
        bzi_out_bytes(out, t->mime, strlen(t->mime) + 1);
        bzi_out_end(out, entry);
    }
    bzi_out_end(out, box);
    box = bzi_out_begin_full(out, BZI_FOURCC('s', 't', 't', 's'), 0);
    bzi_out_u32(out, 1);
    bzi_out_u32(out, t->count);
    bzi_out_u32(out, BZI_WRITER_TIMESCALE);
    bzi_out_end(out, box);
    bzi_out_sizes(out, t);
    box = bzi_out_begin_full(out, BZI_FOURCC('s', 't', 's', 'c'), 0);
    bzi_out_u32(out, t->count > 0); /* without samples no run of chunks: FFmpeg refuses a file that has one */
    for (int i = 0; i < 3 && t->count; i++)
        bzi_out_u32(out, 1);
    bzi_out_end(out, box);
    bzi_out_offsets(out, t);
    bzi_out_end(out, stbl);
}

static void bzi_out_minf(bzi_out *out, const bzi_track_desc *t)
{
    uint64_t minf = bzi_out_begin(out, BZI_MINF), box, inner;
    const int video = bzi_track_is_video(t);
    box = bzi_out_begin_full(out, video ? BZI_FOURCC('v', 'm', 'h', 'd') : BZI_FOURCC('n', 'm', 'h', 'd'),
                             video ? 1 : 0);
    if (video)
        bzi_out_zeros(out, 8);
    bzi_out_end(out, box);
    box = bzi_out_begin(out, BZI_FOURCC('d', 'i', 'n', 'f'));
    inner = bzi_out_begin_full(out, BZI_FOURCC('d', 'r', 'e', 'f'), 0);
    bzi_out_u32(out, 1);
    bzi_out_end(out, bzi_out_begin_full(out, BZI_FOURCC('u', 'r', 'l', ' '), 1));
    bzi_out_end(out, inner);
    bzi_out_end(out, box);
    bzi_out_stbl(out, t);
    bzi_out_end(out, minf);
}

static void bzi_out_trak(bzi_out *out, const bzi_track_desc *t)
{
    uint64_t duration = (uint64_t)t->count * BZI_WRITER_TIMESCALE;
    uint64_t trak = bzi_out_begin(out, BZI_TRAK), mdia, box;
    box = bzi_out_begin_full(out, BZI_FOURCC('t', 'k', 'h', 'd'), t->version << 24 | t->flags);
    bzi_out_times(out, t->version, t->id, 1, duration);
    bzi_out_zeros(out, 16);
    bzi_out_matrix(out);
    bzi_out_u32(out, t->width << 16);
    bzi_out_u32(out, t->height << 16);
    bzi_out_end(out, box);
    mdia = bzi_out_begin(out, BZI_MDIA);
    box = bzi_out_begin_full(out, BZI_FOURCC('m', 'd', 'h', 'd'), t->version << 24);
    bzi_out_times(out, t->version, BZI_WRITER_TIMESCALE, 0, duration);
    bzi_out_u16(out, 0x55c4);                               /* und */
    bzi_out_u16(out, 0);
    bzi_out_end(out, box);
    box = bzi_out_begin_full(out, BZI_FOURCC('h', 'd', 'l', 'r'), 0);
    bzi_out_u32(out, 0);
    bzi_out_u32(out, bzi_track_is_video(t) ? BZI_FOURCC('v', 'i', 'd', 'e') : BZI_FOURCC('m', 'e', 't', 'a'));
    bzi_out_zeros(out, 12);
    bzi_out_bytes(out, t->name, strlen(t->name) + 1);
    bzi_out_end(out, box);
    bzi_out_minf(out, t);
    bzi_out_end(out, mdia);
    bzi_out_end(out, trak);
}

#endif


/* ==== 38. Writer: archives ===========================================================================================
 * Calls: rooms 2-5, 36-37. Samples go to the sink one after the other, the index at the end. The archive's mdat has
 * length 0 until bzna_writer_finish patches it, which marks it unfinished. */

#ifndef BENZINA_NO_WRITER

#define BZI_WRITER_FIRST 40u          /* where samples begin: ftyp 24, mdat header 16 */

struct bzna_writer {
    bzi_host     *host;
    bzna_sink     sink;               /* write_at NULL: file is ours */
    bzi_file      file;
    uint64_t      position;           /* where the next sample goes */
    bzna_status   poison;             /* what every later call returns */
    uint32_t      finished;
    uint32_t      count, target_count;
    uint32_t      no_more_targets;    /* a sample had none */
    uint32_t      names, thumbs;      /* samples that had one */
    uint32_t      thumbs_differ;
    bzi_out       sizes, thumb_skips, thumb_sizes, targets, name_sizes, name_bytes;
    bzi_out       splits;             /* a byte a sample */
    uint32_t      split_counts[4], split_targets[4];
    bzi_out       thumb_entry; /* sample entry of the first thumbnail, to compare the others with, and for the index */
    uint32_t      thumb_width, thumb_height;  /* the largest frame's, which thumb_entry leaves 0 */
    bzi_out       scratch;
};

#define BZI_WRITER_OUTS 9

static void bzi_writer_outs(bzna_writer *writer, bzi_out *outs[BZI_WRITER_OUTS])
{
    bzi_out *all[BZI_WRITER_OUTS] = { &writer->sizes,   &writer->thumb_skips, &writer->thumb_sizes,
                                      &writer->targets, &writer->name_sizes,  &writer->name_bytes,
                                      &writer->splits,  &writer->thumb_entry, &writer->scratch };
    memcpy(outs, all, sizeof all);
}

static void bzi_writer_free(bzna_writer *writer)
{
    bzi_host *host = writer->host;
    bzi_out *outs[BZI_WRITER_OUTS];
    bzi_writer_outs(writer, outs);
    for (int i = 0; i < BZI_WRITER_OUTS; i++)
        bzi_buffer_free(&host->memory, &outs[i]->buffer);
    bzi_release(&host->memory, writer, 1, sizeof *writer);
    bzi_host_drop(host);
}

static int bzi_writer_failed(bzna_writer *writer)
{
    bzi_out *outs[BZI_WRITER_OUTS];
    uint32_t failed = 0;
    bzi_writer_outs(writer, outs);
    for (int i = 0; i < BZI_WRITER_OUTS; i++)
        failed |= outs[i]->failed;
    return failed != 0;
}

static bzna_status bzi_writer_write(bzna_writer *writer, uint64_t offset, const void *bytes, uint64_t size,
                                    bzna_error *err)
{
    bzna_status status = BZNA_OK;
    int error = 0;
    if (size == 0)
        return BZNA_OK;
    if (writer->sink.write_at) {
        bzi_os_in_callback++;
        status = writer->sink.write_at(writer->sink.user, offset, bytes, size);
        bzi_os_in_callback--;
    } else {
        error = bzi_os_file_write_at(&writer->file, offset, bytes, size);
    }
    if (status >= 0 && !error)
        return BZNA_OK;
    writer->poison = BZNA_E_IO;
    return bzi_fail(err, BZNA_E_IO, offset, 0, error ? error : status, "writing %llu bytes at byte %llu failed: %s",
                    (unsigned long long)size, (unsigned long long)offset,
                    error ? strerror(error) : bzi_status_text(status));
}

static bzna_status bzi_writer_make(bzi_host *host, const char *path, const bzna_sink *sink, bzna_writer **out,
                                   bzna_error *err)
{
    static const uint8_t head[BZI_WRITER_FIRST] = { 0,   0,   0, 24, 'f', 't', 'y', 'p', 'i', 's', 'o',
                                                    'm', 0,   0, 0,  0,   'b', 'z', 'n', 'a', 'i', 's',
                                                    'o', 'm', 0, 0,  0,   1,   'm', 'd', 'a', 't' };
    bzna_writer *writer = bzi_alloc_zero(&host->memory, 1, sizeof *writer);
    bzi_out *outs[BZI_WRITER_OUTS];
    bzna_status status = BZNA_OK;
    int error;
    if (!writer)
        return bzi_fail_memory(err, "a writer");
    writer->host = host;
    bzi_host_retain(host);
    bzi_writer_outs(writer, outs);
    for (int i = 0; i < BZI_WRITER_OUTS; i++)
        outs[i]->memory = &host->memory;
    if (sink) {
        writer->sink = *sink;
    } else if (path && (error = bzi_os_file_open(&writer->file, path, 1)) != 0) {
        status = bzi_fail(err, error == ENOENT || error == ENOTDIR ? BZNA_E_NOT_FOUND : BZNA_E_IO, BZNA_NO_OFFSET, 0,
                          error, "cannot create: %s", strerror(error));
        bzi_error_prefix(err, path);
        bzi_writer_free(writer);
        return status;
    }
    if ((status = bzi_writer_write(writer, 0, head, sizeof head, err)) != BZNA_OK) {
        if (!sink)
            bzi_os_file_close(&writer->file);
        bzi_writer_free(writer);
        return status;
    }
    writer->position = sizeof head;
    *out = writer;
    return BZNA_OK;
}

static void bzi_writer_close(bzna_writer *writer)
{
    if (!writer->sink.write_at) {
        bzi_os_file_close(&writer->file);
    } else if (writer->sink.close) {
        bzi_os_in_callback++;
        writer->sink.close(writer->sink.user);
        bzi_os_in_callback--;
    }
    bzi_writer_free(writer);
}

/* The places inside one sample. */
typedef struct bzi_sample_places {
    uint64_t input, input_size, thumb, thumb_size, target, name, name_size;
} bzi_sample_places;

static void bzi_writer_inner_track(bzi_out *out, const char *name, const char *mime, const bzi_coded *coded,
                                   uint32_t id, uint32_t flags, uint64_t offset, uint64_t size)
{
    bzi_track_desc t;
    memset(&t, 0, sizeof t);
    t.name = name;
    t.mime = mime;
    t.coded = coded;
    t.id = id;
    t.flags = flags;
    t.width = coded ? coded->image.width : 0;
    t.height = coded ? coded->image.height : 0;
    t.with_clap = coded != NULL;
    t.count = t.total = 1;
    t.common_size = (uint32_t)size;
    t.offset = offset;
    bzi_out_trak(out, &t);
}

/* The whole small mp4 of one sample, into scratch. */
static void bzi_writer_inner(bzi_out *out, const bzna_sample_desc *sample, const bzi_coded *input,
                             const bzi_coded *thumb, bzi_sample_places *at)
{
    uint64_t box;
    uint32_t id = 1;
    bzi_out_reset(out);
    box = bzi_out_begin(out, BZI_FOURCC('f', 't', 'y', 'p'));
    bzi_out_u32(out, BZI_FOURCC('i', 's', 'o', 'm'));
    bzi_out_u32(out, 0);
    bzi_out_u32(out, BZI_FOURCC('i', 's', 'o', 'm'));
    bzi_out_end(out, box);
    box = bzi_out_begin(out, BZI_FOURCC('m', 'd', 'a', 't'));
    at->input = at->thumb = out->size;
    input->ops->unit(out, input);
    at->input_size = at->thumb_size = out->size - at->input;
    if (thumb && thumb != input) {
        at->thumb = out->size;
        thumb->ops->unit(out, thumb);
        at->thumb_size = out->size - at->thumb;
    }
    at->target = out->size;
    if (sample->target != BZNA_TARGET_NONE)
        bzi_out_le64(out, (uint64_t)sample->target);
    at->name = out->size;
    at->name_size = sample->name ? strlen(sample->name) + 1 : 0;
    bzi_out_bytes(out, sample->name, at->name_size);
    bzi_out_end(out, box);
    box = bzi_out_begin(out, BZI_MOOV);
    bzi_out_mvhd(out, 0, BZI_WRITER_TIMESCALE,
                 2u + (sample->name != NULL) + (sample->target != BZNA_TARGET_NONE) + (thumb != NULL));
    bzi_writer_inner_track(out, "bzna_input", NULL, input, id++, 0, at->input, at->input_size);
    if (sample->name)
        bzi_writer_inner_track(out, "bzna_fname", "text/plain", NULL, id++, 0, at->name, at->name_size);
    if (sample->target != BZNA_TARGET_NONE)
        bzi_writer_inner_track(out, "bzna_target", "application/octet-stream", NULL, id++, 0, at->target, 8);
    if (thumb)
        bzi_writer_inner_track(out, "bzna_thumb", NULL, thumb, id++, 3, at->thumb, at->thumb_size);
    bzi_out_end(out, box);
}

#define BZI_ENTRY_SIZE_AT 32u         /* where a sample entry says its width and height, 16 bits each */

/* The playable track needs one configuration: remembers the first thumbnail's and compares the others'. */
static void bzi_writer_note_thumb(bzna_writer *writer, const bzi_coded *thumb)
{
    bzi_out *out = &writer->scratch;                        /* the sample is behind us */
    const bzna_image *image = thumb ? &thumb->image : NULL;
    if (!image || writer->thumbs_differ)
        return;
    bzi_out_reset(out);
    bzi_out_visual(out, thumb, 0);
    if (out->failed)
        return;
    memset(out->buffer.data + BZI_ENTRY_SIZE_AT, 0, 4);     /* JPEGs of several sizes share an entry */
    if (image->frame_width > writer->thumb_width)
        writer->thumb_width = image->frame_width;
    if (image->frame_height > writer->thumb_height)
        writer->thumb_height = image->frame_height;
    if (writer->thumb_entry.size == 0)
        bzi_out_bytes(&writer->thumb_entry, out->buffer.data, out->size);
    else
        writer->thumbs_differ = writer->thumb_entry.size != out->size ||
                                memcmp(writer->thumb_entry.buffer.data, out->buffer.data, (size_t)out->size);
}

static bzna_status bzi_writer_index(bzna_writer *writer, const bzna_sample_desc *sample, const bzi_coded *thumb,
                                    const bzi_sample_places *at, uint64_t size, bzna_error *err)
{
    bzi_out_u32(&writer->sizes, (uint32_t)size);
    bzi_out_u32(&writer->thumb_skips, (uint32_t)at->thumb);
    bzi_out_u32(&writer->thumb_sizes, (uint32_t)at->thumb_size);
    writer->thumbs += thumb != NULL;
    writer->names += sample->name != NULL;
    bzi_out_u32(&writer->name_sizes, sample->name ? (uint32_t)at->name_size : 1);
    bzi_out_bytes(&writer->name_bytes, sample->name ? sample->name : "", sample->name ? at->name_size : 1);
    if (sample->target != BZNA_TARGET_NONE && !writer->no_more_targets) {
        bzi_out_le64(&writer->targets, (uint64_t)sample->target);
        writer->target_count++;
        writer->split_targets[sample->split]++;
    }
    bzi_out_u8(&writer->splits, sample->split);
    writer->split_counts[sample->split]++;
    writer->no_more_targets |= sample->target == BZNA_TARGET_NONE;
    bzi_writer_note_thumb(writer, thumb);
    writer->count++;
    writer->position += size;
    if (bzi_writer_failed(writer)) {
        writer->poison = BZNA_E_MEMORY;
        return bzi_fail_memory(err, "the archive's index");
    }
    return BZNA_OK;
}

static bzna_status bzi_writer_add(bzna_writer *writer, const bzna_sample_desc *sample, bzna_error *err)
{
    bzi_coded input, given_thumb;
    const bzi_coded *thumb = NULL;
    bzi_sample_places at;
    uint64_t size;
    bzna_status status;
    if ((status = bzi_coded_make(&input, sample->image, "sample.image", err)) != BZNA_OK)
        return status;
    if (sample->thumb) {
        if ((status = bzi_coded_make(&given_thumb, sample->thumb, "sample.thumb", err)) != BZNA_OK)
            return status;
        thumb = &given_thumb;
    } else if (input.image.frame_width <= 512 && input.image.frame_height <= 512) {
        thumb = &input;
    }
    if (sample->split > BZNA_SPLIT_TEST)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "sample.split: %u is not known", sample->split);
    if (sample->name && strlen(sample->name) > 65535)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "sample.name: longer than 65535 bytes");
    if (writer->count == UINT32_MAX)
        return BZI_FAIL(err, BZNA_E_LIMIT, "an archive holds at most %u samples", UINT32_MAX);
    bzi_writer_inner(&writer->scratch, sample, &input, thumb, &at);
    size = writer->scratch.size;
    if (writer->scratch.failed || size > UINT32_MAX)
        return size > UINT32_MAX ? BZI_FAIL(err, BZNA_E_LIMIT, "a sample has at most 4 GiB") :
                                   bzi_fail_memory(err, "a sample");
    if ((status = bzi_writer_write(writer, writer->position, writer->scratch.buffer.data, size, err)) != BZNA_OK)
        return status;
    return bzi_writer_index(writer, sample, thumb, &at, size, err);
}

/* bzna_input, bzna_target and bzna_fname, of the whole archive (split 0) or of one split. Returns the next track's
 * id. */
static uint32_t bzi_writer_metadata(bzna_writer *writer, uint32_t split, uint32_t id, uint64_t targets_at,
                                    uint64_t names_at)
{
    static const char *const suffixes[4] = { "", "_train", "_validation", "_test" };
    bzi_out *out = &writer->scratch;
    char name[BZNA_NAME_MAX];
    bzi_track_desc t;
    memset(&t, 0, sizeof t);
    t.version = 1;
    t.name = name;
    t.members = split ? writer->splits.buffer.data : NULL;
    t.member = split;
    t.id = id++;
    snprintf(name, sizeof name, "bzna_input%s", suffixes[split]);
    t.mime = "video/mp4";
    t.count = split ? writer->split_counts[split] : writer->count;
    t.total = writer->count;
    t.sizes = writer->sizes.buffer.data;
    t.offset = BZI_WRITER_FIRST;
    bzi_out_trak(out, &t);
    t.id = id++;
    snprintf(name, sizeof name, "bzna_target%s", suffixes[split]);
    t.mime = "application/octet-stream";
    t.count = split ? writer->split_targets[split] : writer->target_count;
    t.total = writer->target_count;
    t.sizes = NULL;
    t.common_size = 8;
    t.spell_out = 1;
    t.offset = targets_at;
    bzi_out_trak(out, &t);
    if (!writer->names)
        return id;
    t.id = id++;
    snprintf(name, sizeof name, "bzna_fname%s", suffixes[split]);
    t.mime = "text/plain";
    t.count = split ? writer->split_counts[split] : writer->count;
    t.total = writer->count;
    t.sizes = writer->name_sizes.buffer.data;
    t.offset = names_at;
    bzi_out_trak(out, &t);
    return id;
}

/* The playable track, last as the format asks. */
static void bzi_writer_playable(bzna_writer *writer, uint32_t id)
{
    bzi_track_desc t;
    memset(&t, 0, sizeof t);
    bzi_put_be32(writer->thumb_entry.buffer.data + BZI_ENTRY_SIZE_AT, writer->thumb_width << 16 | writer->thumb_height);
    t.version = 1;
    t.id = id;
    t.name = "bzna_thumb";
    t.entry = &writer->thumb_entry;
    t.flags = 3;
    t.width = writer->thumb_width;
    t.height = writer->thumb_height;
    t.count = t.total = writer->count;
    t.sizes = writer->thumb_sizes.buffer.data;
    t.skips = writer->thumb_skips.buffer.data;
    t.owners = writer->sizes.buffer.data;
    t.offset = BZI_WRITER_FIRST;
    bzi_out_trak(&writer->scratch, &t);
}

/* The outer movie box, into scratch. */
static void bzi_writer_movie(bzna_writer *writer, uint64_t targets_at, uint64_t names_at)
{
    bzi_out *out = &writer->scratch;
    uint32_t with_thumb = writer->thumbs == writer->count && !writer->thumbs_differ, sets = 1, id = 1;
    uint64_t box;
    for (uint32_t split = 1; split < 4; split++)
        sets += writer->split_counts[split] > 0;
    bzi_out_reset(out);
    box = bzi_out_begin(out, BZI_MOOV);
    bzi_out_mvhd(out, 1, (uint64_t)writer->count * BZI_WRITER_TIMESCALE,
                 1 + sets * (2u + (writer->names > 0)) + with_thumb);
    for (uint32_t split = 0; split < 4; split++)
        if (split == 0 || writer->split_counts[split])
            id = bzi_writer_metadata(writer, split, id, targets_at, names_at);
    if (with_thumb)
        bzi_writer_playable(writer, id);
    bzi_out_end(out, box);
}

static bzna_status bzi_writer_finish(bzna_writer *writer, bzna_error *err)
{
    uint64_t targets_at = writer->position, names_at = targets_at + writer->targets.size;
    uint64_t end = names_at + (writer->names ? writer->name_bytes.size : 0);
    uint8_t length[8];
    bzna_status status;
    if (writer->count == 0)
        return BZI_FAIL(err, BZNA_E_NO_SAMPLES, "nothing was added to the archive");
    bzi_writer_movie(writer, targets_at, names_at);
    if (writer->scratch.failed)
        return bzi_fail_memory(err, "the archive's index");
    if ((status = bzi_writer_write(writer, targets_at, writer->targets.buffer.data, writer->targets.size, err)) !=
            BZNA_OK ||
        (status = bzi_writer_write(writer, names_at, writer->name_bytes.buffer.data, end - names_at, err)) != BZNA_OK ||
        (status = bzi_writer_write(writer, end, writer->scratch.buffer.data, writer->scratch.size, err)) != BZNA_OK)
        return status;
    bzi_put_be32(length, (uint32_t)((end - 24) >> 32));
    bzi_put_be32(length + 4, (uint32_t)(end - 24));
    if ((status = bzi_writer_write(writer, 32, length, 8, err)) != BZNA_OK)
        return status;
    writer->finished = 1;
    if (writer->thumbs != writer->count || writer->thumbs_differ)
        bzi_log(writer->host, BZNA_LOG_WARNING, BZNA_OK, "no outer bzna_thumb track: %s",
                writer->thumbs != writer->count ? "not every sample has a thumbnail" :
                                                  "the thumbnails do not share one decoder configuration");
    return BZNA_OK;
}

#else

/* No writer is ever made. */
struct bzna_writer {
    bzi_host   *host;
    bzna_status poison;
    uint32_t    finished;
};

static bzna_status bzi_writer_make(bzi_host *host, const char *path, const bzna_sink *sink, bzna_writer **out,
                                   bzna_error *err)
{
    (void)host;
    (void)path;
    (void)sink;
    (void)out;
    return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "this build has no writer (BENZINA_NO_WRITER)");
}

static bzna_status bzi_writer_add(bzna_writer *writer, const bzna_sample_desc *sample, bzna_error *err)
{
    (void)sample;
    return BZI_FAIL(err, writer->poison, "no writer");
}

static bzna_status bzi_writer_finish(bzna_writer *writer, bzna_error *err)
{
    return BZI_FAIL(err, writer->poison, "no writer");
}

static void bzi_writer_close(bzna_writer *writer) { (void)writer; }

#endif


/* ==== 39. Random numbers, order ======================================================================================
 * Calls: rooms 2. Pure functions of (seed, epoch, position): no state, so any thread, rank and restart agree. */

static void bzi_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xd2511f53u * c0, p1 = (uint64_t)0xcd9e8d57u * c2;
        uint32_t h0 = (uint32_t)(p0 >> 32), h1 = (uint32_t)(p1 >> 32);
        c0 = h1 ^ c1 ^ k0;
        c2 = h0 ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* 128 bits that (seed, epoch) own, by use: 0 keys the samples' numbers, 1 the permutation. */
static void bzi_random_epoch(uint64_t seed, uint64_t epoch, uint32_t use, uint32_t out[4])
{
    uint32_t counter[4] = { (uint32_t)epoch, (uint32_t)(epoch >> 32), use, 0 };
    uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    bzi_philox(counter, key, out);
}

static void bzi_random_init(bzna_random *random, uint64_t seed, uint64_t epoch, uint64_t sample, uint32_t operation)
{
    uint32_t key[4];
    memset(random, 0, sizeof *random);
    bzi_random_epoch(seed, epoch, 0, key);
    random->key[0] = key[0];
    random->key[1] = key[1];
    random->counter[0] = (uint32_t)sample;
    random->counter[1] = (uint32_t)(sample >> 32);
    random->counter[2] = operation;
    random->used = 4;
}

/* Another stream for another view of a sample, or another occurrence of it in an epoch; (0, 0) is the sample's own.
 * Pre: fresh from bzi_random_init. */
static void bzi_random_fork(bzna_random *random, uint32_t view, uint64_t occurrence)
{
    uint32_t counter[4] = { (uint32_t)occurrence, (uint32_t)(occurrence >> 32), view, 1 }, key[4];
    if (!view && !occurrence)
        return;
    bzi_philox(counter, random->key, key);
    random->key[0] = key[0];
    random->key[1] = key[1];
}

static uint32_t bzi_random_u32(bzna_random *random)
{
    if (random->used >= 4) {
        bzi_philox(random->counter, random->key, random->block);
        random->counter[3]++;
        random->used = 0;
    }
    return random->block[random->used++];
}

static double bzi_random_uniform(bzna_random *random, double lo, double hi)
{
    uint64_t low = bzi_random_u32(random), high = bzi_random_u32(random);
    return lo + (hi - lo) * ((double)((high << 32 | low) >> 11) * 0x1p-53);
}

/* A keyed permutation of [0, count): an alternating Feistel network on a grid of rows x columns, both near the square
 * root, that adds instead of xors; walked until it falls inside, which is at once but for one row's worth of chances.
 * Grids smaller than 8 x 8 have too few permutations. */
typedef struct bzi_permutation {
    uint64_t count;
    uint64_t key[2];
    uint64_t rows, columns;           /* rows * columns >= count; each below 2^32 */
} bzi_permutation;

#define BZI_PERMUTATION_ROUNDS 6      /* 4 fail the chi-square tests of few samples */

static bzi_permutation bzi_permutation_make(uint64_t seed, uint64_t epoch, uint64_t count)
{
    bzi_permutation p;
    uint32_t words[4];
    bzi_random_epoch(seed, epoch, 1, words);
    p.count = count;
    p.key[0] = (uint64_t)words[1] << 32 | words[0];
    p.key[1] = (uint64_t)words[3] << 32 | words[2];
    p.rows = (uint64_t)sqrt((double)count);                 /* any value near it will do: columns follow */
    if (p.rows < 8)
        p.rows = 8;
    p.columns = count / p.rows + 1;
    if (p.columns < 8)
        p.columns = 8;
    return p;
}

/* A number below limit that depends on all bits of x and key. One multiplication less would fail the chi-square
 * tests. */
static uint64_t bzi_permutation_mix(uint64_t x, uint64_t key, uint64_t limit)
{
    x = (x ^ key) * 0x9e3779b97f4a7c15ull;
    x ^= x >> 32;
    return (x * 0xd6e8feb86659fd93ull >> 32) * limit >> 32;
}

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

typedef struct bzi_ranked {
    double   key;
    uint64_t sample;
} bzi_ranked;

/* What stands at each position of an epoch. The arrays are the loader's. */
typedef struct bzi_order {
    uint64_t        samples;          /* of the data set, or of indices */
    uint64_t        length;           /* positions of an epoch */
    uint32_t        shuffle, weighting;
    uint32_t        group_count;      /* weighted draws: samples whose weights are alike and neighbors form a group */
    const uint64_t *indices;          /* NULL: all samples */
    const double   *weights, *sums;   /* of the groups; sums are cumulated, which loses the smallest weights */
    const uint64_t *ends;             /* cumulated sizes of the groups; NULL: one sample each */
    bzi_ranked     *ranked;           /* drawn once each: all samples, by key; the epoch's order */
    uint64_t        seed, epoch;
    uint32_t        repeats;          /* a sample may stand at several positions of an epoch */
    uint32_t        valid;            /* for that seed and epoch */
    bzi_permutation permutation;
} bzi_order;

static int bzi_ranked_is_before(const void *left, const void *right)
{
    const bzi_ranked *a = left, *b = right;
    return a->key < b->key || (a->key <= b->key && a->sample < b->sample);
}

static int bzi_order_ends_past(const void *ends, uint64_t i, const void *sample)
{
    return ((const uint64_t *)ends)[i] > *(const uint64_t *)sample;
}
static int bzi_order_sums_past(const void *sums, uint64_t i, const void *u)
{
    return ((const double *)sums)[i] > *(const double *)u;
}

static uint32_t bzi_order_group(const bzi_order *order, uint64_t sample)
{
    return (uint32_t)(order->ends ? bzi_search(order->ends, order->group_count - 1, &sample, bzi_order_ends_past) :
                                    sample);
}

static uint64_t bzi_order_begin(const bzi_order *order, uint32_t group)
{
    return !group ? 0 : order->ends ? order->ends[group - 1] : group;
}
static uint64_t bzi_order_size(const bzi_order *order, uint32_t group)
{
    return order->ends ? order->ends[group] - bzi_order_begin(order, group) : 1;
}

/* Efraimidis and Spirakis 2006: the order of u^(1/w), largest first, is a weighted draw without replacement; here
 * -log(u)/w, smallest first. */
static void bzi_order_rank(bzi_order *order)
{
    for (uint64_t i = 0; i < order->samples; i++) {
        uint32_t group = bzi_order_group(order, i);
        double weight = order->weights[group] / (double)bzi_order_size(order, group);
        bzna_random random;
        bzi_random_init(&random, order->seed, order->epoch, i, BZNA_OPERATION_ORDER);
        order->ranked[i].sample = i;
        order->ranked[i].key = weight > 0 ? fmin(-log1p(-bzi_random_uniform(&random, 0, 1)) / weight, DBL_MAX) :
                                            HUGE_VAL;
    }
    bzi_sort(order->ranked, order->samples, sizeof *order->ranked, bzi_ranked_is_before);
}

static void bzi_order_epoch(bzi_order *order, uint64_t seed, uint64_t epoch)
{
    order->valid = 1;
    order->seed = seed;
    order->epoch = epoch;
    order->permutation = bzi_permutation_make(seed, epoch, order->samples);
    if (order->weighting == BZNA_WEIGHTING_ONCE)
        bzi_order_rank(order);
}

/* One weighted draw: the position is the counter, so that any position can be had at any time. */
static uint64_t bzi_order_draw(const bzi_order *order, uint64_t position)
{
    uint32_t low, last = order->group_count - 1;
    bzna_random random;
    double u;
    bzi_random_init(&random, order->seed, order->epoch, position, BZNA_OPERATION_ORDER);
    u = bzi_random_uniform(&random, 0, order->sums[last]);
    low = (uint32_t)bzi_search(order->sums, last, &u, bzi_order_sums_past);
    while (low && !(order->weights[low] > 0))
        low--; /* u can round up to the sum: the last group with a weight */
    u = bzi_random_uniform(&random, 0, (double)bzi_order_size(order, low));
    return bzi_order_begin(order, low) + bzi_min((uint64_t)u, bzi_order_size(order, low) - 1);
}

/* The sample at a position below length. */
static uint64_t bzi_order_at(const bzi_order *order, uint64_t position)
{
    uint64_t sample = order->weighting == BZNA_WEIGHTING_REPLACE ? bzi_order_draw(order, position) :
                      order->weighting == BZNA_WEIGHTING_ONCE ? order->ranked[position].sample :
                      order->shuffle ? bzi_permutation_at(&order->permutation, position) : position;
    return order->indices ? order->indices[sample] : sample;
}

/* The global order of one epoch from `start` on, dealt to world ranks in batches: batch j of rank r has the positions
 * start + (j * batch + slot) * world + r. Every rank has the same number of batches. */
typedef struct bzi_shard {
    uint64_t count, start;
    uint32_t batch, world, rank, last_batch;
} bzi_shard;

static uint64_t bzi_shard_step(const bzi_shard *s) { return (uint64_t)s->batch * s->world; }

static uint64_t bzi_shard_batches(const bzi_shard *s)
{
    uint64_t left = s->count - s->start, step = bzi_shard_step(s);
    return left / step + (s->last_batch != BZNA_LAST_DROP && left % step != 0);
}

/* Where slot 0 of batch j stands; positions at or behind count are padding. */
static uint64_t bzi_shard_position(const bzi_shard *s, uint64_t j)
{
    return s->start + j * bzi_shard_step(s) + s->rank;
}

static uint32_t bzi_shard_real(const bzi_shard *s, uint64_t j)
{
    uint64_t first = bzi_shard_position(s, j);
    return first >= s->count ? 0 : (uint32_t)bzi_min(s->batch, (s->count - first + s->world - 1) / s->world);
}


/* ==== 40. Transforms, color ==========================================================================================
 * Calls: rooms 5, 39. Parameters and random numbers -> homography; color description -> coefficients. Double precision.
 * */

static int bzi_finite(const double *values, int n)
{
    for (int i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return 0;
    return 1;
}

/* H = T_in * T_crop * R * S * T_out, multiplied out. Pre: sizes > 0, numbers finite. Post: H maps output to input,
 * affine. */
static void bzi_affine_matrix(const bzna_affine *a, double h[9])
{
    double radians = a->degrees * (3.14159265358979323846 / 180), c = cos(radians), s = sin(radians);
    double crop_width = a->has_crop ? a->crop_width : a->in_width,
           crop_height = a->has_crop ? a->crop_height : a->in_height;
    double fx = a->flip_h ? -1 : 1, fy = a->flip_v ? -1 : 1, sx = 1, sy = 1, tx, ty;
    if (a->resize) {
        sx = fabs(c * crop_width - s * crop_height) / a->out_width;
        sy = fabs(s * crop_width + c * crop_height) / a->out_height;
        if (a->keep_ratio)
            sx = sy = sx < sy ? sx : sy;
    }
    tx = a->translate_x - (a->out_width - 1.0) / 2;
    ty = a->translate_y - (a->out_height - 1.0) / 2;
    h[0] = fx * c * sx;
    h[1] = fx * -s * sy;
    h[2] = fx * (c * sx * tx - s * sy * ty + (a->has_crop ? a->crop_x : 0)) + (a->in_width - 1.0) / 2;
    h[3] = fy * s * sx;
    h[4] = fy * c * sy;
    h[5] = fy * (s * sx * tx + c * sy * ty + (a->has_crop ? a->crop_y : 0)) + (a->in_height - 1.0) / 2;
    h[6] = h[7] = 0;
    h[8] = 1;
}

/* A range of no width takes no random number. */
static double bzi_draw(bzna_random *random, double lo, double hi)
{
    return lo < hi ? bzi_random_uniform(random, lo, hi) : lo;
}

static double bzi_draw_log(bzna_random *random, double lo, double hi)
{
    return lo < hi ? exp(bzi_random_uniform(random, log(lo), log(hi))) : lo;
}

/* True with that probability. */
static uint32_t bzi_draw_flip(bzna_random *random, double probability)
{
    if (probability <= 0 || probability >= 1)
        return probability >= 1;
    return bzi_random_uniform(random, 0, 1) < probability;
}

/* A warp with its defaults filled in: MXNet's, or the random similarity that every other kind is a case of; and what
 * distorts its output. */
typedef struct bzi_similarity {
    uint32_t law;                     /* never AUTO */
    uint32_t resize, keep_ratio, random_crop;
    double   edge;                    /* CENTER_RESIZED_CROP: the output's, of the resized picture's; else 0 */
    double   scale[2];                /* of the crop's area */
    double   ratio[2];                /* 0, 0: the input's own */
    double   degrees[2], translate[2];
    double   flip_h, flip_v;
    double   rotate[2], shear[4], perspective, perspective_p;
    double   shear_ratio;
    uint32_t is_mxnet, canvas_px[2], crop_px[2], pad_px, short_edge_px, has_crop_start, crop_start[2];
} bzi_similarity;

/* The crop of both laws when ten tries found none: the largest centered one within the ratios. */
static void bzi_crop_central(const double ratio[2], double width, double height, double *crop_width,
                             double *crop_height)
{
    *crop_width = width;
    *crop_height = height;
    if (!(ratio[0] > 0))
        return;
    if (width / height < ratio[0])
        *crop_height = fmax(1, floor(width / ratio[0] + 0.5));
    else if (width / height > ratio[1])
        *crop_width = fmax(1, floor(height * ratio[1] + 0.5));
}

/* torchvision's RandomResizedCrop: area uniform, ratio log-uniform, whole pixels. Returns 0 when it falls back to the
 * central crop. */
static int bzi_crop_torchvision(bzna_random *random, const bzi_similarity *p, double width, double height,
                                bzna_affine *a)
{
    for (int i = 0; i < 10; i++) {
        double area = width * height * bzi_draw(random, p->scale[0], p->scale[1]);
        double ratio = p->ratio[0] > 0 ? bzi_draw_log(random, p->ratio[0], p->ratio[1]) : width / height;
        double w = floor(sqrt(area * ratio) + 0.5), h = floor(sqrt(area / ratio) + 0.5);
        if (w > 0 && w <= width && h > 0 && h <= height) {
            double left = p->random_crop ? floor(bzi_draw(random, 0, width - w + 1)) : (width - w) / 2;
            double top = p->random_crop ? floor(bzi_draw(random, 0, height - h + 1)) : (height - h) / 2;
            a->crop_width = w;
            a->crop_height = h;
            a->crop_x = left + w / 2 - width / 2;
            a->crop_y = top + h / 2 - height / 2;
            return 1;
        }
    }
    bzi_crop_central(p->ratio, width, height, &a->crop_width, &a->crop_height);
    return 0;
}

/* torchvision's Resize and CenterCrop: the edge that is the shorter one beside the output's becomes output / edge, the
 * other one keeps the ratio, both in whole pixels; then the middle, moved to whole pixels. What is larger than the
 * resized picture has a margin. */
static void bzi_crop_resized(double edge, bzna_affine *a)
{
    const double in[2] = { a->in_width, a->in_height }, out[2] = { a->out_width, a->out_height };
    const int s = in[0] * out[1] > in[1] * out[0];
    double resized[2], center[2];
    resized[s] = fmax(1, floor(out[s] / edge + 0.5));
    resized[!s] = fmax(1, floor(resized[s] * in[!s] / in[s]));
    for (int i = 0; i < 2; i++) {
        double around = (resized[i] - out[i]) / 2, first = around < 0 ? ceil(around) : rint(around);
        center[i] = (first + out[i] / 2 - resized[i] / 2) * (in[i] / resized[i]);
    }
    a->crop_x = center[0];
    a->crop_y = center[1];
    a->crop_width = out[0] * (in[0] / resized[0]);
    a->crop_height = out[1] * (in[1] / resized[1]);
    a->keep_ratio = 0;
}

/* The original's law: area log-uniform, drawn once; then up to ten ratios. Returns 0 when it falls back to the central
 * crop. */
static int bzi_crop_benzina(bzna_random *random, const bzi_similarity *p, double width, double height, int resize,
                            bzna_affine *a)
{
    double scale = bzi_draw_log(random, p->scale[0], p->scale[1]);
    if (p->ratio[0] > 0) {
        for (int i = 0; i < 10; i++) {
            double ratio = bzi_draw_log(random, p->ratio[0], p->ratio[1]);
            a->crop_width = sqrt(scale * width * height * ratio);
            a->crop_height = sqrt(scale * width * height / ratio);
            if (a->crop_width > 0 && a->crop_width <= width && a->crop_height > 0 && a->crop_height <= height)
                return 1;
        }
        bzi_crop_central(p->ratio, width, height, &a->crop_width, &a->crop_height);
        return 0;
    }
    a->crop_width = resize ? width * sqrt(scale) : a->out_width;
    a->crop_height = resize ? height * sqrt(scale) : a->out_height;
    return 1;
}

/* Pre: a has sizes > 0, and nothing else. */
static void bzi_warp_similarity(bzna_random *random, const bzi_similarity *p, bzna_affine a, double h[9])
{
    const uint32_t in_width = a.in_width, in_height = a.in_height;
    int resize = p->resize || p->ratio[0] > 0 || p->scale[0] != 1 || p->scale[1] != 1, found;
    a.has_crop = 1;
    a.resize = (uint32_t)resize;
    a.keep_ratio = p->keep_ratio;
    if (p->law == BZNA_LAW_TORCHVISION && p->edge > 0) {
        bzi_crop_resized(p->edge, &a);
    } else if (p->law == BZNA_LAW_TORCHVISION && resize) {
        found = bzi_crop_torchvision(random, p, in_width, in_height, &a);
    } else {
        found = bzi_crop_benzina(random, p, in_width, in_height, resize, &a);
        if (found && p->random_crop) {
            double margin_x = fmax(0, (in_width - a.crop_width) / 2),
                   margin_y = fmax(0, (in_height - a.crop_height) / 2);
            a.crop_x = bzi_draw(random, -margin_x, margin_x);
            a.crop_y = bzi_draw(random, -margin_y, margin_y);
        }
    }
    a.degrees = bzi_draw(random, p->degrees[0], p->degrees[1]);
    a.translate_x = bzi_draw(random, -p->translate[0] * a.out_width, p->translate[0] * a.out_width);
    a.translate_y = bzi_draw(random, -p->translate[1] * a.out_height, p->translate[1] * a.out_height);
    a.flip_h = bzi_draw_flip(random, p->flip_h);
    a.flip_v = bzi_draw_flip(random, p->flip_v);
    bzi_affine_matrix(&a, h);
}

/* h = a b; h may be either. */
static void bzi_homography_multiply(const double a[9], const double b[9], double h[9])
{
    double product[9];
    for (int i = 0; i < 9; i++) {
        const double *row = a + i / 3 * 3, *column = b + i % 3;
        product[i] = row[0] * column[0] + row[1] * column[3] + row[2] * column[6];
    }
    memcpy(h, product, sizeof product);
}

/* A whole number of lo..hi. */
static double bzi_draw_integer(bzna_random *random, double lo, double hi)
{
    return fmin(floor(bzi_draw(random, lo, lo < hi ? hi + 1 : hi)), hi);
}

/* MXNet's DefaultImageAugmenter: resize of the short edge, affine transform onto a canvas, pad, crop, mirror; its M
 * maps the other way. Rounding is MXNet's, too; a crop larger than the canvas, which it refuses, is centered. Pre: a
 * has sizes > 0, and nothing else. */
static void bzi_warp_mxnet(bzna_random *random, const bzi_similarity *p, bzna_affine a, double h[9])
{
    const double out[2] = { a.out_width, a.out_height }, given[2] = { a.in_width, a.in_height };
    const int s = given[0] > given[1];
    double in[2] = { given[0], given[1] }, crop[2] = { out[0], out[1] }, origin[2];
    if (p->short_edge_px) {
        in[s] = p->short_edge_px;
        in[!s] = floor(p->short_edge_px * given[!s] / given[s]);
    }
    const double shear = bzi_draw(random, -p->shear_ratio, p->shear_ratio);
    const double radians = bzi_draw_integer(random, p->degrees[0], p->degrees[1]) * (3.14159265358979323846 / 180);
    const double k = bzi_draw(random, p->scale[0], p->scale[1]), ratio = bzi_draw(random, p->ratio[0], p->ratio[1]);
    const double c = cos(radians), d = sin(radians), hs = 2 * k / (1 + ratio), ws = ratio * hs;
    const double m[4] = { hs * c - shear * d * ws, hs * d + shear * c * ws, -d * ws, c * ws };
    const double inverse[4] = { m[3] / (hs * ws), -m[1] / (hs * ws), -m[2] / (hs * ws), m[0] / (hs * ws) };
    if (p->crop_px[1])
        crop[0] = crop[1] = bzi_draw_integer(random, p->crop_px[0], p->crop_px[1]);
    for (int i = 0; i < 2; i++) {
        const double most = p->canvas_px[1] ? p->canvas_px[1] : 1e10;
        const double canvas = fmax(fmin(k * in[i], most), p->canvas_px[0]);
        const double room = floor(canvas) + 2.0 * p->pad_px - crop[i];
        const double begin = p->has_crop_start ? p->crop_start[i] :
                             p->random_crop && room > 0 ? bzi_draw_integer(random, 0, room) : floor(room / 2);
        origin[i] = begin - p->pad_px + (crop[i] / out[i] - 1) / 2 -
                    (canvas - (m[2 * i] * in[0] + m[2 * i + 1] * in[1])) / 2;
    }
    for (int i = 0; i < 2; i++) {                           /* M is applied to centers of pixels, the resize to edges */
        const double grow = given[i] / in[i];
        h[3 * i] = grow * inverse[2 * i] * (crop[0] / out[0]);
        h[3 * i + 1] = grow * inverse[2 * i + 1] * (crop[1] / out[1]);
        h[3 * i + 2] = grow * (inverse[2 * i] * origin[0] + inverse[2 * i + 1] * origin[1] + 0.5) - 0.5;
    }
    h[6] = h[7] = 0;
    h[8] = 1;
    const int flips[2] = { (int)bzi_draw_flip(random, p->flip_h), (int)bzi_draw_flip(random, p->flip_v) };
    for (int i = 0; i < 6; i++)
        if (i % 3 < 2 && flips[i % 3]) {
            h[i / 3 * 3 + 2] += h[i] * (out[i % 3] - 1);
            h[i] = -h[i];
        }
}

/* torchvision's RandomAffine without its shift and scale, as it maps output to input: about the middle. */
static void bzi_distort_affine(double rotate, double shear_x, double shear_y, const double size[2], double h[9])
{
    const double to_radians = 3.14159265358979323846 / 180, turn = (rotate - shear_y) * to_radians;
    const double cos_y = cos(shear_y * to_radians), tan_x = tan(shear_x * to_radians), r = rotate * to_radians;
    const double a = cos(turn) / cos_y, b = -a * tan_x - sin(r), c = sin(turn) / cos_y, d = -c * tan_x + cos(r);
    const double x = (size[0] - 1) / 2, y = (size[1] - 1) / 2;
    const double matrix[9] = { d, -b, x - d * x + b * y, -c, a, y + c * x - a * y, 0, 0, 1 };
    bzi_homography_multiply(h, matrix, h);
}

/* torchvision's perspective, which moves the corners of the output, from the top left one clockwise, to q; they are
 * whole pixels from 0 to w - 1 there, taken for edges of pixels. The unit square becomes the quadrilateral (Heckbert
 * 1989), whose inverse maps output to input; one without an inverse is not applied. */
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

/* The corners of torchvision's RandomPerspective. */
static void bzi_draw_corners(bzna_random *random, double distortion, const double size[2], double q[4][2])
{
    for (int i = 0; i < 8; i++) {
        const int axis = i % 2, far = axis ? i >= 4 : i == 2 || i == 4;
        const double reach = floor(distortion * floor(size[axis] / 2));
        q[i / 2][axis] = bzi_draw_integer(random, 0, reach) + (far ? size[axis] - 1 - reach : 0);
    }
}

/* Pre: checked, sizes > 0. */
static void bzi_warp_draw(bzna_random *random, const bzi_similarity *p, const uint32_t in[2], const uint32_t out[2],
                          double h[9])
{
    const bzna_affine sizes = { .in_width = in[0], .in_height = in[1], .out_width = out[0], .out_height = out[1] };
    const double size[2] = { out[0], out[1] };
    double rotate, shear_x, shear_y, corners[4][2];
    if (p->is_mxnet)
        bzi_warp_mxnet(random, p, sizes, h);
    else
        bzi_warp_similarity(random, p, sizes, h);
    rotate = bzi_draw(random, p->rotate[0], p->rotate[1]);
    shear_x = bzi_draw(random, p->shear[0], p->shear[1]);
    shear_y = bzi_draw(random, p->shear[2], p->shear[3]);
    if (rotate != 0 || shear_x != 0 || shear_y != 0)
        bzi_distort_affine(rotate, shear_x, shear_y, size, h);
    if (p->perspective > 0 && bzi_draw_flip(random, p->perspective_p)) {
        bzi_draw_corners(random, p->perspective, size, corners);
        bzi_distort_perspective(corners, size, h);
    }
}

/* The fields of each kind of warp; what is set beside them would have no effect. */
static bzna_status bzi_warp_check_fields(const bzna_warp *w, const char *where, bzna_error *err)
{
    const struct { const char *name; int set; uint32_t kinds; } fields[] = {     /* a bit a kind that reads the field */
        { "scale", w->scale[0] != 0 || w->scale[1] != 0, 2 | 4 | 8 | 16 },
        { "scale[1]", w->scale[1] != 0, 2 | 8 | 16 },
        { "ratio", w->ratio[0] != 0 || w->ratio[1] != 0, 2 | 8 | 16 },
        { "degrees", w->degrees[0] != 0 || w->degrees[1] != 0, 8 | 16 },
        { "translate", w->translate[0] != 0 || w->translate[1] != 0, 8 },
        { "resize", w->resize != 0, 8 },
        { "keep_ratio", w->keep_ratio != 0, 8 },
        { "random_crop", w->random_crop != 0, 8 | 16 },
        { "law", w->law != 0, 2 | 4 | 8 },
        { "perspective_p", w->perspective_p != 0, w->perspective != 0 ? ~0u : 0 },
        { "shear_ratio", w->shear_ratio != 0, 16 },
        { "canvas_px", w->canvas_px[0] || w->canvas_px[1], 16 },
        { "crop_px", w->crop_px[0] || w->crop_px[1], 16 },
        { "pad_px", w->pad_px != 0, 16 },
        { "short_edge_px", w->short_edge_px != 0, 16 },
        { "has_crop_start", w->has_crop_start != 0, 16 },
        { "crop_x_start, crop_y_start", w->crop_x_start || w->crop_y_start, w->has_crop_start ? ~0u : 0 },
    };
    if (w->reserved0 || w->reserved1 || w->reserved[0] || w->reserved[1] || w->reserved[2] || w->reserved[3])
        return BZI_FAIL(err, BZNA_E_STRUCT_SIZE, "%s: reserved words are set", where);
    if (w->kind > BZNA_WARP_MXNET)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.kind: %u is not known", where, w->kind);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].set && !(fields[i].kinds >> w->kind & 1))
            return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.%s: has no effect on this kind of warp (%u)", where,
                            fields[i].name, w->kind);
    return BZNA_OK;
}

/* The first field that is out of its range; NULL: none is. */
static const char *bzi_similarity_fault(const bzi_similarity *p)
{
    const int has_ratio = p->ratio[0] != 0 || p->ratio[1] != 0;
    const struct { const char *name; double lo, hi, least, most; } ranges[] = {  /* lo <= hi, both of least..most */
        { "scale", p->scale[0], p->scale[1], DBL_MIN, 1e6 },
        { "ratio", p->ratio[0], p->ratio[1], has_ratio ? DBL_MIN : 0, 1e6 },
        { "degrees", p->degrees[0], p->degrees[1], -1e6, 1e6 },
        { "translate", p->translate[0], p->translate[0], 0, 1e6 },
        { "translate", p->translate[1], p->translate[1], 0, 1e6 },
        { "flip_h", p->flip_h, p->flip_h, 0, 1 },
        { "flip_v", p->flip_v, p->flip_v, 0, 1 },
        { "rotate", p->rotate[0], p->rotate[1], -1e6, 1e6 },
        { "shear", p->shear[0], p->shear[1], -89.999, 89.999 },
        { "shear", p->shear[2], p->shear[3], -89.999, 89.999 },
        { "perspective", p->perspective, p->perspective, 0, 1 },
        { "perspective_p", p->perspective_p, p->perspective_p, 0, 1 },
        { "shear_ratio", p->shear_ratio, p->shear_ratio, 0, 1e6 },
        { "canvas_px", p->canvas_px[0], p->canvas_px[1] ? p->canvas_px[1] : 1e6, 0, 1e6 },
        { "crop_px", p->crop_px[0], p->crop_px[1], p->crop_px[1] ? 1 : 0, 1e6 },
        { "pad_px", p->pad_px, p->pad_px, 0, 1e6 },
        { "short_edge_px", p->short_edge_px, p->short_edge_px, 0, 1e6 },
        { "has_crop_start", p->has_crop_start, p->has_crop_start, 0, 1 },
        { "law", p->law, p->law, 0, BZNA_LAW_TORCHVISION },
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (!(ranges[i].lo >= ranges[i].least && ranges[i].hi >= ranges[i].lo && ranges[i].most >= ranges[i].hi))
            return ranges[i].name;
    return NULL;
}

/* What a kind of warp is where nothing else is set. */
static bzi_similarity bzi_similarity_of_kind(uint32_t kind)
{
    bzi_similarity p;
    memset(&p, 0, sizeof p);
    p.scale[0] = p.scale[1] = 1;
    p.law = BZNA_LAW_BENZINA;
    if (kind == BZNA_WARP_RANDOM_RESIZED_CROP) {
        p.scale[0] = 0.08;
        p.ratio[0] = 3.0 / 4;
        p.ratio[1] = 4.0 / 3;
        p.resize = p.random_crop = 1;
        p.law = BZNA_LAW_TORCHVISION;
    } else if (kind == BZNA_WARP_CENTER_RESIZED_CROP) {
        p.resize = p.keep_ratio = 1;
    } else if (kind == BZNA_WARP_MXNET) {
        p.ratio[0] = p.ratio[1] = p.is_mxnet = 1;
    }
    return p;
}

/* Checks a warp, and fills in its defaults. where: what messages call it. */
static bzna_status bzi_warp_resolve(const bzna_warp *w, const char *where, bzi_similarity *p, bzna_error *err)
{
    const char *fault;
    bzna_status status = bzi_warp_check_fields(w, where, err);
    if (status != BZNA_OK)
        return status;
    *p = bzi_similarity_of_kind(w->kind);
    if (w->kind == BZNA_WARP_SIMILARITY || p->is_mxnet) {
        p->resize = w->resize;
        p->keep_ratio = w->keep_ratio;
        p->random_crop = w->random_crop;
    }
    if (w->kind == BZNA_WARP_CENTER_RESIZED_CROP && !(w->scale[0] >= 0))
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.scale: negative, or not a number", where);
    if (w->kind == BZNA_WARP_CENTER_RESIZED_CROP)
        p->edge = w->scale[0] != 0 ? w->scale[0] : 1;
    for (int i = 0; i < 2; i++) {
        p->degrees[i] = w->degrees[i];
        p->translate[i] = w->translate[i];
        if (p->edge > 0)
            p->scale[i] = p->edge * p->edge;
        else if (w->scale[0] != 0 || w->scale[1] != 0)
            p->scale[i] = w->scale[i];
        if (w->ratio[0] != 0 || w->ratio[1] != 0)
            p->ratio[i] = w->ratio[i];
    }
    p->law = w->law ? w->law : p->law;
    p->flip_h = w->flip_h;
    p->flip_v = w->flip_v;
    memcpy(p->rotate, w->rotate, sizeof p->rotate);
    memcpy(p->shear, w->shear, sizeof p->shear);
    p->perspective = w->perspective;
    p->perspective_p = w->perspective_p != 0 || w->perspective <= 0 ? w->perspective_p : 0.5;
    p->shear_ratio = w->shear_ratio;
    memcpy(p->canvas_px, w->canvas_px, sizeof p->canvas_px);
    memcpy(p->crop_px, w->crop_px, sizeof p->crop_px);
    p->pad_px = w->pad_px;
    p->short_edge_px = w->short_edge_px;
    p->has_crop_start = w->has_crop_start;
    p->crop_start[0] = w->crop_x_start;
    p->crop_start[1] = w->crop_y_start;
    fault = bzi_similarity_fault(p);
    if (fault)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.%s: out of its range, or not a number", where, fault);
    return BZNA_OK;
}

static void bzi_transform_init(bzna_transform *t)
{
    memset(t, 0, sizeof *t);
    t->struct_size = sizeof *t;
    t->homography[0] = t->homography[4] = t->homography[8] = 1;
    t->color[0] = t->color[5] = t->color[10] = 1;
    t->scale[0] = t->scale[1] = t->scale[2] = t->gain = 1;
}

static int bzi_color_is_identity(const float color[12])
{
    for (int i = 0; i < 12; i++)
        if (color[i] != (i % 5 == 0 ? 1 : 0))
            return 0;
    return 1;
}

/* The first field that is out of its range; NULL: none is. */
static const char *bzi_jitter_fault(const bzna_jitter *j)
{
    const struct { const char *name; float lo, hi, most; } ranges[] = {      /* lo <= hi, both of 0..most */
        { "brightness", j->brightness[0], j->brightness[1], 1e6f },
        { "saturation", j->saturation[0], j->saturation[1], 1e6f },
        { "grayscale", j->grayscale, j->grayscale, 1 },
        { "mxnet_contrast", j->mxnet_contrast, j->mxnet_contrast, 0.999f },
        { "mxnet_illumination", j->mxnet_illumination, j->mxnet_illumination, 1e6f },
        { "reserved0", (float)j->reserved0, 0, 0 },
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (!(ranges[i].lo >= 0 && ranges[i].hi >= ranges[i].lo && ranges[i].most >= ranges[i].hi))
            return ranges[i].name;
    return j->reserved[0] || j->reserved[1] || j->reserved[2] || j->reserved[3] ? "reserved" : NULL;
}

/* torchvision clamps after brightness, and after saturation. A factor above 1 is the gain, behind which the kernel
 * clamps; one below 1 needs no clamp, and goes into the matrix. Pre: checked. */
static void bzi_jitter_draw(bzna_random *random, const bzna_jitter *j, bzna_transform *t)
{
    static const double luma[3] = { 0.299, 0.587, 0.114 };
    double brightness = j->brightness[1] > 0 ? bzi_draw(random, j->brightness[0], j->brightness[1]) : 1;
    const double blend = j->saturation[1] > 0 ? bzi_draw(random, j->saturation[0], j->saturation[1]) : 1;
    const double saturation = bzi_draw_flip(random, j->grayscale) ? 0 : blend;
    const double contrast = 1 + bzi_draw(random, -j->mxnet_contrast, j->mxnet_contrast);
    const double illumination = bzi_draw(random, -j->mxnet_illumination, j->mxnet_illumination);
    if (brightness > 1 && bzi_color_is_identity(t->color)) {
        t->gain = (float)((t->gain != 0 ? t->gain : 1) * brightness);
        brightness = 1;
    }
    for (int i = 0; i < 4 && (brightness != 1 || saturation != 1); i++) {    /* columns of the matrix */
        const double column[3] = { t->color[i], t->color[4 + i], t->color[8 + i] };
        const double gray = luma[0] * column[0] + luma[1] * column[1] + luma[2] * column[2];
        for (int row = 0; row < 3; row++)
            t->color[4 * row + i] = (float)(brightness * (saturation * column[row] + (1 - saturation) * gray));
    }
    for (int i = 0; i < 3 && (contrast != 1 || illumination != 0); i++) {
        t->bias[i] = (float)(t->bias[i] - illumination / contrast);
        t->scale[i] = (float)(t->scale[i] * contrast);
    }
}

/* Luma weights of red and blue for a matrix code point (ISO/IEC 23091-2 table 4); unspecified is BT.601, as in JFIF. 0:
 * not of that kind. */
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

/* What BZNA_MATRIX_... forces: a code point and a range. Pre: matrix is one of them. */
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


/* ==== 41. Kernels on the CPU =========================================================================================
 * Calls: rooms 5, 40. The arithmetic is benzina_kernels.cu's; here a picture and a transform become its slot. */

#include "benzina_kernels.cu"

_Static_assert((int)BZI_KERNEL_FLOAT32 == BZNA_DTYPE_FLOAT32 && (int)BZI_KERNEL_FLOAT16 == BZNA_DTYPE_FLOAT16 &&
                   (int)BZI_KERNEL_BFLOAT16 == BZNA_DTYPE_BFLOAT16 && (int)BZI_KERNEL_UINT8 == BZNA_DTYPE_UINT8,
               "the kernel's types of elements are the API's");
_Static_assert((int)BZI_KERNEL_LINEAR == BZNA_FILTER_LINEAR && (int)BZI_KERNEL_NEAREST == BZNA_FILTER_NEAREST &&
                   (int)BZI_KERNEL_CUBIC == BZNA_FILTER_CUBIC && (int)BZI_KERNEL_AREA == BZNA_FILTER_AREA &&
                   (int)BZI_KERNEL_LANCZOS4 == BZNA_FILTER_LANCZOS4 &&
                   (int)BZI_KERNEL_LANCZOS3 == BZNA_FILTER_LANCZOS3 &&
                   (int)BZI_KERNEL_CUBIC_075 == BZNA_FILTER_CUBIC_075,
               "the kernel's filters are the API's");

/* What messages call a transform's settings: its own members, or those of a loader's config. */
typedef struct bzi_transform_names {
    const char *filter, *antialias, *matrix, *fill_space;
} bzi_transform_names;

static bzna_status bzi_transform_check_settings(const bzna_transform *t, const bzi_transform_names *names,
                                                bzna_error *err)
{
    if (t->filter > BZNA_FILTER_CUBIC_075)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s: %u is not known", names->filter, t->filter);
    if (t->antialias > BZNA_ANTIALIAS_OFF)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s: %u is not known", names->antialias, t->antialias);
    if (t->antialias && t->filter == BZNA_FILTER_AREA)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s: area is the mean of what it covers, and cannot do without",
                        names->antialias);
    if (t->matrix > BZNA_MATRIX_BT2020_FULL)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s: %u is not known", names->matrix, t->matrix);
    if (t->fill_space > BZNA_FILL_OUTPUT)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s: %u is not known", names->fill_space, t->fill_space);
    return BZNA_OK;
}

static bzna_status bzi_transform_check(const bzna_transform *t, bzna_error *err)
{
    static const bzi_transform_names names = { "transform.filter", "transform.antialias", "transform.matrix",
                                               "transform.fill_space" };
    if (!bzi_finite(t->homography, 9))
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "transform.homography: not a finite number");
    for (int i = 0; i < 3; i++)
        if (!isfinite(t->bias[i]) || !isfinite(t->scale[i]) || !isfinite(t->fill[i]))
            return BZI_FAIL(err, BZNA_E_ARGUMENT, "transform.bias, scale or fill: channel %d is not a finite number",
                            i);
    for (int i = 0; i < 12; i++)
        if (!isfinite(t->color[i]))
            return BZI_FAIL(err, BZNA_E_ARGUMENT, "transform.color[%d]: not a finite number", i);
    if (!(t->gain >= 0 && t->gain <= 1e6f) || t->reserved0)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "transform.gain, reserved0: out of range, or not a number");
    return bzi_transform_check_settings(t, &names, err);
}

/* Colors of a slot: what a failed sample needs as well. bias and scale are of the channels that are delivered, and so
 * is a fill in units of the output; one in R, G, B becomes those channels first. */
static void bzi_slot_colors(bzi_kernel_slot *slot, const bzna_transform *t, uint32_t channels)
{
    static const float luma[3] = { 0.299f, 0.587f, 0.114f };  /* PIL's and torchvision's */
    const int is_gray = channels == BZNA_CHANNELS_GRAY, is_bgr = channels == BZNA_CHANNELS_BGR;
    memcpy(slot->color, t->color, sizeof slot->color);
    slot->flags = bzi_color_is_identity(t->color) ? 0 : BZI_KERNEL_COLOR;
    slot->flags |= (is_gray ? BZI_KERNEL_GRAY : 0) | (t->fill_space == BZNA_FILL_RGB ? BZI_KERNEL_FILL_MEAN : 0);
    memcpy(slot->luma, luma, sizeof luma);
    for (int i = 0; i < 3; i++) {
        const float fill = is_gray ? bzi_kernel_luma(luma, t->fill) : t->fill[is_bgr ? 2 - i : i];
        slot->bias[i] = t->bias[i];
        slot->scale[i] = t->scale[i];
        slot->fill[i] = t->fill_space == BZNA_FILL_OUTPUT ? t->fill[i] : (fill - t->bias[i]) * t->scale[i];
    }
}

/* B, G, R: the last matrix gives its rows in that order. */
static void bzi_slot_swap(bzi_kernel_slot *slot)
{
    float *matrix = slot->flags & BZI_KERNEL_COLOR ? slot->color : slot->rgb;
    for (int i = 0; i < 4; i++) {
        float red = matrix[i];
        matrix[i] = matrix[8 + i];
        matrix[8 + i] = red;
    }
}

/* What turns a picture's planes into R'G'B': a matrix with luma weights, or YCgCo's; or, of G, B and R, and of gray,
 * none, whatever matrix is forced. */
static bzna_status bzi_slot_matrix(bzi_kernel_slot *slot, const bzna_picture *picture, uint32_t forced, bzna_error *err)
{
    const int is_gray = !picture->plane[1];
    const int is_rgb = !is_gray && picture->color.matrix == 0 && !picture->chroma_shift_x && !picture->chroma_shift_y;
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

static uint32_t bzi_picture_is_turned(const bzna_picture *picture) { return picture->orientation > 4; }

/* The size of a picture as it is seen. */
static uint32_t bzi_picture_width(const bzna_picture *picture)
{
    return bzi_picture_is_turned(picture) ? picture->height : picture->width;
}

static uint32_t bzi_picture_height(const bzna_picture *picture)
{
    return bzi_picture_is_turned(picture) ? picture->width : picture->height;
}

/* From output to the picture as it is seen (given) to the picture as it lies in its planes (h): its first row and
 * column lie where EXIF's number says. Integers are centers of pixels: a mirrored x is last - x. */
static void bzi_picture_orient(const bzna_picture *picture, const double given[9], double h[9])
{
    static const uint8_t mirrored[9] = { 0, 0, 1, 3, 2, 0, 2, 3, 1 };       /* 1: x, 2: y, of the planes */
    const double last[2] = { picture->width - 1.0, picture->height - 1.0 };
    const uint32_t number = picture->orientation;
    memcpy(h, given, 9 * sizeof *h);
    for (int row = 0; row < 2; row++) {
        const double *from = given + 3 * (bzi_picture_is_turned(picture) ? 1 - row : row);
        for (int i = 0; i < 3; i++)
            h[3 * row + i] = mirrored[number] >> row & 1 ? last[row] * given[6 + i] - from[i] : from[i];
    }
}

/* channels: BZNA_CHANNELS_... */
static bzna_status bzi_slot_make(bzi_kernel_slot *slot, const bzna_picture *picture, const bzna_transform *t,
                                 uint32_t channels, bzna_error *err)
{
    double h[9];
    bzna_status status = bzi_transform_check(t, err);
    if (status != BZNA_OK)
        return status;
    memset(slot, 0, sizeof *slot);
    for (int i = 0; i < 3; i++) {
        slot->plane[i] = (uint64_t)(uintptr_t)picture->plane[i];
        slot->pitch[i] = (int32_t)picture->pitch[i];
        slot->step[i] = picture->step[i] ? (int32_t)picture->step[i] : picture->depth > 8 ? 2 : 1;
    }
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
    slot->antialias = t->antialias;
    if ((status = bzi_slot_matrix(slot, picture, t->matrix, err)) != BZNA_OK)
        return status;
    for (int i = 0; i < 12 && t->gain != 0; i++)
        slot->rgb[i] *= t->gain;
    bzi_picture_orient(picture, t->homography, h);
    for (int i = 0; i < 9; i++)
        slot->h[i] = (float)h[i];
    bzi_slot_colors(slot, t, channels);
    if (channels == BZNA_CHANNELS_BGR)
        bzi_slot_swap(slot);
    return BZNA_OK;
}

/* The rows of a plane that are read for row v of the picture; p: 0 luma, 1 chroma. */
static bzi_rows bzi_slot_plane_rows(const bzi_kernel_slot *slot, const bzi_kernel_view *view, int p, float v)
{
    if (view->kind == BZI_KERNEL_LERP) {
        const bzi_kernel_tap tap = bzi_kernel_tap_of(view->y[p], bzi_kernel_place(slot->filter, v, view->y[0].last));
        return (bzi_rows){ tap.index, tap.index + tap.next + 1 };
    }
    const bzi_kernel_taps taps = bzi_kernel_reach(slot->filter, view->y[p], v, view->shrink[1]);
    return (bzi_rows){ taps.first > 0 ? taps.first : 0, (taps.last < taps.end ? taps.last : taps.end) + 1 };
}

/* The same of all planes, as rows of the frame's luma: chroma's samples lie in the first row that they are of. Whether
 * there is chroma, nobody knows before the picture is decoded; without subsampling, its rows are luma's. */
static bzi_rows bzi_slot_luma_rows(const bzi_kernel_slot *slot, const bzi_kernel_view *view, float v)
{
    const int32_t first = slot->y0 >> slot->shift_y, each = 1 << slot->shift_y;
    const bzi_rows luma = bzi_slot_plane_rows(slot, view, 0, v), chroma = bzi_slot_plane_rows(slot, view, 1, v);
    const bzi_rows a = { slot->y0 + luma.first, slot->y0 + luma.end };
    const bzi_rows b = { (first + chroma.first) * each, (first + chroma.end - 1) * each + 1 };
    return (bzi_rows){ a.first < b.first ? a.first : b.first, a.end > b.end ? a.end : b.end };
}

/* The rows of the frame that the warp of a slot can read, and of chroma row >> shift_y. Of an axis-aligned H, turned or
 * not, none but those; of another affine one, some around them; else all of the picture. */
static bzi_rows bzi_slot_rows(const bzi_kernel_slot *given, const bzi_kernel_output *to)
{
    bzi_kernel_slot slot = *given;
    bzi_kernel_output out = *to;
    if (slot.x1 < slot.x0 || slot.y1 < slot.y0)
        return (bzi_rows){ 0, 0 };
    bzi_kernel_turn(&slot, &out);
    const bzi_kernel_view view = bzi_kernel_view_of(&slot);
    const int aligned = bzi_kernel_aligned(slot.h), affine = bzi_kernel_affine(slot.h);
    const float last = view.y[0].last;
    float u, v, least = last + 1.0f, most = -1.0f;
    for (int32_t y = 0; aligned && y < out.height; y++) {
        bzi_kernel_map_affine(slot.h, 0, y, &u, &v);
        least = bzi_kernel_inside(v, last) && v < least ? v : least;
        most = bzi_kernel_inside(v, last) && v > most ? v : most;
    }
    for (int corner = 0; !aligned && corner < 4; corner++) {  /* one more row for rounding; NaN may be any row */
        bzi_kernel_map_affine(slot.h, corner & 1 ? out.width - 1 : 0, corner & 2 ? out.height - 1 : 0, &u, &v);
        const float above = affine && v - 1.0f > 0.0f ? v - 1.0f : -0.5f;
        const float below = affine && v + 1.0f < last ? v + 1.0f : last + 0.5f;
        least = above < least ? above : least;
        most = below > most ? below : most;
    }
    if (most < -0.5f || least > last + 0.5f)
        return (bzi_rows){ 0, 0 };
    return (bzi_rows){ bzi_slot_luma_rows(&slot, &view, least).first, bzi_slot_luma_rows(&slot, &view, most).end };
}

/* Of a decoder that shrinks by k, which need not be whole: position X of the picture lies at (X + 0.5) / k - 0.5. */
static void bzi_homography_shrink(double h[9], double k)
{
    for (int i = 0; i < 3; i++) {
        h[i] = (h[i] + 0.5 * h[6 + i]) / k - 0.5 * h[6 + i];
        h[3 + i] = (h[3 + i] + 0.5 * h[6 + i]) / k - 0.5 * h[6 + i];
    }
}

/* By how much, 1, 2, 4 or 8, a decoder may shrink the picture of a slot: no more than its filter, which antialiases,
 * does then. */
static uint32_t bzi_slot_may_shrink(const bzi_kernel_slot *slot)
{
    const bzi_kernel_view view = bzi_kernel_view_of(slot);
    const float least = view.shrink[0] < view.shrink[1] ? view.shrink[0] : view.shrink[1];
    uint32_t k = slot->filter == BZI_KERNEL_NEAREST || slot->antialias || slot->x0 || slot->y0 ||
                 !bzi_kernel_affine(slot->h) ? 1 : 8;
    while (k > 1 && !((float)k <= least))
        k /= 2;
    return k;
}

/* The picture was decoded at 1/k of its size; the last row and column may be of fewer than k. */
static void bzi_slot_shrink(bzi_kernel_slot *slot, uint32_t k)
{
    double h[9];
    for (int i = 0; i < 9; i++)
        h[i] = slot->h[i];
    bzi_homography_shrink(h, k);
    for (int i = 0; i < 9 && k > 1; i++)
        slot->h[i] = (float)h[i];
    slot->x1 /= (int32_t)k;
    slot->y1 /= (int32_t)k;
}

static uint32_t bzi_channels(uint32_t channels) { return channels == BZNA_CHANNELS_GRAY ? 1 : 3; }

/* Strides of a slot that is densely packed. */
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
    return dtype == BZNA_DTYPE_FLOAT32 ? 4 : dtype == BZNA_DTYPE_UINT8 ? 1 : 2;
}

/* Of one picture. Pre: checked, so that it does not overflow. */
static uint64_t bzi_output_bytes(const bzna_output *o)
{
    return (uint64_t)bzi_channels(o->channels) * o->width * o->height * bzi_dtype_bytes(o->dtype);
}

/* The first output of a loader. */
static bzna_output bzi_output_of(const bzna_loader_output *o)
{
    bzna_output output = { .struct_size = sizeof output, .width = o->width, .height = o->height, .dtype = o->dtype,
                           .layout = o->layout, .channels = o->channels };
    return output;
}


/* ==== 42. JPEG decode ================================================================================================
 * Calls: rooms 2, 4-5. The only room that knows libjpeg-turbo. One of these a thread. Components come as planes of
 * their own ("raw data"), neither upsampled nor converted. Of rows above those that are wanted only the entropy coding
 * is decoded, of those below nothing. libjpeg keeps the tables of pictures before; a picture that would use them was
 * refused by bzi_jpeg_walk. What it allocates for a picture it frees after it; coefficients of several scans take most,
 * and bzi_jpeg_check_memory bounds them. */

#ifndef BENZINA_NO_JPEG
#  define BZI_TEXT_OF(version) #version
#  define BZI_TEXT(version) BZI_TEXT_OF(version)
#  define BZI_TURBO "libjpeg-turbo " BZI_TEXT(LIBJPEG_TURBO_VERSION)
/* The edge of a block of a component, and the least of all of them: 8, unless the picture is shrunk. */
#  if JPEG_LIB_VERSION >= 70
#    define BZI_TURBO_EDGE(component)  (uint32_t)(component)->DCT_h_scaled_size
#    define BZI_TURBO_LEAST_EDGE(info) (uint32_t)(info)->min_DCT_h_scaled_size
#  else
#    define BZI_TURBO_EDGE(component)  (uint32_t)(component)->DCT_scaled_size
#    define BZI_TURBO_LEAST_EDGE(info) (uint32_t)(info)->min_DCT_scaled_size
#  endif

typedef struct bzi_turbo {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr         errors;
    struct jpeg_source_mgr        source;
    jmp_buf                       jump;       /* where errors go while libjpeg is at work */
    const bzi_memory             *memory;
    bzi_span                      data;
    bzi_wanted                    wanted;
    uint32_t                      ended;      /* libjpeg has asked for more bytes than there are */
    uint8_t                      *plane[4];   /* of a component each */
    int64_t                       pitch[4];
    bzi_buffer                    pixels;     /* memory of the planes */
    bzi_buffer                    product;    /* of planes that were multiplied by another */
} bzi_turbo;

static void bzi_turbo_exit(j_common_ptr info) { longjmp(((bzi_turbo *)info->client_data)->jump, 1); }
static void bzi_turbo_be_silent(j_common_ptr info) { (void)info; }

/* Warnings have negative levels. Those that mean damage are errors; the others leave the pixels as they were meant. */
static void bzi_turbo_message(j_common_ptr info, int level)
{
    const int code = info->err->msg_code;
    if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM && code != JWRN_JFIF_MAJOR &&
        code != JWRN_NOT_SEQUENTIAL)
        bzi_turbo_exit(info);
}

/* Past the end there are end markers: whether something is missing there, is known by what libjpeg needs of it. With
 * arithmetic coding it needs nothing: what is missing are zeros, since encoders may leave them out before a marker. */
static boolean bzi_turbo_fill(j_decompress_ptr info)
{
    static const JOCTET end[2] = { 0xff, JPEG_EOI };
    ((bzi_turbo *)info->client_data)->ended = 1;
    if (info->arith_code) {
        info->err->msg_code = JWRN_HIT_MARKER;
        bzi_turbo_exit((j_common_ptr)info);
    }
    info->src->next_input_byte = end;
    info->src->bytes_in_buffer = sizeof end;
    return TRUE;
}

static void bzi_turbo_skip(j_decompress_ptr info, long count)
{
    const size_t left = info->src->bytes_in_buffer, skipped = count < 0 ? 0 : (size_t)bzi_min((uint64_t)count, left);
    info->src->next_input_byte += skipped;
    info->src->bytes_in_buffer -= skipped;
}

static void bzi_turbo_nothing(j_decompress_ptr info) { (void)info; }

/* The only place that errors of libjpeg return to. 0: there was one. */
static int bzi_turbo_try(bzi_turbo *turbo, int (*step)(bzi_turbo *turbo))
{
    if (setjmp(turbo->jump))
        return 0;
    return step(turbo);
}

static int bzi_turbo_create(bzi_turbo *turbo)
{
    jpeg_create_decompress(&turbo->info);
    turbo->info.mem->max_memory_to_use = BZI_LIMIT_JPEG_BYTES;
    turbo->info.src = &turbo->source;
    return 1;
}

static bzna_status bzi_turbo_open(bzi_turbo *turbo, const bzi_memory *memory, bzna_error *err)
{
    memset(turbo, 0, sizeof *turbo);
    turbo->memory = memory;
    turbo->info.err = jpeg_std_error(&turbo->errors);
    turbo->info.client_data = turbo;
    turbo->errors.error_exit = bzi_turbo_exit;
    turbo->errors.emit_message = bzi_turbo_message;
    turbo->errors.output_message = bzi_turbo_be_silent;
    turbo->source.init_source = turbo->source.term_source = bzi_turbo_nothing;
    turbo->source.fill_input_buffer = bzi_turbo_fill;
    turbo->source.skip_input_data = bzi_turbo_skip;
    turbo->source.resync_to_restart = jpeg_resync_to_restart;
    return bzi_turbo_try(turbo, bzi_turbo_create) ? BZNA_OK : bzi_fail_memory(err, "libjpeg-turbo's decoder");
}

static void bzi_turbo_close(bzi_turbo *turbo)
{
    jpeg_destroy_decompress(&turbo->info);
    if (turbo->memory) {
        bzi_buffer_free(turbo->memory, &turbo->pixels);
        bzi_buffer_free(turbo->memory, &turbo->product);
    }
}

/* Reads the headers; of several scans, all of the picture. */
static int bzi_turbo_start(bzi_turbo *turbo)
{
    struct jpeg_decompress_struct *info = &turbo->info;
    jpeg_read_header(info, TRUE);
    info->raw_data_out = TRUE;
    info->do_fancy_upsampling = info->do_block_smoothing = FALSE;
    info->dct_method = JDCT_ISLOW;
    info->scale_num = 1;
    info->scale_denom = turbo->wanted.shrink;
    return jpeg_start_decompress(info) && info->num_components <= 4;
}

/* Room for all rows, those that are not decoded, too. */
static bzna_status bzi_turbo_make_planes(bzi_turbo *turbo, bzna_error *err)
{
    const struct jpeg_decompress_struct *info = &turbo->info;
    uint64_t offset[4] = { 0 }, size = 0;
    for (int i = 0; i < info->num_components; i++) {
        const jpeg_component_info *component = &info->comp_info[i];
        const uint32_t edge = BZI_TURBO_EDGE(component);
        turbo->pitch[i] = ((int64_t)component->width_in_blocks * edge + 63) & ~(int64_t)63;
        offset[i] = size;
        size += (uint64_t)turbo->pitch[i] * info->total_iMCU_rows * (uint64_t)component->v_samp_factor * edge;
    }
    if (!bzi_buffer_reserve(turbo->memory, &turbo->pixels, size, 0))
        return bzi_fail_memory(err, "a picture's planes");
    for (int i = 0; i < info->num_components; i++)
        turbo->plane[i] = turbo->pixels.data + offset[i];
    return BZNA_OK;
}

/* Decodes into the planes, a row of MCUs at a time: of those above the wanted ones no component is needed, so that
 * their coefficients are read, and nothing is made of them. */
static int bzi_turbo_read(bzi_turbo *turbo)
{
    struct jpeg_decompress_struct *info = &turbo->info;
    const uint32_t lines = (uint32_t)info->max_v_samp_factor * BZI_TURBO_LEAST_EDGE(info);
    JSAMPROW rows[4][MAX_SAMP_FACTOR * DCTSIZE];
    JSAMPARRAY planes[4] = { rows[0], rows[1], rows[2], rows[3] };
    while (info->output_scanline < (uint32_t)turbo->wanted.rows.end && info->output_scanline < info->output_height) {
        const uint32_t n = info->output_scanline / lines;
        for (int i = 0; i < info->num_components; i++) {
            jpeg_component_info *component = &info->comp_info[i];
            const uint32_t each = (uint32_t)component->v_samp_factor * BZI_TURBO_EDGE(component);
            component->component_needed = (n + 1) * lines > (uint32_t)turbo->wanted.rows.first;
            for (uint32_t k = 0; k < each; k++)
                rows[i][k] = turbo->plane[i] + ((int64_t)n * each + k) * turbo->pitch[i];
        }
        if (!jpeg_read_raw_data(info, planes, lines))
            return 0;
    }
    return 1;
}

/* What libjpeg said last, and where. */
static bzna_status bzi_turbo_fail(bzi_turbo *turbo, bzna_error *err)
{
    struct jpeg_decompress_struct *info = &turbo->info;
    const int code = turbo->errors.msg_code;
    const uint64_t at = turbo->ended ? turbo->data.size : turbo->data.size - turbo->source.bytes_in_buffer;
    char text[JMSG_LENGTH_MAX];
    if (code == JERR_OUT_OF_MEMORY)
        return bzi_fail_memory(err, "libjpeg-turbo");
    turbo->errors.format_message((j_common_ptr)info, text);
    return bzi_fail(err, BZNA_E_DECODE, at, 0, code, "JPEG, byte %llu: %s row %u (libjpeg-turbo: %s)",
                    (unsigned long long)at, turbo->ended ? "truncated after" : "damaged near",
                    info->input_iMCU_row * (uint32_t)info->max_v_samp_factor * DCTSIZE, text);
}

/* Reads the rows that are wanted into planes. */
static bzna_status bzi_turbo_run(bzi_turbo *turbo, bzi_span data, bzi_wanted wanted, bzna_error *err)
{
    bzna_status status = BZNA_OK;
    turbo->data = data;
    turbo->wanted = wanted;
    turbo->ended = turbo->info.input_iMCU_row = 0;
    turbo->source.next_input_byte = data.data;
    turbo->source.bytes_in_buffer = (size_t)data.size;
    if (!bzi_turbo_try(turbo, bzi_turbo_start))
        status = bzi_turbo_fail(turbo, err);
    else if ((status = bzi_turbo_make_planes(turbo, err)) == BZNA_OK && !bzi_turbo_try(turbo, bzi_turbo_read))
        status = bzi_turbo_fail(turbo, err);
    return status;
}

/* C, M, Y and K, or Y', Cb, Cr and K, inverted as Adobe's programs write them: what is left when each of the three is
 * multiplied by K, in planes of the picture's size. Of components that are subsampled, samples repeat. */
static bzna_status bzi_turbo_multiply(bzi_turbo *turbo, int is_cmyk, bzna_picture *picture, bzna_error *err)
{
    const struct jpeg_decompress_struct *info = &turbo->info;
    const jpeg_component_info *in = info->comp_info;
    const uint32_t h = (uint32_t)info->max_h_samp_factor * BZI_TURBO_LEAST_EDGE(info), width = info->output_width;
    const uint32_t v = (uint32_t)info->max_v_samp_factor * BZI_TURBO_LEAST_EDGE(info);
    const uint64_t size = (uint64_t)width * info->output_height;
    if (!bzi_buffer_reserve(turbo->memory, &turbo->product, 3 * size, 0))
        return bzi_fail_memory(err, "a picture's planes");
    for (uint32_t i = 0, end = (uint32_t)bzi_min((uint32_t)turbo->wanted.rows.end, info->output_height); i < 3; i++) {
        uint32_t y = (uint32_t)turbo->wanted.rows.first;
        const uint32_t edge = BZI_TURBO_EDGE(&in[i]), edge_k = BZI_TURBO_EDGE(&in[3]);
        const uint32_t h_i = (uint32_t)in[i].h_samp_factor * edge, h_k = (uint32_t)in[3].h_samp_factor * edge_k;
        const uint32_t v_i = (uint32_t)in[i].v_samp_factor * edge, v_k = (uint32_t)in[3].v_samp_factor * edge_k;
        uint8_t *dst = turbo->product.data + i * size + (uint64_t)y * width;
        picture->plane[is_cmyk ? (i + 2) % 3 : i] = turbo->product.data + i * size; /* C, M, Y become R, G, B */
        picture->pitch[i] = width;
        for (; y < end; y++) {
            const uint8_t *row = turbo->plane[i] + turbo->pitch[i] * (y * v_i / v);
            const uint8_t *k = turbo->plane[3] + turbo->pitch[3] * (y * v_k / v);
            for (uint32_t x = 0; x < width; x++) {
                const int sample = row[x * h_i / h], black = k[x * h_k / h];
                const int value = is_cmyk ? (sample * black + 127) / 255 :
                                  i == 0  ? ((255 - sample) * black + 127) / 255 : 128 + (128 - sample) * black / 255;
                *dst++ = (uint8_t)(value > 255 ? 255 : value);
            }
        }
    }
    return BZNA_OK;
}

/* Some rows of a picture that was inspected. Its planes stay until the next call. Of one that is shrunk, libjpeg may
 * shrink chroma by less. */
static bzna_status bzi_turbo_decode(bzi_turbo *turbo, bzi_span data, const bzi_format *format, bzi_wanted wanted,
                                    bzna_picture *picture, bzna_error *err)
{
    struct jpeg_decompress_struct *info = &turbo->info;
    const int is_rgb = format->color.matrix == 0;
    bzna_status status = bzi_turbo_run(turbo, data, wanted, err);
    if (status == BZNA_OK && (info->image_width != picture->frame_width || info->image_height != picture->frame_height))
        status = BZI_FAIL(err, BZNA_E_MISMATCH, "libjpeg-turbo's picture is %ux%u, not %ux%u", info->image_width,
                          info->image_height, picture->frame_width, picture->frame_height);
    if (status == BZNA_OK && info->num_components == 4)
        status = bzi_turbo_multiply(turbo, is_rgb, picture, err);
    for (uint32_t i = 0; status == BZNA_OK && i < (uint32_t)info->num_components && info->num_components < 4; i++) {
        const uint32_t place = is_rgb ? (i + 2) % 3 : i;    /* R, G, B become G, B, R */
        picture->plane[place] = turbo->plane[i];
        picture->pitch[place] = turbo->pitch[i];
    }
    if (status == BZNA_OK && info->num_components == 3 &&
        BZI_TURBO_EDGE(&info->comp_info[1]) > BZI_TURBO_LEAST_EDGE(info)) {
        picture->chroma_shift_x--;                          /* it doubles both or none */
        picture->chroma_shift_y--;
    }
    jpeg_abort_decompress(info);
    return status;
}

#else
#  define BZI_TURBO ""
#endif


/* ==== 43. Software decode ============================================================================================
 * Calls: rooms 2, 4-5, 10-12, 15, 42. The only room that knows libavcodec, and who decodes what: libjpeg-turbo the
 * JPEGs, if it is built in, libavcodec all else. One of these a thread; its codec contexts stay open across samples.
 * Results must not depend on what was decoded before. libavcodec keeps old parameter sets when new ones are damaged, so
 * a context only ever sees one content of parameter sets: archives share theirs, and a few contexts, least recently
 * used first, serve those that do not. It is flushed between pictures, and frame memory is cleared, because H.265
 * slices that end early leave pixels unwritten and nobody says so. */

typedef struct bzi_software {
    const bzi_memory *memory;
    uint32_t          max_edge_px;
    bzi_buffer        stream;         /* Annex B of the picture being decoded */
    uint32_t          tiles;          /* of a grid, that the last call has decoded */
    bzi_buffer        canvas;         /* a grid's tiles, put together */
    bzi_buffer        gathered;       /* an item that lies in pieces, put together */
#ifndef BENZINA_NO_JPEG
    bzi_turbo         turbo;
#endif
#ifndef BENZINA_NO_AVCODEC
    bzi_lru           keys;           /* codec and parameter sets of each codec context, as bzi_image_key writes them */
    /* as many frame sizes or encoders may alternate without opening one anew */
    AVCodecContext   *codecs[BZI_LRU_SLOTS];
    bzi_buffer        key;            /* of the picture being decoded */
    bzi_buffer        pixels;         /* of a still that did not come as planes, as planes */
    uint32_t          fill;           /* the byte that frame memory is cleared with */
    AVFrame          *frame;
    AVPacket         *packet;
#endif
} bzi_software;

#ifndef BENZINA_NO_AVCODEC

static void bzi_av_close(bzi_software *software)
{
    for (uint32_t i = 0; i < BZI_LRU_SLOTS; i++)
        avcodec_free_context(&software->codecs[i]);
    bzi_lru_free(&software->keys, software->memory);
    av_frame_free(&software->frame);
    av_packet_free(&software->packet);
    bzi_buffer_free(software->memory, &software->key);
    bzi_buffer_free(software->memory, &software->pixels);
    bzi_buffer_free(software->memory, &software->stream);
}

static int bzi_software_get_buffer(AVCodecContext *codec, AVFrame *frame, int flags)
{
    const bzi_software *software = codec->opaque;
    int result = avcodec_default_get_buffer2(codec, frame, flags);
    for (int i = 0; result >= 0 && i < AV_NUM_DATA_POINTERS && frame->buf[i]; i++)
        memset(frame->buf[i]->data, (int)software->fill, (size_t)frame->buf[i]->size);
    return result;
}

static const AVCodec *bzi_software_find(const bzna_image *image)
{
    const bzi_codec *row = bzi_codec_find(image->codec);
    if (image->codec == BZNA_CODEC_STILL)
        return avcodec_find_decoder((enum AVCodecID)bzi_still_find(bzi_image_data(image))->av_id);
    return row->av_decoder ? avcodec_find_decoder_by_name(row->av_decoder) :
                             avcodec_find_decoder((enum AVCodecID)row->av_id);
}

static bzna_status bzi_software_open_codec(bzi_software *software, const bzna_image *image, AVCodecContext **out,
                                           bzna_error *err)
{
    const AVCodec *codec = bzi_software_find(image);
    const char *name = bzi_image_codec_name(image);
    AVCodecContext *context;
    int result;
    if (!codec)
        return BZI_FAIL(err, BZNA_E_CODEC, "this libavcodec was built without a decoder for %s", name);
    if (!(context = avcodec_alloc_context3(codec)))
        return bzi_fail_memory(err, "a decoder");
    context->thread_count = 1;
    context->flags |= AV_CODEC_FLAG_LOW_DELAY | AV_CODEC_FLAG_UNALIGNED;
    /* Concealment stays on: without it, H.264 pictures of several slices count as damaged. What was concealed is
     * flagged, and refused. */
    context->err_recognition = AV_EF_EXPLODE | AV_EF_BITSTREAM | AV_EF_BUFFER;
    if (image->codec == BZNA_CODEC_STILL)
        context->err_recognition |= AV_EF_CRCCHECK;
    context->get_buffer2 = bzi_software_get_buffer;
    context->opaque = software;
    context->log_level_offset = 64;                         /* below every level: errors are returned, not printed */
    context->max_pixels = (int64_t)software->max_edge_px * software->max_edge_px;
    context->idct_algo = FF_IDCT_SIMPLE;                    /* the same bits on every processor */
    if ((result = avcodec_open2(context, codec, NULL)) < 0) {
        avcodec_free_context(&context);
        return bzi_fail(err, BZNA_E_CODEC, BZNA_NO_OFFSET, 0, result, "libavcodec cannot open its decoder for %s",
                        name);
    }
    *out = context;
    return BZNA_OK;
}

/* The context for a picture's parameter sets: the one that has seen them, or a new one in place of the least recently
 * used. */
static bzna_status bzi_software_choose(bzi_software *software, const bzna_image *image, AVCodecContext **out,
                                       bzna_error *err)
{
    uint64_t size = bzi_image_key(image, NULL, 0);
    uint32_t index;
    bzna_status status;
    if (!bzi_buffer_reserve(software->memory, &software->key, size, 0))
        return bzi_fail_memory(err, "parameter sets");
    bzi_image_key(image, software->key.data, size);
    if (!bzi_lru_find(&software->keys, software->key.data, size, &index) ||
        (image->codec == BZNA_CODEC_STILL && !bzi_still_find(bzi_image_data(image))->forgets)) {
        avcodec_free_context(&software->codecs[index]);
        if (!bzi_lru_set(&software->keys, software->memory, index, software->key.data, size))
            return bzi_fail_memory(err, "parameter sets");
        if ((status = bzi_software_open_codec(software, image, &software->codecs[index], err)) != BZNA_OK) {
            bzi_lru_forget(&software->keys, index);
            return status;
        }
    }
    *out = software->codecs[index];
    return BZNA_OK;
}

static bzna_status bzi_av_open(bzi_software *software, bzna_error *err)
{
    software->frame = av_frame_alloc();
    software->packet = av_packet_alloc();
    return software->frame && software->packet ? BZNA_OK : bzi_fail_memory(err, "a decoder");
}

/* One access unit in, its frame out. Drains when the decoder would wait for more. */
static int bzi_software_run(AVCodecContext *codec, AVPacket *packet, AVFrame *frame)
{
    int result = avcodec_send_packet(codec, packet);
    if (result < 0)
        return result;
    result = avcodec_receive_frame(codec, frame);
    if (result == AVERROR(EAGAIN)) {
        result = avcodec_send_packet(codec, NULL);
        if (result >= 0)
            result = avcodec_receive_frame(codec, frame);
    }
    return result;
}

/* Whether the last row, or the one before it, which interlaced pictures end with, is still as it was cleared. */
static int bzi_frame_lacks_rows(const AVFrame *frame, uint32_t fill)
{
    int bytes = av_image_get_linesize(frame->format, frame->width, 0), lacks = bytes < 1;
    for (int y = frame->height > 1 ? frame->height - 2 : 0; y < frame->height && !lacks; y++) {
        const uint8_t *row = frame->data[0] + (ptrdiff_t)y * frame->linesize[0];
        lacks = 1;
        for (int i = 0; i < bytes && lacks; i++)
            lacks = row[i] == fill;
    }
    return lacks;
}

/* One access unit in, its frame out, and nothing of others. Of PNG, libavcodec leaves out rows that are missing and
 * does not say so: rows that are as they were cleared, whatever with, are missing. */
static int bzi_software_frame(bzi_software *software, AVCodecContext *codec)
{
    static const uint32_t fills[2] = { 0x5c, 0xa3 };
    const int is_png = codec->codec_id == AV_CODEC_ID_PNG;
    for (int i = 0; i < 2; i++) {
        int result;
        software->fill = is_png ? fills[i] : 0;
        avcodec_flush_buffers(codec);
        result = bzi_software_run(codec, software->packet, software->frame);
        if (result < 0 || !is_png || !bzi_frame_lacks_rows(software->frame, fills[i]))
            return result;
    }
    return AVERROR_INVALIDDATA;
}

static bzna_status bzi_software_fail(int result, const char *codec, bzna_error *err)
{
    char text[AV_ERROR_MAX_STRING_SIZE] = "";
    if (result == AVERROR(ENOMEM))
        return bzi_fail_memory(err, "a decoded picture");
    if (result == AVERROR_PATCHWELCOME)
        return bzi_fail(err, BZNA_E_CODEC, BZNA_NO_OFFSET, 0, result,
                        "libavcodec does not support what this %s picture uses", codec);
    if (result == AVERROR_INVALIDDATA || result == AVERROR_EOF || result == AVERROR(EAGAIN))
        return bzi_fail(err, BZNA_E_DECODE, BZNA_NO_OFFSET, 0, result,
                        "libavcodec: the %s data are damaged or truncated", codec);
    av_strerror(result, text, sizeof text);
    return bzi_fail(err, BZNA_E_DECODE, BZNA_NO_OFFSET, 0, result, "libavcodec: %s", text);
}

/* The frame's planes; they belong to the decoder until its next call. H.264's gray comes as 4:2:0 with neutral chroma,
 * which is left out; so is the alpha that CMYK leaves. libavcodec's planes are G, B, R where it takes a picture for
 * R'G'B', by the numbers of a JPEG's components; where JFIF says Y'CbCr, those are Cb, Cr and Y. */
static bzna_status bzi_software_planes(const AVFrame *frame, uint32_t chroma_format, uint32_t rows,
                                       bzna_picture *picture, bzna_error *err)
{
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get(frame->format);
    int gray = chroma_format == 0, is_rgb = format && (format->flags & AV_PIX_FMT_FLAG_RGB);
    int first = is_rgb && picture->color.matrix != 0 ? 2 : 0;
    if (!format || (uint32_t)format->comp[0].depth != picture->depth || (format->flags & AV_PIX_FMT_FLAG_BE) ||
        (is_rgb && chroma_format != 3) ||
        (!gray &&
         (format->nb_components < 3 || !(format->flags & AV_PIX_FMT_FLAG_PLANAR) ||
          format->log2_chroma_w != picture->chroma_shift_x || format->log2_chroma_h != picture->chroma_shift_y)))
        return BZI_FAIL(err, BZNA_E_CODEC, "pixel format %s can't be used", format ? format->name : "?");
    if ((uint32_t)frame->width != picture->frame_width || (uint32_t)frame->height != rows)
        return BZI_FAIL(err, BZNA_E_MISMATCH, "libavcodec's frame is %dx%d, not %ux%u", frame->width, frame->height,
                        picture->frame_width, rows);
    for (int i = 0; i < (gray ? 1 : 3); i++) {
        picture->plane[i] = frame->data[(first + i) % 3];
        picture->pitch[i] = frame->linesize[(first + i) % 3];
    }
    return BZNA_OK;
}

/* Whether the kernel can read the samples of the first `count` components where libavcodec has put them. */
static int bzi_frame_is_planar(const AVPixFmtDescriptor *format, int count)
{
    const int is_native = format->comp[0].depth <= 8 || !(format->flags & AV_PIX_FMT_FLAG_BE) == !AV_HAVE_BIGENDIAN;
    int planar = is_native && !(format->flags & (AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM));
    for (int i = 0; i < count; i++)
        planar = planar && format->comp[i].depth >= 8 && format->comp[i].depth == format->comp[0].depth &&
                 format->comp[i].step == (format->comp[0].depth > 8 ? 2 : 1) && !format->comp[i].shift;
    return planar;
}

/* One row of a component, as samples of one or two bytes. What has less than 8 bits is stretched to 0..255. */
static void bzi_frame_row(const AVFrame *frame, int y, int component, uint16_t *line, uint8_t *dst)
{
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get(frame->format);
    const AVComponentDescriptor *p = &format->comp[component];
    const uint32_t depth = (uint32_t)p->depth, top = (1u << depth) - 1;
    const uint32_t flipped = frame->format == AV_PIX_FMT_MONOWHITE ? top : 0;
    if (format->flags & AV_PIX_FMT_FLAG_PAL) {              /* entries are 0xAARRGGBB in the machine's order of bytes */
        const uint8_t *index = frame->data[0] + (ptrdiff_t)y * frame->linesize[0];
        const uint8_t *color = frame->data[1] + (AV_HAVE_BIGENDIAN ? 1 + component : 2 - component);
        for (int x = 0; x < frame->width; x++)
            dst[x] = color[4 * index[x]];
        return;
    }
    if (depth == 8 && !p->shift && !(format->flags & AV_PIX_FMT_FLAG_BITSTREAM)) {
        const uint8_t *src = frame->data[p->plane] + (ptrdiff_t)y * frame->linesize[p->plane] + p->offset;
        for (int x = 0; x < frame->width; x++)
            dst[x] = src[(ptrdiff_t)x * p->step];
        return;
    }
    av_read_image_line2(line, (const uint8_t **)(uintptr_t)frame->data, frame->linesize, format, 0, y, component,
                        frame->width, 0, 2);
    for (int x = 0; x < frame->width && depth <= 8; x++)
        dst[x] = (uint8_t)(depth == 8 ? line[x] : (line[x] ^ flipped) * 255 / top);
    if (depth > 8)
        memcpy(dst, line, 2 * (size_t)frame->width);
}

/* Pixels, indices of a palette or bits become planes of G, B and R, or one of gray. Exact; alpha is left out. */
static bzna_status bzi_software_split(bzi_software *software, bzna_picture *picture, int count, bzna_error *err)
{
    static const int components[3] = { 1, 2, 0 };
    const AVFrame *frame = software->frame;
    const uint64_t bytes = picture->depth > 8 ? 2 : 1, width = (uint64_t)frame->width;
    const uint64_t row = width * bytes, plane = (row * (uint64_t)frame->height + 1) & ~(uint64_t)1;
    if (!bzi_buffer_reserve(software->memory, &software->pixels, plane * (uint64_t)count + 2 * width, 0))
        return bzi_fail_memory(err, "a picture's planes");
    for (int i = 0; i < count; i++) {
        uint8_t *dst = software->pixels.data + plane * (uint64_t)i;
        picture->plane[i] = dst;
        picture->pitch[i] = (int64_t)row;
        for (int y = 0; y < frame->height; y++)
            bzi_frame_row(frame, y, count == 3 ? components[i] : 0,
                          (uint16_t *)(void *)(software->pixels.data + plane * (uint64_t)count),
                          dst + row * (uint64_t)y);
    }
    return BZNA_OK;
}

/* What a still was coded as is known by its frame. Planes of Y'CbCr, of R'G'B' and of gray are used as they are, 0 to
 * 255 but for WebP's Y'CbCr; all else becomes such planes. Alpha is left out, as by Pillow's convert("RGB"). */
static bzna_status bzi_software_still(bzi_software *software, const bzna_image *image, bzna_picture *picture,
                                      bzna_error *err)
{
    const AVFrame *frame = software->frame;
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get(frame->format);
    const int has_palette = format && (format->flags & AV_PIX_FMT_FLAG_PAL);
    const int is_gif = bzi_still_find(bzi_image_data(image))->av_id == AV_CODEC_ID_GIF;
    const int is_index = (has_palette || is_gif) && image->palette == BZNA_PALETTE_INDEX;
    const int is_gray = is_index || (format && format->nb_components < 3 && !has_palette), count = is_gray ? 1 : 3;
    const int is_rgb = !is_gray && (has_palette || (format->flags & AV_PIX_FMT_FLAG_RGB));
    const int is_planar = is_index ? has_palette : format && bzi_frame_is_planar(format, count);
    if (!format || (format->flags & (AV_PIX_FMT_FLAG_HWACCEL | AV_PIX_FMT_FLAG_BAYER | AV_PIX_FMT_FLAG_FLOAT)) ||
        (!is_gray && !is_rgb && !is_planar) || !strncmp(format->name, "xyz", 3))
        return BZI_FAIL(err, BZNA_E_CODEC, "%s: pixel format %s can't be used", bzi_image_codec_name(image),
                        format ? format->name : "?");
    if ((uint32_t)frame->width != picture->frame_width || (uint32_t)frame->height != picture->frame_height)
        return BZI_FAIL(err, BZNA_E_MISMATCH, "libavcodec's frame is %dx%d, not %ux%u", frame->width, frame->height,
                        picture->frame_width, picture->frame_height);
    picture->depth = has_palette || format->comp[0].depth < 8 ? 8 : (uint32_t)format->comp[0].depth;
    picture->chroma_shift_x = is_gray || is_rgb ? 0 : format->log2_chroma_w;
    picture->chroma_shift_y = is_gray || is_rgb ? 0 : format->log2_chroma_h;
    picture->color = bzi_color_of_archives;
    picture->color.matrix = is_rgb ? 0 : 5;
    picture->color.full_range = is_gray || is_rgb || frame->color_range != AVCOL_RANGE_MPEG;
    if (!is_planar)
        return bzi_software_split(software, picture, count, err);
    for (int i = 0; i < count; i++) {
        picture->plane[i] = frame->data[i];
        picture->pitch[i] = frame->linesize[i];
    }
    return BZNA_OK;
}

/* The picture as libavcodec takes it: padded, without what strip takes out. *rows: given, those that are wanted of a
 * JPEG; then, those that it has. */
static bzna_status bzi_av_stream(bzi_software *software, const bzna_image *image, uint32_t *rows, bzna_error *err)
{
    const bzi_codec *row = bzi_codec_find(image->codec);
    uint64_t size;
    bzna_status status = bzi_image_stream(image, NULL, 0, &size, err);
    if (status != BZNA_OK)
        return status;
    if (size > INT32_MAX - AV_INPUT_BUFFER_PADDING_SIZE)
        return BZI_FAIL(err, BZNA_E_LIMIT, "an access unit of %llu bytes", (unsigned long long)size);
    if (!bzi_buffer_reserve(software->memory, &software->stream, size + AV_INPUT_BUFFER_PADDING_SIZE, 0))
        return bzi_fail_memory(err, "an access unit");
    if ((status = bzi_image_stream(image, software->stream.data, size, &size, err)) != BZNA_OK ||
        (image->codec == BZNA_CODEC_JPEG &&
         (status = bzi_jpeg_cut(software->stream.data, size, rows, err)) != BZNA_OK))
        return status;
    if (row->strip)
        size = row->strip(software->stream.data, size);
    if (image->palette == BZNA_PALETTE_INDEX)
        bzi_still_number_colors(software->stream.data, size);
    memset(software->stream.data + size, 0, AV_INPUT_BUFFER_PADDING_SIZE);
    software->packet->data = software->stream.data;
    software->packet->size = (int)size;
    software->packet->flags = AV_PKT_FLAG_KEY;              /* else libavcodec adds the picture before to a PNG */
    return BZNA_OK;
}

static bzna_status bzi_av_decode(bzi_software *software, const bzna_image *image, const bzi_format *format,
                                 uint32_t rows, bzna_picture *picture, bzna_error *err)
{
    AVCodecContext *codec = NULL;
    int result;
    bzna_status status = bzi_software_choose(software, image, &codec, err);
    rows = image->codec == BZNA_CODEC_JPEG ? rows : picture->frame_height;
    if (status != BZNA_OK || (status = bzi_av_stream(software, image, &rows, err)) != BZNA_OK)
        return status;
    result = bzi_software_frame(software, codec);
    if (result < 0)
        return bzi_software_fail(result, bzi_image_codec_name(image), err);
    if ((software->frame->flags & AV_FRAME_FLAG_CORRUPT) || software->frame->decode_error_flags)
        return BZI_FAIL(err, BZNA_E_DECODE, "libavcodec: the picture is incomplete");
    if (image->codec == BZNA_CODEC_STILL)
        return bzi_software_still(software, image, picture, err);
    return bzi_software_planes(software->frame, format->chroma_format, rows, picture, err);
}

#endif

/* Who decodes, for people. */
static void bzi_software_name(char *text, size_t size)
{
#ifndef BENZINA_NO_AVCODEC
    unsigned v = avcodec_version();
    snprintf(text, size, "libavcodec %u.%u.%u%s", v >> 16, v >> 8 & 255, v & 255, *BZI_TURBO ? ", " BZI_TURBO : "");
#else
    bzi_string_copy(text, size, *BZI_TURBO ? BZI_TURBO : "none");
#endif
}

static void bzi_software_close(bzi_software *software)
{
#ifndef BENZINA_NO_JPEG
    bzi_turbo_close(&software->turbo);
#endif
#ifndef BENZINA_NO_AVCODEC
    bzi_av_close(software);
#endif
    bzi_buffer_free(software->memory, &software->canvas);
    bzi_buffer_free(software->memory, &software->gathered);
}

static bzna_status bzi_software_open(bzi_software *software, const bzi_memory *memory, uint32_t max_edge_px,
                                     bzna_error *err)
{
    bzna_status status = BZI_SOFTWARE ? BZNA_OK :
                         BZI_FAIL(err, BZNA_E_UNSUPPORTED, "decoder: this build has neither libavcodec nor "
                                  "libjpeg-turbo (BENZINA_NO_AVCODEC, BENZINA_NO_JPEG)");
    memset(software, 0, sizeof *software);
    software->memory = memory;
    software->max_edge_px = max_edge_px;
#ifndef BENZINA_NO_JPEG
    status = bzi_turbo_open(&software->turbo, memory, err);
#endif
#ifndef BENZINA_NO_AVCODEC
    if (status == BZNA_OK)
        status = bzi_av_open(software, err);
#endif
    if (status != BZNA_OK)
        bzi_software_close(software);
    return status;
}

/* As bzi_software_decode, below, but for a HEIF file. */
static bzna_status bzi_software_decode_one(bzi_software *software, const bzna_image *image, const bzi_format *format,
                                           bzi_wanted wanted, bzna_picture *picture, bzna_error *err)
{
    const bzi_codec *row = bzi_codec_find(image->codec);
    if (row->planes) {
        row->planes(image, picture);
        return BZNA_OK;
    }
#ifndef BENZINA_NO_JPEG
    if (image->codec == BZNA_CODEC_JPEG)
        return bzi_turbo_decode(&software->turbo, bzi_image_data(image), format, wanted, picture, err);
#endif
#ifndef BENZINA_NO_AVCODEC
    return bzi_av_decode(software, image, format, (uint32_t)wanted.rows.end, picture, err);
#else
    (void)software, (void)format, (void)wanted;
    return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "this build has no libavcodec, which decodes %s",
                    bzi_image_codec_name(image));
#endif
}


/* ==== 44. Software decode: HEIF ======================================================================================
 * Calls: rooms 2, 4-5, 13-14, 16, 41, 43. Grids, and items that lie in pieces. Of a grid, the tiles that are wanted are
 * decoded one after the other, and copied to their places in one canvas, which the warp reads as any picture. */

#ifndef BENZINA_NO_HEIF

/* A tile's planes as they lie in the canvas: clipped at its right and lower edges. */
static bzna_status bzi_canvas_put(const bzna_picture *canvas, const bzna_picture *tile, uint32_t x, uint32_t y,
                                  bzna_error *err)
{
    const uint32_t bytes = canvas->depth > 8 ? 2 : 1;
    if (tile->depth != canvas->depth || tile->chroma_shift_x != canvas->chroma_shift_x ||
        tile->chroma_shift_y != canvas->chroma_shift_y || !tile->plane[1] != !canvas->plane[1])
        return BZI_FAIL(err, BZNA_E_MISMATCH, "the tile at %u,%u has another depth or chroma format than the first",
                        x, y);
    for (int i = 0; i < (canvas->plane[1] ? 3 : 1); i++) {
        const uint32_t shift_x = i ? canvas->chroma_shift_x : 0, shift_y = i ? canvas->chroma_shift_y : 0;
        const uint32_t width = (uint32_t)bzi_min(tile->frame_width, canvas->frame_width - x);
        const uint32_t height = (uint32_t)bzi_min(tile->frame_height, canvas->frame_height - y);
        const uint64_t size = (((uint64_t)width + (1u << shift_x) - 1) >> shift_x) * bytes;
        uint8_t *dst = (uint8_t *)(uintptr_t)canvas->plane[i] + (int64_t)(y >> shift_y) * canvas->pitch[i] +
                       (uint64_t)(x >> shift_x) * bytes;
        if (tile->step[i] && tile->step[i] != bytes)
            return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "the tile at %u,%u does not come as planes", x, y);
        for (uint32_t row = 0; row < (height + (1u << shift_y) - 1) >> shift_y; row++)
            memcpy(dst + (int64_t)row * canvas->pitch[i],
                   (const uint8_t *)tile->plane[i] + (int64_t)row * tile->pitch[i], (size_t)size);
    }
    return BZNA_OK;
}

/* Memory for a canvas, as the picture says that it is. */
static bzna_status bzi_canvas_make(bzi_software *software, uint32_t chroma_format, bzna_picture *canvas,
                                   bzna_error *err)
{
    const uint64_t bytes = canvas->depth > 8 ? 2 : 1;
    uint64_t offset[3], total = 0;
    const int count = chroma_format ? 3 : 1;
    for (int i = 0; i < count; i++) {
        const uint32_t shift_x = i ? canvas->chroma_shift_x : 0, shift_y = i ? canvas->chroma_shift_y : 0;
        const uint64_t width = ((uint64_t)canvas->frame_width + (1u << shift_x) - 1) >> shift_x;
        canvas->pitch[i] = (int64_t)((width * bytes + 63) & ~63ull);
        offset[i] = total;
        total += (uint64_t)canvas->pitch[i] * (((uint64_t)canvas->frame_height + (1u << shift_y) - 1) >> shift_y);
    }
    if (!bzi_buffer_reserve(software->memory, &software->canvas, total, 0))
        return bzi_fail_memory(err, "the canvas of a grid");
    for (int i = 0; i < count; i++)
        canvas->plane[i] = software->canvas.data + offset[i];
    return BZNA_OK;
}

/* One coded item. What lies in pieces is put together first. */
static bzna_status bzi_heif_decode_item(bzi_software *software, const bzi_heif *heif, const bzi_heif_item *item,
                                        bzna_image *coded, bzna_picture *picture, bzna_error *err)
{
    bzi_image alone;
    bzi_format format;
    bzi_span first;
    bzna_status status;
    if (!coded->data) {
        if (!bzi_buffer_reserve(software->memory, &software->gathered, coded->data_size, 0))
            return bzi_fail_memory(err, "an item in pieces");
        if (bzi_heif_bytes(heif, item->id, &first, &coded->data_size,
                           (bzi_span){ software->gathered.data, coded->data_size }, err) != BZNA_OK)
            return err->status;
        coded->data = software->gathered.data;
    }
    alone = bzi_image_alone(coded);
    if ((status = bzi_picture_describe(&alone, software->max_edge_px, &format, picture, err)) != BZNA_OK)
        return status;
    software->tiles++;
    return bzi_software_decode_one(software, coded, &format, bzi_picture_all(picture), picture, err);
}

/* The tiles that the wanted part of the frame touches, in their order. */
static bzna_status bzi_heif_decode_grid(bzi_software *software, const bzi_heif *heif, const bzi_heif_item *item,
                                        bzi_region wanted, bzna_picture *canvas, bzna_error *err)
{
    bzi_heif_grid grid;
    bzi_heif_item first, tile;
    bzna_image coded;
    bzna_picture picture;
    uint64_t bytes = 0;
    if (bzi_heif_read_grid(heif, item, &grid, err) != BZNA_OK ||
        bzi_heif_find_tile(heif, &grid, 0, &first, &coded, err) != BZNA_OK)
        return err->status;
    for (uint32_t i = 0; i < grid.rows * grid.columns; i++) {
        const uint32_t x = i % grid.columns * first.width, y = i / grid.columns * first.height;
        if (wanted.x1 && (x >= wanted.x1 || y >= wanted.y1 || x + first.width <= wanted.x0 ||
                          y + first.height <= wanted.y0))
            continue;
        if (bzi_heif_find_tile(heif, &grid, i, &tile, &coded, err) != BZNA_OK)
            return err->status;
        if (tile.width != first.width || tile.height != first.height)
            return BZI_FAIL(err, BZNA_E_MISMATCH, "tile %u is %ux%u, the first one is %ux%u", i, tile.width,
                            tile.height, first.width, first.height);
        if ((bytes += coded.data_size) > heif->file.size)
            return BZI_FAIL(err, BZNA_E_BOX, "the grid's tiles overlap in the file");
        if (bzi_heif_decode_item(software, heif, &tile, &coded, &picture, err) != BZNA_OK ||
            bzi_canvas_put(canvas, &picture, x, y, err) != BZNA_OK)
            return err->status;
    }
    return BZNA_OK;
}

/* Pre: the picture was described. */
static bzna_status bzi_heif_decode(bzi_software *software, const bzna_image *image, const bzi_format *format,
                                   bzi_region wanted, bzna_picture *picture, bzna_error *err)
{
    bzi_heif heif;
    bzi_heif_item item;
    bzna_image coded;
    bzna_picture decoded;
    if (bzi_heif_of(image, &heif, &item, err) != BZNA_OK)
        return err->status;
    if (item.type == BZI_GRID)
        return bzi_canvas_make(software, format->chroma_format, picture, err) == BZNA_OK ?
               bzi_heif_decode_grid(software, &heif, &item, wanted, picture, err) : err->status;
    if (bzi_heif_coded(&heif, &item, &coded, err) != BZNA_OK ||
        bzi_heif_decode_item(software, &heif, &item, &coded, &decoded, err) != BZNA_OK)
        return err->status;
    software->tiles = 0;
    memcpy(picture->plane, decoded.plane, sizeof picture->plane);
    memcpy(picture->pitch, decoded.pitch, sizeof picture->pitch);
    memcpy(picture->step, decoded.step, sizeof picture->step);
    return BZNA_OK;
}

#endif

/* The part of a frame that the warp of a slot may read joins a region, and more beside it: filters reach at most four
 * of the output's pixels to each side, or four of the picture's, twice as far in chroma. Only an affine H bounds it. */
BZI_MAYBE_UNUSED static void bzi_region_add(bzi_region *region, const bzi_kernel_slot *slot,
                                            const bzi_kernel_output *to)
{
    const double size[2] = { slot->x1 - slot->x0 + 1.0, slot->y1 - slot->y0 + 1.0 };
    const double origin[2] = { slot->x0, slot->y0 };
    const float *h = slot->h;
    const int affine = h[6] == 0 && h[7] == 0 && h[8] != 0;
    uint32_t *const begin[2] = { &region->x0, &region->y0 }, *const end[2] = { &region->x1, &region->y1 };
    double reach = fabs(h[8]);
    for (int i = 0; i < 2; i++)
        reach = fmax(reach, fabs(h[3 * i]) + fabs(h[3 * i + 1]));
    reach = 8 * reach / fabs(h[8]) + 4;
    for (int i = 0; i < 2; i++) {
        double low = INFINITY, high = -INFINITY;
        for (int corner = 0; corner < 4; corner++) {
            const double x = corner & 1 ? to->width - 1 : 0, y = corner & 2 ? to->height - 1 : 0;
            const double v = (h[3 * i] * x + h[3 * i + 1] * y + h[3 * i + 2]) / h[8];
            low = fmin(low, v - reach);
            high = fmax(high, v + reach + 1);
        }
        low = affine && low > 0 ? fmin(low, size[i]) : 0;   /* NaN is all */
        high = affine && high < size[i] ? fmax(high, 1) : size[i];
        *begin[i] = (uint32_t)fmin(*begin[i], origin[i] + low);
        *end[i] = (uint32_t)fmax(*end[i], origin[i] + high);
    }
}

/* Pre: picture and format are what bzi_picture_describe made of the image. The picture's planes belong to the decoder
 * until its next call; outside what is wanted they may hold anything. Its sizes stay those of the whole picture. */
static bzna_status bzi_software_decode(bzi_software *software, const bzna_image *image, const bzi_format *format,
                                       bzi_wanted wanted, bzna_picture *picture, bzna_error *err)
{
    software->tiles = 0;
#ifndef BENZINA_NO_HEIF
    if (image->codec == BZNA_CODEC_HEIF)
        return bzi_heif_decode(software, image, format, wanted.part, picture, err);
#endif
    return bzi_software_decode_one(software, image, format, wanted, picture, err);
}

struct bzna_decoder {
    bzi_host     *host;
    bzi_software  software;
};


/* ==== 45. CUDA: the driver ===========================================================================================
 * Calls: rooms 3, 5. NVIDIA's driver, opened at run time: only the functions that are used, each named when it is
 * missing; and what its errors mean. Drivers do not survive being unloaded, so their libraries stay open. */

#ifndef BENZINA_NO_CUDA

enum { BZI_CUDA_NO_MEMORY = 2 };

/* The drivers 465, and no others, say CUDA 11.3 (470, from its first release for Linux on, says 11.4). With them,
 * decoders that work at the same time on streams of their own overwrite memory; NVIDIA mended that in 470.21. */
#define BZI_CUDA_CORRUPTS 11030

/* Types that nv-codec-headers lack. */
typedef CUresult CUDAAPI bzi_cu_driver_version(int *version);
typedef CUresult CUDAAPI bzi_cu_total_memory(size_t *bytes, CUdevice device);
typedef CUresult CUDAAPI bzi_cu_memory_info(size_t *unused, size_t *total);
typedef CUresult CUDAAPI bzi_cu_host_alloc(void **host, size_t bytes, unsigned int flags);
typedef CUresult CUDAAPI bzi_cu_host_free(void *host);
typedef CUresult CUDAAPI bzi_cu_stream_wait(CUstream stream, CUevent event, unsigned int flags);
typedef CUresult CUDAAPI bzi_cu_current(CUcontext *context);
typedef CUresult CUDAAPI bzi_cu_flags(unsigned int *flags);
typedef CUresult CUDAAPI bzi_cu_stream_priority(CUstream *stream, unsigned int flags, int priority);
typedef CUresult CUDAAPI bzi_cu_capture_mode(int *mode);

/* The functions that are used: the member of bzi_cuda, the driver's name, the type. */
#define BZI_CUDA_SYMBOLS(X)                                     \
    X(init,             "cuInit",                     tcuInit)                      \
    X(driver_version,   "cuDriverGetVersion",         bzi_cu_driver_version)        \
    X(device_count,     "cuDeviceGetCount",           tcuDeviceGetCount)            \
    X(device_get,       "cuDeviceGet",                tcuDeviceGet)                 \
    X(device_name,      "cuDeviceGetName",            tcuDeviceGetName)             \
    X(device_attribute, "cuDeviceGetAttribute",       tcuDeviceGetAttribute)        \
    X(device_memory,    "cuDeviceTotalMem_v2",        bzi_cu_total_memory)          \
    X(memory_info,      "cuMemGetInfo_v2",            bzi_cu_memory_info)           \
    X(primary_retain,   "cuDevicePrimaryCtxRetain",   tcuDevicePrimaryCtxRetain)    \
    X(primary_release,  "cuDevicePrimaryCtxRelease",  tcuDevicePrimaryCtxRelease)   \
    X(push,             "cuCtxPushCurrent_v2",        tcuCtxPushCurrent_v2)         \
    X(pop,              "cuCtxPopCurrent_v2",         tcuCtxPopCurrent_v2)          \
    X(context_device,   "cuCtxGetDevice",             tcuCtxGetDevice)              \
    X(alloc,            "cuMemAlloc_v2",              tcuMemAlloc_v2)               \
    X(release,          "cuMemFree_v2",               tcuMemFree_v2)                \
    X(host_alloc,       "cuMemHostAlloc",             bzi_cu_host_alloc)            \
    X(host_free,        "cuMemFreeHost",              bzi_cu_host_free)             \
    X(upload,           "cuMemcpyHtoDAsync_v2",       tcuMemcpyHtoDAsync_v2)        \
    X(download,         "cuMemcpyDtoHAsync_v2",       tcuMemcpyDtoHAsync_v2)        \
    X(stream_create,    "cuStreamCreate",             tcuStreamCreate)              \
    X(stream_destroy,   "cuStreamDestroy_v2",         tcuStreamDestroy_v2)          \
    X(stream_sync,      "cuStreamSynchronize",        tcuStreamSynchronize)         \
    X(stream_wait,      "cuStreamWaitEvent",          bzi_cu_stream_wait)           \
    X(event_create,     "cuEventCreate",              tcuEventCreate)               \
    X(event_destroy,    "cuEventDestroy_v2",          tcuEventDestroy_v2)           \
    X(event_record,     "cuEventRecord",              tcuEventRecord)               \
    X(event_query,      "cuEventQuery",               tcuEventQuery)                \
    X(event_sync,       "cuEventSynchronize",         tcuEventSynchronize)          \
    X(module_load,      "cuModuleLoadData",           tcuModuleLoadData)            \
    X(module_unload,    "cuModuleUnload",             tcuModuleUnload)              \
    X(module_function,  "cuModuleGetFunction",        tcuModuleGetFunction)         \
    X(launch,           "cuLaunchKernel",             tcuLaunchKernel)              \
    X(error_name,       "cuGetErrorName",             tcuGetErrorName)

#define BZI_NVCUVID_SYMBOLS(X)                                  \
    X(decoder_caps,        "cuvidGetDecoderCaps",     tcuvidGetDecoderCaps)         \
    X(decoder_create,      "cuvidCreateDecoder",      tcuvidCreateDecoder)          \
    X(decoder_destroy,     "cuvidDestroyDecoder",     tcuvidDestroyDecoder)         \
    X(decoder_reconfigure, "cuvidReconfigureDecoder", tcuvidReconfigureDecoder)     \
    X(decode,              "cuvidDecodePicture",      tcuvidDecodePicture)          \
    X(decode_status,       "cuvidGetDecodeStatus",    tcuvidGetDecodeStatus)        \
    X(map,                 "cuvidMapVideoFrame64",    tcuvidMapVideoFrame64)        \
    X(unmap,               "cuvidUnmapVideoFrame64",  tcuvidUnmapVideoFrame64)      \
    X(parser_create,       "cuvidCreateVideoParser",  tcuvidCreateVideoParser)      \
    X(parse,               "cuvidParseVideoData",     tcuvidParseVideoData)         \
    X(parser_destroy,      "cuvidDestroyVideoParser", tcuvidDestroyVideoParser)

/* Those that a driver may lack. */
#define BZI_CUDA_OPTIONAL(X)                                    \
    X(current,          "cuCtxGetCurrent",            bzi_cu_current)               \
    X(flags,            "cuCtxGetFlags",              bzi_cu_flags)                 \
    X(primary_state,    "cuDevicePrimaryCtxGetState", tcuDevicePrimaryCtxGetState)  \
    X(primary_flags,    "cuDevicePrimaryCtxSetFlags", tcuDevicePrimaryCtxSetFlags)  \
    X(stream_priority,  "cuStreamCreateWithPriority", bzi_cu_stream_priority)       \
    X(capture_mode,     "cuThreadExchangeStreamCaptureMode", bzi_cu_capture_mode)

typedef struct bzi_cuda {
#define BZI_CUDA_FIELD(field, name, type) type *field;
    BZI_CUDA_SYMBOLS(BZI_CUDA_FIELD)
    BZI_CUDA_OPTIONAL(BZI_CUDA_FIELD)
    BZI_NVCUVID_SYMBOLS(BZI_CUDA_FIELD)
#undef BZI_CUDA_FIELD
} bzi_cuda;

static bzna_status bzi_cuda_symbol(void *library, const char *library_name, const char *name, void *pointer,
                                   bzna_error *err)
{
    void *symbol = bzi_os_symbol(library, name);
    if (!symbol)
        return BZI_FAIL(err, BZNA_E_DEVICE, "%s lacks %s: the NVIDIA driver is too old", library_name, name);
    /* ISO C has no cast from an object's to a function's address; that they have one form is POSIX's word. */
    memcpy(pointer, &symbol, sizeof symbol);
    return BZNA_OK;
}

static bzna_status bzi_cuda_load(bzi_cuda *cu, bzna_error *err)
{
    void *library = bzi_os_library("libcuda.so.1");
    bzna_status status = BZNA_OK;
    bzna_error ignored;
    if (!library)
        return BZI_FAIL(err, BZNA_E_DEVICE, "libcuda.so.1 was not found: there is no NVIDIA driver here (in a "
                        "container: start it with the GPU, --gpus all)");
#define BZI_CUDA_LOAD(field, name, type) \
    if (status == BZNA_OK) status = bzi_cuda_symbol(library, "libcuda.so.1", name, &cu->field, err);
    BZI_CUDA_SYMBOLS(BZI_CUDA_LOAD)
#undef BZI_CUDA_LOAD
#define BZI_CUDA_TRY(field, name, type) \
    if (bzi_cuda_symbol(library, "libcuda.so.1", name, &cu->field, &ignored) != BZNA_OK) cu->field = NULL;
    BZI_CUDA_OPTIONAL(BZI_CUDA_TRY)
#undef BZI_CUDA_TRY
    return status;
}

static bzna_status bzi_nvcuvid_load(bzi_cuda *cu, bzna_error *err)
{
    void *library = bzi_os_library("libnvcuvid.so.1");
    bzna_status status = BZNA_OK;
    if (!library)
        return BZI_FAIL(err, BZNA_E_DEVICE, "libnvcuvid.so.1 was not found: the driver's video part is not installed "
                        "(in a container: set NVIDIA_DRIVER_CAPABILITIES=compute,video)");
#define BZI_NVCUVID_LOAD(field, name, type) \
    if (status == BZNA_OK) status = bzi_cuda_symbol(library, "libnvcuvid.so.1", name, &cu->field, err);
    BZI_NVCUVID_SYMBOLS(BZI_NVCUVID_LOAD)
#undef BZI_NVCUVID_LOAD
    return status;
}

/* Errors after which nothing works any more in this CUDA context: CUDA's "sticky" ones, and those of a context that is
 * gone. */
static int bzi_cuda_is_lost(int result)
{
    static const int lost[] = { 3, 4, 46, 201, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721 };
    for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++)
        if (result == lost[i])
            return 1;
    return 0;
}

static bzna_status bzi_cuda_fail(const bzi_cuda *cu, CUresult result, const char *call, bzna_error *err)
{
    const char *name = NULL;
    int code = (int)result;
    bzna_status status = code == BZI_CUDA_NO_MEMORY ? BZNA_E_MEMORY :
                         bzi_cuda_is_lost(code) ? BZNA_E_DEVICE_LOST : BZNA_E_DEVICE;
    if (cu->error_name(result, &name) != CUDA_SUCCESS || !name)
        name = "unknown error";
    return bzi_fail(err, status, BZNA_NO_OFFSET, 0, code, "%s: %s (%d)", call, name, code);
}

static bzna_status bzi_cuda_fail_forked(bzna_error *err)
{
    return BZI_FAIL(err, BZNA_E_STATE, "CUDA was started before fork, and a child process cannot use it; with "
                    "BZNA_DEVICE_CPU it can do without");
}

/* Loads and starts the driver. After a fork, the child must not call it: the process that started it is remembered. */
static bzna_status bzi_cuda_start(bzi_cuda *cu, int *count, bzna_error *err)
{
    static _Atomic int64_t started;
    int64_t by = atomic_load(&started);
    CUresult result;
    bzna_status status;
    if (by && by != bzi_os_process())
        return bzi_cuda_fail_forked(err);
    if ((status = bzi_cuda_load(cu, err)) != BZNA_OK)
        return status;
    if ((result = cu->init(0)) != CUDA_SUCCESS || (result = cu->device_count(count)) != CUDA_SUCCESS)
        return bzi_cuda_fail(cu, result, "cuInit", err);
    atomic_store(&started, bzi_os_process());
    return *count > 0 ? BZNA_OK : BZI_FAIL(err, BZNA_E_DEVICE, "the NVIDIA driver sees no device");
}

/* The device of the CUDA context that is current on the calling thread, else the first one. Programs with one process
 * for each GPU select theirs before they load anything. */
static int bzi_cuda_current_device(const bzi_cuda *cu)
{
    CUcontext current = NULL;
    CUdevice device = 0;
    if (!cu->current || cu->current(&current) != CUDA_SUCCESS || !current ||
        cu->context_device(&device) != CUDA_SUCCESS)
        return 0;
    return device;
}

#endif

/* ==== 46. CUDA: the device ===========================================================================================
 * Calls: rooms 2-5, 12, 15, 41, 45, and the kernels' structs. A device with its memory, streams and events. The rooms
 * below see streams and events as void *, device addresses as uint64_t, and never a CUresult: what fails comes back as
 * a status, with the driver's code in native_code.  A context has one bzi_device at most, made by the first that needs
 * it. Calls that need a current CUDA context are made between enter and leave, or on a thread of the library's that
 * entered once. Its lock (D) is a leaf; only slow queries of the driver are made with it held. (K), which comes before
 * it, is held by the session that checks a kind. */

typedef struct bzi_device bzi_device;

/* What a device is opened with. */
typedef struct bzi_device_desc {
    bzi_host             *host;       /* outlives the device */
    bzna_device           wanted;
    uint32_t              sessions, sessions_per_engine, session_depth, session_mapped;    /* context_config's */
    void                 *cuda_context;           /* the user's; NULL: the device's primary one */
    uint64_t              decode_memory_bytes;    /* 0: an eighth of the device's */
    bzna_device_allocator allocator;
} bzi_device_desc;

#ifndef BENZINA_NO_CUDA

#define BZI_CAPS_DEPTHS 3             /* 8, 10, 12 */

/* What drivers may get wrong, and how decoding goes around it: bits, in the order in which they are tried. */
#define BZI_QUIRK_SURFACE 1u          /* a surface is free when the kernel has read it, not when it is unmapped */
#define BZI_QUIRK_INTRA   2u          /* decoders are not told that all pictures are intra */
#define BZI_QUIRK_INDEX   4u          /* the parser chooses the surface of a picture */
#define BZI_QUIRK_SIZE    8u          /* a decoder is not given another size */
#define BZI_QUIRK_ALL     15u

/* What the self-check looks at: BENZINA_NVDEC_CHECK in the environment is 0, not there, or "all". */
enum { BZI_CHECKS_NONE, BZI_CHECKS_SAFE, BZI_CHECKS_ALL };

/* Of a kind of coded pictures: codec, chroma format, depth. */
typedef struct bzi_caps {
    uint32_t        known;
    CUVIDDECODECAPS caps;
    /* (K) BZNA_CHECK_..., set when what follows is there: BZI_QUIRK_..., and what is to be said about the check */
    atomic_uint     check;
    uint32_t        quirks;
    char            report[sizeof ((bzna_codec_info *)0)->check_message];
} bzi_caps;

struct bzi_device {
    bzi_device_desc  desc;
    bzi_cuda         cu;
    CUdevice         handle;
    CUcontext        cuda;
    CUmodule         module;
    CUfunction       warp[BZI_KERNEL_COUNT];
    uint32_t         has_mutex, owns_primary;
    int64_t          process;         /* after fork, no call may be made */
    bzna_device_info info;
    bzna_error       video;           /* status < 0: why NVDEC cannot be used */
    atomic_int       lost;            /* the CUresult that lost the device, or 0 */
    atomic_int       stuck;           /* NVDEC did not end with a picture: no call may wait for it any more */
    uint32_t         spins;           /* who waits in a call of the driver's keeps a processor busy */
    uint32_t         checks;          /* BZI_CHECKS_... */
    uint32_t         has_checking;
    bzi_mutex        checking;        /* (K) */
    bzi_mutex        mutex;
    bzi_caps         caps[BZI_CODECS][4][BZI_CAPS_DEPTHS];   /* (D) by codec, chroma format, depth */
    uint64_t         decoder_budget;  /* of decoder_bytes */
    atomic_uint_fast64_t decoder_extra;           /* what the first one took beyond its surfaces */
    /* A decoder of so many bytes could not be made; until when that counts. */
    atomic_uint_fast64_t decoder_oom_bytes, decoder_oom_until_ns;
    atomic_uint_fast64_t decoder_bytes;           /* that all decoders take, by estimate */
    atomic_uint_fast64_t decoders_made, decoders_reconfigured, sessions_lost;
};

/* The kernel's PTX, a string a line. make writes the file with clang, and make dist puts it in this place. Without it,
 * a checkout compiles as it is, and opens no device. */
#ifdef __has_include
#  if !__has_include("benzina_kernels.ptx.h")
#    define BZI_NO_PTX
#  endif
#endif
static const char *const bzi_kernel_ptx[] = {
#ifndef BZI_NO_PTX
#include "benzina_kernels.ptx.h"
#endif
    ""
};

static void bzi_device_lose(bzi_device *device, CUresult result)
{
    int none = 0;
    atomic_compare_exchange_strong(&device->lost, &none, (int)result);
}

/* What every call of the driver's goes through. */
static bzna_status bzi_device_check(bzi_device *device, CUresult result, const char *call, bzna_error *err)
{
    if (result == CUDA_SUCCESS)
        return BZNA_OK;
    if (bzi_cuda_is_lost((int)result))
        bzi_device_lose(device, result);
    return bzi_cuda_fail(&device->cu, result, call, err);
}

static int bzi_device_is_lost(bzi_device *device) { return atomic_load(&device->lost) != 0; }

static bzna_status bzi_device_fail_lost(bzi_device *device, bzna_error *err)
{
    int code = atomic_load(&device->lost);
    return bzi_fail(err, BZNA_E_DEVICE_LOST, BZNA_NO_OFFSET, 0, code, "CUDA device %d was lost (%d)",
                    (int)device->info.device.ordinal, code);
}

/* Why NVDEC cannot be used, or BZNA_OK. */
static bzna_status bzi_device_video(bzi_device *device, bzna_error *err)
{
    if (atomic_load(&device->stuck))
        return BZI_FAIL(err, BZNA_E_DEVICE, "NVDEC of %s has not ended with a picture in seconds, and is not used any "
                        "more: restart the process", device->info.name);
    *err = device->video;
    return err->status;
}

/* A context that cannot be entered is lost, whatever the reason. */
static bzna_status bzi_device_enter(bzi_device *device, bzna_error *err)
{
    CUresult result = device->cu.push(device->cuda);
    if (result == CUDA_SUCCESS)
        return BZNA_OK;
    bzi_device_lose(device, result);
    bzi_cuda_fail(&device->cu, result, "cuCtxPushCurrent", err);
    return err->status = BZNA_E_DEVICE_LOST;
}

/* For a thread of the library's. The program may be capturing a CUDA graph: allocations here must not end that. */
static bzna_status bzi_device_enter_thread(bzi_device *device, bzna_error *err)
{
    int relaxed = 2;
    if (device->cu.capture_mode)
        device->cu.capture_mode(&relaxed);
    return bzi_device_enter(device, err);
}

static void bzi_device_leave(bzi_device *device)
{
    CUcontext popped;
    device->cu.pop(&popped);
}

/* --- Opening and closing --- */

static bzna_status bzi_device_describe(bzi_device *device, bzna_error *err)
{
    bzi_cuda *cu = &device->cu;
    int major = 0, minor = 0, driver = 0;
    size_t bytes = 0;
    CUresult result = cu->device_name(device->info.name, (int)sizeof device->info.name - 1, device->handle);
    if (result == CUDA_SUCCESS)
        result = cu->device_memory(&bytes, device->handle);
    if (result == CUDA_SUCCESS)
        result = cu->driver_version(&driver);
    if (result == CUDA_SUCCESS)
        result = cu->device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device->handle);
    if (result == CUDA_SUCCESS)
        result = cu->device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device->handle);
    if (result != CUDA_SUCCESS)
        return bzi_device_check(device, result, "asking the device what it is", err);
    device->info.memory_bytes = bytes;
    device->decoder_budget = device->desc.decode_memory_bytes ? device->desc.decode_memory_bytes : bytes / 8;
    device->info.driver = (uint32_t)driver;
    device->info.compute_major = (uint32_t)major;
    device->info.compute_minor = (uint32_t)minor;
    if (major < 6)
        return BZI_FAIL(err, BZNA_E_DEVICE, "%s has compute capability %d.%d: 6.0 is needed", device->info.name, major,
                        minor);
    return BZNA_OK;
}

/* Makes threads that wait for the device sleep: in a primary context they spin by default, which a dozen sessions must
 * not. The flags of a context that others use already are left alone. */
static void bzi_device_use_blocking_sync(bzi_device *device)
{
    const bzi_cuda *cu = &device->cu;
    unsigned flags = 0;
    int active = 1;
    if (cu->primary_state && cu->primary_flags && cu->primary_state(device->handle, &flags, &active) == CUDA_SUCCESS &&
        !active)
        cu->primary_flags(device->handle, CU_CTX_SCHED_BLOCKING_SYNC);
}

/* Whether it comes to that nevertheless: the program, or another library, made the context. In the CUDA context. */
static int bzi_device_spins(const bzi_device *device)
{
    unsigned flags = 0;
    return !device->cu.flags || device->cu.flags(&flags) != CUDA_SUCCESS || !(flags & CU_CTX_SCHED_BLOCKING_SYNC);
}

/* The device of the user's CUDA context. */
static bzna_status bzi_device_use_context(bzi_device *device, bzna_error *err)
{
    const bzna_device wanted = device->desc.wanted;
    CUresult result;
    bzna_status status;
    device->cuda = device->desc.cuda_context;
    if ((status = bzi_device_enter(device, err)) != BZNA_OK)
        return status;
    result = device->cu.context_device(&device->handle);
    bzi_device_leave(device);
    if (result != CUDA_SUCCESS)
        return bzi_device_check(device, result, "cuCtxGetDevice", err);
    if (wanted.kind == BZNA_DEVICE_CUDA && device->handle != wanted.ordinal)        /* a CUdevice is its ordinal */
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "the context is of device %d, but device %d was asked for",
                        device->handle, wanted.ordinal);
    device->info.device.ordinal = device->handle;
    return BZNA_OK;
}

/* The device and its CUDA context: the user's, or the device's primary one. */
static bzna_status bzi_device_choose(bzi_device *device, bzna_error *err)
{
    bzi_cuda *cu = &device->cu;
    int count = 0, ordinal = device->desc.wanted.ordinal;
    CUresult result;
    bzna_status status;
    if (!bzi_kernel_ptx[0][0])
        return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "this build has no PTX: run make, or use the pair of make dist");
    if ((status = bzi_cuda_start(cu, &count, err)) != BZNA_OK)
        return status;
    if (device->desc.cuda_context)
        return bzi_device_use_context(device, err);
    if (device->desc.wanted.kind == BZNA_DEVICE_AUTO)
        ordinal = bzi_cuda_current_device(cu);
    device->info.device.ordinal = ordinal;
    if (ordinal >= count)
        return BZI_FAIL(err, BZNA_E_DEVICE, "there is no CUDA device %d; the driver sees %d", ordinal, count);
    if ((result = cu->device_get(&device->handle, ordinal)) != CUDA_SUCCESS)
        return bzi_device_check(device, result, "cuDeviceGet", err);
    bzi_device_use_blocking_sync(device);
    if ((result = cu->primary_retain(&device->cuda, device->handle)) != CUDA_SUCCESS)
        return bzi_device_check(device, result, "cuDevicePrimaryCtxRetain", err);
    device->owns_primary = 1;
    return BZNA_OK;
}

/* Where the driver could not compile the PTX, what to do about it. */
static void bzi_device_explain_load(bzna_error *err)
{
    static const struct { int code; const char *text; } reasons[] = {
        { 221, "libnvidia-ptxjitcompiler.so.1 was not found; it is a part of the driver, of libcuda.so.1's version" },
        { 222, "the driver is too old for this kernel" },
        { 223, "unset CUDA_DISABLE_PTX_JIT: the driver must compile the kernel" },
        { 304, "can ~/.nv/ComputeCache, or CUDA_CACHE_PATH, be written to? CUDA_CACHE_DISABLE=1 does without" },
    };
    const size_t length = strlen(err->message);
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (err->native_code == reasons[i].code)
            snprintf(err->message + length, sizeof err->message - length, ": %s", reasons[i].text);
}

static bzna_status bzi_device_load_kernel(bzi_device *device, bzna_error *err)
{
#define BZI_KERNEL_NAME(name, function) #name,
    static const char *const names[] = { BZI_KERNELS(BZI_KERNEL_NAME) };
    const size_t lines = sizeof bzi_kernel_ptx / sizeof bzi_kernel_ptx[0];
    const bzi_memory *memory = &device->desc.host->memory;
    uint64_t size = 1;
    char *text, *at;
    CUresult result;
    bzna_status status;
    for (size_t i = 0; i < lines; i++)
        size += strlen(bzi_kernel_ptx[i]);
    if (!(text = bzi_alloc(memory, size, 1, 16)))
        return bzi_fail_memory(err, "the kernel");
    at = text;
    for (size_t i = 0; i < lines; i++) {
        size_t length = strlen(bzi_kernel_ptx[i]);
        memcpy(at, bzi_kernel_ptx[i], length);
        at += length;
    }
    *at = 0;
    status = bzi_device_check(device, device->cu.module_load(&device->module, text), "cuModuleLoadData", err);
    if (status != BZNA_OK)
        bzi_device_explain_load(err);
    for (int i = 0; i < BZI_KERNEL_COUNT && status == BZNA_OK; i++) {
        result = device->cu.module_function(&device->warp[i], device->module, names[i]);
        status = bzi_device_check(device, result, "cuModuleGetFunction", err);
    }
    bzi_release(memory, text, size, 1);
    return status;
}

/* Pre: the codec is NVDEC's; formats and depths are those that there are. */
static bzi_caps *bzi_device_kind(bzi_device *device, uint32_t codec, uint32_t chroma, uint32_t depth)
{
    return &device->caps[bzi_codec_find(codec) - bzi_codecs][chroma][(depth - 8) / 2];
}

/* What NVDEC can do with pictures of a kind; zeroes for what it cannot. The driver is asked once for each kind, since
 * it is slow. In the CUDA context. */
static bzna_status bzi_device_caps(bzi_device *device, uint32_t codec, uint32_t chroma, uint32_t depth,
                                   CUVIDDECODECAPS *out, bzna_error *err)
{
    const bzi_codec *row = bzi_codec_find(codec);
    bzi_caps *cached;
    CUVIDDECODECAPS *caps;
    bzna_status status = BZNA_OK;
    memset(out, 0, sizeof *out);
    if (!row || !row->nv_unit || chroma > 3 || depth < 8 || depth > 12 || depth % 2)
        return BZNA_OK;
    bzi_os_lock(&device->mutex);
    cached = bzi_device_kind(device, codec, chroma, depth);
    caps = &cached->caps;
    if (!cached->known) {
        memset(caps, 0, sizeof *caps);
        caps->eCodecType = (cudaVideoCodec)row->nv_id;
        caps->eChromaFormat = (cudaVideoChromaFormat)chroma;
        caps->nBitDepthMinus8 = depth - 8;
        status = bzi_device_check(device, device->cu.decoder_caps(caps), "cuvidGetDecoderCaps", err);
        cached->known = status == BZNA_OK;
    }
    if (cached->known)
        *out = *caps;
    bzi_os_unlock(&device->mutex);
    return status;
}

/* Whether there is NVDEC at all, and how many engines. Not having it is no failure of the device. */
static void bzi_device_open_video(bzi_device *device)
{
    CUVIDDECODECAPS caps;
    bzi_error_init(&device->video);
    memset(&caps, 0, sizeof caps);
    if (device->info.driver / 10 == BZI_CUDA_CORRUPTS / 10)
        BZI_FAIL(&device->video, BZNA_E_DEVICE, "the driver, one of CUDA 11.3, corrupts memory when several video "
                 "decoders work at once: update the driver to 470.21 or later");
    else if (bzi_nvcuvid_load(&device->cu, &device->video) == BZNA_OK &&
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

/* In the reverse order of making; what was not made is skipped. Pre: the pool on it is closed. */
static void bzi_device_close(bzi_device *device)
{
    const bzi_memory memory = device->desc.host->memory;
    bzna_error ignored;
    /* A driver that is stuck may not return from this. */
    if (device->process == bzi_os_process() && !atomic_load(&device->stuck)) {
        int entered = device->module && bzi_device_enter(device, &ignored) == BZNA_OK;
        if (device->module)
            device->cu.module_unload(device->module);       /* of a lost device, without its context */
        if (entered)
            bzi_device_leave(device);
        if (device->owns_primary)
            device->cu.primary_release(device->handle);
    }
    if (device->has_mutex)
        bzi_os_mutex_free(&device->mutex);
    if (device->has_checking)
        bzi_os_mutex_free(&device->checking);
    bzi_release(&memory, device, 1, sizeof *device);
}

static bzna_status bzi_device_open(const bzi_device_desc *desc, bzi_device **out, bzna_error *err)
{
    const char *checks = bzi_os_setting("BENZINA_NVDEC_CHECK");
    bzi_device *device = bzi_alloc_zero(&desc->host->memory, 1, sizeof *device);
    bzna_status status;
    if (!device)
        return bzi_fail_memory(err, "a device");
    device->checks = !checks || (strcmp(checks, "0") && strcmp(checks, "all")) ? BZI_CHECKS_SAFE :
                     checks[0] == '0' ? BZI_CHECKS_NONE : BZI_CHECKS_ALL;
    device->desc = *desc;
    device->process = bzi_os_process();
    device->info.struct_size = sizeof device->info;
    device->info.device.kind = BZNA_DEVICE_CUDA;
    atomic_init(&device->lost, 0);
    atomic_init(&device->decoder_oom_bytes, UINT64_MAX);
    atomic_init(&device->decoder_oom_until_ns, 0);
    atomic_init(&device->decoder_bytes, 0);
    atomic_init(&device->decoder_extra, 0);
    atomic_init(&device->decoders_made, 0);
    atomic_init(&device->decoders_reconfigured, 0);
    atomic_init(&device->sessions_lost, 0);
    atomic_init(&device->stuck, 0);
    device->has_mutex = bzi_os_mutex_init(&device->mutex) == 0;
    device->has_checking = device->has_mutex && bzi_os_mutex_init(&device->checking) == 0;
    status = device->has_checking ? bzi_device_choose(device, err) : BZI_FAIL(err, BZNA_E_THREAD, "cannot make a lock");
    if (status == BZNA_OK && (status = bzi_device_describe(device, err)) == BZNA_OK &&
        (status = bzi_device_enter(device, err)) == BZNA_OK) {
        device->spins = (uint32_t)bzi_device_spins(device);
        if ((status = bzi_device_load_kernel(device, err)) == BZNA_OK)
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


/* ==== 47. CUDA: memory and streams ===================================================================================
 * Calls: rooms 3, 5, 41, 45-46. Functions say whether they run in the CUDA context. */

/* Memory on the device, aligned to 256 bytes. In the CUDA context. */
static bzna_status bzi_device_alloc(bzi_device *device, uint64_t bytes, void *stream, uint64_t *out, bzna_error *err)
{
    const bzna_device_allocator *allocator = &device->desc.allocator;
    CUdeviceptr ptr = 0;
    *out = 0;
    if (!allocator->alloc) {
        bzna_status status = bzi_device_check(device, device->cu.alloc(&ptr, (size_t)bytes), "cuMemAlloc", err);
        *out = ptr;
        return status;
    }
    bzi_os_in_callback++;
    *out = allocator->alloc(allocator->user, (size_t)bytes, stream);
    bzi_os_in_callback--;
    if (!*out)
        return BZI_FAIL(err, BZNA_E_MEMORY, "device_allocator.alloc has no %llu bytes", (unsigned long long)bytes);
    if (*out % 256 == 0)
        return BZNA_OK;
    bzi_os_in_callback++;
    allocator->release(allocator->user, *out, (size_t)bytes, stream);
    bzi_os_in_callback--;
    *out = 0;
    return BZI_FAIL(err, BZNA_E_CALLBACK, "device_allocator.alloc: its memory is not aligned to 256 bytes");
}

static void bzi_device_free(bzi_device *device, uint64_t ptr, uint64_t bytes, void *stream)
{
    const bzna_device_allocator *allocator = &device->desc.allocator;
    if (!ptr)
        return;
    if (!allocator->alloc) {
        device->cu.release(ptr);
        return;
    }
    bzi_os_in_callback++;
    allocator->release(allocator->user, ptr, (size_t)bytes, stream);
    bzi_os_in_callback--;
}

/* Pinned host memory, which copies from and to the device reach directly. In the CUDA context. */
static bzna_status bzi_device_pin(bzi_device *device, uint64_t bytes, void **out, bzna_error *err)
{
    *out = NULL;
    return bzi_device_check(device, device->cu.host_alloc(out, (size_t)bytes, 0), "cuMemHostAlloc", err);
}

static void bzi_device_unpin(bzi_device *device, void *host)
{
    if (host)
        device->cu.host_free(host);
}

/* --- Streams and events: in the CUDA context --- */

/* urgent: its kernels run before others'. Decoded pictures wait for them in few surfaces, and while those are full, the
 * video engines do nothing. */
static bzna_status bzi_device_stream(bzi_device *device, int urgent, void **out, bzna_error *err)
{
    CUstream stream = NULL;
    CUresult result;
    bzna_status status;
    if (urgent && device->cu.stream_priority)
        result = device->cu.stream_priority(&stream, CU_STREAM_NON_BLOCKING, -100);     /* the driver clamps it */
    else
        result = device->cu.stream_create(&stream, CU_STREAM_NON_BLOCKING);
    status = bzi_device_check(device, result, "cuStreamCreate", err);
    *out = stream;
    return status;
}

/* Waits for what was enqueued. */
static void bzi_device_stream_free(bzi_device *device, void *stream)
{
    if (!stream)
        return;
    device->cu.stream_sync(stream);
    device->cu.stream_destroy(stream);
}

/* The host waits for all that was enqueued. */
static bzna_status bzi_device_drain(bzi_device *device, void *stream, bzna_error *err)
{
    return stream ? bzi_device_check(device, device->cu.stream_sync(stream), "cuStreamSynchronize", err) : BZNA_OK;
}

static void bzi_device_stream_wait(bzi_device *device, void *stream)
{
    bzna_error ignored;                                     /* a device that is lost says so at the next call */
    bzi_device_drain(device, stream, &ignored);
}

static bzna_status bzi_device_event(bzi_device *device, void **out, bzna_error *err)
{
    CUevent event = NULL;
    CUresult result = device->cu.event_create(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
    bzna_status status = bzi_device_check(device, result, "cuEventCreate", err);
    *out = event;
    return status;
}

static void bzi_device_event_free(bzi_device *device, void *event)
{
    if (event)
        device->cu.event_destroy(event);
}

static bzna_status bzi_device_record(bzi_device *device, void *event, void *stream, bzna_error *err)
{
    return bzi_device_check(device, device->cu.event_record(event, stream), "cuEventRecord", err);
}

/* The stream waits for what the event recorded last. */
static bzna_status bzi_device_order(bzi_device *device, void *stream, void *event, bzna_error *err)
{
    return bzi_device_check(device, device->cu.stream_wait(stream, event, 0), "cuStreamWaitEvent", err);
}

/* The host waits for what the event recorded last, if that is not done yet. */
static bzna_status bzi_device_await(bzi_device *device, void *event, bzna_error *err)
{
    CUresult result = device->cu.event_query(event);
    if (result != CUDA_ERROR_NOT_READY)
        return bzi_device_check(device, result, "cuEventQuery", err);
    return bzi_device_check(device, device->cu.event_sync(event), "cuEventSynchronize", err);
}

static bzna_status bzi_device_upload(bzi_device *device, uint64_t dst, const void *src, uint64_t bytes, void *stream,
                                     bzna_error *err)
{
    return bzi_device_check(device, device->cu.upload(dst, src, (size_t)bytes, stream), "cuMemcpyHtoDAsync", err);
}

static bzna_status bzi_device_download(bzi_device *device, void *dst, uint64_t src, uint64_t bytes, void *stream,
                                       bzna_error *err)
{
    return bzi_device_check(device, device->cu.download(dst, src, (size_t)bytes, stream), "cuMemcpyDtoHAsync", err);
}

/* Warps slots[0 .. count-1], which are copied at the call, those of each kernel in a launch. Blocks have 32 x 8
 * threads, so that a warp of threads covers consecutive pixels of a row; each thread does four rows, since setting up a
 * slot takes as long as a pixel. */
static bzna_status bzi_device_warp(bzi_device *device, const bzi_kernel_slots *slots, uint32_t count,
                                   bzi_kernel_output *out, void *stream, bzna_error *err)
{
    bzi_kernel_slots some;
    void *parameters[2] = { &some, out };
    unsigned width = ((unsigned)out->width + 31) / 32, height = ((unsigned)out->height + 31) / 32;
    CUresult result = CUDA_SUCCESS;
    for (int kernel = 0; kernel < BZI_KERNEL_COUNT && result == CUDA_SUCCESS; kernel++) {
        unsigned n = 0;
        for (uint32_t i = 0; i < count; i++)
            if (bzi_kernel_of(&slots->slot[i], out) == kernel)
                some.slot[n++] = slots->slot[i];
        if (n)
            result = device->cu.launch(device->warp[kernel], width, height, n, 32, 8, 1, 0, stream, parameters, NULL);
    }
    return bzi_device_check(device, result, "cuLaunchKernel", err);
}

/* CUDA devices of this machine. */
static bzna_status bzi_device_count(uint32_t *count, bzna_error *err)
{
    bzi_cuda cu;
    int n = 0;
    bzna_status status = bzi_cuda_start(&cu, &n, err);
    *count = status == BZNA_OK ? (uint32_t)n : 0;
    return status;
}

/* Whether this process is a fork of the one that opened the device. */
static int bzi_device_is_foreign(const bzi_device *device) { return device->process != bzi_os_process(); }

static bzna_status bzi_device_codec(bzi_device *device, bzna_codec_info *info, bzna_error *err)
{
    CUVIDDECODECAPS caps;
    bzna_status status = bzi_device_caps(device, info->codec, info->chroma_format, info->depth, &caps, err);
    if (status != BZNA_OK || !caps.bIsSupported)
        return status;
    info->supported = 1;
    info->engines = caps.nNumNVDECs;
    info->min_width = caps.nMinWidth;
    info->min_height = caps.nMinHeight;
    info->max_width = caps.nMaxWidth;
    info->max_height = caps.nMaxHeight;
    info->max_macroblocks = caps.nMaxMBCount;
    return BZNA_OK;
}

static void bzi_device_counts(bzi_device *device, bzna_loader_stats *stats)
{
    stats->decoders_made = atomic_load(&device->decoders_made);
    stats->decoders_reconfigured = atomic_load(&device->decoders_reconfigured);
    stats->sessions_lost = atomic_load(&device->sessions_lost);
}

#else

struct bzi_device {
    bzna_device_info info;
    bzna_error       video;
};

/* No device is ever opened, so that no other call of one is reached: two functions stand for all of them. */
static bzna_status bzi_device_none(bzna_error *err, ...)
{
    return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "this build has no GPU path (BENZINA_NO_CUDA)");
}

static int bzi_device_skip(const void *device, ...) { (void)device; return 0; }

#define bzi_cuda_fail_forked(err)                                bzi_device_none(err)
#define bzi_device_open(desc, out, err)                          bzi_device_none(err, desc, out)
#define bzi_device_fail_lost(device, err)                        bzi_device_none(err, device)
#define bzi_device_video(device, err)                            bzi_device_none(err, device)
#define bzi_device_enter(device, err)                            bzi_device_none(err, device)
#define bzi_device_enter_thread(device, err)                     bzi_device_none(err, device)
#define bzi_device_drain(device, stream, err)                    bzi_device_none(err, device, stream)
#define bzi_device_event(device, out, err)                       bzi_device_none(err, device, out)
#define bzi_device_await(device, event, err)                     bzi_device_none(err, device, event)
#define bzi_device_codec(device, info, err)                      bzi_device_none(err, device, info)
#define bzi_device_pin(device, bytes, out, err)                  bzi_device_none(err, device, bytes, out)
#define bzi_device_stream(device, urgent, out, err)              bzi_device_none(err, device, urgent, out)
#define bzi_device_record(device, event, stream, err)            bzi_device_none(err, device, event, stream)
#define bzi_device_order(device, stream, event, err)             bzi_device_none(err, device, stream, event)
#define bzi_device_alloc(device, bytes, stream, out, err)        bzi_device_none(err, device, bytes, stream, out)
#define bzi_device_upload(device, dst, src, bytes, stream, err)  bzi_device_none(err, device, dst, src, bytes, stream)
#define bzi_device_download(device, dst, src, bytes, stream, err) bzi_device_none(err, device, dst, src, bytes, stream)
#define bzi_device_warp(device, slots, count, out, stream, err)  bzi_device_none(err, device, slots, count, out, stream)
#define bzi_device_close                                         bzi_device_skip
#define bzi_device_counts                                        bzi_device_skip
#define bzi_device_event_free                                    bzi_device_skip
#define bzi_device_free                                          bzi_device_skip
#define bzi_device_is_foreign                                    bzi_device_skip
#define bzi_device_is_lost                                       bzi_device_skip
#define bzi_device_leave                                         bzi_device_skip
#define bzi_device_stream_free                                   bzi_device_skip
#define bzi_device_stream_wait                                   bzi_device_skip
#define bzi_device_unpin                                         bzi_device_skip
#define bzi_nvdec_chosen(device)                                 ((uint32_t)bzi_device_skip(device))

static bzna_status bzi_device_count(uint32_t *count, bzna_error *err)
{
    *count = 0;
    return bzi_device_none(err);
}

#endif

/* ==== 48. NVDEC decoders =============================================================================================
 * Calls: rooms 2-3, 5, 15, 46. The decoders of a session: made, given another size, and kept in a cache, which also
 * says what happens when there is no memory for one more. A cache belongs to one thread, which works in the CUDA
 * context.  A surface of a decoder is in use from its submission until it is unmapped. Decoders remember nothing of a
 * picture as long as every picture is intra. */

/* Surfaces that a decoder may have: NVDEC's limit, and bits of bzi_nvdec.busy. */
#define BZI_LIMIT_SURFACES        32u
/* So long a picture may take, and so often its status is asked for where no call of the driver's waits for it. */
#ifndef BZI_NVDEC_DEADLINE_NS
#  define BZI_NVDEC_DEADLINE_NS   5000000000u
#endif
#ifndef BZI_NVDEC_POLL_NS
#  define BZI_NVDEC_POLL_NS       100000u
#endif
/* Making a decoder takes 50 to 100 ms, and giving one another size 5 ms: those of frame sizes that alternate are
 * kept. */
#define BZI_NVDEC_CACHE_SLOTS     8u
/* A session makes two decoders before it gives one of them another size. After so many changes of size, which have
 * then taken as long as making a decoder, it may have one more. */
#define BZI_NVDEC_CACHE_FIRST     2u
#define BZI_NVDEC_CHANGES         12u
/* Memory was out, and a session does with fewer decoders: after so many pictures it tries to have one more. */
#define BZI_NVDEC_GROW_INTERVAL   1024u
/* A decoder could not be made although the session had given up all others: for so long, none of its size or larger
 * replaces another one. */
#define BZI_NVDEC_OOM_COOLDOWN_NS 60000000000u
/* The largest frame that a decoder is made for is rounded up to a multiple of this, in pixels, so that other sizes
 * fit, too. */
#define BZI_NVDEC_SIZE_ALIGNMENT  512u

#ifndef BENZINA_NO_CUDA

/* What the calls of a session come to. */
typedef enum bzi_nvdec_result {
    BZI_NVDEC_OK,                     /* accepted, queued, mapped */
    BZI_NVDEC_BUSY,                   /* nothing was queued: map or unmap a picture first */
    BZI_NVDEC_REFUSED,                /* not by NVDEC; another decoder may have it; the error is E_CODEC */
    BZI_NVDEC_FOREIGN,                /* likewise, of a codec that NVDEC is never asked to decode */
    BZI_NVDEC_NO_MEMORY,              /* there is no memory for its decoder; the error is E_MEMORY */
    BZI_NVDEC_FAILED                  /* the picture cannot be had; the error says why */
} bzi_nvdec_result;

/* What a picture needs of a decoder, as our own reading of its parameter sets has it. Decoders are told apart by
 * this. */
typedef struct bzi_nvdec_format {
    uint32_t codec, chroma, depth, width, height;
} bzi_nvdec_format;

typedef struct bzi_nvdec {
    CUvideodecoder handle;            /* NULL: the slot is free */
    bzi_nvdec_format     format;
    uint32_t       width, height;     /* of its surfaces, as NVIDIA's parser has it */
    uint32_t       max_width, max_height;     /* that it can be given without being made anew */
    uint32_t       quirks;            /* BZI_QUIRK_..., of its kind */
    uint32_t       surfaces;          /* how many it has: those chosen from, or more if the parser asks for more */
    uint32_t       busy;              /* a bit a surface: submitted, and not unmapped */
    uint32_t       lost;              /* a bit a surface that could not be mapped: it never comes free */
    uint32_t       next;              /* the surface after the last one submitted: all take turns */
    uint64_t       frames;            /* a hash of the format */
    uint64_t       used;              /* when, by the cache's clock */
    uint64_t       bytes;             /* of device memory, by estimate */
} bzi_nvdec;

/* The decoders of a session, and what happens when memory for one more is out. */
typedef struct bzi_nvdec_cache {
    bzi_device *device;
    bzi_nvdec   decoders[BZI_NVDEC_CACHE_SLOTS];
    uint32_t    max_live;             /* no more are made: lowered when memory is out, raised again from time to time */
    uint32_t    target;               /* so many are made where one there is could be given another size */
    uint32_t    changes;              /* of size, so far */
    uint64_t    clock;                /* pictures submitted */
} bzi_nvdec_cache;

static bzi_nvdec_format bzi_nvdec_format_of(uint32_t codec, const bzi_format *sps)
{
    bzi_nvdec_format format = { codec, sps->chroma_format, sps->depth_luma, sps->width, sps->height };
    return format;
}

static cudaVideoSurfaceFormat bzi_nvdec_format_surface(const bzi_nvdec_format *format)
{
    if (format->chroma == 3)
        return format->depth > 8 ? cudaVideoSurfaceFormat_YUV444_16Bit : cudaVideoSurfaceFormat_YUV444;
    return format->depth > 8 ? cudaVideoSurfaceFormat_P016 : cudaVideoSurfaceFormat_NV12;
}

static cudaVideoCodec bzi_nvdec_codec(uint32_t codec) { return (cudaVideoCodec)bzi_codec_find(codec)->nv_id; }

/* What NVIDIA's parser would say of such frames, for decoders that are made before it has seen any. */
static CUVIDEOFORMAT bzi_nvdec_expect(const bzi_nvdec_format *format, uint32_t width, uint32_t height,
                                      uint32_t surfaces)
{
    CUVIDEOFORMAT parsed;
    memset(&parsed, 0, sizeof parsed);
    parsed.codec = bzi_nvdec_codec(format->codec);
    parsed.chroma_format = (cudaVideoChromaFormat)format->chroma;
    parsed.bit_depth_luma_minus8 = (unsigned char)(format->depth - 8);
    parsed.coded_width = width;
    parsed.coded_height = height;
    parsed.min_num_decode_surfaces = (unsigned char)surfaces;
    return parsed;
}

/* --- A decoder --- */

static void bzi_nvdec_destroy(bzi_device *device, bzi_nvdec *decoder)
{
    if (!decoder->handle)
        return;
    if (!atomic_load(&device->stuck))                       /* else this might not return */
        device->cu.decoder_destroy(decoder->handle);
    atomic_fetch_sub(&device->decoder_bytes, decoder->bytes);
    memset(decoder, 0, sizeof *decoder);
}

/* How many surfaces a session chooses from: those of pictures submitted and those of pictures mapped. */
static uint32_t bzi_nvdec_chosen(const bzi_device *device)
{
    return device->desc.session_depth + device->desc.session_mapped;
}

/* How many surfaces a decoder needs: those that the parser's pictures may refer to by index, and those that we
 * choose from. */
static uint32_t bzi_nvdec_surfaces(const bzi_device *device, const CUVIDEOFORMAT *parsed)
{
    uint32_t asked = parsed->min_num_decode_surfaces, chosen = bzi_nvdec_chosen(device);
    return asked > chosen ? asked : chosen;
}

/* Whether it is one for such frames, as NVIDIA's parser sees them. */
static int bzi_nvdec_serves(const bzi_nvdec *decoder, const bzi_nvdec_format *want, const CUVIDEOFORMAT *parsed)
{
    return decoder->handle && !memcmp(&decoder->format, want, sizeof *want) && decoder->width == parsed->coded_width &&
           decoder->height == parsed->coded_height && decoder->surfaces >= parsed->min_num_decode_surfaces;
}

/* Whether it can become one for such frames by being given another size. */
static int bzi_nvdec_fits(const bzi_nvdec *decoder, const bzi_nvdec_format *want)
{
    const bzi_nvdec_format *has = &decoder->format;
    return has->codec == want->codec && has->chroma == want->chroma && has->depth == want->depth &&
           decoder->max_width >= want->width && decoder->max_height >= want->height &&
           !(decoder->quirks & BZI_QUIRK_SIZE);
}

/* The one that has been free for longest, whose picture was copied long ago; BZI_LIMIT_SURFACES when all that we choose
 * from are in use. */
static uint32_t bzi_nvdec_free_surface(const bzi_device *device, const bzi_nvdec *decoder)
{
    const uint32_t chosen = bzi_nvdec_chosen(device);
    for (uint32_t i = 0; i < chosen; i++)
        if (!(decoder->busy >> (decoder->next + i) % chosen & 1))
            return (decoder->next + i) % chosen;
    return BZI_LIMIT_SURFACES;
}

/* What a decoder's surfaces, decoded and mapped ones, take of the device's memory. */
static uint64_t bzi_nvdec_bytes(const bzi_nvdec_format *want, uint64_t surfaces, uint64_t width, uint64_t height)
{
    const uint32_t bytes = want->depth > 8 ? 2 : 1;
    return surfaces * width * height * (want->chroma == 3 ? 6 : 3) / 2 * bytes;
}

/* The largest width or height that a decoder is made for: at least the edge of its frames, and what the decoder
 * before it had. */
static uint32_t bzi_nvdec_max_edge(uint32_t edge, uint32_t had, uint32_t limit)
{
    uint32_t aligned = (edge + BZI_NVDEC_SIZE_ALIGNMENT - 1) / BZI_NVDEC_SIZE_ALIGNMENT * BZI_NVDEC_SIZE_ALIGNMENT;
    uint32_t max = aligned > had ? aligned : had;
    return max < limit ? max : limit > edge ? limit : edge;
}

/* All of the frame, nothing scaled. Edges are at most 16384: E_LIMIT and the device's maximum came before. */
static void bzi_nvdec_describe(const bzi_device *device, const bzi_nvdec_format *want, const CUVIDEOFORMAT *parsed,
                               CUVIDDECODECREATEINFO *info)
{
    memset(info, 0, sizeof *info);
    info->CodecType = bzi_nvdec_codec(want->codec);
    info->ChromaFormat = (cudaVideoChromaFormat)want->chroma;
    info->bitDepthMinus8 = want->depth - 8;
    info->ulWidth = info->ulTargetWidth = parsed->coded_width;
    info->ulHeight = info->ulTargetHeight = parsed->coded_height;
    info->display_area.right = (short)parsed->coded_width;
    info->display_area.bottom = (short)parsed->coded_height;
    info->ulNumDecodeSurfaces = bzi_nvdec_surfaces(device, parsed);
    info->ulNumOutputSurfaces = device->desc.session_mapped;
    info->ulIntraDecodeOnly = bzi_codec_find(want->codec)->nv_unit > 1;
    info->ulCreationFlags = cudaVideoCreate_PreferCUVID;
    info->DeinterlaceMode = cudaVideoDeinterlaceMode_Weave;
    info->OutputFormat = bzi_nvdec_format_surface(want);
}

/* Makes a decoder in the place of what there is; NO_MEMORY, with the bytes that it would take, or FAILED: then the
 * slot is free. The new one can be given every size that the old one could, so that the slots of a cache come to
 * serve all sizes. */
static bzi_nvdec_result bzi_nvdec_remake(bzi_device *device, bzi_nvdec *decoder, const bzi_nvdec_format *want,
                                         const CUVIDEOFORMAT *parsed, uint64_t *bytes, bzna_error *err)
{
    const uint32_t had_width = decoder->max_width, had_height = decoder->max_height;
    CUVIDDECODECREATEINFO info;
    CUVIDDECODECAPS caps;
    CUresult result;
    bzna_status status;
    bzi_nvdec_destroy(device, decoder);
    if (bzi_device_caps(device, want->codec, want->chroma, want->depth, &caps, err) != BZNA_OK)
        return BZI_NVDEC_FAILED;
    bzi_nvdec_describe(device, want, parsed, &info);
    decoder->quirks = bzi_device_kind(device, want->codec, want->chroma, want->depth)->quirks;
    if (decoder->quirks & BZI_QUIRK_INTRA)
        info.ulIntraDecodeOnly = 0;
    info.ulMaxWidth = bzi_nvdec_max_edge(parsed->coded_width, had_width, caps.nMaxWidth);
    info.ulMaxHeight = bzi_nvdec_max_edge(parsed->coded_height, had_height, caps.nMaxHeight);
    *bytes = bzi_nvdec_bytes(want, info.ulNumDecodeSurfaces + info.ulNumOutputSurfaces, info.ulMaxWidth,
                             info.ulMaxHeight) +
             atomic_load(&device->decoder_extra);
    if (atomic_fetch_add(&device->decoder_bytes, *bytes) + *bytes > device->decoder_budget) {
        status = bzi_fail(err, BZNA_E_MEMORY, BZNA_NO_OFFSET, 0, BZI_CUDA_NO_MEMORY,
                          "context_config.decode_memory_bytes: %llu bytes leave no room for another decoder",
                          (unsigned long long)device->decoder_budget);
    } else {
        result = device->cu.decoder_create(&decoder->handle, &info);
        status = bzi_device_check(device, result, "cuvidCreateDecoder", err);
    }
    if (status != BZNA_OK) {
        atomic_fetch_sub(&device->decoder_bytes, *bytes);
        memset(decoder, 0, sizeof *decoder);
        return status == BZNA_E_MEMORY ? BZI_NVDEC_NO_MEMORY : BZI_NVDEC_FAILED;
    }
    atomic_fetch_add(&device->decoders_made, 1);
    decoder->surfaces = (uint32_t)info.ulNumDecodeSurfaces;
    decoder->max_width = (uint32_t)info.ulMaxWidth;
    decoder->max_height = (uint32_t)info.ulMaxHeight;
    decoder->bytes = *bytes;
    return BZI_NVDEC_OK;
}

/* Gives a decoder another size. Returns 0 when it has to be made anew. */
static int bzi_nvdec_reconfigure(bzi_device *device, bzi_nvdec *decoder, const bzi_nvdec_format *want,
                                 const CUVIDEOFORMAT *parsed)
{
    CUVIDRECONFIGUREDECODERINFO info;
    CUresult result;
    bzna_error ignored;
    if (!decoder->handle || !bzi_nvdec_fits(decoder, want) || parsed->coded_width > decoder->max_width ||
        parsed->coded_height > decoder->max_height || parsed->min_num_decode_surfaces > decoder->surfaces)
        return 0;
    memset(&info, 0, sizeof info);
    info.ulWidth = info.ulTargetWidth = parsed->coded_width;
    info.ulHeight = info.ulTargetHeight = parsed->coded_height;
    info.display_area.right = (short)parsed->coded_width;
    info.display_area.bottom = (short)parsed->coded_height;
    info.ulNumDecodeSurfaces = decoder->surfaces;
    result = device->cu.decoder_reconfigure(decoder->handle, &info);
    if (bzi_device_check(device, result, "cuvidReconfigureDecoder", &ignored) != BZNA_OK)
        return 0;
    atomic_fetch_add(&device->decoders_reconfigured, 1);
    return 1;
}

/* Whether NVIDIA's parser sees the frames that we see; it may round sizes up. */
static bzna_status bzi_nvdec_agree(const bzi_nvdec_format *want, const CUVIDEOFORMAT *parsed, bzna_error *err)
{
    const uint32_t width = parsed->coded_width, height = parsed->coded_height;
    const uint32_t chroma = (uint32_t)parsed->chroma_format, depth = parsed->bit_depth_luma_minus8 + 8u;
    if (parsed->codec == bzi_nvdec_codec(want->codec) && chroma == want->chroma && depth == want->depth &&
        width >= want->width && width <= want->width + 63 && height >= want->height && height <= want->height + 63)
        return BZNA_OK;
    return BZI_FAIL(err, BZNA_E_CODEC,
                    "NVIDIA's parser sees a frame of %ux%u, %u bits, chroma format %u; we see %ux%u, %u, %u",
                    width, height, depth, chroma, want->width, want->height, want->depth, want->chroma);
}

/* --- The cache of decoders --- */

static void bzi_nvdec_cache_open(bzi_nvdec_cache *cache, bzi_device *device)
{
    memset(cache, 0, sizeof *cache);
    cache->device = device;
    cache->max_live = BZI_NVDEC_CACHE_SLOTS;
    cache->target = BZI_NVDEC_CACHE_FIRST;
}

static void bzi_nvdec_cache_close(bzi_nvdec_cache *cache)
{
    for (uint32_t i = 0; i < BZI_NVDEC_CACHE_SLOTS; i++)
        bzi_nvdec_destroy(cache->device, &cache->decoders[i]);
}

static uint32_t bzi_nvdec_cache_live(const bzi_nvdec_cache *cache)
{
    uint32_t live = 0;
    for (uint32_t i = 0; i < BZI_NVDEC_CACHE_SLOTS; i++)
        live += cache->decoders[i].handle != NULL;
    return live;
}

/* Memory for one more decoder is out: makes do with those there are, so that an idle one is replaced. Returns 0 when
 * there is none. */
static int bzi_nvdec_cache_cap_to_live(bzi_nvdec_cache *cache)
{
    uint32_t live = bzi_nvdec_cache_live(cache);
    if (live)
        cache->max_live = live;
    return live > 0;
}

/* Whether a decoder of so many bytes, or a smaller one, could not be made lately, on this device. */
static int bzi_nvdec_cache_recently_oom(const bzi_nvdec_cache *cache, uint64_t bytes)
{
    bzi_device *device = cache->device;
    return bytes >= atomic_load(&device->decoder_oom_bytes) &&
           bzi_os_now_ns() < atomic_load(&device->decoder_oom_until_ns);
}

static void bzi_nvdec_cache_start_cooldown(bzi_nvdec_cache *cache, uint64_t bytes)
{
    atomic_store(&cache->device->decoder_oom_until_ns, bzi_os_now_ns() + BZI_NVDEC_OOM_COOLDOWN_NS);
    atomic_store(&cache->device->decoder_oom_bytes, bytes);
}

/* The decoder for such pictures, or the one to turn into it: one that the self-check has left; a free slot, up to the
 * target; else the least recently used idle one that only needs another size; else, unless a busy one would only need
 * that, a free slot, if one more may live, or the least recently used idle one. NULL: none until a picture is
 * unmapped. */
static bzi_nvdec *bzi_nvdec_cache_find(bzi_nvdec_cache *cache, const bzi_nvdec_format *want)
{
    bzi_nvdec *found = NULL;
    const uint32_t live = bzi_nvdec_cache_live(cache);
    const int free_worth = live >= cache->max_live ? 0 : live < cache->target ? 4 : 2;
    int best = 0, busy_fits = 0;
    for (uint32_t i = 0; i < BZI_NVDEC_CACHE_SLOTS; i++) {
        bzi_nvdec *d = &cache->decoders[i];
        int worth;
        if (d->lost && d->busy == d->lost)
            bzi_nvdec_destroy(cache->device, d);
        if (d->handle && !d->lost && !memcmp(&d->format, want, sizeof *want))
            return bzi_nvdec_free_surface(cache->device, d) < BZI_LIMIT_SURFACES ? d : NULL;
        if (d->busy) {
            busy_fits |= bzi_nvdec_fits(d, want);
            continue;
        }
        worth = !d->handle ? free_worth : !bzi_nvdec_fits(d, want) ? 1 : d->used ? 3 : 5;
        if (worth > best || (found && worth == best && d->used < found->used)) {
            best = worth;
            found = d;
        }
    }
    return best < 3 && busy_fits ? NULL : found;
}

/* Turns a decoder into one for such pictures: it may be one already, or is given another size, or is made anew.
 * *bytes: what a new one takes. */
static bzi_nvdec_result bzi_nvdec_cache_fit(bzi_nvdec_cache *cache, bzi_nvdec *decoder, const bzi_nvdec_format *want,
                                            const CUVIDEOFORMAT *parsed, uint64_t *bytes, bzna_error *err)
{
    if (bzi_nvdec_serves(decoder, want, parsed))
        return BZI_NVDEC_OK;
    if (decoder->busy) {
        BZI_FAIL(err, BZNA_E_CODEC, "NVIDIA's parser sees different frames in streams of one frame size");
        return BZI_NVDEC_REFUSED;
    }
    if (bzi_nvdec_agree(want, parsed, err) != BZNA_OK)
        return BZI_NVDEC_REFUSED;
    if (bzi_nvdec_reconfigure(cache->device, decoder, want, parsed)) {
        if (++cache->changes % BZI_NVDEC_CHANGES == 0 && cache->target < BZI_NVDEC_CACHE_SLOTS)
            cache->target++;
    } else {
        bzi_nvdec_result result;
        *bytes = bzi_nvdec_bytes(want, bzi_nvdec_surfaces(cache->device, parsed) + cache->device->desc.session_mapped,
                                 bzi_nvdec_max_edge(parsed->coded_width, 0, UINT32_MAX),
                                 bzi_nvdec_max_edge(parsed->coded_height, 0, UINT32_MAX)) +
                 atomic_load(&cache->device->decoder_extra);
        if (decoder->handle && bzi_nvdec_cache_recently_oom(cache, *bytes)) {
            bzi_fail_memory(err, "a decoder for frames so large");
            return BZI_NVDEC_NO_MEMORY;
        }
        if ((result = bzi_nvdec_remake(cache->device, decoder, want, parsed, bytes, err)) != BZI_NVDEC_OK)
            return result;
    }
    decoder->format = *want;
    decoder->frames = bzi_hash(BZI_HASH_START, want, sizeof *want);
    decoder->width = parsed->coded_width;
    decoder->height = parsed->coded_height;
    return BZI_NVDEC_OK;
}

/* A decoder for such pictures, with a free surface. When there is no memory for one, idle ones are given up for it,
 * one after the other. With none left it is tried once more; if that fails, too, such decoders replace no other for
 * BZI_NVDEC_OOM_COOLDOWN_NS. */
static bzi_nvdec_result bzi_nvdec_cache_acquire(bzi_nvdec_cache *cache, const bzi_nvdec_format *want,
                                                const CUVIDEOFORMAT *parsed, bzi_nvdec **out, bzna_error *err)
{
    uint64_t bytes = 0;
    for (int tried_alone = 0; ; ) {
        bzi_nvdec_result result;
        if ((*out = bzi_nvdec_cache_find(cache, want)) == NULL)
            return BZI_NVDEC_BUSY;
        result = bzi_nvdec_cache_fit(cache, *out, want, parsed, &bytes, err);
        if (result == BZI_NVDEC_NO_MEMORY && bzi_nvdec_cache_live(cache) < cache->max_live &&
            bzi_nvdec_cache_cap_to_live(cache))
            continue;
        if (result != BZI_NVDEC_NO_MEMORY || bzi_nvdec_cache_recently_oom(cache, bytes))
            return result;
        if (bzi_nvdec_cache_cap_to_live(cache))
            continue;
        if (tried_alone++) {
            bzi_nvdec_cache_start_cooldown(cache, bytes);
            return result;
        }
    }
}

/* Makes a decoder like another session's, as if a sample had asked for it. Where that fails, the first sample tries
 * again. */
static void bzi_nvdec_cache_copy(bzi_nvdec_cache *cache, const bzi_nvdec *from)
{
    const CUVIDEOFORMAT parsed = bzi_nvdec_expect(&from->format, from->width, from->height, from->surfaces);
    bzi_nvdec *made;
    bzna_error ignored;
    if (bzi_nvdec_cache_acquire(cache, &from->format, &parsed, &made, &ignored) == BZI_NVDEC_OK)
        made->used = ++cache->clock;                        /* frames of another size get one of their own */
}

/* A picture was submitted to this surface. */
static void bzi_nvdec_cache_use(bzi_nvdec_cache *cache, bzi_nvdec *decoder, uint32_t surface)
{
    decoder->busy |= 1u << surface;
    decoder->next = surface + 1;
    decoder->used = ++cache->clock;
    if (cache->clock % BZI_NVDEC_GROW_INTERVAL == 0 && cache->max_live < BZI_NVDEC_CACHE_SLOTS)
        cache->max_live++;
}

#endif

/* ==== 49. NVDEC sessions =============================================================================================
 * Calls: rooms 3-5, 15, 41, 43, 45-48. A session decodes pictures in the order in which they are submitted and keeps
 * several in flight. It has parsers of NVIDIA's, a cache of decoders, and a stream on which decoded surfaces are
 * mapped. One thread opens, uses and closes it, in the CUDA context.  accepts -> submit -> map (waits for the oldest)
 * -> the kernel is enqueued on session->stream -> unmap  The session chooses the surface of a picture, not the parser:
 * every picture stands alone, so that the index which the parser proposes means nothing. Where the self-check has found
 * that this fails, the parser does.  A picture must not depend on those decoded before it. So a parser only ever sees
 * one content of parameter sets, and is made anew after a failure. A session keeps several, as it keeps decoders, since
 * a batch may mix frame sizes.  A decoder may be given another size only in the sequence callback, which a parser makes
 * for parameter sets that are new to it: where the decoder has another size by now, the parser is made anew, too.  The
 * parser calls back inside submit, and does not tell its caller what a callback returned: that stands in
 * bzi_submission. */

#ifndef BENZINA_NO_CUDA

#define BZI_SESSION_PARSERS BZI_LRU_SLOTS

/* A picture in flight. */
typedef struct bzi_flight {
    void        *tag;                 /* the caller's */
    bzna_picture picture;             /* planes are device addresses, once it is mapped */
    uint32_t     window_x, window_y;  /* where the stream's picture begins in the surface */
    uint32_t     semi_planar;         /* Cb and Cr alternate in one plane */
    bzi_nvdec   *decoder;
    uint32_t     surface;
    CUdeviceptr  address;             /* of the mapped surface */
} bzi_flight;

typedef struct bzi_session bzi_session;

/* One call of bzi_session_submit, as the parser's callbacks need it. */
typedef struct bzi_submission {
    bzi_session     *session;
    bzi_nvdec_format       want;
    bzi_flight       flight;
    uint32_t         queued;          /* the decoder has the picture */
    bzi_nvdec_result result;          /* of the callbacks */
    bzna_error      *err;
} bzi_submission;

/* NVIDIA's parser has one user pointer for its whole life, which is to this. */
typedef struct bzi_parser {
    CUvideoparser   handle;           /* NULL: the slot is free */
    CUVIDEOFORMAT   parsed;           /* what it made of its parameter sets */
    bzi_submission *submission;       /* while it parses */
} bzi_parser;

struct bzi_session {
    bzi_device      *device;
    const bzi_memory *memory;
    void            *stream;
    bzi_buffer       bytes;           /* Annex B of the picture being submitted */
    bzi_buffer       key;             /* its parameter sets */
    bzi_lru          parser_keys;     /* the parameter sets of each parser */
    bzi_parser       parsers[BZI_SESSION_PARSERS];
    bzi_nvdec_cache  decoders;
    uint32_t         failures;        /* calls of the driver in a row that failed, and did not lose the device */
    uint32_t         silent;          /* the driver does not say when a picture is done */
    bzi_flight       pending[BZI_LIMIT_SESSION_DEPTH];        /* submitted: a ring */
    uint32_t         pending_first, pending_count;
    bzi_flight       mapped[BZI_KERNEL_SLOTS];
    uint32_t         mapped_count;
    bzi_software     software;        /* what pictures are compared with; memory NULL: it is not open */
};

static const char *bzi_chroma_name(uint32_t chroma)
{
    return chroma == 0 ? "gray" : chroma == 1 ? "4:2:0" : chroma == 2 ? "4:2:2" : "4:4:4";
}

/* FOREIGN or REFUSED when NVDEC cannot decode such pictures at all, or here, with the limits of the device. */
static bzi_nvdec_result bzi_session_accepts(bzi_session *session, uint32_t codec, const bzi_format *sps,
                                            bzna_error *err)
{
    const bzi_nvdec_format format = bzi_nvdec_format_of(codec, sps);
    const char *name = bzi_codec_name(codec), *device = session->device->info.name;
    const uint32_t unit = bzi_codec_find(codec)->nv_unit;
    uint32_t width, height;
    CUVIDDECODECAPS caps;
    bzna_status status;
    if (atomic_load(&session->device->stuck)) {
        bzi_device_video(session->device, err);
        err->status = BZNA_E_CODEC;
        return BZI_NVDEC_REFUSED;
    }
    if (!unit) {
        BZI_FAIL(err, BZNA_E_CODEC, "%s is decoded in software, not by NVDEC", name);
        return BZI_NVDEC_FOREIGN;
    }
    status = bzi_device_caps(session->device, codec, format.chroma, format.depth, &caps, err);
    if (status == BZNA_E_DEVICE_LOST)
        return BZI_NVDEC_FAILED;
    if (status != BZNA_OK) {
        err->status = BZNA_E_CODEC;                         /* an old driver may not know the codec */
        return BZI_NVDEC_REFUSED;
    }
    if (!caps.bIsSupported || format.chroma == 2 || (sps->depth_chroma != sps->depth_luma && format.chroma) ||
        !(caps.nOutputFormatMask >> bzi_nvdec_format_surface(&format) & 1)) {
        BZI_FAIL(err, BZNA_E_CODEC, "NVDEC of %s does not decode %s of %u bits, %s", device, name, format.depth,
                 bzi_chroma_name(format.chroma));
        return BZI_NVDEC_REFUSED;
    }
    /* The driver counts frames as coded, in whole macroblocks; of H.265, too. */
    width = (sps->width + unit - 1) / unit * unit;
    height = (sps->height + unit - 1) / unit * unit;
    if (width < caps.nMinWidth || height < caps.nMinHeight || width > caps.nMaxWidth || height > caps.nMaxHeight ||
        (uint64_t)width * height / 256 > caps.nMaxMBCount) {
        BZI_FAIL(err, BZNA_E_CODEC, "NVDEC of %s decodes %s frames of %ux%u to %ux%u and %u macroblocks, not %ux%u",
                 device, name, caps.nMinWidth, caps.nMinHeight, caps.nMaxWidth, caps.nMaxHeight, caps.nMaxMBCount,
                 format.width, format.height);
        return BZI_NVDEC_REFUSED;
    }
    return BZI_NVDEC_OK;
}

/* --- Parsers --- */

static int CUDAAPI bzi_parser_on_sequence(void *user, CUVIDEOFORMAT *format)
{
    bzi_parser *parser = user;
    bzi_submission *s = parser->submission;
    parser->parsed = *format;
    if (!s || s->result != BZI_NVDEC_OK)
        return 0;
    if (s->queued)                                          /* the picture's decoder stays as it is */
        return (int)bzi_nvdec_surfaces(s->session->device, format);
    s->result = bzi_nvdec_cache_acquire(&s->session->decoders, &s->want, format, &s->flight.decoder, s->err);
    return s->result == BZI_NVDEC_OK ? (int)bzi_nvdec_surfaces(s->session->device, format) : 0;
}

/* Gives the picture to a decoder. */
static bzi_nvdec_result bzi_submission_decode(bzi_submission *s, const CUVIDEOFORMAT *parsed,
                                              CUVIDPICPARAMS *parameters)
{
    bzi_device *device = s->session->device;
    bzi_flight *flight = &s->flight;
    CUresult decoded;
    if (!bzi_nvdec_serves(flight->decoder, &s->want, parsed)) {
        BZI_FAIL(s->err, BZNA_E_CODEC, "NVIDIA's parser finds a picture and no parameter sets");
        return BZI_NVDEC_REFUSED;
    }
    if (parameters->field_pic_flag) {
        BZI_FAIL(s->err, BZNA_E_CODEC, "the picture is interlaced");
        return BZI_NVDEC_REFUSED;
    }
    if (s->want.codec == BZNA_CODEC_AV1 && parameters->CodecSpecific.av1.apply_grain) {
        BZI_FAIL(s->err, BZNA_E_CODEC, "the picture has film grain, which takes two surfaces");
        return BZI_NVDEC_REFUSED;
    }
    flight->surface = bzi_nvdec_free_surface(device, flight->decoder);
    if (flight->decoder->quirks & BZI_QUIRK_INDEX)
        flight->surface = (uint32_t)parameters->CurrPicIdx % BZI_LIMIT_SURFACES;
    if (flight->surface == BZI_LIMIT_SURFACES || flight->decoder->busy >> flight->surface & 1)
        return BZI_NVDEC_BUSY;
    parameters->CurrPicIdx = (int)flight->surface;
    if (s->want.codec == BZNA_CODEC_AV1) {
        CUVIDAV1PICPARAMS *av1 = &parameters->CodecSpecific.av1;
        av1->decodePicIdx = (int)flight->surface;
        if (av1->frame_type == 0)       /* a key frame: the frames that the parser remembers are long overwritten */
            memset(av1->ref_frame_map, 0xff, sizeof av1->ref_frame_map);
    }
    decoded = device->cu.decode(flight->decoder->handle, parameters);
    return bzi_device_check(device, decoded, "cuvidDecodePicture", s->err) == BZNA_OK ? BZI_NVDEC_OK : BZI_NVDEC_FAILED;
}

/* The first picture of the access unit is the sample. Those after it are ignored, as the software decoder does. */
static int CUDAAPI bzi_parser_on_picture(void *user, CUVIDPICPARAMS *parameters)
{
    bzi_parser *parser = user;
    bzi_submission *s = parser->submission;
    if (s && s->result == BZI_NVDEC_OK && !s->queued) {
        s->result = bzi_submission_decode(s, &parser->parsed, parameters);
        s->queued = s->result == BZI_NVDEC_OK;
    }
    return s && s->queued;
}

static void bzi_session_drop_parser(bzi_session *session, bzi_parser *parser)
{
    if (parser->handle)
        session->device->cu.parser_destroy(parser->handle);
    memset(parser, 0, sizeof *parser);
    bzi_lru_forget(&session->parser_keys, (uint32_t)(parser - session->parsers));
}

/* A parser that has seen the image's parameter sets and no others, for frames that this decoder serves; else one that
 * has seen nothing. */
static bzna_status bzi_session_find_parser(bzi_session *session, const bzna_image *image,
                                           const bzi_submission *submission, bzi_parser **out, bzna_error *err)
{
    bzi_device *device = session->device;
    uint64_t size = bzi_image_key(image, NULL, 0);
    uint32_t index;
    int found;
    bzi_parser *parser;
    CUVIDPARSERPARAMS parameters;
    CUresult result;
    bzna_status status;
    if (!bzi_buffer_reserve(session->memory, &session->key, size, 0))
        return bzi_fail_memory(err, "parameter sets");
    bzi_image_key(image, session->key.data, size);
    found = bzi_lru_find(&session->parser_keys, session->key.data, size, &index);
    *out = parser = &session->parsers[index];
    if (found && bzi_nvdec_serves(submission->flight.decoder, &submission->want, &parser->parsed))
        return BZNA_OK;
    bzi_session_drop_parser(session, parser);
    if (!bzi_lru_set(&session->parser_keys, session->memory, index, session->key.data, size))
        return bzi_fail_memory(err, "parameter sets");
    memset(&parameters, 0, sizeof parameters);
    parameters.CodecType = bzi_nvdec_codec(image->codec);
    parameters.ulMaxNumDecodeSurfaces = 1;                  /* the sequence callback returns the real number */
    parameters.pUserData = parser;
    parameters.pfnSequenceCallback = bzi_parser_on_sequence;
    parameters.pfnDecodePicture = bzi_parser_on_picture;
    result = device->cu.parser_create(&parser->handle, &parameters);
    status = bzi_device_check(device, result, "cuvidCreateVideoParser", err);
    if (status != BZNA_OK) {
        parser->handle = NULL;
        bzi_lru_forget(&session->parser_keys, index);
    }
    return status;
}

/* Gives the parser the bytes of one access unit, which it hands to the callbacks above. */
static bzi_nvdec_result bzi_session_parse(bzi_session *session, bzi_parser *parser, uint64_t size,
                                          bzi_submission *submission)
{
    bzi_device *device = session->device;
    CUVIDSOURCEDATAPACKET packet;
    bzna_error err;
    bzna_status status;
    memset(&packet, 0, sizeof packet);
    packet.flags = CUVID_PKT_ENDOFPICTURE;                  /* without it, the parser waits for the next packet */
    packet.payload = session->bytes.data;
    packet.payload_size = (tcu_ulong)size;
    parser->submission = submission;
    status = bzi_device_check(device, device->cu.parse(parser->handle, &packet), "cuvidParseVideoData", &err);
    parser->submission = NULL;
    if (submission->queued)                                 /* whatever the parser makes of the rest */
        return BZI_NVDEC_OK;
    if (submission->result != BZI_NVDEC_OK)
        return submission->result;
    if (status != BZNA_OK) {
        *submission->err = err;
        return BZI_NVDEC_FAILED;
    }
    BZI_FAIL(submission->err, BZNA_E_CODEC, "NVIDIA's parser finds no picture");
    return BZI_NVDEC_REFUSED;
}

/* --- Submitting and mapping --- */

/* What a picture comes to whose error is this. A driver error that does not lose the device is not fatal, it may be
 * the picture's fault or pass: this picture is decoded in software. */
static bzi_nvdec_result bzi_session_fall_back(bzi_session *session, bzna_error *err)
{
    if (err->status == BZNA_E_DEVICE || (err->status == BZNA_E_MEMORY && err->native_code == BZI_CUDA_NO_MEMORY)) {
        session->failures++;
        err->status = BZNA_E_CODEC;
    }
    return err->status == BZNA_E_CODEC ? BZI_NVDEC_REFUSED : BZI_NVDEC_FAILED;
}

/* Annex B of the picture, in session->bytes. */
static bzna_status bzi_session_stream(bzi_session *session, const bzna_image *image, uint64_t *size, bzna_error *err)
{
    bzna_status status = bzi_image_stream(image, NULL, 0, size, err);
    if (status != BZNA_OK)
        return status;
    if (!bzi_buffer_reserve(session->memory, &session->bytes, *size, 0))
        return bzi_fail_memory(err, "an access unit");
    return bzi_image_stream(image, session->bytes.data, *size, size, err);
}

/* Queues a picture that bzi_session_accepts. picture, sps: what the image says of itself. */
static bzi_nvdec_result bzi_session_submit(bzi_session *session, const bzna_image *image, const bzna_picture *picture,
                                           const bzi_format *sps, void *tag, bzna_error *err)
{
    bzi_submission submission;
    bzi_flight *flight = &submission.flight;
    bzi_parser *parser = NULL;
    uint64_t size;
    bzi_nvdec_result result;
    memset(&submission, 0, sizeof submission);
    submission.session = session;
    submission.want = bzi_nvdec_format_of(image->codec, sps);
    submission.err = err;
    /* Looked for again in the sequence callback: to be busy there would cost the parser, which has then seen the
     * picture. */
    flight->decoder = bzi_nvdec_cache_find(&session->decoders, &submission.want);
    if (session->pending_count == session->device->desc.session_depth || !flight->decoder)
        return BZI_NVDEC_BUSY;
    flight->tag = tag;
    flight->picture = *picture;
    flight->window_x = sps->window[0];
    flight->window_y = sps->window[2];
    flight->semi_planar = sps->chroma_format != 3;
    if (bzi_session_stream(session, image, &size, err) != BZNA_OK ||
        bzi_session_find_parser(session, image, &submission, &parser, err) != BZNA_OK)
        return bzi_session_fall_back(session, err);
    if ((result = bzi_session_parse(session, parser, size, &submission)) != BZI_NVDEC_OK) {
        bzi_session_drop_parser(session, parser);
        return result == BZI_NVDEC_FAILED ? bzi_session_fall_back(session, err) : result;
    }
    bzi_nvdec_cache_use(&session->decoders, flight->decoder, flight->surface);
    session->pending[(session->pending_first + session->pending_count++) % BZI_LIMIT_SESSION_DEPTH] = *flight;
    return BZI_NVDEC_OK;
}

/* Where the planes lie in a mapped surface, which has an even number of rows whatever the frame has. */
static void bzi_session_planes(bzi_flight *flight, unsigned pitch)
{
    uint64_t rows = (flight->decoder->height + 1) & ~1u, bytes = flight->picture.depth > 8 ? 2 : 1;
    uint64_t x = flight->window_x, y = flight->window_y, base = flight->address;
    uint64_t plane[3];
    plane[0] = base + y * pitch + x * bytes;
    if (flight->semi_planar) {
        plane[1] = base + rows * pitch + y / 2 * pitch + x / 2 * 2 * bytes;
        plane[2] = plane[1] + bytes;
    } else {
        plane[1] = plane[0] + rows * pitch;
        plane[2] = plane[1] + rows * pitch;
    }
    for (int i = 0; i < 3; i++) {
        int is_there = i == 0 || flight->picture.chroma_shift_x || !flight->semi_planar;
        flight->picture.plane[i] = is_there ? (const void *)(uintptr_t)plane[i] : NULL;
        flight->picture.pitch[i] = pitch;
    }
}

/* The planes of a kernel's slot lie as NVDEC writes them: Cb and Cr alternate if semi_planar, and values of more
 * than 8 bits are in the high bits. */
static void bzi_slot_on_surface(bzi_kernel_slot *slot, uint32_t semi_planar)
{
    int32_t bytes = slot->depth > 8 ? 2 : 1;
    slot->step[0] = bytes;
    slot->step[1] = slot->step[2] = semi_planar ? 2 * bytes : bytes;
    slot->low_zeros = slot->depth > 8 ? 16 - slot->depth : 0;
}

static void bzi_session_unmap(bzi_session *session, const bzi_flight *flight)
{
    if (!atomic_load(&session->device->stuck))              /* else this might not return */
        session->device->cu.unmap(flight->decoder->handle, flight->address);
    flight->decoder->busy &= ~(1u << flight->surface);
}

/* What NVDEC says of a picture. Of AV1, and by old drivers, no status is given: Invalid. */
static bzna_status bzi_session_ask(bzi_session *session, const bzi_flight *flight, cuvidDecodeStatus *out,
                                   bzna_error *err)
{
    bzi_device *device = session->device;
    CUVIDGETDECODESTATUS decoded = { .decodeStatus = cuvidDecodeStatus_Invalid };
    const CUresult result = device->cu.decode_status(flight->decoder->handle, (int)flight->surface, &decoded);
    *out = result == CUDA_SUCCESS ? decoded.decodeStatus : cuvidDecodeStatus_Invalid;
    return bzi_cuda_is_lost((int)result) ? bzi_device_check(device, result, "cuvidGetDecodeStatus", err) : BZNA_OK;
}

/* Waits until a picture is done, if NVDEC says so: a driver that has no word for a picture in its first half second has
 * none for any. *out: what it says, Invalid: nothing. */
static bzna_status bzi_session_await(bzi_session *session, const bzi_flight *flight, cuvidDecodeStatus *out,
                                     bzna_error *err)
{
    bzi_device *device = session->device;
    const uint64_t begin = bzi_os_now_ns();
    *out = cuvidDecodeStatus_Invalid;
    while (!session->silent && flight->decoder->format.codec != BZNA_CODEC_AV1) {
        uint64_t waited;
        bzna_status status = bzi_session_ask(session, flight, out, err);
        if (status != BZNA_OK || (*out != cuvidDecodeStatus_Invalid && *out != cuvidDecodeStatus_InProgress))
            return status;
        waited = bzi_os_now_ns() - begin;
        if (waited > BZI_NVDEC_DEADLINE_NS)
            atomic_store(&device->stuck, 1);
        if (atomic_load(&device->stuck))
            return bzi_device_video(device, err);
        session->silent = *out == cuvidDecodeStatus_Invalid && waited > BZI_NVDEC_DEADLINE_NS / 10;
        bzi_os_sleep_ns(BZI_NVDEC_POLL_NS);
    }
    return BZNA_OK;
}

/* Maps the oldest picture, for which the driver waits, or we do. Its tag is set in every case; the rest of *out is
 * valid until bzi_session_unmap_all. Pre: pending_count > 0, mapped_count < session_mapped. */
static bzi_nvdec_result bzi_session_map(bzi_session *session, bzi_flight *out, bzna_error *err)
{
    bzi_device *device = session->device;
    CUVIDPROCPARAMS parameters;
    unsigned long long address = 0;
    unsigned pitch = 0;
    cuvidDecodeStatus decoded = cuvidDecodeStatus_Invalid;
    CUresult result;
    bzna_status status = BZNA_OK;
    *out = session->pending[session->pending_first];
    session->pending_first = (session->pending_first + 1) % BZI_LIMIT_SESSION_DEPTH;
    session->pending_count--;
    memset(&parameters, 0, sizeof parameters);
    parameters.progressive_frame = 1;
    parameters.output_stream = session->stream;
    if (device->spins)
        status = bzi_session_await(session, out, &decoded, err);
    if (status == BZNA_OK) {
        result = device->cu.map(out->decoder->handle, (int)out->surface, &address, &pitch, &parameters);
        status = bzi_device_check(device, result, "cuvidMapVideoFrame64", err);
    }
    if (status != BZNA_OK) {
        out->decoder->lost |= 1u << out->surface;           /* the decoder takes no more pictures */
        return bzi_session_fall_back(session, err);
    }
    session->failures = 0;
    out->address = address;
    if (decoded == cuvidDecodeStatus_Invalid)
        status = bzi_session_ask(session, out, &decoded, err);
    if (decoded == cuvidDecodeStatus_Error || decoded == cuvidDecodeStatus_Error_Concealed)
        status = bzi_fail(err, BZNA_E_DECODE, BZNA_NO_OFFSET, 0, decoded, "NVDEC: the picture is damaged");
    if (status != BZNA_OK) {
        bzi_session_unmap(session, out);
        return BZI_NVDEC_FAILED;
    }
    bzi_session_planes(out, pitch);
    session->mapped[session->mapped_count++] = *out;
    return BZI_NVDEC_OK;
}

/* After everything that reads the mapped surfaces has been enqueued on session->stream: what is mapped next is
 * written there after it. */
static void bzi_session_unmap_all(bzi_session *session)
{
    uint32_t quirks = 0;
    for (uint32_t i = 0; i < session->mapped_count; i++)
        quirks |= session->mapped[i].decoder->quirks;
    if (quirks & BZI_QUIRK_SURFACE)
        bzi_device_stream_wait(session->device, session->stream);
    while (session->mapped_count)
        bzi_session_unmap(session, &session->mapped[--session->mapped_count]);
}

/* Pre: nothing is pending. */
static void bzi_session_close(bzi_session *session)
{
    bzi_session_unmap_all(session);
    for (uint32_t i = 0; i < BZI_SESSION_PARSERS; i++)
        bzi_session_drop_parser(session, &session->parsers[i]);
    bzi_lru_free(&session->parser_keys, session->memory);
    bzi_nvdec_cache_close(&session->decoders);
    bzi_device_stream_free(session->device, session->stream);
    session->stream = NULL;
    bzi_buffer_free(session->memory, &session->bytes);
    bzi_buffer_free(session->memory, &session->key);
    if (session->software.memory)
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


/* ==== 50. NVDEC: self-check ==========================================================================================
 * Calls: rooms 2-5, 15-16, 40-41, 43-44, 46-49. Whether the device makes what it should, tried before its results are
 * used: the kernel, when the device is opened; NVDEC, with the first picture of each kind, by the session that is to
 * decode it, and as it will: several pictures in flight, surfaces used again at once. What fails is tried around what
 * drivers may get wrong (BZI_QUIRK_...): the first way that passes is kept, and a kind that has none is decoded in
 * software. Two built-in pictures serve the commonest kinds; of others, the one at hand is compared with libavcodec's. 
 * A picture is mapped when NVDEC says that it is done: a call that waits for one that never is could not be ended. Then
 * nothing more is asked of its decoder, and of NVDEC in this process. Of AV1, it does not say. */

#ifndef BENZINA_NO_CUDA

/* How often a picture is decoded: twice for each surface of a session; fewer times where all copies would take so many
 * bytes. */
#define BZI_CHECK_ROUNDS  (2 * (BZI_LIMIT_SESSION_DEPTH + BZI_KERNEL_SLOTS))
#define BZI_CHECK_BYTES   (64u << 20)
/* So often a picture is copied, which keeps the stream behind the decoder, as kernels of large batches do. */
#define BZI_CHECK_COPIES  64u
/* Decoders of JPEG round in ways of their own: pictures may differ by so much of 255, and by half of 1 on average. */
#define BZI_CHECK_MAX_DIFFERENCE 4u
/* Of what is measured of a decoder, more than this is not its own. */
#define BZI_CHECK_MAX_EXTRA (256u << 20)

/* Of so many rows and columns, and 4:2:0, with sums of values (JPEG has none): made by tests/make/check_pictures.py. */
#define BZI_CHECK_SIZE    160
static const struct { uint32_t codec, depth; uint64_t sums[2]; const char *hex[2]; } bzi_check_pictures[] = {
    { BZNA_CODEC_H264, 8, { 0xd8e379382fd46ec2ull, 0x9ba275147f7d08fcull }, {
        "000000016764000cac4c22142b42000003000200000300641e2854230000000168e8430144b22c0000016588821ffff4659c0860"
        "3fe0fa9e33b702d990d6a76b6ae4ac0850903a15bc7726c7a453af545be6c841b8e2d909413d400000bf13ee0809d62f9fe1d20f"
        "dce13f6139af4466662bb287f8b7dcadce92dd1df6b060198c2c956377bdef8225eb7bb55d24cfbd004f323d773eb7ed035daa72"
        "0ef342467639546990016dd9eae5470168ce4735a81a2030ecc1",
        "000000016764000cac4c22142b42000003000200000300641e2854230000000168e8430144b22c0000016588821ffff46187d517"
        "e86e8b6e06b42307c816055616700947e63b2d0c8e3d34c1e8439a05350d4bb2129f31d7e8dd0b07c91fb9c2e93e89fd514ba382"
        "7c92798fc852c4a49c07485d73464aacc82507b24c183b2a65cc9a0cff13abae2b34b5fe71c95b98e53c0aed5f6bf1cae759d21f"
        "546b583bdb81" } },
    { BZNA_CODEC_H265, 8, { 0x4679a04e54fb6091ull, 0x19d36216c96ce776ull }, {
        "0000000140010c01ffff01600000030090000003000003003c9a80900000000142010101600000030090000003000003003ca014"
        "20285966a9246dae6808000003000800000300c840000000014401c171b1120000012801af0458fccbec2fe40027e82369225fd1"
        "e350ae5dd816efb9748bc057e401afa45c83ebe9b927b385b540d00073e120245233d6f3b4132a31ea9b24ff07959f825b1c2dc1"
        "b04d16b8713750f42151f21b04a487d44c6fe1edb4cdc836316841db2d1dd87aa299d06384163a3ac394e8de36c1e0dbcf0322eb"
        "9c350def28fef1d5c226f07f070a3e98daad431f",
        "0000000140010c01ffff01600000030090000003000003003c9a80900000000142010101600000030090000003000003003ca014"
        "20285966a9246dae6808000003000800000300c840000000014401c171b1120000012801af0458fccbeabb8ff691abe01d949582"
        "aff3c6ffb03c9094786d05e1eb49bfd65447152bf2b9a7074ed1bcadde4dffc270764f51ad7c263debda2ab8023515d4aa866ea2"
        "f39a5a02ea5950e9f174fa7f520314560b333cf21bb1c38d9f0a4d234a01ce0d8310b8638392c463a3023d7d11419aeb80" } },
    { BZNA_CODEC_H265, 10, { 0x1d94d9e7b4794d6dull, 0x6b6a57420674445aull }, {
        "0000000140010c01ffff02200000030090000003000003003c9a80900000000142010102200000030090000003000003003ca014"
        "20284d966a9246dae68080000003008000000c84000000014401c171b1120000012801af0458fccbec2fe40027e82369225ae313"
        "52e289613a4eca97f70d16cc79d88adbed0b2241ba23fa841b2bdc74beee49614324a469820a7ab279dcf6a97fb3d29f13d65958"
        "431ded143f62e5adcb2b7288fd3080745dbf0f704e3081c272e03dfc825644bc4d13da511cb38f49b172b05e4bc0b9598d7c715f"
        "57171ce243c1536a1c9a66e70b386c35a980",
        "0000000140010c01ffff02200000030090000003000003003c9a80900000000142010102200000030090000003000003003ca014"
        "20284d966a9246dae68080000003008000000c84000000014401c171b1120000012801af0458fccbeabba58e43af4f8ffbb544ab"
        "8f06459e8142820baed32c09935077049e4f4fc8aaa7b6147ab69e58aba398136a324c0a31b3602c43203bb29733e26d8f2bdbe0"
        "eadfd6667335fa26828de22630aae3843b15cc36a5a118e34489614d872071a751003c2e3538243577540aabcfdcf6dfc0" } },
    { BZNA_CODEC_AV1, 8, { 0x69340b26bee8f1c6ull, 0x199117d852cd5424ull }, {
        "12000a0b00000003bcfcf9fff30080324810009fe02041e78b2bdc0802dfd591730d5e4ca801d387c3dd9d118b0a142dd546168f"
        "e563c06c65820a40e20e3006c191266191e4841fefd1d0f1a9e2adf84ac491506c1f2d4c90",
        "12000a0b00000003bcfcf9fff30080324810009fe01a8beb8b2bdc0802d65f387ac41ca63ee17096de19859a69a387112cc984a4"
        "58fbb82cb69593dfd4376122005a58cd293652280ef5147be98629a59fd8f8a10dde193bc0" } },
    { BZNA_CODEC_JPEG, 8, { 0, 0 }, {
        "ffd8ffdb004300083e3e493e49555555555555645d6468686864646464686868707070838383707070686870707c7c83838f938f8787"
        "838793939b9b9bbabab2b2d9d9e0ffffffffc40055000101010101000000000000000000000002010507060101000301010101000000"
        "0000000000000407000805060203100100000000000000000000000000000000110100000000000000000000000000000000ffc00011"
        "0800a000a003012200021100031100ffda000c03010002110311003f00e2a6868690e29a190529a190529a190529a19053dc9a1a484a"
        "4a686414a686414a686414a686414e20686cfecd2a686414a686414a686414a686414f726869212929a190529a190529a190529a1905"
        "3881a1b3fb34a9a190529a190529a190529a19053dc9a1a484a4a686414a686414a686414a686414e20686cfecd2a686414a686414a6"
        "86414a686414f726869212929a190529a190529a190529a19053881a1b3fb34a9a190529a190529a190529a19053dc9a1a484a4a6864"
        "14a686414a686414a68643f673834347ecdaa686414a686414a686414a686414c034373d2929a190529a190529a190fd14d0c85641a1"
        "bcbb3ca9a190529a190529a190529a1905300d0dcf4a4a686412a68643ed4d0c85534321590686f2e8154d0c8294d0c8294d0c8294d0"
        "c82980686e7a50534321f4a68642a9a190aa68642b20d0de5d08a9a190529a190529a190529a1905300d0dcf48ca68642a9a190aa686"
        "42a9a190ac834379743aa686414a686414a686414a686414c034373dee94d0c8553432154d0c855343215fffd9",
        "ffd8ffdb004300083e3e493e49555555555555645d6468686864646464686868707070838383707070686870707c7c83838f938f8787"
        "838793939b9b9bbabab2b2d9d9e0ffffffffc40056000101010101010000000000000000000002030507060401010003010101010000"
        "000000000000000407000806050302100100000000000000000000000000000000110100000000000000000000000000000000ffc000"
        "110800a000a003012200021100031100ffda000c03010002110311003f00f9cd237368fd5348c8295348c8295348c8295348c829ef4d"
        "234909495348c8295348c8295348c8295348c829c30d2366f65154d2320a54d2320a54d2320a54d2320a7bd348d2425254d2320a54d2"
        "320a54d2320a54d2320a70c348d9bd9455348c8295348c8295348c8295348c829ef4d234909495348c8295348c8295348c8295348c82"
        "9c30d2366f65154d2320a54d2320a54d2320a54d2320a7bd348d2425254d2320a54d2320a54d2320a54d2320a70c348d9bd9555348c8"
        "7d95348c8295348c8295348c829ef4d234909495348c8295348c8295348c8295348c829cf0d2340ecc2a9a4642aa69190fa2a6919052"
        "a691905310d2379e9495348c8295348c8295348c8295348c82988691b8766d54d232155348c8554d2321fb54d23209621a46f3d292a6"
        "919052a6919052a6919052a691905310d2370ecf2a9a4642aa69190aa9a4642aa69190fd310d2379e9415348c8295348c8295348c829"
        "5348c82988691b8740aa9a4642aa69190aa9a4642aa69190ac4348de7a4654d2320a54d2320a54d2320a54d2320a621a46e1d08aa691"
        "90aa9a4642aa69190aa9a4642b10d2379eee95348c8295348c8295348c8295348c829fffd9" } },
};

typedef struct bzi_check {
    bzi_session     *session;
    bzi_caps        *kind;
    bzi_nvdec_format want;
    bzi_format       format;          /* of both pictures, as is what follows */
    bzna_picture     picture;
    bzna_image       images[2];
    uint64_t         sums[2];
    uint8_t          bytes[2][768];
    uint32_t         rounds;
    bzi_flight       flights[BZI_CHECK_ROUNDS];
    uint64_t         surface_bytes;
    uint8_t         *surfaces;        /* pinned: a copy for each round */
} bzi_check;

/* --- The kernel --- */

#define BZI_CHECK_SIDE    32
typedef struct bzi_check_block {
    float   pixels[2][3][BZI_CHECK_SIDE * BZI_CHECK_SIDE];
    uint8_t surface[64 * 48 * 3 / 2];
} bzi_check_block;

/* A surface, and what the plain loop makes of it by an axis-aligned and by a projective matrix. The slots are for a
 * copy of the block, so many bytes behind it. */
static bzna_status bzi_check_render(bzi_check_block *block, bzi_kernel_slots *slots, const bzi_kernel_output *out,
                                    uint64_t behind, bzna_error *err)
{
    static const double warps[2][9] = { { 1.5, 0, 2.25, 0, 1.25, 1.75, 0, 0, 1 },
                                        { 1.1, 0.2, 3, -0.15, 0.9, 7, 2e-3, -1e-3, 1 } };
    bzna_picture picture = { .depth = 8, .width = 64, .height = 48, .chroma_shift_x = 1, .chroma_shift_y = 1,
                             .pitch = { 64, 64, 64 }, .step = { 1, 2, 2 }, .color = { 1, 13, 5, 1, 1 } };
    for (uint32_t i = 0; i < sizeof block->surface; i++)
        block->surface[i] = (uint8_t)(i * i / 37 + i % 64 * 3);
    for (int i = 0; i < 3; i++)
        picture.plane[i] = block->surface + (i ? 64 * 48 + i - 1 : 0);
    for (int i = 0; i < 2; i++) {
        bzi_kernel_slot *slot = &slots->slot[i];
        bzna_transform transform;
        bzi_transform_init(&transform);
        memcpy(transform.homography, warps[i], sizeof warps[i]);
        if (bzi_slot_make(slot, &picture, &transform, BZNA_CHANNELS_RGB, err) != BZNA_OK)
            return err->status;
        slot->dst = (uint64_t)(uintptr_t)block->pixels[i];
        bzi_kernel_warp_plain(slot, out);
        slot->dst += behind;
        for (int k = 0; k < 3; k++)
            slot->plane[k] += behind;
    }
    return BZNA_OK;
}

/* Whether the kernel makes the same bits on a device that was just opened. */
static bzna_status bzi_check_device(bzi_device *device, bzna_error *err)
{
    bzi_kernel_output out = { .width = BZI_CHECK_SIDE, .height = BZI_CHECK_SIDE, .stride_x = 1, .channels = 3,
                              .stride_y = BZI_CHECK_SIDE, .stride_c = BZI_CHECK_SIDE * BZI_CHECK_SIDE };
    bzi_check_block made, expected;
    bzi_kernel_slots slots;
    void *stream = NULL;
    uint64_t memory = 0;
    bzna_status status;
    if (!device->checks)
        return BZNA_OK;
    if ((status = bzi_device_enter(device, err)) != BZNA_OK)
        return status;
    if ((status = bzi_device_stream(device, 0, &stream, err)) == BZNA_OK &&
        (status = bzi_device_alloc(device, sizeof made, stream, &memory, err)) == BZNA_OK &&
        (status = bzi_check_render(&expected, &slots, &out, memory - (uintptr_t)&expected, err)) == BZNA_OK &&
        (status = bzi_device_upload(device, memory + offsetof(bzi_check_block, surface), expected.surface,
                                    sizeof expected.surface, stream, err)) == BZNA_OK &&
        (status = bzi_device_warp(device, &slots, 2, &out, stream, err)) == BZNA_OK &&
        (status = bzi_device_download(device, &made, memory, sizeof made, stream, err)) == BZNA_OK &&
        (status = bzi_device_drain(device, stream, err)) == BZNA_OK && memcmp(&made, &expected, sizeof made))
        status = BZI_FAIL(err, BZNA_E_DEVICE, "%s: the kernel makes other pixels than on the CPU", device->info.name);
    bzi_device_free(device, memory, sizeof made, stream);
    bzi_device_stream_free(device, stream);
    bzi_device_leave(device);
    return status;
}

/* --- Pictures and what NVDEC makes of them --- */

/* FNV-1a over the values of a frame, whatever they lie between. */
static uint64_t bzi_check_sum(const bzna_picture *p, uint32_t low_zeros)
{
    uint64_t sum = BZI_HASH_START;
    for (int i = 0; i < 3 && p->plane[i]; i++) {
        const uint32_t shift_x = i ? p->chroma_shift_x : 0, shift_y = i ? p->chroma_shift_y : 0;
        const uint32_t width = (p->frame_width + shift_x) >> shift_x, height = (p->frame_height + shift_y) >> shift_y;
        const uint32_t bytes = p->depth > 8 ? 2 : 1, step = p->step[i] ? p->step[i] : bytes;
        for (uint32_t y = 0; y < height; y++) {
            const uint8_t *row = (const uint8_t *)p->plane[i] + (int64_t)y * p->pitch[i];
            for (uint32_t x = 0; x < width; x++) {
                uint16_t value = row[x * step];
                if (bytes == 2)
                    memcpy(&value, row + x * step, 2);
                sum = (sum ^ (uint32_t)value >> low_zeros) * 0x100000001b3ull;
            }
        }
    }
    return sum;
}

static uint64_t bzi_check_surface_bytes(const bzi_flight *flight)
{
    const uint64_t height = flight->decoder->height, even = (height + 1) & ~1ull;
    return (uint64_t)flight->picture.pitch[0] * (even + (flight->semi_planar ? (height + 1) / 2 : even + height));
}

/* The picture in a copy of its surface. */
static bzna_picture bzi_check_in_copy(const bzi_flight *flight, const uint8_t *copy, uint32_t *low_zeros)
{
    bzna_picture picture = flight->picture;
    bzi_kernel_slot slot = { .depth = (int32_t)picture.depth };
    bzi_slot_on_surface(&slot, flight->semi_planar);
    for (int i = 0; i < 3 && picture.plane[i]; i++) {
        picture.plane[i] = copy + ((uintptr_t)picture.plane[i] - (uintptr_t)flight->address);
        picture.step[i] = (uint32_t)slot.step[i];
    }
    *low_zeros = (uint32_t)slot.low_zeros;
    return picture;
}

static uint64_t bzi_check_sum_copy(const bzi_flight *flight, const uint8_t *copy)
{
    uint32_t low_zeros;
    const bzna_picture picture = bzi_check_in_copy(flight, copy, &low_zeros);
    return bzi_check_sum(&picture, low_zeros);
}

/* The built-in pictures of the kind. Returns 0 when there are none. */
static int bzi_check_use_built_in(bzi_check *check)
{
    const size_t count = sizeof bzi_check_pictures / sizeof bzi_check_pictures[0];
    size_t k = 0;
    bzna_error ignored;
    while (k < count && (bzi_check_pictures[k].codec != check->want.codec ||
                         bzi_check_pictures[k].depth != check->want.depth || check->want.chroma != 1))
        k++;
    for (int i = 0; i < 2 && k < count; i++) {
        static const char digits[] = "0123456789abcdef";
        bzna_image *image = &check->images[i];
        bzi_image alone;
        memset(image, 0, sizeof *image);
        for (const char *hex = bzi_check_pictures[k].hex[i]; *hex; hex += 2)
            check->bytes[i][image->data_size++] =
                (uint8_t)((strchr(digits, hex[0]) - digits) * 16 + (strchr(digits, hex[1]) - digits));
        image->codec = check->want.codec;
        image->width = image->height = image->frame_width = image->frame_height = BZI_CHECK_SIZE;
        image->data = check->bytes[i];
        check->sums[i] = bzi_check_pictures[k].sums[i];
        alone = bzi_image_alone(image);
        bzi_picture_describe(&alone, BZI_CHECK_SIZE, &check->format, &check->picture, &ignored);
        check->want.width = check->want.height = BZI_CHECK_SIZE;
    }
    return k < count;
}

/* What the CPU makes of a picture, until the next one. */
static bzna_status bzi_check_software(bzi_session *session, const bzna_image *image, const bzi_format *format,
                                      bzna_picture *picture, bzna_error *err)
{
    bzi_software *software = &session->software;
    bzna_status status = BZNA_OK;
    if (!software->memory)
        status = bzi_software_open(software, session->memory, session->device->desc.host->max_edge_px, err);
    if (status == BZNA_OK)
        return bzi_software_decode(software, image, format, bzi_picture_all(picture), picture, err);
    memset(software, 0, sizeof *software);
    return status;
}

/* The sum of that. */
static bzna_status bzi_check_sum_of(bzi_session *session, const bzna_image *image, const bzi_format *format,
                                    const bzna_picture *picture, uint64_t *sum, bzna_error *err)
{
    bzna_picture decoded = *picture;
    bzna_status status = bzi_check_software(session, image, format, &decoded, err);
    if (status == BZNA_OK)
        *sum = bzi_check_sum(&decoded, 0);
    return status;
}

/* --- NVDEC --- */

/* Maps the oldest picture, and enqueues copies of it. */
static bzna_status bzi_check_map(bzi_check *check, uint32_t round, bzna_error *err)
{
    bzi_session *session = check->session;
    bzi_flight *flight = &check->flights[round];
    void *pinned = check->surfaces;
    cuvidDecodeStatus ignored;
    bzna_status status = bzi_session_await(session, &session->pending[session->pending_first], &ignored, err);
    if (status == BZNA_OK && bzi_session_map(session, flight, err) != BZI_NVDEC_OK)
        return err->status;
    if (status == BZNA_OK && !pinned) {
        check->surface_bytes = bzi_check_surface_bytes(flight);
        status = bzi_device_pin(session->device, check->rounds * check->surface_bytes, &pinned, err);
        check->surfaces = pinned;
    }
    for (uint32_t i = 0; i < BZI_CHECK_COPIES && status == BZNA_OK; i++)
        status = bzi_device_download(session->device, check->surfaces + round * check->surface_bytes, flight->address,
                                     check->surface_bytes, session->stream, err);
    return status;
}

/* Which picture a round decodes: in the order of Thue and Morse, so that what was in a surface before, however long
 * ago, is not always what should be there. */
static uint32_t bzi_check_which(uint32_t round) { return (0x6996u >> round % 16 ^ 0x6996u >> round / 16) & 1; }

/* As an engine does: submits what there is room for, maps some, and unmaps them behind what reads them. */
static bzna_status bzi_check_decode(bzi_check *check, bzna_error *err)
{
    bzi_session *session = check->session;
    bzna_status status = BZNA_OK;
    for (uint32_t submitted = 0, mapped = 0; mapped < check->rounds && status == BZNA_OK; mapped++) {
        bzi_nvdec_result result = BZI_NVDEC_OK;
        while (submitted < check->rounds && result == BZI_NVDEC_OK) {
            result = bzi_session_submit(session, &check->images[bzi_check_which(submitted)], &check->picture,
                                        &check->format, NULL, err);
            submitted += result == BZI_NVDEC_OK;
        }
        if (result != BZI_NVDEC_OK && result != BZI_NVDEC_BUSY)
            return err->status;
        if (!session->pending_count)
            return BZI_FAIL(err, BZNA_E_DEVICE, "no surface comes free");
        status = bzi_check_map(check, mapped, err);
        if (session->mapped_count == session->device->desc.session_mapped || !session->pending_count)
            bzi_session_unmap_all(session);
    }
    return status;
}

/* Whether the copy of a round is near enough to what the CPU makes of its JPEG. */
static bzna_status bzi_check_near(bzi_check *check, uint32_t round, bzna_error *err)
{
    bzna_picture decoded = check->picture, made;
    uint64_t sum = 0, count = 0;
    uint32_t most = 0, low_zeros;
    bzna_status status = bzi_check_software(check->session, &check->images[bzi_check_which(round)], &check->format,
                                            &decoded, err);
    if (status != BZNA_OK)
        return status;
    made = bzi_check_in_copy(&check->flights[round], check->surfaces + round * check->surface_bytes, &low_zeros);
    for (int i = 0; i < 3; i++) {
        const uint32_t size = i ? BZI_CHECK_SIZE / 2 : BZI_CHECK_SIZE;
        const uint8_t *a = made.plane[i], *b = decoded.plane[i];
        for (uint32_t at = 0; at < size * size; at++, count++) {
            const int64_t y = at / size, x = at % size;
            const int difference = a[y * made.pitch[i] + x * made.step[i]] - b[y * decoded.pitch[i] + x];
            sum += (uint32_t)abs(difference);
            most = (uint32_t)abs(difference) > most ? (uint32_t)abs(difference) : most;
        }
    }
    return most <= BZI_CHECK_MAX_DIFFERENCE && 2 * sum <= count ? BZNA_OK :
           BZI_FAIL(err, BZNA_E_DEVICE, "picture %u of %u differs by up to %u of 255 from " BZI_JPEG_DECODER "'s, by "
                    "%.2f on average", round + 1, check->rounds, most, (double)sum / (double)count);
}

/* A decoder for larger frames, so that it has to be given another size. The first one of a device is measured: what it
 * takes beyond its surfaces, all are taken to take, but not what others may have allocated meanwhile. */
static bzna_status bzi_check_make_larger(bzi_check *check, bzna_error *err)
{
    bzi_device *device = check->session->device;
    bzi_nvdec_format larger = check->want;
    CUVIDEOFORMAT parsed;
    bzi_nvdec *decoder;
    size_t before = 0, after = 0, total;
    const int is_first = atomic_load(&device->decoders_made) == 0;
    larger.width += 64;
    larger.height += 64;
    parsed = bzi_nvdec_expect(&larger, larger.width, larger.height, 0);
    check->session->decoders.target = 1;
    if (is_first)
        device->cu.memory_info(&before, &total);
    if (bzi_nvdec_cache_acquire(&check->session->decoders, &larger, &parsed, &decoder, err) != BZI_NVDEC_OK)
        return err->status;
    if (is_first && device->cu.memory_info(&after, &total) == CUDA_SUCCESS && before > after + decoder->bytes) {
        uint64_t extra = bzi_min(before - after - decoder->bytes, BZI_CHECK_MAX_EXTRA);
        atomic_store(&device->decoder_extra, extra);
        atomic_fetch_add(&device->decoder_bytes, extra);
        decoder->bytes += extra;
    }
    return BZNA_OK;
}

/* Decodes all rounds and compares them. If something fails, nothing is left in flight, and no decoder. */
static bzna_status bzi_check_try(bzi_check *check, bzna_error *err)
{
    bzi_session *session = check->session;
    bzna_status status = check->kind->quirks & BZI_QUIRK_SIZE ? BZNA_OK : bzi_check_make_larger(check, err);
    if (status == BZNA_OK)
        status = bzi_check_decode(check, err);
    bzi_device_stream_wait(session->device, session->stream);
    for (uint32_t i = 0; i < check->rounds && status == BZNA_OK; i++)
        if (check->want.codec == BZNA_CODEC_JPEG)
            status = bzi_check_near(check, i, err);
        else if (bzi_check_sum_copy(&check->flights[i], check->surfaces + i * check->surface_bytes) !=
            check->sums[bzi_check_which(i)])
            status = BZI_FAIL(err, BZNA_E_DEVICE, "picture %u of %u has wrong pixels", i + 1, check->rounds);
    bzi_device_unpin(session->device, check->surfaces);
    check->surfaces = NULL;
    session->decoders.target = BZI_NVDEC_CACHE_FIRST;
    for (uint32_t i = 0; i < BZI_NVDEC_CACHE_SLOTS; i++)
        session->decoders.decoders[i].used = 0;             /* the next pictures take these first */
    if (status == BZNA_OK)
        return status;
    bzi_session_unmap_all(session);
    session->pending_count = 0;
    for (uint32_t i = 0; i < BZI_SESSION_PARSERS; i++)
        bzi_session_drop_parser(session, &session->parsers[i]);
    bzi_nvdec_cache_close(&session->decoders);
    bzi_nvdec_cache_open(&session->decoders, session->device);
    return status;
}

/* Tries all ways in turn. Any status but BZNA_OK: it could not be tried to the end. */
static bzna_status bzi_check_run(bzi_check *check, bzna_error *err)
{
    static const struct { uint32_t quirks; const char *text; } ways[] = {
        { 0, "" },
        { BZI_QUIRK_SURFACE, "surfaces are used again only when the kernel has read them" },
        { BZI_QUIRK_INTRA, "decoders are not told that all pictures are intra" },
        { BZI_QUIRK_INDEX, "the parser chooses the surfaces" },
        { BZI_QUIRK_SIZE, "decoders are not given other sizes" },
        { BZI_QUIRK_ALL, "surfaces wait, and are the parser's; decoders have one size, and are not for intra alone" },
    };
    bzi_device *device = check->session->device;
    char *report = check->kind->report, why[sizeof check->kind->report] = "";
    uint32_t outcome = BZNA_CHECK_FAILED;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0] && outcome == BZNA_CHECK_FAILED; i++) {
        bzna_status status;
        check->kind->quirks = ways[i].quirks;
        status = bzi_check_try(check, err);
        if (status == BZNA_E_DEVICE_LOST || status == BZNA_E_MEMORY || atomic_load(&device->stuck))
            return status;
        if (status == BZNA_OK)
            outcome = BZNA_CHECK_PASSED;
        else if (i == 0)
            bzi_string_copy(why, sizeof why, err->message);
        bzi_string_copy(report, sizeof why, status == BZNA_OK ? ways[i].text : why);
    }
    if (check->kind->quirks && outcome == BZNA_CHECK_PASSED)
        bzi_log(device->desc.host, BZNA_LOG_WARNING, BZNA_OK, "NVDEC of %s, %s of %u bits, %s: %s; around that, %s",
                device->info.name, bzi_codec_name(check->want.codec), check->want.depth,
                bzi_chroma_name(check->want.chroma), why, report);
    atomic_store(&check->kind->check, outcome);
    return BZNA_OK;
}

/* --- What is known of a kind --- */

/* Checks a kind; check->images[0].data NULL: with built-in pictures alone. What cannot be checked is skipped. */
static bzna_status bzi_check_begin(bzi_check *check, bzna_error *err)
{
    const char *skip = "NVDEC does not say when AV1 is decoded";
    bzna_status status = BZNA_E_UNSUPPORTED;
    check->rounds = 2 * bzi_nvdec_chosen(check->session->device);
    if (!BZI_SOFTWARE && check->want.codec == BZNA_CODEC_JPEG) {
        skip = "there is no other decoder of JPEG to compare with";
    } else if (check->want.codec != BZNA_CODEC_AV1 || check->session->device->checks == BZI_CHECKS_ALL) {
        if (bzi_check_use_built_in(check))
            return bzi_check_run(check, err);
        if (!check->images[0].data)
            return BZNA_OK;
        check->images[1] = check->images[0];
        check->rounds = 1 + (uint32_t)bzi_min(check->rounds - 1, BZI_CHECK_BYTES /
                                              (6ull * check->want.width * check->want.height));
        status = bzi_check_sum_of(check->session, &check->images[0], &check->format, &check->picture, &check->sums[0],
                                  err);
        check->sums[1] = check->sums[0];
        skip = "there is no libavcodec to compare with";
    }
    if (status != BZNA_E_UNSUPPORTED)
        return status == BZNA_OK ? bzi_check_run(check, err) : status;
    bzi_string_copy(check->kind->report, sizeof check->kind->report, skip);
    atomic_store(&check->kind->check, BZNA_CHECK_SKIPPED);
    return BZNA_OK;
}

static int bzi_check_is_due(bzi_device *device, const bzi_nvdec_format *want)
{
    return device->checks &&
           atomic_load(&bzi_device_kind(device, want->codec, want->chroma, want->depth)->check) == BZNA_CHECK_NONE;
}

/* Whether NVDEC may decode pictures of a kind, which is checked first if it was not; meanwhile, other sessions wait.
 * image: NULL, or one of the kind, as bzi_session_submit takes it. Pre: if it is due, nothing is in flight. */
static bzi_nvdec_result bzi_check_kind(bzi_session *session, const bzi_nvdec_format *want, const bzna_image *image,
                                       const bzi_format *format, const bzna_picture *picture, bzna_error *err)
{
    bzi_device *device = session->device;
    bzi_caps *kind = bzi_device_kind(device, want->codec, want->chroma, want->depth);
    bzna_status status = BZNA_OK;
    if (bzi_check_is_due(device, want)) {
        bzi_check check = { .session = session, .kind = kind, .want = *want };
        if (image) {
            check.images[0] = *image;
            check.format = *format;
            check.picture = *picture;
        }
        bzi_os_lock(&device->checking);
        if (atomic_load(&device->stuck))
            status = bzi_device_video(device, err);
        else if (bzi_check_is_due(device, want))
            status = bzi_check_begin(&check, err);
        bzi_os_unlock(&device->checking);
    }
    if (status == BZNA_E_MEMORY || status == BZNA_E_DEVICE_LOST)
        return status == BZNA_E_MEMORY ? BZI_NVDEC_NO_MEMORY : BZI_NVDEC_FAILED;
    if (status == BZNA_OK && (!device->checks || atomic_load(&kind->check) != BZNA_CHECK_FAILED))
        return BZI_NVDEC_OK;
    if (status == BZNA_OK)
        BZI_FAIL(err, BZNA_E_CODEC, "NVDEC of %s fails its self-check of %s of %u bits, %s: %s", device->info.name,
                 bzi_codec_name(want->codec), want->depth, bzi_chroma_name(want->chroma), kind->report);
    err->status = BZNA_E_CODEC;                             /* a damaged picture, too, is libavcodec's to refuse */
    return BZI_NVDEC_REFUSED;
}

/* What is known of a kind that the device decodes; built-in pictures check it now. In the CUDA context. */
static void bzi_check_ask(bzi_device *device, bzna_codec_info *info)
{
    const bzi_nvdec_format want = { info->codec, info->chroma_format, info->depth, 0, 0 };
    bzi_caps *kind = bzi_device_kind(device, want.codec, want.chroma, want.depth);
    bzi_session session;
    bzna_error err;
    bzi_error_init(&err);
    if (bzi_check_is_due(device, &want) &&
        bzi_session_open(&session, device, &device->desc.host->memory, &err) == BZNA_OK) {
        bzi_check_kind(&session, &want, NULL, NULL, NULL, &err);
        bzi_session_close(&session);
    }
    info->check = device->checks ? atomic_load(&kind->check) : BZNA_CHECK_SKIPPED;
    bzi_string_copy(info->check_message, sizeof info->check_message, info->check ? kind->report : err.message);
}

/* Whether a mapped picture is what libavcodec makes of it: 1 or 0; -1: that cannot be told. */
static int bzi_check_compare(bzi_session *session, const bzi_flight *flight, const bzna_image *image,
                             const bzi_format *format)
{
    const uint64_t size = bzi_check_surface_bytes(flight);
    uint64_t sum = 0;
    bzna_error err;
    if (bzi_check_sum_of(session, image, format, &flight->picture, &sum, &err) != BZNA_OK ||
        !bzi_buffer_reserve(session->memory, &session->bytes, size, 0) ||
        bzi_device_download(session->device, session->bytes.data, flight->address, size, session->stream, &err) ||
        bzi_device_drain(session->device, session->stream, &err))
        return -1;
    return bzi_check_sum_copy(flight, session->bytes.data) == sum;
}

#else

#define bzi_check_device(device, err) bzi_device_none(err, device)
#define bzi_check_ask                 bzi_device_skip

#endif


/* ==== 51. Loader: state ==============================================================================================
 * Calls: rooms 2-3, 41. A loader: readers fetch samples in the planned order, workers decode each and warp it into the
 * slot that the plan gave it, bzna_loader_next lends out finished batches in order. The order of completion never
 * matters. With NVDEC, readers hand samples to the device's pool, whose engines (a thread and a session each) serve all
 * loaders of the context; what NVDEC cannot decode goes on to the loader's workers.  Locks. One lock a loader guards
 * everything marked (L). It is held for bookkeeping only, never across a read, a decode or user code. The pool's lock,
 * (P), may be taken while a loader's is held, never the other way round.  Items. An item is a slot of a batch and the
 * sample for it. It belongs to whoever holds it: free list -> reader -> (pool -> engine ->) ring -> worker -> free
 * list, or -> redo -> reader when its slot takes another sample. A slot is written by the one worker or engine that
 * holds its item. In steady state nothing is allocated: items, batches and queues are made at open; an item's bytes
 * grow to the largest sample met, under a common ceiling.  Batches. free -> filling -> ready -> on loan -> free; with
 * batches on the device, on loan -> retiring -> free. Retiring: released, but GPU work that the consumer enqueued may
 * still read it. A reader that has nothing to read reclaims it: it waits for that work. It is not active meanwhile: a
 * reset does not wait for it, closing does.  Interrupts. Stop, reset, restore and close let readers and workers finish
 * the sample at hand and keep them from taking another. Who waits with an item in hand (for memory, for a retry) gives
 * up at once: what is planned is thrown away.  Streams. On the device, slots are written by lanes: streams of engines
 * and of workers. A batch has an event a lane, recorded after the lane's last write, for which the consumer's stream
 * waits; and one that its release records on the consumer's stream, for which a reader waits. Decode streams never wait
 * on consumer streams, nor do engines and workers: a session has few surfaces, and its stream frees them, so a slow
 * consumer must not hold that up.  bzna_loader_next blocks on the GPU only when - batches go to the host: until the
 * copy of the batch at hand is complete; - all batches that are not on loan are retiring: until a reader has reclaimed
 * one; - the driver refuses to let the consumer's stream wait: until nothing writes to that batch any more. Of the
 * other calls, reset, restore and close wait for writes to batches that are thrown away, close also for reads of those
 * that are retiring, and a release waits for the consumer's stream only if its event cannot be recorded. */

typedef struct bzi_item {
    struct bzi_item    *next;         /* (P) in the pool's queue */
    bzna_batch         *batch;
    uint32_t            slot;
    uint32_t            replacements; /* samples tried for this slot before this one */
    uint64_t            position;     /* in the epoch's order */
    uint64_t            index;        /* in the data set */
    const bzi_container *container;   /* and in its container */
    uint64_t            local;
    bzi_extent          extent;
    bzna_status         status;       /* of reading */
    bzi_buffer          bytes;
    uint64_t            decode_ns, warp_ns;   /* spent on it by workers or engines */
    uint32_t            tiles;        /* of grids, decoded */
    uint32_t            by_nvdec;
    uint32_t            passed_over;  /* (P) so often, as the first of the queue */
    uint64_t            frames;       /* a hash of what decoder its picture needs; 0: no engine has looked yet */
    uint32_t            in_pool;      /* (L) with the pool or one of its engines */
} bzi_item;

/* One output of a loader: in each batch a tensor of pictures of one size, of one or several views of each sample. */
typedef struct bzi_output {
    char              name[BZNA_NAME_MAX];
    bzna_output       shape;          /* of one picture */
    uint32_t          views;
    uint32_t          first;          /* of its views, among those of all outputs */
    uint32_t          random;         /* what the random numbers of its first view are forked with */
    uint32_t          picture;        /* of the loader's picks, that it is made of */
    uint32_t          own_warp, own_filter, own_color;      /* 0: as the first output */
    bzi_similarity    warp;
    bzna_transform    transform;      /* what every sample starts with */
    bzna_jitter       jitter;
    bzi_kernel_output kernel;         /* on the host */
    uint64_t          picture_bytes;
    uint64_t          offset;         /* in the data of a batch */
    void             *mean;           /* the mean image: a copy, and one on the device */
    uint64_t          mean_bytes, mean_hash, device_mean;
} bzi_output;

/* What becomes of a sample: a transform and a slot for each view of each output, in order. One a thread. */
typedef struct bzi_views {
    bzna_transform  transforms[BZI_LIMIT_VIEWS];
    bzi_kernel_slot slots[BZI_LIMIT_VIEWS];
} bzi_views;

/* A stream that writes slots of batches, and the launches that are being gathered, one an output. All its items are of
 * one loader. */
typedef struct bzi_lane {
    bzi_device       *device;
    void             *stream;
    uint32_t          number;         /* of its events in batches: engines first, then the loader's workers */
    uint32_t          count;          /* of items */
    uint32_t          kept;           /* 1: the first item was launched before, its batch's event is to come */
    bzi_item         *items[BZI_KERNEL_SLOTS + 1];
    bzna_status       status[BZI_KERNEL_SLOTS + 1];
    uint32_t          slot_count[BZI_LIMIT_OUTPUTS];
    bzi_kernel_slots  slots[BZI_LIMIT_OUTPUTS];
    bzna_error        error;          /* status < 0: of a launch since the last flush */
} bzi_lane;

/* What waits for the device's engines, of all loaders in the order of reading. */
typedef struct bzi_pool {
    bzi_device        *device;
    bzi_host          *host;
    struct bzi_engine *engines;
    uint32_t           count;         /* of engines; immutable */
    uint32_t           has_mutex, has_cond, has_turns;
    bzi_mutex          mutex;
    bzi_cond           wake, turns;
    uint32_t           turn;          /* (P) the engine that may start: those before it have their main decoder */
    bzi_item          *first, *last;  /* (P) */
    uint32_t           queued;        /* (P) items */
    uint32_t           idle, live, quit;      /* (P) engines that wait, that have not ended; the pool closes */
} bzi_pool;

/* DLPack's structs, as dlpack.h lays them out: unversioned tensors as of 0.2 to 1.x, versioned ones as of 1.0. */
typedef struct bzi_dl_tensor {
    void    *data;
    int32_t  device_type, device_id;
    int32_t  dimensions;
    uint8_t  code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} bzi_dl_tensor;

typedef struct bzi_dl_managed {
    bzi_dl_tensor tensor;
    void         *manager;
    void        (*deleter)(struct bzi_dl_managed *self);
} bzi_dl_managed;

typedef struct bzi_dl_versioned {
    uint32_t      major, minor;
    void         *manager;
    void        (*deleter)(struct bzi_dl_versioned *self);
    uint64_t      flags;
    bzi_dl_tensor tensor;
} bzi_dl_versioned;

enum { BZI_CONDS = 5 };               /* of a loader */

/* The tensors that every batch has: bzi_loader_describe_tensor. Behind them come those of fields, then those of further
 * outputs. */
enum { BZI_TENSORS = 4, BZI_TENSORS_MAX = BZI_TENSORS + BZI_LIMIT_COLUMNS + BZI_LIMIT_OUTPUTS - 1, BZI_DIMENSIONS = 5 };

/* A field that batches carry: as a tensor, or as bytes. */
typedef struct bzi_column {
    char     name[BZNA_NAME_MAX];
    uint32_t kind;                    /* BZNA_FIELD_... */
    uint32_t length;                  /* of a vector, numbers */
} bzi_column;

/* The bytes of a field in one slot. They grow to the largest value met. */
typedef struct bzi_slot_bytes {
    bzi_buffer buffer;
    uint64_t   size;
    uint32_t   present;
    uint32_t   reserved0;
} bzi_slot_bytes;

enum { BZI_BATCH_NEW, BZI_BATCH_FREE, BZI_BATCH_FILLING, BZI_BATCH_READY, BZI_BATCH_ON_LOAN, BZI_BATCH_RETIRING };

struct bzna_batch {
    bzna_loader *loader;
    uint32_t     state;               /* (L) changed by bzi_batch_to_free and its four neighbors only */
    uint32_t     slots;               /* samples, with padding */
    uint32_t     real;                /* slots that are not padding */
    uint32_t     unfinished;          /* (L) slots */
    uint32_t     failed, replaced;    /* (L) of the real ones */
    uint32_t     last_of_epoch;
    uint32_t     owned;               /* (L) on loan, and bzna_batch_release is to come */
    uint32_t     references;          /* (L) on loan: the owner's, and one a DLPack tensor */
    uint64_t     epoch, number, position;
    uint64_t     next_epoch, next_position;   /* where a run goes on after this batch */
    bzi_order    order;               /* of its epoch: the plan may be in a later one already */
    uint8_t     *block;               /* the arrays below, and data on the host that is not the user's */
    uint8_t    **slices;              /* where each slice of the data lies, on host or device */
    int64_t     *targets;
    uint64_t    *indices;
    bzna_status *status;
    bzna_error  *errors;
    void        *columns[2 * BZI_LIMIT_COLUMNS];      /* values of tensors, then bzi_slot_bytes of the others */
    bzi_dl_managed tensors[BZI_TENSORS_MAX];
    bzi_dl_versioned versioned[BZI_TENSORS_MAX];
    int64_t      shape[BZI_TENSORS_MAX][BZI_DIMENSIONS], strides[BZI_TENSORS_MAX][BZI_DIMENSIONS];
    uint64_t     device_data;         /* the library's, on the device: the data, or what the host gets a copy of */
    void        *pinned;              /* the library's host memory for data that comes from the device */
    void        *stream;              /* the consumer's */
    void       **written;             /* an event a lane */
    /* A flag a lane: it writes to this round of the batch. The lane's alone, until the batch is ready. */
    uint8_t     *touched;
    void        *released;            /* event on the consumer's stream */
    /* That event is recorded, and nobody has waited for it. (L); on loan, only who drops the last reference sets it. */
    uint32_t     has_release;
    uint64_t     retired_number;      /* (L) retiring: those with lower numbers were released before */
};

typedef struct bzi_worker {
    bzna_loader *loader;
    bzi_thread   thread;
    uint32_t     started;
    bzi_software software;
    bzi_scratch  scratch;
    bzi_image    images[BZI_LIMIT_OUTPUTS];   /* the sample's, one a pick; what they say; the decoded pictures */
    bzi_format   formats[BZI_LIMIT_OUTPUTS];
    bzna_picture pictures[BZI_LIMIT_OUTPUTS];
    bzi_views    views;
    bzi_buffer   workspace;
    bzi_buffer   drawn;               /* what the user's callback draws into */
    bzi_lane     lane;                /* with batches on the device */
    void        *staging;             /* likewise: pictures go from here, in pinned memory, */
    uint64_t     upload, upload_bytes;        /* to here, on the device */
    void        *uploaded;            /* event: staging may be written again */
} bzi_worker;

typedef struct bzi_reader {
    bzna_loader *loader;
    bzi_thread   thread;
    uint32_t     started;
    uint32_t     retries;             /* of the sample at hand */
    bzi_scratch  scratch;
} bzi_reader;

struct bzna_loader {
    bzna_context      *context;
    bzi_host          *host;          /* the context's */
    bzna_dataset      *dataset;
    bzna_loader_config config;        /* defaults filled in; immutable once open, but for seed */
    bzi_pick           picks[BZI_LIMIT_OUTPUTS];      /* the pictures of a sample; their names are copies */
    bzi_output         outputs[BZI_LIMIT_OUTPUTS];
    uint32_t           pick_count, output_count;
    int64_t            process;
    uint64_t           opened_ns;
    uint64_t           fingerprint;
    uint64_t           slot_bytes;    /* of a sample in all outputs; 0: batches have no pictures */
    uint64_t           data_bytes;    /* of a batch, likewise */
    uint64_t           block_bytes;
    uint32_t           item_count;
    bzi_device        *device;        /* NULL: nothing of this loader is on a device */
    bzi_pool          *pool;          /* NULL: software decodes */
    uint32_t           on_device;     /* batches lie there */
    uint32_t           lanes;
    void              *stream;        /* the consumer's */
    uint32_t           owns_stream;
    uint32_t           worker_count;
    bzna_codec_info    jpeg;          /* supported: of JPEG, NVDEC decodes what these limits admit; see below */
    char               reason[sizeof ((bzna_loader_info *)0)->decoder_reason];

    bzi_mutex mutex;
    bzi_cond  reader_wake, worker_wake, consumer_wake, control_wake;
    bzi_cond  holder_wake;            /* readers that wait with an item in hand */
    uint32_t  cond_count, has_mutex;

    uint32_t references;              /* (L) the owner's and one a batch on loan */
    uint32_t quit, stopped;           /* (L) */
    uint32_t paused;                  /* (L) resets and restores at work */
    uint32_t active;                  /* (L) readers and workers with an item in hand, and items with the pool */
    uint32_t holding;                 /* (L) of them, readers that wait: for memory, for a retry */
    uint32_t waiting;                 /* (L) a thread is in next */
    uint32_t on_loan, free_batches;   /* (L) */
    uint32_t reclaiming;              /* (L) a reader waits for the GPU work that reads a retiring batch */
    bzna_error poison;                /* (L) status < 0: what every call of next returns */

    bzi_item  *items;
    bzi_item **free_items;            /* (L) a stack */
    bzi_item **redo;                  /* (L) a stack: slots that take another sample */
    bzi_item **ring;                  /* (L) read, waiting for a worker; capacity item_count, as the two above */
    uint32_t   free_item_count, redo_count, ring_first, ring_count;      /* (L) */
    uint64_t   held_bytes;            /* (L) by all items */

    bzna_batch  *batches;
    uint8_t    **slice_data;
    void       **events;              /* of all batches */
    uint8_t     *touched;
    /* (L) Planned and not yet delivered, in order: a ring of batches_in_flight places. */
    bzna_batch **pending_batches;
    uint32_t     pending_first, pending_count;

    uint64_t  *indices;               /* what order points to */
    double    *weights, *sums;
    uint64_t  *ends;
    bzi_order  order;                 /* (L) of the epoch being planned */
    bzi_shard  shard;                 /* (L) likewise */
    uint64_t   epoch, end_epoch;      /* (L) */
    uint64_t   next_batch;            /* (L) number in the epoch */
    bzna_batch *planning;             /* (L) batch with slots not yet given out */
    uint32_t   next_slot;             /* (L) */
    uint64_t   done_epoch, done_position;     /* (L) after the last delivered batch */
    uint64_t   retired_count;         /* (L) batches that were ever retiring */

    /* fields of batches: first those that are tensors, then those that are bytes; how many of each */
    bzi_column        columns[2 * BZI_LIMIT_COLUMNS];
    uint32_t          column_count[2];
    uint64_t          stills;         /* bzi_dataset_hash_stills */
    bzi_worker       *workers;
    bzi_reader       *readers;
    bzna_loader_stats stats;          /* (L) */
    uint64_t          refusals[8];    /* (L) hashes of what was logged */
    uint32_t          in_pool;        /* (L) items with the pool or its engines */
    uint64_t          starved_ns;     /* (L) how long sessions had nothing to do, summed over them, ... */
    uint64_t          pool_ns;        /* (L) ... up to this time */
};

/* Of those that are tensors, bytes a slot. */
static uint64_t bzi_column_bytes(const bzi_column *column)
{
    return column->kind == BZNA_FIELD_INTEGER ? sizeof(int64_t) : column->length * sizeof(float);
}

/* Where a view of a slot lies in its output: each view is a batch. */
static uint64_t bzi_output_at(const bzi_output *output, uint32_t view, uint32_t slots, uint32_t slot)
{
    return output->offset + ((uint64_t)view * slots + slot) * output->picture_bytes;
}

/* Several slices are of one output and one view. */
static uint8_t *bzi_batch_slot(const bzna_batch *batch, const bzi_output *output, uint32_t view, uint32_t slot)
{
    uint32_t each = batch->loader->config.output.batch_size / batch->loader->config.output.slices;
    return batch->slices[slot / each] + bzi_output_at(output, view, batch->slots, slot % each);
}

/* The tensor of a field. */
static void bzi_column_describe(const bzi_column *column, uint64_t slots, bzna_tensor *tensor)
{
    tensor->dtype = column->kind == BZNA_FIELD_INTEGER ? BZNA_DTYPE_INT64 : BZNA_DTYPE_FLOAT32;
    tensor->dimensions = column->kind == BZNA_FIELD_INTEGER ? 1 : 2;
    tensor->shape[1] = column->kind == BZNA_FIELD_INTEGER ? 0 : column->length;
    tensor->bytes = slots * bzi_column_bytes(column);
    memcpy(tensor->name, column->name, sizeof tensor->name);
}

static void bzi_loader_describe_output(const bzna_loader *loader, const bzi_output *output, uint64_t slots,
                                       bzna_tensor *tensor)
{
    const bzna_output *o = &output->shape;
    const int last = o->layout == BZNA_LAYOUT_NHWC, several = output->views > 1;
    const uint32_t channels = bzi_channels(o->channels);
    const int64_t shape[BZI_DIMENSIONS] = { output->views, (int64_t)slots, last ? o->height : channels,
                                            last ? o->width : o->height, last ? channels : o->width };
    tensor->dtype = o->dtype;
    tensor->dimensions = several ? BZI_DIMENSIONS : BZI_DIMENSIONS - 1;
    memcpy(tensor->shape, shape + !several, tensor->dimensions * sizeof *shape);
    tensor->bytes = output->views * slots * output->picture_bytes;
    memcpy(tensor->name, output->name, sizeof tensor->name);
    if (loader->on_device)
        tensor->device = loader->device->info.device;
}

static uint32_t bzi_loader_tensors(const bzna_loader *loader)
{
    return BZI_TENSORS + loader->column_count[0] + loader->output_count - 1;
}

/* The output that a tensor is; NULL: it is none. */
static const bzi_output *bzi_loader_output(const bzna_loader *loader, uint32_t number)
{
    const uint32_t others = BZI_TENSORS + loader->column_count[0];
    return number == 0 ? loader->outputs : number >= others ? &loader->outputs[number - others + 1] : NULL;
}

/* One tensor of a batch of so many slots, without its data. Pre: number < bzi_loader_tensors. */
static void bzi_loader_describe_tensor(const bzna_loader *loader, uint32_t number, uint64_t slots, bzna_tensor *tensor)
{
    static const struct { const char *name; uint32_t dtype, bytes; } tensors[BZI_TENSORS] = {
        { "", 0, 0 },
        { "target", BZNA_DTYPE_INT64, 8 },
        { "index", BZNA_DTYPE_UINT64, 8 },
        { "status", BZNA_DTYPE_INT32, 4 },
    };
    const bzi_output *output = bzi_loader_output(loader, number);
    memset(tensor, 0, sizeof *tensor);
    tensor->struct_size = sizeof *tensor;
    tensor->device.kind = BZNA_DEVICE_CPU;
    tensor->dimensions = 1;
    tensor->shape[0] = (int64_t)slots;
    if (output) {
        bzi_loader_describe_output(loader, output, slots, tensor);
    } else if (number >= BZI_TENSORS) {
        bzi_column_describe(&loader->columns[number - BZI_TENSORS], slots, tensor);
    } else {
        tensor->dtype = tensors[number].dtype;
        tensor->bytes = slots * tensors[number].bytes;
        bzi_string_copy(tensor->name, sizeof tensor->name, tensors[number].name);
    }
}

static void bzi_batch_tensor(const bzna_batch *batch, uint32_t number, bzna_tensor *tensor)
{
    void *const data[BZI_TENSORS] = { NULL, batch->targets, batch->indices, batch->status };
    const bzi_output *output = bzi_loader_output(batch->loader, number);
    bzi_loader_describe_tensor(batch->loader, number, batch->slots, tensor);
    tensor->data = output               ? batch->slices[0] + output->offset :
                   number < BZI_TENSORS ? data[number] :
                                          batch->columns[number - BZI_TENSORS];
}

/* A tensor's number, by its name; that of the next one: there is no such tensor. */
static uint32_t bzi_loader_find_tensor(const bzna_loader *loader, const char *name)
{
    const uint32_t count = bzi_loader_tensors(loader);
    bzna_tensor tensor;
    uint32_t number = 0;
    for (; number < count; number++) {
        bzi_loader_describe_tensor(loader, number, 0, &tensor);
        if (strcmp(tensor.name, name) == 0)
            break;
    }
    return number;
}

/* A loader made before fork() has no threads in the child, and its lock may be held by one that is not there. */
static int bzi_loader_forked(const bzna_loader *loader) { return loader->process != bzi_os_process(); }

/* Stop, pause or quit was requested: do not wait with an item in hand. With the lock held. */
static int bzi_loader_interrupted(const bzna_loader *loader)
{
    return loader->quit || loader->paused || loader->stopped;
}

/* After quit, paused or stopped has changed. With the lock held. */
static void bzi_loader_wake_all(bzna_loader *loader)
{
    bzi_os_wake_all(&loader->reader_wake);
    bzi_os_wake_all(&loader->holder_wake);
    bzi_os_wake_all(&loader->worker_wake);
    bzi_os_wake_all(&loader->consumer_wake);
}

/* More sessions than a loader has slots need not all be busy with it. */
static uint32_t bzi_loader_sessions(const bzna_loader *loader)
{
    uint64_t slots = (uint64_t)loader->config.output.batch_size * loader->config.pipeline.batches_in_flight;
    return (uint32_t)bzi_min(loader->pool->count, slots);
}

/* Brings starved_ns up to date, as before each change of in_pool. With the lock held. */
static void bzi_loader_count_starved(bzna_loader *loader)
{
    uint64_t now = bzi_os_now_ns();
    uint32_t sessions = bzi_loader_sessions(loader);
    if (loader->in_pool < sessions)
        loader->starved_ns += (sessions - loader->in_pool) * (now - loader->pool_ns);
    loader->pool_ns = now;
}

/* The item goes to the pool, and comes from there. With the lock held. */
static void bzi_item_enter_pool(bzi_item *item)
{
    bzi_loader_count_starved(item->batch->loader);
    item->batch->loader->in_pool++;
    item->in_pool = 1;
}

static void bzi_item_leave_pool(bzi_item *item)
{
    bzi_loader_count_starved(item->batch->loader);
    item->batch->loader->in_pool--;
    item->in_pool = 0;
}

/* The thread that held the item has put it into a list or the ring. With the lock held. */
static void bzi_loader_done(bzna_loader *loader, bzi_item *item)
{
    loader->active--;
    if (item->in_pool)
        bzi_item_leave_pool(item);
    if (loader->paused || loader->quit)
        bzi_os_wake_all(&loader->control_wake);
}

/* Ends a loader that cannot go on: every call of next returns the error. With the lock held. */
static void bzi_loader_break(bzna_loader *loader, const bzna_error *err)
{
    if (loader->poison.status == BZNA_OK)
        loader->poison = *err;
    bzi_os_wake_all(&loader->consumer_wake);
}


/* Whether a coded picture is a JPEG that NVDEC decodes: by what the loader was opened with and by the file alone, never
 * by how busy, or how well, either decoder is. */
static int bzi_loader_is_nvdec_jpeg(const bzna_loader *loader, uint32_t codec, const bzi_format *format)
{
    const bzna_codec_info *limits = &loader->jpeg;
    return limits->supported && codec == BZNA_CODEC_JPEG && format->profile[0] && format->chroma_format == 1 &&
           format->width >= limits->min_width && format->width <= limits->max_width &&
           format->height >= limits->min_height && format->height <= limits->max_height &&
           (uint64_t)format->width * format->height / 256 <= limits->max_macroblocks;
}


/* ==== 52. Loader: the life of a batch, the plan ======================================================================
 * Calls: rooms 3, 35, 39, 51. Each change of a batch's state is one function. The plan says which sample goes into
 * which slot. All with the loader's lock held. */

/* The plan may take it. From new or on loan, where nothing on the device reads the batch; from retiring, when nothing
 * does so any more; from filling or ready, when a reset forgets what is planned. */
static void bzi_batch_to_free(bzna_batch *batch)
{
    bzna_loader *loader = batch->loader;
    loader->on_loan -= batch->state == BZI_BATCH_ON_LOAN;
    batch->state = BZI_BATCH_FREE;
    batch->has_release = 0;
    loader->free_batches++;
    bzi_os_wake_all(&loader->reader_wake);
}

/* From free: it is planned, and delivered after those that are pending. */
static void bzi_batch_to_filling(bzna_batch *batch)
{
    bzna_loader *loader = batch->loader;
    uint32_t last = (loader->pending_first + loader->pending_count++) % loader->config.pipeline.batches_in_flight;
    batch->state = BZI_BATCH_FILLING;
    loader->free_batches--;
    loader->pending_batches[last] = batch;
}

/* From filling: all its slots are written, or their writing is enqueued. */
static void bzi_batch_to_ready(bzna_batch *batch)
{
    batch->state = BZI_BATCH_READY;
    bzi_os_wake_all(&batch->loader->consumer_wake);
}

/* From ready: the first of the pending batches becomes the consumer's, and holds the loader. A state that is saved goes
 * on after it. */
static void bzi_batch_to_loan(bzna_batch *batch)
{
    bzna_loader *loader = batch->loader;
    batch->state = BZI_BATCH_ON_LOAN;
    batch->owned = batch->references = 1;
    loader->pending_first = (loader->pending_first + 1) % loader->config.pipeline.batches_in_flight;
    loader->pending_count--;
    loader->on_loan++;
    loader->references++;
    loader->done_epoch = batch->next_epoch;
    loader->done_position = batch->next_position;
}

/* From on loan: released, but GPU work may still read it. From new: whoever had its memory before may still use that,
 * on the consumer's stream. A reader may wait for either. */
static void bzi_batch_to_retiring(bzna_batch *batch)
{
    bzna_loader *loader = batch->loader;
    loader->on_loan -= batch->state == BZI_BATCH_ON_LOAN;
    batch->state = BZI_BATCH_RETIRING;
    batch->retired_number = loader->retired_count++;
    bzi_os_wake_all(&loader->reader_wake);
}

/* --- Plan: all with the lock held --- */

static void bzi_plan_epoch(bzna_loader *loader, uint64_t epoch, uint64_t start)
{
    loader->epoch = epoch;
    loader->next_batch = 0;
    loader->shard.start = start;
}

/* Moves past epochs that have no batch left. Only the first can be empty: open refuses a plan without batches. */
static int bzi_plan_has_batch(bzna_loader *loader)
{
    while (loader->epoch < loader->end_epoch && loader->next_batch >= bzi_shard_batches(&loader->shard))
        bzi_plan_epoch(loader, loader->epoch + 1, 0);
    return loader->epoch < loader->end_epoch;
}

static bzna_batch *bzi_plan_free_batch(bzna_loader *loader)
{
    for (uint32_t i = 0; i < loader->config.pipeline.batches_in_flight; i++)
        if (loader->batches[i].state == BZI_BATCH_FREE)
            return &loader->batches[i];
    return NULL;
}

/* Makes order that of the epoch being planned. A ranked order is one array, which batches still being filled may need:
 * then not yet. */
static int bzi_plan_order(bzna_loader *loader)
{
    if (loader->order.valid && loader->order.epoch == loader->epoch && loader->order.seed == loader->config.order.seed)
        return 1;
    for (uint32_t i = 0; loader->order.ranked && i < loader->config.pipeline.batches_in_flight; i++)
        if (loader->batches[i].state == BZI_BATCH_FILLING)
            return 0;
    bzi_order_epoch(&loader->order, loader->config.order.seed, loader->epoch);
    return 1;
}

/* Opens the next batch of the plan. Returns 0 when there is none, or no free batch for it. */
static int bzi_plan_batch(bzna_loader *loader)
{
    const bzi_shard *shard = &loader->shard;
    bzna_batch *batch;
    if (loader->poison.status != BZNA_OK)                   /* nobody will get it */
        return 0;
    if (!bzi_plan_has_batch(loader) || !loader->free_batches || !bzi_plan_order(loader))
        return 0;
    batch = bzi_plan_free_batch(loader);
    batch->epoch = loader->epoch;
    batch->order = loader->order;
    batch->number = loader->next_batch++;
    batch->position = bzi_shard_position(shard, batch->number);
    batch->real = bzi_shard_real(shard, batch->number);
    batch->slots = shard->last_batch == BZNA_LAST_PAD ? shard->batch : batch->real;
    batch->unfinished = batch->slots;
    batch->failed = batch->replaced = 0;
    batch->last_of_epoch = loader->next_batch == bzi_shard_batches(shard);
    batch->next_epoch = loader->epoch + batch->last_of_epoch;
    batch->next_position = batch->last_of_epoch ? 0 : shard->start + loader->next_batch * bzi_shard_step(shard);
    bzi_batch_to_filling(batch);
    if (batch->slots) {
        loader->planning = batch;
        loader->next_slot = 0;
    } else {
        bzi_batch_to_ready(batch);                          /* the last samples of the epoch went to other ranks */
    }
    return 1;
}

static void bzi_plan_sample(const bzna_loader *loader, bzi_item *item)
{
    item->index = bzi_order_at(&item->batch->order, item->position);
    item->local = item->index;
    item->decode_ns = item->warp_ns = item->by_nvdec = item->tiles = 0;
    item->frames = item->passed_over = 0;
    item->container = bzi_dataset_at(loader->dataset, &item->local);
    item->batch->indices[item->slot] = item->index;
}

/* Gives the next sample of the plan to an item. Returns 0 when there is none, or no free batch. */
static int bzi_plan_item(bzna_loader *loader, bzi_item *item)
{
    const bzi_shard *shard = &loader->shard;
    while (!loader->planning)
        if (!bzi_plan_batch(loader))
            return 0;
    item->batch = loader->planning;
    item->slot = loader->next_slot++;
    item->replacements = 0;
    item->position = (item->batch->position + (uint64_t)item->slot * shard->world) % shard->count;
    bzi_plan_sample(loader, item);
    if (loader->next_slot == item->batch->slots)
        loader->planning = NULL;
    return 1;
}

/* --- The pool's queue --- */

/* Hands an item to the engines. Returns 0 when there are none left. With the loader's lock held. */
static int bzi_pool_submit(bzi_pool *pool, bzi_item *item)
{
    int alive, wake;
    bzi_os_lock(&pool->mutex);
    alive = pool->live > 0;
    if (alive) {
        bzi_item_enter_pool(item);
        item->next = NULL;
        if (pool->last)
            pool->last->next = item;
        else
            pool->first = item;
        pool->last = item;
        pool->queued++;
    }
    wake = alive && pool->idle;
    bzi_os_unlock(&pool->mutex);
    if (wake)
        bzi_os_wake_one(&pool->wake);
    return alive;
}

/* Takes a loader's items out of the queue, because they will be thrown away. With the loader's lock held. */
static void bzi_pool_withdraw(bzna_loader *loader)
{
    bzi_pool *pool = loader->pool;
    bzi_item **link, *item, *last = NULL;
    if (!pool)
        return;
    bzi_os_lock(&pool->mutex);
    for (link = &pool->first; (item = *link) != NULL; ) {
        if (item->batch->loader != loader) {
            last = item;
            link = &item->next;
            continue;
        }
        *link = item->next;
        pool->queued--;
        loader->free_items[loader->free_item_count++] = item;
        bzi_loader_done(loader, item);
    }
    pool->last = last;
    bzi_os_unlock(&pool->mutex);
}


/* ==== 53. Loader: fields =============================================================================================
 * Calls: rooms 2, 4-5, 15, 33-34, 51. The fields that batches carry besides picture and target: numbers as tensors,
 * others as bytes, a value a slot. The values of a slot belong to whoever holds its item. */

/* The column of a field whose bytes batches carry; BZI_NO_FIELD: they do not. */
static uint32_t bzi_loader_find_bytes(const bzna_loader *loader, const char *name)
{
    for (uint32_t i = loader->column_count[0]; i < loader->column_count[0] + loader->column_count[1]; i++)
        if (strcmp(loader->columns[i].name, name) == 0)
            return i;
    return BZI_NO_FIELD;
}

/* --- Opening: which fields --- */

/* The next of the names in a list with commas between them, and the length behind its colon, 0: none. Returns 0 at the
 * end, -1 where *list begins with no name. */
static int bzi_columns_next(const char **list, bzi_column *column)
{
    const char *at = *list, *end = strchr(at, ',');
    size_t size = end ? (size_t)(end - at) : strlen(at);
    const char *colon = memchr(at, ':', size);
    char *after;
    unsigned long length;
    memset(column, 0, sizeof *column);
    if (!*at)
        return 0;
    if (colon) {
        length = strtoul(colon + 1, &after, 10);
        if (after != at + size || colon[1] < '0' || colon[1] > '9' || length == 0 || length > BZI_LIMIT_VECTOR)
            return -1;
        column->length = (uint32_t)length;
        size = (size_t)(colon - at);
    }
    if (size == 0 || size >= sizeof column->name)
        return -1;
    memcpy(column->name, at, size);
    *list = end ? end + 1 : at + strlen(at);
    return 1;
}

/* The first part that has the field, and what it is there. */
static const bzi_part *bzi_dataset_find_field(const bzna_dataset *dataset, const char *name, bzi_field *field)
{
    for (uint32_t i = 0; i < dataset->part_count; i++)
        if (bzi_container_find_field(dataset->parts[i].container, name, field) != BZI_NO_FIELD)
            return &dataset->parts[i];
    return NULL;
}

/* A vector has as many numbers as that of the first sample of its part, unless it was said how many. */
static bzna_status bzi_column_measure(bzi_column *column, const bzi_part *part, bzna_error *err)
{
    bzi_value value = { NULL, 0, 0, 0 };
    bzna_status status = bzi_container_field(part->container, part->first, column->name, &value, err);
    if (status != BZNA_E_BUFFER && status != BZNA_OK)
        return bzi_container_fail(part->container, part->first, err);
    if (value.size == 0 || value.size / sizeof(float) > BZI_LIMIT_VECTOR)
        return BZI_FAIL(err, BZNA_E_LIMIT, "\"%s\" has %llu numbers in the first sample; 1 to %u can be a tensor",
                        column->name, (unsigned long long)(value.size / sizeof(float)), BZI_LIMIT_VECTOR);
    column->length = (uint32_t)(value.size / sizeof(float));
    return BZNA_OK;
}

static bzna_status bzi_column_make(const bzna_loader *loader, bzi_column *column, int is_tensor, bzna_error *err)
{
    bzi_field field = { 0, 0, "" };
    const bzi_part *part = bzi_dataset_find_field(loader->dataset, column->name, &field);
    if (is_tensor ? bzi_loader_find_tensor(loader, column->name) < bzi_loader_tensors(loader) :
                    bzi_loader_find_bytes(loader, column->name) != BZI_NO_FIELD)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "\"%s\" is a tensor of every batch, or named twice; fields.bytes "
                        "takes a field of that name", column->name);
    if (!part)
        return BZI_FAIL(err, BZNA_E_NOT_FOUND, "the data set has no field \"%s\"", column->name);
    column->kind = field.kind;
    if (is_tensor && field.kind != BZNA_FIELD_INTEGER && field.kind != BZNA_FIELD_VECTOR)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "\"%s\" is no number: name it in fields.bytes", column->name);
    if (column->length && field.kind != BZNA_FIELD_VECTOR)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "\"%s:%u\": only vectors have a length", column->name, column->length);
    if (!is_tensor || column->length || field.kind == BZNA_FIELD_INTEGER)
        return BZNA_OK;
    return bzi_column_measure(column, part, err);
}

/* One of the two lists of names. */
static bzna_status bzi_loader_list_columns(bzna_loader *loader, const char *list, int is_tensor, bzna_error *err)
{
    const char *const setting = is_tensor ? "loader_config.fields.tensors" : "loader_config.fields.bytes";
    uint32_t *count = &loader->column_count[!is_tensor];
    bzi_column column;
    int got = 0;
    while (list && (got = bzi_columns_next(&list, &column)) > 0) {
        if (*count == BZI_LIMIT_COLUMNS)
            return BZI_FAIL(err, BZNA_E_LIMIT, "%s: more than %u names", setting, BZI_LIMIT_COLUMNS);
        if (bzi_column_make(loader, &column, is_tensor, err) != BZNA_OK)
            return bzi_error_prefix(err, setting);
        loader->columns[is_tensor ? *count : loader->column_count[0] + *count] = column;
        ++*count;
    }
    return got < 0 ? BZI_FAIL(err, BZNA_E_ARGUMENT, "%s: names with commas between them, a vector's length behind a "
                              "colon: \"%.*s\" is none", setting, (int)bzi_min(strcspn(list, ","), 40), list) : BZNA_OK;
}

static bzna_status bzi_loader_make_columns(bzna_loader *loader, bzna_error *err)
{
    const bzna_loader_fields *fields = &loader->config.fields;
    bzna_status status = bzi_loader_list_columns(loader, fields->tensors, 1, err);
    return status == BZNA_OK ? bzi_loader_list_columns(loader, fields->bytes, 0, err) : status;
}

/* --- Values --- */

static bzi_slot_bytes *bzi_batch_bytes(const bzna_batch *batch, uint32_t column, uint32_t slot)
{
    return (bzi_slot_bytes *)batch->columns[column] + slot;
}

/* A slot has no value yet: -1, NaN, no bytes. */
static void bzi_item_clear_fields(const bzi_item *item)
{
    const bzna_loader *loader = item->batch->loader;
    uint32_t i = 0;
    for (; i < loader->column_count[0]; i++) {
        const bzi_column *column = &loader->columns[i];
        uint8_t *at = (uint8_t *)item->batch->columns[i] + item->slot * bzi_column_bytes(column);
        for (uint32_t k = 0; k < column->length; k++)
            memcpy(at + k * sizeof(float), &(float){ NAN }, sizeof(float));
        if (column->kind == BZNA_FIELD_INTEGER)
            memcpy(at, &(int64_t){ BZNA_TARGET_NONE }, sizeof(int64_t));
    }
    for (; i < loader->column_count[0] + loader->column_count[1]; i++)
        bzi_batch_bytes(item->batch, i, item->slot)->present = 0;
}

/* A number or a vector into its place; shorter vectors leave NaN behind them. */
static bzna_status bzi_item_put_number(const bzi_item *item, const bzi_sample *sample, uint32_t i, uint32_t number,
                                       bzna_error *err)
{
    const bzi_column *column = &item->batch->loader->columns[i];
    const uint64_t bytes = bzi_column_bytes(column);
    bzi_value value = { (uint8_t *)item->batch->columns[i] + item->slot * bytes, bytes, 0, 0 };
    bzna_status status = bzi_container_value(item->container, sample, number, &value, err);
    if (status == BZNA_OK && value.size > bytes)
        return BZI_FAIL(err, BZNA_E_MISMATCH, "its %s has %llu numbers, more than the %u of fields.tensors",
                        column->name, (unsigned long long)(value.size / sizeof(float)), column->length);
    return status;
}

/* A picture as a stream of its own, as much of it as there is room for. */
static bzna_status bzi_item_get_picture(bzi_reader *reader, const bzi_item *item, const bzi_sample *sample,
                                        const char *name, bzi_value *value, bzna_error *err)
{
    const bzi_pick pick = { name, 0 };
    bzi_image image;
    bzna_status status = bzi_container_image(item->container, sample, &pick, &reader->scratch, &image, err);
    value->absent = status == BZNA_E_NOT_FOUND;
    if (status != BZNA_OK)
        return value->absent ? BZNA_OK : status;
    return bzi_image_stream(&image.coded, value->data, value->capacity, &value->size, err);
}

/* Into the slot's memory, which grows. A NUL stands behind them, so that text is a string. number: of the field;
 * BZI_NO_FIELD: it is a picture, asked for by its name. */
static bzna_status bzi_item_put_bytes(bzi_reader *reader, const bzi_item *item, const bzi_sample *sample, uint32_t i,
                                      uint32_t number, bzna_error *err)
{
    const bzi_column *column = &reader->loader->columns[i];
    bzi_slot_bytes *out = bzi_batch_bytes(item->batch, i, item->slot);
    for (;;) {
        bzi_value value = { out->buffer.data, out->buffer.capacity ? out->buffer.capacity - 1 : 0, 0, 0 };
        bzna_status status = number == BZI_NO_FIELD ?
                                 bzi_item_get_picture(reader, item, sample, column->name, &value, err) :
                                 bzi_container_value(item->container, sample, number, &value, err);
        if (status != BZNA_OK || value.absent)
            return status;
        if (out->buffer.capacity > value.size) {
            value.data[value.size] = 0;
            out->size = value.size;
            out->present = 1;
            return BZNA_OK;
        }
        if (!bzi_buffer_reserve(&reader->loader->host->memory, &out->buffer, value.size + 1, 0))
            return bzi_fail_memory(err, "the bytes of a field");
    }
}

/* The fields of a sample that was read. */
static bzna_status bzi_item_fields(bzi_reader *reader, const bzi_item *item, const bzi_sample *sample,
                                   bzna_error *err)
{
    const bzna_loader *loader = reader->loader;
    bzna_status status = BZNA_OK;
    for (uint32_t i = 0; i < loader->column_count[0] + loader->column_count[1] && status == BZNA_OK; i++) {
        bzi_field field = { 0, 0, "" };
        uint32_t number = bzi_container_find_field(item->container, loader->columns[i].name, &field);
        if (number == BZI_NO_FIELD)
            continue;                                       /* other parts of the data set have it */
        if (i >= loader->column_count[0])
            status = bzi_item_put_bytes(reader, item, sample, i,
                                        field.kind == BZNA_FIELD_PICTURE ? BZI_NO_FIELD : number, err);
        else if (field.kind == loader->columns[i].kind)
            status = bzi_item_put_number(item, sample, i, number, err);
        else
            status = BZI_FAIL(err, BZNA_E_MISMATCH, "its %s is of another kind than in other samples", field.name);
    }
    return status;
}

static void bzi_batch_free_bytes(bzna_batch *batch)
{
    const bzna_loader *loader = batch->loader;
    for (uint32_t i = loader->column_count[0]; i < loader->column_count[0] + loader->column_count[1]; i++)
        for (uint32_t slot = 0; slot < loader->config.output.batch_size; slot++)
            bzi_buffer_free(&loader->host->memory, &bzi_batch_bytes(batch, i, slot)->buffer);
}


/* ==== 54. Loader: outputs ============================================================================================
 * Calls: rooms 5, 39-41. What becomes of a sample: the transforms of its views, which are drawn before its pictures are
 * decoded; their slots, once they were. */

/* The random numbers of a view. A sample that comes again in an epoch has others. */
static bzna_random bzi_item_random(const bzi_item *item, uint32_t operation, uint32_t view)
{
    bzna_random random;
    bzi_random_init(&random, item->batch->loader->config.order.seed, item->batch->epoch, item->index, operation);
    bzi_random_fork(&random, view, item->batch->order.repeats ? item->position : 0);
    return random;
}

/* Whether a matrix cannot be told from one without an inverse: rounding alone may leave such a determinant. */
static int bzi_is_singular(const double h[9])
{
    static const uint8_t terms[6][3] = { { 0, 4, 8 }, { 1, 5, 6 }, { 2, 3, 7 }, { 2, 4, 6 }, { 1, 3, 8 }, { 0, 5, 7 } };
    double determinant = 0, largest = 0;
    for (int i = 0; i < 6; i++) {
        const double term = h[terms[i][0]] * h[terms[i][1]] * h[terms[i][2]];
        determinant += i < 3 ? term : -term;
        largest = fmax(largest, fabs(term));
    }
    return !(fabs(determinant) > 16 * DBL_EPSILON * largest);
}

/* What callbacks are told of a view, or of a picture whose first view it is. */
static bzna_sample_info bzi_item_info(const bzi_item *item, const bzi_output *output, uint32_t view,
                                      const bzna_picture *picture)
{
    bzna_sample_info info = { .struct_size = sizeof info, .slot = item->slot, .index = item->index };
    info.epoch = item->batch->epoch;
    info.target = item->batch->targets[item->slot];
    info.width = bzi_picture_width(picture);
    info.height = bzi_picture_height(picture);
    info.out_width = output->shape.width;
    info.out_height = output->shape.height;
    info.occurrence = item->batch->order.repeats ? item->position : 0;
    info.view = output->random + view;
    info.output = (uint32_t)(output - item->batch->loader->outputs);
    return info;
}

/* What the user's callback makes of a view. */
static bzna_status bzi_view_ask(const bzi_item *item, const bzi_output *output, uint32_t view,
                                const bzna_picture *picture, bzna_transform *transform, bzna_error *err)
{
    const bzna_loader *loader = item->batch->loader;
    const bzna_loader_pipeline *pipeline = &loader->config.pipeline;
    bzna_random random = bzi_item_random(item, BZNA_OPERATION_USER, output->random + view);
    bzna_sample_info info = bzi_item_info(item, output, view, picture);
    bzna_status status;
    bzi_os_in_callback++;
    status = pipeline->transform(pipeline->transform_user, &info, &random, transform);
    bzi_os_in_callback--;
    if (status < 0)
        return bzi_fail(err, BZNA_E_CALLBACK, BZNA_NO_OFFSET, 0, status, "the transform callback returned %d",
                        (int)status);
    if ((status = bzi_transform_check(transform, err)) == BZNA_OK && bzi_is_singular(transform->homography))
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "transform.homography: it is singular");
    return status;
}

/* A view that is warped as the first output's is: from its pixels to those of the first output, from there by that warp
 * to the first picture, and from there to its own. Edges meet edges: x of n pixels is (x + 1/2) * m / n - 1/2 of m. */
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
    for (int row = 0; row < 9; row += 3) {
        const double *g = given->homography + row;
        h[row] = g[0] * out[0];
        h[row + 1] = g[1] * out[1];
        h[row + 2] = g[0] * (out[0] - 1) / 2 + g[1] * (out[1] - 1) / 2 + g[2];
    }
    for (int i = 0; i < 6; i++)
        h[i] = h[i] * in[i / 3] + h[6 + i % 3] * (in[i / 3] - 1) / 2;
}

/* What the config and the user's callback make of a sample: a transform a view, by the sizes that its pictures say. */
static bzna_status bzi_item_draw(const bzi_item *item, const bzna_picture *pictures, bzna_transform *transforms,
                                 bzna_error *err)
{
    const bzna_loader *loader = item->batch->loader;
    bzna_status status = BZNA_OK;
    for (uint32_t i = 0; i < loader->output_count; i++) {
        const bzi_output *output = &loader->outputs[i];
        const bzna_picture *picture = &pictures[output->picture];
        const uint32_t in[2] = { bzi_picture_width(picture), bzi_picture_height(picture) };
        const uint32_t out[2] = { output->shape.width, output->shape.height };
        for (uint32_t view = 0; view < output->views && status == BZNA_OK; view++) {
            bzna_transform *transform = &transforms[output->first + view];
            bzna_random random;
            if (output->own_warp) {
                *transform = output->transform;
                random = bzi_item_random(item, BZNA_OPERATION_WARP, output->random + view);
                bzi_warp_draw(&random, &output->warp, in, out, transform->homography);
            } else {
                bzi_view_share(output, loader->outputs, &transforms[view], pictures, transform);
            }
            if (output->own_warp || output->own_color) {
                random = bzi_item_random(item, BZNA_OPERATION_COLOR, output->own_warp ? output->random + view : view);
                bzi_jitter_draw(&random, &output->jitter, transform);
            }
            if (output->own_warp && loader->config.pipeline.transform)
                status = bzi_view_ask(item, output, view, picture, transform, err);
        }
    }
    return status;
}

/* The slots of one of the sample's pictures, which was decoded at 1/shrink of its size, but for where they lie. */
static bzna_status bzi_item_slots(const bzi_item *item, uint32_t number, const bzna_picture *picture, uint32_t shrink,
                                  bzi_views *views, bzna_error *err)
{
    const bzna_loader *loader = item->batch->loader;
    bzna_status status = BZNA_OK;
    for (uint32_t i = 0; i < loader->output_count; i++) {
        const bzi_output *output = &loader->outputs[i];
        const uint32_t end = output->picture == number ? output->first + output->views : 0;
        for (uint32_t n = output->first; n < end && status == BZNA_OK; n++) {
            status = bzi_slot_make(&views->slots[n], picture, &views->transforms[n], output->shape.channels, err);
            bzi_slot_shrink(&views->slots[n], shrink);
        }
    }
    return status;
}


/* ==== 55. Readers ====================================================================================================
 * Calls: rooms 2-5, 13, 34, 46-47, 51-53. Threads that take samples in the planned order, read their bytes, and hand
 * them on. An idle reader reclaims retiring batches. Functions called with the lock held return with it held, even if
 * they wait meanwhile. */

/* --- Reclaiming --- */

/* The host waits until no GPU work of the consumer's reads the batch. In the CUDA context. */
static bzna_status bzi_batch_drain_reads(const bzna_batch *batch, bzna_error *err)
{
    bzi_device *device = batch->loader->device;
    return batch->has_release ? bzi_device_await(device, batch->released, err) :
                                bzi_device_drain(device, batch->stream, err);
}

/* The retiring batch that was released first, if the plan needs a batch and none is free. One reader reclaims at a
 * time; the only one does not while it may have to read a replacement for a batch that is being filled. With the lock
 * held. */
static bzna_batch *bzi_reader_reclaimable(bzna_loader *loader)
{
    const bzna_loader_config *config = &loader->config;
    const int only_reader = config->read.threads == 1 && config->errors.policy == BZNA_ON_ERROR_REPLACE;
    bzna_batch *found = NULL;
    if (loader->reclaiming || loader->planning || loader->free_batches || loader->poison.status != BZNA_OK ||
        bzi_loader_interrupted(loader) || !bzi_plan_has_batch(loader))
        return NULL;
    for (uint32_t i = 0; i < config->pipeline.batches_in_flight; i++) {
        bzna_batch *batch = &loader->batches[i];
        if (batch->state == BZI_BATCH_FILLING && only_reader)
            return NULL;
        if (batch->state == BZI_BATCH_RETIRING && (!found || batch->retired_number < found->retired_number))
            found = batch;
    }
    return found;
}

/* Waits until the batch can be written. With the lock held, but not while it waits. */
static void bzi_reader_reclaim(bzna_batch *batch)
{
    bzna_loader *loader = batch->loader;
    bzna_error err;
    bzna_status status;
    loader->reclaiming = 1;
    bzi_os_unlock(&loader->mutex);
    status = bzi_batch_drain_reads(batch, &err);
    bzi_os_lock(&loader->mutex);
    loader->reclaiming = 0;
    if (status == BZNA_OK)
        bzi_batch_to_free(batch);
    else
        bzi_loader_break(loader, &err);                     /* nothing may be written where GPU work perhaps reads */
    bzi_os_wake_all(&loader->reader_wake);                  /* another reader may reclaim the next */
}

/* --- Taking items --- */

/* The next sample to read: a slot's replacement, or the plan's next. NULL if there is none now. With the lock held. */
static bzi_item *bzi_reader_next(bzna_loader *loader)
{
    if (bzi_loader_interrupted(loader))
        return NULL;
    if (loader->redo_count)
        return loader->redo[--loader->redo_count];
    if (loader->free_item_count && bzi_plan_item(loader, loader->free_items[loader->free_item_count - 1]))
        return loader->free_items[--loader->free_item_count];
    return NULL;
}

/* For a reader that has nothing to read: reclaims a batch, or waits. With the lock held. */
static void bzi_reader_idle(bzna_loader *loader)
{
    uint64_t start = bzi_os_now_ns();
    bzna_batch *batch = bzi_reader_reclaimable(loader);
    if (batch)
        bzi_reader_reclaim(batch);
    else
        bzi_os_wait(&loader->reader_wake, &loader->mutex);
    loader->stats.stage[BZNA_STAGE_READ].wait_after_ns += bzi_os_now_ns() - start;
}

/* An item with a sample to read, or NULL when the loader closes. With the lock held. */
static bzi_item *bzi_reader_take(bzna_loader *loader)
{
    while (!loader->quit) {
        bzi_item *item = bzi_reader_next(loader);
        if (item) {
            loader->active++;
            return item;
        }
        bzi_reader_idle(loader);
    }
    return NULL;
}

/* --- Memory for what is read --- */

/* Frees the bytes of one item that nobody uses: free, or waiting for another sample. Returns 0 when there is none. With
 * the lock held, but not around the user's allocator. */
static int bzi_reader_trim(bzna_loader *loader)
{
    for (uint32_t i = 0; i < loader->free_item_count + loader->redo_count; i++) {
        uint32_t free_items = loader->free_item_count;
        bzi_item *item = i < free_items ? loader->free_items[i] : loader->redo[i - free_items];
        bzi_buffer bytes = item->bytes;
        if (!bytes.capacity)
            continue;
        memset(&item->bytes, 0, sizeof item->bytes);
        bzi_os_unlock(&loader->mutex);
        bzi_release(&loader->host->memory, bytes.data, bytes.capacity, 1);
        bzi_os_lock(&loader->mutex);
        loader->held_bytes -= bytes.capacity;
        return 1;
    }
    return 0;
}

/* Exchanges `had` bytes for `want` under the common ceiling: waits until others have freed enough. */
static bzna_status bzi_reader_wait_memory(bzna_loader *loader, uint64_t had, uint64_t want, bzna_error *err)
{
    const uint64_t ceiling = loader->config.read.memory_bytes;
    int fits;
    bzi_os_lock(&loader->mutex);
    loader->held_bytes -= had;
    loader->holding++;
    while (loader->held_bytes + want > ceiling && !bzi_loader_interrupted(loader))
        if (!bzi_reader_trim(loader))
            bzi_os_wait(&loader->holder_wake, &loader->mutex);
    loader->holding--;
    fits = loader->held_bytes + want <= ceiling;
    loader->held_bytes += fits ? want : 0;
    bzi_os_unlock(&loader->mutex);
    return fits ? BZNA_OK : BZI_FAIL(err, BZNA_E_STOPPED, "the loader was stopped");
}

/* Memory for the item's sample. */
static bzna_status bzi_reader_reserve(bzna_loader *loader, bzi_item *item, bzna_error *err)
{
    uint64_t ceiling = loader->config.read.memory_bytes, want = 4096, had = item->bytes.capacity;
    bzna_status status;
    if (item->extent.size <= had)
        return BZNA_OK;
    if (item->extent.size > ceiling)
        return BZI_FAIL(err, BZNA_E_LIMIT, "its %llu bytes are more than loader_config.read.memory_bytes, %llu",
                        (unsigned long long)item->extent.size, (unsigned long long)ceiling);
    while (want < item->extent.size)
        want *= 2;
    want = bzi_min(want, ceiling);
    bzi_buffer_free(&loader->host->memory, &item->bytes);   /* first: of two that wait, neither may hold memory */
    if ((status = bzi_reader_wait_memory(loader, had, want, err)) != BZNA_OK)
        return status;
    item->bytes.data = bzi_alloc(&loader->host->memory, want, 1, BZI_BATCH_ALIGN);
    if (item->bytes.data) {
        item->bytes.capacity = want;
        return BZNA_OK;
    }
    bzi_os_lock(&loader->mutex);
    loader->held_bytes -= want;
    bzi_os_unlock(&loader->mutex);
    return bzi_fail_memory(err, "a sample's bytes");
}

/* --- Reading --- */

/* Waits before a retry. Returns 0 when the loader was interrupted. */
static int bzi_reader_back_off(bzna_loader *loader, uint64_t ns)
{
    uint64_t deadline = bzi_os_now_ns() + bzi_min(ns, INT64_MAX / 2);       /* 146 years: no overflow in what follows */
    int go_on;
    bzi_os_lock(&loader->mutex);
    loader->holding++;
    while (!bzi_loader_interrupted(loader) && bzi_os_now_ns() < deadline)
        bzi_os_wait_until(&loader->holder_wake, &loader->mutex, deadline);
    loader->holding--;
    go_on = !bzi_loader_interrupted(loader);
    bzi_os_unlock(&loader->mutex);
    return go_on;
}

/* The item's sample, into its bytes, and its target. */
static bzna_status bzi_reader_read(bzi_reader *reader, bzi_item *item, bzna_error *err)
{
    bzna_loader *loader = reader->loader;
    const bzi_container *container = item->container;
    const bzi_sample unread = { item->local, { 0, 0 }, NULL };
    int64_t *target = &item->batch->targets[item->slot];
    bzi_reading reading;
    bzna_status status = BZNA_OK;
    *target = BZNA_TARGET_NONE;
    bzi_item_clear_fields(item);
    item->extent.size = 0;
    if ((!container->target_inside && (status = bzi_container_target(container, &unread, target, err)) != BZNA_OK) ||
        (status = bzi_reading_begin(&reading, container, item->local, err)) != BZNA_OK)
        return status;
    item->extent = reading.sample.extent;
    if ((status = bzi_reader_reserve(loader, item, err)) == BZNA_OK &&
        (status = bzi_reading_read(&reading, item->bytes.data, err)) == BZNA_OK && container->target_inside)
        status = bzi_container_target(container, &reading.sample, target, err);
    bzi_reading_end(&reading);
    return status == BZNA_OK ? bzi_item_fields(reader, item, &reading.sample, err) : status;
}

static bzna_status bzi_reader_fetch(bzi_reader *reader, bzi_item *item, bzna_error *err)
{
    bzna_loader *loader = reader->loader;
    uint64_t backoff = loader->config.read.backoff_ns;
    bzna_status status;
    reader->retries = 0;
    for (;;) {
        status = bzi_reader_read(reader, item, err);
        if (status != BZNA_E_IO || reader->retries == loader->config.read.retries ||
            !bzi_reader_back_off(loader, backoff))
            return status;
        reader->retries++;
        backoff = backoff > UINT64_MAX / 2 ? backoff : backoff * 2;
    }
}

/* From a reader, or an engine that cannot decode it. With the lock held. */
static void bzi_loader_to_workers(bzna_loader *loader, bzi_item *item)
{
    bzna_error err;
    if (!loader->worker_count) {
        BZI_FAIL(&err, BZNA_E_MEMORY, "no decode session is left, and this build has no libavcodec");
        bzi_loader_break(loader, &err);
    }
    loader->ring[(loader->ring_first + loader->ring_count++) % loader->item_count] = item;
    bzi_os_wake_one(&loader->worker_wake);
    bzi_loader_done(loader, item);
}

/* What was read goes to the device's engines, or to the loader's workers. With the lock held. */
static void bzi_reader_hand_on(bzna_loader *loader, bzi_item *item)
{
    const bzi_span bytes = { item->bytes.data, item->status == BZNA_OK ? item->extent.size : 0 };
    const int is_still = item->container->ops->still && !bzi_heif_probe(bytes);
    const int to_pool = loader->pool && !is_still && !bzi_loader_interrupted(loader);
    if (to_pool && bzi_pool_submit(loader->pool, item))
        return;
    loader->stats.fallbacks += to_pool && item->status == BZNA_OK;
    bzi_loader_to_workers(loader, item);
}

static void *bzi_reader_run(void *argument)
{
    bzi_reader *reader = argument;
    bzna_loader *loader = reader->loader;
    bzna_stage_stats *stage = &loader->stats.stage[BZNA_STAGE_READ];
    bzna_error err;
    bzi_item *item;
    int entered = loader->device && bzi_device_enter_thread(loader->device, &err) == BZNA_OK;
    bzi_os_lock(&loader->mutex);
    if (loader->device && !entered)
        bzi_loader_break(loader, &err);
    while ((item = bzi_reader_take(loader)) != NULL) {
        uint64_t start;
        bzi_os_unlock(&loader->mutex);
        start = bzi_os_now_ns();
        item->status = bzi_reader_fetch(reader, item, &item->batch->errors[item->slot]);
        start = bzi_os_now_ns() - start;
        bzi_os_lock(&loader->mutex);
        stage->busy_ns += start;
        stage->count++;
        stage->bytes += item->status == BZNA_OK ? item->extent.size : 0;
        loader->stats.retries += reader->retries;
        bzi_reader_hand_on(loader, item);
    }
    bzi_os_unlock(&loader->mutex);
    if (entered)
        bzi_device_leave(loader->device);
    return NULL;
}


/* ==== 56. Decode stages: lanes =======================================================================================
 * Calls: rooms 3, 5, 33-34, 41, 47, 51-52. How a sample ends, warped or failed, and the lanes: streams that write slots
 * on the device. */

/* One of the coded pictures in an item's bytes. */
static bzna_status bzi_item_image(const bzi_item *item, uint32_t number, bzi_scratch *scratch, bzi_image *image,
                                  bzna_error *err)
{
    bzi_sample sample = { item->local, item->extent, item->bytes.data };
    return bzi_container_image(item->container, &sample, &item->batch->loader->picks[number], scratch, image, err);
}

/* --- Bookkeeping for a sample that was tried --- */

/* By what was at fault: reading, decoding, the format, anything else. With the lock held. */
static void bzi_item_count_failure(const bzi_item *item, bzna_status status)
{
    bzna_loader_stats *stats = &item->batch->loader->stats;
    const int unread = item->status != BZNA_OK;
    stats->samples_failed++;
    if (unread && (status == BZNA_E_IO || status == BZNA_E_TRUNCATED || status == BZNA_E_CALLBACK))
        stats->failed_read++;
    else if (status <= -400 && status > -500)
        stats->failed_decode++;
    else if ((status <= -300 && status > -400) || status == BZNA_E_NOT_FOUND)
        stats->failed_format++;
    else
        stats->failed_other++;
}

/* Counts the sample and the time spent on it. With the lock held. */
static void bzi_item_account(const bzi_item *item, bzna_status status)
{
    bzna_loader *loader = item->batch->loader;
    bzna_loader_stats *stats = &loader->stats;
    bzna_stage_stats *decode = &stats->stage[BZNA_STAGE_DECODE], *warp = &stats->stage[BZNA_STAGE_WARP];
    decode->count += item->decode_ns != 0;
    decode->busy_ns += item->decode_ns;
    decode->bytes += item->decode_ns ? item->extent.size : 0;
    warp->count += item->warp_ns != 0;
    warp->busy_ns += item->warp_ns;
    warp->bytes += item->warp_ns ? loader->slot_bytes : 0;
    stats->samples++;
    stats->samples_tiled += item->tiles != 0;
    stats->tiles += item->tiles;
    if (status != BZNA_OK)
        bzi_item_count_failure(item, status);
    else if (item->by_nvdec)
        stats->samples_nvdec++;
    else if (loader->slot_bytes)
        stats->samples_software++;
}

/* The slot takes the sample one step of its rank further on, and a reader the item. Returns 0 if it may not. With the
 * lock held. */
static int bzi_item_replace(bzi_item *item)
{
    bzna_loader *loader = item->batch->loader;
    if (loader->config.errors.policy != BZNA_ON_ERROR_REPLACE || item->replacements == BZI_LIMIT_REPLACEMENTS ||
        bzi_loader_interrupted(loader))
        return 0;
    item->replacements++;
    item->position = (item->position + loader->config.shard.world_size) % loader->shard.count;
    bzi_plan_sample(loader, item);
    loader->stats.replaced++;
    loader->redo[loader->redo_count++] = item;
    bzi_loader_done(loader, item);
    bzi_os_wake_one(&loader->reader_wake);
    if (loader->holding)
        bzi_os_wake_all(&loader->holder_wake);              /* its bytes may be taken now */
    return 1;
}

/* The item's slot is written, or its writing enqueued. With the lock held. */
static void bzi_item_finish(bzi_item *item, bzna_status status)
{
    bzna_batch *batch = item->batch;
    bzna_loader *loader = batch->loader;
    batch->status[item->slot] = status;
    if (item->slot < batch->real) {
        batch->failed += status != BZNA_OK;
        batch->replaced += status == BZNA_OK && item->replacements;
    }
    if (--batch->unfinished == 0)
        bzi_batch_to_ready(batch);
    loader->free_items[loader->free_item_count++] = item;
    if (loader->pool || loader->config.read.threads > 1 || 2 * loader->ring_count <= loader->config.read.ahead_samples)
        bzi_os_wake_one(&loader->reader_wake);              /* a reader that is alone wakes for several, not for each */
    if (loader->holding)
        bzi_os_wake_all(&loader->holder_wake);
    bzi_loader_done(loader, item);
}

/* Completes the message of a failed sample, and logs it. */
static void bzi_item_report_failure(const bzi_item *item)
{
    bzna_error *err = &item->batch->errors[item->slot];
    bzi_container_fail(item->container, item->local, err);
    bzi_log(item->batch->loader->host, BZNA_LOG_WARNING, err->status, "%s", err->message);
}

/* --- Lanes --- */

/* Where the kernel writes a view of an item. */
static uint64_t bzi_lane_target(const bzi_item *item, const bzi_output *output, uint32_t view)
{
    const bzna_batch *batch = item->batch;
    return batch->loader->on_device ? (uint64_t)(uintptr_t)bzi_batch_slot(batch, output, view, item->slot) :
                                      batch->device_data + bzi_output_at(output, view, batch->slots, item->slot);
}

/* Enqueues the slots of an output that were gathered. What fails is kept until the lane is flushed. */
static void bzi_lane_warp(bzi_lane *lane, const bzna_loader *loader, uint32_t number)
{
    bzi_kernel_output out = loader->outputs[number].kernel;
    out.mean = loader->outputs[number].device_mean;
    if (lane->slot_count[number] && lane->error.status == BZNA_OK)
        bzi_device_warp(lane->device, &lane->slots[number], lane->slot_count[number], &out, lane->stream,
                        &lane->error);
    lane->slot_count[number] = 0;
}

static void bzi_lane_warp_all(bzi_lane *lane, const bzna_loader *loader)
{
    for (uint32_t i = 0; i < loader->output_count; i++)
        bzi_lane_warp(lane, loader, i);
}

/* The slot of a view joins the launch of its output. Pre: the lane has room for the item, or has it. */
static void bzi_lane_put(bzi_lane *lane, const bzi_item *item, const bzi_output *output, uint32_t view,
                         const bzi_kernel_slot *slot)
{
    const bzna_loader *loader = item->batch->loader;
    const uint32_t number = (uint32_t)(output - loader->outputs);
    bzi_kernel_slot *to;
    if (lane->slot_count[number] == BZI_KERNEL_SLOTS)
        bzi_lane_warp(lane, loader, number);
    to = &lane->slots[number].slot[lane->slot_count[number]++];
    *to = *slot;
    to->dst = bzi_lane_target(item, output, view);
}

/* All slots of the item are in the lane. Pre: it has room for the item, and all that it has is of the same loader. */
static void bzi_lane_add(bzi_lane *lane, bzi_item *item, bzna_status status)
{
    lane->items[lane->count] = item;
    lane->status[lane->count++] = status;
}

/* Copies an item's slots to the host. */
static bzna_status bzi_lane_download(const bzi_lane *lane, const bzi_item *item, bzna_error *err)
{
    const bzna_loader *loader = item->batch->loader;
    bzna_status status = BZNA_OK;
    for (uint32_t i = 0; i < loader->output_count; i++) {
        const bzi_output *output = &loader->outputs[i];
        for (uint32_t view = 0; view < output->views && status == BZNA_OK; view++)
            status = bzi_device_download(lane->device, bzi_batch_slot(item->batch, output, view, item->slot),
                                         bzi_lane_target(item, output, view), output->picture_bytes, lane->stream,
                                         err);
    }
    return status;
}

/* Enqueues what was gathered: a launch an output; copies, when batches go to the host; an event a batch, but none of
 * `more`, which the lane will write more of. */
static bzna_status bzi_lane_launch(bzi_lane *lane, const bzna_batch *more, bzna_error *err)
{
    const bzna_loader *loader = lane->items[0]->batch->loader;
    bzna_status status;
    for (uint32_t i = lane->kept; i < lane->count; i++)
        lane->items[i]->batch->touched[lane->number] = 1;
    bzi_lane_warp_all(lane, loader);
    status = lane->error.status;
    if (status != BZNA_OK)
        *err = lane->error;
    lane->error.status = BZNA_OK;
    for (uint32_t i = lane->kept; i < lane->count && status == BZNA_OK && !loader->on_device; i++)
        status = bzi_lane_download(lane, lane->items[i], err);
    for (uint32_t i = 0; i < lane->count && status == BZNA_OK; i++) {
        bzna_batch *batch = lane->items[i]->batch;
        if (batch != (i + 1 < lane->count ? lane->items[i + 1]->batch : more))
            status = bzi_device_record(lane->device, batch->written[lane->number], lane->stream, err);
    }
    if (status != BZNA_OK)                                  /* no event tells when what was enqueued has ended, */
        bzi_device_stream_wait(lane->device, lane->stream); /* and memory may be freed after this */
    return status;
}

/* Launches what was gathered, and gives the slots to their batches: all but the last one of `more`, without which that
 * batch is not ready, nor can it be thrown away. A launch that failed leaves nothing to be kept. */
static void bzi_lane_flush(bzi_lane *lane, const bzna_batch *more)
{
    bzna_loader *loader = lane->items[0]->batch->loader;
    const uint64_t start = bzi_os_now_ns();
    const uint32_t count = lane->count, kept = lane->kept;
    uint64_t each;
    bzna_error err;
    bzna_status status = bzi_lane_launch(lane, more, &err);
    each = (bzi_os_now_ns() - start) / (count > kept ? count - kept : 1);
    bzi_os_lock(&loader->mutex);
    if (status != BZNA_OK)
        bzi_loader_break(loader, &err);                     /* slots that nothing was written to cannot be delivered */
    lane->count = lane->kept = status == BZNA_OK && more;
    for (uint32_t i = 0; i < count; i++) {
        bzi_item *item = lane->items[i];
        item->warp_ns += i < kept ? 0 : each;
        if (lane->status[i] == BZNA_OK && i >= kept)
            bzi_item_account(item, BZNA_OK);                /* those that failed were counted when they did */
        if (i + 1 < count || !lane->kept)
            bzi_item_finish(item, lane->status[i]);
    }
    lane->items[0] = lane->items[count - 1];
    lane->status[0] = lane->status[count - 1];
    bzi_os_unlock(&loader->mutex);
}

/* --- The end of a sample --- */

/* A failed slot gets the out-of-bounds color, and keeps nothing of what was there before: an empty picture is all of
 * that color. lane: as for bzi_item_complete. */
static void bzi_item_fill(bzi_item *item, bzna_status status, bzi_lane *lane)
{
    bzna_loader *loader = item->batch->loader;
    bzi_kernel_slot slot;
    memset(&slot, 0, sizeof slot);
    slot.x1 = slot.y1 = -1;
    slot.depth = 8;
    for (uint32_t i = 0; i < loader->output_count; i++) {
        const bzi_output *output = &loader->outputs[i];
        bzi_slot_colors(&slot, &output->transform, output->shape.channels);
        for (uint32_t view = 0; view < output->views; view++) {
            slot.dst = (uint64_t)(uintptr_t)bzi_batch_slot(item->batch, output, view, item->slot);
            if (lane)
                bzi_lane_put(lane, item, output, view, &slot);
            else
                bzi_kernel_fill(&slot, &output->kernel);
        }
    }
    if (lane) {
        bzi_lane_add(lane, item, status);
        return;
    }
    bzi_os_lock(&loader->mutex);
    bzi_item_finish(item, status);
    bzi_os_unlock(&loader->mutex);
}

/* What becomes of a sample that was tried: it is counted, and its item finished; if it failed, its slot takes another
 * sample, or is filled. lane: NULL when slots are on the host; else the stream that fills the slot, with a place left
 * in its launch, which then finishes the item. Samples that a lane warps come here only if they failed: the launch
 * counts and finishes the others. Without the lock. */
static void bzi_item_complete(bzi_item *item, bzna_status status, bzi_lane *lane)
{
    bzna_loader *loader = item->batch->loader;
    int replaced = 0;
    if (status != BZNA_OK)
        bzi_item_report_failure(item);
    bzi_os_lock(&loader->mutex);
    bzi_item_account(item, status);
    if (status == BZNA_OK)
        bzi_item_finish(item, status);
    else if (status == BZNA_E_DEVICE_LOST)
        bzi_loader_break(loader, &item->batch->errors[item->slot]);
    else
        replaced = bzi_item_replace(item);
    bzi_os_unlock(&loader->mutex);
    if (status != BZNA_OK && !replaced)
        bzi_item_fill(item, status, lane);
}


/* ==== 57. Decode stages: workers =====================================================================================
 * Calls: rooms 2-5, 16, 41, 44, 46-47, 51, 54, 56. Threads that decode in software, and warp into a slot, on the host
 * or by a lane. */

/* A worker's part of the device: its stream, and the event after its uploads. In the CUDA context. */
static bzna_status bzi_worker_make_lane(bzi_worker *worker, uint32_t number, bzna_error *err)
{
    bzi_lane *lane = &worker->lane;
    bzna_status status;
    lane->device = worker->loader->device;
    lane->number = number;
    if ((status = bzi_device_stream(lane->device, 1, &lane->stream, err)) != BZNA_OK)
        return status;
    return bzi_device_event(lane->device, &worker->uploaded, err);
}

static void bzi_worker_free_lane(bzi_worker *worker)
{
    bzi_lane *lane = &worker->lane;
    if (!lane->device)
        return;
    bzi_device_stream_wait(lane->device, lane->stream);
    bzi_device_event_free(lane->device, worker->uploaded);
    bzi_device_free(lane->device, worker->upload, worker->upload_bytes, lane->stream);
    bzi_device_unpin(lane->device, worker->staging);
    bzi_device_stream_free(lane->device, lane->stream);
}

/* A plane of a picture, and where it lies in what goes to the device: rows 256 bytes apart or a multiple of that. */
typedef struct bzi_plane {
    uint64_t row_bytes, rows;
    uint64_t pitch, offset;
} bzi_plane;

/* Of a picture that was decoded at 1/shrink of its size. */
static uint32_t bzi_picture_planes(const bzna_picture *picture, uint32_t shrink, bzi_plane planes[3], uint64_t *total)
{
    uint32_t count = picture->plane[1] ? 3 : 1, sample_bytes = picture->depth > 8 ? 2 : 1;
    const uint64_t width = ((uint64_t)picture->frame_width + shrink - 1) / shrink;
    const uint64_t height = ((uint64_t)picture->frame_height + shrink - 1) / shrink;
    *total = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t shift_x = i ? picture->chroma_shift_x : 0, shift_y = i ? picture->chroma_shift_y : 0;
        bzi_plane *plane = &planes[i];
        plane->row_bytes = ((width + (1u << shift_x) - 1) >> shift_x) * sample_bytes;
        plane->rows = (height + (1u << shift_y) - 1) >> shift_y;
        plane->pitch = (plane->row_bytes + 255) & ~(uint64_t)255;
        plane->offset = *total;
        *total += plane->pitch * plane->rows;
    }
    return count;
}

/* Memory for an upload, pinned and on the device. Pre: the upload before has ended. */
static bzna_status bzi_worker_reserve(bzi_worker *worker, uint64_t bytes, bzna_error *err)
{
    bzi_device *device = worker->lane.device;
    bzna_status status;
    if (bytes <= worker->upload_bytes)
        return BZNA_OK;
    bzi_device_stream_wait(device, worker->lane.stream);
    bzi_device_unpin(device, worker->staging);
    bzi_device_free(device, worker->upload, worker->upload_bytes, worker->lane.stream);
    worker->upload = worker->upload_bytes = 0;
    if ((status = bzi_device_pin(device, bytes, &worker->staging, err)) != BZNA_OK ||
        (status = bzi_device_alloc(device, bytes, worker->lane.stream, &worker->upload, err)) != BZNA_OK)
        return status;
    worker->upload_bytes = bytes;
    return BZNA_OK;
}

/* Samples of `bytes` each, step bytes apart, or 0: side by side, end up side by side. */
static void bzi_plane_copy_row(uint8_t *dst, const uint8_t *src, uint64_t size, uint32_t bytes, uint32_t step)
{
    if (!step || step == bytes) {
        memcpy(dst, src, (size_t)size);
        return;
    }
    for (uint64_t i = 0; i < size; i++)
        dst[i] = src[i / bytes * step + i % bytes];
}

/* One plane; the picture has its pitch and step then. */
static void bzi_picture_copy_plane(bzna_picture *picture, uint32_t i, const bzi_plane *plane, uint8_t *dst)
{
    const uint8_t *src = picture->plane[i];
    for (uint64_t y = 0; y < plane->rows; y++)
        bzi_plane_copy_row(dst + y * plane->pitch, src + (int64_t)y * picture->pitch[i], plane->row_bytes,
                           picture->depth > 8 ? 2 : 1, picture->step[i]);
    picture->step[i] = 0;
    picture->pitch[i] = (int64_t)plane->pitch;
}

/* Copies a picture's planes to the device, where the warp reads them: *picture then has their addresses there. */
static bzna_status bzi_worker_upload(bzi_worker *worker, bzna_picture *picture, uint32_t shrink, bzna_error *err)
{
    bzi_device *device = worker->lane.device;
    void *stream = worker->lane.stream;
    bzi_plane planes[3];
    uint64_t total;
    uint32_t count = bzi_picture_planes(picture, shrink, planes, &total);
    bzna_status status;
    if ((status = bzi_device_await(device, worker->uploaded, err)) != BZNA_OK ||
        (status = bzi_worker_reserve(worker, total, err)) != BZNA_OK)
        return status;
    for (uint32_t i = 0; i < count; i++) {
        bzi_picture_copy_plane(picture, i, &planes[i], (uint8_t *)worker->staging + planes[i].offset);
        picture->plane[i] = (const void *)(uintptr_t)(worker->upload + planes[i].offset);
    }
    if ((status = bzi_device_upload(device, worker->upload, worker->staging, total, stream, err)) == BZNA_OK)
        status = bzi_device_record(device, worker->uploaded, stream, err);
    return status;
}

/* One view, on the host. */
static bzna_status bzi_worker_warp_view(bzi_worker *worker, const bzi_item *item, const bzi_output *output,
                                        uint32_t view, bzna_error *err)
{
    bzi_kernel_slot *slot = &worker->views.slots[output->first + view];
    slot->dst = (uint64_t)(uintptr_t)bzi_batch_slot(item->batch, output, view, item->slot);
    if (!bzi_buffer_reserve(&worker->loader->host->memory, &worker->workspace,
                            bzi_kernel_workspace_bytes(slot, &output->kernel), 0))
        return bzi_fail_memory(err, "the warp's workspace");
    bzi_kernel_warp(slot, &output->kernel, worker->workspace.data, (size_t)worker->workspace.capacity);
    return BZNA_OK;
}

/* What the views need of a JPEG, whose slots are made: the rows that one of them reads; shrunk, if the config allows
 * it, by no more than each of them allows. */
static void bzi_worker_want_rows(bzi_worker *worker, uint32_t number, bzi_wanted *wanted)
{
    const bzna_loader *loader = worker->loader;
    bzi_kernel_slot *slots = worker->views.slots;
    wanted->rows = (bzi_rows){ 0, 0 };
    wanted->shrink = loader->config.decode.jpeg_shrink ? 8 : 1;
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < loader->output_count; i++) {
            const bzi_output *output = &loader->outputs[i];
            const uint32_t end = output->picture == number ? output->first + output->views : 0;
            for (uint32_t n = output->first; n < end; n++)
                if (!pass) {
                    wanted->shrink = (uint32_t)bzi_min(wanted->shrink, bzi_slot_may_shrink(&slots[n]));
                } else {
                    bzi_slot_shrink(&slots[n], wanted->shrink);
                    bzi_rows_add(&wanted->rows, bzi_slot_rows(&slots[n], &output->kernel));
                }
        }
}

/* Which part of a grid's frame they read. */
static void bzi_worker_want_part(const bzi_worker *worker, uint32_t number, bzi_wanted *wanted)
{
    const bzna_loader *loader = worker->loader;
    wanted->part = (bzi_region){ UINT32_MAX, UINT32_MAX, 1, 1 };
    for (uint32_t i = 0; i < loader->output_count; i++) {
        const bzi_output *output = &loader->outputs[i];
        for (uint32_t view = 0; output->picture == number && view < output->views; view++)
            bzi_region_add(&wanted->part, &worker->views.slots[output->first + view], &output->kernel);
    }
}

/* What is wanted of a picture, whose planes are not there yet: all of it, if it cannot be decoded in part, or if a
 * callback sees it. */
static bzna_status bzi_worker_want(bzi_worker *worker, const bzi_item *item, uint32_t number, bzi_wanted *wanted,
                                   bzna_error *err)
{
    const int is_jpeg = worker->images[number].coded.codec == BZNA_CODEC_JPEG;
    bzna_status status = BZNA_OK;
    *wanted = bzi_picture_all(&worker->pictures[number]);
    if ((!is_jpeg && !worker->formats[number].tiles) || worker->loader->config.pipeline.picture)
        return BZNA_OK;
    status = bzi_item_slots(item, number, &worker->pictures[number], 1, &worker->views, err);
    if (status == BZNA_OK && is_jpeg)
        bzi_worker_want_rows(worker, number, wanted);
    else if (status == BZNA_OK)
        bzi_worker_want_part(worker, number, wanted);
    return status;
}

/* All views of one of the sample's pictures. On the device they are gathered; bzi_worker_item launches, but for a
 * sample of several pictures, which take turns in the memory that they are uploaded to. */
static bzna_status bzi_worker_warp(bzi_worker *worker, bzi_item *item, uint32_t number, uint32_t shrink,
                                   bzna_error *err)
{
    bzna_loader *loader = worker->loader;
    bzna_picture *picture = &worker->pictures[number];
    bzna_status status;
    if ((loader->on_device && (status = bzi_worker_upload(worker, picture, shrink, err)) != BZNA_OK) ||
        (status = bzi_item_slots(item, number, picture, shrink, &worker->views, err)) != BZNA_OK)
        return status;
    for (uint32_t i = 0; i < loader->output_count; i++) {
        const bzi_output *output = &loader->outputs[i];
        for (uint32_t view = 0; output->picture == number && view < output->views; view++)
            if (loader->on_device)
                bzi_lane_put(&worker->lane, item, output, view, &worker->views.slots[output->first + view]);
            else if ((status = bzi_worker_warp_view(worker, item, output, view, err)) != BZNA_OK)
                return status;
    }
    if (loader->on_device && loader->pick_count > 1)
        bzi_lane_warp_all(&worker->lane, loader);
    return BZNA_OK;
}

/* What the sample's pictures say of themselves, by which its transforms are drawn: what of the pictures is needed is
 * known before they are decoded. */
static bzna_status bzi_worker_parse(bzi_worker *worker, const bzi_item *item, bzna_error *err)
{
    bzna_status status;
    for (uint32_t i = 0; i < worker->loader->pick_count; i++)
        if ((status = bzi_item_image(item, i, &worker->scratch, &worker->images[i], err)) != BZNA_OK ||
            (status = bzi_picture_describe(&worker->images[i], worker->software.max_edge_px, &worker->formats[i],
                                           &worker->pictures[i], err)) != BZNA_OK)
            return status;
    return bzi_item_draw(item, worker->pictures, worker->views.transforms, err);
}

/* A JPEG that NVDEC was to decode, and did not, for the reason that stands in the error: its pixels are not this
 * decoder's to give. */
static bzna_status bzi_worker_refuse_jpeg(bzna_error *err)
{
    const bzna_error why = *err;
    const bzna_status status = why.status == BZNA_OK || why.status == BZNA_E_CODEC ? BZNA_E_DECODE : why.status;
    return bzi_fail(err, status, BZNA_NO_OFFSET, 0, why.native_code, "loader_config.decode.jpeg: not by NVDEC: %s",
                    why.message);
}

/* A picture as the user's callback draws it, in a copy: the planes may be a decoder's or a data set's. */
static bzna_status bzi_worker_draw(bzi_worker *worker, const bzi_item *item, uint32_t number, bzna_error *err)
{
    const bzna_loader_pipeline *pipeline = &worker->loader->config.pipeline;
    const bzi_output *output = worker->loader->outputs;
    bzna_random random = bzi_item_random(item, BZNA_OPERATION_PICTURE, number);
    bzna_picture *picture = &worker->pictures[number];
    bzna_sample_info info;
    bzi_plane planes[3];
    void *drawn[3] = { NULL, NULL, NULL };
    uint64_t total;
    const uint32_t count = bzi_picture_planes(picture, 1, planes, &total);
    bzna_status status;
    if (!bzi_buffer_reserve(&worker->loader->host->memory, &worker->drawn, total, 0))
        return bzi_fail_memory(err, "a copy of the picture");
    for (uint32_t i = 0; i < count; i++) {
        drawn[i] = (uint8_t *)worker->drawn.data + planes[i].offset;
        bzi_picture_copy_plane(picture, i, &planes[i], drawn[i]);
        picture->plane[i] = drawn[i];
    }
    while (output->picture != number)
        output++;
    info = bzi_item_info(item, output, 0, picture);
    bzi_os_in_callback++;
    status = pipeline->picture(pipeline->picture_user, &info, &random, picture, drawn);
    bzi_os_in_callback--;
    if (status < 0)
        return bzi_fail(err, BZNA_E_CALLBACK, BZNA_NO_OFFSET, 0, status, "the picture callback returned %d",
                        (int)status);
    return BZNA_OK;
}

/* parse -> transforms -> decode -> draw -> warp. */
static bzna_status bzi_worker_sample(bzi_worker *worker, bzi_item *item, bzna_error *err)
{
    const bzna_loader *loader = worker->loader;
    uint64_t begin = bzi_os_now_ns(), decoded;
    bzna_status status;
    if (!loader->slot_bytes)
        return BZNA_OK;                                     /* only fields were asked for */
    status = bzi_worker_parse(worker, item, err);
    if (status == BZNA_OK && bzi_loader_is_nvdec_jpeg(loader, worker->images[0].coded.codec, &worker->formats[0]))
        status = bzi_worker_refuse_jpeg(err);
    for (uint32_t i = 0; i < loader->pick_count && status == BZNA_OK; i++) {
        bzi_wanted wanted;
        if ((status = bzi_worker_want(worker, item, i, &wanted, err)) != BZNA_OK ||
            (status = bzi_software_decode(&worker->software, &worker->images[i].coded, &worker->formats[i], wanted,
                                          &worker->pictures[i], err)) != BZNA_OK ||
            (loader->config.pipeline.picture && (status = bzi_worker_draw(worker, item, i, err)) != BZNA_OK))
            break;
        item->tiles += worker->software.tiles;
        decoded = bzi_os_now_ns();
        item->decode_ns += decoded - begin;
        status = bzi_worker_warp(worker, item, i, wanted.shrink, err);
        begin = bzi_os_now_ns();
        item->warp_ns += begin - decoded;
    }
    if (status != BZNA_OK && loader->on_device && loader->pick_count > 1)    /* another sample may take the slot: */
        bzi_device_stream_wait(worker->lane.device, worker->lane.stream);    /* nothing may be written there later */
    return status;
}

/* One sample, from its bytes to its slot. Without the lock. */
static void bzi_worker_item(bzi_worker *worker, bzi_item *item)
{
    bzi_lane *lane = worker->loader->on_device ? &worker->lane : NULL;
    bzna_status status = item->status;
    if (status == BZNA_OK)
        status = bzi_worker_sample(worker, item, &item->batch->errors[item->slot]);
    if (status != BZNA_OK || !lane)
        bzi_item_complete(item, status, lane);
    else
        bzi_lane_add(lane, item, status);
    if (lane && lane->count)
        bzi_lane_flush(lane, NULL);
}

/* An item that was read, or NULL when the loader closes. Called and returns with the lock held. */
static bzi_item *bzi_worker_take(bzna_loader *loader)
{
    bzna_stage_stats *stage = &loader->stats.stage[BZNA_STAGE_DECODE];
    while (!loader->quit) {
        uint64_t start;
        int blocked;
        if (!bzi_loader_interrupted(loader) && loader->ring_count) {
            bzi_item *item = loader->ring[loader->ring_first];
            loader->ring_first = (loader->ring_first + 1) % loader->item_count;
            loader->ring_count--;
            loader->active++;
            return item;
        }
        blocked = !loader->planning && !loader->free_batches;       /* all batches are filled: back-pressure */
        start = bzi_os_now_ns();
        bzi_os_wait(&loader->worker_wake, &loader->mutex);
        if (!loader->pool)                                  /* with NVDEC, workers are idle by nature */
            *(blocked ? &stage->wait_after_ns : &stage->wait_before_ns) += bzi_os_now_ns() - start;
    }
    return NULL;
}

static void *bzi_worker_run(void *argument)
{
    bzi_worker *worker = argument;
    bzna_loader *loader = worker->loader;
    bzna_error err;
    bzi_item *item;
    int entered = loader->on_device && bzi_device_enter_thread(loader->device, &err) == BZNA_OK;
    bzi_os_lock(&loader->mutex);
    if (loader->on_device && !entered)
        bzi_loader_break(loader, &err);
    while ((item = bzi_worker_take(loader)) != NULL) {
        bzi_os_unlock(&loader->mutex);
        bzi_worker_item(worker, item);
        bzi_os_lock(&loader->mutex);
    }
    bzi_os_unlock(&loader->mutex);
    if (entered)
        bzi_device_leave(loader->device);
    return NULL;
}


/* ==== 58. Decode stages: engines =====================================================================================
 * Calls: rooms 2-5, 16, 41, 46-51, 54-56. The pool's engines, a thread and an NVDEC session each. */

#define BZI_ENGINE_MAX_OOM_STREAK 4u  /* after so many samples in a row without memory, an engine ends */
#define BZI_ENGINE_MAX_FAILURES   32u /* likewise after so many failed calls of the driver in a row */
#define BZI_POOL_MAX_PASSED       16u /* items of the queue looked at, and how often the first may be passed over */

#ifndef BENZINA_NO_CUDA

typedef struct bzi_engine {
    bzi_pool   *pool;
    bzi_thread  thread;
    uint32_t    started;
    uint32_t    has_turn, settled;    /* the next engine waits for this one's first decoder; all have theirs */
    bzi_nvdec   main;                 /* (P) once the turn has passed: a copy; handle NULL: none was made so far */
    uint32_t    oom_streak;           /* samples in a row for which it found no memory */
    uint32_t    retired;              /* it ends, other engines go on */
    bzi_session session;
    bzi_lane    lane;
    bzi_views   views;
    bzi_scratch scratch;
    bzi_scratch verify_scratch;       /* while a picture is being submitted, another one may be verified */
} bzi_engine;

/* Whether an item may come before others: it needs a decoder that the engine has, or no engine has looked yet. */
static int bzi_engine_suits(const bzi_engine *engine, const bzi_item *item)
{
    int suits = engine->retired || !item->frames;
    for (uint32_t i = 0; i < BZI_NVDEC_CACHE_SLOTS; i++)
        suits |= engine->session.decoders.decoders[i].frames == item->frames;
    return suits;
}

/* The first item, or one behind it that suits this engine better: giving a decoder another size takes as long as
 * decoding fifty pictures. With the pool's lock held. */
static bzi_item *bzi_pool_pop(bzi_pool *pool, const bzi_engine *engine)
{
    bzi_item *before = NULL, *item = pool->first;
    if (!item)
        return NULL;
    for (uint32_t i = 0; item && !bzi_engine_suits(engine, item); i++) {
        before = item;
        item = i < BZI_POOL_MAX_PASSED && pool->first->passed_over < BZI_POOL_MAX_PASSED ? item->next : NULL;
    }
    before = item ? before : NULL;
    item = item ? item : pool->first;
    pool->first->passed_over += before != NULL;
    *(before ? &before->next : &pool->first) = item->next;
    if (pool->last == item)
        pool->last = before;
    pool->queued--;
    return item;
}

/* Gives an item back whose picture no decoder of the engine's fits, so that another engine, or this one later, takes
 * it. Returns 0 when there is nothing else to do, or one more decoder is to be made anyway. */
static int bzi_engine_return(bzi_engine *engine, bzi_item *item, const bzi_nvdec_format *want)
{
    const bzi_nvdec_cache *decoders = &engine->session.decoders;
    bzi_pool *pool = engine->pool;
    int is_new = !item->frames, given = 0;
    item->frames = bzi_hash(BZI_HASH_START, want, sizeof *want);
    if (!is_new || bzi_nvdec_cache_live(decoders) < decoders->target || bzi_engine_suits(engine, item))
        return 0;
    bzi_os_lock(&pool->mutex);
    if (pool->first) {
        item->next = pool->first;
        pool->first = item;
        pool->queued++;
        given = 1;
    }
    bzi_os_unlock(&pool->mutex);
    if (given)
        bzi_os_wake_one(&pool->wake);
    return given;
}

/* The next item, or NULL when there is none. An engine that has nothing to do waits for one, until the pool closes. A
 * busy engine leaves the last items to those that wait: one session keeps one engine of the hardware busy at most. */
static bzi_item *bzi_pool_take(bzi_engine *engine, int busy)
{
    bzi_pool *pool = engine->pool;
    bzi_item *item = NULL;
    bzi_os_lock(&pool->mutex);
    if (busy && pool->queued > pool->idle)
        item = bzi_pool_pop(pool, engine);
    while (!busy && (item = bzi_pool_pop(pool, engine)) == NULL && !pool->quit) {
        pool->idle++;
        bzi_os_wait(&pool->wake, &pool->mutex);
        pool->idle--;
    }
    bzi_os_unlock(&pool->mutex);
    return item;
}

/* Launches the kernel for the lane's slots, which read the mapped surfaces, and unmaps those. The event of the last
 * one's batch may wait for pictures of that batch that are in flight. */
static void bzi_engine_flush(bzi_engine *engine, int may_wait)
{
    const bzi_session *session = &engine->session;
    bzi_lane *lane = &engine->lane;
    const bzna_batch *last = lane->count ? lane->items[lane->count - 1]->batch : NULL, *more = NULL;
    for (uint32_t i = 0; may_wait && i < session->pending_count; i++) {
        const bzi_item *item = session->pending[(session->pending_first + i) % BZI_LIMIT_SESSION_DEPTH].tag;
        more = item->batch == last ? last : more;
    }
    if (last)
        bzi_lane_flush(lane, more);
    bzi_session_unmap_all(&engine->session);
}

/* Makes room in the lane for an item of this loader. */
static void bzi_engine_make_room(bzi_engine *engine, const bzi_item *item)
{
    const bzi_lane *lane = &engine->lane;
    const int other = lane->count && lane->items[0]->batch->loader != item->batch->loader;
    if (other || lane->count - lane->kept == BZI_KERNEL_SLOTS ||
        engine->session.mapped_count == engine->pool->device->desc.session_mapped)
        bzi_engine_flush(engine, !other);
}

/* The sample cannot be had: its slot takes another sample, or is filled. Pre: every mapped surface that a sample needs
 * has its slot in the lane. */
static void bzi_engine_fail(bzi_engine *engine, bzi_item *item, bzna_status status)
{
    item->decode_ns = 0;
    bzi_engine_make_room(engine, item);
    bzi_item_complete(item, status, &engine->lane);
}

/* The codec is none of NVDEC's: libavcodec decodes it, if it is there, and nothing has fallen back. */
static void bzi_engine_pass(bzi_engine *engine, bzi_item *item, bzna_status status)
{
    bzna_loader *loader = item->batch->loader;
    if (!loader->worker_count) {
        bzi_engine_fail(engine, item, status);
        return;
    }
    bzi_os_lock(&loader->mutex);
    item->decode_ns = 0;
    bzi_loader_to_workers(loader, item);
    bzi_os_unlock(&loader->mutex);
}

/* NVDEC does not decode this one: libavcodec does, if it is there. Each kind of reason is logged once. */
static void bzi_engine_refuse(bzi_engine *engine, bzi_item *item, bzna_status status)
{
    bzna_loader *loader = item->batch->loader;
    bzna_error reason = item->batch->errors[item->slot];
    uint64_t hash = bzi_hash(BZI_HASH_START, reason.message, strcspn(reason.message, "0123456789"));
    uint32_t i = 0;
    uint32_t was_read = item->status == BZNA_OK;            /* else a worker will say why not */
    if (!loader->worker_count) {
        bzi_engine_fail(engine, item, status);
        return;
    }
    bzi_os_lock(&loader->mutex);
    while (i < 8 && loader->refusals[i] && loader->refusals[i] != hash)
        i++;
    if (i < 8 && !loader->refusals[i])
        loader->refusals[i] = hash;
    else
        i = 8;
    loader->stats.fallbacks += was_read;
    item->decode_ns = item->by_nvdec = 0;
    bzi_loader_to_workers(loader, item);
    bzi_os_unlock(&loader->mutex);
    /* Through the pool's host: the loader may be gone. */
    if (i < 8 && was_read)
        bzi_log(engine->pool->host, BZNA_LOG_WARNING, BZNA_OK, "decoding in software: %s", reason.message);
}

/* Adds all views of a mapped picture to the lane. */
static void bzi_engine_add(bzi_engine *engine, bzi_item *item, const bzi_flight *flight)
{
    const bzna_loader *loader = item->batch->loader;
    for (uint32_t i = 0; i < loader->output_count; i++) {
        const bzi_output *output = &loader->outputs[i];
        for (uint32_t view = 0; view < output->views; view++) {
            bzi_kernel_slot *slot = &engine->views.slots[output->first + view];
            bzi_slot_on_surface(slot, flight->semi_planar);
            bzi_lane_put(&engine->lane, item, output, view, slot);
        }
    }
    bzi_lane_add(&engine->lane, item, BZNA_OK);
}

/* Compares a mapped picture with libavcodec's, for the statistics alone. JPEG need not be equal. */
static void bzi_engine_verify(bzi_engine *engine, const bzi_item *item, const bzi_flight *flight)
{
    bzna_loader *loader = item->batch->loader;
    bzna_picture picture;
    bzi_format format;
    bzi_image image;
    bzna_error err;
    int same, is_first;
    if (bzi_item_image(item, 0, &engine->verify_scratch, &image, &err) != BZNA_OK ||
        bzi_picture_describe(&image, loader->host->max_edge_px, &format, &picture, &err) != BZNA_OK ||
        image.coded.codec == BZNA_CODEC_JPEG ||
        (same = bzi_check_compare(&engine->session, flight, &image.coded, &format)) < 0)
        return;
    bzi_os_lock(&loader->mutex);
    loader->stats.verified++;
    is_first = !same && loader->stats.verify_failed++ == 0;
    bzi_os_unlock(&loader->mutex);
    if (is_first)
        bzi_log(engine->pool->host, BZNA_LOG_WARNING, BZNA_OK, "NVDEC and libavcodec decode sample %llu differently",
                (unsigned long long)item->index);
}

/* Waits for the oldest picture in flight and adds its slots to the lane. */
static void bzi_engine_map(bzi_engine *engine)
{
    bzi_session *session = &engine->session;
    bzi_item *item = session->pending[session->pending_first].tag;
    const uint64_t verify_every = item->batch->loader->config.decode.verify_every;
    bzna_error *err = &item->batch->errors[item->slot];
    uint64_t start = bzi_os_now_ns();
    bzi_flight flight;
    bzi_nvdec_result result;
    bzna_status status;
    bzi_engine_make_room(engine, item);
    result = bzi_session_map(session, &flight, err);
    item->decode_ns += bzi_os_now_ns() - start;
    if (result == BZI_NVDEC_REFUSED) {
        bzi_engine_refuse(engine, item, err->status);
        return;
    }
    status = result == BZI_NVDEC_OK ? BZNA_OK : err->status;
    if (status == BZNA_OK && verify_every && item->position % verify_every == 0)
        bzi_engine_verify(engine, item, &flight);
    if (status == BZNA_OK &&
        (status = bzi_item_draw(item, &flight.picture, engine->views.transforms, err)) == BZNA_OK)
        status = bzi_item_slots(item, 0, &flight.picture, 1, &engine->views, err);
    if (status == BZNA_OK)
        bzi_engine_add(engine, item, &flight);
    else
        bzi_engine_fail(engine, item, status);
}

/* Takes the oldest picture in flight; launches when the lane is full, or nothing else is in flight. */
static void bzi_engine_advance(bzi_engine *engine)
{
    bzi_session *session = &engine->session;
    if (session->pending_count)
        bzi_engine_map(engine);
    if (!session->pending_count || session->mapped_count == session->device->desc.session_mapped)
        bzi_engine_flush(engine, 1);
}

static int bzi_engine_busy(const bzi_engine *engine)
{
    return engine->session.pending_count || engine->session.mapped_count || engine->lane.count;
}

/* This engine ends, the others go on. The last one hands what is queued to the loaders' workers. */
static void bzi_engine_retire(bzi_engine *engine, const bzna_error *why)
{
    bzi_pool *pool = engine->pool;
    bzi_item *rest = NULL;
    uint32_t left;
    engine->retired = 1;
    atomic_fetch_add(&pool->device->sessions_lost, 1);
    bzi_os_lock(&pool->mutex);
    left = --pool->live;
    for (bzi_item **end = &rest; !left && (*end = bzi_pool_pop(pool, engine)) != NULL; end = &(*end)->next)
        ;
    bzi_os_unlock(&pool->mutex);
    bzi_log(pool->host, BZNA_LOG_WARNING, why->status, "a decode session ends, %u go on: %s", left, why->message);
    while (rest) {
        bzi_item *next = rest->next;
        if (rest->status == BZNA_OK)
            rest->batch->errors[rest->slot] = *why;
        bzi_engine_refuse(engine, rest, rest->status == BZNA_OK ? why->status : rest->status);
        rest = next;
    }
    while (bzi_engine_busy(engine))
        bzi_engine_advance(engine);
}

/* There is no memory for the item's decoder: libavcodec decodes it. One picture that is too large does not end the
 * session, but a session that can decode nothing is of no use. */
static void bzi_engine_give_up(bzi_engine *engine, bzi_item *item)
{
    bzna_error why = item->batch->errors[item->slot];
    bzi_engine_refuse(engine, item, why.status);
    if (++engine->oom_streak == BZI_ENGINE_MAX_OOM_STREAK)
        bzi_engine_retire(engine, &why);
}

/* --- The first decoders --- */

/* Engines start one after the other, since a driver that binds a decoder to one engine of the hardware for good does so
 * in the order of creation. The first one has its main decoder with its first sample, whose parser says what is asked
 * of it; the others make the same one at once, before their samples come, and none makes another one before that. Where
 * a sample made none, as when software decodes it, the next engine's sample may. Returns 0 when the pool closes. */
static int bzi_engine_await_turn(bzi_engine *engine)
{
    bzi_pool *pool = engine->pool;
    const uint32_t number = engine->lane.number;
    bzi_os_lock(&pool->mutex);
    while (pool->turn != number && !pool->quit)
        bzi_os_wait(&pool->turns, &pool->mutex);
    engine->has_turn = !pool->quit;
    if (number && engine->has_turn)
        engine->main = pool->engines[number - 1].main;
    bzi_os_unlock(&pool->mutex);
    return (int)engine->has_turn;
}

static void bzi_engine_pass_turn(bzi_engine *engine)
{
    bzi_pool *pool = engine->pool;
    for (uint32_t i = 0; i < BZI_NVDEC_CACHE_SLOTS && !engine->main.handle; i++)
        if (engine->session.decoders.decoders[i].used)      /* by a sample */
            engine->main = engine->session.decoders.decoders[i];
    engine->has_turn = 0;
    bzi_os_lock(&pool->mutex);
    pool->turn++;
    bzi_os_wake_all(&pool->turns);
    bzi_os_unlock(&pool->mutex);
}

/* Makes the main decoder, if it is known. */
static void bzi_engine_prepare(bzi_engine *engine)
{
    if (!engine->main.handle)
        return;
    if (!atomic_load(&engine->pool->device->stuck))
        bzi_nvdec_cache_copy(&engine->session.decoders, &engine->main);
    bzi_engine_pass_turn(engine);
}

/* Before a decoder of another kind or size is made: until all engines have their main one. */
static void bzi_engine_settle(bzi_engine *engine, const bzi_nvdec_format *want)
{
    bzi_pool *pool = engine->pool;
    const uint64_t frames = bzi_hash(BZI_HASH_START, want, sizeof *want);
    if (engine->settled || !engine->main.handle || frames == engine->main.frames)
        return;
    while (bzi_engine_busy(engine))
        bzi_engine_advance(engine);
    bzi_os_lock(&pool->mutex);
    while (pool->turn < pool->count)
        bzi_os_wait(&pool->turns, &pool->mutex);
    bzi_os_unlock(&pool->mutex);
    engine->settled = 1;
}

/* --- Samples --- */

/* Parses an item that was read, and submits it once the session has room. BUSY: it is another engine's now. */
static bzi_nvdec_result bzi_engine_submit(bzi_engine *engine, bzi_item *item, bzna_error *err)
{
    bzi_session *session = &engine->session;
    bzna_loader *loader = item->batch->loader;
    bzna_picture picture;
    bzi_image image;
    bzi_format sps;
    bzi_nvdec_format want;
    bzi_nvdec_result result;
    if (bzi_item_image(item, 0, &engine->scratch, &image, err) != BZNA_OK ||
        bzi_picture_describe(&image, loader->host->max_edge_px, &sps, &picture, err) != BZNA_OK)
        return BZI_NVDEC_FAILED;
    if (image.coded.codec == BZNA_CODEC_JPEG && !bzi_loader_is_nvdec_jpeg(loader, BZNA_CODEC_JPEG, &sps)) {
        BZI_FAIL(err, BZNA_E_CODEC, "JPEG is decoded in software, not by NVDEC");
        return BZI_NVDEC_FOREIGN;
    }
    result = bzi_session_accepts(session, image.coded.codec, &sps, err);
    want = bzi_nvdec_format_of(image.coded.codec, &sps);
    if (result == BZI_NVDEC_OK)
        bzi_engine_settle(engine, &want);
    while (result == BZI_NVDEC_OK && bzi_check_is_due(session->device, &want) && bzi_engine_busy(engine))
        bzi_engine_advance(engine);
    if (result == BZI_NVDEC_OK)
        result = bzi_check_kind(session, &want, &image.coded, &sps, &picture, err);
    if (result == BZI_NVDEC_OK && bzi_engine_return(engine, item, &want))
        return BZI_NVDEC_BUSY;
    if (result == BZI_NVDEC_OK) {
        item->by_nvdec = 1;
        while ((result = bzi_session_submit(session, &image.coded, &picture, &sps, item, err)) == BZI_NVDEC_BUSY)
            bzi_engine_advance(engine);
    }
    if (result == BZI_NVDEC_OK || result == BZI_NVDEC_FAILED)
        engine->oom_streak = 0;
    return result;
}

/* Takes an item from the pool to the session, or to where its status sends it. */
static void bzi_engine_begin(bzi_engine *engine, bzi_item *item)
{
    bzna_error *err = &item->batch->errors[item->slot];
    uint64_t start = bzi_os_now_ns();
    if (item->status != BZNA_OK) {
        bzi_engine_fail(engine, item, item->status);
        return;
    }
    switch (bzi_engine_submit(engine, item, err)) {
    case BZI_NVDEC_BUSY:
        break;
    case BZI_NVDEC_OK:
        item->decode_ns += bzi_os_now_ns() - start;
        break;
    case BZI_NVDEC_REFUSED:
        bzi_engine_refuse(engine, item, err->status);
        break;
    case BZI_NVDEC_FOREIGN:
        bzi_engine_pass(engine, item, err->status);
        break;
    case BZI_NVDEC_NO_MEMORY:
        bzi_engine_give_up(engine, item);
        break;
    case BZI_NVDEC_FAILED:
        bzi_engine_fail(engine, item, err->status);
        break;
    }
}

/* --- Running --- */

/* Until the pool closes, or the engine retires. */
static void bzi_engine_work(bzi_engine *engine)
{
    bzi_pool *pool = engine->pool;
    bzna_error err;
    while (!engine->retired) {
        int busy = bzi_engine_busy(engine);
        int full = engine->session.pending_count == pool->device->desc.session_depth;
        bzi_item *item = full ? NULL : bzi_pool_take(engine, busy);
        if (item)
            bzi_engine_begin(engine, item);
        else if (busy)
            bzi_engine_advance(engine);
        else
            break;                                          /* the pool closes */
        if (engine->has_turn)
            bzi_engine_pass_turn(engine);
        if (engine->session.failures >= BZI_ENGINE_MAX_FAILURES && !engine->retired) {
            BZI_FAIL(&err, BZNA_E_DEVICE, "%u calls of the driver in a row failed", engine->session.failures);
            bzi_engine_retire(engine, &err);
        }
    }
}

static void *bzi_engine_run(void *argument)
{
    bzi_engine *engine = argument;
    bzi_pool *pool = engine->pool;
    bzna_error err;
    int entered;
    if (!bzi_engine_await_turn(engine))
        return NULL;
    entered = bzi_device_enter_thread(pool->device, &err) == BZNA_OK;
    if (entered && bzi_session_open(&engine->session, pool->device, &pool->host->memory, &err) == BZNA_OK) {
        engine->lane.stream = engine->session.stream;
        bzi_engine_prepare(engine);
        bzi_engine_work(engine);
    } else {
        bzi_engine_retire(engine, &err);
    }
    if (engine->has_turn)
        bzi_engine_pass_turn(engine);
    if (!entered)
        return NULL;
    bzi_session_close(&engine->session);
    bzi_device_leave(pool->device);
    return NULL;
}

/* Pre: no loader uses it any more. */
static void bzi_pool_close(bzi_pool *pool)
{
    const bzi_memory memory = pool->host->memory;
    /* In a forked child, the pool's threads are not there, and its lock may be held by one of them. */
    int foreign = bzi_device_is_foreign(pool->device);
    if (pool->has_turns && !foreign) {
        bzi_os_lock(&pool->mutex);
        pool->quit = 1;
        bzi_os_wake_all(&pool->wake);
        bzi_os_wake_all(&pool->turns);
        bzi_os_unlock(&pool->mutex);
    }
    for (uint32_t i = 0; pool->engines && i < pool->count; i++)
        if (pool->engines[i].started && !foreign)
            bzi_os_thread_join(pool->engines[i].thread);
    if (pool->has_cond && !foreign)
        bzi_os_cond_free(&pool->wake);
    if (pool->has_turns && !foreign)
        bzi_os_cond_free(&pool->turns);
    if (pool->has_mutex && !foreign)
        bzi_os_mutex_free(&pool->mutex);
    bzi_release(&memory, pool->engines, pool->count, sizeof *pool->engines);
    bzi_release(&memory, pool, 1, sizeof *pool);
}

static bzna_status bzi_pool_start(bzi_pool *pool, bzna_error *err)
{
    pool->engines = bzi_alloc_zero(&pool->host->memory, pool->count, sizeof *pool->engines);
    if (!pool->engines)
        return bzi_fail_memory(err, "decode sessions");
    pool->has_mutex = bzi_os_mutex_init(&pool->mutex) == 0;
    pool->has_cond = pool->has_mutex && bzi_os_cond_init(&pool->wake) == 0;
    pool->has_turns = pool->has_cond && bzi_os_cond_init(&pool->turns) == 0;
    if (!pool->has_turns)
        return BZI_FAIL(err, BZNA_E_THREAD, "cannot make a lock");
    pool->live = pool->count;
    for (uint32_t i = 0; i < pool->count; i++) {
        bzi_engine *engine = &pool->engines[i];
        int error;
        engine->pool = pool;
        engine->lane.device = pool->device;
        engine->lane.number = i;
        if ((error = bzi_os_thread_start(&engine->thread, bzi_engine_run, engine, -1)) != 0)
            return bzi_fail(err, BZNA_E_THREAD, BZNA_NO_OFFSET, 0, error,
                            "context_config.sessions: cannot start session %u of %u: %s", i, pool->count,
                            strerror(error));
        engine->started = 1;
    }
    return BZNA_OK;
}

static bzna_status bzi_pool_open(bzi_device *device, bzi_host *host, bzi_pool **out, bzna_error *err)
{
    bzi_pool *pool = bzi_alloc_zero(&host->memory, 1, sizeof *pool);
    bzna_status status;
    if (!pool)
        return bzi_fail_memory(err, "decode sessions");
    pool->host = host;
    pool->device = device;
    pool->count = device->desc.sessions;
    if (!pool->count && device->desc.sessions_per_engine)
        pool->count = (uint32_t)bzi_min(device->desc.sessions_per_engine * device->info.engines, BZI_LIMIT_SESSIONS);
    if (!pool->count)
        pool->count = device->info.engines == 1 ? 3 : 2 * device->info.engines;
    if ((status = bzi_pool_start(pool, err)) != BZNA_OK) {
        bzi_pool_close(pool);
        return status;
    }
    *out = pool;
    return BZNA_OK;
}

#else

#define bzi_pool_open(device, host, out, err) bzi_device_none(err, device, host, out)
#define bzi_pool_close                        bzi_device_skip

#endif


/* ==== 59. Contexts ===================================================================================================
 * Calls: rooms 3-5, 45-47, 50, 58. A context: the host, and the device and its pool, each made by the first loader that
 * needs it. */

struct bzna_context {
    bzi_host       *host;
    atomic_int      references;       /* the owner's, and one a loader */
    bzi_device_desc device_desc;
    bzi_mutex       mutex;            /* (C) a leaf; never held across a call of the driver's or the user's */
    bzi_device     *device;           /* (C) */
    bzna_error      device_error;     /* (C) status < 0: why there is no device */
    bzi_pool       *pool;             /* (C) */
};

static void bzi_context_retain(bzna_context *context) { atomic_fetch_add(&context->references, 1); }

static void bzi_context_drop(bzna_context *context)
{
    bzi_host *host = context->host;
    if (atomic_fetch_sub(&context->references, 1) != 1)
        return;
    if (context->pool)
        bzi_pool_close(context->pool);
    if (context->device)
        bzi_device_close(context->device);
    bzi_os_mutex_free(&context->mutex);
    bzi_release(&host->memory, context, 1, sizeof *context);
    bzi_host_drop(host);
}

/* config is checked and complete. */
static bzna_status bzi_context_make(const bzna_context_config *config, bzna_context **out, bzna_error *err)
{
    bzi_host *host = NULL;
    bzna_context *context;
    bzna_status status = bzi_host_open(config, &host, err);
    if (status != BZNA_OK)
        return status;
    context = bzi_alloc_zero(&host->memory, 1, sizeof *context);
    if (!context || bzi_os_mutex_init(&context->mutex)) {
        status = context ? BZI_FAIL(err, BZNA_E_THREAD, "cannot make a lock") : bzi_fail_memory(err, "a context");
        bzi_release(&host->memory, context, 1, sizeof *context);
        bzi_host_drop(host);
        return status;
    }
    context->host = host;
    atomic_init(&context->references, 1);
    context->device_desc.host = host;
    context->device_desc.wanted = config->device;
    context->device_desc.cuda_context = config->cuda_context;
    context->device_desc.decode_memory_bytes = config->decode_memory_bytes;
    context->device_desc.allocator = config->device_allocator;
    context->device_desc.sessions = config->sessions;
    context->device_desc.sessions_per_engine = config->sessions_per_engine;
    context->device_desc.session_depth = config->session_depth;
    context->device_desc.session_mapped = config->session_mapped;
    *out = context;
    return BZNA_OK;
}

/* Keeps what this thread made without the lock: a device, or the reason why there is none; or a pool. If another thread
 * was faster, its own stays, and this thread's is closed. */
static void bzi_context_keep(bzna_context *context, bzi_device *device, const bzna_error *no_device, bzi_pool *pool)
{
    bzi_os_lock(&context->mutex);
    if (no_device && !context->device && context->device_error.status == BZNA_OK) {
        context->device = device;
        context->device_error = *no_device;
        device = NULL;
    }
    if (!context->pool) {
        context->pool = pool;
        pool = NULL;
    }
    bzi_os_unlock(&context->mutex);
    if (pool)
        bzi_pool_close(pool);
    if (device)
        bzi_device_close(device);
}

/* The context's device, made by the first that asks. */
static bzna_status bzi_context_gpu(bzna_context *context, bzi_device **out, bzna_error *err)
{
    bzi_device *made = NULL;
    bzna_error why;
    int known;
    *out = NULL;
    if (context->device_desc.wanted.kind == BZNA_DEVICE_CPU)
        return BZI_FAIL(err, BZNA_E_DEVICE, "context_config.device is BZNA_DEVICE_CPU");
    bzi_os_lock(&context->mutex);
    known = context->device || context->device_error.status != BZNA_OK;
    bzi_os_unlock(&context->mutex);
    if (!known) {
        bzi_error_init(&why);
        if (bzi_device_open(&context->device_desc, &made, &why) == BZNA_OK &&
            bzi_check_device(made, &why) != BZNA_OK) {
            bzi_device_close(made);
            made = NULL;
        }
        if (why.status != BZNA_OK) {
            if (why.status == BZNA_E_DEVICE_LOST)           /* nothing of ours was on it: it just cannot be used */
                why.status = BZNA_E_DEVICE;
            if (why.status == BZNA_E_MEMORY) {              /* not remembered: there may be memory the next time */
                *err = why;
                return err->status;
            }
            bzi_log(context->host, BZNA_LOG_INFO, why.status, "no GPU: %s", why.message);
        }
        bzi_context_keep(context, made, &why, NULL);
    }
    if (context->device_error.status != BZNA_OK) {
        *err = context->device_error;
        return err->status;
    }
    if (bzi_device_is_foreign(context->device))
        return bzi_cuda_fail_forked(err);
    *out = context->device;
    return bzi_device_is_lost(context->device) ? bzi_device_fail_lost(context->device, err) : BZNA_OK;
}

/* The device's pool, made by the first loader that decodes on it. Pre: bzi_context_gpu returned the device. */
static bzna_status bzi_context_pool(bzna_context *context, bzi_pool **out, bzna_error *err)
{
    bzi_pool *made = NULL;
    bzna_status status;
    bzi_os_lock(&context->mutex);
    *out = context->pool;
    bzi_os_unlock(&context->mutex);
    if (*out)
        return BZNA_OK;
    if ((status = bzi_pool_open(context->device, context->host, &made, err)) != BZNA_OK)
        return status;
    bzi_context_keep(context, NULL, NULL, made);
    *out = context->pool;
    return BZNA_OK;
}


/* ==== 60. Parts of a loader, closing =================================================================================
 * Calls: rooms 2-5, 35, 43, 46-48, 51-53, 55, 57, 59. Makes a loader's batches, queues, order, locks and threads, and
 * ends them. */

/* --- Batches --- */

/* Arrays of a batch's block: data, targets, indices, status, errors, then a field each. */
enum { BZI_BATCH_ARRAYS = 5 + 2 * BZI_LIMIT_COLUMNS };

/* Where they lie. data_bytes: 0 if the data lies elsewhere. Returns 0 on overflow. */
static int bzi_batch_layout(const bzna_loader *loader, uint64_t data_bytes, uint64_t offsets[BZI_BATCH_ARRAYS],
                            uint64_t *total)
{
    const uint32_t tensors = loader->column_count[0], count = 5 + tensors + loader->column_count[1];
    uint64_t sizes[5] = { 0, sizeof(int64_t), sizeof(uint64_t), sizeof(bzna_status), sizeof(bzna_error) };
    uint64_t at = data_bytes + (BZI_BATCH_ALIGN - data_bytes % BZI_BATCH_ALIGN) % BZI_BATCH_ALIGN;
    offsets[0] = 0;
    for (uint32_t i = 1; i < count; i++) {
        uint64_t size = i < 5           ? sizes[i] :
                        i - 5 < tensors ? bzi_column_bytes(&loader->columns[i - 5]) :
                                          sizeof(bzi_slot_bytes);
        offsets[i] = at;
        if (!bzi_mul(size, loader->config.output.batch_size, &size) || !bzi_add(at, size, &at) ||
            !bzi_add(at, BZI_BATCH_ALIGN - 1, &at))
            return 0;
        at &= ~(uint64_t)(BZI_BATCH_ALIGN - 1);
    }
    *total = at;
    return 1;
}

/* The arrays of a batch, in its block. */
static void bzi_batch_point(bzna_batch *batch, const uint64_t at[BZI_BATCH_ARRAYS])
{
    const bzna_loader *loader = batch->loader;
    const uint32_t tensors = loader->column_count[0], count = tensors + loader->column_count[1];
    batch->targets = (int64_t *)(void *)(batch->block + at[1]);
    batch->indices = (uint64_t *)(void *)(batch->block + at[2]);
    batch->status = (bzna_status *)(void *)(batch->block + at[3]);
    batch->errors = (bzna_error *)(void *)(batch->block + at[4]);
    for (uint32_t i = 0; i < count; i++) {
        batch->columns[i] = batch->block + at[5 + i];
        if (i >= tensors)
            memset(batch->columns[i], 0, loader->config.output.batch_size * sizeof(bzi_slot_bytes));
    }
}

/* What a batch needs of the device: memory, pinned memory if data goes to the host, events. In the CUDA context. */
static bzna_status bzi_batch_make_device(bzna_batch *batch, uint32_t number, bzna_error *err)
{
    bzna_loader *loader = batch->loader;
    uint64_t bytes = loader->data_bytes;
    bzna_status status = BZNA_OK;
    batch->written = loader->events + (uint64_t)number * loader->lanes;
    batch->touched = loader->touched + (uint64_t)number * loader->lanes;
    if (!loader->on_device || !loader->config.output.buffers)
        status = bzi_device_alloc(loader->device, bytes, loader->stream, &batch->device_data, err);
    if (status == BZNA_OK && !loader->on_device && !loader->config.output.buffers)
        status = bzi_device_pin(loader->device, bytes, &batch->pinned, err);
    if (status == BZNA_OK)
        status = bzi_device_event(loader->device, &batch->released, err);
    for (uint32_t i = 0; i < loader->lanes && status == BZNA_OK; i++)
        status = bzi_device_event(loader->device, &batch->written[i], err);
    if (status == BZNA_OK)                                  /* whoever had the memory may still use it on that stream */
        status = bzi_device_record(loader->device, batch->released, loader->stream, err);
    batch->has_release = status == BZNA_OK;
    return status;
}

static void bzi_batch_free_device(bzna_batch *batch)
{
    bzna_loader *loader = batch->loader;
    for (uint32_t i = 0; i < loader->lanes; i++)
        bzi_device_event_free(loader->device, batch->written[i]);
    bzi_device_event_free(loader->device, batch->released);
    bzi_device_free(loader->device, batch->device_data, loader->data_bytes, loader->stream);
    bzi_device_unpin(loader->device, batch->pinned);
}

/* Where the slices of a batch lie: the user's buffers, else one after the other in the library's memory. */
static void bzi_batch_place(bzna_batch *batch, uint32_t number, uint8_t *host)
{
    const bzna_loader *loader = batch->loader;
    const bzna_loader_config *config = &loader->config;
    uint64_t slice_bytes = config->output.batch_size / config->output.slices * loader->slot_bytes;
    uint64_t first = (uint64_t)number * config->output.slices;
    uint8_t *data = loader->on_device ? (uint8_t *)(uintptr_t)batch->device_data : batch->pinned ? batch->pinned : host;
    batch->slices = loader->slice_data + first;
    for (uint32_t k = 0; k < config->output.slices; k++)
        batch->slices[k] = config->output.buffers ? config->output.buffers[first + k].data : data + k * slice_bytes;
}

/* All there is of one batch. at: where its arrays lie in its block. In the CUDA context, if there is one. */
static bzna_status bzi_batch_make(bzna_loader *loader, uint32_t number, const uint64_t at[BZI_BATCH_ARRAYS],
                                  bzna_error *err)
{
    bzna_batch *batch = &loader->batches[number];
    bzna_status status;
    batch->block = bzi_alloc(&loader->host->memory, loader->block_bytes, 1, BZI_BATCH_ALIGN);
    if (!batch->block)
        return BZI_FAIL(err, BZNA_E_MEMORY,
                        "out of memory for batch %u of %llu bytes (batch_size, width, height, batches_in_flight)",
                        number, (unsigned long long)loader->block_bytes);
    batch->loader = loader;
    batch->stream = loader->stream;
    bzi_batch_point(batch, at);
    if (loader->device && (status = bzi_batch_make_device(batch, number, err)) != BZNA_OK)
        return bzi_error_prefix(err, "loader_config.output.batch_size, width, height, pipeline.batches_in_flight");
    bzi_batch_place(batch, number, batch->block + at[0]);
    if (batch->has_release)
        bzi_batch_to_retiring(batch);                       /* there are no threads yet: no lock */
    else
        bzi_batch_to_free(batch);
    return BZNA_OK;
}

static bzna_status bzi_loader_make_batches(bzna_loader *loader, bzna_error *err)
{
    const bzna_loader_config *config = &loader->config;
    uint64_t at[BZI_BATCH_ARRAYS], data_bytes = config->output.buffers || loader->device ? 0 : loader->data_bytes;
    bzna_status status = BZNA_OK;
    if (!bzi_batch_layout(loader, data_bytes, at, &loader->block_bytes))
        return bzi_fail_memory(err, "batches");
    for (uint32_t i = 0; i < config->pipeline.batches_in_flight && status == BZNA_OK; i++)
        status = bzi_batch_make(loader, i, at, err);
    return status;
}

/* --- The loader's parts --- */

static bzna_status bzi_loader_make_items(bzna_loader *loader, bzna_error *err)
{
    const bzi_memory *memory = &loader->host->memory;
    const bzna_loader_config *config = &loader->config;
    const uint64_t in_flight = config->pipeline.batches_in_flight;
    loader->item_count = config->read.ahead_samples + config->decode.threads + config->read.threads;
    if (loader->pool)
        loader->item_count += loader->pool->count * bzi_nvdec_chosen(loader->device);
    loader->items = bzi_alloc_zero(memory, loader->item_count, sizeof *loader->items);
    loader->free_items = bzi_alloc_zero(memory, loader->item_count, sizeof *loader->free_items);
    loader->redo = bzi_alloc_zero(memory, loader->item_count, sizeof *loader->redo);
    loader->ring = bzi_alloc_zero(memory, loader->item_count, sizeof *loader->ring);
    loader->batches = bzi_alloc_zero(memory, in_flight, sizeof *loader->batches);
    loader->slice_data = bzi_alloc_zero(memory, in_flight * config->output.slices, sizeof *loader->slice_data);
    loader->events = bzi_alloc_zero(memory, in_flight * loader->lanes, sizeof *loader->events);
    loader->touched = bzi_alloc_zero(memory, in_flight * loader->lanes, sizeof *loader->touched);
    loader->pending_batches = bzi_alloc_zero(memory, in_flight, sizeof *loader->pending_batches);
    loader->workers = bzi_alloc_zero(memory, config->decode.threads, sizeof *loader->workers);
    loader->readers = bzi_alloc_zero(memory, config->read.threads, sizeof *loader->readers);
    if (!loader->items || !loader->free_items || !loader->redo || !loader->ring || !loader->batches ||
        !loader->slice_data || !loader->events || !loader->touched || !loader->pending_batches || !loader->workers ||
        !loader->readers)
        return bzi_fail_memory(err, "a loader's queues");
    for (uint32_t i = 0; i < loader->item_count; i++)
        loader->free_items[loader->free_item_count++] = &loader->items[i];
    return BZNA_OK;
}

/* Copies of the user's arrays, and memory for what follows from weights. */
static bzna_status bzi_loader_copy_order(bzna_loader *loader, bzna_error *err)
{
    const bzi_memory *memory = &loader->host->memory;
    const bzna_loader_config *c = &loader->config;
    bzi_order *order = &loader->order;
    if (c->order.index_count &&
        !(loader->indices = bzi_alloc_copy(memory, c->order.indices, c->order.index_count, sizeof *loader->indices)))
        return bzi_fail_memory(err, "loader_config.order.indices");
    if (c->order.weight_count &&
        (!(loader->weights = bzi_alloc_copy(memory, c->order.weights, c->order.weight_count,
                                            sizeof *loader->weights)) ||
         !(loader->sums = bzi_alloc_zero(memory, c->order.weight_count, sizeof *loader->sums))))
        return bzi_fail_memory(err, "loader_config.order.weights");
    if (c->order.weights_by_part &&
        !(loader->ends = bzi_alloc_zero(memory, c->order.weight_count, sizeof *loader->ends)))
        return bzi_fail_memory(err, "loader_config.order.weights");
    if (c->order.weighting == BZNA_WEIGHTING_ONCE &&
        !(order->ranked = bzi_alloc_zero(memory, order->samples, sizeof *order->ranked)))
        return bzi_fail_memory(err, "the order of weighted draws");
    return BZNA_OK;
}

/* Whether an epoch of indices holds a sample twice: a bit a sample of the data set. Of a data set too large for that,
 * it is assumed. */
static bzna_status bzi_loader_find_repeats(const bzna_loader *loader, uint32_t *repeats, bzna_error *err)
{
    const bzi_memory *memory = &loader->host->memory;
    const uint64_t count = loader->order.samples, bytes = loader->dataset->count / 8 + 1;
    uint8_t *seen;
    *repeats = loader->config.order.weighting == BZNA_WEIGHTING_REPLACE ||
               (loader->indices && loader->dataset->count > BZI_LIMIT_SEEN);
    if (*repeats || !loader->indices)
        return BZNA_OK;
    if (!(seen = bzi_alloc_zero(memory, bytes, 1)))
        return bzi_fail_memory(err, "loader_config.order.indices");
    for (uint64_t i = 0; i < count && !*repeats; i++) {
        uint8_t bit = (uint8_t)(1u << loader->indices[i] % 8), *at = &seen[loader->indices[i] / 8];
        *repeats = (*at & bit) != 0;
        *at |= bit;
    }
    bzi_release(memory, seen, bytes, 1);
    return BZNA_OK;
}

/* Pre: the config's counts and values are checked, and its arrays are still there. */
static bzna_status bzi_loader_make_order(bzna_loader *loader, bzna_error *err)
{
    const bzna_loader_config *config = &loader->config;
    const bzna_dataset *dataset = loader->dataset;
    bzi_order *order = &loader->order;
    double sum = 0;
    bzna_status status;
    order->samples = config->order.index_count ? config->order.index_count : dataset->count;
    order->length = config->order.epoch_samples;
    order->shuffle = config->order.kind == BZNA_ORDER_SHUFFLE;
    order->weighting = config->order.weighting;
    order->group_count = (uint32_t)config->order.weight_count;
    if ((status = bzi_loader_copy_order(loader, err)) != BZNA_OK)
        return status;
    for (uint64_t i = 0; i < config->order.weight_count; i++) {
        sum += loader->weights[i];
        loader->sums[i] = sum;
        if (loader->ends)
            loader->ends[i] = dataset->parts[i].begin + dataset->parts[i].count;
    }
    order->indices = loader->indices;
    order->weights = loader->weights;
    order->sums = loader->sums;
    order->ends = loader->ends;
    return bzi_loader_find_repeats(loader, &order->repeats, err);
}

static uint64_t bzi_loader_fingerprint(const bzna_loader *loader)
{
    uint64_t hash = bzi_dataset_fingerprint(loader->dataset);
    hash = bzi_hash(hash, &loader->order.weighting, sizeof loader->order.weighting);
    if (loader->indices)
        hash = bzi_hash(hash, loader->indices, (size_t)(loader->order.samples * sizeof *loader->indices));
    if (loader->weights)
        hash = bzi_hash(hash, loader->weights, (size_t)(loader->order.group_count * sizeof *loader->weights));
    return hash;
}

static bzi_cond *bzi_loader_cond(bzna_loader *loader, uint32_t number)
{
    bzi_cond *conds[BZI_CONDS] = { &loader->reader_wake, &loader->holder_wake, &loader->worker_wake,
                                   &loader->consumer_wake, &loader->control_wake };
    return conds[number];
}

static bzna_status bzi_loader_make_locks(bzna_loader *loader, bzna_error *err)
{
    loader->has_mutex = bzi_os_mutex_init(&loader->mutex) == 0;
    while (loader->has_mutex && loader->cond_count < BZI_CONDS &&
           bzi_os_cond_init(bzi_loader_cond(loader, loader->cond_count)) == 0)
        loader->cond_count++;
    return loader->cond_count == BZI_CONDS ? BZNA_OK : BZI_FAIL(err, BZNA_E_THREAD, "cannot make a lock");
}

static void bzi_loader_free_locks(bzna_loader *loader)
{
    while (loader->cond_count)
        bzi_os_cond_free(bzi_loader_cond(loader, --loader->cond_count));
    if (loader->has_mutex)
        bzi_os_mutex_free(&loader->mutex);
}

/* The processor of a thread, or -1: any. */
static int32_t bzi_loader_cpu(const bzna_loader *loader, uint32_t thread)
{
    return loader->config.pipeline.cpus ? loader->config.pipeline.cpus[thread % loader->config.pipeline.cpu_count] : -1;
}

static bzna_status bzi_loader_start_workers(bzna_loader *loader, bzna_error *err)
{
    for (uint32_t i = 0; i < loader->worker_count; i++) {
        const bzi_host *host = loader->host;
        bzi_worker *worker = &loader->workers[i];
        int32_t cpu = bzi_loader_cpu(loader, i);
        int error;
        bzna_status status = BZNA_OK;
        if (loader->slot_bytes)
            status = bzi_software_open(&worker->software, &host->memory, host->max_edge_px, err);
        worker->loader = loader;
        if (status == BZNA_OK && loader->on_device)
            status = bzi_worker_make_lane(worker, (loader->pool ? loader->pool->count : 0) + i, err);
        if (status != BZNA_OK)
            return status;
        if ((error = bzi_os_thread_start(&worker->thread, bzi_worker_run, worker, cpu)) != 0)
            return bzi_fail(
                err, BZNA_E_THREAD, BZNA_NO_OFFSET, 0, error,
                "loader_config.decode.threads, pipeline.cpus: cannot start decoder thread %u of %u on processor %d: %s",
                i, loader->config.decode.threads, cpu, strerror(error));
        worker->started = 1;
    }
    return BZNA_OK;
}

static bzna_status bzi_loader_start_readers(bzna_loader *loader, bzna_error *err)
{
    const bzna_loader_config *config = &loader->config;
    for (uint32_t i = 0; i < config->read.threads; i++) {
        bzi_reader *reader = &loader->readers[i];
        int32_t cpu = bzi_loader_cpu(loader, config->decode.threads + i);
        int error;
        reader->loader = loader;
        if ((error = bzi_os_thread_start(&reader->thread, bzi_reader_run, reader, cpu)) != 0)
            return bzi_fail(
                err, BZNA_E_THREAD, BZNA_NO_OFFSET, 0, error,
                "loader_config.read.threads, pipeline.cpus: cannot start reader %u of %u on processor %d: %s", i,
                config->read.threads, cpu, strerror(error));
        reader->started = 1;
    }
    return BZNA_OK;
}

/* --- Closing --- */

/* The host waits until no lane writes to the batch. In the CUDA context. */
static void bzi_batch_drain_writes(bzna_batch *batch)
{
    bzna_error ignored;
    for (uint32_t i = 0; batch->touched && i < batch->loader->lanes; i++)
        if (batch->touched[i]) {
            bzi_device_await(batch->loader->device, batch->written[i], &ignored);
            batch->touched[i] = 0;
        }
}

/* The host waits until nothing on the device writes to batches that were not delivered. In the CUDA context. */
static void bzi_loader_drain_writes(bzna_loader *loader)
{
    for (uint32_t i = 0; i < loader->config.pipeline.batches_in_flight; i++)
        if (loader->batches[i].loader && loader->batches[i].state != BZI_BATCH_ON_LOAN)
            bzi_batch_drain_writes(&loader->batches[i]);
}

/* The host waits until nothing on the device reads batches that were released. In the CUDA context. */
static void bzi_loader_drain_reads(bzna_loader *loader)
{
    bzna_error ignored;
    for (uint32_t i = 0; i < loader->config.pipeline.batches_in_flight; i++)
        if (loader->batches[i].state == BZI_BATCH_RETIRING)
            bzi_batch_drain_reads(&loader->batches[i], &ignored);
}

static void bzi_loader_free_device(bzna_loader *loader)
{
    bzna_error ignored;
    uint32_t made = loader->batches ? loader->config.pipeline.batches_in_flight : 0;
    /* If the device is lost, that fails, and what is the library's own is freed nevertheless. */
    int entered = bzi_device_enter(loader->device, &ignored) == BZNA_OK;
    if (made) {
        bzi_loader_drain_writes(loader);
        bzi_loader_drain_reads(loader);
    }
    for (uint32_t i = 0; i < made; i++)
        if (loader->batches[i].loader && loader->batches[i].written)
            bzi_batch_free_device(&loader->batches[i]);
    for (uint32_t i = 0; i < loader->output_count; i++)
        bzi_device_free(loader->device, loader->outputs[i].device_mean, loader->outputs[i].mean_bytes, loader->stream);
    if (loader->owns_stream)
        bzi_device_stream_free(loader->device, loader->stream);
    if (entered)
        bzi_device_leave(loader->device);
}

/* The rest, which batches on loan still need. Pre: bzi_loader_end. */
static void bzi_loader_free(bzna_loader *loader)
{
    bzna_context *context = loader->context;
    const bzi_memory *memory = &loader->host->memory;
    uint32_t in_flight = loader->config.pipeline.batches_in_flight;
    if (loader->device)
        bzi_loader_free_device(loader);
    for (uint32_t i = 0; i < loader->output_count; i++)
        bzi_release(memory, loader->outputs[i].mean, loader->outputs[i].mean_bytes, 1);
    for (uint32_t i = 0; loader->batches && i < in_flight; i++) {
        if (loader->batches[i].block)
            bzi_batch_free_bytes(&loader->batches[i]);
        bzi_release(memory, loader->batches[i].block, loader->block_bytes, 1);
    }
    bzi_release(memory, loader->events, (uint64_t)in_flight * loader->lanes, sizeof *loader->events);
    bzi_release(memory, loader->touched, (uint64_t)in_flight * loader->lanes, sizeof *loader->touched);
    bzi_release(memory, loader->batches, in_flight, sizeof *loader->batches);
    bzi_release(memory, loader->slice_data, (uint64_t)in_flight * loader->config.output.slices,
                sizeof *loader->slice_data);
    bzi_loader_free_locks(loader);
    bzi_release(memory, loader, 1, sizeof *loader);
    bzi_context_drop(context);
}

/* Waits until neither a thread of the library nor one in next uses the loader any more. */
static void bzi_loader_join(bzna_loader *loader)
{
    if (loader->cond_count == BZI_CONDS) {
        bzi_os_lock(&loader->mutex);
        loader->quit = 1;
        bzi_loader_wake_all(loader);
        bzi_pool_withdraw(loader);
        while (loader->waiting || loader->active)
            bzi_os_wait(&loader->control_wake, &loader->mutex);
        bzi_os_unlock(&loader->mutex);
    }
    for (uint32_t i = 0; loader->readers && i < loader->config.read.threads; i++)
        if (loader->readers[i].started)
            bzi_os_thread_join(loader->readers[i].thread);
    for (uint32_t i = 0; loader->workers && i < loader->config.decode.threads; i++)
        if (loader->workers[i].started)
            bzi_os_thread_join(loader->workers[i].thread);
}

/* Ends the threads and frees what only they use. */
static void bzi_loader_end(bzna_loader *loader)
{
    const bzi_memory *memory = &loader->host->memory;
    const bzna_loader_config *config = &loader->config;
    bzna_error ignored;
    int entered = 0;
    bzi_loader_join(loader);
    if (loader->device)
        entered = bzi_device_enter(loader->device, &ignored) == BZNA_OK;
    for (uint32_t i = 0; loader->workers && i < config->decode.threads; i++) {
        if (loader->workers[i].software.memory)
            bzi_software_close(&loader->workers[i].software);
        bzi_buffer_free(memory, &loader->workers[i].workspace);
        bzi_buffer_free(memory, &loader->workers[i].drawn);
        bzi_worker_free_lane(&loader->workers[i]);
    }
    if (entered)
        bzi_device_leave(loader->device);
    for (uint32_t i = 0; loader->items && i < loader->item_count; i++)
        bzi_buffer_free(memory, &loader->items[i].bytes);
    bzi_release(memory, loader->items, loader->item_count, sizeof *loader->items);
    bzi_release(memory, loader->free_items, loader->item_count, sizeof *loader->free_items);
    bzi_release(memory, loader->redo, loader->item_count, sizeof *loader->redo);
    bzi_release(memory, loader->ring, loader->item_count, sizeof *loader->ring);
    bzi_release(memory, loader->pending_batches, config->pipeline.batches_in_flight, sizeof *loader->pending_batches);
    bzi_release(memory, loader->workers, config->decode.threads, sizeof *loader->workers);
    bzi_release(memory, loader->readers, config->read.threads, sizeof *loader->readers);
    bzi_release(memory, loader->indices, loader->order.samples, sizeof *loader->indices);
    bzi_release(memory, loader->weights, loader->order.group_count, sizeof *loader->weights);
    bzi_release(memory, loader->sums, loader->order.group_count, sizeof *loader->sums);
    bzi_release(memory, loader->ends, loader->order.group_count, sizeof *loader->ends);
    bzi_release(memory, loader->order.ranked, loader->order.samples, sizeof *loader->order.ranked);
    for (uint32_t i = 0; i < loader->pick_count; i++)
        if (loader->picks[i].name)
            bzi_release(memory, (void *)(uintptr_t)loader->picks[i].name, strlen(loader->picks[i].name) + 1, 1);
    bzi_dataset_drop(loader->dataset);
}

static uint64_t bzi_loader_end_epoch(const bzna_loader_config *config, uint64_t first)
{
    return config->order.epochs > UINT64_MAX - first ? UINT64_MAX : first + config->order.epochs;
}

/* Drops one reference; the last one frees. Without the lock. */
static void bzi_loader_unref(bzna_loader *loader)
{
    uint32_t left;
    bzi_os_lock(&loader->mutex);
    left = --loader->references;
    bzi_os_unlock(&loader->mutex);
    if (left == 0)
        bzi_loader_free(loader);
}

static void bzi_loader_close(bzna_loader *loader)
{
    bzi_loader_end(loader);
    bzi_loader_unref(loader);
}


/* ==== 61. Delivering =================================================================================================
 * Calls: rooms 2-3, 5, 46-47, 51-52, 60. What the consumer's calls do: batches out and back, tensors, resets, states,
 * statistics. */

/* A batch with a failed sample, when the user wants to stop at the first. */
static bzna_status bzi_loader_poison(bzna_loader *loader, const bzna_batch *batch, bzna_error *err)
{
    uint32_t slot = 0;
    if (loader->poison.status == BZNA_OK) {
        while (batch->status[slot] == BZNA_OK)              /* there is one: failed > 0 */
            slot++;
        loader->poison = batch->errors[slot];
        loader->poison.status = batch->status[slot];
    }
    *err = loader->poison;
    return err->status;
}

/* The next batch with the lock held, or why not. */
static bzna_status bzi_loader_wait(bzna_loader *loader, int64_t timeout_ns, bzna_batch **out, bzna_error *err)
{
    uint64_t deadline = timeout_ns > 0 ? bzi_os_now_ns() + (uint64_t)timeout_ns : 0;
    int expired = timeout_ns == 0;
    for (;;) {
        bzna_batch *head = loader->pending_count ? loader->pending_batches[loader->pending_first] : NULL;
        if (loader->quit || loader->stopped)
            return BZI_FAIL(err, BZNA_E_STOPPED, "the loader was stopped");
        if (loader->poison.status != BZNA_OK) {
            *err = loader->poison;
            return err->status;
        }
        if (head && head->state == BZI_BATCH_READY && head->failed &&
            loader->config.errors.policy == BZNA_ON_ERROR_STOP)
            return bzi_loader_poison(loader, head, err);
        if (head && head->state == BZI_BATCH_READY) {
            *out = head;
            return BZNA_OK;
        }
        if (!head && !bzi_plan_has_batch(loader))
            return BZNA_END;
        if (!head && loader->on_loan == loader->config.pipeline.batches_in_flight)
            return BZI_FAIL(err, BZNA_E_STATE,
                            "all %u batches are on loan: release one first, or raise batches_in_flight",
                            loader->on_loan);
        if (expired)
            return BZNA_AGAIN;
        if (timeout_ns < 0)
            bzi_os_wait(&loader->consumer_wake, &loader->mutex);
        else
            expired = bzi_os_wait_until(&loader->consumer_wake, &loader->mutex, deadline);    /* then look once more */
    }
}

/* Makes the consumer's stream wait for the lanes that wrote to the batch; for a batch on the host, the host waits. */
static bzna_status bzi_batch_wait_written(bzna_batch *batch, bzna_error *err)
{
    bzna_loader *loader = batch->loader;
    bzi_device *device = loader->device;
    bzna_status status = bzi_device_enter(device, err);
    if (status != BZNA_OK)
        return status;
    batch->stream = loader->stream;
    for (uint32_t i = 0; i < loader->lanes && status == BZNA_OK; i++) {
        if (!batch->touched[i])
            continue;
        status = loader->on_device ? bzi_device_order(device, batch->stream, batch->written[i], err) :
                                     bzi_device_await(device, batch->written[i], err);
        batch->touched[i] = status != BZNA_OK;
    }
    if (status != BZNA_OK)                                  /* nobody gets the batch, which may be free after this */
        bzi_batch_drain_writes(batch);
    bzi_device_leave(device);
    return status;
}

/* Records the event after all that the consumer has enqueued; where that fails, the host waits for it. */
static bzna_status bzi_batch_record_release(bzna_batch *batch, bzna_error *err)
{
    bzi_device *device = batch->loader->device;
    bzna_status status = bzi_device_enter(device, err);
    if (status != BZNA_OK)
        return status;
    batch->has_release = bzi_device_record(device, batch->released, batch->stream, err) == BZNA_OK;
    if (!batch->has_release)
        status = bzi_device_drain(device, batch->stream, err);
    bzi_device_leave(device);
    return status;
}

/* Drops one reference to a batch on loan; the last one ends the loan. Without the lock. */
static void bzi_batch_unref(bzna_batch *batch)
{
    bzna_loader *loader = batch->loader;
    bzna_status status = BZNA_OK;
    bzna_error err;
    uint32_t left;
    bzi_os_lock(&loader->mutex);
    left = --batch->references;
    bzi_os_unlock(&loader->mutex);
    if (left)
        return;
    if (loader->on_device)
        status = bzi_batch_record_release(batch, &err);     /* nobody else has the batch: no lock */
    bzi_os_lock(&loader->mutex);
    if (status != BZNA_OK)
        bzi_loader_break(loader, &err);                     /* nothing may be written where GPU work perhaps reads */
    if (batch->has_release || status != BZNA_OK)
        bzi_batch_to_retiring(batch);
    else
        bzi_batch_to_free(batch);
    bzi_os_unlock(&loader->mutex);
    bzi_loader_unref(loader);
}

/* A batch that the device did not finish: nobody gets it. The error is its own, or the one that ended the loader
 * meanwhile: what every later call gets. */
static bzna_status bzi_loader_take_back(bzna_batch *batch, bzna_error *err)
{
    bzna_loader *loader = batch->loader;
    bzi_os_lock(&loader->mutex);
    bzi_loader_break(loader, err);
    *err = loader->poison;
    batch->owned = 0;
    bzi_os_unlock(&loader->mutex);
    bzi_batch_unref(batch);
    return err->status;
}

static bzna_status bzi_loader_next(bzna_loader *loader, int64_t timeout_ns, bzna_batch **out, bzna_error *err)
{
    bzna_stage_stats *stage = &loader->stats.stage[BZNA_STAGE_DELIVER];
    uint64_t start = bzi_os_now_ns();
    bzna_batch *batch = NULL;
    bzna_status status;
    bzi_os_lock(&loader->mutex);
    if (loader->waiting) {
        bzi_os_unlock(&loader->mutex);
        return BZI_FAIL(err, BZNA_E_STATE, "another thread is waiting in bzna_loader_next");
    }
    loader->waiting = 1;
    status = bzi_loader_wait(loader, timeout_ns, &batch, err);
    loader->waiting = 0;
    if (loader->quit)
        bzi_os_wake_all(&loader->control_wake);
    if (batch) {
        bzi_batch_to_loan(batch);
        stage->count++;
        stage->bytes += batch->slots * loader->slot_bytes;
    }
    stage->wait_before_ns += bzi_os_now_ns() - start;
    bzi_os_unlock(&loader->mutex);
    if (batch && loader->device && (status = bzi_batch_wait_written(batch, err)) != BZNA_OK)
        return bzi_loader_take_back(batch, err);
    if (batch && batch->real && batch->failed == batch->real)
        bzi_log(loader->host, BZNA_LOG_ERROR, batch->status[0], "all %u samples of batch %llu of epoch %llu failed",
                batch->real, (unsigned long long)batch->number, (unsigned long long)batch->epoch);
    *out = batch;
    return status;
}

static bzna_status bzi_batch_release(bzna_batch *batch)
{
    int owned;
    bzi_os_lock(&batch->loader->mutex);
    owned = batch->state == BZI_BATCH_ON_LOAN && batch->owned;
    batch->owned = 0;
    bzi_os_unlock(&batch->loader->mutex);
    if (!owned)
        return BZNA_E_STATE;
    bzi_batch_unref(batch);
    return BZNA_OK;
}

/* The last to have a tensor lets go of it. In a child after fork() nothing is done: the parent has the batch. */
static void bzi_batch_delete_tensor(bzna_batch *batch)
{
    if (!bzi_loader_forked(batch->loader))
        bzi_batch_unref(batch);
}
static void bzi_batch_delete_managed(bzi_dl_managed *tensor) { bzi_batch_delete_tensor(tensor->manager); }
static void bzi_batch_delete_versioned(bzi_dl_versioned *tensor) { bzi_batch_delete_tensor(tensor->manager); }

/* A tensor in DLPack's form. Shapes and strides are the batch's. */
static bzi_dl_tensor bzi_batch_dl_tensor(bzna_batch *batch, uint32_t number)
{
    static const struct { uint32_t dtype; uint8_t code, bits; } types[] = {
        { BZNA_DTYPE_FLOAT32, 2, 32 }, { BZNA_DTYPE_FLOAT16, 2, 16 }, { BZNA_DTYPE_BFLOAT16, 4, 16 },
        { BZNA_DTYPE_UINT8, 1, 8 }, { BZNA_DTYPE_INT32, 0, 32 }, { BZNA_DTYPE_INT64, 0, 64 },
        { BZNA_DTYPE_UINT64, 1, 64 },                       /* kDLInt, kDLUInt, kDLFloat, 4: kDLBfloat */
    };
    bzna_tensor from;
    bzi_dl_tensor to;
    bzi_batch_tensor(batch, number, &from);
    memset(&to, 0, sizeof to);
    to.data = batch->slots ? from.data : NULL;              /* as DLPack asks of empty tensors */
    to.device_type = from.device.kind;
    to.device_id = from.device.ordinal;
    to.dimensions = (int32_t)from.dimensions;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].dtype == from.dtype) {
            to.code = types[i].code;
            to.bits = types[i].bits;
        }
    to.lanes = 1;
    to.shape = memcpy(batch->shape[number], from.shape, sizeof batch->shape[number]);
    to.strides = batch->strides[number];
    to.strides[from.dimensions - 1] = 1;
    for (uint32_t i = from.dimensions - 1; i > 0; i--)
        to.strides[i - 1] = to.strides[i] * to.shape[i];
    return to;
}

/* All tensors: set when the first is asked for, then only read until the last is gone. With the lock held. */
static void bzi_batch_tensors(bzna_batch *batch)
{
    memset(batch->tensors, 0, sizeof batch->tensors);
    memset(batch->versioned, 0, sizeof batch->versioned);
    for (uint32_t number = 0; number < bzi_loader_tensors(batch->loader); number++) {
        batch->tensors[number].tensor = batch->versioned[number].tensor = bzi_batch_dl_tensor(batch, number);
        batch->tensors[number].manager = batch->versioned[number].manager = batch;
        batch->tensors[number].deleter = bzi_batch_delete_managed;
        batch->versioned[number].deleter = bzi_batch_delete_versioned;
        batch->versioned[number].major = 1;
    }
}

/* Every export of a tensor is the same struct, and a reference to the batch. */
static bzna_status bzi_batch_export(bzna_batch *batch, uint32_t number, uint32_t version, void **out, bzna_error *err)
{
    bzi_os_lock(&batch->loader->mutex);
    if (batch->state != BZI_BATCH_ON_LOAN || !batch->owned) {
        bzi_os_unlock(&batch->loader->mutex);
        return BZI_FAIL(err, BZNA_E_STATE, "bzna_batch_to_dlpack: the batch is not on loan");
    }
    if (batch->loader->on_device && batch->stream == BZNA_STREAM_PER_THREAD) {
        bzi_os_unlock(&batch->loader->mutex);
        return BZI_FAIL(err, BZNA_E_STATE,
                        "bzna_batch_to_dlpack: on BZNA_STREAM_PER_THREAD; a deleter on another thread would order "
                        "behind another stream");
    }
    if (batch->references++ == batch->owned)                /* no other tensor is out */
        bzi_batch_tensors(batch);
    bzi_os_unlock(&batch->loader->mutex);
    *out = version == BZNA_DLPACK_1 ? (void *)&batch->versioned[number] : (void *)&batch->tensors[number];
    return BZNA_OK;
}

/* To another stream: it waits for what is enqueued on the one before. */
static bzna_status bzi_batch_move(bzna_batch *batch, void *stream, bzna_error *err)
{
    bzi_device *device = batch->loader->device;
    bzna_status status;
    uint32_t tensors, owned;
    bzi_os_lock(&batch->loader->mutex);
    owned = batch->state == BZI_BATCH_ON_LOAN && batch->owned;
    tensors = batch->references - batch->owned;
    bzi_os_unlock(&batch->loader->mutex);
    if (!owned)
        return BZI_FAIL(err, BZNA_E_STATE, "bzna_batch_move: the batch is not on loan");
    if (tensors && stream == BZNA_STREAM_PER_THREAD)
        return BZI_FAIL(err, BZNA_E_STATE,
                        "bzna_batch_move: to BZNA_STREAM_PER_THREAD, with %u tensors, whose deleters may run on other "
                        "threads", tensors);
    if ((status = bzi_device_enter(device, err)) != BZNA_OK)
        return status;
    if ((status = bzi_device_record(device, batch->released, batch->stream, err)) == BZNA_OK &&
        (status = bzi_device_order(device, stream, batch->released, err)) == BZNA_OK)
        batch->stream = stream;
    bzi_device_leave(device);
    return status;
}

static void bzi_loader_stop(bzna_loader *loader)
{
    bzi_os_lock(&loader->mutex);
    loader->stopped = 1;
    bzi_loader_wake_all(loader);
    bzi_os_unlock(&loader->mutex);
}

/* Everything planned and not on loan is forgotten. With the lock held and nobody active. */
static void bzi_loader_clear(bzna_loader *loader)
{
    while (loader->ring_count) {
        loader->free_items[loader->free_item_count++] = loader->ring[loader->ring_first];
        loader->ring_first = (loader->ring_first + 1) % loader->item_count;
        loader->ring_count--;
    }
    while (loader->redo_count)
        loader->free_items[loader->free_item_count++] = loader->redo[--loader->redo_count];
    for (uint32_t i = 0; i < loader->config.pipeline.batches_in_flight; i++) {
        bzna_batch *batch = &loader->batches[i];
        if (batch->state == BZI_BATCH_FILLING || batch->state == BZI_BATCH_READY)
            bzi_batch_to_free(batch);
    }
    loader->pending_count = 0;
    loader->planning = NULL;
    memset(&loader->poison, 0, sizeof loader->poison);
}

/* Waits until the device writes to nothing that is planned. With the lock held although the host waits: nobody may take
 * what is about to be forgotten. */
static void bzi_loader_quiesce_device(bzna_loader *loader)
{
    bzna_error ignored;
    if (bzi_device_enter(loader->device, &ignored) != BZNA_OK)
        return;
    bzi_loader_drain_writes(loader);
    bzi_device_leave(loader->device);
}

/* Moves to a position of an epoch: waits for the samples at hand, forgets what is planned, plans from there. */
static bzna_status bzi_loader_seek(bzna_loader *loader, uint64_t seed, uint64_t epoch, uint64_t position,
                                   uint64_t end_epoch, bzna_error *err)
{
    bzi_os_lock(&loader->mutex);
    if (loader->waiting) {
        bzi_os_unlock(&loader->mutex);
        return BZI_FAIL(err, BZNA_E_STATE, "a thread is waiting in bzna_loader_next: stop the loader first");
    }
    loader->paused++;
    bzi_loader_wake_all(loader);
    bzi_pool_withdraw(loader);
    while (loader->active)
        bzi_os_wait(&loader->control_wake, &loader->mutex);
    if (loader->device)
        bzi_loader_quiesce_device(loader);
    bzi_loader_clear(loader);
    loader->config.order.seed = seed;
    loader->end_epoch = end_epoch;
    loader->done_epoch = epoch;
    loader->done_position = position;
    bzi_plan_epoch(loader, epoch, position);
    loader->paused--;
    loader->stopped = 0;
    bzi_loader_wake_all(loader);                            /* a thread that came to next meanwhile may be at the end */
    bzi_os_unlock(&loader->mutex);
    return BZNA_OK;
}

static bzna_status bzi_loader_reset(bzna_loader *loader, uint64_t epoch, bzna_error *err)
{
    uint64_t seed;
    bzi_os_lock(&loader->mutex);
    seed = loader->config.order.seed;
    bzi_os_unlock(&loader->mutex);
    return bzi_loader_seek(loader, seed, epoch, 0, bzi_loader_end_epoch(&loader->config, epoch), err);
}

#define BZI_STATE_BYTES_1 64u         /* of version 1, which ended with check */

static uint32_t bzi_loader_state_check(const bzna_loader_state *state)
{
    uint64_t hash = bzi_hash(BZI_HASH_START, state, offsetof(bzna_loader_state, check));
    if (state->version > 1)
        hash = bzi_hash(hash, &state->pixels, sizeof *state - offsetof(bzna_loader_state, pixels));
    return (uint32_t)(hash ^ hash >> 32);
}

static int bzi_is_zero(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    while (size && !bytes[size - 1])
        size--;
    return size == 0;
}

/* Of what fixes an output's pixels. Not of dtype and layout, which say how they are stored. */
static uint64_t bzi_output_pixels(const bzna_loader *loader, const bzi_output *output, uint64_t hash)
{
    const bzna_transform *t = &output->transform;
    const bzi_pick *pick = &loader->picks[output->picture];
    const uint32_t numbers[] = { output->shape.width, output->shape.height, t->filter,   t->antialias, t->matrix,
                                 t->fill_space,       pick->whole,
                                 (loader->config.pipeline.transform != NULL) |
                                     (uint32_t)(loader->config.pipeline.picture != NULL) << 1 };
    hash = bzi_hash(hash, numbers, sizeof numbers);
    hash = bzi_hash(hash, &output->warp, sizeof output->warp);
    hash = bzi_hash(hash, t->bias, sizeof t->bias);
    hash = bzi_hash(hash, t->scale, sizeof t->scale);
    hash = bzi_hash(hash, t->fill, sizeof t->fill);
    if (output->shape.channels)
        hash = bzi_hash(hash, &output->shape.channels, sizeof output->shape.channels);
    if (loader->stills)
        hash = bzi_hash(hash, &loader->stills, sizeof loader->stills);
    if (loader->jpeg.supported) {
        const uint32_t limits[] = { BZNA_DECODER_NVDEC, loader->jpeg.min_width, loader->jpeg.min_height,
                                    loader->jpeg.max_width, loader->jpeg.max_height, loader->jpeg.max_macroblocks };
        hash = bzi_hash(hash, limits, sizeof limits);
    }
    if (loader->config.decode.jpeg_shrink)
        hash = bzi_hash(hash, "shrink", sizeof "shrink");
    if (!bzi_is_zero(&output->jitter, sizeof output->jitter))
        hash = bzi_hash(hash, &output->jitter, sizeof output->jitter);
    if (output->mean_bytes)
        hash = bzi_hash(hash, &output->mean_hash, sizeof output->mean_hash);
    return bzi_hash(hash, pick->name ? pick->name : "", pick->name ? strlen(pick->name) : 0);
}

/* Of all outputs. */
static uint64_t bzi_loader_pixels(const bzna_loader *loader)
{
    uint64_t hash = BZI_HASH_START;
    for (uint32_t i = 0; i < loader->output_count; i++) {
        const bzi_output *output = &loader->outputs[i];
        const uint32_t numbers[] = { output->views, output->own_warp, output->own_filter, output->own_color };
        hash = bzi_output_pixels(loader, output, hash);
        if (i || output->views > 1)
            hash = bzi_hash(hash, numbers, sizeof numbers);
    }
    return hash;
}

static void bzi_loader_save(bzna_loader *loader, bzna_loader_state *state)
{
    memset(state, 0, sizeof *state);
    bzi_os_lock(&loader->mutex);
    state->struct_size = sizeof *state;
    state->version = 2;
    state->seed = loader->config.order.seed;
    state->epoch = loader->done_epoch;
    state->position = loader->done_position;
    state->fingerprint = loader->fingerprint;
    state->sample_count = loader->shard.count;
    state->end_epoch = loader->end_epoch;
    state->order = loader->config.order.kind;
    state->pixels = bzi_loader_pixels(loader);
    bzi_os_unlock(&loader->mutex);
    state->check = bzi_loader_state_check(state);
}

/* A state's own bytes, whole: version 1 has fewer. */
static bzna_status bzi_loader_state_in(const bzna_loader_state *given, bzna_loader_state *state, bzna_error *err)
{
    const uint32_t bytes = given->version == 1 ? BZI_STATE_BYTES_1 : (uint32_t)sizeof *state;
    memset(state, 0, sizeof *state);
    if (given->version < 1 || given->version > 2 || given->struct_size != bytes)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "state.version: %u of %u bytes is not known", given->version,
                        given->struct_size);
    memcpy(state, given, bytes);
    return BZNA_OK;
}

static bzna_status bzi_loader_restore(bzna_loader *loader, const bzna_loader_state *given, bzna_error *err)
{
    bzna_loader_state whole, *state = &whole;
    bzna_status status = bzi_loader_state_in(given, state, err);
    if (status != BZNA_OK)
        return status;
    if (state->check != bzi_loader_state_check(state))
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "state.check: the state is damaged");
    if (state->fingerprint != loader->fingerprint || state->sample_count != loader->shard.count)
        return BZI_FAIL(err, BZNA_E_ARGUMENT,
                        "state.fingerprint: the state is of another data set, of %llu samples an epoch; this one has "
                        "%llu%s", (unsigned long long)state->sample_count, (unsigned long long)loader->shard.count,
                        state->sample_count == loader->shard.count ? ", but not the same" : "");
    if (state->order != loader->config.order.kind)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "state.order: the state is of order %u, the loader has %u", state->order,
                        loader->config.order.kind);
    if (state->position > state->sample_count || state->epoch > state->end_epoch)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "state.position: %llu of %llu in epoch %llu",
                        (unsigned long long)state->position, (unsigned long long)state->sample_count,
                        (unsigned long long)state->epoch);
    if (state->version == 1)
        bzi_log(loader->host, BZNA_LOG_WARNING, BZNA_OK,
                "the state is of version 1, which does not say with what warp and colors its run was made");
    else if (state->pixels != bzi_loader_pixels(loader) && !loader->config.pipeline.restore_any_pixels)
        return BZI_FAIL(err, BZNA_E_ARGUMENT,
                        "state.pixels: the run had another size, warp, picture or colors "
                        "(loader_config.pipeline.restore_any_pixels "
                        "restores it all the same)");
    return bzi_loader_seek(loader, state->seed, state->epoch, state->position, state->end_epoch, err);
}

/* A judgement, not a measure: who waits for whom. */
static uint32_t bzi_loader_limit(const bzna_loader *loader, const bzna_loader_stats *stats)
{
    double elapsed = (double)(bzi_os_now_ns() - loader->opened_ns);
    uint32_t decoders = loader->pool ? bzi_loader_sessions(loader) : loader->config.decode.threads;
    if ((double)stats->stage[BZNA_STAGE_DELIVER].wait_before_ns < 0.1 * elapsed)
        return BZNA_STAGE_DELIVER;
    if ((double)stats->stage[BZNA_STAGE_DECODE].wait_before_ns <= 0.25 * elapsed * decoders)
        return BZNA_STAGE_DECODE;
    /* Readers that are blocked wait for what the consumer has enqueued. */
    return (double)stats->stage[BZNA_STAGE_READ].wait_after_ns > 0.5 * elapsed * loader->config.read.threads ?
           BZNA_STAGE_DELIVER : BZNA_STAGE_READ;
}

static void bzi_loader_stats(bzna_loader *loader, bzna_loader_stats *stats)
{
    bzi_os_lock(&loader->mutex);
    *stats = loader->stats;
    stats->stage[BZNA_STAGE_READ].depth = loader->redo_count;
    stats->stage[BZNA_STAGE_READ].capacity = loader->item_count;
    stats->stage[BZNA_STAGE_DECODE].depth = loader->ring_count;
    stats->stage[BZNA_STAGE_DECODE].capacity = loader->item_count;
    for (uint32_t i = 0; i < loader->config.pipeline.batches_in_flight; i++)
        stats->stage[BZNA_STAGE_DELIVER].depth += loader->batches[i].state == BZI_BATCH_READY;
    stats->stage[BZNA_STAGE_DELIVER].capacity = loader->config.pipeline.batches_in_flight;
    stats->read_memory_bytes = loader->held_bytes;
    if (loader->pool) {
        bzi_loader_count_starved(loader);
        stats->stage[BZNA_STAGE_DECODE].depth += loader->in_pool;
        stats->stage[BZNA_STAGE_DECODE].wait_before_ns = loader->starved_ns;
    }
    bzi_os_unlock(&loader->mutex);
    if (loader->pool)
        bzi_device_counts(loader->device, stats);
    stats->limiting_stage = bzi_loader_limit(loader, stats);
}


/* ==== 62. Configuration ==============================================================================================
 * Calls: rooms 3, 5, 39-41. Checks what callers ask for, by field; fills in defaults. */

static bzna_status bzi_device_check_wanted(const char *field, bzna_device device, bzna_error *err)
{
    if (device.kind < BZNA_DEVICE_AUTO || device.kind > BZNA_DEVICE_CUDA)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.kind: %d is neither AUTO, CPU nor CUDA", field, (int)device.kind);
    if (device.ordinal < 0 || (device.ordinal && device.kind != BZNA_DEVICE_CUDA))
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.ordinal: %d; it is 0, or counts CUDA devices from 0", field,
                        (int)device.ordinal);
    return BZNA_OK;
}

static bzna_status bzi_context_check(bzna_context_config *c, bzna_error *err)
{
    bzna_status status;
    if (!c->allocator.alloc != !c->allocator.release)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "context_config.allocator: alloc and release go together");
    if ((status = bzi_device_check_wanted("context_config.device", c->device, err)) != BZNA_OK)
        return status;
    if (c->log_level < 0 || c->log_level > BZNA_LOG_DEBUG)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "context_config.log_level: %d is not known", c->log_level);
    if (c->max_edge_px > 65535)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "context_config.max_edge_px: %u is more than 65535", c->max_edge_px);
    if (!c->device_allocator.alloc != !c->device_allocator.release)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "context_config.device_allocator: alloc and release go together");
    if (c->sessions > BZI_LIMIT_SESSIONS)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "context_config.sessions: %u is more than %u", c->sessions,
                        BZI_LIMIT_SESSIONS);
    if (c->sessions_per_engine > BZI_LIMIT_SESSIONS)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "context_config.sessions_per_engine: %u is more than %u",
                        c->sessions_per_engine, BZI_LIMIT_SESSIONS);
    if (c->session_depth > BZI_LIMIT_SESSION_DEPTH)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "context_config.session_depth: %u is more than %u", c->session_depth,
                        BZI_LIMIT_SESSION_DEPTH);
    if (c->session_mapped > BZI_KERNEL_SLOTS)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "context_config.session_mapped: %u is more than %u", c->session_mapped,
                        BZI_KERNEL_SLOTS);
    if (c->cuda_context && c->device.kind == BZNA_DEVICE_CPU)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "context_config.cuda_context: device.kind is BZNA_DEVICE_CPU");
    if (!c->allocator.alloc) {
        c->allocator.alloc = bzi_os_alloc;
        c->allocator.release = bzi_os_release;
    }
    c->log_level = c->log_level ? c->log_level : BZNA_LOG_WARNING;
    c->max_sample_bytes = c->max_sample_bytes ? c->max_sample_bytes : BZI_LIMIT_SAMPLE_BYTES;
    c->max_edge_px = c->max_edge_px ? c->max_edge_px : BZI_LIMIT_EDGE;
    c->session_depth = c->session_depth ? c->session_depth : 4;
    c->session_mapped = c->session_mapped ? c->session_mapped : BZI_KERNEL_SLOTS;
    return BZNA_OK;
}

static bzna_status bzi_output_check(const char *what, const bzna_output *o, bzna_error *err)
{
    if (!o->width || o->width > BZI_LIMIT_EDGE)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.width: %u is not in 1..%u", what, o->width, BZI_LIMIT_EDGE);
    if (!o->height || o->height > BZI_LIMIT_EDGE)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.height: %u is not in 1..%u", what, o->height, BZI_LIMIT_EDGE);
    if (o->dtype > BZNA_DTYPE_UINT8)
        return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "%s.dtype: %u; only float32, float16, bfloat16 and uint8", what,
                        o->dtype);
    if (o->layout > BZNA_LAYOUT_NHWC)
        return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "%s.layout: %u; only NCHW and NHWC so far", what, o->layout);
    if (o->channels > BZNA_CHANNELS_GRAY)
        return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "%s.channels: %u; only BZNA_CHANNELS_RGB, _BGR, _GRAY", what,
                        o->channels);
    return BZNA_OK;
}

static uint32_t bzi_default(uint32_t value, uint32_t otherwise) { return value ? value : otherwise; }

/* "group.member", as messages call a setting. */
enum { BZI_SETTING_BYTES = 80 };
static const char *bzi_setting(char text[BZI_SETTING_BYTES], const char *group, const char *member)
{
    snprintf(text, BZI_SETTING_BYTES, "%s.%s", group, member);
    return text;
}

/* What an epoch consists of: indices, weights, epoch_samples. */
static bzna_status bzi_loader_check_order(bzna_loader_config *c, const bzna_dataset *dataset, bzna_error *err)
{
    uint64_t samples = c->order.indices ? c->order.index_count : dataset->count, positive = 0, groups;
    double sum = 0;
    if (!c->order.indices != !c->order.index_count)
        return BZI_FAIL(err, BZNA_E_ARGUMENT,
                        "loader_config.order.indices, index_count: one is given without the other");
    for (uint64_t i = 0; i < c->order.index_count; i++)
        if (c->order.indices[i] >= dataset->count)
            return BZI_FAIL(err, BZNA_E_RANGE, "loader_config.order.indices[%llu]: %llu is not below the %llu samples",
                            (unsigned long long)i, (unsigned long long)c->order.indices[i],
                            (unsigned long long)dataset->count);
    if (c->order.weighting > BZNA_WEIGHTING_ONCE)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.order.weighting: %u is not known", c->order.weighting);
    if (c->order.weighting == BZNA_WEIGHTING_NONE) {
        if (c->order.weights || c->order.weight_count || c->order.weights_by_part || c->order.epoch_samples)
            return BZI_FAIL(err, BZNA_E_ARGUMENT,
                            "loader_config.order.weights, weights_by_part, epoch_samples: only with weighting");
        c->order.epoch_samples = samples;
        return BZNA_OK;
    }
    groups = c->order.weights_by_part ? dataset->part_count : samples;
    if (c->order.weights_by_part && c->order.indices)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.order.weights_by_part: not together with indices");
    if (groups > UINT32_MAX)
        return BZI_FAIL(err, BZNA_E_LIMIT, "loader_config.order.weights: of at most %u samples", UINT32_MAX);
    if (!c->order.weights || c->order.weight_count != groups)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.order.weights, weight_count: %llu weights for %llu %s",
                        (unsigned long long)c->order.weight_count, (unsigned long long)groups,
                        c->order.weights_by_part ? "archives" : "samples");
    for (uint64_t i = 0; i < groups; i++) {
        if (!isfinite(c->order.weights[i]) || c->order.weights[i] < 0)
            return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.order.weights[%llu]: %g is negative or not a number",
                            (unsigned long long)i, c->order.weights[i]);
        sum += c->order.weights[i];
        if (c->order.weights[i] > 0)
            positive += !c->order.weights_by_part ? 1 : dataset->parts[i].count;
    }
    if (!(sum > 0) || !isfinite(sum))
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.order.weights: their sum is %g", sum);
    if (c->order.weighting == BZNA_WEIGHTING_ONCE && c->order.epoch_samples > positive)
        return BZI_FAIL(
            err, BZNA_E_ARGUMENT,
            "loader_config.order.epoch_samples: %llu draws without replacement of %llu samples with a weight",
            (unsigned long long)c->order.epoch_samples, (unsigned long long)positive);
    if (c->order.epoch_samples > (uint64_t)1 << 63)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.order.epoch_samples: %llu are more than 2^63",
                        (unsigned long long)c->order.epoch_samples);
    if (!c->order.epoch_samples)
        c->order.epoch_samples = c->order.weighting == BZNA_WEIGHTING_ONCE ? positive : samples;
    return BZNA_OK;
}

static bzna_status bzi_loader_check_services(bzna_loader_config *c, bzna_error *err)
{
    if (c->errors.policy > BZNA_ON_ERROR_STOP)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.errors.policy: %u is not known", c->errors.policy);
    if (c->read.retries > BZI_LIMIT_RETRIES)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.read.retries: %u is more than %u", c->read.retries,
                        BZI_LIMIT_RETRIES);
    c->read.backoff_ns = c->read.backoff_ns ? c->read.backoff_ns : 10000000;
    c->read.memory_bytes = c->read.memory_bytes ? c->read.memory_bytes : BZI_LIMIT_READ_BYTES;
    if (!c->pipeline.cpus != !c->pipeline.cpu_count)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.pipeline.cpus, cpu_count: one is given without the other");
    for (uint32_t i = 0; i < c->pipeline.cpu_count; i++)
        if (c->pipeline.cpus[i] < 0)
            return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.pipeline.cpus[%u]: %d is no processor", i,
                            (int)c->pipeline.cpus[i]);
    c->output.slices = bzi_default(c->output.slices, 1);
    if (c->output.batch_size % c->output.slices)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.output.slices: %u does not divide batch_size, %u",
                        c->output.slices, c->output.batch_size);
    return BZNA_OK;
}

/* Sizes 0 with other fields named: batches without pictures. */
static bzna_status bzi_loader_check_output(const bzna_loader_config *c, bzna_error *err)
{
    const bzna_loader_output *o = &c->output;
    const int fields = (c->fields.tensors || c->fields.bytes) && !c->fields.image && !o->buffers && o->views <= 1 &&
                       !c->outputs.count;
    bzna_output output = bzi_output_of(o);
    if (fields && !o->width && !o->height)
        output.width = output.height = 1;
    return bzi_output_check("loader_config.output", &output, err);
}

static bzna_status bzi_loader_check_counts(bzna_loader_config *c, uint64_t samples, bzna_error *err)
{
    bzi_shard shard = { samples, 0, 0, 0, 0, 0 };
    bzna_status status;
    if (!c->output.batch_size || c->output.batch_size > BZI_LIMIT_BATCH)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.output.batch_size: %u is not in 1..%u",
                        c->output.batch_size, BZI_LIMIT_BATCH);
    if ((status = bzi_loader_check_output(c, err)) != BZNA_OK)
        return status;
    if (c->order.kind > BZNA_ORDER_SHUFFLE)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.order.kind: %u is not known", c->order.kind);
    if (c->order.last_batch > BZNA_LAST_PAD)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.order.last_batch: %u is not known", c->order.last_batch);
    c->order.epochs = c->order.epochs ? c->order.epochs : 1;
    c->shard.world_size = bzi_default(c->shard.world_size, 1);
    if (c->shard.rank >= c->shard.world_size)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.shard.rank: %u is not below world_size, %u", c->shard.rank,
                        c->shard.world_size);
    c->decode.threads = bzi_default(c->decode.threads, bzi_os_processors());
    if (c->decode.threads > BZI_LIMIT_THREADS)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.decode.threads: %u is more than %u", c->decode.threads,
                        BZI_LIMIT_THREADS);
    if (c->read.threads > BZI_LIMIT_READERS)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.read.threads: %u is more than %u", c->read.threads,
                        BZI_LIMIT_READERS);
    c->pipeline.batches_in_flight = bzi_default(c->pipeline.batches_in_flight, 3);
    if (c->pipeline.batches_in_flight > BZI_LIMIT_IN_FLIGHT)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.pipeline.batches_in_flight: %u is more than %u",
                        c->pipeline.batches_in_flight, BZI_LIMIT_IN_FLIGHT);
    if (c->read.ahead_samples > BZI_LIMIT_READ_AHEAD)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.read.ahead_samples: %u is more than %u",
                        c->read.ahead_samples, BZI_LIMIT_READ_AHEAD);
    shard.batch = c->output.batch_size;
    shard.world = c->shard.world_size;
    shard.last_batch = c->order.last_batch;
    if (bzi_shard_batches(&shard) == 0)
        return BZI_FAIL(err, BZNA_E_ARGUMENT,
                        "loader_config.order.last_batch: DROP leaves no batch: %llu samples, %u x %u a step",
                        (unsigned long long)samples, c->output.batch_size, c->shard.world_size);
    if (c->decode.decoder > BZNA_DECODER_NVDEC)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.decode.decoder: %u is not known", c->decode.decoder);
    if (c->decode.jpeg > BZNA_DECODER_NVDEC)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.decode.jpeg: %u is not known", c->decode.jpeg);
    if (c->decode.jpeg_shrink > 1)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.decode.jpeg_shrink: neither 0 nor 1");
#ifdef BENZINA_NO_JPEG
    if (c->decode.jpeg_shrink)
        return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "loader_config.decode.jpeg_shrink: this build has no libjpeg-turbo");
#endif
#ifdef BENZINA_NO_AVCODEC
    if (c->decode.verify_every)
        return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "loader_config.decode.verify_every: this build has no libavcodec");
#endif
    return bzi_device_check_wanted("loader_config.output.device", c->output.device, err);
}

/* Words that have no meaning yet must be zero, so that they can have one later. */
static bzna_status bzi_loader_check_reserved(const bzna_loader_config *c, bzna_error *err)
{
    const struct { const char *group; const uint64_t *words; size_t count; uint32_t padding; } groups[] = {
        { "output", c->output.reserved, 4, c->output.reserved0 },
        { "order", c->order.reserved, 4, 0 },
        { "shard", c->shard.reserved, 2, 0 },
        { "filter", c->filter.reserved, 2, 0 },
        { "color", c->color.reserved, 2, c->color.reserved0 },
        { "fields", c->fields.reserved, 3, 0 },
        { "read", c->read.reserved, 4, c->read.reserved0 },
        { "decode", c->decode.reserved, 2, c->decode.reserved0 },
        { "errors", c->errors.reserved, 2, c->errors.reserved0 },
        { "pipeline", c->pipeline.reserved, 2, c->pipeline.reserved0 },
    };
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        int set = groups[i].padding != 0;
        for (size_t k = 0; k < groups[i].count; k++)
            set |= groups[i].words[k] != 0;
        if (set)
            return BZI_FAIL(err, BZNA_E_STRUCT_SIZE, "loader_config.%s: reserved words are set", groups[i].group);
    }
    return BZNA_OK;
}

/* The caller's memory for batches, of data_bytes each. Pre: slices divide batch_size. */
static bzna_status bzi_loader_check_buffers(const bzna_loader_config *c, uint64_t data_bytes, bzna_error *err)
{
    const bzna_loader_output *o = &c->output;
    const uint64_t need = data_bytes / o->slices;
    if (!o->buffers != !o->buffer_count ||
        (o->buffers && o->buffer_count != (uint64_t)c->pipeline.batches_in_flight * o->slices))
        return BZI_FAIL(err, BZNA_E_ARGUMENT,
                        "loader_config.output.buffers, buffer_count: %u buffers for %u batches in flight of %u slices",
                        o->buffer_count, c->pipeline.batches_in_flight, o->slices);
    for (uint32_t i = 0; i < o->buffer_count; i++) {
        if (!o->buffers[i].data || (uintptr_t)o->buffers[i].data % sizeof(float))
            return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.output.buffers[%u].data: NULL, or not aligned to %u "
                            "bytes", i, (unsigned)sizeof(float));
        if (o->buffers[i].bytes < need)
            return BZI_FAIL(err, BZNA_E_BUFFER, "loader_config.output.buffers[%u].bytes: %llu are fewer than the %llu "
                            "of %u samples", i, (unsigned long long)o->buffers[i].bytes, (unsigned long long)need,
                            o->batch_size / o->slices);
    }
    return BZNA_OK;
}

/* mean/std or bias/scale: one spelling. where: the group that filter and color stand in. */
static bzna_status bzi_loader_check_colors(const char *where, const bzna_loader_filter *filter,
                                           const bzna_loader_color *c, bzna_transform *t, bzna_error *err)
{
    char text[4][BZI_SETTING_BYTES];
    const bzi_transform_names names = { bzi_setting(text[0], where, "filter.kind"),
                                        bzi_setting(text[1], where, "filter.antialias"),
                                        bzi_setting(text[2], where, "color.matrix"),
                                        bzi_setting(text[3], where, "color.fill_space") };
    const char *fault = bzi_jitter_fault(&c->jitter);
    int divides = 0, multiplies = 0;
    if (fault)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.color.jitter.%s: out of its range, or not a number", where, fault);
    for (int i = 0; i < 3; i++) {
        divides |= c->mean[i] != 0 || c->std[i] != 0;
        multiplies |= c->bias[i] != 0 || c->scale[i] != 0;
    }
    if (divides && multiplies)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.color.mean, std, bias, scale: give (mean, std), which divides, or "
                        "(bias, scale), which multiplies", where);
    for (int i = 0; i < 3; i++) {
        if (c->std[i] < 0)
            return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.color.std: channel %d is negative", where, i);
        t->bias[i] = divides ? c->mean[i] : c->bias[i];
        t->scale[i] = divides ? (c->std[i] != 0 ? 1.0f / c->std[i] : 1.0f) : (c->scale[i] != 0 ? c->scale[i] : 1.0f);
        t->fill[i] = c->fill[i];
        if (!isfinite(t->bias[i]) || !isfinite(t->scale[i]) || !isfinite(t->fill[i]))
            return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.color.%s, %s, fill: channel %d is not a finite number", where,
                            divides ? "mean" : "bias", divides ? "std" : "scale", i);
    }
    t->fill_space = c->fill_space;
    t->matrix = c->matrix;
    t->filter = filter->kind;
    t->antialias = filter->antialias;
    return bzi_transform_check_settings(t, &names, err);
}


/* ==== 63. Configuration: outputs =====================================================================================
 * Calls: rooms 2, 5, 40-41, 61-62. Checks what outputs callers ask for, and with them a loader's config as a whole. */

/* What a loader is to do. */
typedef struct bzi_loader_settings {
    bzna_loader_config config;
    bzi_output         outputs[BZI_LIMIT_OUTPUTS];
    const char        *fields[BZI_LIMIT_OUTPUTS];       /* what the loader's picks are called; NULL: by no name */
    uint32_t           output_count, pick_count, view_count;
    uint64_t           data_bytes, slot_bytes;
} bzi_loader_settings;

static int bzi_name_is(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

/* The mean image is of the output's channels and size, and nothing else is subtracted. */
static bzna_status bzi_settings_mean(const char *where, const bzna_loader_color *c, bzi_output *output, int own,
                                     bzna_error *err)
{
    const bzna_output *o = &output->shape;
    const uint64_t bytes = (uint64_t)bzi_channels(o->channels) * o->width * o->height * sizeof(float);
    if (!c->mean_image && !c->mean_image_bytes)
        return BZNA_OK;
    for (int i = 0; i < 3; i++)
        if (c->mean[i] != 0 || c->bias[i] != 0)
            return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.color.mean_image: not together with mean or bias", where);
    if (!c->mean_image || c->mean_image_bytes != bytes)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.%s: %llu bytes%s, not the %llu of float32 [%u, %u, %u]", where,
                        own ? "color.mean_image_bytes" : "own_color: the first output's mean image",
                        (unsigned long long)c->mean_image_bytes, c->mean_image ? "" : " at NULL",
                        (unsigned long long)bytes, bzi_channels(o->channels), o->height, o->width);
    output->mean = (void *)(uintptr_t)c->mean_image;
    output->mean_bytes = bytes;
    return BZNA_OK;
}

/* Adds an output: what follows from its own settings and those before it. field: the picture that it is made of. */
static bzna_status bzi_settings_add(bzi_loader_settings *s, const char *where, const char *field, bzna_error *err)
{
    bzi_output *output = &s->outputs[s->output_count++];
    const uint64_t bytes = bzi_output_bytes(&output->shape) * output->views;
    if (output->views > BZI_LIMIT_VIEWS - s->view_count)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.views: %u, and %u of other outputs: more than %u", where,
                        output->views, s->view_count, BZI_LIMIT_VIEWS);
    if (s->config.decode.jpeg_shrink &&
        (output->transform.antialias || output->transform.filter == BZNA_FILTER_NEAREST))
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.decode.jpeg_shrink: %s has a filter without antialias",
                        where);
    while (output->picture < s->pick_count && !bzi_name_is(field, s->fields[output->picture]))
        output->picture++;
    if (output->picture == s->pick_count)
        s->fields[s->pick_count++] = field;
    output->first = s->view_count;
    output->kernel = bzi_output_make(&output->shape);
    output->picture_bytes = bzi_output_bytes(&output->shape);
    output->offset = (s->data_bytes + 255) & ~(uint64_t)255;
    s->data_bytes = output->offset + bytes * s->config.output.batch_size;    /* below 2^60 */
    s->slot_bytes += bytes;
    s->view_count += output->views;
    return BZNA_OK;
}

/* The first output. */
static bzna_status bzi_settings_first(bzi_loader_settings *s, bzna_error *err)
{
    const bzna_loader_config *c = &s->config;
    bzi_output *first = s->outputs;
    bzna_status status;
    bzi_string_copy(first->name, sizeof first->name, "image");
    first->shape = bzi_output_of(&c->output);
    first->views = bzi_default(c->output.views, 1);
    first->own_warp = first->own_filter = first->own_color = 1;
    if (c->output.slices > 1 && (first->views > 1 || c->outputs.count))
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.output.slices: not together with views or outputs");
    bzi_transform_init(&first->transform);
    first->jitter = c->color.jitter;
    if ((status = bzi_loader_check_colors("loader_config", &c->filter, &c->color, &first->transform, err)) != BZNA_OK ||
        (status = bzi_settings_mean("loader_config", &c->color, first, 1, err)) != BZNA_OK ||
        (status = bzi_warp_resolve(&c->warp, "loader_config.warp", &first->warp, err)) != BZNA_OK)
        return status;
    return bzi_settings_add(s, "loader_config.output", c->fields.image, err);
}

/* The name and shape of a further output. */
static bzna_status bzi_extra_check_shape(const bzi_loader_settings *s, const char *where, const bzna_extra_output *e,
                                         bzi_output *output, bzna_error *err)
{
    const bzi_output *first = s->outputs;
    const size_t length = e->name ? strlen(e->name) : 0;
    if (length == 0 || length >= sizeof output->name)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.name: an output needs one, of at most %u bytes", where,
                        (unsigned)sizeof output->name - 1);
    memcpy(output->name, e->name, length + 1);
    output->shape = (bzna_output){ .struct_size = sizeof output->shape,
                                   .width = bzi_default(e->width, first->shape.width),
                                   .height = bzi_default(e->height, first->shape.height), .dtype = e->dtype,
                                   .layout = e->layout, .channels = e->channels };
    if (e->own_warp > 1 || e->own_filter > 1 || e->own_color > 1)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.own_warp, own_filter, own_color: neither 0 nor 1", where);
    output->own_warp = e->own_warp;
    output->own_filter = e->own_filter;
    output->own_color = e->own_color;
    output->views = bzi_default(e->views, e->own_warp ? 1 : first->views);
    if (!e->own_warp && output->views != first->views)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.views: %u; it shares the warps of the first output's %u views", where,
                        output->views, first->views);
    return bzi_output_check(where, &output->shape, err);
}

/* The groups of settings that it has of its own; of the others, nothing may be set. */
static bzna_status bzi_extra_check_groups(const char *where, const bzna_extra_output *e, bzna_error *err)
{
    const struct { const char *name; const void *group; size_t size; uint32_t own; } groups[] = {
        { "warp", &e->warp, sizeof e->warp, e->own_warp },
        { "filter", &e->filter, sizeof e->filter, e->own_filter },
        { "color", &e->color, sizeof e->color, e->own_color },
    };
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        if (!groups[i].own && !bzi_is_zero(groups[i].group, groups[i].size))
            return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.%s: has no effect while own_%s is 0", where, groups[i].name,
                            groups[i].name);
    if (!bzi_is_zero(e->filter.reserved, sizeof e->filter.reserved) || e->color.reserved0 ||
        !bzi_is_zero(e->color.reserved, sizeof e->color.reserved))
        return BZI_FAIL(err, BZNA_E_STRUCT_SIZE, "%s.filter, color: reserved words are set", where);
    return BZNA_OK;
}

/* A further output: what is not its own is as the first output is. */
static bzna_status bzi_settings_extra(bzi_loader_settings *s, const char *where, const bzna_extra_output *e,
                                      bzna_error *err)
{
    const bzna_loader_color *color = e->own_color ? &e->color : &s->config.color;
    bzi_output *output = &s->outputs[s->output_count];
    char text[BZI_SETTING_BYTES];
    bzna_status status;
    bzi_transform_init(&output->transform);
    output->jitter = color->jitter;
    if ((status = bzi_extra_check_shape(s, where, e, output, err)) != BZNA_OK ||
        (status = bzi_extra_check_groups(where, e, err)) != BZNA_OK ||
        (status = bzi_loader_check_colors(where, e->own_filter ? &e->filter : &s->config.filter, color,
                                          &output->transform, err)) != BZNA_OK ||
        (status = bzi_settings_mean(where, color, output, e->own_color != 0, err)) != BZNA_OK ||
        (e->own_warp &&
         (status = bzi_warp_resolve(&e->warp, bzi_setting(text, where, "warp"), &output->warp, err)) != BZNA_OK))
        return status;
    for (uint32_t i = 0; i < s->output_count; i++)
        output->random += s->outputs[i].own_warp ? s->outputs[i].views : 0;
    return bzi_settings_add(s, where, e->field ? e->field : s->config.fields.image, err);
}

/* All outputs. The structs of the array are of the size that the first one says. */
static bzna_status bzi_settings_outputs(bzi_loader_settings *s, bzna_error *err)
{
    const bzna_loader_outputs *given = &s->config.outputs;
    bzna_status status = bzi_settings_first(s, err);
    if (!given->ptr != !given->count || given->count >= BZI_LIMIT_OUTPUTS)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.outputs.ptr, count: %llu outputs %s; at most %u",
                        (unsigned long long)given->count, given->ptr ? "at an address" : "at NULL",
                        BZI_LIMIT_OUTPUTS - 1);
    for (uint32_t i = 0; i < given->count && status == BZNA_OK; i++) {
        const uint8_t *at = (const uint8_t *)given->ptr + (size_t)i * given->ptr->struct_size;
        char where[BZI_SETTING_BYTES / 2];
        bzna_extra_output extra;
        uint32_t size;
        snprintf(where, sizeof where, "loader_config.outputs[%u]", i);
        memcpy(&size, at, sizeof size);
        if (!bzi_struct_in(&extra, sizeof extra, at) || size != given->ptr->struct_size)
            return BZI_FAIL(err, BZNA_E_STRUCT_SIZE, "%s.struct_size: %u, not that of the first one, or fields unknown "
                            "to this version are set", where, size);
        status = bzi_settings_extra(s, where, &extra, err);
    }
    return status;
}

/* Pre: config is what the caller gave, and the rest is zero. */
static bzna_status bzi_loader_check(bzi_loader_settings *settings, const bzna_dataset *dataset, bzna_error *err)
{
    bzna_loader_config *config = &settings->config;
    bzna_status status;
    if ((status = bzi_loader_check_reserved(config, err)) != BZNA_OK ||
        (status = bzi_loader_check_order(config, dataset, err)) != BZNA_OK ||
        (status = bzi_loader_check_counts(config, config->order.epoch_samples, err)) != BZNA_OK ||
        (status = bzi_loader_check_services(config, err)) != BZNA_OK ||
        (status = bzi_settings_outputs(settings, err)) != BZNA_OK)
        return status;
    return bzi_loader_check_buffers(config, settings->data_bytes, err);
}


/* ==== 64. Opening ====================================================================================================
 * Calls: rooms 2-5, 33-35, 46-47, 50-53, 59-60. Decides who decodes; opens loaders. */

/* What the context's GPU offers to a loader that may use it. */
typedef struct bzi_loader_gpu {
    bzi_device *device;               /* NULL: none, or not asked for */
    bzi_pool   *pool;                 /* NULL: no decode sessions, or not asked for */
    bzna_error  why;                  /* status < 0: why there is no device, or why it has no sessions */
} bzi_loader_gpu;

/* Who decodes, where batches lie, and what follows from that. */
typedef struct bzi_loader_mode {
    bzi_device *device;               /* NULL: nothing of the loader is on it */
    bzi_pool   *pool;                 /* NULL: software decodes */
    uint32_t    on_device;            /* batches lie there */
    uint32_t    workers, lanes, reader_threads, read_ahead;
    char        reason[sizeof ((bzna_loader_info *)0)->decoder_reason];
} bzi_loader_mode;

/* Asks the context for what the config may use. That there is no GPU is no failure here. */
static bzna_status bzi_loader_find_gpu(const bzna_loader *loader, bzi_loader_gpu *gpu, bzna_error *err)
{
    const bzna_loader_config *config = &loader->config;
    const int software = config->decode.decoder == BZNA_DECODER_SOFTWARE || loader->pick_count > 1 ||
                         config->pipeline.picture;
    memset(gpu, 0, sizeof *gpu);
    bzi_error_init(&gpu->why);
    if (loader->pick_count > 1)
        BZI_FAIL(&gpu->why, BZNA_E_UNSUPPORTED, "outputs of several fields are decoded in software");
    if (config->pipeline.picture)
        BZI_FAIL(&gpu->why, BZNA_E_UNSUPPORTED, "pipeline.picture draws into what software decodes");
    if (!loader->slot_bytes || (config->output.device.kind == BZNA_DEVICE_CPU && software))
        return BZNA_OK;
    if (bzi_context_gpu(loader->context, &gpu->device, &gpu->why) != BZNA_OK) {
        gpu->device = NULL;
        return BZNA_OK;
    }
    if (software)
        return BZNA_OK;
    if (bzi_device_video(gpu->device, &gpu->why) != BZNA_OK)
        return BZNA_OK;
    return bzi_context_pool(loader->context, &gpu->pool, err);
}

/* The numbers of threads, lanes and items: those of the config, else what suits the mode. */
static void bzi_loader_scale(const bzna_loader_config *config, bzi_loader_mode *mode)
{
    const uint32_t sessions = mode->pool ? mode->pool->count : 0;
    mode->workers = config->decode.threads;
    if (!BZI_SOFTWARE && mode->pool)                        /* without sessions, opening fails with the reason */
        mode->workers = 0;
    mode->lanes = sessions + (mode->on_device ? mode->workers : 0);
    mode->reader_threads = config->read.threads;
    if (!mode->reader_threads)
        mode->reader_threads = !mode->pool ? 1 : sessions < 4 ? 2 : (uint32_t)bzi_min(sessions / 2, 8);
    mode->read_ahead = config->read.ahead_samples;
    if (!mode->read_ahead)
        mode->read_ahead = 2 * config->decode.threads + 2 + 4 * sessions;
}

/* Decides, and changes nothing but *mode. Having no GPU is an error only if the config insists on one; having one that
 * cannot be used (after fork, out of memory, lost) always is. */
static bzna_status bzi_loader_decide(const bzna_loader_config *config, const bzi_loader_gpu *gpu,
                                     bzi_loader_mode *mode, bzna_error *err)
{
    const bzna_status why = gpu->why.status;
    const int unusable = why == BZNA_E_STATE || why == BZNA_E_MEMORY || why == BZNA_E_DEVICE_LOST;
    const int nvdec = config->decode.decoder == BZNA_DECODER_NVDEC;
    bzna_error missing = gpu->why;
    memset(mode, 0, sizeof *mode);
    if (why != BZNA_OK && (nvdec || (!gpu->device && (unusable || config->output.device.kind == BZNA_DEVICE_CUDA)))) {
        *err = gpu->why;
        return bzi_error_prefix(err, nvdec ? "loader_config.decode.decoder" : "loader_config.output.device");
    }
    mode->on_device = gpu->device && config->output.device.kind != BZNA_DEVICE_CPU;
    if (mode->on_device && config->output.buffers && config->output.device.kind == BZNA_DEVICE_AUTO)
        return BZI_FAIL(err, BZNA_E_ARGUMENT,
                        "loader_config.output.device: with buffers, and a GPU, say whether they lie on the CPU or on "
                        "CUDA");
    if (mode->on_device && config->output.device.kind == BZNA_DEVICE_CUDA &&
        config->output.device.ordinal && config->output.device.ordinal != gpu->device->info.device.ordinal)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.output.device.ordinal: %d; the context's device is %d",
                        (int)config->output.device.ordinal, (int)gpu->device->info.device.ordinal);
    mode->pool = gpu->pool;
    mode->device = mode->on_device || mode->pool ? gpu->device : NULL;
    bzi_error_prefix(&missing, "no NVDEC");
    bzi_string_copy(mode->reason, sizeof mode->reason,
                    config->decode.decoder == BZNA_DECODER_SOFTWARE ? "software decoding was asked for" :
                    mode->pool ? "the device decodes; what it cannot, software does" : missing.message);
    bzi_loader_scale(config, mode);
    return BZNA_OK;
}

static void bzi_loader_set_mode(bzna_loader *loader, const bzi_loader_mode *mode)
{
    loader->device = mode->device;
    loader->pool = mode->pool;
    loader->on_device = mode->on_device;
    loader->worker_count = mode->workers;
    loader->lanes = mode->lanes;
    loader->config.read.threads = mode->reader_threads;
    loader->config.read.ahead_samples = mode->read_ahead;
    memcpy(loader->reason, mode->reason, sizeof loader->reason);
}

/* JPEG by NVDEC was asked for. Whether it can is found out here, by a check with pictures of ours: when a sample comes,
 * it is too late to choose. */
static bzna_status bzi_loader_take_jpeg(bzna_loader *loader, bzna_error *err)
{
    bzna_codec_info info = { .codec = BZNA_CODEC_JPEG, .chroma_format = 1, .depth = 8 };
    bzna_status status;
    if (!loader->pool)
        return BZI_FAIL(err, BZNA_E_DEVICE, "loader_config.decode.jpeg: %s", loader->reason);
    if ((status = bzi_device_enter(loader->device, err)) != BZNA_OK)
        return status;
    if ((status = bzi_device_codec(loader->device, &info, err)) == BZNA_OK && info.supported)
        bzi_check_ask(loader->device, &info);
    bzi_device_leave(loader->device);
    if (status == BZNA_OK &&
        (!info.supported || (info.check != BZNA_CHECK_PASSED && info.check != BZNA_CHECK_SKIPPED)))
        status = BZI_FAIL(err, BZNA_E_DEVICE, "NVDEC of %s does not decode JPEG%s%s", loader->device->info.name,
                          info.check_message[0] ? ": " : "", info.check_message);
    loader->jpeg = info;
    return status == BZNA_OK ? status : bzi_error_prefix(err, "loader_config.decode.jpeg");
}

static bzna_status bzi_loader_choose(bzna_loader *loader, bzna_error *err)
{
    bzi_loader_gpu gpu;
    bzi_loader_mode mode;
    bzna_status status;
    if ((status = bzi_loader_find_gpu(loader, &gpu, err)) != BZNA_OK ||
        (status = bzi_loader_decide(&loader->config, &gpu, &mode, err)) != BZNA_OK)
        return status;
    bzi_loader_set_mode(loader, &mode);
    return loader->config.decode.jpeg == BZNA_DECODER_NVDEC ? bzi_loader_take_jpeg(loader, err) : BZNA_OK;
}

/* Copies of the caller's mean images. On failure, none of the caller's is left. */
static bzna_status bzi_loader_copy_means(bzna_loader *loader, bzna_error *err)
{
    bzna_status status = BZNA_OK;
    for (uint32_t i = 0; i < loader->output_count; i++) {
        bzi_output *output = &loader->outputs[i];
        const uint64_t count = output->mean_bytes / sizeof(float);
        const void *given = output->mean;
        char where[BZI_SETTING_BYTES] = "loader_config";
        if (i)
            snprintf(where, sizeof where, "loader_config.outputs[%u]", i - 1);
        output->mean = given && status == BZNA_OK ? bzi_alloc_copy(&loader->host->memory, given, count, sizeof(float)) :
                                                    NULL;
        if (given && status == BZNA_OK && !output->mean)
            status = bzi_fail_memory(err, "a mean image");
        for (uint64_t k = 0; output->mean && k < count && status == BZNA_OK; k++)
            if (!isfinite(((const float *)output->mean)[k]))
                status = BZI_FAIL(err, BZNA_E_ARGUMENT, "%s.color.mean_image: number %llu is not finite", where,
                                  (unsigned long long)k);
        output->mean_hash = output->mean ? bzi_hash(BZI_HASH_START, output->mean, (size_t)output->mean_bytes) : 0;
        output->kernel.mean = (uint64_t)(uintptr_t)output->mean;
    }
    return status;
}

/* The same on the device. Batches are written after what is enqueued here. In the CUDA context. */
static bzna_status bzi_loader_upload_means(bzna_loader *loader, bzna_error *err)
{
    bzna_status status = BZNA_OK;
    for (uint32_t i = 0; i < loader->output_count && status == BZNA_OK; i++) {
        bzi_output *output = &loader->outputs[i];
        if (output->mean && (status = bzi_device_alloc(loader->device, output->mean_bytes, loader->stream,
                                                       &output->device_mean, err)) == BZNA_OK)
            status = bzi_device_upload(loader->device, output->device_mean, output->mean, output->mean_bytes,
                                       loader->stream, err);
    }
    return status;
}

/* The consumer's stream: the user's, or one of ours. In the CUDA context. */
static bzna_status bzi_loader_make_stream(bzna_loader *loader, bzna_error *err)
{
    loader->stream = loader->on_device ? loader->config.output.stream : NULL;
    loader->owns_stream = !loader->stream;
    return loader->stream ? BZNA_OK : bzi_device_stream(loader->device, 0, &loader->stream, err);
}

/* What lies on the device, or goes there; then the threads, which need all the rest. */
static bzna_status bzi_loader_start(bzna_loader *loader, bzna_error *err)
{
    bzna_status status = BZNA_OK;
    if (loader->device && (status = bzi_device_enter(loader->device, err)) != BZNA_OK)
        return status;
    if (loader->device && (status = bzi_loader_make_stream(loader, err)) == BZNA_OK)
        status = bzi_loader_upload_means(loader, err);
    if (status == BZNA_OK && (status = bzi_loader_make_batches(loader, err)) == BZNA_OK &&
        (status = bzi_loader_start_workers(loader, err)) == BZNA_OK)
        status = bzi_loader_start_readers(loader, err);
    if (loader->device)
        bzi_device_leave(loader->device);
    return status;
}

/* A mistyped name is found out here, by the first sample, and not by every sample. One that cannot be read now may be
 * read later. setting: that names it. */
static bzna_status bzi_loader_check_pick(const bzna_loader *loader, const bzi_pick *pick, const char *setting,
                                         bzna_error *err)
{
    const bzi_part *part = &loader->dataset->parts[0];
    bzi_image image;
    bzna_status status = bzi_container_describe_image(part->container, part->first, pick, &image, err);
    if (status != BZNA_E_NOT_FOUND || err->native_code)     /* an errno: it is the file that was not found */
        return status == BZNA_E_MEMORY ? status : BZNA_OK;
    bzi_container_fail(part->container, part->first, err);
    return bzi_error_prefix(err, setting);
}

/* Each output is found by its name. */
static bzna_status bzi_loader_check_names(const bzna_loader *loader, bzna_error *err)
{
    for (uint32_t i = 1; i < loader->output_count; i++)
        if (bzi_loader_output(loader, bzi_loader_find_tensor(loader, loader->outputs[i].name)) != &loader->outputs[i])
            return BZI_FAIL(err, BZNA_E_ARGUMENT, "loader_config.outputs[%u].name: \"%s\" is another tensor's", i - 1,
                            loader->outputs[i].name);
    return BZNA_OK;
}

/* Which pictures of each sample: those named, else a thumbnail if none of its outputs is larger than those are. */
static bzna_status bzi_loader_make_picks(bzna_loader *loader, const char *const *fields, bzna_error *err)
{
    char setting[BZI_SETTING_BYTES] = "loader_config.fields.image";
    bzna_status status = BZNA_OK;
    for (uint32_t i = 0; i < loader->output_count && status == BZNA_OK; i++) {
        const bzna_output *shape = &loader->outputs[i].shape;
        const char *field = fields[loader->outputs[i].picture];
        bzi_pick *pick = &loader->picks[loader->outputs[i].picture];
        pick->whole |= !field && (shape->width > BZI_THUMB_EDGE || shape->height > BZI_THUMB_EDGE);
        if (!field || pick->name)
            continue;
        if (!(pick->name = bzi_alloc_copy(&loader->host->memory, field, strlen(field) + 1, 1)))
            return bzi_fail_memory(err, "the names of fields");
        if (i)
            snprintf(setting, sizeof setting, "loader_config.outputs[%u].field", i - 1);
        status = bzi_loader_check_pick(loader, pick, setting, err);
    }
    return status;
}

/* Everything that can fail; what was made is freed by the caller. Pre: the arrays of the caller's config are there. */
static bzna_status bzi_loader_build(bzna_loader *loader, const char *const *fields, bzna_error *err)
{
    bzna_status status = bzi_loader_copy_means(loader, err);
    if (status != BZNA_OK || (status = bzi_loader_make_locks(loader, err)) != BZNA_OK ||
        (status = bzi_loader_choose(loader, err)) != BZNA_OK)
        return status;
    if ((status = bzi_loader_check_names(loader, err)) != BZNA_OK ||
        (status = bzi_loader_make_picks(loader, fields, err)) != BZNA_OK ||
        (status = bzi_loader_make_columns(loader, err)) != BZNA_OK ||
        (status = bzi_loader_make_order(loader, err)) != BZNA_OK ||
        (status = bzi_loader_make_items(loader, err)) != BZNA_OK)
        return status;
    loader->fingerprint = bzi_loader_fingerprint(loader);
    loader->stills = bzi_dataset_hash_stills(loader->dataset, BZI_JPEG_DECODER);
#ifdef BENZINA_NO_AVCODEC
    if (loader->slot_bytes && (loader->stills ? !BZI_SOFTWARE : !loader->pool))
        return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "decoder: this build has no libavcodec (BENZINA_NO_AVCODEC)");
#endif
    return bzi_loader_start(loader, err);
}

/* What the plan is made from, at its start. */
static void bzi_loader_init_plan(bzna_loader *loader)
{
    const bzna_loader_config *config = &loader->config;
    loader->shard.count = config->order.epoch_samples;
    loader->shard.batch = config->output.batch_size;
    loader->shard.world = config->shard.world_size;
    loader->shard.rank = config->shard.rank;
    loader->shard.last_batch = config->order.last_batch;
    loader->end_epoch = bzi_loader_end_epoch(config, config->order.first_epoch);
    loader->done_epoch = config->order.first_epoch;
    bzi_plan_epoch(loader, config->order.first_epoch, 0);
}

/* settings: checked and complete. */
static bzna_status bzi_loader_make(bzna_context *context, bzna_dataset *dataset, const bzi_loader_settings *settings,
                                   bzna_loader **out, bzna_error *err)
{
    const bzna_loader_config *config = &settings->config;
    bzna_loader *loader = bzi_alloc_zero(&context->host->memory, 1, sizeof *loader);
    bzna_status status;
    if (!loader)
        return bzi_fail_memory(err, "a loader");
    bzi_context_retain(context);
    bzi_dataset_retain(dataset);
    loader->context = context;
    loader->host = context->host;
    loader->dataset = dataset;
    loader->config = *config;
    memcpy(loader->outputs, settings->outputs, sizeof loader->outputs);
    loader->output_count = settings->output_count;
    loader->pick_count = settings->pick_count;
    loader->slot_bytes = settings->slot_bytes;
    loader->data_bytes = settings->data_bytes;
    loader->references = 1;
    loader->process = bzi_os_process();
    loader->opened_ns = loader->pool_ns = bzi_os_now_ns();
    bzi_loader_init_plan(loader);
    status = bzi_loader_build(loader, settings->fields, err);
    /* the caller's; what is needed of them has been copied */
    loader->config.fields.image = loader->config.fields.tensors = loader->config.fields.bytes = NULL;
    loader->config.order.indices = NULL;
    loader->config.order.weights = NULL;
    loader->config.pipeline.cpus = NULL;
    loader->config.output.buffers = NULL;
    loader->config.outputs.ptr = NULL;
    if (status != BZNA_OK) {
        bzi_loader_end(loader);
        bzi_loader_free(loader);
        return status;
    }
    *out = loader;
    return BZNA_OK;
}


/* ==== 65. Public API: contexts =======================================================================================
 * Validates, delegates, and copies errors to the caller's struct. Nothing below is called by anything above. */

/* Gives the caller its copy of an error, with what its struct has room for. */
static bzna_status bzi_api_error(bzna_error *out, bzna_error *err, bzna_status status)
{
    uint32_t room;
    if (status >= 0 || !out)
        return status;
    room = out->struct_size;
    err->status = status;
    if (room < offsetof(bzna_error, message) + 1)
        return status;
    bzi_struct_out(out, room, err, sizeof *err);
    if (room < sizeof *err)
        out->message[room - offsetof(bzna_error, message) - 1] = 0;
    return status;
}

#define BZI_API_BEGIN bzna_error e; bzi_error_init(&e)
#define BZI_API_FAIL(...) return bzi_api_error(err, &e, BZI_FAIL(&e, __VA_ARGS__))
#define BZI_API_END(status) return bzi_api_error(err, &e, (status))

/* An answer into the caller's struct, as far as that has room. */
static bzna_status bzi_api_out(void *out, size_t given, void *all, size_t known, bzna_error *err)
{
    if (given < sizeof(uint32_t) || given > UINT32_MAX)
        return BZI_FAIL(err, BZNA_E_STRUCT_SIZE, "struct_size: %llu bytes is no struct's size",
                        (unsigned long long)given);
    bzi_struct_out(out, given, all, known);
    return BZNA_OK;
}

BZNA_API void bzna_error_init(bzna_error *error, size_t struct_size)
{
    bzna_error none;
    bzi_error_init(&none);
    if (error)
        bzi_struct_out(error, struct_size, &none, sizeof none);
}

BZNA_API uint32_t bzna_version(void) { return BZNA_VERSION; }

BZNA_API const char *bzna_status_name(bzna_status status) { return bzi_status_name(status); }
BZNA_API const char *bzna_status_text(bzna_status status) { return bzi_status_text(status); }

/* The caller's struct, whole. reserved: where it has a word that must be zero; 0: nowhere. */
static bzna_status bzi_api_in(void *dst, size_t known, const void *given, size_t reserved, const char *name,
                              bzna_error *err)
{
    uint32_t size, word = 0;
    memcpy(&size, given, sizeof size);
    if (!bzi_struct_in(dst, known, given))
        return BZI_FAIL(err, BZNA_E_STRUCT_SIZE, "%s.struct_size: %u, or fields unknown to this version are set", name,
                        size);
    if (reserved)
        memcpy(&word, (const uint8_t *)dst + reserved, sizeof word);
    return word ? BZI_FAIL(err, BZNA_E_STRUCT_SIZE, "%s: reserved words are set", name) : BZNA_OK;
}

/* --- Host services --- */

BZNA_API void bzna_source_init(bzna_source *source, size_t struct_size) { bzi_struct_init(source, struct_size); }
BZNA_API void bzna_sink_init(bzna_sink *sink, size_t struct_size) { bzi_struct_init(sink, struct_size); }

/* --- Context --- */

BZNA_API void bzna_context_config_init(bzna_context_config *config, size_t struct_size)
{
    bzi_struct_init(config, struct_size);
}

BZNA_API bzna_status bzna_context_open(const bzna_context_config *config, bzna_context **out, bzna_error *err)
{
    bzna_context_config c;
    bzi_device *device;
    bzna_status status;
    BZI_API_BEGIN;
    if (!out)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_context_open: out is NULL");
    *out = NULL;
    memset(&c, 0, sizeof c);
    if (config && (status = bzi_api_in(&c, sizeof c, config, 0, "context_config", &e)) != BZNA_OK)
        BZI_API_END(status);
    if ((status = bzi_context_check(&c, &e)) != BZNA_OK || (status = bzi_context_make(&c, out, &e)) != BZNA_OK)
        BZI_API_END(status);
    if ((c.device.kind == BZNA_DEVICE_CUDA || c.cuda_context) &&
        (status = bzi_context_gpu(*out, &device, &e)) != BZNA_OK) {
        bzi_log_deliver((*out)->host);
        bzi_context_drop(*out);
        *out = NULL;
        bzi_error_prefix(&e, c.cuda_context ? "context_config.cuda_context" : "context_config.device");
    }
    BZI_API_END(status);
}

BZNA_API bzna_status bzna_context_close(bzna_context *context)
{
    if (!context)
        return BZNA_OK;
    if (bzi_os_in_callback)
        return BZNA_E_STATE;
    bzi_log_deliver(context->host);
    bzi_context_drop(context);
    return BZNA_OK;
}

/* --- Devices --- */

BZNA_API bzna_status bzna_device_count(uint32_t *count, bzna_error *err)
{
    BZI_API_BEGIN;
    if (!count)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_device_count: count is NULL");
    BZI_API_END(bzi_device_count(count, &e));
}

BZNA_API bzna_status bzna_context_get_device_info(bzna_context *context, bzna_device_info *info, size_t struct_size,
                                                  bzna_error *err)
{
    bzi_device *device = NULL;
    bzna_device_info all;
    bzna_error why;
    bzna_status status;
    BZI_API_BEGIN;
    if (!context || !info)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_context_get_device_info: %s is NULL", context ? "info" : "context");
    status = bzi_context_gpu(context, &device, &e);
    bzi_log_deliver(context->host);
    if (status != BZNA_OK)
        BZI_API_END(status);
    all = device->info;
    all.video = bzi_device_video(device, &why);
    bzi_string_copy(all.message, sizeof all.message, why.message);
    bzi_os_lock(&context->mutex);
    all.sessions = context->pool ? context->pool->count : 0;
    bzi_os_unlock(&context->mutex);
    BZI_API_END(bzi_api_out(info, struct_size, &all, sizeof all, &e));
}

BZNA_API bzna_status bzna_context_get_codec_info(bzna_context *context, uint32_t codec, uint32_t chroma_format,
                                                 uint32_t depth, bzna_codec_info *info, size_t struct_size,
                                                 bzna_error *err)
{
    bzi_device *device = NULL;
    bzna_codec_info all;
    bzna_status status;
    BZI_API_BEGIN;
    if (!context || !info)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_context_get_codec_info: %s is NULL", context ? "info" : "context");
    if (!bzi_codec_find(codec) || chroma_format > 3 || (depth != 8 && depth != 10 && depth != 12))
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_context_get_codec_info: codec %u, chroma format %u, %u bits", codec,
                     chroma_format, depth);
    status = bzi_context_gpu(context, &device, &e);
    bzi_log_deliver(context->host);
    if (status == BZNA_OK)
        status = bzi_device_video(device, &e);
    memset(&all, 0, sizeof all);
    all.codec = codec;
    all.chroma_format = chroma_format;
    all.depth = depth;
    if (status == BZNA_OK && (status = bzi_device_enter(device, &e)) == BZNA_OK) {
        status = bzi_device_codec(device, &all, &e);
        if (status == BZNA_OK && all.supported)
            bzi_check_ask(device, &all);
        bzi_device_leave(device);
    }
    BZI_API_END(status == BZNA_OK ? bzi_api_out(info, struct_size, &all, sizeof all, &e) : status);
}

/* --- Coded pictures --- */

BZNA_API void bzna_image_init(bzna_image *image, size_t struct_size) { bzi_struct_init(image, struct_size); }
BZNA_API void bzna_picture_init(bzna_picture *picture, size_t struct_size) { bzi_struct_init(picture, struct_size); }

static bzna_status bzi_api_image(const bzna_image *given, bzna_image *image, bzna_error *err)
{
    bzna_status status;
    if (!given)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "image is NULL");
    if ((status = bzi_api_in(image, sizeof *image, given, offsetof(bzna_image, reserved1), "image", err)) != BZNA_OK)
        return status;
    if (image->orientation > 8)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "image.orientation: %u is not 0 to 8", image->orientation);
    if (image->palette > BZNA_PALETTE_INDEX)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "image.palette: %u is not known", image->palette);
    if (!image->data || !image->data_size)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "image.data: no bytes; bzna_dataset_read_image gives them");
    if (image->length_size > 4 || image->length_size == 3)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "image.length_size: %u is not 0, 1, 2 or 4", image->length_size);
    if (!image->config)
        image->config_size = 0;
    return BZNA_OK;
}

BZNA_API bzna_status bzna_image_annexb(const bzna_image *image, void *dst, size_t capacity, size_t *needed,
                                       bzna_error *err)
{
    bzna_image whole;
    uint64_t size = 0;
    bzna_status status;
    BZI_API_BEGIN;
    if (needed)
        *needed = 0;
    if ((status = bzi_api_image(image, &whole, &e)) != BZNA_OK)
        BZI_API_END(status);
    if (!bzi_codec_find(whole.codec))
        BZI_API_FAIL(BZNA_E_CODEC, "image.codec: %u is not known", whole.codec);
    if ((status = bzi_image_stream(&whole, dst, dst ? capacity : 0, &size, &e)) != BZNA_OK)
        BZI_API_END(status);
    if (needed)
        *needed = (size_t)size;
    if (size > capacity || !dst)
        BZI_API_FAIL(BZNA_E_BUFFER, "the stream needs %llu bytes, the buffer has %llu", (unsigned long long)size,
                     (unsigned long long)(dst ? capacity : 0));
    return BZNA_OK;
}

/* ==== 66. Public API: data sets ======================================================================================
 * Calls: all rooms above. */

BZNA_API void bzna_dataset_config_init(bzna_dataset_config *config, size_t struct_size)
{
    bzi_struct_init(config, struct_size);
}

BZNA_API void bzna_records_init(bzna_records *records, size_t struct_size) { bzi_struct_init(records, struct_size); }

/* The numbers of a config that name something. */
static bzna_status bzi_api_check_dataset_config(const bzna_dataset_config *c, bzna_error *err)
{
    const struct { const char *name; uint32_t value, last; } numbers[] = {
        { "class_order", c->class_order, BZNA_CLASS_ORDER_NUMERIC },
        { "orientation", c->orientation, BZNA_ORIENTATION_IGNORE },
        { "palette", c->palette, BZNA_PALETTE_INDEX },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i].value > numbers[i].last)
            return BZI_FAIL(err, BZNA_E_ARGUMENT, "dataset_config.%s: %u is not known", numbers[i].name,
                            numbers[i].value);
    for (size_t i = 0; i < 4; i++)
        if (c->reserved[i])
            return BZI_FAIL(err, BZNA_E_STRUCT_SIZE, "dataset_config: reserved words are set");
    if (!c->classes != !c->class_count)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "dataset_config.classes: class_count is %u, and classes is%s NULL",
                        c->class_count, c->classes ? " not" : "");
    for (uint32_t i = 0; i < c->class_count; i++)
        if (!c->classes[i])
            return BZI_FAIL(err, BZNA_E_ARGUMENT, "dataset_config.classes[%u]: NULL", i);
    return BZNA_OK;
}

/* The caller's config, whole; records is the room for what it points to. */
static bzna_status bzi_api_dataset_config(const bzna_dataset_config *config, bzna_dataset_config *c,
                                          bzna_records *records, bzna_error *err)
{
    bzna_status status;
    memset(c, 0, sizeof *c);
    if (!config)
        return BZNA_OK;
    status = bzi_api_in(c, sizeof *c, config, offsetof(bzna_dataset_config, reserved0), "dataset_config", err);
    if (status == BZNA_OK && c->records &&
        (status = bzi_api_in(records, sizeof *records, c->records, offsetof(bzna_records, reserved0),
                             "dataset_config.records", err)) == BZNA_OK)
        c->records = records;
    return status == BZNA_OK ? bzi_api_check_dataset_config(c, err) : status;
}

BZNA_API bzna_status bzna_dataset_open(bzna_context *context, const char *path, const bzna_dataset_config *config,
                                       bzna_dataset **out, bzna_error *err)
{
    bzna_dataset_config c;
    bzna_records records;
    bzna_status status;
    BZI_API_BEGIN;
    if (out)
        *out = NULL;
    if (!context || !path || !out)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_dataset_open: %s is NULL", !context ? "context" : !path ? "path" : "out");
    if ((status = bzi_api_dataset_config(config, &c, &records, &e)) == BZNA_OK) {
        status = bzi_dataset_open_list(context->host, &path, 1, &c, out, &e);
        bzi_log_deliver(context->host);
    }
    BZI_API_END(status);
}

BZNA_API bzna_status bzna_dataset_open_list(bzna_context *context, const char *const *paths, uint32_t count,
                                            const bzna_dataset_config *config, bzna_dataset **out, bzna_error *err)
{
    bzna_dataset_config c;
    bzna_records records;
    bzna_status status;
    BZI_API_BEGIN;
    if (out)
        *out = NULL;
    if (!context || !paths || !out)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_dataset_open_list: %s is NULL",
                     !context ? "context" :
                     !paths   ? "paths" :
                                "out");
    if (count == 0)
        BZI_API_FAIL(BZNA_E_NO_SAMPLES, "bzna_dataset_open_list: there are no paths");
    if (count > BZI_LIMIT_PARTS)
        BZI_API_FAIL(BZNA_E_LIMIT, "bzna_dataset_open_list: %u paths are more than %u", count, BZI_LIMIT_PARTS);
    for (uint32_t i = 0; i < count; i++)
        if (!paths[i])
            BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_dataset_open_list: paths[%u] is NULL", i);
    if ((status = bzi_api_dataset_config(config, &c, &records, &e)) == BZNA_OK && c.name)
        status = BZI_FAIL(&e, BZNA_E_ARGUMENT, "dataset_config.name: of a list, every file is called by its path");
    if (status == BZNA_OK) {
        status = bzi_dataset_open_list(context->host, paths, count, &c, out, &e);
        bzi_log_deliver(context->host);
    }
    BZI_API_END(status);
}

BZNA_API bzna_status bzna_dataset_open_memory(bzna_context *context, const void *bytes, size_t size,
                                              const bzna_dataset_config *config, bzna_dataset **out, bzna_error *err)
{
    bzna_dataset_config c;
    bzna_records records;
    bzi_source source;
    bzna_status status;
    BZI_API_BEGIN;
    if (out)
        *out = NULL;
    if (!context || !bytes || !out)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_dataset_open_memory: %s is NULL",
                     !context ? "context" :
                     !bytes   ? "bytes" :
                                "out");
    if ((status = bzi_api_dataset_config(config, &c, &records, &e)) != BZNA_OK)
        BZI_API_END(status);
    memset(&source, 0, sizeof source);
    bzi_source_open_memory(&source, bytes, size);
    if ((status = bzi_dataset_open(context->host, &source, c.name ? c.name : "memory", &c, out, &e)) != BZNA_OK)
        bzi_error_prefix(&e, c.name ? c.name : "memory");
    bzi_log_deliver(context->host);
    BZI_API_END(status);
}

BZNA_API bzna_status bzna_dataset_open_source(bzna_context *context, const bzna_source *source,
                                              const bzna_dataset_config *config, bzna_dataset **out, bzna_error *err)
{
    bzna_dataset_config c;
    bzna_records records;
    bzna_source callbacks;
    bzi_source opened;
    bzna_status status;
    BZI_API_BEGIN;
    if (out)
        *out = NULL;
    if (!context || !source || !out)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_dataset_open_source: %s is NULL",
                     !context ? "context" :
                     !source  ? "source" :
                                "out");
    if ((status = bzi_api_in(&callbacks, sizeof callbacks, source, offsetof(bzna_source, reserved0), "source", &e)) !=
        BZNA_OK)
        BZI_API_END(status);
    if (!callbacks.read_at || !callbacks.size)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "source.%s: must be given", callbacks.read_at ? "size" : "read_at");
    if ((status = bzi_api_dataset_config(config, &c, &records, &e)) != BZNA_OK)
        BZI_API_END(status);
    memset(&opened, 0, sizeof opened);
    if ((status = bzi_source_open_user(&opened, &callbacks, &e)) == BZNA_OK)
        status = bzi_dataset_open(context->host, &opened, c.name ? c.name : "source", &c, out, &e);
    if (status != BZNA_OK)
        bzi_error_prefix(&e, c.name ? c.name : "source");
    bzi_log_deliver(context->host);
    BZI_API_END(status);
}

BZNA_API bzna_status bzna_dataset_concat(bzna_context *context, bzna_dataset *const *parts, uint32_t part_count,
                                         bzna_dataset **out, bzna_error *err)
{
    BZI_API_BEGIN;
    if (out)
        *out = NULL;
    if (!context || !parts || !part_count || !out)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_dataset_concat: %s",
                     !context ? "context is NULL" :
                     !out     ? "out is NULL" :
                                "there are no parts");
    for (uint32_t i = 0; i < part_count; i++)
        if (!parts[i])
            BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_dataset_concat: parts[%u] is NULL", i);
    BZI_API_END(bzi_dataset_concat(context->host, parts, part_count, out, &e));
}

BZNA_API bzna_status bzna_dataset_range(bzna_dataset *dataset, uint64_t first, uint64_t count, bzna_dataset **out,
                                        bzna_error *err)
{
    BZI_API_BEGIN;
    if (out)
        *out = NULL;
    if (!dataset || !out)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_dataset_range: %s is NULL", dataset ? "out" : "dataset");
    if (count == 0)
        BZI_API_FAIL(BZNA_E_NO_SAMPLES, "bzna_dataset_range: count is 0");
    if (first > dataset->count || count > dataset->count - first)
        BZI_API_FAIL(BZNA_E_RANGE, "bzna_dataset_range: %llu samples from %llu on, of %llu", (unsigned long long)count,
                     (unsigned long long)first, (unsigned long long)dataset->count);
    BZI_API_END(bzi_dataset_range(dataset, first, count, out, &e));
}

BZNA_API bzna_status bzna_dataset_close(bzna_dataset *dataset)
{
    if (!dataset)
        return BZNA_OK;
    if (bzi_os_in_callback)
        return BZNA_E_STATE;
    bzi_dataset_drop(dataset);
    return BZNA_OK;
}

BZNA_API uint64_t bzna_dataset_count(const bzna_dataset *dataset) { return dataset ? dataset->count : 0; }

BZNA_API bzna_status bzna_dataset_get_info(const bzna_dataset *dataset, bzna_dataset_info *info, size_t struct_size,
                                           bzna_error *err)
{
    bzna_dataset_info all;
    BZI_API_BEGIN;
    if (!dataset || !info)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_dataset_get_info: %s is NULL", dataset ? "info" : "dataset");
    bzi_dataset_describe(dataset, &all);
    BZI_API_END(bzi_api_out(info, struct_size, &all, sizeof all, &e));
}

BZNA_API bzna_status bzna_dataset_get_field_info(const bzna_dataset *dataset, uint32_t field, bzna_field_info *info,
                                                 size_t struct_size, bzna_error *err)
{
    bzna_field_info all;
    const bzi_field *found;
    BZI_API_BEGIN;
    if (!dataset || !info)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_dataset_get_field_info: %s is NULL", dataset ? "info" : "dataset");
    memset(&all, 0, sizeof all);
    if (!(found = bzi_dataset_field(dataset, field)))
        BZI_API_FAIL(BZNA_E_RANGE, "%s: there is no field %u", dataset->parts[0].container->name, field);
    all.kind = found->kind;
    memcpy(all.name, found->name, sizeof all.name);
    BZI_API_END(bzi_api_out(info, struct_size, &all, sizeof all, &e));
}

BZNA_API bzna_status bzna_dataset_get_track_info(const bzna_dataset *dataset, uint32_t track, bzna_track_info *info,
                                                 size_t struct_size, bzna_error *err)
{
    bzna_track_info all;
    const bzi_container *c;
    BZI_API_BEGIN;
    if (!dataset || !info)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_dataset_get_track_info: %s is NULL", dataset ? "info" : "dataset");
    memset(&all, 0, sizeof all);
    c = dataset->parts[0].container;
    if (!c->ops->track || c->ops->track(c, track, &all) != BZNA_OK)
        BZI_API_FAIL(BZNA_E_RANGE, "%s: there is no track %u", c->name, track);
    BZI_API_END(bzi_api_out(info, struct_size, &all, sizeof all, &e));
}

BZNA_API bzna_status bzna_dataset_target(const bzna_dataset *dataset, uint64_t index, int64_t *target, bzna_error *err)
{
    const bzi_container *c;
    bzna_status status;
    BZI_API_BEGIN;
    if (!dataset || !target)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_dataset_target: %s is NULL", dataset ? "target" : "dataset");
    *target = BZNA_TARGET_NONE;
    if (!(c = bzi_dataset_find(dataset, &index, &e)))
        BZI_API_END(e.status);
    if ((status = bzi_container_look_target(c, index, target, &e)) != BZNA_OK) {
        *target = BZNA_TARGET_NONE;
        bzi_container_fail(c, index, &e);
    }
    BZI_API_END(status);
}

BZNA_API bzna_status bzna_dataset_field(const bzna_dataset *dataset, uint64_t index, const char *field, void *buffer,
                                        size_t capacity, size_t *needed, bzna_error *err)
{
    bzi_value value = { buffer, buffer ? capacity : 0, 0, 0 };
    const bzi_container *c;
    bzna_status status;
    BZI_API_BEGIN;
    if (needed)
        *needed = 0;
    if (!dataset || !field)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_dataset_field: %s is NULL", dataset ? "field" : "dataset");
    if (!(c = bzi_dataset_find(dataset, &index, &e)))
        BZI_API_END(e.status);
    if ((status = bzi_container_field(c, index, field, &value, &e)) != BZNA_OK)
        bzi_container_fail(c, index, &e);
    if (needed)
        *needed = (size_t)value.size;
    BZI_API_END(status);
}

BZNA_API bzna_status bzna_dataset_class(const bzna_dataset *dataset, int64_t target, void *buffer, size_t capacity,
                                        size_t *needed, bzna_error *err)
{
    bzi_value value = { buffer, buffer ? capacity : 0, 0, 0 };
    bzna_status status;
    BZI_API_BEGIN;
    if (needed)
        *needed = 0;
    if (!dataset)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_dataset_class: dataset is NULL");
    status = bzi_dataset_class(dataset, (uint64_t)target, &value, &e);
    if (needed)
        *needed = (size_t)value.size;
    BZI_API_END(status);
}

BZNA_API bzna_status bzna_dataset_get_sample(const bzna_dataset *dataset, uint64_t index, bzna_sample *sample,
                                             size_t struct_size, bzna_error *err)
{
    const bzi_container *c;
    uint64_t local = index;
    bzna_sample all;
    bzna_status status;
    BZI_API_BEGIN;
    if (!dataset || !sample)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_dataset_get_sample: %s is NULL", dataset ? "sample" : "dataset");
    if (!(c = bzi_dataset_find(dataset, &local, &e)))
        BZI_API_END(e.status);
    if ((status = bzi_container_sample(c, local, &all, &e)) != BZNA_OK)
        BZI_API_END(bzi_container_fail(c, local, &e));
    all.index = index;
    BZI_API_END(bzi_api_out(sample, struct_size, &all, sizeof all, &e));
}

BZNA_API bzna_status bzna_dataset_read_image(const bzna_dataset *dataset, uint64_t index, const char *field,
                                             void *buffer, size_t capacity, bzna_image *image, bzna_error *err)
{
    const bzi_container *c;
    const bzi_span room = { buffer, capacity };
    const bzi_pick pick = { field, 0 };
    bzi_image all;
    bzna_status status;
    BZI_API_BEGIN;
    if (!dataset || !buffer || !image)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_dataset_read_image: %s is NULL",
                     !dataset ? "dataset" :
                     !buffer  ? "buffer" :
                                "image");
    if (image->struct_size < sizeof(uint32_t))
        BZI_API_FAIL(BZNA_E_STRUCT_SIZE, "image.struct_size: not set");
    if (!(c = bzi_dataset_find(dataset, &index, &e)))
        BZI_API_END(e.status);
    if ((status = bzi_container_read_image(c, index, &pick, room, &all, &e)) != BZNA_OK)
        BZI_API_END(bzi_container_fail(c, index, &e));
    bzi_struct_out(image, image->struct_size, &all.coded, sizeof all.coded);
    return BZNA_OK;
}

BZNA_API bzna_status bzna_dataset_get_image_info(const bzna_dataset *dataset, uint64_t index, const char *field,
                                                 bzna_image_info *info, size_t struct_size, bzna_error *err)
{
    const bzi_container *c;
    const bzi_pick pick = { field, 0 };
    bzi_image image;
    bzna_image_info all;
    bzna_status status;
    BZI_API_BEGIN;
    if (!dataset || !info)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_dataset_get_image_info: %s is NULL", dataset ? "info" : "dataset");
    if (!(c = bzi_dataset_find(dataset, &index, &e)))
        BZI_API_END(e.status);
    if ((status = bzi_container_describe_image(c, index, &pick, &image, &e)) != BZNA_OK)
        BZI_API_END(bzi_container_fail(c, index, &e));
    all = bzi_image_info(&image);
    BZI_API_END(bzi_api_out(info, struct_size, &all, sizeof all, &e));
}


/* ==== 67. Public API: pictures, numbers, warps =======================================================================
 * Calls: all rooms above. */

BZNA_API bzna_status bzna_decoder_open(bzna_context *context, bzna_decoder **out, bzna_error *err)
{
    bzna_decoder *decoder;
    bzna_status status;
    BZI_API_BEGIN;
    if (out)
        *out = NULL;
    if (!context || !out)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_decoder_open: %s is NULL", context ? "out" : "context");
    decoder = bzi_alloc_zero(&context->host->memory, 1, sizeof *decoder);
    if (!decoder)
        BZI_API_END(bzi_fail_memory(&e, "a decoder"));
    if ((status = bzi_software_open(&decoder->software, &context->host->memory, context->host->max_edge_px, &e)) !=
        BZNA_OK) {
        bzi_release(&context->host->memory, decoder, 1, sizeof *decoder);
        BZI_API_END(status);
    }
    decoder->host = context->host;
    bzi_host_retain(decoder->host);
    *out = decoder;
    return BZNA_OK;
}

BZNA_API bzna_status bzna_decoder_close(bzna_decoder *decoder)
{
    bzi_host *host;
    if (!decoder)
        return BZNA_OK;
    if (bzi_os_in_callback)
        return BZNA_E_STATE;
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
    bzna_status status;
    BZI_API_BEGIN;
    if (!decoder || !picture)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_decoder_decode: %s is NULL", decoder ? "picture" : "decoder");
    if (picture->struct_size < sizeof(uint32_t))
        BZI_API_FAIL(BZNA_E_STRUCT_SIZE, "picture.struct_size: not set");
    if ((status = bzi_api_image(image, &whole, &e)) != BZNA_OK)
        BZI_API_END(status);
    alone = bzi_image_alone(&whole);
    if ((status = bzi_picture_describe(&alone, decoder->software.max_edge_px, &format, &all, &e)) == BZNA_OK &&
        (status = bzi_software_decode(&decoder->software, &whole, &format, bzi_picture_all(&all), &all, &e)) == BZNA_OK)
        bzi_struct_out(picture, picture->struct_size, &all, sizeof all);
    BZI_API_END(status);
}

/* --- Random numbers, transforms --- */

BZNA_API void bzna_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    bzi_philox(counter, key, out);
}

BZNA_API void bzna_random_init(bzna_random *random, uint64_t seed, uint64_t epoch, uint64_t sample, uint32_t operation)
{
    bzi_random_init(random, seed, epoch, sample, operation);
}

BZNA_API void bzna_random_fork(bzna_random *random, uint32_t view, uint64_t occurrence)
{
    bzi_random_fork(random, view, occurrence);
}
BZNA_API uint32_t bzna_random_u32(bzna_random *random) { return bzi_random_u32(random); }
BZNA_API double bzna_random_uniform(bzna_random *random, double lo, double hi)
{
    return bzi_random_uniform(random, lo, hi);
}

BZNA_API uint64_t bzna_permute(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t position)
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
    if (transform)
        bzi_struct_out(transform, struct_size, &all, sizeof all);
}

BZNA_API void bzna_output_init(bzna_output *output, size_t struct_size) { bzi_struct_init(output, struct_size); }
BZNA_API void bzna_affine_init(bzna_affine *affine, size_t struct_size) { bzi_struct_init(affine, struct_size); }

BZNA_API void bzna_warp_init(bzna_warp *warp, size_t struct_size)
{
    if (warp && struct_size <= UINT32_MAX)
        memset(warp, 0, struct_size);
}

BZNA_API void bzna_jitter_init(bzna_jitter *jitter, size_t struct_size)
{
    if (jitter && struct_size <= UINT32_MAX)
        memset(jitter, 0, struct_size);
}

BZNA_API void bzna_homography_multiply(const double a[9], const double b[9], double out[9])
{
    bzi_homography_multiply(a, b, out);
}

BZNA_API bzna_status bzna_jitter_draw(bzna_random *random, const bzna_jitter *jitter, bzna_transform *transform,
                                      bzna_error *err)
{
    bzna_transform all;
    const char *fault;
    bzna_status status;
    BZI_API_BEGIN;
    if (!random || !jitter || !transform)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_jitter_draw: random, jitter or transform is NULL");
    if ((fault = bzi_jitter_fault(jitter)) != NULL)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "jitter.%s: out of its range, or not a number", fault);
    if ((status = bzi_api_in(&all, sizeof all, transform, 0, "transform", &e)) != BZNA_OK)
        BZI_API_END(status);
    bzi_jitter_draw(random, jitter, &all);
    bzi_struct_out(transform, transform->struct_size, &all, sizeof all);
    return BZNA_OK;
}

BZNA_API bzna_status bzna_affine_matrix(const bzna_affine *affine, double homography[9], bzna_error *err)
{
    double numbers[7];
    bzna_affine a;
    bzna_status status;
    BZI_API_BEGIN;
    if (!affine || !homography)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_affine_matrix: %s is NULL", affine ? "homography" : "affine");
    if ((status = bzi_api_in(&a, sizeof a, affine, 0, "affine", &e)) != BZNA_OK)
        BZI_API_END(status);
    numbers[0] = a.crop_x;
    numbers[1] = a.crop_y;
    numbers[2] = a.crop_width;
    numbers[3] = a.crop_height;
    numbers[4] = a.degrees;
    numbers[5] = a.translate_x;
    numbers[6] = a.translate_y;
    if (!a.in_width || !a.in_height || !a.out_width || !a.out_height || !bzi_finite(numbers, 7))
        BZI_API_FAIL(BZNA_E_ARGUMENT, "affine: a size is 0, or a number is not finite");
    if (a.has_crop && !(a.crop_width > 0 && a.crop_height > 0))
        BZI_API_FAIL(BZNA_E_ARGUMENT, "affine.crop_width, crop_height: %g x %g", a.crop_width, a.crop_height);
    bzi_affine_matrix(&a, homography);
    return BZNA_OK;
}

BZNA_API bzna_status bzna_warp_draw(bzna_random *random, const bzna_warp *warp, uint32_t in_width, uint32_t in_height,
                                    uint32_t out_width, uint32_t out_height, double homography[9], bzna_error *err)
{
    const uint32_t in[2] = { in_width, in_height }, out[2] = { out_width, out_height };
    bzi_similarity p;
    bzna_status status;
    BZI_API_BEGIN;
    if (!random || !warp || !homography)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_warp_draw: %s is NULL",
                     !random ? "random" :
                     !warp   ? "warp" :
                               "homography");
    if (!in_width || !in_height || !out_width || !out_height)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_warp_draw: from %ux%u to %ux%u", in_width, in_height, out_width,
                     out_height);
    if ((status = bzi_warp_resolve(warp, "warp", &p, &e)) == BZNA_OK)
        bzi_warp_draw(random, &p, in, out, homography);
    BZI_API_END(status);
}

static bzna_status bzi_api_picture_check(const bzna_picture *p, bzna_error *err)
{
    if (p->depth < 8 || p->depth > 16 || p->chroma_shift_x > 2 || p->chroma_shift_y > 2 || !p->plane[0] ||
        !p->plane[1] != !p->plane[2] || p->orientation > 8)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "picture: 8 to 16 bits, subsampling of at most 4, an orientation of at "
                        "most 8 and planes are needed");
    for (int i = 0; i < 3 && p->depth > 8; i++)
        if ((uintptr_t)p->plane[i] % 2 || p->pitch[i] % 2)
            return BZI_FAIL(err, BZNA_E_ARGUMENT, "picture.plane[%d], pitch[%d]: samples of two bytes must be aligned",
                            i, i);
    if (!p->width || !p->height || p->frame_width > 65535 || p->frame_height > 65535 || p->width > p->frame_width ||
        p->height > p->frame_height || p->crop_x > p->frame_width - p->width || p->crop_y > p->frame_height - p->height)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "picture: %ux%u at %u,%u does not lie in its %ux%u frame", p->width,
                        p->height, p->crop_x, p->crop_y, p->frame_width, p->frame_height);
    for (int i = 0; i < 3; i++)
        if (p->step[i] > 65535 || (p->depth > 8 && p->step[i] % 2))
            return BZI_FAIL(err, BZNA_E_ARGUMENT, "picture.step[%d]: %u; at most 65535, and of two bytes even", i,
                            p->step[i]);
    for (int i = 0; i < 3; i++)
        if (p->pitch[i] > INT32_MAX || p->pitch[i] < INT32_MIN)
            return BZI_FAIL(err, BZNA_E_ARGUMENT, "picture.pitch[%d]: %lld", i, (long long)p->pitch[i]);
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
    bzna_status status;
    BZI_API_BEGIN;
    if (!picture || !transform || !output || !dst)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_picture_render: an argument is NULL");
    if ((status = bzi_api_in(&p, sizeof p, picture, 0, "picture", &e)) != BZNA_OK ||
        (status = bzi_api_in(&t, sizeof t, transform, 0, "transform", &e)) != BZNA_OK ||
        (status = bzi_api_in(&o, sizeof o, output, 0, "output", &e)) != BZNA_OK)
        BZI_API_END(status);
    if (!p.color.present)
        p.color = bzi_color_of_codecs;
    if ((status = bzi_output_check("output", &o, &e)) != BZNA_OK ||
        (status = bzi_api_picture_check(&p, &e)) != BZNA_OK ||
        (status = bzi_slot_make(&slot, &p, &t, o.channels, &e)) != BZNA_OK)
        BZI_API_END(status);
    out = bzi_output_make(&o);
    if (dst_bytes < bzi_output_bytes(&o))
        BZI_API_FAIL(BZNA_E_BUFFER, "dst: %llu bytes are too few for %u x %u x %u elements of %u bytes",
                     (unsigned long long)dst_bytes, out.channels, o.height, o.width, bzi_dtype_bytes(o.dtype));
    if ((uintptr_t)dst % bzi_dtype_bytes(o.dtype))
        BZI_API_FAIL(BZNA_E_ARGUMENT, "dst: not aligned to %u bytes", bzi_dtype_bytes(o.dtype));
    slot.dst = (uint64_t)(uintptr_t)dst;
    const size_t bytes = bzi_kernel_workspace_bytes(&slot, &out);
    void *workspace = bytes ? bzi_os_alloc(NULL, bytes, 64) : NULL;    /* without it, the same bits in more time */
    bzi_kernel_warp(&slot, &out, workspace, bytes);
    bzi_os_release(NULL, workspace, bytes);
    return BZNA_OK;
}


/* ==== 68. Public API: loaders, batches, writers ======================================================================
 * Calls: all rooms above. */

BZNA_API void bzna_loader_config_init(bzna_loader_config *config, size_t struct_size)
{
    bzi_struct_init(config, struct_size);
}

BZNA_API void bzna_extra_output_init(bzna_extra_output *output, size_t struct_size)
{
    bzi_struct_init(output, struct_size);
}

BZNA_API bzna_status bzna_loader_open(bzna_context *context, bzna_dataset *dataset, const bzna_loader_config *config,
                                      bzna_loader **out, bzna_error *err)
{
    bzi_loader_settings settings;
    bzna_status status;
    BZI_API_BEGIN;
    if (out)
        *out = NULL;
    if (!context || !dataset || !config || !out)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_loader_open: %s is NULL",
                     !context ? "context" :
                     !dataset ? "dataset" :
                     !config  ? "config" :
                                "out");
    memset(&settings, 0, sizeof settings);
    if ((status = bzi_api_in(&settings.config, sizeof settings.config, config,
                             offsetof(bzna_loader_config, reserved0), "loader_config", &e)) != BZNA_OK)
        BZI_API_END(status);
    if ((status = bzi_loader_check(&settings, dataset, &e)) == BZNA_OK)
        status = bzi_loader_make(context, dataset, &settings, out, &e);
    bzi_log_deliver(context->host);
    BZI_API_END(status);
}

static bzna_status bzi_api_loader(const char *call, const bzna_loader *loader, bzna_error *err)
{
    if (!loader)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "%s: loader is NULL", call);
    return bzi_loader_forked(loader) ? BZI_FAIL(err, BZNA_E_STATE, "%s: not after fork", call) : BZNA_OK;
}

BZNA_API bzna_status bzna_loader_close(bzna_loader *loader)
{
    bzna_context *context;
    if (!loader)
        return BZNA_OK;
    if (bzi_os_in_callback || bzi_loader_forked(loader))
        return BZNA_E_STATE;
    context = loader->context;
    bzi_context_retain(context);
    bzi_loader_close(loader);
    bzi_log_deliver(context->host);
    bzi_context_drop(context);
    return BZNA_OK;
}

BZNA_API bzna_status bzna_loader_next(bzna_loader *loader, int64_t timeout_ns, bzna_batch **batch, bzna_error *err)
{
    bzna_context *context;
    bzna_status status;
    BZI_API_BEGIN;
    if (batch)
        *batch = NULL;
    if (!loader || !batch)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_loader_next: %s is NULL", loader ? "batch" : "loader");
    if (bzi_os_in_callback || bzi_loader_forked(loader))
        BZI_API_FAIL(BZNA_E_STATE, "bzna_loader_next: not %s", bzi_os_in_callback ? "inside a callback" : "after fork");
    context = loader->context;
    bzi_context_retain(context); /* another thread may close the loader as soon as its lock is free */
    status = bzi_loader_next(loader, timeout_ns, batch, &e);
    bzi_log_deliver(context->host);
    bzi_context_drop(context);
    BZI_API_END(status);
}

BZNA_API bzna_status bzna_loader_stop(bzna_loader *loader, bzna_error *err)
{
    bzna_status status;
    BZI_API_BEGIN;
    if ((status = bzi_api_loader("bzna_loader_stop", loader, &e)) == BZNA_OK)
        bzi_loader_stop(loader);
    BZI_API_END(status);
}

BZNA_API bzna_status bzna_loader_reset(bzna_loader *loader, uint64_t epoch, bzna_error *err)
{
    BZI_API_BEGIN;
    if (!loader)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_loader_reset: loader is NULL");
    if (bzi_os_in_callback || bzi_loader_forked(loader))
        BZI_API_FAIL(BZNA_E_STATE, "bzna_loader_reset: not %s",
                     bzi_os_in_callback ? "inside a callback" : "after fork");
    BZI_API_END(bzi_loader_reset(loader, epoch, &e));
}

BZNA_API bzna_status bzna_loader_save(bzna_loader *loader, bzna_loader_state *state, size_t struct_size,
                                      bzna_error *err)
{
    bzna_status status;
    BZI_API_BEGIN;
    if ((status = bzi_api_loader("bzna_loader_save", loader, &e)) != BZNA_OK)
        BZI_API_END(status);
    if (!state)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_loader_save: state is NULL");
    if (struct_size < sizeof *state)
        BZI_API_FAIL(BZNA_E_STRUCT_SIZE, "bzna_loader_save: a state has %u bytes, not %llu", (unsigned)sizeof *state,
                     (unsigned long long)struct_size);
    bzi_loader_save(loader, state);
    return BZNA_OK;
}

BZNA_API bzna_status bzna_loader_restore(bzna_loader *loader, const bzna_loader_state *state, bzna_error *err)
{
    bzna_status status;
    BZI_API_BEGIN;
    if (!loader || !state)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_loader_restore: %s is NULL", loader ? "state" : "loader");
    if (bzi_os_in_callback || bzi_loader_forked(loader))
        BZI_API_FAIL(BZNA_E_STATE, "bzna_loader_restore: not %s",
                     bzi_os_in_callback ? "inside a callback" : "after fork");
    status = bzi_loader_restore(loader, state, &e);
    bzi_log_deliver(loader->host);
    BZI_API_END(status);
}

static void bzi_api_loader_info(const bzna_loader *loader, bzna_loader_info *info)
{
    const bzna_loader_config *c = &loader->config;
    const bzi_pick *pick = &loader->picks[0];
    const bzi_shard whole = { c->order.epoch_samples, 0, c->output.batch_size, c->shard.world_size, c->shard.rank,
                              c->order.last_batch };        /* an epoch from its start */
    memset(info, 0, sizeof *info);
    info->decoder = loader->pool ? BZNA_DECODER_NVDEC : BZNA_DECODER_SOFTWARE;
    info->sessions = loader->pool ? loader->pool->count : 0;
    bzi_loader_describe_tensor(loader, 0, c->output.batch_size, &info->image);
    info->layout = c->output.layout;
    info->threads = c->decode.threads;
    info->reader_threads = c->read.threads;
    info->batches_in_flight = c->pipeline.batches_in_flight;
    info->read_ahead = c->read.ahead_samples;
    info->batches_per_epoch = bzi_shard_batches(&whole);
    info->samples_per_epoch = c->order.last_batch == BZNA_LAST_DROP ? info->batches_per_epoch * c->output.batch_size :
                              whole.count > whole.rank ? (whole.count - whole.rank + whole.world - 1) / whole.world : 0;
    if (loader->pool)
        snprintf(info->decoder_name, sizeof info->decoder_name, "NVDEC of %.50s", loader->device->info.name);
    else
        bzi_software_name(info->decoder_name, sizeof info->decoder_name);
    bzi_string_copy(info->decoder_reason, sizeof info->decoder_reason, loader->reason);
    bzi_string_copy(info->picture, sizeof info->picture,
                    pick->name  ? pick->name :
                    pick->whole ? "image" :
                                  "thumb");
    bzi_string_copy(info->picture_reason, sizeof info->picture_reason,
                    pick->name  ? "loader_config.fields.image" :
                    pick->whole ? "an output is larger than 512 pixels, the largest edge of a thumbnail" :
                                  "the output has 512 pixels at most; where a thumbnail lacks, the picture");
}

BZNA_API bzna_status bzna_loader_get_info(bzna_loader *loader, bzna_loader_info *info, size_t struct_size,
                                          bzna_error *err)
{
    bzna_loader_info all;
    BZI_API_BEGIN;
    if (!loader || !info)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_loader_get_info: %s is NULL", loader ? "info" : "loader");
    bzi_api_loader_info(loader, &all);
    BZI_API_END(bzi_api_out(info, struct_size, &all, sizeof all, &e));
}

BZNA_API bzna_status bzna_loader_get_stats(bzna_loader *loader, bzna_loader_stats *stats, size_t struct_size,
                                           bzna_error *err)
{
    bzna_loader_stats all;
    bzna_status status;
    BZI_API_BEGIN;
    if ((status = bzi_api_loader("bzna_loader_get_stats", loader, &e)) != BZNA_OK)
        BZI_API_END(status);
    if (!stats)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_loader_get_stats: stats is NULL");
    bzi_loader_stats(loader, &all);
    BZI_API_END(bzi_api_out(stats, struct_size, &all, sizeof all, &e));
}

BZNA_API bzna_status bzna_loader_tensor(bzna_loader *loader, uint32_t number, bzna_tensor *tensor, size_t struct_size,
                                        bzna_error *err)
{
    bzna_tensor all;
    BZI_API_BEGIN;
    if (!loader || !tensor)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_loader_tensor: %s is NULL", loader ? "tensor" : "loader");
    if (number >= bzi_loader_tensors(loader))
        BZI_API_FAIL(BZNA_E_RANGE, "bzna_loader_tensor: %u is not below %u", number, bzi_loader_tensors(loader));
    bzi_loader_describe_tensor(loader, number, loader->config.output.batch_size, &all);
    BZI_API_END(bzi_api_out(tensor, struct_size, &all, sizeof all, &e));
}

/* --- Batches --- */

BZNA_API bzna_status bzna_batch_get_info(const bzna_batch *batch, bzna_batch_info *info, size_t struct_size,
                                         bzna_error *err)
{
    bzna_batch_info all;
    BZI_API_BEGIN;
    if (!batch || !info)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_batch_get_info: %s is NULL", batch ? "info" : "batch");
    memset(&all, 0, sizeof all);
    bzi_batch_tensor(batch, 0, &all.image);
    all.stream = batch->loader->on_device ? batch->stream : NULL;
    all.layout = batch->loader->config.output.layout;
    all.count = batch->real;
    all.failed = batch->failed;
    all.epoch = batch->epoch;
    all.batch = batch->number;
    all.position = batch->position;
    all.targets = batch->targets;
    all.indices = batch->indices;
    all.status = batch->status;
    all.last_of_epoch = batch->last_of_epoch;
    all.replaced = batch->replaced;
    all.slices = batch->loader->config.output.slices;
    BZI_API_END(bzi_api_out(info, struct_size, &all, sizeof all, &e));
}

/* A tensor's number, where the batch has it in one piece. */
static bzna_status bzi_api_find_tensor(const bzna_batch *batch, const char *name, uint32_t *number, bzna_error *err)
{
    *number = bzi_loader_find_tensor(batch->loader, name);
    if (*number == bzi_loader_tensors(batch->loader))
        return BZI_FAIL(err, BZNA_E_NOT_FOUND, "the batch has no tensor \"%s\"", name);
    if (*number == 0 && batch->loader->config.output.slices > 1)
        return BZI_FAIL(err, BZNA_E_UNSUPPORTED, "the batch's image lies in %u slices, and is no one tensor",
                        batch->loader->config.output.slices);
    return BZNA_OK;
}

BZNA_API bzna_status bzna_batch_tensor(const bzna_batch *batch, const char *name, bzna_tensor *tensor,
                                       size_t struct_size, bzna_error *err)
{
    bzna_tensor all;
    uint32_t number;
    bzna_status status;
    BZI_API_BEGIN;
    if (!batch || !name || !tensor)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_batch_tensor: %s is NULL",
                     !batch ? "batch" :
                     !name  ? "name" :
                              "tensor");
    if ((status = bzi_api_find_tensor(batch, name, &number, &e)) != BZNA_OK)
        BZI_API_END(status);
    bzi_batch_tensor(batch, number, &all);
    BZI_API_END(bzi_api_out(tensor, struct_size, &all, sizeof all, &e));
}

BZNA_API bzna_status bzna_batch_bytes(const bzna_batch *batch, const char *name, uint32_t slot, const void **data,
                                      uint64_t *size, bzna_error *err)
{
    const bzi_slot_bytes *bytes;
    uint32_t column;
    BZI_API_BEGIN;
    if (!batch || !name || !data || !size)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_batch_bytes: %s is NULL",
                     !batch ? "batch" :
                     !name  ? "name" :
                     !data  ? "data" :
                              "size");
    if (slot >= batch->slots)
        BZI_API_FAIL(BZNA_E_RANGE, "bzna_batch_bytes: slot %u is not below %u", slot, batch->slots);
    column = bzi_loader_find_bytes(batch->loader, name);
    if (column == BZI_NO_FIELD)
        BZI_API_FAIL(BZNA_E_NOT_FOUND, "loader_config.fields.bytes does not name \"%s\"", name);
    bytes = bzi_batch_bytes(batch, column, slot);
    *data = bytes->present ? bytes->buffer.data : NULL;
    *size = bytes->present ? bytes->size : 0;
    BZI_API_END(BZNA_OK);
}

BZNA_API bzna_status bzna_batch_error(const bzna_batch *batch, uint32_t slot, bzna_error *err)
{
    BZI_API_BEGIN;
    if (!batch || slot >= batch->slots)
        BZI_API_FAIL(batch ? BZNA_E_RANGE : BZNA_E_ARGUMENT, "bzna_batch_error: %s",
                     batch ? "there is no such slot" : "batch is NULL");
    if (batch->status[slot] < 0)
        e = batch->errors[slot];
    BZI_API_END(batch->status[slot]);
}

BZNA_API bzna_status bzna_batch_slice(const bzna_batch *batch, uint32_t slice, void **data, uint32_t *count,
                                      bzna_error *err)
{
    const bzna_loader_output *output;
    uint32_t each;
    BZI_API_BEGIN;
    if (!batch || !data || !count)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_batch_slice: %s is NULL",
                     !batch ? "batch" :
                     !data  ? "data" :
                              "count");
    output = &batch->loader->config.output;
    if (slice >= output->slices)
        BZI_API_FAIL(BZNA_E_RANGE, "bzna_batch_slice: %u is not below the %u slices", slice, output->slices);
    each = output->batch_size / output->slices;
    *data = batch->slices[slice];
    *count = batch->real <= slice * each ? 0 : (uint32_t)bzi_min(each, batch->real - slice * each);
    return BZNA_OK;
}

BZNA_API bzna_status bzna_batch_to_dlpack(bzna_batch *batch, const char *name, uint32_t version, void **tensor,
                                          bzna_error *err)
{
    uint32_t number;
    bzna_status status;
    BZI_API_BEGIN;
    if (tensor)
        *tensor = NULL;
    if (!batch || !name || !tensor)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_batch_to_dlpack: %s is NULL",
                     !batch ? "batch" :
                     !name  ? "name" :
                              "tensor");
    if (version > BZNA_DLPACK_1)
        BZI_API_FAIL(BZNA_E_UNSUPPORTED, "bzna_batch_to_dlpack: version %u is not known", version);
    if (bzi_loader_forked(batch->loader))
        BZI_API_FAIL(BZNA_E_STATE, "bzna_batch_to_dlpack: not after fork");
    if ((status = bzi_api_find_tensor(batch, name, &number, &e)) == BZNA_OK)
        status = bzi_batch_export(batch, number, version, tensor, &e);
    BZI_API_END(status);
}

BZNA_API bzna_status bzna_batch_move(bzna_batch *batch, void *stream, bzna_error *err)
{
    BZI_API_BEGIN;
    if (!batch)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "bzna_batch_move: batch is NULL");
    if (bzi_loader_forked(batch->loader))
        BZI_API_FAIL(BZNA_E_STATE, "bzna_batch_move: not after fork");
    if (!batch->loader->on_device)
        BZI_API_FAIL(BZNA_E_UNSUPPORTED, "bzna_batch_move: the batch is on the host");
    if (!stream)
        BZI_API_FAIL(
            BZNA_E_ARGUMENT,
            "bzna_batch_move: stream is NULL; the default streams are BZNA_STREAM_LEGACY and BZNA_STREAM_PER_THREAD");
    BZI_API_END(bzi_batch_move(batch, stream, &e));
}

BZNA_API bzna_status bzna_batch_release(bzna_batch *batch)
{
    if (!batch)
        return BZNA_OK;
    return bzi_loader_forked(batch->loader) ? BZNA_E_STATE : bzi_batch_release(batch);
}

/* --- Writers --- */

BZNA_API void bzna_writer_config_init(bzna_writer_config *config, size_t struct_size)
{
    bzi_struct_init(config, struct_size);
}

BZNA_API void bzna_sample_desc_init(bzna_sample_desc *sample, size_t struct_size)
{
    bzna_sample_desc all;
    memset(&all, 0, sizeof all);
    all.target = BZNA_TARGET_NONE;
    if (sample)
        bzi_struct_out(sample, struct_size, &all, sizeof all);
}

static bzna_status bzi_api_writer(bzna_context *context, const char *path, const bzna_sink *sink,
                                  const bzna_writer_config *config, bzna_writer **out, bzna_error *err)
{
    bzna_writer_config c;
    bzna_sink callbacks;
    bzna_status status;
    if (!context || !out || (!path && !sink))
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "bzna_writer_open: %s is NULL",
                        !context ? "context" :
                        !out     ? "out" :
                                   "path or sink");
    if (sink && (status = bzi_api_in(&callbacks, sizeof callbacks, sink, offsetof(bzna_sink, reserved0), "sink",
                                     err)) != BZNA_OK)
        return status;
    if (sink && !callbacks.write_at)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "sink.write_at: must be given");
    if (config && (status = bzi_api_in(&c, sizeof c, config, offsetof(bzna_writer_config, reserved0), "writer_config",
                                       err)) != BZNA_OK)
        return status;
    return bzi_writer_make(context->host, path, sink ? &callbacks : NULL, out, err);
}

BZNA_API bzna_status bzna_writer_open(bzna_context *context, const char *path, const bzna_writer_config *config,
                                      bzna_writer **out, bzna_error *err)
{
    BZI_API_BEGIN;
    if (out)
        *out = NULL;
    BZI_API_END(bzi_api_writer(context, path, NULL, config, out, &e));
}

BZNA_API bzna_status bzna_writer_open_sink(bzna_context *context, const bzna_sink *sink,
                                           const bzna_writer_config *config, bzna_writer **out, bzna_error *err)
{
    BZI_API_BEGIN;
    if (out)
        *out = NULL;
    BZI_API_END(bzi_api_writer(context, NULL, sink, config, out, &e));
}

static bzna_status bzi_api_writer_usable(const bzna_writer *writer, bzna_error *err)
{
    if (!writer)
        return BZI_FAIL(err, BZNA_E_ARGUMENT, "the writer is NULL");
    if (writer->poison)
        return BZI_FAIL(err, writer->poison, "the writer failed before: %s", bzi_status_text(writer->poison));
    if (writer->finished)
        return BZI_FAIL(err, BZNA_E_STATE, "the archive is finished");
    return BZNA_OK;
}

BZNA_API bzna_status bzna_writer_add(bzna_writer *writer, const bzna_sample_desc *sample, bzna_error *err)
{
    bzna_sample_desc desc;
    bzna_status status;
    BZI_API_BEGIN;
    if ((status = bzi_api_writer_usable(writer, &e)) != BZNA_OK)
        BZI_API_END(status);
    if (!sample)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "sample is NULL");
    if ((status = bzi_api_in(&desc, sizeof desc, sample, 0, "sample", &e)) != BZNA_OK)
        BZI_API_END(status);
    if (!desc.image)
        BZI_API_FAIL(BZNA_E_ARGUMENT, "sample.image: must be given");
    BZI_API_END(bzi_writer_add(writer, &desc, &e));
}

BZNA_API bzna_status bzna_writer_finish(bzna_writer *writer, bzna_error *err)
{
    bzna_status status;
    BZI_API_BEGIN;
    if ((status = bzi_api_writer_usable(writer, &e)) == BZNA_OK) {
        status = bzi_writer_finish(writer, &e);
        bzi_log_deliver(writer->host);
    }
    BZI_API_END(status);
}

BZNA_API bzna_status bzna_writer_close(bzna_writer *writer)
{
    if (!writer)
        return BZNA_OK;
    if (bzi_os_in_callback)
        return BZNA_E_STATE;
    bzi_writer_close(writer);
    return BZNA_OK;
}
