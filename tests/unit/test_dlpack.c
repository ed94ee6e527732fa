/* test_dlpack.c - batches as DLPack tensors: laid out as dlpack.h says, and on loan until whoever has them lets go, in
 * any order, anywhere. */
#include "library.h"
#include "test.h"

/* From dlpack.h, version 1.1: what a consumer was compiled with. */
typedef enum { kDLCPU = 1, kDLCUDA = 2 } DLDeviceType;
typedef struct { DLDeviceType device_type; int32_t device_id; } DLDevice;
typedef enum { kDLInt = 0U, kDLUInt = 1U, kDLFloat = 2U } DLDataTypeCode;
typedef struct { uint8_t code; uint8_t bits; uint16_t lanes; } DLDataType;
typedef struct {
    void      *data;
    DLDevice   device;
    int32_t    ndim;
    DLDataType dtype;
    int64_t   *shape;
    int64_t   *strides;
    uint64_t   byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void    *manager_ctx;
    void   (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;
typedef struct { uint32_t major, minor; } DLPackVersion;
typedef struct DLManagedTensorVersioned {
    DLPackVersion version;
    void         *manager_ctx;
    void        (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t      flags;
    DLTensor      dl_tensor;
} DLManagedTensorVersioned;

/* The numbers themselves, on 64-bit machines: an ABI is not a matter of taste. */
TEST(the_structs_are_those_of_dlpack)
{
    CHECK_EQ(sizeof(bzi_dl_tensor), sizeof(DLTensor));
    CHECK_EQ(sizeof(bzi_dl_managed), sizeof(DLManagedTensor));
    CHECK_EQ(offsetof(bzi_dl_tensor, data), offsetof(DLTensor, data));
    CHECK_EQ(offsetof(bzi_dl_tensor, device_type), offsetof(DLTensor, device));
    CHECK_EQ(offsetof(bzi_dl_tensor, device_id), offsetof(DLTensor, device) + offsetof(DLDevice, device_id));
    CHECK_EQ(offsetof(bzi_dl_tensor, dimensions), offsetof(DLTensor, ndim));
    CHECK_EQ(offsetof(bzi_dl_tensor, code), offsetof(DLTensor, dtype));
    CHECK_EQ(offsetof(bzi_dl_tensor, bits), offsetof(DLTensor, dtype) + 1);
    CHECK_EQ(offsetof(bzi_dl_tensor, lanes), offsetof(DLTensor, dtype) + 2);
    CHECK_EQ(offsetof(bzi_dl_tensor, shape), offsetof(DLTensor, shape));
    CHECK_EQ(offsetof(bzi_dl_tensor, strides), offsetof(DLTensor, strides));
    CHECK_EQ(offsetof(bzi_dl_tensor, byte_offset), offsetof(DLTensor, byte_offset));
    CHECK_EQ(offsetof(bzi_dl_managed, tensor), 0);
    CHECK_EQ(offsetof(bzi_dl_managed, manager), offsetof(DLManagedTensor, manager_ctx));
    CHECK_EQ(offsetof(bzi_dl_managed, deleter), offsetof(DLManagedTensor, deleter));
    CHECK_EQ(sizeof(bzi_dl_versioned), sizeof(DLManagedTensorVersioned));
    CHECK_EQ(offsetof(bzi_dl_versioned, major), offsetof(DLManagedTensorVersioned, version));
    CHECK_EQ(offsetof(bzi_dl_versioned, minor), offsetof(DLPackVersion, minor));
    CHECK_EQ(offsetof(bzi_dl_versioned, manager), offsetof(DLManagedTensorVersioned, manager_ctx));
    CHECK_EQ(offsetof(bzi_dl_versioned, deleter), offsetof(DLManagedTensorVersioned, deleter));
    CHECK_EQ(offsetof(bzi_dl_versioned, flags), offsetof(DLManagedTensorVersioned, flags));
    CHECK_EQ(offsetof(bzi_dl_versioned, tensor), offsetof(DLManagedTensorVersioned, dl_tensor));
    if (sizeof(void *) == 8) {
        CHECK(sizeof(DLManagedTensorVersioned) == 80 && offsetof(DLManagedTensorVersioned, dl_tensor) == 32);
        CHECK(sizeof(DLTensor) == 48 && sizeof(DLManagedTensor) == 64);
        CHECK(offsetof(DLTensor, device) == 8 && offsetof(DLTensor, ndim) == 16 && offsetof(DLTensor, dtype) == 20 &&
              offsetof(DLTensor, shape) == 24);
    }
}

#ifdef BENZINA_NO_AVCODEC
TEST(batches_become_tensors) { SKIP("built without libavcodec [libavcodec-dev]"); }
TEST_MAIN(RUN(the_structs_are_those_of_dlpack) RUN(batches_become_tensors))
#else

#include "archives.h"

enum { WIDTH = 12, HEIGHT = 16 };

typedef struct rig { ledger l; bzna_context *context; bzna_dataset *dataset; bzna_loader *loader; } rig;

static bzna_loader_config config_of(uint32_t batch_size)
{
    bzna_loader_config c;
    bzna_loader_config_init(&c, sizeof c);
    c.output.batch_size = batch_size;
    c.output.width = WIDTH;
    c.output.height = HEIGHT;
    c.output.device.kind = BZNA_DEVICE_CPU;                 /* on a machine with a GPU, too */
    c.decode.threads = 2;
    c.order.kind = BZNA_ORDER_SHUFFLE;
    return c;
}

static void rig_open(rig *r, const bzna_loader_config *c)
{
    bzna_context_config config;
    memset(r, 0, sizeof *r);
    bzna_context_config_init(&config, sizeof config);
    config.allocator = ledger_allocator(&r->l);
    require(bzna_context_open(&config, &r->context, NULL), "context");
    require(bzna_dataset_open(r->context, "tests/data/mini_h265.bzna", NULL, &r->dataset, NULL), "dataset");
    require(bzna_loader_open(r->context, r->dataset, c, &r->loader, NULL), "loader");
}

static void rig_close_all(rig *r)
{
    bzna_loader_close(r->loader);
    bzna_dataset_close(r->dataset);
    bzna_context_close(r->context);
    r->loader = NULL;
    r->dataset = NULL;
    r->context = NULL;
}

static bzna_batch *next_batch(rig *r)
{
    bzna_batch *batch = NULL;
    bzna_loader_next(r->loader, BZNA_WAIT_FOREVER, &batch, NULL);
    return batch;
}

static DLManagedTensor *tensor_of(bzna_batch *batch, uint32_t field)
{
    void *tensor = NULL;
    CHECK_EQ(bzna_batch_to_dlpack(batch, tensor_names[field], BZNA_DLPACK_0, &tensor, NULL), BZNA_OK);
    return tensor;
}

static DLManagedTensorVersioned *versioned_of(bzna_batch *batch, uint32_t field)
{
    void *tensor = NULL;
    CHECK_EQ(bzna_batch_to_dlpack(batch, tensor_names[field], BZNA_DLPACK_1, &tensor, NULL), BZNA_OK);
    return tensor;
}

/* A tensor of either kind. */
typedef struct exported { uint32_t version; void *managed; } exported;

static exported export_as(bzna_batch *batch, uint32_t field, uint32_t version)
{
    exported t = { version, version ? (void *)versioned_of(batch, field) : (void *)tensor_of(batch, field) };
    return t;
}

static void delete_exported(exported t)
{
    if (t.version)
        ((DLManagedTensorVersioned *)t.managed)->deleter(t.managed);
    else
        ((DLManagedTensor *)t.managed)->deleter(t.managed);
}

static uint32_t on_loan(rig *r)
{
    uint32_t n;
    bzi_os_lock(&r->loader->queues.mutex);
    n = bzi_queues_count(&r->loader->queues, BZI_BATCH_ON_LOAN);
    bzi_os_unlock(&r->loader->queues.mutex);
    return n;
}

TEST(each_field_is_a_tensor_with_the_batchs_memory_shape_and_type)
{
    static const struct {
        uint8_t code, bits;
        int32_t ndim;
    } expected[] = { { kDLFloat, 32, 4 }, { kDLInt, 64, 1 }, { kDLUInt, 64, 1 }, { kDLInt, 32, 1 } };
    bzna_loader_config c = config_of(3);
    bzna_batch *batch;
    uint32_t batches = 0;
    rig r;
    rig_open(&r, &c);
    while ((batch = next_batch(&r)) != NULL) {
        bzna_batch_info info = info_of(batch);
        const void *data[] = { info.image.data, info.targets, info.indices, info.status };
        DLManagedTensor *tensors[4];
        CHECK_EQ(info.image.shape[0], batches == 2 ? 2 : 3);  /* the last is partial, and so are its tensors */
        for (uint32_t f = 0; f < 4; f++) {
            DLTensor *t;
            REQUIRE((tensors[f] = tensor_of(batch, f)) != NULL);
            t = &tensors[f]->dl_tensor;
            CHECK(t->data == data[f] && t->byte_offset == 0);
            CHECK(t->device.device_type == kDLCPU && t->device.device_id == 0);
            CHECK(t->dtype.code == expected[f].code && t->dtype.bits == expected[f].bits && t->dtype.lanes == 1);
            CHECK_EQ(t->ndim, expected[f].ndim);
            CHECK_EQ(t->shape[0], info.image.shape[0]);
            CHECK(tensors[f]->deleter != NULL);
            if (f == 0) {
                CHECK(t->shape[1] == 3 && t->shape[2] == HEIGHT && t->shape[3] == WIDTH);
                CHECK(t->strides[0] == 3 * HEIGHT * WIDTH && t->strides[1] == HEIGHT * WIDTH &&
                      t->strides[2] == WIDTH && t->strides[3] == 1);
            } else {
                CHECK_EQ(t->strides[0], 1);                 /* in elements */
            }
        }
        for (uint32_t f = 0; f < 4; f++)                    /* all four at once: none has changed another */
            CHECK(tensors[f]->dl_tensor.data == data[f] && tensors[f]->dl_tensor.ndim == expected[f].ndim &&
                  tensors[f]->dl_tensor.shape[0] == info.image.shape[0]);
        for (int64_t i = 0; i < info.image.shape[0]; i++) {
            int64_t target = 0;
            CHECK_EQ(bzna_dataset_target(r.dataset, ((uint64_t *)tensors[2]->dl_tensor.data)[i], &target, NULL),
                     BZNA_OK);
            CHECK_EQ(((int64_t *)tensors[1]->dl_tensor.data)[i], target);
            CHECK_EQ(((int32_t *)tensors[3]->dl_tensor.data)[i], 0);
        }
        for (uint32_t f = 0; f < 4; f++)
            tensors[f]->deleter(tensors[f]);
        CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
        batches++;
    }
    CHECK_EQ(batches, 3);
    rig_close_all(&r);
    check_settled(&r.l);
}

/* The value of a half's bits. */
static double half_value(uint16_t bits)
{
    int e = bits >> 10 & 31, m = bits & 1023;
    double value = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return bits & 0x8000 ? -value : value;
}

/* Batches of halves say so everywhere, and hold the floats of the same batches rounded: no half is nearer. */
TEST(a_batch_of_halves_is_a_tensor_of_16_bit_floats)
{
    static const struct {
        uint8_t code, bits;
    } expected[] = { { kDLFloat, 16 }, { kDLInt, 64 }, { kDLUInt, 64 }, { kDLInt, 32 } };
    for (int way = 0; way < 2; way++) {                     /* axis-aligned, and turned: two loops */
        bzna_loader_config c = config_of(3);
        bzna_loader_info about;
        bzna_tensor field = { .struct_size = sizeof field };
        bzna_batch *batch, *plain;
        uint32_t batches = 0;
        int64_t wrong = 0, different = 0;
        rig r, floats;
        c.order.seed = 11;
        c.warp.kind = way ? BZNA_WARP_SIMILARITY : BZNA_WARP_RANDOM_RESIZED_CROP;
        c.warp.degrees[0] = way ? -30 : 0;
        c.warp.degrees[1] = way ? 30 : 0;
        for (int i = 0; i < 3; i++) {
            c.color.mean[i] = 110.0f + (float)i;
            c.color.std[i] = 60.0f - (float)i;
        }
        rig_open(&floats, &c);
        c.output.dtype = BZNA_DTYPE_FLOAT16;
        rig_open(&r, &c);
        CHECK_EQ(bzna_loader_tensor(r.loader, 0, &field, sizeof field, NULL), BZNA_OK);
        CHECK(field.dtype == BZNA_DTYPE_FLOAT16 && field.dimensions == 4 && field.shape[0] == 3 &&
              field.shape[2] == HEIGHT && !strcmp(field.name, "image"));
        CHECK(bzna_loader_get_info(r.loader, &about, sizeof about, NULL) == BZNA_OK &&
              about.image.dtype == BZNA_DTYPE_FLOAT16);
        while ((batch = next_batch(&r)) != NULL) {
            bzna_batch_info info = info_of(batch), other;
            const void *data[] = { info.image.data, info.targets, info.indices, info.status };
            DLManagedTensor *tensors[4];
            REQUIRE((plain = next_batch(&floats)) != NULL);
            other = info_of(plain);
            CHECK_EQ(info.image.dtype, BZNA_DTYPE_FLOAT16);
            CHECK_EQ(other.image.dtype, BZNA_DTYPE_FLOAT32);
            CHECK_EQ(info.image.bytes, (uint64_t)info.image.shape[0] * 3 * HEIGHT * WIDTH * 2);
            CHECK_EQ(other.image.bytes, 2 * info.image.bytes);
            for (uint32_t f = 0; f < 4; f++) {
                DLTensor *t;
                REQUIRE((tensors[f] = tensor_of(batch, f)) != NULL);
                t = &tensors[f]->dl_tensor;
                CHECK(t->data == data[f] && t->byte_offset == 0 && t->device.device_type == kDLCPU);
                CHECK(t->dtype.code == expected[f].code && t->dtype.bits == expected[f].bits && t->dtype.lanes == 1);
                CHECK(t->ndim == (f ? 1 : 4) && t->shape[0] == info.image.shape[0]);
                CHECK_EQ(t->strides[0], f ? 1 : 3 * HEIGHT * WIDTH);       /* in elements, whatever their size */
            }
            for (int64_t k = 0; k < info.image.shape[0] * 3 * HEIGHT * WIDTH; k++) {
                uint16_t half = ((const uint16_t *)tensors[0]->dl_tensor.data)[k];
                double value = (double)((const float *)other.image.data)[k], off = fabs(half_value(half) - value);
                wrong += !(off <= fabs(half_value((uint16_t)(half + 1)) - value)) ||
                         !(off <= fabs(half_value(half & 0x7fff ? (uint16_t)(half - 1) : half ^ 0x8000) - value));
                different += half_value(half) < value || half_value(half) > value;
            }
            for (int64_t i = 0; i < info.image.shape[0]; i++)
                CHECK(info.indices[i] == other.indices[i] && info.status[i] == BZNA_OK);
            for (uint32_t f = 0; f < 4; f++)
                tensors[f]->deleter(tensors[f]);
            CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
            CHECK_EQ(bzna_batch_release(plain), BZNA_OK);
            batches++;
        }
        CHECK_EQ(batches, 3);
        CHECK_EQ(wrong, 0);
        CHECK(different > 0);                               /* there was something to round */
        rig_close_all(&r);
        rig_close_all(&floats);
        check_settled(&r.l);
        check_settled(&floats.l);
    }
}

/* y as each type should hold it, in double precision: ties to even is nearbyint's way. */
static int holds(const void *data, uint32_t dtype, size_t at, double y)
{
    if (dtype == BZNA_DTYPE_UINT8)
        return ((const uint8_t *)data)[at] == nearbyint(fmin(fmax(y, 0), 255));
    if (dtype == BZNA_DTYPE_BFLOAT16) {
        uint32_t bits = (uint32_t)((const uint16_t *)data)[at] << 16;
        float value;
        int exponent;
        memcpy(&value, &bits, sizeof value);
        frexp(y, &exponent);                                /* eight bits of precision */
        return (double)value == ldexp(nearbyint(ldexp(y, 8 - exponent)), exponent - 8);
    }
    return dtype == BZNA_DTYPE_FLOAT16 ? fabs(half_value(((const uint16_t *)data)[at]) - y) <= fabs(y) / 2048 + 3e-8 :
                                         fabs((double)((const float *)data)[at] - y) <= 1e-5 * fabs(y) + 1e-5;
}

/* How many elements of three samples are not what float32 R'G'B' in planes says that they are. */
static size_t wrong_elements(const float *in, const void *data, const bzna_loader_config *c)
{
    enum { PLANE = HEIGHT * WIDTH };
    const uint32_t channels = c->output.channels, count = channels == BZNA_CHANNELS_GRAY ? 1 : 3;
    size_t wrong = 0;
    for (size_t n = 0; n < 3; n++)
        for (size_t k = 0; k < count * PLANE; k++) {
            size_t channel = c->output.layout ? k % count : k / PLANE, pixel = c->output.layout ? k / count : k % PLANE;
            const float *p = in + n * 3 * PLANE + pixel;
            double luma = 0.299 * (double)p[0] + 0.587 * (double)p[PLANE] + 0.114 * (double)p[2 * PLANE];
            float x = count == 1 ? (float)luma : p[(channels == BZNA_CHANNELS_BGR ? 2 - channel : channel) * PLANE];
            float y = (x - c->color.bias[channel]) * c->color.scale[channel];
            wrong += !holds(data, c->output.dtype, n * count * PLANE + k, (double)y);
        }
    return wrong;
}

/* Every type, layout and order of channels, from R'G'B' of the same batch in float32. bias and scale are of the channel
 * delivered. */
TEST(a_batch_holds_the_channels_that_were_asked_for)
{
    static const struct { uint8_t code, bits; } kinds[] = { { 2, 32 }, { 2, 16 }, { 4, 16 }, { 1, 8 } };
    bzna_loader_config c = config_of(3);
    bzna_batch *rgb, *batch;
    rig first;
    rig_open(&first, &c);
    REQUIRE((rgb = next_batch(&first)) != NULL);
    const float *in = info_of(rgb).image.data;
    for (uint32_t way = 0; way < 24; way++) {
        const uint32_t dtype = way % 4, last = way / 4 % 2, channels = way / 8, count = channels == 2 ? 1 : 3;
        size_t wrong;
        rig r;
        c.output.dtype = dtype;
        c.output.layout = last;
        c.output.channels = channels;
        for (int i = 0; i < 3; i++) {
            c.color.bias[i] = 20.0f * (float)i - 0.3f;
            c.color.scale[i] = 0.77f + (float)i;
        }
        rig_open(&r, &c);
        REQUIRE((batch = next_batch(&r)) != NULL);
        DLManagedTensor *t = tensor_of(batch, 0);
        REQUIRE(t != NULL);
        CHECK(t->dl_tensor.dtype.code == kinds[dtype].code && t->dl_tensor.dtype.bits == kinds[dtype].bits);
        CHECK_EQ(t->dl_tensor.shape[last ? 3 : 1], count);
        CHECK_EQ(t->dl_tensor.strides[0], count * HEIGHT * WIDTH);
        CHECK_EQ(info_of(batch).image.bytes, 3 * count * HEIGHT * WIDTH * kinds[dtype].bits / 8);
        wrong = wrong_elements(in, t->dl_tensor.data, &c);
        CHECK(wrong <= (channels == 2 && dtype >= 2 ? 3 : 0));        /* where float32 rounds luma the other way */
        t->deleter(t);
        bzna_batch_release(batch);
        rig_close_all(&r);
    }
    bzna_batch_release(rgb);
    rig_close_all(&first);
}

/* Separable and general warps, both element types: pixel by pixel what is plane by plane otherwise, to the bit. */
TEST(channels_last_is_the_same_batch_with_its_axes_in_another_order)
{
    for (int way = 0; way < 4; way++) {
        bzna_loader_config c = config_of(3);
        bzna_loader_info about;
        bzna_tensor field = { .struct_size = sizeof field };
        bzna_batch *batch, *plain;
        uint32_t batches = 0, wrong = 0;
        size_t bytes = way / 2 ? 2 : 4;
        rig last, first;
        c.order.seed = 12;
        c.output.dtype = way / 2 ? BZNA_DTYPE_FLOAT16 : BZNA_DTYPE_FLOAT32;
        c.warp.kind = way % 2 ? BZNA_WARP_SIMILARITY : BZNA_WARP_RANDOM_RESIZED_CROP;
        c.warp.degrees[0] = c.warp.degrees[1] = way % 2 ? 20 : 0;
        rig_open(&first, &c);
        c.output.layout = BZNA_LAYOUT_NHWC;
        rig_open(&last, &c);
        CHECK(bzna_loader_tensor(last.loader, 0, &field, sizeof field, NULL) == BZNA_OK && field.shape[0] == 3 &&
              field.shape[1] == HEIGHT && field.shape[2] == WIDTH && field.shape[3] == 3);
        CHECK(bzna_loader_get_info(last.loader, &about, sizeof about, NULL) == BZNA_OK &&
              about.layout == BZNA_LAYOUT_NHWC && !memcmp(about.image.shape, field.shape, sizeof field.shape));
        while ((batch = next_batch(&last)) != NULL) {
            bzna_batch_info info = info_of(batch), other;
            DLManagedTensor *tensor = tensor_of(batch, 0);
            const DLTensor *t;
            REQUIRE(tensor != NULL && (plain = next_batch(&first)) != NULL);
            t = &tensor->dl_tensor;
            other = info_of(plain);
            CHECK(info.layout == BZNA_LAYOUT_NHWC && info.image.shape[1] == HEIGHT && info.image.shape[2] == WIDTH &&
                  info.image.shape[3] == 3 && info.image.bytes == other.image.bytes);
            CHECK(t->shape[1] == HEIGHT && t->shape[2] == WIDTH && t->shape[3] == 3);
            CHECK(t->strides[0] == 3 * HEIGHT * WIDTH && t->strides[1] == 3 * WIDTH && t->strides[2] == 3 &&
                  t->strides[3] == 1);
            for (size_t n = 0; n < (size_t)info.image.shape[0]; n++)
                for (size_t k = 0; k < 3 * HEIGHT * WIDTH; k++)
                    wrong += memcmp((const uint8_t *)info.image.data + (n * 3 * HEIGHT * WIDTH + k) * bytes,
                                    (const uint8_t *)other.image.data +
                                        ((n * 3 + k % 3) * HEIGHT * WIDTH + k / 3) * bytes,
                                    bytes) != 0;
            tensor->deleter(tensor);
            bzna_batch_release(batch);
            bzna_batch_release(plain);
            batches++;
        }
        CHECK(batches > 1 && wrong == 0);
        rig_close_all(&last);
        rig_close_all(&first);
        check_settled(&last.l);
        check_settled(&first.l);
    }
}

TEST(a_batch_is_on_loan_until_its_release_and_all_deleters_in_any_order)
{
    bzna_loader_config c = config_of(2);
    rig r;
    c.order.epochs = BZNA_EPOCHS_ENDLESS;
    c.pipeline.batches_in_flight = 2;
    rig_open(&r, &c);
    for (uint32_t order = 0; order < 240; order++) {        /* every order of 4 deleters and the release, twice */
        int left[5] = { 0, 1, 2, 3, 4 }, n = 5;
        uint32_t code = order % 120;
        bzna_batch *batch = next_batch(&r), *second;
        exported tensors[4];
        bzna_batch_info info;
        uint64_t index;
        float pixel;
        REQUIRE(batch != NULL);
        info = info_of(batch);
        CHECK_EQ(info.on_loan, 1);
        index = info.indices[1];
        pixel = ((float *)info.image.data)[7];
        for (uint32_t f = 0; f < 4; f++)
            REQUIRE((tensors[f] = export_as(batch, f, (f + order / 120) % 2)).managed != NULL);
        while (n > 0) {
            int pick = (int)(code % (uint32_t)n), what = left[pick];
            void *tensor = &r;
            code /= (uint32_t)n;
            left[pick] = left[--n];
            CHECK_EQ(on_loan(&r), 1);
            CHECK(info.indices[1] == index && ((float *)info.image.data)[7] >= pixel &&
                  ((float *)info.image.data)[7] <= pixel);
            if (what < 4) {
                delete_exported(tensors[what]);
            } else {
                CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
                if (n > 0) {
                    CHECK_EQ(bzna_batch_release(batch), BZNA_E_STATE);     /* given back, though still lent */
                    CHECK_EQ(bzna_batch_to_dlpack(batch, "image", order % 2, &tensor, NULL), BZNA_E_STATE);
                    CHECK(tensor == &r);
                }
            }
            if (n > 0 && order % 10 == 0) {                 /* the other one goes round meanwhile */
                REQUIRE((second = next_batch(&r)) != NULL);
                CHECK(second != batch);
                CHECK_EQ(info_of(second).on_loan, 2);       /* also where only tensors of the first one are out */
                CHECK_EQ(bzna_batch_release(second), BZNA_OK);
            }
        }
        CHECK_EQ(on_loan(&r), 0);
        CHECK_EQ(bzna_batch_release(batch), BZNA_E_STATE);
    }
    rig_close_all(&r);
    check_settled(&r.l);
}

/* dlpack.h 1.0: {1, 0}, and no flag: neither read-only nor copied. */
TEST(versioned_tensors_are_those_of_dlpack_1_0_and_may_be_out_together_with_the_old_ones)
{
    bzna_loader_config c = config_of(3);
    bzna_batch *batch;
    rig r;
    c.output.layout = BZNA_LAYOUT_NHWC;
    rig_open(&r, &c);
    REQUIRE((batch = next_batch(&r)) != NULL);
    for (uint32_t f = 0; f < 4; f++) {
        DLManagedTensorVersioned *v = versioned_of(batch, f);
        DLManagedTensor *t = tensor_of(batch, f);
        REQUIRE(v != NULL && t != NULL && (void *)v != (void *)t);
        CHECK(v->version.major == 1 && v->version.minor == 0);
        CHECK_EQ(v->flags, 0);
        CHECK(v->manager_ctx != NULL && v->deleter != NULL);
        CHECK(v->dl_tensor.data == t->dl_tensor.data && v->dl_tensor.byte_offset == 0);
        CHECK(v->dl_tensor.device.device_type == kDLCPU && v->dl_tensor.device.device_id == 0);
        CHECK(!memcmp(&v->dl_tensor.dtype, &t->dl_tensor.dtype, sizeof t->dl_tensor.dtype));
        CHECK_EQ(v->dl_tensor.ndim, f ? 1 : 4);
        for (int i = 0; i < v->dl_tensor.ndim; i++)
            CHECK(v->dl_tensor.shape[i] == t->dl_tensor.shape[i] && v->dl_tensor.strides[i] == t->dl_tensor.strides[i]);
        if (f % 2)
            t->deleter(t);
        v->deleter(v);
        if (f % 2 == 0)
            t->deleter(t);
    }
    CHECK_EQ(on_loan(&r), 1);
    CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
    CHECK_EQ(on_loan(&r), 0);
    rig_close_all(&r);
    check_settled(&r.l);
}

/* One description, from four calls. */
TEST(a_batchs_tensors_its_loaders_and_dlpacks_say_the_same)
{
    static const uint32_t others[3] = { BZNA_DTYPE_INT64, BZNA_DTYPE_UINT64, BZNA_DTYPE_INT32 };
    for (int way = 0; way < 4; way++) {
        bzna_loader_config c = config_of(3);
        bzna_batch *batch;
        uint32_t batches = 0;
        const int half = way % 2, last = way / 2;
        rig r;
        c.output.dtype = half ? BZNA_DTYPE_FLOAT16 : BZNA_DTYPE_FLOAT32;
        c.output.layout = last ? BZNA_LAYOUT_NHWC : BZNA_LAYOUT_NCHW;
        rig_open(&r, &c);
        for (; (batch = next_batch(&r)) != NULL; batches++) {
            bzna_batch_info info = info_of(batch);
            const void *data[4] = { info.image.data, info.targets, info.indices, info.status };
            for (uint32_t f = 0; f < 4; f++) {
                bzna_tensor full, of;
                DLManagedTensor *t = tensor_of(batch, f);
                uint64_t elements = 1;
                REQUIRE(t != NULL);
                CHECK_EQ(bzna_loader_tensor(r.loader, f, &full, sizeof full, NULL), BZNA_OK);
                CHECK_EQ(bzna_batch_tensor(batch, tensor_names[f], &of, sizeof of, NULL), BZNA_OK);
                CHECK_STR(of.name, tensor_names[f]);
                CHECK(of.data == data[f] && full.data == NULL && t->dl_tensor.data == data[f]);
                CHECK(of.device.kind == BZNA_DEVICE_CPU && of.device.ordinal == 0);
                CHECK(t->dl_tensor.device.device_type == kDLCPU && t->dl_tensor.device.device_id == 0);
                CHECK_EQ(of.dtype, f ? others[f - 1] : c.output.dtype);
                CHECK_EQ(t->dl_tensor.dtype.bits, ((const int[]){ half ? 16 : 32, 64, 64, 32 })[f]);
                CHECK_EQ(t->dl_tensor.dtype.code, ((const int[]){ kDLFloat, kDLInt, kDLUInt, kDLInt })[f]);
                CHECK_EQ(of.dimensions, f ? 1 : 4);
                CHECK_EQ(t->dl_tensor.ndim, of.dimensions);
                CHECK_EQ(of.shape[0], batches == 2 ? 2 : 3);
                CHECK_EQ(full.shape[0], 3);                 /* of a full batch, whatever this one is */
                if (f == 0) {
                    CHECK_EQ(of.shape[1], last ? HEIGHT : 3);
                    CHECK_EQ(of.shape[2], last ? WIDTH : HEIGHT);
                    CHECK_EQ(of.shape[3], last ? 3 : WIDTH);
                }
                for (uint32_t i = 0; i < 6; i++) {
                    CHECK_EQ(i < of.dimensions ? t->dl_tensor.shape[i] : 0, of.shape[i]);
                    CHECK(i == 0 || full.shape[i] == of.shape[i]);
                    elements *= i < of.dimensions ? (uint64_t)of.shape[i] : 1;
                }
                CHECK_EQ(of.bytes, elements * t->dl_tensor.dtype.bits / 8);
                CHECK_EQ(full.bytes * (uint64_t)of.shape[0], of.bytes * 3);
                t->deleter(t);
                if (f == 0)
                    CHECK(!memcmp(&of, &info.image, sizeof of));
                of.data = NULL;                             /* all else is as the loader said */
                of.shape[0] = full.shape[0];
                of.bytes = full.bytes;
                CHECK(!memcmp(&of, &full, sizeof of));
            }
            CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
        }
        CHECK_EQ(batches, 3);
        rig_close_all(&r);
        check_settled(&r.l);
    }
}

TEST(tensors_that_do_not_exist_are_not_described)
{
    static const char *const wrong[] = { "", "data", "targets", "imag", "Image",
                                         "a name that is longer than any tensor may have" };
    bzna_loader_config c = config_of(4);
    bzna_error e;
    bzna_tensor t;
    bzna_batch *batch;
    rig r;
    bzna_error_init(&e, sizeof e);
    c.output.slices = 2;
    rig_open(&r, &c);
    CHECK_EQ(bzna_loader_tensor(r.loader, 4, &t, sizeof t, &e), BZNA_E_RANGE);
    CHECK_CONTAINS(e.message, "4 is not below 4");
    CHECK_EQ(bzna_loader_tensor(r.loader, UINT32_MAX, &t, sizeof t, &e), BZNA_E_RANGE);
    CHECK_EQ(bzna_loader_tensor(NULL, 0, &t, sizeof t, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_loader_tensor(r.loader, 0, NULL, sizeof t, &e), BZNA_E_ARGUMENT);
    REQUIRE((batch = next_batch(&r)) != NULL);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        CHECK_EQ(bzna_batch_tensor(batch, wrong[i], &t, sizeof t, &e), BZNA_E_NOT_FOUND);
        CHECK_CONTAINS(e.message, "no tensor");
    }
    CHECK_EQ(bzna_batch_tensor(batch, "image", &t, sizeof t, &e), BZNA_E_UNSUPPORTED);
    CHECK_CONTAINS(e.message, "2 slices");
    CHECK_EQ(bzna_batch_tensor(batch, "status", &t, sizeof t, &e), BZNA_OK);
    CHECK_EQ(bzna_batch_tensor(NULL, "status", &t, sizeof t, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_batch_tensor(batch, NULL, &t, sizeof t, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_batch_tensor(batch, "status", NULL, sizeof t, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
    rig_close_all(&r);
    check_settled(&r.l);
}

TEST(the_same_field_can_be_exported_several_times)
{
    bzna_loader_config c = config_of(2);
    DLManagedTensor *tensors[9];
    bzna_batch *batch;
    rig r;
    rig_open(&r, &c);
    REQUIRE((batch = next_batch(&r)) != NULL);
    for (int i = 0; i < 9; i++)
        REQUIRE((tensors[i] = tensor_of(batch, (uint32_t)i % 2)) != NULL);
    CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
    for (int i = 0; i < 9; i++) {
        CHECK_EQ(on_loan(&r), 1);
        CHECK(tensors[i]->dl_tensor.data != NULL && tensors[i]->dl_tensor.shape[0] == 2);
        tensors[i]->deleter(tensors[i]);
    }
    CHECK_EQ(on_loan(&r), 0);
    rig_close_all(&r);
    check_settled(&r.l);
}

typedef struct other_thread { DLManagedTensor *tensors[4]; double sum; } other_thread;

static void *use_and_delete(void *argument)
{
    other_thread *o = argument;
    for (int f = 3; f >= 0; f--) {
        DLTensor *t = &o->tensors[f]->dl_tensor;
        int64_t n = 1;
        for (int32_t k = 0; k < t->ndim; k++)
            n *= t->shape[k];
        for (int64_t k = 0; k < n; k++)
            o->sum += f == 0              ? (double)((float *)t->data)[k] :
                      t->dtype.bits == 64 ? (double)((int64_t *)t->data)[k] :
                                            (double)((int32_t *)t->data)[k];
        o->tensors[f]->deleter(o->tensors[f]);
    }
    return NULL;
}

TEST(tensors_outlive_the_loader_the_dataset_and_the_context_and_end_on_another_thread)
{
    for (int kept = 0; kept < 2; kept++) {
        bzna_loader_config c = config_of(4);
        other_thread o;
        pthread_t thread;
        bzna_batch *batch;
        double sum = 0;
        rig r;
        rig_open(&r, &c);
        REQUIRE((batch = next_batch(&r)) != NULL);
        bzna_batch_info info = info_of(batch);
        memset(&o, 0, sizeof o);
        for (uint32_t f = 0; f < 4; f++)
            REQUIRE((o.tensors[f] = tensor_of(batch, f)) != NULL);
        for (int64_t i = 0; i < 4; i++)
            sum += (double)info.targets[i] + (double)info.indices[i] + info.status[i];
        for (uint64_t i = 0; i < info.image.bytes / 4; i++)
            sum += (double)((float *)info.image.data)[i];
        if (!kept)
            CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
        rig_close_all(&r);
        CHECK(r.l.blocks > 0);
        pthread_create(&thread, NULL, use_and_delete, &o);
        pthread_join(thread, NULL);
        CHECK_NEAR(o.sum, sum, fabs(sum) * 1e-9 + 1e-6);
        if (kept) {                                         /* the last one to let go is the owner */
            CHECK(r.l.blocks > 0);
            CHECK_EQ(info.indices[0] < 8, 1);
            CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
        }
        check_settled(&r.l);
    }
}

/* A framework's thread reads one tensor while another thread exports the next field. */
typedef struct reading { DLManagedTensor *tensor; atomic_int stop; _Atomic int64_t wrong, rounds; } reading;

static void *read_on(void *argument)
{
    reading *o = argument;
    while (!o->stop || !o->rounds) {
        const DLTensor *t = &o->tensor->dl_tensor;
        o->wrong += t->ndim != 4 || t->shape[0] != 2 || t->shape[3] != WIDTH || t->strides[0] != 3 * HEIGHT * WIDTH ||
                    t->strides[3] != 1 || t->dtype.code != kDLFloat;
        o->rounds++;
    }
    o->tensor->deleter(o->tensor);
    return NULL;
}

TEST(a_tensor_may_be_read_while_others_of_the_batch_come_and_go)
{
    bzna_loader_config c = config_of(2);
    pthread_t thread;
    bzna_batch *batch;
    reading o;
    rig r;
    rig_open(&r, &c);
    REQUIRE((batch = next_batch(&r)) != NULL);
    memset(&o, 0, sizeof o);
    REQUIRE((o.tensor = tensor_of(batch, 0)) != NULL);
    pthread_create(&thread, NULL, read_on, &o);
    for (uint32_t i = 0; i < 2000; i++) {
        DLManagedTensor *t = tensor_of(batch, i % 4);
        REQUIRE(t != NULL);
        t->deleter(t);
    }
    o.stop = 1;
    pthread_join(thread, NULL);
    CHECK_EQ(o.wrong, 0);
    CHECK_EQ(on_loan(&r), 1);
    CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
    CHECK_EQ(on_loan(&r), 0);
    rig_close_all(&r);
    check_settled(&r.l);
}

TEST(exporting_allocates_nothing_and_copies_nothing)
{
    bzna_loader_config c = config_of(8);
    bzna_batch *batch;
    int64_t calls;
    rig r;
    rig_open(&r, &c);
    REQUIRE((batch = next_batch(&r)) != NULL);              /* the whole epoch: nobody is at work any more */
    bzna_batch *none = NULL;
    CHECK_EQ(bzna_loader_next(r.loader, BZNA_WAIT_FOREVER, &none, NULL), BZNA_END);
    calls = r.l.calls + r.l.releases;
    for (int i = 0; i < 100; i++) {
        DLManagedTensor *t = tensor_of(batch, (uint32_t)i % 4);
        REQUIRE(t != NULL);
        t->deleter(t);
    }
    CHECK_EQ(r.l.calls + r.l.releases, calls);
    CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
    rig_close_all(&r);
    check_settled(&r.l);
}

TEST(what_cannot_be_a_tensor_is_refused)
{
    bzna_loader_config c = config_of(4);
    bzna_error e = { .struct_size = sizeof e };
    void *tensor = &c;
    bzna_batch *batch;
    rig r;
    c.output.slices = 2;
    rig_open(&r, &c);
    REQUIRE((batch = next_batch(&r)) != NULL);
    tensor = &c;                                            /* what stands there has an owner: it is not lost */
    CHECK_EQ(bzna_batch_to_dlpack(batch, "image", BZNA_DLPACK_0, &tensor, &e), BZNA_E_UNSUPPORTED);
    CHECK(tensor == &c);
    CHECK_CONTAINS(e.message, "2 slices");
    for (uint32_t f = 1; f < 4; f++) {                      /* these lie in one piece */
        DLManagedTensor *t = tensor_of(batch, f);
        REQUIRE(t != NULL);
        CHECK_EQ(t->dl_tensor.shape[0], 4);
        t->deleter(t);
    }
    CHECK_EQ(bzna_batch_to_dlpack(batch, "data", BZNA_DLPACK_0, &tensor, &e), BZNA_E_NOT_FOUND);
    CHECK(tensor == &c);
    CHECK_CONTAINS(e.message, "\"data\"");
    CHECK_EQ(bzna_batch_to_dlpack(batch, "", BZNA_DLPACK_1, &tensor, &e), BZNA_E_NOT_FOUND);
    CHECK_EQ(bzna_batch_to_dlpack(batch, "targets", BZNA_DLPACK_1, &tensor, &e), BZNA_E_NOT_FOUND);
    CHECK_EQ(bzna_batch_to_dlpack(batch, "target", BZNA_DLPACK_1 + 1, &tensor, &e), BZNA_E_UNSUPPORTED);
    CHECK(tensor == &c);
    CHECK_CONTAINS(e.message, "version 2");
    CHECK_EQ(bzna_batch_to_dlpack(batch, NULL, BZNA_DLPACK_0, &tensor, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_batch_to_dlpack(batch, "target", BZNA_DLPACK_0, NULL, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(bzna_batch_to_dlpack(NULL, "target", BZNA_DLPACK_0, &tensor, &e), BZNA_E_ARGUMENT);
    CHECK_EQ(on_loan(&r), 1);
    CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
    CHECK_EQ(bzna_batch_to_dlpack(batch, "target", BZNA_DLPACK_0, &tensor, &e), BZNA_E_STATE);
    CHECK_CONTAINS(e.message, "not on loan");
    CHECK(tensor == &c);
    rig_close_all(&r);
    check_settled(&r.l);
}

/* dlpack.h: "if the tensor is of size zero, then the data pointer should be set to NULL". */
TEST(the_tensors_of_an_empty_batch_have_no_data)
{
    bzna_loader_config c = config_of(4);
    bzna_batch *batch;
    rig r;
    c.shard.rank = 9;
    c.shard.world_size = 10;                                /* 8 samples: none for this rank */
    rig_open(&r, &c);
    REQUIRE((batch = next_batch(&r)) != NULL);
    CHECK_EQ(info_of(batch).count, 0);
    for (uint32_t f = 0; f < 4; f++) {
        DLManagedTensor *t = tensor_of(batch, f);
        REQUIRE(t != NULL);
        CHECK_EQ(t->dl_tensor.shape[0], 0);
        CHECK(t->dl_tensor.data == NULL);
        CHECK(t->dl_tensor.shape != NULL && t->dl_tensor.strides != NULL);
        t->deleter(t);
    }
    CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
    rig_close_all(&r);
    check_settled(&r.l);
}

/* The caller's memory, as a tensor. */
TEST(tensors_of_the_callers_buffers_point_there)
{
    static float buffers[3][4 * 3 * WIDTH * HEIGHT];
    enum { BYTES = sizeof buffers[0] };
    const bzna_buffer list[3] = { { buffers[0], BYTES }, { buffers[1], BYTES }, { buffers[2], BYTES } };
    bzna_loader_config c = config_of(4);
    bzna_batch *batch;
    DLManagedTensor *t;
    rig r;
    c.output.buffers = list;
    c.output.buffer_count = 3;
    rig_open(&r, &c);
    REQUIRE((batch = next_batch(&r)) != NULL);
    REQUIRE((t = tensor_of(batch, 0)) != NULL);
    CHECK(t->dl_tensor.data == buffers[0] || t->dl_tensor.data == buffers[1] || t->dl_tensor.data == buffers[2]);
    CHECK_EQ(bzna_batch_release(batch), BZNA_OK);
    rig_close_all(&r);
    CHECK(r.l.blocks > 0);
    t->deleter(t);
    check_settled(&r.l);
}

TEST_MAIN(RUN(the_structs_are_those_of_dlpack)
          RUN(each_field_is_a_tensor_with_the_batchs_memory_shape_and_type)
          RUN(a_batch_of_halves_is_a_tensor_of_16_bit_floats)
          RUN(a_batch_holds_the_channels_that_were_asked_for)
          RUN(channels_last_is_the_same_batch_with_its_axes_in_another_order)
    RUN(a_batch_is_on_loan_until_its_release_and_all_deleters_in_any_order)
          RUN(versioned_tensors_are_those_of_dlpack_1_0_and_may_be_out_together_with_the_old_ones)
          RUN(a_batchs_tensors_its_loaders_and_dlpacks_say_the_same)
          RUN(tensors_that_do_not_exist_are_not_described)
          RUN(the_same_field_can_be_exported_several_times)
          RUN(tensors_outlive_the_loader_the_dataset_and_the_context_and_end_on_another_thread)
          RUN(a_tensor_may_be_read_while_others_of_the_batch_come_and_go)
          RUN(exporting_allocates_nothing_and_copies_nothing)
          RUN(what_cannot_be_a_tensor_is_refused)
          RUN(the_tensors_of_an_empty_batch_have_no_data)
          RUN(tensors_of_the_callers_buffers_point_there))
#endif
