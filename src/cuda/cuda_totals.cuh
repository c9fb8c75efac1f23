/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of tables, and the block of threads that ends last and adds up what all have left. */
#ifndef UNI_CUDA_TOTALS_CUH
#define UNI_CUDA_TOTALS_CUH

#include "cuda_backend.h"
#include "cuda_device.cuh"

/* Is the block of threads the last of n to get here? Then it sees what they all left, around L1. All its threads call it. */
__device__ __forceinline__ bool ends_last(int *ended, int n)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(ended, 1) == n - 1;
        if (last)
            *ended = 0; /* for the next time */
    }
    __syncthreads();
    __threadfence();
    return last;
}

/* The sum of x[0], x[step], ..., n of them, by one block; of other blocks' too. */
static __device__ double sum_of(const double *x, int64_t n, int step, double *room)
{
    double sum = 0;
#pragma unroll 8
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        sum += __ldcg(x + i * step);
    return block_sum(sum, room);
}

/* Of a level, or, one further, of all. */
__device__ __forceinline__ double total_of(const uni_cuda_view &v, int parity, int level, int k)
{
    const int64_t first = (int64_t)v.level_first[level] * v.Kp + k, last = (int64_t)v.level_last[level] * v.Kp + k;
    const long long *M = masses(v, parity);
    if (v.level_first[level] < 0)
        return 0;
    return (double)(v.damped || first == last ? M[last] : v.X[first] + M[first] + M[last]) * (1 / MASS_SCALE);
}

#endif
