/* SPDX-License-Identifier: BSD-3-Clause */
#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *array(int64_t count, size_t size)
{
    void *memory = calloc((size_t)(count > 0 ? count : 1), size);
    if (!memory) {
        fprintf(stderr, "reference: out of memory\n");
        exit(2);
    }
    return memory;
}

static double *reals(int64_t count)
{
    return array(count, sizeof(double));
}

/* A row of zeros stays zeros. The largest entry is taken out first so that no square over- or underflows. */
static void normalise(double *out, const double *in, int64_t d)
{
    double largest = 0, square = 0;
    for (int64_t j = 0; j < d; j++)
        largest = fmax(largest, fabs(in[j]));
    for (int64_t j = 0; j < d; j++)
        square += largest > 0 ? (in[j] / largest) * (in[j] / largest) : 0;
    for (int64_t j = 0; j < d; j++)
        out[j] = largest > 0 ? in[j] / largest / sqrt(square) : 0;
}

static int cell_row(const struct ref_run *run, int v, int64_t i)
{
    return (int)(run->offset[v] + run->p.level[v][i]);
}

static void open_levels(struct ref_run *run)
{
    const struct ref_problem *p = &run->p;
    for (int v = 0; v < p->n_variables; v++) {
        run->offset[v] = run->B;
        run->B += p->n_levels[v];
    }
    run->N_level = reals(run->B);
    run->theta = reals(run->B);
    for (int64_t i = 0; i < p->n; i++)
        run->mass += ref_weight(p, i);
    for (int v = 0; v < p->n_variables; v++) {
        for (int64_t i = 0; i < p->n; i++)
            run->N_level[cell_row(run, v, i)] += ref_weight(p, i);
        for (int64_t l = run->offset[v]; l < run->offset[v] + p->n_levels[v]; l++) {
            double ratio = p->tau[v] > 0 ? run->N_level[l] / ((double)p->K * p->tau[v]) : INFINITY;
            run->theta[l] = p->theta[v] * (1 - exp(-ratio * ratio));
        }
    }
}

/* Cells listed block by block. With given orders this is done anew for every sweep, by cut_order. */
static void open_blocks(struct ref_run *run)
{
    const struct ref_problem *p = &run->p;
    run->by_block = array(p->n, sizeof *run->by_block);
    if (!p->block) {
        run->n_blocks = (int64_t)ceil(1 / p->block_size);
        run->first = array(run->n_blocks + 1, sizeof *run->first);
        return;
    }
    for (int64_t i = 0; i < p->n; i++)
        if (p->block[i] >= run->n_blocks)
            run->n_blocks = p->block[i] + 1;
    run->first = array(run->n_blocks + 1, sizeof *run->first);
    int32_t placed = 0;
    for (int64_t q = 0; q < run->n_blocks; q++) {
        run->first[q] = placed;
        for (int64_t i = 0; i < p->n; i++)
            if (p->block[i] == q)
                run->by_block[placed++] = (int32_t)i;
    }
    run->first[run->n_blocks] = placed;
}

static void cut_order(struct ref_run *run, int64_t sweep)
{
    const struct ref_problem *p = &run->p;
    if (sweep >= p->order_sweeps) {
        fprintf(stderr, "reference: no order given for sweep %lld of a round\n", (long long)sweep + 1);
        exit(2);
    }
    memcpy(run->by_block, p->order + (run->round * p->order_sweeps + sweep) * p->n, (size_t)p->n * sizeof *run->by_block);
    for (int64_t q = 0; q < run->n_blocks; q++)
        run->first[q] = (int32_t)(q * (int64_t)floor((double)p->n * p->block_size));
    run->first[run->n_blocks] = (int32_t)p->n;
}

/* dist, and R = base: what each cell is assigned to without regard to batches. */
static void assign(struct ref_run *run)
{
    const struct ref_problem *p = &run->p;
    for (int64_t i = 0; i < p->n; i++) {
        double *dist = run->dist + i * p->K, *base = run->base + i * p->K, largest = -INFINITY, sum = 0;
        for (int64_t k = 0; k < p->K; k++) {
            double cosine = 0;
            for (int64_t j = 0; j < p->d; j++)
                cosine += run->z[i * p->d + j] * run->Y[k * p->d + j];
            dist[k] = 2 * (1 - cosine);
            largest = fmax(largest, -dist[k] / run->sigma[k]);
        }
        for (int64_t k = 0; k < p->K; k++)
            sum += base[k] = exp(-dist[k] / run->sigma[k] - largest);
        for (int64_t k = 0; k < p->K; k++)
            run->R[i * p->K + k] = base[k] /= sum;
    }
}

/* E[l,k] = r_sum[k] N_l / N */
static void expect(struct ref_run *run)
{
    for (int64_t l = 0; l < run->B; l++)
        for (int64_t k = 0; k < run->p.K; k++)
            run->E[l * run->p.K + k] = run->r_sum[k] * run->N_level[l] / run->mass;
}

