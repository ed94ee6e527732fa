/* draw_pictures.c - draws pictures of four classes, for tests and demonstrations: no photographs, no licenses
 *
 *     cc draw_pictures.c -lm -o draw_pictures
 *     ./draw_pictures drawn [COUNT]
 *
 * writes COUNT pictures, by default 24: drawn/charts/00.ppm, drawn/fractals/00.ppm, drawn/plasma/00.ppm,
 * drawn/shapes/00.ppm, drawn/charts/01.ppm, ... They are the same in every run: random numbers are hashes of
 * integers. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct color { double r, g, b; } color;            /* 0..1 */
typedef struct picture { int width, height; uint32_t seed; } picture;

/* A number in 0..1 that depends only on the arguments. */
static double noise(uint32_t seed, uint32_t x, uint32_t y)
{
    uint32_t h = seed * 0x9E3779B1u ^ x * 0x85EBCA77u ^ y * 0xC2B2AE3Du;
    h = (h ^ h >> 15) * 0x2C1B3C6Du;
    h = (h ^ h >> 12) * 0x297A2D39u;
    return (double)(h ^ h >> 15) / 4294967295.0;
}

static color mix(color a, color b, double t)
{
    return (color){ a.r + (b.r - a.r) * t, a.g + (b.g - a.g) * t, a.b + (b.b - a.b) * t };
}

/* Color k of a picture. */
static color random_color(uint32_t seed, uint32_t k)
{
    return (color){ noise(seed, k, 101), noise(seed, k, 102), noise(seed, k, 103) };
}

