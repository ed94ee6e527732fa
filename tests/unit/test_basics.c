/* Checked arithmetic, byte order, text, hashes, versioned structs. */
#include "library.h"
#include "test.h"

TEST(addition_refuses_to_overflow)
{
    uint64_t out = 7;
    CHECK(bzi_add(1, 2, &out) && out == 3);
    CHECK(bzi_add(UINT64_MAX - 1, 1, &out) && out == UINT64_MAX);
    CHECK(bzi_add(0, UINT64_MAX, &out) && out == UINT64_MAX);
    out = 7;
    CHECK(!bzi_add(UINT64_MAX, 1, &out));
    CHECK(!bzi_add(1, UINT64_MAX, &out));
    CHECK(!bzi_add((uint64_t)1 << 63, (uint64_t)1 << 63, &out));
    CHECK_EQ(out, 7);
}

TEST(multiplication_refuses_to_overflow)
{
    uint64_t out = 7;
    CHECK(bzi_mul(0, UINT64_MAX, &out) && out == 0);
    CHECK(bzi_mul(UINT64_MAX, 0, &out) && out == 0);
    CHECK(bzi_mul(UINT32_MAX, UINT32_MAX, &out) && out == 0xfffffffe00000001ull);
    CHECK(bzi_mul(UINT64_MAX, 1, &out) && out == UINT64_MAX);
    out = 7;
    CHECK(!bzi_mul((uint64_t)1 << 32, (uint64_t)1 << 32, &out));
    CHECK(!bzi_mul(UINT64_MAX, 2, &out));
    CHECK(!bzi_mul(3, UINT64_MAX / 3 + 1, &out));
    CHECK_EQ(out, 7);
    CHECK_EQ(bzi_min(3, 4), 3);
    CHECK_EQ(bzi_min(UINT64_MAX, 4), 4);
}

TEST(loads_are_right_at_every_alignment)
{
    uint8_t bytes[24];
    for (unsigned at = 0; at < 8; at++) {
        memset(bytes, 0xee, sizeof bytes);
        for (unsigned i = 0; i < 8; i++)
            bytes[at + i] = (uint8_t)(0x81 + i);
        CHECK(bzi_be16(bytes + at) == 0x8182);
        CHECK(bzi_be32(bytes + at) == 0x81828384u);
        CHECK(bzi_be64(bytes + at) == 0x8182838485868788ull);
        CHECK(bzi_le32(bytes + at) == 0x84838281u);
    }
}

TEST(types_are_printed_without_control_characters)
{
    char text[5];
    bzi_fourcc_text(BZI_FOURCC('m', 'o', 'o', 'v'), text);
    CHECK_STR(text, "moov");
    bzi_fourcc_text(BZI_FOURCC('a', 7, 200, '~'), text);
    CHECK_STR(text, "a??~");
    bzi_fourcc_text(0, text);
    CHECK_STR(text, "????");
}

TEST(text_is_copied_within_bounds_and_ends_in_nul)
{
    char dst[6];
    memset(dst, 'x', sizeof dst);
    bzi_text_copy(dst, 4, (const uint8_t *)"abcdef", 6);
    CHECK_STR(dst, "abc");
    CHECK(dst[4] == 'x' && dst[5] == 'x');
    bzi_text_copy(dst, sizeof dst, (const uint8_t *)"ab", 2);           /* no NUL in the source's two bytes */
    CHECK_STR(dst, "ab");
    bzi_text_copy(dst, sizeof dst, (const uint8_t *)"a\0b", 3);
    CHECK_STR(dst, "a");
    bzi_text_copy(dst, sizeof dst, NULL, 0);
    CHECK_STR(dst, "");
    bzi_text_copy(dst, 1, (const uint8_t *)"abc", 3);
    CHECK_STR(dst, "");
    bzi_text_copy(dst, 4, (const uint8_t *)"ab\xc3\xa9", 4);            /* no half of a character */
    CHECK_STR(dst, "ab");
    bzi_text_copy(dst, 5, (const uint8_t *)"ab\xc3\xa9", 4);
    CHECK_STR(dst, "ab\xc3\xa9");
}

/* Values from the FNV authors' test vectors (draft-eastlake-fnv). */
TEST(the_hash_is_fnv_1a)
{
    CHECK(bzi_hash(BZI_HASH_START, "", 0) == 0xcbf29ce484222325ull);
    CHECK(bzi_hash(BZI_HASH_START, "a", 1) == 0xaf63dc4c8601ec8cull);
    CHECK(bzi_hash(BZI_HASH_START, "foobar", 6) == 0x85944171f73967e8ull);
    CHECK(bzi_hash(bzi_hash(BZI_HASH_START, "foo", 3), "bar", 3) == 0x85944171f73967e8ull);
}

