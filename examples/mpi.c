/* mpi.c - an epoch shared by many processes, and a run that stops with one number of processes and continues with
 * another
 *
 *     mpicc -std=c11 mpi.c benzina.o $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl -o mpi
 *     mpirun -n 4 ./mpi train.bzna                       one epoch, a quarter of it on each rank
 *     mpirun -n 4 ./mpi train.bzna --save state          stops in the middle of it
 *     mpirun -n 3 ./mpi train.bzna --resume state        the other half, on three ranks
 *
 * Prints a line with the mean of each sample delivered, which does not depend on the rank that decoded it, and checks
 * that each sample came exactly once. */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>

/* One rank that merely left would keep the others waiting for ever. */
#define EXAMPLE_EXIT() (MPI_Abort(MPI_COMM_WORLD, 1), exit(1))
#include "example.h"

#include <string.h>
#include <unistd.h>

static int rank, world;

typedef struct run {
    const char        *path, *save, *resume;
    bzna_context      *context;
    bzna_dataset      *dataset;
    bzna_loader       *loader;
    uint64_t           count;         /* samples of the data set */
    bzna_loader_state  start, end;    /* of what this run delivers */
    uint32_t          *seen;          /* how often each sample came; after the run, on rank 0, on all ranks together */
    double            *mean;          /* of its pixels */
} run;

static void give_up(const char *message)
{
    fprintf(stderr, "rank %d of %d: %s\n", rank, world, message);
    EXAMPLE_EXIT();
}

static void *allocate(uint64_t count, size_t size)
{
    void *p = count <= INT32_MAX ? calloc((size_t)count, size) : NULL;
    if (!p) give_up("the tables of what was seen do not fit");
    return p;
}

/* The processors and GPUs of a machine are shared by the ranks on it: decoder threads, and which GPU. */
static uint32_t decoder_threads(bzna_device *device)
{
    MPI_Comm machine;
    int neighbors = 1, place = 0;
    bzna_device_info gpus;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &neighbors);
    MPI_Comm_rank(machine, &place);
    MPI_Comm_free(&machine);
    if (bzna_context_device_info(NULL, &gpus, sizeof gpus, NULL) == BZNA_OK) {
        device->kind    = BZNA_DEVICE_CUDA;
        device->ordinal = place % (int32_t)gpus.device_count;
    }
    return processors > neighbors ? (uint32_t)(processors / neighbors) : 1;
}

static void open_all(run *r)
{
    bzna_error err;
    bzna_error_init(&err, sizeof err);
    bzna_context_config context_config;
    bzna_context_config_init(&context_config, sizeof context_config);

    bzna_loader_config config;                                   /* the same on every rank, but for shard.rank */
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size  = 4;
    config.output.width       = 64;
    config.output.height      = 64;
    config.order.kind         = BZNA_ORDER_SHUFFLE;
    config.order.seed         = 1234;
    config.shard.rank         = (uint32_t)rank;
    config.shard.world_size   = (uint32_t)world;
    config.warp.kind          = BZNA_WARP_RANDOM_RESIZED_CROP;
    config.warp.flip_h        = 0.5;
    config.decode.threads     = decoder_threads(&context_config.device);

    check(bzna_context_open(&context_config, &r->context, &err), &err);
    check(bzna_dataset_open(r->context, r->path, NULL, &r->dataset, &err), &err);
    check(bzna_loader_open(r->context, r->dataset, &config, &r->loader, &err), &err);
    r->count = bzna_dataset_count(r->dataset);
    r->seen = allocate(r->count, sizeof *r->seen);
    r->mean = allocate(r->count, sizeof *r->mean);
}

/* Rank 0 reads the state, all ranks go on from it. */
static void resume(run *r)
{
    bzna_error err;
    bzna_loader_state state;
    bzna_error_init(&err, sizeof err);
    if (rank == 0) {
        FILE *file = fopen(r->resume, "rb");
        if (!file || fread(&state, sizeof state, 1, file) != 1) give_up("the file of --resume cannot be read");
        fclose(file);
    }
    MPI_Bcast(&state, sizeof state, MPI_BYTE, 0, MPI_COMM_WORLD);
    check(bzna_loader_restore(r->loader, &state, &err), &err);
}

/* Every rank is at the same step, so that what one of them saves is true of all. */
static void save(const run *r)
{
    if (rank != 0) return;
    FILE *file = fopen(r->save, "wb");
    if (!file || fwrite(&r->end, sizeof r->end, 1, file) != 1 || fclose(file))
        give_up("the file of --save cannot be written");
}

