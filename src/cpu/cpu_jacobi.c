/* SPDX-License-Identifier: BSD-3-Clause */
/* The damped update of all cells at once (harmony2.md 3.4): O <- O/2 + P G/2. R is a fixed combination of base and of what every
   past sweep's penalties made of it, so a round's penalty tables are kept, and R is made from them where it is needed. Of more
   sweeps than fit into the table of shares, the oldest have a share below 2^-24 and count as unpenalised. */
#include <string.h>

#include "../error.h"
#include "cpu_backend.h"

int64_t uni_cpu_past(const struct uni_problem *p)
{
    int64_t past = p->sweeps < MOST_TABLES - 1 ? p->sweeps : MOST_TABLES - 1;
    return p->jacobi ? past : 0;
}

void uni_cpu_restart_jacobi(struct uni_cpu *c)
{
    c->recipe.n = 1;
    c->recipe.share[0] = 1;
}

/* A table for the sweep to come, which halves the shares of all before it. */
static float *next_table(struct uni_cpu *c)
{
    struct uni_recipe *r = &c->recipe;
    const float *free = c->tables + (r->n - 1) * c->p->G * c->shape.Kv;
    for (int t = 0; t < r->n; t++)
        r->share[t] /= 2;
    if (r->n > c->past) {
        free = r->table[1];
        r->share[0] += r->share[1];
        memmove(r->share + 1, r->share + 2, (size_t)(r->n - 2) * sizeof *r->share);
        memmove(r->table + 1, r->table + 2, (size_t)(r->n - 2) * sizeof *r->table);
        r->n--;
    }
    r->share[r->n] = 0.5f;
    r->table[r->n++] = free;
    return (float *)(uintptr_t)free;
}

static const float *newest_table(const struct uni_cpu *c)
{
    return c->recipe.table[c->recipe.n - 1];
}

static void penalise_task(void *context, int64_t g, int thread)
{
    struct uni_cpu *c = context;
    (void)thread;
    uni_cpu_penalise_group(c, g, (float *)(uintptr_t)newest_table(c) + g * c->shape.Kv);
}

/* There is one block: its steps are all cells. */
static void sweep_task(void *context, int64_t step, int thread)
{
    struct uni_cpu *c = context;
    const struct uni_range *t = &c->layout.step[step];
    for (int64_t j = t->first; j < t->first + t->n; j++) {
        int64_t i = c->layout.runs_by_block[j];
        struct uni_run run = uni_cpu_run(c, i);
        c->kernels->sweep(&c->shape, &run, newest_table(c) + run.at, NULL, uni_cpu_run_sum(c, i), NULL,
                          uni_cpu_scratch(c, thread));
    }
}

static void update_task(void *context, int64_t piece, int thread)
{
    struct uni_cpu *c = context;
    const int64_t g = c->layout.piece[piece].group, Kv = c->shape.Kv;
    const float *P = newest_table(c) + g * Kv, *G = c->mass + piece * Kv;
    double *O = c->O + g * Kv;
    (void)thread;
    uni_cpu_add_runs(c, piece);
    for (int64_t k = 0; k < Kv; k++)
        O[k] = 0.5 * O[k] + 0.5 * ((double)P[k] * (double)G[k]);
}

static void fit_task(void *context, int64_t step, int thread)
{
    struct uni_cpu *c = context;
    const struct uni_range *t = &c->layout.step[step];
    double *fit = c->fit + 2 * step, sums[2] = {0, 0};
    for (int64_t j = t->first; j < t->first + t->n; j++) {
        struct uni_run run = uni_cpu_run(c, c->layout.runs_by_block[j]);
        c->kernels->fit(&c->shape, &run, NULL, c->sigma, sums, uni_cpu_scratch(c, thread));
    }
    fit[0] = sums[0] + sums[1];
    fit[1] = sums[1];
}

int uni_cpu_sweep_jacobi(struct uni_cpu *c)
{
    int err = 0;
    uni_cpu_sum_tables(c);
    (void)next_table(c);
    TRY(uni_pool_run(c->pool, penalise_task, c, c->p->G));
    TRY(uni_pool_run(c->pool, sweep_task, c, c->layout.n_steps));
    TRY(uni_pool_run(c->pool, update_task, c, c->layout.n_pieces));
    if (c->want_fit)
        TRY(uni_pool_run(c->pool, fit_task, c, c->layout.n_steps));
done:
    return err;
}
