/* SPDX-License-Identifier: BSD-3-Clause */
/* The passes for any D and K, in float32 and without tensor cores: the path for shapes that the fast kernels do not cover. A
   block takes one tile of 16 cells of one piece at a time. Here too are the two that are not worth a fast one: R for the caller,
   and the objective's entropy where its terms are asked for. */
#include <cuda_fp16.h>

#include "cuda_backend.h"
#include "cuda_device.cuh"

enum { THREADS = 256, WARPS = THREADS / 32, QUADS = TILE / 4 };

__device__ __forceinline__ float base_at(const uni_cuda_view &v, int64_t row, int k)
{
    return v.single ? ((const float *)v.base)[row * v.Kp + k] : __half2float(((const __half *)v.base)[row * v.Kp + k]);
}

/* What a row's sum s is over: base P; damped, base itself. */
__device__ __forceinline__ float weight_at(const uni_cuda_view &v, int64_t row, int piece, int k)
{
    float base = base_at(v, row, k);
    return v.damped ? base : base * v.pen[(int64_t)piece * v.Kp + k];
}

/* R from that and 1 / s */
__device__ __forceinline__ float R_at(const uni_cuda_view &v, int64_t row, int piece, int k, float weight, float inverse)
{
    if (!v.damped)
        return weight * inverse;
    float q = v.recipe.share[0] * inverse;
    for (int t = 1; t < v.recipe.n; t++)
        q += v.recipe.share[t] * v.row_scale[v.recipe.slot[t] * uni_cuda_scales(v) + row] *
             v.pen[((int64_t)v.recipe.slot[t] * v.P + piece) * v.Kp + k];
    return weight * q;
}

/* R (TILE,Kp), zero where there is no row */
__device__ void tile_R(const uni_cuda_view &v, uni_cuda_tile tile, float *R)
{
    int lane = threadIdx.x % 32;
    for (int i = threadIdx.x / 32; i < TILE; i += WARPS) {
        float s = 0;
        bool valid = i < (int)(tile.packed & 31);
        int64_t row = (int64_t)tile.row + i;
        for (int k = lane; k < v.Kp; k += 32) {
            float r = valid ? weight_at(v, row, tile.packed >> 5, k) : 0;
            R[i * v.Kp + k] = r;
            s += r;
        }
        s = warp_sum(s);
        float f = s > 0 ? 1 / s : 0;
        for (int k = lane; k < v.Kp; k += 32)
            R[i * v.Kp + k] = valid ? R_at(v, row, tile.packed >> 5, k, R[i * v.Kp + k], f) : 0;
    }
}

/* z (TILE,D) = Z - R W step, W the sum of the group's rows */
__device__ void tile_corrected(const uni_cuda_view &v, uni_cuda_tile tile, const float *W, float step, const float *R, float *z)
{
    const int *rows = v.group_row + v.piece[tile.packed >> 5].group * v.V;
    for (int i = threadIdx.x; i < QUADS * v.D; i += THREADS) {
        int d = i % v.D, first = i / v.D * 4;
        float a[4] = {0, 0, 0, 0};
        for (int u = 0; W && u < v.V; u++) {
            const float *from = W + (int64_t)rows[u] * v.K * v.D + d;
            for (int k = 0; k < v.K; k++) {
                float w = from[(int64_t)k * v.D];
                for (int c = 0; c < 4; c++)
                    a[c] += R[(first + c) * v.Kp + k] * w;
            }
        }
        for (int c = 0; c < 4; c++)
            z[(first + c) * v.D + d] =
                first + c < (int)(tile.packed & 31) ? v.Z[((int64_t)tile.row + first + c) * v.Dz + d] - a[c] * step : 0;
    }
}