/* The "training": notes which samples came, and returns the sum of their means. */
static double learn(run *r, const bzna_batch_info *info)
{
    size_t pixels = (size_t)(info->image.shape[1] * info->image.shape[2] * info->image.shape[3]);
    double total = 0;
    for (uint32_t slot = 0; slot < info->count; slot++) {
        const float *x = (const float *)info->image.data + slot * pixels;
        uint64_t index = info->indices[slot];
        double sum = 0;
        for (size_t i = 0; i < pixels; i++) sum += (double)x[i];
        total += r->mean[index] = sum / (double)pixels;
        r->seen[index]++;
    }
    return total;
}

/* One batch on every rank, and what all ranks agree on. Returns 0 after the epoch's last one. A rank that gets no
 * sample in the last step still gets an (empty) batch, so no rank is ever alone in MPI_Allreduce. */
static int step(run *r)
{
    bzna_error err;
    bzna_batch *batch = NULL;
    double mine[3] = { 0, 0, 0 }, all[3];                        /* batches, samples, sum */
    bzna_error_init(&err, sizeof err);
    check(bzna_loader_next(r->loader, BZNA_WAIT_FOREVER, &batch, &err), &err);
    if (batch) {
        bzna_batch_info info;
        check(bzna_batch_get_info(batch, &info, sizeof info, &err), &err);
        if (report_failed(batch, &info)) give_up("samples failed");                  /* or go on without them */
        mine[0] = 1;
        mine[1] = info.count;
        mine[2] = learn(r, &info);
        bzna_batch_release(batch);
    }
    MPI_Allreduce(mine, all, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if ((int)all[0] != (batch ? world : 0)) give_up("the ranks took different numbers of steps");
    if (batch && rank == 0) fprintf(stderr, "step of %3.0f samples, mean %.3f\n", all[1], all[2] / all[1]);
    return batch != NULL;
}

/* Rank 0: each sample at most once, and as many as stand between the two states. */
static int verify(const run *r)
{
    uint64_t last = r->end.epoch > r->start.epoch ? r->count : r->end.position, delivered = 0, repeated = 0;
    for (uint64_t i = 0; i < r->count; i++) {
        if (r->seen[i]) printf("sample %" PRIu64 " mean %.6f\n", i, r->mean[i]);
        delivered += r->seen[i] != 0;
        repeated += r->seen[i] > 1;
    }
    int good = !repeated && delivered == last - r->start.position;
    printf("%d ranks, positions %" PRIu64 " to %" PRIu64 " of %" PRIu64 ": %" PRIu64 " samples, %s\n", world,
           r->start.position, last, r->count, delivered, good ? "each once" : "NOT each once");
    return good;
}

static int run_all(run *r)
{
    bzna_error err;
    bzna_loader_info info;
    uint64_t steps = 0, stop = UINT64_MAX;
    int good = 1;
    bzna_error_init(&err, sizeof err);
    open_all(r);
    if (r->resume) resume(r);
    check(bzna_loader_get_info(r->loader, &info, sizeof info, &err), &err);
    if (r->save) stop = info.batches_per_epoch / 2;
    check(bzna_loader_save(r->loader, &r->start, sizeof r->start, &err), &err);
    while (steps < stop && step(r)) steps++;
    check(bzna_loader_save(r->loader, &r->end, sizeof r->end, &err), &err);
    if (r->save) save(r);

    MPI_Reduce(rank ? r->seen : MPI_IN_PLACE, rank ? NULL : r->seen, (int)r->count, MPI_UINT32_T, MPI_SUM, 0,
               MPI_COMM_WORLD);
    MPI_Reduce(rank ? r->mean : MPI_IN_PLACE, rank ? NULL : r->mean, (int)r->count, MPI_DOUBLE, MPI_SUM, 0,
               MPI_COMM_WORLD);
    if (rank == 0) good = verify(r);
    MPI_Bcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD);
    bzna_loader_close(r->loader);
    bzna_dataset_close(r->dataset);
    bzna_context_close(r->context);
    free(r->seen);
    free(r->mean);
    return good;
}

int main(int argc, char **argv)
{
    run r = { .path = argc > 1 ? argv[1] : NULL };
    int good = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    if (argc == 4 && !strcmp(argv[2], "--save")) r.save = argv[3];
    if (argc == 4 && !strcmp(argv[2], "--resume")) r.resume = argv[3];
    if (argc == 2 || r.save || r.resume) good = run_all(&r);
    else if (rank == 0) fprintf(stderr, "usage: %s DATA [--save FILE | --resume FILE]\n", argv[0]);
    MPI_Finalize();
    return !good;
}
