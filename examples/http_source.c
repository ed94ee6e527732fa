/* http_source.c - an epoch from an archive on a web server or in an object store, by HTTP range requests with libcurl
 *
 *     cc http_source.c benzina.o $(pkg-config --libs libcurl libavcodec libavutil libjpeg) -lm -lpthread -ldl -o http
 *     ./http https://host/train.bzna [READERS]
 *     ./http train.bzna                       a file, to compare: the same pictures give the same hash
 *
 * To use this in a program, copy everything above "The program". One easy handle, with one kept connection, serves one
 * read at a time; a pool of them grows to as many as there are concurrent reads. A connection that is cut in the middle
 * of an answer is a short read. */
#define _POSIX_C_SOURCE 200809L
#include "example.h"

#include <curl/curl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#ifndef HTTP_STALL_TIMEOUT_S
#  define HTTP_STALL_TIMEOUT_S 10
#endif

enum {
    POOL_MAX = 256,
    ATTEMPTS_MAX = 6,
    CONNECT_TIMEOUT_MS = 5000,
    STALL_BYTES_S = 1000,             /* slower than this for STALL_TIMEOUT_S is a stall */
    STALL_TIMEOUT_S = HTTP_STALL_TIMEOUT_S,
    BACKOFF_MS = 50,
    ERROR_PAGE_MAX = 65536,
    VERSION_MAX = 200
};

/* What was done so far. */
typedef struct http_counts {
    uint64_t requests, bytes, connections, retries;
} http_counts;

typedef struct http {
    char           *url;
    uint64_t        size;             /* of the file; 0: not asked yet */
    char            version[VERSION_MAX];     /* its ETag or time of modification, which must stay; "": there is none */
    uint32_t        attempts;         /* for each read, 1..ATTEMPTS_MAX: those after the first are retries */
    uint32_t        pooled;
    pthread_mutex_t mutex;            /* of pool, pooled and counts */
    CURL           *pool[POOL_MAX];   /* the idle handles */
    http_counts     counts;
} http;

/* One request, and what comes back. */
typedef struct http_exchange {
    CURL     *curl;
    uint8_t  *dst;
    uint64_t  offset, wanted, got, ignored;
    uint64_t  first, size;            /* of the answer's Content-Range: bytes FIRST-last/SIZE */
    int       has_range;
    char      version[VERSION_MAX];
    int       has_etag;               /* version is an ETag */
} http_exchange;

/* --- One request --- */

/* Results are bytes, or minus an HTTP status (100..599) or a CURLcode (below 100): this is what a bzna_error has in
 * native_code. */
enum { HTTP_CHANGED = -99 };          /* the file is another one than it was; curl has no such code */

static const char *http_explain(int64_t result, char *text, size_t size)
{
    if (result == HTTP_CHANGED) return "the file has changed since it was opened";
    if (result > -100) return curl_easy_strerror((CURLcode)-result);
    snprintf(text, size, "HTTP status %d%s", (int)-result, result == -200 ? ": the server does not serve ranges" : "");
    return text;
}

/* Copies a header's value without the blanks around it. Returns 0 if the line is another header, or its value too
 * long. */
static int http_header(const char *line, size_t length, const char *name, char *value, size_t size)
{
    const size_t skip = strlen(name);
    if (length < skip || strncasecmp(line, name, skip)) return 0;
    for (line += skip, length -= skip; length && (*line == ' ' || *line == '\t'); line++) length--;
    while (length && (line[length - 1] == '\r' || line[length - 1] == '\n' || line[length - 1] == ' ')) length--;
    if (length >= size) return 0;
    memcpy(value, line, length);
    value[length] = 0;
    return 1;
}

static size_t http_on_header(char *line, size_t one, size_t length, void *user)
{
    http_exchange *x = user;
    char value[VERSION_MAX];
    (void)one;
    /* a redirect's headers are not those of its target */
    if (length > 5 && !memcmp(line, "HTTP/", 5)) x->has_range = x->has_etag = x->version[0] = 0;
    if (http_header(line, length, "content-range:", value, sizeof value))
        x->has_range = sscanf(value, "bytes %" SCNu64 "-%*u/%" SCNu64, &x->first, &x->size) == 2;
    if (http_header(line, length, "etag:", value, sizeof value)) x->has_etag = 1, strcpy(x->version, value);
    if (!x->has_etag && http_header(line, length, "last-modified:", value, sizeof value)) strcpy(x->version, value);
    return length;
}

