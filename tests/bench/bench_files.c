/* bench_files.c - what opening a data set costs: any one, or a million files as a folder, by a list and by a provider
 *
 *     make build/bench/files && build/bench/files ROUNDS PATH [LIST]
 *
 * LIST, for a PATH with class folders of pictures, names each of them and its class, a line each ("a/1.jpg 0"). The
 * provider's paths are those of the list, which the program reads before: it times bzna_dataset_open_provider alone.
 * Each way runs in a process of its own, in turns. The program prints a line of JSON for each way, with the least
 * values of all rounds, since other programs can only add to them: seconds by the clock and of processors until the
 * data set is open, the memory that it keeps and the most that the process had, and the microseconds of processors of a
 * look at a sample, which opens its file, in a drawn order. */
#include "../../examples/formats/formats.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATH, LIST, PROVIDER, PAIRS, WAYS, FIGURES = 5, LOOKS = 20000 };
static const char *const names[WAYS] = { "path", "list", "provider", "provider, image + mask" };

typedef struct figures { double samples, figure[FIGURES]; } figures;
static const char *const figure_names[FIGURES] = { "open_s", "cpu_s", "kept_mb", "most_mb", "look_us" };

/* The list, with whole paths. */
typedef struct files { char **paths; int64_t *targets; uint64_t count; } files;

static double seconds(clockid_t of)
{
    struct timespec t;
    clock_gettime(of, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Private memory of this process, MB. */
static double private_mb(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    double kb = 0, sum = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Private_Clean: %lf", &kb) == 1 || sscanf(line, "Private_Dirty: %lf", &kb) == 1)
            sum += kb;
    if (file)
        fclose(file);
    return sum * 1024e-6;
}

static void *take(size_t count, size_t size)
{
    void *p = calloc(count, size);
    if (!p)
        exit(1);
    return p;
}

static files files_read(const char *folder, const char *list)
{
    FILE *f = fopen(list, "r");
    char line[4096], name[4096];
    long long target;
    files all = { 0 };
    uint64_t room = 0;
    while (f && fgets(line, sizeof line, f) && sscanf(line, "%4095s %lld", name, &target) == 2) {
        if (all.count == room) {
            room = room ? 2 * room : 1 << 16;
            all.paths = realloc(all.paths, room * sizeof *all.paths);
            all.targets = realloc(all.targets, room * sizeof *all.targets);
            if (!all.paths || !all.targets)
                exit(1);
        }
        all.paths[all.count] = take(strlen(folder) + strlen(name) + 2, 1);
        sprintf(all.paths[all.count], "%s/%s", folder, name);
        all.targets[all.count++] = target;
    }
    if (!all.count)
        exit(1);
    fclose(f);
    return all;
}

/* A picture is the whole file with the sample's number. The second picture of a pair is the next file. */
static bzna_status locate(void *user, uint64_t index, uint32_t field, bzna_place *place, bzna_error *err)
{
    (void)err;
    const files *all = user;
    if (field == 1) {
        place->data = &all->targets[index];
        place->size = sizeof *all->targets;
        return BZNA_OK;
    }
    place->file = field ? (index + 1) % all->count : index;
    place->size = BZNA_SIZE_UNKNOWN;
    return BZNA_OK;
}

static bzna_status open_way(bzna_context *context, int way, char **argv, const files *all, bzna_dataset **out,
                            bzna_error *err)
{
    static const bzna_provider_field fields[] = {
        { .name = "image", .kind = BZNA_FIELD_IMAGE, .located = 1 },
        { .name = "target", .kind = BZNA_FIELD_INTEGER, .located = 1 },
        { .name = "mask", .kind = BZNA_FIELD_IMAGE, .located = 1 } };
    const bzna_formats_config config = { .struct_size = sizeof config, .list = way == LIST ? argv[3] : NULL };
    bzna_provider provider = { .struct_size = sizeof provider, .fields = fields, .locate = locate };
    if (way < PROVIDER)
        return bzna_formats_open(context, argv[2], &config, out, err);
    provider.user = (void *)(uintptr_t)all;
    provider.count = provider.file_count = all->count;
    provider.files = (const char *const *)all->paths;
    provider.field_count = way == PAIRS ? 3 : 2;
    return bzna_dataset_open_provider(context, &provider, NULL, out, err);
}

static figures measure(int way, char **argv)
{
    const files all = way < PROVIDER ? (files){ 0 } : files_read(argv[2], argv[3]);
    bzna_context_config context_config = { .struct_size = sizeof context_config };
    bzna_error err = { .struct_size = sizeof err };
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    struct rusage usage;
    uint64_t count, at = 1;
    double before, wall, cpu, open_s, cpu_s, kept_mb;
    if (bzna_context_open(&context_config, &context, &err) != BZNA_OK)
        exit(1);
    before = private_mb();
    wall = seconds(CLOCK_MONOTONIC);
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (open_way(context, way, argv, &all, &dataset, &err) != BZNA_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    open_s = seconds(CLOCK_MONOTONIC) - wall;
    cpu_s = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    kept_mb = private_mb() - before;
    getrusage(RUSAGE_SELF, &usage);
    count = bzna_dataset_count(dataset);
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < LOOKS; i++) {
        bzna_sample_ref sample;
        at = (at * 6364136223846793005u + 1442695040888963407u);
        if (bzna_dataset_sample(dataset, (at >> 20) % count, &sample, sizeof sample, &err) != BZNA_OK)
            exit(1);
    }
    return (figures){ (double)count, { open_s, cpu_s, kept_mb, (double)usage.ru_maxrss * 1024e-6,
                                       (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / LOOKS * 1e6 } };
}

static figures run(int way, char **argv)
{
    int ends[2], status;
    figures result = { 0 };
    if (pipe(ends))
        exit(1);
    if (fork() == 0) {
        result = measure(way, argv);
        _exit(write(ends[1], &result, sizeof result) != (ssize_t)sizeof result);
    }
    close(ends[1]);
    wait(&status);
    if (status || read(ends[0], &result, sizeof result) != (ssize_t)sizeof result)
        exit(1);
    close(ends[0]);
    return result;
}

int main(int argc, char **argv)
{
    figures least[WAYS];
    const int rounds = argc > 2 ? atoi(argv[1]) : 0, ways = argc > 3 ? WAYS : LIST;
    if (rounds < 1) {
        fprintf(stderr, "usage: %s ROUNDS PATH [LIST]\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < rounds; i++)
        for (int way = 0; way < ways; way++) {
            const figures f = run(way, argv);
            for (int k = 0; k < FIGURES; k++)
                least[way].figure[k] = i && least[way].figure[k] < f.figure[k] ? least[way].figure[k] : f.figure[k];
            least[way].samples = f.samples;
        }
    for (int way = 0; way < ways; way++) {
        printf("{\"way\": \"%s\", \"samples\": %.0f", names[way], least[way].samples);
        for (int k = 0; k < FIGURES; k++)
            printf(", \"%s\": %.6g", figure_names[k], least[way].figure[k]);
        printf("}\n");
    }
    return 0;
}
