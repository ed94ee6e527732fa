/* Lists that are drawn by weights: examples/formats/weighted.c. What loaders make of lists: test_given.c. */
#include "library.h"
#include "with_formats.h"
#include "test.h"
#include "orders.h"
#include "../../examples/formats/weighted.c"

/* ---- Data sets of which nothing but the number of samples counts ------------------------------------------------- */

static bzna_context *context;

static void require(bzna_status status, const char *what)
{
    if (status == BZNA_OK)
        return;
    printf("  no %s\n", what);
    exit(1);
}

enum { EDGE = 2, PIXELS = EDGE * EDGE };

/* Each sample's picture has its number in all pixels. */
static bzna_status read_gray(void *user, uint64_t index, uint32_t field, void *buffer, uint64_t capacity,
                             uint64_t *size, bzna_error *err)
{
    (void)user, (void)field, (void)err;
    *size = PIXELS;
    if (capacity >= PIXELS)
        memset(buffer, (int)(index & 255), PIXELS);
    return BZNA_OK;
}

static bzna_dataset *samples_of(uint64_t count)
{
    static const bzna_provider_field image = { .name = "image", .kind = BZNA_FIELD_IMAGE, .codec = BZNA_CODEC_RAW,
                                               .width = EDGE, .height = EDGE, .channels = 1,
                                               .layout = BZNA_LAYOUT_NHWC };
    const bzna_provider provider = { .struct_size = sizeof provider, .count = count, .fields = &image,
                                     .field_count = 1, .read = read_gray };
    bzna_dataset *dataset = NULL;
    if (!context)
        require(bzna_context_open(NULL, &context, NULL), "context");
    require(bzna_dataset_open_provider(context, &provider, NULL, &dataset, NULL), "provider");
    return dataset;
}

static bzna_formats_weights weights_of(const double *weights, uint64_t count, uint32_t weighting)
{
    return (bzna_formats_weights){ .struct_size = sizeof(bzna_formats_weights), .weighting = weighting,
                                   .weights = weights, .weight_count = count, .seed = 77 };
}

/* Draws epochs one after the other. Returns the number of all draws. */
static uint64_t draw_epochs(const bzna_dataset *dataset, const bzna_formats_weights *w, uint64_t first, uint64_t epochs,
                            uint64_t *got, uint64_t room)
{
    uint64_t at = 0, count = 0;
    for (uint64_t e = 0; e < epochs; e++, at += count)
        CHECK_EQ(bzna_formats_weighted_list(dataset, w, first + e, got + at, room - at, &count, NULL), BZNA_OK);
    return at;
}

/* ---- Draws ------------------------------------------------------------------------------------------------------- */

static double chi_square(const uint64_t *counts, const double *weights, uint64_t n, uint64_t total)
{
    double sum = 0, chi = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += weights[i];
    for (uint64_t i = 0; i < n; i++) {
        double expected = weights[i] / sum * (double)total;
        if (weights[i] > 0)
            chi += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
        else
            CHECK_EQ(counts[i], 0);
    }
    return chi;
}