__device__ void normalise_rows(const uni_cuda_view &v, float *z)
{
    int lane = threadIdx.x % 32;
    for (int i = threadIdx.x / 32; i < TILE; i += WARPS) {
        float most = 0, squares = 0;
        for (int d = lane; d < v.D; d += 32)
            most = fmaxf(most, fabsf(z[i * v.D + d]));
        most = warp_most(most);
        for (int d = lane; d < v.D && most > 0; d += 32) {
            float x = z[i * v.D + d] / most;
            squares += x * x;
            z[i * v.D + d] = x;
        }
        squares = warp_sum(squares);
        float f = squares > 0 ? 1 / sqrtf(squares) : 0;
        for (int d = lane; d < v.D; d += 32)
            z[i * v.D + d] *= f;
    }
}

/* e (TILE,Kp) = logits in base 2 */
__device__ void tile_logits(const uni_cuda_view &v, const float *z, float *e)
{
    for (int i = threadIdx.x; i < QUADS * v.Kp; i += THREADS) {
        int k = i % v.Kp, first = i / v.Kp * 4;
        float a[4] = {0, 0, 0, 0};
        for (int d = 0; d < v.D; d++) {
            float y = v.Yt[(int64_t)d * v.Kp + k];
            for (int c = 0; c < 4; c++)
                a[c] += z[(first + c) * v.D + d] * y;
        }
        float scale = k < v.K ? 2 * 1.44269504f / v.sigma[k] : 0;
        for (int c = 0; c < 4; c++)
            e[(first + c) * v.Kp + k] = k < v.K ? scale * a[c] - scale : -1e30f;
    }
}

/* base and L of the tile; e becomes base without scale. */
__device__ void tile_base(const uni_cuda_view &v, uni_cuda_tile tile, float *e, bool want_fit, double *fit)
{
    int lane = threadIdx.x % 32;
    for (int i = threadIdx.x / 32; i < TILE; i += WARPS) {
        float most = -1e30f, mass = 0, weights = 0, entropy = 0;
        bool valid = i < (int)(tile.packed & 31);
        int64_t row = (int64_t)tile.row + i;
        for (int k = lane; k < v.Kp; k += 32)
            most = fmaxf(most, e[i * v.Kp + k]);
        most = warp_most(most);
        for (int k = lane; k < v.Kp; k += 32) {
            float x = exp2f(e[i * v.Kp + k] - most);
            e[i * v.Kp + k] = x;
            mass += x;
        }
        mass = warp_sum(mass);
        float f = valid ? 1 / mass : 0, L = logf(mass) + most * LN_2;
        for (int k = lane; k < v.Kp; k += 32) {
            float b = e[i * v.Kp + k] * f;
            e[i * v.Kp + k] = b;
            if (valid && v.single)
                ((float *)v.base)[row * v.Kp + k] = b * BASE_SCALE;
            else if (valid)
                ((__half *)v.base)[row * v.Kp + k] = __float2half_rn(b * BASE_SCALE);
            float weight = k < v.K ? v.sigma[k] * b : 0;
            weights += weight;
            entropy += b > 1e-37f ? weight * logf(b) : 0;
        }
        if (valid && lane == 0)
            v.L[row] = L;
        if (want_fit && valid) {
            fit[0] -= (double)entropy + (double)weights * (double)L;
            fit[1] += (double)entropy;
        }
    }
}

