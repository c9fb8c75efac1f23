/* SPDX-License-Identifier: BSD-3-Clause */
/* What the CPU backend's files share. Rows of tables over clusters are Kv floats or doubles, padded with zeros. */
#ifndef UNI_CPU_BACKEND_H
#define UNI_CPU_BACKEND_H

#include "../arena.h"
#include "../backend.h"
#include "cpu_kernels.h"
#include "cpu_layout.h"
#include "cpu_pool.h"

struct uni_cpu {
    const struct uni_problem *p;
    const struct uni_cpu_kernels *kernels;
    struct uni_pool *pool;
    struct uni_shape shape;
    struct uni_layout layout;
    struct uni_arena arena;
    int64_t threads, scratch_floats;

    float *Z;               /* (N_all,D) sorted */
    char *base;             /* (N,Kb) half or float32 */
    float *L;               /* (N) */
    unsigned char *placed;  /* (N_all bits) rows that are in the caller's order already */
    float *P;               /* (pieces,Kv) penalties of each piece's last update */
    float *mass;            /* (pieces,Kv) each piece's part of O, exactly as it was added */
    float *slots;           /* (slots,Kv) sums of runs until they are added */
    double *O;              /* (G,Kv) */
    double *r;              /* (Kv) sum of O over groups */
    double *level_O;        /* (B,Kv) several variables: O by level, as of the sweep under way */
    double *block_r;        /* (Q,Kv) each block's part of r */
    double *came;           /* (steps,Kv) sums over the pieces that a task of a sweep updated */
    double *parts;          /* (parts,Dr,Kv) moments of slices */
    double *whole;          /* (threads,Dr,Kv) the same while they are made */
    float *Yt, *bias;       /* (D,Kv), (Kv) centroids as the kernels want them */
    float *sigma;           /* (Kv) */
    double *fit;            /* (tasks, or steps and one, 2) */
    float *scratch;         /* (threads, scratch_floats) */
    int32_t *nearest_rows;  /* (sampled rows) by their nearest centroid, */
    int64_t *nearest_first; /* (K + 1) and where each centroid's begin */

    /* of the operation under way */
    const float *W; /* (G,K,D) */
    double *S;      /* (G,K,D) */
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

/* A thread's scratch: the kernels' own, then -W (Kv,Dv), sP (Kv), then S (Dr,Kv). */
float *uni_cpu_scratch(const struct uni_cpu *, int thread);
float *uni_cpu_minus_W(const struct uni_cpu *, int thread);
float *uni_cpu_weighted_P(const struct uni_cpu *, int thread);
float *uni_cpu_run_S(const struct uni_cpu *, int thread);

/* Group g's -W, padded to whole vectors. */
void uni_cpu_pack_minus_W(const struct uni_cpu *, int64_t g, float *packed);
/* Run i as the kernels want it. */
struct uni_run uni_cpu_run(const struct uni_cpu *, int64_t i);
/* Where the sums of run i go. */
float *uni_cpu_run_sum(const struct uni_cpu *, int64_t i);
/* Adds the sums of a piece's runs to its mass, where there are several. */
void uni_cpu_add_runs(const struct uni_cpu *, int64_t piece);
/* O to the caller's table, rows of K. */
void uni_cpu_give_O(const struct uni_cpu *, double *O);

/* ---- cpu_joint.c: a block of several variables */
int uni_cpu_leave_joint(struct uni_cpu *);
int uni_cpu_return_joint(struct uni_cpu *);
void uni_cpu_start_joint(struct uni_cpu *);

int uni_cpu_assign(struct uni_backend *, double *O, struct uni_fit *, const float *W, const float *Y);
int uni_cpu_sweep(struct uni_backend *, double *O, struct uni_fit *, int64_t sweeps, int terms);
int uni_cpu_moments(struct uni_backend *, double *S);
int uni_cpu_read(struct uni_backend *, enum uni_cells, const float *W, void *dst);
int uni_cpu_take(struct uni_backend *, const float *W, const float **rows);
int uni_cpu_nearest(struct uni_backend *, int32_t *index, float *score, double *sum, int64_t *count, const float *X, int64_t M,
                    const float *Y, int64_t n);

#endif
