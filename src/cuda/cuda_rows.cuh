/* SPDX-License-Identifier: BSD-3-Clause */
/* Tiles of base and of R in the layout of the tensor cores' accumulators: see cuda_assign.cu. */
#ifndef UNI_CUDA_ROWS_CUH
#define UNI_CUDA_ROWS_CUH

#include "cuda_backend.h"
#include "cuda_columns.cuh"
#include "cuda_device.cuh"

/* ---- base <-> accumulator tiles ------------------------------------------------------------------------------------------ */

/* Two rows' columns of tile j, elements 0, 1 of row g and 2, 3 of row g + 8, of rows of floats or halves in shared memory. */
template <int KT, int SINGLE>
__device__ __forceinline__ void take_rows(float (&r)[KT][4], const char *rows, int Kp, int g, int t, bool low, bool high)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const char *row = rows + (g + 8 * h) * Kp * (SINGLE ? 4 : 2);
        bool valid = h ? high : low;
#pragma unroll
        for (int J = 0; J < KT / 4; J++) {
            int k = 32 * J + 8 * t;
            bool inside = valid && k < Kp;
            if (SINGLE) {
                const float4 zero = make_float4(0, 0, 0, 0);
                float4 a = inside ? *(const float4 *)(row + 4 * k) : zero,
                       b = inside ? *(const float4 *)(row + 4 * k + 16) : zero;
                r[4 * J][2 * h] = a.x, r[4 * J][2 * h + 1] = a.y, r[4 * J + 1][2 * h] = a.z, r[4 * J + 1][2 * h + 1] = a.w;
                r[4 * J + 2][2 * h] = b.x, r[4 * J + 2][2 * h + 1] = b.y, r[4 * J + 3][2 * h] = b.z,
                                 r[4 * J + 3][2 * h + 1] = b.w;
            } else {
                uint4 raw = inside ? *(const uint4 *)(row + 2 * k) : make_uint4(0, 0, 0, 0);
                const uint32_t word[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    float2 two = half_pair(word[i]);
                    r[4 * J + i][2 * h] = two.x, r[4 * J + i][2 * h + 1] = two.y;
                }
            }
        }
#pragma unroll
        for (int j = KT / 4 * 4; j < KT; j++) {
            int k = 8 * j + 2 * t;
            bool inside = valid && k < Kp;
            float2 two = make_float2(0, 0);
            if (SINGLE)
                two = inside ? *(const float2 *)(row + 4 * k) : two;
            else
                two = inside ? half_pair(*(const uint32_t *)(row + 2 * k)) : two;
            r[j][2 * h] = two.x, r[j][2 * h + 1] = two.y;
        }
    }
}

/* The other way round. */
template <int KT, int SINGLE>
__device__ __forceinline__ void put_rows(const float (&e)[KT][4], char *rows, int Kp, int g, int t, bool low, bool high)
{
    const int bytes = SINGLE ? 4 : 2;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const bool valid = h ? high : low;
        char *row = rows + (int64_t)(g + 8 * h) * Kp * bytes + 8 * t * bytes;
#pragma unroll
        for (int J = 0; J < KT / 4; J++) {
            const bool inside = valid && 32 * J + 8 * t < Kp;
            uint32_t w[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                w[i] = pair_half(e[4 * J + i][2 * h], e[4 * J + i][2 * h + 1]);
            if (!SINGLE && inside)
                *(uint4 *)(row + 32 * J * bytes) = make_uint4(w[0], w[1], w[2], w[3]);
#pragma unroll
            for (int i = 0; i < 4; i += 2)
                if (SINGLE && inside)
                    *(float4 *)(row + 32 * J * bytes + 8 * i) = make_float4(e[4 * J + i][2 * h], e[4 * J + i][2 * h + 1],
                                                                            e[4 * J + i + 1][2 * h], e[4 * J + i + 1][2 * h + 1]);
        }
        row = rows + (int64_t)(g + 8 * h) * Kp * bytes + 2 * t * bytes;
#pragma unroll
        for (int j = KT / 4 * 4; j < KT; j++) {
            const bool inside = valid && 8 * j + 2 * t < Kp;
            if (SINGLE && inside)
                *(float2 *)(row + 8 * j * bytes) = make_float2(e[j][2 * h], e[j][2 * h + 1]);
            if (!SINGLE && inside)
                *(uint32_t *)(row + 8 * j * bytes) = pair_half(e[j][2 * h], e[j][2 * h + 1]);
        }
    }
}

