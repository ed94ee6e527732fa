/* test_sampler.c - random numbers, the keyed permutation, shards: known answers, published constructions, and
 * statistics. Every seed is fixed, so a statistical test either always passes or always fails; bounds are five standard
 * deviations. */
#include "library.h"
#include "test.h"
#include "orders.h"

/* ---- Oracles ----------------------------------------------------------------------------------------------------- */

/* Philox4x32-10 from the paper (Salmon et al. 2011, section 4.3), written as bijections of named words instead of the
 * library's loop. */
static void oracle_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t x[4], k[2];
    memcpy(x, counter, sizeof x);
    memcpy(k, key, sizeof k);
    for (int round = 1; round <= 10; round++) {
        uint64_t left = x[0], right = x[2];
        uint32_t y[4];
        left *= 0xD2511F53u;
        right *= 0xCD9E8D57u;
        y[0] = (uint32_t)(right >> 32) ^ x[1] ^ k[0];
        y[1] = (uint32_t)(right & 0xffffffffu);
        y[2] = (uint32_t)(left >> 32) ^ x[3] ^ k[1];
        y[3] = (uint32_t)(left & 0xffffffffu);
        memcpy(x, y, sizeof x);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    memcpy(out, x, sizeof x);
}

/* Word n of the stream of (seed, epoch, sample, operation), as the comment over bzna_random says. */
static uint32_t oracle_word(uint64_t seed, uint64_t epoch, uint64_t sample, uint32_t operation, uint32_t n)
{
    uint32_t seed_words[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) },
             epoch_words[4] = { (uint32_t)epoch, (uint32_t)(epoch >> 32), 0, 0 };
    uint32_t derived[4], key[2], counter[4] = { (uint32_t)sample, (uint32_t)(sample >> 32), operation, n / 4 },
                                 block[4];
    oracle_philox(epoch_words, seed_words, derived);
    key[0] = derived[0];
    key[1] = derived[1];
    oracle_philox(counter, key, block);
    return block[n % 4];
}

static uint64_t scramble_state = 88172645463325252ull;

static uint64_t scramble(void)          /* xorshift64*: unrelated to Philox */
{
    scramble_state ^= scramble_state >> 12;
    scramble_state ^= scramble_state << 25;
    scramble_state ^= scramble_state >> 27;
    return scramble_state * 2685821657736338717ull;
}

/* Is the chi-square of counts against equal expectations what chance gives? */
static void check_uniform(const char *what, const uint32_t *counts, uint32_t cells, double total, double degrees)
{
    double expected = total / cells, sum = 0;
    for (uint32_t i = 0; i < cells; i++)
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    if (fabs(sum - degrees) > 5 * sqrt(2 * degrees) + 10) {
        test_failures++;
        printf("  %s: chi-square %.1f with %.0f degrees of freedom\n", what, sum, degrees);
    }
}

/* ---- Philox and streams ------------------------------------------------------------------------------------------ */

static void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    memcpy(out, counter, 4 * sizeof *out);
    bzi_kernel_philox(key, out);
}

TEST(philox_gives_the_published_vectors_of_random123)
{
    static const struct { uint32_t counter[4], key[2], out[4]; } known[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff }, { 0xffffffff, 0xffffffff },
            { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 }, { 0xa4093822, 0x299f31d0 },
            { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4], other[4];
        philox(known[i].counter, known[i].key, out);
        oracle_philox(known[i].counter, known[i].key, other);
        for (int w = 0; w < 4; w++) {
            CHECK_EQ(out[w], known[i].out[w]);
            CHECK_EQ(other[w], known[i].out[w]);            /* the oracle of the tests below */
        }
    }
    for (int i = 0; i < 1000; i++) {
        uint32_t counter[4], key[2], out[4], other[4];
        for (int w = 0; w < 4; w++)
            counter[w] = (uint32_t)(scramble() >> 32);
        key[0] = (uint32_t)(scramble() >> 32);
        key[1] = (uint32_t)(scramble() >> 32);
        philox(counter, key, out);
        oracle_philox(counter, key, other);
        CHECK(!memcmp(out, other, sizeof out));
    }
}

