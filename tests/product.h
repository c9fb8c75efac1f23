/* SPDX-License-Identifier: BSD-3-Clause */
/* The product through its public interface, with everything that can be read afterwards, as float64 (an exact widening, so that
 * comparing bytes compares the product's bytes). */
#ifndef TESTS_PRODUCT_H
#define TESTS_PRODUCT_H

#include "made_data.h"
#include "reference.h"
#include "unisono.h"

#include <stdint.h>

struct product {
    struct uni_harmony *run;
    const struct uni_summary *summary;
    int64_t n, d, K, B;
    double *Zcorr;                          /* (n, d) */
    double *R, *Y, *start, *W;              /* (n, K), (K, d), (K, d), (B, K, d); NULL where the run changed nothing */
    double *O, *E, *lambda, *theta, *sigma; /* (B, K) three times, (B), (K) */
    int32_t *block;                         /* (n) */
};

struct uni_matrix matrix_of(const struct made_data *data);
struct uni_batch batch_of(const struct made_data *data);
struct uni_options defaults(void);

/* Opens, runs and reads; fails the test when a step fails. Warnings are no failure. */
void product_run(struct product *p, const struct uni_matrix *m, const struct uni_batch *batch, const struct uni_options *options);
void product_run_data(struct product *p, const struct made_data *data, const struct uni_options *options);

/* Reads everything from a run that has ended, product_run's last step. */
void product_read(struct product *p, struct uni_harmony *run);
void product_close(struct product *p);

/* Fails the test unless all arrays of both have the same bytes. */
void assert_same_bytes(const struct product *a, const struct product *b);

/* 1 when one of the run's warnings contains the text. */
int product_warns(const struct product *p, const char *text);

/* The oracle's problem that a finished run of the product on these data stands for: its options, its start, its blocks. Z is a
   widened copy that the caller frees (problem.Z). */
struct ref_problem problem_of(const struct product *p, const struct made_data *data, const struct uni_options *options);

double *widen(const float *values, int64_t count);

#endif
