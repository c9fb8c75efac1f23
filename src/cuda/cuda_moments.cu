/* SPDX-License-Identifier: BSD-3-Clause */
/* S[g,k,:] = sum of R Z over the cells of g, on tensor cores: D <= 64, K <= 128. The warps of a block make R and Z of a tile of
   16 cells each, as fragments in shared memory; then every warp multiplies its part of (D x K) over all these cells. Both are
   split in two halves: with R in one, the error of S would move the next round's base by more than its own rounding does. Tensor
   cores truncate when they add, so their sums are taken over into float32 registers after every 128 cells, and into 64-bit
   integers after 16,384. */
#include "cuda_rows.cuh"

enum { WARPS = 8, TURNS = 128 /* of WARPS tiles, before the float32 sums are given away */, WITH_FIT = 2 };
#define LOG2_Q_SCALE 5.0f /* of BASE_SCALE / R_SCALE */

/* base of one cell, as thread g of the eight that share it has it: KT numbers. */
template <int KT, int SINGLE>
__device__ __forceinline__ void take_cell(float (&r)[KT], const uni_cuda_view &v, int64_t row, bool valid, int g)
{
    const char *from = (const char *)v.base + row * v.Kp * (SINGLE ? 4 : 2);
#pragma unroll
    for (int J = 0; J < KT / 8; J++) {
        int k = 64 * J + 8 * g;
        bool inside = valid && k < v.Kp;
        if (SINGLE) {
            uint4 a = inside ? load_stream(from + 4 * k) : make_uint4(0, 0, 0, 0),
                  b = inside ? load_stream(from + 4 * k + 16) : make_uint4(0, 0, 0, 0);
            r[8 * J] = __uint_as_float(a.x), r[8 * J + 1] = __uint_as_float(a.y), r[8 * J + 2] = __uint_as_float(a.z);
            r[8 * J + 3] = __uint_as_float(a.w), r[8 * J + 4] = __uint_as_float(b.x), r[8 * J + 5] = __uint_as_float(b.y);
            r[8 * J + 6] = __uint_as_float(b.z), r[8 * J + 7] = __uint_as_float(b.w);
        } else {
            uint4 raw = inside ? load_stream(from + 2 * k) : make_uint4(0, 0, 0, 0);
            const uint32_t word[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float2 two = half_pair(word[i]);
                r[8 * J + 2 * i] = two.x, r[8 * J + 2 * i + 1] = two.y;
            }
        }
    }
    if (KT % 8 >= 4) {
        constexpr int j = KT / 8 * 8;
        int k = 8 * j + 4 * g;
        bool inside = valid && k < v.Kp;
        if (SINGLE) {
            float4 a = inside ? __ldg((const float4 *)(from + 4 * k)) : make_float4(0, 0, 0, 0);
            r[j] = a.x, r[j + 1] = a.y, r[j + 2] = a.z, r[j + 3] = a.w;
        } else {
            uint2 raw = inside ? __ldg((const uint2 *)(from + 2 * k)) : make_uint2(0, 0);
            float2 a = half_pair(raw.x), b = half_pair(raw.y);
            r[j] = a.x, r[j + 1] = a.y, r[j + 2] = b.x, r[j + 3] = b.y;
        }
    }
#pragma unroll
    for (int j = KT / 4 * 4; j < KT; j++) {
        int k = 8 * j + g;
        bool inside = valid && k < v.Kp;
        r[j] = !inside ? 0 : SINGLE ? __ldg((const float *)(from + 4 * k)) : __half2float(*(const __half *)(from + 2 * k));
    }
}

__device__ __forceinline__ float sum_over_g(float s)
{
    s += __shfl_xor_sync(~0u, s, 4);
    s += __shfl_xor_sync(~0u, s, 8);
    return s + __shfl_xor_sync(~0u, s, 16);
}

