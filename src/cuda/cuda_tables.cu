/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables on the device: what assign leaves for the sweeps, O and the objective after them, and the ridge solve of ridge.c in its
   closed form, a block of threads a cluster. Degenerate systems are counted, not solved: the library then does that cluster work
   itself. */
#include <string.h>

#include "../formula.h"
#include "cuda_backend.h"
#include "cuda_device.cuh"

enum { THREADS = 256, SOLVE_THREADS = 512 };

/* Parts of levels and of r, and X of every level's first part, from the pieces' masses that assign left in the first turn of M; R
   is base now: no penalty. Damped, there is no X. */
__global__ void __launch_bounds__(128) start_tables(uni_cuda_view v, int pieces)
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
                if (v.V > 1)
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

int uni_cuda_start_tables(struct uni_cuda *c, cudaStream_t stream)
{
    int pieces = c->v.G < 256 ? 4 : c->v.G < 2048 ? c->v.G / 64 : 32; /* of a block: sums of r meet in few places */
    start_tables<<<dim3((unsigned)((c->v.G + pieces - 1) / pieces), (unsigned)c->v.Q), 128, 0, stream>>>(c->v, pieces);
    return CUDA(cudaGetLastError());
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

/* O of a level, and its part of sum sigma theta O ln((O + E + b) / (a E + b)) */
__global__ void __launch_bounds__(128) level_tables(uni_cuda_view v, int parity)
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

/* The sum of x[0], x[step], ..., n of them, by one block */
__device__ double sum_of(const double *x, int64_t n, int step, double *room)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        sum += x[i * step];
    return block_sum(sum, room);
}

__global__ void __launch_bounds__(THREADS) finish_fit(uni_cuda_view v, int parts, int of_base, int terms)
{
    __shared__ double room[THREADS / 32];
    double total = of_base ? sum_of(v.part, parts, 2, room) : sum_of(v.part, parts, 1, room), entropy = 0;
    if (of_base)
        entropy = sum_of(v.part + 1, parts, 2, room);
    else if (terms)
        entropy = sum_of(v.entropy, ENTROPY_BLOCKS, 1, room);
    double diversity = sum_of(v.diversity, v.levels, 1, room);
    if (threadIdx.x == 0) {
        v.result[RESULT_TOTAL] = of_base ? total + entropy : total;
        v.result[RESULT_ENTROPY] = entropy;
        v.result[RESULT_DIVERSITY] = diversity;
    }
}

int uni_cuda_end_tables(struct uni_cuda *c, int parts, int of_base, int terms, cudaStream_t stream)
{
    level_tables<<<c->v.levels, 128, 0, stream>>>(c->v, c->parity);
    if (c->v.V > 1)
        group_tables<<<c->v.G, 128, 0, stream>>>(c->v, c->parity);
    if (parts)
        finish_fit<<<1, THREADS, 0, stream>>>(c->v, parts, of_base, terms);
    return CUDA(cudaGetLastError());
}

/* ---- ridge --------------------------------------------------------------------------------------------------------------- */

/* Sums over a slice of the levels. */
struct slice_sums {
    double schur, kept, smallest; /* sum of q O; levels kept; the smallest pivot */
};

/* Which levels of cluster k are kept, their lambda and weight; right in thread 0. */
__device__ slice_sums choose_levels(const uni_cuda_view &v, int parity, int k, int first, int end, double alpha, double cutoff,
                                    double *room)
{
    double r = total_of(v, parity, v.levels, k);
    slice_sums sums = {0, 0, HUGE_VAL};
    for (int g = first + (int)threadIdx.x; g < end; g += SOLVE_THREADS) {
        int64_t at = (int64_t)g * v.K + k;
        double O = v.O[at], lambda = -1, q = 0;
        if (uni_pair_kept(O, v.level_mass[g], cutoff)) {
            lambda = v.lambda[g] > 0 ? v.lambda[g] : uni_lambda_auto(alpha, v.level_share[g] * r);
            q = uni_intercept_weight(O, lambda);
            sums.kept++;
            sums.schur += q * O;
            sums.smallest = fmin(sums.smallest, O + lambda);
        }
        v.ridge[at] = lambda;
        v.weight[at] = q;
    }
    sums.schur = block_sum(sums.schur, room);
    sums.kept = block_sum(sums.kept, room);
    for (int m = 16; m; m /= 2)
        sums.smallest = fmin(sums.smallest, __shfl_xor_sync(~0u, sums.smallest, m));
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        room[threadIdx.x / 32] = sums.smallest;
    __syncthreads();
    for (int w = 0; w < SOLVE_THREADS / 32; w++)
        sums.smallest = fmin(sums.smallest, room[w]);
    return sums;
}

