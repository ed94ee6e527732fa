/* Bounded bytes and bits. Every block of bytes is allocated to size, so that the sanitizer sees a read too
 * far. */
#include "library.h"
#include "test.h"

static uint8_t *exact(const void *bytes, size_t size)
{
    uint8_t *p = malloc(size ? size : 1);
    if (size)
        memcpy(p, bytes, size);
    return p;
}

TEST(a_cursor_reads_big_endian_and_counts)
{
    static const uint8_t bytes[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    uint8_t *p = exact(bytes, 7);
    bzi_cursor c = bzi_cursor_make(p, 7, 1000);
    CHECK(bzi_cursor_u8(&c) == 1);
    CHECK(bzi_cursor_u16(&c) == 0x0203);
    CHECK(bzi_cursor_u32(&c) == 0x04050607);
    CHECK_EQ(bzi_cursor_left(&c), 0);
    CHECK_EQ(bzi_cursor_offset(&c), 1007);
    CHECK(!c.overrun);
    free(p);
}

TEST(an_overrun_sticks_and_gives_zeros)
{
    static const uint8_t bytes[] = { 0xff, 0xff, 0xff };
    uint8_t *p = exact(bytes, 3);
    bzi_cursor c = bzi_cursor_make(p, 3, 0);
    CHECK(bzi_cursor_u32(&c) == 0);                         /* one byte too few: nothing of them is given */
    CHECK(c.overrun);
    CHECK(bzi_cursor_u8(&c) == 0);                          /* would fit, but the overrun stays */
    CHECK(bzi_cursor_u16(&c) == 0);
    CHECK(bzi_cursor_take(&c, 0) == NULL);
    CHECK_EQ(c.pos, 0);
    free(p);
}

TEST(a_length_near_the_integers_end_does_not_wrap)
{
    static const uint8_t bytes[8] = { 0 };
    uint8_t *p = exact(bytes, 8);
    bzi_cursor c = bzi_cursor_make(p, 8, UINT64_MAX - 8);
    bzi_cursor_take(&c, 4);
    CHECK(bzi_cursor_take(&c, UINT64_MAX) == NULL && c.overrun);
    c = bzi_cursor_make(p, 8, 0);
    bzi_cursor_take(&c, 4);
    CHECK(bzi_cursor_take(&c, UINT64_MAX - 3) == NULL && c.overrun);
    free(p);
}

TEST(a_sub_cursor_ends_where_it_was_told)
{
    static const uint8_t bytes[] = { 1, 2, 3, 4, 5, 6 };
    uint8_t *p = exact(bytes, 6);
    bzi_cursor c = bzi_cursor_make(p, 6, 100), sub;
    bzi_cursor_u8(&c);
    sub = bzi_cursor_sub(&c, 3);
    CHECK_EQ(bzi_cursor_offset(&sub), 101);
    CHECK(bzi_cursor_u16(&sub) == 0x0203);
    CHECK(bzi_cursor_u16(&sub) == 0 && sub.overrun);
    CHECK(!c.overrun && bzi_cursor_u8(&c) == 5);
    sub = bzi_cursor_sub(&c, 2);                            /* too long: empty, and both say so in their way */
    CHECK(c.overrun && sub.size == 0 && bzi_cursor_u8(&sub) == 0 && sub.overrun);
    free(p);
}

static bzi_bits bits_of(const uint8_t *p, size_t size) { bzi_span s = { p, size }; return bzi_bits_make(s, 0); }

TEST(bits_come_from_the_top)
{
    static const uint8_t bytes[] = { 0xa5, 0x0f, 0x80 };
    uint8_t *p = exact(bytes, 3);
    bzi_bits b = bits_of(p, 3);
    CHECK(bzi_bits_u(&b, 1) == 1);
    CHECK(bzi_bits_u(&b, 3) == 2);
    CHECK(bzi_bits_u(&b, 8) == 0x50);
    CHECK(bzi_bits_u(&b, 0) == 0);
    CHECK(bzi_bits_u(&b, 5) == 0x1f);
    bzi_bits_u(&b, 7);
    CHECK(!b.overrun);
    CHECK(bzi_bits_1(&b) == 0 && b.overrun);
    free(p);
}

TEST(thirty_two_bits_are_read_at_once)
{
    static const uint8_t bytes[] = { 0xff, 0xfe, 0xfd, 0xfc };
    uint8_t *p = exact(bytes, 4);
    bzi_bits b = bits_of(p, 4);
    CHECK(bzi_bits_u(&b, 32) == 0xfffefdfcu && !b.overrun);
    free(p);
}

TEST(emulation_prevention_bytes_are_skipped)
{
    static const uint8_t bytes[] = { 0, 0, 3, 1, 0, 0, 3, 3, 3, 0, 3, 0, 0, 3, 0, 0, 3, 2 };
    static const uint8_t clean[] = { 0, 0, 1, 0, 0, 3, 3, 0, 3, 0, 0, 0, 0, 2 };
    uint8_t *p = exact(bytes, sizeof bytes);
    bzi_bits b = bits_of(p, sizeof bytes);
    for (size_t i = 0; i < sizeof clean; i++)
        CHECK_EQ(bzi_bits_u(&b, 8), clean[i]);
    CHECK(!b.overrun);
    CHECK(bzi_bits_1(&b) == 0 && b.overrun);
    free(p);
}

/* AV1 has none: every byte counts, and reading ends where the bytes do. */
TEST(plain_bits_keep_what_looks_like_emulation_prevention)
{
    static const uint8_t bytes[] = { 0, 0, 3, 1, 0, 0, 0, 3 };
    uint8_t *p = exact(bytes, sizeof bytes);
    bzi_span s = { p, sizeof bytes };
    bzi_bits b = bzi_bits_make(s, 0);
    b.plain = 1;
    for (size_t i = 0; i < sizeof bytes; i++)
        CHECK_EQ(bzi_bits_u(&b, 8), bytes[i]);
    CHECK(!b.overrun);
    CHECK(bzi_bits_1(&b) == 0 && b.overrun);
    b = bzi_bits_make(s, 0);
    b.plain = 1;
    CHECK_EQ(bzi_bits_u(&b, 4), 0);
    CHECK_EQ(bzi_bits_u(&b, 32), 0x00003010);
    b = bits_of(p, sizeof bytes);                           /* the same bytes as a NAL unit's */
    CHECK_EQ(bzi_bits_u(&b, 32), 0x00000100);
    s.size = 0;
    b = bzi_bits_make(s, 0);
    b.plain = 1;
    CHECK(!b.overrun && bzi_bits_1(&b) == 0 && b.overrun);
    free(p);
}

TEST(an_emulation_prevention_byte_at_the_very_end_is_an_overrun)
{
    static const uint8_t bytes[] = { 0, 0, 3 };
    uint8_t *p = exact(bytes, 3);
    bzi_bits b = bits_of(p, 3);
    bzi_bits_u(&b, 16);
    CHECK(!b.overrun);
    CHECK(bzi_bits_1(&b) == 0 && b.overrun);
    free(p);
}

TEST(a_header_longer_than_the_unit_is_an_overrun)
{
    uint8_t *p = exact("a", 1);
    bzi_span s = { p, 1 };
    bzi_bits b = bzi_bits_make(s, 2);
    CHECK(b.overrun && bzi_bits_u(&b, 8) == 0);
    b = bzi_bits_make(s, 1);
    CHECK(!b.overrun && bzi_bits_1(&b) == 0 && b.overrun);
    free(p);
}

/* Writes v as ue(v), independently: zeros, then v + 1 in binary. */
static void put_ue(uint8_t *dst, size_t *at, uint64_t v)
{
    int length = 0;
    for (uint64_t x = v + 1; x > 1; x >>= 1)
        length++;
    *at += (size_t)length;
    for (int i = length; i >= 0; i--, ++*at)
        if ((v + 1) >> i & 1)
            dst[*at / 8] |= (uint8_t)(0x80 >> *at % 8);
}

TEST(a_cursor_over_no_bytes_gives_none_from_a_place_that_is)
{
    bzi_cursor c = bzi_cursor_make(NULL, 0, 40);
    CHECK(bzi_cursor_take(&c, 0) != NULL);
    CHECK(!c.overrun);
    CHECK_EQ(bzi_cursor_offset(&c), 40);
    CHECK(bzi_cursor_take(&c, 1) == NULL);
    CHECK(c.overrun);
}

TEST(exp_golomb_numbers_are_read_to_their_limits)
{
    static const uint32_t values[] = { 0,          1,          2,           3,           4,          5,     6,
                                       7,          8,          254,         255,         256,        65534, 65535,
                                       0x7ffffffe, 0x7fffffff, 0x80000000u, 0xfffffffdu, 0xfffffffeu };
    static const int32_t signs[] = { 0,           1,          -1,          2,          -2,         3,      -3,
                                     4,           -4,         -127,        128,        -128,       -32767, 32768,
                                     -0x3fffffff, 0x40000000, -0x40000000, 0x7fffffff, -0x7fffffff };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        uint8_t bytes[32] = { 0 }, *p;
        size_t at = 0;
        bzi_bits b;
        put_ue(bytes, &at, values[i]);
        bytes[at / 8] |= (uint8_t)(0x80 >> at % 8);         /* a one behind it: is exactly that much read? */
        at++;
        for (size_t k = 0; k + 2 < (at + 7) / 8; k++) /* the test's numbers need no emulation prevention, or say so */
            if (!bytes[k] && !bytes[k + 1] && bytes[k + 2] <= 3) {
                memmove(bytes + k + 3, bytes + k + 2, sizeof bytes - k - 3);
                bytes[k + 2] = 3;
                at += 8;
                k += 2;
            }
        p = exact(bytes, (at + 7) / 8);
        b = bits_of(p, (at + 7) / 8);
        CHECK_EQ(bzi_bits_ue(&b), values[i]);
        CHECK(bzi_bits_1(&b) == 1 && !b.overrun);
        b = bits_of(p, (at + 7) / 8);
        CHECK_EQ(bzi_bits_se(&b), signs[i]);
        CHECK(!b.overrun);
        free(p);
    }
}

