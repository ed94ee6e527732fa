/* Memory, errors, context, log, sources, callbacks. */
#include "library.h"
#include "test.h"
#include "known.h"

#include <limits.h>

#define PATTERN 0xa5

/* ---- Status ---- */

TEST(each_status_has_its_number_name_and_text)
{
    CHECK_EQ(BZNA_OK, 0);
    CHECK_EQ(BZNA_END, 1);
    CHECK_EQ(BZNA_AGAIN, 2);
    CHECK_EQ(BZNA_E_ARGUMENT, -101);
    CHECK_EQ(BZNA_E_MEMORY, -201);
    CHECK_EQ(BZNA_E_FORMAT, -301);
    CHECK_EQ(BZNA_E_UNFINISHED, -306);
    CHECK_EQ(BZNA_E_MISMATCH, -403);
    CHECK_EQ(BZNA_E_DEVICE, -501);
    CHECK_STR(bzna_status_name(BZNA_E_BOX), "BZNA_E_BOX");
    CHECK_STR(bzna_status_text(BZNA_E_BOX), "a box contradicts the format");
    CHECK_STR(bzna_status_name(-1), "BZNA_?");
    CHECK_STR(bzna_status_name(INT32_MIN), "BZNA_?");
    CHECK(bzna_status_text(12345) && bzna_status_text(12345)[0]);
    CHECK_EQ(bzna_version(), BZNA_VERSION);
}

/* ---- Errors ---- */

/* How much of an error fits a struct_size: all of it but for the message's end, or nothing. */
static size_t room_for_error(uint32_t given)
{
    if (given == 0 || given >= sizeof(bzna_error))
        return sizeof(bzna_error);
    return given > offsetof(bzna_error, message) ? given : 0;
}

/* A struct_size that nobody has set is garbage: the library writes no more than its own struct. 0 stands for that. */
TEST(an_error_struct_is_never_written_beyond_its_size_or_the_librarys)
{
    static const uint32_t garbage[] = { 400, 1000000, 0x7fffffff, 0xdeadbeef, 0xffffffff };
    bzna_context *context = NULL;
    REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
    for (uint32_t n = 0; n <= 320 + sizeof garbage / sizeof garbage[0]; n++) {
        static _Alignas(16) uint8_t bytes[512];
        const uint32_t given = n <= 320 ? n : garbage[n - 321];
        const size_t room = room_for_error(given);
        bzna_dataset *dataset = NULL;
        bzna_error *err = (bzna_error *)(void *)bytes;
        uint32_t size;
        memset(bytes, PATTERN, sizeof bytes);
        memcpy(bytes, &given, 4);
        CHECK_EQ(bzna_dataset_open(context, "tests/data/nowhere.bzna", NULL, &dataset, err), BZNA_E_NOT_FOUND);
        for (size_t i = room < 4 ? 4 : room; i < sizeof bytes; i++)
            if (bytes[i] != PATTERN) {
                printf("  struct_size %u: byte %zu was written\n", given, i);
                test_failures++;
                break;
            }
        memcpy(&size, bytes, 4);
        CHECK_EQ(size, room ? room : given);
        if (room) {
            const size_t text = room - offsetof(bzna_error, message);
            CHECK_EQ(err->status, BZNA_E_NOT_FOUND);
            CHECK(err->byte_offset == BZNA_NO_OFFSET);
            CHECK_EQ(err->native_code, ENOENT);
            CHECK(memchr(err->message, 0, text) != NULL);
            CHECK(!strncmp(err->message, "tests/data/nowhere.bzna: cannot open", text - 1 < 36 ? text - 1 : 36));
        }
    }
    bzna_context_close(context);
}

TEST(an_error_of_zeros_says_what_went_wrong)
{
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_error err = { 0 };
    REQUIRE(bzna_context_open(NULL, &context, NULL) == BZNA_OK);
    CHECK_EQ(bzna_dataset_open(context, "tests/data/nowhere.bzna", NULL, &dataset, &err), BZNA_E_NOT_FOUND);
    CHECK_CONTAINS(err.message, "nowhere.bzna: cannot open");
    CHECK_EQ(err.struct_size, sizeof err);
    memset(&err, PATTERN, sizeof err);
    bzna_error_init(&err, 0);
    CHECK(err.struct_size == sizeof err && err.status == BZNA_OK && err.message[0] == 0);
    bzna_context_close(context);
}

TEST(a_message_longer_than_the_callers_room_ends_in_nul_there)
{
    for (uint32_t given = offsetof(bzna_error, message) + 1; given <= sizeof(bzna_error); given++) {
        bzna_error whole, err;
        bzi_error_init(&whole);
        memset(whole.message, 'm', sizeof whole.message - 1);
        memset(&err, PATTERN, sizeof err);
        err.struct_size = given;
        bzi_api_error(&err, &whole, BZNA_E_BOX);
        CHECK_EQ(strnlen(err.message, sizeof err.message), given - offsetof(bzna_error, message) - 1);
    }
}

TEST(an_error_is_written_on_failure_only)
{
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_error err, before;
    memset(&err, PATTERN, sizeof err);
    err.struct_size = sizeof err;
    before = err;
    CHECK_EQ(bzna_context_open(NULL, &context, &err), BZNA_OK);
    CHECK_EQ(bzna_dataset_open(context, "tests/data/mini_h264.bzna", NULL, &dataset, &err), BZNA_OK);
    CHECK(!memcmp(&err, &before, sizeof err));
    bzna_dataset_close(dataset);
    /* err may be NULL */
    CHECK_EQ(bzna_dataset_open(context, "tests/data/nowhere", NULL, &dataset, NULL), BZNA_E_NOT_FOUND);
    CHECK(dataset == NULL);
    bzna_context_close(context);
}

