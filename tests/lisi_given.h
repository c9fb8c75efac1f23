/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of LISI give it. */
#ifndef TESTS_LISI_GIVEN_H
#define TESTS_LISI_GIVEN_H

#include "unisono.h"

static inline struct uni_lisi_options every_cell(double perplexity)
{
    struct uni_lisi_options o;
    uni_lisi_options_init(&o, sizeof o);
    o.perplexity = perplexity;
    o.sample = 0;
    return o;
}

static inline struct uni_matrix cells_of(const float *Z, int64_t n, int64_t d)
{
    return (struct uni_matrix){.data = Z, .n_cells = n, .n_dims = d};
}

static inline struct uni_batch labels_of(const int32_t *level, int64_t n, int64_t n_levels)
{
    return (struct uni_batch){.name = "batch", .n_cells = n, .n_levels = n_levels, .level = level};
}

#endif