TEST(streams_are_made_as_the_header_says)
{
    static const uint64_t values[] = { 0, 1, 2, 0xffffffffu, 0x100000000u, 0x123456789abcdef0u, UINT64_MAX };
    static const uint32_t operations[] = { 0, 1, 16, 17, UINT32_MAX };
    for (size_t s = 0; s < 7; s++)
        for (size_t e = 0; e < 7; e++)
            for (size_t i = 0; i < 7; i++)
                for (size_t o = 0; o < 5; o++) {
                    bzna_random random;
                    bzna_random_init(&random, values[s], values[e], values[i], operations[o]);
                    for (uint32_t n = 0; n < 11; n++)
                        CHECK_EQ(bzna_random_u32(&random),
                                 oracle_word(values[s], values[e], values[i], operations[o], n));
                }
}

TEST(uniform_takes_two_words_low_then_high)
{
    bzna_random random;
    bzna_random_init(&random, 99, 7, 12345, BZNA_RANDOM_USER);
    for (uint32_t n = 0; n < 2000; n += 2) {
        uint64_t low = oracle_word(99, 7, 12345, 16, n), high = oracle_word(99, 7, 12345, 16, n + 1),
                 k = (high << 32 | low) >> 11;
        double expected = -3.5 + (8.25 - -3.5) * ((double)k / 9007199254740992.0);
        CHECK(bzna_random_uniform(&random, -3.5, 8.25) == expected);
    }
}

TEST(a_copy_of_a_stream_repeats_its_numbers)
{
    bzna_random random, copy;
    bzna_random_init(&random, 1, 2, 3, 4);
    for (int skip = 0; skip < 9; skip++) {
        copy = random;
        for (int i = 0; i < 20; i++) {
            bzna_random a = random;
            uint32_t word = bzna_random_u32(&random);
            CHECK_EQ(bzna_random_u32(&a), word);
            CHECK_EQ(bzna_random_u32(&copy), word);
        }
        bzna_random_u32(&random);
    }
}

TEST(streams_that_differ_in_one_bit_of_anything_are_unrelated)
{
    enum { STREAMS = 1 + 64 * 3 + 32, WORDS = 64 };
    static uint32_t words[STREAMS][WORDS];
    uint64_t base[3] = { 0x5eed, 3, 1000 }, agree = 0, bits = 0;
    for (int i = 0; i < STREAMS; i++) {
        uint64_t v[3] = { base[0], base[1], base[2] };
        uint32_t operation = BZNA_RANDOM_WARP;
        bzna_random random;
        if (i > 192)
            operation ^= 1u << (i - 193);
        else if (i > 0)
            v[(i - 1) / 64] ^= 1ull << ((i - 1) % 64);
        bzna_random_init(&random, v[0], v[1], v[2], operation);
        for (int n = 0; n < WORDS; n++)
            words[i][n] = bzna_random_u32(&random);
    }
    for (int i = 0; i < STREAMS; i++)
        for (int j = 0; j < i; j++) {
            uint64_t here = 0;
            for (int n = 0; n < WORDS; n++) {
                here += (uint64_t)__builtin_popcount(~(words[i][n] ^ words[j][n]));
                CHECK(n + 1 == WORDS || words[i][n] != words[j][n] || words[i][n + 1] != words[j][n + 1]);
            }
            agree += here;
            bits += 32 * WORDS;
            CHECK_NEAR((double)here, 16 * WORDS, 6 * sqrt(8 * WORDS));       /* each pair: 2048 coins */
        }
    CHECK_NEAR((double)agree / (double)bits, 0.5, 5 * sqrt(0.25 / (double)bits));
}

