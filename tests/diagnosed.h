/* SPDX-License-Identifier: BSD-3-Clause */
/* A run with its diagnosis, for the tests of both. */
#ifndef TESTS_DIAGNOSED_H
#define TESTS_DIAGNOSED_H

#include "product.h"
#include "testing.h"

/* Levels are called n0, n1, ... where there are at most ten. */
struct uni_batch labels(const char *name, const int32_t *level, int64_t n, int64_t n_levels);

struct diagnosed {
    struct product p;
    struct uni_diagnosis *found;
};

/* Runs, reads, and diagnoses what was read; types where data has some. */
void open_diagnosed(struct diagnosed *x, const struct made_data *data, const struct uni_options *options);
void close_diagnosed(struct diagnosed *x);

#endif
