/* SPDX-License-Identifier: BSD-3-Clause */
/* The ridge solve of ridge.c in its closed form, some clusters and a slice of the levels a block of threads. Degenerate systems
   are counted, not solved: the library then does that cluster work itself. */
#include "../formula.h"
#include "cuda_launch.cuh"
#include "cuda_totals.cuh"

enum { RIDGE_WARPS = RIDGE_THREADS / 32, PAIRS = 512, COLUMNS = 2 };
static_assert(MOST_SLICES <= 32 && (int)MOST_CLUSTERS <= (int)RIDGE_WARPS, "a slice is a lane's, a cluster a warp's");

/* What a block of the ridge's threads has: some clusters, whose dimensions are columns that lie side by side in S and W, and a
   slice of the levels. */
struct ridge_share {
    int k, clusters, columns; /* the first cluster */
    int first, end, at_once;  /* levels; those whose pairs shared memory holds */
    int column;               /* a thread's, and another RIDGE_THREADS further */
    int level, between;       /* its first level, and from one to the next */
};

__device__ __forceinline__ ridge_share share_of(const uni_cuda_view &v)
{
    ridge_share t;
    const int most = uni_cuda_clusters(v.K, v.D);
    t.k = (int)blockIdx.x * most;
    t.clusters = min(most, v.K - t.k);
    t.columns = t.clusters * v.D;
    t.first = (int)((int64_t)v.G * blockIdx.y / gridDim.y);
    t.end = (int)((int64_t)v.G * (blockIdx.y + 1) / gridDim.y);
    t.at_once = PAIRS / t.clusters;
    const int width = min(t.columns, (int)RIDGE_THREADS);
    t.between = RIDGE_THREADS / width;
    t.level = (int)threadIdx.x / width;
    t.column = t.level < t.between ? (int)threadIdx.x % width : t.columns; /* those too many have none */
    return t;
}

/* Of the pairs of some levels and the block's clusters, by level. */
struct ridge_pairs {
    double O[PAIRS], lambda[PAIRS], weight[PAIRS];
};

/* Sums over levels of a cluster. */
struct slice_sums {
    double schur, kept, smallest; /* sum of q O; levels kept; the smallest pivot */
};

/* Which pairs are kept, their lambda and weight: n levels from one on. r: of the block's clusters. */
__device__ __forceinline__ void choose_levels(ridge_pairs &pairs, const uni_cuda_view &v, const ridge_share &t, int from, int n,
                                              const double *r, double alpha, double cutoff)
{
    for (int i = threadIdx.x; i < n * t.clusters; i += RIDGE_THREADS) {
        const int g = from + i / t.clusters, k = i % t.clusters;
        const int64_t at = (int64_t)g * v.K + t.k + k;
        double O = v.O[at], lambda = -1, q = 0;
        if (uni_pair_kept(O, v.level_mass[g], cutoff)) {
            lambda = v.lambda[g] > 0 ? v.lambda[g] : uni_lambda_auto(alpha, v.level_share[g] * r[k]);
            q = uni_intercept_weight(O, lambda);
        }
        v.ridge[at] = pairs.lambda[i] = lambda;
        pairs.O[i] = O;
        pairs.weight[i] = q;
    }
}

/* A lane's part of a cluster's sums: the block's cluster number k. */
__device__ __forceinline__ void add_pairs(slice_sums &sums, const ridge_pairs &pairs, int clusters, int k, int n)
{
    for (int i = (int)threadIdx.x % 32 * clusters + k; i < n * clusters; i += 32 * clusters)
        if (pairs.lambda[i] >= 0) {
            sums.schur += pairs.weight[i] * pairs.O[i];
            sums.kept++;
            sums.smallest = fmin(sums.smallest, pairs.O[i] + pairs.lambda[i]);
        }
}

/* The lanes' together, in all of them. */
__device__ __forceinline__ slice_sums warp_sums(slice_sums sums)
{
    sums.schur = warp_sum(sums.schur);
    sums.kept = warp_sum(sums.kept);
#pragma unroll
    for (int m = 16; m; m /= 2)
        sums.smallest = fmin(sums.smallest, __shfl_xor_sync(~0u, sums.smallest, m));
    return sums;
}

/* sum += q S over n levels from one on, of a thread's columns */
__device__ __forceinline__ void weigh_levels(double (&sum)[COLUMNS], const uni_cuda_view &v, const ridge_share &t, int from,
                                             int n, const double *weight)
{
    const int64_t table = (int64_t)v.K * v.D;
#pragma unroll
    for (int i = 0; i < COLUMNS; i++) {
        const int column = t.column + i * RIDGE_THREADS;
        if (column >= t.columns)
            break;
        const double *q = weight + column / v.D;
        const long long *S = v.S + from * table + (int64_t)t.k * v.D + column;
#pragma unroll 6
        for (int l = t.level; l < n; l += t.between)
            sum[i] += q[l * t.clusters] * (double)S[l * table];
    }
}