TEST(uniform_numbers_are_uniform)
{
    enum { N = 400000, CELLS = 200 };
    static uint32_t counts[CELLS], pairs[32 * 32];
    double sum = 0, squares = 0, lag = 0, previous = 0.5;
    for (uint64_t sample = 0; sample < N / 8; sample++) {         /* eight numbers a sample, as transforms take them */
        bzna_random random;
        bzna_random_init(&random, 20, 1, sample, BZNA_RANDOM_WARP);
        for (int i = 0; i < 8; i++) {
            double u = bzna_random_uniform(&random, 0, 1);
            CHECK(u >= 0 && u < 1);
            counts[(int)(u * CELLS)]++;
            pairs[(int)(previous * 32) * 32 + (int)(u * 32)]++;
            sum += u;
            squares += u * u;
            lag += (u - 0.5) * (previous - 0.5);
            previous = u;
        }
    }
    CHECK_NEAR(sum / N, 0.5, 5 * sqrt(1.0 / 12 / N));
    CHECK_NEAR(squares / N - (sum / N) * (sum / N), 1.0 / 12, 5 * sqrt(1.0 / 180 / N));
    CHECK_NEAR(lag / N, 0, 5 * sqrt(1.0 / 144 / N));
    check_uniform("uniform", counts, CELLS, N, CELLS - 1);
    check_uniform("successive pairs", pairs, 32 * 32, N, 32 * 32 - 1);
}

TEST(first_numbers_of_neighboring_samples_and_epochs_are_uniform)
{
    enum { N = 200000 };
    static uint32_t by_sample[32 * 32], by_epoch[32 * 32], by_seed[32 * 32];
    double previous[3] = { 0, 0, 0 };
    for (uint64_t i = 0; i <= N; i++) {
        bzna_random random;
        double u[3];
        bzna_random_init(&random, 5, 0, i, 0);
        u[0] = bzna_random_uniform(&random, 0, 1);
        bzna_random_init(&random, 5, i, 0, 0);
        u[1] = bzna_random_uniform(&random, 0, 1);
        bzna_random_init(&random, i, 0, 0, 0);
        u[2] = bzna_random_uniform(&random, 0, 1);
        if (i) {
            by_sample[(int)(previous[0] * 32) * 32 + (int)(u[0] * 32)]++;
            by_epoch[(int)(previous[1] * 32) * 32 + (int)(u[1] * 32)]++;
            by_seed[(int)(previous[2] * 32) * 32 + (int)(u[2] * 32)]++;
        }
        memcpy(previous, u, sizeof u);
    }
    check_uniform("neighboring samples", by_sample, 1024, N, 1023);
    check_uniform("neighboring epochs", by_epoch, 1024, N, 1023);
    check_uniform("neighboring seeds", by_seed, 1024, N, 1023);
}

/* Expected words by a Philox of Python's integers, from the header's words alone. */
TEST(views_and_occurrences_of_a_sample_have_streams_of_their_own)
{
    static const struct { uint32_t view; uint64_t occurrence; uint32_t words[4]; } known[] = {
        { 0, 0, { 0x3cf3e08d, 0x4cc55af4, 0x77c3fa94, 0x890dc105 } },
        { 1, 0, { 0xa83fd076, 0xbaf3aa3f, 0x40816e1a, 0xf6b3f4d3 } },
        { 0, 1, { 0x7f47a3b0, 0x611498b3, 0x61c78113, 0x44d19add } },
        { 0, 30064771081, { 0xc6a7e3c4, 0x51b59823, 0x88450d2d, 0xc15e41e6 } },
        { 3, 1000000, { 0xad3ddeca, 0xdece89a9, 0xc6d0e77e, 0xebd25244 } },
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        bzna_random random;
        bzna_random_init(&random, 1234, 5, 1000000, BZNA_RANDOM_USER);
        bzi_random_fork(&random, known[i].view, known[i].occurrence);
        for (int k = 0; k < 4; k++)
            CHECK_EQ(bzna_random_u32(&random), known[i].words[k]);
    }
}

TEST(uniform_of_any_range_stays_in_it)
{
    static const double ranges[][2] = { { -1, 1 },        { 0, 1e-300 }, { 0.75, 4.0 / 3 }, { -180, 180 },
                                        { 1e6, 1e6 + 1 }, { 0, 7 },      { -0.25, 0 } };
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
        bzna_random random;
        double lowest = INFINITY, highest = -INFINITY, width = ranges[r][1] - ranges[r][0];
        bzna_random_init(&random, r, 0, 0, 0);
        for (int i = 0; i < 20000; i++) {
            double u = bzna_random_uniform(&random, ranges[r][0], ranges[r][1]);
            CHECK(u >= ranges[r][0] && u < ranges[r][1]);
            lowest = fmin(lowest, u);
            highest = fmax(highest, u);
        }
        /* and reaches both ends */
        CHECK(lowest - ranges[r][0] < width * 1e-3 && ranges[r][1] - highest < width * 1e-3);
    }
}

