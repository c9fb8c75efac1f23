/* SPDX-License-Identifier: BSD-3-Clause */
/* The two passes around the sweeps, assign and moments, and reading what is per cell. */
#include <string.h>

#include "../error.h"
#include "cpu_backend.h"

/* packed (Kv,Dv) -= factor W (K,D) */
static void pack(const struct uni_shape *s, float *packed, const float *W, float factor)
{
    for (int64_t k = 0; k < s->K; k++)
        for (int64_t d = 0; d < s->D; d++)
            packed[k * s->Dv + d] -= factor * W[k * s->D + d];
}

void uni_cpu_pack_minus_W(const struct uni_cpu *c, int64_t g, float *packed)
{
    const struct uni_shape *s = &c->shape;
    const struct uni_problem *p = c->p;
    memset(packed, 0, (size_t)(s->K * s->Dv) * sizeof *packed);
    for (int v = 0; v < p->V; v++) {
        int64_t row = uni_is_simple(p) ? g : p->group_level[g * p->V + v];
        pack(s, packed, c->shift.W + row * s->K * s->D, (float)c->shift.step);
    }
    if (s->tiles)
        c->kernels->pack(packed + s->Kv * s->Dv, packed, s->K, s->Dv);
}

void uni_cpu_pack_slopes(const struct uni_cpu *c)
{
    const struct uni_shape *s = &c->shape;
    memset(c->minus_slope, 0, (size_t)(s->X * s->Kv * s->Dv) * sizeof *c->minus_slope);
    for (int x = 0; x < s->X && c->shift.W; x++)
        pack(s, c->minus_slope + x * s->Kv * s->Dv, c->shift.slope + x * s->K * s->D, (float)c->shift.step);
}

/* The centroids by columns, scaled so that Yt.z + bias is the base-2 logarithm of exp(-dist / sigma). */
static void pack_centroids(const struct uni_cpu *c, const float *Y)
{
    const struct uni_shape *s = &c->shape;
    for (int64_t k = 0; k < s->Kv; k++) {
        double scale = k < s->K ? 2 * 1.4426950408889634 / c->p->sigma[k] : 0;
        c->bias[k] = k < s->K ? (float)-scale : -1e30f;
        for (int64_t d = 0; d < s->D; d++)
            c->Yt[d * s->Kv + k] = k < s->K ? (float)(scale * Y[k * s->D + d]) : 0;
    }
    if (s->tiles)
        c->kernels->pack(c->packed_Y, c->Yt, s->D, s->Kv);
}

static void assign_task(void *context, int64_t task, int thread)
{
    struct uni_cpu *c = context;
    const struct uni_range *t = &c->layout.task[task];
    struct uni_centroids centroids = {c->Yt, c->bias, c->sigma, c->packed_Y};
    float *scratch = uni_cpu_scratch(c, thread), *minus_W = c->shift.W ? uni_cpu_minus_W(c, thread) : NULL;
    double *fit = c->want_fit ? c->fit + 2 * task : NULL;
    int64_t group = -1;
    if (fit)
        fit[0] = fit[1] = 0;
    for (int64_t i = t->first, end = t->first + t->n; i < end;) {
        struct uni_run run;
        struct uni_part part[MOST_JOINED];
        int64_t g = c->layout.piece[c->layout.run[i].piece].group;
        if (c->shift.W && g != group)
            uni_cpu_pack_minus_W(c, g, minus_W);
        group = g;
        i += uni_cpu_join(c, i, end, &run, part);
        c->kernels->assign(&c->shape, &run, part, minus_W, &centroids, fit, scratch);
    }
}

/* A group's pieces are added in the order of its rows. */
static void add_group(void *context, int64_t g, int thread)
{
    struct uni_cpu *c = context;
    double *O = c->O + g * c->shape.Kv;
    (void)thread;
    memset(O, 0, (size_t)c->shape.Kv * sizeof *O);
    for (int64_t i = c->layout.group_run[g]; i < c->layout.group_run[g + 1]; i += c->layout.piece[c->layout.run[i].piece].runs) {
        int64_t piece = c->layout.run[i].piece;
        const float *mass = c->mass + piece * c->shape.Kv;
        uni_cpu_add_runs(c, piece);
        for (int64_t k = 0; k < c->shape.K; k++)
            O[k] += mass[k];
    }
}