/* Adds sign * R of one cell, at its weight, to O and r_sum. */
static void put_cell(struct ref_run *run, int64_t i, double sign)
{
    const double *R = run->R + i * run->p.K;
    sign *= ref_weight(&run->p, i);
    for (int v = 0; v < run->p.n_variables; v++) {
        double *O = run->O + cell_row(run, v, i) * run->p.K;
        for (int64_t k = 0; k < run->p.K; k++)
            O[k] += sign * R[k];
    }
    for (int64_t k = 0; k < run->p.K; k++)
        run->r_sum[k] += sign * R[k];
}

/* O, r_sum and E from R alone. */
static void count(struct ref_run *run)
{
    memset(run->O, 0, (size_t)(run->B * run->p.K) * sizeof(double));
    memset(run->r_sum, 0, (size_t)run->p.K * sizeof(double));
    for (int64_t i = 0; i < run->p.n; i++)
        put_cell(run, i, 1);
    expect(run);
}

static void penalise(const struct ref_run *run, double *penalty)
{
    for (int64_t l = 0; l < run->B; l++)
        for (int64_t k = 0; k < run->p.K; k++) {
            int64_t pair = l * run->p.K + k;
            penalty[pair] = ref_penalty(&run->p, run->O[pair], run->E[pair], run->theta[l]);
        }
}

void ref_update_cell(struct ref_run *run, int64_t i, const double *penalty)
{
    int64_t K = run->p.K;
    double *R = run->R + i * K, sum = 0;
    for (int64_t k = 0; k < K; k++) {
        double both = run->p.add_penalties ? 0 : 1;
        for (int v = 0; v < run->p.n_variables; v++) {
            double one = penalty[cell_row(run, v, i) * K + k];
            both = run->p.add_penalties ? both + one : both * one;
        }
        R[k] = run->base[i * K + k] * both;
        sum += R[k];
    }
    for (int64_t k = 0; k < K; k++)
        R[k] = sum > 0 ? R[k] / sum : 0;
}

static void sweep_blocks(struct ref_run *run, double *penalty)
{
    for (int64_t q = 0; q < run->n_blocks; q++) {
        for (int32_t c = run->first[q]; c < run->first[q + 1]; c++)
            put_cell(run, run->by_block[c], -1);
        expect(run);
        penalise(run, penalty);
        for (int32_t c = run->first[q]; c < run->first[q + 1]; c++) {
            ref_update_cell(run, run->by_block[c], penalty);
            put_cell(run, run->by_block[c], 1);
        }
    }
    count(run);
}

/* sum R dist + sum sigma R ln R + sum sigma theta R cross, times 2000/n; term by term and cell by cell. */
static void record_objective(struct ref_run *run, int64_t sweep)
{
    const struct ref_problem *p = &run->p;
    double distance = 0, entropy = 0, diversity = 0, scale = 2000.0 / run->mass, *cross = reals(run->B * p->K);
    for (int64_t l = 0; l < run->B; l++)
        for (int64_t k = 0; k < p->K; k++) {
            int64_t pair = l * p->K + k;
            cross[pair] = run->sigma[k] * run->theta[l] * ref_cross_term(p, run->O[pair], run->E[pair]);
        }
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t k = 0; k < p->K; k++) {
            double R = run->R[i * p->K + k], counts = ref_weight(p, i);
            distance += counts * R * run->dist[i * p->K + k];
            entropy += R > 0 ? counts * run->sigma[k] * R * log(R) : 0;
            for (int v = 0; v < p->n_variables; v++)
                diversity += counts * R * cross[cell_row(run, v, i) * p->K + k];
        }
    free(cross);
    run->objectives = realloc(run->objectives, (size_t)(run->n_objectives + 1) * sizeof *run->objectives);
    if (!run->objectives)
        exit(2);
    run->objectives[run->n_objectives++] =
        (struct ref_objective){sweep ? run->round + 1 : 0, sweep,           scale * (distance + entropy + diversity),
                               scale * distance,           scale * entropy, scale * diversity};
}

/* The rule inside a round: the last `window` objectives against the same window one sweep earlier. */
static int sweeps_settled(const struct ref_run *run, int64_t s)
{
    if (s <= run->p.window || run->p.sweep_tol < 0)
        return 0;
    double old = 0, new = 0;
    for (int64_t w = 1; w <= run->p.window; w++) {
        new += run->objectives[run->n_objectives - w].total;
        old += run->objectives[run->n_objectives - w - 1].total;
    }
    return fabs(old - new) / fabs(old) < run->p.sweep_tol;
}

/* How many times the correction of the round that ends, `round` from 1, is taken for the next one to start from. */
static double step_of(const struct ref_problem *p, int64_t round)
{
    return p->overcorrect > 1 && round <= 3 && round + 1 < p->max_rounds ? p->overcorrect : 1;
}