/* ---- The permutation --------------------------------------------------------------------------------------------- */

static void check_bijection(uint64_t seed, uint64_t epoch, uint64_t count)
{
    uint8_t *seen = calloc(count, 1);
    bzi_permutation p = bzi_permutation_make(seed, epoch, count);
    uint64_t bad = 0;
    REQUIRE(seen != NULL);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t value = bzi_permutation_at(&p, i);
        bad += value >= count || seen[value];
        if (value < count)
            seen[value] = 1;
        if (i < 50 || i % 997 == 0)
            bad += bzna_order_permute(seed, epoch, count, i) != value;
    }
    free(seen);
    if (bad) {
        test_failures++;
        printf("  count %llu: %llu positions are wrong\n", (unsigned long long)count, (unsigned long long)bad);
    }
}

TEST(an_order_has_every_index_once)
{
    for (uint64_t count = 1; count <= 300; count++)
        for (uint64_t epoch = 0; epoch < 4; epoch++)
            check_bijection(17, epoch, count);
    check_bijection(1, 0, 511);
    check_bijection(1, 0, 512);
    check_bijection(1, 0, 513);
    check_bijection(UINT64_MAX, UINT64_MAX, 1000);
    check_bijection(0, 0, 4096);
    check_bijection(0, 1, 65537);
    check_bijection(2, 0, 1000000);
}

TEST(a_position_outside_the_count_has_no_index)
{
    CHECK(bzna_order_permute(1, 1, 0, 0) == UINT64_MAX);
    CHECK(bzna_order_permute(1, 1, 10, 10) == UINT64_MAX);
    CHECK(bzna_order_permute(1, 1, 10, UINT64_MAX) == UINT64_MAX);
    CHECK(bzna_order_permute(1, 1, ((uint64_t)1 << 63) + 1, 0) == UINT64_MAX);
    CHECK(bzna_order_permute(1, 1, UINT64_MAX, 5) == UINT64_MAX);
    CHECK(bzna_order_permute(1, 1, 1, 0) == 0);
}

/* What a saved state relies on: today's orders are tomorrow's. */
TEST(orders_are_the_stored_ones)
{
    for (size_t k = 0; k < sizeof stored_orders / sizeof *stored_orders; k++) {
        const stored_order *o = &stored_orders[k];
        uint64_t wrong = 0;
        for (uint32_t i = 0; o->kind == ORDER_SHUFFLED && i < o->n; i++)
            wrong += bzna_order_permute(o->seed, o->epoch, o->count, o->first + i) != o->at[i];
        if (wrong) {
            test_failures++;
            printf("  seed %llu, epoch %llu, %llu samples: %llu of %u positions are wrong\n",
                   (unsigned long long)o->seed, (unsigned long long)o->epoch, (unsigned long long)o->count,
                   (unsigned long long)wrong, o->n);
        }
    }
}

/* And they come from the script, which knows nothing of the library. */
TEST(the_stored_orders_are_what_their_script_writes)
{
    FILE *stored = fopen("tests/unit/orders.h", "rb"), *made;
    int same = 1, a = 0, b = 0;
    long bytes = 0;
    if (system("python3 -c '' >/dev/null 2>&1")) {
        if (stored)
            fclose(stored);
        SKIP("no python3 [python3]");
    }
    made = popen("python3 tests/peers/orders.py", "r");
    CHECK(stored != NULL && made != NULL);
    while (stored && made && same && a != EOF) {
        a = getc(stored);
        b = getc(made);
        same = a == b;
        bytes++;
    }
    CHECK(same && bytes > 10000);
    if (stored)
        fclose(stored);
    if (made)
        CHECK_EQ(pclose(made), 0);
}