/* r = base -> R R_SCALE of a thread's four cells */
template <int KT> __device__ __forceinline__ void penalise(float (&r)[4][KT], const uni_cuda_view &v, int piece, int g)
{
    const float *pen = v.pen + (int64_t)piece * v.Kp;
    float P[KT];
#pragma unroll
    for (int j = 0; j < KT; j++) {
        int k = moments_column(KT, j, g);
        P[j] = k < v.Kp ? __ldg(pen + k) : 0;
    }
#pragma unroll
    for (int c = 0; c < 4; c++) {
        float s = 0;
#pragma unroll
        for (int j = 0; j < KT; j++) {
            r[c][j] *= P[j];
            s += r[c][j];
        }
        s = sum_over_g(s);
        float f = s > 0 ? R_SCALE / s : 0;
#pragma unroll
        for (int j = 0; j < KT; j++)
            r[c][j] *= f;
    }
}

/* The same of the damped update; with FIT returns the thread's part of sum R (dist + sigma ln R) = sum sigma R (ln q - L), q = R
   / base. */
template <int KT, bool FIT>
__device__ __forceinline__ float mix(float (&r)[4][KT], const uni_cuda_view &v, const float *tables, uni_cuda_tile tile, int g,
                                     int t)
{
    const float share = v.recipe.share[0] * R_SCALE;
    float base[4], w[KEPT_TABLES][4], weights[4] = {0, 0, 0, 0}, fit = 0;
    uint32_t row[4];
#pragma unroll
    for (int c = 0; c < 4; c++) {
        row[c] = tile.row + min(2 * t + c % 2 + 8 * (c / 2), (int)(tile.packed & 31) - 1);
#pragma unroll
        for (int i = 0; i < KEPT_TABLES; i++)
            w[i][c] = scale_at(v, i + 1, row[c]);
    }
#pragma unroll
    for (int c = 0; c < 4; c++) {
        float s = 0;
#pragma unroll
        for (int j = 0; j < KT; j++)
            s += r[c][j];
        s = sum_over_g(s);
        base[c] = s > 0 ? share / s : 0;
    }
#pragma unroll
    for (int j = 0; j < KT; j++) {
        const float *P = tables + moments_column(KT, j, g);
        float q[4] = {base[0], base[1], base[2], base[3]};
#pragma unroll
        for (int i = 0; i < KEPT_TABLES; i++) {
            float p = P[i * 8 * KT];
#pragma unroll
            for (int c = 0; c < 4; c++)
                q[c] += p * w[i][c];
        }
        for (int i = KEPT_TABLES; i < v.recipe.n - 1; i++)
            for (int c = 0; c < 4; c++)
                q[c] += P[i * 8 * KT] * scale_at(v, i + 1, row[c]);
        const float sigma = FIT && moments_column(KT, j, g) < v.K ? __ldg(v.sigma + moments_column(KT, j, g)) : 0;
#pragma unroll
        for (int c = 0; c < 4; c++) {
            r[c][j] *= q[c];
            if (FIT) { /* q is times R_SCALE / BASE_SCALE */
                weights[c] += sigma * r[c][j];
                fit += sigma * r[c][j] * (log2_of(fmaxf(q[c], 1e-37f)) + LOG2_Q_SCALE);
            }
        }
    }
#pragma unroll
    for (int c = 0; c < 4 && FIT; c++)
        fit -= weights[c] * __ldg(v.L + row[c]) * (1 / LN_2);
    return fit * (LN_2 / R_SCALE);
}

/* R R_SCALE of four cells as second factors: tile j's fragment of 16 cells x 8 clusters */
template <int KT, int SINGLE, int DAMPED>
__device__ __forceinline__ float make_R(uint4 *to, const uni_cuda_view &v, const float *tables, uni_cuda_tile tile, int lane)
{
    int g = lane / 4, t = lane % 4, n = tile.packed & 31;
    float r[4][KT], fit = 0;
#pragma unroll
    for (int c = 0; c < 4; c++) {
        int cell = 2 * t + c % 2 + 8 * (c / 2);
        take_cell<KT, SINGLE>(r[c], v, tile.row + cell, cell < n, g);
    }
    if (DAMPED)
        fit = mix<KT, DAMPED == WITH_FIT>(r, v, tables, tile, g, t);
    else
        penalise<KT>(r, v, tile.packed >> 5, g);
#pragma unroll
    for (int j = 0; j < KT; j++) {
        uint4 f;
        split_pair(r[0][j], r[1][j], f.x, f.z);
        split_pair(r[2][j], r[3][j], f.y, f.w);
        to[j * 32 + lane] = f;
    }
    return fit;
}

