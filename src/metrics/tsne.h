/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of t-SNE offer each other. N cells, D dimensions. */
#ifndef UNI_TSNE_H
#define UNI_TSNE_H

#include <stdint.h>

#include "unisono.h"

struct uni_pool;

/* The affinities p of pairs of cells, each pair in the rows of both cells; they sum to 1. Rows are padded to UNI_TSNE_LANES, with
   the cell itself and p = 0. */
struct uni_affinities {
    int64_t *first; /* (N+1) row i is first[i] .. first[i+1] - 1 */
    int32_t *other; /* (first[N]) rising within a row, but for the padding */
    float *p;       /* (first[N]) */
};
/* Of the cells X (N,D), by the 3 * perplexity nearest of each. */
int uni_affinities_open(struct uni_affinities *, const float *X, int64_t N, int64_t D, double perplexity, struct uni_pool *,
                        const volatile int *cancel);
void uni_affinities_close(struct uni_affinities *);

/* Coordinates are padded to UNI_TSNE_LANES, with cells so far from all and from each other that they count for nothing: the
   first at UNI_TSNE_FAR, the next at twice that. Products of two squares stay finite. */
enum { UNI_TSNE_LANES = 8 };
#define UNI_TSNE_FAR 1e8f

/* Pairs of the cells i .. i_end - 1 and j .. j_end - 1, all multiples of UNI_TSNE_LANES; either the same cells or none in both.
 */
struct uni_tsne_tile {
    const float *x, *y;
    int64_t i, i_end, j, j_end;
    float *i_x, *i_y, *j_x, *j_y; /* by cell; those of j may be those of i */
};
/* With q = 1 / (1 + d^2): adds sum q^2 (x_i - x_j), sum q^2 (y_i - y_j) to what each cell feels of the others; returns sum q over
   ordered pairs. */
double uni_tsne_repulsion(const struct uni_tsne_tile *);

/* pull = sum over the n entries of p q (x_i - x_other), p q (y_i - y_other); n a multiple of UNI_TSNE_LANES. */
void uni_tsne_attraction(float pull[2], const float *x, const float *y, int64_t i, const int32_t *other, const float *p,
                         int64_t n);

/* square (padded) = squared distances of x (D) to the columns of Xt (D, padded). */
void uni_tsne_squares(float *square, const float *x, const float *Xt, int64_t D, int64_t padded);

#endif
