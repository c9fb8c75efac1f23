/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables on the device: what assign leaves for the sweeps, O and the objective after them, and moments for the host. */
#include "../formula.h"
#include "cuda_totals.cuh"

enum { THREADS = 256 };

/* Zeros, where the last round left other numbers. */
__global__ void __launch_bounds__(THREADS) clear_tables(uint4 *a, int64_t n, uint4 *b, int64_t m)
{
    const int64_t step = (int64_t)gridDim.x * THREADS, first = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    for (int64_t i = first; i < n; i += step)
        a[i] = make_uint4(0, 0, 0, 0);
    for (int64_t i = first; i < m; i += step)
        b[i] = make_uint4(0, 0, 0, 0);
}

/* Before assign adds to M. M[0], M[1] and X lie one after another. The steps of a block update leave zeros in the masses of the
   sweep before the last; of one variable start_levels stores X, but for the sum of r. */
int uni_cuda_clear_tables(struct uni_cuda *c, cudaStream_t stream)
{
    const struct uni_cuda_view *v = &c->v;
    const int64_t row = (int64_t)v->Kp * (int64_t)sizeof *v->X / (int64_t)sizeof(uint4), table = v->parts * row;
    uint4 *first = (uint4 *)v->M[0], *X = (uint4 *)v->X;
    int64_t n = X + table - first, m = 0;
    if (c->other_clear) {
        first = (uint4 *)v->M[c->parity];
        n = table;
        X += v->V > 1 ? 0 : v->r_part * row;
        m = v->V > 1 ? table : row;
    }
    clear_tables<<<8 * c->cores, THREADS, 0, stream>>>(first, n, X, m);
    c->parity = 0;
    c->other_clear = !v->damped;
    return CUDA(cudaGetLastError());
}

/* Zeros for S of the groups that the moments by warpgroups add to. */
__global__ void __launch_bounds__(THREADS) clear_moments(uni_cuda_view v, uint32_t blocks)
{
    const int64_t table = (int64_t)v.K * v.D;
    const uint32_t first = v.group_chunk[blockIdx.x], last = v.group_chunk[blockIdx.x + 1],
                   block = (uint32_t)((((uint64_t)first + 1) * blocks - 1) / max(v.chunks, 1)); /* that has the first chunk */
    if (uni_cuda_stores(first, last, uni_cuda_moments_begin(v, block, blocks), uni_cuda_moments_begin(v, block + 1, blocks)))
        return;
    for (int64_t i = (int64_t)blockIdx.y * THREADS + threadIdx.x; i < table; i += (int64_t)gridDim.y * THREADS)
        v.S[blockIdx.x * table + i] = 0;
}

int uni_cuda_clear_moments(const struct uni_cuda *c, cudaStream_t stream)
{
    const unsigned parts = c->v.G < 2 * c->cores ? 8 : 2;
    clear_moments<<<dim3((unsigned)c->v.G, parts), THREADS, 0, stream>>>(c->v, (uint32_t)uni_cuda_hopper_moments_blocks(c));
    return CUDA(cudaGetLastError());
}

/* What assign leaves in the first turn of M are the pieces' masses; R is base now: no penalty. Of several variables: the parts of
   levels and of r, and X of every level's first part. */
__global__ void __launch_bounds__(128) start_parts(uni_cuda_view v, int pieces)
{
    int block = blockIdx.y, first = v.block_piece[block] + (int)blockIdx.x * pieces,
        end = min(first + pieces, v.block_piece[block + 1]);
    long long *M = v.M[0];
    for (int k = threadIdx.x; k < v.Kp && first < end; k += 128) {
        long long r = 0;
#pragma unroll 4
        for (int i = first; i < end; i++) {
            long long m = M[(int64_t)i * v.Kp + k];
            r += m;
            for (int u = 0; u < v.V && m; u++) {
                const int part = v.place[(int64_t)i * v.V + u].part, level = v.group_row[v.piece[i].group * v.V + u];
                const int level_first = v.level_first[level];
                add_exact(M + (int64_t)part * v.Kp + k, m);
                if (part != level_first && part != v.level_last[level] && !v.damped)
                    add_exact(v.X + (int64_t)level_first * v.Kp + k, m);
            }
            if (!v.damped)
                v.pen[(int64_t)i * v.Kp + k] = k < v.K;
        }
        add_exact(M + (int64_t)(v.r_part + block) * v.Kp + k, r);
        if (block != 0 && block != v.Q - 1)
            add_exact(v.X + (int64_t)v.r_part * v.Kp + k, r);
    }
}