/* Z scale of the tile as first factors: dimensions 16 m + 2 g and + 1 are rows g and g + 8 */
template <int MT>
__device__ __forceinline__ void make_Z(uint4 *to, const uni_cuda_view &v, uni_cuda_tile tile, float scale, int lane)
{
    int g = lane / 4, t = lane % 4, n = tile.packed & 31;
    float2 z[MT][4];
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int c = 0; c < 4; c++) {
            int cell = 2 * t + c % 2 + 8 * (c / 2), d = 16 * m + 2 * g;
            z[m][c] =
                cell < n && d < v.Dz ? __ldg((const float2 *)(v.Z + ((int64_t)tile.row + cell) * v.Dz + d)) : make_float2(0, 0);
        }
#pragma unroll
    for (int m = 0; m < MT; m++) {
        uint4 hi, lo;
        split_pair(z[m][0].x * scale, z[m][1].x * scale, hi.x, lo.x);
        split_pair(z[m][0].y * scale, z[m][1].y * scale, hi.y, lo.y);
        split_pair(z[m][2].x * scale, z[m][3].x * scale, hi.z, lo.z);
        split_pair(z[m][2].y * scale, z[m][3].y * scale, hi.w, lo.w);
        to[(2 * m) * 32 + lane] = hi;
        to[(2 * m + 1) * 32 + lane] = lo;
    }
}

template <int NH>
__device__ void give(const uni_cuda_view &v, int group, int KT, int m, int first, float (&sum)[NH][4], double scale, int lane)
{
    int g = lane / 4, t = lane % 4;
    long long *S = v.S + (int64_t)group * v.K * v.D;
#pragma unroll
    for (int n = 0; n < NH; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int j = first + n, k = j < KT ? moments_column(KT, j, 2 * t + e % 2) : v.K, d = 16 * m + 2 * g + e / 2;
            if (k < v.K && d < v.D)
                add_exact(S + (int64_t)k * v.D + d, __double2ll_rn((double)sum[n][e] * scale));
            sum[n][e] = 0;
        }
}

/* acc += a warp's part of (D x K) over the cells of a tile, from its fragments. */
template <int KT, int NH>
__device__ __forceinline__ void multiply_tile(float (&acc)[NH][4], const uint32_t (&hi)[4], const uint32_t (&lo)[4],
                                              const uint4 *R, int first, int lane)
{
#pragma unroll
    for (int i = 0; i < NH; i += 4) { /* four sums at a time: none waits for its last product */
        uint4 b[4];
#pragma unroll
        for (int n = 0; n < 4 && i + n < NH; n++)
            b[n] = R[min(first + i + n, KT - 1) * 32 + lane];
#pragma unroll
        for (int n = 0; n < 4 && i + n < NH; n++)
            multiply_add(acc[i + n], hi, b[n].z, b[n].w);
#pragma unroll
        for (int n = 0; n < 4 && i + n < NH; n++)
            multiply_add(acc[i + n], lo, b[n].x, b[n].y);
#pragma unroll
        for (int n = 0; n < 4 && i + n < NH; n++)
            multiply_add(acc[i + n], hi, b[n].x, b[n].y);
    }
}

