/* test_augment_device.c - test_augment.c, delivered on the device, on the fake driver. */
#ifdef BENZINA_NO_CUDA
#  include "test.h"
TEST(policies_on_the_fake_driver) { SKIP("built without nv-codec-headers or clang [clang libffmpeg-nvenc-dev]"); }
TEST_MAIN(RUN(policies_on_the_fake_driver))
#else
#  define TEST_NVDEC 2
#  include "test_augment.c"
#endif
