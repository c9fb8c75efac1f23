/* SPDX-License-Identifier: BSD-3-Clause */
/* The seam: what a backend must do, and all that it is told.
 *
 * Letters, here and in all of src/: N cells that take part, D dimensions, K clusters, G groups (joint levels of the batch
 * variables that occur; with one variable its levels with cells), Q blocks of a sweep, Z (N,D) the embedding, base (N,K)
 * assignments without penalty, R (N,K) with it, Y (K,D) centroids, P penalties, O (G,K) sums of R, S (G,K,D) sums of R Z, W
 * (G,K,D) corrections.
 */
#ifndef UNI_BACKEND_H
#define UNI_BACKEND_H

#include "unisono.h"

/* Rows are sorted by (group, block), in the caller's order within; piece (g, q) is rows piece[g*Q + q] .. piece[g*Q + q + 1] - 1.
 */
struct uni_problem {
    int64_t N, N_all; /* rows that take part; all rows: those from N on are skipped, and stay as they came */
    int64_t D, K, G, Q;
    int64_t B;                                  /* levels of all variables, unused ones included */
    int V;                                      /* variables */
    int64_t level_first[UNI_MAX_VARIABLES + 1]; /* variable v has levels level_first[v] .. level_first[v + 1] - 1 of the B */
    const int64_t *piece;                       /* (G*Q + 1) */
    const uint32_t *row;                        /* (N_all) the caller's row of each sorted row */
    const int32_t *group_level;        /* (G,V) the group's level of each variable, counted over all variables: an index into B */
    const double *level_share;         /* (B) pr: N_level / N */
    const double *level_mass;          /* (B) N_level: cells, or the sum of their weights */
    double mass;                       /* N: cells, or the sum of their weights */
    const double *level_theta;         /* (B) */
    const double *sigma;               /* (K) */
    double penalty_scale, penalty_add; /* a and b of formula.h's penalty */
    int single;                        /* base in float32, not half */
    int jacobi;                        /* sweeps are full and damped; Q is 1 */
    int64_t sweeps;                    /* for jacobi: at most so many a round */
    int redraw;                        /* sweeps draw their own blocks, `blocks` of them, in the way of the R package; Q is 1 */
    int64_t blocks;                    /* for redraw */
    uint64_t seed;                     /* for redraw */
    int add_penalties;                 /* several variables: their penalties are added, not multiplied */
    const float *weight;               /* (N) what each sorted row counts, or NULL: 1 */
    int X;                             /* covariates */
    const float *x;                    /* (X,N) their values, sorted rows, centred and scaled */
    int by_level;                      /* several variables: S has a row for every level and one more, not one for every group */
    int64_t device;                    /* which of its kind, from 0, where a backend has several */
    int64_t threads;                   /* most threads to use; 0: the CPUs that this process may use */
    struct uni_pool *pool;             /* so many of the host, or NULL: a backend that needs them starts its own */
    int reached;                       /* enum uni_where, where the card reads the embedding itself and the backend checks its values; else 0 */
    void *stream;                      /* of the card, or NULL, the default one: what memory of the caller's it reaches is used in its order */
    const volatile int *cancel;        /* or NULL: give up with UNI_STOPPED soon after it is set */
};

/* One variable and no covariate: a group is a level, and the ridge system an arrowhead. */
static inline int uni_is_simple(const struct uni_problem *p)
{
    return p->V == 1 && p->X == 0;
}

/* Parts of the objective that are sums over cells: sum R dist, sum sigma R ln R. Without terms only their sum is known (in
 * distance). */
struct uni_fit {
    double distance, entropy;
};

/* What a cell of group g loses: R W, W the sum of its levels' rows, and for every covariate x R slope, all of it times step. */
struct uni_shift {
    const float *W;     /* (G,K,D) of one variable; (B,K,D) of several, or with covariates */
    const float *slope; /* (X,K,D) */
    double step;
};

/* Small solves, of one variable where the tables are (solve below), else in ridge.c and ridge_joint.c. */
struct uni_ridge {
    double cutoff, alpha;
    const double *lambda; /* (B) fixed; 0: automatic */
    /* out */
    double change;
    int64_t pruned_pairs, skipped_clusters;
};

