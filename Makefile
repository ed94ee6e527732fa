# Benzina in C. `make deps demo` on a fresh Debian or Ubuntu runs the main job, `make deps test` the tests. Products
# go to build/. The installed packages decide which parts are built; `make` prints them.

# From another folder, as make -f ../Makefile, make goes to the sources.
SOURCES := $(dir $(lastword $(MAKEFILE_LIST)))
ifneq ($(SOURCES),./)
.PHONY: $(MAKECMDGOALS) at_the_sources
$(or $(MAKECMDGOALS),all): at_the_sources ; @:
at_the_sources:
	@$(MAKE) --no-print-directory -C "$(SOURCES)" $(MAKECMDGOALS)
else

# ---- Variables: what a user or a packager sets -----------------------------------------------------------------------

# make's own defaults are cc and g++; there may be only clang.
have      = $(if $(shell command -v $(1) 2>/dev/null),$(1))
ifeq ($(origin CC),default)
CC       := $(or $(call have,cc),$(call have,gcc),$(call have,clang),cc)
endif
ifeq ($(origin CXX),default)
CXX      := $(or $(call have,g++),$(call have,c++),$(call have,clang++),c++)
endif
BUILD    ?= build
PREFIX   ?= /usr/local
# where libraries are installed, as /usr/lib/x86_64-linux-gnu
LIBDIR   ?= $(PREFIX)/lib
# tests/BENCHMARKS.md, "Compiling the library", has the time and memory that gcc needs, and the rates with less.
OPT      ?= -O3
# -g1: enough for backtraces. Compiling with variables, too (-ggdb), takes 1.5 times as long.
CFLAGS   ?= $(OPT) -g1
SANITIZE ?=
# -Werror only in .ci/run: warnings of another compiler about correct code must not stop a build.
WERROR   ?=
WARN      = -Wall -Wextra -Wpedantic -Wconversion -Wshadow $(WERROR)
export WERROR
VERSION  := $(shell awk '/define BZNA_VERSION_(MAJOR|MINOR|PATCH)/ { v = v s $$3; s = "." } END { print v }' benzina.h)
SOVERSION = $(word 1,$(subst ., ,$(VERSION))).$(word 2,$(subst ., ,$(VERSION)))
comma    := ,
.DEFAULT_GOAL := all

# A compiler ignores a misspelt switch, so switches are compared with the list in benzina.h.
SWITCHES := $(shell sed -n 's/^ \*     \(BENZINA_[A-Z]*_*[A-Z]*\) .*/\1/p' benzina.h)
SWITCHES += $(shell sed -n 's/^ \*     \(BENZINA_FORMATS_NO_[A-Z0-9]*\)  .*/\1/p' examples/formats/formats.h)
UNKNOWN  := $(strip $(foreach d,$(filter -DBENZINA_%,$(CPPFLAGS) $(CFLAGS)),\
              $(filter-out $(SWITCHES) BENZINA_CHECK_LOCKS,$(firstword $(subst =, ,$(d:-D%=%))))))
ifneq ($(UNKNOWN),)
$(error $(UNKNOWN): no such switch; benzina.h has $(SWITCHES))
endif

# ---- What make can do ------------------------------------------------------------------------------------------------

.PHONY: help
help:
	@echo "make deps          installs the packages that are missing (Debian, Ubuntu); elsewhere it names them"
	@echo "make               the library, the formats, the tool bzna and the examples, in $(BUILD)/"
	@echo "make demo          draws pictures, packs them, loads a batch, and measures the rate"
	@echo "make test          the tests, about 4 minutes; TEST=\"sampler pack\" runs suites of these names"
	@echo "make test-all      the long tests, too;  make asan, make tsan: make test under sanitizers;  make fuzz"
	@echo "make bench         rates; also bench-peers, -codecs, -open, -pack, -speed, -augment: tests/BENCHMARKS.md"
	@echo "make gpu-run       checks and measures a GPU; make gpu-train: training with each loader"
	@echo "make dist          the pair, in $(BUILD)/dist/; WITHOUT=\"WRITER SHARDS\" leaves parts out; make dist-formats"
	@echo "make recipes       the pair for CMake's FetchContent, Meson, Conan and vcpkg, in $(BUILD)/dist/recipes/"
	@echo "make install       PREFIX=$(PREFIX), LIBDIR, DESTDIR;  make wheel, make sdist: the Python package"
	@echo "make clean         removes $(BUILD)/"
	@echo "Variables: CC, CFLAGS, CPPFLAGS, LDFLAGS, OPT, SANITIZE, PYTHON. make says what was found and what is missing."

# ---- Packages that are needed ----------------------------------------------------------------------------------------

DEPS      = gcc make pkg-config libjpeg-dev libavcodec-dev libavformat-dev libswscale-dev libavutil-dev ffmpeg \
              libffmpeg-nvenc-dev liblcms2-dev libtiff-dev libopenjp2-7-dev libjxl-dev zlib1g-dev libzstd-dev \
              clang
# Not nginx, which Debian starts as a service when it is installed: without it the HTTP example's test is skipped, and
# says so.
DEPS_TEST = g++ cmake libbz2-dev openmpi-bin libopenmpi-dev libcurl4-openssl-dev libturbojpeg0 python3-numpy \
              python3-pil python3-braceexpand libtiff-tools libopenjp2-tools libjxl-tools libjpeg-turbo-progs \
              cppcheck clang-tidy

.PHONY: deps
# Packages that only tests need are installed only if the command also names a test target.
deps:
	@sh tests/make/deps.sh $(DEPS) $(if $(filter test test-all asan tsan fuzz,$(MAKECMDGOALS)),$(DEPS_TEST))

# A second make makes the goals after deps when deps has finished, so that it sees the installed packages, also with -j.
AFTER_DEPS := $(if $(filter deps,$(MAKECMDGOALS)),$(filter-out deps,$(MAKECMDGOALS)))
ifneq ($(AFTER_DEPS),)
.PHONY: $(AFTER_DEPS) after-deps
$(AFTER_DEPS): after-deps ; @:
after-deps: deps
	@$(MAKE) --no-print-directory $(AFTER_DEPS)
else

# ---- Detection: the installed packages decide which parts are built --------------------------------------------------

HAVE_AVCODEC  := $(shell pkg-config --exists libavcodec libavutil 2>/dev/null && echo yes)
# libjpeg-turbo's jpeglib.h: others have no such version.
JPEG_PROBE     = \043include <stdio.h>\n\043include <jpeglib.h>\nint version[LIBJPEG_TURBO_VERSION_NUMBER > 0 ? 1 : -1];
HAVE_JPEG     := $(shell pkg-config --exists libjpeg 2>/dev/null && printf '$(JPEG_PROBE)\n' | \
                   $(CC) $$(pkg-config --cflags libjpeg) -x c -fsyntax-only - 2>/dev/null && echo yes)
HAVE_AVFORMAT := $(shell pkg-config --exists libavformat libswscale 2>/dev/null && echo yes)
HAVE_LCMS2    := $(shell pkg-config --exists lcms2 2>/dev/null && echo yes)
# since when each handle has its own messages and limits
HAVE_TIFF     := $(shell pkg-config --exists 'libtiff-4 >= 4.5' 2>/dev/null && echo yes)
HAVE_JPEG2000 := $(shell pkg-config --exists 'libopenjp2 >= 2.4' 2>/dev/null && echo yes)
HAVE_JXL      := $(shell pkg-config --exists 'libjxl >= 0.7' 2>/dev/null && echo yes)
HAVE_ZLIB     := $(shell pkg-config --exists zlib 2>/dev/null && echo yes)
HAVE_ZSTD     := $(shell pkg-config --exists libzstd 2>/dev/null && echo yes)