TEST(weighted_draws_with_replacement_follow_the_weights)
{
    enum { DRAWS = 24000 };
    static uint64_t got[DRAWS];
    double weights[40], by_part[3] = { 1, 0, 3 };
    uint64_t counts[105] = { 0 };
    bzna_dataset *dataset = samples_of(40), *second = samples_of(25), *parts[3], *all = NULL;
    bzna_formats_weights w = weights_of(weights, 40, 0);    /* which is the default */
    for (int i = 0; i < 40; i++)
        weights[i] = i % 8 == 7 || i == 0 || i == 39 ? 0 : 0.5 + i % 5;
    w.epoch_samples = DRAWS / 2;
    CHECK_EQ(draw_epochs(dataset, &w, 0, 2, got, DRAWS), DRAWS);
    for (uint64_t i = 0; i < DRAWS; i++)
        counts[got[i]]++;
    CHECK(chi_square(counts, weights, 40, DRAWS) < 33 + 6 * 8.2); /* 34 weights: 33 degrees; 6 standard deviations */
    uint64_t same = 0;                                      /* epochs and positions are independent: 1/34 or so agree */
    for (uint64_t i = 0; i < DRAWS / 2; i++)
        same += got[i] == got[i + DRAWS / 2];
    CHECK(same > DRAWS / 2 / 80 && same < DRAWS / 2 / 15);

    parts[0] = parts[2] = dataset;
    parts[1] = second;
    REQUIRE(bzna_dataset_concat(context, parts, 3, &all, NULL) == BZNA_OK);
    memset(counts, 0, sizeof counts);
    w.weights = by_part;
    w.weight_count = 3;
    w.by_part = 1;
    CHECK_EQ(draw_epochs(all, &w, 0, 2, got, DRAWS), DRAWS);
    for (uint64_t i = 0; i < DRAWS; i++)
        counts[got[i]]++;
    double spread[105];
    for (int i = 0; i < 105; i++)
        spread[i] = i < 40 ? 1.0 / 40 : i < 65 ? 0 : 3.0 / 40; /* a part's weight is shared evenly by its samples */
    CHECK(chi_square(counts, spread, 105, DRAWS) < 79 + 6 * 12.6);
    bzna_dataset_close(all);
    bzna_dataset_close(second);
    bzna_dataset_close(dataset);
}

TEST(weighted_draws_without_replacement_take_each_at_most_once_and_as_often_as_a_simulation)
{
    enum { EPOCHS = 4000, K = 5, N = 12 };
    static uint64_t got[EPOCHS * K];
    double weights[N], chi;
    uint64_t included[N] = { 0 }, drawn_at[K][N] = { { 0 } }, simulated_at[K][N] = { { 0 } };
    bzna_dataset *dataset = samples_of(N);
    bzna_formats_weights w = weights_of(weights, N, BZNA_WEIGHTING_ONCE);
    bzna_random random;
    for (int i = 0; i < N; i++)
        weights[i] = i == 4 ? 0 : i == 9 ? 50 : (double)((i * 7) % 11 + 1);    /* one is often first */
    w.epoch_samples = K;
    CHECK_EQ(draw_epochs(dataset, &w, 0, EPOCHS, got, COUNT(got)), EPOCHS * K);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        uint8_t seen[N] = { 0 };
        for (uint64_t i = 0; i < K; i++) {
            uint64_t index = got[epoch * K + i];
            REQUIRE(index < N);
            CHECK(!seen[index] && weights[index] > 0);
            seen[index] = 1;
            included[index]++;
            drawn_at[i][index]++;
        }
    }
    bzna_random_init(&random, 4711, 0, 0, 99);              /* draw, take out, draw again */
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        double left[N], sum = 0;
        for (int i = 0; i < N; i++)
            sum += left[i] = weights[i];
        for (int k = 0; k < K; k++) {
            double u = bzna_random_uniform(&random, 0, sum);
            int i = 0;
            while (i < N - 1 && (left[i] <= 0 || u >= left[i]))
                u -= left[i++];
            while (left[i] <= 0)
                i--;
            simulated_at[k][i]++;
            sum -= left[i];
            left[i] = 0;
        }
    }
    for (int i = 0; i < N; i++) {
        uint64_t simulated = 0;
        double p;
        for (int k = 0; k < K; k++) {                       /* at each place, and at any */
            p = (double)simulated_at[k][i] / EPOCHS;
            simulated += simulated_at[k][i];
            CHECK_NEAR((double)drawn_at[k][i], (double)simulated_at[k][i], 5 * sqrt(2 * EPOCHS * p * (1 - p)) + 1e-9);
        }
        p = (double)simulated / EPOCHS;
        CHECK_NEAR((double)included[i], (double)simulated, 5 * sqrt(2 * EPOCHS * p * (1 - p)) + 1e-9);
    }
    chi = chi_square(drawn_at[0], weights, N, EPOCHS);      /* what comes first is a single weighted draw */
    CHECK(chi < 10 + 6 * 4.5);
    w.epoch_samples = 0;                                    /* default: all that have a weight */
    CHECK_EQ(draw_epochs(dataset, &w, 0, 3, got, COUNT(got)), 3 * (N - 1));
    bzna_dataset_close(dataset);
}

