/* SPDX-License-Identifier: BSD-3-Clause */
/* Nearest centroids of the sampled cells, for the seeding. */
#include <string.h>

#include "cpu_backend.h"

enum { TASK_TILES = 8, SUM_TASKS = 16 };

static void nearest_task(void *context, int64_t task, int thread)
{
    struct uni_cpu *c = context;
    struct uni_shape shape = c->shape;
    int64_t end = (task + 1) * NEAREST_ROWS * TASK_TILES;
    shape.K = c->X_centroids;
    shape.Kv = (shape.K + c->kernels->width - 1) / c->kernels->width * c->kernels->width;
    for (int64_t i = task * NEAREST_ROWS * TASK_TILES; i < end && i < c->X_rows; i += NEAREST_ROWS)
        c->kernels->nearest(&shape, c->index + i, c->score + i, c->X + i * shape.D, c->X_rows - i < NEAREST_ROWS ? c->X_rows - i : NEAREST_ROWS,
                            c->Yt, c->bias, uni_cpu_scratch(c, thread));
}

/* The rows of each centroid behind one another, in their order: count, then place. first (n + 1) */
static void sort_rows(struct uni_cpu *c)
{
    int64_t n = c->X_centroids, *first = c->nearest_first;
    memset(first, 0, (size_t)(n + 1) * sizeof *first);
    for (int64_t i = 0; i < c->X_rows; i++)
        first[c->index[i] + 1]++;
    for (int64_t k = 0; k < n; k++) {
        c->count[k] = first[k + 1];
        first[k + 1] += first[k];
    }
    for (int64_t i = 0; i < c->X_rows; i++)
        c->nearest_rows[first[c->index[i]]++] = (int32_t)i;
    for (int64_t k = n; k > 0; k--)
        first[k] = first[k - 1];
    first[0] = 0;
}

/* Sums of a share of the centroids. */
static void sum_task(void *context, int64_t task, int thread)
{
    struct uni_cpu *c = context;
    int64_t D = c->shape.D, end = c->X_centroids * (task + 1) / SUM_TASKS;
    (void)thread;
    for (int64_t k = c->X_centroids * task / SUM_TASKS; k < end; k++) {
        memset(c->sum + k * D, 0, (size_t)D * sizeof *c->sum);
        c->kernels->add_rows(&c->shape, c->sum + k * D, c->X, c->nearest_rows + c->nearest_first[k], c->count[k]);
    }
}

/* All that could be wanted: it costs nothing here, and rows are where they are. */
int uni_cpu_nearest(struct uni_backend *b, int32_t *index, float *score, double *sum, int64_t *count, int wanted,
                    const struct uni_rows *rows, const float *Y, int64_t n)
{
    struct uni_cpu *c = b->state;
    int64_t Kv = (n + c->kernels->width - 1) / c->kernels->width * c->kernels->width, D = c->shape.D;
    (void)wanted;
    c->X = rows->X;
    c->X_rows = rows->M;
    c->X_centroids = n;
    c->index = index;
    c->score = score;
    c->sum = sum;
    c->count = count;
    for (int64_t k = 0; k < Kv; k++) {
        c->bias[k] = k < n ? 0 : -1e30f;
        for (int64_t d = 0; d < D; d++)
            c->Yt[d * Kv + k] = k < n ? Y[k * D + d] : 0;
    }
    int err = uni_pool_run(c->pool, nearest_task, c, rows->M / (NEAREST_ROWS * TASK_TILES) + 1);
    if (err || !sum)
        return err;
    sort_rows(c);
    return uni_pool_run(c->pool, sum_task, c, SUM_TASKS);
}
