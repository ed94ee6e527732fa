/* known.h - what tests of archives share: the facts about the original tools' archives, a host that counts, a source in
 * memory. Include after benzina.c and test.h. */
#ifndef BENZINA_TEST_KNOWN_H
#define BENZINA_TEST_KNOWN_H
#include <stdatomic.h>
#ifndef BENZINA_NO_AVCODEC
#include <libavcodec/avcodec.h>
#include <libavutil/md5.h>
#include <libavutil/mem.h>
#endif

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"          /* not every test needs all of it */

/* ---- What the archives hold ---- */

typedef struct fact_image {
    char name[64], codec[64], md5[64];
    long long width, height, frame_width, frame_height, clap[8], at, size;
    int clap_count;
} fact_image;
typedef struct fact_sample {
    long long index, offset, size, target;
    char filename[64];
    int image_count;
    fact_image images[4];
} fact_sample;
typedef struct facts { char file[64], tracks[8][64]; int track_count, count; fact_sample samples[16]; } facts;

static uint8_t *slurp(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *bytes = NULL;
    *size = 0;
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    bytes = calloc(*size + 1, 1);
    *size = fread(bytes, 1, *size, f);
    fclose(f);
    return bytes;
}

static void spill(const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    if (f) {
        fwrite(bytes, 1, size, f);
        fclose(f);
    }
}

/* value: 64 bytes. */
static void fact_string(facts *f, int depth, const char *key, const char *value)
{
    fact_sample *s = f->count ? &f->samples[f->count - 1] : NULL;
    fact_image *m = s && s->image_count ? &s->images[s->image_count - 1] : NULL;
    if (depth == 1 && !strcmp(key, "file"))        memcpy(f->file, value, 64);
    else if (depth == 1)                           memcpy(f->tracks[f->track_count++], value, 64);
    else if (depth == 2 && s)                      memcpy(s->filename, value, 64);
    else if (m && !strcmp(key, "codec"))           memcpy(m->codec, value, 64);
    else if (m && !strcmp(key, "md5_yuv420p_frame")) memcpy(m->md5, value, 64);
}

static void fact_number(facts *f, int depth, const char *key, long long value)
{
    fact_sample *s = &f->samples[f->count - 1];
    fact_image *m = &s->images[s->image_count ? s->image_count - 1 : 0];
    if (depth == 2) {
        if (!strcmp(key, "index"))  s->index = value;
        if (!strcmp(key, "offset")) s->offset = value;
        if (!strcmp(key, "size"))   s->size = value;
        if (!strcmp(key, "target")) s->target = value;
        return;
    }
    if (!strcmp(key, "width"))        m->width = value;
    if (!strcmp(key, "height"))       m->height = value;
    if (!strcmp(key, "frame_width"))  m->frame_width = value;
    if (!strcmp(key, "frame_height")) m->frame_height = value;
    if (!strcmp(key, "payload_offset")) m->at = value;
    if (!strcmp(key, "payload_size")) m->size = value;
    if (!strcmp(key, "clap") && m->clap_count < 8) m->clap[m->clap_count++] = value;
}

/* As much JSON as those files need; null is -1. Returns 0 if it is not what was expected. */
static int facts_read(facts *f, const char *path)
{
    size_t size;
    uint8_t *text = slurp(path, &size);
    char key[64] = "", word[64];
    int depth = 0;
    memset(f, 0, sizeof *f);
    for (const char *p = (const char *)text; p && *p; p++) {
        if (*p == '{') {
            depth++;
            if (depth == 2)
                f->count++;
        } else if (*p == '}') {
            depth--;
        } else if (*p == '"') {
            size_t n = strcspn(p + 1, "\"");
            snprintf(word, sizeof word, "%.*s", (int)n, p + 1);
            p += n + 1;
            if (p[1] != ':') {
                fact_string(f, depth, key, word);
            } else if (depth == 3) {
                fact_sample *s = &f->samples[f->count - 1];
                memcpy(s->images[s->image_count++].name, word, 64);
            } else {
                memcpy(key, word, sizeof key);
            }
        } else if (*p == '-' || (*p >= '0' && *p <= '9')) {
            char *end;
            fact_number(f, depth, key, strtoll(p, &end, 10));
            p = end - 1;
        } else if (*p == 'n') {
            fact_number(f, depth, key, -1);
            p += 3;
        }
    }
    free(text);
    return f->count == 8 && f->track_count == 4 && f->samples[7].image_count == 2 && f->samples[7].images[1].md5[31];
}