TEST(a_long_name_is_shortened_at_its_front_and_the_message_stays)
{
    enum { FITS = sizeof ((bzna_error *)0)->message - sizeof "...: the reason" };
    char name[600];
    bzna_error err;
    memset(name, 'a', sizeof name);
    memcpy(name + sizeof name - 12, "/train.bzna", 12);
    BZI_FAIL(&err, BZNA_E_BOX, "the reason");
    bzi_error_prefix(&err, name);
    CHECK_EQ(err.status, BZNA_E_BOX);
    CHECK(!strncmp(err.message, "...aaaa", 7));
    CHECK_CONTAINS(err.message, "/train.bzna: the reason");
    CHECK_EQ(strlen(err.message), sizeof err.message - 1);  /* no more of it than need be */

    BZI_FAIL(&err, BZNA_E_BOX, "the reason");               /* one that fits is there as it is */
    bzi_error_prefix(&err, name + sizeof name - 1 - FITS);
    CHECK(!strncmp(err.message, "aaaa", 4));
    CHECK_EQ(strlen(err.message), FITS + strlen(": the reason"));
    CHECK_CONTAINS(err.message, "/train.bzna: the reason");
    memset(name, 'b', sizeof name - 1);
    BZI_FAIL(&err, BZNA_E_BOX, "%s", name);                 /* a message too long is cut, not written beyond */
    CHECK_EQ(strlen(err.message), sizeof err.message - 1);
    bzi_error_prefix(&err, name);
    CHECK(strlen(err.message) < sizeof err.message);
    CHECK_CONTAINS(err.message, ": bbbb");
}

/* benzina.h: messages are UTF-8; a path may be long and not ASCII. */
TEST(a_shortened_message_is_still_utf_8)
{
    for (size_t pad = 0; pad < 4; pad++) {
        char name[400];
        bzna_error err;
        size_t n = 0;
        for (; n < 390; n += 3)
            memcpy(name + n, "\xe2\x82\xac", 3);            /* the euro sign */
        memset(name + n, 'x', pad);
        name[n + pad] = 0;
        BZI_FAIL(&err, BZNA_E_BOX, "the reason");
        bzi_error_prefix(&err, name);
        for (const unsigned char *p = (const unsigned char *)err.message; *p;) {
            int more = *p < 0x80               ? 0 :
                       *p >= 0xc2 && *p < 0xe0 ? 1 :
                       *p >= 0xe0 && *p < 0xf0 ? 2 :
                       *p >= 0xf0 && *p < 0xf5 ? 3 :
                                                 -1;
            if (more < 0) {
                printf("  %zu bytes of padding: no UTF-8 at byte %d\n", pad,
                       (int)(p - (const unsigned char *)err.message));
                test_failures++;
                return;
            }
            for (p++; more; more--, p++)
                REQUIRE((*p & 0xc0) == 0x80);
        }
    }
}

TEST(native_codes_beyond_32_bits_become_minus_one)
{
    bzna_error err;
    bzi_fail(&err, BZNA_E_IO, 5, 0, (int64_t)INT32_MAX, "x");
    CHECK_EQ(err.native_code, INT32_MAX);
    bzi_fail(&err, BZNA_E_IO, 5, 0, (int64_t)INT32_MAX + 1, "x");
    CHECK_EQ(err.native_code, -1);
    bzi_fail(&err, BZNA_E_IO, 5, 0, INT64_MIN, "x");
    CHECK_EQ(err.native_code, -1);
    CHECK_EQ(err.byte_offset, 5);
}

/* benzina.h: native_code is errno. So a read that the system refuses has EBADF, not its negative. */
TEST(a_failed_read_of_a_file_has_errno_as_its_native_code)
{
    bzi_source source;
    bzna_error err;
    uint8_t byte;
    memset(&source, 0, sizeof source);
    source.is_file = 1;
    source.file.fd = INT_MAX;
    source.size = 100;
    CHECK_EQ(bzi_source_read(&source, 7, &byte, 1, &err), BZNA_E_IO);
    CHECK_EQ(err.byte_offset, 7);
    CHECK_CONTAINS(err.message, strerror(EBADF));
    CHECK_EQ(err.native_code, EBADF);
}

/* ---- Memory ---- */

TEST(sizes_that_overflow_are_refused_before_the_allocator_is_asked)
{
    counter c;
    bzi_memory memory = { &c, counter_alloc, counter_release };
    bzi_buffer buffer = { NULL, 0 };
    memset(&c, 0, sizeof c);
    CHECK(bzi_alloc(&memory, UINT64_MAX, 2, 16) == NULL);
    CHECK(bzi_alloc(&memory, (uint64_t)1 << 62, 16, 16) == NULL);
    CHECK(bzi_alloc(&memory, (uint64_t)PTRDIFF_MAX + 1, 1, 16) == NULL);
    CHECK(bzi_alloc_zero(&memory, UINT64_MAX / 2, 3) == NULL);
    CHECK(!bzi_buffer_reserve(&memory, &buffer, UINT64_MAX, 0));
    CHECK(!bzi_buffer_reserve(&memory, &buffer, (uint64_t)1 << 63, 1));
    CHECK(buffer.data == NULL && buffer.capacity == 0);
    CHECK_EQ(c.calls, 0);
}

TEST(a_buffer_grows_keeps_and_gives_back)
{
    counter c;
    bzi_memory memory = { &c, counter_alloc, counter_release };
    bzi_buffer buffer = { NULL, 0 };
    memset(&c, 0, sizeof c);
    CHECK(bzi_buffer_reserve(&memory, &buffer, 10, 0) && buffer.capacity >= 10);
    CHECK((uintptr_t)buffer.data % 64 == 0);
    memset(buffer.data, 7, 10);
    CHECK(bzi_buffer_reserve(&memory, &buffer, 5, 0));
    CHECK_EQ(c.calls, 1);
    CHECK(bzi_buffer_reserve(&memory, &buffer, 100000, 1) && buffer.capacity >= 100000);
    for (int i = 0; i < 10; i++)
        CHECK(buffer.data[i] == 7);
    bzi_buffer_free(&memory, &buffer);
    CHECK(buffer.data == NULL && c.blocks == 0 && c.bytes == 0 && c.wrong_sizes == 0);
    bzi_buffer_free(&memory, &buffer);                      /* twice is nothing */
    CHECK_EQ(c.blocks, 0);
}