__global__ void __launch_bounds__(THREADS) assign_plain(uni_cuda_view v, uint32_t from, uint32_t to, const float *W, float step,
                                                        int want_fit, float *out, int64_t row_from)
{
    extern __shared__ float smem[];
    __shared__ double room[WARPS];
    float *R = smem, *z = R + TILE * v.Kp, *sum = z + TILE * v.D;
    double fit[2] = {0, 0};
    int piece = -1;
    uint32_t at = from + (uint32_t)((uint64_t)(to - from) * blockIdx.x / gridDim.x),
             end = from + (uint32_t)((uint64_t)(to - from) * (blockIdx.x + 1) / gridDim.x);
    for (; at <= end; at++) { /* once more at the end, to give the sums away */
        uni_cuda_tile tile = at < end ? v.tile[at] : uni_cuda_tile{0, ~0u};
        int now = tile.packed >> 5;
        for (int k = threadIdx.x; k < v.Kp && (now != piece || at == end); k += THREADS) {
            if (piece >= 0 && !out && k < v.K)
                add_exact(v.M[0] + (int64_t)piece * v.Kp + k, __double2ll_rn((double)sum[k] * MASS_SCALE));
            sum[k] = 0;
        }
        if (at == end)
            break;
        piece = now;
        if (W)
            tile_R(v, tile, R);
        __syncthreads();
        tile_corrected(v, tile, W, step, R, z);
        __syncthreads();
        if (out) {
            for (int i = threadIdx.x; i < (int)(tile.packed & 31) * v.D; i += THREADS)
                out[((int64_t)tile.row - row_from) * v.D + i] = z[i];
        } else {
            normalise_rows(v, z);
            __syncthreads();
            tile_logits(v, z, R);
            __syncthreads();
            tile_base(v, tile, R, want_fit, fit);
            __syncthreads();
            for (int k = threadIdx.x; k < v.Kp; k += THREADS)
                for (int i = 0; i < TILE; i++)
                    sum[k] += R[i * v.Kp + k];
        }
        __syncthreads();
    }
    for (int i = 0; i < 2 && want_fit; i++) {
        double total = block_sum(fit[i], room);
        if (threadIdx.x == 0)
            v.part[2 * blockIdx.x + i] = total;
    }
}

