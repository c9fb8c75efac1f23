/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of t-SNE offer each other. N cells, D dimensions. */
#ifndef UNI_TSNE_H
#define UNI_TSNE_H

#include <stdint.h>

#include "unisono.h"

struct uni_pool;

/* The affinities p of pairs of cells, each pair in the rows of both cells; they sum to 1. */
struct uni_affinities {
    int64_t *first; /* (N+1) row i is first[i] .. first[i+1] - 1 */
    int32_t *other; /* (first[N]) rising within a row */
    float *p;       /* (first[N]) */
};
/* Of the cells X (N,D), by the 3 * perplexity nearest of each. */
int uni_affinities_open(struct uni_affinities *, const float *X, int64_t N, int64_t D, double perplexity, struct uni_pool *,
                        const volatile int *cancel);
void uni_affinities_close(struct uni_affinities *);

/* Coordinates are padded to UNI_TSNE_LANES, with cells so far away that they count for nothing. */
enum { UNI_TSNE_LANES = 8 };
#define UNI_TSNE_FAR 1e8f

/* For the cells i (even) and i + 1, over all other cells j, with q = 1 / (1 + d^2): sum q, sum q^2 (x_i - x_j), sum q^2 (y_i -
 * y_j). */
void uni_tsne_repulsion(float sums[2][3], const float *x, const float *y, int64_t padded, int64_t i);

/* square (padded) = squared distances of x (D) to the columns of Xt (D, padded). */
void uni_tsne_squares(float *square, const float *x, const float *Xt, int64_t D, int64_t padded);

#endif