TEST(more_than_31_leading_zeros_are_an_overrun)
{
    static const uint8_t bytes[] = { 0, 0, 3, 0, 0, 3, 0x80, 0, 0, 1, 0xff, 0xff };     /* 32 zeros, then a one */
    static const uint8_t zeros[64] = { 0 };
    uint8_t *p = exact(bytes, sizeof bytes);
    bzi_bits b = bits_of(p, sizeof bytes);
    CHECK(bzi_bits_ue(&b) == 0 && b.overrun);
    free(p);
    p = exact(zeros, 2);                                    /* nothing but zeros up to the end */
    b = bits_of(p, 2);
    CHECK(bzi_bits_ue(&b) == 0 && b.overrun);
    free(p);
    p = exact("\x01", 1);                                   /* the one is there, its bits are not */
    b = bits_of(p, 1);
    bzi_bits_ue(&b);
    CHECK(b.overrun);
    free(p);
}

TEST(a_bit_overrun_sticks)
{
    uint8_t *p = exact("\xff", 1);
    bzi_bits b = bits_of(p, 1);
    bzi_bits_u(&b, 9);
    CHECK(b.overrun);
    CHECK(bzi_bits_u(&b, 32) == 0 && bzi_bits_ue(&b) == 0 && bzi_bits_se(&b) == 0 && b.overrun);
    bzi_bits_u(&b, UINT32_MAX);                          /* must end at once */
    CHECK(b.overrun);
    free(p);
}