# sm_60 and PTX ISA 5.0: loads on Pascal and everything later, with every driver since CUDA 9. From 16 on, clang must
# be told so; before, it cannot be. From 20 on, it makes tables of jumps, which that ISA has not, unless told otherwise.
CLANG         ?= clang
CLANG_PTX      = $(CLANG) -x cuda --cuda-device-only --cuda-gpu-arch=sm_60 -nocudainc -nocudalib \
              -Wno-unknown-cuda-version -O3 -ffp-contract=off -fno-jump-tables -S
CLANG_ISA     := $(shell echo | $(CLANG_PTX) --cuda-feature=+ptx50 -o /dev/null - 2>/dev/null && \
              echo --cuda-feature=+ptx50)
HAVE_CUDA     := $(shell pkg-config --exists ffnvcodec 2>/dev/null && echo | $(CLANG_PTX) $(CLANG_ISA) \
              -o /dev/null - 2>/dev/null && echo yes)

# -std=c11 and -ffp-contract=off: no fused multiply-add, so that every machine computes the same bits.
BASE_CFLAGS = -fvisibility=hidden -I. $(WARN) $(CPPFLAGS) $(CFLAGS) -std=c11 -ffp-contract=off $(SANITIZE)

ifeq ($(HAVE_AVCODEC),yes)
AV_CFLAGS := $(shell pkg-config --cflags libavcodec libavutil)
AV_LIBS   := $(shell pkg-config --libs libavcodec libavutil)
REQUIRES   = libavcodec libavutil
else
AV_CFLAGS := -DBENZINA_NO_AVCODEC
endif
ifeq ($(HAVE_JPEG),yes)
AV_CFLAGS += $(shell pkg-config --cflags libjpeg)
AV_LIBS   += $(shell pkg-config --libs libjpeg)
REQUIRES  += libjpeg
else
AV_CFLAGS += -DBENZINA_NO_JPEG
endif
# The kernel goes into the library as PTX, made by clang without a CUDA toolkit.
ifeq ($(HAVE_CUDA),yes)
CUDA_CFLAGS = $(shell pkg-config --cflags ffnvcodec) -I$(BUILD)
PTX         = $(BUILD)/benzina_kernels.ptx.h
else
CUDA_CFLAGS = -DBENZINA_NO_CUDA
endif
TOOL_CFLAGS := $(shell pkg-config --cflags libavformat libavcodec libswscale libavutil 2>/dev/null)
TOOL_LIBS   := $(shell pkg-config --libs libavformat libavcodec libswscale libavutil 2>/dev/null)
# bzna pack --icc convert; without it the option is refused by name.
ifeq ($(HAVE_LCMS2),yes)
TOOL_CFLAGS += -DBZNA_LCMS2 $(shell pkg-config --cflags lcms2)
TOOL_LIBS   += $(shell pkg-config --libs lcms2)
endif
# bzna pack encodes JPEG by libjpeg-turbo, which the library has among its own.
ifeq ($(HAVE_JPEG),yes)
TOOL_CFLAGS += -DBZNA_JPEG $(shell pkg-config --cflags libjpeg)
endif
# The packages that each file of examples/formats needs, by pkg-config. Without one, its kind of pictures is refused,
# and the message names the package. In the order of the vendored CMakeLists.txt.
FORMATS_LIBRARIES = STILLS:libavcodec,libavutil TIFF:libtiff-4 JPEG2000:libopenjp2 JXL:libjxl
HAVE_STILLS      := $(HAVE_AVCODEC)
FORMATS_REQUIRES := $(foreach f,$(FORMATS_LIBRARIES),$(if $(HAVE_$(firstword $(subst :, ,$f))),$\
                      $(subst $(comma), ,$(lastword $(subst :, ,$f)))))
FORMATS_CFLAGS   := $(foreach f,$(FORMATS_LIBRARIES),$(if $(HAVE_$(firstword $(subst :, ,$f))),,$\
                      -DBENZINA_FORMATS_NO_$(firstword $(subst :, ,$f))))
ifneq ($(strip $(FORMATS_REQUIRES)),)
FORMATS_CFLAGS += $(shell pkg-config --cflags $(FORMATS_REQUIRES))
FORMATS_LIBS   += $(shell pkg-config --libs $(FORMATS_REQUIRES))
endif
# Streams unpack by these libraries. Without one, its shards are refused, and the message names the library.
ifeq ($(HAVE_ZLIB),yes)
STREAM_CFLAGS += $(shell pkg-config --cflags zlib)
STREAM_LIBS   += $(shell pkg-config --libs zlib)
STREAM_REQUIRES += zlib
else
STREAM_CFLAGS += -DBZNA_STREAM_NO_ZLIB
endif
ifeq ($(HAVE_ZSTD),yes)
STREAM_CFLAGS += $(shell pkg-config --cflags libzstd)
STREAM_LIBS   += $(shell pkg-config --libs libzstd)
STREAM_REQUIRES += libzstd
else
STREAM_CFLAGS += -DBZNA_STREAM_NO_ZSTD
endif
SYSTEM_LIBS  = -lm -lpthread -ldl
LIBS         = $(AV_LIBS) $(SYSTEM_LIBS)

# ---- Products that make builds, and the line that names them ---------------------------------------------------------

# A recipe that fails leaves no product behind.
.DELETE_ON_ERROR:

# The tool, the streams and the suites call functions that these switches leave out, so with a switch none is built.
FEWER    := $(filter $(foreach s,WRITER FOLDERS PROVIDERS AUGMENT,-DBENZINA_NO_$s -DBENZINA_NO_$s=%),\
              $(CPPFLAGS) $(CFLAGS))
LIBRARIES = benzina benzina_formats $(if $(FEWER),,benzina_stream)
LIB       = $(foreach l,$(LIBRARIES),$(BUILD)/lib$l.a $(BUILD)/lib$l.so)
PROGRAMS  = $(BUILD)/decode_batch $(BUILD)/draw_pictures $(if $(FEWER),,$(BUILD)/stream)
ifeq ($(HAVE_AVFORMAT)$(HAVE_AVCODEC)$(FEWER),yesyes)
PROGRAMS += $(BUILD)/bzna
endif

.PHONY: all what
all: what $(LIB) $(PROGRAMS)

WHAT_VIDEO = $(if $(HAVE_AVCODEC),libavcodec,none of video (libavcodec-dev is missing))
WHAT_JPEG  = $(if $(HAVE_JPEG),libjpeg-turbo,none (libjpeg-dev is missing))
WHAT_ICC   = $(if $(HAVE_LCMS2),, without --icc convert (liblcms2-dev is missing))
# kinds, what decodes them, its package
FORMAT       = $(comma) $(if $(HAVE_$2),$1,no $1 ($3-dev is missing))
WHAT_FORMATS = HEIF$(call FORMAT,GIF/BMP/PNM,STILLS,libavcodec)$(call FORMAT,TIFF,TIFF,libtiff)$(call FORMAT,$\
                JPEG 2000,JPEG2000,libopenjp2-7)$(call FORMAT,JPEG XL,JXL,libjxl)
WHAT_TOOL  = $(if $(findstring bzna,$(PROGRAMS)),build/bzna$(WHAT_ICC),$(if $(FEWER),none (it needs what $(FEWER) $\
                leaves out),none (libavformat-dev or libswscale-dev is missing)))
WHAT_GPU   = $(if $(HAVE_CUDA),NVDEC and CUDA where the driver is found at run time,$\
                none (clang or libffmpeg-nvenc-dev is missing))
WHAT_STREAM = $(if $(FEWER),nothing: they are not built,$(WHAT_UNPACKS))
WHAT_UNPACKS = $(if $(HAVE_ZLIB)$(HAVE_ZSTD),$(if $(HAVE_ZLIB),gzip$(if $(HAVE_ZSTD), and zstd, without zstd \
                (libzstd-dev is missing)),zstd$(comma) without gzip (zlib1g-dev is missing)),neither gzip nor zstd \
                (zlib1g-dev and libzstd-dev are missing))
