/* Providers whose values lie in files: any number of them, whole or in parts, of sizes that nobody says; what is opened
 * when, what is held, and what an error names. What a sample is to be is known from its number. */
#include "library.h"
#include "with_formats.h"
#include "test.h"
#include "known.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { EDGE = 4, PIXELS = EDGE * EDGE, PPM_HEAD = 11, PPM = PPM_HEAD + 3 * PIXELS, BATCH = 10 };
enum { IMAGE, MASK, TARGET, FIELDS };

static bzna_context *context;
static const char *const folder = TEST_BUILD "/tests/provider_files";

/* A picture as a file of PPM. */
static void ppm_of(uint8_t *out, uint64_t index, uint32_t field)
{
    memcpy(out, "P6\n4 4\n255\n", PPM_HEAD);
    for (uint64_t i = 0; i < 3 * PIXELS; i++)
        out[PPM_HEAD + i] = (uint8_t)(index * 7 + field * 50 + i % 3);
}

static int slot_is(const float *slot, uint64_t index, uint32_t field)
{
    for (uint64_t i = 0; i < 3 * PIXELS; i++)
        if (slot[i] != (float)(uint8_t)(index * 7 + field * 50 + i / PIXELS))
            return 0;
    return 1;
}

/* Samples of one or two pictures, each in a file of its own, and a target, which lies in a file of 8 bytes. */
typedef struct tree {
    char      **files;
    uint64_t    count, file_count;
    uint32_t    pictures, with_target;
    bzna_place *places;               /* as many fields as there are */
} tree;

static tree tree_make(uint64_t count, uint32_t pictures, uint32_t with_target)
{
    const uint32_t fields = pictures + with_target;
    tree t = { .count = count, .file_count = count * fields, .pictures = pictures, .with_target = with_target };
    t.files = calloc(t.file_count, sizeof *t.files);
    t.places = calloc(t.file_count, sizeof *t.places);
    mkdir(folder, 0755);
    for (uint64_t i = 0; i < t.file_count; i++) {
        const uint64_t index = i / fields;
        const uint32_t field = (uint32_t)(i % fields);
        const int64_t target = (int64_t)index + 100;
        uint8_t bytes[PPM];
        t.files[i] = calloc(1, 300);
        snprintf(t.files[i], 300, "%s/%s%d_%d", folder, field < pictures ? "p" : "t", (int)field, (int)index);
        ppm_of(bytes, index, field);
        if (field < pictures)
            spill(t.files[i], bytes, sizeof bytes);
        else
            spill(t.files[i], &target, sizeof target);
        t.places[i] = (bzna_place){ .file = i, .size = BZNA_SIZE_UNKNOWN };
    }
    return t;
}

static void tree_free(tree *t)
{
    for (uint64_t i = 0; i < t->file_count; i++) {
        remove(t->files[i]);
        free(t->files[i]);
    }
    free(t->files);
    free(t->places);
    rmdir(folder);
}

static bzna_provider tree_provider(const tree *t, bzna_provider_field *fields)
{
    bzna_provider p = { .struct_size = sizeof p, .count = t->count, .fields = fields };
    for (uint32_t i = 0; i < t->pictures; i++)
        fields[p.field_count++] = (bzna_provider_field){ .name = i ? "mask" : "image", .kind = BZNA_FIELD_IMAGE,
                                                         .located = 1 };
    if (t->with_target)
        fields[p.field_count++] = (bzna_provider_field){ .name = "target", .kind = BZNA_FIELD_INTEGER, .located = 1 };
    p.places = t->places;
    p.files = (const char *const *)t->files;
    p.file_count = t->file_count;
    return p;
}

static bzna_dataset *open_tree(const tree *t)
{
    bzna_provider_field fields[FIELDS];
    const bzna_provider p = tree_provider(t, fields);
    bzna_dataset *dataset = NULL;
    bzna_error err = fresh_error();
    if (bzna_dataset_open_provider(context, &p, NULL, &dataset, &err) != BZNA_OK) {
        printf("  open: %s\n", err.message);
        exit(1);
    }
    return dataset;
}

