/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the method offer each other. Letters: backend.h. */
#ifndef UNI_METHOD_H
#define UNI_METHOD_H

#include "arena.h"
#include "backend.h"

/* ---- harmony.c */
double uni_seconds(void); /* of the wall clock */

/* ---- options.c */
int uni_options_check(const struct uni_options *, int n_variables);
double uni_value_of(const struct uni_values *, int variable);

/* ---- warnings, kept by harmony.c until the caller asks */
enum { UNI_MAX_WARNINGS = 16 };
struct uni_warnings {
    int64_t n;
    char text[UNI_MAX_WARNINGS][400];
    const char *at[UNI_MAX_WARNINGS];
};
void uni_warn(struct uni_warnings *, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- problem.c: the caller's arrays, checked and put in order */
struct uni_cells_sorted {
    struct uni_problem problem;
    int64_t *group_cells; /* (G) */
    int32_t *cell_group;  /* (N_all) until the rows are sorted; -1: skipped */
    int64_t *level_cells; /* (B) */
    double *lambda;       /* (B) fixed lambda of the level's variable; 0: automatic */
    double cutoff;        /* below any share where nothing is left out */
    int64_t n_levels;     /* with cells, of all variables */
    int weighted;         /* the caller gave weights */
    struct uni_arena tables, groups, rows;
};
/* Levels and sizes only; K from the options where set, else from the number of cells. */
int uni_problem_open(struct uni_cells_sorted *, struct uni_warnings *, int64_t n_cells, int64_t n_dims, const struct uni_batch *,
                     int n_batches, const struct uni_options *);
/* The order of the rows, on the problem's pool. */
int uni_problem_sort(struct uni_cells_sorted *, const struct uni_options *);
/* Per-level theta and per-cluster sigma, once K is settled. */
int uni_problem_settle(struct uni_cells_sorted *, const struct uni_options *, int64_t K);
int64_t uni_problem_bytes(const struct uni_cells_sorted *);
void uni_problem_close(struct uni_cells_sorted *);

/* ---- groups.c: labels -> groups */
/* Of one labelling, for whoever takes labels, under the name that sentences give it: its sizes; then its levels, of which none
   may be out of range. missing: cells without one. */
int uni_labels_check(const struct uni_batch *, const char *name, int64_t n_cells, int64_t n_dims);
int uni_levels_check(int64_t *missing, const struct uni_batch *, const char *name);
int uni_groups_check(int64_t n_cells, int64_t n_dims, const struct uni_batch *, int n_batches);
int uni_groups_open(struct uni_cells_sorted *, struct uni_warnings *, const struct uni_batch *, const struct uni_options *);
void uni_groups_close(struct uni_cells_sorted *);

/* ---- embedding.c: the caller's matrix. Its data and type, and strides in full; the values too; warnings
   NULL: none wanted */
int uni_matrix_plain(const struct uni_matrix *, struct uni_matrix *plain);
int uni_matrix_check(const struct uni_matrix *, struct uni_matrix *plain, struct uni_warnings *);
/* The same on the threads of a pool. */
int uni_matrix_check_on(struct uni_pool *, const struct uni_matrix *, struct uni_matrix *plain, struct uni_warnings *);
/* Fails: it is UNI_TORN. */
int uni_matrix_torn(int64_t device);
/* The warnings alone, of one that the problem's card reaches. */
int uni_matrix_warn(const struct uni_problem *, const struct uni_matrix *plain, struct uni_warnings *);
/* In double. */
double uni_dot(const float *x, const float *y, int64_t D);
/* Unit length; a row of zeros stays. Returns 0 for such a row. */
int uni_normalise(float *row, int64_t D);

/* ---- seed.c: starting centroids from a bounded sample of cells */
struct uni_seed {
    int64_t M;        /* sampled rows that are not zero */
    int64_t distinct; /* different rows among the sampled, at most limit */
    float *X;         /* (M,D) unit rows */
    int32_t *index;
    float *score;
    int64_t *order;
    double *sum;
    int64_t *count;
    float *tail; /* (tail rows, D) */
    double *chance;
    double *part_sum; /* of some of the rows */
    int64_t *part_count;
    float *weight;     /* (2 M) the rows', then the tail's */
    int all, weighted; /* all cells are the sample; cells count differently */
    int far;           /* the card has the embedding */
    struct uni_arena arena;
};
int64_t uni_seed_bytes(int64_t N, int64_t D, int64_t K, int all, int weighted);
/* Takes the sample, on the problem's pool. */
int uni_seed_open(struct uni_seed *, const struct uni_problem *, const struct uni_matrix *plain, int64_t K, int all,
                  uint64_t seed);
int uni_seed_run(struct uni_seed *, float *Y, struct uni_backend *, int64_t K, int64_t D, uint64_t seed);
void uni_seed_close(struct uni_seed *);

/* ---- diversity.c: observed and expected tables */
/* O by level (B,K) from O by group (G,K) */
void uni_levels_of_groups(double *level_O, const double *O, const struct uni_problem *);
/* E (B,K) from O by level */
void uni_expected(double *E, const double *level_O, const struct uni_problem *);
/* *sum = sum sigma theta O ln((O+E+1)/(2E+1)), on the backend's host threads; UNI_STOPPED where they were told to stop */
int uni_diversity(double *sum, const double *level_O, const double *E, const struct uni_problem *, struct uni_backend *);

/* ---- ridge.c: sums and moments -> new centroids and corrections */
/* Replaces W (G,K,D) and Y (K,D); clusters without correction keep their Y. scratch: uni_ridge_scratch doubles. */
int uni_ridge_solve(struct uni_ridge *, float *W, float *Y, const double *S, const double *O, const double *E,
                    const struct uni_problem *, struct uni_backend *, double *scratch);
int64_t uni_ridge_scratch(int64_t K, int64_t D, int64_t G);

/* For both: the centroid of an intercept c (D, step apart), left as it is where c has no direction; A x = B (m,m), (m,nrhs) from
   A0, B0 by Cholesky, then by pivoted LU, 0 where both fail; change from its sums, which must be finite. */
void uni_ridge_centroid(float *Y, const double *c, int64_t step, int64_t D);
int uni_solve_dense(double *A, double *B, double *A0, double *B0, int m, int nrhs, int *pivots);
int uni_ridge_settle(struct uni_ridge *, double moved, double size);

/* ---- ridge_joint.c: the same for several variables, or with covariates */
struct uni_sums {
    const double *O, *level_O, *E, *S; /* (G,K), (B,K), (B,K), and (G,K,D) or, by level, (B + 1,K,D) */
    const double *xS, *xO, *xx;        /* (X,K,D), (X,G,K), (X,X,K) */
};
/* Replaces W (B,K,D), slope (X,K,D) and Y (K,D). scratch: uni_joint_scratch doubles. */
int uni_ridge_joint(struct uni_ridge *, float *W, float *slope, float *Y, const struct uni_sums *, const struct uni_problem *,
                    struct uni_backend *, double *scratch);
int64_t uni_joint_scratch(const struct uni_problem *);
/* part (G,K): is any of the group's levels kept in the cluster? */
void uni_joint_parts(unsigned char *part, const struct uni_ridge *, const double *level_O, const struct uni_problem *);

#endif
