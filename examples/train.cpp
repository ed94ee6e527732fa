/* train.cpp - a training loop in C++17: a linear classifier (softmax regression) on small pictures, in plain C++
 *
 *     c++ -std=c++17 -O2 train.cpp benzina.o $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl -o learn
 *     ./learn train.bzna [EPOCHS]
 *
 * The loader works ahead on its own threads while the classifier computes: the program prints the time that the loop still waits for batches. Every
 * fifth sample is held out. The same archive gives the same losses in every run. The classifier runs on the processor: if there is a GPU, it decodes
 * and warps, and batches are in host memory. A network on the GPU would keep batches on the device (output.device) and read them on the loader's
 * stream: chapter 11 of the manual. */
#include "../benzina.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

namespace {

constexpr uint32_t side = 64, cells = 4, batch_size = 16;       /* pictures of side x side pixels, seen as cells x cells squares */
constexpr size_t   pixels = size_t{3} * side * side, features = size_t{3} * cells * cells * 3;      /* of one picture */
constexpr float    rate = 0.1f;

/* --- The library's objects, held as C++ holds things --- */

struct Close {
    void operator()(bzna_context *context) const { bzna_context_close(context); }
    void operator()(bzna_dataset *dataset) const { bzna_dataset_close(dataset); }
    void operator()(bzna_loader *loader) const { bzna_loader_close(loader); }
    void operator()(bzna_batch *batch) const { bzna_batch_release(batch); }
};
template <class T> using Handle = std::unique_ptr<T, Close>;

struct Error : bzna_error {
    Error() { bzna_error_init(this, sizeof(bzna_error)); }
};

/* Errors become exceptions; notes (BZNA_OK, BZNA_END, ...) are passed on. */
bzna_status check(bzna_status status, const bzna_error &err)
{
    if (status < 0) throw std::runtime_error(err.message[0] ? err.message : bzna_status_text(status));
    return status;
}

Handle<bzna_context> open_context()
{
    Error err;
    bzna_context *context = nullptr;
    check(bzna_context_open(nullptr, &context, &err), err);      /* a GPU, if there is one */
    return Handle<bzna_context>(context);
}

Handle<bzna_dataset> open_dataset(bzna_context *context, const char *path)
{
    Error err;
    bzna_dataset *dataset = nullptr;
    check(bzna_dataset_open(context, path, nullptr, &dataset, &err), err);
    return Handle<bzna_dataset>(dataset);
}

/* A loader over some of the samples: shuffled and augmented for learning, or as they are for a look from outside. */
Handle<bzna_loader> open_loader(bzna_context *context, bzna_dataset *dataset, const std::vector<uint64_t> &indices, uint64_t epochs, bool learning)
{
    Error err;
    bzna_loader *loader = nullptr;
    bzna_loader_config config;
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size  = batch_size;
    config.output.width       = side;
    config.output.height      = side;
    config.order.seed         = 1234;
    config.order.epochs       = epochs;
    config.order.indices      = indices.data();                  /* copied */
    config.order.index_count  = indices.size();
    config.warp.kind          = BZNA_WARP_CENTER_RESIZED_CROP;
    for (float &mean : config.color.mean) mean = 127.5f;
    for (float &std : config.color.std) std = 127.5f;
    if (learning) {
        config.order.kind    = BZNA_ORDER_SHUFFLE;
        config.warp.kind     = BZNA_WARP_RANDOM_RESIZED_CROP;
        config.warp.scale[0] = 0.5;
        config.warp.scale[1] = 1;
        config.warp.flip_h   = 0.5;
    }
    check(bzna_loader_open(context, dataset, &config, &loader, &err), err);
    return Handle<bzna_loader>(loader);
}

/* --- The classifier --- */

/* What the classifier sees of a picture: in each square and channel the mean, and how strongly neighbors differ, across and down. */
std::vector<float> features_of(const float *picture)
{
    constexpr size_t edge = side / cells;
    constexpr float  area = edge * edge;
    std::vector<float> seen(features);
    for (size_t c = 0; c < 3; c++)
        for (size_t y = 0; y + 1 < side; y++)
            for (size_t x = 0; x + 1 < side; x++) {
                const float *pixel = picture + (c * side + y) * side + x;
                float *cell = &seen[((c * cells + y / edge) * cells + x / edge) * 3];
                cell[0] += pixel[0] / area;
                cell[1] += 4 * std::fabs(pixel[1] - pixel[0]) / area;
                cell[2] += 4 * std::fabs(pixel[side] - pixel[0]) / area;
            }
    return seen;
}

struct Score {
    double   loss = 0;
    uint64_t right = 0, samples = 0;
    double   mean_loss() const { return samples ? loss / static_cast<double>(samples) : 0; }
    double   percent() const { return samples ? 100 * static_cast<double>(right) / static_cast<double>(samples) : 0; }
};

class Classifier {
public:
    explicit Classifier(size_t class_count) : classes(class_count), weights(class_count * features), bias(class_count) {}