/* R is base now: no penalty. */
static void reset_block(void *context, int64_t q, int thread)
{
    struct uni_cpu *c = context;
    const struct uni_shape *s = &c->shape;
    double *r = c->block_r + q * s->Kv;
    (void)thread;
    memset(r, 0, (size_t)s->Kv * sizeof *r);
    for (int64_t piece = c->layout.block_first[q]; piece < c->layout.block_first[q + 1]; piece++)
        for (int64_t k = 0; k < s->Kv; k++) {
            r[k] += c->mass[piece * s->Kv + k];
            c->P[piece * s->Kv + k] = k < s->K;
        }
}

int uni_cpu_assign(struct uni_backend *b, double *O, struct uni_fit *fit, const struct uni_shift *shift, const float *Y)
{
    int err = 0;
    struct uni_cpu *c = b->state;
    c->shift = shift ? *shift : (struct uni_shift){0};
    uni_cpu_pack_slopes(c);
    c->want_fit = fit != NULL;
    pack_centroids(c, Y);
    TRY(uni_pool_run(c->pool, assign_task, c, c->layout.n_tasks));
    TRY(uni_pool_run(c->pool, add_group, c, c->p->G));
    TRY(uni_pool_run(c->pool, reset_block, c, c->p->Q));
    if (c->p->jacobi)
        uni_cpu_restart_jacobi(c);
    if (c->p->redraw)
        uni_cpu_restart_redraw(c);
    memset(c->r, 0, (size_t)c->shape.Kv * sizeof *c->r);
    for (int64_t i = 0; i < c->p->Q * c->shape.Kv; i++)
        c->r[i % c->shape.Kv] += c->block_r[i];
    uni_cpu_give_O(c, O);
    if (fit) {
        *fit = (struct uni_fit){0};
        for (int64_t t = 0; t < c->layout.n_tasks; t++) {
            fit->distance += c->fit[2 * t];
            fit->entropy += c->fit[2 * t + 1];
        }
    }
done:
    return err;
}

/* (Dr,Kv) -> (K,D) */
#define TURN(name, type)                                                                                                         \
    static void name(const struct uni_shape *s, double *S, const type *moments)                                                  \
    {                                                                                                                            \
        enum { ROWS = 8 }; /* at once: what a line of moments goes to */                                                         \
        for (int64_t first = 0; first < s->K; first += ROWS) {                                                                   \
            const int64_t end = first + ROWS < s->K ? first + ROWS : s->K;                                                       \
            for (int64_t d = 0; d < s->D; d++)                                                                                   \
                for (int64_t k = first; k < end; k++)                                                                            \
                    S[k * s->D + d] = (double)moments[d * s->Kv + k];                                                            \
        }                                                                                                                        \
    }
TURN(turn, double)
TURN(turn_single, float)

static void add_to_total(const struct uni_cpu *c, double *total, const float *S, int64_t is_begun)
{
    if (!is_begun)
        memset(total, 0, (size_t)(c->shape.D * c->shape.Kv) * sizeof *total);
    c->kernels->add_moments(&c->shape, total, S);
}

/* Small runs of a group share a float32 sum while they have no more rows than one run may have. */
static void moments_task(void *context, int64_t task, int thread)
{
    struct uni_cpu *c = context;
    const struct uni_shape *s = &c->shape;
    const struct uni_slice *slice = &c->layout.slice[c->slice_first + task];
    float *S = uni_cpu_run_S(c, thread);
    double *total = slice->part < 0 ? c->whole + thread * s->Dr * s->Kv : c->parts + slice->part * s->Dr * s->Kv;
    int64_t rows = 0, is_begun = 0;
    for (int64_t i = slice->run, end = slice->run + slice->runs; i < end;) {
        struct uni_run run;
        struct uni_part part[MOST_JOINED];
        const float *x = c->x1 ? c->x1 + c->layout.run[i].first : NULL;
        i += uni_cpu_join(c, i, end, &run, part);
        if (rows + run.n > RUN_ROWS) {
            add_to_total(c, total, S, is_begun);
            is_begun = 1;
            rows = 0;
        }
        c->kernels->moments(s, &run, part, S, rows > 0, x, uni_cpu_scratch(c, thread));
        rows += run.n;
    }
    if (slice->part < 0 && !is_begun) {
        turn_single(s, c->S + (slice->group - c->S_first) * s->K * s->D, S);
        return;
    }
    add_to_total(c, total, S, is_begun);
    if (slice->part < 0)
        turn(s, c->S + (slice->group - c->S_first) * s->K * s->D, total);
}

