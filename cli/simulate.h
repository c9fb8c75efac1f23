/* SPDX-License-Identifier: BSD-3-Clause */
/* A made-up atlas: Gaussian cell types in a space like that of principal components, and a known batch effect on top. */
#ifndef UNI_CLI_SIMULATE_H
#define UNI_CLI_SIMULATE_H

#include <stdint.h>

/* Lengths are in spreads: the root mean square distance of a cell from the centre of its type in its batch is 1. */
struct atlas {
    int64_t n_cells, n_dims, n_levels, n_types, n_rare; /* n_rare: further types with a thousandth of the cells each */
    double uneven;     /* 0: all levels, types and mixtures alike; 1: the largest level is n_levels times the smallest */
    double shift;      /* length of a batch's shift that all its cells share */
    double type_shift; /* length of the further shift of each type in each batch */
    int64_t seed;
};

/* Fills values (n_cells, n_dims), level and type (n_cells each). The same atlas gives the same bytes on every machine.
   Returns 0, or -1 when there is no memory. */
int atlas_make(const struct atlas *, float *values, int32_t *level, int32_t *type);

#endif
