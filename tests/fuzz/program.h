/* program.h - what a program of fuzz targets consists of; program_main.h is the rest of it. */
#ifndef BENZINA_FUZZ_PROGRAM_H
#define BENZINA_FUZZ_PROGRAM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A target takes any bytes. mutate changes an input in place and returns its new size; NULL: libFuzzer's own way. seeds
 * gives inputs to begin with; NULL: they are files of tests/data (fuzz.sh). mend makes an input whole, of which a byte
 * was changed; NULL: nothing does. */
typedef void fuzz_give(void *user, const void *data, size_t size);
typedef struct fuzz_target {
    const char *name;
    void      (*run)(const uint8_t *data, size_t size);
    size_t    (*mutate)(uint8_t *data, size_t size, size_t capacity, unsigned seed);
    void      (*seeds)(fuzz_give *give, void *user);
    void      (*mend)(uint8_t *data, size_t size);
} fuzz_target;

/* Changes bytes: libFuzzer's in its programs, and a plain one in others. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t capacity);

/* What must not be, is said; then the program ends. */
#define FUZZ_CHECK(condition) do { if (!(condition)) { \
    fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); abort(); } } while (0)

#endif
