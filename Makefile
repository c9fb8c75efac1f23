# SPDX-License-Identifier: BSD-3-Clause
# The short way. CMakeLists.txt is the build; this installs what it needs and calls it.
#   make         build/unisono
#   make demo    a made-up atlas, integrated, and what changed: in words, and as a page, demo/report.html
#   make test    everything, closing with "N passed, N failed"
#   make test-large   what takes millions of cells and 9 GB; not part of the above
#   make test-faults  every call to the system made to fail; an hour; not part of the above
BUILD ?= build
CMAKE_FLAGS ?=
JOBS ?= 2
MAKEFLAGS += --no-print-directory

all:
	@tools/setup build
	@cmake -S . -B $(BUILD) -DUNI_TESTS=OFF $(CMAKE_FLAGS) >/dev/null
	@cmake --build $(BUILD) --parallel $(JOBS)

demo: all
	@mkdir -p demo
	$(BUILD)/unisono simulate -f -o demo/atlas.h5ad
	$(BUILD)/unisono integrate demo/atlas.h5ad --batch batch --trace demo/trace.json -f -o demo/corrected.h5ad
	$(BUILD)/unisono compare demo/corrected.h5ad --batch batch --label cell_type
	$(BUILD)/unisono report demo/corrected.h5ad --label cell_type --trace demo/trace.json -f -o demo/report.html

test:
	@tools/setup test
	@cmake -S . -B $(BUILD) -DUNI_TESTS=ON $(CMAKE_FLAGS) >/dev/null
	@cmake --build $(BUILD) --parallel $(JOBS)
	@tests/run $(BUILD) $(JOBS)

test-large:
	@bench/large

test-faults:
	@tools/setup test
	@cmake -S . -B $(BUILD) -DUNI_TESTS=ON $(CMAKE_FLAGS) >/dev/null
	@cmake --build $(BUILD) --parallel $(JOBS) --target test_faults

install: all
	cmake --install $(BUILD)

clean:
	rm -rf $(BUILD) demo

.PHONY: all demo test test-large test-faults install clean
