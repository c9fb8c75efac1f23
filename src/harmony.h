/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run holds: shared by the loop (harmony.c) and by what is read afterwards (result.c). */
#ifndef UNI_HARMONY_H
#define UNI_HARMONY_H

#include "method.h"
#include "surroundings.h"

struct uni_harmony {
    struct uni_options options;
    struct uni_cells_sorted cells;
    struct uni_seed seed;
    struct uni_backend backend;
    struct uni_pool *pool;
    struct uni_arena tables;
    float *Y, *start;       /* (K,D) */
    double *O;              /* (G,K) */
    double *level_O;        /* (2,B,K): O by level, then E */
    double *S;              /* (G,K,D), or (B + 1,K,D) by level */
    float *W;               /* (G,K,D) of one variable, (B,K,D) of several or with covariates */
    float *slope;           /* (X,K,D) */
    double *xS, *xO, *xx;   /* (X,K,D), (X,G,K), (X,X,K) sums with covariates */
    unsigned char *part;    /* (G,K) by level, or with covariates: does the group take part in the cluster's system? */
    struct uni_shift shift; /* of the last round */
    int tables_here;        /* O, level_O and W are those of the last round: else a backend with solve has them */
    double *scratch;
    struct uni_round *rounds;
    struct uni_objective *objectives;
    int64_t n_rounds, n_objectives;
    enum uni_where where;   /* the embedding lies */
    int given_centroids, taken;
    struct uni_arena result; /* of uni_take, where the backend cannot give its own rows */
    enum uni_reason reason;
    struct uni_warnings warnings;
    struct uni_surroundings *callers; /* during uni_run: for his callback */
    struct uni_summary summary;
};

/* ---- choose.c: the backend, from the options and from where the embedding lies (h->where) */
int uni_choose_backend(struct uni_harmony *);
/* Checks the embedding, and chooses the backend. What a card reaches it reads where it lies, in the order of the caller's stream; its
   values are then checked on the way into the backend. */
int uni_take_embedding(struct uni_harmony *, const struct uni_matrix *given, struct uni_matrix *plain);

/* Brings O, E and W here, from a backend that keeps them. */
int uni_fetch_tables(struct uni_harmony *);

#endif
