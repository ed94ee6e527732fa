/* fake_ffmpeg.c - the fakes with what else ffmpeg's -hwaccel cuda needs, so that its calls can be compared with this
 * library's: see tests/peers/test_hwaccel.sh. Compiled twice, with FAKE_SOURCE "fake_cuda.c" and "fake_nvcuvid.c".
 *
 * nv-codec-headers' loader wants every function of its tables to be there. What ffmpeg never calls for decoding is
 * refused. Its pictures come without parameter sets, which are in CUVIDPICPARAMS then: libavcodec cannot decode those,
 * so that surfaces hold garbage, which ffmpeg does not notice. */
#include FAKE_SOURCE

static CUresult refuse(void) { return (CUresult)FAKE_E_SUPPORT; }

#define REFUSED(name) CUresult name(void) __attribute__((alias("refuse")));

#ifdef FAKE_IS_CUDA
REFUSED(cuDeviceComputeCapability) REFUSED(cuCtxSetLimit) REFUSED(cuMemAllocPitch_v2) REFUSED(cuMemAllocManaged)
REFUSED(cuMemcpy) REFUSED(cuMemcpyAsync) REFUSED(cuMemcpy2D_v2) REFUSED(cuMemcpyHtoD_v2)
REFUSED(cuMemcpyDtoD_v2) REFUSED(cuMemcpyDtoDAsync_v2) REFUSED(cuDevicePrimaryCtxReset)
REFUSED(cuStreamQuery) REFUSED(cuStreamAddCallback) REFUSED(cuLinkCreate) REFUSED(cuLinkAddData)
REFUSED(cuLinkComplete) REFUSED(cuLinkDestroy) REFUSED(cuModuleGetGlobal) REFUSED(cuTexObjectCreate)
REFUSED(cuTexObjectDestroy) REFUSED(cuGLGetDevices_v2) REFUSED(cuGraphicsGLRegisterImage)
REFUSED(cuGraphicsUnregisterResource) REFUSED(cuGraphicsMapResources) REFUSED(cuGraphicsUnmapResources)
REFUSED(cuGraphicsSubResourceGetMappedArray) REFUSED(cuGraphicsResourceGetMappedPointer_v2) REFUSED(cuArray3DCreate_v2)
REFUSED(cuArrayDestroy)

tcuGetErrorString cuGetErrorString;

CUresult cuGetErrorString(CUresult error, const char **text)
{
    (void)error;
    *text = "an error of the fake driver";
    return CUDA_SUCCESS;
}

/* ffmpeg ends a decoder on another thread than made it. A GPU that has AV1, too. */
__attribute__((constructor)) static void loosen(void)
{
    control->any_thread = 1;
    control->caps[FAKE_AV1].chroma_mask = 1 << 1;
}

#else
REFUSED(cuvidCtxLockCreate) REFUSED(cuvidCtxLockDestroy) REFUSED(cuvidCtxLock) REFUSED(cuvidCtxUnlock)
REFUSED(cuvidCreateVideoSource) REFUSED(cuvidCreateVideoSourceW) REFUSED(cuvidDestroyVideoSource)
REFUSED(cuvidSetVideoSourceState) REFUSED(cuvidGetVideoSourceState) REFUSED(cuvidGetSourceVideoFormat)
REFUSED(cuvidGetSourceAudioFormat)
#endif