/* Rows that the seeding gives again and again. */
struct uni_rows {
    const float *X;   /* (M,D) of unit length */
    int64_t M;        /* at most UNI_SAMPLE, where a backend is given them */
    int64_t from, to; /* only rows from .. to - 1 are new: the others came with earlier calls, at the same places, and a backend
                         may have kept them */
};
enum { UNI_WANT_INDEX = 1, UNI_WANT_SCORE = 2 };

/* As the W of a correction: those that the last solve left with the backend. */
#define UNI_KEPT ((const float *)(uintptr_t)1)

enum uni_cells { UNI_CELLS_CORRECTED, UNI_CELLS_R, UNI_CELLS_BLOCK };

/* What open will take, or took. */
struct uni_takes {
    int64_t host, card; /* bytes of the host's memory, -1: more than can be said; of a card's, what the driver needs included */
    char note[320];     /* a sentence where not all that belongs on the card fits it; else "" */
};

/* Tables are host memory, doubles unless they are stored per cluster and dimension; nothing of size N crosses but by open and
   read. No randomness, no printing, no allocation after open. Every operation returns UNI_OK or fails with a sentence. */
struct uni_backend {
    /* Takes the rows of the embedding in the problem's order; the embedding itself is not needed afterwards. On failure nothing
       is held. The problem must outlive the backend. */
    int (*open)(struct uni_backend *, const struct uni_problem *, const struct uni_matrix *);

    /* What open will take, from a problem whose piece and row are not there yet. group_cells (G). Fails where it never fits a
       card. */
    int (*bytes)(const struct uni_problem *, const int64_t *group_cells, struct uni_takes *);

    /* Nearest of n <= K centroids Y (n,D) for some rows: index (M), score (M) = the largest dot product, and, unless NULL, sum
       (n,D) and count (n) over the rows of every centroid. Of index and score those are set that are wanted, and score where a
       centroid has no rows; the other holds anything. For the starting centroids. */
    int (*nearest)(struct uni_backend *, int32_t *index, float *score, double *sum, int64_t *count, int wanted,
                   const struct uni_rows *, const float *Y, int64_t n);

    /* z = normalise(Z - correction) with the R of before (NULL: normalise(Z)); base = softmax(-2 (1 - z.Y) / sigma); R = base; O
       from it. fit, unless NULL: both parts for R = base. */
    int (*assign)(struct uni_backend *, double *O, struct uni_fit *fit, const struct uni_shift *, const float *Y);

    /* sweeps penalised updates of all blocks in turn, starting from O; leaves O of the last. fit, unless NULL, after the last. */
    int (*sweep)(struct uni_backend *, double *O, struct uni_fit *fit, int64_t sweeps, int terms);

    /* S[g,k,:] = sum of R Z over the cells of group g. by_level: over the cells of level l instead, and S[B,k,:] over the groups
       with part[g,k] (G,K), which is not looked at otherwise. */
    int (*moments)(struct uni_backend *, double *S, const unsigned char *part);

    /* NULL: no covariates here. xO (X,G,K) = sum of x R by group; xS (X,K,D) = sum of x R Z and xx (X,X,K) = sum of x x' R over
       the groups with part[g,k]. */
    int (*slopes)(struct uni_backend *, double *xS, double *xO, double *xx, const unsigned char *part);

    /* NULL, or moments and uni_ridge_solve in one, where the tables are: a backend that has it keeps O and W, and its O and W may
       be NULL and UNI_KEPT in every other operation. Leaves Y and ridge's results. *solved = 0, and nothing changed: some system
       is degenerate, and the library must solve this time. */
    int (*solve)(struct uni_backend *, struct uni_ridge *, float *Y, int *solved);

    /* With solve: copies of O (G,K) and of the last W (G,K,D); NULL: not wanted. */
    int (*tables)(struct uni_backend *, double *O, float *W);

    /* Per cell, in the caller's row order, all N_all rows: Z - correction, float (N_all,D) (NULL: Z; skipped rows: Z), or R,
       float (N_all,K), or the block, int32 (N_all) (skipped rows: zeros, -1). */
    int (*read)(struct uni_backend *, enum uni_cells, const struct uni_shift *, void *dst);