TEST(an_order_has_one_fixed_point_on_average)
{
    static const uint64_t counts[] = { 3, 7, 10, 64, 100, 1000 };
    for (size_t c = 0; c < 6; c++) {
        enum { EPOCHS = 4000 };
        uint64_t fixed = 0;
        for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
            bzi_permutation p = bzi_permutation_make(3, epoch, counts[c]);
            for (uint64_t i = 0; i < counts[c]; i++)
                fixed += bzi_permutation_at(&p, i) == i;
        }
        /* the number of fixed points has mean 1 and variance 1 */
        CHECK_NEAR((double)fixed / EPOCHS, 1, 5 / sqrt(EPOCHS));
    }
}

TEST(each_index_comes_equally_often_at_each_position)
{
    static const uint32_t counts[] = { 3, 7, 10, 64, 100 };
    static uint32_t cells[100 * 100];
    char what[64];
    for (int by_seed = 0; by_seed < 2; by_seed++)
        for (size_t c = 0; c < 5; c++) {
            uint32_t n = counts[c], epochs = n * 200;
            memset(cells, 0, sizeof cells);
            for (uint64_t epoch = 0; epoch < epochs; epoch++) {
                bzi_permutation p = by_seed ? bzi_permutation_make(epoch, 0, n) : bzi_permutation_make(11, epoch, n);
                for (uint64_t i = 0; i < n; i++)
                    cells[i * n + bzi_permutation_at(&p, i)]++;
            }
            snprintf(what, sizeof what, "positions of %u, over %s", n, by_seed ? "seeds" : "epochs");
            check_uniform(what, cells, n * n, (double)epochs * n, ((double)n - 1) * (n - 1));
        }
    memset(cells, 0, sizeof cells);
    for (uint64_t epoch = 0; epoch < 3000; epoch++) {        /* 1000 positions in 100 x 100 blocks of ten */
        bzi_permutation p = bzi_permutation_make(12, epoch, 1000);
        for (uint64_t i = 0; i < 1000; i++)
            cells[i / 10 * 100 + bzi_permutation_at(&p, i) / 10]++;
    }
    check_uniform("blocks of 1000", cells, 10000, 3000.0 * 1000, 99.0 * 99);
}

TEST(all_orders_of_few_samples_are_equally_likely)
{
    enum { EACH = 20 };
    static const uint32_t factorial[] = { 1, 1, 2, 6, 24, 120, 720, 5040 };
    static uint32_t cells[5040];
    char what[64];
    for (uint32_t n = 2; n <= 7; n++) {
        uint32_t epochs = factorial[n] * EACH * (n < 5 ? 50 : 1);
        memset(cells, 0, sizeof cells);
        for (uint64_t epoch = 0; epoch < epochs; epoch++) {
            bzi_permutation p = bzi_permutation_make(13, epoch, n);
            uint32_t rank = 0, order[7];
            for (uint32_t i = 0; i < n; i++)
                order[i] = (uint32_t)bzi_permutation_at(&p, i);
            for (uint32_t i = 0; i < n; i++) {               /* the Lehmer code */
                uint32_t smaller = 0;
                for (uint32_t j = i + 1; j < n; j++)
                    smaller += order[j] < order[i];
                rank += smaller * factorial[n - 1 - i];
            }
            cells[rank]++;
        }
        snprintf(what, sizeof what, "orders of %u", n);
        check_uniform(what, cells, factorial[n], epochs, factorial[n] - 1.0);
    }
}

TEST(neighbors_in_an_order_are_unrelated)
{
    static const uint32_t counts[] = { 7, 10, 64, 100, 1000 };
    static uint32_t distances[1000], pairs[10 * 10], compact[90];
    char what[64];
    for (size_t c = 0; c < 5; c++)
        for (uint32_t step = 1; step <= 2; step++) {
            uint32_t n = counts[c];
            uint64_t total = 0;
            memset(distances, 0, sizeof distances);
            for (uint64_t epoch = 0; total < (uint64_t)n * 400; epoch++) {
                bzi_permutation p = bzi_permutation_make(14, epoch, n);
                /* disjoint pairs, so that they count as independent */
                for (uint64_t i = 0; i + step < n; i += 2 * step, total++)
                    distances[(bzi_permutation_at(&p, i + step) + n - bzi_permutation_at(&p, i)) % n]++;
            }
            CHECK_EQ(distances[0], 0);
            snprintf(what, sizeof what, "distances of %u, %u apart", n, step);
            check_uniform(what, distances + 1, n - 1, (double)total, n - 2.0);
        }
    for (uint64_t epoch = 0; epoch < 90 * 400; epoch++)
        pairs[bzna_order_permute(15, epoch, 10, 4) * 10 + bzna_order_permute(15, epoch, 10, 5)]++;
    for (int i = 0, n = 0; i < 100; i++)
        if (i / 10 != i % 10)
            compact[n++] = pairs[i];
    check_uniform("ordered pairs of 10", compact, 90, 90.0 * 400, 89);
}