what:
	@$(if $(call have,pkg-config),,echo "pkg-config is missing: without it, no library is found (make deps)";exit;) \
	    echo "benzina $(VERSION): software decoders: $(WHAT_VIDEO); JPEG: $(WHAT_JPEG);" \
	    "tool: $(WHAT_TOOL); formats: $(WHAT_FORMATS); streams unpack: $(WHAT_STREAM); GPU path: $(WHAT_GPU)"

# ---- Library ---------------------------------------------------------------------------------------------------------

$(BUILD):
	@mkdir -p $@

$(BUILD)/benzina_kernels.ptx: benzina_kernels.cu benzina.h | $(BUILD)
	$(CLANG_PTX) $(CLANG_ISA) -o $@ benzina_kernels.cu

$(BUILD)/benzina_kernels.ptx.h: $(BUILD)/benzina_kernels.ptx tests/make/ptx_header.awk
	LC_ALL=C awk -f tests/make/ptx_header.awk $< > $@

# gcc frees memory seldom on machines that have much. Told to do it oftener, it needs half as much, and as long.
GCC_MEMORY := $(if $(findstring Free Software,$(shell $(CC) --version 2>/dev/null)),\
                   --param ggc-min-expand=20 --param ggc-min-heapsize=32768)

$(BUILD)/benzina.o: benzina.c benzina.h benzina_kernels.cu $(PTX) | $(BUILD)
	$(CC) $(BASE_CFLAGS) $(GCC_MEMORY) -fPIC $(AV_CFLAGS) $(CUDA_CFLAGS) -c -o $@ benzina.c

$(BUILD)/libbenzina.a: $(BUILD)/benzina.o
	rm -f $@ && $(AR) rcs $@ $<

# Symbols have a version if the linker supports versions, so that programs of two versions of the library find their
# own.
VERSIONED := $(if $(filter Linux FreeBSD,$(shell uname -s)),-Wl$(comma)--version-script=$(BUILD)/benzina.map)
$(BUILD)/libbenzina.so: $(BUILD)/benzina.o
	@printf 'BENZINA_$(SOVERSION) { global: bzna_*; local: *; };\n' > $(BUILD)/benzina.map
	$(CC) $(CFLAGS) $(SANITIZE) $(LDFLAGS) -shared -Wl,-soname,libbenzina.so.$(SOVERSION) $(VERSIONED) \
	    -o $@.$(VERSION) $< $(LIBS)
	ln -sf libbenzina.so.$(VERSION) $@.$(SOVERSION) && ln -sf libbenzina.so.$(SOVERSION) $@

# ---- Programs: the tool, the other examples, and libraries that the bindings load ------------------------------------

