/* archive.c - opening an archive and reading from it */
#include "tool.h"

#include <string.h>

/* device, sessions: of bzna_context_config. */
int archive_open_on(archive *a, const char *path, int32_t device, uint32_t sessions)
{
    bzna_error err = error_empty();
    bzna_context_config config;
    memset(a, 0, sizeof *a);
    bzna_context_config_init(&config, sizeof config);
    config.device = device;
    config.sessions = sessions;
    if (bzna_context_open(&config, &a->context, &err) < 0 || bzna_dataset_open(a->context, path, NULL, &a->dataset, &err) < 0) {
        bzna_context_close(a->context);
        return complain("%s", err.message);
    }
    a->count = bzna_dataset_count(a->dataset);
    return EXIT_OK;
}

/* For commands that a GPU has nothing to do with. */
int archive_open(archive *a, const char *path) { return archive_open_on(a, path, BZNA_DEVICE_CPU, 0); }

void archive_close(archive *a)
{
    bzna_dataset_close(a->dataset);
    bzna_context_close(a->context);
}

/* The file name of a sample, in a buffer that is used again; NULL when it has none. */
bzna_status sample_filename(const archive *a, uint64_t index, bytes *buffer, const char **name, bzna_error *err)
{
    size_t needed = 0;
    *name = NULL;
    bytes_reserve(buffer, 256);
    bzna_status status = bzna_dataset_filename(a->dataset, index, (char *)buffer->data, buffer->size, &needed, err);
    if (status == BZNA_E_BUFFER) {
        bytes_reserve(buffer, needed);
        status = bzna_dataset_filename(a->dataset, index, (char *)buffer->data, buffer->size, &needed, err);
    }
    if (status == BZNA_OK) *name = (const char *)buffer->data;
    return status == BZNA_E_NOT_FOUND ? BZNA_OK : status;
}

/* Reads one picture of a sample, coded, into a buffer that is used again. */
bzna_status sample_load(const archive *a, uint64_t index, const char *track, bytes *buffer, bzna_image *image, bzna_error *err)
{
    bzna_sample sample = { .struct_size = sizeof sample };
    bzna_status status = bzna_dataset_sample(a->dataset, index, &sample, err);
    if (status < 0) return status;
    bytes_reserve(buffer, sample.size);
    memset(image, 0, sizeof *image);
    image->struct_size = sizeof *image;
    return bzna_dataset_image(a->dataset, index, track, buffer->data, buffer->size, image, err);
}

uint32_t decoder_code(const char *name)
{
    return !strcmp(name, "software") ? BZNA_DECODER_SOFTWARE : !strcmp(name, "nvdec") ? BZNA_DECODER_NVDEC : BZNA_DECODER_AUTO;
}

uint32_t output_code(const char *name)
{
    return !strcmp(name, "host") ? BZNA_OUTPUT_HOST : !strcmp(name, "device") ? BZNA_OUTPUT_DEVICE : BZNA_OUTPUT_AUTO;
}

uint32_t warp_code(const char *name)
{
    return !strcmp(name, "random") ? BZNA_WARP_RANDOM_RESIZED_CROP :
           !strcmp(name, "center") ? BZNA_WARP_CENTER_RESIZED_CROP : BZNA_WARP_NONE;
}
