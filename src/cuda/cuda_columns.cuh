/* SPDX-License-Identifier: BSD-3-Clause */
/* Which cluster a column of the tensor cores' tiles is. A product does not care about the order of its columns, so they are taken
   in the order in which a thread can load and store 16 bytes of base at once. g = lane / 4, t = lane % 4. */
#ifndef UNI_CUDA_COLUMNS_CUH
#define UNI_CUDA_COLUMNS_CUH

/* Accumulator tile j (8 columns) of assign, KT tiles in all, column x: cells are rows, thread t has columns 2t and 2t + 1. */
__host__ __device__ constexpr int assign_column(int KT, int j, int x)
{
    return j < KT / 4 * 4 ? 32 * (j / 4) + 8 * (x / 2) + 2 * (j % 4) + x % 2 : 8 * j + x;
}

/* Tile j of moments, column x = g: clusters are columns. */
__host__ __device__ constexpr int moments_column(int KT, int j, int x)
{
    return j < KT / 8 * 8 ? 64 * (j / 8) + 8 * x + j % 8 : j < KT / 4 * 4 ? 64 * (j / 8) + 4 * x + j % 4 : 8 * j + x;
}

#endif