/* The order of Efraimidis and Spirakis: the smallest -log(1 - u) / weight first, of equal ones the first. */
enum { DRAWN_MAX = 1000 };
typedef struct drawn_key { double key; uint64_t sample; } drawn_key;

static int drawn_compare(const void *left, const void *right)
{
    const drawn_key *a = left, *b = right;
    if (a->key < b->key || a->key > b->key)
        return a->key < b->key ? -1 : 1;
    return (a->sample > b->sample) - (a->sample < b->sample);
}

static void draw_once_by_log1p(const double *weights, uint64_t n, uint64_t seed, uint64_t epoch, uint64_t *order)
{
    drawn_key all[DRAWN_MAX];
    for (uint64_t i = 0; i < n; i++) {
        bzna_random random;
        bzna_random_init(&random, seed, epoch, i, BZNA_RANDOM_ORDER);
        all[i].sample = i;
        all[i].key = (double)INFINITY;
        if (weights[i] > 0)
            all[i].key = fmin(-log1p(-bzna_random_uniform(&random, 0, 1)) / weights[i], DBL_MAX);
    }
    qsort(all, n, sizeof *all, drawn_compare);
    for (uint64_t i = 0; i < n; i++)
        order[i] = all[i].sample;
}

TEST(an_epoch_drawn_without_replacement_is_exactly_the_order_of_its_keys)
{
    enum { EPOCHS = 3 };
    static const uint64_t counts[] = { 1, 2, 3, 4, 5, 8, 13, 40, 333, DRAWN_MAX };
    static uint64_t list[DRAWN_MAX], order[DRAWN_MAX], got[EPOCHS * DRAWN_MAX];
    static double weights[DRAWN_MAX];
    bzna_dataset *dataset = samples_of(40);
    for (size_t k = 0; k < COUNT(counts); k++)
        for (int tiny = 0; tiny < 2; tiny++) {              /* all keys are the same: the own order */
            uint64_t n = counts[k], length = 0, wrong = 0;
            bzna_formats_weights w = weights_of(weights, n, BZNA_WEIGHTING_ONCE);
            for (uint64_t i = 0; i < n; i++) {
                list[i] = (i * 7 + 3) % 40;
                weights[i] = tiny ? 4e-324 : (double)((i * 7 + 1) % 11);
                length += weights[i] > 0;
            }
            w.indices = list;
            w.index_count = n;
            CHECK_EQ(draw_epochs(dataset, &w, 5, EPOCHS, got, COUNT(got)), EPOCHS * length);
            for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
                draw_once_by_log1p(weights, n, 77, 5 + epoch, order);
                for (uint64_t i = 0; i < length; i++)
                    wrong += got[epoch * length + i] != list[order[i]] || (tiny && order[i] != i);
            }
            CHECK_EQ(wrong, 0);
        }
    bzna_dataset_close(dataset);
}

