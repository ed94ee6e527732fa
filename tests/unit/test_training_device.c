/* test_training_device.c - all of test_training.c, decoded by NVDEC, delivered on the device, on the fake driver. */
#ifdef BENZINA_NO_CUDA
#  include "test.h"
TEST(loaders_on_the_fake_driver) { SKIP("built without nv-codec-headers or clang [clang libffmpeg-nvenc-dev]"); }
TEST_MAIN(RUN(loaders_on_the_fake_driver))
#else
#  define TEST_NVDEC 2
#  include "test_training.c"
#endif