template <int KT, int MT, int SINGLE, int DAMPED>
__global__ void __launch_bounds__(WARPS * 32, SINGLE ? 1 : 2) moments_kernel(uni_cuda_view v, float Z_scale, double S_scale)
{
    extern __shared__ __align__(16) uint4 smem[];
    constexpr int R_WORDS = KT * 32, Z_WORDS = MT * 64, NH = (KT + WARPS / MT - 1) / (WARPS / MT);
    uint4 *R = smem, *Z = smem + WARPS * R_WORDS;
    float *tables = (float *)(Z + WARPS * Z_WORDS);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, m = warp % MT, first = warp / MT * NH, turn = 0;
    uint32_t at = (uint32_t)((uint64_t)v.tiles * blockIdx.x / gridDim.x),
             end = (uint32_t)((uint64_t)v.tiles * (blockIdx.x + 1) / gridDim.x);
    float sum[NH][4];
    double fit = 0;
#pragma unroll
    for (int n = 0; n < NH; n++)
        sum[n][0] = sum[n][1] = sum[n][2] = sum[n][3] = 0;
    while (at < end) {
        int group = v.piece[v.tile[at].packed >> 5].group;
        uint32_t stop = min(end, v.group_tile[group + 1]);
        if (DAMPED) { /* nobody uses those of the group before: all have passed the barrier after its last products */
            take_tables<KT>(tables, v, v.tile[at].packed >> 5);
            __syncthreads();
        }
        for (; at < stop; at += WARPS) {
            int tiles = (int)min(stop - at, (uint32_t)WARPS);
            if (warp < tiles) {
                uni_cuda_tile tile = v.tile[at + warp];
                fit += (double)make_R<KT, SINGLE, DAMPED>(R + warp * R_WORDS, v, tables, tile, lane);
                make_Z<MT>(Z + warp * Z_WORDS, v, tile, Z_scale, lane);
            }
            __syncthreads();
            float acc[NH][4];
#pragma unroll
            for (int n = 0; n < NH; n++)
                acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;
            for (int c = 0; c < tiles; c++) {
                uint4 h = Z[c * Z_WORDS + 2 * m * 32 + lane], l = Z[c * Z_WORDS + (2 * m + 1) * 32 + lane];
                const uint32_t hi[4] = {h.x, h.y, h.z, h.w}, lo[4] = {l.x, l.y, l.z, l.w};
                multiply_tile<KT>(acc, hi, lo, R + c * R_WORDS, first, lane);
            }
#pragma unroll
            for (int n = 0; n < NH; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    sum[n][e] += acc[n][e];
            __syncthreads();
            if (++turn == TURNS) {
                give<NH>(v, group, KT, m, first, sum, S_scale, lane);
                turn = 0;
            }
        }
        at = stop;
        give<NH>(v, group, KT, m, first, sum, S_scale, lane);
        turn = 0;
    }
    if (DAMPED == WITH_FIT) {
        fit = block_sum(fit, (double *)smem);
        if (threadIdx.x == 0)
            v.part[blockIdx.x] = fit;
    }
}

int uni_cuda_moments_blocks(const struct uni_cuda *c)
{
    return c->v.single ? c->cores : 2 * c->cores;
}

template <int KT, int MT, int SINGLE> static int launch(const struct uni_cuda *c, int fit, cudaStream_t stream)
{
    auto kernel = !c->v.damped ? moments_kernel<KT, MT, SINGLE, 0>
                  : fit        ? moments_kernel<KT, MT, SINGLE, WITH_FIT>
                               : moments_kernel<KT, MT, SINGLE, 1>;
    int bytes = WARPS * (KT * 32 + MT * 64) * 16 + (c->v.damped ? (int)sizeof(float) * table_floats<KT>(c->v.recipe) : 0);
    int err = CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    if (err)
        return err;
    kernel<<<uni_cuda_moments_blocks(c), WARPS * 32, (size_t)bytes, stream>>>(c->v, (float)c->W_scale,
                                                                              c->v.S_scale / (R_SCALE * c->W_scale));
    return CUDA(cudaGetLastError());
}

template <int KT> static int launch_for(const struct uni_cuda *c, int fit, cudaStream_t stream)
{
    if (c->fast.dt == 4)
        return c->v.single ? launch<KT, 2, 1>(c, fit, stream) : launch<KT, 2, 0>(c, fit, stream);
    return c->v.single ? launch<KT, 4, 1>(c, fit, stream) : launch<KT, 4, 0>(c, fit, stream);
}

int uni_cuda_moments_fast(const struct uni_cuda *c, int fit, cudaStream_t stream)
{
    return c->fast.kt == 8    ? launch_for<8>(c, fit, stream)
           : c->fast.kt == 13 ? launch_for<13>(c, fit, stream)
                              : launch_for<16>(c, fit, stream);
}
