/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of uni_diagnose share. Letters as in backend.h, and T cell types. Cells are sorted by group, then by type; what
 * is summed over cells is summed per slice, a run of at most UNI_SLICE sorted cells of one group, and slices are added up in
 * their order: so no number depends on the threads. */
#ifndef UNI_DIAGNOSE_H
#define UNI_DIAGNOSE_H

#include "../arena.h"
#include "../backend.h"
#include "unisono.h"

struct uni_pool;

enum {
    UNI_SLICE = 4096,
    UNI_TYPES_COMPARED = 4096, /* with more types than this they are not compared with each other */
    UNI_DIAGNOSE_THREADS = 64,
    UNI_LENGTH_BINS = 2048
};

/* Cells of one type in one group, UNI_FEWEST or more: they have a centre. */
struct uni_piece {
    int64_t cells, first_slice, n_slices, group;
    int32_t type;
};

struct uni_slice {
    int64_t first, n; /* sorted cells */
};

struct uni_diagnose_group {
    int64_t first, cells, first_slice, n_slices, first_piece, n_pieces;
    int64_t place; /* of its lengths among those of a variable's levels */
};

struct uni_lengths {
    double median, p999, most, rms;
};

/* The work on cells: gone when uni_diagnose returns. */
struct uni_diagnose_cells {
    int64_t N, N_all, D, V, T;
    const struct uni_batch *batches, *types; /* types: or NULL */
    const int64_t *level_first;              /* (V + 1) */
    const struct uni_matrix *before, *after;
    int64_t threads;
    struct uni_pool *pool;

    int64_t *order;   /* (N_all) the caller's row of each sorted cell that takes part; N of them */
    int64_t *other;   /* (N_all) while sorting; then length and scratch */
    float *length;    /* (N) of the correction, sorted cells */
    float *scratch;   /* (N) */
    int64_t *counter; /* most levels of a variable, or types, + 2; or so many for each share of a sort */
    struct uni_arena cells;

    int64_t n_groups, n_pieces, n_slices;
    struct uni_diagnose_group *group;
    struct uni_piece *piece;
    struct uni_slice *slice;
    double *sum;                      /* (n_slices, 2 D) of the rows before, after */
    double *square;                   /* (n_slices, 2) of their squared lengths */
    double *centre;                   /* (n_pieces, 2 D) */
    float *row;                       /* (threads, 2 D) */
    double *near;                     /* (threads, 3 T): weight and squared distances of a type to the others */
    double *mean;                     /* (2 D) */
    int64_t *type_first, *type_piece; /* (T + 1), (n_pieces) pieces in the order of their types */
    struct uni_lengths *lengths;      /* most levels of a variable, or types */
    double *partial;                  /* a number a slice of all cells */
    int64_t *counts;                  /* (threads, UNI_LENGTH_BINS) */
    float *most;                      /* (threads) */
    struct uni_arena tables;
};

struct uni_weighed {
    double length, mass;
};

/* What may become a finding. */
struct uni_ranked {
    double rank, value, threshold;
    int64_t row, other;
};

struct uni_diagnose_work {
    struct uni_diagnosis answer; /* first: the caller's pointer is the work's */
    const struct uni_batch *batches, *types;
    int64_t level_first[UNI_MAX_VARIABLES + 1];
    struct uni_level_diagnosis *levels;
    struct uni_cluster_diagnosis *clusters;
    struct uni_type_diagnosis *types_out;
    double *observed, *expected, *lambda, *length; /* (B,K) */
    struct uni_weighed *weighed;                   /* (B) */
    double *level_squares;                         /* (B, 3): before, after, cells less groups */
    double *type_squares;                          /* (T, 3) */
    double *type_moved;                            /* (T, D) */
    int64_t *type_level;                           /* (V, T) the last level that has the type; -1: none */
    int64_t *type_level_cells;                     /* (V, T) cells of the type there */
    unsigned char *has_type;                       /* (B) UNI_FEWEST or more cells of some type */
    unsigned char *lone;                           /* (B) the first of a tree that is cut off from the largest */
    int64_t levels_used[UNI_MAX_VARIABLES];        /* levels with cells */
    int64_t *tree_levels;                          /* (B) levels of the tree that starts here */
    double *tree_cells;                            /* (B) */
    int64_t *linked;                               /* (B + V T): trees of levels and types that share cells, by variable */
    struct uni_ranked *ranked;                     /* (max(B, T)) */
    struct uni_finding *findings;
    char *text; /* (UNI_MAX_FINDINGS, UNI_FINDING_TEXT) */
    struct uni_batch joint;
    struct uni_arena arena, name_arena, joint_arena;
};

