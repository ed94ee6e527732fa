"""The library for Conan 2, built by the pair's CMakeLists.txt. libavcodec, libjpeg-turbo and NVIDIA's headers are those
that pkg-config finds on the machine; the options avcodec, jpeg and cuda demand one (ON) or leave it out (OFF)."""
from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain
from conan.tools.files import get


class Benzina(ConanFile):
    name = "benzina"
    version = "@VERSION@"
    license = "MIT"
    description = "Loads batches of pictures, decoded by NVDEC or by processors"
    settings = "os", "arch", "compiler", "build_type"
    options = {part: ["AUTO", "ON", "OFF"] for part in ("avcodec", "jpeg", "cuda")}
    options.update({"shared": [True, False], "fPIC": [True, False]})
    default_options = {"avcodec": "AUTO", "jpeg": "AUTO", "cuda": "AUTO", "shared": False, "fPIC": True}
    languages = "C"
    package_type = "library"
    implements = ["auto_shared_fpic"]

    def source(self):
        get(self, "@URL@/benzina-pair-@VERSION@.tar.gz", sha256="@SHA256@", strip_root=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("avcodec", "jpeg", "cuda"):
            toolchain.cache_variables["BENZINA_WITH_" + part.upper()] = str(self.options.get_safe(part))
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        # The package's own CMake files say what it needs of the machine.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/benzina"]
        self.cpp_info.libs = ["benzina"]
        self.cpp_info.system_libs = ["m", "pthread", "dl"]