TEST(orders_of_other_seeds_and_epochs_are_other_orders)
{
    enum { N = 1000, ORDERS = 40 };
    static uint64_t orders[ORDERS][N];
    double same = 0;
    for (uint64_t k = 0; k < ORDERS; k++) {
        uint64_t seed = k < 20 ? 5 : 5 + k, epoch = k < 20 ? k : 0;
        for (uint64_t i = 0; i < N; i++)
            orders[k][i] = bzna_order_permute(seed, epoch, N, i);
        for (uint64_t other = 0; other < k; other++) {
            int here = 0;
            for (uint64_t i = 0; i < N; i++)
                here += orders[k][i] == orders[other][i];
            CHECK(here < 12);                                /* a Poisson number of mean 1 */
            same += here;
        }
    }
    CHECK_NEAR(same / (ORDERS * (ORDERS - 1) / 2), 1, 5 / sqrt(ORDERS * (ORDERS - 1) / 2));
    CHECK(bzna_order_permute(5, 1ull << 32, N, 0) != bzna_order_permute(5, 0, N, 0) ||
          bzna_order_permute(5, 1ull << 32, N, 1) != bzna_order_permute(5, 0, N, 1));
    CHECK(bzna_order_permute(1ull << 32, 0, N, 0) != bzna_order_permute(0, 0, N, 0) ||
          bzna_order_permute(1ull << 32, 0, N, 1) != bzna_order_permute(0, 0, N, 1));
}

TEST(the_order_is_not_keyed_as_the_samples_random_numbers_are)
{
    for (uint64_t seed = 0; seed < 100; seed++) {
        bzi_permutation p = bzi_permutation_make(seed, seed * 3, 1000);
        bzna_random random;
        bzna_random_init(&random, seed, seed * 3, 0, BZNA_RANDOM_WARP);
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 2; k++)
                CHECK((uint32_t)(p.key[i / 2] >> i % 2 * 32) != random.key[k]);
    }
}

/* The library's network backwards, round by round. */
static uint64_t permutation_inverse(const bzi_permutation *p, uint64_t index)
{
    uint64_t value = index;
    do {
        uint64_t row = value / p->columns, column = value % p->columns;
        for (int round = BZI_PERMUTATION_ROUNDS - 1; round >= 0; round--) {
            uint64_t key = p->key[0] + (uint64_t)round * (p->key[1] | 1);
            if (round % 2)
                column = (column + p->columns - bzi_permutation_mix(row, key, p->columns)) % p->columns;
            else
                row = (row + p->rows - bzi_permutation_mix(column, key, p->rows)) % p->rows;
        }
        value = row * p->columns + column;
    } while (value >= p->count);
    return value;
}

TEST(large_orders_stay_in_range_and_can_be_inverted)
{
    static const uint64_t counts[] = { 1281167,          1ull << 32,       (1ull << 40) + 1, (1ull << 62) - 1,
                                       (1ull << 62) + 1, (1ull << 63) - 1, 1ull << 63 };
    static uint64_t values[2000];
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        bzi_permutation p = bzi_permutation_make(c, 9, counts[c]);
        double mean = 0;
        for (int i = 0; i < 2000; i++) {
            uint64_t position = i < 1000 ? (uint64_t)i : i < 1500 ? counts[c] - (uint64_t)i : scramble() % counts[c];
            uint64_t value = bzna_order_permute(c, 9, counts[c], position);
            CHECK(value < counts[c]);
            CHECK(value == bzi_permutation_at(&p, position));
            CHECK(permutation_inverse(&p, value) == position);
            values[i] = value;
            mean += (double)value / (double)counts[c] / 2000;
        }
        CHECK_NEAR(mean, 0.5, 5 * sqrt(1.0 / 12 / 2000));
        for (int i = 0; i < 200; i++)
            for (int j = 0; j < i; j++)
                CHECK(values[i] != values[j]);
    }
}

