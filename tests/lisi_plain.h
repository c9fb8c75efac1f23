/* SPDX-License-Identifier: BSD-3-Clause */
/* LISI as the reference data have it: exact neighbours, the 3 * perplexity - 1 nearest other cells, plain Euclidean distance in
 * the Gaussian kernel; of equally far cells those with the lowest number. */
#ifndef TESTS_LISI_PLAIN_H
#define TESTS_LISI_PLAIN_H

#include <stdint.h>

/* out (n): effective number of labels around each cell. X (n, d), label (n) from 0. n must exceed 3 * perplexity. */
void lisi_plain(double *out, const double *X, const int32_t *label, int64_t n, int64_t d, double perplexity);
double lisi_mean(const double *X, const int32_t *label, int64_t n, int64_t d);

#endif
