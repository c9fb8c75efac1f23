# SPDX-License-Identifier: BSD-3-Clause
# For 64-bit ARM on another machine: Debian's cross compiler and arm64 libraries, and an emulator that runs the tests.
#   tools/setup aarch64 && cmake -S . -B build-aarch64 -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -DUNI_PROGRAM=OFF
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(UNI_CUDA OFF CACHE BOOL "build the CUDA plugin")
