/* test_codec_nvdec.c - all of test_codec.c, with loaders that decode by NVDEC on the fake driver, for the host. */
#ifdef BENZINA_NO_CUDA
#  include "test.h"
TEST(codec_on_the_fake_driver) { SKIP("built without nv-codec-headers or clang [clang libffmpeg-nvenc-dev]"); }
TEST_MAIN(RUN(codec_on_the_fake_driver))
#else
#  define TEST_NVDEC 1
#  include "test_codec.c"
#endif