/* The same of one variable, whose levels' parts are the pieces: a thread has a column of some levels in every so manieth block.
 */
template <int LEVELS, int BLOCKS> __global__ void __launch_bounds__(128 * BLOCKS, 8 / BLOCKS) start_levels(uni_cuda_view v)
{
    __shared__ long long room[BLOCKS][LEVELS][128];
    const int level = (int)blockIdx.x * LEVELS, k = (int)blockIdx.y * 128 + (int)threadIdx.x;
    const bool inside = k < v.Kp;
    long long *M = v.M[0] + k, sum[LEVELS] = {}, inner = 0;
    for (int q = threadIdx.y; q < v.Q; q += BLOCKS) {
        int piece[LEVELS];
        long long m[LEVELS], r = 0;
#pragma unroll
        for (int j = 0; j < LEVELS; j++)
            piece[j] = inside && level + j < v.G ? v.group_piece[(int64_t)(level + j) * v.Q + q] : -1;
#pragma unroll
        for (int j = 0; j < LEVELS; j++)
            m[j] = piece[j] >= 0 ? M[(int64_t)piece[j] * v.Kp] : 0;
#pragma unroll
        for (int j = 0; j < LEVELS; j++) {
            r += m[j];
            sum[j] += m[j];
            if (piece[j] >= 0 && !v.damped)
                v.pen[(int64_t)piece[j] * v.Kp + k] = k < v.K;
        }
        if (r)
            add_exact(M + (int64_t)(v.r_part + q) * v.Kp, r);
        inner += q != 0 && q != v.Q - 1 ? r : 0;
    }
    if (inner)
        add_exact(v.X + (int64_t)v.r_part * v.Kp + k, inner);
    if (v.damped) /* there is no X */
        return;
#pragma unroll
    for (int j = 0; j < LEVELS; j++)
        room[threadIdx.y][j][threadIdx.x] = sum[j];
    __syncthreads();
    for (int j = threadIdx.y; j < LEVELS && level + j < v.G && inside; j += BLOCKS) {
        const int first = v.level_first[level + j], last = v.level_last[level + j];
        if (first < 0 || first == last) /* no cells, or one part: nothing is left of the others */
            continue;
        long long X = -M[(int64_t)first * v.Kp] - M[(int64_t)last * v.Kp];
        for (int i = 0; i < BLOCKS; i++)
            X += room[i][j][threadIdx.x];
        v.X[(int64_t)first * v.Kp + k] = X;
    }
}

int uni_cuda_start_tables(struct uni_cuda *c, cudaStream_t stream)
{
    const int G = c->v.G, pieces = G < 256 ? 4 : G < 2048 ? G / 64 : 32; /* of a block: sums of r meet in few places */
    const unsigned columns = (unsigned)(c->v.Kp + 127) / 128;
    if (c->v.V > 1)
        start_parts<<<dim3((unsigned)((G + pieces - 1) / pieces), (unsigned)c->v.Q), 128, 0, stream>>>(c->v, pieces);
    else if (G <= c->cores)
        start_levels<2, 8><<<dim3((unsigned)(G + 1) / 2, columns), dim3(128, 8), 0, stream>>>(c->v);
    else
        start_levels<8, 4><<<dim3((unsigned)(G + 7) / 8, columns), dim3(128, 4), 0, stream>>>(c->v);
    return CUDA(cudaGetLastError());
}

/* A pass's parts of the objective, how many: what it leaves in v.part. */
struct fit_parts {
    int n, of_base, terms;
};

__device__ void finish_fit(const uni_cuda_view &v, const fit_parts &parts, double *room)
{
    double total = sum_of(v.part, parts.n, parts.of_base ? 2 : 1, room), entropy = 0;
    if (parts.of_base)
        entropy = sum_of(v.part + 1, parts.n, 2, room);
    else if (parts.terms)
        entropy = sum_of(v.entropy, ENTROPY_BLOCKS, 1, room);
    double diversity = sum_of(v.diversity, v.levels, 1, room);
    if (threadIdx.x == 0) {
        v.result[RESULT_TOTAL] = parts.of_base ? total + entropy : total;
        v.result[RESULT_ENTROPY] = entropy;
        v.result[RESULT_DIVERSITY] = diversity;
    }
}

