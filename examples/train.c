/* train.c - the loop of a long training run: one process's share of the samples, errors, and a state to continue from
 *
 *     cc -std=c11 train.c benzina.o $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl -o learn
 *     ./learn train.bzna run.state [RANK WORLD_SIZE]
 *
 * Start it again after it was interrupted: it continues from the state that it saved last, also with another number of
 * processes. Every process reads that state, and rank 0 writes it. After the last epoch it saves once more, so that
 * another start has nothing left to do. */
#define _POSIX_C_SOURCE 200809L                            /* fsync */
#include "example.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { EPOCHS = 90, BATCH_SIZE = 256, SIDE_PX = 224, SAVE_EVERY = 1000 };

/* 1: *state is what the file holds. 0: there is no such file. -1: it cannot be read, or is too short. */
static int load_state(const char *path, bzna_loader_state *state)
{
    FILE *file = fopen(path, "rb");
    if (!file) return errno == ENOENT ? 0 : -1;
    int whole = fread(state, sizeof *state, 1, file) == 1;
    fclose(file);
    return whole ? 1 : -1;
}

/* Replaces the file as a whole: whenever this is interrupted, the file holds the old state or the new one. 0, or -1. */
static int save_state(const char *path, const bzna_loader_state *state)
{
    char partial[4096];
    if (snprintf(partial, sizeof partial, "%s.partial", path) >= (int)sizeof partial) {
        errno = ENAMETOOLONG;
        return -1;
    }
    FILE *file = fopen(partial, "wb");
    if (!file) return -1;
    int written = fwrite(state, sizeof *state, 1, file) == 1 && fflush(file) == 0 && fsync(fileno(file)) == 0;
    if (fclose(file) != 0 || !written) return -1;
    return rename(partial, path);
}

static void configure(bzna_loader_config *config, uint32_t rank, uint32_t world_size)
{
    bzna_loader_config_init(config, sizeof *config);
    config->output.batch_size = BATCH_SIZE;
    config->output.width      = SIDE_PX;
    config->output.height     = SIDE_PX;
    config->order.kind        = BZNA_ORDER_SHUFFLE;
    config->order.seed        = 1234;
    config->order.epochs      = EPOCHS;
    config->order.last_batch  = BZNA_LAST_PARTIAL;           /* every sample once: an epoch's last batch has fewer */
    config->shard.rank        = rank;
    config->shard.world_size  = world_size;
    config->warp.kind         = BZNA_WARP_RANDOM_RESIZED_CROP;
    config->warp.flip_h       = 0.5;
    config->color.mean[0] = 123.675f;  config->color.mean[1] = 116.28f;  config->color.mean[2] = 103.53f;
    config->color.std[0]  =  58.395f;  config->color.std[1]  =  57.12f;  config->color.std[2]  =  57.375f;
    config->read.retries      = 5;                           /* a file server may restart */
    config->errors.on_error     = BZNA_ON_ERROR_FILL;      /* a sample that fails is a black picture and a message */
}

/* Your network goes here. info->image is [256, 3, 224, 224] float32. Where info->image.device is the CPU, read it at
 * once. On a GPU, image.data is a device address: enqueue what reads it on info->stream, and return without waiting. */
static void step(const bzna_batch_info *info)
{
    printf("epoch %" PRIu64 ", position %" PRIu64 ": %" PRIu32 " samples, first is %" PRIu64 " of class %" PRId64 "\n",
           info->epoch, info->position, info->count, info->indices[0], info->targets[0]);
}

/* Goes on from the state that the file holds, if there is such a file. */
static void restore(bzna_loader *loader, const char *path, bzna_error *err)
{
    bzna_loader_state state;
    const int found = load_state(path, &state);
    if (found > 0) check(bzna_loader_restore(loader, &state, err), err);     /* refuses the state of another data set */
    if (found >= 0) return;
    fprintf(stderr, "%s: no whole state can be read; remove it to start afresh\n", path);
    exit(1);
}

/* Saves where the loader is. Save the model with it. */
static void save(bzna_loader *loader, const char *path, bzna_error *err)
{
    bzna_loader_state state;
    check(bzna_loader_save(loader, &state, sizeof state, err), err);
    if (save_state(path, &state) < 0) fprintf(stderr, "%s: cannot be written: %s\n", path, strerror(errno));
}

static void train(bzna_loader *loader, uint32_t rank, const char *path, bzna_error *err)
{
    bzna_batch *batch;
    bzna_status status;
    uint64_t batches = 0;
    while ((status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, err)) == BZNA_OK) {
        bzna_batch_info info;
        check(bzna_batch_get_info(batch, &info, sizeof info, err), err);
        report_failed(batch, &info);
        if (info.count) step(&info);                         /* the last batch may have none for this rank */
        bzna_batch_release(batch);
        if (rank == 0 && ++batches % SAVE_EVERY == 0) save(loader, path, err);
    }
    check(status, err);                                      /* BZNA_END after the last epoch, which is no failure */
    if (rank == 0) save(loader, path, err);
}

int main(int argc, char **argv)
{
    bzna_error    err;
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader  *loader  = NULL;
    bzna_loader_config config;

    if (argc != 3 && argc != 5) { fprintf(stderr, "usage: %s DATA STATE [RANK WORLD_SIZE]\n", argv[0]); return 2; }
    const uint32_t rank       = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
    const uint32_t world_size = argc > 3 ? (uint32_t)strtoul(argv[4], NULL, 10) : 1;

    bzna_error_init(&err, sizeof err);
    configure(&config, rank, world_size);
    check(bzna_context_open(NULL, &context, &err), &err);                    /* a GPU if there is one, else the CPU */
    check(bzna_dataset_open(context, argv[1], NULL, &dataset, &err), &err);
    check(bzna_loader_open(context, dataset, &config, &loader, &err), &err);
    restore(loader, argv[2], &err);
    train(loader, rank, argv[2], &err);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return 0;
}