/* ---- Context ---- */

TEST(a_context_takes_its_own_memory_from_the_allocator)
{
    counter c;
    bzna_context_config config;
    bzna_context *context = NULL;
    memset(&c, 0, sizeof c);
    bzna_context_config_init(&config, sizeof config);
    config.allocator.user = &c;
    config.allocator.alloc = counter_alloc;
    config.allocator.release = counter_release;
    CHECK_EQ(bzna_context_open(&config, &context, NULL), BZNA_OK);
    CHECK_EQ(c.blocks, 2);                                  /* the context and its host */
    CHECK_EQ(bzna_context_close(context), BZNA_OK);
    CHECK(c.blocks == 0 && c.bytes == 0 && c.wrong_sizes == 0);
}

#ifdef BENZINA_NO_CUDA
#  define NO_SUCH_DEVICE BZNA_E_UNSUPPORTED
#else
#  define NO_SUCH_DEVICE BZNA_E_DEVICE
#endif

/* Every init writes struct_size as it is told, and zeros: no more of them than it is told, and than the struct has. */
#define CHECK_INIT(type, init) do { \
        static const size_t told[] = { 3, 4, sizeof(type) - 4, sizeof(type), sizeof(type) + 8, 1000000, 0xdeadbeef }; \
        for (size_t k = 0; k < sizeof told / sizeof told[0]; k++) { \
            union { type one; uint8_t bytes[sizeof(type) + 64]; } room; \
            const size_t written = told[k] < 4 ? 0 : told[k] < sizeof(type) ? told[k] : sizeof(type); \
            uint32_t size; \
            memset(&room, 0xaa, sizeof room); \
            init(&room.one, told[k]); \
            memcpy(&size, &room, sizeof size); \
            CHECK_EQ(size, told[k] < 4 ? 0xaaaaaaaau : told[k]); \
            for (size_t i = sizeof size; i < sizeof room; i++) \
                CHECK(room.bytes[i] == (i < written ? 0 : 0xaa)); \
        } \
        init(NULL, sizeof(type)); \
    } while (0)

/* Those that are not all zeros, and those without a struct_size: nothing is written past the struct. */
#define CHECK_INIT_ENDS(type, init) do { \
        static const size_t told[] = { sizeof(type), sizeof(type) + 8, 1000000, 0xdeadbeef, SIZE_MAX }; \
        for (size_t k = 0; k < sizeof told / sizeof told[0]; k++) { \
            union { type one; uint8_t bytes[sizeof(type) + 64]; } room; \
            memset(&room, 0xaa, sizeof room); \
            init(&room.one, told[k]); \
            for (size_t i = sizeof(type); i < sizeof room; i++) \
                CHECK(room.bytes[i] == 0xaa); \
        } \
        init(NULL, sizeof(type)); \
    } while (0)

TEST(no_initializer_writes_past_its_struct)
{
    CHECK_INIT_ENDS(bzna_error, bzna_error_init);
    CHECK_INIT_ENDS(bzna_transform, bzna_transform_init);
}

TEST(structs_to_fill_in_are_prepared_as_zeros)
{
    CHECK_INIT(bzna_source, bzna_source_init);
    CHECK_INIT(bzna_context_config, bzna_context_config_init);
    CHECK_INIT(bzna_image, bzna_image_init);
    CHECK_INIT(bzna_dataset_config, bzna_dataset_config_init);
    CHECK_INIT(bzna_loader_config, bzna_loader_config_init);
    CHECK_INIT(bzna_writer_config, bzna_writer_config_init);
    CHECK_INIT(bzna_field_value, bzna_field_value_init);
    CHECK_INIT(bzna_writer_sample, bzna_writer_sample_init);
}

TEST(an_error_is_prepared_as_none)
{
    bzna_error err;
    memset(&err, 0xaa, sizeof err);
    bzna_error_init(&err, sizeof err);
    CHECK(err.struct_size == sizeof err && err.status == BZNA_OK && err.byte_offset == BZNA_NO_OFFSET);
    CHECK_STR(err.message, "");
    bzna_error_init(NULL, sizeof err);
}

#if !defined(BENZINA_NO_AVCODEC)

typedef struct told {
    bzna_dataset *dataset;
    bzna_loader  *loader;
    bzna_batch   *batch;
    bzna_statistics stats;
} told;

/* Every call that fills in a struct of the caller's, of a size that is an argument. */
#define TOLD(X) \
    X(bzna_dataset_info,  bzna_dataset_get_info(t->dataset, to, size, NULL)) \
    X(bzna_field_info,    bzna_dataset_field_info(t->dataset, 0, to, size, NULL)) \
    X(bzna_track_info,    bzna_dataset_track_info(t->dataset, 0, to, size, NULL)) \
    X(bzna_sample_ref,        bzna_dataset_sample(t->dataset, 1, to, size, NULL)) \
    X(bzna_image_info,    bzna_dataset_image_info(t->dataset, 1, NULL, to, size, NULL)) \
    X(bzna_loader_info,   bzna_loader_get_info(t->loader, to, size, NULL)) \
    X(bzna_statistics,  bzna_loader_statistics(t->loader, to, size, NULL)) \
    X(bzna_statistics,    bzna_statistics_since(&t->stats, &t->stats, to, size, NULL)) \
    X(bzna_tensor,        bzna_loader_tensor(t->loader, 0, to, size, NULL)) \
    X(bzna_batch_info,    bzna_batch_get_info(t->batch, to, size, NULL)) \
    X(bzna_tensor,        bzna_batch_tensor(t->batch, "target", to, size, NULL))

enum {
#define TOLD_COUNT(type, call) + 1
    TOLD_CALLS = 0 TOLD(TOLD_COUNT)
};