/* O of a level, and its part of sum sigma theta O ln((O + E + b) / (a E + b)); the block that ends last adds up the objective
   where there is one. */
__global__ void __launch_bounds__(128) level_tables(uni_cuda_view v, int parity, fit_parts parts)
{
    __shared__ double room[4];
    int l = blockIdx.x;
    double sum = 0, theta = v.level_theta[l], share = v.level_share[l];
    for (int k = threadIdx.x; k < v.K; k += 128) {
        double O = total_of(v, parity, l, k), E = share * total_of(v, parity, v.levels, k);
        if (v.V == 1)
            v.O[(int64_t)l * v.K + k] = O;
        sum += O > 0 ? uni_diversity_term((double)v.sigma[k], theta, O, E, (double)v.scale, (double)v.add) : 0;
    }
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        v.diversity[l] = sum;
    if (parts.n > 0 && ends_last(v.ended + v.K + 1, v.levels))
        finish_fit(v, parts, room);
}

/* O of a group of several variables' levels: its pieces */
__global__ void __launch_bounds__(128) group_tables(uni_cuda_view v, int parity)
{
    const long long *M = masses(v, parity);
    for (int k = threadIdx.x; k < v.K; k += 128) {
        long long sum = 0;
        for (int q = 0; q < v.Q; q++) {
            int piece = v.group_piece[(int64_t)blockIdx.x * v.Q + q];
            sum += piece >= 0 ? M[(int64_t)piece * v.Kp + k] : 0;
        }
        v.O[(int64_t)blockIdx.x * v.K + k] = (double)sum * (1 / MASS_SCALE);
    }
}

int uni_cuda_end_tables(struct uni_cuda *c, int parts, int of_base, int terms, cudaStream_t stream)
{
    level_tables<<<c->v.levels, 128, 0, stream>>>(c->v, c->parity, {parts, of_base, terms});
    if (c->v.V > 1)
        group_tables<<<c->v.G, 128, 0, stream>>>(c->v, c->parity);
    return CUDA(cudaGetLastError());
}

/* S for the host: doubles in its place. */
__global__ void to_double(long long *S, int64_t n, double scale)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
        S[i] = __double_as_longlong((double)S[i] / scale);
}

int uni_cuda_moments_to_double(const struct uni_cuda *c, long long *S, int64_t rows, cudaStream_t stream)
{
    to_double<<<4 * c->cores, 256, 0, stream>>>(S, rows * c->p->K * c->p->D, c->v.S_scale);
    return CUDA(cudaGetLastError());
}

/* A group's moments to its levels', and to the last row where it takes part. */
__global__ void __launch_bounds__(THREADS) by_level(uni_cuda_view v)
{
    const int64_t table = (int64_t)v.K * v.D, g = blockIdx.x;
    for (int64_t i = (int64_t)blockIdx.y * THREADS + threadIdx.x; i < table; i += (int64_t)gridDim.y * THREADS) {
        const long long S = v.S[g * table + i];
        if (S == 0)
            continue;
        for (int u = 0; u < v.V; u++)
            add_exact(v.level_S + v.group_row[g * v.V + u] * table + i, S);
        if (v.takes_part[g * v.K + i / v.D])
            add_exact(v.level_S + v.levels * table + i, S);
    }
}

int uni_cuda_moments_by_level(const struct uni_cuda *c, cudaStream_t stream)
{
    by_level<<<dim3((unsigned)c->v.G, 8), THREADS, 0, stream>>>(c->v);
    return CUDA(cudaGetLastError());
}

/* ---- the plain path's centroids ------------------------------------------------------------------------------------------ */

__global__ void turn_Y(uni_cuda_view v)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < v.D * v.Kp; i += gridDim.x * blockDim.x)
        v.Yt[i] = i % v.Kp < v.K ? v.Y[(int64_t)(i % v.Kp) * v.D + i / v.Kp] : 0;
}

int uni_cuda_turn_Y(const struct uni_cuda *c, cudaStream_t stream)
{
    turn_Y<<<64, 256, 0, stream>>>(c->v);
    return CUDA(cudaGetLastError());
}
