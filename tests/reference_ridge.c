/* SPDX-License-Identifier: BSD-3-Clause */
/* The ridge correction of the oracle: for every cluster the normal equations of a weighted regression on an intercept and one
 * indicator a level, summed cell by cell. No use is made of their shape. */
#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ref_solve(double *A, double *b, int64_t m, int64_t n_rhs)
{
    for (int64_t col = 0; col < m; col++) {
        int64_t pivot = col;
        for (int64_t i = col + 1; i < m; i++)
            if (fabs(A[i * m + col]) > fabs(A[pivot * m + col]))
                pivot = i;
        if (A[pivot * m + col] == 0)
            return 1;
        for (int64_t j = 0; j < m; j++) {
            double swap = A[col * m + j];
            A[col * m + j] = A[pivot * m + j], A[pivot * m + j] = swap;
        }
        for (int64_t j = 0; j < n_rhs; j++) {
            double swap = b[col * n_rhs + j];
            b[col * n_rhs + j] = b[pivot * n_rhs + j], b[pivot * n_rhs + j] = swap;
        }
        for (int64_t i = 0; i < m; i++) {
            double factor = A[i * m + col] / A[col * m + col];
            if (i == col || factor == 0)
                continue;
            for (int64_t j = col; j < m; j++)
                A[i * m + j] -= factor * A[col * m + j];
            for (int64_t j = 0; j < n_rhs; j++)
                b[i * n_rhs + j] -= factor * b[col * n_rhs + j];
        }
    }
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n_rhs; j++)
            b[i * n_rhs + j] /= A[i * m + i];
    return 0;
}

/* Which levels take part in cluster k: row[level] is its row of the system (the intercept has row 0), or 0. Returns their number.
   A variable takes part with two levels or more. */
static int64_t keep_levels(struct ref_run *run, int64_t k, int64_t *row)
{
    int64_t n_rows = 1;
    for (int v = 0; v < run->p.n_variables; v++) {
        int64_t kept = 0, first = run->offset[v], end = first + run->p.n_levels[v];
        for (int64_t l = first; l < end; l++) {
            double share = run->O[l * run->p.K + k] / run->N_level[l];
            row[l] = run->N_level[l] > 0 && (run->p.harmony1 || share > run->p.cutoff);
            kept += row[l] != 0;
        }
        for (int64_t l = first; l < end; l++) {
            row[l] = row[l] && kept >= 2 ? n_rows++ : 0;
            run->pruned_pairs += run->N_level[l] > 0 && !row[l];
        }
    }
    return n_rows - 1;
}

/* A += R x x', b += R x z' over the cells that have a level that takes part; x is 1 for the intercept and for the cell's levels,
   and the covariates' values in the last rows. */
static void add_cells(const struct ref_run *run, int64_t k, const int64_t *row, double *A, double *b, int64_t m)
{
    const struct ref_problem *p = &run->p;
    for (int64_t i = 0; i < p->n; i++) {
        int64_t rows[1 + 2 * REF_MAX_VARIABLES] = {0}, n_rows = 1;
        double x[1 + 2 * REF_MAX_VARIABLES] = {1};
        for (int v = 0; v < p->n_variables; v++) {
            int64_t r = row[run->offset[v] + p->level[v][i]];
            if (r)
                x[n_rows] = 1, rows[n_rows++] = r;
        }
        if (n_rows == 1)
            continue;
        for (int c = 0; c < p->n_covariates; c++)
            x[n_rows] = run->x[c * p->n + i], rows[n_rows++] = m - p->n_covariates + c;
        double R = run->R[i * p->K + k] * ref_weight(p, i);
        for (int64_t s = 0; s < n_rows; s++) {
            for (int64_t t = 0; t < n_rows; t++)
                A[rows[s] * m + rows[t]] += R * x[s] * x[t];
            for (int64_t j = 0; j < p->d; j++)
                b[rows[s] * p->d + j] += R * x[s] * p->Z[i * p->d + j];
        }
    }
}

static void take_solution(struct ref_run *run, int64_t k, const int64_t *row, const double *x, int64_t m)
{
    int64_t K = run->p.K, d = run->p.d, X = run->p.n_covariates;
    for (int64_t c = 0; c < X; c++)
        memcpy(run->slope + (c * K + k) * d, x + (m - X + c) * d, (size_t)d * sizeof(double));
    for (int64_t l = 0; l < run->B; l++)
        if (row[l])
            memcpy(run->W + (l * K + k) * d, x + row[l] * d, (size_t)d * sizeof(double));
    double square = 0;
    for (int64_t j = 0; j < d; j++)
        square += x[j] * x[j];
    for (int64_t j = 0; j < d; j++)
        run->Y[k * d + j] = square > 0 ? x[j] / sqrt(square) : 0;
}

static void ridge_cluster(struct ref_run *run, int64_t k, int64_t *row, double *A, double *b)
{
    const struct ref_problem *p = &run->p;
    int64_t n_kept = keep_levels(run, k, row), m = 1 + n_kept + p->n_covariates;
    if (n_kept == 0) {
        run->skipped_clusters++;
        return;
    }
    memset(A, 0, (size_t)(m * m) * sizeof(double));
    memset(b, 0, (size_t)(m * p->d) * sizeof(double));
    add_cells(run, k, row, A, b, m);
    for (int v = 0; v < p->n_variables; v++)
        for (int64_t l = run->offset[v]; l < run->offset[v] + p->n_levels[v]; l++)
            if (row[l]) {
                int64_t pair = l * p->K + k;
                run->lambda[pair] = p->lambda[v] > 0 ? p->lambda[v] : p->alpha * run->E[pair];
                A[row[l] * m + row[l]] += run->lambda[pair];
            }
    for (int c = 0; c < p->n_covariates; c++)
        A[(m - 1 - c) * (m + 1)] += p->alpha * run->r_sum[k];
    if (ref_solve(A, b, m, p->d)) {
        fprintf(stderr, "reference: singular ridge system of cluster %lld\n", (long long)k);
        exit(2);
    }
    take_solution(run, k, row, b, m);
}

void ref_ridge(struct ref_run *run)
{
    size_t m = (size_t)(run->B + 1 + run->p.n_covariates), table = (size_t)(run->B * run->p.K), d = (size_t)run->p.d;
    int64_t *row = calloc(m, sizeof *row);
    double *A = calloc(m * m, sizeof *A), *b = calloc(m * d, sizeof *b);
    if (!row || !A || !b)
        exit(2);
    memcpy(run->W_old, run->W, table * d * sizeof(double));
    memset(run->W, 0, table * d * sizeof(double));
    memset(run->slope, 0, (size_t)(run->p.n_covariates * run->p.K) * d * sizeof(double));
    memset(run->lambda, 0, table * sizeof(double));
    run->pruned_pairs = run->skipped_clusters = 0;
    for (int64_t k = 0; k < run->p.K; k++)
        ridge_cluster(run, k, row, A, b);
    free(row);
    free(A);
    free(b);
}
