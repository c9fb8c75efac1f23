/* SPDX-License-Identifier: BSD-3-Clause */
/* Made-up data with rare cell types, after section 5 of the notes on real data: 30 dimensions, 8 uneven batches with a common and
 * a type-specific shift, 25 types from a sixth of the cells to 0.3 %, and rare ones. What counts for a seeding is the share of a
 * type, and the sample that is seeded on holds at most 20,000 cells: 40,000 cells are as hard a test as 200,000. */
#ifndef TESTS_RARE_TYPES_H
#define TESTS_RARE_TYPES_H

#include "made_data.h"

enum {
    RARE_COMMON = 25,        /* types 0 .. 24 */
    RARE_SEPARATE = 25,      /* 25, 26: 0.1 % each, as far from the others as big types are from each other */
    RARE_SEPARATE_TINY = 27, /* 0.01 % */
    RARE_CLOSE = 28,         /* 0.1 %, within the softness of type 0 */
    RARE_CLOSE_TINY = 29,    /* 0.01 %, within that of type 1 */
    RARE_TYPES = 30
};

void rare_types(struct made_data *data, int64_t n, uint64_t seed);

#endif
