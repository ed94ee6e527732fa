/* test_filters.c - what filters make of pictures, beside PIL, OpenCV and PyTorch: tests/peers/filters.py has their
 * results in tests/unit/filters.h. */
#include "library.h"
#include "test.h"
#include "filters.h"

enum { WIDTH = 40, HEIGHT = 30 };

/* tests/peers/filters.py has the same: waves, edges, noise. */
static uint8_t code_of(int x, int y)
{
    int value = 128 + (x * 9 + y * 5) % 64 - (x * 4 + y * 7) % 50;
    value += ((x - y) % 17 + 17) % 17 < 6 ? 60 : 0;
    value -= (x / 3 + y / 4) % 2 ? 30 : 0;
    value += (x * x * 31 + y * y * 57 + x * y * 13) % 23 - 11;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* A picture of 40 x 30 gray pixels, or a part of it. */
static bzna_picture gray_picture(uint8_t *samples)
{
    bzna_picture picture;
    picture = (bzna_picture){ .struct_size = sizeof picture };
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        samples[i] = code_of(i % WIDTH, i / WIDTH);
    picture.depth = 8;
    picture.width = picture.frame_width = WIDTH;
    picture.height = picture.frame_height = HEIGHT;
    picture.plane[0] = samples;
    picture.pitch[0] = WIDTH;
    picture.color = (bzna_color){ 1, 1, 1, 1, 1 };
    return picture;
}

/* A box in pixel edges, resized to a size, as PIL's resize does it. */
static void resize_box(bzna_transform *t, const double box[4], double width, double height)
{
    t->homography[0] = (box[2] - box[0]) / width;
    t->homography[4] = (box[3] - box[1]) / height;
    t->homography[2] = box[0] + t->homography[0] / 2 - 0.5;
    t->homography[5] = box[1] + t->homography[4] / 2 - 0.5;
}

/* The largest difference of a result from what is rendered; turned: by a homography that exchanges x and y. */
static double difference(size_t number, uint32_t antialias, int turned)
{
    static uint8_t samples[WIDTH * HEIGHT];
    const double *box = filter_cases[filter_results[number].number].box;
    const uint32_t width = filter_cases[filter_results[number].number].width,
                   height = filter_cases[filter_results[number].number].height;
    bzna_picture picture = gray_picture(samples);
    bzna_output output = { .struct_size = sizeof output, .width = turned ? height : width,
                           .height = turned ? width : height, .channels = BZNA_CHANNELS_GRAY };
    bzna_transform t;
    float out[32];
    double worst = 0;
    bzna_transform_init(&t, sizeof t);
    t.filter = filter_results[number].filter;
    t.antialias = antialias;
    resize_box(&t, box, width, height);
    if (filter_cases[filter_results[number].number].cut) {
        picture.crop_x = (uint32_t)box[0];
        picture.crop_y = (uint32_t)box[1];
        picture.width = (uint32_t)(box[2] - box[0]);
        picture.height = (uint32_t)(box[3] - box[1]);
        t.homography[2] -= box[0];
        t.homography[5] -= box[1];
    }
    for (int row = 0; turned && row < 2; row++) {
        double across = t.homography[3 * row];
        t.homography[3 * row] = t.homography[3 * row + 1];
        t.homography[3 * row + 1] = across;
    }
    CHECK_EQ(bzna_picture_render(&picture, &t, &output, out, sizeof out, NULL), BZNA_OK);
    for (uint32_t i = 0; i < width * height; i++) {
        uint32_t at = turned ? i % width * height + i / width : i;
        worst = fmax(worst, fabs((double)out[at] - filter_results[number].values[i] / 100.0));
    }
    return worst;
}

TEST(every_filter_gives_what_pil_opencv_and_pytorch_give)
{
    double worst[7] = { 0 };
    int both = 0;
    for (size_t i = 0; i < COUNT(filter_results); i++) {
        const int is_alone = i + 1 == COUNT(filter_results) || !filter_results[i + 1].antialias;    /* never widened */
        for (int turned = 0; turned < 2; turned++) {
            double *most = &worst[filter_results[i].filter];
            *most = fmax(*most, difference(i, filter_results[i].antialias, turned));
            if (is_alone && !filter_results[i].antialias && filter_results[i].filter != BZNA_FILTER_AREA) {
                *most = fmax(*most, difference(i, BZNA_ANTIALIAS_OFF, turned));
                both++;
            }
        }
    }
    for (int filter = 0; filter < 7; filter++) {
        CHECK_NEAR(worst[filter], 0, 0.0125);               /* written to two decimals; positions are floats */
        if (!(worst[filter] <= 0.0125))
            printf("  by filter %d\n", filter);
    }
    CHECK(COUNT(filter_results) == 93 && both == 48);
}

TEST_MAIN(
    RUN(every_filter_gives_what_pil_opencv_and_pytorch_give)
)
