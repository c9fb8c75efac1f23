/* SPDX-License-Identifier: BSD-3-Clause */
/* Exact neighbours by products. With y = (x - centre) scale in float32, |y_i - y_q|^2 = |y_i|^2 + |y_q|^2 - 2 y_i.y_q, and the
 * kernel computes score = 2 y_q.y_i - (1 - m) |y_i|^2, so that in spite of all rounding, with r = |x_i - x_q| scale,
 *
 *     (1 - m) |y_q|^2 - score  <=  r^2  <=  (1 + m) |y_q|^2 - low,   low = score - 2 m |y_i|^2
 *
 * With u = 2^-24 and D + 1 terms, a product's float32 sum is off by at most g (2 |y_i|^2 + |y_q|^2), g = (D + 1) u / (1 - (D + 1)
 * u), since 2 ab <= a^2 + b^2. Rounding the coordinates moves each cell by at most u of its length, which changes the squared
 * distance by at most 4 u (|y_i|^2 + |y_q|^2), and rounding the stored length makes u |y_i|^2. So m = 2 g + 10 u is enough, and
 * leaves some for the second order and the float64 steps. If the k highest lows are P or more, k cells have r^2 <= (1 + m)
 * |y_q|^2 - P, and a cell that scores less than P - 2 m |y_q|^2 is not among the nearest k.
 *
 * So what is found is held against a limit that rises while the cells come in their order, and the hundred or so that are left at
 * the end are measured. Where far more are left, copies of one cell say, they are measured when room runs out, and the limit is
 * that of the k-th nearest of these. Every stride-th cell goes first: where cells are sorted, by type say, each new one might
 * else be nearer than all before.
 */
#include "neighbours.h"

#include <math.h>
#include <string.h>

#include "../cpu/cpu_kernels.h"
#include "../pool.h"
#include "../error.h"

enum {
    ROOM = 4 * NEAR_CELLS, /* beyond k: of what is found for a query */
    TILE_MOST = 20 * NEAR_ROWS,
    TILE_BYTES = 4 << 20, /* of a task's own arrays, as long as that leaves NEAR_ROWS queries */
    STRIDE_MOST = 64,
    STRIDE_LEAST = 8,
    PART = 4096,   /* cells of a task that looks at all */
    SAMPLED = 4096 /* cells that the centre is the mean of */
};

/* ---- memory ---------------------------------------------------------------------------------------------------------------- */

static int is_row_by_row(const struct uni_matrix *m)
{
    int64_t size = m->dtype == UNI_FLOAT64 ? 8 : 4;
    return m->col_stride == size && (int64_t)((uintptr_t)m->data % (uintptr_t)size) == 0 && m->row_stride % size == 0;
}

static int64_t tile_of(const struct uni_near_job *job, int64_t D, int64_t threads)
{
    int64_t bytes = D * 4 + job->k * 20 + (job->k + ROOM) * (int64_t)sizeof(struct uni_found);
    int64_t tile = TILE_BYTES / bytes / NEAR_ROWS * NEAR_ROWS,
            share = uni_near_parts(uni_near_parts(job->n_queries, threads), NEAR_ROWS) * NEAR_ROWS;
    tile = tile < NEAR_ROWS ? NEAR_ROWS : tile < TILE_MOST ? tile : TILE_MOST;
    return tile < share ? tile : share;
}

int64_t uni_near_list(int64_t k)
{
    int64_t least = k + UNI_NEAR_SPARE;
    return least <= UNI_NEAR_MOST / 2 ? UNI_NEAR_MOST / 2 : least <= UNI_NEAR_MOST ? UNI_NEAR_MOST : 0;
}

