/* nvdec.h - included behind benzina.c by a suite of loader tests: its loaders, where they leave it open, then decode
 * with NVDEC on the fake driver. TEST_NVDEC 1: batches on the host. 2: on the device; the fake's device memory is the
 * host's, so that a test reads it once the stream is done. */
#ifndef BENZINA_TEST_NVDEC_H
#define BENZINA_TEST_NVDEC_H
#include "fake.h"

/* on a test machine's few processors; suites of the sessions themselves have the default, 14 */
#define NVDEC_SESSIONS 3u

#pragma GCC diagnostic ignored "-Wunused-function"          /* not every suite needs all of it */

/* With its sessions started, so that what a test counts before it opens a loader has them in. */
static bzna_status nvdec_context_open(const bzna_context_config *config, bzna_context **out, bzna_error *err)
{
    bzna_context_config c;
    bzna_status status;
    bzi_device *device = NULL;
    bzi_pool *pool = NULL;
    bzna_error ignored;
    fake_control *control = fake_load()->control;
    if (!control->memory_budget)
        control->memory_budget = 2ll << 30;                 /* it is the host's */
    bzna_context_config_init(&c, sizeof c);
    if (config && config->struct_size == sizeof c)
        c = *config;
    if (!c.sessions)
        c.sessions = NVDEC_SESSIONS;
    status = bzna_context_open(config && config->struct_size != sizeof c ? config : &c, out, err);
    if (status == BZNA_OK && bzi_context_gpu(*out, &device, &ignored) == BZNA_OK)
        bzi_context_pool(*out, &pool, &ignored);
    return status;
}

static bzna_status nvdec_loader_open(bzna_context *context, bzna_dataset *dataset, const bzna_loader_config *config,
                                     bzna_loader **out, bzna_error *err)
{
    bzna_loader_config c;
    if (!config || config->struct_size != sizeof c)
        return bzna_loader_open(context, dataset, config, out, err);
    c = *config;
    if (c.decode.decoder == BZNA_DECODER_AUTO)
        c.decode.decoder = BZNA_DECODER_NVDEC;
    if (c.output.device.kind == BZNA_DEVICE_AUTO)
        c.output.device.kind = TEST_NVDEC == 2 ? BZNA_DEVICE_CUDA : BZNA_DEVICE_CPU;
    return bzna_loader_open(context, dataset, &c, out, err);
}

static bzna_status nvdec_loader_next(bzna_loader *loader, int64_t timeout_ns, bzna_batch **batch, bzna_error *err)
{
    bzna_status status = bzna_loader_next(loader, timeout_ns, batch, err);
    if (status == BZNA_OK && loader->setup.on_device) {
        bzna_error ignored;
        bzi_device *device = loader->setup.device;
        if (bzi_device_enter(device, &ignored) == BZNA_OK) {
            bzi_device_stream_wait(device, (*batch)->stream);
            bzi_device_leave(device);
        }
    }
    return status;
}

#if TEST_NVDEC == 2
/* Device memory, which the host may read because it is the fake's. */
static void *nvdec_alloc(bzna_context *context, size_t size)
{
    bzna_error ignored;
    uint64_t ptr = 0;
    if (bzi_device_enter(context->device, &ignored) == BZNA_OK) {
        bzi_device_alloc(context->device, size, NULL, &ptr, &ignored);
        bzi_device_leave(context->device);
    }
    return (void *)(uintptr_t)ptr;
}

static void nvdec_free(bzna_context *context, void *p)
{
    bzna_error ignored;
    if (bzi_device_enter(context->device, &ignored) == BZNA_OK) {
        bzi_device_free(context->device, (uint64_t)(uintptr_t)p, 0, NULL);
        bzi_device_leave(context->device);
    }
}
#endif

#undef bzna_context_open              /* which may be that of with_formats.h */
#define bzna_context_open nvdec_context_open
#define bzna_loader_open nvdec_loader_open
#define bzna_loader_next nvdec_loader_next
#endif