/* sum q S over a slice of the levels, into sums (D) */
__device__ void weigh_slice(const uni_cuda_view &v, int k, int first, int end, double *sums)
{
    int columns = v.D < SOLVE_THREADS ? v.D : (int)SOLVE_THREADS, shares = SOLVE_THREADS / columns,
        share = (int)threadIdx.x / columns;
    for (int d = (int)threadIdx.x % columns; d < v.D && share < shares; d += columns) {
        double sum = 0;
#pragma unroll 8
        for (int g = first + share; g < end; g += shares)
            sum += v.weight[(int64_t)g * v.K + k] * (double)v.S[((int64_t)g * v.K + k) * v.D + d];
        sums[share * v.D + d] = sum;
    }
    __syncthreads();
    for (int d = threadIdx.x; d < v.D; d += SOLVE_THREADS) {
        double sum = 0;
        for (int i = 0; i < shares; i++)
            sum += sums[i * v.D + d];
        sums[d] = sum;
    }
}

/* Y = c / |c| of a cluster */
__device__ void centroid(const uni_cuda_view &v, int k, const double *c)
{
    __shared__ double length[2];
    if (threadIdx.x < 32) {
        double most = 0, squares = 0;
        for (int d = threadIdx.x; d < v.D; d += 32)
            most = fmax(most, fabs(c[d]));
        for (int m = 16; m; m /= 2)
            most = fmax(most, __shfl_xor_sync(~0u, most, m));
        for (int d = threadIdx.x; d < v.D; d += 32)
            squares += (c[d] / most) * (c[d] / most);
        squares = warp_sum(squares);
        if (threadIdx.x == 0)
            length[0] = most, length[1] = sqrt(squares);
    }
    __syncthreads();
    for (int d = threadIdx.x; d < v.D && length[0] > 0 && isfinite(length[0]); d += SOLVE_THREADS)
        v.Y[(int64_t)k * v.D + d] = (float)(c[d] / length[0] / length[1]);
}

/* c = sum q S / sum q O, and Y = c / |c|: a slice of the levels a block; the block of a cluster that ends last adds the slices,
   in their order. */
__global__ void __launch_bounds__(SOLVE_THREADS) intercepts(uni_cuda_view v, int parity, double alpha, double cutoff)
{
    extern __shared__ double sums[];
    __shared__ double room[SOLVE_THREADS / 32];
    __shared__ int last;
    const int k = blockIdx.x, slices = gridDim.y, slice = blockIdx.y, first = (int)((int64_t)v.G * slice / slices),
              end = (int)((int64_t)v.G * (slice + 1) / slices);
    double *mine = v.slice + ((int64_t)k * slices + slice) * (v.D + 3);
    slice_sums own = choose_levels(v, parity, k, first, end, alpha, cutoff, room);
    __syncthreads(); /* weights are read by other threads than wrote them */
    weigh_slice(v, k, first, end, sums);
    if (threadIdx.x == 0)
        mine[v.D] = own.schur, mine[v.D + 1] = own.kept, mine[v.D + 2] = own.smallest;
    for (int d = threadIdx.x; d < v.D; d += SOLVE_THREADS)
        mine[d] = sums[d];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicAdd(v.cluster + 2 * v.K + k, 1) == slices - 1;
    __syncthreads();
    if (!last)
        return;
    __threadfence();
    slice_sums all = {0, 0, HUGE_VAL};
    const volatile double *part = v.slice + (int64_t)k * slices * (v.D + 3);
    for (int s = 0; s < slices; s++) {
        all.schur += part[s * (v.D + 3) + v.D];
        all.kept += part[s * (v.D + 3) + v.D + 1];
        all.smallest = fmin(all.smallest, part[s * (v.D + 3) + v.D + 2]);
    }
    const bool sound = fmin(all.schur, all.smallest) >= 1e-10;
    if (threadIdx.x == 0) {
        v.cluster[k] = (int)all.kept;
        v.cluster[v.K + k] = all.kept >= 2 && !sound;
        v.cluster[2 * v.K + k] = 0;
    }
    if (all.kept < 2 || !sound)
        return;
    for (int d = threadIdx.x; d < v.D; d += SOLVE_THREADS) {
        double c = 0;
        for (int s = 0; s < slices; s++)
            c += part[s * (v.D + 3) + d];
        sums[d] = c / v.S_scale / all.schur;
        v.c[(int64_t)k * v.D + d] = sums[d];
    }
    __syncthreads();
    centroid(v, k, sums);
}

