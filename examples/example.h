/* example.h - how the examples end if a call fails, report samples that failed, and write a picture
 *
 * To use an example in a program, copy its file and this one into a folder next to benzina.h. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include "../benzina.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* How a program ends after an error. A program of several processes defines it before it includes this file. */
#ifndef EXAMPLE_EXIT
#define EXAMPLE_EXIT() exit(1)
#endif

/* Ends the program with the call's message, if it failed. */
static inline void check(bzna_status status, const bzna_error *err)
{
    if (status >= 0) return;
    fprintf(stderr, "%s\n", err->message[0] ? err->message : bzna_status_text(status));
    EXAMPLE_EXIT();
}

/* Prints which samples of a batch failed: their slots hold no pictures. Returns their number. */
static inline uint32_t report_failed(const bzna_batch *batch, const bzna_batch_info *info)
{
    bzna_error err;
    bzna_error_init(&err, sizeof err);
    if (info->failed) fprintf(stderr, "%" PRIu32 " of %" PRIu32 " samples failed\n", info->failed, info->count);
    for (uint32_t slot = 0; info->failed && slot < info->count; slot++)
        if (bzna_batch_error(batch, slot, &err) < 0) fprintf(stderr, "%s\n", err.message);
    return info->failed;
}

/* Writes rows of R, G and B, 8 bits each, as a PPM file. */
static inline void write_ppm(const char *path, const void *pixels, int64_t width, int64_t height)
{
    FILE *file = fopen(path, "wb");
    int failed = !file || fprintf(file, "P6\n%" PRId64 " %" PRId64 "\n255\n", width, height) < 0 ||
                 fwrite(pixels, 3 * (size_t)width, (size_t)height, file) != (size_t)height;
    if (file && fclose(file)) failed = 1;
    if (!failed) return;
    perror(path);
    EXAMPLE_EXIT();
}

/* Writes a picture of a batch of uint8 NHWC pixels as FOLDER/00000.ppm, named after the slot. */
static inline void write_slot(const char *folder, const bzna_batch_info *info, uint32_t slot)
{
    const int64_t height = info->image.shape[1], width = info->image.shape[2];
    char path[4096];
    snprintf(path, sizeof path, "%s/%05" PRIu32 ".ppm", folder, slot);
    write_ppm(path, (const uint8_t *)info->image.data + (int64_t)slot * height * width * 3, width, height);
}

#endif