static size_t told_bytes(int number)
{
    int i = 0;
#define TOLD_BYTES(type, call) if (i++ == number) return sizeof(type);
    TOLD(TOLD_BYTES)
    return 0;
}

static bzna_status tell(const told *t, int number, void *bytes, size_t size)
{
    int i = 0;
#define TOLD_CALL(type, call) if (i++ == number) { type *to = bytes; return call; }
    TOLD(TOLD_CALL)
    return BZNA_E_RANGE;
}

static void told_open(told *t, bzna_context **context)
{
    bzna_loader_config c = { .struct_size = sizeof c, .output.batch_size = 2, .output.width = 8, .output.height = 8,
                             .output.device.kind = BZNA_DEVICE_CPU, .decode.decoder = BZNA_DECODER_SOFTWARE };
    bzna_error e = { 0 };
    memset(t, 0, sizeof *t);
    t->stats.struct_size = sizeof t->stats;
    if (bzna_context_open(NULL, context, &e) != BZNA_OK ||
        bzna_dataset_open(*context, "tests/data/mini_h264.bzna", NULL, &t->dataset, &e) != BZNA_OK ||
        bzna_loader_open(*context, t->dataset, &c, &t->loader, &e) != BZNA_OK ||
        bzna_loader_next(t->loader, BZNA_WAIT_FOREVER, &t->batch, &e) != BZNA_OK)
        printf("  %s\n", e.message);
}

/* Sizes of older, of newer callers, and garbage: as much as both know is filled in, and struct_size says how much. */
TEST(no_call_writes_past_the_struct_that_it_fills_in)
{
    static const size_t more[] = { 1, 8, 144, 4096, 1000000, 0x7fffffff, 0xdeadbeef, UINT32_MAX };
    static _Alignas(16) uint8_t bytes[4096], whole[4096];
    bzna_context *context = NULL;
    told t;
    told_open(&t, &context);
    REQUIRE(t.batch != NULL);
    for (int k = 0; k < TOLD_CALLS; k++) {
        const size_t all = told_bytes(k);
        REQUIRE(all + 256 <= sizeof bytes);
        memset(whole, PATTERN, sizeof whole);
        CHECK_EQ(tell(&t, k, whole, all), BZNA_OK);
        for (size_t n = 0; n <= all + COUNT(more); n++) {
            const size_t given = n <= all ? n : more[n - all - 1] + (more[n - all - 1] < 5000 ? all : 0);
            const size_t written = given < 4 ? 0 : given < all ? given : all;
            uint32_t size;
            memset(bytes, PATTERN, sizeof bytes);
            CHECK_EQ(tell(&t, k, bytes, given), given < 4 ? BZNA_E_STRUCT_SIZE : BZNA_OK);
            memcpy(&size, bytes, 4);
            CHECK(written == 0 || size == written);
            for (size_t i = written; i < sizeof bytes; i++)
                if (bytes[i] != PATTERN) {
                    printf("  call %d, %zu bytes of %zu: byte %zu was written\n", k, given, all, i);
                    test_failures++;
                    break;
                }
        }
    }
    for (size_t i = 0; i < COUNT(more); i++) {              /* a state is whole, or it is not given */
        bzna_loader_state *state = (bzna_loader_state *)(void *)bytes;
        memset(bytes, PATTERN, sizeof bytes);
        CHECK_EQ(bzna_loader_save(t.loader, state, sizeof *state - 1, NULL), BZNA_E_STRUCT_SIZE);
        CHECK_EQ(bytes[0], PATTERN);
        CHECK_EQ(bzna_loader_save(t.loader, state, sizeof *state + more[i], NULL), BZNA_OK);
        CHECK_EQ(state->struct_size, sizeof *state);
        CHECK_EQ(bytes[sizeof *state], PATTERN);
    }
    CHECK_EQ(bzna_batch_release(t.batch), BZNA_OK);
    bzna_loader_close(t.loader);
    bzna_dataset_close(t.dataset);
    bzna_context_close(context);
}

/* Those whose struct says its size itself. */
TEST(no_call_writes_past_the_struct_that_says_its_own_size)
{
    static const uint32_t given[] = { sizeof(bzna_image), sizeof(bzna_image) + 144, 1000000, 0xdeadbeef };
    static uint8_t buffer[1 << 20];
    union { bzna_image one; uint8_t bytes[sizeof(bzna_image) + 512]; } image;
    union { bzna_picture one; uint8_t bytes[sizeof(bzna_picture) + 512]; } picture;
    bzna_context *context = NULL;
    bzna_decoder *decoder = NULL;
    told t;
    told_open(&t, &context);
    REQUIRE(t.batch != NULL);
    REQUIRE(bzna_decoder_open(context, &decoder, NULL) == BZNA_OK);
    for (size_t k = 0; k < COUNT(given); k++) {
        memset(&image, PATTERN, sizeof image);
        memset(&picture, PATTERN, sizeof picture);
        image.one.struct_size = picture.one.struct_size = given[k];
        CHECK_EQ(bzna_dataset_read_image(t.dataset, 1, NULL, buffer, sizeof buffer, &image.one, NULL), BZNA_OK);
        CHECK_EQ(image.one.struct_size, sizeof(bzna_image));
        for (size_t i = sizeof(bzna_image); i < sizeof image; i++)
            CHECK(image.bytes[i] == PATTERN);
        CHECK_EQ(bzna_decoder_decode(decoder, &image.one, &picture.one, NULL), BZNA_OK); /* as it was filled in */
        for (size_t i = sizeof(bzna_picture); i < sizeof picture; i++)
            CHECK(picture.bytes[i] == PATTERN);
    }
    image.one.struct_size = 0;
    CHECK_EQ(bzna_dataset_read_image(t.dataset, 1, NULL, buffer, sizeof buffer, &image.one, NULL), BZNA_E_STRUCT_SIZE);
    bzna_decoder_close(decoder);
    CHECK_EQ(bzna_batch_release(t.batch), BZNA_OK);
    bzna_loader_close(t.loader);
    bzna_dataset_close(t.dataset);
    bzna_context_close(context);
}