# Formats that the library does not know: the tool and the bindings register their codecs.
# Data sets of other kinds are providers: without these, the codecs alone are built.
CODECS    = formats heif stills tiff jpeg2000 jxl
FORMATS   = $(if $(filter -DBENZINA_NO_PROVIDERS%,$(FEWER)),$(CODECS:%=examples/formats/%.c),$\
              $(wildcard examples/formats/*.c))
FORMATS_H = examples/formats/formats.h examples/formats/data.h
FORMATS_O = $(FORMATS:examples/formats/%.c=$(BUILD)/formats/%.o)
$(FORMATS_O): $(BUILD)/formats/%.o: examples/formats/%.c $(FORMATS_H) benzina.h
	@mkdir -p $(@D)
	$(CC) $(BASE_CFLAGS) -fPIC $(FORMATS_CFLAGS) -c -o $@ $<

$(BUILD)/libbenzina_formats.a: $(FORMATS_O)
	rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/libbenzina_formats.so: $(FORMATS_O) $(BUILD)/libbenzina.so
	@printf 'BENZINA_FORMATS_$(SOVERSION) { global: bzna_formats_*; local: *; };\n' > $(BUILD)/formats.map
	$(CC) $(CFLAGS) $(SANITIZE) $(LDFLAGS) -shared -Wl,-soname,libbenzina_formats.so.$(SOVERSION) \
	    $(subst benzina.map,formats.map,$(VERSIONED)) -Wl,-rpath,'$$ORIGIN' -o $@.$(VERSION) $(FORMATS_O) -L$(BUILD) \
	    -lbenzina $(FORMATS_LIBS)
	ln -sf libbenzina_formats.so.$(VERSION) $@.$(SOVERSION) && ln -sf libbenzina_formats.so.$(SOVERSION) $@

# Libraries that the tool and the program of streams link.
WITH_FORMATS = $(BUILD)/libbenzina_formats.a $(BUILD)/libbenzina.a

TOOL     = $(wildcard examples/bzna/*.c)
# Shards that cannot seek.
STREAM   = examples/stream/stream.c examples/stream/stream_source.c
STREAM_H = examples/stream/stream.h examples/stream/stream_source.h
$(BUILD)/bzna: $(TOOL) $(wildcard examples/bzna/*.h) $(FORMATS_H) $(STREAM) $(STREAM_H) benzina.h $(WITH_FORMATS)
	$(CC) $(BASE_CFLAGS) -Iexamples/formats $(TOOL_CFLAGS) $(STREAM_CFLAGS) $(LDFLAGS) -o $@ $(TOOL) $(STREAM) \
	    $(WITH_FORMATS) $(TOOL_LIBS) $(STREAM_LIBS) $(FORMATS_LIBS) $(LIBS)

$(BUILD)/decode_batch: examples/decode_batch.c examples/example.h benzina.h $(BUILD)/libbenzina.a
	$(CC) $(BASE_CFLAGS) $(LDFLAGS) -o $@ examples/decode_batch.c $(BUILD)/libbenzina.a $(LIBS)

$(BUILD)/stream: examples/stream/stream_main.c examples/example.h $(FORMATS_H) $(STREAM) $(STREAM_H) benzina.h \
              $(WITH_FORMATS)
	$(CC) $(BASE_CFLAGS) -Iexamples/formats $(STREAM_CFLAGS) $(LDFLAGS) -o $@ examples/stream/stream_main.c $(STREAM) \
	    $(WITH_FORMATS) $(STREAM_LIBS) $(FORMATS_LIBS) $(LIBS)

STREAM_O = $(STREAM:examples/stream/%.c=$(BUILD)/%.o)
$(STREAM_O): $(BUILD)/%.o: examples/stream/%.c $(STREAM_H) $(FORMATS_H) benzina.h | $(BUILD)
	$(CC) $(BASE_CFLAGS) -Iexamples/formats -fPIC $(STREAM_CFLAGS) -c -o $@ $<

$(BUILD)/libbenzina_stream.a: $(STREAM_O)
	rm -f $@ && $(AR) rcs $@ $^

# Libraries that the bindings load, besides libbenzina.so.
$(BUILD)/libbenzina_stream.so: $(STREAM_O) $(BUILD)/libbenzina_formats.so
	@printf 'BENZINA_STREAM_$(SOVERSION) { global: bzna_stream_*; local: *; };\n' > $(BUILD)/stream.map
	$(CC) $(CFLAGS) $(SANITIZE) $(LDFLAGS) -shared -Wl,-soname,libbenzina_stream.so.$(SOVERSION) \
	    $(subst benzina.map,stream.map,$(VERSIONED)) -Wl,-rpath,'$$ORIGIN' -o $@.$(VERSION) $(STREAM_O) -L$(BUILD) \
	    -lbenzina_formats -lbenzina $(STREAM_LIBS) -lpthread
	ln -sf libbenzina_stream.so.$(VERSION) $@.$(SOVERSION) && ln -sf libbenzina_stream.so.$(SOVERSION) $@

$(BUILD)/draw_pictures: examples/draw_pictures.c | $(BUILD)
	$(CC) $(BASE_CFLAGS) $(LDFLAGS) -o $@ examples/draw_pictures.c -lm

# ---- The main job ----------------------------------------------------------------------------------------------------

.PHONY: demo
# Processors decode JPEG several times as fast as H.265, which is for GPUs.
demo: all
	@rm -rf $(BUILD)/demo && mkdir -p $(BUILD)/demo
	$(BUILD)/draw_pictures $(BUILD)/demo/pictures 24
	@case "$$($(BUILD)/bzna devices)" in "no CUDA device"*) codec=jpeg ;; *) codec=h265 ;; esac; set -x; \
	    $(BUILD)/bzna pack $(BUILD)/demo/pictures -o $(BUILD)/demo/demo.bzna --codec $$codec
	$(BUILD)/bzna batch $(BUILD)/demo/demo.bzna -o $(BUILD)/demo --batch 16 --size 224 --seed 1 --shuffle \
	    --warp random --flip 0.5
	$(BUILD)/bzna bench $(BUILD)/demo/demo.bzna --seconds 2
	@echo "The batch: $(BUILD)/demo/*.ppm, all of it on one sheet: $(BUILD)/demo/contact.png"

# ---- Tests: the suites of make test ----------------------------------------------------------------------------------

.PHONY: test test-all test-julia test-distros test-ports
# TEST=sampler, TEST="sampler pack": suites whose names contain one of these words. test-all: long suites, too.
test test-all: what
	@$(if $(FEWER),$(error the suites need what $(FEWER) leaves out))
	@BUILD="$(BUILD)" CC="$(CC)" CXX="$(CXX)" SANITIZE="$(SANITIZE)" TEST="$(TEST)" PRODUCTS=all \
	    TEST_ALL="$(if $(filter test-all,$@),1,$(TEST_ALL))" sh tests/run.sh

# The tests of examples/julia with the Julia of Debian 11 (1.5.3), gcc 10 and libavcodec 58, in a root of about 1 GB
# that debootstrap makes once in build/julia.
test-julia:
	@nice sh tests/make/julia.sh build/julia

# README's two commands on Debian 12, 13 and unstable, in roots of some 3 GB each that debootstrap makes once. They are
# not in build/, so that make clean leaves them. ROOT="trixie sid": only these. ROOT=arm64: Debian 13 on ARM, by QEMU.
ROOTS ?= /var/tmp/benzina-roots
test-distros:
	@TEST="$(TEST)" nice sh tests/make/distros.sh "$(ROOTS)" $(ROOT)

# Other systems and processors than Linux with glibc on this one, by the compilers and emulators that are installed. For
# others it prints SKIP.
test-ports: $(BUILD)/bzna $(BUILD)/draw_pictures $(BUILD)/decode_batch $(BUILD)/tests/test_soak
	@status=0; \
	nice sh tests/windows/ports_windows.sh $(BUILD)/bzna $(BUILD) || status=1; \
	nice sh tests/make/test_variants.sh $(BUILD)/bzna $(BUILD) musl windows_arm64 macos_arm64 macos_x86_64 freebsd \
	    aarch64 aarch64_16k aarch64_64k arm s390x || status=1; \
	nice sh tests/make/ports_compilers.sh $(BUILD) || status=1; \
	exit $$status

# ---- Tests: under sanitizers -----------------------------------------------------------------------------------------

.PHONY: asan asan-clang tsan
# The same suite under sanitizers. clang's find faults that gcc's do not, such as sums with null pointers. If clang is
# installed, suites that calculate with pointers and sizes run under its sanitizers, too.
ASAN         = -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
CLANG_SUITES = basics cursor host kernels transforms boxes dataset changes decode writer loader
asan:
	@$(MAKE) --no-print-directory BUILD=build/asan OPT=-O1 SANITIZE="$(ASAN)" test-all
	@$(MAKE) --no-print-directory asan-clang
asan-clang:
	@if command -v $(CLANG) >/dev/null; then $(MAKE) --no-print-directory -s -j2 BUILD=build/asan-clang \
	    CC="$(CLANG)" OPT=-O1 SANITIZE="$(ASAN)" WERROR= $(CLANG_SUITES:%=build/asan-clang/tests/test_%) && \
	    failed=0 && \
	for t in $(CLANG_SUITES); do LSAN_OPTIONS="suppressions=$$PWD/tests/make/lsan.supp:print_suppressions=0" \
	    build/asan-clang/tests/test_$$t || failed=1; done; exit $$failed; \
	else echo "SKIP clang's sanitizers: no $(CLANG) (Debian's package clang)"; fi
tsan:
	@$(MAKE) --no-print-directory BUILD=build/tsan OPT=-O1 SANITIZE="-fsanitize=thread" test-all

# ---- Tests: how a suite in C is built --------------------------------------------------------------------------------

# Suites need less time to run than to optimize, except two that calculate much. The library at -Og is as fast as at
# -O1, and compiles in two thirds of the time.
TEST_OPT    = $(if $(filter %/test_ptx %/test_explorer,$@),-O2,$(if $(filter %/library.o,$@),-Og,-O0))
# The library's waits are shorter there, because the fake driver is slow; by QEMU, what they wait for takes longer.
TEST_WAITS  = $(if $(findstring TEST_EMULATED,$(CPPFLAGS)),-DBZI_NVDEC_DEADLINE_NS=12000000000u \
                  -DBZI_LOOK_NS=200000000u,-DBZI_NVDEC_DEADLINE_NS=3000000000u -DBZI_LOOK_NS=50000000u)
TEST_CFLAGS = $(patsubst $(OPT),$(TEST_OPT),$(BASE_CFLAGS)) -DBENZINA_CHECK_LOCKS $(TEST_WAITS)

# NVIDIA's driver as tests need it: decodes with libavcodec, runs the kernel's C side, and watches its callers.
FAKES = $(BUILD)/tests/fake/libnvcuvid.so.1
$(FAKES): tests/fake/build.sh tests/fake/fake.h tests/fake/fake_cuda.c tests/fake/fake_nvcuvid.c tests/unit/passes.h \
              benzina_kernels.cu
	sh tests/fake/build.sh $(BUILD)/tests/fake $(CC) $(SANITIZE)

# The library that suites link, without static functions. tests/unit/library.h says who includes its header.
LIBRARY  = $(BUILD)/tests/library
$(LIBRARY)/library.h $(LIBRARY)/library.c: $(LIBRARY)/library.%: tests/make/library.awk benzina.c benzina_kernels.cu
	@mkdir -p $(@D)
	LC_ALL=C awk -v want=$* -f tests/make/library.awk benzina.c > $@
$(LIBRARY)/library.o: $(LIBRARY)/library.c benzina.h $(PTX)
	$(CC) $(TEST_CFLAGS) $(AV_CFLAGS) $(CUDA_CFLAGS) -c -o $@ $<
# The header as all suites include it but test_ptx, which is optimized, compiled once. Compilers read it as text again
# for a suite whose switches differ, and -Winvalid-pch warns of that.
SUITE_H = $(LIBRARY)/suite.h
$(SUITE_H).gch: $(LIBRARY)/library.h benzina.h $(PTX)
	printf '\043include "library.h"\n' > $(SUITE_H)
	$(CC) $(TEST_CFLAGS) -DTEST_LINKED $(AV_CFLAGS) $(CUDA_CFLAGS) -x c-header -c -o $@ $(SUITE_H)
# Some suites replace functions of the system: the library's calls of these functions, also under the names for file
# offsets of 64 bits, call functions of the suite, such as test_pread. The suite's own calls do not.
CALLS_driver     = dlopen dlsym pthread_create pthread_mutex_init pthread_cond_init
# that suite skips itself under a sanitizer, and elsewhere than on x86-64 with glibc
ifneq ($(if $(SANITIZE),,$(filter x86_64%gnu,$(shell $(CC) -dumpmachine))),)
CALLS_explorer   = pthread_create pthread_join pthread_mutex_lock pthread_mutex_trylock pthread_mutex_unlock \
                   pthread_cond_wait pthread_cond_timedwait pthread_cond_signal pthread_cond_broadcast clock_gettime \
                   av_frame_free av_packet_free jpeg_destroy_decompress jpeg_destroy_compress
endif
CALLS_faults     = pread pwrite open fstat opendir fdatasync pthread_create
CALLS_held       = open pread
CALLS_no_threads = pthread_create
CALLS_sessions   = pthread_create
CALLS_slices     = avcodec_send_packet
CALLS_threads    = pthread_cond_wait
CALLS_writer     = fdatasync
BETWEEN  = $(patsubst CALLS_%,%,$(filter CALLS_%,$(.VARIABLES)))
$(BETWEEN:%=$(LIBRARY)/test_%.o): $(LIBRARY)/test_%.o: $(LIBRARY)/library.o
	nm -u $< | awk -v calls=" $(CALLS_$*) " '{ call = $$2; sub(/64$$/, "", call) } \
	    index(calls, " " call " ") { print $$2, "test_" call }' > $@.calls
	objcopy --redefine-syms=$@.calls $< $@
$(BETWEEN:%=$(BUILD)/tests/test_%): $(BUILD)/tests/test_%: $(LIBRARY)/test_%.o

# The formats' own calls of test_faults, which come before those of their library.
$(LIBRARY)/test_faults.data.o: $(BUILD)/formats/data.o
	nm -u $< | awk -v calls=" $(CALLS_faults) " '{ call = $$2; sub(/64$$/, "", call) } \
	    index(calls, " " call " ") { print $$2, "test_" call }' > $@.calls
	objcopy --redefine-syms=$@.calls $< $@
$(BUILD)/tests/test_faults: $(LIBRARY)/test_faults.data.o

# One test binary. Suites ON_FAKE find the fake driver in their folder.
ON_FAKE     = %_nvdec %_device %_devices %_driver %_sessions %_soak %_races %_threads %_limits %_nvparser
TEST_RPATH  = $(if $(filter $(ON_FAKE),$@),-Wl$(comma)--disable-new-dtags$(comma)-rpath$(comma)'$$ORIGIN/fake')
TEST_HEADER = $(if $(filter %_ptx %_explorer,$@),,-Winvalid-pch -include $(SUITE_H))
# Linkers spend most of their time on the libraries that libavcodec needs, so they do not look for those.
TEST_LDFLAGS = $(if $(VERSIONED),-Wl$(comma)--allow-shlib-undefined)
TEST_OBJECT = $(if $(filter $(BETWEEN:%=test_%),$*),$(LIBRARY)/$*.o,$(LIBRARY)/library.o)
TEST_STREAM = $(if $(filter %_stream,$@),-Iexamples/formats $(STREAM_CFLAGS) $(STREAM) $(STREAM_LIBS))
# Suites whose contexts have the formats' codecs (tests/unit/with_formats.h), or that open by them.
FORMATS_SUITES = augment changes codec contract decode faults fields files folder formats_codecs given heif joint \
              limits lists numbers outputs paths pictures platforms provider provider_files qoi races recordio records \
              refusals rules runs soak stack statistics stream tar threads truth weighted
TEST_FORMATS = $(if $(filter $(FORMATS_SUITES:%=test_%) $(FORMATS_SUITES:%=test_%_%),$*),$(filter %.data.o,$^) \
              $(BUILD)/libbenzina_formats.a $(FORMATS_LIBS))
TEST_FAKES  = $(if $(filter yesyes,$(HAVE_CUDA)$(HAVE_AVCODEC)),$(FAKES))
$(BUILD)/tests/%: tests/unit/%.c $(wildcard tests/unit/*.h tests/windows/*.h) benzina.c benzina.h benzina_kernels.cu \
              $(PTX) $(SUITE_H).gch $(LIBRARY)/library.o $(BUILD)/libbenzina_formats.a $(TEST_FAKES)
	@mkdir -p $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) $(TEST_HEADER) -DTEST_BUILD='"$(BUILD)"' -DTEST_LINKED -I$(BUILD)/tests $(AV_CFLAGS) \
	    $(CUDA_CFLAGS) $(LDFLAGS) $(TEST_LDFLAGS) $(TEST_RPATH) -o $@ $< $(TEST_STREAM) $(TEST_FORMATS) \
	    $(TEST_OBJECT) $(LIBS)
$(BUILD)/tests/test_stream: $(STREAM) $(STREAM_H)

$(BUILD)/tests/test_driver $(BUILD)/tests/test_sessions $(BUILD)/tests/test_devices: tests/fake/watch.h
$(BUILD)/tests/test_limits: tests/fuzz/fuzz.h tests/fuzz/program.h

# Suites of loaders run again, on the fake driver.
$(BUILD)/tests/test_loader_nvdec $(BUILD)/tests/test_loader_device: tests/unit/test_loader.c tests/fake/nvdec.h
$(BUILD)/tests/test_training_nvdec $(BUILD)/tests/test_training_device: tests/unit/test_training.c tests/fake/nvdec.h
$(BUILD)/tests/test_records_device: tests/unit/test_records.c tests/fake/nvdec.h
$(BUILD)/tests/test_corrupt_nvdec $(BUILD)/tests/test_corrupt_device: tests/unit/test_corrupt.c tests/fake/nvdec.h
$(BUILD)/tests/test_augment_device: tests/unit/test_augment.c tests/fake/nvdec.h
$(BUILD)/tests/test_jpeg_device: tests/unit/test_jpeg.c tests/fake/nvdec.h
$(BUILD)/tests/test_outputs_nvdec $(BUILD)/tests/test_outputs_device: tests/unit/test_outputs.c tests/fake/nvdec.h
$(BUILD)/tests/test_heif_nvdec: tests/unit/test_heif.c tests/fake/nvdec.h
$(BUILD)/tests/test_heif $(BUILD)/tests/test_heif_nvdec: examples/formats/heif.c $(FORMATS_H)
$(BUILD)/tests/test_lists: examples/formats/lists.c $(FORMATS_H)
$(BUILD)/tests/test_weighted: examples/formats/weighted.c $(FORMATS_H)
$(BUILD)/tests/test_codec_nvdec: tests/unit/test_codec.c tests/fake/nvdec.h

# ---- Checks that are no suites ---------------------------------------------------------------------------------------

.PHONY: fuzz fuzz-long fuzz-pack analyze soak nvparser nvparser-packets bindings size
# The targets of tests/fuzz, run by libFuzzer under clang's ASan and UBSan, two at once: SECONDS each, from the inputs
# that earlier runs left in build/fuzz/corpus. fuzz-long: at least 10 minutes each, until 5 minutes bring no new edge,
# at most 30; it prints a table of the runs. TARGETS="heif codecs": only these. fuzz-pack: the smallest inputs
# that reach what the corpora reach, for tests/data/fuzz.
SECONDS   ?= 60
FUZZ_FLAGS = -std=c11 -O2 -gline-tables-only -fno-omit-frame-pointer -fsanitize=address,undefined \
              -fno-sanitize-recover=all -DBENZINA_CHECK_LOCKS -I.
fuzz fuzz-long fuzz-pack: $(PTX) $(BUILD)/libbenzina.a | $(BUILD)
	@BUILD="$(BUILD)" CLANG="$(CLANG)" FLAGS="$(FUZZ_FLAGS) $(AV_CFLAGS)" CUDA_FLAGS="$(CUDA_CFLAGS)" LIBS="$(LIBS)" \
	    TOOL_SOURCES="$(filter-out %/main.c %/pack_journal.c,$(TOOL)) $(STREAM) $(FORMATS)" \
	    TOOL_FLAGS="$(TOOL_CFLAGS) $(STREAM_CFLAGS) -Iexamples/formats $(FORMATS_CFLAGS)" \
	    TOOL_LIBS="$(TOOL_LIBS) $(STREAM_LIBS) $(FORMATS_LIBS)" FORMATS_FLAGS="$(FORMATS_CFLAGS)" \
	    FORMATS_LIBS="$(FORMATS_LIBS)" TARGETS="$(TARGETS)" nice sh tests/fuzz/fuzz.sh \
	    $(if $(filter fuzz,$@),run $(SECONDS),$(@:fuzz-%=%))

# gcc -fanalyzer, clang-tidy and cppcheck over the library, the tool and the formats: four minutes on two cores.
# tests/make/analysis.txt lists reports that are no faults, each with its reason. ANALYZE=--quick: cppcheck without the
# library.
analyze: $(PTX)
	@python3 tests/make/analyze.py $(ANALYZE) -std=c11 -I. $(AV_CFLAGS) $(CUDA_CFLAGS) $(TOOL_CFLAGS) $(STREAM_CFLAGS) \
	    -Iexamples/formats $(FORMATS_CFLAGS)

# An hour of loaders with random settings; memory, descriptors and threads must stay flat, and equal seeds make equal
# batches. SEED: the seed of a run to repeat.
soak: SECONDS = 3600
soak: $(BUILD)/tests/test_soak
	@CUDA_VISIBLE_DEVICES= TEST_ALL=1 nice $(BUILD)/tests/test_soak --soak $(SECONDS) $(SEED)

# The answers of NVIDIA's parser with which test_nvparser compares the library and the fake, made again. SRC: a checkout
# of nvpro-samples/vk_video_samples; VULKAN: the folder "include" of one of KhronosGroup/Vulkan-Headers.
# nvparser-packets makes the pictures again: with other versions of encoders, they differ.
nvparser: $(BUILD)/tests/test_nvparser
	@sh tests/nvparser/build.sh "$(SRC)" "$(VULKAN)" $(BUILD)/nvparser
	rm -f $(BUILD)/nvparser/record
	FAKE_RECORD=$(BUILD)/nvparser/record $(BUILD)/tests/test_nvparser the_fakes_parser_takes_every_packet
	$(BUILD)/nvparser/replay $(BUILD)/nvparser/record > $(BUILD)/nvparser/answers.txt && \
	    cp $(BUILD)/nvparser/answers.txt tests/data/nvparser/answers.txt
nvparser-packets:
	python3 tests/nvparser/make.py tests/data/nvparser/packets.bin

# The declarations of the bindings, from the header: examples/rust/src/raw.rs, examples/julia/src/header.jl,
# examples/python/benzina/_header.py and _numbers.py; and from the table of settings in benzina.c, the keywords:
# examples/rust/src/settings.rs, examples/julia/src/settings.jl, examples/python/benzina/_keywords.py.
bindings:
	@$(PYTHON) tests/make/bindings.py benzina.h examples

# For tests, which compile the formats by themselves.
.PHONY: print-FORMATS_CFLAGS print-FORMATS_LIBS
print-FORMATS_CFLAGS print-FORMATS_LIBS:
	@echo "$($(@:print-%=%))"

# Tokens of each room, and together. Comments and blanks do not count. The longest functions and rooms, and the pair's
# figures. Then the tokens of the formats.
size: $(PTX)
	@sh tests/make/size.sh $(BUILD)
	@awk -f tests/make/size.awk $(FORMATS_H) $(FORMATS)

# ---- Benchmarks: tests/BENCHMARKS.md has their figures ---------------------------------------------------------------

.PHONY: bench bench-augment bench-codecs bench-model bench-open bench-pack bench-peers bench-scaling bench-speed
# Opening a large archive, and the loader against its decoder alone. PHOTOS=DIR packs and times pictures of yours
# instead of drawn ones.
PHOTOS ?= $(BUILD)/bench/pictures
bench: all $(BUILD)/bench/open $(BUILD)/bench/writer $(if $(HAVE_CUDA),$(BUILD)/bench/sessions \
              $(BUILD)/bench/libcuda.so.1 $(BUILD)/bench/libnvcuvid.so.1)
	@sh tests/make/bench.sh $(BUILD) $(PHOTOS)
# The best numbers of sessions and surfaces for a driver with the costs in tests/bench/bench_sessions.c: a table, in
# five minutes.
bench-model: $(if $(HAVE_CUDA),$(BUILD)/bench/sessions $(BUILD)/bench/libcuda.so.1 $(BUILD)/bench/libnvcuvid.so.1)
	@LD_LIBRARY_PATH=$(BUILD)/bench BENZINA_NVDEC_CHECK=0 $(BUILD)/bench/sessions --model tests/data/mini_h265.bzna 1
# This library compared with torchvision, DALI, FFCV, WebDataset and MXNet, as far as PYTHON has them, on one SET of
# pictures or on all; the cost of each codec of bzna pack; opening data sets; and bzna pack compared with ffmpeg and
# tar. PICTURES=DIR: class folders of JPEG files instead of pictures that are made. Their settings are described at the
# top of the scripts.
PYTHON ?= python3
bench-peers: $(if $(filter yes,$(HAVE_JPEG)),$(BUILD)/bench/jpeg)
bench-open: $(BUILD)/bench/open $(BUILD)/bench/files
bench-peers bench-codecs bench-open bench-pack: all
	@BUILD="$(BUILD)" SET="$(SET)" PICTURES="$(PICTURES)" PYTHONS="$(PYTHONS)" PEERS="$(PEERS)" THREADS="$(THREADS)" \
	    DURATION="$(DURATION)" ROUNDS="$(ROUNDS)" SCALE="$(SCALE)" ONLY="$(ONLY)" CHART="$(CHART)" \
	    $(PYTHON) tests/bench/$(subst -,_,$@).py
# The cost of RandAugment and erasing compared with the crop that they follow, by processor time, and that recipe
# compared with those of torchvision and DALI, as far as PYTHON has them. PICTURES=DIR: class folders of JPEG files.
# SHORT=1: fewer rounds.
bench-augment: all $(BUILD)/bench/augment
	@$(BUILD)/bench/augment "$(PICTURES)" $(if $(SHORT),5 1,15 1 each)
	@BUILD="$(BUILD)" SET=recipe PICTURES="$(PICTURES)" PYTHONS="$(PYTHONS)" PEERS=benzina,torchvision,dali \
	    THREADS="$(THREADS)" DURATION=$(if $(SHORT),1,3) ROUNDS=$(if $(SHORT),1,5) $(PYTHON) tests/bench/bench_peers.py
# Copies the last results of the benchmarks to the raw results of tests/BENCHMARKS.md. OUT: the folder with the reports
# of gpu-bundle's run.sh, if that ran on another machine.
.PHONY: results
results: OUT ?= $(BUILD)/gpu
results:
	@mkdir -p tests/bench/results
	@for file in $(wildcard $(addprefix $(BUILD)/,peers/peers.json codecs/codecs.json open/open.json pack/pack.json \
	    bench/quality.json bench/accuracy/accuracy.json) $(OUT)/train.json); do cp -v $$file tests/bench/results/; done
	@[ ! -e $(OUT)/report.json ] || cp -v $(OUT)/report.json tests/bench/results/gpu.json
# The loader compared with decoding alone, from 64x64 to 12 megapixels; jpeg_shrink with margins; context switches with
# small pictures. Settings are described at the top of tests/bench/bench_speed.py.
bench-speed: all $(BUILD)/bench/small
	@BUILD="$(BUILD)" PICTURES="$(PICTURES)" DURATION="$(DURATION)" ROUNDS="$(ROUNDS)" ONLY="$(ONLY)" $(PYTHON) \
	    tests/bench/bench_speed.py
$(BUILD)/bench/small: tests/bench/bench_small.c tests/bench/library.h examples/formats/formats.h benzina.h
	@mkdir -p $(@D)
	$(CC) -O2 -std=c11 -I. -Iexamples/formats -o $@ tests/bench/bench_small.c -ldl
# whether two libraries deliver the same batches
$(BUILD)/bench/digests: tests/bench/bench_digests.c tests/bench/library.h examples/formats/formats.h benzina.h
	@mkdir -p $(@D)
	$(CC) -O2 -std=c11 -I. -Iexamples/formats -o $@ tests/bench/bench_digests.c -ldl
$(BUILD)/bench/jpeg_rows: tests/bench/bench_jpeg_rows.c benzina.c benzina.h benzina_kernels.cu
	@mkdir -p $(@D)
	$(CC) $(BASE_CFLAGS) -DBENZINA_NO_CUDA $(AV_CFLAGS) -o $@ $< $(LIBS)
$(BUILD)/bench/jpeg: tests/bench/bench_jpeg.c
	@mkdir -p $(BUILD)/bench
	$(CC) $(BASE_CFLAGS) $$(pkg-config --cflags libjpeg) $(LDFLAGS) -o $@ $< $$(pkg-config --libs libjpeg) -lpthread
# The rate with 1, 2, 4, 8 and 16 decoder threads, as a share of one thread's. tests/README.md, "On a GPU", says how to
# read it. SCALING_OPTIONS: tests/bench/bench_scaling.c.
bench-scaling: all $(BUILD)/bench/bench_scaling
	@[ -d $(BUILD)/bench/scaling/small ] || sh tests/make/scaling.sh data $(BUILD) $(PHOTOS) $(BUILD)/bench/scaling
	@SCALING_PROGRAM=$(BUILD)/bench/bench_scaling sh tests/make/scaling.sh run $(BUILD)/bench/scaling $(SCALING_OPTIONS)
$(BUILD)/bench/bench_scaling: tests/bench/bench_scaling.c benzina.h examples/formats/formats.h $(WITH_FORMATS)
	@mkdir -p $(BUILD)/bench
	$(CC) $(BASE_CFLAGS) -Iexamples/formats -D_GNU_SOURCE $(LDFLAGS) -o $@ $< $(WITH_FORMATS) $(FORMATS_LIBS) $(LIBS)

$(BUILD)/bench/open $(BUILD)/bench/sessions $(BUILD)/bench/heif: $(BUILD)/bench/%: tests/bench/bench_%.c \
              tests/bench/null_driver.h benzina.c $(PTX)
	@mkdir -p $(BUILD)/bench
	$(CC) $(BASE_CFLAGS) $(AV_CFLAGS) $(CUDA_CFLAGS) $(LDFLAGS) -o $@ $< $(LIBS)
$(BUILD)/bench/writer $(BUILD)/bench/provider $(BUILD)/bench/augment $(BUILD)/bench/files: $(BUILD)/bench/%: \
              tests/bench/bench_%.c benzina.h $(WITH_FORMATS)
	@mkdir -p $(BUILD)/bench
	$(CC) $(BASE_CFLAGS) -D_GNU_SOURCE $(LDFLAGS) -o $@ $< $(WITH_FORMATS) $(FORMATS_LIBS) $(LIBS)
$(BUILD)/bench/lib%.so.1: tests/bench/null_driver.c tests/bench/null_driver.h
	@mkdir -p $(BUILD)/bench
	$(CC) $(BASE_CFLAGS) -fvisibility=default -fPIC -shared $(CUDA_CFLAGS) $(LDFLAGS) -Wl,-soname,lib$*.so.1 -o $@ \
	    $< -lm -lpthread -ldl

# ---- On a GPU --------------------------------------------------------------------------------------------------------

.PHONY: gpu-run gpu-check gpu-data gpu-bundle gpu-train train-table
# Checks and measures a GPU, in one run of at most 570 s: see tests/gpu/gpu.sh. gpu-bundle: the same for another
# machine, in a folder of at most 60 MB, which is started by sh run.sh there. The GPU's machine needs neither a compiler
# nor libavcodec: programs are built on a machine with clang and NVIDIA's headers, and gpu-data makes their data on a
# machine with an encoder (PHOTOS=DIR: from your pictures). gpu-check: only the checks, with all failures. The bundle
# also measures how rates grow with CPU threads, by programs linked statically with libjpeg and a small FFmpeg, if `make
# static-deps` has been run.
GPU_HEADERS = tests/unit/test.h tests/unit/known.h tests/unit/gate.h tests/gpu/gpu_dice.h \
              tests/gpu/check_pictures.h tests/gpu/gpu_look.h tests/gpu/gpu_ways.h tests/unit/random.h \
              tests/unit/operations.h benzina.c benzina.h benzina_kernels.cu
$(BUILD)/gpu/%: tests/gpu/%.c $(GPU_HEADERS) $(PTX)
	@mkdir -p $(BUILD)/gpu
	$(CC) $(BASE_CFLAGS:-O3=-O2) -DBENZINA_NO_AVCODEC \
	    $(if $(filter %_bench,$(if $(GPU_JPEG),$@)),$(shell pkg-config --cflags libjpeg),-DBENZINA_NO_JPEG) \
	    $(CUDA_CFLAGS) $(LDFLAGS) -o $@ $< $(if $(filter %_bench,$@),$(GPU_JPEG)) -lm -lpthread -ldl
$(BUILD)/gpu/gpu_record: tests/gpu/gpu_check.c $(GPU_HEADERS) $(PTX)
	@mkdir -p $(BUILD)/gpu
	$(CC) $(BASE_CFLAGS:-O3=-O2) $(AV_CFLAGS) $(CUDA_CFLAGS) $(LDFLAGS) -o $@ $< $(LIBS)
# gpu_hybrid is gpu_bench with libavcodec, for hybrid decoding; the one for a bundle has the static FFmpeg inside.
STATIC     ?= $(BUILD)/static/ffmpeg
STATIC_AV   = PKG_CONFIG_PATH=$(STATIC)/lib/pkgconfig pkg-config --static libavcodec libavutil
$(BUILD)/gpu/gpu_hybrid: tests/gpu/gpu_bench.c $(GPU_HEADERS) $(PTX)
	@mkdir -p $(BUILD)/gpu
	$(CC) $(BASE_CFLAGS:-O3=-O2) $(AV_CFLAGS) $(CUDA_CFLAGS) $(LDFLAGS) -o $@ $< $(LIBS)
$(BUILD)/gpu/gpu_hybrid_static: tests/gpu/gpu_bench.c $(GPU_HEADERS) $(PTX) $(wildcard $(STATIC)/done)
	@mkdir -p $(BUILD)/gpu
	$(CC) $(BASE_CFLAGS:-O3=-O2) $(patsubst -I%,-isystem %,$(shell $(STATIC_AV) --cflags)) \
	    $(if $(GPU_JPEG),$(shell pkg-config --cflags libjpeg),-DBENZINA_NO_JPEG) $(CUDA_CFLAGS) $(LDFLAGS) \
	    -no-pie -Wl,--as-needed -o $@ $< $(patsubst -lz,-l:libz.a,$(shell $(STATIC_AV) --libs)) $(GPU_JPEG) \
	    -lm -lpthread -ldl
# gpu_bench decodes JPEG on the CPU, too, if libjpeg-turbo can be linked into it. In gpu_check only NVDEC decodes.
GPU_JPEG   := $(if $(HAVE_JPEG),$(wildcard $(shell pkg-config --variable=libdir libjpeg)/libjpeg.a))
GPU_BUILDS := $(if $(HAVE_CUDA),$(shell command -v $(firstword $(CC))))
GPU_RUN     = $(if $(GPU_BUILDS),$(BUILD)/gpu/gpu_check $(BUILD)/gpu/gpu_bench)
gpu-run: $(if $(GPU_BUILDS),$(if $(HAVE_AVCODEC),$(BUILD)/gpu/gpu_hybrid))
# If there is a GPU and an encoder, the data are made first.
gpu-check gpu-run: $(GPU_RUN)
	@if [ $@ = gpu-run ] && [ ! -e $(BUILD)/gpu/data/expected.txt ] && command -v nvidia-smi >/dev/null && \
	    command -v ffmpeg >/dev/null; then $(MAKE) --no-print-directory gpu-data; fi
	@BUILD="$(BUILD)" sh tests/gpu/gpu.sh $(subst gpu-,,$@) $(GPU_OPTIONS)
gpu-data: all $(GPU_RUN) $(if $(GPU_BUILDS),$(if $(HAVE_AVCODEC),$(BUILD)/gpu/gpu_record))
	@BUILD="$(BUILD)" sh tests/gpu/gpu.sh data $(PHOTOS)
# How fast ResNet-18 and ResNet-50 train with each loader, in at most 9 minutes: tests/gpu/gpu_train.py. It needs torch
# and torchvision, which PYTHON has. train-table: a tiny network on any machine, which proves the program.
gpu-train: all
	@[ -e $(BUILD)/gpu/data/expected.txt ] || $(MAKE) --no-print-directory gpu-data
	@BUILD="$(BUILD)" PYTHON="$(PYTHON)" sh tests/gpu/gpu.sh train $(TRAIN_OPTIONS)
train-table: all
	@BUILD="$(BUILD)" PYTHON="$(PYTHON)" sh tests/gpu/train_table.sh $(TRAIN_OPTIONS)
# If the pictures have changed, everything is made again.
gpu-bundle: all $(GPU_RUN)
	@[ "$$(cat $(BUILD)/gpu/pictures_of 2>/dev/null)" = "$(PHOTOS)" ] || $(MAKE) --no-print-directory gpu-data
	@[ ! -e $(BUILD)/gpu/data/expected.txt ] || BUILD="$(BUILD)" CC="$(CC)" sh tests/gpu/gpu.sh scaling $(PHOTOS)
	@[ ! -e $(STATIC)/done ] || $(MAKE) --no-print-directory $(BUILD)/gpu/gpu_hybrid_static
	@BUILD="$(BUILD)" sh tests/gpu/gpu.sh bundle

# ---- Distribution ----------------------------------------------------------------------------------------------------

.PHONY: dist dist-formats pair recipes sdist wheel static-deps
# The vendorable pair (benzina.c with the kernels inside), a CMakeLists.txt for it, the list of its switches, and a
# tarball of the sources that builds and tests itself. WITHOUT="SHARDS WRITER": a pair from which these are removed, as
# the header's chapter 1 says. DIST: the folder.
DIST ?= $(BUILD)/dist
dist: $(PTX) | $(BUILD)
	@WITHOUT="$(WITHOUT)" CLANG_PTX="$(CLANG_PTX) $(CLANG_ISA)" PYTHON="$(PYTHON)" \
	    sh tests/make/dist.sh $(BUILD) $(VERSION) "$(DIST)"
# The codecs of examples/formats, each of which may be used alone with the pair and formats.h.
dist-formats: | $(BUILD)
	@mkdir -p "$(DIST)/formats" && rm -f "$(DIST)"/formats/*.[ch] && cp $(FORMATS) $(FORMATS_H) "$(DIST)/formats/"
	@echo "$(DIST)/formats: $(notdir $(FORMATS_H) $(FORMATS))"
# The pair and its CMakeLists.txt alone, with PTX if there is clang: pip install ./examples/python compiles it.
pair: $(PTX) | $(BUILD)
	@sh tests/make/pair.sh $(BUILD)/pair $(PTX)
# The pair as an archive, and recipes for it, in build/dist/recipes: CMake's FetchContent, Meson, Conan, vcpkg. URL: the
# folder from which users will download the archive; default: its folder here.
recipes: $(PTX) | $(BUILD)
	@sh tests/make/recipes.sh "$(DIST)/recipes" $(VERSION) "$(PTX)" $(URL)

# Python's source distribution, which has the pair inside, and a wheel of it that bundles FFmpeg (LGPL) and
# libjpeg-turbo, in build/dist/python. The programs that build the wheel come from PyPI, and the sources of bundled
# libraries from Debian. make static-deps installs the packages that these need. The first wheel takes some 10 minutes.
# MACHINE=aarch64: a wheel for 64-bit ARM.
sdist wheel: $(PTX) | $(BUILD)
	@PYTHON="$(PYTHON)" MACHINE="$(MACHINE)" sh tests/make/python_dist.sh $@ $(BUILD) $(VERSION)

# Packages with which tests/make/codecs.sh builds a small FFmpeg: a static one for gpu-bundle, and a shared one for make
# wheel.
static-deps:
	@sh tests/make/deps.sh nasm meson ninja-build dpkg-dev cmake python3-venv libjpeg-dev zlib1g-dev libffmpeg-nvenc-dev

# ---- Installing ------------------------------------------------------------------------------------------------------

.PHONY: install uninstall clean
# Folders are those of PREFIX and LIBDIR, below DESTDIR. The same files are installed as by the pair's CMake, and the
# tool.
TO        = $(DESTDIR)$(PREFIX)
TO_LIB    = $(DESTDIR)$(LIBDIR)
install: all
	install -d "$(TO)"/include/benzina "$(TO_LIB)" "$(TO)"/bin "$(TO)"/share/man/man1
	install -m 644 benzina.h "$(TO)"/include/
	install -m 644 examples/formats/formats.h $(if $(FEWER),,examples/stream/stream.h) "$(TO)"/include/benzina/
	for l in $(LIBRARIES); do \
	    install -m 644 $(BUILD)/lib$$l.a "$(TO_LIB)"/ && \
	    install -m 755 $(BUILD)/lib$$l.so.$(VERSION) "$(TO_LIB)"/ && \
	    ln -sf lib$$l.so.$(VERSION) "$(TO_LIB)"/lib$$l.so.$(SOVERSION) && \
	    ln -sf lib$$l.so.$(SOVERSION) "$(TO_LIB)"/lib$$l.so || exit 1; done
	if [ -e $(BUILD)/bzna ]; then install -m 755 $(BUILD)/bzna "$(TO)"/bin/ && \
	    install -m 644 examples/bzna.1 "$(TO)"/share/man/man1/; fi
	PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' VERSION='$(VERSION)' SOVERSION='$(SOVERSION)' REQUIRES='$(REQUIRES)' \
	    LIBS='$(SYSTEM_LIBS)' STREAM_REQUIRES='$(STREAM_REQUIRES)' \
	    FORMATS_REQUIRES='$(strip $(FORMATS_REQUIRES))' sh tests/make/install_package.sh '$(DESTDIR)' \
	    $(LIBRARIES)

# Files and links that install made, and the two folders that are nobody else's: others may have been there before.
uninstall:
	cd "$(TO)" 2>/dev/null && rm -f include/benzina.h include/benzina/stream.h include/benzina/formats.h \
	    bin/bzna share/man/man1/bzna.1 || true
	cd "$(TO_LIB)" 2>/dev/null && rm -f cmake/benzina/benzinaConfig.cmake cmake/benzina/benzinaConfigVersion.cmake \
	    $(foreach l,benzina benzina_stream benzina_formats,pkgconfig/$l.pc lib$l.a lib$l.so lib$l.so.$(SOVERSION) \
	    lib$l.so.$(VERSION)) || true
	-rmdir "$(TO)"/include/benzina "$(TO_LIB)"/cmake/benzina 2>/dev/null || true

clean:
	rm -rf $(BUILD)

endif # AFTER_DEPS
endif # SOURCES