/* Where a slice's sums of a cluster lie: those of the columns, then slice_sums. */
__device__ __forceinline__ double *slice_of(const uni_cuda_view &v, int k, int slice)
{
    return v.slice + ((int64_t)k * gridDim.y + slice) * (v.D + 3);
}

/* What the block of threads has summed, for the one that ends last. */
__device__ __forceinline__ void leave_slice(const uni_cuda_view &v, const ridge_share &t, const double (&sum)[COLUMNS],
                                            const slice_sums &own, double *room)
{
#pragma unroll
    for (int i = 0; i < COLUMNS; i++)
        if (t.column + i * RIDGE_THREADS < t.columns)
            room[t.level * t.columns + t.column + i * RIDGE_THREADS] = sum[i];
    __syncthreads();
    for (int column = threadIdx.x; column < t.columns; column += RIDGE_THREADS) {
        double all = 0;
        for (int i = 0; i < t.between; i++)
            all += room[i * t.columns + column];
        slice_of(v, t.k + column / v.D, blockIdx.y)[column % v.D] = all;
    }
    const int warp = threadIdx.x / 32;
    if (warp >= t.clusters)
        return;
    const slice_sums sums = warp_sums(own);
    double *to = slice_of(v, t.k + warp, blockIdx.y) + v.D;
    if (threadIdx.x % 32 == 0)
        to[0] = sums.schur, to[1] = sums.kept, to[2] = sums.smallest;
}

/* Y = c / |c| of a cluster: a warp's work */
__device__ __forceinline__ void centroid(const uni_cuda_view &v, int k, const double *c)
{
    const int lane = threadIdx.x % 32;
    double most = 0, squares = 0;
    for (int d = lane; d < v.D; d += 32)
        most = fmax(most, fabs(c[d]));
#pragma unroll
    for (int m = 16; m; m /= 2)
        most = fmax(most, __shfl_xor_sync(~0u, most, m));
    if (!(most > 0 && isfinite(most)))
        return;
    for (int d = lane; d < v.D; d += 32)
        squares += (c[d] / most) * (c[d] / most);
    const double length = sqrt(warp_sum(squares));
    for (int d = lane; d < v.D; d += 32)
        v.Y[(int64_t)k * v.D + d] = (float)(c[d] / most / length);
}

/* c and Y of the block's clusters from the slices, which are added in their order. schur, sums: rooms for a number a cluster, and
   a column. */
__device__ __forceinline__ void add_slices(const uni_cuda_view &v, const ridge_share &t, double *schur, double *sums)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, slices = gridDim.y;
    if (warp < t.clusters) {
        const int k = warp;
        const double *from = slice_of(v, t.k + k, min(lane, slices - 1)) + v.D;
        slice_sums all = {__ldcg(from), __ldcg(from + 1), __ldcg(from + 2)};
        if (lane >= slices)
            all.schur = all.kept = 0;
        all = warp_sums(all);
        const bool sound = fmin(all.schur, all.smallest) >= 1e-10;
        if (lane == 0) {
            v.cluster[t.k + k] = (int)all.kept;
            v.cluster[v.K + t.k + k] = all.kept >= 2 && !sound;
            schur[k] = all.kept >= 2 && sound ? all.schur : 0;
        }
    }
    __syncthreads();
    for (int column = threadIdx.x; column < t.columns; column += RIDGE_THREADS) {
        const int k = column / v.D;
        const double *from = slice_of(v, t.k + k, 0) + column % v.D;
        double c = 0;
#pragma unroll 8
        for (int s = 0; s < slices; s++)
            c += __ldcg(from + (int64_t)s * (v.D + 3));
        if (schur[k] > 0) {
            sums[column] = c / v.S_scale / schur[k];
            v.c[(int64_t)t.k * v.D + column] = sums[column];
        }
    }
    __syncthreads();
    if (warp < t.clusters && schur[warp] > 0)
        centroid(v, t.k + warp, sums + warp * v.D);
}

/* c = sum q S / sum q O, and Y = c / |c|: some clusters and a slice of the levels a block; of those of the same clusters the one
   that ends last adds the slices. */
__global__ void __launch_bounds__(RIDGE_THREADS, 5) intercepts(uni_cuda_view v, int parity, double alpha, double cutoff)
{
    __shared__ ridge_pairs pairs;
    __shared__ double sums[COLUMNS * RIDGE_THREADS], of_cluster[MOST_CLUSTERS]; /* r, then the sum of q O */
    const ridge_share t = share_of(v);
    const int warp = threadIdx.x / 32;
    slice_sums own = {0, 0, HUGE_VAL}; /* of the warp's cluster: a lane's levels */
    double sum[COLUMNS] = {0, 0};
    launch_dependents();
    wait_for_previous();
    if ((int)threadIdx.x < t.clusters)
        of_cluster[threadIdx.x] = total_of(v, parity, v.levels, t.k + (int)threadIdx.x);
    for (int from = t.first; from < t.end; from += t.at_once) {
        const int n = min(t.at_once, t.end - from);
        __syncthreads(); /* r is there, and nobody needs the pairs before */
        choose_levels(pairs, v, t, from, n, of_cluster, alpha, cutoff);
        __syncthreads();
        if (warp < t.clusters)
            add_pairs(own, pairs, t.clusters, warp, n);
        weigh_levels(sum, v, t, from, n, pairs.weight);
    }
    leave_slice(v, t, sum, own, sums);
    if (ends_last(v.ended + blockIdx.x, (int)gridDim.y))
        add_slices(v, t, of_cluster, sums);
}