#else

TEST(no_call_writes_past_the_struct_that_it_fills_in) { SKIP("built without libavcodec [libavcodec-dev]"); }
TEST(no_call_writes_past_the_struct_that_says_its_own_size) { SKIP("built without libavcodec [libavcodec-dev]"); }

#endif

TEST(a_bad_context_config_is_refused_by_field)
{
    static const struct { const char *field; size_t at; int32_t value; bzna_status status; } cases[] = {
        { "device.kind", offsetof(bzna_context_config, device.kind), -1, BZNA_E_ARGUMENT },
        { "device.kind", offsetof(bzna_context_config, device.kind), 3, BZNA_E_ARGUMENT },
        { "device.ordinal", offsetof(bzna_context_config, device.ordinal), -1, BZNA_E_ARGUMENT },
        { "device.ordinal", offsetof(bzna_context_config, device.ordinal), 1, BZNA_E_ARGUMENT }, /* of no CUDA device */
        { "log_level", offsetof(bzna_context_config, log_level), -1, BZNA_E_ARGUMENT },
        { "log_level", offsetof(bzna_context_config, log_level), 5, BZNA_E_ARGUMENT },
        { "max_edge_px", offsetof(bzna_context_config, max_edge_px), 65536, BZNA_E_ARGUMENT },
        { "codecs", offsetof(bzna_context_config, codecs), 2 * BZNA_ALLOW_OWN, BZNA_E_ARGUMENT },
        { "sessions", offsetof(bzna_context_config, sessions), 257, BZNA_E_ARGUMENT },
        { "sessions_per_engine", offsetof(bzna_context_config, sessions_per_engine), 257, BZNA_E_ARGUMENT },
        { "session_depth", offsetof(bzna_context_config, session_depth), 17, BZNA_E_ARGUMENT },
        { "session_mapped", offsetof(bzna_context_config, session_mapped), 9, BZNA_E_ARGUMENT },
        { "struct_size", 0, 0, BZNA_E_STRUCT_SIZE }, { "struct_size", 0, 3, BZNA_E_STRUCT_SIZE } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bzna_context_config config;
        bzna_context *context = (bzna_context *)(void *)&config;
        bzna_error err = fresh_error();
        bzna_context_config_init(&config, sizeof config);
        memcpy((uint8_t *)&config + cases[i].at, &cases[i].value, 4);
        CHECK_EQ(bzna_context_open(&config, &context, &err), cases[i].status);
        CHECK(context == NULL);
        CHECK_CONTAINS(err.message, cases[i].field);
        CHECK_EQ(err.status, cases[i].status);
    }
    {
        counter c;
        bzna_context_config config;
        bzna_context *context = (bzna_context *)(void *)&config;
        bzna_error err = fresh_error();
        bzna_context_config_init(&config, sizeof config);
        config.allocator.user = &c;
        config.allocator.alloc = counter_alloc;
        CHECK_EQ(bzna_context_open(&config, &context, &err), BZNA_E_ARGUMENT);
        CHECK_CONTAINS(err.message, "allocator");
        config.allocator.alloc = NULL;
        config.allocator.release = counter_release;
        CHECK_EQ(bzna_context_open(&config, &context, &err), BZNA_E_ARGUMENT);
        CHECK_EQ(bzna_context_open(NULL, NULL, &err), BZNA_E_ARGUMENT);
    }
    {
        bzna_context_config config;
        bzna_context *context = NULL;
        bzna_error err = fresh_error();
        bzna_context_config_init(&config, sizeof config);
        config.device.kind = BZNA_DEVICE_CUDA;
        config.device.ordinal = 1000;
        CHECK_EQ(bzna_context_open(&config, &context, &err), NO_SUCH_DEVICE);
        CHECK_CONTAINS(err.message, "device");
        config.device.ordinal = -1;
        CHECK_EQ(bzna_context_open(&config, &context, &err), BZNA_E_ARGUMENT);
        CHECK_CONTAINS(err.message, "device.ordinal");
    }
}