/* Neither reading nor looking for emulation prevention touches the byte past the end. */
TEST(the_byte_past_the_end_of_a_unit_is_left_alone)
{
    static const uint8_t bytes[] = { 0, 0, 3, 0xff };
    bzi_bits b = bits_of(bytes, 2);
    CHECK_EQ(bzi_bits_u(&b, 16), 0);
    CHECK(!b.overrun);
    for (int i = 0; i < 9; i++)
        CHECK_EQ(bzi_bits_1(&b), 0);
    CHECK(b.overrun);
    CHECK_EQ(b.byte, 2);
    CHECK_EQ(b.zeros, 2);
    b = bits_of(bytes + 3, 0);
    CHECK(bzi_bits_1(&b) == 0 && b.overrun && b.byte == 0);
}

/* Clang's sanitizer sees a sum with a null pointer in it: make asan-clang. */
TEST(no_bytes_behind_nothing_are_no_failure)
{
    const bzi_memory memory = { NULL, bzi_os_alloc, bzi_os_release };
    bzi_out out = { .memory = &memory };
    bzi_out_bytes(&out, NULL, 0);
    CHECK(!out.failed && out.size == 0 && out.buffer.data == NULL);
}

TEST_MAIN(
    RUN(a_cursor_reads_big_endian_and_counts)
    RUN(an_overrun_sticks_and_gives_zeros)
    RUN(a_length_near_the_integers_end_does_not_wrap)
    RUN(a_sub_cursor_ends_where_it_was_told)
    RUN(bits_come_from_the_top)
    RUN(thirty_two_bits_are_read_at_once)
    RUN(emulation_prevention_bytes_are_skipped)
    RUN(plain_bits_keep_what_looks_like_emulation_prevention)
    RUN(an_emulation_prevention_byte_at_the_very_end_is_an_overrun)
    RUN(a_header_longer_than_the_unit_is_an_overrun)
    RUN(a_cursor_over_no_bytes_gives_none_from_a_place_that_is) RUN(exp_golomb_numbers_are_read_to_their_limits)
    RUN(more_than_31_leading_zeros_are_an_overrun)
    RUN(no_bytes_behind_nothing_are_no_failure)
    RUN(a_bit_overrun_sticks)
    RUN(the_byte_past_the_end_of_a_unit_is_left_alone))
