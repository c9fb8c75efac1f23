/* SPDX-License-Identifier: BSD-3-Clause */
/* W and Y as the tensor cores' second factors, split in two halves, or as what these are made from: what assign multiplies by. */
#include "cuda_backend.h"
#include "cuda_columns.cuh"
#include "cuda_device.cuh"

__device__ __forceinline__ void put_fragment(uint4 *to, const float (&b)[4])
{
    uint4 f;
    split_pair(b[0], b[1], f.x, f.z);
    split_pair(b[2], b[3], f.y, f.w);
    *to = f;
}

/* W of every group, the sum of its rows, as the second factor of R W: step s, columns 8n .., lane */
__global__ void pack_W(uni_cuda_view v, const float *W, int KT, int DT, float scale)
{
    int words = (KT + 1) / 2 * DT * 32;
    for (int i = blockIdx.y * blockDim.x + threadIdx.x; i < words; i += gridDim.y * blockDim.x) {
        int lane = i % 32, n = i / 32 % DT, s = i / 32 / DT, d = 8 * n + lane / 4, t = lane % 4;
        float b[4];
        for (int e = 0; e < 4; e++) {
            int j = 2 * s + e / 2, k = j < KT ? assign_column(KT, j, 2 * t + e % 2) : v.K;
            b[e] = 0;
            for (int u = 0; u < v.V && k < v.K && d < v.D; u++)
                b[e] += W[((int64_t)v.group_row[(int)blockIdx.x * v.V + u] * v.K + k) * v.D + d];
            b[e] *= scale;
        }
        put_fragment(v.W_fragments + (int64_t)blockIdx.x * words + i, b);
    }
}

/* Y as the second factor of z Y'. */
__global__ void pack_Y(uni_cuda_view v, int KT, int DT)
{
    int words = (DT + 1) / 2 * KT * 32;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
        int lane = i % 32, n = i / 32 % KT, s = i / 32 / KT, t = lane % 4, k = assign_column(KT, n, lane / 4);
        float b[4];
        for (int e = 0; e < 4; e++) {
            int d = 16 * s + 8 * (e / 2) + 2 * t + e % 2;
            b[e] = k < v.K && d < v.D ? v.Y[(int64_t)k * v.D + d] * Z_SCALE : 0;
        }
        put_fragment(v.Y_fragments + i, b);
    }
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 8 * KT; i += gridDim.x * blockDim.x) {
        int k = assign_column(KT, i / 8, i % 8);
        float scale = k < v.K ? 2 * 1.44269504f / v.sigma[k] : 0;
        v.logit[i] = k < v.K ? make_float2(scale / (Z_SCALE * Z_SCALE), -scale) : make_float2(0, -1e30f);
    }
}

int uni_cuda_pack_W(const struct uni_cuda *c, const float *W, cudaStream_t stream)
{
    pack_W<<<dim3((unsigned)c->v.G, c->v.G < 2 * c->cores ? 7 : 2), 256, 0, stream>>>(c->v, W, c->fast.kt, c->fast.dt,
                                                                                      (float)c->W_scale);
    return CUDA(cudaGetLastError());
}

int uni_cuda_pack_Y(const struct uni_cuda *c, cudaStream_t stream)
{
    pack_Y<<<8, 256, 0, stream>>>(c->v, c->fast.kt, c->fast.dt);
    return CUDA(cudaGetLastError());
}

/* ---- of the passes by warpgroups ----------------------------------------------------------------------------------------------
 */

enum { PACK_THREADS = 256, Y_BLOCKS = 16, PACK_AT_ONCE = 4 };

/* What is packed in one launch: some blocks of threads for every group's W, then some for Y. */
struct pack_call {
    const float *W; /* or NULL */
    int KT, DT, parts, W_blocks, Y_blocks;
    float scale;
};

/* W of a group, the sum of its rows, times a power of two, in rows of 8 DT: a block's part of it, four numbers a thread. */
__device__ __forceinline__ void pack_rows(const uni_cuda_view &v, const pack_call &call, int group, int part)
{
    const int words = 2 * call.DT, all = (call.KT + 1) / 2 * 16 * words, step = call.parts * PACK_THREADS;
    float4 *to = (float4 *)v.W_fragments + (int64_t)group * all;
    for (int first = part * PACK_THREADS + (int)threadIdx.x; first < all; first += PACK_AT_ONCE * step) {
        float w[PACK_AT_ONCE][4] = {};
        for (int u = 0; u < v.V; u++) { /* all loads before the first store: one trip to memory */
            const float *W = call.W + (int64_t)v.group_row[group * v.V + u] * v.K * v.D;
#pragma unroll
            for (int i = 0; i < PACK_AT_ONCE; i++) {
                const int at = first + i * step, k = at / words, d = at % words * 4;
#pragma unroll
                for (int e = 0; e < 4; e++)
                    w[i][e] += k < v.K && d + e < v.D ? W[k * v.D + d + e] : 0;
            }
        }
#pragma unroll
        for (int i = 0; i < PACK_AT_ONCE; i++)
            if (first + i * step < all)
                to[first + i * step] =
                    make_float4(w[i][0] * call.scale, w[i][1] * call.scale, w[i][2] * call.scale, w[i][3] * call.scale);
    }
}

/* Y in two halves: 16 bytes are eight dimensions of a column. */
__device__ __forceinline__ void pack_columns(const uni_cuda_view &v, const pack_call &call, int block)
{
    const int KT = call.KT, dims = (call.DT + 1) / 2 * 16, first = block * PACK_THREADS + (int)threadIdx.x,
              step = call.Y_blocks * PACK_THREADS;
    __half *hi = (__half *)v.Y_fragments, *lo = hi + dims * 8 * KT;
    for (int i = first; i < dims * 8 * KT; i += step) {
        const int column = i / dims, d = i % dims, k = assign_column(KT, column / 8, column % 8);
        const float y = k < v.K && d < v.D ? v.Y[(int64_t)k * v.D + d] * Z_SCALE : 0;
        const int at = ((d / 8 * KT + column / 8) * 8 + column % 8) * 8 + d % 8;
        hi[at] = __float2half_rn(y);
        lo[at] = __float2half_rn(y - __half2float(hi[at]));
    }
    for (int i = first; i < 8 * KT; i += step) {
        const int k = assign_column(KT, i / 8, i % 8);
        const float scale = k < v.K ? 2 * 1.44269504f / v.sigma[k] : 0;
        v.logit[i] = k < v.K ? make_float2(scale / (Z_SCALE * Z_SCALE), -scale) : make_float2(0, -1e30f);
    }
}

__global__ void __launch_bounds__(PACK_THREADS) hopper_pack(uni_cuda_view v, pack_call call)
{
    const int block = blockIdx.x;
    if (block < call.W_blocks)
        pack_rows(v, call, block / call.parts, block % call.parts);
    else
        pack_columns(v, call, block - call.W_blocks);
}

int uni_cuda_hopper_pack(const struct uni_cuda *c, const float *W, int Y, cudaStream_t stream)
{
    const int parts = c->v.G < 2 * c->cores ? 7 : 2;
    const pack_call call = {W, c->fast.kt, c->fast.dt, parts, W ? c->v.G * parts : 0, Y ? (int)Y_BLOCKS : 0, (float)c->W_scale};
    hopper_pack<<<(unsigned)(call.W_blocks + call.Y_blocks), PACK_THREADS, 0, stream>>>(c->v, call);
    return CUDA(cudaGetLastError());
}
