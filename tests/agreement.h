/* SPDX-License-Identifier: BSD-3-Clause */
/* The product and the oracle side by side, on the product's own start and blocks. */
#ifndef TESTS_AGREEMENT_H
#define TESTS_AGREEMENT_H

#include "differences.h"
#include "product.h"
#include "reference.h"

/* What separates the two. Tables are measured where cells are: W weighted by O, O and E relative to themselves plus one cell. */
struct agreement {
    struct distance corrected;
    double R, Y, O, E, lambda, W, slope, theta;
    double objective, terms; /* largest over the sweeps, relative to the sum of the terms' sizes */
    double change;           /* of both stop rules, largest over the rounds, absolute */
    int64_t pruned, skipped; /* largest difference over the rounds */
    int64_t rounds_product, rounds_oracle;
    int same_sweeps;
};

/* Runs the oracle for as many rounds as its own rules say and compares with the finished product. With follow_sweeps the oracle
   makes as many sweeps in each round as the product did, instead of asking its rule. */
struct agreement agree(const struct product *p, const struct made_data *data, const struct uni_options *options,
                       int follow_sweeps);

/* The same of any problem, whose start and blocks are the product's. */
struct agreement agree_on(const struct product *p, const struct ref_problem *problem, int follow_sweeps);

/* Asserts rms, worst and everything else at `scale` times the limits of the half-precision base. With the float32 base: a
 * thirtieth. */
#define SINGLE_SCALE (1.0 / 30)
void assert_agreement(const struct agreement *a, double scale);

#endif
