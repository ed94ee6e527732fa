/* test_heif_nvdec.c - all of test_heif.c, with loaders that decode by NVDEC on the fake driver, for the host. */
#ifdef BENZINA_NO_CUDA
#  include "test.h"
TEST(heif_on_the_fake_driver) { SKIP("built without nv-codec-headers or clang [clang libffmpeg-nvenc-dev]"); }
TEST_MAIN(RUN(heif_on_the_fake_driver))
#else
#  define TEST_NVDEC 1
#  include "test_heif.c"
#endif
