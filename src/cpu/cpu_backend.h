/* SPDX-License-Identifier: BSD-3-Clause */
/* What the CPU backend's files share. Rows of tables over clusters are Kv floats or doubles, padded with zeros. */
#ifndef UNI_CPU_BACKEND_H
#define UNI_CPU_BACKEND_H

#include "../arena.h"
#include "../backend.h"
#include "cpu_kernels.h"
#include "cpu_layout.h"
#include "../pool.h"

struct uni_cpu {
    const struct uni_problem *p;
    const struct uni_cpu_kernels *kernels;
    struct uni_pool *pool, *own_pool; /* own: where the problem brings none */
    struct uni_shape shape;
    struct uni_layout layout;
    struct uni_arena arena;
    int64_t threads, scratch_floats;

    float *Z;           /* (N_all,D) sorted */
    char *base;         /* (N,Kb) half or float32 */
    float *L;           /* (N), with room for uni_cpu_take's N_all bytes */
    float *hands;       /* (holes,D) rows on their way to the caller's order */
    float *P;           /* (pieces,Kv) penalties of each piece's last update */
    float *mass;        /* (pieces,Kv) each piece's part of O, exactly as it was added */
    float *slots;       /* (slots,Kv) sums of runs until they are added */
    double *O;          /* (G,Kv) */
    double *r;          /* (Kv) sum of O over groups */
    double *level_O;    /* (B,Kv) several variables: O by level, as of the sweep under way */
    double *block_r;    /* (Q,Kv) each block's part of r */
    double *came;       /* (steps,Kv) sums over the pieces that a task of a sweep updated */
    double *parts;      /* (parts,Dr,Kv) moments of slices */
    double *whole;      /* (threads,Dr,Kv) the same while they are made */
    float *Yt, *bias;   /* (D,Kv), (Kv) centroids as the kernels want them */
    float *packed_Y;    /* the centroids for a matrix unit */
    float *sigma;       /* (Kv) */
    double *fit;        /* (tasks, or steps and one, 2) */
    float *scratch;     /* (threads, scratch_floats) */
    float *minus_slope; /* (X,Kv,Dv) covariates: what a cell loses of each, negative */
    double *group_S;    /* (GROUPS_AT_ONCE,K,D) moments of groups until they are added, by level or with covariates */
    double *group_mass; /* (G,Kv) covariates: sums of one of them, or of a product of two */
    struct uni_recipe recipe;
    float *tables; /* (past,G,Kv) damped update: penalties of the round's past sweeps */
    int64_t past;
    uint16_t *row_block;  /* (N) redrawn blocks: each row's of its last update, */
    uint16_t *next_block; /* (N) and of the sweep under way */
    int64_t *block_rows;  /* (N) rows by (group, block) */
    int64_t *block_at;    /* (G,blocks + 1) where they begin */
    float *block_P;       /* (G,blocks,Kv) penalties */
    double *block_mass;   /* (G,blocks,Kv) */
    double *group_fit;    /* (G,2) */
    float *gather;        /* (threads, gather_floats) rows of base that lie apart, side by side */
    int64_t gather_floats;
    uint64_t draws;         /* so far */
    int32_t *nearest_rows;  /* (sampled rows) by their nearest centroid, */
    int64_t *nearest_first; /* (K + 1) and where each centroid's begin */

    /* of the operation under way */
    struct uni_shift shift; /* its W NULL: none */
    double *S;              /* (G,K,D), from group S_first on */
    int64_t S_first, slice_first;
    double *level_S; /* (B + 1,K,D) */
    const unsigned char *part;
    const float *x1, *x2; /* (N), or NULL: what sums with covariates weigh cells by */
    int want_fit, want_terms;
    int64_t block;
    void *dst;
    enum uni_cells what;
    const struct uni_matrix *source;
    const float *X;
    int64_t X_rows, X_centroids;
    int32_t *index;
    float *score;
    double *sum;
    int64_t *count;
    void (*each)(void *context, int64_t i);
    void *each_context;
};

