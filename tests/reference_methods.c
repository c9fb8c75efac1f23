/* SPDX-License-Identifier: BSD-3-Clause */
/* The oracle's other methods: the damped update of all cells at once, the penalty of 2019, and cells that do not all count alike.
 */
#include "reference.h"

#include <math.h>
#include <string.h>

double ref_weight(const struct ref_problem *p, int64_t i)
{
    return p->weight ? p->weight[i] : 1;
}

/* 2026: ((2E + 1) / (O + E + 1)) ^ theta. 2019: (E / (O + E)) ^ theta, where an empty cluster penalises nobody. */
/* Cells that count as none: where a block took all that a cluster had, what is left is the rounding of a subtraction, and the
   penalty of 2019 would be the ratio of two such leavings. */
static const double NOTHING = 1e-8;

double ref_penalty(const struct ref_problem *p, double O, double E, double theta)
{
    if (!p->harmony1)
        return pow((2 * E + 1) / (O + E + 1), theta);
    return pow((fmax(E, 0) + NOTHING) / (fmax(O, 0) + fmax(E, 0) + NOTHING), theta);
}

/* ln((O + E + 1) / (2E + 1)), in 2019 ln((O + E) / E); it is multiplied by O, so that it is of no account where O is 0. */
double ref_cross_term(const struct ref_problem *p, double O, double E)
{
    if (!p->harmony1)
        return log((O + E + 1) / (2 * E + 1));
    return log((O + E + NOTHING) / (E + NOTHING));
}

/* R <- 1/2 base pen / (sum_k base pen) + 1/2 R, everything from the state before. */
void ref_sweep_jacobi(struct ref_run *run, const double *penalty)
{
    int64_t n = run->p.n, K = run->p.K;
    memcpy(run->before, run->R, (size_t)(n * K) * sizeof(double));
    for (int64_t i = 0; i < n; i++)
        ref_update_cell(run, i, penalty);
    for (int64_t e = 0; e < n * K; e++)
        run->R[e] = 0.5 * run->R[e] + 0.5 * run->before[e];
}

/* Mean 0 and mean square 1, each cell at its weight. */
void ref_scale_covariates(struct ref_run *run)
{
    const struct ref_problem *p = &run->p;
    for (int c = 0; c < p->n_covariates; c++) {
        double mean = 0, square = 0, *x = run->x + c * p->n;
        for (int64_t i = 0; i < p->n; i++)
            mean += ref_weight(p, i) * p->covariate[c][i];
        mean /= run->mass;
        for (int64_t i = 0; i < p->n; i++)
            square += ref_weight(p, i) * pow(p->covariate[c][i] - mean, 2);
        for (int64_t i = 0; i < p->n; i++)
            x[i] = (p->covariate[c][i] - mean) / sqrt(square / run->mass);
    }
}