static void add_slices(void *context, int64_t task, int thread)
{
    struct uni_cpu *c = context;
    const struct uni_shape *s = &c->shape;
    int64_t g = c->S_first + task, first = c->layout.group_slice[g], n = c->layout.group_slice[g + 1] - first;
    (void)thread;
    if (n == 1)
        return;
    double *total = c->parts + c->layout.slice[first].part * s->Dr * s->Kv;
    for (int64_t i = 1; i < n; i++) {
        const double *part = c->parts + c->layout.slice[first + i].part * s->Dr * s->Kv;
        for (int64_t e = 0; e < s->D * s->Kv; e++)
            total[e] += part[e];
    }
    turn(s, c->S + task * s->K * s->D, total);
}

int uni_cpu_moments_of(struct uni_cpu *c, double *S, int64_t first, int64_t end, const float *x)
{
    const int64_t *slices = c->layout.group_slice;
    c->S = S;
    c->S_first = first;
    c->slice_first = slices[first];
    c->x1 = x;
    int err = uni_pool_run(c->pool, moments_task, c, slices[end] - slices[first]);
    return err ? err : uni_pool_run(c->pool, add_slices, c, end - first);
}

int uni_cpu_moments(struct uni_backend *b, double *S, const unsigned char *part)
{
    struct uni_cpu *c = b->state;
    return c->p->by_level ? uni_cpu_moments_by_level(c, S, part) : uni_cpu_moments_of(c, S, 0, c->p->G, NULL);
}

static void read_task(void *context, int64_t task, int thread)
{
    struct uni_cpu *c = context;
    const struct uni_range *t = &c->layout.task[task];
    float *scratch = uni_cpu_scratch(c, thread), *minus_W = uni_cpu_minus_W(c, thread);
    int64_t group = -1;
    for (int64_t i = t->first; i < t->first + t->n; i++) {
        struct uni_run run = uni_cpu_run(c, i);
        const struct uni_piece *piece = &c->layout.piece[c->layout.run[i].piece];
        const float *P = uni_cpu_run_P(c, i);
        const uint32_t *row = c->p->row + c->layout.run[i].first;
        if (c->what == UNI_CELLS_R) {
            c->kernels->assignments(&c->shape, &run, P, row, c->dst, scratch);
        } else if (c->what == UNI_CELLS_BLOCK) {
            for (int64_t j = 0; j < run.n; j++)
                ((int32_t *)c->dst)[row[j]] = run.block ? run.block[j] : piece->block;
        } else if (c->shift.W) {
            if (piece->group != group)
                uni_cpu_pack_minus_W(c, piece->group, minus_W);
            group = piece->group;
            c->kernels->correct(&c->shape, &run, P, minus_W, row, c->dst, scratch);
        } else {
            for (int64_t j = 0; j < run.n; j++)
                memcpy((float *)c->dst + row[j] * c->shape.D, run.Z + j * c->shape.D, (size_t)c->shape.D * sizeof(float));
        }
    }
}

static void read_skipped(const struct uni_cpu *c)
{
    const struct uni_problem *p = c->p;
    for (int64_t i = p->N; i < p->N_all; i++) {
        if (c->what == UNI_CELLS_R)
            memset((float *)c->dst + p->row[i] * p->K, 0, (size_t)p->K * sizeof(float));
        else if (c->what == UNI_CELLS_BLOCK)
            ((int32_t *)c->dst)[p->row[i]] = -1;
        else
            memcpy((float *)c->dst + p->row[i] * p->D, c->Z + i * p->D, (size_t)p->D * sizeof(float));
    }
}

int uni_cpu_read(struct uni_backend *b, enum uni_cells what, const struct uni_shift *shift, void *dst)
{
    struct uni_cpu *c = b->state;
    c->what = what;
    c->shift = shift ? *shift : (struct uni_shift){0};
    uni_cpu_pack_slopes(c);
    c->dst = dst;
    read_skipped(c);
    return uni_pool_run(c->pool, read_task, c, c->layout.n_tasks);
}
