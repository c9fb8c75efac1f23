/* SPDX-License-Identifier: BSD-3-Clause */
/* Several variables: pieces of one block share levels, so the whole block leaves before any penalty is made, and comes back after
   all its cells are done. The tables are cut by clusters here: a task's columns belong to it alone, and pieces are added in their
   order. */
#include <string.h>

#include "../error.h"
#include "cpu_backend.h"

enum { COLUMNS = 32, PIECES = 16 }; /* COLUMNS: whole vectors of every instruction set */

/* (O and level_O of the block's pieces) += sign mass; came, unless NULL, the sum of all of it. */
static void move_columns(struct uni_cpu *c, int64_t task, double sign, double *came)
{
    const struct uni_problem *p = c->p;
    const int64_t Kv = c->shape.Kv, from = task * COLUMNS, n = from + COLUMNS < Kv ? COLUMNS : Kv - from;
    if (came)
        memset(came + from, 0, (size_t)n * sizeof *came);
    for (int64_t piece = c->layout.block_first[c->block]; piece < c->layout.block_first[c->block + 1]; piece++) {
        const float *mass = c->mass + piece * Kv + from;
        const int32_t *level = p->group_level + (int64_t)c->layout.piece[piece].group * p->V;
        c->kernels->move(c->O + c->layout.piece[piece].group * Kv + from, mass, sign, n);
        for (int v = 0; v < p->V; v++)
            c->kernels->move(c->level_O + level[v] * Kv + from, mass, sign, n);
        if (came)
            c->kernels->move(came + from, mass, sign, n);
    }
}

static void leave_columns(void *context, int64_t task, int thread)
{
    (void)thread;
    move_columns(context, task, -1, NULL);
}

static void return_columns(void *context, int64_t task, int thread)
{
    struct uni_cpu *c = context;
    (void)thread;
    move_columns(c, task, 1, c->block_r + c->block * c->shape.Kv);
}

static int64_t pieces_of(const struct uni_cpu *c)
{
    return c->layout.block_first[c->block + 1] - c->layout.block_first[c->block];
}

static int64_t end_of(const struct uni_cpu *c, int64_t task)
{
    int64_t end = (task + 1) * PIECES, n = pieces_of(c);
    return c->layout.block_first[c->block] + (end < n ? end : n);
}

void uni_cpu_penalise_group(const struct uni_cpu *c, int64_t g, float *P)
{
    const struct uni_problem *p = c->p;
    const double *O[UNI_MAX_VARIABLES];
    double share[UNI_MAX_VARIABLES], theta[UNI_MAX_VARIABLES];
    for (int v = 0; v < p->V; v++) {
        int64_t level = p->group_level[g * p->V + v];
        O[v] = c->level_O + level * c->shape.Kv;
        share[v] = p->level_share[level];
        theta[v] = p->level_theta[level];
    }
    c->kernels->penalty(&c->shape, P, O, c->r, share, theta, p->V);
}

static void penalise_pieces(void *context, int64_t task, int thread)
{
    struct uni_cpu *c = context;
    (void)thread;
    for (int64_t piece = c->layout.block_first[c->block] + task * PIECES; piece < end_of(c, task); piece++)
        uni_cpu_penalise_group(c, c->layout.piece[piece].group, c->P + piece * c->shape.Kv);
}

/* mass = P G */
static void weigh_pieces(void *context, int64_t task, int thread)
{
    struct uni_cpu *c = context;
    (void)thread;
    for (int64_t piece = c->layout.block_first[c->block] + task * PIECES; piece < end_of(c, task); piece++) {
        float *mass = c->mass + piece * c->shape.Kv;
        const float *P = c->P + piece * c->shape.Kv;
        uni_cpu_add_runs(c, piece);
        for (int64_t k = 0; k < c->shape.Kv; k++)
            mass[k] *= P[k];
    }
}

static int64_t column_tasks(const struct uni_cpu *c)
{
    return (c->shape.Kv + COLUMNS - 1) / COLUMNS;
}

int uni_cpu_leave_joint(struct uni_cpu *c)
{
    int err = uni_pool_run(c->pool, leave_columns, c, column_tasks(c));
    return err ? err : uni_pool_run(c->pool, penalise_pieces, c, (pieces_of(c) + PIECES - 1) / PIECES);
}

int uni_cpu_return_joint(struct uni_cpu *c)
{
    int err = uni_pool_run(c->pool, weigh_pieces, c, (pieces_of(c) + PIECES - 1) / PIECES);
    if (!err)
        err = uni_pool_run(c->pool, return_columns, c, column_tasks(c));
    for (int64_t piece = c->layout.block_first[c->block]; c->want_fit && piece < c->layout.block_first[c->block + 1]; piece++)
        c->fit[2 * c->layout.n_steps] +=
            c->kernels->log_dot(&c->shape, c->mass + piece * c->shape.Kv, c->P + piece * c->shape.Kv, c->sigma);
    return err;
}

void uni_cpu_start_joint(struct uni_cpu *c)
{
    const struct uni_problem *p = c->p;
    const int64_t Kv = c->shape.Kv;
    memset(c->level_O, 0, (size_t)(p->B * Kv) * sizeof *c->level_O);
    for (int64_t g = 0; g < p->G; g++)
        for (int v = 0; v < p->V; v++)
            for (int64_t k = 0; k < Kv; k++)
                c->level_O[p->group_level[g * p->V + v] * Kv + k] += c->O[g * Kv + k];
}

void uni_cpu_sum_tables(struct uni_cpu *c)
{
    const int64_t Kv = c->shape.Kv;
    uni_cpu_start_joint(c);
    memset(c->r, 0, (size_t)Kv * sizeof *c->r);
    for (int64_t g = 0; g < c->p->G; g++)
        for (int64_t k = 0; k < Kv; k++)
            c->r[k] += c->O[g * Kv + k];
}

/* One cluster's moments of some groups, to their levels, and to the sum of all that take part in its system. */
static void add_to_levels(void *context, int64_t k, int thread)
{
    struct uni_cpu *c = context;
    const struct uni_problem *p = c->p;
    const int64_t end = c->S_first + GROUPS_AT_ONCE < p->G ? c->S_first + GROUPS_AT_ONCE : p->G;
    (void)thread;
    for (int64_t g = c->S_first; g < end; g++) {
        const double *S = c->group_S + ((g - c->S_first) * p->K + k) * p->D;
        for (int v = 0; v <= p->V; v++) {
            double *level = c->level_S + ((v < p->V ? p->group_level[g * p->V + v] : p->B) * p->K + k) * p->D;
            for (int64_t d = 0; (v < p->V || c->part[g * p->K + k]) && d < p->D; d++)
                level[d] += S[d];
        }
    }
}

int uni_cpu_moments_by_level(struct uni_cpu *c, double *S, const unsigned char *part)
{
    int err = 0;
    const struct uni_problem *p = c->p;
    memset(S, 0, (size_t)((p->B + 1) * p->K * p->D) * sizeof *S);
    c->level_S = S;
    c->part = part;
    for (int64_t g = 0; g < p->G; g += GROUPS_AT_ONCE) {
        TRY(uni_cpu_moments_of(c, c->group_S, g, g + GROUPS_AT_ONCE < p->G ? g + GROUPS_AT_ONCE : p->G, NULL));
        TRY(uni_pool_run(c->pool, add_to_levels, c, p->K));
    }
done:
    return err;
}