__device__ __forceinline__ float quad_sum(float x)
{
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

__device__ __forceinline__ float quad_most(float x)
{
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

/* r = base -> R R_SCALE */
template <int KT> __device__ __forceinline__ void penalise(float (&r)[KT][4], const float *pen, int Kp, int t)
{
    float s0 = 0, s1 = 0;
#pragma unroll
    for (int j = 0; j < KT; j++) {
        int k = assign_column(KT, j, 2 * t);
        float2 P = k < Kp ? __ldg((const float2 *)(pen + k)) : make_float2(0, 0);
        r[j][0] *= P.x, r[j][1] *= P.y, r[j][2] *= P.x, r[j][3] *= P.y;
        s0 += r[j][0] + r[j][1];
        s1 += r[j][2] + r[j][3];
    }
    s0 = quad_sum(s0), s1 = quad_sum(s1);
    float f0 = s0 > 0 ? R_SCALE / s0 : 0, f1 = s1 > 0 ? R_SCALE / s1 : 0;
#pragma unroll
    for (int j = 0; j < KT; j++)
        r[j][0] *= f0, r[j][1] *= f0, r[j][2] *= f1, r[j][3] *= f1;
}

/* ---- the damped update ---------------------------------------------------------------------------------------------------- */

/* Room for the tables of a piece: rows of 8 KT. */
template <int KT> __host__ __device__ __forceinline__ int table_floats(const uni_cuda_recipe &recipe)
{
    return (recipe.n - 1 > KEPT_TABLES ? recipe.n - 1 : (int)KEPT_TABLES) * 8 * KT;
}

/* A cluster's penalty in table t, from 1 on, times the table's share and R_SCALE; 0 where there is none. */
__device__ __forceinline__ float shared_penalty(const uni_cuda_view &v, int t, int piece, int k)
{
    const bool there = t < v.recipe.n && k < v.Kp;
    return there ? v.recipe.share[t] * R_SCALE * v.pen[((int64_t)v.recipe.slot[t] * v.P + piece) * v.Kp + k] : 0;
}

/* A piece's tables times their shares and R_SCALE, into shared memory; zeros where there are fewer than KEPT_TABLES. */
template <int KT> __device__ __forceinline__ void take_tables(float *tables, const uni_cuda_view &v, int piece)
{
    for (int i = threadIdx.x; i < table_floats<KT>(v.recipe); i += blockDim.x) {
        const int t = i / (8 * KT) + 1, k = i % (8 * KT);
        tables[i] = shared_penalty(v, t, piece, k);
    }
}

__device__ __forceinline__ float scale_at(const uni_cuda_view &v, int t, uint32_t row)
{
    return t < v.recipe.n ? __ldg(v.row_scale + v.recipe.slot[t] * uni_cuda_scales(v) + row) : 0;
}

/* r = base -> R R_SCALE; row: that of the thread's first two numbers, `last` the tile's last */
template <int KT>
__device__ __forceinline__ void mix(float (&r)[KT][4], const uni_cuda_view &v, const float *tables, uint32_t row, uint32_t last,
                                    int t)
{
    const uint32_t row0 = min(row, last), row1 = min(row + 8, last);
    float s0 = 0, s1 = 0, w0[KEPT_TABLES], w1[KEPT_TABLES];
#pragma unroll
    for (int i = 0; i < KEPT_TABLES; i++)
        w0[i] = scale_at(v, i + 1, row0), w1[i] = scale_at(v, i + 1, row1);
#pragma unroll
    for (int j = 0; j < KT; j++) {
        s0 += r[j][0] + r[j][1];
        s1 += r[j][2] + r[j][3];
    }
    s0 = quad_sum(s0), s1 = quad_sum(s1);
    const float share = v.recipe.share[0] * R_SCALE, c0 = s0 > 0 ? share / s0 : 0, c1 = s1 > 0 ? share / s1 : 0;
#pragma unroll
    for (int j = 0; j < KT; j++) {
        const float *P = tables + assign_column(KT, j, 2 * t);
        float q[4] = {c0, c0, c1, c1};
#pragma unroll
        for (int i = 0; i < KEPT_TABLES; i++) {
            float2 p = *(const float2 *)(P + i * 8 * KT);
            q[0] += p.x * w0[i], q[1] += p.y * w0[i], q[2] += p.x * w1[i], q[3] += p.y * w1[i];
        }
        for (int i = KEPT_TABLES; i < v.recipe.n - 1; i++) {
            float2 p = *(const float2 *)(P + i * 8 * KT);
            float a = scale_at(v, i + 1, row0), b = scale_at(v, i + 1, row1);
            q[0] += p.x * a, q[1] += p.y * a, q[2] += p.x * b, q[3] += p.y * b;
        }
#pragma unroll
        for (int e = 0; e < 4; e++)
            r[j][e] *= q[e];
    }
}

#endif
