/* SPDX-License-Identifier: BSD-3-Clause */
/* The block update. R is never stored: for a cell of a piece with penalties P, R = base P / s, s = sum_k base P, so with G = sum
   of base / s over the piece's cells its part of O is P G. A block's own part is taken out of O before its penalties are made. */
#include <string.h>

#include "../error.h"
#include "cpu_backend.h"

/* Some pieces of the block leave O; what left is summed for r. */
static void leave_task(void *context, int64_t task, int thread)
{
    struct uni_cpu *c = context;
    const struct uni_range *h = &c->layout.head[c->layout.head_first[c->block] + task];
    double *left = c->heads + task * c->shape.Kv;
    (void)thread;
    memset(left, 0, (size_t)c->shape.Kv * sizeof *left);
    for (int64_t i = h->first; i < h->first + h->n; i++) {
        int64_t piece = c->layout.by_block[i];
        double *O = c->O + c->layout.piece[piece].group * c->shape.Kv;
        const float *mass = c->mass + piece * c->shape.Kv;
        for (int64_t k = 0; k < c->shape.Kv; k++) {
            O[k] -= mass[k];
            left[k] += mass[k];
        }
    }
}

static void penalty_task(void *context, int64_t task, int thread)
{
    struct uni_cpu *c = context;
    const struct uni_range *h = &c->layout.head[c->layout.head_first[c->block] + task];
    (void)thread;
    for (int64_t i = h->first; i < h->first + h->n; i++) {
        int64_t piece = c->layout.by_block[i], group = c->layout.piece[piece].group;
        int32_t level = c->p->group_level[group];
        c->kernels->penalty(&c->shape, c->P + piece * c->shape.Kv, c->O + group * c->shape.Kv, c->r, c->p->level_share[level],
                            c->p->level_theta[level]);
    }
}

static void cells_task(void *context, int64_t task, int thread)
{
    struct uni_cpu *c = context;
    const struct uni_range *t = &c->layout.step[c->layout.step_first[c->block] + task];
    double *fit = c->want_fit ? c->fit + 2 * (c->layout.step_first[c->block] + task) : NULL;
    float *scratch = uni_cpu_scratch(c, thread), *weighted = uni_cpu_weighted_P(c, thread);
    int64_t last = -1;
    if (fit)
        fit[0] = fit[1] = 0;
    for (int64_t j = t->first; j < t->first + t->n; j++) {
        int64_t i = c->layout.runs_by_block[j], piece = c->layout.run[i].piece;
        struct uni_run run = uni_cpu_run(c, i);
        const float *P = c->P + piece * c->shape.Kv;
        for (int64_t k = 0; fit && piece != last && k < c->shape.Kv; k++)
            weighted[k] = c->sigma[k] * P[k];
        last = piece;
        c->kernels->sweep(&c->shape, &run, P, weighted, uni_cpu_run_sum(c, i), fit, scratch);
        if (fit && c->want_terms)
            fit[1] += c->kernels->entropy(&c->shape, &run, P, c->sigma, scratch);
    }
}

/* The pieces come back: their part of O is P G. */
static void return_task(void *context, int64_t task, int thread)
{
    struct uni_cpu *c = context;
    const struct uni_range *h = &c->layout.head[c->layout.head_first[c->block] + task];
    double *came = c->heads + task * c->shape.Kv;
    (void)thread;
    memset(came, 0, (size_t)c->shape.Kv * sizeof *came);
    for (int64_t i = h->first; i < h->first + h->n; i++) {
        int64_t piece = c->layout.by_block[i];
        double *O = c->O + c->layout.piece[piece].group * c->shape.Kv;
        float *mass = c->mass + piece * c->shape.Kv;
        const float *P = c->P + piece * c->shape.Kv;
        uni_cpu_add_runs(c, piece);
        for (int64_t k = 0; k < c->shape.Kv; k++) {
            mass[k] *= P[k];
            O[k] += mass[k];
            came[k] += mass[k];
        }
    }
}

static void add_heads(const struct uni_cpu *c, int64_t heads, double sign)
{
    for (int64_t h = 0; h < heads; h++)
        for (int64_t k = 0; k < c->shape.Kv; k++)
            c->r[k] += sign * c->heads[h * c->shape.Kv + k];
}

static int update_block(struct uni_cpu *c, int64_t q)
{
    int err = 0;
    const struct uni_layout *l = &c->layout;
    int64_t heads = l->head_first[q + 1] - l->head_first[q];
    c->block = q;
    TRY(uni_pool_run(c->pool, leave_task, c, heads));
    add_heads(c, heads, -1);
    TRY(uni_pool_run(c->pool, penalty_task, c, heads));
    TRY(uni_pool_run(c->pool, cells_task, c, l->step_first[q + 1] - l->step_first[q]));
    TRY(uni_pool_run(c->pool, return_task, c, heads));
    add_heads(c, heads, 1);
done:
    return err;
}

/* sum R (dist + sigma ln R) = sum over pieces of sigma mass ln P - sum over cells of (sum_k sigma R) (ln s + L); see
 * architecture.md 3.4 */
static struct uni_fit add_fit(const struct uni_cpu *c)
{
    double total = 0, entropy = 0;
    for (int64_t t = 0; t < c->layout.n_steps; t++) {
        total += c->fit[2 * t];
        entropy += c->fit[2 * t + 1];
    }
    for (int64_t piece = 0; piece < c->layout.n_pieces; piece++)
        total += c->kernels->log_dot(&c->shape, c->mass + piece * c->shape.Kv, c->P + piece * c->shape.Kv, c->sigma);
    return (struct uni_fit){total - entropy, entropy};
}

int uni_cpu_sweep(struct uni_backend *b, double *O, struct uni_fit *fit, int64_t sweeps, int terms)
{
    int err = 0;
    struct uni_cpu *c = b->state;
    for (int64_t sweep = 0; sweep < sweeps; sweep++) {
        c->want_fit = fit && sweep + 1 == sweeps;
        c->want_terms = terms;
        for (int64_t q = 0; q < c->p->Q; q++)
            TRY(update_block(c, q));
    }
    if (fit)
        *fit = add_fit(c);
    uni_cpu_give_O(c, O);
done:
    return err;
}
