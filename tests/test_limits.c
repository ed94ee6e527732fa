/* test_limits.c - what a file may cost: memory and reads are bounded by its size, whatever numbers stand in it. */
#include "../benzina.c"
#include "test.h"

#pragma GCC diagnostic ignored "-Wunused-function"          /* fuzz.h has more */
#include "fuzz/fuzz.h"

static const char *const paths[] = {
    "tests/data/seeds/h264.mp4", "tests/data/seeds/h265.mp4", "tests/data/seeds/av1.mp4", "tests/data/seeds/fragments.mp4",
    "tests/data/slices_h264.bzna", "tests/data/heif/grid.heic", "tests/data/heif/grid.avif", "tests/data/heif/pieces.heic",
    "tests/data/heif/thumb.heic", "tests/data/heif/sequence.heics", "tests/data/seeds/labels.rec" };

typedef struct cost {
    int64_t peak, read;               /* the most that opening took and read, beyond what its size allows */
    size_t  at, opened;               /* which byte that was; how many files opened */
} cost;

/* What opening costs, less what the size allows. All comes back. */
static void open_counted(const uint8_t *data, size_t size, size_t at, cost *worst)
{
    const int64_t bound = FUZZ_OPEN_BYTES + FUZZ_OPEN_RATIO * (int64_t)size, before = fuzz_ledger.held;
    source s = { .b = { data, size } };
    bzna_source callbacks = source_of(&s);
    bzna_dataset *dataset = NULL;
    fuzz_ledger.peak = before;
    if (bzna_dataset_open_source(fuzz_context(), &callbacks, NULL, &dataset, NULL) == BZNA_OK) {
        bzna_dataset_close(dataset);
        worst->opened++;
    }
    CHECK_EQ(fuzz_ledger.held, before);
    if (fuzz_ledger.peak - before - bound > worst->peak) {
        worst->peak = fuzz_ledger.peak - before - bound;
        worst->at = at;
    }
    worst->read = s.read - bound > worst->read ? s.read - bound : worst->read;
}

/* Each number of a file in turn asks for so many. */
static void every_number(uint32_t value)
{
    fuzz_context();
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        static uint8_t data[16384];
        FILE *file = fopen(paths[i], "rb");
        size_t size = file ? fread(data, 1, sizeof data, file) : 0;
        cost worst = { INT64_MIN, INT64_MIN, 0, 0 };
        REQUIRE(file && size > 64 && size < sizeof data);
        fclose(file);
        for (size_t at = 0; at + 4 <= size; at++) {
            uint8_t was[4];
            memcpy(was, data + at, 4);
            for (int k = 0; k < 4; k++)
                data[at + (size_t)k] = (uint8_t)(value >> (24 - 8 * k));
            open_counted(data, size, at, &worst);
            memcpy(data + at, was, 4);
        }
        CHECK(worst.opened > size / 10 && worst.opened < size);
        CHECK(worst.peak <= 0);
        CHECK(worst.read <= 0);
        if (worst.peak > 0 || worst.read > 0)
            printf("  %s: %lld bytes too many, by byte %zu; %lld read\n", paths[i], (long long)worst.peak, worst.at,
                   (long long)worst.read);
    }
}

TEST(a_file_that_asks_for_a_thousand_million_entries_costs_what_its_size_allows) { every_number(1000000000); }
TEST(a_file_that_asks_for_a_million_entries_costs_what_its_size_allows) { every_number(1000000); }
TEST(a_file_that_asks_for_all_that_32_bits_hold_costs_what_its_size_allows) { every_number(UINT32_MAX); }

TEST_MAIN(RUN(a_file_that_asks_for_a_thousand_million_entries_costs_what_its_size_allows)
    RUN(a_file_that_asks_for_a_million_entries_costs_what_its_size_allows)
    RUN(a_file_that_asks_for_all_that_32_bits_hold_costs_what_its_size_allows))