static double clamp01(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

/* Value noise on a lattice of `cell` pixels, smoothly interpolated. */
static double smooth_noise(uint32_t seed, double x, double y, double cell)
{
    double u = x / cell, v = y / cell;
    uint32_t i = (uint32_t)u, j = (uint32_t)v;                       /* neither is negative */
    double s = u - i, t = v - j;
    s = s * s * (3 - 2 * s);
    t = t * t * (3 - 2 * t);
    double top = noise(seed, i, j) * (1 - s) + noise(seed, i + 1, j) * s;
    double bottom = noise(seed, i, j + 1) * (1 - s) + noise(seed, i + 1, j + 1) * s;
    return top * (1 - t) + bottom * t;
}

/* Six octaves of noise between two colors, a third color mixed in, and a little grain. */
static color draw_plasma(const picture *p, double x, double y)
{
    double sum = 0, weight = 0.5, cell = p->width / 3.0 + 1;
    for (uint32_t octave = 0; octave < 6; octave++, weight /= 2, cell = cell / 2 + 0.5)
        sum += weight * smooth_noise(p->seed + octave, x, y, cell);
    color c = mix(random_color(p->seed, 1), random_color(p->seed, 2), sum);
    c = mix(c, random_color(p->seed, 3), smooth_noise(p->seed + 9, x, y, cell * 60));
    double grain = 0.06 * (noise(p->seed, (uint32_t)x, (uint32_t)y) - 0.5);
    return (color){ c.r + grain, c.g + grain, c.b + grain };
}

/* Bars of flat colors on a ruled background. */
static color draw_chart(const picture *p, double x, double y)
{
    uint32_t bars = 5 + p->seed % 7, bar = (uint32_t)(x * bars / p->width);
    double within = x * bars / p->width - bar, height = p->height * (0.15 + 0.8 * noise(p->seed, bar, 7));
    if (within > 0.15 && within < 0.85 && y > p->height - height) return random_color(p->seed, bar + 10);
    color background = { 0.96, 0.95, 0.9 }, line = { 0.5, 0.5, 0.6 };
    return fmod(y, p->height / 8.0) < 1.5 ? line : background;
}

/* Discs and regular polygons with soft edges on a gradient. */
static color draw_shapes(const picture *p, double x, double y)
{
    color c = mix(random_color(p->seed, 1), random_color(p->seed, 2), (x / p->width + y / p->height) / 2);
    for (uint32_t k = 0; k < 9; k++) {
        double dx = x - noise(p->seed, k, 1) * p->width, dy = y - noise(p->seed, k, 2) * p->height;
        double size = (0.06 + 0.2 * noise(p->seed, k, 3)) * (p->width + p->height) / 2;
        if (dx * dx + dy * dy > (size + 1) * (size + 1)) continue;              /* outside of its soft edge */
        double radius = hypot(dx, dy), edge = size - radius;                    /* edge: > 0 inside */
        int corners = (int)(k % 4) + 2;                      /* 2: a disc */
        if (corners > 2) {
            double sector = 6.283185307179586 / corners, angle = atan2(dy, dx) + 6.3 * noise(p->seed, k, 4) + 12.6;
            edge = size * cos(sector / 2) - radius * cos(fmod(angle, sector) - sector / 2);
        }
        c = mix(c, random_color(p->seed, k + 20), clamp01(edge + 0.5));
    }
    return c;
}

/* A Julia set. */
static color draw_fractal(const picture *p, double x, double y)
{
    double scale = 3.0 / (p->width < p->height ? p->width : p->height);
    double re = (x - p->width / 2.0) * scale, im = (y - p->height / 2.0) * scale;
    double angle = 6.283185307179586 * noise(p->seed, 1, 1), cre = 0.7885 * cos(angle), cim = 0.7885 * sin(angle);
    int n = 0;
    for (; n < 80 && re * re + im * im < 16; n++) {
        double next = re * re - im * im + cre;
        im = 2 * re * im + cim;
        re = next;
    }
    if (n == 80) return random_color(p->seed, 1);
    double t = n + 1 - log2(log2(re * re + im * im + 2) + 1);        /* a smooth iteration count: no bands */
    return mix(random_color(p->seed, 2), random_color(p->seed, 3), 0.5 + 0.5 * sin(0.9 * t));
}

static const struct { const char *name; color (*draw)(const picture *p, double x, double y); } classes[4] = {
    { "charts", draw_chart }, { "fractals", draw_fractal }, { "plasma", draw_plasma }, { "shapes", draw_shapes },
};
static const int sizes[][2] = {
    { 500, 375 }, { 375, 500 }, { 500, 333 }, { 120, 90 }, { 500, 375 }, { 333, 251 }, { 1300, 900 }, { 640, 480 },
    { 500, 375 },
};

static int byte(double value) { return (int)(clamp01(value) * 255 + 0.5); }

static int write_picture(const char *path, const picture *p, int kind)
{
    FILE *file = fopen(path, "wb");
    if (!file) { fprintf(stderr, "%s: %s\n", path, strerror(errno)); return -1; }
    fprintf(file, "P6\n%d %d\n255\n", p->width, p->height);
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++) {
            color c = classes[kind].draw(p, x, y);
            putc(byte(c.r), file);
            putc(byte(c.g), file);
            putc(byte(c.b), file);
        }
    int failed = ferror(file);
    if (fclose(file) || failed) { fprintf(stderr, "%s: cannot be written\n", path); return -1; }
    return 0;
}

int main(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[2]) : 24;
    char path[4096];
    if (argc < 2 || argc > 3 || count < 1) { fprintf(stderr, "usage: %s DIR [COUNT]\n", argv[0]); return 2; }
    mkdir(argv[1], 0777);
    for (int i = 0; i < count; i++) {
        const int *size = sizes[(size_t)i % (sizeof sizes / sizeof sizes[0])];
        picture p = { size[0], size[1], (uint32_t)i + 1 };
        snprintf(path, sizeof path, "%s/%s", argv[1], classes[i % 4].name);
        mkdir(path, 0777);
        snprintf(path, sizeof path, "%s/%s/%02d.ppm", argv[1], classes[i % 4].name, i / 4);
        if (write_picture(path, &p, i % 4) < 0) return 1;
    }
    return 0;
}
