/* SPDX-License-Identifier: BSD-3-Clause */
/* One list of problems, for the tests' comparisons and the benchmarks' timings alike. made_data.h makes the data. */
#ifndef TESTS_CASES_H
#define TESTS_CASES_H

#include <stdint.h>

struct problem_case {
    const char *name;
    int64_t n_cells, n_dims, n_clusters, n_levels, n_types;
    double skew;      /* cells of the largest level over those of the smallest */
    double shift;     /* length of a level's shift, in standard deviations of a type's noise */
    double type_loss; /* share of the (type, level) pairs without any cell */
};

/* Sizes are chosen around what kernels trip over: one dimension, one more or less than a vector, odd cluster numbers, levels of a
   few cells, more levels than blocks, one cluster, more dimensions than cells. */
static const struct problem_case problem_cases[] = {
    {"plain", 1000, 20, 30, 3, 8, 2, 1.5, 0},
    {"one dimension", 300, 1, 4, 2, 4, 1, 1.5, 0},
    {"two cells a level", 64, 8, 6, 30, 3, 1, 1, 0},
    {"vectors and one", 777, 17, 33, 4, 9, 3, 1.5, 0.1},
    {"vectors less one", 777, 31, 15, 4, 9, 3, 1.5, 0.1},
    {"odd everything", 1023, 7, 13, 5, 7, 5, 1.5, 0.1},
    {"runs of 1024", 4097, 10, 20, 2, 10, 1, 1.5, 0},
    {"many levels", 3000, 12, 25, 60, 8, 10, 1, 0.1},
    {"lone types", 1500, 15, 25, 3, 10, 4, 1.5, 0.4},
    {"one cluster", 500, 9, 1, 3, 5, 3, 1.5, 0},
    {"more clusters than vectors", 1500, 50, 101, 3, 12, 3, 1.5, 0},
    {"wide", 120, 200, 5, 2, 3, 1, 1.5, 0},
};

enum { N_PROBLEM_CASES = sizeof problem_cases / sizeof *problem_cases };

#endif