static void set_sizes(struct uni_neighbours *s, const struct uni_near_job *job, int64_t threads)
{
    *s = (struct uni_neighbours){.job = *job, .N = job->plain->n_cells, .D = job->plain->n_dims, .k = job->k, .threads = threads};
    s->tile = tile_of(job, s->D, threads);
    s->room = s->k + ROOM;
    s->wide = job->plain->dtype == UNI_FLOAT64;
    s->row_stride = is_row_by_row(job->plain) ? job->plain->row_stride : s->D * (s->wide ? 8 : 4);
    s->n_panels = uni_near_parts(s->N, NEAR_CELLS);
    for (s->stride = STRIDE_MOST; s->stride > STRIDE_LEAST && s->N / s->stride < 8 * s->k;)
        s->stride /= 2;
    s->R = job->device ? uni_near_list(s->k) : 0;
    s->n_coarse = !s->R && s->N / s->stride > 4 * s->k ? uni_near_parts(uni_near_parts(s->N, s->stride), NEAR_CELLS) : 0;
}

enum { ARRAYS = 17 };
static void list_arrays(struct uni_array_row list[ARRAYS], struct uni_neighbours *s)
{
    int64_t panel = (s->D + 1) * NEAR_CELLS, rows = s->threads * s->tile;
    int64_t batch = !s->R ? 0 : s->job.n_queries < UNI_NEAR_BATCH ? s->job.n_queries : UNI_NEAR_BATCH;
    const struct uni_array_row all[ARRAYS] = {
        UNI_ARRAY(s->panels, s->n_panels * panel),
        UNI_ARRAY(s->coarse, s->n_coarse * panel),
        UNI_ARRAY(s->copy, is_row_by_row(s->job.plain) ? 0 : s->N * s->row_stride),
        UNI_ARRAY(s->centre, s->D),
        UNI_ARRAY(s->most, uni_near_parts(s->N, PART)),
        UNI_ARRAY(s->query, rows * s->D),
        UNI_ARRAY(s->limit, rows),
        UNI_ARRAY(s->square, rows),
        UNI_ARRAY(s->found, rows * s->room),
        UNI_ARRAY(s->count, rows),
        UNI_ARRAY(s->looked, rows),
        UNI_ARRAY(s->low, rows * s->k),
        UNI_ARRAY(s->lows, rows),
        UNI_ARRAY(s->near, rows * s->k),
        UNI_ARRAY(s->have, rows),
        UNI_ARRAY(s->batch_query, batch * s->D),
        UNI_ARRAY(s->listed, batch * s->R),
    };
    memcpy(list, all, sizeof all);
}

int64_t uni_neighbours_bytes(const struct uni_near_job *job, int64_t *threads)
{
    struct uni_array_row list[ARRAYS];
    struct uni_neighbours s;
    *threads = job->threads ? job->threads : uni_cpu_count();
    set_sizes(&s, job, *threads);
    list_arrays(list, &s);
    return uni_arena_bytes(list, ARRAYS);
}

/* ---- cells ----------------------------------------------------------------------------------------------------------------- */

static double value(const struct uni_neighbours *s, int64_t cell, int64_t d)
{
    const char *row = s->rows + cell * s->row_stride;
    return s->wide ? ((const double *)(const void *)row)[d] : ((const float *)(const void *)row)[d];
}

static int64_t part_end(const struct uni_neighbours *s, int64_t task)
{
    return (task + 1) * PART < s->N ? (task + 1) * PART : s->N;
}

static void copy_rows(void *context, int64_t task, int thread)
{
    struct uni_neighbours *s = context;
    const struct uni_matrix *m = s->job.plain;
    int64_t size = s->wide ? 8 : 4;
    (void)thread;
    for (int64_t i = task * PART; i < part_end(s, task); i++)
        for (int64_t d = 0; d < s->D; d++)
            memcpy(s->copy + i * s->row_stride + d * size, (const char *)m->data + i * m->row_stride + d * m->col_stride,
                   (size_t)size);
}

static void find_most(void *context, int64_t task, int thread)
{
    struct uni_neighbours *s = context;
    double most = 0;
    (void)thread;
    for (int64_t i = task * PART; i < part_end(s, task); i++)
        for (int64_t d = 0; d < s->D; d++) {
            double off = fabs(value(s, i, d) - s->centre[d]);
            most = off > most ? off : most;
        }
    s->most[task] = most;
}

