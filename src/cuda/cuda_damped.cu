/* SPDX-License-Identifier: BSD-3-Clause */
/* The damped update of all cells at once (harmony2.md 3.4): its recipe, and its objective. The sweeps themselves are
   cuda_sweep.cu's. R is a fixed combination of base and of what every past sweep's penalties made of it, so a round's penalty
   tables are kept, and R is made from them where it is needed. Of more sweeps than there are tables, the oldest count as
   unpenalised: their share is below 2^-23. */
#include <string.h>

#include "cuda_backend.h"
#include "cuda_device.cuh"

/* The slot of the sweep to come, which halves the shares of all before it. */
int uni_cuda_next_table(struct uni_cuda_recipe *r, int slots)
{
    int slot = r->n - 1;
    for (int t = 0; t < r->n; t++)
        r->share[t] /= 2;
    if (r->n > slots) {
        slot = r->slot[1];
        r->share[0] += r->share[1];
        memmove(r->share + 1, r->share + 2, (size_t)(r->n - 2) * sizeof *r->share);
        memmove(r->slot + 1, r->slot + 2, (size_t)(r->n - 2) * sizeof *r->slot);
        r->n--;
    }
    r->share[r->n] = 0.5f;
    r->slot[r->n++] = slot;
    return slot;
}

enum { THREADS = 256, WARPS = THREADS / 32, ROWS = 4 /* at once */, KEPT = 4 /* tables whose scales are loaded once a tile */ };

/* Eight columns of a row of base, as they are stored, and as numbers. */
template <int SINGLE> struct eight {
    uint4 word[SINGLE ? 2 : 1];

    __device__ __forceinline__ void take(const void *base, int64_t at)
    {
        word[0] = load_stream((const char *)base + at * (SINGLE ? 4 : 2));
        if (SINGLE)
            word[SINGLE ? 1 : 0] = load_stream((const char *)base + at * 4 + 16);
    }

    __device__ __forceinline__ void numbers(float (&f)[8]) const
    {
        if (SINGLE) {
            const uint4 a = word[0], b = word[SINGLE ? 1 : 0];
            f[0] = __uint_as_float(a.x), f[1] = __uint_as_float(a.y), f[2] = __uint_as_float(a.z), f[3] = __uint_as_float(a.w);
            f[4] = __uint_as_float(b.x), f[5] = __uint_as_float(b.y), f[6] = __uint_as_float(b.z), f[7] = __uint_as_float(b.w);
        } else {
            const float2 w[4] = {half_pair(word[0].x), half_pair(word[0].y), half_pair(word[0].z), half_pair(word[0].w)};
#pragma unroll
            for (int i = 0; i < 4; i++)
                f[2 * i] = w[i].x, f[2 * i + 1] = w[i].y;
        }
    }
};

/* q[u] += P w[u], eight columns */
__device__ __forceinline__ void add_table(float (&q)[ROWS][8], const float *P, const float (&w)[ROWS])
{
    const float4 a = __ldg((const float4 *)P), b = __ldg((const float4 *)P + 1);
#pragma unroll
    for (int u = 0; u < ROWS; u++) {
        q[u][0] += w[u] * a.x, q[u][1] += w[u] * a.y, q[u][2] += w[u] * a.z, q[u][3] += w[u] * a.w;
        q[u][4] += w[u] * b.x, q[u][5] += w[u] * b.y, q[u][6] += w[u] * b.z, q[u][7] += w[u] * b.w;
    }
}

/* What a lane holds of a tile: of one row of it, lane % 16, the scales of some tables and L. */
struct tile_rows {
    uint32_t row;
    int n, piece;
    float scale[KEPT], L;

    __device__ __forceinline__ void take(const uni_cuda_view &v, uni_cuda_tile tile)
    {
        row = tile.row, n = tile.packed & 31, piece = tile.packed >> 5;
        const uint32_t own = row + min((int)(threadIdx.x % 16), n - 1);
        L = v.L[own] * (1 / LN_2);
#pragma unroll
        for (int t = 0; t < KEPT; t++)
            scale[t] =
                t + 1 < v.recipe.n ? v.recipe.share[t + 1] * BASE_SCALE * v.row_scale[v.recipe.slot[t + 1] * uni_cuda_scales(v) + own] : 0;
    }
};