/* Of n levels from one on: their O, and 1 / (O + lambda) of the pairs that are corrected, else 0. */
__device__ __forceinline__ void choose_pairs(ridge_pairs &pairs, const uni_cuda_view &v, const ridge_share &t, int from, int n)
{
    for (int i = threadIdx.x; i < n * t.clusters; i += RIDGE_THREADS) {
        const int k = t.k + i % t.clusters;
        const int64_t at = (int64_t)(from + i / t.clusters) * v.K + k;
        const double O = v.O[at], lambda = v.ridge[at];
        pairs.O[i] = O;
        pairs.weight[i] = lambda >= 0 && v.cluster[k] >= 2 ? 1 / (O + lambda) : 0;
    }
}

/* W of a thread's column number i and of n levels from one on, and how far it moved: sums of O times squares */
__device__ __forceinline__ void correct_levels(double &moved, double &size, float *W, const float *last, const uni_cuda_view &v,
                                               const ridge_share &t, const ridge_pairs &pairs, int column, int from, int n)
{
    enum { AT_ONCE = 6 }; /* loads that come before the stores: one trip to memory */
    const int64_t table = (int64_t)v.K * v.D, at = from * table + (int64_t)t.k * v.D + column;
    const double unit = 1 / v.S_scale /* a power of two */, c = v.c[(int64_t)t.k * v.D + column];
#pragma unroll 1
    for (int first = t.level; first < n; first += AT_ONCE * t.between) {
        long long S[AT_ONCE];
        float old[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int l = min(first + i * t.between, n - 1);
            S[i] = v.S[at + l * table];
            old[i] = last[at + l * table];
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int l = first + i * t.between;
            if (l >= n)
                break;
            const int pair = l * t.clusters + column / v.D;
            const double O = pairs.O[pair], inverse = pairs.weight[pair];
            const double w = inverse > 0 ? ((double)S[i] * unit - O * c) * inverse : 0, step = w - (double)old[i];
            W[at + l * table] = (float)w;
            moved += O * (step * step);
            size += O * w * w;
        }
    }
}

__device__ void finish_ridge(const uni_cuda_view &v, int parts, double *room)
{
    double pruned = 0, skipped = 0, degenerate = 0;
    double moved = sum_of(v.moved, parts, 2, room), size = sum_of(v.moved + 1, parts, 2, room);
    for (int k = threadIdx.x; k < v.K; k += RIDGE_THREADS) {
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

/* W = (S - O c) / (O + lambda), and how far it moved: blocks of threads as of intercepts; the one that ends last adds up. */
__global__ void __launch_bounds__(RIDGE_THREADS, 5) corrections(uni_cuda_view v, float *W, const float *last)
{
    __shared__ ridge_pairs pairs;
    __shared__ double room[RIDGE_WARPS];
    const ridge_share t = share_of(v);
    const int parts = (int)(gridDim.x * gridDim.y), part = (int)(blockIdx.y * gridDim.x + blockIdx.x);
    double moved = 0, size = 0;
    wait_for_previous();
    for (int from = t.first; from < t.end; from += t.at_once) {
        const int n = min(t.at_once, t.end - from);
        __syncthreads(); /* nobody needs the pairs before */
        choose_pairs(pairs, v, t, from, n);
        __syncthreads();
        for (int column = t.column; column < t.columns; column += RIDGE_THREADS)
            correct_levels(moved, size, W, last, v, t, pairs, column, from, n);
    }
    moved = block_sum(moved, room);
    size = block_sum(size, room);
    if (threadIdx.x == 0)
        v.moved[2 * part] = moved, v.moved[2 * part + 1] = size;
    if (ends_last(v.ended + v.K, parts))
        finish_ridge(v, parts, room);
}

/* Slices of the levels: enough blocks for the card where there are many levels. */
int uni_cuda_slices(int64_t levels)
{
    return levels > 16 * MOST_SLICES ? (int)MOST_SLICES : levels > 16 ? (int)(levels / 16) : 1;
}

/* From S and O to the other W. */
int uni_cuda_ridge(struct uni_cuda *c, double alpha, double cutoff, cudaStream_t stream)
{
    int err = 0, clusters = uni_cuda_clusters(c->v.K, c->v.D);
    const struct uni_cuda_grid grid = {dim3((unsigned)((c->v.K + clusters - 1) / clusters), (unsigned)uni_cuda_slices(c->v.G)),
                                       RIDGE_THREADS, 0};
    float *W = c->v.W[c->W_now ^ 1];
    const float *last = c->v.W[c->W_now];
    TRY(launch_early(c, stream, intercepts, grid, c->v, c->parity, alpha, cutoff));
    TRY(launch_early(c, stream, corrections, grid, c->v, W, last));
done:
    return err;
}
