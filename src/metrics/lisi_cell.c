/* SPDX-License-Identifier: BSD-3-Clause */
/* LISI of one cell, step by step as its authors compute it (Korsunsky et al. 2019, Methods; their R package lisi,
 * compute_simpson_index; harmonypy, compute_simpson).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lisi.h"

enum { MOST_STEPS = 50 };
static const double tolerance = 1e-5;

/* Weights at this beta, and their entropy; 0 and no weights where all of them vanish. */
static double entropy_at(double *weight, const double *distance, int64_t k, double beta)
{
    double sum = 0, far = 0;
    for (int64_t i = 0; i < k; i++)
        weight[i] = exp(-beta * distance[i]);
    for (int64_t i = 0; i < k; i++) {
        sum += weight[i];
        far += distance[i] * weight[i];
    }
    if (sum == 0)
        return 0;
    for (int64_t i = 0; i < k; i++)
        weight[i] /= sum; /* which may be too small to have a reciprocal */
    return log(sum) + beta * far / sum;
}

int uni_lisi_weights(double *weight, const double *distance, int64_t k, double perplexity)
{
    double beta = 1, low = -HUGE_VAL, high = HUGE_VAL, wanted = log(perplexity);
    double off = entropy_at(weight, distance, k, beta) - wanted;
    for (int step = 0; step < MOST_STEPS && !(fabs(off) < tolerance); step++) {
        if (off > 0) {
            low = beta;
            beta = isinf(high) ? beta * 2 : (beta + high) / 2;
        } else {
            high = beta;
            beta = isinf(low) ? beta / 2 : (beta + low) / 2;
        }
        off = entropy_at(weight, distance, k, beta) - wanted;
    }
    for (int64_t i = 0; i < k; i++)
        if (weight[i] > 0)
            return 1;
    return 0;
}

double uni_lisi_index(const double *weight, const struct uni_near_cell *near, int64_t k, const int32_t *level, double *share)
{
    double same = 0, counted = 0;
    int64_t missing = 0;
    for (int64_t i = 0; i < k; i++) {
        int32_t l = level[near[i].cell];
        missing += l < 0;
        if (l < 0)
            continue;
        share[l] += weight[i];
        counted += weight[i];
    }
    for (int64_t i = 0; i < k; i++) {
        int32_t l = level[near[i].cell];
        if (l < 0)
            continue;
        same += share[l] * share[l];
        share[l] = 0;
    }
    return same > 0 ? (missing ? counted * counted : 1) / same : NAN;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void uni_lisi_describe(struct uni_lisi_score *s, const double *value, int64_t n, int64_t n_cells, double *sorted)
{
    double sum = 0, squares = 0;
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(value[i]))
            sum += sorted[m++] = value[i];
    s->n_values = m;
    s->mean = s->median = s->standard_error = NAN;
    if (!m)
        return;
    s->mean = sum / (double)m;
    for (int64_t i = 0; i < m; i++)
        squares += (sorted[i] - s->mean) * (sorted[i] - s->mean);
    /* of a sample without replacement: every cell looked at leaves no error */
    if (n == n_cells)
        s->standard_error = 0;
    else if (m > 1)
        s->standard_error = sqrt(squares / (double)(m - 1) / (double)m * (1 - (double)n / (double)n_cells));
    qsort(sorted, (size_t)m, sizeof *sorted, ascending);
    s->median = (sorted[m / 2] + sorted[(m - 1) / 2]) / 2;
}
