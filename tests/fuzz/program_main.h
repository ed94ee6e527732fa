/* program_main.h - the rest of a program of fuzz targets. Before it: benzina.h, program.h, targets[] and TARGETS,
 * target_begin and target_run.
 *
 * With clang -fsanitize=fuzzer (-DBENZINA_LIBFUZZER) the program is libFuzzer's, and the target is its name, to which
 * fuzz.sh links it. Otherwise, and with the name of a target as its first argument, it does this:
 *     fuzz TARGET replay FILE...                  inputs, folders of them or packs (NAME.pack), as they are; "-":
 *                                               what `seeds` would write
 *     fuzz TARGET seeds DIR                       writes inputs to begin with
 *     fuzz TARGET pack OUT.pack BYTES FILE...     files in one, the smallest first, as many as BYTES hold
 *     fuzz TARGET unpack IN.pack DIR              its inputs, as files
 *     fuzz TARGET corrupt FILE FIRST COUNT STEP   a byte changed: corruptions FIRST, FIRST + STEP, ... below COUNT
 *     fuzz list                                   the targets
 * Corruption n of an input is the same on every machine: place and value are Philox numbers of seed n. */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static const fuzz_target *target_find(const char *name)
{
    for (int i = 0; i < TARGETS; i++)
        if (!strcmp(name, targets[i].name))
            return &targets[i];
    return NULL;
}

static uint8_t *file_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    struct stat about;
    uint8_t *data;
    FUZZ_CHECK(file && !fstat(fileno(file), &about));
    *size = (size_t)about.st_size;
    FUZZ_CHECK(data = malloc(*size + !*size));
    FUZZ_CHECK(fread(data, 1, *size, file) == *size);
    fclose(file);
    return data;
}

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void file_write(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    FUZZ_CHECK(file && fwrite(data, 1, size, file) == size && !fclose(file));
}

/* ---- Packs: the size of an input, 4 bytes, and its bytes, one behind the other ---- */

static void pack_each(const char *path, fuzz_give *give, void *user)
{
    size_t size;
    uint8_t *pack = file_read(path, &size), *at = pack;
    while (at < pack + size) {
        uint32_t one;
        FUZZ_CHECK(pack + size - at >= 4 && (one = be32(at)) <= (size_t)(pack + size - at - 4));
        at += 4;
        give(user, at, one);
        at += one;
    }
    free(pack);
}

static void give_to_folder(void *user, const void *data, size_t size)
{
    static unsigned count;
    char path[4096];
    snprintf(path, sizeof path, "%s/seed_%03u", (const char *)user, count++);
    file_write(path, data, size);
}

static int by_size(const void *a, const void *b)
{
    struct stat one, two;
    FUZZ_CHECK(!stat(*(char *const *)a, &one) && !stat(*(char *const *)b, &two));
    return one.st_size < two.st_size ? -1 : one.st_size > two.st_size;
}

static int pack_make(const char *path, size_t most, int count, char **files)
{
    FILE *out = fopen(path, "wb");
    size_t used = 0, size;
    int kept = 0;
    FUZZ_CHECK(out);
    qsort(files, (size_t)count, sizeof *files, by_size);
    for (; kept < count; kept++) {
        uint8_t *data = file_read(files[kept], &size), head[4];
        for (int i = 0; i < 4; i++)
            head[i] = (uint8_t)(size >> (24 - 8 * i));
        if (used + 4 + size <= most)
            FUZZ_CHECK(fwrite(head, 1, 4, out) == 4 && fwrite(data, 1, size, out) == size);
        used += 4 + size;
        free(data);
        if (used > most)
            break;
    }
    FUZZ_CHECK(!fclose(out));
    printf("%s: %d of %d inputs\n", path, kept, count);
    return 0;
}

/* ---- Replaying, corrupting ---- */

typedef struct replayed {
    const fuzz_target *target;
    long               count;
} replayed;

/* In memory of exactly its size, so that a sanitizer sees every step outside. */
static void give_to_target(void *user, const void *data, size_t size)
{
    replayed *r = user;
    uint8_t *copy = malloc(size + !size);
    FUZZ_CHECK(copy);
    if (size)
        memcpy(copy, data, size);
    target_run(r->target, copy, size);
    free(copy);
    r->count++;
}

