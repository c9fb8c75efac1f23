/* SPDX-License-Identifier: BSD-3-Clause */
/* The oracle: Harmony v2 as the paper states it (harmony2.md in words), in float64, one cell after another. R is an array, the
 * objective is summed from its definition, the ridge regression is built cell by cell as a dense system and solved by
 * elimination. It is slow on purpose: no step is shared with the product, so that both cannot be wrong in the same way. Tests
 * only.
 *
 *     struct ref_run *run = ref_open(&problem);
 *     while (ref_round(run))
 *         ...                  // run->R, run->O and so on are those of the round just finished
 *     ref_close(run);
 *
 * Levels of all variables are numbered in a row: level l of variable v is row offset[v] + l of every table (B rows in all). */
#ifndef TESTS_REFERENCE_H
#define TESTS_REFERENCE_H

#include <stdint.h>

#define REF_MAX_VARIABLES 8

enum ref_stop { REF_STOP_CHANGE, REF_STOP_OBJECTIVE };
enum ref_update { REF_BLOCKS, REF_JACOBI };

struct ref_problem {
    int64_t n, d, K;
    const double *Z; /* (n, d) */
    int n_variables;
    int64_t n_levels[REF_MAX_VARIABLES];
    const int32_t *level[REF_MAX_VARIABLES]; /* (n) each, 0 .. n_levels-1 */
    double theta[REF_MAX_VARIABLES], tau[REF_MAX_VARIABLES];
    double lambda[REF_MAX_VARIABLES]; /* > 0: fixed; 0: automatic, alpha * E */
    double alpha, cutoff;
    double sigma;
    const double *cluster_sigma; /* (K) instead of sigma, or NULL */
    const double *start;         /* (K, d) centroids, made unit length */
    int64_t max_rounds, sweeps, window;
    enum ref_stop stop;
    double tol, sweep_tol;

    /* Which cells are updated together: either the same blocks in every sweep (block), visited in the order of their numbers; or
       an order of the cells for every sweep (order), cut into ceil(1/block_size) slices of floor(n*block_size), the last with the
       rest. */
    const int32_t *block; /* (n) */
    const int32_t *order; /* (max_rounds or more, order_sweeps, n) */
    int64_t order_sweeps;
    double block_size;

    int add_penalties; /* of several variables: the R package's sum instead of the product */

    enum ref_update update; /* REF_JACOBI: block and order are not looked at */
    int harmony1;           /* the penalty and cross term of 2019; nothing left out; lambda must be fixed */
    const double *weight;   /* (n) what every cell counts in all sums over cells, or NULL: 1 */
    int n_covariates;
    const double *covariate[REF_MAX_VARIABLES]; /* (n) each, as the user has them */
    double overcorrect; /* > 1: what the rounds 2 to 4, but not the last, start from is corrected so many times */
};

struct ref_objective {
    int64_t round, sweep; /* from 1; 0, 0: the first base assignments */
    double total, distance, entropy, diversity;
};

struct ref_run {
    struct ref_problem p;
    int64_t B, offset[REF_MAX_VARIABLES];
    double mass;               /* n, or the sum of the weights */
    double *N_level;           /* (B) cells, or the sum of their weights */
    double *theta;             /* (B) after tau */
    double *sigma;             /* (K) */
    double *z;                 /* (n, d) rows of unit length: of Z, then of Zcorr */
    double *Zcorr;             /* (n, d) */
    double *Y;                 /* (K, d) */
    double *dist, *base, *R;   /* (n, K) of the round's start */
    double *O, *E;             /* (B, K) */
    double *r_sum;             /* (K) */
    double *lambda;            /* (B, K); 0 where the pair was left out */
    double *W, *W_old;         /* (B, K, d) */
    double *x;                 /* (n_covariates, n) centred and scaled */
    double *slope;             /* (n_covariates, K, d) */
    double *before;            /* (n, K) jacobi: R before the sweep */
    int32_t *by_block, *first; /* cells in the order of their blocks; where each block starts */
    int64_t n_blocks;

    int64_t round;       /* finished */
    int64_t sweeps_done; /* in the last round */
    int64_t n_objectives;
    struct ref_objective *objectives;
    double round_objective, round_objective_before, objective_change, change;
    int64_t pruned_pairs, skipped_clusters;
    int settled; /* the rule of p.stop says stop */
};

/* Copies nothing: the problem's arrays must outlive the run. Ends the program when memory runs out. */
struct ref_run *ref_open(const struct ref_problem *problem);

/* One round. Returns whether another one is due: not settled and below max_rounds. Callers may go on regardless of it. */
int ref_round(struct ref_run *run);

/* All rounds that are due. */
void ref_run_all(struct ref_run *run);
void ref_close(struct ref_run *run);

/* In reference_ridge.c: lambda, W, slope, Y and the counts from R, O, E. */
void ref_ridge(struct ref_run *run);

/* In reference_methods.c: what the methods differ in, a pair of level and cluster at a time, and a sweep of the damped update,
   from penalties (B, K) to a new R; what a cell counts; covariates as the ridge sees them. */
double ref_penalty(const struct ref_problem *p, double O, double E, double theta);
double ref_cross_term(const struct ref_problem *p, double O, double E);
double ref_weight(const struct ref_problem *p, int64_t i);
void ref_sweep_jacobi(struct ref_run *run, const double *penalty);
void ref_scale_covariates(struct ref_run *run);

/* In reference.c: R[i,:] = base times the penalties of the cell's levels, scaled to sum 1. */
void ref_update_cell(struct ref_run *run, int64_t i, const double *penalty);

/* Solves A x = b for n_rhs right-hand sides by elimination with row pivoting; A (m, m) and b (m, n_rhs) are overwritten, b by x.
   Returns 0, or 1 when A is singular. */
int ref_solve(double *A, double *b, int64_t m, int64_t n_rhs);

#endif
