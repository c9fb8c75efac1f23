/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of LISI offer each other: the index of one cell from its neighbours. */
#ifndef UNI_LISI_H
#define UNI_LISI_H

#include "neighbours.h"

/* weight (k), of sum 1 and proportional to exp(-beta distance) (k), beta by bisection until their entropy is within 1e-5 of
   ln perplexity. Returns 0 where no beta was found, not even for a weight above zero: distances beyond 1e17 or so. */
int uni_lisi_weights(double *weight, const double *distance, int64_t k, double perplexity);

/* 1 / sum over levels of (sum of their weights)^2; cells without a label do not count, NaN if no neighbour has one. share: zeros,
   a place for every level; zeros again afterwards. */
double uni_lisi_index(const double *weight, const struct uni_near_cell *near, int64_t k, const int32_t *level, double *share);

/* Mean, standard error and median of the values (n) that are no NaN, out of n_cells; sorted: room for n. */
void uni_lisi_describe(struct uni_lisi_score *, const double *value, int64_t n, int64_t n_cells, double *sorted);

#endif