TEST(a_context_config_at_its_limits_is_accepted)
{
    static const struct { size_t at; int32_t value; } cases[] = {
        { offsetof(bzna_context_config, device.kind), BZNA_DEVICE_CPU },
        { offsetof(bzna_context_config, log_level), BZNA_LOG_ERROR },
        { offsetof(bzna_context_config, log_level), BZNA_LOG_DEBUG }, { offsetof(bzna_context_config, max_edge_px), 1 },
        { offsetof(bzna_context_config, max_edge_px), 65535 }, { offsetof(bzna_context_config, sessions), 1 },
        { offsetof(bzna_context_config, sessions), 256 }, { offsetof(bzna_context_config, sessions_per_engine), 256 },
        { offsetof(bzna_context_config, session_depth), 16 }, { offsetof(bzna_context_config, session_mapped), 8 },
        { offsetof(bzna_context_config, codecs), 2 * BZNA_ALLOW_OWN - 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bzna_context_config config;
        bzna_context *context = NULL;
        bzna_context_config_init(&config, sizeof config);
        memcpy((uint8_t *)&config + cases[i].at, &cases[i].value, 4);
        CHECK_EQ(bzna_context_open(&config, &context, NULL), BZNA_OK);
        bzna_context_close(context);
    }
}

TEST(context_configs_of_other_versions_are_taken_or_refused)
{
    struct { bzna_context_config config; uint64_t more[2]; } newer;
    bzna_context *context = NULL;
    memset(&newer, 0, sizeof newer);
    newer.config.struct_size = sizeof newer;
    CHECK_EQ(bzna_context_open(&newer.config, &context, NULL), BZNA_OK);
    bzna_context_close(context);
    newer.more[1] = (uint64_t)1 << 63;
    CHECK_EQ(bzna_context_open(&newer.config, &context, NULL), BZNA_E_STRUCT_SIZE);
    CHECK(context == NULL);
    newer.config.struct_size = 8;                           /* an older one: the rest is not looked at */
    memset((uint8_t *)&newer + 8, 0xff, sizeof newer - 8);
    CHECK_EQ(bzna_context_open(&newer.config, &context, NULL), BZNA_OK);
    bzna_context_close(context);
}

/* ---- Log ---- */

typedef struct listener { int count, lost_notes; int32_t levels[128]; char last[256]; pthread_t thread; } listener;

static void listen(void *user, int32_t level, bzna_status code, const char *message)
{
    listener *l = user;
    (void)code;
    if (l->count < 128)
        l->levels[l->count] = level;
    l->count++;
    l->lost_notes += strstr(message, "dropped") != NULL;
    snprintf(l->last, sizeof l->last, "%s", message);
    l->thread = pthread_self();
}

static bzna_context *talking(listener *l, int32_t level, uint32_t any_thread)
{
    bzna_context_config config;
    bzna_context *context = NULL;
    memset(l, 0, sizeof *l);
    bzna_context_config_init(&config, sizeof config);
    config.log = listen;
    config.log_user = l;
    config.log_level = level;
    config.log_any_thread = any_thread;
    if (bzna_context_open(&config, &context, NULL) != BZNA_OK)
        exit(1);
    return context;
}

/* A call that delivers and says nothing itself. */
static void deliver(bzna_context *context)
{
    bzna_dataset *dataset = NULL;
    CHECK_EQ(bzna_dataset_open(context, "tests/data/mini_h264.bzna", NULL, &dataset, NULL), BZNA_OK);
    bzna_dataset_close(dataset);
}

static void *say_something(void *argument)
{
    bzna_context *context = argument;
    bzi_log(context->host, BZNA_LOG_ERROR, BZNA_E_IO, "from a thread: %d", 7);
    return NULL;
}

TEST(messages_of_other_threads_wait_for_the_callers_next_call)
{
    listener l;
    bzna_context *context = talking(&l, 0, 0);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, say_something, context) == 0);
    pthread_join(thread, NULL);
    CHECK_EQ(l.count, 0);
    deliver(context);
    CHECK_EQ(l.count, 1);
    CHECK_STR(l.last, "from a thread: 7");
    CHECK_EQ(l.levels[0], BZNA_LOG_ERROR);
    CHECK(pthread_equal(l.thread, pthread_self()));
    bzna_context_close(context);
    CHECK_EQ(l.count, 1);
}

TEST(with_log_any_thread_messages_come_at_once)
{
    listener l;
    bzna_context *context = talking(&l, 0, 1);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, say_something, context) == 0);
    pthread_join(thread, NULL);
    CHECK_EQ(l.count, 1);
    CHECK(!pthread_equal(l.thread, pthread_self()));
    bzna_context_close(context);
    CHECK_EQ(l.count, 1);
}

TEST(the_level_filters)
{
    for (int32_t level = 0; level <= BZNA_LOG_DEBUG; level++) {
        listener l;
        bzna_context *context = talking(&l, level, 0);
        int expected = level ? level : BZNA_LOG_WARNING;
        for (int32_t k = BZNA_LOG_ERROR; k <= BZNA_LOG_DEBUG; k++)
            bzi_log(context->host, k, BZNA_OK, "level %d", k);
        deliver(context);
        CHECK_EQ(l.count, expected);
        for (int i = 0; i < expected; i++)
            CHECK_EQ(l.levels[i], i + 1);                   /* in the order in which they were said */
        bzna_context_close(context);
    }
}

TEST(a_full_queue_says_how_many_messages_were_dropped)
{
    listener l;
    bzna_context *context = talking(&l, 0, 0);
    for (unsigned i = 0; i < BZI_LOG_QUEUE + 8; i++)
        bzi_log(context->host, BZNA_LOG_WARNING, BZNA_OK, "message %u", i);
    deliver(context);
    CHECK_EQ(l.count, BZI_LOG_QUEUE + 1);
    CHECK_EQ(l.lost_notes, 1);
    CHECK_STR(l.last, "8 more messages were dropped");
    bzi_log(context->host, BZNA_LOG_WARNING, BZNA_OK, "later");
    deliver(context);
    CHECK_EQ(l.count, BZI_LOG_QUEUE + 2);                   /* the queue works again, the note comes once */
    CHECK_STR(l.last, "later");
    bzna_context_close(context);
}

TEST(an_error_finds_a_place_in_a_full_queue)
{
    listener l;
    bzna_context *context = talking(&l, 0, 0);
    for (unsigned i = 0; i < BZI_LOG_QUEUE; i++)
        bzi_log(context->host, BZNA_LOG_WARNING, BZNA_OK, "message %u", i);
    bzi_log(context->host, BZNA_LOG_ERROR, BZNA_OK, "an error");
    CHECK_STR(context->host->log_queue[BZI_LOG_QUEUE - 1].message, "an error");
    CHECK_STR(context->host->log_queue[BZI_LOG_QUEUE - 2].message, "message 30");
    bzi_log(context->host, BZNA_LOG_WARNING, BZNA_OK, "one too many");
    CHECK_STR(context->host->log_queue[BZI_LOG_QUEUE - 1].message, "an error");
    deliver(context);
    CHECK_EQ(l.count, BZI_LOG_QUEUE + 1);
    CHECK_STR(l.last, "2 more messages were dropped");
    bzna_context_close(context);
}

static void *small_alloc(void *user, size_t size, size_t align)
{
    (void)user;
    return size > 8192 ? NULL : bzi_os_alloc(NULL, size, align);
}