/* One way to share weights among parts: the exact order, all of it and its beginning, and each sample at most once. */
static void check_parts_drawn_once(bzna_dataset *dataset, const double *by_part, const uint64_t *counts, uint32_t parts)
{
    enum { EPOCHS = 3, FEW = 10 };
    uint64_t order[128], got[EPOCHS * 128], n = 0, positive = 0;
    double spread[128];
    bzna_formats_weights w = weights_of(by_part, parts, BZNA_WEIGHTING_ONCE);
    for (uint32_t p = 0; p < parts; p++) {
        CHECK_EQ(bzna_dataset_part_count(dataset, p), counts[p]);
        positive += by_part[p] > 0 ? counts[p] : 0;
        for (uint64_t i = 0; i < counts[p]; i++)
            spread[n++] = by_part[p] / (double)counts[p];
    }
    CHECK_EQ(bzna_dataset_part_count(dataset, parts), 0);
    CHECK_EQ(bzna_dataset_count(dataset), n);
    w.by_part = 1;
    for (int few = 0; few < 2; few++) {
        uint64_t length = few ? FEW : positive, wrong = 0;
        w.epoch_samples = few ? FEW : 0;
        CHECK_EQ(draw_epochs(dataset, &w, 0, EPOCHS, got, COUNT(got)), EPOCHS * length);
        for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
            uint8_t seen[128] = { 0 };
            draw_once_by_log1p(spread, n, 77, epoch, order);
            for (uint64_t i = 0; i < length; i++) {
                uint64_t sample = got[epoch * length + i];
                wrong += sample >= n || seen[sample]++ || sample != order[i] || !(spread[sample] > 0);
            }
        }
        CHECK_EQ(wrong, 0);
    }
}

TEST(weights_of_parts_drawn_without_replacement_give_the_exact_order)
{
    static const double weights[][4] = { { 1, 1, 1, 1 }, { 2, 0, 5, 0.5 }, { 0, 3, 0, 1 }, { 1e-300, 1, 1e300, 0 },
                                         { 0, 0, 0, 1 } };
    static const uint64_t counts[4] = { 40, 25, 1, 12 }, begins[4] = { 0, 40, 65, 66 };
    enum { EPOCHS = 2000 };
    static uint64_t got[EPOCHS];
    uint64_t first[4] = { 0 };
    bzna_dataset *parts[4] = { samples_of(40), samples_of(25), NULL, NULL }, *all = NULL;
    bzna_formats_weights w = weights_of(weights[1], 4, BZNA_WEIGHTING_ONCE);
    require(bzna_dataset_range(parts[1], 3, 1, &parts[2], NULL), "range");
    require(bzna_dataset_range(parts[0], 5, 12, &parts[3], NULL), "range");
    require(bzna_dataset_concat(context, parts, 4, &all, NULL), "concat");
    for (size_t k = 0; k < COUNT(weights); k++)
        check_parts_drawn_once(all, weights[k], counts, 4);
    for (int k = 0; k < 2; k++) {                           /* of one part, as it is, and as a view */
        bzna_dataset *view = NULL;
        require(bzna_dataset_concat(context, parts + k, 1, &view, NULL), "concat");
        check_parts_drawn_once(parts[k], &weights[1][3], counts + k, 1);
        check_parts_drawn_once(view, &weights[1][3], counts + k, 1);
        bzna_dataset_close(view);
    }
    w.by_part = 1;
    w.epoch_samples = 1;
    CHECK_EQ(draw_epochs(all, &w, 0, EPOCHS, got, EPOCHS), EPOCHS);
    for (uint64_t i = 0; i < EPOCHS; i++)                   /* what comes first is a weighted draw of a part */
        for (int p = 3; p >= 0; p--)
            if (got[i] >= begins[p]) {
                first[p]++;
                break;
            }
    CHECK(chi_square(first, weights[1], 4, EPOCHS) < 2 + 6 * 2);           /* 2 degrees; 6 standard deviations */
    bzna_dataset_close(all);
    for (int p = 0; p < 4; p++)
        bzna_dataset_close(parts[p]);
}

