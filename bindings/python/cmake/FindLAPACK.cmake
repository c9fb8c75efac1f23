# SPDX-License-Identifier: BSD-3-Clause
# Stands in for CMake's own module: the few LAPACK routines that the library calls, linked into it,
# so that the wheel needs no LAPACK and no Fortran runtime, and a C compiler is all that builds it.
add_library(unisono_lapack STATIC ${CMAKE_CURRENT_LIST_DIR}/../lapack/lapack.c)
target_compile_options(unisono_lapack PRIVATE -O3)
add_library(LAPACK::LAPACK ALIAS unisono_lapack)
set(LAPACK_FOUND TRUE)
