/* example.h - how the examples end if a call fails, what they say of samples that failed, and how they write a picture
 *
 * To take an example into a program, copy its file and this one into a folder beside benzina.h. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include "../benzina.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* How a program ends after an error. One that others wait for defines it before it includes this file. */
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

/* Says which samples of a batch failed, if any did: their slots hold no pictures. Returns their number. */
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

/* Writes a picture of a batch of 8 bits whose channels lie side by side as FOLDER/00000.ppm, or the slot's number. */
static inline void write_slot(const char *folder, const bzna_batch_info *info, uint32_t slot)
{
    const int64_t height = info->image.shape[1], width = info->image.shape[2];
    char path[4096];
    snprintf(path, sizeof path, "%s/%05" PRIu32 ".ppm", folder, slot);
    write_ppm(path, (const uint8_t *)info->image.data + (int64_t)slot * height * width * 3, width, height);
}

#endif