static void replay(const char *path, replayed *r)
{
    const size_t length = strlen(path);
    DIR *folder = opendir(path);
    if (folder) {
        for (struct dirent *e; (e = readdir(folder));) {
            char inside[4096];
            if (e->d_name[0] == '.')
                continue;
            snprintf(inside, sizeof inside, "%s/%s", path, e->d_name);
            replay(inside, r);
        }
        closedir(folder);
    } else if (length > 5 && !strcmp(path + length - 5, ".pack")) {
        pack_each(path, give_to_target, r);
    } else {
        size_t size;
        uint8_t *data = file_read(path, &size);
        give_to_target(r, data, size);
        free(data);
    }
}

/* Times are the processors'. Ten seconds for one small input are a hang. */
static int corrupt(const fuzz_target *t, const char *path, long first, long count, long step)
{
    size_t size;
    uint8_t *data = file_read(path, &size);
    const clock_t start = clock();
    double slowest = 0;
    long done = 0;
    for (long n = first; n < count && step > 0; n += step, done++) {
        const clock_t began = clock();
        bzna_random random;
        bzna_random_init(&random, (uint64_t)n, 0, 0, 0);
        const uint64_t at = bzna_random_u32(&random) % size;
        const uint8_t other = (uint8_t)(1 + bzna_random_u32(&random) % 255);
        replayed r = { t, 0 };
        data[at] ^= other;
        if (n % 8 && t->mend)
            t->mend(data, size);
        give_to_target(&r, data, size);
        data[at] ^= other;
        if (t->mend)
            t->mend(data, size);
        const double took = (double)(clock() - began) / (double)CLOCKS_PER_SEC;
        slowest = took > slowest ? took : slowest;
    }
    printf("%s: %ld corruptions, slowest %.3f s, %.1f s\n", path, done, slowest,
           (double)(clock() - start) / (double)CLOCKS_PER_SEC);
    free(data);
    return slowest > 10;
}

static int usage(void)
{
    fputs("usage: fuzz list | fuzz TARGET replay|seeds|pack|unpack|corrupt ...: see tests/fuzz/program_main.h\n",
          stderr);
    return 2;
}

static int program(int argc, char **argv)
{
    const fuzz_target *t = argc > 2 ? target_find(argv[1]) : NULL;
    const char *what = t ? argv[2] : "";
    replayed r = { t, 0 };
    for (int i = 0; i < TARGETS && argc == 2 && !strcmp(argv[1], "list"); i++)
        puts(targets[i].name);
    if (argc == 2 && !strcmp(argv[1], "list"))
        return 0;
    if (!t)
        return usage();
    target_begin(t);
    if (!strcmp(what, "seeds") && argc == 4)
        return t->seeds ? t->seeds(give_to_folder, argv[3]) : (void)0, 0;
    if (!strcmp(what, "unpack") && argc == 5)
        return pack_each(argv[3], give_to_folder, argv[4]), 0;
    if (!strcmp(what, "pack") && argc >= 5)
        return pack_make(argv[3], (size_t)atol(argv[4]), argc - 5, argv + 5);
    if (!strcmp(what, "corrupt") && argc == 7)
        return corrupt(t, argv[3], atol(argv[4]), atol(argv[5]), atol(argv[6]));
    if (strcmp(what, "replay"))
        return usage();
    for (int i = 3; i < argc; i++)
        if (strcmp(argv[i], "-"))
            replay(argv[i], &r);
        else if (t->seeds)
            t->seeds(give_to_target, &r);
    printf("%s: %ld inputs\n", t->name, r.count);
    return 0;
}

#ifdef BENZINA_LIBFUZZER
static const fuzz_target *guided;

/* Seconds of processors, which say more than those of a clock on a machine that has other work. */
static void tell_time(void) { fprintf(stderr, "stat::processor_sec: %.1f\n", (double)clock() / CLOCKS_PER_SEC); }

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t capacity, unsigned seed);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *name = strrchr((*argv)[0], '/');
    const fuzz_target *t = target_find(name ? name + 1 : (*argv)[0]);
    if (*argc > 2 && target_find((*argv)[1]))               /* TARGET replay, seeds, ... */
        exit(program(*argc, *argv));
    FUZZ_CHECK(t);
    guided = t;
    atexit(tell_time);
    target_begin(t);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t capacity, unsigned seed)
{
    return guided->mutate ? guided->mutate(data, size, capacity, seed) : LLVMFuzzerMutate(data, size, capacity);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    target_run(guided, data, size);
    return 0;
}
#else
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t capacity)
{
    if (size && capacity)
        data[size / 2] ^= 1;
    return size;
}

int main(int argc, char **argv) { return program(argc, argv); }
#endif
