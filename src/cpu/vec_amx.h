/* SPDX-License-Identifier: BSD-3-Clause */
/* AVX-512 with a matrix unit for the products: cpu_tiles.h. */
#define KERNELS uni_kernels_amx
#define ISA_NAME "amx"
#define HAS_TILES 1
#define TILE 32 /* two rows of the unit's tiles: what is between the products stays in the first cache */
#include "vec_avx512.h"