/* Of this thread's own: what others do on the machine costs nothing. */
static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* 40 and 100 ns where this was written; a walk over the samples would cost thousands of times that. */
TEST(a_position_costs_little)
{
    enum { N = 1000000 };
    static const uint64_t counts[] = { 1000, 1281167, (1ull << 20) + 1 };
    for (size_t c = 0; c < 3; c++) {
        bzi_permutation p = bzi_permutation_make(1, 1, counts[c]);
        uint64_t sum = 0, start = cpu_ns(), prepared, whole;
        for (uint64_t i = 0; i < N; i++)
            sum += bzi_permutation_at(&p, i % counts[c]);
        prepared = cpu_ns() - start;
        start = cpu_ns();
        for (uint64_t i = 0; i < N / 4; i++)
            sum -= bzna_order_permute(1, 1, counts[c], i % counts[c]);
        whole = (cpu_ns() - start) * 4;
        printf("a position of %llu: %.1f ns prepared, %.1f ns by bzna_order_permute (%llx)\n",
               (unsigned long long)counts[c], (double)prepared / N, (double)whole / N,
               (unsigned long long)sum & 15);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(TEST_EMULATED)
        CHECK(prepared / N < 2000 && whole / N < 2000);
#endif
    }
}

/* ---- Shards ------------------------------------------------------------------------------------------------------ */


/* The positions start .. count - 1 dealt as DistributedSampler deals them, one rank after the other. */
static void check_shards(uint64_t count, uint64_t start, uint32_t world, uint32_t batch, uint32_t last_batch)
{
    static uint8_t seen[4096];
    uint64_t bad = 0, left = count - start, step = (uint64_t)world * batch,
             batches = last_batch == BZNA_LAST_DROP ? left / step : (left + step - 1) / step;
    uint64_t end = last_batch == BZNA_LAST_DROP ? start + batches * step : count;
    memset(seen, 0, sizeof seen);
    for (uint32_t rank = 0; rank < world; rank++) {
        bzi_shard shard = { count, start, batch, world, rank, last_batch, 0, 0, NULL };
        uint64_t next = start + rank; /* the rank's own list: start + rank, + world, + world, ... */
        bad += bzi_shard_batches(&shard) != batches;         /* the same for every rank */
        for (uint64_t j = 0; j < batches; j++) {
            uint32_t real = bzi_shard_real(&shard, j);
            uint64_t first = bzi_shard_position(&shard, j);
            bad += real > batch || first != next;
            bad += last_batch == BZNA_LAST_DROP && real != batch;
            bad += j + 1 < batches && real != batch;         /* only the last may be short */
            for (uint32_t slot = 0; slot < batch; slot++, next += world) {
                bad += (slot < real) != (next < count);      /* real samples come first, and all of them */
                if (slot < real && next < sizeof seen)
                    seen[next]++;
            }
        }
    }
    for (uint64_t i = 0; i < count; i++)
        bad += seen[i] != (i >= start && i < end);           /* exactly once, all ranks together */
    if (bad) {
        test_failures++;
        printf("  count %llu from %llu, world %u, batch %u, policy %u: %llu faults\n", (unsigned long long)count,
               (unsigned long long)start, world, batch, last_batch, (unsigned long long)bad);
    }
}

TEST(all_ranks_together_take_each_position_once_in_equally_many_batches)
{
    static const uint64_t counts[] = { 1, 2, 5, 63, 64, 65, 100, 333, 1000 };
    static const uint32_t batches[] = { 1, 2, 3, 8, 17, 64, 256 };
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (uint32_t world = 1; world <= 64; world++)
            for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
                for (uint32_t policy = 0; policy < 3; policy++)
                    check_shards(counts[c], 0, world, batches[b], policy);
}