/* q = share / s + the tables, of eight columns from k on of some rows of a tile. */
__device__ __forceinline__ void make_q(float (&q)[ROWS][8], const uni_cuda_view &v, const tile_rows &tile, const int *row,
                                       const float *base_share, int k)
{
    float w[ROWS];
#pragma unroll
    for (int u = 0; u < ROWS; u++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            q[u][i] = base_share[u];
#pragma unroll
    for (int t = 0; t < KEPT; t++) {
#pragma unroll
        for (int u = 0; u < ROWS; u++)
            w[u] = __shfl_sync(~0u, tile.scale[t], row[u]);
        if (t + 1 < v.recipe.n)
            add_table(q, v.pen + ((int64_t)v.recipe.slot[t + 1] * v.P + tile.piece) * v.Kp + k, w);
    }
    for (int t = KEPT + 1; t < v.recipe.n; t++) {
#pragma unroll
        for (int u = 0; u < ROWS; u++)
            w[u] = v.recipe.share[t] * BASE_SCALE * v.row_scale[v.recipe.slot[t] * uni_cuda_scales(v) + tile.row + row[u]];
        add_table(q, v.pen + ((int64_t)v.recipe.slot[t] * v.P + tile.piece) * v.Kp + k, w);
    }
}

/* sum R (dist + sigma ln R) = sum sigma R (ln q - L), q = R / base, and sum sigma R ln R. A warp a tile, which is loaded whole
   where there is room; LANES lanes share a row, CH times eight columns each. q is times BASE_SCALE, as base is. */
template <int LANES, int CH, int SINGLE, int TERMS>
__global__ void __launch_bounds__(THREADS, CH > 1 ? 1 : 2) damped_fit(const __grid_constant__ uni_cuda_view v)
{
    constexpr int GROUPS = 32 / LANES, HELD = CH > 1 || SINGLE ? ROWS : 2 * ROWS; /* rows a group of lanes holds */
    __shared__ double room[WARPS];
    const int lane = threadIdx.x % LANES, group = threadIdx.x % 32 / LANES, stride = (int)gridDim.x * WARPS;
    float sigma[CH][8];
    double fit[2] = {0, 0};
#pragma unroll
    for (int c = 0; c < CH; c++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            sigma[c][i] = 8 * (c * LANES + lane) + i < v.K ? v.sigma[8 * (c * LANES + lane) + i] * (1 / BASE_SCALE) : 0;
    int at = blockIdx.x * WARPS + threadIdx.x / 32;
    uni_cuda_tile next = at < v.tiles ? v.tile[at] : uni_cuda_tile{0, 0};
    for (; at < v.tiles; at += stride) {
        tile_rows tile;
        float total = 0, entropy = 0;
        tile.take(v, next);
        if (at + stride < v.tiles)
            next = v.tile[at + stride];
#pragma unroll 1
        for (int begin = 0; begin < tile.n; begin += HELD * GROUPS) {
            eight<SINGLE> base[CH][HELD];
#pragma unroll
            for (int u = 0; u < HELD; u++)
#pragma unroll
                for (int c = 0; c < CH; c++)
                    base[c][u].take(v.base, (int64_t)(tile.row + min(begin + u * GROUPS + group, tile.n - 1)) * v.Kp +
                                                min(8 * (c * LANES + lane), v.Kp - 8));
#pragma unroll
            for (int half = 0; half < HELD; half += ROWS) {
                float s[ROWS] = {};
                int row[ROWS];
#pragma unroll
                for (int u = 0; u < ROWS; u++) {
                    row[u] = min(begin + (half + u) * GROUPS + group, tile.n - 1);
#pragma unroll
                    for (int c = 0; c < CH; c++) {
                        float f[8];
                        base[c][half + u].numbers(f);
                        if (8 * (c * LANES + lane) < v.Kp)
                            s[u] += ((f[0] + f[1]) + (f[2] + f[3])) + ((f[4] + f[5]) + (f[6] + f[7]));
                    }
#pragma unroll
                    for (int m = LANES / 2; m; m /= 2)
                        s[u] += __shfl_xor_sync(~0u, s[u], m);
                    s[u] = s[u] > 0 ? __fdividef(v.recipe.share[0] * BASE_SCALE, s[u]) : 0;
                }
#pragma unroll
                for (int c = 0; c < CH; c++) {
                    float q[ROWS][8];
                    make_q(q, v, tile, row, s, min(8 * (c * LANES + lane), v.Kp - 8)); /* past the row's end sigma is 0 */
#pragma unroll
                    for (int u = 0; u < ROWS; u++) {
                        const float there = begin + (half + u) * GROUPS + group < tile.n ? 1 : 0,
                                    L = __shfl_sync(~0u, tile.L, row[u]);
                        float f[8], part = 0, rest = 0;
                        base[c][half + u].numbers(f);
#pragma unroll
                        for (int i = 0; i < 8; i++) {
                            const float R = f[i] * q[u][i], x = sigma[c][i] * R;
                            part += x * (log2_of(fmaxf(q[u][i], 1e-37f)) - L);
                            if (TERMS)
                                rest += x * log2_of(fmaxf(R * (1 / BASE_SCALE), 1e-37f));
                        }
                        total += there * part;
                        entropy += there * rest;
                    }
                }
            }
        }
        fit[0] += ((double)total - (double)entropy) * (double)LN_2;
        fit[1] += (double)entropy * (double)LN_2;
    }
    for (int i = 0; i < 2; i++) {
        double sum = block_sum(fit[i], room);
        if (threadIdx.x == 0)
            v.part[2 * blockIdx.x + i] = sum;
    }
}

int uni_cuda_fit_blocks(const struct uni_cuda *c)
{
    return 2 * c->cores;
}

template <int LANES, int CH, int SINGLE> static int launch(const struct uni_cuda *c, int terms, cudaStream_t stream)
{
    if (terms)
        damped_fit<LANES, CH, SINGLE, 1><<<uni_cuda_fit_blocks(c), THREADS, 0, stream>>>(c->v);
    else
        damped_fit<LANES, CH, SINGLE, 0><<<uni_cuda_fit_blocks(c), THREADS, 0, stream>>>(c->v);
    return CUDA(cudaGetLastError());
}

template <int LANES, int CH> static int launch_for(const struct uni_cuda *c, int terms, cudaStream_t stream)
{
    return c->v.single ? launch<LANES, CH, 1>(c, terms, stream) : launch<LANES, CH, 0>(c, terms, stream);
}

int uni_cuda_damped_fit(const struct uni_cuda *c, int terms, cudaStream_t stream)
{
    return c->v.Kp <= 64    ? launch_for<8, 1>(c, terms, stream)
           : c->v.Kp <= 128 ? launch_for<16, 1>(c, terms, stream)
           : c->v.Kp <= 256 ? launch_for<32, 1>(c, terms, stream)
           : c->v.Kp <= 512 ? launch_for<32, 2>(c, terms, stream)
                            : launch_for<32, 4>(c, terms, stream);
}
