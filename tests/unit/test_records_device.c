/* test_records_device.c - test_records.c, delivered on the device, on the fake driver: raw pictures are uploaded. */
#ifdef BENZINA_NO_CUDA
#  include "test.h"
TEST(records_on_the_fake_driver) { SKIP("built without nv-codec-headers or clang [clang libffmpeg-nvenc-dev]"); }
TEST_MAIN(RUN(records_on_the_fake_driver))
#else
#  define TEST_NVDEC 2
#  include "test_records.c"
#endif