/* Takes what was asked for and nothing else. A short error page is read past, so that its connection can be kept. */
static size_t http_on_bytes(char *bytes, size_t one, size_t length, void *user)
{
    http_exchange *x = user;
    long status = 0;
    (void)one;
    curl_easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 400) return (x->ignored += length) <= ERROR_PAGE_MAX ? length : 0;
    if (status != 206 || !x->has_range || x->first != x->offset) return 0;
    const size_t taken = length < x->wanted - x->got ? length : (size_t)(x->wanted - x->got);
    memcpy(x->dst + x->got, bytes, taken);
    x->got += taken;
    return taken;                     /* less than length ends a body that is too long */
}

static int64_t http_result(const http *h, const http_exchange *x, CURLcode code)
{
    long status = 0;
    curl_easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 100 && status != 206) return -status;
    if (status == 206 && (!x->has_range || x->first != x->offset)) return -CURLE_RANGE_ERROR;
    if (status == 206 && h->size && (x->size != h->size || strcmp(x->version, h->version))) return HTTP_CHANGED;
    /* what comes too slowly is no answer, or a file would take hours */
    if (code == CURLE_OPERATION_TIMEDOUT) return -(int64_t)code;
    if (x->got) return (int64_t)x->got; /* a cut answer is a short read, and is asked for again from there */
    return code ? -(int64_t)code : -CURLE_GOT_NOTHING;
}

static CURL *http_connect(const http *h)
{
    CURL *curl = curl_easy_init();
    if (!curl) return NULL;
    curl_easy_setopt(curl, CURLOPT_URL, h->url);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);                /* reads run on the loader's threads */
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 5L);
    curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, (long)STALL_BYTES_S);    /* a large read may take its time */
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)STALL_TIMEOUT_S);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, http_on_header);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, http_on_bytes);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#endif
    return curl;
}

static CURL *http_take(http *h)
{
    pthread_mutex_lock(&h->mutex);
    CURL *curl = h->pooled ? h->pool[--h->pooled] : NULL;
    pthread_mutex_unlock(&h->mutex);
    return curl ? curl : http_connect(h);
}

static void http_give_back(http *h, const http_exchange *x, int retry)
{
    long connections = 0;
    curl_easy_getinfo(x->curl, CURLINFO_NUM_CONNECTS, &connections);
    pthread_mutex_lock(&h->mutex);
    h->counts.requests++;
    h->counts.bytes += x->got;
    h->counts.connections += (uint64_t)connections;
    h->counts.retries += (uint64_t)retry;
    int keep = h->pooled < POOL_MAX;
    if (keep) h->pool[h->pooled++] = x->curl;
    pthread_mutex_unlock(&h->mutex);
    if (!keep) curl_easy_cleanup(x->curl);
}

/* Whether a server has closed the connection of a request before, as it may at any time: no fault, and no retry. */
static int http_was_closed(const http_exchange *x, CURLcode code)
{
    long connections = 0;
    curl_easy_getinfo(x->curl, CURLINFO_NUM_CONNECTS, &connections);
    return !connections && !x->got &&
           (code == CURLE_GOT_NOTHING || code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR);
}

/* One attempt at size bytes from offset. *file_size, unless NULL, is set to the file's. */
static int64_t http_get(http *h, uint64_t offset, void *dst, uint64_t size, int retry, uint64_t *file_size)
{
    http_exchange x = { .curl = http_take(h), .dst = dst, .offset = offset, .wanted = size };
    char range[64];
    if (!x.curl) return -CURLE_OUT_OF_MEMORY;
    snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, offset, offset + size - 1);
    curl_easy_setopt(x.curl, CURLOPT_RANGE, range);
    curl_easy_setopt(x.curl, CURLOPT_HEADERDATA, &x);
    curl_easy_setopt(x.curl, CURLOPT_WRITEDATA, &x);
    CURLcode code = curl_easy_perform(x.curl);
    if (http_was_closed(&x, code)) {
        curl_easy_setopt(x.curl, CURLOPT_FRESH_CONNECT, 1L);
        code = curl_easy_perform(x.curl);
        curl_easy_setopt(x.curl, CURLOPT_FRESH_CONNECT, 0L);
    }
    int64_t result = http_result(h, &x, code);
    if (result > 0 && file_size) {
        *file_size = x.size;
        strcpy(h->version, x.version);
    }
    http_give_back(h, &x, retry);
    return result;
}