static const char *const archives[2] = { "tests/data/mini_h265.bzna", "tests/data/mini_h264.bzna" };
/* Their pictures with edges of 5/16, which are decoded in a tenth of the time. */
__attribute__((unused)) static const char *const small_archives[2] = { "tests/data/small_h265.bzna",
                                                                       "tests/data/small_h264.bzna" };
static facts known[2];

static void facts_load(void)
{
    static const char *const paths[2] = { "tests/data/mini_h265.json", "tests/data/mini_h264.json" };
    for (int a = 0; a < 2; a++)
        if (!facts_read(&known[a], paths[a])) {
            printf("%s: cannot be read; run the tests from the repository's root\n", paths[a]);
            exit(1);
        }
}

/* ---- A host that counts, in several threads at once ---- */

typedef struct counter { _Atomic long long blocks, bytes, calls, wrong_sizes, fail_at, largest; } counter;

static void *counter_alloc(void *user, size_t size, size_t align)
{
    counter *c = user;
    uint8_t *p;
    long long call = ++c->calls, largest = c->largest;
    while ((long long)size > largest && !atomic_compare_exchange_weak(&c->largest, &largest, (long long)size)) { }
    if (c->fail_at && call >= c->fail_at)
        return NULL;
    if (size == 0 || align > 64 || (align & (align - 1)))
        c->wrong_sizes++;
    p = aligned_alloc(64, (size + 64 + 63) / 64 * 64);
    memcpy(p, &size, sizeof size);
    memset(p + 64, 0xdd, size);                             /* nothing may rely on fresh memory being zero */
    c->blocks++;
    c->bytes += (long long)size;
    return p + 64;
}

static void counter_release(void *user, void *ptr, size_t size)
{
    counter *c = user;
    uint8_t *p = (uint8_t *)ptr - 64;
    size_t was;
    memcpy(&was, p, sizeof was);
    if (was != size)
        c->wrong_sizes++;
    c->blocks--;
    c->bytes -= (long long)was;
    aligned_free(p);
}

static bzna_context *context_of(counter *c)
{
    bzna_context_config config;
    bzna_context *context = NULL;
    *c = (counter){ 0 };
    bzna_context_config_init(&config, sizeof config);
    config.allocator.user = c;
    config.allocator.alloc = counter_alloc;
    config.allocator.release = counter_release;
    if (bzna_context_open(&config, &context, NULL) != BZNA_OK)
        exit(1);
    return context;
}

#define CHECK_ALL_FREED(c) do { CHECK_EQ((c).blocks, 0); CHECK_EQ((c).bytes, 0); CHECK_EQ((c).wrong_sizes, 0); \
    } while (0)

typedef struct memory_source {
    const uint8_t *data;
    uint64_t       size, read_max;    /* read_max: bytes a call, 0: all */
    long long      reads, closes, bad_at;     /* bad_at: which read misbehaves, 0: none */
    int64_t        bad_result;        /* what it returns; INT64_MAX: one more than asked */
} memory_source;

static int64_t memory_read_at(void *user, uint64_t offset, void *dst, uint64_t size)
{
    memory_source *m = user;
    m->reads++;
    if (m->bad_at && m->reads == m->bad_at)
        return m->bad_result == INT64_MAX ? (int64_t)size + 1 : m->bad_result;
    if (offset >= m->size)
        return 0;
    if (size > m->size - offset)
        size = m->size - offset;
    if (m->read_max && size > m->read_max)
        size = 1 + (uint64_t)m->reads % m->read_max;
    memcpy(dst, m->data + offset, size);
    return (int64_t)size;
}

static int64_t memory_size(void *user) { return (int64_t)((memory_source *)user)->size; }
static void memory_close(void *user) { ((memory_source *)user)->closes++; }