/* Any centre will do, and any power of two: they keep the margin small, and the products from over- and underflow. */
static int centre_cells(struct uni_neighbours *s)
{
    int64_t step = uni_near_parts(s->N, SAMPLED), seen = uni_near_parts(s->N, step);
    double most = 0;
    int exponent;
    for (int64_t i = 0; i < s->N; i += step)
        for (int64_t d = 0; d < s->D; d++)
            s->centre[d] += value(s, i, d) / (double)seen;
    int err = uni_pool_run(s->pool, find_most, s, uni_near_parts(s->N, PART));
    for (int64_t i = 0; i < uni_near_parts(s->N, PART); i++)
        most = s->most[i] > most ? s->most[i] : most;
    frexp(most, &exponent);
    s->scale = most > 0 ? ldexp(1, -exponent) : 1;
    return err;
}

double uni_near_margin(int64_t D)
{
    double u = 0x1p-24, terms = (double)D + 1;
    return 2 * terms * u / (1 - terms * u) + 10 * u;
}

double uni_near_place(const struct uni_neighbours *s, int64_t cell, float *to, int64_t step, float times)
{
    double square = 0;
    for (int64_t d = 0; d < s->D; d++) {
        float y = (float)(s->scale * (value(s, cell, d) - s->centre[d]));
        to[d * step] = times * y;
        square += (double)y * y;
    }
    return square;
}

static void pack(const struct uni_neighbours *s, float *panel, int64_t first, int64_t step)
{
    for (int64_t c = 0; c < NEAR_CELLS; c++) {
        int64_t cell = (first + c) * step;
        if (cell < s->N)
            panel[c] = (float)(-(1 - uni_near_margin(s->D)) * uni_near_place(s, cell, panel + NEAR_CELLS + c, NEAR_CELLS, 1));
        else
            panel[c] = -HUGE_VALF; /* never reaches a limit */
    }
}

static void pack_panel(void *context, int64_t task, int thread)
{
    struct uni_neighbours *s = context;
    int64_t size = (s->D + 1) * NEAR_CELLS, coarse = task - s->n_panels;
    (void)thread;
    if (coarse < 0)
        pack(s, s->panels + task * size, task * NEAR_CELLS, 1);
    else
        pack(s, s->coarse + coarse * size, coarse * NEAR_CELLS, s->stride);
}

int uni_neighbours_open(struct uni_neighbours *s, const struct uni_near_job *job)
{
    int err = 0;
    struct uni_array_row list[ARRAYS];
    const struct uni_cpu_kernels *kernels = uni_cpu_choose();
    int64_t threads = job->threads ? job->threads : uni_cpu_count();
    struct uni_pool *pool = kernels ? uni_pool_open(threads, job->cancel) : NULL;
    set_sizes(s, job, pool ? uni_pool_threads(pool) : 1);
    s->kernels = kernels;
    s->pool = pool;
    if (!kernels)
        TRY(UNI_BACKEND);
    if (!pool)
        TRY(uni_fail(UNI_MEMORY, "no memory for %lld threads", (long long)threads));
    list_arrays(list, s);
    TRY(uni_arena_open(&s->arena, list, ARRAYS, "the neighbours"));
    s->rows = job->plain->data;
    if (!is_row_by_row(job->plain)) {
        TRY(uni_pool_run(pool, copy_rows, s, uni_near_parts(s->N, PART)));
        s->rows = s->copy;
    }
    TRY(centre_cells(s));
    TRY(uni_pool_run(pool, pack_panel, s, s->n_panels + s->n_coarse));
    if (s->R)
        TRY(job->device->open(&s->device_state, job->device_number, s->panels, s->n_panels, s->D, s->R));
done:
    if (err)
        uni_neighbours_close(s);
    return err;
}

void uni_neighbours_close(struct uni_neighbours *s)
{
    if (s->device_state)
        s->job.device->close(s->device_state);
    uni_pool_close(s->pool);
    uni_arena_close(&s->arena);
    s->pool = NULL;
    s->device_state = NULL;
}
