/* null_driver.c - libcuda.so.1 and libnvcuvid.so.1 that accept everything and do nothing: what remains of a loader's
 * time is the library's own. For tests/bench_sessions.c. One device of seven engines, every picture one of 512x512, 8
 * bits, 4:2:0; nothing is ever pending. */
#include <ffnvcodec/dynlink_cuda.h>
#include <ffnvcodec/dynlink_nvcuvid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default"))) CUresult

static char surfaces[4096];                 /* an address for what nobody reads */

EXPORT cuInit(unsigned flags);
EXPORT cuInit(unsigned flags) { return flags ? 1 : CUDA_SUCCESS; }
EXPORT cuDriverGetVersion(int *version);
EXPORT cuDriverGetVersion(int *version) { *version = 12040; return CUDA_SUCCESS; }
EXPORT cuDeviceGetCount(int *count);
EXPORT cuDeviceGetCount(int *count) { *count = 1; return CUDA_SUCCESS; }
EXPORT cuDeviceGet(CUdevice *device, int ordinal);
EXPORT cuDeviceGet(CUdevice *device, int ordinal) { *device = ordinal; return CUDA_SUCCESS; }
EXPORT cuDeviceGetName(char *name, int length, CUdevice device);
EXPORT cuDeviceGetName(char *name, int length, CUdevice device)
{
    snprintf(name, (size_t)length, "null device %d", device);
    return CUDA_SUCCESS;
}
EXPORT cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device);
EXPORT cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)attribute;
    (void)device;
    *value = 9;
    return CUDA_SUCCESS;
}
EXPORT cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
EXPORT cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = (size_t)1 << 37;
    return CUDA_SUCCESS;
}
EXPORT cuMemGetInfo_v2(size_t *unused, size_t *total);
EXPORT cuMemGetInfo_v2(size_t *unused, size_t *total)
{
    *unused = *total = (size_t)1 << 37;
    return CUDA_SUCCESS;
}
EXPORT cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
EXPORT cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    (void)device;
    *context = (CUcontext)(void *)surfaces;
    return CUDA_SUCCESS;
}
EXPORT cuDevicePrimaryCtxRelease(CUdevice device);
EXPORT cuDevicePrimaryCtxRelease(CUdevice device) { (void)device; return CUDA_SUCCESS; }
EXPORT cuCtxPushCurrent_v2(CUcontext context);
EXPORT cuCtxPushCurrent_v2(CUcontext context) { (void)context; return CUDA_SUCCESS; }
EXPORT cuCtxPopCurrent_v2(CUcontext *context);
EXPORT cuCtxPopCurrent_v2(CUcontext *context) { *context = NULL; return CUDA_SUCCESS; }
EXPORT cuCtxGetDevice(CUdevice *device);
EXPORT cuCtxGetDevice(CUdevice *device) { *device = 0; return CUDA_SUCCESS; }

EXPORT cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
EXPORT cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    *pointer = (CUdeviceptr)(size_t)aligned_alloc(256, (bytes + 255) & ~(size_t)255);
    return *pointer ? CUDA_SUCCESS : 2;
}
EXPORT cuMemFree_v2(CUdeviceptr pointer);
EXPORT cuMemFree_v2(CUdeviceptr pointer) { free((void *)(size_t)pointer); return CUDA_SUCCESS; }
EXPORT cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags);
EXPORT cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    (void)flags;
    *pointer = aligned_alloc(256, (bytes + 255) & ~(size_t)255);
    return *pointer ? CUDA_SUCCESS : 2;
}
EXPORT cuMemFreeHost(void *pointer);
EXPORT cuMemFreeHost(void *pointer) { free(pointer); return CUDA_SUCCESS; }
EXPORT cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
EXPORT cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    (void)to;
    (void)from;
    (void)bytes;
    (void)stream;
    return CUDA_SUCCESS;
}
EXPORT cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
EXPORT cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    (void)to;
    (void)from;
    (void)bytes;
    (void)stream;
    return CUDA_SUCCESS;
}

EXPORT cuStreamCreate(CUstream *stream, unsigned flags);
EXPORT cuStreamCreate(CUstream *stream, unsigned flags)
{
    (void)flags;
    *stream = (CUstream)(void *)surfaces;
    return CUDA_SUCCESS;
}
EXPORT cuStreamDestroy_v2(CUstream stream);
EXPORT cuStreamDestroy_v2(CUstream stream) { (void)stream; return CUDA_SUCCESS; }
EXPORT cuStreamSynchronize(CUstream stream);
EXPORT cuStreamSynchronize(CUstream stream) { (void)stream; return CUDA_SUCCESS; }
EXPORT cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
EXPORT cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void)stream;
    (void)event;
    (void)flags;
    return CUDA_SUCCESS;
}
EXPORT cuEventCreate(CUevent *event, unsigned flags);
EXPORT cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    *event = (CUevent)(void *)surfaces;
    return CUDA_SUCCESS;
}
EXPORT cuEventDestroy_v2(CUevent event);
EXPORT cuEventDestroy_v2(CUevent event) { (void)event; return CUDA_SUCCESS; }
EXPORT cuEventRecord(CUevent event, CUstream stream);
EXPORT cuEventRecord(CUevent event, CUstream stream) { (void)event; (void)stream; return CUDA_SUCCESS; }
EXPORT cuEventQuery(CUevent event);
EXPORT cuEventQuery(CUevent event) { (void)event; return CUDA_SUCCESS; }
EXPORT cuEventSynchronize(CUevent event);
EXPORT cuEventSynchronize(CUevent event) { (void)event; return CUDA_SUCCESS; }