TEST(a_sample_of_no_weight_is_never_drawn_however_small_the_others_are)
{
    static const double ways[][4] = { { 0, 1, 1e-17, 0 }, { 0, 1e300, 1e-300, 1 }, { 0, 1, 4e-324, 0 } };
    static const uint64_t positive[] = { 2, 3, 2 };
    bzna_dataset *dataset = samples_of(4);
    for (size_t k = 0; k < COUNT(ways); k++) {
        bzna_formats_weights w = weights_of(ways[k], 4, BZNA_WEIGHTING_ONCE);
        uint64_t got[4], n, many[400];
        bzna_error e = { .struct_size = sizeof e };
        for (; w.epoch_samples <= positive[k]; w.epoch_samples += positive[k]) {
            uint8_t seen[4] = { 0 };                        /* as many as there are, by default and by name */
            n = draw_epochs(dataset, &w, 0, 1, got, 4);
            CHECK_EQ(n, positive[k]);
            for (uint64_t i = 0; i < n; i++) {
                CHECK(ways[k][got[i]] > 0 && !seen[got[i]]);
                seen[got[i]] = 1;
            }
        }
        w.epoch_samples = positive[k] + 1;
        CHECK_EQ(bzna_formats_weighted_list(dataset, &w, 0, got, 4, NULL, &e), BZNA_E_ARGUMENT);
        CHECK_CONTAINS(e.message, "formats_weights.epoch_samples");
        w.weighting = BZNA_WEIGHTING_REPLACE;
        w.epoch_samples = COUNT(many);
        CHECK_EQ(draw_epochs(dataset, &w, 0, 1, many, COUNT(many)), COUNT(many));
        for (size_t i = 0; i < COUNT(many); i++)
            CHECK(ways[k][many[i]] > 0);
    }
    bzna_dataset_close(dataset);
}

/* Not by the file's own arithmetic: see orders.py. */
TEST(drawn_lists_are_the_stored_orders)
{
    uint64_t got[40], rows = 0;
    double weights[40];
    bzna_dataset *dataset = samples_of(40);
    for (uint64_t i = 0; i < 40; i++)
        weights[i] = (double)(1 + i % 7);
    for (size_t k = 0; k < COUNT(stored_orders); k++) {
        const stored_order *o = &stored_orders[k];
        bzna_formats_weights w = weights_of(weights, 40, o->kind == ORDER_ONCE ? BZNA_WEIGHTING_ONCE :
                                                                                 BZNA_WEIGHTING_REPLACE);
        if (o->kind == ORDER_SHUFFLED)
            continue;
        w.seed = o->seed;
        CHECK_EQ(draw_epochs(dataset, &w, o->epoch, 1, got, 40), 40);
        CHECK(!memcmp(got, o->at, sizeof got));
        rows++;
    }
    CHECK_EQ(rows, 4);
    bzna_dataset_close(dataset);
}

/* The keys are those of the same logarithm everywhere: the library's. */
TEST(the_logarithm_is_the_librarys_to_the_last_bit)
{
    bzna_random random;
    bzna_random_init(&random, 5, 0, 0, 9);
    for (int i = 0; i < 200000; i++) {
        const double u = 1 - bzna_random_uniform(&random, 0, i % 3 ? 1 : ldexp(1, -i % 53));
        const double mine = log_of(u), librarys = bzi_math_log(u);
        CHECK(!memcmp(&mine, &librarys, sizeof mine));
    }
}

/* ---- What is refused --------------------------------------------------------------------------------------------- */

