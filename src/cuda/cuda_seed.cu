/* SPDX-License-Identifier: BSD-3-Clause */
/* The seeding's part: the centroid nearest to each of some rows, and sums over the rows of each. Rows stay on the card from call
   to call, and what goes back goes in one copy, through pinned memory. */
#include <math.h>
#include <string.h>

#include "cuda_backend.h"
#include "cuda_device.cuh"

#define SUM_SCALE 1099511627776.0 /* 2^40: of sums of unit rows */

/* What a block of threads has at a time: a thread 4 rows and 8 centroids, a half in each half of these. */
enum { THREADS = 256, ROWS = 64, CENTROIDS = 128, DIMS = 32, PAD = 8 };

/* to[d][i] = row i, dimension first + d; beyond the n rows zeros. A warp takes 8 rows and 4 dimensions: at this pitch no two of
   its stores meet in a bank. */
template <int PITCH>
__device__ __forceinline__ void take_turned(float (*to)[PITCH], const float *row, int n, int D, int first, int dims)
{
#pragma unroll
    for (int i = threadIdx.x; i < (PITCH - PAD) * DIMS; i += THREADS) {
        const int at = i / (8 * DIMS) * 8 + i % 8, d = i / 8 % DIMS;
        if (d < dims)
            to[d][at] = at < n ? row[(int64_t)at * D + first + d] : 0;
    }
}

/* dot += x . y, one dimension after another: 4 rows from 4 r on, 4 centroids from 4 c on in each half */
__device__ __forceinline__ void multiply(float (&dot)[4][8], const float (*x)[ROWS + PAD], const float (*y)[CENTROIDS + PAD],
                                         int dims, int r, int c)
{
#pragma unroll 4
    for (int d = 0; d < dims; d++) {
        const float4 a = *reinterpret_cast<const float4 *>(&x[d][4 * r]);
        const float4 low = *reinterpret_cast<const float4 *>(&y[d][4 * c]);
        const float4 high = *reinterpret_cast<const float4 *>(&y[d][CENTROIDS / 2 + 4 * c]);
        const float of_x[4] = {a.x, a.y, a.z, a.w}, of_y[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 8; j++)
                dot[i][j] = fmaf(of_x[i], of_y[j], dot[i][j]);
    }
}