/* They stay where they are, too, when more are added, and when another arena takes over the memory. */
TEST(short_texts_of_an_arena_share_blocks_and_all_is_freed_at_once)
{
    enum { TEXTS = 5000 };
    static const char *texts[TEXTS];
    counter counted = { 0 };
    const bzi_memory memory = { &counted, counter_alloc, counter_release };
    bzi_arena arena = { .memory = &memory }, other = { .memory = &memory };
    double *number;
    char text[BZI_ARENA_TEXT + 2];
    int right = 1;

    for (int i = 0; i < TEXTS; i++) {
        snprintf(text, sizeof text, "%0*d", i % (int)(sizeof text - 1), i);
        texts[i] = bzi_arena_text(&arena, text);
        REQUIRE(texts[i]);
    }
    CHECK(counted.blocks < TEXTS / 50);
    number = bzi_arena_zero(&arena, 1, sizeof *number);
    CHECK(number && (uintptr_t)number % 16 == 0 && *number == 0);
    bzi_arena_join(&other, &arena);
    CHECK(bzi_arena_text(&arena, "more") && bzi_arena_text(&other, "more") && arena.blocks);
    for (int i = 0; i < TEXTS; i++) {
        snprintf(text, sizeof text, "%0*d", i % (int)(sizeof text - 1), i);
        right &= !strcmp(texts[i], text);
    }
    CHECK(right);

    counted.fail_at = counted.calls + 1;
    for (int i = 0; i < TEXTS && bzi_arena_text(&arena, "none"); i++)
        right = i < TEXTS - 1;
    CHECK(right);
    counted.fail_at = 0;
    CHECK(bzi_arena_text(&arena, "some"));
    bzi_arena_free(&arena);
    bzi_arena_free(&other);
    CHECK_ALL_FREED(counted);
}

/* A key is that of the parameter set in an avcC. */
TEST(a_cache_that_finds_no_memory_for_a_key_stays_as_it_was)
{
    static uint8_t configs[2][8 + 16000];
    static const uint32_t sizes[2] = { 100, 16000 };
    static bzi_lru lru;
    const bzi_memory memory = { NULL, small_alloc, bzi_os_release };
    bzna_image images[2];
    uint32_t index, again;
    for (int i = 0; i < 2; i++) {
        memcpy(configs[i], "\1\0\0\0\377\341", 6);
        configs[i][6] = (uint8_t)(sizes[i] >> 8);
        configs[i][7] = (uint8_t)sizes[i];
        configs[i][8] = 0x67;
        images[i] = (bzna_image){ .struct_size = sizeof images[i], .codec = BZNA_CODEC_H264, .config = configs[i],
                                  .config_size = 8 + sizes[i], .data = configs[i] };
    }
    CHECK_EQ(bzi_lru_find(&lru, &memory, &images[0], &index), 0);
    CHECK_EQ(bzi_lru_find(&lru, &memory, &images[0], &index), 0);       /* free until it is kept */
    bzi_lru_keep(&lru, index);
    CHECK_EQ(bzi_lru_find(&lru, &memory, &images[0], &again), 1);
    CHECK_EQ(again, index);
    CHECK_EQ(bzi_lru_find(&lru, &memory, &images[1], &again), -1);
    CHECK_EQ(bzi_lru_find(&lru, &memory, &images[0], &again), 1);
    bzi_lru_forget(&lru, index);
    CHECK_EQ(bzi_lru_find(&lru, &memory, &images[0], &again), 0);
    bzi_lru_free(&lru, &memory);
}

TEST(what_waits_is_delivered_when_the_context_is_closed)
{
    listener l;
    bzna_context *context = talking(&l, 0, 0);
    bzi_log(context->host, BZNA_LOG_WARNING, BZNA_OK, "last words");
    bzna_context_close(context);
    CHECK_EQ(l.count, 1);
    CHECK_STR(l.last, "last words");
}

TEST(a_long_message_is_cut)
{
    listener l;
    bzna_context *context = talking(&l, 0, 0);
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    bzi_log(context->host, BZNA_LOG_ERROR, BZNA_OK, "%s", text);
    deliver(context);
    CHECK(strlen(l.last) > 100 && strlen(l.last) < 256);
    bzna_context_close(context);
}

/* ---- Closing inside callbacks ---- */

typedef struct intruder {
    bzna_context *context;
    bzna_dataset *dataset;
    bzna_decoder *decoder;
    bzna_writer  *writer;
    bzna_loader  *loader;
    atomic_uint   armed;              /* the loader's threads look at it */
    atomic_int    calls[7], wrong[7];
} intruder;

enum { AT_ALLOC, AT_RELEASE, AT_READ, AT_SIZE, AT_CLOSE, AT_WRITE, AT_LOG };

static void intrude(intruder *in, int at)
{
    if (!in->armed)
        return;
    in->calls[at]++;
    in->wrong[at] += bzna_context_close(in->context) != BZNA_E_STATE;
    in->wrong[at] += bzna_dataset_close(in->dataset) != BZNA_E_STATE;
    in->wrong[at] += in->decoder && bzna_decoder_close(in->decoder) != BZNA_E_STATE;
    in->wrong[at] += bzna_writer_close(in->writer) != BZNA_E_STATE;
    in->wrong[at] += in->loader && bzna_loader_close(in->loader) != BZNA_E_STATE;
}

static void *in_alloc(void *user, size_t size, size_t align)
{
    intrude(user, AT_ALLOC);
    return bzi_os_alloc(NULL, size, align);
}

static void in_release(void *user, void *p, size_t size)
{
    intrude(user, AT_RELEASE);
    bzi_os_release(NULL, p, size);
}

static int64_t in_read(void *user, uint64_t offset, void *dst, uint64_t size)
{
    FILE *f = fopen("tests/data/mini_h264.bzna", "rb");
    size_t n;
    intrude(user, AT_READ);
    if (!f)
        return -1;
    fseek(f, (long)offset, SEEK_SET);
    n = fread(dst, 1, (size_t)size, f);
    fclose(f);
    return (int64_t)n;
}

static int64_t in_size(void *user) { intrude(user, AT_SIZE); return 224604; }
static void in_close(void *user) { intrude(user, AT_CLOSE); }

