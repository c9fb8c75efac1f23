/* SPDX-License-Identifier: BSD-3-Clause */
/* What the self test compares with: the method of the documentation written plainly in float64. */
#ifndef UNI_SELFTEST_H
#define UNI_SELFTEST_H

#include <stdint.h>

/* A small made-up problem of one batch variable. */
struct selftest_case {
    int64_t n, d, n_levels, n_clusters, rounds;
    float *Z;         /* (n,d) */
    int32_t *level;   /* (n) */
    float *start;     /* (n_clusters,d) unit rows */
    double *expected; /* (n,d) */
    double *work;
};

/* n_clusters 1: the closed form is what is expected, and nothing else needs to be known. Returns 0 where there is no memory. */
int selftest_case_open(struct selftest_case *, int64_t n_clusters);
/* What rounds of the method give with the blocks (n) that a run used; all options but these at their defaults. */
void selftest_expect(struct selftest_case *, const int32_t *block);
/* Root of the mean square of got - expected, over that of expected - Z: 0 the same, 1 as far off as no correction. */
double selftest_distance(const struct selftest_case *, const float *got);
void selftest_case_close(struct selftest_case *);

#endif
