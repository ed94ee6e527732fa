"""What `conan create` builds and runs with the package: decode_batch of the archive that BENZINA_DATA names."""
import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class Program(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeToolchain", "CMakeDeps"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if can_run(self):
            program = os.path.join(self.cpp.build.bindir, "decode_batch")
            data = os.environ.get("BENZINA_DATA")
            self.run(f"{program} {data} ." if data else f"! {program}", env="conanrun")