/* The failures of an epoch; all other pictures and targets are as they are to be. */
typedef struct outcome { uint64_t count, failed; bzna_status status; char message[512]; } outcome;

static outcome run_epoch(bzna_dataset *dataset, const tree *t, uint32_t order, uint64_t epochs)
{
    bzna_loader_output mask = { .name = "masks", .field = "mask", .width = EDGE, .height = EDGE };
    bzna_loader_config c = { .struct_size = sizeof c, .output = { .batch_size = BATCH, .width = EDGE, .height = EDGE },
                             .decode = { .threads = 2 }, .read = { .threads = 2 },
                             .order = { .kind = order, .epochs = epochs } };
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_error err = fresh_error();
    outcome o = { .count = 0 };
    c.extra_outputs.ptr = t->pictures > 1 ? &mask : NULL;
    c.extra_outputs.count = t->pictures > 1;
    if (bzna_loader_open(context, dataset, &c, &loader, &err) != BZNA_OK) {
        printf("  loader: %s\n", err.message);
        exit(1);
    }
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err) == BZNA_OK) {
        bzna_batch_info info = { .struct_size = sizeof info };
        bzna_tensor masks = { .struct_size = sizeof masks };
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        if (t->pictures > 1)
            bzna_batch_tensor(batch, "masks", &masks, sizeof masks, NULL);
        for (uint32_t i = 0; i < info.count; i++) {
            o.count++;
            if (info.status[i] != BZNA_OK) {
                bzna_error why = fresh_error();
                o.failed++;
                o.status = bzna_batch_error(batch, i, &why);
                snprintf(o.message, sizeof o.message, "%s", why.message);
                continue;
            }
            CHECK(slot_is((const float *)info.image.data + i * 3 * PIXELS, info.indices[i], IMAGE));
            CHECK(t->pictures < 2 ||
                  slot_is((const float *)masks.data + i * 3 * PIXELS, info.indices[i], MASK));
            CHECK_EQ(info.targets[i], t->with_target ? (int64_t)info.indices[i] + 100 : BZNA_TARGET_NONE);
        }
        bzna_batch_release(batch);
    }
    bzna_loader_close(loader);
    return o;
}

static int descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* ---- Any number of files ----------------------------------------------------------------------------------------- */

TEST(files_of_unknown_sizes_are_samples_however_many_they_are)
{
    static const uint64_t counts[] = { 1, 7, 64, 65, 700 };
    for (size_t k = 0; k < COUNT(counts); k++)
        for (uint32_t pictures = 1; pictures <= 2; pictures++)
            for (uint32_t with_target = 0; with_target < 2; with_target++) {
                tree t = tree_make(counts[k], pictures, with_target);
                const int before = descriptors();
                bzna_dataset *dataset = open_tree(&t);
                const int kept = descriptors() - before;
                CHECK_EQ(kept, t.file_count <= BZI_LIMIT_OPEN_FILES && t.file_count < t.count ? (int)t.file_count : 0);
                for (uint32_t order = BZNA_ORDER_SEQUENTIAL; order <= BZNA_ORDER_SHUFFLE; order++) {
                    const outcome o = run_epoch(dataset, &t, order, 2);
                    CHECK(o.count == 2 * t.count && o.failed == 0);
                }
                CHECK_EQ(descriptors() - before, kept);
                bzna_dataset_close(dataset);
                CHECK_EQ(descriptors(), before);
                tree_free(&t);
            }
}

TEST(as_many_files_as_no_array_has_are_refused_before_any_is_looked_at)
{
    static const uint64_t counts[] = { UINT64_MAX, (uint64_t)1 << 61 };
    tree t = tree_make(1, 1, 0);
    bzna_provider_field fields[FIELDS];
    bzna_provider p = tree_provider(&t, fields);
    for (size_t i = 0; i < COUNT(counts); i++) {
        bzna_dataset *dataset = NULL;
        bzna_error err = fresh_error();
        p.file_count = counts[i];
        CHECK_EQ(bzna_dataset_open_provider(context, &p, NULL, &dataset, &err), BZNA_E_LIMIT);
        CHECK_CONTAINS(err.message, "provider.files: no array has");
        CHECK(!dataset);
    }
    tree_free(&t);
}