EXPORT cuModuleLoadData(CUmodule *module, const void *image);
EXPORT cuModuleLoadData(CUmodule *module, const void *image)
{
    (void)image;
    *module = (CUmodule)(void *)surfaces;
    return CUDA_SUCCESS;
}
EXPORT cuModuleUnload(CUmodule module);
EXPORT cuModuleUnload(CUmodule module) { (void)module; return CUDA_SUCCESS; }
EXPORT cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
EXPORT cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    (void)module;
    (void)name;
    *function = (CUfunction)(void *)surfaces;
    return CUDA_SUCCESS;
}
EXPORT cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **parameters,
                      void **extra);
EXPORT cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **parameters,
                      void **extra)
{
    (void)function;
    (void)grid_x;
    (void)grid_y;
    (void)grid_z;
    (void)block_x;
    (void)block_y;
    (void)block_z;
    (void)shared;
    (void)stream;
    (void)parameters;
    (void)extra;
    return CUDA_SUCCESS;
}
EXPORT cuGetErrorName(CUresult error, const char **name);
EXPORT cuGetErrorName(CUresult error, const char **name) { (void)error; *name = "an error"; return CUDA_SUCCESS; }

EXPORT cuvidGetDecoderCaps(CUVIDDECODECAPS *caps);
EXPORT cuvidGetDecoderCaps(CUVIDDECODECAPS *caps)
{
    caps->bIsSupported = 1;
    caps->nNumNVDECs = 7;
    caps->nOutputFormatMask = 15;
    caps->nMaxWidth = caps->nMaxHeight = 8192;
    caps->nMaxMBCount = 262144;
    return CUDA_SUCCESS;
}
EXPORT cuvidCreateDecoder(CUvideodecoder *decoder, CUVIDDECODECREATEINFO *info);
EXPORT cuvidCreateDecoder(CUvideodecoder *decoder, CUVIDDECODECREATEINFO *info)
{
    (void)info;
    *decoder = surfaces;
    return CUDA_SUCCESS;
}
EXPORT cuvidDestroyDecoder(CUvideodecoder decoder);
EXPORT cuvidDestroyDecoder(CUvideodecoder decoder) { (void)decoder; return CUDA_SUCCESS; }
EXPORT cuvidReconfigureDecoder(CUvideodecoder decoder, CUVIDRECONFIGUREDECODERINFO *info);
EXPORT cuvidReconfigureDecoder(CUvideodecoder decoder, CUVIDRECONFIGUREDECODERINFO *info)
{
    (void)decoder;
    (void)info;
    return CUDA_SUCCESS;
}
EXPORT cuvidDecodePicture(CUvideodecoder decoder, CUVIDPICPARAMS *parameters);
EXPORT cuvidDecodePicture(CUvideodecoder decoder, CUVIDPICPARAMS *parameters)
{
    (void)decoder;
    (void)parameters;
    return CUDA_SUCCESS;
}
EXPORT cuvidGetDecodeStatus(CUvideodecoder decoder, int index, CUVIDGETDECODESTATUS *status);
EXPORT cuvidGetDecodeStatus(CUvideodecoder decoder, int index, CUVIDGETDECODESTATUS *status)
{
    (void)decoder;
    (void)index;
    status->decodeStatus = cuvidDecodeStatus_Success;
    return CUDA_SUCCESS;
}
EXPORT cuvidMapVideoFrame64(CUvideodecoder decoder, int index, unsigned long long *address, unsigned *pitch,
                            CUVIDPROCPARAMS *parameters);
EXPORT cuvidMapVideoFrame64(CUvideodecoder decoder, int index, unsigned long long *address, unsigned *pitch,
                            CUVIDPROCPARAMS *parameters)
{
    (void)decoder; (void)index; (void)parameters;
    *address = (unsigned long long)(size_t)surfaces;
    *pitch = 512;
    return CUDA_SUCCESS;
}
EXPORT cuvidUnmapVideoFrame64(CUvideodecoder decoder, unsigned long long address);
EXPORT cuvidUnmapVideoFrame64(CUvideodecoder decoder, unsigned long long address)
{
    (void)decoder;
    (void)address;
    return CUDA_SUCCESS;
}

typedef struct parser {
    CUVIDPARSERPARAMS parameters;
    int               begun;
} parser;

EXPORT cuvidCreateVideoParser(CUvideoparser *out, CUVIDPARSERPARAMS *parameters);
EXPORT cuvidCreateVideoParser(CUvideoparser *out, CUVIDPARSERPARAMS *parameters)
{
    parser *p = calloc(1, sizeof *p);
    if (!p)
        return 2;
    p->parameters = *parameters;
    *out = p;
    return CUDA_SUCCESS;
}
EXPORT cuvidParseVideoData(CUvideoparser handle, CUVIDSOURCEDATAPACKET *packet);
EXPORT cuvidParseVideoData(CUvideoparser handle, CUVIDSOURCEDATAPACKET *packet)
{
    parser *p = handle;
    CUVIDPICPARAMS picture;
    (void)packet;
    if (!p->begun++) {
        CUVIDEOFORMAT format;
        memset(&format, 0, sizeof format);
        format.codec = p->parameters.CodecType;
        format.chroma_format = cudaVideoChromaFormat_420;
        format.coded_width = format.coded_height = 512;
        p->parameters.pfnSequenceCallback(p->parameters.pUserData, &format);
    }
    memset(&picture, 0, sizeof picture);
    p->parameters.pfnDecodePicture(p->parameters.pUserData, &picture);
    return CUDA_SUCCESS;
}
EXPORT cuvidDestroyVideoParser(CUvideoparser handle);
EXPORT cuvidDestroyVideoParser(CUvideoparser handle) { free(handle); return CUDA_SUCCESS; }
