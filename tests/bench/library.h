/* library.h - a library named on the command line, for benches that compare several. Include after formats.h. */
#ifndef BENZINA_BENCH_LIBRARY_H
#define BENZINA_BENCH_LIBRARY_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *find(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    if (!symbol) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return symbol;
}

static void check(bzna_status status, const bzna_error *err)
{
    if (status >= 0)
        return;
    fprintf(stderr, "%s\n", err->message);
    exit(1);
}
/* dataset_config of 0.3, whose library opened records itself: bench_small.c and bench_digests.c compare with it. */
typedef struct dataset_config_03 {
    uint32_t    struct_size, allow_empty;
    const char *name, *split, *format, *list;
    const char *const *classes;
    uint32_t    class_count, class_order, orientation, palette;
    const bzna_records *records;
    const char *target;
    const void *index;
    uint64_t    index_bytes, hold_bytes;
} dataset_config_03;

/* Opens a file, or bytes in memory if path is NULL: records if `records` is not NULL. A library that is
 * libbenzina_formats opens them by bzna_formats_open, one of 0.3 by itself. */
static void open_data(void *library, bzna_context *context, const char *path, const void *bytes, size_t size,
                      const bzna_records *records, uint64_t hold_bytes, bzna_dataset **out)
{
    const bzna_formats_config now = { .struct_size = sizeof now, .records = records, .hold_bytes = hold_bytes };
    const dataset_config_03 before = { .struct_size = sizeof before, .records = records, .hold_bytes = hold_bytes };
    bzna_error err = { .struct_size = sizeof err };
    const int has_formats = dlsym(library, "bzna_formats_open") != NULL;

    if (has_formats && path)
        check(((__typeof__(&bzna_formats_open))find(library, "bzna_formats_open"))(context, path, &now, out, &err),
              &err);
    else if (has_formats)
        check(((__typeof__(&bzna_formats_open_memory))find(library, "bzna_formats_open_memory"))(
                  context, bytes, size, &now, out, &err), &err);
    else if (path)
        check(((__typeof__(&bzna_dataset_open))find(library, "bzna_dataset_open"))(
                  context, path, records ? (const void *)&before : NULL, out, &err), &err);
    else
        check(((__typeof__(&bzna_dataset_open_memory))find(library, "bzna_dataset_open_memory"))(
                  context, bytes, size, records ? (const void *)&before : NULL, out, &err), &err);
}

#endif
