/* library.h - a library named on the command line, for benches that compare several. Include after benzina.h. */
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
#endif