/* --- Retries --- */

/* Whether the same request may go better a little later. */
static int http_is_transient(int64_t result)
{
    switch (-result) {
    case CURLE_COULDNT_RESOLVE_HOST: case CURLE_COULDNT_CONNECT: case CURLE_OPERATION_TIMEDOUT: case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING: case CURLE_SEND_ERROR: case CURLE_RECV_ERROR: case CURLE_HTTP2: case CURLE_HTTP2_STREAM:
    case 408: case 429: case 500: case 502: case 503: case 504: return 1;
    default: return 0;
    }
}

static int64_t http_get_patiently(http *h, uint64_t offset, void *dst, uint64_t size, uint64_t *file_size)
{
    int64_t result = http_get(h, offset, dst, size, 0, file_size);
    for (uint32_t attempt = 1; attempt < h->attempts && http_is_transient(result); attempt++) {
        long ms = BACKOFF_MS << (attempt - 1);                   /* doubled each time */
        struct timespec pause = { ms / 1000, ms % 1000 * 1000000 };
        nanosleep(&pause, NULL);
        result = http_get(h, offset, dst, size, 1, file_size);
    }
    return result;
}

/* --- The source --- */

/* Asks for one byte instead of for the head: that also proves that the server serves ranges, and a link signed for GET
 * will do. */
static int64_t http_size(void *user)
{
    http *h = user;
    uint64_t size = 0;
    uint8_t byte;
    int64_t result = http_get_patiently(h, 0, &byte, 1, &size);
    if (result < 0) return result;
    h->size = size;
    return (int64_t)size;
}

static int64_t http_read_at(void *user, uint64_t offset, void *dst, uint64_t size)
{
    http *h = user;
    if (offset >= h->size) return 0;
    return http_get_patiently(h, offset, dst, size < h->size - offset ? size : h->size - offset, NULL);
}

static void http_close(void *user)
{
    http *h = user;
    for (uint32_t i = 0; i < h->pooled; i++) curl_easy_cleanup(h->pool[i]);
    pthread_mutex_destroy(&h->mutex);
    free(h->url);
    free(h);
}

/* NULL: no memory. */
static http *http_open(const char *url)
{
    http *h = calloc(1, sizeof *h);
    if (!h || !(h->url = strdup(url)) || pthread_mutex_init(&h->mutex, NULL)) {
        if (h) free(h->url);
        free(h);
        return NULL;
    }
    h->attempts = ATTEMPTS_MAX;
    return h;
}

static http_counts http_counted(http *h)
{
    pthread_mutex_lock(&h->mutex);
    http_counts counts = h->counts;
    pthread_mutex_unlock(&h->mutex);
    return counts;
}

/* --- The program --- */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* FNV-1a, 64 bits. */
static uint64_t hash(uint64_t h, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) h = (h ^ bytes[i]) * 0x100000001B3u;
    return h;
}

static int is_url(const char *name) { return !strncmp(name, "http://", 7) || !strncmp(name, "https://", 8); }

/* Opens a URL or a path. *h is the source of a URL, for its counts; the data set owns it. */
static bzna_status open_archive(bzna_context *context, const char *name, bzna_dataset **dataset, http **h,
                                bzna_error *err)
{
    if (!is_url(name)) return bzna_dataset_open(context, name, NULL, dataset, err);

    bzna_dataset_config config;
    bzna_dataset_config_init(&config, sizeof config);
    config.name = name;
    if (!(*h = http_open(name))) return BZNA_E_MEMORY;
    bzna_source source;
    bzna_source_init(&source, sizeof source);
    source.user    = *h;
    source.read_at = http_read_at;
    source.size    = http_size;
    source.close   = http_close;
    bzna_status status = bzna_dataset_open_source(context, &source, &config, dataset, err);
    if (status < 0) {
        http_close(*h);                                          /* still ours */
        *h = NULL;
    } else {
        (*h)->attempts = 1; /* the loader retries by itself, and counts it: read.retries below */
    }
    return status;
}