TEST(weights_that_mean_nothing_are_refused_and_named)
{
    static const struct { const char *part; bzna_status status; } faults[] = {
        { "weights[3]: -1 is negative", BZNA_E_ARGUMENT }, { "weights[3]", BZNA_E_ARGUMENT },
        { "weights[3]", BZNA_E_ARGUMENT },                 { "sum is 0", BZNA_E_ARGUMENT },
        { "39 weights for 40 samples", BZNA_E_ARGUMENT },  { "weighting: 3", BZNA_E_ARGUMENT },
        { "not together with indices", BZNA_E_ARGUMENT },  { "sum is inf", BZNA_E_ARGUMENT },
        { "by_part: it is 0 or 1", BZNA_E_ARGUMENT },   { "40 weights for 1 parts", BZNA_E_ARGUMENT },
        { "struct_size", BZNA_E_STRUCT_SIZE },             { "reserved0", BZNA_E_STRUCT_SIZE },
        { "give both or none", BZNA_E_ARGUMENT },          { "0 weights for 40", BZNA_E_ARGUMENT } };
    double weights[40];
    uint64_t index = 0, got[40];
    bzna_dataset *dataset = samples_of(40);
    bzna_error e = { .struct_size = sizeof e };
    for (int k = 0; k < (int)COUNT(faults); k++) {
        bzna_formats_weights w = weights_of(weights, k == 4 ? 39 : 40, k == 5 ? 3 : 1 + (uint32_t)k % 2);
        for (int i = 0; i < 40; i++)
            weights[i] = k == 3 ? 0 : k == 7 ? 1e308 : 1;
        weights[3] = k == 0 ? -1 : k == 1 ? (double)NAN : k == 2 ? (double)INFINITY : weights[3];
        w.by_part = k == 6 || k == 9 ? 1 : k == 8 ? 2 : 0;
        w.indices = k == 6 || k == 12 ? &index : NULL;
        w.index_count = k == 6;
        w.struct_size = k == 10 ? 0 : w.struct_size;
        w.reserved0 = k == 11;
        if (k == 13)
            w.weights = NULL, w.weight_count = 0;
        CHECK_EQ(bzna_formats_weighted_list(dataset, &w, 0, got, 40, NULL, &e), faults[k].status);
        CHECK_CONTAINS(e.message, faults[k].part);
    }
    CHECK_EQ(bzna_formats_weighted_list(NULL, NULL, 0, NULL, 0, NULL, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_formats_weighted_list(dataset, NULL, 0, NULL, 0, NULL, NULL), BZNA_E_ARGUMENT);
    bzna_dataset_close(dataset);
}

TEST(a_buffer_that_is_too_small_is_told_the_number_of_draws)
{
    static const double weights[3] = { 1, 0, 2 };
    uint64_t got[3] = { 9, 9, 9 }, count = 0;
    bzna_dataset *dataset = samples_of(3);
    bzna_formats_weights w = weights_of(weights, 3, BZNA_WEIGHTING_ONCE);
    CHECK_EQ(bzna_formats_weighted_list(dataset, &w, 0, NULL, 0, &count, NULL), BZNA_E_BUFFER);
    CHECK_EQ(count, 2);
    CHECK_EQ(bzna_formats_weighted_list(dataset, &w, 0, got, 1, &count, NULL), BZNA_E_BUFFER);
    CHECK_EQ(got[0], 9);
    CHECK_EQ(bzna_formats_weighted_list(dataset, &w, 0, got, 2, &count, NULL), BZNA_OK);
    CHECK(got[0] + got[1] == 2 && got[2] == 9);
    bzna_dataset_close(dataset);
}

/* ---- Loaders ----------------------------------------------------------------------------------------------------- */

enum { SAMPLES = 40, EPOCHS = 3, LENGTH = 30 };

static bzna_loader_config config_of(uint32_t world, uint32_t rank)
{
    bzna_loader_config c;
    bzna_loader_config_init(&c, sizeof c);
    c.output.batch_size = 4;
    c.output.width = c.output.height = EDGE;
    c.output.dtype = BZNA_DTYPE_UINT8;
    c.output.channels = BZNA_CHANNELS_GRAY;
    c.output.device.kind = BZNA_DEVICE_CPU;
    c.order.kind = BZNA_ORDER_GIVEN;
    c.order.seed = 77;
    c.order.epochs = EPOCHS;
    c.shard.world_size = world;
    c.shard.rank = rank;
    return c;
}

/* Takes all batches that are left, and gives each epoch its list before the first batch of it. */
static void check_run(bzna_loader *loader, bzna_dataset *dataset, const bzna_formats_weights *w, uint64_t epoch,
                      uint64_t position, uint32_t world)
{
    uint64_t lists[EPOCHS + 1][LENGTH];
    bzna_batch *batch;
    bzna_error e = { .struct_size = sizeof e };
    for (uint64_t i = 0; i < EPOCHS; i++)
        CHECK_EQ(bzna_formats_weighted_list(dataset, w, i, lists[i], LENGTH, NULL, NULL), BZNA_OK);
    for (uint64_t i = epoch; i < EPOCHS; i++)
        CHECK_EQ(bzna_formats_weighted_give(loader, dataset, w, i, &e), BZNA_OK);
    CHECK_EQ(bzna_formats_weighted_give(loader, dataset, w, EPOCHS, &e), BZNA_E_RANGE);      /* the run ends before */
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &e) == BZNA_OK) {
        bzna_batch_info info;
        require(bzna_batch_get_info(batch, &info, sizeof info, NULL), "batch");
        CHECK(info.epoch == epoch && info.position >= position);
        for (uint32_t i = 0; i < info.count; i++) {
            CHECK_EQ(info.indices[i], lists[epoch][info.position + i * world]);
            CHECK_EQ(((const uint8_t *)info.image.data)[i * PIXELS], info.indices[i]);
        }
        position = info.last_of_epoch ? 0 : position;
        epoch += info.last_of_epoch;
        bzna_batch_release(batch);
    }
    CHECK_EQ(epoch, EPOCHS);
}

