/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables on the device: what assign leaves for the sweeps, O and the objective after them, and the ridge solve of ridge.c in its
   closed form, a block of threads a cluster. Degenerate systems are counted, not solved: the library then does that cluster work
   itself. */
#include <string.h>

#include "../formula.h"
#include "cuda_backend.h"
#include "cuda_device.cuh"

enum { START_PIECES = 16, THREADS = 256, SLICES = MOVED_PARTS, SOLVE_THREADS = 512 };

/* Parts of levels and of r, and X of every level's last part, from the pieces' masses that assign left in the first turn of M; R
   is base now: no penalty. Damped, there is no X. */
__global__ void __launch_bounds__(128) start_tables(uni_cuda_view v)
{
    int block = blockIdx.y, first = v.block_piece[block] + (int)blockIdx.x * START_PIECES,
        end = min(first + START_PIECES, v.block_piece[block + 1]);
    long long *M = v.M[0];
    for (int k = threadIdx.x; k < v.Kp && first < end; k += 128) {
        long long r = 0;
        for (int i = first; i < end; i++) {
            long long m = M[(int64_t)i * v.Kp + k];
            r += m;
            for (int u = 0; u < v.V && m; u++) {
                int part = v.place[(int64_t)i * v.V + u].part,
                    last = v.level_last[v.V == 1 ? v.piece[i].group : v.group_row[v.piece[i].group * v.V + u]];
                if (v.V > 1)
                    add_exact(M + (int64_t)part * v.Kp + k, m);
                if (part != last && !v.damped)
                    add_exact(v.X + (int64_t)last * v.Kp + k, m);
            }
            if (!v.damped)
                v.pen[(int64_t)i * v.Kp + k] = k < v.K;
        }
        add_exact(M + (int64_t)(v.r_part + block) * v.Kp + k, r);
        if (block != v.Q - 1)
            add_exact(v.X + (int64_t)(v.r_part + v.Q - 1) * v.Kp + k, r);
    }
}

int uni_cuda_start_tables(struct uni_cuda *c, cudaStream_t stream)
{
    start_tables<<<dim3((unsigned)((c->v.G + START_PIECES - 1) / START_PIECES), (unsigned)c->v.Q), 128, 0, stream>>>(c->v);
    return CUDA(cudaGetLastError());
}

