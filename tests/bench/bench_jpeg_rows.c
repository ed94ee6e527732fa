/* bench_jpeg_rows.c - what a part of a JPEG costs: all rows, the last one alone, those from 1/2 to 3/4 of the height
 *
 *     make build/bench/jpeg_rows && build/bench/jpeg_rows FILE.jpg...
 *
 * The decoder alone, one thread; processors' time of the best of seven, in turns. */
#include "../../benzina.c"

#include <time.h>

enum { ROUNDS = 7, PARTS = 3 };
static bzi_host host = { .memory = { .alloc = bzi_os_alloc, .release = bzi_os_release }, .max_edge_px = 65535 };

static double seconds_of(bzi_software *software, bzna_image *coded, int part)
{
    const bzi_image image = bzi_image_alone(coded);
    bzna_error err = { .struct_size = sizeof err };
    bzi_format format;
    bzna_picture picture;
    clock_t begin = clock();
    if (bzi_picture_describe(&image, 65535, &format, &picture, &err) == BZNA_OK) {
        const int32_t height = (int32_t)picture.frame_height;
        const bzi_rows rows[PARTS] = { { 0, height }, { height - 1, height }, { height / 2, height * 3 / 4 } };
        if (bzi_software_decode(software, coded, &format, (bzi_wanted){ .rows = rows[part], .shrink = 1 }, &picture,
                                &err) == BZNA_OK)
            return (double)(clock() - begin) / CLOCKS_PER_SEC;
    }
    fprintf(stderr, "%s\n", err.message);
    exit(1);
}

static void *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    void *data;
    if (!file || fseek(file, 0, SEEK_END))
        exit(1);
    *size = (size_t)ftell(file);
    rewind(file);
    data = malloc(*size);
    if (!data || fread(data, 1, *size, file) != *size)
        exit(1);
    fclose(file);
    return data;
}

int main(int count, char **argument)
{
    bzi_software software;
    bzna_error err = { .struct_size = sizeof err };
    if (bzi_software_open(&software, &host, &err) != BZNA_OK)
        return 1;
    for (int i = 1; i < count; i++) {
        double best[PARTS] = { 1e9, 1e9, 1e9 };
        bzna_image coded;
        size_t size;
        void *data = read_file(argument[i], &size);
        bzna_image_init(&coded, sizeof coded);
        coded.codec = BZNA_CODEC_JPEG;
        coded.data = data;
        coded.data_size = size;
        for (int k = 0; k < ROUNDS * PARTS; k++) {
            const double seconds = seconds_of(&software, &coded, k % PARTS);
            best[k % PARTS] = seconds < best[k % PARTS] ? seconds : best[k % PARTS];
        }
        printf("%s: all %.2f ms, the last row %.2f ms (%.2f), from 1/2 to 3/4 %.2f ms (%.2f)\n", argument[i],
               1e3 * best[0], 1e3 * best[1], best[1] / best[0], 1e3 * best[2], best[2] / best[0]);
        free(data);
    }
    bzi_software_close(&software);
    return 0;
}