    /* NULL, or Z - correction where the backend holds Z, in the caller's row order: *rows (N_all,D) is the backend's, and it can
     * do no more. */
    int (*take)(struct uni_backend *, const struct uni_shift *, const float **rows);

    /* Runs task(context, i) for i = 0 .. n-1 on the backend's host threads, in any order: table work that is cut the same
       whatever the number of threads. */
    int (*each)(struct uni_backend *, int64_t n, void (*task)(void *context, int64_t i), void *context);

    /* Safe after a failed open, and twice. */
    void (*close)(struct uni_backend *);

    double diversity; /* with solve: the tables' part of the objective, as of the last fit */
    char name[32];    /* "cpu (avx512)" */
    int64_t threads;  /* in use */
    void *state;
    struct uni_takes takes; /* of a card, as open found it */
};

enum { UNI_SAMPLE = 20000 }; /* most cells that the seeding looks at */

/* Row i of the caller's embedding as float32 (embedding.c): for open. */
void uni_matrix_row(float *dst, const struct uni_matrix *, int64_t row);
/* Asks the processor for that row, which will be read soon. */
void uni_matrix_fetch(const struct uni_matrix *, int64_t row);

/* What is wrong with the values of an embedding. Rows and columns from 0. */
struct uni_unusable {
    int64_t count, row, column; /* NaN or infinite; the first of them */
    int64_t large_row, large_column; /* the first that is too large; -1: none */
    double large;
};
#define UNI_LARGEST 0x1p116 /* some 8e34: sums over the cells of a run, and a correction's differences, must stay within float32 */
/* Fails with a sentence; UNI_OK where nothing is. */
int uni_matrix_refuse(const struct uni_unusable *);

/* Where memory of the caller's lies (cuda_memory.c), as a driver says that is loaded already. */
enum uni_where {
    UNI_PAGEABLE, /* this machine's; or nothing is known of it */
    UNI_PINNED,   /* this machine's, and all of it in a card's reach */
    UNI_MANAGED,  /* it moves between the two */
    UNI_ON_CARD,  /* the processors do not reach it */
    UNI_TORN,     /* it begins on a card and does not end there */
    UNI_UNSAID    /* the driver works no more */
};
/* *device: whose, where it is a card's. */
enum uni_where uni_where_is(const void *first, int64_t bytes, int64_t *device);
/* Do the processors reach it? Where the driver does not say. What is there is overwritten. */
int uni_is_writable(void *at);
enum uni_where uni_matrix_where(const struct uni_matrix *plain, int64_t *device);

/* random.c: small, seeded, the same everywhere. A backend draws nothing but redrawn blocks. */
uint64_t uni_random(uint64_t *state);                 /* splitmix64 */
int64_t uni_random_below(uint64_t *state, int64_t n); /* 0 .. n-1 */
double uni_random_unit(uint64_t *state);              /* [0, 1) */

void uni_cpu_backend(struct uni_backend *);
void uni_cpu_describe(struct uni_backend_info *);

/* From a plugin that is opened here, so that nothing links against CUDA. UNI_BACKEND, with a sentence: no plugin, or no such device.
 */
int uni_cuda_backend(struct uni_backend *, int64_t device);
/* Its part of the search for neighbours. UNI_BACKEND likewise. */
struct uni_near_device;
int uni_cuda_near(const struct uni_near_device **, int64_t device);
/* Memory that the problem's card reaches, in the order of its stream; complete on return. The plugin is open. Rows (n,D) of an
 * embedding as float32; dst = src, NULL: all bits set. */
int uni_cuda_rows(float *dst, const struct uni_matrix *plain, const int64_t *row, int64_t n, const struct uni_problem *);
int uni_cuda_put(void *dst, const void *src, int64_t bytes, const struct uni_problem *);
/* Returns 0 where there is no plugin, or no such device beside the first. *present: 0 where the machine has no device or no driver at
 * all. */
int uni_cuda_describe(struct uni_backend_info *, int64_t device, int *present);

#endif
