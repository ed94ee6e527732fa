/* train.c - the loop of a long training run: one process's share of the samples, errors, and a state to go on from
 *
 *     cc -std=c11 train.c benzina.o $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl -o train
 *     ./train train.bzna run.state [RANK WORLD_SIZE]
 *
 * Start it again after it was interrupted: it goes on from the state that it saved last, also with another number of
 * processes. Every process reads that state; the one of rank 0 writes it. */
#define _POSIX_C_SOURCE 200809L                            /* fsync */
#include "../benzina.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
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
    config->order.last_batch  = BZNA_LAST_PAD;               /* equal shapes; info.count says how many are real */
    config->shard.rank        = rank;
    config->shard.world_size  = world_size;
    config->warp.kind         = BZNA_WARP_RANDOM_RESIZED_CROP;
    config->warp.flip_h       = 0.5;
    config->color.mean[0] = 123.675f;  config->color.mean[1] = 116.28f;  config->color.mean[2] = 103.53f;
    config->color.std[0]  =  58.395f;  config->color.std[1]  =  57.12f;  config->color.std[2]  =  57.375f;
    config->read.retries      = 5;                           /* a file server may restart */
    config->errors.policy     = BZNA_ON_ERROR_FILL;          /* a sample that fails is a black picture and a message */
}

/* Your network goes here. info->image is [256, 3, 224, 224] float32. Where info->image.device is the CPU, read it at
 * once. On a GPU, image.data is a device address: enqueue what reads it on info->stream, and return without waiting. */
static void step(const bzna_batch_info *info)
{
    printf("epoch %" PRIu64 ", position %" PRIu64 ": %" PRIu32 " samples, first is %" PRIu64 " of class %" PRId64 "\n",
           info->epoch, info->position, info->count, info->indices[0], info->targets[0]);
}

/* Says why slots of the batch hold no picture. */
static void report(const bzna_batch *batch, const bzna_batch_info *info)
{
    bzna_error err;
    bzna_error_init(&err, sizeof err);
    fprintf(stderr, "%" PRIu32 " of %" PRIu32 " samples failed\n", info->failed, info->count);
    for (uint32_t slot = 0; slot < info->count; slot++)
        if (info->status[slot] < 0 && bzna_batch_error(batch, slot, &err) < 0)
            fprintf(stderr, "%s\n", err.message);
}

/* Goes on from the state that the file holds, if there is such a file. */
static bzna_status restore(bzna_loader *loader, const char *path, bzna_error *err)
{
    bzna_loader_state state;
    int found = load_state(path, &state);
    if (found > 0) return bzna_loader_restore(loader, &state, err);      /* refuses the state of another data set */
    if (found == 0) return BZNA_OK;
    snprintf(err->message, sizeof err->message, "%s: no whole state can be read; remove it to start afresh", path);
    return err->status = BZNA_E_TRUNCATED;
}

static bzna_status train(bzna_loader *loader, uint32_t rank, const char *path, bzna_error *err)
{
    bzna_batch *batch;
    bzna_loader_state state;
    bzna_status status = restore(loader, path, err);
    for (uint64_t batches = 1; status == BZNA_OK; batches++) {
        bzna_batch_info info;
        if ((status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, err)) != BZNA_OK) break;
        if ((status = bzna_batch_get_info(batch, &info, sizeof info, err)) == BZNA_OK) {
            if (info.failed) report(batch, &info);
            step(&info);
        }
        bzna_batch_release(batch);
        if (status < 0 || rank != 0 || batches % SAVE_EVERY != 0) continue;
        status = bzna_loader_save(loader, &state, sizeof state, err);    /* save the model with it */
        if (status == BZNA_OK && save_state(path, &state) < 0)
            fprintf(stderr, "%s: cannot be written: %s\n", path, strerror(errno));
    }
    return status;                                           /* BZNA_END after the last epoch */
}

int main(int argc, char **argv)
{
    bzna_error    err;
    bzna_context *context = NULL;
    bzna_dataset *dataset = NULL;
    bzna_loader  *loader  = NULL;
    bzna_status   status;
    bzna_loader_config config;

    if (argc != 3 && argc != 5) { fprintf(stderr, "usage: %s DATA STATE [RANK WORLD_SIZE]\n", argv[0]); return 2; }
    uint32_t rank       = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
    uint32_t world_size = argc > 3 ? (uint32_t)strtoul(argv[4], NULL, 10) : 1;

    bzna_error_init(&err, sizeof err);
    configure(&config, rank, world_size);
    if ((status = bzna_context_open(NULL, &context, &err)) < 0 ||        /* a GPU if there is one, else the CPU */
        (status = bzna_dataset_open(context, argv[1], NULL, &dataset, &err)) < 0 ||
        (status = bzna_loader_open(context, dataset, &config, &loader, &err)) < 0 ||
        (status = train(loader, rank, argv[2], &err)) < 0)
        fprintf(stderr, "%s\n", err.message);
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    bzna_context_close(context);
    return status < 0;
}