int uni_cuda_assign_plain(const struct uni_cuda *c, const struct uni_cuda_pass *how, int blocks, cudaStream_t stream)
{
    int bytes = (TILE * (c->v.Kp + c->v.D) + c->v.Kp) * 4;
    int err = CUDA(cudaFuncSetAttribute(assign_plain, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    if (err)
        return err;
    assign_plain<<<blocks, THREADS, (size_t)bytes, stream>>>(
        c->v, how->from, how->to, how->corrected ? c->v.W[c->W_now] : nullptr, c->step, how->fit, how->out, how->row_from);
    return CUDA(cudaGetLastError());
}

/* ---- R for the caller, and what needs its logarithm ---------------------------------------------------------------------- */

__global__ void __launch_bounds__(THREADS) give_R(uni_cuda_view v, uint32_t from, float *out, int64_t row_from)
{
    extern __shared__ float smem[];
    uni_cuda_tile tile = v.tile[from + blockIdx.x];
    tile_R(v, tile, smem);
    __syncthreads();
    for (int i = threadIdx.x; i < (int)(tile.packed & 31) * v.K; i += THREADS)
        out[((int64_t)tile.row - row_from) * v.K + i] = smem[i / v.K * v.Kp + i % v.K];
}

int uni_cuda_assignments(const struct uni_cuda *c, const struct uni_cuda_pass *how, cudaStream_t stream)
{
    int bytes = TILE * c->v.Kp * 4, err = CUDA(cudaFuncSetAttribute(give_R, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    if (err)
        return err;
    give_R<<<how->to - how->from, THREADS, (size_t)bytes, stream>>>(c->v, how->from, how->out, how->row_from);
    return CUDA(cudaGetLastError());
}

/* sum sigma R ln R */
__global__ void __launch_bounds__(THREADS) entropy(uni_cuda_view v)
{
    extern __shared__ float smem[];
    __shared__ double room[WARPS];
    double sum = 0;
    for (int64_t at = blockIdx.x; at < v.tiles; at += gridDim.x) {
        tile_R(v, v.tile[at], smem);
        __syncthreads();
        float part = 0;
        for (int i = threadIdx.x; i < TILE * v.Kp; i += THREADS) {
            float r = smem[i];
            part += r > 1e-37f ? v.sigma[i % v.Kp] * r * logf(r) : 0;
        }
        sum += (double)part;
        __syncthreads();
    }
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        v.entropy[blockIdx.x] = sum;
}

int uni_cuda_entropy(const struct uni_cuda *c, cudaStream_t stream)
{
    int bytes = TILE * c->v.Kp * 4, err = CUDA(cudaFuncSetAttribute(entropy, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    if (err)
        return err;
    entropy<<<ENTROPY_BLOCKS, THREADS, (size_t)bytes, stream>>>(c->v);
    return CUDA(cudaGetLastError());
}

/* ---- moments ------------------------------------------------------------------------------------------------------------- */

/* 1 / s of every row */
__global__ void __launch_bounds__(THREADS) row_scales(uni_cuda_view v, float *scale)
{
    int lane = threadIdx.x % 32;
    for (int64_t at = blockIdx.x; at < v.tiles; at += gridDim.x) {
        uni_cuda_tile tile = v.tile[at];
        for (int i = threadIdx.x / 32; i < (int)(tile.packed & 31); i += WARPS) {
            float s = 0;
            for (int k = lane; k < v.Kp; k += 32)
                s += weight_at(v, (int64_t)tile.row + i, tile.packed >> 5, k);
            s = warp_sum(s);
            if (lane == 0)
                scale[(int64_t)tile.row + i] = s > 0 ? 1 / s : 0;
        }
    }
}

enum { SIDE = 64, TURNS = 64 };

/* A (64 clusters x 64 dimensions) part of S over a share of the tiles; 4 x 4 sums a thread. */
__global__ void __launch_bounds__(THREADS) moments_plain(uni_cuda_view v, int sides)
{
    __shared__ float R[TILE][SIDE + 4], Z[TILE][SIDE + 4];
    int k0 = (int)(blockIdx.y / sides) * SIDE, d0 = (int)(blockIdx.y % sides) * SIDE, tk = threadIdx.x / 16 * 4,
        td = threadIdx.x % 16 * 4, turns = 0;
    uint32_t at = (uint32_t)((uint64_t)v.tiles * blockIdx.x / gridDim.x),
             end = (uint32_t)((uint64_t)v.tiles * (blockIdx.x + 1) / gridDim.x);
    float sum[4][4] = {};
    for (; at < end; at++) {
        uni_cuda_tile tile = v.tile[at];
        int piece = tile.packed >> 5, group = v.piece[piece].group;
        for (int i = threadIdx.x; i < TILE * SIDE; i += THREADS) {
            int c = i / SIDE, k = k0 + i % SIDE, d = d0 + i % SIDE;
            bool valid = c < (int)(tile.packed & 31);
            int64_t row = (int64_t)tile.row + c;
            R[c][i % SIDE] = valid && k < v.K ? R_at(v, row, piece, k, weight_at(v, row, piece, k), v.row_sum[row]) : 0;
            Z[c][i % SIDE] = valid && d < v.D ? v.Z[row * v.Dz + d] : 0;
        }
        __syncthreads();
        for (int c = 0; c < TILE; c++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    sum[i][j] += R[c][tk + i] * Z[c][td + j];
        __syncthreads();
        if (++turns < TURNS && at + 1 < end && at + 1 < v.group_tile[group + 1])
            continue;
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                int k = k0 + tk + i, d = d0 + td + j;
                if (k < v.K && d < v.D)
                    add_exact(v.S + ((int64_t)group * v.K + k) * v.D + d, __double2ll_rn((double)sum[i][j] * v.S_scale));
                sum[i][j] = 0;
            }
        turns = 0;
    }
}

/* Of the block update, where no sweep has left them. */
int uni_cuda_row_scales(const struct uni_cuda *c, cudaStream_t stream)
{
    row_scales<<<8 * c->cores, THREADS, 0, stream>>>(c->v, c->v.row_scale);
    return CUDA(cudaGetLastError());
}

int uni_cuda_moments_plain(const struct uni_cuda *c, cudaStream_t stream)
{
    int sides = (c->v.D + SIDE - 1) / SIDE, shares = c->v.tiles < 2 * c->cores ? c->v.tiles : 2 * c->cores;
    row_scales<<<8 * c->cores, THREADS, 0, stream>>>(c->v, c->v.row_sum);
    moments_plain<<<dim3((unsigned)shares, (unsigned)((c->v.K + SIDE - 1) / SIDE * sides)), THREADS, 0, stream>>>(c->v, sides);
    return CUDA(cudaGetLastError());
}