    /* Judges a batch, and with learn moves down the gradient of its mean loss. */
    void see(const bzna_batch_info &info, bool learn, Score &score)
    {
        std::vector<float> gradient(weights.size()), gradient_bias(classes);
        for (uint32_t slot = 0; slot < info.count; slot++) {
            if (info.status[slot] < 0 || info.targets[slot] < 0) continue;      /* a damaged picture, or one without a class */
            std::vector<float> x = features_of(static_cast<const float *>(info.image.data) + slot * pixels);
            size_t target = static_cast<size_t>(info.targets[slot]);
            std::vector<float> p = probabilities(x);
            score.loss -= std::log(std::max(p[target], 1e-9f));
            score.right += std::max_element(p.begin(), p.end()) - p.begin() == info.targets[slot];
            score.samples++;
            p[target] -= 1;                                      /* now the gradient of the loss by the scores */
            for (size_t c = 0; learn && c < classes; c++) {
                for (size_t i = 0; i < features; i++) gradient[c * features + i] += p[c] * x[i];
                gradient_bias[c] += p[c];
            }
        }
        if (!learn) return;
        float step = rate / static_cast<float>(std::max(info.count, 1u));
        for (size_t i = 0; i < weights.size(); i++) weights[i] -= step * gradient[i];
        for (size_t c = 0; c < classes; c++) bias[c] -= step * gradient_bias[c];
    }

private:
    size_t classes;
    std::vector<float> weights, bias;                            /* weights: one row of features a class */

    std::vector<float> probabilities(const std::vector<float> &x) const
    {
        std::vector<float> p(bias);
        for (size_t c = 0; c < classes; c++)
            for (size_t i = 0; i < features; i++) p[c] += weights[c * features + i] * x[i];
        float top = *std::max_element(p.begin(), p.end()), sum = 0;
        for (float &v : p) sum += v = std::exp(v - top);
        for (float &v : p) v /= sum;
        return p;
    }
};

/* --- The loop --- */

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/* The next batch, or none after the last epoch. waited_s grows by the time that this took. */
Handle<bzna_batch> next_batch(bzna_loader *loader, double &waited_s)
{
    Error err;
    bzna_batch *batch = nullptr;
    auto start = Clock::now();
    check(bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err), err);
    waited_s += seconds_since(start);
    return Handle<bzna_batch>(batch);
}

/* One epoch. */
Score pass(bzna_loader *loader, Classifier &classifier, bool learn, double &waited_s)
{
    Error err;
    Score score;
    while (Handle<bzna_batch> batch = next_batch(loader, waited_s)) {
        bzna_batch_info info;
        check(bzna_batch_get_info(batch.get(), &info, sizeof info, &err), err);
        if (info.failed)                                         /* classifier.see leaves them out */
            std::fprintf(stderr, "%u of %u samples failed\n", (unsigned)info.failed, (unsigned)info.count);
        classifier.see(info, learn, score);
        if (info.last_of_epoch) break;
    }                                                            /* the batch is given back here, to be filled anew */
    return score;
}

size_t count_classes(const bzna_dataset *dataset)
{
    Error err;
    int64_t most = -1;
    for (uint64_t i = 0; i < bzna_dataset_count(dataset); i++) {
        int64_t target = BZNA_TARGET_NONE;
        check(bzna_dataset_target(dataset, i, &target, &err), err);
        most = std::max(most, target);
    }
    if (most < 0 || most > 9999) throw std::runtime_error("the samples have no targets, or more than 10000 classes");
    return static_cast<size_t>(most) + 1;
}

