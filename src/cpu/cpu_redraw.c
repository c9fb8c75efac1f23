/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks as the R package has them: all cells in a new random order before every sweep, cut into equal parts. Rows stay where
   they are; a block's rows of a group are gathered where they are needed. Slower than fixed blocks by design. */
#include <string.h>

#include "../error.h"
#include "cpu_backend.h"

enum { GATHERED = 256 }; /* rows side by side */

int64_t uni_cpu_gather_floats(const struct uni_shape *s)
{
    return GATHERED * (s->Kb + 2) + 64;
}

/* R is base: whatever a cell's block, its penalties are ones. */
void uni_cpu_restart_redraw(struct uni_cpu *c)
{
    const int64_t Kv = c->shape.Kv, rows = c->p->G * c->p->blocks;
    memset(c->row_block, 0, (size_t)c->p->N * sizeof *c->row_block);
    for (int64_t i = 0; i < rows * Kv; i++)
        c->block_P[i] = i % Kv < c->shape.K;
}

/* Each cell's block, as cutting a random order would give it: with the chance of the places that are left. */
static void draw(struct uni_cpu *c)
{
    const struct uni_problem *p = c->p;
    int64_t left[1024];
    uint64_t state = p->seed; /* hashed first: seeds that follow each other must not share draws */
    state = uni_random(&state) + c->draws++;
    state = uni_random(&state);
    for (int64_t q = 0; q < p->blocks; q++)
        left[q] = p->N * (q + 1) / p->blocks - p->N * q / p->blocks;
    for (int64_t i = 0; i < p->N; i++) {
        int64_t place = uni_random_below(&state, p->N - i), q = 0;
        while (place >= left[q])
            place -= left[q++];
        left[q]--;
        c->next_block[i] = (uint16_t)q;
    }
}

/* A group's rows by their new blocks, and the part of O that each block has before it is updated. */
static void regroup_task(void *context, int64_t g, int thread)
{
    struct uni_cpu *c = context;
    const struct uni_problem *p = c->p;
    const int64_t Kv = c->shape.Kv, first = p->piece[g], end = p->piece[g + 1];
    int64_t *at = c->block_at + g * (p->blocks + 1), place[1025] = {0};
    double *mass = c->block_mass + g * p->blocks * Kv, *O = c->O + g * Kv;
    for (int64_t i = first; i < end; i++)
        place[c->next_block[i] + 1]++;
    for (int64_t q = 0; q < p->blocks; q++)
        place[q + 1] += place[q];
    for (int64_t q = 0; q <= p->blocks; q++)
        at[q] = first + place[q];
    for (int64_t i = first; i < end; i++)
        c->block_rows[first + place[c->next_block[i]]++] = i;
    memset(mass, 0, (size_t)(p->blocks * Kv) * sizeof *mass);
    for (int64_t i = c->layout.group_run[g]; i < c->layout.group_run[g + 1]; i++) {
        struct uni_run run = uni_cpu_run(c, i);
        c->kernels->masses_by_block(&c->shape, &run, uni_cpu_run_P(c, i), c->next_block + c->layout.run[i].first, mass,
                                    uni_cpu_scratch(c, thread));
    }
    memset(O, 0, (size_t)Kv * sizeof *O);
    for (int64_t q = 0; q < p->blocks; q++)
        for (int64_t k = 0; k < Kv; k++)
            O[k] += mass[q * Kv + k];
}

/* n <= GATHERED rows as a run. */
static struct uni_run gathered(const struct uni_cpu *c, const int64_t *rows, int64_t n, float *to)
{
    const struct uni_shape *s = &c->shape;
    const size_t bytes = (size_t)s->Kb * (s->single ? 4 : 2);
    float *L = to + GATHERED * s->Kb, *weight = L + GATHERED;
    for (int64_t j = 0; j < n; j++) {
        memcpy((char *)to + (size_t)j * bytes, c->base + (size_t)rows[j] * bytes, bytes);
        L[j] = c->L[rows[j]];
        weight[j] = c->p->weight ? c->p->weight[rows[j]] : 1;
    }
    return (struct uni_run){.base = to, .L = L, .n = n, .weight = weight};
}

/* The block's cells of one group: new penalties, new part of O. */
static void block_task(void *context, int64_t g, int thread)
{
    struct uni_cpu *c = context;
    const struct uni_problem *p = c->p;
    const int64_t Kv = c->shape.Kv, *at = c->block_at + g * (p->blocks + 1) + c->block;
    float *P = c->block_P + (g * p->blocks + c->block) * Kv, *weighted = uni_cpu_weighted_P(c, thread);
    float *G = uni_cpu_run_S(c, thread), *scratch = uni_cpu_scratch(c, thread);
    double *mass = c->block_mass + (g * p->blocks + c->block) * Kv, *fit = c->want_fit ? c->group_fit + 2 * g : NULL;
    if (at[0] == at[1])
        return;
    uni_cpu_penalise_group(c, g, P);
    for (int64_t k = 0; k < Kv; k++) {
        weighted[k] = c->sigma[k] * P[k];
        mass[k] = 0;
    }
    for (int64_t first = at[0]; first < at[1]; first += GATHERED) {
        int64_t n = at[1] - first < GATHERED ? at[1] - first : GATHERED;
        struct uni_run run = gathered(c, c->block_rows + first, n, c->gather + thread * c->gather_floats);
        c->kernels->sweep(&c->shape, &run, P, weighted, G, fit, scratch);
        for (int64_t k = 0; k < Kv; k++) {
            G[k] *= P[k];
            mass[k] += G[k];
        }
        if (fit)
            fit[0] += c->kernels->log_dot(&c->shape, G, P, c->sigma);
        if (fit && c->want_terms)
            fit[1] += c->kernels->entropy(&c->shape, &run, P, c->sigma, scratch);
        for (int64_t j = 0; j < n; j++)
            c->row_block[c->block_rows[first + j]] = (uint16_t)c->block;
    }
}

/* The whole block leaves the tables (sign -1), or comes back. */
static void move_block(struct uni_cpu *c, double sign)
{
    const struct uni_problem *p = c->p;
    const int64_t Kv = c->shape.Kv;
    for (int64_t g = 0; g < p->G; g++) {
        const double *mass = c->block_mass + (g * p->blocks + c->block) * Kv;
        for (int64_t k = 0; k < Kv; k++) {
            c->O[g * Kv + k] += sign * mass[k];
            c->r[k] += sign * mass[k];
        }
        for (int v = 0; v < p->V; v++)
            for (int64_t k = 0; k < Kv; k++)
                c->level_O[p->group_level[g * p->V + v] * Kv + k] += sign * mass[k];
    }
}

int uni_cpu_sweep_redraw(struct uni_cpu *c)
{
    int err = 0;
    const struct uni_problem *p = c->p;
    const int64_t last = c->layout.n_steps;
    draw(c);
    TRY(uni_pool_run(c->pool, regroup_task, c, p->G));
    uni_cpu_sum_tables(c);
    memset(c->group_fit, 0, (size_t)(2 * p->G) * sizeof *c->group_fit);
    memset(c->fit, 0, (size_t)(2 * (last + 1)) * sizeof *c->fit);
    for (c->block = 0; c->block < p->blocks; c->block++) {
        move_block(c, -1);
        TRY(uni_pool_run(c->pool, block_task, c, p->G));
        move_block(c, 1);
    }
    for (int64_t g = 0; g < p->G; g++)
        for (int i = 0; i < 2; i++)
            c->fit[2 * last + i] += c->group_fit[2 * g + i];
done:
    return err;
}
