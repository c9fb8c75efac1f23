/* SPDX-License-Identifier: BSD-3-Clause */
/* Where t-SNE's time goes: every cell against every other. Lanes are a fixed number, whatever the machine's vectors, nothing is
 * fused and nothing approximated, so that all processors make the same picture.
 */
#include <string.h>

#include "tsne.h"

typedef float lanes __attribute__((vector_size(sizeof(float) * UNI_TSNE_LANES)));

static lanes load(const float *from)
{
    lanes v;
    memcpy(&v, from, sizeof v);
    return v;
}

static float sum_of(lanes v)
{
    return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
}

void uni_tsne_repulsion(float sums[3], const float *x, const float *y, int64_t padded, int64_t i)
{
    lanes total = {0}, along_x = {0}, along_y = {0};
    float x_i = x[i], y_i = y[i];
    for (int64_t j = 0; j < padded; j += UNI_TSNE_LANES) {
        lanes dx = x_i - load(x + j), dy = y_i - load(y + j);
        lanes q = 1.0f / (1.0f + dx * dx + dy * dy);
        total += q;
        q *= q;
        along_x += q * dx;
        along_y += q * dy;
    }
    sums[0] = sum_of(total);
    sums[1] = sum_of(along_x);
    sums[2] = sum_of(along_y);
}
