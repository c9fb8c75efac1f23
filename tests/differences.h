/* SPDX-License-Identifier: BSD-3-Clause */
/* How far apart two results are, in the measures the limits are stated in. */
#ifndef TESTS_DIFFERENCES_H
#define TESTS_DIFFERENCES_H

#include <stdint.h>

struct distance {
    double corr_least, corr_median; /* correlation per dimension, over the dimensions */
    double rms;                     /* rms of the difference over the rms of the correction b - Z */
    double worst;                   /* largest length of a cell's difference over the rms length of a cell's correction */
    double largest;                 /* largest absolute difference of an entry */
};

/* a and b: two corrected embeddings of Z, all (n, d); b is the standard. */
struct distance compare_corrected(const double *a, const double *b, const double *Z, int64_t n, int64_t d);

/* Largest |a - b|. NaN in either gives infinity. */
double largest_difference(const double *a, const double *b, int64_t count);
double largest_magnitude(const double *a, int64_t count);

#endif
