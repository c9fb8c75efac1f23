/* SPDX-License-Identifier: BSD-3-Clause */
/* The k nearest other cells of some cells, among all, exactly: by float64 distances, of equally far ones those with the lowest
 * number.
 *
 * Products in float32 find the few cells that may be among the nearest, and leave out none that is: see the margin in
 * neighbours.c. Only these are measured in float64, from the caller's own values. Whatever the products' rounding, the number of
 * threads and the instruction set, the outcome is the same.
 */
#ifndef UNI_NEIGHBOURS_H
#define UNI_NEIGHBOURS_H

#include <stdint.h>

#include "../arena.h"
#include "../near_device.h"
#include "unisono.h"

struct uni_near_cell {
    double square; /* of the Euclidean distance */
    int64_t cell;
};

/* What is to be found. The embedding is read until the search is closed. */
struct uni_near_job {
    const struct uni_matrix *plain; /* checked; strides in bytes, not zero */
    int64_t k;                      /* 1 .. n_cells - 1 */
    int64_t n_queries;
    const int64_t *query; /* (n_queries) cells; NULL: all of them */
    int64_t threads;      /* 0: the CPUs that this process may use */
    const volatile int *cancel;
    const struct uni_near_device *device; /* or NULL. Used for as many neighbours as its lists have room for */
    int64_t device_number;
};

struct uni_neighbours {
    struct uni_near_job job;
    int64_t N, D, k;
    const struct uni_cpu_kernels *kernels;
    struct uni_pool *pool;
    int64_t threads, tile; /* queries of a task */
    struct uni_arena arena;

    const char *rows; /* the cells' values, row by row: the caller's, or a copy */
    int64_t row_stride;
    int wide;       /* they are doubles */
    char *copy;     /* (N row_stride) where the caller's are not row by row */
    double *centre; /* (D) */
    double *most;   /* (parts of the cells) largest distance from it along one axis */
    double scale;   /* a power of two: coordinates become at most 1 */
    float *panels;  /* (n_panels,D + 1,NEAR_CELLS) */
    float *coarse;  /* (n_coarse,D + 1,NEAR_CELLS) of every stride-th cell; n_coarse 0: too few to be of use */
    int64_t n_panels, n_coarse, stride;

    /* (threads, tile) and rows of these */
    float *query, *limit;       /* D, 1 */
    double *square;             /* 1: the query's squared length */
    int64_t room;               /* cells found for a query before some must go */
    struct uni_found *found;    /* room */
    int64_t *count, *looked;    /* 1, 1: how many, and how many of these have been looked at */
    float *low;                 /* k: the highest low scores, the lowest of them first, */
    int64_t *lows;              /* 1: and how many */
    struct uni_near_cell *near; /* k: the nearest that have been measured, the farthest of them first, */
    int64_t *have;              /* 1: and how many */

    /* with a device */
    void *device_state;
    int64_t R;                      /* entries of a list; 0: the device is not used */
    float *batch_query;             /* (batch,D) */
    struct uni_near_listed *listed; /* (batch,R) */
    int64_t batch, batch_end;       /* the queries under way */

    void (*each)(void *context, int64_t i, const struct uni_near_cell *near, int thread);
    void *context;
};

/* Entries of a device's lists for k neighbours; 0: more than it can have. UNI_NEAR_SPARE: for the query itself, and cells whose
   products say about as much as that of the last. */
enum { UNI_NEAR_SPARE = 17 };
int64_t uni_near_list(int64_t k);

/* Bytes that open will take; -1: more than can be said. *threads: those it will use. */
int64_t uni_neighbours_bytes(const struct uni_near_job *, int64_t *threads);

int uni_neighbours_open(struct uni_neighbours *, const struct uni_near_job *);

/* Calls each for every query i with its k nearest, the nearest first; in any order, from any thread. UNI_STOPPED: cancelled,
   within milliseconds, or when a device has found for UNI_NEAR_BATCH queries. */
int uni_neighbours_find(struct uni_neighbours *,
                        void (*each)(void *context, int64_t i, const struct uni_near_cell *near, int thread), void *context);
void uni_neighbours_close(struct uni_neighbours *); /* safe after a failed open */

/* ---- what the search (near_search.c) needs of the cells */

static inline int64_t uni_near_parts(int64_t n, int64_t part)
{
    return (n + part - 1) / part;
}

/* m of neighbours.c */
double uni_near_margin(int64_t D);
/* times y of a cell, entries step apart; returns |y|^2. */
double uni_near_place(const struct uni_neighbours *, int64_t cell, float *to, int64_t step, float times);

/* ---- near_heap.c: the best k so far as a heap, whose first entry is the worst of them */

/* The heap a of *n <= k entries takes one more, or puts it in the place of the worst if it is better. Near is good. */
void uni_near_add(struct uni_near_cell *a, int64_t *n, int64_t k, struct uni_near_cell);
/* The heap becomes a list, the nearest first. */
void uni_near_sort(struct uni_near_cell *a, int64_t n);
/* The same of numbers, the highest being the best. */
void uni_high_add(float *a, int64_t *n, int64_t k, float);

#endif