/* Of a level, or, one further, of all. */
__device__ __forceinline__ double total_of(const uni_cuda_view &v, int parity, int level, int k)
{
    int64_t at = (int64_t)v.level_last[level] * v.Kp + k;
    if (v.level_last[level] < 0)
        return 0;
    return (double)(v.damped ? masses(v, parity)[at] : v.X[at] + v.M[parity][at]) * (1 / MASS_SCALE);
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

/* Which levels of cluster k are kept, their lambda and weight; returns the kept and leaves sum q O and the smallest pivot. */
__device__ int choose_levels(const uni_cuda_view &v, int parity, int k, double alpha, double cutoff, double *schur,
                             double *smallest, double *room)
{
    double r = total_of(v, parity, v.levels, k), sum = 0, low = HUGE_VAL, kept = 0;
    for (int g = threadIdx.x; g < v.G; g += SOLVE_THREADS) {
        int64_t at = (int64_t)g * v.K + k;
        double O = v.O[at], lambda = -1, q = 0;
        if (uni_pair_kept(O, v.level_mass[g], cutoff)) {
            lambda = v.lambda[g] > 0 ? v.lambda[g] : uni_lambda_auto(alpha, v.level_share[g] * r);
            q = uni_intercept_weight(O, lambda);
            kept++;
            sum += q * O;
            low = fmin(low, O + lambda);
        }
        v.ridge[at] = lambda;
        v.weight[at] = q;
    }
    sum = block_sum(sum, room);
    kept = block_sum(kept, room);
    for (int m = 16; m; m /= 2)
        low = fmin(low, __shfl_xor_sync(~0u, low, m));
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        room[threadIdx.x / 32] = low;
    __syncthreads();
    for (int w = 0; w < SOLVE_THREADS / 32; w++)
        low = fmin(low, room[w]);
    __shared__ double both[2];
    __syncthreads();
    if (threadIdx.x == 0)
        both[0] = sum, both[1] = kept;
    __syncthreads();
    *schur = both[0];
    *smallest = fmin(low, both[0]);
    return (int)both[1];
}

/* c = sum q S / sum q O, and Y = c / |c| */
__global__ void __launch_bounds__(SOLVE_THREADS) intercepts(uni_cuda_view v, int parity, double alpha, double cutoff)
{
    extern __shared__ double sums[];
    __shared__ double room[SOLVE_THREADS / 32], length[2];
    int k = blockIdx.x;
    double schur, smallest;
    int kept = choose_levels(v, parity, k, alpha, cutoff, &schur, &smallest, room);
    if (threadIdx.x == 0) {
        v.cluster[k] = kept;
        v.cluster[v.K + k] = kept >= 2 && !(smallest >= 1e-10);
    }
    if (kept < 2 || !(smallest >= 1e-10))
        return;
    int columns = v.D < SOLVE_THREADS ? v.D : SOLVE_THREADS, slices = SOLVE_THREADS / columns, slice = threadIdx.x / columns;
    for (int d = threadIdx.x % columns; d < v.D && slice < slices; d += columns) {
        double sum = 0;
#pragma unroll 8
        for (int g = slice; g < v.G; g += slices)
            sum += v.weight[(int64_t)g * v.K + k] * (double)v.S[((int64_t)g * v.K + k) * v.D + d];
        sums[slice * v.D + d] = sum;
    }
    __syncthreads();
    double most = 0, squares = 0;
    for (int d = threadIdx.x; d < v.D; d += SOLVE_THREADS) {
        double c = 0;
        for (int s = 0; s < slices; s++)
            c += sums[s * v.D + d];
        c = c / v.S_scale / schur;
        v.c[(int64_t)k * v.D + d] = c;
        sums[d] = c;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        for (int d = threadIdx.x; d < v.D; d += 32)
            most = fmax(most, fabs(sums[d]));
        for (int m = 16; m; m /= 2)
            most = fmax(most, __shfl_xor_sync(~0u, most, m));
        for (int d = threadIdx.x; d < v.D; d += 32)
            squares += (sums[d] / most) * (sums[d] / most);
        squares = warp_sum(squares);
        if (threadIdx.x == 0)
            length[0] = most, length[1] = sqrt(squares);
    }
    __syncthreads();
    for (int d = threadIdx.x; d < v.D && length[0] > 0 && isfinite(length[0]); d += SOLVE_THREADS)
        v.Y[(int64_t)k * v.D + d] = (float)(sums[d] / length[0] / length[1]);
}

/* W = (S - O c) / (O + lambda) of a group, and how far it moved */
__global__ void __launch_bounds__(THREADS) corrections(uni_cuda_view v, float *W, const float *last)
{
    __shared__ double room[THREADS / 32];
    int g = blockIdx.x;
    int64_t all = (int64_t)v.K * v.D, from = all * blockIdx.y / SLICES, to = all * (blockIdx.y + 1) / SLICES;
    double moved = 0, size = 0;
    for (int64_t i = from + threadIdx.x; i < to; i += THREADS) {
        int k = (int)(i / v.D);
        int64_t pair = (int64_t)g * v.K + k, at = g * all + i;
        double O = v.O[pair], lambda = v.ridge[pair], w = 0, old = last[at];
        if (lambda >= 0 && v.cluster[k] >= 2)
            w = uni_correction((double)v.S[at] / v.S_scale, O, v.c[i], lambda);
        W[at] = (float)w;
        moved += O * ((w - old) * (w - old));
        size += O * w * w;
    }
    moved = block_sum(moved, room);
    size = block_sum(size, room);
    if (threadIdx.x == 0) {
        v.moved[2 * (g * SLICES + blockIdx.y)] = moved;
        v.moved[2 * (g * SLICES + blockIdx.y) + 1] = size;
    }
}

__global__ void __launch_bounds__(THREADS) finish_ridge(uni_cuda_view v)
{
    __shared__ double room[THREADS / 32];
    double pruned = 0, skipped = 0, degenerate = 0;
    double moved = sum_of(v.moved, (int64_t)v.G * SLICES, 2, room), size = sum_of(v.moved + 1, (int64_t)v.G * SLICES, 2, room);
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

/* From S and O to the other W. */
int uni_cuda_ridge(struct uni_cuda *c, double alpha, double cutoff, cudaStream_t stream)
{
    int columns = c->v.D < SOLVE_THREADS ? c->v.D : SOLVE_THREADS;
    size_t bytes = (size_t)(SOLVE_THREADS / columns) * (size_t)c->v.D * sizeof(double);
    intercepts<<<c->v.K, SOLVE_THREADS, bytes, stream>>>(c->v, c->parity, alpha, cutoff);
    corrections<<<dim3((unsigned)c->v.G, SLICES), THREADS, 0, stream>>>(c->v, c->v.W[c->W_now ^ 1], c->v.W[c->W_now]);
    finish_ridge<<<1, THREADS, 0, stream>>>(c->v);
    return CUDA(cudaGetLastError());
}

/* S for the host: doubles in its place. */
__global__ void to_double(long long *S, int64_t n, double scale)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
        S[i] = __double_as_longlong((double)S[i] / scale);
}

int uni_cuda_moments_to_double(const struct uni_cuda *c, cudaStream_t stream)
{
    to_double<<<4 * c->cores, 256, 0, stream>>>(c->v.S, c->p->G * c->p->K * c->p->D, c->v.S_scale);
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