/* Who decodes and why, on which device, and where batches lie. */
void print_decoder(bzna_context *context, bzna_loader *loader)
{
    Error err;
    bzna_loader_info info;
    bzna_device_info device;
    check(bzna_loader_get_info(loader, &info, sizeof info, &err), err);
    std::printf("decoder: %s (%s)\n", info.decoder_name, info.decoder_reason);
    if (bzna_context_device_info(context, &device, sizeof device, &err) == BZNA_OK)
        std::printf("device: CUDA %" PRId32 ", %s, %" PRIu32 " NVDEC engines, %" PRIu32 " sessions\n",
                    device.device.ordinal, device.name, device.engines, info.sessions);
    else
        std::printf("device: none (%s)\n", err.message);
    std::printf("batches: in %s memory\n", info.image.device.kind == BZNA_DEVICE_CUDA ? "device" : "host");
}

void print_statistics(bzna_loader *loader, double waited_s, double took_s)
{
    static const char *const names[] = { "reading", "decoding", "warping", "the training loop", "waking threads" };
    Error err;
    bzna_statistics stats;
    check(bzna_loader_statistics(loader, &stats, sizeof stats, &err), err);
    std::printf("waited for %.1f %% of the %.2f s of learning; %" PRIu64 " pictures decoded by NVDEC, %" PRIu64 " in software\n",
                took_s > 0 ? 100 * waited_s / took_s : 0, took_s, stats.samples_nvdec, stats.samples_software);
    std::printf("%" PRIu64 " pictures, %" PRIu64 " failed. Decoder threads were busy for %.2f s with decoding, %.2f s with warping; %s limits.\n",
                stats.samples, stats.samples_failed, 1e-9 * static_cast<double>(stats.stage[BZNA_STAGE_DECODE].busy_ns),
                1e-9 * static_cast<double>(stats.stage[BZNA_STAGE_WARP].busy_ns), names[stats.limiting_stage % 5]);
}

void train(const char *path, uint64_t epochs)
{
    Error err;
    Handle<bzna_context> context = open_context();
    Handle<bzna_dataset> dataset = open_dataset(context.get(), path);
    std::vector<uint64_t> learned, held_out;
    for (uint64_t i = 0; i < bzna_dataset_count(dataset.get()); i++) (i % 5 == 4 ? held_out : learned).push_back(i);
    if (held_out.empty()) throw std::runtime_error("five samples are the least");

    Handle<bzna_loader> training = open_loader(context.get(), dataset.get(), learned, epochs, true);
    Handle<bzna_loader> validation = open_loader(context.get(), dataset.get(), held_out, 1, false);
    Classifier classifier(count_classes(dataset.get()));
    double all_waited_s = 0, all_took_s = 0;
    print_decoder(context.get(), training.get());
    for (uint64_t epoch = 0; epoch < epochs; epoch++) {
        double waited_s = 0, waited_validation_s = 0;
        auto start = Clock::now();
        Score score = pass(training.get(), classifier, true, waited_s);
        double took_s = seconds_since(start);
        all_waited_s += waited_s;
        all_took_s += took_s;
        Score outside = pass(validation.get(), classifier, false, waited_validation_s);
        check(bzna_loader_reset(validation.get(), 0, &err), err);            /* begins at once with what the next look needs */
        std::printf("epoch %2" PRIu64 "  loss %.4f  accuracy %5.1f %%  held out %5.1f %%  %6.1f pictures/s  waited %2.0f %%\n", epoch, score.mean_loss(),
                    score.percent(), outside.percent(), static_cast<double>(learned.size()) / took_s, 100 * waited_s / took_s);
    }
    print_statistics(training.get(), all_waited_s, all_took_s);
}

} // namespace

int main(int argc, char **argv)
{
    long epochs = argc > 2 ? std::strtol(argv[2], nullptr, 10) : 12;
    if (argc < 2 || argc > 3 || epochs < 1) {
        std::fprintf(stderr, "usage: %s DATA [EPOCHS]\n", argv[0]);
        return 2;
    }
    try {
        train(argv[1], static_cast<uint64_t>(epochs));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
