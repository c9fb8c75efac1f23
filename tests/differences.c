/* SPDX-License-Identifier: BSD-3-Clause */
#include "differences.h"

#include <math.h>
#include <stdlib.h>

double largest_difference(const double *a, const double *b, int64_t count)
{
    double largest = 0;
    for (int64_t i = 0; i < count; i++) {
        double difference = fabs(a[i] - b[i]);
        if (!(difference <= largest))
            largest = isnan(difference) ? INFINITY : difference;
    }
    return largest;
}

double largest_magnitude(const double *a, int64_t count)
{
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fabs(a[i]) > largest ? fabs(a[i]) : largest;
    return largest;
}

static double correlation(const double *a, const double *b, int64_t n, int64_t d, int64_t j)
{
    double mean_a = 0, mean_b = 0, aa = 0, bb = 0, ab = 0;
    for (int64_t i = 0; i < n; i++) {
        mean_a += a[i * d + j] / (double)n;
        mean_b += b[i * d + j] / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        double x = a[i * d + j] - mean_a, y = b[i * d + j] - mean_b;
        aa += x * x, bb += y * y, ab += x * y;
    }
    return ab / sqrt(aa * bb);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct distance compare_corrected(const double *a, const double *b, const double *Z, int64_t n, int64_t d)
{
    struct distance out = {0};
    double square = 0, correction = 0, worst = 0, *corr = calloc((size_t)d, sizeof *corr);
    for (int64_t i = 0; i < n; i++) {
        double cell = 0;
        for (int64_t j = i * d; j < (i + 1) * d; j++) {
            cell += (a[j] - b[j]) * (a[j] - b[j]);
            correction += (b[j] - Z[j]) * (b[j] - Z[j]);
        }
        square += cell;
        worst = cell > worst || isnan(cell) ? cell : worst;
    }
    for (int64_t j = 0; j < d; j++)
        corr[j] = correlation(a, b, n, d, j);
    qsort(corr, (size_t)d, sizeof *corr, ascending);
    out.corr_least = corr[0];
    out.corr_median = d % 2 ? corr[d / 2] : (corr[d / 2 - 1] + corr[d / 2]) / 2;
    out.rms = sqrt(square / correction);
    out.worst = sqrt(worst / (correction / (double)n));
    out.largest = largest_difference(a, b, n * d);
    free(corr);
    return out;
}
