/* open_formats.h - what a test opens by bzna_dataset_open and the like is opened by examples/formats. Include after
 * benzina.c and test.h. */
#ifndef BENZINA_TEST_OPEN_FORMATS_H
#define BENZINA_TEST_OPEN_FORMATS_H

#include "../../examples/formats/formats.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"          /* not every test needs all of it */

static const char *rec_list;          /* formats_config.list */

static bzna_formats_config rec_config(const bzna_dataset_config *config)
{
    return (bzna_formats_config){ .struct_size = sizeof(bzna_formats_config), .dataset = config, .list = rec_list };
}

static bzna_status rec_open(bzna_context *in, const char *path, const bzna_dataset_config *config, bzna_dataset **out,
                            bzna_error *err)
{
    const bzna_formats_config all = rec_config(config);
    return bzna_formats_open(in, path, &all, out, err);
}

static bzna_status rec_open_list(bzna_context *in, const char *const *paths, uint32_t count,
                                 const bzna_dataset_config *config, bzna_dataset **out, bzna_error *err)
{
    const bzna_formats_config all = rec_config(config);
    return bzna_formats_open_list(in, paths, count, &all, out, err);
}

static bzna_status rec_open_memory(bzna_context *in, const void *bytes, size_t size, const bzna_dataset_config *config,
                                   bzna_dataset **out, bzna_error *err)
{
    const bzna_formats_config all = rec_config(config);
    return bzna_formats_open_memory(in, bytes, size, &all, out, err);
}

static bzna_status rec_open_source(bzna_context *in, const bzna_source *source, const bzna_dataset_config *config,
                                   bzna_dataset **out, bzna_error *err)
{
    const bzna_formats_config all = rec_config(config);
    return bzna_formats_open_source(in, source, &all, out, err);
}

#define bzna_dataset_open        rec_open
#define bzna_dataset_open_list   rec_open_list
#define bzna_dataset_open_memory rec_open_memory
#define bzna_dataset_open_source rec_open_source

#pragma GCC diagnostic pop

#endif
