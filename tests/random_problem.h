/* SPDX-License-Identifier: BSD-3-Clause */
/* A small problem of any size, options and oddity of the data, and how the product's answer compares with the oracle's. */
#ifndef TESTS_RANDOM_PROBLEM_H
#define TESTS_RANDOM_PROBLEM_H

#include "study.h"

struct random_problem {
    struct study study; /* study_close frees all */
    struct uni_options options;
};

/* By four generators' states, which may be one and the same. */
void random_problem_draw(struct random_problem *, uint64_t *of_options, uint64_t *of_cells, uint64_t *of_labels,
                         uint64_t *of_per_cell);

/* Refused with a sentence; returned as it was; the oracle's; not, where rounding decides; wrong, not finite, or without a
 * sentence. */
enum verdict { REFUSED, UNCHANGED, AGREES, KNIFE_EDGE, WRONG };

/* *off: how far from the oracle, of what the correction does. */
enum verdict random_problem_try(const struct random_problem *, double *off);

#endif