enum { UNI_FINDING_KINDS = UNI_TYPES_MERGED + 1, UNI_FINDINGS_LISTED = 3, UNI_FINDING_TEXT = 400 };
enum { UNI_MAX_FINDINGS = UNI_FINDING_KINDS * UNI_FINDINGS_LISTED };

/* ---- diagnose_order.c: labels -> sorted cells, groups, pieces, slices; counts of cells */
/* Order and sizes only. */
int uni_diagnose_sort_open(struct uni_diagnose_cells *);
int uni_diagnose_same_group(const struct uni_diagnose_cells *, int64_t a, int64_t b); /* sorted cells */
int uni_diagnose_order_open(struct uni_diagnose_cells *, struct uni_diagnose_work *);
/* Where the sorted cells from at on, of one group that goes on to end, stop being of its type. */
int64_t uni_diagnose_type_end(const struct uni_diagnose_cells *, int64_t at, int64_t end);
int64_t uni_diagnose_order_bytes(const struct uni_diagnose_cells *sizes);
void uni_diagnose_order_close(struct uni_diagnose_cells *);
/* The level of a cell, counted over all variables; a missing label is the one past the variable's levels, -1 where there is none.
 */
static inline int64_t uni_diagnose_level(const struct uni_diagnose_cells *c, int64_t v, int64_t cell)
{
    int64_t level = c->batches[v].level[cell], at = c->level_first[v] + (level < 0 ? c->batches[v].n_levels : level);
    return at < c->level_first[v + 1] ? at : -1;
}

/* ---- diagnose_joint.c: replaces the batches by the one variable that a run made of them */
int64_t uni_diagnose_joint_bytes(int64_t n_cells, int64_t n_levels, int V);
int uni_diagnose_joint_open(struct uni_diagnose_work *, struct uni_diagnose_cells *, int64_t run_levels);

/* ---- diagnose_cells.c: the one pass over the cells, and the rows of levels from it */
int uni_diagnose_pass(struct uni_diagnose_cells *);
void uni_diagnose_levels(struct uni_diagnose_work *, struct uni_diagnose_cells *);
/* Of slices together: mean (2 D) before and after, and what is left of the squares around it. */
void uni_diagnose_squares(double left[2], const struct uni_diagnose_cells *, int64_t first_slice, int64_t n_slices, double *mean);

/* ---- diagnose_lengths.c: order statistics of lengths. No values: NaN */
/* Uses scratch, which the values don't lie in. */
struct uni_lengths uni_lengths_of(struct uni_diagnose_cells *, const float *values, int64_t n);
/* Of n runs of scratch, which first (n + 1) cuts; may reorder each. */
void uni_lengths_of_runs(struct uni_lengths *, struct uni_diagnose_cells *, const int64_t *first, int64_t n);

/* ---- diagnose_types.c: the rows of the types */
/* Says that a level has so many cells of a type. */
void uni_diagnose_present(struct uni_diagnose_work *, int64_t v, int64_t level, int64_t type, int64_t cells);
/* The tree that a level belongs to: levels with a type in common, and with those that these have one in common with, and so on.
 */
int64_t uni_diagnose_tree(const struct uni_diagnose_work *, int64_t node);
int uni_diagnose_types(struct uni_diagnose_work *, struct uni_diagnose_cells *);

/* ---- diagnose_tables.c: levels and clusters from the run's tables */
int uni_diagnose_tables(struct uni_diagnose_work *, struct uni_harmony *);

/* ---- diagnose_findings.c: thresholds and sentences */
void uni_diagnose_findings(struct uni_diagnose_work *);

#endif