static bzna_status in_write(void *user, uint64_t offset, const void *src, uint64_t size)
{
    (void)offset;
    (void)src;
    (void)size;
    intrude(user, AT_WRITE);
    return BZNA_OK;
}

static void in_log(void *user, int32_t level, bzna_status code, const char *message)
{
    (void)level;
    (void)code;
    (void)message;
    intrude(user, AT_LOG);
}

TEST(closing_inside_a_callback_is_refused_and_does_nothing)
{
    static const char *const names[7] = { "alloc", "release", "read_at", "size", "source.close", "write_at", "log" };
    intruder in;
    bzna_context_config config;
    bzna_source source = { sizeof(bzna_source), 0, &in, in_read, in_size, in_close, NULL };
    bzna_sink sink = { sizeof(bzna_sink), 0, &in, in_write, in_close };
    bzna_dataset *dataset = NULL;
    bzna_writer *writer = NULL;
    bzna_loader_config loading;
    int64_t target;
    memset(&in, 0, sizeof in);
    bzna_context_config_init(&config, sizeof config);
    config.allocator.user = &in;
    config.allocator.alloc = in_alloc;
    config.allocator.release = in_release;
    config.log = in_log;
    config.log_user = &in;
    REQUIRE(bzna_context_open(&config, &in.context, NULL) == BZNA_OK);
    REQUIRE(bzna_dataset_open(in.context, "tests/data/mini_h264.bzna", NULL, &in.dataset, NULL) == BZNA_OK);
    REQUIRE(bzna_writer_open_sink(in.context, &sink, NULL, &in.writer, NULL) == BZNA_OK);
#ifndef BENZINA_NO_AVCODEC
    REQUIRE(bzna_decoder_open(in.context, &in.decoder, NULL) == BZNA_OK);
    bzna_loader_config_init(&loading, sizeof loading);
    loading.output.batch_size = 1;
    loading.output.width = loading.output.height = 8;
    loading.decode.threads = 1;
    REQUIRE(bzna_loader_open(in.context, in.dataset, &loading, &in.loader, NULL) == BZNA_OK);
    CHECK_EQ(bzna_loader_stop(in.loader, NULL), BZNA_OK);
#else
    (void)loading;
#endif
    in.armed = 1;
    CHECK_EQ(bzna_dataset_open_source(in.context, &source, NULL, &dataset, NULL), BZNA_OK);
    CHECK_EQ(bzna_dataset_close(dataset), BZNA_OK);         /* calls source.close and release */
    CHECK_EQ(bzna_writer_open_sink(in.context, &sink, NULL, &writer, NULL), BZNA_OK);
    CHECK_EQ(bzna_writer_close(writer), BZNA_OK);
    bzi_log(in.context->host, BZNA_LOG_ERROR, BZNA_OK, "hello");
    /* delivers the log */
    CHECK_EQ(bzna_dataset_open(in.context, "tests/data/mini_h265.bzna", NULL, &dataset, NULL), BZNA_OK);
    bzna_dataset_close(dataset);
    in.armed = 0;
    for (int at = 0; at < 7; at++)
        if (!in.calls[at] || in.wrong[at]) {
            printf("  %s: called %d times, %d closes were not refused\n", names[at], in.calls[at], in.wrong[at]);
            test_failures++;
        }
    CHECK(bzna_dataset_target(in.dataset, 3, &target, NULL) == BZNA_OK && target == 111);       /* all still live */
    CHECK_EQ(bzna_loader_close(in.loader), BZNA_OK);
    CHECK_EQ(bzna_decoder_close(in.decoder), BZNA_OK);
    CHECK_EQ(bzna_writer_close(in.writer), BZNA_OK);
    CHECK_EQ(bzna_dataset_close(in.dataset), BZNA_OK);
    CHECK_EQ(bzna_context_close(in.context), BZNA_OK);
}

TEST_MAIN(
    RUN(each_status_has_its_number_name_and_text)
    RUN(an_error_struct_is_never_written_beyond_its_size_or_the_librarys)
    RUN(an_error_of_zeros_says_what_went_wrong)
    RUN(a_message_longer_than_the_callers_room_ends_in_nul_there)
    RUN(an_error_is_written_on_failure_only)
    RUN(a_long_name_is_shortened_at_its_front_and_the_message_stays)
    RUN(a_shortened_message_is_still_utf_8)
    RUN(native_codes_beyond_32_bits_become_minus_one)
    RUN(a_failed_read_of_a_file_has_errno_as_its_native_code)
    RUN(sizes_that_overflow_are_refused_before_the_allocator_is_asked)
    RUN(a_buffer_grows_keeps_and_gives_back)
    RUN(a_context_takes_its_own_memory_from_the_allocator)
    RUN(structs_to_fill_in_are_prepared_as_zeros)
    RUN(no_initializer_writes_past_its_struct)
    RUN(no_call_writes_past_the_struct_that_it_fills_in)
    RUN(no_call_writes_past_the_struct_that_says_its_own_size)
    RUN(an_error_is_prepared_as_none)
    RUN(a_bad_context_config_is_refused_by_field)
    RUN(a_context_config_at_its_limits_is_accepted)
    RUN(context_configs_of_other_versions_are_taken_or_refused)
    RUN(messages_of_other_threads_wait_for_the_callers_next_call)
    RUN(with_log_any_thread_messages_come_at_once)
    RUN(the_level_filters)
    RUN(a_full_queue_says_how_many_messages_were_dropped)
    RUN(an_error_finds_a_place_in_a_full_queue)
    RUN(short_texts_of_an_arena_share_blocks_and_all_is_freed_at_once)
    RUN(a_cache_that_finds_no_memory_for_a_key_stays_as_it_was)
    RUN(what_waits_is_delivered_when_the_context_is_closed)
    RUN(a_long_message_is_cut)
    RUN(closing_inside_a_callback_is_refused_and_does_nothing))