/* Latency is hidden by many reads at once: with 50 ms for an answer, 8 readers fetch 160 pictures a second at most, 32
 * readers 640. */
static bzna_status open_loader(bzna_context *context, bzna_dataset *dataset, uint32_t readers, bzna_loader **loader,
                               bzna_error *err)
{
    bzna_loader_config config;
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size  = 16;
    config.output.width       = 128;
    config.output.height      = 128;
    config.order.kind         = BZNA_ORDER_SHUFFLE;
    config.order.seed         = 1234;
    config.warp.kind          = BZNA_WARP_RANDOM_RESIZED_CROP;
    config.read.threads       = readers;
    config.read.ahead_samples = 4 * readers;
    config.read.retries       = ATTEMPTS_MAX - 1;
    config.read.backoff_ns    = BACKOFF_MS * UINT64_C(1000000);
    return bzna_loader_open(context, dataset, &config, loader, err);
}

/* Adds to a message what libcurl or the server said, which native_code has. */
static void explain(bzna_error *err)
{
    char text[80];
    const size_t end = strlen(err->message);
    if (err->native_code < 0)
        snprintf(err->message + end, sizeof err->message - end, " (%s)",
                 http_explain(err->native_code, text, sizeof text));
}

static void check_http(bzna_status status, bzna_error *err)
{
    if (status < 0) explain(err);
    check(status, err);
}

/* Returns how many samples failed. */
static uint64_t run_epoch(bzna_loader *loader, http *h, bzna_error *err)
{
    uint64_t digest = 0xCBF29CE484222325u, samples = 0, failed = 0;
    double start = now_s();
    bzna_batch *batch;
    bzna_status status;
    while ((status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, err)) == BZNA_OK) {
        bzna_batch_info info;
        check(bzna_batch_get_info(batch, &info, sizeof info, err), err);
        digest = hash(digest, info.image.data, (size_t)info.image.bytes);
        digest = hash(digest, info.targets, info.count * sizeof *info.targets);
        samples += info.count;
        for (uint32_t slot = 0; info.failed && slot < info.count; slot++)
            if (bzna_batch_error(batch, slot, err) < 0) explain(err), fprintf(stderr, "%s\n", err->message);
        failed += info.failed;
        bzna_batch_release(batch);
    }
    check_http(status, err);

    double took_s = now_s() - start;
    bzna_statistics stats;
    check(bzna_loader_statistics(loader, &stats, sizeof stats, err), err);
    printf("hash %016" PRIx64 "\n%" PRIu64 " pictures, %.1f a second, %" PRIu64 " failed\n", digest, samples,
           (double)samples / took_s, failed);
    if (!h) return failed;
    http_counts counts = http_counted(h);
    printf("%" PRIu64 " requests, %" PRIu64 " bytes, %" PRIu64 " connections, %" PRIu64
           " retries while opening, %" PRIu64 " retries by the loader\n",
           counts.requests, counts.bytes, counts.connections, counts.retries, stats.retries);
    return failed;
}

int main(int argc, char **argv)
{
    bzna_error    err;
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader  *loader  = NULL;
    http         *h       = NULL;
    unsigned long readers = argc > 2 ? strtoul(argv[2], NULL, 10) : 8;
    if (argc < 2 || argc > 3 || readers < 1 || readers > 256) {
        fprintf(stderr, "usage: %s URL|PATH [READERS]\n", argv[0]);
        return 2;
    }

    bzna_error_init(&err, sizeof err);
    signal(SIGPIPE, SIG_IGN); /* a server may hang up; threads of the library block all signals anyway */
    if (curl_global_init(CURL_GLOBAL_DEFAULT)) { fprintf(stderr, "libcurl does not start\n"); return 1; }

    check(bzna_context_open(NULL, &context, &err), &err);
    check_http(open_archive(context, argv[1], &dataset, &h, &err), &err);
    check_http(open_loader(context, dataset, (uint32_t)readers, &loader, &err), &err);
    const uint64_t failed = run_epoch(loader, h, &err);

    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    curl_global_cleanup();
    return failed > 0;
}
