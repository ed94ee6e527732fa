/* bench_jpeg.c - how many JPEG files a second libjpeg-turbo decodes to planes of Y'CbCr, whole, from memory, with
 * nothing around it: what bench_peers.py holds loaders against.
 *
 *     cc -O2 -std=c11 tests/bench/bench_jpeg.c $(pkg-config --cflags --libs libjpeg) -lpthread -o bench_jpeg
 *     ./bench_jpeg FOLDER THREADS SECONDS
 *
 * Prints {"rate": pictures a second, "cpu_ms": milliseconds of processors a picture}, after a second of warming up. */
#define _XOPEN_SOURCE 700
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ftw.h>
#include <jpeglib.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

typedef struct jpeg_file {
    unsigned char *data;
    unsigned long  size;
} jpeg_file;

enum { THREADS_MAX = 256, ROWS_MAX = 64 };

static jpeg_file *files;
static size_t file_count;
static atomic_size_t decoded;
static atomic_int is_over;

static void *checked(void *memory)
{
    if (memory) return memory;
    fputs("out of memory\n", stderr);
    exit(1);
}

static int take_file(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)where;
    const char *dot = strrchr(path, '.');
    if (type != FTW_F || !dot || (strcmp(dot, ".jpg") && strcmp(dot, ".jpeg"))) return 0;

    FILE *file = fopen(path, "rb");
    jpeg_file one = { checked(malloc((size_t)status->st_size)), (unsigned long)status->st_size };
    if (!file || fread(one.data, 1, one.size, file) != one.size) {
        perror(path);
        exit(1);
    }
    fclose(file);

    files = checked(realloc(files, (file_count + 1) * sizeof *files));
    files[file_count++] = one;
    return 0;
}

/* Rows of all components go to the same few rows of memory, as a loader's caches would have them. */
static void decode(struct jpeg_decompress_struct *j, const jpeg_file *file, unsigned char **memory, size_t *memory_size)
{
    JSAMPROW rows[4][ROWS_MAX];
    JSAMPARRAY planes[4] = { rows[0], rows[1], rows[2], rows[3] };

    jpeg_mem_src(j, file->data, file->size);
    jpeg_read_header(j, TRUE);
    j->raw_data_out = TRUE;
    jpeg_start_decompress(j);

    size_t needed = 0;
    for (int i = 0; i < j->num_components; i++)
        needed += (size_t)j->comp_info[i].width_in_blocks * 8 * (size_t)j->comp_info[i].v_samp_factor * 8 + 1024;
    if (needed > *memory_size) *memory = checked(realloc(*memory, *memory_size = needed));

    unsigned char *at = *memory;
    for (int i = 0; i < j->num_components; i++) {
        size_t width = (size_t)j->comp_info[i].width_in_blocks * 8;
        for (int row = 0; row < j->comp_info[i].v_samp_factor * 8; row++, at += width) rows[i][row] = at;
    }
    while (j->output_scanline < j->output_height)
        jpeg_read_raw_data(j, planes, (JDIMENSION)(j->max_v_samp_factor * 8));
    jpeg_finish_decompress(j);
}

static void *work(void *seed)
{
    struct jpeg_error_mgr errors;
    struct jpeg_decompress_struct j;
    unsigned char *memory = NULL;
    size_t memory_size = 0;
    unsigned long long random = 1 + *(size_t *)seed;

    j.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&j);
    while (!atomic_load(&is_over)) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        decode(&j, &files[(random >> 33) % file_count], &memory, &memory_size);
        atomic_fetch_add(&decoded, 1);
    }

    jpeg_destroy_decompress(&j);
    free(memory);
    return NULL;
}

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void wait_for(double seconds)
{
    struct timespec left = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
    while (nanosleep(&left, &left)) continue;
}

int main(int count, char **arguments)
{
    size_t threads = count == 4 ? strtoul(arguments[2], NULL, 10) : 0, seeds[THREADS_MAX];
    pthread_t list[THREADS_MAX];

    if (!threads || threads > THREADS_MAX || nftw(arguments[1], take_file, 16, 0) || !file_count) {
        fputs("usage: bench_jpeg FOLDER THREADS SECONDS; FOLDER has .jpg files\n", stderr);
        return 2;
    }

    for (size_t i = 0; i < threads; i++) {
        seeds[i] = i;
        if (pthread_create(&list[i], NULL, work, &seeds[i])) return 1;
    }
    wait_for(1);

    double begin = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    size_t before = atomic_load(&decoded);
    wait_for(strtod(arguments[3], NULL));
    double pictures = (double)(atomic_load(&decoded) - before);
    printf("{\"rate\": %.1f, \"cpu_ms\": %.5f}\n", pictures / (seconds_of(CLOCK_MONOTONIC) - begin),
           pictures > 0 ? 1000 * (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu) / pictures : 0);

    atomic_store(&is_over, 1);
    for (size_t i = 0; i < threads; i++) pthread_join(list[i], NULL);
    return 0;
}
