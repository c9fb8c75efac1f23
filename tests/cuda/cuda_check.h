/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of check_cuda share: problems made up by shape, and the counting of checks. */
#ifndef TESTS_CUDA_CHECK_H
#define TESTS_CUDA_CHECK_H

#include "cuda_made.h"
#include "cuda_plain.h"

struct shape {
    const char *name;
    int64_t n, d, K, levels;
    double skew;
    int single, cluster_sigma, odd_ones; /* a row of zeros, a level without cells, skipped cells, a sigma that needs the shift */
    int variables; /* 0: one; the second crosses the first, the third, moments by level, has the first nested in it */
    int damped;    /* the damped update, so many sweeps at once */
    int first;     /* the method of 2019 */
};

struct bench {
    struct made made;
    int32_t *crossed, *outer;
    struct uni_batch batch[3];
    int variables;
    struct uni_matrix matrix;
    struct uni_options options;
    struct uni_cells_sorted cells;
    struct uni_warnings warnings;
    double *sigma;
};

void bench_open(struct bench *, const struct shape *);
/* The problem in order, as uni_open makes it. */
void bench_sort(struct bench *, const struct shape *);
void bench_close(struct bench *);

extern int checks, failures;

/* |a - b| / |b| over all; NaN anywhere is infinity */
double apart(const double *a, const double *b, int64_t n);
double apart_f(const float *a, const double *b, int64_t n);
void expect(const char *where, const char *what, double x, double limit);
void must(const char *where, const char *what, int err);
void poison(void *, int64_t bytes);

/* Every operation beside plain loops. */
void check_operations(const struct shape *);
void check_nearest(int64_t d, int64_t K);
/* Whole runs: beside the CPU backend, in closed form, the same bytes again and again. */
void check_whole(const struct shape *, int64_t rounds);
void check_closed_form(int single, int damped);
void check_same_bytes(const struct shape *, int times);
/* A card too small for all: with Z, and with Z and base in the host's memory, the same bytes. */
void check_ways(const struct shape *);
/* LISI of `sample` cells, 0: all, beside the CPU's. */
void check_neighbours(const struct shape *, int64_t sample, double perplexity);

/* The embedding and the result in memory of every kind; the driver must be open (cuda_caller.h). */
void check_places(const struct shape *);

#endif