/* W = (S - O c) / (O + lambda) of a level, and how far it moved: a warp a cluster */
__global__ void __launch_bounds__(THREADS) corrections(uni_cuda_view v, float *W, const float *last)
{
    __shared__ double room[THREADS / 32];
    const int lane = threadIdx.x % 32, step = (int)gridDim.y * (THREADS / 32);
    double moved = 0, size = 0;
#pragma unroll 4
    for (int k = (int)blockIdx.y * (THREADS / 32) + (int)threadIdx.x / 32; k < v.K; k += step) {
        const int64_t pair = (int64_t)blockIdx.x * v.K + k;
        const double O = v.O[pair], lambda = v.ridge[pair];
        const bool kept = lambda >= 0 && v.cluster[k] >= 2;
        for (int d = lane; d < v.D; d += 32) {
            const double old = last[pair * v.D + d], S = (double)v.S[pair * v.D + d] / v.S_scale, c = v.c[(int64_t)k * v.D + d];
            const double w = kept ? uni_correction(S, O, c, lambda) : 0;
            W[pair * v.D + d] = (float)w;
            moved += O * ((w - old) * (w - old));
            size += O * w * w;
        }
    }
    moved = block_sum(moved, room);
    size = block_sum(size, room);
    if (threadIdx.x == 0) {
        const int64_t part = (int64_t)blockIdx.x * gridDim.y + blockIdx.y;
        v.moved[2 * part] = moved;
        v.moved[2 * part + 1] = size;
    }
}

__global__ void __launch_bounds__(THREADS) finish_ridge(uni_cuda_view v, int parts)
{
    __shared__ double room[THREADS / 32];
    double pruned = 0, skipped = 0, degenerate = 0;
    double moved = sum_of(v.moved, parts, 2, room), size = sum_of(v.moved + 1, parts, 2, room);
    for (int k = threadIdx.x; k < v.K; k += THREADS) {
        pruned += v.cluster[k] < 2 ? v.G : v.G - v.cluster[k];
        skipped += v.cluster[k] < 2;
        degenerate += v.cluster[v.K + k];
    }
    pruned = block_sum(pruned, room);
    skipped = block_sum(skipped, room);
    degenerate = block_sum(degenerate, room);
    if (threadIdx.x == 0) {
        v.result[RESULT_CHANGE] = size > 0 ? sqrt(moved / size) : moved > 0 ? 1 : 0;
        v.result[RESULT_PRUNED] = pruned;
        v.result[RESULT_SKIPPED] = skipped;
        v.result[RESULT_DEGENERATE] = degenerate;
    }
}

/* Slices of the levels for intercepts: enough blocks for the card where there are many levels. */
int uni_cuda_slices(int64_t levels)
{
    return levels > 16 * MOST_SLICES ? (int)MOST_SLICES : levels > 16 ? (int)(levels / 16) : 1;
}

