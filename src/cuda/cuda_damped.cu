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

enum { THREADS = 256, WARPS = THREADS / 32 };

/* Eight columns of a row of base. */
template <int SINGLE> __device__ __forceinline__ void eight(float (&f)[8], const void *base, int64_t at)
{
    if (SINGLE) {
        uint4 a = load_stream((const float *)base + at), b = load_stream((const float *)base + at + 4);
        f[0] = __uint_as_float(a.x), f[1] = __uint_as_float(a.y), f[2] = __uint_as_float(a.z), f[3] = __uint_as_float(a.w);
        f[4] = __uint_as_float(b.x), f[5] = __uint_as_float(b.y), f[6] = __uint_as_float(b.z), f[7] = __uint_as_float(b.w);
    } else {
        uint4 a = load_stream((const __half *)base + at);
        float2 w[4] = {half_pair(a.x), half_pair(a.y), half_pair(a.z), half_pair(a.w)};
#pragma unroll
        for (int i = 0; i < 4; i++)
            f[2 * i] = w[i].x, f[2 * i + 1] = w[i].y;
    }
}

/* q = R / base of eight columns of ROWS rows of a piece: slots' tables times the rows' scales. */
template <int ROWS>
__device__ __forceinline__ void add_tables(float (&q)[ROWS][8], const uni_cuda_view &v, int piece, const uint32_t (&row)[ROWS],
                                           int k)
{
    for (int t = 1; t < v.recipe.n; t++) {
        const float *P = v.pen + ((int64_t)v.recipe.slot[t] * v.P + piece) * v.Kp + k;
        const float *scale = v.row_scale + (int64_t)v.recipe.slot[t] * v.N;
        float4 a = __ldg((const float4 *)P), b = __ldg((const float4 *)P + 1);
#pragma unroll
        for (int u = 0; u < ROWS; u++) {
            float w = v.recipe.share[t] * __ldg(scale + row[u]);
            q[u][0] += w * a.x, q[u][1] += w * a.y, q[u][2] += w * a.z, q[u][3] += w * a.w;
            q[u][4] += w * b.x, q[u][5] += w * b.y, q[u][6] += w * b.z, q[u][7] += w * b.w;
        }
    }
}

/* sum R (dist + sigma ln R) = sum sigma R (ln q - L), and sum sigma R ln R: base drops out of the first. LANES lanes share a row,
   CH times eight columns each. */
template <int LANES, int CH, int SINGLE> __global__ void __launch_bounds__(THREADS) damped_fit(uni_cuda_view v, int terms)
{
    constexpr int GROUPS = 32 / LANES, ROWS = CH > 1 ? 1 : 4;
    __shared__ double room[WARPS];
    int lane = threadIdx.x % LANES, group = threadIdx.x % 32 / LANES;
    double fit[2] = {0, 0};
    for (int64_t at = blockIdx.x * WARPS + threadIdx.x / 32; at < v.tiles; at += (int64_t)gridDim.x * WARPS) {
        const uni_cuda_tile tile = v.tile[at];
        uint32_t n = tile.packed & 31;
        float total = 0, entropy = 0;
        for (uint32_t first = 0; first < n; first += ROWS * GROUPS) {
            float f[CH][ROWS][8], s[ROWS] = {}, q[ROWS][8];
            uint32_t row[ROWS];
#pragma unroll
            for (int u = 0; u < ROWS; u++)
                row[u] = tile.row + min(first + u * GROUPS + group, n - 1);
#pragma unroll
            for (int c = 0; c < CH; c++)
#pragma unroll
                for (int u = 0; u < ROWS; u++) {
                    int k = 8 * (c * LANES + lane);
                    if (k < v.Kp)
                        eight<SINGLE>(f[c][u], v.base, (int64_t)row[u] * v.Kp + k);
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        f[c][u][i] = k < v.Kp ? f[c][u][i] : 0;
                        s[u] += f[c][u][i];
                    }
                }
#pragma unroll
            for (int u = 0; u < ROWS; u++) {
#pragma unroll
                for (int m = LANES / 2; m; m /= 2)
                    s[u] += __shfl_xor_sync(~0u, s[u], m);
                s[u] = s[u] > 0 ? v.recipe.share[0] / s[u] : 0;
            }
#pragma unroll
            for (int c = 0; c < CH; c++) {
                int k = 8 * (c * LANES + lane);
#pragma unroll
                for (int u = 0; u < ROWS; u++)
#pragma unroll
                    for (int i = 0; i < 8; i++)
                        q[u][i] = s[u];
                if (k < v.Kp)
                    add_tables<ROWS>(q, v, (int)(tile.packed >> 5), row, k);
#pragma unroll
                for (int u = 0; u < ROWS; u++) {
                    if (first + u * GROUPS + group >= n || k >= v.Kp)
                        continue;
                    float L = v.L[row[u]];
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        float R = f[c][u][i] * q[u][i], weight = k + i < v.K ? v.sigma[k + i] * R : 0;
                        if (R > 0)
                            total += weight * (__logf(q[u][i] * BASE_SCALE) - L);
                        if (terms && R > 1e-37f)
                            entropy += weight * __logf(R);
                    }
                }
            }
        }
        fit[0] += (double)total - (double)entropy;
        fit[1] += (double)entropy;
    }
    for (int i = 0; i < 2; i++) {
        double sum = block_sum(fit[i], room);
        if (threadIdx.x == 0)
            v.part[2 * blockIdx.x + i] = sum;
    }
}

template <int LANES, int CH> static int launch(const struct uni_cuda *c, int terms, cudaStream_t stream)
{
    if (c->v.single)
        damped_fit<LANES, CH, 1><<<2 * c->cores, THREADS, 0, stream>>>(c->v, terms);
    else
        damped_fit<LANES, CH, 0><<<2 * c->cores, THREADS, 0, stream>>>(c->v, terms);
    return CUDA(cudaGetLastError());
}

int uni_cuda_damped_fit(const struct uni_cuda *c, int terms, cudaStream_t stream)
{
    return c->v.Kp <= 64    ? launch<8, 1>(c, terms, stream)
           : c->v.Kp <= 128 ? launch<16, 1>(c, terms, stream)
           : c->v.Kp <= 256 ? launch<32, 1>(c, terms, stream)
           : c->v.Kp <= 512 ? launch<32, 2>(c, terms, stream)
                            : launch<32, 4>(c, terms, stream);
}