static void correct(struct ref_run *run)
{
    const struct ref_problem *p = &run->p;
    double step = step_of(p, run->round + 1), *start = reals(p->d);
    for (int64_t i = 0; i < p->n; i++) {
        double *out = run->Zcorr + i * p->d;
        memcpy(out, p->Z + i * p->d, (size_t)p->d * sizeof(double));
        for (int v = 0; v < p->n_variables; v++)
            for (int64_t k = 0; k < p->K; k++)
                for (int64_t j = 0; j < p->d; j++)
                    out[j] -= run->R[i * p->K + k] * run->W[(cell_row(run, v, i) * p->K + k) * p->d + j];
        for (int x = 0; x < p->n_covariates; x++)
            for (int64_t k = 0; k < p->K; k++)
                for (int64_t j = 0; j < p->d; j++)
                    out[j] -= run->R[i * p->K + k] * run->x[x * p->n + i] * run->slope[(x * p->K + k) * p->d + j];
        for (int64_t j = 0; j < p->d; j++)
            start[j] = p->Z[i * p->d + j] + step * (out[j] - p->Z[i * p->d + j]);
        normalise(run->z + i * p->d, start, p->d);
    }
    free(start);
}

/* Both rules across rounds; settled is that of p.stop. */
static void judge(struct ref_run *run)
{
    const struct ref_problem *p = &run->p;
    double moved = 0, all = 0;
    for (int64_t pair = 0; pair < run->B * p->K; pair++)
        for (int64_t j = 0; j < p->d; j++) {
            double W = run->W[pair * p->d + j], step = W - run->W_old[pair * p->d + j];
            moved += run->O[pair] * step * step;
            all += run->O[pair] * W * W;
        }
    run->change = all > 0 ? sqrt(moved / all) : 0;
    double old = run->round_objective_before;
    run->objective_change = (old - run->round_objective) / fabs(old);
    if (p->tol < 0 || (p->overcorrect > 1 && run->round <= 4))
        run->settled = 0;
    else if (p->stop == REF_STOP_CHANGE)
        run->settled = run->round >= 2 && run->change < p->tol;
    else
        run->settled = run->objective_change < p->tol;
}

static void sweep(struct ref_run *run, double *penalty)
{
    if (run->p.update == REF_BLOCKS) {
        sweep_blocks(run, penalty);
        return;
    }
    penalise(run, penalty);
    ref_sweep_jacobi(run, penalty);
    count(run);
}

int ref_round(struct ref_run *run)
{
    const struct ref_problem *p = &run->p;
    double *penalty = reals(run->B * p->K);
    assign(run);
    count(run);
    if (run->round == 0) {
        record_objective(run, 0);
        run->round_objective = run->objectives[0].total;
    }
    run->round_objective_before = run->round_objective;
    for (run->sweeps_done = 0; run->sweeps_done < p->sweeps;) {
        int64_t s = run->sweeps_done++;
        if (p->update == REF_BLOCKS && !p->block)
            cut_order(run, s);
        sweep(run, penalty);
        record_objective(run, s + 1);
        if (sweeps_settled(run, s))
            break;
    }
    run->round_objective = run->objectives[run->n_objectives - 1].total;
    free(penalty);
    ref_ridge(run);
    correct(run);
    run->round++;
    judge(run);
    return !run->settled && run->round < p->max_rounds;
}

void ref_run_all(struct ref_run *run)
{
    while (ref_round(run))
        continue;
}

struct ref_run *ref_open(const struct ref_problem *problem)
{
    struct ref_run *run = array(1, sizeof *run);
    int64_t n = problem->n, d = problem->d, K = problem->K;
    run->p = *problem;
    open_levels(run);
    if (problem->update == REF_BLOCKS)
        open_blocks(run);
    run->x = reals(problem->n_covariates * n), run->slope = reals(problem->n_covariates * K * d);
    run->before = reals(problem->update == REF_JACOBI ? n * K : 0);
    ref_scale_covariates(run);
    run->sigma = reals(K);
    for (int64_t k = 0; k < K; k++)
        run->sigma[k] = problem->cluster_sigma ? problem->cluster_sigma[k] : problem->sigma;
    run->z = reals(n * d), run->Zcorr = reals(n * d), run->Y = reals(K * d);
    run->dist = reals(n * K), run->base = reals(n * K), run->R = reals(n * K);
    run->O = reals(run->B * K), run->E = reals(run->B * K), run->r_sum = reals(K), run->lambda = reals(run->B * K);
    run->W = reals(run->B * K * d), run->W_old = reals(run->B * K * d);
    for (int64_t i = 0; i < n; i++)
        normalise(run->z + i * d, problem->Z + i * d, d);
    for (int64_t k = 0; k < K; k++)
        normalise(run->Y + k * d, problem->start + k * d, d);
    memcpy(run->Zcorr, problem->Z, (size_t)(n * d) * sizeof(double));
    return run;
}

void ref_close(struct ref_run *run)
{
    void *all[] = {run->N_level, run->theta,    run->sigma, run->z,          run->Zcorr, run->Y,      run->dist,
                   run->base,    run->R,        run->O,     run->E,          run->r_sum, run->lambda, run->W,
                   run->W_old,   run->by_block, run->first, run->objectives, run->x,     run->slope,  run->before};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(run);
}