TEST(a_shard_may_start_anywhere)
{
    for (int i = 0; i < 3000; i++) {
        uint64_t count = 1 + scramble() % 500, start = scramble() % (count + 1);
        check_shards(count, start, 1 + (uint32_t)(scramble() % 64), 1 + (uint32_t)(scramble() % 40),
                     (uint32_t)(scramble() % 3));
    }
}

/* A run that changes its world size, batch size and policy in the middle: what the parts took, together, is the
 * epoch. */
TEST(the_world_may_change_in_the_middle_of_an_epoch)
{
    static uint8_t seen[600];
    for (int run = 0; run < 2000; run++) {
        uint64_t count = 1 + scramble() % 600, start = 0, bad = 0;
        memset(seen, 0, sizeof seen);
        while (start < count) {
            uint32_t world = 1 + (uint32_t)(scramble() % 20), batch = 1 + (uint32_t)(scramble() % 20);
            uint64_t before = start, stop = scramble() % 4, end = start;
            for (uint32_t rank = 0; rank < world; rank++) {
                const uint32_t last = run % 2 ? BZNA_LAST_PAD : BZNA_LAST_PARTIAL;
                bzi_shard shard = { count, before, batch, world, rank, last, 0, 0, NULL };
                uint64_t total = bzi_shard_batches(&shard), take = bzi_min(total, stop);
                for (uint64_t j = 0; j < take; j++)
                    for (uint32_t slot = 0; slot < bzi_shard_real(&shard, j); slot++)
                        seen[bzi_shard_position(&shard, j) + (uint64_t)slot * world]++;
                end = take == total ? count : before + take * bzi_shard_step(&shard);
            }
            start = end;
        }
        for (uint64_t i = 0; i < count; i++)
            bad += seen[i] != 1;
        CHECK_EQ(bad, 0);
    }
}

TEST(a_huge_shard_does_not_overflow)
{
    bzi_shard shard = { 1ull << 32, 1ull << 31, 65536, UINT32_MAX, 7, BZNA_LAST_PARTIAL, 0, 0, NULL };
    CHECK_EQ(bzi_shard_batches(&shard), 1);
    CHECK_EQ(bzi_shard_position(&shard, 0), (1ll << 31) + 7);
    CHECK_EQ(bzi_shard_real(&shard, 0), 1);
    shard.last_batch = BZNA_LAST_DROP;
    CHECK_EQ(bzi_shard_batches(&shard), 0);
    shard.rank = UINT32_MAX - 1;
    CHECK_EQ(bzi_shard_real(&shard, 0), 0);                  /* past the end: nothing real */
}

TEST_MAIN(
    RUN(philox_gives_the_published_vectors_of_random123)
    RUN(streams_are_made_as_the_header_says)
    RUN(uniform_takes_two_words_low_then_high)
    RUN(a_copy_of_a_stream_repeats_its_numbers)
    RUN(streams_that_differ_in_one_bit_of_anything_are_unrelated)
    RUN(uniform_numbers_are_uniform)
    RUN(first_numbers_of_neighboring_samples_and_epochs_are_uniform)
    RUN(views_and_occurrences_of_a_sample_have_streams_of_their_own)
    RUN(uniform_of_any_range_stays_in_it)
    RUN(an_order_has_every_index_once)
    RUN(a_position_outside_the_count_has_no_index)
    RUN(orders_are_the_stored_ones)
    RUN(the_stored_orders_are_what_their_script_writes)
    RUN(an_order_has_one_fixed_point_on_average)
    RUN(each_index_comes_equally_often_at_each_position)
    RUN(all_orders_of_few_samples_are_equally_likely)
    RUN(neighbors_in_an_order_are_unrelated)
    RUN(orders_of_other_seeds_and_epochs_are_other_orders)
    RUN(the_order_is_not_keyed_as_the_samples_random_numbers_are)
    RUN(large_orders_stay_in_range_and_can_be_inverted)
    RUN(a_position_costs_little)
    RUN(all_ranks_together_take_each_position_once_in_equally_many_batches)
    RUN(a_shard_may_start_anywhere)
    RUN(the_world_may_change_in_the_middle_of_an_epoch)
    RUN(a_huge_shard_does_not_overflow)
)