/* A thread's scratch: the kernels' own, then -W (Kv,Dv) and it packed, sP (Kv), then S (Dr,Kv). */
float *uni_cpu_scratch(const struct uni_cpu *, int thread);
float *uni_cpu_minus_W(const struct uni_cpu *, int thread);
float *uni_cpu_weighted_P(const struct uni_cpu *, int thread);
float *uni_cpu_run_S(const struct uni_cpu *, int thread);

/* Group g's -W times the step, padded to whole vectors; the slopes likewise, once for all groups. */
void uni_cpu_pack_minus_W(const struct uni_cpu *, int64_t g, float *packed);
void uni_cpu_pack_slopes(const struct uni_cpu *);
/* Run i as the kernels want it, and the penalties of its cells. */
struct uni_run uni_cpu_run(const struct uni_cpu *, int64_t i);
const float *uni_cpu_run_P(const struct uni_cpu *, int64_t i);
/* Runs i .. of one group, at most to before end, as one of at most 1024 rows, and what each of them has of its own. Returns how
 * many. */
enum { MOST_JOINED = 64 };
int64_t uni_cpu_join(const struct uni_cpu *, int64_t i, int64_t end, struct uni_run *, struct uni_part part[MOST_JOINED]);
/* Where the sums of run i go. */
float *uni_cpu_run_sum(const struct uni_cpu *, int64_t i);
/* Adds the sums of a piece's runs to its mass, where there are several. */
void uni_cpu_add_runs(const struct uni_cpu *, int64_t piece);
/* O to the caller's table, rows of K. */
void uni_cpu_give_O(const struct uni_cpu *, double *O);

/* ---- cpu_joint.c: a block of several variables */
int uni_cpu_leave_joint(struct uni_cpu *);
int uni_cpu_return_joint(struct uni_cpu *);
/* O by level from O by group; and r as well. */
void uni_cpu_start_joint(struct uni_cpu *);
void uni_cpu_sum_tables(struct uni_cpu *);
/* Penalties of group g from what is left of its levels. */
void uni_cpu_penalise_group(const struct uni_cpu *, int64_t g, float *P);
/* Moments by level, a few groups at a time. */
enum { GROUPS_AT_ONCE = 64 };
int uni_cpu_moments_by_level(struct uni_cpu *, double *S, const unsigned char *part);

/* ---- cpu_jacobi.c: the damped update of all cells at once */
int64_t uni_cpu_past(const struct uni_problem *);
void uni_cpu_restart_jacobi(struct uni_cpu *);
int uni_cpu_sweep_jacobi(struct uni_cpu *);

/* ---- cpu_redraw.c: blocks drawn anew before every sweep */
int64_t uni_cpu_gather_floats(const struct uni_shape *);
void uni_cpu_restart_redraw(struct uni_cpu *);
int uni_cpu_sweep_redraw(struct uni_cpu *);

/* ---- cpu_slopes.c: sums with covariates */
int uni_cpu_slopes(struct uni_backend *, double *xS, double *xO, double *xx, const unsigned char *part);

int uni_cpu_assign(struct uni_backend *, double *O, struct uni_fit *, const struct uni_shift *, const float *Y);
int uni_cpu_sweep(struct uni_backend *, double *O, struct uni_fit *, int64_t sweeps, int terms);
int uni_cpu_moments(struct uni_backend *, double *S, const unsigned char *part);
/* Moments of groups first .. end - 1 into S (end - first,K,D), each cell weighed by x (N) as well, unless NULL. */
int uni_cpu_moments_of(struct uni_cpu *, double *S, int64_t first, int64_t end, const float *x);
int uni_cpu_read(struct uni_backend *, enum uni_cells, const struct uni_shift *, void *dst);
int64_t uni_cpu_holes(const struct uni_problem *);
int uni_cpu_take(struct uni_backend *, const struct uni_shift *, const float **rows);
int uni_cpu_nearest(struct uni_backend *, int32_t *index, float *score, double *sum, int64_t *count, int wanted,
                    const struct uni_rows *, const float *Y, int64_t n);

#endif