TEST(a_loader_delivers_the_drawn_lists_and_goes_on_with_the_same_ones)
{
    static double weights[SAMPLES], others[SAMPLES];
    bzna_dataset *dataset = samples_of(SAMPLES);
    for (uint32_t i = 0; i < SAMPLES; i++)
        others[i] = weights[i] = 1 + i % 7;
    others[3] = 100;
    for (uint32_t weighting = BZNA_WEIGHTING_REPLACE; weighting <= BZNA_WEIGHTING_ONCE; weighting++)
        for (uint32_t world = 1; world < 3; world++) {
            const bzna_loader_config c = config_of(world, world - 1);
            bzna_formats_weights w = weights_of(weights, SAMPLES, weighting), other;
            bzna_loader_state state;
            bzna_loader *loader = NULL;
            bzna_batch *batch = NULL;
            bzna_error e = { .struct_size = sizeof e };
            w.epoch_samples = LENGTH;
            require(bzna_loader_open(context, dataset, &c, &loader, NULL), "loader");
            CHECK_EQ(bzna_formats_weighted_give(loader, dataset, &w, 0, NULL), BZNA_OK);
            CHECK_EQ(bzna_formats_weighted_give(loader, dataset, &w, 0, &e), BZNA_E_STATE);  /* it has one */
            for (int i = 0; i < 2; i++) {
                require(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL), "batch");
                bzna_batch_release(batch);
            }
            require(bzna_loader_save(loader, &state, sizeof state, NULL), "state");
            bzna_loader_close(loader);

            require(bzna_loader_open(context, dataset, &c, &loader, NULL), "loader");
            CHECK_EQ(bzna_loader_restore(loader, &state, NULL), BZNA_OK);
            other = w;
            other.weights = others;
            CHECK_EQ(bzna_formats_weighted_give(loader, dataset, &other, 0, &e), BZNA_E_ARGUMENT);
            CHECK_CONTAINS(e.message, "state.list");
            check_run(loader, dataset, &w, 0, state.position, world);
            CHECK_EQ(bzna_loader_reset(loader, 0, NULL), BZNA_OK);
            check_run(loader, dataset, &w, 0, 0, world);
            bzna_loader_close(loader);
        }
    bzna_dataset_close(dataset);
}

TEST_MAIN(RUN(weighted_draws_with_replacement_follow_the_weights)
          RUN(weighted_draws_without_replacement_take_each_at_most_once_and_as_often_as_a_simulation)
          RUN(an_epoch_drawn_without_replacement_is_exactly_the_order_of_its_keys)
          RUN(weights_of_parts_drawn_without_replacement_give_the_exact_order)
          RUN(a_sample_of_no_weight_is_never_drawn_however_small_the_others_are)
          RUN(drawn_lists_are_the_stored_orders) RUN(the_logarithm_is_the_librarys_to_the_last_bit)
          RUN(weights_that_mean_nothing_are_refused_and_named)
          RUN(a_buffer_that_is_too_small_is_told_the_number_of_draws)
          RUN(a_loader_delivers_the_drawn_lists_and_goes_on_with_the_same_ones)
          bzna_context_close(context);)