typedef struct versioned { uint32_t struct_size, a, b, c; } versioned;

static int take(versioned *dst, const uint32_t *src)
{
    memset(dst, 0, sizeof *dst);
    return bzi_struct_in_over(dst, sizeof *dst, src);
}

TEST(a_smaller_struct_is_taken_and_the_rest_is_zero)
{
    uint32_t src[3] = { 12, 1, 2 };
    versioned dst;
    CHECK(take(&dst, src));
    CHECK(dst.struct_size == 12 && dst.a == 1 && dst.b == 2 && dst.c == 0);
    src[0] = 4;
    CHECK(take(&dst, src));
    CHECK(dst.a == 0 && dst.b == 0 && dst.c == 0);
}

TEST(a_larger_struct_is_taken_only_with_a_zero_tail)
{
    uint32_t src[6] = { 24, 1, 2, 3, 0, 0 };
    versioned dst;
    CHECK(take(&dst, src) && dst.c == 3);
    src[5] = 1u << 24;
    CHECK(!take(&dst, src));
    src[0] = 20;                                            /* the nonzero word lies behind it now */
    CHECK(take(&dst, src));
    src[0] = 0xdeadbeef;                                    /* no struct's size: nothing behind it is looked at */
    CHECK(!take(&dst, src));
    for (uint32_t size = 0; size < 4; size++) {
        src[0] = size;
        CHECK(!take(&dst, src));
    }
}

TEST(a_struct_given_out_fills_what_the_caller_has_and_no_more)
{
    versioned src = { 0, 1, 2, 3 };
    uint8_t dst[32];
    for (size_t given = 0; given <= 24; given++) {
        const size_t written = given < sizeof src ? given : sizeof src;
        uint32_t size;
        memset(dst, 0xa5, sizeof dst);
        bzi_struct_out(dst, given, &src, sizeof src);
        for (size_t i = given < 4 ? 0 : written; i < sizeof dst; i++)
            CHECK(dst[i] == 0xa5);
        if (given < 4)
            continue;
        memcpy(&size, dst, 4);
        CHECK_EQ(size, written);
        CHECK(!memcmp(dst + 4, &src.a, written - 4));
    }
}

/* Every public initializer, with each size that a caller compiled against an older or newer header may have. */
TEST(initializers_write_no_more_than_they_are_told_and_know)
{
    static const struct { const char *name; size_t size; } structs[] = {
        { "context_config", sizeof(bzna_context_config) }, { "dataset_config", sizeof(bzna_dataset_config) },
        { "loader_config", sizeof(bzna_loader_config) }, { "writer_config", sizeof(bzna_writer_config) } };
    static _Alignas(16) uint8_t bytes[2 * sizeof(bzna_loader_config)];
    for (size_t k = 0; k < 4; k++) {
        CHECK(structs[k].size + 8 <= sizeof bytes);
        for (size_t given = 0; given <= structs[k].size + 8; given++) {
            uint32_t size;
            memset(bytes, 0xa5, sizeof bytes);
            switch (k) {
            case 0: bzna_context_config_init((bzna_context_config *)(void *)bytes, given); break;
            case 1: bzna_dataset_config_init((bzna_dataset_config *)(void *)bytes, given); break;
            case 2: bzna_loader_config_init((bzna_loader_config *)(void *)bytes, given); break;
            default: bzna_writer_config_init((bzna_writer_config *)(void *)bytes, given); break;
            }
            memcpy(&size, bytes, 4);
            CHECK(given < 4 ? size == 0xa5a5a5a5u : size == given);
            for (size_t i = 4; i < bzi_min(given, structs[k].size); i++)
                CHECK(bytes[i] == 0);
            for (size_t i = given < 4 ? 0 : bzi_min(given, structs[k].size); i < sizeof bytes; i++)
                CHECK(bytes[i] == 0xa5);
        }
    }
    bzna_context_config_init(NULL, sizeof(bzna_context_config));
}

TEST_MAIN(
    RUN(addition_refuses_to_overflow)
    RUN(multiplication_refuses_to_overflow)
    RUN(loads_are_right_at_every_alignment)
    RUN(types_are_printed_without_control_characters)
    RUN(text_is_copied_within_bounds_and_ends_in_nul)
    RUN(the_hash_is_fnv_1a)
    RUN(a_smaller_struct_is_taken_and_the_rest_is_zero)
    RUN(a_larger_struct_is_taken_only_with_a_zero_tail)
    RUN(a_struct_given_out_fills_what_the_caller_has_and_no_more)
    RUN(initializers_write_no_more_than_they_are_told_and_know))
