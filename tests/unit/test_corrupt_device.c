/* test_corrupt_device.c - all of test_corrupt.c, decoded by NVDEC, delivered on the device, on the fake driver. */
#ifdef BENZINA_NO_CUDA
#  include "test.h"
TEST(damaged_pictures_on_the_fake_driver)
{
    SKIP("built without nv-codec-headers or clang [clang libffmpeg-nvenc-dev]");
}
TEST_MAIN(RUN(damaged_pictures_on_the_fake_driver))
#else
#  define TEST_NVDEC 2
#  include "test_corrupt.c"
#endif
