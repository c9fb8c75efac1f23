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

static void keep(float sums[3], lanes q, lanes x, lanes y)
{
    sums[0] = sum_of(q);
    sums[1] = sum_of(x);
    sums[2] = sum_of(y);
}

/* Two cells at once, because a division takes as long as all the rest: 1/a and 1/b are had from 1/(a b). */
UNI_CLONES void uni_tsne_repulsion(float sums[2][3], const float *x, const float *y, int64_t padded, int64_t i)
{
    lanes q_a = {0}, x_a = {0}, y_a = {0}, q_b = {0}, x_b = {0}, y_b = {0};
    for (int64_t j = 0; j < padded; j += UNI_TSNE_LANES) {
        lanes x_j = load(x + j), y_j = load(y + j);
        lanes dx_a = x[i] - x_j, dy_a = y[i] - y_j;
        lanes dx_b = x[i + 1] - x_j, dy_b = y[i + 1] - y_j;
        lanes a = 1.0f + dx_a * dx_a + dy_a * dy_a;
        lanes b = 1.0f + dx_b * dx_b + dy_b * dy_b;
        lanes both = 1.0f / (a * b);
        lanes q = both * b;
        q_a += q;
        q *= q;
        x_a += q * dx_a;
        y_a += q * dy_a;
        q = both * a;
        q_b += q;
        q *= q;
        x_b += q * dx_b;
        y_b += q * dy_b;
    }
    keep(sums[0], q_a, x_a, y_a);
    keep(sums[1], q_b, x_b, y_b);
}

UNI_CLONES void uni_tsne_squares(float *square, const float *x, const float *Xt, int64_t D, int64_t padded)
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
