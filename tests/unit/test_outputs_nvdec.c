/* test_outputs_nvdec.c - all of test_outputs.c, decoded by NVDEC, delivered on the host, on the fake driver. */
#ifdef BENZINA_NO_CUDA
#  include "test.h"
TEST(outputs_on_the_fake_driver) { SKIP("built without nv-codec-headers or clang [clang libffmpeg-nvenc-dev]"); }
TEST_MAIN(RUN(outputs_on_the_fake_driver))
#else
#  define TEST_NVDEC 1
#  include "test_outputs.c"
#endif
