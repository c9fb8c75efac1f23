/* SPDX-License-Identifier: BSD-3-Clause */
/* Made-up embeddings, the same bytes on every machine with IEEE arithmetic and for every run. */
#ifndef TESTS_MADE_DATA_H
#define TESTS_MADE_DATA_H

#include "cases.h"

#include <stdint.h>

struct made_data {
    int64_t n, d, n_levels, n_types;
    float *Z;       /* (n, d) */
    int32_t *level; /* (n) */
    int32_t *type;  /* (n) */
    float *shift;   /* (n_types, n_levels, d) the batch effect that was added, or NULL where there is none */
};

/* splitmix64, a uniform number in [0, 1), a normal one. */
uint64_t made_random(uint64_t *state);
double made_uniform(uint64_t *state);
double made_normal(uint64_t *state);

/* Gaussian types with a shift per level and a smaller one per level and type; centred by column. Every level has a cell or more.
 */
void made_case(struct made_data *data, const struct problem_case *c, uint64_t seed);

/* G(n, d) of user-pain.md: Z[i,j] = sin(0.7 i j + 0.3 j) + cos(1.3 i + j), i and j from 1; labels a, b, a, b, ... */
void made_fixture(struct made_data *data, int64_t n, int64_t d);

/* Room for n cells; Z and labels are zero. */
void made_empty(struct made_data *data, int64_t n, int64_t d, int64_t n_levels);
void made_free(struct made_data *data);

#endif
