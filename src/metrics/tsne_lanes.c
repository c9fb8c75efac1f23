/* SPDX-License-Identifier: BSD-3-Clause */
/* Where t-SNE's time goes: every cell against every other. The lanes are of one number whatever the machine's vectors are,
 * nothing is fused and nothing approximated, so that all processors get the same sums.
 */
#include <string.h>

#include "tsne.h"

typedef float lanes __attribute__((vector_size(sizeof(float) * UNI_TSNE_LANES)));

static inline lanes load(const float *from)
{
    lanes v;
    memcpy(&v, from, sizeof v);
    return v;
}

static float sum_of(lanes v)
{
    return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
}

/* One cell's sums: q, q^2 dx, q^2 dy. */
struct lane_sums {
    lanes q, x, y;
};

static inline void add(struct lane_sums *to, lanes q, lanes dx, lanes dy)
{
    to->q += q;
    q *= q;
    to->x += q * dx;
    to->y += q * dy;
}

/* The cells j .. j + UNI_TSNE_LANES - 1, for two cells at once: a division takes as long as all the rest, and 1/a and 1/b are had
   from 1/(a b). */
static inline void add_cells(struct lane_sums to[2], const float *x, const float *y, int64_t i, int64_t j)
{
    lanes x_j = load(x + j), y_j = load(y + j);
    lanes dx_a = x[i] - x_j, dy_a = y[i] - y_j;
    lanes dx_b = x[i + 1] - x_j, dy_b = y[i + 1] - y_j;
    lanes a = 1.0f + dx_a * dx_a + dy_a * dy_a;
    lanes b = 1.0f + dx_b * dx_b + dy_b * dy_b;
    lanes both = 1.0f / (a * b);
    add(&to[0], both * b, dx_a, dy_a);
    add(&to[1], both * a, dx_b, dy_b);
}

/* Static, and called by a name of its own below: the choice between the builds would be exported otherwise. */
UNI_CLONES static void repulsion(float sums[2][3], const float *x, const float *y, int64_t padded, int64_t i)
{
    struct lane_sums to[2] = {{{0}, {0}, {0}}, {{0}, {0}, {0}}};
    int64_t own = i / UNI_TSNE_LANES * UNI_TSNE_LANES;
    /* First, so that a cell's own q of 1 is out before it could swallow the small ones. */
    add_cells(to, x, y, i, own);
    to[0].q[i - own] = to[1].q[i + 1 - own] = 0;
    for (int64_t j = 0; j < own; j += UNI_TSNE_LANES)
        add_cells(to, x, y, i, j);
    for (int64_t j = own + UNI_TSNE_LANES; j < padded; j += UNI_TSNE_LANES)
        add_cells(to, x, y, i, j);
    for (int k = 0; k < 2; k++) {
        sums[k][0] = sum_of(to[k].q);
        sums[k][1] = sum_of(to[k].x);
        sums[k][2] = sum_of(to[k].y);
    }
}

UNI_CLONES static void squares(float *square, const float *x, const float *Xt, int64_t D, int64_t padded)
{
    for (int64_t j = 0; j < padded; j += UNI_TSNE_LANES) {
        lanes sum = {0};
        for (int64_t d = 0; d < D; d++) {
            lanes apart = x[d] - load(Xt + d * padded + j);
            sum += apart * apart;
        }
        memcpy(square + j, &sum, sizeof sum);
    }
}

void uni_tsne_repulsion(float sums[2][3], const float *x, const float *y, int64_t padded, int64_t i)
{
    repulsion(sums, x, y, padded, i);
}

void uni_tsne_squares(float *square, const float *x, const float *Xt, int64_t D, int64_t padded)
{
    squares(square, x, Xt, D, padded);
}
