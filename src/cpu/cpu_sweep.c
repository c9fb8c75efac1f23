/* SPDX-License-Identifier: BSD-3-Clause */
/* The block update. R is never stored: for a cell of a piece with penalties P, R = base P / s, s = sum_k base P, so with G = sum
   of base / s over the piece's cells its part of O is P G. A block's own part is taken out of O before its penalties are made. */
#include <string.h>

#include "../error.h"
#include "cpu_backend.h"

/* A piece leaves O, and its penalties are made from what is left; r has lost the whole block already. */
static void leave(struct uni_cpu *c, int64_t piece)
{
    int64_t group = c->layout.piece[piece].group;
    int32_t level = c->p->group_level[group];
    double *O = c->O + group * c->shape.Kv;
    c->kernels->leave(&c->shape, c->P + piece * c->shape.Kv, O, c->mass + piece * c->shape.Kv, c->r, c->p->level_share[level],
                      c->p->level_theta[level]);
}

/* It comes back with its new part of O, P G, which is added to came as well. fit: see add_fit. */
static void come_back(struct uni_cpu *c, int64_t piece, double *came, double *fit)
{
    double *O = c->O + c->layout.piece[piece].group * c->shape.Kv;
    float *mass = c->mass + piece * c->shape.Kv;
    const float *P = c->P + piece * c->shape.Kv;
    uni_cpu_add_runs(c, piece);
    c->kernels->come_back(&c->shape, mass, O, came, P);
    if (fit)
        *fit += c->kernels->log_dot(&c->shape, mass, P, c->sigma);
}

static void leave_task(void *context, int64_t task, int thread)
{
    struct uni_cpu *c = context;
    (void)thread;
    leave(c, c->layout.multiple[c->layout.multiple_first[c->block] + task]);
}

/* Some thousand cells of the block. A piece of one run is the task's own from leaving to coming back; larger ones are several
 * tasks'. */
static void cells_task(void *context, int64_t task, int thread)
{
    struct uni_cpu *c = context;
    int64_t step = c->layout.step_first[c->block] + task, last = -1;
    const struct uni_range *t = &c->layout.step[step];
    double *fit = c->want_fit ? c->fit + 2 * step : NULL, *came = c->came + step * c->shape.Kv;
    float *scratch = uni_cpu_scratch(c, thread), *weighted = uni_cpu_weighted_P(c, thread);
    memset(came, 0, (size_t)c->shape.Kv * sizeof *came);
    if (fit)
        fit[0] = fit[1] = 0;
    for (int64_t j = t->first; j < t->first + t->n; j++) {
        int64_t i = c->layout.runs_by_block[j], piece = c->layout.run[i].piece;
        int whole = c->layout.piece[piece].runs == 1 && c->p->V == 1;
        struct uni_run run = uni_cpu_run(c, i);
        const float *P = c->P + piece * c->shape.Kv;
        if (j + 1 < t->first + t->n)
            run.next = uni_cpu_run(c, c->layout.runs_by_block[j + 1]).base;
        if (whole)
            leave(c, piece);
        for (int64_t k = 0; fit && piece != last && k < c->shape.Kv; k++)
            weighted[k] = c->sigma[k] * P[k];
        last = piece;
        c->kernels->sweep(&c->shape, &run, P, weighted, uni_cpu_run_sum(c, i), fit, scratch);
        if (fit && c->want_terms)
            fit[1] += c->kernels->entropy(&c->shape, &run, P, c->sigma, scratch);
        if (whole)
            come_back(c, piece, came, fit);
    }
}

/* Of one variable: the pieces that several tasks share; the others leave and come back within their task. */
static int leave_shared(struct uni_cpu *c)
{
    const struct uni_layout *l = &c->layout;
    const int64_t first = l->multiple_first[c->block], n = l->multiple_first[c->block + 1] - first;
    if (n > 16) /* fewer are not worth waking anybody */
        return uni_pool_run(c->pool, leave_task, c, n);
    for (int64_t i = 0; i < n; i++)
        leave(c, l->multiple[first + i]);
    return UNI_OK;
}

/* And what came back altogether, into the block's part of r. */
static int return_shared(struct uni_cpu *c)
{
    const struct uni_layout *l = &c->layout;
    const int64_t Kv = c->shape.Kv, q = c->block;
    double *r = c->block_r + q * Kv;
    memset(r, 0, (size_t)Kv * sizeof *r);
    for (int64_t i = l->multiple_first[q]; i < l->multiple_first[q + 1]; i++)
        come_back(c, l->multiple[i], r, c->want_fit ? c->fit + 2 * l->n_steps : NULL);
    for (int64_t step = l->step_first[q]; step < l->step_first[q + 1]; step++)
        for (int64_t k = 0; k < Kv; k++)
            r[k] += c->came[step * Kv + k];
    return UNI_OK;
}

static int update_block(struct uni_cpu *c, int64_t q)
{
    int err = 0, joint = c->p->V > 1;
    const int64_t *step_first = c->layout.step_first, Kv = c->shape.Kv;
    const double *r = c->block_r + q * Kv;
    c->block = q;
    for (int64_t k = 0; k < Kv; k++)
        c->r[k] -= r[k];
    TRY(joint ? uni_cpu_leave_joint(c) : leave_shared(c));
    TRY(uni_pool_run(c->pool, cells_task, c, step_first[q + 1] - step_first[q]));
    TRY(joint ? uni_cpu_return_joint(c) : return_shared(c));
    for (int64_t k = 0; k < Kv; k++)
        c->r[k] += r[k];
done:
    return err;
}

/* sum R (dist + sigma ln R) = sum over pieces of sigma mass ln P - sum over cells of (sum_k sigma R) (ln s + L); see
 * architecture.md 3.4 */
static struct uni_fit add_fit(const struct uni_cpu *c)
{
    double total = 0, entropy = 0;
    for (int64_t t = 0; t <= c->layout.n_steps; t++) {
        total += c->fit[2 * t];
        entropy += c->fit[2 * t + 1];
    }
    return (struct uni_fit){total - entropy, entropy};
}

static int sweep_blocks(struct uni_cpu *c)
{
    int err = 0;
    for (int64_t q = 0; q < c->p->Q && !err; q++)
        err = update_block(c, q);
    return err;
}

int uni_cpu_sweep(struct uni_backend *b, double *O, struct uni_fit *fit, int64_t sweeps, int terms)
{
    int err = 0;
    struct uni_cpu *c = b->state;
    int (*one)(struct uni_cpu *) = c->p->jacobi ? uni_cpu_sweep_jacobi : c->p->redraw ? uni_cpu_sweep_redraw : sweep_blocks;
    if (one == sweep_blocks && c->p->V > 1)
        uni_cpu_start_joint(c);
    for (int64_t sweep = 0; sweep < sweeps; sweep++) {
        c->want_fit = fit && sweep + 1 == sweeps;
        c->want_terms = terms;
        c->fit[2 * c->layout.n_steps] = c->fit[2 * c->layout.n_steps + 1] = 0; /* of the pieces of several runs */
        TRY(one(c));
    }
    if (fit)
        *fit = add_fit(c);
    uni_cpu_give_O(c, O);
done:
    return err;
}