/* The largest of X . Y, the first of equals; each row is added to its centroid's sum, unless that is NULL. */
__global__ void __launch_bounds__(THREADS) nearest(int32_t *index, float *score, long long *sum, unsigned long long *count,
                                                   const float *X, int M, const float *Y, int n, int D)
{
    __shared__ __align__(16) float x[DIMS][ROWS + PAD];
    __shared__ __align__(16) float y[DIMS][CENTROIDS + PAD];
    __shared__ int nearest_of[ROWS];
    const int first = (int)blockIdx.x * ROWS, rows = min(ROWS, M - first), r = (int)threadIdx.x / 16, c = (int)threadIdx.x % 16;
    const float *row = X + (int64_t)first * D;
    float best[4] = {-HUGE_VALF, -HUGE_VALF, -HUGE_VALF, -HUGE_VALF};
    int at[4] = {0, 0, 0, 0};
    for (int from = 0; from < n; from += CENTROIDS) {
        float dot[4][8] = {};
        for (int d = 0; d < D; d += DIMS) {
            const int dims = min(DIMS, D - d);
            __syncthreads(); /* all are done with those before */
            take_turned(x, row, rows, D, d, dims);
            take_turned(y, Y + (int64_t)from * D, n - from, D, d, dims);
            __syncthreads();
            multiply(dot, x, y, dims, r, c);
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 8; j++) { /* k grows with j */
                const int k = from + j / 4 * (CENTROIDS / 2) + 4 * c + j % 4;
                if (k < n && dot[i][j] > best[i])
                    best[i] = dot[i][j], at[i] = k;
            }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        for (int m = 8; m; m /= 2) { /* the 16 threads of these rows */
            float other = __shfl_xor_sync(~0u, best[i], m);
            int k = __shfl_xor_sync(~0u, at[i], m);
            if (other > best[i] || (other == best[i] && k < at[i]))
                best[i] = other, at[i] = k;
        }
        if (c == 0)
            nearest_of[4 * r + i] = at[i];
        if (c == 0 && 4 * r + i < rows) {
            index[first + 4 * r + i] = at[i];
            score[first + 4 * r + i] = best[i];
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; sum && i < rows * D; i += THREADS)
        add_exact(sum + (int64_t)nearest_of[i / D] * D + i % D, __double2ll_rn((double)row[i] * SUM_SCALE));
    if (sum && (int)threadIdx.x < rows)
        atomicAdd(count + nearest_of[threadIdx.x], 1ull);
}

/* What goes back lies together, on the card and in pinned memory. */
struct answer {
    long long *sum, *count; /* (n,D), (n) */
    float *score;           /* (M) */
    int32_t *index;         /* (M) */
};

static struct answer answer_at(long long *sum, int64_t M, int64_t n, int64_t D)
{
    long long *count = sum + n * D;
    float *score = (float *)(count + n);
    return {sum, count, score, (int32_t *)(score + M)};
}

static int64_t most_rows(const struct uni_problem *p)
{
    return p->N < UNI_SAMPLE ? p->N : UNI_SAMPLE;
}

int64_t uni_cuda_seed_words(const struct uni_problem *p)
{
    return p->K * (p->D + 1) + most_rows(p);
}

/* Pinned: the centroids, then the answer. */
static size_t centroid_bytes(const struct uni_problem *p)
{
    return (size_t)(p->K * p->D + 1) / 2 * 8;
}

int64_t uni_cuda_seed_pinned(const struct uni_problem *p)
{
    return (int64_t)centroid_bytes(p) + 8 * uni_cuda_seed_words(p);
}

/* Those that are new. */
static int take_rows(struct uni_cuda *c, const struct uni_rows *rows)
{
    int err = 0;
    const int64_t D = c->v.D, kept = c->seed_rows;
    int64_t from = rows->from, to = rows->to;
    if (from > kept || rows->M > (to > kept ? to : kept)) /* some are said to be here that never came */
        from = 0, to = rows->M;
    c->seed_rows = 0;
    if (from < to)
        TRY(CUDA(cudaMemcpyAsync(c->seed_X + from * D, rows->X + from * D, (size_t)((to - from) * D) * sizeof(float),
                                 cudaMemcpyHostToDevice, c->stream)));
    c->seed_rows = to > kept ? to : kept;
done:
    return err;
}

/* So many bytes of the answer, from `on_card` on, and waits for them. */
static int fetch(const struct uni_cuda *c, void *pinned, const void *on_card, const void *end)
{
    int err = 0;
    const size_t bytes = (size_t)((const char *)end - (const char *)on_card);
    if (bytes)
        TRY(CUDA(cudaMemcpyAsync(pinned, on_card, bytes, cudaMemcpyDeviceToHost, c->stream)));
    TRY(CUDA(cudaStreamSynchronize(c->stream)));
done:
    return err;
}

static int is_empty(const int64_t *count, int64_t n)
{
    int64_t k = 0;
    while (k < n && count[k] > 0)
        k++;
    return k < n;
}

/* Sums are integers on the card. */
static int give_answer(const struct uni_cuda *c, int32_t *index, float *score, double *sum, int64_t *count, int wanted, int64_t M,
                       int64_t n)
{
    int err = 0;
    const int64_t D = c->v.D;
    const struct answer there = answer_at(c->seed_out, M, n, D),
                        here = answer_at((long long *)((char *)c->pinned + centroid_bytes(c->p)), M, n, D);
    const void *end = wanted & UNI_WANT_INDEX   ? (const void *)(there.index + M)
                      : wanted & UNI_WANT_SCORE ? (const void *)there.index
                                                : (const void *)there.score;
    TRY(sum ? fetch(c, here.sum, there.sum, end) : fetch(c, here.score, there.score, end));
    for (int64_t i = 0; sum && i < n * D; i++)
        sum[i] = (double)here.sum[i] / SUM_SCALE;
    for (int64_t k = 0; sum && k < n; k++)
        count[k] = here.count[k];
    if (sum && !wanted && is_empty(count, n)) {
        wanted = UNI_WANT_SCORE;
        TRY(fetch(c, here.score, there.score, there.index));
    }
    if (wanted)
        memcpy(score, here.score, (size_t)M * sizeof *score);
    if (wanted & UNI_WANT_INDEX)
        memcpy(index, here.index, (size_t)M * sizeof *index);
done:
    return err;
}

int uni_cuda_nearest(struct uni_backend *b, int32_t *index, float *score, double *sum, int64_t *count, int wanted,
                     const struct uni_rows *rows, const float *Y, int64_t n)
{
    int err = 0;
    struct uni_cuda *c = (struct uni_cuda *)b->state;
    const int64_t M = rows->M, D = c->v.D;
    const size_t bytes = (size_t)(n * D) * sizeof *Y;
    const struct answer there = answer_at(c->seed_out, M, n, D);
    c->Y_known = 0;
    TRY(CUDA(cudaStreamSynchronize(c->stream))); /* a copy of a run that was given up may still read there */
    memcpy(c->pinned, Y, bytes);
    TRY(CUDA(cudaMemcpyAsync(c->seed_Y, c->pinned, bytes, cudaMemcpyHostToDevice, c->stream)));
    TRY(take_rows(c, rows));
    if (sum)
        TRY(CUDA(cudaMemsetAsync(there.sum, 0, (size_t)(n * (D + 1)) * sizeof *there.sum, c->stream)));
    nearest<<<(unsigned)((M + ROWS - 1) / ROWS), THREADS, 0, c->stream>>>(there.index, there.score, sum ? there.sum : nullptr,
                                                                          (unsigned long long *)there.count, c->seed_X, (int)M,
                                                                          c->seed_Y, (int)n, (int)D);
    TRY(CUDA(cudaGetLastError()));
    TRY(give_answer(c, index, score, sum, count, wanted, M, n));
done:
    return err;
}
