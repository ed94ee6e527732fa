/* What a writer costs as archives grow: time a sample, and the most memory that the process had, while it writes tiny
 * samples with names and targets to a sink that keeps nothing. make bench runs it once a size, for the memory. */
#include "../../benzina.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static bzna_status count_bytes(void *user, uint64_t offset, const void *src, uint64_t size)
{
    uint64_t *end = user;
    (void)src;
    *end = offset + size > *end ? offset + size : *end;
    return BZNA_OK;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Arguments: how many samples. */
int main(int argc, char **argv)
{
    static const uint8_t tiny[] = { 0, 0, 0, 1, 0x67, 0x42, 0x00, 0x0a, 0xf8, 0x41, 0xa2, 0, 0, 0, 1, 0x68, 0xce, 0x38,
                                    0x80, 0, 0, 0, 1, 0x65, 0x88, 0x84, 0x21 };
    const uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000;
    bzna_image image = { .struct_size = sizeof image, .codec = BZNA_CODEC_H264, .width = 16, .height = 16,
                         .data = tiny, .data_size = sizeof tiny };
    uint64_t end = 0;
    bzna_sink sink = { .struct_size = sizeof sink, .user = &end, .write_at = count_bytes };
    bzna_context *context = NULL;
    bzna_writer *writer = NULL;
    bzna_error err = { .struct_size = sizeof err };
    struct rusage usage;
    double start, added, finished;
    bzna_status status = bzna_context_open(NULL, &context, &err);
    if (status == BZNA_OK)
        status = bzna_writer_open_sink(context, &sink, NULL, &writer, &err);
    start = now();
    for (uint64_t i = 0; i < count && status == BZNA_OK; i++) {
        char name[64];
        bzna_writer_sample sample = { .struct_size = sizeof sample, .image = &image, .has_target = 1,
                                      .target = (int64_t)(i % 1000),
                                    .name = name };
        snprintf(name, sizeof name, "n%08d/n%08d_%07d.JPEG", (int)(i / 1300), (int)(i / 1300), (int)i);
        status = bzna_writer_add(writer, BZNA_INDEX_NEXT, &sample, 0, &err);
    }
    added = now();
    if (status == BZNA_OK)
        status = bzna_writer_finish(writer, &err);
    finished = now();
    getrusage(RUSAGE_SELF, &usage);
    if (status == BZNA_OK)
        printf("write %8llu tiny samples: %5.2f us a sample, and the index in %4.2f s; %5.1f MiB at most; %.2f GB\n",
               (unsigned long long)count, (added - start) * 1e6 / (double)count, finished - added,
               (double)usage.ru_maxrss / 1024, (double)end * 1e-9);
    else
        fprintf(stderr, "%s\n", err.message);
    bzna_writer_close(writer);
    bzna_context_close(context);
    return status != BZNA_OK;
}