static bzna_source source_of(memory_source *m, const uint8_t *data, size_t size)
{
    bzna_source s = { sizeof(bzna_source), 0, m, memory_read_at, memory_size, memory_close, NULL };
    memset(m, 0, sizeof *m);
    m->data = data;
    m->size = size;
    return s;
}

static bzna_error fresh_error(void)
{
    bzna_error err;
    memset(&err, 0, sizeof err);
    err.struct_size = sizeof err;
    return err;
}

static uint64_t be_get(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v = v << 8 | p[i];
    return v;
}

static inline uint64_t le64_get(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 8; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

static void be_put(uint8_t *p, uint64_t v, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--, v >>= 8)
        p[i] = (uint8_t)v;
}

/* Offset of the box at a path like "moov/trak.2/mdia" below [begin, end), 0 if there is none (no box that is looked for
 * is first). parents, if given, collects the offsets on the way. */
static size_t box_chain(const uint8_t *d, size_t begin, size_t end, const char *path, size_t *parents, int *depth)
{
    char name[8];
    size_t n = strcspn(path, "/");
    int nth = path[4] == '.' ? atoi(path + 5) : 0;
    snprintf(name, sizeof name, "%.4s", path);
    for (size_t at = begin; at + 8 <= end;) {
        uint64_t size = be_get(d + at, 4), header = 8;
        if (size == 1) {
            size = be_get(d + at + 8, 8);
            header = 16;
        }
        if (size < 8 || size > end - at)
            return 0;
        if (!memcmp(d + at + 4, name, 4) && nth-- == 0) {
            size_t skip = !memcmp(name, "stsd", 4) ? 8 : !memcmp(name, "hvc1", 4) || !memcmp(name, "avc1", 4) ? 78 : 0;
            if (parents)
                parents[(*depth)++] = at;
            return path[n] ? box_chain(d, at + header + skip, at + size, path + n + 1, parents, depth) : at;
        }
        at += size;
    }
    return 0;
}

static size_t box_at(const uint8_t *d, size_t begin, size_t end, const char *path)
{
    return box_chain(d, begin, end, path, NULL, NULL);
}

#ifndef BENZINA_NO_AVCODEC
/* What a decoder of this name makes of an access unit; NULL: nothing, or there is no such decoder. */
static AVFrame *decode_by(const char *decoder, const uint8_t *data, int size)
{
    const AVCodec *codec = avcodec_find_decoder_by_name(decoder);
    AVCodecContext *c = codec ? avcodec_alloc_context3(codec) : NULL;
    AVPacket *packet = av_packet_alloc();
    AVFrame *f = av_frame_alloc();
    int got = -1;
    if (c && av_new_packet(packet, size) >= 0) {
        memcpy(packet->data, data, (size_t)size);
        c->thread_count = 1;
        c->log_level_offset = 64;
        if (avcodec_open2(c, codec, NULL) >= 0 && avcodec_send_packet(c, packet) >= 0 &&
            avcodec_send_packet(c, NULL) >= 0)
            got = avcodec_receive_frame(c, f);
    }
    avcodec_free_context(&c);
    av_packet_free(&packet);
    if (got < 0)
        av_frame_free(&f);
    return f;
}

/* MD5 of the frame's planes without padding between rows. */
static void picture_md5(const bzna_picture *p, char text[33])
{
    struct AVMD5 *md5 = av_md5_alloc();
    uint8_t sum[16];
    av_md5_init(md5);
    for (int i = 0; i < 3; i++) {
        uint32_t sx = i ? p->chroma_shift_x : 0, sy = i ? p->chroma_shift_y : 0;
        for (uint32_t y = 0; y < (p->frame_height + sy) >> sy; y++)
            av_md5_update(md5, (const uint8_t *)p->plane[i] + (int64_t)y * p->pitch[i], (p->frame_width + sx) >> sx);
    }
    av_md5_final(md5, sum);
    av_free(md5);
    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * i, 3, "%02x", sum[i]);
}
#endif

#pragma GCC diagnostic pop
#endif