/* A table of 2^32 paths, of which the system has only those that were written: the others are NULL. */
TEST(of_four_thousand_million_files_the_first_without_a_path_is_named)
{
#if defined(__linux__) && UINTPTR_MAX > 0xffffffff
    const uint64_t count = (uint64_t)1 << 32;
    const char **paths = mmap(NULL, count * sizeof *paths, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    tree t = tree_make(1, 1, 0);
    bzna_provider_field fields[FIELDS];
    bzna_provider p = tree_provider(&t, fields);
    bzna_dataset *dataset = NULL;
    bzna_error err = fresh_error();
    if (paths == MAP_FAILED)
        SKIP("no address space for a table of 2^32 paths");
    for (int i = 0; i < 1000; i++)
        paths[i] = t.files[0];
    p.files = paths;
    p.file_count = count;
    CHECK_EQ(bzna_dataset_open_provider(context, &p, NULL, &dataset, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "provider.files[1000]: is NULL");
    munmap(paths, count * sizeof *paths);
    tree_free(&t);
#else
    SKIP("mmap of Linux on 64 bits");
#endif
}

/* ---- Paths ------------------------------------------------------------------------------------------------------- */

/* Folders that paths have in common are kept once. Whatever they have in common, each path leads to its file, also from
 * another working folder. */
TEST(each_path_leads_to_its_file_from_any_working_folder)
{
    enum { FORMS = 6, EACH = 3 };
    char here[1024], paths[EACH][2048];
    tree t = tree_make(EACH, 1, 0);
    const char *files[EACH] = { paths[0], paths[1], paths[2] };
    REQUIRE(getcwd(here, sizeof here) != NULL);
    for (int form = 0; form < FORMS; form++)
        for (uint32_t many = 0; many < 2; many++) {
            const uint32_t limit = context->host->file_limit;
            bzna_provider_field fields[FIELDS];
            bzna_provider p = tree_provider(&t, fields);
            bzna_dataset *dataset = NULL;
            bzna_error err = fresh_error();
            for (int i = 0; i < EACH; i++) {
                const char *name = t.files[i], *slash = strrchr(name, '/');
                const int absolute = name[0] == '/';
                const int whole = form == 1 || (form == 2 && i == 1);          /* all, or some of them */
                snprintf(paths[i], sizeof paths[i], "%s%s%.*s%s%s", whole && !absolute ? here : "",
                         whole && !absolute ? "/" : "", (int)(slash - name), name,
                         form == 3 && i ? "//" : form == 4 ? "/./" : form == 5 && i == 1 ? "/../provider_files/" : "/",
                         slash + 1);
            }
            p.files = files;
            context->host->file_limit = many ? 0 : limit;
            CHECK_EQ(bzna_dataset_open_provider(context, &p, NULL, &dataset, &err), BZNA_OK);
            CHECK(!chdir("/"));
            if (dataset) {
                const outcome o = run_epoch(dataset, &t, BZNA_ORDER_SEQUENTIAL, 1);
                CHECK(o.count == EACH && o.failed == 0);
                if (o.failed)
                    printf("  form %d: %s\n", form, o.message);
            }
            CHECK(!chdir(here));
            bzna_dataset_close(dataset);
            context->host->file_limit = limit;
        }
    tree_free(&t);
}

TEST(a_path_longer_than_any_costs_its_samples_and_the_opening_if_it_is_among_few)
{
    static char longest[2 * BZI_LIMIT_PATH_BYTES];
    tree t = tree_make(3, 1, 0);
    bzna_provider_field fields[FIELDS];
    bzna_provider p = tree_provider(&t, fields);
    bzna_dataset *dataset = NULL;
    bzna_error err = fresh_error();
    char *const kept = t.files[1], *const first = t.files[0];
    outcome o;
    memset(longest, 'x', sizeof longest - 1);
    t.files[1] = longest;
    t.files[0] = longest;
    p.file_count = 1;
    CHECK_EQ(bzna_dataset_open_provider(context, &p, NULL, &dataset, &err), BZNA_E_IO);
    CHECK(!dataset);
    t.files[0] = first;
    p.file_count = t.file_count;
    REQUIRE(bzna_dataset_open_provider(context, &p, NULL, &dataset, &err) == BZNA_OK);
    o = run_epoch(dataset, &t, BZNA_ORDER_SEQUENTIAL, 1);
    CHECK(o.failed == 1 && o.status == BZNA_E_IO);
    bzna_dataset_close(dataset);
    t.files[1] = kept;
    tree_free(&t);
}

/* ---- What fails ----------------------------------------------------------------------------------------------- */

/* One file is gone, empty, shorter than its place, no picture, or larger than max_bytes; one place is where no file can
 * have it, or in a file that does not exist. `many`: files are opened when they are read. */
TEST(an_error_costs_its_sample_and_names_the_file)
{
    enum { GONE, EMPTY, SHORT, BEHIND, NOISE, LARGE, NEGATIVE, OVERFLOWS, NO_FILE, IN_MEMORY, LIES };
    static const struct { bzna_status status; int names; const char *words; } said[LIES] = {
        [GONE] = { BZNA_E_IO, 1, "cannot open" },
        [EMPTY] = { 0, 1, "" },
        [SHORT] = { BZNA_E_TRUNCATED, 1, "at byte 20: the file ends before the last of 59 bytes at byte 0" },
        [BEHIND] = { BZNA_E_TRUNCATED, 1, "at byte 59: the file ends before byte 60" },
        [NOISE] = { 0, 1, "" },
        [LARGE] = { BZNA_E_LIMIT, 1, "more than provider.max_bytes, 1000" },
        [NEGATIVE] = { BZNA_E_CALLBACK, 0,
                       "is at a place that no file can have: 59 bytes at byte 18446744073709551612" },
        [OVERFLOWS] = { BZNA_E_CALLBACK, 0,
                        "is at a place that no file can have: 59 bytes at byte 9223372036854775800" },
        [NO_FILE] = { BZNA_E_CALLBACK, 0, "of file 18446744073709551615 of" },
        [IN_MEMORY] = { BZNA_E_CALLBACK, 0, "did not say how many bytes \"image\" has" } };
    static uint8_t large[2000];
    for (int lie = 0; lie < LIES; lie++)
        for (uint32_t many = 0; many < 2; many++)
            for (uint32_t pictures = 1; pictures <= 2; pictures++) {
                const uint64_t bad = 5;
                const uint32_t limit = context->host->file_limit;
                const int failures = test_failures;
                tree t = tree_make(20, pictures, 0);
                bzna_place *place = &t.places[bad * pictures];
                const char *path = t.files[place->file];
                bzna_provider_field fields[FIELDS];
                bzna_provider p = tree_provider(&t, fields);
                bzna_dataset *dataset = NULL;
                outcome o;
                p.max_bytes = 1000;
                if (lie == EMPTY)
                    spill(path, "", 0);
                if (lie == SHORT || lie == NEGATIVE || lie == OVERFLOWS)
                    place->size = PPM;
                if (lie == SHORT)
                    spill(path, "P6\n4 4\n255\n123456789", 20);
                place->offset = lie == NEGATIVE ? (uint64_t)-4 : lie == OVERFLOWS ? (uint64_t)INT64_MAX - 7 :
                                lie == BEHIND ? PPM + 1 : 0;
                if (lie == NOISE)
                    spill(path, "nothing that is a picture", 25);
                if (lie == LARGE)
                    spill(path, large, sizeof large);
                if (lie == NO_FILE)
                    place->file = UINT64_MAX;
                if (lie == IN_MEMORY)
                    place->data = large;
                context->host->file_limit = many ? 0 : limit;
                REQUIRE(bzna_dataset_open_provider(context, &p, NULL, &dataset, NULL) == BZNA_OK);
                context->host->file_limit = many ? 0 : limit;
                if (lie == GONE)
                    remove(path);
                o = run_epoch(dataset, &t, BZNA_ORDER_SHUFFLE, 1);
                CHECK(o.failed == 1 && o.count == t.count);
                CHECK_CONTAINS(o.message, "provider: sample 5: ");
                if (said[lie].status && !(lie == LARGE && pictures > 1))
                    CHECK_EQ(o.status, said[lie].status);
                if (!(lie == LARGE && pictures > 1))
                    CHECK_CONTAINS(o.message, said[lie].words);
                /* that several pictures are large or of no kind is said of all of them */
                if (said[lie].names && (pictures == 1 || lie == GONE || lie == SHORT || lie == BEHIND))
                    CHECK_CONTAINS(o.message, strrchr(path, '/') + 1);
                if (test_failures != failures)
                    printf("  lie %d, many %d, pictures %d: %d: %s\n", lie, (int)many, (int)pictures, (int)o.status,
                           o.message);
                bzna_dataset_close(dataset);
                context->host->file_limit = limit;
                tree_free(&t);
            }
}

/* A target, numbers and text: whole files, opened for each value. */
TEST(values_that_are_no_pictures_may_be_whole_files_too)
{
    enum { BOX, TEXT, BLOB, NUMBER, KINDS };
    static const char *const names[KINDS] = { "box", "text", "blob", "target" };
    static const uint32_t kinds[KINDS] = { BZNA_FIELD_VECTOR, BZNA_FIELD_TEXT, BZNA_FIELD_BYTES, BZNA_FIELD_INTEGER };
    const float box[] = { 1, 2.5f, 3 };
    const int64_t number[] = { -7, 9 };
    const uint32_t limit = context->host->file_limit;
    const char *files[KINDS];
    char paths[KINDS][200];
    bzna_provider_field fields[KINDS];
    bzna_place places[KINDS];
    bzna_provider p = { .struct_size = sizeof p, .count = 1, .fields = fields, .field_count = KINDS, .places = places,
                        .files = files, .file_count = KINDS };
    memset(fields, 0, sizeof fields);
    mkdir(folder, 0755);
    for (int i = 0; i < KINDS; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%s", folder, names[i]);
        files[i] = paths[i];
        fields[i].name = names[i];
        fields[i].kind = kinds[i];
        fields[i].located = 1;
        places[i] = (bzna_place){ .file = (uint64_t)i, .size = BZNA_SIZE_UNKNOWN };
    }
    spill(paths[BOX], box, sizeof box);
    spill(paths[TEXT], "a caption", 9);
    spill(paths[BLOB], "", 0);
    spill(paths[NUMBER], number, sizeof number);            /* of which the first is the value */
    for (uint32_t many = 0; many < 2; many++) {
        bzna_dataset *dataset = NULL;
        bzna_error err = fresh_error();
        float read[8];
        char text[16];
        int64_t target = 0;
        size_t needed = 0;
        context->host->file_limit = many ? 0 : limit;
        REQUIRE(bzna_dataset_open_provider(context, &p, NULL, &dataset, &err) == BZNA_OK);
        CHECK_EQ(bzna_dataset_field(dataset, 0, "box", read, sizeof read, &needed, NULL), BZNA_OK);
        CHECK(needed == sizeof box && !memcmp(read, box, sizeof box));
        CHECK_EQ(bzna_dataset_field(dataset, 0, "text", text, sizeof text, NULL, NULL), BZNA_OK);
        CHECK_STR(text, "a caption");
        CHECK_EQ(bzna_dataset_field(dataset, 0, "blob", text, sizeof text, &needed, NULL), BZNA_OK);
        CHECK_EQ(needed, 0);
        CHECK_EQ(bzna_dataset_target(dataset, 0, &target, NULL), BZNA_OK);
        CHECK_EQ(target, -7);
        bzna_dataset_close(dataset);
    }
    /* files that have no whole numbers, or too few bytes for one */
    for (uint32_t many = 0; many < 2; many++) {
        bzna_dataset *dataset = NULL;
        bzna_error err = fresh_error();
        float read[8];
        int64_t target = 0;
        spill(paths[BOX], box, 7);
        spill(paths[NUMBER], number, 7);
        REQUIRE(bzna_dataset_open_provider(context, &p, NULL, &dataset, &err) == BZNA_OK);
        CHECK_EQ(bzna_dataset_field(dataset, 0, "box", read, sizeof read, NULL, &err), BZNA_E_CALLBACK);
        CHECK_CONTAINS(err.message, "in whole numbers of float32");
        CHECK_EQ(bzna_dataset_target(dataset, 0, &target, &err), BZNA_E_TRUNCATED);
        CHECK_CONTAINS(err.message, "provider_files/target");
        bzna_dataset_close(dataset);
        context->host->file_limit = limit;
    }
    for (int i = 0; i < KINDS; i++)
        remove(paths[i]);
    rmdir(folder);
}

/* ---- Functions that change their minds ----------------------------------------------------------------------- */

typedef struct moody { uint64_t file_count; _Atomic uint64_t calls; } moody;

/* Says of samples 3, 13, ...: another file, another offset, another size, none, each time it is asked. */
static bzna_status moody_locate(void *user, uint64_t index, uint32_t field, bzna_place *place, bzna_error *err)
{
    (void)err;
    moody *m = user;
    const uint64_t call = m->calls++;
    (void)field;
    place->file = index;
    place->size = BZNA_SIZE_UNKNOWN;
    if (index % 10 != 3)
        return BZNA_OK;
    place->file = call * 2654435761u % (m->file_count + 3);
    place->offset = call % 7 == 0 ? UINT64_MAX - call : call % 3;
    place->size = call % 5 == 0 ? BZNA_SIZE_UNKNOWN : call % 5 == 1 ? UINT64_MAX - 2 : call % 5 == 2 ? 0 : call % 80;
    return call % 11 == 0 ? BZNA_E_NOT_FOUND : call % 13 == 0 ? -77 : BZNA_OK;
}

TEST(a_locate_that_never_says_the_same_costs_none_but_its_samples)
{
    for (uint32_t many = 0; many < 2; many++)
        for (uint32_t order = BZNA_ORDER_SEQUENTIAL; order <= BZNA_ORDER_SHUFFLE; order++) {
            const uint32_t limit = context->host->file_limit;
            tree t = tree_make(50, 1, 0);
            moody m = { .file_count = t.file_count };
            bzna_provider_field fields[FIELDS];
            bzna_provider p = tree_provider(&t, fields);
            bzna_loader_config c = { .struct_size = sizeof c, .decode = { .threads = 2 }, .order = { .kind = order,
                                     .epochs = 20 }, .output = { .batch_size = BATCH, .width = EDGE, .height = EDGE } };
            bzna_dataset *dataset = NULL;
            bzna_loader *loader = NULL;
            bzna_batch *batch = NULL;
            uint64_t count = 0;
            p.places = NULL;
            p.locate = moody_locate;
            p.user = &m;
            context->host->file_limit = many ? 0 : limit;
            REQUIRE(bzna_dataset_open_provider(context, &p, NULL, &dataset, NULL) == BZNA_OK);
            context->host->file_limit = limit;
            REQUIRE(bzna_loader_open(context, dataset, &c, &loader, NULL) == BZNA_OK);
            while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
                bzna_batch_info info = { .struct_size = sizeof info };
                bzna_batch_get_info(batch, &info, sizeof info, NULL);
                for (uint32_t i = 0; i < info.count; i++, count++)
                    CHECK(info.indices[i] % 10 == 3 ||
                          (info.status[i] == BZNA_OK &&
                           slot_is((const float *)info.image.data + i * 3 * PIXELS, info.indices[i], IMAGE)));
                bzna_batch_release(batch);
            }
            CHECK_EQ(count, 20 * t.count);
            bzna_loader_close(loader);
            bzna_dataset_close(dataset);
            tree_free(&t);
        }
}

/* ---- Many samples of one file ------------------------------------------------------------------------------------ */

/* Many samples of one file: read together in order, by themselves when shuffled, in turns. */
TEST(samples_of_one_file_are_the_same_read_together_or_alone)
{
    enum { SAMPLES = 300 };
    static uint8_t bytes[SAMPLES * PPM];
    static const char *const path = TEST_BUILD "/tests/provider_many.ppms";
    const tree t = { .count = SAMPLES, .pictures = 1 };
    const bzna_provider_field field = { .name = "image", .kind = BZNA_FIELD_IMAGE, .located = 1 };
    bzna_place places[SAMPLES];
    const bzna_provider p = { .struct_size = sizeof p, .count = SAMPLES, .fields = &field, .field_count = 1,
                              .places = places, .files = &path, .file_count = 1 };
    for (uint64_t i = 0; i < SAMPLES; i++) {
        ppm_of(bytes + i * PPM, i, IMAGE);
        places[i] = (bzna_place){ .offset = i * PPM, .size = PPM };
    }
    spill(path, bytes, sizeof bytes);
    for (uint32_t first = BZNA_ORDER_SEQUENTIAL; first <= BZNA_ORDER_SHUFFLE; first++) {
        bzna_dataset *dataset = NULL;
        REQUIRE(bzna_dataset_open_provider(context, &p, NULL, &dataset, NULL) == BZNA_OK);
        for (uint32_t k = 0; k < 4; k++) {
            const outcome o = run_epoch(dataset, &t, (first + k) % 2, 2);
            CHECK(o.count == 2 * SAMPLES && o.failed == 0);
        }
        bzna_dataset_close(dataset);
    }
    remove(path);
}

/* ---- Raw pixels beside records ----------------------------------------------------------------------------------- */

enum { RECORDS = 120, RECORD = 1 + 3 * PIXELS };

static uint64_t hash_of_epoch(bzna_dataset *dataset, uint64_t *failed)
{
    bzna_loader_config c = { .struct_size = sizeof c, .output = { .batch_size = BATCH, .width = 3, .height = 3 },
                             .decode = { .threads = 2 }, .order = { .kind = BZNA_ORDER_SHUFFLE, .epochs = 3 },
                             .warp = { .kind = BZNA_WARP_MXNET, .mxnet.pad_px = 2, .random_crop = 1, .flip_h = 0.5f } };
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_error err = fresh_error();
    uint64_t hash = BZI_HASH_START;
    if (bzna_loader_open(context, dataset, &c, &loader, &err) != BZNA_OK) {
        printf("  %s\n", err.message);
        return 0;
    }
    while (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK) {
        bzna_batch_info info = { .struct_size = sizeof info };
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        *failed += info.failed;
        hash = bzi_hash(hash, info.image.data, info.count * 27 * sizeof(float));
        hash = bzi_hash(hash, (const void *)info.targets, info.count * sizeof *info.targets);
        bzna_batch_release(batch);
    }
    bzna_loader_close(loader);
    return hash;
}

/* Opens raw pixels of `edge` x `edge` planes: in memory or in the file. */
static bzna_dataset *open_raw(const uint8_t *bytes, const char *path, uint32_t edge, bzna_place *places,
                              int64_t *targets)
{
    const bzna_provider_field fields[] = {
        { .name = "image", .kind = BZNA_FIELD_IMAGE, .located = 1, .codec = BZNA_CODEC_RAW, .width = edge,
          .height = edge, .channels = 3, .layout = BZNA_LAYOUT_NCHW },
        { .name = "target", .kind = BZNA_FIELD_INTEGER, .located = 1 } };
    const bzna_provider p = { .struct_size = sizeof p, .count = RECORDS, .fields = fields, .field_count = 2,
                              .places = places, .files = path ? &path : NULL, .file_count = path != NULL };
    bzna_dataset *dataset = NULL;
    bzna_error err = fresh_error();
    for (uint64_t i = 0; i < RECORDS; i++) {
        targets[i] = bytes[i * RECORD];
        places[2 * i] = (bzna_place){ .data = path ? NULL : bytes + i * RECORD + 1, .offset = i * RECORD + 1,
                                      .size = path && i % 2 ? BZNA_SIZE_UNKNOWN : 3ull * edge * edge };
        places[2 * i + 1] = (bzna_place){ .data = targets + i, .size = sizeof *targets };
    }
    CHECK_EQ(bzna_dataset_open_provider(context, &p, NULL, &dataset, &err), BZNA_OK);
    return dataset;
}

TEST(raw_pixels_have_the_bits_that_records_of_the_same_file_have)
{
    static const char *const path = TEST_BUILD "/tests/provider_raw.bin";
    static uint8_t bytes[RECORDS * RECORD];
    static bzna_place places[3][2 * RECORDS];
    static int64_t targets[RECORDS];
    const bzna_records records = { .struct_size = sizeof records, .data_type = BZNA_RECORD_UINT8, .width = EDGE,
                                   .height = EDGE, .channels = 3, .data_offset = 1, .label_type = BZNA_RECORD_UINT8 };
    const bzna_formats_config config = { .struct_size = sizeof config, .records = &records };
    bzna_dataset *sets[5] = { NULL }, *all[2] = { NULL };
    uint64_t failed = 0, hash;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    spill(path, bytes, sizeof bytes);
    REQUIRE(bzna_formats_open(context, path, &config, &sets[0], NULL) == BZNA_OK);
    sets[1] = open_raw(bytes, NULL, EDGE, places[0], targets);
    sets[2] = open_raw(bytes, path, EDGE, places[1], targets);
    hash = hash_of_epoch(sets[0], &failed);
    for (int i = 1; i < 6; i++)                             /* of the file, before and after all are held */
        CHECK(hash_of_epoch(sets[i < 3 ? i : 2], &failed) == hash);

    /* among pictures of another size nothing is taken for what the sample before had */
    sets[3] = open_raw(bytes, NULL, EDGE - 1, places[2], targets);
    for (int i = 0; i < 2; i++)
        REQUIRE(bzna_dataset_concat(context, (bzna_dataset *[]){ sets[i ? 2 : 1], sets[3], sets[1] }, 3, &all[i],
                                    NULL) == BZNA_OK);
    CHECK(hash_of_epoch(all[0], &failed) == hash_of_epoch(all[1], &failed));
    CHECK_EQ(failed, 0);
    for (int i = 0; i < 2; i++)
        bzna_dataset_close(all[i]);
    for (int i = 0; i < 5; i++)
        bzna_dataset_close(sets[i]);
    remove(path);
}

TEST_MAIN(
    if (bzna_context_open(NULL, &context, NULL) != BZNA_OK)
        return 1;
    RUN(files_of_unknown_sizes_are_samples_however_many_they_are)
    RUN(as_many_files_as_no_array_has_are_refused_before_any_is_looked_at)
    RUN(of_four_thousand_million_files_the_first_without_a_path_is_named)
    RUN(each_path_leads_to_its_file_from_any_working_folder)
    RUN(a_path_longer_than_any_costs_its_samples_and_the_opening_if_it_is_among_few)
    RUN(an_error_costs_its_sample_and_names_the_file)
    RUN(values_that_are_no_pictures_may_be_whole_files_too)
    RUN(a_locate_that_never_says_the_same_costs_none_but_its_samples)
    
    RUN(samples_of_one_file_are_the_same_read_together_or_alone)
    RUN(raw_pixels_have_the_bits_that_records_of_the_same_file_have)
    bzna_context_close(context);
)