/* From S and O to the other W. */
int uni_cuda_ridge(struct uni_cuda *c, double alpha, double cutoff, cudaStream_t stream)
{
    int columns = c->v.D < SOLVE_THREADS ? c->v.D : SOLVE_THREADS, slices = uni_cuda_slices(c->v.G);
    int shares = c->v.G < 256 ? (int)MOVED_SHARES : 1;
    size_t bytes = (size_t)(SOLVE_THREADS / columns) * (size_t)c->v.D * sizeof(double);
    intercepts<<<dim3((unsigned)c->v.K, (unsigned)slices), SOLVE_THREADS, bytes, stream>>>(c->v, c->parity, alpha, cutoff);
    corrections<<<dim3((unsigned)c->v.G, (unsigned)shares), THREADS, 0, stream>>>(c->v, c->v.W[c->W_now ^ 1], c->v.W[c->W_now]);
    finish_ridge<<<1, THREADS, 0, stream>>>(c->v, c->v.G * shares);
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

/* ---- the plain path's centroids, and nearest ----------------------------------------------------------------------------- */

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

#define SUM_SCALE 1099511627776.0 /* 2^40: of sums of unit rows */

/* A warp a row: the largest of X . Y, the first of equals; its row is added to that centroid's sum. */
__global__ void __launch_bounds__(THREADS) nearest(int32_t *index, float *score, long long *sum, unsigned long long *count,
                                                   const float *X, int M, const float *Yt, int n, int D)
{
    extern __shared__ float rows[];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, i = (int)blockIdx.x * (THREADS / 32) + warp;
    float *x = rows + warp * D, best = -HUGE_VALF;
    int at = 0;
    if (i >= M)
        return;
    for (int d = lane; d < D; d += 32)
        x[d] = X[(int64_t)i * D + d];
    __syncwarp();
    for (int k = lane; k < n; k += 32) {
        float dot = 0;
        for (int d = 0; d < D; d++)
            dot += x[d] * Yt[(int64_t)d * n + k];
        if (dot > best)
            best = dot, at = k;
    }
    for (int m = 16; m; m /= 2) {
        float other = __shfl_xor_sync(~0u, best, m);
        int k = __shfl_xor_sync(~0u, at, m);
        if (other > best || (other == best && k < at))
            best = other, at = k;
    }
    if (lane == 0) {
        index[i] = at;
        score[i] = best;
        if (sum)
            atomicAdd(count + at, 1ull);
    }
    for (int d = lane; sum && d < D; d += 32)
        add_exact(sum + (int64_t)at * D + d, __double2ll_rn((double)x[d] * SUM_SCALE));
}

/* Sums and counts come back as integers, in sum and count themselves. */
int uni_cuda_nearest(struct uni_backend *b, int32_t *index, float *score, double *sum, int64_t *count, const float *X, int64_t M,
                     const float *Y, int64_t n)
{
    int err = 0;
    struct uni_cuda *c = (struct uni_cuda *)b->state;
    size_t D = (size_t)c->v.D, rows = (size_t)M, centroids = (size_t)n, bytes = (THREADS / 32) * D * sizeof(float);
    float *turned = (float *)c->pinned;
    c->Y_known = 0;
    for (size_t k = 0; k < centroids; k++)
        for (size_t d = 0; d < D; d++)
            turned[d * centroids + k] = Y[k * D + d];
    TRY(CUDA(cudaMemcpyAsync(c->seed_Y, turned, centroids * D * sizeof(float), cudaMemcpyHostToDevice, c->stream)));
    TRY(CUDA(cudaMemcpyAsync(c->seed_X, X, rows * D * sizeof(float), cudaMemcpyHostToDevice, c->stream)));
    if (sum)
        TRY(CUDA(cudaMemsetAsync(c->seed_sum, 0, centroids * (D + 1) * sizeof(long long), c->stream)));
    nearest<<<(unsigned)((M + THREADS / 32 - 1) / (THREADS / 32)), THREADS, bytes, c->stream>>>(
        c->seed_index, c->seed_score, sum ? c->seed_sum : nullptr, (unsigned long long *)c->seed_sum + centroids * D, c->seed_X,
        (int)M, c->seed_Y, (int)n, (int)D);
    TRY(CUDA(cudaGetLastError()));
    TRY(CUDA(cudaMemcpyAsync(index, c->seed_index, rows * sizeof *index, cudaMemcpyDeviceToHost, c->stream)));
    TRY(CUDA(cudaMemcpyAsync(score, c->seed_score, rows * sizeof *score, cudaMemcpyDeviceToHost, c->stream)));
    if (sum) {
        TRY(CUDA(cudaMemcpyAsync(sum, c->seed_sum, centroids * D * sizeof *sum, cudaMemcpyDeviceToHost, c->stream)));
        TRY(CUDA(
            cudaMemcpyAsync(count, c->seed_sum + centroids * D, centroids * sizeof *count, cudaMemcpyDeviceToHost, c->stream)));
    }
    TRY(CUDA(cudaStreamSynchronize(c->stream)));
    for (size_t i = 0; sum && i < centroids * D; i++) {
        int64_t fixed;
        memcpy(&fixed, sum + i, sizeof fixed);
        sum[i] = (double)fixed / SUM_SCALE;
    }
done:
    return err;
}
