/* test_jpeg_device.c - the loaders of test_jpeg.c, delivered on the device, on the fake driver: what libjpeg-turbo has
 * decoded, whole, in part or shrunk, is uploaded. */
#ifdef BENZINA_NO_CUDA
#  include "test.h"
TEST(jpegs_on_the_fake_driver) { SKIP("built without nv-codec-headers or clang [clang libffmpeg-nvenc-dev]"); }
TEST_MAIN(RUN(jpegs_on_the_fake_driver))
#else
#  define TEST_NVDEC 2
#  include "test_jpeg.c"
#endif
