/* fake_ffmpeg.c - the fakes with what else ffmpeg's -hwaccel cuda needs, so that its calls can be compared with this
 * library's: see tests/peers/test_hwaccel.sh. Compiled twice, with FAKE_SOURCE "fake_cuda.c" and "fake_nvcuvid.c".
 *
 * nv-codec-headers' loader wants every function of its tables to be there, which grow from version to version: build.sh
 * looks into ffmpeg's libraries for their names. What ffmpeg never calls for decoding is refused. Its pictures come
 * without parameter sets, which are in CUVIDPICPARAMS then: libavcodec cannot decode those, so that surfaces hold
 * garbage, which ffmpeg does not notice. */
#include FAKE_SOURCE

#ifdef FAKE_IS_CUDA
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

#endif
